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

from tests.bench.report import here

# The aims: events a second, bytes for each session, and how much more an event may cost with many.
AIM_EVENTS, AIM_BYTES, AIM_GROWTH = 10e6, 1000, 2.0
#: The number of sessions for which they are.
MANY = 100_000
#: A session's packet crosses seven links, and again on its way back; then its source pauses.
EVENTS_PER_HOP = 15 / 14
#: ns-3's, and what is to be said of them.
SCHEDULERS = {
    "MapScheduler": ", its default",
    "HeapScheduler": "",
    "CalendarScheduler": "",
    "PriorityQueueScheduler": "",
}

FAIRNESS = (
    "They do not do the same. ns-3 has packets of bytes with headers, which hosts and routers with"
    " whole IP stacks write, read and look up; queues; traces that one can hook into; and any"
    " protocol that runs on these. slbnsim has only what it simulates: a control packet is a"
    " struct, its path is known beforehand, and a link is the time until which it is busy. But at"
    " each link it runs SLBN, which ns-3's packets go without here. In favour of ns-3 there are no"
    " IPv6, no queueing disciplines, no checksums, no traces, no logs, and ten flows share a chain"
    " of six routers, so that routes are few and need not be computed. slbnsim has 1,000 routers"
    " for all, and computes paths. So ns-3's memory is for 0.6 routers to a flow."
)


def median(point: dict[str, Any], name: str) -> float:
    return float(statistics.median(run[name] for run in point["runs"]))


def spread(point: dict[str, Any], name: str, digits: int, factor: float = 1) -> str:
    """The median over the turns, and from where to where they were."""
    values = [run[name] * factor for run in point["runs"] if name in run]
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


def cells(points: list[dict[str, Any]], name: str) -> str:
    return "".join(f" {spread(point, name, 0)} |" for point in points)


def ratios(points: list[dict[str, Any]]) -> list[str]:
    """How many times as much ns-3 takes, with the most sessions that there are."""
    most = points[-1]
    measured = [name for name in SCHEDULERS if f"hold_{name}" in most["runs"][0]]
    best = min(measured, key=lambda name: median(most, f"hold_{name}"))
    ratio = median(most, f"hold_{best}") / median(most, "hold_wheel")
    lines = [
        f"- With {most['sessions']:,} events pending the fastest of ns-3's schedulers, `{best}`,"
        f" takes {ratio:.1f} times as long as slbnsim's wheel."
    ]
    for point in points:
        if "forward_ns_per_hop" in point["runs"][0]:
            time = median(point, "forward_ns_per_hop") / median(point, "ns_per_event")
            memory = median(point, "forward_bytes_per_flow") / median(point, "bytes_per_session")
            lines.append(
                f"- With {point['sessions']:,} flows ns-3 takes {time / EVENTS_PER_HOP:.0f} times"
                f" as long as slbnsim for a packet and link, and {memory:.0f} times the memory."
            )
    return lines


def beside(data: dict[str, Any]) -> list[str]:
    """What compares."""
    points, version = data["points"], data["ns3"]["version"]
    if version is None:
        return [
            "## Beside ns-3",
            "",
            f"There was no ns-3 to compare with: {data['ns3']['why'].partition(chr(10))[0]}."
            " `scripts/install-deps bench` installs it where the distribution has it.",
        ]
    lines = [
        "## Beside ns-3",
        "",
        *ratios(points),
        "",
        f"ns-3 {version}, as it is packaged. First, what comes next and when: ns per event in the"
        " hold model, with one event pending for each session, as far apart as slbnsim's.",
        "",
        "| events pending |" + "".join(f" {point['sessions']:,} |" for point in points),
        "| --- |" + " ---: |" * len(points),
        "| slbnsim's wheel |" + cells(points, "hold_wheel"),
    ]
    for name, remark in SCHEDULERS.items():
        lines.append(f"| ns-3's `{name}`{remark} |" + cells(points, f"hold_{name}"))
    lines += [
        "| ns-3's `Simulator::Schedule()`, events that do nothing |"
        + cells(points, "hold_Simulator"),
        "| slbnsim, all that an event does |" + cells(points, "ns_per_event"),
        "",
        "Then packets: each session or flow has one in the network, which crosses seven links,"
        " comes back over them, and goes again after a pause.",
        "",
        "| | ns per packet and link | events per packet and link | bytes per session or flow |",
        "| --- | ---: | ---: | ---: |",
    ]
    for point in points:
        if "forward_ns_per_hop" in point["runs"][0]:
            lines += [
                f"| slbnsim, {point['sessions']:,} sessions |"
                f" {spread(point, 'ns_per_event', 0, EVENTS_PER_HOP)} | {EVENTS_PER_HOP:.2f} |"
                f" {spread(point, 'bytes_per_session', 0)} |",
                f"| ns-3, {point['sessions']:,} flows | {spread(point, 'forward_ns_per_hop', 0)} |"
                f" {spread(point, 'forward_events_per_hop', 2)} |"
                f" {spread(point, 'forward_bytes_per_flow', 0)} |",
            ]
    return [*lines, "", FAIRNESS]


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
        *beside(data),
        "",
        here(known, known["compiler"]),
    ]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """The table, beside the data."""
    path.with_suffix(".md").write_text(text(json.loads(path.read_text())))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
