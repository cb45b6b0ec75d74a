# SPDX-License-Identifier: GPL-2.0
"""What sch_slbn does to packets: it forwards, counts and refuses as its headers say.

On the link of slbn_tap.py two sessions stand, one of which asks for less than the link could give
it, so that each part of a ledger has something to lose:

    GREEDY, in R                MODEST, in F: 20 Mbit/s        N = 2, NR = 1, BF = 20 Mbit/s

Each test knows by hand what a packet must change, and compares all of the link's state and all
octets of what is forwarded.  What a link remembers of its visits cannot be read, but it shows in
how the link takes a packet that was sent again.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.kernel.net import wait_for
from tests.kernel.slbn import MEGA
from tests.kernel.slbn_tap import Wire, wire
from tests.kernel.slbn_wire import (
    AUTH,
    IP6_MF,
    IP_MF,
    IPPROTO_FRAGMENT,
    IPPROTO_UDP,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    PAD,
    PORT,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    Datagram,
    Packet,
    State,
    option,
)

GREEDY, MODEST, NEW = (bytes([n]) * 16 for n in (1, 2, 3))
KEY, OTHER_KEY = bytes(range(16)), bytes(range(1, 17))
FAMILIES = pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])


class Books:
    """The two sessions, and packets that belong to them."""

    def __init__(self, wire: Wire, v6: bool = False, key: bytes | None = None) -> None:
        self.wire = wire
        self.v6 = v6
        self.key = key
        self.tag = wire.state().tag
        greedy = Packet(JOIN, id=GREEDY)
        modest = replace(greedy, id=MODEST, bw=20 * MEGA, demand=20 * MEGA)
        retried = replace(modest, type=PROBE, seq=1, bw1=20 * MEGA, tags={0: self.tag})
        assert len(wire.down(*map(self.frame, (greedy, modest, retried)))) == 3
        self.retried = retried
        state = wire.state()
        assert (state.N, state.NR, state.BF) == (2, 1, 20 * MEGA)

    def frame(self, packet: Packet, **how: Any) -> bytes:
        return self.datagram(packet, **how).frame()

    def datagram(self, packet: Packet, **how: Any) -> Datagram:
        return Datagram(replace(packet, key=self.key).pack(), self.v6, **how)

    def probe(self, **fields: Any) -> Packet:
        """The next of MODEST, which now asks for 30 Mbit/s."""
        probe = replace(self.retried, seq=2, bw2=20 * MEGA, bw1=30 * MEGA, bw=30 * MEGA)
        return replace(probe, demand=30 * MEGA, **fields)

    def ack(self, **fields: Any) -> Packet:
        return self.probe(**{"type": PROBE_ACK, "hop": 1, **fields})

    def check_memory(self) -> None:
        """That the link still remembers MODEST's last visit: what it wrote, and its number."""
        before = self.wire.state()
        older = replace(self.retried, seq=0)
        # By its own account the packet that is sent again has put nothing in BF yet.
        assert len(self.wire.down(*map(self.frame, (self.retried, older)))) == 1
        assert before.changes(self.wire.state()) == {"probes": 1, "corrected": 1, "stale": 1}


@pytest.fixture
def books() -> Iterator[Books]:
    with wire() as made:
        yield Books(made)


# --- what is forwarded


def expect(wire: Wire, way: str, frame: bytes, forwarded: bytes, **changes: int) -> State:
    """That a frame is forwarded just so, and the state changes in this and nothing else."""
    before = wire.state()
    came = wire.down(frame) if way == "down" else wire.up(frame)
    after = wire.state()
    assert before.changes(after) == changes
    assert came == [forwarded]
    return after


#: Each ends in a length of 8n, and says what follows.
HOP_BY_HOP = bytes([43, 0, 1, 4, 0, 0, 0, 0])
ROUTING = bytes([60, 2, 4, 0, 0, 0, 0, 0]) + bytes(16)
DESTINATION = bytes([IPPROTO_UDP, 1, 1, 12]) + bytes(12)

CARRIERS: dict[str, dict[str, Any]] = {
    "ipv4": {},
    "ipv6": {"v6": True},
    "ipv4 without a checksum": {"check": 0},
    "ipv4 options": {"extra": bytes([0x94, 4, 0, 0, 1, 1, 1, 0])},
    "ipv6 extension headers": {
        "v6": True,
        "extra": HOP_BY_HOP + ROUTING + DESTINATION,
        "next_header": 0,
    },
    "ipv6 with a fragment's header, but whole": {
        "v6": True,
        "extra": bytes([IPPROTO_UDP, 0, 0, 0, 1, 2, 3, 4]),
        "next_header": IPPROTO_FRAGMENT,
    },
}

#: What a link leaves as it is, whatever it means.
OPTIONS = option(200, b"later") + option(PAD, bytes(3)) + option(255, b"")


@pytest.mark.parametrize("key", [None, KEY], ids=["open", "keyed"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_only_what_may_change_has_changed(carrier: str, key: bytes | None) -> None:
    """A session's life at the second hop of its path, every octet of it."""

    def frame(packet: Packet) -> bytes:
        return Datagram(packet.pack(), **CARRIERS[carrier]).frame()

    def back(packet: Packet) -> bytes:
        return Datagram(packet.pack(), **CARRIERS[carrier]).back().frame()

    with wire(key=key or b"") as made:
        tag = made.state().tag
        sent = Packet(
            JOIN,
            hop=1,
            slots=6,
            id=NEW,
            B=1,
            bottleneck=0,
            bw=70 * MEGA,
            tags={0: 7, 1: 0xBAD, 5: 9},
            options=OPTIONS,
            reserved=77,
            key=key,
            trailer=b"behind it",
        )
        # A Join is put in R, but its bw is not lowered: 70 Mbit/s is below 100, so it is in F.
        tags = {**sent.tags, 1: tag}
        came = replace(sent, hop=2, tags=tags)
        changes = {"N": 1, "joins": 1, "new_sessions": 1}
        expect(made, "down", frame(sent), frame(came), **changes)

        # Up again, and more is asked for than the link has: in R.
        sent = replace(came, type=PROBE_ACK, bw=200 * MEGA)
        came = replace(sent, hop=1, bottleneck=1, B=0b11, bw=100 * MEGA)
        expect(made, "up", back(sent), back(came), acks=1, NR=1)

        # The next cycle brings less: in F, with what the source then has.
        sent = replace(came, type=PROBE, seq=1, bottleneck=0, bw1=60 * MEGA, bw=60 * MEGA)
        came = replace(sent, hop=2, B=1)
        expect(made, "down", frame(sent), frame(came), probes=1, NR=-1, BF=60 * MEGA)

        sent = replace(came, type=LEAVE, hop=1, seq=2)
        came = replace(sent, hop=2, tags={0: 7, 5: 9})
        expect(made, "down", frame(sent), frame(came), leaves=1, N=-1, BF=-60 * MEGA)

        # The books are closed: it only passes.
        sent = replace(came, type=LEAVE_ACK)
        expect(made, "up", back(sent), back(replace(sent, hop=1)))


@FAMILIES
def test_acks_that_leave_and_the_rest_that_enters_only_pass(books: Books, v6: bool) -> None:
    """They belong to links of the other direction."""
    books.v6 = v6
    for kind in (PROBE_ACK, LEAVE_ACK):
        frame = books.frame(books.ack(type=kind))
        expect(books.wire, "down", frame, frame)
    for kind in (JOIN, PROBE, LEAVE):
        packet = books.datagram(books.probe(type=kind))
        # Whether it is right is for the link to say that it leaves by.
        for datagram in (packet, replace(packet, check=0xBAD)):
            frame = datagram.back().frame()
            expect(books.wire, "up", frame, frame)
    books.check_memory()


def look_alikes() -> list[tuple[str, bytes]]:
    """Frames that are no control packets."""
    generator = random.Random(4)
    noise = generator.randbytes
    packet = Packet(JOIN, id=NEW).pack()
    found: list[tuple[str, bytes]] = []
    for v6 in (False, True):
        good = Datagram(packet, v6)
        datagrams = {
            "to another port": replace(good, dport=PORT + 1),
            "from another port": replace(good, sport=PORT - 1),
            "the ports swapped with others": replace(good, sport=9, dport=9),
            "another magic": replace(good, payload=noise(200)),
            "another version": replace(good, payload=Packet(JOIN, version=2).pack()),
            "no magic": replace(good, payload=b"SLB"),
            "nothing at all": replace(good, payload=b""),
            "noise": replace(good, payload=noise(1400), dport=53),
        }
        found += [(name, each.frame()) for name, each in datagrams.items()]
        protocol = 14 + (6 if v6 else 9)
        frame = bytearray(good.frame())
        for number in (1, 6, 33, 132, 136):
            frame[protocol] = number
            found.append((f"protocol {number}", bytes(frame)))
        frame = bytearray(good.frame())
        frame[14] = 0x55
        found.append(("no IP", bytes(frame)))
        found.append(("cut in its headers", good.frame()[: 14 + 20 + 6]))
        # Later fragments do not tell their ports, whatever stands in their place.
        if v6:
            extra = bytes([IPPROTO_UDP, 0]) + (64 << 3 | IP6_MF).to_bytes(2, "big") + bytes(4)
            later = replace(good, extra=extra, next_header=IPPROTO_FRAGMENT)
        else:
            later = replace(good, fragment=IP_MF | 64)
        found.append(("a later fragment", later.frame()))
    frame = bytearray(Datagram(packet).frame())
    frame[14] = 0x44
    found.append(("a header of 16 octets", bytes(frame)))
    return found


def test_data_are_never_written_to(books: Books) -> None:
    before = books.wire.state()
    for name, frame in look_alikes():
        assert books.wire.down(frame) == [frame], name
        back = frame[6:12] + frame[:6] + frame[12:]
        assert books.wire.up(back) == [back], name
    others = [bytes(12) + random.Random(n).randbytes(60 + n) for n in range(200)]
    assert books.wire.down(*others) == others
    assert books.wire.state() == before
    books.check_memory()


# --- what is refused

Flaw = Callable[[Packet], bytes]


def flaw(**fields: Any) -> Flaw:
    return lambda packet: replace(packet, **fields).pack()


def longer(more: int) -> Flaw:
    return lambda packet: replace(packet, length=len(packet.pack()) + more).pack()


FLAWS: dict[str, Flaw] = {
    "only the magic": lambda packet: packet.pack()[:4],
    "a header less one": lambda packet: packet.pack()[:71],
    "a length of nothing": flaw(length=0),
    "tags less one": flaw(length=72 + 63),
    "a length beyond its end": longer(1),
    "an option without a length": flaw(options=b"\x07"),
    "an option beyond its end": flaw(options=b"\x07\x05four"),
    "type 0": flaw(type=0),
    "type 6": flaw(type=6),
    "type 255": flaw(type=255),
    "room for none": flaw(slots=0),
    "room for one": flaw(slots=1),
    "odd room": flaw(slots=33),
    "too much room": flaw(slots=66),
    "hop beyond its room": flaw(hop=33),
    "b without a tag": flaw(bottleneck=32),
    "b far away": flaw(bottleneck=254),
    "B beyond its room": flaw(B=1 << 32),
    "no demand": flaw(demand=0),
    "demand too high": flaw(demand=RATE_MAX + 1),
    "bw too high": flaw(bw=RATE_MAX + 1),
    "bw' too high": flaw(bw1=RATE_MAX + 1),
    "bw'' too high": flaw(bw2=2**64 - 1),
    "short authentication": flaw(options=option(AUTH, bytes(7))),
    "two authentications": flaw(options=2 * option(AUTH, bytes(8))),
}


@FAMILIES
@pytest.mark.parametrize("way", ["down", "up"])
def test_malformed(books: Books, way: str, v6: bool) -> None:
    books.v6 = v6
    start = books.wire.state()
    packet = books.probe() if way == "down" else books.ack()
    good = books.datagram(packet)
    refused = [(name, replace(good, payload=make(packet))) for name, make in FLAWS.items()]
    for difference in (1, 10_000):
        length = 8 + len(good.payload) + difference
        refused.append((f"UDP {difference} too long", replace(good, udp_length=length)))
    for length in (0, 1, 7):
        refused.append((f"UDP of {length} octets", replace(good, udp_length=length)))
    for number, (name, datagram) in enumerate(refused, 1):
        if way == "down":
            assert books.wire.down(datagram.frame()) == [], name
        else:
            assert books.wire.up(datagram.back().frame()) == [], name
        assert start.changes(books.wire.state()) == {"malformed": number}, name
    books.check_memory()
    check_good(books, way)


def check_good(books: Books, way: str) -> None:
    """That the packet was good but for its flaw."""
    before = books.wire.state()
    if way == "down":
        assert len(books.wire.down(books.frame(books.probe()))) == 1
        counted = {"probes": 1}
    else:
        assert len(books.wire.up(books.datagram(books.ack()).back().frame())) == 1
        # It answers a Probe that the link has not seen.
        counted = {"acks": 1, "corrected": 1}
    moved = {"BF": 10 * MEGA, "share": -10 * MEGA}
    assert before.changes(books.wire.state()) == {**counted, **moved}


def check_refused(books: Books, way: str, counter: str, *datagrams: Datagram) -> None:
    """That each is dropped and counted there, and nothing else happens, but to others of its kind
    that are good."""
    start = books.wire.state()
    for number, datagram in enumerate(datagrams, 1):
        if way == "down":
            assert books.wire.down(datagram.frame()) == []
        else:
            assert books.wire.up(datagram.back().frame()) == []
        assert start.changes(books.wire.state()) == {counter: number}
    books.check_memory()
    check_good(books, way)


@FAMILIES
@pytest.mark.parametrize("way", ["down", "up"])
def test_udp_beyond_its_ip_packet(books: Books, way: str, v6: bool) -> None:
    """Whole in the frame, but beyond the end that IP gives it: no host takes it."""
    books.v6 = v6
    good = books.datagram(books.probe() if way == "down" else books.ack())
    last = len(good.udp()) - 8
    padded = replace(good, octets=last, padding=good.udp()[last:])
    check_refused(books, way, "malformed", padded)


@FAMILIES
@pytest.mark.parametrize("way", ["down", "up"])
def test_bad_checksum(books: Books, way: str, v6: bool) -> None:
    books.v6 = v6
    good = books.datagram(books.probe() if way == "down" else books.ack())
    wrong = [replace(good, check=int.from_bytes(good.udp()[6:8], "big") ^ 1)]
    flipped = bytearray(good.payload)
    flipped[-1] ^= 0x80
    wrong.append(replace(good, payload=bytes(flipped), check=int.from_bytes(good.udp()[6:8])))
    if v6:
        # Only IPv4 can do without.
        wrong.append(replace(good, check=0))
    if way == "down":
        # An ack that leaves belongs to another link, but is not spread either.
        wrong.append(replace(books.datagram(books.ack()), check=0xBAD))
    check_refused(books, way, "bad_checksum", *wrong)


def fragments(good: Datagram, octets: int) -> Datagram:
    """The first fragment, with so many octets of UDP."""
    if not good.v6:
        return replace(good, fragment=IP_MF, octets=octets)
    head = bytes([IPPROTO_UDP, 0]) + IP6_MF.to_bytes(2, "big") + bytes(4)
    return replace(good, extra=head, next_header=IPPROTO_FRAGMENT, octets=octets)


@FAMILIES
@pytest.mark.parametrize("way", ["down", "up"])
def test_fragments(books: Books, way: str, v6: bool) -> None:
    books.v6 = v6
    good = books.datagram(books.probe() if way == "down" else books.ack())
    # Of the shortest nobody can say what it is.
    check_refused(books, way, "fragments", *(fragments(good, n) for n in (8, 11, 12, 24, 80, 1000)))


def test_fragments_of_others_pass(books: Books) -> None:
    before = books.wire.state()
    for v6 in (False, True):
        other = Datagram(b"data" * 100, v6)
        frames = [fragments(other, n).frame() for n in (12, 80, 240)]
        frames += [fragments(replace(other, dport=9), n).frame() for n in (8, 11, 80)]
        assert books.wire.down(*frames) == frames
    assert books.wire.state() == before


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("key", [None, KEY], ids=["open", "keyed"])
def test_bad_key(key: bytes | None, way: str) -> None:
    with wire(key=key or b"") as made:
        books = Books(made, key=key)
        packet = books.probe() if way == "down" else books.ack()

        def altered(octet: int) -> bytes:
            data = bytearray(replace(packet, key=KEY).pack())
            data[octet] ^= 1
            return bytes(data)

        wrong = [replace(packet, key=OTHER_KEY).pack()]
        if key:
            wrong += [packet.pack(), altered(-1), altered(8), altered(24), altered(70)]
            wrong.append(replace(packet, options=option(AUTH, bytes(8))).pack())
        else:
            wrong.append(replace(packet, key=KEY).pack())
        check_refused(books, way, "bad_key", *map(Datagram, wrong))
        if way == "down":
            before = made.state()
            ack = Datagram(books.ack(key=OTHER_KEY).pack())
            assert made.down(ack.frame()) == []
            assert before.changes(made.state()) == {"bad_key": 1}


def test_over_rate() -> None:
    with wire() as made:
        books = Books(made)
        # A bit per second, and what had been saved up.
        made.change(rate=1000, control=1)
        frame = books.frame(books.retried)
        while made.down(frame):
            pass
        start = made.state()
        assert start.rate_limited == 1
        ack = books.frame(books.ack())
        leave = books.frame(replace(books.probe(), type=LEAVE))
        assert made.down(*[books.frame(books.probe()), ack, leave] * 20) == []
        assert start.changes(made.state()) == {"rate_limited": 60}
        # What comes up takes nothing from those who go down.
        made.up(books.datagram(replace(books.retried, type=PROBE_ACK, hop=1)).back().frame())
        data = Datagram(b"data", sport=9, dport=9).frame()
        assert made.down(data) == [data]
        made.change(rate=100 * MEGA, control=1000)
        # With so little rate it was in R for a while.
        made.down(frame)
        books.check_memory()


def test_too_far(books: Books) -> None:
    start = books.wire.state()
    for number, kind in enumerate((JOIN, PROBE, LEAVE), 1):
        for v6 in (False, True):
            frame = Datagram(books.probe(type=kind, hop=32).pack(), v6).frame()
            assert books.wire.down(frame) == []
        assert start.changes(books.wire.state()) == {"too_many_hops": 2 * number}
    books.check_memory()
    # The last one for which there is room.
    frame = books.frame(Packet(JOIN, id=NEW, hop=63, slots=64, bw=MEGA))
    assert len(books.wire.down(frame)) == 1


def test_foreign(books: Books) -> None:
    """An ack that has not come down here."""
    start = books.wire.state()
    tag = start.tag
    foreign = [
        # Of a session that nobody remembers, in a ledger that is not here.
        books.ack(id=NEW, tags={0: tag ^ 1}),
        books.ack(id=NEW, tags={}),
        books.ack(id=NEW, tags={1: tag}),
        # It has come back from everywhere.
        books.ack(hop=0),
        books.ack(id=NEW, hop=0),
    ]
    for number, packet in enumerate(foreign, 1):
        assert books.wire.up(books.datagram(packet).back().frame()) == []
        assert start.changes(books.wire.state()) == {"wrong_path": number}
    books.check_memory()
    # Who knows a ledger is believed: that is what authentication is against.
    frame = books.datagram(books.ack(id=NEW)).back().frame()
    assert len(books.wire.up(frame)) == 1


# --- how sessions are counted


def test_stale_and_recalled(books: Books) -> None:
    start = books.wire.state()
    probe = books.probe()
    first, again, third = books.wire.down(*[books.frame(probe)] * 3)
    # However often it is sent, by the same account: what the link wrote the first time counts.
    assert first == again == third == books.frame(replace(probe, hop=1))
    grown = {"BF": 10 * MEGA, "share": -10 * MEGA}
    assert start.changes(books.wire.state()) == {"probes": 3, "corrected": 2, **grown}
    # The numbers begin again from 0 behind the last; half of them are older.
    assert books.wire.down(books.frame(replace(probe, seq=1))) == []
    assert books.wire.down(books.frame(replace(probe, seq=(2 + 2**31) % 2**32))) == []
    ack = books.ack(seq=1)
    assert books.wire.up(books.datagram(ack).back().frame()) == []
    assert start.changes(books.wire.state())["stale"] == 3
    # A Join is no exception.
    assert books.wire.down(books.frame(replace(probe, type=JOIN, seq=0))) == []
    # One that comes again counts once.
    before = books.wire.state()
    books.wire.down(*[books.frame(Packet(JOIN, id=NEW))] * 3)
    after = books.wire.state()
    assert (
        after.N - before.N,
        after.new_sessions - before.new_sessions,
        after.joins - before.joins,
    ) == (1, 1, 3)
    # And a Leave that comes again takes away once.
    leave = Packet(LEAVE, id=NEW, seq=1, B=1, bottleneck=0, tags={0: after.tag})
    assert len(books.wire.down(*[books.frame(leave)] * 3)) == 3
    gone = books.wire.state()
    assert (gone.N, gone.NR, gone.BF) == (before.N, before.NR, before.BF)
    assert (gone.leaves, gone.clamped) == (3, 0)
    # Its Probe that was on its way longer does not bring it back.
    late = Packet(PROBE, id=NEW, seq=0, B=1, bottleneck=0, tags={0: after.tag})
    assert books.wire.down(books.frame(late)) == []
    assert gone.changes(books.wire.state()) == {"stale": 1}


def test_clamped() -> None:
    """A forged account takes out what is not there; nothing falls below zero."""
    with wire(memory=0) as made:
        books = Books(made)
        before = made.state()
        assert before.memory_entries == 0
        made.down(books.frame(books.probe(bw2=10**12, bw1=5 * MEGA)))
        after = made.state()
        moved = {"BF": -15 * MEGA, "share": 15 * MEGA}
        assert before.changes(after) == {"clamped": 1, "probes": 1, **moved}
        # More sessions leave than there are, from R and from F.
        for _ in range(3):
            made.down(books.frame(books.probe(type=LEAVE, B=1)))
        gone = made.state()
        assert (gone.N, gone.NR, gone.BF, gone.clamped) == (0, 0, 5 * MEGA, 1 + 1 + 2)
        made.down(books.frame(books.probe(type=LEAVE, bw1=6 * MEGA)))
        gone = made.state()
        assert (gone.N, gone.NR, gone.BF, gone.clamped) == (0, 0, 0, 4 + 2)


def test_fresh(books: Books) -> None:
    """A session whose ledger is not known counts as new, by whatever packet."""
    state = books.wire.state()
    for number, tag in enumerate((0, state.tag ^ 1, state.tag ^ 0xFF00), 10):
        packet = books.probe(id=bytes([number]) * 16, tags={0: tag}, bw=MEGA, bw1=MEGA, bw2=9)
        books.wire.down(books.frame(packet))
        after = books.wire.state()
        assert (after.N - state.N, after.new_sessions - state.new_sessions) == (1, 1)
        assert (after.BF - state.BF, after.clamped, after.corrected) == (MEGA, 0, 0)
        state = after
    # Nobody leaves who has not come.
    before = books.wire.state()
    books.wire.down(books.frame(books.probe(type=LEAVE, id=NEW, tags={})))
    assert before.changes(books.wire.state()) == {"leaves": 1}


@contextlib.contextmanager
def turned() -> Iterator[Books]:
    """The books just after the first turn of their pages."""
    for _ in range(20):
        with wire() as made:
            books = Books(made)
            made.change(epoch=50_000_000)
            while made.state().tag == books.tag:
                time.sleep(0.001)
            made.change(epoch=3600 * 10**9)
            # Unless the machine stood still for two epochs.
            if made.state().prev_tag == books.tag:
                yield books
                return
    raise AssertionError("no page is turned without another")


def test_carried() -> None:
    with turned() as books:
        made = books.wire
        start = made.state()
        assert (start.N, start.NR, start.BF) == (0, 0, 0)
        assert (start.previous_N, start.previous_NR, start.previous_BF) == (2, 1, 20 * MEGA)
        probe = books.probe()
        came = replace(probe, hop=1, tags={0: start.tag})
        moved = {"previous_N": -1, "previous_BF": -20 * MEGA, "N": 1, "BF": 30 * MEGA}
        moved |= {"share": -10 * MEGA, "probes": 1, "migrated": 1}
        expect(made, "down", books.frame(probe), books.frame(came), **moved)
        # Who is in R is carried over, too, by whatever comes first.
        ack = Packet(PROBE_ACK, id=GREEDY, hop=1, bottleneck=0, B=1, tags={0: books.tag})
        came = replace(ack, hop=0, bw=70 * MEGA, tags={0: start.tag})
        moved = {"previous_N": -1, "previous_NR": -1, "N": 1, "NR": 1, "acks": 1, "migrated": 1}
        up, risen = (books.datagram(each).back().frame() for each in (ack, came))
        expect(made, "up", up, risen, **moved)
        # On its new page nobody is carried over again, but by its memory the link knows this one.
        came = replace(probe, hop=1, tags={0: start.tag})
        expect(made, "down", books.frame(probe), books.frame(came), probes=1, corrected=1)


def test_events() -> None:
    """Each change of the share by more than the threshold is counted, but not each packet."""
    with wire(threshold=100) as made:
        frame = Datagram(Packet(JOIN, id=NEW).pack()).frame()
        made.down(frame)
        # Alone it may have all.
        assert made.state().share == 100 * MEGA
        for number in range(1, 3):
            joins = [
                Datagram(Packet(JOIN, id=bytes([number, n]) * 8).pack()).frame() for n in range(20)
            ]
            made.down(*joins)
            wait_for(lambda number=number: made.state().events == number)  # type: ignore[misc]
        share = made.state().share
        assert share == 100 * MEGA // 41
        # One more is less than a tenth.
        made.down(Datagram(Packet(JOIN, id=bytes(16)).pack()).frame())
        assert made.state().share < share
        made.change(threshold=1)
        wait_for(lambda: made.state().events == 3)


# --- at the edge


@pytest.mark.parametrize("key", [None, KEY], ids=["open", "keyed"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_edge_answers_for_the_host(carrier: str, key: bytes | None) -> None:
    how = {"ttl": 1, **CARRIERS[carrier]}
    with wire(edge=1, key=key or b"") as made:
        tag = made.state().tag
        packet = Packet(JOIN, id=NEW, slots=4, hop=2, options=OPTIONS, key=key, trailer=b"and")
        # Both visits at once: down, where it is put in R, and up, where it is given a rate.
        came = replace(packet, type=PROBE_ACK, bottleneck=2, B=4, bw=100 * MEGA, tags={2: tag})
        changes = {"joins": 1, "new_sessions": 1, "acks": 1, "N": 1, "NR": 1}
        for kind in (JOIN, PROBE, LEAVE):
            before = made.state()
            if kind == PROBE:
                packet = replace(came, type=PROBE, seq=1, bw1=60 * MEGA, bw=60 * MEGA, bottleneck=0)
                came = replace(packet, type=PROBE_ACK, B=0)
                changes = {"probes": 1, "acks": 1, "NR": -1, "BF": 60 * MEGA}
            elif kind == LEAVE:
                packet = replace(came, type=LEAVE, seq=2)
                came = replace(packet, type=LEAVE_ACK, tags={})
                changes = {"leaves": 1, "N": -1, "BF": -60 * MEGA}
            datagram = Datagram(packet.pack(), **how)
            host, back = made.both(datagram.frame())
            assert before.changes(made.state()) == {"answered": 1, **changes}
            assert host == []
            answer = replace(datagram, payload=came.pack()).back()
            assert [frame[14:] for frame in back] == [replace(answer, ttl=64).ip()]


@FAMILIES
def test_an_edge_believes_no_host(v6: bool) -> None:
    with wire(edge=1) as made:
        start = made.state()
        frames = [
            Datagram(Packet(kind, id=NEW, hop=1, tags={0: start.tag}).pack(), v6)
            for kind in (JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK, 0, 99)
        ]
        # Nor what others may take for one of a version of theirs.
        frames.append(Datagram(Packet(JOIN, version=2).pack(), v6))
        frames.append(replace(frames[0], check=0xBAD))
        frames.append(fragments(frames[0], 80))
        frames.append(fragments(frames[0], 8))
        for number, datagram in enumerate(frames, 1):
            assert made.up(datagram.back().frame()) == []
            assert start.changes(made.state()) == {"from_hosts": number}
        for name, frame in look_alikes():
            back = frame[6:12] + frame[:6] + frame[12:]
            if name != "another version":
                assert made.up(back) == [back], name


@FAMILIES
def test_an_edge_answers_no_answer_and_nothing_that_is_wrong(v6: bool) -> None:
    with wire(edge=1) as made:
        start = made.state()
        tags = {0: start.tag}
        # They belong to a link of the other direction, whose source is behind the edge.
        for kind in (PROBE_ACK, LEAVE_ACK):
            frame = Datagram(Packet(kind, id=NEW, hop=1, tags=tags).pack(), v6).frame()
            assert made.both(frame) == ([frame], [])
        good = Datagram(Packet(JOIN, id=NEW).pack(), v6)
        assert start.changes(made.state()) == {}
        refused = {
            "bad_checksum": replace(good, check=0xBAD),
            "bad_key": replace(good, payload=Packet(JOIN, key=KEY).pack()),
            "malformed": replace(good, payload=Packet(JOIN, demand=0).pack()),
            "fragments": fragments(good, 80),
            "too_many_hops": replace(good, payload=Packet(JOIN, hop=4, slots=4).pack()),
        }
        for datagram in refused.values():
            assert made.both(datagram.frame()) == ([], [])
        assert start.changes(made.state()) == dict.fromkeys(refused, 1)
