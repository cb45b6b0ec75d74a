# SPDX-License-Identifier: GPL-2.0
"""Completion in bash, against what the programs accept."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests import launch
from tests.linux_source import TOP

FILE = TOP / "userspace" / "slbnctl" / "completion.bash"
DEVICES = set(os.listdir("/sys/class/net"))


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)


def complete(line: str) -> set[str]:
    """The completions of the last word of LINE."""
    script = f"""set -u
        . {FILE}
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        "_$1"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{TOP}/build/slbnctl:{TOP}/build/slbnd:{os.environ['PATH']}"
    done = launch.succeed(
        ["bash", "-c", script, "bash", *line.split(" ")], environment={"PATH": path}, timeout=60
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def commands(*path: str) -> set[str]:
    """The commands in the help of a command."""
    done = launch.succeed([TOP / "build/slbnctl/slbnctl", *path, "help"])
    section = done.stdout.split("Commands:\n")[1].split("\n\n")[0]
    return set(re.findall(r"^  ([a-z]+)", section, re.MULTILINE))


@pytest.mark.parametrize("path", ["", "link ", "session ", "key ", "-j se ", "-s /x l "])
def test_commands(path: str) -> None:
    words = [word for word in path.split() if word[0] not in "-/"]
    found = complete(f"slbnctl {path}")
    assert {word for word in found if word[0] != "-"} == commands(*words)
    for command in commands(*words):
        assert command in complete(f"slbnctl {path}{command[:2]}")
        done = subprocess.run(
            [TOP / "build/slbnctl/slbnctl", *words, command, "help"],
            capture_output=True,
            check=True,
        )
        assert b"Usage: " in done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("slbnctl --j", {"--json"}),
        ("slbnctl link set ", DEVICES | {"dev"}),
        ("slbnctl link set dev ", DEVICES),
        ("slbnctl session join 192.0.2.1 we", {"weight"}),
        ("slbnctl session join 192.0.2.1 s", {"source", "sport"}),
        ("slbnctl top co", {"count"}),
        ("slbnctl nonsense x", set()),
        ("slbnd --log-level w", {"warning"}),
        ("slbnd --sessions ", {"flow", "pair", "host", "prefix/"}),
        ("slbnd --devices lo", {"lo"}),
        ("slbnd --ch", {"--check"}),
    ],
)
def test_arguments(line: str, expected: set[str]) -> None:
    assert complete(line) == expected


def test_options_of_link_set() -> None:
    assert {"rate", "epoch", "memory", "edge"} <= complete("slbnctl link set lo ")


def test_all_options_of_slbnd() -> None:
    found = complete("slbnd --")
    assert {"--hosts", "--config", "--help"} <= found and len(found) > 15
    for option in found:
        done = subprocess.run(
            [TOP / "build/slbnd/slbnd", option, "--help"], capture_output=True, check=False
        )
        assert b"unknown option" not in done.stderr
