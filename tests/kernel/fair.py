# SPDX-License-Identifier: GPL-2.0
"""What sessions on links should get, and how near to it integers can come.

The solver is the lab's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

from fairlab.slbn import maxmin


class Asks(Protocol):
    """A session; a demand of 0 is without limit."""

    @property
    def path(self) -> Sequence[str]: ...

    @property
    def demand(self) -> int: ...


S = TypeVar("S", bound=Asks)


def max_min(capacities: Mapping[str, int], sessions: Sequence[S]) -> dict[S, Fraction]:
    """The max-min fair rates."""
    asked = {
        str(n): maxmin.Session(each.path, each.demand or None) for n, each in enumerate(sessions)
    }
    found = maxmin.rates(capacities, asked)
    return {each: found[str(n)] for n, each in enumerate(sessions)}


def remainders(exact: Mapping[S, Fraction]) -> dict[S, int]:
    """How far from its exact rate each session may be, bit/s.

    Links divide integers, so each level of bottlenecks on a session's path, up to its own, may
    leave over one; none does if it gets what it asks for.
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
