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
    bdp,
    curves,
    kinds_of,
    long_flows,
    rate_label,
    values_of,
)
from fairlab.figures.studies.spread import spread
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome


class Utilisation(Study):
    """Link utilisation by the rate of the link (slides 6 and 39)."""

    name = "bic-utilisation"
    title = "Utilisation of fast links by five flows"
    source = f"{SLIDES}, slides 6 and 39"
    setting = (
        "ns-2, 100 s; links of 155, 622 Mbit/s, 2.5, 5, 10 Gbit/s; drop-tail, buffer 0.1 BDP;"
        " 5 connections, RTT 100 ms, packets of 1000 bytes (the speaker notes of the same slides:"
        " 100 sources, 1500 bytes)."
    )
    # Rate [Mbit/s] -> duration [s] and last seed.
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
        "Five flows with the same RTT, which start within a second; packets of 1500 bytes.",
        "Means exclude the first 5 s, in which slow start overshoots.",
        "From 2.5 Gbit/s on with one seed; 5 Gbit/s for 20 s and 10 Gbit/s for 12 s instead of 100:"
        " a Reno window grows by 10 packets per second, in 100 s by 12 and 6 % of its share of"
        " these links, so its rate soon after slow start is about its rate after 100 s.",
        "No other traffic.",
    )
    FAST_RATE = 2500  # Mbit/s; from here on the slides call links too fast for Reno
    FULL = 0.9

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {155: (20, 1)} if quick else self.RATES
        return [
            Case(f"{kind.key}-{mega}", self.experiment(kind, mega, seconds, seed), last)
            for mega, (seconds, last) in rates.items()
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        return Experiment(
            rate=rate,
            buffer=max(1, round(self.BUFFER * bdp(rate, RTT))),
            groups=(long_flows(kind, "a", 5),),
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
            return fmean(values_of(data, f"{kind.key}-{mega:g}", "utilisation"))

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
                        "Linux's loss recovery: SACK and PRR repair the many losses of slow start"
                        " without idle time, and without collapsing the window",
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
                        "with a buffer of 0.1 BDP, a protocol that reduces its window by more"
                        " than a tenth drops below the link's rate, and HSTCP reduces it by up to"
                        " half"
                        if label == HSTCP.label
                        else "",
                        basis="words",
                    )
                )
        if len(rates) > 1:
            first, last = (used(RENO, mega) for mega in (rates[0], rates[-1]))
            found.append(
                Claim(
                    f"Reno's utilisation falls with the rate of the link"
                    f" ({rate_label(rates[0])} to {rate_label(rates[-1])})",
                    "the curve falls (slide 6, no values in the text)",
                    f"{100 * first:.0f} % to {100 * last:.0f} %",
                    "a decrease by 10 % of the link or more",
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
        least = min(min(values_of(data, name, "utilisation")) for name in data)
        axis.set_ylim(min(60.0, 100 * least - 5), 101)
        curves(axis, data, "utilisation", 100)
        axis.set_ylabel("utilisation of the link (%)")
        axis.set_xlabel("rate of the link")
        axis.set_title("5 flows, RTT 100 ms, buffer 0.1 BDP", fontsize=10, loc="left")

    def table(self, data: Data) -> Table:
        kinds, rates = kinds_of(data), axis_values(data)
        rows = []
        for mega in rates:
            cells = [values_of(data, f"{kind.key}-{mega:g}", "utilisation") for kind in kinds]
            rows.append(
                (
                    rate_label(mega),
                    *(spread([100 * v for v in cell], 1) if cell else "" for cell in cells),
                )
            )
        return Table(("link, % used", *(kind.label for kind in kinds)), tuple(rows))
