# SPDX-License-Identifier: GPL-2.0
"""Refusals of the lab, caused on purpose, and real runs: run in VMs by test_vm_guest.py.

Refusals of options are tested by the command; refusals of a network by building it, changing it
with ip, tc and ethtool, and calling the lab's check. All but those marked `real_time` run in
virtual time.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fairlab.compare.workloads import LINUX_7, LINUX_10, of_two_bdp
from fairlab.model import topology
from fairlab.model.background import PACKETS, Background
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.qdisc import parse_buffer, parse_qdisc
from fairlab.model.scenario import Scenario, parse_flows
from fairlab.net import host
from fairlab.net.namespace import Namespace
from fairlab.net.netlink import QueueReader
from fairlab.net.network import Hosts, Laboratory
from fairlab.net.tracing import Tracer, parse
from fairlab.results import analysis, validity
from fairlab.results.analysis import Measurement
from fairlab.run import dumbbell, flows, preflight
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress

from tests.lab.labtools import FAIRLAB, assert_refused, run_fairlab, scenario

QUIET = Progress("none")
TRAFFIC = ("iperf3", "ping", host.TRAFFIC)


def small(**changes: object) -> Scenario:
    rate, rtt = 10_000_000, 20_000
    few = {"rate": rate, "rtt": rtt, "buffer": parse_buffer("1bdp", rate, rtt)}
    short = {"flows": parse_flows("reno"), "seconds": 3, "warmup_seconds": 0.5}
    return scenario(**(few | short | changes))


@contextlib.contextmanager
def built(what: Scenario) -> Iterator[Laboratory]:
    host.complete_path()
    host.find_plugins()
    with dumbbell.laboratory(what) as lab:
        lab.add_queues()
        yield lab


def start_flow(lab: Laboratory, cc: str, seconds: int = 5) -> None:
    """Start flow 0."""
    traffic = dumbbell.Traffic(lab, small(flows=parse_flows(cc)))
    traffic.start_servers()
    traffic.start_client(0, seconds)


def wait_for_control(lab: Laboratory, cc: str) -> None:
    """Wait until flow 0 has CC: iperf3 sets it after it has connected."""
    deadline = time.monotonic() + flows.START_PATIENCE
    sender = lab.network.paths[0].sender
    while lab.congestion_controls(sender).get(flows.ports(0)) != cc:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def leftovers() -> list[str]:
    """Everything that a run may have left: traces, files, processes, settings."""
    found = [str(path) for path in Path("/sys/kernel/tracing/instances").iterdir()]
    found += [str(path) for path in Path(tempfile.gettempdir()).glob("fairlab-*")]
    ours = os.stat("/proc/self/ns/net").st_ino
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (entry / "comm").read_text().strip()
            if name.startswith("ksoftirqd"):
                found.append(f"{name} has policy {os.sched_getscheduler(int(entry.name))}")
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if (entry / "ns" / "net").stat().st_ino != ours or Path(command[0]).name in TRAFFIC:
                found.append(f"process {' '.join(command)}")
    found.append(f"backlog {host.BACKLOG.read_text().strip()}")
    return found


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    before = leftovers()
    yield
    assert leftovers() == before


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "fragments"),
    [
        (
            "--flows swift",
            2,
            ("no congestion control 'swift' in this kernel", "bic, ", "cubic, ", "gaimd, ", "htcp"),
        ),
        ("--flows diag", 2, ("no congestion control 'diag'",)),
        ("--flows reno,bic:fast", 2, ("'bic' has no preset 'fast'; there are: paper, linux",)),
        ("--flows gaimd:x", 2, ("'gaimd' has no preset 'x'; there are: gaimd, tcp, aimd32",)),
        ("--flows cubic:paper", 2, ("'cubic' of this kernel has no presets",)),
        ("--flows gaimd:td-friendly_1000000", 2, ("'gaimd' has no preset",)),
        (
            "--flows reno --qdisc pfifo,limit=40,frob=3",
            2,
            ("qdisc 'pfifo limit 40 frob 3' is refused on left: ", 'unknown parameter "frob"'),
        ),
        (
            "--flows reno --qdisc reverse:frob,a=1",
            2,
            ("qdisc 'frob a 1' is refused on right: ", 'Unknown qdisc "frob"'),
        ),
        # The kernel's error message.
        ("--flows reno --qdisc senders:frob", 2, ("refused on s1: ", "qdisc kind is unknown")),
        ("--flows reno --netem-limit 5", 2, ("netem limit of 5 packets at", "is too small")),
        pytest.param(
            "--flows reno --rate 600mbit",
            3,
            ("rate 600mbit is not reachable here", "Mbit/s at best"),
            marks=pytest.mark.real_time,
        ),
    ],
)
def test_bad_options_are_refused(
    words: str, status: int, fragments: tuple[str, ...], tmp_path: Path
) -> None:
    where = ["--engine", "host", "--quiet", "--out", str(tmp_path)]
    done = run_fairlab("run", "dumbbell", *words.split(), *where)
    assert_refused(done, status, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_preset_refused_by_the_module() -> None:
    with built(small(flows=parse_flows("gaimd:td-friendly 5000"))) as lab:
        what = small(flows=parse_flows("gaimd:td-friendly 5000"))
        with pytest.raises(UsageError, match="'gaimd' refuses the preset 'td-friendly 5000'"):
            preflight.choose(lab, what)


def test_missing_iperf3_is_refused(tmp_path: Path) -> None:
    iperf3 = Path("/usr/bin/iperf3")
    iperf3.rename("/usr/bin/iperf3.away")
    try:
        done = run_fairlab("check", "dumbbell", "--flows", "reno", "--engine", "host")
    finally:
        Path("/usr/bin/iperf3.away").rename(iperf3)
    assert_refused(done, 3, "missing: iperf3; install the packages: iperf3")


def test_missing_mininet_is_refused() -> None:
    package = "/usr/lib/python3/dist-packages/mininet"
    subprocess.run(["mount", "-t", "tmpfs", "none", package], check=True)
    try:
        done = run_fairlab("mininet", "--engine", "host", __file__)
    finally:
        subprocess.run(["umount", package], check=True)
    assert_refused(done, 3, "missing: Mininet's Python modules; install the package mininet")


def test_kernel_without_netem_is_refused() -> None:
    subprocess.run(["modprobe", "-r", "sch_netem"], check=True)
    forbid = Path("/etc/modprobe.d/no-netem.conf")
    forbid.parent.mkdir(exist_ok=True)
    forbid.write_text("install sch_netem /bin/false\n")
    try:
        with (
            pytest.raises(CannotRunError, match=r"lacks a qdisc that is needed.*qdisc kind"),
            built(small()),
        ):
            pass
    finally:
        forbid.unlink()


def test_list_shows_topologies_and_presets() -> None:
    done = run_fairlab("list", "--engine", "host")
    assert done.returncode == 0
    assert "  senders      each sender to left\n" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["topologies:"] == "topologies: dumbbell"
    assert "presets: paper, linux" in lines["bic"]
    assert "presets: gaimd, tcp, aimd32" in lines["gaimd"]
    assert "presets" not in lines["htcp"] and "diag" not in lines


# --- networks -----------------------------------------------------------------------------------


def test_offloads_and_wrong_delays_are_refused() -> None:
    what = small(ecn=True)
    with built(what) as lab:
        preflight.offloads(lab)
        preflight.delays(lab, what)
        assert preflight.round_trip(lab, what) == pytest.approx(20, abs=0.01)

        lab.shell("left", "ethtool -K left-right gso on")
        with pytest.raises(CannotRunError, match=r"at left-right: generic-segmentation-offload"):
            preflight.offloads(lab)
        lab.shell("left", "ethtool -K left-right gso off")
        lab.shell("d1", "ethtool -K d1-right gro on")
        with pytest.raises(CannotRunError, match="at d1-right: generic-receive-offload"):
            preflight.offloads(lab)

        lab.shell("right", "tc qdisc change dev right-d1 root netem delay 30ms limit 20")
        with pytest.raises(CannotRunError, match=r"is 4\d\.\d\d ms instead of 20 ms"):
            preflight.round_trip(lab, what)
        with pytest.raises(UsageError, match="netem limit of 20 packets at right-d1 is too small"):
            preflight.delays(lab, what)


@pytest.mark.parametrize(
    ("chosen", "scale"), [(LINUX_7, 7), (LINUX_10, 10), (of_two_bdp(10**9, 200), 11)]
)
def test_socket_buffers_decide_the_window_scale(chosen: Hosts, scale: int) -> None:
    what = small()
    with Laboratory(topology.build(what), 0, ecn=False, hosts=chosen) as lab:
        start_flow(lab, "reno", seconds=1)
        wait_for_control(lab, "reno")
        assert f"wscale:{scale},{scale} " in lab.shell("s1", "ss -tinH dport = :5201")
        sizes = lab.shell("s1", "cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem")
        assert [int(word) for word in sizes.split()][2::3] == [chosen.receive, chosen.send]


def test_segmentation_offload_of_hosts_leaves_links_with_full_packets() -> None:
    what = small()
    with Laboratory(topology.build(what), 0, ecn=False, hosts=Hosts(gso=True)) as lab:
        preflight.offloads(lab)
        lab.add_queues()
        assert lab.offloads_on("left") == []
        assert "generic-segmentation-offload: on" in lab.shell("s1", "ethtool -k s1-left")
        lab.shell(
            "s1",
            "tc qdisc replace dev s1-left root handle 1: tbf rate 1gbit burst 100kb limit 1mb;"
            " tc qdisc replace dev s1-left parent 1:1 fq_codel",
        )
        start_flow(lab, "reno", seconds=1)
        time.sleep(3)
        shown = json.loads(lab.shell("s1", "tc -s -j qdisc show dev s1-left"))
        # TCP gives the device several segments at a time.
        assert shown[1]["maxpacket"] > 2 * what.frame
        (line,) = lab.shell("s1", "grep s1-left /proc/net/dev").splitlines()
        size, packets = map(int, line.partition(":")[2].split()[8:10])
        assert size > 100_000 and 1000 < size / packets < what.frame
        lab.shell("d1", "ethtool -K d1-right gro on")
        with pytest.raises(CannotRunError, match="at d1-right: generic-receive-offload"):
            preflight.offloads(lab)


def test_wrong_congestion_control_is_refused() -> None:
    with built(small()) as lab:
        start_flow(lab, "reno")
        wait_for_control(lab, "reno")
        with pytest.raises(CannotRunError, match="flow cubic runs with 'reno' instead of 'cubic'"):
            preflight.running(lab, small(flows=parse_flows("cubic")), 0)
        # ss shows the same.
        assert " reno " in lab.shell("s1", "ss -tinH dport = :5201")


def test_congestion_control_locked_by_a_route_is_refused(tmp_path: Path) -> None:
    what = small(flows=parse_flows("cubic"))
    with built(what) as lab:
        lab.shell("s1", "ip route replace default via 10.0.1.1 congctl lock reno")
        traffic = dumbbell.Traffic(lab, what)
        traffic.start_servers()
        traffic.start_client(0, 5)
        traffic.clients[0].wait()
        with pytest.raises(LabError, match=r"flow cubic: iperf3: .*CONGESTION"):
            traffic.check_alive()


def test_right_congestion_control_is_accepted() -> None:
    what = small(flows=parse_flows("bic"))
    preflight.look_up(what)
    with built(what) as lab:
        preflight.choose(lab, what)
        start_flow(lab, "bic")
        wait_for_control(lab, "bic")
        assert preflight.running(lab, what, 0) == "bic"


@pytest.mark.parametrize(
    "text", ["", "fq_codel,target=1ms", "codel,ecn,target=1ms", "drr_fq", "sfq"]
)
def test_queue_samples_match_tc(text: str) -> None:
    asked = parse_qdisc(f"{text},limit=20" if text else "red")
    what = small(ecn=True, qdiscs=(asked,) if text else ())
    with built(what) as lab:
        start_flow(lab, "reno", seconds=1)
        time.sleep(4)
        shown = json.loads(lab.shell("left", "tc -s -j qdisc show"))
        with lab.queue_reader("left") as reader:
            read = reader.read()
        index = lab.interface_index(lab.network.bottleneck)
        checked = []
        for queue in shown:
            if queue["dev"] != "left-right":
                continue
            state = read[index, int(queue["handle"].rstrip(":"), 16)]
            assert state.sent_bytes == queue["bytes"] > 100_000
            assert state.sent_packets == queue["packets"]
            assert (state.drops, state.backlog_bytes) == (queue["drops"], queue["backlog"])
            assert state.backlog_packets == queue["qlen"]
            if queue["kind"] != "tbf":
                marks = queue.get("marked", queue.get("ecn_mark", 0))
                assert state.marks == marks
                assert state.drops if asked.kind in ("drr_fq", "sfq") else marks
            checked.append(queue["kind"])
        assert checked == ["tbf", asked.kind]
        assert lab.shown_queue(lab.network.bottleneck)["kind"] == asked.kind


# --- runs ---------------------------------------------------------------------------------------


def test_waits_of_bands_are_read_beside_other_qdiscs() -> None:
    """A netem without a child, that of control packets, ends a dump of all classes."""
    host.complete_path()
    host.find_plugins()
    # Nobody answers, which is ping's status 1; what was sent is counted below.
    commands = """
        ip link add a0 type veth peer name b0
        ip link set a0 up; ip link set b0 up
        tc qdisc add dev a0 root handle 1: tbf rate 1gbit burst 3000 limit 100000
        tc qdisc add dev a0 parent 1:1 handle 2: slbn rate 1gbit
        tc qdisc add dev a0 parent 2:1 handle 21: netem delay 1ms
        tc qdisc add dev a0 parent 2:2 handle 20: netem delay 1ms
        tc qdisc add dev a0 parent 20:1 handle 10: drr_fq limit 100 bands
        ip addr add 10.9.0.1/24 dev a0
        ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev a0
        ping -c 5 -i 0.01 -W 0.1 10.9.0.2 >/dev/null || [ $? -eq 1 ]
    """
    there = Namespace()
    with contextlib.closing(there), there.inside():
        subprocess.run(["sh", "-ec", commands], check=True)
        with contextlib.closing(QueueReader()) as reader:
            waits = reader.band_waits(socket.if_nametoindex("a0"), 0x10)
    assert sorted(waits) == [1, 2, 3]
    # IPv6 may have sent more.
    assert sum(waits[3]) >= 5 and not sum(waits[1]) and not sum(waits[2])


def measured(directory: Path, what: Scenario) -> tuple[Measurement, dict[str, Any]]:
    """A valid run and its results."""
    directory.mkdir(exist_ok=True)
    dumbbell.measure(what, directory, QUIET)
    measurement = Measurement.read(directory)
    validity.check(measurement)
    return measurement, analysis.evaluate(measurement)


def test_ecn_with_large_mtu_and_start_gap(tmp_path: Path) -> None:
    """Options that test_vm_run.py does not use."""
    rate, rtt = 20_000_000, 20_000
    what = small(
        flows=parse_flows("cubic,gaimd:tcp"),
        rate=rate,
        buffer=parse_buffer("60p", rate, rtt),
        ecn=True,
        mtu=3000,
        start_gap=500_000,
        seconds=5,
        warmup_seconds=1.0,
    )
    measurement, result = measured(tmp_path, what)
    total = result["total"]
    assert total["marks"] > 5 * total["drops"]
    assert total["throughput_bps"] == pytest.approx(rate * what.payload / what.frame, rel=0.01)
    assert result["flows"][1]["cut_keeps"] == pytest.approx(0.5, abs=0.03)
    columns = measurement.columns
    sizes, packets = (list(columns[f"arrived_{name}"].values()) for name in ("bytes", "packets"))
    assert sizes[0][-1] / packets[0][-1] == pytest.approx(what.frame, rel=0.05)
    first, second = (next(n for n, b in enumerate(c) if b > 20_000) for c in sizes)
    times = columns["time"]
    assert times[second] - times[first] == pytest.approx(0.5, abs=0.01)
    assert measurement.document["settings"][1]["gaimd_preset"] == "tcp"


# --- the background -----------------------------------------------------------------------------


def studied(**changes: object) -> Scenario:
    """A scenario of the fair queueing study, at a lower rate and shorter."""
    rate, rtt = 20_000_000, 20_000
    plain = {"rate": rate, "rtt": rtt, "mtu": 1000, "buffer": parse_buffer("20p", rate, rtt)}
    beside = {"background": Background(0.5), "flows": parse_flows("cubic")}
    return small(**(plain | beside | {"seconds": 8, "warmup_seconds": 1.0} | changes))


def test_fair_queueing_protects_the_background(tmp_path: Path) -> None:
    """The study's claim: with small buffers, short flows beside a bulk flow lose packets in a FIFO,
    and none with fair queueing that drops from the front of the longest queue."""
    found, reports = {}, []
    for kind in ("pfifo", "drr_fq"):
        what = studied(qdiscs=(parse_qdisc(f"{kind},limit=20"),))
        measurement, result = measured(tmp_path / kind, what)
        found[kind] = result["background"]
        assert measurement.background
        reports.append(measurement.background)
        (queue,) = measurement.document["queues"]
        assert (queue["asked"], queue["shown"]["kind"]) == (f"{kind} limit 20", kind)
        assert queue["shown"]["drops"] == measurement.columns["drops"][-1] > 0
        assert result["total"]["utilisation"] > 0.6
    fifo, fair = found["pfifo"], found["drr_fq"]
    # One seed; runs end at their own times.
    sizes = [[flow.size for flow in report.flows] for report in reports]
    assert all(a == b for a, b in zip(*sizes, strict=False)) and min(map(len, sizes)) > 50
    assert fifo["lost"] > 20
    assert fair["lost"] <= fifo["lost"] / 10
    assert fair["loss"] < 0.0005


def test_background_matches_its_plan(tmp_path: Path) -> None:
    """Without losses, all flows of fairtraffic's plan arrive at their planned times."""
    roomy = parse_buffer("500p", 20_000_000, 20_000)
    fair = (parse_qdisc("drr_fq,limit=500"),)
    what = studied(buffer=roomy, qdiscs=fair, background=Background(0.4), seconds=5)
    measurement, result = measured(tmp_path, what)
    found, report = result["background"], measurement.background
    assert report
    assert what.background
    words = flows.source_options(what.background, what.rate, what.mtu, what.seed, "10.0.0.1")
    options = words[words.index("--seed") : words.index("--peak")]
    plan = host.run(host.traffic_program(), "plan", *options, "--time", "9").splitlines()[1:]
    events = [tuple(map(int, line.split(","))) for line in plan]
    for flow, (when, size) in zip(report.flows, events, strict=False):
        assert flow.size == size
        assert 0 <= flow.start - report.began - when / 1e9 < 0.001
        # At least the time at its peak rate, and a round trip.
        if flow.took is not None:
            assert flow.took > 8 * size / 10**6 * 0.95 + 0.02
    due = [when / 1e9 for when, _ in events]
    assert len(report.flows) == len([t for t in due if t < report.ended - report.began])
    assert found["lost"] == 0
    ended = [flow for flow in report.flows if flow.took is not None]
    assert len(ended) > 30
    sent = sum(flow.size for flow in ended)
    assert report.received_bytes > sent
    assert sum(flow.segments for flow in ended) == pytest.approx(sent / what.payload, rel=0.02)


def test_background_of_packets(tmp_path: Path) -> None:
    what = studied(background=Background(0.5, PACKETS), seconds=5)
    measurement, result = measured(tmp_path, what)
    found = result["background"]
    assert found["offered"] == pytest.approx(0.5, rel=0.08)
    assert found["carried"] == pytest.approx(found["offered"] * (1 - found["loss"]), rel=0.01)
    assert 0 < found["loss"] < 0.2
    full = 20 * what.frame * 8 / what.rate * 1000
    assert 10 < found["delay_ms"]["mean"] < 10 + full
    assert found["delay_ms"]["mean"] < found["delay_ms"]["max"] <= 10 + full
    # Lost packets by source and sink: the bottleneck's drops, less those of the flow.
    assert measurement.background
    lost = sum(one.sent - one.received for one in measurement.background.bins)
    drops = measurement.columns["drops"][-1] - measurement.columns["drops"][0]
    assert lost < drops
    assert lost + result["total"]["retransmits"] == pytest.approx(drops, rel=0.1)


def test_late_background_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is stopped for a while, as on a machine that is too busy."""
    alive = Programs.check
    calls = []

    def hold_up(programs: Programs) -> None:
        alive(programs)
        if source := programs.sources.get("background-source"):
            calls.append(0)
            if len(calls) in (30, 35):
                source.send_signal(signal.SIGSTOP if len(calls) == 30 else signal.SIGCONT)

    monkeypatch.setattr(Programs, "check", hold_up)
    with pytest.raises(CannotRunError, match=r"ms at worst: this machine was too slow or too busy"):
        measured(tmp_path, studied(seconds=4))


def test_failed_background_source_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "source_options", lambda *_: ["--to", "10.9.9.9"])
    with pytest.raises(LabError, match="background-source: fairtraffic: source needs --load"):
        dumbbell.measure(studied(seconds=4), tmp_path, QUIET)


def test_losses_in_netem_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check before the run, the check after it finds them."""
    monkeypatch.setattr(preflight, "delays", lambda *_: None)
    dumbbell.measure(small(netem_limit=5), tmp_path, QUIET)
    with pytest.raises(CannotRunError, match="packets were lost in the delays: netem's limit"):
        validity.check(Measurement.read(tmp_path))


@pytest.mark.real_time
def test_too_slow_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check before the run, the check after it finds the lack of CPU time."""
    monkeypatch.setattr(preflight, "HEADROOM", 0)
    rate, rtt = 1_000_000_000, 1_000
    what = small(rate=rate, rtt=rtt, buffer=parse_buffer("1000p", rate, rtt), seconds=2)
    dumbbell.measure(what, tmp_path, QUIET)
    with pytest.raises(CannotRunError, match=r"CPU was idle for only|too slow or too busy"):
        validity.check(Measurement.read(tmp_path))


@pytest.mark.real_time
def test_overrun_trace_counts_lost_events() -> None:
    with built(small()) as lab:
        connections = [("reno", *preflight.TRIAL_PORTS)]
        with Tracer(connections, size=16_384) as tracer:
            # Without its queues, the network's traffic overruns the trace buffer of 16 kB.
            for node in lab.network.routers:
                for end, _ in lab.network.ends_of(node):
                    if end.queue:
                        lab.shell(node, f"tc qdisc del dev {end.interface} root")
            preflight.capacity(lab, small())
            tracer.stop()
            kept = len(list(parse(tracer.read())))
            assert kept > 10
            assert tracer.lost() > 10


@pytest.mark.parametrize(
    ("number", "after"),
    [(signal.SIGINT, "running 1 flows"), (signal.SIGTERM, "building the network")],
)
def test_stopped_run_cleans_up(tmp_path: Path, number: int, after: str) -> None:
    process = subprocess.Popen(
        [FAIRLAB, *"run dumbbell --flows reno --rate 10mbit --engine host --out".split(), tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    while after not in (line := process.stderr.readline()):
        assert line
    time.sleep(1)
    process.send_signal(number)
    output, complaint = process.communicate(timeout=600)
    assert process.returncode == 128 + number
    assert output == ""
    assert "stopped by" in complaint and "Traceback" not in complaint
    assert list(tmp_path.iterdir()) == []
