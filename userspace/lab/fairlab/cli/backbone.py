# SPDX-License-Identifier: GPL-2.0
"""The command backbone."""

import argparse
from datetime import datetime

from fairlab.cli.options import Command, add_output, add_where, short
from fairlab.cli.run import answer, finished
from fairlab.model import units
from fairlab.model.errors import CheckFailedError, UsageError, require_known
from fairlab.slbn import abilene, backbone, backbone_report, keys


def add(command: Command) -> None:
    parser = command(
        "backbone",
        "run flows on a backbone: with SLBN, with fair queueing, with FIFO queues",
        run_backbone,
    )
    parser.option("--rate", "RATE", "of each link", "4mbit")
    parser.option("--time", "SECONDS", "duration", "60")
    known = ",".join(backbone.VARIANTS)
    parser.add_argument(
        "--variants", default=known, metavar="LIST", help=f"of {', '.join(backbone.VARIANTS)} (all)"
    )
    routes = (
        "routes: symmetric, asymmetric (another way back), ecmp (equal-cost paths),"
        " or asymmetric,ecmp"
    )
    parser.option("--paths", "KIND", routes, "symmetric")
    rotated = "authenticate control packets, with a new key each SECONDS (no authentication)"
    parser.option("--rotate-keys", "SECONDS", rotated)
    plain = "nodes whose links have no SLBN, only drr_fq (default) or pfifo (none)"
    parser.add_argument("--without", default="", metavar="NODE[:QDISC],...", help=plain)
    add_where(parser)
    add_output(parser)


def parse_plan(arguments: argparse.Namespace) -> backbone_report.Backbone:
    """The plan that the command line describes."""
    shortest = backbone.SHORTEST
    seconds = whole_seconds("time", arguments.time, shortest, 3600, f"{shortest} to 3600")
    variants = tuple(arguments.variants.split(","))
    for name in variants:
        require_known("no variant", name, backbone.VARIANTS)
    if arguments.paths not in abilene.ROUTINGS:
        kinds = ", ".join(f"'{kind}'" for kind in abilene.ROUTINGS)
        raise UsageError(f"no paths '{arguments.paths}'; there are: {kinds}")
    rotate = 0
    if arguments.rotate_keys is not None:
        known = f"{keys.SHORTEST} to half of --time"
        rotate = whole_seconds(
            "--rotate-keys", arguments.rotate_keys, keys.SHORTEST, seconds // 2, known
        )
    without = parse_without(arguments.without)
    if (rotate or without) and not any(backbone.VARIANTS[name].slbn for name in variants):
        raise UsageError(
            "--rotate-keys and --without change the variant slbn: add it to --variants"
        )
    rate = units.parse_rate(arguments.rate)
    return backbone_report.Backbone(rate, seconds, variants, arguments.paths, rotate, without)


def whole_seconds(what: str, text: str, least: int, most: int, known: str) -> int:
    """A number of seconds from LEAST to MOST, a range that KNOWN describes."""
    seconds, rest = divmod(units.parse_seconds(text), 10**6)
    if rest or not least <= seconds <= most:
        raise UsageError(f"{what} '{text}': must be whole seconds, {known}")
    return seconds


def parse_without(text: str) -> tuple[tuple[str, str], ...]:
    """The nodes without SLBN, and the qdiscs of their links."""
    found: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        node, _, kind = word.partition(":")
        require_known("no node", node, abilene.NODES)
        if node in found:
            raise UsageError(f"node '{node}' is named twice")
        found[node] = kind or backbone.NO_SLBN[0]
        if found[node] not in backbone.NO_SLBN:
            raise UsageError(
                f"no qdisc '{kind}' for node '{node}'; there are: {', '.join(backbone.NO_SLBN)}"
            )
    return tuple(found.items())


def run_backbone(arguments: argparse.Namespace) -> None:
    plan, date = parse_plan(arguments), datetime.now().astimezone()
    directory, result = finished(arguments, plan, date, "backbone")
    answer(arguments, result, directory, backbone_report.table(plan, result))
    if not arguments.json:
        for path in sorted(directory.glob("*.png")):
            print(f"  {short(path)}")
    if failed := backbone_report.failed(result):
        raise CheckFailedError(f"checks of SLBN failed: {'; '.join(failed)}")
