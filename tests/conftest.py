# SPDX-License-Identifier: GPL-2.0
"""What every test may use: root's programs."""

from __future__ import annotations

import os
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]

# Not every user has modprobe and dkms on the path.
os.environ["PATH"] += ":/usr/sbin:/sbin"
# The binding loads the library from the tree.
os.environ["LIBSLBN"] = str(TOP / "build/libslbn/libslbn.so.0")
# What hypothesis remembers goes where everything goes that is made.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(TOP / "build" / "hypothesis"))
