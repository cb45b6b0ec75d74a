# SPDX-License-Identifier: GPL-2.0
"""The max-min reference: exact max-min fair rates, to compare others with.

Rates are max-min fair if no session's rate can rise without lowering that of a session with an
equal or smaller rate (Bertsekas and Gallager, Data Networks, section 6.5.2).  They are computed by
water filling: the rates of all sessions rise together until a link is full or a demand is met; the
sessions that these limit keep their rates, the others go on.  Rates are fractions: no rounding.
With weights, the rates rise in proportion to them.

A session's path names each link once.  Sessions have any keys.

Where sessions come and go, OverTime has the rates from each such moment on.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Session:
    """A session: its links, its demand [bit/s] (None: unlimited), and its weight."""

    path: Sequence[str]
    demand: int | None = None
    weight: int = 1


@dataclass(frozen=True)
class Solution(Generic[Key]):
    """The max-min fair rate of each session [bit/s], and the bottlenecks."""

    rates: dict[Key, Fraction]
    bottlenecks: frozenset[str]


def solve(capacity: Mapping[str, int], sessions: Mapping[Key, Session]) -> Solution[Key]:
    """The max-min fair rates; a link is a bottleneck if it is full and limits a session.

    A level is a rate for a weight of 1.  Each round finds the lowest level at which a link is full
    or a demand is met, and fixes the rates of the sessions that these limit.  A link without a
    capacity is unlimited.
    """
    left = {link: Fraction(rate) for link, rate in capacity.items()}
    crossing: dict[str, set[Key]] = {link: set() for link in capacity}
    paths = {
        name: [link for link in session.path if link in capacity]
        for name, session in sessions.items()
    }
    for name, path in paths.items():
        if not path and sessions[name].demand is None:
            raise ValueError("a session without a link or a demand has no limit")
        for link in path:
            crossing[link].add(name)
    demands = [
        (Fraction(session.demand, session.weight), name)
        for name, session in sessions.items()
        if session.demand is not None
    ]
    demands.sort(key=lambda one: one[0], reverse=True)
    crossing = {link: names for link, names in crossing.items() if names}
    found: dict[Key, Fraction] = {}
    bottlenecks: set[str] = set()
    while len(found) < len(sessions):
        while demands and demands[-1][1] in found:
            demands.pop()
        levels = {
            link: left[link] / sum(sessions[name].weight for name in names)
            for link, names in crossing.items()
        }
        level = min(levels.values(), default=None)
        if demands and (level is None or demands[-1][0] < level):
            stopped = {demands[-1][1]}
            level = demands[-1][0]
        else:
            assert level is not None
            full = {link for link, share in levels.items() if share == level}
            bottlenecks |= full
            stopped = set().union(*(crossing[link] for link in full))
        for name in stopped:
            rate = found[name] = level * sessions[name].weight
            for link in paths[name]:
                left[link] -= rate
                crossing[link].discard(name)
                if not crossing[link]:
                    del crossing[link]
    return Solution(found, frozenset(bottlenecks))


def rates(capacity: Mapping[str, int], sessions: Mapping[Key, Session]) -> dict[Key, Fraction]:
    """The max-min fair rate of each session [bit/s]."""
    return solve(capacity, sessions).rates


def last(steps: Sequence[tuple[float, int]], when: float) -> int:
    """The value of the step function STEPS at WHEN; before the first, 0."""
    place = bisect_right(steps, when, key=lambda step: step[0])
    return steps[place - 1][1] if place else 0


class OverTime(Generic[Value]):
    """What is so from each of TIMES on, computed once when it is needed; nothing is so BEFORE."""

    def __init__(
        self, times: Iterable[float], compute: Callable[[float], Value], before: Value
    ) -> None:
        self.times = sorted(set(times))
        self.compute, self.before = compute, before
        self._known: dict[int, Value] = {}

    def at(self, when: float) -> Value:
        place = bisect_right(self.times, when) - 1
        if place < 0:
            return self.before
        if place not in self._known:
            self._known[place] = self.compute(self.times[place])
        return self._known[place]

    def steps(self, begin: float, end: float) -> Iterator[tuple[float, float, Value]]:
        """The intervals from BEGIN to END in which nothing changes."""
        for a, b in pairwise((begin, *(when for when in self.times if begin < when < end), end)):
            yield a, b, self.at(a)
