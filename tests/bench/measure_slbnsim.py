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

This prints JSON; turns go round all points, so that what else the machine is doing hits all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent.parent
PROGRAM = TOP / "build/slbnsim/slbnsim"

TRANSIT, STUBS, CHORDS = 100, 9, 150
JOINED = 0.5  # seconds
#: By sessions, until when a run goes that is to have some millions of events more.
UNTIL = {1_000: 20.0, 10_000: 5.0, 100_000: 2.0, 1_000_000: 1.5}
COUNTERS = ("instructions:u", "cache-misses:u")


class BenchError(Exception):
    """It cannot be measured."""


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


def run(arguments: list[str], counters: bool) -> dict[str, Any]:
    """One run of the program, and what it took."""
    perf = ["perf", "stat", "-x,", "-e", ",".join(COUNTERS)] if counters else []
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as said:
        command = [*perf, str(PROGRAM), *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        words = said.read()
        if process.returncode:
            raise BenchError(f"slbnsim {' '.join(arguments)}: {words}")
        output.seek(max(0, output.seek(0, os.SEEK_END) - 1000))
        events = re.search(r"^(\d+) events", output.read(), re.MULTILINE)
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": 1024 * usage.ru_maxrss,
        "events": int(events[1]) if events else 0,
        **counted(words),
    }


def measure_point(sessions: int, counters: bool, directory: Path) -> dict[str, Any]:
    """SESSIONS, whose network has been written."""
    files = ["--topology", str(directory / f"{sessions}.json")]
    files += ["--sessions", str(directory / f"{sessions}.csv")]
    exact = run(["maxmin", *files], counters)
    joined = run(["run", *files, "--until", f"{JOINED * 1000:.0f}ms"], counters)
    later = run(["run", *files, "--until", f"{UNTIL[sessions] * 1000:.0f}ms"], counters)
    events = later["events"] - joined["events"]
    if events < 10 * sessions / 1000 or later["cpu"] <= joined["cpu"]:
        raise BenchError(f"{sessions} sessions: nothing happened")
    return {
        "events": events,
        "ns_per_event": 1e9 * (later["cpu"] - joined["cpu"]) / events,
        "bytes_per_session": later["memory"] / sessions,
        "maxmin_seconds": exact["cpu"],
        **{
            f"{name}_per_event": (later[name] - joined[name]) / events
            for name in ("instructions", "cache-misses")
            if name in later and name in joined
        },
    }


def measure_all(wanted: list[int], turns: int) -> dict[str, Any]:
    counters = has_counters()
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
                runs.append(measure_point(sessions, counters, Path(name)))
    points = [{"sessions": n, "runs": runs} for n, runs in zip(wanted, found, strict=True)]
    return {"turns": turns, "counters": counters, "points": points}


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
