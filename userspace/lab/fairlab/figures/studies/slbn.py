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
0 epoch 0 memory 0`), and with ours, whose claims are not the paper's (forms.py).
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import COMMIT, COMMIT_LABEL, FORMS, LINKS, PAPER
from fairlab.figures.studies.spread import by_seed, mean_of, percent, ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results import plots
from fairlab.results.statistics import percentile
from fairlab.slbn import abilene, geant, sessions_plan, sessions_tcp
from fairlab.slbn.mesh import Mesh
from fairlab.slbn.sessions import Plan, Recording
from fairlab.slbn.sessions_analysis import Comparison, summary
from fairlab.slbn.sessions_plan import Churn, Loss
from fairlab.slbn.sessions_tcp import TcpOutcome, TcpPlan

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN, NCA 2012"
GBIT = 1_000_000_000
STEP = 0.05
#: Packets of the paper's experiment 1b.
PACKET = 2000
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
        self.label = COMMIT_LABEL if form == COMMIT else form
        self.name = self.figure if form == PAPER else f"{self.figure}-commit"
        self.title = f"{self.label}: {self.subject}"


def longest_ms(mesh: Mesh) -> float:
    """The longest RTT between two nodes [ms]."""
    pairs = [(a, b) for a in mesh.nodes for b in mesh.nodes if a != b]
    return max(mesh.round_trip_us(a, b) for a, b in pairs) / 1000


def numbers_of(run: Recording) -> Numbers:
    """The stored numbers of a run."""
    comparison, end = Comparison(run), run.plan.seconds
    times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
    seen = [comparison.errors(when) for when in times]
    settled = comparison.settled(comparison.last_change, end)
    queues, peaks = comparison.queue_ms(), comparison.control_peaks()
    return {
        "times": times,
        "sources": [summary(errors.sessions) for errors in seen],
        "links": [summary(errors.links) for errors in seen],
        "waiting": [errors.waiting for errors in seen],
        "sessions": len(run.last),
        "last_change": round(comparison.last_change, 4),
        "settled": None if settled is None else round(settled, 4),
        "longest_ms": round(longest_ms(run.plan.mesh), 2),
        "bits_off": round(comparison.bits_off, 2),
        "part_off": comparison.part_off,
        "bits_over": comparison.bits_over,
        "overshoot": round(comparison.overshoot, 6),
        "control": round(comparison.control_share(end - 1, end), 5),
        "peaks": [[round(when, 3), round(part, 5)] for when, part in peaks],
        "link_control": round(max(part for _, part in peaks), 5),
        "queue": [[round(when, 3), round(longest, 3)] for when, longest in queues],
        "rate": round(statistics.fmean(rate for rate, _ in comparison.final_rates.values())),
        "sent": run.sent,
    }


def panels(figure: Any, count: int) -> list[Any]:
    """COUNT panels in a column with a common time axis."""
    figure.set_size_inches(8, 1 + 2.1 * count)
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)
    found = [row[0] for row in axes]
    found[-1].set_xlabel("seconds")
    return found


def draw_errors(axis: Any, runs: Sequence[Numbers], key: str, label: str, colour: str) -> None:
    """The mean with bars from the 10th to the 90th percentile; a line for each run."""
    for n, run in enumerate(runs):
        points = [(t, one) for t, one in zip(run["times"], run[key], strict=True) if one]
        times = [t for t, _ in points]
        means = [one[MEAN] for _, one in points]
        low = [one[MEAN] - one[LOW] for _, one in points]
        high = [one[HIGH] - one[MEAN] for _, one in points]
        # The mean may lie outside of the percentiles.
        bars = [[max(0, v) for v in low], [max(0, v) for v in high]]
        axis.errorbar(
            times, means, yerr=bars if n == 0 else None, color=colour, linewidth=1.2,
            elinewidth=0.7, capsize=2, alpha=1 if n == 0 else 0.5,
            label=label if n == 0 else None,
        )  # fmt: skip
    axis.axhline(0, color="grey", linewidth=0.6)
    axis.grid(alpha=0.25)


def within(run: Numbers, key: str, begin: float, end: float) -> list[list[float]]:
    """The summaries of KEY from BEGIN to END [s]."""
    pairs = zip(run["times"], run[key], strict=True)
    return [one for when, one in pairs if begin <= when <= end and one]


def milliseconds(seconds: float | None) -> str:
    return "not at all" if seconds is None else f"{1000 * seconds:.0f} ms"


# --- a burst of joins, and churn, on Abilene and GÉANT --------------------------------------------


class Backbone(OneForm):
    """Sessions that join in a burst, and churn later."""

    #: the time that is drawn [s]
    window: tuple[float, float]

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
            "rest": [run["bits_off"] / run["sessions"] for run in runs],
            "rest-links": [run["bits_over"] / run["sessions"] for run in runs],
            "soon": [math.inf if run["settled"] is None else run["settled"] for run in runs],
            "control": [100 * run["control"] for run in runs],
            "control-link": [100 * run["link_control"] for run in runs],
        }
        if self.form == COMMIT:
            found["never-above"] = [100 * run["overshoot"] for run in runs]
        return found

    def draw_sources_and_links(self, axes: Sequence[Any], runs: Sequence[Numbers]) -> None:
        draw_errors(axes[0], runs, "sources", "mean, 10th and 90th percentile", plots.COLOURS[0])
        axes[0].set_ylabel("error at sources, %")
        draw_errors(axes[1], runs, "links", "mean, 10th and 90th percentile", plots.COLOURS[1])
        axes[1].set_ylabel("error at bottlenecks, %")
        for axis in axes[:2]:
            axis.set_xlim(*self.window)
            axis.set_ylim(-60, 60)
            axis.legend(loc="upper right", fontsize=8)

    def draw_lines(
        self, axis: Any, lines: Sequence[Sequence[Sequence[float]]], place: str, what: str
    ) -> None:
        """WHAT over time, a line for each run; the legend at PLACE."""
        for n, line in enumerate(lines):
            axis.plot(
                *zip(*line, strict=True), color=plots.COLOURS[2], linewidth=1.1,
                alpha=0.5 if n else 1, label=None if n else what,
            )  # fmt: skip
        axis.grid(alpha=0.25)
        axis.legend(loc=place, fontsize=8)

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
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
    #: when claims begin: the first sessions have their second rate [s]
    early = 0.25
    window = (0.0, 2.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        def plan(rate: int, count: int, packet: int, seconds: float) -> Plan:
            mesh = abilene.backbone(rate)
            churn = Churn(0.5, 0.7, count // 5, count // 5)
            found = sessions_plan.burst(mesh, count, 0.5, [churn], rate, seed)
            headroom = abilene.HEADROOM if packet and self.form == COMMIT else 0
            return Plan(
                mesh, found, seconds, headroom=headroom, hops=12, packet=packet, seed=seed,
                **LINKS[self.form],
            )  # fmt: skip

        many, fewer = (80, 40) if quick else (300, 100)
        slow = 10_000_000 if quick else 20_000_000
        return [
            Case(RATES, plan(100_000_000, many, 0, 2.0 if quick else 3.0)),
            Case(QUEUES, plan(slow, fewer, PACKET, 1.5 if quick else 3.0)),
        ]

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        return numbers_of(outcome)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        return self.measure_rates(data[RATES], self.early, self.window[1]) | {
            "queues": [max(longest for _, longest in run["queue"]) for run in data[QUEUES]]
        }

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        queues = [run["queue"] for run in data[QUEUES]]
        self.draw_lines(axes[2], queues, "upper right", "waiting time in the longest data queue")
        axes[2].set_ylabel("longest queue, ms")


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
    window = (0.0, 6.5)
    churn = (4.0, 5.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = geant.mesh()
        count, begin = (60, 1.5) if quick else (300, self.churn[0])
        churn = Churn(begin, begin + 1, count // 2, count // 2)
        found = sessions_plan.burst(mesh, count, 1.0, [churn], None, seed)
        plan = Plan(mesh, found, begin + 2.5, hops=12, seed=seed, **LINKS[self.form])
        return [Case(RATES, plan)]

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        return numbers_of(outcome)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        runs = data[RATES]
        begin = 1.5 if quick else self.churn[0]
        # The second of churn, and half a second after it.
        end = begin + 1.5
        found = self.measure_rates(runs, begin, end)
        # With few sessions a percentile is a single link.
        if not quick:
            links = [within(run, "links", begin, end) for run in runs]
            found["high"] = [max(one[HIGH] for one in seed) for seed in links]
        return found

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        axes[0].set_xlim(0, max(run["times"][-1] for run in data[RATES]))
        peaks = [[(when, 100 * part) for when, part in run["peaks"]] for run in data[RATES]]
        self.draw_lines(axes[2], peaks, "lower right", "on the link with the largest share")
        axes[2].set_ylabel("control packets, % of link")
        axes[2].set_ylim(bottom=0)


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
        " of their capacity. Links have drr_fq with SLBN, and drr_fq or pfifo without.",
        "Packets above a flow's rate wait in its access router, which drops those that would wait"
        " for more than 100 ms: neither counts as a link's queue or loss.",
        "The reference is max-min fair sharing of the links' full rates, as goodput. Errors are of"
        " times without joins and leaves in the last 3 s.",
    )
    variants = ("slbn", "drr_fq", "pfifo")
    #: More than others have: how many flows start behind an access router at a time matters.
    count_of_seeds = 6
    queues: ClassVar = {"drr_fq": "drr_fq alone", "pfifo": "pfifo alone"}

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.names = {"slbn": self.label, **self.queues}

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count, rate, seconds = (12, 6_000_000, 15.0) if quick else (24, 8_000_000, 24.0)
        drawn = sessions_tcp.draw(count, seconds, ("cubic", "reno"), seed)
        paper = self.form == PAPER
        return [
            Case(one, TcpPlan(one, rate, drawn, seconds, paper and one == "slbn", seed=seed))
            for one in self.variants
        ]

    def reduce(self, case: Case, outcome: TcpOutcome) -> Numbers:
        at_rest = [error for span in outcome.rests() for error in outcome.errors(*span)]
        starts = [flow.start for flow in outcome.plan.flows]
        cuts = outcome.moments
        steps = []
        for second in range(1, round(outcome.plan.seconds)):
            if any(second <= cut < second + 1 for cut in cuts):
                continue
            steps.append([second + 0.5, summary(outcome.errors(second, second + 1))])
        queues = outcome.queues()
        # Without the slow starts at the beginning.
        later = [q for when, q in zip(outcome.times, queues, strict=True) if when > 3]
        every = [one for look in later for one in look]
        longest = [max(look) for look in later]
        return {
            "at_rest": [round(error, 2) for error in at_rest],
            "steps": steps,
            "flows": len(starts),
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
            "round_trip_ms": max(
                abilene.round_trip_us(a, b)
                for a in abilene.ACCESS
                for b in abilene.ACCESS
                if a != b
            )
            / 1000,
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
            runs = [
                {
                    "times": [when for when, _ in run["steps"]],
                    "errors": [one for _, one in run["steps"]],
                }
                for run in data[variant]
            ]
            draw_errors(axis, runs, "errors", self.names[variant], colour)
            axis.set_ylim(-100, 150)
            axis.set_ylabel("error, %")
            axis.legend(loc="upper right", fontsize=8)
            times, longest = zip(*data[variant][0]["queue"], strict=True)
            axes[3].plot(times, longest, color=colour, linewidth=1, label=self.names[variant])
        axes[0].set_title(
            "error of the goodput per second: mean, 10th and 90th percentile",
            fontsize=9,
            loc="left",
        )
        axes[3].set_ylabel("longest queue, ms")
        axes[3].set_xlabel("seconds")
        axes[3].grid(alpha=0.25)

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        # Runs that were stored before lack what pacers dropped, and what depends on it.
        more = all("loss" in run for runs in data.values() for run in runs)

        def mean(runs: Sequence[Numbers], key: str) -> float:
            return statistics.fmean(run[key] for run in runs)

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
        found = []
        for form, links in self.forms.items():
            lossy = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [churn], GBIT, seed),
                end,
                hops=12,
                seed=seed,
                losses=(Loss(begin, stop, part),),
                **links,
            )
            deadly = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [], GBIT, seed, spared=self.victim),
                end - 2,
                hops=12,
                seed=seed,
                deaths=((begin, self.victim),),
                **links,
            )
            found += [Case(f"loss-{form}", lossy), Case(f"death-{form}", deadly)]
        return found

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        comparison, end = Comparison(outcome), outcome.plan.seconds
        since = outcome.plan.losses[0].end if outcome.plan.losses else outcome.died[0][0]
        # Not before the last change, which may be during the loss.
        since = max(since, comparison.last_change)
        settled = comparison.settled(since, end)
        times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
        seen = [comparison.errors(when) for when in times]
        return {
            "times": times,
            "sources": [summary(errors.sessions) for errors in seen],
            "links": [summary(errors.links) for errors in seen],
            "since": round(since, 4),
            "settled": None if settled is None else round(settled, 4),
            "part_off": comparison.part_off,
            "bits_off": round(comparison.bits_off, 2),
            "bits_over": comparison.bits_over,
            "sessions": len(comparison.final_rates),
            "retries": sum(one[2] for one in outcome.last.values()),
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """The worst source at the end [%]; the time until rates are exact [s]."""
        found: dict[str, Measured] = {}
        for event in ("loss", "death"):
            plain, ours = data[f"{event}-paper"], data[f"{event}-healing"]
            found |= {
                f"{event}-paper": percent([run["part_off"] for run in plain]),
                f"{event}-soon": [
                    math.inf if run["settled"] is None else run["settled"] for run in ours
                ],
                f"{event}-rest": [run["bits_off"] / run["sessions"] for run in ours],
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 5.6)
        axes = figure.subplots(2, 2, sharex="col", sharey="row")
        names = {"paper": "three integers (epoch 0)", "healing": "ledgers and memory (epoch 1 s)"}
        for column, event in enumerate(("loss", "death")):
            for colour, form in zip(plots.COLOURS, self.forms, strict=False):
                runs = data[f"{event}-{form}"]
                for n, run in enumerate(runs):
                    pairs = zip(run["times"], run["sources"], strict=True)
                    points = [(t, one) for t, one in pairs if one]
                    far = [max(-one[LEAST], one[MOST], 1e-4) for _, one in points]
                    times = [t for t, _ in points]
                    style = {"color": colour, "linewidth": 1.1, "alpha": 1 if n == 0 else 0.4}
                    label = names[form] if n == 0 else None
                    axes[0][column].plot(times, far, label=label, **style)
                    pairs = zip(run["times"], run["links"], strict=True)
                    links = [(t, one[MEAN]) for t, one in pairs if one]
                    axes[1][column].plot(*zip(*links, strict=True), label=label, **style)
            begin, stop, _ = self.loss
            for axis in (axes[0][column], axes[1][column]):
                axis.grid(alpha=0.25)
                if event == "loss":
                    axis.axvspan(begin, stop, color="grey", alpha=0.15)
                else:
                    axis.axvline(begin, color="grey", linewidth=0.8)
            axes[0][column].set_yscale("log")
            axes[1][column].set_ylim(-25, 25)
            axes[1][column].set_xlabel("seconds")
        axes[0][0].set_title("2 % of control packets lost (grey)", fontsize=9, loc="left")
        axes[0][1].set_title("an agent fails (line)", fontsize=9, loc="left")
        axes[0][0].set_ylabel("error at the worst source, %\n(or 0.0001)")
        axes[1][0].set_ylabel("mean error at bottlenecks, %")
        axes[0][1].legend(loc="upper right", fontsize=8)


STUDIES: tuple[Study, ...] = (
    *(kind(form) for kind in (Abilene, Research, Levels, BesideTcp) for form in FORMS),
    Healing(),
)
