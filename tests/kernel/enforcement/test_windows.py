# SPDX-License-Identifier: GPL-2.0
"""Receive windows: unchanged senders through slbnd's pacer (userspace/slbnd/enforcement/window.h).

    node 0 ---- node 1 ---- node 2
                     e1: fq below slbn, which paces, and the program at ingress
                     w1: acknowledgements are delayed

test_windows_networks.py has other networks and senders.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.kernel.lib import windows
from tests.kernel.lib.enforcer import Enforcer, Flow, Windows, enforcer
from tests.kernel.lib.senders import ADDRESSES, RTT, SEGMENT, Sender, Traffic, sender, tcp_info
from tests.kernel.lib.slbn import MEGA, Chain
from tests.kernel.lib.windows import RATE

pytestmark = pytest.mark.virtual
EVERYWHERE = pytest.mark.tier("all")


@pytest.fixture
def net() -> Iterator[Chain]:
    with windows.network() as made:
        yield made


def watch(
    flows: list[Sender], made: Enforcer, session: Flow | None = None, seconds: float = 2
) -> tuple[float, list[float], int]:
    """The part of the rate that is used, delays [ms], sorted, and dropped packets."""
    seen = windows.watch(made, *flows, session=session, seconds=seconds)
    return seen.used, seen.delays, seen.drops


@pytest.mark.parametrize("on", [True, False])
def test_cubic_does_not_queue(net: Chain, enforce_try: str, on: bool) -> None:
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set_windows(on)
        flow = sender(net, 0, 2)
        used, delays, drops = watch([flow], made)
        assert 0.98 < used < 1.01
        if on:
            assert drops == 0 and delays[-1] < 2.5
            assert made.read_windows().lowered > 100
        else:
            assert statistics.median(delays) > 3
            assert made.read_windows().lowered == 0


#: Settings of TCP at a node: the scale is the receiver's.
SETTINGS = {
    "scale 0": [(2, "window_scaling", "0")],
    "sender without scale": [(0, "window_scaling", "0")],
    "scale 14": [(2, "rmem", "4096 131072 2000000000")],
    "no sack": [(2, "sack", "0")],
    "no timestamps": [(2, "timestamps", "0")],
    "reno": [(0, "congestion_control", "reno")],
}
SHORT = ("scale 0", "scale 14")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SHORT else EVERYWHERE) for n in SETTINGS]
)
def test_any_scale_and_options(net: Chain, enforce_try: str, name: str) -> None:
    for node, option, value in SETTINGS[name]:
        net.nodes[node].sysctl(f"tcp_{option}", value)
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        used, delays, drops = watch([sender(net, 0, 2)], made)
        assert 0.97 < used < 1.01
        # A unit of 16 kB takes 6.6 ms.
        assert drops == 0 and delays[-1] < (9 if name == "scale 14" else 2.5)
        assert made.read_windows().lowered > 100


@pytest.mark.parametrize(
    "mega, trip, nodelay", [(20, 2, 0), pytest.param(20, 20, 1, marks=EVERYWHERE), (1, 10, 1)]
)
def test_segments_are_whole(
    net: Chain, enforce_try: str, mega: int, trip: int, nodelay: int
) -> None:
    """A window that ends within a segment makes senders split it; merged ones (TSO), too."""
    windows.delay(net, trip)
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flow = sender(net, 0, 2)
        flow.near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
        made.set(flow.session, mega * MEGA)
        traffic = Traffic(flow)
        traffic.settle(2)
        before, began = made.read(flow.session), time.monotonic()
        traffic.run(2)
        took, after = time.monotonic() - began, made.read(flow.session)
        octets = after.bytes - before.bytes
        mean = octets / (after.packets - before.packets)
        used = octets * 8 / took / (mega * MEGA)
        print(f"{mean:.0f} octets, {used:.3f} of the rate, {after.drops - before.drops} drops")
        assert mean > 1400 and 0.97 < used < 1.02
        assert after.drops == before.drops


def test_hosts_may_be_far_from_the_router(net: Chain, enforce_try: str) -> None:
    """As over Wi-Fi: what lies between them is not a part of the measured round trip."""
    net.nodes[1].sh("tc qdisc replace dev w0 root netem delay 5ms limit 10000")
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        seen = windows.watch(made, sender(net, 0, 2), trip=windows.ROUND_TRIP + 5)
        seen.check()


def test_connections_share_a_session(net: Chain, enforce_try: str) -> None:
    """Over IPv6; the session is that of the pair of hosts."""
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flows = [sender(net, 0, 2, six=True) for _ in range(3)]
        pair = Flow(flows[0].session.destination, flows[0].session.source)
        used, delays, drops = watch(flows, made, pair)
        assert 0.97 < used < 1.01
        assert drops == 0 and delays[len(delays) // 2] < 3 and delays[-1] < 6


def test_small_connections_leave_the_rest(net: Chain, enforce_try: str) -> None:
    """Ten of one session, which send 100 octets each 15 ms, beside one that has more."""
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flow, *small = (sender(net, 0, 2) for _ in range(11))
        pair = Flow(flow.session.destination, flow.session.source)
        made.set(pair, RATE)
        for each in small:
            each.near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        traffic = Traffic(flow)
        delays = []

        def run(seconds: float) -> float:
            """The part that the one gets of the rate that the small ones leave."""
            before, began, sent = flow.received, time.monotonic(), 0
            while time.monotonic() < began + seconds:
                for each in small:
                    sent += each.near.send(bytes(100)) + 66
                    each.receive()
                traffic.run(0.015)
                delays.append(tcp_info(flow, RTT) / 1000 - windows.ROUND_TRIP)
            rest = RATE / 8 * (time.monotonic() - began) - sent
            return (flow.received - before) / rest

        run(2)
        delays.clear()
        drops = made.read(pair).drops
        used = run(2)
        print(f"{used:.3f} of the rest, delay of up to {max(delays):.2f} ms")
        assert 0.95 < used < 1.05 and max(delays) < 5
        assert made.read(pair).drops == drops


def test_unknown_and_excepted_are_left_alone(net: Chain, enforce_try: str) -> None:
    older = sender(net, 0, 2)
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        watch([older], made, seconds=0.5)
        assert made.read_windows() == Windows(0, 1, 0)
        for number, prefix in enumerate(("10.0.0.0/24", "10.0.1.2/32"), 2):
            made.set_windows(True, prefix)
            watch([sender(net, 0, 2)], made, seconds=0.5)
            assert made.read_windows() == Windows(0, number, 0)
        made.set_windows(True, "fd00::/16")
        watch([sender(net, 0, 2)], made, seconds=0.5)
        assert made.read_windows().lowered > 100
        assert "slbnd_windows" in net.nodes[1].sh("tc filter show dev e1 ingress").stdout
        made.set_windows(False)
        assert net.nodes[1].sh("tc filter show dev e1 ingress").stdout == ""


def test_acknowledgements_by_another_way(net: Chain, enforce_try: str) -> None:
    """Without its program at ingress, the router sees none: the queue is CoDel's."""
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flow = sender(net, 0, 2)
        watch([flow], made, seconds=0.5)
        lowered = made.read_windows().lowered
        net.nodes[1].sh("tc filter del dev e1 ingress")
        used, delays, _ = watch([flow], made)
        assert 0.97 < used < 1.01 and statistics.median(delays) > 3
        assert made.read_windows() == Windows(lowered, 0, 1)


@pytest.mark.parametrize(("mega", "trip"), [(4, 1), pytest.param(4, 2, marks=EVERYWHERE), (20, 1)])
def test_receivers_may_read_in_steps(net: Chain, enforce_try: str, mega: int, trip: int) -> None:
    """Each 10 ms: then Linux acknowledges some data at once, after a round trip, and most late.

    The queue is what a pause needs, and some segments.
    """
    windows.delay(net, trip)
    segment = SEGMENT * 8000 / (mega * MEGA)
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flow = sender(net, 0, 2)
        made.set(flow.session, mega * MEGA)

        def run(seconds: float) -> tuple[float, float]:
            """Send for so long; return the part of the rate that is used, and the longest wait."""
            before, began, most = made.read(flow.session), time.monotonic(), 0.0
            while time.monotonic() < began + seconds:
                flow.send(0)
                time.sleep(0.01)
                flow.receive()
                departure = made.read(flow.session).departure
                most = max(most, (departure - time.monotonic_ns()) / 10**6)
            octets = made.read(flow.session).bytes - before.bytes
            return octets * 8 / (time.monotonic() - began) / (mega * MEGA), most

        run(3)
        drops = made.read(flow.session).drops
        used, most = run(4)
        print(f"{used:.3f} of the rate, waits of up to {most:.2f} ms, segment {segment:.2f} ms")
        assert 0.985 < used < 1.01 and most < 10 + 4 * segment
        assert made.read(flow.session).drops == drops
        assert made.read_windows().lowered > 100


@EVERYWHERE
def test_little_is_granted_before_a_rate(net: Chain, enforce_try: str) -> None:
    """By a receiver that offers its whole buffer at once, as those of Linux 7.2 do."""
    net.nodes[2].sysctl("tcp_rmem", "4096 250000000 250000000")
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        made.set_unassigned(2 * RATE)
        flow = sender(net, 0, 2)
        Traffic(flow).settle(0.3)
        granted = tcp_info(flow, windows.SEND_WINDOW)
        print(f"{granted} octets granted")
        # Twice what is acknowledged in half a second; four times what is in flight is less here.
        assert granted < 2 * 0.5 * 2 * RATE / 8
        # What was granted remains so, and takes its time at the rate.
        windows.watch(made, flow, settle=2 + granted * 8 / RATE).check()


def test_share_below_a_unit_stops_no_sender(net: Chain, enforce_try: str) -> None:
    """Without a rate, to a receiver whose windows count more than a slow path's bound: 16 kB."""
    net.nodes[2].sysctl("tcp_rmem", SETTINGS["scale 14"][0][2])
    windows.delay(net, 20)
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        made.set_marks(True)
        made.set_unassigned(2 * RATE)
        flow = sender(net, 0, 2)
        made.set_share(flow.session, MEGA)
        Traffic(flow).settle(1)
        (used,) = Traffic(flow).run(2)
        assert used > MEGA
        assert made.read_windows().lowered > 100


def test_restart_keeps_what_was_granted(net: Chain, enforce_try: str) -> None:
    with enforcer(net.nodes[1], enforce_try) as made:
        assert made.ask("pins /sys/fs/bpf/windows") == ["ok"]
        made.set_windows(True)
        made.open("e1")
        flow = sender(net, 0, 2)
        watch([flow], made, seconds=0.5)
        traffic, edge, back = Traffic(flow), windows.right_edge(flow), 0
        assert made.ask("close keep") == ["ok"]
        made.open("e1")
        for _ in range(50):
            traffic.run(0.02)
            now = windows.right_edge(flow)
            edge, back = now, max(back, edge - now)
        assert back < windows.unit_of(flow)
        seen = windows.watch(made, flow)
        seen.check()
        assert seen.used > 0.98
        counted = made.read_windows()
        assert counted.lowered > 100 and counted.unknown == 0
        made.close()


def test_zero_window(net: Chain, enforce_try: str) -> None:
    """A receiver that stops for 3 s stops its sender, whose probes are answered."""
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        flow = sender(net, 0, 2)
        made.set(flow.session, RATE)
        traffic = Traffic(flow)
        traffic.settle(1)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            flow.send(0)
            time.sleep(0.01)
        stopped = made.read(flow.session).packets
        time.sleep(0.5)
        assert made.read(flow.session).packets <= stopped + 3
        used, delays, drops = watch([flow], made)
        assert 0.98 < used < 1.01 and drops == 0 and delays[-1] < 2.5


@pytest.mark.parametrize("first", [0, 2])
def test_first_window_is_that_of_the_session(net: Chain, enforce_try: str, first: int) -> None:
    """A session that has a rate when a connection opens, whichever end opens it."""
    windows.delay(net, 4)
    session = Flow(ADDRESSES[2, socket.AF_INET], ADDRESSES[0, socket.AF_INET])
    with enforcer(net.nodes[1], enforce_try, "e1", windows=True) as made:
        made.set(session, 5 * MEGA)
        flow = sender(net, first, 2 - first)
        if first:
            flow = Sender(flow.far, flow.near, 0)
        granted = windows.right_edge(flow)
        delays = []
        traffic = Traffic(flow)
        for _ in range(25):
            traffic.run(0.02)
            delays.append(tcp_info(flow, RTT) / 1000 - 4)
        print(f"{granted} octets, delay {max(delays):.1f} ms")
        # Three segments of 2.4 ms each, instead of 64 kB.
        assert granted < 5000 and max(delays) < 8
        assert made.read(session).drops == 0
