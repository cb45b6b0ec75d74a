# SPDX-License-Identifier: GPL-2.0
"""A workload for test_exact.py: SLBN on two routers, built by Mininet.

The routers' agents measure flows of iperf3 by connection tracking, and pace them by BPF.
"""

import json
import subprocess
import time
from pathlib import Path

from fairlab.mininet import FairHost, FairLink, SlbnRouter
from mininet.net import Mininet

FLOWS = (("h1", "h3"), ("h2", "h3"), ("h3", "h1"))

net = Mininet(host=FairHost, link=FairLink, controller=None)
agent = {"initial": "100mbit", "idle": "2s"}
r1, r2 = (net.addSwitch(f"r{n}", cls=SlbnRouter, agent=agent) for n in (1, 2))
for name, router in (("h1", r1), ("h2", r1), ("h3", r2)):
    net.addLink(net.addHost(name, cc="cubic"), router, rate="1gbit")
net.addLink(r1, r2, rate="60mbit", delay="5ms", loss=0.05)
net.start()
for port, (_, receiver) in enumerate(FLOWS, 5201):
    net[receiver].popen(["iperf3", "-s", "-1", "-p", str(port)])
time.sleep(0.5)
running = []
for port, (sender, receiver) in enumerate(FLOWS, 5201):
    command = ["iperf3", "-J", "-t2", "-p", str(port), "-c", net[receiver].IP()]
    running.append(net[sender].popen(command))
for (sender, receiver), flow in zip(FLOWS, running, strict=True):
    report = flow.communicate()[0]
    Path(f"/out/{sender}-{receiver}.json").write_bytes(report)
    end = json.loads(report)["end"]
    print(f"{sender} -> {receiver}: {end['sum_received']['bits_per_second']:.0f} bit/s")
print(subprocess.check_output(["bpftool", "prog", "list"], text=True))
print(time.time_ns())
net.stop()
