# SPDX-License-Identifier: GPL-2.0
"""Recovery from loss of control packets, failed sessions and a cut link."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.large.common import ASSUMPTIONS, OURS, SEEDS
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, Table, tabular
from fairlab.results import plots
from fairlab.slbn.simulated import Simulated


class Recovery(Study):
    """The share of sources whose rate is off by more than 1 %, or that have none, over time."""

    source = OURS
    count_of_seeds = SEEDS
    assumptions = (
        *ASSUMPTIONS[:2],
        "A source retransmits a lost control packet after three RTTs, 20 to 200 ms (200 ms before"
        " its first RTT sample), as slbnd does, and never spuriously. Epochs last a second. There"
        " are only control packets.",
    )

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        return {
            "series": [
                [
                    round(one["time"], 6),
                    round(100 * one["off_by_1_percent"] / max(one["sessions"], 1), 3),
                    round(one["sources"]["p10"], 2),
                    round(one["sources"]["p90"], 2),
                ]
                for one in outcome["series"]
            ],
            "packets": outcome["packets"],
            "events": outcome["events"],
        }

    def off_shares(self, runs: Sequence[Numbers], begin: float, end: float) -> list[float]:
        """The shares of sources off by more than 1 %, from BEGIN to END, of all runs [%]."""
        return [one[1] for run in runs for one in run["series"] if begin <= one[0] <= end]

    def after(self, runs: Sequence[Numbers], begin: float, end: float, most: float = 1) -> float:
        """The time after BEGIN until at most MOST % are off, the worst run; infinite if past END
        [s].
        """
        worst = 0.0
        for run in runs:
            rows = [one for one in run["series"] if begin < one[0] < end]
            late = [one[0] for one in rows if one[1] > most]
            if late and late[-1] == rows[-1][0]:
                return float("inf")
            worst = max(worst, late[-1] - begin if late else 0)
        return worst

    def lines(self, axis: Any, runs: Sequence[Numbers], colour: str, label: str) -> None:
        for n, run in enumerate(runs):
            rows = run["series"]
            x, y = [one[0] for one in rows], [one[1] for one in rows]
            axis.plot(x, y, color=colour, lw=1.2, label=label if not n else None)


def took(seconds: float) -> str:
    return "never" if seconds == float("inf") else f"after {seconds:.1f} s"


class Loss(Recovery):
    """Loss of control packets."""

    name = "slbn-loss"
    title = "Loss of control packets on each link"
    setting = (
        "The network of 1a with 20,000 sessions, its joins and its churn; each link drops each"
        " control packet, downstream or upstream, with the same probability."
    )
    variants: ClassVar[dict[str, tuple[str, str, tuple[str, ...]]]] = {
        "full": ("ledgers and memory (the kernel's)", "slbn", ()),
        "ledgers": ("ledgers alone", "slbn", ("--memory", "0")),
        "paper": ("three integers, as in the paper", "slbn-paper", ()),
    }
    losses = ("0.1", "1", "5")  # %
    until = 8  # s
    quick_count, count = 2000, 20_000

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count = self.quick_count if quick else self.count
        return [
            Case(
                f"{name}-{loss}",
                Simulated(
                    "1a", algorithm, seed, 100, 100, 1000 * self.until, "", count,
                    ("--loss", loss, *options),
                ),
            )
            for loss in self.losses
            for name, (_, algorithm, options) in self.variants.items()
        ]  # fmt: skip

    def at_rest(self, runs: Sequence[Numbers]) -> float:
        """The mean share of sources that are off in the last two seconds [%]."""
        return statistics.fmean(self.off_shares(runs, self.until - 2, self.until))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Sources that are off at the end, by the loss [%]."""
        rest: dict[str, dict[str, list[float]]] = {
            name: {
                f"{loss} % lost": [self.at_rest([run]) for run in data[f"{name}-{loss}"]]
                for loss in self.losses
            }
            for name in self.variants
        }
        low, middle, high = (f"{loss} % lost" for loss in self.losses)
        full, ledgers = rest["full"], rest["ledgers"]
        return {
            "full": {low: full[low], middle: full[middle]},
            "full-5": full[high],
            "paper": rest["paper"],
            "ledgers": {middle: ledgers[middle], high: ledgers[high]},
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        axes = figure.subplots(len(self.losses), 1, sharex=True)
        for axis, loss in zip(axes, self.losses, strict=True):
            for (name, (label, _, _)), colour in zip(
                self.variants.items(), plots.COLOURS, strict=False
            ):
                self.lines(axis, data[f"{name}-{loss}"], colour, label)
            axis.set_title(f"{loss} % lost on each link", fontsize=9, loc="left")
            axis.set(ylim=(0, 100), ylabel="sources off by > 1 % (%)")
        axes[0].legend(fontsize=8)
        axes[-1].set_xlabel("seconds")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for case, runs in data.items():
            name, loss = case.split("-")
            lost, sent = (sum(run["packets"][key] for run in runs) for key in ("lost", "sent"))
            last = [run["series"][-1] for run in runs]
            low, high = min(one[2] for one in last), max(one[3] for one in last)
            yield {
                "loss": f"{loss} %",
                "links have": self.variants[name][0],
                "sources off at the end": f"{self.at_rest(runs):.2f} %",
                "percentiles at the end": f"{low:+.1f} to {high:+.1f} %",
                "unanswered packets": f"{100 * lost / sent:.1f} %",
            }


class Failures(Recovery):
    """Failed sessions, and a cut link."""

    name = "slbn-dead"
    title = "Sessions that fail, and sessions that leave a cut link"
    setting = (
        "The network of 1a with 20,000 sessions. At 3, 7 and 11 s, 1, 5 and 20 % of the sessions"
        " fail without a Leave. Or at 3 s the busiest link that is not a bridge is cut: its"
        " sessions take other paths, and either send a Leave on the old one, as far as it still"
        " works, or are rerouted without any."
    )
    deaths = ((1, 3), (5, 7), (20, 11))  # %, s
    cut = 3
    quick_count, count = 2000, 20_000
    algorithms: ClassVar[dict[str, str]] = {
        "slbn": "SLBN with healing",
        "slbn-paper": "SLBN as in the paper",
    }
    titles: ClassVar[dict[str, str]] = {
        "dead": "1, 5 and 20 % of the sessions fail",
        "told": "a link is cut: sessions leave, and join on another path",
        "silent": "a link is cut: packets are rerouted without a Leave",
    }

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count = self.quick_count if quick else self.count
        dead = [word for part, when in self.deaths for word in ("--dead", f"{part}@{when}s")]
        cut = ["--cut", f"busiest@{self.cut}s"]
        trouble = {"dead": (15, dead), "told": (9, cut), "silent": (9, [*cut, "--silent"])}
        return [
            Case(
                f"{what}-{name}",
                Simulated("1a", name, seed, 100, 100, 1000 * until, "", count, tuple(options)),
            )
            for what, (until, options) in trouble.items()
            for name in self.algorithms
        ]

    def healed(self, runs: Sequence[Numbers], what: str) -> float:
        """The longest time to recover [s]."""
        if what != "dead":
            return self.after(runs, self.cut, float("inf"))
        return max(self.after(runs, when, when + 4) for _, when in self.deaths)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Times until rates are exact [s]; for the paper's form, sources off at the end [%]."""
        found: dict[str, Measured] = {
            what: [self.healed([run], what) for run in data[f"{what}-slbn"]] for what in self.titles
        }
        found["paper"] = {
            title: [run["series"][-1][1] for run in data[f"{what}-slbn-paper"]]
            for what, title in self.titles.items()
        }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        axes = figure.subplots(len(self.titles), 1)
        for axis, (what, title) in zip(axes, self.titles.items(), strict=True):
            times = [when for _, when in self.deaths] if what == "dead" else [self.cut]
            for when in times:
                axis.axvline(when, color="black", lw=0.8, ls=":")
            for (name, label), colour in zip(self.algorithms.items(), plots.COLOURS, strict=False):
                self.lines(axis, data[f"{what}-{name}"], colour, label)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set(ylim=(0, 100), ylabel="sources off by > 1 % (%)")
        axes[0].legend(fontsize=8)
        axes[-1].set_xlabel("seconds")

    def table(self, data: Data) -> Table:
        rows = [
            (
                title,
                label,
                f"{max(self.off_shares(data[f'{what}-{name}'], self.cut, 15)):.1f} %",
                took(self.healed(data[f"{what}-{name}"], what)),
            )
            for what, title in self.titles.items()
            for name, label in self.algorithms.items()
        ]
        return Table(("", "", "sources off at most", "all but 1 % exact"), tuple(rows))
