# SPDX-License-Identifier: GPL-2.0
"""Settings, experiments and loss statistics that the studies of GAIMD share."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlab.figures.studies.gaimd.model import CHOSEN, rate
from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.results import plots
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome

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
    """Refuse a run in which RED kept the flows from using the link."""
    if outcome.utilisation < LEAST_USE:
        raise CannotRunError(
            f"only {100 * outcome.utilisation:.0f} % of the bottleneck was used: RED's average did"
            " not decay while the queue was empty"
        )
