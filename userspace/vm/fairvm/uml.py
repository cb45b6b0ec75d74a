# SPDX-License-Identifier: GPL-2.0
"""Building User-Mode Linux, the kernel as a program, for the engines `native` and `virtual`.

It is built from Debian's own source package with the options of uml.config, and for --debug those
of uml-debug.config on top.  (Stock kernels have neither sanitizers nor lockdep.)  Its code runs
natively, without emulation or virtualisation, so that measurements are real; and it can run in
virtual time.

The source is the package linux-source-SERIES: the installed one, else it is fetched.  It is built
unchanged but for PATCHES, which it needs to run on today's processors.  The kernel's directory
(see cache.py) is named after the series and a hash of configuration and patches.  As for stock
kernels, a newer source is looked for only on request.  After the build, the parts of the tree that
modules do not need are deleted.

Requires x86-64; gcc, flex, bison, bc on the host.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from fairvm.archive import SERIES, Archive, unpack
from fairvm.cache import Kernel, cache_dir, locked, staging
from fairvm.errors import UsageError, VmError
from fairvm.host import need, run, say, top

DATA = Path(__file__).resolve().parent
CONFIG, DEBUG_CONFIG = DATA / "uml.config", DATA / "uml-debug.config"
TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc"}
# The directories of the source that a build of modules needs.
KEPT = ("arch", "include", "scripts")
KEPT_ARCHITECTURES = ("um", "x86")
OPTION = re.compile(r"CONFIG_(\w+)=(.+)")
REPORT_SECONDS = 20


@dataclass(frozen=True)
class Patch:
    """A change to the source: in file PATH, replace the text OLD (which must exist) by NEW."""

    path: str
    old: str
    new: str
    config: str = ""  # options that it needs


# Before 6.13, User-Mode Linux has room for 2696 bytes of floating-point and vector registers, which
# suffices for AVX-512.  With AMX they take 11008 bytes, the host rejects smaller sets (ptrace(2),
# PTRACE_SETREGSET: EFAULT), and no process of the guest can start.  The kernel's stacks hold such
# sets, too, at most two.
REGISTERS = Patch(
    "arch/x86/um/user-offsets.c",
    "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
    "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
    "CONFIG_KERNEL_STACK_ORDER=4\n",
)
# In virtual time the registers are cleared for each timer, and twice if the compiler initializes
# stack variables too: one cycle in seven of a flow's run.
ALARM = Patch(
    "arch/um/os-Linux/signal.c",
    "memset(&regs, 0, sizeof(regs));",
    "memset(&regs, 0, __builtin_offsetof(struct uml_pt_regs, fp)), regs.is_user = 0;",
    "CONFIG_INIT_STACK_NONE=y\n",
)
PATCHES = {"6.1": (REGISTERS, ALARM), "6.12": (REGISTERS, ALARM)}


def directory_for(series: str, debug: bool) -> Path:
    """The cache directory of that kernel."""
    if series not in SERIES:
        known = ", ".join(SERIES)
        raise UsageError(f"User-Mode Linux cannot be built for '{series}'; only for {known}")
    key = hashlib.sha256(wanted_config(series, debug).encode()).hexdigest()[:12]
    return cache_dir() / "uml" / f"{series}{'-debug' if debug else ''}-{key}"


def wanted_config(series: str, debug: bool) -> str:
    """The configuration to build with.  Its hash names the cache directory."""
    text = CONFIG.read_text() + (DEBUG_CONFIG.read_text() if debug else "")
    # Patches are part of it: another patch makes another kernel.
    return text + "".join(
        f"# {patch.path}: {patch.new}\n{patch.config}" for patch in PATCHES.get(series, ())
    )


def is_complete(directory: Path) -> bool:
    return (directory / "source").exists()


def cached() -> list[Kernel]:
    """All User-Mode Linux kernels in the cache, of any configuration."""
    found = sorted((cache_dir() / "uml").glob("[0-9]*"))
    return [Kernel(directory) for directory in found if is_complete(directory)]


def get(series: str, debug: bool = False, refresh: bool = False) -> Kernel:
    """User-Mode Linux of SERIES, built if necessary."""
    directory = directory_for(series, debug)
    if refresh or not is_complete(directory):
        with locked(directory.with_name(f".lock-{directory.name}")):
            if refresh or not is_complete(directory):
                build(series, debug, directory)
    return Kernel(directory)


def build(series: str, debug: bool, directory: Path) -> None:
    """Build the kernel in DIRECTORY."""
    for program, package in TOOLS.items():
        need(program, package)
    with staging(directory) as new:
        tree = new / "tree"
        version = unpack_source(series, tree, new / "scratch")
        flavour = "with debug checks" if debug else "optimized"
        say(f"building User-Mode Linux {version}, {flavour} (some minutes)")
        for patch in PATCHES.get(series, ()):
            apply(patch, tree)
        configure(tree, wanted_config(series, debug))
        compile_all(tree, top() / "build/uml" / f"{directory.name}.log")
        release = (tree / "include/config/kernel.release").read_text().strip()
        install = ["make", "-C", str(tree), "ARCH=um", f"INSTALL_MOD_PATH={new}"]
        run([*install, f"DEPMOD={need('depmod', 'kmod')}", "modules_install"])
        for link in ("build", "source"):
            (new / "lib/modules" / release / link).unlink(missing_ok=True)
        (tree / "linux").rename(new / "kernel")
        prune(tree)
        (new / "headers").symlink_to("tree")
        (new / "release").write_text(release + "\n")
        # User-Mode Linux cannot enable UBSAN for the whole kernel, but for our modules.
        (new / "make").write_text("ARCH=um" + (" UBSAN_SANITIZE=y" if debug else "") + "\n")
        (new / "source").write_text(f"linux-source-{series} {version}\n")


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


def configure(tree: Path, wanted: str) -> None:
    """Configure allnoconfig plus the options WANTED; an error if one of them is refused."""
    fragment = tree / ".fairpath.config"
    fragment.write_text(wanted)
    make = ["make", "-s", "-C", str(tree), "ARCH=um", f"KCONFIG_ALLCONFIG={fragment}"]
    run([*make, "allnoconfig"])
    wanted_options, got = (
        dict(OPTION.findall(wanted)),
        dict(OPTION.findall((tree / ".config").read_text())),
    )
    # A module may become built in because another option needs it.
    lost = sorted(
        name
        for name, value in wanted_options.items()
        if got.get(name) != value and (value, got.get(name)) != ("m", "y")
    )
    if not lost:
        return
    # Options that this version does not have are ignored; options that it refuses are errors.
    known = set()
    for path in tree.glob("**/Kconfig*"):
        text = path.read_text(errors="replace")
        known.update(re.findall(r"^\s*(?:menu)?config\s+(\w+)\s*$", text, re.MULTILINE))
    refused = [name for name in lost if name in known]
    if refused:
        raise VmError(f"the kernel's configuration refuses {', '.join(refused)}")
    say(f"this kernel has no option {', '.join(lost)}")


def compile_all(tree: Path, log: Path) -> None:
    """Compile kernel and modules, with progress messages; make's output is written to LOG."""
    log.parent.mkdir(parents=True, exist_ok=True)
    jobs = len(os.sched_getaffinity(0))
    command = ["nice", "make", "-C", str(tree), f"-j{jobs}", "ARCH=um", "linux", "modules"]
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
    for entry in (tree / "arch").iterdir():
        if entry.is_dir() and entry.name not in KEPT_ARCHITECTURES:
            shutil.rmtree(entry)
    for path in (tree / "arch").glob("**/*"):
        if path.suffix in (".o", ".a", ".c", ".cmd") and path.is_file():
            path.unlink()
