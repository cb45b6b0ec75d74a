# SPDX-License-Identifier: GPL-2.0
"""Plans of sessions.py, made from seeds.

burst() is the pattern of the paper's experiments: many sessions join in a short time, later some
leave while as many join, then nothing changes.  Sources and destinations are random routers, as the
paper's are random hosts.

levels() is a line of routers on which each bottleneck depends on the one before:

    wire 1: two sessions that nothing else restricts         C1 = 2 r1
    wire 2: one of them goes on, and shares with two others  C2 = r1 + 2 r2
    wire 3: one of these goes on, …                          C3 = r2 + 2 r3

with r1 < r2 < r3 …: the share of wire k is known only when wire k-1 has settled.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.sessions import Session

#: Of the sessions on a line, the first bottleneck's rate and each further one's step [bit/s].
LEVEL_RATE = 100_000_000


@dataclass(frozen=True)
class Churn:
    """How many sessions leave, join and change their demand, from BEGIN to END [s]."""

    begin: float
    end: float
    leave: int
    join: int
    change: int = 0


def burst(
    mesh: Mesh,
    count: int,
    within: float,
    churns: Sequence[Churn],
    host_rate: int | None,
    seed: int,
    spared: str = "",
) -> tuple[Session, ...]:
    """COUNT sessions that join WITHIN some seconds, with later churn.

    HOST_RATE is the rate of a host's own link [bit/s] and its demand, which churn changes to a
    tenth of it or less.  No session has the router SPARED as its destination.
    """
    draw = random.Random(seed)
    goals = [node for node in mesh.nodes if node != spared]

    def some(begin: float, end: float) -> Session:
        source = draw.choice(mesh.nodes)
        destination = draw.choice([node for node in goals if node != source])
        join = round(draw.uniform(begin, end), 6)
        return Session(source, destination, join, demand=host_rate)

    found = [some(0, within) for _ in range(count)]
    for churn in churns:
        there = [n for n, one in enumerate(found) if one.leave is None]
        for number in draw.sample(there, churn.leave):
            when = round(draw.uniform(churn.begin, churn.end), 6)
            found[number] = _changed(found[number], leave=when)
        stay = [n for n in there if found[n].leave is None]
        for number in draw.sample(stay, churn.change):
            when = round(draw.uniform(churn.begin, churn.end), 6)
            most = host_rate or min(mesh.rates.values())
            wanted = round(most * draw.uniform(0.001, 0.1))
            steps = (*found[number].changes, (when, wanted))
            found[number] = _changed(found[number], changes=tuple(sorted(steps)))
        found += [some(churn.begin, churn.end) for _ in range(churn.join)]
    return tuple(found)


def _changed(session: Session, **new: object) -> Session:
    return Session(**{**vars(session), **new})


def level_rates(count: int) -> list[int]:
    """The rates of the levels."""
    return [LEVEL_RATE * n for n in range(1, count + 1)]


def line(count: int, round_trip_us: int) -> Mesh:
    """A line with COUNT levels of bottlenecks; ROUND_TRIP is the time over two wires."""
    rates = level_rates(count)
    nodes = tuple(f"r{n}" for n in range(count + 2))
    wires = []
    for n, rate in enumerate(rates):
        before = rates[n - 1] if n else 0
        wires.append(Wire(nodes[n], nodes[n + 1], before + 2 * rate, round_trip_us // 4))
    # A destination for the second session of the last wire.
    wires.append(Wire(nodes[count], nodes[count + 1], 4 * rates[-1], round_trip_us // 4))
    return Mesh(f"line-{count}", nodes, tuple(wires))


def levels(count: int, turns: int, gap: float, within: float, seed: int) -> tuple[Session, ...]:
    """TURNS times: all sessions of a line join WITHIN some seconds, and leave after GAP."""
    draw = random.Random(seed)
    found = []
    for turn in range(turns):
        begin = turn * 1.5 * gap
        for n in range(count):
            for length in (1, 2):
                when = round(begin + draw.uniform(0, within), 6)
                leave = round(begin + gap, 6)
                found.append(Session(f"r{n}", f"r{n + length}", when, leave))
    return tuple(found)
