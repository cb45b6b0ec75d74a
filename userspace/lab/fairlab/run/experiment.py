# SPDX-License-Identifier: GPL-2.0
"""Measuring an experiment on this kernel, as root.

The raw data is left in a directory:

    measurement.json        the environment, and the samples of the queues
    GROUP.fair              fairflow's samples of a group's flows (samples.py)
    GROUP-PROTOCOL.json     the report of their sink
    GROUP-source.json       fairtraffic's report of a group's background
    GROUP-sink.json         the report of its sink
    GROUP-server.txt        what a group's own server has printed, and its client
    GROUP-client.txt
    GROUP-out               what they have written to their directory, {out}

Times are relative to a common start, when all programs are ready.  During the run this thread only
samples the queues, at even intervals, changes the bottleneck's rate, and starts own clients.
"""

import contextlib
import json
import shlex
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from fairlab.model import experiment, headers
from fairlab.model.background import FLOWS as FLOWS_KIND
from fairlab.model.background import PACKETS
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.experiment import UDP, Group, Layout, Stream
from fairlab.model.network import Path as Way
from fairlab.model.scenario import Flow
from fairlab.net import congestion, host
from fairlab.net.network import QUEUE, SHAPER, Hosts, Laboratory
from fairlab.net.queues import Sampler, sampled
from fairlab.run import evidence, flows, preflight
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress

MEASUREMENT, RUNNING = "measurement.json", "running"

BACKGROUND_PORT, FLOW_PORT = 5000, 5001
FIRST_OWN_PORT = 20000
GET_READY = 1.0  # seconds from when all sinks are ready to the start
# More retries than any run needs.
SYNACK_RETRIES = 100
# The most by which the round-trip time of an empty path may exceed the requested one [ms].
RTT_SLACK = 0.5


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


def start(programs: Programs, what: Layout) -> float:
    """Start the programs of all groups; the start time, by the monotonic clock."""
    pairs = list(zip(what.groups, programs.lab.network.paths, strict=True))
    for group, path in pairs:
        kinds = {stream.cc == UDP for stream in group.streams}
        wanted = [(f"{group.name}-tcp", FLOW_PORT, FLOWS_KIND)] if False in kinds else []
        wanted += [(f"{group.name}-udp", FLOW_PORT, PACKETS)] if True in kinds else []
        if group.background:
            wanted.append((f"{group.name}-sink", BACKGROUND_PORT, group.background.kind))
        for name, port, kind in wanted:
            programs.start_sink(name, path.receiver, path.address, port, kind)
        if group.program:
            words = command(what, group, path, programs.lab, group.program.server)
            name, node = f"{group.name}-server", own_nodes(group, path)[0]
            programs.start_own(name, node, words)
            programs.wait_own(name, node, group.program.port)
    begin = time.monotonic() + GET_READY
    starts = what.starts()
    for n, (group, path) in enumerate(pairs):
        if group.streams:
            each = zip(group.flows(), starts[group.name], strict=True)
            words = [
                words_of(stream, what, path.address, port, when)
                for port, (stream, when) in enumerate(each, FIRST_OWN_PORT)
            ]
            seed = ("--seed", str(what.seed))
            programs.start_senders(group.name, path.sender, begin, what.look, words, seed)
        if group.background:
            # Each group has its own seed, so that arrivals differ.
            own = (what.seed + 1_000_003 * n) % 2**64
            options = flows.source_options(group.background, what.rate, what.mtu, own, path.address)
            programs.start_source(f"{group.name}-source", path.sender, BACKGROUND_PORT, options)
    return begin


def configure(lab: Laboratory, what: Layout) -> None:
    """Set the sysctls and routes of the groups, and check them."""
    for group, path in zip(what.groups, lab.network.paths, strict=True):
        node = path.sender
        if group.program:
            for own in (node, path.receiver):
                device = lab.network.ends_of(own)[0][0].interface
                # Or a program that sends many UDP packets at once would send one large one.
                lab.shell(own, f"ip link set {device} gso_max_segs 1")
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
        if what.loss or what.jitter or what.reorder:
            return
        text = lab.shell(path.sender, f"ping -n -D -i 0.1 -W 20 -c 2 {path.address}")
        seen = min(took for _, took in flows.parse_ping(text))
        asked = group.rtt / 1000
        slowest = min(what.rate, what.back_rate or what.rate)
        if not asked <= seen + 0.01 <= asked + RTT_SLACK + 1e6 * 8 * headers.ETHERNET / slowest:
            raise CannotRunError(
                f"the empty path of group {group.name} has a round-trip time of {seen:.2f} ms,"
                f" not {asked:g} ms"
            )


def measure(what: Layout, directory: Path, progress: Progress) -> None:
    """Run an experiment; the raw data is left in DIRECTORY."""
    host.require_tools()
    for module in what.modules:
        host.run("insmod", module)
    for cc in what.ccs:
        congestion.require(Flow(cc))
    progress.step("building the network")
    memory = 4 * what.in_flight
    with (
        host.ample_tcp_memory(),
        closing(evidence.KernelLog()) as log,
        Laboratory(experiment.network(what), memory, what.ecn, Hosts(gso=what.gso)) as lab,
    ):
        preflight.offloads(lab)
        configure(lab, what)
        lab.add_queues()
        check_round_trips(lab, what)
        load = host.Load.now()
        with ExitStack() as stack:
            programs = Programs(lab)
            programs.running = directory / RUNNING
            sampler = Sampler(lab, sampled(lab.network), stack)
            progress.step(f"running for {what.seconds:g} s")
            begin = start(programs, what)
            run(what, programs, sampler, begin, progress)
            own = programs.stop_own()
        load = host.Load.now().since(load)
        document: dict[str, Any] = evidence.gather(lab, log, load, what.ccs) | {
            "begin": begin,
            "columns": sampler.columns(lab.network, [g.name for g in what.groups], begin),
            "acks": acknowledged(lab, what),
            "own": own,
        }
        for pattern in ("*.fair", "*.json", "*-server.txt", "*-client.txt"):
            for output in lab.scratch.glob(pattern):
                shutil.copy(output, directory)
        for output in lab.scratch.glob("*-out"):
            shutil.copytree(output, directory / output.name)
    # Written last: if it exists, the raw data is complete.
    (directory / MEASUREMENT).write_text(json.dumps(document))


def own_nodes(group: Group, path: Way) -> tuple[str, str]:
    """The hosts of a group's own server and client."""
    assert group.program
    ends = (path.sender, path.receiver)
    return ends[::-1] if group.program.upload else ends


def command(what: Layout, group: Group, path: Way, lab: Laboratory, text: str) -> list[str]:
    """A command line of a group's own program, without placeholders."""
    assert group.program
    out = lab.scratch / f"{group.name}-out"
    out.mkdir(exist_ok=True)
    server, client = (lab.network.ends_of(n)[0][0].address for n in own_nodes(group, path))
    known = {"server": server, "client": client, "port": group.program.port, "out": out}
    known |= {"seed": what.seed, "time": f"{what.seconds:g}"}
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", str(value))
    return shlex.split(text)


def actions(what: Layout, programs: Programs) -> list[tuple[float, Callable[[], None]]]:
    """What is done during a run, in order: when [s], and how."""
    found: list[tuple[float, Callable[[], None]]] = []
    for when, rate in what.changes:
        found.append((when, partial(change_rate, programs.lab, what, rate)))
    for group, path in zip(what.groups, programs.lab.network.paths, strict=True):
        if group.program:
            node = own_nodes(group, path)[1]
            words = command(what, group, path, programs.lab, group.program.client)
            start = partial(programs.start_own, f"{group.name}-client", node, words)
            found.append((group.program.start, start))
    return sorted(found, key=lambda pair: pair[0])


def change_rate(lab: Laboratory, what: Layout, rate: int) -> None:
    """Give the bottleneck another rate."""
    end = lab.network.bottleneck
    new = experiment.forth(what, rate)
    shaper = f"tbf rate {rate}bit burst {new.burst} limit {new.size}"
    change = f"tc qdisc change dev {end.interface}"
    lines = [f"{change} root handle {SHAPER:x}: {shaper}"]
    if new.qdisc.kind.endswith("fifo"):
        # tbf has given the FIFO its own limit, in bytes, even if it counts packets.
        lines.append(f"{change} parent {SHAPER:x}:1 handle {QUEUE:x}: {new.qdisc}")
    lab.shell(end.node, "\n".join(lines))
    lab.accept_changes(end.node, f"tbf {SHAPER:x}:")


def sleep_until(when: float) -> None:
    """Sleep until WHEN by the monotonic clock, which may have passed."""
    with contextlib.suppress(ValueError):
        time.sleep(when - time.monotonic())


def run(
    what: Layout, programs: Programs, sampler: Sampler, begin: float, progress: Progress
) -> None:
    """Take all samples, change rates, start clients, and wait for the end of the flows."""
    due = list(actions(what, programs))
    for n in range(round(what.seconds / what.look) + 1):
        while due and due[0][0] <= n * what.look:
            when, action = due.pop(0)
            sleep_until(begin + when)
            action()
        sleep_until(begin + n * what.look)
        sampler.take()
        programs.look_own(time.monotonic() - begin)
        programs.check()
        if progress.due():
            lost = sampler.wires[programs.lab.network.bottleneck.interface]["drops"][-1]
            progress.update(f"{n * what.look:.0f} of {what.seconds:g} s, {lost} lost so far")
    programs.wait_senders()
    programs.stop()
