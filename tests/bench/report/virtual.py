# SPDX-License-Identifier: GPL-2.0
"""The report of the benchmark of the lab's engines."""

from __future__ import annotations

import statistics
from typing import Any

from tests.bench.report.common import host_conditions, median, spread, table

# The targets: this rate faster than real time, and seconds until the first packet.
TARGET_RATE, TARGET_START = "2.5gbit", 5.0


def release(point: dict[str, Any]) -> str:
    return str(point["runs"][0]["release"])


def rate(text: str) -> str:
    return text.replace("gbit", " Gbit/s").replace("mbit", " Mbit/s")


def targets(points: list[dict[str, Any]]) -> list[str]:
    """The results beside their targets."""
    lines = []
    for point in points:
        if point["engine"] == "virtual" and point["rate"] == TARGET_RATE:
            cpu, wall = median(point, "cpu_per_second"), median(point, "wall_per_second")
            lines.append(
                f"- {rate(TARGET_RATE)}, Linux {release(point)}: a second of virtual time takes"
                f" {cpu:.2f} s of one CPU and {wall:.2f} s of real time; the target is below 1."
            )
    starts = [run["start"] for p in points if p["engine"] == "virtual" for run in p["runs"]]
    lines.append(
        "- From the start of `scripts/vm` to the first packets of a flow:"
        f" {statistics.median(starts):.1f} s (median), {min(starts):.1f} s (minimum),"
        f" {max(starts):.1f} s (maximum); the target is below {TARGET_START:g} s."
    )
    return lines


def text(data: dict[str, Any]) -> list[str]:
    points = data["points"]
    header = ["engine", "kernel", "bottleneck", "CPU, µs per packet", "CPU, s per guest second"]
    header += ["real time, s per guest second", "start to first packets, s"]
    rows = [
        [
            f"`{point['engine']}`",
            release(point),
            rate(point["rate"]),
            spread(point, "us_per_packet", 2),
            spread(point, "cpu_per_second", 3),
            spread(point, "wall_per_second", 3),
            spread(point, "start", 1),
        ]
        for point in points
    ]
    return [
        "# Performance of the lab's engines",
        "",
        "One TCP flow from host to host through two routers, the first of which has the bottleneck"
        " (drop-tail, one bandwidth-delay product): packets of 1500 bytes, no offloads, a"
        f" round-trip time of {data['rtt'].removesuffix('ms')} ms, `{data['cc']}`. `make bench`"
        " repeats the measurement; `tests/bench/measure_virtual.py` documents the method.",
        "",
        *targets(points),
        "",
        *table(header, rows, left=2),
        "",
        f"The median of {data['turns']} boots, and their range. CPU time is that of all processes"
        " of the guest, measured on the host during a busy part of the flow. Packets are data"
        " packets at the receiver; the cost of one includes three links, two of them with a queue,"
        " and the acknowledgments' way back. Real time exceeds CPU time if the host is busy. The"
        " engine `vm` has no virtual time: with `--steady`, the guest's clock counts the"
        " instructions of its emulated CPU.",
        "",
        host_conditions(data["conditions"]),
    ]
