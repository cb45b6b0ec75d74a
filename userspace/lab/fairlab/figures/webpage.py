# SPDX-License-Identifier: GPL-2.0
"""The report: all figures and claims on one page.

OUT/report.html is self-contained: no other file, no network, no script; each figure is embedded as
SVG or PNG, whichever is smaller.  At the top it counts the verdicts on the claims, by what these
rest on and by family of studies, and lists the inconsistent ones.  For each figure it has the
source, the published setting, our assumptions, the plot, the claims with what they accept, and the
conditions of the runs.  OUT/reproduction.md has all claims without plots (reproduction.py).  The
comparisons of `fairlab compare`, if there are any, follow (comparisons.py).

For a figure that is not drawn, since runs are missing or were refused, the page gives the reason.
The page has no date: the same figures give the same page.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.figures import comparisons, gallery, registry, reproduction, verdict
from fairlab.figures.gallery import Gallery, read_json, write_whole
from fairlab.figures.html import TYPES, conditions, head, image, numbers
from fairlab.figures.html import escaped as _e
from fairlab.figures.reproduction import counts, headline, in_words
from fairlab.figures.study import Study
from fairlab.figures.verdict import CONSISTENT, INCONSISTENT, NOT_RUN, NOT_TESTABLE, VERDICTS
from fairlab.model.errors import UsageError

REPORT, TEXT = "report.html", "reproduction.md"
TITLE = "Reproduction of published figures"
FAMILIES = {
    "bic": "BIC-TCP",
    "gaimd": "General AIMD",
    "queueing": "Fair queueing",
    "slbn": "SLBN",
    "large": "SLBN on large networks, simulated",
}


@dataclass(frozen=True)
class Entry:
    """A study on the page: the document of its figure, or the reason why it is not drawn."""

    study: Study
    document: dict[str, Any] | None
    why_not: str
    stale: bool  # drawn from runs of other sources

    @property
    def claims(self) -> list[dict[str, Any]]:
        return list(self.document["claims"]) if self.document else []

    def count(self, verdict: str) -> int:
        return sum(claim["verdict"] == verdict for claim in self.claims)

    @property
    def family(self) -> str:
        name = gallery.family(self.study)
        return FAMILIES.get(name, name)


def collect(place: Gallery, studies: Iterable[Study]) -> list[Entry]:
    """The entries of STUDIES."""
    return [_entry(place, study) for study in studies]


def _entry(place: Gallery, study: Study) -> Entry:
    runs = place.runs(study)
    refused = [f"{run.name}: {why}" for run in runs if (why := place.refusal(run))]
    if refused:
        return Entry(study, None, f"runs were refused: {'; '.join(refused)}", False)
    whole = place.whole_seeds(study)
    missing = sum(place.stored(run) is None for run in runs)
    if missing and (place.seeds or not whole):
        return Entry(study, None, f"{missing} of {len(runs)} runs are missing", False)
    document = read_json(place.out / f"{study.name}.json")
    images = [place.out / f"{study.name}{ending}" for ending in TYPES]
    if document is None or not all(image.is_file() for image in images):
        return Entry(study, None, "its runs are complete, but it is not drawn", False)
    return Entry(study, document, "", document.get("fingerprint") != place.fingerprint(whole))


def lacks(entry: Entry) -> str:
    """How many of its seeds a figure is drawn from, if not all."""
    if entry.document is None or not entry.document.get("missing"):
        return ""
    seeds, missing = len(entry.document["seeds"]), entry.document["missing"]
    return f"Drawn from {seeds} seeds; {missing} further runs are not done yet."


def by_family(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.family, []).append(entry)
    return found


def summarise(entries: Sequence[Entry]) -> dict[str, Any]:
    """The counts and the findings of the whole report."""

    def own(entries: Sequence[Entry]) -> dict[str, Any]:
        return {
            "figures": len(entries),
            "drawn": sum(entry.document is not None for entry in entries),
            "verdicts": counts(claim for entry in entries for claim in entry.claims),
        }

    return own(entries) | {
        "headline": headline([claim for entry in entries for claim in entry.claims]),
        "families": {name: own(found) for name, found in by_family(entries).items()},
        "inconsistent": [
            {"figure": entry.study.name, **claim}
            for entry in entries
            for claim in entry.claims
            if claim["verdict"] == INCONSISTENT
        ],
        "not_drawn": {e.study.name: e.why_not for e in entries if e.document is None},
        "stale": [entry.study.name for entry in entries if entry.stale],
    }


def described(summary: dict[str, Any]) -> str:
    """The summary as text."""
    lines = []
    width = max(map(len, summary["families"]), default=0)
    for name, own in [*summary["families"].items(), ("all", summary)]:
        drawn = f"{own['drawn']} of {own['figures']} figures"
        lines.append(f"{name:{width}}  {drawn}, claims: {in_words(own['verdicts'])}")
    lines += [f"{name}: {in_words(found)}" for name, found in summary["headline"].items()]
    for claim in summary["inconsistent"]:
        details = f"published {claim['published']}; here {claim['here']} ({claim['accepted']})"
        lines.append(f"inconsistent: {claim['figure']}: {claim['text']}: {details}")
    lines += [f"not drawn: {name}: {why}" for name, why in summary["not_drawn"].items()]
    lines += [f"stale, drawn from runs of other sources: {name}" for name in summary["stale"]]
    return "\n".join(lines)


def by_name(place: Gallery, entries: Sequence[Entry]) -> dict[str, dict[str, Any]]:
    """All registered claims with their verdicts; those of figures without runs are not run."""
    found = {
        f"{entry.study.name}/{claim['id']}": claim for entry in entries for claim in entry.claims
    }
    waiting = {entry.study.name for entry in entries if entry.document is None}
    for source in registry.sources(place.studies):
        for claim in source.claims:
            if claim.study in waiting:
                without = gallery.described(claim, verdict.judge(claim, {}))
                state = NOT_TESTABLE if claim.not_testable else NOT_RUN
                found[claim.name] = without | {"verdict": state, "registered": "", "here": ""}
    return found


def write(place: Gallery, studies: Sequence[Study]) -> tuple[Path, dict[str, Any]]:
    """Write the page; return its path and the summary."""
    entries = collect(place, studies)
    summary = summarise(entries)
    if not summary["drawn"]:
        raise UsageError(f"no figures in {place.out}: fairlab figure makes them")
    path = place.out / REPORT
    write_whole(path, page(place, entries, summary))
    titles = {entry.study.name: entry.study.title for entry in entries}
    notes = {entry.study.name: note for entry in entries if (note := lacks(entry))}
    known = registry.sources(place.studies)
    text = reproduction.page(known, by_name(place, entries), titles, notes)
    write_whole(place.out / TEXT, text)
    return path, summary


# The page


def page(place: Gallery, entries: Sequence[Entry], summary: dict[str, Any]) -> str:
    parts = [
        *head(TITLE),
        "<body>\n<header>",
        f"<h1>{TITLE}</h1>",
        "<p>Results that were published from simulators and testbeds, reproduced with fairpath’s"
        " modules in Linux, in virtual time, or with its simulator. Each claim shows the published"
        " statement, our result with its 95 % interval over the seeds, and what is accepted. Where"
        " the source gives no number, the threshold is ours: such claims are weaker evidence, and"
        " are counted apart.</p>",
        *_quick(place),
        "</header>\n<main>",
        *_summary(entries, summary),
    ]
    for name, own in by_family(entries).items():
        parts.append(f"<h2>{_e(name)}</h2>")
        for entry in own:
            parts += _article(place, entry)
    parts += comparisons.section(place.out.parent / comparisons.BESIDE)
    parts.append("</main>\n</body>\n</html>\n")
    return "\n".join(parts)


def _quick(place: Gallery) -> Iterator[str]:
    if place.quick:
        yield (
            "<p><strong>This is the quick set</strong>: a part of the cases, shorter runs, fewer"
            " seeds. It shows that everything works; the full set makes the figures.</p>"
        )


def _summary(entries: Sequence[Entry], summary: dict[str, Any]) -> Iterator[str]:
    yield '<ul class="counts">'
    for name, own in summary["headline"].items():
        total = sum(own[one] for one in VERDICTS if one != NOT_TESTABLE)
        kind = "bad" if own[INCONSISTENT] else "good" if total else "none"
        yield (
            f'<li><b class="{kind}">{own[CONSISTENT]}</b>of {total} consistent,'
            f" {own[INCONSISTENT]} inconsistent: {_e(name)}</li>"
        )
    yield f"<li><b>{summary['drawn']}</b>of {summary['figures']} figures drawn</li>"
    yield "</ul>"
    heads = "".join(f'<th scope="col">{_e(head)}</th>' for head in ("figures", *VERDICTS))
    yield f'<table class="numbers families"><thead><tr><th scope="col">Claims</th>{heads}'
    yield "</tr></thead><tbody>"
    for name, own in summary["families"].items():
        cells = [f"{own['drawn']}/{own['figures']}", *(own["verdicts"][one] for one in VERDICTS)]
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{_e(name)}</th>{row}</tr>'
    yield "</tbody></table>"
    if summary["inconsistent"]:
        yield "<h2>Inconsistent claims</h2>"
        yield from _claims(summary["inconsistent"], link=True)
    yield "<h2>Figures</h2>"
    yield '<ul class="toc">'
    for entry in entries:
        link = f'<a href="#{_e(entry.study.name)}">{_e(entry.study.title)}</a>'
        yield f"<li>{link}{_badge(entry)}</li>"
    yield "</ul>"


def _badge(entry: Entry) -> str:
    if entry.document is None:
        return '<span class="verdict none">not drawn</span>'
    bad, good = entry.count(INCONSISTENT), entry.count(CONSISTENT)
    kind, mark = ("bad", "✗") if bad else ("good", "✓")
    return f'<span class="verdict {kind}">{mark} {good}/{len(entry.claims)}</span>'


KINDS = {CONSISTENT: ("good", "✓"), INCONSISTENT: ("bad", "✗")}


def _claims(claims: Sequence[dict[str, Any]], link: bool = False) -> Iterator[str]:
    yield '<table class="claims"><thead><tr><th scope="col">Claim</th>'
    yield '<th scope="col">published</th><th scope="col">here</th><th scope="col">accepted</th>'
    yield '<th scope="col">evidence</th><th scope="col">verdict</th></tr></thead><tbody>'
    for claim in claims:
        text = _e(claim["text"])
        if link:
            text = f'<a href="#{_e(claim["figure"])}">{_e(claim["figure"])}</a>: {text}'
        if claim["verdict"] != CONSISTENT and claim["why"]:
            text += f'<p class="reason">{_e(claim["why"])}</p>'
        kind, mark = KINDS.get(claim["verdict"], ("none", "–"))
        evidence = f"{claim['class']}: {claim['algorithm']}; registered {claim['registered']}"
        yield (
            f'<tr><td>{text}</td><td data-label="published">{_cell(claim["published"])}</td>'
            f'<td data-label="here">{_cell(claim["here"])}</td>'
            f'<td data-label="accepted">{_cell(claim["accepted"])}</td>'
            f'<td data-label="evidence">{_cell(evidence)}</td>'
            f'<td data-label="verdict"><span><span class="verdict {kind}">{mark}'
            f" {_e(claim['verdict'])}</span></span></td></tr>"
        )
    yield "</tbody></table>"


def _cell(text: Any) -> str:
    # One element: one column of the grid on a phone.
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
    if entry.stale:
        yield "<p><strong>Stale:</strong> drawn from runs of other sources.</p>"
    if note := lacks(entry):
        yield f"<p><strong>Incomplete:</strong> {_e(note)}</p>"
    source = image(place.out / study.name)
    yield f'<figure><img src="{source}" alt="{_e(_alternative(entry))}"></figure>'
    yield from _claims(document["claims"])
    if document.get("table"):
        yield from numbers(document["table"])
    yield from _assumptions(study)
    yield from conditions(document)
    yield "</article>"


def _assumptions(study: Study) -> Iterator[str]:
    if study.assumptions:
        listed = "".join(f"<li>{_e(one)}</li>" for one in study.assumptions)
        yield f"<dl><dt>Our assumptions</dt><dd><ul>{listed}</ul></dd></dl>"


def _alternative(entry: Entry) -> str:
    """The alternative text of a figure."""
    claims = "; ".join(f"{claim['text']}: {claim['here']}" for claim in entry.claims)
    return f"{entry.study.title}. {claims}"
