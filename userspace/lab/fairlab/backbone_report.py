# SPDX-License-Identifier: GPL-2.0
"""What came of a run on the backbone: each flow's goodput beside the exact max-min rate.

Flows need some time to come to rest after others have come or gone: figures are of the times when
nothing has changed for SETTLE seconds.  A rate is of frames on the wire; what of it is goodput
depends on the headers, so the exact rate is turned into the goodput that it allows.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from fairlab import abilene, backbone, figures, results
from fairlab.backbone import FLOWS, UDP, Flow, Plan
from fairlab.headers import ETHERNET

SETTLE = 4.0  # seconds
TCP_HEADERS, UDP_HEADERS, UDP_PAYLOAD = 20 + 20 + 12, 20 + 8, 1400
COLOURS = {"slbn": "#D55E00", "drr_fq": "#0072B2", "pfifo": "#777777"}


def payload_part(flow: Flow) -> float:
    """Of a frame, what is goodput."""
    if flow.kind == UDP:
        return UDP_PAYLOAD / (UDP_PAYLOAD + UDP_HEADERS + ETHERNET)
    return (backbone.MTU - TCP_HEADERS) / (backbone.MTU + ETHERNET)


def at_rest(plan: Plan, when: float) -> bool:
    """Has nothing changed for a while, up to a second before WHEN?"""
    return all(not 0 <= when - change < SETTLE + 1 for change in backbone.changes(plan))


def evaluate(plan: Plan, data: dict[str, Any]) -> dict[str, Any]:
    """For each variant: each flow's mean goodput to the exact one, what agents told, the wires."""
    variants = {}
    for name, measured in data.items():
        found = []
        for n, flow in enumerate(FLOWS):
            part = payload_part(flow)
            got, due = [], []
            for when, goodput in measured["goodput"][n]:
                rates = backbone.exact(plan, when - 0.5)
                if at_rest(plan, when) and n in rates:
                    got.append(goodput)
                    due.append(rates[n] * part)
            told = [
                (rate, exact)
                for when, rate, exact in told_beside_exact(plan, measured, n)
                if at_rest(plan, when)
            ]
            found.append(
                {
                    "flow": flow.label,
                    "goodput": statistics.mean(got) if got else None,
                    "exact": statistics.mean(due) if due else None,
                    # Who uses less than it could is given room to grow.
                    "told_error": statistics.mean(abs(r / e - 1) for r, e in told)
                    if told and flow.kind != UDP
                    else None,
                }
            )
        variants[name] = {"flows": found, "wires": wires(plan, measured)}
    return variants


def told_beside_exact(
    plan: Plan, measured: dict[str, Any], n: int
) -> list[tuple[float, float, float]]:
    """What the agent held flow N to, twice a second, beside the exact rate."""
    events = [(when, rate) for when, number, rate in measured["rates"] if number == n]
    found = []
    current = 0
    for when in measured["times"]:
        while events and events[0][0] <= when:
            current = events.pop(0)[1]
        rates = backbone.exact(plan, when)
        if n in rates and current:
            found.append((when, float(current), rates[n]))
    return found


def wires(plan: Plan, measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Use (0 to 1) and queue (ms, 95 % are below) of each wire."""
    took = measured["times"][-1] - measured["times"][0]
    found = {}
    for wire, kept in measured["wires"].items():
        held = sorted(size * 8 / plan.rate * 1000 for size in kept["held"])
        found[wire] = {
            "use": (kept["sent"][-1] - kept["sent"][0]) * 8 / took / plan.rate,
            "queue_ms": held[int(0.95 * (len(held) - 1))],
            "drops": kept["drops"][-1] - kept["drops"][0],
        }
    return found


def error(flow: dict[str, Any]) -> float:
    """How far a flow's goodput is from the exact one."""
    return float(flow["goodput"] / flow["exact"] - 1)


def table(plan: Plan, variants: dict[str, Any]) -> str:
    names = list(variants)
    head = f"{'flow':15} {'exact':>7}" + "".join(f" {name:>16}" for name in names)
    lines = [f"{len(FLOWS)} flows on {len(abilene.NODES)} nodes, {plan.seconds} s", "", head]
    for n, flow in enumerate(FLOWS):
        rows = [variants[name]["flows"][n] for name in names]
        if not all(row["exact"] for row in rows):
            continue
        text = f"{flow.label:15} {rows[0]['exact'] / 1e6:7.3f}"
        for row in rows:
            text += f" {row['goodput'] / 1e6:7.3f} {100 * error(row):+6.1f} %"
        lines.append(text)
    lines.append("")
    for name in names:
        rows = [row for row in variants[name]["flows"] if row["exact"]]
        mean = statistics.mean(abs(error(row)) for row in rows)
        worst = max(abs(error(row)) for row in rows)
        used = [wire for wire in variants[name]["wires"].values() if wire["use"] > 0.05]
        queue = max(wire["queue_ms"] for wire in used)
        drops = sum(wire["drops"] for wire in used)
        lines.append(
            f"{name:8} off by {100 * mean:.1f} % (mean), {100 * worst:.1f} % (most); longest queue"
            f" {queue:.0f} ms (95 % of the time), {drops} packets lost"
        )
    if "slbn" in variants:
        told = [row["told_error"] for row in variants["slbn"]["flows"] if row["told_error"]]
        mean = statistics.mean(told) if told else 0
        lines.append(
            f"\nWhat slbnd told TCP's flows was off the exact rate by {100 * mean:.1f} % (mean)."
        )
    lines.append("(Mbit/s of goodput, at rest; exact: what the exact max-min rate allows)")
    return "\n".join(lines)


def draw(plan: Plan, data: dict[str, Any], directory: Path) -> list[Path]:
    """Each flow's goodput over time, against the exact rate, for all variants."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(figures.STYLE | {"font.size": 8}):
        figure = Figure(figsize=(12, 8), dpi=130, layout="constrained")
        axes = figure.subplots(4, 3, sharex=True, sharey=True).flat
        moments = [t / 4 for t in range(4 * plan.seconds)]
        due = [backbone.exact(plan, when) for when in moments]
        for n, (flow, axis) in enumerate(zip(FLOWS, axes, strict=True)):
            part = payload_part(flow)
            line = [rates[n] * part / 1e6 if n in rates else float("nan") for rates in due]
            axis.plot(moments, line, color="black", linewidth=1.2, label="exact max-min")
            for name, measured in data.items():
                points = measured["goodput"][n]
                axis.plot(
                    [when - 0.5 for when, _ in points],
                    [rate / 1e6 for _, rate in points],
                    color=COLOURS[name],
                    linewidth=1,
                    alpha=0.9,
                    label=name,
                )
            axis.set_title(flow.label, fontsize=8)
        figure.supxlabel("seconds", fontsize=9)
        figure.supylabel("goodput [Mbit/s]", fontsize=9)
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, ncol=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        paths = [directory / f"backbone.{ending}" for ending in ("png", "svg")]
        for path in paths:
            date = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=date, bbox_inches="tight")
    return paths


def store(directory: Path) -> dict[str, Any]:
    """Evaluate the raw data in DIRECTORY; leave result and figures there."""
    document = json.loads((directory / backbone.DATA).read_text())
    plan = Plan.from_json(document["plan"])
    data = document.pop("variants")
    found = document | {"variants": evaluate(plan, data)}
    (directory / results.RESULT).write_text(json.dumps(found) + "\n")
    draw(plan, data, directory)
    (directory / backbone.PLAN).unlink()
    return dict(found)
