# SPDX-License-Identifier: GPL-2.0
"""A burst of joins, and churn, on Abilene and GÉANT."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fairlab.figures.studies.forms import COMMIT, LINKS
from fairlab.figures.studies.slbn.common import (
    COMMON,
    HIGH,
    LOW,
    MEAN,
    PACKET,
    QUEUES,
    RATES,
    SOURCE,
    OneForm,
    draw_errors,
    milliseconds,
    numbers_of,
    panels,
    within,
)
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, tabular
from fairlab.results import plots
from fairlab.slbn import abilene, geant, sessions_plan
from fairlab.slbn.sessions import Plan, Recording
from fairlab.slbn.sessions_plan import Churn


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
