# SPDX-License-Identifier: GPL-2.0
"""TCP flows on Abilene with SLBN, with fair queueing and with FIFOs, compared with max-min rates.

The network is abilene.py's, with hosts that do not know SLBN; flows join and leave at random times
from a seed.  With SLBN, slbnd on each access router detects and paces them, as in the demo
(backbone.py); here there are more flows, sent by fairflow.

The max-min reference is of the links' full rates and the flows' own times.  SLBN's capacity is less
than a link's rate, and TCP's acknowledgements need a part in all variants; the reference ignores
both, so flows are expected a little below it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError
from fairlab.model.network import Network
from fairlab.model.plain import Plain
from fairlab.run import engine
from fairlab.slbn import abilene, backbone, maxmin
from fairlab.slbn.experiment import FIRST_PORT, TCP_PART, TCP_PORT, Experiment, Flow
from fairlab.slbn.network import is_uplink
from fairlab.slbn.record import AGENT_SOURCES, NUMBERS, Measured, Record

#: Seconds after a change until rates count.
SETTLE = 3.0
# Options of slbnd besides the backbone's.  With 5 %, 400 kbit/s, for packets without a rate, TCP's
# first windows and acknowledgements are lost, and flows wait for timeouts for many seconds.  With
# 10 % of each session's rate for control packets, links drop half of them: they admit 5 % in all.
OPTIONS = {"control": "2%", "unassigned": "15%"}
#: Interval of samples of flows [s].
LOOK = 0.05


def draw(count: int, seconds: float, ccs: Sequence[str], seed: int) -> tuple[Flow, ...]:
    """COUNT flows; a third ends after a third of SECONDS, as many start after two thirds."""
    draw = random.Random(seed)
    third = count // 3
    found = []
    for n in range(count + third):
        source, destination = draw.sample(abilene.ACCESS, 2)
        start, stop = draw.uniform(0, 1), seconds
        if n < third:
            stop = seconds / 3
        elif n >= count:
            start += 2 * seconds / 3
        times, port = (round(start, 4), round(stop, 4)), FIRST_PORT + n
        found.append(Flow(source, destination, *times, cc=ccs[n % len(ccs)], port=port))
    return tuple(found)


@dataclass(frozen=True)
class TcpPlan(Plain, Measured["TcpOutcome"]):
    """The plan of a run: VARIANT is one of backbone.VARIANTS."""

    kind = "sessions-tcp"

    variant: str
    rate: int
    flows: tuple[Flow, ...]
    seconds: float
    #: the paper's form of SLBN
    paper: bool = False
    #: slbnd limits the receive windows of TCP
    windows: bool = False
    look: float = 0.25
    #: of the kernel's and the programs' random numbers, in virtual time
    seed: int = 0

    # --- as a job -------------------------------------------------------------------------------

    def sources(self) -> tuple[str, ...]:
        return (
            *engine.SOURCES,
            "sch_drr_fq",
            "userspace/traffic",
            *(AGENT_SOURCES if self.variant == "slbn" else ()),
            *NUMBERS,
        )

    def network(self) -> Network:
        """Abilene with the variant's queues; with SLBN, links have fair queues, not FIFOs."""
        variant = backbone.VARIANTS[self.variant]
        if variant.slbn:
            variant = replace(variant, data=backbone.VARIANTS["drr_fq"].data)
        return abilene.build(self.rate, variant, words=abilene.PAPER if self.paper else "")

    def experiment(self) -> Experiment:
        slbn = backbone.VARIANTS[self.variant].slbn
        more = OPTIONS | {"windows": "on" if self.windows else "off"}
        options = backbone.agent_options(self.rate, str(TCP_PORT), more)
        return Experiment(
            name=self.variant,
            network=self.network(),
            flows=self.flows,
            seconds=self.seconds,
            looks=tuple(n * self.look for n in range(round(self.seconds / self.look) + 1)),
            look=LOOK,
            window=16 * self.rate // 8,
            agents=options if slbn else {},
            watched=slbn,
        )

    def read(self, work: Path) -> "TcpOutcome":
        record = self.record(work)
        check(self, record)
        document = record.document
        return TcpOutcome(
            self,
            document["times"],
            document["wires"],
            [(own["time"] / 1e9, own["acked"].astype(float)) for own in record.rows],
            sum(int(own["retransmits"][-1]) for own in record.rows),
            sum(int(own["segments"][-1]) for own in record.rows),
            document.get("paced_drops", 0),
            document["hosts"],
        )


@dataclass(frozen=True)
class TcpOutcome:
    """The results of a run.  WIRES: the backlog in octets and the drops of each, at TIMES."""

    plan: TcpPlan
    times: list[float]
    wires: dict[str, dict[str, list[int]]]
    #: of each flow: times, and octets acknowledged until then
    acked: list[tuple[Any, Any]]
    retransmits: int
    segments: int
    #: data packets that slbnd's pacers dropped
    paced_drops: int
    #: packets that hosts sent, and that arrived at hosts
    hosts: dict[str, int]

    @cached_property
    def moments(self) -> list[float]:
        """The times at which flows start or stop."""
        return sorted({when for flow in self.plan.flows for when in (flow.start, flow.stop)})

    @cached_property
    def fair(self) -> maxmin.OverTime[dict[int, float]]:
        """The max-min goodput of each active flow [bit/s]."""

        def rates(when: float) -> dict[int, float]:
            there = {
                n: maxmin.Session(abilene.SYMMETRIC.path(flow.source, flow.destination))
                for n, flow in enumerate(self.plan.flows)
                if flow.start <= when < flow.stop
            }
            used = {wire for one in there.values() for wire in one.path}
            found = maxmin.rates(dict.fromkeys(used, self.plan.rate), there)
            return {n: float(rate) * TCP_PART for n, rate in found.items()}

        return maxmin.OverTime(self.moments, rates, {})

    def goodput(self, number: int, begin: float, end: float) -> float:
        """The goodput of a flow [bit/s]."""
        import numpy

        times, acked = self.acked[number]
        if not len(times):
            return 0.0
        first, last = numpy.interp((begin, end), times, acked, left=0)
        return float(8 * (last - first) / (end - begin))

    def rests(self) -> list[tuple[float, float]]:
        """The intervals from SETTLE after a change to the next change."""
        cuts = [*(when for when in self.moments if when < self.plan.seconds), self.plan.seconds]
        return [(a + SETTLE, b) for a, b in pairwise(cuts) if a + SETTLE < b]

    def errors(self, begin: float, end: float) -> list[float]:
        """The error of each flow's goodput [%]; no flow may start or stop in between."""
        return [
            100 * (self.goodput(number, begin, end) / fair - 1)
            for number, fair in sorted(self.fair.at(begin).items())
        ]

    def queues(self) -> list[list[float]]:
        """At each sample: the queueing delay of each link [ms].

        With SLBN, packets paced at an access router are not counted as link queue.
        """
        slbn = self.plan.variant == "slbn"
        names = [wire for wire in self.wires if not (slbn and is_uplink(wire))]
        return [
            [8000 * self.wires[wire]["held"][n] / self.plan.rate for wire in names]
            for n in range(len(self.times))
        ]

    @property
    def maxmin(self) -> float:
        """The part of the max-min goodput that flows got, without what a flow got above its own."""
        fair = [0.0] * len(self.plan.flows)
        for begin, end, rates in self.fair.steps(0, self.plan.seconds):
            for number, rate in rates.items():
                fair[number] += rate * (end - begin)
        got = [
            self.goodput(number, 0, self.plan.seconds) * self.plan.seconds
            for number in range(len(fair))
        ]
        return sum(map(min, got, fair)) / sum(fair)

    @property
    def loss(self) -> float:
        """The part of the packets that hosts sent that was lost, in links and pacers."""
        return 1 - self.hosts["arrived"] / self.hosts["sent"]

    @property
    def lost(self) -> int:
        """The packets that links dropped."""
        return sum(kept["drops"][-1] for kept in self.wires.values())


def check(plan: TcpPlan, record: Record) -> None:
    """Raise the reason if the run cannot be trusted."""
    record.check()
    # Sessions towards the sinks, without reverse ones.
    found = len({event[3] for event in record.document.get("events", ()) if event[4] == TCP_PORT})
    if record.what.agents and found < len(plan.flows):
        raise CannotRunError(f"agents detected {found} of {len(plan.flows)} flows")
