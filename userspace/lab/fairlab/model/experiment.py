# SPDX-License-Identifier: GPL-2.0
"""An experiment as in papers: groups of flows over one bottleneck, as plain data.

`fairlab run` traces a few flows, each from a host of its own.  An experiment has hundreds of flows,
at gigabits, and measures goodput and the queue.  So each group of flows has one pair of hosts and
one program (fairflow), which samples all of its flows; there is no tracing.

    s-A ─┐                           ┌─ d-A     group A: data from left to right
    s-B ─┤                           ├─ d-B     group B, with a round-trip of its own
         ├─ left ══════════ right ───┤
    d-C ─┘                           └─ s-C     group C, reverse: data from right to left

Half of a group's round-trip time is a netem delay behind the bottleneck, the other half a netem
delay of its acknowledgements (topology.py says why).  If any group is reversed, the opposite
direction is a bottleneck too, of the same rate and buffer, shared by its data and acknowledgements.

Experiments are meant for the engine `virtual`, in which forwarding takes no time, so only the
bottleneck limits the flows; outcome.py checks that.
"""

import random
import re
from dataclasses import dataclass

from fairlab.model import scenario
from fairlab.model.background import Background
from fairlab.model.errors import UsageError
from fairlab.model.network import Bottleneck, Delay, Network, Queue
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.model.topology import Pair, dumbbell, pacing

UDP = "udp"
MAX_STREAMS = 1000
# Links of a variable rate, and of acknowledgements, can be slower than others.
MIN_CHANGED = 10_000

# More packets than are ever in flight.
AMPLE_PACKETS = 10**7

# The bottleneck's burst, as a time at its rate: short, since timers are never late in virtual time,
# but at gigabits a timer for each packet is expensive.
BURST_SECONDS = 20e-6

_NAME = re.compile(r"[a-z0-9]{1,5}", re.ASCII)
_MEBI = 2**20


@dataclass(frozen=True)
class Stream:
    """Flows of one kind.  Times in seconds, rates in bit/s, sizes in bytes.

    Each starts up to SPREAD after START; the seed decides when.
    """

    cc: str  # a congestion control, or udp
    count: int = 1
    start: float = 0.0
    spread: float = 1.0
    stop: float = 0.0  # 0: at the end
    size: int = 0  # bytes that a TCP flow sends; 0: no limit
    rate: int = 0  # sending rate, required for UDP; 0: TCP without a limit
    packet: int = 1000  # UDP payload
    on: str = ""  # on and off periods, in the syntax of fairflow
    off: str = ""


@dataclass(frozen=True)
class Program:
    """A server and a client that anybody wrote: command lines, in which run/experiment.py replaces
    placeholders.  The client starts at START [s], when the server listens on PORT.

    The server is on the sending host, or with UPLOAD on the receiving one.
    """

    server: str
    client: str
    port: int
    start: float = 0.0
    upload: bool = False


@dataclass(frozen=True)
class Group:
    """Flows with the same round-trip time [µs], direction and settings (of net.ipv4).

    With ACK_EACH the receiver acknowledges each packet, as ns-2's does by default; Linux's
    acknowledges every second one.  Congestion controls that count acknowledgements depend on it.
    """

    name: str
    rtt: int
    streams: tuple[Stream, ...] = ()
    reverse: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    background: Background | None = None
    ack_each: bool = False
    program: Program | None = None

    def flows(self) -> list[Stream]:
        """The stream of each flow."""
        return [stream for stream in self.streams for _ in range(stream.count)]


@dataclass(frozen=True)
class Layout(scenario.Links):
    """Groups of flows over a bottleneck.  Rates in bit/s, BUFFER in packets.

    QUEUE is the bottleneck's qdisc with its options, as tc takes them.  With BACK_RATE, the other
    direction is a bottleneck of that rate with BACK_QUEUE.
    """

    rate: int
    buffer: int
    groups: tuple[Group, ...]
    seconds: float
    warmup: float
    seed: int
    queue: str = ""  # a FIFO of BUFFER packets
    mtu: int = 1500
    loss: float = 0.0  # fraction of data packets lost at random behind the bottleneck
    look: float = 0.1  # interval of samples of flows and queues [s]
    changes: tuple[tuple[float, int], ...] = ()  # new rates of the bottleneck: when [s], bit/s
    jitter: int = 0  # data is delayed by up to so much more or less, in order [µs]
    reorder: float = 0.0  # fraction of data packets that arrive REORDER_BY [µs] later
    reorder_by: int = 0
    back_rate: int = 0
    back_queue: str = ""  # as the bottleneck's
    ecn: bool = False
    gso: bool = False  # hosts send many segments at once
    modules: tuple[str, ...] = ()  # files of kernel modules to insert

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if not names or len(set(names)) < len(names):
            raise UsageError("an experiment needs groups with different names")
        for group in self.groups:
            if not _NAME.fullmatch(group.name):
                raise UsageError(f"group '{group.name}': a name has 1 to 5 letters and digits")
            if not 0 <= group.rtt <= scenario.MAX_RTT:
                raise UsageError(f"group {group.name}: the round-trip must be at most 10 s")
            if not group.streams and not group.background and not group.program:
                raise UsageError(f"group {group.name} has no flows")
            if group.background:
                group.background.check(self.rate)
            for stream in group.streams:
                self._check(group, stream)
        if not scenario.MIN_RATE <= self.rate <= scenario.MAX_RATE:
            raise UsageError(f"rate {self.rate}: must be 1mbit to 100gbit")
        if not 0 <= self.warmup < self.seconds <= scenario.MAX_TIME:
            raise UsageError(f"warm-up {self.warmup:g} s: must be less than {self.seconds:g} s")
        if self.buffer < 1 or not 0 <= self.loss < 1 or self.look <= 0:
            raise UsageError("a buffer holds a packet at least, and a loss is a fraction below 1")
        self.check_mtu()
        times = [when for when, _ in self.changes]
        if times != sorted(set(times)) or not all(0 < when < self.seconds for when in times):
            raise UsageError("changes of the rate: must be in order, after the start, by the end")
        rates = [rate for _, rate in self.changes] + [self.back_rate] * bool(self.back_rate)
        for rate in rates:
            if not MIN_CHANGED <= rate <= scenario.MAX_RATE:
                raise UsageError(f"rate {rate}: must be 10kbit to 100gbit")
        if not 0 <= self.reorder < 1 or bool(self.reorder) != bool(self.reorder_by):
            raise UsageError("reordering needs a fraction below 1, and a time")
        if self.jitter and self.jitter > min(group.rtt for group in self.groups) // 2:
            raise UsageError("jitter: must be at most half of each round-trip time")

    def _check(self, group: Group, stream: Stream) -> None:
        where = f"group {group.name}, {stream.cc}"
        if not 1 <= stream.count <= MAX_STREAMS:
            raise UsageError(f"{where}: {stream.count} flows: must be 1 to {MAX_STREAMS}")
        if stream.cc == UDP and not stream.rate:
            raise UsageError(f"{where}: needs a rate")
        last = stream.stop or self.seconds
        if not 0 <= stream.start + stream.spread < last <= self.seconds:
            raise UsageError(f"{where}: must start before it stops, and stop by the end")

    def rates(self) -> list[tuple[float, int]]:
        """The rates of the bottleneck: since when [s], bit/s."""
        return [(0.0, self.rate), *self.changes]

    @property
    def buffer_bytes(self) -> int:
        return self.buffer * self.frame

    @property
    def in_flight(self) -> int:
        """The most bytes in flight: on the longest path, and in the buffer."""
        longest = max(group.rtt for group in self.groups)
        return round(self.rate * longest / 8e6) + self.buffer_bytes

    @property
    def memory(self) -> int:
        """The memory of a guest, in MiB: both ends and the queues hold packets."""
        return 1536 + 8 * self.in_flight // _MEBI

    @property
    def ccs(self) -> list[str]:
        """The congestion controls in use."""
        found = [s.cc for group in self.groups for s in group.streams if s.cc != UDP]
        return list(dict.fromkeys(found))

    def starts(self) -> dict[str, list[float]]:
        """The start of each flow of each group [s]."""
        draw = random.Random(self.seed)
        return {
            group.name: [
                round(flow.start + flow.spread * draw.random(), 6) for flow in group.flows()
            ]
            for group in self.groups
        }

    def kinds(self) -> dict[str, list[str]]:
        """The kind of each flow of each group: a congestion control, or udp."""
        return {group.name: [flow.cc for flow in group.flows()] for group in self.groups}


# --- the network --------------------------------------------------------------------------------


def bottleneck(what: Layout, rate: int, link: str, queue: str) -> Bottleneck:
    """A bottleneck of RATE, 0: the experiment's, with this QUEUE of a LINK."""
    rate = rate or what.rate
    kind, *words = queue.split() or ["pfifo", "limit", str(what.buffer)]
    burst = max(2 * what.frame, round(min(rate / 8 * BURST_SECONDS, what.buffer_bytes / 50)))
    return Bottleneck(rate, burst, Qdisc(link, kind, tuple(words)), what.buffer_bytes)


def forth(what: Layout, rate: int = 0) -> Bottleneck:
    """The bottleneck from left to right."""
    return bottleneck(what, rate, BOTTLENECK, what.queue)


def network(what: Layout) -> Network:
    """The network of an experiment, with a path for each group."""
    back: Queue | None = None
    if what.back_rate or any(group.reverse for group in what.groups):
        back = bottleneck(what, what.back_rate, "reverse", what.back_queue)
    pairs = []
    for n, group in enumerate(what.groups, 1):
        impaired = (what.loss, what.jitter, what.reorder, what.reorder_by)
        only_delayed = not group.streams and not group.program
        there = Delay(group.rtt // 2, AMPLE_PACKETS, *(() if only_delayed else impaired))
        opposite = Delay(group.rtt - there.time, AMPLE_PACKETS)
        paced = pacing(group.background)
        pairs.append(Pair(f"-{group.name}", n, there, opposite, paced, reverse=group.reverse))
    return dumbbell(forth(what), back, pairs, what.mtu)
