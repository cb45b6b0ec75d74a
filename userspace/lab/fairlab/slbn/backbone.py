# SPDX-License-Identifier: GPL-2.0
"""Flows join and leave on a backbone: SLBN over FIFOs, fair queueing alone, FIFOs alone.

The network is abilene.py's, with a choice of routes; some nodes may have no SLBN.  Hosts send with
unmodified iperf3, in virtual time with fairflow (iperf3's many system calls are slow there): TCP
with several congestion controls and UDP, each for a part of the time.  With
SLBN, an agent (slbnd) on each access router detects the flows, requests their rates from the links,
and paces them; it lowers TCP's receive windows to what rates need (slbnd --windows on).  Control
packets may be authenticated, with keys that are replaced (keys.py).

Recorded in memory: each flow's path, every event of the agents' sessions, the goodput of each
receiver by the second, and the sent bytes and backlog of each link, four times a second.
backbone_analysis.py computes from that the rates that the agents should have assigned,
backbone_report.py the result.
"""

import json
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlab.model import background, headers
from fairlab.model.errors import LabError
from fairlab.model.network import Network
from fairlab.model.plain import Plain
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.net import congestion, host
from fairlab.net.network import Laboratory
from fairlab.net.queues import Sampler
from fairlab.run import engine, evidence, flows, preflight, samples
from fairlab.run.environment import environment
from fairlab.run.programs import Process, Programs, wait_server
from fairlab.run.progress import Progress
from fairlab.slbn import abilene
from fairlab.slbn.agents import Agents
from fairlab.slbn.keys import Keys

DATA = "backbone-data.json"
UDP = "udp"
UDP_PAYLOAD = 1400
MTU = 1500
TICK, INTERVAL = 0.05, 0.25
#: The shortest interval of iperf3's report that counts [s].
SHORTEST_INTERVAL = 0.5
#: Time for the last packets to arrive [s].
DRAIN = 2.0
#: Seconds before the first flow.
QUIET = 2.0
#: The shortest run [s], so that rates settle between two changes.
SHORTEST = 35
#: Seconds between two parts of a flow.
GAP = 1
#: The queue limit of each link in packets, which at high rates is BUFFER seconds of its rate, about
#: the longest path's round-trip time.
LIMIT = ("limit", "64")
BUFFER = 0.072

#: Qdiscs of links without SLBN in the variant with SLBN.
NO_SLBN = ("drr_fq", "pfifo")

#: SLBN needs no fair queues: its links are FIFOs.
VARIANTS = {
    "slbn": abilene.Variant("slbn", Qdisc(BOTTLENECK, "pfifo", LIMIT), slbn=True, headroom=10),
    "fq_codel": abilene.Variant("fq_codel", Qdisc(BOTTLENECK, "fq_codel")),
    "drr_fq": abilene.Variant("drr_fq", Qdisc(BOTTLENECK, "drr_fq", LIMIT)),
    "pfifo": abilene.Variant("pfifo", Qdisc(BOTTLENECK, "pfifo", LIMIT)),
}

# Options of slbnd.  At a few Mbit/s 1 % would be one control packet in a tenth of a second; 10 % is
# one in each round-trip time, as 1 %, the default, is from abilene.FAST on.
CONTROL_SHARE, PAUSE, IDLE = "10%", "2ms", "2s"
FAST_SHARE = "1%"
# Hop slots of a control packet: more than the links on the longest path of least delay, and even.
HOPS = 8


@dataclass(frozen=True)
class Part:
    """A part of the time (0 to 1) in which a flow sends; UDP sends SHARE of a link's rate."""

    start: float = 0.0
    stop: float = 1.0
    share: float = 0.0


@dataclass(frozen=True)
class Flow:
    """A flow between the hosts of two nodes, and the times at which it sends."""

    source: str
    destination: str
    kind: str  # a congestion control, or UDP
    parts: tuple[Part, ...] = (Part(),)

    @property
    def label(self) -> str:
        return f"{self.source}-{self.destination} {self.kind}"

    @property
    def payload_part(self) -> float:
        """The payload as a fraction of the frames."""
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
class Plan(Plain):
    """The description of a run."""

    rate: int
    seconds: int
    variants: tuple[str, ...]
    #: one of abilene.ROUTINGS
    paths: str = "symmetric"
    #: seconds between two keys; 0: control packets are not authenticated
    rotate_keys: int = 0
    #: nodes whose links have no SLBN, and these links' qdisc, one of NO_SLBN
    without: tuple[tuple[str, str], ...] = ()

    @property
    def routing(self) -> abilene.Routing:
        return abilene.ROUTINGS[self.paths]

    def network(self, variant: abilene.Variant) -> Network:
        without = {
            node: self._scaled(Qdisc(BOTTLENECK, kind, LIMIT)) for node, kind in self.without
        }
        scaled = replace(variant, data=self._scaled(variant.data))
        return abilene.build(self.rate, scaled, MTU, self.routing, without)

    def _scaled(self, qdisc: Qdisc) -> Qdisc:
        """A qdisc with the queue limit for this rate, if it has one."""
        if qdisc.words != LIMIT:
            return qdisc
        packets = round(self.rate * BUFFER / 8 / (MTU + headers.ETHERNET))
        return replace(qdisc, words=("limit", str(max(int(LIMIT[1]), packets))))

    def takes_part(self, wire: str) -> bool:
        """In the variant with SLBN: is it a link with SLBN?"""
        return abilene.ends(wire)[0] not in dict(self.without)

    def is_partial(self, wires: Iterable[str]) -> bool:
        """Is there a link without SLBN among these?"""
        return not all(map(self.takes_part, wires))

    def times(self, part: Part) -> tuple[int, int]:
        """The begin and the end of a part [s]."""
        return round(part.start * self.seconds), round(part.stop * self.seconds)

    def sends(self, flow: Flow, when: float) -> int | None:
        """The rate at which a flow would send then [bit/s]; None: without limit."""
        if flow.kind != UDP:
            return None
        shares = [part.share for part in flow.parts if self.times(part)[0] <= when]
        return round((shares or [flow.parts[0].share])[-1] * self.rate)


@dataclass(frozen=True)
class Paths:
    """The links on each flow's path, and on the path back."""

    there: list[list[str]]
    back: list[list[str]]

    def of(self, flow: int, back: bool = False) -> list[str]:
        return (self.back if back else self.there)[flow]

    @property
    def used(self) -> set[str]:
        return {wire for path in (*self.there, *self.back) for wire in path}

    @property
    def longest(self) -> float:
        """The longest round-trip time without queues [s]."""
        pairs = zip(self.there, self.back, strict=True)
        return max(abilene.delay_of((*there, *back)) for there, back in pairs) / 1e6


def both_ways(path: Callable[[str, str], list[str]]) -> Paths:
    """The paths of all flows; PATH is from a node to another."""
    return Paths(
        [path(flow.source, flow.destination) for flow in FLOWS],
        [path(flow.destination, flow.source) for flow in FLOWS],
    )


def read_paths(lab: Laboratory) -> Paths:
    """The paths that packets take, as the kernel of each router reports them."""
    network = lab.network
    address = {node: abilene.address_of(network, node) for node in abilene.ACCESS}
    pairs = {(flow.source, flow.destination) for flow in FLOWS}
    pairs |= {(there, back) for back, there in pairs}
    peer = {end.interface: other for link in network.links for end, other in link.ends()}
    chosen: dict[str, dict[tuple[str, str], str]] = {}
    for router in network.routers:
        # With a device of arrival the kernel looks up the route of a forwarded packet.
        arrival = network.ends_of(router)[0][0].interface
        batch = [f"route get {address[b]} from {address[a]} iif {arrival}" for a, b in pairs]
        lines = "\n".join(batch)
        output = lab.shell(router, f"ip -batch - <<'END'\n{lines}\nEND")
        devices = re.findall(r"^(\S+) from (\S+) .*?\bdev (\S+)", output, re.MULTILINE)
        chosen[router] = {(source, to): device for to, source, device in devices}

    def path(a: str, b: str) -> list[str]:
        found: list[str] = []
        at = abilene.access(a)
        while at != abilene.host(b):
            wire = chosen[at].get((address[a], address[b]))
            if wire is None or wire in found:
                raise LabError(f"no path from {a} to {b}: {', '.join(found)}")
            found.append(wire)
            at = peer[wire].node
        return found[:-1]

    return both_ways(path)


def paths_of(lab: Laboratory, routing: abilene.Routing) -> Paths:
    """The paths of all flows."""
    if routing == abilene.SYMMETRIC:
        return both_ways(routing.path)
    for router in lab.network.routers:
        # Packets may arrive by another device than their source is reached by.  Layer 3 decides
        # between equal-cost paths, as control packets have other ports than their flow's.
        lab.shell(
            router,
            "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done;"
            " echo 0 >/proc/sys/net/ipv4/fib_multipath_hash_policy",
        )
    found = read_paths(lab)
    if not routing.ecmp and found != both_ways(routing.path):
        raise LabError("packets take other paths than the routes say")
    return found


@dataclass
class Recording:
    """The agents' reports of sessions, with times by the monotonic clock."""

    #: time, router, id, source port, destination port, demand, rate, round-trip [ns], over
    events: list[tuple[float, str, int, int, int, int, int, int, bool]] = field(
        default_factory=list
    )
    #: time, router, id, demand: when it has changed
    demands: list[tuple[float, str, int, int]] = field(default_factory=list)
    #: data packets that the agents' pacers dropped
    paced_drops: int = 0


class Listener(threading.Thread):
    """Records the agents' events when they occur."""

    def __init__(self, agents: Agents, watching: dict[str, Any], asking: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.agents = agents
        self.watching, self.asking = watching, asking
        self.recording = Recording()
        self.ending = threading.Event()
        self.error: Exception | None = None
        self._known: dict[tuple[str, int], int] = {}

    def _hear(self, node: str) -> None:
        while (event := self.watching[node].next(0)) is not None:
            ports = event.source_port, event.destination_port
            rest = event.demand, event.rate, event.rtt, event.over
            self.recording.events.append((time.monotonic(), node, event.id, *ports, *rest))

    def _ask(self) -> None:
        """Poll the demands: a change that changes no rate is not notified."""
        for node, connection in self.asking.items():
            now = time.monotonic()
            for session in connection.list():
                if self._known.get((node, session.id)) != session.demand:
                    self._known[node, session.id] = session.demand
                    self.recording.demands.append((now, node, session.id, session.demand))

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

    def stop(self) -> Recording:
        self.ending.set()
        self.join()
        if self.error:
            raise LabError(f"an agent: {self.error}")
        states = [connection.status() for connection in self.asking.values()]
        self.recording.paced_drops = sum(state.paced_drops for state in states)
        return self.recording


def own_ports() -> str:
    """The source ports of the flows, without those of iperf3's control connections."""
    return f"{flows.FIRST_CLIENT_PORT}-{flows.FIRST_CLIENT_PORT + len(FLOWS) - 1}"


def agent_options(
    network: Network, node: str, rate: int, ports: str, more: Mapping[str, str]
) -> dict[str, str]:
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
        **more,
    }


@contextmanager
def agents(
    lab: Laboratory, rate: int, ports: str, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Listener]:
    """An agent on each access router, with MORE options, and a thread that records their events."""
    with ExitStack() as stack:
        started = Agents(lab)
        routers = {node: abilene.access(node) for node in abilene.ACCESS}
        for node, router in routers.items():
            started.start(router, agent_options(lab.network, node, rate, ports, more))
        watching = started.connect_all(stack)
        asking = started.connect_all(stack)
        for connection in watching.values():
            connection.watch()
        listener = Listener(
            started,
            {node: watching[router] for node, router in routers.items()},
            {node: asking[router] for node, router in routers.items()},
        )
        listener.start()
        try:
            yield listener
        finally:
            listener.ending.set()
            listener.join()


def is_uplink(wire: str) -> bool:
    """Is it the link of an access router, which with SLBN paces packets?"""
    return any(wire.startswith(f"{abilene.access(node)}.") for node in abilene.ACCESS)


def slots(routing: abilene.Routing) -> int:
    """The hop slots of a control packet."""
    return (routing.most_hops() // 2 + 1) * 2


def domain_keys(lab: Laboratory, plan: Plan) -> Keys:
    """The keys of all links and agents."""
    agents = Agents(lab)
    sockets = {router: agents.socket(router) for router in map(abilene.access, abilene.ACCESS)}
    routers = [router for router in lab.network.routers if router not in dict(plan.without)]
    return Keys(lab, routers, sockets, plan.rotate_keys)


class Sender:
    """A flow: an iperf3 server and client for each of its parts."""

    def __init__(self, programs: Programs, plan: Plan, number: int) -> None:
        self.programs, self.plan, self.number = programs, plan, number
        self.lab = programs.lab
        self.flow = FLOWS[number]
        self.ports = flows.ports(number)
        self.address = abilene.address_of(self.lab.network, self.flow.destination)
        self.source, self.destination = map(abilene.host, (self.flow.source, self.flow.destination))
        self.server: Process | None = None
        self.client: Process | None = None
        self.served = self.begun = 0
        #: The start of each part.
        self.started: list[float] = []

    def name(self, end: str, part: int) -> str:
        """The name of a program."""
        return f"{end}-{self.number}-{part}"

    def output(self, end: str, part: int) -> Path:
        return self.programs.output(f"{self.name(end, part)}.json")

    def reason(self) -> str:
        """Why the client has ended."""
        return f"iperf3: {flows.said_error(self.output('client', self.begun - 1))}"

    def serve(self) -> None:
        """Start the server of the next part, if the last part has ended."""
        if self.served == len(self.flow.parts) or (self.server and self.server.poll() is None):
            return
        name = self.name("server", self.served)
        self.server = self.programs.start_server(
            name, self.destination, self.address, self.ports[1]
        )
        self.served += 1

    def wait_server(self) -> None:
        assert self.server
        output = self.output("server", self.served - 1)
        wait_server(self.lab, self.destination, self.server, self.ports[1], output)

    def is_due(self, now: float) -> bool:
        """Is the next part due, and its server started?"""
        if self.begun == len(self.flow.parts) or self.served == self.begun:
            return False
        return now >= self.plan.times(self.flow.parts[self.begun])[0]

    def part(self) -> tuple[int, int]:
        """Of the next part: its seconds, and the rate of UDP's payload [bit/s]."""
        part = self.flow.parts[self.begun]
        start, stop = self.plan.times(part)
        seconds = stop - start - (GAP if self.begun + 1 < len(self.flow.parts) else 0)
        return seconds, round(part.share * self.plan.rate * self.flow.payload_part)

    def begin(self) -> None:
        self.wait_server()
        seconds, bits = self.part()
        command = flows.client_command(self.address, self.ports, self.flow.kind, seconds)
        if self.flow.kind == UDP:
            at = command.index("--congestion")
            command[at : at + 2] = ["--udp", "--bitrate", str(bits), "--length", str(UDP_PAYLOAD)]
        name = self.name("client", self.begun)
        self.client = self.programs.start_client(name, self.source, command)
        self.begun += 1

    def look(self, now: float) -> None:
        """Record the start of the part, once its socket exists."""
        if len(self.started) == self.begun:
            return
        kind = "udp" if self.flow.kind == UDP else "tcp"
        with self.lab.inside(self.source):
            table = Path(f"/proc/thread-self/net/{kind}").read_text()
        if f":{self.ports[0]:04X} " in table:
            self.started.append(now)
        elif self.client and self.client.poll() is not None:
            raise LabError(f"flow {self.flow.label}: {self.reason()}")

    def running(self) -> bool:
        return any(process and process.poll() is None for process in (self.client, self.server))

    def goodput(self) -> list[tuple[float, float, float]]:
        """(begin, end, bit/s) for each second, by the receiver."""
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

    def report(self) -> flows.Report:
        """The report of a TCP flow's first part."""
        return flows.parse_report(
            self.flow.label, self.output("client", 0), self.output("server", 0)
        )

    def ran(self) -> tuple[str, bool]:
        """The kind of flow that ran, and whether it sent anything."""
        if self.flow.kind == UDP:
            return UDP, bool(self.goodput())
        report = self.report()
        return report.cc, report.received_bytes > 0

    def retransmits(self) -> int:
        """The number of retransmitted segments."""
        return 0 if self.flow.kind == UDP else self.report().retransmits

    def totals(self) -> dict[str, Any] | None:
        """What the flow sent and its destination received: iperf3 does not say all of that."""
        return None


class FairSender(Sender):
    """A flow sent by fairflow to a sink of its own."""

    def __init__(self, programs: Programs, plan: Plan, number: int) -> None:
        super().__init__(programs, plan, number)
        #: UDP: time, part, datagrams that the destination has received.
        self.received: list[tuple[float, int, int]] = []

    def serve(self) -> None:
        """Start the sink, which all parts share."""
        if self.server is None:
            kind = background.PACKETS if self.flow.kind == UDP else background.FLOWS
            self.server = self.programs.start_sink(
                self.name("sink", 0), self.destination, self.address, self.ports[1], kind
            )
        if self.client is None or self.client.poll() is not None:
            self.served = min(self.begun + 1, len(self.flow.parts))

    def wait_server(self) -> None:
        """It listens: start_sink() waits for it."""

    def reason(self) -> str:
        assert self.client
        return self.programs.reason(self.name("samples", self.begun - 1), self.client.poll())

    def begin(self) -> None:
        seconds, bits = self.part()
        words = f"to={self.address},port={self.ports[1]},from={self.ports[0]},stop={seconds}"
        if self.flow.kind == UDP:
            words += f",udp={bits},size={UDP_PAYLOAD}"
        else:
            words += f",cc={self.flow.kind}"
        name = self.name("samples", self.begun)
        self.client = self.programs.start_senders(name, self.source, None, INTERVAL, [words])
        self.begun += 1

    def look(self, now: float) -> None:
        super().look(now)
        if self.flow.kind != UDP or len(self.started) < self.begun or not self.begun:
            return
        same_part = bool(self.received) and self.received[-1][1] == self.begun
        if same_part and (now < self.received[-1][0] + 1 or not self.running()):
            return
        # No other flow of UDP has this destination.
        with self.lab.inside(self.destination):
            text = Path("/proc/thread-self/net/snmp").read_text()
        heads, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
        self.received.append((now, self.begun, int(values[heads.index("InDatagrams")])))

    def running(self) -> bool:
        return bool(self.client and self.client.poll() is None)

    def samples(self, part: int) -> Path:
        return self.programs.output(f"{self.name('samples', part)}.fair")

    def goodput(self) -> list[tuple[float, float, float]]:
        """(begin, end, bit/s) for each second: of TCP, of what was acknowledged."""
        if self.flow.kind == UDP:
            return [
                (begin, end, 8 * UDP_PAYLOAD * (most - least) / (end - begin))
                for (begin, one, least), (end, other, most) in pairwise(self.received)
                if one == other
            ]
        found = []
        for number, started in enumerate(self.started):
            _, rows = samples.read(self.samples(number))
            seconds = round(1 / INTERVAL)
            points = [(0.0, 0.0), *zip(rows["time"] / 1e9, rows["acked"], strict=True)][::seconds]
            found += [
                (started + float(a), started + float(b), 8 * float(most - least) / float(b - a))
                for (a, least), (b, most) in pairwise(points)
            ]
        return found

    def heads(self) -> list[dict[str, Any]]:
        """fairflow's totals of each part."""
        return [samples.read_head(self.samples(n))["flows"][0] for n in range(self.begun)]

    def ran(self) -> tuple[str, bool]:
        """The kinds of flow that ran, and whether all parts sent anything."""
        heads = self.heads()
        return " and ".join(sorted({head["kind"] for head in heads})), all(
            head["sent"] for head in heads
        )

    def retransmits(self) -> int:
        """The number of retransmitted segments."""
        return sum(head.get("retransmits", 0) for head in self.heads())

    def totals(self) -> dict[str, Any] | None:
        """Of payload, what the flow sent and its destination received [bytes].

        Of TCP, what was acknowledged, and its segments; of UDP, how many packets had which delay.
        """
        heads = self.heads()
        if self.flow.kind != UDP:
            return {
                "got": sum(head["acked"] for head in heads),
                "segments": sum(head["segments"] for head in heads),
            }
        report = json.loads(self.output("sink", 0).read_text())
        sent = sum(head["sent"] for head in heads)
        names = ("delay_step_us", "delays")
        return {"sent": sent, "got": report["bytes"]} | {name: report[name] for name in names}


def run_flows(
    lab: Laboratory,
    plan: Plan,
    paths: Paths,
    listener: Listener | None,
    keys: Keys | None,
    log: evidence.KernelLog,
    progress: Progress,
) -> dict[str, Any]:
    """Run the flows; the raw data, with times from the start."""
    kind = FairSender if engine.is_virtual() else Sender
    programs = Programs(lab)
    senders = [kind(programs, plan, number) for number in range(len(FLOWS))]
    with ExitStack() as stack:
        ends = [end for end in abilene.wires(lab.network) if end.interface in paths.used]
        sampler = Sampler(lab, ends, stack)
        for sender in senders:
            sender.serve()
        for sender in senders:
            sender.wait_server()
        if keys:
            keys.start()
        load = host.Load.now()
        sent, arrived = evidence.host_packets(lab)
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
        memory = evidence.tcp_memory(lab, lab.network.hosts)
        replaced = keys.stop() if keys else None
        recording = listener.stop() if listener else Recording()
        deadline = time.monotonic() + flows.END_PATIENCE
        while any(sender.running() for sender in senders):
            if time.monotonic() > deadline:
                raise LabError("the flows do not end")
            time.sleep(0.1)
        time.sleep(DRAIN)
        programs.stop()
        all_sent, all_arrived = evidence.host_packets(lab)
    return {
        "paths": asdict(paths),
        "keys": replaced,
        "started": [sender.started for sender in senders],
        "goodput": [sender.goodput() for sender in senders],
        "ran": [sender.ran() for sender in senders],
        "retransmits": [sender.retransmits() for sender in senders],
        "totals": [sender.totals() for sender in senders],
        "hosts": {"sent": all_sent - sent, "arrived": all_arrived - arrived},
        "paced_drops": recording.paced_drops,
        "events": [(round(when - begin, 4), *rest) for when, *rest in recording.events],
        "demands": [(round(when - begin, 4), *rest) for when, *rest in recording.demands],
        "times": [round(when - begin, 3) for when in sampler.times],
        "wires": sampler.wires,
        "load": vars(load) | {"idle_share": load.idle_share},
        "virtual": engine.is_virtual(),
        "out_of_memory": memory,
        "agents": listener.agents.printed() if listener else {},
        "kernel_errors": log.errors(),
        "changed": lab.changed(),
    }


def use(plan: Plan, measured: dict[str, Any], wire: str) -> list[float]:
    """The utilisation of a link (0 to 1) in the second before each sample but the first."""
    times, sent = measured["times"], measured["wires"][wire]["sent"]
    second = round(1 / INTERVAL)
    return [
        8 * (sent[n] - sent[n - second]) / plan.rate / (times[n] - times[n - second])
        for n in range(second, len(times))
    ]


def measure_variant(plan: Plan, name: str, progress: Progress) -> dict[str, Any]:
    variant = VARIANTS[name]
    network = plan.network(variant)
    progress.step(f"{name}: building the network")
    with Laboratory(network, 16 * plan.rate // 8, ecn=False) as lab, ExitStack() as stack:
        log = stack.enter_context(closing(evidence.KernelLog()))
        preflight.offloads(lab)
        lab.add_queues()
        paths = paths_of(lab, plan.routing)
        listener = keys = None
        more = {"hops": str(slots(plan.routing)), "windows": "on"}
        if plan.rate >= abilene.FAST:
            more["control"] = FAST_SHARE
        if variant.slbn and plan.rotate_keys:
            keys = stack.enter_context(domain_keys(lab, plan))
            more["key-file"] = str(keys.add_first())
        if variant.slbn:
            listener = stack.enter_context(agents(lab, plan.rate, own_ports(), more))
        progress.step(f"{name}: {len(FLOWS)} flows in {plan.seconds} s")
        return run_flows(lab, plan, paths, listener, keys, log, progress)


def measure(plan: Plan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    # Otherwise other threads would delay the listener.
    sys.setswitchinterval(0.001)
    for cc in sorted({flow.kind for flow in FLOWS} - {UDP}):
        congestion.load(cc)
    data = {name: measure_variant(plan, name, progress) for name in plan.variants}
    document = environment() | {"plan": plan.to_json(), "variants": data}
    (directory / DATA).write_text(json.dumps(document))
