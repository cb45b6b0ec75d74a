# SPDX-License-Identifier: GPL-2.0
"""Long runs report progress, and print their results when they are interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.slbnsim.simtools import PROGRAM, SECONDS, slbnsim

#: Some minutes of CPU time: sessions that never pause, for a virtual day.
LONG = ("--until", "86400s", "--pause", "0", "--control", "0")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    net, sessions = str(tmp_path / "net.json"), str(tmp_path / "sessions.csv")
    arguments = ("topology", "parking-lot", "--nodes", "5", "--rate", "1gbit")
    assert slbnsim(*arguments, "--out", net, "--sessions-out", sessions).returncode == 0
    return ["--topology", net, "--sessions", sessions]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_prints_its_results(files: list[str], number: signal.Signals) -> None:
    command = [str(PROGRAM), "run", *files, *LONG, "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        # The first progress report.
        assert "of 86400.00 s" in process.stderr.readline()
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    found = json.loads(output)
    assert found["interrupted"]
    assert 0.1 < found["time"] < 86400
    assert found["configuration"]["until_ns"] == 86400 * 10**9
    assert found["events"] > 1000
    # Rates have long settled.
    assert [one["rate"] for one in found["sessions"]] == [5 * 10**8] * 5
    assert [one["exact"] for one in found["sessions"]] == [5 * 10**8] * 5
    # The result does not depend on the interruption.
    whole = slbnsim("run", *files, *LONG[2:], "--until", f"{found['time']:.9f}s", "--json")
    again = json.loads(whole.stdout)
    assert not again["interrupted"] and again["time"] == found["time"]
    for name in ("events", "cycles", "control_packets", "last_change", "links"):
        assert again[name] == found[name], name


def test_interrupted_table(files: list[str]) -> None:
    with subprocess.Popen(
        [str(PROGRAM), "run", *files, *LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    assert "\nStopped at " in output and " of 86400.000000 s." in output


def test_progress_on_a_terminal_stays_in_a_line(files: list[str]) -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        [str(PROGRAM), "run", *files, *LONG], stdout=subprocess.PIPE, stderr=its
    ) as process:
        os.close(its)
        shown = b""
        while shown.count(b"\r") < 2:
            shown += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert b"million events" in shown and b"\n" not in shown
    os.close(ours)


def test_short_and_quiet_runs_report_nothing(files: list[str]) -> None:
    done = slbnsim("run", *files)
    assert (done.returncode, done.stderr) == (0, "")
    with subprocess.Popen(
        [str(PROGRAM), "run", *files, *LONG, "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=4)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=SECONDS)
    assert error == ""
