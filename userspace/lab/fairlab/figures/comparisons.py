# SPDX-License-Identifier: GPL-2.0
"""The comparisons of `fairlab compare` on a page: for each, its picture, its table, and where ours
are worse.

`fairlab compare` writes OUT/report.html with those in OUT; `fairlab report` puts those in the
directory `compare` beside its own (results/compare) on its page.  `fairlab compare --publish PAGE`
replaces tables in a page of Markdown.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlab.figures.gallery import read_json, write_whole
from fairlab.figures.html import conditions, escaped, head, image, numbers
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


def section(out: Path) -> Iterator[str]:
    """The comparisons in OUT as part of a page; nothing if there are none."""
    found = stored(out)
    if not found:
        return
    yield f"<h2>{TITLE}</h2>"
    yield (
        "<p>One workload on many stacks, with the same flows for each seed. Numbers are means; ±"
        " is half of the 95 % interval over the seeds. docs/compare.md describes workloads,"
        " settings and measures.</p>"
    )
    for path, document in found.items():
        yield from article(path, document)


def article(path: Path, document: dict[str, Any]) -> Iterator[str]:
    yield f'<article id="compare-{escaped(document["name"])}">'
    yield f"<h3>{escaped(document['title'])}</h3>"
    yield f'<p class="faint"><code>{escaped(document["name"])}</code></p>'
    yield f"<dl><dt>Setting</dt><dd>{escaped(document['setting'])}</dd></dl>"
    if document["stale"]:
        yield f"<p><strong>Stale:</strong> {document['stale']} runs are of other sources.</p>"
    alternative = f"{document['title']}: each measure of each stack, as in the table"
    picture = f'<img src="{image(path)}" alt="{escaped(alternative)}">'
    yield f'<figure class="panels" tabindex="0">{picture}</figure>'
    columns, *rows = turned(document)
    yield from numbers({"columns": columns, "rows": rows})
    yield "<ul>"
    for line in document["worse"]:
        yield f"<li>{escaped(line)}</li>"
    for name, reason in document["missing"].items():
        yield f"<li>{escaped(name)}: not run: {escaped(reason)}</li>"
    yield "</ul>"
    yield from conditions(document)
    yield "</article>"


def turned(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """The rows of a comparison's table, the first with its head.

    Stacks are columns, as there are more measures than stacks.
    """
    table = document["table"]
    return list(zip(table["columns"], *table["rows"], strict=True))


def markdown(document: dict[str, Any]) -> str:
    """A comparison's table in Markdown, as in docs/compare.md."""
    (_, *stacks), *rows = turned(document)
    lines = [["", *(f"`{name}`" for name in stacks)], ["---", *("---:" for _ in stacks)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("|  |", "| |")


#: A block of a page: what it has, and the text that is replaced.
BLOCK = re.compile(r"<!-- compare: ([^>]+?) -->\n.*?<!-- end -->", re.DOTALL)


def beside(documents: dict[str, dict[str, Any]], own: str, other: str) -> str:
    """Where the stack OWN is better and worse than OTHER, a row for each comparison."""
    lines = [
        f"| `{own}` and `{other}` | better | worse | no difference shown |\n",
        "| --- " * 4 + "|\n",
    ]
    for document in documents.values():
        if found := document.get("verdicts", {}).get(own, {}).get(other):
            cells = ("; ".join(found[key]) or "–" for key in ("better", "worse", "level"))
            name = f"{document['name']}, {len(document['seeds'])} seeds"
            lines.append(f"| {name} | {' | '.join(cells)} |\n")
    return "".join(lines)


def publish(page: Path, out: Path) -> list[str]:
    """Replace the blocks of PAGE by the tables of the comparisons in OUT; the names of the blocks.

    A block is `<!-- compare: WORKLOAD -->` or `<!-- compare: STACK beside STACK -->`, and ends with
    `<!-- end -->`.
    """
    documents = {path.name: document for path, document in stored(out).items()}
    done = []

    def text(match: re.Match[str]) -> str:
        name = match[1]
        own, _, other = name.partition(" beside ")
        if other:
            table = beside(documents, own, other)
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
    page = [*head(TITLE), "<body>\n<main>", *section(out), "</main>\n</body>\n</html>\n"]
    write_whole(out / REPORT, "\n".join(page))
    return out / REPORT
