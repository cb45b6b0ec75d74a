# SPDX-License-Identifier: GPL-2.0
"""Machines that scripts/vm emulates, by Debian's names of architectures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """A machine, and how to compile for it."""

    name: str
    multiarch: str  # the directory of its libraries
    machine: str  # ARCH of the kernel's make
    prefix: str  # CROSS_COMPILE of the kernel's make, the beginning of the compilers' names
    compiler: str  # the package of the compiler
    qemu: str
    package: str  # that has this qemu
    options: tuple[str, ...]  # of qemu
    bus: str  # of virtio
    console: str

    @property
    def make_variables(self) -> list[str]:
        return [f"ARCH={self.machine}", f"CROSS_COMPILE={self.prefix}"] if self.prefix else []


AMD64 = Architecture(
    name="amd64",
    multiarch="x86_64-linux-gnu",
    machine="x86",
    prefix="",
    compiler="gcc",
    qemu="qemu-system-x86_64",
    package="qemu-system-x86",
    options=("-machine", "q35"),
    bus="pci",
    console="ttyS0",
)
ARCHITECTURES = {
    "amd64": AMD64,
    "arm64": Architecture(
        name="arm64",
        multiarch="aarch64-linux-gnu",
        machine="arm64",
        prefix="aarch64-linux-gnu-",
        compiler="gcc-aarch64-linux-gnu",
        qemu="qemu-system-aarch64",
        package="qemu-system-arm",
        # `max` has pointer authentication, which is slow to emulate.
        options=("-machine", "virt", "-cpu", "cortex-a57"),
        bus="pci",
        console="ttyAMA0",
    ),
    "s390x": Architecture(
        name="s390x",
        multiarch="s390x-linux-gnu",
        machine="s390",
        prefix="s390x-linux-gnu-",
        compiler="gcc-s390x-linux-gnu",
        qemu="qemu-system-s390x",
        package="qemu-system-s390x, before Debian 13 qemu-system-misc",
        options=("-machine", "s390-ccw-virtio", "-cpu", "max"),
        bus="ccw",
        console="ttysclp0",
    ),
}
