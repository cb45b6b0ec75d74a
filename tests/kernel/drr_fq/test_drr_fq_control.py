# SPDX-License-Identifier: GPL-2.0
"""drr_fq's control band: packets with TC_PRIO_CONTROL are first, but bounded."""

from __future__ import annotations

import socket
import struct
from collections import Counter

import pytest

from tests.kernel.lib.drr_fq import HEADER, HEADERS, MTU, SMALLEST, batch, link, valved
from tests.kernel.lib.net import wait_for

TC_PRIO_CONTROL = 7
FULL = MTU + HEADER
#: drr_fq_core.h [bytes]
BURST, LARGEST, SHARE = 16384, 65536, 8


def test_control_packets_are_sent_first() -> None:
    with valved() as on:
        on.send(1, FULL, 20)
        on.send(9, 100, 5, priority=TC_PRIO_CONTROL)
        assert on.statistics.active_flows == 1
        on.check_backlogs()
        on.open_valve()
        arrived = on.drain()
        assert [each.flow for each in arrived] == [9] * 5 + [1] * 20
        assert [each.number for each in arrived[:5]] == list(range(5))
        assert (on.statistics.control_packets, on.statistics.control_hashed) == (5, 0)
        on.check_empty()
        batch("ip", "link set a0 down\nlink set a0 up\n")
        assert on.statistics.control_packets >= 5


def test_control_packets_cannot_starve_flows() -> None:
    """A burst, and an eighth of what the flows send."""
    with valved() as on:
        on.send(1, FULL, 100)
        on.send(9, 1500, 40, priority=TC_PRIO_CONTROL)
        on.open_valve()
        sent: Counter[int] = Counter()
        for each in on.drain():
            sent[each.flow] += each.length
            # After the last packet of the flow, the rest of the band is free.
            if sent[1] < 100 * FULL:
                due = BURST + sent[1] / SHARE
                assert sent[9] <= due
                assert each.flow == 9 or sent[9] + 1500 + FULL > due
        assert sent == {1: 100 * FULL, 9: 40 * 1500}
        on.check_empty()


def test_control_packets_beyond_the_band_are_hashed() -> None:
    with valved() as on:
        on.send(9, 1500, 50, priority=TC_PRIO_CONTROL)
        fit = LARGEST // 1500
        assert on.statistics.control_hashed == 50 - fit
        assert [each.qlen for each in on.queues.values()] == [50 - fit]
        on.check_backlogs()
        on.open_valve()
        assert len(on.drain()) == 50
        on.check_empty()


def test_limits_drop_control_packets_last() -> None:
    with valved("limit 20") as on:
        held = on.shown("10:").qlen
        on.send(9, 100, 4, priority=TC_PRIO_CONTROL)
        on.send(1, FULL, 30)
        assert on.queues[1].qlen == 16 - held
        on.send(9, 100, 4, priority=TC_PRIO_CONTROL)
        assert on.queues[1].qlen == 12 - held
        on.change(limit=6)
        assert on.queues == {}
        assert on.shown("10:").qlen == 6
        on.check_backlogs()
        on.open_valve()
        assert [each.number for each in on.drain() if each.flow == 9] == list(range(2 + held, 8))
        on.check_empty()


@pytest.mark.parametrize("options", ["limit 100", "limit_bytes 10kb", "memory_limit 64kb"])
def test_control_packets_leave_half_of_each_limit(options: str) -> None:
    """Small ones could take the whole limit, and each packet of a flow would be dropped at once."""
    with valved(options) as on:
        on.send(9, SMALLEST, 1000, priority=TC_PRIO_CONTROL)
        full = on.shown("10:").qlen
        in_band = full - sum(each.qlen for each in on.queues.values())
        assert full // 2 - 2 <= in_band <= full // 2 + 1
        on.send(1, FULL, 10)
        assert on.queues[1].qlen > 0
        on.check_backlogs()
        on.open_valve()
        assert {each.flow for each in on.drain()} == {1, 9}
        on.check_empty()


def test_changes_and_reset_keep_the_band_consistent() -> None:
    with valved() as on:
        on.send(9, 100, 4, priority=TC_PRIO_CONTROL)
        on.send(1, FULL, 4)
        on.change(flows=7, scheduler=2)
        on.check_backlogs()
        assert on.statistics.active_flows == 1
        batch("tc", "qdisc del dev a0 root\n")


def forwarded_frame(tos: int) -> bytes:
    """UDP from 10.0.0.2 to 10.9.0.1, at the router's device a0."""
    addresses = socket.inet_aton("10.0.0.2") + socket.inet_aton("10.9.0.1")
    udp = struct.pack("!HHHH", 1024 + tos, 9, 8, 0)
    fields = struct.pack("!BBHHHBB", 0x45, tos, 28, 0, 0, 64, 17)
    total = sum(struct.unpack("!9H", fields + addresses))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip = fields + struct.pack("!H", total ^ 0xFFFF) + addresses
    return bytes.fromhex("0200000000010200000000020800") + ip + udp + bytes(60 - HEADERS)


def test_no_tos_of_a_forwarded_packet_is_control() -> None:
    """Nor is the priority of a sender in front of veth."""
    with link() as on:
        batch(
            "ip",
            """link add c0 type veth peer name d0
            link set c0 up
            link set d0 up
            route add 10.9.0.0/24 dev c0
            neigh add 10.9.0.1 lladdr 02:00:00:00:00:04 dev c0
            """,
        )
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1")
        # With split-gso, packets cannot bypass the qdisc.
        batch("tc", "qdisc add dev c0 root handle 10: drr_fq split-gso\n")
        index = socket.if_nametoindex("c0")

        def shown() -> tuple[int, int]:
            (qdisc,) = on.rtnetlink.qdiscs(index)
            application = struct.unpack_from("=II6Q6I4Q", qdisc.application)
            return qdisc.sent_packets, application[-2]

        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
            sender.bind(("b0", 0))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, TC_PRIO_CONTROL)
            for tos in range(256):
                sender.send(forwarded_frame(tos))
            wait_for(lambda: shown()[0] >= 256)
            assert shown()[1] == 0
            sender.bind(("c0", 0))
            sender.send(forwarded_frame(0))
            wait_for(lambda: shown()[1] == 1)
