# SPDX-License-Identifier: GPL-2.0
"""Utilisation of fast links by five flows."""

from collections.abc import Iterator
from typing import Any, ClassVar

from fairlab.figures.studies.bic.common import (
    BIC,
    KINDS,
    RENO,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    curves,
    kinds_of,
    over,
    rate_label,
    values_of,
)
from fairlab.figures.studies.spread import gaps, percent, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
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

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {155: (20, 1)} if quick else self.RATES
        return [
            Case(
                f"{kind.key}-{mega}",
                over(mega, self.BUFFER, (kind.flows("a", 5),), seconds, self.WARMUP, seed),
                last,
            )
            for mega, (seconds, last) in rates.items()
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        return {
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
            "rates": [round(rate) for rate in outcome.goodputs("a")],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Shares of the link [%]."""

        def used(kind: Kind, mega: float) -> list[float]:
            return percent(kind.values(data, mega, "utilisation"))

        rates = axis_values(data)
        found: dict[str, Measured] = {}
        for mega in rates:
            reno, others = used(RENO, mega), [kind for kind in kinds_of(data) if kind is not RENO]
            found |= {f"{kind.key}-{mega:g}": used(kind, mega) for kind in others}
            if mega >= self.FAST_RATE:
                found[f"reno-{mega:g}"] = reno
                found[f"least-{mega:g}"] = {
                    f"{kind.label} - Reno": gaps(used(kind, mega), reno) for kind in others
                }
        if len(rates) > 1:
            found["falls"] = gaps(used(RENO, rates[0]), used(RENO, rates[-1]))
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

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for mega in axis_values(data):
            cells = {kind.label: kind.values(data, mega, "utilisation") for kind in kinds_of(data)}
            yield {"link, % used": rate_label(mega)} | {
                label: spread(percent(values), 1) if values else ""
                for label, values in cells.items()
            }
