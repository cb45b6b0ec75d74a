# SPDX-License-Identifier: GPL-2.0
"""The documents agree with the tree: links, paths, make targets, functions, examples, width.

Checks every Markdown file. A report that a program writes (GENERATED) is exempt from the width.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import registry

from tests import launch
from tests.linux_source import TOP
from tests.style.test_style import files

WIDTH = 80
README_LINES = 80
GENERATED = {"docs/reproduction.md"}

DOCUMENTS = files("*.md")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
#: A path of the tree: its first part is a file or directory at the top, or it is a link.
PATH = re.compile(r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.*{},-]+)*/?$")
FUNCTION = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)\(\)$")
IDENTIFIER = re.compile(r"^(?:struct |enum )?([A-Za-z][A-Za-z0-9]*_\w*|[A-Z]{5,})(?:\[\])?$")
#: What this project names. Other projects' names cannot be checked here.
OURS = re.compile(r"(tca_)?(slbn|gaimd|bic|drr_fq|fair|libslbn)", re.IGNORECASE)
MAKE = re.compile(r"\bmake ((?:[A-Z_]+=\S+ )*)([a-z][a-z-]*)")
#: Directories of generated files.
MADE = ("build/", "results/")


def is_generated(name: str) -> bool:
    return any(Path(name).match(pattern) for pattern in GENERATED)


def text_of(name: str) -> str:
    return (TOP / name).read_text()


def prose_of(name: str) -> str:
    """The text without code blocks, each of which becomes empty lines."""
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text_of(name))
    lines = text.split("\n")
    in_code = False
    for number, line in enumerate(lines):
        indented = line.startswith(("    ", "\t"))
        before = lines[number - 1] if number else ""
        in_code = indented and (in_code or not before.strip())
        if in_code:
            lines[number] = ""
    return "\n".join(lines)


def code_of(name: str) -> str:
    """The code blocks and the inline code, which contain commands."""
    text = text_of(name)
    indented = [line for line in text.split("\n") if line.startswith("    ")]
    return "\n".join(
        [*(block[0] for block in FENCE.finditer(text)), *indented, *CODE.findall(text)]
    )


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower())
        found.add(plain.replace(" ", "-"))
    return found


@cache
def make_targets() -> set[str]:
    makefiles = ("Makefile", "userspace/build.mk", "userspace/install.mk")
    rules = "".join(map(text_of, makefiles))
    phony = re.findall(r"^\.PHONY: (.+)$", rules, re.MULTILINE)
    return {target for line in phony for target in line.split()}


@cache
def defined_functions() -> set[str]:
    """All names that are followed by a parenthesis somewhere in the sources."""
    names: set[str] = set()
    for name in files("*.c", "*.h", "*.py", "*.lua", "scripts/*"):
        names.update(re.findall(r"\b([A-Za-z_]\w*)\(", (TOP / name).read_text(errors="replace")))
    return names


@cache
def known_words() -> set[str]:
    """All words of the sources."""
    words: set[str] = set()
    patterns = ("*.c", "*.h", "*.py", "*.mk", "*.in", "Makefile", "scripts/*", "tests/run")
    for name in files(*patterns):
        words.update(re.findall(r"\w+", (TOP / name).read_text(errors="replace")))
    return words


@cache
def top_names() -> set[str]:
    tracked = launch.succeed(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP
    ).stdout.split("\n")
    return {name.split("/")[0] for name in tracked if name}


def is_path(word: str) -> bool:
    """Whether WORD names a file or directory of the tree."""
    if not PATH.match(word) or word.startswith(MADE):
        return False
    return "/" in word and word.split("/")[0] in top_names()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_resolve(name: str) -> None:
    broken = []
    for target in LINK.findall(prose_of(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (TOP / name).parent / path if path else TOP / name
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_exist(name: str) -> None:
    words = [word.split(":")[0] for word in CODE.findall(prose_of(name))]
    missing = [word for word in words if is_path(word) and not list(TOP.glob(word.rstrip("/")))]
    assert missing == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_functions_exist(name: str) -> None:
    named = [match[1] for word in CODE.findall(prose_of(name)) if (match := FUNCTION.match(word))]
    ours = [function for function in named if OURS.match(function)]
    assert [function for function in ours if function not in defined_functions()] == []


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_identifiers_exist(name: str) -> None:
    """Our types, macros, arrays and everything with an underscore."""
    named = [match[1] for word in CODE.findall(prose_of(name)) if (match := IDENTIFIER.match(word))]
    ours = [word for word in named if OURS.match(word)]
    assert [word for word in ours if word not in known_words()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name: str) -> None:
    targets = [target for _, target in MAKE.findall(code_of(name))]
    assert [target for target in targets if target not in make_targets()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_tests_exist(name: str) -> None:
    """Unit tests by program and name, and expressions that select tests of a file (pytest -k)."""
    commands = code_of(name).replace("\\\n", " ")
    missing = []
    for program, test in re.findall(r"build/unit/(test_\w+) (\w+)", commands):
        if f"UNIT_TEST({test})" not in text_of(f"tests/unit/{program}.c"):
            missing.append(test)
    for file, word in re.findall(r"(tests/[\w/]+/test_\w+\.py) -k (\w+)", commands):
        if not re.search(rf"^def test\w*{word}", text_of(file), re.MULTILINE):
            missing.append(f"{file} -k {word}")
    assert missing == []


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if not is_generated(name)])
def test_prose_is_narrow(name: str) -> None:
    """Tables and lines that are long because of a link are exempt."""
    wide = []
    for number, line in enumerate(prose_of(name).split("\n"), 1):
        without_links = LINK.sub("", line)
        if len(line) > WIDTH and not line.startswith("|") and without_links == line:
            wide.append(f"{name}:{number}: {len(line)} characters")
    assert wide == []


def test_study_example(tmp_path: Path) -> None:
    """The example of a study is valid: its cases and measurements can be built without a run, and
    its claims are those that it measures.
    """
    tutorial = text_of("docs/tutorial.md")
    example = re.search(r"(?:^ {4}from .+\n)(?:(?: {4}.*)?\n)+", tutorial, re.MULTILINE)
    claims = re.search(r"(?:^ {4}\[source\]\n)(?:(?: {4}.*)?\n)+", tutorial, re.MULTILINE)
    assert example and claims
    (tmp_path / "claims.toml").write_text(textwrap.dedent(claims[0]))
    known = registry.read(tmp_path / "claims.toml").claims
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(example[0]), "docs/tutorial.md", "exec"), names)
    for study in names["STUDIES"]:
        cases = study.cases(quick=True, seed=1)
        numbers: dict[str, float] = defaultdict(lambda: 1.0)
        measured = study.measure({case.name: [numbers] for case in cases}, quick=True)
        assert cases
        assert {claim.id for claim in known if claim.study == study.name} == measured.keys()


def test_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_names_the_first_commands(command: str) -> None:
    assert command in text_of("README.md")


def test_citation_has_the_version() -> None:
    assert f"version: {text_of('VERSION').strip()}" in text_of("CITATION.cff").splitlines()


def test_security_claims_have_tests() -> None:
    """The tests that docs/security.md names exist."""
    named = set(re.findall(r"`(test_\w+)`", (TOP / "docs/security.md").read_text()))
    sources = (path.read_text() for path in (TOP / "tests").rglob("test_*.py"))
    found = {
        name for text in sources for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    }
    assert len(named) > 30 and named <= found, named - found
