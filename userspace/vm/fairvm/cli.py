# SPDX-License-Identifier: GPL-2.0
"""scripts/vm: run a command as root inside a chosen kernel, on the host's files.

It boots a kernel, with the project's modules where modprobe finds them, its plugins where tc does
and its programs in the PATH, and runs COMMAND in it.  Installed (`fairvm`) and started outside of
the project's tree, it has the kernel's own modules only.  There are three engines:

    vm       a stock distribution kernel in qemu, or one with checks (checked.py)
    native   User-Mode Linux of the same version, built from Debian's source (uml.py): a kernel that
             is a program, so its code runs at the machine's own speed; with --debug, one with
             KASAN, lockdep and other checks
    virtual  the same program in virtual time: the clock stops while there is work, and jumps to the
             next timer when there is none.  The same command with the same --seed makes the same
             packets at the same nanoseconds (exact.py)

The guest's root is the host's, read-only (over 9p or hostfs) with a tmpfs on top.  So every program
of the host has its own path in the guest, and only files in directories given with --rw survive.
(The guest caches what it has read: it may miss later changes of the host's files.)  stdout and
stderr of the command are copied to ours byte for byte as they are written; its stdin is empty.
There is no network to the outside.

With --arch, the kernel is Debian's for another machine, and so are the guest's files: packages of
Debian, and the tree with programs that were compiled for it (foreign.py). With --root, the guest
has the files and the modules of that directory.

A run fails if the kernel reported an error: a splat (BUG, WARNING, Oops, ...) in its log, or its
taint flag, is shown and makes the exit status 70 even if the command succeeded.  If the splat shows
that qemu's emulation did what no processor does (splat.py), the status is 125.

The engine vm uses KVM if a short trial boot shows that it works, else qemu's emulation (TCG).  With
--steady the guest's clock counts instructions instead of following the host's, so that measurements
do not depend on the host's load; that implies emulation and one CPU.

The machine ends with this program.  No root is needed on the host; the guest can read the files
that the user can.  (User-Mode Linux then needs user namespaces, see jail.py; in it, files of other
users belong to the user nobody.)

Requires Linux on x86-64, qemu 7.2 or newer, static busybox.

Exit status: the command's; 70 for a splat; 71 for a run in virtual time that cannot be repeated;
124 after the timeout; 125 if the machine itself failed; 2 for an invalid request; 128 + N if
stopped by signal N.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from fairvm import checked, exact, foreign, host, kernels, modules, uml
from fairvm.architecture import AMD64, ARCHITECTURES
from fairvm.cache import Kernel, build_dir
from fairvm.capture import FingerprintFile, hash_capture
from fairvm.errors import (
    EXIT_MACHINE,
    EXIT_NOT_REPEATABLE,
    EXIT_SPLAT,
    EXIT_TIMEOUT,
    EXIT_USAGE,
    NotRepeatableError,
    UsageError,
    VmError,
)
from fairvm.initrd import base_initrd, run_files
from fairvm.machine import BOOT_LIMIT, CAPTURE_DESCRIPTOR, STOPPING, Machine, Outcome
from fairvm.qemu import Qemu, choose_accelerator
from fairvm.request import Request, complain, parse
from fairvm.splat import find_splat, impossible_flags
from fairvm.uml_machine import Uml

KEPT_LOGS = 30
#: The accelerators that are qemu's emulation.
EMULATED = ("tcg", "mttcg")
#: What we say of it if it did what no processor does.
EMULATOR_FAILED = "the emulator failed"


class Stopped(Exception):
    """A signal terminates us."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def judge(request: Request, outcome: Outcome, log: Path) -> int:
    """Report the result of a run; return our exit status."""
    try:
        console = log.read_text(errors="replace")
        with log.open("a") as handle:
            handle.write("\n--- dmesg ---\n" + outcome.dmesg)
    except FileNotFoundError:
        console = ""
    # With --debug, User-Mode Linux fails one of its own checks while it boots (in 6.1, a use of a
    # maple tree without RCU), which is unrelated to the command.  An emulated kernel with checks
    # boots so slowly that a busy host makes it report stalls.
    checks = request.debug or request.kernel in checked.NAMES
    splat = find_splat(console, outcome.dmesg, outcome.taint, from_start=not checks)
    if splat:
        complain(f"the kernel splatted (full log: {log})")
        print("\n".join(f"  {line}" for line in splat), file=sys.stderr, flush=True)
    if request.environment.get("FAIRPATH_ACCEL") in EMULATED and (flags := impossible_flags(splat)):
        raise VmError(f"{EMULATOR_FAILED}: no x86 processor can have EFLAGS {flags}")
    if outcome.output_closed:
        return 128 + signal.SIGPIPE
    if exact.MARK in outcome.errors:
        raise NotRepeatableError(outcome.errors[outcome.errors.index(exact.MARK) :].splitlines()[0])
    if outcome.timed_out and outcome.spins:
        raise NotRepeatableError(
            f"{exact.MARK}a program of the guest has computed without a system call when the"
            f" timeout of {request.timeout:g} s was over; virtual time passes only between calls"
        )
    if outcome.timed_out:
        limit = request.timeout if outcome.ready else max(request.timeout, BOOT_LIMIT)
        doing = "the command was still running" if outcome.ready else "the guest was still booting"
        complain(f"timeout after {limit:g} s: {doing} (kernel log: {log})")
        return EXIT_TIMEOUT
    if outcome.status is not None:
        return EXIT_SPLAT if splat and outcome.status == 0 else outcome.status
    if splat and outcome.ready:
        complain("the kernel died during the command")
        return EXIT_SPLAT
    if outcome.failure:
        raise VmError(f"{outcome.failure} (kernel log: {log})")
    if outcome.ready:
        raise VmError(f"the guest ended before the command (kernel log: {log})")
    last = [line for line in (outcome.errors or console).splitlines() if line.strip()][-3:]
    raise VmError("; ".join(["the guest did not boot", *last, f"kernel log: {log}"]))


def new_log() -> Path:
    """The path for this run's kernel log; deletes the oldest logs."""
    directory = build_dir() / "vm"
    directory.mkdir(parents=True, exist_ok=True)
    for old in sorted(directory.glob("*.log"))[:-KEPT_LOGS]:
        # That of a long run is still read at its end.
        if not Path("/proc", old.stem.rpartition("-")[2]).exists():
            old.unlink(missing_ok=True)
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return directory / f"{now}-{os.getpid()}.log"


def execute(request: Request) -> int:
    """Build everything that REQUEST needs, run it, return the exit status."""
    host.progress = not request.quiet
    if request.root:
        kernel = kernels.in_root(Path(request.kernel), request.root, build_dir())
    elif request.engine == "vm":
        kernel = kernels.get(request.kernel, architecture=ARCHITECTURES[request.architecture])
    else:
        kernel = uml.get(request.kernel, request.debug)
    root = kernel.directory
    if request.own_modules:
        root = modules.build_modules(kernel, quiet=not request.verbose)
        # For another machine they are built at the same places of a copy of the tree.
        foreign_programs = host.top() / "build/tc", host.top() / "build/slbnctl"
        native = kernel.architecture == AMD64
        plugins, programs = modules.build_programs() if native else foreign_programs
        request.environment.setdefault("TC_LIB_DIR", str(plugins))
        request.environment["PATH"] = f"{programs}:{request.environment['PATH']}"
    busybox = None
    if kernel.architecture != AMD64:
        request.root = foreign.prepare(kernel, root if request.own_modules else None)
        busybox = request.root / "usr/bin/busybox"
    if request.root:
        root = Path("/")
    accelerator = choose_accelerator(request, kernel) if request.engine == "vm" else "none"
    request.environment |= {
        "FAIRPATH_ENGINE": request.engine,
        "FAIRPATH_ACCEL": accelerator,
        "FAIRPATH_STEADY": str(int(request.steady or request.engine == "virtual")),
    }
    extra = []
    if request.engine == "virtual":
        request.environment["FAIRPATH_VM_SEED"] = str(request.seed)
        extra = guest_modules(request, kernel)
    log = new_log()
    initrd = base_initrd(kernel, busybox) + run_files(request, kernel, root, extra)
    machine: Machine
    if request.engine == "vm":
        machine = Qemu(kernel, initrd, log, request.memory, list(request.writable), request.append)
        machine.accelerator, machine.smp = accelerator, request.smp
        machine.steady = request.steady
        machine.root = request.root or machine.root
        if request.kernel in checked.NAMES:
            machine.append = [*checked.ARGUMENTS, *machine.append]
    else:
        machine = Uml(kernel, initrd, log, request.memory, list(request.writable), request.append)
        if request.engine == "virtual":
            machine.seed = request.seed
    with capturing(request) as machine.capture:
        outcome = machine.run(request.timeout, request.trace)
    return judge(request, outcome, log)


def guest_modules(request: Request, kernel: Kernel) -> list[list[str]]:
    """The modules that only this guest loads, with their parameters."""
    built = modules.build_guest_modules(kernel)
    extra = []
    if request.jitter:
        request.environment["FAIRPATH_JITTER"] = str(request.seed)
        extra.append([str(built / "jitter.ko"), f"seed={request.seed}"])
    if request.capture or request.fingerprints:
        names = [f"devices={','.join(request.devices)}"] if request.devices else []
        names += ["fingerprints=1"] if request.fingerprints else []
        extra.append([str(built / "capture.ko"), f"fd={CAPTURE_DESCRIPTOR}", *names])
    return extra


@contextlib.contextmanager
def capturing(request: Request) -> Iterator[int | None]:
    """The descriptor to which the guest writes packets; at the end, print their hash."""
    if request.fingerprints:
        with FingerprintFile(request.fingerprints) as kept:
            yield kept.descriptor
        path, digest, packets = request.fingerprints, kept.digest, kept.packets
    elif request.capture:
        yield os.open(request.capture, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        path, (digest, packets) = request.capture, hash_capture(request.capture)
    else:
        yield None
        return
    if not request.quiet:
        complain(f"{path}: {packets} packets, SHA-256 {digest}")


def stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def main() -> int:
    for number in STOPPING:
        signal.signal(number, stop)
    try:
        return execute(parse(sys.argv[1:]))
    except UsageError as error:
        complain(str(error))
        return EXIT_USAGE
    except NotRepeatableError as error:
        complain(str(error))
        return EXIT_NOT_REPEATABLE
    except (VmError, OSError) as error:
        complain(str(error))
        return EXIT_MACHINE
    except Stopped as error:
        complain(f"stopped by {error}")
        return 128 + error.number
