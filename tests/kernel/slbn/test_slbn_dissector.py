# SPDX-License-Identifier: GPL-2.0
"""The dissector, tc and the packets of a real link agree.

    sources r0 ---- r1 ---- d destination
               e0       e1, the edge, answers for d

Sessions join, probe and leave over both links, IPv4 and IPv6, while the packets of the first link
are captured. The fields that tshark shows with scripts/slbn.lua are compared with the counters and
ledgers of the links, the assigned rates of the sources, and slbn_wire.py's parsing.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.slbn import MEGA, chain, rates, sources
from tests.kernel.lib.slbn_tap import ETH_P_ALL, SO_RCVBUFFORCE
from tests.kernel.lib.slbn_wire import (
    AGAIN,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    PROBE,
    PROBE_ACK,
    Packet,
    decode,
    read_packet,
    read_udp,
)
from tests.tshark import fields

SO_TIMESTAMPNS = 35
#: Source: destination, and demand [bit/s] and leave time [s] of each session.
SESSIONS: dict[str, tuple[str, list[tuple[int, float]]]] = {
    "10.0.0.1": ("10.0.1.2", [(0, 0), (5 * MEGA, 0), (0, 1.5)]),
    "fd00:0::1": ("fd00:1::2", [(0, 0), (0, 0), (2 * MEGA, 1)]),
}
#: Of 50 Mbit/s, in the end, one session has 5 and three share the rest.
FAIR = 15 * MEGA

NUMBERS = (
    *("type", "seq", "hop", "slots", "slot_length", "bottleneck", "weight", "epoch"),
    *("bw2", "bw1", "bw", "use1", "use", "g"),
)
SHOWN = (
    *("frame.number", "ip.src", "ipv6.src", "slbn.session", "slbn.B.hop", "slbn.tag"),
    *("slbn.code", "slbn.held", "slbn.flags.again"),
    *("slbn.response_to", "slbn.time", "_ws.expert", "_ws.lua.error"),
    *(f"slbn.{name}" for name in NUMBERS),
)


@dataclass
class Record:
    """Captured frames with times [ns], final statistics of tc, final rates, tshark's fields."""

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
        """Their fields as tshark shows them."""
        return {n: row for n, row in enumerate(self.rows, 1) if row["slbn.type"]}


def open_tap(ns: Namespace, device: str) -> socket.socket:
    """A packet socket that captures all frames of a device with their times."""
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
        # No rotation, so that the current ledger counts all sessions.
        net.attach(0, "rate 100mbit headroom 0 epoch 0 control 100%")
        net.attach(1, "rate 50mbit headroom 0 epoch 0 control 100% edge")
        with open_tap(net.nodes[0], net.device(0)) as tap:
            lines = {
                source: [f"{to} {demand} 0.1 {leave}" for demand, leave in sessions]
                for source, (to, sessions) in SESSIONS.items()
            }
            with (
                sources(peer, net, "10.0.0.1", lines["10.0.0.1"], 6) as v4,
                sources(peer, net, "fd00:0::1", lines["fd00:0::1"], 6) as v6,
            ):
                wait_for(lambda: net.state(0).leaves >= 2)
                assigned = rates(v4) + rates(v6)
            # Without sources, all packets have soon been captured and counted.
            time.sleep(0.1)
            frames = list(read_tap(tap))
        links = [net.shown(0), net.shown(1)]
    return Record(frames, links, assigned, fields(frames, *SHOWN))


def test_fields_match_packets(record: Record) -> None:
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
        hops = range(packet.slots)
        codes = [packet.codes.get(hop, 0) for hop in hops]
        assert row["slbn.tag"] == [str(packet.tags.get(hop, 0)) for hop in hops]
        assert row["slbn.code"] == [f"0x{code:04x}" for code in codes]
        assert row["slbn.held"] == [str(decode(code)) for code in codes]
        assert row["slbn.flags.again"] in ([str(packet.flags & AGAIN)], [str(packet.flags > 0)])
        for name in NUMBERS:
            assert row[f"slbn.{name}"] == [str(getattr(packet, name))], name
    assert any(packet.codes for packet in packets.values())
    by_protocol = Counter(bool(row["ipv6.src"]) for row in shown.values())
    assert by_protocol[False] > 20 and by_protocol[True] > 20


def test_counters_match_packets(record: Record) -> None:
    seen = Counter(int(row["slbn.type"][0]) for row in record.shown.values())
    link = record.links[0]
    dropped = ["malformed", "bad_checksum", "fragments", "bad_key", "unknown_key", "bad_time"]
    dropped += ["from_hosts", "rate_limited"]
    assert [link[name] for name in (*dropped, "too_many_hops", "wrong_path", "clamped")] == [0] * 11
    assert (seen[JOIN], seen[PROBE], seen[LEAVE]) == (link["joins"], link["probes"], link["leaves"])
    # Stale acknowledgments are captured before the link drops them.
    assert link["acks"] <= seen[PROBE_ACK] <= link["acks"] + link["stale"]
    assert seen[JOIN] >= 6 and seen[LEAVE] >= 2 and seen[LEAVE_ACK] >= 2
    # The edge answered all of them.
    edge = record.links[1]
    assert edge["answered"] >= seen[PROBE_ACK] + seen[LEAVE_ACK]


def last_acks(record: Record) -> dict[str, dict[str, list[str]]]:
    """The fields of the last ProbeAck of each session that has not left."""
    last, left = {}, set()
    for row in record.shown.values():
        session = row["slbn.session"][0]
        if row["slbn.type"] == [str(PROBE_ACK)]:
            last[session] = row
        elif row["slbn.type"] == [str(LEAVE)]:
            left.add(session)
    assert (len(last), len(left)) == (6, 2)
    return {session: row for session, row in last.items() if session not in left}


def test_last_acks_match_rates_and_ledgers(record: Record) -> None:
    first, edge = record.links
    assert record.rates == [FAIR, 5 * MEGA, 0, FAIR, FAIR, 0]
    assert (edge["sessions"], edge["restricted"], edge["share"]) == (4, 3, FAIR)
    assert (first["sessions"], first["restricted"], first["BF"]) == (4, 0, 50 * MEGA)
    acks = last_acks(record).values()
    for row in acks:
        limited = row["slbn.bottleneck"] == ["255"]
        assert row["slbn.bw"] == [str(5 * MEGA if limited else edge["share"])]
        assert row["slbn.bottleneck"] == ["255" if limited else "1"]
        # What it uses and what it gets are the same at rest.
        assert row["slbn.use"] == row["slbn.g"] == row["slbn.bw"]
        assert row["slbn.B.hop"] == ([] if limited else ["1"])
        # Captured before the first link processes it, which changes neither.
        tags = row["slbn.tag"][:3]
        assert tags[2] == "0" and "0" not in tags[:2]
        assert row["slbn.hop"] == ["1"]
    assert sum(row["slbn.bottleneck"] == ["255"] for row in acks) == 1


def test_replies_are_matched_with_requests(record: Record) -> None:
    packets = record.packets
    matched = 0
    for n, row in record.shown.items():
        if packets[n].type not in (PROBE_ACK, LEAVE_ACK):
            assert not row["slbn.response_to"]
            continue
        request = int(row["slbn.response_to"][0])
        down, up = packets[request], packets[n]
        assert (down.id, down.seq) == (up.id, up.seq) and request < n
        assert down.type in ((LEAVE,) if up.type == LEAVE_ACK else (JOIN, PROBE))
        took = record.frames[n - 1][0] - record.frames[request - 1][0]
        assert abs(float(row["slbn.time"][0]) * 1e9 - took) < 1000
        matched += 1
    assert matched > 40


def test_other_packets_have_no_slbn_fields(record: Record) -> None:
    others = [row for row in record.rows if not row["slbn.type"]]
    assert all(not row[name] for row in others for name in SHOWN if name.startswith("slbn."))
    assert len(others) + len(record.packets) == len(record.frames)
