# SPDX-License-Identifier: GPL-2.0
"""SLBN with VLANs, bridges, bonds, macvlans and offloads.

Each link processes a session's packets exactly once per direction and changes nothing else;
checksums stay valid. So each case sends a Join downstream and its ProbeAck upstream, compares all
octets with the expected ones, and checks the ledgers of all links on the path.
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.kernel.lib.net import Pair, connection, wait_for
from tests.kernel.lib.slbn import MEGA, agents, chain, key_option
from tests.kernel.lib.slbn_tap import FULL_CODE, FULL_RATE, Tap, Vlans, Wire, state_in, wire
from tests.kernel.lib.slbn_wire import (
    ETH_P_8021AD,
    ETH_P_8021Q,
    JOIN,
    MAGIC,
    PORT,
    PROBE_ACK,
    ROUTER,
    Datagram,
    Packet,
    is_authentic,
    now,
    read_addresses,
    read_packet,
    read_udp,
)

SOL_UDP, UDP_SEGMENT = 17, 103
KEY = bytes(range(16))
MAC_BRIDGE = bytes.fromhex("02000000000b")
FAMILIES = pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
JOINED_IN_F = {"joins": 1, "new_sessions": 1, "N": 1}
JOINED = {"joins": 1, "new_sessions": 1, "N": 1, "NR": 1}
GRANTED = {"acks": 1, "A": FULL_RATE}


def check_path(made: Wire, links: list[str], v6: bool, **to: Any) -> None:
    """Check a session over these links, in downstream order, all of the same rate.

    TO is fields of the answer that the first of the routers below sends.
    """
    vlans = made.vlans
    tags = made.tags(bytes([3]) * 16)
    before = {link: made.state(link) for link in links}
    # Links are numbered in the order in which they were made, and pass answers on to each other.
    returns = {hop + 1: (hop + 1, ROUTER[v6]) for hop in range(len(links))}
    join = Packet(JOIN, id=bytes([3]) * 16)
    sent = Datagram(join, v6)
    # The Join: each link puts the session in R.
    last = len(links) - 1
    came = replace(join, hop=last + 1, B=2 ** len(links) - 1, bottleneck=last, tags=tags)
    came = replace(came, returns=returns)
    below = replace(sent, payload=came, vlans=vlans)
    assert made.down(sent.frame()) == [below.frame()]
    for link in links:
        assert before[link].changes(made.state(link)) == JOINED

    # The ProbeAck: the last link is the bottleneck, the others move the session to F.
    ack = replace(Datagram(came.reply(), v6, vlans=vlans).answer(), **to)
    given = replace(came.reply(), hop=0, B=1 << last, bw=100 * MEGA, g=FULL_RATE)
    given = replace(given, codes=dict.fromkeys(range(last + 1), FULL_CODE))
    assert made.up(ack.frame()) == [Datagram(given, v6).sent_on().frame()]
    for link in links[:-1]:
        assert before[link].changes(made.state(link)) == {**JOINED_IN_F, **GRANTED}
    assert before[links[-1]].changes(made.state(links[-1])) == {**JOINED, **GRANTED}

    # Data packets pass unchanged.
    data = Datagram(bytes(range(256)), v6, sport=PORT, dport=9)
    assert made.down(data.frame()) == [replace(data, vlans=vlans).frame()]
    assert made.received(replace(data, vlans=vlans).back().frame()) == [data.back().frame()]


# --- VLANs

VLAN = "\nip link add link {} name {} {} type vlan proto {} id {} {}\nip link set {} up"
ONE = VLAN.format("a0", "v5", "", "802.1Q", 5, "", "v5")
OUTER = VLAN.format("a0", "v7", "", "802.1ad", 7, "", "v7")
INNER = VLAN.format("v7", "v75", "", "802.1Q", 5, "", "v75")
TAG5, TAG7 = (ETH_P_8021Q, 5), (ETH_P_8021AD, 7)

#: Shell commands, device to send by, VLANs of its frames, and links on the path.
TAGGED: dict[str, tuple[str, str, Vlans, list[str]]] = {
    "on the trunk": (ONE, "v5", (TAG5,), ["a0"]),
    "on the vlan": (ONE, "v5", (TAG5,), ["v5"]),
    "on both": (ONE, "v5", (TAG5,), ["v5", "a0"]),
    "802.1ad, on both": (OUTER, "v7", (TAG7,), ["v7", "a0"]),
    "two tags, on the trunk": (OUTER + INNER, "v75", (TAG7, TAG5), ["a0"]),
    "two tags, on all": (OUTER + INNER, "v75", (TAG7, TAG5), ["v75", "v7", "a0"]),
}


@FAMILIES
@pytest.mark.parametrize("case", TAGGED)
def test_link_on_vlan_or_trunk(case: str, v6: bool) -> None:
    more, device, vlans, links = TAGGED[case]
    with wire(more, on="", above=device, vlans=vlans) as made:
        for link in links:
            made.attach(link)
        check_path(made, links, v6)


@FAMILIES
@pytest.mark.parametrize("vlans", [(TAG5,), (TAG7,), (TAG7, TAG5)], ids=["Q", "ad", "ad+Q"])
def test_vlan_tags_in_the_frame(vlans: Vlans, v6: bool) -> None:
    """VLAN tags in the data, as on a bridge port or without VLAN offload."""
    with wire() as made:
        tags = made.tags(bytes([3]) * 16)
        before = made.state()
        join = Packet(JOIN, id=bytes([3]) * 16)
        sent = Datagram(join, v6, vlans=vlans)
        came = replace(join, hop=1, B=1, bottleneck=0, tags=tags)
        assert made.down(sent.frame()) == [replace(sent, payload=came).frame()]
        assert before.changes(made.state()) == JOINED


@FAMILIES
@pytest.mark.parametrize("case", TAGGED)
def test_edge_answers_on_vlan(case: str, v6: bool) -> None:
    """Untagged answers return from an edge that sends tagged packets."""
    more, device, vlans, links = TAGGED[case]
    with wire(more, on="", above=device, vlans=vlans) as made:
        for link in links:
            made.attach(link, edge=int(link == links[-1]))
        last = len(links) - 1
        tags = made.tags(bytes([3]) * 16)
        answered = made.state(links[-1]).answered
        sent = Datagram(Packet(JOIN, id=bytes([3]) * 16), v6)
        given = Packet(PROBE_ACK, id=bytes([3]) * 16, bottleneck=last, B=1 << last, tags=tags)
        codes = dict.fromkeys(range(last + 1), FULL_CODE)
        given = replace(given, bw=100 * MEGA, g=FULL_RATE, codes=codes)
        given = replace(given, returns={n + 1: (n + 1, ROUTER[v6]) for n in range(last + 1)})
        assert made.both(sent.frame()) == ([], [Datagram(given, v6).sent_on().frame()])
        assert made.state(links[-1]).answered == answered + 1
        # Tagged control packets of hosts are dropped.
        forged = Datagram(replace(given, hop=1), v6, vlans=vlans).answer()
        assert made.received(forged.frame()) == []
        assert made.state(links[-1]).from_hosts == 1


# --- stacked devices

#: a0 ---- p0 (br0) p1 ---- b0
BRIDGE = """
    ip link del a0
    ip link add a0 address 02:00:00:00:00:01 type veth peer p0
    ip link add b0 address 02:00:00:00:00:02 type veth peer p1
    ip link add br0 type bridge mcast_snooping 0
    ip link set p0 master br0
    ip link set p1 master br0
    ip link set br0 address 02:00:00:00:00:0b
    for device in a0 b0 p0 p1 br0; do ip link set $device up; done"""
BOND = """
    ip link add bond0 address 02:00:00:00:00:01 type bond mode active-backup
    ip link set a0 down
    ip link set a0 master bond0
    ip link set bond0 up"""
MACVLAN = """
    ip link set a0 address 02:00:00:00:00:0a
    ip link add link a0 name m0 address 02:00:00:00:00:01 type macvlan mode {}
    ip link set m0 up"""
OWN_ADDRESS = """
    ip link set a0 address 02:00:00:00:00:0a""" + VLAN.format(
    "a0", "v5", "address 02:00:00:00:00:01", "802.1Q", 5, "", "v5"
)

ABOVE: dict[str, tuple[str, str, Vlans, list[str]]] = {
    "a bond": (BOND, "bond0", (), ["bond0"]),
    "a bond's port": (BOND, "bond0", (), ["a0"]),
    "a bond and its port": (BOND, "bond0", (), ["bond0", "a0"]),
    "a macvlan": (MACVLAN.format("bridge"), "m0", (), ["m0"]),
    "below a macvlan": (MACVLAN.format("bridge"), "m0", (), ["a0"]),
    "a macvlan and below": (MACVLAN.format("vepa"), "m0", (), ["m0", "a0"]),
    "below a vlan with an address of its own": (OWN_ADDRESS, "v5", (TAG5,), ["v5", "a0"]),
}


#: User-Mode Linux has no bonding.
STACKED = [
    pytest.param(case, marks=pytest.mark.stock) if "bond" in case else case for case in ABOVE
]


@FAMILIES
@pytest.mark.parametrize("case", STACKED)
def test_link_on_stacked_devices(case: str, v6: bool) -> None:
    more, device, vlans, links = ABOVE[case]
    with wire(more, on="", above=device, vlans=vlans) as made:
        for link in links:
            made.attach(link)
        check_path(made, links, v6)


@FAMILIES
def test_links_on_bridge_ports(v6: bool) -> None:
    """Both ports are links, one for each direction."""
    with wire(BRIDGE, on="") as made:
        made.attach("p1")
        made.attach("p0")
        other = made.state("p0")
        check_path(made, ["p1"], v6, to_mac=MAC_BRIDGE)
        assert made.state("p0") == other
        # The other direction.
        this = made.state("p1")
        join = Packet(JOIN, id=bytes([4]) * 16)
        sent = Datagram(join, v6).back()
        came = replace(join, hop=1, B=1, bottleneck=0, returns={1: (2, ROUTER[v6])})
        (passed,) = made.received(sent.frame())
        came = replace(came, tags={0: read_packet(read_udp(passed)[0]).tags[0]})
        assert passed == replace(sent, payload=came).frame()
        assert other.changes(made.state("p0")) == JOINED
        given = replace(came.reply(), hop=0, bw=100 * MEGA, g=FULL_RATE, codes={0: FULL_CODE})
        ack = Datagram(came.reply(), v6, destination=ROUTER[v6], to_mac=MAC_BRIDGE)
        assert made.both(ack.frame()) == ([], [Datagram(given, v6).sent_on().frame()])
        assert other.changes(made.state("p0")) == {**JOINED, **GRANTED}
        assert made.state("p1") == this


@FAMILIES
def test_edge_on_bridge_port(v6: bool) -> None:
    """The bridge itself sends the answer, by its own routes."""
    with wire(BRIDGE, on="") as made:
        made.attach("p1", edge=1)
        # The bridge learns both addresses.
        data = Datagram(b"data", v6, sport=9)
        assert made.down(data.frame()) == [data.frame()]
        assert made.received(data.back().frame()) == [data.back().frame()]
        tags = made.tags(bytes([3]) * 16)
        sent = Datagram(Packet(JOIN, id=bytes([3]) * 16), v6)
        given = Packet(PROBE_ACK, id=bytes([3]) * 16, bottleneck=0, B=1, tags=tags)
        given = replace(given, bw=100 * MEGA, g=FULL_RATE, codes={0: FULL_CODE})
        given = replace(given, written=1)
        assert made.both(sent.frame()) == ([], [Datagram(given, v6).sent_on().frame()])
        # The bridge has learned nothing from the reply.
        assert made.received(data.back().frame()) == [data.back().frame()]
        assert made.down(data.frame()) == [data.frame()]


# --- offloads

ADDRESSED = """
    ip addr add 10.0.0.1/24 dev a0
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a0"""


def test_merged_control_packets_are_split() -> None:
    """Like those that UDP GRO has merged; GSO data passes unchanged."""
    packets = [Packet(JOIN, id=bytes([n]) * 16).pack() for n in range(3)]
    with wire(ADDRESSED) as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        before = made.state()
        sender.bind(("10.0.0.1", PORT))
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, len(packets[0]))
        sender.sendto(b"".join(packets), ("10.0.0.2", PORT))
        seen = [read_packet(read_udp(frame)[0]) for frame in made.down()]
        assert [(each.id[0], each.hop) for each in seen] == [(0, 1), (1, 1), (2, 1)]
        changes = before.changes(made.state())
        assert (changes["joins"], changes["N"], changes.get("fragments", 0)) == (3, 3, 0)
        sender.sendto(b"".join(packets), ("10.0.0.2", PORT + 1))
        assert b"".join(made.down()).endswith(b"".join(packets)[-len(packets[-1]) :])


def test_listed_control_packets_are_split() -> None:
    """GRO has made a list of them (rx-gro-list), which a packet socket has a copy of."""
    packets = [Packet(JOIN, id=bytes([n]) * 16).pack() for n in range(3)]
    with chain(2) as net:
        host, router, _ = net.nodes
        net.attach(1, "rate 100mbit epoch 0")
        host.sh("ethtool -K e0 tx-udp-segmentation off")
        router.sh("ethtool -K w0 gro on rx-gro-list on")
        with router.entered():
            tap = Tap("w0")
        with host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("10.0.0.1", PORT))
            sender.setsockopt(SOL_UDP, UDP_SEGMENT, len(packets[0]))
            sender.sendto(b"".join(packets), ("10.0.1.2", PORT))
        wait_for(lambda: state_in(router, "e1").joins == 3)
        assert max(map(len, tap.frames())) > len(b"".join(packets))
        tap.socket.close()


def test_merged_control_packets_are_dropped_below_a_qdisc() -> None:
    """The root qdisc's hook splits them, an enqueueing slbn cannot."""
    packets = [Packet(JOIN, id=bytes([n]) * 16).pack() for n in range(3)]
    prio = "\n tc qdisc add dev a0 root handle 2: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    slbn = "\n tc qdisc add dev a0 parent 2:1 handle 1: slbn rate 100mbit epoch 0"
    with (
        wire(ADDRESSED + prio + slbn, on="") as made,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        before = made.state()
        sender.bind(("10.0.0.1", PORT))
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, len(packets[0]))
        with contextlib.suppress(OSError):
            sender.sendto(b"".join(packets), ("10.0.0.2", PORT))
        assert made.down() == []
        assert before.changes(made.state()) == {"fragments": 1}


def test_merged_answers_are_split() -> None:
    joins = [Packet(JOIN, id=bytes([n]) * 16) for n in range(1, 4)]
    with wire() as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        came = made.down(*(Datagram(join).frame() for join in joins))
        assert len(came) == 3
        before = made.state()
        answers = [read_packet(read_udp(frame)[0]).reply().pack() for frame in came]
        sender.bind(("", PORT))
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, len(answers[0]))
        sender.sendto(b"".join(answers), (ROUTER[0], PORT))
        seen = [read_packet(read_udp(frame)[0]) for frame in made.up()]
        assert [(each.id[0], each.hop) for each in seen] == [(1, 0), (2, 0), (3, 0)]
        assert before.changes(made.state())["acks"] == 3


def test_gso_data_stays_unchanged() -> None:
    """TCP with all offloads: packets of 64 KB in shared pages."""
    with chain(1) as net:
        net.attach(0, "rate 1gbit epoch 0")
        before = state_in(net.nodes[0], "e0")
        with net.nodes[1].entered():
            tap = Tap("w0")
        with connection(Pair(*net.nodes)) as stream:
            stream.pump(8 * MEGA)
        assert max(map(len, tap.frames())) > 10_000
        tap.socket.close()
        assert state_in(net.nodes[0], "e0") == before


#: Checksum offload on all devices, none, or hosts only: devices where it is switched off.
OFFLOADS = {"everywhere": "", "nowhere": "e0 w0 e1 w1", "at hosts": "w0 e1"}


@pytest.mark.parametrize("offloads", OFFLOADS)
def test_checksum_offload(peer: str, offloads: str) -> None:
    """Over two links and back: complete checksums and authentications are valid."""
    complete = OFFLOADS[offloads].split()
    began = now()
    with chain(2) as net, agents(peer, net.nodes, KEY.hex()) as (first, _, _):
        where = {"e0": 0, "w0": 1, "e1": 1, "w1": 2}
        for device in complete:
            net.nodes[where[device]].sh(f"ethtool -K {device} tx off rx off")
        for link, rate in enumerate(("100mbit", "60mbit")):
            net.attach(link, f"rate {rate} headroom 0 {key_option(KEY)}")
        taps = {}
        for device, node in where.items():
            with net.nodes[node].entered():
                taps[device] = Tap(device)
        first.send("join fd00:1::2 0", "join 10.0.1.2 0")
        wait_for(lambda: [session.rate for session in first.show()] == [30 * MEGA] * 2)
        first.send("cycles 2")
        wait_for(lambda: all(session.state == "idle" for session in first.show()))
        # At once, as sessions continue: to check thousands of packets takes long.
        captured = {device: tap.frames() for device, tap in taps.items()}
        # Device of the tap: the sending device, and the hop field of its packets.
        for device, (sent_by, hop) in {
            "w0": ("e0", 1),
            "w1": ("e1", 2),
            "e1": ("w1", 2),
            "e0": ("w0", 1),
        }.items():
            frames = captured[device]
            found = [(frame[12:14], *read_udp(frame)) for frame in frames]
            ours = [each for each in found if each[1].startswith(MAGIC.to_bytes(4, "big"))]
            assert min(Counter(kind for kind, _, _ in ours).values()) >= 3
            assert {kind for kind, _, _ in ours} == {b"\x08\x00", b"\x86\xdd"}
            right = sum(right for _, _, right in ours)
            # An incomplete checksum is valid by chance in one of 65536 packets.
            assert right == len(ours) if sent_by in complete else right <= 1
            assert {read_packet(payload).hop for _, payload, _ in ours} == {hop}
            for frame, (_, payload, _) in zip(frames, found, strict=True):
                if payload.startswith(MAGIC.to_bytes(4, "big")):
                    assert is_authentic(payload, KEY, read_addresses(frame), began)
            taps[device].socket.close()
        for node, device in enumerate(("e0", "e1")):
            state = state_in(net.nodes[node], device)
            assert state.bad_checksum == state.bad_key == state.malformed == 0
            assert state.unknown_key == state.bad_time == 0
