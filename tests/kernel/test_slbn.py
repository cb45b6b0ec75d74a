# SPDX-License-Identifier: GPL-2.0
"""SLBN on real routers: sessions get the max-min rates, and the links show them.

    source r1 ---- r2 ---- r3 ---- d destination

Each router is a network namespace that forwards, with slbn on the device that leads on.  The
sessions' packets are made by slbn_peer.c, on the core's own source task; at the edge, r3 answers
for d, where nothing listens.
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

import pytest
from net import Namespace, namespace, sh, wait_for

TOP = Path(__file__).resolve().parents[2]
MEGA = 10**6


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("slbn") / "slbn_peer"
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


@pytest.mark.parametrize(
    ("source", "destination"), [("10.0.0.1", "10.0.2.2"), ("fd00:0::1", "fd00:2::2")]
)
def test_sessions_get_max_min_rates(peer: str, source: str, destination: str) -> None:
    with chain(3) as net:
        net.attach(0, "rate 100mbit")
        net.attach(1, "rate 50mbit")
        net.attach(2, "rate 80mbit edge")
        sessions = [f"{destination} {demand} 0.1 0" for demand in (0, 0, 0, 5 * MEGA)]
        sessions.append(f"{destination} 0 0.2 1.5")

        def settled() -> bool:
            shown = net.shown(1)
            restricted = shown["NR"] + shown["before_NR"]
            elsewhere = shown["BF"] + shown["before_BF"]
            gone = shown["leaves"] == 1 and shown["sessions"] == 4
            return gone and (restricted, elsewhere, shown["share"]) == (3, 5 * MEGA, 15 * MEGA)

        with sources(peer, net, source, sessions, 8) as process:
            wait_for(settled)
            assert rates(process) == [15 * MEGA] * 3 + [5 * MEGA, 0]
        shown = net.shown(1)
        assert (shown["joins"], shown["leaves"]) == (5, 1)
        assert shown["clamped"] == shown["foreign"] == shown["malformed"] == 0
        assert net.shown(2)["answered"] >= 10
        # The sources are gone without a word: two epochs later nobody counts them.
        wait_for(lambda: net.shown(1)["sessions"] == 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("rate 10", "rate"),
        ("epoch 1ms", "epoch"),
        ("memory 70s", "memory"),
        ("control 0.01%", "control"),
        ("key abc", "key"),
        ("edge no-edge", "contradicts"),
        ("nonsense", "What is"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(words: str, says: str) -> None:
    with chain(1) as net:
        net.attach(0, "rate 20mbit")
        before = net.shown(0)["options"]
        done = net.tc(0, f"qdisc change dev {net.device(0)} root slbn {words}", check=False)
        assert done.returncode and says in done.stdout
        assert net.shown(0)["options"] == before


def test_a_device_without_a_speed_needs_a_rate() -> None:
    with namespace() as ns:
        sh(f"ip -n {ns.name} link add d0 type dummy")
        done = sh(f"tc -n {ns.name} qdisc add dev d0 root slbn", check=False)
        assert done.returncode and "give a rate" in done.stdout
        sh(f"tc -n {ns.name} qdisc add dev d0 root slbn rate 1gbit")


def test_data_goes_through_any_child() -> None:
    with chain(1) as net:
        net.attach(0, "rate 100mbit")
        net.tc(0, f"qdisc add dev {net.device(0)} parent 1:2 handle 2: drr_fq limit 100p")
        net.nodes[0].sh("ping -q -c 3 -i 0.2 10.0.0.2")
        shown = json.loads(net.tc(0, f"-j -s qdisc show dev {net.device(0)}").stdout)
        packets = {q["kind"]: q["packets"] for q in shown}
        assert packets["slbn"] >= 3 and packets["drr_fq"] >= 3
