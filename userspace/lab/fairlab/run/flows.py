# SPDX-License-Identifier: GPL-2.0
"""The traffic: one sender for each flow, with its own ports, a ping beside, and the background.

The sender, iperf3 or fairflow, sends as much as TCP takes, sets the congestion control itself and
says at the end what was in use, how much arrived and how much was sent again.  Throughput over time
comes from elsewhere (queues.py); the sender's own account is kept, and compared.  fairflow, whose
other end is fairtraffic's sink, makes far fewer system calls, and looks at its flow often.

The ping runs from the first sender to the first receiver, through the bottleneck: it sees the
round-trip as the flows do, and tells that apart from what the queue's length makes one believe.

The background, if there is one, comes from fairtraffic: a source and a sink, which run until they
are stopped, and then write what happened.
"""

import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model import background
from fairlab.model.errors import LabError
from fairlab.model.scenario import FAIRFLOW, Scenario
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import samples

FIRST_SERVER_PORT, FIRST_CLIENT_PORT = 5201, 50001
BACKGROUND_PORT = 5000
PING_INTERVAL = 0.2
# Between two of fairflow's looks at its flow.
LOOK_INTERVAL = 0.1

# Generous, since an emulated machine may take long for what has nothing to do with the network.
START_PATIENCE, END_PATIENCE = 120, 120

_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* time=([\d.]+) ms", re.M)
# As the kernel has it in /proc/net: TCP_LISTEN, and TCP_CLOSE for a UDP socket without a peer.
_LISTENING = {"tcp": "0A", "udp": "07"}


def ports(number: int) -> tuple[int, int]:
    """The ports of flow NUMBER (from 0): the sender's, the receiver's."""
    return FIRST_CLIENT_PORT + number, FIRST_SERVER_PORT + number


def server_command(address: str, port: int) -> list[str]:
    return ["iperf3", "--server", "--one-off", "--json", "--bind", address, "--port", str(port)]


def client_command(
    address: str, client_and_server_port: tuple[int, int], cc: str, seconds: int
) -> list[str]:
    """A flow of iperf3 under CC that lasts so long."""
    own_port, port = map(str, client_and_server_port)
    command = ["iperf3", "--client", address, "--port", port, "--cport", own_port]
    limits = ["--time", str(seconds), "--interval", "1"]
    return [*command, "--congestion", cc, *limits, "--json"]


def wait_listening(
    lab: Laboratory,
    node: str,
    process: subprocess.Popen[bytes],
    port: int,
    protocol: str = "tcp",
) -> bool:
    """Wait until PROCESS on NODE listens on PORT; False if it does not."""
    deadline = time.monotonic() + START_PATIENCE
    table = Path(f"/proc/{lab.pid(node)}/net/{protocol}")
    while process.poll() is None and time.monotonic() < deadline:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
        listening = _LISTENING[protocol]
        if any(int(row[1].split(":")[1], 16) == port and row[3] == listening for row in rows):
            return True
        time.sleep(0.02)
    return False


def wait_server(
    lab: Laboratory, node: str, process: subprocess.Popen[bytes], port: int, output: Path
) -> None:
    """Wait until a flow's other end on NODE listens on PORT."""
    if not wait_listening(lab, node, process, port):
        raise LabError(f"nobody listens on port {port}: {said_error(output)}")


def said_error(output: Path) -> str:
    """What a sender or its other end says went wrong, from its output."""
    text = output.read_text(errors="replace").strip()
    try:
        return str(json.loads(text).get("error", "no reason given"))
    except ValueError:
        return text or "no reason given"


@dataclass(frozen=True)
class Report:
    """What the two ends of a flow said when it was over."""

    received_bytes: int
    retransmits: int
    cc: str


def parse_fairflow(label: str, client: Path, server: Path) -> Report:
    """Read what fairflow and its sink wrote."""
    try:
        sent, received = samples.read_head(client)["flows"][0], json.loads(server.read_text())
        return Report(received["bytes"], sent["retransmits"], sent["kind"])
    except (ValueError, KeyError, TypeError) as error:
        reason = said_error(client) if isinstance(error, ValueError) else repr(error)
        raise LabError(f"flow {label}: fairflow broke: {reason}") from None


def parse_report(label: str, client: Path, server: Path) -> Report:
    """Read what iperf3 wrote at both ends."""
    documents: list[dict[str, Any]] = []
    for end in (client, server):
        try:
            document = json.loads(end.read_text())
        except ValueError:
            raise LabError(f"flow {label}: iperf3 broke: {said_error(end)}") from None
        if "error" in document:
            raise LabError(f"flow {label}: iperf3: {document['error']}")
        documents.append(document)
    try:
        sent, received = documents[0]["end"], documents[1]["end"]
        return Report(
            received_bytes=int(received["sum_received"]["bytes"]),
            retransmits=int(sent["sum_sent"]["retransmits"]),
            cc=str(sent["sender_tcp_congestion"]),
        )
    except KeyError as error:
        raise LabError(f"flow {label}: iperf3's report has no {error}") from None


class Traffic:
    """The flows of a scenario on its network."""

    def __init__(self, lab: Laboratory, scenario: Scenario) -> None:
        self.lab = lab
        self.scenario = scenario
        self.servers: list[subprocess.Popen[bytes]] = []
        self.clients: dict[int, subprocess.Popen[bytes]] = {}
        self.pinging: subprocess.Popen[bytes] | None = None

    @property
    def ours(self) -> bool:
        """Is the sender our own?"""
        return self.scenario.sender == FAIRFLOW

    def output(self, name: str) -> Path:
        """Where a program's output goes: the measuring machine's memory, until the run is over."""
        return self.lab.scratch / name

    def client_output(self, number: int) -> Path:
        return self.output(f"client-{number + 1}.{'fair' if self.ours else 'json'}")

    def server_output(self, number: int) -> Path:
        return self.output(f"server-{number + 1}.json")

    def outputs(self) -> list[Path]:
        """What all of them wrote."""
        numbers = range(len(self.scenario.flows))
        return [path(n) for path in (self.client_output, self.server_output) for n in numbers]

    def start_servers(self) -> None:
        """Start the other end of each flow, and wait until all are ready."""
        for number, path in enumerate(self.lab.network.paths):
            _, port = ports(number)
            command = server_command(path.address, port)
            if self.ours:
                command = [host.traffic_program(), "sink", "--bind", path.address]
                command += ["--port", str(port)]
            with self.server_output(number).open("wb") as output:
                self.servers.append(self.lab.start(path.receiver, command, output))
        for number, server in enumerate(self.servers):
            node, port = self.lab.network.paths[number].receiver, ports(number)[1]
            wait_server(self.lab, node, server, port, self.server_output(number))

    def start_client(self, number: int, seconds: int) -> None:
        """Start flow NUMBER, to send for SECONDS."""
        path = self.lab.network.paths[number]
        cc = self.scenario.flows[number].cc
        command = client_command(path.address, ports(number), cc, seconds)
        if self.ours:
            own, port = ports(number)
            words = f"to={path.address},port={port},from={own},cc={cc},stop={seconds}"
            command = [host.traffic_program(host.FLOW), "--every", str(LOOK_INTERVAL), words]
        with self.client_output(number).open("wb") as output:
            self.clients[number] = self.lab.start(path.sender, command, output)

    def start_ping(self) -> None:
        path = self.lab.network.paths[0]
        with self.output("ping.txt").open("wb") as output:
            command = ["ping", "-n", "-D", "-i", str(PING_INTERVAL), path.address]
            self.pinging = self.lab.start(path.sender, command, output)

    def stop_ping(self) -> None:
        """Interrupt the ping, which makes it write what it still has to say."""
        if self.pinging:
            self.pinging.send_signal(signal.SIGINT)
            self.pinging.wait(END_PATIENCE)

    def check_alive(self) -> None:
        """A client that has ended early has failed, whatever status iperf3 ends with."""
        for number, client in self.clients.items():
            if client.poll() is not None:
                reason = said_error(self.client_output(number))
                sender = self.scenario.sender
                raise LabError(f"flow {self.scenario.labels[number]}: {sender}: {reason}")

    def running(self) -> bool:
        """Are some not at their end yet?"""
        if any(client.poll() is None for client in self.clients.values()):
            return True
        # A sink would go on for ever; iperf3's end comes by itself.
        if self.ours:
            for server in self.servers:
                server.terminate()
        return any(server.poll() is None for server in self.servers)

    def reports(self) -> list[Report]:
        """What the ends have to say about each flow, when all are over."""
        parse = parse_fairflow if self.ours else parse_report
        return [
            parse(label, self.client_output(n), self.server_output(n))
            for n, label in enumerate(self.scenario.labels)
        ]


class BackgroundTraffic:
    """The background of a scenario on its network."""

    def __init__(self, lab: Laboratory, scenario: Scenario) -> None:
        self.lab = lab
        self.scenario = scenario
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def report(self, end: str) -> Path:
        """Where source or sink writes its report."""
        return self.lab.scratch / f"background-{end}.json"

    def _said(self, end: str) -> Path:
        return self.lab.scratch / f"background-{end}.txt"

    def _start(self, end: str, node: str, words: list[str]) -> None:
        command = [host.traffic_program(), end, "--port", str(BACKGROUND_PORT)]
        with self._said(end).open("wb") as said:
            self.running[end] = self.lab.start(
                node, [*command, "--output", str(self.report(end)), *words], said
            )

    def start(self) -> None:
        """Begin, if there is a background."""
        what, path = self.scenario.background, self.lab.network.background
        if not what or not path:
            return
        self._start("sink", path.receiver, ["--kind", what.kind])
        protocol = "tcp" if what.kind == background.FLOWS else "udp"
        sink = self.running["sink"]
        if not wait_listening(self.lab, path.receiver, sink, BACKGROUND_PORT, protocol):
            self.check_alive()
            raise LabError("the background's sink does not listen")
        s = self.scenario
        options = source_options(what, s.rate, s.mtu, s.seed, path.address)
        self._start("source", path.sender, options)

    def check_alive(self) -> None:
        """Neither ends by itself, unless it has failed."""
        for end, process in self.running.items():
            if process.poll() is not None:
                said = self._said(end).read_text(errors="replace").strip()
                raise LabError(f"the background's {end}: {said or f'exit {process.returncode}'}")

    def stop(self, end: str) -> None:
        """Stop source or sink, which then writes its report."""
        process = self.running.get(end)
        if process:
            self.check_alive()
            process.terminate()
            process.wait(END_PATIENCE)
            if process.returncode:
                self.check_alive()
            del self.running[end]

    def reports(self) -> list[Path]:
        """What they wrote."""
        return sorted(self.lab.scratch.glob("background-*.json"))


def source_options(
    what: background.Background, rate: int, mtu: int, seed: int, address: str
) -> list[str]:
    """What the background's source is told, before a link of RATE."""
    load = what.offered_load(rate, mtu)
    options = ["--to", address, "--kind", what.kind, "--seed", str(seed)]
    options += ["--load", f"{load:.3f}", "--mean", str(what.mean_size(mtu))]
    if what.kind == background.FLOWS:
        options += ["--sizes", what.sizes, "--peak", str(what.peak)]
    return options


def parse_ping(text: str) -> list[tuple[float, float]]:
    """The replies in ping's output: (when it came, by the clock of the day; round-trip in ms)."""
    return [(float(when), float(took)) for when, took in _REPLY.findall(text)]
