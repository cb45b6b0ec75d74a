# SPDX-License-Identifier: GPL-2.0
"""Completion times and queues with data: experiment 1b."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import SIMULATED
from fairlab.figures.studies.large.common import (
    ASSUMPTIONS,
    COLOURS,
    NAMES,
    QUEUE_BOUND_MS,
    SEEDS,
    SOURCE,
    STAND_INS,
)
from fairlab.figures.studies.spread import ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.slbn.simulated import Simulated


class Experiment1b(Study):
    """Experiment 1b (figures 5 and 6)."""

    name = "slbn-1b"
    title = "Experiment 1b: completion times and queues of 50,000 sessions with data"
    source = f"{SOURCE}, figures 5 (completion times) and 6 (maximum queues)"
    setting = (
        "The network of 1a; 50,000 sessions join in 500 ms, each with packets of 2000 bytes to"
        " send, whose number is Pareto with mean 300 and shape 4."
    )
    assumptions = (
        *ASSUMPTIONS,
        "The length of a queue is its longest wait; 3 % of a link's capacity are 30 ms. The size"
        " classes of figure 5 are ours. XCP, which is not in the paper, is left out.",
        "Completion times are restricted means: a session that is not complete after 9.5 s, for as"
        " long as each is observed, counts as 9.5 s. Otherwise an algorithm that never serves its"
        " largest sessions would seem fast.",
    )
    algorithms = tuple(name for name in NAMES if name != "xcp")
    quick_percent = 20
    count_of_seeds = SEEDS
    ends: ClassVar = {True: 3000, False: 10_000}  # quick: the end [ms]
    joins = 500  # within these [ms], so all are observed for the rest
    ENOUGH = 0.95  # of a class's sessions, for a mean of those that are complete
    classes = (225, 250, 275, 300, 350, 400, 500, 600, 1_000_000)  # packets

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent, until = self.quick_percent if quick else 100, self.ends[quick]
        return [
            Case(name, Simulated("1b", name, seed, percent, 50, until)) for name in self.algorithms
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        sizes = []
        for low, high in itertools.pairwise(self.classes):
            times = [took for size, took in outcome["completions"] if low <= size < high]
            sizes.append([len(times), round(statistics.fmean(times), 4) if times else None])
        times = [took for _, took in outcome["completions"]]
        assert isinstance(case.what, Simulated)
        horizon = (case.what.until - self.joins) / 1000
        missing = outcome["sessions"] - len(times)
        within = sum(min(took, horizon) for took in times) + missing * horizon
        return {
            "sizes": sizes,
            "restricted": round(within / outcome["sessions"], 4),
            "mean": round(statistics.fmean(times), 4) if times else None,
            "complete": round(len(times) / outcome["sessions"], 5),
            "queues": [
                [
                    round(one["time"], 3),
                    round(1000 * one["longest_wait"], 2),
                    one["longest_queue"] // 2000,
                ]
                for one in outcome["series"]
            ],
        }

    def wait(self, runs: Sequence[Numbers]) -> float:
        """The longest wait [ms]."""
        return max(float(one[1]) for run in runs for one in run["queues"])

    def took(self, runs: Sequence[Numbers]) -> float:
        """The restricted mean of completion times [s]."""
        return statistics.fmean(map(self.took_restricted, runs))

    def took_restricted(self, run: Numbers) -> float:
        if "restricted" in run:
            return float(run["restricted"])
        # Runs that were stored before lack it, but for sessions complete after the horizon.
        missing = (1 - run["complete"]) * (self.ends[False] - self.joins) / 1000
        return float(run["complete"] * (run["mean"] or 0) + missing)

    def counted(self, data: Data, at: int, n: int) -> int:
        """The sessions of the size class AT under seed N, by the algorithm that completed most.

        All algorithms have the same sessions.
        """
        return max((runs[n]["sizes"][at][0] for runs in data.values() if n < len(runs)), default=0)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Queues [ms] and [packets]; restricted mean times, divided by those of a form."""
        wait = {name: [self.wait([run]) for run in runs] for name, runs in data.items()}
        took = {name: [self.took([run]) for run in runs] for name, runs in data.items()}
        found: dict[str, Measured] = {
            "queues": {NAMES[name]: wait[name] for name in ("erica", "rcp")},
            "stand-ins-queues": {NAMES[name]: wait[name] for name in STAND_INS},
            "cobb-packets": [max(one[2] for one in run["queues"]) for run in data["cobb"]],
        }
        for name in SIMULATED.values():
            found |= {
                f"{name}-queue": wait[name],
                f"{name}-erica": ratios(took["erica"], took[name]),
                f"{name}-stand-ins": {
                    NAMES[other]: ratios(took[other], took[name]) for other in STAND_INS
                },
                f"{name}-rcp": ratios(took["rcp"], took[name]),
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 8)
        times, queues = figure.subplots(2, 1)
        names = [f"{a}-{b - 1}" for a, b in itertools.pairwise(self.classes)]
        names[-1] = f"from {self.classes[-2]}"
        for name, runs in data.items():
            for n, run in enumerate(runs):
                label = NAMES[name] if not n else None
                look = {"color": COLOURS[name], "lw": 1.3, "alpha": 0.35 if n else 1.0}
                means = [mean for _, mean in run["sizes"]]
                x = [at for at, mean in enumerate(means) if mean is not None]
                times.plot(x, [means[at] for at in x], "-", label=label, **look)
                few = [
                    at for at in x if run["sizes"][at][0] < self.ENOUGH * self.counted(data, at, n)
                ]
                times.plot(few, [means[at] for at in few], "x", ms=5, **look)
                queues.plot(
                    [one[0] for one in run["queues"]],
                    [max(one[1], 0.1) for one in run["queues"]],
                    label=label,
                    **look,
                )
        times.set_xticks(range(len(names)), names)
        times.set_ylim(bottom=0)
        times.set(xlabel="packets of 2000 bytes to send", ylabel="seconds to completion, mean")
        queues.axhline(QUEUE_BOUND_MS, color="black", lw=0.8, ls=":")
        queues.set_yscale("log")
        queues.set(xlabel="seconds", ylabel="longest wait in a queue, ms")
        title = "Paler: another seed. Crosses: of the complete sessions only, less than 95 % of all"
        times.set_title(title, fontsize=9, loc="left")
        queues.set_title("Dotted: 3 % of a link's capacity", fontsize=9, loc="left")
        for axis in (times, queues):
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            queues = [one for run in runs for one in run["queues"]]
            by_second = [
                max((one[2] for one in queues if second < one[0] <= second + 1), default=0)
                for second in range(3)
            ]
            yield {
                "": NAMES[name],
                "time to completion, restricted mean": f"{self.took(runs):.2f} s",
                "complete": f"{100 * statistics.fmean(run['complete'] for run in runs):.1f} %",
                "longest wait": f"{self.wait(runs):.1f} ms",
                "longest queue, packets: second 1": f"{by_second[0]}",
                "second 2": f"{by_second[1]}",
                "second 3": f"{by_second[2]}",
            }
