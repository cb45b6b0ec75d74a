# SPDX-License-Identifier: GPL-2.0
"""The result of the bench of slbn as tables (Markdown) and a figure (PNG, SVG).

All is made from the data alone. Run as a program with its path, it writes them anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.report import STYLE, inside

COLOURS = ("#777777", "#0072B2", "#D55E00")
DATA = "100 flows of UDP, backlogged, three packets each, hash not known"
KINDS = {"task": "the link's task alone", "control": "through the qdisc"}


def of_kind(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [point for point in data["points"] if point["kind"] == kind]


def cell(values: dict[str, float]) -> str:
    return f"{values['median']:.0f} ± {(values['high'] - values['low']) / 2:.0f}"


def control_table(data: dict[str, Any], kind: str) -> list[str]:
    points = of_kind(data, kind)
    sessions = list(dict.fromkeys(point["sessions"] for point in points))
    lines = ["| memory | " + " | ".join(f"{n:,}" for n in sessions) + " |"]
    lines.append("| ---: |" + " ---: |" * len(sessions))
    for entries in dict.fromkeys(point["entries"] for point in points):
        row = [cell(point["ns"]) for point in points if point["entries"] == entries]
        lines.append(f"| {entries:,} visits | " + " | ".join(row) + " |")
    return lines


def text(data: dict[str, Any]) -> str:
    known = data["conditions"]
    lines = [
        "# What SLBN costs",
        "",
        "Nanoseconds per packet. ± is half of what lies between the quartiles of the"
        f" {data['turns']} turns. `make bench` measures it again; `tests/bench/measure_slbn.py`"
        " says how, and what it checks before it believes a figure.",
        "",
        "![cost of a control packet over the number of sessions](bench-slbn.png)",
        "",
        "## A control packet",
        "",
        "By the number of sessions on the link. What the link knows does not grow with it, nor does"
        " the work; what it remembers of the last visits is in the CPU's caches or not.",
    ]
    for kind, title in KINDS.items():
        lines += ["", f"{title[0].upper()}{title[1:]}:", "", *control_table(data, kind)]
    lines += [
        "",
        "## A data packet",
        "",
        f"Through `slbn` and a child, and through that child alone ({DATA}). The aim is to add"
        " less than 2 %.",
        "",
        "| child | alone | with slbn | slbn adds |",
        "| --- | ---: | ---: | ---: |",
    ]
    for point in of_kind(data, "data"):
        part = point["adds"]["median"] / point["bare"]["median"]
        lines.append(
            f"| `{point['child']}` | {cell(point['bare'])} | {cell(point['slbn'])} |"
            f" {cell(point['adds'])} ({100 * part:.0f} %) |"
        )
    lines += [
        "",
        "A routed packet's whole path, with the qdisc at the device where it enters and where it"
        " leaves. `prio` has two classes as `slbn` has, and nothing else to do; a `pfifo` that is"
        " empty is passed by and never sees the packet. The aim is that `slbn` cannot be measured"
        " here; but this path is a short one, without a driver.",
        "",
        "| qdisc | ns | to prio |",
        "| --- | ---: | ---: |",
    ]
    for point in of_kind(data, "route"):
        lines.append(
            f"| `{point['qdisc']}` | {cell(point['ns'])} | {point['ratio']['median']:.2f} |"
        )
    lines += [
        "",
        "## Conditions",
        "",
        *inside(known),
        f"- {data['turns']} turns of {data['slices']} slices of {data['slice']} packets; the value"
        " of a turn is the median of its slices, less that of the same loop without what is"
        " measured; of a routed packet nothing is taken off.",
        "- Control packets are Probes over IPv4, with 32 tags, checksums verified by the device;"
        " the ledgers are never turned; every second session is restricted by the link.",
        "- One CPU, so locks cost nothing.",
    ]
    return "\n".join(lines) + "\n"


def draw(data: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl  # takes long to load
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 3.8), dpi=150, layout="constrained")
        axes = figure.subplots(1, len(KINDS), sharey=True)
        for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
            points = of_kind(data, kind)
            for colour, entries in zip(
                COLOURS, dict.fromkeys(point["entries"] for point in points), strict=False
            ):
                row = [point for point in points if point["entries"] == entries]
                costs = [point["ns"]["median"] for point in row]
                axis.plot(
                    [point["sessions"] for point in row],
                    costs,
                    marker="o",
                    markersize=4,
                    color=colour,
                    label=f"memory of {entries:,} visits" if entries else "no memory",
                )
            axis.set_xscale("log")
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("sessions on the link")
        axes[0].set_ylim(bottom=0)
        axes[0].set_ylabel("ns per control packet")
        axes[0].legend()
        for ending in ("png", "svg"):
            figure.savefig(
                path.with_suffix(f".{ending}"), metadata={"Date": None} if ending == "svg" else None
            )


def write(path: Path) -> None:
    """The table and the figure, beside the data."""
    data = json.loads(path.read_text())
    draw(data, path)
    path.with_suffix(".md").write_text(text(data))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
