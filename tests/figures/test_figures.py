# SPDX-License-Identifier: GPL-2.0
"""All figures of the quick set: `make figures-quick`, as a user runs it.

Each must be drawn, with its claims.  With one seed and short runs a few claims may fail by chance.
"""

import json
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import gallery
from fairlab.figures.gallery import Gallery
from fairlab.figures.studies import ALL
from fairlab.figures.studies.queue_model import Link
from fairlab.figures.study import Study
from fairlab.slbn.simulated import Simulated

from tests import launch

TOP = Path(__file__).resolve().parents[2]
OUT = TOP / "build" / "tests" / "figures"
# Of runs that need no guest.
ENGINES = {Simulated: "slbnsim", Link: "model"}
# The largest share of claims that may fail in the quick set.
MAY_BREAK = 0.2


@pytest.fixture(scope="module")
def made() -> str:
    """The output of `make figures-quick`.

    Its directory is kept: only runs whose sources changed are repeated.
    """
    command = ["make", "--no-print-directory", "figures-quick", f"OUT={OUT.relative_to(TOP)}"]
    done = launch.succeed(command, cwd=TOP, stderr=subprocess.STDOUT)
    return done.stdout


def document(study: Study) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OUT / f"{study.name}.json").read_text())
    return found


@pytest.mark.parametrize("study", ALL, ids=lambda study: str(study.name))
def test_each_figure_is_drawn(study: Study, made: str) -> None:
    place = Gallery(OUT, quick=True)
    runs = place.runs(study)
    found = document(study)
    assert all(map(place.is_current, runs))
    assert found["quick"] and found["stale"] == 0 and found["runs"] == len(runs)
    assert found["fingerprint"] == place.fingerprint(runs)
    for claim in found["claims"]:
        for name in ("text", "published", "accepted", "tolerance"):
            assert claim[name].strip(), name
    kinds = {type(run.case.what) for run in runs}
    engine = next((name for kind, name in ENGINES.items() if kind in kinds), "virtual")
    assert found["conditions"]["engine"]["name"] == engine
    if engine == "virtual":
        assert found["conditions"]["kernel"]["release"].startswith("6.1.")
    png = (OUT / f"{study.name}.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG") and width >= 800 and height >= 300
    svg = ET.parse(OUT / f"{study.name}.svg").getroot()
    # More than axes: it shows the measured data.
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}path"))) > 20


def test_the_report_has_all_figures(made: str) -> None:
    page = (OUT / "report.html").read_text()
    assert page.count("<img ") == len(ALL) and "Not drawn" not in page
    for study in ALL:
        assert f'id="{study.name}"' in page
    assert len(page) < 8_000_000
    assert f"{len(ALL)} of {len(ALL)} figures" in made or "Nothing to be done" in made


def test_most_claims_hold(made: str) -> None:
    """By their means: one seed has no interval."""
    claims = [
        (study.name, claim)
        for study in ALL
        for claim in document(study)["claims"]
        if claim["verdict"] != "not testable"
    ]
    broken = [(name, claim["id"], claim["here"]) for name, claim in claims if not claim["holds"]]
    assert len(broken) <= MAY_BREAK * len(claims), broken


def test_second_make_repeats_no_run(made: str) -> None:
    command = ["make", "--no-print-directory", "figures-quick", f"OUT={OUT.relative_to(TOP)}"]
    done = launch.run(command, cwd=TOP)
    assert done.returncode == 0 and "Nothing to be done" in done.stderr, done.stderr


def test_families_have_names() -> None:
    from fairlab.figures.webpage import FAMILIES

    assert {gallery.family(study) for study in ALL} <= FAMILIES.keys()
