# SPDX-License-Identifier: GPL-2.0
"""The result of a test of Flent's: checks, means, plot."""

import gzip
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fairlab.model.errors import LabError
from fairlab.net import host
from fairlab.results import store, trust
from fairlab.results.dumbbell import build_programs
from fairlab.run.flenttest import MEASUREMENT, Request
from fairlab.run.job import Job

PICTURE = "flent.png"


@dataclass(frozen=True)
class FlentTest(Job[dict[str, Any]]):
    """A test of Flent's, started at DATE."""

    request: Request
    date: datetime

    kind = "flent"

    def to_json(self) -> dict[str, Any]:
        return self.request.to_json()

    def duration(self) -> float:
        return self.request.scenario.seconds

    def build(self) -> None:
        build_programs(self.request.scenario)

    def read(self, work: Path) -> dict[str, Any]:
        """Check the raw data in WORK, leave the files of the result there; the result."""
        document = json.loads((work / MEASUREMENT).read_text())
        (path,) = work.glob("*.flent.gz")
        data = read(path)
        lacking = check(document, data, self.request)
        draw(path, work / PICTURE)
        result: dict[str, Any] = (
            store.about(self.date, host.tree())
            | {"request": self.request.to_json(), "file": path.name}
            | document
            | {"means": {name: mean for name, (mean, _) in means(data).items()}}
            | {"checks": trust.condition(lacking)}
        )
        (work / store.RESULT).write_text(json.dumps(result, indent=1) + "\n")
        (work / MEASUREMENT).unlink()
        return result


def check(document: dict[str, Any], data: dict[str, Any], request: Request) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    lacking = trust.check(evidence(document, data, request), document["virtual"])
    empty = sorted(
        name
        for name, values in data["results"].items()
        if not any(value is not None for value in values)
    )
    if empty:
        raise LabError(f"flent has no data for {', '.join(empty)}")
    return lacking


def evidence(document: dict[str, Any], data: dict[str, Any], request: Request) -> trust.Evidence:
    """Flent's flows say which congestion control they ran; Flent decides when queues are read.

    Where the test or the kernel chose it, any is right.
    """
    flows = {}
    for name, about in data["metadata"]["SERIES_META"].items():
        if kind := about.get("CONG_CONTROL"):
            values = data["results"].get(name, [])
            connected = any(value is not None for value in values)
            flows[name] = trust.Ran(request.cc or kind, kind, connected)
    frames = {
        name: trust.Frames(shown["bytes"], shown["packets"], request.scenario.frame)
        for name, shown in document["queues"].items()
    }
    return trust.gathered(document, delays=document["lost_in_delays"], frames=frames, flows=flows)


def read(path: Path) -> dict[str, Any]:
    """Read Flent's data file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def draw(path: Path, picture: Path) -> None:
    """Let Flent draw the test's default plot."""
    host.run("flent", "-r", "/dev/null", "-i", str(path), "-f", "plot", "-o", str(picture))
    if not picture.exists():
        raise LabError(f"flent drew nothing from {path.name}")


def means(data: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """The mean of each of the test's series, and its unit."""
    found = {}
    for name, values in data["results"].items():
        known = [value for value in values if value is not None]
        unit = str(data["metadata"]["SERIES_META"].get(name, {}).get("UNITS", ""))
        if known:
            found[name] = (sum(known) / len(known), unit)
    return found


def table(result: dict[str, Any], directory: Path) -> str:
    """The result as a table."""
    data = read(directory / result["file"])
    rows = [f"{name:24} {mean:10.2f} {unit}" for name, (mean, unit) in means(data).items()]
    drops = ", ".join(f"{name} {shown['drops']}" for name, shown in result["queues"].items())
    lines = [f"{'series':24} {'mean':>10}", *rows, f"\npackets lost: {drops}"]
    return "\n".join([*lines, *trust.lines(result["checks"])])
