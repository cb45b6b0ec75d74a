# SPDX-License-Identifier: GPL-2.0
"""The checkers of mainline and of Python report nothing.

Which files are looked at follows from what git tracks or would track, so that a new file
is not forgotten.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP, linux_source

VENV = TOP / "build" / "venv" / "bin"

#: Kinds of checkpatch messages that do not apply, by the end of the file name.
CHECKPATCH_IGNORES = {
    "_trace.h": "OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT",
    "compat/oldest.h": "LINUX_VERSION_CODE,CONSTANT_COMPARISON",
    # struct Qdisc is mainline's name.
    "sch_drr_fq.c": "CAMELCASE",
    "sch_slbn/slbn.h": "CAMELCASE",
    "sch_slbn/slbn_bypass.c": "CAMELCASE",
    "sch_slbn/slbn_link.c": "CAMELCASE",
    "sch_slbn/slbn_qdisc.c": "CAMELCASE",
    "sch_slbn/slbn_root.c": "CAMELCASE",
    "sch_slbn/slbn_trace.c": "CAMELCASE",
    "compat/net/sch_generic.h": "CAMELCASE",
    # The paper's names.
    "slbnsim/sperc.c": "CAMELCASE",
    # For programs outside the kernel, which have no types such as u32.
    "slbnctl/domain.c": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnctl/path.c": "PREFER_KERNEL_TYPES",
    "slbnctl/session.c": "PREFER_KERNEL_TYPES",
    "libslbn/libslbn.h": "PREFER_KERNEL_TYPES",
    "libslbn/libslbn.c": "PREFER_KERNEL_TYPES",
    "libslbn/protocol.h": "PREFER_KERNEL_TYPES",
    # An attribute of functions, which is no value.
    "slbnd/enforcement/connections_core.h": "COMPLEX_MACRO",
    "slbnd/enforcement/window.h": "COMPLEX_MACRO",
    # Parameters that are not used.
    "slbnd/enforcement/edt_none.c": "FUNCTION_ARGUMENTS",
    # __printf() and the like are macros of the kernel.
    "slbnd/enforcement/htb.c": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnd/system/log.h": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnd/system/tc.h": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/command.h": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/options.h": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/memory.h": "FUNCTION_ARGUMENTS,PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/run.c": "VOLATILE",
    "slbnsim/sim.h": "VOLATILE",
    "slbnsim/text.c": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/text.h": "PREFER_DEFINED_ATTRIBUTE_MACRO",
    "slbnsim/topology.c": "PREFER_DEFINED_ATTRIBUTE_MACRO",
}


def files(*patterns: str) -> list[str]:
    """The project's files that match, relative to its top."""
    listed = launch.succeed(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=TOP
    ).stdout.split()
    return [name for name in listed if (TOP / name).exists()]


#: Import paths: those of tests/pytest.ini and the scripts.
IMPORTS = (".", "userspace/lab", "userspace/libslbn", "userspace/vm")


def run(*command: str | Path, cwd: Path = TOP) -> str:
    """The output of a checker; the test fails with it if the checker fails."""
    done = launch.run(
        command, cwd=cwd, environment={"MYPYPATH": ":".join(IMPORTS)}, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, f"{' '.join(map(str, command[:4]))} ...\n{done.stdout}"
    return done.stdout


def scripts(interpreter: str) -> list[str]:
    """Files that name INTERPRETER in their first line."""
    found = []
    for name in files("scripts/*", "tests/*", ".ci/*"):
        with (TOP / name).open("rb") as file:
            if file.readline().strip().decode("utf-8", "replace") == f"#!{interpreter}":
                found.append(name)
    return found


KERNEL_C = files(
    "tcp_*/*.[ch]",
    "sch_*/*.[ch]",
    "include/*.h",
    "userspace/common/*.[ch]",
    "userspace/tc/*.[ch]",
    "userspace/slbn*/*.[ch]",
    "userspace/libslbn/*.[ch]",
)


def by_ignored() -> dict[str, list[str]]:
    """The kernel's C files by the kinds of messages that do not apply to them."""
    found: dict[str, list[str]] = {}
    for name in KERNEL_C:
        endings = [ending for ending in CHECKPATCH_IGNORES if name.endswith(ending)]
        kinds = ",".join(CHECKPATCH_IGNORES[ending] for ending in endings)
        found.setdefault(kinds, []).append(str(TOP / name))
    return found


# One process for many files: to start it takes as long as to check one of 150 lines.
@pytest.mark.parametrize("ignored", by_ignored())
def test_checkpatch(ignored: str) -> None:
    for needed in ("scripts/spelling.txt", "scripts/const_structs.checkpatch"):
        linux_source(needed)
    options = [f"--ignore={ignored}"] if ignored else []
    checkpatch = linux_source("scripts/checkpatch.pl")
    # checkpatch.pl writes a cache into its working directory.
    names, cwd = by_ignored()[ignored], checkpatch.parent
    run("perl", checkpatch, "--no-tree", "--strict", "--quiet", *options, "-f", *names, cwd=cwd)


def test_clang_format() -> None:
    sources = files("*.c", "*.cc", "*.h")
    run(VENV / "clang-format", "--dry-run", "--Werror", "--style=file", *sources)


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The oldest kernel that is supported: sparse does not understand the newest."""
    return Path(run("scripts/kernel", "get", "6.1").splitlines()[-1])


@pytest.mark.tier("test")
def test_modules_build_without_warnings(kernel: Path, tmp_path: Path) -> None:
    """Neither of the compiler (W=1) nor of sparse (C=2)."""
    output = run(
        "make", "modules", f"KERNELDIR={kernel}/headers", f"BUILD={tmp_path}", "W=1", "C=2"
    ).splitlines()
    assert [line for line in output if "warning" in line or "error" in line] == []
    assert len(list(tmp_path.glob("*/*.ko"))) == len(files("tcp_*/Kbuild", "sch_*/Kbuild"))


def test_ruff() -> None:
    python = [*files("*.py"), *scripts("/usr/bin/python3")]
    config = ["--no-cache", "--config", "userspace/lab/pyproject.toml"]
    run(VENV / "ruff", "check", *config, *python)
    run(VENV / "ruff", "format", "--check", *config, *python)


@pytest.mark.parametrize(
    "paths",
    [["tests", "userspace/lab/fairlab", "userspace/vm/fairvm", "userspace/slbnsim/graphml.py"]]
    + [["userspace/slbnsim/python/slbnsim"]]
    + [[script] for script in scripts("/usr/bin/python3")],
    ids=lambda paths: str(paths[0]),
)
def test_mypy(paths: list[str]) -> None:
    run(
        VENV / "mypy",
        "--config-file=userspace/lab/pyproject.toml",
        "--explicit-package-bases",
        f"--cache-dir={TOP}/build/mypy",
        *paths,
    )


def test_shellcheck() -> None:
    run("shellcheck", *scripts("/bin/sh"), *scripts("/bin/bash"), *files("*.sh"))


def test_names_of_devices_are_copied() -> None:
    """Without RTNL a device may be renamed meanwhile: only a copy has an end and one length."""
    texts = [(TOP / file).read_text() for file in files("sch_*/*.c")]
    lines = [line for text in texts for line in text.splitlines()]
    uses = [line for line in lines if re.search(r"\bdev->name\b", line)]
    assert uses and all("strscpy(" in line for line in uses), uses


def test_versions_are_tested_in_compat_only() -> None:
    elsewhere = [
        name
        for name in KERNEL_C
        if not name.startswith("include/compat/")
        and any(
            word in (TOP / name).read_text() for word in ("LINUX_VERSION_CODE", "KERNEL_VERSION(")
        )
    ]
    assert elsewhere == []
