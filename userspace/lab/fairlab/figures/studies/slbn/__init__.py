# SPDX-License-Identifier: GPL-2.0
"""SLBN on the kernel: Mozo, López-Presa, Fernández Anta, NCA 2012, figures 3 to 10.

The paper's figures are from a discrete-event simulator with 50,000 to 180,000 sessions on 1,100 to
11,000 routers.  Here Linux computes the rates: sch_slbn on each link, slbnd on each router, and
hundreds of sessions on the topologies of real backbones.  The pattern of joins and leaves, the
definition of errors and the plots are the paper's.

The other studies check what the paper says in words: that convergence takes as many cycles as there
are levels of bottlenecks, whatever the duration of a cycle; what happens without its assumptions,
that no control packet is lost and each source leaves properly; and how plain TCP shares the same
network among the same flows.

All but one of them are there twice: with the paper's form of SLBN (sch_slbn's `commit off headroom
0 epoch 0 memory 0`), and with ours, whose claims are not the paper's (forms.py).
"""

from fairlab.figures.studies.forms import FORMS
from fairlab.figures.studies.slbn.backbone import Abilene, Research
from fairlab.figures.studies.slbn.healing import Healing
from fairlab.figures.studies.slbn.levels import Levels
from fairlab.figures.studies.slbn.tcp import BesideTcp
from fairlab.figures.study import Study

STUDIES: tuple[Study, ...] = (
    *(kind(form) for kind in (Abilene, Research, Levels, BesideTcp) for form in FORMS),
    Healing(),
)
