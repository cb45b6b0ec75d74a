# SPDX-License-Identifier: GPL-2.0
"""OUT/reproduction.md: what can be reproduced of the sources, with a verdict on every claim.

Generated from the registered claims (registry.py) and the stored runs; like report.html it has no
date.  It has no figures, to be read in a repository browser or a terminal.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlab.figures import html
from fairlab.figures.gallery import AGAIN, COMPUTED, REGISTERED
from fairlab.figures.registry import BASES, CLASSES, HEADLINES, STATES, Source
from fairlab.figures.verdict import (
    CONSISTENT,
    INCONCLUSIVE,
    INCONSISTENT,
    NOT_RUN,
    NOT_TESTABLE,
    VERDICTS,
)

OURS = "claims of this project, of which nothing is published"
JUDGED = [verdict for verdict in VERDICTS if verdict != NOT_TESTABLE]
HEAD = ("claim", "published", "class", "here", "accepted", "verdict", "registered")


def counts(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = [claim["verdict"] for claim in claims]
    return {verdict: found.count(verdict) for verdict in (*VERDICTS, NOT_RUN)}


def headline(claims: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The counts by what the sources give, and of our own claims; claims that are computed without
    a run are counted apart.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, classes in HEADLINES.items():
        published = [c for c in claims if not c["ours"] and c["class"] in classes]
        run = [c for c in published if c["registered"] != COMPUTED]
        own = {kind: [c for c in run if c["class"] == kind] for kind in classes}
        parts = [
            f"{share(counts(own[kind]))} {called}" for kind, called in classes.items() if called
        ]
        computed = [c for c in published if c["registered"] == COMPUTED]
        found[name] = counts(run) | {
            "parts": ", ".join(parts),
            "computed": f"computed without a run: {share(counts(computed))}" if computed else "",
        }
    ours = counts(claim for claim in claims if claim["ours"])
    return found | {OURS: ours | {"parts": "", "computed": ""}}


def share(found: Mapping[str, Any]) -> str:
    """As "28 of 40": how many of those that are judged are consistent."""
    return f"{found[CONSISTENT]} of {sum(found[verdict] for verdict in JUDGED)}"


def in_words(found: Mapping[str, Any]) -> str:
    """As "28 of 40 consistent, 5 inconsistent, 7 inconclusive (4 not testable, 2 not run)"; with
    parts "28 of 40 consistent (1 of 9 values, 27 of 31 orders), ..."; with claims that are computed
    "...; computed without a run: 9 of 10".
    """
    first, *others = JUDGED
    text = f"{share(found)} {first}"
    text += f" ({found['parts']})" if found.get("parts") else ""
    text += "".join(f", {found[verdict]} {verdict}" for verdict in others)
    text += f"; {found['computed']}" if found.get("computed") else ""
    out = [f"{found[one]} {one}" for one in (NOT_TESTABLE, NOT_RUN) if found[one]]
    return f"{text} ({', '.join(out)})" if out else text


def span(least: int, most: int) -> str:
    """As "5", or "5 to 10"."""
    return f"{least}" if least == most else f"{least} to {most}"


def made(commits: Mapping[str, int]) -> str:
    """As "9c4a165a", or "45 at 9c4a165a, 3 at e39c6f90", most runs first."""
    ordered = sorted(commits.items(), key=lambda one: (-one[1], one[0]))
    if len(ordered) == 1:
        return ordered[0][0]
    return ", ".join(f"{count} at {commit}" for commit, count in ordered)


def page(
    sources: Sequence[Source],
    found: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str],
    notes: Mapping[str, str],
    origins: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page; FOUND: the claims with their verdicts, by name; TITLES, NOTES, ORIGINS: the
    studies'.
    """
    claims = list(found.values())
    heads = headline(claims)

    def studies(source: Source) -> dict[str, list[Mapping[str, Any]]]:
        """The claims of a source by their studies."""
        by_study: dict[str, list[Mapping[str, Any]]] = {}
        for claim in source.claims:
            own = by_study.setdefault(claim.study, [])
            own += [found[claim.name]] if claim.name in found else []
        return by_study

    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = {
        "class": {
            f"{kind}: {text}": [c for c in claims if c["class"] == kind and not c["ours"]]
            for kind, text in CLASSES.items()
        }
        | {OURS: [claim for claim in claims if claim["ours"]]},
        "basis": {
            f"{basis}: {text}": [c for c in claims if c["basis"] == basis]
            for basis, text in BASES.items()
        },
        "registered": {
            f"{when}: {text}": [claim for claim in claims if claim["registered"] == when]
            for when, text in REGISTERED.items()
        },
        "source": {
            source.title: list(itertools.chain(*studies(source).values())) for source in sources
        },
    }
    return html.filled(
        "report.markdown",
        sources=sources,
        headlines={name: in_words(heads[name]) for name in HEADLINES},
        verdicts=[*VERDICTS, NOT_RUN],
        counted={
            what: [(name, *counts(own).values()) for name, own in by_name.items()]
            for what, by_name in groups.items()
        },
        studies=studies,
        titles=titles,
        notes=notes,
        again=any(claim["registered"] == AGAIN for claim in claims),
        origins=[
            (name, span(own["least"], own["most"]), sum(own["made"].values()), made(own["made"]))
            for name, own in origins.items()
        ],
        head=HEAD,
        unsure=(INCONSISTENT, INCONCLUSIVE, NOT_TESTABLE),
        states=STATES,
    )
