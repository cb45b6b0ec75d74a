# SPDX-License-Identifier: GPL-2.0
"""Runs slbnsim and its converter for the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "build/tests/slbnsim"
GRAPHML = TOP / "userspace/slbnsim/graphml.py"
SECONDS = 120


def slbnsim(
    *arguments: str, stdin: str = "", stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def slbnsim_graphml(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GRAPHML, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
