# SPDX-License-Identifier: GPL-2.0
"""The comparisons of `fairlab compare` on a page: for each, its picture, its table, and where ours
are worse.

`fairlab compare` writes OUT/report.html with those in OUT; `fairlab report` puts those in the
directory `compare` beside its own (results/compare) on its page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlab.figures.gallery import read_json, write_whole
from fairlab.figures.html import conditions, escaped, head, image, numbers

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


def write(out: Path) -> Path:
    """Write OUT/report.html."""
    page = [*head(TITLE), "<body>\n<main>", *section(out), "</main>\n</body>\n</html>\n"]
    write_whole(out / REPORT, "\n".join(page))
    return out / REPORT
