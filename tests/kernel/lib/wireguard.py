# SPDX-License-Identifier: GPL-2.0
"""A WireGuard tunnel between two namespaces, configured as wg(8) does, without its package."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass, field

from tests.kernel.lib.genetlink import Genetlink
from tests.kernel.lib.net import Namespace
from tests.kernel.lib.netlink import attribute, nested, u8

PORT = 51820
SET_DEVICE = 1
#: Attributes of enum wgdevice_attribute, wgpeer_attribute and wgallowedip_attribute.
IFNAME, PRIVATE_KEY, LISTEN_PORT, PEERS = 2, 3, 6, 8
PUBLIC_KEY, ENDPOINT, ALLOWED_IPS = 1, 4, 9
FAMILY, ADDRESS, PREFIX = 1, 2, 3
P = 2**255 - 19


def x25519_public(private: bytes) -> bytes:
    """The public key of a private one: the Montgomery ladder of RFC 7748 at the point 9."""
    scalar = bytearray(private)
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    k = int.from_bytes(scalar, "little")
    x2, z2, x3, z3 = 1, 0, 9, 1
    for bit in range(254, -1, -1):
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, 9 * (da - cb) ** 2 % P
        e = a * a - b * b
        x2, z2 = a * a * b * b % P, e * (a * a + 121665 * e) % P
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


@dataclass(frozen=True)
class End:
    """One end of a tunnel: its namespace, the device there, and the address of its underlay."""

    node: Namespace
    device: str
    address: str
    private: bytes = field(default_factory=lambda: os.urandom(32))

    def configure(self, peer: End) -> None:
        """Set the keys, and accept all IPv4 packets of the peer."""
        endpoint = struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT)
        endpoint += socket.inet_aton(peer.address) + bytes(8)
        allowed = attribute(FAMILY, struct.pack("=H", socket.AF_INET))
        allowed += attribute(ADDRESS, bytes(4)) + u8(PREFIX, 0)
        other = attribute(PUBLIC_KEY, x25519_public(peer.private)) + attribute(ENDPOINT, endpoint)
        other += nested(ALLOWED_IPS, nested(0, allowed))
        content = attribute(IFNAME, self.device.encode() + b"\0")
        content += attribute(PRIVATE_KEY, self.private)
        content += attribute(LISTEN_PORT, struct.pack("=H", PORT))
        content += nested(PEERS, nested(0, other))
        with self.node.entered(), contextlib.closing(Genetlink("wireguard")) as family:
            assert family.command(SET_DEVICE, content) == []
