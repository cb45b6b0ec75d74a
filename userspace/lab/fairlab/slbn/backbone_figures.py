# SPDX-License-Identifier: GPL-2.0
"""Figures of a run on the backbone.

rates      with SLBN: each flow's assigned rate and goodput, with its max-min rate
variants   with SLBN and without, side by side: each flow's goodput relative to max-min, and
           utilisation and queues of the busiest links

Goodput is drawn with headers added, so that it compares with rates.
"""

from pathlib import Path
from typing import Any

from fairlab.results import plots
from fairlab.results.plots import COLOURS, GREY
from fairlab.slbn.backbone import FLOWS, Flow, Plan
from fairlab.slbn.backbone_analysis import Run
from fairlab.slbn.experiment import UDP

TITLES = {
    "slbn": "SLBN over FIFOs",
    "fq_codel": "fq_codel",
    "drr_fq": "drr_fq alone",
    "pfifo": "pfifo",
}
LINE, ASSIGNED, GOT = "#c9c9c9", COLOURS[0], COLOURS[1]
LEAST, MOST = 0.05, 5.0  # relative to max-min


def draw(plan: Plan, runs: dict[str, Run], directory: Path) -> list[Path]:
    """All figures, as PNG and SVG."""
    import matplotlib as mpl

    paths = []
    with mpl.rc_context(plots.STYLE | {"font.size": 9}):
        if "slbn" in runs:
            figure = rates(runs["slbn"])
            paths += plots.save(figure, directory, "rates", bbox_inches="tight")
        paths += plots.save(variants(plan, runs), directory, "variants", bbox_inches="tight")
    return paths


def name_of(flow: Flow) -> str:
    return f"{flow.source} → {flow.destination}, {flow.kind.upper()}"


def label_of(wire: str) -> str:
    """A link's name, with a number if it is a parallel one."""
    a, b, *number = wire.replace("a-", "access ").split(".")
    return " ".join([f"{a} → {b}", *(f"({n})" for n in number)])


def mark_changes(plan: Plan, axis: Any) -> None:
    for flow in FLOWS:
        for part in flow.parts:
            for when in plan.times(part):
                if 0 < when < plan.seconds:
                    axis.axvline(when, color="#e4e4e4", linewidth=0.8, zorder=0)


def rates(run: Run) -> Any:
    """A panel for each flow: max-min rate, assigned rate, goodput."""
    from matplotlib.figure import Figure

    plan = run.plan
    figure = Figure(figsize=(9, 8), dpi=110, layout="constrained")
    axes = figure.subplots(len(FLOWS) // 2, 2, sharex=True, sharey=True)
    for number, (flow, axis) in enumerate(zip(FLOWS, axes.flat, strict=True)):
        axis.grid(visible=False, axis="x")
        mark_changes(plan, axis)
        times: list[float] = []
        due: list[float] = []
        assigned: list[float] = []
        for begin, end, now in run.assigned.steps(0, plan.seconds):
            times += [begin, end]
            due += [run.reference.at(begin).get(number, float("nan")) / 1e6] * 2
            assigned += [(now.get(number) or float("nan")) / 1e6] * 2
        axis.plot(times, due, color=LINE, linewidth=5, solid_capstyle="butt", label="exact max-min")
        axis.plot(times, assigned, color=ASSIGNED, linewidth=1.1, label="assigned by slbnd")
        points = [
            ((begin + end) / 2, rate / flow.payload_part / 1e6)
            for begin, end, rate in run.measured["goodput"][number]
        ]
        axis.plot(
            [when for when, _ in points],
            [rate for _, rate in points],
            color=GOT,
            marker="o",
            markersize=2.6,
            linestyle="none",
            label="received, each second",
        )
        axis.set_title(name_of(flow), fontsize=9, loc="left", fontweight="bold")
    axes[0, 0].set_xlim(0, plan.seconds)
    axes[0, 0].set_ylim(0, 1.15 * plan.rate / 1e6)
    figure.supxlabel("time (s)", fontsize=9)
    figure.supylabel("Mbit/s", fontsize=9)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, ncol=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def busiest(run: Run) -> list[str]:
    """On each flow's path, the busiest link, except for the access router's own."""

    def sent(wire: str) -> int:
        column: list[int] = run.measured["wires"][wire]["sent"]
        return column[-1] - column[0]

    return sorted({max(path[1:], key=sent) for path in run.paths.there})


def looks() -> list[dict[str, Any]]:
    """Colour and dashes of each flow: a colour for each kind."""
    found = plots.looks([{"cc": flow.kind, "preset": ""} for flow in FLOWS])
    grey = {"color": GREY}
    return [
        look | grey if flow.kind == UDP else look for flow, look in zip(FLOWS, found, strict=True)
    ]


def variants(plan: Plan, runs: dict[str, Run]) -> Any:
    """A column for each variant: goodput relative to max-min, utilisation, queues."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(3.1 * len(runs) + 2, 7.2), dpi=110, layout="constrained")
    axes = figure.subplots(3, len(runs), sharex=True, sharey="row", squeeze=False)
    wires = busiest(next(iter(runs.values())))
    for column, (name, run) in enumerate(runs.items()):
        measured = run.measured
        fair, use, queue = axes[:, column]
        for flow, look, points, number in zip(
            FLOWS, looks(), measured["goodput"], range(len(FLOWS)), strict=True
        ):
            shown = [
                ((begin + end) / 2, max(LEAST, rate / flow.payload_part / due))
                for begin, end, rate in points
                if (due := run.used(number, begin, run.every_link.mean(number, begin, end)))
            ]
            fair.plot(*zip(*shown, strict=True), linewidth=1.1, label=name_of(flow), **look)
        times = measured["times"]
        for wire, colour in zip(wires, COLOURS[2:], strict=False):
            kept = measured["wires"][wire]
            windows = run.use(wire)
            label = label_of(wire)
            use.plot(times[-len(windows) :], windows, color=colour, linewidth=1.1, label=label)
            held = [8000 * size / plan.rate for size in kept["held"]]
            queue.plot(times, held, color=colour, linewidth=1.1, label=label)
        if run.variant.slbn:
            most = run.variant.capacity(plan.rate) / plan.rate
            use.axhline(most, color=GREY, linewidth=0.8, linestyle=":", label="assigned, at most")
        for axis in (fair, use, queue):
            axis.grid(visible=False, axis="x")
            mark_changes(plan, axis)
        fair.set_title(TITLES[name], fontsize=10, fontweight="bold")
    left = axes[:, 0]
    left[0].set_yscale("log")
    left[0].set_ylim(LEAST, MOST)
    left[0].set_yticks(
        [0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["5 %", "10 %", "20 %", "50 %", "100 %", "200 %", "500 %"]
    )
    left[0].set_ylabel("goodput / max-min rate")
    left[1].yaxis.set_major_formatter(PercentFormatter(1))
    left[1].set_ylim(0, 1.05)
    left[1].set_ylabel("use of links, 1 s")
    left[2].set_ylabel("queues of links (ms)")
    left[2].set_ylim(bottom=0)
    left[2].set_xlim(0, plan.seconds)
    for row in (0, 1):
        handles = axes[row, 0].get_legend_handles_labels()
        axes[row, -1].legend(*handles, loc="upper left", bbox_to_anchor=(1.02, 1), fontsize=8)
    figure.supxlabel("time (s)", fontsize=9)
    return figure
