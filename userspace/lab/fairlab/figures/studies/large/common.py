# SPDX-License-Identifier: GPL-2.0
"""What the simulated studies of SLBN share."""

from fairlab.figures.studies.forms import COMMIT, COMMIT_LABEL, PAPER, SIMULATED
from fairlab.results import plots

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN (NCA 2012), section IV"
NAMES = {
    SIMULATED[PAPER]: PAPER,
    SIMULATED[COMMIT]: COMMIT_LABEL,
    "bfyz": "BFYZ-like",
    "sperc": "s-PERC",
    "erica": "ERICA+",
    "xcp": "XCP",
    "rcp": "RCP",
    "piqi-rcp": "PIQI-RCP-like",
    "cobb": "COBB-like",
}
ASSUMPTIONS = (
    "The parameters of GT-ITM are not published. Ours: ten transit routers per domain, two stub"
    " domains of five routers at each, edge probabilities 0.5 and 0.42; stub to transit 1 Gbit/s.",
    "Control packets have the kernel's format (about 150 to 220 bytes) and use at most 1 % of a"
    " session's rate; sources pause for 5 ms on average between cycles.",
    "Data is a fluid; queues are unlimited.",
    "The text of BFYZ was not available: BFYZ-like keeps state per session, as BFYZ does, and is"
    " exact. Those of COBB and PIQI-RCP were not available either: COBB-like and PIQI-RCP-like only"
    " resemble them. s-PERC and XCP are not in the paper's figures.",
)
COLOURS = dict(zip(NAMES, (*plots.COLOURS, plots.GREY, plots.BROWN), strict=True))
#: Source and published side of claims that are not in the paper.
OURS = "This project; not in a paper"
#: 3 % of what a link sends in a second: our reading of the paper's bound on queues.
QUEUE_BOUND_MS = 30
#: Algorithms that only resemble those of the paper.
STAND_INS = ("bfyz", "piqi-rcp", "cobb")
#: More than guests have: a run takes seconds.
SEEDS = 10
