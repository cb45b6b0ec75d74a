# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/vm."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from fairvm.archive import SERIES
from fairvm.errors import UsageError

ENGINES = ("vm", "native", "virtual")
# mttcg emulates each CPU in its own thread, which finds more races.  It is not the default because
# qemu itself has one: sometimes a CPU executes a breakpoint that the kernel has just patched away,
# and the guest dies of "Oops: int3" (seen with qemu 7.2 and, more rarely, 10.0).  The kernels of
# checked.py do not patch themselves.
ACCELERATORS = ("auto", "kvm", "tcg", "mttcg")
MAX_CPUS = 64
ALWAYS_PASSED = ("PATH", "HOME", "TERM", "LANG", "TZ")


@dataclass
class Request:
    """A parsed and checked command line."""

    command: list[str]
    engine: str
    debug: bool
    kernel: str
    smp: int
    memory: str
    timeout: float
    steady: bool
    accelerator: str
    writable: list[Path]
    append: list[str]
    environment: dict[str, str]
    own_modules: bool
    quiet: bool
    verbose: bool
    jitter: int | None = None  # the seed of timing perturbation
    start: float = field(default_factory=time.monotonic)

    def trace(self, text: str) -> None:
        """With --verbose, print TEXT with the time since the start."""
        if self.verbose:
            complain(f"[{time.monotonic() - self.start:5.1f} s] {text}")


def complain(text: str) -> None:
    """Print an error or a warning."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see vm --help")


def _parser() -> Parser:
    parser = Parser(
        prog="vm",
        usage="vm [OPTION]... -- COMMAND...",
        description="Run a command as root in a chosen kernel, on this machine's files.",
        epilog="Exit status: the command's; 70 kernel splat; 124 timeout; 125 the machine failed.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--kernel",
        default="6.1",
        metavar="VERSION",
        help="6.1 (default), 6.12, 7.2, 6.12-rt, 6.12-debug, 6.12-kcsan, host, PATH",
    )
    add("--engine", default="vm", help=f"one of: {', '.join(ENGINES)} (default vm)")
    add("--debug", action="store_true", help="a kernel with KASAN, lockdep, ... (native, virtual)")
    add("--smp", type=int, default=1, metavar="N", help="CPUs (default 1)")
    add("--mem", default="2G", metavar="SIZE", help="memory, such as 512M or 2G (default)")
    add(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="limit for boot and command (default 600)",
    )
    add("--steady", action="store_true", help="a guest clock independent of the host's load")
    add(
        "--jitter",
        type=int,
        metavar="SEED",
        help="start each process up to 1 ms later, at random by this seed (virtual)",
    )
    add("--accel", default="auto", help=f"one of: {', '.join(ACCELERATORS)}")
    add("--rw", action="append", default=[], metavar="DIR", help="let the guest write to DIR")
    add("--env", action="append", default=[], metavar="NAME[=VALUE]", help="pass a variable")
    add("--append", action="append", default=[], metavar="ARGS", help="more kernel arguments")
    add("--no-modules", action="store_true", help="only the kernel's own modules, not ours")
    add("--quiet", action="store_true", help="no progress messages")
    add("--verbose", action="store_true", help="report each step and its reason")
    return parser


def _check(parsed: argparse.Namespace) -> None:
    """Raise UsageError for invalid values or combinations of options."""
    for what, value, known in (
        ("engine", parsed.engine, ENGINES),
        ("accelerator", parsed.accel, ACCELERATORS),
    ):
        if value not in known:
            raise UsageError(f"no {what} '{value}'; there are: {', '.join(known)}")
    if not 1 <= parsed.smp <= MAX_CPUS:
        raise UsageError(f"--smp {parsed.smp}: must be 1 to {MAX_CPUS}")
    if not re.fullmatch(r"[1-9][0-9]*[MG]", parsed.mem):
        raise UsageError(f"--mem {parsed.mem}: must be a number with M or G, such as 2G")
    if not parsed.timeout > 0:
        raise UsageError(f"--timeout {parsed.timeout:g}: must be above 0")
    if parsed.steady and (parsed.smp != 1 or parsed.accel not in ("auto", "tcg")):
        raise UsageError("--steady means one emulated CPU: not with --smp, --accel kvm")
    if parsed.jitter is not None and parsed.engine != "virtual":
        raise UsageError("--jitter works with --engine virtual only")
    if parsed.jitter is not None and not 0 <= parsed.jitter < 2**64:
        raise UsageError(f"--jitter {parsed.jitter}: must be 0 to 2^64 - 1")
    if parsed.engine == "vm":
        if parsed.debug:
            raise UsageError("--debug is for --engine native; for qemu: --kernel 6.12-debug")
        return
    for option, used in (
        ("--smp", parsed.smp != 1),
        ("--accel", parsed.accel != "auto"),
        ("--steady", parsed.steady),
    ):
        if used:
            hint = "; --engine virtual is always steady" if option == "--steady" else ""
            raise UsageError(f"{option} does not work with --engine {parsed.engine}{hint}")
    if parsed.kernel not in SERIES:
        raise UsageError(
            f"--engine {parsed.engine} builds its kernel: --kernel must be one of"
            f" {', '.join(SERIES)}, not {parsed.kernel}"
        )


def parse(arguments: list[str]) -> Request:
    """Parse and check the command line; nothing is fetched, built or started."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = arguments[:split], arguments[split + 1 :]
    parsed = _parser().parse_args(options)
    _check(parsed)
    if not command:
        raise UsageError("no command: vm [OPTION]... -- COMMAND...")
    writable = sorted({Path(path).resolve() for path in parsed.rw})
    for path in writable:
        if not path.is_dir():
            raise UsageError(f"--rw {path}: no such directory")
    return Request(
        command=command,
        engine=parsed.engine,
        debug=parsed.debug,
        kernel=parsed.kernel,
        smp=parsed.smp,
        memory=parsed.mem,
        timeout=parsed.timeout,
        steady=parsed.steady,
        accelerator=parsed.accel,
        writable=writable,
        append=parsed.append,
        environment=environment(parsed.env),
        own_modules=not parsed.no_modules,
        quiet=parsed.quiet,
        verbose=parsed.verbose,
        jitter=parsed.jitter,
    )


def environment(named: list[str]) -> dict[str, str]:
    """The command's environment: ALWAYS_PASSED, locale and the variables NAMED by --env."""
    always = [*ALWAYS_PASSED, *(name for name in os.environ if name.startswith("LC_"))]
    passed = {name: os.environ[name] for name in always if name in os.environ}
    path = passed.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    # The command runs as root, even if our user does not have these in the PATH.
    path += [extra for extra in ("/usr/local/sbin", "/usr/sbin", "/sbin") if extra not in path]
    passed |= {"PATH": ":".join(path), "USER": "root", "LOGNAME": "root"}
    for setting in named:
        name, equals, value = setting.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: no such variable in the environment")
        passed[name] = value if equals else os.environ[name]
    return passed
