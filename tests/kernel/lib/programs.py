# SPDX-License-Identifier: GPL-2.0
"""The C programs of these tests, in build/test-programs.

tests/run builds them (`python3 -m tests.kernel.lib.programs`), as a compiler takes long in a
guest. A test that finds one missing or older than the sources builds it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
#: Not build/tests, where reports are: of a guest of another machine that is the host's.
BUILT = TOP / "build/test-programs"
WARNINGS = "-O1 -Wall -Wextra -Werror"


def _is_current(program: Path) -> bool:
    if not program.exists():
        return False
    directories = ("include", "userspace/common", "userspace/slbnd", "build/slbnd", "tests/kernel")
    sources = [file for each in directories for file in (TOP / each).rglob("*.[ch]")]
    return max(file.stat().st_mtime for file in sources) < program.stat().st_mtime


def _built(name: str, arguments: str) -> str:
    """The path of a program, built if necessary."""
    program = BUILT / name
    if not _is_current(program):
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as directory:
            made = Path(directory) / name
            subprocess.run(["gcc", *arguments.split(), "-o", made], cwd=TOP, check=True)
            # Stages in other guests may build it at the same time.
            os.replace(made, program)
    return str(program)


def slbn_peer() -> str:
    """Sources of sessions, with the source's task of slbn_core.h."""
    sources = "tests/kernel/lib/slbn_peer.c userspace/common/siphash.c"
    return _built("slbn_peer", f"{WARNINGS} -Iinclude -I. {sources}")


def enforce_try() -> str:
    """slbnd's rate enforcement."""
    slbnd = "userspace/slbnd"
    flags = f"-O1 -Wall -D_GNU_SOURCE -Iinclude -Iinclude/uapi -I{slbnd}/enforcement -Ibuild/slbnd"
    names = "edt enforce htb htb_config ingress marks windows"
    sources = [f"{slbnd}/enforcement/{name}.c" for name in names.split()]
    sources += [f"{slbnd}/system/{name}.c" for name in ("links", "log", "tc")]
    sources += ["tests/kernel/lib/enforce_try.c", "-lmnl", "-lbpf"]
    return _built("enforce_try", f"{flags} {' '.join(sources)}")


def no_lookups() -> str:
    """A library by which slbnd's look-ups of connections fail."""
    return _built("no_lookups.so", f"{WARNINGS} -shared -fPIC tests/kernel/lib/no_lookups.c")


if __name__ == "__main__":
    slbn_peer()
    enforce_try()
    no_lookups()
