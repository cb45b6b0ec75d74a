# SPDX-License-Identifier: GPL-2.0
"""Debian's packages: built, checked, installed, used and purged in clean roots of its releases and
of one of Ubuntu's.

Requires root, and the archives. The modules are built by DKMS for the release's own kernel, and run
in it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.install.test_release import VERSION, clone, run
from tests.linux_source import TOP
from tests.packages import roots
from tests.packages.roots import Layer

__all__ = ["clone"]  # a fixture

pytestmark = pytest.mark.parametrize("release", ["bookworm", "trixie", "noble"], scope="module")

SCRIPTS = TOP / "scripts/debian"
CONTROL = (SCRIPTS / "control.in").read_text()
PACKAGES = re.findall(r"^Package: (\S+)$", CONTROL, re.MULTILINE)
DKMS = [name for name in PACKAGES if name.endswith("-dkms")]
MODULES = ("tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn")
#: Until a guest that hangs is ended; without KVM, on a busy machine, a boot alone takes minutes.
SECONDS = 3600

BUILD_DEPENDS = """
apt-get -q update
apt-get -qy install build-essential lintian
apt-get -qy build-dep /source
rm -r /source
"""
BUILD = """
cd /source/fairpath-*/
dpkg-buildpackage --no-sign --build=full
rm -r /source/fairpath-*/
"""
#: Ubuntu's own profile refuses the distribution "unstable".
LINTIAN = (
    "lintian --profile=debian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs"
)
#: Of a router: the release's kernel and headers, systemd and udev, which this layer has, too; and
#: what the packages depend on. pppoe is the other end of a line.
DEPENDS = """
apt-get -q update
. /etc/os-release
case $ID in
ubuntu) kernel='linux-image-virtual linux-headers-virtual initramfs-tools' ;;
*) kernel='linux-image-amd64 linux-headers-amd64' ;;
esac
apt-get -qy install $kernel systemd-sysv udev ppp pppoe
apt-get -s install /packages/*.deb >/said
apt-get -qy install $(sed -n 's/^Inst \\([^ ]*\\) .*/\\1/p' /said | grep -vxFf /ours)
rm -r /said /ours /packages
"""
INSTALL = """
apt-get -qy install /packages/*.deb
rm -r /packages
"""
#: All files but those that say what is installed, and what was done; contents of some.
LISTED = """
find / -xdev \\( -path /proc -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \
    -o -path /var/log \\) -prune -o -printf '%y %m %U:%G %p %l\\n'
find /etc /usr/lib/modules -xdev -type f ! -name ld.so.cache -exec sha256sum {} +
"""
LISTED_MARK = "--files--"
#: DKMS's own, which it makes for the first module of anybody.
DKMS_OWN = re.compile(r" /var/lib/dkms/mok\.(pub|key) $")


@dataclass(frozen=True)
class Installed:
    """A root with all packages."""

    before: Layer  # without them
    layer: Layer
    kernel: str  # the release of its kernel


@pytest.fixture(scope="module", autouse=True)
def root() -> None:
    if os.getuid() != 0:
        pytest.fail("only root can make clean roots", pytrace=False)


@pytest.fixture(scope="module")
def source(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a Debian source tree and its archive: the same for the same files."""
    out = tmp_path_factory.mktemp("debian")
    time = run("git", "log", "-1", "--format=%ct", "--", ".", ":!tests").strip()
    who = "Some Builders <builders@example.org>"
    run("scripts/debian-source", out, cwd=clone, MAINTAINER=who, SOURCE_DATE_EPOCH=time)
    return out


@pytest.fixture(scope="module")
def built(release: str, source: Path) -> Layer:
    """The packages are in /source."""
    tree = source / f"fairpath-{VERSION}"
    base = roots.base(release)
    tools = roots.add(
        base,
        "build",
        BUILD_DEPENDS,
        {"/source/debian": tree / "debian"},
        re.sub(r"^Package:.*", "", CONTROL, flags=re.MULTILINE | re.DOTALL),
    )
    # Tests are in no package.
    files = [path for path in tree.rglob("*") if path.is_file()]
    packaged = [path for path in files if path.relative_to(tree).parts[0] != "tests"]
    return roots.add(tools, "built", BUILD, {"/source": source}, roots.digest(packaged))


@pytest.fixture(scope="module")
def installed(release: str, built: Layer, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    packages = tmp_path_factory.mktemp(release) / "packages"
    packages.mkdir()
    for path in sorted((built.files / "source").glob("*.deb")):
        if "-dbgsym_" not in path.name:
            shutil.copy(path, packages)
    assert {path.name.split("_")[0] for path in packages.iterdir()} == set(PACKAGES)
    ours = packages.with_name("ours")
    ours.write_text("".join(f"{name}\n" for name in PACKAGES))
    depends = "\n".join(re.findall(r"^(?:Package|Depends):.*(?:\n .*)*", CONTROL, re.MULTILINE))
    before = roots.add(
        roots.base(release), "depends", DEPENDS, {"/packages": packages, "/ours": ours}, depends
    )
    layer = roots.add(before, "installed", INSTALL, {"/packages": packages})
    (image,) = (before.files / "boot").glob("vmlinuz-*")
    return Installed(before, layer, image.name.removeprefix("vmlinuz-"))


def test_lintian_is_content(built: Layer) -> None:
    roots.enter(roots.scratch(built, "lintian"), "sh", "-c", f"{LINTIAN} /source/*.changes")


def test_dkms_builds_each_module(installed: Installed) -> None:
    """Of each package, for the release's kernel, which is not the one that runs."""
    log = (installed.layer.place / "log").read_text()
    status = roots.enter(roots.scratch(installed.layer, "dkms"), "dkms", "status")
    found = dict(
        re.findall(
            rf"^fairpath-(\w+)/{re.escape(VERSION)}, {re.escape(installed.kernel)}, \S+: (\w+)",
            status,
            re.M,
        )
    )
    assert found == dict.fromkeys(MODULES, "installed"), f"{status}\n{log}"
    directory = installed.layer.files / "usr/lib/modules" / installed.kernel / "updates/dkms"
    assert {path.name.partition(".")[0] for path in directory.iterdir()} == set(MODULES)


def test_failing_build_does_not_stop_a_kernel(installed: Installed) -> None:
    """apt installs a kernel for which one module cannot be built, and DKMS builds the others."""
    kernel, bad, good = installed.kernel, "fairpath-sch_slbn", "fairpath-tcp_gaimd"
    script = f"""
    echo '#error' >>/usr/src/{bad}-{VERSION}/sch_slbn/slbn_qdisc.c
    for name in {bad} {good}; do dkms remove $name/{VERSION} --all; done
    apt-get -qy install --reinstall linux-image-{kernel} linux-headers-{kernel} 2>&1
    dpkg --audit
    dkms status
    """
    said = roots.enter(roots.scratch(installed.layer, "failing"), "sh", "-euc", script)
    assert f"{bad}: warning: no sch_slbn for {kernel}: the build failed" in said, said
    status = said[said.rindex("\nfairpath-sch_drr_fq/") :]
    assert re.search(
        rf"^{good}/{re.escape(VERSION)}, {re.escape(kernel)}.*: installed", status, re.M
    )
    assert f"{bad}/{VERSION}, {kernel}" not in status, said


def guest(installed: Installed, name: str, script: str) -> str:
    """What SCRIPT prints as root in a guest with the release's kernel and the installed files."""
    layer = roots.scratch(installed.layer, name)
    root = layer.place / "root"
    machine = [str(TOP / "scripts/vm"), "--root", str(root), "--no-modules", "--steady"]
    machine += ["--kernel", str(root / f"boot/vmlinuz-{installed.kernel}"), "--timeout", "900"]
    return roots.enter(layer, *machine, "--", "sh", "-c", script, inside=False, ready=False)


def test_modules_load(installed: Installed) -> None:
    """debian/tests/modules: with tc and slbnctl."""
    said = guest(installed, "modules", (SCRIPTS / "tests/modules").read_text())
    assert said.splitlines().count(VERSION) == len(MODULES)
    assert "qdisc slbn 1: root" in said and "qdisc drr_fq" in said


def autopkgtest(layer: Layer, built: Layer, source: Path, test: str, *server: str) -> str:
    """What the program of that name says of a TEST of debian/tests, whose packages it installs in
    what SERVER starts."""
    place = layer.place / "tested"
    shutil.copytree(source / f"fairpath-{VERSION}/debian", place / "debian")
    packages = sorted((built.files / "source").glob("*.deb"))
    # The environment of the tree's tests (tests/conftest.py) is not for installed packages.
    clean = ["env", "--ignore-environment", f"PATH={os.environ['PATH']}", "HOME=/root"]
    words = [*clean, "autopkgtest", f"--test-name={test}", "--no-built-binaries"]
    words += ["--timeout-factor=4", f"--output-dir={layer.place / 'output'}"]
    words += [*map(str, packages), f"{place}/", "--", *server]
    command = f"{shlex.join(words)}; status=$?; echo; echo status $status"
    said = roots.enter(layer, "sh", "-c", command, inside=False, seconds=3600)
    for name in ("log", "summary"):
        assert (layer.place / "output" / name).exists(), said
    return said


def test_autopkgtest_of_programs(installed: Installed, built: Layer, source: Path) -> None:
    """In a root with nothing of ours. That a test is superficial is an exit status of its own."""
    layer = roots.scratch(installed.before, "autopkgtest-programs")
    said = autopkgtest(layer, built, source, "programs", "chroot", str(layer.place / "root"))
    assert re.search(r"^programs +PASS \(superficial\)$", said, re.MULTILINE), said
    assert said.endswith("status 8\n") and f"slbnctl {VERSION}" in said, said
    assert "libslbn for Python" in said


def listed(layer: Layer, name: str, before: str = "echo") -> set[str]:
    """The files of a root, after the command BEFORE."""
    script = f"set -e\n{before}\necho {LISTED_MARK}\n{LISTED}"
    text = roots.enter(roots.scratch(layer, name), "sh", "-c", script)
    return set(text.partition(f"\n{LISTED_MARK}\n")[2].splitlines())


def test_purge_leaves_nothing(installed: Installed) -> None:
    """Files, trees of DKMS, units, users: all are as before, but DKMS's own key."""
    purge = shlex.join(["apt-get", "-qy", "purge", *PACKAGES])
    before = listed(installed.before, "before")
    after = listed(installed.layer, "purged", purge)
    left = {line for line in after - before if not DKMS_OWN.search(line)}
    assert (sorted(left), sorted(before - after)) == ([], [])


#: Runs a script at the end of the boot of systemd, prints to the second serial line, and ends.
UNIT = """
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=sh -c "sh /router >/dev/ttyS1 2>&1 || :"
ExecStopPost=systemctl --no-block poweroff
[Install]
WantedBy=default.target
"""
#: Prepares the root of a disk, with such a unit.
DISK = """
install -D -m 644 /unit /etc/systemd/system/tested.service
systemctl enable tested
systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_reap.service systemd-timesyncd
"""
DISK_SIZE = 6 << 30


def make_disk(layer: Layer, unit: str, disk: Path) -> None:
    """A disk with the root of LAYER and this unit; its kernel is not read from there."""
    (layer.files / "unit").write_text(unit)
    roots.enter(layer, "sh", "-euc", DISK)
    with disk.open("wb") as file:
        file.truncate(DISK_SIZE)
    root = str(layer.place / "root")
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", root, str(disk)]
    roots.enter(layer, *make, inside=False, ready=False)


def machine_options(installed: Installed) -> list[str]:
    """qemu's, for the release's kernel with such a disk."""
    boot = installed.before.files / "boot"
    options = ["-accel", "tcg", "-cpu", "max", "-kernel", str(boot / f"vmlinuz-{installed.kernel}")]
    options += ["-initrd", str(boot / f"initrd.img-{installed.kernel}")]
    # On a busy machine, the kernel takes a late interrupt for a broken timer.
    line = "root=/dev/vda rw console=ttyS0 mitigations=off no_timer_check panic=-1"
    return [*options, "-append", line]


def test_links_follow_devices_under_systemd(installed: Installed, tmp_path: Path) -> None:
    """The installed system boots; its units and udev's make links of devices that come and go."""
    layer = roots.scratch(installed.layer, "router")
    shutil.copy(TOP / "tests/packages/router", layer.files)
    disk, console, said = (tmp_path / name for name in ("disk", "console", "said"))
    make_disk(layer, UNIT, disk)
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
    command += ["-machine", "q35", "-smp", "1", "-m", "1G", *machine_options(installed)]
    command += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", "-no-reboot"]
    command += ["-serial", f"file:{console}", "-serial", f"file:{said}"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=SECONDS, check=True)
    finally:
        disk.unlink()
        log = console.read_text(errors="replace") if console.exists() else ""
    text = said.read_text(errors="replace")
    assert text.splitlines()[-1:] == ["passed"], f"{log[-6000:]}\n{text}"
    assert "Oops" not in log and "WARNING:" not in log
