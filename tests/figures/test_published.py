# SPDX-License-Identifier: GPL-2.0
"""docs/figures has the published numbers, docs/reproduction.md the verdicts on them.

The page must be what the registered claims and the numbers make: after a change, copy it from
`make published-figures OUT=DIR` (a minute, without runs).
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import registry
from fairlab.figures.studies import ALL
from fairlab.figures.study import Study

from tests import launch

pytestmark = pytest.mark.tier("test")

TOP = Path(__file__).resolve().parents[2]


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
