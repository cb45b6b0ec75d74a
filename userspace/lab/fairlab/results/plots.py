# SPDX-License-Identifier: GPL-2.0
"""Figures of a result: throughput, cwnd, queue, background over time, as PNG and SVG.

They are drawn from result.json alone, so they can be drawn again and differently from stored data.

A congestion control has one colour in all figures, from the palette of Okabe and Ito, which
people with any colour vision can tell apart; several flows of one differ by the dashes of their
lines.  What a line is stands beside the plot, never on it.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError
from fairlab.results import store

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
GREY, BROWN = "#777777", "#8C510A"

FORMATS = ("png", "svg")
WIDTH, HEIGHT, PANEL_HEIGHT = 9.0, 4.4, 1.25
DPI = 150
MAX_PANELS = 10
SLOW_START_SHARE = 1 / 20  # of the time, at its beginning

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    # So that two drawings of the same data are the same file.
    "svg.hashsalt": "fairlab",
}


def require() -> None:
    """Can figures and pages be made here?  Known before a run, rather than after it."""
    for module in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(module) is None:
            raise CannotRunError(f"{module} is missing; install the package python3-{module}")


def note(
    axis: Any, words: str, at: tuple[float, float], by: tuple[float, float], **look: Any
) -> None:
    """Write WORDS beside the point AT, BY points away."""
    axis.annotate(words, at, by, textcoords="offset points", **{"fontsize": 9} | look)


def limit(axis: Any, low: float, high: float, values: Iterable[float], unit: str = "") -> None:
    """Limit the axis, and write how far VALUES are beyond it."""
    axis.set_ylim(low, high)
    every = [low, high, *values]
    least, most = min(every), max(every)
    words = [f"\N{UPWARDS ARROW} up to {most:,.0f}{unit}"] if most > high else []
    words += [f"\N{DOWNWARDS ARROW} down to {least:,.0f}{unit}"] if least < low else []
    corner = {"transform": axis.transAxes, "ha": "right", "va": "bottom", "fontsize": 7}
    axis.text(0.99, 0.04, ", ".join(words), **corner)


def looks(flows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Colour and dashes of each flow."""
    kinds: dict[tuple[str, str], int] = {}
    looks = []
    for flow in flows:
        kind = (flow["cc"], flow["preset"])
        kinds.setdefault(kind, 0)
        colour = COLOURS[list(kinds).index(kind) % len(COLOURS)]
        looks.append({"color": colour, "linestyle": DASHES[kinds[kind] % len(DASHES)]})
        kinds[kind] += 1
    return looks


def _new(result: dict[str, Any], height: float, panels: int = 1) -> tuple[Any, list[Any]]:
    """A figure with panels one above the other, and its title."""
    # Drawing is the only thing that needs matplotlib, which takes long to load.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
    bottom = axes[-1]
    bottom.set_xlabel("time (s)")
    bottom.set_xlim(0, result["scenario"]["seconds"])
    first, _ = result["window_seconds"]
    for axis in axes:
        axis.axvspan(0, first, color="#f3f3f3", zorder=0, linewidth=0)
    return figure, list(axes)


def _title(figure: Any, result: dict[str, Any], what: str) -> None:
    first, _ = result["window_seconds"]
    figure.suptitle(what, fontsize=12, fontweight="bold", x=0.01, ha="left")
    grey = f"grey: warm-up, the first {first:g} s, left out of means"
    where = "\n".join([*store.describe(result), grey])
    figure.axes[0].set_title(where, fontsize=8, color=GREY, loc="left")


def _finish(axis: Any, label: str, title: str, top: float | None = None) -> None:
    """LABEL the axis, from 0 to TOP, and put a legend beside the plot, from its top downwards."""
    axis.set_ylabel(label)
    axis.set_ylim(0, top)
    axis.legend(
        title=title, loc="upper left", bbox_to_anchor=(1.01, 1.02), alignment="left", borderpad=0
    )


def _mbits(
    axis: Any, times: list[float], bps: list[float], text: str, mean: float, **look: Any
) -> None:
    """A curve of rates, which the legend calls TEXT."""
    axis.plot(times, [value / 1e6 for value in bps], label=f"{text}  ({mean / 1e6:.1f})", **look)


def _level(axis: Any, value: float, text: str) -> None:
    """A dotted line, which the legend calls TEXT."""
    axis.axhline(value, color="black", linewidth=1, linestyle=":", label=f"{text}  ({value:.1f})")


def draw_throughput(result: dict[str, Any]) -> Any:
    """What each flow delivers, and what it would if all got the same."""
    figure, (axis,) = _new(result, HEIGHT)
    scenario, curve = result["scenario"], result["series"]["throughput"]
    times, every = curve["time"], curve["bps"]
    for flow, bps, look in zip(result["flows"], every, looks(result["flows"]), strict=True):
        _mbits(axis, times, bps, flow["label"], flow["throughput_bps"], linewidth=1.6, **look)
    if found := result.get("background"):
        bps, mean = result["series"]["background"]["bps"], found["carried"] * scenario["rate"]
        _mbits(axis, times, bps, "background", mean, linewidth=1.2, color=GREY)
    _level(axis, result["total"]["fair_share_bps"] / 1e6, "fair share")
    label = f"throughput (Mbit/s, means of {result['series']['interval']:g} s)"
    _finish(axis, label, "flow  (mean, Mbit/s)")
    _title(figure, result, f"Throughput: Jain's index {result['total']['jain']:.3f}")
    return figure


def _scale_past_slow_start(axis: Any, window: dict[str, Any], seconds: int) -> None:
    """Let all but the first burst fill the panel: beside that, the rest would be hard to see."""
    times, packets = window["time"], window["packets"]
    rest = [w for t, w in zip(times, packets, strict=True) if t >= SLOW_START_SHARE * seconds]
    axis.set_ylim(0, 1.15 * max(rest, default=max(packets)))


def draw_steps(axis: Any, window: dict[str, Any], end: float, **look: Any) -> None:
    """A flow's window, until END."""
    times, packets = window["time"], window["packets"]
    axis.plot(
        [*times, max(end, times[-1])],
        [*packets, packets[-1]],
        drawstyle="steps-post",
        linewidth=1.1,
        **look,
    )


def draw_cwnd(result: dict[str, Any]) -> Any:
    """The window of each flow: a panel with its own scale for each, or all in one if many."""
    flows, windows = result["flows"], result["series"]["cwnd"]
    together = len(flows) > MAX_PANELS
    height = HEIGHT if together else 1.1 + PANEL_HEIGHT * len(flows)
    figure, axes = _new(result, height, 1 if together else len(flows))
    end = result["scenario"]["seconds"]
    for n, (flow, window, look) in enumerate(zip(flows, windows, looks(flows), strict=True)):
        axis = axes[0 if together else n]
        if not window["time"]:
            continue
        dashes = look if together else look | {"linestyle": "-"}
        draw_steps(axis, window, end, label=flow["label"], **dashes)
        if not together:
            _scale_past_slow_start(axis, window, end)
            words = f"mean {flow['cwnd_mean']:.0f}\npeak {max(window['packets'])}"
            side = {"transform": axis.transAxes, "color": look["color"]}
            axis.text(1.01, 0.62, flow["label"], va="bottom", fontweight="bold", **side)
            axis.text(1.01, 0.55, words, va="top", fontsize=9, **side)
    if together:
        _finish(axes[0], "", "flow")
    figure.supylabel("congestion window (packets)", fontsize=10)
    _title(figure, result, "Congestion windows" + ("" if together else ", each on its own scale"))
    return figure


def draw_queue(result: dict[str, Any]) -> Any:
    """How long packets wait at the bottleneck."""
    figure, (axis,) = _new(result, HEIGHT)
    scenario, queue, ping = result["scenario"], result["series"]["queue"], result["series"]["ping"]
    to_ms = 8000 / scenario["rate"]
    delay = result["total"]["queue_delay_ms"]
    axis.plot(
        queue["time"],
        [size * to_ms for size in queue["bytes"]],
        color=COLOURS[0],
        linewidth=1.1,
        label=f"queue  (mean {delay['mean']:.1f})",
    )
    base = scenario["rtt"] / 1000
    axis.plot(
        ping["time"],
        [took - base for took in ping["ms"]],
        ".",
        color=COLOURS[1],
        markersize=3,
        label=f"ping, less {base:g}",
    )
    _level(axis, delay["full"], "buffer full")
    _finish(axis, "queue delay (ms)", "ms", 1.08 * max(delay["full"], delay["max"]))
    total = result["total"]
    _title(
        figure, result, f"Queue at the bottleneck: {100 * total['loss']:.3f} % of the packets lost"
    )
    return figure


def draw_background(result: dict[str, Any]) -> Any:
    """What the background gets through, and how many flows of it are in progress."""
    found, curves = result["background"], result["series"]["background"]
    rate = result["scenario"]["rate"]
    counted = "in_progress" in curves
    figure, axes = _new(result, HEIGHT, 2 if counted else 1)
    times = result["series"]["throughput"]["time"]
    look = {"color": COLOURS[0], "linewidth": 1.2}
    _mbits(axes[0], times, curves["bps"], "came through", found["carried"] * rate, **look)
    _level(axes[0], found["asked"] * rate / 1e6, "asked for")
    _finish(axes[0], "Mbit/s", "Mbit/s, with headers")
    if counted:
        mean = found["in_progress"]["mean"]
        axes[1].plot(
            times, curves["in_progress"], color=COLOURS[2], linewidth=1.2, label=f"mean {mean:.1f}"
        )
        _finish(axes[1], "flows in progress", "flows")
    _title(figure, result, f"Background: {100 * found['loss']:.3f} % of its packets lost")
    return figure


DRAWERS = {"throughput": draw_throughput, "cwnd": draw_cwnd, "queue": draw_queue}


def drawers(result: dict[str, Any]) -> dict[str, Any]:
    """What draws each figure that this result has."""
    more = {"background": draw_background} if result.get("background") else {}
    return DRAWERS | more


def draw(directory: Path, result: dict[str, Any]) -> list[Path]:
    """Draw all figures of a result into its directory; their files."""
    require()
    from matplotlib import rc_context

    files = []
    with rc_context(STYLE):
        for name, drawer in drawers(result).items():
            files += save(drawer(result), directory, name)
    return files


def save(figure: Any, directory: Path, name: str, **options: Any) -> list[Path]:
    """Write a figure in all FORMATS, without its date; the files."""
    files = [directory / f"{name}.{form}" for form in FORMATS]
    for path in files:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, **options)
    return files
