# SPDX-License-Identifier: GPL-2.0
"""Real runs of each pipeline that measures in a guest, broken on purpose: run by test_vm_guest.py.

The checks before a run pass; then the network or the machine is changed, before the flows start or
while they send.  The run must be refused, with the reason.  test_gate.py does the same with made-up
data, and lists what cannot happen in a pipeline.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fairlab.compare import workloads
from fairlab.compare.plan import Plan as ComparePlan
from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.experiment import Group, Layout, Stream
from fairlab.model.qdisc import parse_buffer
from fairlab.model.scenario import parse_flows
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.results import flentresult, outcome, validity
from fairlab.results.analysis import Measurement
from fairlab.run import dumbbell, experiment, flenttest, flows
from fairlab.run.progress import Progress
from fairlab.slbn import (
    backbone,
    backbone_analysis,
    guest,
    sessions,
    sessions_tcp,
)
from fairlab.slbn.mesh import Mesh, Wire
from fairlab.slbn.sessions_plan import Session

from tests.lab import test_gate
from tests.lab.labtools import scenario

QUIET = Progress("none")
RATE, RTT = 10_000_000, 20_000
#: The number of pidfd_getfd(2).
PIDFD_GETFD = 438
#: <asm/socket.h>, and octets of TCP's memory that a test takes.
SO_SNDBUFFORCE, HELD = 32, 4_000_000
#: The sockets that have them.
held: list[socket.socket] = []
#: Programs that send.
SENDERS = ("fairflow", "iperf3", "python3")

# --- the pipelines ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipeline:
    """MEASURE a run in a directory, and CHECK what it left there.

    READY: from when the queues are there until all flows send [s].
    """

    measure: Callable[[Path], None]
    check: Callable[[Path], Any]
    ready: float
    #: of the flow that is not to connect; its program has another connection, too
    source_port: int = 0
    #: ways whose reason is another one here
    reasons: Mapping[str, str] = field(default_factory=dict)


SHORT = {
    "flows": parse_flows("bic"),
    "rate": RATE,
    "rtt": RTT,
    "buffer": parse_buffer("1bdp", RATE, RTT),
    "warmup_seconds": 0.5,
}
SCENARIO = scenario(**SHORT, seconds=4)
FLENT = flenttest.Request("tcp_upload", (), "bic", scenario(**SHORT, seconds=4))
LAYOUT = Layout(RATE, 50, (Group("a", RTT, (Stream("bic", 2),)),), 5.0, 1.0, 1)
COMPARED = workloads.long_flows("small", "small", RATE, 20.0, 50, 2, 6.0)
MESH = Mesh(
    "line", ("r0", "r1", "r2"), (Wire("r0", "r1", RATE, 4000), Wire("r1", "r2", RATE, 5000))
)
SESSIONS = sessions.Plan(
    MESH,
    tuple(Session(source, "r2", 0.0) for source in ("r0", "r0", "r1", "r1")),
    4.0,
    headroom=50,
    packet=1000,
)


def check_flent(work: Path) -> None:
    (path,) = work.glob("*.flent.gz")
    document = json.loads((work / flenttest.MEASUREMENT).read_text())
    flentresult.check(document, flentresult.read(path), FLENT)


def of_backbone(variant: str) -> Pipeline:
    plan = backbone.Plan(5_000_000, 14, (variant,))

    def check(work: Path) -> None:
        backbone_analysis.Run.read(plan, variant, work).check()

    return Pipeline(lambda work: backbone.measure(plan, work, QUIET), check, 5)


def of_tcp(variant: str) -> Pipeline:
    drawn = sessions_tcp.draw(6, 9.0, ("bic",), 1)
    plan = sessions_tcp.TcpPlan(variant, 5_000_000, drawn, 9.0)
    return Pipeline(lambda work: guest.measure(plan.experiment(), work, QUIET), plan.read, 4)


def of_compare(stack: str) -> Pipeline:
    plan = ComparePlan.of(COMPARED, stack, "bic", 1)
    return Pipeline(lambda work: guest.measure(plan.experiment(), work, QUIET), plan.read, 3)


PIPELINES = {
    "scenario": Pipeline(
        lambda work: dumbbell.measure(SCENARIO, work, QUIET),
        lambda work: validity.check(Measurement.read(work)),
        2.5,
        flows.ports(0)[0],
        {"not connected": "flow bic does not start"},
    ),
    "flent": Pipeline(
        lambda work: flenttest.measure(FLENT, work, QUIET),
        check_flent,
        8,
        reasons={"not connected": "flent has no data for TCP upload"},
    ),
    "experiment": Pipeline(
        lambda work: experiment.measure(LAYOUT, work, QUIET),
        lambda work: outcome.read(LAYOUT, work),
        2.5,
    ),
    "backbone": of_backbone("fq_codel"),
    "backbone-slbn": of_backbone("slbn"),
    "sessions": Pipeline(
        lambda work: guest.measure(SESSIONS.experiment(), work, QUIET),
        SESSIONS.read,
        3,
        reasons={
            "lost in delays": r"\d+ control packets were lost at",
            "slbnd": "slbnd at r.: it has ended",
        },
    ),
    "sessions-tcp": of_tcp("fq_codel"),
    "sessions-tcp-slbn": of_tcp("slbn"),
    "compare": of_compare("fq_codel"),
    "compare-slbn": of_compare("slbn"),
}

# --- the ways to break a run --------------------------------------------------------------------


def each_queue(lab: Laboratory, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The qdiscs of this KIND: the node, where they are, and what tc shows."""
    found = []
    for node in lab.network.routers:
        # Where slbnd paces, links are not checked.
        if node.startswith("a-"):
            continue
        for queue in json.loads(lab.shell(node, "tc -j qdisc show")):
            if queue["kind"] == kind:
                parent = "root" if queue.get("root") else f"parent {queue['parent']}"
                place = f"dev {queue['dev']} {parent} handle {queue['handle']} {kind}"
                found.append((node, place, queue["options"]))
    assert found
    return found


def lose_between(_: Laboratory, __: Pipeline) -> None:
    host.BACKLOG.write_text("0")


def lose_in_delays(lab: Laboratory, _: Pipeline) -> None:
    for node, place, options in each_queue(lab, "netem"):
        delay = round(1e6 * options["delay"]["delay"])
        lab.shell(node, f"tc qdisc change {place} delay {delay}us limit 1")


def take_memory(_: Laboratory, __: Pipeline) -> None:
    """Each CPU may have a megabyte that the limit does not include: hold more than that."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    held[:] = [near, far]
    near.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, HELD)
    near.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            near.send(bytes(65536))
    host.TCP_MEMORY.write_text("1 1 1")


def each_device(lab: Laboratory, command: str) -> None:
    for node in (*lab.network.hosts, *lab.network.routers):
        for end, _ in lab.network.ends_of(node):
            lab.shell(node, command.format(end.interface))


def raise_mtu(lab: Laboratory, _: Pipeline) -> None:
    each_device(lab, "ip link set {} mtu 2500")


def turn_offloads_on(lab: Laboratory, _: Pipeline) -> None:
    each_device(lab, "ethtool -K {} gso on tso on gro on")


def change_control(_: Laboratory, __: Pipeline) -> None:
    """Change the congestion control of all flows from outside."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    changed = 0
    for entry in Path("/proc").glob("[0-9]*"):
        number = int(entry.name)
        with suppress(OSError):
            if number == os.getpid() or (entry / "comm").read_text().strip() not in SENDERS:
                continue
            process = os.pidfd_open(number)
            for file in (entry / "fd").iterdir():
                if not os.readlink(file).startswith("socket:"):
                    continue
                copy = syscall(PIDFD_GETFD, process, int(file.name), 0)
                with socket.socket(fileno=copy) as own, suppress(OSError):
                    own.getpeername()
                    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
                    changed += 1
            os.close(process)
    assert changed


def drop_first_packets(lab: Laboratory, one: Pipeline) -> None:
    """Drop all segments that the first host sends."""
    ((_, peer),) = lab.network.ends_of(lab.network.hosts[0])
    port = f" src_port {one.source_port}" if one.source_port else ""
    lab.shell(
        peer.node,
        f"tc qdisc add dev {peer.interface} clsact;"
        f" tc filter add dev {peer.interface} ingress protocol ip flower ip_proto tcp{port}"
        " action drop",
    )


def slow_links_down(lab: Laboratory, _: Pipeline) -> None:
    for node, place, options in each_queue(lab, "tbf"):
        rate = 0.8 * 8 * options["rate"]
        lab.shell(node, f"tc qdisc change {place} rate {rate:.0f}bit burst 4kb limit 100mb")


def stop_pacing(lab: Laboratory, _: Pipeline) -> None:
    """Delete the qdiscs that pace at access routers; where nothing paces, kill an agent."""
    edge = [node for node in lab.network.routers if node.startswith("a-")]
    for node in edge:
        for queue in json.loads(lab.shell(node, "tc -j qdisc show")):
            if queue["kind"] == "fq":
                lab.shell(node, f"tc qdisc del dev {queue['dev']} parent {queue['parent']}")
    if not edge:
        kill_agent()


def kill_agent() -> None:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "comm").read_text().strip() == "slbnd":
                os.kill(int(entry.name), signal.SIGKILL)
                return
    raise AssertionError


def report_error(_: Laboratory, __: Pipeline) -> None:
    Path("/dev/kmsg").write_text("<3>broken on purpose\n")


@dataclass(frozen=True)
class Way:
    """What BREAKS a run, EARLY or while flows send, and the REASON of the refusal."""

    breaks: Callable[[Laboratory, Pipeline], None]
    reason: str
    early: bool = False


WAYS = {
    "lost packets": Way(lose_between, r"\d+ packets were lost between namespaces"),
    "lost in delays": Way(lose_in_delays, r"\d+ packets were lost in the delays"),
    "memory": Way(take_memory, "TCP had too little memory"),
    "mtu": Way(raise_mtu, r"bytes on average, on links for 1514|changed .*: MTU$", early=True),
    "changed": Way(turn_offloads_on, "changed during the run: .*: offloads$", early=True),
    "another cc": Way(change_control, "reno.* instead of '?bic"),
    "not connected": Way(drop_first_packets, "did not connect", early=True),
    "rate": Way(slow_links_down, "while packets waited, instead of|changed .*: tbf 1:$"),
    "slbnd": Way(stop_pacing, "slbnd at a-.*: "),
    "kernel": Way(report_error, "the kernel reported: broken on purpose"),
}
SLBN = "-slbn"
#: These are tried by `make test`, too.
QUICK = (("compare", "mtu"), ("sessions", "rate"))


def cases() -> Iterator[tuple[str, str]]:
    """Each way that can happen in a pipeline; with SLBN, what slbnd prints."""
    for name in PIPELINES:
        never = test_gate.PIPELINES[name.removesuffix(SLBN)].never
        if name.endswith(SLBN):
            yield name, "slbnd"
        else:
            agents = {"slbnd"} if f"{name}{SLBN}" in PIPELINES else set()
            yield from ((name, way) for way in WAYS if way not in never | agents)


@contextlib.contextmanager
def broken(way: Way, one: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it, a run is broken in this WAY after it has passed the checks before it."""
    ready = Laboratory.add_queues
    threads: list[threading.Thread] = []
    failures: list[Exception] = []

    def wait_and_break(lab: Laboratory) -> None:
        try:
            time.sleep(one.ready)
            way.breaks(lab, one)
        except Exception as error:
            failures.append(error)

    def add_queues(lab: Laboratory) -> None:
        ready(lab)
        if way.early:
            way.breaks(lab, one)
        else:
            threads.append(threading.Thread(target=wait_and_break, args=(lab,)))
            threads[0].start()

    monkeypatch.setattr(Laboratory, "add_queues", add_queues)
    memory = host.TCP_MEMORY.read_text()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
        for end in held:
            end.close()
        host.TCP_MEMORY.write_text(memory)
        assert not failures


@pytest.mark.parametrize("name", PIPELINES)
def test_good_runs_are_trusted(name: str, tmp_path: Path) -> None:
    PIPELINES[name].measure(tmp_path)
    PIPELINES[name].check(tmp_path)


@pytest.mark.parametrize(
    ("name", "way"),
    [pytest.param(*case, marks=pytest.mark.quick if case in QUICK else ()) for case in cases()],
)
def test_broken_runs_are_refused(
    name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = PIPELINES[name]
    reason = one.reasons.get(way, WAYS[way].reason)
    with broken(WAYS[way], one, monkeypatch), pytest.raises((CannotRunError, LabError)) as caught:
        one.measure(tmp_path)
        one.check(tmp_path)
    assert re.search(reason, str(caught.value)), caught.value


def test_each_way_and_pipeline_of_the_gate_is_tried() -> None:
    assert WAYS.keys() == test_gate.WAYS.keys()
    names = {name.removesuffix(SLBN) for name in PIPELINES}
    assert names | {"slbnsim"} == test_gate.PIPELINES.keys()
