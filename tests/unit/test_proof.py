# SPDX-License-Identifier: GPL-2.0
"""Z3 proves the lemma of lemma.h for all numbers, and refutes it for planted mistakes.

docs/proof.md says what that means.  prove_lemma.py proves; an undecided case is a failure.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.planted import plant
from tests.unit.test_lemma_mistakes import PLANTED

TOP = Path(__file__).resolve().parents[2]
#: With Z3: the environment of scripts/install-deps.
PYTHON = TOP / "build/venv/bin/python"
SECONDS = 1800
STATES = 80

#: Rows of memory, type of the packet, and retransmitted.
CASES = ["".join(case) for case in itertools.product("01", "12345", "01")]
#: The case in which Z3 is to find a mistake of PLANTED.
FOUND_IN = {
    "grant more than what is free": "030",
    "the sum of both ledgers overflows": "030",
    "nothing held for what is in use": "020",
    "retransmission trusts its codes": "021",
    "grants in quiet time": "030",
    "the code is rounded up beyond what is free": "030",
    "g is not limited to what is held": "030",
    "what a copy was granted is released": "121",
    "the packet overrides the memory": "120",
    "the wrong ledger is named": "010",
    "a dropped packet is removed first": "150",
    "a Leave keeps what it held": "040",
}

pytestmark = pytest.mark.tier("all")


def prove(step: str, tree: Path, *words: object) -> tuple[int, str]:
    command = [PYTHON, "-m", "tests.unit.prove_lemma", step, tree / "include", *words]
    done = launch.run(list(map(str, command)), cwd=TOP, stderr=subprocess.STDOUT, timeout=SECONDS)
    print(done.stdout)
    return done.returncode, done.stdout


def test_codes_are_proved() -> None:
    status, output = prove("codes", TOP)
    assert status == 0 and re.search("^codes: proved in ", output, re.MULTILINE)


def test_rotation_is_proved() -> None:
    status, output = prove("rotation", TOP)
    assert status == 0 and re.search("^rotation: proved in ", output, re.MULTILINE)


#: Mistakes in slbn_link_rotate(): original text, and its replacement.
ROTATIONS = {
    "the ledger before the last is kept": (
        "v->prev = epochs == 1 ? v->cur : empty;",
        "v->prev = v->cur;",
    ),
    "the last ledger is dropped": (
        "v->prev = epochs == 1 ? v->cur : empty;",
        "v->prev = epochs == 2 ? v->cur : empty;",
    ),
    "the tag may be that of no ledger": (
        "v->tag = slbn_next_tag(v->tag);",
        "v->tag++;",
    ),
    "it is late": (
        "now - v->epoch_start < p->epoch)",
        "now - v->epoch_start <= p->epoch)",
    ),
    "a clock that steps back rotates": (
        "now < v->epoch_start ||",
        "",
    ),
}


@pytest.mark.parametrize("mistake", ROTATIONS)
def test_mistake_in_rotation_is_refuted(tmp_path: Path, mistake: str) -> None:
    status, output = prove("rotation", plant(tmp_path, *ROTATIONS[mistake]))
    assert status == 1 and re.search("^rotation: refuted in ", output, re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
def test_lemma_is_proved(case: str) -> None:
    status, output = prove("lemma", TOP, case)
    assert status == 0 and re.search(f"^case {case}: proved in ", output, re.MULTILINE)


def test_formulas_allow_the_compiled_results(tmp_path: Path) -> None:
    program = TOP / "build/unit/lemma_states"
    states = tmp_path / "states"
    with states.open("w") as to:
        subprocess.run([program, str(STATES)], stdout=to, check=True)
    status, output = prove("same", TOP, states)
    assert status == 0 and f"{STATES} states of {len(CASES)} cases, 0 differ" in output


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_refuted(tmp_path: Path, mistake: str) -> None:
    right, wrong, _ = PLANTED[mistake]
    status, output = prove("lemma", plant(tmp_path, right, wrong), FOUND_IN[mistake])
    assert status == 1 and re.search("^case .*: refuted in ", output, re.MULTILINE)
