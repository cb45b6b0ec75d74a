# SPDX-License-Identifier: GPL-2.0
"""SLBN beside what forwards packets past the stack: ifb and tc redirects.

    node 0 -- e0 -- node 1 -- e1 -- node 2

A link that is bypassed shows in the rates: its capacity is the smallest.
"""

from __future__ import annotations

import json
import socket

import pytest

from tests.kernel.net import wait_for
from tests.kernel.slbn import MEGA, Agent, agents, chain
from tests.kernel.slbn_tap import state_in
from tests.kernel.slbn_wire import JOIN, PORT, Packet


def has(agent: Agent, *rates: float) -> bool:
    return [session.rate for session in agent.show()] == [int(n * MEGA) for n in rates]


def shaped(device: str, rate: str) -> str:
    """Commands for a link with a shaper."""
    return f"""
        tc qdisc add dev {device} root handle 1: tbf rate {rate} burst 20kb limit 1mb
        tc qdisc add dev {device} parent 1:1 handle 2: slbn rate {rate} headroom 0"""


def test_ifb_is_a_link_for_the_downlink(peer: str) -> None:
    """Received packets are redirected to an ifb with a shaper; answers reach its link."""
    with chain(1) as net, agents(peer, net.nodes) as (source, _):
        net.attach(0, "rate 100mbit headroom 0")
        net.nodes[1].sh(f"""set -e
            ip link add i0 type ifb
            ip link set i0 up {shaped("i0", "30mbit")}
            tc qdisc add dev w0 clsact
            tc filter add dev w0 ingress matchall action mirred egress redirect dev i0""")
        source.send("join 10.0.0.2 0", "join fd00:0::2 0", "join 10.0.0.2 4000000")
        wait_for(lambda: has(source, 13, 13, 4))
        shown = state_in(net.nodes[1], "i0")
        assert shown.joins >= 3 and shown.acks > 0
        assert shown.no_address == shown.wrong_path == shown.bad_return == 0
        source.send("leave 0")
        wait_for(lambda: state_in(net.nodes[1], "i0").N <= 3)


def redirected(net_device: str, to: str) -> str:
    return f"""
        tc qdisc add dev {net_device} clsact
        tc filter add dev {net_device} ingress protocol ip flower ip_proto udp dst_port 49470 \
            dst_ip 10.0.1.2 action mirred egress redirect dev {to}"""


def test_nested_link_sees_packets_that_tc_redirects(peer: str) -> None:
    """tc-mirred(8) skips netfilter's egress hook, but not the qdisc."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, _):
        _, router, last = net.nodes
        # The redirected frame keeps its addresses: node 2 accepts those of w0.
        address = json.loads(router.sh("ip -j link show w0").stdout)[0]["address"]
        last.sh(f"ip link set w1 address {address}")
        net.attach(0, "rate 100mbit headroom 0")
        router.sh(f"set -e {shaped('e1', '20mbit')} {redirected('w0', 'e1')}")
        source.send("join 10.0.1.2 0")
        wait_for(lambda: has(source, 20))
        assert state_in(router, "e1").joins > 0
        assert "Sent 0 bytes" not in router.sh("tc -s filter show dev w0 ingress").stdout


FAMILIES = (socket.AF_INET, socket.AF_INET6)


def control_socket(family: socket.AddressFamily) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM)
    opened.setblocking(False)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    opened.bind(("", PORT))
    return opened


def test_edge_drops_packets_of_hosts_that_return_from_ifb(peer: str) -> None:
    """The kernel skips the ingress hook for them; hosts send to this router and beyond it."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("""set -e
            tc qdisc add dev w0 root slbn rate 10mbit edge
            ip link add i0 type ifb
            ip link set i0 up
            tc qdisc add dev w0 clsact
            tc filter add dev w0 ingress matchall action mirred egress redirect dev i0""")
        addresses = ("10.0.0.2", "10.0.1.2", "fd00:0::2", "fd00:1::2")
        received = []
        for node in (router, last):
            with node.entered():
                received += [control_socket(family) for family in FAMILIES]
        with host.entered():
            for number, address in enumerate(addresses, 1):
                with control_socket(FAMILIES[":" in address]) as sender:
                    sender.sendto(
                        Packet(JOIN).pack(bytes(32 if ":" in address else 8)), (address, PORT)
                    )
                wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
        for each in received:
            with each, pytest.raises(BlockingIOError):
                each.recv(2000)
