# SPDX-License-Identifier: GPL-2.0
"""Records of runs in virtual time, and `fairlab verify`."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from fairlab.cli import verify
from fairlab.figures import gallery
from fairlab.model.errors import CannotRunError
from fairlab.run import exact
from fairlab.slbn import simulated

from tests import launch
from tests.lab.labtools import TOP, assert_refused, call_fairlab, run_fairlab

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


def test_programs_do_not_contain_the_path_of_the_tree() -> None:
    """Records have their hashes: the same sources must give the same programs anywhere."""
    built = [path for glob in exact.BUILT for path in TOP.glob(glob) if path.is_file()]
    assert {"fairflow", "slbnd", "slbnctl", "q_slbn.so"} <= {path.name for path in built}
    assert [path.name for path in built if str(TOP).encode() in path.read_bytes()] == []


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
    assert_refused(call_fairlab("verify", str(tmp_path)), 3, "the record is damaged")


def test_records_of_other_formats_say_what_to_do(tmp_path: Path) -> None:
    record = RECORD | {"format": 0, "project": "0123abc"}
    (tmp_path / exact.RECORD).write_text(json.dumps(record))
    done = call_fairlab("verify", str(tmp_path))
    assert_refused(done, 3, "its record, made at 0123abc, has format 0, not 1: run it again")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00"])
def test_files_that_are_no_records(tmp_path: Path, text: str) -> None:
    (tmp_path / exact.RECORD).write_text(text)
    assert_refused(call_fairlab("verify", str(tmp_path)), 3, "the record is damaged")


def test_nothing_to_verify(tmp_path: Path) -> None:
    for number, text in enumerate(("5", "null", "[" * 100_000)):
        (tmp_path / f"figure@{number}.json").write_text(text)
    assert_refused(call_fairlab("verify", "--out", str(tmp_path)), 2, "no stored runs")
    assert_refused(call_fairlab("verify", str(tmp_path / "x")), 2, "no such run")


def test_negative_timeout(tmp_path: Path) -> None:
    assert_refused(call_fairlab("verify", "--timeout", "-1", str(tmp_path)), 2, "--timeout -1")


# --- a random part of the stored runs of figures ------------------------------------------------


SIMULATED: dict[str, Any] = {
    "format": exact.FORMAT,
    "simulator": "slbnsim",
    "arguments": ["experiment", "1a"],
    "sha256": "00" * 32,
    "inputs": {"compiler": "GCC 1"},
    "project": "1",
}


def store(place: Path, name: str, record: object = None) -> Path:
    """A stored run of a figure, with a record or, as old ones are, without."""
    path = place / "data" / "slbn-1a" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"numbers": {}} | ({"exact": record} if record else {})))
    return path


def test_a_seed_chooses_a_part(tmp_path: Path) -> None:
    runs = [tmp_path / f"a@{n}.json" for n in range(1, 101)]
    assert verify.part_of(runs, 5, 7) == verify.part_of(runs, 5, 7) != verify.part_of(runs, 5, 8)
    for percent, count in ((0.1, 1), (5, 5), (33, 33), (100, 100)):
        part = verify.part_of(runs, percent, 7)
        assert len(part) == len(set(part)) == count and set(part) <= set(runs)


def test_chosen_runs_are_printed_and_old_ones_counted(tmp_path: Path) -> None:
    """On another compiler: nothing is repeated, and the status is of its own."""
    for n in range(1, 21):
        store(tmp_path, f"rcp@{n}", SIMULATED)
    store(tmp_path, "rcp@21")
    words = ("verify", "--quiet", "--share", "10", "--out", str(tmp_path))
    done = call_fairlab(*words, "--seed", "7")
    assert done.returncode == 5, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == (
        "2 of 20 runs (10 %, seed 7); 1 other stored runs have no record, as they are older"
    )
    listed = [line.strip() for line in others if line.endswith(".json")]
    assert len(set(listed)) == 2 and all(Path(run).is_file() for run in listed)
    for run in listed:
        assert f"{run}: not comparable" in done.stdout
    assert done.stdout.count(" here, GCC 1 recorded") == 2
    again = call_fairlab(*words, "--seed", "7")
    assert again.stdout == done.stdout
    # Without a seed another part is chosen, which its line says how to choose again.
    other = call_fairlab(*words)
    assert "2 of 20 runs (10 %, seed " in other.stdout


def test_runs_older_than_records_are_said_to_be_so(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        store(tmp_path, f"rcp@{n}")
    done = call_fairlab("verify", "--share", "5", "--out", str(tmp_path))
    assert_refused(done, 2, "none of the 3 stored runs has a record: all are older")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--share 0", "--share 0: must be above 0, at most 100 %"),
        ("--share 101", "--share 101: must be above 0, at most 100 %"),
        ("--share nan", "--share nan: must be above 0, at most 100 %"),
        ("--share x", "invalid float value: 'x'"),
        ("--seed 7", "--seed chooses runs with --share only"),
    ],
)
def test_bad_shares(tmp_path: Path, words: str, message: str) -> None:
    store(tmp_path, "rcp@1", SIMULATED)
    assert_refused(call_fairlab("verify", *words.split(), "--out", str(tmp_path)), 2, message)


@pytest.mark.parametrize(
    "change",
    [
        *({"arguments": words} for words in ([], ["run", "x"], ["experiment", 1])),
        {"simulator": "ns-2"},
        *({"sha256": 1}, {"inputs": {"compiler": None}}, {"format": "1"}),
    ],
)
def test_damaged_records_of_the_simulator_are_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = store(tmp_path, "rcp@1", SIMULATED | change)
    assert_refused(call_fairlab("verify", str(path)), 3, "the record is damaged")


def test_a_run_of_the_simulator_is_verified(tmp_path: Path) -> None:
    """As a figure stores it; then its record is edited."""
    words = (
        "figure",
        "slbn-1a",
        "--quick",
        "--run",
        "slbn-paper@3",
        "--out",
        str(tmp_path),
    )
    assert call_fairlab(*words, "--quiet").returncode == 0
    path = tmp_path / "data/slbn-1a/slbn-paper@3.json"
    stored = json.loads(path.read_text())
    done = call_fairlab("verify", "--share", "5", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{path}: exact, the same answer" in done.stdout
    assert stored["exact"]["inputs"] == simulated.inputs()
    stored["exact"]["sha256"] = "00" * 32
    path.write_text(json.dumps(stored))
    done = call_fairlab("verify", str(path))
    assert done.returncode == 1 and "differs\n  the answer has SHA-256 " in done.stdout


def test_a_run_of_a_model_is_verified(tmp_path: Path) -> None:
    words = ("figure", "fq-active-flows", "--quick", "--run", "rr-500@3", "--out", str(tmp_path))
    assert call_fairlab(*words, "--quiet").returncode == 0
    path = tmp_path / "data/fq-active-flows/rr-500@3.json"
    done = call_fairlab("verify", str(path))
    assert (done.returncode, done.stdout) == (0, f"{path}: exact, the same answer\n")
    stored = json.loads(path.read_text())
    other = '{"scheduler": "LIFO", "rate": 1, "seed": 1, "count": 1}'
    for arguments in (["{}"], ["x"], [], [other]):
        stored["exact"]["arguments"] = arguments
        path.write_text(json.dumps(stored))
        assert_refused(call_fairlab("verify", str(path)), 3, "the record is damaged")


def test_only_what_a_run_uses_has_to_be_the_same(tmp_path: Path) -> None:
    """A run of Reno in a FIFO does not depend on other modules; one with drr_fq does on it."""
    studies = {study.name: study for study in gallery.load(None)}

    def unused(name: str, case: str, inputs: list[str]) -> set[str]:
        what = next(c.what for c in studies[name].cases(False, 1) if c.name == case)
        stored = {"study": name, "case": case, "seed": 1, "what": what.to_json()}
        path = tmp_path / "run.json"
        path.write_text(json.dumps(stored))
        used = verify.used_by(path)
        return {one for one in inputs if not verify.is_used(one, used)}

    always = [
        "kernel",
        "library libc.so.6",
        "program tc",
        "built fairflow",
        "python mininet",
    ]
    always += ["source userspace/lab/fairlab/run/*.py", "source scripts/fairlab"]
    fair = ["module sch_drr_fq", "built q_drr_fq.so"]
    slbn = ["module sch_slbn", "built q_slbn.so", "built slbnd", "built slbnctl"]
    lab = [
        "source userspace/lab/fairlab/slbn/*.py",
        "source userspace/lab/fairlab/mininet/*.py",
    ]
    every = [*always, *fair, *slbn, *lab, "module tcp_bic"]
    others = {*slbn, *lab, "module tcp_bic"}
    assert unused("fq-one-flow", "1reno-20-fifo", every) == others | set(fair)
    assert unused("fq-one-flow", "1reno-20-fq", every) == others
    # What is not a figure's run, or another one than today's, uses all.
    assert verify.used_by(tmp_path) is None and verify.is_used("module tcp_bic", None)
    (tmp_path / "run.json").write_text('{"study": "fq-one-flow", "case": "x", "seed": 1}')
    assert verify.used_by(tmp_path / "run.json") is None


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
    again = launch.succeed(
        [TOP / "scripts/fairlab", "verify", "--json"],
        cwd=tmp_path,
        environment={"HOME": str(tmp_path), "FAIRPATH_CACHE": cache, "TZ": "Asia/Tokyo"},
    )
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
