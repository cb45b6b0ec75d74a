# SPDX-License-Identifier: GPL-2.0
"""How far what sessions were told is from what was exact, at each moment.

The exact rates are the max-min fair ones of the sessions that there are at that moment: from when
each was asked for until it was told to leave, or its agent was killed.  With these the paper's
errors are

    Es(t)   of a session that has a rate:  (told - exact) / exact
    Ee(t)   of a bottleneck link:          (sum of what its sessions are told - its rate) / its rate

A link is a bottleneck at t if it restricts some session in the exact solution.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fairlab.slbn import maxmin
from fairlab.slbn.sessions import Told

#: What divisions leave over is not told: up to a 2**16th of a rate, and 64 bit/s (slbnd).
UNTOLD = 1e-4
UNTOLD_BITS = 128
#: Seconds that the control packets of a link are counted over.
WINDOW = 0.25

Demands = frozenset[tuple[int, int | None]]


@dataclass(frozen=True)
class Exact:
    """What is exact for some sessions: rates by number, bottleneck links."""

    rates: dict[int, float]
    bottlenecks: frozenset[str]


@dataclass(frozen=True)
class Errors:
    """At a moment: of sessions and of bottlenecks, in per cent; what links are asked to carry."""

    time: float
    sessions: tuple[float, ...]
    links: tuple[float, ...]
    #: sessions that are there and know no rate yet
    waiting: int


class Line:
    """What is exact, and what was told, over the time of a run."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.plan = told.plan
        self.capacity = self.plan.capacity()
        self.paths = [
            self.plan.mesh.path(session.source, session.destination)
            for session in self.plan.sessions
        ]
        self._solved: dict[Demands, Exact] = {}
        #: from each moment on: the sessions that there are, with their demands
        self.moments: list[float] = []
        self.there: list[Demands] = []
        self._gather()
        self.steps: dict[int, list[tuple[float, int]]] = {}
        for when, number, rate in told.rates:
            self.steps.setdefault(number, []).append((when, rate))

    def _gather(self) -> None:
        steps: list[tuple[float, int, int | None]] = [
            (when, number, demand) for when, number, demand in self.told.asked
        ]
        for when, node in self.told.died:
            steps += [
                (when, number, 0)
                for number, session in enumerate(self.plan.sessions)
                if session.source == node
            ]
        there: dict[int, int | None] = {}
        for when, number, demand in sorted(steps, key=lambda step: step[0]):
            if demand == 0:
                there.pop(number, None)
            else:
                there[number] = demand
            self.moments.append(when)
            self.there.append(frozenset(there.items()))

    @property
    def last_change(self) -> float:
        """When the last session came, went, or wanted something else."""
        return self.moments[-1]

    def present(self, when: float) -> Demands:
        place = bisect_right(self.moments, when)
        return self.there[place - 1] if place else frozenset()

    def solve(self, there: Demands) -> Exact:
        if there not in self._solved:
            wanted = {
                str(number): maxmin.Session(self.paths[number], demand) for number, demand in there
            }
            found = maxmin.solve(self.capacity, wanted)
            rates = {int(name): float(rate) for name, rate in found.rates.items()}
            self._solved[there] = Exact(rates, found.bottlenecks)
        return self._solved[there]

    def exact(self, when: float) -> Exact:
        return self.solve(self.present(when))

    def told_at(self, number: int, when: float) -> int:
        """What a session was told last; 0: nothing yet."""
        steps = self.steps.get(number, [])
        place = bisect_right(steps, when, key=lambda step: step[0])
        return steps[place - 1][1] if place else 0

    def errors(self, when: float) -> Errors:
        exact = self.exact(when)
        rates = {number: self.told_at(number, when) for number in exact.rates}
        load = dict.fromkeys(exact.bottlenecks, 0)
        for number, rate in rates.items():
            for link in self.paths[number]:
                if link in load:
                    load[link] += rate
        return Errors(
            when,
            tuple(100 * (rate / exact.rates[number] - 1) for number, rate in rates.items() if rate),
            tuple(100 * (load[link] / self.capacity[link] - 1) for link in sorted(load)),
            sum(not rate for rate in rates.values()),
        )

    def overload(self, when: float) -> float:
        """How much more than it has the worst link's sessions are told to send [part of it]."""
        load = dict.fromkeys(self.capacity, 0)
        for number, _ in self.present(when):
            for link in self.paths[number]:
                load[link] += self.told_at(number, when)
        return max(load[link] / self.capacity[link] - 1 for link in load)

    def settled(self, since: float, until: float, tolerance: float = UNTOLD) -> float | None:
        """When all rates are, and stay until then, within TOLERANCE of exact [s after SINCE].

        SINCE is the last change; None: they do not come there, or do not stay.
        """
        exact = self.exact(since).rates
        latest = since
        for number, rate in exact.items():
            steps = [(since, self.told_at(number, since))]
            steps += [step for step in self.steps.get(number, []) if since < step[0] < until]
            allowed = max(UNTOLD_BITS, tolerance * rate)
            for n, (_, told) in enumerate(steps):
                if abs(told - rate) > allowed:
                    if n + 1 == len(steps):
                        return None
                    latest = max(latest, steps[n + 1][0])
        return latest - since

    # --- at the end -----------------------------------------------------------------------------

    @cached_property
    def rest(self) -> dict[int, tuple[int, float]]:
        """At the end, each session's rate to the bit, beside the exact one."""
        exact = self.exact(self.plan.seconds).rates
        return {number: (self.told.last[number][0], rate) for number, rate in exact.items()}

    @property
    def bits_off(self) -> float:
        """How far the farthest is off at the end [bit/s]."""
        return max((abs(told - rate) for told, rate in self.rest.values()), default=0.0)

    @property
    def part_off(self) -> float:
        """The same, as a part of what it should have."""
        return max((abs(told / rate - 1) for told, rate in self.rest.values()), default=0.0)

    @property
    def bits_over(self) -> int:
        """By how much the worst link is promised away beyond its rate at the end [bit/s]."""
        load = dict.fromkeys(self.capacity, 0)
        for number, (rate, _) in self.rest.items():
            for link in self.paths[number]:
                load[link] += rate
        return max(load[link] - self.capacity[link] for link in load)

    def control_share(self, begin: float, end: float) -> float:
        """Of what sessions were told, summed over their links, what control packets took."""
        times = self.told.times
        first, last = (
            min(range(len(times)), key=lambda n: abs(times[n] - t)) for t in (begin, end)
        )
        took = times[last] - times[first]
        control = sum(
            8 * (kept["control"][last] - kept["control"][first])
            for kept in self.told.links.values()
        )
        handed = sum(
            self.told_at(number, end) * len(self.paths[number]) for number, _ in self.present(end)
        )
        return control / took / handed

    def control_peaks(self) -> list[tuple[float, float]]:
        """At each look: what control packets took of the link of which they took most [part].

        Over the quarter of a second before, or the time since the last look if that is longer.
        """
        times = self.told.times
        found = []
        for n in range(1, len(times)):
            first = max(0, min(n - 1, bisect_right(times, times[n] - WINDOW)))
            took = times[n] - times[first]
            worst = max(
                8
                * (kept["control"][n] - kept["control"][first])
                / took
                / self.plan.mesh.rates[link]
                for link, kept in self.told.links.items()
            )
            found.append((times[n], worst))
        return found

    def queue_ms(self, begin: float = 0.0) -> list[tuple[float, float]]:
        """At each look since then: how long the longest queue takes to be sent [ms]."""
        found = []
        for n, when in enumerate(self.told.times):
            if when >= begin:
                longest = max(
                    8000 * kept["held"][n] / self.plan.mesh.rates[link]
                    for link, kept in self.told.links.items()
                )
                found.append((when, longest))
        return found


def quantile(values: Sequence[float], part: float) -> float:
    """The value that PART of them are not above; between two of them, in proportion."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def summary(values: Sequence[float]) -> list[float]:
    """Mean, 10th and 90th percentile, smallest and largest; as the paper draws errors."""
    if not values:
        return []
    mean = sum(values) / len(values)
    found = (mean, quantile(values, 0.1), quantile(values, 0.9), min(values), max(values))
    return [round(value, 4) for value in found]
