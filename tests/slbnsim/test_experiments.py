# SPDX-License-Identifier: GPL-2.0
"""slbnsim's experiments: networks, samples, interruption."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
from typing import Any

import pytest

from tests import launch
from tests.slbnsim.simtools import PROGRAM, SECONDS, slbnsim

SMALL = ("--percent", "4", "--quiet")


def run_experiment(*arguments: str) -> dict[str, Any]:
    return launch.answer(slbnsim("experiment", *arguments, "--json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_invalid_arguments(arguments: str, message: str) -> None:
    done = slbnsim(*arguments.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_list_of_experiments() -> None:
    lines = slbnsim("experiments").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1a", "1b", "2a", "2b", "lan", "wan"]


@pytest.mark.parametrize("algorithm", ["slbn", "slbn-1", "slbn-paper", "bfyz", "sperc"])
def test_rates_settle_at_max_min(algorithm: str) -> None:
    found = run_experiment(
        "1a", *SMALL, "--algorithm", algorithm, "--until", "3s", "--every", "100ms"
    )
    series = found["series"]
    assert [round(one["time"], 3) for one in series] == [round(0.1 * n, 3) for n in range(1, 31)]
    # 2,000 of the 50,000 within half a second; then 400 leave and 400 join.
    assert 300 < series[0]["sessions"] < 500
    assert series[4]["sessions"] == 2000
    assert series[-1]["sessions"] == 2000
    assert found["sessions"] == 2400
    # Rates have errors while sessions join, and settle afterwards.
    assert series[2]["sources"]["p90"] > 10
    for side in ("sources", "links"):
        last = series[-1][side]
        assert last["count"] > 100
        assert abs(last["least"]) < 0.02 and abs(last["most"]) < 0.02, (side, last)
    assert series[-1]["sources"]["count"] == 2000


def test_network_size() -> None:
    """1,100 routers; only hosts with sessions exist."""
    found = run_experiment("1a", *SMALL, "--until", "1ms", "--every", "1ms")
    hosts = found["routers_and_hosts"] - 1100
    assert 2400 < hosts <= 2 * 2400
    # A duplex link for each host, and the routers' links.
    assert found["links"] - 2 * hosts > 2 * 1100


@pytest.mark.parametrize("where", ["lan", "wan"])
@pytest.mark.parametrize("algorithm", ["slbn", "sperc"])
def test_leaf_spine_networks_settle(where: str, algorithm: str) -> None:
    """Links of 1 to 2 us and 5 to 10 ms: rates settle after joins and after churn."""
    arguments = [where, "--algorithm", algorithm, "--quiet", "--data", "fluid", "--count", "256"]
    if where == "lan":
        arguments += ["--pause", "10us", "--every", "1ms"]
        arguments += ["--round", "1ms"] if algorithm == "sperc" else []
    else:
        arguments += ["--every", "400ms"]
    found = run_experiment(*arguments)
    before = [one for one in found["series"] if one["time"] < found["series"][-1]["time"] / 2]
    for one in (before[-1], found["series"][-1]):
        assert one["sessions"] == 256
        assert one["off_by_1_percent"] == 0
    assert found["sessions"] == 256 + 25
    # Four or two links in both directions, of 1 to 2 us or 5 to 10 ms; hosts' links have half.
    least = {"lan": 1e-6, "wan": 5e-3}[where]
    assert 5 * least < found["mean_round_trip"] < 2 * (4 + 1) * least
    part = found["control_bytes"] / (found["control_bytes"] + found["data_bytes"])
    assert 1e-6 < part < 0.015


def test_count_option() -> None:
    arguments = ("1a", "--quiet", "--until", "1s", "--every", "1s")
    found = run_experiment(*arguments, "--count", "100")
    assert found["sessions"] == 120
    assert found["series"][0]["sessions"] == 100
    assert found["configuration"]["count"] == 100
    # A hundredth of those of the paper.
    assert (
        run_experiment(*arguments, "--count", "500")["series"]
        == run_experiment(*arguments, "--percent", "1")["series"]
    )


def test_longest_queue_matches_longest_wait() -> None:
    """The longest wait is the time to transmit the longest queue."""
    arguments = ("--algorithm", "slbn-1", "--data", "fluid", "--until", "1s", "--every", "10ms")
    found = run_experiment("1b", *SMALL, *arguments)
    for one in found["series"]:
        if one["longest_wait"] > 0.001:
            assert 0.99e8 <= one["longest_queue"] * 8 / one["longest_wait"] <= 5.01e9
    assert any(one["longest_wait"] > 0.001 for one in found["series"])


def test_seed_is_reproducible() -> None:
    arguments = ("1a", *SMALL, "--until", "300ms", "--every", "50ms")
    runs = [run_experiment(*arguments, "--seed", seed) for seed in "112"]
    for run in runs:
        assert run.pop("simulated_in_seconds") >= 0
    assert runs[0] == runs[1]
    assert runs[0]["series"] != runs[2]["series"]
    assert runs[2]["configuration"]["seed"] == 2


def test_sizes_are_pareto() -> None:
    """Sessions leave when they have sent their data: at least 225 packets, 300 on average."""
    found = run_experiment("1b", *SMALL, "--data", "fluid", "--until", "12s", "--every", "1s")
    assert found["series"][-1]["sessions"] == 0
    sizes = [size for size, _ in found["completions"]]
    assert len(sizes) == 2000
    assert min(sizes) >= 225
    # The standard deviation of the mean is 2.4.
    assert statistics.fmean(sizes) == pytest.approx(300, abs=10)
    # P(size > 2 * least) = 1/16.
    assert sum(size > 450 for size in sizes) / 2000 == pytest.approx(1 / 16, abs=0.02)
    # Not faster than a host's link.
    assert all(took >= size * 16_000 / 1e8 for size, took in found["completions"])


@pytest.mark.parametrize("algorithm", ["erica", "cobb", "rcp", "piqi-rcp", "xcp"])
def test_other_algorithms_run(algorithm: str) -> None:
    found = run_experiment(
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
    # No rate is negative.
    assert last["sources"]["least"] >= -100
    assert found["data_packets"] > 10_000


@pytest.mark.parametrize(("name", "count"), [("lan", 51), ("2a", 600)])
def test_newcomers(name: str, count: int) -> None:
    """Those of the churn, or all without churn: when they first had 80 % of their rates."""
    size = ("--pause", "10us") if name == "lan" else ("--count", str(count))
    found = run_experiment(name, *size, "--quiet", "--every", "100ms")
    newcomers = found["newcomers"]
    assert (newcomers["count"], newcomers["late"]) == (count, 0)
    # The first answer takes a round-trip; some of them are much shorter than the mean.
    assert found["mean_round_trip"] / 2 < newcomers["median"] <= newcomers["p95"]
    assert newcomers["p95"] < found["series"][-1]["time"] / 2
    stopped = run_experiment(name, *size, "--quiet", "--until", "6.001ms")
    assert stopped["newcomers"]["late"] <= stopped["newcomers"]["count"] <= count


def test_last_sample_is_at_the_end() -> None:
    """Even if the end is not a multiple of --every."""
    moments = run_experiment("lan", "--percent", "5", "--every", "5ms", "--until", "12ms")["series"]
    assert [moment["time"] for moment in moments] == [0.005, 0.01, 0.012]


def test_interrupted_experiment_prints_its_samples() -> None:
    command = [str(PROGRAM), "experiment", "1a", "--every", "1ms", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        # The first progress report.
        assert "million events" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    found = json.loads(output)
    assert found["interrupted"]
    assert 0 < len(found["series"]) < 2000


def test_progress_reports() -> None:
    done = slbnsim("experiment", "1a", "--percent", "2", "--until", "200ms")
    assert "million events" in done.stderr
    assert len(done.stdout.splitlines()) == 1 + 20
