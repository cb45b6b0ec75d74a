# SPDX-License-Identifier: GPL-2.0
"""Run commands in kernels that may crash: fetch or build kernels, build modules, boot machines.

- Commands: `cli` (scripts/vm) with `request`, and `kernel_cli` (scripts/kernel).
- Machines: `machine` (common part), `qemu`, `uml_machine` with `jail`; `initrd` and guest-init (the
  guest's side), `streams` (its output), `splat` (kernel errors in its log).
- Kernels: `cache` (the directories), `kernels` (stock kernels) with `archive` (Debian's packages)
  and `image`; `uml` (building User-Mode Linux); `modules` and `toolchain` (building for a kernel).
"""

from pathlib import Path

# A link to the project's VERSION; in an installed package, a copy.
__version__ = (Path(__file__).parent / "VERSION").read_text().strip()
