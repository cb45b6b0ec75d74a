# SPDX-License-Identifier: GPL-2.0
"""Experiments (experiment.py) as jobs, and what guest.py has left of one: flows and evidence."""

import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.model.network import Trunk
from fairlab.results import trust
from fairlab.run import engine, samples
from fairlab.run.engine import VIRTUAL, Engine
from fairlab.run.job import Job, Result_co
from fairlab.slbn.agents import require_tree
from fairlab.slbn.experiment import BURST, Experiment
from fairlab.slbn.guest import RECORD, UDP_SINK
from fairlab.slbn.network import is_uplink, trunks

# The sources of the agent, its library and its qdisc, in the project's tree.
AGENT_SOURCES = ("sch_slbn", *(f"userspace/{name}" for name in ("common", "libslbn", "slbnd")))
# The code that takes numbers from a record of sessions.
NUMBERS = ("userspace/lab/fairlab/slbn", "userspace/lab/fairlab/results/statistics.py")


class Measured(Job[Result_co]):
    """The plan of an experiment, which runs in virtual time."""

    #: how long it takes
    seconds: float
    #: what it needs of the tree besides the agent
    programs: ClassVar[tuple[str, ...]] = ("traffic",)

    @abstractmethod
    def experiment(self) -> Experiment:
        """What a guest measures."""

    def duration(self) -> float:
        return self.seconds

    def check_engine(self, engine: Engine) -> None:
        if engine.engine != VIRTUAL:
            raise CannotRunError("events would be late: use --engine virtual")

    def build(self) -> None:
        require_tree()
        engine.make(["tc-plugins", "tools", *self.programs], ())

    def record(self, work: Path) -> "Record":
        return Record.read(self.experiment(), work)

    def conditions(self, work: Path) -> dict[str, Any]:
        record = self.record(work)
        return trust.conditions(record.document, record.check())


@dataclass(frozen=True)
class Record:
    """The raw data of a run."""

    what: Experiment
    document: dict[str, Any]
    #: of each flow: fairflow's totals, and its samples
    heads: list[dict[str, Any]]
    rows: list[Any]
    #: the reports of the sinks of UDP, by their node
    sinks: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, what: Experiment, work: Path) -> "Record":
        heads: dict[int, dict[str, Any]] = {}
        rows: dict[int, Any] = {}
        for name, numbers in what.programs().items():
            head, every = samples.read(work / f"{name}.fair")
            for n, number in enumerate(numbers):
                heads[number], rows[number] = head["flows"][n], every[every["flow"] == n]
        order = range(len(what.flows))
        return cls(
            what,
            json.loads((work / RECORD).read_text()),
            [heads[n] for n in order],
            [rows[n] for n in order],
            {
                path.name.removesuffix(UDP_SINK): json.loads(path.read_text())
                for path in work.glob(f"*{UDP_SINK}")
            },
        )

    def check(self, context: str = "") -> list[str]:
        """Raise the reason if the run cannot be trusted; return the checks that were not made.

        CONTEXT is put before the reason.  Packets on an access router's link may wait for their
        time, so it need not send while they do.  In real time samples are late, and a short queue
        may be empty between two of them.
        """
        what, document = self.what, self.document
        virtual, frame = document["virtual"], what.network.mtu + headers.ETHERNET
        changed = {link for _, link, _ in what.changes}
        most = {
            end.interface: end.queue.rate
            for end in trunks(what.network)
            if isinstance(end.queue, Trunk)
        }
        for _, link, rate in what.changes:
            most[link] = max(most[link], rate)
        evidence = trust.gathered(
            document,
            delays=document["hidden"],
            frames={
                f"{pair}, {protocol.upper()},": trust.Frames(size, count, frame)
                for pair, counts in document["arrived"].items()
                for protocol, (size, count) in counts.items()
            }
            | {
                link: trust.Frames(kept["sent"][-1], kept["packets"][-1], frame)
                for link, kept in document["wires"].items()
            },
            rates={
                link: trust.LinkRate(
                    document["times"],
                    kept["sent"],
                    kept["held"],
                    most[link],
                    BURST,
                    steady=link not in changed and not is_uplink(link),
                    exact=virtual,
                )
                for link, kept in document["wires"].items()
            },
            flows={
                f"flow {number} from {flow.source}": trust.Ran(
                    flow.kind, head["kind"], bool(head["sent"])
                )
                for number, (flow, head) in enumerate(zip(what.flows, self.heads, strict=True))
            },
            samples=None if virtual else document["times"],
        )
        return trust.check(evidence, virtual, context)
