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

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from fairlab.compare import network, sizes
from fairlab.compare.stacks import STACKS
from fairlab.compare.workloads import FRAME, TCP_PART, UDP_PART, Change, Flow, Workload
from fairlab.model.network import Network
from fairlab.model.plain import Plain
from fairlab.net.network import AMPLE, Hosts
from fairlab.results import statistics, trust, waits
from fairlab.run import engine, samples
from fairlab.run.engine import Engine
from fairlab.run.job import Job
from fairlab.slbn import maxmin, sessions
from fairlab.slbn.abilene import access
from fairlab.slbn.mesh import Mesh, link_name

DATA = "compare-data.json"
#: How the files of the reports of UDP's sinks end.
UDP_SINK = "-udp.json"
#: The flows of one of fairflow's processes, at most (FLOWS_MAX).
PROGRAM_FLOWS = 1024
#: What a link may send at once: tbf's burst, and a packet on the way.
BURST = 4 * FRAME
PAYLOAD = {"udp": UDP_PART, "tcp": TCP_PART}

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Plan(Plain, Job[Numbers]):
    """A workload with a seed, on a stack, under a congestion control."""

    kind = "compare"

    stack: str
    cc: str
    mesh: Mesh
    uplinks: dict[str, int]
    buffer: int
    small: bool
    seconds: float
    warmup: float
    flows: tuple[Flow, ...]
    changes: tuple[Change, ...]
    #: interval of TCP's samples [s]
    look: float = 0.1
    hosts: Hosts = AMPLE
    #: hosts that send at each node
    senders: int = 1
    #: of their flows, in turn, where SLBN assigns rates
    weights: tuple[int, ...] = (1,)
    #: a session is joined for each flow before it starts, where SLBN assigns rates
    joined: bool = False

    @classmethod
    def of(cls, workload: Workload, stack: str, cc: str, seed: int) -> "Plan":
        draw = random.Random(seed)
        w = workload
        rest = (w.buffer, w.small, w.seconds, w.warmup, *w.flows_of(draw))
        return cls(
            stack, cc, w.mesh, dict(w.uplinks), *rest,
            hosts=w.hosts, senders=w.senders, weights=w.weights, joined=w.joined,
        )  # fmt: skip

    # --- as a job -------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"settings": asdict(STACKS[self.stack])}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return super().from_json({name: data[name] for name in data if name != "settings"})

    def sources(self) -> tuple[str, ...]:
        found = [*engine.SOURCES, "userspace/traffic"]
        own = ("plan", "guest", "network", "stack")
        found += [f"userspace/lab/fairlab/compare/{name}.py" for name in own]
        if "drr_fq" in STACKS[self.stack].kind:
            found.append("sch_drr_fq")
        if self.cc in ("bic", "gaimd"):
            found.append(f"tcp_{self.cc}")
        if STACKS[self.stack].slbn is not None:
            found += sessions.AGENT_SOURCES
        return tuple(found)

    def duration(self) -> float:
        return self.seconds

    def guest_memory(self) -> int:
        return self.memory

    @property
    def memory(self) -> int:
        """The memory of a guest [MiB]: packets in flight are kept by both ends."""
        most = max(wire.rate for wire in self.mesh.wires)
        return 2048 if most < 10**9 else 4096 if most < 10**10 else 16384

    def check_engine(self, engine: Engine) -> None:
        sessions.require_virtual(engine)

    def build(self) -> None:
        sessions.build_programs("traffic")

    def read(self, work: Path) -> Numbers:
        return read(self, work)

    def conditions(self, work: Path) -> dict[str, Any]:
        document = json.loads((work / DATA).read_text())
        found = document["environment"]
        lacking = trust.check(evidence(self, work, document), virtual=True)
        names = ("kernel", "engine", "tools", "modules")
        return {name: found[name] for name in names} | trust.condition(lacking)

    # --- what follows from it -------------------------------------------------------------------

    def network(self) -> Network:
        rtt = max(map(self.round_trip, self.flows))
        return network.build(
            self.mesh,
            self.uplinks,
            self.stack,
            self.buffer,
            self.small,
            rtt,
            self.cc,
            self.senders,
        )

    def path(self, source: str, destination: str) -> list[str]:
        """The links from one node's host to another's."""
        return network.path(self.mesh, self.uplinks, source, destination)

    def round_trip(self, flow: Flow) -> float:
        """The round-trip time without queues [ms]."""
        return network.round_trip(self.mesh, self.uplinks, flow.source, flow.destination)

    def capacity(self, when: float) -> dict[str, int]:
        """The rate of each link [bit/s]."""
        found = dict(self.mesh.rates)
        for node, rate in self.uplinks.items():
            own = access(node)
            found[link_name(own, node)] = found[link_name(node, own)] = rate
        found |= {link: rate for at, link, rate in self.changes if at <= when}
        return found

    def fair(self) -> list[float]:
        """The max-min fair payload of each flow without a size, from the warm-up on [bytes]."""
        found = [0.0] * len(self.flows)
        cuts = {self.warmup, self.seconds, *(when for when, _, _ in self.changes)}
        cuts |= {when for flow in self.flows for when in (flow.start, flow.stop) if not flow.size}
        times = sorted(when for when in cuts if self.warmup <= when <= self.seconds)
        paths = {
            n: self.path(flow.source, flow.destination)
            for n, flow in enumerate(self.flows)
            if not flow.size
        }
        for begin, end in pairwise(times):
            there = {
                str(n): maxmin.Session(paths[n], flow.udp or None, self.weight_of(flow))
                for n, flow in enumerate(self.flows)
                if not flow.size and flow.start <= begin < flow.stop
            }
            if not there:
                continue
            for name, rate in maxmin.rates(self.capacity(begin), there).items():
                part = PAYLOAD["udp" if self.flows[int(name)].udp else "tcp"]
                found[int(name)] += float(rate) * part * (end - begin) / 8
        return found

    def weight_of(self, flow: Flow) -> int:
        return self.weights[flow.sender % len(self.weights)]

    def by_program(self) -> dict[str, list[int]]:
        """The numbers of the flows of each of fairflow's processes, by its name.

        A node has one, and more if it has more flows than one of them can send.
        """
        by_node: dict[str, list[int]] = {}
        for number, flow in enumerate(self.flows):
            by_node.setdefault(flow.source, []).append(number)
        return {
            f"{node}-{first // PROGRAM_FLOWS}" if first else node: numbers[first:][:PROGRAM_FLOWS]
            for node, numbers in by_node.items()
            for first in range(0, len(numbers), PROGRAM_FLOWS)
        }


def read(plan: Plan, work: Path) -> Numbers:
    """The measures of a run, whose raw data is in WORK; CannotRunError if it is disturbed."""
    document = json.loads((work / DATA).read_text())
    trust.check(evidence(plan, work, document), virtual=True)
    before, got, delays, ended, retransmits, segments = tcp(plan, work)
    completed = [(flow.size, took) for flow, took in ended]
    for number, flow in enumerate(plan.flows):
        if flow.udp:
            got[number] = udp_payload(plan, number, document)
    early = sum(before) + UDP_PART * sum(pair["udp"][0] for pair in document["early"].values())
    fair = plan.fair()
    long = [n for n, flow in enumerate(plan.flows) if not flow.size and fair[n]]
    time = plan.seconds - plan.warmup
    sent, arrived = document["sent"], sum(map(sum_bytes, document["arrived"].values()))
    carried = sum(document["carried"].values())
    useful = sum(
        sum_bytes(counts) * len(plan.path(*pair.split("-")))
        for pair, counts in document["arrived"].items()
    )
    slow = slowdowns(plan, ended)
    udp = udp_waits(plan, work)
    return {
        "goodput": 8e-6 * sum(got) / time,
        "goodput_tcp": 8e-6
        * sum(got[n] for n, flow in enumerate(plan.flows) if not flow.udp)
        / time,
        "start": 8e-6 * early / plan.warmup if plan.warmup else None,
        "maxmin": 100 * sum(min(got[n], fair[n]) for n in long) / sum(fair[n] for n in long)
        if long
        else None,
        "jain": statistics.jain([got[n] / fair[n] for n in long]) if len(long) > 1 else None,
        "least": 100 * min(got[n] / fair[n] for n in long) if len(long) > 1 else None,
        "most": 100 * max(got[n] / fair[n] for n in long) if len(long) > 1 else None,
        "completion": {
            name: completion([took for size, took in completed if sizes.class_of(size) == name])
            for name, _ in sizes.CLASSES
        },
        "slowdown": {
            "mean": sum(slow) / len(slow),
            "p99": statistics.percentile(slow, 99),
        }
        if slow
        else None,
        "unfinished": sum(bool(flow.size) for flow in plan.flows) - len(completed),
        "delay50": statistics.percentile(delays, 50) if delays else None,
        "delay99": statistics.percentile(delays, 99) if delays else None,
        "waits": band_waits(document),
        "udp50": waits.percentile(udp, 50),
        "udp99": waits.percentile(udp, 99),
        "loss": 100 * (1 - arrived / sent),
        "loss_tcp": tcp_loss(plan, work, document),
        "loss_below": loss_below(plan, work, document, fair),
        "retransmits": 100 * retransmits / segments if segments else 0.0,
        "wasted": 100 * max(0.0, carried - useful) / carried,
        "flows": [round(8e-6 * got[n] / time, 4) for n in long][:20],
    }


def evidence(plan: Plan, work: Path, document: dict[str, Any]) -> trust.Evidence:
    """What the run has recorded, for trust.py."""
    flows = {}
    for program, numbers in plan.by_program().items():
        head, _ = samples.read(work / f"{program}.fair")
        for n, number in enumerate(numbers):
            asked, flow = plan.cc, head["flows"][n]
            if plan.flows[number].udp:
                asked = "udp"
            name = f"flow {number} from {plan.flows[number].source}"
            flows[name] = trust.Ran(asked, flow["kind"], bool(flow["sent"]))
    frames = {
        f"{pair}, {protocol.upper()},": trust.Frames(size, count, FRAME)
        for pair, counts in document["arrived"].items()
        for protocol, (size, count) in counts.items()
    }
    changed = {link for _, link, _ in plan.changes}
    most = dict(plan.capacity(0))
    for _, link, rate in plan.changes:
        most[link] = max(most[link], rate)
    rates = {
        link: trust.LinkRate(
            document["times"],
            kept["sent"],
            kept["held"],
            most[link],
            BURST,
            # With SLBN, packets on an access router's link may wait for their time.
            steady=link not in changed and not link.startswith("a-"),
        )
        for link, kept in document["wires"].items()
    }
    return trust.Evidence(
        between=document["backlog_drops"],
        delays=document["hidden"],
        memory=document["out_of_memory"],
        frames=frames,
        rates=rates,
        flows=flows,
        agents=document["agents"],
        kernel=document["kernel_errors"],
        changed=document["changed"],
    )


def sum_bytes(counts: dict[str, list[int]]) -> int:
    """The bytes of a pair of hosts, of all protocols."""
    return sum(size for size, _ in counts.values())


def completion(times: list[float]) -> dict[str, float] | None:
    """The mean and the 99th percentile of flow completion times [ms]."""
    if not times:
        return None
    every = [1000 * took for took in times]
    return {
        "mean": sum(every) / len(every),
        "p99": statistics.percentile(every, 99),
        "count": len(every),
    }


Tcp = tuple[list[float], list[float], list[float], list[tuple[Flow, float]], int, int]


def tcp(plan: Plan, work: Path) -> Tcp:
    """Of TCP: the payload of each flow during and after the warm-up, samples of queue delay [ms],
    short flows that ended and their completion times [s], retransmitted segments, segments."""
    import numpy

    early, got = [0.0] * len(plan.flows), [0.0] * len(plan.flows)
    delays: list[float] = []
    completed: list[tuple[Flow, float]] = []
    retransmits = segments = 0
    for number, flow, head, rows in outputs(plan, work):
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


def udp_sent(plan: Plan, work: Path) -> dict[str, float]:
    """The bytes of UDP's frames that hosts have sent, by pair."""
    found: dict[str, float] = {}
    for name, numbers in plan.by_program().items():
        head, _ = samples.read(work / f"{name}.fair")
        for n, number in enumerate(numbers):
            flow = plan.flows[number]
            if flow.udp:
                pair = f"{flow.source}-{flow.destination}"
                found[pair] = found.get(pair, 0) + head["flows"][n]["sent"] / UDP_PART
    return found


def tcp_loss(plan: Plan, work: Path, document: dict[str, Any]) -> float | None:
    """The bytes of TCP's frames that were lost [%]; None without TCP."""
    sent = document["sent"] - sum(udp_sent(plan, work).values())
    arrived = sum(counts["tcp"][0] for counts in document["arrived"].values())
    return 100 * max(0.0, 1 - arrived / sent) if arrived else None


def loss_below(plan: Plan, work: Path, document: dict[str, Any], fair: list[float]) -> float | None:
    """The loss of UDP that does not send more than its max-min share [%]; None if all does.

    A pair of hosts counts if all of its UDP does.
    """
    above = set()
    for number, flow in enumerate(plan.flows):
        took = flow.stop - max(flow.start, plan.warmup)
        if flow.udp and fair[number] < 0.999 * flow.udp * UDP_PART * took / 8:
            above.add(f"{flow.source}-{flow.destination}")
    sent = {pair: size for pair, size in udp_sent(plan, work).items() if pair not in above}
    arrived = sum(document["arrived"][pair]["udp"][0] for pair in sent)
    return 100 * max(0.0, 1 - arrived / sum(sent.values())) if sent else None


def udp_waits(plan: Plan, work: Path) -> waits.Waits:
    """How long UDP's packets waited that were sent after the warm-up.

    Without destinations that get UDP from several hosts, whose paths differ.
    """
    found = []
    for path in work.glob(f"*{UDP_SINK}"):
        node = path.name.removesuffix(UDP_SINK)
        flows = [flow for flow in plan.flows if flow.udp and flow.destination == node]
        if len({flow.source for flow in flows}) == 1:
            found.append((json.loads(path.read_text()), plan.round_trip(flows[0]) / 2))
    return waits.of(found)


def band_waits(document: dict[str, Any]) -> Numbers | None:
    """How long packets waited at a link, by band, of all links and the whole run [ms]."""
    found = {}
    for band, counts in document.get("waits", {}).items():
        every = waits.of_steps(counts)
        names = (("p50", 50), ("p99", 99), ("p999", 99.9))
        found[band] = {name: waits.percentile(every, percent) for name, percent in names}
    return found or None


def outputs(plan: Plan, work: Path) -> Iterator[tuple[int, Flow, dict[str, Any], Any]]:
    """Of each TCP flow: its number, fairflow's totals, its samples."""
    for name, numbers in plan.by_program().items():
        head, rows = samples.read(work / f"{name}.fair")
        for n, number in enumerate(numbers):
            if not plan.flows[number].udp:
                yield number, plan.flows[number], head["flows"][n], rows[rows["flow"] == n]


def udp_payload(plan: Plan, number: int, document: dict[str, Any]) -> float:
    """The payload of a UDP flow after the warm-up: its part of that of all of its hosts.

    What queues still hold at the end does not count.
    """
    flow = plan.flows[number]
    pair = f"{flow.source}-{flow.destination}"
    size: int = document["late"][pair]["udp"][0] - document["early"][pair]["udp"][0]

    def planned(one: Flow) -> float:
        return one.udp * max(0.0, one.stop - max(one.start, plan.warmup))

    same = [f for f in plan.flows if f.udp and f"{f.source}-{f.destination}" == pair]
    return UDP_PART * size * planned(flow) / sum(map(planned, same))
