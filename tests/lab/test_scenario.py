# SPDX-License-Identifier: GPL-2.0
"""Scenarios: flow lists, buffers, limits, and conversion to JSON and back."""

import json
import re
from typing import Any

import pytest
from fairlab.model.background import Background
from fairlab.model.errors import UsageError
from fairlab.model.qdisc import BUFFER_TEXTS, Buffer, parse_buffer, parse_qdisc
from fairlab.model.scenario import (
    Flow,
    Scenario,
    default_warmup,
    flow_labels,
    parse_flows,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import scenario

FLOWS = st.builds(
    Flow,
    cc=st.from_regex(r"[a-z][a-z0-9_]{0,14}", fullmatch=True),
    preset=st.one_of(
        st.just(""),
        st.from_regex(r"[A-Za-z0-9_.-]{1,10}( [0-9]{1,4})?", fullmatch=True),
    ),
)


@given(st.lists(FLOWS, min_size=1, max_size=100))
def test_flow_lists_parse_back(flows: list[Flow]) -> None:
    assert parse_flows(",".join(map(str, flows))) == tuple(flows)


@given(st.lists(st.tuples(st.integers(1, 9), FLOWS), min_size=1, max_size=9))
def test_multiplied_flows(counted: list[tuple[int, Flow]]) -> None:
    text = ",".join(f"{count}*{flow}" for count, flow in counted)
    assert parse_flows(text) == tuple(flow for count, flow in counted for _ in range(count))


@given(st.lists(FLOWS, min_size=1, max_size=20))
def test_labels_are_unique(flows: list[Flow]) -> None:
    labels = flow_labels(tuple(flows))
    assert len(set(labels)) == len(flows)
    assert all(label.startswith(str(flow)) for label, flow in zip(labels, flows, strict=True))


def test_labels() -> None:
    flows = parse_flows("2*bic,reno,bic:linux")
    assert flow_labels(flows) == ["bic #1", "bic #2", "reno", "bic:linux"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "bic,",
        "BIC",
        "bic;reno",
        "0*bic",
        "bic:",
        "bic:a'b",
        "$(id)",
        "-bic",
        "101*bic",
    ],
)
def test_invalid_flow_lists_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_flows(text)


def test_parse_buffer() -> None:
    assert parse_buffer("1bdp", 50_000_000, 60_000).size == 375_000
    assert parse_buffer("0.5BDP", 50_000_000, 60_000).size == 187_500
    assert parse_buffer("100p", 50_000_000, 60_000) == Buffer("100p", packets=100)
    assert parse_buffer("64kb", 50_000_000, 60_000).size == 65_536
    assert parse_buffer("100p", 1, 1).bytes_at_most(1514) == 151_400
    for text in ("", "1", "bdp", "1.5p", "-1bdp", "1bdpp", "64kbit"):
        with pytest.raises(
            UsageError, match=re.escape(f"buffer '{text}': must be like {BUFFER_TEXTS}")
        ):
            parse_buffer(text, 50_000_000, 60_000)


@given(st.integers(1, 10**6), st.integers(1_000_000, 10**9), st.integers(0, 10**6))
def test_buffer_in_bdp_is_rate_times_rtt(thousandths: int, rate: int, rtt: int) -> None:
    buffer = parse_buffer(f"{thousandths / 1000:.3f}bdp", rate, rtt)
    assert abs(buffer.size - thousandths * rate * rtt / 8e9) <= 0.5 + 1e-6 * buffer.size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology": "ring"}, "no topology 'ring'; there are: dumbbell"),
        ({"rate": 999_999}, "rate 999999bit"),
        ({"rate": 10**11 + 1}, "must be 1mbit to 100gbit"),
        ({"rtt": 10_000_001}, "rtt"),
        ({"seconds": 1}, "time 1 s"),
        ({"mtu": 575}, "mtu 575: must be 576 to 9000"),
        ({"mtu": 9001}, "mtu 9001"),
        ({"buffer": Buffer("1p", size=1513)}, "must hold a packet of 1514 bytes"),
        ({"buffer": Buffer("x", size=2**30 + 1)}, "at most 1 GB"),
        ({"netem_limit": -1}, "netem limit -1"),
        ({"warmup_seconds": 29.0}, "must leave more than a second"),
        ({"warmup_seconds": -1.0}, "warm-up"),
        ({"start_gap": 8_000_000}, "the last flow starts after 8 s"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed 18446744073709551616: must be 0 to 2^64 - 1"),
        (
            {"qdiscs": (parse_qdisc("drr_fq"), parse_qdisc("sfq"))},
            "more than one qdisc for the link 'bottleneck'",
        ),
        ({"background": Background(1.0)}, "background 1: must be above 0 and at most 0.95"),
    ],
)
def test_out_of_range_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        scenario(**changes)
    assert message in str(caught.value)


@given(
    flows=st.lists(FLOWS, min_size=1, max_size=5),
    rate=st.integers(10**6, 10**9),
    seconds=st.integers(10, 1000),
    ecn=st.booleans(),
    beside=st.one_of(
        st.none(),
        st.builds(
            Background,
            fraction=st.floats(0.01, 0.95),
            kind=st.sampled_from(["flows", "packets"]),
            sizes=st.sampled_from(["exp", "pareto:1.5"]),
        ),
    ),
)
def test_json_gives_the_same_scenario(
    flows: list[Flow], rate: int, seconds: int, ecn: bool, beside: Background | None
) -> None:
    before = scenario(
        flows=tuple(flows),
        rate=rate,
        seconds=seconds,
        ecn=ecn,
        qdiscs=(parse_qdisc("drr_fq,limit=9,split-gso"), parse_qdisc("senders:fq")),
        background=beside,
    )
    assert Scenario.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_starts_follow_the_seed_and_the_gap() -> None:
    five = parse_flows("5*reno")
    one = scenario(flows=five, start_gap=1_000_000)
    assert one.starts() == scenario(flows=five, start_gap=1_000_000).starts()
    assert one.starts() != scenario(flows=five, start_gap=1_000_000, seed=2).starts()
    for n, start in enumerate(one.starts()):
        assert n <= start < n + 0.1


def test_default_warmup_counts_from_the_last_start() -> None:
    assert default_warmup(30, 5, 0) == 7.5
    assert default_warmup(100, 1, 0) == 10
    assert default_warmup(100, 3, 2_000_000) == 14
