# SPDX-License-Identifier: GPL-2.0
"""Building the project's modules and tools for a kernel, with the tree's Makefile."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from fairvm.cache import Kernel, build_dir, locked, staging
from fairvm.errors import VmError
from fairvm.host import need, run, say, top
from fairvm.toolchain import toolchain_for

GUEST_MODULES = Path(__file__).resolve().parent / "guest"
INDEX = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


def link_modules(source: Path, target: Path) -> None:
    """Link the modules of the tree SOURCE into TARGET, without depmod's index."""
    for entry in source.iterdir():
        if entry.is_dir() and entry.name not in ("build", "source"):
            (target / entry.name).symlink_to(entry.resolve())
    for name in INDEX:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


def build_programs() -> tuple[Path, Path]:
    """Build tc's plugins and the programs; return the directories of plugins and slbnctl."""
    need("make", "make")
    # One lock for both, since they share objects.
    with locked(top() / "build" / ".lock-programs"):
        run(["make", "--no-print-directory", "-C", str(top()), "tc-plugins", "tools"])
    return top() / "build" / "tc", top() / "build" / "slbnctl"


def state(kernel: Kernel, files: Iterable[Path]) -> str:
    """What decides whether make has anything to do: FILES, sources and results.

    Make itself needs longer to find that out than the guest to boot.
    """
    stats = [(str(path), path.stat()) for path in sorted(files)]
    text = "".join(f"{path} {stat.st_mtime_ns} {stat.st_size}\n" for path, stat in stats)
    return f"{kernel.headers.resolve()}\n{hashlib.sha256(text.encode()).hexdigest()}"


def build_state(kernel: Kernel, modules: Path) -> str:
    """The state of the project's MODULES for KERNEL."""
    files = [top() / name for name in ("Makefile", "Kbuild", "VERSION")]
    files.append(kernel.headers / "Module.symvers")
    files += (path for name in ("*/Kbuild", "*/*.[ch]") for path in top().glob(name))
    files += (path for path in (top() / "include").rglob("*") if path.is_file())
    return state(kernel, [*files, *modules.glob("*/*.ko")])


def build_modules(kernel: Kernel, quiet: bool = False) -> Path:
    """Build the project's modules for KERNEL; return the root of a complete module tree."""
    release = kernel.release
    if not kernel.headers.exists():
        raise VmError(f"no headers for {release}: its modules cannot be built")
    build = top() / "build"
    with locked(build / f".lock-{release}"):
        modules = build / "modules" / release
        built_for = modules / ".built-for"
        built = built_for.read_text() if built_for.exists() else ""
        if built == build_state(kernel, modules):
            return _assemble(kernel, sorted(modules.glob("*/*.ko")))
        toolchain = toolchain_for(kernel)
        command = ["make", "--no-print-directory", "-C", str(top()), "modules"]
        command += [f"KERNELDIR={kernel.headers.resolve()}", *kernel.make_variables]
        if toolchain:
            toolchain.create()
            command = toolchain.wrap(command)
        else:
            need("make", "make")
        # Another kernel may have the same release: another configuration or build.
        if modules.exists() and built.split("\n")[0] != str(kernel.headers.resolve()):
            shutil.rmtree(modules)
        if quiet and not modules.exists():
            say(f"building the modules for {release}")
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else sys.stderr.fileno(),
            stderr=subprocess.STDOUT if quiet else None,
            check=False,
        )
        if done.returncode:
            sys.stderr.write((done.stdout or b"").decode(errors="replace"))
            where = ""
            if toolchain:
                how = ", which needs user namespaces or root" if os.getuid() else ""
                where = f" (in {toolchain.root}{how})"
            raise VmError(f"the modules could not be built for {release}{where}")
        built_for.write_text(build_state(kernel, modules))
        return _assemble(kernel, sorted(modules.glob("*/*.ko")))


def build_guest_modules(kernel: Kernel) -> Path:
    """Build the modules that only guests load, for User-Mode Linux; return their directory."""
    build = build_dir() / "guest" / kernel.directory.name
    sources = [kernel.headers / "Module.symvers", *GUEST_MODULES.iterdir()]
    with locked(build_dir() / f".lock-guest-{kernel.directory.name}"):
        built_for = build / ".built-for"
        built = built_for.read_text() if built_for.exists() else ""
        if built != state(kernel, [*sources, *build.glob("*.ko")]):
            if built.split("\n")[0] != str(kernel.headers.resolve()):
                shutil.rmtree(build, ignore_errors=True)
            build.mkdir(parents=True, exist_ok=True)
            for source in GUEST_MODULES.iterdir():
                # With its time, so that make does not compile it again.
                shutil.copy2(source, build)
            for program in ("gcc", "make"):
                need(program, program)
            command = ["make", "--no-print-directory", "-C", str(kernel.headers.resolve())]
            run([*command, f"M={build}", *kernel.make_variables, "modules"])
            built_for.write_text(state(kernel, [*sources, *build.glob("*.ko")]))
    return build


def _assemble(kernel: Kernel, ours: list[Path]) -> Path:
    """A tree of the kernel's own modules, and ours in updates/, which modprobe prefers."""
    release = kernel.release
    root = top() / "build/root" / release
    state = hashlib.sha256(f"1 {kernel.directory}".encode())
    for module in ours:
        state.update(f"\0{module.name}\0".encode() + module.read_bytes())
    stamp = root / "stamp"
    # Do not touch an up-to-date tree: a running guest may be using it.
    if not stamp.exists() or stamp.read_text() != state.hexdigest():
        with staging(root) as new:
            tree = new / "lib/modules" / release
            (tree / "updates").mkdir(parents=True)
            link_modules(kernel.modules, tree)
            for module in ours:
                shutil.copy2(module, tree / "updates")
            run([need("depmod", "kmod"), "-b", str(new), release])
            (new / "stamp").write_text(state.hexdigest())
    return root
