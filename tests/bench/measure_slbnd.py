# SPDX-License-Identifier: GPL-2.0
"""The cost of slbnd: packets, CPU time and memory of one agent, by number of sessions.

Runs in a new network namespace (as its root) on the host's kernel, without any module.  The agent
has sessions to a destination in a second namespace, over a veth, where another agent answers.
There are no links on the path, so each session is assigned its demand.  Both have a key: without
one, an agent sends 10,000 replies per second to an address at most.

A point is a number of sessions and their demand:

    paced   1 Mbit/s each: control packets take 1 % of that
    full    no limit, and the shortest pause: as many packets as one CPU can handle
    saved   the same with a state file, where a record is written before each packet is sent
    idle    100,000 sessions of 10 kbit/s with an epoch of 10 s, the longest pauses
    churn   the same, and 10,000 new flows each second, 1 % of which get a session

New flows go from this router to 65,535 ports.  Most are mice of one datagram; the others send 12
full packets at once, and leave after an idle time of 2 s.  One more point is new flows alone,
beside 200,000 old connections in conntrack's table, which send nothing.

If this is root, slbnd attaches its BPF program, and reads the use of all sessions from its maps;
the veth needs no fq for that.

CPU time is the agent's in /proc; packets are those that it sent and their answers.  Each point
starts when all sessions have got their first answer.  The memory of BPF maps is what the kernel
accounts to their file descriptors.

Prints JSON.  The run fails if an agent ends or a session is not assigned its demand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libslbn

from tests import launch

TOP = Path(__file__).resolve().parent.parent.parent
SLBND = TOP / "build/slbnd/slbnd"

DEMANDS = {
    "paced": 10**6,
    "full": libslbn.UNLIMITED,
    "saved": libslbn.UNLIMITED,
    "idle": 10**4,
}
MANY = 100000
HOSTS = ["--hosts", "10.0.0.1/32", "--idle", "2s"]
QUOTAS = ["--host-sessions", f"{2 * MANY}", "--prefix-sessions", f"{2 * MANY}"]
OPTIONS = {
    "paced": ["--devices", "near"],
    "full": ["--devices", "near", "--pause", "1us"],
    "saved": ["--devices", "near", "--pause", "1us"],
    "idle": [
        *("--devices", "near", "--epoch", "10s", "--max-sessions", f"{2 * MANY}"),
        *(*HOSTS, *QUOTAS),
    ],
}
#: The state file is in memory, as in /run.
MEMORY = Path("/dev/shm")
COUNTS = {
    "paced": [100, 1000, 10000],
    "full": [100, 1000, 10000],
    "saved": [1000, 10000],
    "idle": [MANY],
}
OLD = 200000  # connections in conntrack's table
FLOWS = 10000  # new flows per second
LARGE = 100  # one of so many gets a session
PACKETS, OCTETS = 12, 1400  # that it sends
SETTLE = 5  # seconds after the old connections
PATIENCE = 120  # seconds until all sessions have got an answer
TICKS = os.sysconf("SC_CLK_TCK")


class WrongError(Exception):
    """A measurement is not as intended."""


def run(*command: str) -> None:
    done = launch.run(command)
    if done.returncode:
        raise WrongError(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def agent(path: Path, options: list[str], prefix: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [*prefix, str(SLBND), "--config", "/dev/null", "--socket", str(path), *options]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.terminate()


def keyed(scratch: Path) -> list[str]:
    """The options for the key of all agents."""
    file = scratch / "key"
    if not file.exists():
        file.touch(0o600)
        file.write_text(f"{secrets.token_hex(16)}\n")
    return ["--key-file", str(file)]


def connect(path: Path) -> libslbn.Connection:
    end = time.monotonic() + 10
    while True:
        try:
            return libslbn.Connection(str(path))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def map_bytes(pid: int) -> int:
    """Kernel memory of the agent's BPF maps."""
    maps = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = dict(
            line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line
        )
        if "map_id" in fields:
            maps[fields["map_id"]] = int(fields["memlock"])
    return sum(maps.values())


def packets(connection: libslbn.Connection) -> int:
    """Packets sent and answered."""
    status = connection.status()
    return 2 * status.cycles + status.retries


def join(us: libslbn.Connection, count: int, demand: int) -> None:
    """Join COUNT sessions for as many flows, and wait until all have their demand."""
    for number in range(count):
        us.join(
            "10.0.0.2",
            demand,
            protocol=socket.IPPROTO_TCP,
            source_port=1 + number % 60000,
            destination_port=1 + number // 60000,
        )
    end = time.monotonic() + PATIENCE
    while any(session.rate != demand for session in us.list()):
        if time.monotonic() > end:
            raise WrongError(f"some of {count} sessions were not assigned their demand")
        time.sleep(0.1)


@dataclass
class Meter:
    """Measures an agent over a time."""

    process: subprocess.Popen[bytes]
    us: libslbn.Connection

    def measure(self, load: Callable[[], object]) -> dict[str, Any]:
        pid = self.process.pid
        first, cpu, start = packets(self.us), cpu_seconds(pid), time.monotonic()
        load()
        took, cpu = time.monotonic() - start, cpu_seconds(pid) - cpu
        if self.process.poll() is not None:
            raise WrongError("the agent has ended")
        exchanged = packets(self.us) - first
        return {
            "packets_per_second": exchanged / took,
            "cpu_share": cpu / took,
            "packets_per_cpu_second": exchanged / cpu if cpu else None,
        }


def points(kind: str, count: int, seconds: float, scratch: Path) -> Iterator[dict[str, Any]]:
    path = scratch / f"{kind}-{count}"
    options = [*OPTIONS[kind], *keyed(scratch)]
    if kind == "saved":
        options = [*options, "--state", str(scratch / "state")]
    with agent(path, options, []) as process, connect(path) as us:
        empty = resident_bytes(process.pid)
        join(us, count, DEMANDS[kind])
        meter = Meter(process, us)
        found = meter.measure(lambda: time.sleep(seconds))
        memory = {
            "sessions": count,
            "bytes_per_session": (resident_bytes(process.pid) - empty) / count,
            "map_bytes": map_bytes(process.pid),
            "room": 2 * MANY if kind == "idle" else None,
            "measured": any(session.used is not None for session in us.list()),
        }
        yield {"kind": kind, **found, **memory}
        if kind != "idle":
            return
        large = LARGE
        found = meter.measure(lambda: send_flows(seconds, large))
        joined = sum(bool(session.flags & libslbn.DETECTED) for session in us.list())
        if not joined:
            raise WrongError("churn: no flow got a session")
        yield {"kind": "churn", **found, **memory, "detected": joined}


def send_flows(seconds: float, large: int = 0) -> int:
    """Start FLOWS each second, of which one of LARGE gets a session; return how many."""
    sent, start = 0, time.monotonic()
    full = bytes(OCTETS)
    while time.monotonic() - start < seconds:
        # Another source port for each round of destination ports.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for port in range(1, 65536):
                while sent >= int((time.monotonic() - start) * FLOWS):
                    time.sleep(0.001)
                if time.monotonic() - start >= seconds:
                    break
                if large and sent % large == 0:
                    for _ in range(PACKETS):
                        sender.sendto(full, ("10.0.0.2", port))
                else:
                    sender.sendto(b"x", ("10.0.0.2", port))
                sent += 1
    return sent


def forget_after(seconds: int) -> None:
    """Set for how long conntrack keeps a UDP connection; others than root cannot."""
    for name in ("udp_timeout", "udp_timeout_stream"):
        with contextlib.suppress(PermissionError):
            Path(f"/proc/sys/net/netfilter/nf_conntrack_{name}").write_text(str(seconds))


def open_connections(count: int) -> None:
    """A datagram each."""
    for first in range(0, count, 65535):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for port in range(1, min(65535, count - first) + 1):
                sender.sendto(b"x", ("10.0.0.2", port))


def mice(seconds: float, old: int, scratch: Path) -> dict[str, Any]:
    """New flows alone, 1 % of which get a session, beside old connections."""
    path = scratch / "mice"
    options = ["--devices", "near", *HOSTS, *keyed(scratch)]
    with agent(path, options, []) as process, connect(path) as us:
        # The agent has activated conntrack.
        forget_after(3600)
        open_connections(old)
        forget_after(5)
        # Until it has processed them.
        time.sleep(SETTLE)
        empty, cpu, start = resident_bytes(process.pid), cpu_seconds(process.pid), time.monotonic()
        sent = send_flows(seconds, LARGE)
        took, cpu = time.monotonic() - start, cpu_seconds(process.pid) - cpu
        memory = resident_bytes(process.pid) - empty
        status = us.status()
        joined = len(us.list())
        if not 0 < joined <= sent / LARGE + 1:
            raise WrongError(f"mice: {joined} of {sent} flows have a session")
        return {
            "kind": "mice",
            "flows_per_second": sent / took,
            "old": old,
            "table_entries": status.table_entries,
            "cpu_share": cpu / took,
            "bytes": memory,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, action="append", help="(repeatable)")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--old", type=int, default=OLD, help="old connections")
    arguments = parser.parse_args()
    # The second namespace is that of this process, and ends with it.
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as scratch,
        subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) as there,
    ):
        try:
            own = os.stat("/proc/self/ns/net").st_ino
            while os.stat(f"/proc/{there.pid}/ns/net").st_ino == own:
                time.sleep(0.01)
            inside = ["nsenter", f"--net=/proc/{there.pid}/ns/net"]
            run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
            run("ip", "link", "set", "far", "netns", str(there.pid))
            for prefix, name, address in (([], "near", "10.0.0.1"), (inside, "far", "10.0.0.2")):
                run(*prefix, "ip", "address", "add", f"{address}/24", "dev", name)
                run(*prefix, "ip", "link", "set", name, "up")
            found: list[dict[str, Any]] = []
            with agent(Path(scratch) / "destination", keyed(Path(scratch)), inside):
                for kind in DEMANDS:
                    for count in arguments.sessions or COUNTS[kind]:
                        print(f"bench: {count} sessions, {kind}", file=sys.stderr, flush=True)
                        found += points(kind, count, arguments.seconds, Path(scratch))
                print("bench: mice", file=sys.stderr, flush=True)
                alone = mice(arguments.seconds, arguments.old, Path(scratch))
        except (WrongError, OSError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        finally:
            there.terminate()
    json.dump({"seconds": arguments.seconds, "points": found, "mice": alone}, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
