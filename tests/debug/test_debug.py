# SPDX-License-Identifier: GPL-2.0
"""Kernels that look for their own errors: scripts/vm --engine native --debug, and with two CPUs
--kernel 6.12-debug and 6.12-kcsan.

Not part of `make test`, since the kernels take long to build: `make test-debug` runs these tests,
and then kernel tests in these kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.test_uml import NATIVE, build_splat, get, vm
from tests.vm.test_vm import Done

DEBUG = [*NATIVE, "--debug"]
BOOT_SECONDS = 900
LEAKS = "/sys/kernel/debug/kmemleak"
#: On the checked kernel with two CPUs: how a planted error is reported.
ERRORS = {
    "freed": b"KASAN: slab-use-after-free in splat_freed",
    "locks": b"possible circular locking dependency",
    "sleeps": b"sleeping function called from invalid context",
    "nests": b"Invalid wait context",
}


def checked(name: str, *command: str) -> Done:
    """Run a command in a checked kernel."""
    smp = ["--kernel", name, "--smp", "2", "--accel", "mttcg", "--timeout", str(BOOT_SECONDS)]
    return vm(*smp, "--", *command, limit=BOOT_SECONDS + 60)


@pytest.fixture(scope="module")
def debug_splat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_splat(get(*DEBUG), tmp_path_factory.mktemp("splat") / "module")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("freed", b"KASAN: use-after-free in splat_freed"),
        ("shift", b"UBSAN: shift-out-of-bounds"),
        ("locks", b"possible circular locking dependency"),
    ],
)
def test_debug(debug_splat: Path, kind: str, message: bytes) -> None:
    """Errors that other kernels do not detect are reported, in modules too."""
    done = vm(*DEBUG, "--", "insmod", str(debug_splat), f"kind={kind}")
    assert message in done.stderr, done.stderr
    assert done.returncode == 70


def test_debug_without_errors(debug_splat: Path) -> None:
    """Without errors in the command, none are reported, not even of the boot."""
    done = vm(
        *DEBUG, "--", "sh", "-c", f"insmod {debug_splat} && tc qdisc add dev lo root fq_codel"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


@pytest.fixture(scope="module")
def smp_splat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_splat(get(version="6.12-debug"), tmp_path_factory.mktemp("smp") / "module")


@pytest.mark.parametrize("kind", ERRORS)
def test_debug_smp(smp_splat: Path, kind: str) -> None:
    done = checked("6.12-debug", "insmod", str(smp_splat), f"kind={kind}")
    assert ERRORS[kind] in done.stderr, done.stderr
    assert done.returncode == 70


def test_debug_smp_without_errors(smp_splat: Path) -> None:
    """Leaks are reported on request only, as they can be false (see tests/kernel/conftest.py)."""
    scan = f"sleep 6; echo scan >{LEAKS}; sleep 6; echo scan >{LEAKS}; cat {LEAKS}"
    done = checked("6.12-debug", "sh", "-c", f"insmod {smp_splat} kind=leaks; {scan}")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"[splat]" in done.stdout


def test_kcsan(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Data races are reported if they are in a module of this tree."""
    splat = build_splat(get(version="6.12-kcsan"), tmp_path_factory.mktemp("kcsan") / "module")
    racing = f"insmod {splat} kind=races; sleep 5; rmmod splat"
    done = checked("6.12-kcsan", "sh", "-c", racing)
    assert b"KCSAN: data-race in splat_races [splat]" in done.stderr, done.stderr
    assert done.returncode == 70
