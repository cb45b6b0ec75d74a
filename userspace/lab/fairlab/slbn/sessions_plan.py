# SPDX-License-Identifier: GPL-2.0
"""Hundreds of SLBN sessions on a backbone: the plan of a run, as plain data.

    slbnd ── router ══ router ══ … ══ router ── hosts (slbn edge)

Each router of a mesh has an agent (slbnd).  A program requests sessions from it by the paper's API
(Join, Change, Leave) and is notified of their rates.  The destination of a session is a host of its
own behind another router, at an SLBN edge; it is an address that discards all packets.  The source
can send data packets of a fixed size, paced at the assigned rate, from its first rate until it
leaves.

A run is a list of timed events, including failures: links that lose control packets for a time,
agents that are killed.  sessions.py runs it; sessions_analysis.py compares the rates with
max-min rates.

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
from dataclasses import dataclass, replace

from fairlab.model.plain import Plain
from fairlab.slbn.mesh import Mesh, Wire, planned

#: Of the sessions on a line, the first bottleneck's rate and each further one's step [bit/s].
LEVEL_RATE = 100_000_000
DEFAULT_MTU = 1500


@dataclass(frozen=True)
class Session:
    """A session: source and destination routers, times of join and leave [s], demand [bit/s].

    CHANGES are later demands: (when, bit/s).  A demand of None is unlimited; a LEAVE of None is
    never.
    """

    source: str
    destination: str
    join: float
    leave: float | None = None
    demand: int | None = None
    changes: tuple[tuple[float, int | None], ...] = ()


@dataclass(frozen=True)
class Loss:
    """All links lose a fraction PART of the control packets from BEGIN to END [s]."""

    begin: float
    end: float
    part: float


@dataclass(frozen=True)
class Sessions(Plain):
    """The sessions of a run, and the links that they cross."""

    mesh: Mesh
    sessions: tuple[Session, ...]
    seconds: float
    #: epoch of the links; 0: one ledger for ever, as in the paper
    epoch_ms: int = 1000
    #: entries of a link's memory: more than sessions
    visits: int = 4096
    #: what links do not plan with, in per mille of their rate
    headroom: int = 0
    #: links limit rises to what is free (protocol 2)
    commit: bool = True
    #: rate of the SLBN links, as a multiple of that of their wires
    overbooked: float = 1.0
    #: shortest pause between two cycles of a session [ms]
    pause_ms: float = 5.0
    #: control packets' part of a session's rate, in per cent
    control: float = 1.0
    #: hop slots of a packet
    hops: int = 16
    #: size of a data packet, with IP header [octets]; 0: no data
    packet: int = 0
    losses: tuple[Loss, ...] = ()
    #: agents that are killed: (when, router)
    deaths: tuple[tuple[float, str], ...] = ()
    #: interval of samples of queues [s]
    every: float = 0.05
    #: of the kernel's and the programs' random numbers, in virtual time
    seed: int = 0

    def rates(self) -> dict[str, int]:
        """The rate of each SLBN link [bit/s]."""
        return {link: round(self.overbooked * rate) for link, rate in self.mesh.rates.items()}

    @property
    def mtu(self) -> int:
        """The largest packet of any link [octets]."""
        return max(DEFAULT_MTU, self.packet)

    def capacity(self) -> dict[str, int]:
        """What each link assigns in sum [bit/s]."""
        return {link: planned(rate, self.headroom) for link, rate in self.rates().items()}


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
            found[number] = replace(found[number], leave=when)
        stay = [n for n in there if found[n].leave is None]
        for number in draw.sample(stay, churn.change):
            when = round(draw.uniform(churn.begin, churn.end), 6)
            most = host_rate or min(mesh.rates.values())
            wanted = round(most * draw.uniform(0.001, 0.1))
            steps = (*found[number].changes, (when, wanted))
            found[number] = replace(found[number], changes=tuple(sorted(steps)))
        found += [some(churn.begin, churn.end) for _ in range(churn.join)]
    return tuple(found)


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
