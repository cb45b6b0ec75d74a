# SPDX-License-Identifier: GPL-2.0
"""Child qdiscs of slbn, and slbn as a child of other qdiscs.

    prio 1: -> tbf 2: -> (a parent under test, 3:) -> slbn 20: -+-> control, in 20:1
                                                                +-> data, in 20:2; 22: if given

    slbn 20: -> 20:1, the only TX queue -> prio 1: -> tbf 2: -> 22:

The tbf is drr_fq.py's valve: while it is closed, nothing leaves, and queue lengths are known to the
packet; when it opens, packets leave in the order that slbn chose. Control packets are Joins of new
sessions, so the link counts each of them.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.kernel.lib.drr_fq import (
    BURST,
    HEADERS,
    NUMBERED,
    PARENTS,
    PORT,
    PRIMER,
    Link,
    Parent,
    batch,
    link,
    numbered_frame,
)
from tests.kernel.lib.genetlink import MEGA, Genetlink, control_frame, given
from tests.kernel.lib.net import pending, sh, unnamed_namespace, wait_for
from tests.kernel.lib.netlink import NLM_F_CREATE, NLM_F_EXCL, NetlinkError, attribute
from tests.kernel.lib.rtnetlink import RTM_NEWTFILTER, TCA_KIND, Shown, handle
from tests.kernel.lib.slbn_wire import PORT as SLBN_PORT
from tests.kernel.lib.slbn_wire import State

#: Commands of tc for data queues that hold all packets of a test.
CHILDREN = {
    "default": "",
    "pfifo": "qdisc add dev a0 parent 20:2 handle 22: pfifo limit 1000",
    "bfifo": "qdisc add dev a0 parent 20:2 handle 22: bfifo limit 1mb",
    "fq_codel": "qdisc add dev a0 parent 20:2 handle 22: fq_codel limit 1000 target 100s",
    "drr_fq": "qdisc add dev a0 parent 20:2 handle 22: drr_fq limit 1000",
    "htb": """qdisc add dev a0 parent 20:2 handle 22: htb default 1
        class add dev a0 parent 22: classid 22:f htb rate 8gbit burst 1mb quantum 60000
        class add dev a0 parent 22:f classid 22:1 htb rate 8gbit burst 1mb quantum 60000
        qdisc add dev a0 parent 22:1 handle 23: pfifo limit 1000""",
    "netem": "qdisc add dev a0 parent 20:2 handle 22: netem limit 1000",
    "netem, late": "qdisc add dev a0 parent 20:2 handle 22: netem limit 1000 delay 1ms",
    "tbf": "qdisc add dev a0 parent 20:2 handle 22: tbf rate 8gbit burst 1mb limit 1mb",
    "prio": "qdisc add dev a0 parent 20:2 handle 22: prio",
}
#: Data queues that are full with about 10 packets of 1000 octets.
FULL = {
    "pfifo": "pfifo limit 10",
    "pfifo_head_drop": "pfifo_head_drop limit 10",
    "bfifo": "bfifo limit 10000",
    "fq_codel": "fq_codel limit 10",
    "drr_fq": "drr_fq limit 10p",
    "netem": "netem limit 10",
    "tbf": "tbf rate 8gbit burst 1mb limit 10000",
    "sfq": "sfq limit 10",
}


@dataclass
class Queues:
    """slbn 20: on a0, with sockets to send, receive and query."""

    on: Link
    family: Genetlink
    sessions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def state(self) -> State:
        return self.family.get(given(ifindex=self.on.index)).state

    def control(self, count: int = 1) -> int:
        """Send Joins; returns how many were enqueued."""
        return sum(self.on.inject(control_frame(next(self.sessions))) for _ in range(count))

    def data(self, count: int = 1, flow: int = 1, length: int = 1000) -> int:
        return self.on.send(flow, length, count, classes=False)

    def received(self) -> list[str]:
        """The packets received: `c` for control, `FLOW.NUMBER` for data."""
        found = []
        for frame in pending(self.on.receiver):
            if frame[23] != socket.IPPROTO_UDP:
                continue
            (port,) = struct.unpack_from("!H", frame, 36)
            if port == SLBN_PORT:
                found.append("c")
            elif port == PORT:
                flow, number = NUMBERED.unpack_from(frame, HEADERS)
                if flow != PRIMER:
                    found.append(f"{flow}.{number}")
        return found

    def drained(self, count: int) -> list[str]:
        """Wait until the queues are empty; returns the COUNT packets received."""
        wait_for(lambda: not any(each.qlen for each in self.on.qdiscs().values()))
        found: list[str] = []

        def complete() -> bool:
            found.extend(self.received())
            return len(found) >= count

        wait_for(complete)
        assert len(found) == count, found
        return found

    def lengths(self) -> tuple[int, int]:
        """Lengths of the control and data queues; checks that their sum is slbn's."""
        shown = self.on.qdiscs()
        classes = {each.handle: each for each in self.on.rtnetlink.classes(self.on.index)}
        control, data = classes[handle("20:1")], classes[handle("20:2")]
        slbn = shown["20:"]
        assert (control.qlen + data.qlen, control.backlog + data.backlog) == (
            slbn.qlen,
            slbn.backlog,
        )
        # A class has the statistics of its queue. Default queues are not listed.
        for queue in shown.values():
            if queue.parent in (control.handle, data.handle):
                shown_class = classes[queue.parent]
                for name in ("qlen", "backlog", "drops", "sent_packets", "sent_bytes"):
                    assert getattr(shown_class, name) == getattr(queue, name)
        return control.qlen, data.qlen

    def check_empty(self) -> None:
        for name, each in self.on.qdiscs().items():
            assert (name, each.qlen, each.backlog) == (name, 0, 0)


@contextlib.contextmanager
def queues(
    commands: str = "", parent: Parent | str = "tbf", closed: bool = True
) -> Iterator[Queues]:
    """slbn behind a valve; COMMANDS of tc add queues to its classes."""
    if isinstance(parent, str):
        parent = PARENTS[parent]
    tc = f"""qdisc add dev a0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    filter add dev a0 parent 1: protocol 0x88b5 matchall action drop
    qdisc add dev a0 parent 1:1 handle 2: tbf rate 8bit burst {BURST} limit 100mb
    {parent.commands}
    qdisc add dev a0 parent {parent.place} handle 20: slbn rate 1tbit epoch 0 control 100%
    {commands}"""
    with link(tc) as made:
        if closed:
            made.close_valve()
        family = Genetlink()
        try:
            yield Queues(made, family)
        finally:
            family.close()


@contextlib.contextmanager
def below_root(child: str) -> Iterator[Queues]:
    """The root slbn, with CHILD behind a closed valve as its child."""
    tc = f"""qdisc add dev a0 root handle 20: slbn rate 1tbit epoch 0 control 100%
    qdisc add dev a0 parent 20:1 handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    filter add dev a0 parent 1: protocol 0x88b5 matchall action drop
    qdisc add dev a0 parent 1:1 handle 2: tbf rate 8bit burst {BURST} limit 100mb
    qdisc add dev a0 parent 2:1 handle 22: {child}"""
    with link(tc) as made:
        made.close_valve()
        family = Genetlink()
        try:
            yield Queues(made, family)
        finally:
            family.close()


#: From Linux 6.7 on, fq keeps up to 8 packets in order of arrival while its flows are empty.
FQ_FAST_PATH = 8


@pytest.mark.parametrize("child", ["prio", "pfifo_fast", "fq"])
def test_children_of_root_send_control_first(child: str) -> None:
    """By its priority, TC_PRIO_CONTROL."""
    with below_root(child) as at:
        for _ in range(10):
            assert (at.data(3), at.control(2)) == (3, 2)
        assert at.state.joins == at.state.N == 20
        at.on.open_valve()
        out = at.drained(50)
        at.check_empty()
        last = len(out) - out[::-1].index("c")
        early = [each for each in out[:last] if each != "c"]
        assert len(early) <= (FQ_FAST_PATH if child == "fq" else 0)
        assert [each for each in out if each != "c"] == [f"1.{n}" for n in range(30)]


#: User-Mode Linux is too slow for a delay of 1 ms.
ORDERED = [
    pytest.param(child, marks=pytest.mark.stock) if child == "netem, late" else child
    for child in CHILDREN
]


@pytest.mark.parametrize("child", ORDERED)
def test_control_is_sent_first_and_data_in_order(child: str) -> None:
    with queues(CHILDREN[child]) as at:
        sent = 0
        for _ in range(10):
            assert at.data(3) == 3
            assert at.control(2) == 2
            sent += 5
            at.lengths()
        control, data = at.lengths()
        # The valve holds one packet: of data, or the primer if netem delayed the data.
        assert control == 20 and data in ((30, 31) if child == "netem, late" else (31,))
        at.on.open_valve()
        out = at.drained(sent)
        at.check_empty()
        assert out[:20] == ["c"] * 20
        assert out[20:] == [f"1.{n}" for n in range(30)]
        assert at.state.joins == at.state.N == 20


@pytest.mark.parametrize("child", FULL)
def test_queue_lengths_are_correct_when_child_drops(child: str) -> None:
    with queues(f"qdisc add dev a0 parent 20:2 handle 22: {FULL[child]}") as at:
        shown = at.on.shown("22:")
        sent = 0
        for _ in range(30):
            for flow in (1, 2, 3):
                at.data(1, flow)
                sent += 1
                at.control()
                at.lengths()
        control, data = at.lengths()
        assert control == 90
        assert 5 <= data <= 11
        shown = at.on.shown("22:")
        assert shown.drops >= 90 - data
        # slbn counts the drops of its child.
        assert at.on.shown("20:").drops >= shown.drops
        at.on.open_valve()
        wait_for(lambda: not any(each.qlen for each in at.on.qdiscs().values()))
        at.check_empty()
        wait_for(lambda: at.on.shown("20:").sent_packets >= 90)
        out: list[str] = []

        def complete() -> bool:
            out.extend(at.received())
            return len(out) >= at.on.shown("1:").sent_packets - 2

        wait_for(complete)
        assert out[:90] == ["c"] * 90
        for flow in (1, 2, 3):
            numbers = [int(each[2:]) for each in out[90:] if each.startswith(f"{flow}.")]
            assert numbers == sorted(set(numbers))
        assert at.state.joins == 90


def test_queue_lengths_are_correct_when_netem_loses_packets() -> None:
    """Only netem counts the losses."""
    with queues("qdisc add dev a0 parent 20:2 handle 22: netem limit 1000 loss 30%") as at:
        taken = at.data(200)
        assert taken == 200
        before = at.on.shown("20:").sent_packets
        control, data = at.lengths()
        assert control == 0 and 80 <= data <= 190
        at.on.open_valve()
        wait_for(lambda: not any(each.qlen for each in at.on.qdiscs().values()))
        at.check_empty()
        sent = at.on.shown("20:").sent_packets
        assert sent - before == data
        assert at.on.shown("22:").sent_packets == sent


@pytest.mark.parametrize("child", ["default", "drr_fq", "netem", "htb"])
def test_replacing_child_with_queued_packets(child: str) -> None:
    """Packets queued in a replaced child are dropped; the other class keeps its packets."""
    with queues(CHILDREN[child]) as at:
        at.data(20)
        at.control(5)
        assert at.lengths() == (5, 21)
        place = at.on.shown("22:").handle if "22:" in at.on.qdiscs() else 0
        batch("tc", "qdisc replace dev a0 parent 20:2 handle 24: pfifo limit 7\n")
        assert at.lengths() == (5, 0)
        at.data(20)
        assert at.lengths() == (5, 7)
        batch("tc", "qdisc del dev a0 parent 20:2 handle 24:\n")
        # The default queue is back.
        assert at.lengths() == (5, 0)
        assert at.data(100) == 100
        batch("tc", "qdisc replace dev a0 parent 20:1 handle 25: bfifo limit 900\n")
        assert at.lengths() == (0, 100)
        assert at.control(10) == 5
        assert at.lengths() == (5, 100)
        assert at.on.shown("20:").drops >= 5
        at.on.open_valve()
        out = at.drained(105)
        assert out[:5] == ["c"] * 5 and out[5:] == [f"1.{n}" for n in range(40, 140)]
        at.check_empty()
        assert place == 0 or place == handle("22:")


def test_control_queue_is_limited() -> None:
    with queues() as at:
        assert at.control(400) == 256
        assert at.lengths() == (256, 1)
        assert at.on.shown("20:").drops == 400 - 256
        # The link has processed all of them; sources retransmit the dropped ones.
        assert at.state.joins == 400
        assert at.data(50) == 50
        at.on.open_valve()
        out = at.drained(306)
        assert out[:256] == ["c"] * 256 and "c" not in out[256:]


def test_control_limit_drops_control_but_no_data() -> None:
    with queues() as at:
        before = at.control()
        batch("tc", "qdisc change dev a0 parent 2:1 handle 20: slbn rate 1mbit control 0.1%\n")
        # A limit of 1 kbit/s: a burst of some packets, then hardly any.
        taken = before + at.control(300)
        state = at.state
        assert taken == state.joins == 301 - state.rate_limited
        assert 100 <= state.rate_limited <= 299
        assert at.on.shown("20:").drops == state.rate_limited
        assert at.lengths() == (min(taken, 256), 1)
        assert at.data(300) == 300
        at.on.open_valve()
        assert at.drained(taken + 300)[:taken] == ["c"] * taken


@pytest.mark.parametrize("parent", PARENTS)
def test_slbn_as_child_qdisc(parent: str) -> None:
    """Queue lengths are correct, no packet is lost, and the link processes packets."""
    with queues(parent=parent) as at:
        sent = 0
        for _ in range(20):
            sent += at.data(2) + at.control()
            at.lengths()
        assert sent == 60
        shown = at.on.qdiscs()
        # Each qdisc counts all packets except those already dequeued from it.
        assert [each.qlen for name, each in sorted(shown.items()) if name in ("1:", "2:")] == [
            61,
            61,
        ]
        assert shown["20:"].qlen >= (0 if PARENTS[parent].waits else 59)
        at.on.open_valve()
        out = at.drained(60)
        at.check_empty()
        assert [each for each in out if each != "c"] == [f"1.{n}" for n in range(40)]
        assert at.state.joins == 20


def test_vlan_and_its_device_are_two_links() -> None:
    """A VLAN device has no queue; each device is a link of its own."""
    with link("qdisc add dev a0 root handle 30: slbn rate 1gbit epoch 0") as on:
        batch(
            "ip",
            """link add link a0 name a0.5 address 02:00:00:00:00:01 type vlan id 5
            link set a0.5 up
            """,
        )
        batch("tc", "qdisc add dev a0.5 root handle 20: slbn rate 10mbit epoch 0 control 100%\n")
        family = Genetlink()
        vlan = socket.if_nametoindex("a0.5")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("a0.5", 0))
            for session in range(20):
                raw.send(control_frame(session))
                raw.send(numbered_frame(1, session, 500))
        for index, capacity in ((vlan, 10 * MEGA), (on.index, 1000 * MEGA)):
            state = family.get(given(ifindex=index)).state
            assert (state.joins, state.N, state.capacity) == (20, 20, capacity)
            (root,) = (each for each in on.rtnetlink.qdiscs(index) if each.kind == "slbn")
            assert (root.sent_packets, root.qlen, root.backlog, root.drops) == (40, 0, 0, 0)
        family.close()


@pytest.mark.parametrize(("default", "nested"), [("fq_codel", "fq_codel"), ("pfifo_fast", "pfifo")])
def test_default_children_are_the_default_qdisc(default: str, nested: str) -> None:
    """At the root, for each TX queue; below another qdisc for data, unless it is pfifo_fast."""
    sysctl = os.open("/proc/sys/net/core/default_qdisc", os.O_RDWR)
    before = os.pread(sysctl, 100, 0)

    def children(root: str, below: str) -> list[str]:
        with unnamed_namespace():
            batch("ip", "link add d0 numtxqueues 2 type dummy\n")
            batch("tc", f"qdisc add dev d0 root handle 1: {root}\n{below}")
            shown = json.loads(sh("tc -j qdisc show dev d0 invisible").stdout)
            return [each["kind"] for each in shown if each.get("parent") in ("1:1", "1:2", "2:2")]

    os.pwrite(sysctl, default.encode(), 0)
    try:
        assert children("slbn rate 5mbit", "") == [default] * 2
        below = "qdisc add dev d0 parent 1:1 handle 2: slbn rate 5mbit"
        root = "tbf rate 5mbit burst 10kb limit 100kb"
        assert children(root, below) == ["slbn", nested]
    finally:
        os.pwrite(sysctl, before, 0)
        os.close(sysctl)


def test_two_fixed_classes() -> None:
    with queues() as at:
        text = sh("tc -s class show dev a0 parent 20:").stdout
        assert [line.split()[:3] for line in text.splitlines() if line.startswith("class")] == [
            ["class", "slbn", "20:1"],
            ["class", "slbn", "20:2"],
        ]
        # Classes cannot be added, changed or deleted.
        for command in ("add dev a0 parent 20: classid 20:3", "change dev a0 classid 20:1"):
            assert sh(f"tc class {command} slbn", check=False).returncode
        assert sh("tc class del dev a0 classid 20:1", check=False).returncode

        netlink = at.on.rtnetlink
        for place in ("20:3", "20:ff", "20:ffff"):
            with pytest.raises(NetlinkError) as caught:
                netlink.change_qdisc(
                    at.on.index,
                    handle("26:"),
                    handle(place),
                    attribute(TCA_KIND, b"pfifo\0"),
                    NLM_F_CREATE | NLM_F_EXCL,
                )
            assert caught.value.errno == errno.ENOENT
        # Filters are not supported: the type of a packet chooses its class.
        with pytest.raises(NetlinkError) as caught:
            netlink.change_filter(at.on.index, handle("20:"), RTM_NEWTFILTER, handle("20:1"))
        assert caught.value.errno == errno.EOPNOTSUPP
        assert caught.value.message
        at.data(3)
        assert at.lengths() == (0, 4)


def test_tc_statistics_match() -> None:
    with queues() as at:
        at.data(5)
        at.control(3)
        shown = json.loads(sh("tc -j -s qdisc show dev a0").stdout)
        slbn = next(each for each in shown if each["kind"] == "slbn")
        raw: Shown = at.on.shown("20:")
        assert (slbn["qlen"], slbn["backlog"]) == (raw.qlen, raw.backlog) == (9, raw.backlog)
        assert (slbn["N"], slbn["joins"]) == (3, 3)
