# SPDX-License-Identifier: GPL-2.0
"""slbnd finds the flows of hosts that know nothing of it, and forgets them.

    h1 ---- r1 ======== r2 ======== r3 ---- h2
        e0  slbnd  e1          e2       e3
                   50 Mbit/s   40 Mbit/s  edge, 80 Mbit/s

h1 is r1's own host. Only r1 has an agent; h1 and h2 are ordinary.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.net import Namespace, sh, wait_for
from tests.kernel.slbn import MEGA, Chain, chain
from tests.kernel.slbnd import SLBND, Agent, agent, libslbn

HOSTS = "10.0.0.0/24,fd00:0::/64"
TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
#: Source, its port, destination, its port, protocol.
Flow = tuple[str, int, str, int, int]


#: Of the links, and of links on which control packets have room for any burst.
RATES = ("50mbit", "40mbit", "80mbit")
FAST = ("2gbit", "1gbit", "2gbit")


def attach(net: Chain, rates: tuple[str, str, str]) -> None:
    for link, rate in enumerate(rates, 1):
        net.attach(link, f"rate {rate}" + " edge" * (link == 3))


@pytest.fixture(scope="module")
def net() -> Iterator[Chain]:
    with chain(4) as made:
        for link, words in (
            (1, "rate 50mbit"),
            (2, "rate 40mbit"),
            (3, "rate 80mbit edge"),
        ):
            made.attach(link, words)
        made.tc(1, "qdisc replace dev e1 parent 1:2 fq")
        # That a connection was reset is to be told by its state, and not by its end.
        sh("modprobe nf_conntrack")
        with made.nodes[1].entered():
            timeout = Path("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close")
            timeout.write_text("600")
        yield made


@contextlib.contextmanager
def finder(
    net: Chain, directory: Path, *options: str
) -> Iterator[tuple[Agent, libslbn.Connection]]:
    """slbnd on r1; what it finds there."""
    if "--config" not in options:
        options = ("--hosts", HOSTS, *options)
    with agent(net.nodes[1], directory, *options) as slbnd, slbnd.connect() as us:
        yield slbnd, us


def found(us: libslbn.Connection) -> list[libslbn.Session]:
    wanted = libslbn.DETECTED | libslbn.LEAVING
    return [session for session in us.list() if session.flags & wanted == libslbn.DETECTED]


def flows(us: libslbn.Connection) -> list[Flow]:
    return sorted(
        (s.source, s.source_port, s.destination, s.destination_port, s.protocol) for s in found(us)
    )


def come_to(us: libslbn.Connection, *expected: Flow) -> None:
    """Just these flows are found."""
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
    """A connection between two hosts, both of whose ends are ours."""

    def __init__(self, client: Namespace, server: Namespace, address: str, port: int) -> None:
        with server.entered():
            listener = socket.create_server((address, port), family=family(address))
        with client.entered():
            self.client = socket.socket(family(address))
        self.client.connect((address, port))
        self.server, _ = listener.accept()
        listener.close()

    def flow(self, source: socket.socket) -> Flow:
        """As packets from that end say."""
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


@contextlib.contextmanager
def going_on(what: Callable[[], object], pause: float = 0.05) -> Iterator[None]:
    """Something is done again and again meanwhile."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(pause):
            what()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("here", "there"), [("10.0.0.1", "10.0.3.2"), ("fd00::1", "fd00:3::2")])
def test_tcp(net: Chain, tmp_path: Path, here: str, there: str) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    with (
        finder(net, tmp_path) as (_, us),
        # The client is the own host, then the server.
        tcp(h1, h2, there, 5000) as first,
        tcp(h2, h1, here, 5000) as second,
    ):
        come_to(us, first.flow(first.client), second.flow(second.server))
        assert {session.demand for session in found(us)} == {MEGA}
        second.close()
        come_to(us, first.flow(first.client))
        with tcp(h2, h1, here, 5000) as third:
            come_to(us, first.flow(first.client), third.flow(third.server))
            first.reset()
            third.reset()
            come_to(us)


def test_tcp_ends_one_way_first(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    with finder(net, tmp_path) as (_, us), tcp(h1, h2, "10.0.3.2", 5000) as connection:
        ours = connection.flow(connection.client)
        come_to(us, ours)
        connection.server.shutdown(socket.SHUT_WR)
        assert connection.client.recv(1) == b""
        # When what is later is seen, that has been seen, too.
        with tcp(h1, h2, "10.0.3.2", 5001) as later:
            come_to(us, ours, later.flow(later.client))
        connection.client.shutdown(socket.SHUT_WR)
        come_to(us)


def test_udp_and_others(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    there = ("10.0.3.2", 7000)
    flow = ("10.0.0.1", 6000, *there, UDP)

    def stays() -> bool:
        """It is the same session for longer than it might be silent, if the clock does not jump."""
        before = [session.id for session in found(us)]
        time.sleep(2)
        return before == [session.id for session in found(us)]

    with (
        finder(net, tmp_path, "--idle", "1s") as (_, us),
        udp(h1, "10.0.0.1", 6000) as ours,
        udp(h2, *there) as theirs,
    ):
        # Nobody answers: nothing goes out.
        theirs.sendto(b"x", ("10.0.0.1", 6001))
        with going_on(lambda: ours.sendto(b"x", there)):
            come_to(us, flow)
            wait_for(stays)
        come_to(us)
        # Conntrack has not forgotten it, so no event tells that it is back.
        with going_on(lambda: ours.sendto(b"x", there)):
            come_to(us, flow)
        come_to(us)
        with going_on(lambda: theirs.sendto(b"x", ("10.0.0.1", 6000))):
            ours.sendto(b"x", there)
            come_to(us, flow)
            # Others' packets do not keep it.
            come_to(us)
        h1.sh("ping -c 1 10.0.3.2")
        come_to(us, ("10.0.0.1", 0, "10.0.3.2", 0, socket.IPPROTO_ICMP))


def test_pairs(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    pair = ("10.0.0.1", 0, "10.0.3.2", 0, 0)
    with finder(net, tmp_path, "--sessions", "pair") as (_, us):
        with tcp(h1, h2, "10.0.3.2", 5000):
            come_to(us, pair)
            (session,) = found(us)
            with tcp(h2, h1, "10.0.0.1", 5000), tcp(h1, h2, "fd00:3::2", 5000):
                come_to(us, pair, ("fd00::1", 0, "fd00:3::2", 0, 0))
            come_to(us, pair)
            assert found(us)[0].id == session.id
        come_to(us)


def test_filters_and_reload(net: Chain, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    h1, r1, r2, h2 = net.nodes[0], net.nodes[1], net.nodes[2], net.nodes[4]
    file, new = tmp_path / "slbnd.conf", tmp_path / "new"

    def choose(*lines: str) -> None:
        new.write_text("\n".join(lines) + "\n")
        new.rename(file)
        slbnd.process.send_signal(signal.SIGHUP)

    file.write_text(f"hosts = {HOSTS}\nonly = tcp,icmp\nports = 80,5000-5001\n")
    with (
        finder(net, tmp_path, "--config", str(file)) as (slbnd, us),
        udp(h1, "10.0.0.1", 5000) as other,
        tcp(h1, h2, "10.0.3.2", 5000) as first,
        tcp(h2, h1, "10.0.0.1", 5001) as second,
        tcp(h1, h2, "10.0.3.2", 5002) as third,
        # To the router itself, from it, and between others.
        tcp(h1, r1, "10.0.0.2", 5000),
        tcp(r1, h2, "10.0.3.2", 80),
        tcp(r2, h2, "10.0.3.2", 5001),
        going_on(lambda: first.client.send(b"x")),
        going_on(lambda: first.server.send(b"x")),
        going_on(lambda: third.client.send(b"x")),
    ):
        other.sendto(b"x", ("10.0.3.2", 5000))
        flow1, flow2 = first.flow(first.client), second.flow(second.server)
        flow3 = third.flow(third.client)
        come_to(us, flow1, flow2)
        numbers = {session.id for session in found(us)}
        choose(f"hosts = {HOSTS}", "only = tcp", "ports = 5000-5002", "initial = 2mbit")
        come_to(us, flow1, flow2, flow3)
        assert numbers < {session.id for session in found(us)}
        assert 2 * MEGA in (session.demand for session in found(us))
        choose(f"hosts = {HOSTS}", "only = 6", "ports = 5001")
        come_to(us, flow2)
        for line, says in (
            ("ports = 80,0", "must be ports"),
            ("devices = e1", "devices cannot be changed"),
        ):
            capfd.readouterr()
            choose(f"hosts = {HOSTS}", line)
            said: list[str] = []

            def refused(says: str = says, said: list[str] = said) -> bool:
                said.append(capfd.readouterr().err)
                return says in "".join(said) and "the configuration is unchanged" in "".join(said)

            wait_for(refused)
            (session,) = found(us)
            assert session.id in numbers
        choose("")
        come_to(us)
        assert ruleset(r1) == ""
        choose("hosts = 10.0.3.0/24", "only = tcp", "ports = 5000")
        come_to(us, first.flow(first.server))


def test_what_runs_already(net: Chain, tmp_path: Path) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    others = "table ip other { chain c { ct state new counter; }; }"
    for rule, number in ("", signal.SIGTERM), (others, signal.SIGKILL):
        if rule:
            r1.sh(f'echo "{rule}" | nft -f -')
        before = ruleset(r1)
        with (
            tcp(h1, h2, "10.0.3.2", 5000) as connection,
            tcp(h1, h2, "10.0.3.2", 5001) as ending,
            going_on(lambda: connection.client.send(b"x")),
        ):
            ours = connection.flow(connection.client)
            with going_on(lambda: ending.client.send(b"x")), finder(net, tmp_path) as (slbnd, us):
                come_to(us, ours, ending.flow(ending.client))
                assert "inet slbnd" in ruleset(r1)
                slbnd.end(number)
            wait_for(rules_are(r1, before))
            # It ends while nobody looks: conntrack may still believe in it.
            ending.close()
            with finder(net, tmp_path) as (_, us):
                come_to(us, ours)
    r1.sh("nft delete table ip other")


def drops(node: Namespace) -> int:
    """Messages that the kernel could not give to netlink's sockets."""
    with node.entered():
        lines = Path("/proc/thread-self/net/netlink").read_text().splitlines()[1:]
    return sum(int(line.split()[8]) for line in lines)


def test_events_that_are_lost(net: Chain, tmp_path: Path) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    # Without loss nothing would be read anew in this test's time.
    options = ("--only", "tcp", "--idle", "3600s", "--devices", "e1")
    with (
        finder(net, tmp_path, *options) as (slbnd, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        come_to(us, first.flow(first.client))
        slbnd.process.send_signal(signal.SIGSTOP)
        with udp(h1, "10.0.0.1") as noise:
            for port in range(10000, 50000):
                noise.sendto(b"x", ("10.0.1.2", port))
                if port % 1000 == 0 and drops(r1):
                    break
        with (
            tcp(h1, h2, "10.0.3.2", 5001) as second,
            going_on(lambda: second.client.send(b"x")),
        ):
            first.close()
            assert drops(r1) > 0
            slbnd.process.send_signal(signal.SIGCONT)
            come_to(us, second.flow(second.client))


def test_a_thousand_short_connections(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    attach(net, FAST)
    before = net.shown(1)
    with finder(net, tmp_path) as (_, us):
        with h2.entered():
            listener = socket.create_server(("10.0.3.2", 5000), backlog=100)
        with h1.entered(), listener:
            for _ in range(1000):
                client = socket.create_connection(("10.0.3.2", 5000))
                listener.accept()[0].close()
                client.close()
        wait_for(lambda: not us.list())
        shown = net.shown(1)
        # Some packets are sent twice.
        assert shown["joins"] - before["joins"] >= 1000
        assert shown["leaves"] - before["leaves"] >= 1000
        # Those of an agent that was killed before this one are forgotten soon.
        wait_for(lambda: net.shown(1)["sessions"] == 0)
    attach(net, RATES)


def test_address_translation(net: Chain, tmp_path: Path) -> None:
    h1, r1, h2 = net.nodes[0], net.nodes[1], net.nodes[4]
    rules = """table ip nat {
        chain out { type nat hook postrouting priority 100; oifname e1 masquerade; }
        chain in { type nat hook prerouting priority -100;
            ip daddr 10.0.1.1 tcp dport 80 dnat to 10.0.0.1:5001; }
    }"""
    r1.sh(f'echo "{rules}" | nft -f -')
    try:
        with finder(net, tmp_path) as (_, us), tcp(h1, h2, "10.0.3.2", 5000) as first:
            port = first.server.getpeername()[1]
            out = ("10.0.1.1", port, "10.0.3.2", 5000, TCP)
            come_to(us, out)
            with h1.entered():
                listener = socket.create_server(("10.0.0.1", 5001))
            with h2.entered(), listener:
                client = socket.create_connection(("10.0.1.1", 80))
                server, _ = listener.accept()
            with client, server:
                back = ("10.0.1.1", 80, *client.getsockname(), TCP)
                come_to(us, out, back)
    finally:
        r1.sh("nft delete table ip nat")


def pour(end: socket.socket) -> Callable[[], None]:
    """Send some, if there is room."""
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
    """By what conntrack counts, with nothing held."""
    h1, h2 = net.nodes[0], net.nodes[4]
    with (
        finder(net, tmp_path) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as connection,
        udp(h1, "10.0.0.1", 6000) as modest,
    ):

        def demands() -> dict[int, int]:
            return {session.protocol: session.demand for session in found(us)}

        with (
            going_on(drain(connection.server), 0.001),
            going_on(lambda: modest.sendto(bytes(972), ("10.0.3.2", 7000))),
        ):
            with going_on(pour(connection.client), 0.001):
                wait_for(lambda: demands().get(TCP, 0) > 10 * MEGA, 40)
                # 20 packets of 1000 octets each second, or fewer if the machine is slow.
                wait_for(lambda: 64000 <= demands().get(UDP, 0) <= 200000, 40)
            wait_for(lambda: demands()[TCP] < 100000, 40)


class Stream:
    """A TCP connection whose sender has always more to say, while it is told to go on."""

    def __init__(self, ends: Tcp) -> None:
        self.ends = ends
        self.received = 0
        self.some = pour(ends.client)
        ends.server.setblocking(False)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.received += len(self.ends.server.recv(1 << 20))

    def goodput(self) -> float:
        """In bit/s, as seen for a while."""
        start, before = time.monotonic(), self.received
        time.sleep(1.5)
        return (self.received - before) * 8 / (time.monotonic() - start)


def test_flows_are_held_to_their_rates(net: Chain, tmp_path: Path) -> None:
    """Links do not shape here: what flows get is what they are held to."""
    h1, h2 = net.nodes[0], net.nodes[4]
    attach(net, ("50mbit", "8mbit", "80mbit"))
    with (
        finder(net, tmp_path, "--devices", "e1", "--only", "tcp") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
        tcp(h1, h2, "10.0.3.2", 5001) as second,
    ):
        streams = [Stream(first), Stream(second)]

        def rates() -> dict[int, int]:
            return {session.destination_port: session.rate for session in found(us)}

        def gets(stream: Stream, rate: int) -> Callable[[], bool]:
            return lambda: abs(stream.goodput() / rate - 1) < 0.05

        with (
            going_on(streams[0].drain, 0.001),
            going_on(streams[1].drain, 0.001),
            going_on(streams[0].some, 0.001),
        ):
            with going_on(streams[1].some, 0.001):
                # Each asks for 1 Mbit/s at first.
                wait_for(lambda: rates() == {5000: 4 * MEGA, 5001: 4 * MEGA}, 40)
                for stream in streams:
                    wait_for(gets(stream, 4 * MEGA), 40)
            wait_for(lambda: rates()[5001] <= 64000, 40)
            rest = 8 * MEGA - 64000
            wait_for(lambda: rates()[5000] == rest, 40)
            wait_for(gets(streams[0], rest), 40)
    attach(net, RATES)


def test_what_is_not_used_is_others(net: Chain, tmp_path: Path) -> None:
    """However large the first demands were: of what only acknowledges, and of what is steady."""
    h1, h2 = net.nodes[0], net.nodes[4]
    attach(net, ("50mbit", "8mbit", "80mbit"))
    with (
        finder(net, tmp_path, "--devices", "e1", "--initial", "20mbit") as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as greedy,
        tcp(h2, h1, "10.0.0.1", 5001) as other,
        udp(h1, "10.0.0.1", 6000) as modest,
    ):
        stream = Stream(greedy)

        def rates() -> dict[tuple[int, int], int]:
            return {(s.protocol, s.source_port): s.rate for s in found(us)}

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
            going_on(stream.some, 0.001),
            going_on(stream.drain, 0.001),
            # At most 64 Kbyte each time.
            going_on(pour(other.client)),
            going_on(drain(other.server), 0.001),
            going_on(lambda: modest.sendto(bytes(1000), ("10.0.3.2", 7000)), 0.0125),
        ):
            try:
                wait_for(settled, 20)
            except AssertionError:
                raise AssertionError(f"{rates()}") from None
            wait_for(stays, 40)
            # What is used is told, too; of ours nothing is.
            ours = us.join("10.0.3.2", 64000, protocol=UDP, destination_port=9)
            wait_for(lambda: all(session.used is not None for session in us.list()))
            used = {s.source_port: s.used for s in us.list() if s.protocol == UDP}
            assert used[0] == 0 and 300000 < (used[6000] or 0) < 900000
            us.leave(ours)
    attach(net, RATES)


@pytest.mark.parametrize(
    ("options", "says"),
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
        (["--sessions", "host"], "must be flow or pair"),
        (["--idle", "1"], "must be 1s to 3600s"),
        (["--initial", "0"], "must be 1bit"),
        (["--devices", "a-name-that-is-too-long"], "must be names of devices"),
    ],
)
def test_options_that_make_no_sense(options: list[str], says: str) -> None:
    done = sh(f"{SLBND} --config /dev/null {' '.join(options)}", check=False)
    assert (done.returncode, says in done.stdout) == (2, True), done.stdout


def test_devices_that_cannot_be_held(net: Chain, tmp_path: Path) -> None:
    h1, h2 = net.nodes[0], net.nodes[4]
    options = ("--devices", "no-such-device")
    with (
        finder(net, tmp_path, *options) as (_, us),
        tcp(h1, h2, "10.0.3.2", 5000) as first,
    ):
        come_to(us, first.flow(first.client))
