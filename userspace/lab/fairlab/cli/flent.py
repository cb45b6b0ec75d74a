# SPDX-License-Identifier: GPL-2.0
"""The command flent."""

import argparse
from datetime import datetime

from fairlab.cli.options import Command, add_network, add_output, add_where, parse_scenario
from fairlab.cli.run import answer, finished
from fairlab.results import flentresult
from fairlab.results.flentresult import FlentTest
from fairlab.run import flenttest


def add(command: Command) -> None:
    parser = command("flent", "run a test of Flent's on the dumbbell: [-- OPTION...]", run_flent)
    name = "such as tcp_download, rrul_be: flent --list-tests"
    parser.add_argument("test", metavar="TEST", help=name)
    parser.option("--cc", "NAME", "congestion control (the test's, or the kernel's)")
    add_network(parser, seconds=60)
    add_where(parser)
    add_output(parser)
    # A test has no flows of ours, and no background.
    scenario_only = ("warmup", "sender", "background", "background_kind", "background_sizes")
    parser.set_defaults(
        **dict.fromkeys((*scenario_only, "background_mean", "background_peak")),
        topology="dumbbell",
        start_gap="0",
        seed=1,
    )


def run_flent(arguments: argparse.Namespace) -> None:
    flenttest.require()
    flenttest.require_test(arguments.test)
    # The scenario's one flow stands for the test's two hosts.
    arguments.flows = arguments.cc or "cubic"
    what = parse_scenario(arguments)
    request = flenttest.Request(arguments.test, tuple(arguments.options), arguments.cc or "", what)
    job = FlentTest(request, datetime.now().astimezone())
    directory, result = finished(arguments, job, job.date, f"flent-{request.test}")
    table = flentresult.table(result, directory)
    answer(arguments, result, directory, table, "result and figure")
