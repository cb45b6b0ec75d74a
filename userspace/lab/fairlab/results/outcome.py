# SPDX-License-Identifier: GPL-2.0
"""The outcome of an experiment, and checks whether it can be trusted.

read() refuses a run that trust.py does not trust, late samples, missing acknowledgements, and a
background that differs from what passed the network.  Studies take their numbers from the Outcome.

Means are over the steady state, from the warm-up to the end.  A flow's rate is of acknowledged
bytes, without headers; a link's is of all bytes, with headers.
"""

import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.background import BackgroundReport, read_report
from fairlab.model.errors import CannotRunError
from fairlab.model.experiment import UDP, Layout, forth
from fairlab.results import trust
from fairlab.run import samples
from fairlab.run.experiment import MEASUREMENT

# The most by which a sample may be late [s]; in virtual time none is.
LATEST = 0.05
# The least acknowledgements for each packet of a group with ack_each.
ACK_EACH = 0.95
# Tolerance of the bytes that a sink counted, and of packets without payload.
BYTES_TOLERANCE = 0.02
FEW_PACKETS = 10


@dataclass(frozen=True)
class Series:
    """Samples of one flow: arrays of one length.  Seconds, bytes, packets, ms."""

    time: Any
    acked: Any
    cwnd: Any
    ssthresh: Any
    rtt: Any
    retransmits: Any


@dataclass(frozen=True)
class Sampled:
    """What was measured of a network with a bottleneck."""

    document: dict[str, Any]

    @property
    def columns(self) -> dict[str, Any]:
        """The samples of the queues, as Sampler.columns() has them."""
        found: dict[str, Any] = self.document["columns"]
        return found

    @property
    @abstractmethod
    def window(self) -> tuple[float, float]:
        """The steady state: begin and end [s]."""

    def growth(self, column: str, begin: float | None = None, end: float | None = None) -> float:
        """The growth of a counter of the bottleneck between BEGIN and END (the window)."""
        return self.grown(self.columns[column], begin, end)

    def grown(self, values: Any, begin: float | None = None, end: float | None = None) -> float:
        """The same, of the VALUES of any counter."""
        import numpy

        window = (
            self.window[0] if begin is None else begin,
            self.window[1] if end is None else end,
        )
        first, last = numpy.interp(window, self.columns["time"], values)
        return float(last - first)

    def within(self, column: str) -> Any:
        """The values of a queue's column in the window, as an array."""
        import numpy

        times = numpy.asarray(self.columns["time"])
        first, last = self.window
        return numpy.asarray(self.columns[column])[(times >= first) & (times <= last)]

    def used(self, rate: int) -> float:
        """The utilisation of the bottleneck, which has this RATE, 0 to 1."""
        first, last = self.window
        return 8 * self.growth("sent_bytes") / (last - first) / rate

    @property
    def loss(self) -> float:
        """The fraction of the bottleneck's packets that it dropped."""
        drops, sent = self.growth("drops"), self.growth("sent_packets")
        return drops / (drops + sent) if drops + sent else 0.0

    def frames(self, most: int) -> dict[str, trust.Frames]:
        """What has arrived, in frames of MOST bytes."""
        sizes, counts = (
            {name: column[-1] - column[0] for name, column in self.columns[what].items()}
            for what in ("arrived_bytes", "arrived_packets")
        )
        return {name: trust.Frames(sizes[name], counts[name], most) for name in sizes}


@dataclass(frozen=True)
class Outcome(Sampled):
    """The results of an experiment."""

    what: Layout
    heads: dict[str, dict[str, Any]]  # by group: fairflow's first line
    rows: dict[str, Any]  # by group: fairflow's rows
    backgrounds: dict[str, BackgroundReport]  # by group, where there is one

    @property
    def window(self) -> tuple[float, float]:
        """The steady state: begin and end [s]."""
        return self.what.warmup, self.what.seconds

    @property
    def utilisation(self) -> float:
        """The utilisation of the bottleneck, 0 to 1."""
        return self.used(self.what.rate)

    def arrived(self, group: str) -> float:
        """The rate at which a group's packets arrived, in bit/s, with headers."""
        first, last = self.window
        return 8 * self.grown(self.columns["arrived_bytes"][group]) / (last - first)

    def arrived_packets(self, group: str) -> float:
        """The number of packets of a group that passed the bottleneck."""
        return self.grown(self.columns["arrived_packets"][group])

    # --- flows ----------------------------------------------------------------------------------

    def series(self, group: str, number: int) -> Series:
        """The samples of flow NUMBER (from 0) of a group, which must be TCP."""
        rows = self.rows[group]
        rows = rows[rows["flow"] == number]
        return Series(
            time=rows["time"] / 1e9,
            acked=rows["acked"],
            cwnd=rows["cwnd"],
            ssthresh=rows["ssthresh"],
            rtt=rows["rtt"] / 1000,
            retransmits=rows["retransmits"],
        )

    def goodput(
        self, group: str, number: int, begin: float | None = None, end: float | None = None
    ) -> float:
        """The goodput of flow NUMBER of a group [bit/s] between BEGIN and END (the window)."""
        import numpy

        seen = self.series(group, number)
        first = self.window[0] if begin is None else begin
        last = self.window[1] if end is None else end
        if not len(seen.time):
            return 0.0
        before, after = numpy.interp((first, last), seen.time, seen.acked)
        return float(8 * (after - before) / (last - first))

    def goodputs(self, group: str) -> list[float]:
        """The goodput of each TCP flow of a group."""
        kinds = self.what.kinds()[group]
        return [self.goodput(group, n) for n, kind in enumerate(kinds) if kind != UDP]

    def rates(self, group: str, number: int, step: float) -> tuple[Any, Any]:
        """A flow's goodput over time: means over STEP seconds, and the ends of these steps."""
        import numpy

        seen = self.series(group, number)
        edges = numpy.arange(self.window[0], self.window[1] + step / 2, step)
        acked = numpy.interp(edges, seen.time, seen.acked.astype(float), left=0.0)
        return edges[1:], 8 * numpy.diff(acked) / step


def read(what: Layout, work: Path) -> Outcome:
    """The outcome of an experiment whose raw data is in WORK; CannotRunError if it is disturbed."""
    outcome = load(what, work)
    check(outcome)
    return outcome


def load(what: Layout, work: Path) -> Outcome:
    """The same, unchecked."""
    heads, rows = {}, {}
    for group in what.groups:
        if group.streams:
            heads[group.name], rows[group.name] = samples.read(work / f"{group.name}.fair")
    return Outcome(
        what=what,
        document=json.loads((work / MEASUREMENT).read_text()),
        heads=heads,
        rows=rows,
        backgrounds={
            group.name: read_report(
                work / f"{group.name}-source.json", work / f"{group.name}-sink.json"
            )
            for group in what.groups
            if group.background
        },
    )


# --- checks -----------------------------------------------------------------------------------


def check(outcome: Outcome) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    check_looks(outcome)
    lacking = trust.check(evidence(outcome), virtual=True)
    check_acks(outcome)
    check_backgrounds(outcome)
    return lacking


def check_looks(outcome: Outcome) -> None:
    for n, when in enumerate(outcome.columns["time"]):
        late = when - n * outcome.what.look
        if late > LATEST:
            raise CannotRunError(
                f"the machine was {1000 * late:.0f} ms late after {when:.1f} s: too slow or too"
                " busy; use the engine virtual"
            )


def evidence(outcome: Outcome) -> trust.Evidence:
    c, what, document = outcome.columns, outcome.what, outcome.document
    frames = {f"group {name}": one for name, one in outcome.frames(what.frame).items()}
    most = max(rate for _, rate in what.rates())
    burst = forth(what, most).burst + 2 * what.frame
    rate = trust.LinkRate(
        c["time"], c["sent_bytes"], c["backlog_bytes"], most, burst, steady=not what.changes
    )
    flows = {
        f"flow {n} of group {name}": trust.Ran(asked, flow["kind"], bool(flow["sent"]))
        for name, head in outcome.heads.items()
        for n, (asked, flow) in enumerate(zip(what.kinds()[name], head["flows"], strict=True), 1)
    }
    return trust.gathered(
        document,
        # Random loss is a loss in the delays.
        delays=0 if what.loss else c["delay_drops"][-1],
        frames=frames,
        rates={"the bottleneck": rate},
        flows=flows,
    )


def check_acks(outcome: Outcome) -> None:
    """With ack_each, each packet must have been acknowledged."""
    for group in outcome.what.groups:
        packets = outcome.columns["arrived_packets"][group.name][-1]
        acks = outcome.document["acks"][group.name]
        if group.ack_each and acks < ACK_EACH * packets:
            raise CannotRunError(
                f"group {group.name} needs an acknowledgement for each packet; for {packets}"
                f" packets the receiver sent {acks}"
            )


def check_backgrounds(outcome: Outcome) -> None:
    """The bytes that a background's sink counted must have passed the network."""
    c = outcome.columns
    for name, report in outcome.backgrounds.items():
        group = next(group for group in outcome.what.groups if group.name == name)
        if report.no_room:
            raise CannotRunError(
                f"the sink of group {name} had no room for {report.no_room} packets"
            )
        if group.streams:
            continue
        packets, size = c["arrived_packets"][name][-1], c["arrived_bytes"][name][-1]
        user = size - packets * (headers.ETHERNET + headers.DATAGRAM)
        # TCP's headers are larger, and some segments arrive twice, so only an excess is an error.
        if report.received_bytes > user * (1 + BYTES_TOLERANCE) + FEW_PACKETS * outcome.what.frame:
            raise CannotRunError(
                f"the sink of group {name} got {report.received_bytes} bytes, of which only {user}"
                " came through the network"
            )
