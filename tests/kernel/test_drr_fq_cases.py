# SPDX-License-Identifier: GPL-2.0
"""What tc says and does about drr_fq: cases as data, as those of the kernel's own tdc.

A file in cases/ has `setup`, for all of its cases, and any number of [[case]]s:

    id        unique, never used again for another
    name      what it shows, in words
    setup     commands, one a line; each must succeed
    command   what is tried
    status    its exit status; 0 if not given
    says      a regular expression that has to be found in what it prints, errors included
    verify    a command that looks at the result; it must succeed
    match     regular expressions that have to be found in what it prints
    absent    such that must not be
    json      values by their paths in the JSON that it prints, as "0.options.limit"
    teardown  commands that undo what outlives the network namespace

Each case has a network namespace of its own, with nothing but a loopback device in it, and
without IPv6, whose packets come when they like.
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

from tests.kernel.drr_fq import batch
from tests.kernel.net import unnamed_namespace

Case = dict[str, Any]
KEYS = {
    *("id", "name", "setup", "command", "status", "says"),
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
    """Run commands, those to ip or tc that follow each other in one process."""
    lines = [line for line in commands.splitlines() if line]
    for program, group in itertools.groupby(lines, lambda line: line.split()[0]):
        if program in ("ip", "tc"):
            batch(program, "".join(line.removeprefix(program) + "\n" for line in group))
        else:
            for line in group:
                shell(line)


def shell(commands: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["sh", "-euc", commands],
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert not check or done.returncode == 0, f"{commands}\nstatus {done.returncode}\n{done.stdout}"
    return done


def at(value: Any, path: str) -> Any:
    """What is at a path of keys and indices in JSON."""
    for word in path.split("."):
        value = value[int(word)] if isinstance(value, list) else value[word]
    return value


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: f"{case['id']}-{case['name']}")
def test_case(case: Case) -> None:
    with unnamed_namespace():
        try:
            prepare(case["setup"])
            done = shell(case["command"], check=False)
            assert done.returncode == case.get("status", 0), done.stdout
            assert re.search(case.get("says", ""), done.stdout), done.stdout
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
