# SPDX-License-Identifier: GPL-2.0
"""Links and sources of this tree and of an earlier commit work in one domain.

The headers that its module is compiled from come from the history of git; the commit is an earlier
one, without the share option and masked tags. Without the history the test fails: a shallow clone
needs `git fetch --unshallow`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
BEFORE = "6d92818"


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", TOP, *words], check=True, stdout=subprocess.PIPE).stdout


def test_domain_of_two_versions(tmp_path: Path) -> None:
    archive = git("archive", BEFORE, "include")
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive, check=True)
    wire = "include/fairpath/slbn/slbn_wire.h"
    assert "SLBN_OPTION_SHARE" not in (tmp_path / wire).read_text()
    assert "SLBN_OPTION_SHARE" in (TOP / wire).read_text()
    flags = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-fsanitize=address,undefined"]
    flags += ["-fno-sanitize-recover", f"-I{HERE / 'versions'}"]
    objects = []
    for version, tree in (("before", tmp_path), ("after", TOP)):
        made = tmp_path / f"{version}.o"
        include = [f"-DVERSION={version}", f"-I{tree / 'include'}"]
        subprocess.run([*flags, *include, "-c", HERE / "versions/node.c", "-o", made], check=True)
        objects.append(made)
    program = tmp_path / "domain"
    subprocess.run([*flags, HERE / "versions/domain.c", *objects, "-o", program], check=True)
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "16 domains\n")
