# SPDX-License-Identifier: GPL-2.0
"""Flent's own tests, run through a scenario's network.

    fairlab flent rrul_be --rate 20mbit --rtt 40ms --qdisc fq_codel --engine virtual

Flent runs on the dumbbell's sender, netperf's server on its receiver, and both directions between
the two routers have the scenario's bottleneck, since most of Flent's tests load both.  The test is
Flent's, with Flent's options behind `--`; what is ours is the network, the checks before and after,
and the conditions that go into the result:

    results/2026-11-20T114500-flent-rrul_be/
        result.json     the conditions, and what the queues have counted
        *.flent.gz      Flent's own data file
        flent.png       its plot that is the test's default; Flent draws the others from the file

Flent takes netperf for nearly all of its tests, which Debian 12 has in its section non-free:
without it this refuses to begin.  As everywhere in the lab, a run is refused that lost a packet
where there is no bottleneck, whose machine was the limit, or whose congestion control was not the
one asked for.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairlab.model import topology
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.scenario import Scenario
from fairlab.model.topology import Bottleneck, Network
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import dumbbell, flows, preflight
from fairlab.run.environment import environment
from fairlab.run.progress import Progress

MEASUREMENT, SAID = "measurement.json", "flent.txt"
SERVER_PORT = 12865  # netperf's own
# Seconds that a test may take beyond its length, by the guest's clock: it waits five before and
# after it loads the network, and collects.
LONGER = 120

# Program -> how to get it.
PROGRAMS = {
    "flent": "package flent",
    "netperf": "package netperf, in Debian 12 in the section non-free",
    "netserver": "package netperf, in Debian 12 in the section non-free",
}

# Flent parses what came out in processes of its own, and asks again and again whether they have
# ended.  In virtual time it would ask forever: time stands still meanwhile, so nobody else has a
# turn.  It can do without, and then does.
PARSE_HERE = """
import runpy, sys
del sys.argv[0]
from flent.aggregators import Aggregator
Aggregator.parse_results_parallel = Aggregator.parse_results_direct
runpy.run_path(sys.argv[0], run_name="__main__")
"""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}", re.ASCII)
# What would make Flent do something else than a test of ours, or put it where we do not look.
_OURS = re.compile(
    r"-(H|l|D|i|o|f|p|r|b|B|x|4|6)$|--(host|length|data-dir|input|output|format|plot|rcfile|batch.*"
    r"|gui|local-bind|control-host|netperf-control-port|list-.*)(=.*)?$"
)


@dataclass(frozen=True)
class Request:
    """A test of Flent's on a network of ours."""

    test: str
    options: tuple[str, ...]  # for Flent
    cc: str  # empty: whatever the kernel and the test have
    scenario: Scenario

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.test):
            raise UsageError(f"'{self.test}': not the name of a test of Flent's")
        for option in self.options:
            if _OURS.match(option):
                raise UsageError(f"{option}: fairlab itself says that to Flent")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"scenario": self.scenario.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Request":
        scenario = Scenario.from_json(data["scenario"])
        return cls(data["test"], tuple(data["options"]), data["cc"], scenario)


def require() -> None:
    """Flent, and what its tests are made of."""
    host.complete_path()
    missing = [f"{name} ({how})" for name, how in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        raise CannotRunError(f"missing for tests of Flent's: {'; '.join(missing)}")


def require_test(name: str) -> None:
    """Does Flent have such a test?"""
    known = re.findall(r"^\s+(\S+)\s+:", host.run("flent", "--list-tests"), re.M)
    if name not in known:
        raise UsageError(f"Flent has no test '{name}'; flent --list-tests shows them")


def both_ways(scenario: Scenario) -> Network:
    """The scenario's network, with its bottleneck in the other direction, too."""
    network = topology.build(scenario)
    middle, *others = network.links
    there = middle.a.queue
    assert isinstance(there, Bottleneck)
    back = replace(there, qdisc=scenario.qdisc("reverse") or there.qdisc)
    return replace(network, links=(replace(middle, b=replace(middle.b, queue=back)), *others))


# --- measuring ----------------------------------------------------------------------------------


@contextlib.contextmanager
def server(lab: Laboratory) -> Iterator[None]:
    """netperf's server on the receiver."""
    path = lab.network.paths[0]
    said = lab.scratch / "netserver.txt"
    command = ["netserver", "-D", "-4", "-L", path.address, "-p", str(SERVER_PORT)]
    with said.open("wb") as output:
        process = lab.start(path.receiver, command, output)
    flows.wait_server(lab, path.receiver, process, SERVER_PORT, said)
    yield
    if process.poll() is not None:
        raise LabError(f"netserver ended: {flows.said_error(said)}")


def set_congestion_control(lab: Laboratory, cc: str) -> None:
    """Of whatever netperf does not set it for, where the kernel lets a namespace choose it."""
    path = lab.network.paths[0]
    setting = "/proc/sys/net/ipv4/tcp_congestion_control"
    for node in (path.sender, path.receiver):
        lab.shell(node, f"(echo {cc} >{setting}) 2>/dev/null || :")


def flent_command(lab: Laboratory, request: Request) -> list[str]:
    flent = shutil.which("flent") or "flent"
    command = [sys.executable, "-c", PARSE_HERE, flent, request.test]
    command += ["-H", lab.network.paths[0].address, "-4"]
    command += ["-l", str(request.scenario.seconds), "-D", str(lab.scratch)]
    command += ["-r", "/dev/null"]
    if request.cc:
        command += ["--test-parameter", f"tcp_cong_control={request.cc}"]
    return [*command, *request.options]


def run_flent(lab: Laboratory, request: Request) -> Path:
    """Run the test; its data file."""
    said = lab.scratch / SAID
    with said.open("wb") as output:
        process = lab.start(lab.network.paths[0].sender, flent_command(lab, request), output)
    try:
        status = process.wait(request.scenario.seconds + LONGER)
    except subprocess.TimeoutExpired:
        raise LabError(f"flent does not end: {_last_words(said)}") from None
    found = list(lab.scratch.glob("*.flent.gz"))
    if status or len(found) != 1:
        raise LabError(f"flent: {_last_words(said)}")
    return found[0]


def _last_words(said: Path) -> str:
    lines = [line.strip() for line in said.read_text(errors="replace").splitlines()]
    return "; ".join([line for line in lines if line][-3:]) or "no reason given"


def lost_in_delays(lab: Laboratory) -> int:
    """Packets that were lost where nothing is to be lost."""
    total = 0
    for node in lab.network.routers:
        queues = json.loads(lab.shell(node, "tc -s -j qdisc show"))
        total += sum(int(q["drops"]) for q in queues if q["kind"] == "netem")
    return total


def measure(request: Request, directory: Path, progress: Progress) -> None:
    """Run a test of Flent's; its data file and the conditions are left in DIRECTORY."""
    scenario = request.scenario
    host.require_root()
    host.require_tools()
    require()
    preflight.look_up(scenario)
    progress.step("building the network")
    with Laboratory(both_ways(scenario), dumbbell.windows_memory(scenario), scenario.ecn) as lab:
        fitness = dumbbell.prepare(lab, scenario, progress)
        if request.cc:
            set_congestion_control(lab, request.cc)
        with server(lab):
            progress.step(f"running Flent's {request.test} for {scenario.seconds} s")
            before = host.Load.now()
            data = run_flent(lab, request)
            load = host.Load.now().since(before)
        ends = lab.network.links[0]
        queues = [lab.shown_queue(end) for end in (ends.a, ends.b)]
        document = environment() | {
            "load": vars(load) | {"idle_share": load.idle_share},
            "capacity": fitness.capacity,
            "round_trip_ms": fitness.round_trip_ms,
            "queues": dict(zip(("bottleneck", "reverse"), queues, strict=True)),
            "lost_in_delays": lost_in_delays(lab),
        }
        shutil.copy(data, directory)
        shutil.copy(lab.scratch / SAID, directory)
    (directory / MEASUREMENT).write_text(json.dumps(document))
