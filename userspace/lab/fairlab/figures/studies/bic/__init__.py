# SPDX-License-Identifier: GPL-2.0
"""BIC: Rhee and Xu's slides "Congestion Control on High-Speed Networks", which summarise Xu,
Harfoush, Rhee: Binary Increase Congestion Control for Fast Long-Distance Networks (INFOCOM 2004).

The originals were made with ns-2; neither the scripts nor most of the settings are published, so
each study lists its assumptions.  All of them differ from ns-2 in the following:

- The protocols are Linux's, on a stack with SACK, PRR and RACK, which loses little time after a
  loss.  AIMD(32, 1/8) is our `gaimd`, BIC our `bic` with the paper's parameters, Scalable TCP
  mainline's `scalable`; these count acknowledged packets, so delayed ACKs do not slow them down.
- HighSpeed TCP is mainline's `highspeed`, with a table from RFC 3649.  It counts ACKs, and delayed
  ACKs would halve its growth; its receivers acknowledge each packet, as ns-2's sinks do.
- Packets have 1500 bytes (the slide on utilisation says 1000, its notes 1500), so windows are two
  thirds of those with 1000 bytes.

Where a figure has no values in the text, the claim is what the text says about it; where the text
gives no number for "fill" or "friendly", the tolerance is our threshold.

Response functions are compared with two references.  The published formulas assume periodic losses,
one in 1/p packets.  Here losses are random (netem), so the same rules are also simulated round by
round with random losses (rules.py): a difference from the formula but not from this simulation
comes from the randomness of losses, and from several losses in a round trip, not from the
implementation.
"""

from fairlab.figures.studies.bic.buffers import Buffer
from fairlab.figures.studies.bic.convergence import Convergence
from fairlab.figures.studies.bic.friendliness import Friendliness
from fairlab.figures.studies.bic.response import Response
from fairlab.figures.studies.bic.rtt_fairness import RttFairness
from fairlab.figures.studies.bic.utilisation import Utilisation
from fairlab.figures.study import Study

STUDIES: tuple[Study, ...] = (
    Utilisation(),
    RttFairness(),
    Friendliness(),
    Buffer(),
    Response(),
    Convergence(),
)
