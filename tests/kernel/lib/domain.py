# SPDX-License-Identifier: GPL-2.0
"""A domain: routers with slbn on their links, slbnd on some of them, and wires with impairments.

A link `x-y` is a device from router x to router y. Its packets cross the namespace "wires", where
the device of that name can have a netem qdisc: impairments happen behind one router's qdisc and
before the next one's ingress hook, as on a real wire. Nodes have an IPv4 and an IPv6 address, and
use shortest paths. Links to hosts are edge links; hosts run neither slbn nor slbnd.

Assigned rates are compared with the max-min reference (fair.py). Recovery is measured in epochs,
counted by the ledger tags of the links, and thus does not depend on the clock.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.kernel.lib.fair import max_min, remainders
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import Namespace, wait_for, wait_for_carrier
from tests.kernel.lib.rtnetlink import RTM_DELQDISC, TC_H_ROOT, Rtnetlink
from tests.kernel.lib.slbn_tap import attach, state_of
from tests.kernel.lib.slbn_wire import State
from tests.kernel.lib.slbnd import Agent, libslbn

#: Options of agents: longer pauses than by default, for slow machines.
AGENTS = ("--pause", "20ms", "--control", "0.5%")


def link_local(plan: Plan, node: str) -> str:
    return f"fe80::{plan.nodes.index(node) + 1:x}"


def devices(path: Sequence[str]) -> list[str]:
    """The links on a path of nodes."""
    return [f"{a}-{b}" for a, b in itertools.pairwise(path)]


@dataclass(frozen=True)
class Plan:
    """A topology: capacities of links [bit/s], agents, hosts, and lengths of links."""

    links: Mapping[str, int]
    agents: Sequence[str]
    hosts: Sequence[str] = ()
    lengths: Mapping[str, int] = field(default_factory=dict)
    #: By link.
    keys: Mapping[str, bytes] = field(default_factory=dict)
    #: By agent.
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return sorted({node for link in self.links for node in link.split("-")})

    def address(self, node: str, six: bool) -> str:
        number = self.nodes.index(node) + 1
        return f"fd01::{number:x}" if six else f"10.1.{number}.1"

    def edge(self, link: str) -> bool:
        return link.split("-")[1] in self.hosts

    def paths(self, source: str, down: frozenset[str] = frozenset()) -> dict[str, list[str]]:
        """Shortest paths from a node to all others, without the links that are down."""
        paths: dict[str, list[str]] = {}
        waiting = [(0, [source])]
        while waiting:
            length, path = heapq.heappop(waiting)
            if path[-1] in paths:
                continue
            paths[path[-1]] = path
            for link in self.links.keys() - down:
                here, there = link.split("-")
                if here == path[-1]:
                    heapq.heappush(waiting, (length + self.length(link), [*path, there]))
        return paths

    def length(self, link: str) -> int:
        back = "-".join(reversed(link.split("-")))
        return self.lengths.get(link, self.lengths.get(back, 1))


@dataclass(eq=False)
class Session:
    """A session from a node with an agent; demand in bit/s, 0: unlimited."""

    source: str
    destination: str
    demand: int = 0
    six: bool = False
    path: list[str] = field(default_factory=list)
    number: int = -1


@dataclass
class Domain:
    """A running domain."""

    plan: Plan
    nodes: dict[str, Namespace]
    directory: Path
    #: Current capacities of its links [bit/s].
    capacities: dict[str, int]
    #: By link: a socket in its namespace, and its device's index.
    places: dict[str, tuple[Rtnetlink, int]]
    agents: dict[str, Agent] = field(default_factory=dict)
    clients: dict[str, libslbn.Connection] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    down: frozenset[str] = frozenset()
    #: By node: route to each address.
    routes: dict[str, dict[str, str]] = field(default_factory=dict)

    # --- links

    @property
    def wires(self) -> Namespace:
        return self.nodes["wires"]

    def attach(self, *links: str, **given: Any) -> None:
        """Attach slbn to devices, or change its options."""
        for link in links:
            attach(*self.places[link], **given)

    def attach_initial(self, link: str) -> None:
        """Attach slbn with the options of the plan."""
        rate, edge = self.capacities[link], int(self.plan.edge(link))
        given: dict[str, Any] = {"rate": rate, "headroom": 0, "edge": edge}
        if link in self.plan.keys:
            given["key"] = self.plan.keys[link]
        self.attach(link, **given)

    def detach(self, link: str) -> None:
        netlink, index = self.places[link]
        netlink.change_qdisc(index, 0, TC_H_ROOT, b"", kind=RTM_DELQDISC)

    def set_capacities(self, rates: Mapping[str, int]) -> None:
        """Change the capacities of links [bit/s]."""
        for link, rate in rates.items():
            self.capacities[link] = rate
            self.attach(link, rate=rate)

    def state(self, link: str) -> State:
        return state_of(*self.places[link])

    def states(self) -> dict[str, State]:
        return {link: self.state(link) for link in self.places if link in self.capacities}

    @contextlib.contextmanager
    def impaired(self, netem: str, *links: str) -> Iterator[None]:
        """With netem on these wires, or on all."""
        chosen = links or tuple(self.plan.links)
        self.wires.tc(*(f"qdisc replace dev {link} root netem {netem}" for link in chosen))
        try:
            yield
        finally:
            self.wires.tc(*(f"qdisc del dev {link} root" for link in chosen))

    # --- paths

    def route(self) -> None:
        """Update all routes to the shortest paths that are up."""
        for source in self.plan.nodes:
            if source in self.plan.hosts:
                continue
            routes = {
                there: route
                for destination, path in self.plan.paths(source, self.down).items()
                for six in (False, True)
                if destination != source
                for there, route in [self.toward(source, destination, path[1], six)]
            }
            known = self.routes.get(source, {})
            new = [f"{there} {way}" for there, way in routes.items() if known.get(there) != way]
            if new:
                self.nodes[source].ip(*(f"route replace {each}" for each in new))
            self.routes[source] = routes
        for session in self.sessions:
            session.path = self.path(session.source, session.destination)

    def toward(self, here: str, there: str, following: str, six: bool) -> tuple[str, str]:
        """A destination address, and its route by the next hop `following`."""
        hop = link_local(self.plan, following) if six else self.plan.address(following, six)
        way = f"via {hop} dev {following} onlink src {self.plan.address(here, six)}"
        return self.plan.address(there, six), way

    def path(self, source: str, destination: str) -> list[str]:
        return devices(self.plan.paths(source, self.down)[destination])

    @contextlib.contextmanager
    def broken(self, *links: str) -> Iterator[None]:
        """With these links down, and packets rerouted if possible."""
        pairs = {frozenset(link.split("-")) for link in links}
        ends = [tuple(pair)[::order] for pair in pairs for order in (1, -1)]

        def put(state: str) -> None:
            for here, there in ends:
                self.nodes[here].ip(f"link set dev {there} {state}")

        put("down")
        self.down = frozenset("-".join(end) for end in ends)
        self.route()
        try:
            yield
        finally:
            put("up")
            for here, there in ends:
                # Devices lose it while they are down.
                own = f"{link_local(self.plan, here)}/64"
                self.nodes[here].ip(f"addr replace {own} dev {there} nodad")
            self.down = frozenset()
            self.route()

    # --- sessions

    def join(self, *sessions: Session) -> None:
        for each in sessions:
            each.path = self.path(each.source, each.destination)
            there = self.plan.address(each.destination, each.six)
            each.number = self.clients[each.source].join(there, each.demand or libslbn.UNLIMITED)
        self.sessions += sessions

    def leave(self, *sessions: Session) -> None:
        for each in sessions:
            self.clients[each.source].leave(each.number)
        ended = set(sessions)
        self.sessions = [each for each in self.sessions if each not in ended]

    def reported(self) -> dict[Session, libslbn.Session]:
        """The state of all sessions, as their agents report it."""
        listed = {
            (node, state.id): state
            for node, client in self.clients.items()
            for state in client.list()
        }
        return {each: listed[each.source, each.number] for each in self.sessions}

    def reference(self) -> dict[Session, Fraction]:
        return max_min(self.capacities, self.sessions)

    def errors(self, reference: Mapping[Session, Fraction]) -> dict[Session, Fraction]:
        """Errors of assigned rates above rounding [bit/s]."""
        bounds = remainders(reference)
        errors = {
            each: abs(state.rate - reference[each]) for each, state in self.reported().items()
        }
        return {each: by for each, by in errors.items() if by > bounds[each]}

    def crossing(self, link: str) -> int:
        return sum(link in each.path for each in self.sessions)

    # --- agents

    def start(self, node: str) -> None:
        options = self.plan.options.get(node, ())
        made = Agent(self.nodes[node], self.directory, *AGENTS, *options)
        self.agents[node] = made
        self.clients[node] = made.connect()

    def kill(self, node: str) -> list[Session]:
        """Kill an agent without Leaves; returns its sessions, which have ended."""
        assert self.agents.pop(node).end(signal.SIGKILL) == -signal.SIGKILL
        self.clients.pop(node).close()
        ended = [each for each in self.sessions if each.source == node]
        self.sessions = [each for each in self.sessions if each.source != node]
        return ended

    # --- convergence

    def settle(self, since: Mapping[str, State] | None = None) -> int:
        """Wait until all assigned rates equal the max-min reference; check that they stay equal.

        Errors in a link's ledgers disappear within two epochs: after that the link may not count
        sessions that do not cross it. Returns the largest number of epochs of a link since then.
        """
        since = since or self.states()
        reference = self.reference()
        counted = {link: self.crossing(link) for link in since}
        errors: dict[Session, Fraction] = {}
        epochs = 0

        def is_settled() -> bool:
            nonlocal epochs, errors
            began = time.monotonic()
            states = {link: self.state(link) for link in since}
            for link, state in states.items():
                ended = epochs_between(since[link], state)
                epochs = max(epochs, ended)
                count = state.N + state.previous_N
                assert ended < 2 or count <= counted[link], (link, ended, count, counted[link])
            errors = self.errors(reference)
            # Leave half of the CPU time to the agents.
            time.sleep(time.monotonic() - began)
            return not errors and all(
                state.N + state.previous_N == counted[link] for link, state in states.items()
            )

        try:
            wait_for(is_settled)
        except AssertionError as error:
            raise AssertionError(f"{error}; {epochs} epochs; errors: {errors}") from None
        needed = epochs
        then = self.reported()
        wait_for(
            lambda: all(
                state.cycles > then[each].cycles + 5 for each, state in self.reported().items()
            )
        )
        assert is_settled(), errors
        return needed

    def deviation(self, epochs: int) -> float:
        """Largest relative error of an assigned rate during some epochs."""
        reference = self.reference()
        since = self.states()
        worst = Fraction(0)

        def over() -> bool:
            nonlocal worst
            errors = self.errors(reference)
            worst = max([worst, *(by / reference[each] for each, by in errors.items())])
            return any(epochs_between(since[link], self.state(link)) >= epochs for link in since)

        wait_for(over)
        return float(worst)


def epochs_between(before: State, now: State) -> int:
    """Epochs that have ended, by the ledger tags of a link."""
    return (now.tag - before.tag) % 0xFFFF


_domains = itertools.count()


@contextlib.contextmanager
def domain(
    plan: Plan, directory: Path, prepare: Callable[[Domain], None] = lambda _: None
) -> Iterator[Domain]:
    """A running domain; `prepare` runs before the agents start."""
    number = next(_domains)
    names = {name: Namespace(f"d{number}{name}") for name in [*plan.nodes, "wires"]}
    wires = names["wires"].name
    commands = [f"netns add {each.name}" for each in names.values()]
    inside: dict[str, list[str]] = {name: ["link set lo up"] for name in names}
    redirections = []
    for link in plan.links:
        here, there = link.split("-")
        back = f"{there}-{here}"
        # Packets from x to y enter "wires" by the device y-x, the peer of x's device.
        where = f"netns {names[here].name} type veth peer name {back} netns {wires}"
        commands.append(f"link add name {there} {where}")
        own = f"{link_local(plan, here)}/64"
        inside[here] += [f"addr add {own} dev {there} nodad", f"link set dev {there} up"]
        inside["wires"] += [f"link set dev {back} up"]
        redirections += [
            f"qdisc add dev {back} clsact",
            f"filter add dev {back} ingress matchall action mirred egress redirect dev {link}",
        ]
    for name in plan.nodes:
        inside[name] += [f"addr add {plan.address(name, False)}/32 dev lo"]
        inside[name] += [f"addr add {plan.address(name, True)}/128 dev lo nodad"]
    with contextlib.ExitStack() as stack:
        stack.callback(run_ip, [f"netns del {each.name}" for each in names.values()])
        run_ip(commands)
        for name, commands_inside in inside.items():
            with names[name].entered():
                Path("/proc/sys/net/ipv6/conf/default/dad_transmits").write_text("0")
                if name == "wires":
                    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
                else:
                    for file in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                        (Path("/proc/sys/net") / file).write_text("1")
            names[name].ip(*commands_inside)
        names["wires"].tc(*redirections)
        for link in plan.links:
            here, there = link.split("-")
            wait_for_carrier(names[here], there)
            wait_for_carrier(names["wires"], f"{there}-{here}")
        places = {}
        for node in plan.nodes:
            with names[node].entered():
                netlink = stack.enter_context(contextlib.closing(Rtnetlink()))
                for link in plan.links:
                    if link.startswith(f"{node}-"):
                        there = link.split("-")[1]
                        places[link] = (netlink, socket.if_nametoindex(there))
        managed = {
            link: rate for link, rate in plan.links.items() if link.split("-")[0] not in plan.hosts
        }
        made = Domain(plan, names, directory, managed, places)
        made.route()
        for link in managed:
            made.attach_initial(link)
        for host in plan.hosts:
            (link,) = (link for link in plan.links if link.startswith(f"{host}-"))
            ways = [made.toward(host, host, link.split("-")[1], six)[1] for six in (False, True)]
            names[host].ip(*(f"route add default {way}" for way in ways))
        prepare(made)
        try:
            for node in plan.agents:
                made.start(node)
            yield made
        finally:
            for node in list(made.agents):
                made.kill(node)
