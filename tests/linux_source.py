# SPDX-License-Identifier: GPL-2.0
"""Files of the kernel source, from the distribution's linux-source package.

Tests compare our code with mainline's and use its checkpatch.pl. This tree has no copies of
them: the files are extracted once from the package's tarball (which takes some seconds) and kept
in build/. Running this module extracts all of them, for makefiles.
"""

from __future__ import annotations

import re
import sys
import tarfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / "build" / "linux-source"

#: All files that tests use.
FILES = (
    "net/ipv4/tcp_bic.c",
    "net/ipv4/tcp_cong.c",
    "scripts/checkpatch.pl",
    "scripts/spelling.txt",
    "scripts/const_structs.checkpatch",
)


def _tarball() -> Path:
    found = [
        path
        for pattern in ("linux-source-*.tar.*", "linux-source-*/linux-source-*.tar.*")
        for path in Path("/usr/src").glob(pattern)
    ]
    if not found:
        raise FileNotFoundError("no linux-source package in /usr/src: run scripts/install-deps")

    def version(path: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", path.name)]

    return max(found, key=version)


def linux_source(name: str) -> Path:
    """Return the path of a file of the kernel source, one of FILES.

    Raises FileNotFoundError if the package is not installed or lacks the file.
    """
    if name not in FILES:
        raise ValueError(f"{name} is not in FILES")
    if not all((CACHE / wanted).exists() for wanted in FILES):
        missing = set(FILES)
        with tarfile.open(_tarball()) as tar:
            for member in tar:
                inner = member.name.partition("/")[2]
                if inner in missing and (content := tar.extractfile(member)):
                    target = CACHE / inner
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read())
                    missing.remove(inner)
                if not missing:
                    break
        if missing:
            raise FileNotFoundError(f"not in {_tarball()}: {', '.join(sorted(missing))}")
    return CACHE / name


if __name__ == "__main__":
    try:
        linux_source(FILES[0])
    except FileNotFoundError as error:
        sys.exit(str(error))
