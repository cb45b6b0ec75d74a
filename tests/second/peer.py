# SPDX-License-Identifier: GPL-2.0
"""A second implementation of SLBN, version 2: packets, link, source and destination.

Written from docs/protocol.md alone, to be compared by octets with the first implementation.
Sections implemented: 2 (packets), 3 (arithmetic), 4 and 5 (link), 6 (source), 7 (destination,
edge), 8 (ledgers, memory, quiet time), 11 (configuration), 13 (authentication), 14 (commit off).
A number after MUST is that of the page.

What it had to guess was asked, and the page says it now: how tags go on after several epochs, and
when an answer's path is refused (Link.rotate, Link.up and step 4 follow those answers).

Assumptions: the caller passes all times (monotonic, in ns: MUST (5), MUST (7)), the real-time
clock (in s) and all random numbers, keeps configurations in the ranges of section 4, decides when
a source transmits (section 10: MUST (9), (10) and (12)), and carries UDP payloads between the
objects together with their Envelope, the addresses of the IP packet.  It drops fragments and checks
that addresses are reachable.  The memory replaces the entry that was stored least recently.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import OrderedDict
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from functools import lru_cache

MAGIC = b"SLBN"
VERSION = 2
SECOND = 10**9  # ns
JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK = 1, 2, 3, 4, 5
DOWNSTREAM = (JOIN, PROBE, LEAVE)
NONE = 255  # bottleneck: none
AGAIN = 1  # flags, bit 0
FILLED = 1  # flags of the trace, bit 0
NO_EPOCH = 2**32 - 1
MAX_RATE = 10**15
MAX_U64 = 2**64 - 1
MAX_SLOTS = 64
HEADER = struct.Struct(">4sBBHIBBBBB3sI16sQQQQQQQ")
AUTHENTICATION, TRACE, SHARE = 1, 2, 3
OPTION_LENGTH = {AUTHENTICATION: 14, TRACE: 40, SHARE: 16}
TRACE_VALUE = struct.Struct(">BBBBIQQQQ")
SHARE_VALUE = struct.Struct(">BB6sQ")
TIME_WINDOW_S = 10


class Refused(Exception):
    """A packet is dropped; the text is the counter's name (sections 2, 5, 13)."""


@dataclass(frozen=True)
class Envelope:
    """Source and destination address of the IP packet, 4 or 16 octets each (section 13)."""

    source: bytes
    destination: bytes


@dataclass(frozen=True)
class Outcome:
    """What became of a packet: its octets and addresses if it is sent, or why it is dropped."""

    octets: bytes | None
    envelope: Envelope | None = None
    reason: str = ""


@dataclass
class Return:
    """A return: number of the link in its router, and an address of that router."""

    link: int
    address: bytes


@dataclass
class Slot:
    """Ledger tag and code of a hop; its return is `returns[hop + 1]`."""

    tag: int = 0
    code: int = 0


@dataclass
class Option:
    """An option of a packet."""

    type: int
    value: bytes


@dataclass
class Packet:
    """A control packet. `rest` are the octets of the datagram after `length` (section 2)."""

    type: int
    id: bytes
    weight: int
    slot: list[Slot]
    returns: list[Return]
    seq: int = 0
    hop: int = 0
    bottleneck: int = NONE
    flags: int = 0
    epoch: int = NO_EPOCH
    B: int = 0
    bw2: int = 0
    bw1: int = 0
    bw: int = 0
    use1: int = 0
    use: int = 0
    g: int = 0
    options: list[Option] = field(default_factory=list)
    rest: bytes = b""

    def option(self, kind: int) -> Option | None:
        """The option of a type that occurs at most once (section 2)."""
        return next((o for o in self.options if o.type == kind), None)

    def build(self) -> bytes:
        """The octets of the UDP payload (section 2)."""
        returns = [struct.pack(">H", r.link) + r.address for r in self.returns]
        body = returns[0]
        for s, r in zip(self.slot, returns[1:], strict=True):
            body += struct.pack(">HH", s.tag, s.code) + r
        for o in self.options:
            body += bytes((o.type, len(o.value))) + o.value
        slot_length = 4 + len(returns[0])
        header = HEADER.pack(
            MAGIC, VERSION, self.type, HEADER.size + len(body), self.seq, self.hop, len(self.slot),
            slot_length, self.bottleneck, self.flags, self.weight.to_bytes(3, "big"), self.epoch,
            self.id, self.B, self.bw2, self.bw1, self.bw, self.use1, self.use, self.g,
        )  # fmt: skip
        return header + body + self.rest


def check(valid: bool, reason: str) -> None:
    """Refuse a packet that breaks a rule: MUST (2); nothing was changed yet: MUST (3)."""
    if not valid:
        raise Refused(reason)


def parse_packet(octets: bytes, address_length: int) -> Packet:
    """Parse the payload of a datagram whose IP addresses have `address_length` octets (section 2).

    Raises Refused with a reason of its own for each rule: MUST (2). Returns are not checked here,
    as a source sends most of them as 0: the way back refuses bad ones (section 5).
    """
    check(octets[:4] == MAGIC[: len(octets)], "bad_magic")  # not a control packet, but data
    check(len(octets) < 5 or octets[4] == VERSION, "other_version")
    check(len(octets) >= HEADER.size, "truncated_header")
    (_, _, kind, length, seq, hop, slots, slot_length, bottleneck, flags, weight3, epoch, sid,
     B, bw2, bw1, bw, use1, use, g) = HEADER.unpack_from(octets)  # fmt: skip
    weight = int.from_bytes(weight3, "big")
    first_slot = HEADER.size + 2 + address_length
    end_of_slots = first_slot + slots * (6 + address_length)
    rates = {"bw2": bw2, "bw1": bw1, "bw": bw, "use1": use1, "use": use, "g": g}  # `g` both ways
    ranges = {
        "type": JOIN <= kind <= LEAVE_ACK,
        "slots": 1 <= slots <= MAX_SLOTS,
        "slot_length": slot_length == 6 + address_length,
        "hop": hop <= slots,
        "bottleneck": bottleneck < slots or bottleneck == NONE,
        "weight": 1 <= weight <= 10**6,
        "B": B >> slots == 0,
        "length": length >= end_of_slots,
    } | {name: rate <= MAX_RATE for name, rate in rates.items()}
    for name, valid in ranges.items():
        check(valid, "bad_" + name)
    check(length <= len(octets), "truncated")
    returns = [Return(*struct.unpack_from(f">H{address_length}s", octets, HEADER.size))]
    slot: list[Slot] = []
    for at in range(first_slot, end_of_slots, slot_length):
        tag, code, link, address = struct.unpack_from(f">HHH{address_length}s", octets, at)
        slot.append(Slot(tag, code))
        returns.append(Return(link, address))
    return Packet(
        kind, sid, weight, slot, returns, seq, hop, bottleneck, flags, epoch, B, bw2, bw1, bw,
        use1, use, g, parse_options(octets[end_of_slots:length]), octets[length:],
    )  # fmt: skip


def parse_options(octets: bytes) -> list[Option]:
    """Parse the options of a packet (section 2)."""
    options: list[Option] = []
    at = 0
    while at < len(octets):
        check(at + 2 <= len(octets), "truncated_option")
        end = at + 2 + octets[at + 1]
        check(end <= len(octets), "truncated_option")
        option = Option(octets[at], octets[at + 2 : end])
        if option.type in OPTION_LENGTH:
            check(len(option.value) == OPTION_LENGTH[option.type], "bad_option_length")
            check(all(o.type != option.type for o in options), "option_twice")
        if option.type == SHARE:
            check(SHARE_VALUE.unpack(option.value)[3] <= MAX_RATE, "bad_share")
        options.append(option)
        at = end
    return options


def usable_address(address: bytes) -> bool:
    """Whether a packet may be sent to the address of a return (sections 2 and 5)."""
    a = ipaddress.ip_address(address)
    return not (
        a.is_multicast
        or a.is_unspecified
        or a.is_loopback
        or a.is_link_local
        or (isinstance(a, ipaddress.IPv4Address) and (a.is_reserved or address[0] == 0))
    )


def decode(code: int) -> int:
    """slbn_decode() (section 3): m * 2^e."""
    return (code & 0x7FF) << (code >> 11)


def encode_down(rate: int) -> int:
    """slbn_encode_down() (section 3): the largest number with a code <= rate."""
    e = max(rate.bit_length() - 11, 0)
    return 0xFFFF if e > 31 else e << 11 | rate >> e


def encode_up(rate: int) -> int:
    """slbn_encode_up() (section 3): the smallest number with a code >= rate, with the least e.

    Above the largest number it gives that of the largest.
    """
    code = encode_down(rate)
    if decode(code) >= rate or code == 0xFFFF:
        return code
    return code + 1 if code & 0x7FF < 0x7FF else ((code >> 11) + 1) << 11 | 0x400


def older(a: int, b: int) -> bool:
    """Whether sequence number a is older than b (section 3, rule 5)."""
    return (a - b) & 0x80000000 != 0


def siphash(key: bytes, data: bytes, c: int = 2, d: int = 4) -> int:
    """SipHash-c-d as a 64-bit integer (sections 8 and 13)."""
    mask = MAX_U64
    k0, k1 = struct.unpack("<QQ", key)
    v0: int = k0 ^ 0x736F6D6570736575
    v1: int = k1 ^ 0x646F72616E646F6D
    v2: int = k0 ^ 0x6C7967656E657261
    v3: int = k1 ^ 0x7465646279746573

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & mask

    def rounds(n: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(n):
            v0, v2 = (v0 + v1) & mask, (v2 + v3) & mask
            v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
            v0 = rotate(v0, 32)
            v2, v0 = (v2 + v1) & mask, (v0 + v3) & mask
            v1, v3 = rotate(v1, 17) ^ v2, rotate(v3, 21) ^ v0
            v2 = rotate(v2, 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes((len(data) & 0xFF,))
    for (m,) in struct.iter_unpack("<Q", padded):
        v3 ^= m
        rounds(c)
        v0 ^= m
    v2 ^= 0xFF
    rounds(d)
    return v0 ^ v1 ^ v2 ^ v3


def packet_hash(keys: dict[int, bytes], pkt: Packet, envelope: Envelope) -> bytes:
    """The hash of the authentication option of a packet, with its key (section 13)."""
    option = pkt.option(AUTHENTICATION)
    assert option
    key = keys[option.value[0]]
    inner = siphash(key, envelope.source + envelope.destination).to_bytes(8, "big")
    filled = Option(AUTHENTICATION, option.value[:6] + inner)
    options = [filled if o is option else o for o in pkt.options]
    return siphash(key, replace(pkt, options=options, rest=b"").build()).to_bytes(8, "big")


def write_hash(pkt: Packet, keys: dict[int, bytes], envelope: Envelope) -> None:
    """Write the hash after all other changes (section 13)."""
    option = pkt.option(AUTHENTICATION)
    if option:
        option.value = option.value[:6] + packet_hash(keys, pkt, envelope)


def receive_packet(
    octets: bytes, keys: dict[int, bytes], envelope: Envelope, clock_s: int
) -> Packet:
    """Parse a packet and refuse one that is not authentic: what each receiver does (13)."""
    pkt = parse_packet(octets, len(envelope.destination))
    option = pkt.option(AUTHENTICATION)
    check((option is not None) == bool(keys), "bad_key")
    if option:
        check(option.value[0] in keys, "unknown_key")
        check(option.value[6:] == packet_hash(keys, pkt, envelope), "bad_key")
        ahead = int.from_bytes(option.value[2:6], "big") - clock_s
        check(abs((ahead + 2**31) % 2**32 - 2**31) <= TIME_WINDOW_S, "bad_time")
    return pkt


@dataclass
class Ledger:
    """N and NR, sums of weights; BF and A, sums of rates (section 4)."""

    N: int = 0
    NR: int = 0
    BF: int = 0
    A: int = 0


@dataclass(frozen=True)
class Entry:
    """An entry of the memory (section 4), and its origin: first, copy or reply (section 8)."""

    seq: int
    tag: int
    in_R: bool
    rate: int
    held: int
    origin: str


@lru_cache(4096)
def tag_offset(hash_key: bytes, id: bytes) -> int:
    """What a link adds to the tags of a session (section 8)."""
    return siphash(hash_key, struct.pack("<QQ", *struct.unpack(">QQ", id)), 1, 3) >> 40


@dataclass
class Link:
    """A link (section 4). It starts at 0 ns, unused; `tag` and `hash_key` are random."""

    C: int
    P: int
    _: KW_ONLY
    tag: int
    hash_key: bytes = bytes(16)
    T: int = SECOND
    quiet: int = SECOND
    memory: int = 1024  # number of entries
    commit: bool = True
    number: int = 1
    address: bytes | None = b"\xc0\x00\x02\x01"
    keys: dict[int, bytes] = field(default_factory=dict)
    clamped: int = 0

    def __post_init__(self) -> None:
        """The first start."""
        self.start(0, self.tag, self.hash_key, in_use=False)

    def start(self, now_ns: int, tag: int, hash_key: bytes, in_use: bool = True) -> None:
        """Start anew: empty ledgers and memory, and quiet time if in use: MUST (8) (section 8)."""
        self.cur, self.prev = Ledger(), Ledger()
        self.tag, self.prev_tag, self.hash_key = tag, 0, hash_key
        self.epoch_start = now_ns
        self.quiet_until = now_ns + max(self.quiet, self.T) if in_use else now_ns
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()

    def configure(self, now_ns: int, tag: int, hash_key: bytes, **changes: int) -> None:
        """Change C, P, T, commit or memory; `tag` and `hash_key` are for a new start (11)."""
        old_T, old_commit = self.T, self.commit
        for name, value in changes.items():
            setattr(self, name, value)
        if "memory" in changes:
            self.entries.clear()
        if self.commit and not old_commit:
            self.start(now_ns, tag, hash_key)
        elif old_T == 0:  # the ledgers are kept, so their epoch begins now
            self.epoch_start = now_ns
        elif 0 < self.T < old_T:
            self.quiet_until = max(self.quiet_until, now_ns + old_T)

    def _add(self, a: int, b: int) -> int:
        """Addition that ends at 2^64 - 1 and counts it (section 3, rule 3)."""
        self.clamped += a + b > MAX_U64
        return min(a + b, MAX_U64)

    def _sub(self, a: int, b: int) -> int:
        """Subtraction that ends at 0 and counts it (section 3, rule 3)."""
        self.clamped += a < b
        return max(a - b, 0)

    def rotate(self, now_ns: int) -> None:
        """slbn_link_rotate() (section 8). Epochs follow each other without gaps."""
        if self.T == 0 or now_ns - self.epoch_start < self.T:
            return
        passed = (now_ns - self.epoch_start) // self.T
        self.epoch_start += passed * self.T
        self.prev, self.prev_tag = (self.cur, self.tag) if passed == 1 else (Ledger(), 0)
        self.cur, self.tag = Ledger(), self.tag % 65535 + 1

    def mask_tag(self, id: bytes, tag: int) -> int:
        """slbn_mask_tag(): the tag that packets of a session carry (section 8)."""
        return 1 + (tag - 1 + tag_offset(self.hash_key, id)) % 65535

    def unmask_tag(self, id: bytes, masked: int) -> int:
        """The tag of a ledger that a packet carries, or 0 (section 8)."""
        return 1 + (masked - 1 - tag_offset(self.hash_key, id)) % 65535 if masked else 0

    def ledger(self, tag: int) -> Ledger | None:
        """The ledger with this tag, if the link has it (section 8)."""
        if tag == 0:
            return None
        return self.cur if tag == self.tag else self.prev if tag == self.prev_tag else None

    def share(self, weight: int) -> int:
        """slbn_link_share() (section 5.2)."""
        BF = self._add(self.cur.BF, self.prev.BF)
        NR = max(self._add(self.cur.NR, self.prev.NR), 1)
        N = max(self._add(self.cur.N, self.prev.N), 1)
        of_rest = weight * (self.P - BF) // NR if self.P > BF else 0
        return min(max(of_rest, weight * self.P // N), self.P)

    def _store(self, pkt: Packet, entry: Entry) -> None:
        """Store an entry in the memory; the newest replaces the oldest (section 8)."""
        self.entries[pkt.id] = entry
        self.entries.move_to_end(pkt.id)
        if len(self.entries) > self.memory:
            self.entries.popitem(last=False)

    def process(self, pkt: Packet, now_ns: int) -> None:
        """slbn_link_process() (section 5.1), with its steps 1 to 8. Raises Refused.

        Changes only `hop`, `B`, `bottleneck`, `bw`, `epoch`, `g`, the slot and the share: MUST (1).
        """
        upstream = pkt.type not in DOWNSTREAM
        hop = pkt.hop - 1 if upstream else pkt.hop  # 1
        check(hop >= 0, "wrong_path")
        check(hop < len(pkt.slot), "too_many_hops")
        self.rotate(now_ns)  # 2
        slot = pkt.slot[hop]
        tag = 0 if pkt.type == JOIN else self.unmask_tag(pkt.id, slot.tag)  # 3
        ledger, in_R = self.ledger(tag), bool(pkt.B >> hop & 1)
        rate = pkt.bw2 if pkt.type == PROBE else pkt.bw1
        held = pkt.use if upstream or pkt.flags & AGAIN else self._add(pkt.use1, decode(slot.code))
        origin = "reply" if upstream else "copy" if pkt.flags & AGAIN else "first"
        known_held = 0  # what the memory holds for this very packet (sections 5.3, 5.4)
        entry = self.entries.get(pkt.id)
        if entry:
            check(not older(pkt.seq, entry.seq), "stale")
            newer = pkt.seq != entry.seq
            first = newer and origin == "first"
            if not (newer and entry.origin == "reply"):
                recorded = self.ledger(entry.tag)
                if self.commit and entry.origin == "first" and recorded:
                    check(entry.held >= pkt.use, "overuse")
                if recorded and not newer:
                    known_held = entry.held
                if entry.origin == "copy" and first and recorded is ledger:
                    held = max(held, entry.held)
                else:
                    held = entry.held
                ledger, in_R, rate = recorded, entry.in_R, entry.rate
            origin = origin if first else entry.origin
        if pkt.type == LEAVE_ACK:  # 4
            left = entry is not None and entry.seq == pkt.seq and entry.tag == 0
            check(left or not self.memory, "wrong_path")
        else:
            check(not upstream or ledger is not None, "wrong_path")
        pkt.hop = hop if upstream else hop + 1  # 5
        if pkt.type == LEAVE_ACK:
            return
        if ledger:  # 6
            ledger.N = self._sub(ledger.N, pkt.weight)
            if in_R:
                ledger.NR = self._sub(ledger.NR, pkt.weight)
            else:
                ledger.BF = self._sub(ledger.BF, rate)
            if self.commit:
                ledger.A = self._sub(ledger.A, held)
        pkt.B &= ~(1 << hop)
        if pkt.type == LEAVE:  # 7
            slot.tag = slot.code = 0
            self._store(pkt, Entry(pkt.seq, 0, False, 0, 0, origin))
            return
        in_R = self.add_session(pkt, hop)  # 8
        held = 0
        if not self.commit:
            slot.code = 0
        elif upstream:
            held = self.grant(pkt, slot, now_ns, known_held)
        else:
            held = self.hold(pkt, slot, known_held)
        self.cur.A = self._add(self.cur.A, held)
        slot.tag = self.mask_tag(pkt.id, self.tag)
        rate = 0 if in_R else pkt.bw1
        self._store(pkt, Entry(pkt.seq, self.tag, in_R, rate, held, origin))

    def add_session(self, pkt: Packet, hop: int) -> bool:
        """slbn_add_session(): the plan (section 5.2). Returns whether the session is in R."""
        self.cur.N = self._add(self.cur.N, pkt.weight)
        self.cur.NR = self._add(self.cur.NR, pkt.weight)
        share = self.share(pkt.weight)
        option = pkt.option(SHARE)
        if option and pkt.type == PROBE_ACK:  # section 5.6
            links, bands, reserved, least = SHARE_VALUE.unpack(option.value)
            value = SHARE_VALUE.pack(min(links + 1, 255), bands, reserved, min(least, share))
            option.value = value
        if pkt.bottleneck == hop or pkt.bw > share:
            pkt.B |= 1 << hop
            pkt.bottleneck = hop
            if pkt.type != JOIN:
                pkt.bw = share
            return True
        self.cur.NR = self._sub(self.cur.NR, pkt.weight)
        self.cur.BF = self._add(self.cur.BF, pkt.bw1)
        return False

    def hold(self, pkt: Packet, slot: Slot, known_held: int) -> int:
        """slbn_hold(): the commit, downstream (section 5.3). Returns what is held."""
        held, slot.code = pkt.use, 0
        if known_held > held:
            held, slot.code = known_held, encode_up(known_held - pkt.use)
        return held

    def grant(self, pkt: Packet, slot: Slot, now_ns: int, known_held: int) -> int:
        """slbn_grant(): the commit, upstream (section 5.4). Returns what is held."""
        room = max(self.C - self.cur.A - self.prev.A, 0)  # slbn_link_room()
        if room < pkt.use or now_ns < self.quiet_until:
            room = pkt.use
        pkt.g = min(pkt.g, pkt.bw, room)
        if self.T > 0:
            pkt.epoch = min(pkt.epoch, self.T // 1000)
        held, slot.code = pkt.use, 0
        if pkt.g > pkt.use:
            slot.code = encode_up(pkt.g - pkt.use)
            if pkt.use + decode(slot.code) > room:
                slot.code = encode_down(room - pkt.use)
            held = pkt.use + decode(slot.code)
            pkt.g = min(pkt.g, held)
        if known_held > held:
            held, slot.code = known_held, encode_up(known_held - pkt.use)
        return held

    def trace(self, pkt: Packet, hop: int, ttl: int, backlog: int) -> None:
        """Fill the trace option if it asks this hop (section 5.5)."""
        option = pkt.option(TRACE)
        if option is None or option.value[0] != hop or option.value[1] & FILLED:
            return
        option.value = TRACE_VALUE.pack(
            hop, option.value[1] | FILLED, ttl, option.value[3], min(backlog, 2**32 - 1), self.C,
            self.share(1), self._add(self.cur.N, self.prev.N), self._add(self.cur.A, self.prev.A),
        )  # fmt: skip

    def down(
        self, packet: bytes, now_ns: int, envelope: Envelope, clock_s: int = 0, ttl: int = 64,
        backlog: int = 0,
    ) -> Outcome:  # fmt: skip
        """Process a packet that the link sends downstream (section 5).

        A reply that leaves by this device is not processed here: it is sent unchanged.
        """
        try:
            if parse_packet(packet, len(envelope.destination)).type not in DOWNSTREAM:
                return Outcome(packet, envelope, "not_downstream")
            pkt = receive_packet(packet, self.keys, envelope, clock_s)
            address = self.address or b""
            check(len(address) == len(envelope.destination), "no_address")
            hop = pkt.hop
            self.process(pkt, now_ns)
            pkt.returns[hop + 1] = Return(self.number, address)
            self.trace(pkt, hop, ttl, backlog)
        except Refused as refused:
            return Outcome(None, None, str(refused))
        write_hash(pkt, self.keys, envelope)
        return Outcome(pkt.build(), envelope)

    def up(self, packet: bytes, now_ns: int, envelope: Envelope, clock_s: int = 0) -> Outcome:
        """Process a packet on its way back and address it to the next return (section 5)."""
        try:
            pkt = receive_packet(packet, self.keys, envelope, clock_s)
            check(pkt.type not in DOWNSTREAM, "not_upstream")
            check(pkt.hop > 0, "wrong_path")  # with hop 0 it is for the source
            here, following = pkt.returns[pkt.hop], pkt.returns[pkt.hop - 1]
            check(here.link == self.number, "unknown_link")
            check(here.address == envelope.destination, "bad_return")
            check(pkt.returns.count(here) == 1, "bad_return")  # a path has each link once
            if pkt.hop < len(pkt.slot) and pkt.returns[pkt.hop + 1].link:
                check(envelope.source == pkt.returns[pkt.hop + 1].address, "bad_return")
            check(usable_address(following.address), "bad_return")
            self.process(pkt, now_ns)
        except Refused as refused:
            return Outcome(None, None, str(refused))
        onward = Envelope(envelope.destination, following.address)
        write_hash(pkt, self.keys, onward)
        return Outcome(pkt.build(), onward)

    def edge(self, packet: bytes, now_ns: int, envelope: Envelope, clock_s: int = 0) -> Outcome:
        """Process a downstream packet and reply in place of the destination (section 7).

        The reply is for `up()` of the same link, from and to the address of its router.
        """
        out = self.down(packet, now_ns, envelope, clock_s)
        if out.octets is None or out.reason:
            return out
        here = Envelope(self.address or b"", self.address or b"")
        return Destination(self.keys).reply(out.octets, envelope, clock_s, here)


@dataclass
class Destination:
    """The destination, which keeps no state; `keys` are those of section 13."""

    keys: dict[int, bytes] = field(default_factory=dict)

    def reply(
        self, packet: bytes, envelope: Envelope, clock_s: int = 0, here: Envelope | None = None
    ) -> Outcome:
        """slbn_destination_reply(): the reply, and its addresses (section 7), `here` at an edge."""
        try:
            pkt = receive_packet(packet, self.keys, envelope, clock_s)
            check(pkt.type in DOWNSTREAM, "not_downstream")
            to = pkt.returns[pkt.hop].address
            check(usable_address(to), "bad_return")
        except Refused as refused:
            return Outcome(None, None, str(refused))
        if pkt.type == LEAVE:
            pkt.type = LEAVE_ACK
        else:
            pkt.type, pkt.g, pkt.epoch = PROBE_ACK, MAX_RATE, NO_EPOCH
        pkt.B &= (1 << pkt.hop) - 1
        if pkt.bottleneck >= pkt.hop:
            pkt.bottleneck = NONE
        for slot in pkt.slot[pkt.hop :]:
            slot.tag = slot.code = 0
        back = here or Envelope(envelope.destination, to)
        write_hash(pkt, self.keys, back)
        return Outcome(pkt.build(), back)


@dataclass
class Source:
    """The source of a session (sections 4 and 6): slbn_source_join().

    `address` is that of return 0, by default the source of `envelope`; a lease is shorter than
    the epoch by 1 / `margin` of it; `key` is the number of the key to use.
    """

    id: InitVar[bytes]
    D: int
    _: KW_ONLY
    envelope: Envelope
    address: bytes = b""
    weight: InitVar[int] = 1
    max_slots: int = 32
    margin: int = 8
    keys: dict[int, bytes] = field(default_factory=dict)
    key: int = 0
    rate: int = 0
    plan: int = 0
    lease: int | None = None  # never
    state: str = "joining"
    tries: int = 0
    sent: int = 0
    cycles: int = 0
    leaving: bool = False
    urgent: bool = False
    path_share: int | None = None  # smallest share of the path, if known (section 5.6)

    def __post_init__(self, id: bytes, weight: int) -> None:
        """Prepare the Join."""
        home = Return(0, self.address or self.envelope.source)
        self.pkt = Packet(JOIN, id, weight, [], [home], bw=self.D)
        self._set_slots(self.max_slots)

    def lease_over(self, now_ns: int) -> bool:
        """Whether the lease has ended (sections 4 and 6)."""
        return self.lease is not None and now_ns >= self.lease

    def expire(self, now_ns: int) -> None:
        """The rate becomes 0 when its lease ends (section 6): MUST (6)."""
        if self.lease_over(now_ns):
            self.rate = 0

    def _set_slots(self, slots: int) -> None:
        """Change the number of slots; additional ones and all their returns are 0 (section 6)."""
        slot, empty = self.pkt.slot, Return(0, bytes(len(self.envelope.source)))
        self.pkt.slot = slot[:slots] + [Slot() for _ in range(slots - len(slot))]
        self.pkt.returns = self.pkt.returns[:1] + [empty] * slots

    def send(
        self, now_ns: int, clock_s: int = 0, trace: int | None = None, share: bool = False
    ) -> Outcome:
        """slbn_source_transmit(): transmit the packet, the first time or again (section 6).

        The first copy may ask a hop for its state (`trace`: section 5.5; a Probe) and the path
        for its smallest share (`share`: section 5.6; a Join or Probe).
        """
        if self.state == "over":
            return Outcome(None, None, "over")
        self.expire(now_ns)  # 1
        pkt = self.pkt
        if self.tries == 0:  # 2
            self.sent = now_ns
            pkt.use, pkt.flags = min(pkt.use, self.rate), 0
        else:
            pkt.flags = AGAIN
        self.tries += 1
        if self.tries >= 3 and len(pkt.slot) < self.max_slots:  # 3
            self._set_slots(self.max_slots)
        pkt.options = []
        if trace is not None and pkt.type == PROBE and self.tries == 1:
            pkt.options.append(Option(TRACE, TRACE_VALUE.pack(trace, *[0] * 8)))
        if share and pkt.type != LEAVE and self.tries == 1:
            pkt.options.append(Option(SHARE, SHARE_VALUE.pack(0, 0, bytes(6), MAX_RATE)))
        if self.keys:
            value = struct.pack(">BBIQ", self.key, 0, clock_s % 2**32, 0)
            pkt.options.append(Option(AUTHENTICATION, value))
            write_hash(pkt, self.keys, self.envelope)
        return Outcome(pkt.build(), self.envelope)

    def receive(self, packet: bytes, now_ns: int, envelope: Envelope, clock_s: int = 0) -> str:
        """Take a reply; returns why it is dropped or ignored, or "" (section 6)."""
        try:
            ack = receive_packet(packet, self.keys, envelope, clock_s)
            expected = LEAVE_ACK if self.pkt.type == LEAVE else PROBE_ACK
            check(self.state != "over" and self.tries > 0, "not_in_flight")
            check(ack.id == self.pkt.id, "other_session")
            check(ack.type == expected, "other_type")
            check(ack.seq == self.pkt.seq, "other_seq")
            check(len(ack.slot) <= len(self.pkt.slot), "more_slots")
            check(ack.hop == 0, "wrong_path")
        except Refused as refused:
            return str(refused)
        self.ack(ack, now_ns)
        return ""

    def ack(self, ack: Packet, now_ns: int) -> None:
        """slbn_source_ack(): the steps 1 to 6 of an acknowledgment (section 6)."""
        if ack.type == LEAVE_ACK:
            self.state = "over"
            return
        ended = self.lease_over(now_ns)
        self.expire(now_ns)
        pkt, old_use, old_bw1, old_rate = self.pkt, self.pkt.use, self.pkt.bw1, self.rate
        pkt.seq, pkt.hop, pkt.flags, pkt.use1 = (pkt.seq + 1) % 2**32, 0, 0, old_use  # 1
        used = max((n + 1 for n, s in enumerate(ack.slot) if s.tag), default=0)
        slots = min(len(ack.slot), used + 2)
        pkt.slot = [Slot(s.tag, s.code) for s in ack.slot]
        self._set_slots(slots)
        pkt.B = ack.B & ((1 << slots) - 1)
        pkt.bottleneck = ack.bottleneck if ack.bottleneck < slots else NONE
        self.tries = 0
        self.cycles += 1
        option = ack.option(SHARE)
        links, _, _, share = SHARE_VALUE.unpack(option.value) if option else (None, 0, b"", 0)
        self.path_share = share if links == used else None
        if self.leaving:  # 2
            pkt.type, pkt.use, self.state = LEAVE, 0, "leaving"
            return
        self.state = "probing"
        self.plan = min(ack.bw, self.D)  # 3
        self.rate = min(ack.g, self.plan)
        if old_use > 0 and ended:
            self.rate = 0
        epoch = ack.epoch * 1000  # 4, MUST (11)
        self.lease = None if ack.epoch == NO_EPOCH else self.sent + epoch - epoch // self.margin
        self.expire(now_ns)
        pkt.type, pkt.use, pkt.bw2, pkt.bw1, pkt.bw = PROBE, self.rate, old_bw1, self.plan, ack.bw
        if ack.bottleneck == NONE or ack.bw >= self.D:  # 5
            pkt.bottleneck, pkt.bw = NONE, self.D
        self.urgent = self.rate != self.plan or self.rate < old_rate or self.cycles <= 2  # 6

    def change(self, D: int) -> None:
        """slbn_source_change() (section 6): the packet at hand stays as it is."""
        self.D = D
        self.rate = min(self.rate, D)

    def leave(self) -> None:
        """slbn_source_leave() (section 6): the Leave follows the current cycle."""
        self.rate = 0
        self.leaving = True
