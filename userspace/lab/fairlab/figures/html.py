# SPDX-License-Identifier: GPL-2.0
"""The page of reports: fills the template report.html, whose style is report.css.

The page is self-contained: no other file, no network, no script; each figure is embedded as SVG or
PNG, whichever is smaller.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2

TEMPLATE = "report.html"
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def page(title: str, comparisons: list[Any], report: dict[str, Any] | None = None) -> str:
    """The page of COMPARISONS (comparisons.shown()), after the figures of a REPORT (webpage.py)."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"image": image, "flat": flat}
    template = environment.get_template(TEMPLATE)
    return template.render(title=title, comparisons=comparisons, report=report).lstrip()


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
