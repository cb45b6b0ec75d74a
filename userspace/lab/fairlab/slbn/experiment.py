# SPDX-License-Identifier: GPL-2.0
"""An experiment on a backbone, as data: network, workload, agents, and what is recorded of them.

`fairlab compare`, `fairlab backbone` and the figures of SLBN describe their runs by it.  guest.py
measures it; record.py reads what that has left.

The workload are flows, which fairflow sends by plan, or what DRIVE does (sessions.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlab.model import headers
from fairlab.model.network import Network
from fairlab.net.network import AMPLE, Hosts, Laboratory
from fairlab.net.queues import Sampler
from fairlab.run.progress import Progress
from fairlab.slbn.agents import Agents
from fairlab.slbn.network import MTU, host

FRAME = MTU + headers.ETHERNET
UDP, UDP_PAYLOAD = "udp", 1400
#: The payload as a fraction of the frames.
TCP_PART = (MTU - headers.SEGMENT) / FRAME
UDP_PART = UDP_PAYLOAD / (UDP_PAYLOAD + headers.DATAGRAM + headers.ETHERNET)
#: Congestion controls that need ECN, and a queue that marks at once.
L4S = ("dctcp", "prague")
#: What a link may send at once: tbf's burst, and a packet on the way.
BURST = 4 * FRAME
#: The flows of one of fairflow's processes, at most (FLOWS_MAX).
PROGRAM_FLOWS = 1024
#: The ports of sinks, and the source port of the first flow, where flows have some.
TCP_PORT, UDP_PORT, FIRST_PORT = 5000, 5001, 50001


@dataclass(frozen=True)
class Flow:
    """A flow between hosts of two nodes, from START to STOP [s], with a congestion control.

    UDP: the rate of its frames [bit/s]; 0 is TCP.  SIZE: the bytes of a short flow; 0 is no limit.
    SENDER: the number of the host, of those at SOURCE.  FIRST: a short flow's connection is of OPEN
    [s], when it sent so many bytes more.
    """

    source: str
    destination: str
    start: float
    stop: float
    udp: int = 0
    size: int = 0
    sender: int = 0
    open: float = 0.0
    first: int = 0
    cc: str = ""
    #: the source port; 0: any
    port: int = 0

    @property
    def kind(self) -> str:
        """The congestion control, or UDP."""
        return UDP if self.udp else self.cc

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.destination}"


#: A link's new rate: when [s], the link, bit/s.
Change = tuple[float, str, int]


#: The network, its agents, the time of the start (monotonic), what samples the links.
Drive = Callable[[Laboratory, Agents, float, Sampler, Progress], dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """What guest.py measures.  NAME is for progress; times are in seconds."""

    name: str
    network: Network
    seconds: float
    flows: tuple[Flow, ...] = ()
    #: when links are sampled, and how often flows are
    looks: tuple[float, ...] = ()
    look: float = 0.0
    #: buffers that never limit a flow's window [bytes]
    window: int = 0
    warmup: float = 0.0
    changes: tuple[Change, ...] = ()
    #: options of a link's data qdisc that have its {rate}, after its kind
    rated: str = ""
    #: the congestion control of all hosts, of receivers too; empty: only flows have theirs
    cc: str = ""
    hosts: Hosts = AMPLE
    #: options of the agent at each node's access router, or without one, at the node
    agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: a session is joined for each flow before it starts
    joined: bool = False
    #: what agents report of sessions is recorded
    watched: bool = False
    #: seconds between two keys of control packets (0: no keys), on all routers but those WITHOUT
    rotate_keys: int = 0
    without: frozenset[str] = frozenset()
    #: prepares the network, and returns more to record
    prepare: Callable[[Laboratory], dict[str, Any]] = lambda _: {}
    #: from the end of preparations to the start [s]; None: as long as the engine needs
    ready: float | None = None
    #: does all during the run, and returns more to record
    drive: Drive | None = None

    @property
    def nodes(self) -> list[str]:
        """The nodes that have an access router with a host."""
        return [name.removeprefix(host("")) for name in self.network.hosts]

    def programs(self) -> dict[str, list[int]]:
        """The numbers of the flows of each of fairflow's processes, by its name.

        A node has one, and more if it has more flows than one of them can send.
        """
        by_node: dict[str, list[int]] = {}
        for number, flow in enumerate(self.flows):
            by_node.setdefault(flow.source, []).append(number)
        return {
            f"{node}-{first // PROGRAM_FLOWS}" if first else node: numbers[first:][:PROGRAM_FLOWS]
            for node, numbers in by_node.items()
            for first in range(0, len(numbers), PROGRAM_FLOWS)
        }
