# SPDX-License-Identifier: GPL-2.0
"""Links and routes for Mininet scripts, without a kernel, and the command line."""

from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairlab.mininet import links, nodes, open_vswitch, script
from fairlab.model.errors import UsageError

from tests import launch

TOP = Path(__file__).resolve().parents[2]
FAIRLAB = TOP / "scripts/fairlab"

#: For nodes in sets.
IDENTITY = {"__hash__": object.__hash__, "__eq__": object.__eq__}


def test_rate_limit_and_queue() -> None:
    assert links.egress_commands("eth0", None, None) == []
    assert links.egress_commands("eth0", None, "fq_codel") == ["dev eth0 root handle 10: fq_codel"]
    shaper, queue = links.egress_commands("eth0", "1.5mbit", None)
    assert shaper.startswith("dev eth0 root handle 1: tbf rate 1500000bit burst 3028 ")
    assert queue == "dev eth0 parent 1:1 handle 10: pfifo limit 100"


def test_slbn_is_between_rate_limit_and_queue() -> None:
    _, link, queue = links.egress_commands("eth0", "1mbit", "fq", "edge")
    assert link == "dev eth0 parent 1:1 handle 2: slbn rate 1000000bit edge"
    assert queue == "dev eth0 parent 2:2 handle 10: fq"
    with pytest.raises(UsageError, match="needs a rate"):
        links.egress_commands("eth0", None, "fq", "")


def test_delay_and_loss() -> None:
    assert links.netem("10ms", None) == "netem limit 1000000 delay 10000us"
    assert links.netem(None, 0.5) == "netem limit 1000000 delay 1us loss 0.50000000%"
    for delay, loss in (("10", None), (None, 101), (None, -1)):
        with pytest.raises(UsageError):
            links.netem(delay, loss)


class Network:
    """Nodes and links with what routing reads of Mininet's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: dict[str, Any] = {}
        monkeypatch.setattr(nodes, "ends", self.ends)
        monkeypatch.setattr(nodes, "Switch", SimpleNamespace)
        monkeypatch.setattr(nodes, "Router", type("Router", (SimpleNamespace,), IDENTITY))

    def node(self, name: str) -> Any:
        kind = {"r": nodes.Router, "s": type("Bridge", (SimpleNamespace,), IDENTITY)}
        cls = kind.get(name[0], type("Host", (), {}))
        if name not in self.nodes:
            self.nodes[name] = node = cls()
            node.name, node.interfaces = name, []
        return self.nodes[name]

    def link(self, a: str, b: str) -> None:
        first, second = (Interface(self.node(name), f"{a}-{b}") for name in (a, b))
        first.peer, second.peer = second, first
        for intf in (first, second):
            intf.node.interfaces.append(intf)

    @staticmethod
    def ends(node: Any) -> list[tuple[Any, Any, Any]]:
        return [(intf, intf.peer, intf.peer.node) for intf in node.interfaces]


class Interface:
    """An interface."""

    def __init__(self, node: Any, name: str) -> None:
        self.node, self.name = node, name
        self.peer: Any = None


def test_subnets_and_routes_of_fewest_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts behind a switch, a triangle of routers, a host at the far end."""
    net = Network(monkeypatch)
    for pair in ("h1 s1", "h2 s1", "s1 r1", "r1 r2", "r2 r3", "r1 r3", "r3 h3"):
        net.link(*pair.split())
    found = nodes.subnets(net.node("r1"))
    members = sorted(sorted(intf.node.name for intf in subnet) for subnet in found)
    assert members == [["h1", "h2", "r1"], ["h3", "r3"], ["r1", "r2"], ["r1", "r3"], ["r2", "r3"]]
    far = next(subnet for subnet in found if {intf.node.name for intf in subnet} == {"h3", "r3"})
    hops = {node.name: via.node.name for node, (_, via) in nodes.routes_to(far, found).items()}
    assert hops == {"r1": "r3", "r2": "r3", "h1": "r1", "h2": "r1"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["none.py"], "no script 'none.py'"),
        (["--engine", "qemu", __file__], "no engine 'qemu'"),
        (["--timeout", "0", __file__], "must be at least one second"),
        ([], "SCRIPT"),
    ],
)
def test_bad_requests(words: list[str], reason: str) -> None:
    done = launch.run([FAIRLAB, "mininet", *words])
    assert done.returncode == 2
    assert reason in done.stderr


def test_open_vswitch_is_started_in_guests_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a new database; without the kernel's module its daemon forwards."""
    calls = tmp_path / "calls"
    for name in (*open_vswitch.PROGRAMS, "modprobe"):
        program = tmp_path / name
        failing = "exit 1" if name == "modprobe" else ""
        program.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >>{calls}\n{failing}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(open_vswitch, "SCHEMA", calls)
    monkeypatch.setattr(open_vswitch, "RUN", tmp_path / "run")
    calls.touch()
    monkeypatch.delenv(open_vswitch.GUEST, raising=False)
    assert open_vswitch.start() == "" and calls.read_text() == ""
    monkeypatch.setenv(open_vswitch.GUEST, "virtual")
    assert open_vswitch.start() == open_vswitch.USER
    started = [line.split()[0] for line in calls.read_text().splitlines()]
    assert started[-4:] == ["ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-vswitchd"]
    (tmp_path / "ovs-vswitchd").unlink()
    assert open_vswitch.start() == ""


def test_controller_that_speaks_first_is_found() -> None:
    """Mininet's cmd() would wait for the process id that octet 1, OpenFlow's first, announces."""

    class Node:
        """Mininet's, as far as it matters."""

        @staticmethod
        def cmd(command: str) -> str:
            done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
            assert b"\1" not in done.stdout
            return done.stdout.decode()

    def greet() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes([1, 0, 0, 8, 0, 0, 0, 1]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=greet)
        thread.start()
        assert script.is_listening(Node(), "127.0.0.1", port)
        thread.join()
    assert not script.is_listening(Node(), "127.0.0.1", port)
