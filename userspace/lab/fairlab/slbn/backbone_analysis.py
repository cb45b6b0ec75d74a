# SPDX-License-Identifier: GPL-2.0
"""What was measured of a variant on the backbone, and its max-min reference: each flow's max-min
rate over time.

With SLBN it is computed from when sessions joined and left by their agents, not from the plan.  A
flow that always has data to send (TCP, and UDP above a link's rate) has no demand limit, whatever
its agent estimates.  All other sessions have the demand of their agent: slower UDP, and reverse
sessions, mostly of TCP's acknowledgements.  The reference changes with these demands, too.

On some paths there may be links without SLBN.  SLBN's own reference is of the links with SLBN, and
a flow that also crosses others has the demand of its agent, which follows what these let through.
The reference of every link is of all links and flows without demand limits: what flows get if links
without SLBN share fairly, too.

Without SLBN there are no agents, and a flow counts from when it could send; its acknowledgements
are a fraction of its own rate.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.slbn import backbone, maxmin
from fairlab.slbn.backbone import FLOWS, NUMBERS, SECOND, Paths, Plan
from fairlab.slbn.experiment import FIRST_PORT, FRAME, TCP_PORT, UDP, UDP_PAYLOAD, UDP_PORT
from fairlab.slbn.network import access
from fairlab.slbn.record import Record

NEVER = float("inf")
#: A reference is at rest while it changes by less, relatively.
STILL = 0.05
#: A larger change gives a new reference, to which assigned rates have to settle.
MOVED = 0.01
#: One acknowledgement for two full segments.
ACK_PART = (headers.SEGMENT + headers.ETHERNET) / (2 * FRAME)


@dataclass
class Session:
    """A session of a flow, or of its reverse direction."""

    flow: int
    back: bool
    since: float
    until: float = NEVER
    #: from when to when it has no demand limit
    greedy: tuple[float, float] = (NEVER, NEVER)
    demands: list[tuple[float, int]] = field(default_factory=list)
    rates: list[tuple[float, int]] = field(default_factory=list)

    def demand(self, when: float) -> int | None:
        """Its demand then [bit/s]; None: without limit."""
        if self.greedy[0] <= when < self.greedy[1]:
            return None
        return max(1, maxmin.last(self.demands, when))


def ports(number: int) -> tuple[int, int]:
    """The ports of a flow: the sender's, the receiver's."""
    return FIRST_PORT + number, UDP_PORT if FLOWS[number].kind == UDP else TCP_PORT


#: The flow of a session, and whether it is the reverse direction: by its router and ports.
OF_PORTS: dict[tuple[str, int, int], tuple[int, bool]] = {}
for _number, _flow in enumerate(FLOWS):
    _own, _port = ports(_number)
    OF_PORTS[access(_flow.source), _own, _port] = _number, False
    OF_PORTS[access(_flow.destination), _port, _own] = _number, True

Rates = dict[int, float]


class Reference(maxmin.OverTime[Rates]):
    """Each flow's rate over time [bit/s]."""

    @property
    def flows(self) -> set[int]:
        """All flows that have a rate at any time."""
        return {number for when in self.times for number in self.at(when)}

    def mean(self, number: int, begin: float, end: float) -> float:
        """A flow's mean rate [bit/s]."""
        steps = self.steps(begin, end)
        return sum((b - a) * rates.get(number, 0.0) for a, b, rates in steps) / (end - begin)

    def moves(self, numbers: Collection[int], by: float = STILL) -> list[float]:
        """The times at which one of these flows joined, left, or changed its rate enough."""
        found: list[float] = []
        before: Rates = {}
        for when in self.times:
            own = {number: rate for number, rate in self.at(when).items() if number in numbers}
            if own.keys() != before.keys() or any(
                abs(rate / before[number] - 1) > by for number, rate in own.items()
            ):
                found.append(when)
                before = own
        return found

    def rests(self, number: int, settle: float, end: float) -> list[tuple[float, float]]:
        """Intervals in which a flow's rate has not changed for SETTLE seconds."""
        moves = [when for when in self.moves([number]) if when < end]
        found = [(a + settle, b) for a, b in pairwise([*moves, end])]
        return [(a, b) for a, b in found if a < b and number in self.at(a)]


def reference_of(
    paths: Paths, capacity: Mapping[str, int], sessions: list[Session], acks: bool = False
) -> Reference:
    """The reference of SESSIONS; with ACKS, their acknowledgements are added.

    The demand of acknowledgements depends on the rate of their flow.
    """
    times = {when for s in sessions for when in (s.since, s.until, *s.greedy)}
    times |= {when for s in sessions for when, _ in s.demands}

    def solve(demands: dict[tuple[int, bool], int | None]) -> Rates:
        wanted = {one: maxmin.Session(paths.of(*one), demand) for one, demand in demands.items()}
        found = maxmin.rates(capacity, wanted)
        return {number: float(rate) for (number, back), rate in found.items() if not back}

    def rates(when: float) -> Rates:
        demands = {(s.flow, s.back): s.demand(when) for s in sessions if s.since <= when < s.until}
        found = solve(demands)
        for _ in range(5 if acks else 0):
            more: dict[tuple[int, bool], int | None] = {
                (number, True): max(1, round(ACK_PART * rate))
                for number, rate in found.items()
                if FLOWS[number].kind != UDP
            }
            found = solve(demands | more)
        return found

    return Reference(times - {NEVER}, rates, {})


class Run:
    """What was MEASURED of a variant: a record's document, and the flows' results."""

    def __init__(self, plan: Plan, name: str, measured: dict[str, Any]) -> None:
        self.plan, self.name, self.measured = plan, name, measured
        self.variant = backbone.VARIANTS[name]
        self.paths = Paths(**measured["paths"])

    @classmethod
    def read(cls, plan: Plan, name: str, work: Path) -> "Run":
        """The run of a variant in WORK; results are of all parts of a flow together."""
        kept = Record.read(backbone.of_variant(plan, name), work / name)
        parts = [[n for n, number in enumerate(NUMBERS) if number == f] for f in range(len(FLOWS))]
        found = {"keys": None, "events": [], "demands": [], "paced_drops": 0} | kept.document
        found["heads"] = kept.heads
        found["goodput"] = [[one for n in own for one in goodput(kept, n)] for own in parts]
        found["totals"] = [totals(kept, own) for own in parts]
        return cls(plan, name, found)

    def check(self) -> list[str]:
        """Raise the reason if it cannot be trusted; return the checks that were not made."""
        what = backbone.of_variant(self.plan, self.name)
        return Record(what, self.measured, self.measured["heads"], [], {}).check(self.name)

    def use(self, wire: str) -> list[float]:
        """The utilisation of a link (0 to 1) in the second before each sample but the first."""
        times, sent = self.measured["times"], self.measured["wires"][wire]["sent"]
        return [
            8 * (sent[n] - sent[n - SECOND]) / self.plan.rate / (times[n] - times[n - SECOND])
            for n in range(SECOND, len(times))
        ]

    @property
    def retransmits(self) -> int:
        """The segments that TCP has retransmitted."""
        return sum(head.get("retransmits", 0) for head in self.measured["heads"])

    # --- sessions -------------------------------------------------------------------------------

    def reported_sessions(self, every_link: bool = False) -> list[Session]:
        """The sessions by the agents' events, for SLBN's reference or that of EVERY_LINK."""
        found: dict[tuple[str, int], Session] = {}
        for when, router, id_, own, port, demand, rate, rtt, over in self.measured["events"]:
            identity = OF_PORTS.get((router, own, port))
            # The event comes one round-trip time after the join.
            sent = when - rtt / 1e9
            session = found.get((router, id_))
            if over:
                if session:
                    session.until = sent
            elif identity:
                if not session:
                    flow, back = identity
                    session = found[router, id_] = Session(flow, back, sent)
                    limited = self.plan.is_partial(self.paths.of(flow, back)) and not every_link
                    if not back and not limited and FLOWS[flow].greedy:
                        session.greedy = sent, self.plan.span(flow)[1]
                session.demands.append((sent, demand))
                session.rates.append((when, rate))
        for when, router, id_, demand in self.measured["demands"]:
            if session := found.get((router, id_)):
                session.demands.append((max(when, session.since), demand))
        for session in found.values():
            session.demands.sort(key=lambda step: step[0])
        return list(found.values())

    @cached_property
    def planned_sessions(self) -> list[Session]:
        """The sessions of the flows, by when they could send."""
        found = []
        for number, flow in enumerate(FLOWS):
            span = self.plan.span(number)
            greedy = span if flow.greedy else (NEVER, NEVER)
            demands = [
                (float(self.plan.times(part)[0]), round(part.share * self.plan.rate))
                for part in flow.parts
            ]
            found.append(Session(number, False, *span, greedy, demands))
        return found

    def used(self, number: int, when: float, rate: float) -> float:
        """What a flow would send then of a RATE."""
        demand = self.planned_sessions[number].demand(when)
        return rate if demand is None else min(rate, demand)

    # --- rates ----------------------------------------------------------------------------------

    def capacity(self, every_link: bool = False) -> dict[str, int]:
        """What links assign in sum, or share [bit/s]: those with SLBN, or EVERY_LINK."""
        part = {wire for wire in self.paths.used if self.plan.takes_part(wire)}
        found = dict.fromkeys(part, self.variant.capacity(self.plan.rate))
        if every_link or not self.variant.slbn:
            found |= dict.fromkeys(self.paths.used - part, self.plan.rate)
        return found

    @cached_property
    def sessions(self) -> list[Session]:
        return self.reported_sessions() if self.variant.slbn else self.planned_sessions

    @cached_property
    def reference(self) -> Reference:
        """The reference of the variant."""
        return reference_of(self.paths, self.capacity(), self.sessions, not self.variant.slbn)

    @cached_property
    def every_link(self) -> Reference:
        """With SLBN, the reference of every link; without, there is no other one."""
        if not self.variant.slbn:
            return self.reference
        return reference_of(self.paths, self.capacity(True), self.reported_sessions(True))

    @cached_property
    def assigned(self) -> Reference:
        """The assigned rates; they or the reference change at its times."""
        own = [session for session in self.sessions if not session.back]

        def rates(when: float) -> Rates:
            return {
                session.flow: float(maxmin.last(session.rates, when))
                for session in own
                if session.since <= when < session.until
            }

        times = {*self.reference.times, *(when for session in own for when, _ in session.rates)}
        return Reference(times, rates, {})

    def episodes(self, tolerance: float) -> list[tuple[float, float]]:
        """Intervals in which an assigned rate is off its max-min rate by more than TOLERANCE.

        Each begins when the reference changes (or a rate leaves it), and ends when all assigned
        rates have settled, or when the reference changes again.
        """
        moves = set(self.reference.moves(range(len(FLOWS)), MOVED))
        found: list[tuple[float, float]] = []
        for begin, end, rates in self.assigned.steps(0, self.plan.seconds):
            due = self.reference.at(begin)
            if all(abs(rates.get(number, 0.0) / due[number] - 1) <= tolerance for number in due):
                continue
            if found and found[-1][1] == begin and begin not in moves:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        return found


def goodput(kept: Record, number: int) -> list[tuple[float, float, float]]:
    """(begin, end, bit/s) of a part for each second.

    Of UDP, of what its destination received: no other UDP has that.  Of TCP, of what was
    acknowledged.
    """
    flow, rows = kept.what.flows[number], kept.rows[number]
    if flow.udp:
        counts = kept.document["datagrams"][flow.destination]
        received = zip(kept.document["times"], counts, strict=True)
        points = [(when, UDP_PAYLOAD * n) for when, n in received if flow.start <= when < flow.stop]
    else:
        every = zip((rows["time"] / 1e9).tolist(), rows["acked"].tolist(), strict=True)
        points = [(flow.start, 0), *every]
    return [
        (begin, end, 8 * (most - least) / (end - begin))
        for (begin, least), (end, most) in pairwise(points[::SECOND])
    ]


def totals(kept: Record, parts: list[int]) -> dict[str, Any]:
    """Of payload, what a flow sent and its destination received [bytes].

    Of TCP, what was acknowledged, and its segments; of UDP, how many packets had which delay.
    """
    heads = [kept.heads[n] for n in parts]
    flow = kept.what.flows[parts[0]]
    if not flow.udp:
        return {
            "got": sum(head["acked"] for head in heads),
            "segments": sum(head["segments"] for head in heads),
        }
    report = kept.sinks[flow.destination]
    sent = sum(head["sent"] for head in heads)
    names = ("delay_step_us", "delays")
    return {"sent": sent, "got": report["bytes"]} | {name: report[name] for name in names}
