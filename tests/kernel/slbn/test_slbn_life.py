# SPDX-License-Identifier: GPL-2.0
"""sch_slbn while devices, namespaces and modules appear, change and disappear.

    a0 with slbn ---------------- veth ---------------- b0
    sources, and a flood of data  |  a destination, and a flood of data

Sessions are slbn_peer's: they join and then probe without end. When the ledgers have the expected
sums, and keep them while each session sends more packets, the sessions have their max-min rates;
the sources print them at the end. Tests wait for numbers of packets or rotations, not for times.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.lib.drr_fq import batch
from tests.kernel.lib.genetlink import MEGA, MS, SECOND, Genetlink, control_frame, given, options
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import (
    Namespace,
    Pair,
    connection,
    namespace,
    sh,
    unnamed_namespace,
    wait_for,
    wait_for_carriers,
)
from tests.kernel.lib.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NetlinkError,
    attribute,
)
from tests.kernel.lib.rtnetlink import RTM_DELQDISC, TC_H_ROOT, TCA_KIND, Rtnetlink, handle
from tests.kernel.lib.slbn_wire import State

pytestmark = pytest.mark.virtual

KIND = attribute(TCA_KIND, b"slbn\0")
RATE = 100 * MEGA
#: Demand of one session; the others have no limit.
MODEST = 5 * MEGA
SESSIONS = 5
#: Per mille, the default.
HEADROOM = 50


@dataclass
class Lane:
    """The link in the figure above, in two namespaces."""

    a: Namespace
    b: Namespace
    peer: str
    rtnetlink: Rtnetlink
    family: Genetlink
    #: Index of the device with slbn.
    index: int

    # --- configuration

    def qdisc(
        self, content: bytes, flags: int = 0, where: str = "1:", parent: int = TC_H_ROOT
    ) -> None:
        self.rtnetlink.change_qdisc(self.index, handle(where), parent, KIND + content, flags)

    def attach(self, **values: int | str | bytes) -> None:
        self.qdisc(options(**values), NLM_F_CREATE | NLM_F_REPLACE)

    def change(self, **values: int | str | bytes) -> None:
        self.qdisc(options(**values))

    def detach(self, where: str = "1:") -> None:
        self.rtnetlink.change_qdisc(self.index, handle(where), TC_H_ROOT, b"", kind=RTM_DELQDISC)

    # --- state

    @property
    def state(self) -> State:
        return self.family.get(given(ifindex=self.index)).state

    def settled(self, capacity: int) -> Callable[[], bool]:
        """Returns a check that the ledgers have the expected sums of all sessions."""

        def check() -> bool:
            state = self.state
            plan = capacity - capacity * HEADROOM // 1000
            return (
                (state.capacity, state.plan) == (capacity, plan)
                and state.N + state.previous_N == SESSIONS
                and state.NR + state.previous_NR == SESSIONS - 1
                and state.BF + state.previous_BF == MODEST
                and state.share == (plan - MODEST) // (SESSIONS - 1)
                # They hold what they use: their shares.
                and state.held == state.share * (SESSIONS - 1) + MODEST
            )

        return check

    def cycles(self, count: int, meanwhile: Callable[[], bool] = lambda: True) -> None:
        """Wait for COUNT cycles of each session; MEANWHILE must be true all the time.

        No session is more than three times as fast as another, as a cycle is little more than a
        pause of 5 to 15 ms; so three times the packets are enough.
        """
        first = self.state.acks

        def seen() -> bool:
            assert meanwhile()
            return self.state.acks - first >= 3 * count * SESSIONS

        wait_for(seen, 60)

    def recovered(self, capacity: int) -> None:
        """After an outage: the sums are right, and remain so, from two epochs on.

        Before, they may be right for a moment: a session whose packet was counted here and lost
        behind counts again when its time-out ends, which may be after the link has forgotten it.
        """
        first = self.state
        wait_for(lambda: rotations(first, self.state) >= 2)
        self.cycles(10)
        self.cycles(5, self.settled(capacity))
        assert self.state.clamped == 0

    # --- packets

    @contextlib.contextmanager
    def sessions(self, seconds: float = 3600) -> Iterator[subprocess.Popen[str]]:
        """Sources that end without a Leave."""
        demands = [0] * (SESSIONS - 1) + [MODEST]
        command = [self.peer, "source", "10.0.0.1", str(seconds)]
        with self.a.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin
            process.stdin.write("\n".join(f"10.0.0.2 {demand} 0.05 0" for demand in demands))
            process.stdin.close()
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def flood(self) -> Iterator[None]:
        """Continuous data in both directions."""
        stop = threading.Event()

        def send(ns: Namespace, to: str) -> None:
            with ns.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data:
                data.setblocking(False)
                while not stop.is_set():
                    for size in (10, 1400, 8000):
                        # The device may be down or removed, or its queue full.
                        with contextlib.suppress(OSError):
                            data.sendto(bytes(size), (to, 9))
                    time.sleep(0.02)

        threads = [
            threading.Thread(target=send, args=to)
            for to in ((self.a, "10.0.0.2"), (self.b, "10.0.0.1"))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


@contextlib.contextmanager
def lane(peer: str, queues: int = 1) -> Iterator[Lane]:
    with namespace() as a, namespace() as b:
        sizes = f"numtxqueues {queues} numrxqueues {queues}"
        run_ip(
            [f"link add a0 netns {a.name} {sizes} type veth peer name b0 netns {b.name} {sizes}"]
        )
        a.ip("addr add 10.0.0.1/24 dev a0", "link set a0 up")
        b.ip("addr add 10.0.0.2/24 dev b0", "link set b0 up")
        with a.entered():
            made = Lane(a, b, peer, Rtnetlink(), Genetlink(), socket.if_nametoindex("a0"))
        with b.start([peer, "destination", "10.0.0.2"]) as process:
            try:
                yield made
            finally:
                process.kill()
                made.rtnetlink.close()
                made.family.close()


@pytest.fixture(scope="module")
def base(peer: str) -> Iterator[Lane]:
    with lane(peer) as made:
        yield made


@pytest.fixture
def on(base: Lane) -> Iterator[Lane]:
    yield base
    with contextlib.suppress(NetlinkError):
        base.detach()


def references() -> int:
    """The reference count of the module."""
    return int(Path("/sys/module/sch_slbn/refcnt").read_text())


def rotations(before: State, now: State) -> int:
    """The number of rotations in between, by the tags."""
    return (now.tag - before.tag) % 0xFFFF


def test_rates_recover_after_qdisc_changes(on: Lane) -> None:
    """Under load: add, change, replace, reset and delete the qdisc."""
    on.attach(rate=RATE)
    with on.flood(), on.sessions(12) as process:
        wait_for(on.settled(RATE))
        on.change(rate=RATE // 2)
        wait_for(on.settled(RATE // 2))
        # A second slbn is refused.
        before = on.state
        with pytest.raises(NetlinkError) as refused:
            on.qdisc(options(rate=RATE), NLM_F_CREATE | NLM_F_REPLACE, where="2:")
        assert refused.value.errno == errno.EEXIST
        on.cycles(2, on.settled(RATE // 2))
        on.change(rate=RATE)
        wait_for(on.settled(RATE))
        assert on.state.new_sessions == before.new_sessions
        assert on.state.quiet == 0
        on.family.reset(given(ifname="a0"))
        assert on.state.quiet
        on.recovered(RATE)
        on.detach()
        assert on.family.dump_links() == []
        on.attach(rate=RATE)
        assert on.state.quiet
        on.recovered(RATE)
        shown = on.rtnetlink.qdiscs(on.index)
        assert sum(each.sent_packets for each in shown) > 100
        assert process.stdout
        rates = [int(line.split()[0]) for line in process.stdout.read().splitlines()]
        share = (RATE - RATE * HEADROOM // 1000 - MODEST) // (SESSIONS - 1)
        assert rates == [share] * (SESSIONS - 1) + [MODEST]
    # They ended without a Leave.
    wait_for(lambda: on.state.N + on.state.previous_N == 0)


def test_plan_follows_control_packets_and_rests(on: Lane) -> None:
    """headroom auto: the rates rest for a hundred epochs, and the reserve ends with the load."""
    free = RATE - 5 * RATE // 1000 - 20 * RATE // 1000
    on.attach(rate=RATE, epoch=100 * MS, headroom_auto=1, unassigned=20)
    assert on.state.plan == free
    with on.flood(), on.sessions(30):
        wait_for(lambda: on.state.held == on.state.plan < free)
        begun = on.state
        wait_for(lambda: rotations(begun, on.state) >= 10)
        before = on.state
        while rotations(before, on.state) < 100:
            now = on.state
            assert (now.plan, now.share, now.held) == (before.plan, before.share, before.plan)
            time.sleep(0.1)
        # Control packets are longer than their header, and a reserve is at most 2.25 times as
        # large as what it is for, and two steps.
        probes = (on.state.probes - before.probes) / 10
        assert 96 * 8 * probes < free - before.plan < 2.25 * 2000 * probes + 2 * RATE / 1024
    wait_for(lambda: on.state.plan == free)
    assert on.state.N + on.state.previous_N == 0


#: Where a drr_fq with bands is found, and commands that put other queues there.
BANDED = {
    "child": ("1:1", ""),
    "below a shaper": (
        "20:1",
        "qdisc replace dev a0 parent 1:1 handle 20: tbf rate 1gbit burst 50k limit 1mb",
    ),
    "below netem": (
        "30:1",
        "qdisc replace dev a0 parent 1:1 handle 20: tbf rate 1gbit burst 50k limit 1mb\n"
        "qdisc replace dev a0 parent 20:1 handle 30: netem limit 1000",
    ),
}


@pytest.mark.parametrize(
    ("parent", "others"),
    [
        pytest.param(*how, id=name, marks=[pytest.mark.tier("all")] if "netem" in name else [])
        for name, how in BANDED.items()
    ],
)
def test_plan_follows_unassigned_packets_of_bands(on: Lane, parent: str, others: str) -> None:
    """headroom auto: what is reserved for them is what they take, where they have a band."""
    most = 50 * RATE // 1000
    on.attach(rate=RATE, epoch=100 * MS, headroom_auto=1, unassigned=50)
    least = on.state.plan
    with on.a.entered():
        batch("tc", f"{others}\nqdisc replace dev a0 parent {parent} handle 9: drr_fq bands\n")
    with on.sessions(20):
        # Not in the first four epochs.
        begun = on.state
        wait_for(lambda: on.state.plan > least)
        assert rotations(begun, on.state) >= 4
        # No such packets: nothing but the rest and what the few control packets need.
        wait_for(lambda: rotations(begun, on.state) >= 20)
        free = RATE - on.state.plan
        assert free < 5 * RATE // 1000 + most // 2
        with on.flood():
            # 3.8 Mbit/s.
            wait_for(lambda: RATE - on.state.plan >= free + 3 * MEGA)
            wait_for(lambda: on.state.held == on.state.plan)
            flooded = on.state.plan
            assert RATE - flooded < free + most
        wait_for(lambda: on.state.plan >= flooded + 3 * MEGA)
        # Without bands they cannot be identified.
        with on.a.entered():
            batch("tc", f"qdisc replace dev a0 parent {parent} handle 8: pfifo\n")
        wait_for(lambda: RATE - on.state.plan >= RATE - least)


def test_unassigned_packets_are_measured_without_an_epoch(on: Lane) -> None:
    """headroom auto: each second, although the share rests."""
    most = 50 * RATE // 1000
    on.attach(rate=RATE, epoch=0, headroom_auto=1, unassigned=50)
    least = on.state.plan
    with on.a.entered():
        batch("tc", "qdisc replace dev a0 parent 1:1 handle 9: drr_fq bands\n")
    with on.sessions(60):
        wait_for(lambda: on.state.plan > least + most // 2)
        free = RATE - on.state.plan
        with on.flood():
            # 3.8 Mbit/s.
            wait_for(lambda: RATE - on.state.plan >= free + 3 * MEGA)


def test_shorter_epochs_are_measured_at_once(on: Lane) -> None:
    on.attach(rate=RATE, epoch=3600 * SECOND, headroom_auto=1, unassigned=50, control=10)
    least = on.state.plan
    with on.a.entered():
        batch("tc", "qdisc replace dev a0 parent 1:1 handle 9: drr_fq bands\n")
    with on.sessions(60):
        wait_for(lambda: on.state.acks > 100)
        assert on.state.plan <= least
        on.change(epoch=100 * MS)
        wait_for(lambda: on.state.plan > least)


def test_unassigned_packets_of_two_classes_are_not_measured(on: Lane) -> None:
    """A qdisc with several classes may have packets that are in no band."""
    on.attach(rate=RATE, epoch=100 * MS, headroom_auto=1, unassigned=50)
    least = on.state.plan
    with on.a.entered():
        batch(
            "tc",
            "qdisc replace dev a0 parent 1:1 handle 20: prio bands 2 priomap"
            + 16 * " 1"
            + "\nqdisc replace dev a0 parent 20:2 handle 9: drr_fq bands\n",
        )
    with on.sessions(10):
        begun = on.state
        wait_for(lambda: rotations(begun, on.state) >= 12)
        assert on.state.plan <= least


def test_epoch_and_memory_changes_keep_sessions_counted(on: Lane) -> None:
    on.attach(rate=RATE, epoch=300 * MS)

    def rotated(count: int) -> None:
        first = on.state
        wait_for(lambda: rotations(first, on.state) >= count)

    with on.flood(), on.sessions():
        wait_for(on.settled(RATE))
        settled = on.settled(RATE)
        new = on.state.new_sessions
        for values in (
            {"epoch": 0},
            {"epoch": 300 * MS},
            {"epoch": SECOND},
            {"epoch": 0, "memory": 0},
            {"memory": 7},
            {"epoch": 200 * MS, "memory_time": SECOND},
            {"memory": 0},
            {"memory": 100000},
        ):
            on.change(**values)
            on.cycles(3, settled)
            if values.get("epoch"):
                rotated(2)
                on.cycles(1, settled)
        assert on.state.new_sessions == new
        assert on.state.clamped == 0
        on.change(epoch=0)
        on.cycles(2, settled)
    # Without epochs, sessions that ended silently stay counted.
    first = on.state
    assert settled()
    for _ in range(20):
        assert on.state == first
    on.change(epoch=10 * MS)
    wait_for(lambda: on.state.N + on.state.previous_N == 0)
    assert on.state.share == on.state.plan


def test_rates_recover_after_rename_down_and_carrier_loss(on: Lane) -> None:
    on.attach(rate=RATE, epoch=200 * MS)

    def all_gone() -> bool:
        return on.state.N + on.state.previous_N == 0

    with on.flood(), on.sessions():
        wait_for(on.settled(RATE))
        for mtu in (1400, 9000, 576, 1500):
            on.a.sh(f"ip link set a0 mtu {mtu}")
            on.cycles(2, on.settled(RATE))
        for down, up in (
            ("ip link set a0 down", "ip link set a0 name x0; ip link set x0 up"),
            ("ip link set x0 down", "ip link set x0 name a0; ip link set a0 up"),
        ):
            on.a.sh(down)
            wait_for(all_gone)
            on.a.sh(up)
            wait_for(on.settled(RATE))
            name = "x0" if "x0 up" in up else "a0"
            assert on.family.get(given(ifname=name)).index == on.index
        # The other end goes down.
        on.b.sh("ip link set b0 down")
        wait_for(all_gone)
        on.b.sh("ip link set b0 up")
        on.recovered(RATE)


def test_moving_device_to_another_namespace_removes_link(on: Lane) -> None:
    used = references()
    on.attach(rate=RATE)
    assert references() > used
    with namespace() as c, on.flood(), on.sessions():
        wait_for(on.settled(RATE))
        for here, there in ((on.a, c), (c, on.a)):
            sh(f"ip -n {here.name} link set a0 netns {there.name}")
            with there.entered():
                moved, family = Rtnetlink(), Genetlink()
                on.index = socket.if_nametoindex("a0")
            # The move deletes the qdisc, and with it the link.
            assert family.dump_links() == on.family.dump_links() == []
            assert not any(each.kind == "slbn" for each in moved.qdiscs(on.index))
            assert references() == used
            flags = NLM_F_CREATE | NLM_F_EXCL
            content = KIND + options(rate=RATE)
            moved.change_qdisc(on.index, handle("1:"), TC_H_ROOT, content, flags)
            (link,) = family.dump_links()
            assert (link.name, link.state.N, link.state.joins) == ("a0", 0, 0)
            moved.close()
            family.close()
        on.a.sh("ip addr replace 10.0.0.1/24 dev a0; ip link set a0 up")
        wait_for(on.settled(RATE))
    on.detach()
    assert references() == used


def is_removed(ns: Namespace, name: str) -> bool:
    with ns.entered():
        return name not in [each for _, each in socket.if_nameindex()]


@pytest.mark.parametrize("what", ["device", "namespace"])
def test_removal_of_device_or_namespace_with_queued_packets(peer: str, what: str) -> None:
    used = references()
    with lane(peer) as on:
        on.attach(rate=RATE)
        with on.flood(), on.sessions():
            wait_for(on.settled(RATE))
            # Not before, as it would delay neighbour discovery. It delays data, in the second band.
            sh(
                f"""set -e
                tc -n {on.a.name} qdisc replace dev a0 parent 1:1 handle 2: prio
                tc -n {on.a.name} qdisc add dev a0 parent 2:2 netem delay 2s limit 10000"""
            )
            wait_for(lambda: max(each.qlen for each in on.rtnetlink.qdiscs(on.index)) > 20)
            if what == "device":
                sh(f"ip -n {on.a.name} link del a0")
                assert references() == used
            else:
                # The unnamed namespace exists as long as processes and packets use it.
                sh(f"ip netns del {on.a.name}")
                on.cycles(2, on.settled(RATE))
                on.rtnetlink.close()
                on.family.close()
        # Its end of the veth is removed, and so the other end.
        wait_for(lambda: is_removed(on.b, "b0"))
        wait_for(lambda: references() == used)


def test_module_unloads_while_packets_are_in_flight(on: Lane) -> None:
    sh(f"tc -n {on.b.name} qdisc add dev b0 root netem delay 20ms")
    with on.flood(), on.sessions():
        for edge in (0, 1, 0):
            on.attach(rate=RATE, edge=edge)
            wait_for(on.settled(RATE))
            refused = sh("rmmod sch_slbn", check=False)
            assert refused.returncode and "in use" in refused.stdout
            assert on.settled(RATE)()
            on.detach()
            sh("rmmod sch_slbn")
            sh("modprobe sch_slbn")
            on.family.close()
            with on.a.entered():
                on.family = Genetlink()
    sh(f"tc -n {on.b.name} qdisc del dev b0 root")


def test_repeated_add_and_delete_leave_no_reference(peer: str) -> None:
    used = references()
    with unnamed_namespace():
        batch("ip", "link add a0 type dummy\nlink set a0 up\n")
        rtnetlink, family = Rtnetlink(), Genetlink()
        index = socket.if_nametoindex("a0")
        for cycle in range(50):
            content = KIND + options(rate=RATE, memory=cycle)
            flags = NLM_F_CREATE | NLM_F_EXCL
            rtnetlink.change_qdisc(index, handle("1:"), TC_H_ROOT, content, flags)
            assert references() == used + 1
            (link,) = family.dump_links()
            assert link.state.memory_entries >= cycle
            rtnetlink.change_qdisc(index, handle("1:"), TC_H_ROOT, b"", kind=RTM_DELQDISC)
            assert references() == used
            assert family.dump_links() == []
        rtnetlink.close()
        family.close()
    with namespace() as outside:
        for _ in range(2):
            with namespace() as inside:
                sh(
                    f"""set -e
                    ip link add a0 netns {inside.name} type veth peer b0 netns {outside.name}
                    ip -n {inside.name} link set a0 up
                    tc -n {inside.name} qdisc add dev a0 root slbn rate 1gbit"""
                )
                assert references() == used + 1
            wait_for(lambda: is_removed(outside, "b0"))
            assert references() == used


def test_links_in_several_namespaces_are_independent(on: Lane, peer: str) -> None:
    on.attach(rate=RATE)
    with lane(peer) as other, on.flood(), on.sessions(), other.sessions():
        other.attach(rate=3 * RATE)
        wait_for(on.settled(RATE))
        wait_for(other.settled(3 * RATE))
        other.family.reset(given(ifname="a0"))
        other.change(rate=RATE // 2)
        on.cycles(5, on.settled(RATE))
        wait_for(other.settled(RATE // 2))
        other.detach()
        on.cycles(5, on.settled(RATE))


def test_root_covers_all_queues(peer: str) -> None:
    """Each TX queue has a child of its own; the link is one, whatever queues are in use."""
    with lane(peer, queues=4) as on:

        def children() -> dict[int, str]:
            """The kinds of the children, by TX queue."""
            shown = on.rtnetlink.qdiscs(on.index)
            return {each.parent & 0xFFFF: each.kind for each in shown if each.parent != TC_H_ROOT}

        on.attach(rate=RATE, epoch=0)
        assert children() == dict.fromkeys(range(1, 5), "pfifo_fast")
        with on.flood(), on.sessions():
            wait_for(on.settled(RATE))
            on.a.sh("tc qdisc replace dev a0 parent 1:2 handle 2: fq")
            for queues in (1, 3, 4):
                on.a.sh(f"ethtool -L a0 tx {queues} rx {queues}")
                used = dict.fromkeys(range(1, queues + 1), "pfifo_fast") | {2: "fq"}
                assert children() == used
                on.cycles(2, on.settled(RATE))
            # A deleted child is replaced by the default one.
            on.a.sh("tc qdisc del dev a0 parent 1:2")
            assert children() == dict.fromkeys(range(1, 5), "pfifo_fast")
            on.cycles(2, on.settled(RATE))
        before = on.state
        with on.a.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("a0", 0))
            for session in range(64):
                raw.send(control_frame(session, source=f"10.0.1.{session}"))
        now = on.state
        assert (now.joins, now.N + now.previous_N) == (before.joins + 64, SESSIONS + 64)
        shown = {each.parent: each for each in on.rtnetlink.qdiscs(on.index)}
        root = shown.pop(TC_H_ROOT)
        assert State.read(root.application) == now
        sent = [each.sent_packets for each in shown.values()]
        assert sum(each > 0 for each in sent) >= 3 and root.sent_packets == sum(sent)
        assert now.bypassed == 0
        on.detach()
        assert on.family.dump_links() == []


@pytest.mark.parametrize("root", ["mq", f"slbn rate {RATE} epoch 0"], ids=["mq", "slbn"])
def test_tcp_over_two_queues_loses_nothing(peer: str, root: str) -> None:
    """Neither with mq nor with slbn instead, beside control packets."""
    with lane(peer, queues=2) as on, contextlib.ExitStack() as stack:
        on.a.sh(
            f"""set -e
            tc qdisc add dev a0 root handle 1: {root}
            tc qdisc add dev a0 parent 1:1 fq
            tc qdisc add dev a0 parent 1:2 fq"""
        )
        if root != "mq":
            stack.enter_context(on.sessions())
            wait_for(on.settled(RATE))
        # Their ports choose the queue: all eight the same one in one of 128 runs.
        for number in range(32):
            with connection(Pair(on.a, on.b)) as flow:
                flow.pump(MEGA)
                assert flow.info["total_retrans"] == 0
            queues = [each for each in on.rtnetlink.qdiscs(on.index) if each.kind == "fq"]
            assert [each.drops for each in queues] == [0, 0]
            if number >= 7 and min(each.sent_bytes for each in queues) > MEGA:
                return
        raise AssertionError("one of the queues was not used")


OWNED = re.compile(r"sch_slbn: (slbn 1:|another slbn) owns this device: change or delete it")


@pytest.mark.parametrize("queues", [1, 2])
def test_second_slbn_is_refused(peer: str, queues: int) -> None:
    """The link keeps its key, rate and edge, and the error names the owner."""
    with lane(peer, queues) as on:
        on.attach(rate=RATE, key=bytes(16), edge=1)
        before = on.family.get(given(ifindex=on.index))
        for where, parent in (("2:", TC_H_ROOT), ("2:", handle("1:1")), ("0:", handle("1:1"))):
            for flags in (NLM_F_CREATE | NLM_F_EXCL, NLM_F_CREATE | NLM_F_REPLACE):
                with pytest.raises(NetlinkError) as refused:
                    on.qdisc(options(rate=2 * RATE), flags, where, parent)
                if refused.value.message.startswith("sch_slbn"):
                    assert refused.value.errno == errno.EEXIST
                    assert OWNED.match(refused.value.message)
                else:
                    assert (parent, flags) == (TC_H_ROOT, NLM_F_CREATE | NLM_F_EXCL)
                after = on.family.get(given(ifindex=on.index))
                assert (after.config, after.handle) == (before.config, before.handle)


def test_slbn_below_one_of_several_queues_is_refused(peer: str) -> None:
    with lane(peer, queues=2) as on:
        on.a.sh("tc qdisc add dev a0 root handle 1: mq")
        with pytest.raises(NetlinkError) as refused:
            on.qdisc(options(rate=RATE), NLM_F_CREATE, "2:", handle("1:2"))
        expected = "multi-queue device: use slbn as the root"
        assert expected in refused.value.message
        assert on.family.dump_links() == []


def test_slbn_is_no_default_qdisc(peer: str) -> None:
    default = Path("/proc/sys/net/core/default_qdisc")
    before = default.read_text()
    with lane(peer) as on:
        default.write_text("slbn")
        try:
            with pytest.raises(NetlinkError) as refused:
                on.attach(rate=RATE)
        finally:
            default.write_text(before)
        assert "cannot be the default_qdisc" in refused.value.message
        assert on.family.dump_links() == []
        on.attach(rate=RATE)


TUNSETIFF, TUNSETCARRIER, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x400454E2, 0x2, 0x1000


def test_capacity_follows_speed_of_device() -> None:
    sh("modprobe tun")
    with unnamed_namespace(), open("/dev/net/tun", "r+b", buffering=0) as tap:
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"t0", IFF_TAP | IFF_NO_PI))
        batch("ip", "link set t0 up\n")
        rtnetlink, family = Rtnetlink(), Genetlink()
        index = socket.if_nametoindex("t0")

        def attached(**values: int) -> None:
            content = KIND + options(**values)
            flags = NLM_F_CREATE | NLM_F_REPLACE
            rtnetlink.change_qdisc(index, handle("1:"), TC_H_ROOT, content, flags)

        def capacity() -> int:
            return family.get(given(ifname="t0")).state.capacity

        def wait_for_capacity(speed: int) -> None:
            wait_for(lambda: capacity() == speed * MEGA)

        def replug(speed: int) -> None:
            """Drop the carrier and raise it with another speed."""
            sh(f"ethtool -s t0 speed {speed}")
            for carrier in (0, 1):
                fcntl.ioctl(tap, TUNSETCARRIER, struct.pack("i", carrier))

        sh("ethtool -s t0 speed 100")
        attached()
        assert capacity() == 100 * MEGA
        for speed in (1000, 10, 25000):
            replug(speed)
            wait_for_capacity(speed)
        # So do the share and the size of the memory.
        state = family.get(given(ifname="t0")).state
        assert state.share == state.plan == 25000 * MEGA * (1000 - HEADROOM) // 1000
        attached(rate=RATE)
        assert capacity() == RATE
        assert family.get(given(ifname="t0")).state.memory_entries < state.memory_entries
        replug(2500)
        batch("ip", "link set t0 down\nlink set t0 up\n")
        assert capacity() == RATE
        attached(rate=0)
        assert capacity() == 2500 * MEGA
        # Also when the device has been down.
        batch("ip", "link set t0 down\n")
        sh("ethtool -s t0 speed 40000")
        assert capacity() == 2500 * MEGA
        batch("ip", "link set t0 up\n")
        wait_for_capacity(40000)
        rtnetlink.close()
        family.close()


#: Two ports, 10 Gbit/s each, and a VLAN.
BOND = """link add p0 type bond mode balance-rr miimon 10
link add x0 type veth peer name y0
link add x1 type veth peer name y1
link set y0 up
link set y1 up
link set x0 master p0
link set x1 master p0
link set p0 up
link add link p0 name v0 type vlan id 5
link set v0 up
"""


@pytest.mark.stock
def test_capacity_follows_ports_of_a_bond() -> None:
    """Its speed is the sum of those that are up; it does not notify of a change while one is left.

    User-Mode Linux has no bonding.
    """
    with unnamed_namespace():
        batch("ip", BOND)
        wait_for_carriers("p0", "v0")
        rtnetlink, family = Rtnetlink(), Genetlink()
        for name in ("p0", "v0"):
            index = socket.if_nametoindex(name)
            flags = NLM_F_CREATE | NLM_F_REPLACE
            rtnetlink.change_qdisc(index, handle("1:"), TC_H_ROOT, KIND + options(), flags)

        def capacity(name: str) -> int:
            return family.get(given(ifname=name)).state.capacity

        def wait_for_capacity(ports: int) -> None:
            wait_for(lambda: capacity("p0") == capacity("v0") == ports * 10**10, 10)

        wait_for_capacity(2)
        batch("ip", "link set y1 down\n")
        wait_for_capacity(1)
        batch("ip", "link set y1 up\n")
        wait_for_capacity(2)
        batch("ip", "link set x1 nomaster\n")
        wait_for_capacity(1)
        rtnetlink.close()
        family.close()
