# SPDX-License-Identifier: GPL-2.0
"""Each counter of a link is everywhere: docs/netlink/slbn.yaml is the list.

test_spec.py compares the list with the kernel's header, which the kernel and its clients are
compiled with.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest

from tests.kernel.lib.slbn_wire import State
from tests.linux_source import TOP
from tests.slbnctl.counters import counters, members


def test_list_is_complete() -> None:
    assert len(members()) == len(set(members())) > 40
    assert {"joins", "icmp_dropped", "events"} < counters() < set(members())


def test_programs_print_all() -> None:
    """The table that tc, slbnctl and the metrics print."""
    source = (TOP / "userspace/common/link_options.c").read_text()
    table = re.findall(r"^\tCOUNTER\((\w+),", source, re.MULTILINE)
    assert len(set(table)) == len(table)
    assert counters() <= set(table)
    others = re.findall(r'(?:out, |number\()"(\w+)"', source)
    assert set(members()) <= set(table) | set(others)


def test_metrics_have_all() -> None:
    """Counters in a group are metrics by that; others have a family of their own."""
    source = (TOP / "userspace/common/link_options.c").read_text()
    others = re.findall(r"^\tCOUNTER\((\w+), .*LINK_OTHER\)", source, re.MULTILINE)
    families = (TOP / "userspace/slbnctl/metrics_link.c").read_text()
    assert others
    for name in set(others) & counters():
        assert re.search(rf"\b{name}\)", families), name


@pytest.mark.parametrize("name", ["link", "link_event"])
def test_schema_has_all(name: str) -> None:
    schema = json.loads((TOP / "docs/schema/slbnctl.json").read_text())["$defs"][name]
    assert set(members()) <= set(schema["properties"])
    assert set(members()) <= set(schema["required"])


def test_manual_page_has_all() -> None:
    page = (TOP / "docs/man/tc-slbn.8").read_text()
    headings = re.findall(r"^\.B (.*)", page, re.MULTILINE)
    named = {word for line in headings for word in re.findall(r"\w+", re.sub(r"\\f.", "", line))}
    assert {"new" if name == "new_sessions" else name for name in counters()} <= named


def test_examples_have_all() -> None:
    for page in ("tc-slbn.8", "slbnctl.8"):
        text = (TOP / "docs/man" / page).read_text()
        for name in counters():
            shown = "new" if name == "new_sessions" else name
            assert re.search(rf"\b{shown} \d", text), f"{page}: {name}"


def test_tests_read_all() -> None:
    assert [each.name for each in fields(State)] == members()
