# SPDX-License-Identifier: GPL-2.0
"""Experiment 1a by parameters that SLBN's paper does not give: RCP's first rate, ERICA's delay."""

import statistics
from collections.abc import Iterator
from typing import Any, ClassVar

from fairlab.figures.studies.forms import PAPER, SIMULATED
from fairlab.figures.studies.large.accuracy import SOURCES, TIME, WAIT, off, row
from fairlab.figures.studies.large.common import ASSUMPTIONS, COLOURS, NAMES, OURS
from fairlab.figures.studies.spread import ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.slbn.simulated import Simulated

SLBN = SIMULATED[PAPER]


class Sensitivity(Study):
    """Errors and waits of RCP by its first rate, of ERICA+ by its target delay."""

    name = "slbn-1a-parameters"
    title = "Experiment 1a with other parameters of RCP and ERICA+"
    source = OURS
    setting = (
        "Experiment 1a. RCP's links begin with a part of their capacity (its authors: 1/20);"
        " ERICA+ aims at a queueing delay (its authors: 0.5 to 1.5 ms). SLBN's paper gives neither."
    )
    assumptions = (
        *ASSUMPTIONS[:3],
        "All other parameters are those of 1a. SLBN as published, which has neither parameter, is"
        " the grey line.",
    )
    #: An algorithm's option and unit, and the values.
    parameters: ClassVar[dict[str, tuple[str, str, tuple[str, ...]]]] = {
        "rcp": ("--initial-rate", "% of the capacity", ("1", "5", "20", "100")),
        "erica": ("--target-delay", "ms", ("0.5", "1.5", "5", "30")),
    }
    published: ClassVar = {"rcp": "5", "erica": "1.5"}
    quick_percent = 4
    begin, end = 0.3, 1.0  # those of 1a's claims [s]
    count_of_seeds = 3

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent = self.quick_percent if quick else 100
        options: dict[str, tuple[str, tuple[str, ...]]] = {SLBN: (SLBN, ())}
        for name, (option, unit, values) in self.parameters.items():
            for value in values:
                suffix = "ms" if unit == "ms" else ""
                options[f"{name}-{value}"] = (name, (option, f"{value}{suffix}"))
        return [
            Case(case, Simulated("1a", name, seed, percent, 50, options=words))
            for case, (name, words) in options.items()
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        rows = [row(moment) for moment in outcome["series"]]
        moving = [one for one in rows if self.begin <= one[TIME] <= self.end]
        return {
            "off": round(off(moving), 3),
            "peak": max(one[SOURCES][2] for one in rows if one[TIME] >= self.begin),
            "wait": max(one[WAIT] for one in rows),
        }

    @staticmethod
    def values(data: Data, case: str, key: str) -> list[float]:
        return [float(run[key]) for run in data[case]]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Errors, divided by SLBN's, and by those with the authors' value; waits [ms]."""
        found: dict[str, Measured] = {}
        for name, (_, unit, values) in self.parameters.items():
            own = f"{name}-{self.published[name]}"
            found |= {
                f"{name}-order": {
                    f"{value} {unit}": ratios(
                        self.values(data, f"{name}-{value}", "off"), self.values(data, SLBN, "off")
                    )
                    for value in values
                },
                f"{name}-matters": ratios(
                    self.values(data, f"{name}-{values[-1]}", "off"), self.values(data, own, "off")
                ),
                f"{name}-wait": {
                    f"{value} {unit}": self.values(data, f"{name}-{value}", "wait")
                    for value in values
                },
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 6)
        axes = figure.subplots(2, len(self.parameters), sharey="row")
        for column, (name, (_, unit, values)) in enumerate(self.parameters.items()):
            x = [float(value) for value in values]
            for axis, key in zip(axes[:, column], ("off", "wait"), strict=True):
                for value, at in zip(values, x, strict=True):
                    found = self.values(data, f"{name}-{value}", key)
                    axis.plot([at] * len(found), found, ".", color=COLOURS[name], alpha=0.4)
                means = [statistics.fmean(self.values(data, f"{name}-{v}", key)) for v in values]
                axis.plot(x, means, "-", color=COLOURS[name], label=NAMES[name])
                axis.axhline(
                    statistics.fmean(self.values(data, SLBN, key)),
                    color="grey", lw=1, label=NAMES[SLBN],
                )  # fmt: skip
                axis.axvline(float(self.published[name]), color="black", lw=0.8, ls=":")
                axis.set_xscale("log")
                axis.set_yscale("log")
                axis.set_xticks(x, values)
                axis.minorticks_off()
            axes[0, column].set_title("Dotted: its authors' value", fontsize=9, loc="left")
            axes[0, column].legend(fontsize=8)
            what = "first rate" if name == "rcp" else "target delay"
            axes[1, column].set_xlabel(f"{NAMES[name]}: {what}, {unit}")
        axes[0, 0].set_ylabel("percentiles of errors,\nmean magnitude, %")
        axes[1, 0].set_ylabel("longest wait, ms")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for case, runs in data.items():
            name, _, value = case.rpartition("-") if case != SLBN else (SLBN, "", "")
            unit = self.parameters[name][1] if value else ""
            yield {
                "": NAMES[name],
                "parameter": f"{value} {unit}".strip(),
                "percentiles, mean magnitude": f"{statistics.fmean(r['off'] for r in runs):.1f} %",
                "90th percentile at most": f"{statistics.fmean(r['peak'] for r in runs):.0f} %",
                "longest wait": f"{statistics.fmean(r['wait'] for r in runs):.1f} ms",
            }
