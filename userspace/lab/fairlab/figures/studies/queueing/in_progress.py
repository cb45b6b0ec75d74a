# SPDX-License-Identifier: GPL-2.0
"""Number of flows in progress on a fair link."""

import statistics
from typing import Any

from fairlab.figures.studies.queueing.common import BESIDE, RATE, SOURCE, mean
from fairlab.figures.study import Case, Data, Measured, Numbers, Study
from fairlab.model.background import FLOWS, Background
from fairlab.results import plots
from fairlab.results.experiment import Experiment, Group
from fairlab.results.outcome import Outcome

LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = {"exp": "exponential", "pareto:2.2": "Pareto, shape 2.2"}
SHORT_RTT = 200
DEEPEST = 30


def in_progress(outcome: Outcome) -> tuple[float, list[float]]:
    """The mean number of flows in progress, and the fraction of time with i or more."""
    begin = outcome.document["begin"]
    first, last = outcome.window
    events = []
    for flow in outcome.backgrounds[BESIDE].flows:
        start = flow.start - begin
        end = last if flow.took is None else start + flow.took
        if end > first and start < last:
            events += [(max(start, first), 1), (min(end, last), -1)]
    events.sort()
    count, then = 0, first
    at_least = [0.0] * (DEEPEST + 1)
    area = 0.0
    for when, change in events:
        area += count * (when - then)
        for i in range(min(count, DEEPEST) + 1):
            at_least[i] += when - then
        count, then = count + change, when
    at_least[0] = last - first
    return area / (last - first), [value / (last - first) for value in at_least]


class Insensitivity(Study):
    """Flows in progress under processor sharing (slides 7 to 13)."""

    name = "fq-flows-in-progress"
    title = "Flows in progress on a link with drr_fq"
    source = f"{SOURCE}, slides 7 to 13"
    setting = (
        "A fluid simulation: Poisson arrivals of flows without a rate limit, which share the link"
        " equally; load 0.5 to 0.9. Theory: E = rho / (1 - rho), P(n >= i) = rho^i, for any"
        " distribution of sizes."
    )
    assumptions = (
        "50 Mbit/s and an RTT of 0.2 ms, so that TCP does not limit a flow; Reno; a buffer of 1000"
        " packets; flows of 100 KiB on average, exponential or Pareto with shape 2.2 (with a"
        " smaller shape the mean would take days to converge).",
        "No flow is faster than the link (fq with maxrate at the sender).",
        "A flow is in progress from its first packet until its last byte has been acknowledged by"
        " the receiving program.",
        "The load is measured on the link, including headers.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(f"{sizes.partition(':')[0]}-{load:g}", self.experiment(load, sizes, quick, seed))
            for sizes in SIZES
            for load in ((0.5, 0.8) if quick else LOADS)
        ]

    def experiment(self, load: float, sizes: str, quick: bool, seed: int) -> Experiment:
        seconds = 60.0 if quick else 400.0
        beside = Background(load, FLOWS, sizes, peak=RATE)
        return Experiment(
            rate=RATE,
            buffer=1000,
            groups=(Group(BESIDE, SHORT_RTT, background=beside),),
            seconds=seconds,
            warmup=seconds / 20,
            seed=seed,
            queue="drr_fq limit 1000",
            look=1.0,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        flows, at_least = in_progress(outcome)
        return {
            "load": round(outcome.utilisation, 4),
            "flows": round(flows, 4),
            "at_least": [round(value, 5) for value in at_least],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Flows in progress, and the time with i or more, divided by the theory's."""
        found: dict[str, Measured] = {}
        for name, runs in data.items():
            found[name] = [run["flows"] * (1 - run["load"]) / run["load"] for run in runs]
            if not quick:
                found[f"tail-{name}"] = {
                    f"i = {i}": [run["at_least"][i] / run["load"] ** i for run in runs]
                    for i in (2, 5, 10)
                }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 3.8)
        left, right = figure.subplots(1, 2)
        theory = [n / 200 for n in range(80, 187)]
        left.plot(theory, [x / (1 - x) for x in theory], color="black", linewidth=1)
        left.annotate(r"$\rho/(1-\rho)$", (0.9, 9), (-48, 0), textcoords="offset points")
        for marker, colour, (sizes, words) in zip("os", plots.COLOURS, SIZES.items(), strict=False):
            kind = sizes.partition(":")[0]
            chosen = [runs for name, runs in data.items() if name.startswith(f"{kind}-")]
            for n, runs in enumerate(chosen):
                left.plot(
                    [run["load"] for run in runs],
                    [run["flows"] for run in runs],
                    marker,
                    color=colour,
                    fillstyle="none",
                    label=None if n else words,
                )
                deep = [
                    statistics.fmean(at) for at in zip(*(r["at_least"] for r in runs), strict=True)
                ]
                right.semilogy(range(len(deep)), deep, marker, color=colour, markersize=3)
                load = mean(runs, "load")
                right.semilogy(range(len(deep)), [load**i for i in range(len(deep))], "k-", lw=0.7)
                if kind == "exp":
                    at = min(DEEPEST, max(3, round(-5 / (load - 1) / 2)))
                    plots.note(right, f"{load:.2f}", (at, load**at), (2, 3), fontsize=8)
        left.set(xlabel="load", ylabel="flows in progress, mean", ylim=(0, None))
        left.legend(loc="upper left")
        right.set(xlabel="i", ylabel="part of the time with i flows or more", ylim=(1e-4, 1.2))
        right.set_title("lines: load^i", fontsize=9, loc="left")
