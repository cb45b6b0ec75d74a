# SPDX-License-Identifier: GPL-2.0
"""Explore a model of SLBN's commit exhaustively, and find planted mistakes.

The model (model.h) connects links and sessions that run slbn_core.h, and takes all interleavings
of their steps: joins, leaves, changes, deaths, losses, retransmissions, duplicates, rotations, ends
of leases, restarts and changes of capacities, within bounds (configs.h). In every state, at every
link, the rates in use, those at which data arrives and what sessions hold sum up to at most C; the
link holds at least what a session uses; and A is at least what it holds, or exactly that where
packets or memory say all. From states of some configurations rates become exact when nothing else
happens. Where an assumption of the protocol is false, the effect that section 17 of
docs/protocol.md states is found.

A planted mistake is a copy of the core with one rule changed, by which a sum of rates in use
exceeds a link's capacity.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.planted import plant

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
SECONDS = 1800

#: Mistake: configuration that finds it, original text and its replacement.
PLANTED = {
    "grant more than what is free": (
        "join-leave",
        "return p->C > A ? p->C - A : 0;",
        "return p->C - 0 * A;",
    ),
    "rate rises to the share": (
        "join-leave",
        "lapsed ? 0 : fp_min64(ack->g, plan);",
        "lapsed ? 0 : plan;",
    ),
    "nothing held for what is in use": (
        "join-leave",
        "u64 held = pkt->use;",
        "u64 held = 0;",
    ),
    "retransmission trusts its codes": (
        "loss-no-memory",
        "if (slbn_is_upstream(pkt) || pkt->again)",
        "if (slbn_is_upstream(pkt))",
    ),
    "retransmission revives an expired rate": (
        "lease-memory",
        "bool lapsed = src->pkt.use1 && now >= src->lease;",
        "bool lapsed = false;",
    ),
    "lease ignored": (
        "lease-memory",
        "\tsrc->rate = 0;\n\treturn true;",
        "\treturn true;",
    ),
    "acknowledgment after its lease raises the rate": (
        "lease-memory",
        "\t\tslbn_source_expire(src, now);\n",
        "",
    ),
    "a packet that is older than the memory counts": (
        "duplicate-memory",
        "if ((s32)(pkt->seq - entry->seq) < 0) {",
        "if (0) {",
    ),
    "a copy releases what was granted": (
        "early-memory",
        "if (found->same && found->ledger && found->held > held) {",
        "if (0) {",
    ),
    "rises while C is exceeded": (
        "capacity",
        "return p->C > A ? p->C - A : 0;",
        "return p->C > A ? p->C - A : p->C;",
    ),
    "not quiet after a restart": (
        "restart",
        "room < pkt->use || now < v->quiet_until",
        "room < pkt->use",
    ),
}


def build(directory: Path, tree: Path = TOP) -> Path:
    """Build the explorer in `directory` with the headers in `tree`."""
    program = directory / "explore"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", f"-I{tree}/include"]
    sources = sorted(HERE.glob("*.c"))
    subprocess.run(["gcc", *flags, "-o", program, *sources], check=True)
    return program


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = launch.run([program, *arguments], stderr=subprocess.STDOUT, timeout=SECONDS)
    print(done.stdout)
    return done


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"))


#: Name, for the longer run only, and the invariant that is violated in each entry of configs.h.
CONFIGURATIONS = re.findall(
    r'\.name = "([^"]+)",\s*(\.all = true)?,?\s*(?:\.violates = "([^"]+)")?',
    (HERE / "configs.h").read_text(),
)


def marked(name: str, long: str) -> object:
    return pytest.param(name, marks=pytest.mark.tier("all")) if long else name


@pytest.mark.parametrize(
    "name", [marked(name, long) for name, long, violates in CONFIGURATIONS if not violates]
)
def test_invariants_hold_in_all_states(explorer: Path, name: str) -> None:
    done = run(explorer, name)
    assert done.returncode == 0, done.stdout
    states = re.search(rf"^{name}: (\d+) states", done.stdout, re.MULTILINE)
    assert states and int(states[1]) > 1000, done.stdout


@pytest.mark.parametrize(
    ("name", "violated"), [(name, violates) for name, _, violates in CONFIGURATIONS if violates]
)
def test_false_assumption_shows(explorer: Path, name: str, violated: str) -> None:
    done = run(explorer, "--rates-only", name)
    assert done.returncode == 1, "not found"
    assert f"{name}: violated: {violated}: " in done.stdout


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_found(tmp_path: Path, mistake: str) -> None:
    name, right, wrong = PLANTED[mistake]
    tree = plant(tmp_path, right, wrong)
    done = run(build(tmp_path, tree), "--rates-only", name)
    assert done.returncode == 1, "not found"
    assert f"{name}: violated: rates in use: " in done.stdout
    assert "  1. session 0: joins\n" in done.stdout
