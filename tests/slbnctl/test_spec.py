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


def described(attribute: str) -> str:
    """The kernel-doc description of an attribute."""
    name = attribute.upper().replace("-", "_")
    found = re.search(rf"@SLBN_A_{name}: (.*?)\n \* *(?:@|/)", HEADER, re.DOTALL)
    assert found, attribute
    return re.sub(r"\s*\n \*\s*", " ", found[1])


def attribute_set() -> list[dict[str, Any]]:
    (only,) = SPEC["attribute-sets"]
    assert (only["name-prefix"], only["enum-name"]) == ("slbn-a-", "slbn-link-attribute")
    attributes: list[dict[str, Any]] = only["attributes"]
    return attributes


def test_the_family() -> None:
    strings = dict(re.findall(r'^#define SLBN_GENL_(\w+) "?(\w+)"?$', HEADER, re.MULTILINE))
    assert SPEC["name"] == strings["NAME"]
    assert SPEC["version"] == int(strings["VERSION"])
    assert [group["name"] for group in SPEC["mcast-groups"]["list"]] == [strings["GROUP_SHARE"]]
    assert (TOP / "include/uapi" / SPEC["uapi-header"]).exists()


def test_attributes_and_their_numbers() -> None:
    assert ["unspec", *(a["name"] for a in attribute_set())] == enum(
        "slbn_link_attribute", "SLBN_A_"
    )
    # Numbers follow from the order, from 1 on.
    assert not any("value" in attribute for attribute in attribute_set())


@pytest.mark.parametrize("attribute", attribute_set()[1:], ids=lambda a: str(a["name"]))
def test_types(attribute: dict[str, Any]) -> None:
    first = described(attribute["name"]).partition(",")[0]
    if first == "struct slbn_link_state":
        assert (attribute["type"], attribute["struct"]) == ("binary", "link-state")
    elif first == "SLBN_KEY_LENGTH octets":
        assert attribute["type"] == "binary"
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
    for attribute in attribute_set():
        names = {f"{attribute['name']}-max", f"link-{attribute['name']}-max"} & named.keys()
        for name in names:
            assert attribute["checks"]["max"] == named[name]


def test_the_state() -> None:
    (state,) = (entry for entry in SPEC["definitions"] if entry["type"] == "struct")
    assert state["name"] == "link-state"
    listed = [(member["name"], member["type"]) for member in state["members"]]
    assert listed == members("slbn_link_state")
    assert len(listed) > 30


def test_commands() -> None:
    operations = SPEC["operations"]
    assert (operations["name-prefix"], operations["enum-name"]) == ("slbn-c-", "slbn-command")
    listed = operations["list"]
    assert ["unspec", *(op["name"] for op in listed)] == enum("slbn_command", "SLBN_C_")
    by_name = {op["name"]: op for op in listed}
    assert not any("value" in op for op in listed)
    (event,) = (op for op in listed if "event" in op)
    assert event["mcgrp"] == SPEC["mcast-groups"]["list"][0]["name"]
    assert [name for name, op in by_name.items() if op.get("flags") == ["uns-admin-perm"]] == [
        "link-set",
        "link-reset",
        "key-add",
        "key-retire",
    ]
    names = {attribute["name"] for attribute in attribute_set()}
    for op in listed:
        assert op["attribute-set"] == "link"
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
    assert used == {attribute["name"] for attribute in attribute_set()} - {"pad"}
