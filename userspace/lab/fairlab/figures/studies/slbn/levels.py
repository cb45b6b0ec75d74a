# SPDX-License-Identifier: GPL-2.0
"""Convergence by levels of bottlenecks and by round-trip time."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fairlab.figures.studies.forms import LINKS
from fairlab.figures.studies.slbn.common import SOURCE, OneForm
from fairlab.figures.studies.spread import by_seed, mean_of
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, tabular
from fairlab.results import plots
from fairlab.results.statistics import percentile
from fairlab.slbn import sessions_plan
from fairlab.slbn.sessions import Plan, Recording
from fairlab.slbn.sessions_analysis import Comparison


class Levels(OneForm):
    """Convergence time by levels of bottlenecks and by RTT."""

    figure = "slbn-levels"
    subject = "convergence by levels of bottlenecks and by round-trip time"
    source = f"{SOURCE}, sections III and I: in words"
    setting = (
        "In words only: the algorithm converges in a number of cycles in the order of the levels of"
        " bottlenecks, and otherwise independently of RTTs. No figure."
    )
    assumptions = (
        "A line of routers on which the bottleneck of each wire depends on the previous wire"
        " (sessions_plan.py); the rates of the levels are 100, 200, 300 … Mbit/s.",
        "All sessions join within a quarter of an RTT; the time is from the last join until their"
        " rates are within 0.01 % of the max-min rates, and stay so. Then all leave, and the test"
        " repeats.",
        "A cycle is the RTT over two wires, the longest, and a mean pause of 2 ms.",
    )
    pause_ms = 2.0

    def cases(self, quick: bool, seed: int) -> list[Case]:
        turns, own = (3, 3) if quick else (8, 4)
        found = []
        for name, levels, ms in (
            *((f"levels-{n}", n, 40) for n in ((1, 3) if quick else range(1, 9))),
            *((f"rtt-{ms}ms", own, ms) for ms in ((10,) if quick else (5, 10, 20, 80, 160))),
        ):
            gap = (ms + self.pause_ms) / 1000 * (8 + 2 * levels)
            plan = Plan(
                sessions_plan.line(levels, 1000 * ms),
                sessions_plan.levels(levels, turns, gap, ms / 4000, seed),
                seconds=round(1.5 * gap * turns, 3),
                pause_ms=self.pause_ms,
                hops=4,
                every=0.5,
                seed=seed,
                **LINKS[self.form],
            )
            found.append(Case(name, plan))
        return found

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        plan = outcome.plan
        comparison = Comparison(outcome)
        leaves = sorted({session.leave for session in plan.sessions if session.leave})
        took: list[float | None] = []
        off = 0.0
        for leave in leaves:
            joins = [
                when for when, n, d in outcome.asked if d != 0 and plan.sessions[n].leave == leave
            ]
            last = max(joins)
            took.append(comparison.settled(last, leave))
            exact = comparison.reference(last).rates
            off = max(
                off, *(abs(comparison.assigned_at(n, leave) - rate) for n, rate in exact.items())
            )
        levels = len(plan.mesh.nodes) - 2
        trip = 4 * plan.mesh.wires[0].delay / 1000
        cycle = trip + plan.pause_ms
        return {
            "levels": levels,
            "round_trip_ms": trip,
            "seconds": [one if one is None else round(one, 5) for one in took],
            "cycles": [one if one is None else round(1000 * one / cycle, 3) for one in took],
            "bits_off": round(off, 2),
        }

    @staticmethod
    def cycles(runs: Sequence[Numbers]) -> list[float]:
        return [one for run in runs for one in run["cycles"] if one is not None]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        return by_seed(data, self.measure_seed)

    def measure_seed(self, seed: dict[str, Numbers]) -> dict[str, float | dict[str, float]]:
        """Lines that converge [%]; cycles above two for each level; apart by RTT [%]."""
        every = [one for run in seed.values() for one in run["cycles"]]
        means = {name: mean_of(self.cycles([run])) for name, run in seed.items()}
        by_levels = {
            run["levels"]: means[name] for name, run in seed.items() if name.startswith("levels-")
        }
        few = min(by_levels)
        own = max(run["levels"] for name, run in seed.items() if "rtt" in name)
        trips = [means[name] for name, run in seed.items() if run["levels"] == own]
        middle = statistics.fmean(trips)
        return {
            "converges": 100 * (1 - every.count(None) / len(every)),
            "levels": max(mean - (by_levels[few] + 2 * (n - few)) for n, mean in by_levels.items()),
            "rtt": 100 * max(abs(mean / middle - 1) for mean in trips),
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 3.6)
        left, right = figure.subplots(1, 2, sharey=True)
        own = max(run["levels"] for name, runs in data.items() if "rtt" in name for run in runs)
        by_levels = {name for name in data if name.startswith("levels-")}
        by_trip = {name for name, runs in data.items() if runs[0]["levels"] == own}
        for axis, key, wanted in ((left, "levels", by_levels), (right, "round_trip_ms", by_trip)):
            rows = sorted((data[name][0][key], self.cycles(data[name])) for name in wanted)
            for at, cycles in rows:
                axis.plot([at] * len(cycles), cycles, ".", color=plots.COLOURS[0], alpha=0.3, ms=4)
            axis.plot(
                [at for at, _ in rows],
                [statistics.fmean(cycles) for _, cycles in rows],
                "o-", color=plots.COLOURS[0], label="mean",
            )  # fmt: skip
            axis.grid(alpha=0.25)
            axis.set_ylim(bottom=0)
            axis.set_xscale("log" if axis is right else "linear")
            axis.set_xticks([at for at, _ in rows], [f"{at:g}" for at, _ in rows])
            axis.minorticks_off()
        left.set_xlabel("levels of bottlenecks")
        left.set_ylabel("cycles until all rates are exact")
        right.set_xlabel(f"RTT, ms ({own} levels)")
        left.legend(loc="upper left", fontsize=8)

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for runs in data.values():
            cycles = self.cycles(runs)
            seconds = [one for run in runs for one in run["seconds"] if one is not None]
            spread = f"{percentile(cycles, 10):.1f} to {percentile(cycles, 90):.1f}"
            yield {
                "levels": str(runs[0]["levels"]),
                "RTT": f"{runs[0]['round_trip_ms']:g} ms",
                "cycles, mean": f"{statistics.fmean(cycles):.1f}",
                "10th to 90th percentile": spread,
                "time, mean": f"{1000 * statistics.fmean(seconds):.0f} ms",
            }
