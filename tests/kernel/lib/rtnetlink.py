# SPDX-License-Identifier: GPL-2.0
"""rtnetlink at the byte level: qdiscs, classes, filters and devices.

See rtnetlink(7), struct tcmsg, and include/uapi/fairpath/drr_fq.h.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from fairlab.net.netlink import (
    BASIC,
    QUEUE,
    RTM_GETQDISC,
    RTM_GETTCLASS,
    RTM_NEWQDISC,
    TCA_KIND,
    TCA_OPTIONS,
    TCA_STATS2,
    TCA_STATS_APP,
    TCA_STATS_BASIC,
    TCA_STATS_QUEUE,
    TCMSG,
)

from tests.kernel.lib.netlink import (
    NLA_F_NESTED,
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    Netlink,
    attribute,
    attributes,
    u32,
)

#: Of the lab, for other modules here.
__all__ = ["TCA_KIND", "TCA_OPTIONS", "TCMSG"]

RTM_DELLINK, RTM_GETLINK = 17, 18
IFLA_OPERSTATE, IF_OPER_UP = 16, 6
RTM_DELQDISC, RTM_NEWTFILTER, RTM_DELTFILTER = 37, 44, 45
TCA_MATCHALL_CLASSID = 1
TC_H_ROOT = 0xFFFFFFFF
ETH_P_ALL = 0x0003
IFINFOMSG = struct.Struct("=BBHiII")


def handle(text: str) -> int:
    """The number of a handle such as `10:3`; both parts are hexadecimal, as in tc."""
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def nest(content: bytes, flag: int = NLA_F_NESTED) -> bytes:
    """TCA_OPTIONS with these attributes."""
    return attribute(TCA_OPTIONS | flag, content)


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


class Rtnetlink(Netlink):
    """An rtnetlink socket in the network namespace where it is created."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE)

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
