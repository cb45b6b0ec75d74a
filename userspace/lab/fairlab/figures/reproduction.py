# SPDX-License-Identifier: GPL-2.0
"""OUT/reproduction.md: what can be reproduced of the sources, with a verdict on every claim.

Generated from the registered claims (registry.py) and the stored runs; like report.html it has no
date.  It has no figures, to be read in a repository browser or a terminal.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlab.figures.registry import BASES, CLASSES, HEADLINES, STATES, Source
from fairlab.figures.verdict import INCONCLUSIVE, INCONSISTENT, NOT_RUN, NOT_TESTABLE, VERDICTS

# Characters that would end a table cell or start markup.
ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "*": "\\*", "_": "\\_", "\n": " "})
OURS = "claims of this project, of which nothing is published"
HEAD = ("claim", "published", "class", "here", "accepted", "verdict", "registered")
INTRODUCTION = """\
A verdict is on the 95 % interval of the mean over the seeds, in brackets (Student's t; after it the
least and the largest seed): consistent, if it lies within what is accepted; inconsistent, if it
lies outside, or if the claim is about each run and one run is outside; else, and with a single
seed, inconclusive. Not testable here are claims about algorithms of which only a stand-in could be
written, and those that depend on a parameter that is not published. A claim has been registered
before its runs if each of them has its SHA-256; the runs here that have none are older than the
registration of claims, so their claims may have been chosen in view of the results. A claim that
changed after its runs is marked for good.
"""


def plain(text: Any) -> str:
    return str(text).translate(ESCAPED)


def row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    yield row(head)
    yield "|" + " --- |" * len(head)
    yield from map(row, rows)
    yield ""


def counts(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = [claim["verdict"] for claim in claims]
    return {verdict: found.count(verdict) for verdict in (*VERDICTS, NOT_RUN)}


def headline(claims: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The counts by what the sources give, and of our own claims."""
    found = {
        name: counts(c for c in claims if not c["ours"] and c["class"] in classes)
        for name, classes in HEADLINES.items()
    }
    return found | {OURS: counts(claim for claim in claims if claim["ours"])}


def in_words(found: Mapping[str, int]) -> str:
    """As "28 of 40 consistent, 5 inconsistent, 7 inconclusive (4 not testable, 2 not run)"."""
    judged = [verdict for verdict in VERDICTS if verdict != NOT_TESTABLE]
    first, *others = judged
    text = f"{found[first]} of {sum(found[verdict] for verdict in judged)} {first}"
    text += "".join(f", {found[verdict]} {verdict}" for verdict in others)
    out = [f"{found[one]} {one}" for one in (NOT_TESTABLE, NOT_RUN) if found[one]]
    return f"{text} ({', '.join(out)})" if out else text


def page(
    sources: Sequence[Source],
    found: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str],
    notes: Mapping[str, str],
) -> str:
    """The page; FOUND: the claims with their verdicts, by name; TITLES, NOTES: the studies'."""
    claims = list(found.values())
    count = sum(not source.ours for source in sources)
    lines = [f"# What can be reproduced of {count} published sources", ""]
    heads = headline(claims)
    lines += [f"- **Published {name}**: {in_words(heads[name])}." for name in HEADLINES]
    lines += ["", *INTRODUCTION.splitlines(), ""]
    by_class: dict[str, list[Any]] = {
        f"{kind}: {text}": [c for c in claims if c["class"] == kind and not c["ours"]]
        for kind, text in CLASSES.items()
    }
    by_class[OURS] = [claim for claim in claims if claim["ours"]]
    by_basis: dict[str, list[Any]] = {
        f"{basis}: {text}": [c for c in claims if c["basis"] == basis]
        for basis, text in BASES.items()
    }
    by_source = {
        source.title: [found[claim.name] for claim in source.claims if claim.name in found]
        for source in sources
    }
    for what, introduction, groups in (
        ("class", (), by_class),
        ("basis", ("What the accepted ranges rest on:", ""), by_basis),
        ("source", (), by_source),
    ):
        lines += introduction
        rows = ((name, *counts(own).values()) for name, own in groups.items())
        lines += table((what, *VERDICTS, NOT_RUN), rows)
    for source in sources:
        lines += _source(source, found, titles, notes)
    return "\n".join(lines)


def _source(
    source: Source,
    found: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str],
    notes: Mapping[str, str],
) -> Iterator[str]:
    yield f"## {plain(source.title)}"
    yield ""
    for study in dict.fromkeys(claim.study for claim in source.claims):
        names = [claim.name for claim in source.claims if claim.study == study]
        yield f"### {study}: {plain(titles.get(study, ''))}"
        yield ""
        if study in notes:
            yield from (notes[study], "")
        yield from _claims([found[name] for name in names if name in found])
    if source.contents:
        yield "### What the source has, and what of it is here"
        yield ""
        yield from (f"- {plain(state)}: {text}" for state, text in STATES.items())
        yield ""
        keys = ("place", "text", "state", "where")
        rows = ([one.get(key, "") for key in keys] for one in source.contents)
        yield from table(("place", "what", "state", "where, or why not"), rows)
    if source.errata:
        yield "### Errata of the source"
        yield ""
        yield from (f"- {plain(one['place'])}: {plain(one['text'])}." for one in source.errata)
        yield ""


def _claims(claims: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from table(HEAD, map(cells, claims))
    explained = [
        c for c in claims if c["why"] and c["verdict"] in (INCONSISTENT, INCONCLUSIVE, NOT_TESTABLE)
    ]
    for claim in explained:
        yield f"- {plain(claim['text'])}: {plain(claim['why'])}."
    if explained:
        yield ""


def cells(claim: Mapping[str, Any]) -> tuple[str, ...]:
    """A claim as the cells of HEAD."""
    accepted = f"{claim['accepted']}: {claim['tolerance']}"
    if claim["reading"]:
        accepted += " (our reading of the unit)"
    names = ("text", "published", "class", "here")
    return (*(str(claim[name]) for name in names), accepted, claim["verdict"], claim["registered"])
