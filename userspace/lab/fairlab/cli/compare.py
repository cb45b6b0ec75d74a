# SPDX-License-Identifier: GPL-2.0
"""The command compare: one workload on many stacks, one table and one picture."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlab.cli import options
from fairlab.model.errors import CannotRunError, LabError, UsageError, require_known
from fairlab.results import plots, report, trust
from fairlab.run.progress import Progress

# The command imports the gallery and the comparisons itself: others need not load them.


def add(command: options.Command) -> None:
    parser = command(
        "compare", "run one workload on many stacks: one table and one picture", compare
    )
    parser.add_argument("workload", nargs="?", metavar="WORKLOAD", help="none: list them")
    parser.option("--stacks", "LIST", "of pfifo, fq_codel, cake, ... (all)")
    parser.option("--congestion", "LIST", "congestion controls, or all", "cubic")
    options.add_runs(parser, "10")
    options.add_jobs(parser)
    options.add_output(parser, "results/compare")
    parser.option("--publish", "PAGE", "put the tables in DIR into a Markdown page", type=Path)


def parse_list(text: str | None, known: Sequence[str], what: str) -> tuple[str, ...]:
    """The names in TEXT, of those that are KNOWN; None or all: all of them."""
    if text in (None, "all"):
        return tuple(known)
    found = tuple(dict.fromkeys(str(text).split(",")))
    for name in found:
        require_known(f"no {what}", name, known)
    return found


def compare(arguments: argparse.Namespace) -> None:
    from fairlab.compare.stacks import CCS, STACKS, cases
    from fairlab.compare.workloads import WORKLOADS
    from fairlab.figures import comparisons
    from fairlab.slbn.experiment import L4S

    if arguments.publish is not None:
        if arguments.workload is not None:
            raise UsageError("--publish takes all workloads that are drawn in DIR: name none")
        if not arguments.publish.is_file():
            raise UsageError(f"{arguments.publish}: no such file")
        print("\n".join(comparisons.publish(arguments.publish, arguments.out)))
        return
    if arguments.workload is None:
        width = max(map(len, WORKLOADS))
        for name, workload in WORKLOADS.items():
            print(f"{name:{width}}  {workload.title}")
        return
    parse_list(arguments.workload, tuple(WORKLOADS), "workload")
    stacks = parse_list(arguments.stacks, tuple(STACKS), "stack")
    ccs = parse_list(
        arguments.congestion, (*CCS, *(c for c in L4S if c not in CCS)), "congestion control"
    )
    options.jobs_of(arguments)
    if not cases(stacks, ccs):
        raise UsageError(f"{', '.join(ccs)} runs on dualpi2 only: add it to --stacks")
    plots.require()
    run_and_print(arguments, WORKLOADS[arguments.workload], stacks, ccs)


def run_and_print(
    arguments: argparse.Namespace, workload: Any, stacks: tuple[str, ...], ccs: tuple[str, ...]
) -> None:
    from fairlab.compare import measures, studies
    from fairlab.figures import comparisons, gallery

    seeds = options.seeds_of(arguments)
    place = gallery.Gallery(
        arguments.out.absolute(), False, arguments.kernel, Path(studies.__file__), seeds
    )
    study = studies.Comparison(workload, stacks, ccs)
    if arguments.draw:
        missing = {
            run.case.name: "not stored" for run in place.runs(study) if not place.stored(run)
        }
    else:
        with options.progress_of(arguments) as progress:
            missing = run_all(place, study, options.jobs_of(arguments), progress)
    study = studies.Comparison(workload, stacks, ccs, frozenset(missing))
    if not study.cases(False, 1):
        if arguments.draw:
            these = f" with the seeds {', '.join(map(str, seeds))}" if seeds else ""
            raise CannotRunError(
                f"no run of {workload.name}{these} is stored in {place.out}: without --draw they"
                " are run"
            )
        raise LabError(f"no stack could run: {next(iter(missing.values()))}")
    document = place.draw(study)
    data: dict[str, list[Any]] = {}
    for run in place.runs(study):
        if found := place.stored(run):
            data.setdefault(run.case.name, []).append(found["numbers"])
    document |= {
        "missing": missing,
        "worse": measures.losses(data),
        "verdicts": measures.all_verdicts(data),
    }
    gallery.write_whole(place.out / f"{study.name}.json", gallery.to_json(document, study.name))
    gallery.write_whole(place.out / f"{study.name}.md", comparisons.markdown(document))
    page = comparisons.write(place.out)
    if arguments.json:
        print(json.dumps(document, indent=1))
        return
    print(describe(document))
    print(f"\n{options.short(place.out / study.name)}.png\n{options.short(page)}")


def run_all(place: Any, study: Any, jobs: int, progress: Progress) -> dict[str, str]:
    """Do the runs that are missing or stale; the cases that cannot run, with the reason.

    The first seed runs first: a case that fails then is left out.  So is one of which another seed
    fails, and the reason names the seed.
    """
    missing: dict[str, str] = {}
    runs = place.runs(study)
    first = min(run.seed for run in runs)
    for chosen in (
        [run for run in runs if run.seed == first],
        [run for run in runs if run.seed != first],
    ):
        possible = [run for run in chosen if run.case.name not in missing]
        for failure in place.repeat(possible, jobs, progress):
            seed = "" if failure.run.seed == first else f"seed {failure.run.seed}: "
            missing.setdefault(failure.run.case.name, seed + failure.reason)
    return missing


def describe(document: dict[str, Any]) -> str:
    """The table as text, the stacks that are missing, and where ours are worse."""
    from fairlab.compare.stacks import split_case
    from fairlab.figures import comparisons

    table = report.aligned(comparisons.turned(document))
    lines = [document["title"], document["setting"], "", *table, ""]
    for name, why in document["missing"].items():
        lines.append(f"{' '.join(split_case(name))}: not run: {why}")
    if document["stale"]:
        made = ", ".join(document["made"])
        count = f"{document['stale']} of {document['runs']} runs"
        lines.append(f"{count} are stale: {made}, from other sources")
    lines += document["worse"] + trust.lines(document["conditions"])
    return "\n".join(lines)
