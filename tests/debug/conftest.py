# SPDX-License-Identifier: GPL-2.0
"""What the tests of the engines offer is used here, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))
