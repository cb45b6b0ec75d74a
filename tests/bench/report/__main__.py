# SPDX-License-Identifier: GPL-2.0
import sys
from pathlib import Path

from tests.bench.report import write

for name in sys.argv[1:]:
    write(Path(name))
