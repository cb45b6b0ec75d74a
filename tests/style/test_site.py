# SPDX-License-Identifier: GPL-2.0
"""The site of the documents is complete, loads nothing from elsewhere, and has no broken link."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP
from tests.style.test_style import files

pytestmark = pytest.mark.tier("all")


def site(tree: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return launch.run([tree / "scripts/site", out])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the documents, to break."""
    copy = tmp_path_factory.mktemp("tree")
    others = ("scripts/site", "LICENSE", "CITATION.cff")
    for name in files("*.md", "docs/*", "userspace/lab/*", *others):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, copy / name)
    return copy


def test_site(tmp_path: Path) -> None:
    done = site(TOP, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    documents = {Path(name).stem for name in files("docs/*.md")}
    assert len(documents) > 20 and documents <= pages
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = r'<(?:script|img|link rel="(?:stylesheet|preload)")[^>]*(?:src|href)="(https?:|//)'
        assert not re.search(loaded, page.read_text()), page
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"] if "bottleneck" in entry["text"]}
    assert any(place.startswith("glossary/") for place in found), found


@pytest.mark.parametrize(
    ("added", "error"),
    [
        ("[gone](nowhere.md)", "docs/demo.md: no file nowhere.md"),
        ("[gone](tutorial.md#no-such-step)", "demo/index.html: ../tutorial/#no-such-step"),
    ],
)
def test_broken_links_are_errors(tree: Path, tmp_path: Path, added: str, error: str) -> None:
    page = tree / "docs/demo.md"
    before = page.read_text()
    page.write_text(f"{before}\n{added}\n")
    try:
        done = site(tree, tmp_path / "site")
    finally:
        page.write_text(before)
    assert done.returncode == 1 and error in done.stderr, done.stderr
    assert not (tmp_path / "site").exists()


def test_forgotten_page_is_an_error(tree: Path, tmp_path: Path) -> None:
    page = tree / "docs/forgotten.md"
    page.write_text("# Forgotten\n")
    try:
        done = site(tree, tmp_path / "site")
    finally:
        page.unlink()
    assert done.returncode == 1 and "not in the navigation: forgotten.md" in done.stderr
