# SPDX-License-Identifier: GPL-2.0
"""The result of a bench as a table (Markdown) and a figure (PNG, SVG), from its data alone.

Run as a program with the data's path, it writes them anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Okabe and Ito's colours, which people with any colour vision can tell apart.
LOOKS: dict[str, dict[str, Any]] = {
    "drr_fq": {"color": "#D55E00", "linewidth": 2.6},
    "drr_fq rr": {"color": "#D55E00", "linestyle": (0, (5, 1.5))},
    "drr_fq scfq": {"color": "#D55E00", "linestyle": (0, (1.5, 1.2))},
    "pfifo": {"color": "#777777"},
    "sfq": {"color": "#009E73"},
    "fq_codel": {"color": "#0072B2", "linewidth": 2.0},
    "fq_codel 1024": {"color": "#0072B2", "linestyle": (0, (5, 1.5))},
    "fq": {"color": "#56B4E9"},
    "cake": {"color": "#CC79A7"},
    "drr + filter": {"color": "#E69F00"},
}
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    # So that two drawings of the same data are the same file.
    "svg.hashsalt": "fairpath",
}
KINDS = {
    "short": "short queues",
    "long": "long queues",
    "overload": "overload: each packet that comes costs one",
}
COME = {False: "without a hash, as in a router", True: "with their hash, as from this host"}
REFERENCE, OURS = "fq_codel", "drr_fq"
LEAST = 2.0  # nanoseconds; what is less is drawn as this


class Result:
    """The data, by candidate, flows, kind and whether packets come with their hash."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.points = {
            (point["candidate"], point["flows"], point["load"], point["hashed"]): point
            for point in data["points"]
        }
        self.flows = list(dict.fromkeys(point["flows"] for point in data["points"]))
        self.names = [candidate["name"] for candidate in data["candidates"]]

    def cost(self, name: str, flows: int, kind: str, hashed: bool) -> float:
        return float(self.points[name, flows, kind, hashed]["nanoseconds"]["median"])

    def ratio(self, name: str, flows: int, kind: str, hashed: bool) -> float:
        return float(self.points[name, flows, kind, hashed]["ratio"]["median"])


def here(known: dict[str, Any], *more: str) -> str:
    """The conditions of what was measured on this machine: a line."""
    made = "; ".join([f"{known['date']}, fairpath {known['project']}", *more, known["processor"]])
    cpus, load = known["processors"], known["load"][0]
    return f"{made}, {cpus} CPUs, Linux {known['host']}, load {load:.1f} at the start."


def inside(known: dict[str, Any]) -> list[str]:
    """Of what was measured in a kernel that is a program: lines of a list."""
    return [
        f"- {known['date']}, fairpath {known['project']}, Linux {known['kernel']} as a program"
        f" (User-Mode Linux, native code, one CPU) built from {known['source']} with"
        f" `userspace/vm/fairvm/uml.config` and {known['compiler']}; {known['iproute2']}.",
        f"- {known['processor']}, {known['processors']} CPUs, host Linux {known['host']}, load"
        f" {known['load'][0]:.1f} at the start.",
    ]


def table(result: Result, kind: str, hashed: bool) -> list[str]:
    lines = ["| | " + " | ".join(f"{flows:,}" for flows in result.flows) + " |"]
    lines.append("| --- |" + " ---: |" * len(result.flows))
    for name in result.names:
        cells = []
        for flows in result.flows:
            nanoseconds = result.points[name, flows, kind, hashed]["nanoseconds"]
            half = (nanoseconds["high"] - nanoseconds["low"]) / 2
            text = f"{nanoseconds['median']:.0f} ± {half:.0f}"
            if name != REFERENCE:
                text += f" ({result.ratio(name, flows, kind, hashed):.2f})"
            cells.append(text)
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


def aims(result: Result) -> list[str]:
    """What was aimed at, beside what came out."""
    if OURS not in result.names or REFERENCE not in result.names:
        return []
    ratios = {
        (point["flows"], point["load"], point["hashed"]): float(point["ratio"]["median"])
        for point in result.data["points"]
        if point["candidate"] == OURS
    }
    (flows, kind, hashed), worst = max(ratios.items(), key=lambda item: item[1])
    lines = [
        f"- `{OURS}` to `{REFERENCE}`: at most {worst:.2f} ({KINDS[kind].partition(':')[0]},"
        f" {flows:,} flows, packets {COME[hashed]}); the aim is below 1."
    ]
    most = result.flows[-1]
    full = max(ratios[most, "overload", hashed] for hashed in (False, True))
    lines.append(
        f"- In overload with {most:,} flows: {full:.2f} of `{REFERENCE}`; the aim is 0.25."
    )
    if len(result.flows) > 1:
        first = result.flows[1] if len(result.flows) > 2 else result.flows[0]
        for kind in ("short", "long"):
            growth = {
                name: result.cost(name, most, kind, False) / result.cost(name, first, kind, False)
                for name in (OURS, REFERENCE, "pfifo")
                if name in result.names
            }
            text = ", ".join(f"`{name}` {value:.1f}" for name, value in growth.items())
            lines.append(
                f"- From {first:,} to {most:,} flows, {KINDS[kind]}, the cost grows by a factor of:"
                f" {text}; the aim is 1."
            )
    return lines


def text(result: Result) -> str:
    data, known = result.data, result.data["conditions"]
    lines = [
        "# What a packet costs",
        "",
        "Nanoseconds for one packet to be queued and sent (in overload: queued, and another one"
        " dropped for it), and in brackets the ratio to `fq_codel` in the same turn."
        " ± is half of what lies between the quartiles of the"
        f" {data['turns']} turns. `make bench` measures it again; `tests/bench/measure.py`"
        " says how, and what it checks before it believes a figure.",
        "",
        "![cost per packet over the number of flows](bench-drr_fq.png)",
        "",
    ]
    lines += aims(result)
    for kind, title in KINDS.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        if kind == "short":
            lines.append("Three packets of each flow are queued (a hundred of a single one).")
        elif kind == "long":
            lines.append(
                "30,000 packets are queued, of however many flows. They are no longer in the"
                " CPU's caches when their turn comes: what `pfifo` costs here is that."
            )
        else:
            lines.append("The same long queue at its limit. Nothing is sent meanwhile.")
        for hashed in (False, True):
            come = (
                "with their hash, as from this host" if hashed else "without a hash, as in a router"
            )
            lines += ["", f"Backlogged flows; packets {come}:", "", *table(result, kind, hashed)]
    lines += ["", "## Conditions", ""]
    clock = data["clock"]["median"]
    loops = [point["loop"]["median"] for point in data["points"]]
    lines += [
        *inside(known),
        f"- UDP over IPv4, {data['length']} bytes each, quanta of as much. {data['turns']} turns of"
        f" {data['slices']} slices of {data['slice']} packets; the value of a turn is the median of"
        f" its slices less that of the loop without a qdisc ({min(loops):.0f} to {max(loops):.0f}"
        " ns), which lets a qdisc that hardly touches a packet come out below 0. Packets are"
        " neither made nor freed in it.",
        f"- Reading the clock takes {clock:.0f} ns here (a vDSO call); `fq_codel`, `fq` and `cake`"
        " read it twice for a packet that is sent, the others never.",
        "- One CPU, so locks cost nothing, to any of them.",
        "",
        "| | set up as (1,000 flows, long queues) | |",
        "| --- | --- | --- |",
    ]
    for candidate in data["candidates"]:
        lines.append(
            f"| `{candidate['name']}` | `{candidate['options']}` | {candidate['remark']} |"
        )
    return "\n".join(lines) + "\n"


def draw(result: Result, path: Path) -> None:
    import matplotlib as mpl  # takes long to load
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 4.6), dpi=150, layout="constrained")
        axes = figure.subplots(1, len(KINDS), sharey=True)
        for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
            for name in result.names:
                costs = [max(result.cost(name, n, kind, False), LEAST) for n in result.flows]
                label = name if axis is axes[0] else None
                axis.plot(result.flows, costs, marker="o", markersize=4, label=label, **LOOKS[name])
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("backlogged flows")
        axes[0].set_ylim(bottom=LEAST)
        axes[0].set_ylabel("ns per packet")
        axes[-1].legend(
            *axes[0].get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(1, 1)
        )
        known = result.data["conditions"]
        figure.suptitle(
            f"Cost per packet, hash not known; Linux {known['kernel']}, {known['processor']}",
            fontsize=11,
        )
        for ending in ("png", "svg"):
            figure.savefig(
                path.with_suffix(f".{ending}"), metadata={"Date": None} if ending == "svg" else None
            )


def write(path: Path) -> None:
    """The table and the figure, beside the data."""
    result = Result(json.loads(path.read_text()))
    draw(result, path)
    path.with_suffix(".md").write_text(text(result))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
