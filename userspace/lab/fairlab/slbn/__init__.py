# SPDX-License-Identifier: GPL-2.0
"""Experiments with SLBN: sessions, backbones, the max-min reference, the simulator."""
