# SPDX-License-Identifier: GPL-2.0
"""Each way of breaking a run refuses it in each pipeline, with the reason.

A pipeline's made-up run is good; then its raw data is changed as such a fault changes it, and the
pipeline's own reader must refuse it.  What a pipeline cannot have (TCP, agents), and which checks
it cannot make, is listed.  test_trust.py has the checks themselves; guest_breaks.py breaks real
runs.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fairlab.model.errors import CannotRunError
from fairlab.results import flentresult, outcome, trust, validity
from fairlab.results.analysis import Measurement
from fairlab.slbn import sessions, sessions_tcp, simulated
from fairlab.slbn.backbone_analysis import Run
from fairlab.slbn.guest import RECORD
from fairlab.slbn.record import Record
from fairlab.slbn.sessions_tcp import TcpPlan

from tests.lab import (
    labtools,
    test_backbone,
    test_compare,
    test_experiment,
    test_flent,
    test_sessions,
)

#: Each way, and what the reason must have.
WAYS = {
    "lost packets": r"^(slbn: )?3 packets were lost between namespaces",
    "lost in delays": "3 packets were lost in the delays",
    "memory": "too little memory, and dropped received packets: TCPOFODrop 5$",
    "mtu": r"bytes on average, on links for \d+: an offload was on",
    "another cc": "ran with westwood instead of ",
    "not connected": "did not connect",
    "rate": "while packets waited, instead of",
    "slbnd": "slbnd at .*: cannot pace",
    "kernel": "the kernel reported: BUG: a bug",
    "changed": "the network was changed during the run: l.r: MTU$",
}
#: Without TCP or agents, there is nothing to break.
NO_TCP = frozenset({"memory", "another cc", "not connected"})
NO_AGENTS = frozenset({"slbnd"})

Break = Callable[[Any], None]


@dataclass(frozen=True)
class Pipeline:
    """MAKE a good run in a directory; CHECK it with the pipeline's reader."""

    make: Callable[[Path], Any]
    check: Callable[[Any, Path], list[str]]
    breaks: Mapping[str, Break]
    #: ways that cannot happen
    never: frozenset[str] = frozenset()
    #: the checks that are not made
    lacking: tuple[str, ...] = field(default=())


def put(*path: Any) -> Break:
    """Set what is at the keys and indices of PATH, but for its last one, to that."""
    *way, last, value = path

    def change(run: Any) -> None:
        for key in way:
            run = run[key] if isinstance(run, dict | list) else getattr(run, key)
        if isinstance(run, dict | list):
            run[last] = value
        else:
            setattr(run, last, value)

    return change


def scaled(column: list[Any], factor: float) -> None:
    column[:] = [round(factor * value) for value in column]


KERNEL = ["BUG: a bug"]
MEMORY = {"TCPOFODrop": 5}
CHANGED = ["l.r: MTU"]


# --- fairlab run --------------------------------------------------------------------------------


def scenario(_: Path) -> dict[str, Any]:
    what = labtools.scenario(seconds=10, warmup_seconds=2.5)
    found = labtools.made_up(what, (0.6, 0.4))
    return found | {"out_of_memory": {"TCPOFODrop": 0}, "kernel_errors": [], "changed": []}


def check_scenario(document: dict[str, Any], work: Path) -> list[str]:
    what = labtools.scenario(seconds=10, warmup_seconds=2.5)
    labtools.write_raw(work, document, labtools.saw_tooth(what))
    return validity.check(Measurement.read(work))


def slow_scenario(document: dict[str, Any]) -> None:
    times = document["columns"]["time"]
    times[:] = [when / 0.97 for when in times]


def scenario_with_offloads(document: dict[str, Any]) -> None:
    scaled(list(document["columns"]["arrived_packets"].values())[1], 0.25)


# --- fairlab flent ------------------------------------------------------------------------------


def check_flent(run: dict[str, Any], _: Path) -> list[str]:
    return flentresult.check(run["document"], run["data"], test_flent.request())


UPLOAD = ("data", "metadata", "SERIES_META", "TCP upload")


# --- experiments --------------------------------------------------------------------------------


def flows_of_experiment(kind: str, sent: int) -> Break:
    return put(
        "heads",
        "a",
        "flows",
        [{"kind": "reno", "sent": 1}, {"kind": kind, "sent": sent}],
    )


# --- the backbone -------------------------------------------------------------------------------


def slow_wires(run: dict[str, Any]) -> None:
    """Packets wait, and the links send half of their rates."""
    for kept in run["wires"].values():
        kept["held"][:] = [10**6] * len(kept["held"])


# --- TCP beside SLBN ----------------------------------------------------------------------------

TCP_PLAN = TcpPlan("slbn", 10**7, sessions_tcp.draw(9, 30, ("cubic",), 1), 30)


def tcp_run(_: Path) -> Record:
    times = [0.1 * n for n in range(101)]
    wire = {"held": [126_000] * 101, "sent": [125_000 * n for n in range(101)]}
    wire["packets"] = [100 * n for n in range(101)]
    count = len(TCP_PLAN.flows)
    document = {
        "times": times, "wires": {"sea.den": wire}, "load": {"backlog_drops": 0}, "virtual": True,
        "out_of_memory": {"TCPOFODrop": 0}, "agents": {"a-sea": ""}, "kernel_errors": [],
        "changed": [], "hidden": 0, "arrived": {"sea-nyc": {"tcp": [15_140, 10]}},
        "events": [(0.0, "a-sea", n, 50001 + n, 5000) for n in range(count)],
    }  # fmt: skip
    heads = [{"kind": "cubic", "sent": 1} for _ in range(count)]
    return Record(TCP_PLAN.experiment(), document, heads, [], {})


def check_tcp_run(run: Record, _: Path) -> list[str]:
    sessions_tcp.check(TCP_PLAN, run)
    return run.check()


# --- fairlab compare ----------------------------------------------------------------------------


def compare_run(work: Path) -> dict[str, Any]:
    test_compare.write_run(work)
    return {
        "document": json.loads((work / RECORD).read_text()),
        "head": json.loads((work / "l.fair").read_bytes().partition(b"\n")[0]),
    }


def check_compare_run(run: dict[str, Any], work: Path) -> list[str]:
    rows = (work / "l.fair").read_bytes().partition(b"\n")[2]
    (work / "l.fair").write_bytes(json.dumps(run["head"]).encode() + b"\n" + rows)
    (work / RECORD).write_text(json.dumps(run["document"] | dict.fromkeys(trust.ENVIRONMENT)))
    made = test_compare.made_up()
    made.read(work)
    said = made.conditions(work).get(trust.NOT_CHECKED, "")
    return [name for name in said.split(", ") if name]


# --- slbnsim ------------------------------------------------------------------------------------


def answer(_: Path) -> dict[str, Any]:
    configuration = {"loss_percent": 0.0, "dead": []}
    return {
        "interrupted": False,
        "configuration": configuration,
        "packets": {"lost": 0},
    }


PIPELINES = {
    "scenario": Pipeline(
        scenario,
        check_scenario,
        {
            "lost packets": put("load", "backlog_drops", 3),
            "lost in delays": put("columns", "delay_drops", -1, 3),
            "memory": put("out_of_memory", MEMORY),
            "mtu": scenario_with_offloads,
            "another cc": put("reports", 1, "cc", "westwood"),
            "not connected": put("reports", 1, "received_bytes", 0),
            "rate": slow_scenario,
            "kernel": put("kernel_errors", KERNEL),
            "changed": put("changed", CHANGED),
        },
        never=NO_AGENTS,
    ),
    "flent": Pipeline(
        lambda _: {"document": test_flent.document(), "data": test_flent.data()},
        check_flent,
        {
            "lost packets": put("document", "load", "backlog_drops", 3),
            "lost in delays": put("document", "lost_in_delays", 3),
            "memory": put("document", "out_of_memory", MEMORY),
            "mtu": put("document", "queues", "reverse", "packets", 10),
            "another cc": put(*UPLOAD, "CONG_CONTROL", "westwood"),
            "not connected": put("data", "results", "TCP upload", [None, None, None]),
            "kernel": put("document", "kernel_errors", KERNEL),
            "changed": put("document", "changed", CHANGED),
        },
        never=NO_AGENTS,
        # Flent reads the queues when it wants to.
        lacking=("rates of links", "pauses of the machine"),
    ),
    "experiment": Pipeline(
        lambda _: test_experiment.made_up(),
        lambda run, _: outcome.check(run),
        {
            "lost packets": put("document", "load", "backlog_drops", 3),
            "lost in delays": put("document", "columns", "delay_drops", -1, 3),
            "memory": put("document", "out_of_memory", MEMORY),
            "mtu": put("document", "columns", "arrived_packets", "a", -1, 10),
            "another cc": flows_of_experiment("westwood", 1),
            "not connected": flows_of_experiment("reno", 0),
            "rate": lambda run: scaled(run.document["columns"]["sent_bytes"], 0.9),
            "kernel": put("document", "kernel_errors", KERNEL),
            "changed": put("document", "changed", CHANGED),
        },
        never=NO_AGENTS,
    ),
    "backbone": Pipeline(
        lambda _: test_backbone.fake_run(),
        lambda run, _: Run(test_backbone.PLAN, "slbn", run).check(),
        {
            "lost packets": put("load", "backlog_drops", 3),
            "lost in delays": put("hidden", 3),
            "memory": put("out_of_memory", MEMORY),
            "mtu": put("arrived", "sea-nyc", "tcp", 1, 5),
            "another cc": put("heads", 0, "kind", "westwood"),
            "not connected": put("heads", 3, "sent", 0),
            "rate": slow_wires,
            "slbnd": put("agents", {"a-sea": "cannot pace"}),
            "kernel": put("kernel_errors", KERNEL),
            "changed": put("changed", CHANGED),
        },
    ),
    "sessions": Pipeline(
        lambda _: test_sessions.made_up_record(),
        lambda run, _: sessions.check(test_sessions.PLAN, run),
        {
            "lost packets": put("document", "load", "backlog_drops", 3),
            "lost in delays": put("document", "hidden", 3),
            "mtu": put("document", "wires", "a.b", "packets", -1, 1),
            "rate": put("document", "wires", "a.b", "held", [10**8] * 5),
            "slbnd": put("document", "agents", {"a": "cannot pace"}),
            "kernel": put("document", "kernel_errors", KERNEL),
            "changed": put("document", "changed", CHANGED),
        },
        never=NO_TCP,
    ),
    "sessions-tcp": Pipeline(
        tcp_run,
        check_tcp_run,
        {
            "lost packets": put("document", "load", "backlog_drops", 3),
            "lost in delays": put("document", "hidden", 3),
            "memory": put("document", "out_of_memory", MEMORY),
            "mtu": put("document", "arrived", "sea-nyc", "tcp", 1, 5),
            "another cc": put("heads", 3, "kind", "westwood"),
            "not connected": put("heads", 3, "sent", 0),
            "rate": lambda run: scaled(run.document["wires"]["sea.den"]["sent"], 0.9),
            "slbnd": put("document", "agents", {"a-sea": "cannot pace"}),
            "kernel": put("document", "kernel_errors", KERNEL),
            "changed": put("document", "changed", CHANGED),
        },
    ),
    "compare": Pipeline(
        compare_run,
        check_compare_run,
        {
            "lost packets": put("document", "load", "backlog_drops", 3),
            "lost in delays": put("document", "hidden", 3),
            "memory": put("document", "out_of_memory", MEMORY),
            "mtu": put("document", "arrived", "l-r", "tcp", 1, 10),
            "another cc": put("head", "flows", 0, "kind", "westwood"),
            "not connected": put("head", "flows", 0, "sent", 0),
            "rate": put("document", "wires", test_compare.wires(1_000_000)),
            "slbnd": put("document", "agents", {"a-l": "cannot pace"}),
            "kernel": put("document", "kernel_errors", KERNEL),
            "changed": put("document", "changed", CHANGED),
        },
    ),
    "slbnsim": Pipeline(
        answer,
        lambda run, _: simulated.check(run),
        {"lost packets": put("packets", "lost", 3)},
        # It has neither packets of TCP, nor netem, nor a kernel, nor agents.
        never=frozenset(WAYS) - {"lost packets", "rate"},
        lacking=("rates of links", "connections and their congestion control"),
    ),
}
#: The check of a way, if it has none of a pipeline's data.
UNCHECKED = {"rate": "rates of links"}


@pytest.mark.parametrize("name", PIPELINES)
def test_good_runs_are_trusted_and_what_is_not_checked_is_said(name: str, tmp_path: Path) -> None:
    one = PIPELINES[name]
    assert sorted(one.check(one.make(tmp_path), tmp_path)) == sorted(one.lacking)


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name, one in PIPELINES.items() for way in one.breaks],
)
def test_broken_runs_are_refused(name: str, way: str, tmp_path: Path) -> None:
    one = PIPELINES[name]
    run = one.make(tmp_path)
    one.breaks[way](run)
    with pytest.raises(CannotRunError, match=WAYS[way]) as caught:
        one.check(run, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", PIPELINES)
def test_each_way_is_tried_or_cannot_happen_or_is_said(name: str) -> None:
    one = PIPELINES[name]
    said = {way for way, check in UNCHECKED.items() if check in one.lacking}
    assert not one.never & one.breaks.keys()
    assert one.breaks.keys() | one.never | said == WAYS.keys()


def test_all_measured_kinds_have_a_pipeline() -> None:
    from fairlab.cli.measure import MEASURERS

    assert PIPELINES.keys() == {*MEASURERS, "slbnsim"}


def test_planned_losses_of_the_simulator_are_right() -> None:
    for changes in (
        {"loss_percent": 1.0},
        {"dead": [{"percent": 10.0}]},
        {"cut": "busiest"},
    ):
        run = answer(Path())
        run["packets"]["lost"] = 3
        run["configuration"] |= changes
        simulated.check(run)
    with pytest.raises(CannotRunError, match="interrupted"):
        simulated.check(answer(Path()) | {"interrupted": True})


def test_what_was_not_checked_reaches_the_user() -> None:
    assert trust.lines({}) == trust.lines({trust.NOT_CHECKED: None}) == []
    assert trust.lines({trust.NOT_CHECKED: "a, b"}) == ["not checked: a, b"]
    # Of several runs (gallery.merged).
    assert trust.lines({trust.NOT_CHECKED: ["a", "b"]}) == [
        "not checked: a",
        "not checked: b",
    ]
