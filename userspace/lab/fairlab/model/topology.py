# SPDX-License-Identifier: GPL-2.0
"""The topology of scenarios and of experiments (experiment.py): a dumbbell.

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
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlab.model.background import FLOWS, Background
from fairlab.model.network import Bottleneck, Delay, End, Link, Network, Pacing, Path, Queue
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.scenario import Scenario

# The number of the background's hosts, above those of all flows.
BACKGROUND_NUMBER = 200


@dataclass(frozen=True)
class Pair:
    """A sender s and a receiver d, with NAME; NUMBER is in their addresses.

    THERE is the delay of data, BACK that of acknowledgements.  REVERSE: data from right to left.
    """

    name: str
    number: int
    there: Delay
    back: Delay
    at_sender: Queue | None = None
    at_receiver: Queue | None = None
    reverse: bool = False


def dumbbell(
    forth: Bottleneck, back: Queue | None, pairs: Sequence[Pair], mtu: int, beside: bool = False
) -> Network:
    """Two routers, FORTH and BACK between them, and pairs; BESIDE: the last is the background's."""
    bottleneck = End("left", "left-right", "10.255.0.1", "02:ff:00:00:00:01", forth)
    links = [Link(bottleneck, End("right", "right-left", "10.255.0.2", "02:ff:00:00:00:02", back))]
    routes: dict[str, tuple[tuple[str, str], ...]] = {
        "left": (("10.1.0.0/16", "10.255.0.2"),),
        "right": (("10.0.0.0/16", "10.255.0.1"),),
    }
    paths = []
    for pair in pairs:
        ends = []
        for role, side, own, delay in (
            ("s", int(pair.reverse), pair.at_sender, pair.back),
            ("d", int(not pair.reverse), pair.at_receiver, pair.there),
        ):
            node, router = f"{role}{pair.name}", ("left", "right")[side]
            net, mac = f"10.{side}.{pair.number}", f"02:{side:02x}:00:00:{pair.number:02x}"
            host = End(node, f"{node}-{router}", f"{net}.2", f"{mac}:02", own)
            near = End(router, f"{router}-{node}", f"{net}.1", f"{mac}:01", delay)
            links.append(Link(host, near))
            routes[node] = (("default", near.address),)
            ends.append(links[-1])
        paths.append(Path(ends[0].a.node, ends[1].a.node, ends[1].a.address, ends[1].b))
    return Network(
        hosts=(*(path.sender for path in paths), *(path.receiver for path in paths)),
        routers=("left", "right"),
        links=tuple(links),
        routes=routes,
        paths=tuple(paths[:-1] if beside else paths),
        bottleneck=bottleneck,
        mtu=mtu,
        background=paths[-1] if beside else None,
    )


def pacing(beside: Background | None) -> Pacing | None:
    """At the background's sender.  It would space out the packets of a Poisson process."""
    return Pacing(beside.peak) if beside and beside.kind == FLOWS else None


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


def build(scenario: Scenario) -> Network:
    """The network that a scenario describes."""
    limit = scenario.netem_limit or 10 * netem_limit_needed(scenario)
    half = Delay(scenario.rtt // 2, limit)
    halves = Delay(scenario.rtt - half.time, limit), half
    queue = Bottleneck(
        rate=scenario.rate,
        burst=burst(scenario),
        qdisc=scenario.qdisc(BOTTLENECK) or default_qdisc(scenario),
        size=scenario.buffer.bytes_at_most(scenario.frame),
    )
    ours = (scenario.qdisc("senders"), scenario.qdisc("receivers"))
    pairs = [Pair(str(n), n, *halves, *ours) for n in range(1, len(scenario.flows) + 1)]
    beside = scenario.background
    if beside:
        pairs.append(Pair("b", BACKGROUND_NUMBER, *halves, pacing(beside)))
    return dumbbell(queue, scenario.qdisc("reverse"), pairs, scenario.mtu, bool(beside))
