# SPDX-License-Identifier: GPL-2.0
"""The second implementation (peer.py) follows docs/protocol.md, and the protocol does as it says.

What: octets, ranges, codes, the page's test vector and single rules of sections 2 to 8, 11 and
13 (with its table of replays), and in small networks what sections 16 and 18 prove: rates become
max-min, and rates in use never exceed C, with losses, deaths and small memories.
How: without sockets or the first implementation; links, sources and their packets are objects
in a simulation of events. Random numbers have fixed seeds.

Assumptions: the networks have fixed delays; data takes the same path and the same time as the
packets (A1, A2), so the rate of a source arrives at a link after the delay from the source.
"""

from __future__ import annotations

import heapq
import itertools
import random
import struct
from collections.abc import Callable
from fractions import Fraction

import pytest

from tests.second import peer
from tests.second.peer import Destination, Envelope, Link, Packet, Return, Slot, Source

MBIT = 10**6
MS = 10**6
S = 10**9
HOST_A, HOST_B = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
DOWN = Envelope(HOST_A, HOST_B)
KEY = bytes(range(16))


class Session:
    """A source with its path and timers, in a Net."""

    def __init__(self, net: Net, path: list[int], D: int, weight: int) -> None:
        number = len(net.sessions) + 1
        self.net, self.path = net, path
        self.envelope = Envelope(b"\x0a\x01" + number.to_bytes(2, "big"), HOST_B)
        self.source = Source(
            net.random.randbytes(16), D, envelope=self.envelope, weight=weight, keys=net.keys
        )
        self.alive = True
        self.reported = 0
        self.round = 0

    def transmit(self, round_: int) -> None:
        """Send the packet if this timer is still the current one, and start the next timer."""
        if not self.alive or round_ != self.round or self.source.state == "over":
            return
        out = self.source.send(self.net.now, self.net.clock())
        self.report()
        assert out.octets and out.envelope
        self.net.forward(self, out.octets, out.envelope, 0)
        rtt = 2 * (len(self.path) + 1) * self.net.delay
        self.net.after(int(rtt * self.net.random.uniform(1.5, 2)), lambda: self.transmit(round_))

    def receive(self, octets: bytes, envelope: Envelope) -> None:
        """Take a reply, and pause before the next packet."""
        if not self.alive:
            return
        reason = self.source.receive(octets, self.net.now, envelope, self.net.clock())
        self.report()
        if reason:
            self.net.dropped.append(reason)
            return
        self.round += 1
        round_, urgent = self.round, self.source.urgent or self.source.leaving
        pause = self.net.random.uniform(0, 2 * MS) if urgent else self.net.random.uniform(20, 60)
        self.net.after(int(pause if urgent else pause * MS), lambda: self.transmit(round_))
        if self.source.lease is not None:
            self.net.after(max(self.source.lease - self.net.now, 0), self.end_of_lease)

    def end_of_lease(self) -> None:
        """Whatever limits the rate enforces the lease by itself."""
        self.source.expire(self.net.now)
        self.report()

    def report(self) -> None:
        """Let data of a new rate arrive at the links of the path."""
        rate = self.source.rate if self.alive else 0
        if rate == self.reported:
            return
        self.reported = rate
        for position, k in enumerate(self.path):
            self.net.after((position + 1) * self.net.delay, self.net.arrival(k, self, rate))


class Net:
    """Links, sessions and a clock. `loss` is the probability that a hop loses a packet."""

    def __init__(
        self, capacities: list[int], *, loss: float = 0, memory: int = 1000, commit: bool = True,
        seed: int = 1, headroom: int = 5, keys: dict[int, bytes] | None = None, T: int = S,
    ) -> None:  # fmt: skip
        self.random = random.Random(seed)
        self.now = 0
        self.delay = MS
        self.loss, self.keys = loss, keys or {}
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.links = [
            Link(
                C, C * (100 - headroom) // 100, tag=self.random.randint(1, 65535), number=k + 1,
                address=bytes((192, 0, 2, k + 1)), memory=memory, commit=commit, keys=self.keys,
                T=T, hash_key=self.random.randbytes(16),
            )
            for k, C in enumerate(capacities)
        ]  # fmt: skip
        self.sessions: list[Session] = []
        self.arriving: list[dict[Session, int]] = [{} for _ in capacities]
        self.most = [0.0 for _ in capacities]
        self.most_held = [0.0 for _ in capacities]
        self.dropped: list[str] = []

    def clock(self) -> int:
        """The real-time clock in seconds."""
        return 1_000_000 + self.now // S

    def after(self, delay: int, event: Callable[[], None]) -> None:
        """Run an event after a delay; events of the same time run in order."""
        self.order += 1
        heapq.heappush(self.events, (self.now + delay, self.order, event))

    def run(self, seconds: float) -> None:
        """Run all events of the next seconds."""
        end = self.now + int(seconds * S)
        while self.events and self.events[0][0] <= end:
            self.now, _, event = heapq.heappop(self.events)
            event()
        self.now = end

    def join(self, path: list[int], D: int = 10**15, weight: int = 1) -> Session:
        """Start a session within the next 5 ms."""
        session = Session(self, path, D, weight)
        self.sessions.append(session)
        self.after(self.random.randint(0, 5 * MS), lambda: session.transmit(0))
        return session

    def arrival(self, k: int, session: Session, rate: int) -> Callable[[], None]:
        """Data of a new rate arrives at link k."""

        def arrive() -> None:
            self.arriving[k][session] = rate
            load = sum(self.arriving[k].values()) / self.links[k].C
            self.most[k] = max(self.most[k], load)

        return arrive

    def forward(self, session: Session, octets: bytes, envelope: Envelope, position: int) -> None:
        """Carry a packet to the next hop downstream, or to the destination."""
        if self.random.random() < self.loss:
            return

        def arrive() -> None:
            if position == len(session.path):
                out = Destination(self.keys).reply(octets, envelope, self.clock())
                assert out.octets and out.envelope, out.reason
                self.back(session, out.octets, out.envelope)
                return
            k = session.path[position]
            out = self.links[k].down(octets, self.now, envelope, self.clock())
            self.watch(k)
            if out.octets and out.envelope:
                self.forward(session, out.octets, out.envelope, position + 1)
            else:
                self.dropped.append(out.reason)

        self.after(self.delay, arrive)

    def back(self, session: Session, octets: bytes, envelope: Envelope) -> None:
        """Carry a reply to the address of the next return."""
        if self.random.random() < self.loss:
            return

        def arrive() -> None:
            if envelope.destination == session.envelope.source:
                session.receive(octets, envelope)
                return
            k = envelope.destination[3] - 1
            out = self.links[k].up(octets, self.now, envelope, self.clock())
            self.watch(k)
            if out.octets and out.envelope:
                self.back(session, out.octets, out.envelope)
            else:
                self.dropped.append(out.reason)

        self.after(self.delay, arrive)

    def watch(self, k: int) -> None:
        """Record the most that a link held."""
        link = self.links[k]
        self.most_held[k] = max(self.most_held[k], (link.cur.A + link.prev.A) / link.C)

    def expected(self) -> list[float]:
        """Weighted max-min rates for the capacities P, by water-filling."""
        active = [s for s in self.sessions if s.alive and s.source.state != "over"]
        rates: dict[Session, Fraction] = {}
        while len(rates) < len(active):
            levels: list[tuple[Fraction, list[Session]]] = []
            for k, link in enumerate(self.links):
                here = [s for s in active if k in s.path]
                free = [s for s in here if s not in rates]
                if free:
                    left = link.P - sum((rates[s] for s in here if s in rates), Fraction(0))
                    levels.append((left / sum(s.source.pkt.weight for s in free), free))
            for s in active:
                if s not in rates:
                    levels.append((Fraction(s.source.D, s.source.pkt.weight), [s]))
            level, limited = min(levels, key=lambda x: x[0])
            for s in limited:
                rates[s] = level * s.source.pkt.weight
        return [float(rates[s]) for s in active]

    def check_rates(self, tolerance: float = 5) -> None:
        """Rates are the max-min rates, up to rounding (section 18: some bit/s)."""
        active = [s for s in self.sessions if s.alive and s.source.state != "over"]
        for s, rate in zip(active, self.expected(), strict=True):
            assert abs(s.source.rate - rate) <= tolerance * s.source.pkt.weight, (s.path, rate)

    def check_empty(self) -> None:
        """All sums are 0."""
        for link in self.links:
            for ledger in (link.cur, link.prev):
                assert ledger == peer.Ledger()


@pytest.mark.tier("check")
def test_one_link() -> None:
    net = Net([100 * MBIT])
    for _ in range(10):
        net.join([0])
    net.run(3)
    assert [s.source.rate for s in net.sessions] == [9_500_000] * 10
    assert net.links[0].cur.A + net.links[0].prev.A == 95 * MBIT
    assert net.most[0] <= 1 and net.most_held[0] <= 1
    assert net.links[0].clamped == 0 and net.dropped == []


@pytest.mark.tier("check")
@pytest.mark.parametrize("keys", [None, {7: KEY}])
def test_parking_lot(keys: dict[int, bytes] | None) -> None:
    net = Net([10 * MBIT, 7 * MBIT, 20 * MBIT], keys=keys)
    for path in [[0, 1, 2], [0], [0], [1], [2], [1, 2]]:
        net.join(path, weight=1 + len(net.sessions) % 3)
    for s in net.sessions:
        s.source.key = 7
    net.join([2], D=123_457).source.key = 7
    net.run(6)
    net.check_rates()
    assert max(net.most) <= 1 and max(net.most_held) <= 1
    assert all(link.clamped == 0 for link in net.links) and net.dropped == []


@pytest.mark.tier("check")
@pytest.mark.parametrize(
    ("seed", "loss", "memory"),
    [(0, 0, 0), (1, 0, 1000), (2, 0.05, 0), (3, 0.05, 1000), (4, 0.05, 3), (5, 0.3, 1000)],
)
def test_changes(seed: int, loss: float, memory: int) -> None:
    """Sessions join, change, leave and die; then all rates are max-min, and finally all sums 0."""
    net = Net([10 * MBIT, 7 * MBIT, 20 * MBIT, 5 * MBIT], seed=seed, loss=loss, memory=memory)
    rng = random.Random(seed)
    for step in range(25):
        first = rng.randint(0, 3)
        net.join(
            list(range(first, rng.randint(first, 3) + 1)),
            D=rng.choice([10**15, rng.randint(1000, 3 * MBIT)]),
            weight=rng.choice([1, 1, 2, 5]),
        )
        net.run(rng.uniform(0, 0.2))
        session = rng.choice(net.sessions)
        if step % 3 == 1 and not session.source.leaving:
            session.source.leave()
            session.report()
        elif step % 7 == 2 and loss:
            session.alive = False
            session.report()
        elif step % 3 == 2:
            session.source.change(rng.randint(1000, 5 * MBIT))
            session.report()
    if loss == 0:
        assert all(link.clamped == 0 for link in net.links) and net.dropped == []
        assert max(net.most_held) <= 1
    net.loss = 0
    net.run(10)
    net.check_rates()
    assert max(net.most) <= 1
    for session in net.sessions:
        if session.alive and session.source.state != "over":
            session.source.leave()
            session.report()
    net.run(0.5)
    assert all(not s.alive or s.source.state == "over" for s in net.sessions)
    if loss == 0:
        net.check_empty()
    for link in net.links:
        link.rotate(net.now + 2 * S)
    net.check_empty()


@pytest.mark.tier("check")
def test_commit_off() -> None:
    """The same rates, without a lease, and with an overshoot (section 14)."""
    net = Net([10 * MBIT, 7 * MBIT], commit=False)
    for path in [[0, 1], [0], [1]]:
        net.join(path)
        net.run(1)
    net.run(2)
    net.check_rates()
    assert max(net.most) > 1 and max(net.most_held) == 0
    assert all(s.source.lease is None for s in net.sessions) and net.dropped == []


@pytest.mark.tier("check")
def test_lease_ends_when_path_fails() -> None:
    """Without acknowledgments the rate becomes 0: MUST (6)."""
    net = Net([10 * MBIT])
    session = net.join([0])
    net.run(2)
    assert session.source.rate == 9_500_000
    net.loss = 1
    net.run(1.1)
    assert session.source.rate == 0
    net.loss = 0
    net.run(1)
    assert session.source.rate == 9_500_000


@pytest.mark.tier("check")
def test_restart_with_quiet_time() -> None:
    """After a restart a link grants no rises for `quiet`; rates in use are at most C: MUST (8)."""
    net = Net([10 * MBIT, 10 * MBIT])
    net.join([0, 1])
    net.join([1])
    net.run(2)
    net.links[1].start(net.now, 4711, KEY)
    late = net.join([1])
    net.run(0.9)
    assert late.source.rate == 0
    net.run(3)
    net.check_rates()
    assert max(net.most) <= 1


def make(kind: int = peer.PROBE, slots: int = 4, **fields: int) -> Packet:
    """A packet over IPv4 without options."""
    pkt = Packet(
        kind, bytes(range(16)), 1, [Slot() for _ in range(slots)],
        [Return(0, HOST_A)] + [Return(0, bytes(4))] * slots, bw=10**15,
    )  # fmt: skip
    for name, value in fields.items():
        setattr(pkt, name, value)
    return pkt


@pytest.mark.tier("check")
def test_layout() -> None:
    """Each field has its offset and size (section 2)."""
    pkt = make(seq=0x01020304, hop=2, bottleneck=3, flags=1, weight=0x0A0B0C, epoch=0x11121314)
    pkt.B, pkt.bw2, pkt.bw1, pkt.bw, pkt.use1, pkt.use, pkt.g = 5, 12, 11, 10, 21, 20, 30
    pkt.slot[1] = Slot(0x4142, 0x4344)
    pkt.returns[2] = Return(0x5152, b"wxyz")
    octets = pkt.build()
    assert octets[:24].hex() == "534c424e0202008e01020304" + "02040a03" + "010a0b0c" + "11121314"
    assert octets[24:40] == bytes(range(16))
    assert struct.unpack(">7Q", octets[40:96]) == (5, 12, 11, 10, 21, 20, 30)
    assert octets[96:102] == b"\x00\x00" + HOST_A  # return 0
    assert octets[112:122] == b"\x41\x42\x43\x44\x51\x52wxyz"  # slot 1; return 2 is at 96 + 20
    assert len(octets) == 96 + 6 + 4 * 10 == 0x8E
    assert peer.parse_packet(octets + b"rest", 4).build() == octets + b"rest"


@pytest.mark.tier("check")
def test_mtu() -> None:
    """Over IPv6 and an MTU of 1500: 60 slots with authentication, 59 with the share (19)."""
    pkt = make(slots=60)
    pkt.returns = [Return(0, bytes(16))] * 61
    pkt.options = [peer.Option(peer.AUTHENTICATION, bytes(14))]
    assert 40 + 8 + len(pkt.build()) == 1498
    pkt.options.append(peer.Option(peer.SHARE, bytes(16)))
    assert 40 + 8 + len(pkt.build()) - 22 == 1494


@pytest.mark.tier("check")
@pytest.mark.parametrize(
    ("offset", "octets", "reason"),
    [
        (0, b"SLBM", "bad_magic"),
        (4, b"\x01", "other_version"),
        (5, b"\x00", "bad_type"),
        (5, b"\x06", "bad_type"),
        (6, b"\x00\x8d", "bad_length"),
        (6, b"\x00\x8f", "truncated"),
        (12, b"\x05", "bad_hop"),
        (13, b"\x00", "bad_slots"),
        (13, b"\x41", "bad_slots"),
        (14, b"\x16", "bad_slot_length"),
        (15, b"\x04", "bad_bottleneck"),
        (17, b"\x00\x00\x00", "bad_weight"),
        (17, b"\x0f\x42\x41", "bad_weight"),
        (40, b"\x00" * 7 + b"\x10", "bad_B"),
        (48, (10**15 + 1).to_bytes(8, "big"), "bad_bw2"),
        (56, (10**15 + 1).to_bytes(8, "big"), "bad_bw1"),
        (64, (10**15 + 1).to_bytes(8, "big"), "bad_bw"),
        (72, (10**15 + 1).to_bytes(8, "big"), "bad_use1"),
        (80, (10**15 + 1).to_bytes(8, "big"), "bad_use"),
        (88, (10**15 + 1).to_bytes(8, "big"), "bad_g"),
    ],
)
def test_ranges(offset: int, octets: bytes, reason: str) -> None:
    """A packet with a field out of its range is dropped and changes nothing: MUST (2), (3)."""
    good = make().build()
    bad = good[:offset] + octets + good[offset + len(octets) :]
    link = Link(100 * MBIT, 95 * MBIT, tag=1)
    assert link.down(bad, 0, DOWN).reason == reason
    assert link.cur == peer.Ledger() and not link.entries
    assert link.down(good[:95], 0, DOWN).reason == "truncated_header"


@pytest.mark.tier("check")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("00", "truncated_option"),
        ("0003ffff", "truncated_option"),
        ("010d" + "00" * 13, "bad_option_length"),
        ("0227" + "00" * 39, "bad_option_length"),
        (("0228" + "00" * 40) * 2, "option_twice"),
        ("0310" + "00" * 8 + (10**15 + 1).to_bytes(8, "big").hex(), "bad_share"),
        ("0000" + "0001aa" + "c802beef" + "0000" + "0228" + "00" * 40, ""),
    ],
)
def test_options(options: str, reason: str) -> None:
    octets = make().build() + bytes.fromhex(options)
    octets = octets[:6] + len(octets).to_bytes(2, "big") + octets[8:]
    out = Link(100 * MBIT, 95 * MBIT, tag=1).down(octets, 0, DOWN)
    assert out.reason == reason
    if out.octets and "beef" in options:  # MUST (1): unknown options and padding
        assert out.octets[142:155].hex() == options[:26]


@pytest.mark.tier("check")
def test_fuzz() -> None:
    """No octets make a receiver fail; a dropped packet changes no state: MUST (3)."""
    rng = random.Random(1)
    link = Link(100 * MBIT, 95 * MBIT, tag=1, number=2, address=HOST_B)
    source = Source(bytes(range(16)), 10**9, envelope=DOWN)
    source.send(0)
    for _ in range(3000):
        pkt = make(rng.randint(1, 5), hop=rng.randint(0, 4), seq=rng.choice([0, 0, 1]))
        pkt.slot = [Slot(rng.choice([0, 1, 7]), rng.getrandbits(16)) for _ in pkt.slot]
        pkt.returns = [Return(rng.randint(2, 5), rng.choice([HOST_A, HOST_B])) for _ in pkt.returns]
        octets = bytearray(pkt.build())
        for _ in range(rng.randint(0, 2)):
            octets[rng.randrange(len(octets))] = rng.choice([0, 1, 255, rng.getrandbits(8)])
        before = repr((link.cur, link.prev, link.entries, link.clamped))
        data, envelope = bytes(octets[: rng.randint(0, 300)]), Envelope(HOST_A, HOST_B)
        down = rng.random() < 0.5
        out = link.down(data, 0, envelope) if down else link.up(data, 0, envelope)
        if out.reason:
            assert repr((link.cur, link.prev, link.entries, link.clamped)) == before
        Destination().reply(bytes(octets), DOWN)
        source.receive(bytes(octets), 0, DOWN)


@pytest.mark.tier("check")
def test_codes() -> None:
    """Codes are exact up to 2047 and change a rate by less than 2^-10 of it (section 3)."""
    assert peer.decode(0xFFFF) == 2047 * 2**31
    for rate in range(2048):
        assert peer.encode_down(rate) == peer.encode_up(rate) == rate
    numbers = sorted({peer.decode(code) for code in range(65536)})
    rng = random.Random(1)
    samples = numbers + [n + 1 for n in numbers[:-1]] + [n - 1 for n in numbers[1:]]
    for rate in samples + [rng.randint(0, 2047 * 2**31) for _ in range(1000)]:
        down, up = peer.decode(peer.encode_down(rate)), peer.decode(peer.encode_up(rate))
        assert down <= rate <= up
        assert (rate - down) * 1024 < max(rate, 1) and (up - rate) * 1024 < max(rate, 1)
    for a, b in itertools.pairwise(numbers):
        for rate in (a + 1, b - 1):
            if a < rate < b:
                assert peer.decode(peer.encode_down(rate)) == a
                assert peer.decode(peer.encode_up(rate)) == b


@pytest.mark.tier("check")
def test_sequence_numbers() -> None:
    """Comparison modulo 2^32 (section 3, rule 5)."""
    assert peer.older(1, 2) and not peer.older(2, 1) and not peer.older(2, 2)
    assert peer.older(2**32 - 1, 0) and not peer.older(0, 2**32 - 1)


def cycle(source: Source, link: Link, now_ns: int) -> Packet:
    """One cycle over one link without loss; returns the packet that comes back."""
    out = source.send(now_ns)
    assert out.octets
    out = link.down(out.octets, now_ns, DOWN)
    assert out.octets, out.reason
    out = Destination().reply(out.octets, DOWN)
    assert out.octets and out.envelope
    out = link.up(out.octets, now_ns, out.envelope)
    assert out.octets and out.envelope, out.reason
    assert out.envelope == Envelope(link.address or b"", HOST_A)
    assert source.receive(out.octets, now_ns, out.envelope) == ""
    return peer.parse_packet(out.octets, 4)


def new_link(memory: int = 10) -> Link:
    """A link of 100 Mbit/s with 5 % headroom."""
    return Link(100 * MBIT, 95 * MBIT, tag=100, memory=memory, hash_key=KEY)


@pytest.mark.tier("check")
def test_cycle_step_by_step() -> None:
    """The fields of a session with one link (sections 5 and 6), and its masked tag (8)."""
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    masked = link.mask_tag(bytes(16), 100)
    assert masked != 100 and link.unmask_tag(bytes(16), masked) == 100
    ack = cycle(source, link, 0)
    assert (ack.type, ack.seq, ack.hop, len(ack.slot)) == (peer.PROBE_ACK, 0, 0, 32)
    assert ack.bottleneck == 0
    assert (ack.B, ack.bw, ack.g, ack.epoch) == (1, 95 * MBIT, 95 * MBIT, 10**6)
    assert ack.slot[0] == Slot(masked, peer.encode_up(95 * MBIT))
    assert ack.returns[1] == Return(1, link.address or b"")
    assert link.cur.A == peer.decode(ack.slot[0].code) >= 95 * MBIT
    assert (link.cur.N, link.cur.NR, link.cur.BF) == (1, 1, 0)
    assert (source.rate, source.lease, source.urgent) == (95 * MBIT, S * 7 // 8, True)
    assert (len(source.pkt.slot), source.pkt.use1, source.pkt.use) == (3, 0, 95 * MBIT)
    ack = cycle(source, link, 1)
    assert link.cur.A == 95 * MBIT and ack.slot[0] == Slot(masked, 0)
    source.leave()
    assert source.rate == 0
    cycle(source, link, 2)
    assert source.pkt.type == peer.LEAVE and source.pkt.use1 == 0
    assert link.cur.A >= 95 * MBIT  # the last Probe was granted its rate again
    cycle(source, link, 3)
    assert source.state == "over" and link.cur == peer.Ledger() and link.clamped == 0


@pytest.mark.tier("check")
def test_rotation() -> None:
    """Tags, migration, and what becomes of it when several epochs pass (section 8)."""
    link, source = new_link(0), Source(bytes(16), 10**15, envelope=DOWN, margin=10**10)
    link.tag, link.epoch_start = 65535, -1
    cycle(source, link, 0)
    cycle(source, link, S - 1)
    assert (link.tag, link.prev_tag, link.prev) == (1, 65535, peer.Ledger())
    assert link.cur.A == 95 * MBIT
    link.rotate(2 * S - 2)
    assert link.tag == 1
    link.rotate(10 * S)
    assert link.cur == link.prev == peer.Ledger() and link.epoch_start == 10 * S - 1


@pytest.mark.tier("check")
def test_stale_overuse_and_unknown_tag() -> None:
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    cycle(source, link, 0)
    probe = source.send(1).octets
    assert probe and link.down(probe, 1, DOWN).octets
    assert link.down(make(peer.JOIN, id=bytes(16)).build(), 1, DOWN).reason == "stale"  # type: ignore[arg-type]
    pkt = peer.parse_packet(probe, 4)
    pkt.use = link.cur.A + 1
    assert link.down(pkt.build(), 1, DOWN).reason == "overuse"
    pkt.type, pkt.hop, pkt.id = peer.PROBE_ACK, 1, bytes(15) + b"x"
    pkt.slot[0].tag, pkt.use = link.mask_tag(pkt.id, 99), 0
    pkt.returns[1] = Return(1, link.address or b"")
    back = Envelope(HOST_B, link.address or b"")
    assert link.up(pkt.build(), 1, back).reason == "wrong_path"
    pkt.returns[1] = Return(2, link.address or b"")
    assert link.up(pkt.build(), 1, back).reason == "unknown_link"
    pkt.returns[1] = Return(1, HOST_B)
    assert link.up(pkt.build(), 1, back).reason == "bad_return"
    pkt.returns[:2] = [Return(0, b"\xe0\x00\x00\x01"), Return(1, link.address or b"")]
    assert link.up(pkt.build(), 1, back).reason == "bad_return"
    pkt.hop = 0
    assert link.up(pkt.build(), 1, back).reason == "wrong_path"
    pkt.type, pkt.hop = peer.PROBE, len(pkt.slot)
    assert link.down(pkt.build(), 1, DOWN).reason == "too_many_hops"
    link.address = b""
    assert link.down(probe, 1, DOWN).reason == "no_address"


@pytest.mark.tier("check")
@pytest.mark.parametrize("copy", ["down", "up"])
def test_duplicates_keep_the_grant(copy: str) -> None:
    """Another copy of a packet does not lower what its first copy was granted (5.3, 5.4)."""
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    first = source.send(0).octets
    assert first
    down = link.down(first, 0, DOWN)
    assert down.octets
    reply = Destination().reply(down.octets, DOWN)
    assert reply.octets and reply.envelope
    assert link.up(reply.octets, 0, reply.envelope).octets
    held = link.cur.A
    assert held >= 95 * MBIT
    if copy == "down":
        assert link.down(source.send(1).octets or b"", 1, DOWN).octets
    else:
        link.quiet_until = S  # no rises: but what was granted stays held
        out = link.up(reply.octets, 1, reply.envelope)
        assert out.octets and peer.parse_packet(out.octets, 4).g == 0
        assert peer.parse_packet(out.octets, 4).slot[0].code == peer.encode_up(held)
    assert held == link.cur.A and link.cur.N == 1 and link.clamped == 0


@pytest.mark.tier("check")
def test_retransmission_slots_and_ignored_replies() -> None:
    """The third transmission has the largest number of slots again (section 6)."""
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    ack = cycle(source, link, 0)
    assert source.receive(ack.build(), 1, DOWN) == "not_in_flight"
    packets = [peer.parse_packet(source.send(t).octets or b"", 4) for t in range(1, 5)]
    assert [len(p.slot) for p in packets] == [3, 3, 32, 32]
    assert [p.flags for p in packets] == [0, 1, 1, 1]
    assert source.receive(ack.build(), 1, DOWN) == "other_seq"
    ack.type = peer.LEAVE_ACK
    assert source.receive(ack.build(), 1, DOWN) == "other_type"
    ack.id = bytes(15) + b"x"
    assert source.receive(ack.build(), 1, DOWN) == "other_session"
    assert source.sent == 1


@pytest.mark.tier("check")
def test_lease_of_an_acknowledgment() -> None:
    """Steps 3 and 4 of section 6: the rate is 0 if a lease ended."""
    source = Source(bytes(16), 10 * MBIT, envelope=DOWN, margin=10**9)
    ack = peer.parse_packet(source.send(0).octets or b"", 4)
    ack.type, ack.g, ack.epoch = peer.PROBE_ACK, 4 * MBIT, 1000
    assert source.receive(ack.build(), MS - 1, DOWN) == ""
    assert (source.rate, source.plan, source.lease) == (4 * MBIT, 10 * MBIT, MS)
    ack = peer.parse_packet(source.send(MS - 1).octets or b"", 4)
    ack.type, ack.g, ack.epoch = peer.PROBE_ACK, 4 * MBIT, 1000
    assert source.receive(ack.build(), MS, DOWN) == ""
    assert source.rate == 0 and source.lease == 2 * MS - 1 and source.pkt.use1 == 4 * MBIT
    source.send(MS)
    ack.seq = 2
    assert source.receive(ack.build(), 2 * MS, DOWN) == ""
    assert source.rate == 0


@pytest.mark.tier("check")
def test_destination_clears_hops_of_a_longer_path() -> None:
    """Section 7: B, bottleneck, tags and codes from `hop` on."""
    pkt = make(hop=2, B=0b1110, bottleneck=2, g=5, epoch=3)
    pkt.slot = [Slot(n, n) for n in range(1, 5)]
    pkt.returns[2] = Return(9, b"\xc0\x00\x02\x09")
    out = Destination().reply(pkt.build() + b"x", DOWN)
    assert out.octets and out.envelope == Envelope(HOST_B, b"\xc0\x00\x02\x09")
    reply = peer.parse_packet(out.octets, 4)
    assert (reply.type, reply.hop, reply.B, reply.bottleneck) == (peer.PROBE_ACK, 2, 0b10, 255)
    assert (reply.g, reply.epoch) == (10**15, 2**32 - 1)
    assert [s.tag for s in reply.slot] == [s.code for s in reply.slot] == [1, 2, 0, 0]
    pkt.type = peer.LEAVE
    leave_ack = peer.parse_packet(Destination().reply(pkt.build(), DOWN).octets or b"", 4)
    assert leave_ack.type == peer.LEAVE_ACK and leave_ack.g == 5


@pytest.mark.tier("check")
def test_ipv6() -> None:
    """A cycle over IPv6 with authentication (sections 2 and 13)."""
    net = bytes.fromhex("20010db8" + "00" * 11)
    a, b = net + b"\x01", net + b"\x02"
    down, keys = Envelope(a, b), {9: KEY}
    source = Source(bytes(16), 10**15, envelope=down, keys=keys, key=9)
    link = Link(10**8, 10**8, tag=3, address=b[:15] + b"\x03", keys=keys)
    first = source.send(0).octets or b""
    assert len(first) == 96 + 18 + 32 * 22 + 16 and first[14] == 22
    out = link.down(first, 0, down)
    assert link.up(first, 0, down).reason == "not_upstream"
    assert link.down(first, 0, DOWN).reason == "bad_slot_length"
    reply = Destination(keys).reply(out.octets or b"", down)
    assert reply.octets and reply.envelope == Envelope(b, b[:15] + b"\x03")
    up = link.up(reply.octets, 0, reply.envelope)
    assert up.octets and up.envelope == Envelope(b[:15] + b"\x03", a)
    assert source.receive(up.octets, 0, up.envelope) == ""
    assert source.plan == 10**8  # P = C: the rise is rounded down to what is free (18)
    assert source.rate == peer.decode(peer.encode_down(10**8)) < 10**8
    link_local = source.send(0).octets or b""
    assert link.down(link_local[:98] + b"\xfe\x80" + link_local[100:], 0, down).reason == "bad_key"


@pytest.mark.tier("check")
def test_trace() -> None:
    """Section 5.5: the link at the hop fills the option, others leave it."""
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    cycle(source, link, 0)
    out = link.down(source.send(1, trace=0).octets or b"", 1, DOWN, ttl=61, backlog=2**33)
    option = peer.parse_packet(out.octets or b"", 4).option(peer.TRACE)
    assert option
    values = peer.TRACE_VALUE.unpack(option.value)
    assert values == (0, 1, 61, 0, 2**32 - 1, 100 * MBIT, 95 * MBIT, 1, 95 * MBIT)
    again = Link(10**6, 10**6, tag=1).down(out.octets or b"", 1, DOWN)
    second = peer.parse_packet(again.octets or b"", 4).option(peer.TRACE)
    assert second and second.value == option.value


@pytest.mark.tier("check")
def test_share() -> None:
    """Section 5.6: the smallest share of the path; believed if each link has taken part."""
    link, source = new_link(), Source(bytes(16), 3 * MBIT, envelope=DOWN, weight=2)
    cycle(source, link, 0)
    cycle(Source(bytes(15) + b"x", 10**15, envelope=DOWN), link, 0)
    out = link.down(source.send(1, share=True).octets or b"", 1, DOWN)
    reply = Destination().reply(out.octets or b"", DOWN)
    option = peer.parse_packet(reply.octets or b"", 4).option(peer.SHARE)
    assert option and option.value == bytes(8) + (10**15).to_bytes(8, "big")
    assert reply.envelope
    up = link.up(reply.octets or b"", 1, reply.envelope)
    assert up.octets and source.receive(up.octets, 1, DOWN) == ""
    assert source.path_share == 95 * MBIT * 2 // 3 and source.rate == 3 * MBIT
    source.send(2)
    sent = peer.parse_packet(source.send(3, share=True).octets or b"", 4)
    assert not sent.option(peer.SHARE)  # not in a retransmission


@pytest.mark.tier("check")
@pytest.mark.parametrize("keys", [{}, {7: KEY}])
def test_edge_replies(keys: dict[int, bytes]) -> None:
    """Section 7: an edge replies to its own router; section 2: to the address of return 0."""
    home = b"\x0a\x00\x00\x09"
    source = Source(bytes(16), 10**15, envelope=DOWN, address=home, keys=keys, key=7)
    link = Link(100 * MBIT, 95 * MBIT, tag=100, keys=keys)
    assert link.address
    out = link.edge(source.send(0).octets or b"", 0, DOWN)
    assert out.octets and out.envelope == Envelope(link.address, link.address)
    out = link.up(out.octets, 0, out.envelope)
    assert out.octets and out.envelope == Envelope(link.address, home)
    assert source.receive(out.octets, 0, out.envelope) == ""
    assert source.rate == 95 * MBIT


@pytest.mark.tier("check")
def test_configuration_changes() -> None:
    """Section 11."""
    link, source = new_link(), Source(bytes(16), 10**15, envelope=DOWN)
    cycle(source, link, 0)
    link.configure(5, 77, KEY, T=S // 2)
    assert link.quiet_until == 5 + S and link.entries and link.tag == 100
    link.configure(6, 77, KEY, memory=20, T=0)
    assert not link.entries and link.cur.N == 1 and link.quiet_until == 5 + S
    link.configure(10 * S, 77, KEY, T=S)
    link.rotate(10 * S)
    assert link.cur.N == 1 and link.tag == 100  # T from 0: ledgers and tags are kept
    link.configure(11 * S, 77, KEY, commit=False)
    link.configure(12 * S, 78, KEY, commit=True)
    assert link.tag == 78 and link.cur.N == 0 and link.quiet_until == 13 * S


def probe(link: Link, use1: int, use: int, **fields: int) -> Packet:
    """A Probe of a session that `link` counts in R, holding `use1` and nothing above."""
    tag = link.mask_tag(bytes(range(16)), link.tag)
    pkt = make(use1=use1, use=use, B=1, bottleneck=0, **fields)
    pkt.slot[0].tag = tag
    return pkt


@pytest.mark.tier("check")
def test_origin_of_entries() -> None:
    """Section 8: what a memory knows that has lost the session before (table of origins)."""
    link = new_link(1)
    link.cur = peer.Ledger(N=1, NR=1, A=30 * MBIT)  # a first copy was granted a rise, 10 to 30
    assert link.down(probe(link, 10 * MBIT, 10 * MBIT, seq=5, flags=1).build(), 1, DOWN).octets
    (entry,) = link.entries.values()
    assert entry.origin == "copy" and entry.held == 10 * MBIT < link.cur.A
    later = probe(link, 10 * MBIT, 30 * MBIT, seq=6)
    later.slot[0].code = peer.encode_up(20 * MBIT)
    assert link.down(later.build(), 1, DOWN).reason == ""  # the source may use that rise
    (entry,) = link.entries.values()
    assert entry.origin == "first" and entry.held == link.cur.A >= 30 * MBIT
    assert link.down(probe(link, 0, 40 * MBIT, seq=7).build(), 1, DOWN).reason == "overuse"

    link = new_link(1)
    assert link.address
    link.cur = peer.Ledger(N=1, NR=1, A=20 * MBIT)
    late = probe(link, 0, 20 * MBIT, seq=5, hop=1, g=10**15, type=peer.PROBE_ACK)
    late.bw, late.returns[1] = 60 * MBIT, Return(1, link.address)
    assert link.up(late.build(), 1, Envelope(HOST_B, link.address)).octets
    (entry,) = link.entries.values()
    assert entry.origin == "reply" and entry.held == link.cur.A >= 60 * MBIT
    assert link.down(probe(link, 5 * MBIT, 5 * MBIT, seq=6).build(), 1, DOWN).octets
    assert link.cur.A >= 60 * MBIT  # removes only what the packet says, not the entry
    (entry,) = link.entries.values()
    assert entry.origin == "first" and entry.held == 5 * MBIT


@pytest.mark.tier("check")
def test_vector() -> None:
    """The test vector of section 13."""
    octets = bytes.fromhex("""
        534c424e 02020080 00000005 00010aff 00000003 ffffffff
        00010203 04050607 08090a0b 0c0d0e0f 00000000 00000000
        00000000 00989680 00000000 00989680 00000000 01312d00
        00000000 00989680 00000000 00989680 00000000 00000000
        00000a00 00011234 00000000 00000000 010e0700 6b49d200
        a2299136 b7b4839a""")
    assert peer.siphash(KEY, HOST_A + HOST_B) == 0x69473A3B7D7ADC84
    pkt = peer.receive_packet(octets, {7: KEY}, DOWN, 1_800_000_000)
    assert peer.packet_hash({7: KEY}, pkt, DOWN) == bytes.fromhex("a2299136b7b4839a")
    assert (pkt.type, pkt.seq, pkt.weight, pkt.use, pkt.bw) == (2, 5, 3, 10**7, 2 * 10**7)
    assert pkt.slot == [Slot(0x1234, 0)] and pkt.build() == octets


@pytest.mark.tier("check")
def test_siphash() -> None:
    """Test vectors of SipHash-2-4 and SipHash-1-3."""
    assert peer.siphash(KEY, b"") == 0x726FDB47DD0E0E31
    assert peer.siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5
    assert peer.siphash(KEY, b"", 1, 3) == 0xABAC0158050FC4DC


@pytest.mark.tier("check")
def test_authentication() -> None:
    """bad_key, unknown_key and bad_time, without any other effect (section 13)."""
    source = Source(bytes(16), 10**15, envelope=DOWN, keys={1: KEY}, key=1)
    packet = source.send(0, clock_s=1000).octets or b""
    with_keys = Link(10**8, 10**8, tag=1, keys={1: KEY, 2: bytes(16)})
    assert Link(10**8, 10**8, tag=1).down(packet, 0, DOWN, 1000).reason == "bad_key"
    assert with_keys.down(make().build(), 0, DOWN, 1000).reason == "bad_key"
    assert Link(10**8, 10**8, tag=1, keys={2: KEY}).down(packet, 0, DOWN, 1000).reason == (
        "unknown_key"
    )
    assert with_keys.down(packet, 0, Envelope(HOST_B, HOST_A), 1000).reason == "bad_key"
    for clock in (989, 1011, 0, 2**31):
        assert with_keys.down(packet, 0, DOWN, clock).reason == "bad_time"
    for at in range(20, len(packet)):
        changed = packet[:at] + bytes((packet[at] ^ 1,)) + packet[at + 1 :]
        assert with_keys.down(changed, 0, DOWN, 1000).reason
    assert with_keys.cur == peer.Ledger() and not with_keys.entries
    out = with_keys.down(packet + b"ignored", 0, DOWN, 1010)
    assert out.octets and out.octets.endswith(b"ignored")
    reply = Destination({1: KEY}).reply(out.octets, DOWN, 990)
    assert reply.octets and reply.envelope
    up = with_keys.up(reply.octets, 0, reply.envelope, 1000)
    assert up.octets and up.envelope
    assert source.receive(up.octets, 0, up.envelope, 1011) == "bad_time"
    assert source.receive(up.octets, 0, up.envelope, 1010) == ""
    source = Source(bytes(16), 10**15, envelope=DOWN, keys={1: KEY}, key=1)
    packet = source.send(0, clock_s=2**32 - 3).octets or b""
    assert with_keys.down(packet, 0, DOWN, 2**32 + 8).reason == "bad_time"
    assert with_keys.down(packet, 0, DOWN, 2**32 + 7).reason == ""


@pytest.mark.tier("check")
@pytest.mark.parametrize(
    ("recorded", "memory", "largest_N", "lowest"),
    [
        (0, 100, 10, 9.5),
        (1, 100, 11, 8.64),
        (10, 100, 20, 4.75),
        (100, 200, 110, 0.864),
        (1000, 2000, 1010, 0.094),
        (1, 0, 2010, 0.047),
    ],
)
def test_replays(recorded: int, memory: int, largest_N: int, lowest: float) -> None:
    """The table of section 13: one replay per millisecond at a link with ten sessions."""
    link = Link(100 * MBIT, 95 * MBIT, tag=100, memory=memory)
    other = Link(100 * MBIT, 95 * MBIT, tag=555)
    sources = [Source(bytes((n,)) * 16, 10**15, envelope=DOWN) for n in range(10)]
    packets = []
    for n in range(recorded):
        attacked = Source(b"a" + n.to_bytes(15, "big"), 10**15, envelope=DOWN)
        cycle(attacked, other, 0)
        packets.append(attacked.send(0).octets or b"")
    most, least = 0, 10**9
    for ms in range(4000):
        for n, source in enumerate(sources):
            if ms % 50 == n * 5:
                cycle(source, link, ms * MS)
                if ms > 1000:
                    least = min(least, source.rate)
        if packets and ms >= 1000:
            assert link.down(packets[ms % recorded], ms * MS, DOWN).reason in ("", "overuse")
        most = max(most, link.cur.N + link.prev.N)
    assert largest_N * 0.95 <= most <= largest_N
    assert least / MBIT == pytest.approx(lowest, rel=0.06)
