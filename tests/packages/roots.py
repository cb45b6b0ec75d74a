# SPDX-License-Identifier: GPL-2.0
"""Clean roots of releases of Debian and Ubuntu, in layers that are kept, and commands in them.

A layer has the files that a script has changed in the root below it (overlayfs). It is made anew
only when the script, its input or the layer below has changed, so an interrupted run continues with
the layer at which it ended. All mounts are in a namespace of the command that needs them, and end
with it, also when it is killed.

Where packages come from is what this machine's apt is configured with, or FAIRPATH_MIRROR, or, of
Debian, its own address.

Requires root, overlayfs and mmdebstrap. Layers are in the cache of scripts/vm, in packages/; remove
that to begin with Debian's packages of today.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from fairvm.archive import MIRROR, TRIXIE, Archive, system_keyring, unpack
from fairvm.cache import cache_dir, locked

from tests import launch

#: Runs in new namespaces: shows the layers $1, with all writes to $2, as the directory $3. With
#: $4, programs can run in it, and its packages are kept in that directory; with $5, the rest does.
ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/files,workdir=$2/work" "$3"
root=$3 packages=$4 inside=$5
shift 5
if [ "$packages" ]; then
    mount --bind "$packages" "$root/var/cache/apt/archives"
    mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
    mount -t proc proc "$root/proc"
fi
[ "$inside" ] || exec "$@"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    TERM=dumb DEBIAN_FRONTEND=noninteractive "$@"
"""
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]

Done = subprocess.CompletedProcess[str]


#: By the label of an archive: where it is in FAIRPATH_MIRROR, and by default; "" is nowhere.
ARCHIVES = {
    "Debian": ("debian", MIRROR),
    "Debian-Security": ("debian-security", MIRROR),
    "Ubuntu": ("ubuntu", ""),
}
UBUNTU = ("noble",)


def mirrors() -> dict[str, str]:
    """By the label of an archive: its address."""
    own = os.environ.get("FAIRPATH_MIRROR", "").rstrip("/")
    places = {label: (own or at, name) for label, (name, at) in ARCHIVES.items()}
    addresses = {label: f"{at}/{name}" for label, (at, name) in places.items() if at}
    if not own:
        command = ["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)"]
        command.append("Created-By: Packages")
        shown = launch.succeed(command).stdout
        found = dict(line.split("|", 1) for line in shown.splitlines() if "|" in line)
        addresses |= {label: found[label] for label in found if label in ARCHIVES}
    return addresses


@dataclass(frozen=True)
class Layer:
    """The files of a root that differ from those of the layer below."""

    release: str
    name: str
    key: str
    below: Layer | None = None

    @property
    def place(self) -> Path:
        return cache_dir() / "packages" / self.release / self.name

    @property
    def files(self) -> Path:
        return self.place / "files"

    @property
    def stack(self) -> str:
        return str(self.files) + (f":{self.below.stack}" if self.below else "")

    def made(self) -> bool:
        stamp = self.place / "key"
        return stamp.exists() and stamp.read_text() == self.key

    def clear(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        for name in ("files", "work", "root"):
            (self.place / name).mkdir(parents=True)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def digest(files: list[Path]) -> str:
    """Of their names and contents."""
    contents = (
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(files)
    )
    return _key(*contents)


def _run(command: list[str], what: str, seconds: int) -> str:
    """Run it; its output is part of the error if it fails, and returned."""
    try:
        done = launch.run(command, stderr=subprocess.STDOUT, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        text = output.decode(errors="replace") if isinstance(output, bytes) else output
        raise AssertionError(f"{what}: not finished after {seconds} s\n{text}") from None
    assert done.returncode == 0, f"{what}: status {done.returncode}\n{done.stdout}"
    return done.stdout


def ubuntu_keyring() -> Path:
    """The keys of Ubuntu's archive: this machine's, or those that Debian 13 has, whose signature
    apt checks."""
    name = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
    if (Path("/") / name).exists():
        return Path("/") / name
    place = cache_dir() / "packages/keyring"
    with locked(place.with_name(".lock-keyring")):
        if not (place / name).exists():
            archive = Archive((TRIXIE,))
            archive.update()
            unpack(archive.download(["ubuntu-keyring"], place / "debs"), place)
    return place / name


def sources(release: str) -> tuple[list[str], Path]:
    """The lines of sources.list, and the keyring that verifies them."""
    found = mirrors()
    if release in UBUNTU:
        if "Ubuntu" not in found:
            raise RuntimeError(f"{release}: set FAIRPATH_MIRROR to what has ubuntu/")
        suites = (release, f"{release}-updates", f"{release}-security")
        return [
            f"deb {found['Ubuntu']} {suite} main universe" for suite in suites
        ], ubuntu_keyring()
    lines = [f"deb {found['Debian']} {release} main"]
    lines.append(f"deb {found['Debian-Security']} {release}-security main")
    return lines, system_keyring()


def base(release: str) -> Layer:
    """What the distribution calls essential, and apt."""
    lines, keyring = sources(release)
    options = ["--mode=root", "--variant=apt", "--dpkgopt=force-unsafe-io", f"--keyring={keyring}"]
    settings = ("APT::Install-Recommends false", "APT::Sandbox::User root", "Acquire::Retries 3")
    options += [f"--aptopt={setting}" for setting in settings]
    layer = Layer(release, "base", _key(*lines, *options))
    with locked(layer.place.with_name(".lock-base")):
        if not layer.made():
            layer.clear()
            command = ["mmdebstrap", *options, release, str(layer.files), *lines]
            _run(command, f"{release}: mmdebstrap", 1800)
            (layer.files / "etc/resolv.conf").touch()
            (layer.place / "key").write_text(layer.key)
    return layer


def scratch(layer: Layer, name: str) -> Layer:
    """An empty layer above LAYER."""
    new = Layer(layer.release, name, "", layer)
    new.clear()
    return new


def enter(
    layer: Layer, *command: str, inside: bool = True, ready: bool = True, seconds: int = 1800
) -> str:
    """Run COMMAND in the root whose uppermost layer is LAYER, to which it writes; or outside, with
    that root in the directory `root` of the layer, READY to run programs in it, or with nothing
    mounted there. Return its output."""
    packages = layer.place.with_name("archives")
    (packages / "partial").mkdir(parents=True, exist_ok=True)
    assert layer.below
    places = [layer.below.stack, str(layer.place), str(layer.place / "root")]
    flags = [str(packages) if inside or ready else "", "yes" if inside else ""]
    words = [*NAMESPACES, "sh", "-c", ENTER, "sh", *places, *flags]
    return _run([*words, *command], f"{layer.release}: {shlex.join(command)[:2000]}", seconds)


def add(below: Layer, name: str, script: str, inputs: dict[str, Path], state: str = "") -> Layer:
    """A layer that SCRIPT makes, with copies of INPUTS at these places, unless it exists. STATE is
    what it depends on; by default, the files of INPUTS."""
    paths = [path for each in inputs.values() for path in [each, *each.rglob("*")]]
    state = state or digest([path for path in paths if path.is_file()])
    layer = Layer(below.release, name, _key(below.key, script, state), below)
    with locked(layer.place.with_name(f".lock-{name}")):
        if layer.made():
            return layer
        layer.clear()
        for to, source in inputs.items():
            target = layer.files / to.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target)
        started = time.monotonic()
        output = enter(layer, "sh", "-euxc", script)
        seconds = time.monotonic() - started
        (layer.place / "log").write_text(f"{output}\n{seconds:.0f} s\n")
        (layer.place / "key").write_text(layer.key)
    return layer
