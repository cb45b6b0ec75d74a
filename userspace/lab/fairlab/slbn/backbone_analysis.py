# SPDX-License-Identifier: GPL-2.0
"""The max-min reference of a run on the backbone: each flow's max-min rate over time.

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

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairlab.model import headers
from fairlab.slbn import backbone, maxmin
from fairlab.slbn.abilene import Variant
from fairlab.slbn.backbone import FLOWS, Paths, Plan
from fairlab.slbn.experiment import FIRST_PORT, FRAME, TCP_PORT, UDP, UDP_PORT
from fairlab.slbn.network import access

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
    #: the links on its path
    wires: list[str] = field(default_factory=list)
    until: float = NEVER
    #: from when to when it has no demand limit
    greedy: tuple[float, float] = (NEVER, NEVER)
    demands: list[tuple[float, int]] = field(default_factory=list)
    rates: list[tuple[float, int]] = field(default_factory=list)


def last(steps: list[tuple[float, int]], when: float) -> int:
    """The value of the step function STEPS at WHEN; before the first, 0."""
    place = bisect_right(steps, when, key=lambda step: step[0])
    return steps[place - 1][1] if place else 0


def ports(number: int) -> tuple[int, int]:
    """The ports of a flow: the sender's, the receiver's."""
    return FIRST_PORT + number, UDP_PORT if FLOWS[number].kind == UDP else TCP_PORT


def flow_of(router: str, source_port: int, destination_port: int) -> tuple[int, bool] | None:
    """The flow of a session, and whether it is the reverse direction."""
    there, back = (router, source_port, destination_port), (router, destination_port, source_port)
    for number, flow in enumerate(FLOWS):
        if there == (access(flow.source), *ports(number)):
            return number, False
        if back == (access(flow.destination), *ports(number)):
            return number, True
    return None


def stops(plan: Plan, number: int, started: list[float]) -> float:
    """The time at which a flow stops sending."""
    flow = FLOWS[number]
    begin, end = plan.times(flow.parts[-1])
    return started[-1] + end - begin if len(started) == len(flow.parts) else NEVER


def reported_sessions(
    plan: Plan, measured: dict[str, Any], every_link: bool = False
) -> list[Session]:
    """The sessions by the agents' events, for SLBN's reference or that of EVERY_LINK."""
    paths = Paths(**measured["paths"])
    found: dict[tuple[str, int], Session] = {}
    for when, router, number, source_port, port, demand, rate, rtt, over in measured["events"]:
        identity = flow_of(router, source_port, port)
        # The event comes one round-trip time after the join.
        sent = when - rtt / 1e9
        session = found.get((router, number))
        if over:
            if session:
                session.until = sent
        elif identity:
            if not session:
                flow, back = identity
                wires = paths.of(flow, back)
                session = found[router, number] = Session(flow, back, sent, wires)
                limited = plan.is_partial(wires) and not every_link
                if not back and not limited and FLOWS[flow].greedy:
                    session.greedy = sent, stops(plan, flow, measured["started"][flow])
            session.demands.append((sent, demand))
            session.rates.append((when, rate))
    for when, router, number, demand in measured["demands"]:
        if session := found.get((router, number)):
            session.demands.append((max(when, session.since), demand))
    for session in found.values():
        session.demands.sort(key=lambda step: step[0])
    return list(found.values())


def planned_sessions(plan: Plan, measured: dict[str, Any]) -> list[Session]:
    """The sessions of the flows, by when they could send."""
    paths = Paths(**measured["paths"])
    found = []
    for number, (flow, started) in enumerate(zip(FLOWS, measured["started"], strict=True)):
        since, until = started[0], stops(plan, number, started)
        session = Session(number, False, since, paths.of(number), until)
        if flow.greedy:
            session.greedy = since, until
        session.demands = [
            (when, round(part.share * plan.rate))
            for when, part in zip(started, flow.parts, strict=True)
        ]
        found.append(session)
    return found


Rates = dict[int, float]


class Reference(maxmin.OverTime[Rates]):
    """The max-min reference: each flow's rate [bit/s]."""

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


class Oracle:
    """Computes max-min rates, with a cache."""

    def __init__(
        self, plan: Plan, variant: Variant, paths: Paths, every_link: bool = False
    ) -> None:
        self.paths = paths
        part = {wire for wire in paths.used if plan.takes_part(wire)}
        self.capacity = dict.fromkeys(part, variant.capacity(plan.rate))
        if every_link or not variant.slbn:
            self.capacity |= dict.fromkeys(paths.used - part, plan.rate)
        self._known: dict[frozenset[tuple[int, bool, int | None]], Rates] = {}

    def rates(self, wanted: frozenset[tuple[int, bool, int | None]]) -> Rates:
        """The rates of sessions (flow, reverse, demand)."""
        if wanted not in self._known:
            sessions = {
                (number, back): maxmin.Session(self.paths.of(number, back), demand)
                for number, back, demand in wanted
            }
            found = maxmin.rates(self.capacity, sessions)
            self._known[wanted] = {n: float(rate) for (n, back), rate in found.items() if not back}
        return self._known[wanted]

    def with_acks(self, wanted: frozenset[tuple[int, bool, int | None]]) -> Rates:
        """The same, with acknowledgements, whose demand depends on the rate of their flow."""
        rates = self.rates(wanted)
        for _ in range(5):
            acks = {
                (number, True, max(1, round(ACK_PART * rate)))
                for number, rate in rates.items()
                if FLOWS[number].kind != UDP
            }
            rates = self.rates(wanted | acks)
        return rates

    def reference(self, sessions: list[Session], acks: bool) -> Reference:
        """The reference of these sessions; with ACKS, their acknowledgements are added."""
        moments = {when for s in sessions for when in (s.since, s.until, *s.greedy)}
        moments |= {when for s in sessions for when, _ in s.demands}

        def rates(when: float) -> Rates:
            wanted = frozenset(
                (
                    session.flow,
                    session.back,
                    None
                    if session.greedy[0] <= when < session.greedy[1]
                    else max(1, last(session.demands, when)),
                )
                for session in sessions
                if session.since <= when < session.until
            )
            return self.with_acks(wanted) if acks else self.rates(wanted)

        return Reference(moments - {NEVER}, rates, {})


def build(
    plan: Plan, name: str, measured: dict[str, Any], every_link: bool = False
) -> tuple[Reference, list[Session]]:
    """The reference of a variant, or with SLBN that of EVERY_LINK; and its sessions."""
    variant = backbone.VARIANTS[name]
    sessions = (
        reported_sessions(plan, measured, every_link)
        if variant.slbn
        else planned_sessions(plan, measured)
    )
    oracle = Oracle(plan, variant, Paths(**measured["paths"]), every_link)
    return oracle.reference(sessions, acks=not variant.slbn), sessions


@dataclass(frozen=True)
class Moment:
    """An interval without a change: each flow's assigned rate, and its max-min rate."""

    begin: float
    end: float
    beside: dict[int, tuple[float, float]]

    @property
    def off(self) -> float:
        """The largest relative difference of the two."""
        return max((abs(rate / due - 1) for rate, due in self.beside.values()), default=0.0)


def history(reference: Reference, sessions: list[Session], end: float) -> Iterator[Moment]:
    """The intervals until END with their assigned rates and max-min rates."""
    own = [session for session in sessions if not session.back]
    times = {*reference.times, *(when for session in own for when, _ in session.rates)}
    for begin, until in pairwise(sorted({when for when in times if when < end} | {end})):
        rates = reference.at(begin)
        assigned = {
            session.flow: float(last(session.rates, begin))
            for session in own
            if session.since <= begin < session.until
        }
        beside = {number: (assigned.get(number, 0.0), rate) for number, rate in rates.items()}
        yield Moment(begin, until, beside)


def episodes(
    reference: Reference, moments: list[Moment], tolerance: float
) -> list[tuple[float, float]]:
    """Intervals in which an assigned rate is off by more than TOLERANCE.

    Each begins when the reference changes (or a rate leaves it), and ends when all assigned rates
    have settled, or when the reference changes again.
    """
    moves = set(reference.moves(range(len(FLOWS)), MOVED))
    found: list[tuple[float, float]] = []
    for moment in moments:
        if moment.off <= tolerance:
            continue
        if found and found[-1][1] == moment.begin and moment.begin not in moves:
            found[-1] = (found[-1][0], moment.end)
        else:
            found.append((moment.begin, moment.end))
    return found


def rests(
    reference: Reference, number: int, settle: float, end: float
) -> list[tuple[float, float]]:
    """Intervals in which a flow's max-min rate has not changed for SETTLE seconds."""
    moves = [when for when in reference.moves([number]) if when < end]
    found = [(a + settle, b) for a, b in pairwise([*moves, end])]
    return [(a, b) for a, b in found if a < b and number in reference.at(a)]
