# SPDX-License-Identifier: GPL-2.0
"""The topology of scenarios: a dumbbell.

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

from fairlab.model import background
from fairlab.model.network import Bottleneck, Delay, End, Link, Network, Pacing, Path, Queue
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.scenario import Scenario

# The number of the background's hosts, above those of all flows.
BACKGROUND_NUMBER = 200


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
