# SPDX-License-Identifier: GPL-2.0
"""The commands that run a scenario: run, check."""

import argparse
import json
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from fairlab.cli import options
from fairlab.cli.measure import print_fitness
from fairlab.model.errors import CannotRunError
from fairlab.net import host
from fairlab.results import plots, report, store
from fairlab.results.dumbbell import Dumbbell, build_programs
from fairlab.run import engine
from fairlab.run.engine import JOB
from fairlab.run.job import Job

Result = TypeVar("Result")


def add(command: options.Command) -> None:
    run = command("run", "run a scenario, print and store its result", run_scenario)
    options.add_scenario(run)
    options.add_where(run)
    options.add_output(run)
    check = command("check", "check whether a scenario can run, without running it", check_scenario)
    options.add_scenario(check)
    options.add_where(check)


def require_own_network() -> None:
    """Raise CannotRunError in a network namespace, such as a container's: settings that a run
    changes exist in the machine's own only.
    """
    for path in (host.BACKLOG, host.TCP_MEMORY):
        if not path.exists():
            raise CannotRunError(
                f"the engine 'host' needs the machine's own network namespace, here is no {path}:"
                " use --engine virtual or vm, or run it outside of the container"
            )


def finished(
    arguments: argparse.Namespace, job: Job[Result], date: datetime, what: str
) -> tuple[Path, Result]:
    """Run a job; the directory with its data, named by DATE and WHAT, and its result."""
    where = options.parse_where(arguments)
    plots.require()
    job.build()
    if where.engine == engine.HOST:
        host.require_root()
        require_own_network()
        host.require_tools()
    parent = arguments.out.absolute()
    with options.progress_of(arguments) as progress, store.working_directory(parent) as work:
        if where.engine != engine.HOST:
            progress.step("booting a virtual machine")
        job.measure(work, where, progress)
        progress.step("evaluating")
        result = job.read(work)
        return store.name(work, parent, date, what), result


def answer(
    arguments: argparse.Namespace,
    result: dict[str, Any],
    directory: Path,
    table: str,
    there: str = "results and figures",
) -> None:
    """Print a result in DIRECTORY: as JSON, or its TABLE and what is THERE."""
    if arguments.json:
        print(json.dumps(result | {"directory": str(directory)}, indent=2))
    else:
        print(f"{table}\n\n{there}: {options.short(directory)}/")


def run_scenario(arguments: argparse.Namespace) -> None:
    what, date = options.parse_scenario(arguments), datetime.now().astimezone()
    name = f"{what.topology}-{store.flow_set_name(what)}"
    directory, result = finished(arguments, Dumbbell(what, date), date, name)
    answer(arguments, store.without_curves(result), directory, report.table(result))


def check_scenario(arguments: argparse.Namespace) -> None:
    what = options.parse_scenario(arguments)
    where = options.parse_where(arguments)
    build_programs(what)
    if not isinstance(where, engine.Vm):
        print_fitness(what)
        return
    with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
        description = {"kind": Dumbbell.kind, "what": what.to_json()}
        (Path(scratch) / JOB).write_text(json.dumps(description))
        where.fairlab(["measure", str(where.place(Path(scratch))), "--check"], Path(scratch))
