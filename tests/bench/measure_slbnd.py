# SPDX-License-Identifier: GPL-2.0
"""The cost of slbnd: packets, CPU time and memory of one agent, by number of sessions.

Runs in a new network namespace (as its root) on the host's kernel, without any module.  The agent
has sessions to a destination in a second namespace, over a veth, where another agent answers.
There are no links on the path, so each session is assigned its demand.

A point is a number of sessions and their demand:

    paced   1 Mbit/s each: control packets take 1 % of that
    full    no limit, and the shortest pause: as many packets as one CPU can handle
    idle    100,000 sessions of 10 kbit/s with an epoch of 10 s, the longest pauses

One more point is mice: new flows of one datagram each, from this router to 65,535 ports, which the
agent detects by conntrack; each is looked up once or twice, and none gets a session.

CPU time is the agent's in /proc; packets are those that it sent and their answers.  Each point
starts when all sessions have got their first answer.

Prints JSON.  The run fails if an agent ends or a session is not assigned its demand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libslbn

TOP = Path(__file__).resolve().parent.parent.parent
SLBND = TOP / "build/slbnd/slbnd"

DEMANDS = {"paced": 10**6, "full": libslbn.UNLIMITED, "idle": 10**4}
OPTIONS = {"paced": [], "full": ["--pause", "1us"], "idle": ["--epoch", "10s"]}
COUNTS = {"paced": [100, 1000, 10000], "full": [100, 1000, 10000], "idle": [100000]}
MICE = 10000  # new flows per second
PATIENCE = 60  # seconds until all sessions have got an answer
TICKS = os.sysconf("SC_CLK_TCK")


class WrongError(Exception):
    """A measurement is not as intended."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


def packets(connection: libslbn.Connection) -> int:
    """Packets sent and answered."""
    sessions = connection.list()
    return sum(2 * session.cycles + session.retries for session in sessions)


def point(kind: str, count: int, seconds: float, scratch: Path) -> dict[str, Any]:
    path = scratch / f"{kind}-{count}"
    with agent(path, OPTIONS[kind], []) as process, connect(path) as us:
        empty = resident_bytes(process.pid)
        demand = DEMANDS[kind]
        for _ in range(count):
            us.join("10.0.0.2", demand)
        end = time.monotonic() + PATIENCE
        while any(session.rate != demand for session in us.list()):
            if time.monotonic() > end or process.poll() is not None:
                raise WrongError(f"{count} sessions, {kind}: some were not assigned their demand")
            time.sleep(0.1)
        first, cpu, start = packets(us), cpu_seconds(process.pid), time.monotonic()
        time.sleep(seconds)
        last, took = packets(us), time.monotonic() - start
        cpu = cpu_seconds(process.pid) - cpu
        return {
            "kind": kind,
            "sessions": count,
            "packets_per_second": (last - first) / took,
            "cpu_share": cpu / took,
            "packets_per_cpu_second": (last - first) / cpu if cpu else None,
            "bytes_per_session": (resident_bytes(process.pid) - empty) / count,
        }


def send_mice(seconds: float) -> int:
    """Start MICE flows each second; return how many were started."""
    sent, start = 0, time.monotonic()
    ports = range(1, 65536)
    while (elapsed := time.monotonic() - start) < seconds:
        due = int(elapsed * MICE)
        # Another source port for each round of destination ports.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for port in ports:
                while sent >= due:
                    time.sleep(0.001)
                    due = int((time.monotonic() - start) * MICE)
                if time.monotonic() - start >= seconds:
                    break
                sender.sendto(b"x", ("10.0.0.2", port))
                sent += 1
    return sent


def mice(seconds: float, scratch: Path) -> dict[str, Any]:
    path = scratch / "mice"
    with agent(path, ["--hosts", "10.0.0.1/32"], []) as process, connect(path) as us:
        empty, cpu = resident_bytes(process.pid), cpu_seconds(process.pid)
        sent = send_mice(seconds)
        cpu = cpu_seconds(process.pid) - cpu
        memory = resident_bytes(process.pid) - empty
        if us.list():
            raise WrongError("mice: a flow of one datagram got a session")
        return {
            "kind": "mice",
            "flows_per_second": sent / seconds,
            "cpu_share": cpu / seconds,
            "bytes_per_flow": memory / sent,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, action="append", help="(repeatable)")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    # The second namespace is that of this process, and ends with it.
    with (
        tempfile.TemporaryDirectory() as scratch,
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
            points = []
            with agent(Path(scratch) / "destination", [], inside):
                for kind in DEMANDS:
                    for count in arguments.sessions or COUNTS[kind]:
                        print(f"bench: {count} sessions, {kind}", file=sys.stderr, flush=True)
                        points.append(point(kind, count, arguments.seconds, Path(scratch)))
                print("bench: mice", file=sys.stderr, flush=True)
                found = mice(arguments.seconds, Path(scratch))
        except (WrongError, OSError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        finally:
            there.terminate()
    json.dump({"seconds": arguments.seconds, "points": points, "mice": found}, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
