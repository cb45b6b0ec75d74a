# SPDX-License-Identifier: GPL-2.0
"""What a release is: its version and its licences everywhere, and an archive that packs itself."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP

VERSION = (TOP / "VERSION").read_text().strip()
LIBSLBN = TOP / "userspace" / "libslbn"
MODULES = ("tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn")


def run(*command: str | Path, cwd: Path = TOP, **environment: str) -> str:
    return launch.succeed(
        command, cwd=cwd, environment=environment, stderr=subprocess.STDOUT
    ).stdout


# --- version -------------------------------------------------------------------------------------


@pytest.mark.tier("test")
def test_modules_have_version_and_author() -> None:
    kernel = Path(run("scripts/kernel", "get", "6.1").splitlines()[-1])
    run("make", "--silent", "modules", f"KERNELDIR={kernel}/headers")
    built = TOP / "build" / "modules" / (kernel / "release").read_text().strip()
    for name in MODULES:
        about = [
            run("modinfo", "--field", field, built / name / f"{name}.ko").strip()
            for field in ("version", "author", "license")
        ]
        assert about == [VERSION, "fairpath", "GPL"], name


@pytest.mark.parametrize("tool", ["vm", "kernel", "fairlab"])
def test_scripts_have_version(tool: str) -> None:
    program = "fairlab" if tool == "fairlab" else "fairvm"
    assert run(TOP / "scripts" / tool, "--version") == f"{program} {VERSION}\n"


def test_changelog_begins_with_the_version() -> None:
    """During development, its part is the unreleased one."""
    first = re.search(r"^## (\S+)", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first and first[1] == ("Unreleased" if VERSION.endswith("-dev") else VERSION)


# --- libslbn -------------------------------------------------------------------------------------


def test_symbols_of_libslbn_have_versions() -> None:
    """All functions of its header, and nothing else."""
    run("make", "--silent", "build/libslbn/libslbn.so.0")
    header = re.findall(r"^\w[^;{]*?\b(slbn_\w+)\(", (LIBSLBN / "libslbn.h").read_text(), re.M)
    table = run("readelf", "--wide", "--dyn-syms", "build/libslbn/libslbn.so.0")
    defined = set(re.findall(r"GLOBAL +DEFAULT +\d+ (\S+)", table))
    assert len(header) == len(set(header)) > 10
    assert defined == {f"{name}@@LIBSLBN_0.2" for name in header}


def test_licences_of_contracts() -> None:
    """Programs under other licences can use the library and the netlink specification."""
    for path in LIBSLBN.iterdir():
        if path.suffix in {".c", ".h", ".py", ".map"}:
            assert "SPDX-License-Identifier: LGPL-2.1" in path.read_text().splitlines()[0], path
    assert "LESSER GENERAL PUBLIC LICENSE" in (LIBSLBN / "LICENSE").read_text()
    # The library has nothing of the rest of the tree.
    included = re.findall(r'^#include "(.*)"', (LIBSLBN / "libslbn.c").read_text(), re.MULTILINE)
    assert included == ["protocol.h"]
    for name in ("docs/netlink/slbn.yaml", "include/uapi/fairpath/slbn_netlink.h"):
        first = (TOP / name).read_text().splitlines()[0]
        assert "((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)" in first, name


# --- archive -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git tree with the files of this one, as they are."""
    place = tmp_path_factory.mktemp("dist") / "clone"
    tracked = run("git", "ls-files", "-co", "--exclude-standard").splitlines()
    for name in (name for name in tracked if (TOP / name).exists()):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, place / name, follow_symlinks=False)
    identity = ["-c", "user.name=fairpath", "-c", "user.email=fairpath@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "-qm", "tree"]):
        run("git", *words, cwd=place, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null")
    return place


@pytest.fixture(scope="module")
def archive(clone: Path) -> Path:
    run("make", "--silent", "dist", cwd=clone)
    return clone / "build" / "dist" / f"fairpath-{VERSION}.tar.xz"


@pytest.fixture(scope="module")
def unpacked(archive: Path) -> Path:
    place = archive.parents[3] / "unpacked"
    place.mkdir()
    run("tar", "-xJf", archive, cwd=place)
    (tree,) = place.iterdir()
    assert tree.name == f"fairpath-{VERSION}"
    return tree


@pytest.mark.tier("test")
def test_archive_has_all_files_and_no_others(clone: Path, archive: Path, unpacked: Path) -> None:
    tracked = set(run("git", "ls-files", cwd=clone).splitlines())
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if not path.is_dir()}
    assert files == tracked
    assert (unpacked / "userspace/vm/fairvm/VERSION").is_symlink()
    listed = run("tar", "-tvJf", archive)
    assert set(re.findall(r"^(\S{10} \S+) ", listed, re.MULTILINE)) <= {
        "-rw-r--r-- 0/0",
        "-rwxr-xr-x 0/0",
        "lrwxr-xr-x 0/0",
    }
    run("sha256sum", "--check", f"{archive.name}.sha256", cwd=archive.parent)


@pytest.mark.tier("test")
def test_archive_packs_itself(archive: Path, unpacked: Path) -> None:
    """To the bit, also after a build in it."""
    run("make", "--silent", "tc-plugins", "build/libslbn/libslbn.so.0", cwd=unpacked)
    run("make", "--silent", "dist", cwd=unpacked)
    again = unpacked / "build" / "dist" / archive.name
    assert again.read_bytes() == archive.read_bytes()


@pytest.mark.tier("test")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_part_of_an_archive(
    clone: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """It arrives while the archive is compressed."""
    for name in ("programs", "scratch", "out"):
        (tmp_path / name).mkdir()
    compress = tmp_path / "programs" / "xz"
    compress.write_text(f"#!/bin/sh\necho part\nkill -{number} $PPID\n")
    compress.chmod(0o755)
    done = subprocess.run(
        # A shell cannot trap a signal that its parent ignores, as nohup does.
        ["env", "--default-signal", clone / "scripts" / "dist", tmp_path / "out"],
        env={
            "PATH": f"{tmp_path}/programs:{os.environ['PATH']}",
            "TMPDIR": str(tmp_path / "scratch"),
        },
        check=False,
    )
    assert done.returncode == 128 + number
    assert not list((tmp_path / "scratch").iterdir()) and not list((tmp_path / "out").iterdir())


@pytest.mark.tier("all")
def test_archive_builds(unpacked: Path) -> None:
    run("make", "--silent", "tools", "slbnsim", "traffic", "tc-plugins", cwd=unpacked)
    program = unpacked / "build" / "slbnctl" / "slbnctl"
    assert run(program, "--version").startswith(f"slbnctl {VERSION}\n")


@pytest.mark.tier("check")
def test_all_functions_of_bpf_have_a_substitute() -> None:
    """So that a change of their names is found before slbnd is linked without BPF."""
    slbnd = TOP / "userspace" / "slbnd"
    calls = re.compile(r"\b((?:edt|windows)_\w+)\(")
    others = [path for path in slbnd.rglob("*.c") if ".bpf." not in path.name]
    others = [path for path in others if path.stem not in {"edt", "windows", "edt_none"}]
    called = {name for path in others for name in calls.findall(path.read_text())}
    defined = re.findall(
        r"^\w.*?\b((?:edt|windows)_\w+)\(",
        (slbnd / "enforcement" / "edt_none.c").read_text(),
        re.MULTILINE,
    )
    assert called == set(defined) and len(defined) > 10


@pytest.mark.tier("test")
def test_slbnd_without_bpf(unpacked: Path, tmp_path: Path) -> None:
    """It needs neither clang nor libbpf; a device with fq is reported as not enforced."""
    pkg_config = tmp_path / "pkg-config"
    pkg_config.write_text(
        '#!/bin/sh\ncase "$*" in *libbpf*) exit 1 ;; esac\nexec pkg-config "$@"\n'
    )
    pkg_config.chmod(0o755)
    program = "build/slbnd/slbnd"
    without = ["BPF=no", "CLANG=false", "BPFTOOL=false", f"PKG_CONFIG={pkg_config}", "CFLAGS=-O0"]
    run("make", "--silent", program, *without, cwd=unpacked)
    assert "libbpf" not in run("readelf", "--dynamic", program, cwd=unpacked)
    # A network namespace has the device lo, without htb.
    words = [f"--socket={tmp_path}/socket", "--devices=lo", "--log-level=warning"]
    slbnd = ["timeout", "--signal=TERM", "2", str(unpacked / program), *words]
    log = run("sh", "-c", '"$@" 2>&1 || :', "sh", "unshare", "-rn", *slbnd)
    assert "fq needs BPF, which this slbnd was built without; htb works without BPF" in log
    assert "tc qdisc replace dev lo root htb" in log


@pytest.mark.tier("test")
def test_archive_of_uncommitted_changes_is_refused(clone: Path) -> None:
    stray = clone / "stray.c"
    stray.touch()
    try:
        done = launch.run([clone / "scripts" / "dist", clone / "build" / "other"])
    finally:
        stray.unlink()
    assert (done.returncode, done.stdout) == (1, "")
    assert "commit these changes first" in done.stderr and "stray.c" in done.stderr
    assert list((clone / "build" / "other").iterdir()) == []


# --- Debian --------------------------------------------------------------------------------------


def debian_source(clone: Path, to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    without = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    unset = {"DEBFULLNAME": "", "DEBEMAIL": ""}
    return launch.run(
        [clone / "scripts" / "debian-source", to],
        cwd=clone,
        environment={**without, **unset, **environment},
    )


@pytest.mark.tier("test")
def test_debian_source_names_who_builds(clone: Path, tmp_path: Path) -> None:
    """Nobody is invented: without an identity, there is no source."""
    done = debian_source(clone, tmp_path)
    assert done.returncode == 1 and "set MAINTAINER='NAME <ADDRESS>'" in done.stderr
    assert list(tmp_path.iterdir()) == []
    who = "Some Builders & Sons | Others <builders@example.org>"
    page = "https://example.org/fairpath?a=1&b=2"
    done = debian_source(clone, tmp_path, MAINTAINER=who, HOMEPAGE=page)
    assert done.returncode == 0, done.stderr
    debian = tmp_path / f"fairpath-{VERSION}" / "debian"
    control = (debian / "control").read_text()
    assert f"\nMaintainer: {who}\n" in control and f"\nHomepage: {page}\n" in control
    assert "@" not in control.replace(who, "")
    found = run("dpkg-parsechangelog", "--show-field", "Version", cwd=debian.parent)
    assert found == VERSION.replace("-", "~") + "-1\n"
    assert run("dpkg", "--compare-versions", "0.2.0~dev-1", "lt", "0.2.0-1") == ""


@pytest.mark.tier("test")
def test_each_installed_file_is_in_one_package(tmp_path: Path) -> None:
    """As the lists in scripts/debian have it; those of DKMS are installed apart."""
    directories = ["prefix=/usr", "libdir=/usr/lib/any", "unitdir=/lib/systemd/system"]
    directories += ["docdir=/usr/share/doc/slbnd", "TC_LIB_DIR=/usr/lib/any/tc"]
    parts = [f"install-{part}" for part in ("tc", "lib", "agent", "sim", "lab")]
    run("make", "--silent", *parts, f"DESTDIR={tmp_path}", *directories)
    control = (TOP / "scripts/debian/control.in").read_text()
    packages = set(re.findall(r"^Package: (\S+)$", control, re.MULTILINE))
    lists = {path.stem: path.read_text().split() for path in TOP.glob("scripts/debian/*.install")}
    assert packages - set(lists) == {"fairpath-drr-fq-dkms", "fairpath-slbn-dkms"}
    owners: dict[str, set[str]] = {}
    for package, patterns in lists.items():
        for pattern in patterns:
            # Which directory it is depends on debhelper: see scripts/debian/rules.
            found = list(tmp_path.glob(pattern.replace("${env:UNITDIR}", "lib/systemd/system")))
            assert found and package in packages, f"{package}: {pattern}"
            for path in found:
                for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
                    owners.setdefault(str(file.relative_to(tmp_path)), set()).add(package)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert {name: owners.get(name) for name in files if len(owners.get(name, ())) != 1} == {}
