# SPDX-License-Identifier: GPL-2.0
"""Devices with enforcement: what slbnd does if it cannot look after them, or others change them.

    h1 ---- r1 ======== r2 ---- h2
        e0  slbnd  e1       e2

h1 is a local host of r1.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.net import wait_for
from tests.kernel.lib.senders import Traffic, sender
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import SLBNCTL, agent

pytestmark = pytest.mark.virtual

SERVER, DATAGRAMS = ("10.0.2.2", 2000), 10
OPTIONS = ("--hosts", "10.0.0.0/24", "--devices", "e1")


@pytest.fixture(scope="module")
def net() -> Iterator[Chain]:
    with chain(3) as made:
        made.attach(1, "rate 50mbit")
        made.tc(1, "qdisc replace dev e1 parent 1:1 fq")
        yield made


def arriving(net: Chain) -> int:
    """How many of DATAGRAMS without a session arrive, a packet each 20 ms."""
    with net.nodes[3].entered():
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with net.nodes[0].entered():
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with far, near:
        far.bind(SERVER)
        far.setblocking(False)
        for _ in range(DATAGRAMS):
            near.sendto(bytes(100), SERVER)
            time.sleep(0.02)
        count = 0
        with contextlib.suppress(BlockingIOError):
            while far.recv(200):
                count += 1
    return count


def limit_descriptors(pid: int, most: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, 4096))


def change_devices(net: Chain) -> None:
    """Any change makes slbnd look at its devices, after 50 ms."""
    net.nodes[1].ip("link add other type dummy")
    net.nodes[1].ip("link del other")
    time.sleep(0.5)


def test_clients_leave_descriptors(net: Chain, tmp_path: Path) -> None:
    """However many there are: devices can change, and hosts keep the default class."""
    with agent(net.nodes[1], tmp_path, *OPTIONS) as slbnd, contextlib.ExitStack() as stack:
        assert arriving(net) == DATAGRAMS
        limit_descriptors(slbnd.process.pid, 192)
        for _ in range(200):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            client.connect(slbnd.socket)
        wait_for(lambda: client.recv(1) == b"")
        change_devices(net)
        assert arriving(net) == DATAGRAMS


def test_device_that_cannot_be_read(net: Chain, tmp_path: Path) -> None:
    """Enforcement remains as it was; slbnd says so, and that it is mended."""
    with agent(net.nodes[1], tmp_path, *OPTIONS) as slbnd, slbnd.connect() as us:
        assert us.status().enforced == 1
        limit_descriptors(slbnd.process.pid, 8)
        change_devices(net)
        assert us.status().enforced == 0
        assert arriving(net) == DATAGRAMS
        limit_descriptors(slbnd.process.pid, 1024)
        change_devices(net)
        assert us.status().enforced == 1
        assert arriving(net) == DATAGRAMS


def test_stop_that_cannot_remove_the_program(net: Chain, tmp_path: Path) -> None:
    """Its default class remains with it."""
    with agent(net.nodes[1], tmp_path, *OPTIONS) as slbnd, slbnd.connect() as us:
        assert us.status().enforced == 1
        limit_descriptors(slbnd.process.pid, 8)
        slbnd.end(signal.SIGTERM)
    assert arriving(net) == DATAGRAMS
    with agent(net.nodes[1], tmp_path) as slbnd:
        assert "slbnd_" not in net.tc(1, "filter show dev e1 egress").stdout
        slbnd.end(signal.SIGTERM)


@pytest.mark.parametrize(("hook", "preference"), [("ingress", 49470), ("egress", 49471)])
def test_removed_programs_return(net: Chain, tmp_path: Path, hook: str, preference: int) -> None:
    """Not only the pacer: without the others, windows and marks are as hosts have them."""
    with agent(net.nodes[1], tmp_path, *OPTIONS):
        net.tc(1, f"filter del dev e1 {hook} pref {preference}")
        time.sleep(0.5)
        assert f"pref {preference} " in net.tc(1, f"filter show dev e1 {hook}").stdout


def test_filters_in_a_shared_block(
    net: Chain, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel refuses those of a device there: nothing is attached, and the reason said."""
    net.nodes[1].sh("tc qdisc del dev e1 clsact", check=False)
    net.tc(1, "qdisc add dev e1 ingress_block 7 clsact")
    try:
        with agent(net.nodes[1], tmp_path, *OPTIONS) as slbnd, slbnd.connect() as us:
            assert us.status().enforced == 0
            with net.nodes[1].entered():
                monitor = subprocess.Popen(
                    ["tc", "monitor"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            time.sleep(1)
            monitor.terminate()
            assert monitor.communicate()[0] == ""
        assert capfd.readouterr().err.count("e1: needs a clsact without ingress_block") == 1
    finally:
        net.tc(1, "qdisc del dev e1 clsact")


def test_many_devices_with_one_address(net: Chain, tmp_path: Path) -> None:
    """As those of PPP have this router's; here one device has it, for as many peers."""
    router, batch = net.nodes[1], tmp_path / "batch"
    router.ip("link add many type dummy", "link set many up")
    lines = (f"addr add 10.9.9.9 peer 10.8.{n >> 8}.{n & 255} dev many\n" for n in range(4200))
    batch.write_text("".join(lines))
    router.sh(f"ip -batch {batch}")
    with agent(router, tmp_path, *OPTIONS) as slbnd, slbnd.connect() as us:
        assert us.status().enforced == 1
    router.ip("link del many")


@pytest.mark.parametrize("loaded", ["before", pytest.param("later", marks=pytest.mark.tier("all"))])
def test_default_class_follows_the_rate_of_the_link(
    net: Chain, tmp_path: Path, loaded: str
) -> None:
    """At once, though only the module reports that a rate was set by slbnctl.

    It is the same if the device becomes a link after the agent has started.
    """
    before = net.tc(1, "qdisc show dev e1 root").stdout
    with agent(net.nodes[1], tmp_path, *OPTIONS, "--ports", "9"):
        if loaded == "later":
            net.tc(1, "qdisc delete dev e1 root")
            net.attach(1, "rate 50mbit")
            net.tc(1, "qdisc replace dev e1 parent 1:1 fq")
        traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA))
        traffic.settle()
        (rate,) = traffic.run(0.5)
        assert rate == pytest.approx(50 * MEGA * 0.05, rel=0.1)
        net.nodes[1].sh(f"{SLBNCTL} link set e1 rate 10mbit")
        traffic.run(1)
        (rate,) = traffic.run(0.5)
        assert rate == pytest.approx(10 * MEGA * 0.05, rel=0.1)
        net.nodes[1].sh(f"{SLBNCTL} link set e1 rate 50mbit")
    assert net.tc(1, "qdisc show dev e1 root").stdout == before
