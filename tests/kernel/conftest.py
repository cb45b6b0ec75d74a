# SPDX-License-Identifier: GPL-2.0
"""Kernel tests disturb the kernel, so they run only inside scripts/vm."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib import programs
from tests.kernel.lib.net import Pair, pair, sh

# So that a failed assertion in a helper shows its values.
pytest.register_assert_rewrite("tests.kernel.lib.slbn_sessions", "tests.kernel.lib.slbn_tap")

KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
OURS = re.compile(r"\[(sch_drr_fq|sch_slbn|tcp_bic|tcp_gaimd)\]")


def pytest_configure() -> None:
    if "FAIRPATH_ENGINE" not in os.environ:
        raise pytest.UsageError("run these in a VM: tests/run --stage kernel")


@pytest.fixture(autouse=True, scope="session")
def modules() -> Iterator[None]:
    sh("modprobe tcp_bic && modprobe tcp_gaimd && modprobe sch_drr_fq && modprobe sch_slbn")
    # Otherwise a CPU drops packets when a queue sends many at once.
    Path("/proc/sys/net/core/netdev_max_backlog").write_text("1000000")
    # A virtual clock starts at 0, which TCP takes for "never": tcp_ack() warns.
    time.sleep(0.01)
    yield
    if KMEMLEAK.exists():
        assert not leaks(), leaks()


def leaks() -> list[str]:
    """Objects that our modules allocated and nothing refers to any more."""
    # Younger ones than 5 s are not reported, and a pointer may be in a register meanwhile.
    for _ in range(2):
        time.sleep(6)
        KMEMLEAK.write_text("scan")
    return [each for each in KMEMLEAK.read_text().split("unreferenced ") if OURS.search(each)]


@pytest.fixture
def net() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture(scope="session")
def peer() -> str:
    """The path of the SLBN peer."""
    return programs.slbn_peer()


@pytest.fixture(scope="session")
def enforce_try() -> str:
    """The path of the program for slbnd's enforcement."""
    return programs.enforce_try()
