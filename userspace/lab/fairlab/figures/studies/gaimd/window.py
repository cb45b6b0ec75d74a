# SPDX-License-Identifier: GPL-2.0
"""Windows of one Reno and one GAIMD flow over each other."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fairlab.figures.studies.gaimd.common import (
    GAIMD,
    LOOKS,
    PLACE,
    QUEUES,
    SLOW,
    SOURCE,
    STACK,
    TCP,
    accounts_of,
    check_use,
    pair,
    total,
    variation,
)
from fairlab.figures.studies.gaimd.model import synchronous
from fairlab.figures.study import Case, Data, Measured, Numbers, Study
from fairlab.results import plots
from fairlab.results.outcome import Outcome

STEP = 0.2  # seconds between stored values


def crossings(reno: Sequence[float], gaimd: Sequence[float]) -> int:
    """The number of crossings of two series."""
    signs = [a > b for a, b in zip(reno, gaimd, strict=True) if a != b]
    return sum(before != now for before, now in pairwise(signs))


def larger(one: Sequence[float], other: Sequence[float]) -> float:
    """The part of the time in which ONE is larger; equal counts half."""
    return statistics.fmean((a > b) + (a == b) / 2 for a, b in zip(one, other, strict=True))


class Window(Study):
    """Windows of two flows (slides 23 and 24)."""

    name = "gaimd-window"
    title = "The windows of one Reno and one GAIMD flow"
    source = f"{SOURCE}, slides 23, 24"
    setting = (
        "Chiu and Jain's model: one flow of Reno and one of GAIMD(0.31, 0.875), the same"
        " RTT, no timeouts. GAIMD's window is drawn over Reno's."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "The slides' are a model's windows; these are Linux's, over 1.5 Mbit/s, drop-tail and RED,"
        " sampled every 50 ms for 120 s, without the first 20 s and without loss recovery.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = 60.0 if quick else 120.0
        return [Case(queue, pair(1, SLOW, queue, seconds, seed, look=0.05)) for queue in QUEUES]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        import numpy

        first, last = outcome.window
        times = numpy.arange(first, last, STEP)
        found: Numbers = {"begin": first}
        for kind in (TCP, GAIMD):
            rows = outcome.rows[kind]
            # cwnd is the window only outside of loss recovery.
            rows = rows[rows["state"] == 0]
            # The last such sample.
            at = numpy.searchsorted(rows["time"] / 1e9, times, side="right") - 1
            found[kind] = [int(value) for value in rows["cwnd"][numpy.maximum(at, 0)]]
        found["timeouts"] = total(
            [*accounts_of(outcome, TCP), *accounts_of(outcome, GAIMD)]
        ).timeouts
        return found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for queue, runs in data.items():
            found |= {
                f"crossings-{queue}": [
                    60 * crossings(run[TCP], run[GAIMD]) / (STEP * len(run[TCP])) for run in runs
                ],
                f"larger-{queue}": [100 * larger(run[GAIMD], run[TCP]) for run in runs],
                f"swing-{queue}": [variation(run[GAIMD]) / variation(run[TCP]) for run in runs],
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        """GAIMD's window over Reno's, and both over time, for each queue."""
        figure.set_size_inches(7.5, 8)
        names = list(data)
        top = max(max(run[kind]) for runs in data.values() for run in runs for kind in LOOKS) + 2
        panels = figure.subplots(2, len(names), squeeze=False, height_ratios=(1.3, 1))
        for n, queue in enumerate(names):
            runs = data[queue]
            plane, line = panels[0][n], panels[1][n]
            for behind, run in reversed(list(enumerate(runs))):
                alpha = 0.15 if behind else 0.8
                plane.plot(run[TCP], run[GAIMD], color="#555555", lw=0.8, alpha=alpha)
            full = max(a + b for a, b in zip(runs[0][TCP], runs[0][GAIMD], strict=True))
            path = synchronous((full / 2, full / 8), full, 30)
            plane.plot(*zip(*path[-3:], strict=True), color=plots.COLOURS[2], lw=2)
            plane.text(
                0.03, 0.97, "model: synchronised losses", transform=plane.transAxes, va="top",
                color=plots.COLOURS[2], fontsize=9,
            )  # fmt: skip
            plane.plot([0, top], [0, top], color="black", lw=1, ls="--")
            plane.text(0.7 * top, 0.72 * top, "equal", rotation=45, ha="right", va="bottom")
            plane.set_xlim(0, top)
            plane.set_ylim(0, top)
            plane.set_aspect("equal")
            plane.set_xlabel("Reno's window (packets)")
            plane.set_title(QUEUES[queue], loc="left", fontsize=10)
            shown = round(40 / STEP)
            for kind, colour in LOOKS.items():
                values = runs[0][kind][:shown]
                times = [runs[0]["begin"] + STEP * i for i in range(len(values))]
                line.plot(times, values, color=colour, lw=1.3)
            line.set_ylim(0, top)
            line.set_xlabel("seconds")
        panels[0][0].set_ylabel("GAIMD's window (packets)")
        panels[1][0].set_ylabel("window (packets)")
        for x, kind, words in ((0.0, TCP, "Reno"), (0.2, GAIMD, "GAIMD(0.31, 0.875)")):
            panels[1][0].text(x, 1.03, words, color=LOOKS[kind], transform=panels[1][0].transAxes)
