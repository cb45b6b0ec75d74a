# SPDX-License-Identifier: GPL-2.0
"""The traffic programs of a run: fairtraffic's sinks and sources, fairflow's senders, iperf3, ping.

Each runs on a host of the network, with its output in the laboratory's scratch directory: NAME.txt
has what it prints, NAME.json or NAME.fair its report.  iperf3 prints its report.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairlab.model.background import PACKETS
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import engine, flows

Process = subprocess.Popen[bytes]
# States in /proc/net: TCP_LISTEN, and TCP_CLOSE for a UDP socket without a peer.
_LISTENING = {"tcp": "0A", "udp": "07"}


def wait_listening(
    lab: Laboratory, node: str, process: subprocess.Popen[bytes], port: int, *protocols: str
) -> bool:
    """Wait until PROCESS on NODE listens on PORT; False if it ends or times out."""
    deadline = time.monotonic() + flows.START_PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with lab.inside(node):
            rows = [
                (line.split(), _LISTENING[protocol.removesuffix("6")])
                for protocol in protocols
                for line in Path(f"/proc/thread-self/net/{protocol}").read_text().splitlines()[1:]
            ]
        if any(row[1].endswith(f":{port:04X}") and row[3] == state for row, state in rows):
            return True
        time.sleep(0.02)
    return False


def wait_server(
    lab: Laboratory, node: str, process: subprocess.Popen[bytes], port: int, output: Path
) -> None:
    """Wait until a flow's receiver on NODE listens on PORT."""
    if not wait_listening(lab, node, process, port, "tcp"):
        raise LabError(f"no receiver listens on port {port}: {flows.said_error(output)}")


class Programs:
    """The programs of one run."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.sinks: dict[str, Process] = {}
        self.sources: dict[str, Process] = {}
        self.senders: dict[str, Process] = {}
        #: programs that anybody wrote, and of those that have ended: when, and their exit status
        self.own: dict[str, Process] = {}
        self.ended: dict[str, tuple[float, int]] = {}
        #: a file with the names of those that run, for whoever ends this guest
        self.running: Path | None = None

    def output(self, name: str) -> Path:
        return self.lab.scratch / name

    def start(
        self,
        name: str,
        node: str,
        command: list[str],
        ending: str = "txt",
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a program on NODE, whose output goes to NAME.ENDING."""
        with self.output(f"{name}.{ending}").open("wb") as printed:
            return self.lab.start(node, command, printed, environment)

    def start_sink(
        self, name: str, node: str, address: str, port: int, kind: str, options: Sequence[str] = ()
    ) -> Process:
        """Start a sink of this KIND (fairtraffic's), and wait until it listens."""
        command = [host.traffic_program(), "sink", "--kind", kind, "--port", str(port)]
        command += ["--bind", address, "--output", str(self.output(f"{name}.json")), *options]
        self.sinks[name] = sink = self.start(name, node, command)
        protocol = "udp" if kind == PACKETS else "tcp"
        if not wait_listening(self.lab, node, sink, port, protocol):
            self.check()
            raise LabError(f"{name} does not listen on port {port}")
        return sink

    def start_source(self, name: str, node: str, port: int, options: list[str]) -> None:
        """Start a source of short flows or packets."""
        command = [host.traffic_program(), "source", "--port", str(port)]
        command += ["--output", str(self.output(f"{name}.json")), *options]
        self.sources[name] = self.start(name, node, command)

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
        self.senders[name] = sender = self.start(name, node, command)
        return sender

    def start_own(self, name: str, node: str, command: list[str]) -> None:
        """Start a program that anybody wrote."""
        if self.running:
            self.running.write_text("\n".join([*(self.own.keys() - self.ended.keys()), name]))
        # So that a run in virtual time repeats.
        library = host.random_device() if engine.is_virtual() else None
        environment = {"LD_PRELOAD": str(library)} if library else None
        try:
            self.own[name] = self.start(name, node, command, environment=environment)
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}") from None

    def wait_own(self, name: str, node: str, port: int) -> None:
        """Wait until a server that anybody wrote listens on PORT."""
        process = self.own[name]
        if not wait_listening(self.lab, node, process, port, "tcp", "tcp6", "udp", "udp6"):
            if self.running and process.poll() is not None:
                self.running.unlink()
            raise CannotRunError(f"{self.reason(name, process.poll())}; no server on port {port}")

    def look_own(self, now: float) -> None:
        """Note which programs that anybody wrote have ended by NOW [s]."""
        for name, process in self.own.items():
            if name not in self.ended and (status := process.poll()) is not None:
                self.ended[name] = round(now, 6), status

    def stop_own(self) -> dict[str, dict[str, float | int | None]]:
        """Stop them, clients first; when each ended by itself [s], and its exit status then."""
        for name in sorted(self.own, key=lambda name: name.endswith("-server")):
            if name not in self.ended:
                self.own[name].terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.own[name].wait(flows.END_PATIENCE)
        if self.running:
            self.running.unlink(missing_ok=True)
        found = {name: self.ended.get(name, (None, None)) for name in self.own}
        return {name: {"ended": when, "status": status} for name, (when, status) in found.items()}

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
