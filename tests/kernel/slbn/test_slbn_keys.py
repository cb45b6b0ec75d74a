# SPDX-License-Identifier: GPL-2.0
"""Authentication of packets by links: keys, addresses and time; keys are added and retired.

The sessions are those of slbn_sessions.py. Dropped packets are counted by their reason, and change
nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.genetlink import SECOND, A, Genetlink, given
from tests.kernel.lib.net import TRACING, read_trace, sh, tracing, wait_for
from tests.kernel.lib.netlink import NLA_F_NESTED, NetlinkError, attribute
from tests.kernel.lib.slbn import MEGA, Agent, Chain, agents, chain
from tests.kernel.lib.slbn_sessions import KEY, NEW, OTHER_KEY, Sessions, check_dropped, expect
from tests.kernel.lib.slbn_tap import Wire, state_in, wire
from tests.kernel.lib.slbn_wire import (
    AUTH,
    JOIN,
    PROBE_ACK,
    ROUTER,
    Datagram,
    Packet,
    authentication,
    is_authentic,
    now,
    option,
    read_addresses,
    read_authentication,
    read_udp,
)

DIRECTIONS = pytest.mark.parametrize("direction", ["down", "up"])
EITHER_KEY = pytest.mark.parametrize(
    ("key", "number"), [(KEY, 3), (OTHER_KEY, 200)], ids=["older", "newer"]
)
A0 = given(ifname="a0")


@contextlib.contextmanager
def keyed(*ids: int, **more: Any) -> Iterator[tuple[Wire, Genetlink]]:
    """A link with keys: KEY has the first number, OTHER_KEY the second."""
    with wire(**more) as made, contextlib.closing(Genetlink()) as family:
        for number, key in zip(ids, (KEY, OTHER_KEY), strict=False):
            family.add_key(A0 + given(key_id=number, key=key))
        yield made, family


def packet_of(on: Sessions, direction: str) -> Packet:
    """A valid packet of the direction that changes the ledger."""
    packet = on.probe() if direction == "down" else on.ack()
    return replace(packet, key=on.key, key_id=on.key_id)


# --- packets that are not authentic


@DIRECTIONS
@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_bad_key_is_dropped(v6: bool, direction: str) -> None:
    """No authentication, another secret, or anything changed that the hash covers."""
    with wire(key=KEY) as made:
        on = Sessions(made, v6, key=KEY)
        packet = packet_of(on, direction)
        good = Datagram(packet, v6)
        sent, returned = good, good.back()
        if direction == "up":
            sent, returned = good.answer(), replace(good, source=ROUTER[v6])

        def altered(octet: int) -> Datagram:
            data = bytearray(sent.content())
            data[octet] ^= 1
            return replace(good, payload=bytes(data))

        zeros = option(AUTH, bytes(6) + bytes(8))
        # With the hash for the addresses of the packet that was recorded.
        recorded = replace(good, payload=sent.content())
        other = ("fd00::9", "fd00::8") if v6 else ("10.0.0.9", "10.0.0.8")
        addresses = [replace(recorded, destination=other[1])]
        if direction == "down":
            addresses.append(replace(recorded, source=other[0]))
        reply = replace(good, payload=returned.content())
        wrong = [
            Datagram(replace(packet, key=None), v6),
            Datagram(replace(packet, key=OTHER_KEY), v6),
            Datagram(replace(packet, key=None, options=zeros), v6),
            # Of the hash, reserved octet, time, and fields of the packet.
            *map(altered, (-1, -13, -9, 8, 24, 70, 98)),
            *addresses,
            reply,
        ]
        check_dropped(on, direction, "bad_key", *wrong)


@DIRECTIONS
def test_authenticated_packet_without_key_at_link_is_dropped(direction: str) -> None:
    with wire() as made:
        on = Sessions(made)
        packet = packet_of(on, direction)
        check_dropped(on, direction, "bad_key", Datagram(replace(packet, key=KEY)))


@DIRECTIONS
@pytest.mark.parametrize("ids", [(0,), (3, 200)])
def test_unknown_key_is_dropped(ids: tuple[int, ...], direction: str) -> None:
    with keyed(*ids) as (made, _):
        on = Sessions(made, key=KEY, key_id=ids[0])
        packet = packet_of(on, direction)
        unknown = [Datagram(replace(packet, key_id=number)) for number in (1, 4, 255)]
        check_dropped(on, direction, "unknown_key", *unknown)


@DIRECTIONS
def test_key_with_number_of_the_other_is_dropped(direction: str) -> None:
    with keyed(3, 200) as (made, _):
        on = Sessions(made, key=KEY, key_id=3)
        packet = packet_of(on, direction)
        swapped = [replace(packet, key_id=200), replace(packet, key=OTHER_KEY)]
        check_dropped(on, direction, "bad_key", *map(Datagram, swapped))


@pytest.mark.virtual
@DIRECTIONS
def test_bad_time_is_dropped(direction: str) -> None:
    """Replayed packets, and those of a router whose clock is wrong, in both directions."""
    with wire(key=KEY) as made:
        on = Sessions(made, key=KEY)
        packet = packet_of(on, direction)
        # A second may pass before the link reads its clock.
        for offset in (-11, 12, -3600, 3600, -86400, 86400, 1 << 31, (1 << 31) - 60):
            datagram = Datagram(replace(packet, time=now() + offset))
            before = made.state()
            if direction == "down":
                assert made.down(datagram.frame()) == []
            else:
                assert made.up(datagram.answer().frame()) == []
            assert before.changes(made.state()) == {"bad_time": 1}, offset
        check_dropped(on, direction, "bad_time", Datagram(replace(packet, time=0)))


@pytest.mark.virtual
@pytest.mark.parametrize("edge", [0, 1], ids=["link", "edge"])
@pytest.mark.parametrize("offset", [-9, 10, -(1 << 32)])
def test_time_within_window_is_accepted_and_kept(offset: int, edge: int) -> None:
    """Links and replies keep the time of the source: a recorded packet ages at every hop."""
    with wire(key=KEY, edge=edge) as made:
        sent = now() + offset
        join = Packet(JOIN, id=NEW, key=KEY, time=sent)
        answers = made.both(Datagram(join).frame())[edge]
        (frame,) = answers
        payload = read_udp(frame)[0]
        assert read_authentication(payload)[1] == sent & 0xFFFFFFFF
        assert payload[-8:] == authentication(payload, KEY, read_addresses(frame))
        assert made.state().joins == 1


def test_replay_counts_a_session_for_two_epochs_at_most() -> None:
    """At a link that its path does not pass; it is authentic for 10 s."""
    with wire(key=KEY, epoch=SECOND // 5) as made:
        recorded = Datagram(Packet(JOIN, id=NEW, key=KEY, time=now() - 7)).frame()

        def sessions() -> int:
            state = made.state()
            return state.N + state.previous_N

        for _ in range(2):
            # The link remembers it: a session is counted once.
            assert len(made.down(recorded, recorded)) == 2
            assert sessions() == 1
            wait_for(lambda: sessions() == 0)
        wait_for(lambda: made.down(recorded) == [])
        wait_for(lambda: sessions() == 0)
        state = made.state()
        assert (state.bad_time, state.held, state.clamped) == (1, 0, 0)


def test_sent_acknowledgments_are_checked() -> None:
    """A link sends acknowledgments of its other direction without processing them."""
    with wire(key=KEY) as made:
        on = Sessions(made, key=KEY)
        ack = replace(on.ack(), key=KEY)
        old = replace(ack, time=now() - 60)
        wrong = {"bad_key": replace(ack, key=OTHER_KEY), "unknown_key": replace(ack, key_id=1)}
        for counter, packet in {**wrong, "bad_time": old}.items():
            before = made.state()
            assert made.down(Datagram(packet).frame()) == []
            assert before.changes(made.state()) == {counter: 1}
        frame = Datagram(ack).frame()
        expect(made, "down", frame, frame)


# --- two keys


@EITHER_KEY
def test_packets_keep_their_key(key: bytes, number: int) -> None:
    with keyed(3, 200) as (made, _):
        tag = made.tags(NEW, key, number)[0]
        sent = Packet(JOIN, slots=4, id=NEW, bw=20 * MEGA, key=key, key_id=number)
        came = replace(sent, hop=1, tags={0: tag})
        changes = {"N": 1, "joins": 1, "new_sessions": 1}
        expect(made, "down", Datagram(sent).frame(), Datagram(came), **changes)
        sent = replace(came.reply(), type=PROBE_ACK)
        (frame,) = made.up(Datagram(sent).answer().frame())
        assert read_authentication(read_udp(frame)[0])[0] == number
        assert made.state().acks == 1


@EITHER_KEY
def test_edge_answers_with_key_of_request(key: bytes, number: int) -> None:
    with keyed(3, 200, edge=1) as (made, _):
        join = Datagram(Packet(JOIN, slots=4, id=NEW, key=key, key_id=number))
        host, (reply,) = made.both(join.frame())
        assert host == []
        payload = read_udp(reply)[0]
        assert read_authentication(payload)[0] == number
        assert is_authentic(payload, key, read_addresses(reply))


def refusal(change: Callable[[bytes], object], content: bytes) -> tuple[str, str]:
    """Name and message of the error."""
    with pytest.raises(NetlinkError) as caught:
        change(content)
    return errno.errorcode[caught.value.errno], caught.value.message


def test_keys_are_added_and_retired() -> None:
    with keyed() as (_, family):

        def keys() -> tuple[int, ...]:
            return family.get(A0).config.keys

        assert keys() == ()
        family.add_key(A0 + given(key_id=7, key=KEY))
        assert keys() == (7,)
        family.add_key(A0 + given(key_id=0, key=OTHER_KEY))
        assert keys() == (7, 0)
        family.retire_key(A0 + given(key_id=7))
        assert keys() == (0,)
        family.add_key(A0 + given(key_id=255, key=KEY))
        assert keys() == (0, 255)
        # The newest can be retired, too.
        family.retire_key(A0 + given(key_id=255))
        assert keys() == (0,)
        family.add_key(A0 + given(key_id=9, key=KEY))
        # The option replaces all keys.
        family.set(A0, given(key=OTHER_KEY))
        assert keys() == (0,)
        family.add_key(A0 + given(key_id=9, key=KEY))
        family.set(A0, given(control=7))
        assert keys() == (0, 9)
        family.set(A0, given(key=b""))
        assert keys() == ()


#: What is freed as sensitive, with 512 octets before they are overwritten.
SENSITIVE = "p:slbn/sensitive kfree_sensitive object=%di words=+0(%di):x64[64]"
WORD = re.compile(r"\b0x[0-9a-f]+\b")
#: Octets that a set of keys has in its slab: what is behind may be another set.
SET = 96


@contextlib.contextmanager
def probes(*definitions: str) -> Iterator[None]:
    events = TRACING / "kprobe_events"
    events.write_text("\n".join(definitions) + "\n")
    try:
        yield
    finally:
        events.write_text("")


def sensitive(trace: Path, word: str) -> list[tuple[str, int]]:
    """Each object that was freed as sensitive, and where it had a key first: octets, or -1."""
    found = []
    for line in trace.read_text().splitlines():
        if " sensitive: " in line:
            address, words = line.split("object=")[1].split(" ", 1)
            each = WORD.findall(words)
            found.append((address, 8 * each.index(word) if word in each else -1))
    return found


def end_link(trace: Path, word: str) -> list[tuple[str, int]]:
    """The objects with keys that are freed with a link, and where they had them: the link last."""

    def sets() -> list[tuple[str, int]]:
        return [(address, at) for address, at in sensitive(trace, word) if 0 <= at < SET]

    with keyed(3, 9) as (_, family):
        # The set before each key had been added, if it had any, is freed by RCU.
        wait_for(lambda: len(sets()) == 1)
        sh("tc qdisc del dev a0 root")
        assert family.dump_links() == []
        wait_for(lambda: len(sets()) == 2 and sensitive(trace, word)[-1][1] >= SET)
        return [*sets(), sensitive(trace, word)[-1]]


@pytest.mark.stock
@pytest.mark.tier("all")
def test_keys_are_overwritten_before_their_memory_is_freed() -> None:
    """That of the link, and of each set of keys that packets have read."""
    word = hex(struct.unpack("=Q", KEY[:8])[0])
    with probes(SENSITIVE), tracing("slbn/sensitive") as trace:
        places = [at for _, at in end_link(trace, word)[1:]]
    freed = " ".join(["p:slbn/freed kfree object=%di", *(f"k{at}=+{at}(%di):x64" for at in places)])
    either = " || ".join(f"k{at} == 0 || k{at} == {word}" for at in places)
    with (
        probes(SENSITIVE, freed),
        tracing("slbn/sensitive") as trace,
        tracing("slbn/freed") as others,
    ):
        (others.parent / "events/slbn/freed/filter").write_text(either)
        objects = end_link(trace, word)
        records = read_trace(others, "freed")
    for address, at in objects:
        found = {each[f"k{at}"] for each in records if each["object"] == address}
        assert word not in found and "0x0" in found, (address, at, found)


def test_bad_key_requests_are_refused_with_a_reason() -> None:
    with keyed(3) as (_, family):
        add, retire = family.add_key, family.retire_key
        fifth = given(key_id=5)
        secret = attribute(A["KEY"], KEY)
        prefix = "sch_slbn: "
        none = ("EINVAL", prefix + "no key given: set key and its key_id")
        taken = ("EEXIST", prefix + "another key has this number: choose another")
        last = ("EBUSY", prefix + "the last key is in use: add another first")
        short = ("EINVAL", prefix + "key must be 16 octets")
        cases = [
            (add, fifth, none),
            (add, secret, none),
            (add, given(key_id=5, key=b""), short),
            (add, given(key_id=5, key=KEY[1:]), short),
            (add, given(key_id=3, key=OTHER_KEY), taken),
            (retire, b"", ("EINVAL", prefix + "no key given: set its key_id")),
            (retire, fifth, ("ENOENT", prefix + "the link has no key of this number")),
            (retire, given(key_id=3), last),
        ]
        before = family.get(A0)
        for change, content, expected in cases:
            assert refusal(change, A0 + content) == expected
        # Also too long, with attributes of other commands, and without a device.
        options = attribute(A["OPTIONS"] | NLA_F_NESTED, given(control=7))
        invalid = [given(key_id=5, key=KEY + b"k"), secret + options, fifth + options]
        for change in (add, retire):
            for content in invalid:
                refusal(change, A0 + content)
            assert refusal(change, fifth + secret)[0] == "EINVAL"
        assert family.get(A0) == before
        add(A0 + fifth + secret)
        full = refusal(add, A0 + given(key_id=6, key=OTHER_KEY))
        assert full == ("ENOSPC", prefix + "the link has two keys: retire one first")
        # It has this key, and keeps it.
        add(A0 + fifth + secret)
        assert refusal(add, A0 + fifth + attribute(A["KEY"], OTHER_KEY))[0] == "EEXIST"
        assert family.get(A0).config.keys == (3, 5)
        # A link without keys has none to retire.
        family.set(A0, given(key=b""))
        assert refusal(retire, A0 + fifth)[0] == "ENOENT"


# --- rotation under traffic


@dataclass
class Domain:
    """Both links of a chain and the agents of its nodes, which have the same keys."""

    net: Chain
    agents: list[Agent]

    def links(self, change: Callable[[Genetlink, bytes], None]) -> None:
        for number in range(2):
            for node, device in ((number, f"e{number}"), (number + 1, f"w{number}")):
                with self.net.nodes[node].entered(), contextlib.closing(Genetlink()) as family:
                    change(family, given(ifname=device))

    def add(self, number: int, key: bytes) -> None:
        self.links(lambda family, where: family.add_key(where + given(key_id=number, key=key)))
        for agent in self.agents:
            agent.send(f"key {number} {key.hex()}")
            agent.show()

    def retire(self, number: int) -> None:
        self.links(lambda family, where: family.retire_key(where + given(key_id=number)))
        for agent in self.agents:
            agent.send(f"retire {number}")

    def pass_cycles(self) -> None:
        """Wait until all sessions have done more cycles."""
        sessions = self.agents[0].show()
        wait_for(
            lambda: all(
                new.cycles >= old.cycles + 5
                for old, new in zip(sessions, self.agents[0].show(), strict=True)
            )
        )


def test_keys_are_rotated_under_traffic(peer: str) -> None:
    """Links first, then agents, then the old key is retired: no packet is dropped."""
    with chain(2) as net, agents(peer, net.nodes, f"{KEY.hex()} 255") as made:
        domain = Domain(net, made)
        for number, rate in enumerate((100, 60)):
            net.attach(number, f"rate {rate}mbit headroom 0")
            backward = f"qdisc replace dev w{number} root handle 1: slbn rate 100mbit"
            net.tc(number + 1, backward)
        domain.links(lambda family, where: family.add_key(where + given(key_id=255, key=KEY)))
        made[0].send("join fd00:1::2 0", "join 10.0.1.2 0", "join 10.0.1.2 10e6")
        wait_for(
            lambda: [each.rate for each in made[0].show()] == [25 * MEGA, 25 * MEGA, 10 * MEGA]
        )
        for number in range(6):
            domain.add(number, struct.pack("=QQ", number, number))
            domain.pass_cycles()
            made[0].send(f"use {number}")
            domain.pass_cycles()
            domain.retire(number - 1 if number else 255)
            domain.pass_cycles()
        assert [each.rate for each in made[0].show()] == [25 * MEGA, 25 * MEGA, 10 * MEGA]
        for number in range(2):
            for node, device in ((number, f"e{number}"), (number + 1, f"w{number}")):
                state = state_in(net.nodes[node], device)
                dropped = (state.bad_key, state.unknown_key, state.bad_time, state.bad_checksum)
                assert dropped == (0, 0, 0, 0), device
                assert state.malformed == state.wrong_path == 0
        # A key that is retired is retired.
        domain.links(lambda family, where: check_keys(family, where, (5,)))


def check_keys(family: Genetlink, where: bytes, keys: tuple[int, ...]) -> None:
    assert family.get(where).config.keys == keys


def test_sessions_recover_when_agents_get_the_key_late(peer: str) -> None:
    """Links that retired the old key first drop and count packets until agents use the new one."""
    with chain(2) as net, agents(peer, net.nodes, f"{KEY.hex()} 1") as made:
        domain = Domain(net, made)
        for number in range(2):
            net.attach(number, "rate 60mbit headroom 0")
            net.tc(number + 1, f"qdisc replace dev w{number} root handle 1: slbn rate 100mbit")
        domain.links(lambda family, where: family.add_key(where + given(key_id=1, key=KEY)))
        made[0].send("join 10.0.1.2 0")
        wait_for(lambda: [each.rate for each in made[0].show()] == [60 * MEGA])
        domain.links(lambda family, where: family.add_key(where + given(key_id=2, key=OTHER_KEY)))
        domain.links(lambda family, where: family.retire_key(where + given(key_id=1)))
        wait_for(lambda: state_in(net.nodes[0], "e0").unknown_key > 1)
        (stopped,) = made[0].show()
        for agent in made:
            agent.send(f"key 2 {OTHER_KEY.hex()}", "use 2", "retire 1")
        wait_for(lambda: made[0].show()[0].cycles >= stopped.cycles + 5)
        assert state_in(net.nodes[0], "e0").bad_key == 0
