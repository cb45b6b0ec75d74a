# SPDX-License-Identifier: GPL-2.0
"""The gate that every run passes: each kind of evidence against it refuses it, with the reason.

test_gate.py breaks the raw data of each pipeline; guest_breaks.py breaks real runs.
"""

from dataclasses import replace
from typing import Any

import pytest
from fairlab.model.errors import CannotRunError
from fairlab.results import trust
from fairlab.results.trust import Evidence, Frames, LinkRate, Ran

TIMES = [0.1 * n for n in range(101)]
#: 10 Mbit/s; 100 ms of it wait.
LINK = LinkRate(TIMES, [125_000 * n for n in range(101)], [126_000] * 101, 10**7, 3000)
LOAD = {"idle": 20.0, "total": 40.0, "stolen": 0.1}
GOOD = Evidence(
    between=0,
    delays=0,
    memory={"TCPOFODrop": 0},
    frames={"a": Frames(3028, 2, 1514), "b": Frames(0, 0, 1514)},
    load=LOAD,
    samples=TIMES,
    agents={"a-sea": ""},
    kernel=[],
    flows={"flow 1": Ran("bic", "bic", True)},
    rates={"l.r": LINK},
    changed=[],
)
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "between": ({"between": 2}, "2 packets were lost between namespaces"),
    "delays": ({"delays": 3}, "3 packets were lost in the delays"),
    "memory": ({"memory": {"RcvPruned": 0, "TCPOFODrop": 4}}, "memory, .* packets: TCPOFODrop 4$"),
    "frames": ({"frames": {"a": Frames(3029, 2, 1514)}}, "a sent packets of 151[45] bytes"),
    "idle": ({"load": LOAD | {"idle": 1.0}}, "idle for only 2.5 % of the run"),
    "stolen": ({"load": LOAD | {"stolen": 4.0}}, "took 10 % of this machine's CPU away"),
    "samples": ({"samples": [0.0, 0.1, 1.7]}, "stood still for 1.6 s"),
    "agents": ({"agents": {"a": "", "b": "no"}}, "slbnd at b: no"),
    "kernel": ({"kernel": ["BUG: one", "BUG: two"]}, "the kernel reported: BUG: one$"),
    "another cc": ({"flows": {"f": Ran("bic", "reno", True)}}, "f ran with reno instead of bic"),
    "not connected": ({"flows": {"f": Ran("bic", "bic", False)}}, "f did not connect"),
    "changed": (
        {"changed": ["l.r: MTU", "l.r: tbf 1:"]},
        "the network was changed during the run: l.r: MTU$",
    ),
    "slow link": (
        {"rates": {"l.r": replace(LINK, sent=[120_000 * n for n in range(101)])}},
        "l.r sent 9.6 Mbit/s while packets waited, instead of 10mbit",
    ),
    "fast link": (
        {"rates": {"l.r": replace(LINK, sent=[140_000 * n for n in range(101)])}},
        "l.r sent 11.2 Mbit/s for a moment: more than its 10mbit",
    ),
}


@pytest.mark.parametrize("virtual", [True, False])
def test_good_run_passes_all_checks(virtual: bool) -> None:
    assert trust.check(GOOD, virtual) == []


@pytest.mark.parametrize("name", BAD)
def test_evidence_against_a_run_refuses_it(name: str) -> None:
    changes, reason = BAD[name]
    with pytest.raises(CannotRunError, match=reason):
        trust.check(GOOD | changes, virtual=False)
    with pytest.raises(CannotRunError, match=f"^slbn: .*{reason}"):
        trust.check(GOOD | changes, virtual=False, context="slbn")


def test_every_kind_of_evidence_is_tried() -> None:
    assert trust.CHECKS.keys() == GOOD.keys()
    assert trust.CHECKS.keys() == {name for changes, _ in BAD.values() for name in changes}
    with pytest.raises(AssertionError):
        trust.check(GOOD | {"betwen": 1}, virtual=True)


def test_missing_evidence_is_said() -> None:
    assert trust.check(GOOD | {"memory": None, "frames": None}, virtual=True) == [
        "TCP's memory",
        "sizes of packets",
    ]
    assert trust.check(Evidence(), virtual=False) == [name for name, _ in trust.CHECKS.values()]
    assert trust.check(GOOD | {"load": None, "samples": None}, virtual=True) == []
    assert trust.condition(["a", "b"]) == {"not checked": "a, b"} and trust.condition([]) == {}


def test_causes_come_before_effects() -> None:
    every: dict[str, Any] = {}
    for changes, _ in BAD.values():
        every |= changes
    with pytest.raises(CannotRunError, match="between namespaces"):
        trust.check(GOOD | every, virtual=False)
    with pytest.raises(CannotRunError, match="stood still"):
        trust.check(GOOD | {"samples": [0.0, 2.0]} | BAD["slow link"][0], virtual=False)


def test_rates_that_cannot_be_seen_are_not_judged() -> None:
    """Queues that may have been empty, links whose rate changes, samples that may be late."""
    slow = replace(LINK, sent=[120_000 * n for n in range(101)])
    assert trust.busy_rate(replace(slow, waiting=[124_000] * 101)) is None
    assert trust.busy_rate(replace(slow, waiting=[124_000] * 101, surely=120_000)) == pytest.approx(
        9.6e6
    )
    few = replace(slow, times=TIMES[:4], sent=slow.sent[:4], waiting=slow.waiting[:4])
    assert trust.busy_rate(few) is None
    fast = replace(LINK, sent=[140_000 * n for n in range(101)], waiting=[0] * 101)
    for link in (replace(slow, steady=False), replace(fast, exact=False)):
        assert trust.check(GOOD | {"rates": {"l.r": link}}, virtual=True) == []
