# SPDX-License-Identifier: GPL-2.0
"""Flows come and go on a backbone: with SLBN, with fair queueing alone, with FIFO queues.

The network is abilene.py's.  Hosts send with iperf3, unchanged, TCP under several congestion
controls and UDP; each runs for its own part of the time.  With SLBN, an agent (slbnd) on each
access router finds the flows, asks the links for their rates and holds them to these.

What is recorded, in the guest and in memory: what slbnd tells of each flow's rate, what each
receiver got in each second, and what each wire sent and held, twice a second.
"""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlab import abilene, congestion, flows, host, maxmin, measure, preflight
from fairlab.errors import CannotRunError, LabError
from fairlab.network import NETEM, QUEUE, SHAPER, Laboratory
from fairlab.progress import Progress
from fairlab.qdisc import BOTTLENECK, Qdisc
from fairlab.topology import Network

PLAN, DATA = "backbone.json", "backbone-data.json"
UDP = "udp"
INTERVAL = 0.5
MTU = 1500
#: Seconds before the first flow.
QUIET = 1.0

VARIANTS = {
    "slbn": abilene.Variant("slbn", Qdisc(BOTTLENECK, "drr_fq", ("limit", "100")), slbn=True),
    "drr_fq": abilene.Variant("drr_fq", Qdisc(BOTTLENECK, "drr_fq", ("limit", "100"))),
    "pfifo": abilene.Variant("pfifo", Qdisc(BOTTLENECK, "pfifo", ("limit", "100"))),
}


@dataclass(frozen=True)
class Flow:
    """A flow: from whose host to whose, under what, and its part of the time (0 to 1)."""

    source: str
    destination: str
    kind: str  # a congestion control, or UDP
    start: float = 0.0
    stop: float = 1.0
    share: float = 0.0  # what UDP sends, as a part of a wire's rate

    @property
    def label(self) -> str:
        return f"{self.source}-{self.destination} {self.kind}"


FLOWS = (
    Flow("sea", "nyc", "bic"),
    Flow("lax", "nyc", "cubic"),
    Flow("hou", "chi", "gaimd"),
    Flow("sea", "atl", "cubic", 0.1),
    Flow("lax", "chi", "bic", 0.1, 0.7),
    Flow("chi", "nyc", UDP, 0.2, 0.8, 1.2),
    Flow("atl", "nyc", "gaimd", 0.3),
    Flow("chi", "nyc", "cubic", 0.3, 0.7),
    Flow("hou", "atl", UDP, 0.4, 0.9, 0.2),
    Flow("nyc", "lax", "bic", 0.4),
    Flow("sea", "chi", "cubic", 0.5),
    Flow("chi", "atl", "gaimd", 0.5, 0.9),
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


def times(flow: Flow, seconds: int) -> tuple[float, float]:
    """When a flow starts and stops."""
    return flow.start * seconds, flow.stop * seconds


def demand(flow: Flow, rate: int) -> int | None:
    """What a flow can use [bit/s]; None: whatever there is."""
    return round(flow.share * rate) if flow.kind == UDP else None


def exact(plan: Plan, when: float) -> dict[int, float]:
    """The max-min fair rates of the flows that run then [bit/s]."""
    running = {
        str(n): maxmin.Session(
            [abilene.wire(*hop) for hop in abilene.path(flow.source, flow.destination)],
            demand(flow, plan.rate),
        )
        for n, flow in enumerate(FLOWS)
        if times(flow, plan.seconds)[0] <= when < times(flow, plan.seconds)[1]
    }
    wires = {link for session in running.values() for link in session.path}
    found = maxmin.rates(dict.fromkeys(wires, plan.rate), running)
    return {int(name): float(rate) for name, rate in found.items()}


def changes(plan: Plan) -> list[float]:
    """When flows start or stop."""
    return sorted({when for flow in FLOWS for when in times(flow, plan.seconds)})


@contextmanager
def agents(lab: Laboratory) -> Iterator[dict[str, Any]]:
    """slbnd on each access router, and a connection to each that watches."""
    top = host.tree()
    if top is None:
        raise CannotRunError("slbnd is part of the project's tree: run its scripts/fairlab")
    os.environ.setdefault("LIBSLBN", str(top / "build/libslbn/libslbn.so.0"))
    sys.path.insert(0, str(top / "userspace/libslbn"))
    import libslbn

    with ExitStack() as stack:
        watching = {}
        last = flows.FIRST_CLIENT_PORT + len(FLOWS) - 1
        for node in abilene.ACCESS:
            router = abilene.access(node)
            socket = lab.scratch / f"{router}.socket"
            address = abilene.address_of(lab.network, node)
            command = [str(top / "build/slbnd/slbnd"), "--config", "/dev/null"]
            command += ["--socket", str(socket), "--hosts", f"{address}/32"]
            command += ["--devices", abilene.wire(router, node)]
            # iperf3's own talk is no flow of ours.
            command += ["--ports", f"{flows.FIRST_CLIENT_PORT}-{last}"]
            said = lab.scratch / f"{router}.txt"
            with said.open("wb") as output:
                process = lab.start(router, command, output)
            deadline = time.monotonic() + flows.START_PATIENCE
            while True:
                try:
                    connection = stack.enter_context(libslbn.Connection(str(socket)))
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise LabError(f"slbnd on {router}: {said.read_text()}") from None
                    time.sleep(0.05)
            connection.watch()
            watching[node] = connection
        yield watching


class Run:
    """One variant."""

    def __init__(
        self, lab: Laboratory, plan: Plan, watching: dict[str, Any], progress: Progress
    ) -> None:
        self.lab, self.plan, self.progress = lab, plan, progress
        self.watching = watching
        self.clients: dict[int, Any] = {}
        self.begin = 0.0
        self.rates: list[tuple[float, int, int]] = []
        self.times: list[float] = []
        self.wires: dict[str, dict[str, list[int]]] = {}

    def output(self, name: str) -> Path:
        return self.lab.scratch / name

    def start_servers(self) -> None:
        servers = []
        for n, flow in enumerate(FLOWS):
            node = abilene.host(flow.destination)
            address = abilene.address_of(self.lab.network, flow.destination)
            _, port = flows.ports(n)
            with self.output(f"server-{n}.json").open("wb") as output:
                command = flows.server_command(address, port)
                servers.append((self.lab.start(node, command, output), node, port, n))
        for process, node, port, n in servers:
            flows.wait_server(self.lab, node, process, port, self.output(f"server-{n}.json"))
        self.servers = [process for process, *_ in servers]

    def start_client(self, n: int) -> None:
        flow = FLOWS[n]
        start, stop = times(flow, self.plan.seconds)
        address = abilene.address_of(self.lab.network, flow.destination)
        own, port = flows.ports(n)
        command = ["iperf3", "--client", address, "--port", str(port), "--cport", str(own)]
        command += ["--time", str(math.ceil(stop - start)), "--json"]
        if flow.kind == UDP:
            command += ["--udp", "--bitrate", str(demand(flow, self.plan.rate))]
            command += ["--length", "1400"]
        else:
            command += ["--congestion", flow.kind]
        with self.output(f"client-{n}.json").open("wb") as output:
            self.clients[n] = self.lab.start(abilene.host(flow.source), command, output)

    def take(self, readers: dict[str, Any], indices: dict[str, tuple[str, int]]) -> None:
        """A sample of all wires, and of what the agents have told since the last."""
        now = time.monotonic() - self.begin
        self.times.append(round(now, 3))
        states = {node: reader.read() for node, reader in readers.items()}
        for wire, (node, index) in indices.items():
            kept = self.wires.setdefault(wire, {"sent": [], "held": [], "drops": []})
            queue = states[node].get((index, QUEUE))
            # netem holds what is on its way, too; what waits is in the data qdisc.
            kept["sent"].append(states[node][index, SHAPER].sent_bytes)
            kept["held"].append(queue.backlog_bytes if queue else 0)
            kept["drops"].append(
                sum(states[node][index, major].drops for major in (QUEUE, NETEM, SHAPER)
                    if (index, major) in states[node])
            )  # fmt: skip
        for connection in self.watching.values():
            while (event := connection.next(0)) is not None:
                n = event.source_port - flows.FIRST_CLIENT_PORT
                if 0 <= n < len(FLOWS):
                    self.rates.append((round(now, 3), n, event.rate))

    def execute(self) -> None:
        network = self.lab.network
        with ExitStack() as stack:
            readers = {
                node: stack.enter_context(self.lab.queue_reader(node)) for node in network.routers
            }
            indices = {
                end.interface: (end.node, self.lab.interface_index(end))
                for end in abilene.wires(network)
            }
            self.start_servers()
            due = sorted(range(len(FLOWS)), key=lambda n: FLOWS[n].start)
            self.begin = time.monotonic() + QUIET
            while (now := time.monotonic() - self.begin) < self.plan.seconds:
                while due and times(FLOWS[due[0]], self.plan.seconds)[0] <= now:
                    self.start_client(due.pop(0))
                self.take(readers, indices)
                if self.progress.due():
                    self.progress.update(f"{now:3.0f} of {self.plan.seconds} s")
                time.sleep(max(0.0, INTERVAL - (time.monotonic() - self.begin - now)))
            deadline = time.monotonic() + flows.END_PATIENCE
            while any(p.poll() is None for p in (*self.clients.values(), *self.servers)):
                if time.monotonic() > deadline:
                    raise LabError("the flows do not end")
                time.sleep(0.1)

    def goodputs(self) -> list[list[tuple[float, float]]]:
        """Of each flow: (when, bit/s) for each second, as the receiver saw it."""
        found = []
        for n, flow in enumerate(FLOWS):
            text = self.output(f"server-{n}.json").read_text()
            try:
                document = json.loads(text)
                start, _ = times(flow, self.plan.seconds)
                found.append(
                    [
                        (start + part["sum"]["end"], part["sum"]["bits_per_second"])
                        for part in document["intervals"]
                    ]
                )
            except (ValueError, KeyError):
                reason = flows.said_error(self.output(f"server-{n}.json"))
                raise LabError(f"flow {flow.label}: iperf3: {reason}") from None
        return found


def build_programs() -> None:
    """What the run needs of the tree's own programs."""
    top = host.tree()
    if top is not None:
        host.run("make", "--silent", "--no-print-directory", "-C", str(top), "tc-plugins", "tools")


def measure_variant(plan: Plan, name: str, progress: Progress) -> dict[str, Any]:
    network: Network = abilene.build(plan.rate, VARIANTS[name], MTU)
    progress.step(f"{name}: building the network")
    with Laboratory(network, 16 * plan.rate // 8, ecn=False) as lab, ExitStack() as stack:
        preflight.offloads(lab)
        lab.add_queues()
        watching = stack.enter_context(agents(lab)) if VARIANTS[name].slbn else {}
        progress.step(f"{name}: {len(FLOWS)} flows in {plan.seconds} s")
        run = Run(lab, plan, watching, progress)
        run.execute()
        return {
            "goodput": run.goodputs(),
            "rates": run.rates,
            "times": run.times,
            "wires": run.wires,
        }


def measure_all(directory: Path, progress: Progress) -> None:
    """Do what DIRECTORY's plan says, and leave the data there."""
    plan = Plan.from_json(json.loads((directory / PLAN).read_text()))
    host.require_root()
    host.require_tools()
    for cc in sorted({flow.kind for flow in FLOWS} - {UDP}):
        congestion.load(cc)
    data = {name: measure_variant(plan, name, progress) for name in plan.variants}
    document = measure.environment() | {"plan": plan.to_json(), "variants": data}
    (directory / DATA).write_text(json.dumps(document))
