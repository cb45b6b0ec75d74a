# SPDX-License-Identifier: GPL-2.0
"""Throughput ratio of two flows with different round-trip times."""

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, geometric_mean
from typing import Any, ClassVar

from fairlab.figures import registry
from fairlab.figures.studies.bic.common import (
    BIC,
    FAST,
    SLIDES,
    STCP,
    WIDTH,
    Kind,
    axis_values,
    kinds_of,
    over,
    runs_of,
    values_of,
    web_traffic,
)
from fairlab.figures.studies.spread import ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome
from fairlab.results.plots import note


def published(kind: Kind, ratio: int) -> float:
    """The published ratio of throughputs, of RTTs 1 : RATIO."""
    return registry.of("bic-rtt-fairness")[f"{kind.key}-{ratio}"].value or 0.0


class RttFairness(Study):
    """RTT fairness (slides 24 and 41)."""

    name = "bic-rtt-fairness"
    title = "Two flows with different round-trip times"
    source = f"{SLIDES}, slides 24 and 41"
    setting = (
        "ns-2: two flows of a protocol on a link of 2.5 Gbit/s, the second with an RTT of 1, 3, 6"
        " times the first's; drop-tail, buffer 1 BDP; reverse traffic, and forward background"
        " traffic: short TCP flows, web."
    )
    RATE, QUICK_RATE = 2500, 155
    BASE = 40_000
    RATIOS = (1, 3, 6)
    SECONDS, WARMUP, QUICK_WARMUP = 80, 40, 10
    QUICK_SECONDS = 20
    BESIDE = 0.1
    assumptions = (
        "RTTs of 40 ms and of 40, 120, 240 ms: not on the slides, but in the paper as far as we"
        " know. The buffer is the BDP at 40 ms.",
        "Background and reverse traffic are alike: TCP flows (Reno, RTT 40 ms) that arrive as a"
        " Poisson process, sizes Pareto with shape 1.5 and a mean of 100 kB, at most 10 Mbit/s"
        " each, 10 % of the link in total. The published load is not known.",
        "Means are from 40 s to 80 s; the published duration is not known. A flow with a long RTT"
        " that leaves slow start early takes 30 s to recover. The flows start within the same"
        " second. Packets of 1500 bytes.",
        "The ratio is the first flow's throughput divided by the second's; its mean over seeds is"
        " geometric.",
    )
    # d of the response c / (RTT p^d): synchronised losses give ratio^(1 / (1 - d)).
    EXPONENT: ClassVar[dict[str, float]] = {"bic": 0.5, "aimd": 0.5, "hstcp": 0.82, "stcp": 1.0}

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mega = self.QUICK_RATE if quick else self.RATE
        kinds, ratios = ((STCP, BIC), (3,)) if quick else (FAST, self.RATIOS)
        seconds = self.QUICK_SECONDS if quick else self.SECONDS
        return [
            Case(f"{kind.key}-{ratio}", self.experiment(kind, ratio, mega, seconds, seed))
            for ratio in ratios
            for kind in kinds
        ]

    def experiment(self, kind: Kind, ratio: int, mega: int, seconds: int, seed: int) -> Experiment:
        warmup = self.WARMUP if seconds == self.SECONDS else self.QUICK_WARMUP
        groups = (
            kind.flows("near", 1, self.BASE),
            kind.flows("far", 1, self.BASE * ratio),
            *web_traffic(self.BASE, self.BESIDE, mega),
        )
        return over(mega, 1, groups, seconds, warmup, seed, self.BASE)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        (near,), (far,) = outcome.goodputs("near"), outcome.goodputs("far")
        return {
            "near": round(near),
            "far": round(far),
            "ratio": round(near / max(far, 1.0), 4),
            "utilisation": round(outcome.utilisation, 4),
            "web": round(outcome.arrived("web")),
        }

    def theory(self, kind: Kind, ratio: int) -> float:
        """The ratio that synchronised losses give."""
        left = 1 - self.EXPONENT[kind.key]
        return float(ratio ** (1 / left)) if left else (math.inf if ratio > 1 else 1.0)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Ratios of throughputs; between equal RTTs, the larger by the smaller."""
        found: dict[str, Measured] = {}
        for ratio in map(int, axis_values(data)) if not quick else ():
            seen = {kind: kind.values(data, ratio, "ratio") for kind in FAST}
            if ratio == 1:
                seen = {kind: [max(x, 1 / x) for x in values] for kind, values in seen.items()}
            found |= {f"{kind.key}-{ratio}": values for kind, values in seen.items()}
            if ratio > 1:
                rows = sorted(FAST, key=lambda kind, at=ratio: published(kind, at))  # type: ignore[misc]
                found[f"order-{ratio}"] = {
                    f"{high.label} / {low.label}": ratios(seen[high], seen[low])
                    for low, high in pairwise(rows)
                }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.6)
        axis = figure.subplots()
        axis.set_yscale("log")
        ratios = [int(x) for x in axis_values(data)]
        kinds = kinds_of(data)
        width = 0.8 / len(kinds)
        for n, kind in enumerate(kinds):
            for at, ratio in enumerate(ratios):
                values = kind.values(data, ratio, "ratio")
                place = at + (n - (len(kinds) - 1) / 2) * width
                mean = geometric_mean(values)
                axis.bar(place, mean, 0.86 * width, color=kind.colour, alpha=0.75)
                axis.plot([place, place], [min(values), max(values)], color="black", linewidth=1.2)
                there = published(kind, ratio)
                axis.plot(place, there, marker="_", color="black", ms=16, mew=2.2)
                top = max(mean, there, *values)
                look = {"ha": "center", "color": kind.colour, "fontweight": "bold"}
                note(axis, f"{mean:.3g}", (place, top), (0, 5), **look)
                if at == len(ratios) - 1:
                    note(axis, kind.label, (place, top), (0, 19), va="bottom", rotation=90, **look)
        axis.plot([], [], marker="_", color="black", ms=14, mew=2.2, ls="", label="published")
        axis.plot([], [], color="black", linewidth=1.2, label="range over seeds")
        axis.legend(loc="upper left", fontsize=9)
        axis.set_xticks(range(len(ratios)), [f"1 : {ratio}" for ratio in ratios])
        bottom = min(0.5, *(min(values_of(data, name, "ratio")) for name in data))
        axis.set_ylim(bottom, 30 * max(max(values_of(data, name, "ratio")) for name in data))
        axis.grid(False, axis="x")
        axis.set_xlabel("RTT of the first flow : of the second")
        axis.set_ylabel("throughput of the first : second")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for ratio, kind, runs in runs_of(data):
            theory = self.theory(kind, int(ratio))
            yield {
                "RTTs": f"1 : {ratio:g}",
                "protocol": kind.label,
                "published": f"{published(kind, int(ratio)):g}",
                "ours": spread([run["ratio"] for run in runs], 1, mean=geometric_mean),
                "theory, synchronised losses": "∞" if math.isinf(theory) else f"{theory:.3g}",
                "first, Mbit/s": f"{fmean(run['near'] for run in runs) / 1e6:.0f}",
                "second, Mbit/s": f"{fmean(run['far'] for run in runs) / 1e6:.1f}",
            }
