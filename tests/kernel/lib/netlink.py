# SPDX-License-Identifier: GPL-2.0
"""Netlink at the byte level: messages, attributes and errors, for all families.

A program such as tc takes as long to start in an emulated machine as sending a thousand packets;
and some messages it would reject itself.  Messages can be malformed; errors have the kernel's
message (extack).  See netlink(7).  The layout of messages is that of the lab's reader.
"""

from __future__ import annotations

import itertools
import socket
import struct
import sys
from collections.abc import Iterator

from fairlab.net import netlink
from fairlab.net.netlink import (
    ATTRIBUTE,
    HEADER,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)
from fairlab.net.netlink import NESTED as NLA_F_NESTED
from fairlab.net.netlink import pack_attribute as attribute

#: Of the lab, for other modules here.
__all__ = [
    "ATTRIBUTE",
    "HEADER",
    "NLA_F_NESTED",
    "NLMSG_DONE",
    "NLM_F_ACK",
    "NLM_F_DUMP",
    "NLM_F_REQUEST",
    "attribute",
]

NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLMSGERR_ATTR_MSG, NLMSGERR_ATTR_OFFS, NLMSGERR_ATTR_POLICY = 1, 2, 4
NL_POLICY_MIN_U, NL_POLICY_MAX_U = 4, 5
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=Q", value))


def nested(kind: int, content: bytes) -> bytes:
    return attribute(kind | NLA_F_NESTED, content)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Parse the attributes in DATA: (type, content)."""
    return netlink.attributes(data, 0)


class NetlinkError(OSError):
    """An error that the kernel returned: errno and extack message."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.message = message


class Netlink:
    """A socket of a PROTOCOL in the network namespace where it is created."""

    def __init__(self, protocol: int) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
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
