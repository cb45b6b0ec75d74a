# SPDX-License-Identifier: GPL-2.0
"""Where a run is measured.

`host`: here, by measure.py.  `vm` and `virtual`: by the same code in a guest of scripts/vm, which
is given the directory to write to; everything else of the guest is lost with it.

`vm` is a kernel as distributions have it.  If it is emulated, time passes differently from here,
and unevenly if this machine is busy.  So there the guest's clock is made to count instructions
(--steady) unless the user wants otherwise.

`virtual` is the same version as a program, whose clock stands still while there is work.  Nothing
takes time there but what is meant to, at any rate, on any machine.
"""

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlab.model.errors import CannotRunError, ReportedError
from fairlab.model.scenario import FAIRFLOW, Scenario
from fairlab.net import host

VM, VIRTUAL, HOST = ENGINES = ("vm", "virtual", "host")
DEFAULT_KERNEL = "6.1"

# What scripts/vm exits with when it is not the command's own status.
VM_USAGE, VM_SPLAT, VM_TIMEOUT, VM_BROKEN = 2, 70, 124, 125

# The sources that every run in a guest depends on, in the project's tree.
SOURCES = (
    "include",
    *(f"userspace/lab/fairlab/{package}" for package in ("model", "net", "run")),
)

# An emulated second can take many real ones; past this, something hangs.
BOOT_TIMEOUT, SECONDS_PER_SECOND = 600, 60


def is_virtual() -> bool:
    """Are we in virtual time?"""
    return os.environ.get("FAIRPATH_ENGINE") == VIRTUAL


def build_programs(scenario: Scenario) -> None:
    """Build what a scenario needs of the tree's own programs, where there is a tree."""
    targets = ["traffic"] if scenario.background or scenario.sender == FAIRFLOW else []
    make(targets, {qdisc.kind for qdisc in scenario.qdiscs})


def make(targets: list[str], kinds: Collection[str]) -> None:
    """Build TARGETS, and what tc needs for these KINDS of qdisc, where there is a tree."""
    top = host.tree()
    if top is None:
        return
    if any((top / "userspace" / "tc" / f"q_{kind}.c").exists() for kind in kinds):
        targets = [*targets, "tc-plugins"]
    if targets:
        host.run("make", "--silent", "--no-print-directory", "-C", str(top), *targets)


@dataclass(frozen=True)
class Vm:
    """A guest with a kernel of the user's choice."""

    engine: str
    kernel: str
    steady: bool | None  # None: if it needs to be

    def _script(self, name: str) -> str:
        top = host.tree()
        if top is None:
            raise CannotRunError(
                f"the engine '{self.engine}' is part of the project's tree:"
                " run its scripts/fairlab, or use --engine host"
            )
        return str(top / "scripts" / name)

    def _steady(self) -> bool:
        """Does the guest's clock have to be made steady?  Not if KVM works here, which is tried."""
        if self.engine == VIRTUAL or self.steady is not None:
            return bool(self.steady)
        # Fetches the kernel if need be, and says so; the trial below is quiet.
        fetched = subprocess.run(
            [self._script("kernel"), "get", self.kernel],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if fetched.returncode:
            raise ReportedError(
                VM_USAGE if fetched.returncode == VM_USAGE else CannotRunError.status
            )
        trial = [self._script("vm"), "--kernel", self.kernel, "--accel", "kvm", "--no-modules"]
        done = subprocess.run(
            [*trial, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode != 0

    def fairlab(
        self,
        arguments: Sequence[str],
        writable: Path | None,
        seconds: float = 0,
        memory: int = 0,
    ) -> None:
        """Run fairlab in the guest, and come back if it went well; MEMORY is in MiB."""
        command = [self._script("vm"), "--engine", self.engine, "--kernel", self.kernel]
        command += ["--timeout", str(round(BOOT_TIMEOUT + SECONDS_PER_SECOND * seconds))]
        command += ["--steady"] if self._steady() else []
        # So that packets need not wait until a program's long system call is over.
        command += ["--append", "preempt=full"] if self.engine == VM else []
        command += ["--rw", str(writable)] if writable else []
        command += ["--mem", f"{memory}M"] if memory else []
        if sys.version_info < (3, 12):
            # Mininet imports distutils, in whose place setuptools puts its own, and itself: in an
            # emulated machine that takes five seconds.
            command += ["--env", "SETUPTOOLS_USE_DISTUTILS=stdlib"]
        command += ["--", self._script("fairlab"), *arguments]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=host.die_with_parent,  # noqa: PLW1509 (we have no threads)
        )
        try:
            status = process.wait()
        finally:
            # On a signal: it ends its guest, and only then do we go on cleaning up.
            if process.poll() is None:
                process.terminate()
                process.wait()
        if status == VM_BROKEN:
            raise ReportedError(CannotRunError.status)
        if status in (VM_SPLAT, VM_TIMEOUT):
            raise ReportedError(1)
        if status:
            raise ReportedError(status)
