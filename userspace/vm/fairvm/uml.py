# SPDX-License-Identifier: GPL-2.0
"""Building User-Mode Linux, the kernel as a program, for the engines `native` and `virtual`.

It is built from Debian's own source package with the options of uml.config, and for --debug those
of uml-debug.config on top.  (Stock kernels have neither sanitizers nor lockdep.)  Its code runs
natively, without emulation or virtualisation, so that measurements are real; and it can run in
virtual time.

The kernel's directory (see cache.py) is named after the series and a hash of configuration and
patches, which it needs to run on today's processors.  As for stock kernels, a newer source is
looked for only on request.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairvm import exact
from fairvm.archive import SERIES
from fairvm.cache import Kernel, cache_dir, locked
from fairvm.errors import UsageError
from fairvm.source import Patch, Recipe, is_complete

DATA = Path(__file__).resolve().parent
CONFIG, DEBUG_CONFIG = DATA / "uml.config", DATA / "uml-debug.config"
# Before 6.13, User-Mode Linux has room for 2696 bytes of floating-point and vector registers, which
# suffices for AVX-512.  With AMX they take 11008 bytes, the host rejects smaller sets (ptrace(2),
# PTRACE_SETREGSET: EFAULT), and no process of the guest can start.  The kernel's stacks hold such
# sets, too, at most two.
REGISTERS = Patch(
    "arch/x86/um/user-offsets.c",
    "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
    "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
    "CONFIG_KERNEL_STACK_ORDER=4\n",
)
# In virtual time the registers are cleared for each timer, and twice if the compiler initializes
# stack variables too: one cycle in seven of a flow's run.
ALARM = Patch(
    "arch/um/os-Linux/signal.c",
    "memset(&regs, 0, sizeof(regs));",
    "memset(&regs, 0, __builtin_offsetof(struct uml_pt_regs, fp)), regs.is_user = 0;",
    "CONFIG_INIT_STACK_NONE=y\n",
)
# When it becomes idle, the kernel asks the host for its process ID (getpid), which nothing reads:
# 93 % of its system calls while a flow runs at 2.5 Gbit/s.  Linux 6.12 no longer does.
IDLE = Patch(
    "arch/um/kernel/process.c", "cpu_tasks[current_thread_info()->cpu].pid = os_getpid();", ""
)
# Each timer interrupt sends a signal to the current process, to preempt it.  In virtual time no
# timer expires while a process runs: the signal only stops it before its next instruction, and that
# was 45 % of all stops.  Linux 7.2 has the same condition.
PREEMPT = Patch(
    "arch/um/kernel/time.c",
    "if (get_current()->mm != NULL)",
    "if (time_travel_mode != TT_MODE_INFCPU && get_current()->mm != NULL)",
)
PATCHES = {"6.1": (REGISTERS, ALARM), "6.12": (REGISTERS, ALARM)}
# Options of newer kernels.  They are not in uml.config, so that the other kernels are not rebuilt.
OPTIONS = {"7.2": "CONFIG_NET_SCH_DUALPI2=m\n"}
# They only save time, so kernels with debug checks do without.
FAST_PATCHES = {"6.1": (IDLE, PREEMPT)}


def directory_for(series: str, debug: bool) -> Path:
    """The cache directory of that kernel."""
    if series not in SERIES:
        known = ", ".join(SERIES)
        raise UsageError(f"User-Mode Linux cannot be built for '{series}'; only for {known}")
    # Patches and files are part of it: others make another kernel.
    parts = [wanted_config(series, debug), *exact.files().values()]
    parts += [f"{patch.path}: {patch.new}" for patch in patches_for(series, debug)]
    key = hashlib.sha256("".join(parts).encode()).hexdigest()[:12]
    return cache_dir() / "uml" / f"{series}{'-debug' if debug else ''}-{key}"


def patches_for(series: str, debug: bool) -> tuple[Patch, ...]:
    """The patches of that kernel."""
    fast = () if debug else FAST_PATCHES.get(series, ())
    return (*PATCHES.get(series, ()), *fast, *exact.patches(series))


def wanted_config(series: str, debug: bool) -> str:
    """The configuration to build with."""
    text = CONFIG.read_text() + (DEBUG_CONFIG.read_text() if debug else "")
    text += OPTIONS.get(series, "")
    return text + "".join(patch.config for patch in patches_for(series, debug))


def cached() -> list[Kernel]:
    """All User-Mode Linux kernels in the cache, of any configuration."""
    found = sorted((cache_dir() / "uml").glob("[0-9]*"))
    return [Kernel(directory) for directory in found if is_complete(directory)]


def get(series: str, debug: bool = False, refresh: bool = False) -> Kernel:
    """User-Mode Linux of SERIES, built if necessary."""
    directory = directory_for(series, debug)
    if refresh or not is_complete(directory):
        with locked(directory.with_name(f".lock-{directory.name}")):
            if refresh or not is_complete(directory):
                build(series, debug, directory)
    return Kernel(directory)


def build(series: str, debug: bool, directory: Path) -> None:
    """Build the kernel in DIRECTORY."""
    recipe = Recipe(
        series,
        f"User-Mode Linux, {'with debug checks' if debug else 'optimized'},",
        "um",
        "linux",
        wanted_config(series, debug),
        patches_for(series, debug),
        exact.files(),
        # User-Mode Linux cannot enable UBSAN for the whole kernel, but for our modules.
        "ARCH=um" + (" UBSAN_SANITIZE=y" if debug else ""),
    )
    recipe.build(directory)
