# SPDX-License-Identifier: GPL-2.0
"""Parts that the reports share: table cells, conditions of the measurement, the figures' style."""

from __future__ import annotations

import contextlib
import statistics
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    # Makes SVG files reproducible.
    "svg.hashsalt": "fairpath",
}


def row(cells: Iterable[str]) -> str:
    """One row of a Markdown table."""
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def table(header: list[str], rows: Iterable[list[str]], left: int = 1) -> list[str]:
    """A Markdown table; all but the first LEFT columns are right-aligned."""
    rule = ["---" if column < left else "---:" for column in range(len(header))]
    return [row(header), row(rule), *map(row, rows)]


def aims(rows: Iterable[tuple[str, str, bool, str]]) -> list[str]:
    """A table of aims: what it is, what was measured, whether that meets it, and if not, why."""
    return table(
        ["aim", "measured", ""],
        [
            [aim, measured, "met" if met else f"**missed**: {reason}"]
            for aim, measured, met, reason in rows
        ],
        left=3,
    )


def wrapped(lines: Iterable[str]) -> str:
    """LINES as text, with paragraphs and list items wrapped at 80 columns."""
    wrap = textwrap.TextWrapper(80, break_long_words=False, break_on_hyphens=False)
    text = []
    for line in lines:
        wrap.subsequent_indent = "  " if line.startswith("- ") else ""
        text += [line] if line.startswith(("|", "#", "!")) else wrap.wrap(line) or [""]
    return "\n".join(text) + "\n"


def quartiles(values: dict[str, float]) -> str:
    """A median and half of the interquartile range."""
    return f"{values['median']:.0f} ± {(values['high'] - values['low']) / 2:.0f}"


def median(point: dict[str, Any], name: str) -> float:
    """The median of NAME over the runs of a point."""
    return float(statistics.median(run[name] for run in point["runs"]))


def spread(point: dict[str, Any], name: str, digits: int, factor: float = 1) -> str:
    """The median of NAME over the runs of a point, and its range; – if it was not measured."""
    values = [run[name] * factor for run in point["runs"] if name in run]
    if not values:
        return "–"
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return text


def host_conditions(known: dict[str, Any], *more: str) -> str:
    """One line on the conditions of a measurement on the host."""
    parts = "; ".join([f"{known['date']}, fairpath {known['project']}", *more, known["processor"]])
    cpus, load = known["processors"], known["load"][0]
    return f"{parts}, {cpus} CPUs, Linux {known['host']}, load {load:.1f} at the start."


def guest_conditions(known: dict[str, Any]) -> list[str]:
    """List items on the conditions of a measurement in User-Mode Linux."""
    return [
        f"- {known['date']}, fairpath {known['project']}, Linux {known['kernel']} (User-Mode Linux,"
        f" native code, one CPU) built from {known['source']} with"
        f" `userspace/vm/fairvm/uml.config` and {known['compiler']}; {known['iproute2']}.",
        f"- {known['processor']}, {known['processors']} CPUs, host Linux {known['host']}, load"
        f" {known['load'][0]:.1f} at the start.",
    ]


@contextlib.contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure, its size in inches, saved beside PATH as PNG and SVG."""
    import matplotlib as mpl  # slow to load
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        new = Figure(figsize=(width, height), dpi=150, layout="constrained")
        yield new
        new.savefig(path.with_suffix(".png"))
        new.savefig(path.with_suffix(".svg"), metadata={"Date": None})
