# SPDX-License-Identifier: GPL-2.0
"""Recovery from loss of control packets, failed sessions and a cut link."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.large.common import ASSUMPTIONS, OURS, UNPUBLISHED
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results import plots
from fairlab.slbn.simulated import Simulated


class Astray(Study):
    """How many sources are astray, more than 1 % off the exact rate or without one, over time."""

    source = OURS
    assumptions = (
        *ASSUMPTIONS[:2],
        "A source whose control packet is lost sends it again after three round-trips, 20 to 200 ms"
        " (200 ms before it knows of one), as slbnd does, and never too early. Epochs last a"
        " second. There are control packets only.",
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

    def astray(self, runs: Sequence[Numbers], begin: float, end: float) -> list[float]:
        """Parts of sources in a time, of all runs [%]."""
        return [one[1] for run in runs for one in run["series"] if begin <= one[0] <= end]

    def after(self, runs: Sequence[Numbers], begin: float, end: float, most: float = 1) -> float:
        """How long at worst more than MOST % are astray after BEGIN; up to END: for ever [s]."""
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


class Loss(Astray):
    """Control packets are lost."""

    name = "slbn-loss"
    title = "Control packets are lost on each link"
    setting = (
        "The network of 1a with 20,000 sessions, its joins and its churn; on each link that a"
        " control packet passes, down or up, it is lost with the same probability."
    )
    variants: ClassVar[dict[str, tuple[str, str, tuple[str, ...]]]] = {
        "full": ("ledgers and a memory of visits (the kernel's)", "slbn", ()),
        "ledgers": ("ledgers alone", "slbn", ("--memory", "0")),
        "paper": ("three integers, as printed", "slbn-paper", ()),
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
        """The mean part that is astray in the last two seconds [%]."""
        return statistics.fmean(self.astray(data[f"{name}-{loss}"], self.until - 2, self.until))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        rest = {
            name: [self.at_rest(data, name, loss) for loss in self.losses] for name in self.variants
        }
        text = {name: ", ".join(f"{part:.1f}" for part in parts) for name, parts in rest.items()}
        losses = ", ".join(self.losses)
        return [
            Claim(
                "With ledgers and a memory of visits rates are exact while packets are lost",
                UNPUBLISHED,
                f"{text['full']} % of the sources are astray at the end, at a loss of {losses} %",
                "up to 1 % of loss, 1 % of the sources more than 1 % off",
                max(rest["full"][:2]) <= 1,
                basis="ours",
            ),
            Claim(
                "and nearly so when most cycles lose a packet",
                UNPUBLISHED,
                f"{rest['full'][2]:.1f} % of the sources at a loss of {self.losses[2]} %",
                "10 % of the sources more than 1 % off",
                rest["full"][2] <= 10,
                "on a path of ten links a packet passes twenty: some sessions are not heard of for"
                " an epoch",
                basis="ours",
            ),
            Claim(
                "As printed, SLBN needs channels that lose nothing",
                "a reliable channel is assumed",
                f"{text['paper']} %",
                "at least 20 % of the sources astray for good, at each loss",
                min(rest["paper"]) >= 20,
                basis="ours",
            ),
            Claim(
                "Ledgers alone do not do while losses go on",
                UNPUBLISHED,
                f"{text['ledgers']} %",
                "from 1 % of loss on, at least 20 % of the sources astray",
                min(rest["ledgers"][1:]) >= 20,
                basis="ours",
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
            axis.set(ylim=(0, 100), ylabel="sources astray, %")
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
            "loss", "links have", "sources astray at the end", "percentiles at the end",
            "packets that did not come back",
        )  # fmt: skip
        return Table(columns, tuple(rows))


class Dead(Astray):
    """Sessions die; a link is cut."""

    name = "slbn-dead"
    title = "Sessions die, and move away from a link that is cut"
    setting = (
        "The network of 1a with 20,000 sessions. At 3, 7 and 11 s, 1, 5 and 20 % of the sessions"
        " are gone without a word. Or at 3 s the busiest link that can be done without is cut: its"
        " sessions take other paths, and say goodbye on the old one, as far as that goes, or their"
        " packets just take another way."
    )
    deaths = ((1, 3), (5, 7), (20, 11))  # %, s
    cut = 3
    quick_count, count = 2000, 20_000
    algorithms: ClassVar[dict[str, str]] = {
        "slbn": "SLBN with healing",
        "slbn-paper": "SLBN as printed",
    }
    titles: ClassVar[dict[str, str]] = {
        "dead": "1, 5 and 20 % of the sessions die",
        "told": "a link is cut: sessions leave, and join on another path",
        "silent": "a link is cut: packets take another path, nobody is told",
    }
    #: Two epochs, and what is left of a second for rates to settle.
    heals = 3.0
    #: A source says goodbye when its cycle is over, and gives up after ten tries, two seconds.
    heals_told = 5.0

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
        """How long it takes at most [s]."""
        runs = data[f"{what}-{name}"]
        if what != "dead":
            return self.after(runs, self.cut, float("inf"))
        return max(self.after(runs, when, when + 4) for _, when in self.deaths)

    def worst(self, data: Data, what: str, begin: float) -> float:
        """The largest part astray of SLBN's sources since then [%]."""
        return max(self.astray(data[f"{what}-slbn"], begin, 15))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        paper = [self.healed(data, what, "slbn-paper") for what in self.titles]
        found = []
        for what, text, limit in (
            ("dead", "The dead are forgotten", self.heals),
            ("silent", "A path that was left without a word is forgotten", self.heals),
            ("told", "So is one on which goodbyes are lost, if later", self.heals_told),
        ):
            value = self.healed(data, what, "slbn")
            found.append(
                Claim(
                    text,
                    UNPUBLISHED,
                    f"of up to {self.worst(data, what, self.cut):.0f} % sources astray all but 1 %"
                    f" are back {took(value)}",
                    f"within {limit:.0f} s, at epochs of one",
                    value <= limit,
                    basis="ours",
                )
            )
        found.append(
            Claim(
                "As printed, SLBN never forgets",
                "sessions always say goodbye, and paths stay as they are",
                f"more than 1 % of the sources come back {' / '.join(map(took, paper))}",
                "never, in each case",
                all(value == float("inf") for value in paper),
                basis="ours",
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
            axis.set(ylim=(0, 100), ylabel="sources astray, %")
        axes[0].legend(fontsize=8)
        axes[-1].set_xlabel("seconds")

    def table(self, data: Data) -> Table:
        rows = [
            (
                title,
                label,
                f"{max(self.astray(data[f'{what}-{name}'], self.cut, 15)):.1f} %",
                took(self.healed(data, what, name)),
            )
            for what, title in self.titles.items()
            for name, label in self.algorithms.items()
        ]
        return Table(("", "", "sources astray at most", "all but 1 % are back"), tuple(rows))
