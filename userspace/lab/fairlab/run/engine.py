# SPDX-License-Identifier: GPL-2.0
"""Engines: where a job is measured.

`host` measures on the kernel of this machine.  `vm` and `virtual` run the same code in a guest of
scripts/vm, which can write only to the job's directory.

`vm` is a distribution's kernel in QEMU.  Without KVM, the guest's time would run unevenly when this
machine is busy, so its clock counts instructions (--steady) unless the user wants otherwise.

`virtual` is the same version as User-Mode Linux in virtual time: the clock stands still while there
is work, so processing takes no time, at any rate, on any machine.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairlab.model.errors import CannotRunError, ReportedError
from fairlab.net import host
from fairlab.run import exact
from fairlab.run.progress import STYLE, Progress

VM, VIRTUAL, HOST = ENGINES = ("vm", "virtual", "host")
DEFAULT_KERNEL = "6.1"

# Exit statuses of scripts/vm itself: a usage error, a timeout; a splat, a guest that is not
# repeatable, one that broke, each with ours.
VM_USAGE, VM_TIMEOUT = 2, 124
FAILED = {70: 1, 71: CannotRunError.status, 125: CannotRunError.status}
#: The file in a run's directory that has its job.
JOB = "job.json"
#: Where a guest in virtual time has the directory that it can write to.
PLACE = Path("/run/fairlab")

# The sources that every run in a guest depends on, in the project's tree: those by which fairvm
# builds another kernel (uml.py), and tc's plugins, too.
SOURCES = (
    "include",
    "userspace/common",
    "userspace/tc",
    *(f"userspace/vm/fairvm/{name}" for name in ("uml.py", "exact.py", "exact")),
    *(f"userspace/lab/fairlab/{package}" for package in ("model", "net", "run")),
)

# An emulated second can take many real ones; after this time, something hangs.
BOOT_TIMEOUT, SECONDS_PER_SECOND = 600, 60


def is_virtual() -> bool:
    """Does this process run in virtual time?"""
    return os.environ.get("FAIRPATH_ENGINE") == VIRTUAL


def make(targets: list[str], kinds: Collection[str]) -> None:
    """Build TARGETS, and tc's plugins for these KINDS of qdisc, where there is a tree."""
    top = host.tree()
    if top and any((top / "userspace" / "tc" / f"q_{kind}.c").exists() for kind in kinds):
        targets = [*targets, "tc-plugins"]
    if not top or not targets:
        return
    build = top / "build"
    build.mkdir(exist_ok=True)
    # The lock of scripts/vm: runs may start at the same time.
    with (build / ".lock-programs").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        host.run("make", "--silent", "--no-print-directory", "-C", str(top), *targets)


def require_tree(engine: str) -> Path:
    """The project's tree; CannotRunError without one."""
    top = host.tree()
    if top is None:
        raise CannotRunError(
            f"the engine '{engine}' is part of the project's tree:"
            " run its scripts/fairlab, or use --engine host"
        )
    return top


@dataclass(frozen=True)
class Here:
    """The engine host: MEASURER measures in this process, which must be root."""

    measurer: Callable[[Path, Progress], None]
    engine: str = HOST

    def measure(
        self, directory: Path, seconds: float, memory: int, seed: int, progress: Progress
    ) -> None:
        self.measurer(directory, progress)


@dataclass(frozen=True)
class Vm:
    """A guest with a kernel of the user's choice: the engines vm and virtual."""

    engine: str
    kernel: str
    steady: bool | None  # None: if it needs to be
    jitter: bool = False  # processes start up to 1 ms later, in virtual time
    seed: int = 0  # of the kernel's and the programs' random numbers, in virtual time
    capture: Path | None = None  # where to write packets, instead of a record of the run
    timeout: int = 0  # of the guest, in s; 0: by the length of the run

    def _script(self, name: str) -> str:
        return str(require_tree(self.engine) / "scripts" / name)

    def _steady(self) -> bool:
        """Must the guest's clock count instructions?  Not if KVM works here, which is tried."""
        if self.engine == VIRTUAL or self.steady is not None:
            return bool(self.steady)
        # Fetches the kernel if need be, with progress; the trial below is quiet.
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

    def measure(
        self, directory: Path, seconds: float, memory: int, seed: int, progress: Progress
    ) -> None:
        """Measure the job in DIRECTORY, and leave its raw data there; MEMORY is in MiB."""
        guest = replace(self, seed=seed)
        # Not an argument, which would choose the random numbers of the process.
        words = ["--env", f"{STYLE}={progress.style}"]
        if self.engine != VIRTUAL:
            guest.fairlab(["measure", str(directory)], directory, seconds, memory, words)
            return
        tree = require_tree(self.engine)
        kernel = exact.kernel_directory(tree, self.kernel)
        option, file = ("--pcap" if self.capture else "--packets"), directory / exact.PACKETS
        words += ["--quiet", option, str(self.capture or file)]
        guest.fairlab(["measure", str(PLACE)], directory, seconds, memory, words)
        if self.capture:
            return
        arguments = {"kernel": self.kernel, "seed": seed, "jitter": self.jitter}
        arguments |= {"memory": memory, "seconds": seconds}
        job = json.loads((directory / JOB).read_text())
        exact.write(directory, tree, kernel, arguments, job)

    def place(self, directory: Path) -> Path:
        """Where the guest has a DIRECTORY that it can write to: in virtual time always the same."""
        return PLACE if self.engine == VIRTUAL else directory

    def fairlab(
        self,
        arguments: Sequence[str],
        writable: Path | None,
        seconds: float = 0,
        memory: int = 0,
        more: Sequence[str] = (),
    ) -> None:
        """Run fairlab in the guest; MEMORY is in MiB.  Raise ReportedError if it fails.

        MORE are options of scripts/vm.
        """
        timeout = self.timeout or round(BOOT_TIMEOUT + SECONDS_PER_SECOND * seconds)
        options = [*more, "--timeout", str(timeout)]
        options += ["--rw", f"{writable}:{self.place(writable)}"] if writable else []
        options += ["--mem", f"{memory}M"] if memory else []
        status = self.command([*options, "--", self._script("fairlab"), *arguments])
        if status:
            raise ReportedError(1 if status == VM_TIMEOUT else status)

    def command(self, words: Sequence[str]) -> int:
        """Run a command in the guest; WORDS are options of scripts/vm, `--` and the command.

        Returns the command's exit status, or VM_TIMEOUT.  Raises ReportedError if the guest fails.
        """
        command = [self._script("vm"), "--engine", self.engine, "--kernel", self.kernel]
        command += ["--steady"] if self._steady() else []
        command += ["--seed", str(self.seed)] if self.engine == VIRTUAL else []
        command += ["--jitter"] if self.jitter else []
        # Packets must not wait for the end of a program's long system call.
        command += ["--append", "preempt=full"] if self.engine == VM else []
        if sys.version_info < (3, 12):
            # Mininet imports distutils, in whose place setuptools puts its own, and itself: in an
            # emulated machine that takes five seconds.
            command += ["--env", "SETUPTOOLS_USE_DISTUTILS=stdlib"]
        process = subprocess.Popen(
            [*command, *words],
            stdin=subprocess.DEVNULL,
            preexec_fn=host.die_with_parent,  # noqa: PLW1509 (we have no threads)
        )
        try:
            status = process.wait()
        finally:
            # On a signal scripts/vm ends its guest; only then do we clean up.
            if process.poll() is None:
                process.terminate()
                process.wait()
        if status in FAILED:
            raise ReportedError(FAILED[status])
        return status


#: Measures jobs.
Engine = Here | Vm
