# SPDX-License-Identifier: GPL-2.0
"""From raw data to results: analysis, validity, storage, plots."""
