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

from fairvm import __version__, exact, host
from fairvm.architecture import ARCHITECTURES
from fairvm.archive import SERIES
from fairvm.errors import UsageError

ENGINES = ("vm", "native", "virtual")
# mttcg emulates each CPU in its own thread, which finds more races.  It is not the default because
# qemu itself has one: sometimes a CPU executes a breakpoint that the kernel has just patched away,
# and the guest dies of "Oops: int3" (seen with qemu 7.2 and, more rarely, 10.0).  The kernels of
# checked.py do not patch themselves.
ACCELERATORS = ("auto", "kvm", "tcg", "mttcg")
MAX_CPUS = 64
#: What select(2) can wait for is not much more [s].
MAX_TIMEOUT = 1e9
ALWAYS_PASSED = ("PATH", "HOME", "TERM", "LANG", "TZ")
# In virtual time the environment is part of what decides the packets: none is inherited.
FIXED_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "USER": "root",
    "LOGNAME": "root",
}
MOST_DEVICES = 16


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
    writable: dict[Path, Path]  # directory -> its place in the guest
    append: list[str]
    environment: dict[str, str]
    own_modules: bool
    quiet: bool
    verbose: bool
    architecture: str = "amd64"
    root: Path | None = None  # of the guest's files, if not this machine's
    seed: int = 0  # of a run in virtual time
    jitter: bool = False
    capture: Path | None = None  # the file for captured packets
    fingerprints: Path | None = None  # the file for their fingerprints
    devices: list[str] = field(default_factory=list)  # of which packets are captured; all if empty
    start: float = field(default_factory=time.monotonic)

    def trace(self, text: str) -> None:
        """With --verbose, print TEXT with the time since the start."""
        if self.verbose:
            complain(f"[{time.monotonic() - self.start:5.1f} s] {text}")


def complain(text: str) -> None:
    """Print an error or a warning."""
    print(f"{host.VM}: {text}", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser() -> Parser:
    parser = Parser(
        prog=host.VM,
        usage=f"{host.VM} [OPTION]... -- COMMAND...",
        description="Run a command as root in a chosen kernel, on this machine's files.",
        epilog="Exit status: the command's; 2 invalid arguments; 70 the kernel reported an error; "
        "71 a run in virtual time cannot be repeated; 124 timeout; 125 the machine failed.",
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
    add(
        "--arch",
        default="amd64",
        metavar="NAME",
        help=f"the machine: one of {', '.join(ARCHITECTURES)} (vm)",
    )
    add(
        "--root",
        metavar="DIR",
        help="the guest has the files of DIR, with its modules, instead of this machine's (vm)",
    )
    add("--debug", action="store_true", help="a kernel with KASAN, lockdep, ... (native, virtual)")
    add("--smp", type=int, default=1, metavar="N", help="CPUs (default 1)")
    add("--mem", default="2G", metavar="SIZE", help="memory, such as 512M or 2G (default)")
    add(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="limit for the command, from when the guest has booted (default 600)",
    )
    add("--steady", action="store_true", help="a guest clock independent of the host's load")
    add(
        "--seed",
        type=int,
        metavar="N",
        help="of all random numbers; the same seed makes the same packets (virtual; default 0)",
    )
    add(
        "--jitter",
        action="store_true",
        help="start each process up to 1 ms later, at random by the seed (virtual)",
    )
    add("--pcap", metavar="FILE", help="write the packets that devices see to FILE (virtual)")
    add(
        "--packets",
        metavar="FILE",
        help="write two octets for each packet that devices send, to compare runs by (virtual)",
    )
    add(
        "--pcap-device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="only of this device (repeatable; default: all)",
    )
    add("--accel", default="auto", help=f"one of: {', '.join(ACCELERATORS)}")
    add(
        "--rw",
        action="append",
        default=[],
        metavar="DIR[:PLACE]",
        help="let the guest write to DIR, which it has at the path PLACE",
    )
    add("--env", action="append", default=[], metavar="NAME[=VALUE]", help="pass a variable")
    add("--append", action="append", default=[], metavar="ARGS", help="more kernel arguments")
    add("--no-modules", action="store_true", help="only the kernel's own modules, not ours")
    add("--quiet", action="store_true", help="no progress messages")
    add("--verbose", action="store_true", help="report each step and its reason")
    add("--version", action="version", version=f"fairvm {__version__}")
    return parser


def _check(parsed: argparse.Namespace) -> None:
    """Raise UsageError for invalid values or combinations of options."""
    for what, value, known in (
        ("engine", parsed.engine, ENGINES),
        ("accelerator", parsed.accel, ACCELERATORS),
        ("machine", parsed.arch, tuple(ARCHITECTURES)),
    ):
        if value not in known:
            raise UsageError(f"no {what} '{value}'; there are: {', '.join(known)}")
    if not 1 <= parsed.smp <= MAX_CPUS:
        raise UsageError(f"--smp {parsed.smp}: must be 1 to {MAX_CPUS}")
    if not re.fullmatch(r"[1-9][0-9]*[MG]", parsed.mem):
        raise UsageError(f"--mem {parsed.mem}: must be a number with M or G, such as 2G")
    if not 0 < parsed.timeout <= MAX_TIMEOUT:
        raise UsageError(f"--timeout {parsed.timeout:g}: must be above 0, at most {MAX_TIMEOUT:g}")
    if parsed.steady and (parsed.smp != 1 or parsed.accel not in ("auto", "tcg")):
        raise UsageError("--steady means one emulated CPU: not with --smp, --accel kvm")
    for option, used in (
        ("--seed", parsed.seed is not None),
        ("--jitter", parsed.jitter),
        ("--pcap", parsed.pcap is not None),
        ("--packets", parsed.packets is not None),
    ):
        if used and parsed.engine != "virtual":
            raise UsageError(f"{option} works with --engine virtual only")
    if parsed.seed is not None and not 0 <= parsed.seed < 2**64:
        raise UsageError(f"--seed {parsed.seed}: must be 0 to 2^64 - 1")
    if parsed.engine == "virtual":
        exact.check_appended(parsed.append)
    _check_capture(parsed)
    if parsed.arch != "amd64" and parsed.accel == "kvm":
        raise UsageError(f"--arch {parsed.arch} is emulated: not with --accel kvm")
    if parsed.root is not None and (not parsed.no_modules or parsed.arch != "amd64"):
        raise UsageError("--root needs --no-modules, and no --arch: its own modules are used")
    if parsed.root is not None and "/" not in parsed.kernel:
        raise UsageError("--root needs --kernel PATH, the image of a kernel whose modules it has")
    if parsed.root is not None and not Path(parsed.root).is_dir():
        raise UsageError(f"--root {parsed.root}: no such directory")
    if parsed.engine == "vm":
        if parsed.debug:
            raise UsageError("--debug is for --engine native; for qemu: --kernel 6.12-debug")
        return
    for option, used in (
        ("--smp", parsed.smp != 1),
        ("--accel", parsed.accel != "auto"),
        ("--steady", parsed.steady),
        ("--arch", parsed.arch != "amd64"),
        ("--root", parsed.root is not None),
    ):
        if used:
            hint = "; --engine virtual is always steady" if option == "--steady" else ""
            raise UsageError(f"{option} does not work with --engine {parsed.engine}{hint}")
    if parsed.kernel not in SERIES:
        raise UsageError(
            f"--engine {parsed.engine} builds its kernel: --kernel must be one of"
            f" {', '.join(SERIES)}, not {parsed.kernel}"
        )


def _parse_writable(words: list[str]) -> dict[Path, Path]:
    """DIR, which has the same path in the guest, or DIR:PLACE."""
    found = {}
    for word in words:
        name, colon, place = word.rpartition(":/")
        path = Path(name if colon else word).resolve()
        if not path.is_dir():
            raise UsageError(f"--rw {word}: no such directory")
        found[path] = Path("/" + place) if colon else path
    return dict(sorted(found.items()))


def _check_capture(parsed: argparse.Namespace) -> None:
    if parsed.pcap is not None and parsed.packets is not None:
        raise UsageError("--pcap and --packets: only one of them")
    if parsed.pcap_device and parsed.pcap is None and parsed.packets is None:
        raise UsageError("--pcap-device needs --pcap FILE or --packets FILE")
    if len(parsed.pcap_device) > MOST_DEVICES:
        raise UsageError(f"--pcap-device: at most {MOST_DEVICES}")
    for name in parsed.pcap_device:
        if not re.fullmatch(r"[^\s/,]{1,15}", name):
            raise UsageError(f"--pcap-device {name}: not the name of a device")
    for option, path in (("--pcap", parsed.pcap), ("--packets", parsed.packets)):
        if path is not None and (not path or not Path(path).absolute().parent.is_dir()):
            raise UsageError(f"{option} {path}: no such directory")


def parse(arguments: list[str]) -> Request:
    """Parse and check the command line; nothing is fetched, built or started."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = arguments[:split], arguments[split + 1 :]
    parsed = _parser().parse_args(options)
    _check(parsed)
    if not command:
        raise UsageError(f"no command: {host.VM} [OPTION]... -- COMMAND...")
    writable = _parse_writable(parsed.rw)
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
        environment=environment(parsed.env, parsed.engine == "virtual"),
        own_modules=not parsed.no_modules and host.tree() is not None,
        quiet=parsed.quiet,
        verbose=parsed.verbose,
        architecture=parsed.arch,
        root=Path(parsed.root).resolve() if parsed.root else None,
        seed=parsed.seed or 0,
        jitter=parsed.jitter,
        capture=Path(parsed.pcap).absolute() if parsed.pcap else None,
        fingerprints=Path(parsed.packets).absolute() if parsed.packets else None,
        devices=parsed.pcap_device,
    )


def environment(named: list[str], fixed: bool) -> dict[str, str]:
    """The command's environment: FIXED_ENVIRONMENT, or our ALWAYS_PASSED and locale; and the
    variables NAMED by --env."""
    if fixed:
        passed = dict(FIXED_ENVIRONMENT)
    else:
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
