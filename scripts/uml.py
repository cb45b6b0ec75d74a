# SPDX-License-Identifier: GPL-2.0
"""User-Mode Linux: the kernel as a program, for `scripts/vm --engine native` and `virtual`.

It is built from Debian's own source package with the options of uml.config, and for --debug those
of uml-debug.config on top.  (Stock kernels have neither sanitizers nor lockdep.)  Its code runs
natively: nothing is emulated, and no virtualisation is needed.  That makes it the kernel to
measure in; and it can run in virtual time.

The source is the package linux-source-SERIES: the one that is installed, else it is fetched as
kernels.py fetches kernels.  The result is a kernel directory as described there, except that
`kernel` is a program of the host, and with two files more:

    D/make     what to tell make when a module is built against D/headers
    D/source   the package and version that it was built from

The source is built as it is, but for what would keep it from running on today's processors: see
MENDS.

D is named after the series and a hash of the configuration, so that another configuration is
another kernel.  As with a series there, a newer source is looked for only when one asks for it.
What modules do not need of the tree is thrown away after the build.

Assumptions: x86-64; gcc, flex, bison, bc on the host.
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

import kernels
from kernels import Kernel, KernelError

SCRIPTS = Path(__file__).resolve().parent
CONFIG, DEBUG_CONFIG = SCRIPTS / "uml.config", SCRIPTS / "uml-debug.config"
TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc"}
# What a build of modules needs of the source.
KEPT = ("arch", "include", "scripts")
KEPT_ARCHITECTURES = ("um", "x86")
OPTION = re.compile(r"CONFIG_(\w+)=(.+)")
SECONDS_BETWEEN_REPORTS = 20


@dataclass(frozen=True)
class Mend:
    """A change to the source: in file PATH, the text OLD (which must be there) becomes NEW."""

    path: str
    old: str
    new: str
    config: str = ""  # what it takes


# Until 6.13, User-Mode Linux has room for 2696 bytes of a processor's registers, which is all that
# AVX-512 needs.  Where there is AMX too it is 11008, the host takes no less back (ptrace(2),
# PTRACE_SETREGSET: EFAULT), and no process of the guest ever starts.  Such sets of registers are on
# the kernel's stacks as well, twice at worst.
REGISTERS = Mend(
    "arch/x86/um/user-offsets.c",
    "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
    "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
    "CONFIG_KERNEL_STACK_ORDER=4\n",
)
# In virtual time that is done for each timer, and twice if the compiler does it too: one cycle in
# seven of a flow's run.
ALARM = Mend(
    "arch/um/os-Linux/signal.c",
    "memset(&regs, 0, sizeof(regs));",
    "memset(&regs, 0, __builtin_offsetof(struct uml_pt_regs, fp)), regs.is_user = 0;",
    "CONFIG_INIT_STACK_NONE=y\n",
)
MENDS = {"6.1": (REGISTERS, ALARM), "6.12": (REGISTERS, ALARM)}


def directory_for(series: str, debug: bool) -> Path:
    """Where that kernel lies in the cache."""
    if series not in kernels.SERIES:
        known = ", ".join(kernels.SERIES)
        raise kernels.UsageError(
            f"no source for a kernel '{series}' as a program; only for {known}"
        )
    key = hashlib.sha256(wanted_config(series, debug).encode()).hexdigest()[:12]
    return kernels.cache_dir() / "uml" / f"{series}{'-debug' if debug else ''}-{key}"


def wanted_config(series: str, debug: bool) -> str:
    text = CONFIG.read_text() + (DEBUG_CONFIG.read_text() if debug else "")
    # Each change is told, so that another one is another kernel.
    return text + "".join(
        f"# {mend.path}: {mend.new}\n{mend.config}" for mend in MENDS.get(series, ())
    )


def is_complete(directory: Path) -> bool:
    return (directory / "source").exists()


def cached() -> list[Kernel]:
    """The ones in the cache, those of other configurations too."""
    found = sorted((kernels.cache_dir() / "uml").glob("[0-9]*"))
    return [Kernel(directory) for directory in found if is_complete(directory)]


def get(series: str, debug: bool = False, refresh: bool = False) -> Kernel:
    """The kernel of SERIES as a program, built if need be."""
    directory = directory_for(series, debug)
    if refresh or not is_complete(directory):
        with kernels.locked(directory.with_name(f".lock-{directory.name}")):
            if refresh or not is_complete(directory):
                build(series, debug, directory)
    return Kernel(directory)


def build(series: str, debug: bool, directory: Path) -> None:
    """Make DIRECTORY from the source."""
    for program, package in TOOLS.items():
        kernels.need(program, package)
    with kernels.staging(directory) as new:
        tree = new / "tree"
        version = unpack_source(series, tree, new / "scratch")
        flavour = "with checks of itself" if debug else "for speed"
        kernels.say(f"building Linux {version} as a program, {flavour} (some minutes)")
        for mend in MENDS.get(series, ()):
            apply(mend, tree)
        configure(tree, wanted_config(series, debug))
        compile_all(tree, kernels.TOP / "build/uml" / f"{directory.name}.log")
        release = (tree / "include/config/kernel.release").read_text().strip()
        install = ["make", "-C", str(tree), "ARCH=um", f"INSTALL_MOD_PATH={new}"]
        kernels.run([*install, f"DEPMOD={kernels.need('depmod', 'kmod')}", "modules_install"])
        for link in ("build", "source"):
            (new / "lib/modules" / release / link).unlink(missing_ok=True)
        (tree / "linux").rename(new / "kernel")
        prune(tree)
        (new / "headers").symlink_to("tree")
        (new / "release").write_text(release + "\n")
        # UML lacks the option to check all of itself for undefined behaviour: our modules it can.
        (new / "make").write_text("ARCH=um" + (" UBSAN_SANITIZE=y" if debug else "") + "\n")
        (new / "source").write_text(f"linux-source-{series} {version}\n")


# --- the source ---------------------------------------------------------------------------------


def unpack_source(series: str, tree: Path, scratch: Path) -> str:
    """Unpack the source into TREE; its version as the package has it."""
    package = f"linux-source-{series}"
    tarball = find_tarball(Path("/"), package)
    if tarball:
        version = kernels.run(["dpkg-query", "-W", "-f", "${Version}", package]).strip()
    else:
        version = fetch_source(series, package, scratch)
        tarball = find_tarball(scratch, package)
        if tarball is None:
            raise KernelError(f"the package {package} holds no source")
    tree.mkdir()
    kernels.run(["tar", "-C", str(tree), "--strip-components=1", "-xf", str(tarball)])
    shutil.rmtree(scratch, ignore_errors=True)
    return version


def find_tarball(root: Path, package: str) -> Path | None:
    return next(iter(sorted((root / "usr/src").glob(f"{package}.tar.*"))), None)


def fetch_source(series: str, package: str, scratch: Path) -> str:
    """Fetch and unpack the package; its version."""
    for suites in kernels.SERIES[series]:
        archive = kernels.Archive(suites)
        archive.update()
        if not archive.has(package):
            continue
        version = archive.describe(package)["Version"]
        kernels.say(f"fetching the source of Linux {version} from {archive.label} (about 140 MB)")
        kernels.unpack(archive.download([package], scratch), scratch)
        return version
    raise KernelError(f"Debian has no {package} any more: install the package linux-source")


def apply(mend: Mend, tree: Path) -> None:
    """Make a change to the source; it is an error if there is nothing to change any more."""
    path = tree / mend.path
    text = path.read_text()
    if mend.old not in text:
        raise KernelError(f"the source's {mend.path} has no '{mend.old}' to be changed any more")
    path.write_text(text.replace(mend.old, mend.new))


# --- building -----------------------------------------------------------------------------------


def configure(tree: Path, wanted: str) -> None:
    """The least that links, plus what is WANTED, which must all be there in the end."""
    fragment = tree / ".fairpath.config"
    fragment.write_text(wanted)
    make = ["make", "-s", "-C", str(tree), "ARCH=um", f"KCONFIG_ALLCONFIG={fragment}"]
    kernels.run([*make, "allnoconfig"])
    asked, got = dict(OPTION.findall(wanted)), dict(OPTION.findall((tree / ".config").read_text()))
    # What something else needs to be built in cannot be a module.
    lost = sorted(
        name
        for name, value in asked.items()
        if got.get(name) != value and (value, got.get(name)) != ("m", "y")
    )
    if not lost:
        return
    # Options come and go: one that this kernel has not got is no matter, one that it refused is.
    known = set()
    for path in tree.glob("**/Kconfig*"):
        text = path.read_text(errors="replace")
        known.update(re.findall(r"^\s*(?:menu)?config\s+(\w+)\s*$", text, re.MULTILINE))
    refused = [name for name in lost if name in known]
    if refused:
        raise KernelError(
            f"the kernel's configuration cannot have {', '.join(refused)} as asked for"
        )
    kernels.say(f"this kernel knows nothing of {', '.join(lost)}")


def compile_all(tree: Path, log: Path) -> None:
    """Compile kernel and modules, with a word now and then; what make says goes to LOG."""
    log.parent.mkdir(parents=True, exist_ok=True)
    jobs = len(os.sched_getaffinity(0))
    command = ["nice", "make", "-C", str(tree), f"-j{jobs}", "ARCH=um", "linux", "modules"]
    start = told = time.monotonic()
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
                if now - told > SECONDS_BETWEEN_REPORTS:
                    told = now
                    kernels.say(f"{done} files compiled in {now - start:.0f} s")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise KernelError(
            f"the kernel could not be built: {last or 'make failed'} (all of it: {log})"
        )
    kernels.say(f"built in {time.monotonic() - start:.0f} s: {done} files")


def prune(tree: Path) -> None:
    """Throw away what a build of modules does not need: 19 parts of 20."""
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
