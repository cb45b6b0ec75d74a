# SPDX-License-Identifier: GPL-2.0
"""OUT/report.md: all claims as Markdown, to be read in a repository browser or a terminal.

It has no figures and, like report.html, no date.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlab.figures.study import BASES

# Characters that would end a table cell or start markup.
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


def ratio(counts: Mapping[str, Any]) -> str:
    return f"{counts['hold']} of {counts['claims']}"


def headline(summary: Mapping[str, Any]) -> list[str]:
    """How many claims hold, by what they rest on, as a Markdown list."""
    return [
        "Claims that hold:",
        "",
        *(
            f"- **{ratio(summary['bases'][basis])}** on {text} (`{basis}`)"
            for basis, text in BASES.items()
        ),
    ]


def markdown(
    title: str, families: Mapping[str, Sequence[Any]], summary: Mapping[str, Any], quick: bool
) -> str:
    """The report; FAMILIES are the webpage's entries by the names of their families."""
    lines = [f"# {title}", ""]
    if quick:
        lines += ["This is the quick set: a part of the cases, shorter runs, one seed.", ""]
    lines += [*headline(summary), ""]
    lines += [
        f"{summary['drawn']} of {summary['figures']} figures are drawn. They are in `report.html`,"
        " which is written with this file but not kept in the repository: `make published-figures`"
        " draws it from the published numbers into `results/figures`.",
        "",
        "In 6.3 (6.0 to 6.7), the brackets have the minimum and the maximum over the seeds, and"
        " over the cases if a claim is on several; a range of two seeds is no confidence interval.",
        "",
        "By family and evidence:",
        "",
    ]
    counts = summary["families"].items()
    lines += table(
        ("family", "figures", *BASES, "all"),
        (
            (name, own["drawn"], *(ratio(own["bases"][basis]) for basis in BASES), ratio(own))
            for name, own in counts
        ),
    )
    for name, entries in families.items():
        lines += [f"## {name}", ""]
        for entry in entries:
            lines += _section(entry)
    return "\n".join(lines)


def evidence(claim: Mapping[str, Any]) -> str:
    """What a claim rests on, and the algorithm that ran if that is not clear."""
    return ": ".join(filter(None, (claim["basis"], claim.get("algorithm"))))


def _section(entry: Any) -> Iterator[str]:
    yield f"### {entry.study.name}: {plain(entry.study.title)}"
    yield ""
    yield plain(entry.study.source)
    yield ""
    if entry.document is None:
        yield f"Not drawn: {plain(entry.why_not)}."
        yield ""
        return
    head = ("claim", "published", "here", "tolerance", "evidence", "")
    names = ("text", "published", "ours", "tolerance")
    yield from table(
        head,
        (
            (
                *(claim[name] for name in names),
                evidence(claim),
                "holds" if claim["holds"] else "does NOT",
            )
            for claim in entry.claims
        ),
    )
    for claim in entry.claims:
        if not claim["holds"] and claim["reason"]:
            yield plain(f"- {claim['text']}: {claim['reason'].rstrip('.')}.")
    yield ""
