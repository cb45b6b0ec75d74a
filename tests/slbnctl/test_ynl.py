# SPDX-License-Identifier: GPL-2.0
"""In a VM, ynl with docs/netlink/slbn.yaml returns the same as slbnctl.

ynl is part of the kernel's source. Linux 6.1 has none: that of a newer kernel
is extracted once from its source package, into the cache of kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fairvm import source
from fairvm.cache import cache_dir, locked, staging
from fairvm.host import run

from tests import launch
from tests.linux_source import TOP

SERIES = "6.12"
PARTS = ["tools/net/ynl", "Documentation/netlink"]


@pytest.fixture(scope="module")
def ynl() -> Path:
    """A directory with these parts of the kernel's source."""
    directory = cache_dir() / f"ynl-{SERIES}"
    with locked(directory.with_name(f".lock-{directory.name}")):
        if not directory.exists():
            package = f"linux-source-{SERIES}"
            with staging(directory) as new:
                tarball = source.find_tarball(Path("/"), package)
                if tarball is None:
                    source.fetch_source(SERIES, package, new / "package")
                    tarball = source.find_tarball(new / "package", package)
                command = ["tar", "-C", str(new), "--strip-components=1", "-xf", str(tarball)]
                run([*command, *(f"{package}/{part}" for part in PARTS)])
                run(["rm", "-rf", str(new / "package")])
    return directory


@pytest.mark.tier("all")
def test_ynl_matches_slbnctl(ynl: Path) -> None:
    guest = Path(__file__).with_name("ynl_guest.py")
    command = [str(TOP / "scripts/vm"), "--kernel", "6.1", "--steady", "--timeout", "240"]
    spec = TOP / "docs/netlink/slbn.yaml"
    environment = ["env", f"PYTHONPATH={ynl}/tools/net/ynl"]
    done = launch.succeed(
        [*command, "--", *environment, "/usr/bin/python3", str(guest), str(ynl), str(spec)],
        timeout=300,
    )
    assert "equal numbers: " in done.stdout
