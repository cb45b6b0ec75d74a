# SPDX-License-Identifier: GPL-2.0
"""The report of the slbn benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.report.common import (
    aims,
    figure,
    guest_conditions,
    quartiles,
    table,
)

COLOURS = ("#777777", "#0072B2", "#D55E00")
# What we wanted, ns.
AIM_SENT, AIM_ANSWER = 5, 288
AIMS_ROUTED = (
    ("a routed data packet", "slbn", "hook", 5.3),
    ("a routed data packet from an edge", "edge", "hooks", 10.8),
)
KINDS = {"task": "the link's task alone", "control": "through the egress hook and the queue"}


def of_kind(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [point for point in data["points"] if point["kind"] == kind]


def control_table(data: dict[str, Any], kind: str) -> list[str]:
    points = of_kind(data, kind)
    sessions = list(dict.fromkeys(point["sessions"] for point in points))
    rows = [
        [
            f"{entries:,} entries",
            *(quartiles(point["ns"]) for point in points if point["entries"] == entries),
        ]
        for entries in dict.fromkeys(point["entries"] for point in points)
    ]
    return table(["memory", *(f"{n:,}" for n in sessions)], rows, left=0)


def send_table(data: dict[str, Any]) -> list[str]:
    rows = []
    for point in of_kind(data, "send"):
        every = point["every"]
        # Control packets have no cost of their own here: data packets bear it.
        per_data = point["adds"]["median"] * (every / (every - 1) if every else 1)
        percent = 100 * point["adds"]["median"] / point["bare"]["median"]
        what = [f"`{point['child']}`", point["protocol"]]
        what.append(f"1 of {every}" if every else "none")
        costs = [quartiles(point[name]) for name in ("bare", "slbn", "hook_adds", "adds")]
        rows.append([*what, *costs[:3], f"{costs[3]} ({percent:.0f} %)", f"{per_data:.0f}"])
    columns = [
        *("child", "data", "control packets", "mq", "slbn"),
        *("an empty hook adds", "slbn adds", "for each data packet"),
    ]
    return table(columns, rows, left=3)


def against_aims(data: dict[str, Any]) -> list[str]:
    """The results beside their aims."""
    rows = []
    sent = [point for point in of_kind(data, "send") if not point["every"]]
    if sent:
        worst = max(sent, key=lambda point: float(point["adds"]["median"]))
        adds, hook = worst["adds"]["median"], worst["hook_adds"]["median"]
        rows.append(
            (
                f"a data packet that is sent: at most {AIM_SENT} ns more, with each child",
                f"at most {adds:.0f} ns (`{worst['child']}`, {worst['protocol']})",
                adds <= AIM_SENT,
                f"an empty netfilter hook alone takes {hook:.0f} ns",
            )
        )
    for what, root, empty, aim in AIMS_ROUTED:
        points = {
            name: max(
                (p["adds"]["median"] for p in of_kind(data, "route") if p["root"] == name),
                default=None,
            )
            for name in (root, empty)
        }
        adds, hook = points[root], points[empty]
        if adds is not None and hook is not None:
            why = f"empty hooks alone take {hook:.0f} ns"
            rows.append((f"{what}: at most {aim} ns more", f"{adds:.0f} ns", adds <= aim, why))
    for point in of_kind(data, "answer"):
        found = point["ns"]["median"]
        why = "it is received, processed, routed and sent like any packet; the parts were not timed"
        rows.append(
            (f"an answer: at most {AIM_ANSWER} ns", f"{found:.0f} ns", found <= AIM_ANSWER, why)
        )
    return aims(rows)


def answer_lines(data: dict[str, Any]) -> list[str]:
    """The cost of answers; nothing if the data is older than it."""
    points = of_kind(data, "answer")
    if not points:
        return []
    [answer] = points
    [down] = [
        point["ns"]["median"]
        for point in of_kind(data, "control")
        if (point["sessions"], point["entries"]) == (1000, answer["entries"])
    ]
    [routed] = [
        point["ns"]["median"]
        for point in of_kind(data, "route")
        if (point["root"], point["protocol"]) == ("slbn", "UDP")
    ]
    both = down + answer["ns"]["median"]
    return [
        "",
        f"An answer takes {quartiles(answer['ns'])} ns,"
        f" {answer['ns']['median'] / routed:.2f} times as long as a routed UDP packet of this run:"
        " the router receives it, processes it at its link, looks up its route and sends it on"
        f" (memory of {answer['entries']:,} entries). The default limit of 5 % of 10 Gbit/s is"
        f" {answer['control_rate']:,} control packets per second with {answer['control_octets']}"
        " octets, as on a path of 7 links; with their answers they take"
        f" {both * answer['control_rate'] / 1e7:.0f} % of one CPU.",
    ]


def devices_lines(data: dict[str, Any]) -> list[str]:
    """The cost by number of devices; nothing if the data is older than it."""
    points = of_kind(data, "devices")
    if not points:
        return []
    few, many = points
    return [
        "",
        f"The number of the router's devices does not matter: with {many['added']:,} more, each"
        f" with addresses, a control packet takes {quartiles(many['ns'])} ns instead of"
        f" {quartiles(few['ns'])} ({few['sessions']:,} sessions, memory of {few['entries']:,}"
        " entries).",
    ]


def keys_lines(data: dict[str, Any]) -> list[str]:
    """The cost of authentication; nothing if the data is older than it."""
    points = of_kind(data, "keys")
    if not points:
        return []
    first = points[0]
    rows = [[point["keys"], quartiles(point["ns"])] for point in points]
    return [
        "",
        "Authenticated with one of the link's keys: the link computes the hash of the packet and of"
        f" its addresses twice, to check and to write it ({first['sessions']:,} sessions, memory of"
        f" {first['entries']:,} entries; packets with 32 slots):",
        "",
        *table(["keys of the link", "ns"], rows),
    ]


ROOTS = {
    "mq": "`mq`",
    "hook": "`mq`, empty hook",
    "slbn": "`slbn`",
    "hooks": "`mq`, empty hooks at egress and ingress",
    "edge": "`slbn`, from an edge",
}


def route_table(data: dict[str, Any]) -> list[str]:
    rows = []
    for point in of_kind(data, "route"):
        ns = point["ns"]
        adds = "" if point["root"] == "mq" else quartiles(point["adds"])
        rows.append([ROOTS[point["root"]], point["protocol"], quartiles(ns), adds])
    return table(["root", "data", "ns", "more than mq"], rows, left=2)


def send_lines(data: dict[str, Any]) -> list[str]:
    return [
        "## Data packets",
        "",
        "Packets that are sent (`dev_queue_xmit()`), with `slbn` as the root of the device and with"
        " `mq`, by child of each TX queue. An empty netfilter hook at the device's egress is the"
        " least that `slbn` can add: without one it sees no packets. Where one of"
        " four packets is a control packet (5 % of 10 Gbit/s beside data packets of 1,500 octets),"
        " `mq` sends it as data; the last column adds its cost to the three data packets.",
        "",
        *send_table(data),
        "",
        "The whole path of a routed packet, with the root at its input and its output device, and"
        " `fq` as the child; the difference is that to `mq` in the same turn. A device that is an"
        " edge has a hook at its ingress, too. This path is short, since it has no driver.",
        "",
        *route_table(data),
    ]


def text(data: dict[str, Any]) -> list[str]:
    lines = [
        "# Performance of SLBN",
        "",
        "Nanoseconds per packet, ± half of the interquartile range over"
        f" {data['turns']} turns. `make bench` repeats the measurement;"
        " `tests/bench/measure_slbn.py` documents the method and its checks.",
        "",
        *against_aims(data),
        "",
        "![cost of a control packet over the number of sessions](bench-slbn.png)",
        "",
        "## Control packets",
        "",
        "By the number of sessions on the link. State and work of a link do not grow with the"
        " number of sessions, but its memory of recent sessions may exceed the CPU's caches.",
    ]
    for kind, title in KINDS.items():
        lines += ["", f"{title[0].upper()}{title[1:]}:", "", *control_table(data, kind)]
    return [
        *lines,
        *answer_lines(data),
        *devices_lines(data),
        *keys_lines(data),
        "",
        *send_lines(data),
        "",
        "## Conditions",
        "",
        *guest_conditions(data["conditions"]),
        f"- {data['turns']} turns of {data['slices']} slices of {data['slice']} packets; the value"
        " of a turn is the median of its slices minus the cost of the empty loop; nothing is"
        " subtracted for routed packets.",
        "- Control packets are Probes over IPv4 with 32 tags, whose checksums the device has"
        " verified; ledgers are not rotated; every second session is restricted at the link.",
        "- One CPU: what locks and shared cache lines cost on several was not measured. That needs"
        " a machine with many; an emulated one runs them in turn.",
    ]


def draw(data: dict[str, Any], path: Path) -> None:
    with figure(path, 8, 3.8) as drawing:
        axes = drawing.subplots(1, len(KINDS), sharey=True)
        for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
            points = of_kind(data, kind)
            memories = dict.fromkeys(point["entries"] for point in points)
            for colour, entries in zip(COLOURS, memories, strict=False):
                line = [point for point in points if point["entries"] == entries]
                axis.plot(
                    [point["sessions"] for point in line],
                    [point["ns"]["median"] for point in line],
                    marker="o",
                    markersize=4,
                    color=colour,
                    label=f"memory of {entries:,} entries" if entries else "no memory",
                )
            axis.set_xscale("log")
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("sessions on the link")
        axes[0].set_ylim(bottom=0)
        axes[0].set_ylabel("ns per control packet")
        axes[0].legend()
