# SPDX-License-Identifier: GPL-2.0
"""Build, install and uninstall modules and tools, with make and with DKMS."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.linux_source import TOP

MODULES = ["tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn"]


def make(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["make", *arguments],
        cwd=TOP,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert not check or done.returncode == 0, done.stdout
    return done


@pytest.fixture(scope="module")
def kernel() -> Path:
    done = subprocess.run(
        ["scripts/kernel", "get", "6.1"], cwd=TOP, check=True, capture_output=True, text=True
    )
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def release(kernel: Path) -> str:
    return (kernel / "release").read_text().strip()


@pytest.fixture
def root(kernel: Path, release: str, tmp_path: Path) -> Path:
    """A root directory with a kernel's own modules."""
    own = tmp_path / "lib" / "modules" / release
    own.mkdir(parents=True)
    for entry in (kernel / "lib" / "modules" / release).iterdir():
        (own / entry.name).symlink_to(entry)
    for index in own.glob("modules.*"):
        if not index.name.startswith(("modules.builtin", "modules.order")):
            index.unlink()
    return tmp_path


def found_by_modprobe(root: Path, release: str, module: str) -> str:
    """The file that modprobe would load."""
    done = subprocess.run(
        ["modprobe", "-d", str(root), "-S", release, "--show-depends", module],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()[1]


def test_installed_modules_are_preferred_until_uninstalled(
    kernel: Path, release: str, root: Path
) -> None:
    arguments = [f"KERNELDIR={kernel}/headers", f"DESTDIR={root}"]
    make("install", *arguments)
    for module in MODULES:
        assert f"/updates/fairpath/{module}.ko" in found_by_modprobe(root, release, module)
    make("uninstall", *arguments)
    assert "/kernel/net/ipv4/tcp_bic.ko" in found_by_modprobe(root, release, "tcp_bic")
    assert not (root / "lib" / "modules" / release / "updates" / "fairpath").exists()


@pytest.mark.parametrize("module", ["tcp_gaimd", "sch_drr_fq"])
def test_one_module_alone(kernel: Path, release: str, root: Path, module: str) -> None:
    """One module only needs kernel headers; a qdisc is installed with its plugin of tc."""
    arguments = [f"KERNELDIR={kernel}/headers", f"DESTDIR={root}", f"MODULES={module}"]
    # Without any library for the programs.
    make("modules-install", *arguments, "PKG_CONFIG=false", "BPFTOOL=false")
    modules = root / "lib" / "modules" / release / "updates" / "fairpath"
    assert [path.name for path in modules.iterdir()] == [f"{module}.ko"]
    plugins = [path.name for path in root.rglob("q_*.so")]
    assert plugins == ([f"q_{module[4:]}.so"] if module.startswith("sch_") else [])
    make("modules-uninstall", *arguments)
    assert not modules.exists() and not list(root.rglob("q_*.so"))


def test_unknown_module_error() -> None:
    done = make("modules", "MODULES=tcp_reno", check=False)
    assert done.returncode != 0
    assert "no module 'tcp_reno'; there are: tcp_bic" in done.stdout


def test_prefix(tmp_path: Path) -> None:
    """All files are below PREFIX, except tc's plugins, whose directory tc determines."""
    make("tools-install", f"DESTDIR={tmp_path}", "PREFIX=/opt/fairpath", "TC_LIB_DIR=/opt/tc")
    assert [path.name for path in tmp_path.iterdir()] == ["opt"]
    assert (tmp_path / "opt/fairpath/sbin/slbnd").is_file()
    (unit,) = tmp_path.rglob("slbnd.service")
    assert "ExecStart=/opt/fairpath/sbin/slbnd " in unit.read_text()


def plugin_directory() -> str:
    """The directory in which tc searches the plugin of an unknown qdisc."""
    environment = {name: value for name, value in os.environ.items() if name != "TC_LIB_DIR"}
    done = subprocess.run(
        ["tc", "qdisc", "add", "dev", "no-such-device", "root", "drr_fq"],
        env=environment | {"LD_DEBUG": "files"},
        check=False,
        capture_output=True,
        text=True,
    )
    found = re.search(r"file=(/\S*?)/*q_drr_fq.so", done.stderr)
    assert found, done.stderr
    return found[1]


@pytest.mark.parametrize("override", [None, "/elsewhere/tc"])
def test_install_and_uninstall_tools(tmp_path: Path, override: str | None) -> None:
    arguments = [f"DESTDIR={tmp_path}"] + ([f"TC_LIB_DIR={override}"] if override else [])
    directory = override or plugin_directory()
    make("tools-install", *arguments)
    plugin = tmp_path / directory.lstrip("/") / "q_drr_fq.so"
    assert plugin.is_file()
    pages = {str(page.relative_to(tmp_path)) for page in tmp_path.glob("usr/local/share/man/*/*")}
    assert pages == {
        f"usr/local/share/man/man{page.suffix[1:]}/{page.name}"
        for page in (TOP / "docs" / "man").glob("*.[138]")
        if page.name != "fairlab.1"
    }
    version = subprocess.run(
        [tmp_path / "usr/local/bin/slbnsim", "--version"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert version.stdout.startswith("slbnsim ")
    make("tools-uninstall", *arguments)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_unit_is_valid_and_sandboxed(tmp_path: Path) -> None:
    make("tools-install", f"DESTDIR={tmp_path}")
    (unit,) = tmp_path.rglob("slbnd.service")
    unit.write_text(unit.read_text().replace("ExecStart=", f"ExecStart={tmp_path}"))
    for words in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=22"]):
        command = ["systemd-analyze", "--no-pager", *words, str(unit)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_programs_use_installed_libslbn(tmp_path: Path) -> None:
    """A C program through pkg-config, and the Python binding."""
    make("tools-install", f"DESTDIR={tmp_path}")
    (found,) = tmp_path.rglob("libslbn.pc")
    source = tmp_path / "try.c"
    source.write_text(
        "#include <errno.h>\n#include <libslbn.h>\n"
        'int main(void) { return slbn_open("/nowhere") || errno != ENOENT; }\n'
    )
    environment = dict(
        os.environ, PKG_CONFIG_PATH=str(found.parent), PKG_CONFIG_SYSROOT_DIR=str(tmp_path)
    )
    script = f"gcc -Wall -Werror {source} -o {tmp_path}/try $(pkg-config --cflags --libs libslbn)"
    subprocess.run(script, shell=True, check=True, env=environment)
    library = {"LD_LIBRARY_PATH": str(found.parent.parent)}
    subprocess.run([tmp_path / "try"], check=True, env=dict(os.environ, **library))
    (binding,) = tmp_path.rglob("libslbn.py")
    python = (
        "import libslbn\n"
        "try:\n    libslbn.Connection('/nowhere')\nexcept FileNotFoundError:\n    print('fine')\n"
    )
    # The tests' own LIBSLBN names the library in build/.
    installed = {name: value for name, value in os.environ.items() if name != "LIBSLBN"}
    installed |= library | {"PYTHONPATH": str(binding.parent)}
    done = subprocess.run(
        ["/usr/bin/python3", "-c", python],
        check=True,
        env=installed,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "fine\n"


def test_missing_tc_error(tmp_path: Path) -> None:
    done = make("--no-print-directory", "tools-install", "TC=", f"DESTDIR={tmp_path}", check=False)
    assert done.returncode != 0
    assert done.stdout.splitlines()[0] == (
        "Cannot determine tc's plugin directory: install iproute2, or set TC_LIB_DIR."
    )
    assert list(tmp_path.iterdir()) == []


def test_warning_about_built_in_bic(kernel: Path, release: str, root: Path) -> None:
    builtin = root / "lib" / "modules" / release / "modules.builtin"
    listed = builtin.read_text()
    builtin.unlink()
    builtin.write_text(listed + "kernel/net/ipv4/tcp_bic.ko\n")
    output = make("install", f"KERNELDIR={kernel}/headers", f"DESTDIR={root}").stdout
    assert f"Kernel {release} has mainline's bic built in" in output


def test_missing_headers_error(tmp_path: Path) -> None:
    done = make("--no-print-directory", "modules", f"KERNELDIR={tmp_path}", check=False)
    assert done.returncode != 0
    assert done.stdout.splitlines()[0] == (
        f"No kernel headers in {tmp_path}: "
        "install linux-headers for your kernel, or set KERNELDIR."
    )


def test_kernel_too_old_error(tmp_path: Path) -> None:
    """The compiler's errors with headers of 6.0 and of 6.1."""
    source = tmp_path / "any.c"
    source.write_text("int nothing;\n")
    version = tmp_path / "linux" / "version.h"
    version.parent.mkdir()
    errors = {}
    for name, code in {"6.0": 0x60000, "6.1": 0x60100}.items():
        version.write_text(
            f"#define LINUX_VERSION_CODE {code}\n"
            "#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))\n"
        )
        done = subprocess.run(
            f"gcc -I{tmp_path} -include include/compat/oldest.h -c {source} -o {tmp_path}/any.o",
            shell=True,
            cwd=TOP,
            check=False,
            capture_output=True,
            text=True,
        )
        errors[name] = done.stderr
    assert errors["6.1"] == ""
    assert errors["6.0"].count("error:") == 1
    assert "fairpath needs Linux 6.1 or newer" in errors["6.0"]


def test_dkms_builds_and_installs(kernel: Path, release: str, tmp_path: Path) -> None:
    make("dkms-tree", f"DESTDIR={tmp_path}")
    tree = next((tmp_path / "usr" / "src").iterdir())
    name, version = tree.name.split("-")
    places = [f"--sourcetree={tree.parent}", f"--dkmstree={tmp_path}/dkms"]
    places += [f"--installtree={tmp_path}/modules", "-k", release]
    places += ["--kernelsourcedir", str((kernel / "headers").resolve())]
    (tmp_path / "dkms").mkdir()
    (tmp_path / "modules" / release).mkdir(parents=True)
    # DKMS requires root, although all of these directories are ours.
    root = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
    for step in ("add", "build", "install"):
        done = subprocess.run(
            [*root, "dkms", step, f"{name}/{version}", *places, "--no-depmod"],
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
    installed = {path.name.partition(".")[0] for path in (tmp_path / "modules").rglob("*.ko*")}
    assert installed == set(MODULES)


def test_help_lists_all_targets() -> None:
    listed = make("help").stdout
    makefiles = (TOP / "Makefile", TOP / "userspace/build.mk")
    phony = {
        target
        for makefile in makefiles
        for line in makefile.read_text().splitlines()
        if line.startswith(".PHONY:")
        for target in line.split()[1:]
        if not target.startswith("check-")
    }
    for target in phony - {"help", "dkms-tree"}:
        assert f"make {target} " in listed
