# SPDX-License-Identifier: GPL-2.0
"""Handwritten packets: valid ones of each type, and invalid ones for each parse result.

The fuzzer of the parser starts from them; tests compare the parser and the dissector with them.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from tests.kernel.lib.slbn_wire import (
    AGAIN,
    AUTH,
    AUTH_LENGTH,
    HEADER,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    MAGIC,
    NO_HOP,
    PAD,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    SHARE,
    SHARE_VALUE,
    SLOT_V6,
    TRACE,
    TRACE_VALUE,
    WEIGHT_MAX,
    Packet,
    option,
)

PACKET = Packet(
    type=PROBE,
    seq=7,
    hop=2,
    slots=4,
    bottleneck=1,
    bw2=16 * 10**6,
    bw1=15 * 10**6,
    bw=15 * 10**6,
    use1=10**6,
    use=9 * 10**6,
    B=0b10,
    tags={0: 21173, 1: 1, 3: 0xFFFF},
    codes={0: 12 << 11 | 1024, 3: 0xFFFF},
    returns={0: (0, "10.0.8.2"), 1: (1, "2.3.4.5"), 2: (0xFFFF, "10.255.0.1")},
    id=bytes(range(16)),
)
FULL = replace(
    PACKET, slots=64, hop=64, bottleneck=63, B=1 << 63 | 1, tags={hop: hop for hop in range(64)}
)
RETURNS_V6 = {n: (n, f"fd00::{n + 1}") for n in range(65)}
END = len(PACKET.pack())
AUTHENTIC = option(AUTH, bytes(range(AUTH_LENGTH)))
TRACED = option(TRACE, TRACE_VALUE.pack(1, 1, 62, 0, 3028, 50 * 10**6, 10**7, 12, 4 * 10**7))
SHARED = option(SHARE, SHARE_VALUE.pack(2, 1, 40 * 10**6))
#: As version 1 encodes a Join over at most two hops.
VERSION_1 = struct.pack(
    "!IBBHIBBBB16s5Q2H",
    MAGIC,
    1,
    JOIN,
    76,
    0,
    0,
    2,
    NO_HOP,
    0,
    PACKET.id,
    0,
    0,
    *[RATE_MAX] * 2,
    0,
    0,
    0,
)

RATES = ["bw", "bw1", "bw2", "use1", "use", "g"]


def with_rates(rate: int, *names: str) -> Packet:
    """PACKET with these rates, or all."""
    changes: dict[str, Any] = dict.fromkeys(names or RATES, rate)
    return replace(PACKET, **changes)


#: Valid packets.
VALID = {
    "join": Packet(type=JOIN, id=PACKET.id),
    "probe": PACKET,
    "probe ack": replace(PACKET, type=PROBE_ACK, seq=0xFFFFFFFF, g=12 * 10**6, epoch=2 * 10**6),
    "retransmitted": replace(PACKET, flags=AGAIN),
    "leave": replace(PACKET, type=LEAVE),
    "leave ack": replace(PACKET, type=LEAVE_ACK, hop=0),
    "all hops": FULL,
    "no hop": replace(PACKET, bottleneck=NO_HOP, B=0),
    "every hop": replace(FULL, B=(1 << 64) - 1),
    "slots 1": replace(PACKET, slots=1, B=1, hop=1, bottleneck=0),
    "slots 3": replace(PACKET, slots=3),
    "largest rates": with_rates(RATE_MAX),
    "smallest rates": with_rates(0),
    "largest weight": replace(PACKET, weight=WEIGHT_MAX),
    "epoch 0": replace(PACKET, epoch=0),
    "IPv6 routers": replace(PACKET, slot_length=SLOT_V6, returns=RETURNS_V6),
    "longest": replace(FULL, slot_length=SLOT_V6, returns=RETURNS_V6, options=AUTHENTIC),
    "authentic": replace(PACKET, options=AUTHENTIC),
    "padded": replace(PACKET, options=option(PAD, b"") + AUTHENTIC + option(PAD, bytes(255))),
    "unknown options": replace(
        PACKET, options=option(4, b"") + option(200, b"x" * 99) + AUTHENTIC + option(255, b"y")
    ),
    "trace asked": replace(PACKET, options=option(TRACE, b"\2" + bytes(39)) + AUTHENTIC),
    "trace written": replace(PACKET, options=TRACED),
    "share asked": replace(
        PACKET, options=AUTHENTIC + option(SHARE, SHARE_VALUE.pack(0, 0, RATE_MAX))
    ),
    "share stated": replace(PACKET, options=SHARED + TRACED),
    "unknown flags": replace(PACKET, flags=0xFE),
}

#: Invalid packets by parse result, as in enum slbn_parse_result.
INVALID: dict[str, dict[str, bytes]] = {
    "truncated": {
        "empty": b"",
        "magic only": PACKET.pack()[:4],
        "version only": PACKET.pack()[:7],
        "half a header": PACKET.pack()[:36],
        "almost a header": PACKET.pack()[: HEADER.size - 1],
        "half the slots": PACKET.pack()[: HEADER.size + 8],
        "length beyond the end": replace(PACKET, length=END + 1).pack(),
        "length before the slots": replace(PACKET, length=HEADER.size).pack(),
        "length within the slots": replace(PACKET, length=END - 1).pack(),
        "length within longer slots": replace(
            PACKET, slot_length=SLOT_V6, returns=RETURNS_V6, length=END
        ).pack(),
        "length 0": replace(PACKET, length=0).pack(),
        "half an option": replace(PACKET, length=END + 1).pack() + bytes([PAD]),
        "option beyond the end": replace(PACKET, length=END + 4).pack() + bytes([7, 3, 1, 2]),
        "authentication beyond the end": replace(PACKET, options=AUTHENTIC).pack()[:-1],
    },
    "not_slbn": {
        "no magic": replace(PACKET, magic=MAGIC + 1).pack(),
        "no magic, version 1": replace(PACKET, magic=MAGIC - 1, version=1).pack(),
    },
    "bad_version": {
        "version 0": replace(PACKET, version=0).pack(),
        "version 1": VERSION_1,
        "version 3": replace(PACKET, version=3).pack(),
        "version 3, short": replace(PACKET, version=3).pack()[:8],
    },
    "bad_type": {f"type {kind}": replace(PACKET, type=kind).pack() for kind in (0, 6, 255)},
    "bad_hops": {
        "slots 0": replace(PACKET, slots=0, hop=0, bottleneck=NO_HOP, B=0).pack(),
        "slots 65": replace(FULL, slots=65, tags={}).pack(),
        "slots 66": replace(FULL, slots=66, tags={}).pack(),
        "slots 254": replace(FULL, slots=254, tags={}).pack(),
        "slot length 0": replace(PACKET, slot_length=0).pack(),
        "slot length 2": replace(PACKET, slot_length=2).pack(),
        "slot length 4": replace(PACKET, slot_length=4).pack(),
        "slot length 11": replace(PACKET, slot_length=11).pack(),
        "slot length 255": replace(PACKET, slot_length=255).pack(),
        "hop beyond slots": replace(PACKET, hop=5).pack(),
        "hop 255": replace(PACKET, hop=255).pack(),
        "bottleneck is slots": replace(PACKET, bottleneck=4).pack(),
        "bottleneck 254": replace(FULL, bottleneck=254).pack(),
        "B beyond slots": replace(PACKET, B=1 << 4).pack(),
        "B far beyond slots": replace(PACKET, B=1 << 63).pack(),
    },
    "bad_rate": {
        **{f"{name} too large": with_rates(RATE_MAX + 1, name).pack() for name in RATES},
        "share too large": replace(
            PACKET, options=option(SHARE, SHARE_VALUE.pack(0, 0, RATE_MAX + 1))
        ).pack(),
        "bw2 far too large": replace(PACKET, bw2=(1 << 64) - 1).pack(),
    },
    "bad_weight": {
        f"weight {weight}": replace(PACKET, weight=weight).pack()
        for weight in (0, WEIGHT_MAX + 1, (1 << 24) - 1)
    },
    "bad_option": {
        "authentication too short": replace(
            PACKET, options=option(AUTH, bytes(AUTH_LENGTH - 1))
        ).pack(),
        "authentication too long": replace(
            PACKET, options=option(AUTH, bytes(AUTH_LENGTH + 1))
        ).pack(),
        "authentication of version 1": replace(PACKET, options=option(AUTH, bytes(8))).pack(),
        "authentication empty": replace(PACKET, options=option(AUTH, b"")).pack(),
        "share too short": replace(PACKET, options=option(SHARE, bytes(15))).pack(),
        "share too long": replace(PACKET, options=option(SHARE, bytes(17))).pack(),
        "share twice": replace(PACKET, options=SHARED + SHARED).pack(),
        "trace too short": replace(PACKET, options=option(TRACE, bytes(39))).pack(),
        "trace too long": replace(PACKET, options=option(TRACE, bytes(41))).pack(),
        "trace empty": replace(PACKET, options=option(TRACE, b"")).pack(),
        "trace twice": replace(PACKET, options=TRACED + AUTHENTIC + TRACED).pack(),
        "authentication twice": replace(
            PACKET, options=AUTHENTIC + option(PAD, b"x") + AUTHENTIC
        ).pack(),
    },
}

#: Name, parse result and octets of each packet.
SEEDS: list[tuple[str, str, bytes]] = [
    *((name, "ok", packet.pack()) for name, packet in VALID.items()),
    *(
        (name, result, octets)
        for result, packets in INVALID.items()
        for name, octets in packets.items()
    ),
    # Octets that follow the packet in its datagram are ignored.
    ("trailer", "ok", PACKET.pack() + b"\xff" * 30),
]
