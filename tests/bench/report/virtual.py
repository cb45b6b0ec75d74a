# SPDX-License-Identifier: GPL-2.0
"""The report of the benchmark of the lab's engines."""

from __future__ import annotations

import statistics
from typing import Any

from tests.bench.report.common import aims, host_conditions, median, spread, table

# The aims: this rate faster than real time, and seconds until the first packet.
AIM_RATE, AIM_START = "2.5gbit", 5.0


def release(point: dict[str, Any]) -> str:
    return str(point["runs"][0]["release"])


def rate(text: str) -> str:
    return text.replace("gbit", " Gbit/s").replace("mbit", " Mbit/s")


def against_aims(points: list[dict[str, Any]]) -> list[str]:
    """The results beside their aims."""
    rows = []
    for point in points:
        if point["engine"] == "virtual" and point["rate"] == AIM_RATE:
            cpu, wall = median(point, "cpu_per_second"), median(point, "wall_per_second")
            rows.append(
                (
                    f"{rate(AIM_RATE)}, Linux {release(point)}: less than 1 s of real time for a"
                    " second of virtual time",
                    f"{wall:.2f} s, of one CPU {cpu:.2f} s",
                    wall < 1,
                    "the CPU time of its packets",
                )
            )
    starts = [run["start"] for p in points if p["engine"] == "virtual" for run in p["runs"]]
    middle = statistics.median(starts)
    rows.append(
        (
            f"less than {AIM_START:g} s from the start of `scripts/vm` to a flow's first packets",
            f"{middle:.1f} s (median), {min(starts):.1f} to {max(starts):.1f} s",
            middle < AIM_START,
            "not traced",
        )
    )
    return aims(rows)


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
        *against_aims(points),
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
