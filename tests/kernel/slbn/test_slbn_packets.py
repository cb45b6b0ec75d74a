# SPDX-License-Identifier: GPL-2.0
"""Packet processing of sch_slbn: forwarded, counted and dropped packets.

Each test compares the whole state of the link and all octets of forwarded packets with expected
values, for the sessions of slbn_sessions.py.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.kernel.lib.genetlink import SECOND
from tests.kernel.lib.net import wait_for
from tests.kernel.lib.slbn import MEGA
from tests.kernel.lib.slbn_sessions import (
    CARRIERS,
    FAMILIES,
    GREEDY,
    KEY,
    MODEST,
    NEW,
    Sessions,
    check_dropped,
    check_good,
    expect,
    with_time_of,
)
from tests.kernel.lib.slbn_tap import FULL_CODE, FULL_RATE, Wire, probed, wire
from tests.kernel.lib.slbn_wire import (
    AGAIN,
    AUTH,
    AUTH_LENGTH,
    IP6_MF,
    IP_MF,
    IPPROTO_FRAGMENT,
    IPPROTO_ROUTING,
    IPPROTO_UDP,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    ORIGIN,
    PAD,
    PORT,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    ROUTER,
    SLOT_V4,
    SLOT_V6,
    TRACE,
    WEIGHT_MAX,
    Datagram,
    Packet,
    decode,
    next_tag,
    now,
    option,
    read_packet,
    read_udp,
)


@pytest.fixture
def on() -> Iterator[Sessions]:
    with wire() as made:
        yield Sessions(made)


# --- forwarded packets


#: Options that links do not change.
OPTIONS = option(200, b"later") + option(PAD, bytes(3)) + option(255, b"")

#: Code of the smallest rate from 10 Mbit/s on.
OVER_10 = 13 << 11 | 1221


@pytest.mark.parametrize("key", [None, KEY], ids=["no key", "key"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_link_changes_only_its_fields(carrier: str, key: bytes | None) -> None:
    """All packets of a session at the second hop of its path, octet by octet (MUST 1)."""

    def down(packet: Packet) -> Datagram:
        # Old, so that the time of the forwarded packet is not that of the sent one.
        return Datagram(replace(packet, time=now() - 5), **CARRIERS[carrier])

    def up(packet: Packet) -> Datagram:
        """An answer to the router."""
        return down(packet).answer()

    def upper(packet: Packet) -> Datagram:
        """The answer that the router sends to the hop above."""
        return down(packet).sent_on(ORIGIN[v6])

    v6 = CARRIERS[carrier].get("v6", False)

    with wire(key=key or b"") as made:
        # Without a quiet time: the link had no epoch.
        made.change(epoch=3600 * SECOND)
        tag = made.tags(NEW, key)[0]
        sent = Packet(
            JOIN,
            hop=1,
            slots=6,
            id=NEW,
            B=1,
            bottleneck=0,
            bw=70 * MEGA,
            weight=3,
            tags={0: 7, 1: 0xBAD, 5: 9},
            codes={0: 8, 1: 0xBAD, 5: 10},
            # The link writes that of its hop, and leaves the others.
            returns={1: (77, ORIGIN[v6]), 2: (9, ORIGIN[v6]), 6: (99, ROUTER[v6])},
            options=OPTIONS,
            flags=0xFE,
            key=key,
            trailer=b"behind it",
        )
        # The bw of the Join, 70 Mbit/s, is below the share of 100: in F. It holds nothing.
        tags = {**sent.tags, 1: tag}
        codes = {0: 8, 5: 10}
        returns = {**sent.returns, 2: (1, ROUTER[v6])}
        came = replace(sent, hop=2, tags=tags, codes=codes, returns=returns)
        changes = {"N": 3, "joins": 1, "new_sessions": 1}
        expect(made, "down", down(sent).frame(), down(came), **changes)

        # Upstream with a bw above the share: in R. It gets all, as far as a code can express it.
        sent = replace(came.reply(), bw=200 * MEGA)
        rate = FULL_RATE
        came = replace(sent, hop=1, bottleneck=1, B=0b11, bw=100 * MEGA, epoch=3600 * 10**6)
        came = replace(came, g=rate, codes={**sent.codes, 1: FULL_CODE})
        expect(made, "up", up(sent).frame(), upper(came), acks=1, NR=3, A=rate, share=-66_666_667)

        # The next Probe has a bw below the share: in F, with bw'. The source uses less.
        sent = replace(came, type=PROBE, seq=1, bottleneck=0, bw1=60 * MEGA, bw=60 * MEGA)
        sent = replace(sent, use=50 * MEGA)
        came = replace(sent, hop=2, B=1, codes={0: 8})
        moved = {"NR": -3, "BF": 60 * MEGA, "A": 50 * MEGA - rate, "share": 6_666_667}
        expect(made, "down", down(sent).frame(), down(came), probes=1, **moved)

        # It gets what it asks for, of which the link holds a little more.
        sent = came.reply()
        came = replace(sent, hop=1, g=60 * MEGA, codes={0: 8, 1: OVER_10}, epoch=3600 * 10**6)
        expect(made, "up", up(sent).frame(), upper(came), acks=1, A=decode(OVER_10))

        sent = replace(came, type=LEAVE, hop=1, seq=2)
        came = replace(sent, hop=2, tags={0: 7}, codes={0: 8})
        moved = {"N": -3, "BF": -60 * MEGA, "A": -50 * MEGA - decode(OVER_10)}
        moved["share"] = 60 * MEGA
        expect(made, "down", down(sent).frame(), down(came), leaves=1, **moved)

        # The session is removed: the LeaveAck only passes.
        sent = replace(came, type=LEAVE_ACK)
        expect(made, "up", up(sent).frame(), upper(replace(sent, hop=1)), leave_acks=1)


@FAMILIES
def test_packets_of_others_pass_unchanged(on: Sessions, v6: bool) -> None:
    """Sent answers, received downstream packets, and answers to other routers or to the agent."""
    on.v6 = v6
    before = on.wire.state()
    for kind in (PROBE_ACK, LEAVE_ACK):
        frame = on.frame(on.ack(type=kind))
        expect(on.wire, "down", frame, frame)
        # To another router, and to the agent here.
        frames = [on.datagram(on.ack(type=kind)).back().frame()]
        frames.append(on.datagram(on.ack(type=kind, hop=0)).answer().frame())
        assert on.wire.received(*frames) == frames
    for kind in (JOIN, PROBE, LEAVE):
        packet = on.datagram(on.probe(type=kind))
        # The link that sends it checks the checksum.
        for datagram in (packet, replace(packet, check=0xBAD)):
            frames = [datagram.back().frame(), datagram.answer().frame()]
            assert on.wire.received(*frames) == frames
    assert before == on.wire.state()
    on.check_memory()


PORTS = PORT.to_bytes(2, "big") * 2

#: Control packets that NAT could make of these are dropped at an edge.
OTHER_PORTS: dict[str, dict[str, Any]] = {
    "to another port": {"dport": PORT + 1},
    "from another port": {"sport": PORT - 1},
    "other ports": {"sport": 9, "dport": 9},
    # The fast test of data packets must leave these to the full one.
    "other ports behind a header": {"dport": 9, "header": bytes(4)},
    "other ports, those of control packets in a header": {"dport": 9, "header": PORTS},
}


def with_ports(good: Datagram, ports: dict[str, Any]) -> Datagram:
    """GOOD with other ports, perhaps behind IPv4 options or a hop-by-hop header."""
    header = ports.get("header", b"")
    fields = {name: value for name, value in ports.items() if name != "header"}
    if header and good.v6:
        # An option of the experiments' type, which may be ignored.
        fields |= {"extra": bytes([IPPROTO_UDP, 0, 0x1E, 4]) + header, "next_header": 0}
    elif header:
        fields["extra"] = header
    return replace(good, **fields)


def look_alikes() -> list[tuple[str, bytes]]:
    """Frames that resemble control packets, but are data."""
    generator = random.Random(4)
    noise = generator.randbytes
    packet = Packet(JOIN, id=NEW).pack()
    found: list[tuple[str, bytes]] = []
    for v6 in (False, True):
        good = Datagram(packet, v6)
        datagrams = {name: with_ports(good, ports) for name, ports in OTHER_PORTS.items()}
        datagrams |= {
            "another magic": replace(good, payload=noise(200)),
            "no magic": replace(good, payload=b"SLB"),
            "empty": replace(good, payload=b""),
            "noise": replace(good, payload=noise(1400), dport=53),
        }
        found += [(name, each.frame()) for name, each in datagrams.items()]
        protocol = 14 + (6 if v6 else 9)
        frame = bytearray(good.frame())
        for number in (1, 6, 33, 132, 136):
            frame[protocol] = number
            found.append((f"protocol {number}", bytes(frame)))
        frame = bytearray(good.frame())
        frame[14] = 0x55
        found.append(("version 5 of IP", bytes(frame)))
        found.append(("truncated in its headers", good.frame()[: 14 + 20 + 6]))
        # Later fragments have no ports, whatever their payload.
        if v6:
            extra = bytes([IPPROTO_UDP, 0]) + (64 << 3 | IP6_MF).to_bytes(2, "big") + bytes(4)
            later = replace(good, extra=extra, next_header=IPPROTO_FRAGMENT)
        else:
            later = replace(good, fragment=IP_MF | 64)
        found.append(("a later fragment", later.frame()))
    frame = bytearray(Datagram(packet).frame())
    frame[14] = 0x44
    found.append(("a header of 16 octets", bytes(frame)))
    return found


def test_data_packets_are_never_changed(on: Sessions) -> None:
    before = on.wire.state()
    for name, frame in look_alikes():
        assert on.wire.down(frame) == [frame], name
        back = frame[6:12] + frame[:6] + frame[12:]
        assert on.wire.received(back) == [back], name
    others = [bytes(12) + random.Random(n).randbytes(60 + n) for n in range(200)]
    assert on.wire.down(*others) == others
    assert on.wire.state() == before
    on.check_memory()


@pytest.mark.stock
def test_other_protocols_pass_one_early_test(on: Sessions) -> None:
    """Only UDP, ICMP and what may precede UDP are searched for control packets."""
    control = Datagram(Packet(JOIN, id=NEW)).frame()
    data = []
    for v6, number in itertools.product((False, True), (6, 33, 47, 50, 132, 136)):
        frame = bytearray(Datagram(Packet(JOIN, id=NEW), v6).frame())
        frame[14 + (6 if v6 else 9)] = number
        data.append(bytes(frame))
    for kind in (0x0806, 0x8847, 0x8848, 0x8863, 0x8864, 0x88E5):
        data.append(control[:12] + kind.to_bytes(2, "big") + control[14:])
    data += [Datagram(b"data", v6, dport=53).frame() for v6 in (False, True)]
    with probed("slbn_find") as trace:
        assert on.wire.down(*data * 10) == data * 10
        before = trace.read_text().count("called:")
        # The kernel may send ICMPv6.
        assert before < 10
        assert len(on.wire.down(control)) == 1
        assert trace.read_text().count("called:") > before


# --- dropped packets

Malform = Callable[[Packet], bytes]


def changed(**fields: Any) -> Malform:
    return lambda packet: replace(packet, **fields).pack()


def longer(more: int) -> Malform:
    return lambda packet: replace(packet, length=len(packet.pack()) + more).pack()


MALFORMED: dict[str, Malform] = {
    "magic only": lambda packet: packet.pack()[:4],
    "header of 95 octets": lambda packet: packet.pack()[:95],
    "length 0": changed(length=0),
    "length within the slots": changed(length=96 + 127),
    "length beyond the end": longer(1),
    "option without a length": changed(options=b"\x07"),
    "option beyond the end": changed(options=b"\x07\x05four"),
    "type 0": changed(type=0),
    "type 6": changed(type=6),
    "type 255": changed(type=255),
    "slots 0": changed(slots=0),
    "slots 65": changed(slots=65),
    "slots 255": changed(slots=255),
    **{
        f"slots of {n} octets": changed(slots=4, slot_length=n)
        for n in (0, 2, 3, 4, 5, 8, 11, 24, 255)
    },
    "hop beyond slots": changed(hop=33),
    "bottleneck is slots": changed(bottleneck=32),
    "bottleneck 254": changed(bottleneck=254),
    "B beyond slots": changed(B=1 << 32),
    "weight 0": changed(weight=0),
    "weight too high": changed(weight=WEIGHT_MAX + 1),
    "largest weight of 24 bits": changed(weight=2**24 - 1),
    "bw too high": changed(bw=RATE_MAX + 1),
    "bw' too high": changed(bw1=RATE_MAX + 1),
    "bw'' too high": changed(bw2=2**64 - 1),
    "use' too high": changed(use1=RATE_MAX + 1),
    "use too high": changed(use=RATE_MAX + 1),
    "g too high": changed(g=2**63),
    "short authentication": changed(options=option(AUTH, bytes(AUTH_LENGTH - 1))),
    "long authentication": changed(options=option(AUTH, bytes(AUTH_LENGTH + 1))),
    "authentication twice": changed(options=2 * option(AUTH, bytes(AUTH_LENGTH))),
    "short trace": changed(options=option(TRACE, bytes(39))),
    "long trace": changed(options=option(TRACE, bytes(41))),
    "trace twice": changed(options=2 * option(TRACE, bytes(40))),
}


@FAMILIES
@pytest.mark.parametrize("direction", ["down", "up"])
def test_malformed_packets_are_dropped(on: Sessions, direction: str, v6: bool) -> None:
    on.v6 = v6
    start = on.wire.state()
    packet = on.probe() if direction == "down" else on.ack()
    good = on.datagram(packet)
    malformed = [(name, replace(good, payload=make(packet))) for name, make in MALFORMED.items()]
    for difference in (1, 10_000):
        length = 8 + len(good.content()) + difference
        malformed.append((f"UDP {difference} too long", replace(good, udp_length=length)))
    for length in (0, 1, 7):
        malformed.append((f"UDP of {length} octets", replace(good, udp_length=length)))
    # Of the other IP version.
    other = changed(slot_length=SLOT_V4 if v6 else SLOT_V6)
    malformed.append(("slots", replace(good, payload=other(packet))))
    for number, (name, datagram) in enumerate(malformed, 1):
        if direction == "down":
            assert on.wire.down(datagram.frame()) == [], name
            assert start.changes(on.wire.state()) == {"malformed": number}, name
        else:
            # No link can be found for it: it is left to the agent.
            assert on.wire.up(datagram.answer().frame()) == [], name
            assert start == on.wire.state(), name
    on.check_memory()
    check_good(on, direction)


@FAMILIES
def test_other_versions_are_dropped(on: Sessions, v6: bool) -> None:
    """Packets of any type and length: only magic and version are at the same place."""
    start = on.wire.state()
    number = 0
    for version in (0, 1, 3, 255):
        for packet in (on.probe(version=version), on.ack(version=version)):
            for payload in (packet.pack(), packet.pack()[:72], packet.pack()[:8]):
                datagram = Datagram(payload, v6)
                assert on.wire.down(datagram.frame()) == []
                # Answers are left to the agent.
                assert on.wire.up(datagram.answer().frame()) == []
                number += 1
                assert start.changes(on.wire.state()) == {"other_version": number}
    on.check_memory()


@FAMILIES
def test_udp_beyond_ip_packet_is_malformed(on: Sessions, v6: bool) -> None:
    """Octets after the end of the IP packet are padding of the frame."""
    on.v6 = v6
    good = on.datagram(on.probe())
    last = len(good.udp()) - 8
    padded = replace(good, octets=last, padding=good.udp()[last:])
    check_dropped(on, "down", "malformed", padded)


@FAMILIES
@pytest.mark.parametrize("direction", ["down", "up"])
def test_bad_checksum_is_dropped(on: Sessions, direction: str, v6: bool) -> None:
    on.v6 = v6
    good = on.datagram(on.probe() if direction == "down" else on.ack())
    wrong = [replace(good, check=int.from_bytes(good.udp()[6:8], "big") ^ 1)]
    flipped = bytearray(good.content())
    flipped[-1] ^= 0x80
    wrong.append(replace(good, payload=bytes(flipped), check=int.from_bytes(good.udp()[6:8])))
    if v6:
        # Only IPv4 allows none.
        wrong.append(replace(good, check=0))
    if direction == "down":
        # Also on an upstream packet that is sent.
        wrong.append(replace(on.datagram(on.ack()), check=0xBAD))
    check_dropped(on, direction, "bad_checksum", *wrong)


@pytest.mark.parametrize("direction", ["down", "up"])
def test_routing_headers_with_segments_left(on: Sessions, direction: str) -> None:
    """Checksum and authentication cover the final destination, the IPv6 header has another."""
    on.v6 = True
    start = on.wire.state()
    good = on.datagram(on.probe() if direction == "down" else on.ack())
    final = good.addresses()[16:]
    valid = replace(
        good,
        destination="fd00::9",
        payload=good.content(),
        check=int.from_bytes(good.udp()[6:8], "big"),
        next_header=IPPROTO_ROUTING,
    )
    # Source route (0), Mobile IPv6 (2), segment routing (4); those with 0 left are CARRIERS.
    routed = [
        replace(valid, extra=bytes([IPPROTO_UDP, 2, kind, 1, 0, 0, 0, 0]) + final)
        for kind in (0, 2, 4)
    ]
    if direction == "down":
        check_dropped(on, "down", "malformed", *routed)
        return
    # Left to the router, which processes routing headers or drops them.
    for each in routed:
        assert on.wire.up(each.answer().frame()) == []
    assert on.wire.state() == start
    check_good(on, "up")


def fragments(good: Datagram, octets: int) -> Datagram:
    """The first fragment, with the given number of octets of the UDP datagram."""
    if not good.v6:
        return replace(good, fragment=IP_MF, octets=octets)
    head = bytes([IPPROTO_UDP, 0]) + IP6_MF.to_bytes(2, "big") + bytes(4)
    return replace(good, extra=head, next_header=IPPROTO_FRAGMENT, octets=octets)


@FAMILIES
def test_fragments_are_dropped(on: Sessions, v6: bool) -> None:
    on.v6 = v6
    good = on.datagram(on.probe())
    # The shortest do not contain the magic.
    short = [fragments(good, n) for n in (8, 11, 12, 24, 80, 1000)]
    padded = replace(short[0], padding=bytes(18))
    check_dropped(on, "down", "fragments", *short, padded)


def test_fragments_of_data_pass(on: Sessions) -> None:
    before = on.wire.state()
    for v6 in (False, True):
        other = Datagram(b"data" * 100, v6)
        frames = [fragments(other, n).frame() for n in (12, 80, 240)]
        frames += [fragments(replace(other, dport=9), n).frame() for n in (8, 11, 80)]
        assert on.wire.down(*frames) == frames
    assert on.wire.state() == before


def test_control_limit_drops_packets() -> None:
    with wire() as made:
        on = Sessions(made)
        # 1 bit/s, and the tokens that had been saved.
        made.change(rate=1000, control=1)
        frame = on.frame(on.last_probe)
        # Stale packets, such as replayed ones, do not take any.
        stale = on.frame(replace(on.last_probe, seq=on.last_probe.seq - 1))
        start = made.state()
        assert made.down(*[stale] * 1000) == []
        assert start.changes(made.state()) == {"stale": 1000}
        assert any(not made.down(frame) for _ in range(50_000))
        start = made.state()
        assert start.rate_limited == 1
        ack = on.frame(on.ack())
        leave = on.frame(replace(on.probe(), type=LEAVE))
        assert made.down(*[on.frame(on.probe()), ack, leave] * 20) == []
        assert start.changes(made.state()) == {"rate_limited": 60}
        # Upstream packets that are received do not take tokens.
        made.up(on.datagram(replace(on.last_probe, type=PROBE_ACK, hop=1)).answer().frame())
        data = Datagram(b"data", sport=9, dport=9).frame()
        assert made.down(data) == [data]
        made.change(rate=100 * MEGA, control=1000)
        time.sleep(0.1)  # for tokens
        # The low rate had moved it to R.
        made.down(frame)
        on.check_memory()


def test_too_many_hops_are_dropped(on: Sessions) -> None:
    start = on.wire.state()
    for number, kind in enumerate((JOIN, PROBE, LEAVE), 1):
        for v6 in (False, True):
            frame = Datagram(on.probe(type=kind, hop=32), v6).frame()
            assert on.wire.down(frame) == []
        assert start.changes(on.wire.state()) == {"too_many_hops": 2 * number}
    on.check_memory()
    # The last slot can be used.
    frame = on.frame(Packet(JOIN, id=NEW, hop=63, slots=64, bw=MEGA))
    assert len(on.wire.down(frame)) == 1


def test_wrong_path_is_dropped(on: Sessions) -> None:
    """Acknowledgments of packets that did not pass this link downstream."""
    tag = on.wire.tags(NEW)[0]
    # The memory knows that it has left.
    on.wire.change(memory=0)
    on.wire.change(memory=64)
    on.wire.down(on.frame(on.last_probe))
    start = on.wire.state()
    packets = [
        # A session without a memory entry and with an unknown tag.
        on.ack(id=NEW, tags={0: next_tag(tag)}),
        on.ack(id=NEW, tags={}),
        on.ack(id=NEW, tags={1: tag}),
    ]
    for number, packet in enumerate(packets, 1):
        assert on.wire.up(on.datagram(packet).answer().frame()) == []
        assert start.changes(on.wire.state()) == {"wrong_path": number}
    on.check_memory()
    # A forged packet with a current tag is processed: hence the authentication.
    frame = on.datagram(on.ack(id=NEW, tags={0: tag})).answer().frame()
    assert len(on.wire.up(frame)) == 1


# --- sessions in the ledgers


def test_retransmitted_packets_are_idempotent_and_stale_ones_dropped(on: Sessions) -> None:
    start = on.wire.state()
    probe = on.probe()
    first, again, third = on.wire.down(*[on.frame(probe)] * 3)
    # The memory overrides the state in a retransmitted Probe.
    assert first == again == third == on.frame(replace(probe, hop=1))
    grown = {"BF": 10 * MEGA, "share": -10 * MEGA}
    assert start.changes(on.wire.state()) == {"probes": 3, "corrected": 2, **grown}
    # Sequence numbers wrap; half of the number space is older.
    assert on.wire.down(on.frame(replace(probe, seq=1))) == []
    assert on.wire.down(on.frame(replace(probe, seq=(2 + 2**31) % 2**32))) == []
    ack = on.ack(seq=1)
    assert on.wire.up(on.datagram(ack).answer().frame()) == []
    assert start.changes(on.wire.state())["stale"] == 3
    # Also a Join.
    assert on.wire.down(on.frame(replace(probe, type=JOIN, seq=0))) == []
    # A retransmitted Join is counted once.
    before = on.wire.state()
    on.wire.down(*[on.frame(Packet(JOIN, id=NEW))] * 3)
    after = on.wire.state()
    assert (
        after.N - before.N,
        after.new_sessions - before.new_sessions,
        after.joins - before.joins,
    ) == (1, 1, 3)
    # A retransmitted Leave removes the session once.
    leave = Packet(LEAVE, id=NEW, seq=1, B=1, bottleneck=0, tags={0: after.tag})
    assert len(on.wire.down(*[on.frame(leave)] * 3)) == 3
    gone = on.wire.state()
    assert (gone.N, gone.NR, gone.BF) == (before.N, before.NR, before.BF)
    assert (gone.leaves, gone.clamped) == (3, 0)
    # A delayed Probe does not add the session again.
    late = Packet(PROBE, id=NEW, seq=0, B=1, bottleneck=0, tags={0: after.tag})
    assert on.wire.down(on.frame(late)) == []
    assert gone.changes(on.wire.state()) == {"stale": 1}


def test_ledger_never_falls_below_zero() -> None:
    """Forged packets subtract more than the ledger has; the results are clamped."""
    with wire(memory=0) as made:
        on = Sessions(made)
        before = made.state()
        assert before.memory_entries == 0
        made.down(on.frame(on.probe(bw2=10**12, bw1=5 * MEGA)))
        after = made.state()
        moved = {"BF": -15 * MEGA, "share": 15 * MEGA}
        assert before.changes(after) == {"clamped": 1, "probes": 1, **moved}
        # More sessions leave than are counted, from R and from F.
        for _ in range(3):
            made.down(on.frame(on.probe(type=LEAVE, B=1)))
        gone = made.state()
        assert (gone.N, gone.NR, gone.BF, gone.clamped) == (0, 0, 5 * MEGA, 1 + 1 + 2)
        made.down(on.frame(on.probe(type=LEAVE, bw1=6 * MEGA)))
        gone = made.state()
        assert (gone.N, gone.NR, gone.BF, gone.clamped) == (0, 0, 0, 4 + 2)


def test_unknown_tag_counts_session_as_new(on: Sessions) -> None:
    """Without a memory entry, for any type of packet but Leave."""
    state = on.wire.state()
    # By chance, a tag is that of a session's ledger in one of 65,535 runs.
    for number, tag in enumerate((0, 1, 0xFF00), 10):
        packet = on.probe(id=bytes([number]) * 16, tags={0: tag}, bw=MEGA, bw1=MEGA, bw2=9)
        on.wire.down(on.frame(packet))
        after = on.wire.state()
        assert (after.N - state.N, after.new_sessions - state.new_sessions) == (1, 1)
        assert (after.BF - state.BF, after.clamped, after.corrected) == (MEGA, 0, 0)
        state = after
    # A Leave of an uncounted session subtracts nothing.
    before = on.wire.state()
    on.wire.down(on.frame(on.probe(type=LEAVE, id=NEW, tags={})))
    assert before.changes(on.wire.state()) == {"leaves": 1}


# --- commit


def held_by(made: Wire, packet: Packet, upstream: bool = False) -> tuple[int, Packet]:
    """Send a packet; returns what the sessions then hold, and the forwarded packet."""
    datagram = Datagram(packet)
    came = made.up(datagram.answer().frame()) if upstream else made.down(datagram.frame())
    (payload,) = (read_udp(frame)[0] for frame in came)
    return made.state().held, read_packet(payload)


@pytest.mark.parametrize("memory", [0, 64])
def test_newcomer_waits_for_capacity_in_use(memory: int) -> None:
    """The rates of two sessions, cycle by cycle, at a link of 100 Mbit/s with 10 % headroom."""
    with wire(memory=memory, headroom=100) as made:
        assert (made.state().capacity, made.state().plan) == (100 * MEGA, 90 * MEGA)

        def cycle(packet: Packet) -> Packet:
            """One cycle; returns the next Probe, of a source that uses what it was granted."""
            held, came = held_by(made, packet)
            assert held <= 100 * MEGA
            held, ack = held_by(made, came.reply(), upstream=True)
            assert held <= 100 * MEGA
            rate = min(ack.g, ack.bw)
            probe = replace(ack, type=PROBE, seq=ack.seq + 1, use1=ack.use, use=rate)
            return replace(probe, bw2=ack.bw1, bw1=ack.bw, hop=0, B=1, bottleneck=0)

        first = cycle(Packet(JOIN, id=GREEDY))
        assert first.use == 90 * MEGA
        # Of its fair share, 45 Mbit/s, the headroom is free.
        second = cycle(Packet(JOIN, id=NEW))
        assert second.bw == 45 * MEGA
        assert 9 * MEGA < second.use <= 10 * MEGA
        assert made.state().limited == 1
        # The first session learns its new share, but still holds the old one.
        first = cycle(first)
        assert first.use == 45 * MEGA
        second = cycle(second)
        assert second.use == 10 * MEGA
        assert made.state().limited == 2
        # Its next packet releases it.
        first = cycle(first)
        second = cycle(second)
        assert (first.use, second.use) == (45 * MEGA, 45 * MEGA)
        assert made.state().held in range(90 * MEGA, 90 * MEGA + 2**16)
        first, second = cycle(first), cycle(second)
        assert made.state().held == 90 * MEGA
        for packet in (first, second):
            held_by(made, replace(packet, type=LEAVE))
        state = made.state()
        assert (state.N, state.NR, state.BF, state.A, state.clamped) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("memory", [0, 64])
def test_retransmitted_packet_releases_only_what_is_certain(memory: int) -> None:
    with wire(memory=memory) as made:
        held, came = held_by(made, Packet(JOIN, id=NEW, bw=30 * MEGA))
        held, ack = held_by(made, came.reply(), upstream=True)
        assert held == decode(ack.codes[0]) >= ack.g == 30 * MEGA
        if memory:
            # A copy that was sent before the answer came: the source may use what it was granted.
            again, _ = held_by(made, Packet(JOIN, id=NEW, bw=30 * MEGA, flags=AGAIN))
            assert again == held
        probe = replace(ack, type=PROBE, seq=1, bw1=30 * MEGA, use=20 * MEGA, flags=AGAIN)
        held, _ = held_by(made, probe)
        # Without memory the link cannot know whether it has processed the first copy.
        assert held == (20 * MEGA if memory else decode(ack.codes[0]))
        assert made.state().clamped == 0


def test_overuse_is_dropped() -> None:
    """Packets that state a higher use than the link granted, down and up."""
    with wire() as made:
        _, came = held_by(made, Packet(JOIN, id=NEW, bw=30 * MEGA))
        _, ack = held_by(made, came.reply(), upstream=True)
        probe = replace(ack, type=PROBE, seq=1, bw1=30 * MEGA, use=30 * MEGA)
        before = made.state()
        assert made.down(Datagram(replace(probe, use=31 * MEGA)).frame()) == []
        assert before.changes(made.state()) == {"overuse": 1}
        held, came = held_by(made, probe)
        assert held == 30 * MEGA
        before = made.state()
        lie = Datagram(replace(came.reply(), use=31 * MEGA))
        assert made.up(lie.answer().frame()) == []
        assert before.changes(made.state()) == {"overuse": 1}


def test_lower_capacity_stops_rises_until_held_fits() -> None:
    """Capacity lowered under traffic: what is in use stays, and nothing more is granted."""
    with wire() as made:
        probes = []
        for session in (GREEDY, NEW):
            _, came = held_by(made, replace(Packet(JOIN, id=session), bw=40 * MEGA))
            _, ack = held_by(made, came.reply(), upstream=True)
            assert ack.g == 40 * MEGA
            probe = replace(ack, type=PROBE, seq=1, use=40 * MEGA, bw2=0, bw1=40 * MEGA)
            probes.append(held_by(made, probe)[1])
        assert made.state().held == 80 * MEGA
        made.change(rate=50 * MEGA)
        # A session that wants to rise from 40 to its share keeps what it uses, as does A.
        held, ack = held_by(made, replace(probes[0].reply(), bw=50 * MEGA), upstream=True)
        assert (held, ack.g, ack.codes) == (80 * MEGA, 25 * MEGA, {})
        _, join = held_by(made, Packet(JOIN, id=MODEST, bw=5 * MEGA))
        held, ack = held_by(made, join.reply(), upstream=True)
        assert (held, ack.g) == (80 * MEGA, 0)
        # Both release: 5 of 50 Mbit/s are free.
        for number, probe in enumerate(probes):
            lower = replace(probe, seq=2, hop=0, use1=40 * MEGA, use=25 * MEGA - number * 5 * MEGA)
            held, _ = held_by(made, lower)
        assert held == 45 * MEGA
        held, ack = held_by(made, replace(join.reply(), seq=1), upstream=True)
        assert ack.g == 5 * MEGA - (5 * MEGA - decode(ack.codes[0])) >= 4_990_000
        assert held <= 50 * MEGA


def test_quiet_link_grants_only_what_is_in_use() -> None:
    """A new link does not know who uses it."""
    with wire(epoch=SECOND) as made:
        assert 0 < made.state().quiet <= SECOND
        _, came = held_by(made, Packet(JOIN, id=NEW))
        held, ack = held_by(made, came.reply(), upstream=True)
        assert (held, ack.bw, ack.g, made.state().limited) == (0, 100 * MEGA, 0, 1)
        # A session from before.
        probe = Packet(PROBE, id=GREEDY, seq=7, use=30 * MEGA, tags={0: 9}, codes={0: 99})
        _, came = held_by(made, replace(probe, use1=20 * MEGA))
        held, ack = held_by(made, came.reply(), upstream=True)
        assert (held, ack.g, made.state().limited) == (30 * MEGA, 30 * MEGA, 2)
        wait_for(lambda: made.state().quiet == 0)
        _, came = held_by(made, Packet(JOIN, id=MODEST))
        held, ack = held_by(made, came.reply(), upstream=True)
        assert 0 < ack.g <= 100 * MEGA and held <= 100 * MEGA


def test_short_epoch_waits_for_rates_without_a_lease() -> None:
    """After `epoch 0` a session keeps its rate when its ledger is dropped: no other gets it."""
    with wire() as made:
        _, came = held_by(made, Packet(JOIN, id=GREEDY))
        held, ack = held_by(made, came.reply(), upstream=True)
        assert (held, min(ack.g, ack.bw)) == (FULL_RATE, FULL_RATE)
        made.change(epoch=10_000_000)
        deadline = time.monotonic() + 0.5
        while made.state().held:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        _, came = held_by(made, Packet(JOIN, id=NEW))
        _, ack = held_by(made, came.reply(), upstream=True)
        assert made.state().quiet > 0
        assert (ack.g, ack.use) == (0, 0)


def test_commit_off_holds_nothing() -> None:
    """Protocol 1: rates come from the plan alone, and neither codes nor g are changed."""
    with wire(commit=0) as made:
        for session in (GREEDY, NEW):
            _, came = held_by(made, Packet(JOIN, id=session, use=90 * MEGA, codes={0: 77}))
            assert came.codes == {}
            ack = came.reply()
            _, came = held_by(made, ack, upstream=True)
            assert (came.g, came.epoch) == (ack.g, ack.epoch)
        state = made.state()
        assert (state.A, state.limited, state.quiet) == (0, 0, 0)
        assert came.bw == 50 * MEGA


@contextlib.contextmanager
def rotated() -> Iterator[Sessions]:
    """The sessions right after the first rotation of the ledgers."""
    for _ in range(20):
        with wire() as made:
            on = Sessions(made)
            made.change(epoch=50_000_000)
            while made.state().tag == on.tag:
                time.sleep(0.001)
            made.change(epoch=3600 * SECOND)
            # Retry if the machine was stalled for two epochs.
            if made.state().previous_tag == on.tag:
                yield on
                return
    raise AssertionError("the ledgers always rotated twice")


def test_next_packet_migrates_session() -> None:
    with rotated() as on:
        made = on.wire
        start = made.state()
        assert (start.N, start.NR, start.BF) == (0, 0, 0)
        assert (start.previous_N, start.previous_NR, start.previous_BF) == (2, 1, 20 * MEGA)
        probe = on.probe()
        came = replace(probe, hop=1, tags={0: next_tag(on.tags[MODEST])})
        moved = {"previous_N": -1, "previous_BF": -20 * MEGA, "N": 1, "BF": 30 * MEGA}
        moved |= {"share": -10 * MEGA, "probes": 1, "migrated": 1}
        expect(made, "down", on.frame(probe), on.frame(came), **moved)
        # A ProbeAck migrates a session in R, too.
        ack = Packet(PROBE_ACK, id=GREEDY, hop=1, bottleneck=0, B=1, tags={0: on.tags[GREEDY]})
        tags = {0: next_tag(on.tags[GREEDY])}
        came = replace(ack, hop=0, bw=70 * MEGA, tags=tags, epoch=3600 * 10**6)
        came = replace(came, written=1)
        moved = {"previous_N": -1, "previous_NR": -1, "N": 1, "NR": 1, "acks": 1, "migrated": 1}
        expect(made, "up", on.datagram(ack).answer().frame(), on.datagram(came).sent_on(), **moved)
        # A retransmission does not migrate it again; the memory corrects its tag.
        came = replace(probe, hop=1, tags={0: next_tag(on.tags[MODEST])})
        expect(made, "down", on.frame(probe), on.frame(came), probes=1, corrected=1)


def test_share_events_are_counted() -> None:
    """Changes of the share by more than the threshold, not packets."""
    with wire(threshold=100) as made:
        frame = Datagram(Packet(JOIN, id=NEW)).frame()
        made.down(frame)
        # A single session has the whole capacity.
        assert made.state().share == 100 * MEGA
        for number in range(1, 3):
            joins = [Datagram(Packet(JOIN, id=bytes([number, n]) * 8)).frame() for n in range(20)]
            made.down(*joins)
            wait_for(lambda number=number: made.state().events == number)  # type: ignore[misc]
        share = made.state().share
        assert share == 100 * MEGA // 41
        # One more session changes the share by less than 10 %.
        made.down(Datagram(Packet(JOIN, id=bytes(16))).frame())
        assert made.state().share < share
        made.change(threshold=1)
        wait_for(lambda: made.state().events == 3)


# --- edge


@pytest.mark.parametrize("key", [None, KEY], ids=["no key", "key"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_edge_answers_for_hosts(carrier: str, key: bytes | None) -> None:
    how = {"ttl": 1, **CARRIERS[carrier]}
    with wire(edge=1, key=key or b"") as made:
        tag = made.tags(NEW, key)[0]
        packet = Packet(JOIN, id=NEW, slots=4, hop=2, options=OPTIONS, key=key, trailer=b"and")
        # The hops before are not this router.
        returns = {n: (75 + n, ORIGIN[how.get("v6", False)]) for n in (1, 2)}
        packet = replace(packet, returns=returns, written=3)
        # Processed twice: downstream, put in R, and upstream, given a rate.
        rate = FULL_RATE
        came = replace(packet.reply(), bottleneck=2, B=4, bw=100 * MEGA, tags={2: tag})
        came = replace(came, g=rate, codes={2: FULL_CODE})
        changes = {"joins": 1, "new_sessions": 1, "acks": 1, "N": 1, "NR": 1, "A": rate}
        for kind in (JOIN, PROBE, LEAVE):
            before = made.state()
            if kind == PROBE:
                packet = replace(came, type=PROBE, seq=1, bw1=60 * MEGA, bw=60 * MEGA, bottleneck=0)
                packet = replace(packet, use=70 * MEGA)
                came = replace(packet.reply(), B=0, g=60 * MEGA, tags={2: tag})
                changes = {"probes": 1, "acks": 1, "NR": -1, "BF": 60 * MEGA, "A": 70 * MEGA - rate}
            elif kind == LEAVE:
                packet = replace(came, type=LEAVE, seq=2)
                came = replace(packet, type=LEAVE_ACK, tags={})
                changes = {"leaves": 1, "leave_acks": 1, "N": -1}
                changes |= {"BF": -60 * MEGA, "A": -70 * MEGA}
            datagram = Datagram(packet, **how)
            frame = datagram.frame()
            host, back = made.both(frame)
            assert before.changes(made.state()) == {"answered": 1, **changes}
            assert host == []
            reply = with_time_of(replace(datagram, payload=came).sent_on(), frame)
            assert back == [reply.frame()]


@FAMILIES
def test_edge_drops_control_packets_of_hosts(v6: bool) -> None:
    with wire(edge=1) as made:
        start = made.state()
        frames = [
            Datagram(Packet(kind, id=NEW, hop=1, tags={0: start.tag}), v6)
            for kind in (JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK, 0, 99)
        ]
        # Also of other versions.
        frames.append(Datagram(Packet(JOIN, version=1), v6))
        frames.append(replace(frames[0], check=0xBAD))
        frames.append(fragments(frames[0], 80))
        frames.append(fragments(frames[0], 8))
        # Padded to the length of an Ethernet frame.
        frames.append(replace(frames[-1], padding=bytes(18)))
        # A router removes any number of tags without a VLAN.
        frames += [replace(frames[0], vlans=((0x8100, 0),) * n) for n in (1, 9, 10, 30)]
        # NAT may change their ports.
        frames += [with_ports(frames[0], ports) for ports in OTHER_PORTS.values()]
        sent = [each.back() for each in frames] + [each.answer() for each in frames]
        for number, datagram in enumerate(sent, 1):
            assert made.received(datagram.frame()) == []
            assert start.changes(made.state()) == {"from_hosts": number}
        for name, frame in look_alikes():
            if name not in OTHER_PORTS:
                back = frame[6:12] + frame[:6] + frame[12:]
                assert made.received(back) == [back], name


@FAMILIES
def test_edge_answers_only_valid_downstream_packets(v6: bool) -> None:
    with wire(edge=1) as made:
        start = made.state()
        tags = {0: start.tag}
        # Acknowledgments belong to the link of the other direction, with a source behind the edge.
        for kind in (PROBE_ACK, LEAVE_ACK):
            frame = Datagram(Packet(kind, id=NEW, hop=1, tags=tags), v6).frame()
            assert made.both(frame) == ([frame], [])
        good = Datagram(Packet(JOIN, id=NEW), v6)
        assert start.changes(made.state()) == {}
        invalid = {
            "bad_checksum": replace(good, check=0xBAD),
            "bad_key": replace(good, payload=Packet(JOIN, key=KEY)),
            "malformed": replace(good, payload=Packet(JOIN, weight=0)),
            "other_version": replace(good, payload=Packet(JOIN, version=1)),
            "fragments": fragments(good, 80),
            "too_many_hops": replace(good, payload=Packet(JOIN, hop=4, slots=4)),
        }
        for datagram in invalid.values():
            assert made.both(datagram.frame()) == ([], [])
        assert start.changes(made.state()) == dict.fromkeys(invalid, 1)
