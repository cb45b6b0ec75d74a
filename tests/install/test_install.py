# SPDX-License-Identifier: GPL-2.0
"""Build, install and uninstall modules and tools, with make and with DKMS."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP

VERSION = (TOP / "VERSION").read_text().strip()
MODULES = ["tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn"]


def make(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = launch.run(["make", *arguments], cwd=TOP, stderr=subprocess.STDOUT)
    assert not check or done.returncode == 0, done.stdout
    return done


@pytest.fixture(scope="module")
def kernel() -> Path:
    done = launch.succeed(["scripts/kernel", "get", "6.1"], cwd=TOP)
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
    done = launch.succeed(["modprobe", "-d", str(root), "-S", release, "--show-depends", module])
    return done.stdout.split()[1]


def depmod(root: Path, release: str) -> None:
    """As a package does when it is installed."""
    subprocess.run(["depmod", "-b", str(root), release], check=True)


def test_modules_install_of_the_kernel(kernel: Path, release: str, tmp_path: Path) -> None:
    """Its variables are honoured; nothing is installed that another package has, too."""
    variables = [f"KERNELDIR={kernel}/headers", f"DESTDIR={tmp_path}", "MODULES=tcp_gaimd"]
    variables += [f"INSTALL_MOD_PATH={tmp_path}/usr", "INSTALL_MOD_DIR=extra/ours"]
    make("install-modules", *variables)
    place = tmp_path / f"usr/lib/modules/{release}/extra/ours/tcp_gaimd/tcp_gaimd.ko"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [place]
    size = place.stat().st_size
    make("install-modules", *variables, "INSTALL_MOD_STRIP=1")
    assert place.stat().st_size < size / 4
    make("modules-uninstall", *variables)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_installed_modules_are_preferred_until_uninstalled(
    kernel: Path, release: str, root: Path
) -> None:
    arguments = [f"KERNELDIR={kernel}/headers", f"DESTDIR={root}"]
    before = set(root.rglob("*"))
    make("install", *arguments)
    depmod(root, release)
    for module in MODULES:
        place = f"/updates/fairpath/{module}/{module}.ko"
        assert place in found_by_modprobe(root, release, module)
    make("uninstall", *arguments)
    left = {path for path in set(root.rglob("*")) - before if not path.is_dir()}
    assert {path.name.split(".")[0] for path in left} == {"modules"}, left
    depmod(root, release)
    assert "/kernel/net/ipv4/tcp_bic.ko" in found_by_modprobe(root, release, "tcp_bic")
    assert not (root / "lib" / "modules" / release / "updates" / "fairpath").exists()


@pytest.mark.parametrize("module", ["tcp_gaimd", "sch_drr_fq"])
def test_one_module_alone(kernel: Path, release: str, root: Path, module: str) -> None:
    """One module only needs kernel headers; a qdisc is installed with its plugin of tc."""
    arguments = [f"KERNELDIR={kernel}/headers", f"DESTDIR={root}", f"MODULES={module}"]
    # Without any library for the programs.
    make("modules-install", *arguments, "PKG_CONFIG=false", "BPFTOOL=false")
    modules = root / "lib" / "modules" / release / "updates" / "fairpath"
    assert [path.name for path in modules.rglob("*.ko*")] == [f"{module}.ko"]
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


#: The variables of directories, and what is installed there; {} is the directory.
DIRECTORIES = {
    "bindir": ("sim", "{}/slbnsim"),
    "sbindir": ("agent", "{}/slbnd"),
    "libdir": ("lib", "{}/libslbn.so.0"),
    "includedir": ("lib", "{}/libslbn.h"),
    "pkgconfigdir": ("lib", "{}/libslbn.pc"),
    "pythondir": ("lab", "{}/fairlab/VERSION"),
    "mandir": ("sim", "{}/man1/slbnsim.1"),
    "docdir": ("agent", "{}/slbn.yaml"),
    "unitdir": ("agent", "{}/slbnd.service"),
    "sysctldir": ("agent", "{}/50-slbnd.conf"),
    "completiondir": ("agent", "{}/slbnctl"),
}


@pytest.mark.parametrize("variable", DIRECTORIES)
def test_each_directory_can_be_set(variable: str, tmp_path: Path) -> None:
    part, name = DIRECTORIES[variable]
    make(f"install-{part}", f"DESTDIR={tmp_path}", f"{variable}=/a/b")
    assert (tmp_path / name.format("a/b")).is_file()


@pytest.mark.parametrize("part", ["tc", "lib", "agent", "sim", "lab"])
def test_each_part_is_installed_alone(part: str, tmp_path: Path) -> None:
    """Without tc, except its plugins; libslbn and the lab without the libraries of others."""
    arguments = [f"DESTDIR={tmp_path}", *(["TC="] if part != "tc" else [])]
    arguments += ["PKG_CONFIG=false", "CLANG=false"] if part in {"tc", "lib", "lab"} else []
    make(f"install-{part}", *arguments)
    of_parts = {
        "tc": "q_slbn.so",
        "lib": "libslbn.py",
        "agent": "slbnd.service",
        "sim": "slbnsim-graphml",
        "lab": "fairtraffic",
    }
    names = {path.name for path in tmp_path.rglob("*")}
    assert names & set(of_parts.values()) == {of_parts[part]}
    make("tools-uninstall", f"DESTDIR={tmp_path}")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_installed_lab_runs(tmp_path: Path) -> None:
    """Its version is a file, not a link into the tree."""
    make("install-lab", f"DESTDIR={tmp_path}", "pythondir=/python")
    for program, name in {
        "fairlab": "fairlab",
        "fairvm": "fairvm",
        "fairvm-kernel": "fairvm",
        "fairtraffic": "fairtraffic",
        "fairflow": "fairflow",
    }.items():
        done = launch.succeed(
            [tmp_path / "usr/local/bin" / program, "--version"],
            environment={"PYTHONPATH": str(tmp_path / "python")},
        )
        assert done.stdout == f"{name} {(TOP / 'VERSION').read_text().strip()}\n"
    assert not [path for path in (tmp_path / "python").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    ("compiler", "target"), [("gcc", "bpfel"), ("s390x-linux-gnu-gcc", "bpfeb")]
)
def test_bpf_has_the_byte_order_of_the_target(compiler: str, target: str, tmp_path: Path) -> None:
    if compiler != "gcc":
        # A compiler for that machine is not necessary to see which order it says.
        script = tmp_path / compiler
        script.write_text("#!/bin/sh\necho '#define __BYTE_ORDER__ __ORDER_BIG_ENDIAN__'\n")
        script.chmod(0o755)
        compiler = str(script)
    program = "build/obj/userspace/slbnd/enforcement/rates.bpf.o"
    output = make(
        "--dry-run", "--always-make", program, f"CC={compiler}", "CLANG=my-clang", check=False
    )
    assert f"my-clang -target {target} " in output.stdout


def plugin_directory() -> str:
    """The directory in which tc searches the plugin of an unknown qdisc."""
    environment = {name: value for name, value in os.environ.items() if name != "TC_LIB_DIR"}
    done = launch.run(
        ["tc", "qdisc", "add", "dev", "no-such-device", "root", "drr_fq"],
        env=environment | {"LD_DEBUG": "files"},
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
    of_lab = {"fairlab.1", "fairvm.1", "fairtraffic.1"}
    documented = {page.name for page in (TOP / "docs" / "man").glob("*.[1348]")} - of_lab
    assert pages == {
        f"usr/local/share/man/man{name[-1]}/{name}" for name in documented | {"slbnsim-graphml.1"}
    }
    assert (tmp_path / "usr/local/include/fairpath/slbn_netlink.h").is_file()
    version = launch.succeed([tmp_path / "usr/local/bin/slbnsim", "--version"])
    assert version.stdout.startswith("slbnsim ")
    make("tools-uninstall", *arguments)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_unit_is_valid_and_sandboxed(tmp_path: Path) -> None:
    make("tools-install", f"DESTDIR={tmp_path}")
    (unit,) = tmp_path.rglob("slbnd.service")
    unit.write_text(unit.read_text().replace("ExecStart=", f"ExecStart={tmp_path}"))
    for words in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=22"]):
        command = ["systemd-analyze", "--no-pager", *words, str(unit)]
        done = launch.run(command)
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
    done = launch.succeed(["/usr/bin/python3", "-c", python], env=installed)
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


def headers_of(place: Path, release: str, option: str) -> Path:
    """What make looks at before a build: the release and the architecture of a kernel."""
    for name in ("include/generated", "include/config"):
        (place / name).mkdir(parents=True, exist_ok=True)
    text = f'#define UTS_RELEASE "{release}"\n'
    (place / "include/generated/utsrelease.h").write_text(text)
    (place / "include/config/auto.conf").write_text(f"CONFIG_{option}=y\n")
    return place


@pytest.mark.parametrize(
    ("release", "option", "error"),
    [
        ("6.0.19-amd64", "X86", "Linux 6.0.19-amd64 is not supported: install a kernel of 6.1"),
        ("5.10.0", "X86", "Linux 5.10.0 is not supported"),
        ("6.1.0", "S390", "for s390, and the build would be for x86: install those of this"),
        ("6.1.0", "ARM64", "set ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-."),
    ],
)
def test_unsupported_kernel_error(tmp_path: Path, release: str, option: str, error: str) -> None:
    """Before anything is built."""
    headers = headers_of(tmp_path, release, option)
    for target in ("modules", "modules-install", "dkms-install"):
        done = make("--no-print-directory", target, f"KERNELDIR={headers}", "ARCH=x86", check=False)
        assert done.returncode != 0
        assert error in done.stdout.splitlines()[0]
    assert not (TOP / "build/modules" / release).exists()


@pytest.mark.parametrize(
    ("state", "release", "warned"),
    [(1, os.uname().release, True), (0, os.uname().release, False), (1, "6.1.0-other", False)],
)
def test_warning_about_secure_boot(tmp_path: Path, state: int, release: str, warned: bool) -> None:
    variables = tmp_path / "efivars"
    variables.mkdir()
    (variables / "SecureBoot-8be4df61").write_bytes(bytes([6, 0, 0, 0, state]))
    done = launch.succeed(
        [TOP / "scripts/check-kernel", "--install", headers_of(tmp_path, release, "X86"), release],
        environment={"EFIVARS": str(variables), "ARCH": "x86"},
    )
    assert ("Secure Boot is on" in done.stderr) == warned, done.stderr


@pytest.mark.parametrize("enforced", ["Y", "N", None])
def test_warning_about_required_signatures(tmp_path: Path, enforced: str | None) -> None:
    """Also without Secure Boot."""
    release = os.uname().release
    if enforced:
        (tmp_path / "module/parameters").mkdir(parents=True)
        (tmp_path / "module/parameters/sig_enforce").write_text(f"{enforced}\n")
    variables = {"EFIVARS": str(tmp_path), "SYS_MODULE": str(tmp_path), "ARCH": "x86"}
    done = launch.succeed(
        [TOP / "scripts/check-kernel", "--install", headers_of(tmp_path, release, "X86"), release],
        environment=variables,
    )
    assert ("loads signed modules only" in done.stderr) == (enforced == "Y"), done.stderr


@pytest.mark.parametrize(
    ("has", "vmlinux", "refused"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_pahole_is_missing_error(tmp_path: Path, has: bool, vmlinux: bool, refused: bool) -> None:
    """Only where a build would need it, which is for headers with the kernel's BTF."""
    headers = headers_of(tmp_path, "6.12.1", "X86")
    with (headers / "include/config/auto.conf").open("a") as config:
        config.write("CONFIG_DEBUG_INFO_BTF_MODULES=y\n")
    if vmlinux:
        (headers / "vmlinux").touch()
    done = launch.run(
        [TOP / "scripts/check-kernel", headers, "6.12.1"],
        environment={"PAHOLE": "true" if has else "no-pahole", "ARCH": "x86"},
    )
    assert (done.returncode == 2) == refused
    assert ("Install the package pahole" in done.stderr) == refused


@pytest.mark.parametrize(
    ("release", "built", "version", "refused"),
    [
        ("6.12.1", 130, "v1.24", True),
        ("6.12.1", 130, "v1.30", False),
        ("6.12.1", 124, "v1.24", False),
        ("6.1.1", 130, "v1.24", False),
    ],
)
def test_old_pahole_error(
    tmp_path: Path, release: str, built: int, version: str, refused: bool
) -> None:
    """Where it would fail at the end of a build: it does not know --btf_features."""
    headers = headers_of(tmp_path, release, "X86")
    with (headers / "include/config/auto.conf").open("a") as config:
        config.write(f"CONFIG_DEBUG_INFO_BTF_MODULES=y\nCONFIG_PAHOLE_VERSION={built}\n")
    (headers / "vmlinux").touch()
    pahole = tmp_path / "pahole"
    pahole.write_text(f"#!/bin/sh\necho {version}\n")
    pahole.chmod(0o755)
    done = launch.run(
        [TOP / "scripts/check-kernel", headers, release],
        environment={"PAHOLE": str(pahole), "ARCH": "x86"},
    )
    assert (done.returncode == 2) == refused
    assert ("pahole is too old" in done.stderr) == refused


def test_newer_kernel_and_cross_build_are_allowed(tmp_path: Path) -> None:
    for release, option, arch in (("7.3.1", "X86", "x86"), ("6.12.1", "ARM64", "arm64")):
        done = launch.succeed(
            [TOP / "scripts/check-kernel", headers_of(tmp_path, release, option), release],
            environment={"ARCH": arch},
        )
        assert ("newer than 7.2" in done.stderr) == (release == "7.3.1"), done.stderr


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
        done = launch.run(
            f"gcc -I{tmp_path} -include include/compat/oldest.h -c {source} -o {tmp_path}/any.o",
            shell=True,
            cwd=TOP,
        )
        errors[name] = done.stderr
    assert errors["6.1"] == ""
    assert errors["6.0"].count("error:") == 1
    assert "fairpath needs Linux 6.1 or newer" in errors["6.0"]


class Dkms:
    """A tree of DKMS of our own, with the package of one module for one kernel."""

    def __init__(self, place: Path, kernel: Path, module: str) -> None:
        make("dkms-tree", f"DESTDIR={place}", f"MODULES={module}")
        self.place = place
        (self.tree,) = (place / "usr" / "src").iterdir()
        self.package = self.tree.name.replace(f"-{VERSION}", f"/{VERSION}")
        self.options = [f"--sourcetree={self.tree.parent}", f"--dkmstree={place}/dkms"]
        self.options += [f"--installtree={place}/lib/modules", "--no-depmod"]
        self.options += ["--kernelsourcedir", str((kernel / "headers").resolve())]
        (place / "dkms").mkdir()

    def release(self, release: str) -> str:
        """A kernel with headers is installed."""
        include = self.place / "lib/modules" / release / "build/include"
        include.mkdir(parents=True)
        return release

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        # DKMS requires root, although all of these directories are ours.
        root = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
        return launch.run([*root, *command], environment=environment, stderr=subprocess.STDOUT)

    def dkms(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("dkms", *words, *self.options, **environment)

    def autoinstall(self, release: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """What DKMS runs by itself, when that kernel has been booted."""
        uname = self.place / "bin/uname"
        uname.parent.mkdir(exist_ok=True)
        uname.write_text(
            f'#!/bin/sh\n[ "$*" != -r ] || exec echo {release}\nexec /bin/uname "$@"\n'
        )
        uname.chmod(0o755)
        path = f"{uname.parent}:{os.environ['PATH']}"
        return self.dkms("autoinstall", "-k", release, PATH=path, **environment)

    def hook(self, release: str) -> subprocess.CompletedProcess[str]:
        """What the package of a kernel runs."""
        hooks = [
            self.place / "etc/kernel" / when / self.tree.name.removesuffix(f"-{VERSION}")
            for when in ("postinst.d", "header_postinst.d")
        ]
        assert hooks[0].read_text() == hooks[1].read_text()
        roots = {"SOURCES_ROOT": str(self.place), "MODULES_ROOT": str(self.place)}
        return self.run(hooks[0], release, DKMS_OPTIONS=" ".join(self.options), **roots)

    def installed(self) -> set[str]:
        found = (self.place / "lib/modules").rglob("*.ko*")
        return {path.name.partition(".")[0] for path in found}


def test_dkms_builds_one_module_for_new_kernels(kernel: Path, release: str, tmp_path: Path) -> None:
    dkms = Dkms(tmp_path, kernel, "sch_drr_fq")
    assert dkms.package == f"fairpath-sch_drr_fq/{VERSION}"
    assert not list(dkms.tree.rglob("tcp_bic*"))
    dkms.release(release)
    done = dkms.dkms("add", dkms.package)
    assert done.returncode == 0, done.stdout
    done = dkms.hook(release)
    assert done.returncode == 0 and dkms.installed() == {"sch_drr_fq"}, done.stdout
    # Again, as the headers' package does.
    done = dkms.hook(release)
    assert done.returncode == 0 and "warning" not in done.stdout, done.stdout


@pytest.mark.parametrize("release", ["6.0.0-1-amd64", "7.3.0-1-amd64", "7.20.0", "5.19.7"])
def test_dkms_leaves_unsupported_kernels_alone(release: str, kernel: Path, tmp_path: Path) -> None:
    """DKMS itself, at boot, and the hook in a kernel's package."""
    dkms = Dkms(tmp_path, kernel, "tcp_gaimd")
    dkms.release(release)
    assert dkms.dkms("add", dkms.package).returncode == 0
    for done in (dkms.autoinstall(release), dkms.hook(release)):
        assert done.returncode == 0, done.stdout
    assert "tcp_gaimd supports Linux 6.1 to 7.2" in done.stdout
    assert dkms.installed() == set()


@pytest.mark.parametrize("release", ["6.0.0-1-amd64", "7.3.0-1-amd64"])
def test_package_for_unsupported_kernel(release: str, kernel: Path, tmp_path: Path) -> None:
    """What the script of our own package runs: DKMS says why, and compiles nothing."""
    dkms = Dkms(tmp_path, kernel, "tcp_gaimd")
    dkms.release(release)
    assert dkms.dkms("add", dkms.package).returncode == 0
    ours = {"DPKG_MAINTSCRIPT_NAME": "postinst", "DPKG_MAINTSCRIPT_PACKAGE": "fairpath-gaimd-dkms"}
    done = dkms.dkms("build", dkms.package, "-k", release, **ours)
    assert done.returncode == 77 and "BUILD_EXCLUSIVE" in done.stdout, done.stdout
    assert not list(tmp_path.rglob("*.o")) and dkms.installed() == set()


def test_failing_dkms_build_does_not_fail_the_kernel(kernel: Path, tmp_path: Path) -> None:
    """With a kernel that is supported by its number, but for which nothing compiles."""
    dkms = Dkms(tmp_path, kernel, "tcp_gaimd")
    release = dkms.release("7.1.0-broken")
    with (dkms.tree / "tcp_gaimd" / "tcp_gaimd.c").open("a") as source:
        source.write("#error broken\n")
    assert dkms.dkms("add", dkms.package).returncode == 0
    # What the kernel's package runs: DKMS's own hook, and ours.
    done = dkms.autoinstall(release, DPKG_MAINTSCRIPT_NAME="postinst")
    assert done.returncode == 0, done.stdout
    done = dkms.hook(release)
    assert done.returncode == 0 and f"warning: no tcp_gaimd for {release}" in done.stdout
    # At boot, DKMS reports it.
    done = dkms.autoinstall(release)
    assert done.returncode != 0 and "failed to install" in done.stdout


@pytest.mark.parametrize("release", ["6.1.0-56-amd64", "6.10.2", "6.19.1-arch1", "7.0.0", "7.2.1"])
def test_dkms_supports_all_kernels_of_the_range(release: str) -> None:
    conf = (TOP / "scripts" / "dkms.conf.in").read_text()
    script = f"kernelver={release}\n{conf}\necho $AUTOINSTALL"
    done = launch.succeed(["bash", "-c", script])
    assert done.stdout == "yes\n"


#: What DKMS changes is not the host's: there may be no /lib/modules on which to mount.
APART = """
for each in /usr/src /var/lib/dkms /etc/kernel; do mount -t tmpfs none $each; done
mount -t tmpfs none {scratch}
mkdir {scratch}/upper {scratch}/work
mount -t overlay -o lowerdir=/usr/lib,upperdir={scratch}/upper,workdir={scratch}/work none /usr/lib
mkdir -p /lib/modules
"""
RELEASE = """
release=$(cat {kernel}/release)
mkdir -p /lib/modules/$release
ln -s {kernel}/headers /lib/modules/$release/build
make -j4 --no-print-directory dkms-install MODULES=tcp_gaimd KERNELDIR={kernel}/headers
"""
#: DKMS builds nothing for it.
UNSUPPORTED = """
if make --no-print-directory dkms-install MODULES=tcp_gaimd KERNELDIR={kernel}/headers \\
    KERNELRELEASE=7.9.0; then exit 9; fi
"""


@pytest.mark.tier("all")
def test_dkms_install_keeps_modules_of_other_kernels(kernel: Path, tmp_path: Path) -> None:
    newer = Path(launch.succeed(["scripts/kernel", "get", "6.12"], cwd=TOP).stdout.strip())
    script = "set -e" + APART.format(scratch=tmp_path)
    script += "".join(RELEASE.format(kernel=each) for each in (kernel, newer))
    script += UNSUPPORTED.format(kernel=kernel)
    script += "find /lib/modules -name 'tcp_gaimd.ko*' | cut -d / -f 4 | sort"
    root = [] if os.getuid() == 0 else ["--map-root-user"]
    done = launch.succeed(["unshare", "--mount", *root, "sh", "-c", script], cwd=TOP)
    releases = sorted((each / "release").read_text().strip() for each in (kernel, newer))
    assert done.stdout.splitlines()[-2:] == releases, done.stdout


@pytest.mark.parametrize(
    ("package", "builds"), [("fairpath-gaimd-dkms", "yes"), ("linux-image-6.12.1-amd64", "")]
)
def test_package_builds_its_module_when_installed(package: str, builds: str) -> None:
    """DKMS 3.2 asks for it, whatever kernel runs; the package of a kernel leaves it to a hook."""
    conf = (TOP / "scripts" / "dkms.conf.in").read_text()
    script = f"AUTOINSTALL=\nuname() {{ echo 5.10.0; }}\n{conf}\necho $AUTOINSTALL"
    dpkg = {"DPKG_MAINTSCRIPT_NAME": "postinst", "DPKG_MAINTSCRIPT_PACKAGE": package}
    done = launch.succeed(["bash", "-c", script], environment=dpkg)
    assert done.stdout == f"{builds}\n"


@pytest.mark.parametrize("target", ["dkms-uninstall", "dkms-tree", "install-sim", "help"])
def test_directories_with_spaces_are_refused(tmp_path: Path, target: str) -> None:
    """In a list of make, `/tmp/a b` is two names: `rm -rf` removed the first one."""
    kept = tmp_path / "a" / "file"
    kept.parent.mkdir()
    kept.touch()
    done = make("--no-print-directory", target, f"DESTDIR={tmp_path}/a b", check=False)
    assert done.returncode == 2 and kept.exists()
    (line,) = done.stdout.splitlines()
    assert f"DESTDIR '{tmp_path}/a b': must have no white space and no quotes" in line
    done = make("--no-print-directory", target, "prefix=/it's", check=False)
    assert done.returncode == 2 and "prefix '/it's': must have no white space" in done.stdout


def test_help_lists_all_targets() -> None:
    listed = make("help").stdout
    makefiles = [TOP / name for name in ("Makefile", "userspace/build.mk", "userspace/install.mk")]
    phony = {
        target
        for makefile in makefiles
        for line in makefile.read_text().splitlines()
        if line.startswith(".PHONY:")
        for target in line.split()[1:]
        if not target.startswith("check-")
    }
    for target in phony - {"help"}:
        assert f"make {target} " in listed
