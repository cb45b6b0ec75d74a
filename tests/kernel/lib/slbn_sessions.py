# SPDX-License-Identifier: GPL-2.0
"""Two sessions on the link of slbn_tap.py, one of which has a demand below its share.

    GREEDY, in R                MODEST, in F: 20 Mbit/s        N = 2, NR = 1, BF = 20 Mbit/s

So no part of the ledger is 0. The memory cannot be read, but shows in how the link processes
retransmitted packets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.kernel.lib.slbn import MEGA
from tests.kernel.lib.slbn_tap import Wire
from tests.kernel.lib.slbn_wire import (
    IPPROTO_FRAGMENT,
    IPPROTO_UDP,
    JOIN,
    MAGIC,
    PROBE,
    PROBE_ACK,
    Datagram,
    Packet,
    State,
    read_authentication,
    read_packet,
    read_udp,
)

GREEDY, MODEST, NEW = (bytes([n]) * 16 for n in (1, 2, 3))
KEY, OTHER_KEY = bytes(range(16)), bytes(range(1, 17))
FAMILIES = pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])


class Sessions:
    """The two sessions, and packets of them."""

    def __init__(
        self, wire: Wire, v6: bool = False, key: bytes | None = None, key_id: int = 0
    ) -> None:
        self.wire = wire
        self.v6 = v6
        self.key = key
        self.key_id = key_id
        self.tag = wire.state().tag
        greedy = Packet(JOIN, id=GREEDY)
        modest = replace(greedy, id=MODEST, bw=20 * MEGA)
        joined = wire.down(self.frame(greedy), self.frame(modest))
        came = [read_packet(read_udp(frame)[0]) for frame in joined]
        #: The tags in their packets.
        self.tags = {each.id: each.tags[0] for each in came}
        tags = {0: self.tags[MODEST]}
        last_probe = replace(modest, type=PROBE, seq=1, bw1=20 * MEGA, tags=tags)
        assert len(wire.down(self.frame(last_probe))) == 1
        self.last_probe = last_probe
        state = wire.state()
        assert (state.N, state.NR, state.BF) == (2, 1, 20 * MEGA)

    def frame(self, packet: Packet, **how: Any) -> bytes:
        return self.datagram(packet, **how).frame()

    def datagram(self, packet: Packet, **how: Any) -> Datagram:
        return Datagram(replace(packet, key=self.key, key_id=self.key_id), self.v6, **how)

    def probe(self, **fields: Any) -> Packet:
        """The next Probe of MODEST, with a demand of 30 Mbit/s."""
        probe = replace(self.last_probe, seq=2, bw2=20 * MEGA, bw1=30 * MEGA, bw=30 * MEGA)
        return replace(probe, **fields)

    def ack(self, **fields: Any) -> Packet:
        return self.probe(**{"type": PROBE_ACK, "hop": 1, **fields})

    def check_memory(self) -> None:
        """Check that the memory still has the last packet of MODEST, by its rate and seq."""
        before = self.wire.state()
        older = replace(self.last_probe, seq=0)
        # The retransmitted packet states that its rate is not yet in BF.
        assert len(self.wire.down(*map(self.frame, (self.last_probe, older)))) == 1
        assert before.changes(self.wire.state()) == {"probes": 1, "corrected": 1, "stale": 1}


def with_time_of(datagram: Datagram, frame: bytes) -> Datagram:
    """The datagram with the time of the authentication in a frame."""
    packet = datagram.payload
    assert isinstance(packet, Packet)
    if packet.key:
        _, sent = read_authentication(frame[frame.index(MAGIC.to_bytes(4, "big")) :])
        packet = replace(packet, time=sent)
    return replace(datagram, payload=packet)


def expect(
    wire: Wire, direction: str, frame: bytes, forwarded: bytes | Datagram, **changes: int
) -> State:
    """Check the forwarded frame and all changes of the state; returns the state."""
    before = wire.state()
    came = wire.down(frame) if direction == "down" else wire.up(frame)
    after = wire.state()
    assert before.changes(after) == changes
    if isinstance(forwarded, Datagram):
        # Links do not change the time.
        forwarded = with_time_of(forwarded, frame).frame()
    assert came == [forwarded]
    return after


def check_good(on: Sessions, direction: str) -> None:
    """Check that the valid form of the packet is processed."""
    before = on.wire.state()
    if direction == "down":
        assert len(on.wire.down(on.frame(on.probe()))) == 1
        counted = {"probes": 1}
    else:
        assert len(on.wire.up(on.datagram(on.ack()).answer().frame())) == 1
        # It acknowledges a Probe that the link has not processed.
        counted = {"acks": 1, "corrected": 1}
    moved = {"BF": 10 * MEGA, "share": -10 * MEGA}
    assert before.changes(on.wire.state()) == {**counted, **moved}


def check_dropped(on: Sessions, direction: str, counter: str, *datagrams: Datagram) -> None:
    """Check that each is dropped and counted in COUNTER, and the valid form processed."""
    start = on.wire.state()
    for number, datagram in enumerate(datagrams, 1):
        if direction == "down":
            assert on.wire.down(datagram.frame()) == []
        else:
            assert on.wire.up(datagram.answer().frame()) == []
        assert start.changes(on.wire.state()) == {counter: number}
    on.check_memory()
    check_good(on, direction)


#: Extension headers; the first octet is the next header.
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
    "ipv6 with an atomic fragment header": {
        "v6": True,
        "extra": bytes([IPPROTO_UDP, 0, 0, 0, 1, 2, 3, 4]),
        "next_header": IPPROTO_FRAGMENT,
    },
}
