# SPDX-License-Identifier: GPL-2.0
"""The members of a link's state, from docs/netlink/slbn.yaml, by their names in JSON."""

from __future__ import annotations

import re
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.linux_source import TOP

SPEC: dict[str, Any] = yaml.safe_load((TOP / "docs/netlink/slbn.yaml").read_text())
#: Members that are no counters: they may decrease.
VALUES = ("capacity", "plan", "share", "quiet", "tag", "memory", "bypassed")


def json_name(attribute: str) -> str:
    """For example previous_NR for prev-nr, and NR for cur-nr."""
    ledger = re.fullmatch(r"(cur|prev)-(\w+)", attribute)
    if not ledger:
        return attribute.replace("-", "_")
    name = ledger[2] if ledger[2] == "tag" else ledger[2].upper()
    return f"previous_{name}" if ledger[1] == "prev" else name


def members() -> list[str]:
    (state,) = (each for each in SPEC["attribute-sets"] if each["name"] == "state")
    return [json_name(each["name"]) for each in state["attributes"] if each["type"] != "pad"]


def counters() -> set[str]:
    """Those that only grow."""
    ledgers = r"(previous_)?(N|NR|BF|A|tag)"
    return {
        name
        for name in members()
        if not name.startswith(VALUES) and not re.fullmatch(ledgers, name)
    }
