# SPDX-License-Identifier: GPL-2.0
"""Which congestion controls, and presets of theirs, the running kernel has.

Linux puts another congestion control in the place of one that it does not find, without a word, so
each one is looked up, and its module loaded, before a run; preflight.py looks again at the running
connections.  The project's modules have presets (net.ipv4.NAME_preset); the kernel's own have none.
"""

import re
import subprocess
from pathlib import Path

from fairlab.model.errors import UsageError
from fairlab.model.scenario import Flow

SYSCTL = Path("/proc/sys/net/ipv4")
# These live beside the congestion controls and are none.
OTHER_MODULES = {"diag"}


def registered() -> list[str]:
    """What can be used without loading anything."""
    return (SYSCTL / "tcp_available_congestion_control").read_text().split()


def loadable(modules: Path | None = None) -> list[str]:
    """What there are modules for, by the modules' names."""
    index = (modules or Path("/lib/modules", _release())) / "modules.dep"
    if not index.exists():
        return []
    pattern = re.compile(r"^(?:\S*/)?(?:net/ipv4|updates|extra)/(?:\S*/)?tcp_(\w+)\.ko\b", re.M)
    return sorted(set(pattern.findall(index.read_text())) - OTHER_MODULES)


def _release() -> str:
    return Path("/proc/sys/kernel/osrelease").read_text().strip()


def load(cc: str) -> None:
    """Load the module of a congestion control, if there is one and it is not there yet."""
    if cc not in registered():
        subprocess.run(
            ["modprobe", "--quiet", f"tcp_{cc}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )


def presets(cc: str) -> list[str]:
    """The presets of a loaded congestion control."""
    listed = SYSCTL / f"{cc}_available_presets"
    return listed.read_text().split() if listed.exists() else []


def require(flow: Flow) -> None:
    """Make sure that FLOW can have what it asks for, or say what there is."""
    load(flow.cc)
    if flow.cc not in registered():
        known = ", ".join(sorted({*registered(), *loadable()}))
        raise UsageError(f"no congestion control '{flow.cc}' in this kernel; there are: {known}")
    if flow.preset:
        known_presets = presets(flow.cc)
        if not known_presets:
            raise UsageError(f"'{flow.cc}' of this kernel has no presets, so no '{flow.preset}'")
        # A preset may be followed by a number, which the module judges when the preset is set.
        if flow.preset.split()[0] not in known_presets:
            known = ", ".join(known_presets)
            raise UsageError(f"'{flow.cc}' has no preset '{flow.preset}'; there are: {known}")
