# SPDX-License-Identifier: GPL-2.0
"""A plan of sessions (sessions_plan.py) as a job, an experiment that guest.py measures.

A single thread requests sessions from agents, receives their rates, sends their data and samples
queues.  In virtual time none of this takes time; elsewhere events would be late, and then the run
is refused.
"""

import ctypes
import heapq
import json
import select
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.network import Network, Trunk
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.net.network import CONTROL, SLBN, TRUNK_LIMIT, Laboratory
from fairlab.net.queues import Sampler
from fairlab.results import trust
from fairlab.run import engine
from fairlab.run.progress import Progress
from fairlab.slbn import abilene
from fairlab.slbn.agents import Agents, require_tree
from fairlab.slbn.experiment import Experiment
from fairlab.slbn.mesh import Mesh, link_name
from fairlab.slbn.network import build
from fairlab.slbn.record import AGENT_SOURCES, NUMBERS, Measured, Record
from fairlab.slbn.sessions_analysis import Comparison
from fairlab.slbn.sessions_plan import Sessions

#: Seconds from the end of preparations to the start, and an epoch more: for so long a new link
#: grants no rises.  The same time if links have no epoch: after 0.2 s alone, some sessions that
#: joined first had no rate for half a second.
QUIET, EPOCH = 0.2, 1.0
#: The most by which an event may be late [s].
LATE = 0.002
#: Larger than any queue: the paper's have no limit.
UNLIMITED = ("limit", "1000000")
DISCARD = 9
# Reasons of drops that only other SLBN speakers, or errors, can cause.
NEVER_DROPPED = (
    "malformed",
    "bad_checksum",
    "fragments",
    "bad_key",
    "unknown_key",
    "bad_time",
    "from_hosts",
    "too_many_hops",
    "overuse",
)
#: A link without ledgers to rotate never recovers from a lost control packet, so it must not drop
#: any above a limit.
LIMITED = "rate_limited"


def prefix(mesh: Mesh, node: str) -> str:
    """The first two octets of the addresses behind a router."""
    return f"10.{100 + mesh.nodes.index(node)}"


def own_address(mesh: Mesh, node: str) -> str:
    """The address of the router itself."""
    return f"{prefix(mesh, node)}.255.254"


def address(mesh: Mesh, node: str, number: int) -> str:
    """The address of the host of session NUMBER."""
    return f"{prefix(mesh, node)}.{number // 250}.{1 + number % 250}"


def network(plan: Sessions) -> Network:
    """The network of the mesh.  finish_router() adds hosts, and routes to them."""
    rates = plan.rates()
    data = Qdisc(BOTTLENECK, "pfifo", UNLIMITED)
    epoch = f"{plan.epoch_ms}ms" if plan.epoch_ms else "0"
    commit = "on" if plan.commit else "off"
    words = f"commit {commit} headroom {plan.headroom / 10:g}% epoch {epoch} memory {plan.visits}"
    if not plan.epoch_ms:
        words += f" {abilene.UNLIMITED_CONTROL}"
    links = []
    for wire in plan.mesh.wires:
        there, back = (
            Trunk(wire.rate, wire.delay, data, rates[link_name(*pair)], words)
            for pair in ((wire.a, wire.b), (wire.b, wire.a))
        )
        links.append((link_name(wire.a, wire.b), there, back))
    return build(links, {}, plan.mesh.near, mtu=plan.mtu)


def finish_router(lab: Laboratory, plan: Sessions, node: str) -> None:
    """Add the hosts behind a router, and routes to those of others."""
    mesh = plan.mesh
    ends = lab.network.ends_of(node)
    peers = {peer.node: peer.address for _, peer in ends}
    batch = [
        "link add hosts type dummy",
        f"address add {own_address(mesh, node)}/16 dev hosts",
        f"link set hosts mtu {lab.network.mtu} up",
    ]
    for other in mesh.nodes:
        if other != node:
            via = peers[mesh.hops[other][node]]
            source = own_address(mesh, node)
            batch.append(f"route add {prefix(mesh, other)}.0.0/16 via {via} src {source}")
    # The edge answers packets; it has no share of its own, and needs no memory.
    queue = f"qdisc add dev hosts root handle {SLBN:x}: slbn rate 1tbit memory 0 edge"
    lines = "\n".join(batch)
    lab.shell(node, f"ip -batch - <<'END'\n{lines}\nEND\ntc {queue}")


def set_loss(lab: Laboratory, plan: Sessions, part: float) -> None:
    """Let all links lose a fraction PART of the control packets."""
    for node in plan.mesh.nodes:
        lines = []
        for end, _ in lab.network.ends_of(node):
            assert isinstance(end.queue, Trunk)
            lines.append(
                f"qdisc change dev {end.interface} parent {SLBN:x}:1 handle {CONTROL:x}:"
                f" netem delay {end.queue.delay}us limit {TRUNK_LIMIT // lab.frame}"
                f" loss {100 * part:g}%"
            )
        text = "\n".join(lines)
        lab.shell(node, f"tc -batch - <<'END'\n{text}\nEND")
        lab.accept_changes(node)


def agent_options(plan: Sessions) -> dict[str, str]:
    options = {
        "control": f"{plan.control:g}%",
        "pause": f"{plan.pause_ms:g}ms",
        "hops": str(plan.hops),
    }
    # Without an epoch, links keep one ledger, but an agent needs an epoch to retransmit.
    return options | ({"epoch": f"{plan.epoch_ms}ms"} if plan.epoch_ms else {})


@dataclass
class Sender:
    """The data sender of a session: its destination and pacing."""

    to: tuple[str, int]
    rate: int = 0
    last: float = 0.0
    #: of the valid entry in the heap
    version: int = 0


class Driver:
    """What is done during a run, until its end."""

    def __init__(
        self, plan: Sessions, lab: Laboratory, agents: Agents, begin: float, sampler: Sampler
    ) -> None:
        self.plan, self.lab, self.agents = plan, lab, agents
        self.begin, self.sampler = begin, sampler
        self.connections = agents.connections
        #: what is recorded, as sessions_analysis.Comparison has it
        self.asked: list[tuple[float, int, int | None]] = []
        self.rates: list[tuple[float, int, int]] = []
        self.died: list[tuple[float, str]] = []
        self.sent = 0
        self.sockets: dict[str, socket.socket] = {}
        #: (router, slbnd's id) -> session number, and back
        self.numbers: dict[tuple[str, int], int] = {}
        self.ids: dict[int, int] = {}
        self.senders: dict[int, Sender] = {}
        #: routers with a request since the last hear(): libslbn may hold their events
        self.fresh: set[str] = set()
        #: (when, order, method, its argument)
        self.due: list[tuple[float, int, str, Any]] = []
        self.order = 0
        self.payload = bytes(max(0, plan.packet - headers.DATAGRAM))
        self.gap_bits = 8 * (plan.packet + headers.ETHERNET) if plan.packet else 0
        #: data's part of a session's rate: control packets have the rest
        self.data_part = 1 - plan.control / 100
        self.late = 0.0
        for node in {session.source for session in plan.sessions} if plan.packet else ():
            with lab.inside(node):
                self.sockets[node] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    # --- what is due ------------------------------------------------------------------------------

    def at(self, when: float, what: str, which: Any = None) -> None:
        self.order += 1
        heapq.heappush(self.due, (when, self.order, what, which))

    def now(self) -> float:
        return time.monotonic() - self.begin

    def ask(self, which: tuple[int, int | None]) -> None:
        """Ask for the demand of a session: it joins with its first one, and leaves with 0."""
        import libslbn

        number, demand = which
        session = self.plan.sessions[number]
        if session.source not in self.connections:
            return
        connection = self.connections[session.source]
        asked = libslbn.UNLIMITED if demand is None else demand
        if demand == 0:
            connection.leave(self.ids[number])
            self.senders.pop(number, None)
        elif number in self.ids:
            connection.change(self.ids[number], asked)
        else:
            to = address(self.plan.mesh, session.destination, number)
            own = self.ids[number] = connection.join(to, asked)
            self.numbers[session.source, own] = number
            if self.plan.packet:
                self.senders[number] = Sender((to, DISCARD))
        self.fresh.add(session.source)
        self.asked.append((self.now(), number, demand))

    def kill(self, node: str) -> None:
        """Kill an agent, without any Leave of its sessions."""
        process = self.agents.processes.pop(node)
        process.kill()
        process.wait()
        del self.connections[node]
        self.died.append((self.now(), node))
        for number, session in enumerate(self.plan.sessions):
            if session.source == node:
                self.senders.pop(number, None)

    def lose(self, part: float) -> None:
        set_loss(self.lab, self.plan, part)

    def look(self, _: None) -> None:
        """Sample all queues."""
        self.sampler.take()
        self.at(self.sampler.times[-1] - self.begin + self.plan.every, "look")

    def send(self, which: tuple[int, int]) -> None:
        """Send the next data packet of a session, unless its rate has changed since."""
        number, version = which
        sender = self.senders.get(number)
        if sender is None or sender.version != version:
            return
        node = self.plan.sessions[number].source
        self.sockets[node].sendto(self.payload, sender.to)
        self.sent += 1
        # Relative to the planned time, not the clock, so that gaps do not grow.
        sender.last = max(sender.last + self.gap_bits / sender.rate, self.now() - LATE)
        self.at(sender.last + self.gap_bits / sender.rate, "send", which)

    # --- what is heard ----------------------------------------------------------------------------

    def hear(self, node: str) -> None:
        connection = self.connections[node]
        while (event := connection.next(0)) is not None:
            number = self.numbers.get((node, event.id))
            if number is None or event.over:
                continue
            now = self.now()
            self.rates.append((now, number, event.rate))
            sender = self.senders.get(number)
            rate = round(event.rate * self.data_part)
            if sender is None or rate == 0:
                continue
            if not sender.rate:
                sender.last = now
            sender.rate = rate
            sender.version += 1
            when = max(now, sender.last + self.gap_bits / rate)
            sender.last = when - self.gap_bits / rate
            self.at(when, "send", (number, sender.version))

    # --- the run ----------------------------------------------------------------------------------

    def schedule(self) -> None:
        for number, session in enumerate(self.plan.sessions):
            for when, demand in ((session.join, session.demand), *session.changes):
                self.at(when, "ask", (number, demand))
            if session.leave is not None:
                self.at(session.leave, "ask", (number, 0))
        for loss in self.plan.losses:
            self.at(loss.begin, "lose", loss.part)
            self.at(loss.end, "lose", 0.0)
        for when, node in self.plan.deaths:
            self.at(when, "kill", node)
        self.at(0, "look")

    def run(self, progress: Progress) -> dict[str, Any]:
        """Do all of that; what was recorded."""
        self.schedule()
        while (now := self.now()) < self.plan.seconds:
            while self.due and self.due[0][0] <= now:
                when, _, what, which = heapq.heappop(self.due)
                self.late = max(self.late, self.now() - when)
                getattr(self, what)(which)
            for node in self.fresh & self.connections.keys():
                self.hear(node)
            self.fresh.clear()
            nodes = {connection.fileno(): node for node, connection in self.connections.items()}
            wait = min(self.plan.seconds, self.due[0][0]) - self.now()
            readable, _, _ = select.select(list(nodes), [], [], max(0.0, wait))
            for fd in readable:
                if nodes[fd] in self.connections:
                    self.hear(nodes[fd])
            if progress.due():
                there = len(self.ids)
                progress.update(f"{now:4.1f} of {self.plan.seconds:g} s: {there} sessions joined")
        self.look(None)
        if self.late > LATE:
            raise CannotRunError(f"an event was {self.late * 1000:.1f} ms late: not in this engine")
        names = ("asked", "rates", "died", "sent")
        return {name: getattr(self, name) for name in names} | {"last": self.last()}

    def last(self) -> dict[int, tuple[int, int, int, int, int]]:
        """The final values of each session."""
        found = {}
        for node, connection in self.connections.items():
            for one in connection.list():
                number = self.numbers.get((node, one.id))
                if number is not None and not one.over:
                    found[number] = one.rate, one.cycles, one.retries, one.rtt, one.hops
        return found


def drive(
    plan: Sessions,
    lab: Laboratory,
    agents: Agents,
    begin: float,
    sampler: Sampler,
    progress: Progress,
) -> dict[str, Any]:
    """Drive a run to its end; what was recorded of its sessions."""
    driver = Driver(plan, lab, agents, begin, sampler)
    try:
        found = driver.run(progress)
    except OSError as error:
        # An agent has ended unexpectedly: its output has the reason.
        if reason := trust.check_agents(agents.printed()):
            raise CannotRunError(reason) from None
        raise LabError(f"an agent: {error}") from None
    finally:
        for one in driver.sockets.values():
            one.close()
    refuse_drops(lab, plan)
    return found


def refuse_drops(lab: Laboratory, plan: Sessions) -> None:
    """Raise CannotRunError if a link has dropped packets for a reason that cannot be."""
    slbnctl = require_tree() / "build/slbnctl/slbnctl"
    kinds = NEVER_DROPPED if plan.epoch_ms else (*NEVER_DROPPED, LIMITED)
    for node in plan.mesh.nodes:
        for link in json.loads(lab.shell(node, f"{slbnctl} -j link list")):
            for kind in kinds:
                if link[kind]:
                    raise CannotRunError(f"{link[kind]} packets were dropped at {node} as {kind}")


def prepare(plan: Sessions, lab: Laboratory) -> dict[str, Any]:
    # Timer slack of 1 ns, for agents, too: wake up without delay.
    set_timer_slack = 29
    ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)
    for node in plan.mesh.nodes:
        finish_router(lab, plan, node)
    return {}


class Plan(Sessions, Measured[Comparison]):
    """The plan of a run, which can be run."""

    kind = "sessions"
    programs = ()

    def sources(self) -> tuple[str, ...]:
        return (*engine.SOURCES, *AGENT_SOURCES, *NUMBERS)

    def experiment(self) -> Experiment:
        epoch = self.epoch_ms / 1000 or EPOCH
        return Experiment(
            name=f"{len(self.sessions)} sessions on {self.mesh.name}",
            network=network(self),
            seconds=self.seconds,
            agents=dict.fromkeys(self.mesh.nodes, agent_options(self)),
            prepare=partial(prepare, self),
            ready=QUIET + epoch,
            drive=partial(drive, self),
        )

    def read(self, work: Path) -> Comparison:
        record = self.record(work)
        check(self, record)
        return Comparison(self, record.document)


def check(plan: Plan, record: Record) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    for link, kept in record.document["wires"].items():
        if drops := kept["drops"][-1]:
            raise CannotRunError(f"{drops} data packets were lost at {link}")
        if (drops := kept["control_drops"][-1]) and not plan.losses:
            raise CannotRunError(f"{drops} control packets were lost at {link}")
    return record.check()
