# SPDX-License-Identifier: GPL-2.0
"""A model of a link's queue, for the study fq-active-flows: no packet passes a kernel."""

import heapq
import json
import platform
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model.plain import Plain
from fairlab.run import exact
from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

DRR, RR, SCFQ, FIFO = SCHEDULERS = ("DRR", "RR", "SCFQ", "FIFO")
#: Rates of the flows that the link does not limit [bit/s], and sizes of their packets [bytes].
LEAST_RATE, MOST_RATE = 10_000, 1_000_000
SIZES = (300, 1500)
#: A packet of a flow that the link limits, their mean size, and their packets in the queue.
BIG, MEAN, WINDOW = 1500, 102_400, 10
BINS = 20_000
#: In the record of a run, what `fairlab verify` repeats it with.
MODEL = "queue"


class Scheduler:
    """Packets of flows, in the order in which a link sends them; counts flows with packets."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.queues: dict[int, deque[int]] = {}
        self.turns: deque[int] = deque()  # of RR and DRR: flows; of FIFO: flows of packets
        self.credit: dict[int, int] = {}
        self.tags: list[tuple[float, int, int]] = []  # of SCFQ
        self.last: dict[int, float] = {}
        self.now = 0.0
        self.serial = 0

    def put(self, flow: int, size: int) -> None:
        queue = self.queues.get(flow)
        if queue is None:
            queue = self.queues[flow] = deque()
            if self.kind in (RR, DRR):
                self.turns.append(flow)
                self.credit[flow] = BIG
        queue.append(size)
        if self.kind == FIFO:
            self.turns.append(flow)
        elif self.kind == SCFQ:
            tag = max(self.now, self.last.get(flow, 0.0)) + size
            self.last[flow] = tag
            self.serial += 1
            heapq.heappush(self.tags, (tag, self.serial, flow))

    def get(self) -> tuple[int, int]:
        """The flow and the size of the next packet."""
        if self.kind == SCFQ:
            self.now, _, flow = heapq.heappop(self.tags)
        elif self.kind == DRR:
            while self.queues[self.turns[0]][0] > self.credit[self.turns[0]]:
                self.credit[self.turns[0]] += BIG
                self.turns.rotate(-1)
            flow = self.turns[0]
        else:
            flow = self.turns.popleft()
        queue = self.queues[flow]
        size = queue.popleft()
        if self.kind == DRR:
            self.credit[flow] -= size
        if not queue:
            del self.queues[flow]
            self.credit.pop(flow, None)
            if self.kind == DRR:
                self.turns.popleft()
        elif self.kind == RR:
            self.turns.append(flow)
        return flow, size


@dataclass(frozen=True)
class Link(Plain):
    """A link of RATE [bit/s] for COUNT packets; loads are parts of it."""

    scheduler: str
    rate: int
    seed: int
    count: int
    beside: float = 0.5  # of flows that the link does not limit
    load: float = 0.9  # of all

    def sources(self) -> tuple[str, ...]:
        return ()

    def conditions(self, work: Path) -> dict[str, Any]:
        del work
        return {"engine": {"name": "model"}}

    def run(self, work: Path, engine: Engine | None, progress: Progress) -> dict[str, Any]:
        del engine
        progress.step(f"a link of {self.rate / 1e6:g} Mbit/s with {self.scheduler}")
        outcome = self.outcome()
        words = [json.dumps(self.to_json())]
        exact.write_simulated(work, MODEL, words, exact.digest(outcome), inputs())
        return outcome

    def outcome(self) -> dict[str, Any]:
        """Histograms over time: flows with packets, those that the link limits, others' packets."""
        import numpy

        random = numpy.random.default_rng(self.seed)
        rates: list[float] = []
        while sum(rates) < self.beside * self.rate:
            rates += (LEAST_RATE * (MOST_RATE / LEAST_RATE) ** random.random(16)).tolist()
        sizes = random.choice(SIZES, len(rates))
        scaled = numpy.array(rates) * self.beside * self.rate / sum(rates)
        each = scaled / (8 * sizes)  # packets in a second
        times = numpy.cumsum(random.exponential(1 / each.sum(), self.count))
        flows = random.choice(len(rates), self.count, p=each / each.sum())
        small = deque(zip(times.tolist(), flows.tolist(), strict=True))
        arrivals = (self.load - self.beside) * self.rate / (8 * MEAN)
        begins = numpy.cumsum(random.exponential(1 / arrivals, self.count)).tolist()
        amounts = random.geometric(BIG / MEAN, self.count)
        large = deque(zip(begins, amounts.tolist(), strict=True))
        return self.simulate(small, large, sizes.tolist())

    def simulate(
        self, small: deque[tuple[float, int]], large: deque[tuple[float, int]], sizes: list[int]
    ) -> dict[str, Any]:
        """Send the packets: SMALL are times and flows, LARGE times and packets of whole flows."""
        queue = Scheduler(self.scheduler)
        left: dict[int, int] = {}  # packets of limited flows that wait at their sources
        limited: dict[int, int] = {}  # their packets in the queue
        beside = 0
        next_flow = len(sizes)
        now, end = 0.0, small[-1][0]
        shares: dict[str, list[float]] = {
            name: [0.0] * (BINS + 1) for name in ("active", "limited", "packets")
        }
        while now < end:
            while small and small[0][0] <= now:
                _, flow = small.popleft()
                queue.put(flow, sizes[flow])
                beside += 1
            while large and large[0][0] <= now:
                _, packets = large.popleft()
                limited[next_flow] = min(packets, WINDOW)
                left[next_flow] = packets - limited[next_flow]
                for _ in range(limited[next_flow]):
                    queue.put(next_flow, BIG)
                next_flow += 1
            if not queue.queues:
                then = min([one[0][0] for one in (small, large) if one], default=end)
                size, flow = 0, -1
            else:
                flow, size = queue.get()
                then = now + 8 * size / self.rate
            # A packet counts while it is sent.
            active = len(queue.queues) + (flow >= 0 and flow not in queue.queues)
            for name, value in (("active", active), ("limited", len(limited)), ("packets", beside)):
                shares[name][min(value, BINS)] += then - now
            now = then
            if flow >= len(sizes):
                if left[flow]:
                    left[flow] -= 1
                    queue.put(flow, BIG)
                else:
                    limited[flow] -= 1
                    if not limited[flow]:
                        del limited[flow], left[flow]
            elif flow >= 0:
                beside -= 1
        return {name: [value / now for value in values] for name, values in shares.items()}


def inputs() -> dict[str, str]:
    """What decides an outcome besides the arguments."""
    import numpy

    versions = {"python": platform.python_version(), "numpy": numpy.__version__}
    return versions | {f"source {Path(__file__).name}": exact.sha256(Path(__file__))}


def repeat(words: Sequence[str]) -> str:
    """The digest of the run with the arguments WORDS, as they are in its record."""
    return exact.digest(Link(**json.loads(words[0])).outcome())


def check_arguments(words: Sequence[str]) -> None:
    """Raise KeyError, TypeError or ValueError unless WORDS are those of a run."""
    if Link(**json.loads(words[0])).scheduler not in SCHEDULERS:
        raise ValueError("scheduler")
