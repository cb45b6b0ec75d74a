# SPDX-License-Identifier: GPL-2.0
"""Malformed frames: each is classified as some flow, counted, and sent.

All are queued behind a closed valve, since packets bypass an idle qdisc.  The VM also fails the
tests if the kernel logs a warning.
"""

from __future__ import annotations

import errno
import random
import socket
import struct

import pytest

from tests.kernel.lib.drr_fq import HEADER, MTU, SMALLEST, Link, numbered_frame, valved
from tests.kernel.lib.net import pending, wait_for

MACS = bytes.fromhex("020000000002020000000001")
SOL_PACKET, PACKET_VNET_HDR = 263, 15
SO_SNDBUFFORCE = 32

IPV4 = numbered_frame(1, 1, 200)[HEADER:]
TCP = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x18, 100, 0, 0)
IPV6_ADDRESSES = bytes(15) + b"\1" + bytes(15) + b"\2"


def ethernet(kind: int, content: bytes) -> bytes:
    return (MACS + struct.pack("!H", kind) + content)[: MTU + HEADER]


def ipv4(protocol: int, content: bytes, words: int = 5, fragment: int = 0) -> bytes:
    head = struct.pack(
        "!BBHHHBBH", 0x40 | words, 0, 20 + len(content), 7, fragment, 64, protocol, 0
    )
    return head + socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2") + content


def ipv6(following: int, content: bytes, length: int | None = None) -> bytes:
    if length is None:
        length = len(content)
    return struct.pack("!IHBB", 6 << 28, length, following, 64) + IPV6_ADDRESSES + content


def chain(count: int) -> bytes:
    """IPv6 with COUNT extension headers: hop-by-hop, routing and destination options in turn."""
    kinds = [(0, 43, 60)[i % 3] for i in range(count)] + [17]
    headers = b"".join(bytes([kind, 0]) + bytes(6) for kind in kinds[1:])
    return ipv6(kinds[0], headers + struct.pack("!HHHH", 5, 6, 8, 0))


def vxlan(inner: bytes) -> bytes:
    head = struct.pack("!HHHH", 1234, 4789, 16 + len(inner), 0)
    return ipv4(17, head + struct.pack("!II", 1 << 27, 5 << 8) + inner)


def gre(kind: int, inner: bytes, flags: int = 0) -> bytes:
    return ipv4(47, struct.pack("!HH", flags, kind) + inner)


def nested(depth: int) -> bytes:
    """IPv4 in GRE in IPv4 in VXLAN in IPv4 ..., DEPTH levels."""
    packet = IPV4
    for level in range(depth):
        packet = vxlan(ethernet(0x0800, packet)) if level % 2 else gre(0x0800, packet)
    return packet


def vlans(count: int, content: bytes) -> bytes:
    tags = b"".join(struct.pack("!HH", 5, 0x8100) for _ in range(count - 1))
    return ethernet(0x88A8, tags + struct.pack("!HH", 6, 0x0800) + content)


def mpls(labels: int, content: bytes, bottom: bool = True) -> bytes:
    stack = [(16 + i) << 12 | 64 for i in range(labels)]
    if bottom:
        stack[-1] |= 1 << 8
    return ethernet(0x8847, b"".join(struct.pack("!I", each) for each in stack) + content)


FRAMES = {
    "only addresses": MACS + b"\x08\x00",
    "one byte of IPv4": ethernet(0x0800, b"\x45"),
    "IPv4 header, truncated": ethernet(0x0800, IPV4[:10]),
    "only an IPv4 header": ethernet(0x0800, ipv4(6, b"")),
    "IPv4 of version 0": ethernet(0x0800, b"\x05" + IPV4[1:]),
    "IPv4 header of length 0": ethernet(0x0800, ipv4(17, bytes(8), words=0)),
    "IPv4 header length beyond the end": ethernet(0x0800, ipv4(17, b"", words=15)),
    "first fragment": ethernet(0x0800, ipv4(17, bytes(100), fragment=0x2000)),
    "first fragment, too short for ports": ethernet(0x0800, ipv4(6, b"ab", fragment=0x2000)),
    "last fragment": ethernet(0x0800, ipv4(17, bytes(100), fragment=0x1FFF)),
    "UDP without data": ethernet(0x0800, ipv4(17, struct.pack("!HHHH", 1, 2, 8, 0))),
    "UDP header, truncated": ethernet(0x0800, ipv4(17, b"\0\1\0")),
    "TCP": ethernet(0x0800, ipv4(6, TCP)),
    "TCP options beyond the end": ethernet(0x0800, ipv4(6, TCP[:12] + b"\xf0" + TCP[13:])),
    "TCP header of length 0": ethernet(0x0800, ipv4(6, TCP[:12] + b"\0" + TCP[13:])),
    "IPv4 in IPv4 in IPv4": ethernet(0x0800, ipv4(4, ipv4(4, ipv4(4, IPV4)))),
    "IPv6 in IPv4 in IPv6": ethernet(0x86DD, ipv6(4, ipv4(41, chain(0)))),
    "IPv6": ethernet(0x86DD, chain(0)),
    "IPv6 with 3 extension headers": ethernet(0x86DD, chain(3)),
    "IPv6 with 150 extension headers": ethernet(0x86DD, chain(150)),
    "IPv6 payload length 0": ethernet(0x86DD, ipv6(17, bytes(8), 0)),
    "IPv6 payload length beyond the end": ethernet(0x86DD, ipv6(17, bytes(8), 0xFFFF)),
    "IPv6 extension header beyond the end": ethernet(0x86DD, ipv6(0, b"\x11\xff" + bytes(6))),
    "IPv6 extension header truncated": ethernet(0x86DD, ipv6(60, b"\x11")),
    "IPv6 fragment": ethernet(0x86DD, ipv6(44, b"\x11\0\0\1" + bytes(20))),
    "IPv6 authentication header": ethernet(0x86DD, ipv6(51, b"\x11\xff" + bytes(10))),
    "IPv6 header, truncated": ethernet(0x86DD, chain(0)[:20]),
    "IPv6 with the EtherType of IPv4": ethernet(0x0800, chain(2)),
    "VLAN": vlans(1, IPV4),
    "nested VLANs": vlans(8, IPV4),
    "300 VLANs without payload": vlans(300, b""),
    "VLAN tag, truncated": ethernet(0x8100, b"\0"),
    "MPLS": mpls(1, IPV4),
    "MPLS without a bottom": mpls(300, b"", bottom=False),
    "MPLS entropy label": ethernet(0x8847, struct.pack("!II", 7 << 12, 99 << 12 | 1 << 8) + IPV4),
    "MPLS label, truncated": ethernet(0x8847, b"\0\1"),
    "PPPoE": ethernet(0x8864, struct.pack("!BBHHH", 0x11, 0, 9, 202, 0x0021) + IPV4),
    "PPPoE without a protocol": ethernet(0x8864, struct.pack("!BBHH", 0x11, 0, 9, 0)),
    "PPPoE of another version": ethernet(0x8864, struct.pack("!BBHHH", 0x22, 1, 9, 202, 0x21)),
    "GRE": ethernet(0x0800, gre(0x0800, IPV4)),
    "GRE with all flags, without payload": ethernet(0x0800, gre(0x0800, b"", flags=0xB000)),
    "GRE with PPP": ethernet(0x0800, gre(0x880B, bytes(20), flags=0x3001)),
    "GRE with Ethernet": ethernet(0x0800, gre(0x6558, ethernet(0x0800, IPV4))),
    "VXLAN": ethernet(0x0800, vxlan(ethernet(0x0800, IPV4))),
    "40 tunnels": ethernet(0x0800, nested(40)),
    "ARP": ethernet(0x0806, struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + bytes(20)),
    "ARP, truncated": ethernet(0x0806, b"\0\1\x08"),
    "TIPC": ethernet(0x88CA, bytes(24)),
    "batman": ethernet(0x4305, bytes(30)),
    "LLC": ethernet(0x0040, b"\xaa\xaa\x03" + bytes(40)),
    "FCoE": ethernet(0x8906, bytes(40)),
    "PTP": ethernet(0x88F7, bytes(2)),
    "HSR": ethernet(0x892F, bytes(2)),
}


def drain(on: Link) -> None:
    on.open_valve()
    wait_for(lambda: not any(each.qlen for each in on.qdiscs().values()))
    on.check_empty()


@pytest.mark.parametrize("options", ["", "split-gso scheduler scfq"])
def test_malformed_frames(options: str) -> None:
    with valved(f"limit 10000 {options}") as on:
        for frame in FRAMES.values():
            for _ in range(3):
                assert on.inject(frame)
        shown = on.shown("10:")
        assert (shown.qlen, shown.drops) == (3 * len(FRAMES), 0)
        assert shown.backlog == 3 * sum(map(len, FRAMES.values()))
        statistics = on.statistics
        # Frames without flow information share queues.
        assert 10 <= statistics.active_flows <= len(FRAMES)
        assert sum(each.qlen for each in on.queues.values()) == shown.qlen
        on.check_backlogs()
        drain(on)


def test_frames_truncated_anywhere() -> None:
    with valved("limit 100000") as on:
        count = size = 0
        for frame in FRAMES.values():
            for end in range(HEADER, min(len(frame), 120)):
                assert on.inject(frame[:end])
                count += 1
                size += end
        assert count > 2000
        assert (on.shown("10:").qlen, on.shown("10:").backlog) == (count, size)
        on.check_backlogs()
        drain(on)


def test_frames_of_random_bytes() -> None:
    """Random bytes everywhere, from the network header on, or in a few places."""
    rng = random.Random(11)
    kinds = sorted({frame[12:14] for frame in FRAMES.values()})
    odd = list(FRAMES.values())
    with valved("limit 300 limit_bytes 100kb flows 16") as on:
        sent = 0
        for _ in range(4000):
            sort = rng.randrange(3)
            if sort == 0:
                frame = rng.randbytes(rng.randrange(HEADER, 300))
            elif sort == 1:
                frame = MACS + rng.choice(kinds) + rng.randbytes(rng.randrange(200))
            else:
                changed = bytearray(rng.choice(odd))
                for _ in range(rng.randrange(1, 5)):
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
                frame = bytes(changed)
            assert on.inject(frame)
            sent += 1
        shown = on.shown("10:")
        assert shown.qlen + shown.drops == sent
        on.check_backlogs()
        drain(on)


@pytest.mark.parametrize("options", ["", "split-gso"])
def test_malformed_gso_packets(options: str) -> None:
    """As from a guest's virtio-net: sizes, types and checksums that do not match the packet."""
    rng = random.Random(12)
    with valved(f"limit 300 {options}", "prio/htb/drr", burst=70_000) as on:
        accepted = rejected = 0
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
            sender.bind(("a0", 0))
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 29)
            sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            for _ in range(1500):
                sort = rng.randrange(4)
                if sort < 2:
                    # A consistent header, except for its numbers.
                    protocol, head, kind = ((6, TCP, 1), (17, bytes(8), rng.choice((3, 5))))[sort]
                    data = head + bytes(rng.choice((0, 1, 100, 1448, 3000, 20_000)))
                    frame = MACS + b"\x08\x00" + ipv4(protocol, data)
                    offset = 16 if protocol == 6 else 6
                    flags, start = 1, HEADER + 20
                else:
                    frame = rng.choice(list(FRAMES.values())) + bytes(rng.choice((0, 2000)))
                    kind = rng.choice((0, 1, 3, 4, 5, 0x81))
                    flags, start, offset = rng.randrange(4), rng.randrange(60), rng.randrange(20)
                size = rng.choice((0, 1, 8, 100, 536, 1448, 1460, 9000, 65535))
                length = rng.choice((0, start, start + 20, 14, 54, len(frame), 65535))
                header = struct.pack("=BBHHHH", flags, kind, length, size, start, offset)
                try:
                    sender.send(header + frame)
                    accepted += 1
                except OSError as error:
                    assert error.errno in (errno.EINVAL, errno.EMSGSIZE, errno.ENOBUFS)
                    rejected += 1
        assert accepted > 100 and rejected > 100
        shown = on.shown("10:")
        assert shown.qlen <= 300
        on.check_backlogs()
        if options:
            assert on.statistics.gso_split > 20
        for _ in pending(on.receiver):
            pass
        drain(on)


def test_minimum_and_maximum_length() -> None:
    with valved("limit 10") as on:
        for length in (HEADER, HEADER + 1, SMALLEST, MTU + HEADER):
            assert on.inject(MACS + b"\x08\x00" + bytes(length - HEADER))
        assert on.shown("10:").backlog == HEADER + HEADER + 1 + SMALLEST + MTU + HEADER
        assert on.statistics.max_packet == MTU + HEADER
        drain(on)
