# SPDX-License-Identifier: GPL-2.0
"""The cost of slbnsim: time per event, memory, max-min rates, with 10^3 to 10^6 sessions.

The network is generated: a ring of 100 transit routers with random chords, nine stub routers at
each.  As on the networks of SLBN's paper, each session has two hosts of its own.  So the network
grows with the sessions, as do its files, its routes, and the memory.  Sessions join within half a
second.

The time per event is the difference in CPU time between a longer run and one that ends when all
sessions have joined, divided by the difference in events.  So reading, routing and output do not
count, and each session has a pending event.  Memory is the maximum of the process, divided by the
sessions.  Instructions and cache misses are counted if `perf stat` can.

If ns-3 is installed, it is measured as well: its schedulers and slbnsim's timer wheel in the hold
model (hold.h), with one pending event per session and slbnsim's intervals; and UDP packets through
routers, one for each flow, similar to control packets (bench_ns3.cc).

Prints JSON.  Turns alternate between all points, so that other load of the machine affects all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import launch

TOP = Path(__file__).resolve().parent.parent.parent
HERE = TOP / "tests/bench"
PROGRAM = TOP / "build/slbnsim/slbnsim"
BUILD = TOP / "build/bench"
WHEEL, NS3 = BUILD / "bench_wheel", BUILD / "bench_ns3"

TRANSIT, STUBS, CHORDS = 100, 9, 150
JOINED = 0.5  # seconds
#: By sessions, the end of the longer run (with some millions of events more), seconds.
UNTIL = {1_000: 20.0, 10_000: 5.0, 100_000: 2.0, 1_000_000: 1.5}
COUNTERS = ("instructions:u", "cache-misses:u")

MODULES = ("core", "network", "internet", "point-to-point")
# With a million events the calendar was not finished after nine minutes.
MOST_PENDING = {"CalendarScheduler": 100_000}
SCHEDULERS = ("MapScheduler", "HeapScheduler", "CalendarScheduler", "PriorityQueueScheduler")
HOLD_EVENTS = 1_000_000
#: By flows, simulated seconds.  ns-3 needs gigabytes and minutes to set up more flows.
FORWARD = {1_000: 1.0, 10_000: 0.1}


class BenchError(Exception):
    """A measurement failed."""


class NoNs3Error(Exception):
    """ns-3 is not available."""


# --- the network --------------------------------------------------------------------------------


def link(a: str, b: str, rate: float, delay: float) -> str:
    return f'{{"from": "{a}", "to": "{b}", "rate": {rate:g}, "delay": {delay:.9f}, "duplex": true}}'


def routers(dice: random.Random) -> Iterator[str]:
    """Links of routers: transit t0 ..., stub s0.0 ...."""
    pairs = [(n, (n + 1) % TRANSIT) for n in range(TRANSIT)]
    while len(pairs) < TRANSIT + CHORDS:
        a, b = dice.sample(range(TRANSIT), 2)
        if (a, b) not in pairs and (b, a) not in pairs:
            pairs.append((a, b))
    for a, b in pairs:
        yield link(f"t{a}", f"t{b}", 5e9, dice.uniform(0.001, 0.01))
    for n in range(TRANSIT):
        for stub in range(STUBS):
            yield link(f"t{n}", f"s{n}.{stub}", 1e9, dice.uniform(0.001, 0.01))


def write_network(directory: Path, sessions: int) -> tuple[Path, Path]:
    """Write the topology and the sessions; return the two files."""
    dice = random.Random(sessions)
    stubs = [f"s{n}.{stub}" for n in range(TRANSIT) for stub in range(STUBS)]
    topology, rows = directory / f"{sessions}.json", directory / f"{sessions}.csv"
    with topology.open("w") as file:
        names = [f"t{n}" for n in range(TRANSIT)] + stubs
        file.write(f'{{"nodes": {json.dumps(names)[:-1]}')
        for n in range(sessions):
            file.write(f',\n"a{n}", "b{n}"')
        file.write('],\n"links": [\n')
        file.write(",\n".join(routers(dice)))
        for n in range(sessions):
            for side in "ab":
                file.write(",\n" + link(f"{side}{n}", dice.choice(stubs), 1e8, 1e-6))
        file.write("]}\n")
    with rows.open("w") as file:
        file.write("id,source,destination,join,leave,demand,bytes\n")
        for n in range(sessions):
            file.write(f"{n},a{n},b{n},{dice.uniform(0, JOINED):.9f},,,\n")
    return topology, rows


# --- runs ---------------------------------------------------------------------------------------


def has_counters() -> bool:
    """Can perf count COUNTERS?"""
    try:
        done = launch.run(["perf", "stat", "-x,", "-e", ",".join(COUNTERS), "true"])
    except OSError:
        return False
    return not done.returncode and len(counted(done.stderr)) == len(COUNTERS)


def counted(output: str) -> dict[str, int]:
    """The counters in the output of perf stat -x,."""
    found = {}
    for line in output.splitlines():
        words = line.split(",")
        if len(words) > 2 and words[2] in COUNTERS and words[0].isdigit():
            found[words[2].partition(":")[0]] = int(words[0])
    return found


@dataclass
class Run:
    """Resources and output of a program."""

    cpu: float  # seconds
    memory: int  # bytes
    output: str  # the last 1000 characters
    counted: dict[str, int]


def run(command: list[str], counters: bool = False) -> Run:
    perf = ["perf", "stat", "-x,", "-e", ",".join(COUNTERS)] if counters else []
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([*perf, *command], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read()
        if process.returncode:
            raise BenchError(f"{shlex.join(command)}: {text}")
        output.seek(max(0, output.seek(0, os.SEEK_END) - 1000))
        return Run(
            cpu=usage.ru_utime + usage.ru_stime,
            memory=1024 * usage.ru_maxrss,
            output=output.read(),
            counted=counted(text),
        )


def events_of(done: Run) -> int:
    """The number of events that slbnsim reports."""
    found = re.search(r"^(\d+) events", done.output, re.MULTILINE)
    if not found:
        raise BenchError(f"slbnsim reported no events: {done.output}")
    return int(found[1])


def measure_point(sessions: int, counters: bool, directory: Path) -> dict[str, Any]:
    """Measure slbnsim with SESSIONS, whose network has been written."""
    files = ["--topology", str(directory / f"{sessions}.json")]
    files += ["--sessions", str(directory / f"{sessions}.csv")]
    command = [str(PROGRAM), "run", *files, "--until"]
    exact = run([str(PROGRAM), "maxmin", *files])
    joined = run([*command, f"{JOINED * 1000:.0f}ms"], counters)
    later = run([*command, f"{UNTIL[sessions] * 1000:.0f}ms"], counters)
    events = events_of(later) - events_of(joined)
    if events < 10 * sessions / 1000 or later.cpu <= joined.cpu:
        raise BenchError(f"{sessions} sessions: no events after all have joined")
    return {
        "events": events,
        "ns_per_event": 1e9 * (later.cpu - joined.cpu) / events,
        "bytes_per_session": later.memory / sessions,
        "maxmin_seconds": exact.cpu,
        # Each session has one event pending.
        "ns_between_events": round(1e9 * sessions * (UNTIL[sessions] - JOINED) / events),
        **{
            f"{name}_per_event": (later.counted[name] - joined.counted[name]) / events
            for name in ("instructions", "cache-misses")
            if name in later.counted and name in joined.counted
        },
    }


# --- comparison with ns-3 -----------------------------------------------------------------------


def build_wheel() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    include = [f"-I{TOP}", f"-I{TOP}/include", f"-I{TOP}/include/uapi"]
    source = HERE / "bench_wheel.c"
    run(["gcc", "-std=gnu11", "-O2", *include, "-o", str(WHEEL), str(source)])


def pkg_config(*arguments: str) -> str:
    try:
        done = launch.run(["pkg-config", *arguments])
    except OSError as error:
        raise NoNs3Error(f"pkg-config is missing: {error}") from error
    if done.returncode:
        raise NoNs3Error(f"pkg-config {shlex.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def build_ns3() -> str:
    """Compile bench_ns3; return the version of ns-3."""
    # ns3-core in Debian 12; elsewhere the name may contain the version and the build profile.
    found = re.search(r"^(\S*ns3\S*-)core(-\S+)?\s", pkg_config("--list-all"), re.MULTILINE)
    if not found:
        raise NoNs3Error("pkg-config does not know it")
    names = [f"{found[1]}{module}{found[2] or ''}" for module in MODULES]
    # It also lists files of other libraries, which are not needed and may be missing.
    flags = [
        flag
        for flag in shlex.split(pkg_config("--cflags", "--libs", *names))
        if flag.startswith(("-I", "-L", "-l", "-D", "-std="))
    ]
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        run(["g++", "-O2", "-o", str(NS3), str(HERE / "bench_ns3.cc"), *flags])
    except (BenchError, OSError) as error:
        raise NoNs3Error(f"bench_ns3.cc cannot be compiled with it: {error}") from error
    return pkg_config("--modversion", names[0]).strip()


def ns_per(unit: str, done: Run) -> float:
    took = json.loads(done.output)
    return float(took["ns"] / took[unit])


def measure_hold(pending: int, mean: int, ns3: bool) -> dict[str, float]:
    """The hold model with PENDING events, MEAN ns apart: ns per event, by scheduler."""
    model = [str(pending), str(mean), str(HOLD_EVENTS)]
    commands = {"wheel": [str(WHEEL), *model]}
    if ns3:
        commands |= {
            name: [str(NS3), "hold", name, *model]
            for name in SCHEDULERS
            if pending <= MOST_PENDING.get(name, pending)
        }
        commands["Simulator"] = [str(NS3), "simulator", *model]
    return {f"hold_{name}": ns_per("events", run(command)) for name, command in commands.items()}


def measure_forward(flows: int) -> dict[str, float]:
    """Measure forwarding in ns-3, with one packet for each flow."""
    done = run([str(NS3), "forward", str(flows), str(FORWARD[flows])])
    took = json.loads(done.output)
    return {
        "forward_ns_per_hop": ns_per("hops", done),
        "forward_events_per_hop": took["events"] / took["hops"],
        "forward_bytes_per_flow": done.memory / flows,
    }


def measure_comparison(sessions: int, point: dict[str, Any], ns3: bool) -> dict[str, float]:
    """Measure the schedulers, and ns-3, under the conditions of POINT."""
    found = measure_hold(sessions, point["ns_between_events"], ns3)
    return found | measure_forward(sessions) if ns3 and sessions in FORWARD else found


# --- all ----------------------------------------------------------------------------------------


def measure_all(wanted: list[int], turns: int) -> dict[str, Any]:
    counters = has_counters()
    build_wheel()
    version, why = None, ""
    try:
        version = build_ns3()
    except NoNs3Error as error:
        why = str(error)
        print(f"bench: without ns-3: {why}", file=sys.stderr)
    found: list[list[dict[str, Any]]] = [[] for _ in wanted]
    with tempfile.TemporaryDirectory() as name:
        for sessions in wanted:
            write_network(Path(name), sessions)
        for turn in range(turns):
            for sessions, runs in zip(wanted, found, strict=True):
                print(
                    f"bench: turn {turn + 1} of {turns}: {sessions} sessions",
                    file=sys.stderr,
                    flush=True,
                )
                point = measure_point(sessions, counters, Path(name))
                runs.append(point | measure_comparison(sessions, point, version is not None))
    points = [{"sessions": n, "runs": runs} for n, runs in zip(wanted, found, strict=True)]
    return {
        "turns": turns,
        "counters": counters,
        "ns3": {"version": version, "why": why},
        "points": points,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add(
        "--sessions",
        type=int,
        action="append",
        default=[],
        choices=UNTIL,
        help="(repeatable)",
    )
    add("--turns", type=int, default=3, metavar="N", help="repetitions (3)")
    arguments = parser.parse_args()
    try:
        json.dump(measure_all(arguments.sessions or list(UNTIL), arguments.turns), sys.stdout)
        print()
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
