# SPDX-License-Identifier: GPL-2.0
"""SLBN beside what forwards packets past the stack: ifb, tc redirects, flowtables.

    node 0 -- e0 -- node 1 -- e1 -- node 2

A link that is bypassed shows in the rates: its capacity is the smallest.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.kernel.net import Namespace, wait_for
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


#: Received packets of an edge pass an ifb.
IFB = """set -e
    tc qdisc add dev w0 root slbn rate 10mbit edge
    ip link add i0 type ifb
    ip link set i0 up
    tc qdisc add dev w0 clsact
    tc filter add dev w0 ingress matchall action mirred egress redirect dev i0"""


@contextlib.contextmanager
def receivers(*nodes: Namespace) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = []
        for node in nodes:
            with node.entered():
                made += [stack.enter_context(control_socket(family)) for family in FAMILIES]
        yield made


def check_dropped(host: Namespace, router: Namespace, received: list[socket.socket]) -> None:
    """Hosts send to the router and beyond it; only an edge on w0 notices."""
    with host.entered():
        for number, address in enumerate(ADDRESSES, 1):
            with control_socket(FAMILIES[":" in address]) as sender:
                sender.sendto(
                    Packet(JOIN).pack(bytes(32 if ":" in address else 8)), (address, PORT)
                )
            wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
    for each in received:
        with pytest.raises(BlockingIOError):
            each.recv(2000)


ADDRESSES = ("10.0.0.2", "10.0.1.2", "fd00:0::2", "fd00:1::2")


def test_edge_drops_packets_of_hosts_that_return_from_ifb(peer: str) -> None:
    """The kernel skips the ingress hook for them."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


def move_addresses(node: Namespace, old: str, new: str) -> None:
    number = old[1:]
    last = 1 if old[0] == "e" else 2
    node.sh(f"""set -e
        ip addr flush dev {old} scope global
        ip link set {new} up
        ip addr add 10.0.{number}.{last}/24 dev {new}
        ip addr add fd00:{number}::{last}/64 dev {new} nodad""")


def test_edge_drops_packets_of_its_vlans_that_return_from_ifb(peer: str) -> None:
    with chain(2) as net:
        host, router, last = net.nodes
        for node, device in ((host, "e0"), (router, "w0")):
            node.sh(f"ip link add link {device} name v5 type vlan id 5")
            move_addresses(node, device, "v5")
        host.sh(
            "ip route replace 10.0.1.0/24 via 10.0.0.2; ip route replace fd00:1::/64 via fd00:0::2"
        )
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


@pytest.mark.tier("all")
@pytest.mark.stock
@pytest.mark.parametrize("master", ["bridge", "vrf table 10"])
def test_edge_drops_packets_of_its_master_that_return_from_ifb(peer: str, master: str) -> None:
    """User-Mode Linux has no VRF, and no netfilter hooks of bridges."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh(f"ip link add m0 type {master}; ip link set m0 up; ip link set w0 master m0")
        if master == "bridge":
            move_addresses(router, "w0", "m0")
        else:
            router.sh("ip link set e1 master m0; ip addr add fd00:0::2/64 dev w0 nodad")
            router.sh("ip addr add fd00:1::1/64 dev e1 nodad")
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


def test_shaped_ifb_drops_packets_of_hosts(peer: str) -> None:
    """Without a filter before the ifb, its link does not count their sessions."""
    with chain(1) as net:
        host, router = net.nodes
        router.sh(IFB + shaped("i0", "30mbit"))
        with host.entered(), control_socket(socket.AF_INET) as sender:
            for number in range(1, 4):
                sender.sendto(Packet(JOIN).pack(bytes(8)), ("10.0.0.2", PORT))
                wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
        assert state_in(router, "i0").joins == 0


def test_nat_does_not_make_control_packets_for_hosts(peer: str) -> None:
    with chain(2) as net:
        host, router, _ = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        net.attach(1, "rate 10mbit")
        router.sh(f"""set -e
            nft add table ip t
            nft add chain ip t c '{{ type nat hook postrouting priority 100; }}'
            nft add rule ip t c udp dport {PORT} snat to 10.0.1.1:{PORT}""")
        with host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            # Data establishes the translation.
            for number, data in enumerate((b"data", Packet(JOIN).pack(bytes(8)))):
                sender.sendto(data, ("10.0.1.2", PORT))
                wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
        state = state_in(router, "e1")
        assert (state.joins, state.malformed) == (0, 0)


# --- flowtables


def offload(router: Namespace, devices: str) -> None:
    """Forward all UDP flows by a software flowtable."""
    script = f"""
        table inet t {{
            flowtable f {{ hook ingress priority 0; devices = {{ {devices} }}; counter; }}
            chain c {{
                type filter hook forward priority 0;
                meta l4proto udp counter flow add @f
            }}
        }}"""
    router.sh("sysctl -q net.netfilter.nf_conntrack_acct=1")
    with router.entered():
        subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)


def counted(router: Namespace, command: str, pattern: str) -> int:
    found = re.search(pattern, router.sh(command).stdout)
    return int(found[1]) if found else 0


def not_offloaded(router: Namespace) -> int:
    """The number of packets that passed the forward chain."""
    return counted(router, "nft list chain inet t c", r"packets (\d+)")


def offloaded(router: Namespace, sport: int) -> int:
    """The packets that conntrack counts for an offloaded flow."""
    command = "cat /proc/net/nf_conntrack"
    return counted(router, command, rf"sport={sport} .*?packets=(\d+).*OFFLOAD")


@pytest.mark.tier("all")
@pytest.mark.stock
def test_software_flowtable_does_not_bypass_links(peer: str) -> None:
    """Control packets are offloaded as data is, and pass the link's hook; conntrack counts data."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, last):
        router = net.nodes[1]
        net.attach(0, "rate 100mbit headroom 0")
        net.attach(1, "rate 20mbit headroom 0")
        offload(router, "w0, e1")
        source.send("join 10.0.1.2 0", "join fd00:1::2 5000000")
        wait_for(lambda: has(source, 15, 5))
        before, slow = state_in(router, "e1").probes, not_offloaded(router)
        wait_for(lambda: state_in(router, "e1").probes > before + 50)
        assert not_offloaded(router) - slow < 5
        assert offloaded(router, PORT) > 20
        with net.nodes[0].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("10.0.0.1", 1000))
            for _ in range(100):
                sender.sendto(b"data", ("10.0.1.2", 9))
        wait_for(lambda: offloaded(router, 1000) == 100)
        assert not_offloaded(router) - slow < 10
        assert has(source, 15, 5)


@pytest.mark.tier("all")
@pytest.mark.stock
def test_edge_drops_control_packets_in_offloaded_flows(peer: str) -> None:
    """Hosts let the router offload a flow with the ports of control packets first."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        offload(router, "w0, e1")
        with (
            receivers(last) as (received, _),
            host.entered(),
            control_socket(socket.AF_INET) as sender,
        ):
            for _ in range(10):
                sender.sendto(b"data", ("10.0.1.2", PORT))
            wait_for(lambda: offloaded(router, PORT) == 10)
            sender.sendto(Packet(JOIN).pack(bytes(8)), ("10.0.1.2", PORT))
            wait_for(lambda: state_in(router, "w0").from_hosts == 1)
            assert received.recv(2000) == b"data"
