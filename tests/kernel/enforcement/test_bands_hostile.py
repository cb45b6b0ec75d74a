# SPDX-License-Identifier: GPL-2.0
"""Routing protocols in a flood, and marks inside of tunnels.

The network is that of test_marks_escape.py.  Here r2 also speaks to its neighbour, the server, and
ends a tunnel.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.enforcement.test_marks_escape import (
    BORROW,
    DATAGRAM,
    DSCPS,
    FIFOS,
    FLOOD,
    OPTIONS,
    OTHER,
    OUTSIDE,
    SERVER,
    SLOW,
    flooding,
    network,
    settle,
    spend,
)
from tests.kernel.lib.net import Namespace, pending
from tests.kernel.lib.senders import sender
from tests.kernel.lib.slbn import MEGA, Chain
from tests.kernel.lib.slbnd import agent

pytestmark = [pytest.mark.virtual, pytest.mark.tier("all")]

QUEUES = pytest.mark.parametrize("queues", [FIFOS, ""], ids=["fifos", "queues"])
#: Of r2 at the slow link, and at the link to r1.
ROUTER, TUNNEL = "10.0.2.1", "10.0.1.2"
OSPF, CS6, TC_PRIO_CONTROL = 89, 48, 7
#: Between two packets of each protocol [s]: that of BFD, not of OSPF.
HELLO = 0.1
#: A control packet waits for the one being sent, and for two in the burst of tbf [s].
WAIT = 3 * 1514 * 8 / SLOW
#: What an nft rule gives to the packets of daemons that set only a DSCP.
RULE = """table inet t {
    chain output {
        type filter hook output priority 0
        ip dscp cs6 meta priority set 0:7
        ip6 dscp cs6 meta priority set 0:7
    }
}"""


class Neighbour:
    """r2 sends hellos (raw) and keepalives (TCP) to the server, numbered and with their time."""

    def __init__(self, net: Chain, priority: bool) -> None:
        with net.nodes[2].entered():
            self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, OSPF)
            self.near = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with net.nodes[3].entered():
            self.hellos = socket.socket(socket.AF_INET, socket.SOCK_RAW, OSPF)
            listener = socket.create_server((SERVER, 179))
        for end in (self.raw, self.near):
            end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CS6 << 2)
            if priority:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, TC_PRIO_CONTROL)
        self.near.connect((SERVER, 179))
        self.near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.far, _ = listener.accept()
        listener.close()
        for end in (self.hellos, self.far):
            end.setblocking(False)
        self.sent = 0
        self.waits: dict[str, list[float]] = {"OSPF": [], "BGP": []}

    def close(self) -> None:
        for end in (self.raw, self.near, self.hellos, self.far):
            end.close()

    def speak(self, age: float) -> None:
        if age >= self.sent * HELLO:
            stamp = struct.pack("=d", time.monotonic())
            self.raw.sendto(stamp, (SERVER, 0))
            self.near.send(stamp)
            self.sent += 1
        self.listen()

    def listen(self) -> None:
        now = time.monotonic()
        for packet in pending(self.hellos, 64):
            self.waits["OSPF"].append(now - struct.unpack("=d", packet[20:])[0])
        for stamp in pending(self.far, 8):
            self.waits["BGP"].append(now - struct.unpack("=d", stamp)[0])


def converse(net: Chain, outside: Namespace, priority: bool) -> Neighbour:
    """Three seconds of a flood from outside, with each mark; what follows it is not counted."""
    neighbour = Neighbour(net, priority)
    with flooding(outside, OUTSIDE, DSCPS) as flood:
        began, sent, age = time.monotonic(), 0, 0.0
        while age < 3.5:
            while sent * 1442 * 8 < age * FLOOD:
                flood(sent)
                sent += 1
            # From when the queue is full.
            if age > 0.5:
                neighbour.speak(age - 0.5)
            time.sleep(0.001)
            age = time.monotonic() - began
        for _ in range(20):
            neighbour.listen()
            time.sleep(0.01)
    neighbour.close()
    for name, waits in neighbour.waits.items():
        worst = max(waits, default=0)
        print(f"{name}: {len(waits)} of {neighbour.sent}, {worst * 1000:.1f} ms at most")
    return neighbour


@QUEUES
@pytest.mark.parametrize("how", ["priority", "rule"])
def test_neighbours_stay_up(how: str, queues: str) -> None:
    """Packets of this router's daemons that have the priority of control packets are sent first."""
    with network(queues) as (net, outside):
        if how == "rule":
            net.nodes[2].sh(f"echo '{RULE}' | nft -f -")
        neighbour = converse(net, outside, how == "priority")
        assert neighbour.sent >= 29
        for waits in neighbour.waits.values():
            assert len(waits) == neighbour.sent
            # The test looks each millisecond.
            assert max(waits) < WAIT + 0.002


def test_dscp_is_no_priority() -> None:
    """A DSCP that any user or host can set does not make a packet a control packet."""
    with network(FIFOS) as (net, outside):
        neighbour = converse(net, outside, False)
        assert max(neighbour.waits["OSPF"], default=1) > 10 * WAIT
        assert len(neighbour.waits["OSPF"]) < neighbour.sent


# --- tunnels ---------------------------------------------------------------------------------


@contextlib.contextmanager
def tunnelled(where: Namespace, source: str) -> Iterator[Callable[[int], None]]:
    """Datagrams in IPv4 in IPv4 to r2, with each DSCP in turn in the inner header."""
    heads = []
    for dscp in DSCPS:
        length = 20 + 8 + len(DATAGRAM)
        head = struct.pack(">BBHHHBBH", 0x45, dscp << 2, length, 0, 0, 64, 17, 0)
        head += socket.inet_aton(source) + socket.inet_aton(SERVER)
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        heads.append(head[:10] + struct.pack(">H", ~total & 0xFFFF) + head[12:])
    with where.entered():
        end = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IPIP)
    end.bind((source, 0))
    end.setblocking(False)

    def send(n: int) -> None:
        ports = struct.pack(">HHHH", 1024 + n % 60000, 2000, 8 + len(DATAGRAM), 0)
        with contextlib.suppress(OSError):
            end.sendto(heads[n % len(heads)] + ports + DATAGRAM, (TUNNEL, 0))

    with end:
        yield send


@QUEUES
@pytest.mark.parametrize("source", [OTHER, OUTSIDE])
def test_marks_inside_of_a_tunnel(tmp_path: Path, source: str, queues: str) -> None:
    """What comes out of a tunnel that ends at a router arrives by the tunnel's interface."""
    with (
        network(queues) as (net, outside),
        agent(net.nodes[1], tmp_path, *OPTIONS, *BORROW) as slbnd,
    ):
        net.nodes[2].ip(f"link add t0 type ipip local {TUNNEL} remote {source}", "link set t0 up")
        flow = sender(net, 0, 3)
        before = settle(slbnd, flow)
        where = outside if source == OUTSIDE else net.nodes[0]
        with tunnelled(where, source) as flood:
            spend(flow, 0.5, flood)
            after = spend(flow, 3, flood)
        shown = json.loads(net.nodes[2].sh("ip -j -s link show t0").stdout)
        arrived = shown[0]["stats64"]["rx"]["packets"]
        print(f"{before / MEGA:.2f}, then {after / MEGA:.2f} Mbit/s, {arrived} packets")
        assert arrived > 1000
        assert after / before > 0.94
