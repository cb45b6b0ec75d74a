# SPDX-License-Identifier: GPL-2.0
"""The machine, its kernel, and the emulated network on it."""
