# SPDX-License-Identifier: GPL-2.0
"""Accuracy of the send rate formula."""

import statistics
from dataclasses import dataclass
from typing import Any

from fairlab.figures.studies.gaimd.common import (
    FAST,
    GAIMD,
    LINUX,
    LOOKS,
    NAMES,
    PLACE,
    QUEUES,
    RED,
    RENO_OF_2000,
    RTT,
    SOURCE,
    TAIL,
    TCP,
    WHOLE_PACKETS,
    accounts_of,
    check_use,
    pair,
    total,
    variation,
)
from fairlab.figures.studies.gaimd.model import alpha_to
from fairlab.figures.studies.spread import mean_of, spread
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome

BETAS = (0.5, 0.75, 0.875)
ALPHAS = (0.1, 0.4, 1.0)
SOURCES = (10, 40, 70)
MORE_SOURCES = 100
SINGLE, MODERN = "single", "modern"
EXAMPLE = (0.4, 0.75)
AGGRESSIVE = (1.0, 0.875)


@dataclass(frozen=True)
class Load:
    """GAIMD(alpha, beta) and Reno beside a number of UDP sources."""

    alpha: float
    beta: float
    queue: str
    sources: int
    modern: bool = False  # with SACK, RACK, TLP and F-RTO

    @property
    def name(self) -> str:
        words = [f"a{1000 * self.alpha:.0f}", f"b{1000 * self.beta:.0f}", self.queue]
        return "-".join([*words, f"{self.sources}", *(["linux"] if self.modern else [])])


class Formula(Study):
    """Accuracy of the formula (slides 8 to 16)."""

    name = "gaimd-formula"
    title = "Accuracy of the formula for GAIMD's rate"
    source = f"{SOURCE}, slides 8 to 16"
    setting = (
        "16 Reno flows, 16 GAIMD(α, β) flows, and 10 to 70 UDP sources that are on for 1 s and off"
        " for 2 s on average (Pareto) and send 500 kbit/s while on, for loss of 1 to 30 %; for"
        " each β, α from 0.1 to 1; drop-tail and RED. The metric is the predicted rate divided by"
        " the measured send rate."
    )
    assumptions = (
        *PLACE,
        "The bottleneck has 15 Mbit/s, as in the other experiments. Pareto's shape is 1.5, ns-2's.",
        "We take the slides' loss rate as the queue's drop rate of all packets, and p in the"
        " formula as the fraction of a flow's packets that indicate a loss, as Padhye et al."
        " count them: fast retransmissions and series of timeouts.",
        "RTT is the mean of TCP's measurements, T0 the mean of Linux's timer while it is not backed"
        " off (at least 200 ms more than the RTT), b is 1.",
        "Loss recovery close to that of the time: no SACK, RACK, TLP or F-RTO, which in Linux is"
        " NewReno. Some runs have all of them.",
        "40 s each, without the first 10 s. Runs with 100 sources are added, for more loss.",
    )
    loads = (
        *(Load(a, b, TAIL, n) for b in BETAS for a in ALPHAS for n in SOURCES),
        *(Load(a, 0.75, RED, n) for a in ALPHAS for n in SOURCES),
        *(Load(*EXAMPLE, queue, MORE_SOURCES) for queue in QUEUES),
        Load(*AGGRESSIVE, TAIL, MORE_SOURCES),
        *(Load(*EXAMPLE, q, n, True) for q in QUEUES for n in (*SOURCES, MORE_SOURCES)),
    )
    quick_loads = (Load(*EXAMPLE, TAIL, 10), Load(*EXAMPLE, TAIL, 70))

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(load.name, self.experiment(load, 20.0 if quick else 40.0, seed))
            for load in (self.quick_loads if quick else self.loads)
        ]

    def experiment(self, load: Load, seconds: float, seed: int) -> Experiment:
        stack = LINUX if load.modern else RENO_OF_2000
        params = load.alpha, load.beta
        # Less than an RTT, so that no loss indication is missed.
        look = 0.8 * RTT / 1e6
        return pair(16, FAST, load.queue, seconds, seed, params, stack, load.sources, look)

    def load(self, name: str) -> Load:
        return next(one for one in (*self.loads, *self.quick_loads) if one.name == name)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        load = self.load(case.name)
        found: Numbers = {
            "loss": round(outcome.loss, 5),
            "utilisation": round(outcome.utilisation, 4),
            "queue": round(float(outcome.within("backlog_packets").mean()), 1),
        }
        for group, params in ((TCP, (1.0, 0.5)), (GAIMD, (load.alpha, load.beta))):
            flows = accounts_of(outcome, group)
            all_flows = total(flows)
            lost = max(0.0, 1 - outcome.arrived_packets(group) / all_flows.segments)
            every = (all_flows.indications + all_flows.doubled) / all_flows.segments
            found[group] = {
                "p": round(all_flows.indications / all_flows.segments, 5),
                "timeouts": round(all_flows.timeouts / max(1, all_flows.indications), 4),
                "lost": round(lost, 5),
                "rtt": round(all_flows.rtt, 5),
                "t0": round(all_flows.t0, 5),
                "sent": round(all_flows.sent, 3),
                "ratio": round(all_flows.predicted(*params) / all_flows.sent, 4),
                # With other definitions of p: each timeout counts; each lost packet counts.
                "ratio_timeouts": round(all_flows.predicted(*params, every) / all_flows.sent, 4),
                "ratio_lost": round(all_flows.predicted(*params, lost) / all_flows.sent, 4),
                "flows": [round(one.predicted(*params) / one.sent, 3) for one in flows if one.sent],
            }
        return found

    # --- claims ---------------------------------------------------------------------------------

    def points(
        self, data: Data, kind: str, key: str = "ratio", modern: bool = False
    ) -> list[tuple[Load, float, float]]:
        """Load, loss, and what KEY says of KIND, for each run."""
        return [
            (load, run["loss"], run[kind][key])
            for name, runs in data.items()
            if (load := self.load(name)).modern == modern
            for run in runs
        ]

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        both = {kind: self.points(data, kind) for kind in (TCP, GAIMD)}
        every = both[TCP] + both[GAIMD]
        meek = [p for p in both[GAIMD] if p[0].alpha <= alpha_to(p[0].beta)]
        good = [ratio for _, loss, ratio in both[TCP] + meek if loss <= 0.2]
        apart = [
            gaimd[2] / tcp[2]
            for tcp, gaimd in zip(both[TCP], both[GAIMD], strict=True)
            if tcp[2] and gaimd[2]
        ]
        claims = [
            Claim(
                "the formula is accurate up to 20 % loss, for α up to TO-friendly",
                "good to about 20 %, but for aggressive α and β (slides 12, 16)",
                f"predicted / sent: {spread(good)}",
                "mean within 25 % of 1, each within 50 %",
                abs(mean_of(good) - 1) <= 0.25 and all(0.5 <= r <= 1.5 for r in good),
                "without SACK, recovery repairs one loss per round trip, and little is sent"
                f" meanwhile: in the model recovery takes no time; and {WHOLE_PACKETS}",
                basis="words",
            ),
            Claim(
                "the formula's error is the same for Reno and GAIMD",
                "over-estimates are similar, in most experiments (slide 16)",
                f"GAIMD's ratio / Reno's: {spread(apart)}",
                "mean within 15 % of 1",
                abs(mean_of(apart) - 1) <= 0.15,
                "the error depends on α and β",
                basis="words",
            ),
        ]
        if quick:
            return claims
        return [*claims, *self.more_claims(data, every)]

    def more_claims(self, data: Data, every: list[tuple[Load, float, float]]) -> list[Claim]:
        beyond = [ratio for _, loss, ratio in every if loss > 0.2]
        below = [ratio for _, loss, ratio in every if loss <= 0.2]
        tail = self.points(data, GAIMD)
        meek = [r for load, _, r in tail if load.beta == 0.875 and load.alpha == ALPHAS[0]]
        bold = [
            r
            for load, _, r in tail
            if (load.alpha, load.beta) == AGGRESSIVE and load.sources in SOURCES
        ]
        by_queue = {
            queue: [
                ratio
                for load, _, ratio in every
                if load.queue == queue and load.beta == 0.75 and load.sources in SOURCES
            ]
            for queue in QUEUES
        }
        patterns = mean_of(by_queue[RED]) / mean_of(by_queue[TAIL])
        spreads = self.spreads(data)
        low = [s for loss, s in spreads if loss <= 0.1]
        high = [s for loss, s in spreads if loss > 0.1]
        return [
            Claim(
                "the formula over-estimates at high loss",
                "overestimates when the loss rate is high (slides 12, 16)",
                f"beyond 20 %: {spread(beyond)}; below: {spread(below)}",
                "more than 1.1 on average, and more than below",
                mean_of(beyond) > max(1.1, mean_of(below)),
                "Linux's timeouts differ from the model's",
                basis="words",
            ),
            Claim(
                "the formula over-estimates for aggressive α and β",
                "overestimates when α, β are aggressive (slide 16)",
                f"GAIMD(1, 0.875): {spread(bold)}; GAIMD(0.1, 0.875): {spread(meek)}",
                "more for the first",
                mean_of(bold) > mean_of(meek),
                "the same drop rate gives a different p for both",
                basis="words",
            ),
            Claim(
                "drop-tail and RED differ little",
                "loss patterns do not have a large impact (slide 16)",
                f"RED's ratio / drop-tail's: {patterns:.2f}",
                "within 20 % of 1",
                abs(patterns - 1) <= 0.2,
                "RED's losses are isolated; the model has them in bursts",
                basis="words",
            ),
            Claim(
                "flows differ little up to 10 % loss",
                "sending rate variance is small up to 10 % (slides 14 to 16)",
                f"deviation of single flows' ratios: {spread(low)}; beyond 10 %: {spread(high)}",
                "0.2 or less on average, and less than beyond",
                mean_of(low) <= 0.2 and mean_of(low) < mean_of(high),
                "in 30 s a flow has few losses, so its p is imprecise",
                basis="words",
            ),
        ]

    def spreads(self, data: Data) -> list[tuple[float, float]]:
        """Loss, and by how much single flows' ratios deviate, for each run and kind."""
        return [
            (run["loss"], variation(run[kind]["flows"]))
            for name, runs in data.items()
            if not self.load(name).modern
            for run in runs
            for kind in (TCP, GAIMD)
        ]

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            load = self.load(name)
            for kind in (TCP, GAIMD):
                seen = [run[kind] for run in runs]
                mean = {
                    key: statistics.fmean(one[key] for one in seen)
                    for key in ("p", "timeouts", "rtt", "t0", "sent")
                }
                stack = ", current Linux" if load.modern else ""
                which = f"({load.alpha:g}, {load.beta:g})" if kind == GAIMD else "Reno"
                rows.append(
                    (
                        f"({load.alpha:g}, {load.beta:g}), {QUEUES[load.queue]},"
                        f" {load.sources} UDP{stack}",
                        which,
                        f"{100 * statistics.fmean(run['loss'] for run in runs):.1f} %",
                        f"{100 * mean['p']:.1f} %",
                        f"{100 * mean['timeouts']:.0f} %",
                        f"{1000 * mean['rtt']:.0f} ms",
                        f"{1000 * mean['t0']:.0f} ms",
                        f"{mean['sent']:.1f}/s",
                        spread([one["ratio"] for one in seen]),
                        spread([one["ratio_timeouts"] for one in seen]),
                        spread([one["ratio_lost"] for one in seen]),
                    )
                )
        columns = (
            "case",
            "flows",
            "dropped",
            "p",
            "by timeout",
            "RTT",
            "T0",
            "packets",
            "predicted / sent",
            "if each timeout counts",
            "if each lost packet counts",
        )
        return Table(columns, tuple(rows))

    def draw(self, figure: Any, data: Data) -> None:
        """Predicted / sent by loss: each queue, single flows, and current Linux."""
        loads = [self.load(name) for name in data]
        titles = {
            TAIL: "drop-tail, loss recovery of 2000",
            RED: "RED, the same",
            SINGLE: "single flows, GAIMD(0.4, 0.75)",
            MODERN: "current Linux (SACK, RACK, TLP), GAIMD(0.4, 0.75)",
        }
        there = {load.queue for load in loads if not load.modern} | {SINGLE}
        there |= {MODERN for load in loads if load.modern}
        shown = [panel for panel in titles if panel in there]
        figure.set_size_inches(7, 0.5 + 2.7 * len(shown))
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        axes = dict(zip(shown, panels, strict=True))
        for panel, axis in axes.items():
            axis.set_title(titles[panel], loc="left", fontsize=10)
            axis.axhline(1, color="black", lw=1)
            axis.axvspan(0, 20, color="#f1f1f1", zorder=0, lw=0)
            axis.set_ylim(0, 3)
            axis.set_ylabel("predicted / sent")
            if panel in QUEUES:
                self._draw_points(axis, data, panel)
            else:
                self._draw_example(axis, data, panel == MODERN)
        panels[0].text(19.7, 0.06, "published: good to 20 %, over-estimates beyond", ha="right")
        panels[-1].set_xlabel("dropped by the queue (%)")
        most = max(run["loss"] for runs in data.values() for run in runs)
        panels[-1].set_xlim(0, max(22.0, 100 * most + 2))

    def _draw_example(self, axis: Any, data: Data, modern: bool) -> None:
        """The slides' example: single flows, or all flows with current Linux."""
        for name, runs in data.items():
            load = self.load(name)
            if (load.alpha, load.beta) != EXAMPLE or load.modern != modern:
                continue
            for run in runs:
                for kind, shift in ((TCP, -0.2), (GAIMD, 0.2)):
                    ratios = [run[kind]["ratio"]] if modern else run[kind]["flows"]
                    xs = [100 * run["loss"] + shift] * len(ratios)
                    mark = "o" if load.queue == TAIL else "s"
                    look: dict[str, Any] = {"color": LOOKS[kind], "ls": "", "mec": "none"}
                    look |= {"ms": 6 if modern else 3, "alpha": 1.0 if modern else 0.5}
                    axis.plot(xs, ratios, mark, **look)
        for x, kind in ((0.02, TCP), (0.13, GAIMD)):
            axis.text(x, 0.88, NAMES[kind], color=LOOKS[kind], transform=axis.transAxes)
        queues = {self.load(name).queue for name in data}
        if len(queues) > 1:
            axis.text(0.30, 0.88, "round: drop-tail   square: RED", transform=axis.transAxes)

    def _draw_points(self, axis: Any, data: Data, queue: str) -> None:
        marks = dict(zip(BETAS, ("^", "o", "s"), strict=True))
        shades = dict(zip(ALPHAS, ("#f2b28c", "#D55E00", "#7a2f00"), strict=True))
        seen = set()
        for name, runs in data.items():
            load = self.load(name)
            if load.modern or load.queue != queue:
                continue
            seen.add((load.alpha, load.beta))
            for run in runs:
                loss = 100 * run["loss"]
                axis.plot([loss], [run[TCP]["ratio"]], "x", color=LOOKS[TCP], ms=5, alpha=0.8)
                look = {"color": shades[load.alpha], "mec": "none"}
                axis.plot([loss], [run[GAIMD]["ratio"]], marks[load.beta], ms=6, ls="", **look)
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], ls="", marker="x", color=LOOKS[TCP], label="Reno")]
        handles += [
            Line2D([], [], ls="", marker="o", mec="none", color=shades[a], label=f"α = {a:g}")
            for a in ALPHAS
            if any(alpha == a for alpha, _ in seen)
        ]
        handles += [
            Line2D([], [], ls="", marker=marks[b], mec="none", color="#555555", label=f"β = {b:g}")
            for b in BETAS
            if any(beta == b for _, beta in seen)
        ]
        axis.legend(handles=handles, loc="upper left", ncols=4, fontsize=9, handletextpad=0.1)
