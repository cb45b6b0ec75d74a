# SPDX-License-Identifier: GPL-2.0
"""SLBN on the kernel: Mozo, López-Presa, Fernández Anta, NCA 2012, figures 3 to 10.

The paper's figures are of a simulator that counts events: 50,000 to 180,000 sessions on 1,100 to
11,000 routers.  Here it is Linux that computes the rates: sch_slbn at each link, slbnd on each
router, and hundreds of sessions on backbones that exist or existed.  The pattern of joins and
leaves, the errors and how they are drawn are the paper's.

The other studies are of what the paper says in words: that convergence takes as many cycles as
there are levels of bottlenecks, however long a cycle is; of what it assumes, that nothing is lost
and every source says goodbye; and of what TCP makes of the same flows alone.
"""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results import plots
from fairlab.slbn import abilene, geant, sessions_plan, sessions_tcp
from fairlab.slbn.mesh import Mesh
from fairlab.slbn.sessions import Loss, Plan, Told
from fairlab.slbn.sessions_analysis import Line, quantile, summary
from fairlab.slbn.sessions_plan import Churn
from fairlab.slbn.sessions_tcp import TcpOutcome, TcpPlan

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN, NCA 2012"
GBIT = 1_000_000_000
STEP = 0.05
#: Packets of the paper's experiment 1b.
PACKET = 2000
MEAN, LOW, HIGH, LEAST, MOST = range(5)

RATES, QUEUES = "rates", "queues"
COMMON = (
    "Sessions begin at routers and end at hosts behind routers, ends drawn at random; shortest"
    " paths by delay; delays are those of light in glass over 1.5 times the distance.",
    "A pause of 2.5 to 7.5 ms, drawn at random, between two cycles of a session, and a demand that"
    " is a link of its own (docs/slbn.md): the paper has neither, but allows for the first.",
)


def longest_ms(mesh: Mesh) -> float:
    """The longest round-trip there can be."""
    pairs = [(a, b) for a in mesh.nodes for b in mesh.nodes if a != b]
    return max(mesh.round_trip_us(a, b) for a, b in pairs) / 1000


def numbers_of(told: Told) -> Numbers:
    """What all studies keep of a run."""
    line, end = Line(told), told.plan.seconds
    times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
    seen = [line.errors(when) for when in times]
    settled = line.settled(line.last_change, end)
    queues, peaks = line.queue_ms(), line.control_peaks()
    return {
        "times": times,
        "sources": [summary(errors.sessions) for errors in seen],
        "links": [summary(errors.links) for errors in seen],
        "waiting": [errors.waiting for errors in seen],
        "sessions": len(told.last),
        "last_change": round(line.last_change, 4),
        "settled": None if settled is None else round(settled, 4),
        "longest_ms": round(longest_ms(told.plan.mesh), 2),
        "bits_off": round(line.bits_off, 2),
        "part_off": line.part_off,
        "bits_over": line.bits_over,
        "control": round(line.control_share(end - 1, end), 5),
        "peaks": [[round(when, 3), round(part, 5)] for when, part in peaks],
        "link_control": round(max(part for _, part in peaks), 5),
        "queue": [[round(when, 3), round(longest, 3)] for when, longest in queues],
        "rate": round(statistics.fmean(rate for rate, _ in line.rest.values())),
        "sent": told.sent,
    }


def panels(figure: Any, count: int) -> list[Any]:
    """COUNT panels, one below the other, over one axis of time."""
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
        # A mean may lie beyond a percentile.
        bars = [[max(0, v) for v in low], [max(0, v) for v in high]]
        axis.errorbar(
            times, means, yerr=bars if n == 0 else None, color=colour, linewidth=1.2,
            elinewidth=0.7, capsize=2, alpha=1 if n == 0 else 0.5,
            label=label if n == 0 else None,
        )  # fmt: skip
    axis.axhline(0, color="grey", linewidth=0.6)
    axis.grid(alpha=0.25)


def worst(runs: Sequence[Numbers], key: str) -> float:
    return max(float(run[key]) for run in runs)


def within(run: Numbers, key: str, begin: float, end: float) -> list[list[float]]:
    """The summaries of KEY from when to when."""
    pairs = zip(run["times"], run[key], strict=True)
    return [one for when, one in pairs if begin <= when <= end and one]


def milliseconds(seconds: float | None) -> str:
    return "not at all" if seconds is None else f"{1000 * seconds:.0f} ms"


class Backbone(Study):
    """Sessions that join in a burst, and churn."""

    #: how long it takes until the first have been told a second time [s]
    early: float
    #: when it is quiet after which the source's figures end [s]
    patience: float
    #: what is drawn
    window: tuple[float, float]

    def rest_claims(self, runs: Sequence[Numbers]) -> list[Claim]:
        """What is promised of the rates when nothing comes or goes any more."""
        count = max(run["sessions"] for run in runs)
        off, over = worst(runs, "bits_off"), worst(runs, "bits_over")
        settled = [run["settled"] for run in runs]
        longest = max(run["longest_ms"] for run in runs)
        took = None if None in settled else max(settled)
        trips = "" if took is None else f", {1000 * took / longest:.1f} of the longest round-trip"
        return [
            Claim(
                "at rest all rates are the max-min fair ones",
                "converges to the max-min fair rates",
                f"off by {off:.1f} bit/s at most, of {runs[0]['rate'] / 1e6:.2f} Mbit/s on average",
                f"1 bit/s for each session ({count}): divisions round down",
                off <= count,
            ),
            Claim(
                "and no link is promised away beyond its rate",
                "links are never overshot at rest (follows from max-min fairness)",
                f"{over:+.0f} bit/s at the fullest link",
                f"1 bit/s for each session ({count})",
                over <= count,
            ),
            Claim(
                "how soon after the last change all rates are exact",
                f"within the {self.patience:g} s after it that the figure shows (our reading)",
                f"{milliseconds(took)} at worst{trips}",
                f"at most {self.patience:g} s",
                took is not None and took <= self.patience,
            ),
        ]

    def transient_claims(self, runs: Sequence[Numbers], begin: float, end: float) -> list[Claim]:
        """What is promised while sessions come and go."""
        sources = [one for run in runs for one in within(run, "sources", begin, end)]
        links = [one for run in runs for one in within(run, "links", begin, end)]
        mean_of = [one[MEAN] for one in sources]
        return [
            Claim(
                "while sessions come and go, what they are told is right on average",
                "accurate assignments, with small deviations from the average",
                f"mean error at sources {min(mean_of):+.1f} to {max(mean_of):+.1f} %,"
                f" 10th percentile {min(one[LOW] for one in sources):.0f} %,"
                f" 90th {max(one[HIGH] for one in sources):+.0f} % at worst",
                "mean within 20 % of exact, all percentiles within 60 %",
                max(map(abs, mean_of)) <= 20
                and all(one[LOW] >= -60 and one[HIGH] <= 60 for one in sources),
            ),
            Claim(
                "and conservative: links are not overshot on average",
                "never overshooting them on average",
                f"mean error at bottlenecks at most {max(one[MEAN] for one in links):+.2f} %",
                "at most +2 % at any time",
                max(one[MEAN] for one in links) <= 2,
            ),
        ]

    def control_claims(self, runs: Sequence[Numbers]) -> list[Claim]:
        part, most = worst(runs, "control"), worst(runs, "link_control")
        return [
            Claim(
                "control packets take little",
                "approximately 1 % of a session's rate",
                f"{100 * part:.2f} % of what sessions have, both directions together;"
                f" {100 * most:.1f} % of the busiest link in its busiest quarter of a second",
                "2 % (1 % each way), and 5 % of a link, which is where it drops more",
                part <= 0.02 and most <= 0.05,
            )
        ]

    def draw_sources_and_links(self, axes: Sequence[Any], runs: Sequence[Numbers]) -> None:
        draw_errors(axes[0], runs, "sources", "mean, 10th and 90th percentile", plots.COLOURS[0])
        axes[0].set_ylabel("error at sources, %")
        draw_errors(axes[1], runs, "links", "mean, 10th and 90th percentile", plots.COLOURS[1])
        axes[1].set_ylabel("error at bottlenecks, %")
        for axis in axes[:2]:
            axis.set_xlim(*self.window)
            axis.set_ylim(-60, 60)
            axis.legend(loc="upper right", fontsize=8)

    def draw_queues(self, axis: Any, runs: Sequence[Numbers], what: str) -> None:
        for n, run in enumerate(runs):
            times, longest = zip(*run["queue"], strict=True)
            axis.plot(
                times, longest, color=plots.COLOURS[2], linewidth=1.1,
                alpha=1 if n == 0 else 0.5, label=what if n == 0 else None,
            )  # fmt: skip
        axis.set_ylabel("longest queue, ms")
        axis.grid(alpha=0.25)
        axis.legend(loc="upper right", fontsize=8)

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            for seed, run in enumerate(runs, 1):
                rows.append(
                    (
                        name,
                        str(seed),
                        str(run["sessions"]),
                        f"{run['rate'] / 1e6:.2f} Mbit/s",
                        milliseconds(run["settled"]),
                        f"{run['bits_off']:.1f} bit/s",
                        f"{100 * run['control']:.2f} %",
                        f"{max(longest for _, longest in run['queue']):.1f} ms",
                    )
                )
        columns = (
            "case", "run", "sessions", "mean rate", "exact after", "off at rest", "control",
            "longest queue",
        )  # fmt: skip
        return Table(columns, tuple(rows))


class Abilene(Backbone):
    """Experiments 1a and 1b's queues."""

    name = "slbn-abilene"
    title = "SLBN on Abilene: a burst of joins, churn, quiet"
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
        " data packets of 2,000 bytes follow their rates less 1 % for control. There links hand"
        " out 95 %: acknowledgements of control packets have no share of their own. Looked at"
        " every 50 ms.",
        "Early on nobody can be right: what the first sessions were told before the others came is"
        " a round-trip old. Claims are of the time from 250 ms on.",
    )
    early, patience = 0.25, 1.3
    window = (0.0, 2.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        def plan(rate: int, count: int, packet: int, seconds: float) -> Plan:
            mesh = abilene.backbone(rate)
            churn = Churn(0.5, 0.7, count // 5, count // 5)
            found = sessions_plan.burst(mesh, count, 0.5, [churn], rate, seed)
            part = abilene.SLBN_SHARE if packet else 1.0
            return Plan(mesh, found, seconds, handed_out=part, hops=12, packet=packet)

        many, fewer = (80, 40) if quick else (300, 100)
        slow = 10_000_000 if quick else 20_000_000
        return [
            Case(RATES, plan(100_000_000, many, 0, 2.0 if quick else 3.0)),
            Case(QUEUES, plan(slow, fewer, PACKET, 1.5 if quick else 3.0)),
        ]

    def reduce(self, case: Case, outcome: Told) -> Numbers:
        return numbers_of(outcome)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        del quick
        rates, queues = data[RATES], data[QUEUES]
        longest = max(one for run in queues for _, one in run["queue"])
        return [
            *self.transient_claims(rates, self.early, self.window[1]),
            *self.rest_claims(rates),
            *self.control_claims(rates),
            Claim(
                "queues stay short, though data follows the rates from the first one on",
                "the maximum of queue sizes is bounded by 3 % of the link capacity",
                f"{longest:.1f} ms, {longest / 10:.2f} % of what a link carries in a second",
                "3 % of a second, 30 ms (our reading of the unit)",
                longest <= 30,
            ),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        self.draw_queues(axes[2], data[QUEUES], "data: time to send the longest of all")


class Research(Backbone):
    """Experiment 2b, of which the first phase is 2a's pattern."""

    name = "slbn-research"
    title = "SLBN on GÉANT, 40 routers: a burst of joins, and churn later"
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
        "No data is sent: at gigabits it would take hours. slbn-abilene has queues.",
    )
    early, patience = 0.25, 1.0
    window = (0.0, 6.5)
    churn = (4.0, 5.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = geant.mesh()
        count, begin = (60, 1.5) if quick else (300, self.churn[0])
        churn = Churn(begin, begin + 1, count // 2, count // 2)
        found = sessions_plan.burst(mesh, count, 1.0, [churn], None, seed)
        return [Case(RATES, Plan(mesh, found, begin + 2.5, hops=12))]

    def reduce(self, case: Case, outcome: Told) -> Numbers:
        return numbers_of(outcome)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        runs = data[RATES]
        begin = 1.5 if quick else self.churn[0]
        # The second of churn, and what comes of its end.
        end = begin + 1.5
        links = [one for run in runs for one in within(run, "links", begin, end)]
        high = max(one[HIGH] for one in links)
        overshoot = Claim(
            "churn does not overshoot links by much",
            "no significant overshooting; BFYZ's is higher, but always below 5 %",
            f"90th percentile of bottlenecks {high:+.1f} % at most, until 0.5 s after the churn",
            "below +5 %",
            high < 5,
            "whoever gives way hears of it up to a round-trip after those who take its place"
            " have their rates, and within this second half of all sessions change; that it"
            " comes to so much is one of sixty looks, 50 ms apart, at two runs",
        )
        return [
            *self.transient_claims(runs, begin, end),
            # Of a few sessions a percentile is one link.
            *([] if quick else [overshoot]),
            *self.rest_claims(runs),
            *self.control_claims(runs),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        axes[0].set_xlim(0, max(run["times"][-1] for run in data[RATES]))
        for n, run in enumerate(data[RATES]):
            times, parts = zip(*run["peaks"], strict=True)
            axes[2].plot(
                times, [100 * part for part in parts], color=plots.COLOURS[2], linewidth=1.1,
                alpha=1 if n == 0 else 0.5,
                label="on the link where they are most" if n == 0 else None,
            )  # fmt: skip
        axes[2].set_ylabel("control packets, % of link")
        axes[2].set_ylim(bottom=0)
        axes[2].grid(alpha=0.25)
        axes[2].legend(loc="lower right", fontsize=8)


class Levels(Study):
    """How long it takes, by levels of bottlenecks and by round-trip."""

    name = "slbn-levels"
    title = "Convergence by levels of bottlenecks, and by round-trip"
    source = f"{SOURCE}, sections III and I: in words"
    setting = (
        "Said of the algorithm: it takes a number of cycles in the order of the levels of"
        " bottlenecks, and does not depend on round-trips otherwise. No figure."
    )
    assumptions = (
        "A line of routers on which the bottleneck of each wire depends on the wire before"
        " (sessions_plan.py); the rates of the levels are 100, 200, 300 … Mbit/s.",
        "All sessions join within a quarter of a round-trip; time is from the last join until their"
        " rates are within 0.01 % of exact, and stay so. Then all leave, and it is done again.",
        "A cycle is the round-trip over two wires, the longest, and a pause of 2 ms on average.",
    )
    pause_ms = 2.0
    round_trip_ms = 40
    count = 4

    def wanted(self, quick: bool) -> list[tuple[str, int, int]]:
        """Case, levels, round-trip [ms]."""
        levels = (1, 3) if quick else range(1, 9)
        trips = (10,) if quick else (5, 10, 20, 80, 160)
        own = 3 if quick else self.count
        return [
            *((f"levels-{n}", n, self.round_trip_ms) for n in levels),
            *((f"rtt-{ms}ms", own, ms) for ms in trips),
        ]

    def cases(self, quick: bool, seed: int) -> list[Case]:
        turns = 3 if quick else 8
        found = []
        for name, levels, ms in self.wanted(quick):
            gap = (ms + self.pause_ms) / 1000 * (8 + 2 * levels)
            plan = Plan(
                sessions_plan.line(levels, 1000 * ms),
                sessions_plan.levels(levels, turns, gap, ms / 4000, seed),
                seconds=round(1.5 * gap * turns, 3),
                pause_ms=self.pause_ms,
                hops=4,
                every=0.5,
            )
            found.append(Case(name, plan))
        return found

    def reduce(self, case: Case, outcome: Told) -> Numbers:
        plan = outcome.plan
        line = Line(outcome)
        leaves = sorted({session.leave for session in plan.sessions if session.leave})
        took: list[float | None] = []
        off = 0.0
        for leave in leaves:
            joins = [when for when, n, d in outcome.asked if d != 0 and self.of(plan, n) == leave]
            last = max(joins)
            took.append(line.settled(last, leave))
            exact = line.exact(last).rates
            off = max(off, *(abs(line.told_at(n, leave) - rate) for n, rate in exact.items()))
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
    def of(plan: Plan, number: int) -> float | None:
        return plan.sessions[number].leave

    @staticmethod
    def cycles(runs: Sequence[Numbers]) -> list[float]:
        return [one for run in runs for one in run["cycles"] if one is not None]

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        missing = sum(
            one is None for runs in data.values() for run in runs for one in run["cycles"]
        )
        total = sum(len(run["cycles"]) for runs in data.values() for run in runs)
        means = {
            runs[0]["levels"]: statistics.fmean(self.cycles(runs))
            for name, runs in data.items()
            if name.startswith("levels-") and self.cycles(runs)
        }
        few, many = min(means), max(means)
        slope = (means[many] - means[few]) / (many - few)
        above = max(mean - (means[few] + 2 * (n - few)) for n, mean in means.items())
        own = max(run["levels"] for name, runs in data.items() if "rtt" in name for run in runs)
        trips = {
            runs[0]["round_trip_ms"]: statistics.fmean(self.cycles(runs))
            for runs in data.values()
            if runs[0]["levels"] == own and self.cycles(runs)
        }
        middle = statistics.fmean(trips.values())
        apart = max(abs(mean / middle - 1) for mean in trips.values())
        return [
            Claim(
                "each line comes to the exact rates",
                "converges to the max-min fair rates",
                f"{total - missing} of {total} did",
                "all of them",
                not missing,
            ),
            Claim(
                "cycles grow in proportion to the levels of bottlenecks",
                "in the order of the number of levels (in words)",
                f"{means[few]:.1f} cycles at {few}, {means[many]:.1f} at {many}:"
                f" {slope:.2f} for each level more",
                "at most 2 cycles for each level more, at every number of them",
                above <= 0.5,
            ),
            Claim(
                "counted in cycles, round-trips do not matter",
                "converges independently of sessions' RTT",
                f"{own} levels: "
                + ", ".join(f"{cycles:.1f} at {ms:g} ms" for ms, cycles in sorted(trips.items())),
                "each within 30 % of their mean",
                apart <= 0.3,
            ),
        ]

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
        right.set_xlabel(f"round-trip, ms ({own} levels)")
        left.legend(loc="upper left", fontsize=8)

    def table(self, data: Data) -> Table:
        rows = []
        for runs in data.values():
            cycles = self.cycles(runs)
            seconds = [one for run in runs for one in run["seconds"] if one is not None]
            rows.append(
                (
                    str(runs[0]["levels"]),
                    f"{runs[0]['round_trip_ms']:g} ms",
                    f"{statistics.fmean(cycles):.1f}",
                    f"{quantile(cycles, 0.1):.1f} to {quantile(cycles, 0.9):.1f}",
                    f"{1000 * statistics.fmean(seconds):.0f} ms",
                )
            )
        columns = ("levels", "round-trip", "cycles, mean", "10th to 90th percentile", "time, mean")
        return Table(columns, tuple(rows))


class Healing(Study):
    """What becomes of rates when control packets are lost, or an agent dies."""

    name = "slbn-healing"
    title = "Loss of control packets and the death of an agent, with healing and without"
    source = f"{SOURCE}: its assumptions; the ledgers and the memory of visits are this project's"
    setting = (
        "The paper assumes that control packets are not lost and that every session says that it"
        " leaves. With epoch 0 and no memory, links keep its own three integers and nothing else."
    )
    assumptions = (
        "Abilene at 1 Gbit/s: 100 sessions join in 500 ms. Loss: each wire loses 2 % of the control"
        " packets from 2 s to 4 s, while 20 sessions leave, 20 join and 20 change what they ask"
        " for. Death: one router's agent is killed at 2 s, and all sessions that begin there.",
        "In both forms sources send again what is not answered.",
        "What is right when an agent has died is what is max-min fair to the others.",
        COMMON[0],
    )
    #: that is told (backbone's Kansas City is on many paths, and begins as many sessions as others)
    victim = "ksc"
    forms = (("paper", 0, 0), ("healing", 1000, 4096))
    loss = (2.0, 4.0, 0.02)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = abilene.backbone(GBIT)
        count, end = (30, 7.0) if quick else (100, 10.0)
        some = count // 5
        begin, stop, part = self.loss
        churn = Churn(begin, stop, some, some, some)
        found = []
        for form, epoch, visits in self.forms:
            lossy = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [churn], GBIT, seed),
                end,
                epoch_ms=epoch,
                visits=visits,
                hops=12,
                losses=(Loss(begin, stop, part),),
            )
            deadly = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [], GBIT, seed, spared=self.victim),
                end - 2,
                epoch_ms=epoch,
                visits=visits,
                hops=12,
                deaths=((begin, self.victim),),
            )
            found += [Case(f"loss-{form}", lossy), Case(f"death-{form}", deadly)]
        return found

    def reduce(self, case: Case, outcome: Told) -> Numbers:
        line, end = Line(outcome), outcome.plan.seconds
        since = outcome.plan.losses[0].end if outcome.plan.losses else outcome.died[0][0]
        # Past the last change, which may be that of the loss's own time.
        since = max(since, line.last_change)
        settled = line.settled(since, end)
        times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
        seen = [line.errors(when) for when in times]
        return {
            "times": times,
            "sources": [summary(errors.sessions) for errors in seen],
            "links": [summary(errors.links) for errors in seen],
            "since": round(since, 4),
            "settled": None if settled is None else round(settled, 4),
            "part_off": line.part_off,
            "bits_off": round(line.bits_off, 2),
            "bits_over": line.bits_over,
            "sessions": len(line.rest),
            "retries": sum(one[2] for one in outcome.last.values()),
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        del quick
        found = []
        for event, words in (("loss", "control packets were lost"), ("death", "an agent died")):
            plain, ours = data[f"{event}-paper"], data[f"{event}-healing"]
            least = min(run["part_off"] for run in plain)
            settled = [run["settled"] for run in ours]
            took = None if None in settled else max(settled)
            found += [
                Claim(
                    f"after {words} the paper's three integers stay wrong",
                    "assumed not to happen",
                    f"at the end the worst session of each run is {100 * least:.1f} % off or more",
                    "more than 1 % in every run",
                    least > 0.01,
                ),
                Claim(
                    f"after {words} ledgers come to the exact rates again",
                    "exact after two epochs (docs/slbn.md)",
                    f"exact after {milliseconds(took)}; at the end"
                    f" {worst(ours, 'bits_off'):.1f} bit/s off at most",
                    "within 2 epochs and half a second of cycles; 1 bit/s for each session",
                    took is not None
                    and took <= 2.5
                    and all(run["bits_off"] <= run["sessions"] for run in ours),
                ),
            ]
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 5.6)
        axes = figure.subplots(2, 2, sharex="col", sharey="row")
        names = {"paper": "three integers (epoch 0)", "healing": "ledgers and memory (epoch 1 s)"}
        for column, event in enumerate(("loss", "death")):
            for colour, (form, _, _) in zip(plots.COLOURS, self.forms, strict=False):
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
        axes[0][1].set_title("an agent dies (line)", fontsize=9, loc="left")
        axes[0][0].set_ylabel("error at the worst source, %\n(or 0.0001)")
        axes[1][0].set_ylabel("mean error at bottlenecks, %")
        axes[0][1].legend(loc="upper right", fontsize=8)


class BesideTcp(Study):
    """The same flows with SLBN and without."""

    name = "slbn-tcp"
    title = "The same TCP flows with SLBN, in fair queues, and in FIFOs"
    source = f"{SOURCE}, section I: in words"
    setting = (
        "Said of TCP: its loop makes it slow and unstable where sessions come and go, and loses"
        " packets; explicit rates are to use links in full, without loss, and share them max-min"
        " fairly. No figure compares them."
    )
    assumptions = (
        "Abilene with six access routers and hosts (fairlab backbone), all links 8 Mbit/s, queues"
        " of 64 packets; 24 TCP flows between hosts drawn at random, half under CUBIC, half under"
        " Reno; after 8 s eight of them end, after 16 s eight others begin; 24 s.",
        "With SLBN, slbnd finds the flows and holds them to their rates; hosts are unchanged. Links"
        " hand out 95 %. Without it, links have drr_fq or pfifo.",
        "What TCP sends beyond its rate waits in its access router, and is dropped there if it"
        " would wait for more than 100 ms: that is no link's queue, nor a link's loss.",
        "Fair is what is max-min fair of the wires' full rates, as goodput. Errors are over the"
        " times in which nothing had come or gone for 3 s.",
    )
    variants = ("slbn", "drr_fq", "pfifo")
    names: ClassVar = {"slbn": "SLBN", "drr_fq": "drr_fq alone", "pfifo": "pfifo alone"}

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count, rate, seconds = (12, 6_000_000, 15.0) if quick else (24, 8_000_000, 24.0)
        drawn = sessions_tcp.draw(count, seconds, ("cubic", "reno"), seed)
        return [Case(variant, TcpPlan(variant, rate, drawn, seconds)) for variant in self.variants]

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
        # Not of slow start, which comes to everybody once.
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
            "retransmits": outcome.retransmits,
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
        """How far flows are from what is fair, on average [%]."""
        return statistics.fmean(abs(error) for run in runs for error in run["at_rest"])

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        del quick
        ours, fair, plain = (data[variant] for variant in self.variants)
        errors = [error for run in ours for error in run["at_rest"]]
        lost = sum(run["lost"] for run in ours)
        queue = worst(ours, "queue_longest")
        usual = {v: statistics.fmean(run["queue_usual"] for run in data[v]) for v in self.variants}
        return [
            Claim(
                "with SLBN each flow gets what is max-min fair",
                "max-min fair rates, with links used almost in full",
                f"{min(errors):+.1f} to {max(errors):+.1f} %, by {self.off(ours):.1f} % on average",
                "each from -25 to +5 %: 5 % are not handed out, control and acknowledgements take"
                " their part, and TCP is not always quick to fill what it is let",
                min(errors) >= -25 and max(errors) <= 5,
                "a flow that TCP keeps below its rate is given a lower demand by its agent, and"
                " what it leaves is told to others, who then have more than if each wanted all",
            ),
            Claim(
                "TCP alone in FIFOs is much less fair",
                "TCP is slow to come to its share (section I; no number)",
                f"off by {self.off(plain):.0f} % on average, in drr_fq by {self.off(fair):.0f} %",
                "in FIFOs at least three times as far off as with SLBN",
                self.off(plain) >= 3 * self.off(ours),
            ),
            Claim(
                "with SLBN no link loses a packet",
                "closed loops have packets discarded and sent again; explicit rates need none",
                f"{lost}; drr_fq {sum(run['lost'] for run in fair)},"
                f" pfifo {sum(run['lost'] for run in plain)}",
                "none",
                lost == 0,
            ),
            Claim(
                "and queues are short",
                "the maximum of queue sizes is bounded by 3 % of the link capacity",
                f"{queue:.0f} ms at most after the first 3 s; the longest of all is usually"
                f" {usual['slbn']:.0f} ms, {usual['drr_fq']:.0f} in drr_fq,"
                f" {usual['pfifo']:.0f} in pfifo",
                "at most 30 ms",
                queue <= 30,
            ),
        ]

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
            "goodput of a second beside what is fair: mean, 10th and 90th percentile",
            fontsize=9,
            loc="left",
        )
        axes[3].set_ylabel("longest queue, ms")
        axes[3].set_xlabel("seconds")
        axes[3].grid(alpha=0.25)

    def table(self, data: Data) -> Table:
        rows = []
        for variant, runs in data.items():
            errors = [error for run in runs for error in run["at_rest"]]
            rows.append(
                (
                    self.names[variant],
                    f"{self.off(runs):.1f} %",
                    f"{min(errors):+.0f} to {max(errors):+.0f} %",
                    f"{statistics.fmean(run['queue_mean'] for run in runs):.1f} ms",
                    f"{worst(runs, 'queue_longest'):.0f} ms",
                    f"{sum(run['lost'] for run in runs)}",
                    f"{sum(run['retransmits'] for run in runs)}",
                )
            )
        columns = (
            "", "off what is fair, mean", "flows", "queues, mean", "longest", "lost", "sent again",
        )  # fmt: skip
        return Table(columns, tuple(rows))


STUDIES: tuple[Study, ...] = (Abilene(), Research(), Levels(), Healing(), BesideTcp())
