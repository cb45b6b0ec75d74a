# SPDX-License-Identifier: GPL-2.0
"""Response functions: mean window by loss probability."""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from fairlab.figures.studies.bic.common import (
    AIMD,
    BIC,
    KINDS,
    PAPER,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    kinds_of,
    name_ends,
    over,
    runs_of,
)
from fairlab.figures.studies.bic.rules import RESPONSES, simulated
from fairlab.figures.studies.spread import ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
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

    def cases(self, quick: bool, seed: int) -> list[Case]:
        losses = self.QUICK_LOSSES if quick else self.LOSSES
        return [
            Case(f"{kind.key}-{loss:g}", self.experiment(kind, loss, count, seed))
            for loss, count in losses.items()
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, loss: float, count: int, seed: int) -> Experiment:
        took = count / loss / RESPONSES[kind.key](loss) * RTT / 1e6
        warmup = self.WARMUP_SECONDS + round(self.WARMUP_SHARE * took)
        seconds = warmup + math.ceil(took)
        flow, look = kind.flows("a", 1), max(0.1, seconds / 500)
        return over(self.RATE, 1, (flow,), seconds, warmup, seed, loss=loss, look=look)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        packets = outcome.goodput("a", 0) / 8 / what.payload * RTT / 1e6
        return {
            "p": what.loss,
            "packets": round(packets, 2),
            "dropped": outcome.columns["drops"][-1],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        packet, rtt = 1250, 0.1
        window = 10e9 * rtt / (8 * packet)
        p = 1.5 / window**2
        found: dict[str, Measured] = {
            "reno-loss": [p],
            "reno-bits": [p / (8 * packet)],
            "aimd-formula": [RESPONSES["aimd"](p) / RESPONSES["reno"](p)],
        }
        losses = sorted(axis_values(data), reverse=True)
        seen = {
            (kind, p): kind.values(data, p, "packets") for p in losses for kind in kinds_of(data)
        }
        if AIMD in kinds_of(data):
            found["aimd-measured"] = {
                f"p = {p:g}": ratios(seen[AIMD, p], seen[RENO, p]) for p in losses
            }
        for (kind, p), values in seen.items():
            found[f"rules-{kind.key}-{p:g}"] = [one / simulated(kind.key, p) for one in values]
            if p <= self.REGIME.get(kind.key, 1):
                formula = RESPONSES[kind.key](p)
                found[f"formula-{kind.key}-{p:g}"] = [one / formula for one in values]
        return found

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
                values = kind.values(data, p, "packets")
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

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for p, kind, runs in sorted(runs_of(data), key=lambda one: -one[0]):
            formula = RESPONSES[kind.key](p)
            yield {
                "p": f"{p:g}",
                "protocol": kind.label,
                "formula": f"{formula:.0f}" if p <= self.REGIME.get(kind.key, 1) else "–",
                "simulated rules": f"{simulated(kind.key, p):.0f}",
                "measured": spread([run["packets"] for run in runs], 0),
            }
