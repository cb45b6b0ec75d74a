# SPDX-License-Identifier: GPL-2.0
"""GAIMD: Yang and Lam, "General AIMD congestion control" (ICNP 2000), from Lam's slides of it.

GAIMD(α, β) adds α packets to its window in each round-trip and keeps β of it after a loss; Reno is
(1, 1/2).  The authors extend the formula of Padhye et al. for Reno's rate to any α and β, choose
(0.31, 0.875) by it so as to be fair to Reno, and see by simulation whether that is so.  Here all of
this is done with tcp_gaimd and Linux's Reno.

The formula speaks of p, the part of the packets sent that indicate a loss.  Padhye et al. counted
indications in traces: each fast retransmission, and each timeout, where one that follows another
before anything has arrived belongs to it.  So they are counted here, from looks at TCP_INFO that
are closer together than a round-trip: each of the two lasts that long at least.  The round-trip is
the mean of what TCP measures (with the queue), T0 the mean of its timer while it is not doubled.
Linux waits for at least 200 ms more than a round-trip, so T0 is about four of these.

What Linux does about losses is much younger than the formula: it retransmits by SACK and by time
(RACK), probes for a lost tail, and takes needless timeouts back.  The study of the formula turns
this off (RENO_OF_2000), as it is about a model of what there was; and runs some cases with it.

An ACK of several packets counts as so many, in tcp_gaimd as in Linux's Reno: b is 1.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.results import plots
from fairlab.results.outcome import Outcome
from fairlab.run.experiment import Experiment, Group, Stream

SOURCE = "Yang, Lam: General AIMD Congestion Control (ICNP 2000), slides"
TAIL, RED = "tail", "red"
QUEUES = {TAIL: "drop-tail", RED: "RED"}
TCP, GAIMD, UDP = "tcp", "gaimd", "udp"
LOOKS = {TCP: plots.COLOURS[0], GAIMD: plots.COLOURS[1]}
NAMES = {TCP: "Reno", GAIMD: "GAIMD"}
FAST, SLOW = 15_000_000, 1_500_000
RTT, MTU = 50_000, 1000
CHOSEN = 0.31, 0.875

# All connect before any can have sent data [s]: ns-2's TCP has no handshake, and a flow that
# loses several of its first packets would begin a minute later.
SPREAD = 0.9 * RTT / 1e6

# The buffer; RED's least and largest average, all in packets, and what tc makes of 2^-9 as the
# weight of a new packet in the average (ns-2's 0.002).
QUEUE_SIZES = {FAST: (100, 20, 60, 120), SLOW: (25, 5, 15, 55)}
# The largest average is three times the least, as RED's authors advise, which has one more reason.
# Linux's RED learns that it is idle by being asked for a packet in vain, and a tbf above it only
# looks whether there is one (peek).  So its average falls with each packet that comes, and not
# while none does.  If one flow's slow start takes it past its largest, all is dropped, few packets
# come, and that can last for minutes.  RED does not do that; such runs are refused.
RED_MOST = 0.1  # of packets dropped, when the average is at its largest

RENO_OF_2000 = (
    ("tcp_sack", "0"),
    ("tcp_recovery", "0"),
    ("tcp_early_retrans", "0"),
    ("tcp_frto", "0"),
)
LINUX: tuple[tuple[str, str], ...] = ()

LEAST_USE = 0.5

# enum tcp_ca_state
RECOVERY = 3

PLACE = (
    "Slides are silent about delays, packets and queues. An empty way has a round-trip of 50 ms"
    " (averages of 150 ms are over 2 to 3 of them), packets have 1000 bytes including IP's header.",
    "Buffers: 100 packets at 15 Mbit/s, 25 at 1.5 Mbit/s. RED: ns-2's usual weight (0.002) and"
    " probability (0.1), averages of 20 to 60 packets, or 5 to 15 at 1.5 Mbit/s; above, it drops"
    " all. Linux's RED below a shaper does not know when it is idle, so its average only falls as"
    " packets come.",
    "TCP flows connect within 45 ms, at moments that the seed draws, before any has sent data.",
)
WHOLE_PACKETS = (
    "Linux's windows are whole packets: of 3, β = 0.875 leaves 2, as 1/2 does, and α = 0.31 takes"
    " three times as long to get it back"
)
STACK = (
    "Reno and GAIMD have Linux's recovery from losses (SACK, RACK, loss probes); the source says"
    " that its results are the same with SACK.",
)


# --- the formula --------------------------------------------------------------------------------


def rate(
    p: float, rtt: float, t0: float, alpha: float = 1.0, beta: float = 0.5, b: int = 1
) -> float:
    """What GAIMD(ALPHA, BETA) sends, in packets per second, if P of them indicate a loss."""
    by_acks = rtt * math.sqrt(2 * b * (1 - beta) * p / (alpha * (1 + beta)))
    timeouts = min(1.0, 3 * math.sqrt((1 - beta * beta) * b * p / (2 * alpha)))
    return 1 / (by_acks + t0 * timeouts * p * (1 + 32 * p * p))


def alpha_td(beta: float) -> float:
    """What makes GAIMD's rate TCP's while there are no timeouts."""
    return 3 * (1 - beta) / (1 + beta)


def alpha_to(beta: float) -> float:
    """What makes GAIMD's rate TCP's where timeouts are all that counts."""
    return 4 * (1 - beta * beta) / 3


STEPS = 100


def error(alpha: float, beta: float, threshold: float) -> float:
    """By how much GAIMD's rate is off TCP's, on average over p from 0 to THRESHOLD; T0 is 4 RTT."""
    off = 0.0
    for n in range(STEPS):
        p = (n + 0.5) / STEPS * threshold
        off += abs(rate(p, 1, 4, alpha, beta) / rate(p, 1, 4) - 1)
    return off / STEPS


def alpha_least(beta: float, threshold: float) -> float:
    """The alpha with the least error, in thousandths."""
    coarse = min(range(10, 2500, 20), key=lambda a: error(a / 1000, beta, threshold))
    fine = range(max(1, coarse - 20), coarse + 21)
    return min(fine, key=lambda a: error(a / 1000, beta, threshold)) / 1000


# --- what is run --------------------------------------------------------------------------------


def red_words(bps: int) -> str:
    buffer, least, most, burst = QUEUE_SIZES[bps]
    frame = MTU + headers.ETHERNET
    return (
        f"red limit {buffer * frame} min {least * frame} max {most * frame} avpkt {frame}"
        f" burst {burst} probability {RED_MOST:g} bandwidth {bps // 1000}kbit"
    )


def gaimd_settings(alpha: float, beta: float) -> tuple[tuple[str, str], ...]:
    return (
        ("gaimd_alpha", f"{round(1000 * alpha)}"),
        ("gaimd_beta", f"{round(1000 * beta)}"),
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
    """N flows of Reno, N of GAIMD, and maybe SOURCES of UDP, over one bottleneck."""
    groups = [
        Group(TCP, RTT, (Stream("reno", n, spread=SPREAD),), settings=stack),
        Group(
            GAIMD,
            RTT,
            (Stream("gaimd", n, spread=SPREAD),),
            settings=(*stack, *gaimd_settings(*alpha_beta)),
        ),
    ]
    if sources:
        on_off = Stream(
            "udp",
            sources,
            rate=500_000,
            packet=MTU - headers.DATAGRAM,
            on="pareto:1.5:1",
            off="pareto:1.5:2",
        )
        groups.append(Group(UDP, RTT, (on_off,)))
    return Experiment(
        rate=bps,
        buffer=QUEUE_SIZES[bps][0],
        groups=tuple(groups),
        seconds=seconds,
        warmup=min(20.0, seconds / 4),
        seed=seed,
        queue=red_words(bps) if queue == RED else "",
        mtu=MTU,
        look=look,
    )


# --- what came of a flow ------------------------------------------------------------------------


@dataclass(frozen=True)
class Account:
    """What TCP did in the time between the first look and the last."""

    fast: int  # fast retransmissions
    timeouts: int  # that do not follow another
    doubled: int  # that do
    segments: int
    seconds: float
    rtt: float
    t0: float  # 0 if it never was at rest

    @property
    def indications(self) -> int:
        return self.fast + self.timeouts

    @property
    def sent(self) -> float:
        """Segments per second."""
        return self.segments / self.seconds

    def predicted(self, alpha: float, beta: float, p: float | None = None) -> float:
        """What the formula says it sends; 0 if there was no loss to tell from."""
        if p is None:
            p = self.indications / self.segments if self.segments else 0.0
        return rate(p, self.rtt, self.t0, alpha, beta) if p and self.t0 else 0.0


def account(rows: Any, first: float, last: float) -> Account:
    """Of the looks at a flow between FIRST and LAST."""
    times = rows["time"] / 1e9
    rows = rows[(times >= first) & (times <= last)]
    if len(rows) < 2:
        raise CannotRunError(f"a flow had not begun by {first:g} s, or not been looked at twice")
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
    """Of several flows: what they did together, in the time of one; the mean of their times."""
    still = [one.t0 for one in accounts if one.t0]
    return Account(
        fast=sum(one.fast for one in accounts),
        timeouts=sum(one.timeouts for one in accounts),
        doubled=sum(one.doubled for one in accounts),
        segments=sum(one.segments for one in accounts),
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
    """Refuse a run whose flows were kept from using the link, which nothing here does but RED."""
    if outcome.utilisation < LEAST_USE:
        raise CannotRunError(
            f"only {100 * outcome.utilisation:.0f} % of the bottleneck was used: RED's average did"
            " not fall while the queue was empty"
        )


def mean_of(values: Sequence[float]) -> float:
    """The mean; of none, one that no claim holds with."""
    return statistics.fmean(values) if values else math.nan


def span(values: Sequence[float], digits: int = 2) -> str:
    """The mean of some values, and between what they are."""
    if not values:
        return "none"
    text = f"{statistics.fmean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return text


# --- is the formula right? ----------------------------------------------------------------------

BETAS = (0.5, 0.75, 0.875)
ALPHAS = (0.1, 0.4, 1.0)
SOURCES = (10, 40, 70)
MORE_SOURCES = 100
SINGLE, MODERN = "single", "modern"
EXAMPLE = (0.4, 0.75)
AGGRESSIVE = (1.0, 0.875)


@dataclass(frozen=True)
class Load:
    """GAIMD(alpha, beta) against Reno, with so many sources of UDP beside them."""

    alpha: float
    beta: float
    queue: str
    sources: int
    modern: bool = False  # Linux as it is

    @property
    def name(self) -> str:
        words = [f"a{1000 * self.alpha:.0f}", f"b{1000 * self.beta:.0f}", self.queue]
        return "-".join([*words, f"{self.sources}", *(["linux"] if self.modern else [])])


class Formula(Study):
    """Slides 8 to 16."""

    name = "gaimd-formula"
    title = "Is the formula for GAIMD's rate right?"
    source = f"{SOURCE}, slides 8 to 16"
    setting = (
        "16 Reno flows, 16 GAIMD(α, β) flows, and 10 to 70 sources of UDP that are on for 1 s and"
        " off for 2 s on average (Pareto) and send 500 kbit/s while on, so that 1 to 30 % are"
        " lost; for each β, α from 0.1 to 1; drop-tail and RED. How much more the formula says"
        " than is sent."
    )
    assumptions = (
        *PLACE,
        "The bottleneck has 15 Mbit/s, as in the other experiments. Pareto's shape is 1.5, ns-2's.",
        "The slides' loss rate, made by more sources of UDP, is taken for what the queue drops of"
        " all packets; p in the formula for the part of a flow's packets that indicate a loss, as"
        " Padhye et al. count them: fast retransmissions and series of timeouts.",
        "RTT is the mean that TCP measures, T0 the mean of Linux's timer while it is not doubled"
        " (at least 200 ms more than a round-trip), b is 1.",
        "Reno nearly as it was: no SACK, RACK, loss probes or F-RTO, which in Linux is NewReno."
        " Linux with all of them is run beside it.",
        "40 s each, the first 10 s left out. 100 sources are added, for more loss.",
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
        # Closer than a round-trip, so that no indication of a loss is missed.
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
                # With other readings of p: each timeout is one; each packet lost is one.
                "ratio_timeouts": round(all_flows.predicted(*params, every) / all_flows.sent, 4),
                "ratio_lost": round(all_flows.predicted(*params, lost) / all_flows.sent, 4),
                "flows": [round(one.predicted(*params) / one.sent, 3) for one in flows if one.sent],
            }
        return found

    # --- what came of it ------------------------------------------------------------------------

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
                "the formula is good while up to a fifth is lost, and α no more than friendly",
                "good to about 20 %, but for aggressive α and β (slides 12, 16)",
                f"predicted / sent: {span(good)}",
                "mean within 25 % of 1, each within 50 %",
                abs(mean_of(good) - 1) <= 0.25 and all(0.5 <= r <= 1.5 for r in good),
                "without SACK, losses that come together are repaired one in a round-trip, and"
                f" little is sent meanwhile: in the model that takes no time; and {WHOLE_PACKETS}",
            ),
            Claim(
                "it is off by as much for Reno as for GAIMD",
                "over-estimates are similar, in most experiments (slide 16)",
                f"GAIMD's ratio / Reno's: {span(apart)}",
                "mean within 15 % of 1",
                abs(mean_of(apart) - 1) <= 0.15,
                "what is off depends on α and β",
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
                "it over-estimates where more is lost",
                "overestimates when the loss rate is high (slides 12, 16)",
                f"beyond 20 %: {span(beyond)}; below: {span(below)}",
                "more than 1.1 on average, and more than below",
                mean_of(beyond) > max(1.1, mean_of(below)),
                "what Linux's flows wait for are not quite the model's timeouts",
            ),
            Claim(
                "and where α and β are aggressive",
                "overestimates when α, β are aggressive (slide 16)",
                f"GAIMD(1, 0.875): {span(bold)}; GAIMD(0.1, 0.875): {span(meek)}",
                "more for the first",
                mean_of(bold) > mean_of(meek),
                "the same loss is not the same p for both",
            ),
            Claim(
                "drop-tail or RED matters little",
                "loss patterns do not have a large impact (slide 16)",
                f"RED's ratio / drop-tail's: {patterns:.2f}",
                "within 20 % of 1",
                abs(patterns - 1) <= 0.2,
                "RED's losses come one by one; the model has them come together",
            ),
            Claim(
                "flows differ little while up to a tenth is lost",
                "sending rate variance is small up to 10 % (slides 14 to 16)",
                f"deviation of single flows' ratios: {span(low)}; beyond 10 %: {span(high)}",
                "0.2 or less on average, and less than beyond",
                mean_of(low) <= 0.2 and mean_of(low) < mean_of(high),
                "in 30 s a flow sees few losses, so its p is a guess",
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
                stack = ", Linux as it is" if load.modern else ""
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
                        span([one["ratio"] for one in seen]),
                        span([one["ratio_timeouts"] for one in seen]),
                        span([one["ratio_lost"] for one in seen]),
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
        """Predicted by sent, over loss: each queue, single flows, and Linux as it is."""
        loads = [self.load(name) for name in data]
        titles = {
            TAIL: "drop-tail, Reno's recovery nearly of 2000",
            RED: "RED, the same",
            SINGLE: "single flows, GAIMD(0.4, 0.75)",
            MODERN: "Linux as it is (SACK, RACK, loss probes), GAIMD(0.4, 0.75)",
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
        panels[0].text(19.7, 0.06, "published: good to 20 %, too much beyond", ha="right")
        panels[-1].set_xlabel("dropped by the queue (%)")
        most = max(run["loss"] for runs in data.values() for run in runs)
        panels[-1].set_xlim(0, max(22.0, 100 * most + 2))

    def _draw_example(self, axis: Any, data: Data, modern: bool) -> None:
        """The slides' example: single flows, or what they are together with Linux as it is."""
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


# --- is it fair? --------------------------------------------------------------------------------

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
MOST_SHOWN = 2.5


def normalised(outcome: Outcome) -> dict[str, list[float]]:
    """Each flow's goodput, in parts of what the mean of all is."""
    rates = {kind: outcome.goodputs(kind) for kind in (TCP, GAIMD)}
    mean = statistics.fmean([*rates[TCP], *rates[GAIMD]])
    return {kind: [round(one / mean, 4) for one in found] for kind, found in rates.items()}


def starved(runs: Sequence[Numbers], kind: str) -> float:
    """How many per cent of the flows of KIND have less than a fiftieth of their share.

    A retransmission that comes by a timer finds a full queue full; those that come by ACKs, right
    after a departure, do not.
    """
    flows: list[float] = [one for run in runs for one in run[kind]]
    return 100 * sum(one < 0.02 for one in flows) / len(flows)


class Friendliness(Study):
    """Slides 25 to 29."""

    name = "gaimd-friendliness"
    title = "GAIMD(0.31, 0.875) against as many flows of Reno"
    source = f"{SOURCE}, slides 25 to 29"
    setting = (
        "n flows of Reno and n of GAIMD(0.31, 0.875), n from 1 to 64, over 1.5 or 15 Mbit/s, with"
        " drop-tail or RED; 120 s. Each flow's throughput, in parts of the mean of all."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "Throughput is what was acknowledged from 20 s on. With drop-tail and many flows some have"
        " next to none: all that they retransmit by timer finds the queue full. The claim is about"
        " means.",
    )
    quick_numbers = (1, 8, 32)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(
                self.case_name(bps, queue, n),
                pair(n, bps, queue, 40.0 if quick else 120.0, seed),
            )
            for bps in ((SLOW,) if quick else (SLOW, FAST))
            for queue in ((RED,) if quick else QUEUES)
            for n in (self.quick_numbers if quick else NUMBERS)
        ]

    @staticmethod
    def case_name(bps: int, queue: str, n: int) -> str:
        return f"{bps // 1000}-{queue}-{n}"

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        found: Numbers = {"loss": round(outcome.loss, 5)}
        found["utilisation"] = round(outcome.utilisation, 4)
        return found | normalised(outcome)

    def groups(self, data: Data) -> dict[tuple[int, str], dict[int, Sequence[Numbers]]]:
        """The runs by link and queue, then by n."""
        found: dict[tuple[int, str], dict[int, Sequence[Numbers]]] = {}
        for name, runs in data.items():
            kbit, queue, n = name.split("-")
            found.setdefault((1000 * int(kbit), queue), {})[int(n)] = runs
        return found

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        claims = []
        for (bps, queue), by_n in self.groups(data).items():
            means = {
                n: statistics.fmean(one for run in runs for one in run[GAIMD])
                for n, runs in by_n.items()
            }
            worst = max(means, key=lambda n, m=means: abs(m[n] - 1))  # type: ignore[misc]
            claims.append(
                Claim(
                    f"they share closely: {bps / 1e6:g} Mbit/s, {QUEUES[queue]}",
                    "close to 1 each, n from 1 to 64 (slides 26 to 29)",
                    f"GAIMD's mean: {span(list(means.values()))}, farthest from 1 at n = {worst}",
                    "0.8 to 1.2 for each n",
                    all(0.8 <= mean <= 1.2 for mean in means.values()),
                    self.reason(bps, worst, means[worst]),
                )
            )
        return claims

    @staticmethod
    def reason(bps: int, n: int, mean: float) -> str:
        """Why GAIMD's MEAN may be off 1."""
        if mean > 1:
            _, before, after = synchronous((1, 1), 4.48, 99)[-3:]
            together = (before[1] + after[1]) / (before[0] + after[0])
            alone = rate(1e-6, 1, 4, *CHOSEN) / rate(1e-6, 1, 4)
            return (
                f"without timeouts the formula gives GAIMD {alone:.2f} of Reno's rate, and where a"
                f" full queue makes all lose at once, their windows' cycle gives it {together:.2f}"
            )
        window = bps * RTT / 8e6 / (MTU + headers.ETHERNET) + QUEUE_SIZES[bps][0]
        return (
            f"at n = {n} the way and a full buffer hold {window / (2 * n):.1f} packets for each"
            f" flow; {WHOLE_PACKETS}"
        )

    def table(self, data: Data) -> Table:
        rows = []
        for (bps, queue), by_n in self.groups(data).items():
            for n, runs in by_n.items():
                means = {
                    kind: [statistics.fmean(run[kind]) for run in runs] for kind in (TCP, GAIMD)
                }
                spreads = {
                    kind: statistics.fmean(variation(run[kind]) for run in runs)
                    for kind in (TCP, GAIMD)
                }
                rows.append(
                    (
                        f"{bps / 1e6:g} Mbit/s, {QUEUES[queue]}",
                        f"{n} + {n}",
                        f"{100 * statistics.fmean(run['loss'] for run in runs):.1f} %",
                        span(means[TCP]),
                        span(means[GAIMD]),
                        f"{spreads[TCP]:.2f}",
                        f"{spreads[GAIMD]:.2f}",
                        f"{starved(runs, TCP):.0f} %, {starved(runs, GAIMD):.0f} %",
                    )
                )
        columns = (
            "bottleneck",
            "flows",
            "dropped",
            "Reno",
            "GAIMD",
            "CoV, Reno",
            "CoV, GAIMD",
            "flows with next to nothing",
        )
        return Table(columns, tuple(rows))

    def draw(self, figure: Any, data: Data) -> None:
        """Each flow, and the means, over n: a panel for each link and queue."""
        groups = self.groups(data)
        width = 2 if len(groups) > 1 else 1
        height = -(-len(groups) // width)
        figure.set_size_inches(7.5, 0.6 + 3.1 * height)
        panels = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False)
        for n, ((bps, queue), by_n) in enumerate(groups.items()):
            axis = panels[n // width][n % width]
            for kind, shift in ((TCP, 2**-0.16), (GAIMD, 2**0.16)):
                look: dict[str, Any] = {"color": LOOKS[kind]}
                for number, runs in by_n.items():
                    flows = [one for run in runs for one in run[kind]]
                    for mark, some in (
                        ("o", [one for one in flows if one <= MOST_SHOWN]),
                        ("^", [MOST_SHOWN for one in flows if one > MOST_SHOWN]),
                    ):
                        look |= {"ms": 3 if mark == "o" else 6, "alpha": 0.25, "mec": "none"}
                        axis.plot([number * shift] * len(some), some, mark, zorder=1, **look)
                means = [
                    statistics.fmean(one for run in runs for one in run[kind])
                    for runs in by_n.values()
                ]
                xs = [number * shift for number in by_n]
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
        first.text(
            0.03,
            0.74,
            "lines: means; dots: flows\n(triangles: more than 2.5)",
            transform=first.transAxes,
            fontsize=8,
        )


# --- which alpha? -------------------------------------------------------------------------------

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
    """Slides 17 to 22."""

    name = "gaimd-curves"
    title = "Which α goes with which β?"
    source = f"{SOURCE}, slides 17 to 22"
    setting = (
        "α that makes GAIMD's rate Reno's: for losses told by acknowledgements, 3(1 − β)/(1 + β);"
        " for those told by timeouts, 4(1 − β²)/3; and with the least mean error over p up to 0.1,"
        " 0.2 or 0.3, T0 being 4 RTT. All three are computed."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "The error is weighed evenly up to the threshold; b is 1.",
        f"Whether Linux shares evenly at these is our addition: {FEW} + {FEW} and {MANY} + {MANY}"
        " flows over 15 Mbit/s, RED, 60 s, the first 15 s left out.",
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

    def ratios(self, data: Data, n: int, way: str | None = None) -> dict[tuple[float, str], float]:
        """GAIMD's rate by Reno's, by β and way."""
        found = {}
        for name, runs in data.items():
            beta, which, number = name.split("-")
            if int(number) == n and way in (None, which):
                found[int(beta[1:]) / 1000, which] = statistics.fmean(run["ratio"] for run in runs)
        return found

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        ours = alpha_td(0.875), alpha_to(0.875)
        least = [alpha_least(0.875, threshold) for threshold in THRESHOLDS]
        claims = [
            Claim(
                "at β = 0.875 the two friendly curves are at",
                "0.2 and 0.3125 (slide 22)",
                f"{ours[0]:.4f} and {ours[1]:.4f}",
                "equal",
                math.isclose(ours[0], 0.2) and math.isclose(ours[1], 0.3125),
            ),
            Claim(
                "the best α rises with the threshold, β = 0.875",
                "rises from 0.1 to 0.3 (slide 21)",
                ", ".join(f"{alpha:.3f}" for alpha in least),
                "in this order, and between the friendly curves",
                ours[0] < least[0] < least[1] < least[2] < ours[1],
                "how errors are weighed is not published",
            ),
        ]
        low, high = self.ratios(data, FEW), self.ratios(data, MANY)
        td, to = low[0.875, TD], low[0.875, TO]
        claims.append(
            Claim(
                "at little loss TO-friendly takes more than TD-friendly, β = 0.875",
                f"by the formula {math.sqrt(0.3125 / 0.2):.2f} times as much (slides 18, 19)",
                f"GAIMD / Reno: {to:.2f} and {td:.2f}: {to / td:.2f} times",
                "1.1 to 1.4 times",
                1.1 <= to / td <= 1.4,
                "GAIMD's own share changes how much all lose",
            )
        )
        if quick:
            return claims
        for n, found, word in ((FEW, low, "little"), (MANY, high, "much")):
            only = {way: [v for (_, w), v in found.items() if w == way] for way in WAYS}
            best = [found[beta, LEAST if beta != 0.5 else TD] for beta in CURVE_BETAS]
            claims.append(
                Claim(
                    f"at the least error GAIMD shares evenly with Reno, {word} loss ({n} + {n})",
                    "TCP-friendly (slides 17 to 22); not measured there for other β",
                    f"GAIMD / Reno: {span(best)}; TD {span(only[TD])}, TO {span(only[TO])}",
                    "0.75 to 1.33 for each β",
                    all(0.75 <= value <= 4 / 3 for value in best),
                    WHOLE_PACKETS,
                )
            )
        return claims

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            beta, way, n = name.split("-")
            value = int(beta[1:]) / 1000
            rows.append(
                (
                    f"{value:g}",
                    WAYS[way] if value != 0.5 else "any",
                    f"{alpha_by(way, value):.3f}",
                    f"{n} + {n}",
                    f"{100 * statistics.fmean(run['p'] for run in runs):.1f} %",
                    span([run["ratio"] for run in runs]),
                )
            )
        return Table(("β", "α is", "α", "flows", "p of Reno", "GAIMD / Reno"), tuple(rows))

    def draw(self, figure: Any, data: Data) -> None:
        """The curves; below, what Linux's flows get."""
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
            curves.annotate(
                word, (0.875, alpha), (6, 0), textcoords="offset points", va="center", fontsize=9
            )
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


# --- how steady is it? --------------------------------------------------------------------------

SAMPLE = 0.15
SHOWN = 30.0  # seconds that are drawn


def steadiness(beta: float) -> float:
    """The coefficient of variation of AIMD whose losses are a Poisson process."""
    return math.sqrt((1 - beta) / (1 + beta))


class Fluctuation(Study):
    """Slide 30."""

    name = "gaimd-fluctuation"
    title = "How steady are GAIMD's rates?"
    source = f"{SOURCE}, slide 30"
    setting = (
        "4 flows of GAIMD(0.31, 0.875) and 4 of Reno share 15 Mbit/s, RED; rates are means of"
        " 150 ms, 2 to 3 round-trips."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "120 s, the first 20 s left out. A rate is of what is sent, retransmissions included.",
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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        runs = data["red"]
        cov = {
            kind: statistics.fmean(v for run in runs for v in run[kind]["cov"]) for kind in LOOKS
        }
        each = [
            statistics.fmean(run[GAIMD]["cov"]) / statistics.fmean(run[TCP]["cov"]) for run in runs
        ]
        theory = steadiness(CHOSEN[1]) / steadiness(0.5)
        return [
            Claim(
                "GAIMD's rate varies about half as much as Reno's",
                f"CoV about half (slide 30); {theory:.2f} for losses that are a Poisson process",
                f"{cov[GAIMD]:.2f} and {cov[TCP]:.2f}: {span(each)}",
                "0.35 to 0.65",
                0.35 <= cov[GAIMD] / cov[TCP] <= 0.65,
                "part of what varies is when packets leave, which is the same for both",
            )
        ]

    def table(self, data: Data) -> Table:
        rows = []
        for kind, beta in ((TCP, 0.5), (GAIMD, CHOSEN[1])):
            runs = [run[kind] for run in data["red"]]
            rows.append(
                (
                    NAMES[kind],
                    span([value for run in runs for value in run["cov"]]),
                    f"{steadiness(beta):.3f}",
                    span([value for run in runs for value in run["mbit"]]),
                )
            )
        return Table(("flows", "CoV", "AIMD, Poisson losses", "Mbit/s"), tuple(rows))

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


# --- two windows --------------------------------------------------------------------------------

STEP = 0.2  # seconds, of what is kept


def synchronous(
    start: tuple[float, float], capacity: float, drops: int
) -> list[tuple[float, float]]:
    """Chiu and Jain's model: windows of Reno and GAIMD, which both lose when the sum is full."""
    alpha, beta = CHOSEN
    reno, gaimd = start
    path = [start]
    for _ in range(drops):
        steps = (capacity - reno - gaimd) / (1 + alpha)
        reno, gaimd = reno + steps, gaimd + alpha * steps
        path.append((reno, gaimd))
        reno, gaimd = reno / 2, beta * gaimd
        path.append((reno, gaimd))
    return path


def crossings(reno: Sequence[float], gaimd: Sequence[float]) -> int:
    """How often the larger of the two becomes the smaller."""
    signs = [a > b for a, b in zip(reno, gaimd, strict=True) if a != b]
    return sum(before != now for before, now in pairwise(signs))


def larger(one: Sequence[float], other: Sequence[float]) -> float:
    """For which part of the time one is larger; half of that when they are equal."""
    return statistics.fmean((a > b) + (a == b) / 2 for a, b in zip(one, other, strict=True))


class Window(Study):
    """Slides 23 and 24."""

    name = "gaimd-window"
    title = "The windows of one Reno and one GAIMD flow"
    source = f"{SOURCE}, slides 23, 24"
    setting = (
        "Chiu and Jain's model: one flow of Reno and one of GAIMD(0.31, 0.875), the same"
        " round-trip, no timeouts. Their windows are drawn one over the other."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "The slides' are a model's windows; these are Linux's, over 1.5 Mbit/s, drop-tail and RED,"
        " looked at each 50 ms for 120 s, the first 20 s left out. Recoveries are left out.",
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
            # Windows are what they seem to be only while nothing is being recovered.
            rows = rows[rows["state"] == 0]
            # As they were at the last such look.
            at = numpy.searchsorted(rows["time"] / 1e9, times, side="right") - 1
            found[kind] = [int(value) for value in rows["cwnd"][numpy.maximum(at, 0)]]
        found["timeouts"] = total(
            [*accounts_of(outcome, TCP), *accounts_of(outcome, GAIMD)]
        ).timeouts
        return found

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        claims = []
        for queue, runs in data.items():
            per_minute = [
                60 * crossings(run[TCP], run[GAIMD]) / (STEP * len(run[TCP])) for run in runs
            ]
            above = [larger(run[GAIMD], run[TCP]) for run in runs]
            swing = {kind: [variation(run[kind]) for run in runs] for kind in LOOKS}
            ratio = statistics.fmean(swing[GAIMD]) / statistics.fmean(swing[TCP])
            claims += [
                Claim(
                    f"windows go to and fro across the equal line, {QUEUES[queue]}",
                    "they zigzag across it and do not converge to it (slide 24)",
                    f"{span(per_minute, 0)} crossings a minute; GAIMD's is the larger for"
                    f" {100 * min(above):.0f} to {100 * max(above):.0f} % of the time",
                    "2 a minute at least, and each the larger for 20 % of the time, in each run",
                    min(per_minute) >= 2 and min(above) >= 0.2 and max(above) <= 0.8,
                    "where both lose whenever the queue is full, the model itself ends in a cycle"
                    " with GAIMD's window the larger (2 : 2.48 before, 1 : 2.17 after a loss);"
                    " they cross where losses come to one at a time",
                ),
                Claim(
                    f"GAIMD's swings less, {QUEUES[queue]}",
                    "smaller window size oscillations (slide 24)",
                    f"CoV {statistics.fmean(swing[GAIMD]):.2f} instead of"
                    f" {statistics.fmean(swing[TCP]):.2f}",
                    "less than 0.8 of Reno's",
                    ratio < 0.8,
                    "the other flow's share changes slowly, and swings with both",
                ),
            ]
        return claims

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
            plane.text(
                0.03, 0.97, "model: both lose at once", transform=plane.transAxes, va="top",
                color=plots.COLOURS[2], fontsize=9,
            )  # fmt: skip
            plane.plot([0, top], [0, top], color="black", lw=1, ls="--")
            plane.text(0.7 * top, 0.72 * top, "equal", rotation=45, ha="right", va="bottom")
            plane.set_xlim(0, top)
            plane.set_ylim(0, top)
            plane.set_aspect("equal")
            plane.set_xlabel("Reno's window (packets)")
            plane.set_title(QUEUES[queue], loc="left", fontsize=10)
            shown = round(40 / STEP)
            for kind, colour in LOOKS.items():
                values = runs[0][kind][:shown]
                times = [runs[0]["begin"] + STEP * i for i in range(len(values))]
                line.plot(times, values, color=colour, lw=1.3)
            line.set_ylim(0, top)
            line.set_xlabel("seconds")
        panels[0][0].set_ylabel("GAIMD's window (packets)")
        panels[1][0].set_ylabel("window (packets)")
        for x, kind, words in ((0.0, TCP, "Reno"), (0.2, GAIMD, "GAIMD(0.31, 0.875)")):
            panels[1][0].text(x, 1.03, words, color=LOOKS[kind], transform=panels[1][0].transAxes)


STUDIES: tuple[Study, ...] = (Formula(), Friendliness(), Curves(), Fluctuation(), Window())
