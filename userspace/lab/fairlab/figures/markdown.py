# SPDX-License-Identifier: GPL-2.0
"""The report in words alone, as Markdown: what was claimed, what came out, what holds.

OUT/report.md is for who reads the tree in a browser or a terminal, where a page of HTML is only
its source.  Figures are not in it; it names their files.  As the page, it has no date.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

# What would end a cell of a table, or be taken for markup.
ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "*": "\\*", "_": "\\_", "\n": " "})


def plain(text: Any) -> str:
    return str(text).translate(ESCAPED)


def row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    yield row(head)
    yield "|" + " --- |" * len(head)
    yield from map(row, rows)
    yield ""


def markdown(
    title: str, families: Mapping[str, Sequence[Any]], summary: Mapping[str, Any], quick: bool
) -> str:
    """FAMILIES are webpage's entries by the names of their families."""
    lines = [f"# {title}", ""]
    if quick:
        lines += ["This is the quick set: a part of the cases, for a shorter time, one seed.", ""]
    lines += [
        f"{summary['hold']} of {summary['claims']} claims hold; {summary['drawn']} of"
        f" {summary['figures']} figures are drawn. `report.html`, beside this, has them.",
        "",
    ]
    counts = summary["families"].items()
    lines += table(
        ("family", "figures", "hold", "do not"),
        ((name, own["drawn"], own["hold"], own["claims"] - own["hold"]) for name, own in counts),
    )
    for name, entries in families.items():
        lines += [f"## {name}", ""]
        for entry in entries:
            lines += _section(entry)
    return "\n".join(lines)


def _section(entry: Any) -> Iterator[str]:
    yield f"### {entry.study.name}: {plain(entry.study.title)}"
    yield ""
    yield plain(entry.study.source)
    yield ""
    if entry.document is None:
        yield f"Not drawn: {plain(entry.why_not)}."
        yield ""
        return
    head = ("claim", "published", "here", "tolerance", "")
    names = ("text", "published", "ours", "tolerance")
    yield from table(
        head,
        (
            (*(claim[name] for name in names), "holds" if claim["holds"] else "does NOT")
            for claim in entry.claims
        ),
    )
    for claim in entry.claims:
        if not claim["holds"] and claim["reason"]:
            yield plain(f"- {claim['text']}: {claim['reason'].rstrip('.')}.")
    yield ""
