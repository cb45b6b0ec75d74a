# SPDX-License-Identifier: GPL-2.0
"""Each refusal, made to happen: run inside a VM by test_vm_guest.py, whose kernel may be spoilt.

Where the command line is enough to bring a refusal about, the command is run; where the reason lies
in the network, the network is built, spoilt with the usual tools, and looked at by the lab's check.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fairlab.model.background import PACKETS, Background
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.qdisc import parse_buffer, parse_qdisc
from fairlab.model.scenario import Scenario, parse_flows
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.net.tracing import Tracer, parse
from fairlab.results import analysis, validity
from fairlab.results.analysis import Measurement
from fairlab.run import dumbbell, flows, preflight
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
    """Let flow 0 run."""
    traffic = flows.Traffic(lab, small(flows=parse_flows(cc)))
    traffic.start_servers()
    traffic.start_client(0, seconds)


def leftovers() -> list[str]:
    """What a run could have left on this machine."""
    found = [str(path) for path in Path("/sys/kernel/tracing/instances").iterdir()]
    found += [str(path) for path in Path("/tmp").glob("fairlab-*")]
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
def _nothing_is_left() -> Iterator[None]:
    before = leftovers()
    yield
    assert leftovers() == before


# --- by the command line ------------------------------------------------------------------------


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
        # The kernel's own words.
        ("--flows reno --qdisc senders:frob", 2, ("refused on s1: ", "qdisc kind is unknown")),
        ("--flows reno --netem-limit 5", 2, ("netem limit of 5 packets at", "is too small")),
        (
            "--flows reno --rate 600mbit",
            3,
            ("rate 600mbit is not reachable here", "Mbit/s at best"),
        ),
    ],
)
def test_refused(words: str, status: int, fragments: tuple[str, ...], tmp_path: Path) -> None:
    where = ["--engine", "host", "--quiet", "--out", str(tmp_path)]
    done = run_fairlab("run", "dumbbell", *words.split(), *where)
    assert_refused(done, status, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_a_preset_that_the_module_refuses() -> None:
    with built(small(flows=parse_flows("gaimd:td-friendly 5000"))) as lab:
        what = small(flows=parse_flows("gaimd:td-friendly 5000"))
        with pytest.raises(UsageError, match="'gaimd' refuses the preset 'td-friendly 5000'"):
            preflight.choose(lab, what)


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    iperf3 = Path("/usr/bin/iperf3")
    iperf3.rename("/usr/bin/iperf3.away")
    try:
        done = run_fairlab("check", "dumbbell", "--flows", "reno", "--engine", "host")
    finally:
        Path("/usr/bin/iperf3.away").rename(iperf3)
    assert_refused(done, 3, "missing: iperf3; install the packages: iperf3")


def test_mininet_that_is_missing() -> None:
    package = "/usr/lib/python3/dist-packages/mininet"
    subprocess.run(["mount", "-t", "tmpfs", "none", package], check=True)
    try:
        done = run_fairlab("check", "dumbbell", "--flows", "reno", "--engine", "host")
    finally:
        subprocess.run(["umount", package], check=True)
    assert_refused(done, 3, "missing: Mininet's Python modules; install the packages: mininet")


def test_a_kernel_without_the_queues() -> None:
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


def test_what_there_is() -> None:
    done = run_fairlab("list", "--engine", "host")
    assert done.returncode == 0
    assert "  senders      each sender to left\n" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["topologies:"] == "topologies: dumbbell"
    assert "presets: paper, linux" in lines["bic"]
    assert "presets: gaimd, tcp, aimd32" in lines["gaimd"]
    assert "presets" not in lines["htcp"] and "diag" not in lines


# --- by the network -----------------------------------------------------------------------------


def test_a_network_as_it_should_be_and_how_it_can_be_spoilt() -> None:
    what = small(ecn=True)
    with built(what) as lab:
        preflight.offloads(lab)
        preflight.delays(lab, what)
        assert preflight.round_trip(lab, what) == pytest.approx(20, abs=1)

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


def test_a_flow_with_another_congestion_control() -> None:
    with built(small()) as lab:
        start_flow(lab, "reno")
        with pytest.raises(CannotRunError, match="flow cubic runs with 'reno' instead of 'cubic'"):
            preflight.running(lab, small(flows=parse_flows("cubic")), 0)
        # ss sees the same.
        assert " reno " in lab.shell("s1", "ss -tinH dport = :5201")


def test_a_congestion_control_that_a_route_forbids(tmp_path: Path) -> None:
    what = small(flows=parse_flows("cubic"))
    with built(what) as lab:
        lab.shell("s1", "ip route replace default via 10.0.1.1 congctl lock reno")
        traffic = flows.Traffic(lab, what)
        traffic.start_servers()
        traffic.start_client(0, 5)
        traffic.clients[0].wait()
        with pytest.raises(LabError, match=r"flow cubic: iperf3: .*CONGESTION"):
            traffic.check_alive()


def test_the_right_one_is_seen_as_right() -> None:
    what = small(flows=parse_flows("bic"))
    preflight.look_up(what)
    with built(what) as lab:
        preflight.choose(lab, what)
        start_flow(lab, "bic")
        assert preflight.running(lab, what, 0) == "bic"


@pytest.mark.parametrize(
    "text", ["", "fq_codel,target=1ms", "codel,ecn,target=1ms", "drr_fq", "sfq"]
)
def test_the_readings_of_queues_are_those_of_tc(text: str) -> None:
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


# --- by what happens during a run ---------------------------------------------------------------


def measured(directory: Path, what: Scenario) -> tuple[Measurement, dict[str, Any]]:
    """A valid run and what it says.  One in which the machine stood still says nothing: again."""
    directory.mkdir(exist_ok=True)
    for attempt in range(3):
        dumbbell.measure(what, directory, QUIET)
        measurement = Measurement.read(directory)
        try:
            validity.check(measurement)
            break
        except CannotRunError as error:
            if attempt == 2 or "stood still" not in str(error):
                raise
    return measurement, analysis.evaluate(measurement)


def test_ecn_and_large_packets_and_late_starts(tmp_path: Path) -> None:
    """The ways of a run that test_vm_run.py does not go."""
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
    assert total["throughput_bps"] == pytest.approx(rate * what.payload / what.frame, rel=0.03)
    assert result["flows"][1]["cut_keeps"] == pytest.approx(0.5, abs=0.06)
    sizes, packets = measurement.samples.flow_bytes[0], measurement.samples.flow_packets[0]
    assert sizes[-1] / packets[-1] == pytest.approx(what.frame, rel=0.05)
    first, second = (
        next(n for n, b in enumerate(c) if b > 20_000) for c in measurement.samples.flow_bytes
    )
    times = measurement.times
    assert 0.3 < times[second] - times[first] < 0.9
    assert measurement.document["settings"][1]["gaimd_preset"] == "tcp"


# --- the background -----------------------------------------------------------------------------


def studied(**changes: object) -> Scenario:
    """As the fair queueing study, but smaller and sooner over."""
    rate, rtt = 20_000_000, 20_000
    plain = {"rate": rate, "rtt": rtt, "mtu": 1000, "buffer": parse_buffer("20p", rate, rtt)}
    beside = {"background": Background(0.5), "flows": parse_flows("cubic")}
    return small(**(plain | beside | {"seconds": 8, "warmup_seconds": 1.0} | changes))


def test_fair_queueing_protects_the_background(tmp_path: Path) -> None:
    """The study's point: with small buffers, one large flow costs the small ones packets in a FIFO,
    and none with fair queueing that drops from the front of the longest queue."""
    found = {}
    for kind in ("pfifo", "drr_fq"):
        what = studied(qdiscs=(parse_qdisc(f"{kind},limit=20"),))
        measurement, result = measured(tmp_path / kind, what)
        found[kind] = result["background"]
        (queue,) = measurement.document["queues"]
        assert (queue["asked"], queue["shown"]["kind"]) == (f"{kind} limit 20", kind)
        assert queue["shown"]["drops"] == measurement.samples.drops[-1] > 0
        assert result["total"]["utilisation"] > 0.6
    fifo, fair = found["pfifo"], found["drr_fq"]
    # The same, by their seed, but for those that begin just when the measuring does, or ends.
    assert fair["flows"] > 50 and abs(fifo["flows"] - fair["flows"]) <= 2
    assert fifo["lost"] > 20
    assert fair["lost"] <= fifo["lost"] / 10
    assert fair["loss"] < 0.0005


def test_the_background_is_what_was_planned(tmp_path: Path) -> None:
    """Nothing in its way: what is offered comes through, when fairtraffic's plan has it."""
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
        assert -1e-5 <= flow.start - report.began - when / 1e9 < 0.02
        # Faster than its peak and a round-trip it cannot be.
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


def test_packets_as_background(tmp_path: Path) -> None:
    what = studied(background=Background(0.5, PACKETS), seconds=5)
    measurement, result = measured(tmp_path, what)
    found = result["background"]
    assert found["offered"] == pytest.approx(0.5, rel=0.08)
    assert found["carried"] == pytest.approx(found["offered"] * (1 - found["loss"]), rel=0.02)
    assert 0 < found["loss"] < 0.2
    full = 20 * what.frame * 8 / what.rate * 1000
    assert 10 < found["delay_ms"]["mean"] < 10 + full
    # The guest's clock may jump for a moment while this machine is busy.
    assert found["delay_ms"]["mean"] < found["delay_ms"]["max"] < 10 + full + 30
    # What source and sink count as lost is what the bottleneck dropped, less what the flow lost.
    assert measurement.background
    lost = sum(one.sent - one.received for one in measurement.background.bins)
    drops = measurement.samples.drops[-1] - measurement.samples.drops[0]
    assert lost < drops
    assert lost + result["total"]["retransmits"] == pytest.approx(drops, rel=0.1)


def test_a_source_that_falls_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that is too busy: it is stopped for a while."""
    alive = flows.BackgroundTraffic.check_alive
    calls = []

    def hold_up(traffic: flows.BackgroundTraffic) -> None:
        alive(traffic)
        if "source" in traffic.running:
            calls.append(0)
            if len(calls) in (30, 35):
                number = signal.SIGSTOP if len(calls) == 30 else signal.SIGCONT
                traffic.running["source"].send_signal(number)

    monkeypatch.setattr(flows.BackgroundTraffic, "check_alive", hold_up)
    with pytest.raises(CannotRunError, match=r"ms at worst: this machine was too slow or too busy"):
        measured(tmp_path, studied(seconds=4))


def test_a_source_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "source_options", lambda *_: ["--to", "10.9.9.9"])
    with pytest.raises(LabError, match="the background's source: fairtraffic: source needs --load"):
        dumbbell.measure(studied(seconds=4), tmp_path, QUIET)


def test_packets_lost_in_a_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check beforehand would refuse this; without it, the one afterwards does."""
    monkeypatch.setattr(preflight, "delays", lambda *_: None)
    dumbbell.measure(small(netem_limit=5), tmp_path, QUIET)
    with pytest.raises(CannotRunError, match="packets were lost in the delays: netem's limit"):
        validity.check(Measurement.read(tmp_path))


def test_a_machine_that_is_too_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check beforehand: the run that it would have refused is refused afterwards."""
    monkeypatch.setattr(preflight, "HEADROOM", 0)
    rate, rtt = 1_000_000_000, 1_000
    what = small(rate=rate, rtt=rtt, buffer=parse_buffer("1000p", rate, rtt), seconds=2)
    dumbbell.measure(what, tmp_path, QUIET)
    with pytest.raises(CannotRunError, match=r"CPU was idle for only|too slow or too busy"):
        validity.check(Measurement.read(tmp_path))


def test_a_trace_that_overruns_says_so() -> None:
    with built(small()) as lab:
        connections = [("reno", *preflight.TRIAL_PORTS)]
        with Tracer(connections, size=16_384) as tracer:
            # Without its queues the network carries far more than these 16 kB can hold.
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
def test_a_run_that_is_stopped_cleans_up(tmp_path: Path, number: int, after: str) -> None:
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
