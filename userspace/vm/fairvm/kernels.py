# SPDX-License-Identifier: GPL-2.0
"""Stock kernels: fetched from Debian's archive, or given by a path.

A series such as 6.12 is Debian's newest release of it at the time of the first fetch; later the
cached kernel is used, without the network, until `get --refresh`.  6.12-rt is Debian's kernel with
PREEMPT_RT.  (Kernels with checks, which Debian does not have, are built by checked.py.)

Requires x86-64 and kmod.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from pathlib import Path

from fairvm import checked
from fairvm.architecture import AMD64, Architecture
from fairvm.archive import SERIES, Archive, unpack
from fairvm.cache import Kernel, cache_dir, locked, staging
from fairvm.errors import UsageError, VmError
from fairvm.host import link_or_copy, need, run, say
from fairvm.image import bootable, image_release

# Of these series there is a kernel SERIES-rt.
REAL_TIME = ("6.12",)
NAMES = (*SERIES, *(f"{series}-rt" for series in REAL_TIME))


def kernels_dir() -> Path:
    return cache_dir() / "kernels"


def _is_complete(directory: Path) -> bool:
    return (directory / "packages").exists()


def cached() -> list[Kernel]:
    """All stock kernels in the cache."""
    if not kernels_dir().is_dir():
        return []
    return [Kernel(d) for d in sorted(kernels_dir().iterdir()) if d.is_dir() and _is_complete(d)]


def _series_file(series: str, architecture: Architecture) -> Path:
    suffix = f"-{architecture.name}" if architecture != AMD64 else ""
    return kernels_dir() / f"series-{series}{suffix}"


def cached_series(series: str, architecture: Architecture = AMD64) -> Kernel | None:
    """The cached kernel of SERIES."""
    try:
        directory = kernels_dir() / _series_file(series, architecture).read_text().strip()
    except FileNotFoundError:
        return None
    return Kernel(directory) if _is_complete(directory) else None


def available() -> str:
    """The valid names of kernels, in one line."""
    releases = (kernel.release for kernel in cached())
    names = dict.fromkeys([*NAMES, *checked.NAMES, "host", *releases])
    return ", ".join(names) + ", or a path"


def get(version: str, refresh: bool = False, architecture: Architecture = AMD64) -> Kernel:
    """The kernel VERSION (a name, a release, `host` or a path), fetched or built if necessary;
    for other machines, a name only."""
    if platform.machine() != "x86_64":
        raise VmError(f"only x86_64 is supported, this is {platform.machine()}")
    if architecture != AMD64 and version not in NAMES:
        raise UsageError(
            f"no kernel '{version}' for {architecture.name}; there are: {', '.join(NAMES)}"
        )
    if version in checked.NAMES:
        return checked.get(version, refresh)
    if version in NAMES:
        kernel = None if refresh else cached_series(version, architecture)
        if kernel is None:
            with locked(cache_dir() / "lock"):
                kernel = None if refresh else cached_series(version, architecture)
                kernel = kernel or fetch(version, architecture)
        return kernel
    if version == "host":
        release = platform.release()
        image = Path("/boot") / f"vmlinuz-{release}"
        if not image.exists():
            raise UsageError(f"no kernel 'host': {image} does not exist; there are: {available()}")
        return from_path(image)
    for kernel in cached():
        if kernel.release == version:
            return kernel
    if "/" in version or Path(version).exists():
        return from_path(Path(version))
    raise UsageError(f"no kernel '{version}'; there are: {available()}")


def fetch(name: str, architecture: Architecture = AMD64) -> Kernel:
    """Fetch Debian's newest kernel of that name (see NAMES)."""
    series = name.removesuffix("-rt")
    for suites in SERIES[series]:
        archive = Archive(suites, architecture.name)
        archive.update()
        image = archive.newest_image(series, name.removeprefix(series))
        if image:
            return _fetch_image(name, archive, image, architecture)
    places = ", ".join(suite.name for suites in SERIES[series] for suite in suites)
    raise VmError(f"Debian no longer has a kernel {name} for {architecture.name} in {places}")


def _fetch_image(name: str, archive: Archive, image: str, architecture: Architecture) -> Kernel:
    release = image.removeprefix("linux-image-")
    directory = kernels_dir() / release
    if not _is_complete(directory):
        packages = archive.kernel_packages([image, f"linux-headers-{release}"])
        say(f"fetching Linux {release} from {archive.label} ({len(packages)} packages)")
        with staging(directory) as new:
            download = list(packages)
            if architecture != AMD64:
                # The tools of a build are programs of this machine.
                tools = [package for package in download if package.startswith("linux-kbuild-")]
                download = [package for package in download if package not in tools]
                native = Archive(archive.suites)
                native.update()
                unpack(native.download(tools, new / "debs"), new)
                (new / "architecture").write_text(architecture.name + "\n")
                (new / "make").write_text(" ".join(architecture.make_variables) + "\n")
            unpack(archive.download(download, new / "debs"), new)
            (new / "debs").rmdir()
            _finish_unpacked(new, release, f"/usr/src/linux-headers-{release}", architecture)
            text = "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))
            (new / "packages").write_text(text)
            (new / "suite").write_text(archive.suites[0].name + "\n")
    _series_file(name, architecture).write_text(release + "\n")
    return Kernel(directory)


def _find_image(root: Path) -> Path | None:
    for pattern in ("boot/vmlinu[xz]-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz"):
        for path in sorted(root.glob(pattern)):
            return path
    return None


def _finish_unpacked(root: Path, release: str, headers: str, architecture: Architecture) -> None:
    """Turn unpacked packages into a kernel directory."""
    image = _find_image(root)
    if image is None:
        raise VmError(f"the packages of {release} contain no kernel image")
    content = image.read_bytes()
    (root / "kernel").write_bytes(bootable(content) if architecture == AMD64 else content)
    (root / "release").write_text(release + "\n")
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    relocate_headers(root / headers.lstrip("/"))
    (root / "headers").symlink_to(headers.lstrip("/"))
    modules = root / "lib/modules" / release
    for name in ("build", "source"):
        (modules / name).unlink(missing_ok=True)
    (modules / "build").symlink_to(os.path.relpath(root / "headers", modules.resolve()))
    run([need("depmod", "kmod"), "-b", str(root), release])


def relocate_headers(headers: Path) -> None:
    """Make headers usable in this directory and with the host's compiler."""
    makefile = headers / "Makefile"
    text = makefile.read_text()
    text = re.sub(r"/usr/src/(?=linux-headers-)", "$(unpacked)../", text)
    makefile.write_text("unpacked := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))\n" + text)
    variables = headers / ".kernelvariables"
    if variables.exists():
        # Debian requires the compiler version that built the kernel.  Use it if it is installed,
        # else the default one: a newer compiler works; for an older one see toolchain.py.
        text = re.sub(
            r"(\$\(CROSS_COMPILE\))(gcc-[0-9]+)\b",
            r"\1$(if $(shell command -v \1\2),\2,gcc)",
            variables.read_text(),
        )
        variables.write_text(text)


def read_image(image: Path) -> tuple[bytes, str]:
    """The octets of a kernel image, and its release."""
    try:
        content = image.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the kernel {image}: {error.strerror}") from None
    release = image_release(content)
    if release is None:
        raise UsageError(f"{image} is not a Linux kernel image")
    return content, release


def from_path(path: Path) -> Kernel:
    """A kernel given by a path: a kernel directory, an image, or a root with unpacked packages."""
    path = path.resolve()
    if path.is_dir():
        if (path / "release").exists() and (path / "kernel").exists():
            return Kernel(path)
        image, roots = _find_image(path), [path]
        if image is None:
            raise UsageError(f"no kernel in {path} (looked for boot/vmlinuz-*)")
    else:
        image, roots = path, [path.parent, path.parent.parent, Path("/")]
    content, release = read_image(image)
    modules = next((m for root in roots if (m := _modules_in(root, release))), None)
    if modules is None:
        where = ", ".join(map(str, roots))
        raise UsageError(f"no modules for {image}: looked for lib/modules/{release} in {where}")
    return _adopt(image, content, release, modules)


def in_root(image: Path, root: Path, place: Path) -> Kernel:
    """The kernel IMAGE whose modules are installed in ROOT, made in a directory of PLACE."""
    content, release = read_image(image)
    modules = root / "lib/modules" / release
    if not (modules / "modules.dep").exists():
        raise UsageError(f"no modules for {image}: {modules} has no modules.dep")
    key = hashlib.sha256(f"{image} {root}".encode()).hexdigest()[:12]
    directory = place / f"root-{release}-{key}"
    with locked(place / ".lock-root"), staging(directory) as new:
        (new / "kernel").write_bytes(bootable(content))
        (new / "release").write_text(release + "\n")
        (new / "lib/modules").mkdir(parents=True)
        (new / "lib/modules" / release).symlink_to(modules)
    return Kernel(directory)


def _modules_in(root: Path, release: str) -> Path | None:
    for base in ("lib/modules", "usr/lib/modules"):
        if (root / base / release / "modules.order").exists():
            return root / base / release
    return None


def _adopt(image: Path, content: bytes, release: str, modules: Path) -> Kernel:
    """Make a kernel directory for a kernel outside of the cache."""
    stamp = (modules / "modules.order").stat().st_mtime_ns
    key = hashlib.sha256(content + f"{image} {modules} {stamp}".encode()).hexdigest()[:12]
    directory = kernels_dir() / f"path-{release}-{key}"
    with locked(cache_dir() / "lock"):
        if not _is_complete(directory):
            with staging(directory) as new:
                (new / "kernel").write_bytes(bootable(content))
                (new / "release").write_text(release + "\n")
                # Copies: in the guest, the tree with our modules is mounted over the host's
                # /lib/modules/RELEASE.
                shutil.copytree(
                    modules,
                    new / "lib/modules" / release,
                    ignore=shutil.ignore_patterns("build", "source", "updates", "*.bin"),
                    copy_function=link_or_copy,
                )
                if (modules / "build").exists():
                    (new / "headers").symlink_to((modules / "build").resolve())
                run([need("depmod", "kmod"), "-b", str(new), release])
                (new / "packages").write_text(f"{image}\n{modules}\n")
    return Kernel(directory)
