# SPDX-License-Identifier: GPL-2.0
"""slbnsim: explicit-rate protocols and max-min fair rates, on graphs of networkx.

maxmin() computes rates, run() simulates sessions on a network, experiment() runs an experiment of
SLBN's paper or one of this project's.  Results are lists of dictionaries, which pandas.DataFrame()
takes as rows.  Rates are in bit/s, times in seconds unless a key ends in _ns.

$SLBNSIM names another program than the package's own.
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Answer", "Error", "Session", "algorithms", "experiment", "experiments", "maxmin", "run"]
__version__ = (Path(__file__).parent / "VERSION").read_text().strip()

#: The columns of the file of sessions.
COLUMNS = ("id", "source", "destination", "join", "leave", "demand", "bytes", "path", "weight")


class Error(Exception):
    """slbnsim refused its input, or failed: its message."""


@dataclass(frozen=True)
class Session:
    """A session from node SOURCE to node DESTINATION; None is the program's default.

    It joins and leaves at these times [s]; its demand is in bit/s; it leaves when it has sent
    BYTES (only with data=...); PATH has its nodes, else it takes the path of the least delay.
    """

    id: str
    source: Any
    destination: Any
    join: float = 0.0
    leave: float | None = None
    demand: float | None = None
    bytes: int | None = None
    path: Sequence[Any] | None = None
    weight: int | None = None

    def row(self) -> list[str]:
        numbers = (_number(self.join), _number(self.leave), _number(self.demand))
        path = ">".join(map(str, self.path or ()))
        more = (_number(self.bytes), path, _number(self.weight))
        return [self.id, str(self.source), str(self.destination), *numbers, *more]


@dataclass(frozen=True)
class Answer:
    """What slbnsim printed; the lists have a dictionary for each row."""

    answer: dict[str, Any] = field(repr=False)

    def _rows(self, key: str) -> list[dict[str, Any]]:
        rows = self.answer.get(key, [])
        return rows if isinstance(rows, list) else []

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """Of each session: its rate at the end, and its max-min fair rate (`exact`)."""
        return self._rows("sessions")

    @property
    def links(self) -> list[dict[str, Any]]:
        """Of each link: assigned rates, overshoot, longest wait, bytes."""
        return self._rows("links")

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Of an experiment, over time: errors of the rates, queues, packets."""
        return [_flat(sample) for sample in self._rows("series")]


def topology(graph: Any) -> dict[str, Any]:
    """The topology file for a graph of networkx."""
    nodes = [str(node) for node in graph.nodes]
    if len(set(nodes)) < len(nodes):
        raise Error("two nodes of the graph have the same name")
    links = []
    for source, destination, data in graph.edges(data=True):
        link: dict[str, Any] = {"from": str(source), "to": str(destination)}
        for key in ("rate", "delay"):
            value = data.get(key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                unit = "bit/s" if key == "rate" else "seconds"
                raise Error(f"edge {source} - {destination}: needs {key}, a number [{unit}]")
            link[key] = value
        links.append(link if graph.is_directed() else {**link, "duplex": True})
    return {"nodes": nodes, "links": links}


def maxmin(
    graph: Any, sessions: Iterable[Session | Mapping[str, Any]], **options: Any
) -> dict[str, float]:
    """The max-min fair rates of all sessions together, by their names."""
    found = _on_network("maxmin", graph, sessions, options)
    return {one["id"]: one["exact"] for one in found["sessions"]}


def run(graph: Any, sessions: Iterable[Session | Mapping[str, Any]], **options: Any) -> Answer:
    """Simulate sessions that join and leave."""
    return Answer(_on_network("run", graph, sessions, options))


def experiment(name: str, **options: Any) -> Answer:
    """Run an experiment; experiments() lists them."""
    return Answer(_call(["experiment", name, *_words(options)]))


def algorithms() -> list[dict[str, Any]]:
    """The algorithms, with what each is."""
    return _list("algorithms")


def experiments() -> list[dict[str, Any]]:
    """The experiments, with what each is."""
    return _list("experiments")


def _list(what: str) -> list[dict[str, Any]]:
    found = _call([what])
    rows: list[dict[str, Any]] = found[what] if isinstance(found, dict) else found
    return rows


def _on_network(
    command: str,
    graph: Any,
    sessions: Iterable[Session | Mapping[str, Any]],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in sessions:
        try:
            writer.writerow((one if isinstance(one, Session) else Session(**one)).row())
        except TypeError as error:
            raise Error(f"session {one}: {error}") from None
    with tempfile.TemporaryDirectory(prefix="slbnsim-") as directory:
        path = Path(directory, "topology.json")
        path.write_text(json.dumps(topology(graph)))
        words = [command, "--topology", str(path), "--sessions", "-", *_words(options)]
        found: dict[str, Any] = _call(words, text.getvalue())
    # Names of files that no longer exist.
    for key in ("topology", "sessions"):
        found.get("configuration", {}).pop(key, None)
    return found


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not False and value is not None:
            for one in value if isinstance(value, list | tuple) else [value]:
                yield from (option, _number(one) if isinstance(one, float) else str(one))


def _call(words: Sequence[str], text: str = "") -> Any:
    quiet = ["--quiet"] if words[0] not in ("algorithms", "experiments") else []
    try:
        done = subprocess.run(
            [program(), *words, "--json", *quiet],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise Error(f"{program()}: {error.strerror}") from None
    if done.returncode:
        number = -done.returncode if done.returncode < 0 else done.returncode - 128
        stopped = signal.strsignal(number) if 0 < number < signal.NSIG else None
        reason = done.stderr.strip() or stopped or "it failed"
        raise Error(reason.removeprefix("slbnsim: "))
    return json.loads(done.stdout)


def _number(value: float | None) -> str:
    """As the files have numbers: without an exponent."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0").rstrip(".")


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, with names such as `sources_mean`."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}_") if isinstance(value, Mapping) else {name: value}
    return flat


def program() -> str:
    """The path of the program."""
    return os.environ.get("SLBNSIM") or str(Path(__file__).parent / "bin/slbnsim")


def main() -> None:
    """The command slbnsim: the program itself."""
    try:
        os.execv(program(), ["slbnsim", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"slbnsim: {program()}: {error.strerror}")
