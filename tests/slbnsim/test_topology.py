# SPDX-License-Identifier: GPL-2.0
"""slbnsim topology: generated networks have the requested properties, and run reads them."""

from __future__ import annotations

import csv
import json
import math
import os
import resource
import shlex
import signal
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import launch
from tests.slbnsim.simtools import PROGRAM, slbnsim

KINDS = ("line", "star", "parking-lot", "random", "transit-stub")


class Drawn:
    """A network and its sessions, as files and as data."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.net, self.csv = directory / "net.json", directory / "sessions.csv"
        done = slbnsim(
            *("topology", *arguments, "--out", str(self.net), "--sessions-out", str(self.csv))
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        self.topology: dict[str, Any] = json.loads(self.net.read_text())
        with self.csv.open() as file:
            self.sessions = list(csv.DictReader(file))

    def answer(self, command: str, *arguments: str) -> dict[str, Any]:
        files = ("--topology", str(self.net), "--sessions", str(self.csv))
        return launch.answer(slbnsim(command, *files, "--json", *arguments))

    @property
    def links(self) -> list[tuple[str, str]]:
        """Each is duplex."""
        assert all(one["duplex"] for one in self.topology["links"])
        return [(one["from"], one["to"]) for one in self.topology["links"]]

    def parts(self) -> int:
        """The number of connected components."""
        parent = {node: node for node in self.topology["nodes"]}

        def root(node: str) -> str:
            while parent[node] != node:
                node = parent[node]
            return node

        for a, b in self.links:
            parent[root(a)] = root(b)
        return len({root(node) for node in parent})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "needs a kind of topology"),
        ("--seed 1", "needs a kind of topology"),
        ("ring", "no kind of topology 'ring'"),
        ("line --nodes 1", "--nodes '1': must be 2 to 1000000"),
        ("star --nodes 2", "--nodes '2': must be 3 to 1000000"),
        ("random --nodes 20001", "--nodes '20001': must be 2 to 20000"),
        ("line --rate 0", "--rate '0': must be 1bit to 1tbit"),
        ("line --rate 2tbit", "--rate '2tbit': must be"),
        ("line --rate fast", "--rate 'fast': must be"),
        ("line --delay 11s", "--delay '11s': must be 0 to 10 s"),
        ("line --delay 2ms-1ms", "--delay '2ms-1ms': the second is less than the first"),
        ("line --delay 2ms-", "--delay '': must be"),
        ("line --degree 3", "--degree is not an option of line"),
        ("random --degree 0", "--degree '0': must be 1 to 1000"),
        ("random --alpha 0", "--alpha '0': must be 0.1 to 100 percent"),
        ("random --percent 3", "--percent is not an option of random"),
        ("1a --nodes 3", "--nodes is not an option of 1a"),
        ("1a --sessions 3 --sessions-out x", "--sessions is not an option of 1a"),
        ("parking-lot --sessions 3", "--sessions is not an option of parking-lot"),
        ("line --sessions 3", "sessions need --sessions-out"),
        ("line --sessions 0 --sessions-out x", "--sessions '0': must be 1 to"),
        ("line --host-delay 1ms --sessions-out x", "--host-delay needs --host-rate"),
        ("line --out x --sessions-out x", "cannot be the same file"),
        ("line --nodes", "--nodes needs a value"),
        ("line --fast", "unknown option --fast"),
        ("line up", "unexpected argument 'up'"),
        ("file", "needs --topology"),
        ("transit-stub --domains 1000 --transit 1000", "more than 1000000 routers"),
        ("transit-stub --domains 300 --top-links 0.1", "are not connected"),
        ("line --out /nowhere/x", "/nowhere/x: No such file"),
        ("line --nodes 70 --sessions 500 --sessions-out x", "has more than 64 links"),
    ],
)
def test_invalid_arguments(arguments: str, message: str) -> None:
    done = slbnsim("topology", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("slbnsim: ") and done.stderr.count("\n") == 1


def test_line_and_star(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path, "line", "--nodes", "5", "--rate", "10mbit", "--delay", "2ms")
    assert drawn.topology["nodes"] == ["n0", "n1", "n2", "n3", "n4"]
    assert drawn.links == [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4")]
    assert {(one["rate"], one["delay"]) for one in drawn.topology["links"]} == {(10**7, 0.002)}
    drawn = Drawn(tmp_path, "star", "--nodes", "50", "--delay", "1ms-3ms", "--sessions", "200")
    assert drawn.links == [("n0", f"n{n}") for n in range(1, 50)]
    delays = [one["delay"] for one in drawn.topology["links"]]
    assert 0.001 <= min(delays) < 0.0015 and 0.0025 < max(delays) <= 0.003
    # No session has an end at the central router, or both ends at the same one.
    ends = [(one["source"], one["destination"]) for one in drawn.sessions]
    assert all("n0" not in pair and pair[0] != pair[1] for pair in ends)
    assert len(ends) == 200 and len({a for a, _ in ends}) > 40
    joins = [float(one["join"]) for one in drawn.sessions]
    assert min(joins) < 0.1 and 0.9 < max(joins) <= 1
    assert statistics.fmean(joins) == pytest.approx(0.5, abs=0.1)


def test_parking_lot(tmp_path: Path) -> None:
    """Each link is shared by the long session and its own; the rates are known."""
    drawn = Drawn(tmp_path, "parking-lot", "--nodes", "5", "--rate", "100mbit")
    ends = [(one["source"], one["destination"]) for one in drawn.sessions]
    assert ends == [("n0", "n4"), ("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4")]
    found = drawn.answer("run")
    assert [one["rate"] for one in found["sessions"]] == [50_000_000] * 5
    hosts = Drawn(
        tmp_path, "parking-lot", "--nodes", "3", "--rate", "1gbit", "--host-rate", "1mbit"
    )
    assert len(hosts.topology["nodes"]) == 3 + 2 * 3
    assert [one["exact"] for one in hosts.answer("maxmin")["sessions"]] == [1e6] * 3


@pytest.mark.parametrize("degree", [2, 6])
def test_random_graph_is_waxman(tmp_path: Path, degree: int) -> None:
    """Connected, with the requested mean degree, and more short than long links."""
    arguments = ("random", "--nodes", "400", "--degree", str(degree), "--delay", "0-10ms")
    drawn = Drawn(tmp_path, *arguments)
    assert drawn.parts() == 1
    # Binomial, with a standard deviation of 5 %; and the links that connect components.
    assert 400 * degree / 2 * 0.85 < len(drawn.links) < 400 * degree / 2 * 1.15 + 100 / degree
    lengths = [one["delay"] / 0.010 for one in drawn.topology["links"]]
    # Two points of a square are 0.52 of its side apart on average, 0.37 of its diagonal.
    assert statistics.fmean(lengths) < 0.30
    assert all(0 < length <= 1 for length in lengths)
    anywhere = Drawn(tmp_path, *arguments, "--alpha", "100")
    far = [one["delay"] / 0.010 for one in anywhere.topology["links"]]
    assert statistics.fmean(far) > statistics.fmean(lengths) + 0.05


def test_sparse_random_graph_is_a_shortest_tree(tmp_path: Path) -> None:
    """With hardly any random link, the graph is connected by the shortest tree."""
    drawn = Drawn(tmp_path, "random", "--nodes", "60", "--degree", "1", "--alpha", "0.1")
    assert drawn.parts() == 1
    assert 59 <= len(drawn.links) < 75
    # Of the trees of 60 points at random the shortest has 0.65 sqrt(60) sides, 5 in all.
    length = sum((one["delay"] - 0.001) / 0.009 * 2**0.5 for one in drawn.topology["links"])
    assert 3.5 < length < 7


def test_transit_stub(tmp_path: Path) -> None:
    arguments = ("--domains", "3", "--transit", "4", "--stubs", "2", "--stub", "6")
    drawn = Drawn(tmp_path, "transit-stub", *arguments, "--sessions", "50", "--within", "500ms")
    hosts = [name for name in drawn.topology["nodes"] if ".h" in name]
    assert len(drawn.topology["nodes"]) - len(hosts) == 3 * 4 * (1 + 2 * 6)
    assert len(hosts) == 2 * 50
    assert drawn.parts() == 1
    rates = {one["rate"] for one in drawn.topology["links"]}
    assert rates == {5 * 10**9, 10**9, 10**8}
    # Hosts are behind stub routers only.
    assert all(".s" in one["source"] and ".h" in one["source"] for one in drawn.sessions)
    assert all(float(one["join"]) <= 0.5 for one in drawn.sessions)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_about_reproduce_the_files(tmp_path: Path, kind: str) -> None:
    arguments = (kind, "--host-rate", "5mbit", "--delay", "1ms-2ms")[
        : 3 if kind == "transit-stub" else 5
    ]
    one, again, other = (
        Drawn(tmp_path, *arguments, "--seed", seed).net.read_text() for seed in ("7", "7", "8")
    )
    assert one == again != other
    drawn = Drawn(tmp_path, *arguments, "--seed", "7")
    sessions = drawn.csv.read_text()
    about = shlex.split(drawn.topology["about"])
    assert about[:4] == ["slbnsim", "test", "topology", kind]
    done = slbnsim(*about[2:])
    assert json.loads(done.stdout) == drawn.topology
    assert drawn.csv.read_text() == sessions


@pytest.mark.parametrize("kind", KINDS)
def test_generated_files_run(tmp_path: Path, kind: str) -> None:
    drawn = Drawn(tmp_path, kind, "--seed", "3")
    for one in drawn.answer("run")["sessions"]:
        assert one["exact"] > 0
        assert one["rate"] == pytest.approx(one["exact"], rel=1e-4, abs=100)


@pytest.mark.parametrize("experiment", ["1a", "1b"])
def test_experiment_files_reproduce_the_experiment(tmp_path: Path, experiment: str) -> None:
    """The same counts, and the same time of the last change."""
    drawn = Drawn(tmp_path, experiment, "--percent", "3", "--seed", "5")
    arguments = ("--until", "300ms", "--seed", "5", "--data", "fluid")
    files = drawn.answer("run", *arguments)
    done = slbnsim("experiment", experiment, "--percent", "3", *arguments, "--json", "--quiet")
    inside = json.loads(done.stdout)
    for name in ("events", "control_packets", "data_packets", "last_change", "largest_overshoot"):
        assert files[name] == inside[name], name
    assert inside["events"] > 10_000 and inside["data_packets"] > 1000
    assert len(files["links"]) == inside["links"]
    assert len(drawn.topology["nodes"]) == inside["routers_and_hosts"]
    assert len(drawn.sessions) == inside["sessions"]
    sizes = [int(one["bytes"]) for one in drawn.sessions if one["bytes"]]
    assert len(sizes) == (len(drawn.sessions) if experiment == "1b" else 0)
    leaves = sum(bool(one["leave"]) for one in drawn.sessions)
    assert leaves == (300 if experiment == "1a" else 0)


def test_leaf_spine_files_reproduce_the_experiment(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path, "lan", "--percent", "50", "--seed", "2")
    assert len(drawn.sessions) == 256 + 25
    arguments = ("--until", "12ms", "--pause", "10us", "--seed", "2")
    files = drawn.answer("run", *arguments)
    more = ("--percent", "50", "--every", "1ms", "--json", "--quiet")
    done = slbnsim("experiment", "lan", *arguments, *more)
    inside = json.loads(done.stdout)
    for name in ("events", "packets", "last_change", "largest_overshoot"):
        assert files[name] == inside[name], name
    assert inside["last_change"] > 0.006


def test_file_is_written_unchanged(tmp_path: Path) -> None:
    """Reading and writing a topology again gives the same, and sessions on it."""
    drawn = Drawn(tmp_path, "random", "--nodes", "30", "--seed", "2")
    again = slbnsim("topology", "file", "--topology", str(drawn.net))
    found = json.loads(again.stdout)
    assert {**found, "about": ""} == {**drawn.topology, "about": ""}
    names: dict[str, Any] = {"nodes": ['a, "b"', "c\\d", "é"], "links": []}
    names["links"] = [
        {"from": a, "to": b, "rate": 10**6 + n, "delay": 9.123456789}
        for n, (a, b) in enumerate((("c\\d", "é"), ("é", "c\\d"), ('a, "b"', "é"), ("é", 'a, "b"')))
    ]  # fmt: skip
    drawn.net.write_text(json.dumps(names))
    files = ("--topology", str(drawn.net), "--sessions-out", str(drawn.csv), "--sessions", "40")
    done = slbnsim("topology", "file", *files)
    found = json.loads(done.stdout)
    assert found["nodes"] == names["nodes"] and found["links"] == names["links"]
    with drawn.csv.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["source"] for row in rows} == set(names["nodes"])
    assert len(drawn.answer("maxmin")["sessions"]) == 40
    # Sessions between unconnected nodes are refused.
    lonely = {"nodes": ["a", "b"], "links": []}
    drawn.net.write_text(json.dumps(lonely))
    drawn.csv.unlink()
    done = slbnsim("topology", "file", *files)
    assert done.returncode == 2 and "no path from" in done.stderr
    assert done.stdout == "" and not drawn.csv.exists()


def test_hosts_of_routers_with_long_names(tmp_path: Path) -> None:
    """Their names begin with those of the routers, and are not cut within a character."""
    names = [f"{letter}{'é' * 126}" for letter in ("a", "bb")]
    links = [{"from": names[0], "to": names[1], "rate": 10**6, "delay": 0, "duplex": True}]
    (tmp_path / "in.json").write_text(json.dumps({"nodes": names, "links": links}))
    files = ("--topology", str(tmp_path / "in.json"), "--sessions", "1", "--host-rate", "1mbit")
    drawn = Drawn(tmp_path, "file", *files)
    assert len(drawn.topology["nodes"]) == 4
    assert len(drawn.answer("maxmin")["sessions"]) == 1


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path, "line")
    name = tmp_path / os.fsdecode(b"\xff\xc3\xa9\xe2\x82\xff")
    drawn.net.rename(name)
    drawn.net = name
    found = drawn.answer("maxmin")["configuration"]["topology"]
    assert found == f"{tmp_path}/?é???"


@pytest.mark.parametrize("sessions", [False, True])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, sessions: bool) -> None:
    net, table = tmp_path / "net.json", tmp_path / "sessions.csv"
    net.write_text("mine")

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    nodes = "10" if sessions else "1000"
    words = ["topology", "star", "--nodes", nodes, "--out", str(net), "--sessions", "9000"]
    words += ["--sessions-out", str(table)]
    done = launch.run([PROGRAM, *words], preexec_fn=full)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"slbnsim: {table if sessions else net}: cannot write\n"
    assert net.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["net.json"]


def test_a_closed_pipe_leaves_no_temporary_file(tmp_path: Path) -> None:
    """The next run with the same names would be refused."""
    table = tmp_path / "sessions.csv"
    words = ["topology", "star", "--nodes", "1000", "--sessions", "9000"]
    reader, writer = os.pipe()
    os.close(reader)
    done = launch.run(
        [PROGRAM, *words, "--sessions-out", str(table)], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert done.returncode == 2
    assert done.stderr == "slbnsim: cannot write to standard output\n"
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.csv"]


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    names = ("--out", f"{tmp_path}/x", "--sessions-out", f"{tmp_path}/./x")
    done = slbnsim("topology", "line", *names)
    assert done.returncode == 2 and "cannot be the same file" in done.stderr
    assert (tmp_path / "x").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "names",
    [("x.new", "x"), ("x", "x.new"), ("-", "x"), ("link", "x")],
    ids=["temporary-second", "temporary-first", "stdout", "link"],
)
def test_files_that_become_one_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    """By the name of a temporary file, by the shell, or by a link."""
    (tmp_path / "x").write_text("mine")
    (tmp_path / "link").symlink_to("x")
    out, sessions = (name if name == "-" else f"{tmp_path}/{name}" for name in names)
    with (tmp_path / "x").open("a") as stdout:
        done = launch.run(
            [PROGRAM, "topology", "line", "--out", out, "--sessions-out", sessions], stdout=stdout
        )
    assert done.returncode == 2 and "cannot be the same file" in done.stderr
    assert (tmp_path / "x").read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


def test_file_with_the_temporary_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "x.new").write_text("mine")
    done = slbnsim("topology", "line", "--out", f"{tmp_path}/x")
    assert done.returncode == 2 and "x.new: File exists" in done.stderr
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("x.new", "mine")]


def test_help() -> None:
    for arguments in (["--help"], ["line", "--help"]):
        done = slbnsim("topology", *arguments)
        assert done.returncode == 0 and done.stderr == ""
        assert all(f"{kind}" in done.stdout for kind in (*KINDS, "file", "1a"))


def test_host_delays_are_uniform(tmp_path: Path) -> None:
    arguments = ("--host-rate", "1gbit", "--host-delay", "1us-3us", "--sessions", "300")
    drawn = Drawn(tmp_path, "line", "--nodes", "4", *arguments)
    delays = [one["delay"] for one in drawn.topology["links"] if ".h" in one["from"]]
    assert len(delays) == 600
    assert all(1e-6 <= delay <= 3e-6 for delay in delays)
    assert math.isclose(statistics.fmean(delays), 2e-6, rel_tol=0.05)
