# SPDX-License-Identifier: GPL-2.0
"""SLBN and its competitors on the networks of its paper, simulated by slbnsim.

Mozo, López-Presa, Fernández Anta: "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based Explicit
Congestion Control", NCA 2012, section IV: tens of thousands of sessions join and leave on
transit-stub networks of 1,100 and 11,000 routers.  Links run the kernel's algorithm
(include/fairpath/slbn/slbn_core.h).  The competitors are as close to their papers as these allow;
slbnsim's sources describe each.

Errors are defined as in the paper.  At a source: the relative difference between the assigned rate
and the max-min rate for the sessions that exist at that moment.  At a bottleneck: the relative
difference between the sum of the assigned rates and the link's capacity.  Figures show the mean,
the 10th and the 90th percentile.

The module has all figures of that section, 3 to 10, and some of our own: loss of control packets,
sessions that fail, a link that is cut; s-PERC beside SLBN on short and on long links; a thousand to
a million sessions; 1a by parameters that the paper does not give, and with packets instead of a
fluid.  For the latter nothing is published.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import COMMIT, LABELS, PAPER, SIMULATED
from fairlab.figures.studies.spread import gaps, mean, percent, ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, Table
from fairlab.results import plots
from fairlab.slbn.simulated import FLUID, Simulated

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN (NCA 2012), section IV"
NAMES = {
    SIMULATED[PAPER]: PAPER,
    SIMULATED[COMMIT]: LABELS[COMMIT],
    "bfyz": "BFYZ-like",
    "sperc": "s-PERC",
    "erica": "ERICA+",
    "xcp": "XCP",
    "rcp": "RCP",
    "piqi-rcp": "PIQI-RCP-like",
    "cobb": "COBB-like",
}
ASSUMPTIONS = (
    "The parameters of GT-ITM are not published. Ours: ten transit routers per domain, two stub"
    " domains of five routers at each, edge probabilities 0.5 and 0.42; stub to transit 1 Gbit/s.",
    "Control packets have the kernel's format (about 150 to 220 bytes) and use at most 1 % of a"
    " session's rate; sources pause for 5 ms on average between cycles.",
    "Data is a fluid; queues are unlimited.",
    "The text of BFYZ was not available: BFYZ-like keeps state per session, as BFYZ does, and is"
    " exact. Those of COBB and PIQI-RCP were not available either: COBB-like and PIQI-RCP-like only"
    " resemble them. s-PERC and XCP are not in the paper's figures.",
    "Links of s-PERC have rounds of 250 ms, longer than any RTT without queues.",
)
COLOURS = dict(zip(NAMES, (*plots.COLOURS, plots.GREY, plots.BROWN), strict=True))
#: Source and published side of claims that are not in the paper.
OURS = "This project; not in a paper"
#: Algorithms that only resemble those of the paper.
STAND_INS = ("bfyz", "piqi-rcp", "cobb")
#: More than guests have: a run takes seconds.
SEEDS = 10


# --- errors at sources and bottlenecks over time: experiments 1a, 2a and 2b -----------------------

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


def draw_cut(
    axis: Any,
    limits: tuple[float, float],
    drawn: Sequence[float],
    seeds: Sequence[float],
    form: str = "{:,.0f} %",
    more: Sequence[str] = (),
) -> None:
    """Limit the axis, and write in its corner how far what is DRAWN is beyond it, MORE below.

    SEEDS are the values that DRAWN is the mean of, if it is one.
    """
    (low, high), words = limits, []
    axis.set_ylim(low, high)
    for arrow, way, end, extreme in (
        ("\N{UPWARDS ARROW}", "up", high, max),
        ("\N{DOWNWARDS ARROW}", "down", low, min),
    ):
        most, worst = extreme(drawn), extreme(seeds)
        if extreme(most, end) != end:
            single = "" if worst == most else f", a seed to {form.format(worst)}"
            words.append(f"{arrow} {way} to {form.format(most)}{single}")
    corner = {"transform": axis.transAxes, "ha": "right", "va": "bottom", "fontsize": 7}
    axis.text(0.99, 0.04, "\n".join([*words, *more]), **corner)


def off(rows: Sequence[list[float]]) -> float:
    """The mean magnitude of the percentiles of errors at sources in ROWS [%]."""
    return statistics.fmean(abs(value) for one in rows for value in one[SOURCES][1:])


class Published(Study):
    """An experiment of the paper, with some algorithms."""

    assumptions: tuple[str, ...] = ASSUMPTIONS
    count_of_seeds = SEEDS
    experiment: str
    algorithms: tuple[str, ...]
    quick_percent = 4
    ends: ClassVar = {True: 0, False: 0}  # quick: the end [ms]; 0: the experiment's own

    def cases(self, quick: bool, seed: int) -> list[Case]:
        percent, until = self.quick_percent if quick else 100, self.ends[quick]
        return [
            Case(name, Simulated(self.experiment, name, seed, percent, 50, until))
            for name in self.algorithms
        ]


class Errors(Published):
    """Errors at sources and bottlenecks over time."""

    begin: float  # the time that claims cover [s]: from when joins or churn are under way
    end: float  # until some time after the last change

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

    def measure_high(self, run: Numbers, end: float) -> float:
        """The largest 90th percentile of bottlenecks until END [%]: in a mean, links that are not
        full cancel those that are overshot.
        """
        return float(max(one[LINKS][2] for one in self.series([run], self.begin, end)))

    #: While sessions join and leave [s], from when the first have their second rate.
    measure_span: tuple[float, float]

    def measure_rest(self, runs: Sequence[Numbers], begin: float, end: float) -> list[float]:
        """The largest error of sources from BEGIN to END [%]."""
        return [
            max(abs(v) for one in self.series([run], begin, end) for v in one[SOURCES])
            for run in runs
        ]

    def measure_means(self, runs: Sequence[Numbers], side: slice) -> list[list[float]]:
        """The mean errors of each run while sessions join and leave [%]."""
        return [[one[side][0] for one in self.series([run], *self.measure_span)] for run in runs]

    def measure_used(self, runs: Sequence[Numbers]) -> list[float]:
        """The mean error at bottlenecks while sessions join and leave [%]."""
        return list(map(statistics.fmean, self.measure_means(runs, LINKS)))

    def measure_forms(
        self, data: Data, rest: tuple[float, float], end: float
    ) -> dict[str, Measured]:
        """Each form's error at rest, overshoot until END by mean and percentile, use of bottlenecks
        and variation of means while sessions join and leave [%]; queues [ms].
        """
        found: dict[str, Measured] = {}
        for name in SIMULATED.values():
            runs = data[name]
            found |= {
                f"{name}-converges": self.measure_rest(runs, *rest),
                f"{name}-overshoot": [self.overshoot(run, end) for run in runs],
                f"{name}-high": [self.measure_high(run, end) for run in runs],
                f"{name}-queue": [max(one[WAIT] for one in run["series"]) for run in runs],
                f"{name}-full": self.measure_used(runs),
                f"{name}-constant": {
                    words: [max(means) - min(means) for means in self.measure_means(runs, side)]
                    for words, side in (("sources", SOURCES), ("bottlenecks", LINKS))
                },
            }
        over = [100 * run["overshoot"] for run in data[SIMULATED[COMMIT]]]
        return found | {"slbn-never-above": over}

    #: What is drawn: the time [s], as in the paper, and the axes of sources and bottlenecks [%],
    #: whose values are not in its text.
    draw_span: tuple[float, float] = (0, 2)
    draw_limits: tuple[tuple[float, float], tuple[float, float]] = ((-100, 200), (-100, 100))

    def draw_errors(
        self,
        axis: Any,
        runs: Sequence[Numbers],
        side: slice,
        colour: str,
        limits: tuple[float, float],
    ) -> None:
        """The seeds' mean percentiles, and each seed's mean; what LIMITS [%] and the span cut is
        written in the corner.
        """
        begin, end = self.draw_span
        moments = list(zip(*(run["series"] for run in runs), strict=True))
        shown = [one for one in moments if begin <= one[0][TIME] <= end]
        times = [one[0][TIME] for one in shown]

        def band(moments: Sequence[Sequence[list[float]]]) -> list[list[float]]:
            """The mean of the seeds' 10th percentiles, and of their 90th."""
            return [
                [statistics.fmean(seed[side][n] for seed in seeds) for seeds in moments]
                for n in (1, 2)
            ]

        low, high = band(shown)
        axis.fill_between(times, low, high, color=colour, linewidth=0, alpha=0.3)
        means = [[seeds[n][side][0] for seeds in shown] for n in range(len(runs))]
        for one in means:
            axis.plot(times, one, color=colour, linewidth=0.7)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_xlim(begin, end)
        drawn = [*low, *high, *itertools.chain.from_iterable(means)]
        every = [value for seeds in shown for seed in seeds for value in seed[side]]
        rest = [one for one in moments if not begin <= one[0][TIME] <= end]
        unseen = [value for ends in band(rest) for value in ends]
        more = (
            [f"at other times {round(min(unseen)):,} to {round(max(unseen)):,} %"] if unseen else []
        )
        draw_cut(axis, limits, drawn, every, more=more)

    def draw(self, figure: Any, data: Data) -> None:
        names = list(data)
        figure.set_size_inches(8, 0.8 + 1.35 * len(names))
        axes = figure.subplots(len(names), 2, sharex=True, squeeze=False)
        for (left, right), name in zip(axes, names, strict=True):
            for axis, side, limits, words in (
                (left, SOURCES, self.draw_limits[0], "sources"),
                (right, LINKS, self.draw_limits[1], "bottlenecks"),
            ):
                self.draw_errors(axis, data[name], side, COLOURS[name], limits)
                axis.set_title(f"{NAMES[name]}: {words}", fontsize=9, loc="left")
            left.set_ylabel("error, %")
        for axis in axes[-1]:
            axis.set_xlabel("seconds")
        title = "band: the seeds' 10th and 90th percentiles, averaged; lines: each seed's mean"
        figure.suptitle(title, fontsize=9)

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            moving = self.series(runs, self.begin, self.end)
            last = [run["series"][-1] for run in runs]
            over = [run["overshoot"] for run in runs]
            longest = max(one[WAIT] for run in runs for one in run["series"])
            yield {
                "": NAMES[name],
                "sources, mean": f"{statistics.fmean(one[SOURCES][0] for one in moving):+.1f} %",
                "percentiles, mean magnitude": f"{statistics.fmean(map(self.off, runs)):.1f} %",
                "bottlenecks, mean": f"{statistics.fmean(one[LINKS][0] for one in moving):+.1f} %",
                "worst link, by seed": f"{100 * min(over):+.0f} to {100 * max(over):+.0f} %",
                "sources at the end": f"{statistics.fmean(one[SOURCES][0] for one in last):+.2f} %",
                "longest wait": f"{longest:.1f} ms",
                "events": f"{mean(runs, 'events') / 1e6:.1f} M",
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
    measure_span = (0.3, 0.7)

    def seeds(self, quick: bool) -> Sequence[int]:
        """Two that were run before the claims were registered, and eight that were not."""
        return (1,) if quick else (1, 2, *range(11, 19))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        def sources(name: str, column: int, begin: float) -> list[list[float]]:
            """A column of the errors at sources, of each run."""
            rows = (self.series([run], begin, 2.0) for run in data[name])
            return [[one[SOURCES][column] for one in seed] for seed in rows]

        def mean(name: str, column: int) -> list[float]:
            return list(map(statistics.fmean, sources(name, column, 1.5)))

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
            "loops-rest": {
                NAMES[name]: self.measure_rest(data[name], 1.5, 2.0) for name in ("xcp", "rcp")
            },
            "rcp-errors": list(map(max, sources("rcp", 2, 0.3))),
            "piqi-rcp-errors": list(map(max, sources("piqi-rcp", 2, 0.3))),
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
    measure_span = draw_span = (0.2, 0.8)
    draw_limits = ((-100, 150), (-100, 50))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        bfyz = self.measure_used(data["bfyz"])
        return super().measure(data, quick) | {
            f"{name}-conservative": gaps(self.measure_used(data[name]), bfyz)
            for name in SIMULATED.values()
        }


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
    measure_span, draw_span = (9.2, 10.0), (9, 10.6)
    draw_limits = ((-20, 10), (-40, 10))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for id, value in (("bfyz-higher", self.overshoot), ("bfyz-high", self.measure_high)):
            bfyz, paper = (
                [value(run, self.end) for run in data[name]] for name in ("bfyz", "slbn-paper")
            )
            found[id] = gaps(bfyz, paper)
        return super().measure(data, quick) | found


# --- completion times and queues with data: experiment 1b -----------------------------------------


class Experiment1b(Published):
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
        "The figure has queues in packets, as the paper's, claims also as the longest wait: 3 % of"
        " a link's capacity are 30 ms. The size classes of figure 5 are ours. XCP, which is not in"
        " the paper, is left out.",
        "Completion times are restricted means: a session that is not complete after 9.5 s, for as"
        " long as each is observed, counts as 9.5 s. Otherwise an algorithm that never serves its"
        " largest sessions would seem fast.",
    )
    experiment = "1b"
    algorithms = tuple(name for name in NAMES if name != "xcp")
    quick_percent = 20
    ends: ClassVar = {True: 3000, False: 10_000}
    joins = 500  # within these [ms], so all are observed for the rest
    ENOUGH = 0.95  # of a class's sessions, for a mean of those that are complete
    classes = (225, 250, 275, 300, 350, 400, 500, 600, 1_000_000)  # packets

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

    def wait(self, run: Numbers) -> float:
        """The longest wait [ms]."""
        return max(float(one[1]) for one in run["queues"])

    def took(self, run: Numbers) -> float:
        """The restricted mean of completion times [s]."""
        if "restricted" in run:
            return float(run["restricted"])
        # Runs that were stored before lack it, but for sessions complete after the horizon.
        missing = (1 - run["complete"]) * (self.ends[False] - self.joins) / 1000
        return float(run["complete"] * (run["mean"] or 0) + missing)

    @staticmethod
    def measure_bound(mega: int) -> float:
        """Our reading of the bound for a link of MEGA Mbit/s: 3 % of a second, in packets."""
        return 0.03 * mega * 1e6 / (8 * 2000)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Queues [ms] and [packets]; restricted mean times, divided by those of a form; of SLBN as
        published, the shortest and the longest mean time of a size class [s].
        """
        longest = {
            name: [float(max(one[2] for one in run["queues"])) for run in runs]
            for name, runs in data.items()
        }
        rest = (longest[name] for name in (SIMULATED[PAPER], "bfyz", "erica", "rcp"))
        others = [max(seed) for seed in zip(*rest, strict=False)]
        wait = {name: list(map(self.wait, runs)) for name, runs in data.items()}
        took = {name: list(map(self.took, runs)) for name, runs in data.items()}
        found: dict[str, Measured] = {
            "queues": {NAMES[name]: wait[name] for name in ("erica", "rcp")},
            "stand-ins-queues": {NAMES[name]: wait[name] for name in STAND_INS},
            "cobb-packets": longest["cobb"],
            "stress": {NAMES[name]: ratios(longest[name], others) for name in ("cobb", "piqi-rcp")},
            "slbn-paper-axis": self.measure_ends(data[SIMULATED[PAPER]]),
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

    @staticmethod
    def measure_ends(runs: Sequence[Numbers]) -> dict[str, list[float]]:
        """The shortest and the longest mean completion time of a size class, by seed [s]."""
        means = [[mean for _, mean in run["sizes"] if mean is not None] for run in runs]
        return {"shortest": list(map(min, means)), "longest": list(map(max, means))}

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 8)
        times, queues = figure.subplots(2, 1)
        drawn: list[float] = []
        names = [f"{a}-{b - 1}" for a, b in itertools.pairwise(self.classes)]
        names[-1] = f"from {self.classes[-2]}"
        for name, runs in data.items():
            for n, run in enumerate(runs):
                label = NAMES[name] if not n else None
                look = {"color": COLOURS[name], "lw": 1.3, "alpha": 0.35 if n else 1.0}
                means = [mean for _, mean in run["sizes"]]
                x = [at for at, mean in enumerate(means) if mean is not None]
                drawn += [means[at] for at in x]
                times.plot(x, [means[at] for at in x], "-", label=label, **look)
                # All algorithms have the same sessions: as many as the one that completed most.
                same = [every[n]["sizes"] for every in data.values() if n < len(every)]
                most = [max(sizes[at][0] for sizes in same) for at in range(len(names))]
                few = [at for at in x if run["sizes"][at][0] < self.ENOUGH * most[at]]
                times.plot(few, [means[at] for at in few], "x", ms=5, **look)
                lengths = [(when, max(length, 1)) for when, _, length in run["queues"]]
                queues.plot(*zip(*lengths, strict=True), label=label, **look)
        times.set_xticks(range(len(names)), names)
        # The paper's axis has 1.5 to 5 s; small sessions are complete earlier here.
        draw_cut(times, (1, 5), drawn, drawn, "{:.1f} s")
        times.axhline(1.5, color="black", lw=0.8, ls=":")
        times.set(xlabel="packets of 2000 bytes to send", ylabel="seconds to completion, mean")
        for mega, label in ((100, "100 Mbit/s"), (1000, "1 Gbit/s"), (5000, "5 Gbit/s")):
            bound = self.measure_bound(mega)
            queues.axhline(bound, color="black", lw=0.8, ls=":")
            plots.note(
                queues, label, (self.ends[False] / 1000, bound), (0, 2), ha="right", fontsize=7
            )
        queues.set(yscale="log", xlabel="seconds", ylabel="longest queue, packets (or 1)")
        title = (
            "Paler: another seed. Crosses: of the complete sessions only, less than 95 % of all."
        )
        title += " Dotted: the paper's axis begins"
        times.set_title(title, fontsize=9, loc="left")
        title = "Dotted: 3 % of what a link of this rate sends in a second, packets of 2000 bytes"
        queues.set_title(title, fontsize=9, loc="left")
        for axis in (times, queues):
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            queues = [one for run in runs for one in run["queues"]]
            first, second, third = (
                max((length for when, _, length in queues if n < when <= n + 1), default=0)
                for n in range(3)
            )
            took = statistics.fmean(map(self.took, runs))
            yield {
                "": NAMES[name],
                "time to completion, restricted mean": f"{took:.2f} s",
                "complete": f"{100 * mean(runs, 'complete'):.1f} %",
                "longest wait": f"{max(map(self.wait, runs)):.1f} ms",
                "longest queue, packets: second 1": f"{first}",
                "second 2": f"{second}",
                "second 3": f"{third}",
            }


# --- recovery from loss of control packets, failed sessions and a cut link ------------------------


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

    def after(self, run: Numbers, begin: float, end: float = float("inf")) -> float:
        """The time after BEGIN until at most 1 % are off; infinite if past END [s]."""
        rows = [one for one in run["series"] if begin < one[0] < end]
        late = [one[0] for one in rows if one[1] > 1]
        if late and late[-1] == rows[-1][0]:
            return float("inf")
        return float(late[-1] - begin) if late else 0.0

    def lines(self, axis: Any, runs: Sequence[Numbers], colour: str, label: str) -> None:
        for n, run in enumerate(runs):
            rows = run["series"]
            x, y = [one[0] for one in rows], [one[1] for one in rows]
            axis.plot(x, y, color=colour, lw=1.2, label=label if not n else None)

    def draw_panels(self, axes: Any, panels: Mapping[str, Mapping[str, Sequence[Numbers]]]) -> None:
        """PANELS: by their titles, the runs of each label."""
        for axis, (title, cases) in zip(axes, panels.items(), strict=True):
            for (label, runs), colour in zip(cases.items(), plots.COLOURS, strict=False):
                self.lines(axis, runs, colour, label)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set(ylim=(0, 100), ylabel="sources off by > 1 % (%)")
        axes[0].legend(fontsize=8)
        axes[-1].set_xlabel("seconds")


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
        found = []
        for loss in self.losses:
            for name, (_, algorithm, more) in self.variants.items():
                options = ("--loss", loss, *more)
                what = Simulated(
                    "1a", algorithm, seed, 100, 100, 1000 * self.until, "", count, options
                )
                found.append(Case(f"{name}-{loss}", what))
        return found

    def at_rest(self, runs: Sequence[Numbers]) -> float:
        """The mean share of sources that are off in the last two seconds [%]."""
        return statistics.fmean(self.off_shares(runs, self.until - 2, self.until))

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Sources that are off at the end, by the loss [%]."""

        def rest(name: str, losses: Sequence[str]) -> dict[str, list[float]]:
            return {
                f"{loss} % lost": [self.at_rest([run]) for run in data[f"{name}-{loss}"]]
                for loss in losses
            }

        return {
            "full": rest("full", self.losses[:2]),
            "full-5": [self.at_rest([run]) for run in data["full-5"]],
            "paper": rest("paper", self.losses),
            "ledgers": rest("ledgers", self.losses[1:]),
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        panels = {
            f"{loss} % lost on each link": {
                label: data[f"{name}-{loss}"] for name, (label, *_) in self.variants.items()
            }
            for loss in self.losses
        }
        self.draw_panels(figure.subplots(len(panels), 1, sharex=True), panels)

    def rows(self, data: Data) -> Iterator[Row]:
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
        "leave": "a link is cut: sessions leave, and join on another path",
        "silent": "a link is cut: packets are rerouted without a Leave",
    }

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count = self.quick_count if quick else self.count
        dead = [word for part, when in self.deaths for word in ("--dead", f"{part}@{when}s")]
        cut = ["--cut", f"busiest@{self.cut}s"]
        trouble = {"dead": (15, dead), "leave": (9, cut), "silent": (9, [*cut, "--silent"])}
        return [
            Case(
                f"{what}-{name}",
                Simulated("1a", name, seed, 100, 100, 1000 * until, "", count, tuple(options)),
            )
            for what, (until, options) in trouble.items()
            for name in self.algorithms
        ]

    def healed(self, run: Numbers, what: str) -> float:
        """The longest time to recover [s]."""
        if what != "dead":
            return self.after(run, self.cut)
        return max(self.after(run, when, when + 4) for _, when in self.deaths)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Times until rates are exact [s]; for the paper's form, sources off at the end [%]."""
        found: dict[str, Measured] = {
            what: [self.healed(run, what) for run in data[f"{what}-slbn"]] for what in self.titles
        }
        found["paper"] = {
            title: [run["series"][-1][1] for run in data[f"{what}-slbn-paper"]]
            for what, title in self.titles.items()
        }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 7)
        axes = figure.subplots(len(self.titles), 1)
        for axis, what in zip(axes, self.titles, strict=True):
            for when in [when for _, when in self.deaths] if what == "dead" else [self.cut]:
                axis.axvline(when, color="black", lw=0.8, ls=":")
        panels = {
            title: {label: data[f"{what}-{name}"] for name, label in self.algorithms.items()}
            for what, title in self.titles.items()
        }
        self.draw_panels(axes, panels)

    def table(self, data: Data) -> Table:
        rows = [
            (
                title,
                label,
                f"{max(self.off_shares(data[f'{what}-{name}'], self.cut, 15)):.1f} %",
                took(max(self.healed(run, what) for run in data[f"{what}-{name}"])),
            )
            for what, title in self.titles.items()
            for name, label in self.algorithms.items()
        ]
        return Table(("", "", "sources off at most", "all but 1 % exact"), tuple(rows))


# --- settling time of SLBN, s-PERC and BFYZ on short and long links -------------------------------


class Settling(Study):
    """Settling times of SLBN, s-PERC and BFYZ."""

    name = "slbn-sperc"
    title = "SLBN with commit (ours), s-PERC and BFYZ on links of microseconds, and of milliseconds"
    source = OURS
    setting = (
        "16 leaves and 8 spines with 100 Gbit/s between them, 64 hosts with 10 Gbit/s at each leaf;"
        " link delays of 1 to 2 us, or of 5 to 10 ms. 512 sessions join within 20 us, or 100 ms;"
        " once rates have settled 51 leave and 51 join, as quickly."
    )
    assumptions = (
        *ASSUMPTIONS[1:3],
        "s-PERC needs a round in which each session sends at least one control packet: 2 ms where"
        " these may use 1 % of a rate, 50 us without that limit, 250 ms on long links."
        " Pauses between cycles are 10 us, 5 us and 5 ms on average.",
        "Settled: all sources are within 1 % of their max-min rates.",
    )
    algorithms = ("slbn", "sperc", "bfyz")
    #: Network, share of control packets [%], pause, s-PERC's round, sampling interval [ms].
    places: ClassVar[dict[str, tuple[str, str, str, str, float]]] = {
        "lan": ("lan", "1", "10us", "2ms", 0.01),
        "any": ("lan", "0", "5us", "50us", 0.01),
        "wan": ("wan", "1", "5ms", "250ms", 20),
    }
    titles: ClassVar[dict[str, str]] = {
        "lan": "microseconds, control at most 1 %",
        "any": "microseconds, control unlimited",
        "wan": "milliseconds",
    }
    quick_count = 128
    count_of_seeds = SEEDS

    def cases(self, quick: bool, seed: int) -> list[Case]:
        found = []
        for place, (network, control, pause, spell, every) in self.places.items():
            for name in self.algorithms:
                words = ["--control", control, "--pause", pause]
                words += ["--round", spell] if name == "sperc" else []
                count = self.quick_count if quick else 0
                what = Simulated(network, name, seed, 100, every, count=count, options=tuple(words))
                found.append(Case(f"{place}-{name}", what))
        return found

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        # The ends of joins and of churn.
        joined, churned = (0.1, 5.1) if case.name.startswith("wan") else (20e-6, 6.02e-3)
        trip = outcome["mean_round_trip"]
        phases = []
        for begin, end in ((joined, churned - joined), (churned, float("inf"))):
            # Until the next phase begins.
            rows = [one for one in outcome["series"] if begin < one["time"] < end]
            late = [one["time"] for one in rows if one["off_by_1_percent"]]
            settled = round((late[-1] - begin if late else 0) / trip, 2)
            phases.append(
                {
                    "settled": None if rows[-1]["off_by_1_percent"] else settled,
                    "over": round(max(one["links"]["mean"] for one in rows), 3),
                    "most": round(max(one["links"]["most"] for one in rows), 3),
                    "series": [
                        [
                            round((one["time"] - begin) / trip, 2),
                            round(100 * one["off_by_1_percent"] / one["sessions"], 2),
                        ]
                        for one in rows[:: 1 + len(rows) // 2000]
                    ],
                }
            )
        control, data = outcome["control_bytes"], outcome["data_bytes"]
        return {"phases": phases, "control": control / (control + data), "trip": trip}

    def settled(self, run: Numbers, phase: int) -> float:
        """The settling time, in round trips."""
        found = run["phases"][phase]["settled"]
        return float("inf") if found is None else float(found)

    def over(self, runs: Sequence[Numbers], key: str = "over") -> list[float]:
        """The overshoot of bottlenecks during churn [%]."""
        return [float(run["phases"][1][key]) for run in runs]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Phases in which rates do not settle; settling times [RTT]; control, overshoot [%]."""

        def slow(place: str, name: str) -> list[float]:
            return [max(self.settled(run, n) for n in (0, 1)) for run in data[f"{place}-{name}"]]

        def by_place(other: str, compare: Any) -> dict[str, list[float]]:
            return {
                title: compare(slow(place, "slbn"), slow(place, other))
                for place, title in self.titles.items()
            }

        restless = {
            NAMES[name]: [
                float(sum(phase["settled"] is None for run in seed for phase in run["phases"]))
                for seed in zip(*(data[f"{place}-{name}"] for place in self.places), strict=True)
            ]
            for name in self.algorithms
        }
        return {
            "settle": restless,
            "sperc": by_place("sperc", gaps),
            "bfyz": by_place("bfyz", ratios),
            "control": {
                NAMES[name]: percent([run["control"] for run in data[f"lan-{name}"]])
                for name in self.algorithms
            },
            "overshoot": {
                title: self.over(data[f"{place}-slbn"]) for place, title in self.titles.items()
            },
        }

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
            line[0].set_ylabel("sources off by > 1 % (%)")
        axes[0][0].legend(fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("mean round trips since the last join or leave")

    def rows(self, data: Data) -> Iterator[Row]:
        for place, title in self.titles.items():
            for name in self.algorithms:
                runs = data[f"{place}-{name}"]
                joins, churn = (max(self.settled(run, n) for run in runs) for n in (0, 1))
                yield {
                    "links": title,
                    "": NAMES[name],
                    "round trips to settle after joins": f"{joins:.1f}",
                    "after churn": f"{churn:.1f}",
                    "overshoot during churn, mean": f"{max(self.over(runs)):+.2f} %",
                    "of one link": f"{max(self.over(runs, 'most')):+.0f} %",
                    "control": f"{100 * max(run['control'] for run in runs):.4f} %",
                }


# --- a thousand to a million sessions -------------------------------------------------------------


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

    def settled(self, runs: Sequence[Numbers]) -> list[float]:
        """The times after the last join until all but 1 % have settled [s]."""
        return [self.after(run, self.joined) for run in runs]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Percentiles at the end [%]; settling times [s]."""
        counts = sorted(map(int, data))
        return {
            "converges": {
                f"{count:,}": [max(map(abs, run["series"][-1][2:])) for run in data[str(count)]]
                for count in counts
            },
            "settles": {f"{count:,}": self.settled(data[str(count)]) for count in counts},
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
        every = [data[str(count)] for count in counts]
        pairs = zip(every, counts, strict=True)
        events = [mean(own, "events") / count / self.until for own, count in pairs]
        cost.plot(counts, events, "o-", label="events per second and session")
        settled = [1000 * max(self.settled(own)) for own in every]
        cost.plot(counts, settled, "s--", label="ms until all but 1 % have settled")
        cost.set(xscale="log", ylim=(0, None), xlabel="sessions")
        cost.legend(fontsize=8)

    def rows(self, data: Data) -> Iterator[Row]:
        for count, runs in data.items():
            when = [one for run in runs for one in run["series"] if one[0] == self.joined]
            last = [run["series"][-1] for run in runs]
            (low, high), (lowest, highest) = (
                (min(one[2] for one in rows), max(one[3] for one in rows)) for rows in (when, last)
            )
            yield {
                "sessions": f"{int(count):,}",
                "events": f"{mean(runs, 'events') / 1e6:.1f} M",
                "percentiles when the last joins": f"{low:+.1f} to {high:+.1f} %",
                "all but 1 % settled": took(max(self.settled(runs))),
                "percentiles at the end": f"{lowest:+.3f} to {highest:+.3f} %",
            }


# --- 1a by parameters that SLBN's paper does not give: RCP's first rate, ERICA's delay ------------

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
            off, wait = (
                {value: self.values(data, f"{name}-{value}", key) for value in values}
                for key in ("off", "wait")
            )
            slbn = self.values(data, SLBN, "off")
            found |= {
                f"{name}-order": {f"{v} {unit}": ratios(off[v], slbn) for v in values},
                f"{name}-matters": ratios(off[values[-1]], off[self.published[name]]),
                f"{name}-wait": {f"{v} {unit}": wait[v] for v in values},
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
                slbn = statistics.fmean(self.values(data, SLBN, key))
                axis.axhline(slbn, color="grey", lw=1, label=NAMES[SLBN])
                axis.axvline(float(self.published[name]), color="black", lw=0.8, ls=":")
                axis.set(xscale="log", yscale="log")
                axis.set_xticks(x, values)
                axis.minorticks_off()
            axes[0, column].set_title("Dotted: its authors' value", fontsize=9, loc="left")
            axes[0, column].legend(fontsize=8)
            what = "first rate" if name == "rcp" else "target delay"
            axes[1, column].set_xlabel(f"{NAMES[name]}: {what}, {unit}")
        axes[0, 0].set_ylabel("percentiles of errors,\nmean magnitude, %")
        axes[1, 0].set_ylabel("longest wait, ms")

    def rows(self, data: Data) -> Iterator[Row]:
        for case, runs in data.items():
            name, _, value = case.rpartition("-") if case != SLBN else (SLBN, "", "")
            unit = self.parameters[name][1] if value else ""
            yield {
                "": NAMES[name],
                "parameter": f"{value} {unit}".strip(),
                "percentiles, mean magnitude": f"{mean(runs, 'off'):.1f} %",
                "90th percentile at most": f"{mean(runs, 'peak'):.0f} %",
                "longest wait": f"{mean(runs, 'wait'):.1f} ms",
            }


# --- 1a with a twentieth of its sessions: data as packets, and as a fluid -------------------------


class Packets(Errors):
    """Whether a fluid stands for packets of 2000 bytes."""

    name = "slbn-packets"
    title = "A twentieth of experiment 1a: data as packets of 2000 bytes, and as a fluid"
    source = OURS
    setting = (
        "Experiment 1a with 2,500 sessions instead of 50,000, 500 of which leave and 500 join"
        " later: with more, packets take hours. Links, delays and data packets are the paper's."
    )
    assumptions = ASSUMPTIONS[:2]
    algorithms = (SLBN, "erica", "rcp")
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

    def wait(self, run: Numbers) -> float:
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
            axis.set_xlabel("seconds (the first seed)")

    def table(self, data: Data) -> Table:
        rows = [
            (
                NAMES[name],
                *(
                    f"{statistics.fmean(values):.2f} {unit}"
                    for measure, unit in ((self.off, "%"), (self.wait, "ms"))
                    for values in self.by_form(data, name, measure)
                ),
            )
            for name in self.algorithms
        ]
        columns = (
            "", "percentiles, mean magnitude: fluid", "packets", "longest wait: fluid", "packets",
        )  # fmt: skip
        return Table(columns, tuple(rows))


STUDIES: tuple[Study, ...] = (
    Experiment1a(),
    Experiment1b(),
    Experiment2a(),
    Experiment2b(),
    Loss(),
    Failures(),
    Settling(),
    Scale(),
    Sensitivity(),
    Packets(),
)
