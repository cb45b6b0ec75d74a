# SPDX-License-Identifier: GPL-2.0
"""The cases of tests/tdc, in the format of tdc.py of mainline's selftests (tc-testing).

Each runs in a namespace of its own. As there, the commands of setup must succeed, the one under
test must end with `expExitCode`, and `matchPattern` must be found `matchCount` times in what
`verifyCmd` prints.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.net import sh, unnamed_namespace

pytestmark = pytest.mark.tier("all")

NAMES = {"$TC": "tc", "$IP": "ip", "$DUMMY": "dummy1"}
CASES: list[dict[str, Any]] = [
    case
    for file in sorted((Path(__file__).parents[1] / "tdc").glob("*.json"))
    for case in json.loads(file.read_text())
]


def run(command: str, check: bool = False) -> tuple[int, str]:
    for name, value in NAMES.items():
        command = command.replace(name, value)
    done = sh(command, check)
    return done.returncode, done.stdout


def test_ids_are_unique() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) > 20


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    with unnamed_namespace():
        for command in case["setup"]:
            run(command, check=True)
        status, printed = run(case["cmdUnderTest"])
        assert status == int(case["expExitCode"]), printed
        _, shown = run(case["verifyCmd"])
        found = re.findall(case["matchPattern"], shown, re.MULTILINE)
        assert len(found) == int(case["matchCount"]), shown
        for command in case["teardown"]:
            run(command, check=True)
