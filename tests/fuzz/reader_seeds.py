# SPDX-License-Identifier: GPL-2.0
"""Handwritten files, valid and invalid, from which the fuzzers of slbnsim's readers start."""

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

READER_SEEDS = {"json": JSON, "csv": CSV}
