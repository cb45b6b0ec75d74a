# SPDX-License-Identifier: GPL-2.0
"""TCP and UDP flows between nodes of a chain, with both ends in this process.

TCP flows send as much as possible, UDP flows at a rate.  Received octets are counted as on the
wire, to compare them with the rate that a flow is paced at.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.kernel.lib.background import repeated
from tests.kernel.lib.enforcer import Flow
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.slbn import Chain

#: Missing in Python's socket module.
SO_SNDBUFFORCE, SO_RCVBUFFORCE, UDP_SEGMENT = 32, 33, 103
TCP, UDP = 6, 17
#: Burst of a paced flow, and of one that paused for longer than 100 ms [ns].
BURST, FIRST_BURST = 2_000_000, 500_000

#: Octets of a datagram's payload, and of its headers on the wire.
DATAGRAM = 1400
ADDED = {socket.AF_INET: 14 + 20 + 8, socket.AF_INET6: 14 + 40 + 8}

#: Addresses of the nodes.
ADDRESSES = {
    (0, socket.AF_INET): "10.0.0.1",
    (0, socket.AF_INET6): "fd00:0::1",
    (1, socket.AF_INET): "10.0.1.1",
    (1, socket.AF_INET6): "fd00:1::1",
    (2, socket.AF_INET): "10.0.1.2",
    (2, socket.AF_INET6): "fd00:1::2",
    (3, socket.AF_INET): "10.0.2.2",
    (3, socket.AF_INET6): "fd00:2::2",
}

ROOM = bytearray(1 << 20)
BLOCK = bytes(65536)

#: Offsets of tcpi_rtt and tcpi_data_segs_in in struct tcp_info.
RTT, DATA_SEGS_IN = 68, 152

#: Octets of a full segment on the wire.
SEGMENT = 1514

#: Unlike time.sleep(), it does not read the clock: system calls are what virtual time costs.
usleep = ctypes.CDLL(None).usleep


@dataclass
class Sender:
    """Both ends of a flow: TCP as fast as possible, or datagrams at a rate.

    For TCP, `received` counts segments on the wire, not octets read, since all data behind a lost
    segment becomes readable at once.
    """

    near: socket.socket
    far: socket.socket
    #: Rate of datagrams on the wire [bit/s]; 0: TCP.
    offered: int
    sent: int = 0
    received: int = 0
    #: One-way delays of datagrams [ns].
    delays: list[int] = field(default_factory=list)
    #: When the latest datagram that arrived was sent [ns], and how many others overtook.
    latest: int = 0
    reordered: int = 0

    @property
    def session(self) -> Flow:
        source, sport = self.near.getsockname()[:2]
        destination, dport = self.far.getsockname()[:2]
        return Flow(destination, source, UDP if self.offered else TCP, sport, dport)

    def abort(self) -> None:
        """Close both ends with a reset, so that the kernel sends nothing more."""
        if self.near.fileno() >= 0:
            self.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.near.close()
        self.far.close()

    @property
    def on_wire(self) -> int:
        return DATAGRAM + ADDED[self.near.family]

    def send(self, age: float, now: int = 0) -> None:
        """Send what is due after AGE [s]; datagrams have the time NOW [ns]."""
        now = now or time.monotonic_ns()
        if not self.offered:
            with contextlib.suppress(BlockingIOError):
                self.near.send(BLOCK)
            return
        for _ in range(20):
            if self.sent * self.on_wire * 8 > age * self.offered:
                return
            with contextlib.suppress(BlockingIOError):
                self.near.send(struct.pack("=Q", now) + bytes(DATAGRAM - 8))
            self.sent += 1

    def receive(self, now: int = 0, readable: bool = True) -> None:
        """Read what has arrived until NOW [ns]."""
        now = now or time.monotonic_ns()
        with contextlib.suppress(BlockingIOError):
            while self.offered:
                data = self.far.recv(2048)
                then = struct.unpack_from("=Q", data)[0]
                self.delays.append(now - then)
                self.reordered += then < self.latest
                self.latest = max(self.latest, then)
                self.received += self.on_wire
            if readable:
                # There is room for more than has come since the last time.
                self.far.recv_into(ROOM, 0, socket.MSG_TRUNC)
        if not self.offered:
            info = self.far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
            self.received = struct.unpack_from("=I", info, DATA_SEGS_IN)[0] * SEGMENT


def sender(
    net: Chain, a: int, b: int, six: bool = False, udp: int = 0, source: str = "", port: int = 0
) -> Sender:
    """A flow from node `a`, or from its address `source`, to node `b`; `port` is of both ends."""
    family = socket.AF_INET6 if six else socket.AF_INET
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    with net.nodes[b].entered():
        far = socket.socket(family, kind)
        far.bind((ADDRESSES[b, family], port))
    with net.nodes[a].entered():
        near = socket.socket(family, kind)
        near.bind((source or ADDRESSES[a, family], port))
    if udp:
        far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
        near.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 22)
        far.connect(near.getsockname())
        near.connect(far.getsockname())
    else:
        far.listen()
        near.connect(far.getsockname())
        listener, (far, _) = far, far.accept()
        listener.close()
    for end in (near, far):
        end.setblocking(False)
    return Sender(near, far, udp)


@contextlib.contextmanager
def sending(
    node: Namespace,
    source: str,
    destinations: Sequence[str],
    size: int,
    pause: float,
    segment: int = 0,
    port: int = 0,
) -> Iterator[None]:
    """Send a datagram to each destination again and again, or (SEGMENT) merged ones."""
    with node.entered():
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    near.bind((source, port))
    if segment:
        near.setsockopt(socket.SOL_UDP, UDP_SEGMENT, segment)

    def send() -> None:
        for destination in destinations:
            # Nobody listens: errors are those of ICMP.
            with contextlib.suppress(ConnectionRefusedError):
                near.sendto(bytes(size), (destination, 9))

    with near, repeated(send, pause):
        yield


class Traffic:
    """Several flows at the same time."""

    def __init__(self, *senders: Sender) -> None:
        self.senders = senders
        self.started = time.monotonic_ns()

    def settle(self, seconds: float = 0.5) -> None:
        """Send until neighbours are resolved and queues are in a steady state."""
        wait_for(lambda: bool(self.run(0.1)) and all(sender.received for sender in self.senders))
        self.run(seconds)
        for sender in self.senders:
            sender.delays.clear()

    def run(self, seconds: float) -> list[float]:
        """Send for SECONDS; return the received rate of each flow [bit/s]."""
        return [each.bits / each.time if each.time else 0 for each in self.watch(seconds)]

    def check_rates(self, *rates: int) -> None:
        """Check that each flow reaches its rate [bit/s] within 9 s and never exceeds it.

        Flows without a rate are the last ones and are not checked.
        """
        for _ in range(6):
            seen = self.watch(1.5)
            pairs = list(zip(seen, rates, strict=False))
            # A flow may be ahead by a burst, and polling is coarse; without bursts, a packet may be
            # early after one that was late.
            slack = BURST / 10**9 + 0.003
            limits = [1.01 * rate * (s.time + slack) + SEGMENT * 8 for s, rate in pairs]
            assert all(s.bits <= bits for (s, _), bits in zip(pairs, limits, strict=True)), pairs
            if all(s.bits >= 0.985 * rate * s.time > 0 for s, rate in pairs):
                return
        raise AssertionError(pairs)

    def watch(self, seconds: float) -> list[Seen]:
        began = now = time.monotonic_ns()
        seen = [Seen() for _ in self.senders]
        # TCP acknowledges what is read, so its round trips are as long as the pause.
        pause = 2000 if all(sender.offered for sender in self.senders) else 1000
        # Two system calls for all sockets that have received nothing, instead of one for each.
        polled = len(self.senders) > 2
        poll = select.poll()
        for sender in self.senders:
            poll.register(sender.far, select.POLLIN)
        while now < began + seconds * 10**9:
            for sender in self.senders:
                sender.send((now - self.started) / 10**9, now)
            ready = {number for number, _ in poll.poll(0)} if polled else set()
            for sender, each in zip(self.senders, seen, strict=True):
                before = sender.received
                readable = not polled or sender.far.fileno() in ready
                # TCP also counts what arrives behind a lost segment, and cannot be read yet.
                if readable or not sender.offered:
                    sender.receive(now, readable)
                if sender.received > before:
                    each.note(before, now / 10**9)
            usleep(pause)
            now = time.monotonic_ns()
        return seen


@dataclass
class Seen:
    """Octets received between the first and the last arrival.

    This is exact even if large segments arrive rarely.
    """

    since: float = 0
    until: float = 0
    before: int = 0
    last: int = 0

    def note(self, before: int, now: float) -> None:
        self.until, self.last = now, before
        if not self.since:
            self.since, self.before = self.until, before

    @property
    def time(self) -> float:
        return self.until - self.since

    @property
    def bits(self) -> int:
        return (self.last - self.before) * 8


def tcp_info(flow: Sender, offset: int) -> int:
    info = flow.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    value: int = struct.unpack_from("=I", info, offset)[0]
    return value


def close_to(seen: float, rate: float, within: float) -> bool:
    return abs(seen / rate - 1) <= within
