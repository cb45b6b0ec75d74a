# SPDX-License-Identifier: GPL-2.0
"""Measuring an experiment (experiment.py) on this kernel, as root.

The raw data is left in a directory:

    NODE.fair       fairflow's samples of the flows of a node (run/samples.py)
    NODE-udp.json   the report of the sink of a node's UDP
    record.json     what arrived, samples of the links, reports of agents, evidence for trust.py

Times are from the start of the flows.  During the run this thread samples the links and changes
their rates; others record the agents' reports, and replace keys.
"""

import contextlib
import json
import shutil
import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from fairlab.model import headers
from fairlab.model.background import FLOWS, PACKETS
from fairlab.model.errors import CannotRunError
from fairlab.model.network import End, Trunk
from fairlab.net import congestion, host
from fairlab.net.namespace import set_sysctl
from fairlab.net.network import NETEM, QUEUE, SHAPER, TRUNK_LIMIT, Laboratory
from fairlab.net.queues import NOTHING, Sampler
from fairlab.run import engine, evidence, preflight
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress
from fairlab.slbn import network
from fairlab.slbn.agents import Agents, Listener
from fairlab.slbn.experiment import (
    FRAME,
    L4S,
    TCP_PORT,
    UDP,
    UDP_PART,
    UDP_PAYLOAD,
    UDP_PORT,
    Experiment,
)
from fairlab.slbn.keys import Keys
from fairlab.slbn.network import (
    access,
    address_of,
    agent_at,
    end_of,
    senders_of,
    subnet_of,
    trunks,
)

RECORD = "record.json"
#: How the files of the reports of UDP's sinks end.
UDP_SINK = "-udp.json"
#: From the start of the first sink to that of the flows [s], in virtual time and elsewhere.
GET_READY, GET_READY_SLOWLY = 1.0, 30.0
#: Time for the last packets to arrive [s], of full queues, too: what waits is not lost.
DRAIN = 30.0
#: of drr_fq, in the order of its classes
BANDS = ("new", "assigned", "unassigned")
PROTOCOLS = {"tcp": "ip_proto tcp", "udp": "ip_proto udp"}


def pairs(what: Experiment) -> list[tuple[str, str]]:
    """The nodes between whose hosts packets pass, acknowledgements included."""
    found = {(flow.source, flow.destination) for flow in what.flows}
    return sorted(found | {(b, a) for a, b in found})


def configure(lab: Laboratory, what: Experiment) -> None:
    """Set the congestion control of both ends, and count what arrives at each host.

    DCTCP's receiver answers marks in its own way, so it must have DCTCP, too.  A flow whose SYN was
    retransmitted without ECN would run Reno.
    """
    for node in what.nodes:
        own = network.host(node)
        ((to, via),) = lab.network.routes[own]
        device = end_of(lab.network, node).interface
        lines = [f"ip route change {to} via {via} congctl {what.cc}"] if what.cc else []
        lines.append(f"tc qdisc add dev {device} clsact")
        for a, b in pairs(what):
            if b != node:
                continue
            source = subnet_of(lab.network, a)
            for words in PROTOCOLS.values():
                lines.append(
                    f"tc filter add dev {device} ingress protocol ip flower {words}"
                    f" src_ip {source} action pass"
                )
        lab.shell(own, "\n".join(lines))
        if what.cc in L4S:
            with lab.inside(own):
                set_sysctl("ipv4/tcp_ecn_fallback", "0")


Counts = dict[str, dict[str, list[int]]]


def arrived(lab: Laboratory, what: Experiment) -> Counts:
    """The bytes of frames and the packets that arrived: of each pair of hosts, by protocol."""
    node_of = {subnet_of(lab.network, node): node for node in what.nodes}
    found: Counts = {f"{a}-{b}": {name: [0, 0] for name in PROTOCOLS} for a, b in pairs(what)}
    for node in what.nodes:
        own = network.host(node)
        device = end_of(lab.network, node).interface
        text = lab.shell(own, f"tc -s -j filter show dev {device} ingress")
        for entry in json.loads(text or "[]"):
            options = entry.get("options", {})
            keys = options.get("keys", {})
            if "src_ip" not in keys:
                continue
            stats = options["actions"][0]["stats"]
            # What tc counts here has no Ethernet header.
            size = stats["bytes"] + headers.ETHERNET * stats["packets"]
            pair = f"{node_of[keys['src_ip']]}-{node}"
            found[pair][keys["ip_proto"]] = [size, stats["packets"]]
    return found


def start_sinks(programs: Programs, what: Experiment, begin: float) -> None:
    """Start the sinks of flows that start at BEGIN."""
    for node, udp in sorted({(flow.destination, bool(flow.udp)) for flow in what.flows}):
        name = f"{node}{UDP_SINK.removesuffix('.json')}" if udp else f"{node}-tcp"
        port, kind = (UDP_PORT, PACKETS) if udp else (TCP_PORT, FLOWS)
        address = address_of(programs.lab.network, node)
        options = ["--delays-from", f"{begin + what.warmup:.9f}"] if udp else []
        programs.start_sink(name, network.host(node), address, port, kind, options)
    if time.monotonic() > begin:
        raise CannotRunError("the sinks took too long to start: not in this engine")


def start_senders(programs: Programs, what: Experiment, begin: float) -> None:
    for name, numbers in what.programs().items():
        words = []
        node = what.flows[numbers[0]].source
        own = senders_of(programs.lab.network, node)
        for number in numbers:
            flow = what.flows[number]
            to = address_of(programs.lab.network, flow.destination)
            word = f"to={to},port={UDP_PORT if flow.udp else TCP_PORT}"
            word += f",from={flow.port}" if flow.port else ""
            word += f",bind={own[flow.sender]},start={flow.start:.6f},stop={flow.stop:.6f}"
            if flow.udp:
                word += f",udp={round(flow.udp * UDP_PART)},size={UDP_PAYLOAD}"
            else:
                word += f",cc={flow.cc}"
                word += f",bytes={flow.size + flow.first}" if flow.size else ""
                word += f",open={flow.open:.6f},first={flow.first}" if flow.first else ""
            words.append(word)
        programs.start_senders(name, network.host(node), begin, what.look, words)


def change_rate(lab: Laboratory, what: Experiment, end: End, rate: int) -> None:
    """Give a link another rate; a qdisc that has the rate as a setting gets it, too."""
    assert isinstance(end.queue, Trunk)
    change = f"qdisc change dev {end.interface}"
    shaper = f"tbf rate {rate}bit burst {2 * FRAME} limit {TRUNK_LIMIT}"
    lines = [f"{change} root handle {SHAPER:x}: {shaper}"]
    if end.queue.slbn:
        lines.append(f"{change} parent {SHAPER:x}:1 handle 2: slbn rate {rate}bit")
    if what.rated:
        lines.append(
            f"{change} parent {NETEM:x}:1 handle {QUEUE:x}: {what.rated.format(rate=rate)}"
        )
    text = "\n".join(lines)
    lab.shell(end.node, f"tc -batch - <<'END'\n{text}\nEND")
    lab.accept_changes(end.node)


def datagrams(lab: Laboratory, node: str) -> int:
    """The UDP packets that a node's host has received."""
    with lab.inside(network.host(node)):
        text = Path("/proc/thread-self/net/snmp").read_text()
    heads, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    return int(values[heads.index("InDatagrams")])


def wait(
    what: Experiment,
    lab: Laboratory,
    _: Agents,
    begin: float,
    sampler: Sampler,
    progress: Progress,
) -> dict[str, Any]:
    """Take samples and change rates at their times, until the end.

    Returns what had arrived at the end of the warm-up and at the end, and UDP's packets by then.
    """
    ends = {end.interface: end for end in trunks(lab.network)}
    received: dict[str, list[int]] = {flow.destination: [] for flow in what.flows if flow.udp}
    early: Counts = {}
    moments: list[tuple[float, str, int]] = [*what.changes, (what.warmup, "", 0)]
    moments += [(when, "-", 0) for when in what.looks]
    for when, link, rate in sorted(moments):
        with contextlib.suppress(ValueError):
            time.sleep(begin + when - time.monotonic())
        if link == "":
            early = arrived(lab, what)
        elif link != "-":
            change_rate(lab, what, ends[link], rate)
        else:
            sampler.take()
            for node, column in received.items():
                column.append(datagrams(lab, node))
            if progress.due():
                progress.update(f"{when:3.0f} of {what.seconds:g} s")
    return {"early": early, "late": arrived(lab, what), "datagrams": received}


def link_counters(lab: Laboratory) -> dict[str, Any]:
    """The bytes of data that each link has carried; the packets that delays have dropped; and of
    links that have bands, the packets of each band by how long they waited.
    """
    carried: dict[str, int] = {}
    waits: dict[str, list[int]] = {}
    hidden = 0
    for end in trunks(lab.network):
        index = lab.interface_index(end)
        with lab.queue_reader(end.node) as reader:
            states = reader.read()
            bands = reader.band_waits(index, QUEUE)
        queue, delay = (states.get((index, n), NOTHING) for n in (QUEUE, NETEM))
        carried[end.interface] = queue.sent_bytes
        # netem's drops include those of the qdisc behind it.
        hidden += max(0, delay.drops - queue.drops)
        for number, counts in bands.items():
            before = waits.get(BANDS[number - 1], [0] * len(counts))
            waits[BANDS[number - 1]] = [a + b for a, b in zip(before, counts, strict=True)]
    return {"carried": carried, "hidden": hidden, "waits": waits}


def start_agents(
    lab: Laboratory, what: Experiment, more: dict[str, str], stack: ExitStack
) -> tuple[Agents, Listener | None]:
    """An agent for each node that has one, with MORE options, and what records their reports.

    Sessions of flows that have them are joined before the flows start.
    """
    agents = Agents(lab)
    for node, options in what.agents.items():
        router, own = agent_at(lab.network, node)
        agents.start(router, own | dict(options) | more)
    connections = agents.connections = agents.connect_all(stack)
    for flow in what.flows if what.joined else ():
        connections[access(flow.source)].join(
            address_of(lab.network, flow.destination),
            source=senders_of(lab.network, flow.source)[flow.sender],
        )
    listener = Listener(connections, agents.connect_all(stack)) if what.watched else None
    return agents, stack.enter_context(listener) if listener else None


def start_keys(lab: Laboratory, what: Experiment, stack: ExitStack) -> tuple[Keys, dict[str, str]]:
    """The keys of all links and agents, and the option for these."""
    agents = Agents(lab)
    sockets = {router: agents.socket(router) for router in map(access, what.agents)}
    routers = [router for router in lab.network.routers if router not in what.without]
    keys = stack.enter_context(Keys(lab, routers, sockets, what.rotate_keys))
    return keys, {"key-file": str(keys.add_first())}


def measure(what: Experiment, directory: Path, progress: Progress) -> None:
    """Run an experiment; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    ccs = sorted({flow.kind for flow in what.flows} - {UDP})
    for cc in ccs:
        congestion.load(cc)
        if cc not in congestion.registered():
            raise CannotRunError(f"this kernel has no congestion control {cc}")
    # Otherwise other threads would delay the listener.
    sys.setswitchinterval(0.001)
    progress.step(f"{what.name}: {what.seconds:g} s")
    with (
        host.ample_tcp_memory(),
        Laboratory(what.network, what.window, ecn=what.cc in L4S, hosts=what.hosts) as lab,
        ExitStack() as stack,
    ):
        log = stack.enter_context(closing(evidence.KernelLog()))
        preflight.offloads(lab)
        lab.add_queues()
        document = what.prepare(lab)
        configure(lab, what)
        keys, option = start_keys(lab, what, stack) if what.rotate_keys else (None, {})
        agents, listener = start_agents(lab, what, option, stack)
        load = host.Load.now()
        programs = Programs(lab)
        ready = GET_READY if engine.is_virtual() else GET_READY_SLOWLY
        begin = time.monotonic() + (ready if what.ready is None else what.ready)
        start_sinks(programs, what, begin)
        start_senders(programs, what, begin)
        if keys:
            keys.start()
        sampler = Sampler(lab, trunks(lab.network), stack)
        document |= (what.drive or partial(wait, what))(lab, agents, begin, sampler, progress)
        document |= {"keys": keys.stop()} if keys else {}
        document |= listener.stop(begin) if listener else {}
        if what.flows:
            programs.wait_senders()
            time.sleep(DRAIN)
            programs.stop()
        counters = link_counters(lab)
        load = host.Load.now().since(load)
        document |= {
            "arrived": arrived(lab, what),
            "hosts": evidence.host_counters(lab),
            **counters,
            "times": [when - begin for when in sampler.times],
            "wires": sampler.wires,
            "agents": agents.printed(),
        }
        document |= evidence.gather(lab, log, load, ccs)
        for output in (*lab.scratch.glob("*.fair"), *lab.scratch.glob(f"*{UDP_SINK}")):
            shutil.copy(output, directory)
    (directory / RECORD).write_text(json.dumps(document))
