# SPDX-License-Identifier: GPL-2.0
"""The root of the tree has no stray files; the files of sch_slbn, and the rooms of slbnd and of the
kernel tests, are in layers.
"""

from __future__ import annotations

import re

from tests import launch
from tests.linux_source import TOP

ROOT = {
    *("Makefile", "Kbuild", "tcp_bic", "tcp_gaimd", "sch_slbn", "sch_drr_fq", "userspace"),
    *("tests", "scripts", "include", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md"),
    *(
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "VERSION",
        ".ci",
        ".clang-format",
        ".editorconfig",
        ".gitignore",
    ),
}


def test_root_has_no_other_files() -> None:
    done = launch.succeed(["git", "ls-files"], cwd=TOP)
    assert {name.split("/")[0] for name in done.stdout.splitlines()} == ROOT


def test_files_of_sch_slbn_use_only_those_below() -> None:
    """In the order of the list in slbn.h."""
    header = (TOP / "sch_slbn/slbn.h").read_text()
    order = re.findall(r"^ \* (slbn_\w+\.c)\t", header, re.MULTILINE)
    _, *parts = re.split(r"^/\* (slbn_\w+\.c) \*/$", header, flags=re.MULTILINE)
    declared = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(declared) | {"slbn_qdisc.c"} == set(order)
    assert {path.name for path in (TOP / "sch_slbn").glob("*.c")} == set(order)
    upwards = []
    for place, name in enumerate(order):
        used = set(re.findall(r"\w+", (TOP / "sch_slbn" / name).read_text()))
        for above in order[1:place]:
            theirs = set(re.findall(r"\b(slbn_\w+)(?=[(\[])", declared[above]))
            assert theirs, above
            upwards += [f"{name} uses {each} of {above}" for each in used & theirs]
    assert upwards == []


#: From the top to the bottom.
ROOMS = ("service", "flows", "enforcement", "sessions", "system")


def test_rooms_of_slbnd_use_only_those_below() -> None:
    slbnd = TOP / "userspace/slbnd"
    assert {path.name for path in slbnd.iterdir()} == set(ROOMS)
    used = {
        (path.parent.name, room)
        for path in slbnd.glob("*/*.[ch]")
        for room in re.findall(r'^#include "\.\./(\w+)/', path.read_text(), re.MULTILINE)
    }
    assert len(used) >= len(ROOMS)
    assert {(a, b) for a, b in used if ROOMS.index(a) > ROOMS.index(b)} == set()


def test_what_kernel_tests_share_uses_no_test() -> None:
    library = TOP / "tests/kernel/lib"
    found = {
        f"{path.name}: {name}"
        for path in library.glob("*.py")
        for name in re.findall(r"\btests\.kernel\.(?!lib\b)\w+", path.read_text())
    }
    assert found == set()
