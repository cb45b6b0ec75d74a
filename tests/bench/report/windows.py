# SPDX-License-Identifier: GPL-2.0
"""The report of the benchmark of receive windows."""

from __future__ import annotations

from typing import Any

from tests.bench.report.common import host_conditions, quartiles, table

TARGET = 40  # ns


def text(data: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"IPv{point['ip']}" + (", a block of SACK" if point["sacked"] else ""),
            *(quartiles(point[name]) for name in ("data", "ack", "paced")),
        ]
        for point in data["points"]
    ]
    usual = data["points"][0]
    return [
        "# Cost of receive windows",
        "",
        f"`slbnd --windows on` takes {usual['data']['median']:.0f} ns for each data packet and"
        f" {usual['ack']['median']:.0f} ns for each acknowledgment; the target is {TARGET} ns for"
        " each. `make bench` repeats the measurement; `tests/bench/measure_windows.py` documents"
        " the method, [windows.md](windows.md) what is done.",
        "",
        *table(["ns", "data", "acknowledgment", "pacing alone"], rows),
        "",
        "Medians and half of the interquartile range of"
        f" {data['turns']} turns, each the mean of {data['times']:,} packets with windows less that"
        " of as many without. The last column is what `slbnd` takes for a data packet without"
        " windows. All packets belong to one connection, whose state is in the CPU's caches."
        " Segments have timestamps. The call of the program by tc is missing.",
        "",
        host_conditions(data["conditions"]),
    ]
