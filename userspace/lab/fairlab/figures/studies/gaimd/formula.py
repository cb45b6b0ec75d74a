# SPDX-License-Identifier: GPL-2.0
"""Accuracy of the send rate formula."""

import statistics
from collections.abc import Iterator
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
    accounts_of,
    check_use,
    pair,
    total,
    variation,
)
from fairlab.figures.studies.gaimd.model import alpha_to
from fairlab.figures.studies.spread import by_seed, factor_apart, mean_of, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
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
        seconds = 20.0 if quick else 40.0
        found = []
        for load in self.quick_loads if quick else self.loads:
            stack = LINUX if load.modern else RENO_OF_2000
            params = load.alpha, load.beta
            # Less than an RTT, so that no loss indication is missed.
            look = 0.8 * RTT / 1e6
            what = pair(16, FAST, load.queue, seconds, seed, params, stack, load.sources, look)
            found.append(Case(load.name, what))
        return found

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

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        old = {name: runs for name, runs in data.items() if not self.load(name).modern}
        return by_seed(old, self.measure_quick if quick else self.measure_seed)

    def points(self, seed: dict[str, Numbers], kind: str) -> list[tuple[Load, float, float]]:
        """Load, loss, and the predicted rate of KIND divided by what was sent, for each case."""
        return [(self.load(n), run["loss"], run[kind]["ratio"]) for n, run in seed.items()]

    def measure_quick(self, seed: dict[str, Numbers]) -> dict[str, float | dict[str, float]]:
        tcp, mine = self.points(seed, TCP), self.points(seed, GAIMD)
        meek = [point for point in mine if point[0].alpha <= alpha_to(point[0].beta)]
        good = [ratio for _, loss, ratio in tcp + meek if loss <= 0.2]
        apart = [g[2] / t[2] for t, g in zip(tcp, mine, strict=True) if t[2] and g[2]]
        return {
            "accurate": mean_of(good),
            "accurate-each": {"least": min(good), "most": max(good)},
            "same": factor_apart(apart),
        }

    def measure_seed(self, seed: dict[str, Numbers]) -> dict[str, float | dict[str, float]]:
        mine = self.points(seed, GAIMD)
        every = self.points(seed, TCP) + mine
        beyond = mean_of([ratio for _, loss, ratio in every if loss > 0.2])
        below = mean_of([ratio for _, loss, ratio in every if loss <= 0.2])
        bold = [
            ratio
            for load, _, ratio in mine
            if (load.alpha, load.beta) == AGGRESSIVE and load.sources in SOURCES
        ]
        meek = [r for load, _, r in mine if (load.alpha, load.beta) == (ALPHAS[0], AGGRESSIVE[1])]
        tail, red = (
            [
                ratio
                for load, _, ratio in every
                if load.queue == queue and load.beta == EXAMPLE[1] and load.sources in SOURCES
            ]
            for queue in (TAIL, RED)
        )
        spreads = [
            (run["loss"], variation(run[kind]["flows"]))
            for run in seed.values()
            for kind in (TCP, GAIMD)
        ]
        low, high = (
            mean_of([one for loss, one in spreads if (loss > 0.1) == more])
            for more in (False, True)
        )
        return self.measure_quick(seed) | {
            "beyond": beyond,
            "beyond-below": beyond - below,
            "aggressive": mean_of(bold) - mean_of(meek),
            "queues": factor_apart([a / b for a, b in zip(red, tail, strict=True)]),
            "flows": low,
            "flows-beyond": high - low,
        }

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            load = self.load(name)
            params = f"({load.alpha:g}, {load.beta:g})"
            case = f"{params}, {QUEUES[load.queue]}, {load.sources} UDP"
            for kind in (TCP, GAIMD):
                seen = [run[kind] for run in runs]
                mean = {
                    key: statistics.fmean(one[key] for one in seen)
                    for key in ("p", "timeouts", "rtt", "t0", "sent")
                }
                yield {
                    "case": f"{case}, current Linux" if load.modern else case,
                    "flows": params if kind == GAIMD else "Reno",
                    "dropped": f"{100 * statistics.fmean(run['loss'] for run in runs):.1f} %",
                    "p": f"{100 * mean['p']:.1f} %",
                    "by timeout": f"{100 * mean['timeouts']:.0f} %",
                    "RTT": f"{1000 * mean['rtt']:.0f} ms",
                    "T0": f"{1000 * mean['t0']:.0f} ms",
                    "packets": f"{mean['sent']:.1f}/s",
                    "predicted / sent": spread([one["ratio"] for one in seen]),
                    "if each timeout counts": spread([one["ratio_timeouts"] for one in seen]),
                    "if each lost packet counts": spread([one["ratio_lost"] for one in seen]),
                }

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
