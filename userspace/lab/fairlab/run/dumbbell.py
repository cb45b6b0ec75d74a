# SPDX-License-Identifier: GPL-2.0
"""Measuring a scenario on this kernel, as root.

The raw data is left in a directory:

    measurement.json        the scenario, the environment, and the samples
    client-N.json           the report of the sender of flow N
    server-N.json           the report of its receiver
    client-N.fair           the sender's report if it is fairflow (samples.py)
    background-*.json       fairtraffic's reports of the background, of both ends
    ping.txt, trace.txt     the output of the tools

One sender for each flow, iperf3 or fairflow, sends all the time; throughput over time is sampled.
A ping runs from the first sender to the first receiver, through the bottleneck, and measures the
round-trip time of the flows directly, independent of the sampled queue length.  The background has
a source and a sink, which run until they are stopped, and then write their reports.

During the run all data stays in memory: in an emulated machine, writing to the user's disk would
take time from the run.  A single thread starts each flow when it is due, samples, and prints
progress.
"""

import json
import math
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from fairlab.model import background, topology
from fairlab.model.errors import LabError
from fairlab.model.network import Bottleneck, End
from fairlab.model.qdisc import Qdisc
from fairlab.model.scenario import FAIRFLOW, Scenario
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.net.queues import Sampler, sampled
from fairlab.net.tracing import Tracer, buffer_size
from fairlab.run import engine, evidence, flows, preflight
from fairlab.run.programs import Process, Programs, wait_server
from fairlab.run.progress import Progress

MEASUREMENT, TRACE, PING = "measurement.json", "trace.txt", "ping.txt"
# Reports of fairtraffic: of the source, of the sink.
BACKGROUND = ("background-source", "background-sink")
BACKGROUND_REPORTS = tuple(f"{name}.json" for name in BACKGROUND)
#: What programs write, without what they print.
OUTPUTS = (PING, "client-*.fair", "*-[0-9]*.json", "background-*.json")
BACKGROUND_PORT = 5000
#: The background's name, among those of flows.
BESIDE = "the background"

INTERVAL = 0.1  # of samples [s]

# A flow has started when this many packets have arrived: more than iperf3's control connection has
# before.
STARTED_PACKETS = 30
QUIET_BEFORE = 0.5  # seconds of sampling before the first flow
# Seconds from the start of the background to that of the flows.
BACKGROUND_BEFORE = 2.0


def windows_memory(scenario: Scenario) -> int:
    """Socket buffers that never limit a flow, in bytes: several times the data in flight."""
    return 4 * (scenario.bdp + scenario.buffer.bytes_at_most(scenario.frame))


def prepare(lab: Laboratory, scenario: Scenario, progress: Progress) -> dict[str, Any]:
    """Set the network up for the scenario, checking each step; return what was measured."""
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
    # In bit/s; None: no limit.
    return {"capacity": capacity, "round_trip_ms": preflight.round_trip(lab, scenario)}


def check(scenario: Scenario, progress: Progress) -> dict[str, Any]:
    """Make all checks before a run, on a network that is built for it."""
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
    own = [end for end in network.ends if isinstance(end.queue, Qdisc)]
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


class Traffic:
    """The flows, the ping and the background of a scenario on its network."""

    def __init__(self, lab: Laboratory, scenario: Scenario) -> None:
        self.lab = lab
        self.scenario = scenario
        self.programs = Programs(lab)
        #: iperf3's; fairtraffic's sinks run until they are stopped
        self.servers: list[Process] = []
        self.clients: dict[int, Process] = {}
        self.pinging: Process | None = None
        self.ours = scenario.sender == FAIRFLOW

    def client_output(self, number: int) -> Path:
        ending = "fair" if self.ours else "json"
        return self.programs.output(f"client-{number + 1}.{ending}")

    def server_output(self, number: int) -> Path:
        return self.programs.output(f"server-{number + 1}.json")

    def start_servers(self) -> None:
        """Start the receiver of each flow, and wait until all listen."""
        for number, path in enumerate(self.lab.network.paths):
            name, (_, port) = f"server-{number + 1}", flows.ports(number)
            if self.ours:
                self.programs.start_sink(name, path.receiver, path.address, port, background.FLOWS)
                continue
            command = flows.server_command(path.address, port)
            server = self.programs.start(name, path.receiver, command, "json")
            self.servers.append(server)
            wait_server(self.lab, path.receiver, server, port, self.server_output(number))

    def start_client(self, number: int, seconds: int) -> None:
        """Start flow NUMBER, to send for SECONDS."""
        path, name = self.lab.network.paths[number], f"client-{number + 1}"
        cc, (own, port) = self.scenario.flows[number].cc, flows.ports(number)
        if self.ours:
            words = f"to={path.address},port={port},from={own},cc={cc},stop={seconds}"
            client = self.programs.start_senders(name, path.sender, None, INTERVAL, [words])
        else:
            command = flows.client_command(path.address, (own, port), cc, seconds)
            client = self.programs.start(name, path.sender, command, "json")
        self.clients[number] = client

    def start_ping(self) -> None:
        path = self.lab.network.paths[0]
        command = ["ping", "-n", "-D", "-i", "0.2", path.address]
        self.pinging = self.programs.start(Path(PING).stem, path.sender, command)

    def stop_ping(self) -> None:
        """Interrupt the ping, which then writes its remaining output."""
        if self.pinging:
            self.pinging.send_signal(signal.SIGINT)
            self.pinging.wait(flows.END_PATIENCE)

    def start_background(self) -> None:
        """Start sink and source, if there is a background."""
        what, path, s = self.scenario.background, self.lab.network.background, self.scenario
        if not what or not path:
            return
        source, sink = BACKGROUND
        self.programs.start_sink(sink, path.receiver, path.address, BACKGROUND_PORT, what.kind)
        options = flows.source_options(what, s.rate, s.mtu, s.seed, path.address)
        self.programs.start_source(source, path.sender, BACKGROUND_PORT, options)

    def check_alive(self) -> None:
        """Raise LabError if a client has ended early, whatever iperf3's exit status."""
        for number, client in self.clients.items():
            if (status := client.poll()) is not None:
                if self.ours:
                    reason = self.programs.reason(f"client-{number + 1}", status)
                else:
                    reason = flows.said_error(self.client_output(number))
                label, sender = self.scenario.labels[number], self.scenario.sender
                raise LabError(f"flow {label}: {sender}: {reason}")
        self.programs.check()

    def running(self) -> bool:
        """True if any flow is still running."""
        processes = [*self.clients.values(), *self.servers]
        return any(process.poll() is None for process in processes)

    def reports(self) -> list[flows.Report]:
        """The reports of each flow, after their end."""
        parse = flows.parse_fairflow if self.ours else flows.parse_report
        return [
            parse(label, self.client_output(n), self.server_output(n))
            for n, label in enumerate(self.scenario.labels)
        ]


class Run:
    """A run, from the first server's start to the last flow's end."""

    def __init__(
        self, lab: Laboratory, scenario: Scenario, sampler: Sampler, progress: Progress
    ) -> None:
        self.lab = lab
        self.scenario = scenario
        self.sampler = sampler
        self.progress = progress
        self.traffic = Traffic(lab, scenario)
        self.next = 0.0  # time of the next sample
        self.starts = dict(enumerate(scenario.starts()))
        # Times by the monotonic clock.
        self.launch = 0.0
        self.begin = 0.0  # when the first flow had started
        self.end = 0.0
        # The load of the machine from begin to end.
        self.load = host.Load.now()
        self.controls: dict[int, str] = {}

    def _wait(self, until: float, each_time: Callable[[], None] | None = None) -> None:
        """Sample until the monotonic clock shows UNTIL, calling EACH_TIME after each sample."""
        while self.next < until:
            time.sleep(max(0.0, self.next - time.monotonic()))
            self.sampler.take()
            if each_time:
                each_time()
            # After a long pause, missed samples are not taken late.
            self.next = max(self.next + INTERVAL, time.monotonic())
        time.sleep(max(0.0, until - time.monotonic()))

    def _started(self, number: int) -> bool:
        last = self.lab.network.paths[number].last
        packets = self.sampler.wires[last.interface]["packets"]
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
        times, network = self.sampler.times, self.lab.network
        back = min(len(times) - 1, round(1 / INTERVAL))
        if not self.begin or not back:
            return "starting the flows"

        def mbits(end: End) -> float:
            sent = self.sampler.wires[end.interface]["sent"]
            return (sent[-1] - sent[-1 - back]) * 8 / (times[-1] - times[-1 - back]) / 1e6

        waiting = self.sampler.wires[network.bottleneck.interface]["held"][-1]
        queue = waiting * 8 / self.scenario.rate * 1000
        each = "  ".join(
            f"{label} {mbits(path.last):.1f}"
            for label, path in zip(self.scenario.labels, network.paths, strict=True)
        )
        seconds = f"{now - self.begin:3.0f} of {self.scenario.seconds} s"
        return f"{seconds}: {each} = {mbits(network.bottleneck):.1f} Mbit/s, queue {queue:.0f} ms"

    def execute(self) -> None:
        """From the first server's start to the last client's end."""
        self.traffic.start_servers()
        self.traffic.start_ping()
        self.traffic.start_background()
        self.next = time.monotonic()
        alone = BACKGROUND_BEFORE if self.scenario.background else QUIET_BEFORE
        self._wait(time.monotonic() + alone)
        self.launch = time.monotonic()
        while not self.begin or time.monotonic() < self.begin + self.scenario.seconds:
            self._wait(time.monotonic() + INTERVAL, self._each_time)
        self.end = time.monotonic()
        self.load = host.Load.now().since(self.load)
        for number in self.controls:
            preflight.running(self.lab, self.scenario, number)
        self.traffic.programs.stop_sources()
        if len(self.controls) < len(self.scenario.flows):
            late = self.scenario.labels[len(self.controls)]
            raise LabError(
                f"flow {late} did not start: after {self.scenario.seconds} s hardly any data"
            )
        while self.traffic.running():
            self._wait(time.monotonic() + INTERVAL)
            if time.monotonic() > self.end + flows.END_PATIENCE:
                raise LabError("the flows do not end")
        self.sampler.take()
        self.traffic.programs.stop()
        self.traffic.stop_ping()


def measure(scenario: Scenario, directory: Path, progress: Progress) -> None:
    """Run a scenario; the raw data is left in DIRECTORY."""
    host.require_tools()
    preflight.look_up(scenario)
    if scenario.background or scenario.sender == FAIRFLOW:
        host.traffic_program()
    progress.step("building the network")
    connections = [(flow.cc, *flows.ports(n)) for n, flow in enumerate(scenario.flows)]
    with closing(evidence.KernelLog()) as log, laboratory(scenario) as lab:
        measured = prepare(lab, scenario, progress)
        settings = settings_in_force(lab, scenario)
        size = buffer_size(scenario.rate, scenario.frame, scenario.seconds + 5)
        with ExitStack() as stack, Tracer(connections, size) as tracer:
            sampler = Sampler(lab, sampled(lab.network), stack)
            progress.step(f"running {len(scenario.flows)} flows for {scenario.seconds} s")
            run = Run(lab, scenario, sampler, progress)
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
            around = evidence.gather(lab, log, run.load, [flow.cc for flow in scenario.flows])
        for name in OUTPUTS:
            for output in lab.scratch.glob(name):
                shutil.copy(output, directory)
    names = [*scenario.labels, *([BESIDE] if scenario.background else [])]
    document = around | {
        "scenario": scenario.to_json(),
        "begin": run.begin,
        "end": run.end,
        "clock_offset": clock_offset,
        "columns": sampler.columns(lab.network, names, run.begin),
        **measured,
        "trace_lost": trace_lost,
        "settings": settings,
        "queues": queues,
        "reports": [vars(report) for report in reports],
    }
    # Written last: if it exists, the raw data is complete.
    (directory / MEASUREMENT).write_text(json.dumps(document))
