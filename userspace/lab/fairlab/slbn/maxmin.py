# SPDX-License-Identifier: GPL-2.0
"""Exact max-min fair rates: what all others are compared with.

A rate vector is max-min fair if no session can have more without one that has not more having less
(Bertsekas and Gallager, Data Networks, section 6.5.2).  It is found by filling: all sessions rise
together until a link is full or a demand is met; those that are stopped by that stay where they
are, the others go on.  Rates are fractions, so nothing is rounded.

A session's path names each link once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Session:
    """A session: the links that it crosses, and what it asks for [bit/s] (None: all it can get)."""

    path: Sequence[str]
    demand: int | None = None


@dataclass(frozen=True)
class Solution:
    """The max-min fair rate of each session [bit/s], and the links that restrict some session."""

    rates: dict[str, Fraction]
    bottlenecks: frozenset[str]


def solve(capacity: Mapping[str, int], sessions: Mapping[str, Session]) -> Solution:
    """The max-min fair rates; a link is a bottleneck if it is full and holds a session back.

    Each turn finds the lowest level at which a link fills up or a demand is met, and settles all
    sessions that this stops: so a session is looked at once, and a link in each turn.  A link
    without a capacity has room for everything.
    """
    left = {link: Fraction(rate) for link, rate in capacity.items()}
    crossing: dict[str, set[str]] = {link: set() for link in capacity}
    paths = {
        name: [link for link in session.path if link in capacity]
        for name, session in sessions.items()
    }
    for name, path in paths.items():
        if not path and sessions[name].demand is None:
            raise ValueError("a session without a link or a demand has no limit")
        for link in path:
            crossing[link].add(name)
    demands = sorted(
        (session.demand, name) for name, session in sessions.items() if session.demand is not None
    )
    demands.reverse()
    crossing = {link: names for link, names in crossing.items() if names}
    found: dict[str, Fraction] = {}
    bottlenecks: set[str] = set()
    while len(found) < len(sessions):
        while demands and demands[-1][1] in found:
            demands.pop()
        levels = {link: left[link] / len(names) for link, names in crossing.items()}
        level = min(levels.values(), default=None)
        if demands and (level is None or demands[-1][0] < level):
            stopped = {demands[-1][1]}
            level = Fraction(demands[-1][0])
        else:
            assert level is not None
            full = {link for link, share in levels.items() if share == level}
            bottlenecks |= full
            stopped = set().union(*(crossing[link] for link in full))
        for name in stopped:
            found[name] = level
            for link in paths[name]:
                left[link] -= level
                crossing[link].discard(name)
                if not crossing[link]:
                    del crossing[link]
    return Solution(found, frozenset(bottlenecks))


def rates(capacity: Mapping[str, int], sessions: Mapping[str, Session]) -> dict[str, Fraction]:
    """The max-min fair rate of each session [bit/s]."""
    return solve(capacity, sessions).rates
