# SPDX-License-Identifier: GPL-2.0
"""The simulated studies of SLBN: cases, stored numbers, and claims on made-up data."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import registry
from fairlab.figures.studies import forms, large
from fairlab.figures.study import Data
from fairlab.model.errors import CannotRunError, LabError
from fairlab.net import host
from fairlab.run.progress import Progress
from fairlab.slbn.simulated import Simulated
from matplotlib.figure import Figure

from tests.lab.labtools import held

QUIET = Progress("none")
STUDIES = {study.name: study for study in large.STUDIES}
PUBLISHED = ("slbn-1a", "slbn-1b", "slbn-2a", "slbn-2b")
ERRORS = ("slbn-1a", "slbn-2a", "slbn-2b")
FORMS = tuple(forms.SIMULATED.values())


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    top = host.tree()
    assert top
    host.run("make", "--silent", "-C", str(top), "slbnsim")


def test_stored_numbers_of_a_small_run(tmp_path: Path) -> None:
    study = STUDIES["slbn-1a"]
    what = Simulated("1a", "slbn", seed=1, percent=1, every=100)
    outcome = what.run(tmp_path, None, QUIET)
    assert what.run(tmp_path, None, QUIET)["series"] == outcome["series"]
    kept = study.reduce(study.cases(True, 1)[0], outcome)
    assert [one[0] for one in kept["series"]] == pytest.approx([0.1 * n for n in range(1, 21)])
    assert all(len(one) == 8 for one in kept["series"])
    assert abs(kept["series"][-1][1]) < 0.1
    assert what.conditions(tmp_path)["engine"] == {"name": "slbnsim"}


def test_refused_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="no experiment '3c'"):
        Simulated("3c", "slbn", 1).run(tmp_path, None, QUIET)
    monkeypatch.setattr(host, "tree", lambda: None)
    with pytest.raises(CannotRunError, match="make slbnsim"):
        Simulated("1a", "slbn", 1).run(tmp_path, None, QUIET)


def test_figures_3_to_10_have_studies() -> None:
    sources = {name: STUDIES[name].source for name in PUBLISHED}
    for number in range(3, 11):
        found = [name for name, text in sources.items() if re.search(rf"\b{number}\b", text)]
        assert len(found) == 1, number
    for name, study in STUDIES.items():
        assert ("not in a paper" in study.source) == (name not in PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_cases(name: str) -> None:
    """All of the paper's sessions in the full set, a part in the quick one."""
    study = STUDIES[name]
    full, quick = (
        [case.what for case in study.cases(quick, 7) if isinstance(case.what, Simulated)]
        for quick in (False, True)
    )
    assert len(full) == len(quick) == len(study.cases(False, 7))
    assert {what.percent for what in full} == {100}
    assert max(what.percent for what in quick) <= 20
    assert {what.seed for what in (*full, *quick)} == {7}
    assert {what.experiment for what in full} == {name.removeprefix("slbn-")}


def run(
    until: float,
    sources: tuple[float, ...],
    links: tuple[float, ...],
    wait: float = 1.0,
    overshoot: float = 0.0,
) -> dict[str, Any]:
    """A run with constant errors, and none in the last half second."""
    rows = []
    for n in range(1, round(until / 0.05) + 1):
        when = round(0.05 * n, 3)
        quiet = when > until - 0.6
        rows.append([when, *((0, 0, 0, 0, 0, 0) if quiet else (*sources, *links)), wait])
    return {"series": rows, "events": 10**6, "overshoot": overshoot}


def rising(until: float, begin: float) -> dict[str, Any]:
    """A run whose mean errors at bottlenecks rise from BEGIN [s] on by 20 points in a second."""
    found = run(until, (1, -5, 5), (-5, -20, 1))
    for one in found["series"]:
        one[4] = max(-9, min(0, 20 * (one[0] - begin) - 9))
    return found


def made_up() -> dict[str, list[dict[str, Any]]]:
    """The paper's results."""
    near, far = run(2, (1, -5, 5), (-5, -20, 1)), run(2, (50, -50, 250), (20, -20, 90))
    data: dict[str, Any] = {name: [near] for name in (*FORMS, "bfyz", "sperc")}
    data |= {name: [far] for name in ("xcp", "rcp", "piqi-rcp", "cobb")}
    data["erica"] = [run(4, (8, -10, 20), (5, -10, 15))]
    data |= {name: [run(4, (50, -50, 250), (20, -20, 90))] for name in ("xcp", "rcp")}
    data["cobb"] = [run(4, (500, -15, 1600), (50, -10, 150))]
    return data


@pytest.mark.parametrize("name", PUBLISHED)
def test_claims_of_a_form_are_judged_by_its_runs(name: str) -> None:
    """What one form of SLBN did is not seen in the claims of the other."""
    study = STUDIES[name]
    data, spoilt = in_1b(), sized(999, 99, queue=9999)
    if name != "slbn-1b":
        data = {one: [run(11, (1, -5, 5), (-5, -20, 1))] for one in large.NAMES}
        spoilt = run(30, (9, 9, 9), (9, 9, 9), wait=99, overshoot=0.5)
        moving = (0, 1, 0, 0, 1, 0, 0, 0)
        spoilt["series"] = [
            [value + one[0] * step for value, step in zip(one, moving, strict=True)]
            for one in spoilt["series"]
            if one[0] <= 11
        ]
    known = registry.of(name)
    for case in forms.SIMULATED.values():
        before = study.measure(data, quick=False)
        after = study.measure(data | {case: [spoilt]}, quick=False)
        own = {id for id in before if case in known[id].algorithm.split(", ")}
        other = {id for id in before if before[id] != after[id]}
        assert own and other == own, (own, other)


def broken(study: str, data: Data) -> set[str]:
    """The claims that do not hold, but for those about stand-ins."""
    known = registry.of(study)
    found = held(STUDIES[study], data)
    return {id for id, holds in found.items() if not holds and not known[id].not_testable}


def test_claims_of_1a() -> None:
    data = made_up()
    assert broken("slbn-1a", data) == set()
    # Each can fail.
    near = run(2, (1, -5, 5), (-5, -20, 1))
    for form in FORMS:
        for change, id in (
            ({form: [run(2, (1, -50, 90), (-5, -20, 1))]}, "accurate"),
            ({form: [run(4, (2, -5, 5), (-5, -20, 1))]}, "converges"),
            ({form: [run(2, (1, -5, 5), (4, -20, 4))]}, "overshoot"),
            ({form: [run(2, (1, -5, 5), (-5, -20, 6))]}, "high"),
            ({form: [run(2, (1, -5, 5), (-5, -20, 1), wait=31)]}, "queue"),
            ({"rcp": [run(2, (1, -4, 4), (-5, -20, 1))]}, "accurate"),
            ({form: [run(2, (1, -5, 5), (-11, -20, 1))]}, "full"),
            ({form: [rising(2, 0.3)]}, "constant"),
        ):
            assert f"{form}-{id}" in broken("slbn-1a", data | change)
    assert "slbn-never-above" in broken(
        "slbn-1a", data | {"slbn": [run(2, (1, -5, 5), (-5, -20, 1), overshoot=0.001)]}
    )
    below = broken("slbn-1a", data | {"erica": [run(4, (-8, -99, 299), (5, -10, 15))]})
    assert below == {"erica-above", "erica-accurate"}
    assert "rcp-errors" in broken("slbn-1a", data | {"rcp": [near]})
    assert "loops-rest" in broken("slbn-1a", data | {"xcp": [run(2, (1, -5, 5), (1, -5, 5))]})


@pytest.mark.parametrize("name", ["slbn-2a", "slbn-2b"])
def test_claims_of_large_networks(name: str) -> None:
    until, begin = {"slbn-2a": (2, 0.2), "slbn-2b": (11, 9.2)}[name]
    good, bad = run(until, (1, -5, 5), (-5, -20, 1)), run(until, (9, -50, 90), (6, -20, 40))
    restless = run(until + 2, (1, -5, 5), (-5, -20, 1))
    data = {one: [good] for one in (*FORMS, "bfyz", "sperc")}
    assert broken(name, data) == set()
    restless["series"] = [one for one in restless["series"] if one[0] <= until]
    queueing = run(until, (1, -5, 5), (-5, -20, 1), wait=31)
    for form in FORMS:
        assert broken(name, data | {form: [bad]}) == {f"{form}-overshoot", f"{form}-high"}
        some = run(until, (1, -5, 5), (-5, -20, 6))
        assert broken(name, data | {form: [some]}) == {f"{form}-high"}
        assert not held(STUDIES[name], data | {form: [bad]})[f"{form}-bfyz"]
        assert broken(name, data | {form: [restless]}) == {f"{form}-converges"}
        assert broken(name, data | {form: [good, queueing], "bfyz": [good] * 2}) == {
            f"{form}-queue"
        }
        idle = run(until, (1, -5, 5), (-11, -20, 1))
        assert broken(name, data | {form: [idle]}) == {f"{form}-full"}
        assert broken(name, data | {form: [rising(until, begin)]}) == {f"{form}-constant"}
    promised = run(until, (1, -5, 5), (-5, -20, 1), overshoot=0.001)
    assert broken(name, data | {"slbn": [good, promised]}) == {"slbn-never-above"}


def sized(wait: float, mean: float, complete: float = 1.0, queue: int = 100) -> dict[str, Any]:
    """A run of 1b."""
    sizes = [[10, mean] for _ in large.Experiment1b.classes[1:]]
    queues = [[0.5, wait / 2, queue // 2], [1.0, wait, queue], [1.5, 0.0, 0]]
    restricted = complete * mean + (1 - complete) * 9.5
    kept = {"sizes": sizes, "mean": mean, "restricted": restricted}
    return kept | {"complete": complete, "queues": queues}


def in_1b() -> dict[str, list[dict[str, Any]]]:
    """The paper's results."""
    data: dict[str, Any] = {name: [sized(60, 2.1, queue=500)] for name in ("bfyz", "erica")}
    data |= {name: [sized(25, 2.0)] * 2 for name in FORMS} | {"sperc": [sized(20, 2.0)]}
    data |= {"rcp": [sized(400, 5, queue=900)], "piqi-rcp": [sized(900, 2.2, queue=9000)]}
    return data | {"cobb": [sized(800, 1.9, queue=8265)]}


def test_claims_of_1b() -> None:
    data = in_1b()
    assert broken("slbn-1b", data) == set()
    assert broken("slbn-1b", data | {"erica": [sized(10, 2.1)]}) == {"queues"}
    for form in FORMS:
        assert broken("slbn-1b", data | {form: [sized(25, 2), sized(31, 2)]}) == {f"{form}-queue"}
        assert f"{form}-erica" in broken("slbn-1b", data | {"erica": [sized(60, 2.4)]})
        assert f"{form}-rcp" in broken("slbn-1b", data | {"rcp": [sized(400, 2.4)]})
        # What is not complete counts, too: RCP's few that are took less than SLBN's.
        assert f"{form}-rcp" not in broken("slbn-1b", data | {"rcp": [sized(400, 1.5, 0.5)]})
    found = held(STUDIES["slbn-1b"], data | {"cobb": [sized(800, 1.9, 0.5, 99)]})
    assert not found["cobb-packets"] and not found["stress"]
    for took in (1.4, 5.1):
        less = data | {forms.SIMULATED[forms.PAPER]: [sized(25, took)] * 2}
        assert not held(STUDIES["slbn-1b"], less)["slbn-paper-axis"]


def test_sizes_and_queues(tmp_path: Path) -> None:
    study = STUDIES["slbn-1b"]
    case = study.cases(True, 1)[0]
    completions = [[225, 1.0], [249, 2.0], [250, 4.0], [5000, 8.0]]
    series = [{"time": 0.05, "longest_wait": 0.0123, "longest_queue": 5000}]
    outcome = {"completions": completions, "sessions": 5, "series": series}
    kept = study.reduce(case, outcome)
    assert [count for count, _ in kept["sizes"]] == [2, 1, 0, 0, 0, 0, 0, 1]
    assert [mean for _, mean in kept["sizes"] if mean] == [1.5, 4.0, 8.0]
    assert kept["mean"] == 3.75 and kept["complete"] == 0.8
    # Observed for 2.5 s: one that took 8 s, one that took 4 s, and one that is not complete.
    assert kept["restricted"] == (1.0 + 2.0 + 3 * 2.5) / 5
    assert kept["queues"] == [[0.05, 12.3, 2]]
    real = Simulated("1b", "slbn", 1, 1, 100, 2000).run(tmp_path, None, QUIET)
    kept = study.reduce(case, real)
    assert kept["complete"] == 1 and sum(count for count, _ in kept["sizes"]) == 500


def off_shares(*parts: tuple[float, float], until: float = 15) -> dict[str, Any]:
    """A run; PARTS: times [s] and shares of sources off by more than 1 % from then on [%]."""
    rows = []
    for n in range(1, round(until / 0.05) + 1):
        when = round(0.05 * n, 3)
        part = next((value for begin, value in reversed(parts) if when >= begin), 0)
        rows.append([when, part, -0.1 * part, 0.0])
    packets = {"sent": 100, "retransmitted": 10, "answered": 89, "lost": 10, "under_way": 1}
    return {"series": rows, "packets": packets, "events": 10**6}


def settled(first: float | None, over: float = 0.0, control: float = 0.01) -> dict[str, Any]:
    """A run on a leaf-spine network."""
    series = [[1.0, 50.0], [10.0, 0.0]]
    phase = {"settled": first, "over": over, "most": 50.0, "series": series}
    return {"phases": [phase, phase], "control": control, "trip": 1e-5}


def parameters(off: float, wait: float) -> dict[str, Any]:
    """A run of 1a with other parameters."""
    return {"off": off, "peak": 3 * off, "wait": wait}


def beyond(name: str) -> dict[str, Any]:
    """Results that fulfil all claims."""
    good, bad = off_shares((0, 80), (1.5, 0)), off_shares((0, 80), (1.5, 60))
    if name == "slbn-loss":
        return {
            f"{kind}-{loss}": [good if kind == "full" else bad]
            for loss in large.Loss.losses
            for kind in large.Loss.variants
        }
    if name == "slbn-dead":
        dead = off_shares((3, 10), (5.2, 0), (7, 60), (9.2, 0), (11, 75), (13.2, 0))
        known = {
            "dead": dead,
            "leave": off_shares((3, 70), (7, 0)),
            "silent": off_shares((3, 70), (5, 0)),
        }
        found = {f"{what}-slbn": [run] for what, run in known.items()}
        return found | {f"{what}-slbn-paper": [off_shares((3, 70))] for what in known}
    if name == "slbn-packets":
        cases = [case.name for case in STUDIES[name].cases(False, 1)]
        return {case: [run(2, (1, -5, 5), (0, -5, 1))] for case in cases}
    if name == "slbn-1a-parameters":
        cases = [case.name for case in STUDIES[name].cases(False, 1)]
        found = {case: [parameters(100, 99)] for case in cases}
        far = {"rcp-100": [parameters(1100, 9999)], "erica-30": [parameters(200, 200)]}
        return found | far | {"slbn-paper": [parameters(10, 20)]}
    if name == "slbn-sperc":
        slow = {"slbn": 5.0, "sperc": 500.0, "bfyz": 4.0}
        return {
            f"{place}-{kind}": [settled(when)]
            for place in large.Settling.places
            for kind, when in slow.items()
        }
    return {
        str(count): [{**off_shares((0, 80), (1.4, 0), until=6), "events": 290 * 6 * count}]
        for count in (1000, 10**6)
    }


@pytest.mark.parametrize(
    ("name", "change", "ids"),
    [
        ("slbn-loss", {"full-1": "paper-1"}, {"full"}),
        ("slbn-loss", {"full-5": "paper-1"}, {"full-5"}),
        ("slbn-loss", {"paper-0.1": "full-1"}, {"paper"}),
        ("slbn-loss", {"ledgers-5": "full-1"}, {"ledgers"}),
        ("slbn-dead", {"dead-slbn": off_shares((7, 60), (10.5, 0))}, {"dead"}),
        ("slbn-dead", {"silent-slbn": off_shares((3, 70), (6.2, 0))}, {"silent"}),
        ("slbn-dead", {"leave-slbn": off_shares((3, 70), (8.2, 0))}, {"leave"}),
        ("slbn-dead", {"leave-slbn-paper": "leave-slbn"}, {"paper"}),
        ("slbn-sperc", {"wan-sperc": settled(None)}, {"settle"}),
        ("slbn-sperc", {"wan-slbn": settled(501)}, {"sperc", "bfyz"}),
        ("slbn-sperc", {"lan-slbn": settled(30)}, {"bfyz"}),
        ("slbn-sperc", {"lan-bfyz": settled(4, control=0.012)}, {"control"}),
        ("slbn-sperc", {"any-slbn": settled(5, over=4)}, {"overshoot"}),
        (
            "slbn-scale",
            {"1000000": {**off_shares((0, 80), (1.4, 20), until=6), "events": 1}},
            {"converges", "settles"},
        ),
        (
            "slbn-scale",
            {"1000000": {**off_shares((0, 80), (4.2, 0), until=6), "events": 1}},
            {"settles"},
        ),
        ("slbn-1a-parameters", {"rcp-1": parameters(9, 99)}, {"rcp-order"}),
        (
            "slbn-1a-parameters",
            {"rcp-100": parameters(999, 29)},
            {"rcp-matters", "rcp-wait"},
        ),
        ("slbn-1a-parameters", {"erica-30": parameters(99, 99)}, {"erica-matters"}),
        (
            "slbn-1a-parameters",
            {"erica-5": parameters(9, 29)},
            {"erica-order", "erica-wait"},
        ),
        ("slbn-packets", {"erica-2000": run(2, (1, -5, 10), (0, 0, 0))}, {"errors"}),
        (
            "slbn-packets",
            {"rcp-2000": run(2, (1, -5, 5), (0, 0, 0), wait=5)},
            {"waits"},
        ),
    ],
)
def test_each_claim_of_ours_can_fail(name: str, change: dict[str, Any], ids: set[str]) -> None:
    data = beyond(name)
    assert broken(name, data) == set()
    for case, new in change.items():
        data[case] = data[new] if isinstance(new, str) else [new]
    assert broken(name, data) == ids


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in PUBLISHED])
def test_unpublished_studies_run(name: str, tmp_path: Path) -> None:
    """With few sessions, as the quick form would: what is kept is what claims need."""
    study = STUDIES[name]
    data: dict[str, Any] = {}
    for case in study.cases(True, 1):
        what = case.what
        assert isinstance(what, Simulated)
        every = max(20 * what.every, 0.2) if what.count else what.every
        small = replace(what, count=40, every=every)
        data[case.name] = [study.reduce(case, small.run(tmp_path, None, QUIET))]
    assert held(study, data, quick=True)
    table = study.table(data)
    assert table and {len(row) for row in table.rows} == {len(table.columns)}
    study.draw(Figure(layout="constrained"), data)


def test_options_change_the_result(tmp_path: Path) -> None:
    what = Simulated("1a", "slbn", 1, every=100, until=500, data="", count=200)
    plain, lossy = (
        replace(what, options=options).run(tmp_path, None, QUIET)
        for options in ((), ("--loss", "10"))
    )
    assert plain["packets"]["lost"] == 0 < lossy["packets"]["lost"]
    assert plain["data_bytes"] == 0 and plain["series"][0]["sessions"] <= 200
    assert what.to_json() != replace(what, options=("--loss", "10")).to_json()
    assert replace(what, count=10**6).memory > what.memory >= 1024


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in ERRORS])
def test_drawing_and_tables(name: str) -> None:
    figure = Figure(layout="constrained")
    study = STUDIES[name]
    data = in_1b() if name == "slbn-1b" else beyond(name)
    study.draw(figure, data)
    assert len(figure.axes) >= 2
    table = study.table(data)
    assert table and {len(row) for row in table.rows} == {len(table.columns)}


def test_what_an_axis_cuts_is_written() -> None:
    """Of a mean over seeds, also how far a single one is."""

    def words(drawn: tuple[float, ...], seeds: tuple[float, ...]) -> str:
        axis = Figure().subplots()
        large.draw_cut(axis, (-100, 200), drawn, seeds, more=["more"])
        assert axis.get_ylim() == (-100, 200)
        return str(axis.texts[0].get_text())

    assert words((-100, 200), (-120, 250)) == "more"
    up, down = "\N{UPWARDS ARROW} up to", "\N{DOWNWARDS ARROW} down to"
    assert words((0, 307), (0, 494)) == f"{up} 307 %, a seed to 494 %\nmore"
    assert words((-1234, 300), (-1234, 300)) == f"{up} 300 %\n{down} -1,234 %\nmore"


@pytest.mark.parametrize("name", ERRORS)
def test_drawing(name: str) -> None:
    figure = Figure(layout="constrained")
    data = made_up()
    if name != "slbn-1a":
        until = {"slbn-2a": 2, "slbn-2b": 11}[name]
        some = run(until, (1, -150, 5), (-5, -20, 1))
        data = {n: [some] for n in (*FORMS, "bfyz", "sperc")}
    STUDIES[name].draw(figure, data)
    assert len(figure.axes) == 2 * len(data)
    if name != "slbn-1a":
        cut = {text.get_text() for axis in figure.axes[::2] for text in axis.texts}
        assert {text.splitlines()[0] for text in cut} == {"\N{DOWNWARDS ARROW} down to -150 %"}
    if name == "slbn-1a":
        assert len(STUDIES[name].table(data).rows) == len(data)  # type: ignore[union-attr]
