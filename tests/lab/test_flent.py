# SPDX-License-Identifier: GPL-2.0
"""fairlab flent: the request, the flows that it gives Flent, the network, and refused results."""

import contextlib
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fairlab.model import qdisc
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.network import Bottleneck
from fairlab.model.scenario import Flow, Scenario
from fairlab.results import flentresult
from fairlab.run import flenttest, netperf

from tests import launch
from tests.lab.labtools import TOP, run_fairlab

KEYS = (
    "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,LOCAL_SOCKET_TOS,"
    "REMOTE_SOCKET_TOS,DIRECTION,ELAPSED_TIME,PROTOCOL,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,"
    "REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD"
)
INTERIM = ("INTERIM_RESULT", "UNITS", "INTERVAL", "ENDING")


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


def request(*options: str, test: str = "rrul_be", cc: str = "bic") -> flenttest.Request:
    return flenttest.Request(test, options, cc, scenario())


def document() -> dict[str, Any]:
    load = {"backlog_drops": 0, "idle": 20.0, "stolen": 0.0, "total": 20.0}
    queue = {"bytes": 1_500_000, "packets": 1000, "drops": 3}
    return {
        "load": load, "lost_in_delays": 0, "virtual": False, "out_of_memory": {"TCPOFODrop": 0},
        "kernel_errors": [], "changed": [],
        "queues": {"bottleneck": dict(queue), "reverse": dict(queue)},
    }  # fmt: skip


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


def test_directions_may_have_different_qdiscs() -> None:
    other = qdisc.parse_qdisc("reverse:fq_codel")
    network = flenttest.both_ways(scenario(other))
    there, back = network.links[0].a.queue, network.links[0].b.queue
    assert isinstance(there, Bottleneck) and isinstance(back, Bottleneck)
    assert there.qdisc.kind == "bfifo"
    assert (back.qdisc, back.rate, back.size) == (other, there.rate, there.size)


def test_any_congestion_control_is_right_if_none_is_asked_for() -> None:
    flentresult.check(document(), data("cubic"), request(cc=""))


@pytest.mark.parametrize(
    ("name", "value", "reason"), [("idle", 0.2, "idle for only 1.0 %"), ("stolen", 2.0, "too busy")]
)
def test_run_on_a_busy_machine_is_refused(name: str, value: float, reason: str) -> None:
    found = document()
    found["load"][name] = value
    with pytest.raises(CannotRunError, match=reason):
        flentresult.check(found, data(), request())


def test_empty_series_is_refused() -> None:
    found = data()
    found["results"]["Ping (ms) ICMP"] = [None, None]
    with pytest.raises(LabError, match="no data for Ping"):
        flentresult.check(document(), found, request())


def test_missing_flent_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotRunError, match="missing.*package flent") as caught:
        flenttest.require()
    assert caught.value.status == 3


@contextlib.contextmanager
def flow_server() -> Iterator[int]:
    """A server of flows on the loopback device; yields its port."""
    with netperf.Server(("127.0.0.1", 0), netperf.Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def run_netperf(port: int, test: str, length: str, *specific: str) -> dict[str, str]:
    """Run the client as Flent does, and return its values."""
    command = [sys.executable, "-m", "fairlab.run.netperf", "-P", "0", "-v", "0", "-D", "-0.05"]
    command += ["-4", "-Y", "0x28,0x48", "-H", "127.0.0.1", "-p", str(port), "-t", test]
    command += ["-l", length, "-F", "/dev/urandom", "-f", "m", "--", "-H", "127.0.0.1"]
    command += ["-k", KEYS, *specific]
    environment = dict(os.environ) | {"PYTHONPATH": str(TOP / "userspace" / "lab")}
    done = launch.succeed(command, env=environment)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("test", "sender", "receiver"),
    [("TCP_STREAM", "LOCAL", "REMOTE"), ("TCP_MAERTS", "REMOTE", "LOCAL")],
)
def test_flows_report_what_flent_reads(test: str, sender: str, receiver: str) -> None:
    with flow_server() as port:
        found = run_netperf(port, test, "0.3", "-K", "reno")
    assert found["PROTOCOL"] == "TCP"
    assert found["DIRECTION"] == {"LOCAL": "Send", "REMOTE": "Recv"}[sender]
    assert found["LOCAL_CONG_CONTROL"] == found["REMOTE_CONG_CONTROL"] == "reno"
    assert (found["LOCAL_SOCKET_TOS"], found["REMOTE_SOCKET_TOS"]) == ("0x28", "0x48")
    # At the end, a sender knows of fewer bytes than the receiver may get.
    assert 0 < int(found[f"{sender}_BYTES_SENT"]) <= int(found[f"{receiver}_BYTES_RECVD"]) + 1
    first = {name for name in found if name.endswith("[0]")}
    assert first == {f"NETPERF_{name}[0]" for name in INTERIM}


def test_flow_of_a_given_size_is_received_whole() -> None:
    with flow_server() as port:
        found = run_netperf(port, "TCP_STREAM", "-300000")
    assert found["LOCAL_BYTES_SENT"] == found["REMOTE_BYTES_RECVD"] == "300000"


def test_request_and_response() -> None:
    with flow_server() as port:
        found = run_netperf(port, "UDP_RR", "0.2", "-e", "1")
    assert found["PROTOCOL"] == "UDP"
    assert float(found["THROUGHPUT"]) > 10


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"test": "OMNI", "seconds": 1, "size": 0, "tos": 0, "cc": ""}',
        b'{"test": "UDP_RR", "seconds": NaN, "size": 0, "tos": 0, "cc": ""}',
        b'{"test": "UDP_RR", "seconds": 1, "size": -1, "tos": 0, "cc": ""}',
        b'{"test": "UDP_RR", "seconds": 1, "size": Infinity, "tos": 0, "cc": ""}',
        b'{"test": "UDP_RR", "seconds": 1, "size": 0, "tos": 256, "cc": ""}',
        b'{"test": "TCP_STREAM", "seconds": 1, "size": 0, "tos": 0, "cc": "nonexistent"}',
    ],
)
def test_invalid_requests_are_refused(line: bytes) -> None:
    with flow_server() as port, socket.create_connection(("127.0.0.1", port), 10) as control:
        control.sendall(line + b"\n")
        assert "error" in json.loads(control.makefile().readline())


@pytest.mark.tier("all")
def test_flent_run(tmp_path: Path) -> None:
    network = ("--rate", "10mbit", "--rtt", "20ms", "--engine", "virtual", "--cc", "bic")
    done = run_fairlab("flent", "tcp_download", "--time", "5", *network, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (directory,) = tmp_path.iterdir()
    result = json.loads((directory / "result.json").read_text())
    assert 7 < result["means"]["TCP download"] < 10
    assert 20 <= result["means"]["Ping (ms) ICMP"] < 45
    assert (directory / flentresult.PICTURE).read_bytes().startswith(b"\x89PNG")
    (path,) = directory.glob("*.flent.gz")
    about = flentresult.read(path)["metadata"]["SERIES_META"]["TCP download"]
    assert about["CONG_CONTROL"] == "bic"
