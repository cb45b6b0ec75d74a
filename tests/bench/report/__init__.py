# SPDX-License-Identifier: GPL-2.0
"""Benchmark results (JSON) as Markdown tables and, for some, figures (PNG, SVG).

`python3 -m tests.bench.report docs/bench-NAME.json` writes bench-NAME.md and the figures beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.report import drr_fq, slbn, slbnd, slbnsim, virtual, windows
from tests.bench.report.common import wrapped

TEXTS = {
    "drr_fq": drr_fq.text,
    "slbn": slbn.text,
    "slbnd": slbnd.text,
    "slbnsim": slbnsim.text,
    "virtual": virtual.text,
    "windows": windows.text,
}
FIGURES = {"drr_fq": drr_fq.draw, "slbn": slbn.draw}


def write(path: Path) -> None:
    """Write the table and the figure beside the data in PATH, bench-NAME.json."""
    name = path.stem.removeprefix("bench-")
    data = json.loads(path.read_text())
    if name in FIGURES:
        FIGURES[name](data, path)
    path.with_suffix(".md").write_text(wrapped(TEXTS[name](data)))
