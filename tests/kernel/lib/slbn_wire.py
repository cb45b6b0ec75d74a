# SPDX-License-Identifier: GPL-2.0
"""Build and parse SLBN packets, the IP packets that carry them, and the state of a link.

A second implementation, written from include/uapi/fairpath/slbn.h and slbn_netlink.h alone, with
checksums and SipHash (Aumasson, Bernstein 2012), so that tests do not compare code with itself.
Packets can be malformed: every field can be set to any value.
"""

from __future__ import annotations

import ipaddress
import struct
import time
from dataclasses import dataclass, field, fields, replace
from typing import Any

PORT, MAGIC, VERSION = 49470, 0x534C424E, 2
JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK = range(1, 6)
NO_HOP, NO_EPOCH, RATE_MAX, WEIGHT_MAX = 255, 0xFFFFFFFF, 10**15, 10**6
#: Flag of a retransmitted packet.
AGAIN = 1
#: Octets of a slot's tag and code, and of a slot in packets over IPv4 and IPv6.
SLOT_HEAD, SLOT_V4, SLOT_V6 = 4, 10, 22
PAD, AUTH, TRACE, SHARE, AUTH_LENGTH = 0, 1, 2, 3, 14
#: Value of the authentication: key, reserved, time, hash.
AUTH_VALUE = struct.Struct("!BBIQ")
#: Value of the trace: hop, flags, ttl, reserved, backlog, capacity, share, weights, held.
TRACE_VALUE = struct.Struct("!4BI4Q")
#: Value of the share: links, bands, reserved, share.
SHARE_VALUE = struct.Struct("!BB6xQ")
#: Flag of a trace that a link has written.
FILLED = 1
#: Of linux/time.h; Python has no name for it.
CLOCK_REALTIME_COARSE = 5
#: Largest difference of its time to the clock, s.
WINDOW = 10
HEADER = struct.Struct("!IBBHI4BII16s7Q")

ETH_P_IP, ETH_P_IPV6, ETH_P_8021Q, ETH_P_8021AD = 0x800, 0x86DD, 0x8100, 0x88A8
IPPROTO_UDP, IPPROTO_ROUTING, IPPROTO_FRAGMENT = 17, 43, 44
IP_MF, IP6_MF = 0x2000, 0x1
IP_DF = 0x4000
MAC_A, MAC_B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")

#: Addresses of the router under test and of the source, to which answers return, and the MAC
#: addresses of the last frame on the way to the source. By IP version: ROUTER[v6].
ROUTER = ("10.0.9.1", "fd00:9::1")
ORIGIN = ("10.0.8.2", "fd00:8::2")
MAC_ROUTER, MAC_ORIGIN = bytes.fromhex("020000000003"), bytes.fromhex("020000000004")

# --- SLBN


def siphash(data: bytes, key: bytes) -> int:
    """SipHash-2-4."""
    mask = (1 << 64) - 1
    k0, k1 = struct.unpack("<QQ", key)
    v: list[int] = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & mask

    def rounds(count: int) -> None:
        a, b, c, d = v
        for _ in range(count):
            a, c = a + b & mask, c + d & mask
            b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
            a = rotate(a, 32)
            c, a = c + b & mask, a + d & mask
            b, d = rotate(b, 17) ^ c, rotate(d, 21) ^ a
            c = rotate(c, 32)
        v[:] = a, b, c, d

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def now() -> int:
    """The real-time clock, s, as links read it: it advances with the timer's ticks.

    time.time() may already be in the next second.
    """
    return int(time.clock_gettime(CLOCK_REALTIME_COARSE))


def option(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


def decode(code: int) -> int:
    """The rate of a slot's code, bit/s: 5 bits of exponent, 11 bits of mantissa."""
    return (code & 0x7FF) << (code >> 11)


def authentication(data: bytes, key: bytes, addresses: bytes) -> bytes:
    """The hash of a packet that ends with its authentication, and of its addresses."""
    covered = data[:-8] + siphash(addresses, key).to_bytes(8, "big")
    return siphash(covered, key).to_bytes(8, "big")


@dataclass(frozen=True)
class Packet:
    """A control packet; `length` and, with a key, the authentication are computed."""

    type: int = PROBE
    seq: int = 0
    hop: int = 0
    slots: int = 32
    #: Default: as the IP version.
    slot_length: int | None = None
    bottleneck: int = NO_HOP
    flags: int = 0
    weight: int = 1
    epoch: int = NO_EPOCH
    id: bytes = bytes(16)
    B: int = 0
    bw2: int = 0
    bw1: int = 0
    bw: int = RATE_MAX
    use1: int = 0
    use: int = 0
    g: int = 0
    #: Tags and codes by hop; others are 0.
    tags: dict[int, int] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    #: Return addresses as (link, address): the source's at 0, that of hop n - 1 at n. Default:
    #: (0, ORIGIN), then (1, ROUTER) for each hop up to `written`, then zeros.
    returns: dict[int, tuple[int, str]] = field(default_factory=dict)
    #: Default: `hop`.
    written: int | None = None
    #: Octets between the slots and the authentication.
    options: bytes = b""
    key: bytes | None = None
    key_id: int = 0
    #: Time of the authentication, s; default: now.
    time: int | None = None
    #: Octets after the packet in the datagram.
    trailer: bytes = b""
    magic: int = MAGIC
    version: int = VERSION
    length: int | None = None

    def pack(self, addresses: bytes = bytes(8)) -> bytes:
        """The octets; slots and authentication are for these addresses of the IP packet."""
        slot_length = self.slot_length
        if slot_length is None:
            slot_length = SLOT_V4 if len(addresses) == 8 else SLOT_V6
        v6 = len(addresses) != 8
        written = self.hop if self.written is None else self.written
        returns = {0: (0, ORIGIN[v6]), **{n: (1, ROUTER[v6]) for n in range(1, written + 1)}}
        returns |= self.returns
        slots = b""
        for hop in range(self.slots + 1):
            if hop:
                slots += struct.pack("!HH", self.tags.get(hop - 1, 0), self.codes.get(hop - 1, 0))
            back = b""
            if hop in returns:
                link, address = returns[hop]
                back = link.to_bytes(2, "big") + ipaddress.ip_address(address).packed
            width = max(slot_length - SLOT_HEAD, 0)
            slots += back[:width].ljust(width, b"\0")
        options = self.options
        if self.key:
            sent = now() if self.time is None else self.time
            options += option(AUTH, AUTH_VALUE.pack(self.key_id, 0, sent & 0xFFFFFFFF, 0))
        length = HEADER.size + len(slots) + len(options)
        head = HEADER.pack(
            self.magic,
            self.version,
            self.type,
            length if self.length is None else self.length,
            self.seq,
            self.hop,
            self.slots,
            slot_length,
            self.bottleneck,
            self.flags << 24 | self.weight,
            self.epoch,
            self.id,
            self.B,
            self.bw2,
            self.bw1,
            self.bw,
            self.use1,
            self.use,
            self.g,
        )
        data = head + slots + options
        if self.key:
            data = data[:-8] + authentication(data, self.key, addresses)
        return data + self.trailer

    def reply(self) -> Packet:
        """The reply, as the destination makes it; hops that the path does not have are cleared."""
        passed = {hop: tag for hop, tag in self.tags.items() if hop < self.hop}
        codes = {hop: code for hop, code in self.codes.items() if hop < self.hop}
        written = self.hop if self.written is None else self.written
        cleared = replace(self, tags=passed, codes=codes, written=written)
        if self.type == LEAVE:
            return replace(cleared, type=LEAVE_ACK)
        b = self.bottleneck if self.bottleneck < self.hop else NO_HOP
        B = self.B & (1 << self.hop) - 1
        return replace(cleared, type=PROBE_ACK, g=RATE_MAX, epoch=NO_EPOCH, bottleneck=b, B=B)


def next_tag(tag: int) -> int:
    """The tag of the ledger that follows, of the same session."""
    return tag % 0xFFFF + 1


def packet_type(data: bytes) -> int:
    """The type of a packet."""
    kind: int = HEADER.unpack_from(data)[2]
    return kind


def read_packet(data: bytes) -> Packet:
    """Parse a packet; the authentication is part of the options."""
    magic, version, kind, length, seq, hop, slots, slot_length, b, *rest = HEADER.unpack_from(data)
    flags_weight, epoch, identity, B, bw2, bw1, bw, use1, use, g = rest
    at = HEADER.size
    returns, tags, codes = {}, {}, {}
    for n in range(slots + 1):
        back = data[at : at + slot_length - SLOT_HEAD]
        at += len(back)
        if any(back):
            returns[n] = (int.from_bytes(back[:2], "big"), str(ipaddress.ip_address(back[2:])))
        if n < slots:
            tags[n], codes[n] = struct.unpack_from("!HH", data, at)
            at += SLOT_HEAD
    return Packet(
        type=kind,
        seq=seq,
        hop=hop,
        slots=slots,
        slot_length=slot_length,
        bottleneck=b,
        flags=flags_weight >> 24,
        weight=flags_weight & 0xFFFFFF,
        epoch=epoch,
        id=identity,
        B=B,
        bw2=bw2,
        bw1=bw1,
        bw=bw,
        use1=use1,
        use=use,
        g=g,
        tags={hop: tag for hop, tag in tags.items() if tag},
        codes={hop: code for hop, code in codes.items() if code},
        returns=returns,
        options=data[at:length],
        trailer=data[length:],
        magic=magic,
        version=version,
    )


def read_authentication(data: bytes) -> tuple[int, int]:
    """Key and time of a packet whose last option is its authentication."""
    last = read_packet(data).options[-AUTH_LENGTH - 2 :]
    assert last[:2] == bytes([AUTH, AUTH_LENGTH])
    key, reserved, sent, _ = AUTH_VALUE.unpack(last[2:])
    assert reserved == 0
    return key, sent


def is_authentic(data: bytes, key: bytes, addresses: bytes, since: int | None = None) -> bool:
    """Whether the last option of a packet is its authentication with this key.

    Its time must be at most WINDOW ago, or after SINCE (see now()).
    """
    _, sent = read_authentication(data)
    start = now() - WINDOW if since is None else since
    fresh = start <= sent <= now() + WINDOW
    return fresh and data[-8:] == authentication(data, key, addresses)


# --- IP


def internet_sum(data: bytes) -> int:
    """The Internet checksum of RFC 1071."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True)
class Datagram:
    """A UDP datagram in an Ethernet frame; fields that are not given are valid."""

    #: A packet with a key is authenticated for the addresses of the datagram.
    payload: bytes | Packet = b""
    v6: bool = False
    source: str = ""
    destination: str = ""
    sport: int = PORT
    dport: int = PORT
    #: UDP checksum; 0: none.
    check: int | None = None
    udp_length: int | None = None
    #: IPv4 options, or IPv6 extension headers including their next header.
    extra: bytes = b""
    next_header: int = IPPROTO_UDP
    ttl: int = 60
    #: Identification, IPv4.
    ident: int = 7
    #: Flags and offset, IPv4.
    fragment: int = 0
    #: VLANs as (protocol, tag), outermost first.
    vlans: tuple[tuple[int, int], ...] = ()
    from_mac: bytes = MAC_A
    to_mac: bytes = MAC_B
    #: Octets of the datagram in this fragment, from the UDP header on.
    octets: int | None = None
    #: Octets after the IP packet in the frame.
    padding: bytes = b""

    def addresses(self) -> bytes:
        default = ("fd00::1", "fd00::2") if self.v6 else ("10.0.0.1", "10.0.0.2")
        pair = (self.source or default[0], self.destination or default[1])
        return b"".join(ipaddress.ip_address(text).packed for text in pair)

    def content(self) -> bytes:
        return (
            self.payload if isinstance(self.payload, bytes) else self.payload.pack(self.addresses())
        )

    def udp(self) -> bytes:
        payload = self.content()
        length = 8 + len(payload) if self.udp_length is None else self.udp_length
        head = struct.pack("!HHH", self.sport, self.dport, length)
        check = self.check
        if check is None:
            pseudo = self.addresses() + struct.pack("!IHBB", length & 0xFFFF, 0, 0, IPPROTO_UDP)
            check = internet_sum(pseudo + head + bytes(2) + payload) or 0xFFFF
        return head + struct.pack("!H", check) + payload

    def ip(self) -> bytes:
        content = self.udp()[: self.octets]
        if self.v6:
            length = len(self.extra) + len(content)
            head = struct.pack("!IHBB", 6 << 28, length, self.next_header, self.ttl)
            return head + self.addresses() + self.extra + content
        words = 5 + len(self.extra) // 4
        total = 4 * words + len(content)
        head = struct.pack(
            "!BBHHHBB", 0x40 | words, 0, total, self.ident, self.fragment, self.ttl, 17
        )
        check = internet_sum(head + bytes(2) + self.addresses() + self.extra)
        return head + struct.pack("!H", check) + self.addresses() + self.extra + content

    def frame(self) -> bytes:
        tags = b"".join(struct.pack("!HH", *vlan) for vlan in self.vlans)
        kind = struct.pack("!H", ETH_P_IPV6 if self.v6 else ETH_P_IP)
        return self.to_mac + self.from_mac + tags + kind + self.ip() + self.padding

    def back(self) -> Datagram:
        """The same content in the other direction."""
        default = ("fd00::1", "fd00::2") if self.v6 else ("10.0.0.1", "10.0.0.2")
        return replace(
            self,
            source=self.destination or default[1],
            destination=self.source or default[0],
            sport=self.dport,
            dport=self.sport,
            from_mac=self.to_mac,
            to_mac=self.from_mac,
        )

    def answer(self) -> Datagram:
        """The same content as an answer to the router, from the other direction."""
        return replace(self.back(), destination=ROUTER[self.v6])

    def sent_on(self, to: str = "") -> Datagram:
        """The same packet as the router sends it to a return address, default ORIGIN."""
        packet = self.payload
        assert isinstance(packet, Packet)
        return Datagram(
            replace(packet, trailer=b""),
            self.v6,
            ROUTER[self.v6],
            to or ORIGIN[self.v6],
            ttl=64,
            ident=0,
            fragment=IP_DF,
            from_mac=MAC_ROUTER,
            to_mac=MAC_ORIGIN,
        )


def read_ip(frame: bytes) -> tuple[int, bytes]:
    """The Ethernet type behind VLAN tags, and the IP packet."""
    at = 12
    while frame[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    return int.from_bytes(frame[at : at + 2], "big"), frame[at + 2 :]


def read_addresses(frame: bytes) -> bytes:
    """Source and destination address of the IP packet in a frame."""
    kind, ip = read_ip(frame)
    return ip[8:40] if kind == ETH_P_IPV6 else ip[12:20]


def read_udp(frame: bytes) -> tuple[bytes, bool]:
    """The payload of a UDP datagram in a frame, and whether its checksum is valid.

    Without extension headers; the payload of other frames is empty.
    """
    kind, ip = read_ip(frame)
    if kind == ETH_P_IP and ip[9] == IPPROTO_UDP:
        udp = ip[4 * (ip[0] & 15) :]
    elif kind == ETH_P_IPV6 and ip[6] == IPPROTO_UDP:
        udp = ip[40:]
    else:
        return b"", False
    (length,) = struct.unpack_from("!H", udp, 4)
    udp = udp[:length]
    pseudo = read_addresses(frame) + struct.pack("!IHBB", length, 0, 0, IPPROTO_UDP)
    return udp[8:], internet_sum(pseudo + udp) == 0


# --- links


@dataclass(frozen=True)
class State:
    """struct slbn_link_state."""

    capacity: int
    plan: int
    share: int
    quiet: int
    BF: int
    NR: int
    N: int
    A: int
    previous_BF: int
    previous_NR: int
    previous_N: int
    previous_A: int
    tag: int
    previous_tag: int
    memory_entries: int
    memory_bytes: int
    joins: int
    probes: int
    acks: int
    leaves: int
    new_sessions: int
    limited: int
    migrated: int
    corrected: int
    clamped: int
    stale: int
    wrong_path: int
    too_many_hops: int
    overuse: int
    malformed: int
    other_version: int
    bad_checksum: int
    fragments: int
    bad_key: int
    unknown_key: int
    bad_time: int
    bad_return: int
    unknown_link: int
    no_address: int
    from_hosts: int
    icmp_dropped: int
    answered: int
    rate_limited: int
    events: int
    bypassed: int
    leave_acks: int
    from_users: int

    @classmethod
    def read(cls, data: bytes) -> State:
        return cls(*struct.unpack(f"={len(fields(cls))}Q", data))

    @property
    def held(self) -> int:
        """What the sessions hold, bit/s."""
        return self.A + self.previous_A

    @property
    def sessions(self) -> int:
        """The sum of their weights."""
        return self.N + self.previous_N

    def plus(self, **more: int) -> State:
        """A copy with the named fields increased by these amounts."""
        changes: dict[str, Any] = {name: getattr(self, name) + n for name, n in more.items()}
        return replace(self, **changes)

    def changes(self, later: State) -> dict[str, int]:
        """The fields that differ in `later`, with their differences."""
        differences = {
            each.name: getattr(later, each.name) - getattr(self, each.name)
            for each in fields(State)
        }
        return {name: n for name, n in differences.items() if n}
