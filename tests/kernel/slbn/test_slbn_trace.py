# SPDX-License-Identifier: GPL-2.0
"""Traces: a link writes its state into packets that ask for it, and slbnctl shows the path."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import launch
from tests.kernel.lib.net import Namespace, read_trace, tracing
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_sessions import FAMILIES, KEY, NEW, Sessions, expect
from tests.kernel.lib.slbn_tap import wire
from tests.kernel.lib.slbn_wire import (
    FILLED,
    JOIN,
    LEAVE,
    ORIGIN,
    ROUTER,
    TRACE,
    TRACE_VALUE,
    Datagram,
    Packet,
    option,
    read_packet,
    read_udp,
)
from tests.kernel.lib.slbnd import Agent, agent, libslbn
from tests.kernel.slbnd.test_slbnd import wait_for_rates
from tests.slbnctl.schema import validate

pytestmark = pytest.mark.virtual

#: State of the link of Sessions, with a third one: capacity, share, N and A.
STATE = (100 * MEGA, 40 * MEGA, 3, 0)


def trace(hop: int, flags: int = 0, ttl: int = 0, backlog: int = 0, *state: int) -> bytes:
    return option(TRACE, TRACE_VALUE.pack(hop, flags, ttl, 0, backlog, *(state or (0, 0, 0, 0))))


@FAMILIES
def test_tracepoint_has_the_verdict(v6: bool) -> None:
    """Of each control packet; the kernel's own tracepoint has the reason of each drop."""
    join = Datagram(Packet(JOIN, id=NEW), v6)
    down = {
        "processed": join,
        "bad_checksum": replace(join, check=0xBAD),
        "other_version": replace(join, payload=Packet(JOIN, id=NEW, version=1)),
        "malformed": replace(join, payload=Packet(JOIN, id=NEW, slots=0)),
    }
    with wire() as made:
        on = Sessions(made, v6)
        answer = on.datagram(on.ack())
        unknown = replace(on.ack(), returns={0: (0, ORIGIN[v6]), 1: (7777, ROUTER[v6])})
        up = {
            "returned": answer.answer(),
            "unknown_link": on.datagram(unknown).answer(),
        }
        with tracing("sch_slbn/slbn_control", "skb/kfree_skb") as trace:
            made.both(*(each.frame() for each in down.values()), Datagram(b"data", v6).frame())
            for each in up.values():
                made.up(each.frame())
            made.change(edge=1)
            made.both(join.frame())
            made.received(join.back().frame())
            records = read_trace(trace, "slbn_control")
            lines = trace.read_text().splitlines()
        # The edge's answer returns to this router, where the link processes it.
        verdicts = [*down, *up, "answered", "returned", "from_hosts"]
        assert [each["verdict"] for each in records] == verdicts
        index = socket.if_nametoindex("a0")
        assert {each["ifindex"] for each in records if each["verdict"] != "unknown_link"} == {
            str(index)
        }
        for record in records:
            if record["verdict"] not in ("processed", "returned", "answered"):
                reasons = [
                    line for line in lines if f"kfree_skb: skbaddr={record['skbaddr']} " in line
                ]
                assert any("NETFILTER_DROP" in line for line in reasons), record


@FAMILIES
@pytest.mark.parametrize("key", [None, KEY], ids=["no key", "key"])
def test_link_reports_its_state_once(v6: bool, key: bytes | None) -> None:
    """At the hop asked, downstream; otherwise the option stays as it is."""
    with wire(key=key or b"") as made:
        on = Sessions(made, v6, key)
        sent = Packet(JOIN, id=NEW, hop=5, key=key, options=trace(5))
        tags = {5: made.tags(NEW, key)[0]}

        def forward(packet: Packet, options: bytes, hop: int, **changes: int) -> None:
            frame = Datagram(packet, v6, ttl=17).frame()
            came = replace(packet, options=options, hop=hop, tags=tags, B=1 << 5, bottleneck=5)
            expect(made, "down", frame, Datagram(came, v6, ttl=17), **changes)

        written = trace(5, FILLED, 17, 0, *STATE)
        new = {"N": 1, "NR": 1, "joins": 1, "new_sessions": 1, "share": -40 * MEGA}
        forward(sent, written, 6, **new)
        # The memory knows the session; other hops, a written state, and other flags.
        for options in (trace(4), trace(6), trace(255), trace(5, FILLED, 3), trace(5, 0xFF)):
            forward(replace(sent, options=options), options, 6, joins=1, corrected=1)
        forward(
            replace(sent, options=trace(5, 0xFE)),
            trace(5, 0xFF, 17, 0, *STATE),
            6,
            joins=1,
            corrected=1,
        )
        # Links on the way back leave it.
        options = trace(5)
        others = {n: (75 + n, ORIGIN[v6]) for n in range(1, 6)}
        ack = replace(sent, hop=6, tags=tags, options=options, returns=others).reply()
        (frame,) = made.up(on.datagram(ack).answer().frame())
        assert read_packet(read_udp(frame)[0]).options.startswith(options)
        assert made.state().acks == 1


@pytest.mark.parametrize("key", [None, KEY], ids=["no key", "key"])
def test_edge_reports_its_state_in_the_reply(key: bytes | None) -> None:
    with wire(edge=1, key=key or b"") as made:
        others = {1: (76, ORIGIN[False])}
        join = Packet(JOIN, id=NEW, hop=1, key=key, options=trace(1), returns=others)
        frame = Datagram(join, ttl=9).frame()
        _, (back,) = made.both(frame)
        reply, valid = read_udp(back)
        assert valid and len(reply) == len(join.pack())
        options = read_packet(reply).options
        assert options.startswith(trace(1, FILLED, 9, 0, 100 * MEGA, 100 * MEGA, 1, 0))
        # A link that dropped the packet would not.
        leave = replace(join, type=LEAVE, seq=1, options=trace(0))
        _, (back,) = made.both(Datagram(leave).frame())
        assert read_packet(read_udp(back)[0]).options.startswith(trace(0))


@pytest.fixture
def net() -> Iterator[Chain]:
    """Links on the first and the third router; the second one has none."""
    with chain(3) as made:
        made.attach(0, "rate 100mbit headroom 0")
        made.attach(2, "rate 80mbit headroom 0 edge")
        yield made


def traced(
    slbnd: Agent,
    where: Namespace,
    *words: str,
    status: int = 0,
    form: tuple[str, ...] = ("--json",),
) -> subprocess.CompletedProcess[str]:
    there = ("ip", "netns", "exec", where.name)
    done = slbnd.slbnctl(*form, "session", "trace", *words, prefix=there, check=False)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


@contextlib.contextmanager
def longer_packets_dropped(node: Namespace, octets: int) -> Iterator[None]:
    """Drop forwarded packets to the agents' port with more than OCTETS of UDP."""
    node.sh("nft add table ip longer")
    node.sh('nft add chain ip longer forward "{ type filter hook forward priority 0; }"')
    node.sh(f"nft add rule ip longer forward udp dport 49470 udp length gt {octets} drop")
    try:
        yield
    finally:
        node.sh("nft delete table ip longer")


def router(net: Chain, node: int, six: bool) -> str:
    return net.addresses(net.nodes[node])[six]


@pytest.mark.parametrize(
    "six",
    [pytest.param(False, id="ipv4", marks=pytest.mark.tier("all")), pytest.param(True, id="ipv6")],
)
def test_trace_shows_each_hop_and_gaps(net: Chain, tmp_path: Path, six: bool) -> None:
    there = "fd00:2::2" if six else "10.0.2.2"
    where = net.nodes[0]
    with agent(where, tmp_path) as slbnd, slbnd.connect() as us:
        number = us.join(there, weight=3)
        other = us.join("10.0.2.2" if six else "fd00:2::2", 20 * MEGA)
        expected = {number: 60 * MEGA, other: 20 * MEGA}
        wait_for_rates(us, expected)
        shown = json.loads(traced(slbnd, where, f"{number:x}").stdout)
        validate("session_trace", shown)
        assert shown["id"] == f"{number:016x}"
        first, second = shown["path"]
        assert first == {
            "hop": 0,
            "router": router(net, 0, six),
            "link": first["link"],
            "device": "e0",
            "answered": True,
            "capacity": 100 * MEGA,
            "share": first["share"],
            "sessions": 4,
            "held": 80 * MEGA,
            "backlog": 0,
            "queue": 0,
            "ttl": 64,
            "gap": 0,
            "bottleneck": False,
        }
        # One more router on the way.
        assert (second["router"], second["ttl"], second["gap"]) == (router(net, 2, six), 62, 1)
        assert (second["capacity"], second["sessions"]) == (80 * MEGA, 4)
        assert second["share"] == pytest.approx(20 * MEGA, abs=64)
        assert (second["bottleneck"], shown["bottleneck"]["hop"]) == (True, 1)
        assert shown["bottleneck"]["router"] == second["router"]
        # By its destination, and as text.
        text = traced(slbnd, where, there, "timeout", "5s", form=()).stdout
        lines = text.splitlines()
        assert lines[1].startswith(f"  hop 0 {router(net, 0, six)} link {first['link']} device e0 ")
        assert lines[2] == "  gap: 1 router without SLBN"
        assert lines[3].endswith(" backlog 0b queue 0ms ttl 62 bottleneck")
        assert us.trace(number)[1] == libslbn.Traced(
            router=second["router"],
            link=second["link"],
            answered=True,
            gap=1,
            ttl=62,
            backlog=0,
            capacity=80 * MEGA,
            share=us.trace(number)[1].share,
            weights=4,
            held=us.trace(number)[1].held,
        )
        wait_for_rates(us, expected)
        # top names it, too.
        sessions = launch.answer(slbnd.slbnctl("--json", "top", "count", "1"))["sessions"]
        (same,) = (each for each in sessions if each["id"] == shown["id"])
        assert same["bottleneck"] == shown["bottleneck"]


def test_trace_with_packets_lost_keeps_rates(net: Chain, tmp_path: Path) -> None:
    """Packets with the option are too long for a router: only they are lost."""
    where = net.nodes[0]
    with agent(where, tmp_path) as slbnd, slbnd.connect() as us:
        number = us.join("10.0.2.2")
        other = us.join("10.0.2.2", 10 * MEGA)
        expected = {number: 70 * MEGA, other: 10 * MEGA}
        wait_for_rates(us, expected)
        # UDP, header, the source's return, slots for the path and two more, and the share.
        length = 8 + 96 + 6 + 4 * 10 + 18
        with longer_packets_dropped(net.nodes[1], length):
            # It starts; another one has to wait.
            assert len(us.trace(number, 0)) == 2
            with pytest.raises(OSError, match="tracing another session") as raised:
                us.trace(other, 0)
            assert raised.value.errno == errno.EBUSY
            text = traced(slbnd, where, f"{number:x}", status=1, form=()).stdout
            first, second = text.splitlines()[1:]
            assert first.startswith(f"  hop 0 {router(net, 0, False)} link ")
            assert first.endswith(" device e0 no answer")
            assert second.startswith(f"  hop 1 {router(net, 2, False)} link ")
            assert second.endswith(" no answer bottleneck")
            assert not any(hop.answered or hop.gap for hop in us.trace(number))
            # After losses, a link without headroom may hold a rounded rate.
            seen = {each.id: each.rate for each in us.list()}
            assert seen == pytest.approx(expected, rel=2**-10)
        assert all(hop.answered for hop in us.trace(number))
        error = "several sessions have this destination: give an ID, see session list"
        assert error in traced(slbnd, where, "10.0.2.2", status=1).stderr


def test_refused_traces(net: Chain, tmp_path: Path) -> None:
    where = net.nodes[0]
    with agent(where, tmp_path) as slbnd, slbnd.connect() as us:
        for word, status, error in (
            ("abc", 1, "no such session"),
            ("10.0.2.2", 1, "no such session"),
            ("xyz", 2, 'session "xyz": must be 1 to 16 hexadecimal digits'),
            ("10.0.2", 2, 'session "10.0.2": must be an IPv4 or IPv6 address'),
        ):
            assert error in traced(slbnd, where, word, status=status).stderr
        for words in ((), ("1", "timeout"), ("1", "wait", "1s"), ("1", "2")):
            assert (
                "trace takes SESSION|DESTINATION" in traced(slbnd, where, *words, status=2).stderr
            )
        for time in ("0s", "601s", "x"):
            assert "1ms to 600s" in traced(slbnd, where, "1", "timeout", time, status=2).stderr
        with pytest.raises(OSError, match="no such session") as raised:
            us.trace(7)
        assert raised.value.errno == errno.ENOENT
        # Without a link on its path, or before the first answer.
        us.join("10.0.9.9")
        done = traced(slbnd, where, "10.0.9.9", "timeout", "100ms", status=1)
        assert "no path yet" in done.stderr
