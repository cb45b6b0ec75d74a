# SPDX-License-Identifier: GPL-2.0
"""The report: all figures and claims on one page.

At the top OUT/report.html counts the verdicts on the claims, by what these rest on and by family of
studies, and lists the inconsistent ones.  For each figure it has the source, the published setting,
our assumptions, the plot, the claims with what they accept, and the conditions of the runs.
OUT/reproduction.md has all claims without plots (reproduction.py).  The comparisons of `fairlab
compare`, if there are any, follow (comparisons.py).  html.py makes the page.

For a figure that is not drawn, since runs are missing or were refused, the page gives the reason.
The page has no date: the same figures give the same page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.figures import comparisons, gallery, html, registry, reproduction, verdict
from fairlab.figures.gallery import Gallery, read_json, write_whole
from fairlab.figures.reproduction import counts, headline, in_words
from fairlab.figures.study import Study
from fairlab.figures.verdict import INCONSISTENT, NOT_RUN, NOT_TESTABLE, VERDICTS
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
    def lacks(self) -> str:
        """How many of its seeds a figure is drawn from, if not all."""
        if self.document is None or not self.document.get("missing"):
            return ""
        seeds, missing = len(self.document["seeds"]), self.document["missing"]
        return f"Drawn from {seeds} seeds; {missing} further runs are not done yet."

    @property
    def family(self) -> str:
        name = gallery.family(self.study)
        return FAMILIES.get(name, name)


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
    images = [place.out / f"{study.name}{ending}" for ending in html.TYPES]
    if document is None or not all(image.is_file() for image in images):
        return Entry(study, None, "its runs are complete, but it is not drawn", False)
    return Entry(study, document, "", document.get("fingerprint") != place.fingerprint(whole))


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
    for entry in entries:
        known = registry.of(entry.study.name, place.studies) if entry.document is None else {}
        for claim in known.values():
            without = gallery.described(claim, verdict.judge(claim, {}))
            state = NOT_TESTABLE if claim.not_testable else NOT_RUN
            found[claim.name] = without | {"verdict": state, "registered": "", "here": ""}
    return found


def write(place: Gallery, studies: Sequence[Study]) -> tuple[Path, dict[str, Any]]:
    """Write the page; return its path and the summary."""
    entries = [_entry(place, study) for study in studies]
    summary = summarise(entries)
    if not summary["drawn"]:
        raise UsageError(f"no figures in {place.out}: fairlab figure makes them")
    report = {
        "out": place.out,
        "quick": place.quick,
        "summary": summary,
        "verdicts": VERDICTS,
        "entries": entries,
        "families": by_family(entries),
    }
    beside = comparisons.shown(place.out.parent / comparisons.BESIDE)
    path = place.out / REPORT
    write_whole(path, html.page(TITLE, beside, report))
    titles = {entry.study.name: entry.study.title for entry in entries}
    notes = {entry.study.name: entry.lacks for entry in entries if entry.lacks}
    known = registry.sources(place.studies)
    origins = {e.study.name: e.document["origins"] for e in entries if e.document}
    text = reproduction.page(known, by_name(place, entries), titles, notes, origins)
    write_whole(place.out / TEXT, text)
    return path, summary
