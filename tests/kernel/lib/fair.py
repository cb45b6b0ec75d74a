# SPDX-License-Identifier: GPL-2.0
"""Max-min reference of sessions on links, and the accepted deviation of integer rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

from fairlab.slbn import maxmin


class HasDemand(Protocol):
    """A session; a demand of 0 means no limit."""

    @property
    def path(self) -> Sequence[str]: ...

    @property
    def demand(self) -> int: ...


S = TypeVar("S", bound=HasDemand)


def max_min(capacities: Mapping[str, int], sessions: Sequence[S]) -> dict[S, Fraction]:
    """The max-min reference, computed by fairlab."""
    asked = {
        str(n): maxmin.Session(each.path, each.demand or None) for n, each in enumerate(sessions)
    }
    found = maxmin.rates(capacities, asked)
    return {each: found[str(n)] for n, each in enumerate(sessions)}


def remainders(exact: Mapping[S, Fraction]) -> dict[S, int]:
    """Accepted deviation of each session from its max-min rate, bit/s.

    Links divide integers: each level of bottlenecks on a session's path, up to its own, may leave
    a remainder of 1 bit/s. A session limited by its demand has no deviation.
    """
    on_link: dict[str, set[Fraction]] = defaultdict(set)
    for session, rate in exact.items():
        for link in session.path:
            on_link[link].add(rate)
    found = {}
    for session, rate in exact.items():
        met = set[Fraction]().union(*(on_link[link] for link in session.path))
        found[session] = 0 if session.demand == rate else sum(each <= rate for each in met)
    return found
