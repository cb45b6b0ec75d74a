# SPDX-License-Identifier: GPL-2.0
"""The cache of kernels, which all clones of the project share.

A kernel is a directory D:

    D/release              its release, as `uname -r` prints it
    D/kernel               the image to boot; for User-Mode Linux, a program
    D/headers              KERNELDIR for an external module build
    D/lib/modules/RELEASE  its own modules, indexed by depmod
    D/make                 variables for make when modules are built (UML, other machines)
    D/architecture         Debian's name of the machine that it is for, if not amd64

A stock kernel has besides:

    D/packages             the packages that it was unpacked from
    D/suite                the suite of Debian that they come from

and User-Mode Linux:

    D/source               the package and version that it was built from
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairvm.architecture import AMD64, ARCHITECTURES, Architecture
from fairvm.errors import VmError
from fairvm.host import say, tree


@dataclass(frozen=True)
class Kernel:
    """A complete kernel directory."""

    directory: Path

    @property
    def release(self) -> str:
        return (self.directory / "release").read_text().strip()

    @property
    def image(self) -> Path:
        return self.directory / "kernel"

    @property
    def headers(self) -> Path:
        return self.directory / "headers"

    @property
    def modules(self) -> Path:
        return self.directory / "lib/modules" / self.release

    @property
    def architecture(self) -> Architecture:
        path = self.directory / "architecture"
        return ARCHITECTURES[path.read_text().strip()] if path.exists() else AMD64

    @property
    def is_uml(self) -> bool:
        return "ARCH=um" in self.make_variables

    @property
    def make_variables(self) -> list[str]:
        """Variables for make when a module is built for it."""
        path = self.directory / "make"
        return path.read_text().split() if path.exists() else []


def cache_dir() -> Path:
    """$FAIRPATH_CACHE, or fairpath in the user's cache directory."""
    own = os.environ.get("FAIRPATH_CACHE")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base).absolute() / "fairpath"
    try:
        return Path.home().absolute() / ".cache/fairpath"
    except RuntimeError:
        raise VmError("this user has no home directory: set FAIRPATH_CACHE") from None


def build_dir() -> Path:
    """Where logs, and modules that are built for a run, are: the tree's build/, or the cache."""
    top = tree()
    return cache_dir() / "build" if top is None else top / "build"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file PATH, so that concurrent runs neither repeat nor break each other's
    work."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """A new directory that replaces DIRECTORY on success and is removed on failure."""
    new, old = (directory.with_name(f".{kind}-{directory.name}") for kind in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        yield new
        # Not removed in place: a signal would leave a part that has the marks of a whole.
        shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            directory.rename(old)
        new.rename(directory)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
