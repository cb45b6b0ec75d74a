# SPDX-License-Identifier: GPL-2.0
"""The JSON schema of slbnctl."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from tests.linux_source import TOP

SCHEMA = TOP / "docs" / "schema" / "slbnctl.json"


def _closed(value: Any) -> Any:
    """VALUE without members that the schema does not have."""
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    closed = {name: _closed(each) for name, each in value.items()}
    if value.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


@functools.cache
def _validator(name: str) -> Any:
    """Checks the definition NAME.  The schema is checked once: that takes half a second."""
    schema = _closed(json.loads(SCHEMA.read_text()))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind({**schema, "$ref": f"#/$defs/{name}"})


def validate(name: str, value: Any) -> None:
    """VALUE is what the definition NAME describes, and all its members are described."""
    _validator(name).validate(value)
