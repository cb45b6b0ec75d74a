# SPDX-License-Identifier: GPL-2.0
"""The backbone's data and arithmetic: exact rates, ways through Abilene, what a report says."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fairlab import abilene, backbone, backbone_report, maxmin, network, topology
from fairlab.maxmin import Session
from hypothesis import given
from hypothesis import strategies as st

PLAN = backbone.Plan(6_000_000, 60, ("slbn",))


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
        st.tuples(st.sets(st.sampled_from(LINKS), min_size=1), st.none() | st.integers(1, 1000)),
        min_size=1,
        max_size=12,
    ),
)
def test_rates_are_max_min_fair(
    capacity: dict[str, int], wanted: list[tuple[set[str], int | None]]
) -> None:
    """Each session has what it asks for, or is among the largest at a full link."""
    sessions = {str(n): Session(sorted(path), demand) for n, (path, demand) in enumerate(wanted)}
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
                rates[name] >= rates[other] for other, its in sessions.items() if link in its.path
            )
            for link in session.path
        )


def test_a_session_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="no limit"):
        maxmin.rates({}, {"x": Session([])})


def test_ways_there_and_back_are_the_same() -> None:
    for a in abilene.ACCESS:
        for b in abilene.ACCESS:
            if a != b:
                there = abilene.path(a, b)
                assert [(y, x) for x, y in reversed(abilene.path(b, a))] == there
                assert there[0] == (abilene.access(a), a)
                assert there[-1] == (b, abilene.access(b))


@pytest.mark.parametrize("variant", backbone.VARIANTS.values(), ids=str)
def test_routes_lead_to_every_host(variant: abilene.Variant) -> None:
    """Each packet follows the routes, hop by hop, along the way that the solver takes it to go."""
    made = abilene.build(PLAN.rate, variant)
    owner = {end.address: end.node for link in made.links for end, _ in link.ends()}
    for flow in backbone.FLOWS:
        to = abilene.address_of(made, flow.destination)
        subnet = to.rpartition(".")[0] + ".0/24"
        at, way = abilene.access(flow.source), []
        while at != abilene.access(flow.destination):
            hop = owner[dict(made.routes[at])[subnet]]
            way.append((at, hop))
            at = hop
        assert way == abilene.path(flow.source, flow.destination)
    # And answers to the agents' own addresses.
    for node in abilene.ACCESS:
        uplink = next(end for end, peer in made.ends_of(abilene.access(node)) if peer.node == node)
        subnet = uplink.address.rpartition(".")[0] + ".0/24"
        assert all(
            subnet in dict(made.routes[router])
            for router in made.routers
            if router not in (node, abilene.access(node))
        )


def test_queues_of_wires() -> None:
    made = abilene.build(PLAN.rate, backbone.VARIANTS["slbn"])
    assert len(list(abilene.wires(made))) == 2 * (len(abilene.LINKS) + len(abilene.ACCESS))
    frame = 1514
    commands = {
        end.interface: network.queue_commands(end, frame)
        for link in made.links
        for end, _ in link.ends()
    }
    core = commands["sea.den"]
    assert core[0].startswith("qdisc replace dev sea.den root handle 1: tbf rate 6000000bit")
    assert core[1].endswith("parent 1:1 handle 2: slbn rate 6000000bit")
    assert core[-1].endswith("parent 20:1 handle 10: drr_fq limit 100")
    assert commands["a-sea.sea"][-1].endswith("handle 10: fq")
    assert commands["a-sea.h-sea"] == ["qdisc replace dev a-sea.h-sea root handle 2: slbn edge"]
    assert commands["h-sea.a-sea"] == []
    plain = abilene.build(PLAN.rate, backbone.VARIANTS["pfifo"])
    assert not any(isinstance(end.queue, topology.Edge) for link in plain.links
                   for end, _ in link.ends())  # fmt: skip


def fake_run(off: float) -> dict[str, Any]:
    """Measurements in which each flow gets so much more than it should."""
    goodput = []
    for n, flow in enumerate(backbone.FLOWS):
        start, stop = backbone.times(flow, PLAN.seconds)
        seconds = [start + s + 1 for s in range(int(stop - start))]
        part = backbone_report.payload_part(flow)
        goodput.append(
            [
                (when, (1 + off) * part * backbone.exact(PLAN, when - 0.5).get(n, 0))
                for when in seconds
            ]
        )
    rates = [
        (change, n, round((1 + off) * rate))
        for change in backbone.changes(PLAN)
        for n, rate in backbone.exact(PLAN, change).items()
    ]
    times = [n / 2 for n in range(2 * PLAN.seconds)]
    half = [int(PLAN.rate / 8 * when / 2) for when in times]
    wire = {"sent": half, "held": [7500] * len(times), "drops": list(range(len(times)))}
    return {"goodput": goodput, "rates": rates, "times": times, "wires": {"a.b": wire}}


@pytest.mark.parametrize("off", [0.0, 0.1, -0.2])
def test_report(off: float, tmp_path: Path) -> None:
    data = {"slbn": fake_run(off)}
    found = backbone_report.evaluate(PLAN, data)
    for flow in found["slbn"]["flows"]:
        if flow["exact"]:
            assert backbone_report.error(flow) == pytest.approx(off, abs=1e-6)
    told = [flow["told_error"] for flow in found["slbn"]["flows"] if flow["told_error"] is not None]
    assert max(told) == pytest.approx(abs(off), abs=1e-5)
    wire = found["slbn"]["wires"]["a.b"]
    assert wire["use"] == pytest.approx(0.5, abs=1e-3)
    assert (wire["queue_ms"], wire["drops"]) == (10, 119)
    text = backbone_report.table(PLAN, found)
    assert f"off by {100 * abs(off):.1f} % (mean)" in text
    plan = {"plan": PLAN.to_json(), "variants": data}
    (tmp_path / backbone.DATA).write_text(json.dumps(plan))
    (tmp_path / backbone.PLAN).write_text("{}")
    backbone_report.store(tmp_path)
    assert (tmp_path / "backbone.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "result.json").read_text())["plan"]["rate"] == PLAN.rate


def test_moments_after_a_change_are_left_out() -> None:
    assert not backbone_report.at_rest(PLAN, 1)
    change = backbone.changes(PLAN)[1]
    assert backbone_report.at_rest(PLAN, change - 0.1)
    assert not backbone_report.at_rest(PLAN, change + backbone_report.SETTLE + 0.9)
    assert backbone_report.at_rest(PLAN, change + backbone_report.SETTLE + 1.1)
