# SPDX-License-Identifier: GPL-2.0
"""docs/netlink/slbn.yaml matches include/uapi/fairpath/slbn_netlink.h.

The tests parse the header, and compare constants, attributes, commands and members of the structure
with the YAML specification: numbers, types and order.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.linux_source import TOP

HEADER = (TOP / "include/uapi/fairpath/slbn_netlink.h").read_text()
SPEC: dict[str, Any] = yaml.safe_load((TOP / "docs/netlink/slbn.yaml").read_text())


def code() -> str:
    return re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)


def enum(name: str, prefix: str) -> list[str]:
    """Names of an enum's values, from 0, in the style of the specification."""
    found = re.search(rf"enum {name} {{(.*?)}}", code(), re.DOTALL)
    assert found
    values = re.findall(r"\w+", found[1])
    assert "=" not in found[1], "a value with an explicit number"
    return [
        value.removeprefix(prefix).lower().replace("_", "-")
        for value in values
        if not value.startswith("__")
    ]


def members(name: str) -> list[tuple[str, str]]:
    """(name, type) of all members; members of nested structures are prefixed with its name."""
    found = re.search(rf"struct {name} {{(.*?)}};", code(), re.DOTALL)
    assert found
    listed: list[tuple[str, str]] = []
    for kind, member in re.findall(r"(\S[^;]*?)\s+(\w+);", found[1]):
        called = member.lower().replace("_", "-")
        if kind.startswith("struct "):
            inside = members(kind.removeprefix("struct "))
            listed += [(f"{called}-{inner}", of) for inner, of in inside]
        else:
            listed.append((called, kind.removeprefix("__")))
    return listed


def constants() -> dict[str, int]:
    """Numeric constants of the header, without SLBN_."""
    found = re.findall(r"^#define SLBN_(\w+) (\d+)(?:ULL)?$", HEADER, re.MULTILINE)
    return {name: int(value) for name, value in found}


#: The enum of each attribute set and its prefixes, in the header and the specification.
SETS = {
    "options": ("slbn_option_attribute", "TCA_SLBN_", "tca-slbn-"),
    "state": ("slbn_state_attribute", "SLBN_A_STATE_", "slbn-a-state-"),
    "link": ("slbn_link_attribute", "SLBN_A_", "slbn-a-"),
}


def described(prefix: str, attribute: str) -> str:
    """The kernel-doc description of an attribute."""
    name = prefix + attribute.upper().replace("-", "_")
    found = re.search(rf"@{name}: (.*?)\n \* *(?:@|/)", HEADER, re.DOTALL)
    assert found, attribute
    return re.sub(r"\s*\n \*\s*", " ", found[1])


def attribute_set(name: str) -> list[dict[str, Any]]:
    (only,) = (each for each in SPEC["attribute-sets"] if each["name"] == name)
    enum_name, _, prefix = SETS[name]
    assert (only["name-prefix"], only["enum-name"]) == (prefix, enum_name.replace("_", "-"))
    attributes: list[dict[str, Any]] = only["attributes"]
    return attributes


def test_the_family() -> None:
    strings = dict(re.findall(r'^#define SLBN_GENL_(\w+) "?(\w+)"?$', HEADER, re.MULTILINE))
    assert (SPEC["name"], SPEC["protocol"]) == (strings["NAME"], "genetlink")
    groups = [group["name"] for group in SPEC["mcast-groups"]["list"]]
    assert groups == [strings["GROUP_SHARE"], strings["GROUP_LINK"]]
    assert (TOP / "include/uapi" / SPEC["uapi-header"]).exists()


@pytest.mark.parametrize("name", SETS)
def test_attributes_and_their_numbers(name: str) -> None:
    listed = ["unspec", *(a["name"] for a in attribute_set(name))]
    assert listed == enum(*SETS[name][:2])
    # Numbers follow from the order, from 1 on.
    assert not any("value" in attribute for attribute in attribute_set(name))


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(name, each) for name in ("options", "link") for each in attribute_set(name)],
    ids=lambda given: str(given if isinstance(given, str) else given["name"]),
)
def test_types(name: str, attribute: dict[str, Any]) -> None:
    first = described(SETS[name][1], attribute["name"]).partition(",")[0]
    if attribute["name"] == "pad":
        assert attribute["type"] == "pad"
    elif first == "nest":
        assert attribute["nested-attributes"] == attribute["name"]
    elif attribute["name"] == "key":
        assert (first, attribute["type"]) == ("binary", "binary")
        assert attribute["checks"] == {"max-len": "key-length"}
    else:
        assert attribute["type"] == first


def test_limits() -> None:
    known = constants()
    named = {
        entry["name"]: entry["value"] for entry in SPEC["definitions"] if entry["type"] == "const"
    }
    for name, value in named.items():
        assert known[name.upper().replace("-", "_")] == value
    limits = {name for name in known if name.endswith(("_MIN", "_MAX", "_LENGTH"))}
    assert {name.upper().replace("-", "_") for name in named} == limits
    for attribute in attribute_set("options"):
        names = {f"{attribute['name']}-max", f"link-{attribute['name']}-max"} & named.keys()
        for name in names:
            assert attribute["checks"]["max"] == named[name]


def test_the_state() -> None:
    """Attributes are the fields of the structure, in its order."""
    listed = attribute_set("state")[1:]
    assert [(each["name"], each["type"]) for each in listed] == members("slbn_link_state")
    assert len(listed) > 30


def test_commands() -> None:
    operations = SPEC["operations"]
    assert (operations["name-prefix"], operations["enum-name"]) == ("slbn-c-", "slbn-command")
    listed = operations["list"]
    assert ["unspec", *(op["name"] for op in listed)] == enum("slbn_command", "SLBN_C_")
    by_name = {op["name"]: op for op in listed}
    assert not any("value" in op for op in listed)
    events = {name: op["mcgrp"] for name, op in by_name.items() if "mcgrp" in op}
    assert events == {
        "share-event": "share",
        "link-add-ntf": "link",
        "link-change-ntf": "link",
        "link-del-ntf": "link",
    }
    names = {attribute["name"] for attribute in attribute_set("link")}
    for op in listed:
        assert op.get("notify", "link-get") == "link-get"
        assert "notify" in op or op["attribute-set"] == "link"
        for message in (
            op.get("event", {}),
            *(op.get(way, {}).get(side, {}) for way in ("do", "dump") for side in SIDES),
        ):
            assert set(message.get("attributes", [])) <= names


SIDES = ("request", "reply")


def test_every_attribute_is_used() -> None:
    used = {
        name
        for op in SPEC["operations"]["list"]
        for message in (op.get("event", {}), *(op.get("do", {}).get(side, {}) for side in SIDES))
        for name in message.get("attributes", [])
    }
    assert used == {attribute["name"] for attribute in attribute_set("link")}
