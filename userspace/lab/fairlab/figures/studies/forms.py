# SPDX-License-Identifier: GPL-2.0
"""The forms of SLBN that studies run.

The paper's algorithm and the one of this project are not the same: ours plans and commits rates
(docs/protocol.md), and never assigns more than a link has.  So each figure of the paper runs the
paper's form, the only one that may run for the paper's claims (claims/slbn.toml).  Ours is beside
it, with claims of this project's source (claims/fairpath.toml).
"""

from typing import Any

PAPER = "SLBN as published"
COMMIT = "SLBN with commit"
FORMS = (PAPER, COMMIT)
#: the latter, and slbnd limits the receive windows of TCP, as it does by default
WINDOWS = f"{COMMIT} and windows"
#: for captions
LABELS = {PAPER: PAPER, COMMIT: f"{COMMIT}, ours", WINDOWS: f"{WINDOWS}, ours"}
#: of a figure's name
SUFFIXES = {PAPER: "", COMMIT: "-commit", WINDOWS: "-windows"}
#: slbnsim's name of a form
SIMULATED = {PAPER: "slbn-paper", COMMIT: "slbn"}
#: sch_slbn's options of a form, of a sessions.Plan; its headroom is 0 unless said otherwise
LINKS: dict[str, dict[str, Any]] = {
    PAPER: {"commit": False, "epoch_ms": 0, "visits": 0},
    COMMIT: {},
}
