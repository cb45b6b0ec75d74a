# SPDX-License-Identifier: GPL-2.0
"""drr_fq's queues: limits, drops, changes, GSO, and the backlogs of parent qdiscs.

With a closed valve (see drr_fq.py), all numbers are exact.
"""

from __future__ import annotations

import random
import socket
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.kernel.lib.drr_fq import (
    DRR,
    HEADER,
    MTU,
    PARENTS,
    PRIMER,
    RR,
    SCFQ,
    SMALLEST,
    Arrival,
    GsoSocket,
    Link,
    batch,
    link,
    valved,
)
from tests.kernel.lib.net import sh, wait_for, wait_for_carriers

FULL = MTU + HEADER
#: Large enough for the valve to send the largest GSO packet unsegmented.
LARGE_BURST = 70_000


def in_order(arrivals: Iterable[Arrival]) -> dict[int, list[int]]:
    """The numbers of each flow's packets; asserts that they are in order."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for each in arrivals:
        numbers[each.flow] += range(each.number, each.number + each.segments)
    for flow, listed in numbers.items():
        assert listed == sorted(set(listed)), f"flow {flow}"
    return numbers


class Tie(Exception):
    """Several queues have the longest backlog."""


class Model:
    """Reference model: drop from the front of the longest queue, by linear search."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.queues: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self.backlogs: Counter[int] = Counter()
        self.drops: Counter[int] = Counter()

    def arrive(self, flow: int, number: int, length: int) -> None:
        self.queues[flow].append((number, length))
        self.backlogs[flow] += length
        self.shrink()

    def shrink(self) -> None:
        while (
            sum(map(len, self.queues.values())) > self.limit
            or self.backlogs.total() > self.limit_bytes
        ):
            (flow, size), *others = self.backlogs.most_common(2)
            if others and others[0][1] == size:
                raise Tie
            _, length = self.queues[flow].popleft()
            self.backlogs[flow] -= length
            self.drops[flow] += 1

    def copy(self) -> Model:
        made = Model(self.limit, self.limit_bytes)
        made.queues.update((flow, queue.copy()) for flow, queue in self.queues.items())
        made.backlogs.update(self.backlogs)
        made.drops.update(self.drops)
        return made

    def check(self, on: Link) -> None:
        """Check that the link has queued and dropped the same packets."""
        queues = on.queues
        assert Counter({flow: each.backlog for flow, each in queues.items()}) == self.backlogs
        for flow, each in queues.items():
            assert each.qlen == len(self.queues[flow])
            assert each.drops == self.drops[flow]
            assert each.head_length == self.queues[flow][0][1]
        statistics, shown = on.statistics, on.shown("10:")
        assert shown.drops == statistics.drops_longest == self.drops.total()
        assert statistics.active_flows == len(+self.backlogs)
        assert statistics.longest_backlog == max(self.backlogs.values())
        assert self.backlogs[statistics.longest_flow] == statistics.longest_backlog

    def remaining(self) -> dict[int, list[int]]:
        return {
            flow: [number for number, _ in queue] for flow, queue in self.queues.items() if queue
        }


def test_limit_in_packets_is_exact() -> None:
    with valved("limit 10") as on:
        for flow in range(1, 11):
            on.send(flow, 100)
        assert (on.shown("10:").qlen, on.shown("10:").drops) == (10, 0)
        assert on.send(11, 100) == 1
        shown, statistics = on.shown("10:"), on.statistics
        assert (shown.qlen, shown.backlog, shown.drops) == (10, 1000, 1)
        assert (statistics.drops_longest, statistics.drops_oversize) == (1, 0)


def test_limit_in_bytes_is_exact() -> None:
    with valved(f"limit_bytes {2 * FULL}") as on:
        on.send(1, FULL)
        on.send(2, FULL)
        assert (on.shown("10:").backlog, on.shown("10:").drops) == (2 * FULL, 0)
        assert on.send(3, SMALLEST) == 1
        assert on.shown("10:").backlog == FULL + SMALLEST
        assert on.shown("10:").drops == 1
        on.check_backlogs()


@pytest.mark.parametrize(("limit", "limit_bytes"), [(20, 1 << 20), (10_000, 20_000), (30, 25_000)])
def test_drops_from_the_front_of_the_longest_queue(limit: int, limit_bytes: int) -> None:
    """Compared with the model, for random packet sizes."""
    rng = random.Random(limit)
    model = Model(limit, limit_bytes)
    with valved(f"limit {limit} limit_bytes {limit_bytes}") as on:
        for _ in range(250):
            flow = rng.choice((1, 1, 1, 2, 2, 3, 4, 5))
            length = rng.randrange(SMALLEST, FULL)
            after = model.copy()
            try:
                after.arrive(flow, on.next_number[flow], length)
            except Tie:
                continue  # Either may be dropped.
            model = after
            assert on.send(flow, length) == 1
        model.check(on)
        on.check_backlogs()
        on.open_valve()
        assert in_order(on.drain()) == model.remaining()
        on.check_empty()


def test_new_light_flows_are_not_dropped() -> None:
    """A flood fills the queue; all packets of a hundred other flows are queued and sent."""
    with valved("limit 200") as on:
        on.send(1, FULL, 500)
        for flow in range(2, 102):
            assert on.send(flow, SMALLEST) == 1
            on.send(1, FULL, 2)
        queues = on.queues
        assert all(queues[flow].qlen == 1 for flow in range(2, 102))
        assert queues[1].qlen == 100
        on.open_valve()
        arrived = in_order(on.drain())
        assert all(arrived[flow] == [0] for flow in range(2, 102))
        # The flood's newest packets remain.
        assert arrived[1] == list(range(600, 700))


def test_collisions_are_counted() -> None:
    """In one queue: packets of other flows than the one that made it backlogged."""
    with valved("flows 1") as on:
        before = on.statistics
        on.send(1, 100, 5, classes=False)
        assert on.statistics.collisions == 0
        on.send(2, 100, 7, classes=False)
        on.send(1, 100, 3, classes=False)
        statistics = on.statistics
        assert (statistics.collisions, statistics.new_flows) == (7, before.new_flows + 1)
        assert (statistics.active_flows, statistics.active_flows_max) == (1, 1)


def test_classes_count_segments() -> None:
    """As the qdisc does."""
    with valved("limit 100", burst=LARGE_BURST) as on, GsoSocket(on, 1) as gso:
        for _ in range(20):
            gso.send(10)
        assert (on.queues[1].qlen, on.queues[1].sent_packets) == (20, 0)
        on.valve(1)
        on.kick_valve()
        wait_for(lambda: on.queues[1].qlen < 19)
        queue = on.queues[1]
        assert queue.sent_packets == 10 * (20 - queue.qlen)


def test_flows_are_hashed_to_queues() -> None:
    """By packet headers, not by priority; few collide."""
    flows = 300
    with valved("flows 65536") as on:
        before = on.statistics
        for flow in range(flows):
            on.send(flow, 100, 2, classes=False)
        statistics = on.statistics
        # A packet is a collision if any other flow was in its queue first.
        assert statistics.active_flows >= flows - 10
        assert statistics.new_flows == before.new_flows + statistics.active_flows
        assert statistics.collisions == 2 * (flows - statistics.active_flows)
        assert on.shown("10:").qlen == 2 * flows


def test_idle_flows_are_not_listed() -> None:
    with valved("flows 65536 limit 10000", parent="tbf") as on:
        on.open_valve()
        for flow in range(3000):
            on.send(flow, SMALLEST, classes=False)
        on.drain()
        on.close_valve()
        for flow in range(1, 101):
            on.send(flow, SMALLEST)
        assert on.statistics.active_flows == 100
        assert len(on.queues) == 100


# --- backlogs of parents


def send_and_change_at_random(on: Link, rng: random.Random, gso: GsoSocket, *, split: bool) -> None:
    """Send some packets and sometimes change a parameter."""
    for _ in range(rng.randrange(40)):
        flow = rng.choice((1, 2, *range(4, 12)))
        on.send(flow, rng.randrange(SMALLEST, FULL + 1), classes=flow <= 2)
    for _ in range(rng.randrange(4)):
        gso.send(rng.randrange(2, 40))
    change = rng.randrange(8)
    if change == 0:
        on.change(limit=rng.choice((1, 2, 30, 200, 200)))
    elif change == 1:
        on.change(limit_bytes=rng.choice((FULL, 20_000, 200_000, 1 << 25)))
    elif change == 2:
        on.change(flows=rng.choice((3, 7, 64, 1024)))
    elif change == 3:
        on.change(scheduler=rng.choice((DRR, RR, SCFQ)))
    elif change == 4:
        on.change(quantum=rng.choice((256, 300, 1514, 1 << 20)))
    elif change == 5 and split:
        on.change(split_gso=rng.randrange(2))
    elif change == 6:
        on.change(codel=1, target=1, interval=1000)
    elif change == 7:
        on.change(bands=rng.randrange(2))


@pytest.mark.parametrize("burst", [1600, LARGE_BURST], ids=["segmented-above", "whole"])
@pytest.mark.parametrize("parent", PARENTS)
def test_backlogs_of_parents_are_exact(parent: str, burst: int) -> None:
    """After any sends, drops, changes and departures, all backlogs are consistent to the byte."""
    rng = random.Random(f"{parent} {burst}")
    waits = PARENTS[parent].waits
    with (
        valved("limit 100 flows 64", parent, burst=burst) as on,
        GsoSocket(on, 3) as gso,
    ):
        for step in range(15):
            send_and_change_at_random(on, rng, gso, split=True)
            on.check_backlogs(waits)
            if step % 3 == 2:
                on.open_valve(rng.choice((10_000, 1_000_000_000)))
                send_and_change_at_random(on, rng, gso, split=True)
                on.close_valve()
                on.check_backlogs(waits)
        on.open_valve()
        in_order(on.drain())
        on.check_empty()
        shown = on.shown("10:")
        assert shown.sent_packets > 10
        assert shown.drops > 10


#: Without a valve: drr_fq as root and below other qdiscs.
FREE = {
    "root": "qdisc add dev a0 root handle 10: drr_fq limit 50",
    "htb": """qdisc add dev a0 root handle 1: htb default 1
        class add dev a0 parent 1: classid 1:f htb rate 20mbit
        class add dev a0 parent 1:f classid 1:1 htb rate 5mbit ceil 20mbit
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50""",
    "hfsc": """qdisc add dev a0 root handle 1: hfsc default 1
        class add dev a0 parent 1: classid 1:f hfsc sc rate 20mbit ul rate 20mbit
        class add dev a0 parent 1:f classid 1:1 hfsc rt m1 30mbit d 10ms m2 5mbit ls rate 5mbit
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50""",
    "netem": """qdisc add dev a0 root handle 1: netem delay 2ms 1ms rate 20mbit limit 1000
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50""",
    "tbf": """qdisc add dev a0 root handle 1: tbf rate 20mbit burst 70000 limit 100mb
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50""",
    "mq": """qdisc add dev a0 root handle 1: mq
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50
        qdisc add dev a0 parent 1:2 handle 20: drr_fq limit 50""",
    "mq/htb": """qdisc add dev a0 root handle 1: mq
        qdisc add dev a0 parent 1:1 handle 2: htb default 1
        class add dev a0 parent 2: classid 2:1 htb rate 20mbit
        qdisc add dev a0 parent 2:1 handle 10: drr_fq limit 50
        qdisc add dev a0 parent 1:2 handle 3: htb default 1
        class add dev a0 parent 3: classid 3:1 htb rate 20mbit
        qdisc add dev a0 parent 3:1 handle 20: drr_fq limit 50 split-gso""",
}


@pytest.mark.parametrize("under", FREE)
def test_backlogs_return_to_zero(under: str) -> None:
    """After a flood at the link's rate, all backlogs return to 0."""
    rng = random.Random(under)
    with link(FREE[under], queues=2) as on, GsoSocket(on, 3) as gso:

        def sent() -> int:
            # mq has two, and the kernel chooses the flows of each.
            return sum(q.sent_packets for q in on.qdiscs().values() if q.kind == "drr_fq")

        for _ in range(40):
            send_and_change_at_random(on, rng, gso, split=True)
            time.sleep(0.005)
            for shown in on.qdiscs().values():
                assert shown.qlen <= 2000 and shown.backlog <= 1 << 27, shown
            in_order(on.arrivals())
        assert sent() > 100
        on.drain()
        on.check_empty()


def test_netem_on_the_next_hop() -> None:
    """The bottleneck's delay is on the next interface, as in the lab."""
    with valved("limit 1000", "tbf") as on:
        batch("ip", "link add c0 type veth peer name d0\nlink set c0 up\nlink set d0 up\n")
        batch(
            "tc",
            """qdisc add dev b0 clsact
            filter add dev b0 ingress matchall action mirred egress redirect dev c0
            qdisc add dev c0 root netem delay 5ms limit 10000""",
        )
        on.receive_at("d0")
        for flow in (1, 2, 3):
            on.send(flow, 500, 30)
        on.open_valve()
        arrived = in_order(on.drain())
        assert {flow: len(seen) for flow, seen in arrived.items()} == {1: 30, 2: 30, 3: 30}
        on.check_empty()


# --- changes


def test_changes_keep_packets_within_limits() -> None:
    """Change each parameter with packets queued: all arrive in order and are counted."""
    with valved("limit 5000", parent="tbf") as on:
        for flow in range(1, 31):
            on.send(flow, 60 + 40 * flow, 20, classes=flow == 1)
        queued = on.shown("10:")
        for change in (
            {"flows": 7},
            # Of more queues, the last one has no class to be seen by.
            {"flows": 65535},
            {"scheduler": SCFQ},
            {"flows": 1},
            {"flows": 1024},
            {"scheduler": RR},
            {"quantum": 256},
            {"scheduler": DRR},
            {"quantum": 1 << 24},
            {"limit": queued.qlen},
            {"limit_bytes": queued.backlog},
            {"split_gso": 1},
            {"limit": 100_000, "limit_bytes": 1 << 30, "flows": 33, "scheduler": SCFQ},
            {"flows": 1024, "scheduler": DRR, "quantum": 300, "split_gso": 0},
        ):
            on.change(**change)
            shown = on.shown("10:")
            assert (shown.qlen, shown.backlog, shown.drops) == (queued.qlen, queued.backlog, 0)
            on.check_backlogs()
            queues = on.queues.values()
            # A packet that a parent has peeked at is in no queue.
            assert sum(each.qlen for each in queues) == queued.qlen - 1
            assert sum(each.backlog for each in queues) == queued.backlog - FULL
        on.open_valve()
        arrived = in_order(on.drain())
        assert arrived == {flow: list(range(20)) for flow in range(1, 31)}
        on.check_empty()


def test_lower_limits_drop_from_the_longest_queues() -> None:
    model = Model(10_000, 1 << 30)
    with valved("limit 10000") as on:
        for flow, length, count in ((1, 1000, 100), (2, 1301, 77), (3, 61, 50), (4, 1512, 10)):
            for _ in range(count):
                model.arrive(flow, on.next_number[flow], length)
                on.send(flow, length)
        for limit, limit_bytes in ((150, 1 << 30), (150, 60_007), (9, 60_007), (9, 1 << 30)):
            model.limit, model.limit_bytes = limit, limit_bytes
            model.shrink()
            on.change(limit=limit, limit_bytes=limit_bytes)
            model.check(on)
            on.check_backlogs()
        on.change(limit=100)
        model.check(on)
        on.open_valve()
        assert in_order(on.drain()) == model.remaining()
        on.check_empty()


def test_peeked_packet_is_not_dropped() -> None:
    """It counts towards the limit, but other packets are dropped."""
    with valved("limit 5", parent="tbf") as on:
        on.send(1, 100, 10)
        assert (on.shown("10:").qlen, on.queues[1].qlen) == (5, 4)
        on.change(limit=1)
        assert (on.shown("10:").qlen, on.queues) == (1, {})
        on.check_backlogs()
        on.send(2, 100, 3)
        assert (on.shown("10:").qlen, on.queues) == (1, {})
        on.check_backlogs()
        on.change(limit=3)
        on.send(2, 100, 3)
        on.open_valve()
        assert in_order(on.drain()) == {2: [4, 5]}
        on.check_empty()


def test_changes_with_traffic() -> None:
    """At 8 Mbit/s, below the limits: all packets arrive in order in spite of changes."""
    changes = [
        {"flows": 7},
        {"scheduler": SCFQ},
        {"flows": 65536},
        {"scheduler": RR},
        {"limit": 2000},
        {"flows": 1},
        {"scheduler": DRR},
        {"quantum": 1000},
        {"limit_bytes": 1 << 22},
        {"limit": 1000, "limit_bytes": 1 << 21, "quantum": 9000},
        {"flows": 1024, "scheduler": SCFQ, "split_gso": 1},
    ]
    with valved("limit 1000", parent="tbf") as on, GsoSocket(on, 1) as gso:
        on.open_valve(1_000_000)
        arrived = []
        for change in changes * 4:
            for flow in range(2, 16):
                on.send(flow, 60 + 70 * flow, 3, classes=False)
            gso.send(5)
            on.change(**change)
            arrived += on.arrivals()
            while on.shown("10:").qlen > 700:
                time.sleep(0.01)
                arrived += on.arrivals()
        on.open_valve()
        arrived += on.drain()
        numbers = in_order(arrived)
        assert {flow: len(seen) for flow, seen in numbers.items()} == {
            flow: on.next_number[flow] for flow in range(1, 16)
        }
        assert on.shown("10:").drops == 0
        on.check_empty()


# --- GSO


def test_gso_packets_count_with_their_length_on_the_wire() -> None:
    with valved(burst=LARGE_BURST) as on, GsoSocket(on, 1) as gso:
        before = on.shown("10:").sent_packets
        gso.send(10)
        shown, statistics = on.shown("10:"), on.statistics
        assert (shown.qlen, shown.backlog) == (1, 10 * FULL)
        assert (statistics.max_packet, statistics.gso_split) == (10 * FULL, 0)
        assert on.queues[1].head_length == 10 * FULL
        on.check_backlogs()
        on.open_valve()
        assert on.drain() == [Arrival(1, 0, 10 * FULL, 10)]
        # When sent, it counts as its segments.
        assert on.shown("10:").sent_packets - before == 10


@pytest.mark.parametrize("parent", ["tbf", "htb", "prio/htb/drr"])
def test_split_gso(parent: str) -> None:
    with valved("split-gso", parent, burst=LARGE_BURST) as on, GsoSocket(on, 1) as gso:
        before = on.shown("10:")
        for times in (1, 2):
            gso.send(10)
            shown, statistics = on.shown("10:"), on.statistics
            assert shown.qlen - before.qlen == 10 * times
            assert shown.backlog - before.backlog == 10 * times * FULL
            assert (statistics.gso_split, statistics.max_packet) == (times, FULL)
            on.check_backlogs()
        on.open_valve()
        assert on.drain() == [Arrival(1, number, FULL) for number in range(20)]
        assert on.shown("10:").sent_packets - before.sent_packets == 20
        on.check_empty()


def test_split_gso_of_an_idle_qdisc() -> None:
    """Packets may bypass an idle root qdisc, but not if it has to segment them."""
    with link("qdisc add dev a0 root handle 10: drr_fq split-gso") as on, GsoSocket(on, 1) as gso:
        for split in (1, 0, 1):
            on.change(split_gso=split)
            before = on.statistics.gso_split
            gso.send(10)
            arrived = on.drain()
            assert len(arrived) == (10 if split else 1)
            assert on.statistics.gso_split == before + split


@pytest.mark.parametrize("parent", ["tbf", "htb", "prio/htb/drr", "hfsc", "ets", "qfq"])
@pytest.mark.parametrize(
    ("options", "fit"), [("limit 4", 4), ("limit 1", 1), (f"limit_bytes {3 * FULL + 5}", 3)]
)
def test_split_gso_exceeds_the_limits(parent: str, options: str, fit: int) -> None:
    """Only the last segments of a packet fit, into empty and into full qdiscs."""
    with valved(f"split-gso {options}", parent, burst=LARGE_BURST) as on, GsoSocket(on, 1) as gso:
        held = on.shown("10:").qlen  # a packet that a parent has peeked at counts, too
        for times in (1, 2, 3):
            gso.send(10)
            shown = on.shown("10:")
            assert shown.qlen == max(fit, held)
            assert shown.drops == 10 * times - (shown.qlen - held)
            on.check_backlogs()
        on.open_valve()
        arrived = in_order(on.drain())
        assert len(arrived.get(1, ())) == max(fit, held) - held
        # hfsc peeks at the first packet when it arrives, so that one is not dropped.
        newest = list(range(30 - fit + held + (parent == "hfsc"), 30))
        assert newest == arrived.get(1, [])[-len(newest) :] if newest else True
        on.check_empty()
        # Again, with empty queues.
        gso.send(20)
        on.drain()
        on.check_empty()


def test_split_gso_of_listed_packets() -> None:
    """Of packets that GRO lists (rx-gro-list), the first one is the list, too."""
    with link() as on, GsoSocket(on, 1) as gso:
        batch("ip", "link add c0 type veth peer name d0\nlink set c0 up\nlink set d0 up\n")
        # Each segment exceeds the limit by the overhead.
        options = f"split-gso limit_bytes {FULL}"
        batch(
            "tc",
            f"""qdisc add dev c0 root handle 10: stab overhead 24 drr_fq {options}
            qdisc add dev b0 clsact
            filter add dev b0 ingress matchall action mirred egress redirect dev c0""",
        )
        sh("ethtool -K a0 tx-udp-segmentation off")
        sh("ethtool -K b0 gro on rx-gro-list on")
        wait_for_carriers("c0", "d0")
        on.receive_at("d0")
        out = replace(on, index=socket.if_nametoindex("c0"))
        gso.send(10)
        wait_for(lambda: out.statistics.drops_oversize == 10)
        assert out.statistics.gso_split == 1
        out.change(limit_bytes=20 * FULL)
        gso.send(10)
        arrived: list[Arrival] = []

        def complete() -> bool:
            arrived.extend(on.arrivals())
            return len(arrived) >= 10

        wait_for(complete)
        assert arrived == [Arrival(1, number, FULL) for number in range(10, 20)]
        assert out.statistics.gso_split == 2


def test_gso_packets_larger_than_limit_bytes_are_dropped() -> None:
    with valved(f"limit_bytes {9 * FULL}", burst=LARGE_BURST) as on, GsoSocket(on, 1) as gso:
        on.send(2, FULL, 9)
        gso.send(10)
        shown, statistics = on.shown("10:"), on.statistics
        assert (shown.qlen, shown.drops) == (9, 1)
        assert (statistics.drops_longest, statistics.drops_oversize) == (0, 1)
        gso.send(4)
        assert on.queues[1].backlog == 4 * FULL
        assert on.shown("10:").backlog == 9 * FULL
        assert on.statistics.drops_longest == 4
        on.check_backlogs()


def test_packets_larger_than_limit_bytes_are_dropped() -> None:
    """The device's MTU was increased after the limit was set."""
    with valved(f"limit_bytes {FULL}", burst=20_000) as on:
        batch("ip", "link set a0 mtu 9000\nlink set b0 mtu 9000\n")
        on.send(1, FULL)
        assert on.send(2, FULL + 1) == 0
        assert on.statistics.drops_oversize == 1
        assert on.queues[1].qlen == 1
        on.check_backlogs()
        on.change(limit_bytes=9014)
        assert on.send(2, 5000) == 1
        assert on.queues[2].backlog == 5000


def test_overhead_of_a_stab_is_counted() -> None:
    with link(
        """qdisc add dev a0 root handle 1: stab overhead 24 mpu 84 tbf rate 8bit burst 1600 limit 1m
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 100"""
    ) as on:
        on.send(PRIMER, FULL, 2, classes=False)
        on.send(1, 100, 5)
        on.send(2, SMALLEST, 5)
        queues = on.queues
        assert queues[1].backlog == 5 * 124
        assert queues[2].backlog == 5 * 84
        assert on.shown("10:").backlog == on.shown("1:").backlog


@pytest.mark.parametrize("stab", ["overhead 24", "overhead 24 mpu 84", "linklayer atm overhead 10"])
def test_split_gso_under_a_stab(stab: str) -> None:
    """Segments have the same lengths as packets of that size."""
    with (
        link(
            f"""qdisc add dev a0 root handle 1: stab {stab} tbf rate 8bit burst 70000 limit 1m
            qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 100 split-gso"""
        ) as on,
        GsoSocket(on, 1) as gso,
    ):
        on.send(PRIMER, FULL, 50, classes=False)
        before = on.shown("10:")
        on.send(2, FULL)
        wire = on.queues[2].backlog
        assert wire >= FULL + 24
        gso.send(10)
        assert on.queues[1].backlog == 10 * wire
        assert on.shown("10:").backlog == before.backlog + 11 * wire
        assert on.shown("10:").backlog == on.shown("1:").backlog


def test_memory_limit_counts_truesize() -> None:
    """Small packets use much more memory than bytes."""
    with valved("memory_limit 64kb") as on:
        assert on.statistics.memory_used == 0
        on.send(1, SMALLEST, 500)
        on.send(2, SMALLEST, 5)
        shown, statistics = on.shown("10:"), on.statistics
        truesize = statistics.memory_used // shown.qlen
        assert truesize > 4 * SMALLEST
        assert 65536 - truesize < statistics.memory_used <= 65536
        assert statistics.drops_memory == statistics.drops_longest == 505 - shown.qlen
        assert on.queues[2].qlen == 5
        on.check_backlogs()
        on.change(memory_limit=1 << 20)
        on.send(1, SMALLEST, 100)
        assert on.shown("10:").qlen == shown.qlen + 100
        on.change(memory_limit=65536)
        assert on.statistics.memory_used <= 65536
        on.check_backlogs()
        on.open_valve()
        on.drain()
        on.check_empty()
        assert on.statistics.memory_used == 0


def test_packets_larger_than_memory_limit_are_dropped() -> None:
    """A frame of 64 kB, with its struct sk_buff."""
    with valved("memory_limit 64kb", burst=LARGE_BURST) as on:
        batch("ip", "link set a0 mtu 65535\nlink set b0 mtu 65535\n")
        on.send(2, FULL, 5)
        assert on.send(1, 65_540) == 0
        assert (on.shown("10:").qlen, on.statistics.drops_oversize) == (5, 1)
        on.check_backlogs()
