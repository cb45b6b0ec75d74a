# SPDX-License-Identifier: GPL-2.0
"""The judgement of a claim: a pure function of its registration and of what was measured.

A measurement has one or more parts (as many flows, links, protocols, ... as the claim is about),
each with a value for every seed.  The claim's range has to hold for all parts.  A part is

    consistent     if its 95 % interval over the seeds (Student) is within the range;
    inconsistent   if it is outside; if the claim is about each run, also if one run is;
    inconclusive   otherwise, and with one seed, or with fewer than registered.

Of seeds that fit an open range by an infinity (another algorithm never settled), the interval is
that of the others, if there are two: it would only be further inside.  A computed value has none.

A claim that is not testable here (stand-ins, parameters that are not published) has the verdict
NOT_TESTABLE whatever was measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlab.figures.registry import Claim
from fairlab.figures.study import Measured
from fairlab.results.statistics import interval

CONSISTENT, INCONSISTENT, INCONCLUSIVE = "consistent", "inconsistent", "inconclusive"
NOT_TESTABLE, NOT_RUN = "not testable", "not run"
VERDICTS = (CONSISTENT, INCONSISTENT, INCONCLUSIVE, NOT_TESTABLE)
WORST = (INCONSISTENT, INCONCLUSIVE, CONSISTENT)  # first, of the parts of a claim


@dataclass(frozen=True)
class Part:
    """A part of a measurement: its values, their mean, and its interval, if there is one."""

    name: str
    values: tuple[float, ...]
    mean: float
    low: float | None
    high: float | None
    verdict: str
    holds: bool  # the mean, and each value if the claim is about each
    outside: float  # how far that is outside of the range; negative: within


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict; HOLDS: what it would be without intervals."""

    verdict: str
    parts: tuple[Part, ...]
    holds: bool

    @property
    def worst(self) -> Part | None:
        """The part that decides; of several with its verdict, the one farthest outside."""
        ordered = sorted(self.parts, key=lambda part: (WORST.index(part.verdict), -part.outside))
        return ordered[0] if ordered else None


def estimate(values: Sequence[float], statistic: str) -> tuple[float, float | None, float | None]:
    """The mean by STATISTIC, and its 95 % interval; None: there is none."""
    if len(set(values)) == 1:
        known = len(values) > 1 or None
        return values[0], known and values[0], known and values[0]
    if not all(map(math.isfinite, values)):
        return sum(values) / len(values), -math.inf, math.inf
    logs = statistic == "geometric mean" and min(values) > 0
    mean, half = interval(list(map(math.log, values)) if logs else values)
    assert half is not None
    ends = mean, mean - half, mean + half
    return (math.exp(ends[0]), math.exp(ends[1]), math.exp(ends[2])) if logs else ends


def finite(claim: Claim, values: Sequence[float]) -> Sequence[float]:
    """VALUES without infinities that fit, if two others are left."""
    ends = (claim.least, claim.most)
    known = [one for one in values if math.isfinite(one) or one not in ends]
    return known if len(known) > 1 else values


def judge_part(claim: Claim, name: str, values: Sequence[float]) -> Part:
    mean, low, high = estimate(finite(claim, values), claim.statistic)

    def fits(value: float) -> bool:
        return claim.least <= value <= claim.most

    def outside(value: float) -> float:
        gaps = (claim.least - value, value - claim.most)
        # An infinite value has no distance from an open end.
        return max((gap for gap in gaps if not math.isnan(gap)), default=-math.inf)

    each = claim.statistic == "each run"
    holds = all(map(fits, values)) if each else fits(mean)
    if claim.statistic == "exact":
        verdict, low, high = (CONSISTENT if holds else INCONSISTENT), None, None
    elif each and not holds:
        verdict = INCONSISTENT
    elif low is None or high is None or len(values) < claim.seeds:
        verdict = INCONCLUSIVE
    elif high < claim.least or low > claim.most:
        verdict = INCONSISTENT
    else:
        verdict = CONSISTENT if fits(low) and fits(high) else INCONCLUSIVE
    farthest = max(map(outside, values if each else (mean,)))
    return Part(name, tuple(values), mean, low, high, verdict, holds, farthest)


def judge(claim: Claim, measured: Measured) -> Judgement:
    """The verdict on CLAIM."""
    named = measured if isinstance(measured, Mapping) else {"": measured}
    parts = tuple(judge_part(claim, name, values) for name, values in named.items() if values)
    holds = bool(parts) and all(part.holds for part in parts)
    worst = min((part.verdict for part in parts), key=WORST.index, default=INCONCLUSIVE)
    return Judgement(NOT_TESTABLE if claim.not_testable else worst, parts, holds)


# As text


def number(value: float) -> str:
    """Three digits; thousands in full."""
    value += 0.0  # a negative zero is 0
    if not math.isfinite(value):
        return "never" if value > 0 else "-∞" if value < 0 else "unknown"
    if value == 0 or 0.001 <= abs(value) < 1000:
        text = f"{value:.3g}"
        return f"{value:.0f}" if "e" in text else text
    return f"{value:,.0f}" if abs(value) < 1e6 and abs(value) >= 1000 else f"{value:.2e}"


def part_in_words(part: Part) -> str:
    """As "mean [low, high], least to most"."""
    text = number(part.mean)
    if part.low is not None and part.high is not None:
        text += f" [{number(part.low)}, {number(part.high)}]"
    if len(part.values) > 1 and min(part.values) < max(part.values):
        text += f", {number(min(part.values))} to {number(max(part.values))}"
    return f"{part.name}: {text}" if part.name else text


#: Parts of a claim that are written out; of more, the worst, and the range of their means.
SHOWN = 3


def in_words(judgement: Judgement, unit: str) -> str:
    """What was measured: the mean of the seeds, its interval, the least and the largest."""
    worst = judgement.worst
    if worst is None:
        return "not measured"
    if len(judgement.parts) <= SHOWN:
        text = "; ".join(map(part_in_words, judgement.parts))
    else:
        means = [part.mean for part in judgement.parts]
        ends = f"{number(min(means))} to {number(max(means))}"
        text = f"{part_in_words(worst)} (worst of {len(means)} parts, {ends})"
    return f"{text} {unit}".strip()


def range_in_words(claim: Claim) -> str:
    """What is accepted."""
    if claim.least == claim.most:
        text = number(claim.least)
    elif math.isinf(claim.least):
        text = f"at most {number(claim.most)}"
    elif math.isinf(claim.most):
        text = f"at least {number(claim.least)}"
    else:
        text = f"{number(claim.least)} to {number(claim.most)}"
    return f"{text} {claim.unit}".strip()
