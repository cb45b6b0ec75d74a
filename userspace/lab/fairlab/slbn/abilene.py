# SPDX-License-Identifier: GPL-2.0
"""The Abilene network, scaled down, with access routers and hosts.

Abilene was the backbone of the American research universities until 2007: eleven nodes, fourteen
links of 10 Gbit/s.  Nodes and links are the real ones; rates are scaled, delays are those of light
in fibre over the distance of the cities, and half as much again for the detours of cables.

    host ── access router ══ node ══ node ══ … ══ node ══ access router ── host

Each of six nodes has an access router with a host behind it.  Each ══ is a link of a fixed rate and
delay, with the variant's qdisc.  The delay of an access router's link is only in the direction
towards it: packets that slbnd paces wait in fq, and must reach the link when fq sends them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlab.model.qdisc import Qdisc
from fairlab.model.topology import Edge, End, Link, Network, Queue, Trunk
from fairlab.slbn import mesh

# Where the nodes are: degrees north, degrees west.
NODES = {
    "sea": (47.6, 122.3),  # Seattle
    "snv": (37.4, 122.0),  # Sunnyvale
    "lax": (34.1, 118.2),  # Los Angeles
    "den": (39.7, 105.0),  # Denver
    "hou": (29.8, 95.4),  # Houston
    "ksc": (39.1, 94.6),  # Kansas City
    "ipl": (39.8, 86.2),  # Indianapolis
    "atl": (33.7, 84.4),  # Atlanta
    "chi": (41.9, 87.6),  # Chicago
    "wdc": (38.9, 77.0),  # Washington
    "nyc": (40.7, 74.0),  # New York
}
LINKS = (
    ("sea", "snv"), ("sea", "den"), ("snv", "lax"), ("snv", "den"), ("lax", "hou"),
    ("den", "ksc"), ("ksc", "hou"), ("ksc", "ipl"), ("hou", "atl"), ("ipl", "chi"),
    ("ipl", "atl"), ("chi", "nyc"), ("atl", "wdc"), ("wdc", "nyc"),
)  # fmt: skip
ACCESS = ("sea", "lax", "hou", "chi", "atl", "nyc")

ACCESS_DELAY = 500  # µs
# What an SLBN link does not plan with, in per mille of its rate: the rest is for control packets,
# and for newcomers.
HEADROOM = 50
# As slbnd(8) advises.
FQ = ("limit", "100000", "flow_limit", "10000")


PLACES: dict[str, mesh.Place] = {node: (north, -west) for node, (north, west) in NODES.items()}


def delay_us(a: str, b: str) -> int:
    """The one-way delay of a link, in µs."""
    return mesh.delay_us(PLACES[a], PLACES[b])


def backbone(rate: int) -> mesh.Mesh:
    """The nodes and links alone, with RATE [bit/s] on each."""
    return mesh.of_places("abilene", PLACES, ((a, b, rate) for a, b in LINKS))


def access(node: str) -> str:
    """The access router of a node."""
    return f"a-{node}"


def host(node: str) -> str:
    """The host behind the access router of a node."""
    return f"h-{node}"


@dataclass(frozen=True)
class Variant:
    """The qdisc of the links, and whether SLBN assigns rates."""

    name: str
    data: Qdisc
    slbn: bool = False

    def capacity(self, rate: int) -> int:
        """What a link of RATE [bit/s] assigns in sum."""
        return mesh.planned(rate, HEADROOM) if self.slbn else rate


def neighbours() -> dict[str, dict[str, int]]:
    """Each router's neighbours, with their delays [µs]."""
    found: dict[str, dict[str, int]] = {node: {} for node in NODES}
    for a, b in LINKS:
        found[a][b] = found[b][a] = delay_us(a, b)
    for node in ACCESS:
        found[node][access(node)] = ACCESS_DELAY
        found[access(node)] = {node: ACCESS_DELAY}
    return found


def next_hops(to: str) -> dict[str, str]:
    """From each router, the next hop of the shortest path TO a router."""
    return mesh.next_hops(neighbours(), to)


def path(source: str, destination: str) -> list[tuple[str, str]]:
    """The links from one node's host to another's, in order."""
    hops = next_hops(access(destination))
    found = []
    at = access(source)
    while at != access(destination):
        found.append((at, hops[at]))
        at = hops[at]
    return found


def round_trip_us(source: str, destination: str) -> int:
    """The round-trip time between the hosts of two nodes, without queues."""
    near = neighbours()
    return 2 * sum(near[a][b] for a, b in path(source, destination))


def wire(a: str, b: str) -> str:
    """The name of a wire: its device."""
    return mesh.link_name(a, b)


def build(rate: int, variant: Variant, mtu: int = 1500) -> Network:
    """The network with RATE [bit/s] on each wire."""
    links: list[Link] = []
    address: dict[tuple[str, str], str] = {}
    subnets: dict[str, str] = {}

    def connect(a: str, b: str, queues: tuple[Queue | None, Queue | None]) -> None:
        n = len(links) + 1
        ends = []
        for side, (own, other) in enumerate(((a, b), (b, a)), 1):
            address[own, other] = f"10.{n}.0.{side}"
            mac = f"02:00:00:00:{n:02x}:{side:02x}"
            ends.append(End(own, wire(own, other), f"10.{n}.0.{side}", mac, queues[side - 1]))
        links.append(Link(ends[0], ends[1]))
        subnets[f"{a} {b}"] = f"10.{n}.0.0/24"

    slbn = rate if variant.slbn else 0
    words = f"headroom {HEADROOM / 10:g}%"

    def trunk(delay: int, uplink: bool = False) -> Trunk:
        # At the source of a session, fq paces its packets.
        data = Qdisc(variant.data.link, "fq", FQ) if uplink and variant.slbn else variant.data
        return Trunk(rate, delay, data, slbn, words)

    for a, b in LINKS:
        connect(a, b, (trunk(delay_us(a, b)), trunk(delay_us(a, b))))
    for node in ACCESS:
        own = access(node)
        connect(own, node, (trunk(0, uplink=True), trunk(2 * ACCESS_DELAY)))
        connect(own, host(node), (Edge() if variant.slbn else None, None))

    routes: dict[str, list[tuple[str, str]]] = {node: [] for node in neighbours()}
    for node in ACCESS:
        own = access(node)
        for there, hop in next_hops(own).items():
            if there != own:
                via = address[hop, there]
                routes[there].append((subnets[f"{own} {host(node)}"], via))
                if there != node:
                    routes[there].append((subnets[f"{own} {node}"], via))
    hosts = tuple(host(node) for node in ACCESS)
    every = {name: tuple(found) for name, found in routes.items()}
    every |= {host(node): (("default", address[access(node), host(node)]),) for node in ACCESS}
    return Network(
        hosts=hosts,
        routers=tuple(routes),
        links=tuple(links),
        routes=every,
        paths=(),
        bottleneck=links[0].a,
        mtu=mtu,
    )


def address_of(network: Network, node: str) -> str:
    """The address of a node's host."""
    ((end, _),) = network.ends_of(host(node))
    return end.address


def wires(network: Network) -> Iterable[End]:
    """The ends with a backbone link."""
    return (end for link in network.links for end, _ in link.ends() if isinstance(end.queue, Trunk))
