# SPDX-License-Identifier: GPL-2.0
"""Quantities: formatted values parse to the same value; ambiguous ones are refused."""

import pytest
from fairlab.model import units
from fairlab.model.errors import UsageError
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 10**12))
def test_formatted_values_parse_back(value: int) -> None:
    assert units.parse_rate(units.format_rate(value)) == value
    assert units.parse_time(units.format_time(value)) == value
    assert units.parse_size(units.format_size(value)) == value


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("50mbit", 50_000_000),
        ("50Mbit/s", 50_000_000),
        (" 0.31 gbit ", 310_000_000),
        ("1000000.000001kbit", 1_000_000_000),
        ("7bit", 7),
    ],
)
def test_parse_rate(text: str, bits: int) -> None:
    assert units.parse_rate(text) == bits


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("60ms", 60_000), ("0.5s", 500_000), ("100us", 100), ("1.5ms", 1500)],
)
def test_parse_time(text: str, microseconds: int) -> None:
    assert units.parse_time(text) == microseconds


def test_only_parse_seconds_accepts_a_number_without_unit() -> None:
    assert units.parse_seconds("30") == units.parse_seconds("30s") == 30_000_000
    with pytest.raises(UsageError, match=r"time '60': needs a unit \(us, ms, s\), such as 60ms"):
        units.parse_time("60")


@pytest.mark.parametrize(
    "text", ["50", "50mbps", "mbit", "", "-5mbit", "5e6bit", "١mbit", "5 m bit"]
)
def test_invalid_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        units.parse_rate(text)


@given(st.text(max_size=12))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (
        units.parse_rate,
        units.parse_time,
        units.parse_seconds,
        units.parse_size,
    ):
        try:
            value = parse(text)
        except UsageError:
            continue
        assert value >= 0


def test_sizes_are_in_units_of_1024() -> None:
    assert units.parse_size("64kb") == 65536
    assert units.parse_size("1.5mb") == 1_572_864
