# SPDX-License-Identifier: GPL-2.0
"""TCP-friendly α by β."""

import math
import statistics
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from fairlab.figures.studies.gaimd.common import (
    FAST,
    GAIMD,
    PLACE,
    RED,
    SOURCE,
    STACK,
    TCP,
    accounts_of,
    check_use,
    pair,
    total,
)
from fairlab.figures.studies.gaimd.model import (
    alpha_least,
    alpha_td,
    alpha_to,
    equal_everywhere,
    exponents,
    monotone,
)
from fairlab.figures.studies.spread import ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.outcome import Outcome
from fairlab.results.plots import note

THRESHOLDS = (0.1, 0.2, 0.3)
FEW, MANY = 4, 32
TD, LEAST, TO = "td", "least", "to"
WAYS = {TD: "TD-friendly", LEAST: "least error to p = 0.2", TO: "TO-friendly"}
CURVE_BETAS = (0.25, 0.5, 0.75, 0.875)
SHADES = {TD: "#0072B2", LEAST: "#D55E00", TO: "#009E73"}


def alpha_by(way: str, beta: float) -> float:
    if way == TD:
        return alpha_td(beta)
    return alpha_to(beta) if way == TO else alpha_least(beta, 0.2)


class Curves(Study):
    """TCP-friendly parameters (slides 17 to 22)."""

    name = "gaimd-curves"
    title = "TCP-friendly α by β"
    source = f"{SOURCE}, slides 6, 7 and 17 to 22"
    setting = (
        "α for which GAIMD's rate equals Reno's: with losses detected by duplicate ACKs (TD),"
        " 3(1 − β)/(1 + β); by timeouts (TO), 4(1 − β²)/3; and with the least mean error over p up"
        " to 0.1, 0.2 or 0.3, with T0 = 4 RTT. All three are computed."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "The error is weighted evenly up to the threshold; b is 1.",
        f"Measurements of Linux with these parameters are our addition: {FEW} + {FEW} and {MANY}"
        f" + {MANY} flows over 15 Mbit/s, RED, 60 s, without the first 15 s.",
    )

    def choices(self, quick: bool) -> list[tuple[float, str, int]]:
        if quick:
            return [(0.875, TD, FEW), (0.875, TO, FEW), (0.875, TO, MANY)]
        return [
            (beta, way, n)
            for beta in CURVE_BETAS
            for way in (WAYS if beta != 0.5 else (TD,))  # at 1/2 all are 1
            for n in (FEW, MANY)
        ]

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = 24.0 if quick else 60.0
        return [
            Case(
                f"b{1000 * beta:.0f}-{way}-{n}",
                pair(n, FAST, RED, seconds, seed, (alpha_by(way, beta), beta)),
            )
            for beta, way, n in self.choices(quick)
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        rates = {kind: sum(outcome.goodputs(kind)) for kind in (TCP, GAIMD)}
        accounts = accounts_of(outcome, TCP)
        p = total(accounts)
        return {
            "ratio": round(rates[GAIMD] / rates[TCP], 4),
            "loss": round(outcome.loss, 5),
            "p": round(p.indications / p.segments, 5),
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        td, to = alpha_td(0.875), alpha_to(0.875)
        least = [alpha_least(0.875, threshold) for threshold in THRESHOLDS]
        # p falls as well, which the slides take for granted.
        expected = {"p": -1, "rtt": -1, "t0": -1, "alpha": 1, "beta": 1, "b": -1}
        wrong = [name for name, sign in monotone().items() if sign != expected[name]]
        exponent_td, exponent_to = exponents(1e-6)
        steps = pairwise((td, *least, to))
        found: dict[str, Measured] = {
            "alpha-td": [td],
            "alpha-to": [to],
            "best": {f"step {n}": [above - below] for n, (below, above) in enumerate(steps, 1)},
            "only": [max((math.dist(pair, (1, 0.5)) for pair in equal_everywhere()), default=1)],
            "directions": [len(wrong)],
            "exponent-td": [exponent_td],
            "exponent-to": [exponent_to],
            "to-over-td": ratios(*(self.ratio(data, 0.875, way, FEW) for way in (TO, TD))),
        }
        if quick:
            return found
        for n in (FEW, MANY):
            found[f"equal-{n}"] = {
                f"β = {beta:g}": self.ratio(data, beta, LEAST if beta != 0.5 else TD, n)
                for beta in CURVE_BETAS
            }
        return found

    @staticmethod
    def ratio(data: Data, beta: float, way: str, n: int) -> list[float]:
        """GAIMD's rate divided by Reno's."""
        return [run["ratio"] for run in data[f"b{1000 * beta:.0f}-{way}-{n}"]]

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            beta, way, n = name.split("-")
            value = int(beta[1:]) / 1000
            yield {
                "β": f"{value:g}",
                "α is": WAYS[way] if value != 0.5 else "any",
                "α": f"{alpha_by(way, value):.3f}",
                "flows": f"{n} + {n}",
                "p of Reno": f"{100 * statistics.fmean(run['p'] for run in runs):.1f} %",
                "GAIMD / Reno": spread([run["ratio"] for run in runs]),
            }

    def draw(self, figure: Any, data: Data) -> None:
        """The curves; below, the measured shares in Linux."""
        figure.set_size_inches(7, 9)
        curves, *shares = figure.subplots(3, 1, height_ratios=(1.4, 1, 1))
        betas = [0.2 + 0.025 * n for n in range(29)]
        at = {TD: 0.24, TO: 0.215}
        for way, law in ((TD, alpha_td), (TO, alpha_to)):
            curves.plot(betas, [law(beta) for beta in betas], color=SHADES[way], lw=2)
        for threshold, dashes in zip(THRESHOLDS, ((1, 1), (3, 1), (6, 1)), strict=True):
            values = [alpha_least(beta, threshold) for beta in betas[::2]]
            curves.plot(betas[::2], values, color=SHADES[LEAST], lw=1.3, ls=(0, dashes))
        curves.text(at[TD] + 0.02, 1.85, "TD-friendly", color=SHADES[TD], va="center")
        curves.text(0.22, 1.17, "TO-friendly", color=SHADES[TO], va="center")
        curves.text(
            0.41, 1.42, "least error, p to 0.1, 0.2, 0.3\n(longer dashes: more)",
            color=SHADES[LEAST], va="center", fontsize=9,
        )  # fmt: skip
        for alpha, word in ((0.2, "0.2"), (0.3125, "0.3125")):
            curves.plot([0.875], [alpha], "D", color="black", ms=5)
            note(curves, word, (0.875, alpha), (6, 0), va="center")
        curves.text(0.9, 0.52, "published", ha="right", fontsize=9)
        curves.set_ylabel("α")
        curves.set_xlabel("β")
        curves.set_ylim(0, 2)
        for axis, n in zip(shares, (FEW, MANY), strict=True):
            self._draw_shares(axis, data, n)
        shares[-1].set_xlabel("β")

    def _draw_shares(self, axis: Any, data: Data, n: int) -> None:
        p = []
        for way, shift in zip(WAYS, (-0.012, 0, 0.012), strict=True):
            for name, runs in data.items():
                beta, which, number = name.split("-")
                if which != way or int(number) != n:
                    continue
                value = int(beta[1:]) / 1000
                p += [run["p"] for run in runs]
                found = [run["ratio"] for run in runs]
                x = value + (shift if value != 0.5 else 0)
                look = {"color": SHADES[way] if value != 0.5 else "black"}
                axis.plot([x] * len(found), found, "o", ms=4, alpha=0.5, mec="none", **look)
                axis.plot([x], [statistics.fmean(found)], "_", ms=14, mew=2, **look)
        axis.axhline(1, color="black", lw=1)
        axis.set_ylim(0.4, 2)
        axis.set_yscale("log", base=2)
        ticks = (0.5, 0.75, 1, 1.33, 2)
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set_xlim(0.18, 0.92)
        axis.set_ylabel("GAIMD / Reno")
        where = f": p of Reno {100 * min(p):.1f} to {100 * max(p):.1f} %" if p else ""
        axis.set_title(f"Linux, {n} + {n} flows{where}", loc="left", fontsize=10)
