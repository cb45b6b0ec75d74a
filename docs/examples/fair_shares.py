#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Eight flows of four congestion controls share 200 Mbit/s, with a FIFO and with drr_fq.

scripts/fairlab mininet docs/examples/fair_shares.py [QDISC ...]
"""

import json
import sys

from fairlab.mininet import FairHost, FairLink
from mininet.net import Mininet

CONTROLS = ("reno", "cubic", "bic", "gaimd")
SECONDS = 20


def measure(qdisc: str) -> dict[str, float]:
    """The goodput of each host's two flows, in Mbit/s."""
    net = Mininet(host=FairHost, link=FairLink)
    switch, sink = net.addSwitch("s1"), net.addHost("sink")
    net.addLink(switch, sink, rate="200mbit", delay="5ms", qdisc=qdisc)
    hosts = [net.addHost(f"h{n}", cc=cc) for n, cc in enumerate(CONTROLS, 1)]
    for host in hosts:
        net.addLink(host, switch, rate="500mbit")
    net.start()
    flows = []
    for port in range(5201, 5201 + len(hosts)):
        sink.popen(["iperf3", "-s", "-1", "-p", str(port)])
    sink.cmd("sleep 0.5")
    for port, host in enumerate(hosts, 5201):
        command = ["iperf3", "-J", "-P2", f"-t{SECONDS}", "-O5", "-p", str(port), "-c", sink.IP()]
        flows.append(host.popen(command))
    rates = {}
    for cc, flow in zip(CONTROLS, flows, strict=True):
        result = json.loads(flow.communicate()[0])
        rates[cc] = result["end"]["sum_received"]["bits_per_second"] / 1e6
    net.stop()
    return rates


for qdisc in sys.argv[1:] or ("pfifo limit 500", "drr_fq"):
    shares = measure(qdisc)
    total = sum(shares.values())
    text = "  ".join(f"{cc} {rate:5.1f}" for cc, rate in shares.items())
    print(f"{qdisc:16} {text}  sum {total:5.1f} Mbit/s", flush=True)
