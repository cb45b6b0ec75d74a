# SPDX-License-Identifier: GPL-2.0
"""The lab as an installed Python package: `pip install userspace/lab`, used outside the tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import launch

TOP = Path(__file__).resolve().parents[2]
COMMANDS = ("run", "check", "backbone", "list", "plot", "compare", "figure", "report")
DUMBBELL = ("dumbbell", "--flows", "reno")

pytestmark = pytest.mark.tier("test")


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the lab, installed from a copy of its sources."""
    place = tmp_path_factory.mktemp("install")
    shutil.copytree(
        TOP / "userspace" / "lab",
        place / "userspace" / "lab",
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"),
    )
    shutil.copy(TOP / "VERSION", place)
    venv = place / "venv"
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--system-site-packages", str(venv)], check=True
    )
    pip = [str(venv / "bin/pip"), "--disable-pip-version-check", "--no-cache-dir", "install"]
    launch.succeed(
        [*pip, "--quiet", "--no-index", "--no-build-isolation", str(place / "userspace/lab")]
    )
    return venv


def fairlab(venv: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return launch.run(
        [str(venv / "bin/fairlab"), *words],
        cwd=venv,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(venv)},
    )


def test_version_matches_the_project(venv: Path) -> None:
    done = fairlab(venv, "--version")
    assert done.stdout == f"fairlab {(TOP / 'VERSION').read_text().strip()}\n", done.stderr


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(venv: Path, command: str) -> None:
    done = fairlab(venv, *filter(None, [command]), "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: fairlab"), done.stderr


def test_all_files_are_installed(venv: Path) -> None:
    lab = TOP / "userspace" / "lab" / "fairlab"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    installed = venv / "lib" / version / "site-packages" / "fairlab"
    for kind in ("*.py", "*.toml", "*.html", "*.css"):
        names = {str(path.relative_to(lab)) for path in lab.rglob(kind)}
        assert names == {str(path.relative_to(installed)) for path in installed.rglob(kind)}


def test_figures_are_listed(venv: Path) -> None:
    done = fairlab(venv, "figure")
    assert done.returncode == 0 and "bic-utilisation" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", *DUMBBELL, "--out", "results"),
        ("run", *DUMBBELL, "--engine", "virtual", "--out", "results"),
        ("check", *DUMBBELL),
        ("list",),
        ("backbone", "--engine", "virtual", "--out", "results"),
        ("figure", "fq-one-flow", "--quick", "--out", "figures"),
        ("figure", "slbn-levels", "--quick", "--out", "figures"),
    ],
    ids=" ".join,
)
def test_commands_that_need_the_tree_are_refused(venv: Path, words: tuple[str, ...]) -> None:
    done = fairlab(venv, *words)
    (line,) = [line for line in done.stderr.splitlines() if "tree" in line]
    assert done.returncode == 3 and done.stdout == "", done.stderr
    assert line.startswith("fairlab: ") and "run its scripts/fairlab" in line
    assert "Traceback" not in done.stderr
