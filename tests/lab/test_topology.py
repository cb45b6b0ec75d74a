# SPDX-License-Identifier: GPL-2.0
"""The dumbbell as data: addresses, interface names, and which interfaces have queues."""

import ipaddress

from fairlab.model import background, topology
from fairlab.model.background import Background
from fairlab.model.network import Bottleneck, Delay, Pacing, ends_with
from fairlab.model.qdisc import Buffer, parse_qdisc
from fairlab.model.scenario import parse_flows
from fairlab.net.network import queue_commands
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import scenario

MANY = topology.build(scenario(flows=parse_flows("100*reno"), background=Background(0.5)))


def test_names_and_addresses_are_unique_and_valid() -> None:
    everything = MANY.ends
    assert len(everything) == 2 * (2 * 101 + 1)
    for values in (
        [end.interface for end in everything],
        [end.address for end in everything],
        [end.mac for end in everything],
    ):
        assert len(set(values)) == len(values)
    assert max(len(end.interface) for end in everything) <= 15  # IFNAMSIZ
    for link in MANY.links:
        nets = {ipaddress.ip_interface(f"{e.address}/24").network for e in (link.a, link.b)}
        assert len(nets) == 1
    links = [ipaddress.ip_interface(f"{link.a.address}/24").network for link in MANY.links]
    assert len(set(links)) == len(links)


def test_routes_lead_to_the_other_end() -> None:
    """Forward hop by hop, as the kernel does, from each sender to its receiver and back."""
    owner = {end.address: end.node for end in MANY.ends}

    def next_hop(node: str, to: ipaddress.IPv4Address) -> str:
        for end, _ in MANY.ends_of(node):
            if to in ipaddress.ip_interface(f"{end.address}/24").network:
                return owner[str(to)]
        for destination, via in MANY.routes[node]:
            if destination == "default" or to in ipaddress.ip_network(destination):
                return owner[via]
        raise AssertionError(f"{node} has no route to {to}")

    def path(node: str, address: str) -> list[str]:
        hops = [node]
        while owner[address] != hops[-1]:
            hops.append(next_hop(hops[-1], ipaddress.IPv4Address(address)))
        return hops

    assert MANY.background
    for flow in (*MANY.paths, MANY.background):
        source = next(end.address for end, _ in MANY.ends_of(flow.sender))
        assert path(flow.sender, flow.address) == [
            flow.sender,
            "left",
            "right",
            flow.receiver,
        ]
        assert path(flow.receiver, source) == [
            flow.receiver,
            "right",
            "left",
            flow.sender,
        ]


def test_delays_are_neither_at_hosts_nor_at_the_bottleneck() -> None:
    for end in MANY.ends:
        if end.interface == "sb-left":
            assert end.queue == Pacing(10**6)
        elif end.node in MANY.hosts or end.interface == "right-left":
            assert end.queue is None
        elif end is MANY.bottleneck:
            assert isinstance(end.queue, Bottleneck)
        else:
            assert isinstance(end.queue, Delay)


@given(st.integers(0, 10**7))
def test_delays_of_a_path_add_up_to_the_rtt(rtt: int) -> None:
    network = topology.build(scenario(rtt=rtt, buffer=Buffer("100p", packets=100)))
    delays = [
        end.queue.time
        for end in network.ends
        if isinstance(end.queue, Delay) and "1" in end.interface
    ]
    assert len(delays) == 2 and sum(delays) == rtt


@given(st.integers(10**6, 10**9), st.integers(0, 10**6), st.sampled_from([576, 1500, 9000]))
def test_netem_limits_exceed_packets_in_flight(rate: int, rtt: int, mtu: int) -> None:
    one = scenario(rate=rate, rtt=rtt, mtu=mtu, buffer=Buffer("100p", packets=100))
    in_flight = rate * rtt / 2 / 8e6 / one.frame
    needed = topology.netem_limit_needed(one)
    assert needed > 2 * in_flight
    for queue in (end.queue for end in topology.build(one).ends):
        if isinstance(queue, Delay):
            assert queue.limit >= needed


def test_tc_commands_of_the_bottleneck() -> None:
    bottleneck = topology.build(scenario()).bottleneck
    assert queue_commands(bottleneck, 1514) == [
        "qdisc replace dev left-right root handle 1:"
        " tbf rate 50000000bit burst 25000 limit 375000",
        "qdisc replace dev left-right parent 1:1 handle 10: bfifo limit 375000",
    ]
    packets = scenario(buffer=Buffer("100p", packets=100))
    assert queue_commands(topology.build(packets).bottleneck, 1514)[1].endswith("pfifo limit 100")
    marking = queue_commands(topology.build(scenario(ecn=True)).bottleneck, 1514)[1]
    assert "red limit 375000 min 62500 max 187500 avpkt 1514" in marking
    assert marking.endswith(" ecn")


def test_small_buffer_gets_small_burst() -> None:
    """tbf's burst adds to the buffer: it must not exceed a small one."""
    small = scenario(buffer=Buffer("20p", packets=20), mtu=1000)
    assert topology.burst(small) == 2 * 1014
    assert topology.burst(scenario()) == 25_000


def test_qdiscs_are_on_the_requested_links() -> None:
    texts = ("drr_fq,limit=20p", "reverse:fq_codel", "senders:fq", "receivers:pfifo,limit=9")
    what = scenario(qdiscs=tuple(map(parse_qdisc, texts)), background=Background(0.5))
    network = topology.build(what)
    commands = [c for end in network.ends for c in queue_commands(end, 1514)]
    configured = {c.split()[3]: c.partition(": ")[2] for c in commands if "netem" not in c}
    assert configured == {
        "left-right": "drr_fq limit 20",
        "right-left": "fq_codel",
        "s1-left": "fq",
        "s2-left": "fq",
        "d1-right": "pfifo limit 9",
        "d2-right": "pfifo limit 9",
        "sb-left": "fq maxrate 1000000bit quantum 1514 initial_quantum 1514"
        " limit 100000 flow_limit 10000",
    }
    for qdisc in what.qdiscs:
        found = [end.interface for end in ends_with(network, qdisc)]
        assert all(configured[interface] == str(qdisc) for interface in found)
        assert len(found) == (1 if qdisc.link in ("bottleneck", "reverse") else 2)


def test_poisson_packets_are_not_paced() -> None:
    what = scenario(background=Background(0.5, background.PACKETS))
    assert {end.interface: end.queue for end in topology.build(what).ends}["sb-left"] is None
