# SPDX-License-Identifier: GPL-2.0
"""Measuring a plan of sessions.py on this kernel, as root.

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
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.network import Network, Trunk
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.net import host
from fairlab.net.network import CONTROL, SLBN, TRUNK_LIMIT, Laboratory
from fairlab.net.queues import Sampler
from fairlab.results import trust
from fairlab.run import evidence, preflight
from fairlab.run.progress import Progress
from fairlab.slbn.agents import Agents, require_tree
from fairlab.slbn.mesh import Mesh, link_name
from fairlab.slbn.network import build
from fairlab.slbn.sessions import DATA, DATA_HEADERS, Plan, Recording

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


def prefix(mesh: Mesh, node: str) -> str:
    """The first two octets of the addresses behind a router."""
    return f"10.{100 + mesh.nodes.index(node)}"


def own_address(mesh: Mesh, node: str) -> str:
    """The address of the router itself."""
    return f"{prefix(mesh, node)}.255.254"


def address(mesh: Mesh, node: str, number: int) -> str:
    """The address of the host of session NUMBER."""
    return f"{prefix(mesh, node)}.{number // 250}.{1 + number % 250}"


def network(plan: Plan) -> Network:
    """The network of the mesh.  finish_router() adds hosts, and routes to them."""
    rates = plan.rates()
    data = Qdisc(BOTTLENECK, "pfifo", UNLIMITED)
    epoch = f"{plan.epoch_ms}ms" if plan.epoch_ms else "0"
    commit = "on" if plan.commit else "off"
    words = f"commit {commit} headroom {plan.headroom / 10:g}% epoch {epoch} memory {plan.visits}"
    links = []
    for wire in plan.mesh.wires:
        there, back = (
            Trunk(wire.rate, wire.delay, data, rates[link_name(*pair)], words)
            for pair in ((wire.a, wire.b), (wire.b, wire.a))
        )
        links.append((link_name(wire.a, wire.b), there, back))
    return build(links, {}, plan.mesh.near, mtu=plan.mtu)


def finish_router(lab: Laboratory, plan: Plan, node: str) -> None:
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


def set_loss(lab: Laboratory, plan: Plan, part: float) -> None:
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


def agent_options(plan: Plan) -> dict[str, str]:
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
    """A run."""

    def __init__(
        self, lab: Laboratory, plan: Plan, stack: ExitStack, log: evidence.KernelLog
    ) -> None:
        self.lab, self.plan, self.log = lab, plan, log
        self.recording = Recording(plan)
        self.begin = 0.0
        self.connections: dict[str, Any] = {}
        self.agents = Agents(lab)
        self.sockets: dict[str, socket.socket] = {}
        #: (router, slbnd's id) -> session number, and back
        self.numbers: dict[tuple[str, int], int] = {}
        self.ids: dict[int, int] = {}
        self.senders: dict[int, Sender] = {}
        #: routers with a request since the last hear(): libslbn may hold their events
        self.asked: set[str] = set()
        #: (when, order, method, its argument)
        self.due: list[tuple[float, int, str, Any]] = []
        self.order = 0
        self.payload = bytes(max(0, plan.packet - 28))
        self.gap_bits = 8 * (plan.packet - 28 + DATA_HEADERS) if plan.packet else 0
        #: data's part of a session's rate: control packets have the rest
        self.data_part = 1 - plan.control / 100
        self.late = 0.0
        self._start_agents(stack)
        ends = [end for link in lab.network.links for end, _ in link.ends()]
        self.sampler = Sampler(lab, ends, stack)

    # --- before ---------------------------------------------------------------------------------

    def _start_agents(self, stack: ExitStack) -> None:
        for node in self.plan.mesh.nodes:
            self.agents.start(node, agent_options(self.plan))
        self.connections = self.agents.connect_all(stack)
        if self.plan.packet:
            for node in {session.source for session in self.plan.sessions}:
                with self.lab.inside(node):
                    self.sockets[node] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                stack.callback(self.sockets[node].close)

    # --- what is due ------------------------------------------------------------------------------

    def at(self, when: float, what: str, which: Any = None) -> None:
        self.order += 1
        heapq.heappush(self.due, (when, self.order, what, which))

    def now(self) -> float:
        return time.monotonic() - self.begin

    def join(self, number: int) -> None:
        import libslbn

        session = self.plan.sessions[number]
        if session.source not in self.connections:
            return
        to = address(self.plan.mesh, session.destination, number)
        demand = libslbn.UNLIMITED if session.demand is None else session.demand
        own = self.connections[session.source].join(to, demand)
        self.asked.add(session.source)
        self.numbers[session.source, own] = number
        self.ids[number] = own
        self.recording.asked.append((self.now(), number, session.demand))
        if self.plan.packet:
            self.senders[number] = Sender((to, DISCARD))

    def change(self, which: tuple[int, int | None]) -> None:
        import libslbn

        number, demand = which
        session = self.plan.sessions[number]
        if session.source in self.connections:
            asked = libslbn.UNLIMITED if demand is None else demand
            self.connections[session.source].change(self.ids[number], asked)
            self.asked.add(session.source)
            self.recording.asked.append((self.now(), number, demand))

    def leave(self, number: int) -> None:
        session = self.plan.sessions[number]
        if session.source in self.connections:
            self.connections[session.source].leave(self.ids[number])
            self.asked.add(session.source)
            self.recording.asked.append((self.now(), number, 0))
        self.senders.pop(number, None)

    def kill(self, node: str) -> None:
        """Kill an agent, without any Leave of its sessions."""
        self.agents.processes[node].kill()
        self.agents.processes[node].wait()
        del self.connections[node]
        self.recording.died.append((self.now(), node))
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
        self.recording.sent += 1
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
            self.recording.rates.append((now, number, event.rate))
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
            self.at(session.join, "join", number)
            for when, demand in session.changes:
                self.at(when, "change", (number, demand))
            if session.leave is not None:
                self.at(session.leave, "leave", number)
        for loss in self.plan.losses:
            self.at(loss.begin, "lose", loss.part)
            self.at(loss.end, "lose", 0.0)
        for when, node in self.plan.deaths:
            self.at(when, "kill", node)
        self.at(0, "look")

    def run(self, progress: Progress) -> None:
        self.schedule()
        load = host.Load.now()
        self.begin = time.monotonic() + QUIET + (self.plan.epoch_ms / 1000 or EPOCH)
        while (now := self.now()) < self.plan.seconds:
            while self.due and self.due[0][0] <= now:
                when, _, what, which = heapq.heappop(self.due)
                self.late = max(self.late, self.now() - when)
                getattr(self, what)(which)
            for node in self.asked & self.connections.keys():
                self.hear(node)
            self.asked.clear()
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
        self.finish(host.Load.now().since(load))

    def finish(self, load: host.Load) -> None:
        """Record final values; raise CannotRunError if the run cannot be trusted."""
        for node, connection in self.connections.items():
            for session in connection.list():
                number = self.numbers.get((node, session.id))
                if number is not None and not session.over:
                    self.recording.last[number] = (
                        session.rate, session.cycles, session.retries, session.rtt, session.hops
                    )  # fmt: skip
        self.recording.times = [when - self.begin for when in self.sampler.times]
        self.recording.links = self.sampler.wires
        self.recording.agents = {node: self.problem(node) for node in self.connections}
        self.recording.around = evidence.gather(self.lab, self.log, load)
        slbnctl = require_tree() / "build/slbnctl/slbnctl"
        for node in self.plan.mesh.nodes:
            for link in json.loads(self.lab.shell(node, f"{slbnctl} -j link list")):
                if link["dev"] != "hosts":
                    self.recording.counters[link["dev"]] = link
                self.refuse_drops(node, link)
        for link, kept in self.sampler.wires.items():
            if drops := kept["drops"][-1]:
                raise CannotRunError(f"{drops} data packets were lost at {link}")
            if (drops := kept["control_drops"][-1]) and not self.plan.losses:
                raise CannotRunError(f"{drops} control packets were lost at {link}")
        if self.late > LATE:
            raise CannotRunError(f"an event was {self.late * 1000:.1f} ms late: not in this engine")

    def problem(self, node: str) -> str:
        """What is wrong with an agent."""
        ended = self.agents.processes[node].poll() is not None
        return self.agents.output(node) or ("it has ended" if ended else "")

    def refuse_dead_agents(self) -> None:
        if reason := trust.check_agents({node: self.problem(node) for node in self.connections}):
            raise CannotRunError(reason)

    @staticmethod
    def refuse_drops(node: str, link: dict[str, Any]) -> None:
        for kind in NEVER_DROPPED:
            if link[kind]:
                raise CannotRunError(f"{link[kind]} packets were dropped at {node} as {kind}")


def measure(plan: Plan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    # Timer slack of 1 ns: wake up without delay.
    set_timer_slack = 29
    ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)
    progress.step(f"building {plan.mesh.name}: {len(plan.mesh.nodes)} routers")
    with Laboratory(network(plan), 0, ecn=False) as lab, ExitStack() as stack:
        preflight.offloads(lab)
        lab.add_queues()
        for node in plan.mesh.nodes:
            finish_router(lab, plan, node)
        driver = Driver(lab, plan, stack, stack.enter_context(closing(evidence.KernelLog())))
        progress.step(f"{len(plan.sessions)} sessions in {plan.seconds:g} s")
        try:
            driver.run(progress)
        except OSError as error:
            # An agent has ended unexpectedly: its output has the reason.
            driver.refuse_dead_agents()
            raise LabError(f"an agent: {error}") from None
        (directory / DATA).write_text(json.dumps(driver.recording.to_json()))
