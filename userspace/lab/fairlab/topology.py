# SPDX-License-Identifier: GPL-2.0
"""Networks as plain data: nodes, links, and what holds packets up at each interface.

Nothing here touches a machine, so that a topology can be read, tested and drawn on its own.  A
link has two ends, an end is an interface of a node with its own address and, perhaps, a queue:

- a Bottleneck sends at a fixed rate from a buffer of a fixed size (or marks early, with ECN);
- a Delay holds each packet back for a fixed time.

Delays are never on the host that sends: there, packets held back by netem count as unsent for TCP's
small queues, which then send no more.  Nor are they on the bottleneck, whose queue must hold what
waits for the wire and nothing else.  So each half of the round-trip is a Delay of a router, on its
interface towards the end host: data is delayed after the bottleneck, acknowledgements on their way
back, and each flow could have a round-trip of its own.

    s1 ─┐                           ┌─ d1
    s2 ─┤                           ├─ d2    data:  s1 ── left ══ bottleneck ══ right ── delay → d1
    …   ├─ left ══════════ right ───┤  …     acks:  s1 ← delay ── left ──────── right ────────── d1
    sN ─┘                           └─ dN

Every node has the MAC addresses of its neighbours by heart: an ARP request would wait in the queues
like everything else, or be dropped there, in the middle of a run.
"""

from dataclasses import dataclass, field

from fairlab.scenario import Scenario


@dataclass(frozen=True)
class Bottleneck:
    """A queue in front of a wire of a fixed rate [bit/s]; its limit in bytes or in packets."""

    rate: int
    burst: int
    limit_bytes: int
    limit_packets: int
    ecn: bool


@dataclass(frozen=True)
class Delay:
    """Packets are held back for this long [µs]; at most LIMIT of them at a time."""

    time: int
    limit: int


@dataclass(frozen=True)
class End:
    """One end of a link."""

    node: str
    interface: str
    address: str
    mac: str
    queue: Bottleneck | Delay | None = None


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
    queues: dict[str, Bottleneck | Delay] = field(init=False)  # by interface

    def __post_init__(self) -> None:
        found = {e.interface: e.queue for link in self.links for e, _ in link.ends() if e.queue}
        object.__setattr__(self, "queues", found)

    def ends_of(self, node: str) -> list[tuple[End, End]]:
        """The ends of NODE, each with the one opposite."""
        return [pair for link in self.links for pair in link.ends() if pair[0].node == node]


def netem_limit_needed(scenario: Scenario) -> int:
    """How many packets a delay of half the round-trip may have to hold at a time.

    Data comes from the bottleneck at its rate; there is at most one acknowledgement for each
    packet.  Packets can be smaller than the largest, and come in bursts: hence the factor and the
    constant.
    """
    in_flight = scenario.rate * scenario.rtt / 2 / (8 * 10**6 * scenario.frame)
    return round(2 * in_flight) + 100


def dumbbell(scenario: Scenario) -> Network:
    """N senders, a bottleneck between two routers, N receivers."""
    limit = scenario.netem_limit or 10 * netem_limit_needed(scenario)
    half = Delay(scenario.rtt // 2, limit)
    other_half = Delay(scenario.rtt - half.time, limit)
    buffer = scenario.buffer
    queue = Bottleneck(
        rate=scenario.rate,
        # What may leave at once when a timer was late: 4 ms' worth.  With 1 ms a busy emulated CPU
        # loses more than a hundredth of the rate.
        burst=max(2 * scenario.frame, scenario.rate // 2000),
        limit_bytes=buffer.size,
        limit_packets=buffer.packets,
        ecn=scenario.ecn,
    )
    bottleneck = End("left", "left-right", "10.255.0.1", "02:ff:00:00:00:01", queue)
    links = [Link(bottleneck, End("right", "right-left", "10.255.0.2", "02:ff:00:00:00:02"))]
    paths = []
    senders, receivers = [], []
    for n in range(1, len(scenario.flows) + 1):
        sender, receiver = f"s{n}", f"d{n}"
        senders.append(sender)
        receivers.append(receiver)
        up = Link(
            End(sender, f"{sender}-left", f"10.0.{n}.2", f"02:00:00:00:{n:02x}:02"),
            End("left", f"left-{sender}", f"10.0.{n}.1", f"02:00:00:00:{n:02x}:01", half),
        )
        down = Link(
            End("right", f"right-{receiver}", f"10.1.{n}.1", f"02:01:00:00:{n:02x}:01", other_half),
            End(receiver, f"{receiver}-right", f"10.1.{n}.2", f"02:01:00:00:{n:02x}:02"),
        )
        links += [up, down]
        paths.append(Path(sender, receiver, down.b.address, down.a))
    routes: dict[str, tuple[tuple[str, str], ...]] = {
        "left": (("10.1.0.0/16", "10.255.0.2"),),
        "right": (("10.0.0.0/16", "10.255.0.1"),),
    }
    routes |= {f"s{n}": (("default", f"10.0.{n}.1"),) for n in range(1, len(paths) + 1)}
    routes |= {f"d{n}": (("default", f"10.1.{n}.1"),) for n in range(1, len(paths) + 1)}
    return Network(
        hosts=(*senders, *receivers),
        routers=("left", "right"),
        links=tuple(links),
        routes=routes,
        paths=tuple(paths),
        bottleneck=bottleneck,
        mtu=scenario.mtu,
    )


BUILDERS = {"dumbbell": dumbbell}


def build(scenario: Scenario) -> Network:
    """The network that a scenario describes."""
    return BUILDERS[scenario.topology](scenario)
