# SPDX-License-Identifier: GPL-2.0
"""The commands that run a scenario: run, check."""

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from fairlab.cli import options
from fairlab.cli.measure import print_fitness
from fairlab.model.errors import CannotRunError
from fairlab.net import host
from fairlab.results import plots, report, store
from fairlab.results.dumbbell import Dumbbell, build_programs
from fairlab.run import engine
from fairlab.run.engine import JOB
from fairlab.run.job import Job
from fairlab.run.progress import Progress, style_here

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


@contextlib.contextmanager
def evaluated(arguments: argparse.Namespace, job: Job[Result]) -> Iterator[tuple[Path, Result]]:
    """Run a job; the directory with its data, to be given a name, and its result."""
    where = options.parse_where(arguments)
    plots.require()
    job.build()
    if where.engine == engine.HOST:
        host.require_root()
        require_own_network()
        host.require_tools()
    progress = Progress(style_here(arguments.quiet))
    parent = arguments.out.absolute()
    with contextlib.closing(progress), store.working_directory(parent) as work:
        if where.engine != engine.HOST:
            progress.step("booting a virtual machine")
        job.measure(work, where, progress)
        progress.step("evaluating")
        yield work, job.read(work)


def run_scenario(arguments: argparse.Namespace) -> None:
    job = Dumbbell(options.parse_scenario(arguments), datetime.now().astimezone())
    with evaluated(arguments, job) as (work, result):
        directory = store.publish(work, arguments.out.absolute(), job.date, result)
        plots.draw(directory, result)
    if arguments.json:
        print(json.dumps(store.without_curves(result) | {"directory": str(directory)}, indent=2))
        return
    print(report.table(result))
    print(f"\nresults and figures: {options.short(directory)}/")


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
