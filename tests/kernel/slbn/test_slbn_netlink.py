# SPDX-License-Identifier: GPL-2.0
"""Netlink interface of sch_slbn at the byte level: rtnetlink and the family "slbn".

Tests send messages that tc and slbnctl would not: the kernel rejects them with a message and leaves
configuration and state of the link unchanged. Reading needs no privilege; writing needs
CAP_NET_ADMIN in the link's namespace, and other namespaces do not see the link. The number of share
events is compared with the link's counter and with the changes that caused them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.drr_fq import Link, batch, link
from tests.kernel.lib.genetlink import (
    A_MAX,
    GENL,
    MEGA,
    MS,
    OPTION,
    OPTION_MAX,
    SECOND,
    VERSION,
    A,
    C,
    Config,
    Genetlink,
    LinkMessage,
    control_frame,
    given,
    options,
)
from tests.kernel.lib.iproute import CLONE_NEWNET
from tests.kernel.lib.net import unnamed_namespace, wait_for
from tests.kernel.lib.netlink import (
    ATTRIBUTE,
    HEADER,
    NLA_F_NESTED,
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NetlinkError,
    attribute,
    u32,
    u64,
)
from tests.kernel.lib.rtnetlink import (
    RTM_DELQDISC,
    TC_H_ROOT,
    TCA_KIND,
    TCA_OPTIONS,
    Rtnetlink,
    handle,
    nest,
)
from tests.kernel.lib.slbn_wire import JOIN, LEAVE, State

KIND = attribute(TCA_KIND, b"slbn\0")
HANDLE = handle("10:")
RATE = 100 * MEGA
KEY = bytes(range(16))
NLM_F_DUMP_INTR = 0x10
NOBODY, CLONE_NEWUSER = 65534, 0x10000000
libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Slbn:
    """A link a0 with slbn 10: and sessions, and sockets of both interfaces."""

    on: Link
    family: Genetlink

    @property
    def link(self) -> LinkMessage:
        return self.family.get(given(ifindex=self.on.index))

    def rtnetlink(self, content: bytes, flags: int = 0) -> None:
        kind = KIND + content
        self.on.rtnetlink.change_qdisc(self.on.index, HANDLE, TC_H_ROOT, kind, flags)

    def add(self, content: bytes) -> None:
        self.rtnetlink(content, NLM_F_CREATE | NLM_F_EXCL)

    def delete(self) -> None:
        self.on.rtnetlink.change_qdisc(self.on.index, HANDLE, TC_H_ROOT, b"", kind=RTM_DELQDISC)

    def change(self, content: bytes) -> None:
        """Change the configuration over rtnetlink."""
        self.rtnetlink(nest(content))

    def set(self, content: bytes) -> None:
        """Change the configuration over the family."""
        self.family.set(given(ifindex=self.on.index), content)

    @property
    def settings(self) -> tuple[object, ...]:
        """What a rejected message must not change, without delayed events and the time left."""
        link = self.link
        return link.handle, link.config, replace(link.state, events=0, quiet=0)

    def set_of(self, name: str, content: bytes) -> None:
        self.family.set(given(ifname=name), content)

    def join(self, *sessions: int) -> None:
        for session in sessions:
            assert self.on.inject(control_frame(session))

    def leave(self, *sessions: int) -> None:
        for session in sessions:
            assert self.on.inject(control_frame(session, LEAVE, seq=1))


def sessions(state: State) -> int:
    return state.N + state.previous_N


@pytest.fixture(scope="module")
def slbn() -> Iterator[Slbn]:
    """A link with two sessions, without epochs, so that only packets change its state."""
    with link() as on:
        made = Slbn(on, Genetlink())
        made.add(options(rate=RATE, headroom=0, epoch=0, key=b""))
        made.join(1, 2)
        assert sessions(made.link.state) == 2
        yield made
        made.family.close()


#: Invalid configurations, and a part of the error message.
INVALID: dict[str, tuple[bytes, str]] = {
    "rate too small": (given(rate=999), "rate must be 1 kbit/s to 1 Tbit/s, or 0"),
    "rate too large": (given(rate=10**12 + 1), "out of range: 0 to 1000000000000"),
    "rate -1": (given(rate=2**64 - 1), "out of range: 0 to 1000000000000"),
    "epoch too short": (given(epoch=10 * MS - 1), "epoch must be 10 ms to 1 h, or 0"),
    "epoch too long": (given(epoch=3600 * SECOND + 1), "out of range: 0 to 3600000000000"),
    "memory too large": (given(memory=4194305), "out of range: 0 to 4194304"),
    "memory_time too long": (given(memory_time=60 * SECOND + 1), "out of range: 0 to 60000000000"),
    "memory as entries and time": (
        given(memory=7, memory_time=SECOND),
        "memory must be entries or a time, not both",
    ),
    "control 0": (given(control=0), "out of range: 1 to 1000"),
    "control too large": (given(control=1001), "out of range: 1 to 1000"),
    "headroom too large": (given(headroom=501), "out of range: 0 to 500"),
    "headroom -1": (given(headroom=2**32 - 1), "out of range: 0 to 500"),
    "headroom auto and a part": (
        given(headroom_auto=1, headroom=50),
        "headroom must be auto or a part, not both",
    ),
    "headroom_auto 2": (given(headroom_auto=2), "out of range: 0 to 1"),
    "unassigned too large": (given(unassigned=501), "out of range: 0 to 500"),
    "commit 2": (given(commit=2), "out of range: 0 to 1"),
    "commit 255": (given(commit=255), "out of range: 0 to 1"),
    "edge 2": (given(edge=2), "out of range: 0 to 1"),
    "edge 255": (given(edge=255), "out of range: 0 to 1"),
    "key of 15": (given(key=KEY[1:]), "key must be 16 octets, or 0"),
    "key of 1": (given(key=b"k"), "key must be 16 octets, or 0"),
    "key of 17": (given(key=KEY + b"k"), ""),
    "key_id without a key": (attribute(OPTION["KEY_ID"], b"\1"), "key_id needs a key"),
    "key_id of no key": (attribute(OPTION["KEY_ID"], b"\1") + given(key=b""), "key_id needs a key"),
    "key_id of two octets": (given(key=KEY) + attribute(OPTION["KEY_ID"], b"\1\1"), ""),
    "threshold 0": (given(threshold=0), "out of range: 1 to 1000"),
    "threshold too large": (given(threshold=1001), "out of range: 1 to 1000"),
    "last attribute of many": (
        given(rate=5 * MEGA, epoch=SECOND, memory=9, control=7, edge=1, key=KEY, threshold=1001),
        "out of range: 1 to 1000",
    ),
    "second of two invalid": (given(rate=5 * MEGA) + given(rate=5), "rate must be"),
    "read-only: key_ids": (attribute(OPTION["KEY_IDS"], b"\1"), ""),
    "attribute 0": (u32(0, 5), ""),
    "padding": (attribute(OPTION["PAD"], b""), ""),
    "unknown attribute": (u32(OPTION_MAX + 1, 5), ""),
    "unknown attribute among others": (given(rate=5 * MEGA) + u32(999, 5), ""),
    "attribute with NLA_F_NESTED": (u64(OPTION["RATE"] | NLA_F_NESTED, 5 * MEGA), ""),
    "attribute longer than the message": (
        b"\x40\0" + struct.pack("=HQ", OPTION["RATE"], 5 * MEGA),
        "",
    ),
    "attribute shorter than its header": (
        b"\x03\0" + struct.pack("=HQ", OPTION["RATE"], 5 * MEGA),
        "",
    ),
    "octets after the last": (given(rate=5 * MEGA) + b"\0\0\0", ""),
    "nested attribute": (attribute(OPTION["RATE"], given(rate=5 * MEGA)), ""),
}
#: Each number too short, too long and empty.
INVALID |= {
    f"{name} of {length} octets": (attribute(OPTION[name.upper()], bytes([1] * length)), "")
    for name, size in {
        "rate": 8,
        "epoch": 8,
        "memory": 4,
        "memory_time": 8,
        "control": 4,
        "headroom": 4,
        "headroom_auto": 1,
        "unassigned": 4,
        "commit": 1,
        "quiet": 8,
        "edge": 1,
        "threshold": 4,
    }.items()
    for length in (0, size - 1, size + 1, 2 * size)
    if length != size
}

INTERFACES: dict[str, Callable[[Slbn, bytes], None]] = {"qdisc": Slbn.change, "family": Slbn.set}


def unchanged(slbn: Slbn, what: Callable[..., object], *arguments: object) -> NetlinkError:
    """Check that WHAT fails with a message and changes nothing; returns the error."""
    before = slbn.settings
    with pytest.raises(NetlinkError) as caught:
        what(*arguments)
    assert slbn.settings == before
    assert caught.value.message
    return caught.value


@pytest.mark.parametrize("interface", INTERFACES)
def test_invalid_configuration_changes_nothing(slbn: Slbn, interface: str) -> None:
    for name, (content, text) in INVALID.items():
        refused = unchanged(slbn, INTERFACES[interface], slbn, content)
        assert refused.errno in (errno.EINVAL, errno.ERANGE), name
        assert text in refused.message, name
        if text and "out of range" not in text:
            assert refused.message.startswith("sch_slbn: "), name


def test_invalid_configuration_creates_no_link() -> None:
    with link() as on:
        slbn = Slbn(on, Genetlink())
        refused = {name: nest(content) for name, (content, _) in INVALID.items()}
        refused["not marked as a nest"] = attribute(TCA_OPTIONS, given(rate=RATE))
        for name, content in refused.items():
            with pytest.raises(NetlinkError) as caught:
                slbn.add(content)
            assert caught.value.message, name
            assert "10:" not in on.qdiscs() and slbn.family.dump_links() == [], name
        slbn.family.close()


@pytest.mark.stock
def test_valid_configurations_are_applied(slbn: Slbn) -> None:
    default = Config(rate=RATE, headroom=0, epoch=0)
    extremes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"rate": 1000, "epoch": 10 * MS, "control": 1, "threshold": 1}, {}),
        ({"rate": 10**12, "epoch": 3600 * SECOND, "control": 1000, "threshold": 1000}, {}),
        ({"memory": 0}, {"memory_time": None}),
        ({"memory": 70000}, {"memory_time": None}),
        ({"memory_time": 0}, {"memory": 0, "memory_time": None}),
        ({"memory_time": 60 * SECOND}, {"memory": None}),
        ({"headroom": 500}, {}),
        ({"headroom_auto": 1, "unassigned": 500}, {"headroom": None}),
        ({"headroom_auto": 0, "headroom": 7, "unassigned": 0}, {}),
        # Protocol 1, and the paper's own form; with commit the link starts anew.
        ({"commit": 0, "headroom": 0}, {}),
        ({"commit": 0, "headroom": 0, "memory": 0}, {"memory_time": None}),
        ({"quiet": 10 * MS}, {}),
        ({"quiet": 3600 * SECOND}, {}),
        ({"edge": 1}, {}),
        ({}, {}),
    ]
    restore = given(rate=RATE, headroom=0, epoch=0, memory_time=SECOND)
    restore += given(control=50, commit=1, quiet=0, edge=0, threshold=10, unassigned=50)
    for configure in INTERFACES.values():
        for values, besides in extremes:
            configure(slbn, given(**values))
            assert slbn.link.config == replace(default, **(values | besides))
            shown = slbn.on.shown("10:")
            assert Config.read(shown.options) == slbn.link.config
            configure(slbn, restore)
            assert slbn.link.config == default
        # Of a repeated attribute the last counts.
        configure(slbn, given(control=7) + given(control=50))
        assert slbn.link.config == default
    slbn.join(1, 2)
    assert sessions(slbn.link.state) == 2


@pytest.mark.stock
def test_memory_is_bounded_by_rate() -> None:
    """32 bytes an entry: 1 MiB up to 10 Gbit/s, 8 MiB at most, and more only as entries."""
    sizes = {
        1000: 64,
        100 * MEGA: 4096,
        10**9: 32768,
        10**10: 32768,
        25 * 10**9: 131072,
        10**11: 262144,
        10**12: 262144,
    }
    with link() as on:
        slbn = Slbn(on, Genetlink())
        slbn.add(options(rate=RATE))
        for rate, entries in sizes.items():
            slbn.set(given(rate=rate))
            state = slbn.link.state
            assert (state.memory_entries, state.memory_bytes) == (entries, 32 * entries), rate
        slbn.set(given(control=1000, memory_time=60 * SECOND))
        assert slbn.link.state.memory_entries == 262144
        slbn.set(given(rate=RATE, memory=262145))
        assert slbn.link.state.memory_entries == 524288
        slbn.family.close()


def test_fair_shares_leave_headroom_free(slbn: Slbn) -> None:
    for headroom, plan in ((1, 999 * RATE // 1000), (500, RATE // 2), (0, RATE)):
        slbn.set(given(headroom=headroom))
        state = slbn.link.state
        assert (state.capacity, state.plan, state.share) == (RATE, plan, plan // 2)
    slbn.set(given(rate=1001, headroom=333))
    assert slbn.link.state.plan == 1001 - 333
    slbn.set(given(rate=RATE, headroom=0))


def test_automatic_headroom_is_turned_on_and_off(slbn: Slbn) -> None:
    """It keeps a headroom that was configured, which ends it."""
    rest, free = 5 * RATE // 1000, 30 * RATE // 1000
    slbn.set(given(headroom=70))
    slbn.set(given(headroom_auto=1, unassigned=30))
    assert slbn.link.state.plan == RATE - rest - free
    # What unassigned packets take is not measured.
    slbn.set(given(unassigned=0))
    assert slbn.link.state.plan == RATE - rest
    slbn.set(given(rate=RATE // 2))
    assert slbn.link.state.plan == (RATE - rest) // 2
    # Never more than half.
    slbn.set(given(rate=RATE, unassigned=500))
    assert slbn.link.state.plan == RATE // 2
    slbn.set(given(headroom_auto=0))
    assert (slbn.link.config.headroom, slbn.link.state.plan) == (70, RATE - 70 * RATE // 1000)
    slbn.set(given(headroom_auto=1))
    slbn.set(given(headroom=0, unassigned=50))
    assert (slbn.link.config.headroom_auto, slbn.link.state.plan) == (0, RATE)


def test_link_is_quiet_until_leases_have_ended() -> None:
    """A new link, a reset one, one where commit is turned on, and one with a shorter epoch."""
    minute = 60 * SECOND
    with link() as on:
        slbn = Slbn(on, Genetlink())

        def is_quiet(least: int, most: int) -> bool:
            return least - 10 * SECOND < slbn.link.state.quiet <= most

        slbn.add(options(rate=RATE, epoch=minute))
        assert is_quiet(minute, minute)
        # Leases may be longer than the epoch of this link: of the default epoch, or as configured.
        for quiet, least in ((0, SECOND), (2 * minute, 2 * minute)):
            slbn.delete()
            slbn.add(options(rate=RATE, epoch=10 * MS, quiet=quiet))
            assert is_quiet(least, least)
        slbn.family.reset(given(ifname="a0"))
        assert is_quiet(2 * minute, 2 * minute)
        # A longer epoch grants no lease that the ledgers do not hold.
        slbn.delete()
        slbn.add(options(rate=RATE, epoch=0))
        assert slbn.link.state.quiet == 0
        slbn.join(1, 2)
        for changes in (given(epoch=SECOND), given(rate=2 * RATE), given(headroom=9), given()):
            slbn.set(changes)
            assert (slbn.link.state.quiet, sessions(slbn.link.state)) == (0, 2)
        # Rates from epoch 0 have no lease: a short epoch waits for the sessions' control packets,
        # as does a link that is reset, or where commit is turned on.
        slbn.set(given(epoch=0))
        slbn.family.reset(given(ifname="a0"))
        assert 0 < slbn.link.state.quiet <= SECOND
        slbn.set(given(commit=0))
        slbn.set(given(commit=1))
        assert 0 < slbn.link.state.quiet <= SECOND
        slbn.set(given(epoch=10 * MS, quiet=minute))
        assert is_quiet(minute, minute)
        # Leases of ten minutes have been granted.
        slbn.set(given(epoch=10 * minute, quiet=0))
        assert is_quiet(minute, minute)
        slbn.set(given(epoch=SECOND))
        assert is_quiet(10 * minute, 10 * minute)
        slbn.set(given(epoch=10 * minute))
        assert is_quiet(10 * minute, 10 * minute)
        slbn.family.reset(given(ifname="a0"))
        assert is_quiet(10 * minute, 10 * minute)
        # With commit off all ProbeAcks are granted; turning it on clears the ledgers.
        slbn.join(1, 2)
        before = slbn.link.state
        slbn.set(given(commit=0))
        assert slbn.link.state == replace(before, quiet=0)
        slbn.set(given(commit=1, epoch=0))
        now = slbn.link.state
        assert (sessions(now), now.tag != before.tag) == (0, True)
        assert is_quiet(10 * minute, 10 * minute)
        # It was on already.
        slbn.join(1, 2)
        slbn.set(given(commit=1))
        assert sessions(slbn.link.state) == 2
        slbn.family.close()


def test_key_is_never_reported(slbn: Slbn) -> None:
    for configure in INTERFACES.values():
        configure(slbn, given(key=KEY))
        link = slbn.link
        (dumped,) = slbn.family.dump_links()
        shown = slbn.on.shown("10:")
        assert link.config.keys == dumped.config.keys == Config.read(shown.options).keys == (0,)
        for content in (link.raw, dumped.raw, shown.options, shown.application):
            assert KEY not in content and KEY[:8] not in content and KEY[:8][::-1] not in content
        configure(slbn, given(key=b""))
        assert slbn.link.config.keys == ()


#: Requests that name no link, and their errors, for any command.
BAD_NAMES: dict[str, tuple[bytes, int]] = {
    "no device": (b"", errno.EINVAL),
    "ifindex unknown": (given(ifindex=999), errno.ENODEV),
    "ifindex 0": (given(ifindex=0), errno.ENODEV),
    "ifindex -1": (given(ifindex=0xFFFFFFFF), errno.ENODEV),
    "ifname unknown": (given(ifname="nope"), errno.ENODEV),
    "ifname empty": (given(ifname=""), errno.ENODEV),
    "a device without slbn": (given(ifname="b0"), errno.ENOENT),
    "ifindex of 2 octets": (attribute(A["IFINDEX"], b"\1\0"), errno.EINVAL),
    "ifindex of 8 octets": (attribute(A["IFINDEX"], bytes(8)), errno.EINVAL),
    "ifname without NUL": (attribute(A["IFNAME"], b"a" * 16), errno.EINVAL),
    "ifname too long": (given(ifname="a" * 16), errno.ERANGE),
}


@pytest.mark.parametrize("command", ["LINK_GET", "LINK_SET", "LINK_RESET", "KEY_ADD", "KEY_RETIRE"])
def test_request_without_link_fails(slbn: Slbn, command: str) -> None:
    for name, (content, number) in BAD_NAMES.items():
        refused = unchanged(slbn, slbn.family.command, command, content)
        assert refused.errno in (number, errno.EINVAL) and refused.errno, name
        if number in (errno.ENODEV, errno.ENOENT) and "empty" not in name:
            assert refused.errno == number, name
    by_name = slbn.family.get(given(ifname="a0"))
    assert by_name == slbn.link


@pytest.mark.parametrize("command", ["LINK_GET", "LINK_RESET"])
def test_get_and_reset_reject_parameters(slbn: Slbn, command: str) -> None:
    where = given(ifindex=slbn.on.index)
    nested = attribute(A["OPTIONS"] | NLA_F_NESTED, given(rate=RATE))
    key = attribute(A["KEY"], KEY)
    for content in (nested, key, u32(A_MAX + 1, 1), b"\0\0\0"):
        unchanged(slbn, slbn.family.command, command, where + content)


def test_unknown_commands_fail(slbn: Slbn) -> None:
    where = given(ifindex=slbn.on.index)
    before = slbn.settings
    for command in (0, C["SHARE_EVENT"], max(C.values()) + 1, 255):
        for flags in (NLM_F_ACK, NLM_F_ACK | NLM_F_DUMP):
            with pytest.raises(NetlinkError) as caught:
                slbn.family.command(command, where, flags)
            assert caught.value.errno == errno.EOPNOTSUPP
    for change in ("LINK_SET", "LINK_RESET", "KEY_ADD", "KEY_RETIRE"):
        with pytest.raises(NetlinkError) as caught:
            slbn.family.command(change, where, NLM_F_ACK | NLM_F_DUMP)
        assert caught.value.errno == errno.EOPNOTSUPP
    # Too short for the generic netlink header.
    with pytest.raises(NetlinkError) as caught:
        list(slbn.family.ask(slbn.family.family, NLM_F_ACK, b"\1"))
    assert caught.value.errno == errno.EINVAL
    assert slbn.settings == before


def test_options_must_be_a_nest(slbn: Slbn) -> None:
    where = given(ifindex=slbn.on.index)
    content = given(rate=2 * RATE)
    for wrong in (b"", content, attribute(A["OPTIONS"], content), u32(A["HANDLE"], HANDLE)):
        unchanged(slbn, slbn.family.command, "LINK_SET", where + wrong)


def test_dump_honours_its_filter(slbn: Slbn) -> None:
    (link,) = slbn.family.dump_links(given(ifindex=slbn.on.index))
    assert link.name == "a0"
    assert slbn.family.dump_links(given(ifname="a0")) == [link]
    assert slbn.family.dump_links(given(ifname="b0")) == []
    for content in (given(ifindex=999), given(ifname="nope"), given(rate=RATE)):
        refused = unchanged(slbn, slbn.family.dump_links, content)
        assert refused.errno in (errno.ENODEV, errno.EINVAL)


def test_reset_clears_sessions(slbn: Slbn) -> None:
    before = slbn.link.state
    assert sessions(before) == 2
    slbn.family.reset(given(ifname="a0"))
    now = slbn.link.state
    assert (sessions(now), now.share, now.BF) == (0, RATE, 0)
    assert now.tag != before.tag
    # Counters are kept.
    assert now.joins == before.joins >= 2
    slbn.join(1, 2)
    assert sessions(slbn.link.state) == 2


# --- random messages


def random_attributes(rng: random.Random) -> bytes:
    """Random attributes, most of them valid."""
    content = b""
    values = {
        "rate": (1000, MEGA, RATE, 10**12, 0, 999, 2**63),
        "epoch": (0, 3000 * SECOND, 3600 * SECOND, 1, 2**64 - 1),
        "memory": (0, 1, 63, 5000, 2**32 - 1),
        "memory_time": (0, MS, SECOND, 61 * SECOND),
        "control": (1, 50, 1000, 0, 1001),
        "headroom": (0, 50, 500, 501, 2**32 - 1),
        "headroom_auto": (0, 1, 1, 2),
        "unassigned": (0, 50, 500, 501),
        "commit": (0, 1, 1, 2),
        "quiet": (0, SECOND, 10 * MS - 1),
        "edge": (0, 1, 2),
        "threshold": (1, 10, 1000, 0),
    }
    for _ in range(rng.randrange(5)):
        sort = rng.randrange(24)
        if sort == 0:
            content += rng.randbytes(rng.randrange(24))
        elif sort == 1:
            content += attribute(rng.randrange(OPTION_MAX + 3), rng.randbytes(rng.randrange(20)))
        elif sort == 2:
            content += ATTRIBUTE.pack(rng.randrange(40), rng.randrange(OPTION_MAX + 2)) + bytes(8)
        elif sort == 3:
            content += given(key=rng.choice((b"", KEY, KEY[1:])))
        elif sort == 4:
            content += given(key_id=rng.randrange(3))
        else:
            name = rng.choice(sorted(values))
            choice = values[name]
            # The first three of each are valid.
            content += given(**{name: choice[min(rng.randrange(8), len(choice) - 1) % 3]})
    if rng.randrange(15) == 0:
        content = content[: rng.randrange(len(content) + 1)]
    if rng.randrange(15) == 0 and content:
        at = rng.randrange(len(content))
        content = content[:at] + rng.randbytes(1) + content[at + 1 :]
    return content


#: Expected errors; a random attribute may name a device.
ERRORS = (errno.EINVAL, errno.ERANGE, errno.EOPNOTSUPP, errno.ENODEV, errno.ENOENT)
KEY_ERRORS = (errno.EEXIST, errno.ENOSPC, errno.EBUSY)


@pytest.mark.parametrize("interface", ["qdisc", "replace", "family", "any command"])
def test_random_messages_are_applied_or_rejected(slbn: Slbn, interface: str) -> None:
    """A message is applied completely, or fails with a message and changes nothing."""
    rng = random.Random(interface)
    accepted = refused = 0

    def send(content: bytes) -> None:
        if interface == "qdisc":
            slbn.change(content)
        elif interface == "replace":
            slbn.rtnetlink(nest(content), NLM_F_CREATE | NLM_F_REPLACE)
        elif interface == "family":
            slbn.set(content)
        else:
            where = rng.choice((given(ifindex=slbn.on.index), given(ifname="a0"), b""))
            keys = (C["KEY_ADD"], C["KEY_RETIRE"])
            command = rng.choice((C["LINK_GET"], C["LINK_SET"], *keys, rng.randrange(256)))
            if command != C["LINK_RESET"]:
                nested = attribute(A["OPTIONS"] | NLA_F_NESTED, content)
                content = rng.choice((content, nested, nested))
                slbn.family.command(command, where + content)

    for _ in range(1200):
        content = random_attributes(rng)
        before = slbn.settings
        try:
            send(content)
            accepted += 1
        except NetlinkError as error:
            refused += 1
            assert error.errno in ERRORS + KEY_ERRORS
            assert error.message or error.errno == errno.EOPNOTSUPP, content
            assert slbn.settings == before, content
        now = slbn.link
        config = now.config
        assert config.rate == 0 or 1000 <= config.rate <= 10**12
        assert config.epoch == 0 or 10 * MS <= config.epoch <= 3600 * SECOND
        assert 1 <= config.control <= 1000 and 1 <= config.threshold <= 1000
        assert (config.memory is None) != (config.memory_time is None)
        assert config.edge <= 1 and len(config.keys) <= 2
        assert (config.headroom is None) == bool(config.headroom_auto)
        assert (config.headroom or 0) <= 500 and config.unassigned <= 500 and config.commit <= 1
        assert config.quiet == 0 or 10 * MS <= config.quiet <= 3600 * SECOND
        assert now.state.capacity == (config.rate or now.state.capacity)
    slbn.set(given(rate=RATE, headroom=0, epoch=0, memory_time=SECOND, control=50))
    slbn.set(given(commit=1, quiet=0, edge=0, key=b"", threshold=10, unassigned=50))
    slbn.family.reset(given(ifname="a0"))
    slbn.join(1, 2)
    assert sessions(slbn.link.state) == 2
    assert accepted > 40 and refused > 100


# --- permissions


def in_child(what: Callable[[], object]) -> str:
    """Run WHAT in a child process; returns its result or exception as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = str(what())
        except BaseException as error:
            text = f"{error!r} after {error.__context__!r}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def own_user_namespace() -> None:
    """Become root of a new user namespace."""
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text("0 0 1")
    Path("/proc/self/gid_map").write_text("0 0 1")


@pytest.mark.parametrize("less", [become_nobody, own_user_namespace])
def test_reading_needs_no_privilege_and_writing_does(slbn: Slbn, less: Callable[[], None]) -> None:
    where = given(ifindex=slbn.on.index)

    def read() -> str:
        less()
        family = Genetlink()
        family.get(where)
        names = [each.name for each in family.dump_links()]
        shown = [each.kind for each in Rtnetlink().qdiscs(slbn.on.index)]
        family.listen()
        return f"{names} {shown.count('slbn')}"

    def write(how: Callable[[Slbn], object]) -> Callable[[], str]:
        def attempt() -> str:
            less()
            mine = replace(slbn, family=Genetlink(), on=replace(slbn.on, rtnetlink=Rtnetlink()))
            try:
                return f"done: {how(mine)}"
            except NetlinkError as refused:
                return errno.errorcode[refused.errno]

        return attempt

    before = slbn.settings
    assert in_child(read) == "['a0'] 1"
    content = given(rate=7 * MEGA)
    writes: list[Callable[[Slbn], object]] = [
        lambda mine: mine.set(content),
        lambda mine: mine.change(content),
        lambda mine: mine.family.reset(where),
        lambda mine: mine.family.add_key(where + given(key_id=1, key=KEY)),
        lambda mine: mine.family.retire_key(where + given(key_id=1)),
        lambda mine: mine.delete(),
    ]
    for how in writes:
        assert in_child(write(how)) == "EPERM"
    assert slbn.settings == before


def test_root_of_user_namespace_configures_its_own_links() -> None:
    def work() -> str:
        own_user_namespace()
        # The namespaces end with the process.
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        batch("ip", "link add d0 type dummy\n")
        on = Link(Rtnetlink(), socket.if_nametoindex("d0"), socket.socket(), burst=0)
        mine = Slbn(on, Genetlink())
        mine.add(options(rate=RATE))
        mine.set(given(rate=7 * MEGA, key=KEY))
        mine.change(given(epoch=0))
        mine.family.reset(given(ifname="d0"))
        mine.set(given(memory=32768))
        for configure in INTERFACES.values():
            with pytest.raises(NetlinkError, match="CAP_NET_ADMIN in the initial") as refused:
                configure(mine, given(rate=5 * MEGA, memory=32769))
            assert refused.value.errno == errno.EPERM
        # A time does not ask for more, even at the largest rate.
        mine.set(given(rate=10**12, memory_time=SECOND))
        assert mine.link.state.memory_entries == 32768
        mine.set(given(rate=7 * MEGA))
        return f"{mine.link.config.rate} {mine.link.config.epoch} {mine.link.config.keys}"

    assert in_child(work) == f"{7 * MEGA} 0 (0,)"


def test_links_of_other_namespaces_are_invisible(slbn: Slbn) -> None:
    with link() as on:
        other = Slbn(on, Genetlink())
        where = given(ifindex=on.index)
        # Another device with the same index and name.
        assert on.index == slbn.on.index
        assert other.family.dump_links() == []
        before = slbn.settings
        for command in ("LINK_GET", "LINK_SET", "LINK_RESET"):
            with pytest.raises(NetlinkError) as caught:
                other.family.command(command, where)
            assert caught.value.errno == errno.ENOENT
        other.add(options(rate=5 * MEGA))
        other.set(given(control=77))
        other.family.reset(where)
        assert [each.config.rate for each in other.family.dump_links()] == [5 * MEGA]
        assert [each.config.rate for each in slbn.family.dump_links()] == [RATE]
        assert slbn.settings == before
        other.family.close()


# --- many links


@pytest.fixture(scope="module")
def many() -> Iterator[dict[str, int]]:
    """The indexes of many links by name; their devices report no speed."""
    with unnamed_namespace():
        names = [f"d{n}" for n in range(300)]
        batch("ip", "".join(f"link add {name} type dummy\n" for name in names))
        found = {name: socket.if_nametoindex(name) for name in names}
        rtnetlink = Rtnetlink()
        flags = NLM_F_CREATE | NLM_F_EXCL
        for name, index in found.items():
            with pytest.raises(NetlinkError) as caught:
                rtnetlink.change_qdisc(index, HANDLE, TC_H_ROOT, KIND, flags)
            assert "set a rate" in caught.value.message
            edge = int(name[1:]) % 2
            content = KIND + options(rate=1000 + index, headroom=0, epoch=0, memory=0, edge=edge)
            rtnetlink.change_qdisc(index, HANDLE, TC_H_ROOT, content, flags)
        yield found
        rtnetlink.close()


@pytest.mark.stock
def test_dump_has_all_links(many: dict[str, int]) -> None:
    family = Genetlink()
    links = family.dump_links()
    # More than fits in one message.
    assert sum(len(each.raw) for each in links) > 1 << 16
    assert {each.name: each.index for each in links} == many
    assert len(links) == len(many)
    for each in links:
        assert each == family.get(given(ifindex=each.index))
        expected = Config(rate=1000 + each.index, headroom=0, epoch=0, memory=0, memory_time=None)
        assert each.config == replace(expected, edge=int(each.name[1:]) % 2)
        assert (each.state.capacity, each.state.share) == (1000 + each.index, 1000 + each.index)
    family.close()


def test_dump_reports_concurrent_changes(many: dict[str, int]) -> None:
    family, rtnetlink = Genetlink(), Rtnetlink()
    body = GENL.pack(C["LINK_GET"], VERSION, 0)

    def dump_flags(change: Callable[[], None]) -> int:
        """The flags of all replies of a dump; CHANGE runs when the first has been created."""
        flags = NLM_F_REQUEST | NLM_F_DUMP
        size = HEADER.size + len(body)
        family.socket.send(HEADER.pack(size, family.family, flags, 99, 0) + body)
        change()
        found = kind = 0
        while kind != NLMSG_DONE:
            data = family.socket.recv(1 << 16)
            while data:
                length, kind, flags, _, _ = HEADER.unpack_from(data)
                found |= flags
                data = data[(length + 3) & ~3 :]
        return found

    def remove() -> None:
        index = many.pop("d0")
        rtnetlink.change_qdisc(index, HANDLE, TC_H_ROOT, b"", kind=RTM_DELQDISC)

    assert not dump_flags(lambda: None) & NLM_F_DUMP_INTR
    assert dump_flags(remove) & NLM_F_DUMP_INTR
    assert {each.name for each in family.dump_links()} == set(many)
    family.close()
    rtnetlink.close()


# --- events


@pytest.fixture
def listened() -> Iterator[tuple[Slbn, Genetlink]]:
    """A new link, and a socket that receives its events."""
    with link() as on:
        made = Slbn(on, Genetlink())
        listener = Genetlink()
        listener.listen()
        made.add(options(rate=RATE, headroom=0, epoch=0, control=1000))
        yield made, listener
        made.family.close()
        listener.close()


def await_event(listener: Genetlink) -> LinkMessage:
    found: list[LinkMessage] = []

    def received() -> bool:
        found.extend(listener.events())
        return bool(found)

    wait_for(received)
    (event,) = found
    return event


def test_event_follows_change_of_share(listened: tuple[Slbn, Genetlink]) -> None:
    slbn, listener = listened
    seen = 0

    def moves_to(share: int, what: Callable[[], None]) -> None:
        nonlocal seen
        seen += 1
        what()
        event = await_event(listener)
        assert (event.command, event.name, event.index) == (C["SHARE_EVENT"], "a0", slbn.on.index)
        assert (event.state.share, event.state.events) == (share, seen)
        assert event.handle == HANDLE
        # A quiet time passes meanwhile.
        assert replace(slbn.link.state, quiet=0) == replace(event.state, quiet=0)

    slbn.join(1)
    moves_to(RATE // 2, lambda: slbn.join(2))
    moves_to(RATE // 5, lambda: slbn.join(3, 4, 5))
    moves_to(RATE // 2, lambda: slbn.leave(3, 4, 5))
    moves_to(RATE, lambda: slbn.set(given(rate=2 * RATE)))
    moves_to(RATE // 4, lambda: slbn.change(given(rate=RATE // 2)))
    moves_to(RATE // 2, lambda: slbn.family.reset(given(ifname="a0")))
    # Without further packets the sessions disappear after two epochs.
    moves_to(RATE // 4, lambda: slbn.join(6, 7))
    moves_to(RATE // 2, lambda: slbn.set(given(epoch=100 * MS)))


def test_events_of_links() -> None:
    """Added, changed over either interface, reset, renamed, removed; refused requests send none."""
    with link() as on:
        slbn, listener = Slbn(on, Genetlink()), Genetlink()
        listener.listen("link")

        def seen() -> list[tuple[str, str, int]]:
            names = {number: name for name, number in C.items()}
            return [(names[e.command], e.name, e.config.rate) for e in listener.events()]

        slbn.add(options(rate=RATE))
        assert seen() == [("LINK_ADD_NTF", "a0", RATE)]
        slbn.set(given(rate=2 * RATE))
        slbn.change(given(rate=3 * RATE))
        slbn.family.reset(given(ifname="a0"))
        slbn.family.add_key(given(ifname="a0", key_id=1, key=KEY))
        # What was set before is no change.
        slbn.set(given(rate=3 * RATE))
        slbn.change(given(rate=3 * RATE))
        with pytest.raises(NetlinkError):
            slbn.set(given(rate=5))
        rates = [2 * RATE, 3 * RATE, 3 * RATE, 3 * RATE]
        assert seen() == [("LINK_CHANGE_NTF", "a0", rate) for rate in rates]
        batch("ip", "link set a0 down\nlink set a0 name c0\nlink set c0 up\n")
        slbn.set(given(rate=RATE))
        assert seen() == [("LINK_CHANGE_NTF", "c0", RATE)]
        slbn.delete()
        assert seen() == [("LINK_DEL_NTF", "c0", RATE)]
        with pytest.raises(NetlinkError):
            slbn.add(options(rate=5))
        assert seen() == []
        listener.close()
        slbn.family.close()


def test_no_event_below_threshold(listened: tuple[Slbn, Genetlink]) -> None:
    slbn, listener = listened
    slbn.on.rtnetlink.change_qdisc(
        socket.if_nametoindex("b0"),
        HANDLE,
        TC_H_ROOT,
        KIND + options(rate=RATE, headroom=0, epoch=0),
        NLM_F_CREATE,
    )

    def events_of(what: Callable[[], None]) -> int:
        """The number of events that WHAT causes; a later event of b0 ends the wait."""
        before = slbn.link.state.events
        what()
        share = slbn.family.get(given(ifname="b0")).state.share
        slbn.set_of("b0", given(rate=share // 2))
        names: list[str] = []

        def passed() -> bool:
            names.extend(each.name for each in listener.events())
            return "b0" in names

        wait_for(passed)
        assert names.count("a0") == slbn.link.state.events - before
        return names.count("a0")

    def is_notified() -> bool:
        """Events of two links have no order: that of a0's last change may be later than b0's."""
        shares.extend(each.state.share for each in listener.events() if each.name == "a0")
        return shares[-1] == slbn.link.state.share

    shares: list[int] = [0]
    # With one session more or less, the share moves by five times as much.
    slbn.set(given(threshold=1))
    slbn.join(*range(200))
    wait_for(is_notified)
    slbn.set(given(threshold=50))
    # The share falls by 5/205 and 10/210, below 5 %, then by 12/212, above it.
    assert events_of(lambda: slbn.join(*range(200, 205))) == 0
    assert events_of(lambda: slbn.join(*range(205, 210))) == 0
    assert events_of(lambda: slbn.join(*range(210, 212))) == 1
    assert events_of(lambda: slbn.leave(*range(205, 212))) == 0
    assert events_of(lambda: slbn.leave(*range(200, 205))) == 1
    assert events_of(lambda: slbn.set(given(rate=RATE + RATE // 21))) == 0
    assert events_of(lambda: slbn.set(given(rate=RATE + RATE // 19))) == 1


def test_event_rate_is_limited(listened: tuple[Slbn, Genetlink]) -> None:
    """However often the share changes, there are at most ten events per second."""
    slbn, listener = listened
    slbn.join(1)
    started = time.monotonic()
    received = moves = seq = 0
    while time.monotonic() - started < 2:
        # An event reports the share at its time: pause with the session as well as without.
        for _ in range(20):
            slbn.on.inject(control_frame(2, JOIN, seq))
            time.sleep(0.0007)
            slbn.on.inject(control_frame(2, LEAVE, seq + 1))
            time.sleep(0.0007)
            seq += 2
            moves += 2
        received += len(listener.events())
    seconds = time.monotonic() - started
    received += len(listener.events())
    state = slbn.link.state
    assert state.joins + state.leaves == moves + 1
    # A delay may be a tick shorter.
    assert 1 <= received <= seconds / 0.095 + 1
    assert moves > 5 * received


def test_events_stay_in_their_namespace(listened: tuple[Slbn, Genetlink]) -> None:
    slbn, listener = listened
    slbn.join(1)
    with link() as on:
        other, other_listener = Slbn(on, Genetlink()), Genetlink()
        other_listener.listen()
        other.add(options(rate=RATE // 10, headroom=0, epoch=0, control=1000))
        other.join(1, 2)
        assert await_event(other_listener).state.share == RATE // 20
        slbn.join(2)
        assert await_event(listener).state.share == RATE // 2
        # Each socket receives the events of its own namespace only.
        assert listener.events() == other_listener.events() == []
        other.family.close()
        other_listener.close()
