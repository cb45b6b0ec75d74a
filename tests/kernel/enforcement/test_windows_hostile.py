# SPDX-License-Identifier: GPL-2.0
"""Receive windows with hosts and strangers that want to gain by them.

    node 0 ---- node 1 ---- node 2
                     e1: fq below slbn, which paces, and the program at ingress
                     w1: acknowledgments are delayed

Honest connections are the kernel's.  Hostile packets are forged, from addresses behind node 0 and
node 2 that nobody answers.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.lib.enforcer import Enforcer, Flow, enforcer
from tests.kernel.lib.net import Namespace, pending
from tests.kernel.lib.senders import TCP, Sender, Traffic, sender
from tests.kernel.lib.slbn import Chain
from tests.kernel.lib.slbn_wire import internet_sum
from tests.kernel.lib.windows import RATE, ROUND_TRIP, Seen, network, watch

pytestmark = pytest.mark.virtual
EVERYWHERE = pytest.mark.tier("all")

#: Hosts behind node 0, whose addresses are forged, and their peers behind node 2.
HOST, NEIGHBOUR, PEER = "10.7.0.1", "10.7.0.2", "10.8.0.1"
SYN, ACK = 2, 16
#: The protocol number of the authentication header.
AH = 51
MSS = 1000
#: Full tables of SYNs (WINDOWS_STARTS), and of connections (that of enforce_try).
STARTS, PLACES = 16384, 1024
#: No connection may stand still for longer [s].
STALL = 0.2

#: Options of a SYN: segment size, SACK, and scale.
USUAL = bytes([2, 4, 5, 180, 4, 2, 3, 3, 7, 1, 1, 1])
SCALE = 7
MD5 = bytes([19, 18, *range(16), 1, 1])
AUTHENTICATION = bytes([29, 16, *range(14)])
MULTIPATH = bytes([30, 12, 0, 1, *range(8)])
TRUNCATED = bytes([3, 3, 7, 19])
SCALE_14 = bytes([3, 3, 14, 1])


@contextlib.contextmanager
def routed() -> Iterator[Chain]:
    with network() as made:
        made.nodes[0].ip("route add fd08::/16 via fd00:0::2", "route add blackhole fd07::/16")
        made.nodes[1].ip("route add fd08::/16 via fd00:1::2", "route add fd07::/16 via fd00:0::1")
        made.nodes[2].ip("route add blackhole fd08::/16", "route add fd07::/16 via fd00:1::1")
        made.nodes[0].ip("route add 10.8.0.0/16 via 10.0.0.2", "route add blackhole 10.7.0.0/16")
        made.nodes[1].ip("route add 10.8.0.0/16 via 10.0.1.2", "route add 10.7.0.0/16 via 10.0.0.1")
        made.nodes[2].ip("route add blackhole 10.8.0.0/16", "route add 10.7.0.0/16 via 10.0.1.1")
        # The first handshake is timed: it must not wait for ARP.
        made.nodes[0].sh("ping -q -c 1 10.0.1.2")
        yield made


@contextlib.contextmanager
def lowering(net: Chain, program: str) -> Iterator[Enforcer]:
    with enforcer(net.nodes[1], program, "e1", windows=True) as running:
        yield running


@pytest.fixture
def net() -> Iterator[Chain]:
    with routed() as made:
        yield made


@pytest.fixture
def made(net: Chain, enforce_try: str) -> Iterator[Enforcer]:
    with lowering(net, enforce_try) as running:
        yield running


@pytest.fixture(scope="module")
def both(enforce_try: str) -> Iterator[tuple[Chain, Enforcer]]:
    """The same for tests that each have a connection of their own: to check the programs takes the
    kernel longer than such a test takes."""
    with routed() as net, lowering(net, enforce_try) as running:
        yield net, running


#: Of hosts, so that each test has its own connection.
_ports = itertools.count(3000)


# --- forged packets -----------------------------------------------------------------------------


End = tuple[str, int]


@dataclass(frozen=True)
class Segment:
    """A TCP segment; the kernel adds the checksum and the length of the IPv4 header."""

    source: End
    destination: End
    sequence: int
    flags: int
    ack: int = 0
    window: int = 0
    options: bytes = b""
    data: bytes = b""

    @property
    def tcp(self) -> bytes:
        words = (20 + len(self.options)) // 4
        head = struct.pack(
            ">HHIIHHHH",
            *(self.source[1], self.destination[1]),
            *(self.sequence % 2**32, self.ack % 2**32),
            *(words << 12 | self.flags, self.window, 0, 0),
        )
        rest = self.options + self.data
        pseudo = self.addresses + struct.pack(">HH", 6, len(head + rest))
        padded = pseudo + head + rest + bytes(len(rest) % 2)
        return head[:16] + struct.pack(">H", internet_sum(padded)) + head[18:] + rest

    @property
    def addresses(self) -> bytes:
        pton = socket.inet_pton
        return pton(self.family, self.source[0]) + pton(self.family, self.destination[0])

    @property
    def family(self) -> int:
        return socket.AF_INET6 if ":" in self.source[0] else socket.AF_INET

    def ip(self, payload: bytes, fragment: int = 0, protocol: int = TCP) -> bytes:
        if self.family == socket.AF_INET6:
            head = struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64)
            return head + self.addresses + payload
        head = struct.pack(">BBHHHBBH", 0x45, 0, 0, 7, fragment, 64, TCP, 0)
        return head + self.addresses + payload


def send(where: Namespace, *segments: Segment) -> None:
    send_raw(where, *((each, each.ip(each.tcp)) for each in segments))


def send_raw(where: Namespace, *packets: tuple[Segment, bytes]) -> None:
    with where.entered(), socket.socket(packets[0][0].family, socket.SOCK_RAW, 255) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        for segment, packet in packets:
            raw.sendto(packet, (segment.destination[0], 0))


class Wire:
    """A connection of forged packets: what its ends send, and what of it arrives at node 0."""

    def __init__(self, net: Chain, host: End = (HOST, 1000), peer: End = (PEER, 2000)) -> None:
        self.net, self.host, self.peer = net, host, peer
        self.next, self.peer_next = 5_000_000, 9_000_000
        #: The window of the peer's SYN-ACK.
        self.opened = 60000
        self.six = ":" in host[0]
        kind = 0x86DD if self.six else 0x0800
        with net.nodes[0].entered():
            self.seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(kind))
            self.seen.bind(("e0", kind))
        self.seen.settimeout(1)

    @property
    def session(self) -> Flow:
        return Flow(self.peer[0], self.host[0], TCP, self.host[1], self.peer[1])

    def from_host(self, flags: int, options: bytes = b"", data: bytes = b"") -> Segment:
        ack = self.peer_next if flags & ACK else 0
        return Segment(self.host, self.peer, self.next, flags, ack, 1000, options, data)

    def from_peer(self, flags: int, window: int, options: bytes = b"") -> Segment:
        ack = self.next if flags & ACK else 0
        return Segment(self.peer, self.host, self.peer_next, flags, ack, window, options)

    def arrived(self) -> bytes:
        """What the next packet from the peer has behind the IP header."""
        like = self.from_peer(ACK, 0)
        head = 40 if self.six else 20
        while True:
            packet, (_, _, kind, *_) = self.seen.recvfrom(2048)
            later = not self.six and int.from_bytes(packet[6:8]) & 0x1FFF
            sealed = self.six and packet[6] == AH
            if (
                kind != socket.PACKET_OUTGOING
                and packet[head - len(like.addresses) : head] == like.addresses
                and (later or sealed or packet[head : head + 4] == like.tcp[:4])
            ):
                return packet[head:]

    def forget(self) -> None:
        """Ignore what has arrived so far."""
        self.seen.setblocking(False)
        for _ in pending(self.seen, 1):
            pass
        self.seen.settimeout(1)

    def answer(self, segment: Segment) -> int:
        """Send a segment of the peer; return its window as it arrives, with a valid checksum."""
        send(self.net.nodes[2], segment)
        tcp = self.arrived()
        length = struct.pack(">HH", 6, len(segment.tcp))
        assert internet_sum(segment.addresses + length + tcp[: len(segment.tcp)]) == 0
        return int(struct.unpack_from(">H", tcp, 14)[0])

    def connect(self, host: bytes = USUAL, peer: bytes = USUAL) -> None:
        send(self.net.nodes[0], self.from_host(SYN, host))
        self.next += 1
        self.opened = self.answer(self.from_peer(SYN | ACK, 60000, peer))
        self.peer_next += 1
        send(self.net.nodes[0], self.from_host(ACK))

    def accept(
        self,
        host: bytes = USUAL,
        peer: bytes = USUAL,
        between: Callable[[], object] = lambda: None,
    ) -> None:
        """The peer opens the connection; BETWEEN is called before the host answers."""
        assert self.answer(self.from_peer(SYN, 60000, peer)) == 60000
        between()
        self.peer_next += 1
        send(self.net.nodes[0], self.from_host(SYN | ACK, host))
        self.next += 1

    def data(self) -> None:
        send(self.net.nodes[0], self.from_host(ACK, data=bytes(MSS)))
        self.next += MSS

    def window(self, field: int) -> int:
        """Data that arrive are acknowledged with a window field; what of it is left."""
        self.data()
        return self.answer(self.from_peer(ACK, field))

    def measure(self) -> None:
        """The round-trip time is measured, with a small window."""
        assert self.window(50) == 50
        assert self.window(50) == 50


#: Octets that 20 Mbit/s keep in flight, with a segment, at most.
FLIGHT = RATE // 8 * ROUND_TRIP // 1000 + 3 * MSS


# --- what is never touched ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "peer", "lowered"),
    [
        (USUAL, USUAL, True),
        (USUAL + MULTIPATH, USUAL, True),
        (USUAL + MULTIPATH, USUAL + MULTIPATH, False),
        (USUAL + MD5, USUAL + MD5, False),
        (USUAL + AUTHENTICATION, USUAL + AUTHENTICATION, False),
        (USUAL, USUAL + MD5, False),
        (USUAL, TRUNCATED, False),
        (TRUNCATED, USUAL, False),
    ],
    ids=["usual", "declined", "mptcp", "md5", "ao", "md5-of-peer", "malformed", "of-host"],
)
@pytest.mark.parametrize("opener", ["host", "peer"])
def test_signed_and_multipath_connections_are_left_alone(
    both: tuple[Chain, Enforcer], opener: str, host: bytes, peer: bytes, lowered: bool
) -> None:
    net, made = both
    wire = Wire(net, (HOST, next(_ports)))
    made.set(wire.session, RATE)
    unknown = made.read_windows().unknown
    (wire.connect if opener == "host" else wire.accept)(host, peer)
    wire.measure()
    field = wire.window(60000)
    if lowered:
        assert 4 * MSS <= field << SCALE <= FLIGHT
        # It is not scaled.
        assert opener == "peer" or 4 * MSS <= wire.opened <= FLIGHT
        assert made.read_windows().unknown == unknown
    else:
        assert field == wire.opened == 60000 and made.read_windows().unknown == unknown + 1


def test_left_alone_counts_once_with_a_session(both: tuple[Chain, Enforcer]) -> None:
    """A detected flow has none at first, and may never get one."""
    net, made = both
    wire = Wire(net, (HOST, next(_ports)))
    unknown = made.read_windows().unknown
    wire.connect(USUAL + MD5, USUAL + MD5)
    assert wire.window(60000) == wire.window(60000) == 60000
    assert made.read_windows().unknown == unknown
    made.set(wire.session, RATE)
    for _ in range(3):
        assert wire.window(60000) == 60000
        assert made.read_windows().unknown == unknown + 1


def test_ipv6_with_authentication_header(net: Chain, made: Enforcer) -> None:
    """AH protects the whole packet: its receiver would drop one that is changed."""
    wire = Wire(net, ("fd07::1", 1000), ("fd08::1", 2000))
    made.set(wire.session, RATE)
    wire.connect()
    assert is_lowered(wire)
    segment = wire.from_peer(ACK, 60000)
    sent = bytes([TCP, 4]) + bytes(22) + segment.tcp
    send_raw(net.nodes[2], (segment, segment.ip(sent, protocol=AH)))
    assert wire.arrived() == sent


def test_receiver_shrinks_and_closes_its_window(both: tuple[Chain, Enforcer]) -> None:
    """Its own window stays as it is, and what it takes back is granted again by itself only."""
    net, made = both
    wire = Wire(net, (HOST, next(_ports)))
    made.set(wire.session, RATE)
    wire.connect()
    wire.measure()
    lowered = wire.window(60000)
    for field in (lowered - 1, 100, 7, 0, 0, 1):
        assert wire.answer(wire.from_peer(ACK, field)) == field
    assert wire.answer(wire.from_peer(ACK, 60000)) <= lowered + 1


def test_malformed_acknowledgments_pass_as_they_are(both: tuple[Chain, Enforcer]) -> None:
    """Truncated headers, lengths beyond the packet, and fragments change nothing."""
    net, made = both
    wire = Wire(net, (HOST, next(_ports)))
    made.set(wire.session, RATE)
    wire.connect()
    wire.measure()
    segment = wire.from_peer(ACK, 60000)
    whole = segment.tcp
    blocks = wire.from_peer(
        ACK, 60000, bytes([1, 1, 5, 34]) + bytes(random.Random(1).randbytes(12))
    )
    long = bytearray(whole)
    long[12] = 15 << 4
    short = bytearray(whole)
    short[12] = 4 << 4
    more = 0x2000
    for number, packet in enumerate(
        [
            segment.ip(whole[:12]),
            segment.ip(bytes(long)),
            segment.ip(bytes(short)),
            segment.ip(whole[:8], more),
            segment.ip(whole[8:], 1),
            segment.ip(whole, 100 | more),
        ]
    ):
        sent = packet[20:]
        send_raw(net.nodes[2], (segment, packet))
        assert wire.arrived()[: len(sent)] == sent, number
    assert wire.answer(blocks) < 60000
    assert 4 * MSS <= wire.window(60000) << SCALE <= FLIGHT


# --- what others forge --------------------------------------------------------------------------


def flood(net: Chain, node: int, count: int, source: str, target: str, flags: int = SYN) -> None:
    """Connections that are never answered; with another flag than SYN, they also send data."""
    segments = []
    for number in range(count):
        ends = (source, 1024 + number % 60000), (target, 2000 + number // 60000)
        # The second one shows that it is used, which maps consider.
        segments += [Segment(*ends, number, SYN, options=USUAL)] * 2
        if flags & ACK:
            segments.append(Segment(*ends, number + 1, ACK, 1, data=b"x"))
    for start in range(0, len(segments), 1024):
        send(net.nodes[node], *segments[start : start + 1024])
        # The delay at w1 holds 10000 packets, and drops others.
        time.sleep(0.003)


def is_lowered(wire: Wire) -> bool:
    wire.measure()
    return wire.window(60000) << SCALE <= FLIGHT


@pytest.mark.tier("all")
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_flood_of_syns_from_outside(net: Chain, made: Enforcer, answered: bool) -> None:
    """Before or after a host answers a SYN, which is kept until then and may be replaced.

    Then the connection is left alone, and not broken: nothing is known of its windows.
    """
    wire = Wire(net)
    made.set(wire.session, RATE)
    unknown = made.read_windows().unknown

    def overflow() -> None:
        flood(net, 2, 3 * STARTS, PEER, NEIGHBOUR)

    if answered:
        wire.accept()
        overflow()
    else:
        wire.accept(between=overflow)
    time.sleep(0.1)
    wire.forget()
    if answered:
        assert is_lowered(wire)
        return
    assert wire.window(60000) == wire.window(60000) == 60000
    assert wire.window(7) == 7 and wire.window(0) == 0
    assert made.read_windows().unknown == unknown + 1
    # The next connection with the same ports is not.
    wire.next, wire.peer_next = wire.next + 10**6, wire.peer_next + 10**6
    wire.accept()
    assert is_lowered(wire)


@pytest.mark.parametrize("flags", [SYN, SYN | ACK], ids=["syns", "connections"])
def test_flood_of_a_neighbour(net: Chain, made: Enforcer, flags: int) -> None:
    """While a connection of a host opens, and later."""
    opening, established = Wire(net), Wire(net, (HOST, 1001))
    for wire in (opening, established):
        made.set(wire.session, RATE)
        wire.connect()
    established.measure()
    flood(net, 0, 4 * PLACES, NEIGHBOUR, PEER, flags)
    assert is_lowered(opening) and is_lowered(established)


def test_flood_of_many_neighbours(net: Chain, made: Enforcer) -> None:
    """A connection with a session keeps its place for more than a second of silence.

    The session is not of a detected flow, so the connection was never reported.
    """
    wire = Wire(net)
    made.set(wire.session, RATE)
    wire.connect()
    wire.measure()
    time.sleep(1.5)
    # Some 15 hosts for each set of eight places.
    for number in range(2000):
        flood(net, 0, 1, f"10.7.{1 + number // 250}.{1 + number % 250}", PEER)
    assert is_lowered(wire)


def test_memory_does_not_grow(net: Chain, made: Enforcer) -> None:
    """An entry has 232 octets, and there is one for each place of the table of connections."""

    def maps() -> set[tuple[str, ...]]:
        names = ("map_type", "value_size", "max_entries", "memlock")
        found = set()
        for path in Path(f"/proc/{made.process.pid}/fdinfo").iterdir():
            lines = path.read_text().splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if "map_id" in fields:
                found.add(tuple(fields[name] for name in names))
        return found

    before = maps()
    assert {each[1:3] for each in before} >= {("232", str(PLACES)), ("48", str(STARTS))}
    flood(net, 0, 2 * PLACES, NEIGHBOUR, PEER, SYN | ACK)
    assert maps() == before


class Knowing:
    """A stranger who knows the sequence numbers of a connection that is the kernel's."""

    def __init__(self, net: Chain, flow: Sender) -> None:
        self.near, self.far = flow.near.getsockname(), flow.far.getsockname()
        with net.nodes[0].entered():
            self.seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
            self.seen.bind(("e0", 0x0003))
        self.seen.setblocking(False)
        self.end = 0

    def look(self) -> int:
        """The highest octet that the near end has sent."""
        try:
            while True:
                packet, (_, _, kind, *_) = self.seen.recvfrom(100, socket.MSG_TRUNC)
                source, _, sequence = struct.unpack_from(">HHI", packet, 20)
                length = struct.unpack_from(">H", packet, 2)[0] - 20 - (packet[32] >> 4) * 4
                if kind == socket.PACKET_OUTGOING and source == self.near[1] and length:
                    self.end = sequence + length
        except BlockingIOError:
            return self.end


class Gaps:
    """The longest time without data at the receiver [s], of all that it watches together."""

    def __init__(self, flow: Sender) -> None:
        self.flow, self.before = flow, flow.received
        self.last, self.longest = time.monotonic(), 0.0

    def watch(self, traffic: Traffic, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            traffic.run(0.005)
            self.longest = max(self.longest, time.monotonic() - self.last)
            if self.flow.received != self.before:
                self.before, self.last = self.flow.received, time.monotonic()


def disturb(net: Chain, made: Enforcer, node: int, forge: str) -> Seen:
    """Forge packets for an honest connection, which never stands still; then watch it."""
    numbers = random.Random(1)
    flow = sender(net, 0, 2)
    made.set(flow.session, RATE)
    traffic = Traffic(flow)
    knowing = Knowing(net, flow)
    traffic.settle(1)
    gaps = Gaps(flow)
    for _ in range(20):
        end = knowing.look()
        ends, back = (knowing.near, knowing.far), (knowing.far, knowing.near)
        anything = numbers.getrandbits(32)
        packets = {
            "any number": [
                Segment(*back, 7, ACK, numbers.getrandbits(32), numbers.choice((0, 1, 65535)))
                for _ in range(20)
            ],
            "far ahead": [Segment(*back, 7, ACK, end + 2**30, 65535)],
            "old": [Segment(*back, 7, ACK, end - 2**30, field) for field in (0, 65535)],
            "in flight": [Segment(*back, 7, ACK, end - 1, field) for field in (0, 1, 65535)],
            "sack": [
                Segment(
                    *(*back, 7, ACK, end - 20000, 65535),
                    bytes([1, 1, 5, 10]) + struct.pack(">II", end - 1, end),
                )
            ],
            "syn": [Segment(*back, anything, SYN, options=USUAL)],
            "syn-ack": [
                Segment(*back, 7, SYN | ACK, number, 1, SCALE_14) for number in (anything, end)
            ],
            "syn of neighbour": [Segment(*ends, anything, SYN, options=USUAL)],
            "handshake of both": [Segment(*ends, anything, SYN, options=USUAL)],
            "data of neighbour": [Segment(*ends, end + 2**30, ACK, 7, 1, data=bytes(100))],
        }
        send(net.nodes[node], *packets[forge])
        if forge == "handshake of both":
            send(net.nodes[2], Segment(*back, 3, SYN | ACK, anything + 1, 1, SCALE_14))
        gaps.watch(traffic, 0.05)
    # Also one that began with the last packets.
    gaps.watch(traffic, STALL + 0.1)
    assert gaps.longest < STALL
    return watch(made, flow, seconds=1, settle=0.5)


@pytest.mark.parametrize(
    "forge",
    [
        # Numbers at random include those far ahead and old ones.
        "any number",
        pytest.param("far ahead", marks=EVERYWHERE),
        pytest.param("old", marks=EVERYWHERE),
        "in flight",
        "sack",
        "syn",
        "syn-ack",
    ],
)
def test_packets_forged_outside(net: Chain, made: Enforcer, forge: str) -> None:
    disturb(net, made, 2, forge).check()
    assert made.read_windows().unknown == 0


@pytest.mark.parametrize(
    "forge",
    [
        # A handshake begins with it.
        pytest.param("syn of neighbour", marks=EVERYWHERE),
        "handshake of both",
        "data of neighbour",
    ],
)
def test_packets_forged_by_a_neighbour(net: Chain, made: Enforcer, forge: str) -> None:
    """With the address and the ports of the host."""
    disturb(net, made, 0, forge).check()
    assert made.read_windows().unknown == 0


# --- what ends do for themselves ----------------------------------------------------------------


def ignore_windows(net: Chain) -> None:
    """Undo at node 0 what was lowered."""
    net.nodes[0].sh(
        "nft 'add table ip cheat; add chain ip cheat in "
        "{ type filter hook prerouting priority -300; }; "
        "add rule ip cheat in tcp window set 65535'"
    )


def test_sender_that_ignores_windows_gains_nothing(net: Chain, made: Enforcer) -> None:
    """It is paced as without windows."""
    results = []
    for on in (False, True):
        made.set_windows(on)
        ignore_windows(net)
        flow = sender(net, 0, 2)
        results.append(watch(made, flow))
        flow.abort()
    without, lowered = results
    assert 0.97 < lowered.used < 1.01 and abs(lowered.used - without.used) < 0.02
    assert 3 < without.median < 1.3 * lowered.median


@pytest.mark.parametrize(
    "ignored", [pytest.param(False, marks=EVERYWHERE), True], ids=["usual", "ignored"]
)
def test_conntrack(net: Chain, made: Enforcer, ignored: bool) -> None:
    """It accepts what obeys lowered windows; that of the router accepts no more."""
    for node in net.nodes:
        node.sh(
            "nft 'add table ip watch; add chain ip watch out "
            "{ type filter hook postrouting priority 200; }; "
            "add chain ip watch in { type filter hook prerouting priority 200; }; "
            "add rule ip watch out ct state invalid counter; "
            "add rule ip watch in ct state invalid counter'"
        )
    if ignored:
        ignore_windows(net)
    flow = sender(net, 0, 2)
    assert 0.97 < watch(made, flow).used < 1.01
    shown = [node.sh("nft list table ip watch").stdout for node in net.nodes]
    invalid = [sum(map(int, re.findall(r"counter packets (\d+)", each))) for each in shown]
    print(f"invalid at host, router and receiver: {invalid}")
    assert invalid[0] == invalid[2] == 0 and (invalid[1] > 100) == ignored


def test_receiver_with_another_scale_hurts_itself_only(net: Chain, made: Enforcer) -> None:
    """Its first SYN-ACK ends at the router (TTL 1), the second one has another scale."""
    wire, other = Wire(net), Wire(net, (HOST, 1001))
    for each in (wire, other):
        made.set(each.session, RATE)
    other.connect()
    send(net.nodes[0], wire.from_host(SYN, USUAL))
    wire.next += 1
    lie = wire.from_peer(SYN | ACK, 60000, SCALE_14)
    packet = bytearray(lie.ip(lie.tcp))
    packet[8] = 1
    send_raw(net.nodes[2], (lie, bytes(packet)))
    assert wire.answer(wire.from_peer(SYN | ACK, 60000, USUAL)) >= 4 * MSS
    wire.peer_next += 1
    # The router takes it for 800 kB, more than there may be before the round trip is known.
    assert 0 < wire.window(50) < 50
    wire.window(50)
    assert 0 < wire.window(60000) <= 50
    assert is_lowered(other)
