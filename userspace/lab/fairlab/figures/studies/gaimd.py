# SPDX-License-Identifier: GPL-2.0
"""GAIMD: Yang and Lam, "General AIMD congestion control" (ICNP 2000), from Lam's slides.

GAIMD(α, β) adds α packets to its window in each round trip and keeps the fraction β of it after a
loss; Reno is (1, 1/2).  The authors extend the formula of Padhye et al. for Reno's rate to any α
and β, use it to choose (0.31, 0.875) as TCP-friendly, and check that by simulation.  The studies
repeat this with tcp_gaimd and Linux's Reno.

In the formula p is the fraction of sent packets that indicate a loss.  Padhye et al. counted loss
indications in traces: each fast retransmission, and each sequence of timeouts without an ACK
between them.  The studies count them in the same way, from samples of TCP_INFO closer together than
a round trip: both kinds last at least that long.  RTT is the mean of TCP's measurements (it
includes the queue), T0 the mean of the retransmission timer while it is not backed off.  Linux's
timer is at least 200 ms longer than the RTT, so T0 is about four RTTs.

Linux's loss recovery is much younger than the formula: SACK, RACK, tail loss probes and F-RTO.  The
study of the formula disables them (RENO_OF_2000), since it is about the model's assumptions, and
runs some cases with them.

An ACK of several packets counts as that many, in tcp_gaimd as in Linux's Reno: b is 1.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlab.figures.studies.gaimd_model import (
    CHOSEN,
    alpha_least,
    alpha_td,
    alpha_to,
    equal_everywhere,
    exponents,
    monotone,
    rate,
    steadiness,
    synchronous,
)
from fairlab.figures.studies.spread import by_seed, factor_apart, mean, mean_of, ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study
from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.results import plots
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome
from fairlab.results.plots import note

SOURCE = "Yang, Lam: General AIMD Congestion Control (ICNP 2000), slides"
TAIL, RED = "tail", "red"
QUEUES = {TAIL: "drop-tail", RED: "RED"}
TCP, GAIMD, UDP = "tcp", "gaimd", "udp"
LOOKS = {TCP: plots.COLOURS[0], GAIMD: plots.COLOURS[1]}
NAMES = {TCP: "Reno", GAIMD: "GAIMD"}
FAST, SLOW = 15_000_000, 1_500_000
RTT, MTU = 50_000, 1000

# All connect before any can have sent data [s]: ns-2's TCP has no handshake, and a flow that
# loses several SYNs would start a minute later.
SPREAD = 0.9 * RTT / 1e6

# The buffer, RED's minimum and maximum thresholds [packets], and the burst for which tc computes
# 2^-9 as the weight of a new packet in the average (ns-2: 0.002).
QUEUE_SIZES = {FAST: (100, 20, 60, 120), SLOW: (25, 5, 15, 55)}
# The maximum is three times the minimum, as RED's authors advise, and for one more reason: Linux's
# RED detects idle times by a failing dequeue, but a tbf above it only peeks.  So its average decays
# with each arriving packet, and not while none arrives.  If a slow start raises the average above
# the maximum, RED drops everything, few packets arrive, and that can last for minutes.  RED as
# published does not do that; such runs are refused.
RED_MOST = 0.1  # drop probability at the maximum threshold

RENO_OF_2000 = tuple(
    (name, "0") for name in ("tcp_sack", "tcp_recovery", "tcp_early_retrans", "tcp_frto")
)
LINUX: tuple[tuple[str, str], ...] = ()

# enum tcp_ca_state
RECOVERY = 3

PLACE = (
    "The slides do not give delays, packet sizes and queues. The base RTT is 50 ms (averages over"
    " 150 ms are over 2 to 3 RTTs), packets have 1000 bytes including the IP header.",
    "Buffers: 100 packets at 15 Mbit/s, 25 at 1.5 Mbit/s. RED: ns-2's usual weight (0.002) and"
    " probability (0.1), thresholds of 20 and 60 packets, or 5 and 15 at 1.5 Mbit/s; above, it"
    " drops all. Linux's RED below a shaper does not detect idle times, so its average only decays"
    " as packets arrive.",
    "TCP flows connect within 45 ms, at random times, before any has sent data.",
)
STACK = (
    "Reno and GAIMD use Linux's loss recovery (SACK, RACK, tail loss probes); the source says that"
    " its results are the same with SACK.",
)


def red_words(bps: int) -> str:
    buffer, least, most, burst = QUEUE_SIZES[bps]
    frame = MTU + headers.ETHERNET
    return (
        f"red limit {buffer * frame} min {least * frame} max {most * frame} avpkt {frame}"
        f" burst {burst} probability {RED_MOST:g} bandwidth {bps // 1000}kbit"
    )


def pair(
    n: int,
    bps: int,
    queue: str,
    seconds: float,
    seed: int,
    alpha_beta: tuple[float, float] = CHOSEN,
    stack: tuple[tuple[str, str], ...] = LINUX,
    sources: int = 0,
    look: float = 0.1,
) -> Experiment:
    """N Reno flows, N GAIMD flows, and optionally SOURCES of UDP, over one bottleneck."""
    names = ("gaimd_alpha", "gaimd_beta")
    params = [(name, f"{round(1000 * v)}") for name, v in zip(names, alpha_beta, strict=True)]
    groups = [
        Group(TCP, RTT, (Stream("reno", n, spread=SPREAD),), settings=stack),
        Group(GAIMD, RTT, (Stream("gaimd", n, spread=SPREAD),), settings=(*stack, *params)),
    ]
    if sources:
        packet, on, off = MTU - headers.DATAGRAM, "pareto:1.5:1", "pareto:1.5:2"
        on_off = Stream("udp", sources, rate=500_000, packet=packet, on=on, off=off)
        groups.append(Group(UDP, RTT, (on_off,)))
    buffer, warmup = QUEUE_SIZES[bps][0], min(20.0, seconds / 4)
    words = red_words(bps) if queue == RED else ""
    return Experiment(bps, buffer, tuple(groups), seconds, warmup, seed, words, MTU, look=look)


@dataclass(frozen=True)
class Account:
    """Loss statistics of a flow between its first and last sample."""

    fast: int  # fast retransmissions
    timeouts: int  # the first of a series
    doubled: int  # the others of a series
    segments: int
    seconds: float
    rtt: float
    t0: float  # 0 if it was always backed off

    @property
    def indications(self) -> int:
        return self.fast + self.timeouts

    @property
    def sent(self) -> float:
        """Segments per second."""
        return self.segments / self.seconds

    def predicted(self, alpha: float, beta: float, p: float | None = None) -> float:
        """The send rate by the formula [segments/s]; 0 without losses."""
        if p is None:
            p = self.indications / self.segments if self.segments else 0.0
        return rate(p, self.rtt, self.t0, alpha, beta) if p and self.t0 else 0.0


def account(rows: Any, first: float, last: float) -> Account:
    """The statistics of a flow from its samples between FIRST and LAST [s]."""
    times = rows["time"] / 1e9
    rows = rows[(times >= first) & (times <= last)]
    if len(rows) < 2:
        raise CannotRunError(f"a flow has fewer than two samples after {first:g} s")
    states, limits = rows["state"].tolist(), rows["ssthresh"].tolist()
    waits = rows["timeouts"].tolist()
    fast = sum(
        now == RECOVERY and (before != RECOVERY or low != high)
        for (before, now), (high, low) in zip(pairwise(states), pairwise(limits), strict=True)
    )
    rises = [(before, now) for before, now in pairwise(waits) if now > before]
    still = rows["rto"][rows["timeouts"] == 0]
    return Account(
        fast=fast,
        timeouts=sum(not before for before, _ in rises),
        doubled=sum(now - max(before, 1) for before, now in rises),
        segments=int(rows["segments"][-1]) - int(rows["segments"][0]),
        seconds=float(rows["time"][-1] - rows["time"][0]) / 1e9,
        rtt=float(rows["rtt"].mean()) / 1e6,
        t0=float(still.mean()) / 1e6 if len(still) else 0.0,
    )


def total(accounts: Sequence[Account]) -> Account:
    """The sums over several flows; times are means."""
    still = [one.t0 for one in accounts if one.t0]
    counts = ("fast", "timeouts", "doubled", "segments")
    return Account(
        **{name: sum(getattr(one, name) for one in accounts) for name in counts},
        seconds=statistics.fmean(one.seconds for one in accounts) * len(accounts),
        rtt=statistics.fmean(one.rtt for one in accounts),
        t0=statistics.fmean(still) if still else 0.0,
    )


def accounts_of(outcome: Outcome, group: str) -> list[Account]:
    rows = outcome.rows[group]
    first, last = outcome.window
    count = len(outcome.what.kinds()[group])
    return [account(rows[rows["flow"] == n], first, last) for n in range(count)]


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation."""
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean else 0.0


def check_use(outcome: Outcome) -> None:
    """Refuse a run in which RED kept the flows from using the link."""
    if outcome.utilisation < 0.5:
        raise CannotRunError(
            f"only {100 * outcome.utilisation:.0f} % of the bottleneck was used: RED's average did"
            " not decay while the queue was empty"
        )


# --- accuracy of the send rate formula ------------------------------------------------------------

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
        return next(one for one in self.loads if one.name == name)

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
        bold, meek = (
            [
                ratio
                for load, _, ratio in mine
                if (load.alpha, load.beta) == params and load.sources in SOURCES
            ]
            for params in (AGGRESSIVE, (ALPHAS[0], AGGRESSIVE[1]))
        )
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
        few, many = (
            [100 * run["loss"] for name, run in seed.items() if self.load(name).sources == sources]
            for sources in (SOURCES[0], SOURCES[-1])
        )
        return self.measure_quick(seed) | {
            "loss-least": min(few),
            "loss-most": max(many),
            "beyond": beyond,
            "beyond-below": beyond - below,
            "aggressive": mean_of(bold) - mean_of(meek),
            "queues": factor_apart([a / b for a, b in zip(red, tail, strict=True)]),
            "flows": low,
            "flows-beyond": high - low,
        }

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            load = self.load(name)
            params = f"({load.alpha:g}, {load.beta:g})"
            case = f"{params}, {QUEUES[load.queue]}, {load.sources} UDP"
            for kind in (TCP, GAIMD):
                seen = [run[kind] for run in runs]
                yield {
                    "case": f"{case}, current Linux" if load.modern else case,
                    "flows": params if kind == GAIMD else "Reno",
                    "dropped": f"{100 * mean(runs, 'loss'):.1f} %",
                    "p": f"{100 * mean(seen, 'p'):.1f} %",
                    "by timeout": f"{100 * mean(seen, 'timeouts'):.0f} %",
                    "RTT": f"{1000 * mean(seen, 'rtt'):.0f} ms",
                    "T0": f"{1000 * mean(seen, 't0'):.0f} ms",
                    "packets": f"{mean(seen, 'sent'):.1f}/s",
                    "predicted / sent": spread([one["ratio"] for one in seen]),
                    "if each timeout counts": spread([one["ratio_timeouts"] for one in seen]),
                    "if each lost packet counts": spread([one["ratio_lost"] for one in seen]),
                }

    draw_most = 3  # predicted / sent

    def draw(self, figure: Any, data: Data) -> None:
        """Predicted / sent by loss: each queue, single flows, and current Linux."""
        loads = [self.load(name) for name in data]
        titles = {
            TAIL: "drop-tail, loss recovery of 2000",
            RED: "RED, the same",
            SINGLE: "single flows, GAIMD(0.4, 0.75)",
            MODERN: "current Linux (SACK, RACK, TLP), GAIMD(0.4, 0.75)",
        }
        there = {MODERN if load.modern else load.queue for load in loads} | {SINGLE}
        shown = [panel for panel in titles if panel in there]
        figure.set_size_inches(7, 0.5 + 2.7 * len(shown))
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        axes = dict(zip(shown, panels, strict=True))
        for panel, axis in axes.items():
            axis.set_title(titles[panel], loc="left", fontsize=10)
            axis.axhline(1, color="black", lw=1)
            axis.axvspan(0, 20, color="#f1f1f1", zorder=0, lw=0)
            axis.set(ylim=(0, self.draw_most), ylabel="predicted / sent")
            if panel in QUEUES:
                self._draw_points(axis, data, panel)
            else:
                self._draw_example(axis, data, panel == MODERN)
            cut = [y for line in axis.lines for y in line.get_ydata() if y > self.draw_most]
            if cut:
                words = f"{len(cut)} above {self.draw_most}, at most {max(cut):.1f}"
                axis.text(0.99, 0.88, words, transform=axis.transAxes, ha="right", fontsize=9)
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


# --- GAIMD(0.31, 0.875) against as many Reno flows ------------------------------------------------

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
MOST_SHOWN = 2.5


def starved(runs: Sequence[Numbers], kind: str) -> float:
    """The percentage of the flows of KIND with less than a fiftieth of their share.

    Retransmissions by timeout meet a full queue; packets clocked by ACKs, which follow a departure,
    do not.
    """
    flows: list[float] = [one for run in runs for one in run[kind]]
    return 100 * sum(one < 0.02 for one in flows) / len(flows)


class Friendliness(Study):
    """TCP friendliness (slides 25 to 29)."""

    name = "gaimd-friendliness"
    title = "GAIMD(0.31, 0.875) against as many Reno flows"
    source = f"{SOURCE}, slides 25 to 29"
    setting = (
        "n flows of Reno and n of GAIMD(0.31, 0.875), n from 1 to 64, over 1.5 or 15 Mbit/s, with"
        " drop-tail or RED; 120 s. Each flow's throughput, divided by the mean of all."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "Throughput is of acknowledged data from 20 s on. With drop-tail and many flows some"
        " starve: their retransmissions by timeout meet a full queue. The claim is about means.",
    )
    quick_numbers = (1, 8, 32)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(f"{bps // 1000}-{queue}-{n}", pair(n, bps, queue, 40.0 if quick else 120.0, seed))
            for bps in ((SLOW,) if quick else (SLOW, FAST))
            for queue in ((RED,) if quick else QUEUES)
            for n in (self.quick_numbers if quick else NUMBERS)
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        rates = {kind: outcome.goodputs(kind) for kind in (TCP, GAIMD)}
        all_mean = statistics.fmean([*rates[TCP], *rates[GAIMD]])
        found = {"loss": round(outcome.loss, 5), "utilisation": round(outcome.utilisation, 4)}
        return found | {kind: [round(v / all_mean, 4) for v in own] for kind, own in rates.items()}

    def groups(self, data: Data) -> dict[tuple[int, str], dict[int, Sequence[Numbers]]]:
        """The runs by link and queue, then by n."""
        found: dict[tuple[int, str], dict[int, Sequence[Numbers]]] = {}
        for name, runs in data.items():
            kbit, queue, n = name.split("-")
            found.setdefault((1000 * int(kbit), queue), {})[int(n)] = runs
        return found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """GAIMD's mean throughput, divided by that of all; flows close to the latter [%]."""
        found: dict[str, Measured] = {}
        for (bps, queue), by_n in self.groups(data).items():
            name = f"{bps // 1000}-{queue}"
            found[name] = {
                f"n = {n}": [statistics.fmean(run[GAIMD]) for run in runs]
                for n, runs in by_n.items()
            }
            found[f"{name}-flows"] = {
                f"n = {n}": [self.measure_close([*run[TCP], *run[GAIMD]]) for run in runs]
                for n, runs in by_n.items()
            }
        return found

    @staticmethod
    def measure_close(flows: Sequence[float]) -> float:
        """The part of FLOWS whose throughput is within a fifth of the mean of all [%]."""
        return 100 * sum(0.8 <= one <= 1.2 for one in flows) / len(flows)

    def rows(self, data: Data) -> Iterator[Row]:
        for (bps, queue), by_n in self.groups(data).items():
            for n, runs in by_n.items():
                tcp, gaimd = ([run[kind] for run in runs] for kind in (TCP, GAIMD))
                yield {
                    "bottleneck": f"{bps / 1e6:g} Mbit/s, {QUEUES[queue]}",
                    "flows": f"{n} + {n}",
                    "dropped": f"{100 * mean(runs, 'loss'):.1f} %",
                    "Reno": spread(list(map(statistics.fmean, tcp))),
                    "GAIMD": spread(list(map(statistics.fmean, gaimd))),
                    "CoV, Reno": f"{statistics.fmean(map(variation, tcp)):.2f}",
                    "CoV, GAIMD": f"{statistics.fmean(map(variation, gaimd)):.2f}",
                    "starved flows": f"{starved(runs, TCP):.0f} %, {starved(runs, GAIMD):.0f} %",
                }

    def draw(self, figure: Any, data: Data) -> None:
        """Each flow, and the means, over n: a panel for each link and queue."""
        groups = self.groups(data)
        width = 2 if len(groups) > 1 else 1
        height = -(-len(groups) // width)
        figure.set_size_inches(7.5, 0.6 + 3.1 * height)
        panels = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False)
        for axis, ((bps, queue), by_n) in zip(panels.flat, groups.items(), strict=False):
            for kind, shift in ((TCP, 2**-0.16), (GAIMD, 2**0.16)):
                flows = [[one for run in runs for one in run[kind]] for runs in by_n.values()]
                means = list(map(statistics.fmean, flows))
                xs = [number * shift for number in by_n]
                look = {"color": LOOKS[kind], "alpha": 0.25, "mec": "none", "zorder": 1}
                for x, every in zip(xs, flows, strict=True):
                    for mark, size, some in (
                        ("o", 3, [one for one in every if one <= MOST_SHOWN]),
                        ("^", 6, [MOST_SHOWN for one in every if one > MOST_SHOWN]),
                    ):
                        axis.plot([x] * len(some), some, mark, ms=size, **look)
                axis.plot(xs, means, "-", lw=1.8, zorder=3, color=LOOKS[kind])
                axis.plot(xs, means, "o", ms=5, mec="white", zorder=3, color=LOOKS[kind])
            axis.axhline(1, color="black", lw=1, zorder=2)
            axis.axhspan(0.8, 1.2, color="#f1f1f1", zorder=0, lw=0)
            axis.set_xscale("log", base=2)
            axis.set_xticks(list(by_n), [str(number) for number in by_n])
            axis.minorticks_off()
            axis.set_title(f"{bps / 1e6:g} Mbit/s, {QUEUES[queue]}", loc="left", fontsize=10)
            axis.set_ylim(0, MOST_SHOWN + 0.06)
        for axis in panels[-1]:
            axis.set_xlabel("n flows of each")
        for row in panels:
            row[0].set_ylabel("throughput / mean")
        first = panels[0][0]
        for n, (kind, words) in enumerate(((TCP, "Reno"), (GAIMD, "GAIMD(0.31, 0.875)"))):
            first.text(0.03, 0.92 - 0.09 * n, words, color=LOOKS[kind], transform=first.transAxes)
        words = "lines: means; dots: flows\n(triangles: more than 2.5)"
        first.text(0.03, 0.74, words, transform=first.transAxes, fontsize=8)


# --- TCP-friendly α by β --------------------------------------------------------------------------

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

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = 24.0 if quick else 60.0
        choices = [
            (beta, way, n)
            for beta in CURVE_BETAS
            for way in (WAYS if beta != 0.5 else (TD,))  # at 1/2 all are 1
            for n in (FEW, MANY)
        ]
        if quick:
            choices = [(0.875, TD, FEW), (0.875, TO, FEW), (0.875, TO, MANY)]
        return [
            Case(
                f"b{1000 * beta:.0f}-{way}-{n}",
                pair(n, FAST, RED, seconds, seed, (alpha_by(way, beta), beta)),
            )
            for beta, way, n in choices
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        rates = {kind: sum(outcome.goodputs(kind)) for kind in (TCP, GAIMD)}
        p = total(accounts_of(outcome, TCP))
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

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            beta, way, n = name.split("-")
            value = int(beta[1:]) / 1000
            yield {
                "β": f"{value:g}",
                "α is": WAYS[way] if value != 0.5 else "any",
                "α": f"{alpha_by(way, value):.3f}",
                "flows": f"{n} + {n}",
                "p of Reno": f"{100 * mean(runs, 'p'):.1f} %",
                "GAIMD / Reno": spread([run["ratio"] for run in runs]),
            }

    def draw(self, figure: Any, data: Data) -> None:
        """The curves; below, the measured shares in Linux."""
        figure.set_size_inches(7, 9)
        curves, *shares = figure.subplots(3, 1, height_ratios=(1.4, 1, 1))
        betas = [0.2 + 0.025 * n for n in range(29)]
        for way, law in ((TD, alpha_td), (TO, alpha_to)):
            curves.plot(betas, [law(beta) for beta in betas], color=SHADES[way], lw=2)
        for threshold, dashes in zip(THRESHOLDS, ((1, 1), (3, 1), (6, 1)), strict=True):
            values = [alpha_least(beta, threshold) for beta in betas[::2]]
            curves.plot(betas[::2], values, color=SHADES[LEAST], lw=1.3, ls=(0, dashes))
        curves.text(0.26, 1.85, "TD-friendly", color=SHADES[TD], va="center")
        curves.text(0.22, 1.17, "TO-friendly", color=SHADES[TO], va="center")
        words = "least error, p to 0.1, 0.2, 0.3\n(longer dashes: more)"
        curves.text(0.41, 1.42, words, color=SHADES[LEAST], va="center", fontsize=9)
        for alpha, word in ((0.2, "0.2"), (0.3125, "0.3125")):
            curves.plot([0.875], [alpha], "D", color="black", ms=5)
            note(curves, word, (0.875, alpha), (6, 0), va="center")
        curves.text(0.9, 0.52, "published", ha="right", fontsize=9)
        curves.set(ylabel="α", xlabel="β", ylim=(0, 2))
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
        axis.set(xlim=(0.18, 0.92), ylabel="GAIMD / Reno")
        where = f": p of Reno {100 * min(p):.1f} to {100 * max(p):.1f} %" if p else ""
        axis.set_title(f"Linux, {n} + {n} flows{where}", loc="left", fontsize=10)


# --- variation of the send rate -------------------------------------------------------------------

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
        payload, shown = outcome.what.payload, round(SHOWN / SAMPLE)
        rtts = [one.rtt for kind in (TCP, GAIMD) for one in accounts_of(outcome, kind)]
        found: Numbers = {"loss": round(outcome.loss, 5), "begin": first}
        found["rtt"] = round(statistics.fmean(rtts), 5)
        for kind in (TCP, GAIMD):
            rows = outcome.rows[kind]
            flows = []
            times = rows["time"] / 1e9
            rows = rows[(times >= first) & (times <= last)]
            for n in range(len(outcome.what.kinds()[kind])):
                mine = rows[rows["flow"] == n]
                steps = numpy.diff(mine["time"].astype(float)) / 1e9
                flows.append(numpy.diff(mine["segments"].astype(float)) * 8 * payload / steps)
            found[kind] = {
                "cov": [round(float(one.std() / one.mean()), 4) for one in flows],
                "mbit": [round(float(one.mean()) / 1e6, 4) for one in flows],
                "rates": [[round(float(v) / 1e6, 2) for v in one[:shown]] for one in flows],
            }
        return found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """GAIMD's mean coefficient of variation, divided by Reno's."""
        cov = [{kind: statistics.fmean(run[kind]["cov"]) for kind in LOOKS} for run in data["red"]]
        return {"cov": [one[GAIMD] / one[TCP] for one in cov]}

    def rows(self, data: Data) -> Iterator[Row]:
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
            axis.set(ylim=(0, 5), ylabel="Mbit/s")
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
        under = {"ha": "center", "va": "top", "fontsize": 9}
        below.text(steadiness(0.5), 0.8, "AIMD with\nPoisson losses", **under)
        # The last one is Reno's.
        below.plot([mean / 2], [0], "*", color="black", ms=12)
        below.text(mean / 2, -0.22, "published:\nhalf of Reno's", **under)
        below.set_yticks((0, 1), ("GAIMD", "Reno"))
        below.set(ylim=(-0.9, 1.6), xlim=(0, 0.8))
        below.set_xlabel("coefficient of variation of each flow's rate, means of 150 ms")


# --- windows of one Reno and one GAIMD flow over each other ---------------------------------------

STEP = 0.2  # seconds between stored values


def crossings(reno: Sequence[float], gaimd: Sequence[float]) -> int:
    """The number of crossings of two series."""
    signs = [a > b for a, b in zip(reno, gaimd, strict=True) if a != b]
    return sum(before != now for before, now in pairwise(signs))


class Window(Study):
    """Windows of two flows (slides 23 and 24)."""

    name = "gaimd-window"
    title = "The windows of one Reno and one GAIMD flow"
    source = f"{SOURCE}, slides 23, 24"
    setting = (
        "Chiu and Jain's model: one flow of Reno and one of GAIMD(0.31, 0.875), the same"
        " RTT, no timeouts. GAIMD's window is drawn over Reno's."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "The slides' are a model's windows; these are Linux's, over 1.5 Mbit/s, drop-tail and RED,"
        " sampled every 50 ms for 120 s, without the first 20 s and without loss recovery.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = 60.0 if quick else 120.0
        return [Case(queue, pair(1, SLOW, queue, seconds, seed, look=0.05)) for queue in QUEUES]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        import numpy

        first, last = outcome.window
        times = numpy.arange(first, last, STEP)
        found: Numbers = {"begin": first}
        for kind in (TCP, GAIMD):
            rows = outcome.rows[kind]
            # cwnd is the window only outside of loss recovery.
            rows = rows[rows["state"] == 0]
            # The last such sample.
            at = numpy.searchsorted(rows["time"] / 1e9, times, side="right") - 1
            found[kind] = [int(value) for value in rows["cwnd"][numpy.maximum(at, 0)]]
        accounts = [*accounts_of(outcome, TCP), *accounts_of(outcome, GAIMD)]
        return found | {"timeouts": sum(one.timeouts for one in accounts)}

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for queue, runs in data.items():
            pairs = [(run[TCP], run[GAIMD]) for run in runs]
            # In per cent of the time; equal windows count half.
            larger = [
                100 * statistics.fmean((b > a) + (b == a) / 2 for a, b in zip(*pair, strict=True))
                for pair in pairs
            ]
            found |= {
                f"crossings-{queue}": [60 * crossings(a, b) / (STEP * len(a)) for a, b in pairs],
                f"larger-{queue}": larger,
                f"swing-{queue}": [variation(b) / variation(a) for a, b in pairs],
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        """GAIMD's window over Reno's, and both over time, for each queue."""
        figure.set_size_inches(7.5, 8)
        names = list(data)
        top = max(max(run[kind]) for runs in data.values() for run in runs for kind in LOOKS) + 2
        panels = figure.subplots(2, len(names), squeeze=False, height_ratios=(1.3, 1))
        for n, queue in enumerate(names):
            runs = data[queue]
            plane, line = panels[0][n], panels[1][n]
            for behind, run in reversed(list(enumerate(runs))):
                alpha = 0.15 if behind else 0.8
                plane.plot(run[TCP], run[GAIMD], color="#555555", lw=0.8, alpha=alpha)
            full = max(a + b for a, b in zip(runs[0][TCP], runs[0][GAIMD], strict=True))
            path = synchronous((full / 2, full / 8), full, 30)
            plane.plot(*zip(*path[-3:], strict=True), color=plots.COLOURS[2], lw=2)
            look = {"color": plots.COLOURS[2], "fontsize": 9, "va": "top"}
            words = "model: synchronised losses"
            plane.text(0.03, 0.97, words, transform=plane.transAxes, **look)
            plane.plot([0, top], [0, top], color="black", lw=1, ls="--")
            plane.text(0.7 * top, 0.72 * top, "equal", rotation=45, ha="right", va="bottom")
            plane.set(xlim=(0, top), ylim=(0, top))
            plane.set_aspect("equal")
            plane.set_xlabel("Reno's window (packets)")
            plane.set_title(QUEUES[queue], loc="left", fontsize=10)
            shown = round(40 / STEP)
            for kind, colour in LOOKS.items():
                values = runs[0][kind][:shown]
                times = [runs[0]["begin"] + STEP * i for i in range(len(values))]
                line.plot(times, values, color=colour, lw=1.3)
            line.set(ylim=(0, top), xlabel="seconds")
        panels[0][0].set_ylabel("GAIMD's window (packets)")
        panels[1][0].set_ylabel("window (packets)")
        for x, kind, words in ((0.0, TCP, "Reno"), (0.2, GAIMD, "GAIMD(0.31, 0.875)")):
            panels[1][0].text(x, 1.03, words, color=LOOKS[kind], transform=panels[1][0].transAxes)


STUDIES: tuple[Study, ...] = (Formula(), Friendliness(), Curves(), Fluctuation(), Window())
