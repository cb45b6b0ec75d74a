# SPDX-License-Identifier: GPL-2.0
"""rtnetlink at the byte level.

For messages that tc would reject itself, and for frequent requests, as tc takes as long to start
in an emulated machine as sending a thousand packets. Messages can be malformed; errors have the
kernel's message (extack). See rtnetlink(7), struct tcmsg, and include/uapi/fairpath/drr_fq.h.
"""

from __future__ import annotations

import itertools
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLMSGERR_ATTR_MSG, NLMSGERR_ATTR_OFFS, NLMSGERR_ATTR_POLICY = 1, 2, 4
NL_POLICY_MIN_U, NL_POLICY_MAX_U = 4, 5
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11
RTM_DELLINK, RTM_GETLINK = 17, 18
IFLA_OPERSTATE, IF_OPER_UP = 16, 6
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC, RTM_GETTCLASS = 36, 37, 38, 42
RTM_NEWTFILTER, RTM_DELTFILTER = 44, 45
NLA_F_NESTED = 0x8000

TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 1, 3, 4
TCA_MATCHALL_CLASSID = 1
TC_H_ROOT = 0xFFFFFFFF
ETH_P_ALL = 0x0003

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
TCMSG = struct.Struct("=BBHiIII")
IFINFOMSG = struct.Struct("=BBHiII")
BASIC = struct.Struct("=QI")
QUEUE = struct.Struct("=IIIII")


def attribute(kind: int, content: bytes) -> bytes:
    head = ATTRIBUTE.pack(ATTRIBUTE.size + len(content), kind)
    return head + content + bytes(-len(content) % 4)


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Parse the attributes in DATA: (type, content)."""
    offset = 0
    while offset + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        assert length >= ATTRIBUTE.size, "an attribute without a length"
        yield kind & ~NLA_F_NESTED, data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def handle(text: str) -> int:
    """The number of a handle such as `10:3`; both parts are hexadecimal, as in tc."""
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


class NetlinkError(OSError):
    """An error that the kernel returned: errno and extack message."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.message = message


@dataclass(frozen=True)
class Shown:
    """A qdisc or class in a dump."""

    kind: str
    handle: int
    parent: int
    options: bytes
    sent_bytes: int
    sent_packets: int
    qlen: int
    backlog: int
    drops: int
    application: bytes


class Rtnetlink:
    """An rtnetlink socket in the network namespace where it is created."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.sequence = itertools.count(1)

    def close(self) -> None:
        self.socket.close()

    def ask(self, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
        """Send a message; yields the replies up to an acknowledgment or the end of a dump."""
        sequence = next(self.sequence)
        flags |= NLM_F_REQUEST
        self.socket.send(HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body)
        while True:
            data = self.socket.recv(1 << 16)
            offset = 0
            while offset < len(data):
                length, answer, answered, number, _ = HEADER.unpack_from(data, offset)
                content = data[offset + HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if number != sequence:
                    continue
                if answer == NLMSG_ERROR:
                    refuse(content, answered)
                if answer == NLMSG_DONE:
                    refuse_dump(content, answered)
                if answer in (NLMSG_ERROR, NLMSG_DONE):
                    return
                yield content

    def request(self, kind: int, flags: int, body: bytes) -> None:
        """Send a message, and wait for its acknowledgment."""
        for _ in self.ask(kind, flags | NLM_F_ACK, body):
            pass

    def change_qdisc(
        self,
        index: int,
        handle: int,
        parent: int,
        attributes: bytes,
        flags: int = 0,
        kind: int = RTM_NEWQDISC,
    ) -> None:
        body = TCMSG.pack(socket.AF_UNSPEC, 0, 0, index, handle, parent, 0) + attributes
        self.request(kind, flags, body)

    def change_filter(self, index: int, parent: int, kind: int, classid: int) -> None:
        """Add or delete a matchall filter of priority 1."""
        info = 1 << 16 | socket.htons(ETH_P_ALL)
        body = TCMSG.pack(socket.AF_UNSPEC, 0, 0, index, 0, parent, info)
        body += attribute(TCA_KIND, b"matchall\0")
        flags = 0
        if kind == RTM_NEWTFILTER:
            body += attribute(TCA_OPTIONS, u32(TCA_MATCHALL_CLASSID, classid))
            flags |= NLM_F_CREATE | NLM_F_EXCL
        self.request(kind, flags, body)

    def is_up(self, index: int) -> bool:
        """Whether the operational state of a device is up."""
        body = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, index, 0, 0)
        (link,) = self.ask(RTM_GETLINK, NLM_F_ACK, body)
        return dict(attributes(link[IFINFOMSG.size :]))[IFLA_OPERSTATE] == bytes([IF_OPER_UP])

    def delete_link(self, index: int) -> None:
        body = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, index, 0, 0)
        self.request(RTM_DELLINK, 0, body)

    def dump(self, kind: int, index: int) -> list[Shown]:
        body = TCMSG.pack(socket.AF_UNSPEC, 0, 0, index, 0, 0, 0)
        answers = [parse(message) for message in self.ask(kind, NLM_F_DUMP, body)]
        return [shown for where, shown in answers if where == index]

    def qdiscs(self, index: int) -> list[Shown]:
        return self.dump(RTM_GETQDISC, index)

    def classes(self, index: int) -> list[Shown]:
        return self.dump(RTM_GETTCLASS, index)


def refuse_dump(content: bytes, flags: int) -> None:
    """Raise the error at the end of a dump, if there is one."""
    (error,) = struct.unpack_from("=i", content.ljust(4, b"\0"))
    if error >= 0:
        return
    found = dict(attributes(content[4:])) if flags & NLM_F_ACK_TLVS else {}
    raise NetlinkError(-error, found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode())


def refuse(content: bytes, flags: int) -> None:
    """Raise the error of an NLMSG_ERROR message; return if it is an acknowledgment."""
    (error,) = struct.unpack_from("=i", content)
    if not error:
        return
    assert flags & NLM_F_CAPPED, "the refused message is repeated"
    message = ""
    if flags & NLM_F_ACK_TLVS:
        found = dict(attributes(content[4 + HEADER.size :]))
        message = found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()
        policy = dict(attributes(found.get(NLMSGERR_ATTR_POLICY, b"")))
        if NL_POLICY_MAX_U in policy:
            least, most = (
                int.from_bytes(policy[limit], sys.byteorder)
                for limit in (NL_POLICY_MIN_U, NL_POLICY_MAX_U)
            )
            message += f": {least} to {most}"
    raise NetlinkError(-error, message)


def parse(message: bytes) -> tuple[int, Shown]:
    """Parse a message of a dump: the device's index, and the qdisc or class."""
    _, _, _, index, handle, parent, _ = TCMSG.unpack_from(message)
    top = dict(attributes(message[TCMSG.size :]))
    statistics = dict(attributes(top.get(TCA_STATS2, b"")))
    queue = QUEUE.unpack_from(statistics.get(TCA_STATS_QUEUE, bytes(QUEUE.size)))
    basic = BASIC.unpack_from(statistics.get(TCA_STATS_BASIC, bytes(BASIC.size)))
    return index, Shown(
        kind=top.get(TCA_KIND, b"").rstrip(b"\0").decode(),
        handle=handle,
        parent=parent,
        options=top.get(TCA_OPTIONS, b""),
        sent_bytes=basic[0],
        sent_packets=basic[1],
        qlen=queue[0],
        backlog=queue[1],
        drops=queue[2],
        application=statistics.get(TCA_STATS_APP, b""),
    )
