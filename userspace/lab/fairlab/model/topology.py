# SPDX-License-Identifier: GPL-2.0
"""Networks as plain data: nodes, links, and the queue of each interface.

A link has two ends; an end is an interface of a node, with an address and perhaps a queue:

- a Bottleneck is a rate limit with a qdisc: a FIFO of a fixed size (or RED, with ECN) unless the
  scenario has another;
- a Delay delays each packet by a fixed time (netem);
- a Pacing paces each flow of a host at its peak rate (fq), from its first packet on;
- a Trunk is both rate limit and delay, as a backbone's link; an Edge is SLBN's edge towards hosts;
- a Qdisc is any other that the scenario names.

Delays are never on the sending host: TCP Small Queues counts packets in netem as unsent and stops
the flow.  Nor are they on the bottleneck, whose queue must hold only packets waiting for the link.
So each half of the round-trip time is a Delay of a router, on its interface towards the end host:
data is delayed after the bottleneck, acknowledgements in the opposite direction, and each flow can
have its own round-trip time.

    s1 ─┐                           ┌─ d1
    s2 ─┤                           ├─ d2    data:  s1 ── left ══ bottleneck ══ right ── delay → d1
    …   ├─ left ══════════ right ───┤  …     acks:  s1 ← delay ── left ──────── right ────────── d1
    sN ─┤                           ├─ dN
    sb ─┘ pacing                    └─ db    the background's hosts, if there is one

Every node has permanent neighbour entries: ARP requests would wait in the queues, or be dropped
there, during a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlab.model import background
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.scenario import Scenario

# The number of the background's hosts, above those of all flows.
BACKGROUND_NUMBER = 200


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

    LOSS is the fraction of packets that it drops at random.
    """

    time: int
    limit: int
    loss: float = 0.0


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
    queues: dict[str, Queue] = field(init=False)  # by interface

    def __post_init__(self) -> None:
        found = {e.interface: e.queue for link in self.links for e, _ in link.ends() if e.queue}
        object.__setattr__(self, "queues", found)

    def ends_of(self, node: str) -> list[tuple[End, End]]:
        """The ends of NODE, each with the opposite one."""
        return [pair for link in self.links for pair in link.ends() if pair[0].node == node]


def ends_with(network: Network, qdisc: Qdisc) -> list[End]:
    """The end that has QDISC."""
    ends = [end for link in network.links for end in (link.a, link.b)]
    return [
        end
        for end in ends
        if end.queue == qdisc or (isinstance(end.queue, Bottleneck) and end.queue.qdisc == qdisc)
    ]


def netem_limit_needed(scenario: Scenario) -> int:
    """The most packets in a delay of half the round-trip time.

    Data arrives at the bottleneck's rate, with at most one acknowledgement for each packet.  The
    factor is for packets smaller than the MTU, the constant for bursts.
    """
    in_flight = scenario.rate * scenario.rtt / 2 / (8 * 10**6 * scenario.frame)
    return round(2 * in_flight) + 100


def default_qdisc(scenario: Scenario) -> Qdisc:
    """The bottleneck's default qdisc: a FIFO, or with ECN, RED."""
    buffer, frame = scenario.buffer, scenario.frame
    size = buffer.bytes_at_most(frame)
    if scenario.ecn:
        # As tc-red(8) advises, the thresholds differ by more than a burst; above the upper one
        # every packet is marked.
        low, high = max(frame, size // 6), max(2 * frame, size // 2)
        words = (
            f"limit {size} min {low} max {high} avpkt {frame}"
            f" burst {(2 * low + high) // (3 * frame) + 1} probability 0.1"
            f" bandwidth {scenario.rate}bit ecn"
        )
        return Qdisc(BOTTLENECK, "red", tuple(words.split()))
    if buffer.packets:
        return Qdisc(BOTTLENECK, "pfifo", ("limit", str(buffer.packets)))
    return Qdisc(BOTTLENECK, "bfifo", ("limit", str(buffer.size)))


def burst(scenario: Scenario) -> int:
    """The burst of the bottleneck, in bytes, which compensates for late timers.

    4 ms at the link's rate: with 1 ms a busy emulated CPU loses more than 1 % of the rate.  After
    an idle period a burst leaves at once, as if the buffer were larger.  So a small buffer has a
    small burst, and needs a fast machine (validity.py checks that).
    """
    size = scenario.buffer.bytes_at_most(scenario.frame)
    return max(2 * scenario.frame, min(scenario.rate // 2000, size // 10))


def dumbbell(scenario: Scenario) -> Network:
    """N senders, a bottleneck between two routers, N receivers."""
    limit = scenario.netem_limit or 10 * netem_limit_needed(scenario)
    half = Delay(scenario.rtt // 2, limit)
    other_half = Delay(scenario.rtt - half.time, limit)
    queue = Bottleneck(
        rate=scenario.rate,
        burst=burst(scenario),
        qdisc=scenario.qdisc(BOTTLENECK) or default_qdisc(scenario),
        size=scenario.buffer.bytes_at_most(scenario.frame),
    )
    bottleneck = End("left", "left-right", "10.255.0.1", "02:ff:00:00:00:01", queue)
    reverse = scenario.qdisc("reverse")
    other_end = End("right", "right-left", "10.255.0.2", "02:ff:00:00:00:02", reverse)
    links = [Link(bottleneck, other_end)]
    routes: dict[str, tuple[tuple[str, str], ...]] = {
        "left": (("10.1.0.0/16", "10.255.0.2"),),
        "right": (("10.0.0.0/16", "10.255.0.1"),),
    }

    def add_path(name: str, n: int, at_sender: Queue | None, at_receiver: Queue | None) -> Path:
        """A sender, a receiver, their links and routes; N is in their addresses."""
        sender, receiver = f"s{name}", f"d{name}"
        up = Link(
            End(sender, f"{sender}-left", f"10.0.{n}.2", f"02:00:00:00:{n:02x}:02", at_sender),
            End("left", f"left-{sender}", f"10.0.{n}.1", f"02:00:00:00:{n:02x}:01", half),
        )
        down = Link(
            End("right", f"right-{receiver}", f"10.1.{n}.1", f"02:01:00:00:{n:02x}:01", other_half),
            End(
                receiver,
                f"{receiver}-right",
                f"10.1.{n}.2",
                f"02:01:00:00:{n:02x}:02",
                at_receiver,
            ),
        )
        links.extend((up, down))
        routes[sender] = (("default", up.b.address),)
        routes[receiver] = (("default", down.a.address),)
        return Path(sender, receiver, down.b.address, down.a)

    ours = (scenario.qdisc("senders"), scenario.qdisc("receivers"))
    paths = [add_path(str(n), n, *ours) for n in range(1, len(scenario.flows) + 1)]
    beside = None
    if scenario.background:
        # Pacing would space out the packets of a Poisson process.
        spaced = scenario.background.kind == background.FLOWS
        pacing = Pacing(scenario.background.peak) if spaced else None
        beside = add_path("b", BACKGROUND_NUMBER, pacing, None)
    everybody = [*paths, beside] if beside else paths
    return Network(
        hosts=(*(path.sender for path in everybody), *(path.receiver for path in everybody)),
        routers=("left", "right"),
        links=tuple(links),
        routes=routes,
        paths=tuple(paths),
        bottleneck=bottleneck,
        mtu=scenario.mtu,
        background=beside,
    )


BUILDERS = {"dumbbell": dumbbell}


def build(scenario: Scenario) -> Network:
    """The network that a scenario describes."""
    return BUILDERS[scenario.topology](scenario)
