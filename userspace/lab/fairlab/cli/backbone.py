# SPDX-License-Identifier: GPL-2.0
"""The command backbone."""

import argparse
import json
from collections.abc import Callable
from datetime import datetime

from fairlab.cli.options import add_output, add_where, short
from fairlab.cli.run import evaluated
from fairlab.model import units
from fairlab.model.errors import CheckFailedError, UsageError
from fairlab.results import store
from fairlab.slbn import abilene, backbone, backbone_report, keys


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
    parser.add_argument(
        "--paths",
        default="symmetric",
        metavar="KIND",
        help="routes: symmetric, asymmetric (another way back), ecmp (equal-cost paths),"
        " or asymmetric,ecmp (symmetric)",
    )
    parser.add_argument(
        "--rotate-keys",
        metavar="SECONDS",
        help="authenticate control packets, with a new key each SECONDS (no authentication)",
    )
    parser.add_argument(
        "--without",
        default="",
        metavar="NODE[:QDISC],...",
        help="nodes whose links have no SLBN, only drr_fq (default) or pfifo (none)",
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
    if arguments.paths not in abilene.ROUTINGS:
        kinds = ", ".join(f"'{kind}'" for kind in abilene.ROUTINGS)
        raise UsageError(f"no paths '{arguments.paths}'; there are: {kinds}")
    rotate = parse_rotation(arguments.rotate_keys, seconds)
    without = parse_without(arguments.without)
    if (rotate or without) and not any(backbone.VARIANTS[name].slbn for name in variants):
        raise UsageError(
            "--rotate-keys and --without change the variant slbn: add it to --variants"
        )
    rate = units.parse_rate(arguments.rate)
    return backbone.Plan(rate, seconds, variants, arguments.paths, rotate, without)


def parse_rotation(text: str | None, run: int) -> int:
    """Seconds between two keys in a run of RUN seconds; 0: no keys."""
    if text is None:
        return 0
    seconds, rest = divmod(units.parse_seconds(text), 10**6)
    if rest or not keys.SHORTEST <= seconds <= run // 2:
        raise UsageError(
            f"--rotate-keys '{text}': must be whole seconds, {keys.SHORTEST} to half of --time"
        )
    return seconds


def parse_without(text: str) -> tuple[tuple[str, str], ...]:
    """The nodes without SLBN, and the qdiscs of their links."""
    found: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        node, _, kind = word.partition(":")
        if node not in abilene.NODES:
            raise UsageError(f"no node '{node}'; there are: {', '.join(abilene.NODES)}")
        if node in found:
            raise UsageError(f"node '{node}' is named twice")
        found[node] = kind or backbone.NO_SLBN[0]
        if found[node] not in backbone.NO_SLBN:
            raise UsageError(
                f"no qdisc '{kind}' for node '{node}'; there are: {', '.join(backbone.NO_SLBN)}"
            )
    return tuple(found.items())


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
