# SPDX-License-Identifier: GPL-2.0
"""Scenarios: the description of a `fairlab run`, as plain data.

The constructor checks everything that does not depend on a machine, and raises UsageError.  As JSON
a scenario is passed to the kernel under test, and stored with every result.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass

from fairlab.model import headers, units
from fairlab.model.background import Background
from fairlab.model.errors import UsageError, require_known
from fairlab.model.plain import Plain
from fairlab.model.qdisc import Buffer, Qdisc

TOPOLOGIES = ("dumbbell",)
# The programs that send flows: the usual one, and our own.
IPERF3, FAIRFLOW = SENDERS = ("iperf3", "fairflow")

MAX_FLOWS = 100
MIN_RATE, MAX_RATE = 10**6, 10**11
MAX_RTT = 10 * 10**6
MIN_TIME, MAX_TIME = 2, 24 * 3600
MIN_MTU, MAX_MTU = 576, 9000
MAX_QUEUE = 2**30
MAX_SEED = 2**64 - 1

_FLOW = re.compile(
    r"(?:(\d{1,3})\*)?([a-z][a-z0-9_-]{0,14})(?::([A-Za-z0-9_. -]{1,40}))?", re.ASCII
)


@dataclass(frozen=True)
class Flow:
    """One TCP connection that always has data to send."""

    cc: str
    preset: str = ""

    def __str__(self) -> str:
        return f"{self.cc}:{self.preset}" if self.preset else self.cc


def parse_flows(text: str) -> tuple[Flow, ...]:
    """Flows such as `bic,bic:linux,2*cubic`."""
    flows: list[Flow] = []
    for word in text.split(","):
        match = _FLOW.fullmatch(word.strip())
        if not match:
            raise UsageError(
                f"flow '{word.strip()}': must be CC, CC:PRESET or N*CC, such as bic:linux"
            )
        count = int(match[1] or 1)
        if count < 1:
            raise UsageError(f"flow '{word.strip()}': must be at least one")
        flows += [Flow(match[2], (match[3] or "").strip())] * count
    if len(flows) > MAX_FLOWS:
        raise UsageError(f"{len(flows)} flows: at most {MAX_FLOWS}")
    return tuple(flows)


def flow_labels(flows: tuple[Flow, ...]) -> list[str]:
    """A name for each flow, numbered where there are several of a kind: bic #1, bic #2, reno."""
    total = Counter(map(str, flows))
    seen: Counter[str] = Counter()
    labels = []
    for name in map(str, flows):
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return labels


class Links(Plain):
    """A description whose links all have the same MTU."""

    mtu: int

    def check_mtu(self) -> None:
        if not MIN_MTU <= self.mtu <= MAX_MTU:
            raise UsageError(f"mtu {self.mtu}: must be {MIN_MTU} to {MAX_MTU}")

    @property
    def frame(self) -> int:
        """The largest packet as queues count it, in bytes: without preamble and checksum."""
        return self.mtu + headers.ETHERNET

    @property
    def payload(self) -> int:
        """The payload of the largest packet, in bytes."""
        return self.mtu - headers.SEGMENT


@dataclass(frozen=True)
class Scenario(Links):
    """A scenario.  Rates in bit/s, times in microseconds unless the name says seconds."""

    topology: str
    flows: tuple[Flow, ...]
    rate: int
    rtt: int
    buffer: Buffer
    seconds: int
    warmup_seconds: float
    start_gap: int = 0
    seed: int = 1
    mtu: int = 1500
    ecn: bool = False
    netem_limit: int = 0  # 0: large enough for all packets
    qdiscs: tuple[Qdisc, ...] = ()  # at most one for a link, with its limit
    background: Background | None = None
    sender: str = IPERF3

    def __post_init__(self) -> None:
        require_known("no topology", self.topology, TOPOLOGIES)
        if not MIN_RATE <= self.rate <= MAX_RATE:
            raise UsageError(f"rate {units.format_rate(self.rate)}: must be 1mbit to 100gbit")
        if not 0 <= self.rtt <= MAX_RTT:
            raise UsageError(f"rtt {units.format_time(self.rtt)}: must be at most 10s")
        if not MIN_TIME <= self.seconds <= MAX_TIME:
            raise UsageError(f"time {self.seconds} s: must be {MIN_TIME} s to 24 h")
        self.check_mtu()
        if not self.frame <= self.buffer.bytes_at_most(self.frame) <= MAX_QUEUE:
            raise UsageError(
                f"buffer {self.buffer.text} is {self.buffer.bytes_at_most(self.frame)} bytes:"
                f" must hold a packet of {self.frame} bytes, and at most 1 GB"
            )
        if self.netem_limit < 0:
            raise UsageError(f"netem limit {self.netem_limit}: must be at least 1 packet")
        if not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"seed {self.seed}: must be 0 to 2^64 - 1")
        links = [qdisc.link for qdisc in self.qdiscs]
        twice = {link for link in links if links.count(link) > 1}
        if twice:
            raise UsageError(f"more than one qdisc for the link '{twice.pop()}'")
        if self.background:
            self.background.check(self.rate)
        require_known("no sender", self.sender, SENDERS)
        last_start = self.start_gap * (len(self.flows) - 1) / 10**6
        if not 0 <= self.warmup_seconds < self.seconds - 1:
            raise UsageError(
                f"warm-up {self.warmup_seconds:g} s: must leave more than a second"
                f" of {self.seconds} s"
            )
        if last_start > self.warmup_seconds:
            raise UsageError(
                f"the last flow starts after {last_start:g} s, when the warm-up of"
                f" {self.warmup_seconds:g} s is over: use a longer --warmup"
            )

    @property
    def bdp(self) -> int:
        """Bandwidth-delay product in bytes."""
        return self.rate * self.rtt // (8 * 10**6)

    @property
    def labels(self) -> list[str]:
        """A name for each flow."""
        return flow_labels(self.flows)

    def qdisc(self, link: str) -> Qdisc | None:
        """The qdisc that the scenario has for a link."""
        return next((qdisc for qdisc in self.qdiscs if qdisc.link == link), None)

    def starts(self) -> list[float]:
        """The start of each flow, in seconds.

        Each is delayed by a random time below 0.1 s, from the seed, so that flows do not start at
        the same moment, but equally in each run.
        """
        late = random.Random(self.seed)
        return [n * self.start_gap / 10**6 + late.random() / 10 for n in range(len(self.flows))]


def default_warmup(seconds: int, flows: int, start_gap: int) -> float:
    """A quarter of the time but at most 10 s, counted from the start of the last flow."""
    return min(seconds / 4, 10) + (flows - 1) * start_gap / 10**6
