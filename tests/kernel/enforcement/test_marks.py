# SPDX-License-Identifier: GPL-2.0
"""Marks of the domain on packets that leave by slbnd's devices (mark.h).

The programs are run on single packets: at egress both, as they are attached, and at ingress the
one that sees answers.  test_marks_escape.py has hosts that want more than their share.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.kernel.enforcement.test_enforce import (
    DROP,
    PASS,
    SHAPES,
    TCP,
    UDP,
    ports,
    v4,
    v6,
)
from tests.kernel.lib.enforcer import Enforcer, Flow, Marks, enforcer
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_wire import internet_sum

pytestmark = pytest.mark.virtual

#: DSCPs of the domain, and others that hosts may set: EF, CS6, LE, NQB.
NEW, ASSIGNED = 3, 7
HOSTS_OWN = (0, 46, 48, 1, 45)
#: Those that are kept in the domain, in the order of their marks, which are 8 more for each.
KEPT = (0, 1, 8, 18, 34, 46, 40, 45)
MARKS = range(3, 64, 4)
#: MARK_OCTETS; MARK_BURST, MARK_WAIT and MARK_WAIT_UNASSIGNED [ns].
OCTETS, BURST, WAIT, WAIT_UNASSIGNED = 10**6, 400_000_000, 5_000_000, 100_000_000
ETHERNET = bytes(12)
SYN, ACK = 2, 16
#: Of local hosts, and of routers of the domain.
HOSTS_DEVICE, DOMAIN_DEVICE = "h0", "d0"
#: Of these devices.
INDICES = [0, 0]
#: Longer than any packet waits [s].
GAP = 0.2
#: A packet that was merged (GRO) [octets].
MERGED = 60000


@pytest.fixture
def net() -> Iterator[Chain]:
    """A device without traffic, and two by which packets arrive."""
    with chain(1) as net:
        net.tc(0, "qdisc replace dev e0 root fq limit 100000 flow_limit 100000")
        net.nodes[0].sh("ip addr flush dev e0")
        for device in (HOSTS_DEVICE, DOMAIN_DEVICE):
            net.nodes[0].sh(f"ip link add {device} type dummy")
        yield net


@pytest.fixture
def made(net: Chain, enforce_try: str) -> Iterator[Enforcer]:
    """Marks are on, and forwarded packets are local hosts'."""
    node = net.nodes[0]
    with enforcer(node, enforce_try) as made:
        made.set_marks(True)
        made.open("e0")
        with node.entered():
            names = (HOSTS_DEVICE, DOMAIN_DEVICE)
            INDICES[:] = [socket.if_nametoindex(name) for name in names]
        yield made


# --- packets ---------------------------------------------------------------------------------


def head_of(packet: bytes) -> int:
    """The offset of the IP header."""
    at = 12
    while packet[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    return at + 2


def with_dscp(packet: bytes, dscp: int, ecn: int = 0) -> bytes:
    """A packet with this DSCP and a valid checksum."""
    at = head_of(packet)
    made = bytearray(packet)
    if packet[at] >> 4 == 6:
        word = struct.unpack_from(">H", packet, at)[0] & 0xF00F
        struct.pack_into(">H", made, at, word | dscp << 6 | ecn << 4)
        return bytes(made)
    made[at + 1] = dscp << 2 | ecn
    struct.pack_into(">H", made, at + 10, 0)
    head = made[at : at + (made[at] & 15) * 4]
    struct.pack_into(">H", made, at + 10, internet_sum(bytes(head)))
    return bytes(made)


def dscp_of(packet: bytes) -> int:
    at = head_of(packet)
    if packet[at] >> 4 == 6:
        return int(struct.unpack_from(">H", packet, at)[0] >> 6 & 63)
    return packet[at + 1] >> 2


def segment(flags: int = ACK, six: bool = False, size: int = 0) -> bytes:
    """From port 1000 to 80."""
    header = ports() + bytes(size)
    header = header[:12] + bytes([5 << 4, flags]) + header[14:]
    if six:
        return ETHERNET + b"\x86\xdd" + v6(TCP, header)
    return ETHERNET + b"\x08\x00" + v4(TCP, header)


def tagged(packet: bytes) -> bytes:
    """Behind a VLAN tag."""
    return packet[:12] + bytes.fromhex("81000005") + packet[12:]


def datagram(port: int = 1000, size: int = 0) -> bytes:
    return ETHERNET + b"\x08\x00" + v4(UDP, ports(port) + bytes(size))


def back(packet: bytes) -> bytes:
    """An answer: with addresses and ports exchanged."""
    at = head_of(packet)
    made = bytearray(packet)
    if packet[at] >> 4 == 6:
        made[at + 8 : at + 40] = packet[at + 24 : at + 40] + packet[at + 8 : at + 24]
        at += 40
    else:
        made[at + 12 : at + 20] = packet[at + 16 : at + 20] + packet[at + 12 : at + 16]
        at += (packet[at] & 15) * 4
    made[at : at + 4] = packet[at + 2 : at + 4] + packet[at : at + 2]
    return bytes(made)


def leave(made: Enforcer, packet: bytes, length: int = 0) -> int:
    """The DSCP that a packet from a host leaves with, which has LENGTH octets on the wire."""
    given = with_dscp(packet, dscp_of(packet))
    verdict, _, left = made.leave(given, INDICES[0], length)
    assert left == with_dscp(given, dscp_of(left))
    assert verdict == PASS or (verdict == DROP and dscp_of(left) == dscp_of(given))
    return dscp_of(left)


def marked(band: int, dscp: int) -> int:
    """The mark of a band, NEW or ASSIGNED, for a packet that had this DSCP."""
    return band + 8 * (KEPT.index(dscp) if dscp in KEPT else 0)


def flow_of(packet: bytes, protocol: int = TCP) -> Flow:
    six = packet[head_of(packet)] >> 4 == 6
    source, destination = ("fd00::1", "fd00::2") if six else ("10.0.0.1", "10.0.0.2")
    return Flow(destination, source, protocol, 1000, 80)


# --- which packets are marked ----------------------------------------------------------------


def test_packets_of_sessions_are_assigned(made: Enforcer) -> None:
    """With the mark of the DSCP that they had; everything else stays as it was."""
    sessions = {name: shape for name, shape in SHAPES.items() if shape[1]}
    for name, (packet, session) in sessions.items():
        assert session
        made.set(session, 100 * MEGA)
        # The first packet of a connection may be new.
        made.leave(packet, INDICES[0])
        for dscp in range(64):
            ecn = dscp % 4
            given = with_dscp(packet, dscp, ecn)
            verdict, _, left = made.leave(given, INDICES[0])
            expected = with_dscp(packet, marked(ASSIGNED, dscp), ecn)
            assert (verdict, left) == (PASS, expected), (name, dscp)
    assert made.read_marks().assigned >= len(sessions) * 64


def test_forged_marks_are_cleared(made: Enforcer) -> None:
    """Of hosts, of this router, and of others; other DSCPs are left alone."""
    count = 0
    packets = {name: shape[0] for name, shape in SHAPES.items() if "three" not in name}
    for ingress in (INDICES[0], 0, INDICES[1]):
        for name, packet in packets.items():
            made.leave(packet, ingress)
            for dscp in (*MARKS, *HOSTS_OWN):
                given = with_dscp(packet, dscp, 1)
                verdict, _, left = made.leave(given, ingress)
                forged = dscp in MARKS
                count += forged
                assert (verdict, left) == (PASS, with_dscp(packet, 0 if forged else dscp, 1)), name
        # Behind more tags than are searched, there may be a mark.
        assert made.leave(SHAPES["IPv4 three tags"][0], ingress)[0] == DROP
    assert made.read_marks().cleared == count


def test_marks_of_the_domain_are_believed(made: Enforcer) -> None:
    """Those of other hosts, by the devices that are named, as long as they are."""
    made.set_hosts("10.9.0.0/16")
    for believed in (True, False):
        made.set_marks(True, DOMAIN_DEVICE if believed else "")
        for index in INDICES:
            for packet in (segment(), segment(six=True), datagram()):
                given = with_dscp(packet, ASSIGNED)
                kept = believed and index == INDICES[1]
                left = made.leave(given, index)[2]
                assert dscp_of(left) == (ASSIGNED if kept else 0)
    # A local host's are not, whichever way it takes.
    made.set_marks(True, DOMAIN_DEVICE)
    made.set_hosts("10.0.0.0/24")
    made.leave(datagram(), INDICES[1])
    left = made.leave(with_dscp(datagram(), NEW), INDICES[1])[2]
    assert dscp_of(left) == 0


def test_all_devices_of_the_domain_may_be_made_anew(net: Chain, made: Enforcer) -> None:
    """As tunnels are: with the old ones they would be more than a domain may have."""
    node = net.nodes[0]
    names = [f"t{number}" for number in range(12)]
    made.set_hosts("10.9.0.0/16")
    node.ip(*(f"link add {name} type dummy" for name in names))
    made.set_marks(True, ",".join(names))
    node.ip(*(f"link del {name}" for name in names))
    node.ip(*(f"link add {name} type dummy" for name in names))
    assert made.check() == "ok"
    with node.entered():
        last = socket.if_nametoindex(names[-1])
    assert dscp_of(made.leave(with_dscp(datagram(), ASSIGNED), last)[2]) == ASSIGNED


def test_off_changes_nothing(made: Enforcer) -> None:
    made.set_marks(False)
    made.set(flow_of(segment()), 100 * MEGA)
    for dscp in (NEW, ASSIGNED, *HOSTS_OWN):
        assert leave(made, with_dscp(segment(), dscp)) == dscp
        assert leave(made, with_dscp(datagram(), dscp)) == dscp
    for dscp in MARKS:
        given = with_dscp(back(segment()), dscp)
        assert made.arrive(given) == given
    assert made.read_marks() == Marks(0, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["TCP", "TCP over IPv6", "UDP"])
def test_new_from_the_answer_on(made: Enforcer, kind: str) -> None:
    """A first packet is new, then only what follows an answer, until its octets are sent."""
    first, packet, answer = {
        "TCP": (segment(SYN), segment(), segment(SYN | ACK)),
        "TCP over IPv6": (segment(SYN, True), segment(six=True), segment(SYN | ACK, True)),
        "UDP": (datagram(), datagram(), datagram()),
    }[kind]
    assert leave(made, first) == NEW
    # An answer to something else is none.
    made.arrive(back(datagram(1001)))
    assert [leave(made, packet) for _ in range(3)] == [0, 0, 0]
    made.arrive(back(answer))
    if kind == "UDP":
        time.sleep(GAP)
    seen = [leave(made, packet, MERGED) for _ in range(OCTETS // MERGED)]
    assert set(seen) == {NEW}
    assert leave(made, packet, MERGED) == 0
    made.set(flow_of(packet, UDP if kind == "UDP" else TCP), 100 * MEGA)
    assert leave(made, packet) == ASSIGNED
    # A new connection with the same ports begins anew.
    if kind == "TCP":
        assert leave(made, first) == NEW and leave(made, packet) == ASSIGNED


def test_new_again_after_silence(made: Enforcer) -> None:
    packet = segment()
    leave(made, segment(SYN))
    made.arrive(back(segment(SYN | ACK)))
    for _ in range(2):
        seen = [leave(made, packet, MERGED) for _ in range(20)]
        assert seen == [NEW] * 16 + [0] * 4
        time.sleep(GAP)
    # Who has a rate needs nothing else.
    made.set(flow_of(packet), 1000 * MEGA)
    assert leave(made, packet) == ASSIGNED


def test_excess_is_not_assigned(made: Enforcer) -> None:
    """Datagrams above the rate, which leave in what the default class has left."""
    made.set_excess(True)
    packet = datagram(size=1400)
    made.set(flow_of(packet, UDP), MEGA)
    leave(made, packet)
    seen = [leave(made, packet) for _ in range(20)]
    assert seen[0] == ASSIGNED and seen[-1] == 0
    assert seen.count(0) == made.read_pacer().excess > 10


def test_rate_ends_with_its_lease(made: Enforcer) -> None:
    made.set(flow_of(segment()), 100 * MEGA, 300)
    leave(made, segment())
    assert leave(made, segment()) == ASSIGNED
    time.sleep(0.4)
    assert leave(made, segment()) == 0


# --- where packets leave the domain ----------------------------------------------------------


def test_dscps_are_restored_for_hosts(made: Enforcer) -> None:
    """And for this router; not what other routers forward, which links need the marks of."""
    for hosts, restored in (("10.0.0.0/24", True), ("10.9.0.0/16", False), ("", True)):
        made.set_hosts(hosts)
        before = made.read_marks().restored
        for packet in (segment(), datagram(size=3), tagged(segment()), tagged(tagged(datagram()))):
            answer = back(packet)
            for mark in range(64):
                given = with_dscp(answer, mark, mark % 4)
                dscp = KEPT[MARKS.index(mark) // 2] if restored and mark in MARKS else mark
                assert made.arrive(given) == with_dscp(answer, dscp, mark % 4)
        assert made.read_marks().restored - before == restored * 4 * len(MARKS)
    made.set_hosts("fd00::/16")
    for mark in range(64):
        for packet in (segment(six=True), tagged(segment(six=True))):
            given = with_dscp(back(packet), mark, 1)
            dscp = KEPT[MARKS.index(mark) // 2] if mark in MARKS else mark
            assert made.arrive(given) == with_dscp(given, dscp, 1)


def test_control_packets_of_others_keep_no_mark(made: Enforcer) -> None:
    """Only those of slbnd's sockets; where they arrive, they tell it whether marks do."""
    control = ETHERNET + b"\x08\x00" + v4(UDP, struct.pack(">HHHH", 49470, 49470, 8, 0))
    given = with_dscp(control, ASSIGNED)
    for ingress in (0, *INDICES):
        made.leave(control, ingress)
        assert dscp_of(made.leave(given, ingress)[2]) == 0
    assert made.arrive(given) == given


def test_links_to_hosts_restore_dscps_themselves(made: Enforcer, net: Chain) -> None:
    """As long as they read marks, which choose their bands."""
    node = net.nodes[0]
    given = with_dscp(back(segment()), ASSIGNED)
    bands = "root handle 9: drr_fq bands domain"
    for device, kept in ((HOSTS_DEVICE, True), (DOMAIN_DEVICE, False)):
        made.set_marks(True, DOMAIN_DEVICE)
        assert dscp_of(made.arrive(given)) == 0
        node.sh(f"tc qdisc add dev {device} {bands} 5")
        assert made.check() == "ok"
        assert dscp_of(made.arrive(given)) == (ASSIGNED if kept else 0)
        node.sh(f"tc qdisc change dev {device} {bands} off")
        assert made.check() == "ok"
        assert dscp_of(made.arrive(given)) == 0
        node.sh(f"tc qdisc del dev {device} root")


# --- tokens ----------------------------------------------------------------------------------


def test_share_bounds_what_is_new(made: Enforcer) -> None:
    """Of all connections of a host to a destination, in a burst and then."""
    share = 8 * MEGA
    made.set_share(flow_of(datagram()), share)
    allowed = share * BURST / 8 / 10**9
    sent = 0
    for port in range(1000, 1010):
        leave(made, datagram(port))
        made.arrive(back(datagram(port)))
        for _ in range(100):
            packet = datagram(port, 1400)
            if leave(made, packet) != NEW:
                break
            sent += len(packet)
    assert allowed - 10 * 1500 < sent < allowed + 20_000
    assert made.read_marks().refused >= 8
    # Without a share that links have stated lately, it has the rate of the default class.
    made.set_share(flow_of(datagram()), share, 0)
    made.arrive(back(datagram(1020)))
    assert leave(made, datagram(1020)) == NEW
    made.arrive(back(datagram(1020)))
    assert {leave(made, datagram(1020, 1400)) for _ in range(100)} == {NEW}


def test_first_packets_have_a_small_part(made: Enforcer) -> None:
    """With ever new ports a host has 1/128 of its share, and no harm to its connections."""
    share = 320 * MEGA
    made.set_share(flow_of(datagram()), share)
    leave(made, datagram(999))
    made.arrive(back(datagram(999)))
    packets = [datagram(port, 1400) for port in range(1000, 1200)]
    seen = [leave(made, packet) for packet in packets]
    allowed = share * BURST / 8 / 10**9 / 128 / len(packets[0])
    assert allowed - 3 < seen.count(NEW) < allowed + 3
    assert leave(made, datagram(999, 1400)) == NEW


def test_hosts_without_an_answer_share_a_bucket(made: Enforcer) -> None:
    """The default class's rate, of which one host has at most half."""
    rate = 8 * MEGA
    made.set_unassigned(rate)
    sums = []
    for host in (1, 77):
        first, more = (bytearray(datagram(size=size)) for size in (0, 1400))
        for packet in (first, more):
            packet[head_of(packet) + 15] = host
        leave(made, bytes(first))
        made.arrive(back(bytes(first)))
        seen = [leave(made, bytes(more)) for _ in range(400)]
        sums.append(seen.count(NEW) * len(more))
    allowed = rate * BURST / 8 / 10**9
    assert allowed / 2 - 3000 < sums[0] < allowed / 2 + 10_000
    assert allowed / 4 - 3000 < sums[1] < allowed / 4 + 10_000


# --- order -----------------------------------------------------------------------------------


def test_tcp_departs_behind_what_went_before(made: Enforcer) -> None:
    """In another band, when earlier packets must have left the links."""
    packet = segment(size=1400)
    leave(made, segment(SYN))
    before = time.monotonic_ns()
    leave(made, packet)
    then = time.monotonic_ns()
    made.set(flow_of(packet), 1000 * MEGA)
    _, departure, left = made.leave(packet, INDICES[0])
    assert dscp_of(left) == ASSIGNED
    assert before + WAIT_UNASSIGNED <= departure <= then + WAIT_UNASSIGNED
    # Those that follow are behind it, and nothing is dropped.
    for _ in range(20):
        verdict, later, _ = made.leave(packet, INDICES[0])
        assert verdict == PASS and later >= departure
    time.sleep(GAP)
    assert made.leave(packet, INDICES[0])[1] == 0


def test_udp_does_not_wait(made: Enforcer) -> None:
    packet = datagram(size=1400)
    leave(made, packet)
    leave(made, packet)
    made.set(flow_of(packet, UDP), 1000 * MEGA)
    _, departure, left = made.leave(packet, INDICES[0])
    assert dscp_of(left) == ASSIGNED and departure < time.monotonic_ns() + WAIT


def test_no_mark_for_what_is_dropped(made: Enforcer) -> None:
    made.set(flow_of(datagram(), UDP), 1)
    leave(made, datagram(size=1400))
    verdicts = [made.leave(datagram(size=1400), INDICES[0])[0] for _ in range(3)]
    assert verdicts == [DROP] * 3
