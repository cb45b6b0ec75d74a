# SPDX-License-Identifier: GPL-2.0
"""Builds the network of an experiment: routers, access routers, and hosts behind them.

    host ── access router ══ router ══ … ══ router ══ access router ── host

Each ══ is a rate limit and a delay with a queue (Trunk).  The delay of an access router's link is
only in the direction towards it: packets that slbnd paces wait in fq, and must reach the link when
fq sends them.

Where several hosts send, the host has an address for each of them, beside the one that receives.
"""

from collections.abc import Iterable, Mapping

from fairlab.model.network import End, Link, Network, Queue, Trunk
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.slbn.mesh import Mesh, Metrics, Wire, equal_next_hops, link_name

MTU = 1500
#: One-way delay of an access router's link, as a mean of both directions [µs].
ACCESS_DELAY = 500
#: At the source of a session, fq paces its packets; its limits are what slbnd(8) advises.
PACING_LIMITS = ("limit", "100000", "flow_limit", "10000", "orphan_mask", "65535")
PACING = Qdisc(BOTTLENECK, "fq", PACING_LIMITS)
#: Where the addresses of several senders begin in their /24; there is room for 64, a /26.
FIRST_SENDER = 64


def access(node: str) -> str:
    """The access router of a node."""
    return f"a-{node}"


def host(node: str) -> str:
    """The host behind the access router of a node."""
    return f"h-{node}"


def is_uplink(link: str) -> bool:
    """Is it the link from an access router, which with SLBN paces packets?"""
    return link.startswith(access(""))


def with_access(mesh: Mesh, uplinks: Mapping[str, int]) -> Mesh:
    """The mesh with an access router at each node of UPLINKS, which has the rates of its links.

    The delay of these links is the mean of both directions.
    """
    more = tuple(Wire(access(node), node, rate, ACCESS_DELAY) for node, rate in uplinks.items())
    return Mesh(mesh.name, (*mesh.nodes, *map(access, uplinks)), (*mesh.wires, *more))


def build(
    links: Iterable[tuple[str, Trunk, Trunk]],
    uplinks: Mapping[str, tuple[Trunk, Trunk]],
    metrics: Metrics,
    at_hosts: tuple[Queue | None, Queue | None] = (None, None),
    senders: int = 1,
    mtu: int = MTU,
    whole: bool = False,
) -> Network:
    """The network of LINKS, each with its name, and what it is in both directions.

    UPLINKS are those from and to access routers, AT_HOSTS the queues of their hosts' links.  Routes
    lead to all hosts and access routers, and with WHOLE to all links between other routers, too.
    """
    hosts = tuple(map(host, uplinks))
    made: list[Link] = []
    #: a router's addresses on its links to a neighbour, and the subnets of these
    address: dict[tuple[str, str], list[str]] = {}
    subnets: dict[tuple[str, str], list[str]] = {}
    routes: dict[str, list[tuple[str, ...]]] = {node: [] for node in metrics}

    def connect(name: str, *queues: Queue | None) -> None:
        a, b, *number = name.split(".")
        n = len(made) + 1
        ends = []
        for side, (own, other) in enumerate(((a, b), (b, a)), 1):
            several = senders > 1 and own in hosts
            others = [f"10.{n}.0.{FIRST_SENDER + k}" for k in range(senders)] if several else ()
            address.setdefault((own, other), []).append(f"10.{n}.0.{side}")
            mac = f"02:00:00:00:{n:02x}:{side:02x}"
            device = ".".join((own, other, *number))
            queue = queues[side - 1]
            ends.append(End(own, device, f"10.{n}.0.{side}", mac, queue, tuple(others)))
        made.append(Link(ends[0], ends[1]))
        subnets.setdefault((a, b), []).append(f"10.{n}.0.0/24")

    def route(to: Iterable[str], hops: Mapping[str, tuple[str, ...]]) -> None:
        for at, equal in hops.items():
            via = [one for hop in equal for one in address[hop, at]]
            routes[at] += [(subnet, *via) for subnet in to]

    for name, there, back in links:
        connect(name, there, back)
    between = list(subnets)
    for node, trunks_of in uplinks.items():
        connect(link_name(access(node), node), *trunks_of)
        connect(link_name(access(node), host(node)), *at_hosts)
    for node in uplinks:
        hops = equal_next_hops(metrics, access(node))
        route(subnets[access(node), host(node)], hops)
        del hops[node]
        route(subnets[access(node), node], hops)
    for a, b in between if whole else ():
        hops = equal_next_hops(metrics, a)
        del hops[b]
        route(subnets[a, b], hops)
    found = {node: tuple(every) for node, every in routes.items()}
    found |= {host(node): (("default", *address[access(node), host(node)]),) for node in uplinks}
    return Network(
        hosts=hosts,
        routers=tuple(routes),
        links=tuple(made),
        routes=found,
        paths=(),
        bottleneck=made[0].a,
        mtu=mtu,
    )


def trunks(network: Network) -> list[End]:
    """The ends with a rate limit."""
    return [end for link in network.links for end, _ in link.ends() if isinstance(end.queue, Trunk)]


def end_of(network: Network, node: str) -> End:
    """The interface of a node's host."""
    ((end, _),) = network.ends_of(host(node))
    return end


def address_of(network: Network, node: str) -> str:
    """The address of a node's host."""
    return end_of(network, node).address


def senders_of(network: Network, node: str) -> tuple[str, ...]:
    """The addresses of the hosts that send at a node."""
    end = end_of(network, node)
    return end.others or (end.address,)


def local_hosts(network: Network, node: str) -> str:
    """The addresses of the hosts at a node, as prefixes."""
    end = end_of(network, node)
    return ",".join([f"{end.address}/32", *(f"{first}/26" for first in end.others[:1])])


def agent_at(network: Network, node: str) -> tuple[str, dict[str, str]]:
    """The router of a node's agent, and the agent's options for the hosts there."""
    if host(node) not in network.hosts:
        return node, {}
    own = {"hosts": local_hosts(network, node), "devices": link_name(access(node), node)}
    return access(node), own


def subnet_of(network: Network, node: str) -> str:
    """The prefix of the hosts at a node."""
    return address_of(network, node).rpartition(".")[0] + ".0/24"
