# SPDX-License-Identifier: GPL-2.0
"""The result of the bench of the lab's engines as tables (Markdown).

All is made from the data alone. Run as a program with its path, it writes them anew.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tests.bench.report import here

# The aims: this rate faster than real time, and the first packet after so many seconds.
AIM_RATE, AIM_START = "2.5gbit", 5.0


def spread(point: dict[str, Any], name: str, digits: int) -> str:
    """The median over the turns, and from where to where they were."""
    values = [run[name] for run in point["runs"]]
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return text


def median(point: dict[str, Any], name: str) -> float:
    return float(statistics.median(run[name] for run in point["runs"]))


def release(point: dict[str, Any]) -> str:
    return str(point["runs"][0]["release"])


def rate(text: str) -> str:
    return text.replace("gbit", " Gbit/s").replace("mbit", " Mbit/s")


def aims(points: list[dict[str, Any]]) -> list[str]:
    """What was aimed at, beside what came out."""
    lines = []
    for point in points:
        if point["engine"] == "virtual" and point["rate"] == AIM_RATE:
            cpu, wall = median(point, "cpu_per_second"), median(point, "wall_per_second")
            lines.append(
                f"- {rate(AIM_RATE)}, Linux {release(point)}: a second of virtual time takes"
                f" {cpu:.2f} s of one CPU, and took {wall:.2f} s; the aim is below 1."
            )
    starts = [run["start"] for p in points if p["engine"] == "virtual" for run in p["runs"]]
    lines.append(
        "- From the start of `scripts/vm` to a flow's first packets:"
        f" {statistics.median(starts):.1f} s in the middle, {min(starts):.1f} s at best,"
        f" {max(starts):.1f} s at worst; the aim is below {AIM_START:g} s."
    )
    return lines


def text(data: dict[str, Any]) -> str:
    known, points = data["conditions"], data["points"]
    lines = [
        "# What the lab's engines cost",
        "",
        "One TCP flow from host to host through two routers, the first of them with the bottleneck"
        " (drop-tail, one bandwidth-delay product): packets of 1500 bytes, no offloads,"
        f" a round-trip of {data['rtt'].removesuffix('ms')} ms, `{data['cc']}`. `make bench`"
        " measures it again; `tests/bench/measure_virtual.py` says how.",
        "",
        *aims(points),
        "",
        "| engine | kernel | bottleneck | CPU, µs per packet | CPU, s per guest's second |"
        " real time, s per guest's second | start to first packets, s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in points:
        lines.append(
            f"| `{point['engine']}` | {release(point)} | {rate(point['rate'])} |"
            f" {spread(point, 'us_per_packet', 2)} | {spread(point, 'cpu_per_second', 3)} |"
            f" {spread(point, 'wall_per_second', 3)} | {spread(point, 'start', 1)} |"
        )
    lines += [
        "",
        f"The median of {data['turns']} boots, and their range. CPU time is that of all of the"
        " guest's processes, on the host, from one moment of the busy flow to another; a packet is"
        " one of data that came to the receiver, with all that it takes: three links, two of them"
        " with a queue, and the acknowledgements' way back. Real time is longer than CPU time where"
        " the machine has other things to do. The engine `vm` has no virtual time: there, with"
        " `--steady`, the guest's second is one of its emulated CPU's instructions.",
        "",
        here(known),
    ]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """The tables, beside the data."""
    path.with_suffix(".md").write_text(text(json.loads(path.read_text())))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
