# SPDX-License-Identifier: GPL-2.0
"""slbnd's command line and configuration file, on the host: it exits before it opens a socket."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.linux_source import TOP

SLBND = TOP / "build" / "slbnd" / "slbnd"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)


def slbnd(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SLBND, *options], capture_output=True, text=True, timeout=60, check=False
    )


def check(file: Path, text: str, *options: str) -> str:
    """The error of slbnd --check about a file with TEXT; empty if it is valid."""
    file.write_text(text)
    done = slbnd("--check", "--config", file, *options)
    assert done.stdout == "" and done.returncode == (2 if done.stderr else 0)
    return done.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--pause", "0"], "must be 1us to 1s"),
        (["--pause"], "needs a value"),
        (["--nonsense", "1"], "unknown option"),
        (["nonsense"], "unknown argument"),
        (["--hops", "0"], "must be 1 to 64"),
        (["--hops", "65"], "must be 1 to 64"),
        (["--unassigned", "0"], "must be 1bit to 1000tbit"),
        (["--group", "no-such-group"], "no such group"),
        (["--key-file", "/etc/passwd"], "32 hexadecimal digits"),
        (["--control", "1e1"], "0.1% to 100%"),
        (["--socket", "relative"], "absolute path"),
        (["--config", "/no/such/file"], "No such file"),
        (["--pause=0"], "--pause: must be 1us to 1s"),
        (["--check=1"], "--check=1: unknown option"),
        (["-x"], "-x: unknown option"),
        (["--check", "--ho=1.2.3.4/8"], "--ho=1.2.3.4/8: unknown option"),
    ],
)
def test_invalid_options(options: list[str], error: str) -> None:
    done = slbnd(*options)
    assert (done.returncode, done.stdout, error in done.stderr) == (2, "", True), done.stderr
    assert done.stderr.startswith("slbnd: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--pause=2ms", "--pause 2ms", "--pau 2ms"])
def test_option_syntax(option: str, tmp_path: Path) -> None:
    assert check(tmp_path / "conf", "", *option.split()) == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n# comment\n\tpause\t=\t2ms  \n", ""),
        ("pause=2ms\npause = 1s\n", ""),
        ("pause = 2ms\nnonsense = 1\n", "2: nonsense: unknown option; see --help"),
        ("\npause 2ms\n", '2: pause: must be "name = value"'),
        ("pause =\n", "1: pause: needs a value"),
        ("check = yes\n", "1: check: unknown option; see --help"),
        ("hosts = 10.0.0.1/8\n", "1: hosts: must be prefixes"),
        ("x" * 5000, "1: ...: the line is too long"),
    ],
)
def test_configuration_file(text: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "conf"
    found = check(file, text)
    assert found.startswith(f"slbnd: {file}:{error}") if error else found == ""


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("hosts", [f"10.{n}.0.0/16" for n in range(64)]),
        ("ports", [str(n) for n in range(1, 65)]),
        ("devices", [f"d{n}" for n in range(16)]),
    ],
)
def test_repeated_lists_add_up(option: str, values: list[str], tmp_path: Path) -> None:
    """Those of the command line replace the file's. The maximum number shows which."""
    file = tmp_path / "conf"
    half = ",".join(values[len(values) // 2 :])
    full = "".join(f"{option} = {value}\n" for value in values)
    assert check(file, full) == ""
    assert "at most" in check(file, f"{full}{option} = {values[0]}\n")
    assert check(file, full, f"--{option}={half}", f"--{option}={half}") == ""
    assert "at most" in check(file, full, *[f"--{option}={half}"] * 3)
