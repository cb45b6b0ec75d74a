# SPDX-License-Identifier: GPL-2.0
"""slbnsim-graphml converts networks of the Topology Zoo: delays, names, missing and invalid values.

The networks here are invented.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fairlab.slbn.mesh import delay_us

from tests import launch
from tests.slbnsim.simtools import GRAPHML, slbnsim, slbnsim_graphml

KEYS = {
    "net": ("Network", "string", "graph"),
    "d0": ("label", "string", "graph"),
    "d1": ("Internal", "int", "node"),
    "d2": ("Latitude", "double", "node"),
    "d3": ("Longitude", "double", "node"),
    "d4": ("label", "string", "node"),
    "d5": ("Country", "string", "node"),
    "d6": ("LinkSpeedRaw", "double", "edge"),
    "d7": ("LinkLabel", "string", "edge"),
}
BERLIN, MADRID, OSLO = (52.52437, 13.41053), (40.4165, -3.70256), (59.91273, 10.74609)


def data(**values: object) -> str:
    return "".join(f'      <data key="{key}">{value}</data>\n' for key, value in values.items())


def node(
    number: int, label: str = "", place: tuple[float, float] | None = None, inside: int = 1
) -> str:
    values: dict[str, object] = {"d1": inside, "d5": "Somewhere"}
    if place:
        values["d2"], values["d3"] = place
    if label:
        values["d4"] = label
    return f'    <node id="{number}">\n{data(**values)}    </node>\n'


def edge(a: int, b: int, speed: str = "", attributes: str = "") -> str:
    values: dict[str, object] = {"d6": speed} if speed else {}
    inner = data(**values, d7="&lt;fibre&gt;")
    return f'    <edge source="{a}" target="{b}"{attributes}>\n{inner}    </edge>\n'


def graph(*parts: str, way: str = "undirected") -> str:
    keys = "".join(
        f'  <key attr.name="{name}" attr.type="{kind}" for="{what}" id="{key}" />\n'
        for key, (name, kind, what) in KEYS.items()
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"\n'
        '  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
        f'{keys}  <graph edgedefault="{way}">\n    <data key="net">Made up</data>\n'
        f"{''.join(parts)}  </graph>\n</graphml>\n"
    )


#: Three cities; one link has no speed.
CITIES = (node(0, "Berlin", BERLIN), node(1, "Madrid", MADRID), node(2, "Oslo", OSLO))
SOUND = graph(*CITIES, edge(0, 1, "10000000000.0"), edge(1, 2, "2.5E9"), edge(0, 2, "622080000"))


def convert(directory: Path, text: str | bytes, *options: str) -> subprocess.CompletedProcess[str]:
    file = directory / "net.graphml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return slbnsim_graphml(str(file), *options)


def read(directory: Path, text: str | bytes, *options: str) -> tuple[dict[str, Any], str]:
    """The topology, and standard error."""
    done = convert(directory, text, *options)
    return launch.answer(done), done.stderr


def refused(directory: Path, text: str | bytes, *options: str) -> str:
    done = convert(directory, text, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    start = f"slbnsim-graphml: {directory / 'net.graphml'}:"
    assert done.stderr.startswith(start)
    return done.stderr.removeprefix(start).rstrip()


def line_of(text: str, what: str, nth: int = 0) -> int:
    """The number of the line with the nth occurrence of WHAT, from 0."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if what in line]
    return lines[nth]


def test_cities(tmp_path: Path) -> None:
    found, warnings = read(tmp_path, SOUND)
    assert warnings == ""
    assert found["nodes"] == ["Berlin", "Madrid", "Oslo"]
    wanted = [(BERLIN, MADRID, 10**10), (MADRID, OSLO, 2.5e9), (BERLIN, OSLO, 622_080_000)]
    for one, (a, b, rate) in zip(found["links"], wanted, strict=True):
        assert one["rate"] == rate and one["duplex"]
        assert one["delay"] == delay_us(a, b) / 1e6
    # 1870 km of great circle are 14 ms.
    assert found["links"][0]["delay"] == pytest.approx(0.014, rel=0.01)


def test_slbnsim_reads_the_topology(tmp_path: Path) -> None:
    net, sessions = tmp_path / "net.json", tmp_path / "sessions.csv"
    net.write_text(convert(tmp_path, SOUND).stdout)
    sessions.write_text(
        "id,source,destination,join,leave,demand,bytes\ns,Berlin,Oslo,0,,,\nt,Berlin,Madrid,0,,,\n"
    )
    done = slbnsim("run", "--topology", str(net), "--sessions", str(sessions), "--json")
    rates = [one["rate"] for one in launch.answer(done)["sessions"]]
    assert rates == [622_080_000, 10**10]
    # It writes the same nodes and links.
    done = slbnsim("topology", "file", "--topology", str(net))
    written = json.loads(done.stdout)
    assert {**written, "about": ""} == {**json.loads(net.read_text()), "about": ""}
    # The converter reads standard input, too.
    done = slbnsim_graphml("-", stdin=SOUND)
    assert json.loads(done.stdout)["links"] == written["links"]


def test_slbnsim_refuses_graphml(tmp_path: Path) -> None:
    file = tmp_path / "net.graphml"
    file.write_text(SOUND)
    done = slbnsim("topology", "file", "--topology", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"slbnsim: {file}:1: not JSON; convert GraphML with slbnsim-graphml\n"


def test_missing_values_need_an_option(tmp_path: Path) -> None:
    text = graph(*CITIES, node(3, "Rome"), edge(0, 1), edge(2, 3, "1e9"))
    where = line_of(text, "<edge")
    error = refused(tmp_path, text)
    assert error.startswith(f"{where}: the link from 'Berlin' to 'Madrid' has no speed")
    assert "needs --link-rate" in error
    error = refused(tmp_path, text, "--link-rate", "2.5gbit")
    assert error.startswith(f"{line_of(text, '<edge', 1)}: the link from 'Oslo' to 'Rome'")
    assert "'Rome' has no coordinates" in error and "needs --link-delay" in error
    found, _ = read(tmp_path, text, "--link-rate", "2.5gbit", "--link-delay", "3ms")
    assert [one["rate"] for one in found["links"]] == [2.5e9, 1e9]
    assert [one["delay"] for one in found["links"]] == [delay_us(BERLIN, MADRID) / 1e6, 0.003]


def test_nodes_of_other_networks(tmp_path: Path) -> None:
    text = graph(*CITIES, node(3, "Customer", inside=0), edge(0, 1, "1e9"), edge(2, 3, "1e6"))
    assert "needs --link-delay, or --inside" in refused(tmp_path, text)
    found, warnings = read(tmp_path, text, "--link-delay", "1ms")
    assert warnings == ""
    assert found["nodes"][3] == "Customer" and len(found["links"]) == 2
    found, warnings = read(tmp_path, text, "--inside")
    assert "1 nodes of other networks dropped" in warnings
    assert found["nodes"] == ["Berlin", "Madrid", "Oslo"] and len(found["links"]) == 1
    assert read(tmp_path, text, "--inside", "--quiet")[1] == ""


def test_names(tmp_path: Path) -> None:
    """Nodes with the same label get their ids appended; those without one are named by their id."""
    text = graph(
        *(node(0, "None", BERLIN), node(7, "None", OSLO), node(8), node(9, "  New\n\t  York ")),
        *(node(10, "São Paulo, &quot;SP&quot;"), edge(0, 7, "1e9")),
    )
    found, _ = read(tmp_path, text)
    assert found["nodes"] == ["None#0", "None#7", "8", "New York", 'São Paulo, "SP"']
    # A dropped node with the same label does not count.
    text = graph(node(0, "A"), node(1, "A", inside=0), node(2, "B"), edge(0, 2, "1"))
    assert read(tmp_path, text, "--inside", "--link-delay", "0")[0]["nodes"] == ["A", "B"]
    text = graph(node(0, "1"), node(1))
    assert "two nodes would be named '1'" in refused(tmp_path, text)


def test_parallel_links_are_merged(tmp_path: Path) -> None:
    text = graph(*CITIES, edge(0, 1, "1e9"), edge(1, 0, "2e9"), edge(0, 1, "4e9"), edge(1, 2, "1"))
    found, warnings = read(tmp_path, text)
    assert "2 parallel links merged" in warnings
    assert [one["rate"] for one in found["links"]] == [7e9, 1]
    assert all(one["duplex"] for one in found["links"])
    too_much = graph(*CITIES, edge(0, 1, "6e11"), edge(0, 1, "6e11"))
    assert "more than 1e12 bit/s together" in refused(tmp_path, too_much)


def test_self_loops_and_isolated_nodes(tmp_path: Path) -> None:
    """Self-loops are dropped, nodes without links kept; slbnsim refuses sessions from there."""
    text = graph(*CITIES, edge(0, 0, "1e9"), edge(0, 1, "1e9"))
    found, warnings = read(tmp_path, text)
    assert "1 self-loops dropped" in warnings
    assert len(found["links"]) == 1 and "Oslo" in found["nodes"]
    sessions, net = tmp_path / "sessions.csv", tmp_path / "net.json"
    net.write_text(json.dumps(found))
    sessions.write_text("id,source,destination,join,leave,demand,bytes\ns,Oslo,Berlin,0,,,\n")
    done = slbnsim("maxmin", "--topology", str(net), "--sessions", str(sessions))
    assert done.returncode == 2
    assert done.stderr == f"slbnsim: {sessions}:2: no path from 'Oslo' to 'Berlin'\n"


def test_directed(tmp_path: Path) -> None:
    text = graph(
        *CITIES,
        *(edge(0, 1, "1e9"), edge(1, 0, "2e9"), edge(1, 2, "3e9", ' directed="false"')),
        way="directed",
    )
    found, warnings = read(tmp_path, text)
    assert warnings == ""
    links = [(one["from"], one["rate"], one.get("duplex", False)) for one in found["links"]]
    assert links == [("Berlin", 1e9, False), ("Madrid", 2e9, False), ("Madrid", 3e9, True)]


def test_other_elements_are_ignored(tmp_path: Path) -> None:
    """Namespaces, descriptions, defaults of attributes, elements of other programs in data."""
    text = """<?xml version="1.0" encoding="ISO-8859-1"?>
    <!-- <graph> --><g:graphml xmlns:g="x" xmlns:y="y">
    <g:key id="a" for="all" attr.name="LABEL"/>
    <g:key id="s" for="edge" attr.name="LinkSpeedRaw"><g:default> 1e6 </g:default></g:key>
    <g:key id="z" for="node" yfiles.type="nodegraphics"/>
    <g:graph edgedefault="undirected"><g:desc>words</g:desc>
    <g:edge source="x" target="y"/>
    <g:node id="x"><g:data key="a">M\u00fcnchen</g:data><g:data key="z"><y:graph><g:node/></y:graph>
    </g:data><g:port name="p"/></g:node><g:node id="y"/>
    </g:graph></g:graphml>"""
    found, _ = read(tmp_path, text.encode("latin-1"), "--link-delay", "2ms")
    assert found["nodes"] == ["München", "y"]
    assert found["links"] == [
        {"from": "München", "to": "y", "rate": 10**6, "delay": 0.002, "duplex": True}
    ]


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ('<node id="1">', "<node>", '<node id="1">', "<node> without id"),
        ('<node id="1">', '<node id="0">', '<node id="1">', "duplicate node '0'"),
        (
            '<node id="1">',
            '<node id="">',
            '<node id="1">',
            "id of <node>: a name must have 1 to 255",
        ),
        ('source="1"', "", 'source="1"', "<edge> without source"),
        ('source="1"', 'source="9"', 'source="1"', "no node '9'"),
        ("40.4165", "91", "40.4165", "Latitude '91': must be -90 to 90 degrees"),
        ("40.4165", "north", "40.4165", "Latitude 'north': must be"),
        ("-3.70256", "-180.1", "-3.70256", "Longitude '-180.1': must be -180 to 180 degrees"),
        ("2.5E9", "-2.5E9", "2.5E9", "LinkSpeedRaw '-2.5E9': must be 1 to 1e+12 bit/s"),
        ("2.5E9", "0", "2.5E9", "LinkSpeedRaw '0': must be"),
        ("2.5E9", "1e13", "2.5E9", "LinkSpeedRaw '1e13': must be"),
        ("2.5E9", "10 Gbps", "2.5E9", "LinkSpeedRaw '10 Gbps': must be"),
        ("2.5E9", "1" * 300, "2.5E9", "LinkSpeedRaw '1111111"),
        ("2.5E9", "nan", "2.5E9", "LinkSpeedRaw 'nan': must be"),
        ('"undirected"', '"both"', '"undirected"', "edgedefault must be directed or undirected"),
        ('id="d4"', 'id="d3"', 'id="d4"', "duplicate key 'd3'"),
        ('"Country"', '"label"', '"Country"', "two keys are named label"),
        ("<graphml", "<html", "<graphml", "<html>: expected <graphml>"),
        ("    <edge", "    <hyperedge/><edge", "<edge", "<hyperedge> here is not supported"),
        ("    <edge", "    <graph/><edge", "<edge", "<graph> here is not supported"),
        ("    </node>", '<graph id="g"/></node>', "</node>", "<graph> here is not supported"),
        ("  </graph>", "  </graph><graph/>", "</graph>", "second <graph>"),
        ("  </graph>", "  ", "</graphml>", "mismatched tag"),
        ("Oslo", "Os\0lo", "Oslo", "not well-formed (invalid token)"),
        ("Oslo", "&oslo;", "Oslo", "undefined entity"),
    ],
)
def test_invalid_files(tmp_path: Path, old: str, new: str, where: str, message: str) -> None:
    assert old in SOUND
    error = refused(tmp_path, SOUND.replace(old, new, 1))
    assert error.startswith(f"{line_of(SOUND, where)}: {message}"), error


def test_invalid_encoding(tmp_path: Path) -> None:
    where = line_of(SOUND, "Oslo")
    error = refused(tmp_path, SOUND.encode().replace(b"Oslo", b"Os\xfflo"))
    assert error == f"{where}: not well-formed (invalid token)"
    # A name with an escape sequence would act on a terminal.
    assert "not well-formed" in refused(tmp_path, SOUND.replace("Oslo", "Os\x1b[2Jlo"))


@pytest.mark.parametrize("name", ["utf-7", "x-nonsense", "rot13"])
def test_unknown_encoding(tmp_path: Path, name: str) -> None:
    error = refused(tmp_path, f'<?xml version="1.0" encoding="{name}"?><graphml/>')
    assert error.startswith("1: its encoding: "), error


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").write_text(SOUND)
    command = [str(GRAPHML), str(tmp_path / "net.graphml")]
    with open("/dev/full", "wb") as full:
        done = launch.run(command, stdout=full)
    assert done.returncode == 2
    assert done.stderr == "slbnsim-graphml: standard output: No space left on device\n"


def test_entities_are_refused(tmp_path: Path) -> None:
    laughs = '<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    error = refused(tmp_path, SOUND.replace("?><graphml", f"?>\n{laughs}\n<graphml"))
    assert error == "2: entities ('a') are not supported"


@pytest.mark.parametrize("part", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file(tmp_path: Path, part: float) -> None:
    text = SOUND[: int(part * (len(SOUND) - 12))]
    error = refused(tmp_path, text)
    assert error.startswith(f"{text.count(chr(10)) + 1}: "), error
    assert "no element found" in error or "unclosed token" in error


def test_without_a_graph(tmp_path: Path) -> None:
    assert refused(tmp_path, "<graphml>\n</graphml>\n") == "1: there is no <graph>"


def test_line_endings_and_byte_order_mark(tmp_path: Path) -> None:
    text = SOUND.replace("2.5E9", "-1").replace("\n", "\r\n")
    assert refused(tmp_path, text).startswith(f"{line_of(SOUND, '2.5E9')}: ")
    found, _ = read(tmp_path, b"\xef\xbb\xbf" + SOUND.replace("\n", "\r\n").encode())
    assert found["nodes"] == ["Berlin", "Madrid", "Oslo"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--link-rate", "0"), "'0': must be 1bit to 1tbit"),
        (("--link-rate", "2tbit"), "'2tbit': must be"),
        (("--link-rate", "fast"), "'fast': must be"),
        (("--link-delay", "11s"), "'11s': must be 0 to 10, such as 5ms"),
        (("--link-delay", "-1"), "'-1': must be"),
    ],
)
def test_invalid_options(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = convert(tmp_path, SOUND, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_unreadable_file(tmp_path: Path) -> None:
    done = slbnsim_graphml(str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr == f"slbnsim-graphml: {tmp_path / 'none'}: No such file or directory\n"
