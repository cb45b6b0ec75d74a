# SPDX-License-Identifier: GPL-2.0
"""The backbone: max-min rates, routes through Abilene, the report, and a real run.

The report is tested on made-up runs: a good one passes all checks; then a fault is planted, and the
checks must find exactly that fault.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fairlab.model.errors import CannotRunError
from fairlab.model.network import Edge, Trunk
from fairlab.model.qdisc import BOTTLENECK, Qdisc
from fairlab.net import network
from fairlab.slbn import (
    abilene,
    backbone,
    backbone_analysis,
    backbone_report,
    experiment,
    maxmin,
)
from fairlab.slbn.backbone_analysis import Run
from fairlab.slbn.maxmin import Session
from fairlab.slbn.mesh import link_name
from fairlab.slbn.network import access, address_of, trunks
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import run_fairlab

PLAN = backbone.Plan(4_000_000, 70, ("slbn",))
VARIANTS = backbone.VARIANTS
NO_SLBN = Qdisc(BOTTLENECK, "drr_fq", backbone.LIMIT)
PATHS = backbone.both_ways(abilene.SYMMETRIC.path)


@pytest.mark.parametrize(
    ("capacity", "sessions", "expected"),
    [
        # Bertsekas and Gallager's figure 6.11, in tenths.
        (
            {"a": 10, "b": 10, "c": 10, "d": 10},
            {
                "1": Session(["b", "c"]),
                "2": Session(["a", "b"]),
                "3": Session(["b"]),
                "4": Session(["d"]),
            },
            {"1": Fraction(10, 3), "2": Fraction(10, 3), "3": Fraction(10, 3), "4": 10},
        ),
        # A parking lot: the long one shares with each of the short ones.
        (
            {"a": 10, "b": 6},
            {"long": Session(["a", "b"]), "a": Session(["a"]), "b": Session(["b"])},
            {"long": 3, "a": 7, "b": 3},
        ),
        ({"a": 10}, {"x": Session(["a"], 2), "y": Session(["a"])}, {"x": 2, "y": 8}),
        ({"a": 10}, {"x": Session(["a"], 5), "y": Session(["a"], 5)}, {"x": 5, "y": 5}),
        ({"a": 10}, {}, {}),
        # By weight, less what "z" cannot use.
        (
            {"a": 10},
            {"x": Session(["a"]), "y": Session(["a"], None, 3), "z": Session(["a"], 2, 6)},
            {"x": 2, "y": 6, "z": 2},
        ),
    ],
)
def test_known_rates(
    capacity: dict[str, int], sessions: dict[str, Session], expected: dict[str, Any]
) -> None:
    assert maxmin.rates(capacity, sessions) == expected


LINKS = "abcde"


@given(
    st.fixed_dictionaries({link: st.integers(1, 1000) for link in LINKS}),
    st.lists(
        st.tuples(
            st.sets(st.sampled_from(LINKS), min_size=1),
            st.none() | st.integers(1, 1000),
            st.integers(1, 9),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_rates_are_max_min_fair(
    capacity: dict[str, int], wanted: list[tuple[set[str], int | None, int]]
) -> None:
    """Each session has what it asks for, or is among the largest by weight at a full link."""
    sessions = {
        str(n): Session(sorted(path), demand, weight)
        for n, (path, demand, weight) in enumerate(wanted)
    }
    rates = maxmin.rates(capacity, sessions)
    load = {
        link: sum(rates[name] for name, session in sessions.items() if link in session.path)
        for link in LINKS
    }
    assert all(load[link] <= capacity[link] for link in LINKS)
    for name, session in sessions.items():
        assert session.demand is None or rates[name] <= session.demand
        assert rates[name] == session.demand or any(
            load[link] == capacity[link]
            and all(
                rates[name] * its.weight >= rates[other] * session.weight
                for other, its in sessions.items()
                if link in its.path
            )
            for link in session.path
        )


def test_unlimited_session_is_refused() -> None:
    with pytest.raises(ValueError, match="no limit"):
        maxmin.rates({}, {"x": Session([])})


def test_link_without_capacity_does_not_limit() -> None:
    sessions = {"x": Session(["a", "b"]), "y": Session(["b"], 3)}
    assert maxmin.rates({"a": 10}, sessions) == {"x": 10, "y": 3}
    with pytest.raises(ValueError, match="no limit"):
        maxmin.rates({"a": 10}, {"x": Session(["b"])})


def next_wires(routing: abilene.Routing, destination: str) -> dict[str, list[str]]:
    """From each router, the wires of the equal-cost paths to a node's host."""
    hops = routing.next_hops(access(destination))
    return {at: [w for hop in hops[at] for w in routing.wires(at, hop)] for at in hops}


def all_paths(routing: abilene.Routing, source: str, destination: str) -> list[list[str]]:
    """All equal-cost paths between two nodes' hosts."""
    wires = next_wires(routing, destination)

    def follow(at: str) -> list[list[str]]:
        if at == access(destination):
            return [[]]
        return [[w, *rest] for w in wires[at] for rest in follow(abilene.ends(w)[1])]

    return follow(access(source))


PAIRS = [(a, b) for a in abilene.ACCESS for b in abilene.ACCESS if a != b]
ROUTINGS = pytest.mark.parametrize("routing", abilene.ROUTINGS.values(), ids=str)


def reverse(path: list[str]) -> list[str]:
    return [link_name(*reversed(abilene.ends(wire))) for wire in reversed(path)]


@ROUTINGS
def test_paths_have_no_loops(routing: abilene.Routing) -> None:
    """Whatever equal-cost hop each router takes, no router is passed twice."""
    for a, b in PAIRS:
        for path in all_paths(routing, a, b):
            routers = [abilene.ends(wire)[0] for wire in path]
            assert len(set(routers)) == len(routers) <= routing.most_hops()
            assert path[0] == link_name(access(a), a)
            assert path[-1] == link_name(b, access(b))


def test_paths_are_symmetric() -> None:
    for a, b in PAIRS:
        there = abilene.SYMMETRIC.path(a, b)
        assert reverse(abilene.SYMMETRIC.path(b, a)) == there


@pytest.mark.parametrize("name", ["asymmetric", "asymmetric,ecmp"])
def test_paths_are_asymmetric(name: str) -> None:
    """Of every pair of hosts, no path there passes the routers of a path back."""
    routing = abilene.ROUTINGS[name]
    for a, b in PAIRS:
        there = {tuple(map(abilene.ends, path)) for path in all_paths(routing, a, b)}
        back = {tuple(map(abilene.ends, reverse(path))) for path in all_paths(routing, b, a)}
        assert not there & back, (a, b)
    if not routing.ecmp:
        assert routing.path("sea", "nyc") != reverse(routing.path("nyc", "sea"))
        assert routing.path("hou", "atl") == [
            "a-hou.hou", "hou.ksc", "ksc.ipl", "ipl.atl", "atl.a-atl",
        ]  # fmt: skip
        assert routing.path("atl", "hou") == ["a-atl.atl", "atl.hou", "hou.a-hou"]


def test_equal_cost_paths() -> None:
    """Between all pairs there are two or more, and for some by different routers."""
    routing = abilene.ROUTINGS["ecmp"]
    for a, b in PAIRS:
        assert all(
            len(w) >= 2
            for at, w in next_wires(routing, b).items()
            if at in abilene.NODES and at != b
        )
        assert len(all_paths(routing, a, b)) >= 2
    assert next_wires(routing, "atl")["sea"] == ["sea.snv", "sea.snv.2", "sea.den", "sea.den.2"]
    with pytest.raises(ValueError, match="4 equal paths from sea to atl"):
        routing.path("sea", "atl")


@ROUTINGS
@pytest.mark.parametrize("variant", backbone.VARIANTS.values(), ids=str)
def test_routes_lead_to_every_host(variant: abilene.Variant, routing: abilene.Routing) -> None:
    """Each packet follows the routes, hop by hop, along a path that the reference allows."""
    made = abilene.build(PLAN.rate, variant, routing=routing)
    wire_to = {
        (end.node, peer.address): end.interface for link in made.links for end, peer in link.ends()
    }
    routes = {node: {to: via for to, *via in every} for node, every in made.routes.items()}
    for b in abilene.ACCESS:
        subnet = address_of(made, b).rpartition(".")[0] + ".0/24"
        for at, wires in next_wires(routing, b).items():
            assert [wire_to[at, via] for via in routes[at][subnet]] == wires
    # And answers to the agents' own addresses.
    for node in abilene.ACCESS:
        uplink = next(end for end, peer in made.ends_of(access(node)) if peer.node == node)
        subnet = uplink.address.rpartition(".")[0] + ".0/24"
        assert all(
            subnet in routes[router]
            for router in made.routers
            if router not in (node, access(node))
        )


def test_all_link_addresses_are_routed() -> None:
    """A router without SLBN may be between a link and the next one, which answers to it."""
    made = abilene.build(PLAN.rate, VARIANTS["slbn"], without={"ksc": NO_SLBN})
    for router in made.routers:
        near = {end.address.rpartition(".")[0] + ".0/24" for end, _ in made.ends_of(router)}
        routed = [to for to, *_ in made.routes[router]]
        assert len(set(routed)) == len(routed) and not near & set(routed)
        addresses = {end.address for end in trunks(made)}
        assert {a.rpartition(".")[0] + ".0/24" for a in addresses} <= near | set(routed)


def test_commands_of_routes() -> None:
    assert network.route_command("default", "10.0.0.1") == "route add default via 10.0.0.1"
    assert network.route_command("10.1.0.0/24", "10.0.0.1", "10.2.0.1") == (
        "route add 10.1.0.0/24 nexthop via 10.0.0.1 nexthop via 10.2.0.1"
    )


def test_links_of_a_node_without_slbn() -> None:
    made = abilene.build(PLAN.rate, VARIANTS["slbn"], without={"ksc": NO_SLBN})
    for end in trunks(made):
        assert isinstance(end.queue, Trunk)
        assert bool(end.queue.slbn) == (end.node != "ksc")
        if end.node == "ksc":
            assert end.queue.data == NO_SLBN
            assert not any("slbn" in command for command in network.queue_commands(end, 1514))
    # Elsewhere nothing differs, and without SLBN nothing at all.
    usual = abilene.build(PLAN.rate, VARIANTS["slbn"])
    assert [e for e in trunks(made) if e.node != "ksc"] == [
        e for e in trunks(usual) if e.node != "ksc"
    ]
    plain = [
        abilene.build(PLAN.rate, VARIANTS["pfifo"], without=without)
        for without in ({}, {"ksc": NO_SLBN})
    ]
    assert plain[0].links == plain[1].links


def test_queues_of_links() -> None:
    made = abilene.build(PLAN.rate, backbone.VARIANTS["slbn"])
    assert len(trunks(made)) == 2 * (len(abilene.LINKS) + len(abilene.ACCESS))
    frame = 1514
    commands = {
        end.interface: network.queue_commands(end, frame)
        for link in made.links
        for end, _ in link.ends()
    }
    core = commands["sea.den"]
    assert core[0].startswith("qdisc replace dev sea.den root handle 1: tbf rate 4000000bit")
    assert core[1].endswith("parent 1:1 handle 2: slbn rate 4000000bit headroom 5%")
    assert " parent 2:1 handle 21: netem delay " in core[2]
    assert " parent 2:2 handle 20: netem delay " in core[3]
    assert core[4].endswith("parent 20:1 handle 10: pfifo limit 64")
    # As slbnd wants it: fq is slbn's own data class.
    assert commands["a-sea.sea"][2:] == [
        "qdisc replace dev a-sea.sea parent 2:2 handle 10: fq"
        " limit 100000 flow_limit 10000 orphan_mask 65535"
    ]
    assert commands["a-sea.h-sea"] == ["qdisc replace dev a-sea.h-sea root handle 2: slbn edge"]
    assert commands["h-sea.a-sea"] == []
    plain = abilene.build(PLAN.rate, backbone.VARIANTS["pfifo"])
    assert not any(isinstance(end.queue, Edge) for link in plain.links for end, _ in link.ends())
    uplink = next(end for end in trunks(plain) if end.interface == "a-sea.sea")
    assert network.queue_commands(uplink, frame)[1:] == [
        "qdisc replace dev a-sea.sea parent 1:1 handle 10: pfifo limit 64"
    ]


def test_the_longest_path() -> None:
    assert PATHS.longest == pytest.approx(0.072, abs=1e-4)
    for routing in abilene.ROUTINGS.values():
        assert routing.most_hops() < backbone.slots(routing) <= routing.most_hops() + 2


@dataclass(frozen=True)
class Fake:
    """What is wrong in a made-up run."""

    assigned_off: float = 0.0  # the error of assigned rates
    got: float = 0.0  # by how much flows get something else than these allow
    late: float = 0.1  # seconds until agents tell


def run_of(measured: dict[str, Any], plan: backbone.Plan = PLAN) -> Run:
    return Run(plan, "slbn", measured)


#: A run of which only the plan is known, and its sessions.
PLANNED = run_of({"paths": dataclasses.asdict(PATHS)})
SESSIONS = PLANNED.planned_sessions


def max_min_reference() -> backbone_analysis.Reference:
    return backbone_analysis.reference_of(PATHS, PLANNED.capacity(), SESSIONS)


def fake_events(fake: Fake, reference: backbone_analysis.Reference) -> list[tuple[Any, ...]]:
    """The agents' events: each flow's rate when the reference changes, and the flow's end."""
    found: list[tuple[Any, ...]] = []
    for session in SESSIONS:
        flow, (own, port) = backbone.FLOWS[session.flow], backbone_analysis.ports(session.flow)
        router = access(flow.source)
        for moved in reference.times:
            if not session.since <= moved < session.until:
                continue
            rate = round((1 + fake.assigned_off) * reference.at(moved)[session.flow])
            demand = maxmin.last(session.demands, moved) or PLAN.rate
            rtt = round(1e9 * fake.late)
            when = moved + fake.late
            found.append((when, router, session.flow, own, port, demand, rate, rtt, False))
        if session.until < PLAN.seconds:
            found.append((session.until, router, session.flow, own, port, 1, 0, 0, True))
    return sorted(found)


def fake_run(fake: Fake = Fake()) -> dict[str, Any]:  # noqa: B008 (it cannot be changed)
    """A run with what is wrong in it."""
    reference = max_min_reference()
    goodput = []
    for number, flow in enumerate(backbone.FLOWS):
        begin, end = PLAN.times(flow.parts[0])[0], PLAN.times(flow.parts[-1])[1]
        seconds = []
        for second in range(begin, end):
            allowed = (1 + fake.assigned_off) * reference.mean(number, second, second + 1)
            sends = SESSIONS[number].demand(second) or PLAN.rate
            rate = (1 + fake.got) * flow.payload_part * min(allowed, sends)
            seconds.append((float(second), second + 1.0, rate))
        goodput.append(seconds)
    count = round(PLAN.seconds / backbone.INTERVAL)
    times = [n * backbone.INTERVAL for n in range(count)]
    packets = [round(PLAN.rate / 2 * when / 8 / 1514) for when in times]
    wire = {
        "sent": [1514 * n for n in packets],
        "packets": packets,
        "held": [1514 * (n % 3) for n in range(count)],
        "drops": [0] * count,
        "hidden": [0] * count,
        "control": [n // 50 * 1514 for n in packets],
    }
    return {
        "goodput": goodput,
        "heads": [
            {"kind": backbone.FLOWS[n].kind, "sent": 1, "retransmits": 7} for n in backbone.NUMBERS
        ],
        "totals": [
            {"got": 10**6, "segments": 1000}
            if flow.kind != experiment.UDP
            # Of 100 packets half take 10 ms, and one 80 ms.
            else {
                "sent": 1_400_000,
                "got": 1_260_000,
                "delay_step_us": 50,
                "delays": [[200, 50], [1000, 49], [1600, 1]],
            }
            for flow in backbone.FLOWS
        ],
        "hosts": {"sent": 20_000, "arrived": 19_000},
        "arrived": {"sea-nyc": {"tcp": [15_140, 10], "udp": [0, 0]}},
        "hidden": 0,
        "paced_drops": 11,
        "events": fake_events(fake, reference),
        "demands": [],
        "times": times,
        "wires": {
            name: {column: list(values) for column, values in wire.items()} for name in PATHS.used
        },
        "paths": dataclasses.asdict(PATHS),
        "keys": None,
        "load": {
            "idle": 30.0,
            "total": 60.0,
            "stolen": 0.0,
            "backlog_drops": 0,
            "idle_share": 0.5,
        },
        "virtual": False,
        "out_of_memory": {"TCPOFODrop": 0},
        "agents": {"a-sea": ""},
        "kernel_errors": [],
        "changed": [],
    }


def test_queues_that_may_drain_between_samples_show_no_rate() -> None:
    """A FIFO of 72 ms, sampled four times a second, is empty for a time in each step."""
    run = fake_run()
    for kept in run["wires"].values():
        kept["held"] = [round(0.05 * PLAN.rate / 8)] * len(kept["held"])
    assert Run(PLAN, "pfifo", run).check() == []
    for kept in run["wires"].values():
        kept["held"] = [round(0.3 * PLAN.rate / 8)] * len(kept["held"])
    with pytest.raises(CannotRunError, match="sent 2.0 Mbit/s while packets waited"):
        Run(PLAN, "pfifo", run).check()


def passed(measured: dict[str, Any]) -> list[bool]:
    run = run_of(measured)
    run.check()
    return [ok for ok, _ in backbone_report.checks(backbone_report.evaluate_variant(run))]


def test_max_min_rates_by_hand() -> None:
    """Of 3.8 Mbit/s each: worked out by hand for each part of the time."""
    reference = max_min_reference()
    tenth, third = 3.8e6 / 10, 3.8e6 / 3
    # sea-nyc, lax-nyc, hou-chi, hou-atl, nyc-lax, sea-atl, chi-nyc, atl-nyc
    expected: list[tuple[int, list[float | None]]] = [
        (5, [5 * tenth, 5 * tenth, 5 * tenth, 0.8e6, 10 * tenth, None, None, None]),
        (15, [third, 2 * third, third, 0.8e6, 10 * tenth, third, None, None]),
        (25, [third, 2e6, third, 1.8e6, 10 * tenth, third, None, None]),
        (35, [third, third, third, 1.8e6, 10 * tenth, third, third, None]),
        (45, [0.95e6, 0.95e6, 1.425e6, 1.8e6, 10 * tenth, 1.425e6, 0.95e6, 0.95e6]),
        (55, [None, third, 1.9e6, 1.8e6, 10 * tenth, 1.9e6, third, third]),
        (65, [None, 1.9e6, 1.9e6, 1.8e6, 10 * tenth, 1.9e6, None, 1.9e6]),
    ]
    for when, rates in expected:
        found = reference.at(when)
        assert [found.get(n) for n in range(8)] == [r and pytest.approx(r) for r in rates], when


def test_acknowledgements_have_a_share() -> None:
    """They take from the flow the other way, and it from them."""
    always = (0.0, 1.0)
    sessions = [backbone_analysis.Session(n, False, *always, always) for n in (1, 4)]
    capacity = dict.fromkeys(PATHS.used, PLAN.rate)
    rates = backbone_analysis.reference_of(PATHS, capacity, sessions, acks=True).at(0)
    part = 66 / 3028
    assert rates[1] == pytest.approx(4e6 / (1 + part), rel=1e-4)
    assert rates[4] == pytest.approx(rates[1], rel=1e-4)


def test_losses_and_delays_of_a_run() -> None:
    """By hand: 2000 of UDP's packets are sent, 1800 arrive."""
    run = run_of(fake_run())
    found = backbone_report.whole_run(run)
    assert found["loss"] == pytest.approx(0.05)
    assert found["loss_tcp"] == pytest.approx(1 - (19_000 - 1800) / (20_000 - 2000))
    # One of the two sends 1.2 times the link's rate.
    assert found["loss_below"] == pytest.approx(0.1)
    assert found["retransmitted"] == pytest.approx(7 * 9 / 6000)
    # The empty paths take from 10 to 40 ms.
    shortest, longest = sorted(abilene.WHOLE.delay_of(PATHS.of(n)) / 1000 for n in (3, 6))
    assert 0 < shortest < longest
    assert found["udp50"] == pytest.approx(max(0, 10 - shortest), abs=1)
    assert found["udp99"] == pytest.approx(50 - shortest, abs=0.01)
    shares, below = backbone_report.fair_shares(run)
    assert [backbone.FLOWS[n].label for n in below] == ["hou-atl udp"]
    # In the first 20 s a fifth of the link, then 45 %.
    payload = backbone.FLOWS[3].payload_part
    assert shares[3] == pytest.approx(4e6 / 8 * payload * (0.2 * 20 + 0.45 * 50), rel=1e-6)
    # It got less, the other seven more or less: none counts for more than its share.
    got = [one["got"] for one in run.measured["totals"]]
    assert found["maxmin"] == pytest.approx(sum(map(min, got, shares)) / sum(shares))


def test_good_run_passes_all_checks(tmp_path: Path) -> None:
    data = {"slbn": fake_run(), "pfifo": fake_run(Fake(got=-0.5))}
    assert passed(data["slbn"]) == [True] * 6
    around = {"kernel": {"release": "6.1"}, "engine": {"name": "virtual"}}
    plan = dataclasses.replace(PLAN, variants=("slbn", "pfifo"))
    runs = {name: Run(plan, name, measured) for name, measured in data.items()}
    found = backbone_report.write_results(plan, runs, around, tmp_path)
    assert backbone_report.failed(found) == []
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(found))
    for name in ("rates", "variants"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    text = backbone_report.table(PLAN, found)
    assert "FAILED" not in text and text.count("ok    ") == 6
    # 100 ms after each change, of 72 ms each.
    assert text.count("100 ms   1.4 RTT") == 2 * 7
    slbn, plain = (found["variants"][name] for name in ("slbn", "pfifo"))
    for row in slbn["flows"]:
        assert row["assigned"] == pytest.approx(row["exact"], rel=1e-5)
        assert row["off"] == pytest.approx(0, abs=1e-5)
    assert all(row["off"] < -0.45 for row in plain["flows"])
    wire = slbn["wires"]["ksc.ipl"]
    assert wire["use"] == pytest.approx(0.5, abs=1e-3)
    assert wire["control"] == pytest.approx(0.01, rel=0.02)
    assert wire["queue_most"] == pytest.approx(2 * 1514 * 8 / PLAN.rate)


def test_goodput_in_sum_is_compared_with_fq_codel() -> None:
    """Fewer 20 % are a dip in each second."""
    variants = {
        name: backbone_report.evaluate_variant(Run(PLAN, name, fake_run(Fake(got=got))))
        for name, got in (("slbn", 0.0), ("fq_codel", 1 / 0.95 - 1), ("pfifo", -0.2))
    }
    assert "(-5.0 %)" in backbone_report.sum_lines(variants)[0]
    ours, other = (variants[name]["goodput"] for name in ("slbn", "fq_codel"))
    assert ours == pytest.approx(0.95 * other)
    assert backbone_report.sum_lines({"slbn": variants["slbn"]}) == []
    assert all(flow["dips"] == 0 for flow in variants["slbn"]["flows"])
    assert all(flow["dips"] == flow["seconds"] for flow in variants["pfifo"]["flows"])


def test_fast_links_need_less_headroom() -> None:
    slbn = VARIANTS["slbn"]
    assert slbn.capacity(100 * 10**6) == 99 * 10**6
    assert slbn.capacity(5 * 10**6) == 4_750_000
    for rate, text in ((100 * 10**6, "headroom 1%"), (5 * 10**6, "headroom 5%")):
        ends = {end.interface: end for end in trunks(abilene.build(rate, slbn))}
        assert any(text in line for line in network.queue_commands(ends["ksc.ipl"], 1514))


def test_queues_grow_with_the_rate() -> None:
    fast = dataclasses.replace(PLAN, rate=100_000_000)
    for name, words in (("pfifo", "pfifo limit 594"), ("fq_codel", "fq_codel")):
        ends = {end.interface: end for end in trunks(fast.network(VARIANTS[name]))}
        assert network.queue_commands(ends["sea.den"], 1514)[-1].endswith(f"handle 10: {words}")
    without = dataclasses.replace(fast, without=(("ksc", "drr_fq"),))
    ends = {end.interface: end for end in trunks(without.network(VARIANTS["slbn"]))}
    assert network.queue_commands(ends["ksc.ipl"], 1514)[-1].endswith("drr_fq limit 594")
    assert PLAN.network(VARIANTS["slbn"]) == abilene.build(PLAN.rate, VARIANTS["slbn"])


@pytest.mark.parametrize(
    ("replaced", "dropped", "ok"), [(7, 0, True), (7, 1, False), (0, 0, False)]
)
def test_dropped_packets_after_a_new_key_are_found(replaced: int, dropped: int, ok: bool) -> None:
    measured = fake_run()
    counters = {"bad_key": 0, "unknown_key": dropped, "bad_time": 0}
    measured["keys"] = {"replaced": replaced, "dropped": counters}
    assert passed(measured) == [True] * 6 + [ok]


PARTIAL = dataclasses.replace(PLAN, without=(("nyc", "drr_fq"),))


def partial_run(used: float = 0.9, fair: float = 1.0) -> dict[str, Any]:
    """A run in which SLBN has no part in the links of nyc, which share fairly.

    What flows across these get is FAIR times their share, and USED times their agent's demand.
    """
    measured = fake_run()
    capacity = run_of(measured, PARTIAL).capacity(every_link=True)
    every_link = backbone_analysis.reference_of(PATHS, capacity, SESSIONS)
    crossing = {n for n in range(8) if PARTIAL.is_partial(PATHS.of(n))}
    events = []
    # By the rates of all links, the others have the same ones.
    for when, node, number, own, port, _, _, rtt, over in measured["events"]:
        rate = round(every_link.at(when - rtt / 1e9 if not over else when).get(number, 0))
        demand = SESSIONS[number].demand(when) or PARTIAL.rate
        if number in crossing and backbone.FLOWS[number].kind != experiment.UDP:
            rate = demand = round(rate / used)
        events.append((when, node, number, own, port, max(1, demand), rate, rtt, over))
    measured["events"] = events
    for number in crossing:
        flow = backbone.FLOWS[number]
        measured["goodput"][number] = [
            (a, b, fair * flow.payload_part * every_link.mean(number, a, b))
            for a, b, _ in measured["goodput"][number]
        ]
    return measured


def partial_flows(measured: dict[str, Any], plan: backbone.Plan = PARTIAL) -> dict[str, Any]:
    return backbone_report.evaluate_variant(run_of(measured, plan))


def test_references_of_a_partial_deployment() -> None:
    """SLBN's own: only its links, and agents' demands.  That of every link: of all, without."""
    run = run_of(partial_run(used=0.5), PARTIAL)
    # sea-nyc has half of ksc.ipl, lax-nyc the rest of nyc.a-nyc, of which SLBN knows nothing: by
    # its demand lax-nyc would get what hou-atl leaves on hou.atl.
    assert run.every_link.at(5.0)[0] == pytest.approx(1.9e6)
    assert run.every_link.at(5.0)[1] == pytest.approx(2.1e6)
    assert run.reference.at(5.0)[1] == pytest.approx(3.8e6 - 0.8e6)
    greedy = {one.flow for one in run.sessions if one.greedy[0] < backbone_analysis.NEVER}
    assert greedy == {2, 5}  # hou-chi and sea-atl, on whose paths all links have SLBN
    assert PARTIAL.takes_part("chi.nyc") and not PARTIAL.takes_part("nyc.chi")


def test_partial_deployment_is_checked() -> None:
    found = partial_flows(partial_run())
    assert [flow["partial"] for flow in found["flows"]] == [
        flow.destination == "nyc" or flow.source == "nyc" for flow in backbone.FLOWS
    ]
    for flow in found["flows"]:
        assert (flow["fair"] is None, flow["off"] is None) == (not flow["partial"], flow["partial"])
    assert set(found["booked"]).isdisjoint({"nyc.a-nyc", "nyc.wdc", "nyc.chi"})
    texts = [text for ok, text in backbone_report.checks(found) if "without SLBN" in text]
    assert len(texts) == 2
    document = {"kernel": {"release": "6.1"}, "engine": {"name": "virtual"}}
    text = backbone_report.table(PARTIAL, document | {"variants": {"slbn": found}})
    assert "nyc without SLBN (drr_fq)" in text and "all links" in text


@pytest.mark.parametrize(
    ("measured", "demand", "fair"),
    [
        (partial_run(), True, True),
        (partial_run(used=0.5), False, True),
        (partial_run(used=0.8, fair=0.85), True, False),
    ],
    ids=["good", "demand does not follow", "unfair"],
)
def test_failed_checks_of_partial_deployment_are_found(
    measured: dict[str, Any], demand: bool, fair: bool
) -> None:
    checks = backbone_report.checks(partial_flows(measured))
    (follows,) = (ok for ok, text in checks if "of what they get" in text)
    (shared,) = (ok for ok, text in checks if "goodput of all links" in text)
    assert (follows, shared) == (demand, fair)
    # FIFOs are not expected to share fairly.
    fifo = dataclasses.replace(PARTIAL, without=(("nyc", "pfifo"),))
    checks = backbone_report.checks(partial_flows(measured, fifo))
    assert not any("goodput of all links" in text for _, text in checks)


def test_long_queues_without_slbn_are_ignored() -> None:
    measured = partial_run()
    measured["wires"]["nyc.a-nyc"]["held"][99] = 60 * 1514
    checks = backbone_report.checks(partial_flows(measured))
    assert next(ok for ok, text in checks if text.startswith("links' queues"))


@pytest.mark.parametrize(
    ("fake", "expected"),
    [
        (Fake(assigned_off=0.02), [True, False, True, False, True, False]),
        (Fake(assigned_off=-0.02), [True, False, True, True, True, False]),
        (Fake(got=0.06), [True, True, False, True, True, True]),
        (Fake(got=-0.06), [True, True, False, True, True, True]),
        (Fake(late=1.5), [True, True, True, True, True, False]),
    ],
    ids=str,
)
def test_failed_checks_are_found(fake: Fake, expected: list[bool]) -> None:
    assert passed(fake_run(fake)) == expected


def test_a_long_queue_is_found() -> None:
    measured = fake_run()
    measured["wires"]["ksc.ipl"]["held"][99] = 30 * 1514
    assert passed(measured) == [True, True, True, True, False, True]
    # But not where packets wait for their times.
    measured = fake_run()
    measured["wires"]["a-sea.sea"]["held"][99] = 30 * 1514
    assert all(passed(measured))


def test_one_wrong_rate_is_found() -> None:
    """One flow has a wrong rate for a second, long after any change."""
    measured = fake_run()
    place = next(n for n, event in enumerate(measured["events"]) if event[0] > 31)
    when, *rest = measured["events"][place]
    rest[5] = round(1.2 * rest[5])
    measured["events"].insert(place + 1, (when + 5.0, *rest))
    rest[5] = round(rest[5] / 1.2)
    measured["events"].insert(place + 2, (when + 6.0, *rest))
    measured["events"].sort()
    assert passed(measured)[5] is False


def test_undetected_flow_is_found() -> None:
    measured = fake_run()
    own, _ = backbone_analysis.ports(3)
    measured["events"] = [event for event in measured["events"] if event[3] != own]
    assert passed(measured)[0] is False


def stand_still(measured: dict[str, Any]) -> None:
    for n in range(100, len(measured["times"])):
        measured["times"][n] += 1.5


def send_slowly(measured: dict[str, Any]) -> None:
    """Packets wait, and the wire sends half of what it could."""
    measured["wires"]["ksc.ipl"]["held"] = [100 * 1514] * len(measured["times"])


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (lambda m: m["load"].update(idle=0.6), "idle for only 1.0 %"),
        (lambda m: m["load"].update(stolen=10.0), "took 17 % of this machine's CPU away"),
        (lambda m: m["load"].update(backlog_drops=2), "2 packets were lost between namespaces"),
        (stand_still, "stood still for 1.8 s"),
        (send_slowly, "ksc.ipl sent 2.0 Mbit/s while packets waited, instead of 4mbit"),
        (
            lambda m: m["arrived"]["sea-nyc"].update(tcp=[15_140, 5]),
            "sea-nyc, TCP, sent packets of .* an offload was on",
        ),
        (lambda m: m.update(hidden=3), "3 packets were lost in the delays"),
        (lambda m: m["out_of_memory"].update(TCPOFODrop=4), "too little memory, .*: TCPOFODrop 4"),
        (lambda m: m["agents"].update({"a-sea": "cannot pace"}), "slbnd at a-sea: cannot pace"),
        (lambda m: m["kernel_errors"].append("BUG: a bug"), "the kernel reported: BUG: a bug"),
    ],
)
def test_disturbed_runs_are_refused(plant: Callable[[dict[str, Any]], None], reason: str) -> None:
    measured = fake_run()
    plant(measured)
    with pytest.raises(CannotRunError, match=reason):
        run_of(measured).check()


def test_plans_are_stored() -> None:
    without = (("nyc", "drr_fq"), ("sea", "pfifo"))
    plan = backbone.Plan(1000, 40, ("slbn", "pfifo"), "asymmetric,ecmp", 10, without)
    assert backbone.Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_sessions_are_matched_to_flows() -> None:
    own, port = backbone_analysis.ports(2)
    assert backbone_analysis.OF_PORTS["a-hou", own, port] == (2, False)
    assert backbone_analysis.OF_PORTS["a-chi", port, own] == (2, True)
    assert ("a-chi", own, port) not in backbone_analysis.OF_PORTS


@dataclass(frozen=True)
class Done:
    """A real run: what it printed, how it went, and what it left where."""

    printed: dict[str, Any]
    steps: list[str]
    directory: Path


def run_backbone(out: Path, *words: str) -> Done:
    """As short as can be, and only with SLBN; in virtual time, which no busy machine stretches."""
    every = ["backbone", "--variants", "slbn", "--time", str(backbone.SHORTEST), *words]
    every += ["--engine", "virtual"]
    done = run_fairlab(*every, "--out", str(out), "--json", timeout=1500)
    assert done.returncode == 0, done.stderr
    (directory,) = out.iterdir()
    return Done(json.loads(done.stdout), done.stderr.splitlines(), directory)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return run_backbone(tmp_path_factory.mktemp("results"))


@pytest.mark.tier("all")
def test_real_run_stores_all_files(run: Done) -> None:
    assert f"fairlab: slbn: {backbone.SHORTEST} s" in run.steps
    assert run.printed["directory"] == str(run.directory)
    assert run.printed["engine"]["name"] == "virtual"
    assert run.printed["kernel"]["release"].startswith("6.1.")
    names = {path.name for path in run.directory.iterdir()}
    figures = {f"{name}.{f}" for name in ("rates", "variants") for f in ("png", "svg")}
    assert names == figures | {"result.json", "exact.json", "packets.fp", "slbn"}


@pytest.mark.tier("all")
def test_real_run_detects_all_sessions(run: Done) -> None:
    """Each flow was found by its agent, TCP's acknowledgements too, and none too much."""
    seen = Run.read(backbone.Plan.from_json(run.printed["plan"]), "slbn", run.directory)
    sessions = seen.sessions
    for number, flow in enumerate(backbone.FLOWS):
        own = [session for session in sessions if session.flow == number and not session.back]
        assert len(own) == 1
        assert own[0].since == pytest.approx(seen.plan.span(number)[0], abs=0.3)
        back = [session for session in sessions if session.flow == number and session.back]
        assert flow.kind == experiment.UDP or len(back) == 1
    # After TCP's RST the agent looks a connection up 0.1, 0.3 and 0.7 s later, until it has sent
    # nothing more since the look-up before.  UDP must be idle for a while.
    ends = {session.flow: session.until for session in sessions if not session.back}
    stop = {number: seen.plan.span(number)[1] for number in (0, 6)}
    assert stop[0] < ends[0] < stop[0] + 1
    assert stop[6] + 1 < ends[6] < stop[6] + 4


@pytest.mark.tier("all")
def test_real_run_passes_all_checks(run: Done) -> None:
    """Beyond the checks: nothing is lost at links, and every flow was evaluated."""
    found = run.printed["variants"]["slbn"]
    assert all(flow["seconds"] > 0 for flow in found["flows"])
    assert sum(wire["drops"] for wire in found["wires"].values()) == 0
    assert max(wire["use"] for wire in found["wires"].values()) > 0.8
    # In both directions of a session, and there are several.
    assert 0.005 < max(wire["control"] for wire in found["wires"].values()) < 0.05
    assert found["retransmits"] > 0
    # In virtual time, work takes none.
    assert found["idle_share"] == 1


@pytest.mark.tier("all")
def test_real_run_with_asymmetric_equal_cost_paths_and_new_keys(tmp_path: Path) -> None:
    """All checks pass with the max-min rates of the paths that the kernels chose."""
    words = ("--paths", "asymmetric,ecmp", "--rotate-keys", "5")
    found = run_backbone(tmp_path, *words).printed["variants"]["slbn"]
    assert found["keys"]["replaced"] >= backbone.SHORTEST // 5 - 1
    paths = backbone.Paths(**found["paths"])
    routing = abilene.ROUTINGS["asymmetric,ecmp"]
    for number, flow in enumerate(backbone.FLOWS):
        there, back = paths.of(number), paths.of(number, back=True)
        assert there in all_paths(routing, flow.source, flow.destination)
        assert back in all_paths(routing, flow.destination, flow.source)
        assert list(map(abilene.ends, there)) != list(map(abilene.ends, reverse(back)))
    assert sum(wire["drops"] for wire in found["wires"].values()) == 0


@pytest.mark.tier("all")
def test_real_run_with_a_bottleneck_without_slbn(tmp_path: Path) -> None:
    """Links with and without SLBN are bottlenecks; all checks pass."""
    found = run_backbone(tmp_path, "--without", "nyc").printed["variants"]["slbn"]
    wires, flows_of = found["wires"], {flow["flow"]: flow for flow in found["flows"]}
    # Packets are lost at a full link only where there is no SLBN.
    assert wires["nyc.a-nyc"]["drops"] > 0 and wires["nyc.a-nyc"]["use_most"] > 0.95
    assert sum(wire["drops"] for wire in wires.values() if wire["slbn"]) == 0
    assert wires["ksc.ipl"]["use_most"] > 0.85
    assert flows_of["lax-nyc cubic"]["partial"] and not flows_of["hou-chi gaimd"]["partial"]
