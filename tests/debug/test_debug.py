# SPDX-License-Identifier: GPL-2.0
"""scripts/vm --engine native --debug: a kernel with KASAN, UBSAN and lockdep.

Not part of `make test`, since its kernel takes long to build: `make test-debug` runs these tests,
and then the tests of the qdiscs in that kernel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.test_uml import NATIVE, build_splat, get, vm

DEBUG = [*NATIVE, "--debug"]


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
