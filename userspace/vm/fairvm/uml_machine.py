# SPDX-License-Identifier: GPL-2.0
"""The engines `native` and `virtual`: User-Mode Linux, a kernel that is a program of the host."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fairvm import exact, jail
from fairvm.cache import cache_dir
from fairvm.errors import EXIT_MACHINE
from fairvm.host import need
from fairvm.machine import COMMON_ARGUMENTS, Machine, Outcome, die_with_parent

# The files of User-Mode Linux itself (memory, socket) are written to the jail's tmpfs.
UML_ARGUMENTS = [
    "console=ttyS0",
    *COMMON_ARGUMENTS,
    "con=null",
    "ssl=null",
    f"uml_dir={jail.SCRATCH}/",
]
# Since this version it can intercept system calls by seccomp instead of ptrace, which costs half.
# Guest processes then can write to their kernel's memory: acceptable, since all of them run as root
# of the guest, and the jail protects the host.
SECCOMP_SINCE = (6, 16)
# A program spins if the guest's processes use so much CPU time [ticks of 10 ms] while its kernel
# uses none.  How long that takes depends on how busy the host is.
SAMPLE_TICKS = 25
SAMPLE_SECONDS = 0.1
SAMPLE_LIMIT = 10.0
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)


def busy_times() -> dict[int, int]:
    """The time that each CPU has been busy since boot, in ticks of 10 ms."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if cpu := re.fullmatch(r"cpu(\d+)", name):
            user, nice, system, _idle, _iowait, interrupts, soft = map(int, ticks[:7])
            found[int(cpu[1])] = user + nice + system + interrupts + soft
    return found


def cpu_times() -> dict[int, tuple[int, int]]:
    """Of each process: its parent, and the CPU time that it has used, in ticks of 10 ms."""
    found = {}
    # A longer pattern would look at each file itself, and fail for a process that has just ended.
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            found[int(entry.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    return found


@contextlib.contextmanager
def own_cpu() -> Iterator[int | None]:
    """Reserve the least busy CPU that no other machine of this user has reserved, while this one
    runs; None if all are reserved.

    User-Mode Linux and its processes alternate at each system call.  On one CPU that costs half as
    much as between two, where the other has to be woken.
    """
    directory = cache_dir() / "cpus"
    directory.mkdir(parents=True, exist_ok=True)
    before = busy_times()
    time.sleep(0.1)
    busy = {cpu: ticks - before.get(cpu, 0) for cpu, ticks in busy_times().items()}
    with contextlib.ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0), key=lambda cpu: busy.get(cpu, 0)):
            handle = stack.enter_context((directory / str(cpu)).open("a"))
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield cpu
                return
        yield None


@dataclass
class Uml(Machine):
    """User-Mode Linux, in real or virtual time."""

    seed: int | None = None  # of a run in virtual time
    cpu: int | None = None  # the CPU to run on, if one could be reserved

    def run(self, timeout: float, trace: Callable[[str], None], trial: bool = False) -> Outcome:
        with own_cpu() as self.cpu:
            return super().run(timeout, trace, trial)

    def command(self, initrd: int, console: int, ports: dict[str, int]) -> list[str]:
        # When the first process of the jail's PID namespace ends, the kernel kills all others.  It
        # is a shell, since a first process cannot abort(), as User-Mode Linux does when it panics.
        line = [need("unshare", "util-linux"), "--fork", "--kill-child=SIGKILL", "--"]
        # The default for the memory's file is the user's TMPDIR, which is read-only in the jail.
        line += ["sh", "-c", f'TMPDIR={jail.SCRATCH} "$@"; exit', "sh"]
        line += [str(self.kernel.image), f"mem={self.memory}", f"initrd=/proc/self/fd/{initrd}"]
        line += UML_ARGUMENTS
        if self.seed is not None:
            line += ["time-travel=inf-cpu", *exact.arguments(self.seed)]
        version = tuple(map(int, self.kernel.release.split(".")[:2]))
        line += ["seccomp=auto"] if version >= SECCOMP_SINCE else []
        for number, (name, descriptor) in enumerate({"console": console, **ports}.items()):
            line += [f"ssl{number}=null,fd:{descriptor}", f"fairpath.{name}=ttyS{number}"]
        return line + self.append

    def spins(self, pid: int) -> bool:
        # Each process of the guest is a child of its kernel, which handles its system calls.
        before = cpu_times()
        end = time.monotonic() + SAMPLE_LIMIT
        while time.monotonic() < end:
            time.sleep(SAMPLE_SECONDS)
            used = {
                child: (parent, ticks - before[child][1])
                for child, (parent, ticks) in cpu_times().items()
                if child in before
            }
            shell = [child for child, (parent, _) in used.items() if parent == pid]
            kernel = next((each for each, (above, _) in used.items() if above in shell), None)
            if kernel is None or used[kernel][1]:
                return False
            if sum(own for above, own in used.values() if above == kernel) >= SAMPLE_TICKS:
                return True
        return False

    def prepare(self) -> Callable[[], None]:
        namespaces = jail.Jail(self.writable)
        bind = die_with_parent()
        libc = ctypes.CDLL(None)

        def steps() -> None:
            if self.seed is not None:
                # The addresses of the kernel's objects decide their order in some tables.
                libc.personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE))
            if self.cpu is not None:
                os.sched_setaffinity(0, {self.cpu})
            namespaces.enter()
            bind()

        return jail.reporting(steps, EXIT_MACHINE)
