# SPDX-License-Identifier: GPL-2.0
"""Descriptions of what is run, as plain data that has been checked."""
