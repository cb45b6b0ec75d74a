# SPDX-License-Identifier: GPL-2.0
"""What came out of an experiment, and whether it is to be trusted.

read() refuses a run that shows anything but the flows and the bottleneck at work: packets lost
elsewhere, packets larger than the network's, a queue that did not keep its rate, flows that never
got through, a look that came late.  What is left is an Outcome, from which studies take numbers.

Means are over the time between the warm-up and the end.  A flow's rate is of what its other end has
acknowledged, without any headers.  A link's is of all bytes, headers included.
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.background import BackgroundReport, read_report
from fairlab.model.errors import CannotRunError
from fairlab.model.experiment import UDP, Layout, bottleneck, qdisc
from fairlab.run import samples
from fairlab.run.experiment import MEASUREMENT

# How far the bottleneck's rate while packets wait may be from what was asked.
RATE_TOLERANCE = 0.02
# In virtual time all comes when it is due; elsewhere, it may be late by so much [s].
LATEST = 0.05
# Which part of a group's packets must have been acknowledged one by one, if they were to be.
ACK_EACH = 0.95
# Packets of TCP that carry no user data beyond those of a connection's own.
FEW_PACKETS = 10


@dataclass(frozen=True)
class Series:
    """One flow, as it was seen: arrays of one length.  Seconds, bytes, packets, ms."""

    time: Any
    acked: Any
    cwnd: Any
    ssthresh: Any
    rtt: Any
    retransmits: Any


@dataclass(frozen=True)
class Outcome:
    """An experiment that was run."""

    what: Layout
    document: dict[str, Any]
    heads: dict[str, dict[str, Any]]  # by group: fairflow's first line
    rows: dict[str, Any]  # by group: fairflow's rows
    backgrounds: dict[str, BackgroundReport]  # by group, where there is one

    @property
    def columns(self) -> dict[str, Any]:
        """The samples of the queues, as Columns of run/experiment.py has them."""
        found: dict[str, Any] = self.document["columns"]
        return found

    @property
    def window(self) -> tuple[float, float]:
        """The time that means are over."""
        return self.what.warmup, self.what.seconds

    # --- the bottleneck -------------------------------------------------------------------------

    def growth(self, column: str, begin: float | None = None, end: float | None = None) -> float:
        """By how much a counter of the bottleneck grew."""
        return self._growth(self.columns[column], begin, end)

    def _growth(self, values: Any, begin: float | None, end: float | None) -> float:
        import numpy

        window = (
            self.window[0] if begin is None else begin,
            self.window[1] if end is None else end,
        )
        first, last = numpy.interp(window, self.columns["time"], values)
        return float(last - first)

    @property
    def utilisation(self) -> float:
        """How much of its rate the bottleneck sent."""
        first, last = self.window
        return 8 * self.growth("sent_bytes") / (last - first) / self.what.rate

    @property
    def loss(self) -> float:
        """Which part of the packets that came to the bottleneck was dropped there."""
        drops, sent = self.growth("drops"), self.growth("sent_packets")
        return drops / (drops + sent) if drops + sent else 0.0

    def within(self, column: str) -> Any:
        """The values of a column of the queues in the window, as an array."""
        import numpy

        times = numpy.asarray(self.columns["time"])
        first, last = self.window
        return numpy.asarray(self.columns[column])[(times >= first) & (times <= last)]

    def arrived(self, group: str) -> float:
        """What arrived of a group, in bit/s, headers included."""
        first, last = self.window
        return 8 * self._growth(self.columns["arrived_bytes"][group], None, None) / (last - first)

    def arrived_packets(self, group: str) -> float:
        """How many packets of a group came through the bottleneck."""
        return self._growth(self.columns["arrived_packets"][group], None, None)

    # --- flows ----------------------------------------------------------------------------------

    def series(self, group: str, number: int) -> Series:
        """What was seen of flow NUMBER (from 0) of a group, which must be TCP."""
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
        """What flow NUMBER of a group delivered [bit/s] between BEGIN and END (the window)."""
        import numpy

        seen = self.series(group, number)
        first = self.window[0] if begin is None else begin
        last = self.window[1] if end is None else end
        if not len(seen.time):
            return 0.0
        before, after = numpy.interp((first, last), seen.time, seen.acked)
        return float(8 * (after - before) / (last - first))

    def goodputs(self, group: str, cc: str | None = None) -> list[float]:
        """The goodput of each TCP flow of a group, or of those under CC."""
        kinds = self.what.kinds()[group]
        return [
            self.goodput(group, n)
            for n, kind in enumerate(kinds)
            if kind != UDP and cc in (None, kind)
        ]

    def rates(self, group: str, number: int, step: float) -> tuple[Any, Any]:
        """A flow's goodput over time: means over STEP seconds, and the ends of these steps."""
        import numpy

        seen = self.series(group, number)
        edges = numpy.arange(self.window[0], self.window[1] + step / 2, step)
        acked = numpy.interp(edges, seen.time, seen.acked.astype(float), left=0.0)
        return edges[1:], 8 * numpy.diff(acked) / step

    def mean_cwnd(self, group: str, number: int) -> float:
        """A flow's mean window in packets."""
        seen = self.series(group, number)
        first, last = self.window
        inside = (seen.time >= first) & (seen.time <= last)
        return float(seen.cwnd[inside].mean()) if inside.any() else 0.0


def read(what: Layout, work: Path) -> Outcome:
    """The outcome of an experiment whose raw data is in WORK; CannotRunError if it is disturbed."""
    heads, rows = {}, {}
    for group in what.groups:
        if group.streams:
            heads[group.name], rows[group.name] = samples.read(work / f"{group.name}.fair")
    outcome = Outcome(
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
    check(outcome)
    return outcome


# --- is it to be trusted? -----------------------------------------------------------------------


def check(outcome: Outcome) -> None:
    """Raise the reason if not.  Causes come before what they lead to."""
    check_looks(outcome)
    check_losses(outcome)
    check_packets(outcome)
    check_rate(outcome)
    check_flows(outcome)
    check_acks(outcome)
    check_backgrounds(outcome)


def check_looks(outcome: Outcome) -> None:
    for n, when in enumerate(outcome.columns["time"]):
        late = when - n * outcome.what.look
        if late > LATEST:
            raise CannotRunError(
                f"the machine was {1000 * late:.0f} ms late after {when:.1f} s: too slow or too"
                " busy; use the engine virtual"
            )


def check_losses(outcome: Outcome) -> None:
    """Packets may be lost at the bottleneck, and where a loss was asked for."""
    if drops := outcome.document["backlog_drops"]:
        raise CannotRunError(f"{drops} packets were lost between namespaces, where no link is")
    short = {name: n for name, n in outcome.document["out_of_memory"].items() if n}
    if short:
        words = ", ".join(f"{name} {count}" for name, count in short.items())
        raise CannotRunError(f"TCP had too little memory, and threw away what had arrived: {words}")
    drops = outcome.columns["delay_drops"][-1]
    if drops and not outcome.what.loss:
        raise CannotRunError(f"{drops} packets were lost in the delays, which have room for all")


def check_packets(outcome: Outcome) -> None:
    """No packet may have been larger than the network's: an offload would be on."""
    c = outcome.columns
    for name, sizes in c["arrived_bytes"].items():
        packets = c["arrived_packets"][name][-1]
        if packets and sizes[-1] / packets > outcome.what.frame:
            raise CannotRunError(
                f"group {name} sent packets of {sizes[-1] / packets:.0f} bytes on average, on links"
                f" for {outcome.what.frame}: an offload was on"
            )


def check_rate(outcome: Outcome) -> None:
    """While packets wait, the bottleneck sends at its rate, and never faster."""
    c, what = outcome.columns, outcome.what
    burst = bottleneck(what, qdisc(what)).burst
    took = sent = 0.0
    for a, b in pairwise(range(len(c["time"]))):
        step = c["time"][b] - c["time"][a]
        bits = 8 * (c["sent_bytes"][b] - c["sent_bytes"][a])
        # What waited at both ends for longer than the step cannot have run out in between.
        waiting = 8 * min(c["backlog_bytes"][a], c["backlog_bytes"][b]) / what.rate
        if waiting > step:
            took, sent = took + step, sent + bits
        slack = 8 * (burst + 2 * what.frame) + RATE_TOLERANCE * what.rate * step
        if bits > what.rate * step + slack:
            raise CannotRunError(
                f"the bottleneck sent {bits / step / 1e6:.1f} Mbit/s for a moment: more than its"
                f" {what.rate / 1e6:g}"
            )
    if took > 1 and abs(sent / took / what.rate - 1) > RATE_TOLERANCE:
        raise CannotRunError(
            f"the bottleneck sent {sent / took / 1e6:.1f} Mbit/s while packets waited, not"
            f" {what.rate / 1e6:g}"
        )


def check_flows(outcome: Outcome) -> None:
    """Every flow must have begun, under what it was asked to be (fairflow looks at that too)."""
    for name, head in outcome.heads.items():
        for n, (asked, flow) in enumerate(
            zip(outcome.what.kinds()[name], head["flows"], strict=True), 1
        ):
            if flow["kind"] != asked:
                raise CannotRunError(
                    f"flow {n} of group {name} was {flow['kind']} instead of {asked}"
                )
            if not flow["sent"]:
                raise CannotRunError(f"flow {n} of group {name} did not get through")


def check_acks(outcome: Outcome) -> None:
    """Where each packet was to be acknowledged, it must have been."""
    for group in outcome.what.groups:
        packets = outcome.columns["arrived_packets"][group.name][-1]
        acks = outcome.document["acks"][group.name]
        if group.ack_each and acks < ACK_EACH * packets:
            raise CannotRunError(
                f"group {group.name} was to have each packet acknowledged; for {packets} that"
                f" arrived its other end sent {acks}"
            )


def check_backgrounds(outcome: Outcome) -> None:
    """What came through of a background must be what its sink counted."""
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
        # TCP's headers are larger, and here and there a segment comes twice; bytes from nowhere
        # are what is looked for.
        if report.received_bytes > user * (1 + RATE_TOLERANCE) + FEW_PACKETS * outcome.what.frame:
            raise CannotRunError(
                f"the sink of group {name} got {report.received_bytes} bytes, of which only {user}"
                " came through the network"
            )
