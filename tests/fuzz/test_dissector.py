# SPDX-License-Identifier: GPL-2.0
"""The dissector rejects the same packets as the parser.

One capture has all handwritten packets and the corpus of the parser's fuzzer as payloads of
datagrams. The dissector must show the parser's result of each as expert information, no expert
information for valid packets, and no Lua error.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests import launch
from tests.fuzz.fuzzers import TOP, unpack_corpus, write_seeds
from tests.fuzz.seeds import SEEDS, VALID
from tests.kernel.lib.slbn_wire import (
    AUTH,
    JOIN,
    LEAVE,
    LEAVE_ACK,
    MAGIC,
    PORT,
    PROBE,
    PROBE_ACK,
    RATE_MAX,
    SHARE,
    SHARE_VALUE,
    SLOT_V4,
    SLOT_V6,
    TRACE,
    TRACE_VALUE,
    Datagram,
    Packet,
    decode,
    read_packet,
)
from tests.tshark import ALL, DISSECTOR, fields, tshark

ERRORS = ["truncated", "bad_version", "bad_type", "bad_hops", "bad_rate", "bad_weight"]
ERRORS += ["bad_option"]
MS = 10**6


@dataclass(frozen=True)
class Case:
    """The payload of a datagram and its parse result."""

    name: str
    octets: bytes
    result: str

    @property
    def has_magic(self) -> bool:
        return self.octets[:4] == MAGIC.to_bytes(4, "big")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    directory = tmp_path_factory.mktemp("cases")
    program = directory / "parse_result"
    flags = ["-std=gnu11", "-O1", f"-I{TOP}", f"-I{TOP}/include"]
    subprocess.run(["gcc", *flags, "-o", program, TOP / "tests/fuzz/parse_result.c"], check=True)
    files = [
        *write_seeds("wire", directory / "seeds"),
        *unpack_corpus("wire", directory / "corpus"),
    ]
    results = launch.succeed([program, *files]).stdout
    return [
        Case(file.name, file.read_bytes(), result)
        for file, result in zip(files, results.split(), strict=True)
    ]


def frames(payloads: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Frames of datagrams with these payloads, one per millisecond."""
    return [(n * MS, Datagram(payload).frame()) for n, payload in enumerate(payloads)]


def lua_errors(
    seen: list[tuple[int, bytes]], captured: int = ALL, dissector: Path = DISSECTOR
) -> list[str]:
    names = ["_ws.lua.error", "_ws.lua.text", "_ws.expert.message"]
    found = []
    for row in fields(seen, *names, captured=captured, dissector=dissector):
        found += row["_ws.lua.error"] + row["_ws.lua.text"]
        found += [text for text in row["_ws.expert.message"] if "Lua" in text]
    return found


def test_dissector_reports_parse_result(cases: list[Case]) -> None:
    assert {case.result for case in cases} == {"ok", "not_slbn", *ERRORS}
    assert len(cases) > len(SEEDS) + 20
    seen = frames(case.octets for case in cases)
    names = ["slbn.magic", *(f"slbn.error.{error}" for error in ERRORS)]
    wrong = []
    for case, row in zip(cases, fields(seen, *names), strict=True):
        shown = {error for error in ERRORS if row[f"slbn.error.{error}"]}
        if not case.has_magic:
            right = not row["slbn.magic"] and case.result in ("truncated", "not_slbn")
        elif case.result == "ok":
            right = bool(row["slbn.magic"]) and not shown
        else:
            right = case.result in shown
        if not right:
            wrong.append((case.name, case.result, shown))
    assert wrong == []
    assert lua_errors(seen) == []


@pytest.mark.parametrize("captured", [42 + n for n in (4, 5, 20, 60, 95, 96, 101, 120)])
def test_truncated_capture_is_no_error(cases: list[Case], captured: int) -> None:
    """A packet is not malformed because the capture has only its beginning."""
    seen = frames(case.octets for case in cases)
    assert lua_errors(seen, captured) == []
    rows = fields(seen, "slbn.magic", "slbn.error.truncated", captured=captured)
    for case, row in zip(cases, rows, strict=True):
        assert bool(row["slbn.magic"]) == case.has_magic
        if case.result == "ok":
            assert not row["slbn.error.truncated"]


def test_lua_errors_are_detected(cases: list[Case], tmp_path: Path) -> None:
    """A planted error in the script is found, so the tests above can fail."""
    careless = tmp_path / "careless.lua"
    check = "if at + 2 + size > length then"
    text = DISSECTOR.read_text()
    assert text.count(check) == 1
    careless.write_text(text.replace(check, "if false then"))
    assert lua_errors(frames(case.octets for case in cases), dissector=careless)


def options_in(packet: Packet) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(packet.options):
        end = at + 2 + packet.options[at + 1]
        yield packet.options[at], packet.options[at + 2 : end]
        at = end


def returns(packet: Packet) -> list[tuple[int, str]]:
    """Link and address of each return."""
    zero = (0, "0.0.0.0" if packet.slot_length == SLOT_V4 else "::")
    return [packet.returns.get(n, zero) for n in range(packet.slots + 1)]


def addresses(packet: Packet, slot_length: int) -> list[str]:
    if packet.slot_length != slot_length:
        return []
    return [address for _, address in returns(packet)]


def trace_field(number: int) -> Callable[[Packet], list[str]]:
    return lambda packet: [
        str(TRACE_VALUE.unpack(value)[number])
        for kind, value in options_in(packet)
        if kind == TRACE
    ]


def share_field(number: int) -> Callable[[Packet], list[str]]:
    return lambda packet: [
        str(SHARE_VALUE.unpack(value)[number])
        for kind, value in options_in(packet)
        if kind == SHARE
    ]


#: Expected values of each field.
SHOWN: dict[str, Callable[[Packet], list[str]]] = {
    "slbn.type": lambda p: [str(p.type)],
    "slbn.seq": lambda p: [str(p.seq)],
    "slbn.hop": lambda p: [str(p.hop)],
    "slbn.slots": lambda p: [str(p.slots)],
    "slbn.bottleneck": lambda p: [str(p.bottleneck)],
    "slbn.session": lambda p: [p.id.hex()],
    "slbn.bw2": lambda p: [str(p.bw2)],
    "slbn.bw1": lambda p: [str(p.bw1)],
    "slbn.bw": lambda p: [str(p.bw)],
    "slbn.slot_length": lambda p: [str(p.slot_length)],
    "slbn.flags": lambda p: [f"0x{p.flags:02x}"],
    "slbn.weight": lambda p: [str(p.weight)],
    "slbn.epoch": lambda p: [str(p.epoch)],
    "slbn.use1": lambda p: [str(p.use1)],
    "slbn.use": lambda p: [str(p.use)],
    "slbn.g": lambda p: [str(p.g)],
    "slbn.B": lambda p: [f"0x{p.B:016x}"],
    "slbn.B.hop": lambda p: [str(hop) for hop in range(64) if p.B >> hop & 1],
    "slbn.tag": lambda p: [str(p.tags.get(hop, 0)) for hop in range(p.slots)],
    "slbn.code": lambda p: [f"0x{p.codes.get(hop, 0):04x}" for hop in range(p.slots)],
    "slbn.held": lambda p: [str(decode(p.codes.get(hop, 0))) for hop in range(p.slots)],
    "slbn.link": lambda p: [str(link) for link, _ in returns(p)],
    "slbn.router": lambda p: addresses(p, SLOT_V4),
    "slbn.router6": lambda p: addresses(p, SLOT_V6),
    "slbn.option.type": lambda p: [str(kind) for kind, _ in options_in(p)],
    "slbn.option.length": lambda p: [str(len(value)) for _, value in options_in(p)],
    "slbn.option.value": lambda p: [
        v.hex() for kind, v in options_in(p) if kind not in (AUTH, TRACE, SHARE) and v
    ],
    "slbn.auth.key": lambda p: [str(v[0]) for kind, v in options_in(p) if kind == AUTH],
    "slbn.auth.time": lambda p: [
        str(int.from_bytes(v[2:6])) for kind, v in options_in(p) if kind == AUTH
    ],
    "slbn.auth": lambda p: [f"0x{v[6:].hex()}" for kind, v in options_in(p) if kind == AUTH],
    "slbn.share.links": share_field(0),
    "slbn.share.bands": share_field(1),
    "slbn.share": share_field(2),
    "slbn.trace.hop": trace_field(0),
    "slbn.trace.ttl": trace_field(2),
    "slbn.trace.backlog": trace_field(4),
    "slbn.trace.capacity": trace_field(5),
    "slbn.trace.share": trace_field(6),
    "slbn.trace.weights": trace_field(7),
    "slbn.trace.held": trace_field(8),
}


def test_fields(cases: list[Case]) -> None:
    valid = [case for case in cases if case.result == "ok"]
    rows = fields(frames(case.octets for case in valid), *SHOWN)
    for case, row in zip(valid, rows, strict=True):
        packet = read_packet(case.octets)
        assert row == {name: shown(packet) for name, shown in SHOWN.items()}, case.name


def test_texts_of_fields() -> None:
    probe = VALID["probe"]
    packets = [
        probe,
        VALID["join"],
        replace(VALID["every hop"], B=0b1011101, bw=16666666),
        replace(probe, weight=3, use=999, bw=0, epoch=1000000, g=RATE_MAX),
        replace(probe, key=bytes(16), key_id=200, time=1700000000),
        VALID["trace written"],
        VALID["trace asked"],
    ]
    seen = frames(packet.pack() for packet in packets)
    shown = tshark(seen, "-V")
    for line in (
        "    Type: Probe (2)",
        "    bw'': 16000000 (16 Mbit/s)",
        "    use: 9000000 (9 Mbit/s)",
        "    B: 0x0000000000000002 (hop 1)",
        "    Hop 0: ledger 21173, holds 4.1943 Mbit/s more",
        "    Hop 1: ledger 1, in B",
        "    Hop 2: not counted",
        "    Hop 3: ledger 65535, holds 4.3959 Tbit/s more",
        "    Epoch (us): 4294967295 (none)",
        "    Bottleneck (b): 255 (none: limited by its demand)",
        "    g: 1000000000000000 (1000 Tbit/s), no limit",
        "    Weight: 3",
        "    Epoch (us): 1000000",
        "    B: 0x0000000000000000 (no hop)",
        "    B: 0x000000000000005d (hops 0, 2-4, 6)",
        "    bw: 16666666 (16.6667 Mbit/s)",
        "    use: 999 (999 bit/s)",
        "    bw: 0 (0 bit/s)",
        "        Key number: 200",
        "        Sent by the source (s): 1700000000 (2023-11-14 22:13:20 UTC)",
        "    Option: Trace of hop 1",
        "        Capacity: 50000000 (50 Mbit/s)",
        "    Option: Trace of hop 2, not written yet",
    ):
        assert f"\n{line}\n" in shown, line
    summary = tshark(seen, "-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")
    assert summary.splitlines()[:2] == [
        "SLBN\tProbe session 00010203… seq 7 hop 2 bw 15 Mbit/s use 9 Mbit/s bottleneck 1",
        "SLBN\tJoin session 00010203… seq 0 hop 0 bw 1000 Tbit/s use 0 bit/s bottleneck -",
    ]


@pytest.mark.parametrize("ports", [(PORT, PORT), (PORT, 40000), (40000, PORT), (40000, 40001)])
def test_found_by_port_or_magic(ports: tuple[int, int]) -> None:
    others = [b"", b"SLB", b"SLBO" * 40, b"LBN" + bytes(80)]
    payloads = [VALID["probe"].pack(), *others]
    sport, dport = ports
    datagrams = [Datagram(each, sport=sport, dport=dport).frame() for each in payloads]
    seen = [row["slbn.seq"] for row in fields(list(enumerate(datagrams)), "slbn.seq")]
    assert seen == [["7"], *[[]] * len(others)]


def test_filters() -> None:
    seen = frames(packet.pack() for packet in VALID.values())
    names = list(VALID)

    def found(expression: str) -> set[str]:
        numbers = tshark(seen, "-Y", expression, "-T", "fields", "-e", "frame.number").split()
        return {names[int(number) - 1] for number in numbers}

    assert found("slbn.type == 1") == {"join"}
    assert found("slbn.bw < 1000") == {"smallest rates"}
    assert found("slbn.flags.again == 1") == {"retransmitted"}
    assert found("slbn.weight > 1") == {"largest weight"}
    v6 = {"IPv6 routers", "longest"}
    assert found("slbn.router6 == fd00::5") == v6
    assert found("slbn.router == 10.0.8.2") == set(names) - v6
    assert found("slbn.B.hop == 63") == {"all hops", "every hop", "longest"}
    authentic = {"authentic", "padded", "unknown options", "longest", "trace asked"}
    authentic.add("share asked")
    assert found("slbn.auth") == authentic
    assert found("slbn.trace.filled == 1") == {"trace written", "share stated"}
    assert found("slbn.share == 40000000") == {"share stated"}
    assert found("slbn.trace.hop == 2") == {"trace asked"}
    assert found("slbn.option.type == 200") == {"unknown options"}
    assert found("slbn.session == 00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f") == set(names)


def test_replies_are_matched_with_requests() -> None:
    """By session, sequence number and hop; the time is since the last retransmission."""
    a, b = VALID["probe"], replace(VALID["probe"], id=bytes(16))
    sent = [
        (0, replace(a, type=JOIN)),
        (1, b),
        (3, replace(a, type=JOIN, hop=3)),
        (5, replace(a, type=PROBE_ACK, hop=3)),
        (8, replace(a, type=PROBE_ACK)),
        (10, replace(a, type=PROBE, seq=8)),
        (20, replace(a, type=PROBE, seq=8)),
        (21, replace(a, type=PROBE_ACK, seq=9)),
        (22, replace(a, type=PROBE_ACK, seq=8)),
        (23, replace(b, type=LEAVE, seq=8)),
        (1024, replace(b, type=LEAVE_ACK, seq=8)),
    ]
    seen = [(ms * MS, Datagram(packet.pack()).frame()) for ms, packet in sent]
    rows = fields(seen, "slbn.response_to", "slbn.time")
    found = {
        n: (int(row["slbn.response_to"][0]), round(float(row["slbn.time"][0]), 6))
        for n, row in enumerate(rows, 1)
        if row["slbn.response_to"]
    }
    assert found == {4: (3, 0.002), 5: (1, 0.008), 9: (7, 0.002), 11: (10, 1.001)}
    # The frame of the reply is known in the second pass.
    options = ["-2", "-T", "fields", "-e", "slbn.response_in"]
    output = tshark(seen, *options).split("\n")
    assert {n: int(line) for n, line in enumerate(output, 1) if line} == {1: 5, 3: 4, 7: 9, 10: 11}
