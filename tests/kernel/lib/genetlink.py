# SPDX-License-Identifier: GPL-2.0
"""Generic netlink at the byte level, and the family "slbn".

netlink.py has messages, attributes and errors of netlink. This module adds the header of generic
netlink, the controller (family numbers and groups), and the attributes of
include/uapi/fairpath/slbn_netlink.h. Nothing is checked before it is sent, so tests can send
invalid messages. See <linux/genetlink.h>.
"""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.lib.net import pending
from tests.kernel.lib.netlink import (
    HEADER,
    NLA_F_NESTED,
    NLM_F_ACK,
    NLM_F_DUMP,
    SOL_NETLINK,
    Netlink,
    attribute,
    attributes,
    u8,
    u32,
    u64,
)
from tests.kernel.lib.rtnetlink import nest
from tests.kernel.lib.slbn_wire import JOIN, Datagram, Packet, State

NETLINK_GENERIC, GENL_ID_CTRL, NETLINK_ADD_MEMBERSHIP = 16, 16, 1
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS = 1, 2, 7
CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 1, 2
GENL, VERSION = struct.Struct("=BBH"), 3

UAPI = Path(__file__).resolve().parents[3] / "include/uapi/fairpath/slbn_netlink.h"


def _enum_names(enum: str) -> list[str]:
    """The names in an enum of the header, in order."""
    body = re.search(rf"enum {enum} {{(.*?)}}", UAPI.read_text(), re.DOTALL)
    assert body
    return re.findall(r"(?:TCA_SLBN|SLBN_[AC])_(\w+),", body[1])


#: Numbers of attributes of links, of options, and of commands by name.
A = {name: number for number, name in enumerate(_enum_names("slbn_link_attribute"))}
OPTION = {name: number for number, name in enumerate(_enum_names("slbn_option_attribute"))}
STATE_PAD, STATE_FIRST = (
    _enum_names("slbn_state_attribute").index(name) for name in ("STATE_PAD", "STATE_CAPACITY")
)
C = {name: number for number, name in enumerate(_enum_names("slbn_command"))}
A_MAX, OPTION_MAX = max(A.values()), max(OPTION.values())

MS, SECOND = 10**6, 10**9
MEGA = 10**6


@dataclass(frozen=True)
class Config:
    """The configuration of a link as reported; rates in bit/s, times in ns."""

    rate: int = 0
    epoch: int = SECOND
    memory: int | None = None
    memory_time: int | None = SECOND
    control: int = 50
    headroom: int | None = 50
    headroom_auto: int = 0
    unassigned: int = 50
    commit: int = 1
    quiet: int = 0
    edge: int = 0
    #: Numbers of the keys.
    keys: tuple[int, ...] = ()
    threshold: int = 10

    @classmethod
    def read(cls, content: bytes) -> Config:
        raw = dict(attributes(content))
        found = {kind: int.from_bytes(value, sys.byteorder) for kind, value in raw.items()}
        return cls(
            rate=found[OPTION["RATE"]],
            epoch=found[OPTION["EPOCH"]],
            memory=found.get(OPTION["MEMORY"]),
            memory_time=found.get(OPTION["MEMORY_TIME"]),
            control=found[OPTION["CONTROL"]],
            headroom=found.get(OPTION["HEADROOM"]),
            headroom_auto=found[OPTION["HEADROOM_AUTO"]],
            unassigned=found[OPTION["UNASSIGNED"]],
            commit=found[OPTION["COMMIT"]],
            quiet=found[OPTION["QUIET"]],
            edge=found[OPTION["EDGE"]],
            keys=tuple(raw[OPTION["KEY_IDS"]]),
            threshold=found[OPTION["THRESHOLD"]],
        )


#: Encoders of attributes that are not u32.
WRITERS = {
    **dict.fromkeys(("rate", "epoch", "memory_time", "quiet"), u64),
    **dict.fromkeys(("edge", "commit", "key_id", "headroom_auto"), u8),
}


def given(**values: int | str | bytes) -> bytes:
    """Encode the attributes that select a link or a key, or options."""
    content = b""
    numbers = A if {"ifindex", "ifname", "key_id"} & values.keys() else OPTION
    for name, value in values.items():
        kind = numbers[name.upper()]
        if isinstance(value, str):
            content += attribute(kind, value.encode() + b"\0")
        elif isinstance(value, bytes):
            content += attribute(kind, value)
        else:
            content += WRITERS.get(name, u32)(kind, value)
    return content


def options(**values: int | str | bytes) -> bytes:
    """Encode TCA_OPTIONS of the qdisc."""
    return nest(given(**values))


def _read_state(content: bytes) -> State:
    """All fields, in order."""
    found = [(kind, value) for kind, value in attributes(content) if kind != STATE_PAD]
    assert [kind for kind, _ in found] == [STATE_FIRST + n for n in range(len(found))]
    return State.read(b"".join(value for _, value in found))


@dataclass(frozen=True)
class LinkMessage:
    """A link as the family reports it, or an event."""

    command: int
    index: int
    name: str
    handle: int
    #: Of the link in its namespace.
    number: int
    state: State
    raw: bytes

    @classmethod
    def read(cls, message: bytes) -> LinkMessage:
        command, version, _ = GENL.unpack_from(message)
        assert version == VERSION
        content = message[GENL.size :]
        found = dict(attributes(content))
        return cls(
            command=command,
            index=int.from_bytes(found[A["IFINDEX"]], sys.byteorder),
            name=found[A["IFNAME"]].rstrip(b"\0").decode(),
            handle=int.from_bytes(found[A["HANDLE"]], sys.byteorder),
            number=int.from_bytes(found[A["NUMBER"]], sys.byteorder),
            state=_read_state(found[A["STATE"]]),
            raw=content,
        )

    @property
    def config(self) -> Config:
        return Config.read(dict(attributes(self.raw))[A["OPTIONS"]])


class Genetlink(Netlink):
    """A socket of a family in the network namespace where it is made."""

    def __init__(self, family: str = "slbn") -> None:
        super().__init__(NETLINK_GENERIC)
        name = attribute(CTRL_ATTR_FAMILY_NAME, family.encode() + b"\0")
        body = GENL.pack(CTRL_CMD_GETFAMILY, 1, 0) + name
        (answer,) = self.ask(GENL_ID_CTRL, NLM_F_ACK, body)
        found = dict(attributes(answer[GENL.size :]))
        self.family = int.from_bytes(found[CTRL_ATTR_FAMILY_ID], sys.byteorder)
        listed = attributes(found.get(CTRL_ATTR_MCAST_GROUPS, b""))
        groups = [dict(attributes(group)) for _, group in listed]
        self.groups = {
            group[CTRL_ATTR_MCAST_GRP_NAME].rstrip(b"\0").decode(): int.from_bytes(
                group[CTRL_ATTR_MCAST_GRP_ID], sys.byteorder
            )
            for group in groups
        }

    def command(
        self, command: str | int, content: bytes = b"", flags: int = NLM_F_ACK
    ) -> list[bytes]:
        """Send a command with attributes; returns the replies."""
        number = C[command] if isinstance(command, str) else command
        return list(self.ask(self.family, flags, GENL.pack(number, VERSION, 0) + content))

    def get(self, content: bytes) -> LinkMessage:
        (answer,) = self.command("LINK_GET", content)
        return LinkMessage.read(answer)

    def dump_links(self, content: bytes = b"") -> list[LinkMessage]:
        answers = self.command("LINK_GET", content, flags=NLM_F_DUMP)
        return [LinkMessage.read(answer) for answer in answers]

    def set(self, where: bytes, options: bytes) -> None:
        content = where + attribute(A["OPTIONS"] | NLA_F_NESTED, options)
        assert self.command("LINK_SET", content) == []

    def reset(self, content: bytes) -> None:
        assert self.command("LINK_RESET", content) == []

    def add_key(self, content: bytes) -> None:
        assert self.command("KEY_ADD", content) == []

    def retire_key(self, content: bytes) -> None:
        assert self.command("KEY_RETIRE", content) == []

    def listen(self, group: str = "share") -> None:
        """Join a group of events; the socket can then only receive events."""
        self.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, self.groups[group])
        self.socket.setblocking(False)

    def events(self) -> list[LinkMessage]:
        """The events received since the last call."""
        found = []
        for data in pending(self.socket):
            length, kind, _, _, _ = HEADER.unpack_from(data)
            assert (length, kind) == (len(data), self.family)
            found.append(LinkMessage.read(data[HEADER.size :]))
        return found


def control_frame(session: int, kind: int = JOIN, seq: int = 0, source: str = "") -> bytes:
    """A frame with a downstream packet of a session without a demand limit; no checksum."""
    packet = Packet(type=kind, seq=seq, slots=2, id=session.to_bytes(16, "big"))
    return Datagram(packet, source=source, check=0).frame()
