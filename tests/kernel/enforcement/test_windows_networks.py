# SPDX-License-Identifier: GPL-2.0
"""Receive windows in the networks and with the senders that there are.

    node 0 ---- node 1 ---- node 2
                     e1: fq below slbn, which paces, and the programs for windows
                     w1: acknowledgements are delayed

Each test expects the same: the sender uses its rate, nearly nothing waits in the pacer, nothing is
dropped, and what the sender may send never becomes less than it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.lib.enforcer import Enforcer, Flow, enforcer
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import TCP_CONGESTION, sh, wait_for
from tests.kernel.lib.senders import TCP, Sender, Traffic, sender
from tests.kernel.lib.slbn import Chain
from tests.kernel.lib.slbnd import agent, libslbn
from tests.kernel.lib.windows import RATE, ROUND_TRIP, delay, network, right_edge, watch

pytestmark = pytest.mark.virtual
EVERYWHERE = pytest.mark.tier("all")

#: BPF_MAP_TYPE_ARRAY of <linux/bpf.h>.
MAP_TYPE_ARRAY = 2


@pytest.fixture
def net() -> Iterator[Chain]:
    with network() as made:
        yield made


@pytest.fixture
def made(net: Chain, enforce_try: str) -> Iterator[Enforcer]:
    """Windows are on."""
    with enforcer(net.nodes[1], enforce_try, windows=True) as started:
        yield started


def offloads(net: Chain, sends: str, receives: str) -> None:
    """TSO and GSO of the senders' devices, and GRO of all that receive."""
    for node, device in ((0, "e0"), (1, "e1"), (1, "w0"), (2, "w1")):
        options = f"tso {sends} gso {sends} gro {receives}"
        net.nodes[node].sh(f"ethtool -K {device} {options}")


def test_segments_of_one_packet(net: Chain, made: Enforcer) -> None:
    offloads(net, "off", "off")
    made.open("e1")
    watch(made, sender(net, 0, 2)).check()


@EVERYWHERE
def test_merged_segments(net: Chain, made: Enforcer) -> None:
    """TSO and GSO at the host, GRO at the router and at both ends."""
    offloads(net, "on", "on")
    made.open("e1")
    watch(made, sender(net, 0, 2)).check()


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "partial"])
@pytest.mark.parametrize("six", [False, True], ids=["4", "6"])
def test_checksums(net: Chain, made: Enforcer, six: bool, whole: bool) -> None:
    """The peer computes checksums of acknowledgments, or leaves that to the router's device."""

    def wrong() -> str:
        shown = net.nodes[0].sh("nstat -asz TcpInErrs TcpInCsumErrors").stdout
        return " ".join(line for line in shown.splitlines() if line.startswith("Tcp"))

    net.nodes[2].sh(f"ethtool -K w1 tx {'off' if whole else 'on'}")
    net.nodes[1].sh("ethtool -K w0 tx off")
    made.open("e1")
    before = wrong()
    seen = watch(made, sender(net, 0, 2, six=six))
    assert 0.97 < seen.used < 1.01 and seen.median < 2
    assert made.read_windows().lowered > 0 and wrong() == before


@EVERYWHERE
def test_ipv6(net: Chain, made: Enforcer) -> None:
    made.open("e1")
    watch(made, sender(net, 0, 2, six=True)).check()


def test_masquerade(net: Chain, made: Enforcer) -> None:
    """The router translates the host's address: its session is that of the translated one."""
    rule = "add rule ip n c oifname e1 masquerade"
    base = "add table ip n; add chain ip n c { type nat hook postrouting priority srcnat; }"
    net.nodes[1].sh(f"nft '{base}; {rule}'")
    made.open("e1")
    flow = sender(net, 0, 2)
    source, port = flow.far.getpeername()
    assert source == "10.0.1.1"
    session = Flow("10.0.1.2", source, TCP, port, flow.far.getsockname()[1])
    watch(made, flow, session=session).check()


def move_to_vlan(net: Chain) -> None:
    """Give the addresses of e1 and w1 to VLAN 5 above them."""
    for node, device, last, beyond in ((1, "e1", 1, ""), (2, "w1", 2, "10.0.0.0/24 via 10.0.1.1")):
        net.nodes[node].ip(
            f"link add link {device} name {device}.5 type vlan id 5",
            f"addr del 10.0.1.{last}/24 dev {device}",
            f"addr add 10.0.1.{last}/24 dev {device}.5",
            f"link set {device}.5 up",
        )
        if beyond:
            net.nodes[node].ip(f"route replace {beyond}")


@pytest.mark.parametrize("device", ["e1", pytest.param("e1.5", marks=EVERYWHERE)])
def test_vlan(net: Chain, made: Enforcer, device: str) -> None:
    """Packets are paced, and windows lowered, below and above their tags."""
    sh("modprobe 8021q")
    move_to_vlan(net)
    if device == "e1.5":
        net.nodes[1].tc("qdisc replace dev e1 root pfifo", "qdisc replace dev e1.5 root fq")
    made.open(device)
    watch(made, sender(net, 0, 2)).check()


def test_jitter(net: Chain, made: Enforcer) -> None:
    """Each acknowledgement is delayed by 17 to 23 ms, in order."""
    delay(net, ROUND_TRIP, "3ms rate 1gbit")
    made.open("e1")
    watch(made, sender(net, 0, 2)).check(delay=6, median=4)


@pytest.mark.parametrize(("before", "after"), [(20, 60), pytest.param(60, 20, marks=EVERYWHERE)])
def test_change_of_route(net: Chain, made: Enforcer, before: int, after: int) -> None:
    """The round-trip time changes under traffic: two seconds later, all is as with a new one."""
    delay(net, before)
    made.open("e1")
    flow = sender(net, 0, 2)
    watch(made, flow, trip=before).check()
    delay(net, after)
    watch(made, flow, trip=after).check(delay=4, median=3)


@pytest.mark.parametrize("control", ["bbr", pytest.param("dctcp", marks=EVERYWHERE)])
def test_congestion_controls(net: Chain, made: Enforcer, control: str) -> None:
    """Their delay has the bound of CUBIC's.

    They are not compared with one flow of CUBIC: on some kernels all its round trips are alike
    and its delay is 0.56 ms, and the next flow of CUBIC has 1.25 ms.
    """
    sh(f"modprobe tcp_{control}")
    for node in (0, 2):
        net.nodes[node].sysctl("tcp_ecn", 1)
    made.open("e1")
    flow = sender(net, 0, 2)
    flow.near.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
    watch(made, flow, seconds=4).check(delay=4)


@dataclass
class Application(Sender):
    """An application that writes at a rate [bit/s]."""

    writes: int = 0

    def send(self, age: float, now: int = 0) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.sent * 8 < age * self.writes:
                self.sent += self.near.send(bytes(1000))


WRITERS: dict[str, Callable[[Sender], Sender]] = {
    "greedy": lambda flow: flow,
    "half": lambda flow: Application(flow.near, flow.far, 0, writes=RATE // 2),
    "most": lambda flow: Application(flow.near, flow.far, 0, writes=RATE // 10 * 8),
}


@pytest.mark.parametrize("merged", [True, pytest.param(False, marks=EVERYWHERE)])
def test_who_wants_more(net: Chain, made: Enforcer, merged: bool) -> None:
    """What demand.h counts: a greedy sender is limited, an application that has sent all is not."""
    offloads(net, *(("on", "on") if merged else ("off", "off")))
    made.open("e1")
    for name, writer in WRITERS.items():
        flow = writer(sender(net, 0, 2))
        made.set(flow.session, RATE)
        traffic = Traffic(flow)
        traffic.settle(2)
        before = made.read(flow.session)
        traffic.run(2)
        after = made.read(flow.session)
        sent, reached = after.bytes - before.bytes, after.reached - before.reached
        part = (after.limited - before.limited) / sent
        print(f"{name}: {sent * 4 / RATE:.2f} of the rate, {part:.3f} limited")
        assert reached == sent
        assert part > 0.75 if name == "greedy" else part < 1 / 8
        flow.abort()


def test_acknowledgements_by_another_router(net: Chain, tmp_path: Path) -> None:
    """slbnd says of the session that they do, and the pacer alone holds the rate meanwhile."""
    here, there = net.nodes[0], net.nodes[2]
    run_ip([f"link add x0 netns {here.name} type veth peer name x2 netns {there.name}"])
    here.ip("addr add 10.9.0.1/24 dev x0", "link set x0 up")
    there.ip("addr add 10.9.0.2/24 dev x2", "link set x2 up")
    net.attach(1, f"rate {RATE} headroom 0 edge")
    options = ("--hosts", "10.0.0.0/24", "--devices", "e1", "--windows", "on")
    with agent(net.nodes[1], tmp_path, *options) as slbnd, slbnd.connect() as us:
        flow = sender(net, 0, 2)
        traffic = Traffic(flow)

        def has(flag: int) -> Callable[[], bool]:
            return lambda: bool(traffic.run(0.1)) and any(
                s.flags & flag and s.destination_port == flow.session.dport for s in us.list()
            )

        wait_for(has(libslbn.WINDOWS))
        there.ip("route replace 10.0.0.0/24 via 10.9.0.1")
        wait_for(has(libslbn.ACKED_ELSEWHERE))
        shown = slbnd.show(next(s.id for s in us.list() if s.flags & libslbn.ACKED_ELSEWHERE))
        assert shown["acked_elsewhere"] and not shown["windows"]
        assert 0.95 < traffic.run(2)[0] / RATE < 1.01
        there.ip("route replace 10.0.0.0/24 via 10.0.1.1")
        wait_for(has(libslbn.WINDOWS))
        assert " windows" in slbnd.ctl("list").stdout


def pin_map(path: Path, octets: int) -> None:
    """Pin a map with one entry of so many octets."""
    library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    number = library.bpf_map_create(MAP_TYPE_ARRAY, b"other", 4, octets, 1, None)
    assert number >= 0 and library.bpf_obj_pin(number, str(path).encode()) == 0, ctypes.get_errno()
    os.close(number)


@pytest.mark.parametrize("octets", [pytest.param(0, marks=EVERYWHERE), 176])
def test_upgrade_to_another_layout(net: Chain, enforce_try: str, octets: int) -> None:
    """The next slbnd cannot use what was kept, a missing map or one with entries of other sizes.

    It leaves the connection alone, and new ones not, and removes pins with other numbers.
    """
    pins = Path("/sys/fs/bpf/windows")
    with enforcer(net.nodes[1], enforce_try) as made:
        assert made.ask(f"pins {pins}") == ["ok"]
        made.set_windows(True)
        made.open("e1")
        flow = sender(net, 0, 2)
        watch(made, flow, seconds=0.5)
        assert made.ask("close keep") == ["ok"]
        kept = sorted(pins.iterdir())
        (pinned,) = pins.glob("windows-*")
        pinned.unlink()
        if octets:
            pin_map(pinned, octets)
            for name in ("windows-1", "limits-1"):
                pin_map(pins / name, octets)
        made.open("e1")
        assert sorted(pins.iterdir()) == kept
        edge = right_edge(flow)
        seen = watch(made, flow)
        assert 0.97 < seen.used < 1.01 and right_edge(flow) > edge
        assert made.read_windows().unknown == 1
        watch(made, sender(net, 0, 2)).check()
        made.close()
        assert not pins.exists()
