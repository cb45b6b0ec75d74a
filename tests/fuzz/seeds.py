# SPDX-License-Identifier: GPL-2.0
"""Handwritten packets: valid ones of each type, and invalid ones for each parse result.

The fuzzer of the parser starts from them; tests compare the parser and the dissector with them.
"""

from __future__ import annotations

from dataclasses import replace

from tests.kernel.slbn_wire import (
    AUTH,
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
    demand=10**9,
    B=0b10,
    tags={0: 21173, 1: 1, 3: 0xFFFF},
    id=bytes(range(16)),
)
FULL = replace(
    PACKET, slots=64, hop=64, bottleneck=63, B=1 << 63 | 1, tags={hop: hop for hop in range(64)}
)
AUTHENTIC = option(AUTH, bytes(range(8)))

#: Valid packets.
VALID = {
    "join": Packet(type=JOIN, id=PACKET.id),
    "probe": PACKET,
    "probe ack": replace(PACKET, type=PROBE_ACK, seq=0xFFFFFFFF),
    "leave": replace(PACKET, type=LEAVE),
    "leave ack": replace(PACKET, type=LEAVE_ACK, hop=0),
    "all hops": FULL,
    "no hop": replace(PACKET, bottleneck=NO_HOP, B=0),
    "every hop": replace(FULL, B=(1 << 64) - 1),
    "slots 2": replace(PACKET, slots=2, B=3, hop=2),
    "largest rates": replace(PACKET, bw=RATE_MAX, bw1=RATE_MAX, bw2=RATE_MAX, demand=RATE_MAX),
    "smallest rates": replace(PACKET, bw=0, bw1=0, bw2=0, demand=1),
    "authentic": replace(PACKET, options=AUTHENTIC),
    "padded": replace(PACKET, options=option(PAD, b"") + AUTHENTIC + option(PAD, bytes(255))),
    "unknown options": replace(
        PACKET, options=option(2, b"") + option(200, b"x" * 99) + AUTHENTIC + option(255, b"y")
    ),
    "reserved": replace(PACKET, reserved=0xAB),
}

#: Invalid packets by parse result, as in enum slbn_parse_result.
INVALID: dict[str, dict[str, bytes]] = {
    "truncated": {
        "empty": b"",
        "magic only": PACKET.pack()[:4],
        "half a header": PACKET.pack()[:36],
        "almost a header": PACKET.pack()[: HEADER.size - 1],
        "half the tags": PACKET.pack()[: HEADER.size + 4],
        "length beyond the end": replace(PACKET, length=81).pack(),
        "length before the tags": replace(PACKET, length=HEADER.size).pack(),
        "length within the tags": replace(PACKET, length=HEADER.size + 7).pack(),
        "length 0": replace(PACKET, length=0).pack(),
        "half an option": replace(PACKET, length=81).pack() + bytes([PAD]),
        "option beyond the end": replace(PACKET, length=84).pack() + bytes([7, 3, 1, 2]),
        "authentication beyond the end": replace(PACKET, options=AUTHENTIC).pack()[:-1],
    },
    "not_slbn": {
        "no magic": replace(PACKET, magic=MAGIC + 1).pack(),
        "version 0": replace(PACKET, version=0).pack(),
        "version 2": replace(PACKET, version=2).pack(),
    },
    "bad_type": {f"type {kind}": replace(PACKET, type=kind).pack() for kind in (0, 6, 255)},
    "bad_hops": {
        "slots 0": replace(PACKET, slots=0, hop=0, bottleneck=NO_HOP, B=0).pack(),
        "slots 3": replace(PACKET, slots=3).pack(),
        "slots 66": replace(FULL, slots=66, tags={}).pack(),
        "slots 254": replace(FULL, slots=254, tags={}).pack(),
        "hop beyond slots": replace(PACKET, hop=5).pack(),
        "hop 255": replace(PACKET, hop=255).pack(),
        "bottleneck is slots": replace(PACKET, bottleneck=4).pack(),
        "bottleneck 254": replace(FULL, bottleneck=254).pack(),
        "B beyond slots": replace(PACKET, B=1 << 4).pack(),
        "B far beyond slots": replace(PACKET, B=1 << 63).pack(),
    },
    "bad_rate": {
        "bw too large": replace(PACKET, bw=RATE_MAX + 1).pack(),
        "bw' too large": replace(PACKET, bw1=RATE_MAX + 1).pack(),
        "bw'' too large": replace(PACKET, bw2=(1 << 64) - 1).pack(),
        "demand too large": replace(PACKET, demand=RATE_MAX + 1).pack(),
        "demand 0": replace(PACKET, demand=0).pack(),
    },
    "bad_option": {
        "authentication too short": replace(PACKET, options=option(AUTH, bytes(7))).pack(),
        "authentication too long": replace(PACKET, options=option(AUTH, bytes(9))).pack(),
        "authentication empty": replace(PACKET, options=option(AUTH, b"")).pack(),
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
