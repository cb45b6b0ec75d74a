# SPDX-License-Identifier: GPL-2.0
"""Rate limits by htb: classification, and the configuration that is left on a device.

    node 0 ---- node 1 ---- node 2
                     e1: htb at the root

test_enforce.py tests the rates.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import signal
import socket
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
    htb_at_root,
    htb_below_slbn,
    without_counters,
)
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.senders import Traffic, close_to, sender
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import agent

pytestmark = pytest.mark.virtual

TCP, UDP, UDPLITE = 6, 17, 136

#: A datagram's headers, on the wire.
HEADERS4, HEADERS6 = 14 + 20 + 8, 14 + 40 + 8

NEAR4, FAR4 = "10.0.1.1", "10.0.1.2"
NEAR6, FAR6 = "fd00:1::1", "fd00:1::2"


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(2) as made:
        yield made


def configuration(node: Namespace, device: str = "e1", handle: str = "7:") -> str:
    """Qdiscs, classes and filters of a device."""
    filters = f"filter show dev {device} parent {handle}"
    shown = node.tc(f"qdisc show dev {device}", f"class show dev {device}", filters)
    return without_counters(shown)


@contextlib.contextmanager
def ends(net: Chain, near: str, far: str, sport: int, dport: int) -> Iterator[list[socket.socket]]:
    """Sockets at nodes 1 and 2."""
    family = socket.AF_INET6 if ":" in near else socket.AF_INET
    made = []
    for node, address in ((1, (near, sport)), (2, (far, dport))):
        with net.nodes[node].entered():
            made.append(socket.socket(family, socket.SOCK_DGRAM))
        made[-1].bind(address)
        made[-1].settimeout(20)
    made[0].connect((far, dport))
    try:
        yield made
    finally:
        for end in made:
            end.close()


def packets(made: Enforcer, flow: Flow) -> int:
    return made.read(flow).packets


@pytest.mark.parametrize(
    ("near", "far", "headers"),
    [
        pytest.param(NEAR4, FAR4, HEADERS4, marks=pytest.mark.tier("all")),
        (NEAR6, FAR6, HEADERS6),
    ],
)
def test_most_specific_session_matches(
    net: Chain, enforce_try: str, near: str, far: str, headers: int
) -> None:
    htb_at_root(net)
    sessions = by_specificity(Flow(far, near, UDP, 1000, 80))
    with enforcer(net.nodes[1], enforce_try) as made, ends(net, near, far, 1000, 80) as (a, b):
        made.open("e1")
        before = configuration(net.nodes[1])
        for session in random.Random(1).sample(sessions, len(sessions)):
            made.set(session, 10**12)
        for number, session in enumerate(sessions):
            a.send(bytes(100))
            assert b.recv(200) == bytes(100)
            wait_for(lambda s=session: packets(made, s) > 0)  # type: ignore[misc]
            counts = [packets(made, other) for other in sessions[number:]]
            assert counts == [1] + [0] * (len(sessions) - number - 1), session
            assert made.read(session).bytes == 100 + headers
            made.remove(session)
        assert made.ask(f"read {sessions[0]}") == ["unknown"]

        def is_restored() -> bool:
            # Any command expires classes.
            made.ask(f"read {sessions[0]}")
            return configuration(net.nodes[1]) == before

        # Classes of removed flows are deleted later; to wait costs nothing, to look does.
        time.sleep(3)
        wait_for(is_restored)


def test_ports_without_protocol(net: Chain, enforce_try: str) -> None:
    """They match TCP, UDP and SCTP; flower matches no ports of other protocols."""
    htb_at_root(net)
    session = Flow(FAR4, dport=80)
    with net.nodes[2].entered():
        server = socket.create_server((FAR4, 80))
    with (
        enforcer(net.nodes[1], enforce_try) as made,
        server,
        ends(net, NEAR4, FAR4, 0, 80) as (a, b),
    ):
        made.open("e1")
        made.set(session, 10**12)
        a.send(b"x")
        assert b.recv(9) == b"x"
        wait_for(lambda: packets(made, session) == 1)
        with net.nodes[1].entered():
            client = socket.socket()
        with client:
            client.connect((FAR4, 80))
            # SYN and ACK.
            wait_for(lambda: packets(made, session) == 3)
        assert made.ask(f"set {Flow(FAR4, protocol=UDPLITE, dport=80)} 1000") == ["-93"]
        made.set(Flow(FAR4, protocol=UDPLITE), 1000)


def test_other_packets_are_not_classified(net: Chain, enforce_try: str) -> None:
    """Control packets, packets of remote hosts, and those that match another program's filter."""
    node = net.nodes[1]
    node.sh(
        """set -e
        tc qdisc add dev e1 root handle 7: htb default 20
        tc class add dev e1 parent 7: classid 7:10 htb rate 50mbit
        tc class add dev e1 parent 7: classid 7:20 htb rate 50mbit
        tc filter add dev e1 parent 7: pref 5 protocol ip u32 \\
            match ip dport 99 0xffff flowid 7:10"""
    )
    before = configuration(node)

    def sent(number: int) -> int:
        words = node.sh(f"tc -s class show dev e1 classid 7:{number}").stdout.split()
        return int(words[words.index("Sent") + 3])

    with enforcer(node, enforce_try) as made:
        made.set_hosts("10.0.1.0/24")
        made.open("e1")
        session = Flow(FAR4)
        made.set(session, 8)
        with ends(net, NEAR4, FAR4, 49470, 49470) as (a, b):
            a.send(b"x")
            assert b.recv(9) == b"x"
        for sport, dport, number in ((50000, 99, 10),):
            with ends(net, NEAR4, FAR4, sport, dport) as (a, b):
                was = sent(number)
                for _ in range(3):
                    a.send(b"x")
                    assert b.recv(9) == b"x"
                assert sent(number) >= was + 3
        with ends(net, NEAR6, FAR6, 50000, 80) as (a, b):
            was = sent(20)
            a.send(b"x")
            assert b.recv(9) == b"x"
            assert sent(20) > was
        assert packets(made, session) == 0
        for sport, dport in ((49470, 49471), (49471, 49470)):
            with ends(net, NEAR4, FAR4, sport, dport) as (a, _):
                a.send(b"x")
        # The first passes by its burst, the second waits.
        wait_for(lambda: packets(made, session) == 1)
        time.sleep(0.2)
        assert packets(made, session) == 1
        made.close()
    assert configuration(node) == before


def test_packets_without_session_use_default_class(net: Chain, enforce_try: str) -> None:
    """Also those of sessions without a rate, and after the local hosts have changed."""
    htb_at_root(net)
    session = Flow(FAR4, NEAR4, UDP, 1000, 80)
    with enforcer(net.nodes[1], enforce_try) as made, ends(net, NEAR4, FAR4, 1000, 80) as (a, b):

        def arrive() -> int:
            for _ in range(20):
                a.send(bytes(1000))
            time.sleep(0.4)
            count = 0
            b.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while b.recv(2000):
                    count += 1
            return count

        made.open("e1")
        assert arrive() == 20
        made.set_unassigned(100_000)
        # 80 ms each, and the burst.
        assert arrive() < 8
        made.set(session, 100 * MEGA)
        # The class of the session is not delayed by the backlog of the default class.
        assert arrive() >= 20
        made.set(session, 0)
        time.sleep(2)
        arrive()
        assert arrive() < 8
        made.remove(session)
        made.set_hosts("192.0.2.0/24")
        time.sleep(2)
        arrive()
        assert arrive() == 20


def test_vlan_tags(net: Chain, enforce_try: str) -> None:
    htb_at_root(net)
    for node, device, last in ((1, "e1", 1), (2, "w1", 2)):
        net.nodes[node].sh(
            f"ip link add link {device} name tag type vlan id 5;"
            f" ip addr add 10.5.0.{last}/24 dev tag; ip link set tag up"
        )
    session = Flow("10.5.0.2", "10.5.0.1", UDP, 1000, 80)
    with enforcer(net.nodes[1], enforce_try, "e1") as made:
        made.set(session, MEGA)
        with ends(net, "10.5.0.1", "10.5.0.2", 1000, 80) as (a, b):
            a.send(b"x")
            assert b.recv(9) == b"x"
        wait_for(lambda: packets(made, session) == 1)


def test_removed_flow_keeps_its_backlog(net: Chain, enforce_try: str) -> None:
    """Its waiting packets are sent."""
    htb_at_root(net)
    session = Flow(FAR4, NEAR4, UDP, 1000, 80)
    with enforcer(net.nodes[1], enforce_try) as made, ends(net, NEAR4, FAR4, 1000, 80) as (a, b):
        made.open("e1")
        made.set(session, MEGA)
        # About 240 ms.
        for _ in range(30):
            a.send(bytes(1000))
        assert packets(made, session) < 25
        made.remove(session)
        for _ in range(30):
            assert len(b.recv(2000)) == 1000


@pytest.mark.parametrize(
    "setup", [pytest.param(htb_at_root, marks=pytest.mark.tier("all")), htb_below_slbn]
)
def test_close_and_takeover_restore_device(net: Chain, enforce_try: str, setup: Setup) -> None:
    """After a crash the configuration remains; the next instance takes it over, and deletes it."""
    setup(net)
    node = net.nodes[1]
    node.sh(
        """set -e
        tc class add dev e1 parent 7: classid 7:10 htb rate 50mbit
        tc qdisc add dev e1 parent 7:10 handle 1000: pfifo
        tc filter add dev e1 parent 7: pref 50000 protocol ip matchall classid 7:10"""
    )
    before = configuration(node)
    flows = [Flow(FAR4, protocol=TCP), Flow(FAR6, dport=80), Flow(FAR4)]
    with enforcer(node, enforce_try, "e1") as first:
        for flow in flows:
            first.set(flow, MEGA)
        # A removed flow is left behind, too.
        first.remove(flows[0])
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    left = configuration(node)
    assert left.count("class htb") == 6 and left.count("dst_port") == 5
    with enforcer(node, enforce_try, "e1") as second:
        # The default class, that of control packets, and the other program's.
        assert configuration(node).count("class htb") == 3
        assert second.ask(f"read {flows[1]}") == ["unknown"]
        for flow in flows:
            second.set(flow, MEGA)
        second.close()
        assert configuration(node) == before


def test_takeover_leaves_no_gap(net: Chain, enforce_try: str, tmp_path: Path) -> None:
    """The default class has filters at each moment, also while the hosts change."""
    htb_at_root(net)
    node = net.nodes[1]
    with enforcer(node, enforce_try, "e1") as first:
        first.set(Flow(FAR4), MEGA)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    shown = node.sh("tc filter show dev e1 parent 7:").stdout
    # Of IPv4 and IPv6.
    live = set(re.findall(r"pref (4948[78]) flower chain 0 handle (\w+)", shown))
    assert len(live) == 2
    log = tmp_path / "events"
    numbers = itertools.count(0xF000)

    def make_event() -> bool:
        node.sh(f"tc class add dev e1 parent 7: classid 7:{next(numbers):x} htb rate 1mbit")
        return log.stat().st_size > 0

    with log.open("w") as file, node.entered():
        monitor = subprocess.Popen(["tc", "monitor"], stdout=file)
    wait_for(make_event)
    with enforcer(node, enforce_try, "e1") as second:
        for hosts in ("10.0.1.0/24", "10.0.0.0/16", "10.0.0.0/16"):
            second.set_hosts(hosts)
        last = next(numbers)
        node.sh(f"tc class add dev e1 parent 7: classid 7:{last:x} htb rate 1mbit")
        wait_for(lambda: f"class htb 7:{last:x}" in log.read_text())
        monitor.kill()
        monitor.wait()
    event = r"^(\w+ )?filter .*pref (4948[78]) flower chain 0 (?:handle (\w+))?"
    changes = re.findall(event, log.read_text(), re.MULTILINE)
    assert len(changes) > 6
    for what, preference, handle in changes:
        if what != "deleted ":
            live.add((preference, handle))
        else:
            live = {each for each in live if each[0] != preference or handle not in ("", each[1])}
        assert live, changes


def test_takeover_from_bpf(net: Chain, enforce_try: str) -> None:
    """The BPF program of an instance that crashed is detached, as it would keep old rates."""
    fq_at_root(net)
    node = net.nodes[1]
    with enforcer(node, enforce_try, "e1") as first:
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    htb_at_root(net)
    assert "slbnd_rates" in node.sh("tc filter show dev e1 egress").stdout
    with enforcer(node, enforce_try) as second:
        # A device that is given twice is opened once.
        second.open("e1", "e1")
        assert "slbnd_rates" not in configuration(node)
        second.set(Flow(FAR4), MEGA)
        assert packets(second, Flow(FAR4)) == 0


def test_foreign_filter_with_our_preference(net: Chain, enforce_try: str) -> None:
    htb_at_root(net)
    node = net.nodes[1]
    node.sh("tc filter add dev e1 parent 7: pref 49480 protocol all matchall classid 7:1")
    before = configuration(node)
    with enforcer(node, enforce_try) as made:
        [answer] = made.ask("open e1")
        assert answer == (
            "e1: a preference from 49470 to 49488 below 7:" " belongs to another program's filter"
        )
    assert configuration(node) == before


def test_full_table_and_reuse(net: Chain, enforce_try: str) -> None:
    htb_at_root(net)
    node = net.nodes[1]
    with enforcer(node, enforce_try, "e1") as made:
        made.ask("crowd 20")
        assert made.ask("fill 21 1000") == ["20 -28"]
        made.set(Flow("10.0.0.0"), 2000)
        # Lingering classes are deleted when their numbers are needed.
        assert made.ask("empty 20", "fill 20 1000", "empty 20") == ["ok", "20 0", "ok"]
        made.set(Flow(FAR6), 1000)
        assert packets(made, Flow(FAR6)) == 0
        # Without its htb, a new flow fails, and leaves nothing.
        net.tc(1, "qdisc del dev e1 root")
        assert int(made.ask(f"set {Flow(FAR4)} 1000")[0]) < 0
        assert made.ask(f"read {Flow(FAR4)}") == ["unknown"]
        # A device that is gone is ignored.
        node.sh("ip link del e1")
        made.set(Flow(FAR4), 1000)
        made.close()


def class_rates(node: Namespace, device: str) -> list[str]:
    """Of all classes."""
    shown = node.tc(f"class show dev {device}")
    return re.findall(r"^class htb .* rate (\w+) ceil", shown, re.MULTILINE)


def test_rate_that_failed_on_a_device(net: Chain, enforce_try: str) -> None:
    """Its htb was replaced: the rate that is wanted next applies to all devices."""
    node = net.nodes[1]
    htb_at_root(net)
    node.sh("tc qdisc replace dev w0 root handle 7: htb")
    flow = Flow(FAR4, NEAR4, UDP, 1000, 80)
    with enforcer(node, enforce_try, "e1", "w0") as made:
        made.set(flow, 5 * MEGA)
        node.sh("tc qdisc replace dev w0 root handle 8: htb")
        assert int(made.ask(f"set {flow} {10 * MEGA}")[0]) < 0
        assert made.check() == "ok"
        made.set(flow, 5 * MEGA)
        for device in ("e1", "w0"):
            assert sorted(class_rates(node, device)) == ["1Tbit", "1Tbit", "5Mbit"]
        # The lease ends: with the next htb there is no rate that may be used.
        node.sh("tc qdisc replace dev w0 root handle 9: htb")
        assert int(made.ask(f"set {flow} 0")[0]) < 0
        assert made.check() == "ok"
        assert class_rates(node, "w0") == ["1Tbit", "1Tbit"]
        made.set(flow, 0)
        made.set(flow, 5 * MEGA)
        for device in ("e1", "w0"):
            assert sorted(class_rates(node, device)) == ["1Tbit", "1Tbit", "5Mbit"]


def test_hosts_change_on_all_devices(net: Chain, enforce_try: str) -> None:
    """Also if the first one's htb was replaced."""
    node = net.nodes[1]
    htb_at_root(net)
    node.sh("tc qdisc replace dev w0 root handle 7: htb")
    with enforcer(node, enforce_try, "e1", "w0") as made:
        node.sh("tc qdisc replace dev e1 root handle 8: htb")
        made.set_hosts("192.0.2.0/24")
        assert made.check() == "ok"
        for device in ("e1", "w0"):
            assert "src_ip 192.0.2.0/24" in node.tc(f"filter show dev {device}")


def test_default_class_that_cannot_be_changed(net: Chain, enforce_try: str) -> None:
    """The device keeps it, its problem is stated, and the next check tries again."""
    node = net.nodes[1]
    htb_at_root(net)
    node.sh("tc class add dev e1 parent 7: classid 7:10 htb rate 50mbit")
    with enforcer(node, enforce_try) as made:
        made.set_unassigned(8 * MEGA)
        made.open("e1")
        before = configuration(node)
        (*_, queue) = re.findall(r"^qdisc fq_codel (\w+): parent 7:", before, re.MULTILINE)
        # Another program takes the handle of a queue of ours.
        node.sh(f"tc qdisc del dev e1 parent 7:{queue}")
        node.sh(f"tc qdisc add dev e1 parent 7:10 handle {queue}: pfifo")
        made.set_unassigned(4 * MEGA)
        assert made.check() == "e1: its htb: Invalid argument"
        node.sh("tc qdisc del dev e1 parent 7:10")
        assert made.check() == "ok"
        assert configuration(node).count("flower") == before.count("flower")
        assert sorted(class_rates(node, "e1")) == ["4Mbit", "4Mbit", "50Mbit"]


def test_killed_agent_leaves_rates(tmp_path: Path) -> None:
    """Without a lease in the kernel: the assigned rate stays, and is no higher one."""
    with chain(3) as net:
        net.attach(0, "rate 100mbit headroom 0")
        net.tc(0, "qdisc replace dev e0 parent 1:1 handle 7: htb")
        for link in (1, 2):
            net.attach(link, f"rate 50mbit headroom 0{' edge' * (link - 1)}")
        traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA))
        traffic.settle()
        with agent(net.nodes[0], tmp_path, "--devices", "e0") as slbnd, slbnd.connect() as us:
            joined = us.join("10.0.2.2", 10 * MEGA)
            wait_for(lambda: [session.rate for session in us.list()] == [10 * MEGA])
            traffic.run(1)
            assert us.list()[0].id == joined
            slbnd.end(signal.SIGKILL)
        # Longer than any lease.
        traffic.run(2)
        (rate,) = traffic.run(2)
        assert close_to(rate, 10 * MEGA, 0.03)
        # The next one knows nothing of it.
        with agent(net.nodes[0], tmp_path, "--devices", "e0", "--unassigned", "1mbit"):
            traffic.run(2)
            (rate,) = traffic.run(2)
            assert rate < 1.1 * MEGA


def queue_limits(net: Chain) -> tuple[set[int], set[int]]:
    """Of the queues of flows, and of those of default classes [octets]."""
    shown = json.loads(net.nodes[1].sh("tc -j qdisc show dev e1").stdout)
    flows = {each["options"]["limit"] for each in shown if each["kind"] == "bfifo"}
    shared = {each["options"]["memory_limit"] for each in shown if each["kind"] == "fq_codel"}
    return flows, shared


def test_backlog_limits_queues(net: Chain, enforce_try: str) -> None:
    """That of the default class changes at once, those of flows with their next rate."""
    htb_at_root(net)
    flow = Flow(FAR4, NEAR4, UDP, 1000, 80)
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_unassigned(8 * MEGA)
        made.set_backlog(200_000_000)
        made.open("e1")
        made.set(flow, 80 * MEGA)
        assert queue_limits(net) == ({2_000_000}, {200_000})
        made.set_backlog(1_000_000_000)
        assert queue_limits(net) == ({2_000_000}, {1_000_000})
        made.set(flow, 40 * MEGA)
        assert queue_limits(net) == ({5_000_000}, {1_000_000})
        made.close()
