# SPDX-License-Identifier: GPL-2.0
"""The GAIMD model: send rate by loss, TCP-friendly parameters, two synchronised windows."""

import functools
import itertools
import math
from typing import Any

CHOSEN = 0.31, 0.875  # alpha, beta


def duplicates(p: float, rtt: float, alpha: float, beta: float, b: int = 1) -> float:
    """The slides' TD: seconds for a packet, by losses that duplicate ACKs indicate."""
    return rtt * math.sqrt(2 * b * (1 - beta) * p / (alpha * (1 + beta)))


def timeouts(p: float, t0: float, alpha: float, beta: float, b: int = 1) -> float:
    """The slides' TO: seconds for a packet, by timeouts."""
    part = min(1.0, 3 * math.sqrt((1 - beta * beta) * b * p / (2 * alpha)))
    return t0 * part * p * (1 + 32 * p * p)


def rate(
    p: float, rtt: float, t0: float, alpha: float = 1.0, beta: float = 0.5, b: int = 1
) -> float:
    """The send rate of GAIMD(ALPHA, BETA) [packets/s], if P of its packets indicate a loss."""
    return 1 / (duplicates(p, rtt, alpha, beta, b) + timeouts(p, t0, alpha, beta, b))


def exponents(p: float) -> tuple[float, float]:
    """Those of TD and TO in p, at P, for Reno."""
    more = 1.001 * p
    found = [
        math.log(term(more, 1, 1, 0.5) / term(p, 1, 1, 0.5)) / math.log(more / p)
        for term in (duplicates, timeouts)
    ]
    return found[0], found[1]


def equal_everywhere(step: float = 1e-4) -> list[tuple[float, float]]:
    """All (α, β) that have Reno's TD and TO, so its rate for all p; β to within STEP."""

    def apart(beta: float) -> float:
        return alpha_td(beta) - alpha_to(beta)

    betas = [(n + 0.5) * step for n in range(round(1 / step))]
    pairs = itertools.pairwise(betas)
    roots = [(low + high) / 2 for low, high in pairs if apart(low) * apart(high) <= 0]
    return [(alpha_td(beta), beta) for beta in roots]


def monotone() -> dict[str, int]:
    """The sign of the change of the rate with each parameter: 1, -1, or 0 if it is not the same for
    all of p, RTT, T0, b, α and β on a grid.
    """
    grid: dict[str, tuple[Any, ...]] = {
        "p": (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3),
        "rtt": (0.01, 0.1, 1.0),
        "t0": (0.2, 1.0, 3.0),
        "alpha": (0.1, 0.31, 1.0, 2.0),
        "beta": (0.25, 0.5, 0.75, 0.875),
        "b": (1, 2),
    }
    found = {}
    for name, values in grid.items():
        rest = [key for key in grid if key != name]
        signs = set()
        for point in itertools.product(*(grid[key] for key in rest)):
            there = dict(zip(rest, point, strict=True))
            rates = [rate(**there, **{name: value}) for value in values]
            signs |= {1 if after > before else -1 for before, after in itertools.pairwise(rates)}
        found[name] = signs.pop() if len(signs) == 1 else 0
    return found


def alpha_td(beta: float) -> float:
    """The α of equal rates with Reno, without timeouts (TD-friendly)."""
    return 3 * (1 - beta) / (1 + beta)


def alpha_to(beta: float) -> float:
    """The α of equal rates with Reno, if timeouts dominate (TO-friendly)."""
    return 4 * (1 - beta * beta) / 3


STEPS = 100


def error(alpha: float, beta: float, threshold: float) -> float:
    """The mean relative difference from Reno's rate over p from 0 to THRESHOLD; T0 is 4 RTT."""
    off = 0.0
    for n in range(STEPS):
        p = (n + 0.5) / STEPS * threshold
        off += abs(rate(p, 1, 4, alpha, beta) / rate(p, 1, 4) - 1)
    return off / STEPS


@functools.cache
def alpha_least(beta: float, threshold: float) -> float:
    """The α with the least error, to three decimals."""
    coarse = min(range(10, 2500, 20), key=lambda a: error(a / 1000, beta, threshold))
    fine = range(max(1, coarse - 20), coarse + 21)
    return min(fine, key=lambda a: error(a / 1000, beta, threshold)) / 1000


def steadiness(beta: float) -> float:
    """The coefficient of variation of AIMD with Poisson losses."""
    return math.sqrt((1 - beta) / (1 + beta))


def synchronous(
    start: tuple[float, float], capacity: float, drops: int
) -> list[tuple[float, float]]:
    """Chiu and Jain's model: windows of Reno and GAIMD with synchronised losses at CAPACITY."""
    alpha, beta = CHOSEN
    reno, gaimd = start
    path = [start]
    for _ in range(drops):
        steps = (capacity - reno - gaimd) / (1 + alpha)
        reno, gaimd = reno + steps, gaimd + alpha * steps
        path.append((reno, gaimd))
        reno, gaimd = reno / 2, beta * gaimd
        path.append((reno, gaimd))
    return path
