# SPDX-License-Identifier: GPL-2.0
"""The fuzzers find nothing in what they found before, nor in some seconds more.

Each starts from its corpus, always with the same random numbers and as many inputs, so that the
verdict does not depend on the machine. `make fuzz` searches for longer.

Whether they would find something is tried as well: in copies of the sources each time one check
is missing or one line wrong, and the fuzzer has to notice.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.fuzzers import (
    LONGEST,
    NAMES,
    TOP,
    archive,
    build,
    pack_corpus,
    seeds,
    unpack_corpus,
    write_seeds,
)
from tests.fuzz.reader_seeds import READER_SEEDS
from tests.fuzz.seeds import SEEDS

#: Inputs that each makes, in some seconds.
RUNS = {
    **{"wire": 1_500_000, "link": 100_000, "source": 150_000},
    **{"json": 60_000, "csv": 60_000},
}
#: Within these a planted bug is found.
PLANTED_RUNS = 100_000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the fuzzers are."""
    directory = tmp_path_factory.mktemp("fuzz")
    for name in NAMES:
        build(name, directory)
    return directory


def run(program: Path, work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fuzzer, on a copy of its corpus in `work`, which gets what it finds, too."""
    name = program.name.removeprefix("fuzz_")
    inputs = work / "inputs"
    unpack_corpus(name, inputs)
    write_seeds(name, inputs)
    command = [str(program), f"-artifact_prefix={work}/", f"-max_len={LONGEST[name]}", *arguments]
    return subprocess.run(
        [*command, inputs], check=False, capture_output=True, text=True, errors="replace"
    )


@pytest.mark.parametrize("name", NAMES)
def test_corpus(programs: Path, tmp_path: Path, name: str) -> None:
    count = len(unpack_corpus(name, tmp_path / "corpus"))
    assert count > 20
    done = run(programs / f"fuzz_{name}", tmp_path, "-runs=0")
    assert done.returncode == 0, done.stderr
    # The empty input is one more; it may be among the seeds.
    made = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
    given = count + len(seeds(name))
    assert made and given <= int(made[1]) <= given + 1


def test_corpus_packing_is_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive depends on names and contents of the inputs only."""
    inputs = unpack_corpus("wire", tmp_path / "inputs")
    copies = tmp_path / "copies"
    copies.mkdir()
    for path in reversed(inputs):
        (copies / path.name).write_bytes(path.read_bytes())
        os.utime(copies / path.name, (0, 0))
        (copies / path.name).chmod(0o600)
    monkeypatch.setattr("tests.fuzz.fuzzers.HERE", tmp_path)
    packed = []
    for directory in (tmp_path / "inputs", copies):
        assert pack_corpus("wire", directory) == len(inputs)
        packed.append(archive("wire").read_bytes())
    assert packed[0] == packed[1]
    assert len(unpack_corpus("wire", tmp_path / "again")) == len(inputs)


@pytest.mark.parametrize("name", NAMES)
def test_some_more(programs: Path, tmp_path: Path, name: str) -> None:
    done = run(programs / f"fuzz_{name}", tmp_path, f"-runs={RUNS[name]}", "-seed=1")
    assert done.returncode == 0, done.stderr


def test_seeds(tmp_path: Path) -> None:
    """The parser says of each packet what it is there for."""
    program = tmp_path / "flaw"
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += [f"-I{TOP}", f"-I{TOP}/include"]
    subprocess.run(["gcc", *flags, "-o", program, TOP / "tests/fuzz/flaw.c"], check=True)
    said = subprocess.run(
        [program, *write_seeds("wire", tmp_path / "seeds")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    wrong = [
        (name, flaw, verdict)
        for (name, flaw, _), verdict in zip(SEEDS, said, strict=True)
        if flaw != verdict
    ]
    assert wrong == []
    assert {flaw for _, flaw, _ in SEEDS} == {
        *("sound", "short", "strange", "type", "hops", "rate", "option")
    }


#: Fuzzer, file, what stands there and what stands there instead.
PLANTED = {
    "header beyond the end": (
        "wire",
        "slbn_wire.h",
        "if (given < SLBN_HEADER_LENGTH)",
        "if (given < SLBN_HEADER_LENGTH - 1)",
    ),
    "packet beyond the end": ("wire", "slbn_wire.h", "layout->length > given || ", ""),
    "option beyond the end": ("wire", "slbn_wire.h", "if (end > layout->length)", "if (0)"),
    "too many hops": ("wire", "slbn_wire.h", "pkt->slots > SLBN_HOPS_MAX || ", ""),
    "B beyond room": ("wire", "slbn_wire.h", "(pkt->slots < 64 && pkt->B >> pkt->slots)", "0"),
    "authentication twice": ("wire", "slbn_wire.h", "if (layout->auth || ", "if ("),
    "tag of the next hop": (
        "wire",
        "slbn_wire.h",
        "slbn_put16(data + slbn_tag_at(hop), tag)",
        "slbn_put16(data + slbn_tag_at(hop + 1), tag)",
    ),
    "a number that wraps": ("link", "slbn_core.h", "if (from >= amount)", "if (1)"),
    "nothing is stale": (
        "link",
        "slbn_core.h",
        "if ((s32)(pkt->seq - entry->seq) < 0)",
        "if (0)",
    ),
    "memory is not believed": ("link", "slbn_core.h", "if (!entry)", "if (1)"),
    "R is forgotten": ("link", "slbn_core.h", "= entry->in_R;", "= pkt->B >> hop & 1;"),
    "dropped after the fact": (
        "link",
        "slbn_core.h",
        "pkt->type != SLBN_LEAVE_ACK) {\n",
        "pkt->type != SLBN_LEAVE_ACK) {\n\t\tv->cur.N++;\n",
    ),
    "a page is not turned": ("link", "slbn_core.h", "epochs == 1 ? v->tag : SLBN_NO_TAG", "v->tag"),
    "a session twice in memory": (
        "link",
        "slbn_core.h",
        "for (way = 0; way < SLBN_MEMORY_WAYS - 1; way++)",
        "for (way = SLBN_MEMORY_WAYS - 1; 0;)",
    ),
    "more than was asked for": (
        "source",
        "slbn_core.h",
        "fp_min64(ack->bw, src->D)",
        "ack->bw",
    ),
    "another's answer": ("source", "slbn_core.h", "ack->id[0] != pkt->id[0] ||", ""),
    "an answer of another size": (
        "source",
        "slbn_core.h",
        "ack->id[1] != pkt->id[1] || ack->slots != pkt->slots)",
        "ack->id[1] != pkt->id[1])",
    ),
    "a name that JSON cannot hold": (
        "csv",
        "text.c",
        "if (is_control(name[n]))",
        "if (0)",
    ),
    "a path too long": ("csv", "read.c", "if (count > NET_HOPS_MAX)", "if (0)"),
    "a path that comes back": (
        "csv",
        "net.c",
        "if (net->links[links[m]].from != link->to)",
        "if (1)",
    ),
    "a column too many": ("csv", "read.c", "|| count > COLUMNS)", ")"),
    "two ways that differ": ("json", "write.c", "there->rate == back->rate &&", ""),
    "no delay at all": ("json", "read.c", "value >= 0 && value <= NET_DELAY", "value <= NET_DELAY"),
    "a line too far": (
        "json",
        "text.c",
        "return text->lines + 1;",
        "return text->lines + 2;",
    ),
    "what is told is not cleaned": ("json", "text.c", "if (is_control(*at))", "if (0)"),
    "memory that stays": ("json", "read.c", "\tfree(r.links);\n", ""),
}

#: Where they are.
PLACES = {
    name: "userspace/slbnsim" if name in READER_SEEDS else "include/fairpath/slbn" for name in NAMES
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted(tmp_path: Path, bug: str) -> None:
    name, file, right, wrong = PLANTED[bug]
    tree = tmp_path / "tree"
    for place in set(PLACES.values()):
        shutil.copytree(TOP / place, tree / place)
    planted = tree / PLACES[name] / file
    text = planted.read_text()
    assert text.count(right) == 1, "the line has changed: plant the bug anew"
    planted.write_text(text.replace(right, wrong))
    program = build(name, tmp_path, tree)
    done = run(program, tmp_path, f"-runs={PLANTED_RUNS}", "-seed=1")
    assert done.returncode, "not noticed"
    assert "does not hold" in done.stderr or "Sanitizer" in done.stderr, done.stderr
