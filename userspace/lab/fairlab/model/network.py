# SPDX-License-Identifier: GPL-2.0
"""Networks as plain data: nodes, links, and the queue of each interface.  Builders are elsewhere.

A link has two ends; an end is an interface of a node, with an address and perhaps a queue:

- a Bottleneck is a rate limit with a qdisc: a FIFO of a fixed size (or RED, with ECN) unless the
  scenario has another;
- a Delay delays each packet by a fixed time (netem);
- a Pacing paces each flow of a host at its peak rate (fq), from its first packet on;
- a Trunk is both rate limit and delay, as a backbone's link; an Edge is SLBN's edge towards hosts;
- a Qdisc is any other that the scenario names.

Every node has permanent neighbour entries: ARP requests would wait in the queues, or be dropped
there, during a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlab.model.qdisc import Qdisc


@dataclass(frozen=True)
class Bottleneck:
    """A qdisc behind a token bucket of a fixed rate [bit/s] and BURST [bytes]."""

    rate: int
    burst: int
    qdisc: Qdisc
    size: int  # of the buffer, in bytes


@dataclass(frozen=True)
class Delay:
    """A delay [µs] of at most LIMIT packets at a time.

    LOSS is the fraction of packets that it drops at random.  JITTER [µs] is the most by which the
    delay is longer or shorter, at random; packets stay in order.  REORDER is the fraction of
    packets that it delays by REORDER_BY [µs] more, at random, so that later ones overtake them.
    """

    time: int
    limit: int
    loss: float = 0.0
    jitter: int = 0
    reorder: float = 0.0
    reorder_by: int = 0


@dataclass(frozen=True)
class Pacing:
    """The peak rate of each flow of a host [bit/s]."""

    peak: int


@dataclass(frozen=True)
class Trunk:
    """A backbone link: a fixed rate [bit/s] and delay [µs], with DATA as its data qdisc.

    With a rate SLBN [bit/s] it is an SLBN link, whose control packets share the rate limit;
    SLBN_WORDS are further options of its slbn qdisc.
    """

    rate: int
    delay: int
    data: Qdisc
    slbn: int = 0
    slbn_words: str = ""


@dataclass(frozen=True)
class Edge:
    """An SLBN edge: a link towards hosts."""


Queue = Bottleneck | Delay | Pacing | Qdisc | Trunk | Edge


@dataclass(frozen=True)
class End:
    """One end of a link."""

    node: str
    interface: str
    address: str
    mac: str
    queue: Queue | None = None
    #: more addresses in the same /24: a host that stands for several
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """Two ends in a /24 of their own."""

    a: End
    b: End

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Each end with the opposite one."""
        return ((self.a, self.b), (self.b, self.a))


@dataclass(frozen=True)
class Path:
    """The path of a flow: its hosts, and the router's interface towards the receiver."""

    sender: str
    receiver: str
    address: str
    last: End


@dataclass(frozen=True)
class Network:
    """A whole network."""

    hosts: tuple[str, ...]
    routers: tuple[str, ...]
    links: tuple[Link, ...]
    #: node -> (destination, next hop of each equal-cost path)
    routes: Mapping[str, tuple[tuple[str, ...], ...]]
    paths: tuple[Path, ...]
    bottleneck: End
    mtu: int
    background: Path | None = None

    @property
    def ends(self) -> list[End]:
        return [end for link in self.links for end in (link.a, link.b)]

    def ends_of(self, node: str) -> list[tuple[End, End]]:
        """The ends of NODE, each with the opposite one."""
        return [pair for link in self.links for pair in link.ends() if pair[0].node == node]


def ends_with(network: Network, qdisc: Qdisc) -> list[End]:
    """The end that has QDISC."""
    return [end for end in network.ends if qdisc in (end.queue, getattr(end.queue, "qdisc", None))]
