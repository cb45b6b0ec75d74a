# SPDX-License-Identifier: GPL-2.0
"""What unassigned packets cost the sessions of a link that had measured none.

The network is that of test_marks_escape.py, and the slow link has `headroom auto`: after some
epochs without unassigned packets, sessions have what is reserved for these.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.enforcement.test_marks_escape import (
    DATAGRAM,
    FIFOS,
    GROUP,
    HOST,
    OPTIONS,
    OUTSIDE,
    SERVER,
    SLOW,
    flooding,
    network,
)
from tests.kernel.lib.drr_fq import Band, wait_of
from tests.kernel.lib.net import wait_for
from tests.kernel.lib.rtnetlink import Rtnetlink, handle
from tests.kernel.lib.slbn import Chain
from tests.kernel.lib.slbnd import agent

pytestmark = [pytest.mark.virtual, pytest.mark.tier("all")]

#: Of the link: what its bands give to unassigned packets, and what is reserved for them at most.
UNASSIGNED = "4%"
#: What sessions have then, less what control packets may take.
ALL = 0.975 * SLOW
EPOCH = 1.0
BANDS = f"drr_fq limit 400 bands unassigned {UNASSIGNED} domain {GROUP} {FIFOS}"
LINK = f"slbn rate {SLOW} edge headroom auto unassigned {UNASSIGNED}"
CLASS = handle("3:2")


class Waits:
    """Of the assigned packets that the slow link has sent."""

    def __init__(self, net: Chain) -> None:
        with net.nodes[2].entered():
            self.rtnetlink = Rtnetlink()
            self.index = socket.if_nametoindex("e2")
        self.before = self.read()

    def read(self) -> tuple[int, ...]:
        (shown,) = (one for one in self.rtnetlink.classes(self.index) if one.handle == CLASS)
        return Band.read(shown).waits

    def longest(self) -> float:
        """Since the last call [s]."""
        now = self.read()
        new = [after - before for after, before in zip(now, self.before, strict=True)]
        self.before = now
        return wait_of(max(step for step, count in enumerate(new) if count) + 1)


@contextlib.contextmanager
def session(net: Chain) -> Iterator[Callable[..., None]]:
    """Sends more than the link carries, and four datagrams of a flood with each."""
    with net.nodes[0].entered():
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(seconds: float, flood: Callable[[int], None] | None = None) -> None:
        began, sent, age = time.monotonic(), 0, 0.0
        while age < seconds:
            while sent * 1442 * 8 < age * 1.2 * SLOW:
                near.sendto(DATAGRAM, (SERVER, 7))
                sent += 1
                for number in range(4 * sent, 4 * sent + 4):
                    if flood:
                        flood(number)
            time.sleep(0.002)
            age = time.monotonic() - began

    with contextlib.closing(near):
        near.bind((HOST, 0))
        yield send


def test_queue_of_a_flood_ends_after_its_third_epoch(tmp_path: Path) -> None:
    with (
        network(FIFOS) as (net, outside),
        agent(net.nodes[1], tmp_path, *OPTIONS) as slbnd,
        session(net) as send,
        slbnd.connect() as us,
        flooding(outside, OUTSIDE, (0,)) as flood,
    ):
        net.tc(2, f"qdisc replace dev e2 parent 2:2 handle 3: {BANDS}")
        net.tc(2, f"qdisc change dev e2 parent 1:1 handle 2: {LINK}")

        def has_all() -> bool:
            send(0.2)
            return any(each.rate > ALL for each in us.list())

        wait_for(has_all)
        waits = Waits(net)
        send(2 * EPOCH)
        assert waits.longest() < 0.002
        # Sessions have the 4 % until the flood is measured and their rates have followed: for up
        # to an epoch and a cycle.  Twice as much is taken from them for two epochs.
        send(2 * EPOCH, flood)
        assert 0.02 < waits.longest() < 0.06
        assert us.list()[0].rate < ALL - 0.05 * SLOW
        send(EPOCH, flood)
        waits.longest()
        send(3 * EPOCH, flood)
        assert waits.longest() < 0.005
        assert ALL - 0.03 * SLOW < us.list()[0].rate < ALL - 0.01 * SLOW
        # Four quiet epochs, and what has begun of others.
        send(6 * EPOCH)
        assert us.list()[0].rate > ALL
