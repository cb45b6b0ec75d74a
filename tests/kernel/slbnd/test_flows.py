# SPDX-License-Identifier: GPL-2.0
"""Flow detection: slbnd joins sessions for flows of local hosts, and ends them.

    h1 ---- r1 ======== r2 ======== r3 ---- h2
        e0  slbnd  e1          e2       e3
                   50 Mbit/s   40 Mbit/s  edge, 80 Mbit/s

h1 is a local host of r1. Only r1 has an agent; hosts are not modified.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.background import repeated
from tests.kernel.lib.net import Namespace, sh, wait_for
from tests.kernel.lib.programs import no_lookups
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_wire import internet_sum
from tests.kernel.lib.slbnd import SLBND, Agent, agent, libslbn

SIOCOUTQ = 0x5411  # sockios.h

pytestmark = pytest.mark.virtual

HOSTS = "10.0.0.0/24,fd00:0::/64"
TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
#: Source, its port, destination, its port, protocol.
Flow = tuple[str, int, str, int, int]


#: Rates of the links, and rates with which bursts of control packets are not limited.
RATES = ("50mbit", "40mbit", "80mbit")
FAST = ("2gbit", "1gbit", "2gbit")


#: Connections are counted by the BPF program, or conntrack's events are followed.
DETECTION = pytest.mark.parametrize(
    "options", [(), ("--devices", "e1")], ids=["by conntrack", "by BPF"]
)


def attach_all(net: Chain, rates: tuple[str, ...]) -> None:
    for link, rate in enumerate(rates, 1):
        net.attach(link, f"rate {rate} headroom 0" + " edge" * (link == 3))


@pytest.fixture(scope="module")
def net() -> Iterator[Chain]:
    with chain(4) as made:
        attach_all(made, RATES)
        made.tc(1, "qdisc replace dev e1 parent 1:1 fq")
        # Detect resets by the state of connections, not by their deletion.
        sh("modprobe nf_conntrack")
        with made.nodes[1].entered():
            timeout = Path("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close")
            timeout.write_text("600")
        yield made


@pytest.fixture
def attach(net: Chain) -> Iterator[Callable[[str, str, str], None]]:
    """Change the rates of the links until the test ends, however it does."""
    yield lambda *rates: attach_all(net, rates)
    attach_all(net, RATES)


@pytest.fixture
def htb(net: Chain) -> Iterator[None]:
    """r1 has HTB on its device, which has no table of connections."""
    net.tc(1, "qdisc replace dev e1 parent 1:1 htb")
    yield
    net.tc(1, "qdisc replace dev e1 parent 1:1 fq")


@pytest.fixture
def second(net: Chain) -> Iterator[None]:
    """r1 has another device with fq; afterwards that of e1 is as before."""
    net.nodes[1].ip("link add second type dummy", "link set second up")
    net.nodes[1].sh("tc qdisc replace dev second root fq")
    yield
    net.nodes[1].ip("link del second")
    net.tc(1, "qdisc replace dev e1 parent 1:1 fq")


@contextlib.contextmanager
def rules(node: Namespace, table: str) -> Iterator[None]:
    """Rules of nftables, as a text that begins with `table FAMILY NAME {`."""
    node.sh(f'echo "{table}" | nft -f -')
    try:
        yield
    finally:
        node.sh(f"nft delete {table.partition(' {')[0]}")


@contextlib.contextmanager
def detecting(
    net: Chain, directory: Path, *options: str, **how: Any
) -> Iterator[tuple[Agent, libslbn.Connection]]:
    """slbnd on r1, with flow detection; HOW is for agent()."""
    if "--config" not in options:
        options = ("--hosts", HOSTS, *options)
    # Sessions begin with the first packet: see test_slbnd_admission.py for others.
    options = (*options, "--join-packets", "0", "--join-bytes", "0")
    with agent(net.nodes[1], directory, *options, **how) as slbnd, slbnd.connect() as us:
        yield slbnd, us


def detected(us: libslbn.Connection) -> list[libslbn.Session]:
    wanted = libslbn.DETECTED | libslbn.LEAVING
    return [session for session in us.list() if session.flags & wanted == libslbn.DETECTED]


def flows(us: libslbn.Connection) -> list[Flow]:
    return sorted(
        (s.source, s.source_port, s.destination, s.destination_port, s.protocol)
        for s in detected(us)
    )


def wait_for_flows(us: libslbn.Connection, *expected: Flow) -> None:
    """Wait until exactly these flows have sessions."""
    try:
        wait_for(lambda: flows(us) == sorted(expected))
    except AssertionError:
        raise AssertionError(f"{flows(us)}, not {sorted(expected)}") from None


def ruleset(node: Namespace) -> str:
    return node.sh("nft list ruleset").stdout


def rules_are(node: Namespace, expected: str) -> Callable[[], bool]:
    return lambda: ruleset(node) == expected


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Tcp:
    """A TCP connection between two hosts, with both ends in this process."""

    def __init__(self, client: Namespace, server: Namespace, address: str, port: int) -> None:
        with server.entered():
            listener = socket.create_server((address, port), family=family(address))
        with client.entered():
            self.client = socket.socket(family(address))
        self.client.connect((address, port))
        self.server, _ = listener.accept()
        listener.close()

    def flow(self, source: socket.socket) -> Flow:
        """The flow of packets from that end."""
        here, there = source.getsockname(), source.getpeername()
        return (here[0], here[1], there[0], there[1], TCP)

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def reset(self) -> None:
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


@contextlib.contextmanager
def tcp(client: Namespace, server: Namespace, address: str, port: int) -> Iterator[Tcp]:
    made = Tcp(client, server, address, port)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def udp(node: Namespace, address: str, port: int = 0) -> Iterator[socket.socket]:
    with node.entered():
        made = socket.socket(family(address), socket.SOCK_DGRAM)
    with made:
        made.bind((address, port))
        yield made


@DETECTION
@pytest.mark.parametrize(("here", "there"), [("10.0.0.1", "10.0.3.2"), ("fd00::1", "fd00:3::2")])
def test_tcp(net: Chain, tmp_path: Path, here: str, there: str, options: tuple[str, ...]) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    with (
        detecting(net, tmp_path, *options) as (_, us),
        # The local host is the client, then the server.
        tcp(h1, h2, there, 5000) as first,
        tcp(h2, h1, here, 5000) as second,
    ):
        wait_for_flows(us, first.flow(first.client), second.flow(second.server))
        assert {session.demand for session in detected(us)} == {MEGA}
        second.close()
        wait_for_flows(us, first.flow(first.client))
        with tcp(h2, h1, here, 5000) as third:
            wait_for_flows(us, first.flow(first.client), third.flow(third.server))
            first.reset()
            third.reset()
            wait_for_flows(us)


def test_tcp_ends_one_way_first(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    with detecting(net, tmp_path) as (_, us), tcp(h1, h2, "10.0.3.2", 5000) as connection:
        ours = connection.flow(connection.client)
        wait_for_flows(us, ours)
        connection.server.shutdown(socket.SHUT_WR)
        assert connection.client.recv(1) == b""
        # Events are in order: the FIN has been processed when this is detected.
        with tcp(h1, h2, "10.0.3.2", 5001) as later:
            wait_for_flows(us, ours, later.flow(later.client))
        connection.client.shutdown(socket.SHUT_WR)
        wait_for_flows(us)


@DETECTION
def test_udp_and_others(net: Chain, tmp_path: Path, options: tuple[str, ...]) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    there = ("10.0.3.2", 7000)
    flow = ("10.0.0.1", 6000, *there, UDP)

    def stays() -> bool:
        """The session remains for longer than the idle time."""
        before = [session.id for session in detected(us)]
        time.sleep(2)
        return bool(before) and before == [session.id for session in detected(us)]

    with (
        detecting(net, tmp_path, "--idle", "1s", *options) as (_, us),
        udp(h1, "10.0.0.1", 6000) as ours,
        udp(h2, *there) as theirs,
    ):
        # Without an answer, the local host sends nothing.
        theirs.sendto(b"x", ("10.0.0.1", 6001))
        with repeated(lambda: ours.sendto(b"x", there), 0.05):
            wait_for_flows(us, flow)
            wait_for(stays)
        wait_for_flows(us)
        # Conntrack still has the connection, so there is no event.
        with repeated(lambda: ours.sendto(b"x", there), 0.05):
            wait_for_flows(us, flow)
        wait_for_flows(us)
        with repeated(lambda: theirs.sendto(b"x", ("10.0.0.1", 6000)), 0.05):
            ours.sendto(b"x", there)
            wait_for_flows(us, flow)
            # Packets of the other direction do not keep it active.
            wait_for_flows(us)
        h1.sh("ping -c 1 10.0.3.2")
        wait_for_flows(us, ("10.0.0.1", 0, "10.0.3.2", 0, socket.IPPROTO_ICMP))


@pytest.mark.parametrize("ports", [(49470, 7000), (6000, 49470)])
def test_ephemeral_port_of_slbn(net: Chain, tmp_path: Path, ports: tuple[int, int]) -> None:
    """Only packets with this port at both ends are SLBN's."""
    with (
        detecting(net, tmp_path) as (_, us),
        udp(net.nodes[0], "10.0.0.1", ports[0]) as ours,
        repeated(lambda: ours.sendto(b"x", ("10.0.3.2", ports[1])), 0.05),
    ):
        wait_for_flows(us, ("10.0.0.1", ports[0], "10.0.3.2", ports[1], UDP))


@DETECTION
def test_pairs(net: Chain, tmp_path: Path, options: tuple[str, ...]) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    pair = ("10.0.0.1", 0, "10.0.3.2", 0, 0)
    with detecting(net, tmp_path, "--sessions", "pair", *options) as (_, us):
        with tcp(h1, h2, "10.0.3.2", 5000):
            wait_for_flows(us, pair)
            (session,) = detected(us)
            with tcp(h2, h1, "10.0.0.1", 5000), tcp(h1, h2, "fd00:3::2", 5000):
                wait_for_flows(us, pair, ("fd00::1", 0, "fd00:3::2", 0, 0))
            wait_for_flows(us, pair)
            assert detected(us)[0].id == session.id
        wait_for_flows(us)


@contextlib.contextmanager
def configured(
    net: Chain, directory: Path, *lines: str
) -> Iterator[tuple[Callable[..., None], libslbn.Connection]]:
    """slbnd with these lines in its file, and a function that reloads others."""
    file, new = directory / "slbnd.conf", directory / "new"

    def write(*lines: str) -> None:
        new.write_text("\n".join(lines) + "\n")
        new.rename(file)

    write(*lines)
    with detecting(net, directory, "--config", str(file)) as (slbnd, us):

        def choose(*lines: str) -> None:
            write(*lines)
            slbnd.process.send_signal(signal.SIGHUP)

        yield choose, us


def test_filters_and_reload(net: Chain, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    h1, r1, r2, h2 = net.nodes[0], net.nodes[1], net.nodes[2], net.nodes[4]
    selected = (f"hosts = {HOSTS}", "only = tcp,icmp", "ports = 80,5000-5001")
    with (
        configured(net, tmp_path, *selected) as (choose, us),
        udp(h1, "10.0.0.1", 5000) as other,
        tcp(h1, h2, "10.0.3.2", 5000) as first,
        tcp(h2, h1, "10.0.0.1", 5001) as second,
        tcp(h1, h2, "10.0.3.2", 5002) as third,
        # To the router, from it, and between remote hosts.
        tcp(h1, r1, "10.0.0.2", 5000),
        tcp(r1, h2, "10.0.3.2", 80),
        tcp(r2, h2, "10.0.3.2", 5001),
        repeated(lambda: first.client.send(b"x"), 0.05),
        repeated(lambda: first.server.send(b"x"), 0.05),
        # Packets of data, not like acknowledgments.
        repeated(lambda: third.client.send(bytes(600)), 0.05),
    ):
        other.sendto(b"x", ("10.0.3.2", 5000))
        flow1, flow2 = first.flow(first.client), second.flow(second.server)
        flow3 = third.flow(third.client)
        wait_for_flows(us, flow1, flow2)
        numbers = {session.id for session in detected(us)}
        choose(f"hosts = {HOSTS}", "only = tcp", "ports = 5000-5002", "initial = 2mbit")
        wait_for_flows(us, flow1, flow2, flow3)
        assert numbers < {session.id for session in detected(us)}
        assert 2 * MEGA in (session.demand for session in detected(us))
        choose(f"hosts = {HOSTS}", "only = 6", "ports = 5001")
        wait_for_flows(us, flow2)
        for line, error in (
            ("ports = 80,0", "must be ports"),
            ("devices = e1", "devices cannot be changed"),
        ):
            capfd.readouterr()
            choose(f"hosts = {HOSTS}", line)
            log: list[str] = []

            def refused(error: str = error, log: list[str] = log) -> bool:
                log.append(capfd.readouterr().err)
                return error in "".join(log) and "the configuration is unchanged" in "".join(log)

            wait_for(refused)
            (session,) = detected(us)
            assert session.id in numbers
        choose("")
        wait_for_flows(us)
        assert ruleset(r1) == ""
        choose("hosts = 10.0.3.0/24", "only = tcp", "ports = 5000")
        wait_for_flows(us, first.flow(first.server))


def test_reload_without_a_prefix(net: Chain, tmp_path: Path) -> None:
    """Sessions of its hosts leave; the quota of the other prefix counts what remains."""
    h1, h2 = net.nodes[0], net.nodes[4]
    options = ("only = tcp", "prefix-sessions = 1")
    with (
        configured(net, tmp_path, f"hosts = {HOSTS}", *options) as (choose, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
        tcp(h1, h2, "fd00:3::2", 5000) as second,
    ):
        remaining = second.flow(second.client)
        wait_for_flows(us, first.flow(first.client), remaining)
        (session,) = (each for each in detected(us) if each.source == "fd00::1")
        choose("hosts = fd00:0::/64", *options)
        wait_for_flows(us, remaining)
        assert detected(us)[0].id == session.id
        with (
            tcp(h1, h2, "fd00:3::2", 5001) as third,
            repeated(lambda: third.client.send(b"x"), 0.05),
        ):
            time.sleep(1)
            assert flows(us) == [remaining]
            second.close()
            wait_for_flows(us, third.flow(third.client))


@pytest.mark.tier("all")
def test_reload_without_the_first_host_of_a_pair(net: Chain, tmp_path: Path) -> None:
    """Its address is translated, as that of another host, with which it has a session."""
    h1, pair = net.nodes[0], ("10.0.1.1", 0, "10.0.3.2", 0, 0)
    h1.sh("ip addr add 10.0.0.3/24 dev e0", check=False)
    translation = """table ip nat {
        chain out { type nat hook postrouting priority 100; oifname e1 masquerade; }
    }"""
    both = ("hosts = 10.0.0.0/31,10.0.0.3/32", "sessions = pair")
    with (
        rules(net.nodes[1], translation),
        configured(net, tmp_path, *both) as (choose, us),
        udp(h1, "10.0.0.1", 6000) as one,
        udp(h1, "10.0.0.3", 6001) as other,
    ):
        one.sendto(b"x", ("10.0.3.2", 7000))
        wait_for_flows(us, pair)
        (session,) = detected(us)
        with repeated(lambda: other.sendto(b"x", ("10.0.3.2", 7001)), 0.05):
            time.sleep(0.2)
            assert [each.id for each in detected(us)] == [session.id]
            choose("hosts = 10.0.0.3/32", "sessions = pair")
            wait_for(lambda: session.id not in [each.id for each in detected(us)])
            wait_for_flows(us, pair)


def test_existing_connections(net: Chain, tmp_path: Path) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    others = "table ip other { chain c { ct state new counter; }; }"
    for rule, number in ("", signal.SIGTERM), (others, signal.SIGKILL):
        with (
            rules(r1, rule) if rule else contextlib.nullcontext(),
            tcp(h1, h2, "10.0.3.2", 5000) as connection,
            tcp(h1, h2, "10.0.3.2", 5001) as ending,
            repeated(lambda: connection.client.send(b"x"), 0.05),
        ):
            before = ruleset(r1)
            ours = connection.flow(connection.client)
            with (
                repeated(lambda: ending.client.send(b"x"), 0.05),
                detecting(net, tmp_path) as (slbnd, us),
            ):
                wait_for_flows(us, ours, ending.flow(ending.client))
                assert "inet slbnd" in ruleset(r1)
                slbnd.end(number)
            wait_for(rules_are(r1, before))
            # It ends without slbnd: conntrack may still have it.
            ending.close()
            with detecting(net, tmp_path) as (_, us):
                wait_for_flows(us, ours)


@pytest.mark.parametrize(
    ("qdisc", "kind"),
    [
        ("dev second root", "htb"),
        # No packets are counted: demand follows conntrack's counters.
        pytest.param("dev e1 parent 1:1", "pfifo", marks=pytest.mark.tier("all")),
    ],
    ids=["htb on another device", "no fq"],
)
@pytest.mark.usefixtures("second")
def test_sessions_remain_as_devices_change(
    net: Chain, tmp_path: Path, qdisc: str, kind: str
) -> None:
    """Connections are counted by conntrack, then by the BPF program again."""
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    there = ("10.0.3.2", 7000)
    # If e1 has no fq, nothing is to be counted by the other one.
    devices = "e1,second" if kind == "htb" else "e1"
    options = ("--devices", devices, "--idle", "1s", "--only", "tcp,udp")
    with (
        detecting(net, tmp_path, *options) as (_, us),
        udp(h1, "10.0.0.1", 6000) as ours,
        repeated(lambda: ours.sendto(b"x", there), 0.05),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        expected = [("10.0.0.1", 6000, *there, UDP), first.flow(first.client)]
        wait_for_flows(us, *expected)
        numbers = {session.id for session in detected(us)}
        with repeated(lambda: first.client.send(b"x"), 0.05):
            for each in (kind, "fq"):
                r1.sh(f"tc qdisc replace {qdisc} {each}")
                # Longer than the idle time, and than a sweep after it.
                time.sleep(4)
                assert {session.id for session in detected(us)} == numbers, each
                # Others join and leave.
                with tcp(h1, h2, "10.0.3.2", 5001) as other:
                    wait_for_flows(us, *expected, other.flow(other.client))
                    other.reset()
                wait_for_flows(us, *expected)
        first.reset()
        # By a report: conntrack is asked after a second of silence only.
        time.sleep(0.8)
        assert flows(us) == expected[:1]


def drops(node: Namespace) -> int:
    """Dropped messages of netlink sockets."""
    with node.entered():
        lines = Path("/proc/thread-self/net/netlink").read_text().splitlines()[1:]
    return sum(int(line.split()[8]) for line in lines)


@pytest.mark.usefixtures("htb")
def test_lost_events(net: Chain, tmp_path: Path) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    # With this idle time, only lost events cause a dump.
    options = ("--only", "tcp", "--idle", "3600s", "--devices", "e1")
    with (
        detecting(net, tmp_path, *options) as (slbnd, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        wait_for_flows(us, first.flow(first.client))
        slbnd.process.send_signal(signal.SIGSTOP)
        with udp(h1, "10.0.0.1") as noise:
            for port in range(10000, 50000):
                noise.sendto(b"x", ("10.0.1.2", port))
                if port % 1000 == 0 and drops(r1):
                    break
        with (
            tcp(h1, h2, "10.0.3.2", 5001) as second,
            repeated(lambda: second.client.send(b"x"), 0.05),
        ):
            first.close()
            assert drops(r1) > 0
            slbnd.process.send_signal(signal.SIGCONT)
            wait_for_flows(us, second.flow(second.client))


def test_thousand_short_connections(
    net: Chain, tmp_path: Path, attach: Callable[[str, str, str], None]
) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    attach(*FAST)
    before = net.shown(1)
    with detecting(net, tmp_path) as (_, us):
        with h2.entered():
            listener = socket.create_server(("10.0.3.2", 5000), backlog=100)
        with h1.entered(), listener:
            # The kernel may reuse a port at once, of a flow whose session is still there.
            for port in range(20000, 21000):
                client = socket.create_connection(("10.0.3.2", 5000), None, ("10.0.0.1", port))
                listener.accept()[0].close()
                client.close()
        wait_for(lambda: not us.list())
        shown = net.shown(1)
        # At least: some packets are retransmitted.
        assert shown["joins"] - before["joins"] >= 1000
        assert shown["leaves"] - before["leaves"] >= 1000
        # Sessions of agents that were killed by earlier tests expire.
        wait_for(lambda: net.state(1).sessions == 0)


@DETECTION
def test_address_translation(net: Chain, tmp_path: Path, options: tuple[str, ...]) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    translation = """table ip nat {
        chain out { type nat hook postrouting priority 100; oifname e1 masquerade; }
        chain in { type nat hook prerouting priority -100;
            ip daddr 10.0.1.1 tcp dport 80 dnat to 10.0.0.1:5001; }
    }"""
    with (
        rules(r1, translation),
        detecting(net, tmp_path, *options) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        port = first.server.getpeername()[1]
        out = ("10.0.1.1", port, "10.0.3.2", 5000, TCP)
        wait_for_flows(us, out)
        with h1.entered():
            listener = socket.create_server(("10.0.0.1", 5001))
        with h2.entered(), listener:
            client = socket.create_connection(("10.0.1.1", 80))
            server, _ = listener.accept()
        with client, server:
            back = ("10.0.1.1", 80, *client.getsockname(), TCP)
            wait_for_flows(us, out, back)


def pour(end: socket.socket) -> Callable[[], None]:
    """A function that sends until the buffer is full."""
    end.setblocking(False)
    block = bytes(65536)

    def some() -> None:
        with contextlib.suppress(BlockingIOError):
            end.send(block)

    return some


def drain(end: socket.socket) -> Callable[[], None]:
    end.setblocking(False)

    def some() -> None:
        with contextlib.suppress(BlockingIOError):
            end.recv(1 << 20)

    return some


def test_demand_follows_use(net: Chain, tmp_path: Path) -> None:
    """By the counters of conntrack, without rate enforcement."""
    h1, h2 = net.nodes[0], net.nodes[4]
    # What agents that were killed have left.
    net.nodes[1].sh("tc qdisc del dev e1 clsact", check=False)
    with (
        detecting(net, tmp_path) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as connection,
        udp(h1, "10.0.0.1", 6000) as modest,
    ):

        def demands() -> dict[int, int]:
            return {session.protocol: session.demand for session in detected(us)}

        with (
            repeated(drain(connection.server), 0.001),
            repeated(lambda: modest.sendto(bytes(972), ("10.0.3.2", 7000)), 0.05),
        ):
            with repeated(pour(connection.client), 0.001):
                wait_for(lambda: demands().get(TCP, 0) > 10 * MEGA, 40)
                # 20 packets of 1000 octets each second, or fewer if the machine is slow.
                wait_for(lambda: 64000 <= demands().get(UDP, 0) <= 200000, 40)
            wait_for(lambda: demands()[TCP] < 100000, 40)


def unacknowledged(end: socket.socket) -> int:
    """Octets that were written and not acknowledged yet."""
    (octets,) = struct.unpack("i", fcntl.ioctl(end, SIOCOUTQ, bytes(4)))
    return int(octets)


class Stream:
    """A TCP connection with unlimited data."""

    def __init__(self, ends: Tcp) -> None:
        self.ends = ends
        self.received = 0
        self.some = pour(ends.client)
        ends.server.setblocking(False)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.received += len(self.ends.server.recv(1 << 20))

    def read(self) -> None:
        """Receive what arrives within a while, at once: one that reads now and then acknowledges
        late."""
        select.select([self.ends.server], [], [], 0.1)
        self.drain()

    def goodput(self) -> float:
        """Goodput over 1.5 s [bit/s]."""
        start, before = time.monotonic(), self.received
        time.sleep(1.5)
        return (self.received - before) * 8 / (time.monotonic() - start)


@pytest.mark.stock
@pytest.mark.newer
def test_detected_flows_are_paced(
    net: Chain, tmp_path: Path, attach: Callable[[str, str, str], None]
) -> None:
    """Links do not shape here: goodputs result from pacing alone.

    Emulated, a kernel with checks forwards few packets per second: rates are low, polls are rare.
    """
    # Of a packet with its headers, which the rate includes: IPv4, TCP and its time stamps.
    payload = 1448 / 1514
    h1, h2 = net.nodes[0], net.nodes[4]
    attach("50mbit", "4mbit", "80mbit")
    with (
        detecting(net, tmp_path, "--devices", "e1", "--only", "tcp") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
        tcp(h1, h2, "10.0.3.2", 5001) as second,
    ):
        streams = [Stream(first), Stream(second)]

        def rates() -> dict[int, int]:
            return {session.destination_port: session.rate for session in detected(us)}

        def gets(stream: Stream, rate: int) -> Callable[[], bool]:
            return lambda: abs(stream.goodput() / (rate * payload) - 1) < 0.05

        with (
            repeated(streams[0].read),
            repeated(streams[1].read),
            repeated(streams[0].some, 0.01),
        ):
            with repeated(streams[1].some, 0.01):
                # The initial demand is 1 Mbit/s.
                wait_for(lambda: rates() == {5000: 2 * MEGA, 5001: 2 * MEGA}, 120)
                for stream in streams:
                    wait_for(gets(stream, 2 * MEGA), 120)
            wait_for(lambda: rates()[5001] <= 64000, 120)
            rest = 4 * MEGA - 64000
            wait_for(lambda: rates()[5000] == rest, 120)
            wait_for(gets(streams[0], rest), 120)


#: Of <linux/tcp.h>: read the sequence numbers of a connection.
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
RECEIVE_QUEUE, SEND_QUEUE, REPAIR_OFF = 1, 2, -1


#: Counts packets of closing connections: conntrack keeps open ones for days.
CLOSING = """table ip closing {
    chain closing { type filter hook postrouting priority 0;
        tcp dport 5100 ct expiration < 200s counter; }
}"""


def sequences(end: socket.socket) -> tuple[int, int]:
    """The next sequence number to send, and the next one to receive."""
    end.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    found = []
    for queue in (SEND_QUEUE, RECEIVE_QUEUE):
        end.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        found.append(end.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) & 0xFFFFFFFF)
    end.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF)
    return found[0], found[1]


def send_fin(node: Namespace, end: socket.socket) -> None:
    """A FIN of the connection that reaches the first router only."""
    (here, port), (there, to_port) = end.getsockname(), end.getpeername()
    sequence, acknowledged = sequences(end)
    segment = struct.pack(
        "!HHIIBBHHH", port, to_port, sequence, acknowledged, 5 << 4, 0x11, 1000, 0, 0
    )
    addresses = socket.inet_aton(here) + socket.inet_aton(there)
    check = internet_sum(addresses + struct.pack("!HH", TCP, len(segment)) + segment)
    with node.entered():
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, TCP)
    with raw:
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        raw.sendto(segment[:16] + struct.pack("!H", check) + segment[18:], (there, 0))


def test_fin_does_not_end_a_session_in_use(
    net: Chain, tmp_path: Path, attach: Callable[[str, str, str], None]
) -> None:
    """A FIN with a TTL of 1 changes the state of the connection in conntrack, and nothing else."""
    h1, router, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    attach("50mbit", "5mbit", "80mbit")
    with (
        detecting(net, tmp_path, "--devices", "e1", "--only", "tcp") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5100) as connection,
    ):
        stream, flow = Stream(connection), connection.flow(connection.client)

        def session() -> libslbn.Session:
            (found,) = (each for each in detected(us) if each.destination_port == 5100)
            return found

        with rules(router, CLOSING), repeated(stream.read):
            with repeated(stream.some, 0.01):
                wait_for(lambda: flow in flows(us))
                # Not while TCP waits for a retransmission: a silent connection ends.
                wait_for(lambda: stream.goodput() > 4 * MEGA, 40)
            # Data sent after send_fin() has read the number would put the FIN out of the window.
            wait_for(lambda: unacknowledged(connection.client) == 0)
            send_fin(h1, connection.client)
            with repeated(stream.some, 0.01):
                shown = "nft list table ip closing"
                wait_for(lambda: "packets 0 " not in router.sh(shown).stdout)
                for _ in range(4):
                    goodput = stream.goodput()
                    rate = session().rate
                    assert rate > MEGA
                    assert goodput < 1.05 * rate
        connection.close()
        wait_for(lambda: flow not in flows(us))


def test_flow_that_goes_on_after_fin_joins_again(net: Chain, tmp_path: Path) -> None:
    """It was silent after a FIN with a TTL of 1, so its session has ended."""
    h1, h2 = net.nodes[0], net.nodes[4]
    with (
        detecting(net, tmp_path, "--devices", "e1", "--only", "tcp") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5101) as connection,
    ):
        stream, flow = Stream(connection), connection.flow(connection.client)
        with repeated(stream.read):
            with repeated(stream.some, 0.01):
                wait_for(lambda: flow in flows(us))
            wait_for(lambda: unacknowledged(connection.client) == 0)
            send_fin(h1, connection.client)
            wait_for(lambda: flow not in flows(us))
            time.sleep(12)
            with repeated(stream.some, 0.01):
                wait_for(lambda: flow in flows(us), 20)


@DETECTION
def test_failed_lookups_end_no_session(
    net: Chain, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """Silent connections are looked up, as a reset by a remote host is not seen otherwise."""
    h1, h2 = net.nodes[0], net.nodes[4]
    failing = tmp_path / "failing"
    environment = [f"NO_LOOKUPS={failing}", f"LD_PRELOAD={no_lookups()}"]
    with (
        detecting(net, tmp_path, *options, prefix=["env", *environment]) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as connection,
        tcp(h1, h2, "10.0.3.2", 5001) as other,
    ):
        ours = (connection.flow(connection.client), other.flow(other.client))
        wait_for_flows(us, *ours)
        ids = {session.id for session in detected(us)}
        failing.touch()
        # Sweeps are 2 s apart, at most, and a silent connection is due from its first second on.
        time.sleep(8)
        assert {session.id for session in detected(us)} == ids
        # However many look-ups fail.
        assert capfd.readouterr().err.count("conntrack does not answer: No buffer space") == 1
        failing.unlink()
        other.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.server.close()
        wait_for_flows(us, ours[0])
        assert {session.id for session in detected(us)} < ids


def test_share_is_returned_with_fin(net: Chain, tmp_path: Path) -> None:
    """Before look-ups have shown that the connection sends nothing more."""
    h1, h2 = net.nodes[0], net.nodes[4]
    with (
        detecting(net, tmp_path, "--devices", "e1", "--only", "tcp") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5200) as connection,
    ):
        stream = Stream(connection)

        def ours() -> list[libslbn.Session]:
            return [each for each in detected(us) if each.destination_port == 5200]

        with repeated(stream.drain, 0.001):
            with repeated(stream.some, 0.001):
                wait_for(lambda: any(each.rate > 10 * MEGA for each in ours()), 40)
            connection.client.shutdown(socket.SHUT_WR)
            last = before = ours()[0].demand
            while found := ours():
                last = found[0].demand
                time.sleep(0.005)
        assert MEGA <= last <= before / 4, f"{last} of {before}"


def test_unused_demand_is_returned(
    net: Chain, tmp_path: Path, attach: Callable[[str, str, str], None]
) -> None:
    """By flows of acknowledgements and by steady flows, also with a large initial demand."""
    h1, h2 = net.nodes[0], net.nodes[4]
    attach("50mbit", "8mbit", "80mbit")
    with (
        detecting(net, tmp_path, "--devices", "e1", "--initial", "20mbit") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as greedy,
        tcp(h2, h1, "10.0.0.1", 5001) as other,
        udp(h1, "10.0.0.1", 6000) as modest,
    ):
        stream = Stream(greedy)

        def rates() -> dict[tuple[int, int], int]:
            return {(s.protocol, s.source_port): s.rate for s in detected(us)}

        def settled() -> bool:
            ours = rates()
            acknowledging = ours.get((TCP, 5001), 0)
            steady = ours.get((UDP, 6000), 0)
            # 80 packets of 1042 octets each second; fewer if the machine is slow.
            fine = 64000 <= acknowledging <= 400000 and 300000 < steady < 900000
            rest = 8 * MEGA - acknowledging - steady
            return fine and abs(ours[TCP, greedy.client.getsockname()[1]] - rest) <= 64

        def stays() -> bool:
            before = rates()
            time.sleep(2)
            return settled() and before == rates()

        with (
            repeated(stream.some, 0.01),
            repeated(stream.read),
            # At most 64 Kbyte each time.
            repeated(pour(other.client), 0.05),
            repeated(drain(other.server), 0.01),
            repeated(lambda: modest.sendto(bytes(1000), ("10.0.3.2", 7000)), 0.0125),
        ):
            try:
                wait_for(settled, 20)
            except AssertionError:
                raise AssertionError(f"{rates()}") from None
            wait_for(stays, 40)
            # Use is reported, 0 for the session that sends nothing.
            ours = us.join("10.0.3.2", 64000, protocol=UDP, destination_port=9)
            wait_for(lambda: all(session.used is not None for session in us.list()))
            used = {s.source_port: s.used for s in us.list() if s.protocol == UDP}
            assert used[0] == 0 and 300000 < (used[6000] or 0) < 900000
            us.leave(ours)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--hosts", "10.0.0.1/24"], "must be prefixes"),
        (["--hosts", "10.0.0.0/33"], "must be prefixes"),
        (["--hosts", "10.0.0.0/24,"], "must be prefixes"),
        (["--hosts", "fd00::/129"], "must be prefixes"),
        (["--hosts", ",".join(["10.0.0.0/24"] * 65)], "at most 64"),
        (["--ports", "80-79"], "must be ports"),
        (["--ports", "0"], "must be ports"),
        (["--ports", "1-65536"], "must be ports"),
        (["--only", "tcp,no-such-protocol"], "must be protocols"),
        (["--only", "256"], "must be protocols"),
        (["--sessions", "prefix/65"], "must be flow, pair, host"),
        (["--weight", "10.0.0.0/24"], "must be"),
        (["--weight", "10.0.0.0/24\\ 0"], "must be"),
        (["--weight", "port\\ 0\\ 5"], "must be"),
        (["--idle", "1"], "must be 1s to 3600s"),
        (["--initial", "0"], "must be 1bit"),
        (["--join-packets", "-1"], "must be 0 to 1000000"),
        (["--join-bytes", "2048g"], "must be 0 to 1024g"),
        (["--host-sessions", "0"], "must be 1 to 1000000"),
        (["--host-connections", "262145"], "must be 1 to 262144"),
        (["--connections", "1023"], "must be 1024 to 1048576"),
        (["--connections", "1048577"], "must be 1024 to 1048576"),
        (["--prefix-sessions", "x"], "must be 1 to 1000000"),
        (["--user-sessions", "1000001"], "must be 1 to 1000000"),
        (["--max-sessions", "0"], "must be 1 to 1000000"),
        (["--devices", "a-name-that-is-too-long"], "must be names of devices"),
    ],
)
def test_invalid_options(options: list[str], error: str) -> None:
    done = sh(f"{SLBND} --config /dev/null {' '.join(options)}", check=False)
    assert (done.returncode, error in done.stdout) == (2, True), done.stdout


def test_detection_without_enforcement(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    options = ("--devices", "no-such-device")
    with (
        detecting(net, tmp_path, *options) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        wait_for_flows(us, first.flow(first.client))
