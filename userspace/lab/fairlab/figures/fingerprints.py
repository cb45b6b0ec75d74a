# SPDX-License-Identifier: GPL-2.0
"""What a run of a study depends on, as one short hash: when it is the same, so are the numbers.

In virtual time that is so, and it lets a gallery of figures run again only what has changed.  What
goes into the hash:

- what is run, as JSON, and the kernel's version;
- the sources that it names itself (Runnable.sources()): modules, programs, code of the lab; of C,
  with the files of the tree that these include;
- what `reduce` of the study reaches: functions, classes, constants; not the rest of the study, so
  that a claim can be reworded and a figure redrawn without any new run;
- how a kernel for virtual time is configured, and what a guest begins with.

What counts is what a source means: comments, docstrings and layout are left out.  It is a hash of
sources, not of what was built from them: who builds with another compiler gets the same.
"""

import ast
import dataclasses
import hashlib
import importlib.util
import inspect
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fairlab.figures.study import Case, Study
from fairlab.model.errors import LabError
from fairlab.net import host

DIGITS = 16

EVERY_RUN = ("userspace/vm/fairvm/uml.config", "userspace/vm/fairvm/guest-init")
INCLUDE_DIRECTORIES = ("include/compat", "include/uapi", "include", ".")
C_ENDINGS = (".c", ".h", ".S")
C_PARTS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL | re.VERBOSE
)
C_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# Fields of a syntax tree that say how something was written, not what.
LAYOUT = {"ctx", "kind", "type_comment", "type_ignores"}


def _meaning_of_python(node: Any) -> Any:
    """A syntax tree without what does not matter, in the same words for each Python."""
    if isinstance(node, list):
        return [_meaning_of_python(inner) for inner in node]
    if not isinstance(node, ast.AST):
        return node if node is None or isinstance(node, bool | int | float | str) else repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
    told = [(name, _meaning_of_python(value)) for name, value in sorted(fields.items())]
    return [
        type(node).__name__,
        *([name, value] for name, value in told if name not in LAYOUT and value not in (None, [])),
    ]


def meaning_of_python(text: str) -> str:
    return json.dumps(_meaning_of_python(ast.parse(text)))


def meaning_of_c(text: str) -> str:
    """C without comments and layout."""
    bare = C_PARTS.sub(lambda part: " " if part[0].startswith("/") else part[0], text)
    return " ".join(bare.split())


@cache
def meaning(path: Path) -> str:
    """What a file says; of what is neither Python nor C, every byte."""
    text = path.read_text()
    if path.suffix == ".py" or text.startswith("#!/usr/bin/python3"):
        return meaning_of_python(text)
    return meaning_of_c(text) if path.suffix in C_ENDINGS else text


@cache
def _imported(name: str) -> tuple[str, ...]:
    """The modules of the lab that a module of the lab imports."""
    path = _module_file(name)
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(sorted({name for name in found if name.startswith("fairlab.") and _exists(name)}))


@cache
def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _module_file(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LabError(f"no source of the module {name}")
    return Path(spec.origin)


def lab_modules(names: Iterable[str]) -> set[str]:
    """The modules of the lab that NAMES are or import, directly or not."""
    found: set[str] = set()
    todo = [name for name in names if name.startswith("fairlab.")]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _imported(name)
    return found


def _names_in(code: CodeType) -> set[str]:
    names = set(code.co_names) | set(code.co_freevars)
    return names.union(*(_names_in(c) for c in code.co_consts if isinstance(c, CodeType)))


class _Reached:
    """What a function of a study reaches, in the study's own file and in the lab."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.sources: dict[str, str] = {}
        self.modules: set[str] = set()
        self.home = type(study).__module__

    def _ours(self, value: Any) -> bool:
        module = str(getattr(value, "__module__", ""))
        return module == self.home or module.startswith("fairlab.")

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        value = value.fget if isinstance(value, property) else inspect.unwrap(value)
        if isinstance(value, ModuleType):
            if value.__name__.startswith("fairlab."):
                self.modules.add(value.__name__)
        elif isinstance(value, FunctionType | type):
            key = f"{value.__module__}.{value.__qualname__}"
            if self._ours(value) and key not in self.sources:
                text = textwrap.dedent(inspect.getsource(value))
                self.sources[key] = meaning_of_python(text)
                self._follow(value)
        else:
            self.sources[name] = self._constant(name, value)

    def _constant(self, name: str, value: Any) -> str:
        """What a constant says, the same in each process; functions in it are followed."""
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return repr(value)
        if isinstance(value, FunctionType | type):
            self.add(name, value)
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, Mapping):
            told = [f"{key!r}: {self._constant(name, inner)}" for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            told = [self._constant(name, inner) for inner in value]
        elif isinstance(value, set | frozenset):
            told = sorted(self._constant(name, inner) for inner in value)
        elif dataclasses.is_dataclass(value):
            told = [self._constant(name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        else:
            told = []
        return f"{type(value).__name__}({', '.join(told)})"

    def _follow(self, value: FunctionType | type) -> None:
        if isinstance(value, type):
            for inner in vars(value).values():
                if isinstance(inner, FunctionType):
                    self._follow(inner)
            return
        missing = object()
        for name in _names_in(value.__code__):
            found = value.__globals__.get(name, missing)
            if found is not missing:
                self.add(f"{value.__module__}.{name}", found)
            own = inspect.getattr_static(self.study, name, missing)
            if own is not missing:
                self.add(f"self.{name}", own)


def reduction(study: Study) -> str:
    """All that decides what a study keeps of a run."""
    reached = _Reached(study)
    reached.add("reduce", type(study).reduce)
    modules = {name: meaning(_module_file(name)) for name in lab_modules(reached.modules)}
    return _hash(reached.sources | modules)


def forget() -> None:
    """Look at all files anew, which may have changed since."""
    for kept in (meaning, _imported, _exists, _tree):
        kept.cache_clear()


def drawing(study: Study) -> list[Path]:
    """The files that decide how a study is drawn, and what it claims."""
    own = Path(inspect.getfile(type(study)))
    return sorted({own, *map(_module_file, ("fairlab.figures.study", "fairlab.results.plots"))})


def _files(path: Path) -> list[Path]:
    """The sources at a place of the tree: a file, or those below a directory."""
    if not path.is_dir():
        return [path]
    found = (p for p in path.rglob("*") if p.suffix in (*C_ENDINGS, ".py") or p.name == "Kbuild")
    return sorted(found)


def _included(top: Path, path: Path) -> list[Path]:
    """The files of the tree that a file in C includes."""
    places = [path.parent, *(top / name for name in INCLUDE_DIRECTORIES)]
    found = []
    for name in C_INCLUDE.findall(path.read_text()):
        found += [place / name for place in places if (place / name).is_file()][:1]
    return found


def tree_files(top: Path, places: Sequence[str]) -> list[Path]:
    """The files at PLACES of the tree, and what they include."""
    todo = [path for place in (*EVERY_RUN, *places) for path in _files(top / place)]
    found: set[Path] = set()
    while todo:
        path = todo.pop().resolve()
        if not path.is_file():
            raise LabError(f"a run depends on {path}, which is not there")
        if path not in found:
            found.add(path)
            todo += _included(top, path) if path.suffix in C_ENDINGS else []
    return sorted(found)


@cache
def _tree(top: Path, places: tuple[str, ...]) -> str:
    """The meaning of what a run names; places outside of the tree are whole paths."""
    files = tree_files(top, places)
    return _hash({os.path.relpath(path, top): meaning(path) for path in files})


def _hash(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:DIGITS]


def fingerprint(case: Case, seed: int, kernel: str, kept: str) -> str:
    """The hash of all that decides the numbers of a run; KEPT is its study's reduction()."""
    top = host.tree()
    parts = {
        "what": case.what.to_json(),
        "case": case.name,
        "seed": seed,
        "kernel": kernel,
        "reduce": kept,
        "tree": _tree(top, case.what.sources()) if top else "",
    }
    return _hash(parts)
