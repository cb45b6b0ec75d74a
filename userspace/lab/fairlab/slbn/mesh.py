# SPDX-License-Identifier: GPL-2.0
"""Backbones as plain data: routers, links between them, and shortest paths.

A Wire has a rate and a delay, and two directions.  A session runs from one router to a host behind
another, on the path of the least delay.  Both ways must be known in advance, so a mesh with two
equally short paths is refused.

Delays of real networks are those of light in fibre over the great-circle distance of the cities,
and half as much again for the detours of cables.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

EARTH_RADIUS_KM = 6371
US_PER_KM = 5 * 1.5

# Degrees north, degrees east.
Place = tuple[float, float]


def distance_km(a: Place, b: Place) -> float:
    """The great-circle distance, in km."""
    (lat1, long1), (lat2, long2) = (tuple(map(math.radians, place)) for place in (a, b))
    cosine = math.sin(lat1) * math.sin(lat2)
    cosine += math.cos(lat1) * math.cos(lat2) * math.cos(long1 - long2)
    return EARTH_RADIUS_KM * math.acos(min(1.0, cosine))


def delay_us(a: Place, b: Place) -> int:
    """The one-way delay between two places, in µs."""
    return round(distance_km(a, b) * US_PER_KM)


Metrics = Mapping[str, Mapping[str, int]]


def equal_next_hops(metrics: Metrics, to: str) -> dict[str, tuple[str, ...]]:
    """From each router, the next hops of all shortest paths TO a router.

    METRICS has the metric from each router to its neighbours, above 0, which may differ by
    direction.  The distance to TO decreases with each hop, so no packet comes back to a router.
    """
    far: dict[str, int] = {}
    queue = [(0, to)]
    while queue:
        distance, node = heapq.heappop(queue)
        if node in far:
            continue
        far[node] = distance
        for other in metrics[node]:
            heapq.heappush(queue, (distance + metrics[other][node], other))
    return {
        node: tuple(hop for hop, metric in near.items() if far[node] == metric + far[hop])
        for node, near in metrics.items()
        if node != to
    }


def link_name(a: str, b: str) -> str:
    """The name of one direction of a wire: its device."""
    return f"{a}.{b}"


def planned(rate: int, headroom: int) -> int:
    """What an SLBN link of RATE [bit/s] assigns in sum, with HEADROOM in per mille."""
    return rate - rate * headroom // 1000


@dataclass(frozen=True)
class Wire:
    """A link between two routers: rate [bit/s] and one-way delay [µs]."""

    a: str
    b: str
    rate: int
    delay: int


@dataclass(frozen=True)
class Mesh:
    """Routers and wires."""

    name: str
    nodes: tuple[str, ...]
    wires: tuple[Wire, ...]

    @cached_property
    def near(self) -> dict[str, dict[str, int]]:
        """Each router's neighbours, with their delays [µs]."""
        found: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        for wire in self.wires:
            found[wire.a][wire.b] = found[wire.b][wire.a] = wire.delay
        return found

    @cached_property
    def hops(self) -> dict[str, dict[str, str]]:
        """To each router: the next hop from each other.

        Raise ValueError if two paths are equally short.
        """
        found: dict[str, dict[str, str]] = {node: {} for node in self.nodes}
        for to, hops in found.items():
            for node, (hop, *others) in equal_next_hops(self.near, to).items():
                if others:
                    raise ValueError(f"two paths from {node} to {to} are equally short")
                hops[node] = hop
        return found

    @cached_property
    def rates(self) -> dict[str, int]:
        """The rate of each direction of each wire [bit/s]."""
        found = {}
        for wire in self.wires:
            found[link_name(wire.a, wire.b)] = found[link_name(wire.b, wire.a)] = wire.rate
        return found

    def path(self, source: str, destination: str) -> list[str]:
        """The links from one router to another, in their order."""
        found = []
        at = source
        while at != destination:
            hop = self.hops[destination][at]
            found.append(link_name(at, hop))
            at = hop
        return found

    def delay_of(self, links: Iterable[str]) -> int:
        """The delay of a path [µs]."""
        return sum(self.near[a][b] for a, b, *_ in (link.split(".") for link in links))

    def round_trip_us(self, source: str, destination: str) -> int:
        """The round-trip time without queues."""
        return 2 * self.delay_of(self.path(source, destination))


def of_places(
    name: str, places: Mapping[str, Place], links: Iterable[tuple[str, str, int]]
) -> Mesh:
    """A mesh of geographic places: LINKS have two ends and a rate [bit/s]."""
    wires = [Wire(a, b, rate, delay_us(places[a], places[b])) for a, b, rate in links]
    return Mesh(name, tuple(places), tuple(wires))
