# SPDX-License-Identifier: GPL-2.0
"""The backbone: max-min rates, routes through Abilene, the report, and a real run.

The report is tested on made-up runs: a good one passes all checks; then a fault is planted, and the
checks must find exactly that fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fairlab.model import topology
from fairlab.model.errors import CannotRunError
from fairlab.net import network
from fairlab.run import flows
from fairlab.slbn import abilene, backbone, backbone_analysis, backbone_report, maxmin
from fairlab.slbn.maxmin import Session
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import run_fairlab

PLAN = backbone.Plan(4_000_000, 70, ("slbn",))


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


def test_unlimited_session_is_refused() -> None:
    with pytest.raises(ValueError, match="no limit"):
        maxmin.rates({}, {"x": Session([])})


def test_link_without_capacity_does_not_limit() -> None:
    sessions = {"x": Session(["a", "b"]), "y": Session(["b"], 3)}
    assert maxmin.rates({"a": 10}, sessions) == {"x": 10, "y": 3}
    with pytest.raises(ValueError, match="no limit"):
        maxmin.rates({"a": 10}, {"x": Session(["b"])})


def test_paths_are_symmetric() -> None:
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


def test_queues_of_links() -> None:
    made = abilene.build(PLAN.rate, backbone.VARIANTS["slbn"])
    assert len(list(abilene.wires(made))) == 2 * (len(abilene.LINKS) + len(abilene.ACCESS))
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
    assert core[4].endswith("parent 20:1 handle 10: drr_fq limit 64")
    # As slbnd wants it: fq is slbn's own data class.
    assert commands["a-sea.sea"][2:] == [
        "qdisc replace dev a-sea.sea parent 2:2 handle 10: fq limit 100000 flow_limit 10000"
    ]
    assert commands["a-sea.h-sea"] == ["qdisc replace dev a-sea.h-sea root handle 2: slbn edge"]
    assert commands["h-sea.a-sea"] == []
    plain = abilene.build(PLAN.rate, backbone.VARIANTS["pfifo"])
    assert not any(
        isinstance(end.queue, topology.Edge) for link in plain.links for end, _ in link.ends()
    )
    uplink = next(end for end in abilene.wires(plain) if end.interface == "a-sea.sea")
    assert network.queue_commands(uplink, frame)[1:] == [
        "qdisc replace dev a-sea.sea parent 1:1 handle 10: pfifo limit 64"
    ]


def test_the_longest_path() -> None:
    longest = backbone_report.LONGEST
    assert longest == pytest.approx(0.072, abs=1e-4)
    assert all(len(flow.wires) < backbone.HOPS for flow in backbone.FLOWS)


@dataclass(frozen=True)
class Fake:
    """What is wrong in a made-up run."""

    assigned_off: float = 0.0  # the error of assigned rates
    got: float = 0.0  # by how much flows get something else than these allow
    late: float = 0.1  # seconds until agents tell


def sessions_of(plan: backbone.Plan) -> list[backbone_analysis.Session]:
    started = [[float(plan.times(part)[0]) for part in flow.parts] for flow in backbone.FLOWS]
    return backbone_analysis.planned_sessions(plan, {"started": started})


def max_min_reference(plan: backbone.Plan) -> backbone_analysis.Reference:
    oracle = backbone_analysis.Oracle(plan, backbone.VARIANTS["slbn"])
    return oracle.reference(sessions_of(plan), acks=False)


def fake_events(fake: Fake, reference: backbone_analysis.Reference) -> list[tuple[Any, ...]]:
    """The agents' events: each flow's rate when the reference changes, and the flow's end."""
    found: list[tuple[Any, ...]] = []
    for session in sessions_of(PLAN):
        flow, (own, port) = backbone.FLOWS[session.flow], flows.ports(session.flow)
        for moved in reference.times:
            if not session.since <= moved < session.until:
                continue
            rate = round((1 + fake.assigned_off) * reference.at(moved)[session.flow])
            demand = backbone_analysis.last(session.demands, moved) or PLAN.rate
            rtt = round(1e9 * fake.late)
            when = moved + fake.late
            found.append((when, flow.source, session.flow, own, port, demand, rate, rtt, False))
        if session.until < PLAN.seconds:
            found.append((session.until, flow.source, session.flow, own, port, 1, 0, 0, True))
    return sorted(found)


def fake_run(fake: Fake = Fake()) -> dict[str, Any]:  # noqa: B008 (it cannot be changed)
    """A run with what is wrong in it."""
    reference = max_min_reference(PLAN)
    goodput = []
    for number, flow in enumerate(backbone.FLOWS):
        begin, end = PLAN.times(flow.parts[0])[0], PLAN.times(flow.parts[-1])[1]
        seconds = []
        for second in range(begin, end):
            allowed = (1 + fake.assigned_off) * reference.mean(number, second, second + 1)
            sends = PLAN.sends(flow, second) or PLAN.rate
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
        "started": [[float(PLAN.times(part)[0]) for part in flow.parts] for flow in backbone.FLOWS],
        "goodput": goodput,
        "retransmits": [7] * len(backbone.FLOWS),
        "events": fake_events(fake, reference),
        "demands": [],
        "times": times,
        "wires": {
            name: {column: list(values) for column, values in wire.items()}
            for name in {w for flow in backbone.FLOWS for w in (*flow.wires, *flow.wires_back)}
        },
        "load": {
            "idle": 30.0,
            "total": 60.0,
            "stolen": 0.0,
            "backlog_drops": 0,
            "idle_share": 0.5,
        },
    }


def passed(measured: dict[str, Any]) -> list[bool]:
    backbone_report.check(PLAN, "slbn", measured)
    found = backbone_report.evaluate_variant(PLAN, "slbn", measured)
    return [ok for ok, _ in backbone_report.checks(found)]


def test_max_min_rates_by_hand() -> None:
    """Of 3.8 Mbit/s each: worked out by hand for each part of the time."""
    reference = max_min_reference(PLAN)
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
    oracle = backbone_analysis.Oracle(PLAN, backbone.VARIANTS["pfifo"])
    rates = oracle.with_acks(frozenset({(1, False, None), (4, False, None)}))
    part = 66 / 3028
    assert rates[1] == pytest.approx(4e6 / (1 + part), rel=1e-4)
    assert rates[4] == pytest.approx(rates[1], rel=1e-4)


def test_good_run_passes_all_checks(tmp_path: Path) -> None:
    data = {"slbn": fake_run(), "pfifo": fake_run(Fake(got=-0.5))}
    assert passed(data["slbn"]) == [True] * 6
    document = {"plan": PLAN.to_json(), "variants": data}
    document |= {"kernel": {"release": "6.1"}, "engine": {"name": "virtual"}}
    (tmp_path / backbone.DATA).write_text(json.dumps(document))
    found = backbone_report.write_results(tmp_path)
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
        assert row["told"] == pytest.approx(row["exact"], rel=1e-5)
        assert row["off"] == pytest.approx(0, abs=1e-5)
    assert all(row["off"] < -0.45 for row in plain["flows"])
    wire = slbn["wires"]["ksc.ipl"]
    assert wire["use"] == pytest.approx(0.5, abs=1e-3)
    assert wire["control"] == pytest.approx(0.01, rel=0.02)
    assert wire["queue_most"] == pytest.approx(2 * 1514 * 8 / PLAN.rate)


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
    own, _ = flows.ports(3)
    measured["events"] = [event for event in measured["events"] if event[3] != own]
    assert passed(measured)[0] is False


def stand_still(measured: dict[str, Any]) -> None:
    for n in range(100, len(measured["times"])):
        measured["times"][n] += 1.5


def send_slowly(measured: dict[str, Any]) -> None:
    """Packets wait, and the wire sends half of what it could."""
    measured["wires"]["ksc.ipl"]["held"] = [6 * 1514] * len(measured["times"])


def send_large(measured: dict[str, Any]) -> None:
    kept = measured["wires"]["ksc.ipl"]
    kept["packets"] = [n // 2 for n in kept["packets"]]


def lose(measured: dict[str, Any]) -> None:
    measured["wires"]["ksc.ipl"]["hidden"][-1] = 3


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (lambda m: m["load"].update(idle_share=0.01), "idle for only 1.0 %"),
        (lambda m: m["load"].update(stolen=10.0), "took this machine's CPU away"),
        (lambda m: m["load"].update(backlog_drops=2), "2 packets were lost between namespaces"),
        (stand_still, "stood still for 1.8 s"),
        (send_slowly, "wires sent 2.00 Mbit/s while packets waited, instead of 4mbit"),
        (send_large, "ksc.ipl sent packets beyond its MTU"),
        (lose, "3 packets were lost in the delays"),
    ],
)
def test_disturbed_runs_are_refused(plant: Callable[[dict[str, Any]], None], reason: str) -> None:
    measured = fake_run()
    plant(measured)
    with pytest.raises(CannotRunError, match=reason):
        backbone_report.check(PLAN, "slbn", measured)


def test_sessions_are_matched_to_flows() -> None:
    own, port = flows.ports(2)
    assert backbone_analysis.flow_of("hou", own, port) == (2, False)
    assert backbone_analysis.flow_of("chi", port, own) == (2, True)
    assert backbone_analysis.flow_of("chi", own, port) is None


@dataclass(frozen=True)
class Done:
    """A real run: what it printed, how it went, and what it left where."""

    printed: dict[str, Any]
    steps: list[str]
    directory: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """As short as can be, and only with SLBN; in virtual time, which no busy machine stretches."""
    out = tmp_path_factory.mktemp("results")
    words = ["backbone", "--variants", "slbn", "--time", str(backbone.SHORTEST)]
    words += ["--engine", "virtual"]
    done = run_fairlab(*words, "--out", str(out), "--json", timeout=1500)
    assert done.returncode == 0, done.stderr
    (directory,) = out.iterdir()
    return Done(json.loads(done.stdout), done.stderr.splitlines(), directory)


@pytest.mark.tier("all")
def test_real_run_stores_all_files(run: Done) -> None:
    assert f"fairlab: slbn: 8 flows in {backbone.SHORTEST} s" in run.steps
    assert run.printed["directory"] == str(run.directory)
    assert run.printed["engine"]["name"] == "virtual"
    assert run.printed["kernel"]["release"].startswith("6.1.")
    names = {path.name for path in run.directory.iterdir()}
    figures = {f"{name}.{f}" for name in ("rates", "variants") for f in ("png", "svg")}
    assert names == figures | {"result.json", backbone.DATA}


@pytest.mark.tier("all")
def test_real_run_detects_all_sessions(run: Done) -> None:
    """Each flow was found by its agent, TCP's acknowledgements too, and none too much."""
    document = json.loads((run.directory / backbone.DATA).read_text())
    measured = document["variants"]["slbn"]
    plan = backbone.Plan.from_json(document["plan"])
    sessions = backbone_analysis.reported_sessions(plan, measured)
    for number, flow in enumerate(backbone.FLOWS):
        own = [session for session in sessions if session.flow == number and not session.back]
        assert len(own) == 1
        assert own[0].since == pytest.approx(measured["started"][number][0], abs=0.3)
        back = [session for session in sessions if session.flow == number and session.back]
        assert flow.kind == backbone.UDP or len(back) == 1
    # TCP says when it ends; UDP is missed after a while.
    ends = {session.flow: session.until for session in sessions if not session.back}
    stop = {n: backbone_analysis.stops(plan, n, measured["started"][n]) for n in range(8)}
    assert ends[0] == pytest.approx(stop[0], abs=0.5)
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
    assert 0.2 < found["idle_share"] < 1
