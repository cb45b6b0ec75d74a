# SPDX-License-Identifier: GPL-2.0
"""The fuzzers pass on their corpora and for some seconds more, and detect planted bugs.

Each run has a fixed seed and a fixed number of inputs, so that the result does not depend on the
machine. `make fuzz` runs longer.

A planted bug is a copy of the sources with one check removed or one line changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.fuzz.fuzzers import (
    LONGEST,
    NAMES,
    TOP,
    archive,
    build,
    built,
    pack_corpus,
    seeds,
    unpack_corpus,
    write_seeds,
)
from tests.fuzz.reader_seeds import READER_SEEDS
from tests.fuzz.seeds import SEEDS

#: Inputs per fuzzer, some seconds each.
RUNS = {
    **{"wire": 1_000_000, "link": 50_000, "source": 100_000},
    **{"json": 60_000, "csv": 60_000, "state": 10_000},
}
#: Inputs within which a planted bug is found.
PLANTED_RUNS = 100_000


@pytest.fixture(scope="module")
def programs() -> Path:
    """The directory of the built fuzzers, which the stages fuzz and fuzz-test share."""
    return built()


def run(program: Path, work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a fuzzer on a copy of its corpus; failing inputs are left in `work`."""
    name = program.name.removeprefix("fuzz_")
    inputs = work / "inputs"
    unpack_corpus(name, inputs)
    write_seeds(name, inputs)
    # A fuzzer mutates inputs by values that it saw compared, addresses among them, and would read
    # its directory again each second: without fixed addresses and -reload=0 its inputs would differ
    # from run to run.
    command = ["setarch", "--addr-no-randomize"]
    command += [str(program), f"-artifact_prefix={work}/", f"-max_len={LONGEST[name]}", "-reload=0"]
    command += arguments
    return launch.run([*command, inputs], errors="replace")


@pytest.mark.parametrize("name", NAMES)
def test_corpus_passes(programs: Path, tmp_path: Path, name: str) -> None:
    count = len(unpack_corpus(name, tmp_path / "corpus"))
    assert count > 20
    done = run(programs / f"fuzz_{name}", tmp_path, "-runs=0")
    assert done.returncode == 0, done.stderr
    inputs = list((tmp_path / "inputs").iterdir())
    assert len(inputs) == count + len(seeds(name))
    # The files read are compared, not the runs made: libFuzzer repeats an input to look for a leak
    # if its own thread allocated meanwhile.  It reads no empty file, but always runs empty input.
    read = re.search(r"^INFO: seed corpus: files: (\d+) ", done.stderr, re.MULTILINE)
    made = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
    assert read and int(read[1]) == sum(path.stat().st_size > 0 for path in inputs)
    assert made and int(made[1]) > int(read[1])


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


@pytest.mark.tier("test")
@pytest.mark.parametrize("name", NAMES)
def test_new_inputs_pass(programs: Path, tmp_path: Path, name: str) -> None:
    done = run(programs / f"fuzz_{name}", tmp_path, f"-runs={RUNS[name]}", "-seed=1")
    assert done.returncode == 0, done.stderr


def test_seeds_have_their_parse_result(tmp_path: Path) -> None:
    """The parser returns the expected result for each handwritten packet."""
    program = tmp_path / "parse_result"
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += [f"-I{TOP}", f"-I{TOP}/include"]
    subprocess.run(["gcc", *flags, "-o", program, TOP / "tests/fuzz/parse_result.c"], check=True)
    results = launch.succeed([program, *write_seeds("wire", tmp_path / "seeds")]).stdout.split()
    wrong = [
        (name, expected, result)
        for (name, expected, _), result in zip(SEEDS, results, strict=True)
        if expected != result
    ]
    assert wrong == []
    assert {expected for _, expected, _ in SEEDS} == {
        *("ok", "truncated", "not_slbn", "bad_version", "bad_type", "bad_hops"),
        *("bad_rate", "bad_weight", "bad_option"),
    }


#: Fuzzer and file: bug, original text and its replacement.
PLANTED = {
    ("state", "state.c"): {
        "maximum of the source's slots removed": ("source->slots <= SLBN_HOPS_MAX &&", ""),
        "range check of a record's rate removed": ("source->rate <= source->D && ", ""),
        "index of a record unchecked": (
            "(u32)record->source.pkt.id[1] == index &&",
            "(u32)record->source.pkt.id[1] >= index &&",
        ),
    },
    ("wire", "slbn_wire.h"): {
        "header length off by one": (
            "if (given < SLBN_HEADER_LENGTH)",
            "if (given < SLBN_HEADER_LENGTH - 1)",
        ),
        "length check of the packet removed": ("layout->length > given || ", ""),
        "length check of options removed": ("if (end > layout->length)", "if (0)"),
        "slot length unchecked": (
            "(layout->slot_length != SLBN_SLOT_LENGTH_V4 &&",
            "(layout->slot_length < SLBN_SLOT_LENGTH_V4 &&",
        ),
        "maximum of the weight removed": (
            "!pkt->weight || pkt->weight > SLBN_WEIGHT_MAX",
            "!pkt->weight",
        ),
        "maximum of the grant removed": (" || pkt->g > SLBN_RATE_MAX", ""),
        "maximum of slots removed": (" || pkt->slots > SLBN_HOPS_MAX", ""),
        "range check of B removed": ("(pkt->slots < 64 && pkt->B >> pkt->slots)", "0"),
        "addresses are not authenticated": (
            "hash(carrier->addresses, carrier->length, key->secret)",
            "hash(carrier->addresses, 0, key->secret)",
        ),
        "any age of a packet is accepted": ("age > SLBN_AUTH_WINDOW || ", ""),
        "check of authentication changes the packet": (
            "slbn_put64(data + layout->auth, saved);",
            "(void)saved;",
        ),
        "check of repeated option removed": ("if (layout->auth || ", "if ("),
        "length of the trace unchecked": (
            "if (layout->trace || length != SLBN_TRACE_LENGTH)",
            "if (layout->trace)",
        ),
        "length of the share unchecked": (
            "if (layout->share || length != SLBN_SHARE_LENGTH)",
            "if (layout->share)",
        ),
        "trace written twice": ("value[SLBN_TRACE_AT(flags)] |= SLBN_TRACE_FILLED;", ""),
        "link writes the time": (
            "\tauth = slbn_authentication(",
            "\tslbn_put32(data + layout->auth - 4, carrier->time);\n\tauth = slbn_authentication(",
        ),
        "code written at the next slot": (
            "slbn_put16(at + 2, slot.code)",
            "slbn_put16(at + 6, slot.code)",
        ),
    },
    ("link", "slbn_core.h"): {
        "underflow check removed": ("if (from >= amount)", "if (1)"),
        "stale check removed": ("if ((s32)(pkt->seq - entry->seq) < 0)", "if (0)"),
        "overuse check removed": ("pkt->use > entry->held)", "0)"),
        "memory ignored": ("if (!entry)", "if (1)"),
        "set R taken from the packet": ("= entry->in_R;", "= pkt->B >> hop & 1;"),
        "any LeaveAck forwarded": ("SLBN_LEAVE_ACK ? found->left :", "SLBN_LEAVE_ACK ? true :"),
        "dropped packet counted": (
            "!slbn_has_passed(pkt, &found)) {\n",
            "!slbn_has_passed(pkt, &found)) {\n\t\tv->cur.N++;\n",
        ),
        "tag of a skipped epoch kept": ("epochs == 1 ? v->tag : SLBN_NO_TAG", "v->tag"),
        "two memory entries for a session": (
            "for (way = 0; way < SLBN_MEMORY_WAYS - 1; way++)",
            "for (way = SLBN_MEMORY_WAYS - 1; 0;)",
        ),
        "hold of the packet kept downstream": (
            "if (slbn_is_upstream(pkt) || pkt->again)",
            "if (1)",
        ),
        "hold of a retransmitted packet taken from its code": (
            "if (slbn_is_upstream(pkt) || pkt->again)",
            "if (slbn_is_upstream(pkt))",
        ),
        "hold of the memory ignored": ("found->held = entry->held;", ";"),
        "room of the previous ledger ignored": ("slbn_both(v->cur.A, v->prev.A);", "v->cur.A;"),
        "hold rounded up beyond the room": ("if (held > room)", "if (0)"),
        "rise granted before the leases of others end": (
            "now < v->quiet_until)",
            "now < v->epoch_start)",
        ),
        "room not reduced by what is held": (
            "u64 room = slbn_link_room(p, v);",
            "u64 room = p->C;",
        ),
        "grant above the hold": ("pkt->g = fp_min64(pkt->g, held);", ";"),
        "hold of a copy of the packet lowered": ("if (found->same && ", "if (0 && "),
        "weight added once to N": ("v->cur.N += pkt->weight;", "v->cur.N++;"),
    },
    ("source", "slbn_core.h"): {
        "rate claimed after its lease": (
            "src->rate = lapsed ? 0 :",
            "src->rate = lapsed && !now ? 0 :",
        ),
        "rate above the demand": ("u64 plan = fp_min64(ack->bw, src->D);", "u64 plan = ack->bw;"),
        "rate above the grant": ("fp_min64(ack->g, plan)", "plan"),
        "lease from the acknowledgment on": ("src->lease = src->sent +", "src->lease = now +"),
        "rate kept while leaving": (
            "src->leaving = true;\n\tsrc->rate = 0;",
            "src->leaving = true;",
        ),
        "slots never extended": ("src->tries >= SLBN_PATH_TRIES && pkt->slots < src->slots", "0"),
        "acknowledgment of another session accepted": ("ack->id[0] != pkt->id[0] ||", ""),
        "slots of acknowledgment unchecked": (
            "ack->id[1] != pkt->id[1] || ack->slots > pkt->slots)",
            "ack->id[1] != pkt->id[1])",
        ),
    },
    ("csv", "text.c"): {
        "control character in a name": ("if (is_control(name[n]))", "if (0)"),
    },
    ("csv", "read.c"): {
        "path length check removed": ("if (count > NET_HOPS_MAX)", "if (0)"),
        "column count check removed": ("|| count > COLUMNS)", ")"),
    },
    ("csv", "net.c"): {
        "path continuity check removed": ("if (net->links[links[m]].from != link->to)", "if (1)"),
    },
    ("json", "write.c"): {
        "rates of a duplex link not compared": ("there->rate == back->rate &&", ""),
    },
    ("json", "read.c"): {
        "negative delay accepted": ("value >= 0 && value <= NET_DELAY", "value <= NET_DELAY"),
        "memory leak": ("\tfree(r.links);\n", ""),
    },
    ("json", "text.c"): {
        "line number off by one": ("return text->lines + 1;", "return text->lines + 2;"),
        "control character in a message": ("if (is_control(*at))", "if (0)"),
    },
}

#: Fuzzer and file of each bug.
PLACE_OF = {bug: place for place, bugs in PLANTED.items() for bug in bugs}

#: Directories of their files.
PLACES = {
    **dict.fromkeys(("wire", "link", "source"), "include/fairpath/slbn"),
    **dict.fromkeys(READER_SEEDS, "userspace/slbnsim"),
    "state": "userspace/slbnd/sessions",
}

#: What is compiled with them.
TREE = (
    "include/fairpath/slbn",
    *(f"userspace/{name}" for name in ("common", "libslbn", "slbnd", "slbnsim")),
)


@pytest.mark.tier("all")
@pytest.mark.parametrize("bug", PLACE_OF)
def test_planted_bug_is_detected(tmp_path: Path, bug: str) -> None:
    name, file = PLACE_OF[bug]
    right, wrong = PLANTED[name, file][bug]
    tree = tmp_path / "tree"
    for place in TREE:
        shutil.copytree(TOP / place, tree / place)
    planted = tree / PLACES[name] / file
    text = planted.read_text()
    assert text.count(right) == 1, "the source has changed: adapt PLANTED"
    planted.write_text(text.replace(right, wrong))
    program = build(name, tmp_path, tree)
    done = run(program, tmp_path, f"-runs={PLANTED_RUNS}", "-seed=1")
    assert done.returncode, "not detected"
    assert "does not hold" in done.stderr or "Sanitizer" in done.stderr, done.stderr
