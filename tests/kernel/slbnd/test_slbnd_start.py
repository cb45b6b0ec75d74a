# SPDX-License-Identifier: GPL-2.0
"""A TCP flow that joins another one gets its fair rate within some round trips.

    h1 ---- r1 ======== r2 ---- h2
            slbnd  e1        e2: 100 Mbit/s, edge; delay on the way back
                   100 Mbit/s, 5 % headroom

Received segments are counted in each round trip after the Join.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.net import TCP_CONGESTION, sh, wait_for, write_sysctl
from tests.kernel.lib.senders import DATA_SEGS_IN, SEGMENT
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import agent, libslbn

pytestmark = pytest.mark.virtual

HOSTS, SERVER = "10.0.0.0/24", "10.0.2.2"
RATE = 100 * MEGA
#: The fair rate of two flows, with the default headroom.
FAIR = 0.95 * RATE / 2
#: Round trips after the Join; later losses are those of each flow's congestion control.
WATCHED, SETTLED = 9, 5
EIGHTHS = 8


@contextlib.contextmanager
def network(rtt: int) -> Iterator[Chain]:
    """The links, with a round-trip time [ms]."""
    with chain(3) as made:
        sh("modprobe nf_conntrack")
        for host in (made.nodes[0], made.nodes[3]):
            with host.entered():
                write_sysctl("tcp_no_metrics_save", 1)
                write_sysctl("tcp_wmem", "4096 4000000 8000000")
                write_sysctl("tcp_rmem", "4096 4000000 8000000")
        made.attach(1, f"rate {RATE}bit")
        made.tc(1, "qdisc replace dev e1 parent 1:1 fq flow_limit 10000 limit 20000")
        made.attach(2, f"rate {RATE}bit edge")
        made.tc(2, f"qdisc replace dev e2 parent 1:1 netem rate {RATE}bit limit 10000")
        back = f"tc qdisc replace dev w1 root netem delay {rtt}ms limit 20000"
        made.nodes[2].sh(back)
        # Resolve neighbours, which takes round trips, too.
        made.nodes[0].sh(f"ping -qc 1 {SERVER}")
        yield made


class Flow:
    """TCP with unlimited data; both ends are in this process."""

    def __init__(self, net: Chain, control: str) -> None:
        with net.nodes[3].entered():
            listener = socket.create_server((SERVER, 0))
        with net.nodes[0].entered():
            self.near = socket.socket()
        self.near.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
        self.near.connect(listener.getsockname())
        self.far, _ = listener.accept()
        listener.close()
        self.port = self.near.getsockname()[1]
        # Wake the receiver rarely.
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 18)
        self.threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        data = bytes(1 << 20)
        with contextlib.suppress(OSError):
            while True:
                self.near.send(data)

    def _receive(self) -> None:
        room = bytearray(1 << 20)
        with contextlib.suppress(OSError):
            while self.far.recv_into(room, 0, socket.MSG_TRUNC):
                pass

    def received(self) -> int:
        """Octets on the wire."""
        info = self.far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
        return int(struct.unpack_from("=I", info, DATA_SEGS_IN)[0]) * SEGMENT

    def end(self) -> None:
        for each in (self.near, self.far):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.near.close()
        self.far.close()


def watch(flows: list[Flow], rtt: float) -> list[list[float]]:
    """The received rate of each flow in round trips from now on, relative to FAIR.

    One begins in each eighth of a round trip.
    """
    began = time.monotonic()
    counted = [[each.received() for each in flows]]
    for n in range(EIGHTHS * WATCHED):
        time.sleep(max(0, began + (n + 1) * rtt / EIGHTHS - time.monotonic()))
        counted.append([each.received() for each in flows])
    return [
        [(octets[n + EIGHTHS] - octets[n]) * 8 / rtt / FAIR for n in range(EIGHTHS * (WATCHED - 1))]
        for octets in zip(*counted, strict=True)
    ]


def loses_twice(rates: list[float]) -> bool:
    """True if more than 5 % are lost for longer than one round trip.

    A loss that is shorter may be part of two successive round trips, but not of those that begin
    with it.
    """
    phases = [rates[phase::EIGHTHS] for phase in range(EIGHTHS)]
    return all(any(max(pair) < 0.95 for pair in itertools.pairwise(phase)) for phase in phases)


def joined(us: libslbn.Connection, flow: Flow) -> bool:
    return flow.port in {session.source_port for session in us.list()}


@pytest.mark.parametrize("rtt", [40, pytest.param(72, marks=pytest.mark.tier("all"))])
def test_newcomer_gets_its_fair_rate(tmp_path: Path, rtt: int) -> None:
    options = ("--hosts", HOSTS, "--devices", "e1")
    with (
        network(rtt) as net,
        agent(net.nodes[1], tmp_path, *options) as slbnd,
        slbnd.connect() as us,
        contextlib.ExitStack() as stack,
    ):
        # A new link assigns no rates for an epoch.
        time.sleep(1.5)
        old = Flow(net, "cubic")
        stack.callback(old.end)
        wait_for(lambda: joined(us, old))
        time.sleep(1.5)
        new = Flow(net, "cubic")
        stack.callback(new.end)
        wait_for(lambda: joined(us, new))
        others, own = watch([old, new], rtt / 1000)
        shown = "\n".join(" ".join(f"{each:.0%}" for each in line) for line in (others, own))
        print(shown)
        # MUST 9 of docs/protocol.md: no packet was lost, so none was transmitted again.
        assert not any(each.retries for each in us.list()), us.list()
        after = own[EIGHTHS * SETTLED :: EIGHTHS]
        assert sum(after) / len(after) > 0.95, shown
        # Nobody else loses more than 5 % for longer than one round trip.
        assert not loses_twice(others), shown
