# SPDX-License-Identifier: GPL-2.0
"""Open vSwitch in a guest, for Mininet's switches and OpenFlow controllers.

The daemons are started as its own script does (ovs-ctl), with a new database.  Without the kernel's
module they forward packets themselves: Mininet's datapath `user`.
"""

import os
import shutil
import subprocess
from pathlib import Path

KERNEL, USER = "kernel", "user"
PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-vswitchd")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
#: Where its programs look for the daemons.
RUN = Path("/var/run/openvswitch")
DATABASE = RUN / "conf.db"
#: Set in guests of scripts/vm.  On a machine of its own, the user decides what runs.
GUEST = "FAIRPATH_ENGINE"


def start() -> str:
    """Start Open vSwitch; the datapath for its switches, or "" where it is not installed."""
    if GUEST not in os.environ or not SCHEMA.exists() or not all(map(shutil.which, PROGRAMS)):
        return ""
    RUN.mkdir(parents=True, exist_ok=True)
    datapath = KERNEL if _run("modprobe", "--quiet", "openvswitch", check=False) else USER
    _run("modprobe", "--quiet", "tun", check=False)
    _run("ovsdb-tool", "create", str(DATABASE), str(SCHEMA))
    daemon = ("--pidfile", "--detach", "--no-chdir", "--log-file=/dev/null")
    _run("ovsdb-server", str(DATABASE), f"--remote=punix:{RUN}/db.sock", *daemon)
    _run("ovs-vsctl", "--no-wait", "init")
    _run("ovs-vswitchd", *daemon)
    return datapath


def _run(*command: str, check: bool = True) -> bool:
    """Run a command; did it succeed?"""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0
