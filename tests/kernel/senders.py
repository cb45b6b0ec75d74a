# SPDX-License-Identifier: GPL-2.0
"""Flows between nodes of a chain, both ends in this process, and what comes of them.

A flow is TCP, which sends as much as it can, or UDP at a rate.  What has come is counted as it was
on the wire, so that it can be compared with the rate that the flow is held to.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass, field

from tests.kernel.enforcer import Flow
from tests.kernel.net import wait_for
from tests.kernel.slbn import Chain

#: Python does not have these.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
TCP, UDP = 6, 17
#: What a held flow may be ahead of its rate [ns].
BURST = 2_000_000

#: Octets of a datagram's payload, and of what is added on the wire.
DATAGRAM = 1400
ADDED = {socket.AF_INET: 14 + 20 + 8, socket.AF_INET6: 14 + 40 + 8}

#: Where both ends of a flow are, by node.
PLACES = {
    (0, socket.AF_INET): "10.0.0.1",
    (0, socket.AF_INET6): "fd00:0::1",
    (1, socket.AF_INET): "10.0.1.1",
    (1, socket.AF_INET6): "fd00:1::1",
    (2, socket.AF_INET): "10.0.1.2",
    (2, socket.AF_INET6): "fd00:1::2",
}

ROOM = bytearray(1 << 20)

#: Where struct tcp_info has tcpi_data_segs_in.
DATA_SEGS_IN = 152

#: A full segment, on the wire.
SEGMENT = 1514


@dataclass
class Sender:
    """Both ends of a flow: it sends as much as it can, or datagrams at a rate.

    What is received is what comes on the wire: of TCP, that is not what can be read, because all
    that waited behind a lost segment can be read at one time.
    """

    near: socket.socket
    far: socket.socket
    #: Datagrams, bit/s on the wire; 0: TCP
    offered: int
    sent: int = 0
    received: int = 0
    #: How long datagrams were on their way [ns].
    delays: list[int] = field(default_factory=list)

    @property
    def session(self) -> Flow:
        source, sport = self.near.getsockname()[:2]
        destination, dport = self.far.getsockname()[:2]
        return Flow(destination, source, UDP if self.offered else TCP, sport, dport)

    def abort(self) -> None:
        """End, and leave nothing that the kernel would go on with by itself."""
        if self.near.fileno() >= 0:
            self.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.near.close()
        self.far.close()

    @property
    def on_wire(self) -> int:
        return DATAGRAM + ADDED[self.near.family]

    def send(self, age: float) -> None:
        if not self.offered:
            with contextlib.suppress(BlockingIOError):
                self.near.send(bytes(65536))
            return
        for _ in range(20):
            if self.sent * self.on_wire * 8 > age * self.offered:
                return
            with contextlib.suppress(BlockingIOError):
                self.near.send(struct.pack("=Q", time.monotonic_ns()) + bytes(DATAGRAM - 8))
            self.sent += 1

    def receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                if self.offered:
                    data = self.far.recv(2048)
                    then = struct.unpack_from("=Q", data)[0]
                    self.delays.append(time.monotonic_ns() - then)
                    self.received += self.on_wire
                else:
                    self.far.recv_into(ROOM, 0, socket.MSG_TRUNC)
        if not self.offered:
            info = self.far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
            self.received = struct.unpack_from("=I", info, DATA_SEGS_IN)[0] * SEGMENT


def sender(net: Chain, a: int, b: int, six: bool = False, udp: int = 0) -> Sender:
    family = socket.AF_INET6 if six else socket.AF_INET
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    with net.nodes[b].entered():
        far = socket.socket(family, kind)
        far.bind((PLACES[b, family], 0))
    with net.nodes[a].entered():
        near = socket.socket(family, kind)
        near.bind((PLACES[a, family], 0))
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


class Traffic:
    """Some flows at the same time."""

    def __init__(self, *senders: Sender) -> None:
        self.senders = senders
        self.started = time.monotonic()

    def settle(self, seconds: float = 0.5) -> None:
        """Until neighbours have found each other, and queues are as they will be."""
        wait_for(lambda: bool(self.run(0.1)) and all(sender.received for sender in self.senders))
        self.run(seconds)
        for sender in self.senders:
            sender.delays.clear()

    def run(self, seconds: float) -> list[float]:
        """What has come of each meanwhile, bit/s."""
        return [of_it.bits / of_it.time if of_it.time else 0 for of_it in self.watch(seconds)]

    def comes_to(self, *rates: int) -> None:
        """Each comes to its rate, however long TCP takes for that, and none ever has more.

        What is sent without a rate stands last, and is not looked at.
        """
        for _ in range(6):
            seen = self.watch(1.5)
            pairs = list(zip(seen, rates, strict=False))
            # It may be ahead by a burst, and it is only looked now and then; and what leaves packet
            # by packet may be early by one after another that was late.
            slack = BURST / 10**9 + 0.003
            most = [1.01 * rate * (s.time + slack) + SEGMENT * 8 for s, rate in pairs]
            assert all(s.bits <= bits for (s, _), bits in zip(pairs, most, strict=True)), pairs
            if all(s.bits >= 0.985 * rate * s.time > 0 for s, rate in pairs):
                return
        raise AssertionError(pairs)

    def watch(self, seconds: float) -> list[Seen]:
        began = now = time.monotonic()
        seen = [Seen() for _ in self.senders]
        while now < began + seconds:
            for sender, of_it in zip(self.senders, seen, strict=True):
                before = sender.received
                sender.send(now - self.started)
                sender.receive()
                if sender.received > before:
                    of_it.note(before)
            time.sleep(0.001)
            now = time.monotonic()
        return seen


@dataclass
class Seen:
    """From when something first came to when it last did: what had come by then.

    That is exact even if large segments come rarely.
    """

    since: float = 0
    until: float = 0
    before: int = 0
    last: int = 0

    def note(self, before: int) -> None:
        self.until, self.last = time.monotonic(), before
        if not self.since:
            self.since, self.before = self.until, before

    @property
    def time(self) -> float:
        return self.until - self.since

    @property
    def bits(self) -> int:
        return (self.last - self.before) * 8


def close_to(seen: float, rate: float, within: float) -> bool:
    return abs(seen / rate - 1) <= within
