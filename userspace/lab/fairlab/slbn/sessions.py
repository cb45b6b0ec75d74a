# SPDX-License-Identifier: GPL-2.0
"""Hundreds of SLBN sessions on a backbone: the plan of a run, as plain data.

    slbnd ── router ══ router ══ … ══ router ── hosts (slbn edge)

Each router of a mesh has an agent (slbnd).  A program requests sessions from it by the paper's API
(Join, Change, Leave) and is notified of their rates.  The destination of a session is a host of its
own behind another router, at an SLBN edge; it is an address that discards all packets.  The source
can send data packets of a fixed size, paced at the assigned rate, from its first rate until it
leaves.

A run is a list of timed events, including failures: links that lose control packets for a time,
agents that are killed.  Plans are made from seeds (sessions_plan.py), run by sessions_guest.py, and
compared with max-min rates by sessions_analysis.py.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.model.plain import Plain
from fairlab.results import trust
from fairlab.run import engine
from fairlab.run.engine import VIRTUAL, Engine
from fairlab.run.job import Job
from fairlab.slbn.agents import require_tree
from fairlab.slbn.mesh import Mesh, planned

DATA = "sessions-data.json"

# The sources of the agent, its library and its qdisc, in the project's tree.
AGENT_SOURCES = ("sch_slbn", *(f"userspace/{name}" for name in ("common", "libslbn", "slbnd")))

DEFAULT_MTU = 1500
#: Headers of a data packet, in octets: IP, UDP and Ethernet.
DATA_HEADERS = 28 + 14


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
class Plan(Plain, Job["Recording"]):
    """The plan of a run."""

    kind = "sessions"

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

    # --- as a job -------------------------------------------------------------------------------

    def sources(self) -> tuple[str, ...]:
        return (*engine.SOURCES, *AGENT_SOURCES, "userspace/lab/fairlab/slbn")

    def duration(self) -> float:
        return self.seconds

    def check_engine(self, engine: Engine) -> None:
        require_virtual(engine)

    def build(self) -> None:
        build_programs()

    def read(self, work: Path) -> "Recording":
        recording = read(work)
        check(recording)
        return recording

    def conditions(self, work: Path) -> dict[str, Any]:
        recording = read(work)
        return trust.conditions(recording.around, check(recording))


@dataclass
class Recording:
    """The raw data of a run, with times from its start [s]; sessions by their numbers."""

    plan: Plan
    #: requests: (when, session, demand; None: unlimited; 0: leave)
    asked: list[tuple[float, int, int | None]] = field(default_factory=list)
    #: assigned rates: (when, session, rate)
    rates: list[tuple[float, int, int]] = field(default_factory=list)
    #: agents that were killed: (when, router)
    died: list[tuple[float, str]] = field(default_factory=list)
    #: at the end, of each active session: rate, cycles, retries, round-trip time [ns], hops
    last: dict[int, tuple[int, int, int, int, int]] = field(default_factory=dict)
    #: times of samples of queues
    times: list[float] = field(default_factory=list)
    #: of each link, at these times: the columns of Sampler
    links: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    #: slbnctl's counters of each link at the end
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: sent data packets
    sent: int = 0
    #: what agents have printed, by router
    agents: dict[str, str] = field(default_factory=dict)
    #: what every run records (run/evidence.py)
    around: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Recording":
        data = dict(data)
        data["plan"] = Plan.from_json(data["plan"])
        data["last"] = {int(number): tuple(one) for number, one in data["last"].items()}
        return cls(**data)


def build_programs(*more: str) -> None:
    """Build the programs of the tree that a run needs, and MORE targets."""
    require_tree()
    engine.make(["tc-plugins", "tools", *more], ())


def require_virtual(engine: Engine) -> None:
    """Raise CannotRunError on an engine in which events would be late."""
    if engine.engine != VIRTUAL:
        raise CannotRunError("sessions need virtual time: use --engine virtual")


def check(recording: Recording) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    return trust.check(evidence(recording), virtual=True)


def evidence(recording: Recording) -> trust.Evidence:
    """There is no TCP."""
    plan, links = recording.plan, recording.links
    frame = plan.mtu + headers.ETHERNET
    return trust.gathered(
        recording.around,
        delays=sum(kept["hidden"][-1] for kept in links.values()),
        memory={},
        frames={
            link: trust.Frames(kept["sent"][-1], kept["packets"][-1], frame)
            for link, kept in links.items()
        },
        flows={},
        rates={
            link: trust.LinkRate(
                recording.times, kept["sent"], kept["held"], plan.mesh.rates[link], 2 * frame
            )
            for link, kept in links.items()
        },
        agents=recording.agents,
    )


def read(directory: Path) -> Recording:
    """Read the raw data of a run, unchecked."""
    return Recording.from_json(json.loads((directory / DATA).read_text()))
