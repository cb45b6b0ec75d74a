# SPDX-License-Identifier: GPL-2.0
"""The same TCP flows with SLBN, drr_fq and pfifo."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.forms import PAPER
from fairlab.figures.studies.slbn.common import SOURCE, OneForm, draw_errors
from fairlab.figures.studies.spread import ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, tabular
from fairlab.results import plots
from fairlab.slbn import abilene, sessions_tcp
from fairlab.slbn.sessions_analysis import summary
from fairlab.slbn.sessions_tcp import TcpOutcome, TcpPlan


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
