# SPDX-License-Identifier: GPL-2.0
"""Parts of the report's pages."""

import base64
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from fairlab.figures.webpage_style import CSS

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def escaped(text: Any) -> str:
    return escape(str(text))


def head(title: str) -> Iterator[str]:
    """The start of a page, up to its body."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>fairpath: {escaped(title.lower())}</title>"
    yield f"<style>{CSS}</style>\n</head>"


def image(path: Path) -> str:
    """The figure PATH.svg or PATH.png as a data URL, in the smaller format."""
    forms = {ending: Path(f"{path}{ending}").read_bytes() for ending in TYPES}
    ending = min(forms, key=lambda ending: len(forms[ending]))
    return f"data:{TYPES[ending]};base64,{base64.b64encode(forms[ending]).decode()}"


def numbers(table: Mapping[str, Any]) -> Iterator[str]:
    """A table of numbers: its columns and rows."""
    # Focusable, so that it can be scrolled with the keyboard.
    yield '<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in table["columns"])
    yield "</tr></thead><tbody>"
    for row in table["rows"]:
        yield "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def conditions(document: Mapping[str, Any]) -> Iterator[str]:
    """The conditions of a figure's runs, folded."""
    seeds = ", ".join(map(str, document["seeds"]))
    text = f"{document['runs']} runs, seed{'s' if len(document['seeds']) > 1 else ''} {seeds}"
    yield f"<details><summary>Conditions: {escaped(text)}</summary>"
    yield '<ul class="conditions">'
    for name, value in flat(document["conditions"]):
        yield f"<li>{escaped(name)}: {escaped(value)}</li>"
    yield "</ul></details>"


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested conditions as pairs of name and value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    elif value not in (None, ""):
        yield name, str(value)
