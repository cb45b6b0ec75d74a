# SPDX-License-Identifier: GPL-2.0
"""A chain of routers with slbn on their links, and sessions over them.

    source node 0 ---- node 1 ---- node 2 ---- ... ---- destination
              link 0       link 1       link 2

Each node is a network namespace that forwards IPv4 and IPv6. slbn_peer.c is the sources, with the
source's task of slbn_core.h.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import itertools
import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import Namespace, wait_for_carrier
from tests.kernel.lib.rtnetlink import Rtnetlink
from tests.kernel.lib.slbn_tap import attach, state_in
from tests.kernel.lib.slbn_wire import State

MEGA = 10**6
SIMPLE = re.compile(r"rate (?P<rate>\d+)(?P<mega>mbit)?(?P<headroom> headroom 0)?(?P<edge> edge)?")


@functools.cache
def key_option(key: bytes, number: int | None = None) -> str:
    """Write a key to a file that only root may read; the option that sets it."""
    file, path = tempfile.mkstemp(prefix="slbn-key-")
    os.write(file, f"{'' if number is None else number} {key.hex()}\n".encode())
    os.close(file)
    return f"key file {path}"


@dataclass
class Chain:
    """A chain of routers; link n leads from node n to node n + 1."""

    nodes: list[Namespace]

    def addresses(self, node: Namespace) -> list[str]:
        """The addresses of a node."""
        n = self.nodes.index(node)
        texts = [f"10.0.{n}.1", f"fd00:{n}::1"]
        if n:
            texts += [f"10.0.{n - 1}.2", f"fd00:{n - 1}::2"]
        return [str(ipaddress.ip_address(text)) for text in texts]

    def device(self, link: int) -> str:
        return f"e{link}"

    def tc(self, link: int, arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.nodes[link].sh(f"tc {arguments}", check)

    def attach(self, link: int, options: str) -> None:
        """`tc qdisc replace`, without starting tc for the most frequent options."""
        simple = SIMPLE.fullmatch(options)
        if simple:
            given = {"rate": int(simple["rate"]) * (MEGA if simple["mega"] else 1)}
            given |= {"headroom": 0} if simple["headroom"] else {}
            given |= {"edge": 1} if simple["edge"] else {}
            with self.nodes[link].entered(), contextlib.closing(Rtnetlink()) as netlink:
                attach(netlink, socket.if_nametoindex(self.device(link)), **given)
            return
        self.tc(link, f"qdisc replace dev {self.device(link)} root handle 1: slbn {options}")

    def state(self, link: int) -> State:
        """What `shown` has of the link's state, without starting tc: for what is polled."""
        return state_in(self.nodes[link], self.device(link))

    def shown(self, link: int) -> dict[str, Any]:
        done = self.tc(link, f"-j -s qdisc show dev {self.device(link)}")
        found: dict[str, Any] = next(q for q in json.loads(done.stdout) if q["kind"] == "slbn")
        return found


_chains = itertools.count()


@contextlib.contextmanager
def chain(links: int) -> Iterator[Chain]:
    number = next(_chains)
    nodes = [Namespace(f"c{number}n{n}") for n in range(links + 1)]
    commands: list[str] = []
    inside = {node.name: ["link set lo up"] for node in nodes}
    for n, (a, b) in enumerate(itertools.pairwise(nodes)):
        commands.append(f"link add e{n} netns {a.name} type veth peer name w{n} netns {b.name}")
        for node, device, last in ((a, f"e{n}", 1), (b, f"w{n}", 2)):
            inside[node.name] += [
                f"addr add 10.0.{n}.{last}/24 dev {device}",
                f"addr add fd00:{n}::{last}/64 dev {device} nodad",
                f"link set {device} up",
            ]
    for n, node in enumerate(nodes):
        for m in range(links):
            right = (f"10.0.{n}.2", f"fd00:{n}::2")
            left = (f"10.0.{n - 1}.1", f"fd00:{n - 1}::1")
            if m not in (n, n - 1):
                hop4, hop6 = right if m > n else left
                inside[node.name].append(f"route add 10.0.{m}.0/24 via {hop4}")
                inside[node.name].append(f"route add fd00:{m}::/64 via {hop6}")
    try:
        run_ip([f"netns add {node.name}" for node in nodes])
        for node in nodes:
            with node.entered():
                for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                    (Path("/proc/sys/net") / name).write_text("1")
                # Link-local addresses, from which neighbours are resolved, are valid at once.
                Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0")
        run_ip(commands)
        for node in nodes:
            node.ip(*inside[node.name])
        for n, (a, b) in enumerate(itertools.pairwise(nodes)):
            wait_for_carrier(a, f"e{n}")
            wait_for_carrier(b, f"w{n}")
        yield Chain(nodes)
    finally:
        run_ip([f"netns del {node.name}" for node in nodes])


@contextlib.contextmanager
def sources(
    peer: str, net: Chain, address: str, sessions: list[str], seconds: float
) -> Iterator[subprocess.Popen[str]]:
    """Run sessions from the first router; a session is `destination demand join leave`."""
    command = [peer, "source", address, str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with net.nodes[0].start(command, **pipes) as process:
        assert process.stdin
        process.stdin.write("\n".join(sessions))
        process.stdin.close()
        yield process


def rates(process: subprocess.Popen[str]) -> list[int]:
    """The final assigned rates of the sources, in order; 0 after a Leave."""
    assert process.stdout
    lines = process.stdout.read().splitlines()
    return [0 if "gone" in line else int(line.split()[0]) for line in lines]


@dataclass(frozen=True)
class Session:
    """A session as an agent shows it."""

    rate: int
    cycles: int
    retries: int
    #: busy, idle or gone
    state: str


@dataclass
class Agent:
    """A process of slbn_peer that is source and destination on a node, by commands."""

    process: subprocess.Popen[str]

    def send(self, *lines: str) -> None:
        assert self.process.stdin
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def show(self) -> list[Session]:
        self.send("show")
        assert self.process.stdout
        found = []
        for line in iter(self.process.stdout.readline, ".\n"):
            rate, cycles, retries, state = line.split()
            found.append(Session(int(rate), int(cycles), int(retries), state))
        return found


def has(agent: Agent, *rates: float) -> bool:
    """Whether its sessions have these rates [Mbit/s]."""
    return [session.rate for session in agent.show()] == [int(n * MEGA) for n in rates]


@contextlib.contextmanager
def agents(peer: str, nodes: list[Namespace], key: str = "") -> Iterator[list[Agent]]:
    """An agent on each node."""
    with contextlib.ExitStack() as stack:
        made = []
        for node in nodes:
            command = [peer, "agent", *key.split()]
            process = node.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            # It ends when its input is closed.
            made.append(Agent(stack.enter_context(process)))
        yield made
