# SPDX-License-Identifier: GPL-2.0
"""The result of the bench of slbnsim as a table (Markdown).

All is made from the data alone. Run as a program with its path, it writes it anew.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

# The aims: events a second, bytes for each session, and how much more an event may cost with many.
AIM_EVENTS, AIM_BYTES, AIM_GROWTH = 10e6, 1000, 2.0
#: The number of sessions for which they are.
MANY = 100_000


def median(point: dict[str, Any], name: str) -> float:
    return float(statistics.median(run[name] for run in point["runs"]))


def spread(point: dict[str, Any], name: str, digits: int) -> str:
    """The median over the turns, and from where to where they were."""
    values = [run[name] for run in point["runs"] if name in run]
    if not values:
        return "–"
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return text


def aims(points: list[dict[str, Any]]) -> list[str]:
    """What was aimed at, beside what came out."""
    lines = []
    for point in points:
        if point["sessions"] != MANY:
            continue
        rate = 1e3 / median(point, "ns_per_event")
        lines.append(
            f"- {MANY:,} sessions: {rate:.1f} million events a second on one core; the aim is"
            f" {AIM_EVENTS / 1e6:g} million. {median(point, 'bytes_per_session'):.0f} bytes for"
            f" each session, its two hosts and their links included; the aim is below {AIM_BYTES}."
        )
    if len(points) > 1:
        growth = median(points[-1], "ns_per_event") / median(points[0], "ns_per_event")
        lines.append(
            f"- From {points[0]['sessions']:,} to {points[-1]['sessions']:,} sessions an event's"
            f" cost grows {growth:.1f}-fold; the aim is below {AIM_GROWTH:g}."
        )
    return lines


def text(data: dict[str, Any]) -> str:
    known, points = data["conditions"], data["points"]
    lines = [
        "# What slbnsim costs",
        "",
        "SLBN on 1,000 routers, control packets only, a host of its own at either end of each"
        " session. `make bench` measures it again; `tests/bench/measure_slbnsim.py` says how.",
        "",
        *aims(points),
        "",
        "| sessions | ns per event | instructions per event | cache misses per event |"
        " bytes per session | `slbnsim maxmin`, s |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in points:
        lines.append(
            f"| {point['sessions']:,} | {spread(point, 'ns_per_event', 0)} |"
            f" {spread(point, 'instructions_per_event', 0)} |"
            f" {spread(point, 'cache-misses_per_event', 2)} |"
            f" {spread(point, 'bytes_per_session', 0)} | {spread(point, 'maxmin_seconds', 2)} |"
        )
    lines += [
        "",
        f"CPU time, the median of {data['turns']} turns, and their range. An event is a packet that"
        " comes to a link's end, with what the link there does, or a source whose pause is over."
        " `slbnsim maxmin` is all of it: files are read, routes found, rates computed and written."
        + ("" if data["counters"] else " This machine does not count instructions and misses."),
        "",
        f"{known['date']}, fairpath {known['project']}; {known['compiler']}; {known['processor']},"
        f" {known['processors']} CPUs, Linux {known['host']}, load {known['load'][0]:.1f} at the"
        " start.",
    ]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """The table, beside the data."""
    path.with_suffix(".md").write_text(text(json.loads(path.read_text())))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
