# SPDX-License-Identifier: GPL-2.0
"""A short real run at a low rate, on a stock kernel with the project's modules."""

import gzip
import json
import os
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fairlab.net.tracing import WindowEvent, parse
from fairlab.results import store

from tests.lab.labtools import run_fairlab

pytestmark = pytest.mark.tier("all")

FLOWS = ["bic", "gaimd", "cubic", "reno"]
RATE = 10_000_000
GOODPUT = RATE * 1448 / 1514


@dataclass(frozen=True)
class Done:
    """The run: its output, and the directory and content of its result."""

    printed: dict[str, Any]
    complaints: list[str]
    directory: Path
    result: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    out = tmp_path_factory.mktemp("results")
    words = ["run", "dumbbell", "--flows", ",".join(FLOWS), "--rate", "10mbit", "--rtt", "30ms"]
    words += ["--buffer", "40p", "--time", "10", "--warmup", "3", "--steady", "--seed", "5"]
    done = run_fairlab(*words, "--out", str(out), "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    (directory,) = out.iterdir()
    return Done(json.loads(done.stdout), done.stderr.splitlines(), directory, store.read(directory))


def test_output_matches_the_stored_result(run: Done) -> None:
    assert run.printed == store.without_curves(run.result) | {"directory": str(run.directory)}
    assert "fairlab: running 4 flows for 10 s" in run.complaints
    assert any(line.startswith(" 5 of 10 s:") for line in (c[1:] for c in run.complaints))


def test_result_describes_kernel_modules_and_settings(run: Done) -> None:
    result = run.result
    assert result["scenario"]["seed"] == 5
    assert result["engine"] == {"name": "vm", "accelerator": "tcg", "steady": True}
    assert result["kernel"]["release"].startswith("6.1.")
    assert result["kernel"]["release"] != os.uname().release
    for cc in ("bic", "gaimd"):
        assert "/updates/" in result["modules"][cc]["file"]
        assert len(result["modules"][cc]["build_id"]) == 40
    assert result["settings"][0]["bic_preset"] == "paper"
    assert result["settings"][1]["gaimd_alpha"] == "310"
    assert result["tools"]["iperf3"].startswith("iperf 3")
    assert result["checks"]["round_trip_ms"] == pytest.approx(30, abs=1)
    assert result["checks"]["trace_events_lost"] == 0


def test_flows_share_a_full_link(run: Done) -> None:
    flows, total = run.result["flows"], run.result["total"]
    assert [flow["label"] for flow in flows] == FLOWS
    assert sum(flow["throughput_bps"] for flow in flows) == pytest.approx(GOODPUT, rel=0.01)
    assert sum(flow["share"] for flow in flows) == pytest.approx(1, abs=1e-3)
    assert all(flow["throughput_bps"] > 0.02 * GOODPUT for flow in flows)
    assert run.result["checks"]["rate_while_busy_bps"] == pytest.approx(RATE, rel=0.01)
    assert 0.25 <= total["jain"] <= 1
    assert total["drops"] > 0 and 0 < total["loss"] < 0.1
    delay = total["queue_delay_ms"]
    assert delay["full"] == pytest.approx(40 * 1514 * 8 / 10_000, abs=0.1)
    assert 0 < delay["mean"] <= delay["p95"] <= delay["max"] <= delay["full"] * 1.01
    # A ping measures the round-trip time and the queueing delay.
    assert total["ping_ms"]["mean"] == pytest.approx(30 + delay["mean"], abs=4)


def test_window_cuts_match_each_congestion_control(run: Done) -> None:
    keeps = {flow["cc"]: flow["cut_keeps"] for flow in run.result["flows"]}
    # The published numbers; small windows are rounded.
    assert keeps["bic"] == pytest.approx(7 / 8, abs=0.08)
    assert keeps["gaimd"] == pytest.approx(7 / 8, abs=0.08)
    assert keeps["cubic"] == pytest.approx(0.7, abs=0.08)
    assert keeps["reno"] == pytest.approx(1 / 2, abs=0.08)


def test_throughput_matches_cwnd(run: Done) -> None:
    """A flow's throughput equals its mean window per mean round-trip time."""
    rtt = run.result["total"]["ping_ms"]["mean"] / 1000
    for flow in run.result["flows"]:
        assert flow["cwnd_mean"] * 1448 * 8 / rtt == pytest.approx(flow["throughput_bps"], rel=0.15)


def test_tracepoints_report_windows(run: Done) -> None:
    with gzip.open(run.directory / "raw" / "trace.txt.gz", "rt") as file:
        events = [event for event in parse(file.read()) if isinstance(event, WindowEvent)]
    reported = {(event.dport, bool(event.phase)) for event in events}
    assert reported == {(5201, True), (5202, True), (5203, False), (5204, False)}
    assert {event.sport for event in events} == {50001, 50002, 50003, 50004}
    assert all(a.time <= b.time for a, b in pairwise(events))


def test_result_directory_is_complete(run: Done) -> None:
    names = {path.name for path in run.directory.iterdir()}
    figures = {f"{name}.{f}" for name in ("throughput", "cwnd", "queue") for f in ("png", "svg")}
    assert names == figures | {"result.json", "raw", "dumbbell-bic-gaimd-cubic-reno.flent.gz"}
    assert run.directory.name.endswith("-dumbbell-bic-gaimd-cubic-reno")
    assert all(path.stat().st_size > 2000 for path in run.directory.iterdir() if path.is_file())


def test_flent_draws_the_file(run: Done, tmp_path: Path) -> None:
    (file,) = run.directory.glob("*.flent.gz")
    picture = tmp_path / "picture.png"
    subprocess.run(
        ["flent", "-i", str(file), "-p", "upload_with_ping", "-o", str(picture)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
