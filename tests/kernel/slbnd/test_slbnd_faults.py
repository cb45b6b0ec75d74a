# SPDX-License-Identifier: GPL-2.0
"""Faults in a domain: assigned rates equal the max-min reference despite them, or recover.

    a0 ----.          .---- x ----.
            left ----'             right ---- z ---- host
    a1 ----'    `---- y ----------'
                     /
               a2 --'

Agents are on a0, a1, a2 and z; z-host is the edge link. From left to right the path by x is the
shorter one. All links have different capacities, and up to three links of a session's path are
bottlenecks of some session.
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

from tests.kernel.lib.domain import Domain, Plan, Session, domain
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.slbn import MEGA
from tests.kernel.lib.slbn_tap import Tap, close, send, sender
from tests.kernel.lib.slbn_wire import (
    JOIN,
    LEAVE,
    LEAVE_ACK,
    NO_EPOCH,
    NO_HOP,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    SLOT_V4,
    Datagram,
    Packet,
    State,
    read_packet,
    read_udp,
)
from tests.kernel.lib.slbnd import libslbn

pytestmark = pytest.mark.virtual

SIOCGIFHWADDR = 0x8927


def both_ways(rates: dict[str, int]) -> dict[str, int]:
    """With slightly lower rates of the reverse directions, so that no two are equal."""
    back = {"-".join(reversed(link.split("-"))): rate - 1_000_033 for link, rate in rates.items()}
    return rates | back


#: Capacities [bit/s], chosen so that divisions have remainders.
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

#: No session has the destination a1, whose agent is killed.
PLAN = Plan(
    links=LINKS,
    agents=("a0", "a1", "a2", "z"),
    hosts=("host",),
    lengths={"left-y": 2, "y-right": 2},
)


def initial_sessions() -> list[Session]:
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


#: Epochs to recover: two remove errors from ledgers, two more suffice for convergence.
RECOVERY = 4
#: The same under continuous loss, where lost answers cost timeouts.
RECOVERY_WITH_LOSS = 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with domain(PLAN, tmp_path_factory.mktemp("domain")) as made:
        made.join(*initial_sessions())
        made.settle()
        yield made


@pytest.fixture
def net(base: Domain) -> Iterator[Domain]:
    """Rates equal the reference before and after each test."""
    before = len(base.sessions)
    yield base
    base.settle()
    assert len(base.sessions) == before


def check_recovery(
    net: Domain, event: str, since: dict[str, State], within: int = RECOVERY
) -> None:
    needed = net.settle(since)
    print(f"{event}: exact in epoch {needed}")
    assert needed <= within


@pytest.mark.parametrize(
    "netem",
    [
        pytest.param("loss 0.1%", marks=pytest.mark.tier("all")),
        pytest.param("loss 1%", marks=pytest.mark.tier("all")),
        # A copy over five links is lost with a probability of 40 %. A lease has time for more than
        # 16 of them, so no session loses its rate.
        pytest.param("loss 5%", marks=pytest.mark.tier("all")),
        pytest.param("delay 4ms 3ms", marks=pytest.mark.tier("all")),
        pytest.param("duplicate 20%", marks=pytest.mark.tier("all")),
        "delay 2ms 2ms loss 1% duplicate 10%",
    ],
)
def test_loss_reordering_and_duplication(net: Domain, netem: str) -> None:
    """Impairments of every wire, while sessions join and leave: rates become exact, and stay so."""
    joining = [Session("a0", "z"), Session("z", "a2", six=True), Session("a2", "a0")]

    def retries() -> int:
        return sum(state.retries for each, state in net.reported().items() if each not in joining)

    before = retries()
    with net.impaired(netem):
        since = net.states()
        net.join(*joining)
        check_recovery(net, f"{netem}, joins", since, RECOVERY_WITH_LOSS)
        assert net.deviation(2) == 0
        since = net.states()
        net.leave(*joining)
        check_recovery(net, f"{netem}, leaves", since, RECOVERY_WITH_LOSS)
        assert net.deviation(2) == 0
    if "loss 1%" in netem or "loss 5%" in netem:
        assert retries() > before


def test_killed_agent(net: Domain) -> None:
    since = net.states()
    ended = net.kill("a1")
    check_recovery(net, "agent killed", since)
    since = net.states()
    net.start("a1")
    net.join(*ended)
    check_recovery(net, "agent started", since)


def test_router_restart(net: Domain) -> None:
    """Its qdiscs are deleted and added while packets are in flight."""
    links = {link: net.capacities[link] for link in ("left-x", "x-left")}
    since = net.states()
    for link in links:
        net.detach(link)
        del net.capacities[link], since[link]
    check_recovery(net, "qdiscs deleted", since)
    net.capacities.update(links)
    for link in links:
        net.attach_initial(link)
    check_recovery(net, "qdiscs added", net.states())


def test_link_down_and_up(net: Domain) -> None:
    with net.broken("left-x"):
        since = net.states()
        assert net.crossing("x-right") == 0 < net.crossing("left-y")
        check_recovery(net, "link down", since)
        assert net.state("x-right").N == net.state("left-x").N == 0
    check_recovery(net, "link up", net.states())


@pytest.mark.parametrize("link", [pytest.param("left-x", marks=pytest.mark.tier("all")), "right-z"])
def test_capacity_change(net: Domain, link: str) -> None:
    """Of a link on a part of the paths, and of one on nearly all."""
    rate = net.capacities[link]
    for now in (rate // 2, rate):
        since = net.states()
        net.set_capacities({link: now})
        check_recovery(net, f"{link} has {now / MEGA:.0f} Mbit/s", since)


def address(where: Namespace, device: str) -> bytes:
    """A device's MAC address."""
    with where.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        request = struct.pack("16s16x", device.encode())
        return fcntl.ioctl(made, SIOCGIFHWADDR, request)[18:24]


def capture(net: Domain, *links: str) -> list[Packet]:
    """Capture control packets of all sessions that cross these links, in both directions."""
    with net.wires.entered():
        taps = [Tap(f"{b}-{a}") for a, b in (link.split("-") for link in links)]
    captured: list[Packet] = []
    wanted = {each for link in links for each in net.sessions if link in each.path}

    def enough() -> bool:
        for tap in taps:
            payloads = [read_udp(frame)[0] for frame in tap.frames()]
            captured.extend(read_packet(each) for each in payloads if each[:4] == b"SLBN")
        return len({each.id for each in captured}) >= len(wanted) and len(captured) > 60

    wait_for(enough)
    close(taps)
    return captured


def forgeries(captured: list[Packet], number: int, chance: random.Random) -> Iterator[Packet]:
    """Plausible packets of existing sessions, with random changes."""
    for _ in range(number):
        packet = chance.choice(captured)
        changes: dict[str, Any] = {
            "type": chance.choice([JOIN, PROBE, PROBE_ACK, LEAVE, LEAVE_ACK]),
            "seq": packet.seq + chance.choice([0, 1, 2, 1000, -1]) & 0xFFFFFFFF,
            "hop": chance.randrange(packet.slots + 1),
            "bottleneck": chance.choice([NO_HOP, *range(packet.slots)]),
            "weight": chance.choice([1, packet.weight, 10**6]),
            "epoch": chance.choice([0, packet.epoch, NO_EPOCH]),
            "bw": chance.choice([1, packet.bw, RATE_MAX]),
            "bw1": chance.choice([1, packet.bw1, RATE_MAX]),
            "bw2": chance.choice([0, packet.bw2, RATE_MAX]),
            "use": chance.choice([0, packet.use, RATE_MAX]),
            "use1": chance.choice([0, packet.use1, RATE_MAX]),
            "g": chance.choice([0, packet.g, RATE_MAX]),
            "B": chance.choice([0, packet.B, (1 << packet.slots) - 1]),
        }
        if chance.random() < 0.3:
            hops = range(packet.slots)
            changes["tags"] = {hop: chance.randrange(1, 65536) for hop in hops}
            changes["codes"] = {hop: chance.randrange(65536) for hop in hops}
        chosen = chance.sample(sorted(changes), chance.randrange(len(changes) + 1))
        yield replace(packet, **{name: changes[name] for name in chosen})


def frames(
    net: Domain, packets: Iterable[Packet], to_mac: bytes, chance: random.Random
) -> Iterator[bytes]:
    """Frames of packets with random source and destination, some malformed."""
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


#: Counters of dropped packets.
DROPS = (
    "malformed",
    "bad_checksum",
    "fragments",
    "bad_key",
    "unknown_key",
    "bad_time",
    "from_hosts",
    "too_many_hops",
    "overuse",
    "wrong_path",
    "unknown_link",
    "bad_return",
    "no_address",
)


def drops(before: dict[str, State], after: dict[str, State]) -> dict[str, dict[str, int]]:
    changes = {link: state.changes(after[link]) for link, state in before.items()}
    counted = {
        link: {name: n for name, n in counts.items() if name in DROPS}
        for link, counts in changes.items()
    }
    return {link: counts for link, counts in counted.items() if counts}


def test_forged_packets_of_host(net: Domain) -> None:
    """With the IDs of existing sessions, and the addresses of other nodes."""
    chance = random.Random(7)
    captured = capture(net, "right-z", "z-right")
    to_mac = address(net.nodes["z"], "host")
    before = net.states()
    reference = net.reference()
    sent = 0
    with net.nodes["host"].entered():
        out = sender("z")
    with out:
        for _ in range(20):
            for frame in frames(net, forgeries(captured, 50, chance), to_mac, chance):
                send(out, frame)
                sent += 1
            assert not net.errors(reference)
    net.settle(before)
    assert drops(before, net.states()) == {"z-host": {"from_hosts": sent}}


# --- adjacent domains

KEYS = {"first": bytes(range(16)), "second": bytes(range(16, 32)), "none": b""}


#: Source and destination of the sessions of each domain.
DOMAINS = (("a", "b"), ("c", "d"), ("e", "f"))


def adjacent(directory: Path) -> Plan:
    """Three domains, one of them without a key, share a router.

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
    with domain(adjacent(directory), directory) as made:
        for ends in DOMAINS:
            made.join(Session(*ends), Session(*ends, six=True), Session(*ends, 2 * MEGA))
        made.settle()
        yield made


def test_domains_are_isolated(three: Domain) -> None:
    """Sessions from one domain into another get no rate, and do not affect it."""
    lasts = ("m-b", "m-d", "m-f")
    before = three.states()
    foreign = {
        node: {
            three.clients[node].join(three.plan.address(host, six))
            for host in set(three.plan.hosts) - {own}
            for six in (False, True)
        }
        for node, own in DOMAINS
    }
    # The links of their own domain count them, those of the other domain do not.
    since = {link: before[link] for link in lasts}
    three.settle(since)

    def all_stalled() -> bool:
        listed = [each for client in three.clients.values() for each in client.list()]
        return all(
            each.flags & libslbn.STALLED and not each.rate
            for each in listed
            if any(each.id in numbers for numbers in foreign.values())
        )

    wait_for(all_stalled)
    three.settle(since)
    assert three.deviation(2) == 0
    counted = drops(before, three.states())
    assert counted.keys() == set(lasts)
    assert all(counts.keys() == {"bad_key"} for counts in counted.values())
    for link in lasts:
        assert three.state(link).joins == before[link].joins
    for node, numbers in foreign.items():
        for number in numbers:
            three.clients[node].leave(number)
    wait_for(lambda: all(len(client.list()) == 3 for client in three.clients.values()))
    check_recovery(three, "foreign sessions leave", three.states())


@pytest.mark.parametrize("key", [KEYS["second"], None], ids=["other key", "no key"])
def test_attacker_without_key_inside_domain(three: Domain, key: bytes | None) -> None:
    """Captures and forges packets on a wire of a domain with a key."""
    chance = random.Random(8)
    captured = [
        replace(each, options=b"", key=key)
        for each in capture(three, "a-m", "m-a")
        # Routers leave answers that are malformed, with slots of IPv6, to the agent.
        if each.slot_length == SLOT_V4
    ]
    reference = three.reference()
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
            for packet in forgeries(captured, 400, chance):
                if packet.type not in kinds:
                    continue
                source, destination = (three.plan.address(end, False) for end in ends)
                frame = Datagram(packet, False, source, destination, to_mac=to_mac)
                send(out, frame.frame())
                # Answers that all links have processed are the agent's.
                sent += packet.hop > 0 or wire == "a-m"
                if sent % 50 == 0:
                    assert not three.errors(reference)
    three.settle(before)
    counted = drops(before, three.states())
    assert counted.keys() == {"a-m", "m-b"}
    assert sum(sum(counts.values()) for counts in counted.values()) == sent
    assert all(counts["bad_key"] > 50 for counts in counted.values())
