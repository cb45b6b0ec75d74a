# SPDX-License-Identifier: GPL-2.0
"""The commands that run nothing: list, plot."""

import argparse
import os
from pathlib import Path

from fairlab.cli.options import Command, add_where, parse_where
from fairlab.model import qdisc, scenario
from fairlab.model.errors import UsageError
from fairlab.net import congestion, host
from fairlab.results import comparison, plots, store
from fairlab.run import engine


def add(command: Command) -> None:
    listing = command(
        "list",
        "list topologies, their links, and the congestion controls and presets of a guest's"
        " kernel, which is booted (--engine host: of this one)",
        list_all,
    )
    add_where(listing)
    plot = command(
        "plot",
        "draw the figures of a stored result again, or (--out) several results side by side:"
        " windows and utilisation of the link",
        plot_again,
    )
    plot.add_argument("directories", type=Path, nargs="+", metavar="DIR", help="results")
    plot.option("--out", "FILE", "the figure: .png or .svg", type=Path)


def list_all(arguments: argparse.Namespace) -> None:
    where = parse_where(arguments)
    if isinstance(where, engine.Vm):
        where.fairlab(["list", "--engine", "host"], None)
        return
    host.complete_path()
    # In a guest all modules can be loaded; on the host only `run` loads any.
    if os.environ.get("FAIRPATH_ENGINE"):
        for cc in congestion.loadable():
            congestion.load(cc)
    print(f"topologies: {', '.join(scenario.TOPOLOGIES)}")
    print("links for --qdisc:")
    for link, text in qdisc.LINKS.items():
        print(f"  {link:12} {text}")
    print(f"congestion controls of Linux {os.uname().release}:")
    ready = congestion.registered()
    for cc in sorted({*ready, *congestion.loadable()}):
        presets = congestion.presets(cc)
        notes = [f"presets: {', '.join(presets)}"] if presets else []
        notes += [] if cc in ready else ["not loaded yet"]
        print(f"  {cc:12} {'; '.join(notes)}".rstrip())


def plot_again(arguments: argparse.Namespace) -> None:
    plots.require()
    directories: list[Path] = arguments.directories
    if arguments.out:
        results = [store.read(directory) for directory in directories]
        for directory, result in zip(directories, results, strict=True):
            with store.readable(directory, result):
                comparison.check(result)
        comparison.draw(results, arguments.out)
        print(arguments.out)
        return
    if len(directories) > 1:
        raise UsageError("several results are drawn side by side: --out FILE is missing")
    result = store.read(directories[0])
    with store.readable(directories[0], result):
        paths = plots.draw(directories[0], result)
    for path in paths:
        print(path)
