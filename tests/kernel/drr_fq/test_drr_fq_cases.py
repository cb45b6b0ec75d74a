# SPDX-License-Identifier: GPL-2.0
"""tc and drr_fq: data-driven cases, like those of the kernel's tdc.

A file in cases/ has `setup`, for all of its cases, and [[case]] tables:

    id        unique, never reused
    name      description
    setup     commands, one per line; each must succeed
    command   the command under test
    status    its expected exit status; default 0
    output    a regular expression that its output, including errors, must match
    verify    a command that shows the result; it must succeed
    match     regular expressions that the output of verify must match
    absent    regular expressions that it must not match
    json      values by path in the JSON output of verify, as "0.options.limit"
    teardown  commands to undo changes outside the network namespace

Each case has a new network namespace with only a loopback device, without IPv6, which would
send packets by itself.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.drr_fq import batch
from tests.kernel.lib.net import is_single, sh, unnamed_namespace

Case = dict[str, Any]
KEYS = {
    *("id", "name", "setup", "command", "status", "output"),
    *("verify", "match", "absent", "json", "teardown"),
}


def read_cases() -> list[Case]:
    cases: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("cases/*.toml")):
        with path.open("rb") as file:
            content = tomllib.load(file)
        common = content.get("setup", "")
        for case in content["case"]:
            assert not case.keys() - KEYS, f"{path.name}: {case}"
            cases.append({**case, "setup": common + "\n" + case.get("setup", "")})
    ids = [case["id"] for case in cases]
    assert len(set(ids)) == len(ids), "an id is used twice"
    return cases


def prepare(commands: str) -> None:
    """Run commands; consecutive ones of ip or tc in one process."""
    lines = [line for line in commands.splitlines() if line]
    for program, group in itertools.groupby(lines, lambda line: line.split()[0]):
        if program in ("ip", "tc"):
            batch(program, "".join(line.removeprefix(program) + "\n" for line in group))
        else:
            for line in group:
                shell(line)


def shell(commands: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = sh(commands if is_single(commands) else f"set -eu\n{commands}", check=False)
    assert not check or done.returncode == 0, f"{commands}\nstatus {done.returncode}\n{done.stdout}"
    return done


def at(value: Any, path: str) -> Any:
    """The JSON value at a path of keys and indices."""
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: f"{case['id']}-{case['name']}")
def test_case(case: Case) -> None:
    with unnamed_namespace():
        try:
            prepare(case["setup"])
            done = shell(case["command"], check=False)
            assert done.returncode == case.get("status", 0), done.stdout
            assert re.search(case.get("output", ""), done.stdout), done.stdout
            if "verify" in case:
                verify(case, shell(case["verify"]).stdout)
        finally:
            prepare(case.get("teardown", ""))


def verify(case: Case, shown: str) -> None:
    for pattern in case.get("match", ()):
        assert re.search(pattern, shown), f"{pattern}\n{shown}"
    for pattern in case.get("absent", ()):
        assert not re.search(pattern, shown), f"{pattern}\n{shown}"
    if "json" in case:
        tree = json.loads(shown)
        found = {path: at(tree, path) for path in case["json"]}
        assert found == case["json"], shown
