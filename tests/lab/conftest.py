# SPDX-License-Identifier: GPL-2.0
"""Lets the tests import the lab from the tree, and what stands beside this file."""

import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "userspace" / "lab")]

# Leaves nothing in the tree.
settings.register_profile("lab", database=None, print_blob=True)
settings.load_profile("lab")
