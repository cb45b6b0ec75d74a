# SPDX-License-Identifier: GPL-2.0
"""Runs slbnsim and its converter for the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from tests import launch

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "build/tests/slbnsim"
GRAPHML = TOP / "userspace/slbnsim/graphml.py"
SECONDS = 120


def slbnsim(
    *arguments: str, stdin: str = "", stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    return launch.run([PROGRAM, *arguments], input=stdin, stdout=stdout, timeout=SECONDS)


def slbnsim_graphml(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return launch.run([GRAPHML, *arguments], input=stdin, timeout=SECONDS)
