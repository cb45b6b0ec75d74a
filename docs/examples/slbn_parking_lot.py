#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""SLBN on a parking lot: one long flow crosses two links, each shared with a short flow.

    h1 ── r1 ══ 60 Mbit/s ══ r2 ══ 100 Mbit/s ══ r3 ── h3
                             │                    │
                             h2                   h4

Max-min: h1 -> h3 and h1 -> h2 get half of the first link, h2 -> h4 the rest of the second.

    scripts/fairlab mininet docs/examples/slbn_parking_lot.py
"""

import json
import time

from fairlab.mininet import FairHost, FairLink, SlbnRouter
from mininet.net import Mininet

FLOWS = (("h1", "h2"), ("h1", "h3"), ("h2", "h4"))
SECONDS = 10

net = Mininet(host=FairHost, link=FairLink, controller=None)
agent = {"initial": "100mbit", "idle": "2s"}
r1, r2, r3 = (net.addSwitch(f"r{n}", cls=SlbnRouter, agent=agent) for n in (1, 2, 3))
for name, router in (("h1", r1), ("h2", r2), ("h3", r3), ("h4", r3)):
    net.addLink(net.addHost(name, cc="cubic"), router, rate="1gbit")
net.addLink(r1, r2, rate="60mbit", delay="5ms")
net.addLink(r2, r3, rate="100mbit", delay="5ms")
net.start()

for port, (_, receiver) in enumerate(FLOWS, 5201):
    net[receiver].popen(["iperf3", "-s", "-1", "-p", str(port)])
time.sleep(0.5)
running = []
for port, (sender, receiver) in enumerate(FLOWS, 5201):
    command = ["iperf3", "-J", f"-t{SECONDS}", "-O3", "-p", str(port), "-c", net[receiver].IP()]
    running.append(net[sender].popen(command))
for (sender, receiver), flow in zip(FLOWS, running, strict=True):
    end = json.loads(flow.communicate()[0])["end"]
    rate = end["sum_received"]["bits_per_second"] / 1e6
    print(f"{sender} -> {receiver}: {rate:5.1f} Mbit/s", flush=True)
net.stop()
