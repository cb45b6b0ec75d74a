# SPDX-License-Identifier: GPL-2.0
"""The patches of drr_fq apply to the newest kernel and iproute2, build there and pass their checks.

Both sources are Debian's, fetched for the test: about 140 MB, and 2 GB unpacked.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from fairvm import archive, source

from tests import launch
from tests.linux_source import TOP

pytestmark = pytest.mark.tier("all")

SERIES = "7.2"
WHO = "Some Maintainers <maintainers@example.org>"


def run(*command: str | Path, cwd: Path = TOP, status: int = 0) -> str:
    done = launch.run(command, cwd=cwd, environment={"MAINTAINER": WHO}, stderr=subprocess.STDOUT)
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("linux")
    source.unpack_source(SERIES, place / "tree", place / "package")
    return place / "tree"


@pytest.fixture(scope="module")
def iproute2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("iproute2")
    suites = archive.Archive((archive.BOOKWORM,), kind="deb-src")
    suites.update()
    packed = suites.download_source("iproute2", place)
    (place / "tree").mkdir()
    run("tar", "-C", place / "tree", "--strip-components=1", "-xf", packed)
    return place / "tree"


@pytest.fixture(scope="module")
def patches(linux: Path, iproute2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    trees = [f"LINUX={linux}", f"IPROUTE2={iproute2}"]
    run("make", "--silent", "upstream", *trees, f"OUT={out}")
    return out


@pytest.fixture(scope="module")
def patched_linux(linux: Path, patches: Path) -> Path:
    """One after the other, as a maintainer applies them."""
    for patch in sorted((patches / "linux").glob("000[1-9]-*")):
        run("git", "apply", "--whitespace=error-all", patch, cwd=linux)
    return linux


def test_checkpatch(patched_linux: Path, patches: Path) -> None:
    """In the tree, where its own checks of MAINTAINERS and of names see all files."""
    series = sorted((patches / "linux").glob("000[1-9]-*"))
    assert len(series) == 5
    for patch in series:
        run("perl", "scripts/checkpatch.pl", "--strict", "--quiet", patch, cwd=patched_linux)
    for patch in (patches / "iproute2").iterdir():
        # iproute2's MAINTAINERS lists no files.
        options = ["--no-tree", "--strict", "--quiet", "--ignore=FILE_PATH_CHANGES"]
        run("perl", "scripts/checkpatch.pl", *options, patch, cwd=patched_linux)


def test_cover_letter(patches: Path) -> None:
    letter = (patches / "linux" / "0000-cover-letter.patch").read_text()
    assert "***" not in letter and "@COSTS@" not in letter
    assert "[PATCH RFC net-next 0/5] net/sched: add drr_fq" in letter
    assert f"\nMade against Linux {SERIES}." in letter
    points = json.loads((TOP / "docs/bench-drr_fq.json").read_text())["points"]
    (overload,) = (
        point["ratio"]["median"]
        for point in points
        if (point["candidate"], point["load"]) == ("drr_fq", "overload")
        and (point["hashed"], point["flows"]) == (False, 10000)
    )
    assert re.search(rf"^drr_fq, overload, without a hash .* {overload:.2f}$", letter, re.MULTILINE)


def test_builds_in_the_tree(patched_linux: Path) -> None:
    """Without a warning, as a module of allmodconfig, with all that W=1 checks."""
    run("make", "--silent", "allmodconfig", cwd=patched_linux)
    assert "\nCONFIG_NET_SCH_DRR_FQ=m\n" in (patched_linux / ".config").read_text()
    jobs = f"-j{os.cpu_count()}"
    run("make", "--silent", jobs, "prepare", cwd=patched_linux)
    output = run("make", "--silent", "W=1", "net/sched/sch_drr_fq.o", cwd=patched_linux)
    assert output == "" and (patched_linux / "net/sched/sch_drr_fq.o").exists()


def test_kernel_doc(patched_linux: Path) -> None:
    files = sorted((patched_linux / "net/sched").glob("*drr_fq*.[ch]"))
    headers = ["bands_core", "core", "dscp", "heap"]
    assert [path.name for path in files] == [*(f"drr_fq_{h}.h" for h in headers), "sch_drr_fq.c"]
    assert run("scripts/kernel-doc", "-none", "-Werror", *files, cwd=patched_linux) == ""


def test_specification_is_valid(patched_linux: Path) -> None:
    """By the schema of the kernel; it has the attributes of the header, in order."""
    netlink = patched_linux / "Documentation/netlink"
    spec = yaml.safe_load((netlink / "specs/tc.yaml").read_text())
    jsonschema.validate(spec, yaml.safe_load((netlink / "netlink-raw.yaml").read_text()))
    sets = {each["name"]: each for each in spec["attribute-sets"]}
    ours = [attribute["name"] for attribute in sets["drr-fq-attrs"]["attributes"]]
    header = (TOP / "include/uapi/fairpath/drr_fq.h").read_text()
    names = re.findall(r"^\tTCA_DRR_FQ_(\w+),$", header, re.MULTILINE)
    assert [name.lower().replace("_", "-") for name in names[1:]] == ours


def test_selftests_are_new(patched_linux: Path) -> None:
    """No other test of tdc has one of their numbers."""
    tests = patched_linux / "tools/testing/selftests/tc-testing/tc-tests"
    numbers = [
        case["id"]
        for path in sorted(tests.rglob("*.json"))
        for case in json.loads(path.read_text())
    ]
    ours = {case["id"] for case in json.loads((tests / "qdiscs/drr_fq.json").read_text())}
    assert len(ours) > 20
    assert [number for number in ours if numbers.count(number) > 1] == []


def test_documentation(patched_linux: Path) -> None:
    page = patched_linux / "Documentation/networking/drr_fq.rst"
    run("/usr/bin/python3", "-m", "docutils", "--strict", "--report=info", page, "/dev/null")


def test_iproute2_builds(iproute2: Path, patches: Path) -> None:
    """Its tc then has the same usage as the plugin."""
    for patch in sorted((patches / "iproute2").iterdir()):
        run("git", "apply", "--whitespace=error-all", patch, cwd=iproute2)
    run("./configure", cwd=iproute2)
    run("make", "--silent", f"-j{os.cpu_count()}", "SUBDIRS=lib tc", cwd=iproute2)
    usage = run(iproute2 / "tc/tc", "qdisc", "add", "dev", "lo", "root", "drr_fq", "help", status=1)
    source_text = (TOP / "userspace/tc/q_drr_fq.c").read_text()
    for option in re.findall(r'\{ "([a-z_]+)", TCA_DRR_FQ', source_text):
        assert re.search(rf"\b{option}\b", usage), option
    page = iproute2 / "man/man8/tc-drr_fq.8"
    assert run("mandoc", "-T", "lint", "-W", "warning", page) == ""
    assert "plugin" not in page.read_text()


@pytest.mark.tier("check")
def test_refusals(tmp_path: Path) -> None:
    done = run("scripts/upstream", tmp_path / "out", status=2)
    assert "give --linux TREE, --iproute2 TREE or both" in done
    done = run("scripts/upstream", "--linux", tmp_path, tmp_path / "out", status=1)
    assert done == (
        f"upstream: {tmp_path} has no net/sched/Kconfig: it is not the source that is needed\n"
    )
    assert not (tmp_path / "out").exists()


def test_other_files_of_the_directory_remain(tmp_path: Path) -> None:
    """Even if it is the source tree itself."""
    loader = importlib.machinery.SourceFileLoader("upstream", str(TOP / "scripts/upstream"))
    spec = importlib.util.spec_from_loader("upstream", loader)
    assert spec
    upstream = importlib.util.module_from_spec(spec)
    sys.modules["upstream"] = upstream
    loader.exec_module(upstream)
    tree = tmp_path / "linux"
    tree.mkdir()
    (tree / "notes").write_text("mine\n")
    (tree / "0001-old.patch").write_text("from before")
    patch = upstream.Patch("1-core.txt", {"notes": lambda before: f"{before} and theirs\n"})
    upstream.write([patch], tree, tree, "PATCH", None)
    made, kept = sorted(tree.iterdir())
    assert kept.read_text() == "mine\n"
    assert made.name != "0001-old.patch" and "+mine\n" not in made.read_text()
