# SPDX-License-Identifier: GPL-2.0
"""The congestion controls of the running kernel, and their presets.

Linux silently replaces an unknown congestion control by another, so each is looked up, and its
module loaded, before a run; preflight.py checks the running connections again.  The project's
modules have presets (net.ipv4.NAME_preset); the kernel's own have none.
"""

import os
import re
import subprocess
from pathlib import Path

from fairlab.model.errors import UsageError
from fairlab.model.scenario import Flow

SYSCTL = Path("/proc/sys/net/ipv4")
# Modules in the same directory that are not congestion controls.
OTHER_MODULES = {"diag"}


def registered() -> list[str]:
    """The congestion controls that are registered."""
    return (SYSCTL / "tcp_available_congestion_control").read_text().split()


def loadable() -> list[str]:
    """The congestion controls that have a module."""
    index = Path("/lib/modules", os.uname().release, "modules.dep")
    if not index.exists():
        return []
    pattern = re.compile(r"^(?:\S*/)?(?:net/ipv4|updates|extra)/(?:\S*/)?tcp_(\w+)\.ko\b", re.M)
    return sorted(set(pattern.findall(index.read_text())) - OTHER_MODULES)


def load(cc: str) -> None:
    """Load the module of a congestion control, if it has one that is not loaded yet."""
    if cc not in registered():
        command = ["modprobe", "--quiet", f"tcp_{cc}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def presets(cc: str) -> list[str]:
    """The presets of a loaded congestion control."""
    listed = SYSCTL / f"{cc}_available_presets"
    return listed.read_text().split() if listed.exists() else []


def require(flow: Flow) -> None:
    """Load the congestion control of FLOW; raise UsageError if it or its preset is unknown."""
    load(flow.cc)
    if flow.cc not in registered():
        known = ", ".join(sorted({*registered(), *loadable()}))
        raise UsageError(f"no congestion control '{flow.cc}' in this kernel; there are: {known}")
    if flow.preset:
        known_presets = presets(flow.cc)
        if not known_presets:
            raise UsageError(f"'{flow.cc}' of this kernel has no presets, so no '{flow.preset}'")
        # A preset may be followed by a number; the module checks it when the preset is set.
        if flow.preset.split()[0] not in known_presets:
            known = ", ".join(known_presets)
            raise UsageError(f"'{flow.cc}' has no preset '{flow.preset}'; there are: {known}")
