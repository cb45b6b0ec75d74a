# SPDX-License-Identifier: GPL-2.0
"""The fingerprint of a run: a hash of all that decides its numbers.

In virtual time, equal fingerprints mean equal numbers, so only runs with another fingerprint than
the stored one are run again.  A fingerprint covers:

- the case as JSON, the seed, the version of the kernel;
- the bytes of the files that the case declares (Runnable.sources()) and of EVERY_RUN; of headers
  below HEADERS, those that the others include, directly or not;
- the bytes of the study's module, and of the studies' modules that it imports, but for
  measurements for claims, plots and texts of studies, so that these can be changed without a run.

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
PRESENTATION = {"draw", "table", "title", "source", "setting", "assumptions"}


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


def _is_presentation(node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in PRESENTATION or name.startswith("measure")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in PRESENTATION
    return False


@cache
def _study_files(home: Path) -> tuple[Path, ...]:
    """The module HOME, and the modules of the lab's studies that it imports, directly or not."""
    found: set[Path] = set()
    todo = [home]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(STUDIES):
                name = str(node.module).removeprefix(STUDIES).replace(".", "/")
                todo.append(Path(__file__).parent / "studies" / f"{name}.py")
    return tuple(sorted(found))


def study_files(study: Study) -> tuple[Path, ...]:
    """The modules that define STUDY."""
    return _study_files(Path(inspect.getfile(type(study))))


@cache
def _reduction(path: Path) -> str:
    """The hash of a module of studies, without what only presents numbers."""
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if _is_presentation(member) and member.end_lineno:
                lines[member.lineno - 1 : member.end_lineno] = [""] * (
                    member.end_lineno - member.lineno + 1
                )
    return _hash([line for line in lines if line.strip()])


def forget() -> None:
    """Read all files anew the next time."""
    for cached in (_tree, _study_files, _reduction):
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
            "reduce": [_reduction(path) for path in study_files(study)],
            "tree": _tree(top, case.what.sources()) if top else "",
        }
    )
