# SPDX-License-Identifier: GPL-2.0
"""Recovery from loss of control packets, failed sessions and a cut link."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import COMMIT, PAPER, PUBLISHED
from fairlab.figures.studies.large.common import ASSUMPTIONS, OURS, UNPUBLISHED
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results import plots
from fairlab.slbn.simulated import Simulated


class Recovery(Study):
    """The share of sources whose rate is off by more than 1 %, or that have none, over time."""

    source = OURS
    published = PUBLISHED
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

    def at_rest(self, data: Data, name: str, loss: str) -> float:
        """The mean share of sources that are off in the last two seconds [%]."""
        return statistics.fmean(self.off_shares(data[f"{name}-{loss}"], self.until - 2, self.until))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        rest = {
            name: [self.at_rest(data, name, loss) for loss in self.losses] for name in self.variants
        }
        text = {name: ", ".join(f"{part:.1f}" for part in parts) for name, parts in rest.items()}
        losses = ", ".join(self.losses)
        return [
            Claim(
                "With ledgers and memory, rates are exact despite loss",
                UNPUBLISHED,
                f"{text['full']} % of the sources are off by more than 1 % at the end, at a loss of"
                f" {losses} %",
                "up to 1 % of loss, at most 1 % of the sources",
                max(rest["full"][:2]) <= 1,
                "at 1 % every fifth cycle on a path of ten links loses a packet, and now and then"
                " the retransmissions of a session take longer than its lease of a second",
                basis="ours",
                algorithm=COMMIT,
            ),
            Claim(
                "most rates are exact even if most cycles lose a packet",
                UNPUBLISHED,
                f"{rest['full'][2]:.1f} % of the sources at a loss of {self.losses[2]} %",
                "at most 10 % of the sources off by more than 1 %",
                rest["full"][2] <= 10,
                "on a path of ten links a cycle crosses twenty: some sessions complete no cycle in"
                " an epoch of a second, and their rate ends with its lease",
                basis="ours",
                algorithm=COMMIT,
            ),
            Claim(
                "As in the paper, SLBN needs reliable channels",
                "a reliable channel is assumed",
                f"{text['paper']} % of the sources are off",
                "at least 20 % of the sources stay off by more than 1 %, at each loss",
                min(rest["paper"]) >= 20,
                basis="ours",
                algorithm=PAPER,
            ),
            Claim(
                "Ledgers alone are not enough during loss",
                UNPUBLISHED,
                f"{text['ledgers']} % of the sources are off",
                "from 1 % of loss on, at least 20 % of the sources off by more than 1 %",
                min(rest["ledgers"][1:]) >= 20,
                basis="ours",
                algorithm="SLBN with ledgers alone",
            ),
        ]

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

    def table(self, data: Data) -> Table:
        rows = []
        for case, runs in data.items():
            name, loss = case.split("-")
            packets = [run["packets"] for run in runs]
            last = [run["series"][-1] for run in runs]
            rows.append(
                (
                    f"{loss} %",
                    self.variants[name][0],
                    f"{self.at_rest(data, name, loss):.2f} %",
                    f"{min(one[2] for one in last):+.1f} to {max(one[3] for one in last):+.1f} %",
                    f"{100 * sum(p['lost'] for p in packets) / sum(p['sent'] for p in packets):.1f}"
                    " %",
                )
            )
        columns = (
            "loss", "links have", "sources off at the end", "percentiles at the end",
            "unanswered packets",
        )  # fmt: skip
        return Table(columns, tuple(rows))


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
    #: Two epochs, and a second for rates to settle [s].
    recovers = 3.0
    #: A source sends Leave at the end of its cycle, and gives up after ten tries, two seconds.
    recovers_late = 5.0

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

    def healed(self, data: Data, what: str, name: str) -> float:
        """The longest time to recover [s]."""
        runs = data[f"{what}-{name}"]
        if what != "dead":
            return self.after(runs, self.cut, float("inf"))
        return max(self.after(runs, when, when + 4) for _, when in self.deaths)

    def worst(self, data: Data, what: str, begin: float) -> float:
        """The largest share of SLBN's sources that are off, from BEGIN on [%]."""
        return max(self.off_shares(data[f"{what}-slbn"], begin, 15))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        paper = [self.healed(data, what, "slbn-paper") for what in self.titles]
        found = []
        for what, text, limit in (
            ("dead", "Rates recover from failed sessions", self.recovers),
            ("silent", "Rates recover after rerouting without a Leave", self.recovers),
            ("told", "Rates recover later if Leaves on the old path are lost", self.recovers_late),
        ):
            value = self.healed(data, what, "slbn")
            found.append(
                Claim(
                    text,
                    UNPUBLISHED,
                    f"of up to {self.worst(data, what, self.cut):.0f} % of the sources off all but"
                    f" 1 % are exact {took(value)}",
                    f"within {limit:.0f} s, at epochs of one",
                    value <= limit,
                    basis="ours",
                    algorithm=COMMIT,
                )
            )
        found.append(
            Claim(
                "As in the paper, SLBN never recovers",
                "sessions always leave explicitly, and paths do not change",
                f"all but 1 % of the sources are exact {' / '.join(map(took, paper))}",
                "never, in each case",
                all(value == float("inf") for value in paper),
                basis="ours",
                algorithm=PAPER,
            )
        )
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
                took(self.healed(data, what, name)),
            )
            for what, title in self.titles.items()
            for name, label in self.algorithms.items()
        ]
        return Table(("", "", "sources off at most", "all but 1 % exact"), tuple(rows))
