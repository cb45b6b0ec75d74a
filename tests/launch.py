# SPDX-License-Identifier: GPL-2.0
"""Run a program to its end; what it writes is text."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def run(
    command: str | Sequence[str | Path], environment: Mapping[str, str] | None = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program; ENVIRONMENT is added to ours, and HOW are arguments of subprocess.run().

    It has nothing to read, unless they say so.
    """
    if how.get("input") is None:
        how.setdefault("stdin", subprocess.DEVNULL)
    if environment:
        how["env"] = os.environ | environment
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, check=False, text=True, **pipes | how
    )
    return done


def succeed(command: str | Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[str]:
    """The same for a program that must succeed: the error has what it wrote."""
    done = run(command, **how)
    said = f"{done.stdout or ''}{done.stderr or ''}"
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{said}"
    return done


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON of a program, which has succeeded."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
