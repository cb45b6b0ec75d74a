# SPDX-License-Identifier: GPL-2.0
"""The report of the drr_fq benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.report.common import aims, figure, guest_conditions, quartiles, table

# Okabe and Ito's colours, which are distinct for people with any colour vision.
LOOKS: dict[str, dict[str, Any]] = {
    "drr_fq": {"color": "#D55E00", "linewidth": 2.6},
    "drr_fq rr": {"color": "#D55E00", "linestyle": (0, (5, 1.5))},
    "drr_fq scfq": {"color": "#D55E00", "linestyle": (0, (1.5, 1.2))},
    "drr_fq codel": {"color": "#D55E00", "linestyle": (0, (8, 1.5, 1.5, 1.5))},
    "drr_fq bands": {"color": "#D55E00", "linestyle": (0, (1, 2.5))},
    "pfifo": {"color": "#777777"},
    "sfq": {"color": "#009E73"},
    "fq_codel": {"color": "#0072B2", "linewidth": 2.0},
    "fq_codel 1024": {"color": "#0072B2", "linestyle": (0, (5, 1.5))},
    "fq": {"color": "#56B4E9"},
    "cake": {"color": "#CC79A7"},
    "drr + filter": {"color": "#E69F00"},
}
TITLES = {
    "short": "short queues",
    "long": "long queues",
    "overload": "overload: each new packet drops another",
}
METHODS = {
    "short": "Three packets of each flow are queued (a hundred of a single one).",
    "long": "30,000 packets are queued, of any number of flows. They have left the CPU's caches"
    " before they are dequeued: that is the cost of `pfifo` here.",
    "overload": "The same long queue at its limit. No packet is sent.",
}
HASHES = {False: "without a hash, as in a router", True: "with their hash, as from this host"}
REFERENCE, OURS = "fq_codel", "drr_fq"
# What we wanted: name, the largest ratio to the reference, and why it may be more.
AIMS = (
    (OURS, 0.7, "not traced"),
    (
        f"{OURS} codel",
        1.0,
        "`drr_fq` gains where `fq_codel` misses the CPU's first cache, and up to 100 flows it does"
        " not (assumed, not counted); both read the clock twice",
    ),
)
AIM_FULL, AIM_GROWTH = 0.25, 1.05
LEAST = 2.0  # nanoseconds; the figure shows smaller costs as this


class Result:
    """The data, indexed by candidate, flows, load and whether packets carry their hash."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.points = {
            (point["candidate"], point["flows"], point["load"], point["hashed"]): point
            for point in data["points"]
        }
        self.flows = list(dict.fromkeys(point["flows"] for point in data["points"]))
        self.names = [candidate["name"] for candidate in data["candidates"]]

    def cost(self, name: str, flows: int, kind: str, hashed: bool) -> float:
        """The median in nanoseconds per packet."""
        return float(self.points[name, flows, kind, hashed]["nanoseconds"]["median"])

    def cell(self, name: str, flows: int, kind: str, hashed: bool) -> str:
        point = self.points[name, flows, kind, hashed]
        ratio = "" if name == REFERENCE else f" ({point['ratio']['median']:.2f})"
        return quartiles(point["nanoseconds"]) + ratio


def cost_table(result: Result, kind: str, hashed: bool) -> list[str]:
    rows = [
        [f"`{name}`", *(result.cell(name, flows, kind, hashed) for flows in result.flows)]
        for name in result.names
    ]
    return table(["", *(f"{flows:,}" for flows in result.flows)], rows)


def against_aims(result: Result) -> list[str]:
    """The results beside their aims."""
    if OURS not in result.names or REFERENCE not in result.names:
        return []
    rows = []
    for name, most, why in AIMS:
        ratios = {
            (point["flows"], point["load"], point["hashed"]): float(point["ratio"]["median"])
            for point in result.data["points"]
            if point["candidate"] == name
        }
        if not ratios:
            continue
        (flows, kind, hashed), worst = max(ratios.items(), key=lambda item: item[1])
        place = f"{TITLES[kind].partition(':')[0]}, {flows:,} flows, packets {HASHES[hashed]}"
        aim = f"`{name}`: at most {most:g} of `{REFERENCE}`'s cost everywhere"
        rows.append((aim, f"at most {worst:.2f} ({place})", worst <= most, why))
    last = result.flows[-1]
    full = max(
        float(result.points[OURS, last, "overload", hashed]["ratio"]["median"])
        for hashed in (False, True)
    )
    rows.append(
        (
            f"in overload with {last:,} flows: at most {AIM_FULL:g} of `{REFERENCE}`",
            f"{full:.2f}",
            full <= AIM_FULL,
            "not traced",
        )
    )
    if len(result.flows) > 1:
        first = result.flows[1] if len(result.flows) > 2 else result.flows[0]
        for kind in ("short", "long"):
            growth = {
                name: result.cost(name, last, kind, False) / result.cost(name, first, kind, False)
                for name in (OURS, REFERENCE, "pfifo")
                if name in result.names
            }
            factors = ", ".join(f"`{name}` {value:.1f}" for name, value in growth.items())
            rows.append(
                (
                    f"from {first:,} to {last:,} flows, {TITLES[kind]}: the cost of `{OURS}` does"
                    f" not grow (a factor of at most {AIM_GROWTH:g})",
                    factors,
                    growth[OURS] <= AIM_GROWTH,
                    "the queues' state leaves the CPU's caches (assumed, not counted)",
                )
            )
    return aims(rows)


def text(data: dict[str, Any]) -> list[str]:
    result = Result(data)
    lines = [
        "# Performance of drr_fq",
        "",
        "Nanoseconds to enqueue and dequeue a packet (in overload: to enqueue one and drop"
        " another); in brackets, the ratio to `fq_codel` in the same turn. ± is half of the"
        f" interquartile range over {data['turns']} turns. `make bench` repeats the measurement;"
        " `tests/bench/measure.py` documents the method and its checks.",
        "",
        "![cost per packet over the number of flows](bench-drr_fq.png)",
        "",
        *against_aims(result),
    ]
    for kind, title in TITLES.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", METHODS[kind]]
        for hashed in (False, True):
            come = f"Backlogged flows; packets {HASHES[hashed]}:"
            lines += ["", come, "", *cost_table(result, kind, hashed)]
    loops = [point["loop"]["median"] for point in data["points"]]
    candidates = [
        [f"`{candidate['name']}`", f"`{candidate['options']}`", candidate["remark"]]
        for candidate in data["candidates"]
    ]
    return [
        *lines,
        "",
        "## Conditions",
        "",
        *guest_conditions(data["conditions"]),
        f"- UDP over IPv4, {data['length']} bytes per packet and per quantum. {data['turns']} turns"
        f" of {data['slices']} slices of {data['slice']} packets; the value of a turn is the median"
        " of its slices minus the cost of the loop without a qdisc"
        f" ({min(loops):.0f} to {max(loops):.0f} ns), so that a qdisc that hardly touches a packet"
        " may cost less than 0. The loop neither allocates nor frees packets. What the stack has"
        " read of a packet is in the CPU's cache when it is enqueued.",
        f"- Reading the clock takes {data['clock']['median']:.0f} ns (a vDSO call); `fq_codel`,"
        " `drr_fq codel`, `fq` and `cake` read it twice for each packet sent, the others never.",
        "- `fq`'s prefetch is no instruction in User-Mode Linux; that of `drr_fq` is.",
        "- One CPU: locks cost nothing in any of them.",
        "",
        *table(["", "options (1,000 flows, long queues)", "remarks"], candidates, left=3),
    ]


def draw(data: dict[str, Any], path: Path) -> None:
    result = Result(data)
    with figure(path, 12, 4.6) as drawing:
        axes = drawing.subplots(1, len(TITLES), sharey=True)
        for axis, (kind, title) in zip(axes, TITLES.items(), strict=True):
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
        known = data["conditions"]
        drawing.suptitle(
            f"Cost per packet, hash not known; Linux {known['kernel']}, {known['processor']}",
            fontsize=11,
        )
