# SPDX-License-Identifier: GPL-2.0
"""Sampling the queues of links during a run.

The kernel counts, and all samples of a run have one clock, so that throughput, queues and windows
can be compared over time; the reports of traffic programs start at different times.

A link is an end with a rate limit (Bottleneck, Trunk).  A delay (Delay) is sampled, too: those in
front of receivers have the counters of their flows.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from fairlab.model.network import Bottleneck, Delay, End, Network, Trunk
from fairlab.net.netlink import QueueState
from fairlab.net.network import CONTROL, NETEM, QUEUE, SHAPER, Laboratory

NOTHING = QueueState(0, 0, 0, 0, 0, 0)


class Sampler:
    """Samples of links and delays at the same times, by the monotonic clock.

    Of each, by its interface: bytes and packets sent; bytes and packets that wait in its queue,
    packets that this has dropped and marked; packets lost in its delay; bytes of control packets,
    and control packets lost.
    """

    COLUMNS = (
        *("sent", "packets", "held", "held_packets", "drops", "marks", "hidden"),
        *("control", "control_drops"),
    )

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
            found = states[node]
            queue, delay, control = (
                found.get((index, major), NOTHING) for major in (QUEUE, NETEM, CONTROL)
            )
            # A Delay has no rate limit.
            shaper = found.get((index, SHAPER), delay)
            kept = self.wires[wire]
            kept["sent"].append(shaper.sent_bytes)
            kept["packets"].append(shaper.sent_packets)
            # netem's backlog includes packets in flight; waiting packets are in the data qdisc.
            kept["held"].append(queue.backlog_bytes)
            kept["held_packets"].append(queue.backlog_packets)
            kept["drops"].append(queue.drops)
            kept["marks"].append(queue.marks)
            # netem's drops include those of the qdisc behind it.
            kept["hidden"].append(max(0, delay.drops - queue.drops))
            kept["control"].append(control.sent_bytes)
            kept["control_drops"].append(control.drops)

    def columns(self, network: Network, names: Sequence[str], begin: float) -> dict[str, Any]:
        """Samples of a network with a bottleneck: columns of one length; seconds since BEGIN.

        `back` is the bottleneck of the other direction.  NAMES are those of the paths, the
        background's last; what has arrived has passed the last delay.
        """
        forth, back = (self.wires.get(end.interface) for end, _ in network.links[0].ends())
        assert forth
        nothing = [0] * len(self.times)
        paths = [*network.paths, *([network.background] if network.background else [])]
        arrived = {
            name: self.wires[path.last.interface] for name, path in zip(names, paths, strict=True)
        }
        hidden = zip(*(kept["hidden"] for kept in self.wires.values()), strict=True)
        return {
            "time": [round(when - begin, 6) for when in self.times],
            "backlog_bytes": forth["held"],
            "backlog_packets": forth["held_packets"],
            "sent_bytes": forth["sent"],
            "sent_packets": forth["packets"],
            "drops": forth["drops"],
            "marks": forth["marks"],
            "back_bytes": back["sent"] if back else nothing,
            "back_drops": back["drops"] if back else nothing,
            "delay_drops": list(map(sum, hidden)),
            "arrived_bytes": {name: kept["sent"] for name, kept in arrived.items()},
            "arrived_packets": {name: kept["packets"] for name, kept in arrived.items()},
        }


def sampled(network: Network) -> list[End]:
    """All ends with a rate limit or a delay."""
    return [end for end in network.ends if isinstance(end.queue, Bottleneck | Trunk | Delay)]
