# SPDX-License-Identifier: GPL-2.0
"""SLBN on the kernel: Mozo, López-Presa, Fernández Anta, NCA 2012, figures 3 to 10.

The paper's figures are from a discrete-event simulator with 50,000 to 180,000 sessions on 1,100 to
11,000 routers.  Here Linux computes the rates: sch_slbn on each link, slbnd on each router, and
hundreds of sessions on the topologies of real backbones.  The pattern of joins and leaves, the
definition of errors and the plots are the paper's.

The other studies check what the paper says in words: that convergence takes as many cycles as there
are levels of bottlenecks, whatever the duration of a cycle; what happens without its assumptions,
that no control packet is lost and each source leaves properly; and how plain TCP shares the same
network among the same flows.

All but one of them are there twice: with the paper's form of SLBN (sch_slbn's `commit off headroom
0 epoch 0 memory 0 control 100%`), and with ours, whose claims are not the paper's (forms.py).
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import (
    COMMIT,
    FORMS,
    LABELS,
    LINKS,
    PAPER,
    SUFFIXES,
    WINDOWS,
)
from fairlab.figures.studies.spread import by_seed, mean, mean_of, percent, ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study
from fairlab.results import plots
from fairlab.results.statistics import percentile
from fairlab.slbn import abilene, geant, sessions_plan, sessions_tcp
from fairlab.slbn.sessions import Plan
from fairlab.slbn.sessions_analysis import Comparison, summary
from fairlab.slbn.sessions_plan import Churn, Loss
from fairlab.slbn.sessions_tcp import TcpOutcome, TcpPlan

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN, NCA 2012"
GBIT = 1_000_000_000
STEP = 0.05
MEAN, LOW, HIGH, LEAST, MOST = range(5)

RATES, QUEUES = "rates", "queues"
COMMON = (
    "Sources are routers, destinations hosts behind routers, both drawn at random; shortest paths"
    " by delay; delays are those of light in fibre over 1.5 times the distance.",
    "A random pause of 2.5 to 7.5 ms between two cycles of a session, and the demand as a link of"
    " its own (docs/protocol.md): the paper has neither, but allows for a pause.",
)


class OneForm(Study):
    """A study that runs one form of SLBN, which its claims are about."""

    figure: str  # the name, with the paper's form
    subject: str  # the title, but for the form

    def __init__(self, form: str) -> None:
        self.form = form
        self.label = LABELS[form]
        self.name = self.figure + SUFFIXES[form]
        self.title = f"{self.label}: {self.subject}"


def longest_ms(nodes: Sequence[str], round_trip_us: Callable[[str, str], float]) -> float:
    """The longest RTT between two NODES [ms]."""
    return max(itertools.starmap(round_trip_us, itertools.permutations(nodes, 2))) / 1000


def errors_of(comparison: Comparison, since: float, end: float) -> Numbers:
    """Errors until END, those that are left then, and when rates were exact after SINCE [s]."""
    times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
    seen = [comparison.errors(when) for when in times]
    settled = comparison.settled(since, end)
    return {
        "times": times,
        "sources": [summary(errors.sessions) for errors in seen],
        "links": [summary(errors.links) for errors in seen],
        "waiting": [errors.waiting for errors in seen],
        "settled": None if settled is None else round(settled, 4),
        "bits_off": round(comparison.bits_off, 2),
        "part_off": comparison.part_off,
        "bits_over": comparison.bits_over,
    }


def soon(runs: Sequence[Numbers]) -> list[float]:
    """The times until rates were exact [s]."""
    return [math.inf if run["settled"] is None else run["settled"] for run in runs]


def per_session(runs: Sequence[Numbers], key: str) -> list[float]:
    """The errors KEY at the end, for each session [bit/s]."""
    return [run[key] / run["sessions"] for run in runs]


def draw_errors(axis: Any, runs: Sequence[Numbers], key: str, label: str, colour: str) -> None:
    """The mean with bars from the 10th to the 90th percentile; a line for each run."""
    for n, run in enumerate(runs):
        points = [(t, one) for t, one in zip(run["times"], run[key], strict=True) if one]
        means = [(t, one[MEAN]) for t, one in points]
        # The mean may lie outside of the percentiles.
        low = [max(0, one[MEAN] - one[LOW]) for _, one in points]
        high = [max(0, one[HIGH] - one[MEAN]) for _, one in points]
        look: dict[str, Any] = (
            {"alpha": 0.5} if n else {"alpha": 1, "yerr": [low, high], "label": label}
        )
        look |= {"color": colour, "linewidth": 1.2, "elinewidth": 0.7, "capsize": 2}
        axis.errorbar(*zip(*means, strict=True), **look)
    axis.axhline(0, color="grey", linewidth=0.6)
    axis.grid(alpha=0.25)


def drawn(runs: Sequence[Numbers], key: str, until: float = math.inf) -> Iterator[float]:
    """What draw_errors() draws until then [s]."""
    for n, run in enumerate(runs):
        for when, one in zip(run["times"], run[key], strict=True):
            if one and when <= until:
                yield from one[: MEAN + 1 if n else HIGH + 1]


def within(run: Numbers, key: str, begin: float, end: float) -> list[list[float]]:
    """The summaries of KEY from BEGIN to END [s]."""
    pairs = zip(run["times"], run[key], strict=True)
    return [one for when, one in pairs if begin <= when <= end and one]


def milliseconds(seconds: float | None) -> str:
    return "not at all" if seconds is None else f"{1000 * seconds:.0f} ms"


# --- a burst of joins, and churn, on Abilene and GÉANT --------------------------------------------


class Backbone(OneForm):
    """Sessions that join in a burst, and churn later."""

    #: at most what is drawn [s]
    until: float

    def reduce(self, case: Case, outcome: Comparison) -> Numbers:
        end, mesh = outcome.plan.seconds, outcome.plan.mesh
        queues, peaks = outcome.queue_ms(), outcome.control_peaks()
        rates = [rate for rate, _ in outcome.final_rates.values()]
        return errors_of(outcome, outcome.last_change, end) | {
            "sessions": len(outcome.last),
            "last_change": round(outcome.last_change, 4),
            "longest_ms": round(longest_ms(mesh.nodes, mesh.round_trip_us), 2),
            "overshoot": round(outcome.overshoot, 6),
            "control": round(outcome.control_share(end - 1, end), 5),
            "peaks": [[round(when, 3), round(part, 5)] for when, part in peaks],
            "link_control": round(max(part for _, part in peaks), 5),
            "queue": [[round(when, 3), round(longest, 3)] for when, longest in queues],
            "rate": round(statistics.fmean(rates)),
            "sent": outcome.sent,
        }

    def measure_rates(
        self, runs: Sequence[Numbers], begin: float, end: float
    ) -> dict[str, Measured]:
        """Errors between BEGIN and END, and at rest; control packets [%]."""
        sources = [within(run, "sources", begin, end) for run in runs]
        links = [within(run, "links", begin, end) for run in runs]
        found: dict[str, Measured] = {
            "mean": [max(abs(one[MEAN]) for one in seed) for seed in sources],
            "percentiles": [
                max(abs(v) for one in seed for v in one[LOW : HIGH + 1]) for seed in sources
            ],
            "overshoot": [max(one[MEAN] for one in seed) for seed in links],
            "rest": per_session(runs, "bits_off"),
            "rest-links": per_session(runs, "bits_over"),
            "soon": soon(runs),
            "control": [100 * run["control"] for run in runs],
            "control-link": [100 * run["link_control"] for run in runs],
        }
        if self.form == COMMIT:
            found["never-above"] = [100 * run["overshoot"] for run in runs]
        return found

    def draw_both(self, figure: Any, runs: Sequence[Numbers]) -> Any:
        """Errors at sources and bottlenecks over time; the axis of a third panel."""
        figure.set_size_inches(8, 1.2 + 2.1 * 3)
        figure.suptitle(self.title, fontsize=10)
        *above, below = figure.subplots(3, 1, sharex=True)
        kinds = (("sources", "sources"), ("links", "bottlenecks"))
        for axis, (key, words), colour in zip(above, kinds, plots.COLOURS, strict=False):
            draw_errors(axis, runs, key, "mean, 10th and 90th percentile", colour)
            axis.set_ylabel(f"error at {words}, %")
            until = min(self.until, *(run["times"][-1] for run in runs))
            axis.set_xlim(0, until)
            plots.limit(axis, -60, 60, drawn(runs, key, until), " %")
            axis.legend(loc="upper right", fontsize=8)
        below.set_xlabel("seconds")
        return below

    def draw_lines(self, axis: Any, lines: Sequence[Any], place: str, what: str) -> None:
        """WHAT over time, a line for each run; the legend at PLACE."""
        for n, line in enumerate(lines):
            look = {"alpha": 0.5 if n else 1, "label": None if n else what}
            axis.plot(*zip(*line, strict=True), color=plots.COLOURS[2], linewidth=1.1, **look)
        axis.grid(alpha=0.25)
        axis.legend(loc=place, fontsize=8)

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            for seed, run in enumerate(runs, 1):
                yield {
                    "case": name,
                    "run": str(seed),
                    "sessions": str(run["sessions"]),
                    "mean rate": f"{run['rate'] / 1e6:.2f} Mbit/s",
                    "exact after": milliseconds(run["settled"]),
                    "off at rest": f"{run['bits_off']:.1f} bit/s",
                    "control": f"{100 * run['control']:.2f} %",
                    "longest queue": f"{max(longest for _, longest in run['queue']):.1f} ms",
                }


class Abilene(Backbone):
    """Experiment 1a, and the queues of 1b."""

    figure = "slbn-abilene"
    subject = "a burst of joins, churn and quiet on Abilene"
    source = f"{SOURCE}, experiment 1a (figures 3 and 4) and its queues (figure 6)"
    setting = (
        "1,100 routers (transit-stub), 50,000 sessions join in 500 ms, then 10,000 leave and 10,000"
        " join in 200 ms; data packets of 2,000 bytes follow the rates; queues without limit."
    )
    assumptions = (
        "Abilene, 11 routers: 300 sessions join in 500 ms, then 60 leave and 60 join in 200 ms; all"
        " links 100 Mbit/s, a hundredth of Abilene's. A host's own link has 100 Mbit/s.",
        *COMMON,
        "Queues are of a second case, with links of 20 Mbit/s, 100 sessions, then 20 and 20, whose"
        " data packets of 2,000 bytes follow their rates less 1 % for control. There links with"
        " commit assign 95 % of their capacity: ProbeAcks have no share of their own. Sampled every"
        " 50 ms.",
        "At first no rate can be right: those of the first sessions are a round trip old when the"
        " others join. Claims cover the time from 250 ms on.",
    )
    until = 2.0

    def cases(self, quick: bool, seed: int) -> list[Case]:
        def plan(rate: int, count: int, packet: int, seconds: float) -> Plan:
            mesh = abilene.backbone(rate)
            churn = Churn(0.5, 0.7, count // 5, count // 5)
            found = sessions_plan.burst(mesh, count, 0.5, [churn], rate, seed)
            headroom = abilene.HEADROOM if packet and self.form == COMMIT else 0
            more: dict[str, Any] = {"headroom": headroom, "hops": 12, "packet": packet}
            return Plan(mesh, found, seconds, seed=seed, **more, **LINKS[self.form])

        many, fewer = (80, 40) if quick else (300, 100)
        slow = 10_000_000 if quick else 20_000_000
        return [
            Case(RATES, plan(100_000_000, many, 0, 2.0 if quick else 3.0)),
            Case(QUEUES, plan(slow, fewer, 2000, 1.5 if quick else 3.0)),
        ]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        # From when the first sessions have their second rate.
        return self.measure_rates(data[RATES], 0.25, self.until) | {
            "queues": [max(longest for _, longest in run["queue"]) for run in data[QUEUES]],
            "rest-data": per_session(data[QUEUES], "bits_off"),
        }

    def draw(self, figure: Any, data: Data) -> None:
        axis = self.draw_both(figure, data[RATES])
        queues = [run["queue"] for run in data[QUEUES]]
        self.draw_lines(axis, queues, "upper right", "waiting time in the longest data queue")
        axis.set_ylabel("longest queue, ms")


class Research(Backbone):
    """Experiment 2b, whose first phase has the pattern of 2a."""

    figure = "slbn-research"
    subject = "a burst of joins, and churn later, on GÉANT (40 routers)"
    source = f"{SOURCE}, experiment 2b (figures 9 and 10; its first second is like 2a's)"
    setting = (
        "11,000 routers (transit-stub), 100,000 sessions join in the first second; after 9 s,"
        " 50,000 join and 50,000 leave within a second."
    )
    assumptions = (
        "GÉANT as of March 2012 (The Internet Topology Zoo), 40 routers and 61 links at its own"
        " rates, 155 Mbit/s to 10 Gbit/s; links without a label: 10 Gbit/s.",
        "300 sessions join in the first second; from 4 s to 5 s 150 join and 150 leave (at 9 s in"
        " the paper: convergence had been reached by then, as it is here).",
        *COMMON,
        "Without data, which would take hours at gigabits; slbn-abilene has queues.",
    )
    until = 6.5
    churn: ClassVar = {True: 1.5, False: 4.0}  # quick: when it begins [s]

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = geant.mesh()
        count, begin = 60 if quick else 300, self.churn[quick]
        churn = Churn(begin, begin + 1, count // 2, count // 2)
        found = sessions_plan.burst(mesh, count, 1.0, [churn], None, seed)
        plan = Plan(mesh, found, begin + 2.5, hops=12, seed=seed, **LINKS[self.form])
        return [Case(RATES, plan)]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        runs = data[RATES]
        # The second of churn, and half a second after it.
        begin, end = self.churn[quick], self.churn[quick] + 1.5
        found = self.measure_rates(runs, begin, end)
        # With few sessions a percentile is a single link.
        if not quick:
            links = [within(run, "links", begin, end) for run in runs]
            found["high"] = [max(one[HIGH] for one in seed) for seed in links]
        return found

    def draw(self, figure: Any, data: Data) -> None:
        axis = self.draw_both(figure, data[RATES])
        peaks = [[(when, 100 * part) for when, part in run["peaks"]] for run in data[RATES]]
        self.draw_lines(axis, peaks, "lower right", "on the link with the largest share")
        axis.set(ylabel="control packets, % of link", ylim=(0, None))


# --- convergence by levels of bottlenecks and by round-trip time ----------------------------------


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
            mesh = sessions_plan.line(levels, 1000 * ms)
            sessions = sessions_plan.levels(levels, turns, gap, ms / 4000, seed)
            seconds = round(1.5 * gap * turns, 3)
            more: dict[str, Any] = {"pause_ms": self.pause_ms, "hops": 4, "every": 0.5}
            plan = Plan(mesh, sessions, seconds, seed=seed, **more, **LINKS[self.form])
            found.append(Case(name, plan))
        return found

    def reduce(self, case: Case, outcome: Comparison) -> Numbers:
        plan = outcome.plan
        leaves = sorted({session.leave for session in plan.sessions if session.leave})
        took: list[float | None] = []
        off = 0.0
        for leave in leaves:
            joins = (one for one in outcome.asked if one[2] != 0)
            last = max(when for when, n, _ in joins if plan.sessions[n].leave == leave)
            took.append(outcome.settled(last, leave))
            exact = outcome.reference(last).rates
            off = max(
                off, *(abs(outcome.assigned_at(n, leave) - rate) for n, rate in exact.items())
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
        """Lines that converge [%]; cycles above two for each level; convergence in RTTs apart by
        RTT, and cycles more at the longest than at the shortest [%].
        """
        every = [one for run in seed.values() for one in run["cycles"]]
        means = {name: mean_of(self.cycles([run])) for name, run in seed.items()}
        by_levels = {
            run["levels"]: means[name] for name, run in seed.items() if name.startswith("levels-")
        }
        few = min(by_levels)
        own = max(run["levels"] for name, run in seed.items() if "rtt" in name)
        trips = [self.measure_trips(run) for run in seed.values() if run["levels"] == own]
        middle = statistics.fmean(trips)
        found: dict[str, float | dict[str, float]] = {
            "converges": 100 * (1 - every.count(None) / len(every)),
            "levels": max(mean - (by_levels[few] + 2 * (n - few)) for n, mean in by_levels.items()),
            "rtt-trips": 100 * max(abs(mean / middle - 1) for mean in trips),
        }
        short, long = (means.get(f"rtt-{ms}ms") for ms in (5, 160))
        if short and long:
            found["rtt-rise"] = 100 * (long / short - 1)
        return found

    @staticmethod
    def measure_trips(run: Numbers) -> float:
        """The mean time until rates are exact, without the pauses' share of a cycle [RTT]."""
        seconds = [one for one in run["seconds"] if one is not None]
        return 1000 * mean_of(seconds) / float(run["round_trip_ms"])

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 3.8)
        figure.suptitle(self.title, fontsize=10)
        left, right = figure.subplots(1, 2, sharey=True)
        own = max(run["levels"] for name, runs in data.items() if "rtt" in name for run in runs)
        by_levels = {name for name in data if name.startswith("levels-")}
        by_trip = {name for name, runs in data.items() if runs[0]["levels"] == own}
        for axis, key, wanted in ((left, "levels", by_levels), (right, "round_trip_ms", by_trip)):
            rows = sorted((data[name][0][key], self.cycles(data[name])) for name in wanted)
            for at, cycles in rows:
                axis.plot([at] * len(cycles), cycles, ".", color=plots.COLOURS[0], alpha=0.3, ms=4)
            means = [(at, statistics.fmean(cycles)) for at, cycles in rows]
            axis.plot(*zip(*means, strict=True), "o-", color=plots.COLOURS[0], label="mean")
            axis.grid(alpha=0.25)
            axis.set(ylim=(0, None), xscale="log" if axis is right else "linear")
            axis.set_xticks([at for at, _ in rows], [f"{at:g}" for at, _ in rows])
            axis.minorticks_off()
        left.set(xlabel="levels of bottlenecks", ylabel="cycles until all rates are exact")
        right.set_xlabel(f"RTT, ms ({own} levels)")
        left.legend(loc="upper left", fontsize=8)

    def rows(self, data: Data) -> Iterator[Row]:
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
                "in RTTs": f"{1000 * statistics.fmean(seconds) / runs[0]['round_trip_ms']:.2f}",
            }


# --- the same TCP flows with SLBN, drr_fq and pfifo -----------------------------------------------


class BesideTcp(OneForm):
    """The same TCP flows with and without SLBN."""

    figure = "slbn-tcp"
    subject = "the same TCP flows with it, with fair queues and with FIFOs"
    source = f"{SOURCE}, section I: in words"
    setting = (
        "In words only: TCP's closed loop is slow and unstable under churn, and loses packets;"
        " explicit rates use links fully, without loss, and share them max-min fairly. No figure"
        " compares them."
    )
    assumptions = (
        "Abilene with six access routers and hosts (fairlab backbone), all links 8 Mbit/s, queues"
        " of 64 packets; 24 TCP flows between hosts drawn at random, half under CUBIC, half under"
        " Reno; after 8 s eight of them end, after 16 s eight others begin; 24 s.",
        "With SLBN, slbnd detects the flows and paces them; hosts are unchanged. Access"
        " routers admit 15 % for packets without an assigned rate. With commit, links assign 95 %"
        " of their capacity. With windows, slbnd also limits the receive windows of TCP, as it does"
        " by default. Links have drr_fq with SLBN, and drr_fq or pfifo without.",
        "Packets above a flow's rate wait in its access router, which is not counted as a link's"
        " queue; those that its pacer drops count as lost.",
        "The reference is max-min fair sharing of the links' full rates, as goodput. Errors are of"
        " times without joins and leaves in the last 3 s.",
    )
    variants = ("slbn", "drr_fq", "pfifo")
    #: More than others have: how many flows start behind an access router at a time matters.
    count_of_seeds = 6

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.names = {"slbn": self.label, "drr_fq": "drr_fq alone", "pfifo": "pfifo alone"}

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count, rate, seconds = (12, 6_000_000, 15.0) if quick else (24, 8_000_000, 24.0)
        drawn = sessions_tcp.draw(count, seconds, ("cubic", "reno"), seed)
        form = {"paper": self.form == PAPER, "windows": self.form == WINDOWS}
        return [
            Case(
                one,
                TcpPlan(one, rate, drawn, seconds, **(form if one == "slbn" else {}), seed=seed),
            )
            for one in self.variants
        ]

    def reduce(self, case: Case, outcome: TcpOutcome) -> Numbers:
        at_rest = [error for span in outcome.rests() for error in outcome.errors(*span)]
        steps = [
            [second + 0.5, summary(outcome.errors(second, second + 1))]
            for second in range(1, round(outcome.plan.seconds))
            if not any(second <= cut < second + 1 for cut in outcome.moments)
        ]
        queues = outcome.queues()
        # Without the slow starts at the beginning.
        later = [q for when, q in zip(outcome.times, queues, strict=True) if when > 3]
        every = [one for look in later for one in look]
        longest = [max(look) for look in later]
        return {
            "at_rest": [round(error, 2) for error in at_rest],
            "steps": steps,
            "flows": len(outcome.plan.flows),
            "queue": [
                [when, round(max(look), 2)]
                for when, look in zip(outcome.times, queues, strict=True)
            ],
            "queue_mean": round(statistics.fmean(every), 3),
            "queue_longest": round(max(longest), 2),
            "queue_usual": round(statistics.fmean(longest), 2),
            "lost": outcome.lost,
            "paced": outcome.paced_drops,
            "loss": round(outcome.loss, 6),
            "maxmin": round(outcome.maxmin, 5),
            "retransmits": outcome.retransmits,
            "retransmitted": round(outcome.retransmits / outcome.segments, 6),
            "round_trip_ms": longest_ms(abilene.ACCESS, abilene.round_trip_us),
        }

    @staticmethod
    def off(runs: Sequence[Numbers]) -> float:
        """The mean magnitude of the flows' errors [%]."""
        return statistics.fmean(abs(error) for run in runs for error in run["at_rest"])

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Errors [%]; packets; the longest queue [ms]."""
        ours, _, plain = (data[variant] for variant in self.variants)
        off = {variant: [self.off([run]) for run in data[variant]] for variant in self.variants}
        return {
            "fair": {
                "least": [min(run["at_rest"]) for run in ours],
                "most": [max(run["at_rest"]) for run in ours],
            },
            "fifo": ratios(off["pfifo"], off["slbn"]),
            # Runs that were stored before lack what pacers dropped: that is unknown, not 0.
            "lossless": [run["lost"] + run["paced"] for run in ours if "paced" in run],
            "retransmits": ratios(
                [run["retransmits"] for run in ours], [run["retransmits"] for run in plain]
            ),
            "queues": [run["queue_longest"] for run in ours],
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 7.4)
        axes = figure.subplots(4, 1, sharex=True)
        for axis, variant, colour in zip(axes, self.variants, plots.COLOURS, strict=False):
            steps = (zip(*run["steps"], strict=True) for run in data[variant])
            runs = [dict(zip(("times", "errors"), one, strict=True)) for one in steps]
            draw_errors(axis, runs, "errors", self.names[variant], colour)
            axis.set_ylabel("error, %")
            plots.limit(axis, -100, 150, drawn(runs, "errors"), " %")
            axis.legend(loc="upper right", fontsize=8)
            times, longest = zip(*data[variant][0]["queue"], strict=True)
            axes[3].plot(times, longest, color=colour, linewidth=1, label=self.names[variant])
        title = "error of the goodput per second: mean, 10th and 90th percentile"
        axes[0].set_title(title, fontsize=9, loc="left")
        axes[3].set(ylabel="longest queue, ms\n(the first seed)", xlabel="seconds")
        axes[3].grid(alpha=0.25)

    def rows(self, data: Data) -> Iterator[Row]:
        # Runs that were stored before lack what pacers dropped, and what depends on it.
        more = all("loss" in run for runs in data.values() for run in runs)
        for variant, runs in data.items():
            errors = [error for run in runs for error in run["at_rest"]]
            row = {
                "": self.names[variant],
                "error, mean magnitude": f"{self.off(runs):.1f} %",
                "flows": f"{min(errors):+.0f} to {max(errors):+.0f} %",
                "queues, mean": f"{mean(runs, 'queue_mean'):.1f} ms",
                "longest": f"{max(run['queue_longest'] for run in runs):.0f} ms",
                "lost": f"{sum(run['lost'] for run in runs)}",
                "retransmitted": f"{sum(run['retransmits'] for run in runs)}",
            }
            if more:
                row |= {
                    "dropped by pacers": f"{sum(run['paced'] for run in runs)}",
                    "loss, links and pacers": f"{100 * mean(runs, 'loss'):.2f} %",
                    "retransmitted, part": f"{100 * mean(runs, 'retransmitted'):.2f} %",
                    "max-min goodput": f"{100 * mean(runs, 'maxmin'):.1f} %",
                }
            yield row


# --- loss of control packets and failure of an agent, with and without ledgers --------------------


class Healing(Study):
    """Rates after loss of control packets, and after the failure of an agent."""

    name = "slbn-healing"
    title = "Loss of control packets and failure of an agent, with and without recovery"
    source = f"{SOURCE}: its assumptions; the ledgers and the memory are this project's"
    setting = (
        "The paper assumes that control packets are not lost and that each session sends a Leave."
        " With epoch 0 and no memory, links keep only the paper's three integers."
    )
    assumptions = (
        "Abilene at 1 Gbit/s: 100 sessions join in 500 ms. Loss: each wire loses 2 % of the control"
        " packets from 2 s to 4 s, while 20 sessions leave, 20 join and 20 change their"
        " demand. Failure: one router's agent is killed at 2 s, with all its sessions.",
        "In both forms sources retransmit unanswered packets.",
        "After the failure, the max-min reference is that of the other sessions.",
        COMMON[0],
    )
    #: the router whose agent is killed: Kansas City is on many paths
    victim = "ksc"
    forms: ClassVar = {"paper": LINKS[PAPER], "healing": LINKS[COMMIT]}
    loss = (2.0, 4.0, 0.02)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = abilene.backbone(GBIT)
        count, end = (30, 7.0) if quick else (100, 10.0)
        some = count // 5
        begin, stop, part = self.loss
        churn = Churn(begin, stop, some, some, some)
        lossy = sessions_plan.burst(mesh, count, 0.5, [churn], GBIT, seed)
        deadly = sessions_plan.burst(mesh, count, 0.5, [], GBIT, seed, spared=self.victim)
        found = []
        for form, links in self.forms.items():
            more: dict[str, Any] = {"hops": 12, "seed": seed} | links
            loss = Plan(mesh, lossy, end, losses=(Loss(begin, stop, part),), **more)
            death = Plan(mesh, deadly, end - 2, deaths=((begin, self.victim),), **more)
            found += [Case(f"loss-{form}", loss), Case(f"death-{form}", death)]
        return found

    def reduce(self, case: Case, outcome: Comparison) -> Numbers:
        end = outcome.plan.seconds
        since = outcome.plan.losses[0].end if outcome.plan.losses else outcome.died[0][0]
        # Not before the last change, which may be during the loss.
        since = max(since, outcome.last_change)
        found = errors_of(outcome, since, end)
        del found["waiting"]
        return found | {
            "since": round(since, 4),
            "sessions": len(outcome.final_rates),
            "retries": sum(one[2] for one in outcome.last.values()),
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """The worst source at the end [%]; the time until rates are exact [s]."""
        found: dict[str, Measured] = {}
        for event in ("loss", "death"):
            plain, ours = data[f"{event}-paper"], data[f"{event}-healing"]
            found |= {
                f"{event}-paper": percent([run["part_off"] for run in plain]),
                f"{event}-soon": soon(ours),
                f"{event}-rest": per_session(ours, "bits_off"),
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 5.6)
        axes = figure.subplots(2, 2, sharex="col", sharey="row")
        names = {"paper": "three integers (epoch 0)", "healing": "ledgers and memory (epoch 1 s)"}
        for column, event in enumerate(("loss", "death")):
            at_links = []
            for colour, form in zip(plots.COLOURS, self.forms, strict=False):
                runs = data[f"{event}-{form}"]
                for n, run in enumerate(runs):
                    look: dict[str, Any] = {"color": colour, "alpha": 0.4 if n else 1}
                    look |= {"linewidth": 1.1, "label": None if n else names[form]}
                    sources, links = (
                        [(t, one) for t, one in zip(run["times"], run[key], strict=True) if one]
                        for key in ("sources", "links")
                    )
                    far = [(t, max(-one[LEAST], one[MOST], 1e-4)) for t, one in sources]
                    mean_of_links = [(t, one[MEAN]) for t, one in links]
                    axes[0][column].plot(*zip(*far, strict=True), **look)
                    axes[1][column].plot(*zip(*mean_of_links, strict=True), **look)
                    at_links += [mean for _, mean in mean_of_links]
            begin, stop, _ = self.loss
            for axis in (axes[0][column], axes[1][column]):
                axis.grid(alpha=0.25)
                if event == "loss":
                    axis.axvspan(begin, stop, color="grey", alpha=0.15)
                else:
                    axis.axvline(begin, color="grey", linewidth=0.8)
            axes[0][column].set_yscale("log")
            plots.limit(axes[1][column], -25, 25, at_links, " %")
            axes[1][column].set_xlabel("seconds")
        axes[0][0].set_title("2 % of control packets lost (grey)", fontsize=9, loc="left")
        axes[0][1].set_title("an agent fails (line)", fontsize=9, loc="left")
        axes[0][0].set_ylabel("error at the worst source, %\n(or 0.0001)")
        axes[1][0].set_ylabel("mean error at bottlenecks, %")
        axes[1][1].legend(loc="upper right", fontsize=8)


STUDIES: tuple[Study, ...] = (
    *(kind(form) for kind in (Abilene, Research, Levels, BesideTcp) for form in FORMS),
    BesideTcp(WINDOWS),
    Healing(),
)
