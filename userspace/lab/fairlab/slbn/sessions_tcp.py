# SPDX-License-Identifier: GPL-2.0
"""TCP flows on Abilene with SLBN, with fair queueing and with FIFOs, compared with max-min rates.

The network is abilene.py's, with hosts that do not know SLBN; flows join and leave at random times
from a seed.  With SLBN, slbnd on each access router detects and paces them, as in the demo
(backbone.py); here there are more flows, sent by fairflow.

The max-min reference is of the links' full rates and the flows' own times.  SLBN's capacity is less
than a link's rate, and TCP's acknowledgements need a part in all variants; the reference ignores
both, so flows are expected a little below it.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.model.network import Network
from fairlab.model.plain import Plain
from fairlab.results import trust
from fairlab.run import engine, samples
from fairlab.run.engine import Engine
from fairlab.run.job import Job
from fairlab.slbn import abilene, backbone, maxmin, sessions

DATA = "sessions-tcp-data.json"
MTU = 1500
#: The payload as a fraction of frames.
PAYLOAD_PART = (MTU - headers.SEGMENT) / (MTU + headers.ETHERNET)
#: What a link may send at once [bytes].
BURST = 2 * (MTU + headers.ETHERNET)
#: Seconds after a change until rates count.
SETTLE = 3.0


@dataclass(frozen=True)
class Flow:
    """A flow between the hosts of two nodes: congestion control, start and stop [s]."""

    source: str
    destination: str
    cc: str
    start: float
    stop: float

    @property
    def wires(self) -> list[str]:
        return abilene.SYMMETRIC.path(self.source, self.destination)


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
        found.append(Flow(source, destination, ccs[n % len(ccs)], round(start, 4), round(stop, 4)))
    return tuple(found)


@dataclass(frozen=True)
class TcpPlan(Plain, Job["TcpOutcome"]):
    """The plan of a run: VARIANT is one of backbone.VARIANTS."""

    kind = "sessions-tcp"

    variant: str
    rate: int
    flows: tuple[Flow, ...]
    seconds: float
    #: the paper's form of SLBN
    paper: bool = False
    look: float = 0.25

    # --- as a job -------------------------------------------------------------------------------

    def sources(self) -> tuple[str, ...]:
        return (
            *engine.SOURCES,
            "sch_drr_fq",
            "userspace/traffic",
            *(sessions.AGENT_SOURCES if self.variant == "slbn" else ()),
            "userspace/lab/fairlab/slbn",
        )

    def network(self) -> Network:
        """Abilene with the variant's queues; with SLBN, links have fair queues, not FIFOs."""
        variant = backbone.VARIANTS[self.variant]
        if variant.slbn:
            variant = replace(variant, data=backbone.VARIANTS["drr_fq"].data)
        words = abilene.PAPER if self.paper else abilene.COMMIT
        return abilene.build(self.rate, variant, MTU, words=words)

    def duration(self) -> float:
        return self.seconds

    def check_engine(self, engine: Engine) -> None:
        sessions.require_virtual(engine)

    def build(self) -> None:
        sessions.build_programs("traffic")

    def read(self, work: Path) -> "TcpOutcome":
        return read(self, work)

    def conditions(self, work: Path) -> dict[str, Any]:
        document = json.loads((work / DATA).read_text())
        found = document["environment"]
        lacking = check(self, document, flows_of(self, work))
        names = ("kernel", "engine", "tools", "modules")
        return {name: found[name] for name in names} | trust.condition(lacking)


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
    agents_found: int

    @cached_property
    def moments(self) -> list[float]:
        """The times at which flows start or stop."""
        return sorted({when for flow in self.plan.flows for when in (flow.start, flow.stop)})

    def fair(self, when: float) -> dict[int, float]:
        """The max-min goodput of each active flow [bit/s]."""
        there = {
            str(n): maxmin.Session(flow.wires)
            for n, flow in enumerate(self.plan.flows)
            if flow.start <= when < flow.stop
        }
        used = {wire for one in there.values() for wire in one.path}
        found = maxmin.rates(dict.fromkeys(used, self.plan.rate), there)
        return {int(n): float(rate) * PAYLOAD_PART for n, rate in found.items()}

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
            for number, fair in self.fair(begin).items()
        ]

    def queues(self) -> list[list[float]]:
        """At each sample: the queueing delay of each link [ms].

        With SLBN, packets paced at an access router are not counted as link queue.
        """
        own = {abilene.wire(abilene.access(node), node) for node in abilene.ACCESS}
        names = [wire for wire in self.wires if not (self.plan.variant == "slbn" and wire in own)]
        return [
            [8000 * self.wires[wire]["held"][n] / self.plan.rate for wire in names]
            for n in range(len(self.times))
        ]

    @property
    def maxmin(self) -> float:
        """The part of the max-min goodput that flows got, without what a flow got above its own."""
        cuts = sorted({0.0, *self.moments, self.plan.seconds})
        fair = [0.0] * len(self.plan.flows)
        for begin, end in pairwise(when for when in cuts if when <= self.plan.seconds):
            for number, rate in self.fair(begin).items():
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


def evidence(plan: TcpPlan, document: dict[str, Any], ran: dict[str, trust.Ran]) -> trust.Evidence:
    """What a run has recorded; RAN: its flows."""
    wires = document["wires"]
    return trust.Evidence(
        between=document["backlog_drops"],
        delays=sum(kept["hidden"][-1] for kept in wires.values()),
        memory=document["out_of_memory"],
        frames={
            wire: trust.Frames(kept["sent"][-1], kept["packets"][-1], MTU + headers.ETHERNET)
            for wire, kept in wires.items()
        },
        rates={
            wire: trust.LinkRate(document["times"], kept["sent"], kept["held"], plan.rate, BURST)
            for wire, kept in wires.items()
            if not backbone.is_uplink(wire)
        },
        flows=ran,
        agents=document["agents"],
        kernel=document["kernel_errors"],
        changed=document["changed"],
    )


def flows_of(plan: TcpPlan, work: Path) -> list[tuple[str, Any]]:
    """Of each flow, by its number: the congestion control that it ran, its samples."""
    found: dict[int, tuple[str, Any]] = {}
    for node, numbers in by_source(plan).items():
        head, rows = samples.read(work / f"{node}.fair")
        for n, number in enumerate(numbers):
            found[number] = head["flows"][n]["kind"], rows[rows["flow"] == n]
    return [found[number] for number in range(len(plan.flows))]


def check(plan: TcpPlan, document: dict[str, Any], flows: list[tuple[str, Any]]) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    ran = {
        f"flow {number} from {flow.source}": trust.Ran(
            flow.cc, kind, len(own) > 0 and own["acked"][-1] > 0
        )
        for number, (flow, (kind, own)) in enumerate(zip(plan.flows, flows, strict=True))
    }
    lacking = trust.check(evidence(plan, document, ran), virtual=True)
    found = document["found"]
    if plan.variant == backbone.VARIANTS["slbn"].name and found < len(plan.flows):
        raise CannotRunError(f"agents detected {found} of {len(plan.flows)} flows")
    return lacking


def read(plan: TcpPlan, work: Path) -> TcpOutcome:
    """The outcome of PLAN, whose raw data is in WORK; CannotRunError if it is disturbed."""
    document = json.loads((work / DATA).read_text())
    flows = flows_of(plan, work)
    check(plan, document, flows)
    return TcpOutcome(
        plan,
        document["times"],
        document["wires"],
        [(own["time"] / 1e9, own["acked"].astype(float)) for _, own in flows],
        sum(int(own["retransmits"][-1]) for _, own in flows),
        sum(int(own["segments"][-1]) for _, own in flows),
        document["paced_drops"],
        document["hosts"],
        document["found"],
    )


def by_source(plan: TcpPlan) -> dict[str, list[int]]:
    """The numbers of the flows of each node's host."""
    found: dict[str, list[int]] = {}
    for number, flow in enumerate(plan.flows):
        found.setdefault(flow.source, []).append(number)
    return found
