# SPDX-License-Identifier: GPL-2.0
"""One run of a guest: start the machine, follow its status, stop it.

The machine never outlives us: it is killed whenever we exit, and by the kernel (PR_SET_PDEATHSIG)
if we are killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import shlex
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fairvm.cache import Kernel
from fairvm.errors import EXIT_MACHINE
from fairvm.request import complain
from fairvm.streams import Stream, memory_file, memory_text

COMMON_ARGUMENTS = [
    "loglevel=5",  # warnings and worse: the console is slow, and dmesg has the rest
    "oops=panic",  # after an oops, most guests hang
]
# The guest's descriptors have the same numbers in each run: they are on its kernel's command line,
# which it can read.
# A machine that has not booted after this time [s] is stopped.  Booting takes a second to five.
BOOT_LIMIT = 300.0
FIRST_DESCRIPTOR = 100
CAPTURE_DESCRIPTOR = FIRST_DESCRIPTOR + 6
# The signals that end a run.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def numbered(descriptor: int, index: int) -> int:
    """The same open file as descriptor FIRST_DESCRIPTOR + INDEX, or the next that is free."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR + index)
    os.close(descriptor)
    return moved


def die_with_parent() -> Callable[[], None]:
    """A step for a new child process that binds its life to ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def bind() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        set_death_signal = 1
        libc.prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it exited before prctl
            os._exit(EXIT_MACHINE)

    return bind


@dataclass
class Outcome:
    """The result of a run."""

    status: int | None = None  # of the command, if it ended
    taint: int = 0
    failure: str = ""  # the reason why the guest could not run the command
    timed_out: bool = False
    spins: bool = False  # a program computed without a system call when the time was over
    output_closed: bool = False
    ready: bool = False
    dmesg: str = ""
    errors: str = ""  # of the machine's process

    def update(self, line: str) -> None:
        """Process one line from the guest's status port (see guest-init)."""
        event, _, rest = line.partition(" ")
        if event == "ready":
            self.ready = True
        elif event == "exit":
            status, taint = rest.split()
            self.status, self.taint = int(status), int(taint)
        elif event == "fail":
            self.failure = rest


@dataclass
class Machine(ABC):
    """One run of a machine."""

    kernel: Kernel
    initrd: bytes
    log: Path
    memory: str = "2G"
    writable: list[Path] = field(default_factory=list)
    append: list[str] = field(default_factory=list)
    capture: int | None = None  # a descriptor for what the guest's devices see

    @abstractmethod
    def command(self, initrd: int, console: int, ports: dict[str, int]) -> list[str]:
        """The command line, with the numbers of open file descriptors."""

    def prepare(self) -> Callable[[], None]:
        """A step that the new process runs before it executes the command."""
        return die_with_parent()

    def spins(self, pid: int) -> bool:
        """Does a program of the guest compute without a system call?  PID started the machine."""
        return False

    def run(self, timeout: float, trace: Callable[[str], None], trial: bool = False) -> Outcome:
        """Boot, run the command and stop the machine; a trial stops it as soon as it is up.

        TIMEOUT [s] is for the command, or for a trial's boot.  Other boots have the larger one of
        it and BOOT_LIMIT, since a busy host would otherwise take the time of a short command.
        """
        outcome = Outcome()
        pipes = {name: os.pipe() for name in ("stdout", "stderr", "status")}
        for index, (name, (read_end, write_end)) in enumerate(pipes.items()):
            pipes[name] = read_end, numbered(write_end, index)
        dmesg = numbered(memory_file("dmesg"), 3)
        errors = memory_file("errors")
        initrd = numbered(memory_file("initrd", self.initrd), 4)
        ports = {name: write_end for name, (_, write_end) in pipes.items()} | {"dmesg": dmesg}
        console = numbered(os.open(self.log, os.O_WRONLY | os.O_CREAT, 0o666), 5)
        passed = [initrd, console, *ports.values()]
        if self.capture is not None:
            passed.append(numbered(self.capture, CAPTURE_DESCRIPTOR - FIRST_DESCRIPTOR))
        command = self.command(initrd, console, ports)
        trace(f"running {shlex.join(command)}")
        # A signal between fork and `try` would leave the machine running for a moment.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=passed,
            start_new_session=True,
            preexec_fn=self.prepare(),  # noqa: PLW1509 - there are no threads yet
        )
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            for descriptor in passed:
                if descriptor != dmesg:
                    os.close(descriptor)
            closed, close = os.pipe()
            targets = {} if trial else {"stdout": 1, "stderr": 2}
            streams = [Stream(pipes[name][0], to, close, complain) for name, to in targets.items()]
            self._follow_status(outcome, pipes["status"][0], closed, timeout, trace, trial)
            outcome.spins = outcome.timed_out and self.spins(process.pid)
        finally:
            process.kill()
            process.wait()
        os.close(pipes["status"][0])
        if not outcome.output_closed:
            for stream in streams:
                stream.finish()
        outcome.dmesg = memory_text(dmesg)
        outcome.errors = memory_text(errors).strip()
        return outcome

    @staticmethod
    def _follow_status(
        outcome: Outcome,
        status: int,
        closed: int,
        timeout: float,
        trace: Callable[[str], None],
        trial: bool,
    ) -> None:
        """Read the guest's status port until the run ends, by whichever cause."""
        pending = b""
        deadline = time.monotonic() + (timeout if trial else max(timeout, BOOT_LIMIT))
        while True:
            left = deadline - time.monotonic()
            readable, _, _ = select.select([status, closed], [], [], max(left, 0))
            if closed in readable:
                outcome.output_closed = True
                return
            if not readable:
                outcome.timed_out = True
                return
            data = os.read(status, 4096)
            if not data:  # the machine has ended
                return
            pending += data
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                trace(f"the guest reports: {line.decode(errors='replace')}")
                booted = not outcome.ready
                outcome.update(line.decode(errors="replace"))
                if booted and outcome.ready:
                    deadline = time.monotonic() + timeout
                if outcome.status is not None or outcome.failure or (trial and outcome.ready):
                    return
