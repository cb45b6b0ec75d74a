# SPDX-License-Identifier: GPL-2.0
"""The cases of `fairlab test`: model/testbed.py reads them, after what it does not check.

It leaves names to the guest, and flows to experiment.py, which knows neither their lines nor their
names.  These checks are not there since the files of model/ are in the fingerprints of runs: a
change of one would repeat all published figures.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairlab.cli.options import KERNELS
from fairlab.model import scenario, testbed, units
from fairlab.model.errors import UsageError, require_known
from fairlab.model.experiment import MAX_STREAMS, UDP
from fairlab.model.testbed import Case, Place, Source
from fairlab.net import host

_PRESETS = re.compile(r'^\t\.available = "([^"]+)",$', re.MULTILINE)


def read(
    path: Path,
    seeds: Sequence[int] = (),
    kernel: str | None = None,
    cc: str | None = None,
    modules: Sequence[str] = (),
) -> list[Case]:
    """The cases of a file, as testbed.read()."""
    source = Source(path)
    if kernel:
        require_known("no kernel", kernel, KERNELS)
    else:
        check_kernels(source)
    for place, table in testbed.tables(source.data):
        if place[:1] not in (("flow",), ("program",)):
            continue
        if cc and place == ("flow", 0):
            table["cc"] = cc
        for one in combinations(table | {"time": source.data.get("time", "20 s")}):
            check(source, place, one)
            # A module of the user's may have others.
            if not modules and not source.data.get("modules"):
                check_presets(source, place, one)
    return testbed.read(path, seeds, kernel, cc, modules)


def check_kernels(source: Source) -> None:
    """Raise UsageError if the file names a kernel that cannot be built."""
    for one in combinations({"kernel": source.data.get("kernel", KERNELS[0])}):
        name = one["kernel"]
        try:
            if isinstance(name, str):
                require_known("no kernel", name, KERNELS)
        except UsageError as error:
            raise source.error(("kernel",), error, name) from None


def combinations(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A table for each combination of the values that are lists."""
    lists = [value if isinstance(value, list) else [value] for value in table.values()]
    for values in itertools.product(*lists):
        yield dict(zip(table, values, strict=True))


def check(source: Source, place: Place, table: dict[str, Any]) -> None:
    """Raise UsageError if a flow or program makes no sense; testbed.read() refuses other types."""
    label = name_of(table)

    def error(reason: str, *keys: str) -> UsageError:
        """With the line of the first of KEYS that the table has."""
        key = next((key for key in keys if key in table), "")
        return source.error((*place, key), f"{label}: {reason}")

    def value(key: str, default: Any, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(table[key])
        except (KeyError, TypeError, AttributeError, UsageError):
            return default

    if value("rtt", 0, units.parse_time) > scenario.MAX_RTT:
        raise error("rtt: must be at most 10 s", "rtt")
    if place[0] != "flow":
        return
    count = table.get("count", 1)
    if type(count) is int and not 1 <= count <= MAX_STREAMS:
        raise error(f"count {count}: must be 1 to {MAX_STREAMS}", "count")
    if table.get("cc") == UDP and not value("rate", 0, units.parse_rate):
        raise error("udp needs a rate", "rate", "cc")
    time = value("time", 0.0, testbed.seconds)
    last = min(value("stop", time, testbed.seconds) or time, time)
    start = value("start", 0.0, testbed.seconds) + value("spread", 0.1, testbed.seconds)
    if start >= last > 0:
        raise error(
            f"starts by {start:g} s: must start before it stops, at {last:g} s",
            *("start", "spread", "stop"),
        )


def name_of(table: dict[str, Any]) -> str:
    """What the user calls a flow or program in an error."""
    for key in ("name", "cc", "client"):
        if isinstance(table.get(key), str):
            return f"{key} '{table[key]}'"
    return "cc 'cubic'"


def check_presets(source: Source, place: Place, table: dict[str, Any]) -> None:
    """Raise UsageError if a setting is a preset that our module does not have."""
    settings, top = table.get("settings"), host.tree()
    for name, value in settings.items() if isinstance(settings, dict) else ():
        module = f"tcp_{name.removesuffix('_preset')}"
        code = top / module / f"{module}.c" if top and name.endswith("_preset") else None
        if not code or not code.is_file():
            continue
        known = _PRESETS.search(code.read_text())
        # A preset may be followed by a number, which the module checks.
        if known and str(value).split(" ")[0] not in known[1].split():
            raise source.error(
                (*place, "settings"),
                f"{name_of(table)}: no {name} '{value}'; there are: {known[1].replace(' ', ', ')}",
                str(value),
            )
