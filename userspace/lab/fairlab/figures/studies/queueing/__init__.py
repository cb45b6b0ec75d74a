# SPDX-License-Identifier: GPL-2.0
"""Fair queueing: Roberts and Augé, "Fair queueing and congestion control" (slides, 2005).

Half of a link carries background traffic that is not bottlenecked there; one, two or four permanent
flows share the rest.  The buffer size, the congestion control, and FIFO or per-flow queues decide
the throughput of the permanent flows and the loss of the background.  The slides show ns-2's
windows and link utilisation over 100 s; here they are Linux's, with pfifo and drr_fq.

Another study checks the slides' theory: flows that arrive as a Poisson process and share a link
evenly (processor sharing) behave like the customers of an M/M/1 queue, whatever the distribution of
their sizes.  With drr_fq the mean number of flows in progress should be E = rho / (1 - rho).

The last one checks their thesis with a model of a queue: few flows have packets in it, at any rate
of the link and with any scheduler.
"""

from fairlab.figures.studies.queueing.active import Active
from fairlab.figures.studies.queueing.in_progress import Insensitivity
from fairlab.figures.studies.queueing.permanent import FourFlows, OneFlow, TwoFlows
from fairlab.figures.study import Study

STUDIES: tuple[Study, ...] = (OneFlow(), TwoFlows(), FourFlows(), Insensitivity(), Active())
