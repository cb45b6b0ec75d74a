# SPDX-License-Identifier: GPL-2.0
"""The manual pages of the congestion controls: all parameters, as the modules have them."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests import launch
from tests.linux_source import TOP

pytestmark = pytest.mark.tier("check")


def page(module: str) -> str:
    done = launch.succeed(
        ["man", "--warnings", "-l", TOP / "docs" / "man" / f"{module}.4"],
        env={
            "MANWIDTH": "1000",
            "LC_ALL": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "MAN_KEEP_FORMATTING": "",
        },
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("module", ["tcp_gaimd", "tcp_bic"])
def test_page_has_all_parameters(module: str) -> None:
    """With the ranges and defaults of docs/congestion-control.md, as in the source."""
    family = module.removeprefix("tcp_")
    text = page(module)
    source = (TOP / module / f"{module}.c").read_text()
    named = set(re.findall(rf'"({family}_\w+)"', source))
    named |= {f"{family}_{member}" for member in re.findall(r"BIC_PARAM\((\w+), \d", source)}
    assert len(named) >= 5
    assert {name for name in named if not re.search(rf"\b{name}\b", text)} == set()
    table = (TOP / "docs" / "congestion-control.md").read_text()
    rows = re.findall(rf"^\| `({family}_\w+)` \| (\S+) \| (.*?) \|", table, re.MULTILINE)
    assert {name for name, _, _ in rows} <= named and len(rows) >= 4
    for name, default, limits in rows:
        shown = limits.replace("`", "").replace("…", "–")
        head = (
            f"{name} (default {default.strip('`')})"
            if name.endswith("preset")
            else (f"{name} ({shown}; default {default.strip('`')})")
        )
        assert head in text, head
    presets = re.findall(r'\{ "([\w-]+)", \{', source)
    assert presets and all(re.search(rf"^ +{preset}\b", text, re.MULTILINE) for preset in presets)


PROGRAMS = {
    "fairvm": ("scripts/vm", "scripts/kernel get", "scripts/kernel modules"),
    "fairtraffic": ("build/traffic/fairtraffic", "build/traffic/fairflow"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_page_has_all_options(name: str) -> None:
    """Those of the programs' help, and no others."""
    subprocess.run(["make", "--silent", "traffic"], cwd=TOP, check=True)
    options = set()
    for words in PROGRAMS[name]:
        program, *command = words.split()
        done = launch.succeed([str(TOP / program), *command, "--help"])
        options |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", done.stdout))
    source = (TOP / "docs/man" / f"{name}.1").read_text().replace("\\-", "-")
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", source))
    assert documented | {"--help"} == options | {"--help"} and len(options) > 8


@pytest.mark.parametrize("name", ["tcp_gaimd.4", "tcp_bic.4", "fairvm.1", "fairtraffic.1"])
def test_page_is_valid(name: str) -> None:
    command = ["mandoc", "-T", "lint", "-W", "warning", str(TOP / "docs/man" / name)]
    done = launch.run(command)
    assert done.stdout == ""
