# SPDX-License-Identifier: GPL-2.0
"""The report: every figure on one page, beside what is published.

OUT/report.html is one file that needs nothing else, neither the network nor a script: figures are
in it, as SVG or PNG, whichever is smaller.  It says at its top how many claims hold, in each family
of studies and in all, and which do not; then, for each figure, what was published where and how it
was made there, what had to be assumed, the figure, each claim beside ours with its tolerance, and
what the runs ran on.  OUT/report.md has the same without the figures.

A figure that was not drawn, since runs are missing or were refused, is told with the reason.  There
is no date in it: the same figures make the same page.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from fairlab.figures import gallery
from fairlab.figures.gallery import Gallery, read_json, write_whole
from fairlab.figures.markdown import markdown
from fairlab.figures.study import Study
from fairlab.figures.webpage_style import CSS
from fairlab.model.errors import UsageError

REPORT, TEXT = "report.html", "report.md"
TITLE = "Published figures, made again"
FAMILIES = {
    "bic": "BIC-TCP",
    "gaimd": "General AIMD",
    "queueing": "Fair queueing",
    "slbn": "SLBN",
    "large": "SLBN on large networks, simulated",
}
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Entry:
    """A study on the page: its figure's document, or why there is none."""

    study: Study
    document: dict[str, Any] | None
    why_not: str
    old: bool  # drawn from other sources than there are now

    @property
    def claims(self) -> list[dict[str, Any]]:
        return list(self.document["claims"]) if self.document else []

    @property
    def hold(self) -> int:
        return sum(claim["holds"] for claim in self.claims)

    @property
    def family(self) -> str:
        name = gallery.family(self.study)
        return FAMILIES.get(name, name)


def collect(place: Gallery, studies: Iterable[Study]) -> list[Entry]:
    """What there is of each study."""
    return [_entry(place, study) for study in studies]


def _entry(place: Gallery, study: Study) -> Entry:
    runs = place.runs(study)
    refused = [f"{run.name}: {why}" for run in runs if (why := place.refusal(run))]
    if refused:
        return Entry(study, None, f"runs were refused: {'; '.join(refused)}", False)
    missing = sum(place.stored(run) is None for run in runs)
    if missing:
        return Entry(study, None, f"{missing} of {len(runs)} runs are missing", False)
    document = read_json(place.out / f"{study.name}.json")
    images = [place.out / f"{study.name}{ending}" for ending in TYPES]
    if document is None or not all(image.is_file() for image in images):
        return Entry(study, None, "its runs are there, but it is not drawn", False)
    return Entry(study, document, "", document.get("fingerprint") != place.fingerprint(runs))


def _counts(entries: Sequence[Entry]) -> dict[str, int]:
    return {
        "figures": len(entries),
        "drawn": sum(entry.document is not None for entry in entries),
        "claims": sum(len(entry.claims) for entry in entries),
        "hold": sum(entry.hold for entry in entries),
    }


def by_family(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.family, []).append(entry)
    return found


def summarise(entries: Sequence[Entry]) -> dict[str, Any]:
    """All of it in numbers."""
    return _counts(entries) | {
        "families": {name: _counts(own) for name, own in by_family(entries).items()},
        "broken": [
            {"figure": entry.study.name, **claim}
            for entry in entries
            for claim in entry.claims
            if not claim["holds"]
        ],
        "not_drawn": {e.study.name: e.why_not for e in entries if e.document is None},
        "old": [entry.study.name for entry in entries if entry.old],
    }


def told(summary: dict[str, Any]) -> str:
    """The summary in words."""
    lines = []
    width = max(map(len, summary["families"]), default=0)
    for name, counts in [*summary["families"].items(), ("all", summary)]:
        lines.append(
            f"{name:{width}}  {counts['drawn']} of {counts['figures']} figures,"
            f" {counts['hold']} of {counts['claims']} claims hold"
        )
    for claim in summary["broken"]:
        told = f"published {claim['published']}; here {claim['ours']} ({claim['tolerance']})"
        lines.append(f"does not hold: {claim['figure']}: {claim['text']}: {told}")
    lines += [f"not drawn: {name}: {why}" for name, why in summary["not_drawn"].items()]
    lines += [f"drawn from other sources than these: {name}" for name in summary["old"]]
    return "\n".join(lines)


def write(place: Gallery, studies: Sequence[Study]) -> tuple[Path, dict[str, Any]]:
    """Make the page; where it is, and the summary."""
    entries = collect(place, studies)
    summary = summarise(entries)
    if not summary["drawn"]:
        raise UsageError(f"no figures in {place.out}: fairlab figure makes them")
    path = place.out / REPORT
    write_whole(path, page(place, entries, summary))
    text = markdown(TITLE, by_family(entries), summary, place.quick)
    write_whole(place.out / TEXT, text)
    return path, summary


# The page


def _e(text: Any) -> str:
    return escape(str(text))


def page(place: Gallery, entries: Sequence[Entry], summary: dict[str, Any]) -> str:
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>fairpath: {TITLE.lower()}</title>",
        f"<style>{CSS}</style>\n</head>\n<body>\n<header>",
        f"<h1>{TITLE}</h1>",
        "<p>What papers found in simulators and on their own machines, found again with fairpath’s"
        " modules in Linux itself, in virtual time. Each claim stands beside what came out here,"
        " and how far apart the two may be; where the source has no number, that is our reading of"
        " its curve or of its words.</p>",
        *_quick(place),
        "</header>\n<main>",
        *_summary(entries, summary),
    ]
    for name, own in by_family(entries).items():
        parts.append(f"<h2>{_e(name)}</h2>")
        for entry in own:
            parts += _article(place, entry)
    parts.append("</main>\n</body>\n</html>\n")
    return "\n".join(parts)


def _quick(place: Gallery) -> Iterator[str]:
    if place.quick:
        yield (
            "<p><strong>This is the quick set</strong>: a part of the cases, for a shorter time,"
            " with fewer seeds. It shows that everything works; for the figures themselves,"
            " make the full set.</p>"
        )


def _summary(entries: Sequence[Entry], summary: dict[str, Any]) -> Iterator[str]:
    lost = summary["claims"] - summary["hold"]
    yield '<ul class="counts">'
    yield f'<li><b class="good">{summary["hold"]}</b>of {summary["claims"]} claims hold</li>'
    yield f'<li><b class="{"bad" if lost else "none"}">{lost}</b>do not</li>'
    yield f"<li><b>{summary['drawn']}</b>of {summary['figures']} figures drawn</li>"
    yield "</ul>"
    yield '<table class="numbers families"><thead><tr><th scope="col">Family</th>'
    yield '<th scope="col">figures</th><th scope="col">hold</th><th scope="col">do not</th>'
    yield "</tr></thead><tbody>"
    for name, counts in summary["families"].items():
        lost = counts["claims"] - counts["hold"]
        cells = (f"{counts['drawn']}/{counts['figures']}", str(counts["hold"]), str(lost))
        told = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{_e(name)}</th>{told}</tr>'
    yield "</tbody></table>"
    if summary["broken"]:
        yield "<h2>What does not hold</h2>"
        yield from _claims(summary["broken"], link=True)
    yield "<h2>Figures</h2>"
    yield '<ul class="toc">'
    for entry in entries:
        link = f'<a href="#{_e(entry.study.name)}">{_e(entry.study.title)}</a>'
        yield f"<li>{link}{_badge(entry)}</li>"
    yield "</ul>"


def _badge(entry: Entry) -> str:
    if entry.document is None:
        return '<span class="verdict none">not drawn</span>'
    all_hold = entry.hold == len(entry.claims)
    kind, mark = ("good", "✓") if all_hold else ("bad", "✗")
    return f'<span class="verdict {kind}">{mark} {entry.hold}/{len(entry.claims)}</span>'


def _claims(claims: Sequence[dict[str, Any]], link: bool = False) -> Iterator[str]:
    yield '<table class="claims"><thead><tr><th scope="col">Claim</th>'
    yield '<th scope="col">published</th><th scope="col">here</th><th scope="col">tolerance</th>'
    yield '<th scope="col">verdict</th></tr></thead><tbody>'
    for claim in claims:
        text = _e(claim["text"])
        if link:
            text = f'<a href="#{_e(claim["figure"])}">{_e(claim["figure"])}</a>: {text}'
        if not claim["holds"] and claim["reason"]:
            text += f'<p class="reason">{_e(claim["reason"])}</p>'
        kind, verdict = ("good", "✓ holds") if claim["holds"] else ("bad", "✗ does not hold")
        yield (
            f'<tr><td>{text}</td><td data-label="published">{_cell(claim["published"])}</td>'
            f'<td data-label="here">{_cell(claim["ours"])}</td>'
            f'<td data-label="tolerance">{_cell(claim["tolerance"])}</td>'
            f'<td data-label="verdict"><span><span class="verdict {kind}">{verdict}</span></span>'
            "</td></tr>"
        )
    yield "</tbody></table>"


def _cell(text: Any) -> str:
    # One element, so that beside its label it is one column of the grid.
    return f"<span>{_e(text)}</span>"


def _article(place: Gallery, entry: Entry) -> Iterator[str]:
    study, document = entry.study, entry.document
    yield f'<article id="{_e(study.name)}">'
    yield f"<h3>{_e(study.title)}</h3>"
    yield f'<p class="faint"><code>{_e(study.name)}</code> {_badge(entry)}</p>'
    yield "<dl>"
    yield f"<dt>Source</dt><dd>{_e(study.source)}</dd>"
    yield f"<dt>Published setting</dt><dd>{_e(study.setting)}</dd>"
    yield "</dl>"
    if document is None:
        yield f"<p><strong>Not drawn:</strong> {_e(entry.why_not)}.</p>"
        yield from _assumptions(study)
        yield "</article>"
        return
    if entry.old:
        yield "<p><strong>Drawn from other sources than these:</strong> to be made again.</p>"
    yield f'<figure><img src="{image(place, study)}" alt="{_e(_alternative(entry))}"></figure>'
    yield from _claims(document["claims"])
    if document.get("table"):
        yield from _numbers(document["table"])
    yield from _assumptions(study)
    seeds = ", ".join(map(str, document["seeds"]))
    told = f"{document['runs']} runs, seed{'s' if len(document['seeds']) > 1 else ''} {seeds}"
    yield f"<details><summary>Conditions: {_e(told)}</summary>"
    yield '<ul class="conditions">'
    for name, value in flat(document["conditions"]):
        yield f"<li>{_e(name)}: {_e(value)}</li>"
    yield "</ul></details></article>"


def _assumptions(study: Study) -> Iterator[str]:
    if study.assumptions:
        listed = "".join(f"<li>{_e(one)}</li>" for one in study.assumptions)
        yield f"<dl><dt>Assumed, as the source does not say</dt><dd><ul>{listed}</ul></dd></dl>"


def _alternative(entry: Entry) -> str:
    """The figure for who cannot see it: what was to be seen there."""
    told = "; ".join(f"{claim['text']}: {claim['ours']}" for claim in entry.claims)
    return f"{entry.study.title}. {told}"


def image(place: Gallery, study: Study) -> str:
    """The figure in an address of its own, in the form that is smaller."""
    forms = {ending: (place.out / f"{study.name}{ending}").read_bytes() for ending in TYPES}
    ending = min(forms, key=lambda ending: len(forms[ending]))
    return f"data:{TYPES[ending]};base64,{base64.b64encode(forms[ending]).decode()}"


def _numbers(table: dict[str, Any]) -> Iterator[str]:
    # That can be moved sideways needs to be reached by the keyboard.
    yield '<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>'
    yield "".join(f'<th scope="col">{_e(name)}</th>' for name in table["columns"])
    yield "</tr></thead><tbody>"
    for row in table["rows"]:
        yield "<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Conditions as lines: a name, and what it was."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    elif value not in (None, ""):
        yield name, str(value)
