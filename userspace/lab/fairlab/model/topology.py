# SPDX-License-Identifier: GPL-2.0
"""Networks as plain data: nodes, links, and what holds packets up at each interface.

Nothing here touches a machine, so that a topology can be read, tested and drawn on its own.  A
link has two ends, an end is an interface of a node with its own address and, perhaps, a queue:

- a Bottleneck sends at a fixed rate what its qdisc gives it, which is a FIFO of a fixed size (or
  RED, which marks early, with ECN) unless the scenario has another;
- a Delay holds each packet back for a fixed time;
- a Pacing lets no flow of a host send faster than its peak, from its first packet on;
- a Trunk does both, as a backbone's wire; an Edge is where SLBN ends;
- any other qdisc stands where the scenario wants it.

Delays are never on the host that sends: there, packets held back by netem count as unsent for TCP's
small queues, which then send no more.  Nor are they on the bottleneck, whose queue must hold what
waits for the wire and nothing else.  So each half of the round-trip is a Delay of a router, on its
interface towards the end host: data is delayed after the bottleneck, acknowledgements on their way
back, and each flow could have a round-trip of its own.

    s1 ─┐                           ┌─ d1
    s2 ─┤                           ├─ d2    data:  s1 ── left ══ bottleneck ══ right ── delay → d1
    …   ├─ left ══════════ right ───┤  …     acks:  s1 ← delay ── left ──────── right ────────── d1
    sN ─┤                           ├─ dN
    sb ─┘ pacing                    └─ db    the background's hosts, if there is one

Every node has the MAC addresses of its neighbours by heart: an ARP request would wait in the queues
like everything else, or be dropped there, in the middle of a run.
"""

from dataclasses import dataclass, field

from fairlab.model import background
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.scenario import Scenario

# The background's place among the senders, beyond all flows.
BACKGROUND_NUMBER = 200


@dataclass(frozen=True)
class Bottleneck:
    """A qdisc in front of a wire of a fixed rate [bit/s]; BURST bytes may leave at once."""

    rate: int
    burst: int
    qdisc: Qdisc
    size: int  # of the buffer, in bytes


@dataclass(frozen=True)
class Delay:
    """Packets are held back for this long [µs]; at most LIMIT of them at a time.

    LOSS is the fraction that it loses, at random.
    """

    time: int
    limit: int
    loss: float = 0.0


@dataclass(frozen=True)
class Pacing:
    """No flow of this host sends faster than this [bit/s]."""

    peak: int


@dataclass(frozen=True)
class Trunk:
    """A wire of a backbone: of a fixed rate [bit/s] and delay [µs], DATA waiting before it.

    If SLBN has some of the rate to hand out [bit/s], it is one of SLBN's links, whose control
    packets wait for the wire as others do; SLBN_WORDS is what else it is told.
    """

    rate: int
    delay: int
    data: Qdisc
    slbn: int = 0
    slbn_words: str = ""


@dataclass(frozen=True)
class Edge:
    """Where SLBN ends: hosts are behind it."""


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
        """Each end with the one opposite."""
        return ((self.a, self.b), (self.b, self.a))


@dataclass(frozen=True)
class Path:
    """Where a flow runs: its hosts, and the interface that hands the data to the receiver."""

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
    routes: dict[str, tuple[tuple[str, str], ...]]  # node -> (destination, next hop)
    paths: tuple[Path, ...]
    bottleneck: End
    mtu: int
    background: Path | None = None
    queues: dict[str, Queue] = field(init=False)  # by interface

    def __post_init__(self) -> None:
        found = {e.interface: e.queue for link in self.links for e, _ in link.ends() if e.queue}
        object.__setattr__(self, "queues", found)

    def ends_of(self, node: str) -> list[tuple[End, End]]:
        """The ends of NODE, each with the one opposite."""
        return [pair for link in self.links for pair in link.ends() if pair[0].node == node]


def ends_with(network: Network, qdisc: Qdisc) -> list[End]:
    """Where QDISC stands."""
    ends = [end for link in network.links for end in (link.a, link.b)]
    return [
        end
        for end in ends
        if end.queue == qdisc or (isinstance(end.queue, Bottleneck) and end.queue.qdisc == qdisc)
    ]


def netem_limit_needed(scenario: Scenario) -> int:
    """How many packets a delay of half the round-trip may have to hold at a time.

    Data comes from the bottleneck at its rate; there is at most one acknowledgement for each
    packet.  Packets can be smaller than the largest, and come in bursts: hence the factor and the
    constant.
    """
    in_flight = scenario.rate * scenario.rtt / 2 / (8 * 10**6 * scenario.frame)
    return round(2 * in_flight) + 100


def default_qdisc(scenario: Scenario) -> Qdisc:
    """What is at the bottleneck if nobody says: a FIFO, or with ECN, RED."""
    buffer, frame = scenario.buffer, scenario.frame
    size = buffer.bytes_at_most(frame)
    if scenario.ecn:
        # As tc-red(8) advises, the thresholds apart by more than a burst; beyond the upper one
        # everything is marked.
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
    """How many bytes may leave at once when a timer was late.

    4 ms' worth: with 1 ms a busy emulated CPU loses more than a hundredth of the rate.  But
    after an idle moment these bytes leave at once too, as if the buffer were larger by so much: so
    a small buffer has a small burst, and a fast machine is needed (validity.py looks whether it
    was).
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
        # Packets that arrive by a Poisson process must not be spaced out.
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
