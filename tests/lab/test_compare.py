# SPDX-License-Identifier: GPL-2.0
"""`fairlab compare`: statistics, workloads, networks, measures of a made-up run, the verdict."""

import dataclasses
import ipaddress
import json
import random
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairlab.compare import measures, sizes, studies
from fairlab.compare.plan import Plan, Workload
from fairlab.compare.stack import DEEP
from fairlab.compare.stacks import CCS, STACKS, cases
from fairlab.compare.workloads import WORKLOADS
from fairlab.figures import comparisons, fingerprints
from fairlab.model.errors import CannotRunError
from fairlab.model.network import Edge, End, Trunk
from fairlab.net import netlink
from fairlab.net.network import host_settings, queue_commands
from fairlab.results import statistics, waits
from fairlab.slbn import guest
from fairlab.slbn.experiment import FRAME, TCP_PART, UDP_PART, Flow
from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.network import (
    access,
    address_of,
    host,
    local_hosts,
    senders_of,
    subnet_of,
    trunks,
)

from tests.lab.labtools import TOP, assert_refused, call_fairlab, run_fairlab
from tests.lab.test_gallery import LAB, imported

MBIT = 10**6


def test_runs_declare_all_their_sources() -> None:
    """Stacks and workloads are in a run's description; the checks of the gate change no number."""
    plan = Plan.of(WORKLOADS["backbone"], "slbn-fifo", "cubic", 1)
    declared = {path.resolve() for path in fingerprints.files(TOP, plan.sources())}
    needed: set[Path] = set()
    todo = {LAB / "fairlab/compare/plan.py"}
    while todo:
        needed |= todo
        todo = set().union(*map(imported, todo)) - needed
        todo = {path for path in todo if path.stem not in ("stacks", "workloads", "trust")}
    assert {path.resolve() for path in needed} <= declared


def test_guests_of_fast_links_may_take_longer() -> None:
    def patience(name: str) -> float:
        plan = Plan.of(WORKLOADS[name], "fq_codel", "cubic", 1)
        return plan.duration() / plan.seconds

    found = [patience(name) for name in ("parking-lot", "many-flows", "many-flows-10g")]
    assert found == [1, 1, 10]


def test_agents_of_many_flows_have_places_for_them() -> None:
    def agents(name: str) -> list[dict[str, str]]:
        plan = Plan.of(WORKLOADS[name], "slbn-fifo", "cubic", 1)
        return list(plan.agents(plan.network()).values())

    assert all("connections" not in options for options in agents("many-flows"))
    assert [options["connections"] for options in agents("many-flows-10g")] == ["160000"] * 2


def test_interval_is_students() -> None:
    mean, half = statistics.interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    # s = 1.290994, t(3) = 3.182
    assert half == pytest.approx(3.182 * 1.290994 / 2, rel=1e-5)
    assert statistics.interval([7.0]) == (7.0, None)
    assert statistics.interval([7.0] * 10) == (7.0, 0.0)
    _, many = statistics.interval([float(n % 2) for n in range(1000)])
    assert many == pytest.approx(1.96 * 0.5 / 1000**0.5, rel=1e-3)


def test_students_table_falls_towards_the_normal_one() -> None:
    assert all(a > b for a, b in pairwise((*statistics.STUDENT, statistics.NORMAL)))


def test_differences_are_paired() -> None:
    """Seeds differ by far more than stacks; the pairs show the difference all the same."""
    other = [10.0, 50.0, 90.0, 20.0]
    ours = [value + more for value, more in zip(other, (1.0, 1.1, 0.9, 1.0), strict=True)]
    assert statistics.p_value(ours, other) == statistics.p_value(other, ours) < 0.001
    assert statistics.p_value(ours, ours) == 1
    assert statistics.p_value([1.0, 2.0], [0.0, 1.0]) == 0
    assert statistics.p_value([1.0, -1.0, 1.0], [0.0, 0.0, 0.0]) > 0.5


def test_p_values_of_the_students_table() -> None:
    """5 % of all values of t are beyond those of the table."""
    for free, t in enumerate(statistics.STUDENT, 1):
        x = free / (free + t * t)
        assert statistics.incomplete_beta(free / 2, 0.5, x) == pytest.approx(0.05, rel=2e-3)
    # By hand: I_x(1, 1) = x, I_x(2, 1) = x^2, I_x(1, 2) = 1 - (1 - x)^2.
    for x in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert statistics.incomplete_beta(1, 1, x) == pytest.approx(x)
        assert statistics.incomplete_beta(2, 1, x) == pytest.approx(x * x)
        assert statistics.incomplete_beta(1, 2, x) == pytest.approx(1 - (1 - x) ** 2)


def test_holms_correction() -> None:
    """Holm's rule by hand: p of rank k of n is compared with 5 % / (n - k)."""
    tests = {"a": 0.001, "b": 0.02, "c": 0.012, "d": 0.3}
    assert statistics.holm(tests) == {"a", "c", "b"}
    assert statistics.holm(tests | {"c": 0.017}) == {"a"}
    assert statistics.holm({"a": 0.02, "b": 0.03, "c": 0.04}) == set()
    assert statistics.holm({}) == set()


def test_one_of_many_chance_differences_is_no_loss() -> None:
    """A p-value of 3 % among ten tests proves nothing."""
    gaps = (1.0, 1.4, 2.6)
    close = {
        "fq_codel_in_cubic": [numbers(95.0, 6.0) for _ in gaps],
        "slbn_in_cubic": [numbers(95.0 - gap, 6.0) for gap in gaps],
        "pfifo_in_cubic": [numbers(90.0, 6.0) for _ in gaps],
    }
    mine, theirs = [95.0 - gap for gap in gaps], [95.0] * 3
    assert 0.01 < statistics.p_value(mine, theirs) < 0.1
    assert measures.losses(close) == [
        "slbn is worse than the best other stack in: nothing that the runs show"
    ]


def test_percentiles() -> None:
    values = [float(n) for n in range(101)]
    random.Random(1).shuffle(values)
    assert statistics.percentile(values, 50) == 50
    assert statistics.percentile(values, 99) == 99
    assert statistics.percentile([3.0], 99) == 3
    assert statistics.percentile([1.0, 2.0], 50) == 1.5


def test_jains_index() -> None:
    assert statistics.jain([5.0] * 7) == pytest.approx(1)
    assert statistics.jain([1.0, 0, 0, 0]) == pytest.approx(0.25)
    assert statistics.jain([0.0, 0.0]) == 1


@pytest.mark.parametrize(
    ("table", "mean", "small"), [(sizes.WEB, 1.7e6, 0.55), (sizes.DATA, 3.1e6, 0.85)]
)
def test_flow_sizes_follow_their_table(table: sizes.Table, mean: float, small: float) -> None:
    assert sizes.mean(table) == pytest.approx(mean, rel=0.1)
    draw = random.Random(1)
    found = [sizes.draw(table, draw) for _ in range(50_000)]
    assert sum(found) / len(found) == pytest.approx(sizes.mean(table), rel=0.1)
    part = sum(sizes.class_of(size) == "small" for size in found) / len(found)
    assert part == pytest.approx(small, abs=0.05)
    for packets, least in table:
        below = sum(size <= packets * sizes.PACKET for size in found) / len(found)
        assert below == pytest.approx(least, abs=0.01) or table is sizes.DATA


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_workloads_are_sound(workload: Workload) -> None:
    """Flows fit the run, differ by seed, and each stack has the same ones."""
    made = {seed: Plan.of(workload, "pfifo", "cubic", seed) for seed in (1, 2)}
    assert made[1].flows != made[2].flows
    assert made[1].flows == Plan.of(workload, "slbn", "bbr", 1).flows
    assert [made[seed].engine_seed() for seed in made] == [1, 2]
    for flow in made[1].flows:
        assert 0 <= flow.start < flow.stop <= workload.seconds
        assert {flow.source, flow.destination} <= workload.uplinks.keys()
    numbers = [number for own in made[1].experiment().programs().values() for number in own]
    assert sorted(numbers) == list(range(len(made[1].flows)))
    assert {flow.sender for flow in made[1].flows} <= set(range(workload.senders))
    assert all(0 < when < workload.seconds for when, _, _ in made[1].changes)


def test_flows_begin_at_many_hosts() -> None:
    """Flows are the same from one host; long ones are dealt to hosts, short ones drawn."""
    for name in ("backbone", "web-search", "data-mining", "parking-lot", "many-flows"):
        many = Plan.of(WORKLOADS[name], "slbn", "cubic", 1)
        one = Plan.of(WORKLOADS[f"{name}-one-host"], "slbn", "cubic", 1)
        alone = tuple(dataclasses.replace(flow, sender=0) for flow in many.flows)
        assert (one.flows, one.changes) == (alone, many.changes)
        assert (many.senders, one.senders) == (50, 1)
    counts = Counter(flow.sender for flow in many.flows)
    assert sorted(counts.items()) == [(n, 20) for n in range(50)]
    short = Plan.of(WORKLOADS["data-mining"], "slbn", "cubic", 1)
    counts = Counter(flow.sender for flow in short.flows)
    assert len(short.flows) > 100 and len(counts) > 40 and len(set(counts.values())) > 3


def test_flows_of_a_node_are_split_among_programs() -> None:
    """fairflow refuses more than 1024 flows; names are those of its files."""
    programs = Plan.of(WORKLOADS["many-flows-10g"], "slbn", "cubic", 1).experiment().programs()
    assert list(programs) == ["l", *(f"l-{n}" for n in range(1, 20))]
    assert [len(numbers) for numbers in programs.values()] == [1024] * 19 + [544]
    few = Plan.of(WORKLOADS["parking-lot"], "slbn", "cubic", 1)
    assert list(few.experiment().programs()) == ["p0", "p1", "p2"]


def test_flows_begin_behind_four_access_routers() -> None:
    """Sizes, starts and round-trip times are those of the workload with one."""
    one, four = (
        Plan.of(WORKLOADS[name], "slbn", "cubic", 1) for name in ("web-search", "web-search-4")
    )
    assert [(f.start, f.size, f.udp) for f in one.flows] == [
        (f.start, f.size, f.udp) for f in four.flows
    ]
    assert {four.round_trip(flow) for flow in four.flows} == {one.round_trip(one.flows[0])}
    counts = Counter(flow.source for flow in four.flows if not flow.udp)
    assert set(counts) == {"s1", "s2", "s3", "s4"}
    assert min(counts.values()) > len(four.flows) / 8


def test_udp_of_eight_links_ends_at_the_last_one() -> None:
    """TCP's fair rates are what UDP's ninths of the last link leave; a link alone would share."""
    made = Plan.of(WORKLOADS["eight-links"], "slbn", "cubic", 1)
    rates = [8 * part / (made.seconds - made.warmup) / 50e6 for part in made.fair()]
    assert rates[:8] == pytest.approx([TCP_PART * (1 - n / 9) for n in range(1, 9)], rel=1e-3)
    assert rates[8:] == pytest.approx([UDP_PART / 9] * 8, rel=1e-3)
    # On link n alone n flows of UDP and one of TCP have equal shares.
    assert sum(rates[:8]) > 2 * sum(TCP_PART / (n + 1) for n in range(1, 9))


def test_fair_goodput_follows_weights() -> None:
    """On each link the flows over all of them and its own ones divide it 1 : 2 : 4."""
    made = Plan.of(WORKLOADS["weights"], "slbn-fifo", "cubic", 1)
    assert [made.weight_of(flow) for flow in made.flows] == [1, 2, 4] * 4
    rates = [8 * part / (made.seconds - made.warmup) / 1e6 / TCP_PART for part in made.fair()]
    # The first link is the least: 60 / 14 for each weight, there and for those over all.
    unit = 60 / 14
    assert rates[:3] == rates[3:6] == pytest.approx([unit, 2 * unit, 4 * unit])
    for n, rate in ((6, 90), (9, 120)):
        unit = (rate - 30) / 7
        assert rates[n : n + 3] == pytest.approx([unit, 2 * unit, 4 * unit])


def test_incast_comes_from_200_hosts() -> None:
    made = Plan.of(WORKLOADS["incast"], "slbn-fifo", "cubic", 1)
    assert len({(flow.source, flow.sender) for flow in made.flows}) == len(made.flows) == 200
    assert max(f.start for f in made.flows) - min(f.start for f in made.flows) < 1.1e-4
    assert made.round_trip(made.flows[0]) == pytest.approx(4)


def test_one_link_and_one_agent_differ() -> None:
    """A domain where one link has no bands, or one access router an agent of another version."""
    built = Plan.of(WORKLOADS["parking-lot"], "slbn-fifo-one-plain", "cubic", 1).network()
    plain = {
        end.interface
        for end in trunks(built)
        if isinstance(end.queue, Trunk)
        and end.queue.data.kind == "drr_fq"
        and "bands" not in end.queue.data.words
    }
    assert plain == {"p0.p1", "p1.p0"}
    made = Plan.of(WORKLOADS["parking-lot"], "slbn-fifo-one-old", "cubic", 1)
    old, *others = made.experiment().agents.values()
    assert old == {"windows": "off"}
    assert len(others) == 3 and all(options["marks"] == "on" for options in others)


def test_hosts_have_their_own_addresses() -> None:
    """Each sender is an address of its host, in the agent's hosts, and known to its router."""
    built = Plan.of(WORKLOADS["web-search"], "slbn", "cubic", 1).network()
    for node in ("l", "r"):
        own = senders_of(built, node)
        assert len(set(own)) == 50 and address_of(built, node) not in own
        inside = [ipaddress.ip_network(p) for p in local_hosts(built, node).split(",")]
        whole = ipaddress.ip_network(subnet_of(built, node))
        for text in (address_of(built, node), *own):
            address = ipaddress.ip_address(text)
            assert address in whole and any(address in prefix for prefix in inside)
        router = ipaddress.ip_address(built.routes[host(node)][0][1])
        assert router in whole and not any(router in prefix for prefix in inside)
    alone = Plan.of(WORKLOADS["web-search-one-host"], "slbn", "cubic", 1).network()
    (only,) = senders_of(alone, "l")
    assert only == address_of(alone, "l")
    assert local_hosts(alone, "l") == f"{only}/32"


def test_short_flows_have_their_load() -> None:
    loads = []
    for seed in range(1, 21):
        made = Plan.of(WORKLOADS["web-search"], "pfifo", "cubic", seed)
        loads.append(8 * sum(flow.size for flow in made.flows) / TCP_PART / 8 / 1e9)
    assert sum(loads) / len(loads) == pytest.approx(0.5, rel=0.1)


def test_plans_are_stored() -> None:
    made = Plan.of(WORKLOADS["variable"], "cake", "cubic", 3)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_run_depends_on_its_own_stack_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(stack: str) -> dict[str, Any]:
        return Plan.of(WORKLOADS["parking-lot"], stack, "cubic", 1).to_json()

    before = {stack: stored(stack) for stack in ("slbn", "fq_codel")}
    monkeypatch.setitem(STACKS, "slbn", dataclasses.replace(STACKS["slbn"], slbn="headroom 2"))
    assert stored("slbn") != before["slbn"]
    assert stored("fq_codel") == before["fq_codel"]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", ["backbone", "parking-lot", "small-buffers"])
def test_routes_lead_to_every_host(name: str, stack: str) -> None:
    """Packets follow the routes along the paths that results are computed from."""
    made = Plan.of(WORKLOADS[name], stack, "cubic", 1)
    built = made.network()
    hop = {
        (end.node, peer.address): (end.interface, peer.node)
        for link in built.links
        for end, peer in link.ends()
    }
    for a, b in guest.pairs(made.experiment()):
        subnet = next(end.address for end, _ in built.ends_of(host(b))).rpartition(".")[0] + ".0/24"
        at, found = access(a), []
        while at != access(b):
            (via,) = [via for to, via in built.routes[at] if to == subnet]
            wire, at = hop[at, via]
            found.append(wire)
        assert found == made.path(a, b)


def link(stack: str, small: bool = False, rtt: float = 4.0, cc: str = "cubic") -> End:
    """One end of a link of two routers."""
    mesh = Mesh("two", ("l", "r"), (Wire("l", "r", 50 * MBIT, round(500 * rtt) - 1000),))
    uplinks = dict.fromkeys("lr", 200 * MBIT)
    made = Plan(
        stack, cc, FLOWS, mesh=mesh, uplinks=uplinks, buffer=100, small=small, seconds=10.0
    ).network()
    ends = {end.interface: end for link in made.links for end, _ in link.ends()}
    assert isinstance(ends["a-l.h-l"].queue, Edge) == stack.startswith("slbn")
    assert isinstance(ends["a-l.l"].queue, Trunk)
    return ends["l.r"]


def commands(stack: str, small: bool = False, rtt: float = 4.0, cc: str = "cubic") -> list[str]:
    """tc's commands for a link of two routers."""
    return queue_commands(link(stack, small, rtt, cc), 1514)


def test_stacks_have_their_users_settings() -> None:
    assert commands("pfifo")[-1].endswith("handle 10: pfifo limit 100")
    assert commands("fq_codel")[-1].endswith("handle 10: fq_codel")
    assert commands("cake")[-1].endswith("handle 10: cake bandwidth 50000000bit")
    assert commands("slbn")[1].endswith("handle 2: slbn rate 50000000bit")
    assert commands("slbn-nocommit")[1].endswith("slbn rate 50000000bit commit off")
    assert commands("slbn")[-1].endswith("handle 10: drr_fq limit 100")
    for stack in ("fq_codel", "fq_pie", "drr_fq", "pfifo"):
        assert commands(stack, small=True)[-1].endswith(f"{stack} limit 100")
    assert commands("cake", small=True)[-1].endswith("memlimit 230400")
    assert commands("fq_codel", rtt=200)[-1].endswith("fq_codel target 10ms interval 200ms")
    assert commands("cake", rtt=200)[-1].endswith("cake bandwidth 50000000bit rtt 200ms")
    assert commands("drr_fq", rtt=200)[-1].endswith("drr_fq limit 100")
    assert commands("drr_fq-codel", small=True)[-1].endswith("drr_fq limit 100 codel ecn")
    codel = "drr_fq limit 10240 codel ecn"
    assert commands("drr_fq-codel")[-1].endswith(codel)
    assert commands("drr_fq-codel", rtt=200)[-1].endswith(f"{codel} target 10ms interval 200ms")
    assert commands("drr_fq-codel", cc="dctcp")[-1].endswith(f"{codel} ce_threshold 1ms")
    assert commands("fq_codel", cc="dctcp")[-1].endswith("handle 10: fq_codel ce_threshold 1ms")


def test_options_of_dualpi2_are_set_over_netlink() -> None:
    """tc adds it with its defaults: an older tc does not know its options."""
    assert commands("dualpi2", small=True, cc="dctcp")[-1].endswith("handle 10: dualpi2")
    queue = link("dualpi2", small=True, cc="dctcp").queue
    assert isinstance(queue, Trunk)
    assert queue.data.words == ("limit", "100", "any_ect")
    # TCA_DUALPI2_LIMIT as u32, TCA_DUALPI2_ECN_MASK as u8, each padded to 4 bytes.
    expected = struct.pack("=HHIHHB3x", 8, 1, 100, 5, 14, 3)
    assert netlink.dualpi2_options(queue.data.words) == expected
    prague = link("dualpi2", cc="prague").queue
    assert isinstance(prague, Trunk) and not prague.data.words


def test_dualpi2_has_its_own_congestion_controls() -> None:
    assert cases(("pfifo", "dualpi2"), ("cubic",)) == [
        ("pfifo", "cubic"), ("dualpi2", "dctcp"), ("dualpi2", "prague"),
    ]  # fmt: skip
    assert len(cases(tuple(STACKS), CCS)) == (len(STACKS) - 1) * len(CCS) + 2


FLOWS = (
    Flow("l", "r", 0.0, 10.0),
    Flow("l", "r", 2.0, 10.0, size=50_000),
    Flow("l", "r", 0.0, 10.0, udp=6 * MBIT),
)


def made_up() -> Plan:
    mesh = Mesh("two", ("l", "r"), (Wire("l", "r", 10 * MBIT, 4000),))
    uplinks = dict.fromkeys("lr", 40 * MBIT)
    return Plan(
        "pfifo", "cubic", FLOWS, mesh=mesh, uplinks=uplinks, buffer=100, seconds=10.0, warmup=5.0
    )


def test_hosts_of_workloads() -> None:
    """Each that Linux's buffers would limit has them, and 2 BDP; one has segmentation offload."""
    for name, size in (("high-bdp", 25_000_000), ("backbone-1g", 125 * 71_978)):
        ample, *others = (
            WORKLOADS[f"{name}{more}"] for more in ("", "-linux7", "-linux10", "-2bdp")
        )
        settings = [host_settings(10**9, False, one.hosts) for one in (ample, *others)]
        assert [words["tcp_rmem"].split()[2] for words in settings] == [
            "2000000000", "6291456", "33554432", str(4 * size)
        ]  # fmt: skip
        assert [words["tcp_wmem"].split()[2] for words in settings] == [
            "1000000000", "4194304", "4194304", str(8 * size)
        ]  # fmt: skip
        made = Plan.of(others[0], "pfifo", "cubic", 1)
        assert made.flows == Plan.of(ample, "pfifo", "cubic", 1).flows
        assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert [name for name, one in WORKLOADS.items() if one.hosts.gso] == ["web-search-gso"]


def test_fair_goodput() -> None:
    made = made_up()
    fair = made.fair()
    # 5 s after the warm-up: UDP and TCP have half of the link each.
    assert fair == pytest.approx([5e6 * 5 / 8 * TCP_PART, 0, 5e6 * 5 / 8 * UDP_PART])
    assert made.round_trip(FLOWS[0]) == 2 * (4 + 1)
    slower = dataclasses.replace(made, changes=((7.5, "l.r", 5 * MBIT),))
    assert slower.fair()[0] == pytest.approx(fair[0] * 0.75)
    less = dataclasses.replace(made, flows=(FLOWS[0], dataclasses.replace(FLOWS[2], udp=MBIT)))
    assert less.fair()[0] == pytest.approx(9e6 * 5 / 8 * TCP_PART)


def wires(each_second: int = 1_250_000) -> dict[str, dict[str, list[int]]]:
    """Samples of the link; 2 s of it wait."""
    sent = [each_second * n for n in range(1, 11)]
    return {
        "l.r": {
            "sent": sent,
            "packets": [size // 1000 for size in sent],
            "held": [2_500_000] * 10,
        }
    }


def write_run(work: Path, **changes: Any) -> None:
    """The raw data of a run in which everything is known."""
    fields = [("time", "<u8"), ("acked", "<u8"), ("flow", "<u4"), ("rtt", "<u4")]
    rows = numpy.array(
        # Samples are 256 ns late.
        [(n * 10**9 + 256, n * 500_000, 0, 10_000 + 1000 * n) for n in range(1, 10)]
        + [(21 * 10**8, 20_000, 1, 12_000)],
        dtype=fields,
    )
    common = {"kind": "cubic", "segments": 1000, "retransmits": 20, "sent": 1}
    head = {
        "flows": [
            common | {"acked": 5_000_000, "ended": 10.0},
            common | {"acked": 50_000, "ended": 2.25, "lost": 0, "retransmits": 0},
            {"kind": "udp", "sent": 4_000_000 * UDP_PART},
        ],
        "rows": len(rows),
        "fields": fields,
    }
    # Of 100 packets half take 10 ms, and one 80 ms.
    report = {"delay_step_us": 50, "delays": [[200, 50], [1000, 49], [1600, 1]]}
    (work / f"r{guest.UDP_SINK}").write_text(json.dumps(report))
    (work / "l.fair").write_bytes(json.dumps(head).encode() + b"\n" + rows.tobytes())
    document: dict[str, Any] = {
        "hidden": 0,
        "load": {"backlog_drops": 0},
        "virtual": True,
        "early": {"l-r": {"tcp": [0, 0], "udp": [1_000_000, 900]}},
        "late": {"l-r": {"tcp": [5_400_000, 4000], "udp": [3_200_000, 2700]}},
        # Of UDP, a queue held some to the end.
        "arrived": {
            "l-r": {"tcp": [5_400_000, 4000], "udp": [3_600_000, 3000]},
            "r-l": {"tcp": [0, 0], "udp": [0, 0]},
        },
        "hosts": {"sent_bytes": 10_000_000},
        # Three links; the second of them drops a megabyte that the first has carried.
        "carried": {"a-l.l": 10_000_000, "l.r": 9_000_000, "r.a-r": 9_000_000},
        "out_of_memory": {"TCPOFODrop": 0},
        # The link sends at its rate.
        "times": [float(n) for n in range(1, 11)],
        "wires": wires(),
        "agents": {"a-l": ""},
        "kernel_errors": [],
        "changed": [],
    }
    (work / guest.RECORD).write_text(json.dumps(document | changes))


def test_measures_of_a_made_up_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    found = made_up().read(tmp_path)
    # After 5 s: of TCP 5,000,000 - 2,500,000, nothing of the short flow, which had ended, and UDP's
    # 2,200,000 less headers.
    udp = 2_200_000 * UDP_PART
    assert found["goodput"] == pytest.approx(8e-6 * (2_500_000 + udp) / 5)
    assert found["goodput_tcp"] == pytest.approx(8e-6 * 2_500_000 / 5)
    # Before: 2,500,000, the short flow, and UDP's 1,000,000 less headers.
    assert found["start"] == pytest.approx(8e-6 * (2_550_000 + 1_000_000 * UDP_PART) / 5)
    fair = made_up().fair()
    parts = [2_500_000 / fair[0], udp / fair[2]]
    assert found["jain"] == pytest.approx(statistics.jain(parts))
    assert found["completion"]["small"] == {
        "mean": pytest.approx(250), "p99": pytest.approx(250), "count": 1,
    }  # fmt: skip
    assert found["completion"]["large"] is None and found["unfinished"] == 0
    # Samples from 5 s to 9 s, less the 10 ms of the empty path.
    assert found["delay50"] == pytest.approx(7)
    assert found["loss"] == pytest.approx(10)
    assert found["retransmits"] == pytest.approx(1)
    assert found["wasted"] == pytest.approx(100 * 1 / 28)
    # UDP got less than its share, TCP its own.
    assert found["maxmin"] == pytest.approx(
        100 * (min(fair[0], 2_500_000) + udp) / (fair[0] + fair[2])
    )
    # 1.5 round trips of 10 ms, and 50 kB at 10 Mbit/s.
    slowdown = 0.25 / (0.015 + 8 * 50_000 / TCP_PART / 1e7)
    assert found["slowdown"] == {"mean": pytest.approx(slowdown), "p99": pytest.approx(slowdown)}
    # The path takes 5 ms.
    assert (found["udp50"], found["udp99"]) == (5.0, 45.0)
    # All of UDP's share is more than it sends: 6 Mbit/s beside TCP, on 10.
    assert found["loss_below"] is None
    assert found["loss_tcp"] == pytest.approx(100 * (1 - 5_400_000 / (10_000_000 - 4_000_000)))


def test_loss_below_the_share(tmp_path: Path) -> None:
    """Of UDP that sends less than half of the link."""
    write_run(tmp_path)
    less = dataclasses.replace(FLOWS[2], udp=4 * MBIT)
    found = dataclasses.replace(made_up(), flows=(*FLOWS[:2], less)).read(tmp_path)
    assert found["loss_below"] == pytest.approx(10)


def test_measures_that_old_runs_lack(tmp_path: Path) -> None:
    """Stored runs stay readable: a measure that one of them lacks is not shown."""
    write_run(tmp_path)
    new = made_up().read(tmp_path)
    old = {name: value for name, value in new.items() if name not in ("maxmin", "slowdown")}
    texts = [measure.text for measure in measures.shown({"a": [new], "b": [old]})]
    assert "goodput, Mbit/s" in texts and not [text for text in texts if "max-min" in text]


def test_waits_of_bands(tmp_path: Path) -> None:
    """Of links that have bands; stacks without are shown beside them, and not compared."""
    assigned = [0] * 144
    # 990 of 10 to 11 times 1024 ns, 10 of 4096 to 4608 times.
    assigned[10], assigned[80] = 990, 10
    write_run(tmp_path, waits={"assigned": assigned, "new": [0] * 144})
    run = made_up().read(tmp_path)
    most = 4608 * 1.024e-3
    assert run["waits"]["assigned"] == {
        "p50": pytest.approx(11 * 1.024e-3),
        "p99": pytest.approx(11 * 1.024e-3),
        "p999": pytest.approx(most),
    }
    write_run(tmp_path, waits={})
    plain = made_up().read(tmp_path)
    assert plain["waits"] is None
    data = {"slbn_in_cubic": [run] * 3, "fq_codel_in_cubic": [plain] * 3}
    texts = [measure.text for measure in measures.shown(data)]
    assert "wait of assigned packets at a link, p99.9, ms" in texts
    assert not [text for text in texts if "wait of new" in text]
    table = studies.Comparison(WORKLOADS["parking-lot"]).table(data)
    column = table.columns.index("wait of assigned packets at a link, p99.9, ms")
    assert [row[column] for row in table.rows] == ["4.72 ± 0.00", "–"]
    assert not [text for text in measures.losses(data) if "wait of" in text]


def test_percentiles_of_counted_values() -> None:
    counts = [(1.0, 50), (2.0, 49), (9.0, 1)]
    assert [waits.percentile(counts, n) for n in (50, 51, 99, 99.5)] == [1, 2, 2, 9]
    assert waits.percentile([], 50) is None


def test_a_link_that_is_too_fast_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, wires=wires(1_400_000))
    with pytest.raises(CannotRunError, match="l.r sent 11.2 Mbit/s for a moment"):
        made_up().read(tmp_path)


def numbers(goodput: float, delay: float) -> dict[str, Any]:
    return {
        "goodput": goodput, "start": None, "jain": 0.9,
        "completion": dict.fromkeys(("small", "medium", "large")), "unfinished": 0,
        "delay50": delay, "delay99": 2 * delay, "loss": 0.0, "retransmits": 0.0, "wasted": 0.0,
    }  # fmt: skip


DATA = {
    "fq_codel_in_cubic": [numbers(95.0 + n, 6.0) for n in range(3)],
    "slbn_in_cubic": [numbers(90.0 + n, 2.0) for n in range(3)],
    "drr_fq_in_cubic": [numbers(95.0 + n, 50.0 + n) for n in range(3)],
    "pfifo_in_bbr": [numbers(200.0, 1.0) for n in range(3)],
}


def test_losses_are_said_plainly() -> None:
    """Per measure the worst gap, only under the same congestion control, not against SLBN."""
    assert measures.losses(DATA) == [
        "slbn cubic is worse than the best other stack in: goodput, Mbit/s (91.0; fq_codel 96.0)",
        "drr_fq cubic is worse than the best other stack in: queue delay p50, ms (51.0;"
        " fq_codel 6.0); queue delay p99, ms (102.0; fq_codel 12.0)",
    ]
    one = {name: runs[:1] for name, runs in DATA.items()}
    assert measures.losses(one)[0] == "slbn cubic: with one seed, differences may be due to chance"


def test_verdicts_are_paired() -> None:
    found = measures.all_verdicts(DATA)
    assert set(found) == {"slbn cubic", "drr_fq cubic"}
    assert found["slbn cubic"]["fq_codel cubic"] == {
        "better": ["queue delay p50, ms 2.0 (6.0)", "queue delay p99, ms 4.0 (12.0)"],
        "worse": ["goodput, Mbit/s 91.0 (96.0)"],
        "level": ["Jain index 0.900 (0.900)"],
    }
    assert measures.all_verdicts({name: runs[:1] for name, runs in DATA.items()}) == {
        "slbn cubic": {},
        "drr_fq cubic": {},
    }


def test_pairs_are_of_the_same_seed() -> None:
    """Of a seed in which one stack has no value, the other's is not compared."""

    def runs(*large: float | None) -> list[dict[str, Any]]:
        found = [numbers(95.0, 6.0) for _ in large]
        for run, value in zip(found, large, strict=True):
            run["completion"]["large"] = None if value is None else {"mean": value, "p99": value}
        return found

    data = {
        "fq_codel_in_cubic": runs(1, 20, 30, 39.9, None),
        "slbn_in_cubic": runs(None, 21, 31, 41, 50),
    }
    found = measures.all_verdicts(data)["slbn"]["fq_codel"]
    assert "FCT large, mean, ms 31 (30)" in found["worse"]
    assert "FCT large, mean, ms" in measures.losses(data)[0]


def test_the_drain_empties_the_longest_queues() -> None:
    """Packets that still wait when arrivals are counted would count as lost."""
    for one in WORKLOADS.values():
        slowest = min(wire.rate for wire in one.mesh.wires)
        queued = len(one.mesh.wires) * DEEP * FRAME * 8
        assert not any(f.udp for f in Plan.of(one, "fq_codel", "cubic", 1).flows) or (
            queued / slowest <= guest.DRAIN
        ), one.name


def test_tables_of_a_page_are_replaced(tmp_path: Path) -> None:
    columns = ["stack", "goodput, Mbit/s", "Jain index", "queue delay p50, ms", "loss of TCP, %"]
    rows = [
        ["fq_codel", "96.0", "0.990 ± 0.001", "4.0 ± 0.1", "0.100 ± 0.010"],
        ["cake", "96.0", "0.980 ± 0.001", "3.0 ± 0.1", "0.000 ± 0.000"],
        ["slbn", "91.0", "1.000 ± 0.000", "1.5 ± 0.1", "0.050 ± 0.010"],
    ]
    delay = "queue delay p50, ms 1.5 (4.0)"
    beside_fq = {"better": [delay, "loss of TCP, % .05 (.1)"], "worse": [], "level": []}
    beside_cake = {"better": [delay], "worse": ["loss of TCP, % .05 (0)"], "level": []}
    document = {
        "name": "parking-lot",
        "seeds": [1, 2, 3],
        "worse": [],
        "table": {"columns": columns, "rows": rows},
        "verdicts": {"slbn": {"fq_codel": beside_fq, "cake": beside_cake}},
    }
    (tmp_path / "parking-lot.json").write_text(json.dumps(document))
    (tmp_path / "parking-lot.png").touch()
    page = tmp_path / "page.md"
    block = "slbn beside fq_codel, cake"
    head = f"# Page\n\n<!-- compare: {block} -->\n<!-- end -->\n"
    page.write_text(f"{head}\n<!-- compare: parking-lot -->\nold\n<!-- end -->\n\nend\n")
    for _ in range(2):
        done = call_fairlab("compare", "--publish", str(page), "--out", str(tmp_path))
        assert (done.returncode, done.stdout) == (0, f"{block}\nparking-lot\n")
        text = page.read_text()
        cells = "– | 1.000 (0.990, 0.980) | – | **1.5** (4.0, 3.0) | – | *0.050* (0.100, 0.000)"
        assert f"\n| parking-lot, 3 seeds | {cells} |\n" in text
        assert "\n| goodput, Mbit/s | 96.0 | 96.0 | 91.0 |\n" in text
        assert "old" not in text
        assert text.endswith("\n<!-- end -->\n\nend\n")

    def refused(text: str, message: str) -> None:
        page.write_text(text)
        done = call_fairlab("compare", "--publish", str(page), "--out", str(tmp_path))
        assert_refused(done, 2, message)
        assert page.read_text() == text

    refused("# Page\n", "no line '<!-- compare: WORKLOAD -->' with '<!-- end -->' below")
    refused("<!-- compare: lan -->\n<!-- end -->\n", "no comparison 'lan' is drawn in")


def test_table_has_intervals() -> None:
    study = studies.Comparison(WORKLOADS["parking-lot"])
    table = study.table(DATA)
    assert table.columns == (
        "stack", "goodput, Mbit/s", "Jain index", "queue delay p50, ms", "queue delay p99, ms",
    )  # fmt: skip
    assert table.rows[0][:3] == ("fq_codel cubic", "96.0 ± 2.5", "0.900 ± 0.000")


def test_markdown_has_a_column_for_each_stack() -> None:
    rows = [["fq_codel", "96.0 ± 2.5"], ["slbn", "91.0 ± 2.5"]]
    document = {"table": {"columns": ["stack", "goodput, Mbit/s"], "rows": rows}}
    assert comparisons.markdown(document).splitlines() == [
        "| | `fq_codel` | `slbn` |",
        "| --- | ---: | ---: |",
        "| goodput, Mbit/s | 96.0 ± 2.5 | 91.0 ± 2.5 |",
    ]


def test_picture_has_a_panel_for_each_measure() -> None:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    studies.Comparison(WORKLOADS["parking-lot"]).draw(figure, DATA)
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_visible()]
    assert titles == [measure.text for measure in measures.shown(DATA)]


def test_workloads_are_listed() -> None:
    done = call_fairlab("compare")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(WORKLOADS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lan",), "no workload 'lan'; there are: backbone, backbone-one-host, backbone-1g"),
        (("backbone", "--stacks", "red"), "no stack 'red'; there are: pfifo, fq_codel, cake"),
        (("backbone", "--congestion", "vegas"), "no congestion control 'vegas'; there are: cubic"),
        (("backbone", "--seeds", "0"), "seeds 0: must be 1 to 1000"),
        (("backbone", "--jobs", "-1"), "jobs -1: must be at least 1"),
        (
            ("backbone", "--stacks", "pfifo", "--congestion", "prague"),
            "prague runs on dualpi2 only: add it to --stacks",
        ),
    ],
)
def test_bad_arguments_are_refused(words: tuple[str, ...], message: str) -> None:
    assert_refused(call_fairlab("compare", *words), 2, message)


@pytest.mark.tier("all")
def test_real_comparison(tmp_path: Path) -> None:
    """Two stacks run; a third, which this kernel does not have, is named in one line."""
    words = ["--seeds", "1", "--stacks", "fq_codel,slbn,dualpi2", "--out", str(tmp_path)]
    done = run_fairlab("compare", "parking-lot", *words, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert "fq_codel" in done.stdout and "dualpi2 dctcp: not run: " in done.stdout
    assert (tmp_path / "parking-lot.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((tmp_path / "parking-lot.json").read_text())
    assert document["table"]["rows"][1][0] == "slbn"
    for name in ("fq_codel", "slbn"):
        run = json.loads((tmp_path / f"data/parking-lot/{name}_in_cubic@1.json").read_text())
        # Nine shares of 20 Mbit/s less headers, 172; SLBN has 95 % of that.
        assert 150 < run["numbers"]["goodput"] < 180
        assert run["numbers"]["jain"] > 0.98


@pytest.mark.tier("all")
def test_dctcp_uses_the_l_queue_of_dualpi2(tmp_path: Path) -> None:
    """On a kernel that has dualpi2; in its classic queue, DCTCP would wait for 15 ms."""
    words = ["--kernel", "7.2", "--seeds", "1", "--stacks", "dualpi2", "--congestion", "dctcp"]
    # The first time, the kernel is built.
    done = run_fairlab("compare", "small-buffers", *words, "--out", str(tmp_path), timeout=3000)
    assert done.returncode == 0, done.stderr
    assert "dualpi2 dctcp: not run" not in done.stdout
    assert "dualpi2 prague: not run: this kernel has no congestion control prague" in done.stdout
    run = json.loads((tmp_path / "data/small-buffers/dualpi2_in_dctcp@1.json").read_text())
    assert 0 < run["numbers"]["delay50"] < 5
