# SPDX-License-Identifier: GPL-2.0
"""TCP friendliness: two flows of each protocol beside two Reno flows."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any, ClassVar

from fairlab.figures.studies.bic.common import (
    AIMD,
    HSTCP,
    KINDS,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    kinds_of,
    over,
    rate_label,
    runs_of,
    web_traffic,
)
from fairlab.figures.studies.spread import ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome
from fairlab.results.plots import GREY


class Friendliness(Study):
    """TCP friendliness (slide 40)."""

    name = "bic-friendliness"
    title = "TCP friendliness: two high-speed flows beside two Reno flows"
    source = f"{SLIDES}, slides 15, 18, 36, 40"
    setting = (
        "ns-2: 20 Mbit/s, drop-tail, buffer 1 BDP, reverse traffic; 2 TCP flows, 2 high-speed"
        " flows, and some background traffic."
    )
    RATES: ClassVar[dict[int, int]] = {20: 100, 100: 100, 500: 60}  # Mbit/s -> s
    QUICK_SECONDS = 40
    PUBLISHED_RATE = 20
    WARMUP = 10
    BESIDE = 0.1
    FRIENDLY, UNFRIENDLY = 0.5, 0.25
    assumptions = (
        "RTT 100 ms for all. Packets of 1500 bytes; at 20 Mbit/s a fair window is between 41 and"
        " 83 packets.",
        "Background and reverse traffic: TCP flows that arrive as a Poisson process, Pareto sizes"
        " with shape 1.5 and a mean of 100 kB, 10 % of the link in each direction.",
        "100 and 500 Mbit/s are ours: the slide has only 20.",
        "Friendliness is the throughput of two Reno flows beside two flows of the protocol, divided"
        f" by half of that of four Reno flows. The slides give no number; our thresholds:"
        f" {FRIENDLY:g} or more is friendly, less than {UNFRIENDLY:g} is not.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {self.PUBLISHED_RATE: self.QUICK_SECONDS} if quick else self.RATES
        return [
            Case(f"{kind.key}-{mega}", self.experiment(kind, mega, seconds, seed))
            for mega, seconds in rates.items()
            for kind in ((RENO, AIMD, HSTCP) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, mega: int, seconds: int, seed: int) -> Experiment:
        groups = (
            RENO.flows("tcp", 2),
            kind.flows("fast", 2),
            *web_traffic(RTT, self.BESIDE, mega),
        )
        return over(mega, 1, groups, seconds, self.WARMUP, seed)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        tcp, fast = sum(outcome.goodputs("tcp")), sum(outcome.goodputs("fast"))
        rate = outcome.what.rate
        return {
            "tcp": round(tcp / rate, 4),
            "fast": round(fast / rate, 4),
            "web": round(outcome.arrived("web") / rate, 4),
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """How much of its share Reno keeps [%]."""
        rate = self.PUBLISHED_RATE
        fair = [(run["tcp"] + run["fast"]) / 200 for run in data[f"{RENO.key}-{rate}"]]
        kept = {
            kind: ratios(kind.values(data, rate, "tcp"), fair)
            for kind in kinds_of(data)
            if kind is not RENO
        }
        found: dict[str, Measured] = {kind.key: values for kind, values in kept.items()}
        found["least"] = {
            f"AIMD / {kind.label}": ratios(kept[AIMD], values)
            for kind, values in kept.items()
            if kind is not AIMD
        }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        rates, kinds = axis_values(data), kinds_of(data)
        figure.set_size_inches(WIDTH, 1.1 + 0.42 * len(kinds) * len(rates))
        panels = figure.subplots(len(rates), 1, sharex=True, squeeze=False)[:, 0]
        for axis, mega in zip(panels, rates, strict=True):
            rows = [kind for kind in kinds if f"{kind.key}-{mega:g}" in data]
            for at, kind in enumerate(reversed(rows)):
                tcp = kind.values(data, mega, "tcp")
                fast = kind.values(data, mega, "fast")
                left = 100 * fmean(tcp)
                axis.barh(at, left, 0.72, color=GREY, alpha=0.75, edgecolor="white")
                part = 100 * fmean(fast)
                look = {"color": kind.colour, "alpha": 0.75, "edgecolor": "white"}
                axis.barh(at, part, 0.72, left=left, **look)
                axis.plot([100 * min(tcp), 100 * max(tcp)], [at, at], color="black", linewidth=1.4)
                axis.text(
                    left + part - 1, at, kind.label, ha="right", va="center",
                    color="white", fontweight="bold",
                )  # fmt: skip
                inside = left > 12
                axis.text(
                    left / 2 if inside else left + 1, at, f"{left:.0f} %", va="center",
                    ha="center" if inside else "left", color="white", fontweight="bold",
                )  # fmt: skip
            axis.set_yticks([])
            axis.set_xlim(0, 100)
            axis.grid(False, axis="y")
            axis.set_title(rate_label(mega), fontsize=10, loc="left", fontweight="bold")
        panels[0].set_title("2 Reno flows in grey", fontsize=10, loc="right", color=GREY)
        panels[-1].set_xlabel("share of the link (%); black: range over seeds")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for mega, kind, runs in runs_of(data):
            fair = fmean((run["tcp"] + run["fast"]) / 2 for run in data[f"{RENO.key}-{mega:g}"])
            kept = 100 * (fmean(run["tcp"] for run in runs) / fair)
            yield {
                "link": rate_label(mega),
                "beside": kind.label,
                "2 Reno, %": spread([100 * run["tcp"] for run in runs], 1),
                "2 of it, %": spread([100 * run["fast"] for run in runs], 1),
                "background, %": spread([100 * run["web"] for run in runs], 1),
                "Reno keeps, %": f"{kept:.0f}",
            }
