# SPDX-License-Identifier: GPL-2.0
"""Runs in virtual time repeat to the bit: the packets, the output, the written files.

Workloads are in workloads/.  $EXACT_RUNS runs of each are compared (2), every second one disturbed:
beside a load, from another directory, with another environment.  The kernel is $FAIRPATH_KERNEL.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import launch

TOP = Path(__file__).resolve().parents[2]
KERNEL = os.environ.get("FAIRPATH_KERNEL", "6.1")
RUNS = int(os.environ.get("EXACT_RUNS", "2"))
SECONDS = 1200
#: An emulated machine needs 100 times as long; on a busy host that is most of an hour.
ANOTHER_SECONDS = 6000
CACHE = Path(os.environ.get("FAIRPATH_CACHE") or Path.home() / ".cache/fairpath")

WORKLOADS = {
    "flows": ["sh", f"{TOP}/tests/virtual/workloads/flows.sh"],
    "domain": ["python3", f"{TOP}/tests/virtual/workloads/domain.py"],
}
#: A capture file and fingerprints name the same packets by different hashes.
HASH = re.compile(r"^vm: \S+: (\d+ packets, SHA-256 [0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """What a run has shown."""

    packets: str
    output: str
    files: dict[str, str]  # name -> SHA-256


def run(
    out: Path,
    command: list[str],
    *options: str,
    top: Path = TOP,
    capture: str = "--packets",
    timeout: int = SECONDS,
    **how: Any,
) -> Ran:
    """Run COMMAND with the directory OUT at /out; HOW are arguments of subprocess.run()."""
    out.mkdir()
    out.chmod(0o777)
    seen = out.parent / f"{out.name}.packets"
    line = [f"{top}/scripts/vm", "--engine", "virtual", "--kernel", KERNEL, "--rw", f"{out}:/out"]
    line += [capture, str(seen)] if capture else []
    line += ["--timeout", str(timeout)]
    line += ["--env", "PYTHONPATH=/fairpath/userspace/lab", *options, "--"]
    line += [word.replace(str(TOP), str(top)) for word in command]
    done = launch.succeed(line, timeout=timeout, **how)
    found = HASH.search(done.stderr)
    assert found or not capture, done.stderr
    files = {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }
    return Ran(found[1] if found else "", done.stdout, files)


def quick(script: str, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script in virtual time."""
    line = [f"{TOP}/scripts/vm", "--engine", "virtual", "--kernel", KERNEL, *options]
    return launch.run([*line, "--", "sh", "-c", script], timeout=SECONDS, **how)


def output(script: str, *options: str, **how: Any) -> str:
    done = quick(script, *options, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Computes for 5 ms on average, at random, and sleeps four times as long: it interrupts at other
#: moments each time, and leaves most of the CPU.
BURSTS = """
import random, time
while True:
    end = time.monotonic() + random.expovariate(200)
    while time.monotonic() < end:
        pass
    time.sleep(random.expovariate(50))
"""


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Interrupt what runs, on all CPUs."""
    busy = [
        subprocess.Popen(["/usr/bin/python3", "-c", BURSTS]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def other_environment(home: Path) -> dict[str, str]:
    """Another user's: the kernels stay in the cache."""
    home.mkdir(exist_ok=True)
    more = {"HOME": str(home), "TZ": "Asia/Tokyo", "TERM": "vt100", "LC_ALL": "C"}
    more |= {"FAIRPATH_CACHE": str(CACHE), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    return {**more, "LONG": "x" * 3000}


@pytest.mark.tier("test")
@pytest.mark.parametrize("name", WORKLOADS)
def test_runs_repeat(tmp_path: Path, name: str) -> None:
    first = run(tmp_path / "0", WORKLOADS[name])
    assert int(first.packets.split()[0]) > 1000 and len(first.files) >= 3
    for number in range(1, RUNS):
        out = tmp_path / str(number)
        if number % 2:
            with load():
                env = other_environment(tmp_path / "home")
                again = run(out, WORKLOADS[name], cwd=tmp_path, env=env)
        else:
            again = run(out, WORKLOADS[name])
        assert again == first, number


@pytest.mark.tier("all")
@pytest.mark.parametrize("name", WORKLOADS)
def test_runs_repeat_in_another_tree_of_another_user(tmp_path: Path, name: str) -> None:
    """As on another machine with the same kernel, libc and tools."""
    first = run(tmp_path / "first", WORKLOADS[name])
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch) / "elsewhere/fairpath"
        listed = launch.succeed(
            ["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        )
        for word in filter(None, listed.stdout.split("\0")):
            if (TOP / word).exists():
                (top / word).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(TOP / word, top / word)
        for made in ("modules", "root", "slbnd", "slbnctl", "libslbn", "tc", "traffic", "tools"):
            if (TOP / "build" / made).exists():
                shutil.copytree(TOP / "build" / made, top / "build" / made, symlinks=True)
        Path(scratch).chmod(0o755)
        someone: dict[str, Any] = {}
        if os.getuid() == 0:
            someone = {"user": 65534, "group": 65534, "extra_groups": []}
        for path in [Path(scratch), *Path(scratch).rglob("*")]:
            os.chown(path, *([65534, 65534] if someone else [-1, -1]), follow_symlinks=False)
        env = other_environment(Path(scratch))
        env["FAIRPATH_CACHE"] = str(copied_cache(Path(scratch)))
        again = run(Path(scratch) / "out", WORKLOADS[name], top=top, cwd=top, env=env, **someone)
    assert again == first


@pytest.mark.tier("all")
def test_another_machine_repeats_a_run(tmp_path: Path) -> None:
    """One with an emulated processor and another kernel: qemu, in which User-Mode Linux runs."""
    small = ["sh", f"{TOP}/tests/virtual/workloads/small.sh"]
    here = run(tmp_path / "here", small)
    assert int(here.packets.split()[0]) > 3000 and len(here.files) == 2
    there = tmp_path / "there"
    there.mkdir()
    machine = [f"{TOP}/scripts/vm", "--kernel", "6.12", "--mem", "3G", "--rw", str(there)]
    machine += ["--timeout", str(ANOTHER_SECONDS), "--env", f"FAIRPATH_KERNEL={KERNEL}"]
    # In that machine this file is a program; it prints what run() returns.
    program = ["/usr/bin/python3", "-m", "tests.virtual.test_exact", str(there / "out"), *small]
    done = launch.succeed([*machine, "--", "env", "--chdir", str(TOP), *program])
    model, release, again = done.stdout.splitlines()
    assert f": {model}\n" not in Path("/proc/cpuinfo").read_text()
    assert release != os.uname().release
    assert Ran(**json.loads(again)) == here


def copied_cache(scratch: Path) -> Path:
    """A cache with this kernel that another user can write to."""
    cache = scratch / "cache"
    listed = launch.succeed([f"{TOP}/scripts/kernel", "get", "--engine", "native", KERNEL])
    directory = Path(listed.stdout.splitlines()[-1])
    kept = cache / "uml" / directory.name
    shutil.copytree(directory, kept, symlinks=True)
    if os.getuid() == 0:
        for path in [cache, *cache.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)
    return cache


@pytest.mark.tier("all")
def test_capture_changes_nothing(tmp_path: Path) -> None:
    """The written files have the RTTs and congestion windows of the flows."""
    plain = run(tmp_path / "plain", WORKLOADS["flows"], capture="")
    packets = run(tmp_path / "packets", WORKLOADS["flows"])
    whole = run(tmp_path / "whole", WORKLOADS["flows"], capture="--pcap")
    some = run(tmp_path / "some", WORKLOADS["flows"], "--pcap-device", "rb", capture="--pcap")
    for each in (packets, whole, some):
        assert (each.output, each.files) == (plain.output, plain.files)
    # Sent packets only, sent and received ones, those of one device.
    counts = [int(each.packets.split()[0]) for each in (packets, whole, some)]
    assert counts[2] < counts[0] < counts[1]


@pytest.mark.tier("all")
def test_another_process_changes_nothing(tmp_path: Path) -> None:
    """Neither one that reads the clock and random numbers, nor a probe of the kernel."""
    flows = WORKLOADS["flows"][1]
    noise = "python3 -c 'import os, time; [os.urandom(9) and time.time() for _ in range(5000)]' &"
    events = "/sys/kernel/tracing/events"
    probe = f"for e in tcp/tcp_probe qdisc/qdisc_dequeue; do echo 1 >{events}/$e/enable; done;"
    ran = [
        # The shell executes the workload, which then has the same arguments.
        run(tmp_path / str(n), ["sh", "-c", f"{more} exec sh {flows}"], "--env", "NO_PING=1")
        for n, more in enumerate((":;", noise, probe))
    ]
    for again in ran[1:]:
        assert (again.packets, again.files) == (ran[0].packets, ran[0].files)


@pytest.mark.tier("test")
def test_modules_do_not_contain_the_path_of_the_tree() -> None:
    """Records have their hashes: the same sources must give the same modules anywhere."""
    assert quick("true").returncode == 0
    built = list(TOP.glob(f"build/root/{KERNEL}*-um/lib/modules/*/updates/*.ko"))
    assert {path.stem for path in built} == {"sch_drr_fq", "sch_slbn", "tcp_bic", "tcp_gaimd"}
    assert [path.stem for path in built if str(TOP).encode() in path.read_bytes()] == []


@pytest.mark.tier("test")
def test_seed_decides_random_numbers_and_times() -> None:
    script = """
        od -An -tx1 -N16 /dev/urandom; cat /proc/sys/kernel/random/uuid; date +%s.%N
        python3 -c 'import random, time; print(random.random(), hash("x"), time.time_ns())'
        sh -c 'echo $$; od -An -tx1 -N16 /dev/random'
        """
    plain, zero, one = output(script), output(script, "--seed", "0"), output(script, "--seed", "1")
    assert plain == zero
    same = [a for a, b in zip(zero.splitlines(), one.splitlines(), strict=True) if a == b]
    assert len(same) == 1 and same[0].isdecimal()  # the process id


#: Reads the time stamp counter by machine code: rdtsc; shl $32,%rdx; or %rdx,%rax; ret.
COUNTER = """
import ctypes, mmap, time
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("0f3148c1e2204809d0c3"))
read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
first = read(); time.sleep(1); second = read(); time.sleep(2); third = read()
print(first, second - first, third - second)
"""


@pytest.mark.tier("test")
def test_time_stamp_counter_is_virtual(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    script = f"python3 {tmp_path}/counter.py"
    first, again = output(script), output(script)
    assert first == again
    _, one, two = map(int, first.split())
    assert two == pytest.approx(2 * one, rel=0.001)


@pytest.mark.tier("test")
def test_programs_that_wait_for_the_clock_end(tmp_path: Path) -> None:
    (tmp_path / "spin.py").write_text("""
import os, select, time
end = time.monotonic() + 0.05
while time.monotonic() < end: pass
end = time.monotonic() + 0.05
while time.monotonic() < end: select.select([], [], [], 0)
end = time.monotonic() + 0.05
while time.monotonic() < end: os.sched_yield()
print(time.monotonic_ns())
""")
    script = f"python3 {tmp_path}/spin.py"
    assert output(script, "--timeout", "60") == output(script, "--timeout", "60")


@pytest.mark.tier("test")
def test_other_programs_do_not_change_random_numbers() -> None:
    """Those whose arguments are paths of the host, for example, of which each run has others."""
    numbers = "for i in $(seq 20); do od -An -N8 -tx8 -w$((8 * i)) /dev/urandom; done"
    others = "for i in $(seq 100); do /bin/true $i; done"
    assert output(numbers) == output(f"{others}; {numbers}")


@pytest.mark.tier("test")
def test_endless_computation_is_reported() -> None:
    done = quick("while :; do :; done", "--timeout", "8")
    assert done.returncode == 71
    assert "not repeatable: a program of the guest has computed without a system" in done.stderr


@pytest.mark.tier("test")
def test_files_of_the_hosts_kernel_are_refused() -> None:
    done = quick("mount -t hostfs -o / x /mnt && cat /mnt/proc/uptime")
    assert done.returncode == 71, done.stderr
    assert "not repeatable: the guest opened a file of the host's kernel" in done.stderr
    assert done.stdout == ""


@pytest.mark.tier("check")
@pytest.mark.parametrize(
    "word",
    [
        *("con1=pts", "ssl3=port:9000", "ubd0=/x", "exact=2", "time-travel=ext:/x"),
        *("time-travel", "time_travel", "time_travel=inf-cpu", '"time-travel"'),
    ],
)
def test_arguments_that_attach_the_host_are_refused(word: str) -> None:
    done = quick("true", "--append", f"quiet {word}")
    assert done.returncode == 71 and done.stdout == ""
    assert f"not repeatable: --append {word}: " in done.stderr


@pytest.mark.tier("test")
def test_written_files_have_virtual_times(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    script = "echo x >/out/new; stat -c '%n %x %y %z' /out/*; date +%Y"
    first = output(script, "--rw", f"{out}:/out")
    assert first.startswith("/out/new 2033-05-18 ") and first.endswith("\n2033\n")
    assert "/out/old 2033" not in first
    (out / "new").unlink()
    assert output(script, "--rw", f"{out}:/out") == first


def main() -> None:
    """In another machine: its processor and kernel, and what a run there shows."""
    print(re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)[0])
    print(os.uname().release)
    print(json.dumps(asdict(run(Path(sys.argv[1]), sys.argv[2:], timeout=ANOTHER_SECONDS))))


if __name__ == "__main__":
    main()
