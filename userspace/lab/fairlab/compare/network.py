# SPDX-License-Identifier: GPL-2.0
"""The network of a comparison: a mesh of routers with access routers and hosts.

    host ── access router ══ router ══ … ══ router ══ access router ── host

Each ══ is a rate limit and a delay with the stack's queue (Trunk).  The delay of an access router's
link is only in the direction towards it: packets that slbnd paces wait in fq, and must reach the
link when fq sends them.

Where several hosts send, the host has an address for each of them, beside the one that receives.
"""

from fairlab.compare.stacks import STACKS
from fairlab.compare.workloads import ACCESS_DELAY
from fairlab.model.network import Edge, End, Link, Network, Trunk
from fairlab.model.qdisc import Qdisc
from fairlab.slbn.abilene import FQ, access, host
from fairlab.slbn.experiment import MTU
from fairlab.slbn.mesh import Mesh, link_name, next_hops

#: Where the addresses of several senders begin in their /24; there is room for 64, a /26.
FIRST_SENDER = 64


def near(mesh: Mesh, uplinks: dict[str, int]) -> dict[str, dict[str, int]]:
    """Each router's neighbours with their delays [us], access routers included."""
    found = {node: dict(others) for node, others in mesh.near.items()}
    for node in uplinks:
        found[node][access(node)] = ACCESS_DELAY
        found[access(node)] = {node: ACCESS_DELAY}
    return found


def path(mesh: Mesh, uplinks: dict[str, int], source: str, destination: str) -> list[str]:
    """The links from one node's host to another's."""
    hops = next_hops(near(mesh, uplinks), access(destination))
    found, at = [], access(source)
    while at != access(destination):
        found.append(link_name(at, hops[at]))
        at = hops[at]
    return found


def round_trip(mesh: Mesh, uplinks: dict[str, int], source: str, destination: str) -> float:
    """The round-trip time without queues [ms]."""
    delays = near(mesh, uplinks)
    ends = (link.split(".") for link in path(mesh, uplinks, source, destination))
    return 2 * sum(delays[a][b] for a, b in ends) / 1000


def build(
    mesh: Mesh,
    uplinks: dict[str, int],
    stack_name: str,
    buffer: int,
    small: bool,
    rtt: float,
    cc: str,
    senders: int = 1,
) -> Network:
    """The network; RTT is the longest without queues [ms]; with BBR, hosts pace by fq."""
    stack = STACKS[stack_name]
    routes: dict[str, list[tuple[str, ...]]] = {}
    links: list[Link] = []
    #: a router's address on its link to a neighbour, and the subnet of the link
    address: dict[tuple[str, str], str] = {}
    subnet: dict[tuple[str, str], str] = {}
    hosts = tuple(map(host, uplinks))

    def connect(a: str, b: str, queues: tuple[Trunk | Edge | Qdisc | None, ...]) -> None:
        n = len(links) + 1
        made = []
        for side, (own, other) in enumerate(((a, b), (b, a)), 1):
            address[own, other] = f"10.{n}.0.{side}"
            mac = f"02:00:00:00:{n:02x}:{side:02x}"
            name = link_name(own, other)
            more = tuple(f"10.{n}.0.{FIRST_SENDER + k}" for k in range(senders))
            others = more if senders > 1 and own in hosts else ()
            made.append(End(own, name, address[own, other], mac, queues[side - 1], others))
        links.append(Link(made[0], made[1]))
        subnet[a, b] = f"10.{n}.0.0/24"

    def trunk(rate: int, delay: int, uplink: bool = False, first: bool = False) -> Trunk:
        data = stack.qdisc(rate, buffer, small, rtt, cc, first)
        if stack.slbn is None:
            return Trunk(rate, delay, data)
        # At the source of a session, fq paces its packets.
        return Trunk(rate, delay, Qdisc("", "fq", FQ) if uplink else data, rate, stack.slbn)

    for wire in mesh.wires:
        both = trunk(wire.rate, wire.delay, first=wire is mesh.wires[0])
        connect(wire.a, wire.b, (both, both))
    for node, rate in uplinks.items():
        connect(access(node), node, (trunk(rate, 0, uplink=True), trunk(rate, 2 * ACCESS_DELAY)))
        edge = Edge() if stack.slbn is not None else None
        connect(access(node), host(node), (edge, Qdisc("", "fq") if cc == "bbr" else None))

    delays = near(mesh, uplinks)
    for node in uplinks:
        hops = next_hops(delays, access(node))
        for at, hop in hops.items():
            own = routes.setdefault(at, [])
            own.append((subnet[access(node), host(node)], address[hop, at]))
            if at != node:
                own.append((subnet[access(node), node], address[hop, at]))
        routes[host(node)] = [("default", address[access(node), host(node)])]
    return Network(
        hosts=hosts,
        routers=tuple(delays),
        links=tuple(links),
        routes={node: tuple(routes.get(node, ())) for node in (*delays, *hosts)},
        paths=(),
        bottleneck=links[0].a,
        mtu=MTU,
    )
