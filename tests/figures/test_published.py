# SPDX-License-Identifier: GPL-2.0
"""docs/figures has the published numbers, docs/reproduction.md the verdicts on them.

The page must be what the registered claims and the numbers make: after a change, copy it from
`make published-figures OUT=DIR` (a minute, without runs).
"""

import fnmatch
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import registry, verdict
from fairlab.figures.gallery import PUBLISHED
from fairlab.figures.studies import ALL
from fairlab.figures.study import Data, Measured, Study
from fairlab.figures.verdict import CONSISTENT, INCONSISTENT

from tests import launch

pytestmark = pytest.mark.tier("test")

TOP = Path(__file__).resolve().parents[2]
#: From here on, seeds had no runs when the registry of claims began (earlier.toml); how many
#: of them a verdict needs.
LATER, ENOUGH = 3, 3


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures, drawn from the published numbers."""
    out = tmp_path_factory.mktemp("published")
    command = ["make", "--no-print-directory", "published-figures", f"OUT={out}"]
    launch.succeed(command, cwd=TOP)
    return out


def claims(drawn: Path, study: Study) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((drawn / f"{study.name}.json").read_text())["claims"]
    return found


def test_report_matches_the_numbers(drawn: Path) -> None:
    assert (drawn / "reproduction.md").read_text() == (TOP / "docs/reproduction.md").read_text()
    page = (drawn / "report.html").read_text()
    # Each figure has runs.
    assert page.count("<img ") == len(ALL)
    assert page.count("Not drawn") == 0


def test_no_claim_was_dropped_silently(drawn: Path) -> None:
    """Each claim that a run was made for is registered, or listed as dropped or renamed."""
    known = {claim.name for source in registry.sources() for claim in source.claims}
    known |= {one["claim"] for source in registry.sources() for one in source.withdrawn}
    runs = [json.loads(path.read_text()) for path in (drawn / "data").rglob("*.json")]
    assert {f"{run['study']}/{id}" for run in runs for id in run.get("claims", {})} <= known


@pytest.mark.parametrize("study", ALL, ids=lambda study: str(study.name))
def test_failed_claims_have_a_reason(study: Study, drawn: Path) -> None:
    """An inconsistent claim has a likely reason."""
    broken = [claim for claim in claims(drawn, study) if claim["verdict"] == "inconsistent"]
    assert [claim["text"] for claim in broken if not claim["why"].strip()] == []


def test_readme_has_the_counts(drawn: Path) -> None:
    """The page's first lines are in README, whatever its line breaks."""
    lines = (drawn / "reproduction.md").read_text().splitlines()
    readme = " ".join((TOP / "README.md").read_text().split())
    heads = [re.sub(r"[*]|^- ", "", line) for line in lines if line.startswith("- **Published")]
    assert len(heads) == 2
    for head in heads:
        # Without those that are not judged.
        assert re.sub(r"( \([^()]*\))?\.$", "", head) in readme, head


@pytest.fixture(scope="module")
def runs() -> dict[str, list[dict[str, Any]]]:
    """The published runs by study."""
    found: dict[str, list[dict[str, Any]]] = {}
    with tarfile.open(TOP / PUBLISHED) as archive:
        for member in archive:
            if file := archive.extractfile(member):
                run = json.load(file)
                found.setdefault(run["study"], []).append(run)
    return found


def measured(study: Study, runs: list[dict[str, Any]]) -> dict[str, Measured]:
    """The values for the claims of STUDY by RUNS; none if a case has too few."""
    data: dict[str, list[Any]] = {case.name: [] for case in study.cases(False, 1)}
    for run in sorted(runs, key=lambda run: int(run["seed"])):
        data[run["case"]].append(run["numbers"])
    some: Data = {case: numbers for case, numbers in data.items() if numbers}
    return study.measure(some, False) if max(map(len, data.values())) >= ENOUGH else {}


def fewest(measured: Measured) -> int:
    """The least number of seeds of a part."""
    parts = measured.values() if isinstance(measured, Mapping) else [measured]
    return min(map(len, parts), default=0)


def test_later_seeds_alone_turn_no_verdict(runs: dict[str, list[dict[str, Any]]]) -> None:
    """Most claims are younger than runs with the seeds 1 and 2, which may have shown the result."""
    turned, judged = [], 0
    for study in ALL:
        known = registry.of(study.name)
        every, later = (
            measured(study, [run for run in runs[study.name] if run["seed"] >= first])
            for first in (1, LATER)
        )
        for id, found in later.items():
            # A registered number of seeds counts all of them.
            claim = replace(known[id], seeds=min(known[id].seeds, ENOUGH))
            if claim.statistic == "exact" or claim.not_testable or fewest(found) < ENOUGH:
                continue
            judged += 1
            verdicts = {verdict.judge(claim, one).verdict for one in (every[id], found)}
            if verdicts >= {CONSISTENT, INCONSISTENT}:
                turned.append(claim.name)
    assert turned == [] and judged > 200


def test_earlier_runs_are_of_known_cases() -> None:
    studies = {study.name: study for study in ALL}
    for name, patterns in registry.earlier().items():
        cases = [case.name for case in studies[name].cases(False, 1)]
        for pattern, seeds in patterns.items():
            own = fnmatch.filter(cases, pattern)
            assert own and registry.ran_earlier(name, own[0], seeds[0])
            assert not registry.ran_earlier(name, own[0], 7)
    assert registry.ran_earlier("bic-utilisation", "reno-622", 2)
    assert not registry.ran_earlier("bic-utilisation", "reno-2500", 2)
    assert not registry.ran_earlier("slbn-packets", "rcp-fluid", 1)


def test_changed_claims_are_listed(drawn: Path) -> None:
    """With what they were."""
    listed = {
        name
        for source in registry.sources()
        for one in source.changed
        for name in one["claims"].split(", ")
    }
    changed = {
        f"{study.name}/{claim['id']}"
        for study in ALL
        for claim in claims(drawn, study)
        if claim["registered"] == "changed after its runs"
    }
    assert changed <= listed
