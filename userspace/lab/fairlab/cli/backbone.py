# SPDX-License-Identifier: GPL-2.0
"""The command backbone."""

import argparse
import json
from collections.abc import Callable
from datetime import datetime

from fairlab.cli.options import add_output, add_where
from fairlab.cli.run import evaluated, short
from fairlab.model import units
from fairlab.model.errors import CheckFailedError, UsageError
from fairlab.results import store
from fairlab.slbn import backbone, backbone_report


def add(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    parser = command(
        "backbone", "run flows on a backbone: with SLBN, with fair queueing, with FIFO queues"
    )
    parser.add_argument("--rate", default="4mbit", metavar="RATE", help="of each link (4mbit)")
    parser.add_argument("--time", default="60", metavar="SECONDS", help="duration (60)")
    parser.add_argument(
        "--variants",
        default=",".join(backbone.VARIANTS),
        metavar="LIST",
        help=f"of {', '.join(backbone.VARIANTS)} (all)",
    )
    add_where(parser)
    add_output(parser)
    parser.set_defaults(handler=run_backbone)


def parse_plan(arguments: argparse.Namespace) -> backbone.Plan:
    """The plan that the command line describes."""
    seconds, rest = divmod(units.parse_seconds(arguments.time), 10**6)
    if rest or not backbone.SHORTEST <= seconds <= 3600:
        raise UsageError(
            f"time '{arguments.time}': must be whole seconds, {backbone.SHORTEST} to 3600"
        )
    variants = tuple(arguments.variants.split(","))
    for name in variants:
        if name not in backbone.VARIANTS:
            raise UsageError(f"no variant '{name}'; there are: {', '.join(backbone.VARIANTS)}")
    return backbone.Plan(units.parse_rate(arguments.rate), seconds, variants)


def run_backbone(arguments: argparse.Namespace) -> None:
    plan = parse_plan(arguments)
    date = datetime.now().astimezone()
    with evaluated(arguments, backbone_report.Backbone(plan)) as (work, result):
        name = f"{date.strftime('%Y-%m-%dT%H%M%S')}-backbone"
        directory = store.name(work, arguments.out.absolute(), name)
    if arguments.json:
        print(json.dumps(result | {"directory": str(directory)}, indent=2))
    else:
        print(backbone_report.table(plan, result))
        print(f"\nresults and figures: {short(directory)}/")
        for path in sorted(directory.glob("*.png")):
            print(f"  {short(path)}")
    if failed := backbone_report.failed(result):
        raise CheckFailedError(f"checks of SLBN failed: {'; '.join(failed)}")
