# SPDX-License-Identifier: GPL-2.0
"""Test cases of `fairlab test`: a TOML file with a network, flows or programs, and limits.

    time = "20 s"
    limits = ["goodput >= 9 Mbit/s", "queue_delay p99 <= 50 ms"]

    [network]
    rate = "10 Mbit/s"
    rtt = ["20 ms", "200 ms"]       # a list: one case for each

    [[flow]]
    cc = "cubic"

read() returns the cases of a file: each is an experiment (experiment.py), with a group for each
flow and each program, and the limits.  Each quantity needs its unit.  Each error names the file
and the line.
"""

import copy
import itertools
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlab.model import headers, qdisc, scenario, units
from fairlab.model.errors import UsageError, require_known
from fairlab.model.experiment import UDP, Group, Layout, Program, Stream

FIRST_PORT = 4433
#: Packets of a queue whose length is not given: more than any of the kernel's defaults but fq's.
SOME_PACKETS = 1000

RATE, TIME, PART, PLAIN = "rate", "time", "part", ""
#: What a limit can be about, and the kind of its unit.
MEASURES = {
    "goodput": RATE,
    "throughput": RATE,
    "utilization": PART,
    "loss": PART,
    "marked": PART,
    "retransmitted": PART,
    "share": PART,
    "queue_delay": TIME,
    "rtt": TIME,
    "completion": TIME,
    "jain": PLAIN,
}
#: Of several values: of samples, or of flows.
STATISTICS = ("mean", "min", "max", "p50", "p90", "p95", "p99")
#: Of these, all values together need one.
SAMPLED = ("queue_delay", "rtt", "completion")
FLOWS_ONLY = ("goodput", "retransmitted", "share", "rtt", "jain")

_LIMIT = re.compile(
    rf"(?P<measure>[a-z_]+)(?: (?P<statistic>{'|'.join(STATISTICS)}))?(?: of (?P<who>[\w-]+))?"
    r"(?: from (?P<begin>[\d.]+ ?\w+) to (?P<end>[\d.]+ ?\w+))?"
    r" (?P<sign>>=|<=) (?P<value>\S+(?: \S+)?)"
)
_CHANGE = re.compile(r"(?P<when>[^:]+): *(?P<rate>[^:]+)")
_PART = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_NAME = re.compile(r"[\w-]{1,20}", re.ASCII)
_HEADER = re.compile(r"\s*(\[\[?)\s*([\w-]+)\s*\]")
_KEY = re.compile(r"\s*([\w-]+)\s*=")

Place = tuple[str | int, ...]


def seconds(text: str) -> float:
    """A time in seconds; a unit is required."""
    return units.parse_time(text) / 1e6


def part(text: str) -> float:
    """A fraction, from a percentage."""
    match = _PART.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}': must be a percentage, such as 0.5 %")
    return float(match[1]) / 100


def number(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(f"'{text}': must be a number without a unit")
    return float(text)


PARSERS: dict[str, Callable[[str], float]] = {
    RATE: units.parse_rate,
    TIME: seconds,
    PART: part,
    PLAIN: number,
}


@dataclass(frozen=True)
class Limit:
    """A limit: at least or at most VALUE [bit/s, s, or a fraction] of a measure.

    WHO is the name of a flow or program; without it the measure is of all.  BEGIN and END [s] are
    those of the window; None is the case's own, from its warm-up to its end.
    """

    text: str
    measure: str
    statistic: str
    who: str
    begin: float | None
    end: float | None
    at_least: bool
    value: float
    line: int = 0

    def holds(self, value: float | None) -> bool:
        """Is VALUE within the limit?  One that does not exist is not."""
        return value is not None and (value >= self.value if self.at_least else value <= self.value)


def parse_limit(text: str, names: Sequence[str]) -> Limit:
    """A limit such as `queue_delay p99 <= 20 ms`; NAMES are those of flows and programs."""
    match = _LIMIT.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"limit '{text}': must be MEASURE [STATISTIC] [of NAME] [from TIME to TIME] >= or <="
            " VALUE, such as queue_delay p99 <= 20 ms"
        )
    measure, statistic, who = match["measure"], match["statistic"] or "", match["who"] or ""
    require_known(f"limit '{text}': no measure", measure, MEASURES)
    if who:
        require_known(f"limit '{text}': no flow or program", who, names)
    if not statistic and measure in SAMPLED:
        raise UsageError(f"limit '{text}': {measure} needs one of {', '.join(STATISTICS)}")
    if measure in ("share", "throughput") and not who:
        raise UsageError(f"limit '{text}': whose? {measure} needs 'of NAME'")
    try:
        value = PARSERS[MEASURES[measure]](match["value"])
        begin, end = (seconds(match[name]) if match[name] else None for name in ("begin", "end"))
    except UsageError as error:
        raise UsageError(f"limit '{text}': {error}") from None
    return Limit(text, measure, statistic, who, begin, end, match["sign"] == ">=", value)


@dataclass(frozen=True)
class Case:
    """One run; its name are the values that differ between the cases of a file."""

    name: str
    kernel: str
    seed: int
    layout: Layout
    names: Mapping[str, str]  # group -> flow or program
    limits: tuple[Limit, ...]


class Source:
    """The text of a file, to name lines in errors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text()
            self.data = tomllib.loads(self.text)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}:1: not UTF-8") from None
        except RecursionError:
            raise UsageError(f"{path}:1: lists or tables in too many others") from None
        except tomllib.TOMLDecodeError as error:
            found = re.search(r" \(at line (\d+), column \d+\)| \(at end of document\)", str(error))
            line = found[1] if found and found[1] else len(self.text.splitlines())
            raise UsageError(
                f"{path}:{line}: {str(error)[: found.start() if found else None]}"
            ) from None
        self.lines = self._index()

    def _index(self) -> dict[Place, int]:
        """The line of each table and key, as (table, its number, key) or (key,)."""
        found: dict[Place, int] = {}
        table: Place = ()
        count: dict[str, int] = {}
        for number, line in enumerate(self.text.splitlines(), 1):
            if head := _HEADER.match(line):
                table = (head[2],)
                if head[1] == "[[":
                    table = (head[2], count.get(head[2], 0))
                    count[head[2]] = count.get(head[2], 0) + 1
                found[table] = number
            elif key := _KEY.match(line):
                found.setdefault((*table, key[1]), number)
        return found

    def line(self, place: Place, text: str = "") -> int:
        """The line of PLACE, or from there on the first with TEXT in quotes."""
        start = next(
            (self.lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in self.lines), 1
        )
        if text:
            for number, line in enumerate(self.text.splitlines()[start - 1 :], start):
                if f'"{text}"' in line or f"'{text}'" in line:
                    return number
        return start

    def error(self, place: Place, reason: object, text: str = "") -> UsageError:
        return UsageError(f"{self.path}:{self.line(place, text)}: {reason}")


class Table:
    """A table of the file, from which each key is taken once; what is left is unknown."""

    def __init__(self, source: Source, place: Place, data: Any) -> None:
        if not isinstance(data, dict):
            raise source.error(place, f"'{place[0]}' must be a table")
        self.source, self.place, self.rest = source, place, dict(data)
        self.known: list[str] = []

    def take(self, key: str, kind: Callable[[Any], Any], default: Any) -> Any:
        """The value of KEY, of a KIND: a type, or a string that it parses; DEFAULT without one."""
        self.known.append(key)
        if key not in self.rest:
            return default
        value, plain = self.rest.pop(key), WORDS.get(kind)
        # bool is an int.
        if type(value) is not (kind if plain else str):
            raise self.error(key, f"{key}: must be {plain or 'a string, with its unit'}")
        try:
            return value if plain else kind(value)
        except UsageError as error:
            raise self.error(key, f"{key}: {error}") from None

    def check(self, key: str, value: int, least: int, most: int) -> None:
        """Raise UsageError unless the VALUE of KEY is in a range."""
        if not least <= value <= most:
            raise self.error(key, f"{key} {value}: must be {least} to {most}")

    def error(self, key: str, reason: object, text: str = "") -> UsageError:
        return self.source.error((*self.place, key), reason, text)

    def end(self) -> None:
        """Raise UsageError if there are unknown keys."""
        for key in self.rest:
            known = ", ".join(sorted(self.known))
            raise self.error(key, f"unknown key '{key}'; there are: {known}")


WORDS: dict[Callable[[Any], Any], str] = {
    int: "a whole number",
    bool: "true or false",
    str: "a string",
    list: "a list",
    dict: "a table",
}


#: Keys whose values are lists; a list of another key is of its values in several cases.
LISTS = ("limits", "modules", "changes", "flow", "program")


def read(
    path: Path,
    seeds: Sequence[int] = (),
    kernel: str | None = None,
    cc: str | None = None,
    modules: Sequence[str] = (),
) -> list[Case]:
    """The cases of a file, with other seeds, another kernel, another congestion control of the
    first flow, and further kernel modules.
    """
    source = Source(path)
    data = source.data
    data |= {"seed": list(seeds)} if seeds else {}
    data |= {"kernel": kernel} if kernel else {}
    if cc:
        dict(tables(data)).get(("flow", 0), {})["cc"] = cc
    lists = [
        ((*place, key), found)
        for place, table in tables(data)
        for key, found in table.items()
        if isinstance(found, list) and key not in LISTS
    ]
    for place, found in lists:
        if not found:
            raise source.error(place, f"{place[-1]}: an empty list")
    cases = []
    for values in itertools.product(*(found for _, found in lists)):
        changed, words = copy.deepcopy(data), []
        for (place, _), value in zip(lists, values, strict=True):
            dict(tables(changed))[place[:-1]][str(place[-1])] = value
            words += [] if place == ("seed",) else [f"{place[-1]} {value}"]
        case = one_case(source, ", ".join(words), changed)
        layout = replace(case.layout, modules=(*case.layout.modules, *modules))
        cases.append(replace(case, layout=layout))
    return cases


def tables(data: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The tables of a file, each with its place."""
    yield (), data
    if isinstance(data.get("network"), dict):
        yield ("network",), data["network"]
    for kind in ("flow", "program"):
        for n, one in enumerate(found if isinstance(found := data.get(kind), list) else ()):
            if isinstance(one, dict):
                yield (kind, n), one


def one_case(source: Source, name: str, data: dict[str, Any]) -> Case:
    """The case that DATA describes."""
    top = Table(source, (), data)
    kernel = top.take("kernel", str, "6.1")
    seed = top.take("seed", int, 1)
    top.check("seed", seed, 0, 2**31 - 1)
    time = top.take("time", seconds, 20.0)
    warmup = top.take("warmup", seconds, time / 4)
    modules = top.take("modules", list, [])
    for module in modules:
        if not isinstance(module, str) or not (source.path.parent / module).is_file():
            raise top.error("modules", f"no module '{module}'", str(module))
    network = Table(source, ("network",), top.take("network", dict, {}))
    rate = network.take("rate", units.parse_rate, 10**7)
    rtt = network.take("rtt", units.parse_time, 40_000)
    mtu = network.take("mtu", int, 1500)
    network.check("mtu", mtu, scenario.MIN_MTU, scenario.MAX_MTU)
    text, buffer = network.take("queue", lambda text: parse_queue(text, rate, rtt, mtu), ("", 0))
    groups: list[Group] = []
    names: dict[str, str] = {}
    readers = {"flow": read_flow, "program": read_program}
    lists = {kind: top.take(kind, list, []) for kind in readers}
    for kind, reader in readers.items():
        for n, one in enumerate(lists[kind]):
            table = Table(source, (kind, n), one)
            key = f"g{len(groups) + 1}"
            label, group = reader(table, key, rtt, time, n)
            table.end()
            if not _NAME.fullmatch(label) or label in names.values():
                raise table.error(
                    "name", f"name '{label}': must be a word that no other {kind} has"
                )
            names[key] = label
            groups.append(group)
    if not groups:
        raise source.error((), "there is no [[flow]] and no [[program]]")
    limits = top.take("limits", list, [])
    try:
        layout = Layout(
            rate=rate,
            queue=text,
            buffer=buffer or max(1, round(rate * rtt / 8e6 / (mtu + headers.ETHERNET))),
            mtu=mtu,
            groups=tuple(groups),
            seconds=time,
            warmup=warmup,
            seed=seed,
            look=top.take("sample", seconds, 0.02),
            loss=network.take("loss", part, 0.0),
            jitter=network.take("jitter", units.parse_time, 0),
            reorder=network.take("reorder", part, 0.0),
            reorder_by=network.take("reorder_by", units.parse_time, 0),
            back_rate=network.take("ack_rate", units.parse_rate, 0),
            back_queue=network.take("ack_queue", lambda text: text, ""),
            ecn=network.take("ecn", bool, False),
            gso=network.take("gso", bool, False),
            changes=tuple(map(parse_change, network.take("changes", list, []))),
            modules=tuple(modules),
        )
    except UsageError as error:
        if str(error).startswith(f"{source.path}:"):
            raise
        raise source.error(("network",), error) from None
    for table in (network, top):
        table.end()
    found = []
    for text in limits:
        try:
            limit = parse_limit(text, list(names.values()))
            if limit.end is not None and not (limit.begin or 0) < limit.end <= time:
                raise UsageError(f"limit '{text}': its times must be in order, and of the run")
            found.append(replace(limit, line=source.line(("limits",), text)))
        except (UsageError, AttributeError) as error:
            reason = error if isinstance(error, UsageError) else f"limit {text!r}: must be a string"
            raise top.error("limits", reason, str(text)) from None
    return Case(name, kernel, seed, layout, names, tuple(found))


def parse_change(text: object) -> tuple[float, int]:
    """A change of the rate such as `5 s: 2 Mbit/s`."""
    match = _CHANGE.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise UsageError(f"changes: '{text}': must be like 5 s: 2 Mbit/s")
    return seconds(match["when"]), units.parse_rate(match["rate"])


def parse_queue(text: str, rate: int, rtt: int, mtu: int) -> tuple[str, int]:
    """A queue such as `fifo 100p`, `fifo 64kb`, `fifo 1bdp`, or a qdisc with its options as tc has
    them: for tc (empty: a FIFO of packets), and its packets (0: unknown).
    """
    kind, _, rest = text.strip().partition(" ")
    if kind != "fifo":
        words = text.split()
        try:
            limits = qdisc.Qdisc(qdisc.BOTTLENECK, kind, tuple(words[1:])).limits()
        except ValueError:
            raise UsageError(f"'{text}': the limit must be a number, as for tc") from None
        known = qdisc.LIMITS.get(kind, {})
        packets = [n if known[w] == qdisc.PACKETS else n // mtu for w, n in limits.items()]
        return " ".join(words), max(1, *packets) if packets else SOME_PACKETS
    buffer = qdisc.parse_buffer(rest.replace(" ", ""), rate, rtt)
    frame = mtu + headers.ETHERNET
    if buffer.packets:
        return "", buffer.packets
    return f"bfifo limit {buffer.size}", max(1, -(-buffer.size // frame))


def read_flow(table: Table, key: str, rtt: int, time: float, _n: int) -> tuple[str, Group]:
    """A flow, or several of one kind."""
    cc = table.take("cc", str, "cubic")
    settings = table.take("settings", dict, {})
    stream = Stream(
        cc,
        count=table.take("count", int, 1),
        start=table.take("start", seconds, 0.0),
        spread=table.take("spread", seconds, 0.1),
        stop=min(table.take("stop", seconds, time), time),
        size=table.take("size", units.parse_size, 0),
        rate=table.take("rate", units.parse_rate, 0),
        on=table.take("on", on_off, ""),
        off=table.take("off", on_off, ""),
    )
    group = Group(
        key,
        table.take("rtt", units.parse_time, rtt),
        (stream,),
        reverse=table.take("reverse", bool, False),
        settings=tuple((name, str(value)) for name, value in settings.items()),
    )
    if bool(stream.on) != bool(stream.off):
        raise table.error("on", "on and off: both or none")
    return table.take("name", str, UDP if cc == UDP else cc), group


def on_off(text: str) -> str:
    """A period of a flow, `2 s`, or of a random length with a mean, `exp 2 s`, for fairflow."""
    law, _, mean = text.rpartition("exp ")
    return f"{'exp:' if law or text != mean else ''}{seconds(mean):g}"


def read_program(table: Table, key: str, rtt: int, _time: float, n: int) -> tuple[str, Group]:
    """A program: a server and a client."""
    words = {end: table.take(end, str, "") for end in ("server", "client")}
    for end, text in words.items():
        try:
            if "\0" in text:
                raise ValueError("no argument of a program has a NUL")
            first = shlex.split(text)[0]
        except (IndexError, ValueError):
            raise table.error(end, f"{end}: needs a command") from None
        place = table.source.path.parent / first
        if not ("/" in first and place.is_file()) and not shutil.which(first, path=PATH):
            raise table.error(end, f"{end}: no program '{first}'")
    port = table.take("port", int, FIRST_PORT + n)
    table.check("port", port, 1, 65535)
    program = Program(
        **words,
        port=port,
        start=table.take("start", seconds, 0.0),
        upload=table.take("upload", bool, False),
    )
    rtt = table.take("rtt", units.parse_time, rtt)
    reverse = table.take("reverse", bool, False)
    name = table.take("name", str, Path(shlex.split(words["client"])[0]).name)
    return name, Group(key, rtt, reverse=reverse, program=program)


#: Of a guest in virtual time.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
