# SPDX-License-Identifier: GPL-2.0
"""Descriptions as plain data: dataclasses to JSON, and back by the types of their fields."""

import dataclasses
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints


class Plain:
    """A dataclass of numbers, texts, other dataclasses, and tuples of these."""

    def to_json(self) -> dict[str, Any]:
        """All fields, as JSON."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """What to_json() was made of; fields that are missing have their defaults."""
        made: Self = _made(cls, data)
        return made


def _made(kind: Any, value: Any) -> Any:
    """VALUE, which is JSON, as a KIND."""
    arguments = get_args(kind)
    if get_origin(kind) is UnionType and value is not None:
        (one,) = (each for each in arguments if each is not NoneType)
        return _made(one, value)
    if get_origin(kind) is tuple:
        if arguments[1:] == (...,):
            return tuple(_made(arguments[0], each) for each in value)
        return tuple(_made(each, part) for each, part in zip(arguments, value, strict=True))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: _made(kinds.get(name), part) for name, part in value.items()})
    return value
