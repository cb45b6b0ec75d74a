# SPDX-License-Identifier: GPL-2.0
"""A result as a table."""

from collections.abc import Sequence
from typing import Any

from fairlab.results import store, trust


def _mbits(bps: float) -> str:
    return f"{bps / 1e6:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns, the first to the left, the others to the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def table(result: dict[str, Any]) -> str:
    """The table of a run."""
    flows, total = result["flows"], result["total"]
    first, last = result["window_seconds"]
    rows = [["flow", "Mbit/s", "share", "retransmits", "mean cwnd", "window cuts", "kept"]]
    for flow in flows:
        mean, keeps = flow["cwnd_mean"], flow["cut_keeps"]
        rows.append(
            [
                flow["label"],
                _mbits(flow["throughput_bps"]),
                f"{100 * flow['share']:.1f} %",
                str(flow["retransmits"]),
                "-" if mean is None else f"{mean:.0f}",
                str(flow["cuts"]),
                "-" if keeps is None else f"{100 * keeps:.0f} %",
            ]
        )
    rows.append(["all", _mbits(total["throughput_bps"]), "", str(total["retransmits"]), "", "", ""])
    delay, ping = total["queue_delay_ms"], total["ping_ms"]
    marks = f", {total['marks']} marked" if result["scenario"]["ecn"] else ""
    lines = [
        *store.describe(result),
        "",
        *aligned(rows),
        "",
        f"fair share    {_mbits(total['fair_share_bps'])} Mbit/s; Jain's index {total['jain']:.3f}",
        f"bottleneck    busy {100 * total['utilisation']:.1f} %;"
        f" {total['drops']} packets lost ({100 * total['loss']:.3f} %){marks}",
        f"queue delay   mean {delay['mean']:.1f} ms, p95 {delay['p95']:.1f} ms,"
        f" max {delay['max']:.1f} ms; a full queue is {delay['full']:.1f} ms",
    ]
    if ping:
        lines.append(f"ping          mean {ping['mean']:.1f} ms, max {ping['max']:.1f} ms")
    lines += _background(result)
    lines.append(
        f"(throughput as received, without headers; from {first:g} s to {last:g} s,"
        " retransmits of the whole run)"
    )
    lines += [f"note: {line}" for line in trust.lines(result["checks"])]
    lost = result["checks"]["trace_events_lost"]
    if lost:
        lines.append(f"note: the trace lost {lost} window events; cwnd is missing at the start")
    return "\n".join(lines)


def _background(result: dict[str, Any]) -> list[str]:
    """The lines about the background."""
    found = result.get("background")
    if not found:
        return []
    share = {name: f"{100 * found[name]:.1f} %" for name in ("asked", "offered", "carried")}
    lines = [
        f"background    {share['asked']} of the link requested, {share['offered']} offered,"
        f" {share['carried']} carried",
        f"              {found['lost']} of {found['packets']} packets lost"
        f" ({100 * found['loss']:.3f} %)",
    ]
    if "flows" in found:
        going, took = found["in_progress"], found["completion_ms"]
        lines[-1] += f", {found['retransmits']} retransmits"
        lines.append(
            f"              {found['flows']} flows, {found['ended']} ended; in progress: mean"
            f" {going['mean']:.1f}, max {going['max']:.0f}"
        )
        if took:
            lines.append(
                f"              half done within {took['p50']:.0f} ms, 95 % {took['p95']:.0f} ms,"
                f" 99 % {took['p99']:.0f} ms"
            )
    elif found["delay_ms"]:
        delay = found["delay_ms"]
        lines.append(f"              delay mean {delay['mean']:.1f} ms, max {delay['max']:.1f} ms")
    available = result["total"]["available_bps"]
    used = result["total"]["throughput_bps"] / available if available > 0 else 0
    lines.append(
        f"available     {_mbits(available)} Mbit/s beside it; the flows use {100 * used:.0f} %"
    )
    return lines
