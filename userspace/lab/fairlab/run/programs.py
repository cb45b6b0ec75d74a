# SPDX-License-Identifier: GPL-2.0
"""The traffic programs of a run: fairtraffic's sinks and sources, fairflow's senders, iperf3, ping.

Each runs on a host of the network, with its output in the laboratory's scratch directory: NAME.txt
has what it prints, NAME.json or NAME.fair its report.  iperf3 prints its report.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fairlab.model.background import PACKETS
from fairlab.model.errors import LabError
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import flows

Process = subprocess.Popen[bytes]
PING_INTERVAL = 0.2
# States in /proc/net: TCP_LISTEN, and TCP_CLOSE for a UDP socket without a peer.
_LISTENING = {"tcp": "0A", "udp": "07"}


def wait_listening(
    lab: Laboratory,
    node: str,
    process: subprocess.Popen[bytes],
    port: int,
    protocol: str = "tcp",
) -> bool:
    """Wait until PROCESS on NODE listens on PORT; False if it ends or times out."""
    deadline = time.monotonic() + flows.START_PATIENCE
    table = Path(f"/proc/thread-self/net/{protocol}")
    while process.poll() is None and time.monotonic() < deadline:
        with lab.inside(node):
            rows = [line.split() for line in table.read_text().splitlines()[1:]]
        listening = _LISTENING[protocol]
        if any(int(row[1].split(":")[1], 16) == port and row[3] == listening for row in rows):
            return True
        time.sleep(0.02)
    return False


def wait_server(
    lab: Laboratory, node: str, process: subprocess.Popen[bytes], port: int, output: Path
) -> None:
    """Wait until a flow's receiver on NODE listens on PORT."""
    if not wait_listening(lab, node, process, port):
        raise LabError(f"no receiver listens on port {port}: {flows.said_error(output)}")


class Programs:
    """The programs of one run."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.sinks: dict[str, Process] = {}
        self.sources: dict[str, Process] = {}
        self.senders: dict[str, Process] = {}

    def output(self, name: str) -> Path:
        return self.lab.scratch / name

    def _start(self, name: str, node: str, command: list[str], ending: str = "txt") -> Process:
        with self.output(f"{name}.{ending}").open("wb") as printed:
            return self.lab.start(node, command, printed)

    def start_sink(
        self, name: str, node: str, address: str, port: int, kind: str, options: Sequence[str] = ()
    ) -> Process:
        """Start a sink of this KIND (fairtraffic's), and wait until it listens."""
        command = [host.traffic_program(), "sink", "--kind", kind, "--port", str(port)]
        command += ["--bind", address, "--output", str(self.output(f"{name}.json")), *options]
        self.sinks[name] = sink = self._start(name, node, command)
        protocol = "udp" if kind == PACKETS else "tcp"
        if not wait_listening(self.lab, node, sink, port, protocol):
            self.check()
            raise LabError(f"{name} does not listen on port {port}")
        return sink

    def start_server(self, name: str, node: str, address: str, port: int) -> Process:
        """Start a server of iperf3's, which ends with its flow."""
        return self._start(name, node, flows.server_command(address, port), "json")

    def start_client(self, name: str, node: str, command: list[str]) -> Process:
        """Start a client of iperf3's."""
        return self._start(name, node, command, "json")

    def start_ping(self, name: str, node: str, address: str) -> Process:
        """Start a ping, which ends when it is interrupted."""
        command = ["ping", "-n", "-D", "-i", str(PING_INTERVAL), address]
        return self._start(name, node, command)

    def start_source(self, name: str, node: str, port: int, options: list[str]) -> None:
        """Start a source of short flows or packets."""
        command = [host.traffic_program(), "source", "--port", str(port)]
        command += ["--output", str(self.output(f"{name}.json")), *options]
        self.sources[name] = self._start(name, node, command)

    def start_senders(
        self,
        name: str,
        node: str,
        begin: float | None,
        every: float,
        words: list[str],
        options: tuple[str, ...] = (),
    ) -> Process:
        """Start flows, in fairflow's WORDS; times are from BEGIN on, by the monotonic clock.

        Without BEGIN they are from now on.  The flows are sampled EVERY so many seconds.
        """
        command = [host.traffic_program(host.FLOW)]
        command += [] if begin is None else ["--begin", f"{begin:.9f}"]
        command += ["--every", str(every), *options]
        command += ["--output", str(self.output(f"{name}.fair")), *words]
        self.senders[name] = sender = self._start(name, node, command)
        return sender

    def reason(self, name: str, status: int | None) -> str:
        """Why a program failed: the last line that it printed."""
        printed = self.output(f"{name}.txt").read_text(errors="replace").strip()
        return f"{name}: {printed.splitlines()[-1] if printed else f'exit status {status}'}"

    def check(self) -> None:
        """Raise LabError if a program has failed, or a sink or source has ended."""
        for name, process in {**self.sinks, **self.sources, **self.senders}.items():
            status = process.poll()
            if status or (status is not None and name not in self.senders):
                raise LabError(self.reason(name, status))

    def wait_senders(self) -> None:
        """Wait until all flows have ended."""
        deadline = time.monotonic() + flows.END_PATIENCE
        for name, process in self.senders.items():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise LabError(f"the flows of {name} do not end") from None
        self.check()

    def stop(self) -> None:
        """Stop sources and sinks, which then write their reports."""
        self.stop_sources()
        self._stop(self.sinks)

    def stop_sources(self) -> None:
        """Stop sources, which then write their reports."""
        self._stop(self.sources)

    def _stop(self, processes: dict[str, Process]) -> None:
        self.check()
        for process in processes.values():
            process.terminate()
        while processes:
            name, process = processes.popitem()
            if status := process.wait(flows.END_PATIENCE):
                raise LabError(self.reason(name, status))
