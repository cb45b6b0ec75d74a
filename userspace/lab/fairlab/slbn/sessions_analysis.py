# SPDX-License-Identifier: GPL-2.0
"""The errors of assigned rates over time, relative to the max-min reference.

The reference has the max-min rates of all active sessions: from their Join to their Leave, or until
their agent is killed.  The paper's errors are

    Es(t)   of a session that has a rate:  (assigned - max-min) / max-min
    Ee(t)   of a bottleneck link:          (sum of assigned rates - its rate) / its rate

A link is a bottleneck at t if it limits a session in the reference.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairlab.results.statistics import percentile
from fairlab.slbn import maxmin
from fairlab.slbn.sessions_plan import Sessions

#: slbnd ignores rate changes of up to 2**-16 of the rate, and of up to 64 bit/s (rounding).  These
#: tolerances are larger than both: relative, and in bit/s.
TOLERANCE = 1e-4
TOLERANCE_BITS = 128
#: Interval over which control packets of a link are counted [s].
WINDOW = 0.25


@dataclass(frozen=True)
class Reference:
    """The reference for some sessions: rates by number, bottleneck links."""

    rates: dict[int, float]
    bottlenecks: frozenset[str]


@dataclass(frozen=True)
class Errors:
    """Errors at a moment: of sessions and of bottlenecks, in per cent; loads of links."""

    sessions: tuple[float, ...]
    links: tuple[float, ...]
    #: active sessions without a rate yet
    waiting: int


class Comparison:
    """Compares the assigned rates of a run with the max-min reference over time.

    Times are from the run's start [s], sessions are their numbers.
    """

    def __init__(self, plan: Sessions, recorded: Mapping[str, Any]) -> None:
        """RECORDED: what guest.py and sessions.py have recorded."""
        self.plan = plan
        #: requests: (when, session, demand; None: unlimited; 0: leave)
        self.asked: list[tuple[float, int, int | None]] = recorded["asked"]
        #: assigned rates: (when, session, rate)
        self.rates: list[tuple[float, int, int]] = recorded["rates"]
        #: agents that were killed: (when, router)
        self.died: list[tuple[float, str]] = recorded["died"]
        #: at the end, of each active session: rate, cycles, retries, round-trip time [ns], hops
        self.last: dict[int, Sequence[int]] = {int(n): one for n, one in recorded["last"].items()}
        #: sent data packets
        self.sent: int = recorded["sent"]
        #: times of samples, and of each link at these times the columns of Sampler
        self.times: list[float] = recorded["times"]
        self.wires: dict[str, dict[str, list[int]]] = recorded["wires"]
        self.capacity = self.plan.capacity()
        self.paths = [
            self.plan.mesh.path(session.source, session.destination)
            for session in self.plan.sessions
        ]
        active: dict[int, int | None] = {}
        found: dict[float, dict[int, int | None]] = {}
        for when, number, demand in sorted(self.requests, key=lambda step: step[0]):
            if demand == 0:
                active.pop(number, None)
            else:
                active[number] = demand
            found[when] = dict(active)
        #: the active sessions, with their demands
        self.active = maxmin.OverTime[dict[int, int | None]](found, found.__getitem__, {})
        self._reference = maxmin.OverTime(found, self._solve, Reference({}, frozenset()))
        self.steps: dict[int, list[tuple[float, int]]] = {}
        for when, number, rate in self.rates:
            self.steps.setdefault(number, []).append((when, rate))

    @property
    def requests(self) -> list[tuple[float, int, int | None]]:
        """(when, session, demand); 0: it leaves, or its agent dies."""
        ended = [
            (when, number, 0)
            for when, node in self.died
            for number, session in enumerate(self.plan.sessions)
            if session.source == node
        ]
        return [*self.asked, *ended]

    @property
    def last_change(self) -> float:
        """The time of the last join, leave or change."""
        return self.active.times[-1]

    def _solve(self, when: float) -> Reference:
        active = self.active.at(when)
        wanted = {n: maxmin.Session(self.paths[n], demand) for n, demand in active.items()}
        found = maxmin.solve(self.capacity, wanted)
        rates = {number: float(rate) for number, rate in found.rates.items()}
        return Reference(rates, found.bottlenecks)

    def reference(self, when: float) -> Reference:
        return self._reference.at(when)

    def assigned_at(self, number: int, when: float) -> int:
        """The rate that a session has at WHEN [bit/s]; 0: none yet."""
        return maxmin.last(self.steps.get(number, []), when)

    def errors(self, when: float) -> Errors:
        reference = self.reference(when)
        rates = {number: self.assigned_at(number, when) for number in reference.rates}
        load = dict.fromkeys(reference.bottlenecks, 0)
        for number, rate in rates.items():
            for link in self.paths[number]:
                if link in load:
                    load[link] += rate
        return Errors(
            tuple(
                100 * (rate / reference.rates[number] - 1) for number, rate in rates.items() if rate
            ),
            tuple(100 * (load[link] / self.capacity[link] - 1) for link in sorted(load)),
            sum(not rate for rate in rates.values()),
        )

    @cached_property
    def overshoot(self) -> float:
        """The largest overshoot of a link at any moment, as a fraction of its rate."""
        rates = self.plan.rates()
        load = dict.fromkeys(rates, 0)
        assigned: dict[int, int] = {}
        # A session that leaves or whose agent dies uses its rate no more.
        ends = [(when, number, 0) for when, number, demand in self.requests if demand == 0]
        steps = [*self.rates, *ends]
        most = 0.0
        # At the same moment rates fall first: notifications of several agents have no order.
        for when, number, rate in sorted(steps, key=lambda step: (step[0], step[2] > 0)):
            if rate and number not in self.active.at(when):
                continue
            change = rate - assigned.get(number, 0)
            assigned[number] = rate
            for link in self.paths[number]:
                load[link] += change
                if change > 0:
                    most = max(most, load[link] / rates[link] - 1)
        return most

    def settled(self, since: float, until: float, tolerance: float = TOLERANCE) -> float | None:
        """The time until all rates settle within TOLERANCE of the reference [s after SINCE].

        SINCE is the last change; None: they do not settle.
        """
        expected = self.reference(since).rates
        latest = since
        for number, rate in expected.items():
            steps = [(since, self.assigned_at(number, since))]
            steps += [step for step in self.steps.get(number, []) if since < step[0] < until]
            allowed = max(TOLERANCE_BITS, tolerance * rate)
            for n, (_, assigned) in enumerate(steps):
                if abs(assigned - rate) > allowed:
                    if n + 1 == len(steps):
                        return None
                    latest = max(latest, steps[n + 1][0])
        return latest - since

    # --- at the end -----------------------------------------------------------------------------

    @cached_property
    def final_rates(self) -> dict[int, tuple[int, float]]:
        """The final rate of each session, and its max-min rate [bit/s]."""
        expected = self.reference(self.plan.seconds).rates
        return {number: (self.last[number][0], rate) for number, rate in expected.items()}

    @property
    def bits_off(self) -> float:
        """The largest final error [bit/s]."""
        return max((abs(rate - due) for rate, due in self.final_rates.values()), default=0.0)

    @property
    def part_off(self) -> float:
        """The largest final error, relative to the max-min rate."""
        return max((abs(rate / due - 1) for rate, due in self.final_rates.values()), default=0.0)

    @property
    def bits_over(self) -> int:
        """The largest final overshoot of a link [bit/s]."""
        load = dict.fromkeys(self.capacity, 0)
        for number, (rate, _) in self.final_rates.items():
            for link in self.paths[number]:
                load[link] += rate
        return max(load[link] - self.capacity[link] for link in load)

    def control_share(self, begin: float, end: float) -> float:
        """Control packets, as a fraction of the assigned rates summed over all links."""
        times = self.times
        first, last = (
            min(range(len(times)), key=lambda n: abs(times[n] - t)) for t in (begin, end)
        )
        took = times[last] - times[first]
        control = sum(
            8 * (kept["control"][last] - kept["control"][first]) for kept in self.wires.values()
        )
        assigned = sum(
            self.assigned_at(number, end) * len(self.paths[number])
            for number in self.active.at(end)
        )
        return control / took / assigned

    def control_peaks(self) -> list[tuple[float, float]]:
        """At each sample: the largest fraction of a link that control packets used.

        Over the quarter of a second before, or since the last sample if that is longer.
        """
        times, rates = self.times, self.plan.mesh.rates
        found = []
        for n in range(1, len(times)):
            first = max(0, min(n - 1, bisect_right(times, times[n] - WINDOW)))
            took = times[n] - times[first]
            worst = max(
                8 * (kept["control"][n] - kept["control"][first]) / took / rates[link]
                for link, kept in self.wires.items()
            )
            found.append((times[n], worst))
        return found

    def queue_ms(self, begin: float = 0.0) -> list[tuple[float, float]]:
        """At each sample from BEGIN on: the longest queueing delay of a link [ms]."""
        rates = self.plan.mesh.rates
        return [
            (when, max(8000 * kept["held"][n] / rates[link] for link, kept in self.wires.items()))
            for n, when in enumerate(self.times)
            if when >= begin
        ]


def summary(values: Sequence[float]) -> list[float]:
    """Mean, 10th and 90th percentile, smallest and largest; as the paper draws errors."""
    if not values:
        return []
    mean = sum(values) / len(values)
    found = (mean, percentile(values, 10), percentile(values, 90), min(values), max(values))
    return [round(value, 4) for value in found]
