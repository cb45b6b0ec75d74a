# SPDX-License-Identifier: GPL-2.0
"""The benchmarks with --smoke, and their checks of what they measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import launch
from tests.bench import measure, measure_slbnsim
from tests.bench.report import slbnsim as report_slbnsim

TOP = Path(__file__).resolve().parent.parent.parent

CANDIDATES = {candidate.name: candidate for candidate in measure.CANDIDATES}


def test_smoke(tmp_path: Path) -> None:
    """drr_fq: all candidates and loads in one boot; data, table and figure."""
    command = [str(TOP / "tests/bench/bench"), "drr_fq", "--smoke", "--output", str(tmp_path)]
    launch.succeed(command, timeout=3600)
    result = json.loads((tmp_path / "bench-drr_fq.json").read_text())
    points = {
        (point["candidate"], point["load"], point["hashed"]): point for point in result["points"]
    }
    assert len(points) == len(CANDIDATES) * len(measure.KINDS) * 2
    for (name, kind, _), point in points.items():
        load = measure.Load(kind, 20)
        if kind == "overload":
            assert point["shown"]["drops"] > 0
        elif name != "sfq":
            assert point["shown"] == {
                "qlen": load.packets,
                "drops": 0,
                "queues": point["shown"]["queues"],
            }
        if CANDIDATES[name].buckets:
            assert 17 <= point["shown"]["queues"] <= 20
    # On any machine, qdiscs that classify packets cost more than pfifo.
    for name in ("drr_fq", "fq_codel", "sfq"):
        work = points[name, "short", False]["nanoseconds"]["median"]
        assert work > points["pfifo", "short", False]["nanoseconds"]["median"] > -5
    # Packets that carry their hash cost less, in qdiscs that use it.
    with_hash, without = points["fq_codel", "short", True], points["fq_codel", "short", False]
    assert with_hash["nanoseconds"]["median"] < without["nanoseconds"]["median"]

    table = (tmp_path / "bench-drr_fq.md").read_text()
    for name in CANDIDATES:
        assert f"| `{name}` | " in table
    assert result["conditions"]["kernel"] in table
    assert (tmp_path / "bench-drr_fq.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "bench-drr_fq.svg").read_bytes()


def test_smoke_slbn(tmp_path: Path) -> None:
    """slbn: measure_slbn.py itself checks each packet."""
    command = [str(TOP / "tests/bench/bench"), "slbn", "--smoke", "--output", str(tmp_path)]
    launch.succeed(command, timeout=3600)
    points = json.loads((tmp_path / "bench-slbn.json").read_text())["points"]
    kinds = [point["kind"] for point in points]
    expected = {
        "task": 6,
        "control": 6,
        "devices": 2,
        "keys": 4,
        "answer": 1,
        "send": 7,
        "route": 15,
    }
    assert {kind: kinds.count(kind) for kind in expected} == expected
    cost = {
        (point["kind"], point["sessions"], point["entries"]): point["ns"]["median"]
        for point in points
        if point["kind"] in ("task", "control")
    }
    # The qdisc's cost includes the task's.
    for sessions in (1, 1000):
        assert cost["control", sessions, 0] > cost["task", sessions, 0] > 0
    table = (tmp_path / "bench-slbn.md").read_text()
    for name in ("`pfifo_fast`", "`fq_codel`", "`mq`, empty hook", "`slbn`, from an edge"):
        assert f"| {name} | " in table
    assert "An answer takes " in table
    assert (tmp_path / "bench-slbn.png").read_bytes().startswith(b"\x89PNG")


def test_smoke_slbnd(tmp_path: Path) -> None:
    """slbnd, on the host's kernel."""
    command = [str(TOP / "tests/bench/bench"), "slbnd", "--smoke", "--output", str(tmp_path)]
    launch.succeed(command, timeout=600)
    found = json.loads((tmp_path / "bench-slbnd.json").read_text())
    paced, full, saved, idle, churn = found["points"]
    assert found["mice"]["flows_per_second"] > 1000
    kinds = ["paced", "full", "saved", "idle", "churn"]
    assert [point["kind"] for point in found["points"]] == kinds
    # Without root there is no BPF.
    assert idle["measured"] == bool(idle["map_bytes"])
    assert churn["detected"]
    # 100 sessions of 1 Mbit/s: 1 % allows 700 cycles per second; a busy machine has less.
    assert 0 < paced["packets_per_second"] < 1.2 * 2 * 702
    for each in (full, saved):
        assert each["packets_per_second"] > paced["packets_per_second"]
    assert "| 100 | " in (tmp_path / "bench-slbnd.md").read_text()


def test_smoke_windows(tmp_path: Path) -> None:
    """Receive windows: the run itself checks that each one is lowered.

    On the host's kernel, or without root, which BPF programs need, in a guest.
    """
    command = [str(TOP / "tests/bench/bench"), "windows", "--smoke", "--output", str(tmp_path)]
    if os.geteuid():
        guest = ["--engine", "native", "--no-modules", "--rw", str(tmp_path)]
        command = [str(TOP / "scripts/vm"), *guest, "--", *command]
    launch.succeed(command, timeout=600)
    points = json.loads((tmp_path / "bench-windows.json").read_text())["points"]
    assert [(each["ip"], each["sacked"], each["flight"], each["rated"]) for each in points] == [
        (4, False, 32, True),
        (6, False, 32, True),
        (4, True, 32, True),
        (4, False, 1, True),
        (4, False, 32, False),
    ]
    for point in points:
        assert 0 < point["ack"]["median"] < 10000 and 0 < point["paced"]["median"] < 10000
    assert "| IPv4, a block of SACK | " in (tmp_path / "bench-windows.md").read_text()


def test_smoke_virtual(tmp_path: Path) -> None:
    """The lab's engines: CPU time and clock of a guest are measured on the host."""
    command = [str(TOP / "tests/bench/bench"), "virtual", "--smoke", "--output", str(tmp_path)]
    launch.succeed(command, timeout=3600)
    points = json.loads((tmp_path / "bench-virtual.json").read_text())["points"]
    assert [point["engine"] for point in points] == ["virtual"] * len(points)
    assert points[0]["kernel"] == "6.1"
    for point in points:
        (run,) = point["runs"]
        assert run["release"].startswith(f"{point['kernel']}.")
        # 100 Mbit/s are 8257 packets of 1514 bytes per second.
        assert abs(run["packets"] / run["seconds"] / 8257 - 1) < 0.01
        assert 0.5 < run["us_per_packet"] < 200
        assert run["start"] > 0.5
    assert "| 100 Mbit/s |" in (tmp_path / "bench-virtual.md").read_text()


def test_smoke_slbnsim(tmp_path: Path) -> None:
    """slbnsim: events, memory and max-min rates of two networks, and ns-3."""
    command = [str(TOP / "tests/bench/bench"), "slbnsim", "--smoke", "--output", str(tmp_path)]
    launch.succeed(command, timeout=600)
    data = json.loads((tmp_path / "bench-slbnsim.json").read_text())
    points = data["points"]
    assert [point["sessions"] for point in points] == [1000, 10000]
    version = output_of("pkg-config", "--modversion", "ns3-core")
    assert (data["ns3"]["version"] or "") == version, data["ns3"]["why"]
    for point in points:
        (run,) = point["runs"]
        # At least a hundred events per session: several cycles of several hops.
        assert run["events"] > 100 * point["sessions"]
        assert 5 < run["ns_per_event"] < 5000
        # A session has a packet, a source, a path and two hosts.
        assert 400 < run["bytes_per_session"] < 20_000
        assert run["maxmin_seconds"] > 0
        assert 1 < run["hold_wheel"] < 5000
        if version:
            for name in (*measure_slbnsim.SCHEDULERS, "Simulator"):
                assert 5 < run[f"hold_{name}"] < 100_000
            # For each link, a packet is sent and arrives; routers have work to do.
            assert 2 <= run["forward_events_per_hop"] < 3
            assert run["forward_ns_per_hop"] > 2 * run["hold_MapScheduler"]
            assert 5000 < run["forward_bytes_per_flow"] < 500_000
    table = (tmp_path / "bench-slbnsim.md").read_text()
    assert "| 1,000 | " in table
    assert "| 10,000 | " in table
    if version:
        assert f"package of ns-3 {version}" in table
        for what in (*(f"`{name}`" for name in measure_slbnsim.SCHEDULERS), "10,000 flows |"):
            assert f"| ns-3's {what}" in table or f"| ns-3, {what}" in table


def test_without_ns3(tmp_path: Path) -> None:
    """Without ns-3, the rest is measured, and the report says how to install it."""
    subprocess.run(["make", "-s", "-C", str(TOP), "slbnsim"], check=True)
    done = launch.succeed(
        [
            sys.executable,
            "-m",
            "tests.bench.measure_slbnsim",
            "--sessions=1000",
            "--turns=1",
        ],
        cwd=TOP,
        environment={"PKG_CONFIG_LIBDIR": str(tmp_path), "PKG_CONFIG_PATH": ""},
        timeout=600,
    )
    assert "without ns-3: pkg-config does not know it" in done.stderr
    data = json.loads(done.stdout)
    (run,) = data["points"][0]["runs"]
    assert [name for name in run if name.startswith(("hold", "forward"))] == ["hold_wheel"]
    table = "\n".join(report_slbnsim.comparison(data))
    assert "ns-3 was not available: pkg-config does not know it." in table
    assert "`scripts/install-deps bench`" in table
    assert "|" not in table


def test_ns3_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other names of ns-3's libraries are found; one that does not compile counts as absent."""
    lines = ["Name: none", "Description: none", "Version: 9", "Libs: /no/such/library.so"]
    for module in measure_slbnsim.MODULES:
        path = tmp_path / f"libns9-ns3.99-{module}-release.pc"
        path.write_text("\n".join([*lines, "Cflags: -DSOME -I/no/such"]) + "\n")
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    monkeypatch.setattr(measure_slbnsim, "HERE", tmp_path)
    monkeypatch.setattr(measure_slbnsim, "NS3", tmp_path / "bench_ns3")
    (tmp_path / "bench_ns3.cc").write_text('#include "ns3/no-such.h"\n')
    with pytest.raises(measure_slbnsim.NoNs3Error, match="cannot be compiled"):
        measure_slbnsim.build_ns3()
    (tmp_path / "bench_ns3.cc").write_text("int main() { return 0; }\n")
    assert measure_slbnsim.build_ns3() == "9"


def output_of(*command: str) -> str:
    """The output of a command; empty if it fails."""
    done = launch.run(command)
    return "" if done.returncode else done.stdout.strip()


def guest(script: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script in a guest with qbench loaded."""
    modules = sorted((TOP / "build/bench").glob("6.1.*-um/fpbench.ko"))
    assert modules, "test_smoke builds it"
    setup = "from tests.bench import measure\n"
    start = f'insmod {modules[-1]} && PYTHONPATH="$1" exec /usr/bin/python3 -c "$0"'
    command = ["sh", "-c", start, setup + script, str(TOP)]
    vm = [str(TOP / "scripts/vm"), "--engine", "native", "--no-modules", "--", *command]
    return launch.run(vm, timeout=300)


def test_wrong_qdisc() -> None:
    """A qdisc that drops on dequeue, stops sending, or is too small is an error."""
    script = """
bad = {
    "drops": "codel limit 1000000 target 1us interval 1us noecn",
    "stops": "tbf rate 8bit burst 20000 limit 100000000",
    "small": "pfifo limit 50",
    "big": "pfifo limit 100000",
}
for name, options in bad.items():
    kind = "overload" if name == "big" else "short"
    candidate = measure.Candidate(name, lambda load, truesize: options, buckets=0)
    try:
        bed = measure.Bed(candidate, measure.Load(kind, 10), name)
        for _ in range(20):
            bed.turn(10, False)
        print(name, "was measured")
    except measure.WrongError as error:
        print(name, "is wrong:", error)
"""
    done = guest(script)
    assert done.returncode == 0, done.stderr
    errors = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in errors] == [
        f"{name} is wrong" for name in ("drops", "stops", "small", "big")
    ], done.stdout
    assert "Protocol error" in errors[0]
    assert "No data available" in errors[1]
    assert "dropped" in errors[2]


def test_module_refuses() -> None:
    """qbench rejects invalid commands, and still works afterwards."""
    script = """
import subprocess
subprocess.run("ip link add d9 type dummy; ip link set d9 up", shell=True, check=True)
bad = ["", "nonsense", "fill 1", "steady 1 1 hashed", "open nodev 1 1 100", "open d9 0 1 100",
       "open d9 1 0 100", "open d9 1 1 10", "open d9 1 1 100000", "open d9 99999999 1 100",
       "clock 0 1", "clock 9999 1", "slbn run 1 1", "slbn task 0 4", "slbn task 1 12",
       "slbn control nodev 1", "slbn control d9 0", "slbn route nodev", "slbn", "x" * 1000]
for command in bad:
    try:
        print(command, measure.Session().ask(command))
    except measure.WrongError:
        pass
session = measure.Session()
print(len(session.ask("open d9 10 2 100")))
for command in ["open d9 10 2 100", "fill 1", "steady 1 1 hashed", "fill 21", "steady 0 1 hashed",
                "steady 1 0 hashed", "steady 1 1 both", "steady 70000 1 hashed", "overload 1 1"]:
    try:
        print(command, session.ask(command))
    except measure.WrongError:
        pass
subprocess.run("tc qdisc add dev d9 root pfifo", shell=True, check=True)
print(len(session.ask("fill 10")))
"""
    done = guest(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n12\n"


def bed(name: str, kind: str) -> measure.Bed:
    """A test bed without a device."""
    made = measure.Bed.__new__(measure.Bed)
    made.candidate, made.load, made.device = CANDIDATES[name], measure.Load(kind, 1000), "none"
    return made


STEADY = measure.State(3000, 3000 * 1514, 500, 500, 0, 1000, [1])
OVERLOAD = measure.State(30000, 30000 * 1514, 500, 0, 500, 1000, [1])


@pytest.mark.parametrize(
    ("name", "kind", "state"),
    [
        ("drr_fq", "short", replace(STEADY, drops=1)),
        ("drr_fq", "short", replace(STEADY, qlen=2999)),
        ("drr_fq", "overload", replace(OVERLOAD, qlen=29999)),
        ("drr_fq", "overload", replace(OVERLOAD, qlen=30001)),
        ("drr_fq", "overload", replace(OVERLOAD, drops=499)),
        ("fq_codel", "overload", replace(OVERLOAD, drops=400)),
        ("fq_codel", "overload", replace(OVERLOAD, qlen=29900)),
        ("drr + filter", "overload", replace(OVERLOAD, qlen=20000)),
    ],
)
def test_check_detects(name: str, kind: str, state: measure.State) -> None:
    with pytest.raises(measure.WrongError, match=f"{name.replace('+', '.')}, 1000 flows, {kind}"):
        bed(name, kind).check(state)


@pytest.mark.parametrize(
    ("name", "kind", "state"),
    [
        ("drr_fq", "short", STEADY),
        ("drr_fq", "overload", OVERLOAD),
        ("fq_codel", "overload", replace(OVERLOAD, drops=450, qlen=29950)),
    ],
)
def test_check_accepts(name: str, kind: str, state: measure.State) -> None:
    bed(name, kind).check(state)


@pytest.mark.parametrize(
    ("flows", "buckets", "expected"),
    [(1, 16384, 1.0), (10000, 16384, 7484.0), (10000, 1024, 1023.9)],
)
def test_occupied(flows: int, buckets: int, expected: float) -> None:
    occupied: Callable[[int, int], float] = measure.occupied
    assert occupied(flows, buckets) == pytest.approx(expected, rel=1e-3)
