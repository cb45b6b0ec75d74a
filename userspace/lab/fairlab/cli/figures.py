# SPDX-License-Identifier: GPL-2.0
"""The commands `figure` and `report`.

`figure` without a name lists all figures; with names, or patterns of names, it repeats the runs
that are missing or stale, draws the figures, and judges the registered claims.  An inconsistent
claim is a finding, not a failure: the figure is drawn all the same, and the exit status is 4.
"""

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlab.cli import options
from fairlab.model.errors import CheckFailedError, LabError, UsageError
from fairlab.results import plots, trust

# The commands import the gallery themselves: others need not load its modules.

_RUN = re.compile(r"(.+)@(\d{1,10})", re.ASCII | re.DOTALL)


def add(command: options.Command) -> None:
    parser = command("figure", "run and draw published figures again, in virtual time", figure)
    name = "a figure, or a pattern ('bic-*'); none: list them"
    parser.add_argument("names", nargs="*", metavar="NAME", help=name)
    add_where(parser)
    options.add_jobs(parser)
    options.add_print(parser)
    parser.option("--run", "CASE@SEED", "only run this case, even if it is stored")
    parser.flag("--plan", "only list the runs, as JSON, and which are current")
    same = "accept stored runs as current, after changes that cannot change a number"
    parser.flag("--restamp", same)
    parser = command("report", "put all figures on one page, beside the published claims", report)
    add_where(parser)
    parser.flag("--json", "the summary as JSON")


def add_where(parser: options.Parser) -> None:
    parser.flag("--quick", "few and short runs: minutes instead of hours")
    out = "where figures go (results/figures, or with --quick results/figures-quick)"
    parser.option("--out", "DIR", out, type=Path)
    options.add_runs(parser, "the study's own: mostly five; --quick: one")
    parser.option("--studies", "FILE", "studies of your own: Python, with STUDIES", type=Path)


def _gallery(arguments: argparse.Namespace) -> Any:
    from fairlab.figures import gallery

    out = arguments.out or (gallery.QUICK if arguments.quick else gallery.FULL)
    studies = arguments.studies.absolute() if arguments.studies else None
    seeds = options.seeds_of(arguments)
    return gallery.Gallery(out.absolute(), arguments.quick, arguments.kernel, studies, seeds)


def _check(arguments: argparse.Namespace) -> None:
    asked = [name for name in ("run", "draw", "plan", "restamp") if getattr(arguments, name)]
    if len(asked) > 1:
        raise UsageError(f"--{asked[0]} and --{asked[1]} exclude each other")
    if arguments.run and len(arguments.names) != 1:
        raise UsageError("--run needs one figure")
    for option in ("draw", "restamp"):
        if getattr(arguments, option) and not arguments.names:
            raise UsageError(f"--{option} needs figures")
    options.jobs_of(arguments)


def figure(arguments: argparse.Namespace) -> None:
    from fairlab.figures import gallery

    _check(arguments)
    place = _gallery(arguments)
    studies = gallery.load(place.studies)
    if not arguments.names and not arguments.plan:
        _list(arguments, place, studies)
        return
    chosen = gallery.choose(studies, arguments.names or ["*"])
    if arguments.plan:
        print(json.dumps([_plan(place, study) for study in chosen], indent=1))
        return
    if arguments.restamp:
        counts = [place.restamp(study) for study in chosen]
        changed, stored = (sum(column) for column in zip(*counts, strict=True))
        print(f"{changed} of {stored} stored runs have a new fingerprint")
        return
    if arguments.run:
        if len(chosen) != 1:
            raise UsageError("--run needs one figure")
        with options.progress_of(arguments) as progress:
            place.execute(_find(place, chosen[0], arguments.run), progress)
        return
    _make(arguments, place, chosen)


def _find(place: Any, study: Any, name: str) -> Any:
    """The run CASE@SEED of a study, with any seed."""
    match = _RUN.fullmatch(name)
    if not match:
        raise UsageError(
            f"run '{name}': must be CASE@SEED, for example {place.runs(study)[0].name}"
        )
    case, seed = match[1], int(match[2])
    options.check_seed(seed)
    runs = dataclasses.replace(place, seeds=(seed,)).runs(study)
    for run in runs:
        if run.case.name == case:
            return run
    names = ", ".join(run.case.name for run in runs)
    raise UsageError(f"no case '{case}' of {study.name}; there are: {names}")


def _plan(place: Any, study: Any) -> dict[str, Any]:
    """The sources and runs of a figure, for a workflow: fingerprints, files, which are current."""
    from fairlab.figures import fingerprints

    return {
        "name": study.name,
        "title": study.title,
        "sources": [str(path) for path in fingerprints.drawing(study)],
        "runs": [
            {
                "run": run.name,
                "fingerprint": run.fingerprint,
                "file": str(place.path(run)),
                "memory": run.memory,
                "current": place.is_current(run),
            }
            for run in place.runs(study)
        ],
    }


def _list(arguments: argparse.Namespace, place: Any, studies: Sequence[Any]) -> None:
    from fairlab.figures import gallery
    from fairlab.figures.reproduction import counts
    from fairlab.figures.verdict import CONSISTENT

    rows = []
    for study in studies:
        runs = place.runs(study)
        drawn = gallery.read_json(place.out / f"{study.name}.json")
        claims = drawn["claims"] if drawn else None
        rows.append(
            {
                "name": study.name,
                "title": study.title,
                "source": study.source,
                "runs": len(runs),
                "current": sum(map(place.is_current, runs)),
                "claims": claims and counts(claims),
            }
        )
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    print(f"{'':{width}}     runs  claims")
    for row in rows:
        there = f"{row['current']}/{row['runs']}"
        found = row["claims"]
        held = f"{found[CONSISTENT]}/{sum(found.values())}" if found else "-"
        print(f"{row['name']:{width}}  {there:>7}  {held:>6}  {row['title']}")


def _make(arguments: argparse.Namespace, place: Any, chosen: Sequence[Any]) -> None:
    """Do the runs that are missing or stale, draw the figures, print the claims."""
    plots.require()
    failures: list[Any] = []
    with options.progress_of(arguments) as progress:
        if not arguments.draw:
            # Twice: the verdicts of the first time decide on further seeds.
            for _ in range(2):
                runs = [run for study in chosen for run in place.runs(study)]
                failures = failures or place.repeat(runs, options.jobs_of(arguments), progress)
        documents, errors = [], []
        for study in chosen:
            if any(failure.run.study is study for failure in failures):
                continue
            try:
                documents.append(place.draw(study))
            except LabError as error:
                errors.append(error)
    if arguments.json:
        print(json.dumps(documents, indent=1))
    else:
        for document in documents:
            print(_describe(place.out, document))
    if failures:
        _raise_failures(failures)
    if errors:
        raise errors[0] if len(errors) == 1 else type(errors[0])("; ".join(map(str, errors)))
    claims = [claim for document in documents for claim in document["claims"]]
    broken = sum(claim["verdict"] == "inconsistent" for claim in claims)
    if broken:
        raise CheckFailedError(f"{broken} of {len(claims)} claims are inconsistent")


def _raise_failures(failures: Sequence[Any]) -> None:
    """Raise a LabError that names the figures, with the reason and exit status of the first run."""
    names = ", ".join(dict.fromkeys(failure.run.study.name for failure in failures))
    first = failures[0]
    how = "were refused" if all(failure.status == 3 for failure in failures) else "failed"
    error = LabError(
        f"{len(failures)} runs {how}, so {names} cannot be drawn: {first.run.label}: {first.reason}"
    )
    error.status = 3 if first.status == 3 else 1
    raise error


def _describe(out: Path, document: dict[str, Any]) -> str:
    """A figure's title, claims and file, as text."""
    lines = [f"{document['name']}: {document['title']}"]
    if missing := document["missing"]:
        seeds = len(document["seeds"])
        lines.append(f"  {missing} further runs are missing: drawn from {seeds} seeds")
    if stale := document["stale"]:
        made = ", ".join(document["made"])
        lines.append(f"  {stale} of {document['runs']} runs are stale: {made}, from other sources")
    for claim in document["claims"]:
        lines.append(f"  {claim['verdict']:12}  {claim['text']}")
        details = f"published {claim['published']}; here {claim['here']} ({claim['accepted']})"
        lines.append(f"{'':16}{details}; class: {claim['class']}")
        if claim["verdict"] != "consistent" and claim["why"]:
            lines.append(f"{'':16}{claim['why']}")
    lines += [f"  {line}" for line in trust.lines(document["conditions"])]
    return "\n".join([*lines, f"  {options.short(out / document['name'])}.png"])


def report(arguments: argparse.Namespace) -> None:
    plots.require()
    from fairlab.figures import gallery, webpage

    place = _gallery(arguments)
    path, summary = webpage.write(place, gallery.load(place.studies))
    if arguments.json:
        print(json.dumps(summary | {"report": str(path)}, indent=1))
        return
    print(webpage.described(summary))
    print(options.short(path))
