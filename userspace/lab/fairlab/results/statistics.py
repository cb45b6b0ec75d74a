# SPDX-License-Identifier: GPL-2.0
"""Means with confidence intervals, tests of differences, percentiles, and Jain's index."""

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TypeVar

#: The 97.5th percentile of Student's t with 1, 2, ... degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960

Test = TypeVar("Test", bound=Hashable)


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half of the width of its 95 % interval (Student); None for one value."""
    if len(values) < 2:
        return fmean(values), None
    free = len(values) - 1
    factor = STUDENT[free - 1] if free <= len(STUDENT) else NORMAL
    return fmean(values), factor * stdev(values) / math.sqrt(len(values))


def p_value(ours: Sequence[float], other: Sequence[float]) -> float:
    """Of a paired t-test, two-sided: the probability of such a difference if there is none.

    The values are paired, with the same seeds; at least two pairs.
    """
    gaps = [a - b for a, b in zip(ours, other, strict=True)]
    mean, spread = fmean(gaps), stdev(gaps)
    if not spread:
        return 0.0 if mean else 1.0
    free = len(gaps) - 1
    t = mean / (spread / math.sqrt(len(gaps)))
    return incomplete_beta(free / 2, 0.5, free / (free + t * t))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz's method).

    Abramowitz and Stegun, 26.5.8; Student's distribution is one of its values (26.5.27).
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # It converges quickly below the mean only.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    tiny, c = 1e-300, 1.0
    d = 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 300):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + factor * d or tiny)
            c = 1 + factor / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value


def holm(tests: Mapping[Test, float], level: float = 0.05) -> set[Test]:
    """The tests with a difference: with all together, one is wrong with probability LEVEL at most.

    S. Holm: A simple sequentially rejective multiple test procedure (1979).
    """
    found: set[Test] = set()
    for rank, (test, p) in enumerate(sorted(tests.items(), key=lambda one: one[1])):
        if p > level / (len(tests) - rank):
            break
        found.add(test)
    return found


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
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
