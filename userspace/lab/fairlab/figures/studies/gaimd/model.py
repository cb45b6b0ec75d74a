# SPDX-License-Identifier: GPL-2.0
"""The GAIMD model: send rate by loss, TCP-friendly parameters, two synchronised windows."""

import math

CHOSEN = 0.31, 0.875  # alpha, beta


def rate(
    p: float, rtt: float, t0: float, alpha: float = 1.0, beta: float = 0.5, b: int = 1
) -> float:
    """The send rate of GAIMD(ALPHA, BETA) [packets/s], if P of its packets indicate a loss."""
    by_acks = rtt * math.sqrt(2 * b * (1 - beta) * p / (alpha * (1 + beta)))
    timeouts = min(1.0, 3 * math.sqrt((1 - beta * beta) * b * p / (2 * alpha)))
    return 1 / (by_acks + t0 * timeouts * p * (1 + 32 * p * p))


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
