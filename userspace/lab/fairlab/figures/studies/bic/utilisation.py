# SPDX-License-Identifier: GPL-2.0
"""Utilisation of fast links by five flows."""

from statistics import fmean
from typing import Any, ClassVar

from fairlab.figures.studies.bic.common import (
    BIC,
    HSTCP,
    KINDS,
    MEGA,
    MTU,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    curves,
    in_flight,
    kinds_of,
    many,
    of,
    rate_label,
    shown,
)
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome


class Utilisation(Study):
    """Slides 6 and 39."""

    name = "bic-utilisation"
    title = "How much of a fast link five flows use"
    source = f"{SLIDES}, slides 6 and 39"
    setting = (
        "ns-2, 100 s; links of 155, 622 Mbit/s, 2.5, 5, 10 Gbit/s; drop-tail, a buffer of 0.1"
        " bandwidth-delay products; 5 connections, round-trip 100 ms, packets of 1000 bytes"
        " (the notes to the same slides: 100 sources, 1500 bytes)."
    )
    # Rate [Mbit/s] -> how long [s], and with how many seeds.
    RATES: ClassVar[dict[int, tuple[int, int]]] = {
        155: (100, 2),
        622: (100, 2),
        2500: (100, 1),
        5000: (20, 1),
        10000: (12, 1),
    }
    WARMUP = 5
    BUFFER = 0.1  # of the bandwidth-delay product
    assumptions = (
        "Five flows with the same round-trip, which begin within a second; packets of 1500 bytes.",
        "Means leave out the first 5 s, in which slow start overshoots.",
        "From 2.5 Gbit/s on with one seed; 5 Gbit/s for 20 s and 10 Gbit/s for 12 s instead of 100:"
        " a Reno flow grows by 10 packets a second, in 100 s by 12 and 6 % of its share of these"
        " links, so what it has soon after slow start is about what it has then.",
        "No other traffic.",
    )
    FAST_RATE = 2500  # Mbit/s, from where links are said to be too fast for Reno
    FULL = 0.9

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {155: (20, 1)} if quick else self.RATES
        return [
            Case(f"{kind.key}-{mega}", self.experiment(kind, mega, seconds, seed))
            for mega, (seconds, seeds) in rates.items()
            if seed <= seeds
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        return Experiment(
            rate=rate,
            buffer=max(1, round(self.BUFFER * in_flight(rate, RTT))),
            groups=(many(kind, "a", 5),),
            seconds=seconds,
            warmup=self.WARMUP,
            seed=seed,
            mtu=MTU,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        return {
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
            "rates": [round(rate) for rate in outcome.goodputs("a")],
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        def used(kind: Kind, mega: float) -> float:
            return fmean(of(data, f"{kind.key}-{mega:g}", "utilisation"))

        rates = axis_values(data)
        found = []
        for mega in rates:
            reno = used(RENO, mega)
            others = {k.label: used(k, mega) for k in kinds_of(data) if k is not RENO}
            fast = mega >= self.FAST_RATE
            if fast:
                found.append(
                    Claim(
                        f"Reno does not fill {rate_label(mega)}",
                        "cannot fully utilize the huge capacity (slide 6)",
                        f"{100 * reno:.0f} %",
                        f"below {100 * self.FULL:.0f} %, and below all others",
                        reno < self.FULL and reno < min(others.values()),
                        "Linux's recovery: SACK and PRR lose no time, nor the window, over the many"
                        " packets that slow start loses at once",
                        basis="words",
                    )
                )
            for label, share in others.items():
                found.append(
                    Claim(
                        f"{label} fills {rate_label(mega)}",
                        "scalable: the curve stays up (slide 39, no values in the text)",
                        f"{100 * share:.0f} %, Reno {100 * reno:.0f} %",
                        f"{100 * self.FULL:.0f} % or more",
                        share >= self.FULL,
                        "with a buffer of a tenth of what is in flight, whoever cuts by more than"
                        " that cuts below the link's rate, and HSTCP cuts by up to half"
                        if label == HSTCP.label
                        else "",
                        basis="words",
                    )
                )
        if len(rates) > 1:
            first, last = (used(RENO, mega) for mega in (rates[0], rates[-1]))
            found.append(
                Claim(
                    f"the faster the link, the less of it Reno uses"
                    f" ({rate_label(rates[0])} to {rate_label(rates[-1])})",
                    "the curve falls (slide 6, no values in the text)",
                    f"{100 * first:.0f} % to {100 * last:.0f} %",
                    "less by 10 % of the link or more",
                    first - last >= 0.1,
                    basis="words",
                )
            )
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.2)
        axis = figure.subplots()
        axis.set_xscale("log")
        rates = axis_values(data)
        axis.set_xticks(rates, [rate_label(mega).replace(" ", "\n") for mega in rates])
        axis.minorticks_off()
        least = min(min(of(data, name, "utilisation")) for name in data)
        axis.set_ylim(min(60.0, 100 * least - 5), 101)
        curves(axis, data, "utilisation", 100)
        axis.set_ylabel("use of the link (%)")
        axis.set_xlabel("rate of the link")
        axis.set_title("5 flows, round-trip 100 ms, buffer 0.1 BDP", fontsize=10, loc="left")

    def table(self, data: Data) -> Table:
        kinds, rates = kinds_of(data), axis_values(data)
        rows = []
        for mega in rates:
            cells = [of(data, f"{kind.key}-{mega:g}", "utilisation") for kind in kinds]
            rows.append(
                (
                    rate_label(mega),
                    *(shown([100 * v for v in cell], 1) if cell else "" for cell in cells),
                )
            )
        return Table(("link, % used", *(kind.label for kind in kinds)), tuple(rows))
