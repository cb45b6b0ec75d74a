# SPDX-License-Identifier: GPL-2.0
"""Chains of 1, 3, 5 and 10 routers: all sessions get their max-min rates, all counters agree.

    node 0 ==== node 1 ==== node 2 ==== ... ==== node 10      each ==== is a link to the right (e)
                                                              and another to the left (w)

A parking lot: sessions start and end at all nodes, IPv4 and IPv6, in both directions, so that links
have different sessions and rates, and bottlenecks depend on each other. Sessions join, change and
leave in phases. After each phase rates are compared with the max-min reference, in fractions: as
links divide integers, rates may differ by 1 bit/s for each level of bottlenecks.

Then packet sockets capture the last cycles. Counters and ledgers of the links, as reported by each
interface, must follow from the captured packets.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from tests.kernel.lib.fair import max_min, remainders
from tests.kernel.lib.genetlink import Genetlink
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.rtnetlink import Rtnetlink
from tests.kernel.lib.slbn import MEGA, Agent, Chain, agents, chain
from tests.kernel.lib.slbn_tap import Tap, attach, state_of
from tests.kernel.lib.slbn_wire import (
    JOIN,
    LEAVE,
    LEAVE_ACK,
    MAGIC,
    PROBE,
    PROBE_ACK,
    Packet,
    State,
    decode,
    read_packet,
    read_udp,
)
from tests.tshark import fields

pytestmark = pytest.mark.virtual

#: Capacities to the right and left, bit/s, chosen so that divisions have remainders.
RIGHT = [97_000_001, 61_000_003, 43_000_007, 71_000_009, 89_000_011]
RIGHT += [53_000_013, 101_000_017, 37_000_019, 67_000_023, 83_000_027]
LEFT = [79_000_001, 41_000_003, 59_000_007, 73_000_009, 47_000_011]
LEFT += [31_000_013, 91_000_017, 63_000_019, 57_000_023, 77_000_027]


@dataclass(eq=False)
class Session:
    """A session between two nodes; a demand of 0 means no limit."""

    start: int
    end: int
    demand: int
    #: Its number at the agent of its first node.
    number: int = -1

    @property
    def path(self) -> list[str]:
        """The devices that its packets leave nodes by, which are its links."""
        if self.start < self.end:
            return [f"e{n}" for n in range(self.start, self.end)]
        return [f"w{n}" for n in range(self.start - 1, self.end - 1, -1)]

    def address(self, v6: bool) -> str:
        """The address of its last node on the device that receives it."""
        if self.start < self.end:
            return f"fd00:{self.end - 1}::2" if v6 else f"10.0.{self.end - 1}.2"
        return f"fd00:{self.end}::1" if v6 else f"10.0.{self.end}.1"


def test_max_min_of_parking_lot() -> None:
    """The reference of the textbook example is known."""
    through, first, second = Session(0, 2, 0), Session(0, 1, 0), Session(1, 2, 0)
    capacities = {"e0": 10, "e1": 4}
    found = max_min(capacities, [through, first, second])
    assert found == {through: 2, first: 8, second: 2}
    first.demand = 3
    through.demand = 1
    assert max_min(capacities, [through, first, second]) == {through: 1, first: 3, second: 3}
    assert max_min({"e0": 10}, [Session(0, 1, 0) for _ in range(3)]).popitem()[1] == Fraction(10, 3)


@dataclass
class Row:
    """The routers, the agents of their hosts, and the sessions."""

    net: Chain
    agents: list[Agent]
    capacities: dict[str, int]
    #: Socket in the namespace of each link, and index of its device.
    places: dict[str, tuple[Rtnetlink, int]]
    #: Number of each link in its namespace.
    numbers: dict[str, int]
    sessions: list[Session] = field(default_factory=list)
    joined: Counter[int] = field(default_factory=Counter)

    # --- links

    def node(self, link: str) -> Namespace:
        """The node of a link."""
        return self.net.nodes[int(link[1:]) + (link[0] == "w")]

    @property
    def edge(self) -> str:
        """The last link to the right, which answers for hosts."""
        return f"e{len(self.net.nodes) - 2}"

    def change_links(self, **given: int) -> None:
        for netlink, index in self.places.values():
            attach(netlink, index, **given)

    def states(self) -> dict[str, State]:
        return {link: state_of(*place) for link, place in self.places.items()}

    # --- sessions

    def join(self, *sessions: Session) -> None:
        for session in sessions:
            session.number = self.joined[session.start]
            self.joined[session.start] += 1
            # IPv4 and IPv6 in turn.
            address = session.address(v6=sum(self.joined.values()) % 2 == 0)
            self.agents[session.start].send(f"join {address} {session.demand}")
            self.sessions.append(session)

    def change(self, session: Session, demand: int) -> None:
        session.demand = demand
        self.agents[session.start].send(f"change {session.number} {demand}")

    def leave(self, *sessions: Session) -> None:
        for session in sessions:
            self.agents[session.start].send(f"leave {session.number}")
            self.sessions.remove(session)

    def run(self, cycles: int) -> None:
        """Run CYCLES more cycles of each session, and wait until all are idle."""
        for agent in self.agents:
            agent.send(f"cycles {cycles}")
        wait_for(lambda: all(s.state != "busy" for agent in self.agents for s in agent.show()))
        # Wait for replies to retransmitted packets, too.
        seen = [self.states()]

        def quiet() -> bool:
            seen.append(self.states())
            return seen[-1] == seen[-2]

        wait_for(quiet)

    def shown(self) -> dict[Session, tuple[int, int]]:
        """The rate and the cycles of each session."""
        shown = [agent.show() for agent in self.agents]
        found = {session: shown[session.start][session.number] for session in self.sessions}
        return {session: (each.rate, each.cycles) for session, each in found.items()}

    def check_rates(self) -> None:
        """Check that all rates reach the max-min reference and stay there."""
        exact = max_min(self.capacities, self.sessions)
        bounds = remainders(exact)

        def right() -> bool:
            shown = self.shown()
            return all(abs(shown[each][0] - exact[each]) <= bounds[each] for each in exact)

        wait_for(right, seconds=60)
        then = self.shown()

        def later() -> bool:
            return all(cycles > then[each][1] + 3 for each, (_, cycles) in self.shown().items())

        wait_for(later, seconds=60)
        for link, state in self.states().items():
            assert state.held <= state.capacity == self.capacities[link]
        shown = self.shown()
        off = {each: float(shown[each][0] - rate) for each, rate in exact.items()}
        assert right(), off
        print(f"{len(exact)} sessions, largest difference {max(map(abs, off.values())):.2f} bit/s")


@contextlib.contextmanager
def row(peer: str, routers: int) -> Iterator[Row]:
    with chain(routers) as net, agents(peer, net.nodes) as made, contextlib.ExitStack() as stack:
        capacities = {f"e{n}": RIGHT[n] for n in range(routers)}
        capacities |= {f"w{n}": LEFT[n] for n in range(routers)}
        found = Row(net, made, capacities, {}, {})
        for link, capacity in capacities.items():
            with found.node(link).entered():
                netlink = stack.enter_context(contextlib.closing(Rtnetlink()))
                found.places[link] = (netlink, socket.if_nametoindex(link))
            # No control limit: after a stall of the machine packets come in bursts.
            edge = int(link == found.edge)
            attach(*found.places[link], rate=capacity, headroom=0, control=1000, edge=edge)
        for node in net.nodes:
            with node.entered(), contextlib.closing(Genetlink()) as family:
                found.numbers |= {each.name: each.number for each in family.dump_links()}
        yield found


def random_sessions(routers: int, number: int, generator: random.Random) -> list[Session]:
    """Sessions of all lengths, to the right, or to the left without the edge on their path."""
    found: list[Session] = []
    while len(found) < number:
        start, end = generator.sample(range(routers + 1), 2)
        if start > end and start == routers:
            start, end = end, start
        demand = generator.choice([0, 0, 0, 2 * MEGA, 5 * MEGA, 11 * MEGA, 30 * MEGA])
        found.append(Session(start, end, demand))
    return found


# --- captured packets


@dataclass
class Watch:
    """Taps of the packets that each device receives, by its name and node."""

    taps: dict[tuple[str, Namespace], Tap]
    #: Frames of the control packets read so far.
    frames: list[bytes] = field(default_factory=list)

    @classmethod
    def start(cls, row: Row) -> Watch:
        taps = {}
        places = [(link, row.node(link)) for link in row.capacities]
        for device, node in [*places, *(("lo", node) for node in row.net.nodes)]:
            with node.entered():
                taps[device, node] = Tap(device)
        return cls(taps)

    def read(self) -> dict[tuple[str, Namespace], list[Packet]]:
        """The control packets that each device has received."""
        found: dict[tuple[str, Namespace], list[Packet]] = {}
        for place, tap in self.taps.items():
            frames = [frame for frame in tap.frames() if is_control(frame)]
            found[place] = [read_packet(read_udp(frame)[0]) for frame in frames]
            self.frames += frames
            tap.socket.close()
        return found


def is_control(frame: bytes) -> bool:
    return read_udp(frame)[0].startswith(MAGIC.to_bytes(4, "big"))


def processed_by(row: Row, link: str, packet: Packet) -> bool:
    """Whether an upstream packet was sent by this link: it is the one of the last return."""
    if packet.type not in (PROBE_ACK, LEAVE_ACK):
        return False
    number, address = packet.returns.get(packet.hop + 1, (0, ""))
    return number == row.numbers[link] and address in row.net.addresses(row.node(link))


def check_wire(
    row: Row,
    link: str,
    seen: dict[tuple[str, Namespace], list[Packet]],
    before: State,
    after: State,
) -> None:
    """Check counters and ledgers of a link against the captured packets."""
    other = ("w" if link[0] == "e" else "e") + link[1:]
    down = [each for each in seen[other, row.node(other)] if each.type in (JOIN, PROBE, LEAVE)]
    up = [each for packets in seen.values() for each in packets if processed_by(row, link, each)]
    kinds = Counter(each.type for each in down + up)
    grown = before.changes(after)
    counted = {kind: grown.get(name, 0) for kind, name in COUNTERS.items()}
    if link == row.edge:
        # It sends nothing downstream, and answers each packet.
        assert down == []
        assert counted[JOIN] + counted[PROBE] == counted[PROBE_ACK] == kinds[PROBE_ACK]
        assert counted[LEAVE] == kinds[LEAVE_ACK]
        assert grown.get("answered", 0) == len(up)
    else:
        assert counted == {kind: kinds[kind] for kind in COUNTERS}
        assert grown.get("new_sessions", 0) == len({each.id for each in down if each.type == JOIN})
    for name in DROPS:
        assert name not in grown
    # All sessions of the previous ledger have been migrated.
    assert (grown.get("migrated", 0), after.previous_N) == (before.previous_N, 0)

    gone = {each.id for each in down + up if each.type in (LEAVE, LEAVE_ACK)}
    last = {each.id: each for each in up if each.id not in gone}
    restricted = [each for each in last.values() if each.B >> each.hop & 1]
    elsewhere = [each for each in last.values() if not each.B >> each.hop & 1]
    ledger = (len(last), len(restricted), sum(each.bw1 for each in elsewhere))
    assert ledger == (after.N, after.NR, after.BF)
    # At rest sessions hold what they use.
    held = sum(each.use + decode(each.codes.get(each.hop, 0)) for each in last.values())
    assert (after.A, after.previous_A) == (held, 0)
    assert held <= after.capacity
    assert all(each.tags[each.hop] for each in last.values())
    capacity = row.capacities[link]
    share = max(max(capacity - after.BF, 0) // max(after.NR, 1), capacity // max(after.N, 1))
    assert (after.capacity, after.share) == (capacity, share)


COUNTERS = {JOIN: "joins", PROBE: "probes", PROBE_ACK: "acks", LEAVE: "leaves"}
DROPS = (
    *("malformed", "bad_checksum", "fragments", "bad_key", "unknown_key", "bad_time"),
    *("from_hosts", "rate_limited"),
    *("too_many_hops", "overuse", "wrong_path", "clamped", "other_version"),
)


def check_tshark(frames: list[bytes]) -> None:
    """Check that tshark shows the fields that the ledgers were checked with."""
    names = ["type", "seq", "hop", "bottleneck", "weight", "epoch", "bw1", "bw2", "bw"]
    names += ["use1", "use", "g"]
    wanted = [f"slbn.{name}" for name in ("session", "B.hop", *names)]
    shown = fields([(n, frame) for n, frame in enumerate(frames)], *wanted)
    for frame, row in zip(frames, shown, strict=True):
        packet = read_packet(read_udp(frame)[0])
        assert row["slbn.session"] == [packet.id.hex()]
        assert row["slbn.B.hop"] == [str(hop) for hop in range(64) if packet.B >> hop & 1]
        assert {name: row[f"slbn.{name}"] for name in names} == {
            name: [str(getattr(packet, name))] for name in names
        }


def check_interfaces(row: Row) -> None:
    """Check that tc, the netlink family and slbnctl report the same numbers as the qdisc."""
    for node in row.net.nodes:
        ours = {link: place for link, place in row.places.items() if row.node(link) is node}
        for _ in range(20):
            before = {link: state_of(*place) for link, place in ours.items()}
            with node.entered(), contextlib.closing(Genetlink()) as family:
                dumped = {each.name: each.state for each in family.dump_links()}
            commands = ("tc -j -s qdisc show", "slbnctl --json link list")
            outputs = [json.loads(node.sh(command).stdout) for command in commands]
            # Share events are counted with a delay: retry if one was.
            if before == {link: state_of(*place) for link, place in ours.items()}:
                break
        else:
            raise AssertionError("the states of the links keep changing")
        assert dumped == before
        for output in outputs:
            shown: dict[str, dict[str, Any]] = {
                each.get("dev", ""): each for each in output if each.get("kind", "slbn") == "slbn"
            }
            assert shown.keys() == before.keys()
            for link, state in before.items():
                numbers = asdict(state)
                assert {name: shown[link][name] for name in numbers} == numbers


@pytest.mark.parametrize(
    ("routers", "number"),
    [
        pytest.param(1, 6, marks=pytest.mark.tier("all")),
        (3, 8),
        pytest.param(5, 14, marks=pytest.mark.tier("all")),
        pytest.param(10, 26, marks=pytest.mark.tier("all")),
    ],
)
def test_rates_and_counters(peer: str, routers: int, number: int) -> None:
    generator = random.Random(routers)
    with row(peer, routers) as made:
        made.join(*random_sessions(routers, number, generator))
        made.check_rates()

        for session in generator.sample(made.sessions, number // 2):
            made.change(session, generator.choice([0, 3 * MEGA, 8 * MEGA]))
        made.check_rates()

        made.leave(*generator.sample(made.sessions, number // 3))
        made.join(*random_sessions(routers, number // 3, generator))
        made.check_rates()

        # No rotations: from now on only packets change the links.
        made.change_links(epoch=0)
        made.run(0)
        before = made.states()
        watch = Watch.start(made)
        made.leave(made.sessions[0])
        made.join(*random_sessions(routers, 1, generator))
        made.run(4)
        after = made.states()
        seen = watch.read()
        for link in made.capacities:
            check_wire(made, link, seen, before[link], after[link])
        check_interfaces(made)
        check_tshark(watch.frames)
