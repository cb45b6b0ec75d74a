# SPDX-License-Identifier: GPL-2.0
"""Which reports of data races fail a run: those about our modules' own code.  And which flags in an
oops show that the emulator failed."""

from pathlib import Path

import pytest
from fairvm import cli
from fairvm.errors import EXIT_SPLAT, VmError
from fairvm.machine import Outcome
from fairvm.request import parse
from fairvm.splat import impossible_flags, splat_in

OURS, THEIRS = "drr_fq_append [sch_drr_fq]", "__dev_queue_xmit"


@pytest.mark.parametrize(
    ("first", "second", "ours"),
    [
        (OURS, THEIRS, True),
        (THEIRS, OURS, True),
        (OURS, "drr_fq_dump [sch_drr_fq]", True),
        (THEIRS, THEIRS, False),
        # It reads any child's queue without its lock.
        (OURS, "htb_dump_class_stats [sch_htb]", False),
        (OURS, "htb_enqueue [sch_htb]", True),
    ],
)
def test_data_races(first: str, second: str, ours: bool) -> None:
    log = f"[    1.000000] ====\n[    1.000001] BUG: KCSAN: data-race in {first} / {second}\n"
    assert bool(splat_in(log)) == ours


@pytest.mark.parametrize(
    ("flags", "possible"),
    [
        ("00000246", True),
        ("00210293", True),  # ID, the highest, with others
        ("090e3e02", False),  # a pointer's low half, as an emulator pushed it
        ("00400202", False),
        ("00000200", False),
        ("0000020a", False),
        ("00008202", False),
    ],
)
def test_impossible_flags(flags: str, possible: bool) -> None:
    first = f"[   50.349343] RSP: 0018:ffffc900004a7a70 EFLAGS: {flags}"
    later = "[   50.352771] RSP: 002b:00007febb77fd6a0 EFLAGS: ffffffff ORIG_RAX: 000000000000002c"
    assert impossible_flags([first, later]) == ("" if possible else flags)


def test_splat_without_flags() -> None:
    assert impossible_flags(["[    1.000000] WARNING: CPU: 0 PID: 1 at net/core/dev.c:1"]) == ""


@pytest.mark.parametrize("accelerator", ["kvm", "tcg", "mttcg"])
def test_emulator_is_blamed_for_impossible_flags(accelerator: str, tmp_path: Path) -> None:
    """And a processor's kernel is not excused by them."""
    request = parse(["--", "true"])
    request.environment["FAIRPATH_ACCEL"] = accelerator
    oops = "[    1.0] Oops: double fault: 0000 [#1]\n[    1.1] RSP: 0 EFLAGS: 090e3e02\n"
    outcome = Outcome(ready=True, dmesg=oops)
    if accelerator == "kvm":
        assert cli.judge(request, outcome, tmp_path / "log") == EXIT_SPLAT
    else:
        with pytest.raises(VmError, match=f"^{cli.EMULATOR_FAILED}: .*090e3e02"):
            cli.judge(request, outcome, tmp_path / "log")
