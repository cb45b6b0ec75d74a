# SPDX-License-Identifier: GPL-2.0
"""Tests of Flent's on a scenario's network.

    fairlab flent rrul_be --rate 20mbit --rtt 40ms --qdisc fq_codel --engine virtual

Flent runs on the dumbbell's sender.  Its flows are the lab's own (netperf.py), which Flent starts
as netperf.  Both directions between the routers have the scenario's bottleneck, since most of
Flent's tests load both.  Flent's own options follow `--`.  The lab provides the network, checks
before and after the run, and stores:

    results/2026-11-20T114500-flent-rrul_be/
        result.json     the conditions, and the counters of the queues
        *.flent.gz      Flent's own data file
        flent.png       the test's default plot; Flent draws others from the data file

As everywhere in the lab, a run is refused that lost a packet outside the bottleneck, was limited by
the machine, or had another congestion control than the requested one.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import fairlab
from fairlab.model import topology
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.network import Bottleneck, Network
from fairlab.model.plain import Plain
from fairlab.model.scenario import Scenario
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import dumbbell, evidence, flows, preflight
from fairlab.run.programs import wait_server
from fairlab.run.progress import Progress

MEASUREMENT, SAID = "measurement.json", "flent.txt"
SERVER_PORT = 12865  # netperf's default
# Seconds that a test may take beyond its length, by the guest's clock: it waits five before and
# after the load, and collects data.
LONGER = 120

# Flent parses results in child processes, and polls for their end.  In virtual time it would poll
# forever, since time stands still while it does, so it must parse in its own process.  Debian's
# package is not in Python's path, but beside the program.
PARSE_HERE = """
import os, runpy, sys
del sys.argv[0]
sys.path.insert(0, os.path.dirname(os.path.realpath(sys.argv[0])))
from flent.aggregators import Aggregator
Aggregator.parse_results_parallel = Aggregator.parse_results_direct
runpy.run_path(sys.argv[0], run_name="__main__")
"""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}", re.ASCII)
# Options that fairlab sets itself, or that do not run a test.
_OURS = re.compile(
    r"-(H|l|D|i|o|f|p|r|b|B|x|4|6)$|--(host|length|data-dir|input|output|format|plot|rcfile|batch.*"
    r"|gui|local-bind|control-host|netperf-control-port|list-.*)(=.*)?$"
)


@dataclass(frozen=True)
class Request(Plain):
    """A test of Flent's and the scenario whose network it runs on."""

    test: str
    options: tuple[str, ...]  # for Flent
    cc: str  # empty: the default of the kernel and the test
    scenario: Scenario

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.test):
            raise UsageError(f"'{self.test}': not the name of a test of Flent's")
        for option in self.options:
            if _OURS.match(option):
                raise UsageError(f"{option}: fairlab sets this option of Flent's itself")


def require() -> None:
    """Raise CannotRunError without Flent."""
    host.complete_path()
    if not shutil.which("flent"):
        raise CannotRunError("missing for tests of Flent's: flent (package flent)")


def require_test(name: str) -> None:
    """Raise UsageError if Flent has no such test."""
    known = re.findall(r"^\s+(\S+)\s+:", host.run("flent", "--list-tests"), re.M)
    if name not in known:
        raise UsageError(f"Flent has no test '{name}'; flent --list-tests shows them")


def both_ways(scenario: Scenario) -> Network:
    """The scenario's network, with its bottleneck in both directions."""
    network = topology.build(scenario)
    middle, *others = network.links
    there = middle.a.queue
    assert isinstance(there, Bottleneck)
    back = replace(there, qdisc=scenario.qdisc("reverse") or there.qdisc)
    return replace(network, links=(replace(middle, b=replace(middle.b, queue=back)), *others))


# --- measuring ----------------------------------------------------------------------------------


def netperf(lab: Laboratory) -> Path:
    """Write the program that Flent starts as netperf."""
    path = lab.scratch / "bin" / "netperf"
    path.parent.mkdir()
    tree, python = map(shlex.quote, (str(Path(fairlab.__file__).parent.parent), sys.executable))
    path.write_text(f'#!/bin/sh\nPYTHONPATH={tree} exec {python} -m fairlab.run.netperf "$@"\n')
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def server(lab: Laboratory, program: Path) -> Iterator[None]:
    """The flows' server on the receiver."""
    path = lab.network.paths[0]
    said = lab.scratch / "netserver.txt"
    command = [str(program), "--serve", path.address, str(SERVER_PORT)]
    with said.open("wb") as output:
        process = lab.start(path.receiver, command, output)
    wait_server(lab, path.receiver, process, SERVER_PORT, said)
    yield
    if process.poll() is not None:
        raise LabError(f"the flows' server ended: {flows.said_error(said)}")


def run_flent(lab: Laboratory, request: Request, program: Path) -> Path:
    """Run the test, and return its data file."""
    said, path = lab.scratch / SAID, lab.network.paths[0]
    command = ["env", f"PATH={program.parent}:{os.environ['PATH']}"]
    command += [sys.executable, "-c", PARSE_HERE, shutil.which("flent") or "flent", request.test]
    command += ["-H", path.address, "-4"]
    command += ["-l", str(request.scenario.seconds), "-D", str(lab.scratch), "-r", "/dev/null"]
    if request.cc:
        command += ["--test-parameter", f"tcp_cong_control={request.cc}"]
    with said.open("wb") as output:
        process = lab.start(path.sender, [*command, *request.options], output)
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
    """The number of packets that the netem delays have dropped."""
    total = 0
    for node in lab.network.routers:
        queues = json.loads(lab.shell(node, "tc -s -j qdisc show"))
        total += sum(int(q["drops"]) for q in queues if q["kind"] == "netem")
    return total


def measure(request: Request, directory: Path, progress: Progress) -> None:
    """Run a test of Flent's; its data file and the conditions are left in DIRECTORY."""
    scenario = request.scenario
    host.require_tools()
    require()
    preflight.look_up(scenario)
    progress.step("building the network")
    memory = dumbbell.windows_memory(scenario)
    with (
        closing(evidence.KernelLog()) as log,
        Laboratory(both_ways(scenario), memory, scenario.ecn) as lab,
    ):
        measured = dumbbell.prepare(lab, scenario, progress)
        if request.cc:
            # The default of both hosts, for connections for which the test sets none.  The kernel
            # may refuse it (TCP_CONG_NON_RESTRICTED).
            setting = "/proc/sys/net/ipv4/tcp_congestion_control"
            for node in (lab.network.paths[0].sender, lab.network.paths[0].receiver):
                lab.shell(node, f"(echo {request.cc} >{setting}) 2>/dev/null || :")
        program = netperf(lab)
        with server(lab, program):
            progress.step(f"running Flent's {request.test} for {scenario.seconds} s")
            before = host.Load.now()
            data = run_flent(lab, request, program)
            load = host.Load.now().since(before)
        ends = lab.network.links[0]
        queues = [lab.shown_queue(end) for end in (ends.a, ends.b)]
        document = evidence.gather(lab, log, load) | {
            **measured,
            "queues": dict(zip(("bottleneck", "reverse"), queues, strict=True)),
            "lost_in_delays": lost_in_delays(lab),
        }
        shutil.copy(data, directory)
        shutil.copy(lab.scratch / SAID, directory)
    (directory / MEASUREMENT).write_text(json.dumps(document))
