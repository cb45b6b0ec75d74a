# SPDX-License-Identifier: GPL-2.0
"""scripts/vm and scripts/kernel with real boots of stock kernels.

A boot takes some seconds, so each test checks many things in one guest.  The module splat/ causes
kernel errors on purpose.  Only test_other_kernel, test_kernel_by_path and
test_kernel_without_egress_hooks use the project's modules.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import launch

TOP = Path(__file__).resolve().parent.parent.parent
VM = str(TOP / "scripts/vm")
KERNEL = str(TOP / "scripts/kernel")
NOBODY = 65534

Done = subprocess.CompletedProcess[bytes]


def vm(*arguments: str, limit: float = 120, own_modules: bool = False, **more: Any) -> Done:
    """Run scripts/vm."""
    options = [] if own_modules else ["--no-modules"]
    done: Done = subprocess.run(
        [VM, *options, *arguments], capture_output=True, timeout=limit, check=False, **more
    )
    return done


def kernel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return launch.run([KERNEL, *arguments], timeout=600)


@pytest.fixture(scope="module")
def directory() -> Path:
    """The directory of the kernel 6.1."""
    done = kernel("get", "6.1")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.rstrip("\n"))


@pytest.fixture(scope="module")
def splat(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module that causes kernel errors, built for 6.1."""
    return build(directory, "splat", tmp_path_factory)


def build(directory: Path, name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp(name) / "module"
    shutil.copytree(TOP / "tests/vm" / name, copy)
    command = ["make", "-C", str(directory / "headers"), f"M={copy}", "modules"]
    launch.succeed(command)
    return copy / f"{name}.ko"


def state(pid: int) -> str:
    """The state of a process as in /proc/PID/stat; X if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def children(pid: int) -> list[int]:
    """The processes whose parent is PID."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    """Wait at most SECONDS until CONDITION is true; return whether it is."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def running() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A function that starts scripts/vm in the background; it is killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [VM, "--no-modules", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def qemu_of(process: subprocess.Popen[bytes]) -> int:
    """The PID of the qemu that PROCESS started."""
    assert wait_for(lambda: children(process.pid), 60)
    return children(process.pid)[0]


def gone(pid: int) -> bool:
    return state(pid) in "XZ"


def test_guest(tmp_path: Path) -> None:
    """Output, exit status, environment, mounts, and the fate of written files."""
    kept = tmp_path / "kept, with a comma and a 'quote'"
    kept.mkdir()
    here = tmp_path / "here"
    here.mkdir()
    noise = random.Random(1).randbytes(10 << 20)
    (tmp_path / "noise").write_bytes(noise)
    every_byte = bytes(range(256)) * 64
    (tmp_path / "bytes").write_bytes(every_byte)
    marker = Path(f"/etc/fairpath-test-{os.getpid()}")
    script = here / "script"
    script.write_text(f"""
        facts() {{
            echo "user $(id -u)"
            echo "pwd $(pwd)"
            echo "colour $COLOUR"
            echo "named $NAMED"
            echo "unnamed $UNNAMED"
            echo "engine $FAIRPATH_ENGINE $FAIRPATH_STEADY"
            echo "stdin $(wc -c)"
            echo "hostname $(cat /proc/sys/kernel/hostname)"
            echo "cpus $(nproc)"
            echo "arguments $#: $1, $2, $3"
            echo "ls $(readlink -f "$(command -v ls)")"
            ping -c 1 -W 5 127.0.0.1 >/dev/null && echo "lo up"
            for path in /proc/self /sys/kernel/debug/tracing /sys/kernel/tracing/events \
                /sys/fs/bpf /sys/fs/cgroup/cgroup.procs /dev/pts/ptmx /dev/shm \
                "/lib/modules/$(uname -r)/kernel/net"; do
                [ -e "$path" ] || echo "no $path"
            done
            modprobe sch_netem && grep -o ^sch_netem /proc/modules
        }}
        facts "$@" > {shlex.quote(str(kept))}/facts
        touch {marker} ./written-here /usr/bin/written && rm -f {TOP}/Makefile
        [ -e {marker} ] && [ ! -e {TOP}/Makefile ] && echo changed >> {shlex.quote(str(kept))}/facts
        cat ../noise
        cat ../bytes > /dev/stderr
        sleep 300 &
        exit 3
        """)
    before = time.time()
    environment = {**os.environ, "NAMED": "in the environment", "UNNAMED": "not carried"}
    options = ["--rw", str(kept), "--env", "COLOUR=dark red", "--env", "NAMED"]
    command = ["bash", str(script), "one two", "", "$HOME 'x' \\"]
    done = vm(*options, "--", *command, cwd=here, env=environment)
    assert done.returncode == 3, done.stderr[-2000:]
    assert done.stdout == noise
    assert done.stderr == every_byte
    facts = (kept / "facts").read_text()
    assert facts.splitlines() == [
        "user 0",
        f"pwd {here}",
        "colour dark red",
        "named in the environment",
        "unnamed ",
        "engine vm 0",
        "stdin 0",
        "hostname vm",
        "cpus 1",
        "arguments 3: one two, , $HOME 'x' \\",
        "ls /usr/bin/ls",
        "lo up",
        "sch_netem",
        "changed",
    ]
    # No other file was written, and the guest's clock is right.
    assert not marker.exists()
    assert not Path("/usr/bin/written").exists()
    assert (TOP / "Makefile").exists()
    assert [path.name for path in here.iterdir()] == ["script"]
    assert before - 5 < (kept / "facts").stat().st_mtime < time.time() + 5
    # The background job in the guest did not delay the end.
    assert time.time() - before < 100


@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        (["sh", "-c", "exit 255"], 255, b""),
        (["no-such-command"], 127, b"no-such-command"),
    ],
)
def test_exit_status(command: list[str], status: int, complaint: bytes) -> None:
    done = vm("--", *command)
    assert done.returncode == status
    assert complaint in done.stderr
    assert bool(done.stderr) == bool(complaint)


def test_kernel_without_egress_hooks(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The error names the option; below another qdisc slbn needs none."""
    module = build(directory, "no_egress", tmp_path_factory)
    commands = f"""insmod {module}
        ip link add d0 type dummy
        tc qdisc add dev d0 root handle 1: slbn rate 1gbit && exit 9
        tc qdisc show dev d0 | grep slbn && exit 9
        tc qdisc add dev d0 root handle 1: tbf rate 1gbit burst 10kb limit 1mb
        tc qdisc add dev d0 parent 1:1 slbn rate 1gbit"""
    done = vm("--", "sh", "-c", commands, own_modules=True, limit=600)
    assert done.returncode == 0, done.stderr
    assert b"kernel lacks CONFIG_NETFILTER_EGRESS" in done.stderr


def test_warning(splat: Path) -> None:
    """A kernel warning is printed, and turns success into status 70."""
    done = vm("--", "sh", "-c", f"insmod {splat} kind=warn && echo loaded")
    assert done.stdout == b"loaded\n"
    assert done.returncode == 70, done.stderr
    assert b"the kernel splatted" in done.stderr
    assert b"splat: a warning on purpose" in done.stderr
    assert b"splat_init" in done.stderr


def test_warning_deleted_from_logs(splat: Path) -> None:
    """The taint flags show it; a command that fails keeps its status."""
    hide = f"dmesg -n 1; insmod {splat} kind=warn; dmesg -C; exit 4"
    done = vm("--", "sh", "-c", hide)
    assert done.returncode == 4, done.stderr
    assert b"the kernel splatted" in done.stderr
    assert b"taint flags show it: warning" in done.stderr


def test_taint_and_segfault_are_no_splats(splat: Path) -> None:
    commands = f"insmod {splat}; sh -c 'kill -SEGV $$'; echo 'WARNING: a test' >&2; true"
    done = vm("--", "bash", "-c", commands)
    assert done.returncode == 0, done.stderr
    assert b"splatted" not in done.stderr


def test_oops(splat: Path) -> None:
    """An oops stops the guest immediately."""
    done = vm("--", "sh", "-c", f"echo before; insmod {splat} kind=oops; sleep 1000")
    assert done.returncode == 70, done.stderr
    assert done.stdout == b"before\n"
    assert b"NULL pointer dereference" in done.stderr
    assert b"splat_oops" in done.stderr


def test_panic() -> None:
    done = vm("--", "sh", "-c", "echo before; echo c > /proc/sysrq-trigger")
    assert done.returncode == 70, done.stderr
    assert done.stdout == b"before\n"
    assert b"Kernel panic - not syncing: sysrq triggered crash" in done.stderr


def test_timeout(splat: Path, running: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A guest that hangs with interrupts disabled is stopped at the timeout."""
    seconds = 8
    start = time.monotonic()
    process = running("--timeout", str(seconds), "--", "insmod", str(splat), "kind=hang")
    qemu = qemu_of(process)
    _, complaint = process.communicate()
    assert process.returncode == 124
    assert f"timeout after {seconds} s: the command was still running".encode() in complaint
    assert time.monotonic() - start > seconds
    assert state(qemu) == "X"


def test_killed(running: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Output is passed while the command runs; SIGKILL of scripts/vm also kills qemu."""
    process = running("--", "sh", "-c", "printf here; sleep 1000")
    qemu = qemu_of(process)
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 100) == b"here"
    assert state(qemu) not in "XZ"
    process.kill()
    assert wait_for(lambda: gone(qemu), 60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(number: signal.Signals, running: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = running("--", "sleep", "1000")
    qemu = qemu_of(process)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert complaint == f"vm: stopped by {number.name}\n".encode()
    assert state(qemu) == "X"


def test_closed_output() -> None:
    """Like any command in a pipe, it ends with SIGPIPE's status when the reader ends."""
    command = f"{VM} --no-modules -- yes | head -c 6; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert done.stdout == b"y\ny\ny\n141\n"
    assert done.stderr == b""


def test_steady() -> None:
    """--steady: guest time is independent of host time."""
    start = time.monotonic()
    # Regression: while the guest waited for the host's files, its clock ran ahead, by a minute for
    # each program on a busy host.
    script = """
        echo $FAIRPATH_STEADY $FAIRPATH_ACCEL
        s=$SECONDS
        for program in factor tsort od fold pr comm join; do $program --version; done >/dev/null
        echo $((SECONDS - s))
        s=$SECONDS
        sleep 200
        echo $((SECONDS - s))
        """
    done = vm("--steady", "--", "bash", "-c", script)
    assert done.returncode == 0, done.stderr
    steady, loading, sleeping = done.stdout.decode().splitlines()
    assert steady == "1 tcg"
    assert int(loading) <= 60
    assert 200 <= int(sleeping) <= 202
    assert time.monotonic() - start < 100


def test_other_kernel() -> None:
    """Another kernel, two CPUs, more memory, kernel arguments; the project's modules are found."""
    script = """
        uname -r
        nproc
        grep -o fairpath-test=1 /proc/cmdline
        awk '/MemTotal/ { print ($2 > 2200000) }' /proc/meminfo
        modinfo -F filename tcp_bic
        modprobe -n -v tcp_bic
        """
    options = ["--kernel", "6.12", "--smp", "2", "--mem", "3G", "--append", "fairpath-test=1"]
    done = vm(*options, "--", "sh", "-c", script, own_modules=True, limit=600)
    assert done.returncode == 0, done.stderr
    release, cpus, argument, memory, filename, insmod = done.stdout.decode().splitlines()
    assert release.startswith("6.12.")
    assert (cpus, argument, memory) == ("2", "fairpath-test=1", "1")
    assert filename == f"/lib/modules/{release}/updates/tcp_bic.ko"
    assert insmod == f"insmod {filename} "


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def unprivileged() -> tuple[int, dict[str, Any]]:
    """An unprivileged user (nobody if we are root, else us), and arguments to run as that user."""
    if os.getuid():
        return os.getuid(), {}
    return NOBODY, {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def test_without_root(directory: Path) -> None:
    """An unprivileged user can run it."""
    with tempfile.TemporaryDirectory() as scratch:
        # Not below pytest's directory, which other users may not enter.
        top = Path(scratch)
        top.chmod(0o755)
        for part in ("scripts", "userspace/vm"):
            shutil.copytree(TOP / part, top / part)
        shutil.copytree(
            directory,
            top / "cache/kernels" / directory.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("usr"),
            copy_function=link_or_copy,
        )
        (top / "cache/kernels/series-6.1").write_text(directory.name)
        # Only directories: files may be hard links to the cache.
        someone, user = unprivileged()
        for path in (top, *top.glob("**/")):
            os.chown(path, someone, -1)
        script = f"id -u; cat /etc/shadow; modprobe sch_netem && echo hello > {top}/kept"
        done = launch.succeed(
            [top / "scripts/vm", "--no-modules", "--rw", scratch, "--", "sh", "-c", script],
            env={"HOME": scratch, "FAIRPATH_CACHE": str(top / "cache"), "PATH": "/usr/bin:/bin"},
            cwd=scratch,
            **user,
            timeout=120,
        )
        assert done.stdout == "0\n"
        assert "/etc/shadow: Permission denied" in done.stderr
        assert (top / "kept").read_text() == "hello\n"
        assert (top / "kept").stat().st_uid == someone


def test_guest_that_does_not_boot() -> None:
    done = vm("--append", "rdinit=/nothing root=/dev/nothing", "--", "true")
    assert done.returncode == 125
    assert b"the guest did not boot" in done.stderr
    assert b"Kernel panic" in done.stderr


def test_qemu_missing(tmp_path: Path) -> None:
    """The error names the package to install."""
    for name in ("busybox", "xz"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = vm("--accel", "tcg", "--", "true", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 125
    what = "qemu-system-x86_64 is missing (package qemu-system-x86)"
    assert done.stderr.decode() == f"vm: {what}: run scripts/install-deps\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--kernel", "5.19", "--", "true"], ["5.19", "6.1", "6.12", "7.2", "host"]),
        (["--kernel", "/no/such/kernel", "--", "true"], ["/no/such/kernel"]),
        (["--kernel", "/etc/passwd", "--", "true"], ["/etc/passwd", "not a Linux kernel"]),
        (["--engine", "warp", "--", "true"], ["warp", "vm"]),
        (["--accel", "warp", "--", "true"], ["warp", "auto", "kvm", "tcg"]),
        (["--warp", "9", "--", "true"], ["--warp", "--help"]),
        (["--arch", "vax", "--", "true"], ["vax", "amd64, arm64, s390x"]),
        (["--arch", "arm64", "--kernel", "host", "--", "true"], ["'host' for arm64", "6.12"]),
        (["--arch", "arm64", "--accel", "kvm", "--", "true"], ["--arch arm64", "--accel kvm"]),
        (["--arch", "s390x", "--engine", "native", "--", "true"], ["--arch", "native"]),
        (["--arch", "arm64", "--root", "/", "--", "true"], ["--root needs", "no --arch"]),
        (["--root", "/", "--", "true"], ["--root needs --kernel PATH"]),
        (["--root", "/no", "--kernel", "/no/k", "--", "true"], ["--root /no"]),
        (["--root", "/", "--kernel", "/etc/passwd", "--", "true"], ["not a Linux"]),
        (["--smp", "0", "--", "true"], ["--smp 0", "1 to"]),
        (["--smp", "two", "--", "true"], ["--smp", "two"]),
        (["--mem", "lots", "--", "true"], ["--mem lots", "2G"]),
        (["--timeout", "-1", "--", "true"], ["--timeout -1"]),
        (["--timeout", "nan", "--", "true"], ["--timeout nan"]),
        (["--timeout", "inf", "--", "true"], ["--timeout inf", "at most 1e+09"]),
        (["--steady", "--smp", "2", "--", "true"], ["--steady", "--smp"]),
        (["--rw", "/no/such/directory", "--", "true"], ["/no/such/directory"]),
        (["--env", "NO_SUCH_VARIABLE", "--", "true"], ["NO_SUCH_VARIABLE"]),
        (["--steady"], ["no command"]),
        (["true"], ["true"]),
        (["--"], ["no command"]),
    ],
)
def test_invalid_requests(arguments: list[str], named: list[str]) -> None:
    """One line names the error and the valid values; nothing is started."""
    start = time.monotonic()
    done = vm(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    message = done.stderr.decode()
    assert message.count("\n") == 1, message
    for word in named:
        assert word in message
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], ["COMMAND", "kernel --help"]),
        (["fetch"], ["fetch", "get"]),
        (["get"], ["VERSION", "kernel get --help"]),
        (["get", "--warp", "6.1"], ["--warp"]),
        (["get", "6.1", "--arch", "vax"], ["vax", "s390x"]),
        (["get", "5.19"], ["5.19", "6.12"]),
    ],
)
def test_invalid_requests_for_kernels(arguments: list[str], named: list[str]) -> None:
    done = kernel(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    for word in named:
        assert word in line


def test_kernel_by_path(directory: Path) -> None:
    """A kernel given by its image boots, with its own modules and ours."""
    image = next(directory.glob("boot/vmlinuz-*"))
    script = "modprobe sch_netem && modprobe tcp_bic && cat /proc/modules"
    done = vm("--kernel", str(image), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert b"sch_netem " in done.stdout


def test_kernel_command(directory: Path) -> None:
    """The contents of a kernel's directory (cache.py), and the ways to name a kernel."""
    release = (directory / "release").read_text().strip()
    assert release.startswith("6.1.")
    assert (directory / "kernel").read_bytes()[:4] == b"\x7fELF"
    assert (directory / "headers/include/generated/utsrelease.h").exists()
    assert (directory / "lib/modules" / release / "modules.dep").exists()
    assert "/usr/src" not in (directory / "headers/Makefile").read_text()
    assert f"linux-image-{release} " in (directory / "packages").read_text()

    listed = kernel("list")
    assert listed.returncode == 0
    assert f"{release}  {directory}" in listed.stdout
    for series in ("6.1", "6.12", "7.2"):
        assert f" {series} " in listed.stdout

    by_release = kernel("get", release)
    assert by_release.stdout == f"{directory}\n"
    by_directory = kernel("get", str(directory))
    assert by_directory.stdout == f"{directory}\n"

    image = directory / f"boot/vmlinuz-{release}"
    by_path = kernel("get", str(image))
    assert by_path.returncode == 0, by_path.stderr
    other = Path(by_path.stdout.rstrip("\n"))
    assert other != directory
    assert (other / "release").read_text().strip() == release
    assert (other / "kernel").read_bytes() == (directory / "kernel").read_bytes()
    assert list((other / "lib/modules" / release).glob("kernel/net/ipv4/tcp_bic.ko*"))

    built = kernel("modules", "6.1")
    assert built.returncode == 0, built.stderr
    assert built.stdout == f"{TOP}/build/root/{release}\n"
    tree = TOP / "build/root" / release / "lib/modules" / release
    assert (tree / "updates/tcp_bic.ko").exists()
    assert list(tree.glob("kernel/net/ipv4/tcp_bic.ko*"))
    assert "\nupdates/tcp_bic.ko:" in (tree / "modules.dep").read_text()

    unknown = kernel("get", "5.19")
    assert unknown.returncode == 2
    assert unknown.stdout == ""
    assert unknown.stderr.count("\n") == 1
    for word in ("5.19", "6.1", "6.12", "7.2", "host"):
        assert word in unknown.stderr
