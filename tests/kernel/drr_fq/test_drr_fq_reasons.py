# SPDX-License-Identifier: GPL-2.0
"""drr_fq: the reasons of its drops, as the kernel's tracepoints show them.

Since Linux 7.2 qdiscs have reasons of their own.  Of packets that enqueue drops, qdisc:qdisc_drop
shows them by name; of others, skb:kfree_skb by number.  Older kernels have one reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.kernel.lib.drr_fq import HEADER, MTU, Link, valved
from tests.kernel.lib.net import TRACING, tracing
from tests.kernel.lib.rtnetlink import handle

FULL = MTU + HEADER
#: Of packets of IPv4, which the packet that opens the valve is not.
DROPPED = re.compile(r"kfree_skb: .* protocol=2048 .* reason: QDISC_DROP$", re.MULTILINE)
#: enum qdisc_drop_reason, as a part of enum skb_drop_reason.
NUMBERS = {"OVERLIMIT": "0x30002", "CONGESTED": "0x30003"}


def exceed_limit(on: Link) -> None:
    on.send(1, FULL, 5)


def lower_limit(on: Link) -> None:
    on.send(1, FULL, 5)
    on.change(limit=2)


def wait_too_long(on: Link) -> None:
    on.send(1, FULL, 60, priority=handle("10:3"))
    time.sleep(0.05)
    on.open_valve(1_250_000)
    on.drain()


@pytest.mark.parametrize(
    ("options", "cause", "reason"),
    [
        ("limit 2", exceed_limit, "OVERLIMIT"),
        ("limit 9", lower_limit, "OVERLIMIT"),
        ("codel target 1us interval 1ms", wait_too_long, "CONGESTED"),
        ("bands wait 10ms", wait_too_long, "CONGESTED"),
    ],
    ids=["limit", "change", "codel", "late"],
)
def test_drops_have_a_reason(options: str, cause: Callable[[Link], None], reason: str) -> None:
    own = (TRACING / "events/qdisc/qdisc_drop").exists()
    events = ["skb/kfree_skb", *(["qdisc/qdisc_drop"] if own else [])]
    with valved(options) as on, tracing(*events) as trace:
        before = on.shown("10:").drops
        cause(on)
        drops = on.shown("10:").drops - before
        text = trace.read_text()
    assert drops
    if own:
        shown = text.count(f" reason={reason}\n") + text.count(f" reason: {NUMBERS[reason]}\n")
        assert shown == drops, text
    else:
        assert len(DROPPED.findall(text)) == drops, text
