# SPDX-License-Identifier: GPL-2.0
"""Values of several runs as text."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean


def spread(
    values: Sequence[float],
    digits: int = 2,
    unit: str = "",
    mean: Callable[[Sequence[float]], float] = fmean,
) -> str:
    """The mean of VALUES, the minimum and the maximum if there are several, and the unit."""
    if not values:
        return "none"
    text = f"{mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return f"{text} {unit}".strip()


def percent(parts: Sequence[float]) -> list[float]:
    return [100 * part for part in parts]


def mean_of(values: Sequence[float]) -> float:
    """The mean; NaN without values, so that no claim holds."""
    return fmean(values) if values else math.nan
