# SPDX-License-Identifier: GPL-2.0
"""Rates, times and sizes with units.

The units are tc's, with two differences against typing errors: a number without a unit is refused,
where tc would take it for microseconds, and so are tc's `kbps` and `mbps`, which mean bytes there
and bits everywhere else.

All values are exact: text is parsed to a fraction, then to an integer in bit/s, µs or bytes.
"""

import re
from fractions import Fraction

from fairlab.model.errors import UsageError

RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIMES = {"us": 1, "ms": 10**3, "s": 10**6}
SIZES = {"b": 1, "kb": 2**10, "mb": 2**20}

_QUANTITY = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)


def split_quantity(text: str) -> tuple[Fraction, str]:
    """The number and the unit (lower case) of TEXT, such as (1/2, 'mbit')."""
    match = _QUANTITY.fullmatch(text.strip().lower())
    if not match:
        raise UsageError(f"'{text}' is not a number with a unit")
    return Fraction(match[1]), match[2]


def _parse(what: str, text: str, units: dict[str, int], example: str, bare: str = "") -> int:
    number, unit = split_quantity(text)
    unit = unit or bare
    if unit not in units:
        known = ", ".join(units)
        raise UsageError(f"{what} '{text}': needs a unit ({known}), such as {example}")
    return round(number * units[unit])


def parse_rate(text: str) -> int:
    """A rate in bit/s."""
    return _parse("rate", text.removesuffix("/s"), RATES, "50mbit")


def parse_time(text: str) -> int:
    """A time in microseconds."""
    return _parse("time", text, TIMES, "60ms")


def parse_seconds(text: str) -> int:
    """A time in microseconds, where a bare number is in seconds."""
    return _parse("time", text, TIMES, "30s", bare="s")


def parse_size(text: str) -> int:
    """A number of bytes."""
    return _parse("size", text, SIZES, "64kb")


def _format(value: int, units: dict[str, int]) -> str:
    """VALUE in the largest unit in which it is a whole number: parsing gives VALUE again."""
    # The units are sorted.
    fitting = [unit for unit, scale in units.items() if value % scale == 0]
    unit = fitting[-1 if value else 0]
    return f"{value // units[unit]}{unit}"


def format_rate(bits: int) -> str:
    """A rate in bit/s as parse_rate() reads it."""
    return _format(bits, RATES)


def format_time(microseconds: int) -> str:
    """A time in microseconds as parse_time() reads it."""
    return _format(microseconds, TIMES)


def format_size(size: int) -> str:
    """A number of bytes as parse_size() reads it."""
    return _format(size, SIZES)
