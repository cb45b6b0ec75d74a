# SPDX-License-Identifier: GPL-2.0
"""Values of several runs as text."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from fairlab.figures.study import Data, Measured, Numbers


def spread(
    values: Sequence[float],
    digits: int = 2,
    unit: str = "",
    mean: Callable[[Sequence[float]], float] = fmean,
) -> str:
    """The mean of VALUES, the minimum and the maximum if there are several, and the unit."""
    text = f"{mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return f"{text} {unit}".strip()


def mean(runs: Sequence[Numbers], key: str) -> float:
    """The mean of KEY over RUNS."""
    return fmean(run[key] for run in runs)


def percent(parts: Sequence[float]) -> list[float]:
    return [100 * part for part in parts]


def mean_of(values: Sequence[float]) -> float:
    """The mean; NaN without values, so that no claim holds."""
    return fmean(values) if values else math.nan


def gaps(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """The differences, seed by seed."""
    return [one - other for one, other in zip(ours, others, strict=False)]


def ratios(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """The ratios, seed by seed; none at all are as many as none."""
    pairs = zip(ours, others, strict=False)
    return [one / other if other else math.inf if one else 1.0 for one, other in pairs]


def factor_apart(values: Sequence[float]) -> float:
    """By which factor ratios are off 1 on average: ratios and their reciprocals do not cancel."""
    return math.exp(fmean(abs(math.log(value)) for value in values)) if values else math.nan


def by_seed(
    data: Data, measure: Callable[[dict[str, Numbers]], dict[str, float | dict[str, float]]]
) -> dict[str, Measured]:
    """What MEASURE finds in the runs of each seed that all cases have."""
    seeds = min(map(len, data.values()), default=0)
    each = [measure({name: runs[n] for name, runs in data.items()}) for n in range(seeds)]
    found: dict[str, Measured] = {}
    for name, first in each[0].items() if each else ():
        if isinstance(first, dict):
            found[name] = {part: [one[name][part] for one in each] for part in first}  # type: ignore[index]
        else:
            found[name] = [float(one[name]) for one in each]  # type: ignore[arg-type]
    return found
