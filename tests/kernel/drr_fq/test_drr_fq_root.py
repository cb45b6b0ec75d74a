# SPDX-License-Identifier: GPL-2.0
"""drr_fq as the root of a busy device: a serial line (SLIP) that is not read.

The line's buffer is full before the device is created.  So the device accepts one packet and stops
its queue, as hardware does, until the line is read.  The next packet has already been dequeued
and is requeued: limits cannot drop it.  No qdisc is between drr_fq and the device, and drr_fq may
be the default qdisc, which has no handle.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import tty
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.lib.drr_fq import HEADER, Statistics, batch, numbered_frame
from tests.kernel.lib.net import sh, wait_for
from tests.kernel.lib.rtnetlink import Rtnetlink, Shown, handle

pytestmark = [pytest.mark.stock, pytest.mark.newer]

TIOCSETD, SIOCGIFNAME, N_SLIP = 0x5423, 0x8910, 1
END, ESC, ESC_END, ESC_ESC = b"\xc0", b"\xdb", b"\xdb\xdc", b"\xdb\xdd"
SO_SNDBUFFORCE = 32
DEFAULT = Path("/proc/sys/net/core/default_qdisc")
IPV6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")


@dataclass
class Line:
    """A SLIP device and the other end of its line."""

    name: str
    master: int
    rtnetlink: Rtnetlink

    @property
    def qdisc(self) -> Shown:
        (shown,) = self.rtnetlink.qdiscs(socket.if_nametoindex(self.name))
        return shown

    @property
    def statistics(self) -> Statistics:
        return Statistics.read(self.qdisc.application)

    def send(self, flow: int, number: int, length: int, priority: int = 0) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as sender:
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            packet = numbered_frame(flow, number, HEADER + length)[HEADER:]
            sender.sendto(packet, (self.name, 0x0800))

    def read(self, packets: int) -> list[tuple[int, int]]:
        """Read PACKETS packets from the line; return the flow and number of each."""
        raw = b""

        def complete() -> bool:
            nonlocal raw
            with contextlib.suppress(BlockingIOError):
                raw += os.read(self.master, 1 << 16)
            return len(frames()) >= packets

        def frames() -> list[bytes]:
            return [frame for frame in raw.split(END)[:-1] if frame]

        wait_for(complete)
        plain = [frame.replace(ESC_END, END).replace(ESC_ESC, ESC) for frame in frames()]
        return [struct.unpack_from("!HI", frame, 28) for frame in plain]


@contextlib.contextmanager
def line(tc: str = "") -> Iterator[Line]:
    """A full line, in the initial network namespace, where SLIP creates its devices."""
    master, slave = os.openpty()
    disabled = IPV6.read_text() if IPV6.exists() else ""
    rtnetlink = Rtnetlink()
    try:
        if disabled:
            IPV6.write_text("1")
        tty.setraw(slave)
        os.set_blocking(master, False)
        os.set_blocking(slave, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(slave, END * 4096)
        fcntl.ioctl(slave, TIOCSETD, struct.pack("=i", N_SLIP))
        name = fcntl.ioctl(slave, SIOCGIFNAME, bytes(16)).rstrip(b"\0").decode()
        batch("ip", f"link set {name} mtu 1500 txqueuelen 500\nlink set {name} up\n")
        if tc:
            batch("tc", tc.format(name))
        yield Line(name, master, rtnetlink)
    finally:
        rtnetlink.close()
        os.close(slave)
        os.close(master)
        if disabled:
            IPV6.write_text(disabled)


def test_root_of_a_busy_device() -> None:
    with line("qdisc add dev {} root handle 10: drr_fq limit 50 quantum 1000\n") as on:
        on.send(9, 0, 100)  # accepted by the device
        on.send(9, 1, 100)  # requeued
        assert on.qdisc.qlen == 1
        for number in range(60):
            on.send(1, number, 1000, handle("10:1"))
            if number < 20:
                on.send(2, number, 500, handle("10:2"))
        shown, statistics = on.qdisc, on.statistics
        # All drops are from the longest queue, that of flow 1.
        assert (shown.qlen, shown.backlog, shown.drops) == (50, 100 + 29 * 1000 + 20 * 500, 31)
        assert (statistics.drops_longest, statistics.longest_flow) == (31, 1)
        assert statistics.new_flows == statistics.active_flows == 2
        arrived = on.read(51)
        assert arrived[:2] == [(9, 0), (9, 1)]
        # In each round, one packet of flow 1 and two of flow 2, while both are backlogged.
        numbers: dict[int, list[int]] = defaultdict(list)
        for place, (flow, number) in enumerate(arrived[2:]):
            numbers[flow].append(number)
            if place < 30:
                assert abs(2 * len(numbers[1]) - len(numbers[2])) <= 2
        assert numbers == {1: list(range(31, 60)), 2: list(range(20))}
        wait_for(lambda: on.qdisc.qlen == 0)
        assert (on.qdisc.backlog, on.statistics.active_flows) == (0, 0)
        assert on.qdisc.sent_packets == 51


def test_default_qdisc_ignores_priorities() -> None:
    """Its handle is 0, like the major number of every ordinary priority."""
    before = DEFAULT.read_text()
    try:
        DEFAULT.write_text("drr_fq")
        with line() as on:
            shown = on.qdisc
            assert (shown.kind, shown.handle) == ("drr_fq", 0)
            on.send(99, 0, 100)
            on.send(99, 1, 100)
            for flow in range(40):
                # A quantum of 1500 has one of them.
                on.send(flow, 0, 1000, priority=6)
                on.send(flow, 1, 1000, priority=flow % 6)
            assert on.qdisc.qlen == 81
            assert on.statistics.active_flows > 30
            arrived = on.read(82)[2:]
            assert sorted(arrived) == [(flow, number) for flow in range(40) for number in (0, 1)]
            firsts = [place for place, (_, number) in enumerate(arrived) if number == 0]
            assert sum(firsts) < 40 * 35, "not served in turns"
    finally:
        DEFAULT.write_text(before)


def test_changes_and_removal_with_the_queue_stopped() -> None:
    with line("qdisc add dev {} root handle 10: drr_fq limit 500\n") as on:
        for number in range(100):
            on.send(number % 7, number, 200)
        assert on.qdisc.qlen == 99
        sh(f"tc qdisc change dev {on.name} root handle 10: drr_fq flows 3 scheduler scfq limit 60")
        assert (on.qdisc.qlen, on.qdisc.drops) == (60, 39)
        sh(f"tc qdisc del dev {on.name} root")
        assert on.read(1) == [(0, 0)]
        subprocess.run(["ip", "link", "set", on.name, "down"], check=True)
