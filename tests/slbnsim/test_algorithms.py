# SPDX-License-Identifier: GPL-2.0
"""slbnsim's algorithms, compared with published results.

Each test checks a claim, a theorem or a formula of an algorithm's paper, which it cites, on a
network that is small enough for exact results.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.slbnsim.test_slbnsim import Case, filled, link, random_network

Row = dict[str, Any]
C = 100_000_000


def rates(found: Row) -> list[int]:
    return [one["rate"] for one in found["sessions"]]


# --- levels of bottlenecks ------------------------------------------------------------------------

#: Links of a chain have 10 ms each, sessions cross two: a round-trip.
CHAIN_RTT = 0.04


def chain(directory: Path, levels: int, delay: float = CHAIN_RTT / 4, leave: str = "") -> Case:
    """Links one after another, each of which can only be settled when the one before it is.

    The first has 5 Mbit/s, and link k 20 k Mbit/s.  Session k crosses links k and k + 1.  The first
    gets 5 Mbit/s, so the second 20 - 5, so the third 40 - 15...: 10 k + 5, and that is less than
    half of link k + 1, so each is restricted at its first link.  If the first leaves, all change.
    """
    nodes = [f"n{k}" for k in range(levels + 2)]
    capacity = [5e6, *(20e6 * k for k in range(1, levels + 1))]
    links = [
        link(a, b, rate, delay) for (a, b), rate in zip(pairwise(nodes), capacity, strict=True)
    ]
    rows = [
        f"s{k},n{k},n{min(k + 2, levels + 1)},0,{'' if k else leave},," for k in range(levels + 1)
    ]
    return Case(directory, {"nodes": nodes, "links": links}, *rows)


def settled(case: Case, algorithm: str, until: str = "30s", pause: str = "0") -> float:
    """The time of the last change of a rate; checks that all rates are exact then."""
    found = case.answer(
        "run", "--algorithm", algorithm, "--control", "0", "--pause", pause, "--until", until
    )
    for one in found["sessions"]:
        assert one["rate"] == pytest.approx(one["exact"], rel=1e-6), one
    return float(found["last_change"])


def test_chain_rates(tmp_path: Path) -> None:
    exact = chain(tmp_path, 6).answer("maxmin")["sessions"]
    assert [one["exact"] for one in exact] == [5e6 + 10e6 * k for k in range(7)]


@pytest.mark.parametrize("algorithm", ["slbn", "slbn-1", "slbn-paper", "bfyz", "sperc"])
@pytest.mark.parametrize("levels", [4, 32])
def test_one_round_trip_for_each_level(tmp_path: Path, levels: int, algorithm: str) -> None:
    """Convergence in O(levels of bottlenecks) cycles, each of a round-trip.

    SLBN: Mozo and others, NCA 2012, end of section III, "upper bounded by O(b)".  BFYZ: Bartal and
    others, Algorithmica 33(3), abstract, "a linear number of maximum round-trip times".  s-PERC:
    Jose and others, SIGMETRICS 2019, at most 6 N rounds (below); here a round-trip suffices, too.
    """
    took = settled(chain(tmp_path, levels), algorithm)
    # The first session settles in one round-trip; the last Probe needs another half.  With the
    # commit, links first have to learn that sources have stopped using more than the plan.
    more = 3 if algorithm == "slbn" else 1
    assert (levels - 1) * CHAIN_RTT <= took <= (levels + more) * CHAIN_RTT


@pytest.mark.parametrize("levels", [2, 4, 8])
def test_sperc_converges_in_six_rounds_for_each_level(tmp_path: Path, levels: int) -> None:
    """Jose and others, SIGMETRICS 2019, abstract and theorem: 6 N rounds.

    N is the number of iterations of 2-Waterfilling.  Each fills all links that have the least share
    among their neighbours (links with a common session) and the neighbours of these: on the chain
    one link.  A round is 250 ms here (sperc.c).  At 1 s the first session leaves: then the second
    link has more, the third less..., so some offers have to be ignored.
    """
    took = settled(chain(tmp_path, levels, leave="1"), "sperc", "20s", pause="5ms")
    assert 1 + (levels - 1) * CHAIN_RTT < took <= 1 + 6 * levels * 0.25


def test_sperc_ignores_low_offers(tmp_path: Path) -> None:
    """Jose and others, SIGMETRICS 2019: the purpose of MaxE.

    On a > b (100 Mbit/s) "far" is counted with its demand of 90, which only changes when its packet
    passes again, at 1.05 s.  At 1 s "new" joins, and is offered the remaining 10.  That is less
    than the 90, so b > c (30 Mbit/s) ignores it, and offers 15 to "near", not 20.
    """
    links = [link("far", "a", 1e9, 0.05), link("a", "b", 1e8, 0.001), link("b", "c", 3e7, 0.001)]
    links += [link("b", "end", 1e9, 0.049)]
    topology = {"nodes": ["far", "a", "b", "c", "end"], "links": links}
    rows = ("far,far,end,0,,90000000,", "near,b,c,0,,,", "new,a,c,1,,,")
    case = Case(tmp_path, topology, *rows)
    options = ("--algorithm", "sperc", "--control", "0", "--pause", "0", "--until")
    assert rates(case.answer("run", *options, "0.999")) == [90e6, 30e6, 0]
    assert rates(case.answer("run", *options, "1.04"))[1] == 15e6
    assert rates(case.answer("run", *options, "3")) == [85e6, 15e6, 15e6]


def test_sperc_max_e_expires(tmp_path: Path) -> None:
    """Jose and others, SIGMETRICS 2019: MaxE is the maximum of two rounds, not of all time.

    "gone" had 60 Mbit/s on a > b; then four sessions have 25 each.  If MaxE stayed 60, b > c would
    ignore the 25 of "on", offer it 50, and leave only 50 instead of 75 to "rest".
    """
    links = [link("a", "b", 1e8, 0.005), link("b", "c", 1e8, 0.005)]
    rows = ["gone,a,b,0,1,60000000,", "rest,b,c,2,,,", "on,a,c,2,,,"]
    rows += [f"s{n},a,b,2,,," for n in range(3)]
    case = Case(tmp_path, {"nodes": ["a", "b", "c"], "links": links}, *rows)
    found = case.answer("run", "--algorithm", "sperc", "--control", "0", "--until", "4")
    assert rates(found) == [0, 75e6, 25e6, 25e6, 25e6, 25e6]


@pytest.mark.parametrize("levels", [2, 4, 8, 16])
def test_cobb_converges_in_two_rounds_for_each_level(tmp_path: Path, levels: int) -> None:
    """In one round sources probe with their granted rates, in the next one links count these.

    Cobb and Gouda, SSS 2008: rounds, constant state at links, and the network stabilizes.
    """
    took = settled(chain(tmp_path, levels), "cobb")
    assert levels * 0.25 < took <= (2 * levels + 4) * 0.25


def test_cobb_needs_rounds_longer_than_round_trips(tmp_path: Path) -> None:
    """Its T "must be greater than protocol packet RTT": NCA 2012, related work.  Here 250 ms."""
    assert settled(chain(tmp_path, 4, delay=0.055), "cobb") < 8  # 220 ms
    with pytest.raises(AssertionError):
        settled(chain(tmp_path, 4, delay=0.085), "cobb")  # 340 ms


@pytest.mark.parametrize("seed", range(15))
def test_cobb_is_exact_on_random_networks(tmp_path: Path, seed: int) -> None:
    """It stabilizes at the max-min fair rates, though sessions send no Leave."""
    draw = random.Random(seed)
    topology, rows = random_network(draw, draw.choice((2, 10, 60)))
    case = Case(tmp_path, topology, *rows)
    found = case.answer("run", "--algorithm", "cobb", "--control", "0", "--until", "10s")
    wanted = filled(topology, rows)
    for one in found["sessions"]:
        assert one["rate"] == pytest.approx(wanted.get(one["id"], 0.0), rel=1e-4, abs=100), one


# --- one bottleneck, with data --------------------------------------------------------------------


class Bottleneck:
    """Sessions that share one link of C, and have the same round-trip [s]."""

    def __init__(
        self, directory: Path, rtt: float, *calls: str, rate: float = C, options: str = ""
    ) -> None:
        """Calls are a session's join, leave, demand and bytes, as in the file."""
        self.options = options.split()
        count = range(len(calls))
        links = [link("left", "right", rate, rtt / 4)]
        links += [link(f"s{n}", "left", 10 * rate, rtt / 8) for n in count]
        links += [link("right", f"d{n}", 10 * rate, rtt / 8) for n in count]
        nodes = ["left", "right", *(f"{end}{n}" for end in "sd" for n in count)]
        rows = [f"f{n},s{n},d{n},{call}" for n, call in enumerate(calls)]
        self.case = Case(directory, {"nodes": nodes, "links": links}, *rows)
        self.rate = rate

    def run(self, algorithm: str, until: float, data: str = "fluid") -> Row:
        return self.case.answer(
            "run", "--algorithm", algorithm, "--until", f"{until:.6f}s", "--data", data,
            "--pause", "0", *self.options,
        )  # fmt: skip

    def shares(self, algorithm: str, when: float) -> list[float]:
        """Rates of the sources, as fractions of the link."""
        return [rate / self.rate for rate in rates(self.run(algorithm, when))]

    def round_trip(self, algorithm: str, begin: float, end: float, sessions: int) -> float:
        """With queueing: each session always has one packet under way."""
        cycles = [self.run(algorithm, when)["cycles"] for when in (begin, end)]
        return sessions * (end - begin) / float(cycles[1] - cycles[0])


def logistic(growth: float, time: float) -> float:
    """A rate that follows R' = growth R (1 - R), a quarter at first."""
    return 1 / (1 + 3 * math.exp(-growth * max(time, 0)))


#: Four sessions join one after another; then all but one leave.
ALL_BUT_ONE = ("0,,,", "15,60,,", "30,60,,", "45,60,,")


@pytest.mark.parametrize("rtt", [0.04, 0.1])
def test_rcp_follows_its_equation(tmp_path: Path, rtt: float) -> None:
    """Dukkipati and others, IWQoS 2005: the equation for R(t).

    N sessions with the same round-trip time get C / N each, and the queue is empty.  When all but
    one leave, R' = alpha / d (C - R) R / C, whose solution is the logistic curve.  The source is
    notified of R about one round-trip later.
    """
    net = Bottleneck(tmp_path, rtt, *ALL_BUT_ONE)
    assert net.shares("rcp", 59.9) == pytest.approx([0.25] * 4, rel=0.005)
    assert net.round_trip("rcp", 55, 59.9, 4) == pytest.approx(rtt, rel=0.03)
    for times in (5, 10, 20, 30, 40, 60):
        share = net.shares("rcp", 60 + times * rtt)[0]
        assert share == pytest.approx(logistic(0.1 / rtt, (times - 1) * rtt), abs=0.035)


@pytest.mark.parametrize("rtt", [0.02, 0.1])
@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_rcp_flow_completion_time(tmp_path: Path, rtt: float, size: int) -> None:
    """Dukkipati and McKeown, CCR 36(1), 2006 (and IWQoS 2005): 1.5 RTT + L / C.

    Alone on a link a flow of L hears of all of C in its first round-trip, and the last bit needs
    half of one.
    """
    net = Bottleneck(tmp_path, rtt, f"2,,,{size}", options="--initial-rate 100")
    found = net.run("rcp", 4, data="1000")
    took = found["sessions"][0]["complete"] - 2
    assert took == pytest.approx(1.5 * rtt + 8 * size / C, abs=0.0002)


@pytest.mark.parametrize("algorithm", ["rcp", "piqi-rcp"])
def test_initial_rate(tmp_path: Path, algorithm: str) -> None:
    """rcp.cc of the authors for ns-2: a link begins with a twentieth of its capacity."""
    for options, part in (("", 0.05), ("--initial-rate 20", 0.2), ("--initial-rate 100", 1)):
        net = Bottleneck(tmp_path, 0.002, "0,,,", options=options)
        assert net.shares(algorithm, 0.004)[0] == pytest.approx(part, rel=0.01)


def test_rcp_sets_rates_when_packets_leave_the_queue(tmp_path: Path) -> None:
    """rcp.cc of the authors for ns-2: at the end of the queue.

    Two sessions with R = C add C t to the queue, and with d = 0.2 s at first R falls as
    exp(-alpha t / d - beta t^2 / (2 d^2)), so it is 0.84 C at 0.1 s.  The packet that joins then
    waits for nearly as long, and has the R of its end.
    """
    calls = ("0,,,", "0,,,", "0.1,,,")
    net = Bottleneck(tmp_path, 0.004, *calls, options="--initial-rate 100")
    assert min(net.shares("rcp", 0.1)[:2]) > 0.84
    assert 0 < net.shares("rcp", 0.25)[2] < 0.6


@pytest.mark.parametrize("rtt", [0.04, 0.1])
def test_piqi_rcp_ignores_queues_and_does_not_overshoot(tmp_path: Path, rtt: float) -> None:
    """Jain and Loguinov, IWQoS 2007: queue-independent, stable, kappa = T / (2 (T + RTT)).

    When sessions join, the link is overloaded for a while; the queue remains while all have C / N
    (RCP would drain it).  When all but one leave, the rate of that one never falls, reaches C
    within a few time constants 2 (T + RTT), as the rule says, and stays there.  RTT includes the
    queueing delay.
    """
    net = Bottleneck(tmp_path, rtt, *ALL_BUT_ONE)
    assert net.shares("piqi-rcp", 59.9) == pytest.approx([0.25] * 4, rel=0.01)
    whole = net.round_trip("piqi-rcp", 55, 59.9, 4)
    assert 1.2 * rtt < whole < 4 * rtt
    constant = 2 * (0.005 + whole)
    times = [0.5 * n for n in range(1, 11)]
    found = [net.shares("piqi-rcp", 60 + time * constant)[0] for time in times]
    assert all(later > before - 0.001 for before, later in pairwise(found))
    assert max(found) <= 1
    assert found[-1] == pytest.approx(1, rel=0.001)
    # The rule itself, in steps of T, delayed by a round-trip in each direction.
    steps = round(whole / 0.005)
    course = [0.25] * (2 * steps)
    while len(course) < 2 * steps + 2.5 * constant / 0.005:
        course.append(course[-1] * (1 + 0.005 / constant * (1 - course[-steps])))
    for time, share in zip(times[:4], found, strict=False):
        assert share == pytest.approx(course[steps + round(time * constant / 0.005)], abs=0.1)


def test_xcp_converges_as_sources_join(tmp_path: Path) -> None:
    """Katabi, Handley, Rohrs, SIGCOMM 2002, figure 10: "Convergence Dynamics".

    Five sources join a link of 45 Mbit/s, 2 s apart, with round-trips of 40 ms.  After each join
    the shares become equal, since a tenth of the traffic is shuffled in each round-trip; the
    utilization hardly drops, and the queue absorbs the new traffic and drains afterwards.
    """
    rtt, apart = 0.04, 2.0
    calls = [f"{apart * n:.1f},,," for n in range(5)]
    net = Bottleneck(tmp_path, rtt, *calls, rate=45e6)
    for count in range(1, 6):
        came = apart * (count - 1)
        early = net.shares("xcp", came + 15 * rtt)
        late = net.shares("xcp", came + apart - rtt)
        if count > 1:
            assert sum(early) == pytest.approx(1, abs=0.05)
            assert early[count - 1] > 0.4 / count
        # A single source gets feedback once in a round-trip instead of for each packet.
        assert sum(late) == pytest.approx(1, abs=0.02 if count > 1 else 0.1)
        assert late[:count] == pytest.approx([sum(late) / count] * count, rel=0.06)
    found = net.run("xcp", 5 * apart)
    assert max(one["longest_wait_ns"] for one in found["links"]) < 0.5 * rtt * 1e9
    # The queue is empty in the end.
    assert net.round_trip("xcp", 3 * apart - 0.5, 3 * apart, 3) == pytest.approx(rtt, rel=0.1)


@pytest.mark.parametrize("rtt", [0.02, 0.1])
def test_erica_utilization_and_target_delay(tmp_path: Path, rtt: float) -> None:
    """Kalyanaraman and others, ToN 8(1), 2000, ERICA+: full utilization, and a target delay T0.

    With an empty queue the target rate is b = 1.05 of the capacity; with a queueing delay of T0
    it is the capacity.  T0 is long enough for the path here (erica.c).
    """
    net = Bottleneck(tmp_path, rtt, "0,,,", options="--target-delay 30ms --decay 0")
    assert net.shares("erica", 1.5 * rtt)[0] == pytest.approx(1.05, rel=0.001)
    assert net.shares("erica", 20)[0] == pytest.approx(1, rel=0.001)
    assert net.round_trip("erica", 15, 20, 1) == pytest.approx(rtt + 0.03, abs=0.003)


def test_erica_target_delay_of_its_authors(tmp_path: Path) -> None:
    """ATM Forum 98-0408, section 5.3: T0 of 1.5 ms, which the queue has on a short path."""
    net = Bottleneck(tmp_path, 0.02, "0,,,")
    assert net.shares("erica", 20)[0] == pytest.approx(1, rel=0.001)
    assert net.round_trip("erica", 15, 20, 1) == pytest.approx(0.02 + 0.0015, abs=0.0005)


@pytest.mark.parametrize(
    ("options", "decay"), [("--decay 0", 0.0), ("", 0.8), ("--decay 95", 0.95)]
)
def test_erica_averages(tmp_path: Path, options: str, decay: float) -> None:
    """The same: exponential averages, with a decay factor of 0.8.

    When one of two sessions has left, the average of their number is 1 + decay^n after n intervals
    of 5 ms, and the fair share is the target, 1.05 of the link, divided by that.
    """
    net = Bottleneck(tmp_path, 0.002, "0,,,", "0,5,,", options=options)
    shares = [net.shares("erica", 5 + 0.005 * n)[0] for n in (2, 3)]
    for n, share in enumerate(shares, 2):
        assert 0.9 / (1 + decay ** (n - 1)) <= share <= 1.06 / (1 + decay ** (n + 1))


def test_erica_fair_share(tmp_path: Path) -> None:
    """ToN 8(1), 2000: each source gets the fair share, a new one within a round-trip.

    At times there is a queue and so a target rate below the capacity, hence the tolerance.
    """
    rtt = 0.1
    calls = [f"{5 * n},,," for n in range(4)]
    net = Bottleneck(tmp_path, rtt, *calls, options="--target-delay 30ms --decay 0")
    for count in (2, 3, 4):
        shares = net.shares("erica", 5 * (count - 1) + 1.7 * rtt)
        assert shares[count - 1] >= 0.8 / count
        shares = net.shares("erica", 5 * count - 0.1)
        assert shares[:count] == pytest.approx([1 / count] * count, rel=0.15)


def test_erica_redistributes_unused_shares(tmp_path: Path) -> None:
    """ToN 8(1), 2000, the rule for VCShare: others get what a source restricted elsewhere leaves.

    With the fair share alone (50 Mbit/s) the link would stay underused.  The fair share is not a
    whole number of bit/s here, but a source's rate is.
    """
    links = [link("a", "m", 1e8, 0), link("m", "z", 1e8 + 1, 0.05), link("b", "n", 2e7, 0.02)]
    links += [link("n", "m", 1e8, 0.01)]
    topology = {"nodes": ["a", "b", "m", "n", "z"], "links": links}
    case = Case(tmp_path, topology, "far,a,z,0,,,", "slow,b,z,0,,,")
    sent = [
        [
            one["arrived"]
            for one in case.answer(
                "run",
                "--algorithm",
                "erica",
                "--data",
                "fluid",
                "--until",
                until,
                "--target-delay",
                "30ms",
                "--decay",
                "0",
            )["sessions"]  # fmt: skip
        ]
        for until in ("6", "16")
    ]
    far, slow = (8 * (after - before) / 10 for before, after in zip(*sent, strict=True))
    assert far == pytest.approx(80e6, rel=0.05)
    assert slow == pytest.approx(20e6, rel=0.02)
