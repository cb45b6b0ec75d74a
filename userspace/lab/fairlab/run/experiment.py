# SPDX-License-Identifier: GPL-2.0
"""Measuring an experiment on this kernel, as root.

The raw data is left in a directory:

    measurement.json        the environment, and the samples of the queues
    GROUP.fair              fairflow's samples of a group's flows (samples.py)
    GROUP-PROTOCOL.json     the report of their sink
    GROUP-source.json       fairtraffic's report of a group's background
    GROUP-sink.json         the report of its sink

Times are relative to a common start, when all programs are ready.  During the run this thread only
samples the queues, at even intervals.
"""

import contextlib
import json
import shutil
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlab.model import experiment, headers
from fairlab.model.background import FLOWS as FLOWS_KIND
from fairlab.model.background import PACKETS
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.experiment import UDP, Group, Layout, Stream
from fairlab.model.scenario import Flow
from fairlab.net import congestion, host
from fairlab.net.netlink import QueueReader
from fairlab.net.network import NETEM, QUEUE, SHAPER, Laboratory
from fairlab.net.queues import NOTHING
from fairlab.run import evidence, flows, preflight
from fairlab.run.environment import environment
from fairlab.run.progress import Progress

MEASUREMENT = "measurement.json"

BACKGROUND_PORT, FLOW_PORT = 5000, 5001
FIRST_OWN_PORT = 20000
# Seconds from when all sinks are ready to the start; seconds for the last flow to end.
GET_READY, END_PATIENCE = 1.0, 120.0
# More retries than any run needs.
SYNACK_RETRIES = 100
# The most by which the round-trip time of an empty path may exceed the requested one [ms].
RTT_SLACK = 0.5


@dataclass
class Columns:
    """Samples of the queues: columns of one length.  Times in seconds from the start."""

    time: list[float] = field(default_factory=list)
    backlog_bytes: list[int] = field(default_factory=list)
    backlog_packets: list[int] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    sent_packets: list[int] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    back_bytes: list[int] = field(default_factory=list)  # sent by the reverse bottleneck
    back_drops: list[int] = field(default_factory=list)
    delay_drops: list[int] = field(default_factory=list)  # of all delays
    arrived_bytes: dict[str, list[int]] = field(default_factory=dict)  # by group
    arrived_packets: dict[str, list[int]] = field(default_factory=dict)


class Sampler:
    """Samples the queues."""

    def __init__(
        self, lab: Laboratory, what: Layout, left: QueueReader, right: QueueReader
    ) -> None:
        self.left, self.right = left, right
        link = lab.network.links[0]
        self.forth, self.back = lab.interface_index(link.a), lab.interface_index(link.b)
        # Where each group's data arrives: behind the right router, or the left if reversed.
        self.arrivals = {
            group.name: (group.reverse, lab.interface_index(path.last))
            for group, path in zip(what.groups, lab.network.paths, strict=True)
        }
        self.columns = Columns(
            arrived_bytes={name: [] for name in self.arrivals},
            arrived_packets={name: [] for name in self.arrivals},
        )

    def take(self, begin: float) -> None:
        """Take a sample now; BEGIN is the start."""
        c = self.columns
        c.time.append(round(time.monotonic() - begin, 6))
        left, right = self.left.read(), self.right.read()
        queue = left.get((self.forth, QUEUE), NOTHING)
        shaper = left.get((self.forth, SHAPER), NOTHING)
        c.backlog_bytes.append(queue.backlog_bytes)
        c.backlog_packets.append(queue.backlog_packets)
        c.sent_bytes.append(shaper.sent_bytes)
        c.sent_packets.append(shaper.sent_packets)
        c.drops.append(queue.drops)
        c.marks.append(queue.marks)
        c.back_bytes.append(right.get((self.back, SHAPER), NOTHING).sent_bytes)
        c.back_drops.append(right.get((self.back, QUEUE), NOTHING).drops)
        both = (*left.items(), *right.items())
        c.delay_drops.append(sum(state.drops for (_, major), state in both if major == NETEM))
        for name, (reverse, index) in self.arrivals.items():
            arrived = (left if reverse else right).get((index, NETEM), NOTHING)
            c.arrived_bytes[name].append(arrived.sent_bytes)
            c.arrived_packets[name].append(arrived.sent_packets)


def words_of(stream: Stream, what: Layout, to: str, own_port: int, start: float) -> str:
    """A flow in the syntax of fairflow's command line."""
    words = [f"to={to}", f"port={FLOW_PORT}", f"start={start:.6f}"]
    words += [f"stop={stream.stop or what.seconds:.6f}"]
    if stream.cc == UDP:
        words += [f"udp={stream.rate}", f"size={stream.packet}"]
    else:
        words += [f"cc={stream.cc}", f"from={own_port}"]
        words += [f"bytes={stream.size}"] if stream.size else []
        words += [f"rate={stream.rate}"] if stream.rate else []
    if stream.on:
        words += [f"on={stream.on}", f"off={stream.off}"]
    return ",".join(words)


class Traffic:
    """The traffic programs of all groups."""

    def __init__(self, lab: Laboratory, what: Layout) -> None:
        self.lab = lab
        self.what = what
        self.sinks: dict[str, subprocess.Popen[bytes]] = {}
        self.sources: dict[str, subprocess.Popen[bytes]] = {}
        self.flows: dict[str, subprocess.Popen[bytes]] = {}

    def output(self, name: str) -> Path:
        return self.lab.scratch / name

    def _start(self, name: str, node: str, command: list[str]) -> subprocess.Popen[bytes]:
        with self.output(f"{name}.txt").open("wb") as said:
            return self.lab.start(node, command, said)

    def _start_sink(self, name: str, node: str, address: str, port: int, kind: str) -> None:
        command = [host.traffic_program(), "sink", "--kind", kind, "--port", str(port)]
        command += ["--bind", address, "--output", str(self.output(f"{name}.json"))]
        self.sinks[name] = sink = self._start(name, node, command)
        protocol = "udp" if kind == PACKETS else "tcp"
        if not flows.wait_listening(self.lab, node, sink, port, protocol):
            self.check()
            raise LabError(f"{name} does not listen on port {port}")

    def start(self) -> float:
        """Start all programs; the start time, by the monotonic clock."""
        pairs = list(zip(self.what.groups, self.lab.network.paths, strict=True))
        for group, path in pairs:
            if any(stream.cc != UDP for stream in group.streams):
                self._start_sink(
                    f"{group.name}-tcp", path.receiver, path.address, FLOW_PORT, FLOWS_KIND
                )
            if any(stream.cc == UDP for stream in group.streams):
                self._start_sink(
                    f"{group.name}-udp", path.receiver, path.address, FLOW_PORT, PACKETS
                )
            if group.background:
                self._start_sink(
                    f"{group.name}-sink",
                    path.receiver,
                    path.address,
                    BACKGROUND_PORT,
                    group.background.kind,
                )
        begin = time.monotonic() + GET_READY
        starts = self.what.starts()
        for n, (group, path) in enumerate(pairs):
            if group.streams:
                self._start_flows(group, path.sender, path.address, starts[group.name], begin)
            if group.background:
                what = self.what
                # Each group has its own seed, so that arrivals differ.
                seed = (what.seed + 1_000_003 * n) % 2**64
                options = flows.source_options(
                    group.background, what.rate, what.mtu, seed, path.address
                )
                name = f"{group.name}-source"
                command = [host.traffic_program(), "source", "--port", str(BACKGROUND_PORT)]
                command += ["--output", str(self.output(f"{name}.json")), *options]
                self.sources[name] = self._start(name, path.sender, command)
        return begin

    def _start_flows(
        self, group: Group, sender: str, address: str, starts: list[float], begin: float
    ) -> None:
        streams = [stream for stream in group.streams for _ in range(stream.count)]
        flow_words = [
            words_of(stream, self.what, address, FIRST_OWN_PORT + n, start)
            for n, (stream, start) in enumerate(zip(streams, starts, strict=True))
        ]
        command = [host.traffic_program(host.FLOW), "--begin", f"{begin:.9f}"]
        command += ["--every", str(self.what.look), "--seed", str(self.what.seed)]
        command += ["--output", str(self.output(f"{group.name}.fair")), *flow_words]
        self.flows[group.name] = self._start(group.name, sender, command)

    def check(self) -> None:
        """Raise LabError if a program has failed, or a sink or source has ended."""
        running = {**self.sinks, **self.sources, **self.flows}
        for name, process in running.items():
            status = process.poll()
            if status or (status is not None and name not in self.flows):
                said = self.output(f"{name}.txt").read_text(errors="replace").strip()
                raise LabError(f"{name}: {said or f'exit status {status}'}")

    def finish(self) -> None:
        """Wait until all flows have ended, and stop sources and sinks."""
        deadline = time.monotonic() + END_PATIENCE
        for name, process in self.flows.items():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise LabError(f"the flows of {name} do not end") from None
        self.check()
        for processes in (self.sources, self.sinks):
            for process in processes.values():
                process.terminate()
            for name, process in processes.items():
                if process.wait(END_PATIENCE):
                    said = self.output(f"{name}.txt").read_text(errors="replace").strip()
                    raise LabError(f"{name}: {said or 'it failed'}")

    def outputs(self) -> list[Path]:
        """The output files of all programs."""
        return [*self.lab.scratch.glob("*.fair"), *self.lab.scratch.glob("*.json")]


def configure(lab: Laboratory, what: Layout) -> None:
    """Set the sysctls and routes of the groups, and check them."""
    for group, path in zip(what.groups, lab.network.paths, strict=True):
        node = path.sender
        # While all segments after the SYN are lost, the connection is open for the sender only.
        # The receiver must not give up and reset it.
        lab.shell(path.receiver, f"echo {SYNACK_RETRIES} >/proc/sys/net/ipv4/tcp_synack_retries")
        if group.ack_each:
            ((to, via),) = lab.network.routes[path.receiver]
            lab.shell(path.receiver, f"ip route change {to} via {via} quickack 1")
        if group.background:
            lab.shell(node, "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")
        for name, value in group.settings:
            setting = f"/proc/sys/net/ipv4/{name}"
            try:
                lab.shell(node, f"echo '{value}' >{setting}")
                seen = lab.shell(node, f"cat {setting}").split()
            except LabError:
                raise CannotRunError(f"group {group.name}: '{name}' refuses '{value}'") from None
            if seen != value.split():
                raise CannotRunError(f"group {group.name}: {name} is {' '.join(seen)}, not {value}")


def acknowledged(lab: Laboratory, what: Layout) -> dict[str, int]:
    """The segments that each group's receiver sent: nearly all are acknowledgements."""
    sent = {}
    for group, path in zip(what.groups, lab.network.paths, strict=True):
        text = lab.shell(path.receiver, "grep ^Tcp: /proc/net/snmp")
        heads, values = (line.split() for line in text.splitlines())
        sent[group.name] = int(values[heads.index("OutSegs")])
    return sent


def check_round_trips(lab: Laboratory, what: Layout) -> None:
    """Raise CannotRunError if the round-trip time of an empty path is not the requested one."""
    for group, path in zip(what.groups, lab.network.paths, strict=True):
        if what.loss:
            return
        text = lab.shell(path.sender, f"ping -n -D -i 0.1 -W 20 -c 2 {path.address}")
        seen = min(took for _, took in flows.parse_ping(text))
        asked = group.rtt / 1000
        if not asked <= seen + 0.01 <= asked + RTT_SLACK + 1e6 * 8 * headers.ETHERNET / what.rate:
            raise CannotRunError(
                f"the empty path of group {group.name} has a round-trip time of {seen:.2f} ms,"
                f" not {asked:g} ms"
            )


def measure(what: Layout, directory: Path, progress: Progress) -> None:
    """Run an experiment; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    for cc in what.ccs:
        congestion.require(Flow(cc))
    progress.step("building the network")
    memory = 4 * what.in_flight
    with (
        host.ample_tcp_memory(),
        closing(evidence.KernelLog()) as log,
        Laboratory(experiment.network(what), memory, ecn=False) as lab,
    ):
        preflight.offloads(lab)
        configure(lab, what)
        lab.add_queues()
        check_round_trips(lab, what)
        load = host.Load.now()
        with lab.queue_reader("left") as left, lab.queue_reader("right") as right:
            traffic = Traffic(lab, what)
            sampler = Sampler(lab, what, left, right)
            progress.step(f"running for {what.seconds:g} s")
            begin = traffic.start()
            run(what, traffic, sampler, begin, progress)
        document: dict[str, Any] = environment() | {
            "modules": {cc: host.module_version(cc) for cc in what.ccs},
            "begin": begin,
            "columns": vars(sampler.columns),
            "backlog_drops": host.Load.now().since(load).backlog_drops,
            "out_of_memory": evidence.tcp_memory(lab, lab.network.hosts),
            "kernel_errors": log.errors(),
            "acks": acknowledged(lab, what),
        }
        for output in traffic.outputs():
            shutil.copy(output, directory)
    # Written last: if it exists, the raw data is complete.
    (directory / MEASUREMENT).write_text(json.dumps(document))


def run(what: Layout, traffic: Traffic, sampler: Sampler, begin: float, progress: Progress) -> None:
    """Take all samples, and wait for the end of the flows."""
    for n in range(round(what.seconds / what.look) + 1):
        with contextlib.suppress(ValueError):
            time.sleep(begin + n * what.look - time.monotonic())
        sampler.take(begin)
        traffic.check()
        if progress.due():
            c = sampler.columns
            progress.update(f"{c.time[-1]:.0f} of {what.seconds:g} s, {c.drops[-1]} lost so far")
    traffic.finish()
