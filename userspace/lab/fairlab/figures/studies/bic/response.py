# SPDX-License-Identifier: GPL-2.0
"""Response functions: mean window by loss probability."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, ClassVar

from fairlab.figures.studies.bic.common import (
    BIC,
    HSTCP,
    KINDS,
    MEGA,
    MTU,
    PAPER,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    in_flight,
    kinds_of,
    many,
    name_ends,
    of,
    shown,
)
from fairlab.figures.studies.bic.rules import RESPONSES, thrown
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome


class Response(Study):
    """Slides 9, 14, 18, 35 to 37."""

    name = "bic-response"
    title = "Response functions: window by random loss"
    source = f"{SLIDES}, slides 9 to 18 and 35 to 37; formulas of {PAPER}, RFC 3649"
    setting = (
        "Formulas: packets per round-trip by the probability p of a loss, for losses in even"
        " intervals. Reno √(1.5/p); AIMD(32, ⅛) √(240/(2p)), 13 times Reno at any p;"
        " HSTCP 0.12/p^0.835; STCP 0.08/p; BIC by Smax 32, Smin 0.01, β ⅛."
    )
    # Loss -> how many of them a run is to see.
    LOSSES: ClassVar[dict[float, int]] = {1e-3: 400, 1e-4: 200, 1e-5: 60}
    QUICK_LOSSES: ClassVar[dict[float, int]] = {1e-3: 300}
    RATE = 5000
    WARMUP_SECONDS, WARMUP_SHARE = 10, 0.1
    DICE, FORMULA = 0.15, 0.25
    assumptions = (
        "One flow, round-trip 100 ms, 5 Gbit/s, so that the link hardly ever limits it; packets of"
        " 1500 bytes.",
        "p is the probability with which netem drops each data packet by itself. A formula's is of"
        " losses that make a protocol cut: fewer where several packets of a round-trip are lost"
        " (AIMD at p = 0.001: 0.5 in each).",
        "A run is so long that it should see 400, 200, 60 losses at p = 1e-3, 1e-4, 1e-5; below"
        " that it would take billions of packets. By chance a run with 60 losses is off by 6 %, of"
        " HSTCP and STCP by 10 % (the standard deviation, found with dice).",
        "Dice: the published rules in rounds, with random losses, 2000 of them.",
        "BIC's formula is for windows above 512 packets, 2 Smax/β: p below 1.5e-4.",
    )
    REGIME: ClassVar[dict[str, float]] = {"bic": 1.5e-4}
    STEPS = (
        "mainline's table rounds up: from 39 packets on it grows by two a round-trip, which"
        " RFC 3649 does at 118. Dice with that table come to 55 packets at p = 0.001 and 291 at"
        " 0.0001"
    )
    FAR = (
        "losses at random moments: many come when the window is far from Wmax, and then BIC grows"
        " by more than in the even intervals of the formula; with dice its rules do so, too"
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        losses = self.QUICK_LOSSES if quick else self.LOSSES
        return [
            Case(f"{kind.key}-{loss:g}", self.experiment(kind, loss, count, seed))
            for loss, count in losses.items()
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, loss: float, count: int, seed: int) -> Experiment:
        rate = self.RATE * MEGA
        took = count / loss / RESPONSES[kind.key](loss) * RTT / 1e6
        warmup = self.WARMUP_SECONDS + round(self.WARMUP_SHARE * took)
        seconds = warmup + math.ceil(took)
        return Experiment(
            rate=rate,
            buffer=in_flight(rate, RTT),
            groups=(many(kind, "a", 1),),
            seconds=seconds,
            warmup=warmup,
            seed=seed,
            mtu=MTU,
            loss=loss,
            look=max(0.1, seconds / 500),
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        packets = outcome.goodput("a", 0) / 8 / what.payload * RTT / 1e6
        return {
            "p": what.loss,
            "packets": round(packets, 2),
            "dropped": outcome.columns["drops"][-1],
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        for p in sorted(axis_values(data), reverse=True):
            for kind in kinds_of(data):
                values = of(data, f"{kind.key}-{p:g}", "packets")
                if not values:
                    continue
                here = fmean(values)
                formula = RESPONSES[kind.key](p)
                why = "chance: a mean over 60 losses is off by 6 to 10 %" if p <= 1e-5 else ""
                if kind is HSTCP and not why:
                    why = self.STEPS
                found.append(self.rules(kind.label, kind.key, p, values, why))
                if p > self.REGIME.get(kind.key, 1):
                    continue
                if kind is BIC:
                    why = self.FAR
                found.append(
                    Claim(
                        f"{kind.label}, p = {p:g}: the formula",
                        f"{formula:.0f} packets per round-trip",
                        shown(values, 0),
                        f"{100 * self.FORMULA:.0f} %",
                        abs(here / formula - 1) <= self.FORMULA,
                        why,
                        basis="ours",
                    )
                )
        return found

    def rules(
        self, label: str, key: str, p: float, values: Sequence[float], reason: str = ""
    ) -> Claim:
        """Is it what the dice make of a protocol's rules?"""
        dice = thrown(key, p)
        return Claim(
            f"{label}, p = {p:g}: the published rules",
            f"by dice {dice:.0f} packets per round-trip",
            shown(values, 0),
            f"{100 * self.DICE:.0f} %",
            abs(fmean(values) / dice - 1) <= self.DICE,
            reason,
            basis="ours",
        )

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 5.0)
        axis = figure.subplots()
        axis.set_xscale("log")
        axis.set_yscale("log")
        measured = axis_values(data)
        first, last = min(measured) / 3, max(measured) * 2
        steps = [first * (last / first) ** (n / 60) for n in range(61)]
        tops = [RESPONSES[kind.key](first) for kind in KINDS]
        axis.set_ylim(10, 1.6 * max(tops))
        for kind in kinds_of(data):
            formula = RESPONSES[kind.key]
            valid = [p for p in steps if p <= self.REGIME.get(kind.key, 1)]
            axis.plot(valid, [formula(p) for p in valid], color=kind.colour, linewidth=1.3)
            some = [p for p in steps[::6] if p >= min(measured) / 2]
            dice = [thrown(kind.key, p) for p in some]
            axis.plot(some, dice, color=kind.colour, linewidth=1.4, linestyle=":")
            for p in measured:
                values = of(data, f"{kind.key}-{p:g}", "packets")
                axis.plot(
                    [p] * len(values), values, kind.marker, color=kind.colour, ms=6, alpha=0.8
                )
        axis.set_xlim(last, first)
        name_ends(axis, [(RESPONSES[kind.key](first), kind) for kind in kinds_of(data)])
        for look, words in (("-", "formula"), (":", "rules, with dice")):
            axis.plot([], [], color="black", linestyle=look, linewidth=1.2, label=words)
        axis.plot([], [], "o", color="black", ms=6, ls="", label="measured, each seed")
        axis.legend(loc="upper left", fontsize=9)
        axis.set_xlabel("probability that a packet is lost")
        axis.set_ylabel("packets per round-trip")

    def table(self, data: Data) -> Table:
        rows = [
            (
                f"{p:g}",
                kind.label,
                f"{RESPONSES[kind.key](p):.0f}" if p <= self.REGIME.get(kind.key, 1) else "–",
                f"{thrown(kind.key, p):.0f}",
                shown(values, 0),
            )
            for p in sorted(axis_values(data), reverse=True)
            for kind in kinds_of(data)
            if (values := of(data, f"{kind.key}-{p:g}", "packets"))
        ]
        return Table(("p", "protocol", "formula", "dice", "measured"), tuple(rows))
