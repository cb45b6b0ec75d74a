# SPDX-License-Identifier: GPL-2.0
"""Experiment 1a with a twentieth of its sessions: data as packets, and as a fluid."""

import statistics
from typing import Any

from fairlab.figures.studies.forms import PAPER, SIMULATED
from fairlab.figures.studies.large.accuracy import LINKS, SOURCES, TIME, WAIT, off, row
from fairlab.figures.studies.large.common import ASSUMPTIONS, COLOURS, NAMES, OURS
from fairlab.figures.studies.spread import gaps
from fairlab.figures.study import Case, Data, Measured, Numbers, Study, Table
from fairlab.slbn.simulated import FLUID, Simulated


class Packets(Study):
    """Whether a fluid stands for packets of 2000 bytes."""

    name = "slbn-packets"
    title = "A twentieth of experiment 1a: data as packets of 2000 bytes, and as a fluid"
    source = OURS
    setting = (
        "Experiment 1a with 2,500 sessions instead of 50,000, 500 of which leave and 500 join"
        " later: with more, packets take hours. Links, delays and data packets are the paper's."
    )
    assumptions = ASSUMPTIONS[:2]
    algorithms = (SIMULATED[PAPER], "erica", "rcp")
    forms = (FLUID, "2000")
    percent, quick_percent = 5, 1
    begin, end = 0.3, 1.0  # those of 1a's claims [s]
    count_of_seeds = 3

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent = self.quick_percent if quick else self.percent
        return [
            Case(f"{name}-{form}", Simulated("1a", name, seed, percent, 50, data=form))
            for name in self.algorithms
            for form in self.forms
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        return {"series": [row(moment) for moment in outcome["series"]]}

    def off(self, run: Numbers) -> float:
        """The mean magnitude of the percentiles of errors at sources during churn [%]."""
        return off([one for one in run["series"] if self.begin <= one[TIME] <= self.end])

    @staticmethod
    def wait(run: Numbers) -> float:
        """The longest wait [ms]."""
        return float(max(one[WAIT] for one in run["series"]))

    def by_form(self, data: Data, name: str, measure: Any) -> list[list[float]]:
        return [[measure(run) for run in data[f"{name}-{form}"]] for form in self.forms]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Packets less fluid: errors [points], longest waits [ms], by algorithm."""
        return {
            key: {
                NAMES[name]: gaps(*reversed(self.by_form(data, name, measure)))
                for name in self.algorithms
            }
            for key, measure in (("errors", self.off), ("waits", self.wait))
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        axes = figure.subplots(len(self.algorithms), 3, sharex=True)
        sides = ((SOURCES, "sources, error %"), (LINKS, "bottlenecks, error %"))
        for line, name in zip(axes, self.algorithms, strict=True):
            for form, look in zip(self.forms, ("-", ":"), strict=True):
                rows = data[f"{name}-{form}"][0]["series"]
                times = [one[TIME] for one in rows]
                colour = COLOURS[name] if form == FLUID else "black"
                for axis, (side, _) in zip(line, sides, strict=False):
                    for number, values in enumerate(zip(*(one[side] for one in rows), strict=True)):
                        width = 1.3 if not number else 0.7
                        axis.plot(times, values, look, color=colour, lw=width)
                label = "fluid" if form == FLUID else "packets"
                line[2].plot(times, [one[WAIT] for one in rows], look, color=colour, label=label)
            for axis, (_, what) in zip(line, sides, strict=False):
                axis.set_title(f"{NAMES[name]}: {what}", fontsize=9, loc="left")
            line[2].set_title("longest wait, ms", fontsize=9, loc="left")
        axes[0][2].legend(fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("seconds")

    def table(self, data: Data) -> Table:
        rows = []
        for name in self.algorithms:
            off, wait = (self.by_form(data, name, measure) for measure in (self.off, self.wait))
            rows.append(
                (
                    NAMES[name],
                    *(f"{statistics.fmean(values):.2f} %" for values in off),
                    *(f"{statistics.fmean(values):.2f} ms" for values in wait),
                )
            )
        columns = (
            "", "percentiles, mean magnitude: fluid", "packets", "longest wait: fluid", "packets",
        )  # fmt: skip
        return Table(columns, tuple(rows))
