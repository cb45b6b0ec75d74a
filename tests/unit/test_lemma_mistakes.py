# SPDX-License-Identifier: GPL-2.0
"""test_lemma.c finds mistakes that are planted in the core.

Each is a copy of the core with one rule changed; the claim of lemma.h that it breaks is named.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.planted import plant

HERE = Path(__file__).resolve().parent
SECONDS = 300

#: Mistake: original text, its replacement, and the claim that does not hold then.
PLANTED = {
    "grant more than what is free": (
        "return p->C > A ? p->C - A : 0;",
        "return p->C - 0 * A;",
        "a rise is held that is not free",
    ),
    "the sum of both ledgers overflows": (
        "return cur <= ~0ULL - prev ? cur + prev : ~0ULL;",
        "return cur + prev;",
        "a rise is held that is not free",
    ),
    "nothing held for what is in use": (
        "u64 held = pkt->use;",
        "u64 held = 0;",
        "the current ledger does not gain what the slot says",
    ),
    "retransmission trusts its codes": (
        "if (slbn_is_upstream(pkt) || pkt->again)",
        "if (slbn_is_upstream(pkt))",
        "ledger does not|a Leave does not just remove",
    ),
    "grants in quiet time": (
        "room < pkt->use || now < v->quiet_until",
        "room < pkt->use",
        "a rise is granted in quiet time",
    ),
    "the code is rounded up beyond what is free": (
        "slot->code = slbn_encode_down(room - pkt->use);",
        "slot->code = slbn_encode_up(room - pkt->use);",
        "a rise is held that is not free",
    ),
    "g is not limited to what is held": (
        "pkt->g = fp_min64(pkt->g, held);",
        "",
        "more is granted than held",
    ),
    "what a copy was granted is released": (
        "if (found->same && found->ledger && found->held > held) {",
        "if (0) {",
        "downstream another rate is held than stated",
    ),
    "the packet overrides the memory": (
        "\t\tfound->held = entry->held;\n",
        "\t\t;\n",
        "downstream another rate is held than stated",
    ),
    "the wrong ledger is named": (
        "slot->tag = slbn_mask_tag(v->tag, found.hash);",
        "slot->tag = slbn_mask_tag(v->prev_tag, found.hash);",
        "the slot does not name the current ledger",
    ),
    "a dropped packet is removed first": (
        "\tif (verdict != SLBN_FORWARD)\n\t\treturn verdict;\n",
        "\tif (verdict != SLBN_FORWARD) {\n\t\tv->cur.A++;\n\t\treturn verdict;\n\t}\n",
        "a dropped packet changes the link",
    ),
    "a Leave keeps what it held": (
        "if (p->commit)\n\t\tledger->A",
        "if (p->commit && pkt->type != SLBN_LEAVE)\n\t\tledger->A",
        "ledger does not|a Leave does not just remove",
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_found(tmp_path: Path, mistake: str) -> None:
    right, wrong, claim = PLANTED[mistake]
    tree = plant(tmp_path, right, wrong)
    program = tmp_path / "test_lemma"
    flags = ["-std=gnu11", "-O1", f"-I{tree}/include", "-w"]
    source = HERE / "test_lemma.c"
    subprocess.run(["gcc", *flags, "-o", program, source, "-lcmocka"], check=True)
    done = launch.run([program, "test_lemma_holds"], stderr=subprocess.STDOUT, timeout=SECONDS)
    print(done.stdout)
    assert done.returncode == 1, "not found"
    assert any(part in done.stdout for part in claim.split("|"))
