# SPDX-License-Identifier: GPL-2.0
"""scripts/vm --engine native --debug: a kernel that checks itself, and finds what others let pass.

Not part of `make test`, since its kernel takes long to build: `make test-debug` runs these, and
then the tests of the qdiscs inside that kernel.
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
    ("kind", "said"),
    [
        ("freed", b"KASAN: use-after-free in splat_freed"),
        ("shift", b"UBSAN: shift-out-of-bounds"),
        ("locks", b"possible circular locking dependency"),
    ],
)
def test_debug(debug_splat: Path, kind: str, said: bytes) -> None:
    """The kernel that checks itself finds what others let pass, in modules too."""
    done = vm(*DEBUG, "--", "insmod", str(debug_splat), f"kind={kind}")
    assert said in done.stderr, done.stderr
    assert done.returncode == 70


def test_debug_clean(debug_splat: Path) -> None:
    """And has nothing to say otherwise, not even of itself."""
    done = vm(
        *DEBUG, "--", "sh", "-c", f"insmod {debug_splat} && tc qdisc add dev lo root fq_codel"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
