# SPDX-License-Identifier: GPL-2.0
"""What an adversary, or the rules of an operator, do to a link: each test is one attempt.

docs/security.md names the attempts, and who can make them.  Unless a test says otherwise the domain
has no key, so that nothing else stops them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernel.net import TRACING, tracing, wait_for
from tests.kernel.nfqueue import Queue, queued
from tests.kernel.slbn_sessions import FAMILIES, NEW, Sessions
from tests.kernel.slbn_tap import Wire, send, wire
from tests.kernel.slbn_wire import JOIN, Datagram, Packet

# --- rules that queue packets to user space (an inline IPS)


def up_queued(made: Wire, queue: Queue, *frames: bytes) -> list[bytes]:
    """Wire.up() for frames that a rule queues."""
    expected = queue.accepted + len(frames)
    for frame in frames:
        send(made.senders["b0"], frame)
    wait_for(lambda: queue.accepted == expected)
    return made.up()


@pytest.mark.stock
@FAMILIES
def test_answers_behind_a_rule_that_queues(v6: bool) -> None:
    """They are processed in process context; lockdep checks the link's lock."""
    with wire() as made:
        on = Sessions(made, v6)
        answer = on.datagram(on.ack()).answer().frame()
        before = made.state()
        # In a softirq, so that lockdep knows that the lock is used there.
        assert len(made.up(answer)) == 1
        with queued("input") as queue:
            assert len(up_queued(made, queue, *[answer] * 20)) == 20
        assert before.changes(made.state())["acks"] == 21


@pytest.mark.stock
@pytest.mark.parametrize("hook", ["input", "forward"])
def test_packets_from_hosts_behind_a_rule_that_queues(hook: str) -> None:
    """An edge drops what an ifb returns to the router, also when it comes from user space."""
    ifb = """
        echo 1 >/proc/sys/net/ipv4/ip_forward
        ip link add i0 type ifb
        ip link set i0 up
        tc qdisc add dev a0 clsact
        tc filter add dev a0 ingress matchall action mirred egress redirect dev i0"""
    with wire(ifb, edge=1) as made:
        received = Datagram(Packet(JOIN, id=NEW)).back()
        destination = "10.0.9.1" if hook == "input" else "10.0.8.2"
        frame = replace(received, destination=destination).frame()
        before = made.state()
        # The edge's own hook has the first priority, too, and is registered before.
        with queued(hook, -(2**31) if hook == "forward" else 0) as queue:
            assert up_queued(made, queue, *[frame] * 5) == []
        assert before.changes(made.state()) == {"from_hosts": 5}


@contextlib.contextmanager
def probed(function: str) -> Iterator[Path]:
    """Record the calls of a function of sch_slbn, with the context of each."""
    events = TRACING / "kprobe_events"
    events.write_text(f"p:slbn/called sch_slbn:{function}")
    try:
        with tracing("slbn/called") as trace:
            yield trace
    finally:
        # Opening it to write removes all events.
        events.write_text("")


@pytest.mark.stock
def test_lock_is_taken_with_bottom_halves_disabled() -> None:
    """Behind a rule that queues; a kernel without lockdep would hang one day."""
    with wire() as made:
        on = Sessions(made)
        with probed("slbn_process") as trace, queued("input") as queue:
            assert len(up_queued(made, queue, on.datagram(on.ack()).answer().frame())) == 1
            calls = [line for line in trace.read_text().splitlines() if "called:" in line]
        # TASK-PID [CPU] flags: b or B means disabled, s a softirq.
        flags = [re.search(r"\[\d+\] (\S+)", line)[1] for line in calls]  # type: ignore[index]
        assert flags
        assert all(each[0] in "bB" or each[2] in "sSbB" for each in flags), flags
