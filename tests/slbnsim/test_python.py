# SPDX-License-Identifier: GPL-2.0
"""The Python package of slbnsim: graphs in, rows out; and its wheel, used outside of the tree.

The package does not import networkx: where that is missing, Graph has what it uses of its graphs.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import launch
from tests.slbnsim.simtools import PROGRAM, TOP

PACKAGE = TOP / "userspace/slbnsim/python"


@dataclass
class Graph:
    """As networkx.Graph or networkx.DiGraph."""

    directed: bool = False
    found: list[tuple[Any, Any, dict[str, float]]] = field(default_factory=list)

    def add_edge(self, source: Any, destination: Any, **data: float) -> None:
        self.found.append((source, destination, data))

    @property
    def nodes(self) -> list[Any]:
        return list(dict.fromkeys(node for *ends, _ in self.found for node in ends))

    def edges(self, data: bool) -> list[tuple[Any, Any, dict[str, float]]]:
        assert data
        return self.found

    def is_directed(self) -> bool:
        return self.directed


def new_graph(directed: bool = False) -> Any:
    """An empty graph."""
    try:
        networkx = importlib.import_module("networkx")
    except ModuleNotFoundError:
        return Graph(directed)
    return networkx.DiGraph() if directed else networkx.Graph()


@pytest.fixture
def slbnsim(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SLBNSIM", str(PROGRAM))
    monkeypatch.syspath_prepend(str(PACKAGE))
    yield importlib.import_module("slbnsim")
    del sys.modules["slbnsim"]


@pytest.fixture
def graph() -> Any:
    found = new_graph()
    found.add_edge("a", 2, rate=10e6, delay=0.005)
    found.add_edge(2, "c", rate=4e6, delay=0.005)
    return found


def test_rates_of_a_graph(slbnsim: Any, graph: Any) -> None:
    sessions = [slbnsim.Session("long", "a", "c"), {"id": "s", "source": "a", "destination": 2}]
    assert slbnsim.maxmin(graph, sessions) == {"long": 4e6, "s": 6e6}
    weighted = [slbnsim.Session("one", "a", 2), slbnsim.Session("three", "a", 2, weight=3)]
    assert slbnsim.maxmin(graph, weighted) == {"one": 2.5e6, "three": 7.5e6}


def test_run_has_rows(slbnsim: Any, graph: Any) -> None:
    sessions = [
        slbnsim.Session("long", "a", "c", demand=1e6),
        slbnsim.Session("short", "a", 2, join=0.000001, path=["a", 2]),
    ]
    run = slbnsim.run(graph, sessions, algorithm="slbn", seed=3, until="1s")
    assert [(row["id"], row["rate"]) for row in run.sessions] == [
        ("long", 1_000_000),
        ("short", 9_000_000),
    ]
    # An undirected edge is two links.
    ends = {(row["from"], row["to"]) for row in run.links}
    assert ends == {("a", "2"), ("2", "a"), ("2", "c"), ("c", "2")}
    assert run.answer["configuration"]["seed"] == 3
    again = slbnsim.run(graph, sessions, algorithm="slbn", seed=3, until="1s")
    assert json.dumps(again.answer) == json.dumps(run.answer)


def test_directed_edges_are_links_of_one_direction(slbnsim: Any) -> None:
    graph = new_graph(directed=True)
    graph.add_edge("a", "b", rate=10**7, delay=0)
    with pytest.raises(slbnsim.Error, match="no path"):
        slbnsim.maxmin(graph, [slbnsim.Session("s", "a", "b")])
    graph.add_edge("b", "a", rate=10**6, delay=0)
    assert slbnsim.maxmin(graph, [slbnsim.Session("s", "a", "b")]) == {"s": 1e7}


def test_experiment_has_samples(slbnsim: Any) -> None:
    found = slbnsim.experiment("lan", percent=1, until="20ms", silent=False, dead=["1@5ms"])
    assert [row["time"] for row in found.samples] == [0.01, 0.02]
    assert found.samples[0]["sources_mean"] >= 0
    assert found.sessions == []
    assert {"1a", "lan"} <= {row["name"] for row in slbnsim.experiments()}
    assert "slbn" in {row["name"] for row in slbnsim.algorithms()}


def test_bad_input_is_refused(slbnsim: Any, graph: Any) -> None:
    session = slbnsim.Session("s", "a", "c")
    for sessions, options, message in (
        ([session], {"algorithm": "none"}, "no algorithm 'none'"),
        ([session], {"no_such": 1}, "no option '--no-such'|unrecognized option|--no-such"),
        ([slbnsim.Session("s", "a", "z")], {}, "no node 'z'"),
        ([{"id": "s", "from": "a"}], {}, "unexpected keyword argument 'from'"),
    ):
        with pytest.raises(slbnsim.Error, match=message):
            slbnsim.run(graph, sessions, **options)
    graph.add_edge("c", "d", rate=1e6)
    with pytest.raises(slbnsim.Error, match=re.escape("edge c - d: needs delay, a number")):
        slbnsim.maxmin(graph, [session])
    same = new_graph()
    same.add_edge(1, "1", rate=1e6, delay=0)
    with pytest.raises(slbnsim.Error, match="same name"):
        slbnsim.maxmin(same, [])


def test_small_numbers_are_options(slbnsim: Any, graph: Any) -> None:
    """Python would write them with an exponent, which slbnsim refuses."""
    found = slbnsim.run(graph, [slbnsim.Session("s", "a", "c")], pause=1e-5)
    assert found.answer["configuration"]["pause_ns"] == 10_000


@pytest.mark.parametrize("status", ["kill -TERM $$", "exit 143"])
def test_end_by_a_signal_is_named(
    slbnsim: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: str
) -> None:
    """slbnsim ends by itself, with 128 and its number, where it prints what it has."""
    ended = tmp_path / "slbnsim"
    ended.write_text(f"#!/bin/sh\n{status}\n")
    ended.chmod(0o755)
    monkeypatch.setenv("SLBNSIM", str(ended))
    with pytest.raises(slbnsim.Error, match="Terminated"):
        slbnsim.algorithms()


def test_missing_program_is_named(slbnsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLBNSIM", "/no/such/program")
    with pytest.raises(slbnsim.Error, match="/no/such/program: No such file"):
        slbnsim.algorithms()


@pytest.mark.tier("all")
def test_wheel_needs_only_python_and_libc(tmp_path: Path) -> None:
    """The page's example, without the bridges to pandas."""
    source = tmp_path / "userspace/slbnsim/python"
    shutil.copytree(PACKAGE, source, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "VERSION", "include", "scripts", "Kbuild"):
        (tmp_path / name).symlink_to(TOP / name)
    for entry in (TOP / "userspace").iterdir():
        if entry.name != "slbnsim":
            (tmp_path / "userspace" / entry.name).symlink_to(entry)
    for entry in (TOP / "userspace/slbnsim").glob("*.[ch]"):
        shutil.copy(entry, tmp_path / "userspace/slbnsim")
    venv = tmp_path / "venv"
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--system-site-packages", str(venv)], check=True
    )
    pip = [str(venv / "bin/pip"), "--disable-pip-version-check", "--no-cache-dir", "install"]
    done = launch.succeed([*pip, "--quiet", "--no-index", "--no-build-isolation", str(source)])
    linked = launch.succeed(["ldd", *venv.glob("lib/*/site-packages/slbnsim/bin/slbnsim")])
    names = set(re.findall(r"^\s*(\S+?)\.so", linked.stdout, re.MULTILINE))
    assert names <= {"linux-vdso", "libm", "libc", "/lib64/ld-linux-x86-64"}
    version = launch.succeed([venv / "bin/slbnsim", "--version"])
    assert version.stdout == f"slbnsim {(TOP / 'VERSION').read_text().strip()}\n"
    code = "import slbnsim; print(slbnsim.algorithms()[0]['name'])"
    done = launch.succeed([venv / "bin/python", "-c", code], cwd="/")
    assert done.stdout == "slbn\n"
