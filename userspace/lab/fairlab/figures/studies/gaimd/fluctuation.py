# SPDX-License-Identifier: GPL-2.0
"""Variation of the send rate."""

import statistics
from collections.abc import Iterator
from typing import Any

from fairlab.figures.studies.gaimd.common import (
    FAST,
    GAIMD,
    LOOKS,
    NAMES,
    PLACE,
    RED,
    SOURCE,
    STACK,
    TCP,
    accounts_of,
    check_use,
    pair,
)
from fairlab.figures.studies.gaimd.model import CHOSEN, steadiness
from fairlab.figures.studies.spread import spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.outcome import Outcome

SAMPLE = 0.15
SHOWN = 30.0  # seconds that are drawn


class Fluctuation(Study):
    """Variation of the send rate (slide 30)."""

    name = "gaimd-fluctuation"
    title = "Variation of GAIMD's rate"
    source = f"{SOURCE}, slide 30"
    setting = (
        "4 flows of GAIMD(0.31, 0.875) and 4 of Reno share 15 Mbit/s, RED; rates are means of"
        " 150 ms, 2 to 3 round-trips."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "120 s, without the first 20 s. Rates include retransmissions.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        what = pair(4, FAST, RED, 45.0 if quick else 120.0, seed, look=SAMPLE)
        return [Case("red", what)]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        import numpy

        first, last = outcome.window
        payload = outcome.what.payload
        found: Numbers = {"loss": round(outcome.loss, 5), "begin": first}
        found["rtt"] = round(
            statistics.fmean(
                one.rtt for kind in (TCP, GAIMD) for one in accounts_of(outcome, kind)
            ),
            5,
        )
        for kind in (TCP, GAIMD):
            rows = outcome.rows[kind]
            flows = []
            for n in range(len(outcome.what.kinds()[kind])):
                mine = rows[rows["flow"] == n]
                times = mine["time"] / 1e9
                inside = mine[(times >= first) & (times <= last)]
                steps = numpy.diff(inside["time"].astype(float)) / 1e9
                sent = numpy.diff(inside["segments"].astype(float)) * 8 * payload / steps
                flows.append(sent)
            found[kind] = {
                "cov": [round(float(one.std() / one.mean()), 4) for one in flows],
                "mbit": [round(float(one.mean()) / 1e6, 4) for one in flows],
                "rates": [
                    [round(float(v) / 1e6, 2) for v in one[: round(SHOWN / SAMPLE)]]
                    for one in flows
                ],
            }
        return found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """GAIMD's mean coefficient of variation, divided by Reno's."""
        cov = [{kind: statistics.fmean(run[kind]["cov"]) for kind in LOOKS} for run in data["red"]]
        return {"cov": [one[GAIMD] / one[TCP] for one in cov]}

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for kind, beta in ((TCP, 0.5), (GAIMD, CHOSEN[1])):
            runs = [run[kind] for run in data["red"]]
            yield {
                "flows": NAMES[kind],
                "CoV": spread([value for run in runs for value in run["cov"]]),
                "AIMD, Poisson losses": f"{steadiness(beta):.3f}",
                "Mbit/s": spread([value for run in runs for value in run["mbit"]]),
            }

    def draw(self, figure: Any, data: Data) -> None:
        """Rates of the first seed's flows over time; each flow's CoV, of all seeds."""
        figure.set_size_inches(7, 8)
        *above, below = figure.subplots(3, 1, height_ratios=(1, 1, 0.8))
        runs = data["red"]
        for axis, kind in zip(above, (TCP, GAIMD), strict=True):
            for n, rates in enumerate(runs[0][kind]["rates"]):
                times = [runs[0]["begin"] + SAMPLE * (i + 1) for i in range(len(rates))]
                look = {"lw": 1.4, "zorder": 3} if not n else {"lw": 0.7, "alpha": 0.35}
                axis.plot(times, rates, color=LOOKS[kind], **look)
            axis.set_ylim(0, 5)
            axis.set_ylabel("Mbit/s")
            words = f"4 flows of {NAMES[kind]}{'' if kind == TCP else '(0.31, 0.875)'}, one bolder"
            axis.set_title(words, loc="left", fontsize=10, color=LOOKS[kind])
        above[1].sharex(above[0])
        above[1].set_xlabel("seconds")
        for y, (kind, beta) in enumerate(((GAIMD, CHOSEN[1]), (TCP, 0.5))):
            values = [value for run in runs for value in run[kind]["cov"]]
            below.plot(values, [y] * len(values), "o", color=LOOKS[kind], alpha=0.5, mec="none")
            mean = statistics.fmean(values)
            below.plot([mean], [y], "|", ms=22, mew=2.5, color=LOOKS[kind])
            below.text(mean, y + 0.28, f"{mean:.2f}", ha="center", color=LOOKS[kind])
            below.plot([steadiness(beta)], [y], "D", color="black", ms=5)
        below.text(
            steadiness(0.5), 0.8, "AIMD with\nPoisson losses", ha="center", va="top", fontsize=9
        )
        reno = statistics.fmean(value for run in runs for value in run[TCP]["cov"])
        below.plot([reno / 2], [0], "*", color="black", ms=12)
        below.text(reno / 2, -0.22, "published:\nhalf of Reno's", ha="center", va="top", fontsize=9)
        below.set_yticks((0, 1), ("GAIMD", "Reno"))
        below.set_ylim(-0.9, 1.6)
        below.set_xlim(0, 0.8)
        below.set_xlabel("coefficient of variation of each flow's rate, means of 150 ms")
