# SPDX-License-Identifier: GPL-2.0
"""Run the unit tests of the algorithms' cores.

They are C programs that use cmocka, built with AddressSanitizer and UndefinedBehaviorSanitizer
by the Makefile in this directory. Each cmocka test is one pytest test in a separate process, so
that a crash or a hang fails only that test. The environment variable FAIRPATH_SEED changes the
random numbers.
"""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from tests import launch

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "unit"
SECONDS = 1800


def names_in(source: Path) -> list[str]:
    return re.findall(r"UNIT_TEST\((\w+)\)", source.read_text())


CASES = [
    (source.stem, name) for source in sorted(HERE.glob("test_*.c")) for name in names_in(source)
]


def run(command: list[str], **environment: str) -> str:
    done = launch.run(command, environment=environment, stderr=subprocess.STDOUT, timeout=SECONDS)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}", False)
    return done.stdout


def build(program: str) -> str:
    """Build a program if it is out of date; return its path."""
    run(["make", "--no-print-directory", "-C", str(HERE), f"../../build/unit/{program}"])
    return str(BUILD / program)


@pytest.mark.parametrize(("program", "name"), CASES)
def test_core(program: str, name: str) -> None:
    output = run([build(program), name], CMOCKA_MESSAGE_OUTPUT="TAP")
    print(output)
    # cmocka succeeds if no test matches the name.
    assert f"ok 1 - {name}\n" in output


def nearest(value: Fraction) -> int:
    """Round to the nearest integer, halves up."""
    return int(value + Fraction(1, 2))


def test_gaimd_is_tcp_friendly_for_every_beta() -> None:
    """Both terms of the send rate, TD and TO, equal TCP's at these alphas."""
    rows = [tuple(map(int, line.split())) for line in run([build("friendly")]).splitlines()]
    assert [row[0] for row in rows] == list(range(1, 1000))

    for thousandths, alpha_td, alpha_to in rows:
        beta = Fraction(thousandths, 1000)
        assert alpha_td == nearest(3000 * (1 - beta) / (1 + beta)), beta
        assert alpha_to == nearest(4000 * (1 - beta**2) / 3), beta

    table = {beta: (alpha_td, alpha_to) for beta, alpha_td, alpha_to in rows}
    assert table[875] == (200, 313)  # the paper: 0.2, 0.3125
    assert table[500] == (1000, 1000)  # TCP itself, the only beta with equal alphas
    assert [beta for beta, alphas in table.items() if alphas[0] == alphas[1]] == [500]
