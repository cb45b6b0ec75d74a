# SPDX-License-Identifier: GPL-2.0
"""scripts/vm --engine native and virtual.

Common parts (command line, timeout, output) are tested with qemu in test_vm.py; these tests cover
User-Mode Linux: its build, its root file system, and the isolation of the host.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fairvm.cache import Kernel

from tests import launch
from tests.vm.test_vm import (
    KERNEL,
    TOP,
    VM,
    Done,
    children,
    link_or_copy,
    state,
    unprivileged,
    wait_for,
)

NATIVE = ["--engine", "native"]
BUILD_SECONDS = 3600  # the first time, on a busy machine


def vm(*arguments: str, limit: float = 120, own_modules: bool = False) -> Done:
    options = [] if own_modules else ["--no-modules"]
    done: Done = subprocess.run(
        [VM, *options, *arguments], capture_output=True, timeout=limit, check=False
    )
    return done


def get(*arguments: str, version: str = "6.1") -> Path:
    """The directory of a kernel, built if necessary."""
    done = launch.succeed([KERNEL, "get", *arguments, version], timeout=BUILD_SECONDS)
    return Path(done.stdout.rstrip("\n"))


def build_splat(directory: Path, copy: Path) -> Path:
    """Build the module that causes kernel errors for the kernel in DIRECTORY."""
    shutil.copytree(TOP / "tests/vm/splat", copy)
    variables = Kernel(directory).make_variables
    command = ["make", "-C", str(directory / "headers"), f"M={copy}", *variables, "modules"]
    launch.succeed(command)
    return copy / "splat.ko"


@pytest.fixture(scope="module")
def directory() -> Path:
    return get(*NATIVE)


@pytest.fixture(scope="module")
def splat(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_splat(directory, tmp_path_factory.mktemp("splat") / "module")


def descendants(pid: int) -> list[int]:
    """All descendants of process PID."""
    return [found for child in children(pid) for found in [child, *descendants(child)]]


@contextlib.contextmanager
def asleep() -> Iterator[subprocess.Popen[bytes]]:
    """A guest that prints `here` and sleeps."""
    command = [VM, *NATIVE, "--no-modules", "--", "sh", "-c", "printf here; sleep 1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"here"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def sleeping(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with asleep() as process:
        yield process


def test_guest(directory: Path, tmp_path: Path) -> None:
    """Output, exit status, environment, mounts, and the fate of written files."""
    kept = tmp_path / "kept, with a comma and a 'quote'"
    kept.mkdir()
    noise = random.Random(1).randbytes(3 << 20)
    (tmp_path / "noise").write_bytes(noise)
    every_byte = bytes(range(256)) * 64
    (tmp_path / "bytes").write_bytes(every_byte)
    marker = Path(f"/etc/fairpath-test-{os.getpid()}")
    script = tmp_path / "script"
    script.write_text(f"""
        facts() {{
            echo "user $(id -u)"
            echo "pwd $(pwd)"
            echo "colour $COLOUR"
            echo "engine $FAIRPATH_ENGINE $FAIRPATH_STEADY"
            echo "stdin $(wc -c)"
            echo "release $(uname -r)"
            echo "arguments $#: $1, $2"
            ping -c 1 -W 5 127.0.0.1 >/dev/null && echo "lo up"
            for path in /proc/self /proc/config.gz /sys/kernel/debug \
                /sys/kernel/tracing/events/tcp \
                /sys/fs/bpf /sys/fs/cgroup/cgroup.procs /dev/pts/ptmx /dev/shm /dev/null; do
                [ -e "$path" ] || echo "no $path"
            done
            modprobe sch_netem && grep -o ^sch_netem /proc/modules
            tc qdisc add dev lo clsact && echo clsact
            ip netns add one && ip -n one link add type veth && echo veth
            nft add table netdev t && echo nft
        }}
        facts "$@" > {shlex.quote(str(kept))}/facts
        touch {marker} /usr/bin/written && rm -f {TOP}/Makefile
        [ -e {marker} ] && [ ! -e {TOP}/Makefile ] && echo changed >> {shlex.quote(str(kept))}/facts
        cat {tmp_path}/noise
        cat {tmp_path}/bytes > /dev/stderr
        sleep 300 &
        exit 3
        """)
    before = time.time()
    options = [*NATIVE, "--rw", str(kept), "--env", "COLOUR=dark red"]
    done = vm(*options, "--", "bash", str(script), "one two", "$HOME 'x' \\")
    assert done.returncode == 3, done.stderr[-2000:]
    assert done.stdout == noise
    assert done.stderr == every_byte
    assert (kept / "facts").read_text().splitlines() == [
        "user 0",
        f"pwd {Path.cwd()}",
        "colour dark red",
        "engine native 0",
        "stdin 0",
        f"release {(directory / 'release').read_text().strip()}",
        "arguments 2: one two, $HOME 'x' \\",
        "lo up",
        "sch_netem",
        "clsact",
        "veth",
        "nft",
        "changed",
    ]
    assert not marker.exists()
    assert not Path("/usr/bin/written").exists()
    assert (TOP / "Makefile").exists()
    assert before - 5 < (kept / "facts").stat().st_mtime < time.time() + 5


def test_isolation(directory: Path, tmp_path: Path) -> None:
    """The guest's root can mount any directory of the host, but only write to shared ones."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "protected").write_text("original")
    script = f"""
        mkdir /run/host
        mount -t hostfs -o / none /run/host || exit 1
        here=/run/host{tmp_path}
        echo changed > $here/protected
        rm $here/protected
        touch $here/new /run/host/dev/shm/new /run/host/etc/new
        ls /run/host/etc > /dev/null && cat $here/protected
        echo fine > $here/shared/file
        """
    done = vm(*NATIVE, "--rw", str(tmp_path / "shared"), "--", "sh", "-c", script)
    assert done.stdout == b"original", done.stderr
    assert done.stderr.count(b"Read-only file system") >= 3
    assert (tmp_path / "protected").read_text() == "original"
    assert (tmp_path / "shared/file").read_text() == "fine\n"
    assert not (tmp_path / "new").exists()
    # The guest wrote this one, to its own /dev/shm.
    assert not Path("/dev/shm/new").exists()
    assert not Path("/etc/new").exists()


def test_own_modules(directory: Path) -> None:
    """modprobe finds the project's modules, also the one that replaces mainline's."""
    script = "uname -r; modinfo -F filename tcp_bic; modprobe tcp_bic; modprobe tcp_gaimd; lsmod"
    done = vm(*NATIVE, "--", "sh", "-c", script, own_modules=True, limit=600)
    assert done.returncode == 0, done.stderr
    release, filename, *modules = done.stdout.decode().splitlines()
    assert filename == f"/lib/modules/{release}/updates/tcp_bic.ko"
    assert {line.split()[0] for line in modules} >= {"tcp_bic", "tcp_gaimd"}


def test_modules_of_another_configuration(directory: Path) -> None:
    """Modules built for another configuration of the same release are rebuilt."""
    built = TOP / "build" / "modules" / (directory / "release").read_text().strip()
    vm(*NATIVE, "--", "true", own_modules=True)
    (built / ".built-for").write_text("/another/kernel")
    (built / "left").touch()
    done = vm(*NATIVE, "--", "modprobe", "tcp_bic", own_modules=True)
    assert done.returncode == 0, done.stderr
    assert not (built / "left").exists()
    headers, _ = (built / ".built-for").read_text().split("\n")
    assert headers == str((directory / "headers").resolve())


def test_warning(splat: Path) -> None:
    done = vm(*NATIVE, "--", "sh", "-c", f"insmod {splat} kind=warn && echo loaded")
    assert done.stdout == b"loaded\n"
    assert done.returncode == 70, done.stderr
    assert b"splat: a warning on purpose" in done.stderr


def test_taint_and_segfault_are_no_splats(splat: Path) -> None:
    commands = f"insmod {splat}; sh -c 'kill -SEGV $$'; echo 'WARNING: a test' >&2; true"
    done = vm(*NATIVE, "--", "bash", "-c", commands)
    assert done.returncode == 0, done.stderr
    assert b"splatted" not in done.stderr


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("insmod {} kind=oops", b"splat_oops"),
        ("echo c > /proc/sysrq-trigger", b"sysrq triggered crash"),
    ],
)
def test_kernel_crash(splat: Path, action: str, message: bytes) -> None:
    """A crash of the kernel ends the command immediately."""
    start = time.monotonic()
    done = vm(*NATIVE, "--", "sh", "-c", f"echo before; {action.format(splat)}; sleep 1000")
    assert done.returncode == 70, done.stderr
    assert done.stdout == b"before\n"
    assert message in done.stderr
    assert time.monotonic() - start < 60


def test_timeout(splat: Path) -> None:
    """A guest that hangs with interrupts disabled is stopped at the timeout."""
    done = vm(*NATIVE, "--timeout", "8", "--", "insmod", str(splat), "kind=hang")
    assert done.returncode == 124
    assert b"timeout after 8 s: the command was still running" in done.stderr


def test_killed(sleeping: subprocess.Popen[bytes]) -> None:
    """SIGKILL of scripts/vm also kills all processes of the guest."""
    processes = descendants(sleeping.pid)
    assert len(processes) > 2
    sleeping.kill()
    assert wait_for(lambda: all(state(pid) in "XZ" for pid in processes), 60)


def test_sigterm(sleeping: subprocess.Popen[bytes]) -> None:
    processes = descendants(sleeping.pid)
    sleeping.send_signal(signal.SIGTERM)
    _, complaint = sleeping.communicate(timeout=60)
    assert sleeping.returncode == 128 + signal.SIGTERM
    assert complaint == b"vm: stopped by SIGTERM\n"
    assert wait_for(lambda: all(state(pid) in "XZ" for pid in processes), 60)


def test_guests_reserve_cpus(directory: Path) -> None:
    """Each guest is pinned to a CPU of its own; with all CPUs reserved, it is not pinned."""
    every = os.sched_getaffinity(0)
    there = set(sorted(every)[:2])
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, every)
        os.sched_setaffinity(0, there)
        guests = [stack.enter_context(asleep()) for _ in range(len(there) + 1)]
        found = []
        for guest in guests:
            (places,) = {frozenset(os.sched_getaffinity(pid)) for pid in descendants(guest.pid)}
            found.append(places)
    # Other guests may run on this machine.
    alone = [next(iter(places)) for places in found if len(places) == 1]
    assert len(set(alone)) == len(alone) <= len(there)
    assert all(places == there for places in found if len(places) > 1)
    assert found[-1] == there


def test_virtual(directory: Path, tmp_path: Path) -> None:
    """The clock jumps over idle time and stops while there is work."""
    start = time.monotonic()
    script = f"""
        echo $FAIRPATH_ENGINE $FAIRPATH_STEADY
        date +%s%N; sleep 10000; date +%s%N
        for i in 1 2 3 4 5; do sha256sum /bin/bash; done > /dev/null; date +%s%N
        head -c 3M {VM} /dev/zero > {tmp_path}/kept
        head -c 3M /dev/zero
        """
    options = ["--engine", "virtual", "--rw", str(tmp_path), "--timeout", "100"]
    done = vm(*options, "--", "bash", "-c", script)
    assert done.returncode == 0, done.stderr
    engine, before, after, later, zeros = done.stdout.split(b"\n", 4)
    assert engine == b"virtual 1"
    assert 10_000_000_000_000 <= int(after) - int(before) < 10_001_000_000_000
    assert int(later) - int(after) < 1_000_000_000
    assert zeros == bytes(3 << 20)
    assert (tmp_path / "kept").stat().st_size > 3 << 20
    assert time.monotonic() - start < 100


def test_tmpdir_is_not_passed(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's TMPDIR is read-only in the guest."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = vm(*NATIVE, "--", "sh", "-c", "echo $TMPDIR; mktemp")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_root(directory: Path) -> None:
    """An unprivileged user can run it, without access to files of the host's root."""
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        top.chmod(0o755)
        for part in ("scripts", "userspace/vm"):
            shutil.copytree(TOP / part, top / part)
        shutil.copytree(
            directory,
            top / "cache/uml" / directory.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("tree"),
            copy_function=link_or_copy,
        )
        someone, user = unprivileged()
        for path in (top, *top.glob("**/")):
            os.chown(path, someone, -1)
        script = (
            f"id -u; cat /etc/shadow; modprobe sch_netem && echo hello > {top}/kept && touch /new"
        )
        done = launch.succeed(
            [
                top / "scripts/vm",
                *NATIVE,
                "--no-modules",
                "--rw",
                scratch,
                "--",
                "sh",
                "-c",
                script,
            ],
            env={"HOME": scratch, "FAIRPATH_CACHE": str(top / "cache"), "PATH": "/usr/bin:/bin"},
            cwd=scratch,
            **user,
            timeout=120,
        )
        assert done.stdout == "0\n"
        assert "/etc/shadow: Permission denied" in done.stderr
        assert (top / "kept").read_text() == "hello\n"
        assert (top / "kept").stat().st_uid == someone


def test_kernel_directory(directory: Path) -> None:
    """The contents of a kernel's directory (cache.py); it is built only once."""
    release = (directory / "release").read_text().strip()
    assert release.startswith("6.1.")
    assert release.endswith("-um")
    assert (directory / "headers/include/generated/utsrelease.h").exists()
    assert (directory / "lib/modules" / release / "modules.dep").exists()
    assert (directory / "source").read_text().startswith("linux-source-6.1 6.1.")
    start = time.monotonic()
    assert get(*NATIVE) == directory
    assert time.monotonic() - start < 10
    listed = launch.succeed([KERNEL, "list"])
    assert f"{release}  {directory}" in listed.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_build_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Not even if the shell ignores the signal for programs in the background."""
    kernels = tmp_path / "uml"
    with subprocess.Popen(
        ["sh", "-c", f'trap "" INT; exec {KERNEL} get --engine native 6.1'],
        env={**os.environ, "FAIRPATH_CACHE": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as building:
        # The first files have been compiled.
        compiling = ".new-*/tree/init/*.o"
        wait_for(lambda: building.poll() is not None or [*kernels.glob(compiling)], BUILD_SECONDS)
        building.send_signal(number)
        assert building.wait(300) == 128 + number
        assert building.stdout is not None
        assert building.stdout.read() == ""
    assert [path.name for path in kernels.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--debug", "--", "true"], ["--debug", "--engine native"]),
        ([*NATIVE, "--smp", "2", "--", "true"], ["--smp", "native"]),
        ([*NATIVE, "--accel", "kvm", "--", "true"], ["--accel", "native"]),
        ([*NATIVE, "--steady", "--", "true"], ["--steady", "--engine virtual"]),
        ([*NATIVE, "--jitter", "--", "true"], ["--jitter", "--engine virtual"]),
        ([*NATIVE, "--seed", "1", "--", "true"], ["--seed", "--engine virtual"]),
        (["--engine", "virtual", "--seed", "-1", "--", "true"], ["--seed -1", "2^64"]),
        ([*NATIVE, "--kernel", "host", "--", "true"], ["host", "6.1", "6.12", "7.2"]),
        (["--engine", "virtual", "--kernel", "5.4", "--", "true"], ["5.4", "6.1"]),
    ],
)
def test_invalid_requests(arguments: list[str], named: list[str]) -> None:
    done = vm(*arguments)
    assert done.returncode == 2
    message = done.stderr.decode()
    assert message.count("\n") == 1, message
    for word in named:
        assert word in message
