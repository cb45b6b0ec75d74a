# SPDX-License-Identifier: GPL-2.0
"""Memory of qdiscs is charged to the cgroup of the process that configures them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.lib.net import sh, unnamed_namespace

pytestmark = [pytest.mark.stock, pytest.mark.tier("all")]


@pytest.mark.parametrize(
    ("options", "size"),
    [("slbn rate 1gbit memory 262144", 32 * 262144), ("drr_fq flows 262144", 64 * 262144)],
)
def test_memory_is_charged_to_the_cgroup(options: str, size: int) -> None:
    root = Path("/sys/fs/cgroup")
    if not (root / "cgroup.controllers").exists():
        sh(f"mount -t cgroup2 none {root}")
    (root / "cgroup.subtree_control").write_text("+memory")
    mine = root / "charged"
    mine.mkdir()
    current = mine / "memory.current"
    (mine / "cgroup.procs").write_text(str(os.getpid()))
    try:
        with unnamed_namespace():
            sh("ip link add d0 type dummy; tc qdisc show dev d0")
            before = int(current.read_text())
            sh(f"tc qdisc add dev d0 root {options}")
            added = int(current.read_text()) - before
            sh("tc qdisc del dev d0 root")
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        mine.rmdir()
    # The kernel charges in advance, and releases what others no longer use.
    assert size * 3 // 4 < added < 2 * size
