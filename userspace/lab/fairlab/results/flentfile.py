# SPDX-License-Identifier: GPL-2.0
"""Storing a run as a data file of Flent, to plot and compare it with Flent's tools.

The flows of a run become Flent's test `tcp_nup`: N TCP uploads and a ping.  All of that test's
plots work (`flent -i FILE -p upload_with_ping`); tcp_cwnd shows the windows, too.
"""

import bisect
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fairlab.model.qdisc import BOTTLENECK

FILE_FORMAT = 4  # of Flent's data files
# The version of Flent that writes this format.
FLENT_VERSION = "2.1.1"
TEST = "tcp_nup"


def _at(times: list[float], values: list[Any], when: float) -> Any:
    """The value of a step function at WHEN, or None before its first."""
    n = bisect.bisect_right(times, when)
    return values[n - 1] if n else None


def _egress(result: dict[str, Any]) -> dict[str, Any]:
    """The bottleneck's qdisc, in Flent's format for those of an interface."""
    queue = next(q for q in result["queues"] if q["link"] == BOTTLENECK)
    shown = queue["shown"]
    words = {name: str(value) for name, value in shown.get("options", {}).items()}
    qdisc = {"name": shown["kind"], "id": shown["handle"], "parent": shown["parent"]}
    return {"iface": queue["interface"], "qdiscs": [qdisc | {"params": words}]}


def document(result: dict[str, Any], note_more: str = "") -> dict[str, Any]:
    """The result of a run in Flent's format, with NOTE_MORE added to its note."""
    import numpy

    scenario, curves = result["scenario"], result["series"]
    begin = datetime.fromisoformat(result["date"]).astimezone(UTC)
    step = curves["interval"]
    x_values: list[float] = curves["throughput"]["time"]
    labels = [flow["label"] for flow in result["flows"]]
    names = [f"TCP upload::{n}" for n in range(1, len(labels) + 1)]

    mbits = [[bps / 1e6 for bps in column] for column in curves["throughput"]["bps"]]
    sums = [sum(row) for row in zip(*mbits, strict=True)]
    ping = curves["ping"]
    results: dict[str, list[Any]] = dict(zip(names, mbits, strict=True))
    results["TCP upload sum"] = sums
    results["TCP upload avg"] = [total / len(labels) for total in sums]
    # Flent stores null where no value was measured.
    nothing = [None] * len(x_values)
    at = numpy.interp(x_values, ping["time"], ping["ms"]).tolist() if ping["time"] else nothing
    results["Ping (ms) ICMP"] = at

    def stamp(x: float) -> float:
        return (begin + timedelta(seconds=x)).timestamp()

    raw: dict[str, list[dict[str, Any]]] = {}
    for name, column, window in zip(names, mbits, curves["cwnd"], strict=True):
        raw[name] = [
            {"t": stamp(x), "val": value} for x, value in zip(x_values, column, strict=True)
        ]
        for x, point in zip(x_values, raw[name], strict=True):
            cwnd = _at(window["time"], window["packets"], x)
            if cwnd is not None:
                point["tcp_cwnd"] = cwnd
    raw["Ping (ms) ICMP"] = [
        {"t": stamp(x), "val": took} for x, took in zip(ping["time"], ping["ms"], strict=True)
    ]

    meta: dict[str, dict[str, Any]] = {name: {"UNITS": "Mbits/s"} for name in results}
    meta["Ping (ms) ICMP"] = {"UNITS": "ms"}
    for name, flow in zip(names, result["flows"], strict=True):
        meta[name] |= {
            "MEAN_VALUE": flow["throughput_bps"] / 1e6,
            "FLOW": flow["label"],
            "CONG_CONTROL": flow["cc"],
        }
    note = f"fairlab {result['fairlab']}"
    when = begin.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    metadata = {
        "NAME": TEST,
        "TITLE": f"{scenario['topology']} {', '.join(labels)}",
        "NOTE": f"{note}; {note_more}" if note_more else note,
        "EGRESS_INFO": _egress(result),
        "TIME": when,
        "T0": when,
        "HOST": "d1",
        "HOSTS": ["d1"],
        "LOCAL_HOST": "s1",
        "IP_VERSION": 4,
        "LENGTH": scenario["seconds"],
        "TOTAL_LENGTH": scenario["seconds"],
        "STEP_SIZE": step,
        "TEST_PARAMETERS": {"upload_streams": str(len(labels))},
        "FLENT_VERSION": FLENT_VERSION,
        "KERNEL_NAME": "Linux",
        "KERNEL_RELEASE": result["kernel"]["release"],
        "SERIES_META": meta,
    }
    return {
        "version": FILE_FORMAT,
        "metadata": metadata,
        "x_values": x_values,
        "results": results,
        "raw_values": raw,
    }


def write(result: dict[str, Any], path: Path, note_more: str = "") -> None:
    """Store the result of a run for Flent; PATH ends in .flent.gz."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(document(result, note_more), file, indent=1, sort_keys=True)
