# SPDX-License-Identifier: GPL-2.0
"""So that `python3 -m fairlab` works in a tree where nothing is installed."""

import sys

from fairlab.cli.main import main

sys.exit(main())
