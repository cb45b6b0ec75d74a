# SPDX-License-Identifier: GPL-2.0
"""Building kernels from Debian's own source package: User-Mode Linux (uml.py), and kernels for
qemu that check themselves (checked.py).

The source is the package linux-source-SERIES: the installed one, else it is fetched.  It is built
unchanged but for patches that the caller names.  The configuration is allnoconfig plus the wanted
options.  After the build, the parts of the tree that modules do not need are deleted.

Requires x86-64; gcc, flex, bison, bc on the host, and libelf-dev for qemu's kernels.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from fairvm.archive import SERIES, Archive, unpack
from fairvm.cache import build_dir, cache_dir, locked, staging
from fairvm.errors import VmError
from fairvm.host import need, run, say

TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc"}
# The directories of the source that a build of modules needs.
KEPT = ("arch", "include", "scripts", "tools")
KEPT_TOOLS = ("objtool",)
KEPT_ARCHITECTURES = ("um", "x86")
OPTION = re.compile(r"CONFIG_(\w+)=(.+)")
REPORT_SECONDS = 20
# What `uname -v` prints is the same in each build.
IDENTITY = {"TIMESTAMP": "1970-01-01", "VERSION": "1", "USER": "fairpath", "HOST": "fairpath"}


@dataclass(frozen=True)
class Patch:
    """A change to the source: in file PATH, replace the text OLD (which must exist) by NEW."""

    path: str
    old: str
    new: str
    config: str = ""  # options that it needs


@dataclass(frozen=True)
class Recipe:
    """How to build a kernel."""

    series: str
    title: str
    architecture: str  # as ARCH for make
    image: str  # the target for the image, and its path in the tree
    config: str
    patches: tuple[Patch, ...] = ()
    files: dict[str, str] = field(default_factory=dict)  # to add to the source: path -> content
    make_variables: str = ""  # for builds of modules
    cost: str = "some minutes"  # of the build

    def build(self, directory: Path) -> None:
        """Build the kernel in DIRECTORY."""
        for program, package in TOOLS.items():
            need(program, package)
        with staging(directory) as new:
            tree = new / "tree"
            version = unpack_source(self.series, tree, new / "scratch")
            say(f"building {self.title} {version} ({self.cost})")
            for patch in self.patches:
                apply(patch, tree)
            for path, content in self.files.items():
                (tree / path).write_text(content)
            configure(tree, self.architecture, self.config)
            log = build_dir() / "kernels" / f"{directory.name}.log"
            compile_all(tree, self.architecture, self.image, log)
            release = (tree / "include/config/kernel.release").read_text().strip()
            install = ["make", "-C", str(tree), f"ARCH={self.architecture}"]
            install += [f"INSTALL_MOD_PATH={new}", f"DEPMOD={need('depmod', 'kmod')}"]
            run([*install, "modules_install"])
            for link in ("build", "source"):
                (new / "lib/modules" / release / link).unlink(missing_ok=True)
            (tree / self.image).rename(new / "kernel")
            prune(tree)
            (new / "headers").symlink_to("tree")
            (new / "release").write_text(release + "\n")
            if self.make_variables:
                (new / "make").write_text(self.make_variables + "\n")
            (new / "source").write_text(f"linux-source-{self.series} {version}\n")


def is_complete(directory: Path) -> bool:
    return (directory / "source").exists()


def unpack_source(series: str, tree: Path, scratch: Path) -> str:
    """Unpack the source into TREE; return the package's version."""
    package = f"linux-source-{series}"
    tarball = find_tarball(Path("/"), package)
    if tarball:
        version = run(["dpkg-query", "-W", "-f", "${Version}", package]).strip()
    else:
        version = fetch_source(series, package, scratch)
        tarball = find_tarball(scratch, package)
        if tarball is None:
            raise VmError(f"the package {package} contains no source")
    tree.mkdir()
    run(["tar", "-C", str(tree), "--strip-components=1", "-xf", str(tarball)])
    shutil.rmtree(scratch, ignore_errors=True)
    return version


def find_tarball(root: Path, package: str) -> Path | None:
    return next(iter(sorted((root / "usr/src").glob(f"{package}.tar.*"))), None)


def fetch_source(series: str, package: str, scratch: Path) -> str:
    """Fetch and unpack the package; return its version."""
    # Kernels of the same suites share apt's lists.
    with locked(cache_dir() / "lock"):
        for suites in SERIES[series]:
            archive = Archive(suites)
            archive.update()
            if not archive.has(package):
                continue
            version = archive.describe(package)["Version"]
            say(f"fetching the source of Linux {version} from {archive.label} (about 140 MB)")
            unpack(archive.download([package], scratch), scratch)
            return version
    raise VmError(f"Debian no longer has {package}: install the package linux-source")


def apply(patch: Patch, tree: Path) -> None:
    """Apply a patch; an error if the text to replace does not exist."""
    path = tree / patch.path
    text = path.read_text()
    if patch.old not in text:
        raise VmError(f"cannot patch {patch.path}: no '{patch.old}' in it")
    path.write_text(text.replace(patch.old, patch.new))


def configure(tree: Path, architecture: str, wanted: str) -> None:
    """Configure allnoconfig plus the options WANTED; an error if one of them is refused."""
    fragment = tree / ".fairpath.config"
    fragment.write_text(wanted)
    make = ["make", "-s", "-C", str(tree), f"ARCH={architecture}"]
    run([*make, f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"])
    wanted_options, got = (
        dict(OPTION.findall(wanted)),
        dict(OPTION.findall((tree / ".config").read_text())),
    )
    # A module may become built in because another option needs it.
    lost = sorted(
        name
        for name, value in wanted_options.items()
        if got.get(name, "n") != value and (value, got.get(name)) != ("m", "y")
    )
    if not lost:
        return
    # Options that this version does not have are ignored; options that it refuses are errors.
    known = set()
    others = [path for path in (tree / "arch").iterdir() if path.name not in KEPT_ARCHITECTURES]
    # User-Mode Linux's options exist in its directory only, but it uses those of x86, too.
    others += [tree / "arch/um"] if architecture != "um" else []
    for path in tree.glob("**/Kconfig*"):
        if any(path.is_relative_to(other) for other in others):
            continue
        text = path.read_text(errors="replace")
        known.update(re.findall(r"^\s*(?:menu)?config\s+(\w+)\s*$", text, re.MULTILINE))
    refused = [name for name in lost if name in known]
    if refused:
        raise VmError(f"the kernel's configuration refuses {', '.join(refused)}")
    say(f"this kernel has no option {', '.join(lost)}")


def compile_all(tree: Path, architecture: str, image: str, log: Path) -> None:
    """Compile kernel and modules, with progress messages; make's output is written to LOG."""
    log.parent.mkdir(parents=True, exist_ok=True)
    jobs = len(os.sched_getaffinity(0))
    command = ["nice", "make", "-C", str(tree), f"-j{jobs}", f"ARCH={architecture}"]
    command += [f"KBUILD_BUILD_{name}={value}" for name, value in IDENTITY.items()]
    command += [image, "modules"]
    start = reported = time.monotonic()
    done, last = 0, ""
    with (
        log.open("w") as record,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                record.write(line)
                if re.search(r"\b(error|undefined reference)\b", line, re.IGNORECASE):
                    last = last or line.strip()
                done += line.startswith("  CC ")
                now = time.monotonic()
                if now - reported > REPORT_SECONDS:
                    reported = now
                    say(f"{done} files compiled in {now - start:.0f} s")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise VmError(f"the kernel could not be built: {last or 'make failed'} (log: {log})")
    say(f"built in {time.monotonic() - start:.0f} s: {done} files")


def prune(tree: Path) -> None:
    """Delete the parts of the tree that a build of modules does not need: 95 % of it."""
    for entry in tree.iterdir():
        if entry.is_dir() and entry.name not in KEPT:
            shutil.rmtree(entry)
        elif entry.name.startswith(("vmlinux", ".tmp_", ".vmlinux", "System.map")):
            entry.unlink()
    for part, kept in (("arch", KEPT_ARCHITECTURES), ("tools", KEPT_TOOLS)):
        for entry in (tree / part).iterdir():
            if entry.is_dir() and entry.name not in kept:
                shutil.rmtree(entry)
    for path in (tree / "arch").glob("**/*"):
        if path.suffix in (".o", ".a", ".c", ".cmd") and path.is_file():
            path.unlink()
