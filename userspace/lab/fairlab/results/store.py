# SPDX-License-Identifier: GPL-2.0
"""Storing results.

    results/2026-11-20T114500-dumbbell-2bic-gaimd-cubic-reno/
        result.json     the results, the curves, and all parameters and versions
        *.flent.gz      the same in Flent's format
        *.png *.svg     throughput, cwnd, queue, background
        raw/            the raw data

A run writes to a hidden directory, which is renamed when it is complete: a directory with a date is
complete, and a run that is refused or stopped leaves none.  No result is overwritten.
"""

import contextlib
import gzip
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlab import __version__
from fairlab.model import units
from fairlab.model.errors import CannotRunError, UsageError
from fairlab.model.qdisc import BOTTLENECK
from fairlab.model.scenario import Scenario
from fairlab.net import host
from fairlab.results import analysis, flentfile, trust, validity
from fairlab.run.dumbbell import MEASUREMENT, OUTPUTS, TRACE
from fairlab.run.engine import JOB

RESULT, RAW = "result.json", "raw"
LONGEST_NAME = 60


def flow_set_name(scenario: Scenario) -> str:
    """A short name of the flows and qdiscs, such as 2bic-gaimd-cubic."""
    count = Counter(str(flow) for flow in scenario.flows)
    words = [f"{n if n > 1 else ''}{name}" for name, n in count.items()]
    words += [qdisc.kind for qdisc in scenario.qdiscs]
    return re.sub(r"[^a-z0-9-]+", "_", "-".join(words).lower())[:LONGEST_NAME]


@contextlib.contextmanager
def working_directory(parent: Path) -> Iterator[Path]:
    """A directory in PARENT that is deleted afterwards, unless name() has renamed it."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".fairlab-", dir=parent))
    except OSError as error:
        raise UsageError(f"cannot write results to {parent}: {error.strerror}") from None
    work.chmod(0o755)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def about(date: datetime, tree: Path | None) -> dict[str, Any]:
    """What made a result, and when."""
    return {
        "fairlab": __version__,
        "project": host.project_version(tree),
        "date": date.astimezone(UTC).isoformat(timespec="seconds"),
    }


def evaluate(work: Path, date: datetime, tree: Path | None) -> dict[str, Any]:
    """Check and evaluate the raw data in WORK, and store the result there."""
    measurement = analysis.Measurement.read(work)
    lacking = validity.check(measurement)
    document = measurement.document
    busy_rate = validity.busy_rate(measurement)
    result = {
        **about(date, tree),
        "name": flow_set_name(measurement.scenario),
        **{name: document[name] for name in ("scenario", "kernel", "engine", "tools", "modules")},
        "settings": document["settings"],
        "queues": document["queues"],
        "checks": {
            "capacity_bps": document["capacity"] and round(document["capacity"]),
            "round_trip_ms": document["round_trip_ms"],
            "idle_share": round(document["load"]["idle_share"], 3),
            "rate_while_busy_bps": busy_rate and round(busy_rate),
            "trace_events_lost": document["trace_lost"],
            **trust.condition(lacking),
        },
        **analysis.evaluate(measurement),
    }
    (work / RESULT).write_text(json.dumps(result) + "\n")
    _keep_raw(work)
    return result


def _keep_raw(work: Path) -> None:
    """Move the raw data to a directory of its own, the trace compressed."""
    raw = work / RAW
    raw.mkdir()
    with (work / TRACE).open("rb") as source, gzip.open(raw / f"{TRACE}.gz", "wb", 6) as target:
        shutil.copyfileobj(source, target)
    (work / TRACE).unlink()
    for name in (MEASUREMENT, *OUTPUTS):
        for path in work.glob(name):
            path.rename(raw / path.name)


def write_flent(directory: Path, result: dict[str, Any]) -> None:
    """Store the result for Flent."""
    name = f"{result['scenario']['topology']}-{result['name']}.flent.gz"
    flentfile.write(result, directory / name, describe_more(result))


def name(work: Path, parent: Path, date: datetime, what: str) -> Path:
    """Rename WORK, which is complete, to DATE and WHAT in PARENT, with a number if that exists."""
    (work / JOB).unlink(missing_ok=True)
    base, number = f"{date:%Y-%m-%dT%H%M%S}-{what}", 1
    while True:
        final = parent / (base if number == 1 else f"{base}-{number}")
        try:
            final.mkdir()
        except FileExistsError:
            number += 1
            continue
        # Replaces the empty directory that mkdir() has reserved.
        return work.rename(final)


def read(directory: Path) -> dict[str, Any]:
    """The result stored in a directory."""
    try:
        result = json.loads((directory / RESULT).read_text())
    except OSError as error:
        raise UsageError(f"{directory}: no result there: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CannotRunError(f"{directory / RESULT} is damaged: {error}") from None
    if not isinstance(result, dict):
        raise CannotRunError(f"{directory / RESULT} is damaged: not an object of JSON")
    return result


def made_at(result: Mapping[str, Any]) -> str:
    """Which version made a result or the conditions of one, in words."""
    return f"made at {result.get('project') or 'an unknown version'}"


@contextlib.contextmanager
def readable(place: object, result: Mapping[str, Any]) -> Iterator[None]:
    """Within it, raise CannotRunError, which names PLACE, if RESULT has another format."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CannotRunError(
            f"{place}: {made_at(result)}, in another format than this version's ({error!r}): run it"
            " again, or use that version"
        ) from None


def without_curves(result: dict[str, Any]) -> dict[str, Any]:
    """The result without the curves."""
    return {name: value for name, value in result.items() if name != "series"}


def describe(result: dict[str, Any]) -> list[str]:
    """Lines with the main parameters of the scenario, and with its qdiscs and background."""
    s, engine = result["scenario"], result["engine"]
    words = [s["topology"], units.format_rate(s["rate"]), f"rtt {units.format_time(s['rtt'])}"]
    words += [f"buffer {s['buffer']['text']}", f"{s['seconds']} s"]
    first = f"{', '.join(words)}; Linux {result['kernel']['release']}, {where(engine)}"
    return [first, *filter(None, [describe_more(result)])]


def where(engine: dict[str, Any]) -> str:
    """The engine, in words."""
    name = str(engine["name"])
    # The engine virtual has no accelerator, and is always steady.
    if name == "vm":
        name += f" ({engine['accelerator']}{', steady' if engine['steady'] else ''})"
    return name


def describe_more(result: dict[str, Any]) -> str:
    """A line with qdiscs and background; empty without."""
    scenario = Scenario.from_json(result["scenario"])
    words = [
        f"{'' if qdisc.link == BOTTLENECK else f'{qdisc.link}: '}{qdisc}"
        for qdisc in scenario.qdiscs
    ]
    if scenario.background:
        words.append(f"background {scenario.background}")
    return "; ".join(words)
