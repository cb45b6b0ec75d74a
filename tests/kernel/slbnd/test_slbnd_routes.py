# SPDX-License-Identifier: GPL-2.0
"""Control packets take the path of their flow's data, and answers return by any route.

                       .--- b0 ---.
    host s --- a [--- r] --- b1 --- c --- host t
                       `--- ... --'

Flows from addresses of s to addresses of t have sessions at the agent on a; c-t is an edge link.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kernel.lib.domain import Domain, Plan, Session, domain, link_local
from tests.kernel.lib.net import wait_for
from tests.kernel.lib.slbn import MEGA
from tests.kernel.lib.slbn_tap import Tap, close
from tests.kernel.lib.slbn_wire import IPPROTO_UDP, PORT, PROBE, PROBE_ACK, packet_type
from tests.kernel.lib.slbnd import libslbn

pytestmark = pytest.mark.virtual

#: The tests that `make test` runs with one family alternate it; the code differs by the address.
EVERYWHERE = pytest.mark.tier("all")
IPV4 = pytest.param(False, id="ipv4")
IPV6 = pytest.param(True, id="ipv6")
KEY = bytes(range(16))
DISCARD = 9
#: Hash IPv6 addresses only. By default (layer 3) protocol and flow label are hashed, too. Linux
#: computes another hash for packets that it sends itself: so only for routers in the core.
ADDRESSES_ONLY = (("fib_multipath_hash_policy", "3"), ("fib_multipath_hash_fields", "3"))
IPV6_AUTOFLOWLABEL = 70
#: Addresses of each host by the number of paths: so many that hashing leaves none with fewer than
#: two flows (of four paths, 24 flows did, one time in 28).
FLOWS = {1: 6, 2: 40, 4: 64}


def middle(count: int) -> list[str]:
    return [f"b{n}" for n in range(count)]


def plan(count: int, fork: str = "a", **options: object) -> Plan:
    """Paths from a or r to c over `count` routers, each with another capacity."""
    rates = {"s-a": 200 * MEGA, "c-t": 200 * MEGA}
    if fork != "a":
        rates[f"a-{fork}"] = 200 * MEGA
    for n, node in enumerate(middle(count)):
        rates |= {f"{fork}-{node}": 40 * MEGA, f"{node}-c": (12 + 7 * n) * MEGA}
    rates |= {"-".join(reversed(link.split("-"))): 50 * MEGA for link in rates}
    return Plan(rates, ("a",), ("s", "t"), **options)  # type: ignore[arg-type]


def net_of(host: str, six: bool) -> str:
    number = 1 + "st".index(host)
    return f"fd02:{number}::/64" if six else f"10.2.{number}.0/24"


def address(host: str, number: int, six: bool) -> str:
    prefix = net_of(host, six).split("/")[0]
    return f"{prefix}{number + 1:x}" if six else f"{prefix[:-1]}{number + 1}"


def hop(net: Domain, node: str, following: str, six: bool) -> str:
    """A next hop."""
    to = link_local(net.plan, following) if six else net.plan.address(following, six)
    return f"via {to} dev {following} onlink"


def add_routes(net: Domain, flows: int = FLOWS[1]) -> None:
    """Addresses of hosts, and routes to them as to the hosts themselves."""
    for host in net.plan.hosts:
        for six in (False, True):
            length = 128 if six else 32
            own = [f"{address(host, n, six)}/{length} dev lo" for n in range(flows)]
            net.nodes[host].ip(*(f"addr add {each}{' nodad' * six}" for each in own))
            for node in net.plan.nodes:
                if node in net.plan.hosts:
                    continue
                following = net.plan.paths(node)[host][1]
                source = net.plan.address(node, six)
                route = f"{net_of(host, six)} {hop(net, node, following, six)} src {source}"
                net.nodes[node].ip(f"route replace {route}")


def spread(net: Domain, node: str, host: str, over: Sequence[str]) -> None:
    """Route to a host over several next hops of the same weight."""
    for six in (False, True):
        hops = " ".join(f"nexthop {hop(net, node, each, six)}" for each in over)
        source = net.plan.address(node, six)
        net.nodes[node].ip(f"route replace {net_of(host, six)} src {source} {hops}")
    if node == "a":
        return
    with net.nodes[node].entered():
        for name, value in ADDRESSES_ONLY:
            (Path("/proc/sys/net/ipv6") / name).write_text(value)


def ends(frame: bytes) -> tuple[str, str, bytes] | None:
    """Source, destination and transport header with payload of a UDP packet."""
    packet = frame[14:]
    if packet[0] >> 4 == 4 and packet[9] == IPPROTO_UDP:
        a, b, rest = packet[12:16], packet[16:20], packet[4 * (packet[0] & 15) :]
        return socket.inet_ntop(socket.AF_INET, a), socket.inet_ntop(socket.AF_INET, b), rest
    if packet[0] >> 4 == 6 and packet[6] == IPPROTO_UDP:
        a, b = packet[8:24], packet[24:40]
        return (
            socket.inet_ntop(socket.AF_INET6, a),
            socket.inet_ntop(socket.AF_INET6, b),
            packet[40:],
        )
    return None


def is_control(transport: bytes) -> bool:
    return transport[:4] == PORT.to_bytes(2, "big") * 2


@dataclass
class Watch:
    """Packets that devices receive: each link's at its end, and those of the hosts."""

    taps: dict[str, Tap]
    #: By link, and source and destination address: data, and control packets downstream.
    data: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    control: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    #: By link: answers.
    answers: Counter[str] = field(default_factory=Counter)

    def read(self) -> None:
        for link, tap in self.taps.items():
            for frame in tap.frames():
                found = ends(frame)
                if found is None:
                    continue
                source, destination, transport = found
                control = is_control(transport)
                kind = packet_type(transport[8:]) if control else None
                if kind == PROBE_ACK:
                    self.answers[link] += 1
                elif kind in (PROBE, None):
                    counts = self.control if control else self.data
                    counts.setdefault(link, Counter())[source, destination] += 1

    def clear(self) -> None:
        self.read()
        self.data.clear()
        self.control.clear()
        self.answers.clear()


@contextlib.contextmanager
def watch(net: Domain) -> Iterator[Watch]:
    taps = {}
    with net.wires.entered():
        for link in net.plan.links:
            here, there = link.split("-")
            taps[link] = Tap(f"{there}-{here}")
    try:
        yield Watch(taps)
    finally:
        close(list(taps.values()))


@contextlib.contextmanager
def hosts_get_no_control(net: Domain) -> Iterator[None]:
    """Neither control packets, nor ICMP errors that quote them."""
    taps = []
    for host, router in (("s", "a"), ("t", "c")):
        with net.nodes[host].entered():
            taps.append(Tap(router))
    yield
    ports = PORT.to_bytes(2, "big") * 2
    assert [frame for tap in taps for frame in tap.frames() if ports in frame] == []
    close(taps)


def send_data(net: Domain, number: int, six: bool) -> tuple[str, str]:
    """A UDP packet of a flow; returns its addresses."""
    pair = address("s", number, six), address("t", number, six)
    family = socket.AF_INET6 if six else socket.AF_INET
    with net.nodes["s"].entered(), socket.socket(family, socket.SOCK_DGRAM) as sender:
        if six:
            sender.setsockopt(socket.IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0)
        sender.bind((pair[0], 0))
        sender.sendto(b"data", (pair[1], DISCARD))
    return pair


def data_paths(
    net: Domain, seen: Watch, six: bool, flows: int = FLOWS[1]
) -> dict[tuple[str, str], list[str]]:
    """Send data of all flows; returns the links of each from a on."""
    seen.clear()
    pairs = [send_data(net, number, six) for number in range(flows)]

    def arrived() -> bool:
        seen.read()
        return all(pair in seen.data.get("c-t", Counter()) for pair in pairs)

    wait_for(arrived)
    used = {pair: [link for link, counts in seen.data.items() if pair in counts] for pair in pairs}
    order = "arbc"
    return {
        pair: sorted(set(links) - {"s-a"}, key=lambda link: order.index(link[0]))
        for pair, links in used.items()
    }


def join(net: Domain, paths: dict[tuple[str, str], list[str]]) -> dict[Session, tuple[str, str]]:
    """Sessions of these flows."""
    made = {}
    for pair, path in paths.items():
        session = Session("a", "t", path=path)
        session.number = net.clients["a"].join(pair[1], source=pair[0])
        made[session] = pair
    net.sessions += made
    return made


def check_control(seen: Watch, sessions: dict[Session, tuple[str, str]]) -> None:
    """Control packets are on the links of the data, and on no others."""
    seen.clear()

    def enough() -> bool:
        seen.read()
        return all(
            seen.control.get(session.path[-2], Counter())[pair] >= 5
            for session, pair in sessions.items()
        )

    wait_for(enough)
    for session, pair in sessions.items():
        links = {link for link, counts in seen.control.items() if pair in counts}
        # The edge answers them.
        assert links == set(session.path) - {"c-t"}, (pair, links, session.path)


def check_path(net: Domain, session: Session, six: bool) -> None:
    """The reported path is that of the data."""
    client, agent = net.clients["a"], net.agents["a"]
    routers = [net.plan.address(link.split("-")[0], six) for link in session.path]
    assert [hop.router for hop in client.path(session.number)] == routers
    shown = agent.show(session.number)
    assert [hop["router"] for hop in shown["path"]] == routers
    assert [hop["hop"] for hop in shown["path"]] == list(range(len(routers)))
    # All its links state their shares; a link limits it.
    assert shown["share_complete"]
    assert client.share(session.number) == (shown["share"], True)
    assert shown["share"] == pytest.approx(shown["rate"], rel=1e-3)
    bottleneck = shown["bottleneck"]
    at = bottleneck["hop"]
    assert bottleneck["router"] == routers[at]
    assert bottleneck["link"] == shown["path"][at]["link"]
    (state,) = (each for each in client.list() if each.id == session.number)
    assert state.limit == libslbn.Hop(routers[at], bottleneck["link"])


def over_each(
    paths: dict[tuple[str, str], list[str]], count: int
) -> dict[tuple[str, str], list[str]]:
    """Two flows over each path of `count`."""
    chosen: dict[tuple[str, str], list[str]] = {}
    used: Counter[str] = Counter()
    for pair, path in paths.items():
        # The link to c.
        if used[path[-2]] < 2:
            used[path[-2]] += 1
            chosen[pair] = path
    assert len(used) == count and min(used.values()) == 2, used
    return chosen


@pytest.mark.parametrize(
    ("fork", "count", "six"),
    [
        ("a", 2, False),
        pytest.param("a", 2, True, marks=EVERYWHERE),
        ("r", 2, True),
        pytest.param("r", 4, False, marks=EVERYWHERE),
        pytest.param("r", 4, True, marks=EVERYWHERE),
    ],
)
def test_equal_cost_paths(tmp_path: Path, fork: str, count: int, six: bool) -> None:
    """With hashing of addresses, each session has the rate of the path that its data takes."""

    def prepare(net: Domain) -> None:
        add_routes(net, FLOWS[count])
        spread(net, fork, "t", middle(count))

    with domain(plan(count, fork), tmp_path, prepare) as net, watch(net) as seen:
        paths = over_each(data_paths(net, seen, six, FLOWS[count]), count)
        assert {len(path) for path in paths.values()} == {3 if fork == "a" else 4}
        with hosts_get_no_control(net):
            sessions = join(net, paths)
            net.settle()
            check_control(seen, sessions)
            for session in sessions:
                check_path(net, session, six)


@pytest.mark.parametrize("six", [IPV4, pytest.param(True, id="ipv6", marks=EVERYWHERE)])
def test_asymmetric_routes(tmp_path: Path, six: bool) -> None:
    """No answer returns by the devices of its packet; with a key."""
    lengths = {"a-b0": 1, "b0-c": 1, "b0-a": 5, "c-b0": 5}
    lengths |= {"a-b1": 5, "b1-c": 5, "b1-a": 1, "c-b1": 1}
    file = tmp_path / "key"
    file.write_text(KEY.hex())
    made = plan(2, lengths=lengths, options={"a": ("--key-file", str(file))})
    made = Plan(**{**vars(made), "keys": dict.fromkeys(made.links, KEY)})
    with domain(made, tmp_path, add_routes) as net, watch(net) as seen:
        paths = dict(list(data_paths(net, seen, six).items())[:3])
        assert set(map(tuple, paths.values())) == {("a-b0", "b0-c", "c-t")}
        with hosts_get_no_control(net):
            sessions = join(net, paths)
            net.settle()
            check_control(seen, sessions)
            assert "b0-a" not in seen.answers and "c-b0" not in seen.answers
            # From c to b0, and from b0 to a.
            assert {"c-b1", "b1-a", "a-b0", "b0-c"} <= set(seen.answers)
            for session in sessions:
                check_path(net, session, six)
            status = net.clients["a"].status()
            assert (status.bad_key, status.bad_return) == (0, 0)


@pytest.mark.parametrize("six", [pytest.param(False, id="ipv4", marks=EVERYWHERE), IPV6])
def test_policy_routing(tmp_path: Path, six: bool) -> None:
    """Rules that select a route by source address apply to control packets, too."""

    def prepare(net: Domain) -> None:
        add_routes(net)
        family = "-6" if six else "-4"
        route = f"{net_of('t', six)} {hop(net, 'a', 'b1', six)}"
        net.nodes["a"].sh(f"ip {family} route add {route} table 100")
        for n in range(0, FLOWS[1], 2):
            net.nodes["a"].sh(f"ip {family} rule add from {address('s', n, six)} lookup 100")

    with domain(plan(2), tmp_path, prepare) as net, watch(net) as seen:
        paths = data_paths(net, seen, six)
        firsts = [path[0] for path in paths.values()]
        assert firsts == ["a-b1", "a-b0"] * (FLOWS[1] // 2)
        with hosts_get_no_control(net):
            sessions = join(net, dict(list(paths.items())[:5]))
            net.settle()
            check_control(seen, sessions)


#: Sessions begin with the first packet.
ALL_FLOWS = ("--join-packets", "0", "--join-bytes", "0")


@pytest.mark.parametrize("six", [IPV4, pytest.param(True, id="ipv6", marks=EVERYWHERE)])
def test_detected_flows_with_marks(tmp_path: Path, six: bool) -> None:
    """Control packets have the mark of their connection, and are no flows themselves."""
    hosts = f"{net_of('s', False)},{net_of('s', True)}"
    rules = """
        table inet marks {
            chain prerouting {
                type filter hook prerouting priority mangle
                udp dport 9 ct mark set 7 meta mark set ct mark
            }
        }"""
    made = plan(2, options={"a": ("--hosts", hosts, "--sessions", "pair", *ALL_FLOWS)})

    def prepare(net: Domain) -> None:
        add_routes(net)
        family = "-6" if six else "-4"
        route = f"{net_of('t', six)} {hop(net, 'a', 'b1', six)}"
        net.nodes["a"].sh(f"ip {family} route add {route} table 100")
        net.nodes["a"].sh(f"ip {family} rule add fwmark 7 lookup 100")
        file = tmp_path / "rules"
        file.write_text(rules)
        net.nodes["a"].sh(f"nft -f {file}")

    with domain(made, tmp_path, prepare) as net, watch(net) as seen:
        client = net.clients["a"]
        pairs = {(address("s", n, six), address("t", n, six)) for n in range(3)}
        with hosts_get_no_control(net):

            def flows() -> set[tuple[str, str]]:
                for number in range(3):
                    send_data(net, number, six)
                seen.read()
                return {(state.source, state.destination) for state in client.list()}

            def answered() -> bool:
                return flows() == pairs and all(state.cycles > 5 for state in client.list())

            wait_for(answered)
            assert len(client.list()) == 3
            assert seen.data["a-b1"].keys() >= pairs
            assert seen.control["a-b1"].keys() == pairs
            assert "a-b0" not in seen.data and "a-b0" not in seen.control


@pytest.mark.tier("all")
def test_replaced_sessions_keep_their_mark(tmp_path: Path) -> None:
    """A host's sessions are replaced as it gets more; the mark of a connection may have changed."""
    made = plan(2, options={"a": ("--hosts", net_of("s", False), "--sessions", "host", *ALL_FLOWS)})
    rule = "udp dport 9 ct mark set {} meta mark set ct mark"

    def prepare(net: Domain) -> None:
        add_routes(net)
        for mark, link in ((7, "b1"), (8, "b0")):
            route = f"{net_of('t', False)} {hop(net, 'a', link, False)}"
            net.nodes["a"].sh(f"ip route add {route} table {mark}")
            net.nodes["a"].sh(f"ip rule add fwmark {mark} lookup {mark}")
        net.nodes["a"].sh("nft add table inet marks")
        hook = "type filter hook prerouting priority mangle;"
        net.nodes["a"].sh(f"nft 'add chain inet marks prerouting {{ {hook} }}'")
        net.nodes["a"].sh(f"nft add rule inet marks prerouting {rule.format(7)}")

    with domain(made, tmp_path, prepare) as net, watch(net) as seen:
        client = net.clients["a"]
        with net.nodes["s"].entered(), socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.bind((address("s", 0, False), 0))

            def runs(flows: int) -> bool:
                for number in range(flows):
                    sender.sendto(b"data", (address("t", number, False), DISCARD))
                found = client.list()
                return len(found) == flows and all(state.cycles > 5 for state in found)

            wait_for(lambda: runs(1))
            first = client.list()[0].id
            net.nodes["a"].sh("nft flush chain inet marks prerouting")
            net.nodes["a"].sh(f"nft add rule inet marks prerouting {rule.format(8)}")

            def moved() -> bool:
                seen.clear()
                assert runs(1)
                time.sleep(0.5)
                seen.read()
                return bool(seen.control.get("a-b0")) and not seen.control.get("a-b1")

            wait_for(moved)
            wait_for(lambda: runs(3))
            assert first not in {state.id for state in client.list()}
            seen.clear()
            time.sleep(1)
            seen.read()
            assert seen.control["a-b0"] and not seen.control.get("a-b1")
