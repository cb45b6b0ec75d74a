# SPDX-License-Identifier: GPL-2.0
"""Flows join and leave on a backbone: SLBN over FIFOs, fair queueing alone, FIFOs alone.

The network is abilene.py's, with a choice of routes; some nodes may have no SLBN.  Hosts send TCP
with several congestion controls and UDP, each for a part of the time.  With SLBN, an agent (slbnd)
on each access router detects the flows, requests their rates from the links, and paces them; it
lowers TCP's receive windows to what rates need (slbnd --windows on).  Control packets may be
authenticated, with keys that are replaced (keys.py).

Each variant is an experiment (experiment.py), which leaves its raw data in a directory of its name.
backbone_analysis.py makes of that the goodput of each receiver by the second, and the rates that
the agents should have assigned; backbone_report.py makes the result.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairlab.model import headers
from fairlab.model.errors import LabError
from fairlab.model.network import Network
from fairlab.model.plain import Plain
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.net.network import Laboratory
from fairlab.run.progress import Progress
from fairlab.slbn import abilene, experiment, guest
from fairlab.slbn.experiment import (
    FIRST_PORT,
    TCP_PART,
    UDP,
    UDP_PART,
    Experiment,
)
from fairlab.slbn.network import MTU, access, address_of, host

#: Of samples of flows and links [s].
INTERVAL = 0.25
SECOND = round(1 / INTERVAL)
#: The shortest run [s], so that rates settle between two changes.
SHORTEST = 35
#: Seconds between two parts of a flow.
GAP = 1
#: The queue limit of each link in packets, which at high rates is BUFFER seconds of its rate, about
#: the longest path's round-trip time.
LIMIT = ("limit", "64")
BUFFER = 0.072

#: Qdiscs of links without SLBN in the variant with SLBN.
NO_SLBN = ("drr_fq", "pfifo")

#: SLBN needs no fair queues: its links are FIFOs.
VARIANTS = {
    "slbn": abilene.Variant(Qdisc(BOTTLENECK, "pfifo", LIMIT), slbn=True, headroom=10),
    "fq_codel": abilene.Variant(Qdisc(BOTTLENECK, "fq_codel")),
    "drr_fq": abilene.Variant(Qdisc(BOTTLENECK, "drr_fq", LIMIT)),
    "pfifo": abilene.Variant(Qdisc(BOTTLENECK, "pfifo", LIMIT)),
}

# Options of slbnd.  At a few Mbit/s 1 % would be one control packet in a tenth of a second; 10 % is
# one in each round-trip time, as 1 %, the default, is from abilene.FAST on.
CONTROL_SHARE, PAUSE, IDLE = "10%", "2ms", "2s"
FAST_SHARE = "1%"


@dataclass(frozen=True)
class Part:
    """A part of the time (0 to 1) in which a flow sends; UDP sends SHARE of a link's rate."""

    start: float = 0.0
    stop: float = 1.0
    share: float = 0.0


@dataclass(frozen=True)
class Flow:
    """A flow between the hosts of two nodes, and the times at which it sends."""

    source: str
    destination: str
    kind: str  # a congestion control, or UDP
    parts: tuple[Part, ...] = (Part(),)

    @property
    def label(self) -> str:
        return f"{self.source}-{self.destination} {self.kind}"

    @property
    def greedy(self) -> bool:
        """True if it has no demand limit."""
        return self.kind != UDP or min(part.share for part in self.parts) >= 1

    @property
    def payload_part(self) -> float:
        """The payload as a fraction of the frames."""
        return UDP_PART if self.kind == UDP else TCP_PART


FLOWS = (
    Flow("sea", "nyc", "bic", (Part(0, 5 / 7),)),
    Flow("lax", "nyc", "cubic"),
    Flow("hou", "chi", "gaimd"),
    Flow("hou", "atl", UDP, (Part(0, 2 / 7, 0.2), Part(2 / 7, 1, 0.45))),
    Flow("nyc", "lax", "bic"),
    Flow("sea", "atl", "cubic", (Part(1 / 7),)),
    Flow("chi", "nyc", UDP, (Part(3 / 7, 6 / 7, 1.2),)),
    Flow("atl", "nyc", "gaimd", (Part(4 / 7),)),
)


#: The number of the flow of each part, in the order of an experiment's flows.
NUMBERS = tuple(number for number, flow in enumerate(FLOWS) for _ in flow.parts)


@dataclass(frozen=True)
class Plan(Plain):
    """The description of a run."""

    rate: int
    seconds: int
    variants: tuple[str, ...]
    #: one of abilene.ROUTINGS
    paths: str = "symmetric"
    #: seconds between two keys; 0: control packets are not authenticated
    rotate_keys: int = 0
    #: nodes whose links have no SLBN, and these links' qdisc, one of NO_SLBN
    without: tuple[tuple[str, str], ...] = ()

    @property
    def routing(self) -> abilene.Routing:
        return abilene.ROUTINGS[self.paths]

    def network(self, variant: abilene.Variant) -> Network:
        without = {
            node: self._scaled(Qdisc(BOTTLENECK, kind, LIMIT)) for node, kind in self.without
        }
        scaled = replace(variant, data=self._scaled(variant.data))
        return abilene.build(self.rate, scaled, self.routing, without)

    def _scaled(self, qdisc: Qdisc) -> Qdisc:
        """A qdisc with the queue limit for this rate, if it has one."""
        if qdisc.words != LIMIT:
            return qdisc
        packets = round(self.rate * BUFFER / 8 / (MTU + headers.ETHERNET))
        return replace(qdisc, words=("limit", str(max(int(LIMIT[1]), packets))))

    def takes_part(self, wire: str) -> bool:
        """In the variant with SLBN: is it a link with SLBN?"""
        return abilene.ends(wire)[0] not in dict(self.without)

    def is_partial(self, wires: Iterable[str]) -> bool:
        """Is there a link without SLBN among these?"""
        return not all(map(self.takes_part, wires))

    def times(self, part: Part) -> tuple[int, int]:
        """The begin and the end of a part [s]."""
        return round(part.start * self.seconds), round(part.stop * self.seconds)

    def span(self, number: int) -> tuple[float, float]:
        """When a flow begins and ends [s]."""
        parts = FLOWS[number].parts
        return float(self.times(parts[0])[0]), float(self.times(parts[-1])[1])

    def parts(self, number: int) -> list[experiment.Flow]:
        """The parts of flow NUMBER, with one source port; there is a pause before the next one."""
        flow, found = FLOWS[number], []
        for part in flow.parts:
            start, stop = self.times(part)
            stop -= GAP if part != flow.parts[-1] else 0
            udp = flow.kind == UDP
            found.append(
                experiment.Flow(
                    flow.source,
                    flow.destination,
                    float(start),
                    float(stop),
                    udp=round(part.share * self.rate) if udp else 0,
                    cc="" if udp else flow.kind,
                    port=FIRST_PORT + number,
                )
            )
        return found


@dataclass(frozen=True)
class Paths:
    """The links on each flow's path, and on the path back."""

    there: list[list[str]]
    back: list[list[str]]

    def of(self, flow: int, back: bool = False) -> list[str]:
        return (self.back if back else self.there)[flow]

    @property
    def used(self) -> set[str]:
        return {wire for path in (*self.there, *self.back) for wire in path}

    @property
    def longest(self) -> float:
        """The longest round-trip time without queues [s]."""
        pairs = zip(self.there, self.back, strict=True)
        return max(abilene.WHOLE.delay_of((*there, *back)) for there, back in pairs) / 1e6


def both_ways(path: Callable[[str, str], list[str]]) -> Paths:
    """The paths of all flows; PATH is from a node to another."""
    return Paths(
        [path(flow.source, flow.destination) for flow in FLOWS],
        [path(flow.destination, flow.source) for flow in FLOWS],
    )


def read_paths(lab: Laboratory) -> Paths:
    """The paths that packets take, as the kernel of each router reports them."""
    network = lab.network
    address = {node: address_of(network, node) for node in abilene.ACCESS}
    pairs = {(flow.source, flow.destination) for flow in FLOWS}
    pairs |= {(there, back) for back, there in pairs}
    peer = {end.interface: other for link in network.links for end, other in link.ends()}
    chosen: dict[str, dict[tuple[str, str], str]] = {}
    for router in network.routers:
        # With a device of arrival the kernel looks up the route of a forwarded packet.
        arrival = network.ends_of(router)[0][0].interface
        batch = [f"route get {address[b]} from {address[a]} iif {arrival}" for a, b in pairs]
        lines = "\n".join(batch)
        output = lab.shell(router, f"ip -batch - <<'END'\n{lines}\nEND")
        devices = re.findall(r"^(\S+) from (\S+) .*?\bdev (\S+)", output, re.MULTILINE)
        chosen[router] = {(source, to): device for to, source, device in devices}

    def path(a: str, b: str) -> list[str]:
        found: list[str] = []
        at = access(a)
        while at != host(b):
            wire = chosen[at].get((address[a], address[b]))
            if wire is None or wire in found:
                raise LabError(f"no path from {a} to {b}: {', '.join(found)}")
            found.append(wire)
            at = peer[wire].node
        return found[:-1]

    return both_ways(path)


def paths_of(lab: Laboratory, routing: abilene.Routing) -> Paths:
    """The paths of all flows."""
    if routing == abilene.SYMMETRIC:
        return both_ways(routing.path)
    for router in lab.network.routers:
        # Packets may arrive by another device than their source is reached by.  Layer 3 decides
        # between equal-cost paths, as control packets have other ports than their flow's.
        lab.shell(
            router,
            "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done;"
            " echo 0 >/proc/sys/net/ipv4/fib_multipath_hash_policy",
        )
    found = read_paths(lab)
    if not routing.ecmp and found != both_ways(routing.path):
        raise LabError("packets take other paths than the routes say")
    return found


def agent_options(
    rate: int, ports: str, more: dict[str, str], routing: abilene.Routing = abilene.SYMMETRIC
) -> dict[str, dict[str, str]]:
    """Options of each node's agent, for flows with one of these PORTS, and MORE."""
    return {
        node: {
            "ports": ports,
            "initial": f"{rate}bit",
            "control": CONTROL_SHARE,
            "pause": PAUSE,
            "idle": IDLE,
            "hops": str(slots(routing)),
            **more,
        }
        for node in abilene.ACCESS
    }


def slots(routing: abilene.Routing) -> int:
    """The hop slots of a control packet: more than the links on the longest path, and even."""
    return (routing.most_hops() // 2 + 1) * 2


def of_variant(plan: Plan, name: str) -> Experiment:
    """The experiment of a variant."""
    more = {"windows": "on"}
    if plan.rate >= abilene.FAST:
        more["control"] = FAST_SHARE
    slbn = VARIANTS[name].slbn
    ports = f"{FIRST_PORT}-{FIRST_PORT + len(FLOWS) - 1}"
    return Experiment(
        name=name,
        network=plan.network(VARIANTS[name]),
        flows=tuple(part for number in range(len(FLOWS)) for part in plan.parts(number)),
        seconds=plan.seconds,
        looks=tuple(n * INTERVAL for n in range(plan.seconds * SECOND + 1)),
        look=INTERVAL,
        window=16 * plan.rate // 8,
        agents=agent_options(plan.rate, ports, more, plan.routing) if slbn else {},
        watched=slbn,
        rotate_keys=plan.rotate_keys if slbn else 0,
        without=frozenset(dict(plan.without)),
        prepare=lambda lab: {"paths": asdict(paths_of(lab, plan.routing))},
    )


def measure(plan: Plan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data of each variant is left in a directory of its name."""
    for name in plan.variants:
        (directory / name).mkdir()
        guest.measure(of_variant(plan, name), directory / name, progress)
