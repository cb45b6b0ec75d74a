# SPDX-License-Identifier: GPL-2.0
"""Records of runs in virtual time, and `fairlab verify`."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fairlab.cli import verify
from fairlab.model.errors import CannotRunError
from fairlab.run import exact

from tests.lab.labtools import TOP, assert_refused, run_fairlab

RECORD: dict[str, Any] = {
    "format": exact.FORMAT,
    "guest": {"kernel": "6.1", "seed": 3, "jitter": False, "memory": 0, "seconds": 5},
    "job": {"kind": "scenario", "what": {}},
    "packets": 2,
    "sha256": "00" * 32,
    "inputs": {"library libc.so.6": "11" * 32},
    "rdrand": True,
    "project": "1",
}


def fingerprints(path: Path, *packets: int, count: int | None = None) -> Path:
    """A file of fingerprints, as scripts/vm --packets writes it."""
    body = b"".join(struct.pack("<H", packet) for packet in packets)
    number = len(packets) if count is None else count
    path.write_bytes(body + exact.TRAILER.pack(number, hashlib.sha256(body).digest()))
    return path


def test_trailer(tmp_path: Path) -> None:
    made = fingerprints(tmp_path / "a", 1, 2, 3)
    assert exact.read_trailer(made) == (3, hashlib.sha256(made.read_bytes()[:6]).hexdigest())


@pytest.mark.parametrize("damage", ["cut", "empty", "count"])
def test_damaged_fingerprints(tmp_path: Path, damage: str) -> None:
    made = fingerprints(tmp_path / "a", 1, 2, 3, count=2**63 if damage == "count" else None)
    if damage != "count":
        made.write_bytes(made.read_bytes()[: 0 if damage == "empty" else -1])
    with pytest.raises(CannotRunError, match="truncated, or not a file of fingerprints"):
        exact.read_trailer(made)


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ((1, 2, 3), (1, 2, 3), None),
        ((1, 2, 3), (1, 2, 0x103), 2),
        ((1, 2, 3), (1, 7, 3), 1),
        ((1, 2, 3), (1, 2), 2),
        ((), (5,), 0),
        (range(40000), (*range(39999), 0), 39999),
    ],
)
def test_first_difference(
    tmp_path: Path, one: tuple[int, ...], other: tuple[int, ...], first: int | None
) -> None:
    paths = fingerprints(tmp_path / "a", *one), fingerprints(tmp_path / "b", *other)
    assert exact.first_difference(*paths) == first == exact.first_difference(*paths[::-1])


def test_changed_inputs_are_named() -> None:
    then = {"kernel": "a" * 64, "library libc.so.6": "b" * 64, "module tcp_bic": "c" * 64}
    now = {"kernel": "a" * 64, "library libc.so.6": "d" * 64, "program tc": "e" * 64}
    assert verify.differences(then, then) == []
    assert verify.differences(then, now) == [
        "library libc.so.6: dddddddddddd here, bbbbbbbbbbbb recorded",
        "module tcp_bic: missing here",
        "program tc: not recorded",
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "1"),
        (("format",), None),
        (("guest",), []),
        (("guest", "seed"), -1),
        (("guest", "seed"), "1"),
        (("guest", "memory"), 1 << 40),
        (("guest", "kernel"), ["6.1"]),
        (("job", "kind"), "shell"),
        (("job", "what"), "text"),
        (("packets",), "2"),
        (("inputs",), {"kernel": 1}),
        (("inputs",), None),
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    record = copy.deepcopy(RECORD)
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    (tmp_path / exact.RECORD).write_text(json.dumps(record))
    assert_refused(run_fairlab("verify", str(tmp_path)), 3, "the record is damaged")


def test_records_of_other_formats_say_what_to_do(tmp_path: Path) -> None:
    record = RECORD | {"format": 0, "project": "0123abc"}
    (tmp_path / exact.RECORD).write_text(json.dumps(record))
    done = run_fairlab("verify", str(tmp_path))
    assert_refused(done, 3, "its record, made at 0123abc, has format 0, not 1: run it again")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00"])
def test_files_that_are_no_records(tmp_path: Path, text: str) -> None:
    (tmp_path / exact.RECORD).write_text(text)
    assert_refused(run_fairlab("verify", str(tmp_path)), 3, "the record is damaged")


def test_nothing_to_verify(tmp_path: Path) -> None:
    assert_refused(run_fairlab("verify", "--out", str(tmp_path)), 2, "no stored runs")
    assert_refused(run_fairlab("verify", str(tmp_path / "x")), 2, "no such run")


def test_negative_timeout(tmp_path: Path) -> None:
    assert_refused(run_fairlab("verify", "--timeout", "-1", str(tmp_path)), 2, "--timeout -1")


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.tier("test")
def test_a_run_is_verified(tmp_path: Path) -> None:
    """From another directory, with another environment; then its record is edited."""
    words = "run dumbbell --flows bic,gaimd --rate 10mbit --rtt 20ms --time 3 --warmup 1"
    out = tmp_path / "results"
    done = run_fairlab(*words.split(), "--engine", "virtual", "--seed", "7", "--out", str(out))
    assert done.returncode == 0, done.stderr
    (run,) = out.iterdir()
    cache = os.environ.get("FAIRPATH_CACHE") or str(Path.home() / ".cache/fairpath")
    again = subprocess.run(
        [TOP / "scripts/fairlab", "verify", "--json"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "FAIRPATH_CACHE": cache, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    (verdict,) = json.loads(again.stdout)
    assert verdict["verdict"] == "exact" and verdict["packets"] > 1000

    kept = (run / exact.PACKETS).read_bytes()
    changed = bytearray(kept)
    changed[2 * 500] ^= 1
    (run / exact.PACKETS).write_bytes(changed)
    edit(run / exact.RECORD, sha256="00" * 32)
    done = run_fairlab("verify", "--json", str(run))
    assert done.returncode == 1, done.stdout + done.stderr
    (verdict,) = json.loads(done.stdout)
    assert (verdict["verdict"], verdict["first"]) == ("differs", 500)
    assert " octets at 20000000" in verdict["packet"]

    inputs = json.loads((run / exact.RECORD).read_text())["inputs"]
    edit(run / exact.RECORD, inputs=inputs | {"library libc.so.6": "22" * 32})
    done = run_fairlab("verify", str(run))
    assert done.returncode == 5, done.stdout + done.stderr
    assert "not comparable\n  library libc.so.6: " in done.stdout
