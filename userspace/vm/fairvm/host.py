# SPDX-License-Identifier: GPL-2.0
"""The host: its programs, the project's source tree, and progress messages."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fairvm.errors import UsageError, VmError

progress = True

_OWN_TREE = Path(__file__).resolve().parents[3]
_IN_TREE = "userspace/vm/fairvm"
#: The commands' names: scripts/vm and scripts/kernel in the tree, else the installed ones.
VM, KERNEL = ("vm", "kernel") if (_OWN_TREE / _IN_TREE).is_dir() else ("fairvm", "fairvm-kernel")


def say(text: str) -> None:
    """Report progress on stderr, unless `progress` is off; stdout is for results."""
    if progress:
        print(f"{KERNEL}: {text}", file=sys.stderr, flush=True)


@functools.cache
def tree() -> Path | None:
    """The top of the source tree: this file's, or if installed, the one around the working
    directory, if there is one."""
    here = Path.cwd()
    for directory in (_OWN_TREE, here, *here.parents):
        if (directory / _IN_TREE).is_dir():
            return directory
    return None


def top() -> Path:
    """The top of the source tree, for those who need one."""
    found = tree()
    if found is None:
        raise UsageError(f"{Path.cwd()} is not in fairpath's source tree, whose modules are built")
    return found


def how_to_install() -> str:
    """What a user does about a missing package."""
    return "install it" if tree() is None else "run scripts/install-deps"


def need(program: str, package: str) -> str:
    """The path of PROGRAM; if it is missing, the error names the PACKAGE to install."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise VmError(f"{program} is missing (package {package}): {how_to_install()}")
    return path


def run(command: list[str], cwd: Path | None = None) -> str:
    """Run COMMAND and return its output; if it fails, raise its error messages."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        # apt's errors, or a compiler's.
        errors = [line for line in lines if re.match("[EW]:", line) or " error: " in line] or lines
        reason = "; ".join(errors[-3:]) or f"exit status {done.returncode}"
        raise VmError(f"{Path(command[0]).name} failed: {reason}")
    return done.stdout


def link_or_copy(source: str, target: str) -> None:
    """Hard-link a file where that is allowed, else copy it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
