# SPDX-License-Identifier: GPL-2.0
"""Reading queues and connections over netlink.

The same data as `tc -s qdisc` and `ss -i`, without starting a program for each sample: in an
emulated machine that takes as long as forwarding hundreds of packets, and sampling must not disturb
the measurement.  (pyroute2 takes 17 times as long for a dump of 12 qdiscs, and longer to import.)
Only a few fields of each message are needed; see rtnetlink(7), sock_diag(7).

One change is made here: options of dualpi2, which tc does not have in Debian 12.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlab.model.errors import LabError

NETLINK_SOCK_DIAG = 4
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
RTM_NEWQDISC, RTM_GETQDISC, RTM_GETTCLASS = 36, 38, 42
SOCK_DIAG_BY_FAMILY = 20

TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 1, 3, 4
# linux/pkt_sched.h
TCA_DUALPI2_LIMIT, TCA_DUALPI2_ECN_MASK = 1, 14
TC_DUALPI2_ECN_MASK_ANY_ECT = 3
INET_DIAG_CONG = 4
TCP_ESTABLISHED = 1

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
TCMSG = struct.Struct("=BBHiIII")
BASIC = struct.Struct("=QI")
QUEUE = struct.Struct("=IIIII")
NO_STATS = bytes(QUEUE.size)
# The offset of the count of marked packets in a qdisc's own statistics (linux/pkt_sched.h).
MARKS = {"choke": 12, "codel": 24, "fq_codel": 12, "fq_pie": 16, "pie": 36, "red": 12}
MARK_COUNT = struct.Struct("=I")
PORTS = struct.Struct("!HH")
# drr_fq's statistics of a band (fairpath/drr_fq.h): their type, and where the waits are.
DRR_FQ_XSTATS = struct.Struct("=I")
DRR_FQ_XSTATS_BAND = 2
DRR_FQ_WAITS = struct.Struct("=144I")
DRR_FQ_WAITS_AT = 48

RECEIVE = 1 << 18
NESTED = 0x8000


def attributes(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The attributes in DATA from OFFSET on: (type, content)."""
    while offset + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < ATTRIBUTE.size:
            raise LabError("netlink: an attribute without a length")
        yield kind & ~NESTED, data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def pack_attribute(kind: int, content: bytes) -> bytes:
    """An attribute of a message, with its padding."""
    length = ATTRIBUTE.size + len(content)
    return ATTRIBUTE.pack(length, kind) + content + bytes(-length % 4)


class Reader:
    """A netlink socket in this thread's network namespace."""

    protocol = socket.NETLINK_ROUTE

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self.socket = socket.socket(socket.AF_NETLINK, kind, self.protocol)
        self.sequence = 0

    def close(self) -> None:
        self.socket.close()

    def dump(self, kind: int, request: bytes, flags: int = NLM_F_DUMP) -> Iterator[bytes]:
        """The messages of the answer to REQUEST, without their headers."""
        self.sequence += 1
        length = HEADER.size + len(request)
        head = HEADER.pack(length, kind, NLM_F_REQUEST | flags, self.sequence, 0)
        self.socket.send(head + request)
        while True:
            data = self.socket.recv(RECEIVE)
            offset = 0
            while offset < len(data):
                length, answer, _, sequence, _ = HEADER.unpack_from(data, offset)
                if sequence == self.sequence:
                    if answer == NLMSG_DONE:
                        return
                    if answer == NLMSG_ERROR:
                        (error,) = struct.unpack_from("=i", data, offset + HEADER.size)
                        if error:
                            raise LabError(f"netlink: error {-error}")
                        return
                    yield data[offset + HEADER.size : offset + length]
                offset += (length + 3) & ~3


@dataclass(frozen=True)
class QueueState:
    """A sample of a queue's counters."""

    sent_bytes: int
    sent_packets: int
    drops: int
    marks: int
    backlog_bytes: int
    backlog_packets: int


class QueueReader(Reader):
    """Reads the queues of the interfaces of one namespace."""

    def _dump(
        self, kind: int, index: int = 0, parent: int = 0
    ) -> Iterator[tuple[int, int, str, dict[int, bytes]]]:
        """Of each queue or class: interface's index, handle, kind, attributes."""
        request = TCMSG.pack(socket.AF_UNSPEC, 0, 0, index, 0, parent, 0)
        for message in self.dump(kind, request):
            _, _, _, index, handle, _, _ = TCMSG.unpack_from(message)
            parts = dict(attributes(message, TCMSG.size))
            yield index, handle, parts.get(TCA_KIND, b"").rstrip(b"\0").decode(), parts

    def options(self) -> dict[tuple[int, int], tuple[str, bytes]]:
        """All queues: (interface's index, handle) -> kind and options, as the kernel has them."""
        return {
            (index, handle): (kind, parts.get(TCA_OPTIONS, b""))
            for index, handle, kind, parts in self._dump(RTM_GETQDISC)
        }

    def read(self) -> dict[tuple[int, int], QueueState]:
        """All queues: (interface's index, handle's major number) -> state."""
        return {
            (index, handle >> 16): queue_state(kind, parts)
            for index, handle, kind, parts in self._dump(RTM_GETQDISC)
            if kind != "noqueue"
        }

    def band_waits(self, index: int, handle: int) -> dict[int, tuple[int, ...]]:
        """Of drr_fq with bands: class -> packets sent, by the step of their wait.

        INDEX is the interface's, HANDLE the qdisc's major number.  Steps are those of
        drr_fq_wait_of() in fairpath/drr_fq.h; numbers are modulo 2^32.  Classes of all qdiscs of
        the interface are not asked for: a netem without a child ends such a dump.
        """
        found = {}
        for _, number, kind, parts in self._dump(RTM_GETTCLASS, index, handle << 16):
            own = dict(attributes(parts.get(TCA_STATS2, b""), 0)).get(TCA_STATS_APP, b"")
            if kind != "drr_fq" or len(own) < DRR_FQ_WAITS_AT:
                continue
            if DRR_FQ_XSTATS.unpack_from(own) == (DRR_FQ_XSTATS_BAND,):
                found[number & 0xFFFF] = DRR_FQ_WAITS.unpack_from(own, DRR_FQ_WAITS_AT)
        return found


def dualpi2_options(words: Sequence[str]) -> bytes:
    """The attributes of dualpi2's options WORDS: limit PACKETS, any_ect."""
    found, rest = b"", iter(words)
    for word in rest:
        if word == "limit":
            found += pack_attribute(TCA_DUALPI2_LIMIT, struct.pack("=I", int(next(rest))))
        elif word == "any_ect":
            found += pack_attribute(TCA_DUALPI2_ECN_MASK, bytes([TC_DUALPI2_ECN_MASK_ANY_ECT]))
        else:
            raise LabError(f"dualpi2: no option '{word}' here")
    return found


def set_dualpi2(device: str, handle: int, words: Sequence[str]) -> None:
    """Set options of the dualpi2 with the major number HANDLE on DEVICE in this namespace."""
    if not words:
        return
    message = TCMSG.pack(socket.AF_UNSPEC, 0, 0, socket.if_nametoindex(device), handle << 16, 0, 0)
    message += pack_attribute(TCA_KIND, b"dualpi2\0")
    message += pack_attribute(TCA_OPTIONS | NESTED, dualpi2_options(words))
    with contextlib.closing(Reader()) as reader:
        list(reader.dump(RTM_NEWQDISC, message, NLM_F_ACK))


def queue_state(kind: str, parts: Mapping[int, bytes]) -> QueueState:
    """The state of a queue of this KIND, from the attributes that describe it."""
    found = dict(attributes(parts.get(TCA_STATS2, b""), 0))
    sent_bytes, sent_packets = BASIC.unpack_from(found.get(TCA_STATS_BASIC, NO_STATS))
    length, backlog, drops, _, _ = QUEUE.unpack_from(found.get(TCA_STATS_QUEUE, NO_STATS))
    marks = 0
    if kind in MARKS and TCA_STATS_APP in found:
        (marks,) = MARK_COUNT.unpack_from(found[TCA_STATS_APP], MARKS[kind])
    return QueueState(sent_bytes, sent_packets, drops, marks, backlog, length)


class ConnectionReader(Reader):
    """Reads the TCP connections of one namespace."""

    protocol = NETLINK_SOCK_DIAG

    def congestion_controls(self) -> dict[tuple[int, int], str]:
        """Established connections: (source port, destination port) -> congestion control in use."""
        # struct inet_diag_req_v2: family, protocol, extensions, padding, states, and an empty
        # socket id.
        wanted, states = 1 << (INET_DIAG_CONG - 1), 1 << TCP_ESTABLISHED
        request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, wanted, 0, states)
        request += bytes(48)
        found = {}
        for message in self.dump(SOCK_DIAG_BY_FAMILY, request):
            # struct inet_diag_msg: four bytes, the socket id (which begins with the ports), 20
            # bytes.
            sport, dport = PORTS.unpack_from(message, 4)
            for attribute, content in attributes(message, 4 + 48 + 20):
                if attribute == INET_DIAG_CONG:
                    found[sport, dport] = content.rstrip(b"\0").decode()
        return found
