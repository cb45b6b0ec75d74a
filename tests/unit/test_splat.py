# SPDX-License-Identifier: GPL-2.0
"""Which reports of data races fail a run: those about our modules' own code."""

import pytest
from fairvm.splat import splat_in

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
