# SPDX-License-Identifier: GPL-2.0
"""For every test: its tier, programs of root on the PATH, the libraries of this tree, and its id
in a list if it fails.

Each test is in one tier, by which `make check`, `make test` and `make test-all` select (tests/run):

    check   needs neither root, kernels nor much time: units, CLIs, pure lab, fuzz corpora, style
    test    finds what only a kernel or an installation shows; short
    all     the same at length, on each kernel, or of the tests' own tools
    debug   builds the kernel with KASAN and lockdep

A test is in the tier of its directory (TIERS), or in that of its marker `tier`.  `--tier NAME`
selects the tests of one tier; without it all selected tests run.

`--failures FILE` writes the ids of failed tests to FILE, from which tests/run repeats them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]

#: The tier of each directory.
TIERS = {
    "debug": "debug",
    "figures": "all",
    "fuzz": "check",
    "install": "test",
    "kernel": "test",
    "lab": "check",
    "model": "check",
    "packages": "all",
    "second": "check",
    "slbnctl": "check",
    "slbnsim": "check",
    "style": "check",
    "tc": "check",
    "unit": "check",
    "virtual": "test",
    "vm": "all",
}

# Not every user has modprobe and dkms on the path.
os.environ["PATH"] += ":/usr/sbin:/sbin"
# The binding loads the library from the tree.
os.environ["LIBSLBN"] = str(TOP / "build/libslbn/libslbn.so.0")
# As in tests/run, so that a test that fails there fails alone, too.
os.environ.setdefault("WERROR", "-Werror")
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(TOP / "build" / "hypothesis"))


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers = sorted(set(TIERS.values()))
    parser.addoption("--tier", choices=tiers, help="only the tests of this tier")
    parser.addoption("--failures", type=Path, help="write the ids of failed tests to this file")


class Failures:
    """Writes the ids of failed tests to a file, each as a JSON string on a line.

    It writes at once: a kernel may crash before pytest ends.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self.file = file
        self.root = root

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        # pytest names files from the directory of pytest.ini; the command line is at the top.
        name, _, test = report.nodeid.partition("::")
        path = (self.root / name).relative_to(TOP)
        with self.file.open("a") as file:
            file.write(json.dumps(f"{path}::{test}") + "\n")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--failures")
    if file:
        config.pluginmanager.register(Failures(file, config.rootpath))


def tier_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("tier")
    if marker:
        return str(marker.args[0])
    return TIERS[item.path.relative_to(TOP / "tests").parts[0]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--tier")
    if not wanted:
        return
    chosen = [item for item in items if tier_of(item) == wanted]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
