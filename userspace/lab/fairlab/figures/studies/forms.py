# SPDX-License-Identifier: GPL-2.0
"""The forms of SLBN that studies run, and whose results may count as the paper's.

The paper's algorithm and the one of this project are not the same: ours plans and commits rates
(docs/protocol.md), and never assigns more than a link has.  So what it shows is no reproduction.
"""

#: slbn-paper of slbnsim; in the kernel `commit off headroom 0 epoch 0 memory 0`
PAPER = "SLBN as published"
#: slbn of slbnsim, and the kernel's defaults
COMMIT = "SLBN with commit"
#: for captions
COMMIT_LABEL = f"{COMMIT}, ours"
OTHERS = "the compared protocols"
#: whose claims the paper on SLBN makes
PUBLISHED = frozenset({PAPER, OTHERS})
