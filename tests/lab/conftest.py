# SPDX-License-Identifier: GPL-2.0
"""Lets the tests import the lab from the tree, and what stands beside this file."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TOP / "userspace" / "lab")]

# What hypothesis remembers goes where everything goes that is made.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(TOP / "build" / "hypothesis"))
