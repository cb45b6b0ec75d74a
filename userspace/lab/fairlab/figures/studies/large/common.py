# SPDX-License-Identifier: GPL-2.0
"""What the simulated studies of SLBN share."""

from fairlab.results import plots

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN (NCA 2012), section IV"
NAMES = {
    "slbn": "SLBN",
    "bfyz": "BFYZ (stand-in)",
    "sperc": "s-PERC",
    "erica": "ERICA+",
    "xcp": "XCP",
    "rcp": "RCP",
    "piqi-rcp": "PIQI-RCP (in part)",
    "cobb": "COBB-like",
}
ASSUMPTIONS = (
    "The parameters of GT-ITM are not published: ten transit routers to a domain, two stub domains"
    " of five at each, links with probability 0.5 and 0.42; stub to transit 1 Gbit/s.",
    "Control packets have the kernel's format (about 100 to 150 bytes) and take at most 1 % of a"
    " session's rate; sources pause for 5 ms on average between cycles.",
    "Data is a fluid; queues have no end.",
    "BFYZ's text was not at hand: the stand-in keeps state for each session, as BFYZ does, and is"
    " exact. Neither were Cobb and Gouda's and PIQI-RCP's: what stands for them is in their spirit"
    " only. s-PERC and XCP are not in the paper's figures.",
)
COLOURS = dict(zip(NAMES, (*plots.COLOURS, plots.GREY), strict=True))
#: The source and the published side of what the paper does not have.
OURS = "This project; not in a paper"
#: 3 % of what a link sends in a second: our reading of the paper's bound on queues.
QUEUE_BOUND_MS = 30
UNPUBLISHED = "a claim of ours: nothing is published"
