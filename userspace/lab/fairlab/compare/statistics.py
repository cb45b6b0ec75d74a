# SPDX-License-Identifier: GPL-2.0
"""Means with confidence intervals, percentiles, and Jain's index."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

#: The 97.5th percentile of Student's t with 1, 2, ... degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half of the width of its 95 % interval (Student); None for one value."""
    if len(values) < 2:
        return fmean(values), None
    free = len(values) - 1
    factor = STUDENT[free - 1] if free <= len(STUDENT) else NORMAL
    return fmean(values), factor * stdev(values) / math.sqrt(len(values))


def differs(ours: Sequence[float], other: Sequence[float]) -> float | None:
    """The mean of OURS - OTHER, value by value (the same seeds); None if it may be 0 (95 %)."""
    mean, half = interval([a - b for a, b in zip(ours, other, strict=True)])
    return mean if half is not None and abs(mean) > half else None


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that PERCENT of VALUES do not exceed, interpolated between two values."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all VALUES are equal, 1/n if one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0
