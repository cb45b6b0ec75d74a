# SPDX-License-Identifier: GPL-2.0
"""The cost of the lab's engines: one TCP flow through two routers.

The network is the lab's dumbbell: sender - router - bottleneck - router - receiver, packets of 1500
bytes, no offloads, half of the round-trip time in each direction, a drop-tail buffer of one
bandwidth-delay product.  The flow is sent by fairflow with Linux's default congestion control,
which keeps such a bottleneck busy.  There are no traces and no samples.

A point is an engine, a kernel and a rate; each is measured in separate boots.  The guest cannot
measure its own cost, since its clock may be virtual.  It prints one line of JSON per event, and the
host reads its own clock and the CPU time of all processes of the guest:

    {"event": "sent", ...}   the flow's first packets have passed the network
    {"event": "begin", ...}  the bottleneck has been busy for a while: the measurement starts
    {"event": "end", ...}    the measurement ends

with the packets and seconds in between by the guest's kernel and clock.  Packets are data packets
at the receiver, so their cost includes acknowledgements.  A run fails if the bottleneck was not
busy, or if packets were lost elsewhere.

Without --inside this boots the guests and prints JSON.  Turns alternate between all points, so that
other load of the machine affects all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlab.model import qdisc, units
from fairlab.model.errors import LabError
from fairlab.model.scenario import FAIRFLOW, Flow, Scenario
from fairlab.net import host, network
from fairlab.run import dumbbell

TOP = Path(__file__).resolve().parent.parent.parent

CC = "cubic"
RTT = "20ms"
POLL = 0.001  # seconds between checks for the first packet
MIN_UTILIZATION = 0.97  # of the bottleneck


# --- in the guest -------------------------------------------------------------------------------


def report(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def scenario(rate: int, seconds: int) -> Scenario:
    rtt = units.parse_time(RTT)
    return Scenario(
        topology="dumbbell",
        flows=(Flow(CC),),
        rate=rate,
        rtt=rtt,
        buffer=qdisc.parse_buffer("1bdp", rate, rtt),
        seconds=seconds,
        warmup_seconds=0.0,
        sender=FAIRFLOW,
    )


def run(what: Scenario, warmup: float, seconds: float) -> None:
    """Measure SECONDS after a WARMUP."""
    # A virtual clock starts at 0, which TCP takes for "never": the kernel warns.
    time.sleep(0.01)
    with dumbbell.laboratory(what) as lab:
        lab.add_queues()
        path = lab.network.paths[0]
        arrival = (lab.interface_index(path.last), network.NETEM)
        with lab.queue_reader(path.last.node) as reader:

            def arrived() -> tuple[float, int, int, int]:
                state = reader.read()[arrival]
                return time.monotonic(), state.sent_packets, state.sent_bytes, state.drops

            traffic = dumbbell.Traffic(lab, what)
            traffic.start_servers()
            before = host.Load.now()
            traffic.start_client(0, round(what.seconds))
            while arrived()[1] < dumbbell.STARTED_PACKETS:
                traffic.check_alive()
                time.sleep(POLL)
            report("sent", release=platform.release())
            time.sleep(warmup)
            start = arrived()
            report("begin")
            time.sleep(seconds)
            end = arrived()
            took, packets, size, drops = (b - a for a, b in zip(start, end, strict=True))
            report("end", seconds=took, packets=packets)
            traffic.check_alive()
            if drops or host.Load.now().since(before).backlog_drops:
                raise LabError("packets were lost outside of the bottleneck")
            use = 8 * size / took / what.rate
            if use < MIN_UTILIZATION:
                raise LabError(f"the bottleneck was busy only {100 * use:.1f} % of the time")


# --- on the host --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """An engine, kernel and rate to measure; seconds by the guest's clock."""

    engine: str
    kernel: str
    rate: str
    seconds: float

    @property
    def command(self) -> list[str]:
        vm = [str(TOP / "scripts/vm"), "--engine", self.engine, "--kernel", self.kernel]
        # As fairlab runs it by default without KVM.
        vm += ["--steady", "--append", "preempt=full"] if self.engine == "vm" else []
        vm += [
            "--timeout",
            str(PATIENCE),
            "--env",
            "PYTHONDONTWRITEBYTECODE=1",
            "--env",
            "PYTHONPATH",
        ]
        if sys.version_info < (3, 12):
            vm += ["--env", "SETUPTOOLS_USE_DISTUTILS=stdlib"]  # see fairlab's engine.py
        inside = ["/usr/bin/python3", "-m", "tests.bench.measure_virtual", "--inside", self.rate]
        return [*vm, "--", *inside, "--seconds", str(self.seconds)]


# Seconds to measure in the virtual engine: about a million packets at high rates, and about a
# second of real time at the lowest.
SECONDS = {"100mbit": 20.0, "1gbit": 10.0, "2.5gbit": 5.0, "10gbit": 2.0}
VM_RATES = {"100mbit": 10.0}
PATIENCE = 900
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """CPU time of process ROOT, its descendants, and the children that they have waited for."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children.setdefault(int(words[1]), []).append(int(entry.name))
        used[int(entry.name)] = sum(map(int, words[11:15]))
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0)
        todo += children.get(pid, [])
    return total / TICKS


def measure_point(point: Point) -> dict[str, Any]:
    """Boot a guest and measure its cost."""
    start = time.monotonic()
    seen: dict[str, dict[str, Any]] = {}
    with subprocess.Popen(point.command, cwd=TOP, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now, used = time.monotonic(), cpu_seconds(process.pid)
            event = json.loads(line)
            seen[event["event"]] = event | {"wall": now - start, "cpu": used}
    if process.returncode or "end" not in seen:
        raise LabError(f"{point.engine} {point.kernel}, {point.rate}: not measured")
    begin, end = seen["begin"], seen["end"]
    cpu, wall = end["cpu"] - begin["cpu"], end["wall"] - begin["wall"]
    return {
        "release": seen["sent"]["release"],
        "packets": end["packets"],
        "seconds": end["seconds"],
        "us_per_packet": 1e6 * cpu / end["packets"],
        "cpu_per_second": cpu / end["seconds"],
        "wall_per_second": wall / end["seconds"],
        "start": seen["sent"]["wall"],
        "start_cpu": seen["sent"]["cpu"],
    }


def measure_all(points: list[Point], turns: int) -> dict[str, Any]:
    found: list[list[dict[str, Any]]] = [[] for _ in points]
    for turn in range(turns):
        for point, runs in zip(points, found, strict=True):
            what = f"{point.engine} {point.kernel}, {point.rate}"
            print(f"bench: turn {turn + 1} of {turns}: {what}", file=sys.stderr, flush=True)
            runs.append(measure_point(point))
    measured = [{**asdict(p), "runs": runs} for p, runs in zip(points, found, strict=True)]
    return {"turns": turns, "rtt": RTT, "cc": CC, "points": measured}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--inside", metavar="RATE", help="measure in this guest; otherwise boot guests that do")
    add("--seconds", type=float, metavar="SECONDS", help="duration (default by rate)")
    add(
        "--warmup",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="wait before that (2)",
    )
    add("--kernel", action="append", default=[], metavar="SERIES", help="(repeatable)")
    add("--rate", action="append", default=[], choices=SECONDS, help="only this rate (repeatable)")
    add("--turns", type=int, default=3, metavar="N", help="boots per point (3)")
    add("--no-vm", action="store_true", help="only the engine virtual")
    arguments = parser.parse_args()
    try:
        if arguments.inside:
            host.complete_path()
            rate = units.parse_rate(arguments.inside)
            long_enough = round(arguments.warmup + arguments.seconds) + 60
            run(scenario(rate, long_enough), arguments.warmup, arguments.seconds)
            return 0
        kernels = arguments.kernel or ["6.1"]
        host.run("make", "-s", "-C", str(TOP), "traffic")
        points = [
            Point("virtual", kernel, rate, arguments.seconds or seconds)
            for kernel in kernels
            for rate, seconds in SECONDS.items()
            if rate in (arguments.rate or SECONDS)
        ]
        points += [
            Point("vm", kernels[0], rate, arguments.seconds or seconds)
            for rate, seconds in VM_RATES.items()
            if not arguments.no_vm and rate in (arguments.rate or SECONDS)
        ]
        json.dump(measure_all(points, arguments.turns), sys.stdout)
        print()
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
