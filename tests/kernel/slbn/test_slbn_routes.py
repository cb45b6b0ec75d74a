# SPDX-License-Identifier: GPL-2.0
"""Answers return to the links that their packets record, whatever the routes.

    node 0 -- e0 -- node 1 -- e1 -- node 2

with more devices between the nodes in each test. Rates must be exact, and no link may drop an
answer where the routes are stable.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.kernel.lib.net import VIRTUAL_TIME, Namespace, sh, wait_for
from tests.kernel.lib.slbn import MEGA, Agent, Chain, Session, agents, chain, has
from tests.kernel.lib.slbn_sessions import FAMILIES, Sessions
from tests.kernel.lib.slbn_tap import Tap, Wire, state_in, wire
from tests.kernel.lib.slbn_wire import (
    JOIN,
    LEAVE_ACK,
    ORIGIN,
    PROBE_ACK,
    ROUTER,
    SLOT_V4,
    SLOT_V6,
    Datagram,
    Packet,
    State,
    read_packet,
    read_udp,
)
from tests.kernel.lib.wireguard import End

SO_ATTACH_FILTER = 26
#: In this time links have chosen other addresses for answers, s.
ADDRESSES = 0.3
DROPS = (
    *("malformed", "bad_checksum", "fragments", "bad_key", "wrong_path", "too_many_hops"),
    *("bad_return", "unknown_link", "no_address", "overuse", "clamped"),
)


def slbn(node: Namespace, device: str, options: str) -> None:
    sh(f"tc -n {node.name} qdisc replace dev {device} root handle 1: slbn {options}")


def more_cycles(agent: Agent, number: int = 20) -> list[Session]:
    """Wait until each session has done more cycles."""
    before = agent.show()

    def done() -> bool:
        now = agent.show()
        return all(b.cycles >= a.cycles + number for a, b in zip(before, now, strict=True))

    wait_for(done)
    return agent.show()


def check_few_retries(before: list[Session], after: list[Session]) -> None:
    """None; in real time, at most one in ten cycles: a busy machine delays answers."""
    retries = sum(b.retries - a.retries for a, b in zip(before, after, strict=True))
    cycles = sum(b.cycles - a.cycles for a, b in zip(before, after, strict=True))
    assert retries * 10 <= (0 if VIRTUAL_TIME else cycles)


def check_no_drops(*states: State) -> None:
    for state in states:
        assert {name: getattr(state, name) for name in DROPS} == dict.fromkeys(DROPS, 0)


# --- a route for each direction

TRIANGLE = """set -e
    ip link add s0 netns {0} type veth peer name s2 netns {2}
    ip -n {0} addr add 10.1.0.1/24 dev s0
    ip -n {2} addr add 10.1.0.2/24 dev s2
    ip -n {0} addr add fd01::1/64 dev s0 nodad
    ip -n {2} addr add fd01::2/64 dev s2 nodad
    ip -n {0} link set s0 up
    ip -n {2} link set s2 up"""


@contextlib.contextmanager
def triangle(peer: str) -> Iterator[tuple[Chain, Agent]]:
    """The chain, and s0 -- s2 from node 0 to node 2; each device of node 0 is a link."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, _):
        sh(TRIANGLE.format(*(node.name for node in net.nodes)))
        net.attach(0, "rate 100mbit headroom 0")
        net.attach(1, "rate 60mbit headroom 0")
        slbn(net.nodes[0], "s0", "rate 30mbit headroom 0")
        slbn(net.nodes[2], "s2", "rate 10mbit headroom 0")
        yield net, source


def test_answers_by_another_path(peer: str) -> None:
    """Node 2 answers over s2: the links e0 and e1 process the answers, s0 and s2 do not."""
    with triangle(peer) as (net, source):
        first, _, last = net.nodes
        sh(f"ip -n {last.name} route replace 10.0.0.0/24 via 10.1.0.1")
        sh(f"ip -n {last.name} route replace fd00:0::/64 via fd01::1")
        # Node 2 reaches the addresses of node 1 over node 0, too.
        sh(f"ip -n {last.name} route add 10.0.1.1/32 via 10.1.0.1")
        sh(f"ip -n {last.name} route add fd00:1::1/128 via fd01::1")
        sh(f"ip -n {first.name} route replace 10.0.1.1/32 via 10.0.0.2")
        source.send("join 10.0.1.2 0", "join fd00:1::2 0", "join 10.0.1.2 10000000")
        wait_for(lambda: has(source, 25, 25, 10))
        settled = source.show()
        check_few_retries(settled, more_cycles(source))
        states = [state_in(net.nodes[n], f"e{n}") for n in range(2)]
        check_no_drops(*states)
        assert all(state.acks > 60 for state in states)
        for node, device in ((first, "s0"), (last, "s2")):
            assert state_in(node, device).acks == state_in(node, device).joins == 0


def test_session_moves_to_another_path_and_back(peer: str) -> None:
    """Each direction is rerouted under traffic; links that are left forget the sessions."""
    with triangle(peer) as (net, source):
        first, _, last = net.nodes
        source.send("join 10.0.1.2 0", "join 10.0.1.2 10000000")
        wait_for(lambda: has(source, 50, 10))
        # Answers only.
        sh(f"ip -n {last.name} route replace 10.0.1.1/32 via 10.1.0.1")
        more_cycles(source)
        assert has(source, 50, 10)
        # Packets only: their answers return over node 1.
        sh(f"ip -n {last.name} route del 10.0.1.1/32")
        sh(f"ip -n {last.name} route replace 10.1.0.1/32 via 10.0.1.1")
        sh(f"ip -n {net.nodes[1].name} route add 10.1.0.1/32 via 10.0.0.1")
        sh(f"ip -n {first.name} route replace 10.0.1.0/24 via 10.1.0.2")
        wait_for(lambda: has(source, 20, 10))
        wait_for(lambda: state_in(first, "e0").N + state_in(first, "e0").previous_N == 0)
        assert state_in(first, "s0").acks > 0
        sh(f"ip -n {first.name} route replace 10.0.1.0/24 via 10.0.0.2")
        wait_for(lambda: has(source, 50, 10))


# --- several equal paths


@pytest.mark.parametrize("paths", [2, pytest.param(4, marks=pytest.mark.tier("all"))])
def test_ecmp_in_both_directions(peer: str, paths: int) -> None:
    """A node at each end, a router on each path, and layer-3 hashing of the addresses.

    With so many sessions the default limit of control packets would drop some.
    """
    with chain(1) as net, contextlib.ExitStack() as stack:
        a, b = net.nodes
        routers = [Namespace(f"{a.name}p{n}") for n in range(paths)]
        options = "headroom 0 control 50%"
        lines = ["set -e"]
        for n, node in enumerate(routers):
            stack.callback(sh, f"ip netns del {node.name}", check=False)
            lines.append(f"""
                ip netns add {node.name}
                ip link add a{n} netns {a.name} type veth peer name l{n} netns {node.name}
                ip link add r{n} netns {node.name} type veth peer name b{n} netns {b.name}
                ip -n {a.name} addr add 10.2.{n}.1/24 dev a{n}
                ip -n {node.name} addr add 10.2.{n}.2/24 dev l{n}
                ip -n {node.name} addr add 10.3.{n}.1/24 dev r{n}
                ip -n {b.name} addr add 10.3.{n}.2/24 dev b{n}
                for device in l{n} r{n} lo; do ip -n {node.name} link set $device up; done
                ip -n {a.name} link set a{n} up
                ip -n {b.name} link set b{n} up
                ip netns exec {node.name} sysctl -q net.ipv4.ip_forward=1
                ip -n {node.name} route add 10.8.0.0/16 via 10.2.{n}.1
                ip -n {node.name} route add 10.9.0.0/16 via 10.3.{n}.2
                tc -n {a.name} qdisc add dev a{n} root handle 1: slbn rate 50mbit {options}
                tc -n {node.name} qdisc add dev r{n} root handle 1: slbn rate 20mbit {options}
                ip -n {a.name} route add 10.3.{n}.0/24 via 10.2.{n}.2
                ip -n {b.name} route add 10.2.{n}.0/24 via 10.3.{n}.1""")
        hops = " ".join(f"nexthop via 10.2.{n}.2" for n in range(paths))
        back = " ".join(f"nexthop via 10.3.{n}.1" for n in range(paths))
        lines.append(f"""
            ip -n {a.name} addr add 10.8.0.1/32 dev lo
            ip -n {a.name} route add 10.9.0.0/16 src 10.8.0.1 {hops}
            ip -n {b.name} route add 10.8.0.0/16 {back}""")
        lines += [f"ip -n {b.name} addr add 10.9.0.{n}/32 dev lo" for n in range(1, 25)]
        sh("\n".join(lines))
        with agents(peer, [a, b]) as (source, _):
            source.send(*(f"join 10.9.0.{n} 0" for n in range(1, 25)))

            def settled() -> bool:
                """Whether each path's 20 Mbit/s are shared equally by its sessions."""
                found = [state_in(node, f"r{n}") for n, node in enumerate(routers)]
                counts = [state.N + state.previous_N for state in found]
                rates = sorted(session.rate for session in source.show())
                due = sorted(20 * MEGA // n for n in counts for _ in range(n))
                return sum(counts) == 24 and rates == due

            wait_for(settled)
            used = [state_in(node, f"r{n}") for n, node in enumerate(routers)]
            # Of four paths, 24 sessions leave one unused in one of 250 runs.
            assert sum(state.N + state.previous_N > 0 for state in used) > paths / 2
            before = source.show()
            check_few_retries(before, more_cycles(source))
            check_no_drops(*used)


# --- tunnels and VRFs

#: A tunnel from node 0 to node 2, through node 1.
TUNNELS = {
    "ipip": "type ipip local {here} remote {there}",
    "gre": "type gre local {here} remote {there}",
    "vxlan": "type vxlan id 5 dstport 4789 local {here} remote {there}",
    "wireguard": "type wireguard",
}
#: The native kernel has no VXLAN and no WireGuard.
TUNNEL_MARKS = {
    "vxlan": [pytest.mark.stock],
    "wireguard": [pytest.mark.stock, pytest.mark.tier("all")],
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=TUNNEL_MARKS.get(kind, [])) for kind in TUNNELS]
)
def test_links_on_tunnel_and_below(peer: str, kind: str) -> None:
    """The tunnel's device and its underlay are links; answers return outside of the tunnel."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, _):
        first, _, last = net.nodes
        ends = {first: ("10.0.0.1", "10.0.1.2"), last: ("10.0.1.2", "10.0.0.1")}
        for number, (node, (here, there)) in enumerate(ends.items(), 1):
            sh(f"""set -e
                ip -n {node.name} link add t0 {TUNNELS[kind].format(here=here, there=there)}
                ip -n {node.name} addr add 10.5.0.{number}/24 dev t0
                ip -n {node.name} link set t0 up""")
        if kind == "wireguard":
            near, far = (End(node, "t0", here) for node, (here, _) in ends.items())
            near.configure(far)
            far.configure(near)
        slbn(first, "t0", "rate 40mbit headroom 0")
        net.attach(0, "rate 100mbit headroom 0")
        source.send("join 10.5.0.2 0", "join 10.5.0.2 0")
        wait_for(lambda: has(source, 20, 20))
        # The router behind the tunnel answers by another way.
        sh(f"ip -n {last.name} route add 10.5.0.1/32 via 10.0.1.1")
        sh(f"ip -n {net.nodes[1].name} route add 10.5.0.1/32 via 10.0.0.1")
        more_cycles(source)
        assert has(source, 20, 20)
        state = state_in(first, "t0")
        check_no_drops(state)
        assert state.acks > 40
        # The outer packets are data.
        assert state_in(first, "e0").joins == 0


@pytest.mark.stock
@pytest.mark.parametrize("edge", ["", pytest.param("edge", marks=pytest.mark.tier("all"))])
def test_link_in_vrf(peer: str, edge: str) -> None:
    """Node 1 has its devices in a VRF; the main table has no routes."""
    with chain(2) as net:
        middle = net.nodes[1]
        sh(f"""set -e
            ip -n {middle.name} link add red type vrf table 10
            ip -n {middle.name} link set red up
            ip -n {middle.name} link set w0 master red
            ip -n {middle.name} link set e1 master red
            ip -n {middle.name} addr replace fd00:0::2/64 dev w0 nodad
            ip -n {middle.name} addr replace fd00:1::1/64 dev e1 nodad""")
        net.attach(0, "rate 100mbit headroom 0")
        net.attach(1, f"rate 60mbit headroom 0 {edge}")
        with agents(peer, [net.nodes[0], net.nodes[2]]) as (source, _):
            source.send("join 10.0.1.2 0", "join fd00:1::2 0")
            wait_for(lambda: has(source, 30, 30))
            more_cycles(source)
            check_no_drops(state_in(middle, "e1"))
            assert (state_in(middle, "e1").answered > 0) == bool(edge)


def test_policy_routing_by_source(peer: str) -> None:
    """Answers leave node 2 by a table that is chosen by their source address."""
    with triangle(peer) as (net, source):
        last = net.nodes[2]
        sh(f"""set -e
            ip -n {last.name} rule add from 10.0.1.2 lookup 77
            ip -n {last.name} route add default via 10.1.0.1 table 77""")
        source.send("join 10.0.1.2 0")
        wait_for(lambda: has(source, 60))
        more_cycles(source)
        check_no_drops(state_in(net.nodes[1], "e1"))


# --- addresses


@FAMILIES
def test_address_changes_under_traffic(peer: str, v6: bool) -> None:
    """Later packets record the new address; an answer to the old one is retransmitted."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, _):
        middle = net.nodes[1]
        net.attach(0, "rate 100mbit headroom 0")
        net.attach(1, "rate 60mbit headroom 0")
        source.send("join fd00:1::2 0" if v6 else "join 10.0.1.2 0")
        wait_for(lambda: has(source, 60))
        middle.sh("sysctl -q net.ipv4.conf.all.promote_secondaries=1")
        for number in range(5):
            last = number + 9 if number else 1
            old, new = (
                f"fd00:1::{n:x}/64" if v6 else f"10.0.1.{n}/24" for n in (last, number + 10)
            )
            sh(f"""set -e
                ip -n {middle.name} addr add {new} dev e1 {"nodad" if v6 else ""}
                ip -n {middle.name} addr del {old} dev e1""")
            more_cycles(source, 5)
        assert has(source, 60)


def test_lost_replies_of_an_edge_are_not_counted_as_answered() -> None:
    """The router has an address, but no route to it, as when it has just been removed."""
    with wire(edge=1) as made:
        frame = Datagram(Packet(JOIN)).frame()
        # Rules are applied in the order of their numbers: that of own addresses is the first.
        sh(f"""set -e
            ip rule add pref 10 lookup local
            ip rule add pref 5 to {ROUTER[0]} prohibit
            ip rule del pref 0""")
        before = made.state()
        assert made.both(frame) == ([], [])
        lost = before.changes(made.state())
        assert (lost["joins"], lost["no_address"], lost.get("answered", 0)) == (1, 1, 0)
        sh("ip rule del pref 5")
        downstream, answers = made.both(frame)
        assert downstream == [] and len(answers) == 1
        changes = before.changes(made.state())
        assert (changes["joins"], changes["no_address"], changes["answered"]) == (2, 1, 1)


def test_replies_that_the_backlog_drops_are_not_counted_as_answered() -> None:
    """Without a running loopback device it drops what would be received there."""
    with wire("ip addr add 10.0.6.1/24 dev a0", edge=1) as made:
        frame = Datagram(Packet(JOIN)).frame()
        before = made.state()
        for state, answered in (("down", 0), ("up", 1)):
            sh(f"ip link set lo {state}")
            downstream, answers = made.both(frame)
            assert (len(downstream), len(answers)) == (0, answered)
            changes = before.changes(made.state())
            assert (changes.get("answered", 0), changes.get("no_address", 0)) == (answered, 0)


def test_replies_of_an_edge_are_new_packets() -> None:
    """Packet sockets see them as received from the loopback device, by no queue of the edge's."""
    queues = """
        ip link del a0
        ip link add a0 numtxqueues 4 address 02:00:00:00:00:01 \\
            type veth peer b0 address 02:00:00:00:00:02
        ip link set b0 mtu 9000 up
        ip link set a0 mtu 9000 up
        tc qdisc add dev a0 root handle 2: prio
        tc qdisc add dev a0 parent 2:2 handle 1: slbn rate 100mbit epoch 0 control 100% edge"""
    joins = [
        Datagram(Packet(JOIN, id=bytes([n]) * 16), source=f"10.0.0.{n}").frame()
        for n in range(3, 35)
    ]
    with wire(queues, on="") as made:
        tap = Tap("lo")
        accept_queue(tap.socket, 0)
        assert [len(each) for each in made.both(*joins)] == [0, len(joins)]
        replies = [read_packet(read_udp(frame)[0]) for frame in tap.frames()]
        assert {(reply.type, reply.hop) for reply in replies} == {(PROBE_ACK, 1)}
        assert [reply.id[0] for reply in replies] == list(range(3, 35))
        tap.socket.close()


NEW_PACKETS = """table inet t {
    chain received {
        type filter hook prerouting priority raw
        udp dport 49470 meta mark set 7 meta priority set 1:7
    }
    chain sent {
        type filter hook output priority filter
        meta mark 7 drop
        meta priority 1:7 drop
    }
}"""


@FAMILIES
def test_answers_are_new_packets(v6: bool) -> None:
    """They have no mark or class of the received ones, which packet sockets see unchanged."""
    with wire() as made:
        on = Sessions(made, v6)
        frame = on.datagram(on.ack()).answer().frame()
        tap = Tap("a0")
        (expected,) = made.up(frame)
        assert frame in tap.frames()
        sh(f"nft -f - <<'END'\n{NEW_PACKETS}\nEND")
        assert made.up(frame) == [expected]
        assert frame in tap.frames()
        tap.socket.close()


@FAMILIES
def test_answers_from_an_ifb_are_limited(v6: bool) -> None:
    """The kernel skips the egress hooks of the packets received, not those of their answers."""
    ifb = """
        ip link add ifb0 up type ifb
        tc qdisc add dev a0 clsact
        tc filter add dev a0 ingress matchall action mirred egress redirect dev ifb0"""
    with wire(ifb) as made:
        made.attach("s0", rate=MEGA, control=1)
        on = Sessions(made, v6)
        frame = on.datagram(on.ack()).answer().frame()
        answers = made.up(*[frame] * 100)
        limited = made.state("s0").rate_limited
        assert 0 < limited == 100 - len(answers)


def accept_queue(opened: socket.socket, queue: int) -> None:
    """Accept packets with this queue mapping only, by a filter of classic BPF."""
    load, equal, give, offset = 0x20, 0x15, 0x06, 0xFFFFF000 + 24
    program = ((load, 0, 0, offset), (equal, 0, 1, queue), (give, 0, 0, 0xFFFF), (give, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)


def test_router_without_address_counts_and_drops() -> None:
    with wire() as made:
        sh("ip addr flush dev lo scope global")
        time.sleep(ADDRESSES)
        before = made.state()
        for v6 in (False, True):
            assert made.down(Datagram(Packet(JOIN), v6).frame()) == []
        assert before.changes(made.state()) == {"no_address": 2}
        # Link-local addresses are not reachable from other routers.
        sh("ip addr add fe80::1/64 dev a0 nodad; ip addr add 169.254.0.1/16 scope link dev a0")
        time.sleep(ADDRESSES)
        for v6 in (False, True):
            assert made.down(Datagram(Packet(JOIN), v6).frame()) == []
        assert before.changes(made.state()) == {"no_address": 4}
        # The address of the device is preferred.
        sh("ip addr add 10.0.7.1/32 dev s0; ip addr add 10.0.6.1/24 dev a0")
        time.sleep(ADDRESSES)
        join = Packet(JOIN, id=bytes([9]) * 16)
        (frame,) = made.down(Datagram(join).frame())
        # Tags are masked by session.
        came = replace(join, hop=1, B=1, bottleneck=0, tags=read_packet(read_udp(frame)[0]).tags)
        came = replace(came, returns={1: (1, "10.0.6.1")})
        assert frame == Datagram(came).frame()


# --- forged answers


def answered(made: Wire, v6: bool, **changes: Any) -> tuple[dict[str, int], list[bytes]]:
    """Send an answer of a counted session, with changes; returns what changed, and the answers."""
    before = made.state()
    packet = Packet(PROBE_ACK, id=bytes([3]) * 16, hop=1, tags={0: before.tag}, B=1, bottleneck=0)
    frames = made.up(Datagram(replace(packet, **changes), v6).answer().frame())
    return before.changes(made.state()), frames


@FAMILIES
def test_forged_link_numbers_are_dropped(v6: bool) -> None:
    with wire() as made:
        made.down(Datagram(Packet(JOIN, id=bytes([3]) * 16), v6).frame())
        for number in (0, 2, 255, 65535):
            returns = {1: (number, ROUTER[v6])}
            assert answered(made, v6, returns=returns) == ({"unknown_link": 1}, [])
            assert answered(made, v6, returns=returns, type=LEAVE_ACK) == ({"unknown_link": 1}, [])
        # A number is not used again when a link is replaced.
        sh("tc qdisc del dev a0 root")
        made.attach()
        assert answered(made, v6) == ({"unknown_link": 1}, [])


#: No route leads there, or not to one host.
BAD = {
    False: ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.8.255", "192.0.2.1"],
    True: ["::", "::1", "ff02::1", "fe80::1", "::ffff:10.0.8.2", "2001:db8::1"],
}


@FAMILIES
@pytest.mark.parametrize("kind", [PROBE_ACK, LEAVE_ACK])
def test_forged_return_addresses_are_dropped(v6: bool, kind: int) -> None:
    with wire() as made:
        sh("ip addr add 10.0.8.1/24 dev s0")
        made.down(Datagram(Packet(JOIN, id=bytes([3]) * 16), v6).frame())
        for address in BAD[v6]:
            changes = answered(made, v6, type=kind, returns={0: (0, address)})
            assert changes == ({"bad_return": 1}, []), address
        # To another address of the router than the one recorded.
        other = {1: (1, "fd00:9::7" if v6 else "10.0.9.7")}
        assert answered(made, v6, type=kind, returns=other) == ({"bad_return": 1}, [])


@FAMILIES
def test_answers_are_not_longer_than_received(v6: bool) -> None:
    with wire() as made:
        made.down(Datagram(Packet(JOIN, id=bytes([3]) * 16), v6).frame())
        packet = Packet(PROBE_ACK, id=bytes([3]) * 16, hop=1, tags={0: made.state().tag}, B=1)
        received = Datagram(replace(packet, bottleneck=0, trailer=bytes(500)), v6).answer()
        (frame,) = made.up(received.frame())
        assert len(frame) == len(received.frame()) - 500


@FAMILIES
def test_slots_of_the_other_ip_version_are_malformed(v6: bool) -> None:
    with wire() as made:
        before = made.state()
        wrong = SLOT_V4 if v6 else SLOT_V6
        returns = {0: (0, ORIGIN[not v6])}
        packet = Packet(JOIN, slots=4, slot_length=wrong, returns=returns)
        assert made.down(Datagram(packet, v6).frame()) == []
        assert before.changes(made.state()) == {"malformed": 1}


# --- the router's own rules, and hosts


def test_rules_for_received_packets_apply() -> None:
    """A rule of the input chain drops answers before the link sees them."""
    with wire() as made:
        on = Sessions(made)
        before = made.state()
        sh("nft add table ip t; nft add chain ip t c '{ type filter hook input priority 0; }'")
        sh("nft add rule ip t c udp dport 49470 drop")
        assert made.up(on.datagram(on.ack()).answer().frame()) == []
        assert before == made.state()
        sh("nft flush ruleset")
        assert len(made.up(on.datagram(on.ack()).answer().frame())) == 1


def icmp_error(v6: bool, kind: int, sport: int = 49470, octets: int = 28) -> bytes:
    """An ICMP error to the source of a packet that quotes it."""
    quoted = Datagram(Packet(JOIN).pack(), v6, sport=sport).ip()[: octets + 20 * v6]
    content = bytes([kind, 1]) + bytes(6) + quoted
    carrier = Datagram(content, v6).frame()
    at = 14 + (40 if v6 else 20)
    head = bytearray(carrier[:at])
    head[14 + (6 if v6 else 9)] = 58 if v6 else 1
    return bytes(head) + content


@FAMILIES
def test_edge_drops_icmp_errors_about_control_packets(v6: bool) -> None:
    errors, others = ((1, 2, 3, 4), (128, 129, 136)) if v6 else ((3, 4, 5, 11, 12), (0, 8, 13))
    with wire(edge=1) as made:
        before = made.state()
        for number, kind in enumerate(errors, 1):
            for octets in (28, 100):
                assert made.down(icmp_error(v6, kind, octets=octets)) == []
            assert before.changes(made.state()) == {"icmp_dropped": 2 * number}
        before = made.state()
        frames = [icmp_error(v6, kind) for kind in others]
        frames += [icmp_error(v6, kind, sport=9) for kind in errors]
        frames += [icmp_error(v6, kind, octets=20) for kind in errors]
        assert made.down(*frames) == frames
        assert made.state() == before
        made.change(edge=0)
        frames = [icmp_error(v6, kind) for kind in errors]
        assert made.down(*frames) == frames


def test_numbers_differ_and_are_reported(peer: str) -> None:
    with chain(1) as net:
        node = net.nodes[0]
        net.attach(0, "rate 10mbit")
        sh(f"ip -n {node.name} link add d0 type dummy")
        slbn(node, "d0", "rate 10mbit")
        text = node.sh("slbnctl link show d0").stdout
        assert text.startswith("d0: slbn 1: number 2 rate 10Mbit")
