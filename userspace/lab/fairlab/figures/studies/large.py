# SPDX-License-Identifier: GPL-2.0
"""SLBN and its competitors on the networks of its paper, simulated.

Mozo, López-Presa, Fernández Anta: "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based Explicit
Congestion Control", NCA 2012, section IV: tens of thousands of sessions join and leave on
transit-stub networks of 1,100 and 11,000 routers.  Links run the kernel's own algorithm
(include/fairpath/slbn/slbn_core.h); the others are what could be made of their papers, which
slbnsim's files tell of each.

Errors are those of the paper: at a source, how far the rate that it has been told is from the exact
max-min one of the sessions that are there just then; at a link that restricts some, how far the sum
of what its sessions have been told is from its rate.  Mean, tenth and ninetieth percentile.

All figures of that section are here, 3 to 10.  Then there are some of our own: control packets that
are lost, sessions that die, a link that is cut; s-PERC beside SLBN on short links and on long ones;
and a thousand to a million sessions.  What is claimed there, nobody has published.
"""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results import plots
from fairlab.slbn.simulated import Simulated

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN (NCA 2012), section IV"
NAMES = {
    "slbn": "SLBN",
    "bfyz": "BFYZ (stand-in)",
    "sperc": "s-PERC",
    "erica": "ERICA+",
    "xcp": "XCP",
    "rcp": "RCP",
    "piqi-rcp": "PIQI-RCP (in part)",
    "cobb": "COBB-like",
}
ASSUMPTIONS = (
    "The parameters of GT-ITM are not published: ten transit routers to a domain, two stub domains"
    " of five at each, links with probability 0.5 and 0.42; stub to transit 1 Gbit/s.",
    "Control packets have the kernel's format (about 100 to 150 bytes) and take at most 1 % of a"
    " session's rate; sources pause for 5 ms on average between cycles.",
    "Data is a fluid; queues have no end.",
    "BFYZ's text was not at hand: the stand-in keeps state for each session, as BFYZ does, and is"
    " exact. Neither were Cobb and Gouda's and PIQI-RCP's: what stands for them is in their spirit"
    " only. s-PERC and XCP are not in the paper's figures.",
)
COLOURS = dict(zip(NAMES, (*plots.COLOURS, plots.GREY), strict=True))
#: The source and the published side of what the paper does not have.
OURS = "This project; not in a paper"
UNPUBLISHED = "a claim of ours: nothing is published"
#: Rows of a series: when; errors at sources, and at links; the longest wait, ms.
TIME, SOURCES, LINKS, WAIT = 0, slice(1, 4), slice(4, 7), 7


def row(moment: dict[str, Any]) -> list[float]:
    """A moment in few digits."""
    spreads = [moment[side][key] for side in ("sources", "links") for key in ("mean", "p10", "p90")]
    return [
        round(moment["time"], 3),
        *(round(value, 2) for value in spreads),
        round(1000 * moment["longest_wait"], 3),
    ]


class Errors(Study):
    """Errors at sources and bottlenecks over time."""

    source = SOURCE
    assumptions = ASSUMPTIONS
    experiment: str
    algorithms: tuple[str, ...]
    every = 50
    quick_percent = 4
    begin: float  # what claims look at [s]: when joins are well under way, or churn begins,
    end: float  # and when all has been quiet for a while

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
        """All rows of all runs in a time."""
        return [one for run in runs for one in run["series"] if begin <= one[TIME] <= end]

    def off(self, runs: Sequence[Numbers]) -> float:
        """How far sources are off while all moves: the mean size of percentiles, %."""
        rows = self.series(runs, self.begin, self.end)
        return statistics.fmean(abs(value) for one in rows for value in one[SOURCES][1:])

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

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            moving = self.series(runs, self.begin, self.end)
            last = [run["series"][-1] for run in runs]
            rows.append(
                (
                    NAMES[name],
                    f"{statistics.fmean(one[SOURCES][0] for one in moving):+.1f} %",
                    f"{self.off(runs):.1f} %",
                    f"{statistics.fmean(one[LINKS][0] for one in moving):+.1f} %",
                    f"{statistics.fmean(one[SOURCES][0] for one in last):+.2f} %",
                    f"{max(one[WAIT] for run in runs for one in run['series']):.1f} ms",
                    f"{statistics.fmean(run['events'] for run in runs) / 1e6:.1f} M",
                )
            )
        columns = (
            "", "sources, mean", "percentiles, mean size", "bottlenecks, mean",
            "sources at the end", "longest wait", "events",
        )  # fmt: skip
        return Table(columns, tuple(rows))


class OneA(Errors):
    """Figures 3 and 4."""

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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        off = {name: self.off(runs) for name, runs in data.items()}
        weak = ("erica", "rcp", "piqi-rcp", "cobb")
        best = min(off[name] for name in weak)
        ours = max(off["slbn"], off["bfyz"])
        late = {name: self.series(runs, 1.5, 2.0) for name, runs in data.items()}
        erica = statistics.fmean(one[SOURCES][0] for one in late["erica"])
        peaks = {
            name: max(one[SOURCES][2] for one in self.series(data[name], 0.3, 2.0))
            for name in ("rcp", "piqi-rcp")
        }
        cobb = late["cobb"]
        rest = max(abs(value) for one in late["slbn"] for value in one[SOURCES])
        over = max(one[LINKS][0] for one in self.series(data["slbn"], self.begin, 2.0))
        return [
            Claim(
                "SLBN and BFYZ are the most accurate",
                "SLBN, BFYZ and ERICA far more accurate than the others; SLBN and BFYZ best",
                f"percentiles {off['slbn']:.0f} and {off['bfyz']:.0f} % off; of the others"
                f" {best:.0f} % at best",
                "less than any of ERICA, RCP, PIQI-RCP, COBB",
                ours < best,
                "in the first second sources with long round-trips still have rates of when fewer"
                " sessions were there, whatever the algorithm",
            ),
            Claim(
                "SLBN comes to the exact rates",
                "converges to max-min fair rates",
                f"{rest:.2f} % off at most from 1.5 s on (10th and 90th percentile)",
                "1 %",
                rest <= 1,
            ),
            Claim(
                "and promises no more than there is on its way",
                "conservative: nearly full utilisation, no overshoot on average",
                f"bottlenecks {over:+.1f} % at most, on average",
                "at most +3 %",
                over <= 3,
            ),
            Claim(
                "ERICA is slightly above the exact rates",
                "slightly above",
                f"{erica:+.1f} % on average from 1.5 s on",
                "0 to +20 %",
                0 <= erica <= 20,
                "ERICA's parameters in the paper are not known: these aim at 5 % more than a link"
                " has when nothing waits there, and at less when something does",
            ),
            Claim(
                "RCP and PIQI-RCP are far off at times",
                "errors sometimes 200 %",
                f"ninetieth percentile up to {peaks['rcp']:.0f} and {peaks['piqi-rcp']:.0f} %",
                "more than 100 % for one of them",
                max(peaks.values()) > 100,
                "with a gain of 0.1 and a first rate of a twentieth of a link, RCP is below the"
                " exact rates for seconds rather than above; of PIQI-RCP only a part is known",
            ),
            Claim(
                "COBB does not converge",
                "mean about 500 %, percentiles -15 and 1600 %, all the time",
                f"mean {statistics.fmean(one[SOURCES][0] for one in cobb):.0f} %, percentiles"
                f" {statistics.fmean(one[SOURCES][1] for one in cobb):.0f} and"
                f" {statistics.fmean(one[SOURCES][2] for one in cobb):.0f} %, from 1.5 s on",
                "ninetieth percentile above 100 %",
                statistics.fmean(one[SOURCES][2] for one in cobb) > 100,
                "its round is not known, and its text was not at hand",
            ),
        ]


class Large(Errors):
    """SLBN beside BFYZ on 11,000 routers."""

    algorithms = ("slbn", "bfyz", "sperc")
    quick_percent = 5

    def overshoot(self, data: Data, name: str) -> float:
        """By how much bottlenecks were promised away at most, on average [%]."""
        return max(one[LINKS][0] for one in self.series(data[name], self.begin, self.end))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        off = {name: self.off(runs) for name, runs in data.items()}
        over = {name: self.overshoot(data, name) for name in data}
        rest = max(abs(value) for run in data["slbn"] for value in run["series"][-1][SOURCES])
        return [
            Claim(
                "SLBN is as accurate as BFYZ, without state for each session",
                "performs as well",
                f"percentiles {off['slbn']:.1f} % off, BFYZ's {off['bfyz']:.1f} %",
                "at most half as much again",
                off["slbn"] <= 1.5 * off["bfyz"] + 0.5,
            ),
            Claim(
                "neither overshoots links significantly",
                "always below 5 %",
                f"bottlenecks {over['slbn']:+.1f} and {over['bfyz']:+.1f} % at most, on average",
                "5 %",
                max(over["slbn"], over["bfyz"]) < 5,
            ),
            Claim(
                "SLBN comes to the exact rates",
                "quickly reaches the max-min fair rates",
                f"{rest:.2f} % off at the end (10th and 90th percentile)",
                "1 %",
                rest <= 1,
            ),
        ]


class TwoA(Large):
    """Figures 7 and 8."""

    name = "slbn-2a"
    title = "Experiment 2a: 180,000 sessions join on 11,000 routers"
    source = f"{SOURCE}, figures 7 and 8"
    setting = "A transit-stub network of 11,000 routers; 180,000 sessions join in the first second."
    experiment = "2a"
    begin, end = 0.5, 1.5


class TwoB(Large):
    """Figures 9 and 10."""

    name = "slbn-2b"
    title = "Experiment 2b: churn of 100,000 sessions on 11,000 routers"
    source = f"{SOURCE}, figures 9 and 10"
    setting = (
        "The same network; 100,000 sessions join in the first second; from 9 to 10 s 50,000 join"
        " and 50,000 leave."
    )
    experiment = "2b"
    begin, end = 9.2, 10.2


class OneB(Study):
    """Figures 5 and 6."""

    name = "slbn-1b"
    title = "Experiment 1b: 50,000 sessions with data to send: how long they take, and queues"
    source = f"{SOURCE}, figures 5 (completion times) and 6 (maximum queues)"
    setting = (
        "The network of 1a; 50,000 sessions join in 500 ms, each with a number of packets of 2000"
        " bytes to send that is Pareto, 300 on average, shape 4."
    )
    assumptions = (
        *ASSUMPTIONS,
        "A queue is as long as the longest wait on the link says; 3 % of a link's capacity are 30"
        " ms. Figure 5's classes of sizes are ours. XCP, which the paper does not have, is left"
        " out.",
    )
    algorithms = tuple(name for name in NAMES if name != "xcp")
    quick_percent = 20
    bound = 30  # ms: 3 % of a link's bits per second
    classes = (225, 250, 275, 300, 350, 400, 500, 600, 1_000_000)  # packets

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent, until = (self.quick_percent, 3000) if quick else (100, 10_000)
        return [
            Case(name, Simulated("1b", name, seed, percent, 50, until)) for name in self.algorithms
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        sizes = []
        for low, high in itertools.pairwise(self.classes):
            times = [took for size, took in outcome["completions"] if low <= size < high]
            sizes.append([len(times), round(statistics.fmean(times), 4) if times else None])
        times = [took for _, took in outcome["completions"]]
        return {
            "sizes": sizes,
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
        """The longest [ms]."""
        return max(float(one[1]) for run in runs for one in run["queues"])

    def packets(self, runs: Sequence[Numbers]) -> int:
        """The longest queue."""
        return int(max(one[2] for run in runs for one in run["queues"]))

    def took(self, runs: Sequence[Numbers]) -> float:
        """The mean of all that have finished [s]; for ever if none has."""
        times = [run["mean"] for run in runs if run["mean"] is not None]
        return statistics.fmean(times) if times else float("inf")

    def complete(self, runs: Sequence[Numbers]) -> float:
        """How many have, %."""
        return 100 * statistics.fmean(run["complete"] for run in runs)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        wait = {name: self.wait(runs) for name, runs in data.items()}
        took = {name: self.took(runs) for name, runs in data.items()}
        others = {name: wait[name] for name in wait if name not in ("slbn", "sperc")}
        stress = {name: self.packets(data[name]) for name in data}
        worst = min(stress[name] for name in ("cobb", "piqi-rcp"))
        near = [took[name] / took["slbn"] for name in ("bfyz", "erica")]
        weak = [took[name] / took["slbn"] for name in ("piqi-rcp", "cobb")]
        done = {name: self.complete(runs) for name, runs in data.items()}
        return [
            Claim(
                "SLBN's queues are bounded",
                "at most 3 % of a link's capacity",
                f"the longest wait is {wait['slbn']:.1f} ms, {wait['slbn'] / 10:.1f} %",
                f"{self.bound} ms",
                wait["slbn"] <= self.bound,
            ),
            Claim(
                "and of those compared, only SLBN's are",
                "SLBN is the only one that seems to keep the maximum size bounded",
                f"the others' longest waits are {min(others.values()):.0f} to"
                f" {max(others.values()):.0f} ms",
                f"each of the others more than {self.bound} ms",
                min(others.values()) > self.bound,
                "with a part of the sessions, links between routers are not filled" * quick,
            ),
            Claim(
                "COBB and PIQI-RCP impose the most on queues",
                "COBB up to 8265 packets, PIQI-RCP's in figure 6 the longest",
                f"{stress['cobb']} and {stress['piqi-rcp']} packets, SLBN {stress['slbn']}",
                "more than ten times SLBN's, each",
                worst > 10 * stress["slbn"],
                "with a part of the sessions, links between routers are not filled" * quick,
            ),
            Claim(
                "BFYZ and ERICA take as long as SLBN",
                "similar completion times",
                f"{near[0]:.2f} and {near[1]:.2f} times SLBN's {took['slbn']:.2f} s",
                "0.85 to 1.15 times",
                all(0.85 <= part <= 1.15 for part in near),
            ),
            Claim(
                "PIQI-RCP and COBB do so too",
                "similar completion times",
                f"{weak[0]:.2f} and {weak[1]:.2f} times, of the {done['piqi-rcp']:.0f} and"
                f" {done['cobb']:.0f} % that are complete",
                "0.67 to 1.5 times, of 95 % at least",
                all(0.67 <= part <= 1.5 for part in weak)
                and min(done["piqi-rcp"], done["cobb"]) >= 95,
                "of PIQI-RCP only a part is known, and of COBB not even its round: queues make"
                " round-trips longer than ours",
            ),
            Claim(
                "RCP takes longer",
                "much worse completion times",
                f"{took['rcp'] / took['slbn']:.2f} times SLBN's, of the {done['rcp']:.0f} % that"
                " are complete",
                "at least 1.25 times",
                took["rcp"] >= 1.25 * took["slbn"],
                "queues without end do what RCP leaves undone, as the paper says too",
            ),
        ]

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
                times.plot(x, [means[at] for at in x], "o-", ms=3, label=label, **look)
                queues.plot(
                    [one[0] for one in run["queues"]],
                    [max(one[1], 0.1) for one in run["queues"]],
                    label=label,
                    **look,
                )
        times.set_xticks(range(len(names)), names)
        times.set_ylim(bottom=0)
        times.set(xlabel="packets of 2000 bytes to send", ylabel="seconds to completion, mean")
        queues.axhline(self.bound, color="black", lw=0.8, ls=":")
        queues.set_yscale("log")
        queues.set(xlabel="seconds", ylabel="longest wait in a queue, ms")
        times.set_title("Paler: another seed", fontsize=9, loc="left")
        queues.set_title("Dotted: 3 % of a link's capacity", fontsize=9, loc="left")
        for axis in (times, queues):
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            by_second = []
            for second in range(3):
                found = [
                    one[2] for run in runs for one in run["queues"] if second < one[0] <= second + 1
                ]
                by_second.append(f"{max(found, default=0)}")
            rows.append(
                (
                    NAMES[name],
                    f"{self.took(runs):.2f} s",
                    f"{self.complete(runs):.1f} %",
                    f"{self.wait(runs):.1f} ms",
                    *by_second,
                )
            )
        columns = (
            "", "mean time to completion", "complete", "longest wait",
            "longest queue, packets: second 1", "second 2", "second 3",
        )  # fmt: skip
        return Table(columns, tuple(rows))


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
                    round(100 * one["astray"] / max(one["sessions"], 1), 3),
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
            ),
            Claim(
                "and nearly so when most cycles lose a packet",
                UNPUBLISHED,
                f"{rest['full'][2]:.1f} % of the sources at a loss of {self.losses[2]} %",
                "10 % of the sources more than 1 % off",
                rest["full"][2] <= 10,
                "on a path of ten links a packet passes twenty: some sessions are not heard of for"
                " an epoch",
            ),
            Claim(
                "As printed, SLBN needs channels that lose nothing",
                "a reliable channel is assumed",
                f"{text['paper']} %",
                "at least 20 % of the sources astray for good, at each loss",
                min(rest["paper"]) >= 20,
            ),
            Claim(
                "Ledgers alone do not do while losses go on",
                UNPUBLISHED,
                f"{text['ledgers']} %",
                "from 1 % of loss on, at least 20 % of the sources astray",
                min(rest["ledgers"][1:]) >= 20,
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
                )
            )
        found.append(
            Claim(
                "As printed, SLBN never forgets",
                "sessions always say goodbye, and paths stay as they are",
                f"more than 1 % of the sources come back {' / '.join(map(took, paper))}",
                "never, in each case",
                all(value == float("inf") for value in paper),
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


class Near(Study):
    """s-PERC beside SLBN, on short links and on long ones."""

    name = "slbn-sperc"
    title = "SLBN, s-PERC and BFYZ on links of microseconds, and of milliseconds"
    source = OURS
    setting = (
        "16 leaves and 8 spines, 100 Gbit/s between them, 64 hosts with 10 Gbit/s at each leaf;"
        " links of 1 to 2 us, or of 5 to 10 ms. 512 sessions join within 20 us, or 100 ms; when"
        " all is quiet 51 leave and 51 join, as quickly."
    )
    assumptions = (
        *ASSUMPTIONS[1:3],
        "s-PERC needs a round that is longer than the time in which each session is heard of once:"
        " 2 ms where control packets may take 1 % of a rate, 50 us where they may take any, 250 ms"
        " on long links. Pauses between cycles are 10 us, 5 us and 5 ms on average.",
        "Settled is when all sources are within 1 % of their exact rates.",
    )
    algorithms = ("slbn", "sperc", "bfyz")
    #: Network, part of control packets [%], pause, s-PERC's round, steps [ms], and when what
    #: happens has happened, twice [s].
    places: ClassVar[dict[str, tuple[str, str, str, str, float, tuple[float, float]]]] = {
        "lan": ("lan", "1", "10us", "2ms", 0.01, (20e-6, 6.02e-3)),
        "any": ("lan", "0", "5us", "50us", 0.01, (20e-6, 6.02e-3)),
        "wan": ("wan", "1", "5ms", "250ms", 20, (0.1, 5.1)),
    }
    titles: ClassVar[dict[str, str]] = {
        "lan": "microseconds, control at most 1 %",
        "any": "microseconds, control any",
        "wan": "milliseconds",
    }
    quick_count = 128

    def cases(self, quick: bool, seed: int) -> list[Case]:
        found = []
        for place, (network, control, pause, spell, every, _) in self.places.items():
            for name in self.algorithms:
                words = ["--control", control, "--pause", pause]
                words += ["--round", spell] if name == "sperc" else []
                count = self.quick_count if quick else 0
                what = Simulated(network, name, seed, 100, every, count=count, options=tuple(words))
                found.append(Case(f"{place}-{name}", what))
        return found

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        place = case.name.split("-")[0]
        begins = self.places[place][-1]
        trip = outcome["mean_round_trip"]
        series = outcome["series"]
        phases = []
        for begin, end in zip(begins, (begins[1] - begins[0], float("inf")), strict=True):
            # Until the next phase begins.
            rows = [one for one in series if begin < one["time"] < end]
            late = [one["time"] for one in rows if one["astray"]]
            settled = None if rows[-1]["astray"] else (late[-1] - begin if late else 0) / trip
            phases.append(
                {
                    "settled": None if settled is None else round(settled, 2),
                    "over": round(max(one["links"]["mean"] for one in rows), 3),
                    "most": round(max(one["links"]["most"] for one in rows), 3),
                    "series": [
                        [
                            round((one["time"] - begin) / trip, 2),
                            round(100 * one["astray"] / one["sessions"], 2),
                        ]
                        for one in rows[:: 1 + len(rows) // 2000]
                    ],
                }
            )
        control, data = outcome["control_bytes"], outcome["data_bytes"]
        return {"phases": phases, "control": control / (control + data), "trip": trip}

    def settled(self, runs: Sequence[Numbers], phase: int) -> float:
        """At worst, in round-trips."""
        values = [run["phases"][phase]["settled"] for run in runs]
        return float("inf") if None in values else max(values)

    def control(self, runs: Sequence[Numbers]) -> float:
        """The part of control packets of all octets [%]."""
        return 100 * max(float(run["control"]) for run in runs)

    def over(self, runs: Sequence[Numbers], key: str = "over") -> float:
        """By how much bottlenecks are promised away, in the churn [%]."""
        return max(float(run["phases"][1][key]) for run in runs)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        slow = {
            name: [
                max(self.settled(data[f"{place}-{name}"], phase) for phase in (0, 1))
                for place in self.places
            ]
            for name in self.algorithms
        }
        text = {
            name: ", ".join(f"{value:.0f}" for value in values) for name, values in slow.items()
        }
        limited = max(self.control(data[f"lan-{name}"]) for name in self.algorithms)
        over = max(self.over(data[f"{place}-slbn"]) for place in self.places)
        return [
            Claim(
                "All settle at the exact rates, however short or long links are",
                "converges whatever the round-trips (SLBN); in 6 N rounds at most (s-PERC)",
                "; ".join(f"{NAMES[name]} {text[name]} round-trips" for name in text)
                + " (microseconds with 1 % and with any, milliseconds)",
                "all of them",
                max(max(values) for values in slow.values()) < float("inf"),
            ),
            Claim(
                "SLBN settles no later than s-PERC",
                UNPUBLISHED,
                f"{text['slbn']} round-trips; s-PERC {text['sperc']}",
                "in each case",
                all(a <= b for a, b in zip(slow["slbn"], slow["sperc"], strict=True)),
                "s-PERC waits for its rounds to end",
            ),
            Claim(
                "and not much later than what keeps each session's state",
                UNPUBLISHED,
                f"{text['slbn']} round-trips; BFYZ's stand-in {text['bfyz']}",
                "at most three times as many",
                all(a <= 3 * b for a, b in zip(slow["slbn"], slow["bfyz"], strict=True)),
            ),
            Claim(
                "Control packets take what they may, and no more",
                "about 1 % of the rate",
                f"{limited:.2f} % at most, of all octets on short links",
                "1.1 %",
                limited <= 1.1,
            ),
            Claim(
                "SLBN promises no more than there is, on average",
                "never overshooting links on average",
                f"bottlenecks {over:+.1f} % at most in the churn, on average",
                "at most +3 %",
                over <= 3,
            ),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 8)
        axes = figure.subplots(len(self.places), 2, sharey=True)
        for line, (place, title) in zip(axes, self.titles.items(), strict=True):
            for phase, (axis, what) in enumerate(zip(line, ("joins", "churn"), strict=True)):
                for name in self.algorithms:
                    for n, run in enumerate(data[f"{place}-{name}"]):
                        x, y = zip(*run["phases"][phase]["series"], strict=True)
                        label = NAMES[name] if not n else None
                        axis.plot(x, y, color=COLOURS[name], lw=1.2, label=label)
                axis.set_xscale("log")
                axis.set_title(f"{title}: {what}", fontsize=9, loc="left")
            line[0].set_ylabel("sources astray, %")
        axes[0][0].legend(fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("round-trips (mean) since the last one joined or left")

    def table(self, data: Data) -> Table:
        rows = [
            (
                title,
                NAMES[name],
                *(f"{self.settled(data[f'{place}-{name}'], phase):.1f}" for phase in (0, 1)),
                f"{self.over(data[f'{place}-{name}']):+.2f} %",
                f"{self.over(data[f'{place}-{name}'], 'most'):+.0f} %",
                f"{self.control(data[f'{place}-{name}']):.4f} %",
            )
            for place, title in self.titles.items()
            for name in self.algorithms
        ]
        columns = (
            "links", "", "round-trips to settle after joins", "after churn",
            "bottlenecks in the churn, mean at most", "one of them at most", "control",
        )  # fmt: skip
        return Table(columns, tuple(rows))


class Scale(Astray):
    """From a thousand sessions to a million."""

    name = "slbn-scale"
    title = "A thousand to a million sessions on 11,000 routers"
    setting = (
        "The network of 2a; 1,000 to 1,000,000 sessions join in the first second, and stay. SLBN as"
        " the kernel runs it."
    )
    assumptions = (
        *ASSUMPTIONS[:2],
        "There are control packets only. A source is heard of at least each quarter of a second,"
        " about, whatever part of its rate that takes: links forget who is not heard of for an"
        " epoch.",
    )
    joined = 1  # s
    until = 6

    def counts(self, quick: bool) -> tuple[int, ...]:
        return (1000, 4000) if quick else (1000, 10_000, 100_000, 1_000_000)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(
                str(count),
                Simulated("2a", "slbn", seed, 100, 50, 1000 * self.until, "", count),
            )
            for count in self.counts(quick)
        ]

    def settled(self, runs: Sequence[Numbers]) -> float:
        """When all but 1 % are, after the last has joined [s]."""
        return self.after(runs, self.joined, float("inf"))

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        counts = sorted(map(int, data))
        times = {count: self.settled(data[str(count)]) for count in counts}
        events = {
            count: statistics.fmean(run["events"] for run in data[str(count)]) / count / self.until
            for count in counts
        }
        off = max(max(abs(one) for one in run["series"][-1][2:]) for runs in data.values()
                  for run in runs)  # fmt: skip
        return [
            Claim(
                "However many there are, rates come to the exact ones",
                UNPUBLISHED,
                f"{off:.2f} % off at most at the end (10th and 90th percentile)",
                "1 %",
                off <= 1,
            ),
            Claim(
                "and hardly later",
                "convergence in as many cycles as there are levels of bottlenecks",
                "all but 1 % of the sources are there "
                + ", ".join(f"{took(times[count])} ({count:,})" for count in counts),
                "within 3 s of the last join",
                max(times.values()) <= 3,
            ),
            Claim(
                "The network's work for a session does not grow",
                "a constant amount of work for a packet",
                ", ".join(f"{events[count]:.0f} ({count:,})" for count in counts)
                + " events a second for each session",
                "with the most sessions at most 1.2 times that with the fewest",
                events[counts[-1]] <= 1.2 * events[counts[0]],
            ),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        over_time, cost = figure.subplots(2, 1)
        for (count, runs), colour in zip(data.items(), plots.COLOURS, strict=False):
            self.lines(over_time, runs, colour, f"{int(count):,} sessions")
        over_time.axvline(self.joined, color="black", lw=0.8, ls=":")
        over_time.set(ylim=(0, 100), xlabel="seconds", ylabel="sources astray, %")
        over_time.legend(fontsize=8)
        counts = sorted(map(int, data))
        for look, label, values in (
            ("o-", "events a second for each session", [
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

    def table(self, data: Data) -> Table:
        rows = []
        for count, runs in data.items():
            when = [one for run in runs for one in run["series"] if one[0] == self.joined]
            last = [run["series"][-1] for run in runs]
            spread = (min(one[2] for one in when), max(one[3] for one in when))
            rows.append(
                (
                    f"{int(count):,}",
                    f"{statistics.fmean(run['events'] for run in runs) / 1e6:.1f} M",
                    f"{spread[0]:+.1f} to {spread[1]:+.1f} %",
                    took(self.settled(runs)),
                    f"{min(one[2] for one in last):+.3f} to {max(one[3] for one in last):+.3f} %",
                )
            )
        columns = (
            "sessions", "events", "percentiles when the last joins", "all but 1 % settled",
            "percentiles at the end",
        )  # fmt: skip
        return Table(columns, tuple(rows))


STUDIES: tuple[Study, ...] = (
    OneA(), OneB(), TwoA(), TwoB(), Loss(), Dead(), Near(), Scale(),
)  # fmt: skip
