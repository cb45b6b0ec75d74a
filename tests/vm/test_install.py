# SPDX-License-Identifier: GPL-2.0
"""scripts/install-deps, on a machine that has all the packages.

Nothing is installed here: tests use --dry-run, or requests that fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests import launch

TOP = Path(__file__).resolve().parent.parent.parent
SCRIPTS = TOP / "scripts"
NOBODY = 65534

Done = subprocess.CompletedProcess[str]


def install_deps(*arguments: str, scripts: Path = SCRIPTS, **more: Any) -> Done:
    done: Done = launch.run([scripts / "install-deps", *arguments], timeout=60, **more)
    return done


def packages(directory: Path, *lines: str) -> str:
    """A list of packages with one group, `some`."""
    path = directory / "packages"
    path.write_text("# a list\n\n[some]\n" + "".join(line + "\n" for line in lines))
    return str(path)


def path_without(directory: Path, *missing: str) -> dict[str, str]:
    """An environment whose PATH has the programs that install-deps uses, except MISSING."""
    used = "awk apt-cache apt-get dirname dpkg-query echo env find id rm sed sudo xargs".split()
    for name in used:
        found = shutil.which(name)
        if found and name not in missing:
            (directory / name).symlink_to(found)
    return {"PATH": str(directory)}


@pytest.fixture(scope="module")
def absent() -> str:
    """A package in apt's lists that is not installed."""
    for name in ("hello", "sl", "cowsay"):
        policy = launch.run(["apt-cache", "policy", name]).stdout
        if "Installed: (none)" in policy and "Candidate: (none)" not in policy:
            return name
    pytest.fail("all example packages are installed")


#: The groups of make test-all.
TESTED = [
    *("modules", "tc", "tools", "slbnsim", "vm", "lab"),
    *("figures", "bench", "fuzz", "tests", "foreign"),
]


def test_complete_installation() -> None:
    """If nothing is missing, it is quick, prints nothing and changes nothing."""
    made = TOP / "build/venv/made-from"
    before = made.stat().st_mtime_ns
    requests = [["--check", *TESTED], TESTED, ["modules", "vm", "lab"], ["--dry-run", *TESTED]]
    for arguments in requests:
        start = time.monotonic()
        done = install_deps(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), arguments
        assert time.monotonic() - start < 3
    assert made.stat().st_mtime_ns == before


def test_missing(tmp_path: Path, absent: str) -> None:
    """Missing packages are listed with their purpose; --dry-run prints the commands."""
    some = packages(tmp_path, f"no-such-thing | {absent} # says hello", "coreutils # is there")
    check = install_deps("--check", "--list", some)
    assert check.returncode == 1
    assert check.stderr.splitlines() == [
        "install-deps: missing:",
        f"  {f'no-such-thing | {absent}':31} some: says hello",
    ]
    dry = install_deps("--dry-run", "--list", some)
    assert dry.returncode == 0, dry.stderr
    command = dry.stdout.splitlines()[-1]
    assert "apt-get" in command
    assert command.endswith(f" install {absent}")


def test_groups_that_share_a_package(tmp_path: Path) -> None:
    """A package of two chosen groups is listed once; a group alone is complete."""
    path = tmp_path / "packages"
    path.write_text("[one]\nno-such-thing # first\n[two]\nno-such-thing # second\n")
    for groups, purpose in ((["one", "two"], "one: first"), (["two"], "two: second")):
        done = install_deps("--check", "--list", str(path), *groups)
        assert done.returncode == 1
        _, line = done.stderr.splitlines()
        assert line.split() == ["no-such-thing", *purpose.split()]


def test_alternative_is_installed(tmp_path: Path) -> None:
    some = packages(tmp_path, "no-such-thing | coreutils # is there")
    done = install_deps("--list", some)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_optional(tmp_path: Path, absent: str) -> None:
    """An optional package is installed if it is in apt's lists, else it is not missing."""
    some = packages(tmp_path, "no-such-thing | nor-this | - # what for", "coreutils | - # is there")
    for arguments in (["--check"], []):
        done = install_deps(*arguments, "--list", some)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    some = packages(tmp_path, f"no-such-thing | {absent} | - # says hello")
    dry = install_deps("--dry-run", "--list", some)
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.splitlines()[-1].endswith(f" install {absent}")


def test_unknown_package(tmp_path: Path, absent: str) -> None:
    """If a package is not in apt's lists, nothing is installed."""
    some = packages(tmp_path, f"{absent} # says hello", "no-such-thing | nor-this # what for")
    done = install_deps("--dry-run", "--list", some)
    assert done.returncode == 1
    assert " install " not in done.stdout
    assert "not in apt's package lists: 'no-such-thing|nor-this'" in done.stderr.splitlines()[-1]


def test_no_apt(tmp_path: Path) -> None:
    """Without apt, it lists the required packages."""
    some = packages(tmp_path, "one | two # the reason", "three # another")
    (tmp_path / "bin").mkdir()
    environment = path_without(tmp_path / "bin", "apt-get", "apt-cache", "dpkg-query")
    done = install_deps("--list", some, env=environment)
    assert done.returncode == 1
    assert "no apt" in done.stderr
    for word in ("one | two", "some: the reason", "three"):
        assert word in done.stderr


def test_no_sudo(absent: str) -> None:
    # In a directory that other users may enter, unlike pytest's own and perhaps the tree.
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        top.chmod(0o755)
        some = packages(top, f"{absent} # says hello")
        environment = path_without(top, "sudo")
        (top / "scripts").mkdir()
        shutil.copy(SCRIPTS / "install-deps", top / "scripts")
        user: dict[str, Any] = {}
        if os.getuid() == 0:
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        done = install_deps("--list", some, env=environment, scripts=top / "scripts", **user)
    assert done.returncode == 1
    assert "neither root nor sudo available" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["no-such-group"], ["no-such-group", "modules", "tools", "vm", "lab", "tests"]),
        (["--no-such-option"], ["--no-such-option", "--check", "--dry-run"]),
        (["--list"], ["--list"]),
        (["--list", "/no/such/list"], ["/no/such/list"]),
    ],
)
def test_invalid_arguments(arguments: list[str], named: list[str]) -> None:
    done = install_deps(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for word in named:
        assert word in done.stderr
