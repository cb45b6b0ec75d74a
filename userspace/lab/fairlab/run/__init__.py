# SPDX-License-Identifier: GPL-2.0
"""Running a description on an engine, and the traffic of a run."""
