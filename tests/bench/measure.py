# SPDX-License-Identifier: GPL-2.0
"""The cost of queueing disciplines per packet, measured in one boot of one kernel, as root.

Each candidate has a dummy device and is configured with tc so that all flows fit and only its own
work is measured: no pacing, no early drops.  Remaining differences are listed in Candidate.remark.
The kernel module qbench (see there) enqueues and dequeues the packets.

A point is a candidate, a number of flows, a load, and whether packets carry their hash:

    short       one packet in, one out, with three packets of each flow queued (a hundred if there
                is only one flow), so that all flows are always backlogged
    long        the same with 30,000 packets queued, for any number of flows: packets have left the
                CPU's caches before they are dequeued, and points differ in the number of flows only
    overload    the long queue is at its limit, and each new packet drops another

All candidates are set up at once with the same number of flows and measured in turn, repeatedly, so
that other load of the machine affects all of them.  A turn first handles as many packets as there
are, untimed, then times short slices.  Its value is the median of these minus the cost of the same
loop without a qdisc.  The ratio to fq_codel is computed within each turn.

The run fails unless the qdisc holds the intended number of packets, has as many flows backlogged
and dequeues as many as its hash allows, and drops nothing, or in overload one packet for each new
one.

Prints JSON.  Requires User-Mode Linux or another kernel with these qdiscs, a tc that knows drr_fq
if that is measured, and for exact results an idle machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests import launch

LENGTH = 1514  # bytes of each packet and each quantum: each dequeue moves on to the next flow
KINDS = ("short", "long", "overload")
FEW = 1000  # flows
LONG_QUEUE, LONG_POOL = 30_000, 10_000  # packets
BUCKETS = 16384  # for all candidates that support so many
PLENTY = 1_000_000  # packets: a limit that is never reached
SLICE = 500  # packets timed together
CLOCK_SLICES = 200
REFERENCE = "fq_codel"
BANDS = "drr_fq bands"
FOR_EVER = "target 600s interval 700s"
LONGEST = "target 100s interval 100s"  # that drr_fq accepts


class WrongError(Exception):
    """A setup or a measurement is not as intended."""


@dataclass(frozen=True)
class Load:
    """The number of backlogged flows and their packets, and the kind of load."""

    kind: str  # short, long, overload
    flows: int

    @property
    def overload(self) -> bool:
        return self.kind == "overload"

    @property
    def queued(self) -> int:
        """Packets of each flow in the queue."""
        return max(3, (100 if self.kind == "short" else LONG_QUEUE) // self.flows)

    @property
    def outside(self) -> int:
        """Packets of each flow outside of the queue, on average."""
        return max(1, (0 if self.kind == "short" else LONG_POOL) // self.flows)

    @property
    def packets(self) -> int:
        """Packets in the queue."""
        return self.flows * self.queued

    @property
    def all_packets(self) -> int:
        return self.packets + self.flows * self.outside

    @property
    def limit(self) -> int:
        return self.packets if self.overload else PLENTY


@dataclass(frozen=True)
class ShallowLoad(Load):
    """The load for a candidate with a limit of packets per flow."""

    deepest: int

    @property
    def queued(self) -> int:
        return min(super().queued, self.deepest)

    @property
    def outside(self) -> int:
        return min(super().outside, 3)


@dataclass(frozen=True)
class Candidate:
    """A queueing discipline and its configuration."""

    name: str
    options: Callable[[Load, int], str]  # for tc, by load and truesize of a packet
    buckets: int = BUCKETS  # number of hash buckets; 0: one queue
    few_buckets: int = 0  # the same for few flows, if buckets are expensive to create
    deepest: int = 0  # guaranteed packets per flow; 0: no limit
    drops_in_batches: bool = False
    remark: str = ""

    def buckets_for(self, flows: int) -> int:
        return self.few_buckets if self.few_buckets and flows <= FEW else self.buckets


def drr_fq(scheduler: str, more: str = "") -> Callable[[Load, int], str]:
    return lambda load, _: (
        f"drr_fq limit {load.limit} limit_bytes 1gb flows {BUCKETS}"
        f" scheduler {scheduler} quantum {LENGTH}{more}"
    )


def fq_codel(flows: int) -> Callable[[Load, int], str]:
    return lambda load, _: (
        f"fq_codel limit {load.limit} flows {flows} memory_limit 2gb quantum {LENGTH} {FOR_EVER}"
    )


def fq(load: Load, _truesize: int) -> str:
    return (
        f"fq limit {load.limit} flow_limit {PLENTY} buckets {BUCKETS}"
        f" orphan_mask {BUCKETS - 1} nopacing quantum {LENGTH} initial_quantum {LENGTH}"
    )


def cake(load: Load, truesize: int) -> str:
    memory = load.packets * truesize if load.overload else 2 << 30
    return f"cake unlimited besteffort flows rtt 600s memlimit {memory}"


CANDIDATES = (
    Candidate("drr_fq", drr_fq("drr")),
    Candidate("drr_fq rr", drr_fq("rr")),
    Candidate("drr_fq scfq", drr_fq("scfq")),
    Candidate(
        "drr_fq codel",
        drr_fq("drr", f" codel {LONGEST}"),
        remark="its AQM never acts: the target is 100 s",
    ),
    Candidate(
        BANDS,
        drr_fq("drr", " bands domain all"),
        remark="all packets have the mark of the assigned band, which it reads from their headers",
    ),
    Candidate("pfifo", lambda load, _: f"pfifo limit {load.limit}", buckets=0),
    Candidate(
        "sfq",
        lambda load, _: (
            f"sfq limit {load.limit} flows {BUCKETS} divisor {BUCKETS} depth 127 quantum {LENGTH}"
        ),
        deepest=60,
        remark="at most 127 packets in a queue, so its long queues are shorter: 60 packets a flow",
    ),
    Candidate(
        REFERENCE,
        fq_codel(BUCKETS),
        drops_in_batches=True,
        remark="its AQM never acts: the target is 600 s",
    ),
    Candidate(
        "fq_codel 1024",
        fq_codel(1024),
        buckets=1024,
        drops_in_batches=True,
        remark="its default number of queues, shared by more flows",
    ),
    Candidate("fq", fq, remark="without pacing; when full, it drops arriving packets"),
    Candidate(
        "cake",
        cake,
        buckets=1024,
        remark="1024 queues, which cannot be changed; no shaping, its AQM never acts",
    ),
    Candidate(
        "drr + filter",
        lambda _load, _truesize: "drr",
        few_buckets=2048,
        remark=f"{BUCKETS} classes (2048 for up to {FEW} flows) and a flow filter; each class is a"
        " pfifo with its own limit",
    ),
)


class Session:
    """One open file of /dev/qbench."""

    def __init__(self) -> None:
        self.descriptor = os.open("/dev/qbench", os.O_RDWR)

    def ask(self, command: str) -> list[str]:
        try:
            os.write(self.descriptor, command.encode())
        except OSError as error:
            raise WrongError(f"qbench: {command}: {error.strerror} (see dmesg)") from None
        answer = b""
        while part := os.read(self.descriptor, 1 << 16):
            answer += part
        return answer.decode().split()

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True)
class State:
    """The state that qbench reports after a command."""

    qlen: int
    backlog: int
    arrivals: int
    departures: int
    drops: int
    flows: int
    slices: list[int]

    @staticmethod
    def of(words: list[str]) -> State:
        count = 2 * (len(dataclasses.fields(State)) - 1)
        named = dict(zip(words[:count:2], map(int, words[1:count:2]), strict=True))
        return State(**named, slices=[int(word) for word in words[count:]])


def run(*command: str, text: str | None = None) -> str:
    done = launch.run(command, input=text)
    if done.returncode:
        raise WrongError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def occupied(flows: int, buckets: int) -> float:
    """The expected number of buckets that a perfect hash fills."""
    return buckets * (1 - (1 - 1 / buckets) ** flows)


@dataclass
class Bed:
    """A candidate on its device, with packets."""

    candidate: Candidate | None  # None: the loop alone
    load: Load
    device: str
    session: Session = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        run("ip", "link", "add", self.device, "type", "dummy")
        # Suppress other packets: neighbour discovery, address announcements.
        if self.candidate and self.candidate.deepest:
            self.load = ShallowLoad(self.load.kind, self.load.flows, self.candidate.deepest)
        # The limit of a class of drr: the packets of a flow, or of some that share it.
        queued = (
            self.load.queued if self.load.overload else min(1000 + 2 * self.load.queued, 32_000)
        )
        run("ip", "link", "set", self.device, "arp", "off", "addrgenmode", "none")
        run("ip", "link", "set", self.device, "txqueuelen", str(queued))
        run("ip", "link", "set", self.device, "up")
        self.session = Session()
        shape = f"{self.load.flows} {self.load.queued + self.load.outside} {LENGTH}"
        _, truesize = self.session.ask(f"open {self.device} {shape}")
        if self.candidate:
            options = self.candidate.options(self.load, int(truesize)).split()
            run("tc", "qdisc", "add", "dev", self.device, "root", "handle", "1:", *options)
            if options == ["drr"]:
                self.add_classes()
            self.fill()

    def add_classes(self) -> None:
        assert self.candidate
        count = self.candidate.buckets_for(self.load.flows)
        lines = [
            f"class add dev {self.device} parent 1: classid 1:{minor:x} drr quantum {LENGTH}"
            for minor in range(1, count + 1)
        ]
        keys = "src,dst,proto,proto-src,proto-dst"
        lines.append(
            f"filter add dev {self.device} parent 1: protocol all prio 1 handle 1"
            f" flow hash keys {keys} divisor {count} baseclass 1:1"
        )
        run("tc", "-batch", "-", text="\n".join(lines) + "\n")

    def fill(self) -> None:
        """Fill the queue; in overload with all packets, since classes have limits, too."""
        count = self.load.all_packets if self.load.overload else self.load.packets
        state = State.of(self.session.ask(f"fill {count}"))
        self.check(state, filling=True)

    def turn(self, slices: int, hashed: bool) -> list[float]:
        """Nanoseconds per packet of each slice."""
        mode = "overload" if self.load.overload else "steady"
        if not self.candidate:
            mode = "pool"
        how = "hashed" if hashed else "unhashed"
        state = State.of(self.session.ask(f"{mode} 1 {self.load.all_packets} {how}"))
        if self.candidate:
            self.check(state)
            # Flows that share a queue may not all be dequeued in so short a time.
            if not self.load.overload and state.flows < 0.95 * self.expected() - 2:
                self.wrong(f"{state.flows} flows were dequeued, not {self.load.flows}")
        state = State.of(self.session.ask(f"{mode} {slices} {SLICE} {how}"))
        if self.candidate:
            self.check(state)
        return [nanoseconds / SLICE for nanoseconds in state.slices]

    def wrong(self, text: str) -> None:
        assert self.candidate
        raise WrongError(
            f"{self.candidate.name}, {self.load.flows} flows, {self.load.kind}: {text}"
        )

    def check(self, state: State, filling: bool = False) -> None:
        """Check the qdisc's queue length, arrivals and drops against the load."""
        assert self.candidate
        load = self.load
        if not load.overload:
            if (state.qlen, state.drops) != (load.packets, 0):
                self.wrong(f"{state.qlen} packets queued, {state.drops} dropped")
            return
        # fq_codel drops up to 64 packets at once, and then accepts as many.
        spare = 64 if self.candidate.drops_in_batches else 0
        if load.packets < state.qlen or state.qlen < load.packets - self.shared() - spare:
            self.wrong(f"{state.qlen} packets queued, not {load.packets}")
        if not filling and abs(state.arrivals - state.drops) > spare:
            self.wrong(f"{state.arrivals} arrivals, but {state.drops} drops")

    def shared(self) -> int:
        """Packets that are dropped below the limit, since flows share a class of drr."""
        assert self.candidate
        if not self.candidate.name.startswith("drr +"):
            return 0
        return self.load.packets - round(0.95 * self.expected()) * self.load.queued

    def expected(self) -> float:
        assert self.candidate
        buckets = self.candidate.buckets_for(self.load.flows)
        return occupied(self.load.flows, buckets) if buckets else self.load.flows

    def backlogged(self) -> int | None:
        """The number of backlogged queues, as tc shows it; None if there is only one queue."""
        assert self.candidate
        if not self.candidate.buckets:
            return None
        if self.candidate.name == BANDS:  # its classes are the bands
            stats = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", self.device))
            return int(stats[0]["active_flows"])
        if self.candidate.name == "fq":
            stats = run("tc", "-s", "qdisc", "show", "dev", self.device)
            match = re.search(r"flows (\d+) \(inactive (\d+)", stats)
            if match is None:
                raise WrongError(f"unexpected output of tc for fq: {stats}")
            return int(match[1]) - int(match[2])
        classes = run("tc", "-s", "class", "show", "dev", self.device)
        return len(re.findall(r"^ backlog [1-9]", classes, re.MULTILINE))

    def check_with_tc(self) -> dict[str, object]:
        """Check and return the statistics that tc shows of the filled qdisc."""
        shown = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", self.device))[0]
        if not self.load.overload and (shown["qlen"], shown["drops"]) != (self.load.packets, 0):
            self.wrong(f"tc shows {shown['qlen']} packets queued, {shown['drops']} dropped")
        queues = self.backlogged()
        # cake searches a free queue in a set of eight, so it fills more than a plain hash.
        if queues is not None and not 0.95 * self.expected() - 2 <= queues <= self.load.flows:
            self.wrong(f"{queues} queues are backlogged, expected {self.expected():.0f}")
        return {"qlen": shown["qlen"], "drops": shown["drops"], "queues": queues}

    def remove(self) -> None:
        self.session.close()
        run("ip", "link", "del", self.device)


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 2), "low": round(low, 2), "high": round(high, 2)}


def measure(
    load: Load, candidates: list[Candidate], turns: int, slices: int
) -> list[dict[str, object]]:
    """Measure all points of one load."""
    beds = [Bed(candidate, load, f"c{i}") for i, candidate in enumerate(candidates)]
    names = [bed.candidate.name for bed in beds if bed.candidate]
    # The empty loop handles as many packets, with the same effect on the CPU's caches.
    loads = {bed.load.all_packets: bed.load for bed in beds}
    alone = {packets: Bed(None, load, f"alone{packets}") for packets, load in loads.items()}
    points: list[dict[str, object]] = []
    shown = [bed.check_with_tc() for bed in beds]
    for hashed in (False, True):
        costs: dict[str, list[float]] = {name: [] for name in names}
        loops: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(turns):
            loop = {
                packets: statistics.median(bed.turn(slices, hashed))
                for packets, bed in alone.items()
            }
            for name, bed in zip(names, beds, strict=True):
                loops[name].append(loop[bed.load.all_packets])
                costs[name].append(statistics.median(bed.turn(slices, hashed)) - loops[name][-1])
        for name, seen in zip(names, shown, strict=True):
            points.append(
                {
                    "candidate": name,
                    "flows": load.flows,
                    "load": load.kind,
                    "hashed": hashed,
                    "nanoseconds": spread(costs[name]),
                    "ratio": spread(
                        [a / b for a, b in zip(costs[name], costs[REFERENCE], strict=True)]
                    ),
                    "loop": spread(loops[name]),
                    "shown": seen,
                }
            )
    for bed in beds:
        bed.check_with_tc()
    for bed in [*alone.values(), *beds]:
        bed.remove()
    return points


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--flows", type=int, action="append", help="(repeatable)")
    parser.add_argument("--only", action="append", help="a candidate besides fq_codel (repeatable)")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--slices", type=int, default=40)
    arguments = parser.parse_args()
    wanted = [
        candidate
        for candidate in CANDIDATES
        if not arguments.only or candidate.name in [*arguments.only, REFERENCE]
    ]
    try:
        session = Session()
        clock = [int(word) / 1000 for word in session.ask(f"clock {CLOCK_SLICES} 1000")]
        session.close()
        points = []
        for flows in arguments.flows or [1, 100, 1000, 10000]:
            for kind in KINDS:
                print(f"bench: {flows} flows, {kind}", file=sys.stderr, flush=True)
                points += measure(Load(kind, flows), wanted, arguments.turns, arguments.slices)
    except WrongError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    result = {
        "length": LENGTH,
        "turns": arguments.turns,
        "slices": arguments.slices,
        "slice": SLICE,
        "clock": spread(clock),
        "candidates": [
            {
                "name": candidate.name,
                "remark": candidate.remark,
                "options": candidate.options(Load("long", 1000), 2240),
                "options_in_overload": candidate.options(Load("overload", 1000), 2240),
            }
            for candidate in wanted
        ],
        "points": points,
    }
    json.dump(result, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
