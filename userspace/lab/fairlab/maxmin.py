# SPDX-License-Identifier: GPL-2.0
"""Exact max-min fair rates: what all others are compared with.

A rate vector is max-min fair if no session can have more without one that has not more having less
(Bertsekas and Gallager, Data Networks, section 6.5.2).  It is found by filling: all sessions rise
together until a link is full or a demand is met; those that are stopped by that stay where they
are, the others go on.  Rates are fractions, so nothing is rounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Session:
    """A session: the links that it crosses, and what it asks for [bit/s] (None: all it can get)."""

    path: Sequence[str]
    demand: int | None = None


def rates(capacity: Mapping[str, int], sessions: Mapping[str, Session]) -> dict[str, Fraction]:
    """The max-min fair rate of each session [bit/s]."""
    left = {link: Fraction(rate) for link, rate in capacity.items()}
    rising = dict(sessions)
    found: dict[str, Fraction] = {}
    level = Fraction(0)
    while rising:
        crossing = {link: sum(link in session.path for session in rising.values()) for link in left}
        steps = [left[link] / count for link, count in crossing.items() if count]
        steps += [
            session.demand - level for session in rising.values() if session.demand is not None
        ]
        if not steps:
            raise ValueError("a session without a link or a demand has no limit")
        step = min(steps)
        level += step
        for link, count in crossing.items():
            left[link] -= step * count
        full = {link for link, count in crossing.items() if count and not left[link]}
        for name, session in list(rising.items()):
            if session.demand == level or full.intersection(session.path):
                found[name] = level
                del rising[name]
    return found
