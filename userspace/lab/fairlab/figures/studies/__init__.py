# SPDX-License-Identifier: GPL-2.0
"""The published figures that are made again here, a module for each family of them.

study.py has what a study is; gallery.py runs and draws them.  Whoever adds one writes a subclass of
Study, puts it into its module's STUDIES, and `fairlab figure` knows it.
"""

from fairlab.figures.studies import bic, gaimd, large, queueing, slbn
from fairlab.figures.study import Study

ALL: tuple[Study, ...] = tuple(
    study for family in (bic, gaimd, queueing, slbn, large) for study in family.STUDIES
)
