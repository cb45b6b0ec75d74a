# SPDX-License-Identifier: GPL-2.0
"""What a hostile host gains: its packets in the default class, its own addresses, its connections.

    hosts ---- r1 ---- server
           e0      e1: slbnd with fq, no links, so no sessions

10.0.0.1 is honest, 10.0.0.66 is not; both are addresses of one namespace.
"""

from __future__ import annotations

import contextlib
import re
import socket
import statistics
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.enforcer import enforcer, fq_at_root, htb_at_root
from tests.kernel.lib.net import pending, received, wait_for
from tests.kernel.lib.senders import Traffic, sender, sending
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_wire import internet_sum
from tests.kernel.lib.slbnd import agent

pytestmark = pytest.mark.virtual

HOSTS = "10.0.0.0/24,fd00:0::/64"
HONEST, HOSTILE, SERVER = "10.0.0.1", "10.0.0.66", "10.0.1.2"
#: The router's address among the hosts.
ROUTER = "10.0.0.2"
#: Missing in Python's socket module.
IP_TRANSPARENT = 19


@contextlib.contextmanager
def network(setup: Callable[[Chain], None]) -> Iterator[Chain]:
    with chain(2) as made:
        setup(made)
        made.nodes[0].sh(f"ip addr add {HOSTILE}/24 dev e0")
        yield made


@pytest.fixture(scope="module")
def net() -> Iterator[Chain]:
    with network(lambda made: fq_at_root(made, "limit 100000 flow_limit 10000")) as made:
        yield made


@pytest.fixture(scope="module")
def htb() -> Iterator[Chain]:
    """With htb instead of BPF."""
    with network(htb_at_root) as made:
        yield made


def exchange(net: Chain, size: int, port: int) -> float:
    """Connect from a port of the honest host, send, and wait for the answer [s]; at most 20 s."""
    began = time.monotonic()
    with net.nodes[0].entered(), socket.socket() as near:
        near.settimeout(20)
        # Reset when it is closed: the port is free for the next test.
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        near.bind((HONEST, port))
        try:
            near.connect((SERVER, 80))
            near.sendall(bytes(size))
            near.recv(1)
        except TimeoutError:
            return 20
    return time.monotonic() - began


@contextlib.contextmanager
def server(net: Chain, size: int) -> Iterator[None]:
    """Answer each connection with an octet when it has sent SIZE."""
    with net.nodes[2].entered():
        listener = socket.create_server((SERVER, 80), backlog=64)

    def answer(near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            received = 0
            while received < size:
                received += len(near.recv(65536)) or size
            near.send(b".")

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("setup", ["net", pytest.param("htb", marks=pytest.mark.tier("all"))])
@pytest.mark.parametrize(
    ("size", "segment"),
    [pytest.param(1400, 0, marks=pytest.mark.tier("all")), (62 * 1024, 1400), (16 * 1024, 1400)],
    ids=["single packets", "62 kB merged", "16 kB merged"],
)
def test_merged_packets_stall_nobody(
    request: pytest.FixtureRequest, enforce_try: str, setup: str, size: int, segment: int
) -> None:
    """A flood in the default class, 5 times its rate, and requests of another host.

    The secrets of enforce_try and all ports are fixed: no request shares a queue with the flood.
    """
    net: Chain = request.getfixturevalue(setup)
    with enforcer(net.nodes[1], enforce_try) as made:
        made.set_hosts("10.0.0.0/24")
        made.set_unassigned(MEGA)
        made.open("e1")
        took = []
        # 5 Mbit/s; those that are longer than a packet are merged segments.
        pause = size * 8 / 5_000_000
        with (
            server(net, 9000),
            sending(net.nodes[0], HOSTILE, [SERVER], size, pause, segment, port=2000),
        ):
            time.sleep(1)
            for n in range(20):
                took.append(exchange(net, 9000, 3000 + n))
                time.sleep(0.2)
    print(f"requests took {statistics.median(took):.2f} s, at most {max(took):.2f} s")
    # Behind a merged packet of 62 kB, at the rate of the class.
    assert statistics.median(took) < 0.7 and max(took) < (0.6 if segment else 2)


def connect(net: Chain, source: str, count: int) -> None:
    """Begin connections: a datagram each, from as many ports."""
    with contextlib.ExitStack() as stack:
        # The kernel chooses ports at random: all are open until the end, so that they differ.
        stack.enter_context(net.nodes[0].entered())
        for _ in range(count):
            near = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            near.bind((source, 0))
            near.sendto(b".", (SERVER, 9))


def test_host_does_not_fill_table_of_connections(net: Chain, tmp_path: Path) -> None:
    options = ("--hosts", HOSTS, "--host-connections", "200")
    with agent(net.nodes[1], tmp_path, *options) as slbnd, slbnd.connect() as us:
        # Those of the test's preparation end.
        wait_for(lambda: us.status().connections == 0)
        connect(net, HOSTILE, 300)
        wait_for(lambda: us.status().refused >= 100)
        assert us.status().connections == 200
        connect(net, HONEST, 20)
        wait_for(lambda: us.status().connections == 220)
        status = us.status()
        assert 300 <= status.table_entries < status.table_most
        # Conntrack forgets unanswered UDP after 30 s.
        time.sleep(40)
        assert us.status().connections == 0
        connect(net, HOSTILE, 150)
        wait_for(lambda: us.status().connections == 150)


def documented_limit() -> str:
    """The commands of docs/operating.md that limit the connections of each host."""
    page = (Path(__file__).resolve().parents[3] / "docs/operating.md").read_text()
    (commands,) = re.findall(r"^(    nft add table inet hosts\n(?:    .*\n)+)", page, re.MULTILINE)
    return str(commands)


def test_documented_rules_limit_connections_of_each_host(net: Chain) -> None:
    rules = documented_limit()
    for old, new in (("192.0.2.0/24", "10.0.0.0/24"), ("count over 10000 ", "count over 10 ")):
        assert rules.count(old) == 1
        rules = rules.replace(old, new)
    with net.nodes[2].entered():
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far.bind((SERVER, 9))
    far.setblocking(False)
    net.nodes[1].sh(f"set -e\n{rules}")
    begun: Counter[str] = Counter()
    with far:
        connect(net, HOSTILE, 30)
        connect(net, HONEST, 5)
        time.sleep(0.1)
        with contextlib.suppress(BlockingIOError):
            while True:
                begun[far.recvfrom(9)[1][0]] += 1
    net.nodes[1].sh("nft delete table inet hosts")
    assert begun == {HOSTILE: 10, HONEST: 5}


def send(net: Chain, source: str, ports: range, packets: int, size: int) -> None:
    """Datagrams from one port to each of these."""
    with net.nodes[0].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.bind((source, 5000))
        for port in ports:
            for _ in range(packets):
                with contextlib.suppress(ConnectionRefusedError):
                    near.sendto(bytes(size), (SERVER, port))


def test_mice_are_not_processed(net: Chain, tmp_path: Path) -> None:
    """Where the BPF program counts connections, slbnd has those that sent enough only."""
    options = ("--hosts", HOSTS, "--devices", "e1")
    with agent(net.nodes[1], tmp_path, *options) as slbnd, slbnd.connect() as us:
        send(net, HOSTILE, range(1000, 3000), 1, 1)
        send(net, HOSTILE, range(3000, 3100), 9, 1400)
        time.sleep(1)
        assert us.status().connections == 0
        send(net, HONEST, range(1000, 1010), 12, 1400)
        wait_for(lambda: [session.source for session in us.list()] == [HONEST] * 10)
        status = us.status()
        assert (status.connections, status.refused, status.events_lost) == (10, 0, 0)


def test_flood_replaces_its_own_connections(net: Chain, tmp_path: Path) -> None:
    """Of the BPF program's table, which has 1024 places."""
    options = ("--hosts", HOSTS, "--devices", "e1", "--connections", "1024")
    with agent(net.nodes[1], tmp_path, *options) as slbnd, slbnd.connect() as us:
        # Not enough for a session, neither before the flood nor after it.
        send(net, HONEST, range(1000, 1010), 6, 1400)
        send(net, HOSTILE, range(2000, 8000), 1, 1)
        send(net, HONEST, range(1000, 1010), 6, 1400)
        wait_for(lambda: [session.source for session in us.list()] == [HONEST] * 10)


#: Source addresses of packets from the hosts' device: their own, and others.
SPOOFED = {
    "own": HONEST,
    "without a route": "203.0.113.9",
    "of a remote host": "10.0.1.77",
    "own, IPv6": "fd00:0::1",
    "without a route, IPv6": "2001:db8::9",
    "of a remote host, IPv6": "fd00:1::77",
}


#: What a host sends, five times the default class [bit/s].
OFFERED = 5_000_000


def offer(net: Chain, source: str, seconds: float) -> float:
    """Send datagrams from any source address to the server; the rate that arrives [bit/s]."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with net.nodes[2].entered():
        far = socket.socket(family, socket.SOCK_DGRAM)
    far.bind(("fd00:1::2" if family == socket.AF_INET6 else SERVER, 0))
    far.setblocking(False)
    with net.nodes[0].entered():
        near = socket.socket(family, socket.SOCK_DGRAM)
    near.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
    near.bind((source, 0))
    sent = received = 0
    began = counted_from = time.monotonic()
    with near, far:
        while (now := time.monotonic()) < began + 1 + seconds:
            while sent < (now - began) * OFFERED / 8:
                sent += near.sendto(bytes(1400), far.getsockname()[:2])
            received += sum(map(len, pending(far, 2000)))
            # After the burst of the class.
            if now < began + 1:
                received, counted_from = 0, now
            time.sleep(0.002)
    return received * 8 / (time.monotonic() - counted_from)


#: One of IPv6 in `make test`, where test_enforce.py has single packets of both.
BRIEF = {"own", "without a route", "of a remote host", "of a remote host, IPv6"}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=name, marks=() if name in BRIEF else pytest.mark.tier("all"))
        for name, source in SPOOFED.items()
    ],
)
def test_spoofed_sources_use_default_class(net: Chain, tmp_path: Path, source: str) -> None:
    """Without a reverse path filter."""
    options = ("--hosts", HOSTS, "--devices", "e1", "--unassigned", "1mbit")
    with agent(net.nodes[1], tmp_path, *options):
        rate = offer(net, source, 2)
    print(f"{rate / 1e6:.2f} Mbit/s arrive")
    assert 0.9e6 < rate < 1.1e6


def segment(source: str, destination: str) -> bytes:
    """The header of a SYN to a closed port."""
    syn = struct.pack("!HHLLBBHHH", 7, 9, 0, 0, 5 << 4, 2, 1000, 0, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    checksum = internet_sum(addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(syn)) + syn)
    return syn[:16] + struct.pack("!H", checksum) + syn[18:]


def echo(size: int) -> bytes:
    request = struct.pack("!BBHHH", 8, 0, 0, 0, 0)
    return struct.pack("!BBHHH", 8, 0, internet_sum(request), 0, 0) + bytes(size)


#: What the router answers: the protocol, a packet, and how many are 5 Mbit/s or more of answers.
REFLECTED = {
    "echo replies": (socket.IPPROTO_ICMP, echo(1400), 450),
    "fragments": (socket.IPPROTO_ICMP, echo(8000), 80),
    "RSTs": (socket.IPPROTO_TCP, segment(SERVER, ROUTER), 12000),
}


@pytest.mark.parametrize("what", REFLECTED)
def test_reflected_packets_use_default_class(net: Chain, tmp_path: Path, what: str) -> None:
    """By packets with a spoofed source, a host makes the router send to the server."""
    protocol, packet, per_second = REFLECTED[what]
    with net.nodes[0].entered():
        near = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
    near.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
    near.bind((SERVER, 0))
    near.connect((ROUTER, 0))
    options = ("--hosts", HOSTS, "--devices", "e1", "--unassigned", "1mbit")
    with agent(net.nodes[1], tmp_path, *options), near:
        began = time.monotonic()
        sent, counts = 0, []
        for second in (1.0, 2.5):
            while (now := time.monotonic()) < began + second:
                while sent < (now - began) * per_second:
                    sent += 1
                    near.send(packet)
                time.sleep(0.002)
            counts.append(received(net.nodes[2], "w1")[0])
    rate = (counts[1] - counts[0]) * 8 / 1.5
    print(f"{rate / 1e6:.2f} Mbit/s arrive")
    assert 0.9e6 < rate < 1.1e6


def test_routes_to_hosts_are_followed(net: Chain, tmp_path: Path) -> None:
    """A prefix of hosts that is routed later, within a larger one; remote hosts are not limited."""
    router = net.nodes[1]
    options = ("--hosts", "192.0.2.0/24", "--devices", "e1", "--unassigned", "1mbit")
    with agent(router, tmp_path, *options):
        assert offer(net, HONEST, 1) > 0.95 * OFFERED
        router.sh("ip route add 192.0.2.128/25 via 10.0.0.1")
        try:
            time.sleep(60)
            assert offer(net, HONEST, 1) < 1.1e6
            # All others are behind this device, too.
            router.sh("ip route add default via 10.0.0.1")
            time.sleep(60)
            assert offer(net, HONEST, 1) > 0.95 * OFFERED
        finally:
            router.sh("ip route flush root 0/0 exact 0/0; ip route del 192.0.2.128/25")


@pytest.mark.parametrize(
    "nexthop", [pytest.param(7, marks=pytest.mark.tier("all")), 8], ids=["one", "group"]
)
def test_routes_to_hosts_have_nexthop_objects(net: Chain, tmp_path: Path, nexthop: int) -> None:
    """The kernel does not copy the devices of nexthop objects into these routes."""
    router = net.nodes[1]
    options = ("--hosts", "192.0.2.0/24", "--devices", "e1", "--unassigned", "1mbit")
    router.sh("sysctl -qw net.ipv4.nexthop_compat_mode=0")
    router.sh("ip nexthop add id 7 via 10.0.0.1 dev w0; ip nexthop add id 8 group 7")
    try:
        router.sh(f"ip route add 192.0.2.128/25 nhid {nexthop}")
        with agent(router, tmp_path, *options):
            assert offer(net, HONEST, 1) < 1.1e6
    finally:
        # Routes end with their nexthop.
        router.sh("ip nexthop flush; sysctl -qw net.ipv4.nexthop_compat_mode=1")


@pytest.mark.parametrize("source", list(SPOOFED.values())[1:3], ids=list(SPOOFED)[1:3])
def test_spoofed_sources_pass_htb(htb: Chain, tmp_path: Path, source: str) -> None:
    """As the manual says: its filters know sources, but not devices."""
    options = ("--hosts", HOSTS, "--devices", "e1", "--unassigned", "1mbit")
    with agent(htb.nodes[1], tmp_path, *options):
        assert 0.9e6 < offer(htb, HONEST, 1) < 1.1e6
        assert offer(htb, source, 1) > 0.95 * OFFERED


def fq_below(net: Chain) -> None:
    net.tc(1, "qdisc replace dev e1 parent 1:1 fq flow_limit 10000")


def htb_below(net: Chain) -> None:
    net.tc(1, "qdisc replace dev e1 parent 1:1 handle 7: htb")


@pytest.mark.tier("all")
@pytest.mark.parametrize("setup", [fq_below, htb_below])
def test_flows_do_not_stall(tmp_path: Path, setup: Callable[[Chain], None]) -> None:
    """TCP sends merged packets, over a path of no delay, while the rates of its flows change."""
    with chain(3) as made:
        made.attach(1, "rate 20mbit")
        setup(made)
        made.attach(2, "rate 20mbit edge")
        traffic = Traffic(*(sender(made, 0, 3) for _ in range(5)))
        options = ("--hosts", HOSTS, "--devices", "e1")
        with agent(made.nodes[1], tmp_path, *options):
            silent = [0.0] * 5
            longest = 0.0
            for _ in range(100):
                before = [each.received for each in traffic.senders]
                traffic.run(0.2)
                for n, each in enumerate(traffic.senders):
                    silent[n] = 0 if each.received > before[n] else silent[n] + 0.2
                longest = max(longest, *silent)
            sums = [round(each.received * 8 / 20 / 1e6, 2) for each in traffic.senders]
        print(f"silent for {longest:.1f} s at most; {sums} Mbit/s")
        for each in traffic.senders:
            each.abort()
    assert longest < 3
