# SPDX-License-Identifier: GPL-2.0
"""Shared by the lab's tests: the command, scenarios, and made-up raw data.

The raw data is that of a run in which everything is known: flows of constant rates, a queue of
constant length, window cuts at fixed times.  So the results of the analysis are known, too.
"""

import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlab.cli.main import main
from fairlab.figures import fingerprints, registry, verdict
from fairlab.figures.study import Data, Study
from fairlab.model import topology
from fairlab.model.background import FLOWS
from fairlab.model.qdisc import parse_buffer
from fairlab.model.scenario import Scenario, parse_flows
from fairlab.net.host import STOPPING
from fairlab.run.dumbbell import BACKGROUND_REPORTS, BESIDE, MEASUREMENT, PING, TRACE
from fairlab.run.flows import ports

from tests import launch

TOP = Path(__file__).resolve().parents[2]
FAIRLAB = TOP / "scripts" / "fairlab"

BEGIN = 1000.0  # of the made-up run, by the monotonic clock
CLOCK_OFFSET = 1_700_000_000.0


def held(study: Study, data: Data, quick: bool = False) -> dict[str, bool]:
    """Whether each claim of STUDY holds by the means of DATA, which may have a single seed."""
    known = registry.of(study.name)
    measured = study.measure(data, quick)
    return {name: verdict.judge(known[name], values).holds for name, values in measured.items()}


def call_fairlab(*arguments: str, cwd: Path = TOP) -> subprocess.CompletedProcess[str]:
    """Run the command in this process; a process of its own takes a quarter of a second to start.

    Not for what starts a guest, whose output would not be captured.
    """
    # A new process would read these files anew.
    fingerprints.forget()
    registry.sources.cache_clear()
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status: Any = main(arguments)
        except SystemExit as end:
            status = end.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def run_fairlab(
    *arguments: str, cwd: Path = TOP, before: Sequence[str] = (), timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the command; BEFORE is prepended to it (a program that starts it).

    It keeps its compiled modules: to compile them took 40 % of the time of a short command.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(TOP / "build" / "tests" / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return launch.run(
        [*before, str(FAIRLAB), *arguments], cwd=cwd, timeout=timeout, env=environment
    )


def assert_refused(
    done: subprocess.CompletedProcess[str],
    status: int,
    *fragments: str,
    steps: bool = False,
) -> None:
    """Assert an exit with STATUS and one line with FRAGMENTS (with STEPS: after progress lines)."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == status, done.stderr
    assert steps or len(lines) == 1, done.stderr
    assert lines[-1].startswith("fairlab: ")
    for fragment in fragments:
        assert fragment in lines[-1]
    assert done.stdout == ""


def scenario(**changes: Any) -> Scenario:
    """A scenario with CHANGES to the defaults."""
    rate, rtt = 50_000_000, 60_000
    plain = Scenario(
        topology="dumbbell",
        flows=parse_flows("bic,reno"),
        rate=rate,
        rtt=rtt,
        buffer=parse_buffer("1bdp", rate, rtt),
        seconds=30,
        warmup_seconds=7.5,
    )
    return dataclasses.replace(plain, **changes)


def trace_line(when: float, event: str, fields: str) -> str:
    """A line of a trace in the kernel's format."""
    return f"          iperf3-346     [000] ..s2. {when:12.6f}: {event}: {fields}\n"


def probe(when: float, sport: int, dport: int, cwnd: int, ssthresh: int) -> str:
    """A line of tcp_probe."""
    return trace_line(
        when,
        "tcp_probe",
        f"family=AF_INET src=10.0.4.2:{sport} dest=10.1.4.2:{dport} mark=0x0 data_len=0"
        f" snd_nxt=0x5690e32d snd_una=0x56907d5d snd_cwnd={cwnd} ssthresh={ssthresh}"
        " snd_wnd=1865728 srtt=115728 rcv_wnd=65536 sock_cookie=12",
    )


def state(when: float, sport: int, dport: int, number: int) -> str:
    """A line of tcp_cong_state_set."""
    return trace_line(
        when,
        "tcp_cong_state_set",
        f"family=AF_INET sport={sport} dport={dport} saddr=10.0.4.2 daddr=10.1.4.2"
        f" saddrv6=::ffff:10.0.4.2 daddrv6=::ffff:10.1.4.2 cong_state={number}",
    )


def bic_window(when: float, sport: int, dport: int, cwnd: int, ssthresh: int, phase: str) -> str:
    """A line of bic_window."""
    fields = f"sport={sport} dport={dport} cwnd={cwnd} ssthresh={ssthresh}"
    return trace_line(when, "bic_window", f"{fields} wmax=120 target=110 inc=500 phase={phase}")


def saw_tooth(what: Scenario) -> str:
    """A trace in which each flow's window is 100, and cut in half once a second."""
    text = "# tracer: nop\n#\n"
    for number, flow in enumerate(what.flows):
        sport, dport = ports(number)
        for second in range(what.seconds):
            t = BEGIN + second
            if flow.cc == "bic":
                text += bic_window(t + 0.1, sport, dport, 100, 60, "additive")
                text += bic_window(t + 0.5, sport, dport, 100, 50, "loss")
            else:
                text += probe(t + 0.1, sport, dport, 100, 75)
                text += state(t + 0.5, sport, dport, 3)
                text += probe(t + 0.52, sport, dport, 51, 50)
                text += state(t + 0.6, sport, dport, 0)
    return text


def made_up(what: Scenario, shares: Sequence[float]) -> dict[str, Any]:
    """The document of a run in which flows have constant SHARES of the rate, in full packets.

    The queue is always half full, one packet in 101 is dropped, and every sample is on time.
    """
    count = round(10 * (what.seconds + 2))
    at = [n / 10 for n in range(count)]
    full = what.buffer.bytes_at_most(what.frame)
    packets = [[round(share * what.rate * t / 8 / what.frame) for t in at] for share in shares]
    total = [sum(column) for column in zip(*packets, strict=True)]
    samples: dict[str, Any] = {
        "time": [t - 0.5 for t in at],
        "backlog_bytes": [full // 2] * count,
        "backlog_packets": [full // 2 // what.frame] * count,
        "sent_bytes": [what.frame * n for n in total],
        "sent_packets": total,
        "drops": [n // 100 for n in total],
        "marks": [0] * count,
        "delay_drops": [0] * count,
        "arrived_packets": dict(zip(what.labels, packets, strict=True)),
    }
    if what.background:
        rest = what.background.fraction
        column = [round(rest * what.rate * t / 8 / what.frame) for t in at]
        samples["arrived_packets"][BESIDE] = column
        samples["sent_packets"] = [a + b for a, b in zip(total, column, strict=True)]
        samples["sent_bytes"] = [what.frame * n for n in samples["sent_packets"]]
    samples["arrived_bytes"] = {
        name: [what.frame * n for n in column]
        for name, column in samples["arrived_packets"].items()
    }
    queue = what.qdisc("bottleneck") or topology.default_qdisc(what)
    return {
        "scenario": what.to_json(),
        "begin": BEGIN,
        "end": BEGIN + what.seconds,
        "clock_offset": CLOCK_OFFSET,
        "columns": samples,
        "load": {
            "idle": 20.0,
            "total": 40.0,
            "stolen": 0.0,
            "backlog_drops": 0,
            "idle_share": 0.5,
        },
        "capacity": 3e8,
        "round_trip_ms": 60.1,
        "trace_lost": 0,
        "reports": [
            {
                "received_bytes": what.payload * column[-1],
                "retransmits": 7,
                "cc": flow.cc,
            }
            for flow, column in zip(what.flows, packets, strict=True)
        ],
        "kernel": {"release": "6.1.0", "version": "#1", "machine": "x86_64", "cpus": 1},
        "engine": {"name": "vm", "accelerator": "tcg", "steady": True},
        "tools": {"iperf3": "iperf 3.12"},
        "modules": {flow.cc: {"module": f"tcp_{flow.cc}"} for flow in what.flows},
        "settings": [{} for _ in what.flows],
        "queues": [
            {
                "link": "bottleneck",
                "interface": "left-right",
                "asked": str(queue),
                "shown": {
                    "kind": queue.kind,
                    "handle": "10:",
                    "parent": "1:1",
                    "options": dict(zip(queue.words[::2], queue.words[1::2], strict=False)),
                },
            }
        ],
    }


# Segments of each flow of the made-up background.
FLOW_SEGMENTS = 50


def made_up_background(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of fairtraffic's source and sink for that run.

    Of flows, one arrives every tenth of a second and takes two seconds; each tenth loses a segment.
     Of packets, 100 are sent every tenth of a second, one is lost, and each takes 52 ms.
    """
    what = document["scenario"]
    seconds = what["seconds"] + 3
    began, ended = BEGIN - 2, document["end"] + 0.5
    columns, background = document["columns"], what["background"]
    plan = {"began": began, "ended": ended, "late_mean_us": 90, "late_max_us": 1500}
    source: dict[str, Any] = {"kind": background["kind"], **plan}
    headers = 66 if background["kind"] == FLOWS else 42
    sizes, packets = (columns[f"arrived_{name}"][BESIDE][-1] for name in ("bytes", "packets"))
    payload = sizes - headers * packets
    sink: dict[str, Any] = {"bytes": payload}
    if background["kind"] == FLOWS:
        source["flows"] = []
        for n in range(10 * seconds):
            over = n >= 10 * what["seconds"]
            took = None if over else 2_000_000
            lost = None if over else int(n % 10 == 0)
            source["flows"].append([n * 100_000, background["mean"], took, FLOW_SEGMENTS, 1, lost])
    else:
        bins = {"bin": 0.1, "first_bin": round(10 * began)}
        source |= bins | {"bins": [[100]] * (10 * seconds)}
        sink |= bins | {"no_room": 0, "bins": [[99, 99 * 52_000, 60_000]] * (10 * seconds)}
    return source, sink


def write_raw(directory: Path, document: dict[str, Any], trace: str) -> None:
    """Write raw data as dumbbell.measure() does."""
    when = CLOCK_OFFSET + BEGIN
    replies = [
        f"[{when + n / 5:.6f}] 64 bytes from 10.1.1.2: icmp_seq={n + 1} ttl=62 time=90.{n % 10} ms"
        for n in range(5 * document["scenario"]["seconds"])
    ]
    directory.mkdir(exist_ok=True)
    (directory / MEASUREMENT).write_text(json.dumps(document))
    (directory / TRACE).write_text(trace)
    (directory / PING).write_text(
        "PING 10.1.1.2 56(84) bytes of data.\n" + "\n".join(replies) + "\n"
    )
    if document["scenario"]["background"]:
        for name, end in zip(BACKGROUND_REPORTS, made_up_background(document), strict=True):
            (directory / name).write_text(json.dumps(end))
    for name in ("client-1.json", "server-1.json"):
        (directory / name).write_text("{}")
