# SPDX-License-Identifier: GPL-2.0
"""Measuring a scenario on this kernel, as root.

The raw data is left in a directory:

    measurement.json        the scenario, the environment, and the samples (queues.py)
    client-N.json           the report of the sender of flow N
    server-N.json           the report of its receiver
    client-N.fair           the sender's report if it is fairflow (samples.py)
    background-*.json       fairtraffic's reports of the background, of both ends
    ping.txt, trace.txt     the output of the tools

During the run all data stays in memory: in an emulated machine, writing to the user's disk would
take time from the run.  A single thread starts each flow when it is due, samples, and prints
progress.
"""

import json
import math
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model import topology
from fairlab.model.errors import LabError
from fairlab.model.network import Bottleneck
from fairlab.model.qdisc import Qdisc
from fairlab.model.scenario import FAIRFLOW, Scenario
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.net.queues import INTERVAL, Sampler
from fairlab.net.tracing import Tracer, buffer_size
from fairlab.run import engine, evidence, flows, preflight
from fairlab.run.environment import environment
from fairlab.run.progress import Progress

MEASUREMENT, TRACE, PING = "measurement.json", "trace.txt", "ping.txt"
# Reports of fairtraffic: of the source, of the sink.
BACKGROUND_REPORTS = ("background-source.json", "background-sink.json")

# A flow has started when this many packets have arrived: more than iperf3's control connection has
# before.
STARTED_PACKETS = 30
QUIET_BEFORE = 0.5  # seconds of sampling before the first flow
# Seconds from the start of the background to that of the flows.
BACKGROUND_BEFORE = 2.0


def windows_memory(scenario: Scenario) -> int:
    """Socket buffers that never limit a flow, in bytes: several times the data in flight."""
    return 4 * (scenario.bdp + scenario.buffer.bytes_at_most(scenario.frame))


@dataclass(frozen=True)
class Fitness:
    """Measurements of the checks before a run."""

    capacity: float | None  # bit/s; None: no limit
    round_trip_ms: float


def prepare(lab: Laboratory, scenario: Scenario, progress: Progress) -> Fitness:
    """Set the network up for the scenario, checking each step."""
    preflight.choose(lab, scenario)
    preflight.qdiscs(lab, scenario)
    preflight.offloads(lab)
    capacity = None
    # In virtual time forwarding takes no time, and the trial would never end.
    if not engine.is_virtual():
        progress.step("measuring how fast this machine forwards")
        capacity = preflight.capacity(lab, scenario)
    lab.add_queues()
    preflight.delays(lab, scenario)
    return Fitness(capacity, preflight.round_trip(lab, scenario))


def check(scenario: Scenario, progress: Progress) -> Fitness:
    """Make all checks before a run, on a network that is built for it."""
    host.require_root()
    host.require_tools()
    preflight.look_up(scenario)
    progress.step("building the network")
    with laboratory(scenario) as lab:
        return prepare(lab, scenario, progress)


def laboratory(scenario: Scenario) -> Laboratory:
    """The network of a scenario, to be entered."""
    return Laboratory(topology.build(scenario), windows_memory(scenario), scenario.ecn)


def settings_in_force(lab: Laboratory, scenario: Scenario) -> list[dict[str, str]]:
    """For each flow, the parameters of its congestion control in its sender's namespace."""
    found = []
    for flow, path in zip(scenario.flows, lab.network.paths, strict=True):
        with lab.inside(path.sender):
            files = sorted(Path("/proc/sys/net/ipv4").glob(f"{flow.cc}_*"))
            found.append(
                {f.name: f.read_text().strip() for f in files if "available" not in f.name}
            )
    return found


def shown_queues(lab: Laboratory) -> list[dict[str, Any]]:
    """The qdiscs of the bottleneck and of the scenario's choice, with their own statistics."""
    network = lab.network
    own = [end for link in network.links for end, _ in link.ends() if isinstance(end.queue, Qdisc)]
    found = []
    for end in (network.bottleneck, *own):
        queue = end.queue.qdisc if isinstance(end.queue, Bottleneck) else end.queue
        assert isinstance(queue, Qdisc)
        shown = lab.shown_queue(end)
        # The requested options, the interface, the statistics.
        found.append(
            {"link": queue.link, "interface": end.interface, "asked": str(queue), "shown": shown}
        )
    return found


class Run:
    """A run, from the first server's start to the last flow's end."""

    def __init__(
        self, lab: Laboratory, scenario: Scenario, sampler: Sampler, progress: Progress
    ) -> None:
        self.lab = lab
        self.scenario = scenario
        self.sampler = sampler
        self.progress = progress
        self.traffic = flows.Traffic(lab, scenario)
        self.background = flows.BackgroundTraffic(lab, scenario)
        self.starts = dict(enumerate(scenario.starts()))
        # Times by the monotonic clock.
        self.launch = 0.0
        self.begin = 0.0  # when the first flow had started
        self.end = 0.0
        # The load of the machine from begin to end.
        self.load = host.Load.now()
        self.controls: dict[int, str] = {}

    def _started(self, number: int) -> bool:
        packets = self.sampler.samples.flow_packets[number]
        return packets[-1] - packets[0] > STARTED_PACKETS

    def _each_time(self) -> None:
        """After each sample: start flows, and check the running ones."""
        now = time.monotonic()
        since = now - self.launch
        for number, start in list(self.starts.items()):
            if since >= start:
                del self.starts[number]
                # A second more than needed, so that all flows send until the end.
                self.traffic.start_client(number, math.ceil(self.scenario.seconds - start) + 1)
        self.traffic.check_alive()
        self.background.check_alive()
        if not self.begin:
            if any(map(self._started, range(len(self.scenario.flows)))):
                self.begin = now
                self.load = host.Load.now()
            elif since > flows.START_PATIENCE:
                raise LabError("no data arrives through the network")
        elif len(self.controls) < len(self.scenario.flows):
            number = len(self.controls)
            if self._started(number):
                self.controls[number] = preflight.running(self.lab, self.scenario, number)
        if self.progress.due():
            self.progress.update(self._progress_text(now))

    def _progress_text(self, now: float) -> str:
        s = self.sampler.samples
        back = min(len(s.time) - 1, round(1 / INTERVAL))
        if not self.begin or not back:
            return "starting the flows"
        took = s.time[-1] - s.time[-1 - back]

        def mbits(column: list[int]) -> float:
            return (column[-1] - column[-1 - back]) * 8 / took / 1e6

        queue = s.backlog_bytes[-1] * 8 / self.scenario.rate * 1000
        each = "  ".join(
            f"{label} {mbits(column):.1f}"
            for label, column in zip(self.scenario.labels, s.flow_bytes, strict=True)
        )
        seconds = f"{now - self.begin:3.0f} of {self.scenario.seconds} s"
        return f"{seconds}: {each} = {mbits(s.sent_bytes):.1f} Mbit/s, queue {queue:.0f} ms"

    def execute(self) -> None:
        """From the first server's start to the last client's end."""
        self.traffic.start_servers()
        self.traffic.start_ping()
        self.background.start()
        self.sampler.next = time.monotonic()
        alone = BACKGROUND_BEFORE if self.scenario.background else QUIET_BEFORE
        self.sampler.wait(time.monotonic() + alone)
        self.launch = time.monotonic()
        while not self.begin or time.monotonic() < self.begin + self.scenario.seconds:
            self.sampler.wait(time.monotonic() + INTERVAL, self._each_time)
        self.end = time.monotonic()
        self.load = host.Load.now().since(self.load)
        self.background.stop("source")
        if len(self.controls) < len(self.scenario.flows):
            late = self.scenario.labels[len(self.controls)]
            raise LabError(
                f"flow {late} did not start: after {self.scenario.seconds} s hardly any data"
            )
        while self.traffic.running():
            self.sampler.wait(time.monotonic() + INTERVAL)
            if time.monotonic() > self.end + flows.END_PATIENCE:
                raise LabError("the flows do not end")
        self.sampler.take()
        self.background.stop("sink")
        self.traffic.stop_ping()


def measure(scenario: Scenario, directory: Path, progress: Progress) -> None:
    """Run a scenario; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    preflight.look_up(scenario)
    if scenario.background or scenario.sender == FAIRFLOW:
        host.traffic_program()
    progress.step("building the network")
    connections = [(flow.cc, *flows.ports(n)) for n, flow in enumerate(scenario.flows)]
    with closing(evidence.KernelLog()) as log, laboratory(scenario) as lab:
        fitness = prepare(lab, scenario, progress)
        around = environment() | {
            "modules": {flow.cc: host.module_version(flow.cc) for flow in scenario.flows},
            "settings": settings_in_force(lab, scenario),
        }
        size = buffer_size(scenario.rate, scenario.frame, scenario.seconds + 5)
        bottleneck, last = lab.network.bottleneck.node, lab.network.paths[0].last.node
        with (
            lab.queue_reader(bottleneck) as left,
            lab.queue_reader(last) as right,
            Tracer(connections, size) as tracer,
        ):
            progress.step(f"running {len(scenario.flows)} flows for {scenario.seconds} s")
            run = Run(lab, scenario, Sampler(lab, left, right), progress)
            clock_offset = time.time() - time.monotonic()
            run.execute()
            tracer.stop()
            reports = run.traffic.reports()
            queues = shown_queues(lab)
            for label, flow, report in zip(scenario.labels, scenario.flows, reports, strict=True):
                preflight.require_same(label, flow.cc, report.cc)
            progress.step("collecting the raw data")
            (directory / TRACE).write_text(tracer.read())
            trace_lost = tracer.lost()
            memory = evidence.tcp_memory(lab, lab.network.hosts)
            errors = log.errors()
        for output in (*run.traffic.outputs(), *run.background.reports()):
            shutil.copy(output, directory)
        shutil.copy(lab.scratch / PING, directory)
    document = around | {
        "scenario": scenario.to_json(),
        "begin": run.begin,
        "end": run.end,
        "clock_offset": clock_offset,
        "samples": run.sampler.samples.to_json(),
        "load": vars(run.load) | {"idle_share": run.load.idle_share},
        "capacity": fitness.capacity,
        "round_trip_ms": fitness.round_trip_ms,
        "trace_lost": trace_lost,
        "out_of_memory": memory,
        "kernel_errors": errors,
        "queues": queues,
        "reports": [vars(report) for report in reports],
    }
    # Written last: if it exists, the raw data is complete.
    (directory / MEASUREMENT).write_text(json.dumps(document))
