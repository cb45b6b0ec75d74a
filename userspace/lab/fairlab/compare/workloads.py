# SPDX-License-Identifier: GPL-2.0
"""The workloads of `fairlab compare`: networks and flows, as plain data.

A network is a mesh of routers.  Some have an access router with hosts behind it, on a link of its
own rate (`uplinks`).  Rates are of frames.

Flows begin at SENDERS hosts of their node: what a router does for each host (CAKE, slbnd) would
otherwise act on all flows together.  A host is an address.  Long flows are dealt to the hosts in
turn, as are those with sessions of their own; that of each other short flow is drawn.  They end
at one host.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fairlab.compare import sizes
from fairlab.compare.plan import SENDERS, Workload
from fairlab.net.network import Hosts
from fairlab.slbn import abilene, backbone
from fairlab.slbn.experiment import FRAME, TCP_PART, Change, Flow
from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.network import ACCESS_DELAY

MBIT, GBIT = 10**6, 10**9

#: The largest random delay of a flow's start [s].
SPREAD = 0.5

#: Largest buffers of Linux, and the window scale with which a host then announces its window.
LINUX_7 = Hosts(receive=6 * 2**20, send=4 * 2**20)
#: of newer kernels
LINUX_10 = Hosts(receive=32 * 2**20, send=4 * 2**20)


def late(draw: random.Random, spread: float = SPREAD) -> float:
    """A random delay of a flow's start [s]."""
    return round(draw.uniform(0, spread), 4)


def bdp(rate: int, rtt: float) -> int:
    """The bandwidth-delay product in packets, at least 100; RTT in ms."""
    return max(100, round(rate * rtt / 8000 / FRAME))


# --- the demo's backbone ------------------------------------------------------------------------


def longest_rtt() -> float:
    """The longest round-trip time of the demo's flows [ms]."""
    pairs = ((flow.source, flow.destination) for flow in backbone.FLOWS)
    return max(abilene.round_trip_us(*pair) for pair in pairs) / 1000


def backbone_of(rate: int, name: str, seconds: float) -> Workload:
    """The flows of the demo (backbone.py) on Abilene."""

    def flows(draw: random.Random) -> list[Flow]:
        found = []
        for flow in backbone.FLOWS:
            delay = late(draw)
            for part in flow.parts:
                udp = round(part.share * rate)
                start, stop = part.start * seconds + delay, part.stop * seconds
                found.append(Flow(flow.source, flow.destination, start, stop, udp))
        return found

    return Workload(
        name,
        f"backbone: the demo's 8 flows join and leave on Abilene, links of {rate // MBIT} Mbit/s",
        flows,
        mesh=abilene.backbone(rate),
        uplinks=dict.fromkeys(abilene.ACCESS, rate),
        buffer=bdp(rate, longest_rtt()),
        seconds=seconds,
    )


# --- one link -----------------------------------------------------------------------------------


def one_link(
    name: str,
    title: str,
    flows: Callable[[random.Random], list[Flow]],
    rate: int,
    rtt: float,
    seconds: float,
    **more: Any,
) -> Workload:
    """FLOWS on a link of the routers l and r; RTT [ms] from host to host."""
    wire = Wire("l", "r", rate, round(500 * rtt) - 2 * ACCESS_DELAY)
    mesh, uplinks = Mesh("link", ("l", "r"), (wire,)), dict.fromkeys("lr", 4 * rate)
    return Workload(name, title, flows, mesh=mesh, uplinks=uplinks, seconds=seconds, **more)


def short_flows(name: str, table: sizes.Table, text: str) -> Workload:
    """Short flows arrive as a Poisson process, beside unresponsive UDP."""
    rate, rtt, load, udp, seconds = GBIT, 20.0, 0.5, 0.3, 10.0

    def flows(draw: random.Random) -> list[Flow]:
        found = [Flow("l", "r", 0.0, seconds, udp=round(udp * rate))]
        each = load * rate * TCP_PART / 8 / sizes.mean(table)
        when = draw.expovariate(each)
        while when < seconds * 0.8:
            found.append(Flow("l", "r", round(when, 6), seconds, size=sizes.draw(table, draw)))
            when += draw.expovariate(each)
        return found

    title = f"short flows: sizes of {text}, 50 % of a 1 Gbit/s link, beside 30 % of UDP, 20 ms"
    return one_link(name, title, flows, rate, rtt, seconds, buffer=bdp(rate, rtt))


def long_flows(
    name: str,
    text: str,
    rate: int,
    rtt: float,
    buffer: int,
    count: int,
    seconds: float,
    spread: float = SPREAD,
    **more: Any,
) -> Workload:
    """COUNT long flows share a link."""

    def flows(draw: random.Random) -> list[Flow]:
        starts = sorted(late(draw, spread) for _ in range(count))
        return [Flow("l", "r", start, seconds) for start in starts]

    title = f"{text}: {count} flows, {rate // MBIT} Mbit/s, {rtt:g} ms"
    more |= {"buffer": buffer, "warmup": seconds / 4}
    return one_link(name, title, flows, rate, rtt, seconds, **more)


def steps(draw: random.Random) -> list[Change]:
    """A new rate of the link each second."""
    return [(float(when), "l.r", round(draw.uniform(20, 100)) * MBIT) for when in range(1, 60)]


# --- several links ------------------------------------------------------------------------------


def row(letter: str, rates: Iterable[int], delay: int) -> list[Wire]:
    """Links in a row, of routers LETTER0, LETTER1, ...; DELAY in µs."""
    return [Wire(f"{letter}{n}", f"{letter}{n + 1}", rate, delay) for n, rate in enumerate(rates)]


def in_a_row(
    name: str,
    title: str,
    wires: Sequence[Wire],
    rtt: float,
    ways: Iterable[tuple[str, str]],
    seconds: float,
    udp: Iterable[tuple[str, str]] = (),
    **more: Any,
) -> Workload:
    """Long flows go WAYS over links in a row, beside UDP of half of a link; RTT [ms]: of a FIFO."""
    nodes = (wires[0].a, *(wire.b for wire in wires))
    rate = max(wire.rate for wire in wires)

    def flows(draw: random.Random) -> list[Flow]:
        found = [Flow(a, b, late(draw), seconds) for a, b in ways]
        return found + [Flow(a, b, 0.0, seconds, udp=rate // 2) for a, b in udp]

    return Workload(
        name,
        title,
        flows,
        mesh=Mesh(name, nodes, tuple(wires)),
        uplinks=dict.fromkeys(nodes, 4 * rate),
        buffer=bdp(rate, rtt),
        seconds=seconds,
        **more,
    )


def parking_lot() -> Workload:
    """Two long flows and UDP cross three links, each of which has two cross flows."""
    wires, whole = row("p", [100 * MBIT] * 3, 5000), ("p0", "p3")
    ways = [whole] * 2 + [(wire.a, wire.b) for wire in wires for _ in range(2)]
    title = (
        "parking lot: 2 flows and 50 Mbit/s of UDP over 3 links of 100 Mbit/s, 2 cross flows each"
    )
    return in_a_row("parking-lot", title, wires, 32, ways, 30.0, [whole], warmup=5.0)


def eight_links() -> Workload:
    """TCP over each of eight links, beside UDP that the last one drops.

    UDP flows from each router to the last one: links carry up to four times their rate of it, and
    the last one has no room for most.  In max-min it takes a ninth of the last link each, so TCP
    has the more the nearer its link is to the first one; a queue that knows its own link only gives
    UDP an equal share there.
    """
    wires = row("e", [50 * MBIT] * 8, 1000)
    ways, udp = [(wire.a, wire.b) for wire in wires], [(wire.a, "e8") for wire in wires]
    title = (
        "eight links of 50 Mbit/s in a row: TCP over each, 25 Mbit/s of UDP from each to the end"
    )
    return in_a_row("eight-links", title, wires, 20, ways, 20.0, udp, warmup=5.0)


def weighted() -> Workload:
    """Flows of weights 1, 2 and 4 over three bottlenecks of different rates, and over each."""
    wires, weights = row("w", (60 * MBIT, 90 * MBIT, 120 * MBIT), 5000), (1, 2, 4)
    # A multiple of three for each way: hosts, and so weights, are dealt in turn.
    ways = [("w0", "w3"), *((wire.a, wire.b) for wire in wires)]
    ways = [way for way in ways for _ in weights]
    title = "weights 1 : 2 : 4 over three links of 60, 90 and 120 Mbit/s, and over each"
    return in_a_row(
        "weights", title, wires, 32, ways, 30.0, warmup=10.0, senders=len(weights), weights=weights
    )


def incast() -> Workload:
    """200 hosts that have sessions send 64 kB each at once into a FIFO of 256 packets.

    Each did so before, on the same connection, at a moment of its own.
    """
    rate, seconds, size = GBIT, 6.0, 64000
    nodes = tuple(f"i{n}" for n in range(1, 5))
    wires = [Wire(node, "l", rate, 500) for node in nodes] + [Wire("l", "r", rate, 500)]

    def flows(draw: random.Random) -> list[Flow]:
        def flow(node: str) -> Flow:
            # Sessions have their rates by then; the requests of such a burst arrive within 0.1 ms.
            start = round(3 + draw.uniform(0, 1e-4), 6)
            opened = round(draw.uniform(1, 2), 6)
            return Flow(node, "r", start, seconds, size=size, open=opened, first=size)

        return [flow(node) for node in nodes for _ in range(SENDERS)]

    return Workload(
        "incast",
        "incast: 200 hosts send 64 kB each at once, 1 Gbit/s, 4 ms, 256 packets",
        flows,
        mesh=Mesh("incast", (*nodes, "l", "r"), tuple(wires)),
        uplinks=dict.fromkeys((*nodes, "r"), 4 * rate),
        buffer=256,
        seconds=seconds,
        small=True,
        # With the largest buffers, windows count units of 4 kB: more than a round trip needs.
        hosts=LINUX_7,
        joined=True,
    )


def changed(workload: Workload, name: str, text: str, **changes: Any) -> Workload:
    """WORKLOAD with CHANGES, which NAME and TEXT say."""
    name, title = f"{workload.name}-{name}", f"{workload.title}; {text}"
    return replace(workload, name=name, title=title, **changes)


def from_four(workload: Workload) -> Workload:
    """WORKLOAD, on one link, from four access routers instead of one; UDP from the first of them.

    Each has a link of the same rate to the router before the shared link.
    """
    (wire,) = workload.mesh.wires
    nodes, near = ("s1", "s2", "s3", "s4"), 500
    wires = [Wire(node, "l", wire.rate, near) for node in nodes]
    wires.append(Wire("l", "r", wire.rate, wire.delay - near))

    def flows(draw: random.Random) -> list[Flow]:
        return [
            replace(flow, source=nodes[0] if flow.udp else draw.choice(nodes))
            for flow in workload.flows(draw)
        ]

    return changed(
        workload,
        "4",
        "from four access routers",
        mesh=Mesh("four", (*nodes, "l", "r"), tuple(wires)),
        uplinks=dict.fromkeys((*nodes, "r"), workload.uplinks["l"]),
        flows=flows,
    )


# --- hosts --------------------------------------------------------------------------------------


def of_two_bdp(rate: int, rtt: float) -> Hosts:
    """Buffers for two bandwidth-delay products of payload; RTT in ms.

    The kernel counts up to two bytes for one of the receiver's payload, four for the sender's.
    """
    size = round(2 * rate * rtt / 8000)
    return Hosts(receive=2 * size, send=4 * size)


def with_sockets(workload: Workload, rtt: float) -> Iterator[Workload]:
    """WORKLOAD with several socket buffers; RTT is its longest [ms]."""
    rate = max(wire.rate for wire in workload.mesh.wires)
    for name, text, hosts in (
        ("linux7", "Linux's socket buffers, window scale 7", LINUX_7),
        ("linux10", "Linux's socket buffers, window scale 10", LINUX_10),
        ("2bdp", "socket buffers of 2 BDP", of_two_bdp(rate, rtt)),
    ):
        yield changed(workload, name, text, hosts=hosts)


def from_one_host(workload: Workload) -> Workload:
    """WORKLOAD with one sending host at each node."""
    return changed(workload, "one-host", "one sending host", senders=1)


WEB_SEARCH = short_flows("web-search", sizes.WEB, "web search (DCTCP paper)")
DATA_MINING = short_flows("data-mining", sizes.DATA, "data mining (VL2 paper)")
MANY_FLOWS = long_flows("many-flows", "many flows", GBIT, 40, bdp(GBIT, 40), 1000, 20, 5)
PARKING_LOT = parking_lot()
HIGH_BDP = long_flows("high-bdp", "high BDP", GBIT, 200, bdp(GBIT, 100), 4, 60, 5)
BACKBONE = backbone_of(100 * MBIT, "backbone", 60)
# A second of it takes ten times as long to run as of the demo's.
BACKBONE_1G = backbone_of(GBIT, "backbone-1g", 14)
WORKLOADS = {
    workload.name: workload
    for workload in (
        BACKBONE,
        from_one_host(BACKBONE),
        BACKBONE_1G,
        *with_sockets(BACKBONE_1G, longest_rtt()),
        WEB_SEARCH,
        changed(WEB_SEARCH, "gso", "hosts with segmentation offload", hosts=Hosts(gso=True)),
        from_one_host(WEB_SEARCH),
        from_four(WEB_SEARCH),
        DATA_MINING,
        from_one_host(DATA_MINING),
        PARKING_LOT,
        from_one_host(PARKING_LOT),
        eight_links(),
        weighted(),
        incast(),
        HIGH_BDP,
        *with_sockets(HIGH_BDP, 200),
        long_flows("small-buffers", "100-packet buffers", 100 * MBIT, 50, 100, 4, 40, small=True),
        MANY_FLOWS,
        from_one_host(MANY_FLOWS),
        long_flows(
            "many-flows-10g", "20,000 flows", 10 * GBIT, 20, bdp(10 * GBIT, 20), 20000, 20, 5
        ),
        long_flows(
            "variable", "20 to 100 Mbit/s, changed each second",
            100 * MBIT, 50, bdp(100 * MBIT, 50), 4, 60, changes=steps,
        ),
    )
}  # fmt: skip
