# SPDX-License-Identifier: GPL-2.0
"""What an adversary, or the rules of an operator, do to a link: each test is one attempt.

docs/security.md names the attempts, and who can make them.  Unless a test says otherwise the domain
has no key, so that nothing else stops them.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.costs import first_arguments, graph
from tests.kernel.lib.genetlink import Genetlink
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import (
    namespace,
    received,
    sh,
    tracing,
    unnamed_namespace,
    wait_for,
    wait_for_carriers,
)
from tests.kernel.lib.netlink import NLM_F_CREATE, NLM_F_EXCL, NetlinkError, attribute
from tests.kernel.lib.nfqueue import Queue, queued
from tests.kernel.lib.rtnetlink import (
    ETH_P_ALL,
    RTM_NEWTFILTER,
    TC_H_ROOT,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
    Rtnetlink,
    handle,
)
from tests.kernel.lib.slbn import chain
from tests.kernel.lib.slbn_sessions import FAMILIES, KEY, NEW, OTHER_KEY, Sessions
from tests.kernel.lib.slbn_tap import Tap, Wire, probed, send, state_in, wire
from tests.kernel.lib.slbn_wire import (
    ETH_P_IP,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    ORIGIN,
    PORT,
    PROBE_ACK,
    ROUTER,
    TRACE,
    TRACE_VALUE,
    Datagram,
    Packet,
    now,
    option,
    read_packet,
    read_udp,
)

# --- rules that queue packets to user space (an inline IPS)


def up_queued(made: Wire, queue: Queue, *frames: bytes) -> list[bytes]:
    """Wire.up() for frames that a rule queues."""
    expected = queue.accepted + len(frames)
    for frame in frames:
        send(made.senders["b0"], frame)
    wait_for(lambda: queue.accepted == expected)
    return made.up()


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


# --- acknowledgments as source routes: the sender chooses the return addresses


def leave_ack(**fields: Any) -> Packet:
    return Packet(**{"type": LEAVE_ACK, "id": NEW, "seq": 7, "hop": 1, **fields})


def left(made: Wire, v6: bool, hop: int = 0) -> None:
    """A session that the link does not know leaves: its LeaveAck may return."""
    leave = Packet(LEAVE, id=NEW, seq=7, hop=hop, slots=64)
    assert len(made.down(Datagram(leave, v6).frame())) == 1


def up(made: Wire, packet: Packet, v6: bool, **how: Any) -> tuple[dict[str, int], int]:
    """Send an answer; returns what changed, and how many the router sent on."""
    before = made.state()
    answer = replace(Datagram(packet, v6).answer(), **how)
    frames = made.up(answer.frame())
    return before.changes(made.state()), len(frames)


@FAMILIES
def test_two_routers_do_not_play_ping_pong(v6: bool) -> None:
    """Returns that alternate between this router and another one."""
    pair = ((1, ROUTER[v6]), (1, ORIGIN[v6]))
    with wire() as made:
        left(made, v6, hop=63)
        returns = {n: pair[n % 2] for n in range(1, 65)}
        packet = leave_ack(hop=64, slots=64, returns=returns)
        assert up(made, packet, v6) == ({"bad_return": 1}, 0)
        # Once, whichever slot has the link again.
        unique = {n: (9, ORIGIN[v6]) for n in range(1, 64)} | {64: pair[0]}
        for other in (1, 32, 63):
            packet = leave_ack(hop=64, slots=64, returns=unique | {other: pair[0]})
            assert up(made, packet, v6) == ({"bad_return": 1}, 0)
        packet = leave_ack(hop=64, slots=64, returns=unique)
        assert up(made, packet, v6) == ({"leave_acks": 1}, 1)


@FAMILIES
def test_answers_do_not_circle_within_the_router(v6: bool) -> None:
    """An answer whose returns are all this router."""
    with wire() as made:
        left(made, v6, hop=63)
        tags = dict.fromkeys(range(64), made.state().tag)
        for kind in (PROBE_ACK, LEAVE_ACK):
            circle = leave_ack(type=kind, hop=64, slots=64, tags=tags)
            assert up(made, circle, v6) == ({"bad_return": 1}, 0)


@FAMILIES
def test_leave_ack_needs_a_leave(v6: bool) -> None:
    with wire() as made:
        assert up(made, leave_ack(), v6) == ({"wrong_path": 1}, 0)
        left(made, v6)
        # Of another session, and of another packet of this one.
        assert up(made, leave_ack(id=bytes([9]) * 16), v6) == ({"wrong_path": 1}, 0)
        assert up(made, leave_ack(seq=8), v6) == ({"wrong_path": 1}, 0)
        assert up(made, leave_ack(seq=6), v6) == ({"stale": 1}, 0)
        assert up(made, leave_ack(), v6) == ({"leave_acks": 1}, 1)
        # A packet of a session that has not left is no Leave.
        (joined,) = made.down(Datagram(Packet(JOIN, id=bytes([8]) * 16, seq=7), v6).frame())
        member = replace(read_packet(read_udp(joined)[0]), type=LEAVE_ACK)
        assert up(made, member, v6) == ({"wrong_path": 1}, 0)


@FAMILIES
def test_answers_come_from_the_next_router(v6: bool) -> None:
    """Only the destination may send from any address: no link has written one behind the last."""
    stranger, other = ("fd00::2", "fd00::7") if v6 else ("10.0.0.2", "10.0.0.7")
    with wire() as made:
        left(made, v6)
        for kind, changes in ((PROBE_ACK, {}), (LEAVE_ACK, {"leave_acks": 1})):
            made.down(Datagram(Packet(JOIN, id=bytes([4]) * 16), v6).frame())
            packet = leave_ack(type=kind)
            if kind == PROBE_ACK:
                packet = replace(packet, id=bytes([4]) * 16, seq=0)
            routers = packet.returns | {2: (3, other)}
            answer = replace(packet, returns=routers)
            assert up(made, answer, v6) == ({"bad_return": 1}, 0)
            changed, frames = up(made, answer, v6, source=other)
            assert frames == 1 and changes.items() <= changed.items()
            changed, frames = up(made, packet, v6, source=stranger)
            assert frames == 1 and changes.items() <= changed.items()


@FAMILIES
def test_answers_are_sent_to_unicast_addresses(v6: bool) -> None:
    """All routers of a segment would answer one packet, from a multicast address."""
    addresses = {
        "multicast": "ff02::1" if v6 else "224.0.0.1",
        "broadcast": "" if v6 else "10.0.8.255",
        "anycast": "fd00:8::" if v6 else "",
    }
    with wire("echo 1 >/proc/sys/net/ipv6/conf/s0/forwarding") as made:
        # Where it answers has a route, also from these addresses.
        sh("ip addr add fd00:8::1/64 dev s0 nodad; ip addr add 10.0.8.1/24 dev s0")
        sh("echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts")
        left(made, v6)
        for name, address in addresses.items():
            if address:
                packet = leave_ack(returns={1: (1, address)})
                change = up(made, packet, v6, destination=address, source=ORIGIN[v6])
                assert change == ({"bad_return": 1}, 0), name
        # To the router's own address in a broadcast frame.
        change = up(made, leave_ack(), v6, to_mac=b"\xff" * 6)
        assert change == ({"bad_return": 1}, 0)
        assert up(made, leave_ack(), v6) == ({"leave_acks": 1}, 1)


@FAMILIES
def test_no_route_is_looked_up_for_strangers(v6: bool) -> None:
    """A look-up may start IKE, and costs more than the check of a packet."""
    nowhere = "2001:db8::7" if v6 else "198.51.100.7"
    packet = leave_ack(returns={0: (0, nowhere)}, key=KEY)
    strange: dict[str, tuple[Packet, dict[str, Any]]] = {
        "bad_key": (replace(packet, key=OTHER_KEY), {}),
        "unknown_key": (replace(packet, key_id=7), {}),
        "bad_time": (replace(packet, time=now() - 3600), {}),
        "bad_checksum": (packet, {"check": 0xBAD}),
        # Addressed to another of this router's addresses.
        "bad_return": (packet, {"destination": "fd00:9::7" if v6 else "10.0.9.7"}),
    }
    event = "fib6/fib6_table_lookup" if v6 else "fib/fib_table_lookup"
    more = "ip addr add 10.0.9.7/32 dev lo; ip addr add fd00:9::7/128 dev lo nodad"
    with wire(more, key=KEY) as made, tracing(event) as trace:
        for counter, (each, how) in strange.items():
            assert up(made, each, v6, **how) == ({counter: 1}, 0)
        assert nowhere not in trace.read_text()
        assert up(made, packet, v6) == ({"bad_return": 1}, 0)
        assert nowhere in trace.read_text()


@FAMILIES
def test_answers_of_an_outsider_are_not_amplified(v6: bool) -> None:
    """Node 0 is outside of the domain of nodes 1 and 2, and nothing keeps it away."""
    with chain(2) as net:
        outsider, near, far = net.nodes
        net.attach(1, "rate 100mbit headroom 0")
        far.sh("tc qdisc add dev w1 root handle 1: slbn rate 100mbit headroom 0")
        own, a, b = (
            ("fd00:0::1", "fd00:1::1", "fd00:1::2") if v6 else ("10.0.0.1", "10.0.1.1", "10.0.1.2")
        )
        # As many as fit into a packet of 1500 octets.
        returns = {n: (1, (b, a)[n % 2]) for n in range(1, 60)} | {0: (0, own)}
        packet = Packet(LEAVE_ACK, id=NEW, hop=59, slots=59, returns=returns)
        before = received(near, "e1")[1] + received(far, "w1")[1]
        with outsider.entered():
            family = socket.AF_INET6 if v6 else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                sender.bind((own, PORT))
                for _ in range(20):
                    sender.sendto(packet.pack(bytes(32 if v6 else 8)), (a, PORT))
        wait_for(lambda: state_in(near, "e1").bad_return == 20)
        # Neighbour discovery may send some.
        assert received(near, "e1")[1] + received(far, "w1")[1] - before < 20


# --- programs on a router: the port is not a privileged one

#: Sends argv[2] to the address argv[1]; status 1 if that is not permitted.
SENDER = """
import socket, sys
six = ":" in sys.argv[1]
with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind(("::" if six else "0.0.0.0", 49470))
    try:
        sender.sendto(bytes.fromhex(sys.argv[2]), (sys.argv[1], 49470))
    except PermissionError:
        sys.exit(1)
"""
#: Sends argv[2], cut into packets of argv[3] octets (UDP_SEGMENT), likewise.
MERGED_SENDER = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind(("0.0.0.0", 49470))
    sender.setsockopt(socket.IPPROTO_UDP, 103, int(sys.argv[3]))
    try:
        sender.sendto(bytes.fromhex(sys.argv[2]), (sys.argv[1], 49470))
    except PermissionError:
        sys.exit(1)
"""
PACKET_SENDER = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
    sender.bind((sys.argv[1], 0))
    try:
        sender.send(bytes.fromhex(sys.argv[2]))
    except OSError:
        sys.exit(1)
"""
NOBODY = 65534


def sends(user: int, address: str, packet: Packet) -> bool:
    """Whether a program of the user may send a packet."""
    content = packet.pack(bytes(32 if ":" in address else 8)).hex()
    command = [sys.executable, "-c", SENDER, address, content]
    return subprocess.run(command, user=user, check=False).returncode == 0


ROUTED = """
    ip addr add 10.0.0.1/24 dev a0
    ip addr add fd00::1/64 dev a0 nodad
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a0
    ip neigh add fd00::2 lladdr 02:00:00:00:00:02 dev a0"""


@FAMILIES
def test_users_do_not_send_control_packets(v6: bool) -> None:
    """By a link, by another device, and to the router itself, where a link would process them."""
    with wire(ROUTED) as made:
        addresses = ("fd00::2" if v6 else "10.0.0.2", ORIGIN[v6], ROUTER[v6])
        before = made.state()
        join = Packet(JOIN, id=NEW, weight=10**6)
        for number, address in enumerate(addresses, 1):
            assert not sends(NOBODY, address, join)
            assert before.changes(made.state()) == {"from_users": number}
        forged = Packet(PROBE_ACK, id=NEW, hop=1, weight=10**6, tags={0: before.tag})
        assert not sends(NOBODY, ROUTER[v6], forged)
        # Their data passes, and packets of root are processed.
        assert sends(NOBODY, addresses[0], replace(join, magic=1))
        assert before.changes(made.state()) == {"from_users": 4}
        assert sends(0, addresses[0], join)
        assert before.changes(made.state())["joins"] == 1


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "last and shorter"])
def test_users_do_not_merge_control_packets_with_data(last: bool) -> None:
    """The first of several packets that a socket sends at once is data."""
    control = Packet(JOIN, id=NEW).pack()
    size = len(control) + last
    content = bytes(size) + control + (b"" if last else bytes(size))
    command = [sys.executable, "-c", MERGED_SENDER, "10.0.0.2", content.hex(), str(size)]
    with wire(ROUTED) as made:
        before = made.state()
        assert subprocess.run(command, user=NOBODY, check=False).returncode == 1
        assert made.down() == []
        assert before.changes(made.state()) == {"from_users": 1}


def test_packet_sockets_need_the_same_privilege() -> None:
    """CAP_NET_RAW alone is not enough: they bypass the hook for what IP sends."""
    with wire() as made:
        before = made.state()
        frame = Datagram(Packet(JOIN, id=NEW)).frame().hex()
        command = [sys.executable, "-c", PACKET_SENDER, "a0", frame]
        limited = ["setpriv", "--bounding-set=-net_admin", *command]
        assert subprocess.run(limited, check=False).returncode == 1
        assert before.changes(made.state()) == {"from_users": 1}
        assert subprocess.run(command, check=False).returncode == 0
        assert before.changes(made.state())["joins"] == 1


def test_privilege_is_that_of_who_opened_the_socket() -> None:
    """An agent may give up its capabilities later."""
    with wire(ROUTED) as made:
        before = made.state()
        payload = Packet(JOIN, id=NEW).pack()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("0.0.0.0", PORT))
            fd = sender.fileno()
            code = f"""import socket
socket.socket(fileno={fd}).sendto(bytes.fromhex("{payload.hex()}"), ("10.0.0.2", {PORT}))"""
            command = [sys.executable, "-c", code]
            subprocess.run(command, user=NOBODY, pass_fds=[fd], check=True)
        changed = before.changes(made.state())
        assert (changed["joins"], changed.get("from_users", 0)) == (1, 0)


# --- addresses of this router, which are not chosen for each packet


def recorded(made: Wire, v6: bool) -> str:
    """The address that the link records for the answer to a packet."""
    (frame,) = made.down(Datagram(Packet(JOIN, id=NEW), v6).frame())
    return read_packet(read_udp(frame)[0]).returns[1][1]


def test_addresses_are_used_when_dad_is_done() -> None:
    """The kernel notifies of a new address before that, and not then."""
    with wire() as made:
        assert recorded(made, True) == ROUTER[1]
        sh("echo 1 >/proc/sys/net/ipv6/conf/a0/accept_dad; ip addr add fd00:6::1/64 dev a0")
        assert recorded(made, True) == ROUTER[1]
        wait_for(lambda: recorded(made, True) == "fd00:6::1", 10)


@FAMILIES
def test_address_of_another_device_is_replaced(v6: bool) -> None:
    """The link's device has none; that of the loopback device moves to another one."""
    with wire() as made:
        assert recorded(made, v6) == ROUTER[v6]
        other = "fd00:7::1" if v6 else "10.0.7.1"
        sh(f"ip addr add {other} dev s0 {'nodad' if v6 else ''}; ip addr flush dev lo scope global")
        wait_for(lambda: recorded(made, v6) == other, 10)


# --- memory of the kernel


def test_flows_are_limited_in_user_namespaces() -> None:
    """Any user can make one; fq_codel has at most 65536 flows for anyone."""

    def add(flows: int, user: int | None) -> subprocess.CompletedProcess[str]:
        script = "ip link add d0 type dummy && tc qdisc add dev d0 root handle 1: drr_fq flows "
        script += f"{flows} && tc qdisc change dev d0 root drr_fq flows {flows + 1}"
        command = ["unshare", "-n" if user is None else "-rn", "sh", "-c", script]
        return subprocess.run(command, user=user, check=False, text=True, stderr=subprocess.PIPE)

    assert add(65535, NOBODY).returncode == 0
    for flows in (65536, 65537, 1048575):
        done = add(flows, NOBODY)
        assert done.returncode
        assert "need CAP_NET_ADMIN in the initial user namespace" in done.stderr
        assert add(flows, None).returncode == 0


# --- requests that hold a qdisc while it is deleted


@contextlib.contextmanager
def held_qdisc(directory: Path, device: str, parent: str) -> Iterator[None]:
    """A request for a filter holds the qdisc, without RTNL, while modprobe looks for its kind."""
    fifo, script = directory / "fifo", directory / "modprobe"
    os.mkfifo(fifo)
    script.write_text(f"#!/bin/sh\necho >{fifo}\nread line <{fifo}\n")
    script.chmod(0o755)
    path = Path("/proc/sys/kernel/modprobe")
    before = path.read_text()
    netlink = Rtnetlink()
    info = 1 << 16 | socket.htons(ETH_P_ALL)
    body = TCMSG.pack(0, 0, 0, socket.if_nametoindex(device), 0, handle(parent), info)
    body += attribute(TCA_KIND, b"nosuch\0") + attribute(TCA_OPTIONS, b"")
    refused: list[NetlinkError] = []

    def add() -> None:
        try:
            netlink.request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body)
        except NetlinkError as error:
            refused.append(error)

    request = threading.Thread(target=add)
    path.write_text(str(script))
    try:
        request.start()
        fifo.read_text()
        yield
    finally:
        path.write_text(before)
        fifo.write_text("\n")
        request.join()
        netlink.close()
    assert refused


def test_qdisc_that_outlives_its_place_leaves_no_link(tmp_path: Path) -> None:
    """Its device has moved to another namespace, where it is another link and edge."""
    shaped = """
        tc qdisc add dev a0 root handle 1: prio
        tc qdisc add dev a0 parent 1:1 handle 2: slbn rate 100mbit edge"""
    with (
        wire(shaped, on="") as made,
        namespace() as there,
        contextlib.ExitStack() as late,
    ):
        late.enter_context(held_qdisc(tmp_path, "a0", "1:"))
        family = late.enter_context(contextlib.closing(Genetlink()))
        assert [link.name for link in family.dump_links()] == ["a0"]
        sh(f"ip link set a0 netns {there.name}")
        assert family.dump_links() == []
        with there.entered(), contextlib.closing(Genetlink()) as others:
            sh("ip link set a0 up")
            wait_for_carriers("a0")
            tap, frame = (
                Tap("a0", ETH_P_IP),
                Datagram(Packet(JOIN, id=NEW)).back().frame(),
            )
            # No hook of the former edge is left.
            send(made.senders["b0"], frame)
            wait_for(lambda: tap.frames() == [frame])
            sh("tc qdisc add dev a0 root handle 3: slbn rate 50mbit edge")
            (link,) = others.dump_links()
            late.close()
            (still,) = others.dump_links()
            # Its state may differ: quiet time passes.
            assert (still.number, still.handle) == (link.number, link.handle)
            send(made.senders["b0"], frame)
            wait_for(lambda: others.dump_links()[0].state.from_hosts == 1)
            assert tap.frames() == []
            tap.socket.close()


# --- what packets and events cost, in instructions: the clock counts them

#: Of x0, which has no peer: a network device with queues, and one address of each family elsewhere.
DUMMY = """
    ip link add x0 numtxqueues {queues} type dummy
    ip link set x0 up"""


def typical(call: Callable[[], object], take: Callable[[], list[float]], calls: int = 1) -> float:
    """The median of ten runs, of 20 calls each, of how long a traced function takes [us]."""
    medians = []
    for _ in range(10):
        for _ in range(20):
            call()
        found = take()
        assert len(found) == 20 * calls
        medians.append(statistics.median(found))
    return statistics.median(medians)


def add_devices(count: int) -> None:
    """The last one has the router's address of IPv4, each an address of IPv6."""
    for n in range(count):
        run_ip(
            [
                f"link add d{n} type dummy",
                f"addr add fd01::{n:x}/128 dev d{n} nodad",
                f"link set d{n} up",
            ]
        )
    run_ip([f"addr add {ROUTER[0]}/32 dev d{count - 1}"])


@pytest.mark.stock
@pytest.mark.newer
@pytest.mark.parametrize("more", [100, pytest.param(1998, marks=pytest.mark.tier("all"))])
def test_cost_of_a_packet_does_not_depend_on_devices(more: int) -> None:
    """The address for the answer is not looked for."""
    with wire(DUMMY.format(queues=1), on="x0", above="x0") as made:
        sh(f"ip addr del {ROUTER[0]}/32 dev lo")
        add_devices(1)
        time.sleep(1)
        joins = [Datagram(Packet(JOIN, id=NEW), v6).frame() for v6 in (False, True)]
        with graph("slbn_egress_hook") as take:
            before = [typical(partial(send, made.senders["a0"], each), take) for each in joins]
        sh("ip link del d0")
        add_devices(more + 1)
        # Until the work that chooses addresses has run.
        time.sleep(1)
        with graph("slbn_egress_hook") as take:
            after = [typical(partial(send, made.senders["a0"], each), take) for each in joins]
        assert made.state("x0").joins == 800
        ratios = [new / old for new, old in zip(after, before, strict=True)]
        print(before, after, ratios)
        assert max(ratios) < 1.1


@pytest.mark.stock
@pytest.mark.newer
def test_cost_of_a_trace_is_bounded_by_queues() -> None:
    """It reads the backlog of each TX queue: of one CPU, no more than 100 instructions each."""
    costs = {}
    for queues in (1, 256):
        with wire(DUMMY.format(queues=queues), on="x0", above="x0") as made:
            wanted = option(TRACE, TRACE_VALUE.pack(*[0] * 9))
            join = Datagram(Packet(JOIN, id=NEW, options=wanted)).frame()
            with graph("slbn_trace") as take:
                costs[queues] = typical(partial(send, made.senders["a0"], join), take)
    each = (costs[256] - costs[1]) / 255
    print(costs, each)
    assert each < 0.2


@pytest.mark.stock
@pytest.mark.newer
def test_event_of_a_device_concerns_its_link_only() -> None:
    """Its cost does not depend on the number of links, and no other link's speed is read."""
    costs = {}
    for links in (2, 40):
        with unnamed_namespace(), contextlib.closing(Rtnetlink()) as netlink:
            for n in range(links):
                run_ip([f"link add x{n} type veth peer y{n}", f"link set x{n} up"])
                # Without a rate: it follows the speed of the device.
                netlink.change_qdisc(
                    socket.if_nametoindex(f"x{n}"),
                    handle("1:"),
                    TC_H_ROOT,
                    attribute(TCA_KIND, b"slbn\0"),
                    NLM_F_CREATE | NLM_F_EXCL,
                )
            flap = f"link set x{links - 1} down", f"link set x{links - 1} up"
            # The kernel reports the states of new devices, and devices of namespaces that have
            # ended, in works of its own, when it likes: these events are not counted.
            with graph("slbn_device_event", by_us=True) as take:
                run_ip(flap)
                events = len(take())
                assert events
                costs[links] = typical(partial(run_ip, flap), take, events)
            # States are reported once a second, of 100 devices: no other link has an event then.
            time.sleep(2)
            with first_arguments("__ethtool_get_link_ksettings") as devices:
                run_ip(flap)
                time.sleep(1)
                assert len(set(devices())) == 1
    print(costs)
    assert costs[40] < 1.1 * costs[2]
