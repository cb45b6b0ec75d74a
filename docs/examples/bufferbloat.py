#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The delay of a ping beside a TCP flow, in a long FIFO and in fair queues.

scripts/fairlab mininet docs/examples/bufferbloat.py [QDISC ...]
"""

import sys
from functools import partial

from fairlab.mininet import FairHost, FairLink
from mininet.net import Mininet
from mininet.topo import Topo

QDISCS = ("pfifo limit 1000", "fq_codel", "drr_fq")


class Dumbbell(Topo):
    """Two hosts, two switches, and a bottleneck of 20 Mbit/s; the round-trip time is 20 ms."""

    def build(self, qdisc: str) -> None:
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), left, rate="1gbit")
        self.addLink(self.addHost("h2"), right, rate="1gbit")
        self.addLink(left, right, rate="20mbit", delay="10ms", qdisc=qdisc)


def measure(qdisc: str) -> str:
    """The ping's round-trip times (ms) while TCP sends as fast as it can."""
    net = Mininet(Dumbbell(qdisc=qdisc), host=partial(FairHost, cc="cubic"), link=FairLink)
    net.start()
    h1, h2 = net.get("h1", "h2")
    server = h2.popen("iperf3 -s -1")
    h1.cmd("sleep 0.5; iperf3 -t 8 -c", h2.IP(), ">/dev/null &")
    ping = h1.cmd("sleep 3; ping -q -i 0.1 -c 40", h2.IP())
    server.wait()
    net.stop()
    return ping.strip().splitlines()[-1]


for qdisc in sys.argv[1:] or QDISCS:
    print(f"{qdisc:16} {measure(qdisc)}", flush=True)
