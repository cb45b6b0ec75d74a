# SPDX-License-Identifier: GPL-2.0
"""The qdisc drr_fq."""
