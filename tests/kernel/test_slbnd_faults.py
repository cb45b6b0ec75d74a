# SPDX-License-Identifier: GPL-2.0
"""What goes wrong in a domain, and that rates are the exact ones nonetheless, or soon again.

    a0 ----.          .---- x ----.
            left ----'             right ---- z ---- host
    a1 ----'    `---- y ----------'
                     /
               a2 --'

Agents are on a0, a1, a2 and z; z is the edge towards the host. From left to right the way by x is
the shorter one. All links can carry something else, both ways, and up to three of a session's links
are bottlenecks of different rates for somebody.
"""

from __future__ import annotations

import fcntl
import random
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.domain import Domain, Plan, Session, domain
from tests.kernel.net import Namespace, wait_for
from tests.kernel.slbn import MEGA
from tests.kernel.slbn_tap import Tap, close, send, sender
from tests.kernel.slbn_wire import (
    JOIN,
    LEAVE,
    LEAVE_ACK,
    NO_HOP,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    Datagram,
    Packet,
    State,
    read_packet,
    read_udp,
)
from tests.kernel.slbnd import libslbn

SIOCGIFHWADDR = 0x8927


def both_ways(rates: dict[str, int]) -> dict[str, int]:
    """A little less on the way back, so that no two are the same."""
    back = {"-".join(reversed(link.split("-"))): rate - 1_000_033 for link, rate in rates.items()}
    return rates | back


#: bit/s; odd enough that divisions leave a remainder.
LINKS = both_ways(
    {
        "a0-left": 61_000_003,
        "a1-left": 97_000_001,
        "a2-y": 53_000_013,
        "left-x": 43_000_007,
        "left-y": 37_000_019,
        "x-right": 71_000_009,
        "y-right": 29_000_011,
        "right-z": 83_000_027,
        "z-host": 19_000_013,
    }
)

#: Nobody wants to go to a1, which will be killed.
PLAN = Plan(
    links=LINKS,
    agents=("a0", "a1", "a2", "z"),
    hosts=("host",),
    lengths={"left-y": 2, "y-right": 2},
)


def company() -> list[Session]:
    return [
        Session("a0", "z"),
        Session("a0", "z", six=True),
        Session("a0", "host"),
        Session("a0", "a2", 7 * MEGA),
        Session("a1", "z", 3 * MEGA),
        Session("a1", "host", six=True),
        Session("a1", "z"),
        Session("a1", "a2", six=True),
        Session("a2", "z"),
        Session("a2", "z", 2 * MEGA, six=True),
        Session("a2", "host"),
        Session("a2", "a0"),
        Session("z", "a0"),
        Session("z", "a0", six=True),
        Session("z", "a2", 11 * MEGA),
    ]


#: Epochs: two take away what is wrong, and two more are plenty for sessions to find their rates.
HEALED = 4
#: And while packets are lost all the time, where a lost answer costs a time-out.
IN_LOSS = 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with domain(PLAN, tmp_path_factory.mktemp("domain")) as made:
        made.join(*company())
        made.come_to_rest()
        yield made


@pytest.fixture
def net(base: Domain) -> Iterator[Domain]:
    """A test begins with rates that are exact, and leaves them so."""
    before = len(base.sessions)
    yield base
    base.come_to_rest()
    assert len(base.sessions) == before


def healed(net: Domain, what: str, since: dict[str, State], within: int = HEALED) -> None:
    needed = net.come_to_rest(since)
    print(f"{what}: exact in epoch {needed}")
    assert needed <= within


@pytest.mark.parametrize(
    ("harm", "bound"),
    [
        ("loss 0.1%", 0),
        ("loss 1%", 0),
        ("loss 5%", 1e-6),
        ("delay 4ms 3ms", 0),
        ("duplicate 20%", 0),
        ("delay 2ms 2ms loss 1% duplicate 10%", 0),
    ],
)
def test_wires_that_harm(net: Domain, harm: str, bound: float) -> None:
    """While packets are lost (each on each wire), come twice, or pass others."""
    more = [Session("a0", "z"), Session("z", "a2", six=True), Session("a2", "a0")]

    def retries() -> int:
        return sum(said.retries for each, said in net.told().items() if each not in more)

    before = retries()
    with net.harm(harm):
        since = net.states()
        net.join(*more)
        healed(net, f"{harm}, joins", since, IN_LOSS)
        assert net.deviation(2) <= bound
        since = net.states()
        net.leave(*more)
        healed(net, f"{harm}, leaves", since, IN_LOSS)
        assert net.deviation(2) <= bound
    if harm.startswith(("loss 1%", "loss 5%")):
        assert retries() > before


def test_an_agent_is_killed(net: Domain) -> None:
    since = net.states()
    gone = net.kill("a1")
    healed(net, "an agent is killed", since)
    since = net.states()
    net.start("a1")
    net.join(*gone)
    healed(net, "another one is started", since)


def test_a_router_begins_anew(net: Domain) -> None:
    """Its qdiscs are deleted and added, while packets are on their way."""
    links = {link: net.capacities[link] for link in ("left-x", "x-left")}
    since = net.states()
    for link in links:
        net.detach(link)
        del net.capacities[link], since[link]
    healed(net, "a router's qdiscs are deleted", since)
    net.capacities.update(links)
    for link in links:
        net.begin(link)
    healed(net, "they are added", net.states())


def test_a_link_goes_down(net: Domain) -> None:
    with net.broken("left-x"):
        since = net.states()
        assert net.crossing("x-right") == 0 < net.crossing("left-y")
        healed(net, "a link goes down", since)
        assert net.state("x-right").N == net.state("left-x").N == 0
    healed(net, "it comes up", net.states())


def test_a_link_carries_less(net: Domain) -> None:
    for link in ("left-x", "right-z"):
        rate = net.capacities[link]
        for now in (rate // 2, rate):
            since = net.states()
            net.carry({link: now})
            healed(net, f"{link} carries {now / MEGA:.0f} Mbit/s", since)


def address(where: Namespace, device: str) -> bytes:
    """A device's MAC address."""
    with where.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        asked = struct.pack("16s16x", device.encode())
        return fcntl.ioctl(made, SIOCGIFHWADDR, asked)[18:24]


def overhear(net: Domain, *links: str) -> list[Packet]:
    """Packets of all sessions that cross these links, both ways."""
    with net.wires.entered():
        taps = [Tap(f"{b}-{a}") for a, b in (link.split("-") for link in links)]
    found: list[Packet] = []
    wanted = {each for link in links for each in net.sessions if link in each.path}

    def enough() -> bool:
        for tap in taps:
            payloads = [read_udp(frame)[0] for frame in tap.frames()]
            found.extend(read_packet(each) for each in payloads if each[:4] == b"SLBN")
        return len({each.id for each in found}) >= len(wanted) and len(found) > 60

    wait_for(enough)
    close(taps)
    return found


def forgeries(heard: list[Packet], number: int, chance: random.Random) -> Iterator[Packet]:
    """Packets as they might be, of sessions that there are."""
    for _ in range(number):
        packet = chance.choice(heard)
        changes: dict[str, Any] = {
            "type": chance.choice([JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK]),
            "seq": packet.seq + chance.choice([0, 1, 2, 1000, -1]) & 0xFFFFFFFF,
            "hop": chance.randrange(7),
            "bottleneck": chance.choice([NO_HOP, 0, 1, 2, 3]),
            "bw": chance.choice([1, packet.bw, RATE_MAX]),
            "bw1": chance.choice([1, packet.bw1, RATE_MAX]),
            "bw2": chance.choice([0, packet.bw2, RATE_MAX]),
            "B": chance.choice([0, packet.B, (1 << 32) - 1]),
        }
        if chance.random() < 0.3:
            changes["tags"] = {hop: chance.randrange(1, 65536) for hop in range(8)}
        chosen = chance.sample(sorted(changes), chance.randrange(len(changes) + 1))
        yield replace(packet, **{name: changes[name] for name in chosen})


def frames(
    net: Domain, packets: Iterable[Packet], to_mac: bytes, chance: random.Random
) -> Iterator[bytes]:
    """Between any two routers, in the name of any."""
    for packet in packets:
        payload = packet.pack()
        if chance.random() < 0.2:
            payload = b"SLBN" + chance.randbytes(chance.randrange(1, 200))
        v6 = chance.random() < 0.3
        source, destination = chance.sample(net.plan.nodes, 2)
        yield Datagram(
            payload,
            v6,
            source=net.plan.address(source, v6),
            destination=net.plan.address(destination, v6),
            to_mac=to_mac,
        ).frame()


#: What a link counts of packets that are not as they should be.
REFUSED = (
    "malformed",
    "bad_checksum",
    "fragments",
    "bad_key",
    "from_hosts",
    "too_many_hops",
    "wrong_path",
)


def refused(before: dict[str, State], after: dict[str, State]) -> dict[str, dict[str, int]]:
    changes = {link: state.changes(after[link]) for link, state in before.items()}
    counted = {
        link: {name: n for name, n in grown.items() if name in REFUSED}
        for link, grown in changes.items()
    }
    return {link: grown for link, grown in counted.items() if grown}


def test_a_host_that_forges(net: Domain) -> None:
    """It knows all that there is to know of sessions, and takes anybody's address."""
    chance = random.Random(7)
    heard = overhear(net, "right-z", "z-right")
    to_mac = address(net.nodes["z"], "host")
    before = net.states()
    exact = net.exact()
    sent = 0
    with net.nodes["host"].entered():
        out = sender("z")
    with out:
        for _ in range(20):
            for frame in frames(net, forgeries(heard, 50, chance), to_mac, chance):
                send(out, frame)
                sent += 1
            assert not net.wrong(exact)
    net.come_to_rest(before)
    assert refused(before, net.states()) == {"z-host": {"from_hosts": sent}}


# --- domains that touch

KEYS = {"first": bytes(range(16)), "second": bytes(range(16, 32)), "none": b""}


#: Where a session begins and where it ends, in each domain.
DOMAINS = (("a", "b"), ("c", "d"), ("e", "f"))


def touching(directory: Path) -> Plan:
    """Three domains, one of which has no key, meet at a router.

    a --- m --- b       c --- m --- d       e --- m --- f
    """
    links: dict[str, int] = {}
    keys: dict[str, bytes] = {}
    options: dict[str, tuple[str, str]] = {}
    for (source, host), (name, key) in zip(DOMAINS, KEYS.items(), strict=True):
        links |= {f"{source}-m": 90 * MEGA, f"m-{source}": 90 * MEGA}
        links |= {f"m-{host}": 10 * MEGA, f"{host}-m": 10 * MEGA}
        if not key:
            continue
        keys |= dict.fromkeys((f"{source}-m", f"m-{source}", f"m-{host}"), key)
        file = directory / name
        file.write_text(key.hex())
        options[source] = ("--key-file", str(file))
    agents, hosts = ([ends[n] for ends in DOMAINS] for n in (0, 1))
    return Plan(links, agents, hosts, keys=keys, options=options)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("three")
    with domain(touching(directory), directory) as made:
        for way in DOMAINS:
            made.join(Session(*way), Session(*way, six=True), Session(*way, 2 * MEGA))
        made.come_to_rest()
        yield made


def test_domains_do_not_mix(three: Domain) -> None:
    """Sessions that go from one domain into another get nothing, and take nothing there."""
    lasts = ("m-b", "m-d", "m-f")
    before = three.states()
    strangers = {
        node: {
            three.clients[node].join(three.plan.address(host, six))
            for host in set(three.plan.hosts) - {own}
            for six in (False, True)
        }
        for node, own in DOMAINS
    }
    # Where they come from they are sessions like others, as far as they get: not so on.
    since = {link: before[link] for link in lasts}
    three.come_to_rest(since)

    def given_up() -> bool:
        listed = [each for client in three.clients.values() for each in client.list()]
        return all(
            each.flags & libslbn.STALLED and not each.rate
            for each in listed
            if any(each.id in numbers for numbers in strangers.values())
        )

    wait_for(given_up)
    three.come_to_rest(since)
    assert three.deviation(2) == 0
    counted = refused(before, three.states())
    assert counted.keys() == set(lasts)
    assert all(grown.keys() == {"bad_key"} for grown in counted.values())
    for link in lasts:
        assert three.state(link).joins == before[link].joins
    for node, numbers in strangers.items():
        for number in numbers:
            three.clients[node].leave(number)
    wait_for(lambda: all(len(client.list()) == 3 for client in three.clients.values()))
    healed(three, "strangers leave", three.states())


@pytest.mark.parametrize("key", [KEYS["second"], None], ids=["another's key", "no key"])
def test_somebody_inside_without_the_key(three: Domain, key: bytes | None) -> None:
    """On a wire of a domain with a key, where all that passes can be heard and sent."""
    chance = random.Random(8)
    heard = [replace(each, options=b"", key=key) for each in overhear(three, "a-m", "m-a")]
    exact = three.exact()
    before = three.states()
    sent = 0
    for wire, kinds, ends in (
        ("a-m", (JOIN, PROBE, LEAVE), ("a", "b")),
        ("m-a", (PROBE_ACK, LEAVE_ACK), ("b", "a")),
    ):
        there, device = wire.split("-")[1], wire.split("-")[0]
        to_mac = address(three.nodes[there], device)
        with three.wires.entered():
            out = sender(wire)
        with out:
            for packet in forgeries(heard, 400, chance):
                if packet.type not in kinds:
                    continue
                source, destination = (three.plan.address(end, False) for end in ends)
                frame = Datagram(packet.pack(), False, source, destination, to_mac=to_mac)
                send(out, frame.frame())
                sent += 1
                if sent % 50 == 0:
                    assert not three.wrong(exact)
    three.come_to_rest(before)
    counted = refused(before, three.states())
    assert counted.keys() == {"a-m", "m-b"}
    assert sum(sum(grown.values()) for grown in counted.values()) == sent
    assert all(grown["bad_key"] > 50 for grown in counted.values())
