# SPDX-License-Identifier: GPL-2.0
"""Published figures, run and drawn again: studies, the gallery, the report."""
