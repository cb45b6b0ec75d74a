# SPDX-License-Identifier: GPL-2.0
"""Files by hand for slbnsim's readers, from which their fuzzers start: sound ones and others.

GraphML has an octet before it that says which options there are (fuzz_graphml.c).
"""

from __future__ import annotations

import json


def link(a: str, b: str, **more: object) -> dict[str, object]:
    return {"from": a, "to": b, "rate": 1e9, "delay": 0.005, **more}


JSON = [
    b"",
    b"{}",
    b'{"nodes": [], "links": []}',
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "b", duplex=True)]}).encode(),
    json.dumps({"links": [link("a", "b")], "about": "two", "nodes": ["a", "b"]}, indent=1).encode(),
    json.dumps({"nodes": ['a "b"', "\u00e9\\", "c"], "links": [link("c", "\u00e9\\")]}).encode(),
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "b"), link("b", "a")]}).encode(),
    json.dumps({"nodes": ["a", "a"], "links": []}).encode(),
    json.dumps({"nodes": ["a"], "links": [link("a", "a")]}).encode(),
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "b", rate=0)]}).encode(),
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "b", delay=-1)]}).encode(),
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "b", duplex=None)]}).encode(),
    json.dumps({"nodes": ["a", "b"], "links": [link("a", "x")], "colour": 1}).encode(),
    b'\xef\xbb\xbf{"nodes": ["a\xff"], "links": [',
    b'{"nodes": ["\\u0000", "\\ud800"], "links": []}',
    b'{"nodes": ["a"],\n"no\\u001b[2Jdes": []}',
]

HEAD = b"id,source,destination,join,leave,demand,bytes"
CSV = [
    b"",
    HEAD + b"\n",
    HEAD + b"\r\ns1,a,d,0,,,\r\ns2,b,c,0.5,2,1000000,\r\n",
    HEAD + b",path\ns1,a,d,0,,,,a>b>c>d\ns2,a,d,,,,1000,a>e>d\n",
    HEAD + b",path\ns1,a,c,0,,,,a>b>a>b>c\n",
    HEAD + b",path\ns1,a,c,0,,,," + b"a>b>" * 40 + b"c\n",
    HEAD + b"\n" + b"," * 20 + b"\n",
    HEAD + b"\na\tb,a,d,0,,,\n",
    HEAD + b'\n"s ""1""","e, ""f""",a,0,1e9,1e12,1e15\n',
    HEAD + b'\n"s1,a,d,0,,,\n',
    HEAD + b"\ns1,a,g,0,,,\n",
    HEAD + b"\ns1,a,h,0,,,\n",
    HEAD + b"\ns1,a,a,0,,,\n",
    HEAD + b"\ns1,a,x,0,,,\n",
    HEAD + b"\ns1,a,d,2,1,,\n",
    HEAD + b"\ns1,a,d,-1,,,\n",
    HEAD + b"\ns1,a,d,0,,nan,0x10\n",
    HEAD + b"\ns1,a,d,0,,,\ns1,a,d,0,,,",
    HEAD + b"\ns1,a,d,0,,,\ns1,a,d,0,,,\n",
    HEAD + b"\n\xff,a,d,0,,,\n",
    HEAD + b"\ns\0,a,d,0,,,\n",
    b"\xef\xbb\xbf" + HEAD + b"\n\n",
]

KEYS = (
    b'<key id="l" for="node" attr.name="label"/><key id="i" for="node" attr.name="Internal"/>'
    b'<key id="y" for="node" attr.name="Latitude"/><key id="x" for="node" attr.name="Longitude"/>'
    b'<key id="s" for="edge" attr.name="LinkSpeedRaw"><default>1e9</default></key>\n'
)
NODES = (
    b'<node id="0"><data key="l">A</data><data key="y">1</data><data key="x">2</data></node>\n'
    b'<node id="1"><data key="l">A</data><data key="y">50.5</data><data key="x">-9</data></node>\n'
    b'<node id="2"><data key="i">0</data></node>\n'
)
EDGES = b'<edge source="0" target="1"><data key="s">5</data></edge><edge source="1" target="2"/>\n'


def graph(inner: bytes, way: bytes = b"undirected", keys: bytes = KEYS) -> bytes:
    return b'<graphml>%s<graph edgedefault="%s">\n%s</graph></graphml>' % (keys, way, inner)


GRAPHML = [
    b"\0<graphml/>",
    *(bytes([options]) + graph(NODES + EDGES) for options in (0, 1, 2, 3, 4, 15)),
    b"\2" + graph(NODES + EDGES + EDGES, b"directed"),
    b"\3" + graph(NODES + EDGES, keys=b""),
    b"\2" + graph(EDGES + NODES + b'<edge source="0" target="0"/><desc/><hyperedge/>'),
    b"\2" + graph(NODES + b'<edge source="0" target="9"/>'),
    b"\2" + graph(NODES + b'<edge target="0"/><graph/>'),
    b"\2" + graph(NODES + NODES),
    b"\2" + graph(b'<node id="0"><data key="y">91</data></node>'),
    b"\2" + graph(NODES + 2 * EDGES.replace(b">5<", b">9e11<")),
    b"\2" + graph(NODES.replace(b"A", b"A" * 270)),
    b'\2<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE g [<!ENTITY a "b">]>' + graph(NODES),
    b'\2<g:graphml xmlns:g="x"><g:graph edgedefault="both"/></g:graphml>',
    b"\2\xef\xbb\xbf" + graph(NODES)[:-20],
]

READER_SEEDS = {"json": JSON, "csv": CSV, "graphml": GRAPHML}
