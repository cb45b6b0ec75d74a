# SPDX-License-Identifier: GPL-2.0
"""A plan of sessions (sessions_plan.py) as a job, and what its run has recorded."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from fairlab.model.errors import CannotRunError
from fairlab.run import engine
from fairlab.slbn import sessions_guest
from fairlab.slbn.experiment import Experiment
from fairlab.slbn.record import AGENT_SOURCES, NUMBERS, Measured, Record
from fairlab.slbn.sessions_plan import Sessions


class Plan(Sessions, Measured["Recording"]):
    """The plan of a run, which can be run."""

    kind = "sessions"
    programs = ()

    def sources(self) -> tuple[str, ...]:
        return (*engine.SOURCES, *AGENT_SOURCES, *NUMBERS)

    def experiment(self) -> Experiment:
        epoch = self.epoch_ms / 1000 or sessions_guest.EPOCH
        return Experiment(
            name=f"{len(self.sessions)} sessions on {self.mesh.name}",
            network=sessions_guest.network(self),
            seconds=self.seconds,
            agents=dict.fromkeys(self.mesh.nodes, sessions_guest.agent_options(self)),
            prepare=partial(sessions_guest.prepare, self),
            ready=sessions_guest.QUIET + epoch,
            drive=partial(sessions_guest.drive, self),
        )

    def read(self, work: Path) -> "Recording":
        record = self.record(work)
        check(self, record)
        return Recording.of(self, record)


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
    #: sent data packets
    sent: int = 0
    #: times of samples of queues
    times: list[float] = field(default_factory=list)
    #: of each link, at these times: the columns of Sampler
    wires: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, record: Record) -> Self:
        data = record.document
        last = {int(number): tuple(one) for number, one in data["last"].items()}
        names = ("asked", "rates", "died", "sent", "times", "wires")
        return cls(plan, last=last, **{name: data[name] for name in names})


def check(plan: Plan, record: Record) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    for link, kept in record.document["wires"].items():
        if drops := kept["drops"][-1]:
            raise CannotRunError(f"{drops} data packets were lost at {link}")
        if (drops := kept["control_drops"][-1]) and not plan.losses:
            raise CannotRunError(f"{drops} control packets were lost at {link}")
    return record.check()
