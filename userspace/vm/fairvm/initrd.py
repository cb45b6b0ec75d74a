# SPDX-License-Identifier: GPL-2.0
"""The initrd: busybox, guest-init, the modules to reach the host's files, and the run's files."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path

from fairvm.cache import Kernel
from fairvm.errors import VmError
from fairvm.host import how_to_install, need, tree
from fairvm.request import Request

#: Where a guest in virtual time has the source tree, and a working directory outside of it.
TREE, WORKING = Path("/fairpath"), Path("/cwd")
# What the guest needs to mount the host's files; all other modules are loaded from there.
INITRD_MODULES = ("virtio_console", "9pnet_virtio", "9p", "overlay")
# The driver of the bus of virtio; that of s390x is always built in.
BUSES: dict[str, tuple[str, ...]] = {"pci": ("virtio_pci",), "ccw": ()}


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive (format newc) of FILES: path -> (mode, content)."""
    parts = []
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        path = os.fsencode(name) + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + path
        parts += [head, bytes(-len(head) % 4), content, bytes(-len(content) % 4)]
    return b"".join(parts)


def initrd_modules(kernel: Kernel) -> list[Path]:
    """The modules for the initrd with their dependencies, in the order to load them."""
    files: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        files[Path(path).name.split(".ko")[0].replace("-", "_")] = path
        needs[path] = rest.split()
    builtin = (kernel.modules / "modules.builtin").read_text()
    order: list[str] = []

    def add(path: str) -> None:
        for other in needs[path]:
            add(other)
        if path not in order:
            order.append(path)

    for name in (*BUSES[kernel.architecture.bus], *INITRD_MODULES):
        if name in files:
            add(files[name])
        elif not re.search(rf"/{name.replace('_', '[-_]')}[.]ko$", builtin, re.MULTILINE):
            raise VmError(
                f"the kernel {kernel.release} lacks the module {name}, which the guest needs"
            )
    return [kernel.modules / path for path in order]


def module_content(path: Path) -> bytes:
    """The content of a module file, decompressed."""
    content = path.read_bytes()
    if path.suffix == ".ko":
        return content
    tools = {".xz": ("xz", "xz-utils"), ".zst": ("zstd", "zstd"), ".gz": ("gzip", "gzip")}
    tool = need(*tools[path.suffix])
    return subprocess.run([tool, "-dc"], input=content, stdout=subprocess.PIPE, check=True).stdout


def base_initrd(kernel: Kernel, busybox: Path | None = None) -> bytes:
    """The part of the initrd that is the same in all runs; cached beside the kernel.

    BUSYBOX is by default this machine's.
    """
    busybox = busybox or Path(need("busybox", "busybox-static"))
    modules = [] if kernel.is_uml else initrd_modules(kernel)
    init = Path(__file__).resolve().parent / "guest-init"
    key = hashlib.sha256(init.read_bytes() + repr((BUSES, INITRD_MODULES)).encode())
    key.update(f"{busybox}{busybox.stat().st_mtime_ns}".encode())
    kept = kernel.directory / f"initrd-{key.hexdigest()[:12]}"
    if kept.exists():
        return kept.read_bytes()
    program = busybox.read_bytes()
    if b"/ld-linux" in program[:4096]:
        raise VmError(f"{busybox} is not static (package busybox-static): {how_to_install()}")
    directories = ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "new", "vm")
    files = {name: (0o040755, b"") for name in directories}
    files["init"] = (0o100755, b"#!/bin/busybox sh\n" + init.read_bytes())
    files["bin/busybox"] = (0o100755, program)
    for number, path in enumerate(modules):
        name = f"modules/{number:02}-{path.name.split('.ko')[0]}"
        files[name] = (0o100644, module_content(path))
    archive = cpio(files)
    # A concurrent run may write the same content: either rename may be the last.
    new = kept.with_name(f".{kept.name}-{os.getpid()}")
    new.write_bytes(archive)
    new.rename(kept)
    return archive


def run_files(
    request: Request, kernel: Kernel, modules: Path, extra: list[list[str]] | None = None
) -> bytes:
    """The part of the initrd with this run's configuration and command.

    MODULES is the root of the module tree, as the guest sees it; EXTRA are modules that the guest
    loads last, each with its parameters.
    """

    def quoted(*arguments: str | Path) -> str:
        return " ".join(shlex.quote(str(argument)) for argument in arguments)

    here = Path.cwd()
    if request.root is None:
        needed = (here, tree(), kernel.directory)
        config = [quoted("require", path) for path in needed if path is not None]
    else:
        # The tree is there only if the root was made for it.
        config = []
        top = tree()
        if top is None or not here.is_relative_to(top) or not _in(request.root, here).is_dir():
            here = Path("/")
    for number, (path, place) in enumerate(request.writable.items()):
        config.append(quoted("share", f"rw{number}", path, place))
    config.append(quoted("modules", modules))
    variables = [f"{name}={value}" for name, value in request.environment.items()]
    command = request.command
    if request.engine == "virtual":
        here, places = fixed_places(here)
        config += [quoted("same", path, place) for path, place in places.items()]
        variables = [in_tree(text) for text in variables]
        command = [in_tree(text) for text in command]
    config += [quoted("extra", *words) for words in extra or []]
    # env(1) would take a path with = for a variable.
    if re.match(r"[^=]*/[^=]*=", command[0]):
        command = ["/bin/sh", "-c", 'exec "$@"', "sh", *command]
    # By its full path: busybox's shell prefers its own applets to programs of the same name.
    lines = [quoted("cd", here), quoted("exec", "/usr/bin/env", "-i", *variables, *command)]
    texts = {"vm/config": config, "vm/command": lines}
    return cpio(
        {name: (0o100644, os.fsencode("\n".join(lines) + "\n")) for name, lines in texts.items()}
    )


def _in(root: Path, path: Path) -> Path:
    """The absolute PATH of a guest with ROOT."""
    return root / path.relative_to("/")


def fixed_places(here: Path) -> tuple[Path, dict[Path, Path]]:
    """The working directory in the guest for HERE, and which directories are mounted where, so that
    a run in virtual time depends neither on the tree's path nor on the working directory's."""
    top = tree()
    places = {} if top is None else {top: TREE}
    if top is not None and here.is_relative_to(top):
        return TREE / here.relative_to(top), places
    if here == Path("/"):
        return here, places
    return WORKING, {**places, here: WORKING}


def in_tree(text: str) -> str:
    """TEXT with the tree's path in the guest instead of its own."""
    top = tree()
    if top is None:
        return text
    # Not within another path; after the letter of an option (-I) it is one of its own.
    begin = r"(?:(?<![\w.-])|(?<=^-[A-Za-z]))"
    return re.sub(begin + re.escape(str(top)) + r"(?![\w.-])", str(TREE), text)
