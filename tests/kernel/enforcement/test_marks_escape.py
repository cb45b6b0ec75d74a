# SPDX-License-Identifier: GPL-2.0
"""Hosts that want more than their share of a slow link, and whom they do not harm if it has bands.

    hosts ---- r1 ======== r2 ======== server
           e0  slbnd   e1  |       e2
               100 Mbit/s  x       10 Mbit/s
                           outside

e2 has bands, of which each is one FIFO, or with a queue for each flow; or none.  r1 is a router of
the domain; what comes from outside comes by an interface that is not.  10.0.0.1 is honest,
10.0.0.9 sends to ever new ports.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.senders import Sender, sender, usleep
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import Agent, agent

pytestmark = pytest.mark.virtual
EVERYWHERE = pytest.mark.tier("all")

ACCESS, SLOW = 100 * MEGA, 10 * MEGA
FLOOD = 2 * SLOW
HOST, OTHER, OUTSIDE, SERVER = "10.0.0.1", "10.0.0.9", "10.77.0.2", "10.0.2.2"
OTHER6, SERVER6 = "fd00:0::9", "fd00:2::2"
#: None, the marks of the domain, EF, CS6, LE, NQB.
DSCPS = (0, 3, 7, 46, 48, 1, 45)
GROUP = 5
#: While nothing is new, unassigned packets have twice their minimum: with 5 %, 95 % remain.
BANDS = f"bands unassigned 4% domain {GROUP}"
FIFOS = "flows 1 flows_new 1 hosts 1"
DATAGRAM = bytes(1400)
#: Offset of tcpi_bytes_received in struct tcp_info.
BYTES_RECEIVED = 128
#: Until links that were just attached assign rates [s].
QUIET = 2.5
OPTIONS = ("--hosts", "10.0.0.0/24,fd00:0::/64", "--devices", "e1", "--marks", "on")
BORROW = ("--windows", "on", "--borrow", "on", "--excess", "unassigned")


@contextlib.contextmanager
def network(
    queues: str, bands: str = f"drr_fq limit 400 {BANDS}"
) -> Iterator[tuple[Chain, Namespace]]:
    """With a host outside of the domain."""
    outside = Namespace("outside")
    with chain(3) as made, contextlib.ExitStack() as stack:
        r2 = made.nodes[2]
        run_ip([f"netns add {outside.name}"])
        stack.callback(run_ip, [f"netns del {outside.name}"])
        run_ip([f"link add x netns {r2.name} type veth peer name o netns {outside.name}"])
        r2.ip("addr add 10.77.0.1/24 dev x", "link set x up", f"link set w1 group {GROUP}")
        outside.ip(
            "addr add 10.77.0.2/24 dev o", "link set o up", "route add default via 10.77.0.1"
        )
        made.nodes[3].ip("route add 10.77.0.0/24 via 10.0.2.1")
        made.attach(1, f"rate {ACCESS}")
        made.tc(1, "qdisc replace dev e1 parent 1:1 fq flow_limit 10000 orphan_mask 65535")
        made.tc(2, f"qdisc add dev e2 root handle 1: tbf rate {SLOW} burst 3000 limit 10mb")
        made.tc(2, f"qdisc add dev e2 parent 1:1 handle 2: slbn rate {SLOW} edge")
        made.tc(2, f"qdisc add dev e2 parent 2:2 {bands} {queues}")
        made.nodes[3].sh("tc qdisc add dev w2 root netem delay 10ms limit 10000")
        made.nodes[0].ip(f"addr add {OTHER}/24 dev e0", f"addr add {OTHER6}/64 dev e0 nodad")
        yield made, outside


def received(flow: Sender) -> int:
    """Octets of payload, each once."""
    info = flow.far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
    return int(struct.unpack_from("=Q", info, BYTES_RECEIVED)[0])


def spend(flow: Sender, seconds: float, flood: Callable[[int], None] | None = None) -> float:
    """What arrives of the flow meanwhile [bit/s]; FLOOD sends its n-th datagram."""
    before, sent, age = received(flow), 0, 0.0
    began = now = time.monotonic_ns()
    while age < seconds:
        flow.send(age, now)
        flow.receive(now)
        while flood and sent * 1442 * 8 < age * FLOOD:
            flood(sent)
            sent += 1
        usleep(2000)
        now = time.monotonic_ns()
        age = (now - began) / 10**9
    return (received(flow) - before) * 8 / age


@contextlib.contextmanager
def flooding(
    where: Namespace, source: str, dscps: tuple[int, ...]
) -> Iterator[Callable[[int], None]]:
    """Datagrams from each of many ports in turn, to many others, with each DSCP in turn."""
    six = ":" in source
    family = socket.AF_INET6 if six else socket.AF_INET
    level, option = (
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if six else (socket.IPPROTO_IP, socket.IP_TOS)
    )
    ends = []
    with contextlib.ExitStack() as stack:
        for dscp in dscps:
            with where.entered():
                end = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            end.bind((source, 0))
            end.setblocking(False)
            end.setsockopt(level, option, dscp << 2)
            ends.append(end)

        def send(n: int) -> None:
            with contextlib.suppress(OSError):
                to = (SERVER6 if six else SERVER, 1024 + n % 60000)
                ends[n % len(ends)].sendto(DATAGRAM, to)

        yield send


def settle(slbnd: Agent, flow: Sender) -> float:
    """The rate of a flow that has one, before anything else is sent.

    Before it has a rate, it loses packets of its slow start, and may wait for a timeout.
    """

    def is_assigned() -> bool:
        spend(flow, 0.2)
        with slbnd.connect() as us:
            return any(each.rate > SLOW / 2 for each in us.list())

    wait_for(is_assigned)
    wait_for(lambda: spend(flow, 0.5) > 0.87 * SLOW)
    return spend(flow, 1)


def harm(queues: str, directory: Path, dscps: tuple[int, ...], source: str, *options: str) -> float:
    """The part of its rate that the honest flow has while another host floods."""
    with (
        network(queues) as (net, outside),
        agent(net.nodes[1], directory, *OPTIONS, *options) as slbnd,
    ):
        flow = sender(net, 0, 3)
        where = outside if source == OUTSIDE else net.nodes[0]
        before = settle(slbnd, flow)
        with flooding(where, source, dscps) as flood:
            spend(flow, 0.5, flood)
            after = spend(flow, 2, flood)
        with slbnd.connect() as us:
            status = us.status()
        print(f"{before / MEGA:.2f}, then {after / MEGA:.2f} Mbit/s; {status}")
        assert before > 0.87 * SLOW
        return after / before


@pytest.mark.parametrize("source", [pytest.param(OTHER, marks=EVERYWHERE), OTHER6, OUTSIDE])
def test_ever_new_ports_and_any_mark(tmp_path: Path, source: str) -> None:
    """From behind an agent, IPv4 and IPv6, and from where there is none."""
    assert harm(FIFOS, tmp_path, DSCPS, source, *BORROW) > 0.94


CASES = list(itertools.product((FIFOS, ""), (OTHER, OTHER6, OUTSIDE), DSCPS))


@EVERYWHERE
@pytest.mark.parametrize(("queues", "source", "dscp"), CASES)
def test_each_mark(tmp_path: Path, queues: str, source: str, dscp: int) -> None:
    assert harm(queues, tmp_path, (dscp,), source) > 0.94


#: Default class, of the access link, and the part of its rate that the honest flow has at least and
#: at most: the class has half of the slow link, all of it, or what the link's headroom leaves.
UNCOUNTED = [("5%", 0.45, 0.6), ("10%", 0, 0.01), ("0.5%", 0.94, 1.01)]


@pytest.mark.parametrize(
    "queue", ["pfifo limit 100", pytest.param("drr_fq limit 400", marks=pytest.mark.tier("all"))]
)
@pytest.mark.parametrize(("unassigned", "least", "most"), UNCOUNTED)
def test_default_class_without_bands(
    tmp_path: Path, queue: str, unassigned: str, least: float, most: float
) -> None:
    """The default class of a fast access link takes a slow link, unless its headroom holds it."""
    with (
        network("", queue) as (net, _),
        agent(net.nodes[1], tmp_path, *OPTIONS[:4], "--unassigned", unassigned) as slbnd,
    ):
        flow = sender(net, 0, 3)
        before = settle(slbnd, flow)
        with flooding(net.nodes[0], OTHER, (0,)) as flood:
            spend(flow, 1, flood)
            after = spend(flow, 3, flood)
        print(f"{queue}: {before / MEGA:.2f}, then {after / MEGA:.2f} Mbit/s")
        assert before > 0.87 * SLOW
        assert least <= after / before <= most


def counter(node: Namespace, name: str) -> int:
    """A counter of TCP."""
    with node.entered():
        names, values = Path("/proc/net/netstat").read_text().splitlines()[:2]
    return int(dict(zip(names.split(), values.split(), strict=True))[name])


def test_tcp_is_not_reordered(tmp_path: Path) -> None:
    """Connections that begin one after another: new, then assigned, in one FIFO for each."""
    with network(FIFOS) as (net, _), agent(net.nodes[1], tmp_path, *OPTIONS, *BORROW) as slbnd:
        net.tc(2, "qdisc change dev e2 parent 2:2 drr_fq limit 10000")
        # With ECN, the pacer marks packets that wait instead of dropping them.
        for node in (net.nodes[0], net.nodes[3]):
            node.sysctl("tcp_ecn", 1)
        time.sleep(QUIET)
        flows = []
        for _ in range(4):
            flows.append(sender(net, 0, 3))
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                for flow in flows:
                    flow.send(0)
                    flow.receive()
                time.sleep(0.002)
        with slbnd.connect() as us:
            status = us.status()
        assert status.marked_new > 600 and status.marked_assigned > 1000
        print(status, counter(net.nodes[3], "TCPOFOQueue"))
        # Of what arrived, not of what the pacer dropped.
        for name in ("TCPSACKReorder", "TCPTSReorder", "TCPRenoReorder"):
            assert counter(net.nodes[0], name) == 0
