# SPDX-License-Identifier: GPL-2.0
"""The result of the bench of slbnd as a table (Markdown).

All is made from the data alone. Run as a program with its path, it writes it anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.report import here

KINDS = {
    "paced": "1 Mbit/s each, 1 % of it for control packets",
    "full": "as many packets as one CPU can handle",
}


def text(data: dict[str, Any]) -> str:
    known = data["conditions"]
    best = max(
        point["packets_per_cpu_second"] for point in data["points"] if point["kind"] == "full"
    )
    lines = [
        "# What slbnd costs",
        "",
        f"One agent handles {best:,.0f} control packets (sent and received) in a second of CPU"
        " time; the aim is 100,000. `make bench` measures it again;"
        " `tests/bench/measure_slbnd.py` says how.",
        "",
        "| sessions | | packets/s | CPU | packets per second of CPU | memory per session |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for point in data["points"]:
        lines.append(
            f"| {point['sessions']:,} | {KINDS[point['kind']]} |"
            f" {point['packets_per_second']:,.0f} | {100 * point['cpu_share']:.0f} % |"
            f" {point['packets_per_cpu_second']:,.0f} |"
            f" {point['bytes_per_session']:,.0f} bytes |"
        )
    lines += [
        "",
        "The agent's sessions go to another agent in a second network namespace, which answers"
        " them on another CPU; the CPU time is that of the first, with what the kernel does for"
        f" it in sending. {data['seconds']:.0f} s each.",
        "",
        here(known),
    ]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """The table, beside the data."""
    path.with_suffix(".md").write_text(text(json.loads(path.read_text())))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
