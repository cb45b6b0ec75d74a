# SPDX-License-Identifier: GPL-2.0
"""Debian's archive, read through apt with a private configuration.

Packages are fetched with apt, which checks signatures and checksums, but with its own list of
sources, own lists and an empty status file: it needs no root, and neither uses nor changes what the
machine has installed.  Packages are only unpacked, never installed.

Requires apt and dpkg on the host (any Debian or Ubuntu), x86-64.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fairvm.cache import cache_dir
from fairvm.errors import VmError
from fairvm.host import how_to_install, need, run, say

ARCHITECTURE = "amd64"
MIRROR = os.environ.get("FAIRPATH_MIRROR", "http://deb.debian.org").rstrip("/")


@dataclass(frozen=True)
class Suite:
    """A suite of Debian's archive."""

    name: str
    archive: str = "debian"

    def line(self, kind: str, architecture: str, keyring: Path) -> str:
        options = f"[arch={architecture} signed-by={keyring}]"
        return f"{kind} {options} {MIRROR}/{self.archive} {self.name} main"


BOOKWORM = Suite("bookworm")
BOOKWORM_SECURITY = Suite("bookworm-security", "debian-security")
BOOKWORM_BACKPORTS = Suite("bookworm-backports")
TRIXIE = Suite("trixie")
TRIXIE_SECURITY = Suite("trixie-security", "debian-security")
TRIXIE_BACKPORTS = Suite("trixie-backports")
SID = Suite("sid")

# The suites to search for each series, in this order.  The build tools in the headers' packages
# need the libc of the Debian release that they were built on, or a newer one: the oldest is first.
SERIES: dict[str, tuple[tuple[Suite, ...], ...]] = {
    "6.1": ((BOOKWORM, BOOKWORM_SECURITY),),
    "6.12": ((BOOKWORM_BACKPORTS, BOOKWORM_SECURITY), (TRIXIE, TRIXIE_SECURITY)),
    "7.2": ((TRIXIE_BACKPORTS,), (SID,)),
}
# The suites that have the compiler and libc for the headers of a suite.
TOOLCHAINS: dict[str, tuple[Suite, ...]] = {
    "bookworm-backports": (BOOKWORM, BOOKWORM_BACKPORTS, BOOKWORM_SECURITY),
    "trixie-backports": (TRIXIE, TRIXIE_BACKPORTS),
}


class Archive:
    """Packages of some suites, or with the kind `deb-src` their sources."""

    def __init__(
        self, suites: tuple[Suite, ...], architecture: str = ARCHITECTURE, kind: str = "deb"
    ) -> None:
        self.suites = suites
        self.architecture = architecture
        self.kind = kind
        self.label = "+".join(suite.name for suite in suites)
        if kind != "deb":
            self.label += f":{kind}"
        if architecture != ARCHITECTURE:
            self.label += f":{architecture}"
        self.directory = cache_dir() / "apt" / self.label
        self._apt_get = need("apt-get", "apt")
        self._apt_cache = need("apt-cache", "apt")

    def _options(self) -> list[str]:
        # The system's apt.conf is read first (it may name a proxy); these override it.
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
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
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
        """Fetch the package lists of the suites and check their signatures."""
        say(f"fetching the package lists of {self.label}")
        for part in ("state", "lists/partial", "cache/archives/partial"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        try:
            self._update(system_keyring())
        except VmError as error:
            if not re.search("NO_PUBKEY|Missing key|not signed|verif", str(error)):
                raise
            self._update(newer_keyring(self))

    def _update(self, keyring: Path) -> None:
        lines = [suite.line(self.kind, self.architecture, keyring) for suite in self.suites]
        sources = "".join(f"{line}\n" for line in lines)
        (self.directory / "sources.list").write_text(sources)
        run([self._apt_get, *self._options(), "-o", "APT::Update::Error-Mode=any", "update"])

    def newest_image(self, series: str, flavour: str = "") -> str | None:
        """The newest plain kernel image of SERIES, or of a flavour (`-rt`): its package's name."""
        release = rf"{re.escape(series)}(?:[.][0-9]+)*(?:[-+~][0-9a-z.+~]*)?"
        pattern = re.compile(rf"linux-image-({release}{flavour}-{self.architecture})$")
        names = run([self._apt_cache, *self._options(), "pkgnames", f"linux-image-{series}"])
        releases = [m[1] for m in map(pattern.fullmatch, names.split()) if m]
        # Compare the numbers only: suffixes do not order releases.
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
        """NAMES and the packages of the same kernel that they depend on: name -> version."""
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

    def download_source(self, name: str, into: Path) -> Path:
        """Download the source of a package; return its upstream archive."""
        into.mkdir(parents=True, exist_ok=True)
        run([self._apt_get, *self._options(), "--download-only", "source", name], cwd=into)
        return next(into.glob("*.orig.tar.*"))

    def closure(self, names: list[str], into: Path) -> list[Path]:
        """Download packages and all their dependencies."""
        archives = into / "archives"
        (archives / "partial").mkdir(parents=True)
        what = ["-o", f"Dir::Cache::archives={archives}", "--download-only", "-y", "install"]
        run([self._apt_get, *self._options(), *what, *names])
        return sorted(archives.glob("*.deb"))


def system_keyring() -> Path:
    """The keyring of Debian's archive, from the package debian-archive-keyring."""
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        path = Path("/usr/share/keyrings") / name
        if path.exists():
            return path
    raise VmError(
        "the keys of Debian's archive are missing (package debian-archive-keyring):"
        f" {how_to_install()}"
    )


def newer_keyring(wanted: Archive) -> Path:
    """A keyring newer than the machine's, from a suite that the machine's keys verify."""
    keyring = cache_dir() / "keyring"
    if wanted.suites != (BOOKWORM,):
        say("the machine's Debian keys are too old; fetching newer ones from bookworm")
        archive = Archive((BOOKWORM,))
        archive.update()
        with tempfile.TemporaryDirectory() as scratch:
            for package in archive.download(["debian-archive-keyring"], Path(scratch)):
                run([need("dpkg", "dpkg"), "-x", str(package), str(keyring)])
        for path in sorted(keyring.glob("usr/share/keyrings/debian-archive-keyring.[gp]*")):
            return path
    raise VmError(f"no key for the signature of {wanted.label}: update debian-archive-keyring")


def unpack(packages: list[Path], into: Path) -> None:
    """Unpack packages and delete each one right after, to save disk space."""
    dpkg = need("dpkg", "dpkg")
    into.mkdir(parents=True, exist_ok=True)
    for package in packages:
        run([dpkg, "-x", str(package), str(into)])
        package.unlink()
