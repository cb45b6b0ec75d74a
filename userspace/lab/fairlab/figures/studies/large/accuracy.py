# SPDX-License-Identifier: GPL-2.0
"""Errors at sources and bottlenecks over time: experiments 1a, 2a and 2b."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fairlab.figures.studies.forms import COMMIT, SIMULATED
from fairlab.figures.studies.large.common import (
    ASSUMPTIONS,
    COLOURS,
    NAMES,
    SEEDS,
    SOURCE,
    STAND_INS,
)
from fairlab.figures.studies.spread import gaps, ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.slbn.simulated import Simulated

#: Columns of a series: time [s]; errors at sources, and at links; the longest wait in a queue [ms].
TIME, SOURCES, LINKS, WAIT = 0, slice(1, 4), slice(4, 7), 7


def row(moment: dict[str, Any]) -> list[float]:
    """A sample, rounded."""
    spreads = [moment[side][key] for side in ("sources", "links") for key in ("mean", "p10", "p90")]
    return [
        round(moment["time"], 3),
        *(round(value, 2) for value in spreads),
        round(1000 * moment["longest_wait"], 3),
    ]


def off(rows: Sequence[list[float]]) -> float:
    """The mean magnitude of the percentiles of errors at sources in ROWS [%]."""
    return statistics.fmean(abs(value) for one in rows for value in one[SOURCES][1:])


class Errors(Study):
    """Errors at sources and bottlenecks over time."""

    source = SOURCE
    assumptions = ASSUMPTIONS
    count_of_seeds = SEEDS
    experiment: str
    algorithms: tuple[str, ...]
    every = 50
    quick_percent = 4
    begin: float  # the time that claims cover [s]: from when joins or churn are under way
    end: float  # until some time after the last change

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent = self.quick_percent if quick else 100
        return [
            Case(name, Simulated(self.experiment, name, seed, percent, self.every))
            for name in self.algorithms
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        return {
            "series": [row(moment) for moment in outcome["series"]],
            "events": outcome["events"],
            "overshoot": round(outcome["largest_overshoot"], 3),
        }

    def series(self, runs: Sequence[Numbers], begin: float, end: float) -> list[list[float]]:
        """The rows of all runs from BEGIN to END [s]."""
        return [one for run in runs for one in run["series"] if begin <= one[TIME] <= end]

    def off(self, run: Numbers) -> float:
        """The mean magnitude of the percentiles of errors at sources during churn [%]."""
        return off(self.series([run], self.begin, self.end))

    def offs(self, data: Data) -> dict[str, list[float]]:
        """off() by case and seed."""
        return {name: [self.off(run) for run in runs] for name, runs in data.items()}

    def overshoot(self, run: Numbers, end: float) -> float:
        """The largest mean overshoot of bottlenecks until END [%]."""
        return max(one[LINKS][0] for one in self.series([run], self.begin, end))

    def measure_forms(
        self, data: Data, rest: tuple[float, float], end: float
    ) -> dict[str, Measured]:
        """Each form's error at rest, and overshoot until END [%]; queues [ms]."""
        found: dict[str, Measured] = {}
        for name in SIMULATED.values():
            runs = data[name]
            found |= {
                f"{name}-converges": [
                    max(abs(v) for one in self.series([run], *rest) for v in one[SOURCES])
                    for run in runs
                ],
                f"{name}-overshoot": [self.overshoot(run, end) for run in runs],
                f"{name}-queue": [max(one[WAIT] for one in run["series"]) for run in runs],
            }
        over = [100 * run["overshoot"] for run in data[SIMULATED[COMMIT]]]
        return found | {"slbn-never-above": over}

    def draw(self, figure: Any, data: Data) -> None:
        names = list(data)
        figure.set_size_inches(8, 0.5 + 1.35 * len(names))
        axes = figure.subplots(len(names), 2, sharex=True, squeeze=False)
        for line, name in zip(axes, names, strict=True):
            for axis, side, what in zip(
                line, (SOURCES, LINKS), ("sources", "bottlenecks"), strict=True
            ):
                for behind, run in reversed(list(enumerate(data[name]))):
                    times = [one[TIME] for one in run["series"]]
                    mean, low, high = zip(*(one[side] for one in run["series"]), strict=True)
                    look = {"alpha": 0.15} if behind else {"alpha": 0.3}
                    axis.fill_between(times, low, high, color=COLOURS[name], linewidth=0, **look)
                    axis.plot(times, mean, color=COLOURS[name], lw=0.6 if behind else 1.3)
                axis.axhline(0, color="black", linewidth=0.6)
                axis.set_ylim((-100, 200) if what == "sources" else (-100, 100))
                axis.set_title(f"{NAMES[name]}: {what}", fontsize=9, loc="left")
            line[0].set_ylabel("error, %")
        for axis in axes[-1]:
            axis.set_xlabel("seconds")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            moving = self.series(runs, self.begin, self.end)
            last = [run["series"][-1] for run in runs]
            longest = max(one[WAIT] for run in runs for one in run["series"])
            yield {
                "": NAMES[name],
                "sources, mean": f"{statistics.fmean(one[SOURCES][0] for one in moving):+.1f} %",
                "percentiles, mean magnitude": f"{statistics.fmean(map(self.off, runs)):.1f} %",
                "bottlenecks, mean": f"{statistics.fmean(one[LINKS][0] for one in moving):+.1f} %",
                "sources at the end": f"{statistics.fmean(one[SOURCES][0] for one in last):+.2f} %",
                "longest wait": f"{longest:.1f} ms",
                "events": f"{statistics.fmean(run['events'] for run in runs) / 1e6:.1f} M",
            }


class Experiment1a(Errors):
    """Experiment 1a (figures 3 and 4)."""

    name = "slbn-1a"
    title = "Experiment 1a: 50,000 sessions on 1,100 routers, and churn"
    source = f"{SOURCE}, figures 3 and 4"
    setting = (
        "A transit-stub network of 1,100 routers with 200 hosts at each stub router; 50,000"
        " sessions join in 500 ms; 10,000 leave and 10,000 join in the next 200 ms. Hosts have"
        " 100 Mbit/s, stub links 1, transit links 5 Gbit/s; 1 to 10 ms a link."
    )
    experiment = "1a"
    algorithms = tuple(NAMES)
    begin, end = 0.3, 1.0

    def seeds(self, quick: bool) -> Sequence[int]:
        """Two that were run before the claims were registered, and eight that were not."""
        return (1,) if quick else (1, 2, *range(11, 19))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        late = {name: [self.series([run], 1.5, 2.0) for run in runs] for name, runs in data.items()}

        def mean(name: str, column: int) -> list[float]:
            return [statistics.fmean(one[SOURCES][column] for one in rows) for rows in late[name]]

        def peak(name: str) -> list[float]:
            rows = [self.series([run], 0.3, 2.0) for run in data[name]]
            return [max(one[SOURCES][2] for one in seed) for seed in rows]

        off = self.offs(data)
        found = self.measure_forms(data, (1.5, 2.0), 2.0)
        for name in SIMULATED.values():
            for kind, others in (("accurate", ("erica", "rcp")), ("stand-ins", STAND_INS)):
                found[f"{name}-{kind}"] = {
                    NAMES[other]: ratios(off[other], off[name]) for other in others
                }
        return found | {
            "erica-accurate": ratios(off["rcp"], off["erica"]),
            "bfyz-accurate": {
                NAMES[other]: ratios(off[other], off["bfyz"]) for other in ("erica", "rcp")
            },
            "erica-above": mean("erica", 0),
            "rcp-errors": peak("rcp"),
            "piqi-rcp-errors": peak("piqi-rcp"),
            "cobb-mean": mean("cobb", 0),
            "cobb-most": mean("cobb", 2),
        }


class Large(Errors):
    """SLBN beside BFYZ-like on 11,000 routers."""

    algorithms = (*SIMULATED.values(), "bfyz", "sperc")
    quick_percent = 5

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        off, last = self.offs(data), data["bfyz"][0]["series"][-1][TIME]
        found = self.measure_forms(data, (last, last), self.end)
        for name in SIMULATED.values():
            found[f"{name}-bfyz"] = ratios(off[name], off["bfyz"])
        return found


class Experiment2a(Large):
    """Experiment 2a (figures 7 and 8)."""

    name = "slbn-2a"
    title = "Experiment 2a: 180,000 sessions join on 11,000 routers"
    source = f"{SOURCE}, figures 7 and 8"
    setting = "A transit-stub network of 11,000 routers; 180,000 sessions join in the first second."
    experiment = "2a"
    begin, end = 0.5, 1.5


class Experiment2b(Large):
    """Experiment 2b (figures 9 and 10)."""

    name = "slbn-2b"
    title = "Experiment 2b: churn of 100,000 sessions on 11,000 routers"
    source = f"{SOURCE}, figures 9 and 10"
    setting = (
        "The same network; 100,000 sessions join in the first second; from 9 to 10 s 50,000 join"
        " and 50,000 leave."
    )
    experiment = "2b"
    begin, end = 9.2, 10.2

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        bfyz, paper = (
            [self.overshoot(run, self.end) for run in data[name]] for name in ("bfyz", "slbn-paper")
        )
        return super().measure(data, quick) | {"bfyz-higher": gaps(bfyz, paper)}
