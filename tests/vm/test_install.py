# SPDX-License-Identifier: GPL-2.0
"""scripts/install-deps, on this machine, which has all that the project needs.

Nothing is installed here: what would be is asked for with --dry-run, or refused.
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

TOP = Path(__file__).resolve().parent.parent.parent
SCRIPTS = TOP / "scripts"
NOBODY = 65534

Done = subprocess.CompletedProcess[str]


def install_deps(*arguments: str, scripts: Path = SCRIPTS, **more: Any) -> Done:
    done: Done = subprocess.run(
        [scripts / "install-deps", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        **more,
    )
    return done


def packages(directory: Path, *lines: str) -> str:
    """A list of packages with one group."""
    path = directory / "packages"
    path.write_text("# a list\n\n[some]\n" + "".join(line + "\n" for line in lines))
    return str(path)


def path_without(directory: Path, *missing: str) -> dict[str, str]:
    """An environment in which the shell finds what install-deps uses, but for the MISSING."""
    used = "awk apt-cache apt-get dirname dpkg-query echo env find id rm sed sudo xargs".split()
    for name in used:
        found = shutil.which(name)
        if found and name not in missing:
            (directory / name).symlink_to(found)
    return {"PATH": str(directory)}


@pytest.fixture(scope="module")
def absent() -> str:
    """A package that apt knows and that is not installed."""
    for name in ("hello", "sl", "cowsay"):
        policy = subprocess.run(
            ["apt-cache", "policy", name], capture_output=True, text=True, check=False
        ).stdout
        if "Installed: (none)" in policy and "Candidate: (none)" not in policy:
            return name
    pytest.fail("no example of a package that is not installed")


def test_nothing_is_missing() -> None:
    """Then it is quick and silent, and does nothing."""
    made = TOP / "build/venv/made-from"
    before = made.stat().st_mtime_ns
    requests: list[list[str]] = [["--check"], [], ["build", "vm", "lab"], ["--dry-run"]]
    for arguments in requests:
        start = time.monotonic()
        done = install_deps(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), arguments
        assert time.monotonic() - start < 1
    assert made.stat().st_mtime_ns == before


def test_missing(tmp_path: Path, absent: str) -> None:
    """What is missing is named with its reason, and what would be done is shown."""
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


def test_alternative_is_there(tmp_path: Path) -> None:
    some = packages(tmp_path, "no-such-thing | coreutils # is there")
    done = install_deps("--list", some)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_optional(tmp_path: Path, absent: str) -> None:
    """What can be done without is installed where apt knows it, and not missed elsewhere."""
    some = packages(tmp_path, "no-such-thing | nor-this | - # what for", "coreutils | - # is there")
    for arguments in (["--check"], []):
        done = install_deps(*arguments, "--list", some)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    some = packages(tmp_path, f"no-such-thing | {absent} | - # says hello")
    dry = install_deps("--dry-run", "--list", some)
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.splitlines()[-1].endswith(f" install {absent}")


def test_unknown_package(tmp_path: Path, absent: str) -> None:
    """A name that apt does not know stops all of it."""
    some = packages(tmp_path, f"{absent} # says hello", "no-such-thing | nor-this # what for")
    done = install_deps("--dry-run", "--list", some)
    assert done.returncode == 1
    assert " install " not in done.stdout
    assert "apt knows no package 'no-such-thing|nor-this'" in done.stderr.splitlines()[-1]


def test_no_apt(tmp_path: Path) -> None:
    """Elsewhere it says what is needed."""
    some = packages(tmp_path, "one | two # the reason", "three # another")
    (tmp_path / "bin").mkdir()
    environment = path_without(tmp_path / "bin", "apt-get", "apt-cache", "dpkg-query")
    done = install_deps("--list", some, env=environment)
    assert done.returncode == 1
    assert "no apt" in done.stderr
    for word in ("one | two", "some: the reason", "three"):
        assert word in done.stderr


def test_no_sudo(absent: str) -> None:
    # In a place that others may enter, unlike pytest's own directory and perhaps the tree.
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
    assert "not root, and there is no sudo" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["no-such-group"], ["no-such-group", "build", "vm", "lab", "tests"]),
        (["--no-such-option"], ["--no-such-option", "--check", "--dry-run"]),
        (["--list"], ["--list"]),
        (["--list", "/no/such/list"], ["/no/such/list"]),
    ],
)
def test_refused(arguments: list[str], named: list[str]) -> None:
    done = install_deps(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for word in named:
        assert word in done.stderr
