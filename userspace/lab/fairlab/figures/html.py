# SPDX-License-Identifier: GPL-2.0
"""The pages of reports, made from the templates report.html, with report.css, and report.markdown.

The former is self-contained: no other file, no network, no script; each figure is embedded as SVG
or PNG, whichever is smaller.  The latter has no figures.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2

TEMPLATE = "report.html"
# Characters that would end a table cell or start markup, in Markdown.
ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "*": "\\*", "_": "\\_", "\n": " "})
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def page(title: str, comparisons: list[Any], report: dict[str, Any] | None = None) -> str:
    """The page of COMPARISONS (comparisons.shown()), after the figures of a REPORT (webpage.py)."""
    return filled(TEMPLATE, title=title, comparisons=comparisons, report=report)


def filled(template: str, **values: Any) -> str:
    """A template with VALUES."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"image": image, "flat": flat}
    environment.filters |= {"plain": plain, "cells": cells}
    return environment.get_template(template).render(values).strip() + "\n"


def plain(text: Any) -> str:
    """TEXT in a table of Markdown."""
    return str(text).translate(ESCAPED)


def cells(claim: dict[str, Any]) -> tuple[str, ...]:
    """A claim as a row of such a table."""
    accepted = f"{claim['accepted']}: {claim['tolerance']}"
    accepted += " (our reading of the unit)" if claim["reading"] else ""
    accepted += f"; assumes: {claim['assumes']}" if claim.get("assumes") else ""
    names = ("text", "published", "class", "here")
    return (*(str(claim[name]) for name in names), accepted, claim["verdict"], claim["registered"])


def image(path: Path) -> str:
    """The figure PATH.svg or PATH.png as a data URL, in the smaller format."""
    forms = {ending: Path(f"{path}{ending}").read_bytes() for ending in TYPES}
    ending = min(forms, key=lambda ending: len(forms[ending]))
    return f"data:{TYPES[ending]};base64,{base64.b64encode(forms[ending]).decode()}"


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested conditions as pairs of name and value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    elif value not in (None, ""):
        yield name, str(value)
