# SPDX-License-Identifier: GPL-2.0
"""Measuring a plan of sessions_tcp.py on this kernel, as root."""

import json
import shutil
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from fairlab.model.background import FLOWS
from fairlab.net import congestion, host
from fairlab.net.network import Laboratory
from fairlab.net.queues import Sampler
from fairlab.run import evidence, flows, preflight
from fairlab.run.environment import environment
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress
from fairlab.slbn import abilene, backbone
from fairlab.slbn.sessions_tcp import DATA, TcpPlan, by_source

PORT = 5000
# Options of slbnd besides the backbone's.  With 5 %, 400 kbit/s, for packets without a rate, TCP's
# first windows and acknowledgements are lost, and flows wait for timeouts for many seconds.  With
# 10 % of each session's rate for control packets, links drop half of them: they admit 5 % in all.
# The published runs are of senders whose windows slbnd leaves alone.
OPTIONS = {"control": "2%", "unassigned": "15%", "windows": "off"}
GET_READY = 0.5
SAMPLES = 0.05  # interval of TCP's samples [s]


def start_flows(programs: Programs, plan: TcpPlan) -> float:
    """Start all programs; the start time, by the monotonic clock."""
    network = programs.lab.network
    for node in sorted({flow.destination for flow in plan.flows}):
        address = abilene.address_of(network, node)
        programs.start_sink(f"{node}-sink", abilene.host(node), address, PORT, FLOWS)
    begin = time.monotonic() + GET_READY
    for node, numbers in by_source(plan).items():
        words = []
        for number in numbers:
            flow = plan.flows[number]
            to = abilene.address_of(network, flow.destination)
            own = flows.FIRST_CLIENT_PORT + number
            times = f"start={flow.start},stop={flow.stop}"
            words.append(f"to={to},port={PORT},from={own},cc={flow.cc},{times}")
        programs.start_senders(node, abilene.host(node), begin, SAMPLES, words)
    return begin


def watch(lab: Laboratory, plan: TcpPlan, begin: float, progress: Progress) -> dict[str, Any]:
    """Sample the queues until the end of the run."""
    with ExitStack() as stack:
        sampler = Sampler(lab, abilene.wires(lab.network), stack)
        for n in range(round(plan.seconds / plan.look) + 1):
            with suppress(ValueError):
                time.sleep(begin + n * plan.look - time.monotonic())
            sampler.take()
            if progress.due():
                progress.update(f"{n * plan.look:3.0f} of {plan.seconds:g} s")
    times = [round(when - begin, 4) for when in sampler.times]
    return {"times": times, "wires": sampler.wires}


def measure(plan: TcpPlan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    ccs = sorted({flow.cc for flow in plan.flows})
    for cc in ccs:
        congestion.load(cc)
    # Shorter than the default of 5 ms, so that other threads do not delay the listener.
    sys.setswitchinterval(0.001)
    network = plan.network()
    progress.step(f"{plan.variant}: {len(plan.flows)} flows in {plan.seconds:g} s")
    with Laboratory(network, 16 * plan.rate // 8, ecn=False) as lab, ExitStack() as stack:
        log = stack.enter_context(closing(evidence.KernelLog()))
        preflight.offloads(lab)
        lab.add_queues()
        listener = None
        if backbone.VARIANTS[plan.variant].slbn:
            listener = stack.enter_context(backbone.agents(lab, plan.rate, str(PORT), OPTIONS))
        load = host.Load.now()
        programs = Programs(lab)
        sent, arrived = evidence.host_packets(lab)
        begin = start_flows(programs, plan)
        document = watch(lab, plan, begin, progress)
        document["found"] = document["paced_drops"] = 0
        if listener:
            recording = listener.stop()
            events = recording.events
            document["paced_drops"] = recording.paced_drops
            # Sessions towards the sinks, without reverse ones.
            document["found"] = len({event[3] for event in events if event[4] == PORT})
        programs.wait_senders()
        time.sleep(backbone.DRAIN)
        programs.stop()
        all_sent, all_arrived = evidence.host_packets(lab)
        document["hosts"] = {"sent": all_sent - sent, "arrived": all_arrived - arrived}
        document["backlog_drops"] = host.Load.now().since(load).backlog_drops
        document["out_of_memory"] = evidence.tcp_memory(lab, lab.network.hosts)
        document["agents"] = listener.agents.printed() if listener else {}
        document["kernel_errors"] = log.errors()
        document["changed"] = lab.changed()
        document["environment"] = environment() | {
            "modules": {cc: host.module_version(cc) for cc in ccs}
        }
        for output in lab.scratch.glob("*.fair"):
            shutil.copy(output, directory)
    (directory / DATA).write_text(json.dumps(document))
