# SPDX-License-Identifier: GPL-2.0
"""Hosts with a congestion control, and routers, for Mininet scripts.

A Router is added as a switch, since Mininet starts these when all links are there.  The first one
that starts gives each subnet (the interfaces between which there is no router) addresses
10.X.Y.N/24, also to hosts, whatever their `ip` was, and each node the routes of fewest hops to all
others.  Neighbour entries are permanent: ARP requests would wait in queues, or be lost there.

A SlbnRouter makes its FairLinks with a rate links of SLBN, and edges those to hosts.  If it has
hosts, slbnd detects their flows and paces them at their assigned rates: with fq, in the data class
of slbn, which therefore is the default qdisc there.
"""

import shutil
import subprocess
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from mininet.node import Host, Node, Switch

from fairlab.mininet.links import FairIntf, run_batch
from fairlab.model.errors import LabError
from fairlab.net import congestion, host

#: What every agent gets: no configuration file of the machine.
AGENT_OPTIONS = {"config": "/dev/null"}
PATIENCE = 10.0


class FairHost(Host):  # type: ignore[misc]
    """A host with a congestion control (`cc="bic"`) and buffers that do not limit windows."""

    def config(self, cc: str | None = None, **params: Any) -> Any:
        """Set up the host."""
        result = super().config(**params)
        settings = {"tcp_rmem": "4096 131072 67108864", "tcp_wmem": "4096 131072 33554432"}
        settings |= {"tcp_no_metrics_save": "1"}
        if cc:
            # Its preset after a colon, as in `fairlab run --flows`.
            name, _, preset = cc.partition(":")
            congestion.load(name)
            if name not in congestion.registered():
                known = ", ".join(sorted({*congestion.registered(), *congestion.loadable()}))
                raise LabError(f"{self.name}: no congestion control '{name}'; there are: {known}")
            if preset:
                settings[f"{name}_preset"] = preset
            settings["tcp_congestion_control"] = name
        for setting, value in settings.items():
            self.pexec("sysctl", "-qw", f"net.ipv4.{setting}={value}")
        return result


class Router(Switch):  # type: ignore[misc]
    """A router, which is started as a switch."""

    def __init__(self, name: str, **params: Any) -> None:
        params["inNamespace"] = True
        super().__init__(name, **params)
        self.configured = False

    def start(self, _controllers: Any) -> None:
        """Forward packets; address and route the network, unless another router did."""
        self.pexec("ip", "link", "set", "lo", "up")
        self.pexec("sysctl", "-qw", "net.ipv4.ip_forward=1")
        if not self.configured:
            configure(self)

    def connected(self) -> bool:
        """There is no controller to wait for."""
        return True


class SlbnRouter(Router):
    """A router of an SLBN domain.  AGENT are options of its slbnd, such as initial="10mbit"."""

    def __init__(self, name: str, agent: dict[str, str] | None = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.options = agent or {}
        self.agent: subprocess.Popen[bytes] | None = None
        self.scratch = Path()

    def start(self, controllers: Any) -> None:
        """Set up links, then the agent."""
        super().start(controllers)
        links: list[FairIntf] = []
        edges: list[FairIntf] = []
        for intf, _, node in ends(self):
            if isinstance(intf, FairIntf) and intf.rate:
                to_router = isinstance(node, SlbnRouter)
                intf.add_slbn("" if to_router else "edge")
                (links if to_router else edges).append(intf)
        if edges and links:
            self._start_agent(edges, links)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the agent, too."""
        if self.agent:
            host.end([self.agent])
            shutil.rmtree(self.scratch)
        super().stop(deleteIntfs)

    @property
    def socket(self) -> Path:
        """The agent's control socket, for slbnctl and libslbn."""
        return self.scratch / "socket"

    def _start_agent(self, edges: list[Any], links: list[Any]) -> None:
        """Start slbnd, and wait until it listens."""
        top = host.tree()
        if top is None:
            raise LabError("slbnd is part of the project's tree: run its scripts/fairlab")
        self.scratch = Path(tempfile.mkdtemp(prefix="fairlab-"))
        options = AGENT_OPTIONS | {
            "socket": str(self.socket),
            "hosts": ",".join(f"{intf.IP().rpartition('.')[0]}.0/24" for intf in edges),
            "devices": ",".join(intf.name for intf in links),
            **self.options,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        log = self.scratch / "log"
        with log.open("wb") as output:
            agent = self.agent = self.popen(
                [str(top / "build/slbnd/slbnd"), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=host.die_with_parent,
            )
        deadline = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if agent.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"slbnd at {self.name}: {log.read_text().strip()}")
            time.sleep(0.01)


def ends(node: Node) -> list[tuple[Any, Any, Any]]:
    """The interfaces of NODE, each with the opposite interface and node."""
    found = []
    for intf in node.intfList():
        if intf.link:
            peer = intf.link.intf2 if intf.link.intf1 is intf else intf.link.intf1
            found.append((intf, peer, peer.node))
    return found


def is_bridge(node: Node) -> bool:
    """Does NODE forward frames, so that its links are in one subnet?"""
    return isinstance(node, Switch) and not isinstance(node, Router)


def subnets(start: Node) -> list[list[Any]]:
    """The interfaces of nodes with addresses, by subnet, in the network around START."""
    found: list[list[Any]] = []
    nodes, waiting = {start}, deque([start])
    seen: set[Any] = set()
    while waiting:
        node = waiting.popleft()
        for intf, _, _ in ends(node):
            if intf in seen:
                continue
            members, across = [], deque([intf])
            while across:
                one = across.popleft()
                if one in seen:
                    continue
                seen.add(one)
                if is_bridge(one.node):
                    across += [other for other, _, _ in ends(one.node)]
                else:
                    members.append(one)
                across += [peer for other, peer, _ in ends(one.node) if other is one]
            found.append(members)
            for member in members:
                if member.node not in nodes:
                    nodes.add(member.node)
                    waiting.append(member.node)
    return found


def configure(start: Router) -> None:
    """Give addresses and routes to all nodes around START."""
    networks = subnets(start)
    for number, members in enumerate(networks, 1):
        for n, intf in enumerate(members, 1):
            intf.node.pexec("ip", "address", "flush", "dev", intf.name)
            intf.setIP(f"10.{number >> 8}.{number & 255}.{n}/24")
            intf.updateMAC()
    nodes = {intf.node for members in networks for intf in members}
    batches: dict[Any, list[str]] = {node: [] for node in nodes}
    for members in networks:
        for intf in members:
            batches[intf.node] += [
                f"neighbour replace {other.IP()} lladdr {other.MAC()} dev {intf.name} nud permanent"
                for other in members
                if other is not intf
            ]
    for number, members in enumerate(networks, 1):
        for node, (intf, via) in routes_to(members, networks).items():
            prefix = f"10.{number >> 8}.{number & 255}.0/24"
            batches[node].append(f"route replace {prefix} via {via.IP()} dev {intf.name}")
    for node, batch in batches.items():
        run_batch(node, "ip", batch)
        if isinstance(node, Router):
            node.configured = True


def routes_to(members: list[Any], networks: list[list[Any]]) -> dict[Any, tuple[Any, Any]]:
    """The next hop to a subnet's MEMBERS from each other node: its own interface and the next."""
    # A node reached from inside, whose neighbours are one hop further.
    reached = {intf.node for intf in members}
    waiting = deque(sorted(reached, key=lambda node: node.name))
    found: dict[Any, tuple[Any, Any]] = {}
    while waiting:
        node = waiting.popleft()
        if not isinstance(node, Router):
            continue
        own = [(via, network) for network in networks for via in network if via.node is node]
        for via, network in own:
            for intf in network:
                if intf.node not in reached:
                    reached.add(intf.node)
                    found[intf.node] = (intf, via)
                    waiting.append(intf.node)
    return found
