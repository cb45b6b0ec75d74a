# SPDX-License-Identifier: GPL-2.0
"""slbnsim's experiments: their networks, what they tell, and that an interrupted one tells too."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
from typing import Any

import pytest

from tests.slbnsim.simtools import PROGRAM, SECONDS, slbnsim

SMALL = ("--percent", "4", "--quiet")


def told(*words: str) -> dict[str, Any]:
    done = slbnsim("experiment", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("experiment", "needs the name of an experiment"),
        ("experiment 3c", "no experiment '3c'"),
        ("experiment 1a more", "unexpected argument 'more'"),
        ("experiment 1a --percent 0", "--percent '0': must be 1 to 100"),
        ("experiment 1a --every 0", "--every '0': must be above 0"),
        ("experiment 1a --topology x", "--topology is not an option of experiment"),
        ("experiment 1a --algorithm rcp", "needs --data fluid or --data BYTES"),
        ("experiment 1b", "sessions of 1b have data"),
        ("experiment 1a --count 0", "--count '0': must be 1 to"),
        ("experiment lan --count 1000", "only 1024 hosts"),
        ("experiment 1a --algorithm erica --data fluid --round 1s", "erica has no rounds"),
        ("run --topology x --sessions y --percent 3", "--percent is not an option of run"),
        ("run --topology x --sessions y --count 3", "--count is not an option of run"),
        ("maxmin --topology x --sessions y --loss 3", "--loss is not an option of maxmin"),
    ],
)
def test_words_that_make_no_sense(words: str, message: str) -> None:
    done = slbnsim(*words.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_the_list() -> None:
    lines = slbnsim("experiments").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1a", "1b", "2a", "2b", "lan", "wan"]


@pytest.mark.parametrize("algorithm", ["slbn", "slbn-paper", "bfyz", "sperc"])
def test_it_comes_to_rest_at_the_exact_rates(algorithm: str) -> None:
    found = told("1a", *SMALL, "--algorithm", algorithm, "--until", "3s", "--every", "100ms")
    series = found["series"]
    assert [round(one["time"], 3) for one in series] == [round(0.1 * n, 3) for n in range(1, 31)]
    # 2,000 of the 50,000 within half a second; then 400 leave and 400 join.
    assert 300 < series[0]["sessions"] < 500
    assert series[4]["sessions"] == 2000
    assert series[-1]["sessions"] == 2000
    assert found["sessions"] == 2400
    # While they come, rates are off, and at rest they are not.
    assert series[2]["sources"]["p90"] > 10
    for side in ("sources", "links"):
        last = series[-1][side]
        assert last["count"] > 100
        assert abs(last["least"]) < 0.02 and abs(last["most"]) < 0.02, (side, last)
    assert series[-1]["sources"]["count"] == 2000


def test_the_network() -> None:
    """1,100 routers; two sessions of a host are none, and hosts are only made if they are used."""
    found = told("1a", *SMALL, "--until", "1ms", "--every", "1ms")
    hosts = found["routers_and_hosts"] - 1100
    assert 2400 < hosts <= 2 * 2400
    # Each host has a link both ways, and the routers have theirs.
    assert found["links"] - 2 * hosts > 2 * 1100


@pytest.mark.parametrize("where", ["lan", "wan"])
@pytest.mark.parametrize("algorithm", ["slbn", "sperc"])
def test_leaves_and_spines(where: str, algorithm: str) -> None:
    """Links of 1 to 2 us and 5 to 10 ms: both come to rest, after joining, and after churn."""
    words = [where, "--algorithm", algorithm, "--quiet", "--data", "fluid", "--count", "256"]
    if where == "lan":
        words += ["--pause", "10us", "--every", "1ms"]
        words += ["--round", "1ms"] if algorithm == "sperc" else []
    else:
        words += ["--every", "400ms"]
    found = told(*words)
    before = [one for one in found["series"] if one["time"] < found["series"][-1]["time"] / 2]
    for one in (before[-1], found["series"][-1]):
        assert one["sessions"] == 256
        assert one["off_by_1_percent"] == 0
    assert found["sessions"] == 256 + 25
    # Four links there and back, or two, of 1 to 2 us or 5 to 10 ms, and hosts' of half of that.
    least = {"lan": 1e-6, "wan": 5e-3}[where]
    assert 5 * least < found["mean_round_trip"] < 2 * (4 + 1) * least
    part = found["control_bytes"] / (found["control_bytes"] + found["data_bytes"])
    assert 1e-6 < part < 0.015


def test_a_count_of_sessions() -> None:
    words = ("1a", "--quiet", "--until", "1s", "--every", "1s")
    found = told(*words, "--count", "100")
    assert found["sessions"] == 120
    assert found["series"][0]["sessions"] == 100
    assert found["configuration"]["count"] == 100
    # A hundredth of those of the paper.
    assert told(*words, "--count", "500")["series"] == told(*words, "--percent", "1")["series"]


def test_the_longest_queue() -> None:
    """As long as it takes to send it."""
    found = told("1b", *SMALL, "--data", "fluid", "--until", "1s", "--every", "10ms")
    for one in found["series"]:
        if one["longest_wait"] > 0.001:
            assert 0.99e8 <= one["longest_queue"] * 8 / one["longest_wait"] <= 5.01e9
    assert any(one["longest_wait"] > 0.001 for one in found["series"])


def test_the_seed_decides() -> None:
    words = ("1a", *SMALL, "--until", "300ms", "--every", "50ms")
    runs = [told(*words, "--seed", seed) for seed in "112"]
    for run in runs:
        assert run.pop("simulated_in_seconds") >= 0
    assert runs[0] == runs[1]
    assert runs[0]["series"] != runs[2]["series"]
    assert runs[2]["configuration"]["seed"] == 2


def test_sizes_are_pareto() -> None:
    """All leave when they have sent what they have: 225 packets at least, 300 on average."""
    found = told("1b", *SMALL, "--data", "fluid", "--until", "12s", "--every", "1s")
    assert found["series"][-1]["sessions"] == 0
    sizes = [size for size, _ in found["completions"]]
    assert len(sizes) == 2000
    assert min(sizes) >= 225
    # The standard deviation of the mean is 2.4.
    assert statistics.fmean(sizes) == pytest.approx(300, abs=10)
    # P(size > 2 * least) = 1/16.
    assert sum(size > 450 for size in sizes) / 2000 == pytest.approx(1 / 16, abs=0.02)
    # Nobody is faster than a host's link.
    assert all(took >= size * 16_000 / 1e8 for size, took in found["completions"])


@pytest.mark.parametrize("algorithm", ["erica", "cobb", "rcp", "piqi-rcp", "xcp"])
def test_the_others_run_too(algorithm: str) -> None:
    found = told(
        "1a",
        *SMALL,
        "--algorithm",
        algorithm,
        "--data",
        "fluid",
        "--until",
        "1s",
        "--every",
        "50ms",
    )
    last = found["series"][-1]
    # Where queues are long (cobb), answers may take more than a second.
    assert 0.8 * last["sessions"] < last["sources"]["count"] <= last["sessions"]
    # Whatever it is, it is no rate below nothing.
    assert last["sources"]["least"] >= -100
    assert found["data_packets"] > 10_000


def test_the_last_look_is_at_the_end() -> None:
    """Whether or not the end is a multiple of the time between looks."""
    moments = told("lan", "--percent", "5", "--every", "5ms", "--until", "12ms")["series"]
    assert [moment["time"] for moment in moments] == [0.005, 0.01, 0.012]


def test_an_interrupted_run_tells_what_it_has() -> None:
    command = [str(PROGRAM), "experiment", "1a", "--every", "1ms", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        # Its first word of how it is going.
        assert "million events" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    found = json.loads(output)
    assert found["interrupted"]
    assert 0 < len(found["series"]) < 2000


def test_progress_is_told() -> None:
    done = slbnsim("experiment", "1a", "--percent", "2", "--until", "200ms")
    assert "million events" in done.stderr
    assert len(done.stdout.splitlines()) == 1 + 20
