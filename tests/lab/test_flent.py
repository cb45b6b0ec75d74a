# SPDX-License-Identifier: GPL-2.0
"""fairlab flent: the request, the network, and results that are refused.

Flent's tests need netperf.  Where it is installed, one test is run; elsewhere, its refusal is
tested.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fairlab.model import qdisc
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.scenario import Flow, Scenario
from fairlab.model.topology import Bottleneck
from fairlab.results import flentresult
from fairlab.run import flenttest

from tests.lab.labtools import assert_refused, run_fairlab

NETPERF = shutil.which("netperf") is not None


def scenario(*qdiscs: qdisc.Qdisc) -> Scenario:
    return Scenario(
        topology="dumbbell",
        flows=(Flow("cubic"),),
        rate=10**7,
        rtt=40_000,
        buffer=qdisc.parse_buffer("1bdp", 10**7, 40_000),
        seconds=10,
        warmup_seconds=2,
        qdiscs=qdiscs,
    )


def request(*options: str, test: str = "rrul_be") -> flenttest.Request:
    return flenttest.Request(test, options, "bic", scenario())


def document() -> dict[str, Any]:
    load = {"backlog_drops": 0, "idle_share": 1.0, "stolen": 0.0, "total": 20.0}
    return {"load": load, "lost_in_delays": 0}


def data(cc: str = "bic") -> dict[str, Any]:
    return {
        "results": {"TCP upload": [None, 9.0, 10.0], "Ping (ms) ICMP": [40.0, 41.0, None]},
        "metadata": {"SERIES_META": {"TCP upload": {"CONG_CONTROL": cc, "UNITS": "Mbits/s"}}},
    }


def test_request_survives_json() -> None:
    asked = request("--test-parameter", "upload_streams=4")
    assert flenttest.Request.from_json(json.loads(json.dumps(asked.to_json()))) == asked


@pytest.mark.parametrize("option", ["-H", "--host=x", "-l", "--gui", "--batch-file=x", "--output"])
def test_options_set_by_fairlab_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match="fairlab sets this option"):
        request(option)


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x"])
def test_invalid_test_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a test"):
        request(test=name)


def test_bottleneck_is_in_both_directions() -> None:
    network = flenttest.both_ways(scenario())
    there, back = network.links[0].a.queue, network.links[0].b.queue
    assert isinstance(there, Bottleneck)
    assert there == back
    assert network.queues["right-left"] == back


def test_directions_may_have_different_qdiscs() -> None:
    other = qdisc.parse_qdisc("reverse:fq_codel")
    network = flenttest.both_ways(scenario(other))
    there, back = network.links[0].a.queue, network.links[0].b.queue
    assert isinstance(there, Bottleneck) and isinstance(back, Bottleneck)
    assert there.qdisc.kind == "bfifo"
    assert (back.qdisc, back.rate, back.size) == (other, there.rate, there.size)


def test_good_run_is_accepted() -> None:
    flentresult.check(document(), data(), "bic")
    flentresult.check(document(), data("cubic"), "")


@pytest.mark.parametrize(
    ("where", "name", "value", "reason"),
    [
        ("load", "backlog_drops", 3, "3 packets were lost between namespaces"),
        ("load", "idle_share", 0.01, "idle for only 1.0 %"),
        ("load", "stolen", 2.0, "too busy"),
        ("", "lost_in_delays", 2, "2 packets were lost in the delays"),
    ],
)
def test_disturbed_run_is_refused(where: str, name: str, value: float, reason: str) -> None:
    found = document()
    (found[where] if where else found)[name] = value
    with pytest.raises(CannotRunError, match=reason):
        flentresult.check(found, data(), "bic")


def test_wrong_congestion_control_is_refused() -> None:
    with pytest.raises(CannotRunError, match="TCP upload runs with 'cubic' instead of 'bic'"):
        flentresult.check(document(), data("cubic"), "bic")


def test_empty_series_is_refused() -> None:
    found = data()
    found["results"]["TCP upload"] = [None, None]
    with pytest.raises(LabError, match="no data for TCP upload"):
        flentresult.check(document(), found, "bic")


def test_missing_netperf_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package to install."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name.startswith("net") else name)
    with pytest.raises(CannotRunError, match="missing.*package netperf, in Debian 12") as caught:
        flenttest.require()
    assert caught.value.status == 3


def test_flent_run(tmp_path: Path) -> None:
    """With netperf, a run with its file and figure; without it, the refusal."""
    network = ("--rate", "10mbit", "--rtt", "20ms", "--engine", "virtual", "--cc", "bic")
    done = run_fairlab("flent", "tcp_download", "--time", "5", *network, "--out", str(tmp_path))
    if not NETPERF:
        assert_refused(done, 3, "netperf")
        assert not list(tmp_path.iterdir())
        return
    assert done.returncode == 0, done.stderr
    (directory,) = tmp_path.iterdir()
    result = json.loads((directory / "result.json").read_text())
    assert 7 < result["means"]["TCP download"] < 10
    assert 20 <= result["means"]["Ping (ms) ICMP"] < 45
    assert (directory / flentresult.PICTURE).read_bytes().startswith(b"\x89PNG")
    (path,) = directory.glob("*.flent.gz")
    about = flentresult.read(path)["metadata"]["SERIES_META"]["TCP download"]
    assert about["CONG_CONTROL"] == "bic"
