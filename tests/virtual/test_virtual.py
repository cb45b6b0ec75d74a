# SPDX-License-Identifier: GPL-2.0
"""The engine `virtual` with the kernel $FAIRPATH_KERNEL, by default the oldest supported one.

A kernel that is not in the cache is built first.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import launch

TOP = Path(__file__).resolve().parent.parent.parent
KERNEL = os.environ.get("FAIRPATH_KERNEL", "6.1")
BUILD_SECONDS = 5400
WHERE = ["--engine", "virtual", "--kernel", KERNEL]
MODULES = ("tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn")


def guest(script: str, *options: str) -> list[str]:
    done = launch.succeed(
        [TOP / "scripts/vm", *WHERE, *options, "--", "sh", "-c", script], timeout=BUILD_SECONDS
    )
    return done.stdout.splitlines()


def test_modules_and_clock() -> None:
    """The kernel has the right release, loads our modules, and its clock jumps over idle time."""
    release, *rest = guest(f"""
        uname -r
        for module in {" ".join(MODULES)}; do modprobe $module || exit; done
        cut -d' ' -f1 /proc/modules
        date +%s; sleep 10000; date +%s
        """)
    assert release.startswith(f"{KERNEL}.")
    assert release.endswith("-um")
    *loaded, before, after = rest
    assert set(MODULES) <= set(loaded)
    assert int(after) - int(before) in (10000, 10001)


def test_vector_registers() -> None:
    """Threads keep their vector registers across switches, with any host processor."""
    threads = """
import hashlib, threading
data = bytes(range(256)) * 4000
right = hashlib.sha512(data).hexdigest()
found = []
def work():
    found.extend(hashlib.sha512(data).hexdigest() == right for _ in range(20))
all = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in all]; [t.join() for t in all]
print(len(found), set(found))
"""
    assert guest(f'/usr/bin/python3 -c "{threads}"') == ["80 {True}"]


@pytest.mark.parametrize(
    "rtt", ["5ms", pytest.param("20ms", marks=pytest.mark.tier("all")), "80ms"]
)
def test_flows_fill_the_bottleneck(tmp_path: Path, rtt: str) -> None:
    """bic and gaimd share a bottleneck without idle time, at any round-trip time."""
    words = ["run", "dumbbell", "--flows", "bic,gaimd", "--rate", "50mbit", "--rtt", rtt]
    words += ["--time", "12", *WHERE, "--json", "--out", str(tmp_path)]
    result = launch.answer(launch.run([TOP / "scripts/fairlab", *words], timeout=1800))
    assert result["kernel"]["release"].startswith(f"{KERNEL}.")
    assert result["modules"]["bic"]["file"].endswith("updates/tcp_bic.ko")
    total = sum(flow["throughput_bps"] for flow in result["flows"])
    # The link's rate minus headers.
    assert 0.93 * 50e6 < total < 0.957 * 50e6


@pytest.mark.tier("all")
def test_jitter_follows_its_seed() -> None:
    """Processes start at the same times with the same seed, at others with another seed."""
    clock = "/usr/bin/python3 -c 'import time; print(time.monotonic_ns())'"
    script = f"for i in 1 2 3; do {clock} & {clock}; wait; done"
    undisturbed, first, second, other = (
        guest(script, *words)
        for words in ([], ["--jitter"], ["--jitter"], ["--jitter", "--seed", "1"])
    )
    assert first == second != other
    # Each process starts up to 1 ms later, and there are a few before the script.
    assert 1e6 < int(first[-1]) - int(undisturbed[-1]) < 40e6
