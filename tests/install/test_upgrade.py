# SPDX-License-Identifier: GPL-2.0
"""The agent and the module of an earlier release beside those of today (docs/deploying.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fairvm.cache import Kernel, locked, staging

from tests import launch
from tests.linux_source import TOP

pytestmark = pytest.mark.tier("all")

#: The oldest commit with today's version of the protocol that was in use.
BEFORE = "6d92818"


def run(*command: str | Path, cwd: Path = TOP) -> str:
    return launch.succeed(command, cwd=cwd, stderr=subprocess.STDOUT).stdout


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(Path(run("scripts/kernel", "get", "--engine", "native", "6.1").splitlines()[-1]))


@pytest.fixture(scope="module")
def before(kernel: Kernel) -> Path:
    """The tree of BEFORE, with programs and the module."""
    directory = TOP / "build" / f"tree-{BEFORE}"
    with locked(directory.with_name(f".lock-{directory.name}")):
        if not directory.exists():
            asked = ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"]
            if subprocess.run(asked, cwd=TOP, check=False, capture_output=True).returncode:
                pytest.fail(f"{BEFORE} is not in this clone: git fetch --unshallow", pytrace=False)
            with staging(directory) as new:
                run("sh", "-ec", f"git archive {BEFORE} >{new}.tar; tar -C {new} -xf {new}.tar")
                Path(f"{new}.tar").unlink()
        run("make", "-s", "tools", "tc-plugins", cwd=directory)
        headers = f"KERNELDIR={kernel.headers}"
        run("make", "-s", *kernel.make_variables, headers, "modules", cwd=directory)
    return directory


@pytest.mark.parametrize("module", ["before", "now"])
def test_one_part_at_a_time(before: Path, kernel: Kernel, module: str) -> None:
    """Today's programs and those of before, with the module of either."""
    run("make", "-s", "tools", "tc-plugins")
    built = Path(run("scripts/kernel", "modules", "--engine", "native", "6.1").splitlines()[-1])
    trees = {"before": before / "build/modules" / kernel.release, "now": built}
    (file,) = trees[module].rglob("sch_slbn.ko")
    vm = ["scripts/vm", "--engine", "virtual", "--seed", "0", "--timeout", "900"]
    vm += ["--env", f"BEFORE={before}", "--env", f"MODULE={file}"]
    vm += ["--env", "PYTHONDONTWRITEBYTECODE=1"]
    guest = Path(__file__).with_name("upgrade_guest.py")
    pytest_in_guest = ["/usr/bin/python3", "-m", "pytest", "-q", "--basetemp=/run/pytest"]
    said = run(*vm, "--", *pytest_in_guest, guest)
    assert " passed" in said and "skipped" not in said
