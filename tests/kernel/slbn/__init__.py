# SPDX-License-Identifier: GPL-2.0
"""SLBN's links, and slbnctl."""
