# SPDX-License-Identifier: GPL-2.0
"""One connection through slbnd's pacer, without and with windows: the tables of docs/windows.md.

    scripts/vm --engine virtual --seed 0 --env PYTHONDONTWRITEBYTECODE=1 -- \\
        python3 -m tests.kernel.enforcement.show_windows

CUBIC sends at 20 Mbit/s over a round-trip time of 20 ms (tests/kernel/lib/windows.py).  Prints what
the sender sees every half second, and for some acknowledgments the window at both ends of the path.
"""

from __future__ import annotations

import socket
import struct
import time

from tests.kernel.lib import programs
from tests.kernel.lib.enforcer import enforcer
from tests.kernel.lib.net import Namespace, pending, sh
from tests.kernel.lib.senders import RTT, Traffic, sender, tcp_info
from tests.kernel.lib.slbn import Chain
from tests.kernel.lib.windows import RATE, ROUND_TRIP, SEND_WINDOW, network

#: Offsets in struct tcp_info.
MSS, UNACKED = 16, 24
STEPS, STEP = 6, 0.5
#: The scale of the window is that of the receiver's buffers.
SHOWN = 4


class Capture:
    """Acknowledgments that a device sends or receives: their window field by number."""

    def __init__(self, where: Namespace, device: str, port: int) -> None:
        with where.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
            self.socket.bind((device, 0x0003))
        self.socket.setblocking(False)
        self.port = port
        self.windows: dict[int, int] = {}

    def read(self) -> None:
        for packet in pending(self.socket, 100):
            if len(packet) < 40 or packet[9] != socket.IPPROTO_TCP:
                continue
            source, _, _, ack, flags, window = struct.unpack_from(">HHIIHH", packet, 20)
            if source == self.port and not flags & 2:
                self.windows[ack] = window


def show(net: Chain, on: bool) -> None:
    with enforcer(net.nodes[1], programs.enforce_try(), "e1") as made:
        made.set_windows(on)
        flow = sender(net, 0, 2)
        made.set(flow.session, RATE)
        port = flow.far.getsockname()[1]
        traffic = Traffic(flow)
        traffic.settle(0.4)
        print(f"With `--windows {'on' if on else 'off'}`:\n")
        print("| time, s | window, kB | in flight, kB | delay, ms | dropped |")
        print("| ---: | ---: | ---: | ---: | ---: |")
        for step in range(1, STEPS + 1):
            captures = [
                Capture(net.nodes[2], "w1", port),
                Capture(net.nodes[0], "e0", port),
            ]
            end = time.monotonic() + STEP
            while time.monotonic() < end:
                traffic.run(0.005)
                for capture in captures:
                    capture.read()
            flight = tcp_info(flow, UNACKED) * tcp_info(flow, MSS)
            delay = tcp_info(flow, RTT) / 1000 - ROUND_TRIP
            print(
                f"| {step * STEP:.1f} | {tcp_info(flow, SEND_WINDOW) / 1000:.0f} |"
                f" {flight / 1000:.0f} | {delay:.1f} | {made.read(flow.session).drops} |"
            )
        sent, arrived = (capture.windows for capture in captures)
        numbers = sorted(sent.keys() & arrived.keys())[-SHOWN:]
        print("\n| acknowledged | window of the receiver | window that arrives |")
        print("| ---: | ---: | ---: |")
        for number in numbers:
            print(f"| {number - numbers[0]:+d} | {sent[number]} | {arrived[number]} |")
        print(flush=True)
        flow.abort()


def main() -> None:
    sh("modprobe sch_slbn")
    for on in (False, True):
        with network() as net:
            show(net, on)


if __name__ == "__main__":
    main()
