# SPDX-License-Identifier: GPL-2.0
"""slbnsim: invalid input, small networks, max-min rates on random networks.

The program is built with the address and undefined-behaviour sanitizers. Its max-min
rates are compared with fairlab.maxmin, which computes with fractions.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fairlab.slbn import maxmin

from tests import launch
from tests.slbnsim.simtools import slbnsim

HEAD = "id,source,destination,join,leave,demand,bytes"
#: Algorithms with exact rates, and those that measure data and come near.
EXACT = ("slbn", "slbn-1", "slbn-paper", "bfyz", "sperc")
MEASURING = ("erica", "rcp", "piqi-rcp", "xcp")
ALGORITHMS = (*EXACT, "erica", "cobb", "rcp", "piqi-rcp", "xcp")
#: Rounding: the remainder of a division at each hop, for each session there.
REMAINDER = 1e-4


def link(a: str, b: str, rate: float, delay: float, duplex: bool = True) -> dict[str, Any]:
    return {"from": a, "to": b, "rate": rate, "delay": delay, "duplex": duplex}


#: a ─ 1 Gbit/s, 5 ms ─ b ─ 500 Mbit/s, 2 ms ─ c ─ 100 Mbit/s, 1 ms ─ d
LINE: dict[str, list[Any]] = {
    "nodes": ["a", "b", "c", "d"],
    "links": [
        link("a", "b", 1e9, 0.005),
        link("b", "c", 5e8, 0.002),
        link("c", "d", 1e8, 0.001),
    ],
}


class Case:
    """A topology and sessions, as files."""

    def __init__(self, directory: Path, topology: Any, *rows: str, head: str = HEAD) -> None:
        self.topology, self.sessions = directory / "net.json", directory / "sessions.csv"
        text = topology if isinstance(topology, str) else json.dumps(topology, indent=0)
        self.topology.write_text(text)
        self.sessions.write_text("".join(f"{row}\n" for row in (head, *rows)))

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        files = ["--topology", str(self.topology), "--sessions", str(self.sessions)]
        return slbnsim(command, *files, *options)

    def answer(self, command: str, *options: str) -> dict[str, Any]:
        return launch.answer(self.run(command, "--json", *options))

    def refused(self, command: str = "maxmin") -> str:
        done = self.run(command)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "needs a command"),
        ("jump", "no command 'jump'"),
        ("run", "needs --topology and --sessions"),
        ("run --topology x --sessions y --fast", "unknown option --fast"),
        ("run --topology x --sessions y more", "unexpected argument 'more'"),
        ("run --topology x --sessions", "--sessions needs a value"),
        ("run --topology - --sessions -", "cannot be the same file"),
        ("maxmin --topology x --sessions y --seed 1", "--seed is not an option of maxmin"),
        ("run --algorithm best", "no algorithm 'best'"),
        ("run --until 1h", "--until '1h': must be"),
        ("run --until -1s", "--until '-1s': must be"),
        ("run --seed x", "--seed 'x': must be"),
        ("run --pause 11s", "--pause '11s': must be 0 to 10 s"),
        ("run --control 101", "--control '101': must be 0 to 100 percent, in steps of 0.0001"),
        ("run --control 0.00001", "--control '0.00001': must be"),
        ("run --control 1.00005", "--control '1.00005': must be"),
        ("run --loss 0.00009", "--loss '0.00009': must be"),
        ("run --headroom 51", "--headroom '51': must be 0 to 50 percent, in steps of 0.1"),
        ("maxmin --headroom 50.1", "--headroom '50.1': must be"),
        ("experiment 1a --headroom -1", "--headroom '-1': must be"),
        ("run --headroom 0.05", "--headroom '0.05': must be"),
        ("run --headroom automatic", "--headroom 'automatic': must be"),
        ("experiment 1a --headroom auto", "only run has it"),
        ("maxmin --headroom auto", "only run has it"),
        ("run --headroom auto --algorithm bfyz", "bfyz has no headroom: only slbn"),
        ("experiment 1a --headroom 5 --algorithm bfyz", "bfyz has no headroom: only slbn"),
        ("run --initial-rate 5", "slbn has no initial rate: only rcp and piqi-rcp do"),
        ("run --initial-rate 0", "--initial-rate '0': must be 0.1 to 100 percent"),
        ("run --initial-rate 100.1", "--initial-rate '100.1': must be"),
        ("maxmin --initial-rate 5", "--initial-rate is not an option of maxmin"),
        ("run --target-delay 1ms", "slbn has no target delay: only erica does"),
        ("run --target-delay 0", "--target-delay '0': must be above 0, at most 10 s"),
        ("run --decay 80", "slbn has no averages: only erica does"),
        ("run --decay 99.1", "--decay '99.1': must be 0 to 99 percent"),
        ("run --epoch 9ms", "--epoch '9ms': must be 10ms to 3600s, or 0: never rotate"),
        ("run --epoch 3601", "--epoch '3601': must be 10ms to 3600s"),
        ("run --epoch -1", "--epoch '-1': must be"),
        ("experiment 1a --epoch often", "--epoch 'often': must be"),
        ("run --epoch", "--epoch needs a value"),
        ("maxmin --epoch 1s", "--epoch is not an option of maxmin"),
        ("run --epoch 1s --algorithm bfyz", "bfyz has no epochs: only slbn and slbn-1 do"),
        ("experiment 1a --epoch 0 --algorithm slbn-paper", "slbn-paper has no epochs"),
        ("run --data 10", "--data '10': must be 40 to 65535"),
        ("run --topology /nowhere --sessions y", "/nowhere: No such file"),
    ],
)
def test_invalid_arguments(arguments: str, message: str) -> None:
    done = slbnsim(*arguments.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("slbnsim: ")
    assert done.stdout == ""


def test_help_and_algorithms() -> None:
    for arguments in (["--help"], ["run", "--help"]):
        done = slbnsim(*arguments)
        assert done.returncode == 0
        assert "--algorithm NAME" in done.stdout
    assert [line.split()[0] for line in slbnsim("algorithms").stdout.splitlines()] == [*ALGORITHMS]
    files = ("--topology", "x", "--sessions", "y")
    for algorithm in MEASURING:
        done = slbnsim("run", "--algorithm", algorithm, *files)
        assert done.returncode == 2
        assert f"{algorithm} measures data: needs --data" in done.stderr


# --- invalid files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", 1, "the file ends: expected an object"),
        ('{"nodes": ["a"],\n"links": [}', 2, "expected an object for each link"),
        ('{"nodes": ["a"],\n"links": []', 2, "the file ends: expected ',' or '}'"),
        ("[]", 1, 'expected an object with "nodes" and "links"'),
        ("7", 1, "expected an object"),
        ("{}", 1, 'a topology needs "nodes" and "links"'),
        ('{"nodes": ["a"]}', 1, 'a topology needs "nodes" and "links"'),
        ('{"nodes": ["a"],\n"links": [],\n"colour": 1}', 3, "unknown key 'colour'"),
        ('{"nodes": [],\n"nodes": []}', 2, 'duplicate key "nodes"'),
        ('{"nodes": ["a",\n"a"], "links": []}', 2, "duplicate node 'a'"),
        ('{"nodes": ["a",\n""], "links": []}', 2, "a name must have 1 to 255 bytes"),
        ('{"nodes": ["a\\u0000b"], "links": []}', 1, "no control characters"),
        ('{"nodes": ["a", 1], "links": []}', 1, "expected a name"),
        ('{"nodes": {"a": 1}, "links": []}', 1, '"nodes" and "links" to be arrays'),
        ('{"nodes": [["a"]], "links": []}', 1, "expected a name"),
        ('{"nodes": ["a"], "links": ["a"]}', 1, "expected an object for each link"),
    ],
)
def test_invalid_topologies(tmp_path: Path, text: str, where: int, message: str) -> None:
    error = Case(tmp_path, text).refused()
    assert f"net.json:{where}: " in error
    assert message in error


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ('"from": "a", "to": "b", "rate": 1', 'the link has no "delay"'),
        ('"from": "a", "to": "x", "rate": 1, "delay": 0', "no node 'x'"),
        ('"from": "a", "to": "a", "rate": 1, "delay": 0', "a link from 'a' to itself"),
        ('"from": "a", "to": "b", "rate": 0, "delay": 0', "rate 0: must be 1 to 1e12"),
        ('"from": "a", "to": "b", "rate": -5, "delay": 0', "rate -5: must be"),
        ('"from": "a", "to": "b", "rate": 1e999, "delay": 0', "must be 1 to 1e12"),
        ('"from": "a", "to": "b", "rate": 1, "delay": -1', "delay -1: must be 0 to 10"),
        ('"from": "a", "to": "b", "rate": 1, "delay": 11', "delay 11: must be 0 to 10"),
        ('"from": "a", "to": "b", "rate": "1", "delay": 0', '"rate" has the wrong type'),
        ('"from": 1, "to": "b", "rate": 1, "delay": 0', '"from" has the wrong type'),
        ('"from": "a", "to": "b", "rate": null, "delay": 0', '"rate" has the wrong type'),
        (
            '"from": "a", "to": "b", "rate": 1, "delay": 0, "duplex": 1',
            '"duplex" has the wrong type',
        ),
        ('"from": "a", "from": "b"', 'duplicate key "from"'),
        ('"from": "a", "length": 2', "unknown key 'length'"),
        ('"from": "a", "to": "b", "rate": 1, "delay": 01', "expected ',' or '}'"),
        ('"from": "a", "to": "b", "rate": 1., "delay": 0', '"rate" has the wrong type'),
        ('"from": "a", "to": "b", "rate": +1, "delay": 0', '"rate" has the wrong type'),
        ('"from": "a", "to": "b", "rate": 1e, "delay": 0', '"rate" has the wrong type'),
        ('"from": "a", "to": "b", "rate": NaN, "delay": 0', '"rate" has the wrong type'),
        (f'"from": "a", "rate": {"1" * 100}', f"rate {'1' * 40}: must be 1 to 1e12"),
        (f'"from": {"[" * 100000}', '"from" has the wrong type'),
        ('"from": "a", "to": "b", "rate": 1, "delay": 0,', "expected a key in quotes"),
        ('"from": "a" "to": "b"', "expected ',' or '}'"),
        ('"from" "a"', "expected ':' after a key"),
        ("'from': 'a'", "expected a key in quotes"),
        ('/* the first */ "from": "a"', "expected a key in quotes"),
        (r'"from": "\x61"', "invalid escape in string"),
        (r'"from": "\u00"', "invalid escape in string"),
        ('"duplex": trve', '"duplex" has the wrong type'),
    ],
)
def test_invalid_links(tmp_path: Path, members: str, message: str) -> None:
    good = json.dumps(link("b", "c", 1e6, 0))
    text = f'{{"links": [\n{good},\n{{{members}}}\n],\n"nodes": ["a", "b", "c"]}}'
    error = Case(tmp_path, text).refused()
    assert "net.json:3: " in error
    assert message in error


def test_escapes_in_names(tmp_path: Path) -> None:
    """A backslash, a quote, and a character in two units of UTF-16."""
    text = r"""{"no\u0064es": ["a\\", "\"\/", "\ud83d\ude00"], "links": [
        {"from": "a\u005c", "to": "\u0022/", "rate": 1e6, "delay": 0, "duplex": true},
        {"from": "\"\/", "to": "😀", "rate": 2e6, "delay": 0, "duplex": true}]}"""
    found = Case(tmp_path, text, "s,a\\,😀,0,,,").answer("maxmin")
    assert found["sessions"] == [{"id": "s", "exact": 1e6}]


def test_duplicate_link(tmp_path: Path) -> None:
    links = [link("a", "b", 1, 0), link("c", "b", 1, 0), link("b", "a", 1, 0), link("c", "a", 1, 0)]
    rows = ",\n".join(map(json.dumps, links))
    text = f'{{"nodes": ["a", "b", "c"], "links": [\n{rows}]}}'
    assert "net.json:4: duplicate link from 'b' to 'a'" in Case(tmp_path, text).refused()


@pytest.mark.parametrize(
    ("octets", "where", "message"),
    [
        (b'{"nodes": ["a",\n"\xff"], "links": []}', 2, "not UTF-8"),
        (b'{"nodes": ["a",\n"\xc3"], "links": []}', 2, "not UTF-8"),
        (b'{"nodes": ["a",\n"b\0"], "links": []}', 2, "control character in a string"),
        (b'{"nodes": ["a",\n\0"b"], "links": []}', 2, "expected a name"),
        (b'{"nodes": ["a",\n"\\u001b[2J"], "links": []}', 2, "no control characters"),
        (
            b'{"nodes": [\n"' + b"a" * 256 + b'"], "links": []}',
            2,
            "a name must have 1 to 255 bytes",
        ),
        (b'{"nodes": ["a"],\n"no\\u001b[2Jdes": []}', 2, "unknown key 'no?[2Jdes'"),
        (b'{"nodes": [],\r\n"links": [],\r\n"about": 7}', 3, '"about" a string'),
        (b'{"nodes": [], "links": []}\n{}', 2, "expected the end of the file"),
        (b"\xff\xfe{\0}\0", 1, "not UTF-8"),
        (b"nodes: [a]", 1, "expected an object"),
    ],
)
def test_malformed_topologies(tmp_path: Path, octets: bytes, where: int, message: str) -> None:
    case = Case(tmp_path, LINE)
    case.topology.write_bytes(octets)
    error = case.refused()
    assert f"net.json:{where}: " in error
    assert message in error


@pytest.mark.parametrize("part", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_truncated_topology(tmp_path: Path, part: float) -> None:
    text = json.dumps({**LINE, "about": "a line"}, indent=1)
    text = text[: int(part * len(text))]
    error = Case(tmp_path, text).refused()
    assert f"net.json:{text.count(chr(10)) + 1}: " in error
    assert "the file ends: expected " in error


@pytest.mark.parametrize(
    ("octets", "where", "message"),
    [
        (b"s1,a,d,0,,,\n\xff,a,d,0,,,\n", 3, "id: a name must be UTF-8"),
        (b"s1,a,d,0,,,\n\xed\xa0\x80,a,d,0,,,\n", 3, "id: a name must be UTF-8"),
        (b"s1,a,d,0,,,\n\xc0\xaf,a,d,0,,,\n", 3, "id: a name must be UTF-8"),
        (b"s1,a,d,0,,,\n\x1b[2J,a,d,0,,,\n", 3, "id: a name must have no control characters"),
        (b"s1,a,d,0,,,\r\ns1,a,d,0,,,\r\n", 3, "duplicate session 's1', first in line 2"),
        (b's1,a,d,0,,,\n"s2\n",a,d,0,,,\n', 3, "unterminated quote"),
        (b"s1,a,d,0,,,\ns2,a,d,0,,1e400,\n", 3, "demand '1e400': must be"),
        (b"s1,a,d,0,,,\ns2,a,d,1e10,,,\n", 3, "join '1e10': must be 0 to 1e9"),
        (b"s1,a,d,0,,,\ns2,a,d,0,,0x10,\n", 3, "demand '0x10': must be"),
        (b"s1,a,d,0,,,\ns2,a,d,0,,,1e16\n", 3, "bytes '1e16': must be"),
        (b"s1,a,d,0,,,\ns2,a,d,,1,\xe2\x82\xac,\n", 3, "demand '\u20ac': must be"),
    ],
)
def test_malformed_sessions(tmp_path: Path, octets: bytes, where: int, message: str) -> None:
    case = Case(tmp_path, LINE)
    case.sessions.write_bytes(HEAD.encode() + b"\n" + octets)
    error = case.refused()
    assert f"sessions.csv:{where}: " in error
    assert message in error
    assert len(error) < 2000


def test_huge_lines(tmp_path: Path) -> None:
    """Invalid ones are reported like short ones, and truncated in the error message."""
    huge = 10_000_000
    for text, message in (
        ('{"nodes": [\n"' + "a" * huge + '"], "links": []}', "a name must have 1 to 255 bytes"),
        ('{"nodes":\n' + "[" * huge, "expected a name"),
        ('{"nodes": [],\n"' + "a" * huge + '": []}', "unknown key 'aaa"),
        ('{"links": [{\n"rate": ' + "1" * huge + "}]}", "must be 1 to 1e12 bit/s"),
    ):
        error = Case(tmp_path, text).refused()
        assert "net.json:2: " in error and message in error and len(error) < 1000
    for row, message in (
        ("s" * huge + ",a,d,0,,,", "id: a name must have 1 to 255 bytes"),
        ("," * huge, "more than 9 fields"),
        ("s," + "x" * huge + ",d,0,,,", "no node 'xxx"),
        ("s,a,d," + "0" * huge + "x,,,", "join '000"),
        ('"' + "s" * huge, "unterminated quote"),
    ):
        error = Case(tmp_path, LINE, row).refused()
        assert "sessions.csv:2: " in error and message in error and len(error) < 1000
    path = ">".join("ab" * huge)
    error = Case(tmp_path, LINE, f"s,a,b,0,,,,{path}", head=f"{HEAD},path").refused()
    assert "sessions.csv:2: a path has at most 64 links" in error


def test_line_endings_byte_order_mark_and_scripts(tmp_path: Path) -> None:
    """CR LF, a byte order mark, empty lines, names in any script."""
    topology = {"nodes": ["Zürich", "東京"], "links": [link("Zürich", "東京", 1e6, 0)]}
    case = Case(tmp_path, topology)
    mark = b"\xef\xbb\xbf"
    case.topology.write_bytes(
        mark + json.dumps(topology, indent=1, ensure_ascii=False).replace("\n", "\r\n").encode()
    )
    rows = f"{HEAD}\n\nß,Zürich,東京,0,,,\n\n"
    case.sessions.write_bytes(mark + rows.replace("\n", "\r\n").encode())
    assert case.answer("maxmin")["sessions"] == [{"id": "ß", "exact": 1e6}]


def test_a_million_rows(tmp_path: Path) -> None:
    """An error in the last row is reported with its line number."""
    case = Case(tmp_path, LINE)
    rows = "".join(f"{n},a,b,0,,,\n" for n in range(1_000_000))
    case.sessions.write_text(f"{HEAD}\n{rows}7,a,b,0,,,\n")
    assert "sessions.csv:1000002: duplicate session '7', first in line 9" in case.refused()
    case.sessions.write_text(f"{HEAD}\n{rows}")
    done = case.run("maxmin")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split() == ["999999", "1000.000"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s2,a,b,0,,", "6 fields, expected 7"),
        ("s2,a,b,0,,,,", "8 fields, expected 7"),
        ('s2,"a,b,0,,,', "unterminated quote"),
        ("s1,a,b,0,,,", "duplicate session 's1', first in line 2"),
        (",a,b,0,,,", "id: a name must have 1 to 255 bytes"),
        ("s2,x,b,0,,,", "no node 'x'"),
        ("s2,a,x,0,,,", "no node 'x'"),
        ("s2,a,a,0,,,", "a session from 'a' to itself"),
        ("s2,a,e,0,,,", "no path from 'a' to 'e'"),
        ("s2,a,b,-1,,,", "join '-1': must be 0 to 1e9"),
        ("s2,a,b,0,soon,,", "leave 'soon': must be"),
        ("s2,a,b,2,1,,", "leave must be after join"),
        ("s2,a,b,0,,0,", "demand '0': must be 1 to 1e12"),
        ("s2,a,b,0,,-3,", "demand '-3': must be"),
        ("s2,a,b,0,,nan,", "demand 'nan': must be"),
        ("s2,a,b,0,,,0.5", "bytes '0.5': must be"),
    ],
)
def test_invalid_sessions(tmp_path: Path, row: str, message: str) -> None:
    lonely = {**LINE, "nodes": [*LINE["nodes"], "e"]}
    error = Case(tmp_path, lonely, "s1,a,d,0,,,", row, "s3,b,c,0,,,").refused("run")
    assert "sessions.csv:3: " in error
    assert message in error


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a>x>c", "no node 'x'"),
        ("a>c", "no link from 'a' to 'c'"),
        ("b>c", "the path does not begin at 'a'"),
        ("a>b", "the path does not end at 'c'"),
        ("a>b>a>b>c", "the path crosses 'a' twice"),
        ("a>o>c", "no reverse link from 'o' to 'a'"),
        ("a", "the path does not end at 'c'"),
    ],
)
def test_invalid_paths(tmp_path: Path, path: str, message: str) -> None:
    one_way = [link("a", "o", 1e6, 0, duplex=False), link("o", "c", 1e6, 0)]
    topology = {"nodes": [*LINE["nodes"], "o"], "links": [*LINE["links"], *one_way]}
    error = Case(tmp_path, topology, f"s1,a,c,0,,,,{path}", head=f"{HEAD},path").refused()
    assert "sessions.csv:2: " in error
    assert message in error


def test_sessions_without_header_or_line_end(tmp_path: Path) -> None:
    case = Case(tmp_path, LINE)
    for text, where, message in (
        ("", 1, "the first line must be id,source"),
        ("s1,a,b,0,,,\n", 1, "the first line must be id,source"),
        (f"{HEAD},colour\n", 1, "the first line must be id,source"),
        (f"{HEAD}\ns1,a,b,0,,", 2, "6 fields, expected 7"),
        (f"{HEAD}\ns1,a,b,0,\0,,\n", 2, "NUL byte"),
    ):
        case.sessions.write_text(text)
        error = case.refused()
        assert f"sessions.csv:{where}: " in error
        assert message in error


def test_last_line_without_line_end(tmp_path: Path) -> None:
    """RFC 4180, section 2: it may have none."""
    case = Case(tmp_path, LINE)
    case.sessions.write_text(f"{HEAD}\ns1,a,b,0,,,\ns2,a,b,0,,100,")
    assert [one["exact"] for one in case.answer("maxmin")["sessions"]] == [1e9 - 100, 100]


@pytest.mark.parametrize(
    "names", ["path,weight", "weight,path", "weight", "path", "weight,weight", "path,path", "id"]
)
def test_optional_columns(tmp_path: Path, names: str) -> None:
    """In any order, found by their names in the first line."""
    values = {"path": "a>b>c", "weight": "3", "id": ""}
    row = ",".join(values[name] for name in names.split(","))
    case = Case(tmp_path, LINE, f"s,a,c,0,,,,{row}", head=f"{HEAD},{names}")
    if names in ("weight,weight", "path,path", "id"):
        assert "sessions.csv:1: the first line must be id,source" in case.refused()
    else:
        session = {"id": "s", "exact": 5e8, **({"weight": 3} if "weight" in names else {})}
        assert case.answer("maxmin")["sessions"] == [session]


def test_path_of_too_many_links(tmp_path: Path) -> None:
    nodes = [f"n{i}" for i in range(67)]
    links = [link(a, b, 1e9, 0.001) for a, b in pairwise(nodes)]
    topology = {"nodes": nodes, "links": links}
    assert "more than 64 links" in Case(tmp_path, topology, "s,n0,n66,0,,,").refused()
    fits = Case(tmp_path, topology, "s,n1,n65,0,,,").answer("run", "--until", "2")
    assert fits["sessions"][0]["rate"] == 10**9


# --- results ------------------------------------------------------------------------------------


def test_sessions_on_a_line(tmp_path: Path) -> None:
    rows = ["far,a,d,0,,,", "far2,a,d,0.01,,,", "mid,a,c,0.2,,,", "small,a,b,0,,1e7,"]
    rows.append("gone,b,c,0,1,,")
    case = Case(tmp_path, LINE, *rows)
    for algorithm in EXACT:
        found = case.answer("run", "--algorithm", algorithm)
        rates = {one["id"]: one["rate"] for one in found["sessions"]}
        wanted = {"far": 5e7, "far2": 5e7, "mid": 4e8, "small": 1e7, "gone": 0}
        assert rates == wanted
        assert {one["id"]: one["exact"] for one in found["sessions"]} == wanted
        assert 1 < found["last_change"] < 2
        assert found["configuration"]["algorithm"] == algorithm
        assert found["configuration"]["until_ns"] == 6 * 10**9
    # All sessions of the file.
    exact = case.answer("maxmin")["sessions"]
    assert [one["exact"] for one in exact] == [5e7, 5e7, 2e8, 1e7, 2e8]


def test_default_path_has_the_least_delay(tmp_path: Path) -> None:
    detour = [link("a", "x", 1e6, 0.001), link("x", "c", 1e6, 0.001)]
    topology = {"nodes": [*LINE["nodes"], "x"], "links": [*LINE["links"], *detour]}
    by_delay = Case(tmp_path, topology, "s,a,c,0,,,").answer("maxmin")
    assert by_delay["sessions"][0]["exact"] == 1e6
    answer = Case(tmp_path, topology, "s,a,c,0,,,,a>b>c", head=f"{HEAD},path").answer("maxmin")
    assert answer["sessions"][0]["exact"] == 5e8


def test_quoted_fields(tmp_path: Path) -> None:
    topology = {"nodes": ['a, "b"', "c"], "links": [link('a, "b"', "c", 1e6, 0)]}
    case = Case(tmp_path, topology, '"s, 1","a, ""b""",c,0,,,')
    assert case.answer("maxmin")["sessions"] == [{"id": "s, 1", "exact": 1e6}]


def test_times_are_rounded(tmp_path: Path) -> None:
    """270.335 is slightly less as a double."""
    case = Case(tmp_path, LINE, "s,a,d,,,,")
    for until, wanted in (("270.335", 270_335_000_000), ("0.6ns", 1), ("0.4ns", 0)):
        found = case.answer("run", "--until", until)
        assert found["configuration"]["until_ns"] == wanted


def test_delay_and_transmission_time(tmp_path: Path) -> None:
    """A cycle takes the delays, and the packets' bits over the links' rates."""
    case = Case(tmp_path, LINE, "s,a,d,0,,,")
    found = case.answer("run", "--until", "1", "--pause", "0", "--control", "0")
    sent = {(one["from"], one["to"]): one["control_bytes"] for one in found["links"]}
    # Packets of three hops, with the length of the kernel's.
    size = sent["a", "b"] // math.ceil(found["control_packets"] / 6)
    cycle = 2 * 0.008 + 2 * 8 * size * (1e-9 + 2e-9 + 1e-8)
    assert found["cycles"] == math.floor(1 / cycle)


def test_overshoot_is_queued(tmp_path: Path) -> None:
    """A second session joins: both send at full rate until the first is notified."""
    rows = ("s,a,d,0,,,", "t,b,d,0.5,,,")
    case = Case(tmp_path, LINE, *rows)
    found = case.answer("run", "--algorithm", "slbn-1", "--until", "2", "--data", "1250")
    sessions = {one["id"]: one for one in found["sessions"]}
    assert {name: one["rate"] for name, one in sessions.items()} == {"s": 5e7, "t": 5e7}
    # 100 Mbit/s for half a second, then half of it.
    assert sessions["s"]["arrived"] == pytest.approx((0.5 * 1e8 + 1.5 * 5e7) / 8, rel=0.03)
    last = next(one for one in found["links"] if (one["from"], one["to"]) == ("c", "d"))
    assert 0.2 <= last["overshoot"] <= 0.51
    assert 0 < last["longest_wait_ns"] < 0.1e9
    # Data that has passed the last link has arrived, or is under way.
    arrived = sum(one["arrived"] for one in sessions.values())
    assert 0 <= last["data_bytes"] - arrived <= 1e8 / 8 * 0.1


def test_sized_session_leaves(tmp_path: Path) -> None:
    """A session of a million bytes leaves when it has sent them; the other has the rest."""
    rows = ("s,a,d,0,,,1000000", "t,a,d,0,,,")
    found = Case(tmp_path, LINE, *rows).answer("run", "--until", "3", "--data", "1000")
    sessions = {one["id"]: one for one in found["sessions"]}
    assert sessions["s"]["arrived"] == 1_000_000
    assert 0.16 < sessions["s"]["complete"] < 0.25
    assert sessions["s"]["rate"] == sessions["s"]["exact"] == 0
    assert sessions["t"]["rate"] == sessions["t"]["exact"] == 1e8


def test_fluid_matches_packets(tmp_path: Path) -> None:
    """Both models of data: received data and queueing delays differ by a few packets."""
    rows = ("s,a,d,0,,,", "t,b,d,0.5,,,", "u,a,c,0.2,1.5,,", "v,a,b,0,,3e7,", "w,c,d,0.1,,,500000")
    case = Case(tmp_path, LINE, *rows)
    fluid, packets = (
        case.answer("run", "--algorithm", "slbn-1", "--until", "2", "--data", kind)
        for kind in ("fluid", "500")
    )
    for one, other in zip(fluid["sessions"], packets["sessions"], strict=True):
        assert one["rate"] == pytest.approx(other["rate"], rel=1e-6)
        # Packets count when they arrive, a fluid when it is sent.
        under_way = other["rate"] / 8 * 0.04 + 5000
        assert -20_000 <= one["arrived"] - other["arrived"] <= under_way
        if "complete" in other:
            assert one["complete"] == pytest.approx(other["complete"], abs=0.005)
    for one, other in zip(fluid["links"], packets["links"], strict=True):
        assert one["longest_wait_ns"] == pytest.approx(other["longest_wait_ns"], abs=2e6)
        assert one["data_bytes"] == pytest.approx(other["data_bytes"], rel=0.02, abs=2000)
    assert fluid["events"] < packets["events"] / 20


#: The range of rates, as fractions of C / 4, of 4 sessions on a link of C = 100 Mbit/s.
ALONE = {
    "erica": (0.9, 1.1),  # the target of ERICA+ is above C while the queue is empty
    "rcp": (0.95, 1.01),  # its rate is reduced by a queue of a few packets
    "piqi-rcp": (0.99, 1.01),
    "xcp": (0.97, 1.03),
}


@pytest.mark.parametrize("algorithm", ALONE)
@pytest.mark.parametrize("data", ["fluid", "1000"])
def test_measuring_algorithms_on_one_link(tmp_path: Path, algorithm: str, data: str) -> None:
    """Sessions with different round-trip times share one link equally.

    They join seconds apart: RCP assigns the whole link to each session that joins, and if many
    join at once, its unlimited queue takes long to drain.
    """
    # ERICA's own target delay is for shorter paths (erica.c).
    more = ("--target-delay", "30ms", "--decay", "0") if algorithm == "erica" else ()
    words = ("--algorithm", algorithm, "--data", data, *more)
    found = on_one_link(tmp_path, *words, apart=5, until=40)
    low, high = ALONE[algorithm]
    for one in found["sessions"]:
        assert low * 25e6 <= one["rate"] <= high * 25e6, one


def test_cobb_with_and_without_queues(tmp_path: Path) -> None:
    """Exact while round-trips are shorter than its round; with queues they are longer."""
    for one in on_one_link(tmp_path, "--algorithm", "cobb")["sessions"]:
        assert one["rate"] == 25_000_000
    found = on_one_link(tmp_path, "--algorithm", "cobb", "--data", "fluid")
    assert max(one["longest_wait_ns"] for one in found["links"]) > 250_000_000
    assert any(one["rate"] > 30_000_000 for one in found["sessions"])


def on_one_link(
    directory: Path, *options: str, apart: float = 0.1, until: int = 20
) -> dict[str, Any]:
    """Four sessions that share one link."""
    nodes = ["left", "right", *(f"{side}{n}" for side in "sd" for n in range(4))]
    links = [link("left", "right", 1e8, 0.005)]
    for n in range(4):
        links += [link(f"s{n}", "left", 1e9, 0.002 * (n + 1)), link("right", f"d{n}", 1e9, 0.001)]
    rows = [f"f{n},s{n},d{n},{n * apart},,," for n in range(4)]
    case = Case(directory, {"nodes": nodes, "links": links}, *rows)
    return case.answer("run", *options, "--until", f"{until}", "--control", "0")


def test_same_seed_same_output(tmp_path: Path) -> None:
    topology, rows = random_network(random.Random(5), sessions=40)
    case = Case(tmp_path, topology, *rows)
    outputs = [case.run("run", "--json", "--seed", seed).stdout for seed in "112"]
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


# --- random networks ----------------------------------------------------------------------------


def random_network(draw: random.Random, sessions: int) -> tuple[dict[str, Any], list[str]]:
    """Routers and links at random, connected; sessions that join within 0.3 s, some leave."""
    nodes = [f"n{i}" for i in range(draw.randint(3, 12))]
    pairs = {(i, draw.randrange(i)) for i in range(1, len(nodes))}
    for _ in range(draw.randint(0, 8)):
        a, b = sorted(draw.sample(range(len(nodes)), 2))
        pairs.add((b, a))
    links = [
        link(nodes[a], nodes[b], draw.choice((1e7, 5e7, 1e8)) * draw.randint(1, 9),
             round(draw.uniform(0.001, 0.01), 6))
        for a, b in sorted(pairs)
    ]  # fmt: skip
    rows = []
    for number in range(sessions):
        source, destination = draw.sample(nodes, 2)
        leave = f"{draw.uniform(0.31, 0.6):.6f}" if draw.random() < 0.3 else ""
        demand = f"{draw.randint(10**5, 10**8)}" if draw.random() < 0.4 else ""
        join = f"{draw.uniform(0, 0.3):.6f}"
        rows.append(f"s{number},{source},{destination},{join},{leave},{demand},")
    return {"nodes": nodes, "links": links}, rows


def filled(topology: dict[str, Any], rows: list[str]) -> dict[str, float]:
    """Max-min rates by fairlab.maxmin, over shortest paths computed here."""
    delay: dict[tuple[str, str], float] = {}
    capacity: dict[str, int] = {}
    for one in topology["links"]:
        for a, b in ((one["from"], one["to"]), (one["to"], one["from"])):
            delay[a, b] = one["delay"]
            capacity[f"{a}>{b}"] = round(one["rate"])
    asked = {}
    for row in rows:
        name, source, destination, _, leave, demand, _ = row.split(",")
        if leave:
            continue
        distance, path = {source: 0.0}, {source: [source]}
        for _ in topology["nodes"]:
            for (a, b), length in delay.items():
                if a in distance and distance[a] + length < distance.get(b, math.inf) - 1e-12:
                    distance[b], path[b] = distance[a] + length, [*path[a], b]
        nodes = path[destination]
        hops = [f"{a}>{b}" for a, b in pairwise(nodes)]
        asked[name] = maxmin.Session(hops, int(demand) if demand else None)
    return {name: float(rate) for name, rate in maxmin.rates(capacity, asked).items()}


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("seed", range(25))
def test_exact_rates_on_random_networks(tmp_path: Path, seed: int, algorithm: str) -> None:
    draw = random.Random(seed)
    topology, rows = random_network(draw, draw.choice((2, 10, 60)))
    found = Case(tmp_path, topology, *rows).answer(
        "run", "--algorithm", algorithm, "--control", "0"
    )
    wanted = filled(topology, rows)
    for one in found["sessions"]:
        exact = wanted.get(one["id"], 0.0)
        assert one["exact"] == pytest.approx(exact, rel=1e-9), one
        assert one["rate"] == pytest.approx(exact, rel=REMAINDER, abs=100), one
    # Assigned rates settle within the capacity, but for remainders.
    rates = {(one["from"], one["to"]): one["rate"] for one in topology["links"]}
    for one in found["links"]:
        ends = one["from"], one["to"]
        assert one["assigned"] <= rates.get(ends, rates.get(ends[::-1], 0)) + len(rows)


@pytest.mark.parametrize(
    "options", ["--data 40 --until 1us", "--algorithm bfyz --pause 0 --control 0 --until 1us"]
)
def test_time_passes_at_any_rate(tmp_path: Path, options: str) -> None:
    """At 1 Tbit/s, where a packet takes less than a nanosecond."""
    line = {"nodes": ["a", "b"], "links": [link("a", "b", 1e12, 0)]}
    case = Case(tmp_path, line, "s,a,b,0,,,")
    assert case.answer("run", *options.split())["time"] == 1e-6
