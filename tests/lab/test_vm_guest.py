# SPDX-License-Identifier: GPL-2.0
"""Runs guest_checks.py and guest_breaks.py in VMs, and checks their reports."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import launch
from tests.lab.labtools import TOP

pytestmark = pytest.mark.tier("all")

CHECKS, BREAKS = (Path(__file__).resolve().with_name(f"guest_{n}.py") for n in ("checks", "breaks"))
VIRTUAL = ("--engine", "virtual", "--seed", "0", "--mem", "2G")


def run_checks(directory: Path, file: Path, marker: str, *options: str) -> list[ET.Element]:
    """The report's test cases, from one VM."""
    # As fairlab does before it starts a guest.
    programs = ("traffic", "tc-plugins", "tools")
    subprocess.run(["make", "--silent", "-C", str(TOP), *programs], check=True)
    report = directory / "report.xml"
    vm = [str(TOP / "scripts" / "vm"), *options, "--timeout", "1500", "--rw", str(directory)]
    # As engine.py does it, for the same reason.
    environment = ["--env", "SETUPTOOLS_USE_DISTUTILS=stdlib"] if sys.version_info < (3, 12) else []
    # The guest sees the host's /tmp, where other runs of fairlab have files.
    environment += ["--env", "TMPDIR=/run"]
    pytest_there = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Not under the host's /tmp, where another user may own the directory.
    pytest_there += ["--basetemp=/run/pytest", "-m", marker, f"--junitxml={report}", str(file)]
    done = launch.run([*vm, *environment, "--", *pytest_there], cwd=TOP)
    # Exit status 70 reports a splat, even if all checks passed.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert report.exists(), done.stdout + done.stderr
    return list(ET.parse(report).getroot().iter("testcase"))


def assert_passed(cases: list[ET.Element], at_least: int) -> None:
    texts = [
        f"{case.get('name')}:\n{problem.text}"
        for case in cases
        for problem in [*case.findall("failure"), *case.findall("error")]
    ]
    assert not texts, "\n\n".join(texts)
    assert len(cases) >= at_least


def test_checks_pass_in_virtual_time(tmp_path: Path) -> None:
    assert_passed(run_checks(tmp_path, CHECKS, "not real_time", *VIRTUAL), 30)


def test_checks_of_the_machines_speed_pass(tmp_path: Path) -> None:
    assert_passed(run_checks(tmp_path, CHECKS, "real_time", "--steady"), 3)


def test_real_runs_that_are_broken_are_refused(tmp_path: Path) -> None:
    assert_passed(run_checks(tmp_path, BREAKS, "not quick", *VIRTUAL), 60)


@pytest.mark.tier("test")
def test_some_real_runs_that_are_broken_are_refused(tmp_path: Path) -> None:
    assert_passed(run_checks(tmp_path, BREAKS, "quick", *VIRTUAL), 2)
