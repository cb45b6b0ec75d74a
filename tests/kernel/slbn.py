# SPDX-License-Identifier: GPL-2.0
"""Routers in a row with slbn on their links, and sessions that cross them.

    source node 0 ---- node 1 ---- node 2 ---- ... ---- destination
              link 0       link 1       link 2

Each node is a network namespace that forwards, IPv4 and IPv6. The sessions' packets are made by
slbn_peer.c, on the core's own source task.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from net import Namespace, namespace, sh

TOP = Path(__file__).resolve().parents[2]
MEGA = 10**6


def build_peer(directory: Path) -> str:
    """Compile slbn_peer."""
    program = directory / "slbn_peer"
    source = TOP / "tests/kernel/slbn_peer.c"
    sh(f"cd {TOP} && gcc -O1 -Wall -Wextra -Werror -Iinclude -I. {source} -o {program}")
    return str(program)


@dataclass
class Chain:
    """Routers in a row; link n leads from node n to node n + 1."""

    nodes: list[Namespace]

    def device(self, link: int) -> str:
        return f"e{link}"

    def tc(self, link: int, words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return sh(f"tc -n {self.nodes[link].name} {words}", check)

    def attach(self, link: int, words: str) -> None:
        self.tc(link, f"qdisc replace dev {self.device(link)} root handle 1: slbn {words}")

    def shown(self, link: int) -> dict[str, Any]:
        done = self.tc(link, f"-j -s qdisc show dev {self.device(link)}")
        found: dict[str, Any] = next(q for q in json.loads(done.stdout) if q["kind"] == "slbn")
        return found


@contextlib.contextmanager
def chain(links: int) -> Iterator[Chain]:
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(namespace()) for _ in range(links + 1)]
        for n, (a, b) in enumerate(itertools.pairwise(nodes)):
            sh(
                f"""set -e
                ip link add e{n} netns {a.name} type veth peer name w{n} netns {b.name}
                ip -n {a.name} addr add 10.0.{n}.1/24 dev e{n}
                ip -n {b.name} addr add 10.0.{n}.2/24 dev w{n}
                ip -n {a.name} addr add fd00:{n}::1/64 dev e{n} nodad
                ip -n {b.name} addr add fd00:{n}::2/64 dev w{n} nodad
                ip -n {a.name} link set e{n} up
                ip -n {b.name} link set w{n} up"""
            )
        for n, node in enumerate(nodes):
            node.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
            for m in range(links):
                hop4, hop6 = (
                    (f"10.0.{n}.2", f"fd00:{n}::2")
                    if m > n
                    else (f"10.0.{n - 1}.1", f"fd00:{n - 1}::1")
                )
                if m not in (n, n - 1):
                    sh(f"ip -n {node.name} route add 10.0.{m}.0/24 via {hop4}")
                    sh(f"ip -n {node.name} route add fd00:{m}::/64 via {hop6}")
        yield Chain(nodes)


@contextlib.contextmanager
def sources(
    peer: str, net: Chain, address: str, sessions: list[str], seconds: float
) -> Iterator[subprocess.Popen[str]]:
    """Sessions from the first router: each `destination demand join leave`."""
    command = ["ip", "netns", "exec", net.nodes[0].name, peer, "source", address, str(seconds)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        process.stdin.write("\n".join(sessions))
        process.stdin.close()
        yield process


def rates(process: subprocess.Popen[str]) -> list[int]:
    """What the sources have in the end, in their order; 0: it has left."""
    assert process.stdout
    lines = process.stdout.read().splitlines()
    return [0 if "gone" in line else int(line.split()[0]) for line in lines]
