# SPDX-License-Identifier: GPL-2.0
"""The second implementation (peer.py) and the core agree byte for byte.

peer.py was written from docs/protocol.md by somebody who had not seen the core.  Here both run the
same random network in lockstep: each packet is processed by both, and the octets, verdicts, rates
and sums must be equal.  Packets are lost, duplicated, late and retransmitted; sessions join, change
their demand and leave; epochs end and leases lapse.

Assumes that no memory is full: which entry is replaced is a choice of each implementation.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.second import peer

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
MS = 10**6
LINKS, SESSIONS = 6, 12
ROWS = 1024  # of the core's memory
HOME = bytes((10, 0, 0, 1))
FAR = bytes((10, 0, 0, 2))
#: enum slbn_verdict -> the counter's name.
DROPPED = {1: "stale", 2: "wrong_path", 3: "too_many_hops", 4: "overuse"}


class Core:
    """The core, as core.c drives it."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, *words: object) -> list[str]:
        assert self.process.stdin and self.process.stdout
        text = " ".join(word.hex() if isinstance(word, bytes) else str(word) for word in words)
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, text
        return answer


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("second") / "core"
    include = [f"-I{TOP}/include", f"-I{TOP}/include/uapi"]
    line = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", *include]
    subprocess.run([*line, "-o", str(made), str(HERE / "core.c")], check=True)
    return made


@pytest.fixture
def core(program: Path) -> Iterator[Core]:
    core = Core(program)
    yield core
    assert core.process.stdin
    core.process.stdin.close()
    assert core.process.wait(10) == 0


@dataclass
class Session:
    """A session, and copies of its packets in flight: octets, and the hops that they passed."""

    number: int
    path: list[int]
    source: peer.Source
    flights: list[tuple[bytes, int]] = field(default_factory=list)


class Lockstep:
    """Both implementations of a random network."""

    def __init__(self, core: Core, seed: int, commit: bool, memory: bool) -> None:
        self.core, self.random = core, random.Random(seed)
        self.now = 0
        self.packets = 0
        self.dropped: dict[str, int] = {}
        self.links = [self.link(n, commit, memory) for n in range(LINKS)]
        self.sessions = [self.join(n) for n in range(SESSIONS)]

    def link(self, n: int, commit: bool, memory: bool) -> peer.Link:
        C = self.random.randint(10**6, 10**9)
        P = C - C // 20
        T = self.random.choice((0, 200 * MS, 300 * MS))
        key = self.random.randbytes(16)
        tag = self.random.randint(1, 65535)
        address = bytes((10, 1, 0, n + 1))
        words = [int.from_bytes(key[at : at + 8], "little") for at in (0, 8)]
        rows = ROWS if memory else 0
        made = self.core(
            *("link", n, C, P, int(commit), T, rows, *words, 0, 0, tag - 1, n + 1, address)
        )
        assert made == ["ok"]
        return peer.Link(
            C,
            P,
            tag=tag,
            hash_key=key,
            T=T,
            memory=ROWS if memory else 0,
            commit=commit,
            number=n + 1,
            address=address,
        )

    def join(self, n: int) -> Session:
        id = self.random.randbytes(16)
        D = self.random.choice((10**15, self.random.randint(1, 10**9)))
        weight = self.random.choice((1, 1, self.random.randint(1, 1000)))
        slots = self.random.randint(1, LINKS + 2)
        words = [int.from_bytes(id[at : at + 8], "big") for at in (0, 8)]
        assert self.core("source", n, *words, D, weight, slots) == ["ok"]
        envelope = peer.Envelope(HOME, FAR)
        source = peer.Source(id, D, envelope=envelope, weight=weight, max_slots=slots)
        # One path in eight has more hops than the packets have slots.
        longest = LINKS if self.random.random() < 1 / 8 else min(slots, LINKS)
        path = self.random.sample(range(LINKS), self.random.randint(1, longest))
        return Session(n, path, source)

    def transmit(self, session: Session) -> None:
        sent = session.source.send(self.now, share=True).octets
        assert sent is not None
        assert self.core("send", session.number, self.now, HOME) == [sent.hex()]
        session.flights.append((sent, 0))

    def compare(self, theirs: bytes, ours: bytes) -> None:
        """Field by field, so that a difference is readable, then the octets."""
        assert peer.parse_packet(theirs, 4) == peer.parse_packet(ours, 4)
        assert theirs == ours

    def step(self) -> None:
        """One event of a random session."""
        session = self.random.choice(self.sessions)
        pause = 900 * MS if self.random.random() < 0.001 else 2 * MS
        self.now += self.random.randint(0, pause)
        chance = self.random.random()
        if not session.flights or (session.source.tries == 0 and len(session.flights) < 4):
            self.transmit(session)  # copies of the packet before may still be on their way
        elif chance < 0.01:
            session.flights.pop(self.random.randrange(len(session.flights)))
        elif chance < 0.04 and len(session.flights) < 4:
            session.flights.append(self.random.choice(session.flights))
        elif chance < 0.06 and len(session.flights) < 4:
            self.transmit(session)
        elif chance < 0.065:
            D = self.random.randint(1, 10**9)
            session.source.change(D)
            assert self.core("change", session.number, D) == ["ok"]
        elif chance < 0.067:
            session.source.leave()
            assert self.core("leave", session.number) == ["ok"]
        else:
            self.move(session)

    def move(self, session: Session) -> None:
        """A packet arrives at its next link, at the destination, or at the source."""
        octets, passed = session.flights.pop(self.random.randrange(len(session.flights)))
        hops = len(session.path)
        self.packets += 1
        if passed < hops:
            self.process(session, octets, passed, session.path[passed], down=True)
        elif passed == hops:
            self.reply(session, octets)
        elif passed <= 2 * hops:
            self.process(session, octets, passed, session.path[2 * hops - passed], down=False)
        else:
            self.receive(session, octets)

    def process(self, session: Session, octets: bytes, passed: int, n: int, down: bool) -> None:
        link = self.links[n]
        before = peer.parse_packet(octets, 4)
        if down:
            outcome = link.down(octets, self.now, peer.Envelope(HOME, FAR))
        else:
            beyond = before.hop < len(before.slot) and before.returns[before.hop + 1]
            sender = beyond.address if beyond and beyond.link else FAR
            envelope = peer.Envelope(sender, link.address or b"")
            outcome = link.up(octets, self.now, envelope)
        verdict, result = self.core("process", n, self.now, octets)
        if outcome.octets is None:
            assert verdict == "dropped" and DROPPED[int(result)] == outcome.reason
            self.dropped[outcome.reason] = self.dropped.get(outcome.reason, 0) + 1
        else:
            assert verdict == "forward"
            self.compare(bytes.fromhex(result), outcome.octets)
            session.flights.append((outcome.octets, passed + 1))
        sums = [
            getattr(link.cur, name) + getattr(link.prev, name) for name in ("BF", "NR", "N", "A")
        ]
        assert self.core("sums", n) == [str(each) for each in sums]

    def reply(self, session: Session, octets: bytes) -> None:
        reply = peer.Destination().reply(octets, peer.Envelope(HOME, FAR)).octets
        assert reply is not None
        assert self.core("reply", octets) == [reply.hex()]
        session.flights.append((reply, len(session.path) + 1))

    def receive(self, session: Session, octets: bytes) -> None:
        source = session.source
        if source.tries == 0:
            # The core leaves it to its caller to receive only while a packet is in flight.
            assert source.receive(octets, self.now, peer.Envelope(FAR, HOME))
            return
        ignored = source.receive(octets, self.now, peer.Envelope(FAR, HOME))
        event, rate, lease = self.core("receive", session.number, self.now, octets)
        expected = "0" if ignored else "2" if source.state == "over" else "1"
        assert event == expected, ignored
        if expected == "2":
            self.sessions[session.number] = self.join(session.number)
            return
        assert int(rate) == source.rate
        assert int(lease) == (2**64 - 1 if source.lease is None else source.lease)


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.tier("check")
def test_agrees(core: Core, commit: bool, memory: bool) -> None:
    lockstep = Lockstep(core, 1, commit, memory)
    while lockstep.packets < 2000:
        lockstep.step()
    expected = {"wrong_path", "too_many_hops"} | ({"stale"} if memory else set())
    assert set(lockstep.dropped) >= expected


@pytest.mark.parametrize("kind", peer.DOWNSTREAM)
@pytest.mark.tier("check")
def test_replies_agree_where_a_path_has_become_shorter(core: Core, kind: int) -> None:
    """What links beyond the destination have set is cleared."""
    made = peer.Source(bytes(16), 10**9, envelope=peer.Envelope(HOME, FAR), max_slots=4)
    sent = made.send(0).octets
    assert sent is not None
    packet = peer.parse_packet(sent, 4)
    packet.type, packet.hop, packet.B, packet.bottleneck = kind, 1, 0b110, 2
    packet.slot = [peer.Slot(n, n) for n in range(1, len(packet.slot) + 1)]
    packet.returns[1] = peer.Return(1, bytes((10, 1, 0, 1)))
    peer.write_hash(packet, {}, peer.Envelope(HOME, FAR))
    octets = packet.build()
    reply = peer.Destination().reply(octets, peer.Envelope(HOME, FAR)).octets
    assert reply is not None
    (answer,) = core("reply", octets)
    assert peer.parse_packet(bytes.fromhex(answer), 4) == peer.parse_packet(reply, 4)
    assert bytes.fromhex(answer) == reply


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.tier("all")
def test_agrees_on_many_packets(core: Core, seed: int) -> None:
    lockstep = Lockstep(core, 100 + seed, commit=seed % 4 > 0, memory=seed % 3 > 0)
    while lockstep.packets < 10000:
        lockstep.step()
