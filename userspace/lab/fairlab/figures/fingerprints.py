# SPDX-License-Identifier: GPL-2.0
"""The fingerprint of a run: a hash of all that decides its numbers.

In virtual time, equal fingerprints mean equal numbers, so only runs with another fingerprint than
the stored one are run again.  A fingerprint covers:

- the case as JSON, the seed, the version of the kernel;
- the bytes of the files that the case declares (Runnable.sources()) and of EVERY_RUN; of headers
  below HEADERS, those that the others include, directly or not;
- the text of the study's class, and of what it uses of its module and of the studies' modules that
  this imports, but for measurements for claims, plots and texts, so that these, and other studies
  of the module, can be changed without a run.

Sources are hashed, not what was built from them: another compiler gives the same fingerprint.
After a change that cannot change a number, Gallery.restamp() accepts the stored runs as current.
"""

import ast
import hashlib
import inspect
import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fairlab.figures import study as study_module
from fairlab.figures.study import Case, Study
from fairlab.model.errors import LabError
from fairlab.net import host
from fairlab.results import plots

DIGITS = 16
STUDIES = "fairlab.figures.studies."

# The configuration of the kernel, and what a guest starts with.
EVERY_RUN = ("userspace/vm/fairvm/uml.config", "userspace/vm/fairvm/guest-init")
SOURCES = (".c", ".h", ".S", ".py")
# The project's headers, and where an #include is looked up, as in include/compat/flags.mk.
HEADERS, HEADER_PATHS = "include", ("include", "include/uapi", "include/compat")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
# Members of a Study that are made from stored numbers, or are texts.
PRESENTATION = {"draw", "rows", "table", "title", "source", "setting", "assumptions"}


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGITS]


def files(top: Path, places: Iterable[str]) -> list[Path]:
    """The files at PLACES below TOP: files, or the sources in directories."""
    found: set[Path] = set()
    for place in places:
        path = top / place
        if path.is_dir():
            found |= {p for p in path.rglob("*") if p.suffix in SOURCES or p.name == "Kbuild"}
        elif path.is_file():
            found.add(path)
        else:
            raise LabError(f"a run depends on {path}, which is not there")
    return sorted(found)


def without_unused_headers(top: Path, found: Sequence[Path]) -> list[Path]:
    """The files without those headers below HEADERS that no other of them includes."""
    headers = {path for path in found if path.is_relative_to(top / HEADERS)}
    todo = [path for path in found if path not in headers]
    used = set(todo)
    while todo:
        path = todo.pop()
        if path.suffix == ".py":
            continue
        for name in INCLUDE.findall(path.read_text(errors="replace")):
            places = (path.parent, *(top / place for place in HEADER_PATHS))
            new = {Path(os.path.normpath(place / name)) for place in places} & (headers - used)
            used |= new
            todo += new
    return sorted(used)


@cache
def _tree(top: Path, places: tuple[str, ...]) -> str:
    """The hash of all files at PLACES; those outside of the tree are absolute paths."""
    found = without_unused_headers(top, files(top, (*EVERY_RUN, *places)))
    return _hash({os.path.relpath(path, top): path.read_bytes().hex() for path in found})


def _names(node: ast.stmt) -> set[str]:
    """What a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.ImportFrom(names=names):
            return {alias.name for alias in names}
    found = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in found if isinstance(one.ctx, ast.Store)}


def _is_presentation(node: ast.stmt) -> bool:
    return any(
        name in PRESENTATION or name.lstrip("_").startswith(("measure", "draw"))
        for name in _names(node)
    )


def _parts(node: ast.stmt) -> list[Any]:
    """A statement; of a class its bases and members, but for what only presents numbers."""
    if not isinstance(node, ast.ClassDef):
        return [node]
    kept = [member for member in node.body if not _is_presentation(member)]
    return [*node.decorator_list, *node.bases, *kept]


def _imported(node: ast.AST) -> list[Path]:
    """The file of the lab's studies that a statement imports, if it does."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(STUDIES):
        return []
    name = str(node.module).removeprefix(STUDIES)
    return [Path(__file__).parent / "studies" / f"{name}.py"]


@cache
def _module(path: Path) -> tuple[list[str], list[ast.stmt]]:
    """The lines of a module, and the statements at its top."""
    text = path.read_text()
    return text.splitlines(), ast.parse(text).body


def study_files(study: Study) -> list[Path]:
    """The modules of studies that define STUDY, those that they import included."""
    found = [Path(inspect.getfile(type(study)))]
    for path in found:
        imported = {module for node in _module(path)[1] for module in _imported(node)}
        found += imported - set(found)
    return sorted(found)


@cache
def _reduction(home: Path, study: str) -> str:
    """The hash of the class STUDY in the module HOME, and of what it uses of studies' modules."""
    found: dict[str, list[str]] = {}
    todo = [(home, study)]
    while todo:
        path, name = todo.pop()
        if (key := f"{path.name} {name}") in found:
            continue
        own = found[key] = []
        lines, statements = _module(path)
        for node in statements:
            if name not in _names(node):
                continue
            if isinstance(node, ast.ImportFrom):
                todo += [(module, name) for module in _imported(node)]
                continue
            for part in _parts(node):
                own += filter(str.strip, lines[part.lineno - 1 : part.end_lineno])
                names = (one.id for one in ast.walk(part) if isinstance(one, ast.Name))
                todo += [(path, one) for one in names]
    return _hash(found)


def forget() -> None:
    """Read all files anew the next time."""
    for cached in (_tree, _module, _reduction):
        cached.cache_clear()


def drawing(study: Study) -> list[Path]:
    """The files that decide a study's plot and claims."""
    return sorted((*study_files(study), *(Path(inspect.getfile(m)) for m in (study_module, plots))))


def fingerprint(study: Study, case: Case, seed: int, kernel: str) -> str:
    """The hash of all that decides the numbers of a run."""
    top = host.tree()
    return _hash(
        {
            "what": case.what.to_json(),
            "case": case.name,
            "seed": seed,
            "kernel": kernel,
            "reduce": _reduction(Path(inspect.getfile(type(study))), type(study).__name__),
            "tree": _tree(top, case.what.sources()) if top else "",
        }
    )
