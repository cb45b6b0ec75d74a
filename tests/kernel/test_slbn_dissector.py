# SPDX-License-Identifier: GPL-2.0
"""tshark, tc and the packets themselves tell the same story of a real link.

    sources r0 ---- r1 ---- d destination
               e0       e1, the edge, answers for d

Sessions join, probe and leave over both links, by IPv4 and IPv6, while all that passes on the
first is recorded. Then tshark reads the record with scripts/slbn.lua, and what it shows is
compared with the counters and ledgers of the links, with what the sources were told, and with what
another reader, slbn_wire.py, makes of the same octets.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kernel.net import Namespace, wait_for
from tests.kernel.slbn import MEGA, chain, rates, sources
from tests.kernel.slbn_tap import ETH_P_ALL, SO_RCVBUFFORCE
from tests.kernel.slbn_wire import (
    JOIN,
    LEAVE,
    LEAVE_ACK,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    Packet,
    read_packet,
    read_udp,
)
from tests.tshark import fields

SO_TIMESTAMPNS = 35
#: All sessions of either protocol: what they ask for and when they leave [s].
ASKED: dict[str, tuple[str, list[tuple[int, float]]]] = {
    "10.0.0.1": ("10.0.1.2", [(0, 0), (5 * MEGA, 0), (0, 1.5)]),
    "fd00:0::1": ("fd00:1::2", [(0, 0), (0, 0), (2 * MEGA, 1)]),
}
#: On 50 Mbit/s, in the end, 5 go to one and the rest to three.
FAIR = 15 * MEGA

NUMBERS = ("type", "seq", "hop", "slots", "bottleneck", "bw2", "bw1", "bw", "demand")
SHOWN = (
    *("frame.number", "ip.src", "ipv6.src", "slbn.session", "slbn.B.hop", "slbn.tag"),
    *("slbn.response_to", "slbn.time", "_ws.expert", "_ws.lua.error"),
    *(f"slbn.{name}" for name in NUMBERS),
)


@dataclass
class Record:
    """What was seen: frames with their times [ns], and what tc and the sources said in the end."""

    frames: list[tuple[int, bytes]]
    links: list[dict[str, Any]]
    rates: list[int]
    rows: list[dict[str, list[str]]]

    @property
    def packets(self) -> dict[int, Packet]:
        """Control packets by the number of their frame."""
        payloads = {n: read_udp(frame)[0] for n, (_, frame) in enumerate(self.frames, 1)}
        return {
            n: read_packet(payload) for n, payload in payloads.items() if payload[:4] == b"SLBN"
        }

    @property
    def shown(self) -> dict[int, dict[str, list[str]]]:
        """The same as tshark has them."""
        return {n: row for n, row in enumerate(self.rows, 1) if row["slbn.type"]}


def open_tap(ns: Namespace, device: str) -> socket.socket:
    """All that passes through a device, with its times, is kept until it is read."""
    with ns.entered():
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.bind((device, ETH_P_ALL))
    tap.setblocking(False)
    return tap


def read_tap(tap: socket.socket) -> Iterator[tuple[int, bytes]]:
    with suppress(BlockingIOError):
        while True:
            frame, ancillary, _, _ = tap.recvmsg(1 << 16, 64)
            [(_, _, stamp)] = ancillary
            seconds, ns = struct.unpack("qq", stamp)
            yield seconds * 10**9 + ns, frame


@pytest.fixture(scope="module")
def record(peer: str) -> Record:
    with chain(2) as net:
        # No page is turned meanwhile, so that the last ledger has all that happened.
        net.attach(0, "rate 100mbit epoch 600s")
        net.attach(1, "rate 50mbit epoch 600s edge")
        with open_tap(net.nodes[0], net.device(0)) as tap:
            lines = {
                source: [f"{to} {demand} 0.1 {leave}" for demand, leave in sessions]
                for source, (to, sessions) in ASKED.items()
            }
            with (
                sources(peer, net, "10.0.0.1", lines["10.0.0.1"], 6) as v4,
                sources(peer, net, "fd00:0::1", lines["fd00:0::1"], 6) as v6,
            ):
                wait_for(lambda: net.shown(0)["leaves"] >= 2)
                told = rates(v4) + rates(v6)
            frames = list(read_tap(tap))
        links = [net.shown(0), net.shown(1)]
    return Record(frames, links, told, fields(frames, *SHOWN))


def test_every_field(record: Record) -> None:
    packets, shown = record.packets, record.shown
    assert set(shown) == set(packets)
    assert {packet.type for packet in packets.values()} == {
        *(JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK)
    }
    assert len({packet.id for packet in packets.values()}) == 6
    for n, packet in packets.items():
        row = shown[n]
        assert row["_ws.expert"] == row["_ws.lua.error"] == []
        assert row["slbn.session"] == [packet.id.hex()]
        assert row["slbn.B.hop"] == [str(hop) for hop in range(64) if packet.B >> hop & 1]
        assert row["slbn.tag"] == [str(packet.tags.get(hop, 0)) for hop in range(packet.slots)]
        for name in NUMBERS:
            assert row[f"slbn.{name}"] == [str(getattr(packet, name))], name
    by_protocol = Counter(bool(row["ipv6.src"]) for row in shown.values())
    assert by_protocol[False] > 20 and by_protocol[True] > 20


def test_counters(record: Record) -> None:
    """What passed on the link is what the link counted."""
    seen = Counter(int(row["slbn.type"][0]) for row in record.shown.values())
    link = record.links[0]
    refused = ("malformed", "bad_checksum", "fragments", "bad_key", "from_hosts", "rate_limited")
    assert [link[name] for name in (*refused, "too_many_hops", "wrong_path", "clamped")] == [0] * 9
    assert (seen[JOIN], seen[PROBE], seen[LEAVE]) == (link["joins"], link["probes"], link["leaves"])
    # An answer that comes too late is seen here before the link drops it.
    assert link["acks"] <= seen[PROBE_ACK] <= link["acks"] + link["stale"]
    assert seen[JOIN] >= 6 and seen[LEAVE] >= 2 and seen[LEAVE_ACK] >= 2
    # All of them were answered at the edge, where nobody listens.
    edge = record.links[1]
    assert edge["answered"] >= seen[PROBE_ACK] + seen[LEAVE_ACK]


def last_answers(record: Record) -> dict[str, dict[str, list[str]]]:
    """The last that each session heard, as tshark has it, unless it has left."""
    last, left = {}, set()
    for row in record.shown.values():
        session = row["slbn.session"][0]
        if row["slbn.type"] == [str(PROBE_ACK)]:
            last[session] = row
        elif row["slbn.type"] == [str(LEAVE)]:
            left.add(session)
    assert (len(last), len(left)) == (6, 2)
    return {session: row for session, row in last.items() if session not in left}


def test_rates_hops_and_tags(record: Record) -> None:
    """The last answers have the rates, and know where each session stands."""
    first, edge = record.links
    assert record.rates == [FAIR, 5 * MEGA, 0, FAIR, FAIR, 0]
    assert (edge["sessions"], edge["restricted"], edge["share"]) == (4, 3, FAIR)
    assert (first["sessions"], first["restricted"], first["BF"]) == (4, 0, 50 * MEGA)
    answers = last_answers(record).values()
    for row in answers:
        limited = row["slbn.demand"] != [str(RATE_MAX)]
        assert row["slbn.bw"] == [str(5 * MEGA if limited else edge["share"])]
        assert row["slbn.bottleneck"] == ["255" if limited else "1"]
        assert row["slbn.B.hop"] == ([] if limited else ["1"])
        # Seen before the first link writes again, which it has nothing to change.
        assert row["slbn.tag"][:3] == [str(first["tag"]), str(edge["tag"]), "0"]
        assert row["slbn.hop"] == ["1"]
    assert sum(row["slbn.demand"] == [str(RATE_MAX)] for row in answers) == 3


def test_answers_are_matched(record: Record) -> None:
    """Each with the packet that it answers, and the time that it took."""
    packets = record.packets
    matched = 0
    for n, row in record.shown.items():
        if packets[n].type not in (PROBE_ACK, LEAVE_ACK):
            assert not row["slbn.response_to"]
            continue
        asked = int(row["slbn.response_to"][0])
        down, up = packets[asked], packets[n]
        assert (down.id, down.seq) == (up.id, up.seq) and asked < n
        assert down.type in ((LEAVE,) if up.type == LEAVE_ACK else (JOIN, PROBE))
        took = record.frames[n - 1][0] - record.frames[asked - 1][0]
        assert abs(float(row["slbn.time"][0]) * 1e9 - took) < 1000
        matched += 1
    assert matched > 40


def test_other_packets_are_left_alone(record: Record) -> None:
    others = [row for row in record.rows if not row["slbn.type"]]
    assert all(not row[name] for row in others for name in SHOWN if name.startswith("slbn."))
    assert len(others) + len(record.packets) == len(record.frames)
