# SPDX-License-Identifier: GPL-2.0
"""Several stored results side by side: a column each, with the same scales.

The upper row has the window of each flow, the lower one the utilisation of the link, in total and
by the background, as in the fair queueing study (Roberts, Augé 2005).  The title has the parameters
that all runs share, the headings those that differ.
"""

from pathlib import Path
from typing import Any

from fairlab.model import units
from fairlab.model.errors import UsageError
from fairlab.model.qdisc import BOTTLENECK
from fairlab.model.scenario import Scenario
from fairlab.results import plots

MOST = 4
COLUMN_WIDTH, HEIGHT = 4.6, 5.6


def _parts(result: dict[str, Any]) -> dict[str, str]:
    """The parameters of a run as texts, by name."""
    s = result["scenario"]
    queue = next(q for q in result["queues"] if q["link"] == BOTTLENECK)
    beside = Scenario.from_json(s).background
    return {
        "flows": ", ".join(flow["label"] for flow in result["flows"]),
        "qdisc": queue["asked"],
        "rate": units.format_rate(s["rate"]),
        "rtt": f"rtt {units.format_time(s['rtt'])}",
        "mtu": f"mtu {s['mtu']}",
        "background": f"background {beside}" if beside else "",
        "kernel": f"Linux {result['kernel']['release']}",
    }


def _outcome(result: dict[str, Any]) -> str:
    """The main results of a run, in lines."""
    total, found = result["total"], result.get("background")
    lines = [f"link busy {100 * total['utilisation']:.1f} %"]
    if found:
        used = total["throughput_bps"] / total["available_bps"]
        lines = [
            f"flows use {100 * used:.0f} % of the capacity beside the background",
            f"background loses {found['lost']} of {found['packets']} packets"
            f" ({100 * found['loss']:.3g} %)",
        ]
    return "\n".join(lines)


def check(result: dict[str, Any]) -> None:
    """Read all of RESULT that is drawn, so that what it lacks raises an error."""
    _parts(result)
    _outcome(result)
    for curve in ("cwnd", "throughput", "utilisation", "background"):
        result["series"][curve]


def _draw_windows(axis: Any, result: dict[str, Any]) -> None:
    end = result["scenario"]["seconds"]
    for flow, window, look in zip(
        result["flows"], result["series"]["cwnd"], plots.looks(result["flows"]), strict=True
    ):
        if window["time"]:
            plots.draw_steps(axis, window, end, label=flow["label"], **look)


def _draw_use(axis: Any, result: dict[str, Any]) -> None:
    times = result["series"]["throughput"]["time"]
    axis.plot(times, result["series"]["utilisation"], color="black", linewidth=1.2, label="all")
    curves = result["series"]["background"]
    if curves:
        share = [bps / result["scenario"]["rate"] for bps in curves["bps"]]
        axis.plot(times, share, color=plots.GREY, linewidth=1.2, label="background")


def figure(found: list[dict[str, Any]]) -> Any:
    """The figure that compares the results."""
    from matplotlib.figure import Figure

    if not 2 <= len(found) <= MOST:
        raise UsageError(f"{len(found)} results: 2 to {MOST} can be compared")
    parts = [_parts(result) for result in found]
    shared = [name for name in parts[0] if len({part[name] for part in parts}) == 1]
    drawing = Figure(
        figsize=(COLUMN_WIDTH * len(found), HEIGHT), dpi=plots.DPI, layout="constrained"
    )
    axes = drawing.subplots(2, len(found), sharex="col", sharey="row", squeeze=False)
    for n, result in enumerate(found):
        upper, lower = axes[0][n], axes[1][n]
        heading = "; ".join(text for name, text in parts[n].items() if name not in shared and text)
        upper.set_title(heading, fontsize=10, fontweight="bold", loc="left")
        _draw_windows(upper, result)
        _draw_use(lower, result)
        lower.set_title(_outcome(result), fontsize=8.5, color=plots.GREY, loc="left")
        lower.set_xlabel("time (s)")
        lower.set_xlim(0, result["scenario"]["seconds"])
        for axis in (upper, lower):
            axis.axvspan(0, result["window_seconds"][0], color="#f3f3f3", zorder=0, linewidth=0)
    axes[0][0].set_ylabel("congestion window (packets)")
    axes[0][0].set_ylim(bottom=0)
    axes[1][0].set_ylabel("use of the link")
    axes[1][0].set_ylim(0, 1.05)
    axes[0][-1].legend(loc="upper right")
    axes[1][-1].legend(loc="lower right", ncols=2)
    title = ", ".join(parts[0][name] for name in shared if parts[0][name])
    drawing.suptitle(title, fontsize=9, color=plots.GREY, x=0.01, ha="left")
    return drawing


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Draw results into a file, in the format of its ending."""
    from matplotlib import rc_context

    if path.suffix not in (".png", ".svg"):
        raise UsageError(f"{path}: must end in .png or .svg")
    with rc_context(plots.STYLE):
        drawing = figure(found)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            drawing.savefig(path, metadata=metadata)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
