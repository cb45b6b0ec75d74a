# SPDX-License-Identifier: GPL-2.0
"""What slbnsim costs: events of control packets, memory, exact rates, with 10^3 to 10^6 sessions.

The network is made here, the same for all: a ring of 100 transit routers with random links across,
nine stub routers at each.  As on the networks of SLBN's paper, each session has a host of its own
at either end.  So a network grows with its sessions, as do its files, its routes, and the memory
that is told.  Sessions join within half a second.

How long an event takes is what a run until later takes more than one until all have joined, in CPU
time, over the events that it has more.  So reading, routing and output do not count, and whatever
sessions there are have something pending.  Memory is a process's largest, over its sessions.
Instructions and cache misses are counted where `perf stat` can.

Beside that stands ns-3, where it is installed: its schedulers beside slbnsim's, each alone in the
hold model (hold.h), with as many events pending as there are sessions, and as far apart; and UDP
packets through routers, one for each flow, as control packets go (bench_ns3.cc).

This prints JSON; turns go round all points, so that what else the machine is doing hits all alike.
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

TOP = Path(__file__).resolve().parent.parent.parent
HERE = TOP / "tests/bench"
PROGRAM = TOP / "build/slbnsim/slbnsim"
BUILD = TOP / "build/bench"
WHEEL, NS3 = BUILD / "bench_wheel", BUILD / "bench_ns3"

TRANSIT, STUBS, CHORDS = 100, 9, 150
JOINED = 0.5  # seconds
#: By sessions, until when a run goes that is to have some millions of events more.
UNTIL = {1_000: 20.0, 10_000: 5.0, 100_000: 2.0, 1_000_000: 1.5}
COUNTERS = ("instructions:u", "cache-misses:u")

MODULES = ("core", "network", "internet", "point-to-point")
# With a million events the calendar was not through after nine minutes.
MOST_PENDING = {"CalendarScheduler": 100_000}
SCHEDULERS = ("MapScheduler", "HeapScheduler", "CalendarScheduler", "PriorityQueueScheduler")
HOLD_EVENTS = 1_000_000
#: By flows, how many seconds of them are simulated. More take ns-3 gigabytes and minutes to build.
FORWARD = {1_000: 1.0, 10_000: 0.1}


class BenchError(Exception):
    """It cannot be measured."""


class NoNs3Error(Exception):
    """There is no ns-3 to compare with."""


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
    """The topology and the sessions as files."""
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
    """Can perf count what COUNTERS tell of?"""
    try:
        done = subprocess.run(
            ["perf", "stat", "-x,", "-e", ",".join(COUNTERS), "true"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return False
    return not done.returncode and len(counted(done.stderr)) == len(COUNTERS)


def counted(said: str) -> dict[str, int]:
    """What perf stat -x, counted."""
    found = {}
    for line in said.splitlines():
        words = line.split(",")
        if len(words) > 2 and words[2] in COUNTERS and words[0].isdigit():
            found[words[2].partition(":")[0]] = int(words[0])
    return found


@dataclass
class Run:
    """A program, and what it took."""

    cpu: float  # seconds
    memory: int  # bytes
    said: str  # the end of it
    counted: dict[str, int]


def run(command: list[str], counters: bool = False) -> Run:
    perf = ["perf", "stat", "-x,", "-e", ",".join(COUNTERS)] if counters else []
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([*perf, *command], stdout=output, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        words = said.read()
        if process.returncode:
            raise BenchError(f"{shlex.join(command)}: {words}")
        output.seek(max(0, output.seek(0, os.SEEK_END) - 1000))
        return Run(
            cpu=usage.ru_utime + usage.ru_stime,
            memory=1024 * usage.ru_maxrss,
            said=output.read(),
            counted=counted(words),
        )


def events_of(done: Run) -> int:
    """How many slbnsim says that there were."""
    found = re.search(r"^(\d+) events", done.said, re.MULTILINE)
    if not found:
        raise BenchError(f"slbnsim does not tell of events: {done.said}")
    return int(found[1])


def measure_point(sessions: int, counters: bool, directory: Path) -> dict[str, Any]:
    """SESSIONS, whose network has been written."""
    files = ["--topology", str(directory / f"{sessions}.json")]
    files += ["--sessions", str(directory / f"{sessions}.csv")]
    command = [str(PROGRAM), "run", *files, "--until"]
    exact = run([str(PROGRAM), "maxmin", *files])
    joined = run([*command, f"{JOINED * 1000:.0f}ms"], counters)
    later = run([*command, f"{UNTIL[sessions] * 1000:.0f}ms"], counters)
    events = events_of(later) - events_of(joined)
    if events < 10 * sessions / 1000 or later.cpu <= joined.cpu:
        raise BenchError(f"{sessions} sessions: nothing happened")
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


# --- beside ns-3 --------------------------------------------------------------------------------


def build_wheel() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    include = [f"-I{TOP}", f"-I{TOP}/include", f"-I{TOP}/include/uapi"]
    source = HERE / "bench_wheel.c"
    run(["gcc", "-std=gnu11", "-O2", *include, "-o", str(WHEEL), str(source)])


def pkg_config(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["pkg-config", *arguments], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NoNs3Error(f"pkg-config is not there: {error}") from error
    if done.returncode:
        raise NoNs3Error(f"pkg-config {shlex.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def build_ns3() -> str:
    """Compile bench_ns3; the version of ns-3 with which it was."""
    # ns3-core in Debian 12; elsewhere it may have the version, and how it was built, in its name.
    found = re.search(r"^(\S*ns3\S*-)core(-\S+)?\s", pkg_config("--list-all"), re.MULTILINE)
    if not found:
        raise NoNs3Error("pkg-config does not know it")
    names = [f"{found[1]}{module}{found[2] or ''}" for module in MODULES]
    # It also names other libraries' files, which are not needed, and not always there.
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


def ns_per(what: str, done: Run) -> float:
    took = json.loads(done.said)
    return float(took["ns"] / took[what])


def measure_hold(pending: int, mean: int, ns3: bool) -> dict[str, float]:
    """PENDING events, which schedule the next MEAN ns later: by scheduler, ns an event."""
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
    """A packet for each of so many flows."""
    done = run([str(NS3), "forward", str(flows), str(FORWARD[flows])])
    took = json.loads(done.said)
    return {
        "forward_ns_per_hop": ns_per("hops", done),
        "forward_events_per_hop": took["events"] / took["hops"],
        "forward_bytes_per_flow": done.memory / flows,
    }


def measure_beside(sessions: int, point: dict[str, Any], ns3: bool) -> dict[str, float]:
    """What compares with that POINT."""
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
                runs.append(point | measure_beside(sessions, point, version is not None))
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
    add("--sessions", type=int, action="append", default=[], choices=UNTIL, help="only so many")
    add("--turns", type=int, default=3, metavar="N", help="how often each (3)")
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
