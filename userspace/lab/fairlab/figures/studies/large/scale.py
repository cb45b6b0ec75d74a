# SPDX-License-Identifier: GPL-2.0
"""A thousand to a million sessions."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fairlab.figures.studies.large.common import ASSUMPTIONS
from fairlab.figures.studies.large.recovery import Recovery, took
from fairlab.figures.studies.spread import ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, tabular
from fairlab.results import plots
from fairlab.slbn.simulated import Simulated


class Scale(Recovery):
    """Settling time and work per session by the number of sessions."""

    name = "slbn-scale"
    title = "A thousand to a million sessions on 11,000 routers"
    setting = (
        "The network of 2a; 1,000 to 1,000,000 sessions join in the first second. SLBN as in the"
        " kernel."
    )
    assumptions = (
        *ASSUMPTIONS[:2],
        "There are only control packets. A source sends one at least about every quarter of a"
        " second, whatever share of its rate that takes: links drop sessions without a control"
        " packet in an epoch.",
    )
    joined = 1  # s
    until = 6
    count_of_seeds = 2  # a million sessions take minutes

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(
                str(count),
                Simulated("2a", "slbn", seed, 100, 50, 1000 * self.until, "", count),
            )
            for count in ((1000, 4000) if quick else (1000, 10_000, 100_000, 1_000_000))
        ]

    def settled(self, runs: Sequence[Numbers]) -> float:
        """The time after the last join until all but 1 % have settled [s]."""
        return self.after(runs, self.joined, float("inf"))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Percentiles at the end [%]; settling times [s]; events, divided by the fewest's."""
        counts = sorted(map(int, data))
        events = {count: [run["events"] / count for run in data[str(count)]] for count in counts}
        return {
            "converges": {
                f"{count:,}": [max(map(abs, run["series"][-1][2:])) for run in data[str(count)]]
                for count in counts
            },
            "settles": {
                f"{count:,}": [self.settled([run]) for run in data[str(count)]] for count in counts
            },
            "work": ratios(events[counts[-1]], events[counts[0]]),
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        over_time, cost = figure.subplots(2, 1)
        for (count, runs), colour in zip(data.items(), plots.COLOURS, strict=False):
            self.lines(over_time, runs, colour, f"{int(count):,} sessions")
        over_time.axvline(self.joined, color="black", lw=0.8, ls=":")
        over_time.set(ylim=(0, 100), xlabel="seconds", ylabel="sources off by > 1 % (%)")
        over_time.legend(fontsize=8)
        counts = sorted(map(int, data))
        for look, label, values in (
            ("o-", "events per second and session", [
                statistics.fmean(run["events"] for run in data[str(count)]) / count / self.until
                for count in counts
            ]),
            ("s--", "ms until all but 1 % have settled", [
                1000 * self.settled(data[str(count)]) for count in counts
            ]),
        ):  # fmt: skip
            cost.plot(counts, values, look, label=label)
        cost.set_xscale("log")
        cost.set_ylim(bottom=0)
        cost.set(xlabel="sessions")
        cost.legend(fontsize=8)

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for count, runs in data.items():
            when = [one for run in runs for one in run["series"] if one[0] == self.joined]
            last = [run["series"][-1] for run in runs]
            (low, high), (lowest, highest) = (
                (min(one[2] for one in rows), max(one[3] for one in rows)) for rows in (when, last)
            )
            yield {
                "sessions": f"{int(count):,}",
                "events": f"{statistics.fmean(run['events'] for run in runs) / 1e6:.1f} M",
                "percentiles when the last joins": f"{low:+.1f} to {high:+.1f} %",
                "all but 1 % settled": took(self.settled(runs)),
                "percentiles at the end": f"{lowest:+.3f} to {highest:+.3f} %",
            }
