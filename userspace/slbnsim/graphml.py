#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""slbnsim-graphml: converts a network of the Internet Topology Zoo to a topology for slbnsim.

Knight, Nguyen, Falkner, Bowden, Roughan, "The Internet Topology Zoo", IEEE JSAC 29(9), 2011.  Of
GraphML it reads these attributes, all of which are optional, and ignores the others:

    node    label, Latitude, Longitude (degrees), Internal (0: a node of another network)
    edge    LinkSpeedRaw (bit/s)

Such files are maps rather than networks, so:

  - A node is named after its label; nodes with the same label, label#id; one without a label, its
    id.
  - A link's delay is that of light in glass along the great circle between its ends, plus half of
    that for detours of the cable: 7.5 us per km, in whole microseconds, as in fairlab's mesh.py.
  - Parallel links are merged: the sum of their rates, the smallest of their delays.
  - Self-loops are dropped, and with --inside the nodes of other networks.
  - Nodes without links are kept.

Edges lead both ways unless they are directed.  Nested graphs, hyperedges and entities are refused.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

# Replaced when it is installed.
VERSION = "@VERSION@"

EARTH_RADIUS_KM = 6371
US_PER_KM = 5 * 1.5
#: slbnsim's limits: bit/s, seconds, bytes.
RATE_MAX = 10**12
DELAY_MAX = 10
NAME_MAX = 255
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
#: Attribute, in lower case: the element that it belongs to.
ATTRIBUTES = {
    **{"label": "node", "latitude": "node", "longitude": "node", "internal": "node"},
    "linkspeedraw": "edge",
}
RATE_UNITS = {"": 1, "bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
TIME_UNITS = {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class RefusedError(Exception):
    """The file is malformed, or lacks something: the line, and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = "".join(letter if letter.isprintable() else "?" for letter in reason)


@dataclass
class Element:
    """An XML element without its namespace prefix; `text` is its own, without its children's."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def need(self, name: str) -> str:
        if name not in self.attributes:
            raise RefusedError(self.line, f"<{self.name}> without {name}")
        return check_name(self.attributes[name], self.line, f"{name} of <{self.name}>: ")


@dataclass
class Value:
    """The text of an attribute, and its line."""

    text: str
    line: int


@dataclass
class Node:
    """A node; degrees or None."""

    id: str
    line: int
    label: str
    place: tuple[float, float] | None
    internal: bool
    name: str = ""


@dataclass
class Link:
    """A link, one way: bit/s and seconds."""

    source: str
    target: str
    rate: int
    delay: float


def check_name(name: str, line: int, where: str = "") -> str:
    if not 1 <= len(name.encode()) <= NAME_MAX:
        raise RefusedError(line, f"{where}a name must have 1 to {NAME_MAX} bytes")
    if any(letter < " " or letter == "\x7f" for letter in name):
        raise RefusedError(line, f"{where}a name must have no control characters")
    return name


def parse(text: bytes) -> Element:
    """The document's root element."""
    parser = expat.ParserCreate()
    top = Element("", {}, 1)
    stack = [top]

    def begin(name: str, attributes: dict[str, str]) -> None:
        element = Element(name.rpartition(":")[2], attributes, parser.CurrentLineNumber)
        if len(stack) == 1 and element.name != "graphml":
            raise RefusedError(element.line, f"<{element.name[:40]}>: expected <graphml>")
        stack[-1].children.append(element)
        stack.append(element)

    def add_text(text: str) -> None:
        stack[-1].text += text

    def refuse_entity(name: str, *_: object) -> None:
        raise RefusedError(parser.CurrentLineNumber, f"entities ('{name}') are not supported")

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = add_text
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise RefusedError(error.lineno, expat.ErrorString(error.code)) from None
    except (LookupError, ValueError) as error:
        # Of Python's codecs; expat itself knows few.
        raise RefusedError(1, f"its encoding: {error}") from None
    return top.children[0]


def number(values: dict[str, Value], name: str, least: float, most: float, unit: str) -> float:
    """The value of an attribute; NaN if it has none."""
    value = values.get(name.lower())
    if value is None or not value.text:
        return math.nan
    if not NUMBER.fullmatch(value.text) or not least <= float(value.text) <= most:
        reason = f"{name} '{value.text[:40]}': must be {least:g} to {most:g}{unit}"
        raise RefusedError(value.line, reason)
    return float(value.text)


def delay_us(a: tuple[float, float], b: tuple[float, float]) -> int:
    """Of a cable between two places, one way."""
    (lat1, long1), (lat2, long2) = (tuple(map(math.radians, place)) for place in (a, b))
    cosine = math.sin(lat1) * math.sin(lat2)
    cosine += math.cos(lat1) * math.cos(lat2) * math.cos(long1 - long2)
    return round(EARTH_RADIUS_KM * math.acos(max(-1.0, min(1.0, cosine))) * US_PER_KM)


class Converter:
    """A document as a network: `names` of nodes, `links` in the order of the file."""

    def __init__(self, root: Element, rate: int | None, delay: float | None, inside: bool) -> None:
        self.rate, self.delay, self.inside = rate, delay, inside
        self.keys: dict[str, str] = {}
        self.defaults: dict[str, Value] = {}
        self.outside = self.loops = 0
        self.merged: set[int] = set()
        for one in root.children:
            if one.name == "key":
                self.add_key(one)
        graphs = [one for one in root.children if one.name == "graph"]
        if not graphs:
            raise RefusedError(root.line, "there is no <graph>")
        if len(graphs) > 1:
            raise RefusedError(graphs[1].line, "second <graph>")
        self.refuse_nesting(graphs[0])
        way = graphs[0].attributes.get("edgedefault")
        if way not in ("directed", "undirected"):
            raise RefusedError(graphs[0].line, "edgedefault must be directed or undirected")
        self.directed = way == "directed"
        self.nodes: dict[str, Node] = {}
        for one in graphs[0].children:
            if one.name == "node":
                self.add_node(one)
        self.names = self.name_nodes()
        self.links: dict[tuple[str, str], Link] = {}
        for number_, one in enumerate(graphs[0].children):
            if one.name == "edge":
                self.add_edge(number_, one)

    def add_key(self, key: Element) -> None:
        identity = key.need("id")
        if identity in self.keys:
            raise RefusedError(key.line, f"duplicate key '{identity}'")
        name = key.attributes.get("attr.name", "")
        attribute = name.lower()
        if key.attributes.get("for", "all") not in ("all", ATTRIBUTES.get(attribute)):
            return
        if attribute not in ATTRIBUTES:
            return
        if attribute in self.keys.values():
            raise RefusedError(key.line, f"two keys are named {name}")
        self.keys[identity] = attribute
        for one in key.children:
            if one.name == "default":
                self.defaults[attribute] = Value(" ".join(one.text.split()), one.line)

    def refuse_nesting(self, graph: Element) -> None:
        for one in graph.children:
            inner = one.children if one.name in ("node", "edge") else []
            for element in (one, *inner):
                if element.name in ("graph", "hyperedge"):
                    raise RefusedError(element.line, f"<{element.name}> here is not supported")

    def values(self, element: Element) -> dict[str, Value]:
        """Of the element's attributes, by their names in lower case."""
        found = dict(self.defaults)
        for one in element.children:
            attribute = self.keys.get(one.attributes.get("key", ""), "")
            if one.name == "data" and ATTRIBUTES.get(attribute) == element.name:
                found[attribute] = Value(" ".join(one.text.split()), one.line)
        return found

    def add_node(self, element: Element) -> None:
        identity = element.need("id")
        if identity in self.nodes:
            raise RefusedError(element.line, f"duplicate node '{identity}'")
        values = self.values(element)
        latitude = number(values, "Latitude", -90, 90, " degrees")
        longitude = number(values, "Longitude", -180, 180, " degrees")
        placed = not math.isnan(latitude) and not math.isnan(longitude)
        self.nodes[identity] = Node(
            identity,
            element.line,
            values["label"].text if "label" in values else "",
            (latitude, longitude) if placed else None,
            not number(values, "Internal", 0, 1, "") < 1,
        )

    def name_nodes(self) -> list[str]:
        """Set the names of those that are kept, and return them."""
        kept = [one for one in self.nodes.values() if one.internal or not self.inside]
        self.outside = len(self.nodes) - len(kept)
        count = Counter(one.label for one in kept)
        taken: dict[str, None] = {}
        for one in kept:
            unique = count[one.label] == 1
            name = (one.label if unique else f"{one.label}#{one.id}") if one.label else one.id
            one.name = check_name(name, one.line)
            if one.name in taken:
                raise RefusedError(one.line, f"two nodes would be named '{one.name}'")
            taken[one.name] = None
        return list(taken)

    def add_edge(self, edge: int, element: Element) -> None:
        ends = []
        for side in ("source", "target"):
            identity = element.need(side)
            if identity not in self.nodes:
                raise RefusedError(element.line, f"no node '{identity}'")
            ends.append(self.nodes[identity])
        speed = number(self.values(element), "LinkSpeedRaw", 1, RATE_MAX, " bit/s")
        a, b = ends
        if not a.name or not b.name:
            return
        if a is b:
            self.loops += 1
            return
        hint = "" if a.internal and b.internal else ", or --inside: it leads to another network"
        link = f"the link from '{a.name}' to '{b.name}'"
        if math.isnan(speed) and self.rate is None:
            reason = f"{link} has no speed (LinkSpeedRaw): needs --link-rate{hint}"
            raise RefusedError(element.line, reason)
        rate = self.rate if math.isnan(speed) and self.rate is not None else round(speed)
        if a.place and b.place:
            delay = delay_us(a.place, b.place) / 1e6
        elif self.delay is not None:
            delay = self.delay
        else:
            missing = b.name if a.place else a.name
            reason = f"{link} has no length ('{missing}' has no coordinates): needs --link-delay"
            raise RefusedError(element.line, reason + hint)
        text = element.attributes.get("directed", "")
        directed = text == "true" if text else self.directed
        for one, other in [(a, b)] if directed else [(a, b), (b, a)]:
            self.add_link(edge, element.line, Link(one.name, other.name, rate, delay))

    def add_link(self, edge: int, line: int, link: Link) -> None:
        first = self.links.setdefault((link.source, link.target), link)
        if first is link:
            return
        self.merged.add(edge)
        first.rate += link.rate
        first.delay = min(first.delay, link.delay)
        if first.rate > RATE_MAX:
            reason = f"the links from '{link.source}' to '{link.target}' have more than 1e12 bit/s"
            raise RefusedError(line, f"{reason} together")

    def report(self) -> str:
        """What was merged and dropped; empty if nothing was."""
        counts = {
            "parallel links merged": len(self.merged),
            "self-loops dropped": self.loops,
            "nodes of other networks dropped": self.outside,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)

    def json(self, about: str) -> str:
        """The topology, as slbnsim writes it: a link and its reverse are one if they are alike."""
        rows: list[dict[str, object]] = []
        before = None
        for one in self.links.values():
            if before == Link(one.target, one.source, one.rate, one.delay):
                rows[-1]["duplex"] = True
                before = None
                continue
            rows.append(
                {"from": one.source, "to": one.target, "rate": one.rate, "delay": one.delay}
            )
            before = one
        nodes = ",\n".join(json.dumps(name, ensure_ascii=False) for name in self.names)
        text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        head = f'{{\n"about": {json.dumps(about)},\n"nodes": [\n{nodes}\n],\n'
        return f'{head}"links": [\n{text}\n]\n}}\n'


def quantity(text: str, units: dict[str, float], most: float, example: str) -> float:
    """A decimal number with a unit."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([a-z]*)", text.lower())
    value = float(found[1]) * units[found[2]] if found and found[2] in units else math.nan
    if not 0 <= value <= most:
        raise argparse.ArgumentTypeError(f"'{text}': must be 0 to {most:g}, such as {example}")
    return value


def rate_option(text: str) -> int:
    value = round(quantity(text, RATE_UNITS, RATE_MAX, "10gbit"))
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}': must be 1bit to 1tbit")
    return value


def delay_option(text: str) -> float:
    return quantity(text, TIME_UNITS, DELAY_MAX, "5ms")


class Parser(argparse.ArgumentParser):
    """argparse, with one line for an error."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)


def read(file: int | str) -> bytes:
    """The octets of a file, or of a descriptor, which may be closed."""
    with open(file, "rb", closefd=isinstance(file, str)) as handle:
        return handle.read()


def write(text: str) -> None:
    """Write to standard output; OSError also if that is closed, or cannot be flushed."""
    with open(1, "wb", closefd=False) as output:
        output.write(text.encode())


def main() -> int:
    parser = Parser(
        prog="slbnsim-graphml",
        description="Convert a network of the Internet Topology Zoo (GraphML) to a topology for "
        "slbnsim (JSON), written to standard output.",
        epilog="Exit status: 0, or 2 if the arguments are invalid or the file cannot be converted.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="the GraphML file (- for standard input)")
    parser.add_argument(
        "--link-rate", metavar="RATE", type=rate_option, help="of links without LinkSpeedRaw"
    )
    parser.add_argument(
        "--link-delay", metavar="TIME", type=delay_option, help="of links without coordinates"
    )
    parser.add_argument("--inside", action="store_true", help="drop nodes with Internal 0")
    parser.add_argument("--quiet", action="store_true", help="do not report what was dropped")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    args = parser.parse_args()
    try:
        text = read(0 if args.file == "-" else args.file)
        network = Converter(parse(text), args.link_rate, args.link_delay, args.inside)
    except OSError as error:
        print(f"slbnsim-graphml: {args.file}: {error.strerror}", file=sys.stderr)
        return 2
    except RefusedError as error:
        print(f"slbnsim-graphml: {args.file}:{error.line}: {error.reason}", file=sys.stderr)
        return 2
    command = shlex.join(["slbnsim-graphml", *sys.argv[1:]])
    about = "".join(letter if " " <= letter <= "~" else "?" for letter in command)
    try:
        write(network.json(about))
    except OSError as error:
        print(f"slbnsim-graphml: standard output: {error.strerror}", file=sys.stderr)
        return 2
    if network.report() and not args.quiet:
        print(f"slbnsim-graphml: {args.file}: {network.report()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
