# SPDX-License-Identifier: GPL-2.0
"""The machine that measures: its tools, its versions, its load.

Everything here is about the kernel that this process runs on, which may be a guest's.
"""

import contextlib
import ctypes
import operator
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from fairlab.model.errors import CannotRunError

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

# Program -> the package that has it, in Debian and Ubuntu.
PROGRAMS = {
    "iperf3": "iperf3",
    "ip": "iproute2",
    "tc": "iproute2",
    "ping": "iputils-ping",
    "modprobe": "kmod",
}

# Our own, from userspace/traffic: many small flows and their sink; a few large flows.
TRAFFIC, FLOW = "fairtraffic", "fairflow"

MOST_FILES = Path("/proc/sys/fs/nr_open")
TCP_MEMORY = Path("/proc/sys/net/ipv4/tcp_mem")
BACKLOG = Path("/proc/sys/net/core/netdev_max_backlog")
LARGE_BACKLOG = 100_000
BUILD_ID_BYTES = 20
PATIENCE = 10  # seconds until a process that does not end is killed


def complete_path() -> None:
    """Add the directories of system programs to PATH."""
    path = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    os.environ["PATH"] = ":".join([*path, *(place for place in SBIN if place not in path)])


def require_root() -> None:
    """Raise CannotRunError without root, which namespaces and queues need."""
    if os.geteuid() != 0:
        raise CannotRunError(
            "the engine 'host' needs root: use sudo, or --engine vm, which does not"
        )


def require_tools() -> None:
    """Raise CannotRunError if root, or a program or module that measuring needs, is missing."""
    require_root()
    complete_path()
    find_plugins()
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        packages = " ".join(sorted({PROGRAMS[program] for program in missing}))
        raise CannotRunError(f"missing: {', '.join(missing)}; install the packages: {packages}")


def tree() -> Path | None:
    """The project's tree, if this package is part of it."""
    top = Path(__file__).resolve().parents[4]
    return top if (top / "scripts" / "vm").exists() else None


def project_version(tree: Path | None) -> str:
    """The project's version by git describe; empty without git."""
    if tree is None or not (tree / ".git").exists():
        return ""
    with contextlib.suppress(OSError, CannotRunError):
        return run("git", "-C", str(tree), "describe", "--always", "--dirty", "--tags").strip()
    return ""


def traffic_program(name: str = TRAFFIC) -> str:
    """The path of a traffic program: the tree's own, or an installed one."""
    top = tree()
    own = top / "build" / "traffic" / name if top else Path()
    found = str(own) if own.is_file() else shutil.which(name)
    if not found:
        raise CannotRunError(f"missing: {name}; in the project's tree: make traffic")
    return found


def random_device() -> Path | None:
    """The library by which C++ programs have random numbers of the kernel, not of the CPU."""
    top = tree()
    found = top / "build" / "lab" / "random_device.so" if top else None
    return found if found and found.is_file() else None


def find_plugins() -> None:
    """Let tc find the tree's own plugins, unless TC_LIB_DIR is set."""
    top = tree()
    if top and any((top / "build" / "tc").glob("q_*.so")):
        os.environ.setdefault("TC_LIB_DIR", str(top / "build" / "tc"))


def run(*command: str) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().replace("\n", "; ")
        raise CannotRunError(f"{' '.join(command)}: {reason or f'exit status {done.returncode}'}")
    return done.stdout


# The signals that end a run.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def die_with_parent() -> None:
    """In a child: end when the parent is killed and cannot clean up."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End programs: those that do not end in time are killed."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def become_traffic() -> None:
    """In a traffic program: lower our priority, so that forwarding goes first.

    Under load the kernel forwards in a thread of ordinary priority, which on a single CPU would
    wait for the sending programs and delay the bottleneck.
    """
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    os.nice(10)


@contextlib.contextmanager
def changed(setting: Path, text: str) -> Iterator[None]:
    """Change a setting of the kernel within a `with` block."""
    before = setting.read_text()
    setting.write_text(text)
    try:
        yield
    finally:
        setting.write_text(before)


def large_backlog() -> contextlib.AbstractContextManager[None]:
    """Raise the backlog limit between namespaces, so that bursts are not dropped there.

    This and forwarding_first() are all that a run changes on the machine itself.
    """
    return changed(BACKLOG, str(max(int(BACKLOG.read_text()), LARGE_BACKLOG)))


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Let programs have as many files as the kernel allows: each flow in progress needs one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = int(MOST_FILES.read_text())
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def ample_tcp_memory() -> contextlib.AbstractContextManager[None]:
    """Let TCP use most of the free memory, not a sixteenth of it.

    Buffers are larger than their packets, and all hosts share one limit.  Above it TCP drops
    received packets, which would look like losses in the network.
    """
    pages = os.sysconf("SC_AVPHYS_PAGES") * 3 // 4
    return changed(TCP_MEMORY, f"{pages} {pages} {pages}")


@contextlib.contextmanager
def forwarding_first() -> Iterator[None]:
    """Raise the priority of the kernel's forwarding threads (ksoftirqd) above all programs.

    Under load the kernel leaves packets to these threads, which share the CPU with programs in
    turns of milliseconds: packets would arrive in bursts that no network made, and links would
    pause.
    """
    before = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().startswith("ksoftirqd/"):
                thread = int(entry.name)
                before[thread] = os.sched_getscheduler(thread), os.sched_getparam(thread)
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        for thread, (policy, parameter) in before.items():
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, policy, parameter)


@dataclass(frozen=True)
class Load:
    """How busy the machine has been since it booted."""

    idle: float  # seconds, all CPUs
    total: float
    stolen: float
    backlog_drops: int

    @classmethod
    def now(cls) -> "Load":
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        with open("/proc/net/softnet_stat", encoding="ascii") as softnet:
            drops = sum(int(line.split()[1], 16) for line in softnet)
        second = os.sysconf("SC_CLK_TCK")
        idle, waiting, stolen = ticks[3], ticks[4], ticks[7]
        return cls((idle + waiting) / second, sum(ticks) / second, stolen / second, drops)

    def since(self, before: "Load") -> "Load":
        return Load(*map(operator.sub, astuple(self), astuple(before)))

    @property
    def idle_share(self) -> float:
        return self.idle / self.total if self.total else 1.0


def module_version(cc: str) -> dict[str, str]:
    """The module of a congestion control, and its version if the kernel has it."""
    name = f"tcp_{cc}"
    directory = Path("/sys/module") / name
    if not directory.is_dir():
        return {"module": "built in"}
    found = {"module": name}
    for key in ("srcversion", "version"):
        with contextlib.suppress(OSError):
            found[key] = (directory / key).read_text().strip()
    with contextlib.suppress(OSError):
        note = (directory / "notes" / ".note.gnu.build-id").read_bytes()
        found["build_id"] = note[-BUILD_ID_BYTES:].hex()
    with contextlib.suppress(CannotRunError):
        found["file"] = run("modinfo", "-F", "filename", name).strip()
    return found
