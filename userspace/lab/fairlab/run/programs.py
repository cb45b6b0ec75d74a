# SPDX-License-Identifier: GPL-2.0
"""The traffic programs of a run: fairtraffic's sinks and sources, fairflow's senders.

Each runs on a host of the network, with its output in two files of the laboratory's scratch
directory: NAME.txt has what it prints, NAME.json or NAME.fair its report.
"""

import subprocess
import time
from pathlib import Path

from fairlab.model.background import PACKETS
from fairlab.model.errors import LabError
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import flows

Process = subprocess.Popen[bytes]


class Programs:
    """The programs of one run."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.sinks: dict[str, Process] = {}
        self.sources: dict[str, Process] = {}
        self.senders: dict[str, Process] = {}

    def output(self, name: str) -> Path:
        return self.lab.scratch / name

    def _start(self, name: str, node: str, command: list[str]) -> Process:
        with self.output(f"{name}.txt").open("wb") as printed:
            return self.lab.start(node, command, printed)

    def start_sink(self, name: str, node: str, address: str, port: int, kind: str) -> None:
        """Start a sink of this KIND (fairtraffic's), and wait until it listens."""
        command = [host.traffic_program(), "sink", "--kind", kind, "--port", str(port)]
        command += ["--bind", address, "--output", str(self.output(f"{name}.json"))]
        self.sinks[name] = sink = self._start(name, node, command)
        protocol = "udp" if kind == PACKETS else "tcp"
        if not flows.wait_listening(self.lab, node, sink, port, protocol):
            self.check()
            raise LabError(f"{name} does not listen on port {port}")

    def start_source(self, name: str, node: str, port: int, options: list[str]) -> None:
        """Start a source of short flows or packets."""
        command = [host.traffic_program(), "source", "--port", str(port)]
        command += ["--output", str(self.output(f"{name}.json")), *options]
        self.sources[name] = self._start(name, node, command)

    def start_senders(
        self,
        name: str,
        node: str,
        begin: float,
        every: float,
        words: list[str],
        options: tuple[str, ...] = (),
    ) -> None:
        """Start flows, in fairflow's WORDS; times are from BEGIN on, by the monotonic clock.

        They are sampled EVERY so many seconds.
        """
        command = [host.traffic_program(host.FLOW), "--begin", f"{begin:.9f}"]
        command += ["--every", str(every), *options]
        command += ["--output", str(self.output(f"{name}.fair")), *words]
        self.senders[name] = self._start(name, node, command)

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
        for processes in (self.sources, self.sinks):
            for process in processes.values():
                process.terminate()
            for name, process in processes.items():
                if status := process.wait(flows.END_PATIENCE):
                    raise LabError(self.reason(name, status))
