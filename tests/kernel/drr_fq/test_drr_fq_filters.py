# SPDX-License-Identifier: GPL-2.0
"""Classification: a packet's queue by priority, filter or hash."""

from __future__ import annotations

from tests.kernel.lib.drr_fq import Link, batch, link, valved
from tests.kernel.lib.rtnetlink import handle

ROOT = "qdisc add dev a0 root handle 10: drr_fq"


def filters(commands: str) -> None:
    lines = (f"filter {line.strip()}" for line in commands.strip().splitlines())
    batch("tc", "\n".join(lines) + "\n")


def queued(on: Link) -> dict[int, int]:
    """Number of queued packets by class."""
    return {number: queue.qlen for number, queue in on.queues.items()}


def test_filters_classify_and_the_rest_is_hashed() -> None:
    with valved("flows 65534") as on:
        filters(
            """add dev a0 parent 10: protocol ip prio 1 u32 match ip sport 1027 0xffff flowid 10:7
            add dev a0 parent 10: protocol ip prio 2 u32 match ip sport 1028 0xffff flowid 10:fffe
            add dev a0 parent 10: protocol ip prio 3 u32 match ip sport 1029 0xffff flowid 10:ffff
            add dev a0 parent 10: protocol ip prio 4 u32 match ip sport 1030 0xffff flowid 10:0"""
        )
        for flow in range(3, 33):
            on.send(flow, 100, flow, classes=False)
        found = queued(on)
        assert found.pop(7) >= 3
        assert found.pop(0xFFFE) >= 4
        # All others are hashed, with few collisions.
        assert 25 <= on.statistics.active_flows <= 30
        assert on.shown("10:").qlen == sum(range(3, 33))


def test_flow_classifier() -> None:
    with valved("flows 1024") as on:
        filters(
            "add dev a0 parent 10: protocol ip prio 1 handle 1 flow map key proto-src"
            " addend -1025 baseclass 10:20 divisor 4"
        )
        for flow in range(1, 9):
            on.send(flow, 100, flow, classes=False)
        assert queued(on) == {0x20: 1 + 5, 0x21: 2 + 6, 0x22: 3 + 7, 0x23: 4 + 8}
        assert on.statistics.collisions == 0


def test_matchall_and_its_removal() -> None:
    with valved("flows 1024") as on:
        filters("add dev a0 parent 10: matchall classid 10:5")
        for flow in range(1, 9):
            on.send(flow, 100, classes=False)
        assert queued(on) == {5: 8}
        filters("del dev a0 parent 10:")
        for flow in range(1, 9):
            on.send(flow, 100, classes=False)
        assert on.statistics.active_flows >= 5


def test_classes_that_do_not_exist_are_hashed() -> None:
    with valved("flows 4") as on:
        filters("add dev a0 parent 10: matchall classid 10:5")
        for flow in range(1, 41):
            on.send(flow, 100, classes=False)
        assert sum(queued(on).values()) == 40
        assert len(queued(on)) >= 3


def test_priority_goes_before_filters() -> None:
    with valved("flows 1024") as on:
        filters("add dev a0 parent 10: matchall classid 10:5")
        on.send(9, 100, 3)
        on.send(9, 100, 2, classes=False)
        # These are no classes, or none of this qdisc.
        for priority in (handle("10:0"), handle("10:401"), handle("10:ffff"), handle("11:9")):
            on.send(9, 100, priority=priority)
        assert queued(on) == {9: 3, 5: 6}


def test_other_priorities_are_not_classes() -> None:
    """Classes of other qdiscs, and priorities of applications except TC_PRIO_CONTROL."""
    with valved("flows 65534") as on:
        for priority in (
            *range(7),
            *range(8, 16),
            handle("11:3"),
            handle("10:0"),
            handle("10:ffff"),
        ):
            for flow in range(2):
                on.send(100 + flow, 100, priority=priority)
        assert on.statistics.active_flows == 2
        assert sorted(queued(on).values()) == [18, 18]


def test_filters_drop_packets_of_an_idle_qdisc() -> None:
    """Packets may bypass an idle qdisc, but not its filters."""
    with link(ROOT) as on:
        on.send(1, 100, 10, classes=False)
        assert len(on.drain()) == 10
        filters("add dev a0 parent 10: matchall action drop")
        for _ in range(10):
            on.send(1, 100, classes=False)
        assert on.drain() == []
        assert on.shown("10:").drops == 10
        on.check_empty()
        # Changes keep the filters.
        on.change(flows=5)
        on.send(1, 100, 5, classes=False)
        assert on.drain() == []
        assert on.shown("10:").drops == 15
        filters("del dev a0 parent 10:")
        on.send(1, 100, 3, classes=False)
        assert len(on.drain()) == 3


def test_filters_drop_packets_of_a_backlogged_qdisc() -> None:
    with valved("limit 5") as on:
        filters(
            "add dev a0 parent 10: protocol ip prio 1 u32 match ip sport 1027 0xffff action drop"
        )
        on.send(1, 100, 4, classes=False)
        on.send(3, 100, 20, classes=False)
        shown, statistics = on.shown("10:"), on.statistics
        assert (shown.qlen, shown.drops) == (4, 20)
        assert (statistics.drops_longest, statistics.collisions) == (0, 0)
        on.check_backlogs()
        on.open_valve()
        assert [each.flow for each in on.drain()] == [1] * 4
        on.check_empty()


def test_packets_redirected_by_filters() -> None:
    """They are neither queued nor counted as drops."""
    with valved() as on:
        filters("add dev a0 parent 10: matchall action mirred egress redirect dev lo")
        on.send(1, 100, 10, classes=False)
        shown = on.shown("10:")
        assert (shown.qlen, shown.drops) == (0, 0)
        on.check_backlogs()


def test_filters_that_change_priority_or_mark() -> None:
    """An action without a class: the packet is hashed."""
    with valved("flows 65536") as on:
        filters("add dev a0 parent 10: matchall action skbedit priority 10:3 mark 5 continue")
        on.send(1, 100, 2, classes=False)
        on.send(2, 100, 2, classes=False)
        assert sorted(queued(on).values()) == [2, 2]
