# SPDX-License-Identifier: GPL-2.0
"""slbnsim's --help, its manual page, and its lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import launch
from tests.slbnsim.simtools import PROGRAM, TOP, slbnsim, slbnsim_graphml

PAGE = TOP / "docs" / "man" / "slbnsim.1"
COMMANDS = ("run", "maxmin", "experiment", "topology", "algorithms", "experiments")
#: For each command an option that it has, and one that it does not have.
EXAMPLES = {
    "run": ("--algorithm", "--percent"),
    "maxmin": ("--sessions", "--seed"),
    "experiment": ("--every", "--sessions FILE"),
    "topology": ("--degree", "--pause"),
}


def options(*arguments: str) -> set[str]:
    """The options in its --help."""
    done = slbnsim(*arguments, "--help")
    assert (done.returncode, done.stderr) == (0, ""), arguments
    # Without the summary of all commands.
    _, _, own = done.stdout.partition("\n\n")
    return set(re.findall(r"--[a-z-]+", own)) - {"--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    done = slbnsim(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: slbnsim ")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    if command in EXAMPLES:
        has, has_not = EXAMPLES[command]
        own = done.stdout.partition("\n\n")[2]
        assert has in own and has_not not in own


def test_help_of_all() -> None:
    text = slbnsim("--help").stdout
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)
    assert "Exit status" in text
    everything = options()
    assert everything >= options("run") | options("maxmin") | options("experiment")


def formatted() -> str:
    done = launch.succeed(
        ["man", "-l", PAGE], env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    )
    return done.stdout


def test_page_documents_every_option() -> None:
    text = formatted()
    for command in COMMANDS:
        assert re.search(rf"^ +(?:slbnsim )?{command}\b", text, re.MULTILINE), command
    everything = set.union(*(options(command) for command in COMMANDS))
    everything |= set(re.findall(r"--[a-z-]+", slbnsim_graphml("--help").stdout)) - {"--help"}
    assert len(everything) > 30
    for option in everything | {"--help", "--version"}:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", text), option
    # And no other options.
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--help", "--version"}
    assert documented <= everything


def test_page_is_well_formed() -> None:
    lint = launch.run(["mandoc", "-Tlint", "-Wwarning", PAGE])
    assert (lint.returncode, lint.stdout) == (0, "")
    man = ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", str(PAGE)]
    done = launch.run(man, errors="replace")
    assert (done.returncode, done.stderr) == (0, "")


def test_examples(tmp_path: Path) -> None:
    """The examples run as printed, and their rates are exact, but for the Topology Zoo's."""
    lines = re.findall(r"^ +(slbnsim .*)$", formatted().partition("\nEXAMPLES\n")[2], re.MULTILINE)
    lines = [line for line in lines if "lot" in line]
    assert len(lines) == 2
    for line in lines:
        done = launch.succeed([PROGRAM, *line.split()[1:]], cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    rows = rows[: rows.index([])]
    assert len(rows) == 10
    assert all(float(rate) == pytest.approx(float(exact), rel=1e-6) for _, rate, exact in rows)


@pytest.mark.parametrize("command", ["algorithms", "experiments"])
def test_lists(command: str) -> None:
    lines = slbnsim(command).stdout.splitlines()
    found = json.loads(slbnsim(command, "--json").stdout)
    assert [line.split(maxsplit=1) for line in lines] == [
        [one["name"], one["about"]] for one in found
    ]
    for arguments in ([command, "more"], [command, "--json", "more"]):
        done = slbnsim(*arguments)
        assert done.returncode == 2 and "unexpected argument 'more'" in done.stderr
