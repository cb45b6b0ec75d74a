# SPDX-License-Identifier: GPL-2.0
"""Measuring a run of a comparison on this kernel, as root."""

import contextlib
import itertools
import json
import shutil
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

from fairlab.compare import network
from fairlab.compare.plan import DATA, UDP_SINK, Plan
from fairlab.compare.stacks import L4S, STACKS
from fairlab.compare.workloads import FRAME, UDP_PART, UDP_PAYLOAD
from fairlab.model import headers
from fairlab.model.background import FLOWS, PACKETS
from fairlab.model.errors import CannotRunError
from fairlab.model.network import End, Network, Trunk
from fairlab.net import congestion, host
from fairlab.net.namespace import set_sysctl
from fairlab.net.network import NETEM, QUEUE, SHAPER, TRUNK_LIMIT, Laboratory
from fairlab.net.queues import NOTHING, Sampler
from fairlab.run import evidence, preflight
from fairlab.run.environment import environment
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress
from fairlab.slbn import abilene
from fairlab.slbn.agents import Agents

TCP_PORT, UDP_PORT = 5000, 5001
#: From the start of the first sink to that of the flows [s].
GET_READY = 1.0
#: Time for the last packets to arrive [s].
DRAIN = 2.0
WINDOW_SECONDS = 2
#: of drr_fq, in the order of its classes
BANDS = ("new", "assigned", "unassigned")
PROTOCOLS = {"tcp": "ip_proto tcp", "udp": "ip_proto udp"}


def require(plan: Plan) -> None:
    """Raise CannotRunError if this kernel has not the congestion control or the qdisc."""
    congestion.load(plan.cc)
    if plan.cc not in congestion.registered():
        raise CannotRunError(f"this kernel has no congestion control {plan.cc}")


def pairs(plan: Plan) -> list[tuple[str, str]]:
    """The nodes between whose hosts packets pass, acknowledgements included."""
    found = {(flow.source, flow.destination) for flow in plan.flows}
    return sorted(found | {(b, a) for a, b in found})


def configure(lab: Laboratory, plan: Plan) -> None:
    """Set the congestion control of both ends, and count what arrives at each host.

    DCTCP's receiver answers marks in its own way, so it must have DCTCP, too.  A flow whose SYN was
    retransmitted without ECN would run Reno.
    """
    for node in plan.uplinks:
        own = abilene.host(node)
        ((to, via),) = lab.network.routes[own]
        device = lab.network.ends_of(own)[0][0].interface
        lines = [f"ip route change {to} via {via} congctl {plan.cc}"]
        lines.append(f"tc qdisc add dev {device} clsact")
        for a, b in pairs(plan):
            if b != node:
                continue
            source = network.subnet_of(lab.network, a)
            for words in PROTOCOLS.values():
                lines.append(
                    f"tc filter add dev {device} ingress protocol ip flower {words}"
                    f" src_ip {source} action pass"
                )
        lab.shell(own, "\n".join(lines))
        if plan.cc in L4S:
            with lab.inside(own):
                set_sysctl("ipv4/tcp_ecn_fallback", "0")


Counts = dict[str, dict[str, list[int]]]


def arrived(lab: Laboratory, plan: Plan) -> Counts:
    """The bytes of frames and the packets that arrived: of each pair of hosts, by protocol."""
    node_of = {network.subnet_of(lab.network, node): node for node in plan.uplinks}
    found: Counts = {f"{a}-{b}": {name: [0, 0] for name in PROTOCOLS} for a, b in pairs(plan)}
    for node in plan.uplinks:
        own = abilene.host(node)
        device = lab.network.ends_of(own)[0][0].interface
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


def sent(lab: Laboratory, plan: Plan) -> int:
    """The bytes of frames that hosts have sent."""
    total = 0
    for node in plan.uplinks:
        own = abilene.host(node)
        device = lab.network.ends_of(own)[0][0].interface
        for line in lab.shell(own, "cat /proc/net/dev").splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == device:
                total += int(counters.split()[8])
    return total


def start_sinks(programs: Programs, plan: Plan, begin: float) -> None:
    """Start the sinks of flows that start at BEGIN."""
    network = programs.lab.network
    for node, udp in sorted({(flow.destination, bool(flow.udp)) for flow in plan.flows}):
        name = f"{node}{UDP_SINK.removesuffix('.json')}" if udp else f"{node}-tcp"
        port, kind = (UDP_PORT, PACKETS) if udp else (TCP_PORT, FLOWS)
        address = abilene.address_of(network, node)
        options = ["--delays-from", f"{begin + plan.warmup:.9f}"] if udp else []
        programs.start_sink(name, abilene.host(node), address, port, kind, options)
    if time.monotonic() > begin:
        raise CannotRunError("the sinks took too long to start: not in this engine")


def start_senders(programs: Programs, plan: Plan, begin: float) -> None:
    for name, numbers in plan.by_program().items():
        words = []
        node = plan.flows[numbers[0]].source
        own = abilene.senders_of(programs.lab.network, node)
        for number in numbers:
            flow = plan.flows[number]
            to = abilene.address_of(programs.lab.network, flow.destination)
            word = f"to={to},port={UDP_PORT if flow.udp else TCP_PORT}"
            word += f",bind={own[flow.sender]},start={flow.start:.6f},stop={flow.stop:.6f}"
            if flow.udp:
                word += f",udp={round(flow.udp * UDP_PART)},size={UDP_PAYLOAD}"
            else:
                word += f",cc={plan.cc}"
                word += f",bytes={flow.size + flow.first}" if flow.size else ""
                word += f",open={flow.open:.6f},first={flow.first}" if flow.first else ""
            words.append(word)
        programs.start_senders(name, abilene.host(node), begin, plan.look, words)


def change_rate(lab: Laboratory, plan: Plan, end: End, rate: int) -> None:
    """Give a link another rate; a qdisc that has the rate as a setting gets it, too."""
    assert isinstance(end.queue, Trunk)
    stack = STACKS[plan.stack]
    change = f"qdisc change dev {end.interface}"
    shaper = f"tbf rate {rate}bit burst {2 * FRAME} limit {TRUNK_LIMIT}"
    lines = [f"{change} root handle {SHAPER:x}: {shaper}"]
    if end.queue.slbn:
        lines.append(f"{change} parent {SHAPER:x}:1 handle 2: slbn rate {rate}bit")
    if "{rate}" in stack.options:
        words = stack.options.format(rate=rate)
        lines.append(f"{change} parent {NETEM:x}:1 handle {QUEUE:x}: {stack.kind} {words}")
    text = "\n".join(lines)
    lab.shell(end.node, f"tc -batch - <<'END'\n{text}\nEND")
    lab.accept_changes(end.node)


def wait(
    lab: Laboratory, plan: Plan, begin: float, sampler: Sampler, progress: Progress
) -> tuple[Counts, Counts]:
    """Change rates at their times; what had arrived at the end of the warm-up, and at the end."""
    ends = {end.interface: end for end in network.trunks(lab.network)}
    early: Counts = {}
    moments: list[tuple[float, str, int]] = [*plan.changes, (plan.warmup, "", 0)]
    moments += [(float(second), "-", 0) for second in range(1, round(plan.seconds) + 1)]
    for when, link, rate in sorted(moments):
        with contextlib.suppress(ValueError):
            time.sleep(begin + when - time.monotonic())
        if link == "":
            early = arrived(lab, plan)
        elif link != "-":
            change_rate(lab, plan, ends[link], rate)
        else:
            sampler.take()
            if progress.due():
                progress.update(f"{when:3.0f} of {plan.seconds:g} s")
    return early, arrived(lab, plan)


def link_counters(lab: Laboratory) -> tuple[dict[str, int], int]:
    """The bytes of data that each link has carried, and the packets that delays have dropped."""
    carried: dict[str, int] = {}
    hidden = 0
    states = {}
    for end in network.trunks(lab.network):
        if end.node not in states:
            with lab.queue_reader(end.node) as reader:
                states[end.node] = reader.read()
        index = lab.interface_index(end)
        queue, delay = (states[end.node].get((index, n), NOTHING) for n in (QUEUE, NETEM))
        carried[end.interface] = queue.sent_bytes
        # netem's drops include those of the qdisc behind it.
        hidden += max(0, delay.drops - queue.drops)
    return carried, hidden


def band_waits(lab: Laboratory) -> dict[str, list[int]]:
    """Packets by how long they waited, of each band, of all links that have bands."""
    found: dict[str, list[int]] = {}
    for end in network.trunks(lab.network):
        with lab.queue_reader(end.node) as reader:
            waits = reader.band_waits(lab.interface_index(end), QUEUE)
        for number, counts in waits.items():
            band = BANDS[number - 1]
            before = found.get(band, [0] * len(counts))
            found[band] = [a + b for a, b in zip(before, counts, strict=True)]
    return found


def agent_options(plan: Plan, node: str) -> dict[str, str]:
    """The options of the stack for the agent of a node."""
    stack = STACKS[plan.stack]
    first = next(iter(plan.uplinks))
    options = stack.agent
    if node == first and stack.first_agent is not None:
        options = stack.first_agent
    # A connection belongs to the session that was joined for its pair of hosts.
    return dict(options) | ({"sessions": "pair"} if plan.joined else {})


def start_agents(lab: Laboratory, plan: Plan, stack: ExitStack) -> Agents:
    """An agent on each access router; sessions for flows that have them before they start."""
    agents = Agents(lab)
    for node in plan.uplinks:
        options = {
            "hosts": network.local_hosts(lab.network, node),
            "devices": abilene.wire(abilene.access(node), node),
            **agent_options(plan, node),
        }
        if len(plan.weights) > 1:
            senders = abilene.senders_of(lab.network, node)
            weights = zip(senders, itertools.cycle(plan.weights), strict=False)
            options["weight"] = ", ".join(f"{host}/32 {weight}" for host, weight in weights)
        agents.start(abilene.access(node), options)
    connections = agents.connect_all(stack)
    for flow in plan.flows if plan.joined else ():
        connections[abilene.access(flow.source)].join(
            abilene.address_of(lab.network, flow.destination),
            source=abilene.senders_of(lab.network, flow.source)[flow.sender],
        )
    return agents


def measure(plan: Plan, directory: Path, progress: Progress) -> None:
    """Run a plan; the raw data is left in DIRECTORY."""
    host.require_root()
    host.require_tools()
    require(plan)
    sys.setswitchinterval(0.001)
    topology: Network = plan.network()
    progress.step(f"{plan.stack}, {plan.cc}: {len(plan.flows)} flows in {plan.seconds:g} s")
    window = WINDOW_SECONDS * max(wire.rate for wire in plan.mesh.wires) // 8
    ecn = plan.cc in L4S
    with (
        host.ample_tcp_memory(),
        Laboratory(topology, window, ecn=ecn, hosts=plan.hosts) as lab,
        ExitStack() as stack,
    ):
        log = stack.enter_context(closing(evidence.KernelLog()))
        preflight.offloads(lab)
        lab.add_queues()
        configure(lab, plan)
        agents = None
        if STACKS[plan.stack].slbn is not None:
            agents = start_agents(lab, plan, stack)
        load = host.Load.now()
        programs = Programs(lab)
        begin = time.monotonic() + GET_READY
        start_sinks(programs, plan, begin)
        start_senders(programs, plan, begin)
        sampler = Sampler(lab, network.trunks(lab.network), stack)
        early, late = wait(lab, plan, begin, sampler, progress)
        programs.wait_senders()
        time.sleep(DRAIN)
        programs.stop()
        carried, hidden = link_counters(lab)
        document = {
            "early": early,
            "late": late,
            "arrived": arrived(lab, plan),
            "sent": sent(lab, plan),
            "carried": carried,
            "hidden": hidden,
            "waits": band_waits(lab),
            "backlog_drops": host.Load.now().since(load).backlog_drops,
            "out_of_memory": evidence.tcp_memory(lab, lab.network.hosts),
            "times": [when - begin for when in sampler.times],
            "wires": sampler.wires,
            "agents": agents.printed() if agents else {},
            "kernel_errors": log.errors(),
            "changed": lab.changed(),
            "environment": environment() | {"modules": {plan.cc: host.module_version(plan.cc)}},
        }
        for output in (*lab.scratch.glob("*.fair"), *lab.scratch.glob(f"*{UDP_SINK}")):
            shutil.copy(output, directory)
    (directory / DATA).write_text(json.dumps(document))
