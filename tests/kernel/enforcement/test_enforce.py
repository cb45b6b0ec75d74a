# SPDX-License-Identifier: GPL-2.0
"""Rate enforcement: pacing by slbnd's BPF program and fq, or rate limits by htb classes.

    node 0 ---- node 1 ---- node 2
                     e1: fq or htb, at the root or below slbn

The program is also run on single packets (BPF_PROG_TEST_RUN), to check its state exactly.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.enforcer import (
    Enforcer,
    Flow,
    Setup,
    by_specificity,
    enforcer,
    fq_at_root,
    fq_below_slbn,
    htb_at_root,
    htb_below_slbn,
    without_counters,
)
from tests.kernel.lib.net import Namespace, sh, wait_for
from tests.kernel.lib.senders import BURST, FIRST_BURST, Traffic, close_to, sender
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_wire import internet_sum

pytestmark = pytest.mark.virtual

#: Return values of the program.
PASS, DROP = -1, 2

#: ENFORCE_QUEUE [ns]; flows of enforce_try
QUEUE, FLOWS = 100_000_000, 4096

PREFERENCE = 49470


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(2) as made:
        yield made


# --- single packets -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(enforce_try: str) -> Iterator[Enforcer]:
    """The program on a device without traffic."""
    with chain(1) as net:
        net.tc(0, "qdisc replace dev e0 root fq limit 100000 flow_limit 100000")
        # The packets' sources are not addresses of this router.
        net.nodes[0].sh("ip addr flush dev e0")
        with enforcer(net.nodes[0], enforce_try, "e0") as made:
            yield made


@pytest.fixture
def alone(loaded: Enforcer) -> Iterator[Enforcer]:
    """The same without flows, whether or not the test before it passed."""
    yield loaded
    for flow in list(loaded.flows):
        loaded.remove(flow)


#: ECN-capable (RFC 3168), in the TOS field.
ECT0 = 2

ETHERNET = bytes(12)
V4, V6 = b"\x08\x00", b"\x86\xdd"
TCP, UDP, ICMP, SCTP, AH = 6, 17, 1, 132, 51
HOPS, ROUTING, FRAGMENT, OPTIONS = 0, 43, 44, 60
SOURCE4, DESTINATION4 = "10.0.0.1", "10.0.0.2"
SOURCE6, DESTINATION6 = "fd00::1", "fd00::2"

#: TCP's flags (RFC 9293).
FIN, PSH = 1, 8


def ports(source: int = 1000, destination: int = 80) -> bytes:
    return struct.pack(">HH", source, destination) + bytes(16)


def v4(protocol: int, payload: bytes, options: bytes = b"", fragment: int = 0) -> bytes:
    head = bytes([0x45 + len(options) // 4, 0])
    head += struct.pack(">HHHBBH", 20 + len(options) + len(payload), 1, fragment, 64, protocol, 0)
    head += socket.inet_aton(SOURCE4) + socket.inet_aton(DESTINATION4)
    return head + options + payload


def v6(following: int, payload: bytes) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(payload), following, 64)
    head += socket.inet_pton(socket.AF_INET6, SOURCE6)
    return head + socket.inet_pton(socket.AF_INET6, DESTINATION6) + payload


def extension(following: int, length: int = 0) -> bytes:
    return bytes([following, length]) + bytes(6 + length * 8)


def fragment6(following: int, field: int) -> bytes:
    return struct.pack(">BBHI", following, 0, field, 7)


def full(protocol: int = TCP, six: bool = False) -> Flow:
    source, destination = (SOURCE6, DESTINATION6) if six else (SOURCE4, DESTINATION4)
    return Flow(destination, source, protocol, 1000, 80)


PLAIN4 = ETHERNET + V4 + v4(TCP, ports())
PLAIN6 = ETHERNET + V6 + v6(TCP, ports())
TAG = b"\x81\x00\x00\x05"
OUTER_TAG = b"\x88\xa8\x00\x06"

#: Packets, and the session with all fields that each matches; None: no session.
SHAPES = {
    "IPv4": (PLAIN4, full()),
    "IPv4 UDP": (ETHERNET + V4 + v4(UDP, ports()), full(UDP)),
    "IPv4 SCTP": (ETHERNET + V4 + v4(SCTP, ports()), full(SCTP)),
    "IPv4 options": (ETHERNET + V4 + v4(TCP, ports(), bytes([1] * 40)), full()),
    "IPv4 tag": (ETHERNET + TAG + V4 + v4(TCP, ports()), full()),
    "IPv4 tags": (ETHERNET + OUTER_TAG + TAG + V4 + v4(TCP, ports()), full()),
    "IPv4 three tags": (ETHERNET + OUTER_TAG + TAG + TAG + V4 + v4(TCP, ports()), None),
    "IPv4 first fragment": (ETHERNET + V4 + v4(UDP, ports(), fragment=0x2000), full(UDP)),
    "IPv4 later fragment": (ETHERNET + V4 + v4(UDP, ports(), fragment=0x0100), None),
    "IPv4 no ports": (ETHERNET + V4 + v4(ICMP, ports()), None),
    "IPv4 other port": (ETHERNET + V4 + v4(TCP, ports(1000, 81)), None),
    "IPv6": (PLAIN6, full(six=True)),
    "IPv6 UDP tag": (ETHERNET + TAG + V6 + v6(UDP, ports()), full(UDP, True)),
    "IPv6 extensions": (
        ETHERNET
        + V6
        + v6(
            HOPS,
            extension(ROUTING, 1)
            + extension(OPTIONS, 2)
            + extension(AH)
            + bytes([TCP, 4])
            + bytes(22)
            + ports(),
        ),
        full(six=True),
    ),
    "IPv6 first fragment": (
        ETHERNET + V6 + v6(FRAGMENT, fragment6(UDP, 1) + ports()),
        full(UDP, True),
    ),
    "IPv6 later fragment": (ETHERNET + V6 + v6(FRAGMENT, fragment6(UDP, 0x101) + ports()), None),
    "IPv6 too many extensions": (
        ETHERNET + V6 + v6(OPTIONS, extension(OPTIONS) * 6 + extension(TCP) + ports()),
        None,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_packet_matches_its_session(alone: Enforcer, name: str) -> None:
    packet, expected = SHAPES[name]
    sessions = [full(p, six) for p in (TCP, UDP, SCTP, ICMP) for six in (False, True)]
    for session in sessions:
        alone.set(session, 0)
    assert alone.run(packet)[0] == PASS
    counted = {session for session in sessions if alone.read(session).packets}
    used = [alone.read(session).bytes for session in counted]
    for session in sessions:
        alone.remove(session)
    assert (counted, used) == (({expected}, [len(packet)]) if expected else (set(), []))


def test_later_fragments_match_sessions_without_ports(alone: Enforcer) -> None:
    packets = [ETHERNET + V4 + v4(UDP, ports(), fragment=0x0100)]
    packets.append(ETHERNET + V6 + v6(FRAGMENT, fragment6(UDP, 0x101) + ports()))
    sessions = [Flow(DESTINATION4, protocol=UDP), Flow(DESTINATION6, protocol=UDP)]
    for session, packet in zip(sessions, packets, strict=True):
        alone.set(session, 0)
        alone.run(packet)
        assert alone.read(session).packets == 1
        alone.remove(session)


def test_most_specific_session_matches(alone: Enforcer) -> None:
    sessions = by_specificity(Flow(DESTINATION4, SOURCE4, TCP, 1000, 80))
    for session in random.Random(1).sample(sessions, len(sessions)):
        alone.set(session, 0)
    for number, session in enumerate(sessions):
        alone.run(PLAIN4)
        counts = [alone.read(other).packets for other in sessions[number:]]
        assert counts == [1] + [0] * (len(sessions) - number - 1), session
        alone.remove(session)
    assert alone.ask(f"read {sessions[0]}") == ["unknown"]


def test_other_packets_pass(alone: Enforcer) -> None:
    session = Flow(DESTINATION4, SOURCE4, UDP)
    alone.set(session, 1)
    control = ETHERNET + V4 + v4(UDP, ports(49470, 49470))
    for packet in (control, PLAIN4, PLAIN6, ETHERNET + b"\x08\x06" + bytes(40)):
        for _ in range(3):
            assert alone.run(packet) == (PASS, 0)
    assert alone.read(session).packets == 0
    verdicts = [
        alone.run(ETHERNET + V4 + v4(UDP, ports(*nearly)))[0]
        for nearly in ((49470, 49471), (49471, 49470))
    ]
    assert verdicts == [PASS, DROP]
    use = alone.read(session)
    assert (use.packets, use.drops) == (1, 1)
    alone.remove(session)


@pytest.mark.parametrize("name", ["IPv4", "IPv4 tag", "IPv4 tags", "IPv6", "IPv6 UDP tag"])
def test_departure_time_is_set(alone: Enforcer, name: str) -> None:
    packet, session = SHAPES[name]
    assert session
    alone.set(session, MEGA)
    verdict, departure = alone.run(packet, 1000, 3)
    use = alone.read(session)
    alone.remove(session)
    assert (verdict, departure) == (PASS, use.departure)
    assert departure > use.last


@pytest.mark.parametrize("rate", [3 * 10**9, 7 * 10**9 + 1, 10**9 // 7, 10 * MEGA + 1])
def test_departure_times_are_exact(alone: Enforcer, rate: int) -> None:
    # MUST 4 of docs/protocol.md.
    """Remainders of divisions accumulate."""
    session = full()
    length, times = 30_011 if rate > 10**9 else 311, 100
    duration = length * 8 * 10**9 / rate
    assert times * duration < QUEUE / 2

    def exact() -> bool:
        # Start 50 ms ahead, so that a slow machine does not matter.
        alone.set(session, rate)
        alone.run(PLAIN4, length, int(QUEUE / 2 / duration))
        first = alone.read(session)
        alone.run(PLAIN4, length, times)
        then = alone.read(session)
        alone.remove(session)
        assert then.drops == 0 and then.packets == first.packets + times
        assert then.bytes == then.packets * length
        passed = then.departure - first.departure - times * length * 8 * 10**9 // rate
        return then.last < first.departure and passed in (0, 1)

    wait_for(exact)


def test_remainder_is_reset_by_lower_rate(alone: Enforcer) -> None:
    session = full()

    def exact() -> bool:
        alone.set(session, 10**9 + 7)
        alone.run(PLAIN4, 65000, 100)
        alone.run(PLAIN4)
        # The packet before it takes its time at the higher rate.
        alone.set(session, 10**5)
        alone.run(PLAIN4)
        first = alone.read(session)
        alone.run(PLAIN4)
        then = alone.read(session)
        alone.remove(session)
        passed = then.departure - first.departure - len(PLAIN4) * 8 * 10**4
        return then.last < first.departure and passed == 0

    wait_for(exact)


def test_merged_packet_takes_its_time_at_the_rate_of_its_admission(alone: Enforcer) -> None:
    """64 kB take 8 s at the rate that the flow falls to; a higher rate applies at once."""
    session = full()
    alone.set(session, 100 * MEGA)
    alone.run(PLAIN4, 64000)
    first = alone.read(session)
    alone.set(session, 64000)
    verdict, _ = alone.run(PLAIN4, 1000)
    then = alone.read(session)
    assert (verdict, then.departure) == (PASS, first.departure + 64000 * 80)
    alone.set(session, 100 * MEGA)
    assert alone.run(PLAIN4)[0] == PASS
    assert alone.read(session).departure - then.departure in range(1000 * 80, 1001 * 80)
    alone.remove(session)


def test_slow_and_fast(alone: Enforcer) -> None:
    """Changes between 1 bit/s and 1 Tbit/s apply at once."""
    session = full()
    alone.set(session, 1)
    assert alone.run(PLAIN4, 65000) == (PASS, 0)
    assert alone.run(PLAIN4, 65000)[0] == DROP
    # At 1 bit/s it would leave more than half an hour later.
    alone.set(session, 10**12)
    before = alone.read(session)
    assert alone.run(PLAIN4, 65000, 100)[0] == PASS
    use = alone.read(session)
    assert (use.packets, use.drops) == (101, 1), use
    assert before.departure < use.departure <= use.last
    # 250 ms each: one passes by its burst, or waits; the others are dropped.
    alone.set(session, 65000 * 8 * 4)
    alone.run(PLAIN4, 65000, 10)
    after = alone.read(session)
    assert 101 <= after.packets <= 102 and after.drops >= 10
    # Unlimited, but counted.
    alone.set(session, 0)
    assert alone.run(PLAIN4, 65000, 100)[0] == PASS
    assert alone.read(session).packets == after.packets + 100
    alone.remove(session)


def test_expired_and_unassigned_flows_share_default_class(alone: Enforcer) -> None:
    """A rate ends with its lease."""
    expired, other, leased = full(), full(UDP), full(SCTP)
    packets = {flow: packet for packet, flow in SHAPES.values() if flow in (expired, other, leased)}
    alone.set_unassigned(MEGA)
    # Let the packets of earlier tests depart.
    time.sleep(1)
    alone.set(expired, 1000 * MEGA, lease=0)
    alone.set(other, 0)
    alone.set(leased, 1000 * MEGA, lease=60_000)
    began = time.monotonic()
    for _ in range(10):
        for packet in packets.values():
            alone.run(packet, 125, 60)
    passed = time.monotonic() - began
    uses = {flow: alone.read(flow) for flow in packets}
    assert (uses[leased].packets, uses[leased].drops) == (600, 0)
    # 1 ms each, a burst of 400 ms, and 40 (one flow) to 50 ms (many) of queue for one source.
    shared = [uses[expired], uses[other]]
    assert sum(use.packets + use.drops for use in shared) == 1200
    assert 440 <= sum(use.packets for use in shared) <= min(452 + passed * 1000, 1200)
    for flow in packets:
        alone.remove(flow)
    alone.set_unassigned(10**12)


@contextlib.contextmanager
def closed_default_class(alone: Enforcer, hosts: str = "") -> Iterator[None]:
    """The default class drops all packets: the next one would leave minutes later."""
    # Not IP, so it belongs to no flow, whichever there are.
    alone.run(ETHERNET + b"\x88\xcc" + bytes(40), 1000, ingress=1)
    alone.set_unassigned(1)
    alone.set_hosts(hosts)
    try:
        yield
    finally:
        alone.set_hosts()
        alone.set_unassigned(10**12)


@pytest.mark.parametrize("name", [*SHAPES, "truncated extension", "not IP"])
def test_packets_without_session_use_default_class(alone: Enforcer, name: str) -> None:
    """Also fragments, any number of extension headers, and packets that cannot be parsed."""
    odd = {
        "truncated extension": ETHERNET + V6 + v6(OPTIONS, b""),
        "not IP": ETHERNET + b"\x88\xcc" + bytes(40),
    }
    packet = odd.get(name) or SHAPES[name][0]
    known = name not in ("not IP", "IPv4 three tags")
    six = V6 in packet[12:24]
    own, others = ("fd00::/64", "fd01::/16") if six else ("10.0.0.1/32", "10.0.0.2/31")
    with closed_default_class(alone):
        assert alone.run(packet)[0] == PASS
        assert alone.run(packet, ingress=1)[0] == DROP
    with closed_default_class(alone, own):
        assert alone.run(packet)[0] == (DROP if known else PASS)
        assert alone.run(packet, ingress=1)[0] == DROP
    with closed_default_class(alone, others):
        assert alone.run(packet)[0] == PASS
        assert alone.run(packet, ingress=1)[0] == (PASS if known else DROP)


def test_translated_sources_use_default_class(alone: Enforcer, net: Chain) -> None:
    """Forwarded packets with an address of this router."""
    net.nodes[1].sh(f"ip addr add {SOURCE4}/32 dev lo; tc qdisc add dev e1 root fq")
    with (
        enforcer(net.nodes[1], alone.program, "e1") as made,
        closed_default_class(made, "192.0.2.0/24"),
    ):
        assert made.run(PLAIN4)[0] == PASS
        assert made.run(PLAIN4, ingress=1)[0] == DROP


def test_hosts_do_not_escape_by_ports_of_control_packets(alone: Enforcer) -> None:
    data = ETHERNET + V4 + v4(UDP, ports(49470, 49470))
    control = ETHERNET + V4 + v4(UDP, ports(49470, 49470)[:8] + b"SLBN" + bytes(100))
    own, others = "10.0.0.0/24", "192.0.2.0/24"
    verdicts = {}
    for hosts in ("", own, others):
        with closed_default_class(alone, hosts):
            for packet in (data, control):
                for ingress in (0, 1):
                    verdicts[hosts, packet == control, ingress] = alone.run(
                        packet, ingress=ingress
                    )[0]
    dropped = {key for key, verdict in verdicts.items() if verdict == DROP}
    assert dropped == {("", False, 1), (own, False, 1), (own, True, 1)}


def test_packets_do_not_overtake_those_in_default_class(alone: Enforcer) -> None:
    session = full()
    alone.set_unassigned(MEGA)
    alone.set(session, 0)
    time.sleep(1)
    # The first 400 pass as a burst.
    alone.run(PLAIN4, 125, 420)
    waiting = alone.read(session)
    assert waiting.departure > waiting.last
    alone.set(session, 1000 * MEGA, lease=60_000)
    alone.run(PLAIN4, 125)
    assert alone.read(session).departure >= waiting.departure + 1000
    alone.remove(session)
    alone.set_unassigned(10**12)


def test_backlog_limits_wait(alone: Enforcer) -> None:
    """Of packets that take 1 ms each, as many wait as fit, and one that departs at once."""
    session = full()
    for backlog in (20, 200, 100):
        alone.set_backlog(backlog * 10**6)
        alone.set(session, MEGA)
        alone.run(PLAIN4, 125, 500)
        use = alone.read(session)
        alone.remove(session)
        assert backlog <= use.packets <= backlog + 1 + BURST // 10**6 + 5, use
        assert use.packets + use.drops == 500
    alone.set_backlog()


UDP4 = ETHERNET + V4 + v4(UDP, ports())


@contextlib.contextmanager
def spare_default_class(alone: Enforcer) -> Iterator[None]:
    """A default class of 8 Mbit/s, whose burst is 256 KiB: 262 ms."""
    alone.set_unassigned(8 * MEGA)
    time.sleep(1)
    try:
        yield
    finally:
        alone.set_excess(False)
        alone.set_unassigned(10**12)


def test_excess_uses_what_default_class_leaves(alone: Enforcer) -> None:
    """It departs in order, and leaves half of the burst to packets without a session."""
    session = full(UDP)
    with spare_default_class(alone):
        alone.set(session, MEGA)
        alone.run(UDP4, 1000, 100)
        # 8 ms each.
        assert alone.read(session).drops > 80
        alone.remove(session)
        before = alone.read_pacer()
        alone.set_excess(True)
        alone.set(session, MEGA)
        alone.run(UDP4, 1000, 100)
        use, pacer = alone.read(session), alone.read_pacer()
        excess = pacer.excess - before.excess
        # The target is two long packets: 24 ms.
        assert (use.packets, use.drops) == (100, 0) and 90 < excess < 98, (use, excess)
        assert use.departure - use.last < 40 * 10**6
        verdict, departure = alone.run(UDP4, 1000)
        assert (verdict, departure) == (PASS, alone.read(session).departure)
        # 131 ms of the burst is for others.
        alone.run(UDP4, 1000, 1000)
        excess = alone.read_pacer().excess - before.excess
        assert 125 <= excess <= 140 and alone.read(session).drops > 800, excess
        other = ETHERNET + V4 + v4(UDP, ports(2000))
        assert alone.run(other, 1000, 100) == (PASS, 0)
        alone.remove(session)


def test_excess_of_tcp_waits(alone: Enforcer) -> None:
    session = full()
    with spare_default_class(alone):
        alone.set_excess(True)
        before = alone.read_pacer().excess
        alone.set(session, MEGA)
        alone.run(PLAIN4, 1000, 100)
        assert alone.read(session).drops > 80
        assert alone.read_pacer().excess == before
        alone.remove(session)


def with_checksum(packet: bytes, at: int) -> bytes:
    """PACKET with the checksum of the IPv4 header AT."""
    field = struct.pack(">H", internet_sum(packet[at : at + 20]))
    return packet[: at + 10] + field + packet[at + 12 :]


@pytest.mark.parametrize("tags", [b"", TAG, OUTER_TAG + TAG], ids=["plain", "tag", "tags"])
def test_codel_marks_ecn(alone: Enforcer, tags: bytes) -> None:
    """A packet that may be marked is not dropped, and differs in ECN and checksum only."""
    at = len(ETHERNET + tags) + 2
    inner4, inner6 = bytearray(v4(UDP, ports())), bytearray(v6(UDP, ports()))
    inner4[1] = ECT0
    inner6[1] = ECT0 << 4
    cases = (
        (with_checksum(ETHERNET + tags + V4 + inner4, at), full(UDP), 3),
        (ETHERNET + tags + V6 + inner6, full(UDP, six=True), 3 << 4),
    )
    alone.set_backlog(10**9)
    for packet, session, ce in cases:
        before = alone.read_pacer()
        alone.set(session, MEGA)
        made = alone.change(packet, 125, 400)
        use, pacer = alone.read(session), alone.read_pacer()
        alone.remove(session)
        assert use.marks > 2 and use.drops == 0, use
        assert pacer.marks - before.marks == use.marks and pacer.drops == before.drops
        expected = packet[: at + 1] + bytes([ce]) + packet[at + 2 :]
        if ce == 3:
            expected = with_checksum(expected[: at + 10] + bytes(2) + expected[at + 12 :], at)
        assert made == expected
    # Without ECN they are dropped, and counted as CoDel's.
    alone.set(full(UDP), MEGA)
    before = alone.read_pacer()
    alone.run(ETHERNET + tags + V4 + v4(UDP, ports()), 125, 400)
    use, pacer = alone.read(full(UDP)), alone.read_pacer()
    assert use.drops > 2 and pacer.signals - before.signals == use.drops
    alone.set_backlog()


@pytest.mark.parametrize("flag", [FIN, PSH])
def test_who_sends_last_packets_only_has_no_longer_queue(alone: Enforcer, flag: int) -> None:
    """CoDel spares the last packet of a sender; the limit of the queue spares none."""
    header = bytearray(ports())
    header[13] = flag
    session, packet = full(), ETHERNET + V4 + v4(TCP, bytes(header))
    alone.set(session, MEGA)
    until, longest = time.monotonic() + 0.5, 0
    while time.monotonic() < until:
        alone.run(packet, 1000, 20)
        longest = max(longest, alone.read(session).departure - time.monotonic_ns())
        time.sleep(0.01)
    use = alone.read(session)
    alone.remove(session)
    # 100 ms, the default; at 1 Mbit/s half a second is 62 packets.
    assert 50_000_000 < longest <= 100_000_000, longest
    assert use.packets <= 62 + 13 and use.drops > 500, use


@pytest.mark.parametrize(("protocol", "marks"), [(TCP, False), (UDP, True)])
def test_only_tcp_may_wait_for_half_a_round_trip(
    alone: Enforcer, protocol: int, marks: bool
) -> None:
    """With a round-trip time of 80 ms, 20 ms are above CoDel's target for what is not TCP."""
    inner = bytearray(v4(protocol, ports()))
    inner[1] = ECT0
    session, packet = full(protocol), ETHERNET + V4 + inner
    alone.set_rtt(80_000_000)
    alone.set(session, 10 * MEGA)
    until = time.monotonic() + 0.5
    alone.run(packet, 1250, 20)
    while time.monotonic() < until:
        if alone.read(session).departure < time.monotonic_ns() + 20_000_000:
            alone.run(packet, 1250)
        else:
            time.sleep(0.001)
    use = alone.read(session)
    alone.remove(session)
    alone.set_rtt()
    assert (use.marks > 0, use.drops) == (marks, 0), use


def test_lease_ends_between_packets(alone: Enforcer) -> None:
    session = full()
    alone.set_unassigned(1)
    began = time.monotonic()
    alone.set(session, 10**12, lease=300)
    # One packet passes by the burst of the default class.
    wait_for(lambda: alone.run(PLAIN4, 1000)[0] == DROP)
    assert time.monotonic() >= began + 0.3
    sent = alone.read(session).packets
    alone.run(PLAIN4, 1000, 100)
    assert alone.read(session).packets == sent
    alone.set(session, 10**12, lease=60_000)
    alone.run(PLAIN4, 1000, 100)
    assert alone.read(session).packets == sent + 100
    alone.remove(session)
    alone.set_unassigned(10**12)


@pytest.mark.parametrize(("pause", "burst"), [(0.05, BURST), (0.15, FIRST_BURST)])
def test_burst_after_pause_is_limited(alone: Enforcer, pause: float, burst: int) -> None:
    """It is shorter after more than 100 ms."""
    session = full()
    alone.set(session, 2 * MEGA)
    alone.run(PLAIN4, 250)
    time.sleep(pause)
    verdict, departure = alone.run(PLAIN4, 250)
    use = alone.read(session)
    assert (verdict, departure, use.departure) == (PASS, 0, use.last - burst)
    # 1 ms each, less the burst and the time that the 51 runs take: none in virtual time.
    time.sleep(pause)
    verdict, departure = alone.run(PLAIN4, 250, 51)
    use = alone.read(session)
    assert (verdict, departure) == (PASS, use.departure)
    assert 40 * 10**6 < use.departure - use.last <= 50 * 10**6 - burst
    alone.remove(session)


@pytest.mark.parametrize(("rate", "burst"), [(MEGA, QUEUE), (4 * MEGA, 32_768_000)])
def test_burst_of_acknowledgements(alone: Enforcer, rate: int, burst: int) -> None:
    """100 ms, but at most 16 KiB; packets longer than 128 octets end it."""
    session = full()
    alone.set(session, rate)
    alone.run(PLAIN4, 128)
    time.sleep(0.2)
    alone.run(PLAIN4, 128)
    use = alone.read(session)
    assert use.departure == use.last - burst
    time.sleep(0.2)
    alone.run(PLAIN4, 1500)
    time.sleep(0.2)
    alone.run(PLAIN4, 128)
    use = alone.read(session)
    assert use.departure == use.last - FIRST_BURST
    alone.remove(session)


def test_malformed_packets(alone: Enforcer) -> None:
    chance = random.Random(3)
    sessions = [full(), full(six=True), Flow(DESTINATION4), Flow(DESTINATION6)]
    for session in sessions:
        alone.set(session, MEGA)
    whole = [packet for packet, _ in SHAPES.values()]
    lines = []
    for _ in range(1500):
        packet = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(4)):
            packet[chance.randrange(12, len(packet))] = chance.randrange(256)
        if chance.random() < 0.5:
            del packet[chance.randrange(14, len(packet)) :]
        lines.append(f"run 1 0 {packet.hex()}")
    verdicts = [int(answer.split()[0]) for answer in alone.ask(*lines)]
    # The kernel refuses to run it on packets that are too short.
    assert set(verdicts) <= {PASS, DROP, -22}
    ran = len([verdict for verdict in verdicts if verdict != -22])
    counted = sum(alone.read(s).packets + alone.read(s).drops for s in sessions)
    assert 500 < counted < ran
    for session in sessions:
        alone.remove(session)


def test_full_table_and_reuse(alone: Enforcer) -> None:
    assert alone.ask(f"fill {FLOWS + 1} 1000") == [f"{FLOWS} -28"]
    known, another = Flow("10.0.0.0"), Flow(DESTINATION6)
    alone.set(known, 2000)
    assert alone.ask(f"set {another} 1000") == ["-28"]
    with closed_default_class(alone):
        assert alone.run(PLAIN6, ingress=1)[0] == DROP
    assert alone.ask(f"empty {FLOWS}") == ["ok"]
    alone.set(another, 1000)
    use = alone.read(another)
    assert (use.packets, use.departure) == (0, 0)
    alone.remove(another)


# --- devices ------------------------------------------------------------------------------------


def attached(where: Namespace, device: str) -> tuple[str, str]:
    """Output of tc on a device's qdiscs except clsact, which slbnd leaves, and filters."""
    commands = [f"filter show dev {device} {hook}" for hook in ("ingress", "egress")]
    shown = where.tc(*commands, f"qdisc show dev {device}")
    at = shown.index("qdisc ")
    lines = without_counters(shown[at:]).splitlines()
    return "\n".join(line for line in lines if not line.startswith("qdisc clsact ")), shown[:at]


@pytest.mark.parametrize(
    ("setup", "error"),
    [
        (
            "",
            "e1: needs fq: tc qdisc replace dev e1 root"
            " fq limit 100000 flow_limit 10000 orphan_mask 65535",
        ),
        ("qdisc add dev e1 root pfifo", "needs fq below or instead of its qdisc pfifo"),
        (
            "qdisc add dev e1 root handle 7: slbn rate 1gbit",
            "e1: needs fq below slbn: tc qdisc replace dev e1 parent 7:1 fq limit 100000",
        ),
        ("qdisc add dev e1 ingress", "tc qdisc replace dev e1 clsact"),
    ],
    ids=["noqueue", "pfifo", "slbn", "ingress"],
)
def test_unsuitable_device_drops_rather_than_delays(
    net: Chain, enforce_try: str, setup: str, error: str
) -> None:
    """A problem is reported, and the other device is not affected."""
    node = net.nodes[1]
    node.sh("tc qdisc add dev w0 root fq")
    if setup:
        node.sh(f"tc {setup}")
    before = attached(node, "w0"), attached(node, "e1")
    with enforcer(node, enforce_try) as made:
        assert error in made.ask("open w0 e1")[0]
        assert "slbnd_rates" in attached(node, "w0")[1]
        if "ingress" not in setup:
            made.set_unassigned(MEGA)
            made.run(PLAIN4, 1250, 60, ingress=1)
            # 10 ms each, a burst of 400 ms, and at most 20 ms ahead.
            assert made.run(PLAIN4, 1250, ingress=1)[0] == DROP
        made.close()
        assert (attached(node, "w0"), attached(node, "e1")) == before
        assert made.ask("open w0 nothing") == ["nothing: no such device"]


def test_device_appears_and_changes(net: Chain, enforce_try: str) -> None:
    """Rates apply to a device that is added, replaced, or gets another qdisc."""
    node = net.nodes[1]
    flood = sender(net, 0, 2, udp=20 * MEGA)
    traffic = Traffic(flood)
    with enforcer(node, enforce_try) as made:
        assert "needs fq" in made.ask("open e1 later")[0]
        made.set(flood.session, 4 * MEGA)
        for setup in (fq_at_root, htb_at_root, fq_below_slbn):
            setup(net)
            assert made.check() == "later: no such device"
            made.set(flood.session, 4 * MEGA)
            traffic.settle()
            assert close_to(traffic.run(1)[0], 4 * MEGA, 0.03), setup
        for _ in range(2):
            node.sh("ip link add later type dummy; tc qdisc add dev later root fq")
            assert made.check() == "ok"
            assert "slbnd_rates" in attached(node, "later")[1]
            node.sh("ip link del later")
            assert made.check() == "later: no such device"
        node.sh("tc qdisc del dev e1 clsact")
        assert "slbnd_rates" not in attached(node, "e1")[1]
        made.check()
        assert "slbnd_rates" in attached(node, "e1")[1]


@pytest.mark.parametrize(
    "setup", [pytest.param(fq_at_root, marks=pytest.mark.tier("all")), fq_below_slbn]
)
def test_close_restores_device(net: Chain, enforce_try: str, setup: Setup) -> None:
    node = net.nodes[1]
    setup(net)
    before = attached(node, "e1")
    with enforcer(node, enforce_try, "e1") as made:
        assert "slbnd_rates" in attached(node, "e1")[1]
        made.close()
        assert attached(node, "e1") == before
        # To delete it would empty the queues.
        assert "qdisc clsact " in node.tc("qdisc show dev e1")
        node.sh("tc filter add dev e1 egress pref 10 protocol ip matchall action ok")
        node.sh("tc filter add dev e1 ingress pref 10 protocol ip matchall action ok")
        others = attached(node, "e1")
        made.open("e1")
        made.close()
        assert attached(node, "e1") == others


@pytest.mark.parametrize("theirs", [False, True])
def test_takeover_after_crash(net: Chain, enforce_try: str, theirs: bool) -> None:
    node = net.nodes[1]
    fq_at_root(net)
    if theirs:
        node.sh("tc qdisc add dev e1 clsact")
    before = attached(node, "e1")
    session = Flow("10.0.1.2", protocol=UDP)
    with enforcer(node, enforce_try, "e1") as first:
        first.set(session, MEGA)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    # Its program continues.
    left = attached(node, "e1")
    assert left != before
    with enforcer(node, enforce_try, "e1") as second:
        now = attached(node, "e1")
        assert now[1].count("slbnd_rates:") == 1 and now[1] != left[1]
        assert second.ask(f"read {session}") == ["unknown"]
        second.close()
    assert attached(node, "e1") == before


def test_pinned_flows_survive_a_load_that_fails(
    net: Chain, enforce_try: str, tmp_path: Path
) -> None:
    """Without descriptors, for example. The directory is locked: it is not made anew."""
    node = net.nodes[1]
    fq_at_root(net)
    session = Flow("10.0.1.2", protocol=UDP)
    sh(f"mount -t bpf bpf {tmp_path}")
    pins = tmp_path / "slbnd"
    try:
        with enforcer(node, enforce_try) as first:
            assert first.ask(f"pins {pins}") == ["ok"]
            first.open("e1")
            first.set(session, MEGA)
            assert first.ask("close keep") == ["ok"]
        directory = pins.stat().st_ino
        with enforcer(node, enforce_try) as second:
            assert second.ask(f"pins {pins}") == ["ok"]
            resource.prlimit(second.process.pid, resource.RLIMIT_NOFILE, (12, 4096))
            assert "BPF: Too many open files" in second.ask("open e1")[0]
            resource.prlimit(second.process.pid, resource.RLIMIT_NOFILE, (1024, 4096))
            assert second.check() == "ok"
            assert second.read(session).packets == 0
            assert pins.stat().st_ino == directory
            second.close()
        assert not pins.exists()
    finally:
        sh(f"umount {tmp_path}")


def test_foreign_filter_with_our_preference(net: Chain, enforce_try: str) -> None:
    node = net.nodes[1]
    fq_at_root(net)
    node.sh("tc qdisc add dev e1 clsact")
    node.sh(f"tc filter add dev e1 egress pref {PREFERENCE} protocol all matchall action ok")
    before = attached(node, "e1")
    with enforcer(node, enforce_try) as made:
        assert "another program's filter" in made.ask("open e1")[0]
    assert attached(node, "e1") == before


def test_foreign_filter_at_ingress(net: Chain, enforce_try: str, tmp_path: Path) -> None:
    """Nothing is attached: to detach it again would begin the next attempt."""
    node = net.nodes[1]
    fq_at_root(net)
    node.sh("tc qdisc add dev e1 clsact")
    node.sh(f"tc filter add dev e1 ingress pref {PREFERENCE} protocol all matchall action ok")
    seen = tmp_path / "seen"
    with enforcer(node, enforce_try) as made, seen.open("w") as output:
        made.set_windows(True)
        with node.entered():
            monitor = subprocess.Popen(["tc", "monitor"], stdout=output)
        try:
            node.sh("tc filter add dev e1 egress pref 10 protocol ip matchall action ok")
            wait_for(lambda: "pref 10 " in seen.read_text())
            assert "another program's filter" in made.ask("open e1")[0]
            node.sh("tc filter del dev e1 egress pref 10")
            wait_for(lambda: seen.read_text().count("pref 10 ") > 1)
        finally:
            monitor.terminate()
            monitor.wait()
    assert f"pref {PREFERENCE} " not in seen.read_text()


def test_foreign_filter_beside_ours(net: Chain, enforce_try: str) -> None:
    """Ours goes: without its default class it would drop what has no session."""
    node = net.nodes[1]
    fq_at_root(net)
    with enforcer(node, enforce_try, "e1") as made:
        foreign = "bpf bytecode '1,6 0 0 0' flowid 1:1"
        node.sh(f"tc filter add dev e1 egress pref {PREFERENCE} protocol all {foreign}")
        assert "another program's filter" in made.check()
        assert "slbnd_" not in attached(node, "e1")[1]


def test_required_capabilities(net: Chain, enforce_try: str) -> None:
    fq_at_root(net)
    few = "setpriv --bounding-set -all,+net_admin"
    with enforcer(net.nodes[1], enforce_try, "e1", prefix=f"{few},+bpf") as made:
        made.set(full(), MEGA)
        made.close()
    with enforcer(net.nodes[1], enforce_try, prefix=few) as made:
        [answer] = made.ask("open e1")
        assert "it needs CAP_BPF and CAP_NET_ADMIN" in answer
        # The suggested command works.
        remedy = answer.split("htb works without BPF: tc ")[1]
        assert remedy == "qdisc replace dev e1 root htb"
        net.tc(1, remedy)
        made.open("e1")
        made.set(full(), MEGA)
        assert made.read(full()).packets == 0
        made.close()
        fq_below_slbn(net)
        assert made.ask("open e1")[0].endswith(": tc qdisc replace dev e1 parent 1:1 htb")


# --- traffic ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setup", "start", "six"),
    [
        (fq_at_root, 0, False),
        pytest.param(fq_below_slbn, 1, True, marks=pytest.mark.tier("all")),
        pytest.param(htb_at_root, 1, False, marks=pytest.mark.tier("all")),
        (htb_below_slbn, 0, True),
    ],
)
def test_flood_is_limited(
    net: Chain, enforce_try: str, setup: Setup, start: int, six: bool
) -> None:
    """Marks of CoDel have no effect on it: the limit of 100 ms has."""
    setup(net)
    rate = 6 * MEGA
    flood = sender(net, start, 2, six, udp=2 * rate)
    if not six:
        flood.near.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT0)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(flood.session, rate)
        traffic = Traffic(flood)
        traffic.settle()
        [seen] = traffic.run(2)
        assert close_to(seen, rate, 0.01), seen
        # Packets wait for 100 ms, but not longer.
        waits = sorted(flood.delays)
        assert 0.9 * QUEUE < waits[len(waits) // 20] <= waits[-len(waits) // 20] < 1.05 * QUEUE
        use = made.read(flood.session)
        assert use.drops > 0 and use.bytes == use.packets * flood.on_wire
        assert (use.marks > 10) == (setup is fq_at_root)
        assert close_to(use.bytes, flood.received, 0.05)
        # Packets in fq can leave.
        made.close()


@pytest.mark.parametrize(
    ("setup", "start"),
    [
        pytest.param(fq_at_root, 1, marks=pytest.mark.tier("all")),
        (fq_below_slbn, 0),
        (htb_at_root, 0),
        pytest.param(htb_below_slbn, 1, marks=pytest.mark.tier("all")),
    ],
)
def test_many_flows_each_at_its_rate(
    net: Chain, enforce_try: str, setup: Setup, start: int
) -> None:
    """TCP with GSO, UDP, IPv4 and IPv6; and a flow without a session."""
    setup(net)
    limited = [
        (sender(net, start, 2, six, udp), rate)
        for six, udp, rate in (
            (False, 0, 1 * MEGA),
            (True, 0, 3 * MEGA),
            (False, 0, 9 * MEGA),
            (False, 3 * MEGA, 2 * MEGA),
            (True, 6 * MEGA, 4 * MEGA),
        )
    ]
    free = sender(net, start, 2, udp=5 * MEGA)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        for flow, rate in limited:
            made.set(flow.session, rate)
        traffic = Traffic(*(flow for flow, _ in limited), free)
        traffic.settle()
        traffic.check_rates(*(rate for _, rate in limited))
        assert close_to(traffic.run(1)[-1], 5 * MEGA, 0.02)
        assert sorted(free.delays)[-len(free.delays) // 20] < QUEUE / 4
        assert made.ask(f"read {free.session}") == ["unknown"]


@pytest.mark.parametrize("setup", [fq_at_root, htb_below_slbn])
def test_flood_leaves_default_class_to_others(net: Chain, enforce_try: str, setup: Setup) -> None:
    """A host that floods by many flows, and two that send less than their share."""
    setup(net)
    rate = 6 * MEGA
    hosts = ["10.0.0.21", "10.0.0.22", "10.0.0.23"]
    for host in hosts:
        net.nodes[0].sh(f"ip addr add {host}/24 dev e0")
    floods = [sender(net, 0, 2, udp=4 * MEGA, source=hosts[0]) for _ in range(4)]
    mice = [sender(net, 0, 2, udp=MEGA, source=host) for host in hosts[1:]]
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_hosts("10.0.0.0/24")
        made.set_unassigned(rate)
        made.open("e1")
        traffic = Traffic(*floods, *mice)
        traffic.settle()
        sent = [mouse.sent for mouse in mice]
        # Not the rate of each flow: one that got few packets may have had them in a short time.
        seen = [each.bits / 4 for each in traffic.watch(4)]
        lost = [
            1 - each * 4 / ((mouse.sent - before) * mouse.on_wire * 8)
            for each, mouse, before in zip(seen[4:], mice, sent, strict=True)
        ]
        waits = sorted(delay for mouse in mice for delay in mouse.delays)
        print(f"{setup.__name__}: {seen} bit/s, lost {lost}, waits up to {waits[-1]} ns")
        # fq_codel drops several packets at once, and may leave some of the rate.
        assert (0.85 if setup == htb_below_slbn else 0.98) < sum(seen) / rate < 1.02
        assert all(close_to(each, MEGA, 0.02) for each in seen[4:])
        assert waits[-1] < 1.1 * QUEUE


@pytest.mark.parametrize(("setup", "most"), [(fq_at_root, 1.55), (htb_below_slbn, 1.1)])
def test_many_flows_take_at_most_half_as_much_again(
    net: Chain, enforce_try: str, setup: Setup, most: float
) -> None:
    """Of the default class, than the one flow of another host that floods, too."""
    setup(net)
    hosts = ["10.0.0.21", "10.0.0.22"]
    for host in hosts:
        net.nodes[0].sh(f"ip addr add {host}/24 dev e0")
    floods = [sender(net, 0, 2, udp=4 * MEGA, source=hosts[0]) for _ in range(4)]
    floods.append(sender(net, 0, 2, udp=8 * MEGA, source=hosts[1]))
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_hosts("10.0.0.0/24")
        made.set_unassigned(6 * MEGA)
        made.open("e1")
        traffic = Traffic(*floods)
        traffic.settle()
        seen = [each.bits for each in traffic.watch(4)]
        print(f"{setup.__name__}: {seen} bits")
        assert sum(seen[:4]) < most * seen[4]


#: Offset of tcpi_total_retrans in struct tcp_info; octets of a TCP mouse.
TOTAL_RETRANS, MOUSE = 100, 14000


def connect(net: Chain, flood: Traffic, port: int) -> int:
    """Send a TCP mouse beside a flood; return its retransmissions."""
    with net.nodes[2].entered():
        listener = socket.create_server(("10.0.1.2", port))
    with net.nodes[0].entered():
        near = socket.socket()
        near.bind(("10.0.0.1", port))
    near.setblocking(False)
    near.connect_ex(("10.0.1.2", port))
    listener.setblocking(False)
    octets = 0
    ends = [near, listener]
    while octets < MOUSE:
        flood.run(0.001)
        with contextlib.suppress(BlockingIOError):
            if len(ends) == 2:
                ends.append(listener.accept()[0])
                ends[-1].setblocking(False)
                near.send(bytes(MOUSE))
            octets += len(ends[-1].recv(MOUSE))
    found: int = near.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 104)[TOTAL_RETRANS]
    for end in ends:
        end.close()
    return found


def test_flood_leaves_default_class_to_other_flows_of_its_host(
    net: Chain, enforce_try: str
) -> None:
    """A host that floods by one flow, its datagrams at a low rate, and its new connections."""
    fq_below_slbn(net, "limit 100000 flow_limit 10000")
    rate = 24 * MEGA
    net.nodes[0].sh("ping -q -c 1 10.0.1.2")
    flood = sender(net, 0, 2, udp=2 * rate, port=6000)
    mouse = sender(net, 0, 2, udp=MEGA, port=6001)
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_unassigned(rate)
        made.open("e1")
        traffic = Traffic(flood, mouse)
        traffic.settle()
        retransmissions = [connect(net, traffic, port) for port in range(7000, 7010)]
        [seen, _] = traffic.run(0.5)
        waits = sorted(mouse.delays)
        time.sleep(2 * QUEUE / 10**9)
        for each in (flood, mouse):
            each.receive()
        lost = [each.sent - each.received // each.on_wire for each in (flood, mouse)]
        print(f"{seen} bit/s, {lost} lost, {retransmissions}, waits up to {waits[-1]} ns")
        assert lost[0] > flood.sent * 0.4
        assert lost[1] == 0
        assert not any(retransmissions)
        # The flood fills 40 % of the queue.
        assert 0.3 * QUEUE < waits[len(waits) // 2] <= waits[-1] < 0.5 * QUEUE


@pytest.mark.parametrize("setup", [fq_below_slbn, htb_below_slbn])
def test_new_rate_applies_at_once(net: Chain, enforce_try: str, setup: Setup) -> None:
    setup(net)
    flood = sender(net, 0, 2, udp=20 * MEGA)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(flood.session, 2 * MEGA)
        traffic = Traffic(flood)
        traffic.settle(0.2)
        counted = 0
        for rate in (12 * MEGA, 4 * MEGA, 8 * MEGA):
            made.set(flood.session, rate)
            # Packets in fq have departure times of the old rate.
            traffic.run(0.2)
            [seen] = traffic.run(1)
            assert close_to(seen, rate, 0.015), (rate, seen)
            use = made.read(flood.session)
            assert use.packets > counted
            counted = use.packets
        made.set(flood.session, 0)
        traffic.run(1)
        [seen] = traffic.run(1)
        assert close_to(seen, 20 * MEGA, 0.02), seen
        counted = made.read(flood.session).packets
        if setup is fq_below_slbn:  # With htb, the default class counts them.
            wait_for(lambda: bool(traffic.run(0.1)) and made.read(flood.session).packets > counted)
        made.remove(flood.session)
        [seen] = traffic.run(1)
        assert close_to(seen, 20 * MEGA, 0.02), seen


@pytest.mark.parametrize(
    "setup", [fq_below_slbn, pytest.param(htb_at_root, marks=pytest.mark.tier("all"))]
)
def test_tcp_follows_rate_changes(net: Chain, enforce_try: str, setup: Setup) -> None:
    setup(net)
    flow = sender(net, 0, 2)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        traffic = Traffic(flow)
        for rate in (5 * MEGA, 20 * MEGA, 2 * MEGA):
            made.set(flow.session, rate)
            # Waiting packets leave at the old rate.
            traffic.run(0.5)
            traffic.check_rates(rate)


def test_fq_flow_limit_is_not_exceeded(net: Chain, enforce_try: str) -> None:
    """100 ms at this rate are more packets than fq's flow_limit; its drops would lower the rate."""
    fq_below_slbn(net, "flow_limit 40")
    rate = 12 * MEGA
    flood = sender(net, 0, 2, udp=2 * rate)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(flood.session, rate)
        traffic = Traffic(flood)
        traffic.settle()
        [seen] = traffic.run(2)
        assert close_to(seen, rate, 0.01), seen
    shown = json.loads(net.tc(1, "-s -j qdisc show dev e1").stdout)
    fq = next(qdisc for qdisc in shown if qdisc["kind"] == "fq")
    assert fq["drops"] == 0


@pytest.mark.parametrize(
    "setup", [fq_below_slbn, pytest.param(htb_below_slbn, marks=pytest.mark.tier("all"))]
)
def test_flows_share_session(net: Chain, enforce_try: str, setup: Setup) -> None:
    """Flows share the rate of a less specific session, except one with its own session."""
    setup(net)
    flows = [sender(net, 0, 2, udp=4 * MEGA) for _ in range(3)]
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(Flow("10.0.1.2", "10.0.0.1"), 6 * MEGA)
        made.set(flows[0].session, MEGA)
        traffic = Traffic(*flows)
        traffic.settle()
        seen = traffic.run(2)
        assert close_to(seen[0], MEGA, 0.02) and close_to(seen[1] + seen[2], 6 * MEGA, 0.01), seen
        made.remove(flows[0].session)
        # Its waiting packets leave at its old rate, later on a slow machine.
        for _ in range(4):
            traffic.run(1)
            seen = traffic.run(2)
            if close_to(sum(seen), 6 * MEGA, 0.01):
                break
        assert close_to(sum(seen), 6 * MEGA, 0.01), seen


def test_two_devices(net: Chain, enforce_try: str) -> None:
    """With fq and with htb; counters are the sums."""
    node = net.nodes[1]
    fq_below_slbn(net)
    net.tc(1, "qdisc replace dev w0 root handle 7: htb")
    before = [attached(node, device) for device in ("e1", "w0")]
    down, up = sender(net, 0, 2, udp=8 * MEGA), sender(net, 2, 0, udp=8 * MEGA)
    third = Flow("10.0.0.1", protocol=UDP)
    with enforcer(node, enforce_try, "e1", "w0") as made:
        made.set(down.session, 4 * MEGA)
        made.set(up.session, 2 * MEGA)
        made.set(third, MEGA)
        traffic = Traffic(down, up)
        traffic.settle()
        seen = traffic.run(2)
        assert close_to(seen[0], 4 * MEGA, 0.01) and close_to(seen[1], 2 * MEGA, 0.01), seen
        uses = [made.read(flow.session) for flow in (down, up)]
        for use, flow in zip(uses, (down, up), strict=True):
            assert use.drops > 0 and close_to(use.bytes, flow.received, 0.05)
        assert made.read(third).packets == 0
        made.close()
    assert [attached(node, device) for device in ("e1", "w0")] == before
