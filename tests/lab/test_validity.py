# SPDX-License-Identifier: GPL-2.0
"""Runs that the machine disturbed are refused, from their raw data, with the reason.

The data is made up here; guest_checks.py causes some of the disturbances in real runs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairlab.model.errors import LabError
from fairlab.model.qdisc import Buffer
from fairlab.results import validity
from fairlab.results.analysis import Measurement

from tests.lab.labtools import made_up, saw_tooth, scenario, write_raw

Document = dict[str, Any]


def read(tmp_path: Path, change: Callable[[Document], None] = lambda _: None) -> Measurement:
    what = scenario(seconds=10, warmup_seconds=2.5)
    document = made_up(what, (0.6, 0.4))
    change(document)
    write_raw(tmp_path, document, saw_tooth(what))
    return Measurement.read(tmp_path)


def test_good_run_is_accepted(tmp_path: Path) -> None:
    measurement = read(tmp_path)
    validity.check(measurement)
    assert validity.busy_rate(measurement) == pytest.approx(50e6, rel=1e-3)


def faster(document: Document) -> None:
    """Send the same bytes in less time; test_gate.py has a slower run."""
    times = document["columns"]["time"]
    times[:] = [t / 1.03 for t in times]


def busy(document: Document) -> None:
    document["load"] |= {"idle": 1.0, "idle_share": 0.025}


def robbed(document: Document) -> None:
    document["load"] |= {"stolen": 4.0}


def paused(document: Document) -> None:
    times = document["columns"]["time"]
    times[60:] = [t + 1.5 for t in times[60:]]


def otherwise_counted(document: Document) -> None:
    document["reports"][1]["received_bytes"] = int(document["reports"][1]["received_bytes"] * 1.15)


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (faster, 3, "the bottleneck sent 51.5 Mbit/s while packets waited, instead of 50mbit"),
        (busy, 3, "idle for only 2.5 % of the run"),
        (robbed, 3, "the host took 10 % of this machine's CPU away"),
        (paused, 3, "this machine stood still for 1.6 s"),
        (otherwise_counted, 1, "flow reno: iperf3 received"),
    ],
)
def test_disturbed_run_is_refused(
    tmp_path: Path, change: Callable[[Document], None], status: int, message: str
) -> None:
    with pytest.raises(LabError) as caught:
        validity.check(read(tmp_path, change))
    assert caught.value.status == status
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_queue_gives_no_busy_rate(tmp_path: Path) -> None:
    """Flows that do not fill the link are no sign of a slow machine."""

    what = scenario(seconds=10, warmup_seconds=2.5)
    document = made_up(what, (0.3, 0.2))
    document["columns"]["backlog_bytes"] = [0] * len(document["columns"]["time"])
    write_raw(tmp_path, document, saw_tooth(what))
    measurement = Measurement.read(tmp_path)
    assert validity.busy_rate(measurement) is None
    validity.check(measurement)


def test_short_queue_gives_no_busy_rate(tmp_path: Path) -> None:
    """It may be empty between two samples, even if it is long at both."""
    what = scenario(seconds=10, warmup_seconds=2.5, buffer=Buffer("20p", packets=20))
    write_raw(tmp_path, made_up(what, (0.5, 0.3)), saw_tooth(what))
    measurement = Measurement.read(tmp_path)
    assert validity.busy_rate(measurement) is None
    validity.check(measurement)


def test_samples_before_the_flows_do_not_count(tmp_path: Path) -> None:
    def late(document: Document) -> None:
        samples = document["columns"]
        before = [n for n, t in enumerate(samples["time"]) if t < -0.05]
        for n in before:
            samples["sent_bytes"][n] = 0

    assert validity.busy_rate(read(tmp_path, late)) == pytest.approx(50e6, rel=1e-3)
