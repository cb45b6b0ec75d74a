# SPDX-License-Identifier: GPL-2.0
"""The Abilene network, scaled down, with access routers and hosts.

Abilene was the backbone of the American research universities until 2007: eleven nodes, fourteen
links of 10 Gbit/s.  Nodes and links are the real ones; rates are scaled, delays are those of light
in fibre over the distance of the cities, and half as much again for the detours of cables.

Each of six nodes has an access router with a host behind it (network.py).  A Routing chooses the
routes: of the least delay, the same in both directions; or others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlab.model.network import Edge, Network, Trunk
from fairlab.model.qdisc import Qdisc
from fairlab.slbn import mesh, network
from fairlab.slbn.mesh import link_name
from fairlab.slbn.network import access

# Degrees north, degrees east.
NODES: dict[str, mesh.Place] = {
    "sea": (47.6, -122.3),  # Seattle
    "snv": (37.4, -122.0),  # Sunnyvale
    "lax": (34.1, -118.2),  # Los Angeles
    "den": (39.7, -105.0),  # Denver
    "hou": (29.8, -95.4),  # Houston
    "ksc": (39.1, -94.6),  # Kansas City
    "ipl": (39.8, -86.2),  # Indianapolis
    "atl": (33.7, -84.4),  # Atlanta
    "chi": (41.9, -87.6),  # Chicago
    "wdc": (38.9, -77.0),  # Washington
    "nyc": (40.7, -74.0),  # New York
}
LINKS = (
    ("sea", "snv"), ("sea", "den"), ("snv", "lax"), ("snv", "den"), ("lax", "hou"),
    ("den", "ksc"), ("ksc", "hou"), ("ksc", "ipl"), ("hou", "atl"), ("ipl", "chi"),
    ("ipl", "atl"), ("chi", "nyc"), ("atl", "wdc"), ("wdc", "nyc"),
)  # fmt: skip
ACCESS = ("sea", "lax", "hou", "chi", "atl", "nyc")
# The outer links, clockwise: a ring of all nodes.
RING = ("sea", "den", "ksc", "ipl", "chi", "nyc", "wdc", "atl", "hou", "lax", "snv")

# What an SLBN link does not plan with, in per mille of its rate: the rest is for control packets,
# and for newcomers.
HEADROOM = 50
#: Links from this rate on need less than 1 % for control packets [bit/s].
FAST = 20_000_000
#: An option of SLBN links: they drop no control packets above a limit.
UNLIMITED_CONTROL = "control 100%"
#: Options of links in the paper's form; it never recovers from a control packet that is lost.
PAPER = f"commit off headroom 0 epoch 0 memory 0 {UNLIMITED_CONTROL}"
# Asymmetric routes: the metric of the ring's links counterclockwise, as a multiple of the other.
COUNTERCLOCKWISE = 10
# ECMP: links between two nodes.
PARALLEL = 2


def backbone(rate: int) -> mesh.Mesh:
    """The nodes and links alone, with RATE [bit/s] on each."""
    return mesh.of_places("abilene", NODES, ((a, b, rate) for a, b in LINKS))


@dataclass(frozen=True)
class Variant:
    """The qdisc of the links, and whether SLBN assigns rates."""

    data: Qdisc
    slbn: bool = False
    #: what SLBN links of FAST or more do not plan with, in per mille of their rate
    headroom: int = HEADROOM

    def headroom_at(self, rate: int) -> int:
        """What a link of RATE [bit/s] does not plan with; of a slow one, control takes more."""
        return self.headroom if rate >= FAST else HEADROOM

    def capacity(self, rate: int) -> int:
        """What a link of RATE [bit/s] assigns in sum."""
        return mesh.planned(rate, self.headroom_at(rate)) if self.slbn else rate


#: With the access routers.
WHOLE = network.with_access(backbone(1), dict.fromkeys(ACCESS, 1))


def ends(name: str) -> tuple[str, str]:
    """The routers at both ends of a wire, the sending one first."""
    a, b = name.split(".")[:2]
    return a, b


@dataclass(frozen=True)
class Routing:
    """How routes are chosen: for each destination, the shortest paths by the links' metrics.

    The metric is the delay.  ASYMMETRIC: counterclockwise, that of the ring's links is ten times as
    much, so the path from a host to another has other links than the path back.  ECMP: the metric
    counts links instead of delays, and nodes are joined by parallel links, so there are equal-cost
    paths, from which routers choose by the addresses of a packet.
    """

    asymmetric: bool = False
    ecmp: bool = False

    def metrics(self) -> dict[str, dict[str, int]]:
        """The metric from each router to its neighbours."""
        found = {
            node: dict.fromkeys(near, 1) if self.ecmp else dict(near)
            for node, near in WHOLE.near.items()
        }
        if self.asymmetric:
            for a, b in zip(RING, (*RING[1:], RING[0]), strict=True):
                found[b][a] *= COUNTERCLOCKWISE
        return found

    def next_hops(self, to: str) -> dict[str, tuple[str, ...]]:
        """From each router, the next hops of the shortest paths TO a router."""
        return mesh.equal_next_hops(self.metrics(), to)

    def wires(self, a: str, b: str) -> list[str]:
        """The parallel wires from a router to its neighbour."""
        more = range(2, PARALLEL + 1) if self.ecmp and {a, b} <= NODES.keys() else ()
        return [link_name(a, b), *(f"{link_name(a, b)}.{n}" for n in more)]

    def path(self, source: str, destination: str) -> list[str]:
        """The wires from one node's host to another's; ValueError if there is a choice."""
        hops = self.next_hops(access(destination))
        found: list[str] = []
        at = access(source)
        while at != access(destination):
            equal = [name for hop in hops[at] for name in self.wires(at, hop)]
            if len(equal) > 1:
                raise ValueError(f"{len(equal)} equal paths from {at} to {destination}")
            found += equal
            at = hops[at][0]
        return found

    def most_hops(self) -> int:
        """The largest number of links from a host to another."""
        metrics = self.metrics()

        def count(at: str, hops: Mapping[str, tuple[str, ...]]) -> int:
            return max((1 + count(hop, hops) for hop in hops.get(at, ())), default=0)

        trees = {node: mesh.equal_next_hops(metrics, access(node)) for node in ACCESS}
        return max(count(access(a), trees[b]) for a in ACCESS for b in ACCESS)


#: The choices of `fairlab backbone --paths`.
ROUTINGS = {
    "symmetric": Routing(),
    "asymmetric": Routing(asymmetric=True),
    "ecmp": Routing(ecmp=True),
    "asymmetric,ecmp": Routing(asymmetric=True, ecmp=True),
}
SYMMETRIC = ROUTINGS["symmetric"]


def round_trip_us(source: str, destination: str) -> int:
    """The round-trip time between the hosts of two nodes, without queues."""
    return WHOLE.round_trip_us(access(source), access(destination))


def build(
    rate: int,
    variant: Variant,
    routing: Routing = SYMMETRIC,
    without: Mapping[str, Qdisc] | None = None,
    words: str = "",
) -> Network:
    """The network with RATE [bit/s] on each wire.

    WITHOUT: nodes whose links have no SLBN in the variant with SLBN, and these links' qdiscs.
    WORDS: options of the links with SLBN; the usual ones without.
    """
    without = without or {}
    words = words or f"headroom {variant.headroom_at(rate) / 10:g}%"

    def trunk(a: str, delay: int, uplink: bool = False) -> Trunk:
        if variant.slbn and a in without:
            return Trunk(rate, delay, without[a])
        data = network.PACING if uplink and variant.slbn else variant.data
        return Trunk(rate, delay, data, rate if variant.slbn else 0, words)

    return network.build(
        (
            (name, trunk(a, WHOLE.near[a][b]), trunk(b, WHOLE.near[a][b]))
            for a, b in LINKS
            for name in routing.wires(a, b)
        ),
        {
            node: (trunk(access(node), 0, uplink=True), trunk(node, 2 * network.ACCESS_DELAY))
            for node in ACCESS
        },
        routing.metrics(),
        (Edge() if variant.slbn else None, None),
        # Routers answer to the addresses of the links before them, which may not be neighbours.
        whole=bool(without) or routing != SYMMETRIC,
    )
