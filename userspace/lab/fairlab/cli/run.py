# SPDX-License-Identifier: GPL-2.0
"""The commands that run a scenario: run, check, five."""

import argparse
import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from fairlab.cli.measure import print_fitness
from fairlab.cli.options import (
    Parser,
    add_output,
    add_scenario,
    add_where,
    parse_scenario,
    parse_where,
)
from fairlab.model.errors import CannotRunError
from fairlab.model.scenario import Scenario
from fairlab.net import host
from fairlab.results import plots, report, store
from fairlab.results.dumbbell import Dumbbell, build_programs
from fairlab.run import engine
from fairlab.run.engine import JOB
from fairlab.run.job import Job
from fairlab.run.progress import Progress, style_here

FIVE = "dumbbell --flows bic,bic,gaimd,cubic,reno --rate 50mbit --rtt 60ms --buffer 1bdp --time 40"

Result = TypeVar("Result")


def add(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    run = command("run", "run a scenario, print and store its result")
    add_scenario(run)
    add_where(run)
    add_output(run)
    run.set_defaults(handler=run_scenario)
    check = command("check", "check whether a scenario can run, without running it")
    add_scenario(check)
    add_where(check)
    check.set_defaults(handler=check_scenario)
    five = command("five", f"run {FIVE}, and describe the result in words")
    add_where(five)
    add_output(five)
    five.set_defaults(handler=run_five)


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
    where = parse_where(arguments)
    plots.require()
    job.build()
    if where.engine == engine.HOST:
        host.require_root()
        require_own_network()
        host.require_tools()
    progress = Progress(style_here(arguments.quiet))
    parent: Path = arguments.out.absolute()
    with contextlib.closing(progress), store.working_directory(parent) as work:
        if where.engine != engine.HOST:
            progress.step("booting a virtual machine")
        job.measure(work, where, progress)
        progress.step("evaluating")
        yield work, job.read(work)


def short(path: Path) -> str:
    """PATH relative to the current directory if it is below, else in full."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def run_and_store(arguments: argparse.Namespace, what: Scenario) -> tuple[Path, dict[str, Any]]:
    """Run a scenario; the directory of its result, and the result."""
    job = Dumbbell(what, datetime.now().astimezone())
    with evaluated(arguments, job) as (work, result):
        directory = store.publish(work, arguments.out.absolute(), job.date, result)
        plots.draw(directory, result)
        return directory, result


def run_scenario(arguments: argparse.Namespace) -> None:
    show(arguments, *run_and_store(arguments, parse_scenario(arguments)))


def show(arguments: argparse.Namespace, directory: Path, result: dict[str, Any]) -> None:
    """Print a result, as JSON or as a table."""
    if arguments.json:
        print(json.dumps(store.without_curves(result) | {"directory": str(directory)}, indent=2))
        return
    print(report.table(result))
    print(f"\nresults and figures: {short(directory)}/")


def run_five(arguments: argparse.Namespace) -> None:
    parser = Parser()
    add_scenario(parser)
    add_where(parser)
    directory, result = run_and_store(arguments, parse_scenario(parser.parse_args(FIVE.split())))
    show(arguments, directory, result)
    if not arguments.json:
        for name in plots.names(result):
            print(f"  {short(directory / name)}.png")
        print("\nWhat is to be seen:")
        for sentence in report.sentences(result):
            print(f"- {sentence}")


def check_scenario(arguments: argparse.Namespace) -> None:
    what = parse_scenario(arguments)
    where = parse_where(arguments)
    build_programs(what)
    if not isinstance(where, engine.Vm):
        print_fitness(what)
        return
    with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
        description = {"kind": Dumbbell.kind, "what": what.to_json()}
        (Path(scratch) / JOB).write_text(json.dumps(description))
        where.fairlab(["measure", str(where.place(Path(scratch))), "--check"], Path(scratch))
