# SPDX-License-Identifier: GPL-2.0
"""The simulated studies of SLBN: cases, stored numbers, and claims on made-up data."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures.studies import forms, large
from fairlab.figures.studies.large import common, completion, recovery, settling
from fairlab.figures.study import Data
from fairlab.model.errors import CannotRunError, LabError
from fairlab.net import host
from fairlab.run.progress import Progress
from fairlab.slbn.simulated import Simulated
from matplotlib.figure import Figure

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


def test_unpublished_claims_say_so() -> None:
    """Claims without a published side say so, and have a tolerance like any claim."""
    for name in set(STUDIES) - set(PUBLISHED):
        claims = STUDIES[name].claims(beyond(name), quick=False)
        assert any(claim.published == common.UNPUBLISHED for claim in claims), name
        assert all(claim.tolerance for claim in claims)


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


def made_up() -> dict[str, list[dict[str, Any]]]:
    """The paper's results."""
    near, far = run(2, (1, -5, 5), (-5, -20, 1)), run(2, (50, -50, 250), (20, -20, 90))
    data: dict[str, Any] = {name: [near] for name in (*FORMS, "bfyz", "sperc")}
    data |= {name: [far] for name in ("xcp", "rcp", "piqi-rcp", "cobb")}
    data["erica"] = [run(4, (8, -10, 20), (5, -10, 15))]
    data["cobb"] = [run(4, (500, -15, 1600), (50, -10, 150))]
    return data


@pytest.mark.parametrize("name", PUBLISHED)
def test_claims_of_a_form_are_judged_by_its_runs(name: str) -> None:
    """What one form of SLBN did is not seen in the claims of the other."""
    study = STUDIES[name]
    data, spoilt = in_1b(), sized(999, 99, queue=50)
    if name != "slbn-1b":
        data = {one: [run(11, (1, -5, 5), (-5, -20, 1))] for one in common.NAMES}
        spoilt = run(30, (9, 9, 9), (9, 9, 9), wait=99, overshoot=0.5)
        spoilt["series"] = [one for one in spoilt["series"] if one[0] <= 11]
    for form, case in forms.SIMULATED.items():
        before = study.claims(data, quick=False)
        after = study.claims(data | {case: [spoilt]}, quick=False)
        own = [claim.algorithm == form for claim in before]
        same = [old.ours == new.ours for old, new in zip(before, after, strict=True)]
        assert any(own) and not any(map(all, zip(own, same, strict=True)))
        assert all(a or b for a, b in zip(own, same, strict=True))


def holding(study: str, data: Data) -> list[bool]:
    return [claim.holds for claim in STUDIES[study].claims(data, quick=False)]


def test_claims_of_1a() -> None:
    data = made_up()
    assert holding("slbn-1a", data) == [True] * 12
    # Each can fail.
    worse = [
        data | {name: [one]}
        for name in FORMS
        for one in (
            run(2, (1, -50, 90), (-5, -20, 1)),
            run(4, (2, -5, 5), (-5, -20, 1)),
            run(2, (1, -5, 5), (4, -20, 9)),
            run(2, (1, -5, 5), (-5, -20, 1), wait=31),
        )
    ]
    worse += [
        data | {"slbn": [run(2, (1, -5, 5), (-5, -20, 1), overshoot=0.001)]},
        data | {"erica": [run(4, (-8, -20, 2), (5, -10, 15))]},
        data | {name: data["slbn"] for name in ("rcp", "piqi-rcp")},
        data | {"cobb": data["slbn"]},
    ]
    for n, spoilt in enumerate(worse):
        assert not holding("slbn-1a", spoilt)[n], n


@pytest.mark.parametrize("name", ["slbn-2a", "slbn-2b"])
def test_claims_of_large_networks(name: str) -> None:
    until = {"slbn-2a": 2, "slbn-2b": 11}[name]
    good, bad = run(until, (1, -5, 5), (-5, -20, 1)), run(until, (9, -50, 90), (6, -20, 40))
    restless = run(until + 2, (1, -5, 5), (-5, -20, 1))
    data = {one: [good] for one in (*FORMS, "bfyz", "sperc")}
    assert holding(name, data) == [True] * 9
    restless["series"] = [one for one in restless["series"] if one[0] <= until]
    queueing = run(until, (1, -5, 5), (-5, -20, 1), wait=31)
    for n, form in enumerate(FORMS):
        own = slice(4 * n, 4 * n + 4)
        assert holding(name, data | {form: [bad]})[own][:2] == [False, False]
        assert not holding(name, data | {form: [restless]})[own][2]
        assert not holding(name, data | {form: [good, queueing]})[own][3]
    promised = run(until, (1, -5, 5), (-5, -20, 1), overshoot=0.001)
    assert not holding(name, data | {"slbn": [good, promised]})[8]


def sized(wait: float, mean: float, complete: float = 1.0, queue: int = 100) -> dict[str, Any]:
    """A run of 1b."""
    sizes = [[10, mean] for _ in completion.Experiment1b.classes[1:]]
    queues = [[0.5, wait / 2, queue // 2], [1.0, wait, queue], [1.5, 0.0, 0]]
    return {"sizes": sizes, "mean": mean, "complete": complete, "queues": queues}


def in_1b() -> dict[str, list[dict[str, Any]]]:
    """The paper's results."""
    data: dict[str, Any] = {name: [sized(60, 2.1, queue=500)] for name in ("bfyz", "erica")}
    data |= {name: [sized(25, 2.0)] * 2 for name in FORMS} | {"sperc": [sized(20, 2.0)]}
    data |= {"rcp": [sized(400, 5, queue=900)], "piqi-rcp": [sized(900, 2.2, queue=9000)]}
    return data | {"cobb": [sized(800, 1.9, queue=8265)]}


def test_claims_of_1b() -> None:
    data = in_1b()
    assert holding("slbn-1b", data) == [True] * 10
    worse = [
        data | {"bfyz": [sized(10, 2.1)]},
        data | {"cobb": [sized(800, 1.9, queue=999)]},
    ]
    for form in FORMS:
        worse += [
            data | {form: [sized(25, 2), sized(31, 2)]},
            data | {"erica": [sized(60, 2.4)]},
            data | {"cobb": [sized(800, 1.9, 0.5, 8265)]},
            data | {"rcp": [sized(400, 2.4)]},
        ]
    for n, spoilt in enumerate(worse):
        assert not holding("slbn-1b", spoilt)[n], n


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


def beyond(name: str) -> dict[str, Any]:
    """Results that fulfil all claims."""
    good, bad = off_shares((0, 80), (1.5, 0)), off_shares((0, 80), (1.5, 60))
    if name == "slbn-loss":
        return {
            f"{kind}-{loss}": [good if kind == "full" else bad]
            for loss in recovery.Loss.losses
            for kind in recovery.Loss.variants
        }
    if name == "slbn-dead":
        dead = off_shares((3, 10), (5.2, 0), (7, 60), (9.2, 0), (11, 75), (13.2, 0))
        known = {
            "dead": dead,
            "told": off_shares((3, 70), (7, 0)),
            "silent": off_shares((3, 70), (5, 0)),
        }
        found = {f"{what}-slbn": [run] for what, run in known.items()}
        return found | {f"{what}-slbn-paper": [off_shares((3, 70))] for what in known}
    if name == "slbn-sperc":
        slow = {"slbn": 5.0, "sperc": 500.0, "bfyz": 4.0}
        return {
            f"{place}-{kind}": [settled(when)]
            for place in settling.Settling.places
            for kind, when in slow.items()
        }
    return {
        str(count): [{**off_shares((0, 80), (1.4, 0), until=6), "events": 290 * 6 * count}]
        for count in (1000, 10**6)
    }


def test_claims_of_loss() -> None:
    data = beyond("slbn-loss")
    good, bad = data["full-1"], data["paper-1"]
    assert holding("slbn-loss", data) == [True] * 4
    worse = [
        data | {"full-1": bad},
        data | {"full-5": bad},
        data | {"paper-0.1": good},
        data | {"ledgers-5": good},
    ]
    for n, spoilt in enumerate(worse):
        assert holding("slbn-loss", spoilt) == [n != at for at in range(4)], n


def test_claims_of_failures() -> None:
    data = beyond("slbn-dead")
    assert holding("slbn-dead", data) == [True] * 4
    worse = [
        data | {"dead-slbn": [off_shares((7, 60), (10.5, 0))]},
        data | {"silent-slbn": [off_shares((3, 70), (6.2, 0))]},
        data | {"told-slbn": [off_shares((3, 70), (8.2, 0))]},
        data | {"told-slbn-paper": data["told-slbn"]},
    ]
    for n, spoilt in enumerate(worse):
        assert holding("slbn-dead", spoilt) == [n != at for at in range(4)], n


def test_claims_of_sperc() -> None:
    data = beyond("slbn-sperc")
    assert holding("slbn-sperc", data) == [True] * 5
    worse = [
        data | {"wan-sperc": [settled(500), settled(None)]},
        data | {"wan-slbn": [settled(501)]},
        data | {"lan-slbn": [settled(30)]},
        data | {"lan-bfyz": [settled(4, control=0.012)]},
        data | {"any-slbn": [settled(5, over=4)]},
    ]
    for n, spoilt in enumerate(worse):
        assert not holding("slbn-sperc", spoilt)[n], n


def test_claims_of_scale() -> None:
    data = beyond("slbn-scale")
    million = str(10**6)
    assert holding("slbn-scale", data) == [True] * 3
    off = {**off_shares((0, 80), (1.4, 20), until=6), "events": 1}
    late = {**off_shares((0, 80), (4.2, 0), until=6), "events": 1}
    dear = {**data[million][0], "events": 360 * 6 * 10**6}
    for n, run in enumerate((off, late, dear)):
        assert not holding("slbn-scale", data | {million: [run]})[n], n


@pytest.mark.parametrize("name", ["slbn-loss", "slbn-dead", "slbn-scale", "slbn-sperc"])
def test_unpublished_studies_run(name: str, tmp_path: Path) -> None:
    """With few sessions, as the quick form would: what is kept is what claims need."""
    study = STUDIES[name]
    data: dict[str, Any] = {}
    for case in study.cases(True, 1):
        what = case.what
        assert isinstance(what, Simulated)
        small = replace(what, count=40 if what.count else 0, every=max(20 * what.every, 0.2))
        data[case.name] = [study.reduce(case, small.run(tmp_path, None, QUIET))]
    for claim in study.claims(data, quick=True):
        assert claim.ours.strip()
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


@pytest.mark.parametrize("name", ["slbn-1b", "slbn-loss", "slbn-dead", "slbn-sperc", "slbn-scale"])
def test_drawing_and_tables(name: str) -> None:
    figure = Figure(layout="constrained")
    study = STUDIES[name]
    data = in_1b() if name == "slbn-1b" else beyond(name)
    study.draw(figure, data)
    assert len(figure.axes) >= 2
    table = study.table(data)
    assert table and {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("name", ERRORS)
def test_drawing(name: str) -> None:
    figure = Figure(layout="constrained")
    data = made_up()
    if name != "slbn-1a":
        data = {n: data[n] for n in (*FORMS, "bfyz", "sperc")}
    STUDIES[name].draw(figure, data)
    assert len(figure.axes) == 2 * len(data)
    if name == "slbn-1a":
        assert len(STUDIES[name].table(data).rows) == len(data)  # type: ignore[union-attr]
