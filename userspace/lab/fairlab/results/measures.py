# SPDX-License-Identifier: GPL-2.0
"""The measures of a test case (model/testbed.py), from the outcome of its run.

    goodput         acknowledged bytes of TCP flows, without headers, retransmissions once
    throughput      all bytes of a flow's or program's direction behind the bottleneck, with headers
    utilization     of the bottleneck, of the rates that it had
    loss, marked    of the bottleneck's packets, those that it dropped, or marked by ECN
    retransmitted   of the segments with data, the retransmissions
    share           goodput of the named flows, of that of all flows
    queue_delay     the time that the bottleneck's waiting bytes take at its rate
    rtt             TCP's smoothed round-trip times
    completion      the time that a flow with a size, or a program, takes; not ended: none
    jain            Jain's index of the goodputs

Without a window, they are of the steady state; completion is always of the whole run.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model.experiment import UDP
from fairlab.model.testbed import FLOWS_ONLY, MEASURES, PART, PLAIN, RATE, TIME, Case, Limit
from fairlab.results import statistics
from fairlab.results.outcome import Outcome

SAMPLES, FLOWS = "samples.csv", "flows.csv"
#: How values are shown: a factor, and a unit.
SHOWN = {RATE: (1e-6, " Mbit/s"), TIME: (1e3, " ms"), PART: (100.0, " %"), PLAIN: (1.0, "")}


@dataclass(frozen=True)
class Flow:
    """A flow: its report, and its samples with its start and its end."""

    report: Mapping[str, Any]
    rows: Any

    def grown(self, column: str, begin: float, end: float) -> float:
        """The growth of a counter between two times [s]."""
        import numpy

        times = [self.report["began"], *(self.rows["time"] / 1e9)]
        values = [0, *self.rows[column]]
        if column in self.report:
            times.append(max(self.report["ended"], times[-1]))
            values.append(self.report[column])
        first, last = numpy.interp((begin, end), times, values)
        return float(last - first)


def flows(case: Case, seen: Outcome, who: str = "") -> list[Flow]:
    """The TCP flows, or those of a name."""
    found = []
    for group, name in case.names.items():
        if who not in ("", name) or group not in seen.heads:
            continue
        rows = seen.rows[group]
        for n, report in enumerate(seen.heads[group]["flows"]):
            if report["kind"] != UDP:
                found.append(Flow(report, rows[rows["flow"] == n]))
    return found


def statistic(values: Any, name: str) -> float | None:
    """A statistic of values; None if there are none, or if one that counts does not exist."""
    import numpy

    if not len(values):
        return None
    if name.startswith("p"):
        # The smallest value that so many percent do not exceed: it exists, unlike a mean of two.
        found = float(numpy.percentile(values, int(name[1:]), method="inverted_cdf"))
    else:
        found = float(getattr(numpy, name)(values))
    return found if numpy.isfinite(found) else None


def capacity(seen: Outcome, begin: float, end: float) -> float:
    """The bits that the bottleneck could send between two times."""
    rates = [*seen.what.rates(), (seen.what.seconds, 0)]
    return sum(
        rate * max(0.0, min(end, until) - max(begin, since))
        for (since, rate), (until, _) in pairwise(rates)
    )


def queue_delays(seen: Outcome) -> Iterator[float]:
    """The queueing delay at each sample [s]."""
    rates = seen.what.rates()
    for when, size in zip(seen.columns["time"], seen.columns["backlog_bytes"], strict=True):
        rate = next(rate for since, rate in reversed(rates) if since <= max(0.0, when))
        yield 8 * size / rate


def completions(case: Case, seen: Outcome, who: str) -> list[float]:
    """The time that each flow with a size and each program takes [s]; infinite: it did not end."""
    never = float("inf")
    found = []
    for group in seen.what.groups:
        if who not in ("", case.names[group.name]):
            continue
        if group.program:
            ended = seen.document["own"][f"{group.name}-client"]["ended"]
            found.append(never if ended is None else ended - group.program.start)
        elif group.streams[0].size:
            for one in seen.heads[group.name]["flows"]:
                found.append(one["ended"] - one["began"] if "lost" in one else never)
    return found


def measure(case: Case, seen: Outcome, limit: Limit) -> float | None:
    """The value that LIMIT is about, in bit/s, s or as a fraction; None: there is none."""
    import numpy

    begin = seen.window[0] if limit.begin is None else limit.begin
    end = seen.window[1] if limit.end is None else limit.end
    took = end - begin
    name, which = limit.measure, limit.statistic
    if name in FLOWS_ONLY:
        chosen = flows(case, seen, limit.who)
        goodputs = [8 * flow.grown("acked", begin, end) / took for flow in chosen]
    times = numpy.asarray(seen.columns["time"])
    inside = (times >= begin) & (times <= end)
    match name:
        case "goodput":
            return statistic(goodputs, which or "sum")
        case "share":
            everybody = [8 * f.grown("acked", begin, end) / took for f in flows(case, seen)]
            return sum(goodputs) / sum(everybody) if sum(everybody) else None
        case "jain":
            return statistics.jain(goodputs) if any(goodputs) else None
        case "retransmitted":
            sent = sum(flow.grown("segments", begin, end) for flow in chosen)
            again = sum(flow.grown("retransmits", begin, end) for flow in chosen)
            return again / sent if sent else None
        case "rtt":
            found = []
            for flow in chosen:
                when = flow.rows["time"] / 1e9
                found += list(flow.rows["rtt"][(when >= begin) & (when <= end)] / 1e6)
            return statistic(found, which)
        case "completion":
            return statistic(completions(case, seen, limit.who), which)
        case "queue_delay":
            return statistic(numpy.asarray(list(queue_delays(seen)))[inside], which)
        case "utilization":
            return 8 * seen.growth("sent_bytes", begin, end) / capacity(seen, begin, end)
        case "throughput":
            group = next(group for group, name in case.names.items() if name == limit.who)
            values = numpy.asarray(seen.columns["arrived_bytes"][group], dtype=float)
            first, last = numpy.interp((begin, end), times, values)
            return float(8 * (last - first) / took)
    drops, sent = (seen.growth(column, begin, end) for column in ("drops", "sent_packets"))
    if name == "loss":
        return drops / (drops + sent) if drops + sent else None
    return seen.growth("marks", begin, end) / sent if sent else None


def show(name: str, value: float | None) -> str:
    """A value of the measure NAME with its unit."""
    if value is None:
        return "none"
    scale, unit = SHOWN[MEASURES[name]]
    return f"{scale * value:.4g}{unit}"


def own_failures(case: Case, seen: Outcome) -> list[str]:
    """The programs that failed, each with its exit status."""
    found = []
    for name, end in seen.document["own"].items():
        group, _, side = name.rpartition("-")
        if end["status"]:
            found.append(f"{side} of {case.names[group]}: exit status {end['status']}")
    return found


def write_tables(case: Case, seen: Outcome, directory: Path) -> None:
    """Write the samples of queues and flows in DIRECTORY, as CSV."""
    c = seen.columns
    arrived = {f"arrived_bytes_{case.names[g]}": kept for g, kept in c["arrived_bytes"].items()}
    kept = {
        "time_s": c["time"],
        **{
            name: c[name]
            for name in ("sent_bytes", "sent_packets", "backlog_bytes", "drops", "marks")
        },
        "queue_delay_ms": [round(1000 * delay, 3) for delay in queue_delays(seen)],
        **arrived,
    }
    with (directory / SAMPLES).open("w", newline="") as file:
        csv.writer(file).writerows([kept.keys(), *zip(*kept.values(), strict=True)])
    columns = ("acked", "cwnd", "ssthresh", "rtt", "segments", "retransmits")
    with (directory / FLOWS).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("time_s", "flow", "number", *columns))
        for group, name in case.names.items():
            for row in seen.rows.get(group, ()):
                values = (int(row[column]) for column in columns)
                writer.writerow((int(row["time"]) / 1e9, name, int(row["flow"]), *values))
