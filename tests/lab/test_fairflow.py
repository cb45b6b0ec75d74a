# SPDX-License-Identifier: GPL-2.0
"""fairflow: bad arguments; its behaviour in virtual time (flow_guest.py); and repeatable numbers
of fairlab's runs in virtual time.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import launch
from tests.lab.labtools import TOP, assert_refused, run_fairlab

SOURCES = [
    str(TOP / "userspace/traffic" / name)
    for name in ("fairflow.c", "flow_send.c", "flow_samples.c", "common.c")
]
PROGRAM = TOP / "build/tests/fairflow"
GOOD = "to=127.0.0.1,port=9,stop=1"


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    flags = "-std=gnu11 -O2 -g -Wall -Wextra -Werror -fsanitize=address,undefined"
    flags += ' -fno-sanitize-recover -DVERSION="test"'
    command = ["gcc", *flags.split(), "-o", str(PROGRAM), *SOURCES, "-lm", "-lpthread"]
    subprocess.run(command, check=True)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return launch.run([PROGRAM, *arguments], timeout=60)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no flows"),
        ("--fast", "unknown option --fast"),
        ("--every", "--every needs a value"),
        (f"--every 0 {GOOD}", "--every 0: must be 0.0001 to 3600"),
        (f"--seed -1 {GOOD}", "--seed '-1'"),
        (f"--begin yesterday {GOOD}", "--begin 'yesterday': not a number"),
        (f"--output /nonexistent/file {GOOD}", "/nonexistent/file: No such file"),
        ("to=127.0.0.1", "flow 1: needs to=, port= and stop="),
        ("port=9,stop=1", "flow 1: needs to=, port= and stop="),
        (f"{GOOD} {GOOD},fast=1", "'fast': no such option"),
        (f"{GOOD} {GOOD},fast", "flow 2: 'fast' is not NAME=VALUE"),
        (f"{GOOD},", "flow 1: '' is not NAME=VALUE"),
        ("to=localhost,port=9,stop=1", "to 'localhost': not an IPv4 address"),
        (f"{GOOD},bind=any", "bind 'any': not an IPv4 address"),
        (f"{GOOD},port=0", "port 0: must be 1 to 65535"),
        (f"{GOOD},port=1.5", "not a whole number"),
        (f"{GOOD},from=65536", "from 65536: must be 1 to 65535"),
        (f"{GOOD},start=1", "flow 1: stops before it starts"),
        (f"{GOOD},start=-1", "start '-1': not a number"),
        (f"{GOOD},bytes=0", "bytes 0: must be 1 to"),
        (f"{GOOD},bytes=1e9", "not a number"),
        (f"{GOOD},open=0.5,bytes=9", "flow 1: open= needs first="),
        (f"{GOOD},first=9,bytes=9", "flow 1: open= needs first=, less than bytes="),
        (f"{GOOD},first=8,bytes=9,open=0.5", "and a later start="),
        (f"{GOOD},first=8,bytes=9,udp=1000", "flow 1: "),
        (f"{GOOD},cc=", "cc '': no such name"),
        (f"{GOOD},cc=a-name-that-is-long", "no such name"),
        (f"{GOOD},size=100", "size= is for UDP"),
        (f"{GOOD},udp=1000,bytes=5", "UDP has no bytes=, cc= or rate="),
        (f"{GOOD},udp=1000,rate=500", "UDP has no bytes=, cc= or rate="),
        (f"{GOOD},udp=1000,size=7", "size 7: must be 8 to 65507"),
        (f"{GOOD},on=1", "on= and off= belong together"),
        (f"{GOOD},on=exp:0,off=1", "on 0: must be 1e-06 to"),
        (f"{GOOD},on=pareto:1:1,off=1", "on 1: must be 1.01 to 100"),
        (f"{GOOD},on=pareto:2,off=1", "on 'pareto:2': not a number"),
        (f"{GOOD},on=gauss:2,off=1", "on 'gauss:2': not a number"),
        (" ".join([GOOD] * 1025), "at most 1024 flows"),
    ],
)
def test_bad_arguments(words: str, message: str) -> None:
    done = run(*words.split())
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("fairflow: ") and message in line


def test_help() -> None:
    done = run("--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: fairflow ")


def in_virtual_time(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    vm = [str(TOP / "scripts/vm"), "--engine", "virtual", "--rw", str(directory), "--", *command]
    return launch.run(vm)


@pytest.mark.tier("test")
@pytest.mark.usefixtures("traffic")
def test_behaviour_in_virtual_time(tmp_path: Path) -> None:
    pytest_there = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    checks = str(TOP / "tests/lab/flow_guest.py")
    done = in_virtual_time(tmp_path, *pytest_there, "--basetemp=/run/pytest", checks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 12 passed" in f" {done.stdout.splitlines()[-1]}"


def results(out: Path) -> dict[str, Any]:
    words = "run dumbbell --flows bic,gaimd,cubic --rate 50mbit --rtt 20ms --time 5 --warmup 1"
    more = ("--engine", "virtual", "--json", "--out", str(out))
    return launch.answer(run_fairlab(*words.split(), *more))


@pytest.mark.tier("all")
def test_runs_in_virtual_time_are_repeatable(tmp_path: Path) -> None:
    first, second = results(tmp_path), results(tmp_path)
    assert first["engine"]["name"] == "virtual"
    assert first["scenario"]["sender"] == "fairflow"
    assert first["checks"]["rate_while_busy_bps"] == pytest.approx(50e6, rel=0.001)
    assert first["checks"]["capacity_bps"] is None
    for flow, again in zip(first["flows"], second["flows"], strict=True):
        assert flow["throughput_bps"] == pytest.approx(again["throughput_bps"], rel=1e-3)
        assert flow["retransmits"] == again["retransmits"]


def test_steady_is_refused_in_virtual_time() -> None:
    words = ("check", "dumbbell", "--flows", "reno", "--engine", "virtual")
    assert_refused(run_fairlab(*words, "--no-steady"), 2, "--steady is for the engine vm")
