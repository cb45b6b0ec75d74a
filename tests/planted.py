# SPDX-License-Identifier: GPL-2.0
"""Planted mistakes: copies of the core with one rule changed, which a test must find."""

from __future__ import annotations

import shutil
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
CORE = "include/fairpath/slbn/slbn_core.h"


def plant(scratch: Path, right: str, wrong: str) -> Path:
    """Copy include/ into SCRATCH, with WRONG instead of RIGHT in the core; the tree to build."""
    tree = scratch / "tree"
    shutil.copytree(TOP / "include", tree / "include")
    text = (tree / CORE).read_text()
    assert text.count(right) == 1, "the core has changed: adapt PLANTED"
    (tree / CORE).write_text(text.replace(right, wrong))
    return tree
