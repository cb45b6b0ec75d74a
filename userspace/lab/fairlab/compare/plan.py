# SPDX-License-Identifier: GPL-2.0
"""One run of a comparison: its description, and its measures.

Goodput is the payload that arrived: of TCP what was acknowledged, of UDP what reached the host.
The fair goodput of each flow is the max-min rate of all flows, with UDP's rate as its demand, over
the links' full rates; Jain's index is that of goodput divided by fair goodput, over all flows
without a size, UDP included.  The delay of queues is TCP's smoothed round-trip time less that of
the empty path; so it includes packets that wait in slbnd's pacers.  Loss counts bytes that hosts
sent and that did not arrive at hosts, wherever they were dropped.  Wasted bytes are those that
links carried for packets that a later link dropped, as a part of all bytes that links carried.

Max-min goodput is the part of the fair goodput that flows got, without what a flow got above its
own; the least and the most are of the flow that got least and most of its fair goodput.  The
slowdown of a short flow is its completion time divided by that on the empty path, for a
sender that needs not wait: one and a half round-trip times, and its frames at the rate of the
slowest link.  UDP's delay is that of its packets that were sent after the warm-up and arrived, less
the delay of the path.  Where links have bands, the wait of a band is that of a packet at a link, in
the whole run.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from fairlab.compare import sizes
from fairlab.compare.stacks import STACKS
from fairlab.model.network import Edge, Network, Trunk
from fairlab.model.plain import Plain
from fairlab.model.qdisc import Qdisc
from fairlab.net.network import AMPLE, Hosts
from fairlab.results import statistics, waits
from fairlab.run import engine
from fairlab.slbn import maxmin, network
from fairlab.slbn.experiment import TCP_PART, UDP_PART, Change, Experiment, Flow
from fairlab.slbn.mesh import Mesh, link_name
from fairlab.slbn.network import access, senders_of
from fairlab.slbn.record import AGENT_SOURCES, Measured, Record

#: Buffers never limit a window: seconds at the rate of the fastest link.
WINDOW_SECONDS = 2
#: Hosts that send at each node of a workload.
SENDERS = 50
#: Connections that slbnd's table has places for, by default, and places for each: in a table that
#: is fuller, some find none.
CONNECTIONS, PLACES = 65536, 8

Numbers = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What runs of a workload have in common; times are in seconds."""

    mesh: Mesh
    #: nodes with an access router and hosts, and the rate of its link
    uplinks: dict[str, int]
    #: packets, of a FIFO; SMALL: no qdisc may have a larger one
    buffer: int
    small: bool = False
    seconds: float
    warmup: float = 0.0
    hosts: Hosts = AMPLE
    #: hosts that send at each node
    senders: int = 1
    #: of their flows, in turn, where SLBN assigns rates
    weights: tuple[int, ...] = (1,)
    #: a session is joined for each flow before it starts, where SLBN assigns rates
    joined: bool = False


@dataclass(frozen=True)
class Workload(Setting):
    """A network and its flows, which depend on a seed."""

    name: str
    title: str
    flows: Callable[[random.Random], list[Flow]]
    changes: Callable[[random.Random], list[Change]] = lambda _: []
    senders: int = field(default=SENDERS, kw_only=True)

    def flows_of(self, draw: random.Random) -> tuple[tuple[Flow, ...], tuple[Change, ...]]:
        """The flows and the changes of rates, which do not depend on the number of senders."""
        flows, changes = self.flows(draw), self.changes(draw)
        senders = [
            draw.randrange(self.senders) if flow.size and not self.joined else n % self.senders
            for n, flow in enumerate(flows)
        ]
        placed = zip(flows, senders, strict=True)
        return tuple(replace(flow, sender=sender) for flow, sender in placed), tuple(changes)


@dataclass(frozen=True)
class Plan(Setting, Plain, Measured[Numbers]):
    """A workload with a seed, on a stack, under a congestion control."""

    kind = "compare"

    stack: str
    cc: str
    flows: tuple[Flow, ...]
    changes: tuple[Change, ...] = ()
    #: interval of TCP's samples [s]
    look: float = 0.1
    #: of the random numbers of the kernel and of programs
    seed: int = 0

    @classmethod
    def of(cls, workload: Workload, stack: str, cc: str, seed: int) -> "Plan":
        common = {one.name: getattr(workload, one.name) for one in fields(Setting)}
        flows = workload.flows_of(random.Random(seed))
        return cls(stack, cc, *flows, seed=seed, **common)

    # --- as a job -------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"settings": asdict(STACKS[self.stack])}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return super().from_json({name: data[name] for name in data if name != "settings"})

    def sources(self) -> tuple[str, ...]:
        found = [*engine.SOURCES, "userspace/traffic"]
        own = ("agents", "experiment", "guest", "keys", "maxmin", "mesh", "network", "record")
        found += [f"userspace/lab/fairlab/slbn/{name}.py" for name in own]
        found += [f"userspace/lab/fairlab/results/{name}.py" for name in ("statistics", "waits")]
        found += [f"userspace/lab/fairlab/compare/{name}.py" for name in ("plan", "sizes", "stack")]
        if "drr_fq" in STACKS[self.stack].kind:
            found.append("sch_drr_fq")
        if self.cc in ("bic", "gaimd"):
            found.append(f"tcp_{self.cc}")
        if STACKS[self.stack].slbn is not None:
            found += AGENT_SOURCES
        return tuple(found)

    @property
    def fastest(self) -> int:
        """The rate of the fastest link [bit/s]."""
        return max(wire.rate for wire in self.mesh.wires)

    def duration(self) -> float:
        """How long to wait for the guest: above 1 Gbit/s, packets take longer than their time."""
        return self.seconds * max(1.0, self.fastest / 10**9)

    def guest_memory(self) -> int:
        return self.memory

    @property
    def memory(self) -> int:
        """The memory of a guest [MiB]: packets in flight are kept by both ends."""
        return 2048 if self.fastest < 10**9 else 4096 if self.fastest < 10**10 else 16384

    def read(self, work: Path) -> Numbers:
        return read(self, work)

    def experiment(self) -> Experiment:
        stack = STACKS[self.stack]
        built = self.network()
        return Experiment(
            name=f"{self.stack}, {self.cc}",
            network=built,
            flows=tuple(flow if flow.udp else replace(flow, cc=self.cc) for flow in self.flows),
            seconds=self.seconds,
            looks=tuple(float(second) for second in range(1, round(self.seconds) + 1)),
            look=self.look,
            window=WINDOW_SECONDS * self.fastest // 8,
            warmup=self.warmup,
            changes=self.changes,
            rated=f"{stack.kind} {stack.options}" if "{rate}" in stack.options else "",
            cc=self.cc,
            hosts=self.hosts,
            agents={} if stack.slbn is None else self.agents(built),
            joined=self.joined and stack.slbn is not None,
        )

    def agents(self, built: Network) -> dict[str, dict[str, str]]:
        """The options of the stack for the agent of each node."""
        stack = STACKS[self.stack]
        found = {}
        for number, node in enumerate(self.uplinks):
            own = stack.agent
            if number == 0 and stack.first_agent is not None:
                own = stack.first_agent
            # A connection belongs to the session that was joined for its pair of hosts.
            found[node] = dict(own) | ({"sessions": "pair"} if self.joined else {})
            if PLACES * len(self.flows) > CONNECTIONS:
                found[node]["connections"] = str(PLACES * len(self.flows))
            if len(self.weights) > 1:
                each = zip(senders_of(built, node), itertools.cycle(self.weights), strict=False)
                found[node]["weight"] = ", ".join(f"{host}/32 {weight}" for host, weight in each)
        return found

    # --- what follows from it -------------------------------------------------------------------

    def network(self) -> Network:
        """The network: with BBR, hosts pace by fq."""
        stack, rtt = STACKS[self.stack], max(map(self.round_trip, self.flows))

        def trunk(rate: int, delay: int, uplink: bool = False, first: bool = False) -> Trunk:
            data = stack.qdisc(rate, self.buffer, self.small, rtt, self.cc, first)
            if stack.slbn is None:
                return Trunk(rate, delay, data)
            return Trunk(rate, delay, network.PACING if uplink else data, rate, stack.slbn)

        links = []
        for wire in self.mesh.wires:
            both = trunk(wire.rate, wire.delay, first=wire is self.mesh.wires[0])
            links.append((link_name(wire.a, wire.b), both, both))
        return network.build(
            links,
            {
                node: (trunk(rate, 0, uplink=True), trunk(rate, 2 * network.ACCESS_DELAY))
                for node, rate in self.uplinks.items()
            },
            self.whole.near,
            (
                None if stack.slbn is None else Edge(),
                Qdisc("", "fq") if self.cc == "bbr" else None,
            ),
            self.senders,
        )

    @cached_property
    def whole(self) -> Mesh:
        """The mesh with the access routers."""
        return network.with_access(self.mesh, self.uplinks)

    def path(self, source: str, destination: str) -> list[str]:
        """The links from one node's host to another's."""
        return self.whole.path(access(source), access(destination))

    def round_trip(self, flow: Flow) -> float:
        """The round-trip time without queues [ms]."""
        return self.whole.round_trip_us(access(flow.source), access(flow.destination)) / 1000

    def capacity(self, when: float) -> dict[str, int]:
        """The rate of each link [bit/s]."""
        return self.whole.rates | {link: rate for at, link, rate in self.changes if at <= when}

    def fair(self) -> list[float]:
        """The max-min fair payload of each flow without a size, from the warm-up on [bytes]."""
        found = [0.0] * len(self.flows)
        long = {n: flow for n, flow in enumerate(self.flows) if not flow.size}
        paths = {n: self.path(flow.source, flow.destination) for n, flow in long.items()}

        def rates(when: float) -> dict[int, Fraction]:
            there = {
                n: maxmin.Session(paths[n], flow.udp or None, self.weight_of(flow))
                for n, flow in long.items()
                if flow.start <= when < flow.stop
            }
            return maxmin.rates(self.capacity(when), there)

        cuts = {when for flow in long.values() for when in (flow.start, flow.stop)}
        cuts |= {when for when, _, _ in self.changes}
        over_time = maxmin.OverTime[dict[int, Fraction]](cuts, rates, {})
        for begin, end, fair in over_time.steps(self.warmup, self.seconds):
            for n, rate in fair.items():
                part = UDP_PART if long[n].udp else TCP_PART
                found[n] += float(rate) * part * (end - begin) / 8
        return found

    def weight_of(self, flow: Flow) -> int:
        return self.weights[flow.sender % len(self.weights)]


def read(plan: Plan, work: Path) -> Numbers:
    """The measures of a run, whose raw data is in WORK; CannotRunError if it is disturbed."""
    record = plan.record(work)
    record.check()
    document = record.document
    before, got, delays, ended, retransmits, segments = tcp(plan, record)
    for number, flow in enumerate(plan.flows):
        if flow.udp:
            got[number] = udp_payload(plan, number, document)
    early = sum(before) + UDP_PART * sum(pair["udp"][0] for pair in document["early"].values())
    fair = plan.fair()
    long = [n for n, flow in enumerate(plan.flows) if not flow.size and fair[n]]
    time = plan.seconds - plan.warmup
    sent, arrived = document["hosts"]["sent_bytes"], document["arrived"]
    carried = sum(document["carried"].values())
    useful = sum(
        sum_bytes(counts) * len(plan.path(*pair.split("-"))) for pair, counts in arrived.items()
    )
    slow, udp = slowdowns(plan, ended), udp_waits(plan, record)
    parts = [got[n] / fair[n] for n in long]
    several = parts if len(parts) > 1 else None
    return {
        "goodput": 8e-6 * sum(got) / time,
        "goodput_tcp": 8e-6
        * sum(got[n] for n, flow in enumerate(plan.flows) if not flow.udp)
        / time,
        "start": 8e-6 * early / plan.warmup if plan.warmup else None,
        "maxmin": 100 * sum(min(got[n], fair[n]) for n in long) / sum(fair[n] for n in long)
        if long
        else None,
        "jain": statistics.jain(several) if several else None,
        "least": 100 * min(several) if several else None,
        "most": 100 * max(several) if several else None,
        "completion": {
            name: completion([took for flow, took in ended if sizes.class_of(flow.size) == name])
            for name, _ in sizes.CLASSES
        },
        "slowdown": mean_and_p99(slow) if slow else None,
        "unfinished": sum(bool(flow.size) for flow in plan.flows) - len(ended),
        "delay50": statistics.percentile(delays, 50) if delays else None,
        "delay99": statistics.percentile(delays, 99) if delays else None,
        "waits": band_waits(document),
        "udp50": waits.percentile(udp, 50),
        "udp99": waits.percentile(udp, 99),
        "loss": 100 * (1 - sum(map(sum_bytes, arrived.values())) / sent),
        "loss_tcp": tcp_loss(record),
        "loss_below": loss_below(plan, record, fair),
        "retransmits": 100 * retransmits / segments if segments else 0.0,
        "wasted": 100 * max(0.0, carried - useful) / carried,
        "flows": [round(8e-6 * got[n] / time, 4) for n in long][:20],
    }


def sum_bytes(counts: dict[str, list[int]]) -> int:
    """The bytes of a pair of hosts, of all protocols."""
    return sum(size for size, _ in counts.values())


def mean_and_p99(values: list[float]) -> dict[str, float]:
    return {"mean": sum(values) / len(values), "p99": statistics.percentile(values, 99)}


def completion(times: list[float]) -> dict[str, float] | None:
    """The mean and the 99th percentile of flow completion times [ms]."""
    return mean_and_p99([1000 * t for t in times]) | {"count": len(times)} if times else None


Tcp = tuple[list[float], list[float], list[float], list[tuple[Flow, float]], int, int]


def tcp(plan: Plan, record: Record) -> Tcp:
    """Of TCP: the payload of each flow during and after the warm-up, samples of queue delay [ms],
    short flows that ended and their completion times [s], retransmitted segments, segments."""
    import numpy

    early, got = [0.0] * len(plan.flows), [0.0] * len(plan.flows)
    delays: list[float] = []
    completed: list[tuple[Flow, float]] = []
    retransmits = segments = 0
    flows = zip(plan.flows, record.heads, record.rows, strict=True)
    for number, (flow, head, rows) in enumerate(flows):
        if flow.udp:
            continue
        segments += head["segments"]
        retransmits += head["retransmits"]
        # Samples are a little later than multiples of their interval.
        times, acked = [0.0, *rows["time"].tolist()], [0, *rows["acked"].tolist()]
        early[number] = float(numpy.interp(plan.warmup * 1e9, times, acked, right=head["acked"]))
        got[number] = head["acked"] - early[number]
        after = rows[(rows["time"] > plan.warmup * 1e9) & (rows["rtt"] > 0)]
        base = plan.round_trip(flow)
        delays += [max(0.0, rtt / 1000 - base) for rtt in after["rtt"].tolist()]
        if "lost" in head:
            completed.append((flow, head["ended"] - flow.start))
    return early, got, delays, completed, retransmits, segments


def slowdowns(plan: Plan, ended: list[tuple[Flow, float]]) -> list[float]:
    """The completion times of flows, divided by those on the empty path."""
    found = []
    rates = plan.capacity(0)
    for flow, took in ended:
        slowest = min(rates[link] for link in plan.path(flow.source, flow.destination))
        ideal = 1.5e-3 * plan.round_trip(flow) + 8 * flow.size / TCP_PART / slowest
        found.append(took / ideal)
    return found


def udp_sent(record: Record) -> dict[str, float]:
    """The bytes of UDP's frames that hosts have sent, by pair."""
    found: dict[str, float] = {}
    for flow, head in zip(record.what.flows, record.heads, strict=True):
        if flow.udp:
            found[flow.pair] = found.get(flow.pair, 0) + head["sent"] / UDP_PART
    return found


def tcp_loss(record: Record) -> float | None:
    """The bytes of TCP's frames that were lost [%]; None without TCP."""
    sent = record.document["hosts"]["sent_bytes"] - sum(udp_sent(record).values())
    arrived = sum(counts["tcp"][0] for counts in record.document["arrived"].values())
    return 100 * max(0.0, 1 - arrived / sent) if arrived else None


def loss_below(plan: Plan, record: Record, fair: list[float]) -> float | None:
    """The loss of UDP that does not send more than its max-min share [%]; None if all does.

    A pair of hosts counts if all of its UDP does.
    """
    above = set()
    for number, flow in enumerate(plan.flows):
        took = flow.stop - max(flow.start, plan.warmup)
        if flow.udp and fair[number] < 0.999 * flow.udp * UDP_PART * took / 8:
            above.add(flow.pair)
    sent = {pair: size for pair, size in udp_sent(record).items() if pair not in above}
    arrived = sum(record.document["arrived"][pair]["udp"][0] for pair in sent)
    return 100 * max(0.0, 1 - arrived / sum(sent.values())) if sent else None


def udp_waits(plan: Plan, record: Record) -> waits.Waits:
    """How long UDP's packets waited that were sent after the warm-up.

    Without destinations that get UDP from several hosts, whose paths differ.
    """
    found = []
    for node, report in record.sinks.items():
        flows = [flow for flow in plan.flows if flow.udp and flow.destination == node]
        if len({flow.source for flow in flows}) == 1:
            found.append((report, plan.round_trip(flows[0]) / 2))
    return waits.of(found)


def band_waits(document: dict[str, Any]) -> Numbers | None:
    """How long packets waited at a link, by band, of all links and the whole run [ms]."""
    found = {}
    for band, counts in document.get("waits", {}).items():
        every = waits.of_steps(counts)
        names = (("p50", 50), ("p99", 99), ("p999", 99.9))
        found[band] = {name: waits.percentile(every, percent) for name, percent in names}
    return found or None


def udp_payload(plan: Plan, number: int, document: dict[str, Any]) -> float:
    """The payload of a UDP flow after the warm-up: its part of that of all of its hosts.

    What queues still hold at the end does not count.
    """
    flow = plan.flows[number]
    size: int = document["late"][flow.pair]["udp"][0] - document["early"][flow.pair]["udp"][0]

    def planned(one: Flow) -> float:
        return one.udp * max(0.0, one.stop - max(one.start, plan.warmup))

    same = [f for f in plan.flows if f.udp and f.pair == flow.pair]
    return UDP_PART * size * planned(flow) / sum(map(planned, same))
