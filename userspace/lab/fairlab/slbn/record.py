# SPDX-License-Identifier: GPL-2.0
"""What guest.py has left of an experiment: its flows, its evidence, and what follows from both."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model.network import Trunk
from fairlab.results import trust
from fairlab.run import samples
from fairlab.slbn.experiment import BURST, FRAME, Experiment
from fairlab.slbn.guest import RECORD, UDP_SINK
from fairlab.slbn.network import is_uplink, trunks


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
        """Raise the reason if the run cannot be trusted; return the checks that were not made."""
        return check(self.what, self.document, self.heads, context)

    def conditions(self) -> dict[str, Any]:
        return trust.conditions(self.document, self.check())


def check(
    what: Experiment,
    document: Mapping[str, Any],
    heads: Sequence[Mapping[str, Any]],
    context: str = "",
) -> list[str]:
    """The same, of a record's document and its flows' totals."""
    found = evidence(what, document, heads)
    return trust.check(found, document["virtual"], context)


def evidence(
    what: Experiment, document: Mapping[str, Any], heads: Sequence[Mapping[str, Any]]
) -> trust.Evidence:
    """What a run has recorded.

    Packets on an access router's link may wait for their time, so it need not send while they do.
    In real time samples are late, and a short queue may be empty between two of them.
    """
    virtual = document["virtual"]
    changed = {link for _, link, _ in what.changes}
    most = {
        end.interface: end.queue.rate
        for end in trunks(what.network)
        if isinstance(end.queue, Trunk)
    }
    for _, link, rate in what.changes:
        most[link] = max(most[link], rate)
    return trust.gathered(
        document,
        delays=document["hidden"],
        frames={
            f"{pair}, {protocol.upper()},": trust.Frames(size, count, FRAME)
            for pair, counts in document["arrived"].items()
            for protocol, (size, count) in counts.items()
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
            for number, (flow, head) in enumerate(zip(what.flows, heads, strict=True))
        },
        samples=None if virtual else document["times"],
    )
