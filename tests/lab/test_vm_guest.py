# SPDX-License-Identifier: GPL-2.0
"""Runs guest_checks.py in a VM, and checks its report."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.lab.labtools import TOP

pytestmark = pytest.mark.tier("all")

CHECKS = Path(__file__).resolve().parent / "guest_checks.py"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> ET.Element:
    """The JUnit report of all checks, from one VM."""
    directory = tmp_path_factory.mktemp("guest")
    # As fairlab does before it starts a guest.
    subprocess.run(["make", "--silent", "-C", str(TOP), "traffic", "tc-plugins"], check=True)
    report = directory / "report.xml"
    vm = [str(TOP / "scripts" / "vm"), "--steady", "--timeout", "1500", "--rw", str(directory)]
    # As engine.py does it, for the same reason.
    environment = ["--env", "SETUPTOOLS_USE_DISTUTILS=stdlib"] if sys.version_info < (3, 12) else []
    # The guest sees the host's /tmp, where other runs of fairlab have files.
    environment += ["--env", "TMPDIR=/run"]
    pytest_there = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Not under the host's /tmp, where another user may own the directory.
    pytest_there += ["--basetemp=/run/pytest"]
    done = subprocess.run(
        [*vm, *environment, "--", *pytest_there, f"--junitxml={report}", str(CHECKS)],
        cwd=TOP,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    # Exit status 70 reports a splat, even if all checks passed.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert report.exists(), done.stdout + done.stderr
    return ET.parse(report).getroot()


def test_all_guest_checks_pass(guest: ET.Element) -> None:
    texts = [
        f"{case.get('name')}:\n{problem.text}"
        for case in guest.iter("testcase")
        for problem in [*case.findall("failure"), *case.findall("error")]
    ]
    assert not texts, "\n\n".join(texts)
    assert len(list(guest.iter("testcase"))) >= 20
