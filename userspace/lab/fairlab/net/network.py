# SPDX-License-Identifier: GPL-2.0
"""A network of topology.py, built on this machine.

Every node, routers included, is a network namespace, and every link a pair of veth devices.
Leaving the `with` block ends the processes in the namespaces, and then the kernel deletes the rest.

Nodes, links and routes are built first, queues later: in between preflight.py measures how fast
this machine forwards without a rate limit.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairlab.model import background, headers
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.network import Bottleneck, Delay, Edge, End, Network, Pacing, Trunk
from fairlab.model.qdisc import Qdisc
from fairlab.net import host, namespace
from fairlab.net.netlink import ConnectionReader, QueueReader, set_dualpi2

# Major numbers of handles: netem, the bottleneck's rate limit and its qdisc, ...
NETEM, SHAPER, QUEUE = 0x20, 0x1, 0x10
SLBN, CONTROL, LATE = 0x2, 0x21, 0x22
# More than any link has.
JITTER_RATE = "100gbit"
DUALPI2 = "dualpi2"

# Limit of a trunk's tbf, in bytes: more than its queues ever hold. In slow start, packets arrive
# at several times the rate of a link, and are counted while they are delayed, too.
TRUNK_LIMIT = 128 * 2**20

# Source ports for the background's many flows.
BACKGROUND_SETTINGS = {
    "tcp_congestion_control": background.CONGESTION_CONTROL,
    "ip_local_port_range": "10000 64999",
    "tcp_tw_reuse": "1",
}

MIN_WINDOW_MEMORY = 32 * 2**20
LARGEST_INT = 2**31 - 1  # of a sysctl


def queue_commands(end: End, frame: int) -> list[str]:
    """The tc commands for the queue of an interface."""
    commands: list[str] = []

    def add(parent: str, handle: int, what: object) -> str:
        place = f"dev {end.interface} {parent} handle {handle:x}:"
        commands.append(f"qdisc replace {place} {what}")
        return f"parent {handle:x}:"

    match end.queue:
        case Delay() as delay:
            netem = f"netem limit {delay.limit} delay {delay.time}us"
            # With a rate, netem keeps the order of packets.
            netem += f" {delay.jitter}us rate {JITTER_RATE}" if delay.jitter else ""
            netem += f" loss random {100 * delay.loss:.8f}%" if delay.loss else ""
            parent = add("root", NETEM, netem)
            if delay.reorder:
                late = f"netem limit {delay.limit} delay {delay.reorder_by}us"
                # netem's own reordering is that of the packets that it does not delay.
                add(parent, LATE, f"{late} reorder {100 * (1 - delay.reorder):.8f}%")
        case Bottleneck() as queue:
            shaper = f"tbf rate {queue.rate}bit burst {queue.burst} limit {queue.size}"
            add(add("root", SHAPER, shaper) + "1", QUEUE, queue.qdisc)
        case Pacing() as pacing:
            # TCP does not pace its first ten packets.  With a quantum of a packet, fq gives no
            # credit for idle time.
            quantum = f"quantum {frame} initial_quantum {frame} limit 100000 flow_limit 10000"
            add("root", QUEUE, f"fq maxrate {pacing.peak}bit {quantum}")
        case Edge():
            add("root", SLBN, "slbn edge")
        case Qdisc() as qdisc:
            add("root", QUEUE, qdisc)
        case Trunk() as trunk:
            # Packets are delayed, then rate-limited, control packets first.
            shaper = f"tbf rate {trunk.rate}bit burst {2 * frame} limit {TRUNK_LIMIT}"
            wait = f"netem delay {trunk.delay}us limit {TRUNK_LIMIT // frame}"
            parent = add("root", SHAPER, shaper) + "1"
            if trunk.slbn:
                link = add(parent, SLBN, f"slbn rate {trunk.slbn}bit {trunk.slbn_words}".rstrip())
                if trunk.delay:
                    add(link + "1", CONTROL, wait)
                parent = link + "2"
            if trunk.delay:
                parent = add(parent, NETEM, wait) + "1"
            # Of dualpi2, tc of Debian 12 has no options: add_queues() sets them.
            add(parent, QUEUE, DUALPI2 if trunk.data.kind == DUALPI2 else trunk.data)
    return commands


def route_command(to: str, *via: str) -> str:
    """The ip command for a route; between several next hops, addresses of packets decide."""
    if len(via) == 1:
        return f"route add {to} via {via[0]}"
    return " ".join([f"route add {to}", *(f"nexthop via {address}" for address in via)])


@dataclass(frozen=True)
class Hosts:
    """What hosts differ in from those of other runs.

    RECEIVE and SEND are the largest socket buffers of TCP [bytes], with all of the kernel's
    overhead; 0: so large that they do not limit windows.  With GSO, TCP sends many segments at
    once, as with a network card's segmentation offload.
    """

    receive: int = 0
    send: int = 0
    gso: bool = False


#: Hosts that limit nothing.
AMPLE = Hosts()


def host_settings(window_memory: int, ecn: bool, hosts: Hosts) -> dict[str, str]:
    """The sysctls of an end host: socket buffers that do not limit windows, unless HOSTS has some;
    no metrics of earlier connections."""
    receive = hosts.receive or min(2 * window_memory, LARGEST_INT)
    send = hosts.send or min(window_memory, LARGEST_INT)
    return {
        "tcp_rmem": f"4096 131072 {receive}",
        "tcp_wmem": f"4096 {16384 if hosts.send else 131072} {send}",
        "tcp_no_metrics_save": "1",
        "tcp_ecn": "1" if ecn else "0",
    }


class Laboratory:
    """A network that exists inside a `with` block."""

    def __init__(
        self, network: Network, window_memory: int, ecn: bool, hosts: Hosts = AMPLE
    ) -> None:
        self.network = network
        self.hosts = hosts
        self.settings = host_settings(max(MIN_WINDOW_MEMORY, window_memory), ecn, self.hosts)
        self.frame = network.mtu + headers.ETHERNET
        self.scratch = Path()
        self._nodes: dict[str, namespace.Namespace] = {}
        self._children: list[subprocess.Popen[bytes]] = []
        self._cleanup = contextlib.ExitStack()
        #: of each interface with add_queues(), by what it is: how it was set
        self._built: dict[tuple[str, str], object] = {}

    def __enter__(self) -> "Laboratory":
        with contextlib.ExitStack() as stack:
            self.scratch = Path(tempfile.mkdtemp(prefix="fairlab-"))
            stack.callback(shutil.rmtree, self.scratch)
            stack.enter_context(host.large_backlog())
            stack.enter_context(host.many_files())
            stack.enter_context(host.forwarding_first())
            self._start(stack)
            stack.callback(host.end, self._children)
            for node in (*self.network.hosts, *self.network.routers):
                self._configure(node)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        """Create nodes and links."""
        for node in (*self.network.hosts, *self.network.routers):
            self._nodes[node] = stack.enter_context(contextlib.closing(namespace.Namespace()))
        batch = []
        for link in self.network.links:
            a, b = (
                f"{end.interface} mtu {self.network.mtu} address {end.mac}"
                f" netns {self._nodes[end.node].path}"
                for end in (link.a, link.b)
            )
            batch.append(f"link add name {a} type veth peer name {b}")
        execute(["ip", "-batch", "-"], "links", batch)

    def _configure(self, node: str) -> None:
        """Set addresses, neighbours, routes and sysctls of a node."""
        batch = ["link set dev lo up"]
        for end, peer in self.network.ends_of(node):
            device = f"dev {end.interface}"
            batch += [
                f"link set {device} up",
                f"address add {end.address}/24 {device}",
                *(f"address add {address}/24 {device}" for address in end.others),
                *(
                    f"neighbour replace {address} lladdr {peer.mac} {device} nud permanent"
                    for address in (peer.address, *peer.others)
                ),
            ]
        batch += [route_command(*route) for route in self.network.routes[node]]
        settings = {"ip_forward": "1"}
        if node not in self.network.routers:
            settings = dict(self.settings)
            if self.network.background and node == self.network.background.sender:
                settings |= BACKGROUND_SETTINGS
        with self.inside(node):
            with contextlib.suppress(FileNotFoundError):
                namespace.set_sysctl("ipv6/conf/all/disable_ipv6", "1")
            for name, value in settings.items():
                namespace.set_sysctl(f"ipv4/{name}", value)
            for end, _ in self.network.ends_of(node):
                namespace.set_offloads(end.interface, self._offloads(node))
            execute(["ip", "-batch", "-"], node, batch)

    def add_queues(self) -> None:
        """Add the topology's queues."""
        for node in (*self.network.routers, *self.network.hosts):
            ends = [end for end, _ in self.network.ends_of(node)]
            commands = [command for end in ends for command in queue_commands(end, self.frame)]
            if not commands:
                continue
            try:
                with self.inside(node):
                    execute(["tc", "-batch", "-"], node, commands)
            except LabError as error:
                raise CannotRunError(f"this kernel lacks a qdisc that is needed: {error}") from None
            with self.inside(node):
                for end in ends:
                    if isinstance(end.queue, Trunk) and end.queue.data.kind == DUALPI2:
                        set_dualpi2(end.interface, QUEUE, end.queue.data.words)
        for node in (*self.network.routers, *self.network.hosts):
            self._built |= self._settings(node)

    def _settings(self, node: str) -> dict[tuple[str, str], object]:
        """Of the interfaces of NODE: MTU, offloads, and each qdisc with its options."""
        found: dict[tuple[str, str], object] = {}
        names = {}
        with self.inside(node):
            for end, _ in self.network.ends_of(node):
                names[socket.if_nametoindex(end.interface)] = end.interface
                found[end.interface, "MTU"] = namespace.mtu_of(end.interface)
                found[end.interface, "offloads"] = namespace.offloads_on(end.interface)
        with self.queue_reader(node) as reader:
            for (index, handle), (kind, options) in reader.options().items():
                if index in names and handle:
                    found[names[index], f"{kind} {handle >> 16:x}:"] = options
        return found

    def accept_changes(self, node: str, only: str = "") -> None:
        """The settings of NODE, or ONLY one, were changed as planned: changed() must not report
        them.
        """
        self._built |= {
            key: value
            for key, value in self._settings(node).items()
            if key in self._built and only in ("", key[1])
        }

    def changed(self) -> list[str]:
        """What is no longer as add_queues() left it, each as `interface: MTU`."""
        now: dict[tuple[str, str], object] = {}
        for node in (*self.network.routers, *self.network.hosts):
            now |= self._settings(node)
        # Agents add qdiscs.
        return [
            f"{interface}: {what}"
            for (interface, what), value in self._built.items()
            if now.get((interface, what)) != value
        ]

    def inside(self, node: str) -> contextlib.AbstractContextManager[None]:
        """Within it, this thread and the programs that it starts are on NODE."""
        return self._nodes[node].inside()

    def run(self, node: str, *command: str) -> str:
        """Run a program on NODE, and return its output; raise LabError if it fails."""
        with self.inside(node):
            return execute(command, node)

    def shell(self, node: str, script: str) -> str:
        """Run a shell script on NODE (with set -e); raise LabError if it fails."""
        return self.run(node, "sh", "-ec", script)

    def start(
        self,
        node: str,
        command: list[str],
        output: IO[bytes],
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on NODE, which is ended with the network at the latest.

        It gets what ENVIRONMENT adds to ours.
        """
        # A signal in between would leave a process that is not ended with the network.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, host.STOPPING)
        try:
            with self.inside(node):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | environment if environment else None,
                    start_new_session=True,
                    preexec_fn=host.become_traffic,  # noqa: PLW1509 - there are no threads
                )
            self._children.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return process

    @contextlib.contextmanager
    def queue_reader(self, node: str) -> Iterator[QueueReader]:
        """A reader of the queues of NODE."""
        with self.inside(node):
            reader = QueueReader()
        with contextlib.closing(reader):
            yield reader

    def congestion_controls(self, node: str) -> dict[tuple[int, int], str]:
        """The congestion controls of the connections of NODE, by their ports."""
        with self.inside(node), contextlib.closing(ConnectionReader()) as reader:
            return reader.congestion_controls()

    def interface_index(self, end: End) -> int:
        """The kernel's index of an interface."""
        with self.inside(end.node):
            return socket.if_nametoindex(end.interface)

    def offloads_on(self, node: str) -> list[str]:
        """Offloads that are on and should not be: each as `interface: feature`."""
        with self.inside(node):
            return [
                f"{end.interface}: {name}"
                for end, _ in self.network.ends_of(node)
                for name in namespace.offloads_on(end.interface)
                if name not in self._offloads(node)
            ]

    def _offloads(self, node: str) -> list[str]:
        """Those that interfaces of NODE are to have."""
        return [namespace.GSO] if self.hosts.gso and node in self.network.hosts else []

    def try_qdisc(self, end: End, qdisc: Qdisc) -> None:
        """Add a qdisc to an interface and delete it again; raise LabError if tc refuses it."""
        device = f"dev {end.interface}"
        self.shell(end.node, f"tc qdisc add {device} root {qdisc}; tc qdisc del {device} root")

    def shown_queue(self, end: End) -> dict[str, Any]:
        """tc's JSON (`tc -s -j qdisc`) of the data qdisc of an interface."""
        shown = json.loads(self.run(end.node, *f"tc -s -j qdisc show dev {end.interface}".split()))
        found: dict[str, Any] = next(q for q in shown if q["handle"] == f"{QUEUE:x}:")
        return found

    def netem_limits(self, node: str) -> dict[str, int]:
        """The limits of the netem delays of NODE in packets, by interface, read from the kernel."""
        queues = json.loads(self.run(node, "tc", "-j", "qdisc", "show"))
        return {q["dev"]: int(q["options"]["limit"]) for q in queues if q["kind"] == "netem"}


def execute(command: Sequence[str], node: str, lines: Sequence[str] = ()) -> str:
    """Run a program in this thread's namespace, that of NODE, with LINES as its input.

    Return its output; raise LabError if it fails.
    """
    done = subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        reason = re.sub(r"\s*\n\s*", "; ", done.stderr.strip()) or f"exit {done.returncode}"
        raise LabError(f"on {node}: {reason}")
    return done.stdout
