# SPDX-License-Identifier: GPL-2.0
"""Compilers for kernel headers that are newer than the host.

Headers of a newer Debian release bring tools (modpost, objtool) that need its libc, and a
configuration that needs its compiler.  For these a small root with that compiler is unpacked, and
the build runs in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from fairvm.archive import SERIES, TOOLCHAINS, Archive, unpack
from fairvm.cache import Kernel, cache_dir, locked, staging
from fairvm.host import need, run, say, top


class Toolchain:
    """A small root with a compiler and libc.

    Its packages are only unpacked, which needs no root; a build in it needs a mount namespace (root
    or user namespaces).
    """

    TOOLS = tuple(
        "make libc6-dev libelf1 libssl3t64 pahole kmod dash bash coreutils findutils sed grep mawk"
        " diffutils perl-base dpkg xz-utils base-files".split()
    )

    # Runs in a new mount namespace: bind-mounts the directories before `--` into the root at the
    # same paths, then runs the rest in it.
    ENTER = """
        set -e
        root=$1
        shift
        while [ "$1" != -- ]; do
            mkdir -p "$root$1"
            mount --rbind "$1" "$root$1"
            shift
        done
        shift
        exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LC_ALL=C "$@"
    """

    def __init__(self, kernel: Kernel, compiler: str) -> None:
        suite = (kernel.directory / "suite").read_text().strip()
        default = tuple(s for places in SERIES.values() for group in places for s in group)
        self.suites = TOOLCHAINS.get(suite) or tuple({s for s in default if s.name == suite})
        self.compiler = compiler
        self.root = cache_dir() / "toolchains" / f"{suite}-{compiler}"

    def create(self) -> None:
        """Fetch and unpack it unless it exists."""
        with locked(cache_dir() / "lock"):
            if (self.root / "complete").exists():
                return
            archive = Archive(self.suites)
            archive.update()
            say(f"fetching {self.compiler} from {archive.label} (about 300 MB unpacked)")
            with staging(self.root) as new:
                scratch = new / "debs"
                packages = archive.closure([self.compiler, *self.TOOLS], scratch)
                # base-files has the link from /bin to /usr/bin: it must be first.
                packages.sort(key=lambda package: not package.name.startswith("base-files_"))
                unpack(packages, new)
                shutil.rmtree(scratch)
                for link, target in (("sh", "dash"), ("awk", "mawk"), ("gcc", self.compiler)):
                    path = new / "usr/bin" / link
                    if not path.is_symlink():
                        path.symlink_to(target)
                (new / "complete").touch()

    def wrap(self, command: list[str]) -> list[str]:
        """The command that runs COMMAND in this root."""
        unshare = [need("unshare", "util-linux"), "--mount"]
        if os.getuid():
            unshare += ["--user", "--map-root-user"]
        shared = ["/dev", "/proc", str(top()), str(cache_dir())]
        return [*unshare, "sh", "-c", self.ENTER, "sh", str(self.root), *shared, "--", *command]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall("[0-9]+", text))


def toolchain_for(kernel: Kernel) -> Toolchain | None:
    """The toolchain to build against the headers of KERNEL; None if the host's is sufficient."""
    if not (kernel.directory / "suite").exists():
        return None  # headers from outside of the cache: the host is assumed to have their tools
    config = (kernel.headers / ".config").read_text()
    variables = (kernel.headers / ".kernelvariables").read_text()
    match = re.search(r"\bgcc-([0-9]+)", variables)
    if match is None:
        return None
    toolchain = Toolchain(kernel, match[0])

    def version(pattern: str) -> tuple[int, ...]:
        found = re.search(pattern, config, re.MULTILINE)
        return _numbers(found[1]) if found else (0,)

    host_gcc = shutil.which(match[0]) or need("gcc", "gcc")
    if _numbers(run([host_gcc, "-dumpversion"]))[0] < int(match[1]):
        return toolchain
    host_pahole = _numbers(run([need("pahole", "pahole"), "--version"]))
    if host_pahole[0] * 100 + host_pahole[1] < version(r"^CONFIG_PAHOLE_VERSION=([0-9]+)")[0]:
        return toolchain
    # Do the host's libraries suffice for the tools?  ldd reports missing ones on either stream.
    ldd = need("ldd", "libc-bin")
    for pattern in ("scripts/mod/modpost*", "tools/objtool/objtool*", "tools/bpf/*/resolve_btfids"):
        for tool in kernel.headers.glob(pattern):
            if tool.is_file() and tool.read_bytes()[:4] == b"\x7fELF":
                done = subprocess.run([ldd, str(tool)], capture_output=True, text=True, check=False)
                if "not found" in done.stdout + done.stderr:
                    return toolchain
    return None
