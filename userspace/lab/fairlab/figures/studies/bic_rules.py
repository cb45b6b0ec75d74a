# SPDX-License-Identifier: GPL-2.0
"""Response functions and window rules of the protocols that bic.py compares, as published."""

import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass


def aimd_response(p: float, increase: float = 1.0, decrease: float = 0.5) -> float:
    """AIMD(increase, decrease): packets per round trip, with one loss in 1/P packets."""
    return math.sqrt(increase * (2 - decrease) / (2 * decrease * p))


def hstcp_response(p: float) -> float:
    """HighSpeed TCP (RFC 3649); Reno in small windows: packets per round trip."""
    return max(aimd_response(p), 0.12 / math.pow(p, 0.835))


def stcp_response(p: float) -> float:
    """Scalable TCP; Reno in small windows: packets per round trip."""
    return max(aimd_response(p), 0.08 / p)


SMAX, SMIN, CUT, LOW_WINDOW = 32.0, 0.01, 0.125, 14  # BIC's, as published


def bic_response(p: float) -> float:
    """BIC, for windows above 2 Smax / CUT = 512 packets, where growth starts at Smax."""
    a = CUT * (2 - CUT) / (2 * SMAX)
    b = math.log2(SMAX / SMIN) + (2 - CUT) / 2
    root = math.sqrt(b * b + 4 * a * (SMAX - SMIN + 1 / p))
    return (2 - CUT) / p / (root + (1 - CUT) * b + CUT * (2 - CUT) / 2)


RESPONSES: dict[str, Callable[[float], float]] = {
    "reno": aimd_response,
    "aimd": lambda p: aimd_response(p, 32, 0.125),
    "hstcp": hstcp_response,
    "stcp": stcp_response,
    "bic": bic_response,
}


@dataclass
class Window:
    """A congestion window [packets] that follows a protocol's published rules: Reno's."""

    packets: float = 2.0
    increase: Callable[[float], float] = lambda window: 1.0  # in a round trip without a loss
    decrease: Callable[[float], float] = lambda window: 0.5  # the part that a loss takes away

    def grow(self) -> None:
        self.packets += self.increase(self.packets)

    def cut(self) -> None:
        self.packets = max(self.packets * (1 - self.decrease(self.packets)), 2.0)


# Windows and loss probabilities of RFC 3649.
LOW, HIGH = 38.0, 83000.0
LOW_P, HIGH_P = 1.5 / 38**2, 1e-7


def hstcp_place(window: float) -> float:
    """The position between the low (0) and the high window (1), on a log scale."""
    return max(0.0, math.log(window / LOW) / math.log(HIGH / LOW))


def hstcp_decrease(window: float) -> float:
    return 0.5 + (0.1 - 0.5) * hstcp_place(window)


def hstcp_increase(window: float) -> float:
    place, b = hstcp_place(window), hstcp_decrease(window)
    p = LOW_P * (HIGH_P / LOW_P) ** place
    return max(1.0, 2 * window**2 * p * b / (2 - b)) if place else 1.0


@dataclass
class BicWindow(Window):
    """BIC as in the paper; where that is ambiguous, as tcp_bic/bic_core.h."""

    wmax: float = 0.0  # 0: no loss yet
    probe: float = 0.0  # the step of max probing; 0: not probing
    open: bool = False  # far above Wmax: grow by Smax

    def grow(self) -> None:
        if self.packets < LOW_WINDOW:
            self.probe = 0.0
            self.packets += 1
        elif self.wmax and not self.open and self.packets < self.wmax:
            self.probe = 0.0
            distance = self.wmax - self.packets
            self.packets += min(max(min(distance / 2, SMAX), SMIN), distance)
        elif self.wmax and not self.open:
            self.probe = self.probe or 1.0
            self.packets += self.probe
            self.probe *= 2
            if self.probe >= SMAX:
                self.probe, self.open = 0.0, True
        else:
            self.packets += SMAX

    def cut(self) -> None:
        lost, self.probe, self.open = self.packets, 0.0, False
        if lost < LOW_WINDOW:
            self.packets = max(lost / 2, 2.0)
            return
        self.packets = lost * (1 - CUT)
        # Fast convergence: a smaller maximum than the last one, as another flow grows.
        self.wmax = (lost + self.packets) / 2 if lost < self.wmax else lost


WINDOWS: dict[str, Callable[..., Window]] = {
    "reno": Window,
    "aimd": functools.partial(Window, increase=lambda _: 32.0, decrease=lambda _: 0.125),
    "hstcp": functools.partial(Window, increase=hstcp_increase, decrease=hstcp_decrease),
    # Below 100 packets one packet per round trip, as in Linux.
    "stcp": functools.partial(
        Window, increase=lambda w: max(1, 0.01 * w), decrease=lambda _: 0.125
    ),
    "bic": BicWindow,
}


def simulate(window: Window, p: float, losses: int = 2000, seed: int = 1) -> float:
    """Simulate WINDOW with random loss of probability P for LOSSES losses: packets per round trip.

    It goes round by round: losses of a round are detected in the next one, in which the window does
    not grow; several lost packets of a round count as one loss.  The first tenth is warm-up.
    """
    dice = random.Random(seed)
    spared = math.log1p(-p)
    sent = rounds = 0.0
    growing = True
    for n in range(losses):
        if n == losses // 10:
            sent = rounds = 0.0
        lost = False
        while not lost:
            sent += window.packets
            rounds += 1
            lost = dice.random() > math.exp(spared * window.packets)
            if growing:
                window.grow()
            growing = True
        window.cut()
        growing = False
    return sent / rounds


@functools.cache
def simulated(kind: str, p: float) -> float:
    """Packets per round trip of a protocol's rules with random loss P."""
    return simulate(WINDOWS[kind](), p)
