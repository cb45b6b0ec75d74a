# SPDX-License-Identifier: GPL-2.0
"""GAIMD: Yang and Lam, "General AIMD congestion control" (ICNP 2000), from Lam's slides.

GAIMD(α, β) adds α packets to its window in each round trip and keeps the fraction β of it after a
loss; Reno is (1, 1/2).  The authors extend the formula of Padhye et al. for Reno's rate to any α
and β, use it to choose (0.31, 0.875) as TCP-friendly, and check that by simulation.  The studies
repeat this with tcp_gaimd and Linux's Reno.

In the formula p is the fraction of sent packets that indicate a loss.  Padhye et al. counted loss
indications in traces: each fast retransmission, and each sequence of timeouts without an ACK
between them.  The studies count them in the same way, from samples of TCP_INFO closer together than
a round trip: both kinds last at least that long.  RTT is the mean of TCP's measurements (it
includes the queue), T0 the mean of the retransmission timer while it is not backed off.  Linux's
timer is at least 200 ms longer than the RTT, so T0 is about four RTTs.

Linux's loss recovery is much younger than the formula: SACK, RACK, tail loss probes and F-RTO.  The
study of the formula disables them (RENO_OF_2000), since it is about the model's assumptions, and
runs some cases with them.

An ACK of several packets counts as that many, in tcp_gaimd as in Linux's Reno: b is 1.
"""

from fairlab.figures.studies.gaimd.curves import Curves
from fairlab.figures.studies.gaimd.fluctuation import Fluctuation
from fairlab.figures.studies.gaimd.formula import Formula
from fairlab.figures.studies.gaimd.friendliness import Friendliness
from fairlab.figures.studies.gaimd.window import Window
from fairlab.figures.study import Study

STUDIES: tuple[Study, ...] = (Formula(), Friendliness(), Curves(), Fluctuation(), Window())
