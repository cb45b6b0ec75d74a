# SPDX-License-Identifier: GPL-2.0
"""slbnctl status and metrics, and JSON, of a running slbnd without links, on the host.

tests/kernel/slbn/test_slbnctl.py has those of links and qdiscs.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.agent import Agent, agent
from tests.slbnctl.prometheus import families
from tests.slbnctl.schema import validate

SLBNCTL = TOP / "build" / "slbnctl" / "slbnctl"
DASHBOARD = TOP / "docs" / "grafana" / "fairpath.json"
RULES = TOP / "docs" / "prometheus" / "fairpath.rules.yml"


@pytest.fixture(scope="module")
def slbnd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """With a session that is never answered."""
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)
    with agent(tmp_path_factory.mktemp("slbnd")) as made:
        validate("joined", read(made, "session", "join", "127.0.0.1"))
        yield made


def slbnctl(slbnd: Agent, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(SLBNCTL), "--socket", str(slbnd.socket), *arguments]
    return launch.run(command, timeout=60)


def read(slbnd: Agent, *arguments: str) -> Any:
    done = slbnctl(slbnd, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def metrics(slbnd: Agent) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples of each family, by the values of their labels."""
    done = slbnctl(slbnd, "metrics")
    assert (done.returncode, done.stderr) == (0, "")
    return {
        family.name: {tuple(each.labels.values()): each.value for each in family.samples}
        for family in families(done.stdout)
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("status", "status"),
        ("sessions", "session list"),
        ("top", "top count 1"),
        ("keys", "key show agent"),
    ],
)
def test_json_is_valid(slbnd: Agent, name: str, arguments: str) -> None:
    validate(name, read(slbnd, *arguments.split()))


def test_json_of_one_session_is_valid(slbnd: Agent) -> None:
    (session,) = read(slbnd, "session", "list")
    validate("session_path", read(slbnd, "session", "show", session["id"]))


def test_status(slbnd: Agent) -> None:
    status = read(slbnd, "status")
    shown = {
        name: status[name] for name in ("sessions", "keys", "detection", "devices", "degraded")
    }
    assert shown == {
        "sessions": 1,
        "keys": [],
        "detection": "off",
        "devices": 0,
        "degraded": False,
    }
    text = slbnctl(slbnd, "status").stdout
    assert text.startswith("sessions 1 clients 1 silent 0 keys none detection off devices 0 enf")
    assert text.splitlines()[0].endswith(" enforced 0 short_leases 0")
    assert re.search(r"\n  dropped: malformed \d+ stale 0 bad_key 0 .* bad_return \d+\n", text)
    paced = "\n  paced: drops 0 codel 0 marks 0 excess 0\n"
    assert paced + "  windows: lowered 0 unknown 0 silent 0\n" in text
    marked = "  marked: new 0 assigned 0 cleared 0 refused 0 restored 0 no_marks_seen 0\n"
    assert f"\n  borrowed: by 0 octets 0\n{marked}  connections 0 " in text


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["--devices=nothing"], ["degraded: rates are not enforced on 1 of 1 devices"]),
        (["--devices=a,b"], ["degraded: rates are not enforced on 2 of 2 devices"]),
    ],
)
def test_status_of_degraded_agent(options: list[str], lines: list[str], tmp_path: Path) -> None:
    """It exits with 3."""
    with agent(tmp_path, *options) as slbnd:
        done = slbnctl(slbnd, "status")
        assert (done.returncode, done.stderr) == (3, "")
        assert all(line in done.stdout for line in lines)
        done = slbnctl(slbnd, "--json", "status")
        assert done.returncode == 3 and json.loads(done.stdout)["degraded"] is True
        found = metrics(slbnd)
        assert found["fairpath_agent_degraded"] == {(): 1}


def test_domain_check(slbnd: Agent) -> None:
    """Without links: that is the only problem."""
    done = slbnctl(slbnd, "--json", "domain", "check", "wait", "0")
    assert (done.returncode, done.stderr) == (3, "")
    found = json.loads(done.stdout)
    validate("domain", found)
    assert [each["check"] for each in found["problems"]] == ["links"] and not found["notes"]
    assert found["slbnctl"] == found["agent"]["agent_version"] and found["links"] == []
    assert found["agent"]["epoch"] == read(slbnd, "status")["epoch"] == 10**9
    text = slbnctl(slbnd, "domain", "check", "wait", "0").stdout
    assert text.endswith("\nproblem: links: this network namespace has no links\n1 problems\n")


def test_domain_check_of_degraded_agent(tmp_path: Path) -> None:
    with agent(tmp_path, "--devices=nothing", "--epoch=2s") as slbnd:
        done = slbnctl(slbnd, "--json", "domain", "check", "wait", "0")
        found = json.loads(done.stdout)
        assert done.returncode == 3 and found["agent"]["epoch"] == 2 * 10**9
        assert [(each["check"], each.get("where")) for each in found["problems"]] == [
            ("links", None),
            ("degraded", "slbnd"),
        ]


def test_metrics(slbnd: Agent) -> None:
    found = metrics(slbnd)
    status = read(slbnd, "status")
    assert found["fairpath_agent_up"] == {(): 1}
    assert found["fairpath_agent_sessions"] == {("joined",): 1, ("detected",): 0}
    # There is no route.
    assert 0 < found["fairpath_agent_unsent_packets"][()] <= status["unsent"]
    assert set(found["fairpath_agent_dropped_packets"]) == {
        (name,)
        for name in ("malformed", "stale", "bad_key", "unknown_key", "bad_time", "bad_return")
    }
    for name in found:
        assert re.fullmatch(r"fairpath_(link|agent|drr_fq|build_info)[a-z_]*", name)
        assert not name.endswith("_total")


def test_versions(slbnd: Agent) -> None:
    version = (TOP / "VERSION").read_text().strip()
    assert read(slbnd, "status")["agent_version"] == version
    builds = metrics(slbnd)["fairpath_build_info"]
    assert builds.items() >= {("slbnctl", version): 1, ("slbnd", version): 1}.items()


def test_metrics_without_slbnd(tmp_path: Path) -> None:
    command = [str(SLBNCTL), "--socket", str(tmp_path / "none"), "metrics"]
    done = launch.succeed(command, timeout=60)
    found = {each.name: each for each in families(done.stdout)}
    assert found["fairpath_agent_up"].samples[0].value == 0
    programs = {each.labels["program"] for each in found["fairpath_build_info"].samples}
    assert "slbnctl" in programs and "slbnd" not in programs
    assert "fairpath_agent_sessions" not in found


def test_metrics_replace_a_file(slbnd: Agent, tmp_path: Path) -> None:
    """At once, and readable for all; links are not followed, and errors leave the old one."""
    file, victim = tmp_path / "fairpath.prom", tmp_path / "victim"
    file.write_text("old\n")
    victim.write_text("kept\n")
    (tmp_path / "fairpath.prom.new").symlink_to(victim)
    before = file.stat().st_ino
    old = os.umask(0o077)
    try:
        done = slbnctl(slbnd, "metrics", str(file))
    finally:
        os.umask(old)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {each.name for each in families(file.read_text())} == set(metrics(slbnd))
    assert file.stat().st_ino != before and file.stat().st_mode & 0o777 == 0o644
    assert victim.read_text() == "kept\n" and set(os.listdir(tmp_path)) == {file.name, "victim"}
    for bad in (tmp_path / "none" / "x", Path("/dev/full") / "x", tmp_path):
        done = slbnctl(slbnd, "metrics", str(bad))
        assert done.returncode == 1 and done.stderr.startswith(f"slbnctl: {bad}")
    assert not tmp_path.with_suffix(".new").exists()
    assert slbnctl(slbnd, "metrics", "a", "b").returncode == 2


def test_metrics_replace_no_device(slbnd: Agent, tmp_path: Path) -> None:
    """Root could replace /dev/null by a file."""
    (tmp_path / "device").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    for name in ("device", "pipe"):
        done = slbnctl(slbnd, "metrics", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"slbnctl: {tmp_path / name}: not a regular file")
    assert (tmp_path / "device").is_symlink() and (tmp_path / "pipe").is_fifo()
    assert len(os.listdir(tmp_path)) == 2


def test_metrics_are_not_replaced_by_a_part(tmp_path: Path) -> None:
    """The disk is full for a while: from the first question to the agent until the next one."""
    file, path = tmp_path / "fairpath.prom", tmp_path / "slbnd"
    file.write_text("old\n")

    def serve() -> None:
        for limit in (0, resource.RLIM_INFINITY):
            connection, _ = listener.accept()
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            (pid,) = struct.unpack_from("=i", peer)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            with connection:
                while request := connection.recv(2000):
                    (number,) = struct.unpack_from("=4xI", request)
                    connection.send(struct.pack("=HHIII", 3, 6, number, 0, 0))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        # What is said between the two is more than the buffer of stdbuf.
        done = launch.run(
            ["stdbuf", "-o512", SLBNCTL, "--socket", path, "metrics", file],
            preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            timeout=60,
        )
        thread.join()
    assert done.returncode == 1 and done.stderr.startswith(f"slbnctl: {file}: ")
    assert done.stderr.count("\n") == 1
    assert file.read_text() == "old\n" and not (tmp_path / "fairpath.prom.new").exists()


# --- standard output -----------------------------------------------------------------------------

CLOSED = "slbnctl: standard output: Bad file descriptor\n"
PRINTING = ["status", "--json session list", "top count 1", "metrics", "domain check wait 0"]


def with_output(slbnd: Agent, output: str, arguments: str) -> tuple[int, str]:
    """Exit status and errors of slbnctl with standard OUTPUT as the shell redirects it."""
    command = ["sh", "-c", f'exec "$@" >{output}', "sh", str(SLBNCTL), "--socket"]
    done = subprocess.run(
        [*command, str(slbnd.socket), *arguments.split()],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", PRINTING)
def test_closed_output_is_reported(slbnd: Agent, arguments: str) -> None:
    """Nothing is sent to slbnd instead, whose connection would be the first free descriptor."""
    assert with_output(slbnd, "&-", arguments) == (1, CLOSED)


@pytest.mark.parametrize("arguments", PRINTING)
def test_full_output_is_reported(slbnd: Agent, arguments: str) -> None:
    expected = "slbnctl: standard output: No space left on device\n"
    assert with_output(slbnd, "/dev/full", arguments) == (1, expected)


def test_metrics_replace_a_file_without_output(slbnd: Agent, tmp_path: Path) -> None:
    """They need no standard output."""
    file = tmp_path / "fairpath.prom"
    assert with_output(slbnd, "&-", f"metrics {file}") == (0, "")
    assert {each.name for each in families(file.read_text())} == set(metrics(slbnd))


# --- dashboard -----------------------------------------------------------------------------------


def test_dashboard_uses_existing_metrics(slbnd: Agent) -> None:
    """Each query names samples that slbnctl has, and only labels that these have."""
    text = slbnctl(slbnd, "metrics").stdout
    names = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    board = json.loads(DASHBOARD.read_text())
    used = set()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            used |= set(re.findall(r"\bfairpath_\w+", target["expr"]))
            assert target["expr"].count("(") == target["expr"].count(")")
    assert used <= names and len(used) > 20
    assert board["uid"] == "fairpath" and board["schemaVersion"] >= 36


def test_alerts_use_existing_metrics(slbnd: Agent) -> None:
    """Also the values of labels. What is no metric of fairpath is of node_exporter."""
    text = slbnctl(slbnd, "metrics").stdout
    names = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    printed = (TOP / "userspace/slbnctl/metrics_agent.c").read_text()
    table = (TOP / "userspace/common/link_options.c").read_text()
    reasons = set(re.findall(r"COUNTER\((\w+), [^)]*LINK_DROPPED\)", table))
    reasons |= set(re.findall(r'labelled\("reason", "(\w+)"', printed))
    assert {"bad_key", "other_version"} < reasons
    rules = [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]
    used = set()
    for rule in rules:
        used |= set(re.findall(r"\b(fairpath_\w+|node_\w+)", rule["expr"]))
        assert rule["expr"].count("(") == rule["expr"].count(")"), rule["alert"]
        for value in re.findall(r'reason=~?"([^"]+)"', rule["expr"]):
            assert set(value.split("|")) <= reasons, rule["alert"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    assert used - names == {"node_textfile_mtime_seconds"} and len(used) > 12


def test_dashboard_panels_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in covered) < 24 and not covered & cells
        cells |= covered
