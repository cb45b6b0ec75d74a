# SPDX-License-Identifier: GPL-2.0
"""scripts/hooks/commit-msg, as git's hook and for all commits."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP

HOOK = TOP / "scripts/hooks/commit-msg"
SIGNED = "Signed-off-by: An Author <author@example.org>"
GOOD = (
    "sch_slbn: count answers",
    "slbnd, slbnctl: express rates in bit/s",
    "tests/kernel: need no route",
    "docs/compare.md: address findings",
)
BAD = {
    "count answers": "'AREA: summary'",
    "sch_slbn count: answers": "'AREA: summary'",
    "sch_slbn: the counters of answers": "'the': begin the summary with a verb",
    "sch_slbn: why answers are counted": "'why': begin",
    "sch_slbn: counting answers": "'counting': begin",
    "sch_slbn: counted answers": "'counted': begin",
    "sch_slbn: counts answers": "'counts': begin",
    "sch_slbn: count answers.": "full stop",
    f"sch_slbn: count {'answers' * 9}": "at most 72",
    "": "'AREA: summary'",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the hook."""
    environment = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null"}

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, env=environment)

    git("init", "-q")
    git("config", "user.name", "An Author")
    git("config", "user.email", "author@example.org")
    hooks = tmp_path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    shutil.copy(HOOK, hooks)
    return tmp_path


def commit(tree: Path, message: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(tree), "commit", "-q", "--allow-empty", "-m", message, *options]
    return launch.run(command)


def check_all(tree: Path) -> subprocess.CompletedProcess[str]:
    return launch.run([HOOK], cwd=tree)


@pytest.mark.parametrize("subject", GOOD)
def test_good_messages(tree: Path, subject: str) -> None:
    done = commit(tree, subject, "--signoff")
    assert done.returncode == 0, done.stderr
    assert check_all(tree).returncode == 0


@pytest.mark.parametrize("subject", BAD)
def test_bad_messages(tree: Path, subject: str) -> None:
    text = f"{subject}\n\n{SIGNED}\n"
    done = commit(tree, text, "--cleanup=verbatim")
    assert done.returncode == 1 and BAD[subject] in done.stderr, done.stderr
    assert commit(tree, text, "--cleanup=verbatim", "--no-verify").returncode == 0
    done = check_all(tree)
    assert done.returncode == 1 and BAD[subject] in done.stderr


def test_author_has_to_sign_off(tree: Path) -> None:
    for message in (GOOD[0], f"{GOOD[0]}\n\nSigned-off-by: Another <other@example.org>"):
        done = commit(tree, message)
        assert done.returncode == 1 and f"no '{SIGNED}': commit with --signoff" in done.stderr


def test_subject_stands_alone(tree: Path) -> None:
    done = commit(tree, f"{GOOD[0]}\nmore\n\n{SIGNED}")
    assert done.returncode == 1 and "the line after the subject must be empty" in done.stderr


def test_merges_are_not_checked(tree: Path) -> None:
    """Continuous integration merges what it tests, with a message of its own."""
    assert commit(tree, GOOD[0], "--signoff").returncode == 0
    git = ["git", "-C", str(tree)]
    subprocess.run([*git, "checkout", "-q", "-b", "other"], check=True)
    assert commit(tree, GOOD[1], "--signoff").returncode == 0
    subprocess.run([*git, "checkout", "-q", "-"], check=True)
    merge = ["merge", "-q", "--no-ff", "--no-verify", "-m", "the change to be tested", "other"]
    subprocess.run([*git, *merge], check=True)
    done = check_all(tree)
    assert done.returncode == 0, done.stderr


def test_shallow_clone(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for subject in GOOD:
        assert commit(tree, subject, "--signoff").returncode == 0
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    author = ["--config", "user.name=An Author", "--config", "user.email=author@example.org"]
    command = ["git", "clone", "-q", "--depth", "1", *author, tree.as_uri(), str(clone)]
    subprocess.run(command, check=True)
    done = check_all(clone)
    assert done.returncode == 0 and done.stderr == ""
    assert commit(clone, "the wrong message", "--no-verify").returncode == 0
    assert check_all(clone).returncode == 1


def test_tree_without_a_repository(tree: Path) -> None:
    """An archive, also if it was unpacked in another repository."""
    assert commit(tree, "the wrong message", "--no-verify").returncode == 0
    unpacked = tree / "unpacked"
    unpacked.mkdir()
    done = check_all(unpacked)
    assert done.returncode == 0
    assert done.stderr == "messages of commits are not checked: there is no .git\n"


def test_repository_that_git_cannot_read(tree: Path) -> None:
    (tree / ".git/HEAD").unlink()
    done = check_all(tree)
    assert done.returncode == 0
    assert done.stderr.startswith("messages of commits are not checked: fatal: not a git")
