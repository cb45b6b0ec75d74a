# SPDX-License-Identifier: GPL-2.0
"""What every test may use: the helpers beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
