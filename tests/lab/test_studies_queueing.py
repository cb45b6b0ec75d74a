# SPDX-License-Identifier: GPL-2.0
"""The model of a queue behind fq-active-flows, and its claims on made-up data."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from fairlab.figures.studies import queueing
from fairlab.figures.studies.queue_model import DRR, FIFO, RR, SCFQ, Link, Scheduler
from fairlab.figures.studies.queueing import Active
from fairlab.model.background import Bin
from matplotlib.figure import Figure

from tests.lab.labtools import held


def sent(kind: str, packets: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The first COUNT of PACKETS (flow, size) that a scheduler sends."""
    queue = Scheduler(kind)
    for flow, size in packets:
        queue.put(flow, size)
    return [queue.get() for _ in range(count)]


def test_order_of_packets() -> None:
    packets = [(1, 300)] * 3 + [(2, 300)] * 2 + [(3, 300)]
    assert [flow for flow, _ in sent(FIFO, packets, 6)] == [1, 1, 1, 2, 2, 3]
    for kind in (RR, SCFQ):
        assert [flow for flow, _ in sent(kind, packets, 6)] == [1, 2, 3, 1, 2, 1], kind


@pytest.mark.parametrize(("kind", "ratio"), [(DRR, 1), (SCFQ, 1), (RR, 5)])
def test_shares_of_flows_with_packets_of_different_sizes(kind: str, ratio: float) -> None:
    packets = [packet for _ in range(3000) for packet in ((1, 300), (2, 1500))]
    octets: Counter[int] = Counter()
    for flow, size in sent(kind, packets, 1200):
        octets[flow] += size
    assert octets[2] / octets[1] == pytest.approx(ratio, rel=0.03)


def test_flows_without_packets_are_forgotten() -> None:
    for kind in (DRR, RR, SCFQ, FIFO):
        queue = Scheduler(kind)
        for flow in (1, 2, 1):
            queue.put(flow, 300)
        for _ in range(3):
            queue.get()
        assert not queue.queues and not queue.turns and not queue.tags and not queue.credit


def test_the_model_has_the_limited_flows_of_the_theory() -> None:
    """r / (1 - r) on average, for a load of 0.4 of the half that the others leave: four."""
    found = [Link(DRR, 50_000_000, seed, 60_000).outcome() for seed in range(1, 13)]
    means = [sum(n * part for n, part in enumerate(one["limited"])) for one in found]
    assert sum(means) / len(means) == pytest.approx(4, rel=0.3)
    for one in found:
        assert all(sum(shares) == pytest.approx(1) for shares in one.values())
    again = Link(DRR, 50_000_000, 1, 60_000).outcome()
    assert again == found[0]


def run(active_mean: float = 12, **most: int) -> dict[str, Any]:
    """The numbers of a run."""
    at_least = [round(0.8**i, 6) for i in range(21)]
    found = {}
    for name, number in (("active", 60), ("limited", 18), ("packets", 70)):
        mean = active_mean if name == "active" else 4
        top = most.get(name, number)
        found[name] = {"mean": mean, "high": top, "most": top, "at_least": at_least}
    return found


def made_up() -> dict[str, Any]:
    return {case.name: [run()] for case in Active().cases(quick=False, seed=1)}


def test_each_claim_can_fail() -> None:
    study, data = Active(), made_up()
    # The slide's own example is off its formula by ten.
    errata = {"erratum"}

    def broken(change: dict[str, Any]) -> set[str]:
        return {id for id, holds in held(study, data | change).items() if not holds} - errata

    assert broken({}) == set() and not held(study, data)["erratum"]
    assert broken({"rr-50": [run(limited=101)]}) == {"limited"}
    assert broken({"scfq-5000": [run(packets=1001)]}) == {"packets"}
    assert broken({"drr-500": [run(active=501)]}) == {"most"}
    assert broken({"drr-5000": [run(16)]}) == {"rate"}
    assert broken({"scfq-500": [run(5)]}) == {"any"}
    rare = run()
    rare["limited"]["at_least"][10] /= 3
    assert broken({"drr-50": [rare]}) == {"mix"}
    # Of a FIFO nothing is published.
    assert broken({"fifo-5000": [run(5000, active=1999, packets=1999)]}) == set()


def test_counts_that_ended_are_at_least_that() -> None:
    """Of RR's runs one had more packets than it counted."""
    study = Active()
    data = made_up() | {"rr-50": [run(), run(packets=2000)]}
    rows = {(row["link"], row["scheduler"]): row for row in study.rows(data)}
    row = rows["50 Mbit/s", "RR"]
    at_least = "\N{GREATER-THAN OR EQUAL TO} "
    assert row["other packets: 99.9 %"] == f"{at_least}1035" and row["active flows: most"] == "60"
    figure = Figure(layout="constrained")
    study.draw(figure, data)
    (note,) = [text.get_text() for text in figure.axes[1].texts]
    assert note == "at least: 1 runs\ncount up to 2,000"


def test_the_wait_of_background_packets() -> None:
    """Means over packets, not over bins; without half of the round trip, and the warm-up."""
    rows: list[tuple[float, int, int, float, float]] = [
        (104.0, 9, 9, 9.0, 9.0),
        (106.0, 4, 3, 0.18, 0.07),
        (107.0, 1, 1, 0.1, 0.1),
        (108.0, 1, 0, 0.0, 0.0),
        (119.5, 9, 9, 9.0, 9.0),
    ]
    bins = [Bin(row[0], row[0] + 0.1, *row[1:]) for row in rows]
    report = SimpleNamespace(bins=bins)
    outcome: Any = SimpleNamespace(
        backgrounds={queueing.BESIDE: report}, window=(5.0, 20.0), document={"begin": 100.0}
    )
    assert queueing.background_wait(outcome) == [20.0, 50.0]
    report.bins = []
    assert queueing.background_wait(outcome) == []
    runs: list[dict[str, Any]] = [{"wait_ms": [20.0, 50.0]}, {"wait_ms": []}, {}]
    assert queueing.waits(runs) == [20.0]


def test_stored_numbers_and_drawing() -> None:
    study = Active()
    data = {}
    for case in study.cases(quick=True, seed=1):
        assert isinstance(case.what, Link)
        data[case.name] = [study.reduce(case, case.what.outcome())]
    for numbers in data.values():
        for found in numbers[0].values():
            assert found["mean"] <= found["high"] + 1 <= found["most"] + 1
            assert found["at_least"][0] == pytest.approx(1) and len(found["at_least"]) == 21
    study.draw(Figure(layout="constrained"), data)
    table = study.table(data)
    assert table and len(table.rows) == 12
    assert {len(row) for row in table.rows} == {len(table.columns)}
