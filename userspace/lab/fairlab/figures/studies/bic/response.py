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
    bdp,
    kinds_of,
    long_flows,
    name_ends,
    values_of,
)
from fairlab.figures.studies.bic.rules import RESPONSES, simulated
from fairlab.figures.studies.spread import spread
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome


class Response(Study):
    """Response functions (slides 9, 14, 18, 35 to 37)."""

    name = "bic-response"
    title = "Response functions: mean window by loss probability"
    source = f"{SLIDES}, slides 9 to 18 and 35 to 37; formulas of {PAPER}, RFC 3649"
    setting = (
        "Formulas: packets per round trip by the loss probability p, for periodic losses."
        " Reno √(1.5/p); AIMD(32, ⅛) √(240/p), 13 times Reno at any p;"
        " HSTCP 0.12/p^0.835; STCP 0.08/p; BIC by Smax 32, Smin 0.01, β ⅛."
    )
    # Loss probability -> expected number of losses in a run.
    LOSSES: ClassVar[dict[float, int]] = {1e-3: 400, 1e-4: 200, 1e-5: 60}
    QUICK_LOSSES: ClassVar[dict[float, int]] = {1e-3: 300}
    RATE = 5000
    WARMUP_SECONDS, WARMUP_SHARE = 10, 0.1
    SIMULATION, FORMULA = 0.15, 0.25
    assumptions = (
        "One flow, RTT 100 ms, 5 Gbit/s, so that the link hardly ever limits it; packets of 1500"
        " bytes.",
        "p is the probability with which netem drops each data packet independently. The formulas'"
        " p counts losses that reduce the window: fewer, where several packets of a round trip are"
        " lost (AIMD at p = 0.001: 0.5 per round trip).",
        "The duration gives 400, 200, 60 expected losses at p = 1e-3, 1e-4, 1e-5; a smaller p"
        " would need billions of packets. With 60 losses, the standard deviation of a run is 6 %,"
        " for HSTCP and STCP 10 % (found by simulation).",
        "Simulation: the published rules round by round, with 2000 random losses.",
        "BIC's formula is for windows above 512 packets, 2 Smax/β: p below 1.5e-4.",
    )
    REGIME: ClassVar[dict[str, float]] = {"bic": 1.5e-4}
    CHANCE = "chance: a mean over 60 losses has a standard deviation of 6 to 10 %"
    STEPS = (
        "mainline's table rounds up: from 39 packets on the window grows by two per round trip, as"
        " RFC 3649 does at 118. A simulation with that table gives 55 packets at p = 0.001 and 291"
        " at 0.0001"
    )
    FAR = (
        "losses are random: many occur when the window is far from Wmax, and then BIC grows faster"
        " than with the periodic losses of the formula; so do its simulated rules"
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
            buffer=bdp(rate, RTT),
            groups=(long_flows(kind, "a", 1),),
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

    def published_claims(self, data: Data) -> list[Claim]:
        """Published numbers: by the formula, and measured."""
        packet, rtt = 1250, 0.1
        window = 10e9 * rtt / (8 * packet)
        p = 1.5 / window**2
        bits = p / (8 * packet)
        by_formula = RESPONSES["aimd"](p) / RESPONSES["reno"](p)
        found = [
            Claim(
                "Reno's packet loss and bit error rate at 10 Gbit/s, by the formula",
                "10^-10 and 10^-14, with 1250 bytes and 100 ms (slide 10)",
                f"{p:.2g} and {bits:.2g}, at {window:,.0f} packets",
                "a factor of 2: published as powers of ten",
                all(0.5 <= ours / rounded <= 2 for ours, rounded in ((p, 1e-10), (bits, 1e-14))),
                basis="number",
            ),
            Claim(
                "AIMD(32, ⅛) over Reno, by the formula",
                "about 13 times, always (slide 14)",
                f"{by_formula:.2f} times, at any p",
                "13 if rounded",
                round(by_formula) == 13,
                basis="number",
            ),
        ]
        ratios = {
            p: fmean(aimd) / fmean(reno)
            for p in sorted(axis_values(data), reverse=True)
            if (aimd := values_of(data, f"aimd-{p:g}", "packets"))
            and (reno := values_of(data, f"reno-{p:g}", "packets"))
        }
        if ratios:
            found.append(
                Claim(
                    "AIMD(32, ⅛) over Reno, measured",
                    "about 13 times, always (slide 14)",
                    ", ".join(f"{ratio:.1f} at p = {p:g}" for p, ratio in ratios.items()),
                    "13 ± 1.3 at each p: chance is 6 % of each mean",
                    all(abs(ratio - 13) <= 1.3 for ratio in ratios.values()),
                    self.CHANCE,
                    basis="number",
                )
            )
        return found

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = self.published_claims(data)
        for p in sorted(axis_values(data), reverse=True):
            for kind in kinds_of(data):
                values = values_of(data, f"{kind.key}-{p:g}", "packets")
                if not values:
                    continue
                here = fmean(values)
                formula = RESPONSES[kind.key](p)
                why = (
                    "chance: a mean over 60 losses has a standard deviation of 6 to 10 %"
                    if p <= 1e-5
                    else ""
                )
                if kind is HSTCP and not why:
                    why = self.STEPS
                found.append(self.rules(kind.label, kind.key, p, values, why))
                if p > self.REGIME.get(kind.key, 1):
                    continue
                if kind is BIC:
                    why = self.FAR
                found.append(
                    Claim(
                        f"{kind.label}, p = {p:g}: formula",
                        f"{formula:.0f} packets per round trip",
                        spread(values, 0),
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
        """The measured window against the simulated published rules."""
        packets = simulated(key, p)
        return Claim(
            f"{label}, p = {p:g}: simulated rules",
            f"the published rules, simulated: {packets:.0f} packets per round trip",
            spread(values, 0),
            f"{100 * self.SIMULATION:.0f} %",
            abs(fmean(values) / packets - 1) <= self.SIMULATION,
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
            rules = [simulated(kind.key, p) for p in some]
            axis.plot(some, rules, color=kind.colour, linewidth=1.4, linestyle=":")
            for p in measured:
                values = values_of(data, f"{kind.key}-{p:g}", "packets")
                axis.plot(
                    [p] * len(values), values, kind.marker, color=kind.colour, ms=6, alpha=0.8
                )
        axis.set_xlim(last, first)
        name_ends(axis, [(RESPONSES[kind.key](first), kind) for kind in kinds_of(data)])
        for look, words in (("-", "formula"), (":", "rules, simulated")):
            axis.plot([], [], color="black", linestyle=look, linewidth=1.2, label=words)
        axis.plot([], [], "o", color="black", ms=6, ls="", label="measured, each seed")
        axis.legend(loc="upper left", fontsize=9)
        axis.set_xlabel("loss probability")
        axis.set_ylabel("packets per round trip")

    def table(self, data: Data) -> Table:
        rows = [
            (
                f"{p:g}",
                kind.label,
                f"{RESPONSES[kind.key](p):.0f}" if p <= self.REGIME.get(kind.key, 1) else "–",
                f"{simulated(kind.key, p):.0f}",
                spread(values, 0),
            )
            for p in sorted(axis_values(data), reverse=True)
            for kind in kinds_of(data)
            if (values := values_of(data, f"{kind.key}-{p:g}", "packets"))
        ]
        return Table(("p", "protocol", "formula", "simulated rules", "measured"), tuple(rows))
