# SPDX-License-Identifier: GPL-2.0
"""Kernels to try modules in: where they come from and how they lie in the cache.

A module that can crash a kernel is tried in a kernel that may crash, so `scripts/vm` needs
bootable kernels, their own modules, and headers to build ours with.  All three are in Debian's
packages.  They are fetched with apt, with its signatures and checksums, but under a private
configuration: own list of sources, own lists, an empty status file.  So no root is needed, and
whatever the machine itself has installed is neither used nor touched.  Packages are only
unpacked, never installed.

A kernel in the cache is a directory D:

    D/release              its release, as `uname -r` will say
    D/kernel               what qemu boots: the ELF image from inside the bzImage, where it can be
                           had (that saves the guest its decompression), else the bzImage
    D/headers              KERNELDIR for an external module build
    D/lib/modules/RELEASE  its own modules, indexed by depmod
    D/packages             which packages it was made of
    D/suite                and from which suite of Debian
    D/make                 what else to tell make when modules are built (see uml.py)

A series such as 6.12 is a name for the newest release of it that Debian has when it is first
fetched; after that the cached one is used, without the network, until `get --refresh`.

Headers of a newer Debian bring tools (modpost, objtool) that need its libc, and a configuration
that needs its compiler.  For these a small root with that compiler is unpacked beside, and the
build runs in it; see Toolchain.

Assumptions: x86-64; apt and dpkg on the host (any Debian or Ubuntu); kmod.
"""

from __future__ import annotations

import bz2
import contextlib
import fcntl
import gzip
import hashlib
import lzma
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
ARCHITECTURE = "amd64"
MIRROR = os.environ.get("FAIRPATH_MIRROR", "http://deb.debian.org").rstrip("/")


class KernelError(Exception):
    """A request that cannot be fulfilled; its text is one line for the user."""


class UsageError(KernelError):
    """A request that names something that does not exist."""


@dataclass(frozen=True)
class Suite:
    """A suite of Debian's archive."""

    name: str
    archive: str = "debian"

    def line(self, keyring: Path) -> str:
        options = f"[arch={ARCHITECTURE} signed-by={keyring}]"
        return f"deb {options} {MIRROR}/{self.archive} {self.name} main"


BOOKWORM = Suite("bookworm")
BOOKWORM_SECURITY = Suite("bookworm-security", "debian-security")
BOOKWORM_BACKPORTS = Suite("bookworm-backports")
TRIXIE = Suite("trixie")
TRIXIE_SECURITY = Suite("trixie-security", "debian-security")
TRIXIE_BACKPORTS = Suite("trixie-backports")
SID = Suite("sid")

# For each series: the places to look, best first.  The build tools in the headers' packages need
# the libc of the Debian that they were built on, or newer; so the oldest Debian comes first.
SERIES: dict[str, tuple[tuple[Suite, ...], ...]] = {
    "6.1": ((BOOKWORM, BOOKWORM_SECURITY),),
    "6.12": ((BOOKWORM_BACKPORTS, BOOKWORM_SECURITY), (TRIXIE, TRIXIE_SECURITY)),
    "7.2": ((TRIXIE_BACKPORTS,), (SID,)),
}
# Where the compiler and libc for headers from a suite come from.
TOOLCHAINS: dict[str, tuple[Suite, ...]] = {
    "bookworm-backports": (BOOKWORM, BOOKWORM_BACKPORTS, BOOKWORM_SECURITY),
    "trixie-backports": (TRIXIE, TRIXIE_BACKPORTS),
}


progress = True


def say(text: str) -> None:
    """Progress: to stderr, since stdout carries the answer."""
    if progress:
        print(f"kernel: {text}", file=sys.stderr, flush=True)


def cache_dir() -> Path:
    """The cache that all clones of the project share."""
    own = os.environ.get("FAIRPATH_CACHE")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "fairpath"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file PATH, so that two runs do not do the same work or break each other's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def need(program: str, package: str) -> str:
    """The path of PROGRAM, or an error that says how to get it."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise KernelError(f"{program} is missing (package {package}): run scripts/install-deps")
    return path


def run(command: list[str], cwd: Path | None = None) -> str:
    """Run COMMAND and return its output; its complaints become the error."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("E:", "W:"))] or lines
        reason = "; ".join(errors[-3:]) or f"exit status {done.returncode}"
        raise KernelError(f"{Path(command[0]).name} failed: {reason}")
    return done.stdout


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
    def is_program(self) -> bool:
        """Is it User-Mode Linux?"""
        return "ARCH=um" in self.make_variables

    @property
    def make_variables(self) -> list[str]:
        """What make has to be told when a module is built for it."""
        path = self.directory / "make"
        return path.read_text().split() if path.exists() else []


# --- Debian's archive ---------------------------------------------------------------------------


class Archive:
    """Packages of some suites, seen through an apt of our own."""

    def __init__(self, suites: tuple[Suite, ...]) -> None:
        self.suites = suites
        self.label = "+".join(suite.name for suite in suites)
        self.directory = cache_dir() / "apt" / self.label
        self._apt_get = need("apt-get", "apt")
        self._apt_cache = need("apt-cache", "apt")

    def _options(self) -> list[str]:
        # The system's apt.conf is read first (it may name a proxy); these win over it.
        here = self.directory
        settings = {
            "Dir::State": here / "state",
            "Dir::State::lists": here / "lists",
            "Dir::State::status": here / "status",
            "Dir::Cache": here / "cache",
            "Dir::Cache::pkgcache": "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
            "Dir::Etc::sourcelist": here / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
            "APT::Get::List-Cleanup": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::DEP-11-icons-small::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::DEP-11-icons::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        options = ["-q"]
        for name, value in settings.items():
            options += ["-o", f"{name}={value}"]
        return options

    def update(self) -> None:
        """Fetch the lists of the suites, with their signatures checked."""
        say(f"fetching the package lists of {self.label}")
        for part in ("state", "lists/partial", "cache/archives/partial"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        try:
            self._update(system_keyring())
        except KernelError as error:
            if not re.search("NO_PUBKEY|Missing key|not signed|verif", str(error)):
                raise
            self._update(newer_keyring(self))

    def _update(self, keyring: Path) -> None:
        sources = "".join(suite.line(keyring) + "\n" for suite in self.suites)
        (self.directory / "sources.list").write_text(sources)
        run([self._apt_get, *self._options(), "-o", "APT::Update::Error-Mode=any", "update"])

    def newest_image(self, series: str) -> str | None:
        """The newest plain kernel image of SERIES: the name of its package."""
        pattern = re.compile(
            rf"linux-image-({re.escape(series)}(?:[.][0-9]+)*(?:[-+~][0-9a-z.+~]*)?-{ARCHITECTURE})$"
        )
        names = run([self._apt_cache, *self._options(), "pkgnames", f"linux-image-{series}"])
        releases = [m[1] for m in map(pattern.fullmatch, names.split()) if m]
        # Releases of one series differ in numbers, which decide, and in suffixes, which do not.
        releases.sort(key=lambda release: [int(n) for n in re.findall("[0-9]+", release)])
        return f"linux-image-{releases[-1]}" if releases else None

    def has(self, name: str) -> bool:
        """Is there a package NAME?"""
        return name in run([self._apt_cache, *self._options(), "pkgnames", name]).split()

    def describe(self, name: str) -> dict[str, str]:
        """The fields of the newest version of package NAME."""
        text = run([self._apt_cache, *self._options(), "show", "--no-all-versions", name])
        return dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", text, re.MULTILINE))

    def kernel_packages(self, names: list[str]) -> dict[str, str]:
        """NAMES and those packages of the same kernel that they depend on: name -> version."""
        found: dict[str, str] = {}
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in found:
                continue
            fields = self.describe(name)
            found[name] = fields["Version"]
            for clause in fields.get("Depends", "").split(","):
                wanted = clause.split("|")[0].split("(")[0].split(":")[0].strip()
                if re.match(r"linux-(binary|modules|base|headers|kbuild)-[0-9]", wanted):
                    todo.append(wanted)
        return found

    def download(self, names: list[str], into: Path) -> list[Path]:
        """Download packages; apt checks them against the signed lists."""
        into.mkdir(parents=True, exist_ok=True)
        run([self._apt_get, *self._options(), "download", *names], cwd=into)
        return sorted(into.glob("*.deb"))

    def closure(self, names: list[str], into: Path) -> list[Path]:
        """Download packages and everything that they depend on."""
        archives = into / "archives"
        (archives / "partial").mkdir(parents=True)
        what = ["-o", f"Dir::Cache::archives={archives}", "--download-only", "-y", "install"]
        run([self._apt_get, *self._options(), *what, *names])
        return sorted(archives.glob("*.deb"))


def system_keyring() -> Path:
    """The Debian archive keys that the machine trusts (on Ubuntu: package of the same name)."""
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        path = Path("/usr/share/keyrings") / name
        if path.exists():
            return path
    raise KernelError(
        "the keys of Debian's archive are missing (package debian-archive-keyring):"
        " run scripts/install-deps"
    )


def newer_keyring(asked: Archive) -> Path:
    """Keys newer than the machine's, from a suite that the machine's keys vouch for."""
    keyring = cache_dir() / "keyring"
    if asked.suites != (BOOKWORM,):
        say("the machine's Debian keys are too old for that; fetching newer ones through bookworm")
        archive = Archive((BOOKWORM,))
        archive.update()
        with tempfile.TemporaryDirectory() as scratch:
            for package in archive.download(["debian-archive-keyring"], Path(scratch)):
                run([need("dpkg", "dpkg"), "-x", str(package), str(keyring)])
        for path in sorted(keyring.glob("usr/share/keyrings/debian-archive-keyring.[gp]*")):
            return path
    raise KernelError(f"no key for the signature of {asked.label}: update debian-archive-keyring")


def unpack(packages: list[Path], into: Path) -> None:
    """Unpack, and throw each package away as soon as it is unpacked."""
    dpkg = need("dpkg", "dpkg")
    into.mkdir(parents=True, exist_ok=True)
    for package in packages:
        run([dpkg, "-x", str(package), str(into)])
        package.unlink()


# --- kernel images ------------------------------------------------------------------------------

PAYLOADS = (
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x5d\x00\x00", "lzma"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)


def boot_header(image: bytes) -> bool:
    """Is this a bzImage?"""
    return len(image) > 0x250 and image[0x202:0x206] == b"HdrS"


def image_release(image: bytes) -> str | None:
    """The release that a kernel image says it is."""
    if boot_header(image):
        offset = struct.unpack_from("<H", image, 0x20E)[0] + 0x200
        return image[offset : image.index(b"\0", offset)].decode("ascii", "replace").split(" ")[0]
    match = re.search(rb"Linux version (\S+) \(", image)
    return match[1].decode("ascii", "replace") if match else None


def decompress(payload: bytes) -> bytes | None:
    """The payload of a bzImage (which has four more bytes after the compressed data)."""
    kind = next((name for magic, name in PAYLOADS if payload.startswith(magic)), None)
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if kind == "lzma":
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload)
    if kind == "bzip2":
        return bz2.BZ2Decompressor().decompress(payload)
    if kind == "gzip":
        return gzip.decompress(payload[:-4])
    if kind == "zstd":
        tool = need("zstd", "zstd")
        done = subprocess.run([tool, "-dqc"], input=payload[:-4], capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


def has_pvh_entry(elf: bytes) -> bool:
    """Has the ELF image the note that tells where to enter it from a hypervisor (CONFIG_PVH)?"""
    if elf[:5] != b"\x7fELF\x02":
        return False
    table, size, count = (
        struct.unpack_from("<Q", elf, 32)[0],
        *struct.unpack_from("<HH", elf, 54),
    )
    for index in range(count):
        kind, _flags, offset = struct.unpack_from("<IIQ", elf, table + index * size)
        length = struct.unpack_from("<Q", elf, table + index * size + 32)[0]
        # PT_NOTE, holding a note of owner "Xen" and type 18, XEN_ELFNOTE_PHYS32_ENTRY
        if kind == 4 and b"\x12\0\0\0Xen\0" in elf[offset : offset + length]:
            return True
    return False


def bootable(image: bytes) -> bytes:
    """What to give to qemu for IMAGE: the quickest form of it."""
    if not boot_header(image):
        if has_pvh_entry(image):
            return image
        raise UsageError("not a kernel that qemu can boot (no bzImage, no ELF with CONFIG_PVH)")
    start = (image[0x1F1] or 4) * 512 + 512 + struct.unpack_from("<I", image, 0x248)[0]
    length = struct.unpack_from("<I", image, 0x24C)[0]
    elf = decompress(image[start : start + length])
    return elf if elf is not None and has_pvh_entry(elf) else image


# --- the cache ----------------------------------------------------------------------------------


def kernels_dir() -> Path:
    return cache_dir() / "kernels"


def _is_complete(directory: Path) -> bool:
    return (directory / "packages").exists()


def cached() -> list[Kernel]:
    """The kernels in the cache."""
    if not kernels_dir().is_dir():
        return []
    return [Kernel(d) for d in sorted(kernels_dir().iterdir()) if d.is_dir() and _is_complete(d)]


def _series_file(series: str) -> Path:
    return kernels_dir() / f"series-{series}"


def cached_series(series: str) -> Kernel | None:
    """The kernel that stands for SERIES in the cache."""
    try:
        directory = kernels_dir() / _series_file(series).read_text().strip()
    except FileNotFoundError:
        return None
    return Kernel(directory) if _is_complete(directory) else None


def available() -> str:
    """What can be asked for, in one line."""
    names = dict.fromkeys([*SERIES, "host", *(kernel.release for kernel in cached())])
    return ", ".join(names) + ", or a path"


def get(version: str, refresh: bool = False) -> Kernel:
    """The kernel that VERSION names, fetched if need be."""
    if platform.machine() != "x86_64":
        raise KernelError(f"only x86_64 is supported, this is {platform.machine()}")
    if version in SERIES:
        kernel = None if refresh else cached_series(version)
        if kernel is None:
            with locked(cache_dir() / "lock"):
                kernel = (None if refresh else cached_series(version)) or fetch(version)
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


def fetch(series: str) -> Kernel:
    """Fetch the newest kernel of SERIES that Debian has."""
    for suites in SERIES[series]:
        archive = Archive(suites)
        archive.update()
        image = archive.newest_image(series)
        if image:
            return _fetch_image(series, archive, image)
    places = ", ".join(suite.name for suites in SERIES[series] for suite in suites)
    raise KernelError(f"Debian has no kernel {series} any more in {places}")


def _fetch_image(series: str, archive: Archive, image: str) -> Kernel:
    release = image.removeprefix("linux-image-")
    directory = kernels_dir() / release
    if not _is_complete(directory):
        packages = archive.kernel_packages([image, f"linux-headers-{release}"])
        say(f"fetching Linux {release} from {archive.label} ({len(packages)} packages)")
        with staging(directory) as new:
            debs = archive.download(list(packages), new / "debs")
            unpack(debs, new)
            (new / "debs").rmdir()
            _finish_unpacked(new, release, f"/usr/src/linux-headers-{release}")
            text = "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))
            (new / "packages").write_text(text)
            (new / "suite").write_text(archive.suites[0].name + "\n")
    _series_file(series).write_text(release + "\n")
    return Kernel(directory)


@contextlib.contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """A directory that becomes DIRECTORY when all went well, and vanishes when not."""
    new = directory.with_name(f".new-{directory.name}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        yield new
        shutil.rmtree(directory, ignore_errors=True)
        new.rename(directory)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _find_image(root: Path) -> Path | None:
    for pattern in ("boot/vmlinu[xz]-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz"):
        for path in sorted(root.glob(pattern)):
            return path
    return None


def _finish_unpacked(root: Path, release: str, headers: str) -> None:
    """Make unpacked packages into a kernel directory."""
    image = _find_image(root)
    if image is None:
        raise KernelError(f"the packages of {release} hold no kernel image")
    (root / "kernel").write_bytes(bootable(image.read_bytes()))
    (root / "release").write_text(release + "\n")
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    _relocate_headers(root / headers.lstrip("/"))
    (root / "headers").symlink_to(headers.lstrip("/"))
    modules = root / "lib/modules" / release
    for name in ("build", "source"):
        (modules / name).unlink(missing_ok=True)
    (modules / "build").symlink_to(os.path.relpath(root / "headers", modules.resolve()))
    run([need("depmod", "kmod"), "-b", str(root), release])


def _relocate_headers(headers: Path) -> None:
    """Make headers usable where they are unpacked, and with the compiler that the host has."""
    makefile = headers / "Makefile"
    text = makefile.read_text()
    text = re.sub(r"/usr/src/(?=linux-headers-)", "$(unpacked)../", text)
    makefile.write_text("unpacked := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))\n" + text)
    variables = headers / ".kernelvariables"
    if variables.exists():
        # Debian asks for the very compiler that built the kernel: take it where it exists, else
        # the default one (a newer compiler is fine, an older one is refused by Toolchain).
        text = re.sub(
            r"(\$\(CROSS_COMPILE\))(gcc-[0-9]+)\b",
            r"\1$(if $(shell command -v \2),\2,gcc)",
            variables.read_text(),
        )
        variables.write_text(text)


# --- kernels from elsewhere ---------------------------------------------------------------------


def from_path(path: Path) -> Kernel:
    """A kernel that the user names by a path: an image, or a root with unpacked packages."""
    path = path.resolve()
    if path.is_dir():
        if (path / "release").exists() and (path / "kernel").exists():
            return Kernel(path)
        image, roots = _find_image(path), [path]
        if image is None:
            raise UsageError(f"no kernel in {path} (looked for boot/vmlinuz-*)")
    else:
        image, roots = path, [path.parent, path.parent.parent, Path("/")]
    try:
        content = image.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the kernel {image}: {error.strerror}") from None
    release = image_release(content)
    if release is None:
        raise UsageError(f"{image} is not a Linux kernel image")
    modules = next((m for root in roots if (m := _modules_in(root, release))), None)
    if modules is None:
        where = ", ".join(map(str, roots))
        raise UsageError(f"no modules for {image}: looked for lib/modules/{release} in {where}")
    return _adopt(image, content, release, modules)


def _modules_in(root: Path, release: str) -> Path | None:
    for base in ("lib/modules", "usr/lib/modules"):
        if (root / base / release / "modules.order").exists():
            return root / base / release
    return None


def _adopt(image: Path, content: bytes, release: str, modules: Path) -> Kernel:
    """Make a kernel directory of a kernel elsewhere."""
    stamp = (modules / "modules.order").stat().st_mtime_ns
    key = hashlib.sha256(content + f"{image} {modules} {stamp}".encode()).hexdigest()[:12]
    directory = kernels_dir() / f"path-{release}-{key}"
    with locked(cache_dir() / "lock"):
        if not _is_complete(directory):
            with staging(directory) as new:
                (new / "kernel").write_bytes(bootable(content))
                (new / "release").write_text(release + "\n")
                # Copies, since the guest will not see /lib/modules/RELEASE of the host: the tree
                # with our modules is mounted over it.
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


def link_or_copy(source: str, target: str) -> None:
    """A second name for a file where that is allowed, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


INDEX = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


def link_modules(source: Path, target: Path) -> None:
    """Let TARGET show the modules of the tree SOURCE, without its index."""
    for entry in source.iterdir():
        if entry.is_dir() and entry.name not in ("build", "source"):
            (target / entry.name).symlink_to(entry.resolve())
    for name in INDEX:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


# --- our modules --------------------------------------------------------------------------------


class Toolchain:
    """A small root with the compiler and libc that the headers of a newer Debian need.

    Its packages are only unpacked, so it takes no root to make; to build in it takes a mount
    namespace (as root, or where users may have namespaces of their own).
    """

    TOOLS = tuple(
        "make libc6-dev libelf1 libssl3t64 pahole kmod dash bash coreutils findutils sed grep mawk"
        " diffutils perl-base dpkg xz-utils base-files".split()
    )

    # Runs in a mount namespace of its own: the directories named before `--` are put into the
    # root at their own paths, then the rest is run in it.
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

    def make(self) -> None:
        """Make sure that it is there."""
        with locked(cache_dir() / "lock"):
            if (self.root / "complete").exists():
                return
            archive = Archive(self.suites)
            archive.update()
            say(f"fetching {self.compiler} from {archive.label} (about 300 MB unpacked)")
            with staging(self.root) as new:
                scratch = new / "debs"
                packages = archive.closure([self.compiler, *self.TOOLS], scratch)
                # First the one that says that /bin is /usr/bin.
                packages.sort(key=lambda package: not package.name.startswith("base-files_"))
                unpack(packages, new)
                shutil.rmtree(scratch)
                for link, target in (("sh", "dash"), ("awk", "mawk"), ("gcc", self.compiler)):
                    path = new / "usr/bin" / link
                    if not path.is_symlink():
                        path.symlink_to(target)
                (new / "complete").touch()

    def wrap(self, command: list[str]) -> list[str]:
        """The command that runs COMMAND in it."""
        unshare = [need("unshare", "util-linux"), "--mount"]
        if os.getuid():
            unshare += ["--user", "--map-root-user"]
        shared = ["/dev", "/proc", str(TOP), str(cache_dir())]
        return [*unshare, "sh", "-c", self.ENTER, "sh", str(self.root), *shared, "--", *command]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall("[0-9]+", text))


def toolchain_for(kernel: Kernel) -> Toolchain | None:
    """The toolchain that a build against the headers of KERNEL needs, if the host's will not do."""
    if not (kernel.directory / "suite").exists():
        return None  # from elsewhere: whoever brought the headers has what they need
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
    # Tools that the host's libraries cannot run: a missing one is told by ldd on either stream.
    ldd = need("ldd", "libc-bin")
    for pattern in ("scripts/mod/modpost*", "tools/objtool/objtool*", "tools/bpf/*/resolve_btfids"):
        for tool in kernel.headers.glob(pattern):
            if tool.is_file() and tool.read_bytes()[:4] == b"\x7fELF":
                done = subprocess.run([ldd, str(tool)], capture_output=True, text=True, check=False)
                if "not found" in done.stdout + done.stderr:
                    return toolchain
    return None


def build_plugins() -> Path:
    """Build what makes tc understand the project's qdiscs; the directory of these plugins."""
    need("make", "make")
    with locked(TOP / "build" / ".lock-tc"):
        run(["make", "--no-print-directory", "-C", str(TOP), "tc-plugins"])
    return TOP / "build" / "tc"


def build_tools() -> Path:
    """Build slbnctl; the directory that it is in."""
    need("make", "make")
    with locked(TOP / "build" / ".lock-tools"):
        run(["make", "--no-print-directory", "-C", str(TOP), "tools"])
    return TOP / "build" / "slbnctl"


def build_modules(kernel: Kernel, quiet: bool = False) -> Path:
    """Build the project's modules for KERNEL; the root of a complete tree of modules."""
    release = kernel.release
    if not kernel.headers.exists():
        raise KernelError(f"no headers for {release}: its modules cannot be built")
    build = TOP / "build"
    toolchain = toolchain_for(kernel)
    with locked(build / f".lock-{release}"):
        command = ["make", "--no-print-directory", "-C", str(TOP), "modules"]
        command += [f"KERNELDIR={kernel.headers.resolve()}", *kernel.make_variables]
        if toolchain:
            toolchain.make()
            command = toolchain.wrap(command)
        else:
            need("make", "make")
        # A release may be another kernel than the last time: configured otherwise, or rebuilt.
        modules, headers = build / "modules" / release, str(kernel.headers.resolve())
        built_for = modules / ".built-for"
        if modules.exists() and not (built_for.exists() and built_for.read_text() == headers):
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
            raise KernelError(f"the modules could not be built for {release}{where}")
        built_for.write_text(headers)
        return _assemble(kernel, sorted(modules.glob("*/*.ko")))


def _assemble(kernel: Kernel, ours: list[Path]) -> Path:
    """The kernel's own modules and ours, ours in updates/, where modprobe looks first."""
    release = kernel.release
    root = TOP / "build/root" / release
    state = hashlib.sha256(f"1 {kernel.directory}".encode())
    for module in ours:
        state.update(f"\0{module.name}\0".encode() + module.read_bytes())
    stamp = root / "stamp"
    # Leave the tree alone when it is right: a running guest may be looking at it.
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
