# SPDX-License-Identifier: GPL-2.0
"""Sampling queues during a run: those of one bottleneck, or of many links.

Of a bottleneck, two kinds of queues are read at the same times: its own, for its length, drops and
sent bytes; and the delay in front of each receiver, whose counters are those of a flow, or of the
background.  The kernel counts both, and all samples have one clock, so throughput, queue and
windows can be compared over time; the reports of traffic programs start at different times.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from fairlab.model.network import End
from fairlab.net.netlink import QueueReader, QueueState
from fairlab.net.network import CONTROL, NETEM, QUEUE, SHAPER, Laboratory

INTERVAL = 0.1  # seconds

NOTHING = QueueState(0, 0, 0, 0, 0, 0)


@dataclass
class Samples:
    """Columns of one length; times by the monotonic clock, in seconds."""

    time: list[float] = field(default_factory=list)
    backlog_bytes: list[int] = field(default_factory=list)
    backlog_packets: list[int] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    sent_packets: list[int] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    delay_drops: list[int] = field(default_factory=list)  # of all delays together
    flow_bytes: list[list[int]] = field(default_factory=list)  # per flow
    flow_packets: list[list[int]] = field(default_factory=list)
    background_bytes: list[int] = field(default_factory=list)  # empty without a background
    background_packets: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Samples":
        return cls(**data)


class Sampler:
    """Takes a sample every INTERVAL seconds, inside wait()."""

    def __init__(self, lab: Laboratory, left: QueueReader, right: QueueReader) -> None:
        network = lab.network
        self.left, self.right = left, right
        self.bottleneck = lab.interface_index(network.bottleneck)
        self.arrivals = [lab.interface_index(path.last) for path in network.paths]
        beside = network.background
        self.beside = lab.interface_index(beside.last) if beside else None
        self.samples = Samples()
        self.samples.flow_bytes = [[] for _ in self.arrivals]
        self.samples.flow_packets = [[] for _ in self.arrivals]
        self.next = time.monotonic()

    def take(self) -> None:
        """Take a sample now."""
        s = self.samples
        s.time.append(round(time.monotonic(), 6))
        left, right = self.left.read(), self.right.read()
        queue = left.get((self.bottleneck, QUEUE), NOTHING)
        shaper = left.get((self.bottleneck, SHAPER), NOTHING)
        s.backlog_bytes.append(queue.backlog_bytes)
        s.backlog_packets.append(queue.backlog_packets)
        s.sent_bytes.append(shaper.sent_bytes)
        s.sent_packets.append(shaper.sent_packets)
        s.drops.append(queue.drops)
        s.marks.append(queue.marks)
        delays = [*left.items(), *right.items()]
        s.delay_drops.append(sum(state.drops for (_, major), state in delays if major == NETEM))
        for n, index in enumerate(self.arrivals):
            arrived = right.get((index, NETEM), NOTHING)
            s.flow_bytes[n].append(arrived.sent_bytes)
            s.flow_packets[n].append(arrived.sent_packets)
        if self.beside is not None:
            arrived = right.get((self.beside, NETEM), NOTHING)
            s.background_bytes.append(arrived.sent_bytes)
            s.background_packets.append(arrived.sent_packets)

    def wait(self, until: float, each_time: Callable[[], None] | None = None) -> None:
        """Sample until the monotonic clock shows UNTIL, calling EACH_TIME after each sample."""
        while self.next < until:
            time.sleep(max(0.0, self.next - time.monotonic()))
            self.take()
            if each_time:
                each_time()
            # After a long pause, missed samples are not taken late.
            self.next = max(self.next + INTERVAL, time.monotonic())
        time.sleep(max(0.0, until - time.monotonic()))


class LinkSampler:
    """Samples of links at the same times, by the monotonic clock.

    Of each link, by its name: bytes and packets sent, bytes that wait, packets that its queue has
    dropped, packets lost in its delay, bytes of control packets, control packets lost in theirs.
    """

    COLUMNS = ("sent", "packets", "held", "drops", "hidden", "control", "control_drops")

    def __init__(self, lab: Laboratory, ends: Iterable[End], stack: ExitStack) -> None:
        self.places = {end.interface: (end.node, lab.interface_index(end)) for end in ends}
        nodes = sorted({node for node, _ in self.places.values()})
        self.readers = {node: stack.enter_context(lab.queue_reader(node)) for node in nodes}
        self.times: list[float] = []
        self.wires: dict[str, dict[str, list[int]]] = {
            wire: {column: [] for column in self.COLUMNS} for wire in self.places
        }

    def take(self) -> None:
        """Take a sample now."""
        self.times.append(time.monotonic())
        states = {node: reader.read() for node, reader in self.readers.items()}
        for wire, (node, index) in self.places.items():
            queue, delay, shaper, control = (
                states[node].get((index, major), NOTHING)
                for major in (QUEUE, NETEM, SHAPER, CONTROL)
            )
            kept = self.wires[wire]
            kept["sent"].append(shaper.sent_bytes)
            kept["packets"].append(shaper.sent_packets)
            kept["control"].append(control.sent_bytes)
            kept["control_drops"].append(control.drops)
            # netem's backlog includes packets in flight; waiting packets are in the data qdisc.
            kept["held"].append(queue.backlog_bytes)
            kept["drops"].append(queue.drops)
            # netem's drops include those of the qdisc behind it.
            kept["hidden"].append(max(0, delay.drops - queue.drops))
