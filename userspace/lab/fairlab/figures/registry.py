# SPDX-License-Identifier: GPL-2.0
"""The claims of the published sources, and this project's own, as data: claims/*.toml.

A claim is registered before the runs that it is judged by: a stored run has the SHA-256 of each
(Gallery.execute()), so a claim that was added or changed later is known as such.  A file has one
source:

    [source]       title; algorithms: what may run for its claims; stand_ins: those of them that
                   only resemble what they are named after; ours: nothing is published
    [each]         lists of tables, by name: what similar claims differ by
    [[group]]      fields that several claims share; study: theirs
    [[group.claim]]  a claim: one statement, and how it is judged (FIELDS)
    [[why]]        why: the likely reason why the claims `of`, as STUDY/ID, are not consistent
    [[content]]    a page or slide: what it has, and whether it is reproduced (STATES)
    [[erratum]]    an error of the source
    [[withdrawn]]  a registered claim, as STUDY/ID, that was dropped at a commit ("after X": X has
                   it last), and why; if it was renamed, the claim that it is `now`, which then is
                   not older than its runs
    [[changed]]    registered claims, as STUDY/ID with commas, that changed at a commit after their
                   runs, and what differs: the text or limits that they had

A group or a claim with `each`, names of lists in [each], is there once for each table of the list,
or for each combination of them.  A table's keys are fields of the claim, or names: "{name}" in a
field is replaced by the value.  A claim's own field comes before that of a table, and both before
that of the group.

A mistake in a file is an error with the file and the line.
"""

import functools
import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fairlab.model.errors import UsageError

OWN = Path(__file__).parent / "claims"
EARLIER = Path(__file__).parent / "earlier.toml"

CLASSES = {
    "number": "a published value",
    "formula": "a published formula, or what follows from one",
    "order": "a published order of values",
    "trend": "a published rise or fall, without values",
    "words": "published words, or a figure without values: the threshold is ours",
}
#: The lines of a headline, numbers of the source and what needs a threshold of ours, by class.
#: Those with a name are counted within the line, too: formulas would hide how few values fit.
HEADLINES = {
    "values, formulas and orders": {"number": "values", "formula": "formulas", "order": "orders"},
    "words and curves without values, with our thresholds": {"trend": "", "words": ""},
}
#: How the values of a claim, one for each seed, become one.
STATISTICS = {
    "mean": "their mean",
    "geometric mean": "their geometric mean",
    "each run": "their mean, and each of them",
    "exact": "one value, computed",
}
STATES = {
    "reproduced": "run, and judged by claims",
    "partly": "run in part, or without a claim",
    "missing": "could be run here, and is not",
    "out of scope": "not about what this project implements",
}
#: What a tolerance rests on.  Its reason is one of these, a colon, and what it is in this case.
BASES = {
    "definition": "nothing is chosen: an order, none, all of them, what follows from the protocol",
    "published": "the source gives the bound, or a value that it rounds or calls approximate:"
    " its width may be ours",
    "reading": "the source gives a value, whose unit or place is our reading",
    "setting": "the value depends on parameters that the source does not give, or that differ here",
    "chance": "what runs of this length vary by",
    "resolution": "what this measurement or arithmetic can resolve",
    "plot": "the source has a curve, whose values are not in its text: the threshold is ours",
    "words": "the source has words only: the threshold is ours",
    "ours": "nothing is published: the threshold is ours",
}
#: What makes the range that is accepted, beside `reason`; those of the second line need a value.
BOUNDS = ("least", "most")
AROUND = ("factor", "relative", "absolute")

Fields = dict[str, type | tuple[type, ...]]
#: A claim's fields and their types; the optional ones have a default in Claim.
FIELDS: Fields = {
    "study": str,
    "id": str,  # unique in the study
    "text": str,
    "quotation": str,  # or a paraphrase: a page does not put it in quotation marks
    "place": str,  # page, slide, figure
    "class": str,
    "unit": str,
    "tolerance": dict,
    "two_sided": bool,
    "statistic": str,
    "algorithm": str,  # several: with commas
    "cases": list,  # shell patterns
    "seeds": int,  # at least; 0: computed
}
OPTIONAL: Fields = {
    "value": (int, float),
    "unit_is_our_reading": bool,
    "not_testable": str,  # why
    "why": str,  # the likely reason, if it is not consistent
    "assumes": str,  # what the source does not give, and may decide the verdict
    "correction": str,  # of the quotation or the place, shown beside them
    "source": str,  # the file whose [source] it belongs to, if not this one
}
#: Not part of a claim: how it is judged does not depend on them, and the first three may be written
#: after the run.
UNHASHED = ("why", "assumes", "correction", "source")

SOURCE_FIELDS: Fields = {"title": str, "algorithms": list}
ROWS: dict[str, Fields] = {
    "content": {"place": str, "text": str, "state": str},
    "erratum": {"place": str, "text": str},
    "withdrawn": {"claim": str, "commit": str, "why": str},
    "changed": {"claims": str, "commit": str, "was": str},
}
ROWS_OPTIONAL: dict[str, Fields] = {
    "content": {"where": str},
    "erratum": {},
    "withdrawn": {"now": str},
    "changed": {},
}
WHY_FIELDS: Fields = {"of": list, "why": str}
HEAD = re.compile(r"\[\[?\s*([\w.]+)\s*\]")
#: The place of a value of [each] in a field.
BLANK = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Claim:
    """A registered claim; TOML's `class` is `kind` here."""

    study: str
    id: str
    text: str
    quotation: str
    place: str
    kind: str
    unit: str
    least: float
    most: float
    reason: str  # of the tolerance
    statistic: str
    algorithm: str
    cases: tuple[str, ...]
    seeds: int
    ours: bool
    sha256: str
    source: str = ""
    value: float | None = None
    unit_is_our_reading: bool = False
    not_testable: str = ""
    why: str = ""
    assumes: str = ""
    correction: str = ""
    renamed: bool = False

    @property
    def basis(self) -> str:
        """What the tolerance rests on: one of BASES."""
        return self.reason.partition(": ")[0]

    @property
    def name(self) -> str:
        """The name in all files."""
        return f"{self.study}/{self.id}"

    def covers(self, case: str) -> bool:
        """Whether the claim is judged by the runs of CASE."""
        return any(fnmatchcase(case, pattern) for pattern in self.cases)


@dataclass(frozen=True)
class Source:
    """What one file has."""

    name: str
    title: str
    ours: bool = False
    claims: tuple[Claim, ...] = ()
    contents: tuple[dict[str, str], ...] = ()
    errata: tuple[dict[str, str], ...] = ()
    withdrawn: tuple[dict[str, str], ...] = ()
    changed: tuple[dict[str, str], ...] = ()


@dataclass
class Place:
    """A table of a file, for errors with its line."""

    path: Path
    lines: Sequence[str]
    #: the lines of the table; for a claim, also of [each] and of its group
    spans: tuple[range, ...]
    table: dict[str, Any] = field(default_factory=dict)

    def fail(self, reason: str, key: str = "") -> UsageError:
        """The error REASON at the line of KEY; without it, or if it is missing, of the table."""
        own = re.compile(rf"(?:.*[{{,])?\s*{re.escape(key)}\s*[.=]")
        found = (n for span in self.spans for n in span if key and own.match(self.lines[n]))
        line = next(found, self.spans[0].start)
        return UsageError(f"{self.path}:{line + 1}: {reason}")

    def check(self, required: Fields, optional: Fields) -> None:
        """All required fields, no unknown ones, of the right types, no empty text."""
        for key in (key for key in required if key not in self.table):
            raise self.fail(f"{key} is missing")
        for key, value in self.table.items():
            kind = (required | optional).get(key)
            if kind is None:
                raise self.fail(f"'{key}' is not known", key)
            wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
            if wrong or value == "":
                raise self.fail(f"{key} = {value!r} is not valid", key)

    def one_of(self, key: str, known: Sequence[str]) -> None:
        if self.table[key] not in known:
            raise self.fail(f"{key} '{self.table[key]}' is not one of {', '.join(known)}", key)


def filled(value: Any, names: dict[str, Any]) -> Any:
    """VALUE with the blanks of its strings replaced by NAMES; one that is all of a string keeps its
    type.
    """
    if isinstance(value, dict):
        return {key: filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, names) for inner in value]
    if not isinstance(value, str):
        return value
    whole = BLANK.fullmatch(value)
    return names[whole[1]] if whole else BLANK.sub(lambda blank: str(names[blank[1]]), value)


def similar(
    claims: Sequence[Place], group: dict[str, Any], lists: dict[str, Any]
) -> Iterator[Place]:
    """The CLAIMS of a GROUP, once for each combination of tables of LISTS that their `each` has."""
    # Those without `each` of their own are repeated together.
    for _, run in itertools.groupby(
        enumerate(claims), lambda one: one[0] if "each" in one[1].table else -1
    ):
        alike = [place for _, place in run]
        each = alike[0].table.get("each", group.get("each"))
        names = each if isinstance(each, list) else [] if each is None else [each]
        for name in names:
            if name not in list(lists):
                raise alike[0].fail(f"each '{name}' is not one of {', '.join(lists)}", "each")
        for chosen in itertools.product(*(lists[name] for name in names)):
            row = {key: value for one in chosen for key, value in one.items()}
            fields = {key: value for key, value in row.items() if key in FIELDS | OPTIONAL}
            for place in alike:
                table = group | fields | place.table
                table.pop("each", None)
                spans = place.spans if fields else place.spans[::2]
                try:
                    yield replace(place, spans=spans, table=filled(table, row) if row else table)
                except KeyError as error:
                    raise place.fail(f"its tables of [each] have no {error}") from None


def check_lists(place: Place) -> None:
    """That [each] has lists of tables, whose keys are fields, or blanks somewhere in the file."""
    known = {*FIELDS, *OPTIONAL, *BLANK.findall("\n".join(place.lines))}
    for name, rows in place.table.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise place.fail(f"{name} is not a list of tables", name)
        for key in (key for row in rows for key in row if key not in known):
            raise place.fail(f"'{key}' is not known", key)


def tables(path: Path, document: dict[str, Any], text: str) -> Iterator[tuple[str, Place]]:
    """The tables of a file by their kind; those of claims have the fields of their groups."""
    lines = text.splitlines()
    heads = [(n, head[1]) for n, line in enumerate(lines) if (head := HEAD.match(line))]
    rest = {name: iter(document.get(name, ())) for name in ("group", "why", *ROWS)}
    group: dict[str, Any] = {}
    found: list[Place] = []
    above = each = range(0)
    for (begin, name), (end, following) in itertools.pairwise([*heads, (len(lines), "")]):
        place = Place(path, lines, (range(begin, end),))
        if name == "group":
            group, above = dict(next(rest[name])), place.spans[0]
            rest["group.claim"] = iter(group.pop("claim", ()))
        elif name == "group.claim" and name in rest:
            found.append(Place(path, lines, (*place.spans, each, above), next(rest[name])))
            if following != name:
                yield from (
                    ("claim", one) for one in similar(found, group, document.get("each", {}))
                )
                found = []
        elif name in ("source", "each"):
            each = place.spans[0] if name == "each" else each
            yield name, replace(place, table=document[name])
        elif name in rest:
            yield name, replace(place, table=next(rest[name]))
        else:
            raise place.fail(f"no table '{name}' is known")


def accepted(place: Place) -> tuple[float, float]:
    """The range that a claim accepts."""
    claim = place.table
    numbers = dict(claim["tolerance"])
    basis, _, why = str(numbers.pop("reason", "")).partition(": ")

    def fail(reason: str) -> UsageError:
        return place.fail(reason, "tolerance")

    if not basis.strip():
        raise fail("the tolerance has no reason")
    if basis not in BASES or not why:
        raise fail(f"the tolerance's reason must be '{'|'.join(BASES)}: why'")
    for key, value in numbers.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in (*BOUNDS, *AROUND) or not number:
            raise fail(f"the tolerance's {key} = {value!r} is not valid")
    for how in AROUND:
        if how not in numbers:
            continue
        value, width = claim.get("value"), numbers[how]
        if len(numbers) > 1 or not claim["two_sided"] or value is None or width <= 0:
            raise fail(f"a tolerance by {how} is one positive number, two-sided, and needs a value")
        if how == "factor":
            return value / width, value * width
        width *= value if how == "relative" else 1
        return value - width, value + width
    if len(numbers) != (2 if claim["two_sided"] else 1):
        known = ", ".join(AROUND)
        raise fail(
            f"a two-sided tolerance has least and most, or one of {known}; another least or most"
        )
    low, high = numbers.get("least", -math.inf), numbers.get("most", math.inf)
    if low > high:
        raise fail("the tolerance's least is above its most")
    return low, high


def read_claim(place: Place, source: dict[str, Any]) -> Claim:
    place.check(FIELDS, OPTIONAL)
    found = place.table
    place.one_of("class", list(CLASSES))
    place.one_of("statistic", list(STATISTICS))
    computed = found["statistic"] == "exact"
    if computed == bool(found["seeds"]) or found["seeds"] < 0:
        raise place.fail("a computed value has 0 seeds, any other one or more", "seeds")
    if found["class"] == "number" and "value" not in found:
        raise place.fail("class number needs a value", "class")
    ran = [name.strip() for name in found["algorithm"].split(",")]
    for name in (name for name in ran if name not in source["algorithms"]):
        known = ", ".join(source["algorithms"])
        raise place.fail(f"algorithm '{name}' is not the source's ({known})", "algorithm")
    if set(ran) & set(source.get("stand_ins", ())) and "not_testable" not in found:
        raise place.fail("a claim about a stand-in is not testable: say why", "algorithm")
    low, high = accepted(place)
    hashed = {key: value for key, value in found.items() if key not in UNHASHED}
    same = {key: value for key, value in found.items() if key in Claim.__annotations__}
    return Claim(
        **same | {"cases": tuple(found["cases"])},
        kind=found["class"],
        least=low,
        most=high,
        reason=found["tolerance"]["reason"],
        ours=source.get("ours", False),
        sha256=hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest(),
    )


def renamed(place: Place, claims: dict[str, Claim]) -> dict[str, Claim]:
    """Those of CLAIMS that a [[withdrawn]] claim is now."""
    name, now = place.table["claim"], place.table.get("now")
    if name in claims:
        raise place.fail(f"the claim '{name}' is above", "claim")
    if now and now not in claims:
        raise place.fail(f"no claim '{now}' is above", "now")
    return {now: replace(claims[now], renamed=True)} if now else {}


def parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a file, and what it has."""
    try:
        text = path.read_text()
        return text, tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise UsageError(f"{path}:{line[1] if line else 1}: {error}") from None


def read(path: Path) -> Source:
    """The source in a file, with all its claims; UsageError with the line of its first mistake."""
    text, document = parsed(path)
    source: dict[str, Any] | None = None
    heads: dict[str, dict[str, Any]] = {}
    claims: dict[str, Claim] = {}
    rows: dict[str, list[dict[str, str]]] = {kind: [] for kind in ROWS}
    for kind, place in tables(path, document, text):
        if kind == "source":
            place.check(SOURCE_FIELDS, {"stand_ins": list, "ours": bool})
            source = heads[path.stem] = place.table
        elif source is None:
            raise place.fail("the first table must be [source]")
        elif kind == "each":
            if claims:
                raise place.fail("the table [each] must be above the groups")
            check_lists(place)
        elif kind == "claim":
            name = place.table.setdefault("source", path.stem)
            if name not in heads:
                other = parsed(path.parent / f"{name}.toml")[1]
                heads[name] = other.get("source", {"algorithms": []})
            claim = read_claim(place, heads[name])
            if claim.name in claims:
                raise place.fail(f"id '{claim.name}' is not unique", "id")
            claims[claim.name] = claim
        elif kind == "why":
            place.check(WHY_FIELDS, {})
            for name in place.table["of"]:
                if name not in claims:
                    raise place.fail(f"no claim '{name}' is above", "of")
                claims[name] = replace(claims[name], why=place.table["why"])
        else:
            place.check(ROWS[kind], ROWS_OPTIONAL[kind])
            if kind == "content":
                place.one_of("state", list(STATES))
            if kind == "withdrawn":
                claims |= renamed(place, claims)
            if kind == "changed":
                for name in place.table["claims"].split(", "):
                    if name not in claims:
                        raise place.fail(f"no claim '{name}' is above", "claims")
            rows[kind].append(place.table)
    if source is None:
        raise UsageError(f"{path}:1: there is no table [source]")
    return Source(
        path.stem,
        source["title"],
        bool(source.get("ours", False)),
        tuple(claims.values()),
        tuple(rows["content"]),
        tuple(rows["erratum"]),
        tuple(rows["withdrawn"]),
        tuple(rows["changed"]),
    )


@functools.cache
def sources(studies: Path | None = None) -> tuple[Source, ...]:
    """The sources of the lab's claims; of a user's STUDIES, the file beside them, if there is one.

    The published ones first.
    """
    if studies is None:
        found = sorted(map(read, sorted(OWN.glob("*.toml"))), key=lambda one: one.ours)
        claims = [claim for one in found for claim in one.claims]
        return tuple(
            replace(one, claims=tuple(claim for claim in claims if claim.source == one.name))
            for one in found
        )
    beside = studies.with_suffix(".toml")
    return (read(beside),) if beside.exists() else ()


def of(study: str, studies: Path | None = None) -> dict[str, Claim]:
    """The claims of a study, by id."""
    every = (claim for source in sources(studies) for claim in source.claims)
    return {claim.id: claim for claim in every if claim.study == study}


@functools.cache
def earlier() -> dict[str, dict[str, list[int]]]:
    """The seeds that were run before any claim was registered, by study and pattern of cases."""
    return dict(parsed(EARLIER)[1])


def ran_earlier(study: str, case: str, seed: int) -> bool:
    """Whether a run of CASE with SEED is older than all registered claims."""
    patterns = earlier().get(study, {})
    return any(seed in seeds and fnmatchcase(case, name) for name, seeds in patterns.items())
