# SPDX-License-Identifier: GPL-2.0
"""drr_fq with bands: new, assigned and unassigned packets.

The tests of the core check the algorithm's bounds for many loads; these check that the qdisc
follows it with packets: classes, queues of hosts, limits, changes, parents, CoDel.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.lib.drr_fq import (
    HEADER,
    MTU,
    PACKET_IGNORE_OUTGOING,
    PARENTS,
    SMALLEST,
    SO_RCVBUFFORCE,
    SOL_PACKET,
    Arrival,
    Band,
    GsoSocket,
    Link,
    Queue,
    batch,
    link,
    numbered_frame,
    valved,
    wait_of,
)
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import pending, sh, wait_for, wait_for_carriers
from tests.kernel.lib.rtnetlink import handle
from tests.kernel.lib.slbn_wire import internet_sum

FULL = MTU + HEADER
NEW, ASSIGNED, UNASSIGNED = 1, 2, 3
CLASSES = (NEW, ASSIGNED, UNASSIGNED)
TC_PRIO_CONTROL = 7
ECT_0, CE = 2, 3
#: drr_fq_bands_core.h [bytes]
ROUND = 3000
#: Late packets that one dequeue drops at most.
BATCH = 256
LARGE_BURST = 70_000
#: No packet of a test is late, unless the test is about that.
PATIENT = "limit 20000 bands wait 10s"


def quanta(unassigned: int) -> dict[int, int]:
    """By class, for a share of UNASSIGNED [1/1000]."""
    least = ROUND // 2 * unassigned // 1000
    return {NEW: ROUND // 2, ASSIGNED: ROUND // 2 - least, UNASSIGNED: least}


def send_to(on: Link, band: int, flow: int, length: int = FULL, count: int = 1) -> None:
    assert on.send(flow, length, count, priority=handle(f"10:{band:x}")) == count


def frame_from(source: str, on: Link, flow: int) -> bytes:
    """A full frame of 10.0.0.x."""
    frame = bytearray(numbered_frame(flow, on.next_number[flow], FULL))
    on.next_number[flow] += 1
    frame[26:30] = socket.inet_aton(source)
    return bytes(frame)


def frame_v6(source: str, port: int) -> bytes:
    ports = struct.pack("!HHHH", port, 9, 8, 0)
    header = struct.pack("!IHBB", 6 << 28, len(ports), 17, 64)
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(
        socket.AF_INET6, "2001:db8:ffff::1"
    )
    return bytes.fromhex("02000000000202000000000186dd") + header + addresses + ports


def check_shares(arrived: list[Arrival], unassigned: int, classes: tuple[int, ...]) -> None:
    """While CLASSES are all backlogged, their bytes are within the bounds of the core.

    A packet's flow modulo 10 is its class.
    """
    share = quanta(unassigned)
    left = Counter(each.flow % 10 for each in arrived)
    sent: Counter[int] = Counter()
    checked = 0
    for each in arrived:
        band = each.flow % 10
        left[band] -= 1
        sent[band] += each.length
        if not all(left[other] for other in classes):
            break
        for one in classes:
            for other in classes:
                difference = sent[one] * share[other] - sent[other] * share[one]
                most = share[one] * share[other] + (FULL - 1) * (share[one] + share[other])
                assert abs(difference) <= most, (sent, one, other)
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("unassigned", [50, 250])
def test_bands_share_the_link_by_their_quanta(unassigned: int) -> None:
    with valved(f"{PATIENT} unassigned {unassigned / 10}%") as on:
        for band in CLASSES:
            send_to(on, band, band, count=600)
        assert [band.qlen for band in on.bands] == [600] * 3
        assert [band.backlog for band in on.bands] == [600 * FULL] * 3
        statistics = on.statistics
        assert (statistics.active_flows, statistics.active_flows_max) == (3, 3)
        on.check_backlogs()
        before = [band.sent_packets for band in on.bands]
        on.open_valve()
        arrived = on.drain()
        check_shares(arrived, unassigned, CLASSES)
        # What a band leaves, others get: all arrive.
        assert Counter(each.flow for each in arrived) == dict.fromkeys(CLASSES, 600)
        assert [b.sent_packets - n for b, n in zip(on.bands, before, strict=True)] == [600] * 3
        on.check_empty()


def test_packets_do_not_bypass_the_bands_of_an_idle_qdisc() -> None:
    """Each is counted in its band, by which slbn measures what unassigned packets take."""
    with link("qdisc add dev a0 root handle 10: drr_fq bands") as on:
        before = [band.sent_packets for band in on.bands]
        for number in range(1, 4):
            for band in CLASSES:
                send_to(on, band, band)
            assert len(on.drain()) == 3
            sent = [band.sent_packets for band in on.bands]
            assert [now - then for now, then in zip(sent, before, strict=True)] == [number] * 3


@pytest.mark.parametrize("flooded", [NEW, ASSIGNED, UNASSIGNED])
def test_a_thousand_flows_gain_nothing_for_their_band(flooded: int) -> None:
    """The other bands have one flow each."""
    with valved(PATIENT) as on:
        for flow in range(1000):
            send_to(on, flooded, 100 + 10 * flow + flooded, count=2)
        others = tuple(band for band in CLASSES if band != flooded)
        for band in others:
            send_to(on, band, band, count=300)
        on.open_valve()
        check_shares(on.drain(), 50, CLASSES)
        on.check_empty()


@pytest.mark.virtual
def test_a_new_packet_waits_for_two_others() -> None:
    """Besides the one that the valve holds."""
    with valved(PATIENT) as on:
        send_to(on, ASSIGNED, 2, count=200)
        send_to(on, UNASSIGNED, 3, count=200)
        arrived: list[Arrival] = []
        before: list[int] = []
        on.open_valve(151_400)
        for _ in range(20):
            time.sleep(0.0537)
            arrived += on.arrivals()
            before.append(len(arrived))
            send_to(on, NEW, 1, SMALLEST)
        on.open_valve()
        arrived += on.drain()
        places = [place for place, each in enumerate(arrived) if each.flow == 1]
        waits = [place - at for place, at in zip(places, before, strict=True)]
        assert max(waits) <= 3, waits


# --- hosts


def active_hosts(on: Link, frames: list[bytes]) -> int:
    """The queues that FRAMES are in, of all frames so far."""
    for frame in frames:
        assert on.inject(frame)
    assert [band.active_flows for band in on.bands][:2] == [0, 0]
    return on.bands[2].active_flows


def test_a_host_has_one_queue_of_unassigned_packets() -> None:
    """By its IPv4 address, or the first 64 bits of its IPv6 address, with any ports."""
    with valved(f"{PATIENT} hosts 65536") as on:
        first = on.bands[2].active_flows
        assert first == 0
        frames = [frame_from("10.0.0.77", on, flow) for flow in range(1000)]
        assert active_hosts(on, frames) == 1
        assert active_hosts(on, [frame_v6("2001:db8::7", port) for port in range(1000)]) == 2
        network = [frame_v6(f"2001:db8::{number:x}:1", 9) for number in range(1000)]
        assert active_hosts(on, network) == 2
        tagged = bytearray(frames[0])
        tagged[12:12] = bytes.fromhex("81000005")
        assert active_hosts(on, [bytes(tagged)]) == 2
        # Two hosts have the same of the 65536 queues in one of 70 runs.
        found = active_hosts(on, [frame_from(f"10.0.0.{n}", on, 1) for n in range(100, 120)])
        assert 20 <= found <= 22
        networks = [frame_v6(f"2001:db8:0:{number:x}::1", 9) for number in range(1, 21)]
        before, found = found, active_hosts(on, networks)
        assert 18 <= found - before <= 20
        # All packets without an address are one host, also those that are too short.
        other = bytes.fromhex("020000000002020000000001")
        odd = [other + kind.to_bytes(2, "big") + bytes(46) for kind in (0x88B6, 0x8863)]
        short = [other + bytes.fromhex("0800") + bytes(1)]
        assert active_hosts(on, odd + short) - found <= 1


def test_a_thousand_ports_gain_nothing_for_a_host() -> None:
    """Hosts send in turns: the packets of the second leave in its first rounds."""
    with valved(f"{PATIENT} hosts 65536") as on:
        for flow in range(1000):
            assert on.inject(frame_from("10.0.0.77", on, flow))
        for _ in range(20):
            assert on.inject(frame_from("10.0.0.78", on, 2000))
        on.open_valve()
        flows = [each.flow for each in on.drain()]
        places = [place for place, flow in enumerate(flows) if flow == 2000]
        assert places[-1] <= 2 * 20 + 1
        on.check_empty()


def test_limits_drop_from_the_host_with_most() -> None:
    with valved("limit 100 bands wait 10s hosts 65536") as on:
        for flow in range(1000):
            assert on.inject(frame_from("10.0.0.77", on, flow))
            if flow % 20 == 0:
                assert on.inject(frame_from("10.0.0.78", on, 2000))
        assert on.bands[2].drops == 950
        on.open_valve()
        arrived = Counter(each.flow for each in on.drain())
        assert arrived[2000] == 50 and arrived.total() == 100
        on.check_empty()


# --- one FIFO for each band


def test_a_band_with_one_queue_is_a_fifo() -> None:
    """In a band, packets of any flow and host leave in the order of their arrival."""
    with valved(f"{PATIENT} flows 1 flows_new 1 hosts 1") as on:
        sent: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number in range(100):
            for band in CLASSES:
                flow = 100 + 10 * ((number * 7) % 13) + band
                sent[band].append((flow, on.next_number[flow]))
                send_to(on, band, flow, SMALLEST + (number * 131) % 1400)
        assert [band.active_flows for band in on.bands] == [1, 1, 1]
        # Less than 1.5 kB of queues.
        assert on.statistics.memory < 1500
        on.open_valve()
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in on.drain():
            found[each.flow % 10].append((each.flow, each.number))
        assert found == sent
        on.check_empty()


#: The same packets of two marks, both in queues of 1000 packets: qdisc, part of the second class.
CLASSFUL = {
    "drr_fq": ("drr_fq bands flows 1 flows_new 1 hosts 1 limit 2000 wait 10s", 0.475, 0.5),
    "prio": ("prio bands 3", 0, 0.01),
    "ets": ("ets bands 3 strict 1 quanta 2700 300", 0, 0.01),
}


@pytest.mark.parametrize("kind", CLASSFUL)
def test_only_shares_leave_assigned_packets_their_part(kind: str) -> None:
    """The new band is flooded; a strict band of prio or ets takes the whole link."""
    options, least, most = CLASSFUL[kind]
    with valved("") as on:
        batch("tc", f"qdisc replace dev a0 parent 3:1 handle 20: {options}\n")
        for _ in range(900):
            on.send(NEW, FULL, priority=handle("20:1"))
            on.send(ASSIGNED, FULL, priority=handle("20:2"))
        on.open_valve()
        first = on.drain()[:900]
        part = sum(each.flow == ASSIGNED for each in first) / 900
        assert least <= part <= most, part


# --- waits


@pytest.mark.virtual
def test_waits_are_counted() -> None:
    """Of packets that are sent, by band, also of segments: 100 at 10 Mbit/s, after 20 ms."""
    before, each = 0.02, FULL * 8 / 10e6
    with valved("limit 2000 bands", burst=LARGE_BURST) as on, GsoSocket(on, NEW) as gso:
        send_to(on, ASSIGNED, 2, count=100)
        time.sleep(before)
        on.open_valve(1_250_000)
        on.drain()
        waits = on.bands[ASSIGNED - 1].waits
        assert sum(waits) == 100
        seen = 0
        for step, count in enumerate(waits):
            # tbf has a burst, and takes one packet more.
            expected = min(100, max(0, (wait_of(step) - before) / each))
            assert expected - 3 <= seen <= expected + 3 + LARGE_BURST / FULL, (step, waits)
            seen += count
        longest = on.bands[ASSIGNED - 1].wait_longest * 1.024e-6
        assert before + 50 * each < longest < before + 100 * each
        assert not sum(on.bands[NEW - 1].waits) and not on.bands[UNASSIGNED - 1].wait_longest
        gso.send(30)
        on.drain()
        assert sum(on.bands[NEW - 1].waits) == 30
        # Those who are late were not sent.
        on.close_valve()
        send_to(on, UNASSIGNED, 3, count=50)
        time.sleep(0.2)
        on.open_valve()
        on.drain()
        band = on.bands[UNASSIGNED - 1]
        assert sum(band.waits) == band.sent_packets and band.drops_late == 49


# --- late packets


@pytest.mark.virtual
def test_late_packets_are_dropped() -> None:
    """Beside assigned ones, the band has a twentieth of 10 Mbit/s: 4 packets in 100 ms."""
    with valved("limit 2000 bands") as on:
        send_to(on, ASSIGNED, 2, count=400)
        send_to(on, UNASSIGNED, 3, count=100)
        on.open_valve(1_250_000)
        numbers = [each.number for each in on.drain() if each.flow == 3]
        assert numbers == list(range(len(numbers)))
        assert 3 <= len(numbers) <= 5
        late = 100 - len(numbers)
        assert [band.drops_late for band in on.bands] == [0, 0, late]
        assert [band.drops for band in on.bands] == [0, 0, late]
        assert (on.shown("10:").drops, on.statistics.drops_longest) == (late, 0)
        on.check_empty()


def test_a_dequeue_drops_a_limited_number() -> None:
    """Then it sends the next; and the last packet of the qdisc is sent, too."""
    with valved("limit 2000 bands wait 10ms") as on:
        send_to(on, UNASSIGNED, 3, count=2 * (BATCH + 1) + 100)
        time.sleep(0.03)
        on.open_valve()
        numbers = [each.number for each in on.drain()]
        assert numbers == [BATCH, 2 * BATCH + 1, 2 * (BATCH + 1) + 99]
        assert on.bands[2].drops_late == 2 * BATCH + 99
        on.check_empty()


@pytest.mark.parametrize("burst", [1600, LARGE_BURST], ids=["segmented-above", "whole"])
@pytest.mark.parametrize("parent", PARENTS)
def test_parents_are_right_when_packets_are_late(parent: str, burst: int) -> None:
    """The last packet follows late ones; it must not deactivate its parent twice."""
    waits = PARENTS[parent].waits
    with (
        valved("limit 2000 bands wait 1ms", parent, burst=burst) as on,
        GsoSocket(on, UNASSIGNED) as gso,
    ):
        for _ in range(3):
            send_to(on, UNASSIGNED, 3, 100, 60)
            gso.send(30)
            time.sleep(0.005)
            on.check_backlogs(waits)
            on.open_valve()
            on.drain()
            on.check_empty()
            on.close_valve()
            send_to(on, ASSIGNED, 2, 100, 5)
            send_to(on, UNASSIGNED, 3, 100, 60)
            on.check_backlogs(waits)
        on.open_valve()
        on.drain()
        if not waits:
            assert on.bands[2].drops_late > 100
        on.check_empty()


# --- limits


@pytest.mark.parametrize("what", ["packets", "bytes", "memory"])
@pytest.mark.parametrize("flooded", CLASSES)
def test_a_band_within_its_share_of_a_limit_loses_nothing(what: str, flooded: int) -> None:
    """Of 200 packets, 100, 95 and 5 are the shares of the bands."""
    share = {NEW: 100, ASSIGNED: 95, UNASSIGNED: 5}
    with valved(PATIENT) as on:
        send_to(on, flooded, flooded)
        one = on.statistics.memory_used
        assert on.bands[flooded - 1].memory_used == one
        if what == "packets":
            on.change(limit=200)
        elif what == "bytes":
            on.change(limit_bytes=200 * FULL)
        else:
            on.change(memory_limit=200 * one)
        send_to(on, flooded, flooded, count=299)
        for band in CLASSES:
            if band != flooded:
                send_to(on, band, band, count=share[band])
        send_to(on, flooded, flooded, count=50)
        bands = on.bands
        drops = 350 - share[flooded]
        assert [band.drops for band in bands] == [drops * (band == flooded) for band in CLASSES]
        assert [band.qlen for band in bands] == list(share.values())
        assert sum(band.memory_used for band in bands) == on.statistics.memory_used
        statistics = on.statistics
        assert statistics.drops_memory == (drops if what == "memory" else 0)
        assert statistics.drops_longest == drops
        on.check_backlogs()
        # All of a lower limit is dropped in the same way.
        on.change(limit=40)
        assert [band.qlen for band in on.bands] == [20, 19, 1]
        on.check_backlogs()
        on.open_valve()
        assert len(on.drain()) == 40
        on.check_empty()


# --- changes


def test_changes_keep_packets() -> None:
    """From bands, to bands and in between, with packets queued: all arrive in order."""
    with valved("limit 5000", parent="tbf") as on:
        for flow in range(1, 31):
            on.send(flow, 60 + 40 * flow, 20, classes=flow <= 3)
        queued = on.shown("10:")
        for change in (
            {"bands": 1, "wait": 10_000_000},
            {"unassigned": 250},
            {"hosts": 1, "flows": 7},
            {"flows_new": 3},
            {"bands": 0},
            {"bands": 1, "flows_new": 1, "wait": 10_000_000},
            {"scheduler": 2},
            {"codel": 1, "target": 10_000_000, "interval": 10_000_000},
            {"limit": queued.qlen},
            {"hosts": 65536, "flows_new": 1024, "flows": 1024},
            {"bands": 0, "scheduler": 1},
            {"bands": 1, "codel": 0, "wait": 10_000_000},
            {"limit_bytes": queued.backlog},
        ):
            on.change(**change)
            shown = on.shown("10:")
            assert (shown.qlen, shown.backlog, shown.drops) == (queued.qlen, queued.backlog, 0)
            on.check_backlogs()
            parts: list[Band | Queue] = [*(on.bands if on.options.bands else on.queues.values())]
            # A packet that a parent has peeked at is in no queue.
            assert sum(each.qlen for each in parts) == queued.qlen - 1
            assert sum(each.backlog for each in parts) == queued.backlog - FULL
        assert [band.qlen for band in on.bands] == [20, 20, 28 * 20]
        on.open_valve()
        numbers: dict[int, list[int]] = defaultdict(list)
        for each in on.drain():
            numbers[each.flow].append(each.number)
        assert numbers == {flow: list(range(20)) for flow in range(1, 31)}
        on.check_empty()


def test_bands_of_a_change_have_their_shares() -> None:
    """Packets that were queued by flow before."""
    with valved("limit 5000") as on:
        for band in CLASSES:
            on.send(band, FULL, 400)
        on.change(bands=1, wait=10_000_000)
        on.open_valve()
        check_shares(on.drain(), 50, CLASSES)
        on.check_empty()


def test_waiting_starts_with_the_bands() -> None:
    """Packets that waited before are not late."""
    with valved("limit 2000") as on:
        on.send(9, FULL, 50)
        time.sleep(0.05)
        on.change(bands=1, wait=30_000)
        on.open_valve()
        assert len(on.drain()) == 50
        assert on.bands[2].drops_late == 0


def test_options_of_the_bands() -> None:
    with valved("flows 2000") as on:
        before = on.statistics.memory
        assert on.options.bands is None
        on.change(bands=1)
        options = on.options
        assert (options.unassigned, options.wait) == (50, 100_000)
        assert (options.flows, options.flows_new, options.hosts) == (2000, 2000, 2000)
        assert on.statistics.memory == 3 * before
        on.change(flows=100)
        assert (on.options.flows, on.options.flows_new) == (100, 2000)
        on.change(bands=0, flows=2000)
        assert (on.options.bands, on.options.wait) == (None, None)
        assert on.statistics.memory == before
        on.change(bands=1, hosts=7)
        assert (on.options.flows_new, on.options.hosts) == (2000, 7)
        on.change(bands=0, flows=1 << 20)
        on.change(bands=1)
        assert (on.options.flows, on.options.flows_new, on.options.hosts) == (1 << 20, 65536, 65536)


def test_reset_forgets_the_bands() -> None:
    with valved(PATIENT) as on:
        for band in CLASSES:
            send_to(on, band, band, count=100)
        run_ip(["link set a0 down", "link set a0 up"])
        wait_for_carriers("a0", "b0")
        assert [(b.qlen, b.backlog, b.memory_used, b.deficit) for b in on.bands] == [(0,) * 4] * 3
        on.close_valve()
        for band in CLASSES:
            send_to(on, band, band, count=300)
        on.check_backlogs()
        on.open_valve()
        check_shares(on.drain(), 50, CLASSES)
        on.check_empty()


def test_removal_with_packets_in_all_bands() -> None:
    with valved(PATIENT) as on:
        for band in CLASSES:
            send_to(on, band, band, count=100)
        on.send(9, 100, 4, priority=TC_PRIO_CONTROL)
        batch("tc", "qdisc del dev a0 root\n")


# --- what else a qdisc does


def test_packets_without_a_band_are_unassigned() -> None:
    """Also with a class that would be a queue, and with one that a filter returns."""
    with valved(PATIENT) as on:
        send_to(on, 4, 1)
        send_to(on, 0xFFFF, 1)
        on.send(2, FULL, classes=False)
        assert [band.qlen for band in on.bands] == [0, 0, 3]
        for flow, minor in ((3, NEW), (4, 9)):
            port = f"match ip sport {1024 + flow} 0xffff"
            batch("tc", f"filter add dev a0 parent 10: prio {flow} u32 {port} flowid 10:{minor}\n")
        on.send(3, FULL, classes=False)
        on.send(4, FULL, classes=False)
        send_to(on, ASSIGNED, 3)
        assert [band.qlen for band in on.bands] == [1, 1, 4]


def test_users_cannot_name_a_band() -> None:
    """SO_PRIORITY of a class needs CAP_NET_ADMIN."""
    with valved(PATIENT), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as user:
        os.seteuid(65534)
        try:
            for priority in (handle("10:1"), handle("10:2"), TC_PRIO_CONTROL):
                with pytest.raises(PermissionError):
                    user.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        finally:
            os.seteuid(0)


def test_marks_reach_their_bands_by_filters() -> None:
    """The filters of docs/fair-queueing.md, for IPv4 and IPv6."""
    with valved(PATIENT) as on:
        for mark, minor in ((0x0C, NEW), (0x1C, ASSIGNED)):
            for protocol in ("ip", "ipv6"):
                match = f"protocol {protocol} flower ip_tos {mark:#x}/0xfc"
                batch("tc", f"filter add dev a0 parent 10: {match} classid 10:{minor}\n")
        for ecn in range(4):
            for dscp, count in ((3, 1), (7, 2), (0, 3), (46, 4), (48, 5)):
                tos = dscp << 2 | ecn
                v4 = bytearray(frame_from("10.0.0.5", on, 5))
                v4[15] = tos
                v6 = bytearray(frame_v6("2001:db8::7", 5))
                v6[14:16] = (6 << 12 | tos << 4).to_bytes(2, "big")
                for _ in range(count):
                    assert on.inject(bytes(v4)) and on.inject(bytes(v6))
        assert [band.qlen for band in on.bands] == [4 * 2, 4 * 4, 4 * 24]


def test_control_packets_are_sent_before_the_bands() -> None:
    """Those beyond the control band are unassigned."""
    with valved(PATIENT) as on:
        for band in CLASSES:
            send_to(on, band, band, count=100)
        on.send(9, 1500, 50, priority=TC_PRIO_CONTROL)
        hashed = on.statistics.control_hashed
        assert 0 < hashed < 10
        assert [band.qlen for band in on.bands] == [100, 100, 100 + hashed]
        on.check_backlogs()
        on.open_valve()
        arrived = on.drain()
        assert [each.flow for each in arrived[:10]] == [9] * 10
        assert Counter(each.flow for each in arrived) == {1: 100, 2: 100, 3: 100, 9: 50}
        on.check_empty()


@pytest.mark.virtual
def test_codel_in_a_band() -> None:
    """It drops from the queue that stays long, and others have no part in that."""
    with valved("limit 2000 codel bands wait 10s", parent="tbf") as on:
        send_to(on, ASSIGNED, 2, count=600)
        on.open_valve(1_250_000)
        for _ in range(20):
            time.sleep(0.03)
            send_to(on, NEW, 1, 200)
            send_to(on, UNASSIGNED, 3, 100)
        drops = on.statistics.drops_codel
        assert drops > 10
        assert [band.drops for band in on.bands] == [0, drops, 0]
        on.change(codel=0)
        on.open_valve()
        arrived = Counter(each.flow for each in on.drain())
        assert arrived == {1: 20, 2: 600 - drops, 3: 20}
        on.check_empty()


@pytest.mark.parametrize("scheduler", ["drr", "rr", "scfq"])
@pytest.mark.parametrize("parent", PARENTS)
def test_parents_are_right_when_codel_drops_in_bands(parent: str, scheduler: str) -> None:
    """The last packet is a large one, which leaves right after others were dropped."""
    options = (
        f"limit 2000 codel target 1us interval 1ms bands wait 10s scheduler {scheduler} flows 1"
    )
    waits = PARENTS[parent].waits
    with valved(options, parent, burst=LARGE_BURST) as on, GsoSocket(on, ASSIGNED) as gso:
        for _ in range(2):
            send_to(on, UNASSIGNED, 3, FULL, 60)
            send_to(on, ASSIGNED, 2, FULL, 60)
            gso.send(40)
            time.sleep(0.01)
            on.check_backlogs(waits)
            on.open_valve(5_000_000)
            time.sleep(0.004)
            on.open_valve()
            on.drain()
            on.check_empty()
            on.close_valve()
        on.open_valve()
        on.drain()
        assert on.statistics.drops_codel
        on.check_empty()


def test_segments_keep_the_band_of_their_packet() -> None:
    options = f"{PATIENT} split-gso"
    with valved(options, burst=LARGE_BURST) as on, GsoSocket(on, ASSIGNED) as gso:
        gso.send(10)
        assert [band.qlen for band in on.bands] == [0, 10, 0]
        on.check_backlogs()
        on.open_valve()
        assert len(on.drain()) == 10
        on.check_empty()


# --- marks


#: DSCPs that are kept, and by them the marks of new and assigned packets by default.
MARKS = {
    0: (3, 7),
    1: (11, 15),
    8: (19, 23),
    18: (27, 31),
    34: (35, 39),
    46: (43, 47),
    40: (51, 55),
    45: (59, 63),
}
#: By mark, the class of its band and the DSCP of the host.
MEANINGS = {mark: (n + 1, dscp) for dscp, marks in MARKS.items() for n, mark in enumerate(marks)}


def marked_v4(on: Link, tos: int) -> bytes:
    frame = bytearray(frame_from("10.0.0.5", on, 5))
    frame[15] = tos
    frame[24:26] = (0).to_bytes(2, "big")
    frame[24:26] = internet_sum(frame[14:34]).to_bytes(2, "big")
    return bytes(frame)


def marked_v6(tos: int) -> bytes:
    frame = bytearray(frame_v6("2001:db8::7", 5))
    frame[14:18] = (6 << 28 | tos << 20 | 0x12345).to_bytes(4, "big")
    return bytes(frame)


def received(receiver: socket.socket, count: int) -> list[bytes]:
    """COUNT frames of marked_v4() or marked_v6(), with any mark."""
    found: list[bytes] = []

    def complete() -> bool:
        for frame in pending(receiver):
            if frame[26:30] == socket.inet_aton("10.0.0.5") or frame[22:26] == SOURCE_V6:
                found.append(frame)
        return len(found) >= count

    wait_for(complete)
    assert len(found) == count
    return found


SOURCE_V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7")[:4]


def traffic_class(frame: bytes) -> int:
    if frame[12:14] == b"\x08\x00":
        assert internet_sum(frame[14:34]) == 0
        return frame[15]
    assert frame[12:14] == b"\x86\xdd"
    assert int.from_bytes(frame[14:18], "big") & 0xFFFFF == 0x12345
    return int.from_bytes(frame[14:16], "big") >> 4 & 0xFF


@contextmanager
def all_frames(device: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 29)
        receiver.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        receiver.bind((device, 3))
        receiver.setblocking(False)
        yield receiver


def cleared(tos: int) -> int:
    """What is left of a traffic class if marks are not believed."""
    return tos & 3 if tos >> 2 in MEANINGS else tos


def restored(tos: int) -> int:
    """The traffic class of the host."""
    return MEANINGS.get(tos >> 2, (0, tos >> 2))[1] << 2 | tos & 3


def test_marks_of_all_packets_are_believed() -> None:
    """With any ECN, IPv4 and IPv6, behind a VLAN tag; standard code points are no marks."""
    with valved(f"{PATIENT} domain all") as on, all_frames("b0") as receiver:
        expected = Counter[int]()
        for tos in range(256):
            band = MEANINGS.get(tos >> 2, (UNASSIGNED, 0))[0]
            v4 = marked_v4(on, tos)
            tagged = v4[:12] + bytes.fromhex("81000005") + v4[12:]
            for frame in (v4, marked_v6(tos), tagged):
                assert on.inject(frame)
                expected[band] += 1
        assert [band.qlen for band in on.bands] == [expected[band] for band in CLASSES]
        # A class goes before a mark, and a control packet is one whatever its mark.
        assert on.inject(marked_v4(on, 3 << 2), priority=handle("10:2"))
        assert on.inject(marked_v4(on, 3 << 2), priority=TC_PRIO_CONTROL)
        marked = 3 * 4 * len(MARKS)
        assert [band.qlen for band in on.bands] == [marked, marked + 1, expected[UNASSIGNED]]
        on.open_valve()
        # The VLAN tags are received beside the frames.
        found = received(receiver, 3 * 256 + 2)
        assert Counter(map(traffic_class, found)) == Counter([*range(256)] * 3 + [12, 12])
        assert [band.marks_cleared for band in on.bands] == [0, 0, 0]


def test_marks_of_this_host_are_cleared() -> None:
    """With a group: any user may set the DSCP of a socket.  Also if the qdisc is idle."""
    with link("qdisc add dev a0 root handle 10: drr_fq bands domain 5") as on:
        with all_frames("b0") as receiver:
            for tos in range(256):
                assert on.inject(marked_v4(on, tos)) and on.inject(marked_v6(tos))
                # A class does not save a mark.
                assert on.inject(marked_v4(on, tos), priority=handle("10:1"))
            found = received(receiver, 3 * 256)
        expected = [cleared(tos) for tos in range(256) for _ in range(3)]
        assert Counter(map(traffic_class, found)) == Counter(expected)
        marked = 3 * 4 * len(MARKS)
        assert [band.marks_cleared for band in on.bands] == [marked, marked, 0]
        assert [band.sent_packets for band in on.bands] == [256, 0, 512]


#: Of a frame of two VLANs, the inner one looks like a mark.
TWO_TAGS = bytes.fromhex("88a800078100000f")


@contextmanager
def bridged(device: str) -> Iterator[socket.socket]:
    """A sender; a bridge forwards its frames to DEVICE, which sends no others."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    run_ip(
        [
            "link add c0 type veth peer d0",
            "link add br0 type bridge mcast_snooping 0",
            # Frames are longer by two tags.
            "link set b0 mtu 9000",
            f"link set {device} mtu 9000 master br0",
            "link set c0 mtu 9000 master br0 up",
            "link set d0 mtu 9000 up",
            "link set br0 up",
        ]
    )
    wait_for_carriers("c0", "d0")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind(("d0", 0))
        yield sender


def test_marks_behind_two_tags() -> None:
    """They are cleared, and the tags stay."""
    with link("qdisc add dev a0 root handle 10: drr_fq bands domain 5") as on:
        with bridged("a0") as sender, all_frames("b0") as receiver:
            for tos in range(256):
                frame = marked_v4(on, tos)
                sender.send(frame[:12] + TWO_TAGS + frame[12:])
            found: list[bytes] = []

            def complete() -> bool:
                found.extend(pending(receiver))
                return len(found) >= 256

            wait_for(complete)
        # The outer tag is received beside the frames.
        assert {frame[12:16] for frame in found} == {TWO_TAGS[4:]}
        classes = [traffic_class(frame[:12] + frame[16:]) for frame in found]
        assert classes == [cleared(tos) for tos in range(256)]
        assert [band.marks_cleared for band in on.bands] == [4 * len(MARKS)] * 2 + [0]


@pytest.mark.parametrize("tags", [8, 9, 30])
def test_marks_behind_many_tags_are_dropped(tags: int) -> None:
    """The next router would remove all tags without a VLAN, and believe the mark."""
    with link("qdisc add dev a0 root handle 10: drr_fq bands domain 5") as on:
        with bridged("a0") as sender, all_frames("b0") as receiver:
            frame = marked_v4(on, 3 << 2)
            sender.send(frame[:12] + bytes.fromhex("81000000") * tags + frame[12:])
            sender.send(marked_v4(on, 0))
            assert [traffic_class(each) for each in received(receiver, 1)] == [0]
        assert sum(band.sent_packets for band in on.bands) == 1


def test_a_host_behind_two_tags_has_one_queue() -> None:
    with valved(f"{PATIENT} hosts 65536") as on, bridged("a0") as sender:
        # As many as the sender may have in queues.
        for number in range(50):
            frame = bytearray(frame_from("10.0.0.77", on, 5))
            # Another identification, and so another checksum, in each packet.
            frame[18:20] = number.to_bytes(2, "big")
            frame[24:26] = bytes(2)
            frame[24:26] = internet_sum(frame[14:34]).to_bytes(2, "big")
            sender.send(frame[:12] + TWO_TAGS + frame[12:])
        wait_for(lambda: on.bands[2].qlen == 50)
        assert on.bands[2].active_flows == 1


def test_codel_marks_ecn_behind_two_tags() -> None:
    """In the IP header, and not in the inner tag, whatever its VLAN."""
    codel = "limit 2000 codel target 10s interval 10s ce_threshold 1ms"
    with valved(codel) as on, bridged("a0") as sender, all_frames("b0") as receiver:
        for vlan in range(1, 17):
            for frame in (marked_v4(on, ECT_0), marked_v6(ECT_0)):
                sender.send(frame[:12] + TWO_TAGS[:6] + vlan.to_bytes(2, "big") + frame[12:])
        wait_for(lambda: on.shown("10:").qlen >= 32)
        time.sleep(0.05)
        on.open_valve()
        found: list[bytes] = []

        def complete() -> bool:
            tagged = (each for each in pending(receiver) if each[12:14] == TWO_TAGS[4:6])
            found.extend(tagged)
            return len(found) >= 32

        wait_for(complete)
        vlans = Counter(int.from_bytes(frame[14:16], "big") for frame in found)
        assert vlans == Counter([*range(1, 17)] * 2)
        assert {traffic_class(frame[:12] + frame[16:]) for frame in found} == {CE}
        assert on.statistics.ce_marks == 32


def test_codel_behind_an_ifb_leaves_frames_whole() -> None:
    """Ingress shaping: an ifb takes the length of the link-layer header from the packet."""
    with link() as on, bridged("a0") as sender, all_frames("b0") as receiver:
        sh("ip link add ifb0 mtu 9000 up type ifb")
        batch(
            "tc",
            """qdisc add dev c0 clsact
            filter add dev c0 ingress matchall action mirred egress redirect dev ifb0
            qdisc add dev ifb0 root handle 1: tbf rate 10mbit burst 1600 limit 1mb
            qdisc add dev ifb0 parent 1:1 drr_fq codel""",
        )
        frame = marked_v4(on, ECT_0)
        all_tags = (b"", bytes.fromhex("81000005"), TWO_TAGS, bytes.fromhex("81000005") * 9)
        for tags in all_tags:
            sender.send(frame[:12] + tags + frame[12:])
        found: list[bytes] = []

        def complete() -> bool:
            found.extend(pending(receiver))
            return len(found) >= len(all_tags)

        wait_for(complete)
        # An outer tag is received beside the frame.
        assert found == [frame[:12] + tags[4:] + frame[12:] for tags in all_tags]


def test_codel_and_short_packets_of_a_device_without_header() -> None:
    """With the protocol of a VLAN, as any user may send them in a namespace: no warning."""
    with link():
        sh("ip link add t0 up type ipip local 10.0.0.1 remote 10.0.0.2")
        # With split-gso packets are queued even if the qdisc is idle.
        sh("tc qdisc add dev t0 root drr_fq codel split-gso")
        before = sh("dmesg").stdout.count("WARNING")
        with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as sender:
            for size in range(1, 30):
                sender.sendto((b"\x81\0" * 15)[:size], ("t0", 0x8100))
        wait_for(lambda: " 29 pkt " in sh("tc -s qdisc show dev t0").stdout)
        assert sh("dmesg").stdout.count("WARNING") == before


PACKET_VERSION, PACKET_TX_RING, TPACKET_V2 = 10, 13, 1
#: Octets of struct tpacket2_hdr, which the frame follows.
TPACKET_HEAD = 32


def test_marks_of_packets_in_pages_are_cleared() -> None:
    """Only their link-layer header is in the linear data, as a packet ring sends them."""
    with link("qdisc add dev a0 root handle 10: drr_fq bands domain 5") as on:
        with all_frames("b0") as receiver:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
                sender.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
                ring = struct.pack("4I", mmap.PAGESIZE, 1, mmap.PAGESIZE, 1)
                sender.setsockopt(SOL_PACKET, PACKET_TX_RING, ring)
                sender.bind(("a0", 0x0800))
                with mmap.mmap(sender.fileno(), mmap.PAGESIZE) as memory:
                    for tos in range(256):
                        frame = marked_v4(on, tos)
                        memory[TPACKET_HEAD : TPACKET_HEAD + len(frame)] = frame
                        memory[4:8] = struct.pack("I", len(frame))
                        memory[0:4] = struct.pack("I", 1)
                        sender.send(b"")
                        wait_for(lambda: memory[0:4] == bytes(4))
            found = received(receiver, 256)
        assert list(map(traffic_class, found)) == [cleared(tos) for tos in range(256)]


@pytest.mark.parametrize("exits", [False, True])
@pytest.mark.parametrize("how", ["routed", "bridged"])
def test_marks_are_believed_from_interfaces_of_the_domain(how: str, exits: bool) -> None:
    """Those of other interfaces are cleared, so that the next router does not believe them.

    Where the domain ends, as the device is not in it, the DSCPs of hosts take the place of those
    that are believed.
    """
    with link() as on:
        batch("ip", "link add c0 type veth peer name d0\nlink set c0 up\nlink set d0 up\n")
        batch("tc", "qdisc add dev c0 root handle 10: drr_fq bands domain 5\n")
        if how == "bridged":
            run_ip(
                [
                    "link add br0 type bridge",
                    "link set a0 master br0",
                    "link set c0 master br0",
                    "link set br0 up",
                ]
            )
        else:
            run_ip(
                [
                    "route add 10.9.0.0/24 dev c0",
                    "neigh add 10.9.0.1 lladdr 02:00:00:00:00:04 dev c0",
                ]
            )
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        wait_for_carriers("c0", "d0")
        index = socket.if_nametoindex("c0")

        def counts() -> list[tuple[int, int]]:
            shown = [Band.read(each) for each in on.rtnetlink.classes(index)]
            return [(band.sent_packets, band.marks_cleared) for band in shown]

        def frames() -> list[bytes]:
            found = []
            for tos in range(256):
                v4 = bytearray(marked_v4(on, tos))
                if how == "routed":
                    v4[0:6] = bytes.fromhex("020000000001")
                    v4[30:34] = socket.inet_aton("10.9.0.1")
                    v4[24:26] = bytes(2)
                    v4[24:26] = internet_sum(v4[14:34]).to_bytes(2, "big")
                    found.append(bytes(v4))
                else:
                    tagged = v4[:12] + bytes.fromhex("81000005") + v4[12:]
                    found += [bytes(v4), marked_v6(tos), bytes(tagged)]
            return found

        with (
            all_frames("d0") as receiver,
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        ):
            sender.bind(("b0", 0))
            each = len(frames()) // 256
            run_ip([f"link set c0 group {0 if exits else 5}"])
            for group, believed in ((0, False), (5, True), (6, False)):
                run_ip([f"link set a0 group {group}"])
                before = counts()
                for frame in frames():
                    sender.send(frame)
                found = received(receiver, 256 * each)
                expected = list(range(256)) * each
                if not believed:
                    expected = [cleared(tos) for tos in expected]
                elif exits:
                    expected = [restored(tos) for tos in expected]
                assert Counter(map(traffic_class, found)) == Counter(expected)
                change = [
                    (sent - old, marks - old_marks)
                    for (sent, marks), (old, old_marks) in zip(counts(), before, strict=True)
                ]
                # Neighbour discovery of IPv6 may be among the others.
                marked = 4 * len(MARKS) * each
                if believed:
                    assert change[:2] == [(marked, 0), (marked, 0)]
                else:
                    assert change[:2] == [(0, marked), (0, marked)]


def packet_v4(source: str, destination: str, protocol: int, payload: bytes, tos: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), 0, 0, 64, protocol, 0)
    head += socket.inet_aton(source) + socket.inet_aton(destination)
    return head[:10] + internet_sum(head).to_bytes(2, "big") + head[12:] + payload


@pytest.mark.parametrize(("group", "believed"), [(0, False), (5, True)])
def test_marks_from_a_tunnel_behind_two_tags(group: int, believed: bool) -> None:
    """skb->mac_len remains that of the headers which GRE has removed."""
    with link() as on:
        batch(
            "ip",
            """link add c0 type veth peer name d0
            link set c0 up
            link set d0 up
            link add link c0 name outer type vlan proto 802.1ad id 7
            link set outer up
            link add link outer name inner type vlan id 15
            link set inner up
            addr add 10.9.0.2/24 dev inner
            neigh add 10.9.0.1 lladdr 02:00:00:00:00:04 dev inner
            link add g0 type gre local 10.0.0.1 remote 10.0.0.2
            link set g0 up
            route add 10.8.0.0/24 dev g0""",
        )
        batch("tc", "qdisc add dev c0 root handle 10: drr_fq bands domain 5\n")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        wait_for_carriers("c0", "d0")
        run_ip([f"link set g0 group {group}", "link set c0 group 5"])
        found: list[int] = []

        def complete() -> bool:
            for frame in pending(receiver):
                # The outer tag is received beside the frame.
                if frame[12:18] == bytes.fromhex("8100000f0800"):
                    found.append(traffic_class(frame[:12] + frame[16:]))
            return len(found) >= 256

        with (
            all_frames("d0") as receiver,
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        ):
            sender.bind(("b0", 0))
            for tos in range(256):
                udp = struct.pack("!HHHH", 9, 9, 8, 0)
                inner = packet_v4("10.8.0.5", "10.9.0.1", socket.IPPROTO_UDP, udp, tos)
                gre = bytes.fromhex("00000800") + inner
                outer = packet_v4("10.0.0.2", "10.0.0.1", socket.IPPROTO_GRE, gre)
                sender.send(bytes.fromhex("0200000000010200000000020800") + outer)
            wait_for(complete)
        expected = [tos if believed else cleared(tos) for tos in range(256)]
        assert Counter(found) == Counter(expected)
        shown = map(Band.read, on.rtnetlink.classes(socket.if_nametoindex("c0")))
        counts = [(band.sent_packets, band.marks_cleared) for band in shown]
        marked = 4 * len(MARKS)
        assert counts[:2] == [(marked, 0) if believed else (0, marked)] * 2


def test_marks_of_redirected_packets_of_this_host_are_cleared() -> None:
    """act_mirred makes the device that would have sent a packet the one that it came from."""
    with link() as on:
        batch("ip", "link add c0 type veth peer name d0\nlink set c0 up\nlink set d0 up\n")
        batch("tc", "qdisc add dev c0 root handle 10: drr_fq bands domain 5\n")
        batch("tc", "qdisc add dev a0 clsact\n")
        batch("tc", "filter add dev a0 egress matchall action mirred egress redirect dev c0\n")
        wait_for_carriers("c0", "d0")
        run_ip(["link set a0 group 5", "link set c0 group 5"])
        with (
            all_frames("d0") as receiver,
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        ):
            sender.bind(("a0", 0))
            sender.send(marked_v4(on, 0x0C))
            assert [traffic_class(each) for each in received(receiver, 1)] == [0]


def test_a_renewed_interface_is_not_in_the_domain() -> None:
    """Until its group is set again."""
    with link() as on:
        batch("ip", "link add c0 type veth peer name d0\nlink set c0 up\nlink set d0 up\n")
        batch("tc", "qdisc add dev c0 root handle 10: drr_fq bands domain 5\n")
        batch("tc", "qdisc add dev a0 clsact\n")
        redirect = "filter add dev a0 ingress matchall action mirred egress redirect dev c0\n"
        batch("tc", redirect)
        wait_for_carriers("c0", "d0")
        run_ip(["link set a0 group 5", "link set c0 group 5"])
        with all_frames("d0") as receiver:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
                sender.bind(("b0", 0))
                sender.send(marked_v4(on, 0x0C))
                assert [traffic_class(each) for each in received(receiver, 1)] == [0x0C]
            names = "02:00:00:00:00:01 type veth peer name b0 address 02:00:00:00:00:02"
            run_ip(
                ["link del a0", f"link add a0 address {names}", "link set a0 up", "link set b0 up"]
            )
            wait_for_carriers("a0", "b0")
            batch("tc", "qdisc add dev a0 clsact\n")
            batch("tc", redirect)
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
                sender.bind(("b0", 0))
                sender.send(marked_v4(on, 0x0C))
                assert [traffic_class(each) for each in received(receiver, 1)] == [0]
