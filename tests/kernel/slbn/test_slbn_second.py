# SPDX-License-Identifier: GPL-2.0
"""sch_slbn and the second implementation (tests/second/peer.py) agree byte for byte.

peer.py was written from docs/protocol.md by somebody who had not seen the C.  Its sources send
through a link of sch_slbn to its destination, and back; the same packets pass its own link, and the
octets and addresses of forwarded packets, reasons of drops and sums must be equal.  Packets are
lost, duplicated, late and retransmitted; sessions join, change their demand and leave; ledgers are
rotated.  tests/second compares more, with the core alone.

The hash that masks a session's tags is a secret of sch_slbn: it is computed from the first packet
of each session, and all later ones must fit.
"""

from __future__ import annotations

import contextlib
import ipaddress
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.kernel.lib.genetlink import SECOND, Genetlink, given
from tests.kernel.lib.slbn_sessions import FAMILIES, KEY, OTHER_KEY
from tests.kernel.lib.slbn_tap import STEADY, Wire, wire
from tests.kernel.lib.slbn_wire import ORIGIN, ROUTER, Datagram, now, read_addresses, read_udp
from tests.second import peer

# Epochs are compared by time.
pytestmark = pytest.mark.virtual

SESSIONS, ROUNDS = 6, 40
DROPS = ("stale", "wrong_path", "overuse", "bad_time")


@dataclass
class Link(peer.Link):
    """The second implementation's link, which learns how sch_slbn masks tags."""

    offsets: dict[bytes, int] = field(default_factory=dict)

    def learn(self, octets: bytes, length: int) -> None:
        """Take the mask of a session from the first packet that sch_slbn forwards."""
        pkt = peer.parse_packet(octets, length)
        self.offsets.setdefault(pkt.id, pkt.slot[0].tag - self.tag)

    def mask_tag(self, id: bytes, tag: int) -> int:
        return 1 + (tag - 1 + self.offsets[id]) % 65535

    def unmask_tag(self, id: bytes, masked: int) -> int:
        return 1 + (masked - 1 - self.offsets[id]) % 65535 if masked else 0


@dataclass
class Session:
    """A session, and copies of its packets and of their answers that may yet arrive."""

    source: peer.Source
    sent: list[bytes] = field(default_factory=list)
    replies: list[bytes] = field(default_factory=list)


class Lockstep:
    """A link of sch_slbn and the second implementation's."""

    def __init__(self, made: Wire, v6: bool, keys: dict[int, bytes]) -> None:
        self.made, self.v6, self.keys = made, v6, keys
        self.random = random.Random(37)
        self.router, self.origin = (
            ipaddress.ip_address(each[v6]).packed for each in (ROUTER, ORIGIN)
        )
        addresses = Datagram(v6=v6).addresses()
        half = len(addresses) // 2
        self.way = peer.Envelope(addresses[:half], addresses[half:])
        self.back = peer.Envelope(self.way.destination, self.router)
        self.destination = peer.Destination(keys)
        C, tag = STEADY["rate"], made.state().tag
        self.link = Link(C, C, tag=tag, T=0, memory=1024, address=self.router, keys=keys)
        made.change(epoch=SECOND)
        self.start = time.monotonic_ns()
        self.link.configure(self.start, 0, b"", T=SECOND)
        self.sessions = [self.join() for _ in range(SESSIONS)]
        self.forwarded: Counter[int] = Counter()
        self.dropped: Counter[str] = Counter()

    def join(self) -> Session:
        source = peer.Source(
            self.random.randbytes(16),
            self.random.choice((10**15, self.random.randint(1, 10**8))),
            envelope=self.way,
            address=self.origin,
            weight=self.random.choice((1, 1, 7)),
            max_slots=self.random.randint(1, 5),
            keys=self.keys,
            key=self.random.choice(list(self.keys or (0,))),
        )
        return Session(source)

    def wait(self, epochs: int) -> None:
        """Wait until a later epoch; 0: until the ends of epochs are not near."""
        passed = (time.monotonic_ns() - self.start) % SECOND
        ahead = epochs * SECOND + SECOND // 10 - passed
        if epochs or not SECOND // 20 < passed < SECOND - SECOND // 5:
            time.sleep((ahead if ahead > 0 else ahead + SECOND) / SECOND)
        # sch_slbn rotates its ledgers in each epoch, as it looks for changes of its share.
        while time.monotonic_ns() - self.link.epoch_start >= SECOND:
            self.link.rotate(self.link.epoch_start + SECOND)

    def compare(
        self,
        packets: list[tuple[Session, bytes]],
        came: list[bytes],
        at: int,
        process: Callable[[bytes], peer.Outcome],
    ) -> Iterator[tuple[Session, peer.Outcome]]:
        """Compare what sch_slbn sent on with what the second implementation does."""
        waiting = list(came)
        self.link.rotate(at)  # the mask is computed from a tag of the new ledger
        for session, octets in packets:
            if waiting:
                self.link.learn(read_udp(waiting[0])[0], len(self.router))
            outcome = process(octets)
            if outcome.octets is None:
                self.dropped[outcome.reason] += 1
                continue
            assert outcome.envelope
            frame = waiting.pop(0)
            theirs, valid = read_udp(frame)
            assert valid
            parse = [peer.parse_packet(each, len(self.router)) for each in (theirs, outcome.octets)]
            assert parse[0] == parse[1]
            assert theirs == outcome.octets
            ours = outcome.envelope.source + outcome.envelope.destination
            assert read_addresses(frame) == ours
            self.forwarded[parse[0].type] += 1
            yield session, outcome
        assert waiting == []

    def compare_state(self) -> None:
        state, link = self.made.state(), self.link
        for name in ("BF", "NR", "N", "A"):
            assert getattr(state, name) == getattr(link.cur, name), name
            assert getattr(state, f"previous_{name}") == getattr(link.prev, name), name
        assert (state.tag, state.previous_tag) == (link.tag, link.prev_tag)
        assert {name: getattr(state, name) for name in DROPS if getattr(state, name)} == dict(
            self.dropped
        )

    def down(self, packets: list[tuple[Session, bytes]]) -> None:
        came = self.made.down(*(Datagram(octets, self.v6).frame() for _, octets in packets))
        at, clock = time.monotonic_ns(), now()
        results = self.compare(
            packets, came, at, lambda octets: self.link.down(octets, at, self.way, clock)
        )
        for session, outcome in results:
            assert outcome.octets
            reply = self.destination.reply(outcome.octets, self.way, clock)
            assert reply.octets and reply.envelope == self.back
            session.replies.append(reply.octets)

    def up(self, packets: list[tuple[Session, bytes]]) -> None:
        came = self.made.up(*(Datagram(octets, self.v6).answer().frame() for _, octets in packets))
        at, clock = time.monotonic_ns(), now()
        results = self.compare(
            packets, came, at, lambda octets: self.link.up(octets, at, self.back, clock)
        )
        for session, outcome in results:
            assert outcome.octets and outcome.envelope
            session.source.receive(outcome.octets, at, outcome.envelope, clock)

    def forget(self) -> None:
        """All ledgers are dropped while answers are on their way."""
        late = [(session, reply) for session in self.sessions for reply in session.replies]
        self.wait(3)
        self.up(late)
        self.compare_state()

    def round(self, answered: float = 0.8) -> None:
        """Most sessions send a packet, or send it again; most answers return."""
        chance = self.random.random
        packets = []
        self.sessions = [
            self.join() if session.source.state == "over" else session for session in self.sessions
        ]
        for session in self.sessions:
            if chance() < 0.8:
                sent = session.source.send(time.monotonic_ns(), now(), share=chance() < 0.5)
                assert sent.octets
                session.sent.append(sent.octets)
                packets.append((session, sent.octets))
            if session.sent and chance() < 0.1:
                packets.append((session, self.random.choice(session.sent)))
        self.random.shuffle(packets)
        self.down(packets)
        self.compare_state()
        packets = []
        for session in self.sessions:
            arrived = [reply for reply in session.replies if chance() < answered]
            packets += [(session, reply) for reply in arrived]
            # Some answers are late, some come twice, and the others are lost.
            session.replies = [
                reply for reply in session.replies if chance() < (0.1 if answered else 1)
            ]
        self.random.shuffle(packets)
        self.up(packets)
        self.compare_state()
        session = self.random.choice(self.sessions)
        if chance() < 0.3:
            session.source.change(self.random.randint(1, 10**8))
        elif chance() < 0.3:
            session.source.leave()


@pytest.mark.machines
@FAMILIES
def test_agrees_with_the_second_implementation(v6: bool) -> None:
    """Without keys over IPv4; with two keys over IPv6."""
    keys = {3: KEY, 200: OTHER_KEY} if v6 else {}
    with wire(memory=1024) as made, contextlib.closing(Genetlink()) as family:
        for number, key in keys.items():
            family.add_key(given(ifname="a0", key_id=number, key=key))
        both = Lockstep(made, v6, keys)
        for n in range(ROUNDS):
            both.wait(n % 8 == 7)  # sometimes for the next epoch
            both.round()
        both.round(answered=0)
        both.forget()
        both.round()
        assert sum(both.forwarded.values()) > 300
        assert set(both.forwarded) == {peer.JOIN, peer.PROBE, peer.PROBE_ACK, peer.LEAVE} | {
            peer.LEAVE_ACK
        }
        assert {"stale", "wrong_path"} <= set(both.dropped) <= set(DROPS)
