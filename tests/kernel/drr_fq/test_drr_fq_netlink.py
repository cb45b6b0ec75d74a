# SPDX-License-Identifier: GPL-2.0
"""Invalid netlink messages, which tc does not send: rejected with a message, without changes."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.kernel.lib.drr_fq import (
    BANDS,
    CODEL,
    DOMAIN,
    DOMAIN_ALL,
    ECN,
    FLOWS,
    FLOWS_MAX,
    HEADER,
    LIMIT,
    LIMIT_BYTES,
    LIMIT_BYTES_MAX,
    MTU,
    QUANTUM,
    QUANTUM_MAX,
    SCHEDULER,
    SPLIT_GSO,
    Link,
    Options,
    link,
    options,
)
from tests.kernel.lib.netlink import (
    NLA_F_NESTED,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NetlinkError,
    attribute,
    u8,
    u32,
)
from tests.kernel.lib.rtnetlink import RTM_DELQDISC, TC_H_ROOT, TCA_KIND, handle, nest

KIND = attribute(TCA_KIND, b"drr_fq\0")
HANDLE = handle("10:")
DEFAULTS = Options(1000, 32 << 20, 1024, MTU + HEADER, 0, 0)


def bands(unassigned: int, wait: int, flows_new: int, hosts: int) -> dict[str, int]:
    """Fields of Options with bands."""
    return {
        "bands": 1,
        "unassigned": unassigned,
        "wait": wait,
        "flows_new": flows_new,
        "hosts": hosts,
        "mark_new": 3,
        "mark_assigned": 7,
        "domain": 0,
    }


@pytest.fixture(scope="module")
def on() -> Iterator[Link]:
    with link() as made:
        yield made


def add(on: Link, content: bytes) -> None:
    flags = NLM_F_CREATE | NLM_F_EXCL
    on.rtnetlink.change_qdisc(on.index, HANDLE, TC_H_ROOT, KIND + content, flags)


def change(on: Link, content: bytes) -> None:
    on.rtnetlink.change_qdisc(on.index, HANDLE, TC_H_ROOT, KIND + content)


def delete(on: Link) -> None:
    on.rtnetlink.change_qdisc(on.index, HANDLE, TC_H_ROOT, b"", kind=RTM_DELQDISC)


STANDARD = "marks must be code points for local use: 3, 7, 11 and so on up to 63"

#: Options that are rejected, and text that the extack message must contain.
REJECTED = {
    "limit 0": (options(limit=0), "out of range: 1 to 4294967295"),
    "limit_bytes 0": (options(limit_bytes=0), "limit_bytes must be at least MTU + header"),
    "limit_bytes below a packet": (
        options(limit_bytes=MTU + HEADER - 1),
        "limit_bytes must be at least MTU + header",
    ),
    "limit_bytes too large": (
        options(limit_bytes=LIMIT_BYTES_MAX + 1),
        "out of range: 0 to 1073741824",
    ),
    "flows 0": (options(flows=0), "out of range: 1 to 1048576"),
    "flows too many": (options(flows=FLOWS_MAX + 1), "out of range: 1 to 1048576"),
    "flows -1": (options(flows=0xFFFFFFFF), "out of range: 1 to 1048576"),
    "memory_limit too small": (
        options(memory_limit=65535),
        "out of range: 65536 to 2147483648",
    ),
    "memory_limit too large": (
        options(memory_limit=(1 << 31) + 1),
        "out of range: 65536 to 2147483648",
    ),
    "quantum too small": (options(quantum=255), "out of range: 256 to 16777216"),
    "quantum too large": (
        options(quantum=QUANTUM_MAX + 1),
        "out of range: 256 to 16777216",
    ),
    "scheduler 3": (options(scheduler=3), "out of range: 0 to 2"),
    "scheduler 255": (options(scheduler=255), "out of range: 0 to 2"),
    "split-gso 2": (options(split_gso=2), "out of range: 0 to 1"),
    "codel 2": (options(codel=2), "out of range: 0 to 1"),
    "ecn 2": (options(codel=1, ecn=2), "out of range: 0 to 1"),
    "target 0": (options(codel=1, target=0), "out of range: 1 to 100000000"),
    "target too large": (options(codel=1, target=10**8 + 1), "out of range: 1 to 100000000"),
    "target -1": (options(codel=1, target=0xFFFFFFFF), "out of range: 1 to 100000000"),
    "interval 0": (options(codel=1, interval=0), "out of range: 1000 to 100000000"),
    "interval too small": (options(codel=1, interval=999), "out of range: 1000 to 100000000"),
    "interval too large": (
        options(codel=1, interval=10**8 + 1),
        "out of range: 1000 to 100000000",
    ),
    "ce_threshold too large": (
        options(codel=1, ce_threshold=10**8 + 1),
        "out of range: 0 to 100000000",
    ),
    "target above the interval": (
        options(codel=1, target=2001, interval=2000),
        "codel's target must not exceed its interval",
    ),
    "target above the default interval": (
        options(codel=1, target=100_001),
        "codel's target must not exceed its interval",
    ),
    "target without codel": (options(target=5000), "needs codel, which is off"),
    "interval without codel": (options(codel=0, interval=5000), "needs codel, which is off"),
    "ecn without codel": (options(ecn=0), "needs codel, which is off"),
    "ce_threshold without codel": (options(ce_threshold=0), "needs codel, which is off"),
    "bands 2": (options(bands=2), "out of range: 0 to 1"),
    "unassigned 0": (options(bands=1, unassigned=0), "out of range: 1 to 250"),
    "unassigned too large": (options(bands=1, unassigned=251), "out of range: 1 to 250"),
    "wait too small": (options(bands=1, wait=999), "out of range: 1000 to 10000000"),
    "wait too large": (options(bands=1, wait=10**7 + 1), "out of range: 1000 to 10000000"),
    "flows_new 0": (options(bands=1, flows_new=0), "out of range: 1 to 65536"),
    "hosts too many": (options(bands=1, hosts=65537), "out of range: 1 to 65536"),
    "unassigned without bands": (options(unassigned=50), "needs bands, which are off"),
    "wait without bands": (options(bands=0, wait=5000), "needs bands, which are off"),
    "flows_new without bands": (options(flows_new=5), "needs bands, which are off"),
    "hosts without bands": (options(hosts=5), "needs bands, which are off"),
    "marks without bands": (options(mark_new=3), "needs bands, which are off"),
    "domain without bands": (options(domain=0), "needs bands, which are off"),
    **{
        f"mark {mark}": (options(bands=1, **{name: mark}), STANDARD)
        for name in ("mark_new", "mark_assigned")
        # Best effort, lower effort, CS1, AF11, NQB, EF, CS6; and free, but not for local use.
        for mark in (0, 1, 8, 10, 45, 46, 48, 2, 5)
    },
    "mark too large": (options(bands=1, mark_new=64), "out of range: 0 to 63"),
    "equal marks": (options(bands=1, mark_new=11, mark_assigned=11), "must differ"),
    "the mark of the other": (options(bands=1, mark_new=7), "must differ"),
    "no group": (options(bands=1, domain=1 << 31), "domain must be a group of interfaces"),
    "almost all": (options(bands=1, domain=DOMAIN_ALL - 1), "domain must be a group"),
    "the last of several": (
        options(limit=5, limit_bytes=5000, flows=7, quantum=800, scheduler=2, split_gso=2),
        "out of range: 0 to 1",
    ),
    "duplicate, the second invalid": (
        nest(u32(FLOWS, 7) + u32(FLOWS, 0)),
        "out of range: 1 to 1048576",
    ),
    "unknown attribute": (nest(u32(DOMAIN + 1, 5)), "Unknown attribute type"),
    "unknown attribute among others": (nest(u32(FLOWS, 7) + u32(99, 5)), "Unknown attribute type"),
    "attribute 0": (nest(u32(0, 5)), "Unknown attribute type"),
    "u32 of three bytes": (nest(attribute(FLOWS, b"\1\0\0")), "invalid attribute length"),
    "u32 of eight bytes": (nest(attribute(LIMIT, bytes([9] * 8))), "invalid attribute length"),
    "u32 of no bytes": (nest(attribute(QUANTUM, b"")), "invalid attribute length"),
    "u8 of four bytes": (nest(u32(SCHEDULER, 1)), "invalid attribute length"),
    "u8 of no bytes": (nest(attribute(SPLIT_GSO, b"")), "invalid attribute length"),
    "attribute with NLA_F_NESTED": (nest(u32(FLOWS | NLA_F_NESTED, 7)), ""),
    "attribute longer than the nest": (nest(b"\x40\0\x03\0\1\0\0\0"), ""),
    "attribute shorter than its header": (nest(b"\x03\0\x03\0\1\0\0\0"), ""),
    "trailing bytes": (nest(u32(FLOWS, 7) + b"\0\0\0"), ""),
    "options without NLA_F_NESTED": (nest(u32(FLOWS, 7), 0), "NLA_F_NESTED is missing"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_invalid_options_are_rejected(on: Link, name: str) -> None:
    """With an extack message, for add and for change."""
    content, text = REJECTED[name]
    with pytest.raises(NetlinkError) as first:
        add(on, content)
    assert "10:" not in on.qdiscs()
    before = {"limit": 50, "limit_bytes": 70000, "flows": 9, "quantum": 300, "scheduler": 1}
    add(on, options(**before, split_gso=1))
    try:
        with pytest.raises(NetlinkError) as second:
            change(on, content)
        assert on.options == Options(**before, split_gso=1)
    finally:
        delete(on)
    for error in (first.value, second.value):
        assert error.errno in (errno.EINVAL, errno.ERANGE)
        assert error.message and text in error.message
        if "must" in text or "needs" in text:
            assert error.message.startswith("sch_drr_fq: ")


@pytest.mark.stock
@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b"", DEFAULTS),
        (nest(b""), DEFAULTS),
        (
            options(limit=1, limit_bytes=MTU + HEADER, flows=1, quantum=256),
            Options(1, MTU + HEADER, 1, 256, 0, 0),
        ),
        (
            options(limit=0xFFFFFFFF, limit_bytes=LIMIT_BYTES_MAX, flows=FLOWS_MAX, scheduler=2),
            Options(0xFFFFFFFF, LIMIT_BYTES_MAX, FLOWS_MAX, MTU + HEADER, 2, 0, 1 << 31),
        ),
        (
            nest(u8(SPLIT_GSO, 1) + u32(LIMIT_BYTES, 5000) + u32(LIMIT, 3) + u32(LIMIT, 4)),
            Options(4, 5000, 1024, MTU + HEADER, 0, 1),
        ),
        (
            options(codel=1),
            Options(1000, 32 << 20, 1024, MTU + HEADER, 0, 0, 64 << 20, 1, 5000, 100_000, 0, 0),
        ),
        (
            options(codel=1, target=1, interval=1000, ecn=1, ce_threshold=1),
            Options(1000, 32 << 20, 1024, MTU + HEADER, 0, 0, 64 << 20, 1, 1, 1000, 1, 1),
        ),
        (
            options(codel=1, target=10**8, interval=10**8, ce_threshold=10**8),
            Options(1000, 32 << 20, 1024, MTU + HEADER, 0, 0, 64 << 20, 1, 10**8, 10**8, 0, 10**8),
        ),
        (options(bands=1), replace(DEFAULTS, **bands(50, 100_000, 1024, 1024))),
        (
            options(flows=7, bands=1, unassigned=1, wait=1000, flows_new=1, hosts=1),
            replace(DEFAULTS, flows=7, **bands(1, 1000, 1, 1)),
        ),
        (
            options(bands=1, unassigned=250, wait=10**7, flows_new=65536, hosts=65536),
            replace(DEFAULTS, **bands(250, 10**7, 65536, 65536)),
        ),
        (
            options(bands=1, mark_new=63, mark_assigned=3, domain=(1 << 31) - 1),
            replace(
                DEFAULTS,
                **bands(50, 100_000, 1024, 1024)
                | {"mark_new": 63, "mark_assigned": 3, "domain": (1 << 31) - 1},
            ),
        ),
        (
            options(bands=1, domain=DOMAIN_ALL),
            replace(DEFAULTS, **bands(50, 100_000, 1024, 1024) | {"domain": DOMAIN_ALL}),
        ),
    ],
    ids=[
        *("no options", "empty options", "smallest", "largest", "another order, one duplicate"),
        *("codel", "codel, smallest", "codel, largest"),
        *("bands", "bands, smallest", "bands, largest", "marks of a group", "marks of all"),
    ],
)
def test_valid_options_are_applied(on: Link, content: bytes, result: Options) -> None:
    add(on, content)
    try:
        assert on.options == result
        change(on, content)
        assert on.options == result
    finally:
        delete(on)


def test_random_options(on: Link) -> None:
    """Random options, also truncated: applied if valid, otherwise rejected without changes."""
    rng = random.Random(3)
    add(on, b"")
    accepted = rejected = 0
    try:
        for _ in range(800):
            content = b""
            for _ in range(rng.randrange(5)):
                kind = rng.randrange(LIMIT, DOMAIN + 2)
                sort = rng.randrange(20)
                if sort == 0:
                    content += rng.randbytes(rng.randrange(20))
                elif sort == 1:
                    content += attribute(kind, rng.randbytes(rng.randrange(12)))
                elif kind in (SCHEDULER, SPLIT_GSO, CODEL, ECN, BANDS, DOMAIN + 1):
                    content += u8(kind, rng.choice((0, 0, 0, 1, 1, 2, 3, 255)))
                else:
                    content += u32(kind, rng.choice((1, 7, 1000, 2000, 70000, 1 << 20, 1 << 31)))
            if rng.randrange(15) == 0:
                content = content[: rng.randrange(len(content) + 1)]
            before = on.options
            try:
                rng.choice((change, change, add_or_replace))(on, nest(content))
                accepted += 1
            except NetlinkError as error:
                assert error.errno in (errno.EINVAL, errno.ERANGE)
                assert error.message
                rejected += 1
                assert on.options == before
            now = on.options
            assert now.limit >= 1 and MTU + HEADER <= now.limit_bytes <= LIMIT_BYTES_MAX
            assert 1 <= now.flows <= FLOWS_MAX and 256 <= now.quantum <= QUANTUM_MAX
            assert now.scheduler <= 2 and now.split_gso <= 1
            if now.codel:
                assert now.target and now.interval
                assert 1 <= now.target <= now.interval <= 10**8 and now.interval >= 1000
            if now.bands:
                assert now.unassigned and now.wait and now.flows_new and now.hosts
                assert now.unassigned <= 250 and 1000 <= now.wait <= 10**7
                assert max(now.flows_new, now.hosts) <= 65536
                assert (now.mark_new, now.mark_assigned, now.domain is None) == (3, 7, False)
    finally:
        with suppress(NetlinkError):
            delete(on)
    assert accepted > 100 and rejected > 100


def add_or_replace(on: Link, content: bytes) -> None:
    flags = NLM_F_CREATE | NLM_F_REPLACE
    on.rtnetlink.change_qdisc(on.index, HANDLE, TC_H_ROOT, KIND + content, flags)
