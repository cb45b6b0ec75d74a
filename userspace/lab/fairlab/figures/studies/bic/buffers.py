# SPDX-License-Identifier: GPL-2.0
"""Throughput, queue length and loss by buffer size."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean
from typing import Any

from fairlab.figures.studies.bic.common import (
    AIMD,
    BIC,
    KINDS,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    axis_values,
    bdp,
    curves,
    kinds_of,
    over,
    runs_of,
    values_of,
)
from fairlab.figures.studies.spread import gaps, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.outcome import Outcome


class Buffer(Study):
    """The effect of the buffer size (slides 42 to 44)."""

    name = "bic-buffer"
    title = "Throughput, queue length and loss by buffer size"
    source = f"{SLIDES}, slides 42 to 44"
    setting = (
        "Three figures without any text: throughput, queue size and packet loss by buffer size."
    )
    RATE, QUICK_RATE = 622, 155
    BUFFERS = (0.03, 0.1, 0.3, 1.0)  # of the bandwidth-delay product
    SECONDS, QUICK_SECONDS, WARMUP = 40, 20, 10
    assumptions = (
        "The whole setting is ours: 622 Mbit/s, drop-tail, buffers of 0.03 to 1 BDP, 5 flows, RTT"
        " 100 ms, packets of 1500 bytes, 40 s without the first 10.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        kinds = (RENO, BIC) if quick else KINDS
        buffers = (self.BUFFERS[0], self.BUFFERS[-1]) if quick else self.BUFFERS
        mega = self.QUICK_RATE if quick else self.RATE
        seconds = self.QUICK_SECONDS if quick else self.SECONDS
        return [
            Case(
                f"{kind.key}-{part:g}",
                over(mega, part, (kind.flows("a", 5),), seconds, self.WARMUP, seed),
            )
            for part in buffers
            for kind in kinds
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        waiting = float(outcome.within("backlog_packets").mean())
        return {
            "throughput": round(sum(outcome.goodputs("a")) / what.rate, 5),
            "utilisation": round(outcome.utilisation, 4),
            "queue": round(waiting / bdp(what.rate, RTT), 5),
            "filled": round(waiting / what.buffer, 4),
            "loss": outcome.loss,
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Changes of throughput [% of the link] and queue [BDP] from one buffer to the next; how
        much more is lost by the one than by the other.
        """

        parts, kinds = axis_values(data), kinds_of(data)
        found: dict[str, Measured] = {}
        for kind in kinds:
            for name, key, scale in (("throughput", "throughput", 100), ("queue", "queue", 1)):
                found[f"{name}-{kind.key}"] = {
                    f"{low:g} to {high:g} BDP": [
                        scale * gap
                        for gap in gaps(kind.values(data, high, key), kind.values(data, low, key))
                    ]
                    for low, high in pairwise(parts)
                }
        for part in parts if AIMD in kinds else ():
            others = [kind for kind in kinds if kind not in (RENO, AIMD)]
            pairs = [(AIMD, kind) for kind in others] + [(kind, RENO) for kind in others]
            found[f"loss-{part:g}"] = {
                f"{more.label} - {less.label}": gaps(
                    more.values(data, part, "loss"), less.values(data, part, "loss")
                )
                for more, less in pairs
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 7.6)
        panels = figure.subplots(3, 1, sharex=True)
        for axis in panels:
            axis.set_xscale("log")
        panels[1].set_yscale("log")
        panels[2].set_yscale("log")
        least = min(min(values_of(data, name, "throughput")) for name in data)
        panels[0].set_ylim(100 * least - 5, 100)
        for axis, key, scale, floor, words in (
            (panels[0], "throughput", 100, 0.0, "throughput\n(% of the link)"),
            (panels[1], "queue", 1, 1e-4, "mean queue\n(BDP)"),
            (panels[2], "loss", 1, 1e-7, "loss ratio\n(at the edge: none)"),
        ):
            values = [value for name in data for value in values_of(data, name, key)]
            if floor:
                axis.set_ylim(max(floor, min(values) / 2), max(2 * max(values), 10 * floor))
            curves(axis, data, key, scale, floor)
            axis.set_ylabel(words)
        parts = axis_values(data)
        # A queue is never longer than its buffer.
        panels[1].plot(parts, parts, color="black", linestyle=":", linewidth=1)
        panels[1].annotate("full", (parts[0], parts[0]), (2, 6), textcoords="offset points")
        panels[2].set_xticks(parts, [f"{part:g}" for part in parts])
        panels[2].minorticks_off()
        panels[2].set_xlabel("buffer (BDP)")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for part, kind, runs in runs_of(data):
            yield {
                "buffer, BDP": f"{part:g}",
                "protocol": kind.label,
                "throughput, %": spread([100 * run["throughput"] for run in runs], 1),
                "buffer occupancy, %": spread([100 * run["filled"] for run in runs], 0),
                "loss": f"{fmean(run['loss'] for run in runs):.1e}",
            }
