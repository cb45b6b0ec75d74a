# SPDX-License-Identifier: GPL-2.0
"""Sessions on backbones: networks, plans, the analysis of a run, and whole runs.

The analysis is tested on made-up runs: each session is assigned its max-min rate with a constant
delay; then a fault is planted, and the analysis must find exactly that fault.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures.studies import forms, slbn
from fairlab.figures.study import Data
from fairlab.model.errors import CannotRunError, ReportedError
from fairlab.model.network import Network, Trunk
from fairlab.run.engine import VIRTUAL, Here, Vm
from fairlab.run.progress import Progress
from fairlab.slbn import abilene, geant, maxmin, mesh, sessions, sessions_plan, sessions_tcp
from fairlab.slbn.experiment import TCP_PART, Flow
from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.network import trunks
from fairlab.slbn.record import Record
from fairlab.slbn.sessions import Plan
from fairlab.slbn.sessions_analysis import Comparison, summary
from fairlab.slbn.sessions_plan import Churn, Loss, Session
from matplotlib.figure import Figure

from tests.lab.labtools import held

GUEST = Vm(VIRTUAL, "6.1", None)
QUIET = Progress("none")
MBIT = 1_000_000

# --- networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [abilene.backbone(10 * MBIT), geant.mesh()])
def test_paths_are_symmetric(found: Mesh) -> None:
    for a, b in itertools.permutations(found.nodes, 2):
        there = [link.split(".") for link in found.path(a, b)]
        back = [link.split(".") for link in found.path(b, a)]
        assert there == [[y, x] for x, y in reversed(back)]


def test_geant_has_40_nodes_and_61_links() -> None:
    found = geant.mesh()
    assert (len(found.nodes), len(found.wires)) == (40, 61)
    assert {wire.rate for wire in found.wires} == {
        155 * MBIT, 1000 * MBIT, 2500 * MBIT, 10_000 * MBIT
    }  # fmt: skip
    # Amsterdam to Brussels: 173 km.
    assert found.near["nl"]["be"] == pytest.approx(173 * 7.5, rel=0.02)


def test_ambiguous_shortest_paths_are_refused() -> None:
    square = [
        Wire("a", "b", 1, 5),
        Wire("b", "c", 1, 5),
        Wire("a", "d", 1, 5),
        Wire("d", "c", 1, 5),
    ]
    with pytest.raises(ValueError, match="equally short"):
        Mesh("square", ("a", "b", "c", "d"), tuple(square)).path("a", "c")


def test_path_and_round_trip_time() -> None:
    found = Mesh("three", ("a", "b", "c"), (Wire("a", "b", 1, 5), Wire("b", "c", 2, 7)))
    assert found.path("a", "c") == ["a.b", "b.c"]
    assert found.round_trip_us("a", "c") == 24
    assert found.rates == {"a.b": 1, "b.a": 1, "b.c": 2, "c.b": 2}
    assert mesh.distance_km((0, 0), (0, 180)) == pytest.approx(20015, abs=1)


def test_max_min_rates_and_bottlenecks() -> None:
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


def test_burst_and_churn_counts() -> None:
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


def test_spared_node_is_never_a_destination() -> None:
    found = sessions_plan.burst(geant.mesh(), 200, 1, [], None, 3, spared="de")
    assert "de" not in {one.destination for one in found}
    assert "de" in {one.source for one in found}


def test_plans_survive_json() -> None:
    plan = burst_plan()
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    drawn = sessions_tcp.draw(9, 30, ("cubic", "reno"), 1)
    tcp = sessions_tcp.TcpPlan("slbn", MBIT, drawn, 30)
    assert sessions_tcp.TcpPlan.from_json(json.loads(json.dumps(tcp.to_json()))) == tcp


@pytest.mark.parametrize(
    ("variant", "kinds"), [("slbn", {"drr_fq", "fq"}), ("drr_fq", {"drr_fq"}), ("pfifo", {"pfifo"})]
)
def test_links_of_tcp_have_the_queues_that_the_figure_names(variant: str, kinds: set[str]) -> None:
    """fq is that of uplinks, which slbnd paces."""
    drawn = sessions_tcp.draw(9, 30, ("cubic",), 1)
    for paper in (False, True):
        built = sessions_tcp.TcpPlan(variant, MBIT, drawn, 30, paper).network()
        found = [end.queue for end in trunks(built) if isinstance(end.queue, Trunk)]
        assert {trunk.data.kind for trunk in found} == kinds
        assert {bool(trunk.slbn) for trunk in found} == {variant == "slbn"}


def test_links_that_never_recover_lose_no_control_packets() -> None:
    """Those of the paper's form: a link that drops some keeps wrong sums for ever."""

    def limits(network: Network) -> set[bool]:
        found = [end.queue for end in trunks(network) if isinstance(end.queue, Trunk)]
        return {"control 100%" in trunk.slbn_words for trunk in found}

    class Dropping:
        """A laboratory whose links have dropped control packets above their limit."""

        def shell(self, node: str, command: str) -> str:
            return json.dumps([dict.fromkeys(sessions.NEVER_DROPPED, 0) | {"rate_limited": 7}])

    drawn = sessions_tcp.draw(9, 30, ("cubic",), 1)
    assert limits(sessions_tcp.TcpPlan("slbn", MBIT, drawn, 30, paper=True).network()) == {True}
    ours = burst_plan()
    assert limits(sessions.network(ours)) == {False}
    sessions.refuse_drops(Dropping(), ours)  # type: ignore[arg-type]
    paper = dataclasses.replace(ours, **forms.LINKS[forms.PAPER])
    assert limits(sessions.network(paper)) == {True}
    with pytest.raises(CannotRunError, match="7 packets were dropped at .* as rate_limited"):
        sessions.refuse_drops(Dropping(), paper)  # type: ignore[arg-type]


@pytest.mark.parametrize("levels", range(1, 9))
def test_each_link_restricts_its_own_level(levels: int) -> None:
    """The max-min rates on a line of links are those of its levels; each link restricts its own."""
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


# --- analysis of a run --------------------------------------------------------------------------

CAPACITY = 12 * MBIT
LATE = 0.1


PLAN = Plan(
    Mesh("two", ("a", "b"), (Wire("a", "b", CAPACITY, 10_000),)),
    (Session("a", "b", 0), Session("a", "b", 1), Session("a", "b", 1, 2)),
    4,
    every=1,
)


def made_up_record() -> Record:
    """Three sessions on a link; the third leaves at 2 s.  Max-min rates arrive LATE s later."""
    third, half = CAPACITY // 3, CAPACITY // 2
    rates = [(LATE, 0, CAPACITY), (1 + LATE, 0, third), (1 + LATE, 1, third)]
    rates += [(1 + LATE, 2, third), (2 + LATE, 0, half), (2 + LATE, 1, half)]
    busy = {
        "sent": [0, 15_000, 30_000, 45_000, 60_000], "packets": [0, 20, 40, 60, 80],
        "held": [0, 3000, 0, 0, 0], "drops": [0] * 5, "control": [0, 1000, 2000, 3000, 4000],
        "control_drops": [0] * 5,
    }  # fmt: skip
    document = {
        "asked": [(0, 0, None), (1, 1, None), (1, 2, None), (2, 2, 0)], "rates": rates, "died": [],
        "last": {str(n): (half, 100, 0, 20_000_000, 1) for n in (0, 1)}, "sent": 0,
        "times": [0, 1, 2, 3, 4], "hidden": 0, "arrived": {}, "agents": {"a": "", "b": ""},
        "wires": {"a.b": busy, "b.a": {column: [0] * 5 for column in busy}},
        "load": {"backlog_drops": 0}, "virtual": True, "out_of_memory": {"TCPOFODrop": 0},
        "kernel_errors": [], "changed": [],
    }  # fmt: skip
    return Record(PLAN.experiment(), document, [], [], {})


def made_up(more: Sequence[tuple[float, int, int]] = (), **changes: Any) -> Comparison:
    """That run with MORE rates."""
    document = made_up_record().document
    return Comparison(PLAN, document | {"rates": [*document["rates"], *more]} | changes)


def test_max_min_reference_follows_joins_and_leaves() -> None:
    comparison = made_up()
    assert comparison.reference(0.5).rates == {0: CAPACITY}
    assert comparison.reference(1.5).rates == {0: 4e6, 1: 4e6, 2: 4e6}
    assert comparison.reference(3).rates == {0: 6e6, 1: 6e6}
    assert comparison.reference(3).bottlenecks == {"a.b"}
    assert comparison.last_change == 2


def test_errors_of_assigned_rates() -> None:
    comparison = made_up()
    early = comparison.errors(1.05)
    # The first session still has its old rate; the others have none yet.
    assert list(early.sessions) == pytest.approx([200])
    assert early.waiting == 2
    assert list(early.links) == pytest.approx([0])
    assert list(comparison.errors(1.5).sessions) == pytest.approx([0, 0, 0])
    # One has left; the others' rates have not been raised yet.
    assert list(comparison.errors(2.05).sessions) == pytest.approx([-100 / 3, -100 / 3])
    assert list(comparison.errors(2.05).links) == pytest.approx([-100 / 3])
    assert comparison.overshoot == pytest.approx(0)


def test_settling_control_traffic_and_queues() -> None:
    comparison = made_up()
    assert comparison.settled(2, 4) == pytest.approx(LATE)
    assert comparison.settled(1, 2) == pytest.approx(LATE)
    assert (comparison.bits_off, comparison.bits_over) == (0, 0)
    # 1000 bytes a second, on a link whose whole capacity is assigned.
    assert comparison.control_share(3, 4) == pytest.approx(8000 / CAPACITY)
    assert [when for when, _ in comparison.control_peaks()] == [1, 2, 3, 4]
    assert [part for _, part in comparison.control_peaks()] == pytest.approx([8000 / CAPACITY] * 4)
    assert comparison.queue_ms() == [(0, 0), (1, 2), (2, 0), (3, 0), (4, 0)]
    assert comparison.queue_ms(1.5) == [(2, 0), (3, 0), (4, 0)]


def test_wrong_and_late_rates_are_found() -> None:
    wrong, right = (3.5, 0, CAPACITY), (3.8, 0, CAPACITY // 2)
    comparison = made_up([wrong])
    assert comparison.settled(2, 4) is None
    assert max(comparison.errors(3.6).sessions) == pytest.approx(100)
    assert comparison.overshoot == pytest.approx(0.5)
    assert made_up([wrong, right]).settled(2, 4) == pytest.approx(1.8)
    comparison.last[0] = (CAPACITY // 2 + 7, 1, 0, 1, 1)
    assert (comparison.bits_off, comparison.bits_over) == (7, 7)


def test_sessions_of_a_failed_node_do_not_count() -> None:
    comparison = made_up(died=[(3, "a")])
    assert comparison.reference(3.5).rates == {}
    assert comparison.last_change == 3


def test_summary() -> None:
    assert summary([1, 2, 3]) == [2, 1.2, 2.8, 1, 3]
    assert summary([]) == []


# --- whole runs ---------------------------------------------------------------------------------


def run(name: str, work: Path, only: tuple[str, ...] = ()) -> tuple[dict[str, bool], Data]:
    """Run and draw the quick form of a study; whether its claims hold, and its data."""
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
        return held(study, data, quick=True), data
    return {}, data


def test_losses_and_max_min_goodput_of_tcp() -> None:
    """Two flows share a path; one starts after half of the time, and has nothing for 2 s more."""
    found = (
        Flow("sea", "nyc", 0, 20, cc="cubic"),
        Flow("sea", "nyc", 10, 20, cc="reno"),
    )
    plan = sessions_tcp.TcpPlan("slbn", 8 * MBIT, found, 20)
    part = TCP_PART * MBIT
    acked = [([0.0, 10.0, 20.0], [0.0, 10 * part, 16 * part]), ([12.0, 20.0], [0.0, 4 * part])]
    hosts = {"sent": 1000, "arrived": 980}
    seen = sessions_tcp.TcpOutcome(plan, [], {}, acked, 10, 500, 15, hosts)
    assert seen.loss == pytest.approx(0.02)
    # Fair are 10 and 5 of 8e6 bits for the first one, and 5 for the second.
    assert seen.maxmin == pytest.approx((15 + 4) / (15 + 5))


def test_table_of_tcp_has_the_columns_that_all_runs_have() -> None:
    study = next(one for one in slbn.STUDIES if one.name == "slbn-tcp-commit")
    old = {
        "at_rest": [1.0, -2.0], "queue_mean": 1.0, "queue_longest": 2.0, "lost": 3,
        "retransmits": 4,
    }  # fmt: skip
    new = old | {"paced": 5, "loss": 0.01, "retransmitted": 0.02, "maxmin": 0.9}
    table = study.table({"slbn": [new], "pfifo": [new]})
    assert table is not None and all(len(row) == len(table.columns) for row in table.rows)
    assert table.rows[0][-4:] == ("5", "1.00 %", "2.00 %", "90.0 %")
    data = {name: [new, old] for name in ("slbn", "drr_fq", "pfifo")}
    assert study.measure(data, False)["lossless"] == [8]
    table = study.table({"slbn": [new], "pfifo": [old]})
    assert table is not None and table.columns[-1] == "retransmitted"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_rise_of_cycles_with_the_rtt_is_seen() -> None:
    """In RTTs, too."""
    study = next(one for one in slbn.STUDIES if one.name == "slbn-levels")

    def data(cycles: dict[int, float]) -> dict[str, Any]:
        lines = {f"levels-{n}": (n, 40, 1.1 * n) for n in range(1, 9)}
        lines |= {f"rtt-{ms}ms": (4, ms, count) for ms, count in cycles.items()}
        return {
            name: [
                {
                    "levels": n,
                    "round_trip_ms": ms,
                    "cycles": [count],
                    "seconds": [count * ms / 1000],
                }
            ]
            for name, (n, ms, count) in lines.items()
        }

    rising = data({5: 3.75, 10: 4.25, 20: 4.5, 80: 4.8, 160: 4.86})
    found = [name for name, holds in held(study, rising).items() if not holds]
    assert found == ["rtt-trips", "rtt-rise"]
    steady = data({5: 4.6, 10: 4.5, 20: 4.5, 80: 4.8, 160: 4.86})
    assert all(held(study, steady).values())
    assert "rtt-rise" not in study.measure(data({10: 4.25}), quick=True)
    rows = {row["RTT"]: row["in RTTs"] for row in study.rows(rising)}
    assert rows["5 ms"] == "3.75"


@pytest.mark.tier("test")
def test_study_runs_from_plan_to_claims(tmp_path: Path) -> None:
    """One study; tests/figures runs all of them."""
    claims, _ = run("slbn-levels-commit", tmp_path)
    assert claims
    assert [name for name, holds in claims.items() if not holds] == []


@pytest.mark.tier("all")
def test_growing_queue_is_measured(tmp_path: Path) -> None:
    """A link that assigns twice its capacity has a queue until the end."""
    network = Mesh("two", ("a", "b"), (Wire("a", "b", 1_000_000, 10_000),))
    plan = Plan(network, (Session("a", "b", 0),), 1, packet=2000)
    crowded = dataclasses.replace(plan, overbooked=2.0)
    comparison = crowded.run(tmp_path, GUEST, QUIET)
    assert statistics.fmean(longest for _, longest in comparison.queue_ms(0.5)) > 100


def test_other_engines_than_virtual_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="virtual"):
        burst_plan().run(tmp_path, Here(lambda *_: None), QUIET)


@pytest.mark.tier("all")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # More hops than a control packet has slots.
        ({"hops": 2}, "dropped at r2 as too_many_hops"),
        # An option that the agent refuses.
        ({"pause_ms": 2000}, "slbnd: --pause: must be 1us to 1s"),
    ],
)
def test_guest_errors_are_reported(
    changes: dict[str, int], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(sessions_plan.line(4, 8000), (Session("r0", "r5", 0),), 0.5)
    with pytest.raises(ReportedError):
        dataclasses.replace(plan, **changes).run(tmp_path, GUEST, QUIET)  # type: ignore[arg-type]
    assert reason in capfd.readouterr().err
