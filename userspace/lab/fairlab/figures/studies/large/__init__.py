# SPDX-License-Identifier: GPL-2.0
"""SLBN and its competitors on the networks of its paper, simulated by slbnsim.

Mozo, López-Presa, Fernández Anta: "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based Explicit
Congestion Control", NCA 2012, section IV: tens of thousands of sessions join and leave on
transit-stub networks of 1,100 and 11,000 routers.  Links run the kernel's algorithm
(include/fairpath/slbn/slbn_core.h).  The competitors are as close to their papers as these allow;
slbnsim's sources describe each.

Errors are defined as in the paper.  At a source: the relative difference between the assigned rate
and the max-min rate for the sessions that exist at that moment.  At a bottleneck: the relative
difference between the sum of the assigned rates and the link's capacity.  Figures show the mean,
the 10th and the 90th percentile.

The package has all figures of that section, 3 to 10, and some of our own: loss of control packets,
sessions that fail, a link that is cut; s-PERC beside SLBN on short and on long links; a thousand to
a million sessions; 1a by parameters that the paper does not give, and with packets instead of a
fluid.  For the latter nothing is published.
"""

from fairlab.figures.studies.large.accuracy import Experiment1a, Experiment2a, Experiment2b
from fairlab.figures.studies.large.completion import Experiment1b
from fairlab.figures.studies.large.packets import Packets
from fairlab.figures.studies.large.recovery import Failures, Loss
from fairlab.figures.studies.large.scale import Scale
from fairlab.figures.studies.large.sensitivity import Sensitivity
from fairlab.figures.studies.large.settling import Settling
from fairlab.figures.study import Study

STUDIES: tuple[Study, ...] = (
    Experiment1a(),
    Experiment1b(),
    Experiment2a(),
    Experiment2b(),
    Loss(),
    Failures(),
    Settling(),
    Scale(),
    Sensitivity(),
    Packets(),
)
