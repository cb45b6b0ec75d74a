# SPDX-License-Identifier: GPL-2.0
"""drr_fq with CoDel: which packets it drops and marks, and what its parents see of that.

In virtual time the queue drains at exactly the valve's rate, so that the packets that are dropped
can be compared with RFC 8289.
"""

from __future__ import annotations

import time

import pytest

from tests.kernel.lib.drr_fq import (
    HEADER,
    HEADERS,
    MTU,
    NUMBERED,
    PARENTS,
    PORT,
    PRIMER,
    GsoSocket,
    Link,
    numbered_frame,
    valved,
)
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import wait_for, wait_for_carriers

FULL = MTU + HEADER
#: Of the valve: a full packet takes 1.2 ms.
RATE = 1_250_000
INTERVAL = 0.1
NOT_ECT, ECT_0, CE = 0, 2, 3
LARGE_BURST = 70_000


def dropped_by_rfc8289(count: int) -> list[int]:
    """The numbers of the packets that are dropped of COUNT that have waited for the target.

    As in the kernel, each drop is one Newton step towards the inverse of the square root.
    """
    found: list[int] = []
    sent, first_above, drop_next, drops = 0, 0.0, 0.0, 0
    inverse, dropping = 1.0, False
    for number in range(count):
        now = sent * FULL / RATE
        above = count - 1 - number > 1
        if above and not first_above:
            first_above = now + INTERVAL
            above = False
        above = above and now >= first_above
        if above and (not dropping or now >= drop_next):
            drops = drops + 1 if dropping else 1
            inverse *= (3 - drops * inverse**2) / 2
            drop_next = (drop_next if dropping else now) + INTERVAL * inverse
            dropping = True
            found.append(number)
        else:
            sent += 1
    return found


def send_ecn(on: Link, flow: int, ecn: int, count: int) -> None:
    for _ in range(count):
        frame = bytearray(numbered_frame(flow, on.next_number[flow], FULL))
        on.next_number[flow] += 1
        frame[15] |= ecn
        assert on.inject(bytes(frame), priority=0x10 << 16 | flow)


def received(on: Link) -> list[tuple[int, int, int]]:
    """The flow, number and ECN field of the frames that were received."""
    wait_for(lambda: not any(each.qlen for each in on.qdiscs().values()))
    found: list[tuple[int, int, int]] = []
    while True:
        try:
            frame = on.receiver.recv(1 << 17)
        except BlockingIOError:
            return found
        if frame[36:38] == PORT.to_bytes(2, "big"):
            flow, number = NUMBERED.unpack_from(frame, HEADERS)
            if flow != PRIMER:
                found.append((flow, number, frame[15] & 3))


@pytest.mark.virtual
def test_drops_are_those_of_rfc_8289() -> None:
    count = 1000
    expected = dropped_by_rfc8289(count)
    assert len(expected) > 15
    with valved("limit 2000 codel", parent="tbf") as on:
        on.send(1, FULL, count)
        time.sleep(0.02)
        on.open_valve(RATE)
        arrived = {each.number for each in on.drain()}
        dropped = sorted(set(range(count)) - arrived)
        statistics = on.statistics
        assert (statistics.drops_codel, statistics.drops_longest) == (len(dropped), 0)
        assert on.shown("10:").drops == len(dropped)
        for real, rfc in zip(dropped, expected, strict=True):
            assert abs(real - rfc) <= 2, (dropped, expected)
        on.check_empty()


@pytest.mark.virtual
@pytest.mark.parametrize(
    ("options", "why"), [("", "off"), ("codel target 2s interval 3s", "below its target")]
)
def test_nothing_is_dropped(options: str, why: str) -> None:
    with valved(f"limit 2000 {options}") as on:
        send_ecn(on, 1, ECT_0, 1000)
        on.open_valve(RATE)
        assert received(on) == [(1, number, ECT_0) for number in range(1000)], why
        assert on.shown("10:").drops == 0


@pytest.mark.virtual
def test_packets_with_ecn_are_marked() -> None:
    with valved("limit 2000 codel ecn") as on:
        send_ecn(on, 1, ECT_0, 1000)
        on.open_valve(RATE)
        found = received(on)
        assert [number for _, number, _ in found] == list(range(1000))
        marked = [number for _, number, ecn in found if ecn == CE]
        assert len(marked) == on.statistics.ecn_marks > 15
        assert (on.statistics.drops_codel, on.statistics.ce_marks) == (0, 0)
        # Packets without ECN are dropped.
        on.close_valve()
        send_ecn(on, 2, NOT_ECT, 1000)
        on.open_valve(RATE)
        assert len(received(on)) == 1000 - on.statistics.drops_codel < 990


@pytest.mark.virtual
def test_ce_threshold_marks_what_waited_longer() -> None:
    with valved("limit 2000 codel target 10s interval 10s ce_threshold 60ms") as on:
        send_ecn(on, 1, ECT_0, 100)
        send_ecn(on, 2, NOT_ECT, 1)
        on.open_valve(RATE)
        marks = [ecn for flow, _, ecn in received(on) if flow == 1]
        # 60 ms are 50 packets.
        first = marks.index(CE)
        assert abs(first - 50) <= 3
        assert marks == [ECT_0] * first + [CE] * (100 - first)
        statistics = on.statistics
        assert statistics.ce_marks == 100 - first
        assert (statistics.ecn_marks, statistics.drops_codel) == (0, 0)


@pytest.mark.virtual
def test_only_the_queue_that_stays_long_is_dropped_from() -> None:
    """Each has its own state: a flow below its share has neither delay nor drops."""
    with valved("limit 2000 codel") as on:
        on.send(1, FULL, 800)
        on.open_valve(RATE)
        for _ in range(100):
            on.send(2, FULL)
            time.sleep(0.005)
        assert on.queues[1].dropping == 1
        assert on.queues[1].delay > 300_000
        on.valve(1_000_000_000)
        arrived = on.drain()
        assert [each.number for each in arrived if each.flow == 2] == list(range(100))
        assert len(arrived) == 900 - on.statistics.drops_codel < 895


@pytest.mark.virtual
@pytest.mark.parametrize(("options", "ahead"), [("codel target 10s interval 10s", 2), ("", 5)])
def test_new_flows_are_first_with_codel(options: str, ahead: int) -> None:
    """Behind the packet that the valve holds and the one whose turn it is; else a round later."""
    with valved(f"limit 1000 {options}", parent="tbf") as on:
        for flow in range(1, 6):
            on.send(flow, FULL, 5)
        on.open_valve(15_140)
        time.sleep(1.05)
        sent = 25 - on.shown("10:").qlen
        assert 8 <= sent <= 12
        on.send(9, 100)
        on.open_valve()
        place = [each.flow for each in on.drain()].index(9) - sent
        assert ahead - 2 <= place <= ahead


#: In front of a packet that CoDel must not drop, as it is the last: packets that it drops.
TINY = "limit 2000 codel target 1us interval 1ms"


@pytest.mark.parametrize("scheduler", ["drr", "rr", "scfq"])
@pytest.mark.parametrize("parent", PARENTS)
def test_parents_are_right_when_the_last_packet_follows_drops(parent: str, scheduler: str) -> None:
    """The last packet is a large one, which leaves right after others were dropped.

    A parent deactivates its class twice if qdisc_tree_reduce_backlog() reports an empty qdisc in
    the middle of its dequeue.
    """
    waits = PARENTS[parent].waits
    with (
        valved(f"{TINY} scheduler {scheduler}", parent, burst=LARGE_BURST) as on,
        GsoSocket(on, 1) as gso,
    ):
        for _ in range(3):
            on.send(1, FULL, 60)
            on.send(2, 100, 30)
            gso.send(40)
            time.sleep(0.01)
            on.check_backlogs(waits)
            on.open_valve(5_000_000)
            time.sleep(0.004)
            on.open_valve()
            on.drain()
            on.check_empty()
            on.close_valve()
        on.open_valve()
        on.drain()
        assert on.statistics.drops_codel > 10
        on.check_empty()


def test_packets_that_wait_when_codel_starts_arrive_then() -> None:
    with valved("limit 2000") as on:
        on.send(1, FULL, 100)
        time.sleep(0.5)
        on.change(codel=1, target=100_000, interval=100_000)
        options = on.options
        assert (options.codel, options.target, options.interval) == (1, 100_000, 100_000)
        on.open_valve()
        assert len(on.drain()) == 100
        # The same, if they waited under CoDel.
        on.close_valve()
        on.send(1, FULL, 100)
        time.sleep(0.5)
        on.open_valve(RATE)
        assert len(on.drain()) < 100
        assert on.statistics.drops_codel


def test_changes_keep_the_time_of_arrival() -> None:
    """The number of queues and the scheduler change; then CoDel is turned off, and on again."""
    with valved("limit 2000 codel") as on:
        memory = on.statistics.memory
        on.send(1, FULL, 300)
        time.sleep(0.5)
        on.change(flows=7, scheduler=2)
        on.check_backlogs()
        on.open_valve(RATE)
        time.sleep(0.2)
        assert on.statistics.drops_codel
        on.change(codel=0, flows=1024, scheduler=0)
        drops = on.statistics.drops_codel
        assert on.options.target is None
        # 24 bytes for each queue.
        assert on.statistics.memory == memory - 1024 * 24
        before = on.shown("10:").qlen
        time.sleep(0.1)
        assert 0 < on.shown("10:").qlen < before
        on.open_valve()
        on.drain()
        assert on.statistics.drops_codel == drops
        on.change(codel=1, ecn=1, ce_threshold=5)
        options = on.options
        assert (options.target, options.interval) == (5000, 100_000)
        assert (options.ecn, options.ce_threshold) == (1, 5)
        on.change(ecn=0, ce_threshold=0, target=7)
        options = on.options
        assert (options.target, options.ecn, options.ce_threshold) == (7, 0, 0)
        on.check_empty()


def test_reset_forgets_the_queues() -> None:
    with valved("limit 2000 codel") as on:
        on.send(1, FULL, 500)
        on.open_valve(RATE)
        time.sleep(0.3)
        assert on.queues[1].dropping == 1
        run_ip(["link set a0 down", "link set a0 up"])
        wait_for_carriers("a0", "b0")
        on.close_valve()
        on.send(1, FULL, 3)
        assert (on.queues[1].dropping, on.queues[1].delay) == (0, 0)
