# SPDX-License-Identifier: GPL-2.0
"""Flows come and go on a backbone: with SLBN, with fair queueing alone, with FIFO queues.

The network is abilene.py's.  Hosts send with iperf3, unchanged, TCP under several congestion
controls and UDP; each runs for its own part of the time.  With SLBN, an agent (slbnd) on each
access router finds the flows, asks the links for their rates and holds them to these.

What is recorded, in the guest and in memory: what the agents tell of every session, when they tell
it; what each receiver got in each second; and what each wire sent and holds, four times a second.
backbone_analysis.py computes from that the rates that the agents should have assigned,
backbone_report.py the result.
"""

import json
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.topology import End, Network
from fairlab.net import congestion, host
from fairlab.net.netlink import QueueState
from fairlab.net.network import CONTROL, NETEM, QUEUE, SHAPER, Laboratory
from fairlab.run import flows, preflight
from fairlab.run.environment import environment
from fairlab.run.progress import Progress
from fairlab.slbn import abilene
from fairlab.slbn.agents import Agents

DATA = "backbone-data.json"
UDP = "udp"
UDP_PAYLOAD = 1400
MTU = 1500
TICK, INTERVAL = 0.05, 0.25
#: Seconds of which iperf3's account means something.
SHORTEST_INTERVAL = 0.5
#: Seconds before the first flow.
QUIET = 1.0
#: Seconds that a run takes at least, so that there is some rest between two changes.
SHORTEST = 35
#: Seconds by which a flow's part ends before the next begins.
GAP = 1
#: Packets that each wire's queue holds.
LIMIT = ("limit", "64")

VARIANTS = {
    "slbn": abilene.Variant("slbn", Qdisc(BOTTLENECK, "drr_fq", LIMIT), slbn=True),
    "drr_fq": abilene.Variant("drr_fq", Qdisc(BOTTLENECK, "drr_fq", LIMIT)),
    "pfifo": abilene.Variant("pfifo", Qdisc(BOTTLENECK, "pfifo", LIMIT)),
}

# Of slbnd.  At these rates one in a hundred would be a packet in a tenth of a second; at those of
# a real backbone it would be one in each round-trip, as here.
CONTROL_SHARE, PAUSE, IDLE = "10%", "2ms", "2s"
# Links on the longest path, and one for the number to be even.
HOPS = 8


@dataclass(frozen=True)
class Part:
    """A part of the time (0 to 1) in which a flow sends; UDP so much of a wire's rate."""

    start: float = 0.0
    stop: float = 1.0
    share: float = 0.0


@dataclass(frozen=True)
class Flow:
    """A flow: from whose host to whose, under what, and when."""

    source: str
    destination: str
    kind: str  # a congestion control, or UDP
    parts: tuple[Part, ...] = (Part(),)

    @property
    def label(self) -> str:
        return f"{self.source}-{self.destination} {self.kind}"

    @property
    def wires(self) -> list[str]:
        """The wires on its way."""
        return [abilene.wire(*hop) for hop in abilene.path(self.source, self.destination)]

    @property
    def wires_back(self) -> list[str]:
        return [abilene.wire(*hop) for hop in abilene.path(self.destination, self.source)]

    @property
    def payload_part(self) -> float:
        """Of what it sends, frames and all, what is goodput."""
        if self.kind == UDP:
            return UDP_PAYLOAD / (UDP_PAYLOAD + headers.DATAGRAM + headers.ETHERNET)
        return (MTU - headers.SEGMENT) / (MTU + headers.ETHERNET)


FLOWS = (
    Flow("sea", "nyc", "bic", (Part(0, 5 / 7),)),
    Flow("lax", "nyc", "cubic"),
    Flow("hou", "chi", "gaimd"),
    Flow("hou", "atl", UDP, (Part(0, 2 / 7, 0.2), Part(2 / 7, 1, 0.45))),
    Flow("nyc", "lax", "bic"),
    Flow("sea", "atl", "cubic", (Part(1 / 7),)),
    Flow("chi", "nyc", UDP, (Part(3 / 7, 6 / 7, 1.2),)),
    Flow("atl", "nyc", "gaimd", (Part(4 / 7),)),
)


@dataclass(frozen=True)
class Plan:
    """What is to be measured."""

    rate: int
    seconds: int
    variants: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Plan":
        return cls(data["rate"], data["seconds"], tuple(data["variants"]))

    def times(self, part: Part) -> tuple[int, int]:
        """When a part begins and ends."""
        return round(part.start * self.seconds), round(part.stop * self.seconds)

    def sends(self, flow: Flow, when: float) -> int | None:
        """What a flow sends then, if it may [bit/s]; None: whatever there is."""
        if flow.kind != UDP:
            return None
        shares = [part.share for part in flow.parts if self.times(part)[0] <= when]
        return round((shares or [flow.parts[0].share])[-1] * self.rate)


@dataclass
class Told:
    """What the agents tell of sessions, with times by the monotonic clock."""

    #: time, router, id, source port, destination port, demand, rate, round-trip [ns], over
    events: list[tuple[float, str, int, int, int, int, int, int, bool]] = field(
        default_factory=list
    )
    #: time, router, id, demand: where that is another than before
    demands: list[tuple[float, str, int, int]] = field(default_factory=list)


class Listener(threading.Thread):
    """Hears what the agents tell, at the time."""

    def __init__(self, watching: dict[str, Any], asking: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.watching, self.asking = watching, asking
        self.told = Told()
        self.ending = threading.Event()
        self.error: Exception | None = None
        self._known: dict[tuple[str, int], int] = {}

    def _hear(self, node: str) -> None:
        while (event := self.watching[node].next(0)) is not None:
            ports = event.source_port, event.destination_port
            rest = event.demand, event.rate, event.rtt, event.over
            self.told.events.append((time.monotonic(), node, event.id, *ports, *rest))

    def _ask(self) -> None:
        """Of a demand that does not restrict anybody nobody tells: so it is asked for."""
        for node, connection in self.asking.items():
            now = time.monotonic()
            for session in connection.list():
                if self._known.get((node, session.id)) != session.demand:
                    self._known[node, session.id] = session.demand
                    self.told.demands.append((now, node, session.id, session.demand))

    def run(self) -> None:
        poll = select.poll()
        nodes = {}
        for node, connection in self.watching.items():
            nodes[connection.fileno()] = node
            poll.register(connection.fileno(), select.POLLIN)
        due = time.monotonic()
        try:
            while not self.ending.is_set():
                for fd, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000):
                    self._hear(nodes[fd])
                if time.monotonic() >= due:
                    self._ask()
                    due = max(due + INTERVAL, time.monotonic())
        except OSError as error:
            self.error = error

    def stop(self) -> Told:
        self.ending.set()
        self.join()
        if self.error:
            raise LabError(f"an agent: {self.error}")
        return self.told


def own_ports() -> str:
    """The ports of the flows' own ends; iperf3's own talk is no flow of ours."""
    return f"{flows.FIRST_CLIENT_PORT}-{flows.FIRST_CLIENT_PORT + len(FLOWS) - 1}"


def agent_options(network: Network, node: str, rate: int, ports: str) -> dict[str, str]:
    """Options of slbnd for the access router of a node, for flows with one of these PORTS."""
    return {
        "hosts": f"{abilene.address_of(network, node)}/32",
        "devices": abilene.wire(abilene.access(node), node),
        "ports": ports,
        "initial": f"{rate}bit",
        "control": CONTROL_SHARE,
        "pause": PAUSE,
        "idle": IDLE,
        "hops": str(HOPS),
    }


@contextmanager
def agents(lab: Laboratory, rate: int, ports: str) -> Iterator[Listener]:
    """An agent on each access router, and a thread that records their events."""
    with ExitStack() as stack:
        started = Agents(lab)
        routers = {node: abilene.access(node) for node in abilene.ACCESS}
        for node, router in routers.items():
            started.start(router, agent_options(lab.network, node, rate, ports))
        watching = started.connect_all(stack)
        asking = started.connect_all(stack)
        for connection in watching.values():
            connection.watch()
        refuse_problems(started)
        listener = Listener(
            {node: watching[router] for node, router in routers.items()},
            {node: asking[router] for node, router in routers.items()},
        )
        listener.start()
        try:
            yield listener
        finally:
            listener.ending.set()
            listener.join()
        refuse_problems(started)


def refuse_problems(agents: Agents) -> None:
    """An agent goes on after a problem such as a flow that it cannot pace, and only prints it."""
    for router in agents.processes:
        if problem := agents.output(router):
            raise CannotRunError(f"slbnd at {router}: {problem}")


class Sender:
    """A flow: a server and a client of iperf3 for each of its parts, one after the other."""

    def __init__(self, lab: Laboratory, plan: Plan, number: int) -> None:
        self.lab, self.plan, self.number = lab, plan, number
        self.flow = FLOWS[number]
        self.ports = flows.ports(number)
        self.server: Any = None
        self.client: Any = None
        self.served = self.begun = 0
        #: When each part's first packets could be sent.
        self.started: list[float] = []

    def output(self, end: str, part: int) -> Path:
        return self.lab.scratch / f"{end}-{self.number}-{part}.json"

    def serve(self) -> None:
        """Be ready for the next part, if the one before is over."""
        if self.served == len(self.flow.parts) or (self.server and self.server.poll() is None):
            return
        address = abilene.address_of(self.lab.network, self.flow.destination)
        with self.output("server", self.served).open("wb") as output:
            command = flows.server_command(address, self.ports[1])
            node = abilene.host(self.flow.destination)
            self.server = self.lab.start(node, command, output)
        self.served += 1

    def wait_server(self) -> None:
        node = abilene.host(self.flow.destination)
        output = self.output("server", self.served - 1)
        flows.wait_server(self.lab, node, self.server, self.ports[1], output)

    def is_due(self, now: float) -> bool:
        """Should the next part begin, and can it?"""
        if self.begun == len(self.flow.parts) or self.served == self.begun:
            return False
        return now >= self.plan.times(self.flow.parts[self.begun])[0]

    def begin(self) -> None:
        self.wait_server()
        part = self.flow.parts[self.begun]
        start, stop = self.plan.times(part)
        seconds = stop - start - (GAP if self.begun + 1 < len(self.flow.parts) else 0)
        address = abilene.address_of(self.lab.network, self.flow.destination)
        command = flows.client_command(address, self.ports, self.flow.kind, seconds)
        if self.flow.kind == UDP:
            at = command.index("--congestion")
            bits = round(part.share * self.plan.rate * self.flow.payload_part)
            command[at : at + 2] = ["--udp", "--bitrate", str(bits), "--length", str(UDP_PAYLOAD)]
        with self.output("client", self.begun).open("wb") as output:
            self.client = self.lab.start(abilene.host(self.flow.source), command, output)
        self.begun += 1

    def look(self, now: float) -> None:
        """Has the part that was begun come so far that it sends?"""
        if len(self.started) == self.begun:
            return
        kind = "udp" if self.flow.kind == UDP else "tcp"
        pid = self.lab.pid(abilene.host(self.flow.source))
        table = Path(f"/proc/{pid}/net/{kind}").read_text()
        if f":{self.ports[0]:04X} " in table:
            self.started.append(now)
        elif self.client.poll() is not None:
            reason = flows.said_error(self.output("client", self.begun - 1))
            raise LabError(f"flow {self.flow.label}: iperf3: {reason}")

    def running(self) -> bool:
        return any(process and process.poll() is None for process in (self.client, self.server))

    def goodput(self) -> list[tuple[float, float, float]]:
        """(from, to, bit/s), second by second, as the receiver saw it."""
        found = []
        for number, started in enumerate(self.started):
            try:
                document = json.loads(self.output("server", number).read_text())
                found += [
                    (started + sums["start"], started + sums["end"], sums["bits_per_second"])
                    for sums in (part["sum"] for part in document["intervals"])
                    # The last may be a few packets long.
                    if sums["seconds"] > SHORTEST_INTERVAL
                ]
            except (ValueError, KeyError):
                reason = flows.said_error(self.output("server", number))
                raise LabError(f"flow {self.flow.label}: iperf3: {reason}") from None
        return found

    def retransmits(self) -> int:
        """How many segments TCP sent again."""
        if self.flow.kind == UDP:
            return 0
        flow = flows.parse_report(
            self.flow.label, self.output("client", 0), self.output("server", 0)
        )
        if flow.cc != self.flow.kind:
            raise CannotRunError(f"flow {self.flow.label} ran with '{flow.cc}'")
        return flow.retransmits


NOTHING = QueueState(0, 0, 0, 0, 0, 0)


class Sampler:
    """Reads the wires that flows use."""

    def __init__(self, lab: Laboratory, stack: ExitStack) -> None:
        used = {wire for flow in FLOWS for wire in (*flow.wires, *flow.wires_back)}
        ends: list[End] = [end for end in abilene.wires(lab.network) if end.interface in used]
        self.places = {end.interface: (end.node, lab.interface_index(end)) for end in ends}
        nodes = sorted({end.node for end in ends})
        self.readers = {node: stack.enter_context(lab.queue_reader(node)) for node in nodes}
        self.times: list[float] = []
        columns = ("sent", "packets", "held", "drops", "hidden", "control")
        self.wires: dict[str, dict[str, list[int]]] = {
            wire: {column: [] for column in columns} for wire in self.places
        }

    def take(self) -> None:
        self.times.append(time.monotonic())
        states = {node: reader.read() for node, reader in self.readers.items()}
        for wire, (node, index) in self.places.items():
            queue, delay, shaper, control = (
                states[node].get((index, major), NOTHING)
                for major in (QUEUE, NETEM, SHAPER, CONTROL)
            )
            kept = self.wires[wire]
            kept["sent"].append(shaper.sent_bytes)
            kept["packets"].append(shaper.sent_packets)
            kept["control"].append(control.sent_bytes)
            # netem holds what is on its way, too; what waits is in the data qdisc.
            kept["held"].append(queue.backlog_bytes)
            kept["drops"].append(queue.drops)
            # netem counts what it loses, and what the queue behind it refuses.
            kept["hidden"].append(max(0, delay.drops - queue.drops))


def run_flows(
    lab: Laboratory, plan: Plan, listener: Listener | None, progress: Progress
) -> dict[str, Any]:
    """Let the flows run; what was seen, with times from the first flow's start on."""
    senders = [Sender(lab, plan, number) for number in range(len(FLOWS))]
    with ExitStack() as stack:
        sampler = Sampler(lab, stack)
        for sender in senders:
            sender.serve()
        for sender in senders:
            sender.wait_server()
        load = host.Load.now()
        begin = time.monotonic() + QUIET
        next_sample = time.monotonic()
        while (now := time.monotonic() - begin) < plan.seconds:
            for sender in senders:
                sender.serve()
                if sender.is_due(now):
                    sender.begin()
                sender.look(now)
            if time.monotonic() >= next_sample:
                sampler.take()
                next_sample = max(next_sample + INTERVAL, time.monotonic())
            if progress.due():
                running = sum(bool(s.client and s.client.poll() is None) for s in senders)
                progress.update(f"{max(now, 0):3.0f} of {plan.seconds} s: {running} flows")
            time.sleep(TICK)
        load = host.Load.now().since(load)
        told = listener.stop() if listener else Told()
        deadline = time.monotonic() + flows.END_PATIENCE
        while any(sender.running() for sender in senders):
            if time.monotonic() > deadline:
                raise LabError("the flows do not end")
            time.sleep(0.1)
    return {
        "started": [sender.started for sender in senders],
        "goodput": [sender.goodput() for sender in senders],
        "retransmits": [sender.retransmits() for sender in senders],
        "events": [(round(when - begin, 4), *rest) for when, *rest in told.events],
        "demands": [(round(when - begin, 4), *rest) for when, *rest in told.demands],
        "times": [round(when - begin, 3) for when in sampler.times],
        "wires": sampler.wires,
        "load": vars(load) | {"idle_share": load.idle_share},
    }


def use(plan: Plan, measured: dict[str, Any], wire: str) -> list[float]:
    """How much of a wire was used (1: all of it) in the second before each sample but the first."""
    times, sent = measured["times"], measured["wires"][wire]["sent"]
    second = round(1 / INTERVAL)
    return [
        8 * (sent[n] - sent[n - second]) / plan.rate / (times[n] - times[n - second])
        for n in range(second, len(times))
    ]


def measure_variant(plan: Plan, name: str, progress: Progress) -> dict[str, Any]:
    network = abilene.build(plan.rate, VARIANTS[name], MTU)
    progress.step(f"{name}: building the network")
    with Laboratory(network, 16 * plan.rate // 8, ecn=False) as lab, ExitStack() as stack:
        preflight.offloads(lab)
        lab.add_queues()
        listener = None
        if VARIANTS[name].slbn:
            listener = stack.enter_context(agents(lab, plan.rate, own_ports()))
        progress.step(f"{name}: {len(FLOWS)} flows in {plan.seconds} s")
        return run_flows(lab, plan, listener, progress)


def measure(plan: Plan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    # Else the listener would be late by what another thread is at.
    sys.setswitchinterval(0.001)
    for cc in sorted({flow.kind for flow in FLOWS} - {UDP}):
        congestion.load(cc)
    data = {name: measure_variant(plan, name, progress) for name in plan.variants}
    document = environment() | {"plan": plan.to_json(), "variants": data}
    (directory / DATA).write_text(json.dumps(document))
