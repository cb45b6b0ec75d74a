# SPDX-License-Identifier: GPL-2.0
"""CoDel in slbnd's pacer: the delay of a flow's own packets (userspace/slbnd/enforcement/codel.h).

    node 0 ---- node 1 ---- node 2
                     e1: fq below slbn, which paces; w1: acknowledgements are delayed

The delay of TCP is its smoothed round-trip time less that of the empty path.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.kernel.lib.enforcer import enforcer, fq_below_slbn
from tests.kernel.lib.senders import ROOM, RTT, SEGMENT, Sender, Traffic, sender, tcp_info
from tests.kernel.lib.slbn import MEGA, Chain, chain

pytestmark = pytest.mark.virtual

RATE = 20 * MEGA
#: Round-trip time without queues [ms].
ROUND_TRIP = 10

#: Offset in struct tcp_info of delivered CE marks.
DELIVERED_CE = 196


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(2) as made:
        fq_below_slbn(made)
        made.nodes[2].sh(f"tc qdisc add dev w1 root netem delay {ROUND_TRIP}ms limit 10000")
        yield made


def enable_ecn(net: Chain) -> None:
    for node in (net.nodes[0], net.nodes[2]):
        node.sysctl("tcp_ecn", 1)


def watch_tcp(flow: Sender, traffic: Traffic, seconds: float) -> tuple[float, float]:
    """The rate of a flow [bit/s], and the median of its delay in queues [ms]."""
    received, began, delays = flow.received, time.monotonic(), []
    while time.monotonic() < began + seconds:
        traffic.run(0.1)
        delays.append(tcp_info(flow, RTT) / 1000 - ROUND_TRIP)
    took = time.monotonic() - began
    return (flow.received - received) * 8 / took, statistics.median(delays)


@pytest.mark.parametrize("ecn", [pytest.param(False, marks=pytest.mark.tier("all")), True])
def test_tcp_has_its_rate_and_little_delay(net: Chain, enforce_try: str, ecn: bool) -> None:
    """CUBIC; with ECN, over IPv6, the program marks packets and drops none."""
    if ecn:
        enable_ecn(net)
    flow = sender(net, 0, 2, six=ecn)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(flow.session, RATE)
        traffic = Traffic(flow)
        # Slow start, and the drops and marks after it.
        traffic.settle(2)
        before = made.read(flow.session)
        rate, delay = watch_tcp(flow, traffic, 2.5)
        use = made.read(flow.session)
        drops, marks = use.drops - before.drops, use.marks - before.marks
        print(f"{rate / RATE:.3f} of the rate, delay {delay:.1f} ms, {drops} drops, {marks} marks")
        assert 0.97 < rate / RATE < 1.01
        assert delay < 15
        if ecn:
            assert marks > 0 and drops == 0
            assert use.marks // 2 <= tcp_info(flow, DELIVERED_CE)
        else:
            assert marks == 0 and drops > 0


def test_last_packet_of_a_flow_is_not_dropped(net: Chain, enforce_try: str) -> None:
    """Flows that end about an interval of CoDel (100 ms) after they began, with all data queued.

    A time-out takes 200 ms or more.
    """
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        drops = 0
        for segments in range(38, 62):
            flow = sender(net, 0, 2)
            made.set(flow.session, 5 * MEGA)
            for end in (flow.near, flow.far):
                end.setblocking(True)
            began = time.monotonic()
            flow.near.sendall(bytes(segments * 1448))
            flow.near.shutdown(socket.SHUT_WR)
            while flow.far.recv_into(ROOM):
                pass
            took = time.monotonic() - began - segments * SEGMENT * 8 / (5 * MEGA)
            drops += made.read(flow.session).drops
            # The retransmission of another packet takes a probe (TLP) at most, two round trips.
            assert took < 0.2, (segments, took)
            made.remove(flow.session)
            flow.abort()
        # In longer ones a packet before the last is dropped.
        assert drops


@pytest.mark.parametrize("excess", [False, True])
def test_udp_above_its_rate(net: Chain, enforce_try: str, excess: bool) -> None:
    """4 Mbit/s at rates from 1 to 8: dropped, or sent in what the default class leaves, in order.

    A mouse in the default class does not wait for the excess.
    """
    # The first packet waits for ARP's answer.
    net.nodes[0].sh("ping -q -c 1 10.0.1.2")
    flow = sender(net, 0, 2, udp=4 * MEGA)
    mouse = sender(net, 0, 2, udp=MEGA // 2)
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_unassigned(4 * MEGA)
        made.set_excess(excess)
        made.open("e1")
        made.set(flow.session, 5 * MEGA)
        traffic = Traffic(flow, mouse)
        for rate in (8, 2, 6, 3, 1, 5, 2, 4, 1, 8):
            made.set(flow.session, rate * MEGA)
            traffic.run(0.2)
        time.sleep(0.3)
        for each in (flow, mouse):
            each.receive()
        lost, missed = (each.sent - each.received // each.on_wire for each in (flow, mouse))
        longest, waited = max(flow.delays) / 1e6, max(mouse.delays) / 1e6
        use, pacer = made.read(flow.session), made.read_pacer()
        print(f"{lost} of {flow.sent} lost, delay {longest:.1f} ms; mouse {waited:.1f} ms; {pacer}")
        assert (flow.reordered, mouse.reordered, missed) == (0, 0, 0)
        assert lost == use.drops == pacer.drops
        assert waited < 10
        if excess:
            assert lost == 0 and pacer.excess > 100
            assert longest < 60
        else:
            assert lost > 100 and pacer.excess == 0
