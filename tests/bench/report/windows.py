# SPDX-License-Identifier: GPL-2.0
"""The report of the benchmark of receive windows."""

from __future__ import annotations

from typing import Any

from tests.bench.report.common import aims, host_conditions, quartiles, table

AIM = 40  # ns
WHERE = "[where the time goes](windows.md#cost)"


def label(point: dict[str, Any]) -> str:
    """What distinguishes a point from the usual one."""
    parts = [f"IPv{point['ip']}"]
    if point["sacked"]:
        parts.append("a block of SACK")
    if point["flight"] == 1:
        parts.append("each acknowledgment timed")
    if not point["rated"]:
        parts.append("no rate")
    return ", ".join(parts)


def text(data: dict[str, Any]) -> list[str]:
    rows = [
        [label(point), *(quartiles(point[name]) for name in ("data", "ack", "paced"))]
        for point in data["points"]
    ]
    usual = data["points"][0]
    return [
        "# Cost of receive windows",
        "",
        "What `slbnd --windows on` adds to a packet. `make bench` repeats the measurement;"
        " `tests/bench/measure_windows.py` documents the method, [windows.md](windows.md) what is"
        " done.",
        "",
        *aims(
            (
                f"{what} over IPv4: at most {AIM} ns",
                f"{usual[name]['median']:.0f} ns",
                usual[name]["median"] <= AIM,
                WHERE,
            )
            for what, name in (("a data packet", "data"), ("an acknowledgment", "ack"))
        ),
        "",
        *table(["ns", "data", "acknowledgment", "pacing alone"], rows),
        "",
        "Medians and half of the interquartile range of"
        f" {data['turns']} turns, each the mean of {data['times']:,} packets with windows less that"
        " of as many without. The last column is what `slbnd` takes for a data packet without"
        " windows. All packets belong to one connection, whose state is in the CPU's caches."
        " Segments have timestamps; 32 are in flight, so that one of 32 acknowledgments is timed."
        " Without a rate, packets are those of the default class. The call of the program by tc is"
        " missing. `--marks` and `--borrow` are off: their costs were not measured.",
        "",
        "The programs have the capabilities of `slbnd`'s unit: without `CAP_PERFMON`, the kernel"
        " adds barriers against speculation to them.",
        "",
        host_conditions(data["conditions"]),
    ]
