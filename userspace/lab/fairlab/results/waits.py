# SPDX-License-Identifier: GPL-2.0
"""How long packets waited: UDP's, by fairtraffic's sinks; those of a link's bands, by drr_fq.

A sink counts packets by their delay, in steps; all delays that are longer than its last step are in
that one.  A wait is a delay less that of the empty path.

drr_fq counts the packets of each band in steps of an eighth; a wait is the end of its step.
"""

from collections.abc import Iterable, Sequence
from typing import Any

#: Waits [ms], and how many packets waited for so long, in order.
Waits = list[tuple[float, int]]


def of(reports: Iterable[tuple[dict[str, Any], float]]) -> Waits:
    """The waits of all packets in REPORTS, each with the delay of its empty path [ms]."""
    found: dict[float, int] = {}
    for report, empty in reports:
        for step, count in report["delays"]:
            wait = max(0.0, step * report["delay_step_us"] / 1000 - empty)
            found[wait] = found.get(wait, 0) + count
    return sorted(found.items())


def of_steps(counts: Sequence[int]) -> Waits:
    """The waits of packets that drr_fq has counted in its steps (fairpath/drr_fq.h)."""

    def begin(step: int) -> int:
        return step if step < 8 else (8 + step % 8) << (step // 8 - 1)

    found = []
    for step, count in enumerate(counts):
        if count:
            found.append((begin(step + 1) * 1.024e-3, count))
    return found


def percentile(waits: Waits, percent: float) -> float | None:
    """The wait that PERCENT of the packets do not exceed [ms]; None of none."""
    total = sum(count for _, count in waits)
    seen = 0
    for wait, count in waits:
        seen += count
        if seen >= total * percent / 100:
            return wait
    return None
