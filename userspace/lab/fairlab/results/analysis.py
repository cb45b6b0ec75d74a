# SPDX-License-Identifier: GPL-2.0
"""Evaluating the raw data of a scenario (run/dumbbell.py).

Times are relative to the start of the first flow.  Means are over the steady state, from the end of
the warm-up to the end of the scenario.  Throughput is goodput: the bytes that passed the last link,
without headers.
"""

import bisect
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairlab.model import headers
from fairlab.model.background import FLOWS, Background, BackgroundReport, FlowRecord, read_report
from fairlab.model.scenario import Scenario
from fairlab.net.tracing import StateEvent, WindowEvent, parse
from fairlab.results.outcome import Sampled
from fairlab.results.statistics import jain
from fairlab.run.dumbbell import BACKGROUND_REPORTS, BESIDE, MEASUREMENT, PING, TRACE
from fairlab.run.flows import Report, parse_ping, ports

# Points of a window's curve closer than this [s] are left out unless it jumps.
CURVE_STEP, CURVE_JUMP = 0.02, 0.1
# The states in which the kernel reduces the window (enum tcp_ca_state): CWR, Recovery, Loss.
HELD_DOWN = (2, 3, 4)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least SHARE of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def rates(times: Sequence[float], total: Sequence[float], edges: Sequence[float]) -> list[float]:
    """The rate at which the counter TOTAL grew between consecutive EDGES."""
    import numpy

    found: list[float] = (
        numpy.diff(numpy.interp(edges, times, total)) / numpy.diff(edges)
    ).tolist()
    return found


def step_mean(
    times: Sequence[float], values: Sequence[float], begin: float, end: float
) -> float | None:
    """The mean over time of a step function; None if it has no value yet."""
    area = known = 0.0
    for n, value in enumerate(values):
        until = times[n + 1] if n + 1 < len(times) else end
        span = min(until, end) - max(times[n], begin)
        if span > 0:
            area += value * span
            known += span
    return area / known if known else None


def plot_interval(seconds: float) -> float:
    """The averaging interval of a curve of about sixty points, in seconds."""
    return next((step for step in (0.2, 0.5) if seconds / step <= 60), 1.0)


@dataclass(frozen=True)
class Measurement(Sampled):
    """The raw data of a run."""

    scenario: Scenario
    reports: list[Report]
    events: list[WindowEvent | StateEvent]
    ping: list[tuple[float, float]]  # (seconds from the start, ms)
    background: BackgroundReport | None

    @classmethod
    def read(cls, directory: Path) -> "Measurement":
        document = json.loads((directory / MEASUREMENT).read_text())
        begin = document["begin"]
        replies = parse_ping((directory / PING).read_text())
        return cls(
            document=document,
            scenario=Scenario.from_json(document["scenario"]),
            reports=[Report(**report) for report in document["reports"]],
            events=list(parse((directory / TRACE).read_text())),
            background=(
                read_report(*(directory / name for name in BACKGROUND_REPORTS))
                if document["scenario"].get("background")
                else None
            ),
            ping=[(when - document["clock_offset"] - begin, took) for when, took in replies],
        )

    @property
    def window(self) -> tuple[float, float]:
        """The steady state: begin and end [s]."""
        return self.scenario.warmup_seconds, float(self.scenario.seconds)

    def goodput(self, number: int) -> list[float]:
        """The goodput of flow NUMBER up to each sample, in bits."""
        header, label = headers.ETHERNET + headers.SEGMENT, self.scenario.labels[number]
        sizes, packets = (self.columns[f"arrived_{what}"][label] for what in ("bytes", "packets"))
        return [8.0 * (size - header * n) for size, n in zip(sizes, packets, strict=True)]

    def carried(self) -> list[int]:
        """The bytes of the background that had arrived at each sample, with headers."""
        nothing = [0] * len(self.columns["time"])
        found: list[int] = self.columns["arrived_bytes"].get(BESIDE, nothing)
        return found


class Cut(NamedTuple):
    """A reduction of a window at a loss: the time, the packets before and after."""

    time: float
    before: int
    after: int


@dataclass(frozen=True)
class Window:
    """A flow's window over time: the points of a step function, and its cuts."""

    time: list[float]
    cwnd: list[int]
    cuts: list[Cut]


def follow_window(events: Iterable[WindowEvent | StateEvent], begin: float) -> Window:
    """The window of one connection, from its events."""
    curve: list[tuple[float, int]] = []
    left_out: tuple[float, int] | None = None  # the latest point, if it was left out
    cuts: list[Cut] = []
    cwnd: int | None = None
    held_down = False
    noticed: tuple[float, int] | None = None  # a loss: its time, and the window before it
    for event in events:
        when = round(event.time - begin, 4)
        if isinstance(event, StateEvent):
            before, held_down = held_down, event.state in HELD_DOWN
            if held_down and not before and cwnd:
                noticed = when, cwnd
            continue
        if event.phase == "loss":
            cuts.append(Cut(when, event.cwnd, event.ssthresh))
            curve += [(when, event.cwnd), (when, event.ssthresh)]
            left_out, cwnd = None, event.ssthresh
            continue
        if noticed:
            # During recovery tcp_probe has the exact threshold.  If recovery is already over, the
            # window itself is at the threshold, or restored: no cut.
            after = event.ssthresh if held_down else event.cwnd
            if after < noticed[1]:
                cuts.append(Cut(*noticed, after))
            noticed = None
        if event.cwnd != cwnd:
            point = when, event.cwnd
            if curve and too_close(curve[-1], point):
                left_out = point
            else:
                # A jump starts at the last window, even if that point was left out.
                curve += [left_out, point] if left_out else [point]
                left_out = None
        cwnd = event.cwnd
    curve += [left_out] if left_out else []
    return Window([when for when, _ in curve], [cwnd for _, cwnd in curve], cuts)


def too_close(point: tuple[float, int], other: tuple[float, int]) -> bool:
    """Is the OTHER point of a curve so close to one before that it is left out?"""
    return other[0] - point[0] < CURVE_STEP and abs(other[1] / point[1] - 1) < CURVE_JUMP


def windows(measurement: Measurement) -> list[Window]:
    """The window of each flow."""
    by_ports: dict[tuple[int, int], list[WindowEvent | StateEvent]] = {}
    for event in measurement.events:
        by_ports.setdefault((event.sport, event.dport), []).append(event)
    begin = measurement.document["begin"]
    flows = range(len(measurement.scenario.flows))
    return [follow_window(by_ports.get(ports(n), []), begin) for n in flows]


def flow_results(m: Measurement, of_windows: list[Window]) -> list[dict[str, Any]]:
    """The results of each flow."""
    first, last = m.window
    throughputs = [m.grown(m.goodput(n)) / (last - first) for n in range(len(m.scenario.flows))]
    everything = sum(throughputs)
    found = []
    for n, flow in enumerate(m.scenario.flows):
        window = of_windows[n]
        cuts = [cut for cut in window.cuts if first <= cut.time <= last]
        kept = [cut.after / cut.before for cut in cuts]
        mean = step_mean(window.time, window.cwnd, first, last)
        found.append(
            {
                "label": m.scenario.labels[n],
                "cc": flow.cc,
                "preset": flow.preset,
                "throughput_bps": round(throughputs[n]),
                "share": round(throughputs[n] / everything, 4) if everything else 0.0,
                "retransmits": m.reports[n].retransmits,
                "received_bytes": m.reports[n].received_bytes,
                "cwnd_mean": None if mean is None else round(mean, 1),
                "cuts": len(cuts),
                "cut_keeps": round(statistics.median(kept), 3) if kept else None,
            }
        )
    return found


def total_results(m: Measurement, flows: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of the bottleneck and of all flows together."""
    scenario = m.scenario
    throughputs = [flow["throughput_bps"] for flow in flows]
    first, last = m.window
    # The capacity beside the background.
    left = scenario.rate - 8 * m.grown(m.carried()) / (last - first)
    available = left * scenario.payload / scenario.frame
    delays = [1000 * 8 * size / scenario.rate for size in m.within("backlog_bytes").tolist()]
    pings = [took for when, took in m.ping if first <= when <= last]
    return {
        "throughput_bps": sum(throughputs),
        "available_bps": round(available),
        "fair_share_bps": round(available / len(flows)),
        "utilisation": round(m.used(scenario.rate), 4),
        "jain": round(jain(throughputs), 4),
        "drops": round(m.growth("drops")),
        "marks": round(m.growth("marks")),
        "loss": round(m.loss, 6),
        "retransmits": sum(flow["retransmits"] for flow in flows),
        "queue_delay_ms": {
            "mean": round(statistics.fmean(delays), 2),
            "p95": round(percentile(delays, 0.95), 2),
            "max": round(max(delays), 2),
            "full": round(
                1000 * 8 * scenario.buffer.bytes_at_most(scenario.frame) / scenario.rate, 2
            ),
        },
        "ping_ms": {"mean": round(statistics.fmean(pings), 2), "max": max(pings)}
        if pings
        else None,
    }


def background_results(m: Measurement) -> dict[str, Any] | None:
    """The results of the background; of its flows, those that began after the warm-up."""
    what, report = m.scenario.background, m.background
    if not what or not report:
        return None
    first, last = m.window
    begin, rate, mtu = m.document["begin"], m.scenario.rate, m.scenario.mtu
    if what.kind == FLOWS:
        flows = [flow for flow in report.flows if first <= flow.start - begin < last]
        offered = sum(what.wire_bytes(flow.size, mtu) for flow in flows)
        seconds = last - first
        details = flow_details(flows, counts_in_progress(m, first, last))
    else:
        # Whole ones: the source stops with the flows, within its last.
        bins = [b for b in report.bins if first <= b.start - begin and b.end - begin <= last]
        sent, received = (sum(getattr(b, name) for b in bins) for name in ("sent", "received"))
        offered = sent * what.wire_bytes(what.payload(mtu), mtu)
        seconds = sum(b.end - b.start for b in bins)
        details = {
            "packets": sent,
            "lost": sent - received,
            "delay_ms": {
                "mean": round(1000 * sum(b.delay for b in bins) / received, 3),
                "max": round(1000 * max(b.longest for b in bins), 3),
            }
            if received
            else None,
        }
    packets = details["packets"]
    return {
        "asked": what.fraction,
        "offered": round(8 * offered / seconds / rate, 4) if seconds else 0.0,
        "carried": round(8 * m.grown(m.carried()) / (last - first) / rate, 4),
        **details,
        "loss": round(details["lost"] / packets, 6) if packets else 0.0,
        "late_ms": {"mean": 1000 * report.late_mean, "max": 1000 * report.late_max},
    }


def flow_details(flows: list[FlowRecord], in_progress: list[float]) -> dict[str, Any]:
    """The number, durations and losses of the flows that began in a time."""
    ended = [flow for flow in flows if flow.took is not None]
    took = [1000 * flow.took for flow in ended if flow.took is not None]
    return {
        "flows": len(flows),
        "ended": len(ended),
        "in_progress": {"mean": round(statistics.fmean(in_progress), 2), "max": max(in_progress)},
        "completion_ms": {
            f"p{round(100 * share)}": round(percentile(took, share), 1)
            for share in (0.5, 0.95, 0.99)
        }
        if took
        else None,
        "packets": sum(flow.segments for flow in ended),
        "lost": sum(flow.lost or 0 for flow in ended),
        "retransmits": sum(flow.retransmits for flow in ended),
    }


def counts_in_progress(m: Measurement, first: float, last: float) -> list[float]:
    """The number of background flows in progress, at every tenth of a second."""
    assert m.background
    begin = m.document["begin"]
    starts = sorted(flow.start - begin for flow in m.background.flows)
    ends = sorted(f.start + f.took - begin for f in m.background.flows if f.took is not None)
    steps = round(10 * (last - first))
    moments = [first + n / 10 for n in range(steps)]
    return [float(bisect.bisect(starts, t) - bisect.bisect(ends, t)) for t in moments]


def background_series(
    m: Measurement, what: Background, edges: Sequence[float], step: float
) -> dict[str, Any]:
    """The background's curves: throughput and flows in progress, means over STEP seconds."""
    found: dict[str, Any] = {
        "bps": [round(8 * rate) for rate in rates(m.columns["time"], m.carried(), edges)]
    }
    if what.kind == FLOWS:
        counts = counts_in_progress(m, edges[0], edges[-1])
        each = round(10 * step)
        found["in_progress"] = [
            round(statistics.fmean(counts[n * each : (n + 1) * each]), 2)
            for n in range(len(edges) - 1)
        ]
    return found


def series(m: Measurement, of_windows: list[Window]) -> dict[str, Any]:
    """The curves of all plots."""
    scenario, c, times = m.scenario, m.columns, m.columns["time"]
    step = plot_interval(scenario.seconds)
    edges = [n * step for n in range(int(scenario.seconds / step) + 1)]
    shown = [n for n, t in enumerate(times) if 0 <= t <= scenario.seconds]
    pings = [(when, took) for when, took in m.ping if 0 <= when <= scenario.seconds]
    what = scenario.background
    return {
        "interval": step,
        "utilisation": [
            round(8 * rate / scenario.rate, 4) for rate in rates(times, c["sent_bytes"], edges)
        ],
        "background": background_series(m, what, edges, step) if what else None,
        "throughput": {
            "time": [round(edge + step / 2, 3) for edge in edges[:-1]],
            "bps": [
                [round(rate) for rate in rates(times, m.goodput(n), edges)]
                for n in range(len(scenario.flows))
            ],
        },
        "queue": {
            "time": [round(times[n], 4) for n in shown],
            "bytes": [c["backlog_bytes"][n] for n in shown],
            "packets": [c["backlog_packets"][n] for n in shown],
            "drops": [c["drops"][n] for n in shown],
        },
        "ping": {
            "time": [round(when, 4) for when, _ in pings],
            "ms": [took for _, took in pings],
        },
        "cwnd": [
            {"time": window.time, "packets": window.cwnd, "cuts": window.cuts}
            for window in of_windows
        ],
    }


def evaluate(m: Measurement) -> dict[str, Any]:
    """The results of a run, with its curves."""
    of_windows = windows(m)
    flows = flow_results(m, of_windows)
    return {
        "window_seconds": list(m.window),
        "flows": flows,
        "total": total_results(m, flows),
        "background": background_results(m),
        "series": series(m, of_windows),
    }
