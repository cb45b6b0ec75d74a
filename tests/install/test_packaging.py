# SPDX-License-Identifier: GPL-2.0
"""What packages of Fedora, Arch Linux and OpenWrt are made of: docs/packaging.md says how far."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.install.test_release import VERSION, clone, run
from tests.linux_source import TOP

pytestmark = pytest.mark.tier("all")

__all__ = ["clone"]  # a fixture

#: What sqm-scripts' defaults.sh provides, as far as the script uses it: a stand-in.
SQM = """
TC=tc IP=ip UPLINK=20000 DOWNLINK=50000 EECN=NOECN IECN=ECN ELIMIT=500 ILIMIT=500
get_mtu() { cat "/sys/class/net/$1/mtu"; }
get_burst() { echo $(($1 * 4)); }
get_limit() { echo "limit $1"; }
get_stab_string() { :; }
do_modules() { modprobe sch_drr_fq; }
verify_qdisc() { :; }
get_ifb_for_if() { ip link add ifb4x type ifb; echo ifb4x; }
"""


AS_ROOT = () if os.getuid() == 0 else ("unshare", "--map-root-user")

#: What OpenWrt's rules.mk, kernel.mk and package.mk provide, as far as the Makefile uses it.
RULES = """
INCLUDE_DIR := $(TOPDIR)
INSTALL_DIR := install -d -m 755
INSTALL_DATA := install -m 644
TARGET_CC := gcc
TARGET_AR := ar
TARGET_CFLAGS := -Os
KERNEL_MAKE = $(MAKE) -C $(KERNEL_HEADERS)
AutoProbe = $(1)
"""
PACKAGE = """
define KernelPackage
packages += kmod-$(1)
all: kmod-$(1)
kmod-$(1): compile
	install -D -t $(OUT)/kmod-$(1) $(subst FILES:=,,$(filter FILES:=%,$(KernelPackage/$(1))))
endef
define BuildPackage
all: $(1)
$(1): compile
	$$(call Package/$(1)/install,$(OUT)/$(1))
endef
all:
compile:
	$(Build/Compile)
"""


PAGE = "https://example.org/fairpath?a=1&b=2"


@pytest.fixture(scope="module")
def sources(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sources")
    run("scripts/package-sources", out, cwd=clone, HOMEPAGE=PAGE)
    return out


def test_sources_are_complete(sources: Path) -> None:
    packed = (sources / f"fairpath-{VERSION}.tar.xz").read_bytes()
    digest = hashlib.sha256(packed).hexdigest()
    for name in ("PKGBUILD", "openwrt/fairpath/Makefile", "fairpath.spec"):
        text = (sources / name).read_text()
        assert not [word for word in text.split() if word.startswith("@") and word.endswith("@")]
        assert PAGE in text
        assert name == "fairpath.spec" or digest in text
    run("bash", "-n", sources / "PKGBUILD")
    run("shellcheck", TOP / "scripts/packaging/PKGBUILD.in")


def test_spec_builds(sources: Path, tmp_path: Path) -> None:
    """With Debian's rpmbuild, which cannot know Fedora's packages; all files are packaged."""
    places = ["--define", f"_topdir {tmp_path}", "--define", f"_sourcedir {sources}"]
    run("rpmbuild", "-bb", "--nodeps", *places, sources / "fairpath.spec")
    built = {path.name.partition("-0.")[0] for path in (tmp_path / "RPMS").rglob("*.rpm")}
    expected = {"slbnd", "libslbn", "libslbn-devel", "slbnsim", "fairpath-tc"}
    expected |= {f"fairpath-{name}-dkms" for name in ("drr-fq", "gaimd", "slbn")}
    assert {name for name in built if not name.endswith(("debuginfo", "debugsource"))} == expected
    # rpm installs all of them beside each other, and removes what it installed. Scripts need DKMS.
    root = tmp_path / "root"
    root.mkdir()
    rpm = [*AS_ROOT, "rpm", f"--root={root}"]
    packages = sorted((tmp_path / "RPMS").rglob("*.rpm"))
    run(*rpm, "--install", "--nodeps", "--noscripts", *packages)
    assert run(*rpm, "--verify", "--nodeps", "--all") == ""
    assert (root / "usr/sbin/slbnd").exists()
    installed = run(*rpm, "--query", "--all", "--queryformat", "%{NAME}\\n").split()
    assert expected <= set(installed)
    run(*rpm, "--erase", "--nodeps", "--noscripts", *installed)
    assert {path.parent.name for path in root.rglob("*") if path.is_file()} <= {".rpmdb", "rpm"}
    for path in packages:
        scripts = run("rpm", "--query", "--scripts", "--package", path)
        text = re.sub(r"^\w+ scriptlet \(using /bin/sh\):$", "", scripts, flags=re.MULTILINE)
        assert ("dkms install fairpath-" in text) == ("-dkms-" in path.name), path.name
        run("sh", "-n", "-c", text)


def installs_with_pacman(packages: list[Path], root: Path) -> None:
    """All of them beside each other; it removes what it installed."""
    (root / "db").mkdir(parents=True)
    config = root / "pacman.conf"
    config.write_text(
        "[options]\nArchitecture = auto\nSigLevel = Never\nLocalFileSigLevel = Never\n"
    )
    pacman = [*AS_ROOT, "pacman", f"--config={config}", f"--root={root}/files"]
    pacman += [f"--dbpath={root}/db", f"--logfile={root}/log", f"--cachedir={root}/cache"]
    pacman += [f"--gpgdir={root}/keys", f"--hookdir={root}/hooks"]
    (root / "files").mkdir()
    run(*pacman, "--noconfirm", "--nodeps", "--nodeps", "--upgrade", *packages)
    names = run(*pacman, "--query", "--quiet").split()
    assert len(names) == len(packages)
    checked = run(*pacman, "--query", "--check", "--check").splitlines()
    assert [line for line in checked if not line.endswith(" 0 altered files")] == []
    run(*pacman, "--noconfirm", "--remove", "--nodeps", "--nodeps", *names)
    assert [path for path in (root / "files").rglob("*") if path.is_file()] == []


def test_pkgbuild_builds(sources: Path, tmp_path: Path) -> None:
    """With Debian's makepkg, which cannot know Arch's packages; it refuses to be root."""
    for name in ("PKGBUILD", f"fairpath-{VERSION}.tar.xz"):
        shutil.copy(sources / name, tmp_path)
    user = ["runuser", "-u", "nobody", "--"] if os.getuid() == 0 else []
    if user:
        # Directories above are root's.
        place = Path(tempfile.mkdtemp())
        shutil.copytree(tmp_path, place, dirs_exist_ok=True)
        run("chown", "-R", "nobody", place)
    else:
        place = tmp_path
    try:
        settings = ["env", f"HOME={place}", "PKGEXT=.pkg.tar"]
        run(*user, *settings, "makepkg", "--nodeps", "--noconfirm", cwd=place)
        files = {
            path.name.partition("-0.")[0]: run("tar", "-tf", path).split()
            for path in place.glob("*.pkg.tar")
        }
        installs_with_pacman(sorted(place.glob("*.pkg.tar")), tmp_path / "root")
    finally:
        if user:
            shutil.rmtree(place)
    tree = f"usr/src/fairpath-{{}}-{VERSION}/dkms.conf".format
    expected = {
        "slbnd": "usr/bin/slbnd",
        "libslbn": "usr/lib/libslbn.so.0",
        "slbnsim": "usr/bin/slbnsim",
        "fairpath-tc": "usr/lib/tc/q_drr_fq.so",
        "fairpath-drr-fq-dkms": tree("sch_drr_fq"),
        "fairpath-gaimd-dkms": tree("tcp_gaimd"),
        "fairpath-slbn-dkms": tree("sch_slbn"),
    }
    assert {name: file in files.get(name, ()) for name, file in expected.items()} == dict.fromkeys(
        expected, True
    )
    assert not [name for names in files.values() for name in names if name.startswith("etc/kernel")]
    assert set(files) <= {*expected, "fairpath-debug"}


def test_openwrt_rules_build(sources: Path, tmp_path: Path) -> None:
    """With stand-ins for OpenWrt's own rules: what is compiled, and what is in the packages."""
    kernel = Path(run("scripts/kernel", "get", "6.1").splitlines()[-1])
    for name, text in (("rules.mk", RULES), ("kernel.mk", ""), ("package.mk", PACKAGE)):
        (tmp_path / name).write_text(text)
    run("tar", "-C", tmp_path, "-xJf", sources / f"fairpath-{VERSION}.tar.xz")
    out = tmp_path / "out"
    variables = [f"TOPDIR={tmp_path}", f"KERNEL_BUILD_DIR={tmp_path}", f"OUT={out}"]
    variables.append(f"KERNEL_HEADERS={(kernel / 'headers').resolve()}")
    run("make", "-f", sources / "openwrt/fairpath/Makefile", *variables, "all")
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == {
        "kmod-sched-drr-fq/sch_drr_fq.ko",
        "kmod-tcp-gaimd/tcp_gaimd.ko",
        "tc-mod-drr-fq/usr/lib/tc/q_drr_fq.so",
        "sqm-scripts-drr-fq/usr/lib/sqm/drr_fq.qos",
        "sqm-scripts-drr-fq/usr/lib/sqm/drr_fq.qos.help",
    }


def test_sqm_script_shapes_both_directions(tmp_path: Path) -> None:
    (tmp_path / "defaults.sh").write_text(SQM)
    script = TOP / "scripts/packaging/openwrt/drr_fq.qos"
    commands = (
        "ip link add d0 type dummy; ip link set d0 up; IFACE=d0;"
        f" export SQM_LIB_DIR={tmp_path}; . {script}; sqm_start || exit 1;"
        " tc qdisc show; tc filter show dev d0 ingress"
    )
    vm = [str(TOP / "scripts/vm"), "--engine", "native", "--rw", str(tmp_path)]
    shown = run(*vm, "--", "sh", "-c", commands)
    for device, rate, ecn in (("d0", "20Mbit", "no-ecn"), ("ifb4x", "50Mbit", "ecn")):
        assert f"qdisc tbf 1: dev {device} root" in shown and f"rate {rate}" in shown
        (line,) = (
            line for line in shown.splitlines() if f"qdisc drr_fq 110: dev {device} " in line
        )
        assert " limit 500p " in line and f" {ecn} " in line and " codel " in line
    assert "mirred (Egress Redirect to device ifb4x)" in shown
