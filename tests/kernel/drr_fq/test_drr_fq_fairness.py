# SPDX-License-Identifier: GPL-2.0
"""Fairness of the schedulers, measured by the order of departures.

Shreedhar and Varghese, SIGCOMM 1995: with DRR, the bytes sent by any two flows that were
backlogged all the time differ by less than Quantum + Max since the start (each flow has had k or
k + 1 turns, and lacks less than Max of k Quantum), and by at most Quantum + 2 Max in any interval.
Golestani, INFOCOM 1994: with SCFQ by at most the sum of the largest packets of both.  With round
robin, the numbers of packets differ by at most one.

The tests do not depend on time.  Either all packets are queued behind a closed valve before the
first is sent, or the valve sends some bytes (its burst) on request.
"""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.kernel.lib.drr_fq import (
    HEADER,
    HEADERS,
    MTU,
    NUMBERED,
    PORT,
    SMALLEST,
    SO_SNDBUFFORCE,
    Arrival,
    GsoSocket,
    Link,
    valved,
)
from tests.kernel.lib.net import connection, pair, sh, wait_for

FULL = MTU + HEADER
LARGE_BURST = 70_000
SIZES = {1: 64, 2: 576 + HEADER, 3: FULL}
GSO_FLOW, GSO_SEGMENTS = 4, 4
MIXED_FLOW = 5
FLOWS = (*SIZES, GSO_FLOW, MIXED_FLOW)
ENOUGH = "limit 1000000 limit_bytes 1gb"


def while_all_are_backlogged(arrivals: list[Arrival]) -> list[Arrival]:
    """The departures up to the last one of the flow that ends first."""
    last = {each.flow: place for place, each in enumerate(arrivals)}
    return arrivals[: min(last.values()) + 1]


def check_spread(
    flows: Iterable[int],
    arrivals: list[Arrival],
    amount: Callable[[Arrival], int],
    since_start: int,
    any_interval: Callable[[int, int], int],
) -> None:
    """Check that the difference of any two flows stays within these bounds."""
    sent: Counter[int] = Counter()
    most: dict[tuple[int, int], int] = Counter()
    least: dict[tuple[int, int], int] = Counter()
    pairs = list(itertools.combinations(sorted(flows), 2))
    assert pairs
    for each in arrivals:
        sent[each.flow] += amount(each)
        for pair_of in pairs:
            apart = sent[pair_of[0]] - sent[pair_of[1]]
            most[pair_of] = max(most[pair_of], apart)
            least[pair_of] = min(least[pair_of], apart)
    for pair_of in pairs:
        assert max(most[pair_of], -least[pair_of]) <= since_start
        assert most[pair_of] - least[pair_of] <= any_interval(*pair_of)


def departures(options: str, volume: int, seed: int) -> list[Arrival]:
    """Departures of small, medium, large, mixed and GSO packets, all queued before the first."""
    rng = random.Random(seed)
    with valved(f"{ENOUGH} {options}", burst=LARGE_BURST) as on, GsoSocket(on, GSO_FLOW) as gso:
        for flow, length in SIZES.items():
            on.send(flow, length, volume // length)
        left = volume
        while left > 0:
            length = rng.randrange(SMALLEST, FULL + 1)
            on.send(MIXED_FLOW, length)
            left -= length
        left = volume
        while left > 0:
            segments = rng.randrange(1, 41)
            gso.send(segments)
            left -= segments * FULL
        assert on.shown("10:").drops == 0
        on.open_valve()
        return while_all_are_backlogged(on.drain())


@pytest.mark.parametrize("quantum", [256, 300, FULL, 20_000, 100_000])
def test_drr_fairness_bounds(quantum: int) -> None:
    arrivals = departures(f"quantum {quantum}", 300_000, quantum)
    largest = max(each.length for each in arrivals)
    assert largest > 30 * FULL
    check_spread(
        FLOWS,
        arrivals,
        lambda each: each.length,
        quantum + largest,
        lambda first, second: quantum + 2 * largest,
    )


def test_scfq_fairness_bounds() -> None:
    arrivals = departures("scheduler scfq", 300_000, 7)
    largest = Counter[int]()
    for each in arrivals:
        largest[each.flow] = max(largest[each.flow], each.length)
    check_spread(
        FLOWS,
        arrivals,
        lambda each: each.length,
        max(largest.values()) * 2,
        lambda first, second: largest[first] + largest[second],
    )


def test_rr_sends_one_packet_per_turn() -> None:
    arrivals = departures("scheduler rr", 150_000, 8)
    check_spread(FLOWS, arrivals, lambda each: 1, 1, lambda first, second: 1)


@pytest.mark.parametrize("scheduler", ["drr", "scfq", "rr"])
def test_new_flow_gets_no_credit_for_idle_time(scheduler: str) -> None:
    """A flow gets its share from its first packet on, independently of its idle time."""
    with valved(f"scheduler {scheduler}", burst=20_000) as on:
        on.send(1, 1000, 400)
        first: list[Arrival] = []

        def sent() -> bool:
            """A burst is lost if the one before it was not sent yet, which the kernel may defer."""
            on.valve(1)
            on.kick_valve()
            first.extend(on.arrivals())
            return len(first) > 200

        wait_for(sent)
        on.send(2, 500, 100)
        on.open_valve()
        arrivals = while_all_are_backlogged(on.drain())
        place = [each.flow for each in arrivals].index(2)
        assert place <= 3, "the new flow waited for more than a turn"
        del arrivals[:place]
        amount = (lambda each: 1) if scheduler == "rr" else (lambda each: each.length)
        bound = 1 if scheduler == "rr" else FULL + 2 * 1000
        check_spread((1, 2), arrivals, amount, bound, lambda first, second: bound)


class Flood:
    """A UDP socket that sends more than its share, on request."""

    def __init__(self, on: Link, flow: int, length: int) -> None:
        self.on = on
        self.flow = flow
        self.length = length
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 29)
        self.socket.connect(("10.0.0.2", PORT))

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, volume: int) -> None:
        for _ in range(-(-volume // self.length)):
            number = self.on.next_number[self.flow]
            self.on.next_number[self.flow] += 1
            data = NUMBERED.pack(self.flow, number)
            self.socket.send(data.ljust(self.length - HEADERS, b"\0"))


@pytest.mark.machines
@pytest.mark.parametrize("scheduler", ["drr", "scfq", "rr"])
def test_floods_get_equal_shares(scheduler: str) -> None:
    """Sockets with packets of 64, 576 and 1500 bytes and GSO send twice the link's rate.

    While the queue overflows, their shares in bytes are equal within 1 % (drr) or 3 % (scfq); with
    rr, their numbers of packets are, within 3 %.
    """
    burst, steps = 20_000, 300 if scheduler == "drr" else 60
    with (
        valved(f"limit 400 flows 65536 scheduler {scheduler}", burst=burst) as on,
        Flood(on, 1, SIZES[1]) as small,
        Flood(on, 2, SIZES[2]) as medium,
        Flood(on, 3, SIZES[3]) as large,
        GsoSocket(on, GSO_FLOW) as gso,
    ):
        before = on.statistics.new_flows
        received: Counter[int] = Counter()
        packets: Counter[int] = Counter()
        for _ in range(steps):
            for flood in (small, medium, large):
                flood.send(2 * burst // 4)
            for _ in range(3):
                gso.send(GSO_SEGMENTS)
            on.valve(1)
            on.kick_valve()
            time.sleep(0.001)  # The kernel may leave the reception to ksoftirqd.
            for each in on.arrivals():
                received[each.flow] += each.length
                packets[each.flow] += 1
        statistics = on.statistics
        assert statistics.new_flows == before + 4, "a flow's queue ran empty"
        assert statistics.collisions == 0
        assert statistics.drops_longest > 1000
        counted = packets if scheduler == "rr" else received
        tolerance = 0.01 if scheduler == "drr" else 0.03
        mean = counted.total() / 4
        assert counted == pytest.approx(dict.fromkeys(counted, mean), rel=tolerance)
        assert len(counted) == 4


@pytest.mark.machines
@pytest.mark.stock
@pytest.mark.newer
@pytest.mark.parametrize("options", ["limit 30", "limit 30 split-gso", "limit_bytes 70000"])
def test_tcp_data_is_intact(options: str) -> None:
    """A connection with segmentation offload fills a short queue at 50 Mbit/s."""
    with pair("delay 5ms") as net:
        net.a.sh("ethtool -K a0 tso on gso on >/dev/null")
        sh(
            f"""tc -n {net.a.name} -batch - <<E
            qdisc add dev a0 root handle 1: htb default 1
            class add dev a0 parent 1: classid 1:1 htb rate 50mbit
            qdisc add dev a0 parent 1:1 handle 10: drr_fq {options}
            """
        )
        with connection(net, "bic") as flow:
            flow.pump(1_500_000)
            flow.settle()
        shown = sh(f"tc -n {net.a.name} -s qdisc show dev a0").stdout
        assert "drops_longest" in shown
