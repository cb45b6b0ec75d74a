# SPDX-License-Identifier: GPL-2.0
"""Measuring a job on this kernel: `fairlab measure`, which engines start in a guest."""

import argparse
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlab.compare import plan as compare_plan
from fairlab.model import units
from fairlab.model.experiment import Layout
from fairlab.model.scenario import Scenario
from fairlab.run import dumbbell, experiment, flenttest, job
from fairlab.run.progress import STYLE, STYLES, Progress
from fairlab.slbn import backbone, guest, sessions, sessions_tcp
from fairlab.slbn.record import Measured


def measure_experiment(plan: Measured[Any], directory: Path, progress: Progress) -> None:
    guest.measure(plan.experiment(), directory, progress)


# By the kind of a job: what reads its description, what measures it.
MEASURERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Path, Progress], None]]] = {
    "scenario": (Scenario.from_json, dumbbell.measure),
    "flent": (flenttest.Request.from_json, flenttest.measure),
    "experiment": (Layout.from_json, experiment.measure),
    "backbone": (backbone.Plan.from_json, backbone.measure),
    "sessions": (sessions.Plan.from_json, measure_experiment),
    "sessions-tcp": (sessions_tcp.TcpPlan.from_json, measure_experiment),
    "compare": (compare_plan.Plan.from_json, measure_experiment),
}


def measure(directory: Path, progress: Progress) -> None:
    """Measure the job in DIRECTORY, as root; its raw data is left there."""
    kind, what = job.load(directory)
    parse, run = MEASURERS[kind]
    run(parse(what), directory, progress)


def add(commands: Any) -> None:
    """The command, which is not listed: users do not need it."""
    parser = commands.add_parser("measure")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.set_defaults(handler=measure_here)


def print_fitness(what: Scenario) -> None:
    """Check on this kernel that a scenario could run, and print what was checked."""
    fitness = dumbbell.check(what, Progress("none"))
    kinds = ", ".join(dict.fromkeys(map(str, what.flows)))
    print(f"congestion controls: {kinds}")
    for one in what.qdiscs:
        print(f"qdisc: {one.link}: {one}")
    print("offloads: off on every link")
    if fitness["capacity"] is None:
        print("forwarding: takes no time here")
    else:
        speed = f"{fitness['capacity'] / 1e6:.0f} Mbit/s"
        print(f"forwarding: {speed}, for {units.format_rate(what.rate)}")
    print(f"round-trip: {fitness['round_trip_ms']:.2f} ms, for {units.format_time(what.rtt)}")
    print("this experiment can run here")


def measure_here(arguments: argparse.Namespace) -> None:
    if arguments.check:
        print_fitness(Scenario.from_json(job.load(arguments.directory)[1]))
        return
    progress = Progress(os.environ.get(STYLE, STYLES[-1]))
    with contextlib.closing(progress):
        measure(arguments.directory, progress)
