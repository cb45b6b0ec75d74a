# SPDX-License-Identifier: GPL-2.0
"""The report of the slbnd benchmark."""

from __future__ import annotations

from typing import Any

from tests.bench.report.common import aims, host_conditions, table

AIM = 100_000  # packets per CPU second, with as much load as one CPU can handle
KINDS = {
    "paced": "1 Mbit/s each, 1 % of it for control packets",
    "full": "as many packets as one CPU can handle",
    "saved": "the same, with a state file",
    "idle": "10 kbit/s each, an epoch of 10 s",
    "churn": "the same, and 10,000 new flows per second, 1 % of which get a session",
}


def per_cpu_second(point: dict[str, Any]) -> str:
    """Too little CPU time to be counted gives no number."""
    found = point["packets_per_cpu_second"]
    return "–" if found is None else f"{found:,.0f}"


def text(data: dict[str, Any]) -> list[str]:
    points = data["points"]
    best = max(point["packets_per_cpu_second"] or 0 for point in points if point["kind"] == "full")
    rows = [
        [
            f"{point['sessions']:,}",
            KINDS[point["kind"]],
            f"{point['packets_per_second']:,.0f}",
            f"{100 * point['cpu_share']:.0f} %",
            per_cpu_second(point),
            f"{point['bytes_per_session']:,.0f} bytes",
        ]
        for point in points
    ]
    mice = data["mice"]
    crowd = next(point for point in points if point["kind"] == "idle")
    enforced = [
        f"The maps of the BPF program have room for {crowd['room']:,} sessions and take"
        f" {crowd['map_bytes'] / 1e6:.0f} MB of kernel memory. `slbnd` reads each session's use"
        " from them.",
        "",
    ]
    header = ["sessions", "load", "packets/s", "CPU", "packets per CPU second"]
    return [
        "# Performance of slbnd",
        "",
        "Control packets that an agent sends and receives. `make bench` repeats the measurement;"
        " `tests/bench/measure_slbnd.py` documents the method.",
        "",
        *aims(
            [
                (
                    f"{AIM:,} packets per second of CPU time under full load",
                    f"{best:,.0f}",
                    best >= AIM,
                    "not traced",
                )
            ]
        ),
        "",
        *table([*header, "memory per session"], rows, left=2),
        "",
        "The agent's sessions lead to another agent in a second network namespace, which answers"
        " on another CPU. Both have a key: without one, an agent sends 10,000 replies per second to"
        " an address at most. CPU time is that of the first agent, including the kernel's for"
        f" sending. {data['seconds']:.0f} s per row.",
        "",
        *(enforced if crowd["measured"] else ["Rates were not enforced: this needs root.", ""]),
        f"{mice['flows_per_second']:,.0f} new flows each second, 1 % of which get a session, take"
        f" {100 * mice['cpu_share']:.0f} % of a CPU beside {mice['old']:,} old connections in"
        " conntrack's table.",
        "",
        host_conditions(data["conditions"]),
    ]
