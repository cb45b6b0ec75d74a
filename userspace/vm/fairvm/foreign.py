# SPDX-License-Identifier: GPL-2.0
"""Guests of other machines: their files, and the project's programs compiled for them.

Such a guest cannot run this machine's programs. Its root has Debian's packages for its
architecture, which are only unpacked, and a copy of the tree at the tree's own path, in which the
programs were compiled by a cross compiler for it.

Requires a cross compiler.  For s390x slbnd is built without BPF: bpftool before 7.5 reads only
objects of its own byte order.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from fairvm.architecture import Architecture
from fairvm.archive import BOOKWORM, Archive
from fairvm.cache import Kernel, build_dir, cache_dir, locked, staging
from fairvm.errors import VmError
from fairvm.host import link_or_copy, need, run, say, tree

#: What guests need to run tests, and the libraries that our programs are compiled with.
PACKAGES = tuple(
    "base-files base-passwd busybox-static dash bash coreutils findutils grep sed mawk hostname"
    " util-linux mount procps psmisc kmod iproute2 iputils-ping ethtool nftables iperf3"
    " python3 python3-pytest python3-hypothesis python3-jsonschema python3-yaml libc-bin netbase"
    " libc6-dev libmnl-dev libjson-c-dev libbpf-dev libnetfilter-conntrack-dev"
    " libnftables-dev".split()
)
#: These make files of their own, or are not needed there.
NOT_COPIED = frozenset((".git", "build", "results", ".hypothesis", ".snakemake", "__pycache__"))
MERGED = ("bin", "sbin", "lib", "lib64")


def packages_root(architecture: Architecture) -> Path:
    """A root with PACKAGES for ARCHITECTURE, fetched and unpacked unless it exists."""
    root = cache_dir() / "roots" / f"{BOOKWORM.name}-{architecture.name}"
    wanted = "\n".join(PACKAGES)
    with locked(cache_dir() / "lock"):
        if (root / "complete").exists() and (root / "complete").read_text() == wanted:
            return root
        archive = Archive((BOOKWORM,), architecture.name)
        archive.update()
        say(f"fetching a root for {architecture.name} from {archive.label}")
        with staging(root) as new:
            for name in MERGED:
                (new / "usr" / name).mkdir(parents=True)
                (new / name).symlink_to(f"usr/{name}")
            scratch = new / "debs"
            for package in archive.closure(list(PACKAGES), scratch):
                _unpack(package, new)
            shutil.rmtree(scratch)
            for name in ("passwd", "group"):
                shutil.copyfile(new / f"usr/share/base-passwd/{name}.master", new / "etc" / name)
            for link, target in (("awk", "mawk"), ("sh", "dash")):
                path = new / "usr/bin" / link
                if not path.is_symlink():
                    path.symlink_to(target)
            (new / "complete").write_text(wanted)
    return root


def _unpack(package: Path, into: Path) -> None:
    """Unpack a package; unlike dpkg -x, keep links such as that from bin to usr/bin."""
    tar = ["tar", "-x", "--keep-directory-symlink", "-C", str(into)]
    with subprocess.Popen(
        [need("dpkg-deb", "dpkg"), "--fsys-tarfile", str(package)], stdout=subprocess.PIPE
    ) as files:
        done = subprocess.run(tar, stdin=files.stdout, check=False)
    if files.returncode or done.returncode:
        raise VmError(f"cannot unpack {package.name}")


def _copy_tree(top: Path, to: Path) -> None:
    """Make TO a copy of the sources in TOP; files that did not change keep their times."""
    kept = set()
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if name not in NOT_COPIED]
        place = to / Path(directory).relative_to(top)
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            source, target = Path(directory) / name, place / name
            kept.add(target)
            if source.is_symlink():
                target.unlink(missing_ok=True)
                target.symlink_to(source.readlink())
            elif not target.exists() or _stamp(source) != _stamp(target):
                target.unlink(missing_ok=True)  # guests may have a link to it
                shutil.copy2(source, target)
    for directory, names, files in os.walk(to):
        names[:] = [name for name in names if name not in NOT_COPIED]
        for name in files:
            path = Path(directory) / name
            if path not in kept:
                path.unlink()


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _compilers(architecture: Architecture, root: Path, into: Path) -> Path:
    """Programs named as this machine's, which compile for ARCHITECTURE with ROOT's libraries."""
    directory = into / "build/cross"
    directory.mkdir(parents=True, exist_ok=True)
    compiler = need(f"{architecture.prefix}gcc", architecture.compiler)
    archiver = need(f"{architecture.prefix}ar", architecture.compiler)
    headers = root / "usr/include" / architecture.multiarch
    libraries = root / "usr/lib" / architecture.multiarch / "pkgconfig"
    settings = f"PKG_CONFIG_LIBDIR={libraries}:{root}/usr/share/pkgconfig"
    scripts = {
        "gcc": f'{compiler} --sysroot={root} "$@"',
        "cc": f'{compiler} --sysroot={root} "$@"',
        "ar": f'{archiver} "$@"',
        "clang": f'{need("clang", "clang")} -isystem {headers} "$@"',
        "pkg-config": f"env PKG_CONFIG_SYSROOT_DIR={root} {settings}"
        f' {need("pkg-config", "pkgconf")} "$@"',
    }
    for name, command in scripts.items():
        path = directory / name
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o755)
    return directory


def _build(architecture: Architecture, root: Path, copy: Path) -> None:
    """Compile the programs in COPY."""
    compilers = _compilers(architecture, root, copy)
    environment = {**os.environ, "PATH": f"{compilers}:{os.environ['PATH']}"}
    programs = ["make", "-s", "tc-plugins", "tools", "traffic", "slbnsim"]
    tests = "from tests.kernel.lib import programs; programs.slbn_peer()"
    if architecture.name == "s390x":
        programs.append("BPF=no")
    else:
        tests += "; programs.enforce_try()"
    commands = [programs, ["/usr/bin/python3", "-c", tests]]
    for command in commands:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            sys.stderr.write(done.stdout.decode(errors="replace"))
            raise VmError(f"the programs could not be built for {architecture.name}")


def _state(base: Path, copy: Path, modules: Path) -> str:
    """What decides whether a root is up to date."""
    files = [path for path in copy.rglob("*") if path.is_file() and "/build/obj/" not in str(path)]
    text = "".join(f"{path} {_stamp(path)}\n" for path in sorted([*files, base / "complete"]))
    stamp = modules / "stamp"
    text += stamp.read_text() if stamp.exists() else str(modules)
    return hashlib.sha256(text.encode()).hexdigest()


def prepare(kernel: Kernel, modules: Path | None) -> Path:
    """The root of a guest with KERNEL, with the modules of the tree MODULES and the programs that
    were compiled for it, or only those of the kernel; in the source tree, with a copy of that."""
    architecture = kernel.architecture
    base = packages_root(architecture)
    place = build_dir() / "foreign" / kernel.release
    top = tree()
    with locked(build_dir() / f".lock-foreign-{architecture.name}"):
        copy = build_dir() / "foreign" / architecture.name
        if top is not None:
            _copy_tree(top, copy)
        if modules:
            _build(architecture, base, copy)
        state = _state(base, copy, modules or kernel.directory)
        # Do not touch an up-to-date root: a running guest may be using it.
        if (place / "state").exists() and (place / "state").read_text() == state:
            return place
        # Links to the cache's files: the guest cannot write to them.
        with staging(place) as new:
            _link(base, new)
            if top is not None:
                _link(copy, new / str(top).lstrip("/"))
            source = (modules or kernel.directory) / "lib/modules" / kernel.release
            _link(source, new / "usr/lib/modules" / kernel.release, "build", "source")
            run([need("depmod", "kmod"), "-b", str(new), kernel.release])
            for name in ("dev", "proc", "sys", "run", "tmp", "root"):
                (new / name).mkdir(exist_ok=True)
            (new / "state").write_text(state)
    return place


def _link(source: Path, target: Path, *without: str) -> None:
    """Copy a directory by links to its files."""
    shutil.copytree(
        source,
        target,
        # Those in a module tree lead to the kernel's modules; all others are kept.
        symlinks=not without,
        copy_function=link_or_copy,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns(*without),
    )
