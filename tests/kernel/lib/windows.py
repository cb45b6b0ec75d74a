# SPDX-License-Identifier: GPL-2.0
"""Senders whose windows slbnd lowers, and what is seen of them.

    node 0 ---- node 1 ---- node 2
                     e1: fq below slbn, which paces, and the programs for windows
                     w1: acknowledgements are delayed

The delay of TCP is its smoothed round-trip time less that of the empty path.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kernel.lib.enforcer import Enforcer, Flow, fq_below_slbn
from tests.kernel.lib.senders import RTT, Sender, Traffic, tcp_info
from tests.kernel.lib.slbn import MEGA, Chain, chain

RATE = 20 * MEGA
#: Round-trip time without queues [ms].
ROUND_TRIP = 20
#: Offsets in struct tcp_info: acknowledged octets, and the window of the last acknowledgement.
BYTES_ACKED, SEND_WINDOW = 120, 228
#: Of the scales of both ends, in one octet.
SCALES = 6


def delay(net: Chain, ms: float, options: str = "") -> None:
    """Delay acknowledgements."""
    net.nodes[2].sh(f"tc qdisc replace dev w1 root netem delay {ms}ms {options} limit 10000")


@contextlib.contextmanager
def network() -> Iterator[Chain]:
    with chain(2) as made:
        fq_below_slbn(made)
        delay(made, ROUND_TRIP)
        yield made


def right_edge(flow: Sender) -> int:
    """Up to which octet the sender may send."""
    info = flow.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 240)
    acked = struct.unpack_from("=Q", info, BYTES_ACKED)[0]
    return int(acked + struct.unpack_from("=I", info, SEND_WINDOW)[0])


def unit_of(flow: Sender) -> int:
    """Of the window field in what the sender receives [octets]."""
    info = flow.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    # Of two bit-fields: the scale of the peer, and its own.
    return 1 << (info[SCALES] & 15)


@dataclass
class Seen:
    """What was seen of a session: part of the rate, delays [ms], sorted, and drops."""

    used: float
    delays: list[float]
    drops: int
    #: How far a right edge moved back, at most [octets], and the unit of the window field.
    back: int
    unit: int

    @property
    def median(self) -> float:
        return statistics.median(self.delays)

    def check(self, delay: float = 2.5, median: float = 2) -> None:
        assert 0.97 < self.used < 1.01
        assert self.median < median and self.delays[-1] < delay
        assert self.drops == 0
        assert self.back < self.unit


def watch(
    made: Enforcer,
    *flows: Sender,
    session: Flow | None = None,
    seconds: float = 2,
    trip: float = ROUND_TRIP,
    settle: float = 2,
) -> Seen:
    """Send for SECONDS, after SETTLE, over a path with this round-trip time [ms]."""
    session = session or flows[0].session
    made.set(session, RATE)
    traffic = Traffic(*flows)
    traffic.settle(settle)
    before, began = made.read(session), time.monotonic()
    delays, edges, back = [], [right_edge(flow) for flow in flows], 0
    while time.monotonic() < began + seconds:
        traffic.run(0.02)
        delays += [tcp_info(flow, RTT) / 1000 - trip for flow in flows]
        now = [right_edge(flow) for flow in flows]
        back = max(back, *(old - new for old, new in zip(edges, now, strict=True)))
        edges = now
    took = time.monotonic() - began
    after = made.read(session)
    used = (after.bytes - before.bytes) * 8 / took / RATE
    unit = max(unit_of(flow) for flow in flows)
    seen = Seen(used, sorted(delays), after.drops - before.drops, back, unit)
    print(f"{used:.3f} of the rate, delay {seen.median:.2f} and {seen.delays[-1]:.2f} ms")
    print(f"{seen.drops} drops, {after.marks - before.marks} marks, {back} octets back")
    print(f"{made.read_windows()}")
    return seen
