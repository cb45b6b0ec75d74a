# SPDX-License-Identifier: GPL-2.0
"""What a run ran on: kernel, engine, tools."""

import os
import platform
from collections.abc import Iterable
from typing import Any

from fairlab.net import host


def environment(ccs: Iterable[str] = ()) -> dict[str, Any]:
    """The kernel that we are on, the engine, the versions of the tools, the modules of CCS."""
    seed = os.environ.get("FAIRPATH_VM_SEED")
    return {
        "kernel": {
            "release": platform.release(),
            "version": platform.version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        # scripts/vm sets these for the command that it runs in a guest.
        "engine": {
            "name": os.environ.get("FAIRPATH_ENGINE", "host"),
            "accelerator": os.environ.get("FAIRPATH_ACCEL", ""),
            "steady": os.environ.get("FAIRPATH_STEADY") == "1",
        }
        | ({} if seed is None else {"seed": int(seed), "jitter": "FAIRPATH_JITTER" in os.environ}),
        "tools": host.tool_versions(),
        "modules": {cc: host.module_version(cc) for cc in ccs},
    }
