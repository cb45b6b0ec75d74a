# SPDX-License-Identifier: GPL-2.0
"""Measuring a plan of sessions_tcp.py on this kernel, as root."""

import json
import shutil
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from fairlab.model.errors import LabError
from fairlab.net import congestion, host
from fairlab.net.network import NETEM, QUEUE, SHAPER, Laboratory
from fairlab.net.queues import NOTHING
from fairlab.run import evidence, flows, preflight
from fairlab.run.environment import environment
from fairlab.run.progress import Progress
from fairlab.slbn import abilene, backbone
from fairlab.slbn.sessions_tcp import DATA, MTU, TcpPlan, by_source

PORT = 5000
# Options of slbnd besides the backbone's.  With 5 %, 400 kbit/s, for packets without a rate, TCP's
# first windows and acknowledgements are lost, and flows wait for timeouts for many seconds.  With
# 10 % of each session's rate for control packets, links drop half of them: they admit 5 % in all.
OPTIONS = {"control": "2%", "unassigned": "15%"}
GET_READY = 0.5


def start_flows(lab: Laboratory, plan: TcpPlan) -> tuple[float, list[Any], list[Any]]:
    """Start all programs; the start time, the senders, the sinks."""
    sinks, senders = [], []
    for node in sorted({flow.destination for flow in plan.flows}):
        address = abilene.address_of(lab.network, node)
        command = [host.traffic_program(), "sink", "--kind", "flows", "--port", str(PORT)]
        command += ["--bind", address, "--output", str(lab.scratch / f"{node}-sink.json")]
        output = lab.scratch / f"{node}-sink.txt"
        with output.open("wb") as said:
            sinks.append(lab.start(abilene.host(node), command, said))
        flows.wait_server(lab, abilene.host(node), sinks[-1], PORT, output)
    begin = time.monotonic() + GET_READY
    for node, numbers in by_source(plan).items():
        words = []
        for number in numbers:
            flow = plan.flows[number]
            to = abilene.address_of(lab.network, flow.destination)
            own = flows.FIRST_CLIENT_PORT + number
            times = f"start={flow.start},stop={flow.stop}"
            words.append(f"to={to},port={PORT},from={own},cc={flow.cc},{times}")
        command = [host.traffic_program(host.FLOW), "--begin", f"{begin:.9f}", "--every", "0.05"]
        command += ["--output", str(lab.scratch / f"{node}.fair"), *words]
        with (lab.scratch / f"{node}-flows.txt").open("wb") as said:
            senders.append(lab.start(abilene.host(node), command, said))
    return begin, senders, sinks


def finish(processes: list[Any], deadline: float) -> None:
    for process in processes:
        if process.wait(max(0.1, deadline - time.monotonic())):
            raise LabError(f"{process.args[0]} ended with {process.returncode}")


def watch(lab: Laboratory, plan: TcpPlan, begin: float, progress: Progress) -> dict[str, Any]:
    """Sample the queues until the end of the run."""
    ends = list(abilene.wires(lab.network))
    found: dict[str, Any] = {
        "times": [],
        "wires": {
            end.interface: {"held": [], "drops": [], "hidden": [], "sent": []} for end in ends
        },
    }
    with ExitStack() as stack:
        places = [(end, lab.interface_index(end)) for end in ends]
        nodes = sorted({end.node for end in ends})
        readers = {node: stack.enter_context(lab.queue_reader(node)) for node in nodes}
        for n in range(round(plan.seconds / plan.look) + 1):
            with suppress(ValueError):
                time.sleep(begin + n * plan.look - time.monotonic())
            found["times"].append(round(time.monotonic() - begin, 4))
            states = {node: reader.read() for node, reader in readers.items()}
            for end, index in places:
                kept = found["wires"][end.interface]
                queue = states[end.node].get((index, QUEUE), NOTHING)
                delay = states[end.node].get((index, NETEM), NOTHING)
                kept["held"].append(queue.backlog_bytes)
                kept["drops"].append(queue.drops)
                kept["sent"].append(states[end.node].get((index, SHAPER), NOTHING).sent_bytes)
                # netem's drops include those of the qdisc behind it.
                kept["hidden"].append(max(0, delay.drops - queue.drops))
            if progress.due():
                progress.update(f"{found['times'][-1]:3.0f} of {plan.seconds:g} s")
    return found


def measure(plan: TcpPlan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    ccs = sorted({flow.cc for flow in plan.flows})
    for cc in ccs:
        congestion.load(cc)
    # Shorter than the default of 5 ms, so that other threads do not delay the listener.
    sys.setswitchinterval(0.001)
    variant = backbone.VARIANTS[plan.variant]
    network = abilene.build(plan.rate, variant, MTU)
    progress.step(f"{plan.variant}: {len(plan.flows)} flows in {plan.seconds:g} s")
    with Laboratory(network, 16 * plan.rate // 8, ecn=False) as lab, ExitStack() as stack:
        log = stack.enter_context(closing(evidence.KernelLog()))
        preflight.offloads(lab)
        lab.add_queues()
        listener = None
        if variant.slbn:
            listener = stack.enter_context(backbone.agents(lab, plan.rate, str(PORT), OPTIONS))
        load = host.Load.now()
        begin, senders, sinks = start_flows(lab, plan)
        document = watch(lab, plan, begin, progress)
        document["found"] = 0
        if listener:
            events = listener.stop().events
            # Sessions towards the sinks, without reverse ones.
            document["found"] = len({event[3] for event in events if event[4] == PORT})
        finish(senders, time.monotonic() + flows.END_PATIENCE)
        for sink in sinks:
            sink.terminate()
        finish(sinks, time.monotonic() + flows.END_PATIENCE)
        document["backlog_drops"] = host.Load.now().since(load).backlog_drops
        document["out_of_memory"] = evidence.tcp_memory(lab, lab.network.hosts)
        document["agents"] = listener.agents.printed() if listener else {}
        document["kernel_errors"] = log.errors()
        document["environment"] = environment() | {
            "modules": {cc: host.module_version(cc) for cc in ccs}
        }
        for output in lab.scratch.glob("*.fair"):
            shutil.copy(output, directory)
    (directory / DATA).write_text(json.dumps(document))
