# SPDX-License-Identifier: GPL-2.0
"""What every test may use: the helpers beside this file, and root's programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# Not every user has modprobe and dkms on the path.
os.environ["PATH"] += ":/usr/sbin:/sbin"
