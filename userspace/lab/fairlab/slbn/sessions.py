# SPDX-License-Identifier: GPL-2.0
"""Hundreds of SLBN sessions come and go on a backbone: what is planned, as plain data.

    slbnd ── router ══ router ══ … ══ router ── hosts (slbn edge)

Each router of a mesh has an agent (slbnd), which a program asks for sessions, as the paper's API
has it: Join, Change, Leave; and is told their rates.  A session goes to a host of its own behind
another router, where SLBN ends at an edge; that host exists as an address only, and swallows what
it gets.  Its source can send data in packets of a fixed size, as far apart as the rate that it was
told last wants them, from when it is told its first rate until it leaves.

A run is a list of events, each at its time; hostile ones are among them: wires that lose control
packets for a while, agents that are killed.  It is made of seeds before it is run
(sessions_plan.py), run by sessions_guest.py, and compared with exact rates by sessions_analysis.py.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError
from fairlab.run import engine
from fairlab.run.engine import VIRTUAL, Engine
from fairlab.run.job import Job
from fairlab.slbn.agents import require_tree
from fairlab.slbn.mesh import Mesh, Wire

DATA = "sessions-data.json"

# The sources of the agent and what it talks to, in the project's tree.
AGENT_SOURCES = ("sch_slbn", *(f"userspace/{name}" for name in ("common", "libslbn", "slbnd")))

#: Octets of a data packet that are not the user's: IP, UDP and Ethernet.
DATA_HEADERS = 28 + 14


@dataclass(frozen=True)
class Session:
    """From which router, to a host behind which, from when to when [s], and what it asks for.

    CHANGES are later demands: (when, bit/s).  None: all that it can get; and for ever.
    """

    source: str
    destination: str
    join: float
    leave: float | None = None
    demand: int | None = None
    changes: tuple[tuple[float, int | None], ...] = ()


@dataclass(frozen=True)
class Loss:
    """All wires lose this part of the control packets, from when to when [s]."""

    begin: float
    end: float
    part: float


@dataclass(frozen=True)
class Plan(Job["Told"]):
    """What is to be run."""

    kind = "sessions"

    mesh: Mesh
    sessions: tuple[Session, ...]
    seconds: float
    #: of the links; 0: the paper's own three integers
    epoch_ms: int = 1000
    #: visits that a link remembers: more than there are sessions
    visits: int = 4096
    #: links hand out this part of a wire
    handed_out: float = 1.0
    #: between two cycles of a session, at least [ms]
    pause_ms: float = 5.0
    #: of a session's rate that its control packets may take, in per cent
    control: float = 1.0
    #: links on the longest path that a packet has room for
    hops: int = 16
    #: of a data packet, with IP's headers [octets]; 0: no data is sent
    packet: int = 0
    losses: tuple[Loss, ...] = ()
    #: agents that are killed: (when, router)
    deaths: tuple[tuple[float, str], ...] = ()
    #: between two looks at queues [s]
    every: float = 0.05

    def capacity(self) -> dict[str, int]:
        """What sessions can have of each link [bit/s]."""
        return {link: round(self.handed_out * rate) for link, rate in self.mesh.rates.items()}

    # --- as a job -------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def sources(self) -> tuple[str, ...]:
        return (*engine.SOURCES, *AGENT_SOURCES, "userspace/lab/fairlab/slbn")

    def duration(self) -> float:
        return self.seconds

    def check_engine(self, engine: Engine) -> None:
        require_virtual(engine)

    def build(self) -> None:
        build_programs()

    def read(self, work: Path) -> "Told":
        return read(work)

    def conditions(self, work: Path) -> dict[str, Any]:
        found = read(work).environment
        return {name: found[name] for name in ("kernel", "engine", "tools")}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Plan":
        mesh = Mesh(
            data["mesh"]["name"],
            tuple(data["mesh"]["nodes"]),
            tuple(Wire(**wire) for wire in data["mesh"]["wires"]),
        )
        found = tuple(
            Session(**{**one, "changes": tuple(map(tuple, one["changes"]))})
            for one in data["sessions"]
        )
        rest = {
            "mesh": mesh,
            "sessions": found,
            "losses": tuple(Loss(**loss) for loss in data["losses"]),
            "deaths": tuple((when, node) for when, node in data["deaths"]),
        }
        return cls(**{**data, **rest})


@dataclass
class Told:
    """What came of a run, with times from its beginning [s]; sessions by their numbers."""

    plan: Plan
    #: when each was really asked for: (when, session, demand; None: all; 0: it left)
    asked: list[tuple[float, int, int | None]] = field(default_factory=list)
    #: (when, session, rate)
    rates: list[tuple[float, int, int]] = field(default_factory=list)
    #: agents that were killed: (when, router)
    died: list[tuple[float, str]] = field(default_factory=list)
    #: at the end, of each session that is there: rate, cycles, retries, round-trip [ns], hops
    last: dict[int, tuple[int, int, int, int, int]] = field(default_factory=dict)
    #: when queues were looked at
    times: list[float] = field(default_factory=list)
    #: of each link, at these: octets of control packets so far, octets of data that wait
    links: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    #: what slbnctl shows of each link at the end
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: data packets that were lost, by any queue
    lost: int = 0
    #: data packets that were sent
    sent: int = 0
    #: where the run ran
    environment: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Told":
        data = dict(data)
        data["plan"] = Plan.from_json(data["plan"])
        data["last"] = {int(number): tuple(one) for number, one in data["last"].items()}
        return cls(**data)


def build_programs(*more: str) -> None:
    """What a run needs of the tree's own programs, and MORE targets."""
    require_tree()
    engine.make(["tc-plugins", "tools", *more], ())


def require_virtual(engine: Engine) -> None:
    """Raise CannotRunError on an engine in which events would be late."""
    if engine.engine != VIRTUAL:
        raise CannotRunError("sessions need virtual time: use --engine virtual")


def read(directory: Path) -> Told:
    """What came of it."""
    return Told.from_json(json.loads((directory / DATA).read_text()))
