# SPDX-License-Identifier: GPL-2.0
"""The cores on machines of 32 bits and of the other byte order; the modules build for Debian's
kernels of five architectures.

i686 programs run on the host, s390x (64 bits, big-endian) in qemu-user.  Without those tests of
test_cores.py that compare with mainline's code, need 128-bit integers on i686, or take minutes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from fairvm import kernels
from fairvm.archive import BOOKWORM, TRIXIE, Archive, Suite, unpack

from tests.unit.test_cores import HERE, names_in, run

pytestmark = pytest.mark.tier("all")

TOP = HERE.parents[1]
MACHINES: dict[str, list[str]] = {"i686": [], "s390x": ["qemu-s390x"]}
BOTH = (
    "test_bic_any",
    "test_drr_fq",
    "test_heap",
    "test_rates",
    "test_slbn_replay",
    "test_slbn_wire",
    "test_wheel",
)
PROGRAMS = {
    "i686": (*BOTH, "test_slbn", "test_slbn_commit"),
    "s390x": (*BOTH, "test_bic_paper", "test_growth", "test_slbn_bounds"),
}
CASES = [
    (machine, program, name)
    for machine, programs in PROGRAMS.items()
    for program in programs
    for name in names_in(HERE / f"{program}.c")
]


def compiled(compiler: str, source: Path, place: Path) -> str:
    program = place / f"{compiler}-{source.stem}"
    if not program.exists():
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
        include = [f"-I{TOP / name}" for name in ("include", "", "tests/unit/foreign")]
        run([compiler, *flags, *include, str(source), "-o", str(program), "-lm"])
    return str(program)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign")


@pytest.mark.parametrize(("machine", "program", "name"), CASES)
def test_core(place: Path, machine: str, program: str, name: str) -> None:
    built = compiled(f"{machine}-linux-gnu-gcc", HERE / f"{program}.c", place)
    assert f"ok 1 - {name}\n" in run([*MACHINES[machine], built, name])


def test_packets_are_the_same(place: Path) -> None:
    """Octet by octet, with their authentication."""
    source = HERE / "vectors.c"
    expected = run([compiled("gcc", source, place)])
    assert len(expected.splitlines()) == 70
    for machine, emulator in MACHINES.items():
        program = compiled(f"{machine}-linux-gnu-gcc", source, place)
        assert run([*emulator, program]) == expected, machine


CORES = (
    *("tcp_bic/bic_core.h", "tcp_gaimd/gaimd_core.h"),
    *("sch_drr_fq/drr_fq_core.h", "sch_drr_fq/drr_fq_bands_core.h", "include/fairpath/dscp.h"),
    *(f"include/fairpath/slbn/slbn_{name}.h" for name in ("bucket", "core", "wire")),
)


@pytest.mark.parametrize("core", CORES)
def test_kernels_of_32_bits_can_divide(tmp_path: Path, core: str) -> None:
    """All divisions of 64 bits are fp_div(): for others gcc calls what kernels do not have."""
    header = tmp_path / "fairpath/core.h"
    header.parent.mkdir()
    text = (TOP / "include/fairpath/core.h").read_text()
    division = "return dividend / divisor;"
    assert text.count(division) == 1
    header.write_text(
        text.replace(division, "extern u64 d(u64, u64); return d(dividend, divisor);")
    )
    source = tmp_path / "core.c"
    source.write_text(f"#include <fairpath/core.h>\n#include <{core}>\n")
    include = [f"-I{place}" for place in (tmp_path, TOP / "include", TOP)]
    built = str(tmp_path / "core.o")
    flags = ["-std=gnu11", "-O2", "-fkeep-inline-functions", "-c"]
    run(["i686-linux-gnu-gcc", *flags, *include, str(source), "-o", built])
    wanted = run(["i686-linux-gnu-nm", "--undefined-only", built])
    assert [line for line in wanted.splitlines() if "div" in line or "mod" in line] == []


@dataclass(frozen=True)
class Target:
    """A kernel of Debian for another machine: its architecture there and in make, the compiler's
    prefix, and what readelf says of a module; the oldest suite that has it, and its series."""

    debian: str
    flavour: str
    kernel: str
    prefix: str
    elf: str
    suite: Suite = BOOKWORM
    series: str = "6.1"


TARGETS = (
    # No compiler of its own: that of x86-64 has -m32.
    Target("i386", "686", "i386", "", "ELF32 little Intel 80386"),
    Target("arm64", "arm64", "arm64", "aarch64-linux-gnu-", "ELF64 little AArch64"),
    Target("armhf", "armmp", "arm", "arm-linux-gnueabihf-", "ELF32 little ARM"),
    Target("s390x", "s390x", "s390", "s390x-linux-gnu-", "ELF64 big IBM S/390"),
    Target(
        "riscv64", "riscv64", "riscv", "riscv64-linux-gnu-", "ELF64 little RISC-V", TRIXIE, "6.12"
    ),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.debian)
def test_modules_build_for_other_machines(tmp_path: Path, target: Target) -> None:
    """Debian's kernels have all symbols that they need: those of 32 bits no 64-bit division."""
    archive = Archive((target.suite,), target.debian)
    archive.update()
    depends = archive.describe(f"linux-headers-{target.flavour}")["Depends"]
    (name,) = re.findall(rf"linux-headers-[\d.+a-z-]+-{target.flavour}", depends)
    packages = archive.kernel_packages([name])
    # The build tools are programs of the host, so the kernel for it has them; in a newer suite,
    # that of the same series for this one.
    (kbuild,) = (package for package in packages if package.startswith("linux-kbuild-"))
    del packages[kbuild]
    unpack(archive.download(list(packages), tmp_path / "debs"), tmp_path)
    (tools,) = (kernels.get(target.series).directory / "usr/lib").glob("linux-kbuild-*")
    (tmp_path / "usr/lib").mkdir(exist_ok=True)
    (tmp_path / "usr/lib" / kbuild).symlink_to(tools)
    headers = tmp_path / "usr/src" / name
    kernels.relocate_headers(headers)
    # Without it, no BTF is made, for which a newer kernel wants a newer pahole.
    (headers / "vmlinux").unlink(missing_ok=True)
    machine = [f"ARCH={target.kernel}", f"CROSS_COMPILE={target.prefix}"]
    make = ["make", "-C", str(TOP), "modules", *machine]
    built = run([*make, f"KERNELDIR={headers}", "KCFLAGS=-Werror"])
    assert "undefined" not in built
    kind, order, processor = target.elf.split(maxsplit=2)
    for module in ("tcp_bic", "tcp_gaimd", "sch_drr_fq", "sch_slbn"):
        path = TOP / "build/modules" / name.removeprefix("linux-headers-") / module
        header = run(["readelf", "-h", str(path / f"{module}.ko")])
        for expected in (kind, f"{order} endian", processor):
            assert expected in header, header
