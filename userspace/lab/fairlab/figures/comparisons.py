# SPDX-License-Identifier: GPL-2.0
"""The comparisons of `fairlab compare` on a page: for each, its picture, its table, and where ours
are worse.

`fairlab compare` writes OUT/report.html with those in OUT; `fairlab report` puts those in the
directory `compare` beside its own (results/compare) on its page.  `fairlab compare --publish PAGE`
replaces tables in a page of Markdown.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairlab.figures import html
from fairlab.figures.gallery import read_json, write_whole
from fairlab.model.errors import UsageError

REPORT, TITLE = "report.html", "Comparison of stacks"
#: Where `fairlab report` looks, beside its own directory.
BESIDE = "compare"


def stored(out: Path) -> dict[Path, dict[str, Any]]:
    """The documents of the comparisons that are drawn in OUT, by the files without ending."""
    found = {}
    for path in sorted(out.glob("*.json")):
        document = read_json(path)
        if document and "worse" in document and path.with_suffix(".png").is_file():
            found[path.with_suffix("")] = document
    return found


def shown(out: Path) -> list[tuple[Path, dict[str, Any], list[tuple[str, ...]]]]:
    """The same as a list, each with its table, for a page."""
    return [(path, document, turned(document)) for path, document in stored(out).items()]


def turned(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """The rows of a comparison's table, the first with its head.

    Stacks are columns, as there are more measures than stacks.
    """
    table = document["table"]
    return list(zip(table["columns"], *table["rows"], strict=True))


def markdown(document: dict[str, Any]) -> str:
    """A comparison's table in Markdown, as in docs/compare.md."""
    (_, *stacks), *rows = turned(document)
    return rendered([f"`{name}`" for name in stacks], rows)


def rendered(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown: HEADS of all columns but the first, and the rows."""
    lines = [["", *heads], ["---", *("---:" for _ in heads)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("|  |", "| |")


#: A block of a page: what it has, and the text that is replaced.
BLOCK = re.compile(r"<!-- compare: ([^>]+?) -->\n.*?<!-- end -->", re.DOTALL)


#: The measures of a summary.
SUMMARY = (
    "goodput of TCP, Mbit/s",
    "Jain index",
    "slowdown, mean",
    "queue delay p50, ms",
    "queue delay p99, ms",
    "loss of TCP, %",
)


def summary(documents: dict[str, dict[str, Any]], own: str, others: list[str]) -> str:
    """Means of the stack OWN, and in brackets of OTHERS: a row for each comparison that has them.

    Bold is better than each of OTHERS, italic worse than one, by a paired t-test (verdicts()).
    """
    lines = []
    for document in documents.values():
        (_, *stacks), *rows = turned(document)
        means = {name: dict(zip(stacks, cells, strict=True)) for name, *cells in rows}
        if not {own, *others} <= set(stacks):
            continue
        verdicts = document.get("verdicts", {}).get(own, {})
        cells = []
        for name in SUMMARY:
            if name not in means:
                cells.append("–")
                continue
            mine, *theirs = (means[name][stack].split()[0] for stack in (own, *others))
            ways = [way_of(name, verdicts.get(other, {})) for other in others]
            mark = "**" if set(ways) == {"better"} else "*" if "worse" in ways else ""
            cells.append(f"{mark}{mine}{mark} ({', '.join(theirs)})")
        count = len(document["seeds"])
        lines.append([f"{document['name']}, {count} seed{'s' if count > 1 else ''}", *cells])
    return rendered(SUMMARY, lines)


def way_of(name: str, verdict: dict[str, list[str]]) -> str:
    """Where a VERDICT has the measure NAME: better, worse or level; "" if nowhere."""
    found = (
        way for way, texts in verdict.items() if any(text.startswith(f"{name} ") for text in texts)
    )
    return next(found, "")


def publish(page: Path, out: Path) -> list[str]:
    """Replace the blocks of PAGE by the tables of the comparisons in OUT; the names of the blocks.

    A block is `<!-- compare: WORKLOAD -->` or `<!-- compare: STACK beside STACK, ... -->`, and ends
    with `<!-- end -->`.
    """
    documents = {path.name: document for path, document in stored(out).items()}
    done = []

    def text(match: re.Match[str]) -> str:
        name = match[1]
        own, _, others = name.partition(" beside ")
        if others:
            table = summary(documents, own, others.split(", "))
        elif name in documents:
            table = markdown(documents[name])
        else:
            raise UsageError(f"{page}: no comparison '{name}' is drawn in {out}")
        done.append(name)
        return f"<!-- compare: {name} -->\n\n{table}\n<!-- end -->"

    changed = BLOCK.sub(text, page.read_text())
    if not done:
        raise UsageError(f"{page}: no line '<!-- compare: WORKLOAD -->' with '<!-- end -->' below")
    write_whole(page, changed)
    return done


def write(out: Path) -> Path:
    """Write OUT/report.html."""
    write_whole(out / REPORT, html.page(TITLE, shown(out)))
    return out / REPORT
