# SPDX-License-Identifier: GPL-2.0
"""Examples of hypothesis have no time limit: a busy machine is no defect of the code."""

from hypothesis import settings

settings.register_profile("fairpath", deadline=None)
settings.load_profile("fairpath")
