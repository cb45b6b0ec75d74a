# SPDX-License-Identifier: GPL-2.0
"""Sessions on backbones: the networks, the plans, what is made of a run, and whole runs.

What is made of a run is tried on made-up ones in which everything is known: each session is told
what is exact, at once; then something is planted, and just that has to be seen.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from pathlib import Path

import pytest
from fairlab.figures.studies import slbn
from fairlab.figures.study import Claim, Data
from fairlab.model.errors import CannotRunError, ReportedError
from fairlab.run.engine import VIRTUAL, Here, Vm
from fairlab.run.progress import Progress
from fairlab.slbn import abilene, geant, maxmin, mesh, sessions_plan, sessions_tcp
from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.sessions import Loss, Plan, Recording, Session
from fairlab.slbn.sessions_analysis import Line, quantile, summary
from fairlab.slbn.sessions_plan import Churn
from matplotlib.figure import Figure

GUEST = Vm(VIRTUAL, "6.1", None)
QUIET = Progress("none")
MBIT = 1_000_000

# --- networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [abilene.backbone(10 * MBIT), geant.mesh()])
def test_ways_back_are_the_ways_there(found: Mesh) -> None:
    for a, b in itertools.permutations(found.nodes, 2):
        there = [link.split(".") for link in found.path(a, b)]
        back = [link.split(".") for link in found.path(b, a)]
        assert there == [[y, x] for x, y in reversed(back)]


def test_geant() -> None:
    found = geant.mesh()
    assert (len(found.nodes), len(found.wires)) == (40, 61)
    assert {wire.rate for wire in found.wires} == {
        155 * MBIT, 1000 * MBIT, 2500 * MBIT, 10_000 * MBIT
    }  # fmt: skip
    # Amsterdam to Brussels: 173 km.
    assert found.near["nl"]["be"] == pytest.approx(173 * 7.5, rel=0.02)


def test_equally_short_ways_are_refused() -> None:
    square = [
        Wire("a", "b", 1, 5),
        Wire("b", "c", 1, 5),
        Wire("a", "d", 1, 5),
        Wire("d", "c", 1, 5),
    ]
    with pytest.raises(ValueError, match="equally short"):
        Mesh("square", ("a", "b", "c", "d"), tuple(square)).path("a", "c")


def test_paths_and_round_trips() -> None:
    found = Mesh("three", ("a", "b", "c"), (Wire("a", "b", 1, 5), Wire("b", "c", 2, 7)))
    assert found.path("a", "c") == ["a.b", "b.c"]
    assert found.round_trip_us("a", "c") == 24
    assert found.rates == {"a.b": 1, "b.a": 1, "b.c": 2, "c.b": 2}
    assert mesh.distance_km((0, 0), (0, 180)) == pytest.approx(20015, abs=1)


def test_bottlenecks() -> None:
    found = maxmin.solve(
        {"a": 10, "b": 30, "c": 100},
        {
            "long": maxmin.Session(["a", "b", "c"]),
            "a": maxmin.Session(["a"]),
            "b": maxmin.Session(["b", "c"]),
            "few": maxmin.Session(["c"], 1),
        },
    )
    assert found.rates == {"long": 5, "a": 5, "b": 25, "few": 1}
    assert found.bottlenecks == {"a", "b"}


# --- plans --------------------------------------------------------------------------------------


def burst_plan(seed: int = 1) -> Plan:
    network = abilene.backbone(10 * MBIT)
    churn = Churn(1, 2, leave=5, join=7, change=4)
    return Plan(
        network, sessions_plan.burst(network, 20, 0.5, [churn], 10 * MBIT, seed), 3,
        losses=(Loss(1, 2, 0.1),), deaths=((1.5, "den"),),
    )  # fmt: skip


def test_a_burst_and_churn() -> None:
    found = burst_plan().sessions
    assert len(found) == 27
    assert sum(one.join <= 0.5 for one in found) == 20
    assert sum(1 <= one.join <= 2 for one in found) == 7
    assert sum(one.leave is not None and 1 <= one.leave <= 2 for one in found) == 5
    changed = [one for one in found if one.changes]
    assert len(changed) == 4
    assert all(one.leave is None for one in changed)
    assert all(one.source != one.destination for one in found)
    assert burst_plan().sessions == found != burst_plan(2).sessions


def test_nobody_goes_to_who_is_spared() -> None:
    found = sessions_plan.burst(geant.mesh(), 200, 1, [], None, 3, spared="de")
    assert "de" not in {one.destination for one in found}
    assert "de" in {one.source for one in found}


def test_plans_survive_storage() -> None:
    plan = burst_plan()
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    drawn = sessions_tcp.draw(9, 30, ("cubic", "reno"), 1)
    tcp = sessions_tcp.TcpPlan("slbn", MBIT, drawn, 30)
    assert sessions_tcp.TcpPlan.from_json(json.loads(json.dumps(tcp.to_json()))) == tcp


@pytest.mark.parametrize("levels", range(1, 9))
def test_levels_depend_on_each_other(levels: int) -> None:
    """The exact rates of a line are those of its levels, and each wire restricts its own."""
    network = sessions_plan.line(levels, 40_000)
    found = sessions_plan.levels(levels, 1, 1, 0.01, 1)
    solved = maxmin.solve(
        network.rates,
        {
            str(n): maxmin.Session(network.path(one.source, one.destination))
            for n, one in enumerate(found)
        },
    )
    expected = [float(rate) for rate in sessions_plan.level_rates(levels) for _ in (1, 2)]
    assert [float(solved.rates[str(n)]) for n in range(len(found))] == expected
    assert solved.bottlenecks == {f"r{n}.r{n + 1}" for n in range(levels)}
    assert network.round_trip_us("r0", "r2") == 40_000


# --- what is made of a run ----------------------------------------------------------------------

CAPACITY = 12 * MBIT
LATE = 0.1


def made_up() -> Recording:
    """Three sessions over one wire, the third leaves at 2 s; rates are exact, and LATE."""
    network = Mesh("two", ("a", "b"), (Wire("a", "b", CAPACITY, 10_000),))
    found = (Session("a", "b", 0), Session("a", "b", 1), Session("a", "b", 1, 2))
    plan = Plan(network, found, 4, every=1)
    recording = Recording(plan)
    recording.asked = [(0, 0, None), (1, 1, None), (1, 2, None), (2, 2, 0)]
    third, half = CAPACITY // 3, CAPACITY // 2
    recording.rates = [(LATE, 0, CAPACITY), (1 + LATE, 0, third), (1 + LATE, 1, third)]
    recording.rates += [(1 + LATE, 2, third), (2 + LATE, 0, half), (2 + LATE, 1, half)]
    recording.last = {n: (half, 100, 0, 20_000_000, 1) for n in (0, 1)}
    recording.times = [0, 1, 2, 3, 4]
    recording.links = {
        "a.b": {"held": [0, 3000, 0, 0, 0], "control": [0, 1000, 2000, 3000, 4000]},
        "b.a": {"held": [0] * 5, "control": [0] * 5},
    }
    return recording


def test_who_is_there_and_what_is_exact() -> None:
    line = Line(made_up())
    assert line.exact(0.5).rates == {0: CAPACITY}
    assert line.exact(1.5).rates == {0: 4e6, 1: 4e6, 2: 4e6}
    assert line.exact(3).rates == {0: 6e6, 1: 6e6}
    assert line.exact(3).bottlenecks == {"a.b"}
    assert line.last_change == 2


def test_errors() -> None:
    line = Line(made_up())
    early = line.errors(1.05)
    # The first one does not know its new share yet; the others have no rate.
    assert list(early.sessions) == pytest.approx([200])
    assert early.waiting == 2
    assert list(early.links) == pytest.approx([0])
    assert list(line.errors(1.5).sessions) == pytest.approx([0, 0, 0])
    # One has left, of which the others do not know.
    assert list(line.errors(2.05).sessions) == pytest.approx([-100 / 3, -100 / 3])
    assert list(line.errors(2.05).links) == pytest.approx([-100 / 3])
    assert line.overload(1.5) == pytest.approx(0)


def test_rest() -> None:
    line = Line(made_up())
    assert line.settled(2, 4) == pytest.approx(LATE)
    assert line.settled(1, 2) == pytest.approx(LATE)
    assert (line.bits_off, line.bits_over) == (0, 0)
    # 1000 octets a second, of a wire that is handed out in full.
    assert line.control_share(3, 4) == pytest.approx(8000 / CAPACITY)
    assert [when for when, _ in line.control_peaks()] == [1, 2, 3, 4]
    assert [part for _, part in line.control_peaks()] == pytest.approx([8000 / CAPACITY] * 4)
    assert line.queue_ms() == [(0, 0), (1, 2), (2, 0), (3, 0), (4, 0)]
    assert line.queue_ms(1.5) == [(2, 0), (3, 0), (4, 0)]


def test_rates_that_are_wrong_or_move_are_seen() -> None:
    recording = made_up()
    recording.rates.append((3.5, 0, CAPACITY))
    line = Line(recording)
    assert line.settled(2, 4) is None
    assert max(line.errors(3.6).sessions) == pytest.approx(100)
    assert line.overload(3.6) == pytest.approx(0.5)
    recording.rates.append((3.8, 0, CAPACITY // 2))
    assert Line(recording).settled(2, 4) == pytest.approx(1.8)
    recording.last[0] = (CAPACITY // 2 + 7, 1, 0, 1, 1)
    assert (Line(recording).bits_off, Line(recording).bits_over) == (7, 7)


def test_who_died_counts_no_more() -> None:
    recording = made_up()
    recording.died = [(3, "a")]
    line = Line(recording)
    assert line.exact(3.5).rates == {}
    assert line.last_change == 3


def test_quantiles() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([0, 10], 0.9) == pytest.approx(9)
    assert summary([1, 2, 3]) == [2, 1.2, 2.8, 1, 3]
    assert summary([]) == []


# --- whole runs ---------------------------------------------------------------------------------


def run(name: str, work: Path, only: tuple[str, ...] = ()) -> tuple[list[Claim], Data]:
    """The quick form of a study, drawn too; its claims, and its data."""
    study = next(one for one in slbn.STUDIES if one.name == name)
    data = {}
    for case in study.cases(quick=True, seed=1):
        if only and case.name not in only:
            continue
        place = work / case.name
        place.mkdir()
        outcome = case.what.run(place, GUEST, QUIET)
        assert case.what.conditions(place)["engine"]["name"] == VIRTUAL
        data[case.name] = [json.loads(json.dumps(study.reduce(case, outcome)))]
    if not only:
        figure = Figure(layout="constrained")
        study.draw(figure, data)
        figure.savefig(work / "figure.png")
        table = study.table(data)
        assert table is None or all(len(row) == len(table.columns) for row in table.rows)
        return study.claims(data, quick=True), data
    return [], data


@pytest.mark.tier("test")
def test_a_study_from_its_plan_to_its_claims(tmp_path: Path) -> None:
    """tests/figures does so with all of them."""
    claims, _ = run("slbn-levels", tmp_path)
    assert claims
    assert [claim.text for claim in claims if not claim.holds] == []


@pytest.mark.tier("all")
def test_queues_that_grow_are_seen(tmp_path: Path) -> None:
    """A link that hands out twice what its wire carries has a queue until the end."""
    network = Mesh("two", ("a", "b"), (Wire("a", "b", 1_000_000, 10_000),))
    plan = Plan(network, (Session("a", "b", 0),), 1, packet=2000)
    crowded = dataclasses.replace(plan, handed_out=2.0)
    line = Line(crowded.run(tmp_path, GUEST, QUIET))
    assert statistics.fmean(longest for _, longest in line.queue_ms(0.5)) > 100


def test_nothing_is_run_without_virtual_time(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="virtual"):
        burst_plan().run(tmp_path, Here(lambda *_: None), QUIET)


@pytest.mark.tier("all")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # A path that is longer than packets have room for.
        ({"hops": 2}, "dropped at r2 as too_many_hops"),
        # An agent that does not even start.
        ({"pause_ms": 2000}, "slbnd: --pause: must be 1us to 1s"),
    ],
)
def test_what_the_guest_refuses(
    changes: dict[str, int], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(sessions_plan.line(4, 8000), (Session("r0", "r5", 0),), 0.5)
    with pytest.raises(ReportedError):
        dataclasses.replace(plan, **changes).run(tmp_path, GUEST, QUIET)  # type: ignore[arg-type]
    assert reason in capfd.readouterr().err
