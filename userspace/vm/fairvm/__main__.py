# SPDX-License-Identifier: GPL-2.0
import sys

from fairvm.cli import main

sys.exit(main())
