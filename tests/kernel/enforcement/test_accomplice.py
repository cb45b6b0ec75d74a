# SPDX-License-Identifier: GPL-2.0
"""A host that opens connections without end to an accomplice, beside an honest session.

The network is that of test_marks_escape.py: the slow link has bands.  The accomplice, at the
server, answers the first datagram of each connection: what follows is new, without a session or
with one.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.enforcement.test_marks_escape import (
    BORROW,
    DATAGRAM,
    FIFOS,
    OPTIONS,
    OTHER,
    SERVER,
    SERVER6,
    network,
    settle,
    spend,
)
from tests.kernel.lib.senders import sender
from tests.kernel.lib.slbn import MEGA, Chain
from tests.kernel.lib.slbnd import agent

pytestmark = [pytest.mark.virtual, pytest.mark.tier("all")]

PORT = 7000
#: Many addresses of the /64 of the hosts.
PREFIX = "fd00:0:0:0:1::"
IPV6_FREEBIND = 78


@contextlib.contextmanager
def connections(net: Chain, six: bool, length: int) -> Iterator[Callable[[int], None]]:
    """Connections of LENGTH octets, one after the other: each has a new port, or a new address."""
    family = socket.AF_INET6 if six else socket.AF_INET
    server = SERVER6 if six else SERVER
    if six:
        net.nodes[0].sh(f"ip -6 route add local {PREFIX}/80 dev lo")
        net.nodes[1].sh(f"ip -6 route add {PREFIX}/80 via fd00:0::1 dev w0")
    with net.nodes[3].entered():
        far = socket.socket(family, socket.SOCK_DGRAM)
    far.bind((server, PORT))
    far.setblocking(False)
    numbers = itertools.count(1)
    near: socket.socket | None = None
    sent = 0

    def begin() -> socket.socket:
        with net.nodes[0].entered():
            made = socket.socket(family, socket.SOCK_DGRAM)
        if six:
            made.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        made.bind((f"{PREFIX}{next(numbers):x}" if six else OTHER, 0))
        made.setblocking(False)
        made.connect((server, PORT))
        return made

    def send(_: int) -> None:
        nonlocal near, sent
        if not near or sent >= length:
            if near:
                near.close()
            near, sent = begin(), 0
        with contextlib.suppress(OSError):
            near.send(DATAGRAM)
        sent += len(DATAGRAM)
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, peer = far.recvfrom(2048)
                # Once for each connection.
                if peer not in answered:
                    answered.add(peer)
                    far.sendto(packet[:1], peer)

    answered: set[object] = set()
    try:
        yield send
    finally:
        far.close()
        if near:
            near.close()


def left(directory: Path, six: bool, length: int, *options: str) -> float:
    """The part of its rate that the honest session keeps."""
    with (
        network(FIFOS) as (net, _),
        agent(net.nodes[1], directory, *OPTIONS, *BORROW, *options) as slbnd,
    ):
        flow = sender(net, 0, 3)
        settle(slbnd, flow)
        before = spend(flow, 4)
        with connections(net, six, length) as attack:
            spend(flow, 3, attack)
            after = spend(flow, 4, attack)
        print(f"{before / MEGA:.2f}, then {after / MEGA:.2f} Mbit/s: {after / before:.3f}")
        return after / before


#: What remains at least.  Beside one address half, within 4 %: new packets are within the rate of
#: the host's session, too.  Short connections from many addresses end before they are answered, so
#: they are unassigned, as in test_marks_escape.py.  Sessions of long ones share the weight of their
#: /64 with those of connections that have ended: no rule gives a number, 72 to 74 % were measured.
LEAST = {
    "ports, short": (False, 11_000, 0.48),
    "ports, long": (False, 980_000, 0.48),
    "addresses, short": (True, 11_000, 0.94),
    "addresses, long": (True, 980_000, 2 / 3),
}


@pytest.mark.parametrize(("six", "length", "least"), LEAST.values(), ids=LEAST)
def test_one_session_for_each_host(tmp_path: Path, six: bool, length: int, least: float) -> None:
    assert left(tmp_path, six, length, "--sessions", "host") > least


def test_one_session_for_each_flow(tmp_path: Path) -> None:
    """What a host gains by connections whose sessions end later than they do."""
    assert 0.1 < left(tmp_path, False, 980_000, "--sessions", "flow") < 0.3
