# SPDX-License-Identifier: GPL-2.0
"""A router that has the domain's key and lies in the packets that pass it.

    0 ------------ 1 ------------ 2 ----- 3 ----- 4 ------------ 5
    slbnd  100           50                liar          20        edge at 4
           Mbit/s        Mbit/s                          Mbit/s
    |--------------- FAR: 20 Mbit/s -----------------------------|
    |--------------- NEAR: 30 -------|

Node 3 has no link: a program forwards its packets, as routers do, and changes those of SLBN.  NEAR
does not pass it.  docs/protocol.md (13: What it does not exclude) says what such a router can do.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.background import repeated
from tests.kernel.lib.net import wait_for
from tests.kernel.lib.slbn import MEGA, Chain, chain, key_option
from tests.kernel.lib.slbn_tap import Tap, send, sender, state_in
from tests.kernel.lib.slbn_wire import (
    AUTH,
    AUTH_VALUE,
    JOIN,
    LEAVE,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    SHARE,
    SHARE_VALUE,
    Datagram,
    Packet,
    option,
    read_ip,
    read_packet,
    read_udp,
)
from tests.kernel.lib.slbnd import Agent, agent, libslbn
from tests.kernel.slbnd.test_slbnd_faults import address

pytestmark = pytest.mark.virtual

KEY = bytes(range(16))
#: Bit/s.
FIRST, SECOND, LAST = 100 * MEGA, 50 * MEGA, 20 * MEGA
DOWNSTREAM = (JOIN, PROBE, LEAVE)
#: Source and destination of FAR, destination of NEAR, and an address of the liar.
SOURCE, FAR, NEAR, LIAR = "10.0.0.1", "10.0.4.2", "10.0.1.2", "10.0.3.1"

Lie = Callable[[Packet], Packet | None]


def honest(packet: Packet) -> Packet | None:
    return packet


def read_options(octets: bytes) -> dict[int, bytes]:
    """Values by kind."""
    found = {}
    while octets:
        kind, length = octets[:2]
        found[kind] = octets[2 : 2 + length]
        octets = octets[2 + length :]
    return found


@dataclass
class Liar:
    """Forwards what node 3 receives, with the control packets as LIE changes them."""

    net: Chain
    lie: Lie = honest
    #: Session ids that it has seen.
    seen: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        before, node, after = self.net.nodes[2:5]
        #: By the device that receives them: where to send packets, and the MAC addresses there.
        self.ways = {
            "w2": ("e3", address(node, "e3"), address(after, "w3")),
            "e3": ("w2", address(node, "w2"), address(before, "e2")),
        }
        with node.entered():
            Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
            self.taps = {device: Tap(device) for device in self.ways}
            self.senders = {device: sender(device) for device in self.ways}

    def forward(self, frame: bytes, device: str) -> None:
        out, own, there = self.ways[device]
        if frame[:6] != self.ways[out][1]:
            return
        payload, _ = read_udp(frame)
        source, destination = (socket.inet_ntoa(part) for part in (frame[26:30], frame[30:34]))
        if payload[:4] != b"SLBN" or destination in (LIAR, "10.0.2.2"):
            return
        packet = read_packet(payload)
        self.seen.add(packet.id)
        others = read_options(packet.options)
        number, _, sent, _ = AUTH_VALUE.unpack(others.pop(AUTH))
        kept = b"".join(option(kind, value) for kind, value in others.items())
        packet = replace(packet, options=kept)
        changed = self.lie(packet)
        if changed is None:
            return
        signed = replace(changed, key=KEY, key_id=number, time=sent)
        _, ip = read_ip(frame)
        datagram = Datagram(
            signed, False, source, destination, ttl=ip[8] - 1, from_mac=own, to_mac=there
        )
        send(self.senders[out], datagram.frame())

    def step(self) -> None:
        ready, _, _ = select.select([tap.socket for tap in self.taps.values()], [], [], 0.05)
        for device, tap in self.taps.items():
            if tap.socket in ready:
                for frame in tap.frames():
                    if frame[12:14] == b"\x08\x00":
                        self.forward(frame, device)

    def inject(self, packet: Packet) -> None:
        """Send a packet of its own to the last router."""
        out, own, there = self.ways["w2"]
        packet = replace(packet, key=KEY, returns={0: (0, LIAR)})
        datagram = Datagram(packet, False, LIAR, FAR, from_mac=own, to_mac=there)
        send(self.senders[out], datagram.frame())

    def close(self) -> None:
        for tap in self.taps.values():
            tap.socket.close()
        for each in self.senders.values():
            each.close()


@dataclass
class Net:
    """The domain, with both sessions, and the rates that its source has seen."""

    chain: Chain
    liar: Liar
    slbnd: Agent
    us: libslbn.Connection
    far: int
    near: int

    def rates(self) -> tuple[int, int]:
        """Of FAR and NEAR."""
        found = {session.id: session.rate for session in self.us.list()}
        return found[self.far], found[self.near]

    def settle(self, *expected: int, seconds: float = 10) -> None:
        wait_for(lambda: self.rates() == pytest.approx(expected, abs=64), seconds)

    def rates_during(self, lie: Lie, seconds: float = 2) -> list[tuple[int, int]]:
        """The rates while it lies."""
        self.liar.lie = lie
        seen = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen.append(self.rates())
            time.sleep(0.02)
        return seen


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    directory = tmp_path_factory.mktemp("liar")
    file = directory / "keys"
    file.write_text(f"{KEY.hex()}\n")
    file.chmod(0o600)
    options = ("--key-file", str(file))
    with chain(5) as made:
        for link, rate in ((0, FIRST), (1, SECOND), (4, LAST)):
            edge = " edge" * (link == 4)
            made.attach(link, f"rate {rate}bit headroom 0 {key_option(KEY)}{edge}")
        for a, b in ((2, 3), (4, 3)):
            made.nodes[a].sh(f"ping -qc 1 10.0.{min(a, b)}.{1 + (b > a)}")
        liar = Liar(made)
        with (
            contextlib.closing(liar),
            repeated(liar.step),
            agent(made.nodes[0], directory, *options) as slbnd,
            agent(made.nodes[2], directory, *options),
            slbnd.connect() as us,
        ):
            ready = Net(made, liar, slbnd, us, us.join(FAR), us.join(NEAR))
            ready.settle(LAST, SECOND - LAST)
            yield ready


def changed(kinds: tuple[int, ...], **fields: Any) -> Lie:
    """Change these fields of packets of these types."""
    return lambda packet: replace(packet, **fields) if packet.type in kinds else packet


def everything(packet: Packet) -> Packet:
    """Rates, tags and codes at random; also of hops that are not its own."""
    chance = random.Random(packet.seq)
    rates = {
        name: chance.choice([0, 1, getattr(packet, name), LAST, RATE_MAX])
        for name in ("bw2", "bw1", "bw", "use1", "use", "g")
    }
    hops = range(packet.slots)
    tags = {hop: chance.choice([tag, 7]) for hop, tag in packet.tags.items()}
    codes = {hop: chance.choice([packet.codes.get(hop, 0), 0, 65535]) for hop in hops}
    B = chance.choice([0, packet.B, (1 << packet.slots) - 1])
    return replace(packet, tags=tags, codes=codes, B=B, **rates)


def lose_use(packet: Packet) -> Packet:
    """Grant everything, and let the last link release what the session uses."""
    if packet.type in DOWNSTREAM:
        return replace(packet, use=0, use1=0, codes={})
    return replace(packet, g=RATE_MAX, bw=RATE_MAX)


LIES: dict[str, Lie] = {
    "grants everything": changed((PROBE_ACK,), g=RATE_MAX, bw=RATE_MAX),
    "grants nothing": changed((PROBE_ACK,), g=0, bw=1),
    "states a lower use": lose_use,
    "states a higher use": changed(DOWNSTREAM, use=RATE_MAX, use1=RATE_MAX),
    "states a higher demand": changed(DOWNSTREAM, bw1=RATE_MAX, bw=RATE_MAX),
    "changes all fields": everything,
    "drops packets": lambda packet: None,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_liar_affects_sessions_that_pass_it(net: Net, lie: Lie) -> None:
    """And links behind it. Those before it overload nothing, and keep NEAR's fair share."""
    before = state_in(net.chain.nodes[1], "e1")
    seen = net.rates_during(lie)
    last = state_in(net.chain.nodes[4], "e4")
    far, near = ([pair[n] for pair in seen] for n in (0, 1))
    print(f"FAR {min(far)} to {max(far)}, NEAR {min(near)} to {max(near)}, {last.held} held behind")
    # No link before it promises more than it has, and NEAR keeps its fair share.
    assert max(sum(pair) for pair in seen) <= SECOND + 64
    assert min(near) >= SECOND // 2 - 64
    after = state_in(net.chain.nodes[1], "e1")
    assert after.N <= 2 and after.new_sessions - before.new_sessions <= 1
    # It has never seen a packet of NEAR.
    assert len(net.liar.seen) == 1
    net.liar.lie = honest
    net.settle(LAST, SECOND - LAST)


@pytest.mark.parametrize("kinds", [DOWNSTREAM, (PROBE_ACK,)], ids=["downstream", "upstream"])
def test_liar_states_a_weight(net: Net, kinds: tuple[int, ...]) -> None:
    """With a higher demand: it takes what the session's links have, but no more than that."""
    seen = net.rates_during(changed(kinds, weight=10**6, bw1=RATE_MAX, bw=RATE_MAX, g=RATE_MAX))
    print(min(near for _, near in seen))
    assert max(sum(pair) for pair in seen) <= SECOND + 64
    assert min(near for _, near in seen) < SECOND // 2
    net.liar.lie = honest
    net.settle(LAST, SECOND - LAST)


def test_liar_is_bounded_by_share(net: Net) -> None:
    """What the source believes of its share: at most that of the links before the liar."""

    def stated(links: int, bands: int, share: int) -> Lie:
        value = option(SHARE, SHARE_VALUE.pack(links, bands, share))

        def lie(packet: Packet) -> Packet:
            return replace(packet, options=value) if packet.type == PROBE_ACK else packet

        return lie

    def shown() -> dict[str, Any]:
        return net.slbnd.show(net.far)

    def is_true() -> bool:
        found = shown()
        return found["share"] == LAST and found["share_complete"] is True

    # The last link has one session, of 20 Mbit/s; those before it divide 50 Mbit/s.
    wait_for(is_true)
    for links, share, complete in ((1, RATE_MAX, True), (1, 10, True), (255, RATE_MAX, False)):
        net.rates_during(stated(links, 0, share), 1)
        found = shown()
        print(found["share"], found["share_complete"])
        assert found["share"] <= SECOND and found["share_complete"] == complete
    net.liar.lie = honest
    wait_for(is_true)
    net.settle(LAST, SECOND - LAST)


def test_liar_in_its_room(net: Net) -> None:
    """By forged Joins it occupies a link that its packets reach, and none that they do not."""
    before = {link: state_in(net.chain.nodes[link], f"e{link}") for link in (0, 1)}

    def join() -> None:
        for number in range(10):
            net.liar.inject(Packet(JOIN, id=bytes([number]) * 16, weight=10**6))

    with repeated(join, 0.2):
        wait_for(lambda: net.rates()[0] < LAST // 1000)
        # What FAR lost at the last link is NEAR's at the others.
        net.settle(0, SECOND, seconds=5)
        last = state_in(net.chain.nodes[4], "e4")
        assert last.N + last.previous_N > 10**7
        for link, state in before.items():
            after = state_in(net.chain.nodes[link], f"e{link}")
            assert (after.N, after.new_sessions) == (state.N, state.new_sessions)
    # Two epochs after the last one they are forgotten.
    net.settle(LAST, SECOND - LAST)


@pytest.mark.parametrize(
    "epoch", [1, *(pytest.param(n, marks=pytest.mark.tier("all")) for n in (10_000, 20_000))]
)
def test_liar_states_a_short_epoch(net: Net, epoch: int) -> None:
    """Rates of sessions that pass it end soon, but these send about twice as much at most.

    They have a low rate, so how often they send depends on the length of an epoch.
    """
    slow = [net.us.join(FAR, 10**4) for _ in range(10)]

    def sent() -> int:
        return sum(each.cycles + each.retries for each in net.us.list() if each.id in slow)

    def sent_during(lie: Lie, seconds: float = 4) -> float:
        """Packets of a session per second."""
        net.rates_during(lie)
        before = sent()
        time.sleep(seconds)
        return (sent() - before) / len(slow) / seconds

    honestly = sent_during(honest)
    falsely = sent_during(changed((PROBE_ACK,), epoch=epoch))
    _, near = net.rates()
    net.liar.lie = honest
    for session in slow:
        net.us.leave(session)
    net.settle(LAST, SECOND - LAST)
    print(f"{honestly} packets/s, {falsely} with an epoch of {epoch} us; NEAR {near}")
    assert near >= SECOND // 2 - 64
    # Pauses allow for half of the agent's epoch.
    assert 3 < honestly < 6 and falsely < 3 * honestly
