# SPDX-License-Identifier: GPL-2.0
"""The report of the slbnsim benchmark."""

from __future__ import annotations

from typing import Any

from tests.bench.report.common import aims, host_conditions, median, spread, table

# The aims: events per second, bytes per session, and growth of an event's cost with sessions.
AIM_EVENTS, AIM_BYTES, AIM_GROWTH = 10e6, 1000, 2.0
#: The number of sessions that the first two are for.
AIM_SESSIONS = 100_000
#: A session's packet crosses seven links, and again on its way back; then its source pauses.
EVENTS_PER_HOP = 15 / 14
#: ns-3's schedulers, with a remark.
SCHEDULERS = {
    "MapScheduler": " (default)",
    "HeapScheduler": "",
    "CalendarScheduler": "",
    "PriorityQueueScheduler": "",
}

FAIRNESS = (
    "The two do different work. ns-3 simulates packets of bytes with headers, which the complete IP"
    " stacks of hosts and routers write, read and look up; it has queues and trace hooks, and"
    " supports any protocol on top. slbnsim only has SLBN's control packets: a packet is a struct"
    " with a precomputed path, and a link is the time until which it is busy. But at each link"
    " slbnsim runs SLBN, which ns-3's packets skip here. In favour of ns-3 there are no IPv6,"
    " queueing disciplines, checksums, traces or logs, and ten flows share a chain of six routers,"
    " so that routes are few and need not be computed; slbnsim has 1,000 routers for all sessions"
    " and computes paths. ns-3's memory thus contains 0.6 routers per flow."
)


def against_aims(points: list[dict[str, Any]]) -> list[str]:
    """The results beside their aims."""
    rows = []
    for point in points:
        if point["sessions"] != AIM_SESSIONS:
            continue
        rate = 1e3 / median(point, "ns_per_event")
        octets = median(point, "bytes_per_session")
        rows += [
            (
                f"{AIM_SESSIONS:,} sessions: {AIM_EVENTS / 1e6:g} million events per second on one"
                " core",
                f"{rate:.1f} million",
                rate >= AIM_EVENTS / 1e6,
                f"SLBN's task at a link: {median(point, 'ns_per_event'):.0f} ns per event, of which"
                f" the timer wheel takes {median(point, 'hold_wheel'):.0f}",
            ),
            (
                f"{AIM_SESSIONS:,} sessions: less than {AIM_BYTES} bytes for each, its two hosts"
                " and their links included",
                f"{octets:.0f} bytes",
                octets < AIM_BYTES,
                "packets of protocol 2 have two slots more than their path has links (assumed, not"
                " traced)",
            ),
        ]
    if len(points) > 1:
        growth = median(points[-1], "ns_per_event") / median(points[0], "ns_per_event")
        wheel = median(points[-1], "hold_wheel") / median(points[0], "hold_wheel")
        rows.append(
            (
                f"from {points[0]['sessions']:,} to {points[-1]['sessions']:,} sessions, an event's"
                f" cost grows by a factor below {AIM_GROWTH:g}",
                f"{growth:.1f}",
                growth < AIM_GROWTH,
                "sessions and links leave the CPU's caches (assumed, not counted); the timer wheel"
                f" alone grows by {wheel:.1f}",
            )
        )
    return aims(rows)


def session_table(points: list[dict[str, Any]]) -> list[str]:
    header = ["sessions", "ns per event", "instructions per event", "cache misses per event"]
    rows = [
        [
            f"{point['sessions']:,}",
            spread(point, "ns_per_event", 0),
            spread(point, "instructions_per_event", 0),
            spread(point, "cache-misses_per_event", 2),
            spread(point, "bytes_per_session", 0),
            spread(point, "maxmin_seconds", 2),
        ]
        for point in points
    ]
    return table([*header, "bytes per session", "`slbnsim maxmin`, s"], rows, left=0)


def ratios(points: list[dict[str, Any]]) -> list[str]:
    """The cost of ns-3 relative to slbnsim."""
    most = points[-1]
    measured = [name for name in SCHEDULERS if f"hold_{name}" in most["runs"][0]]
    best = min(measured, key=lambda name: median(most, f"hold_{name}"))
    ratio = median(most, f"hold_{best}") / median(most, "hold_wheel")
    lines = [
        f"- With {most['sessions']:,} events pending, ns-3's fastest scheduler, `{best}`, takes"
        f" {ratio:.1f} times as long as slbnsim's timer wheel."
    ]
    for point in points:
        if "forward_ns_per_hop" in point["runs"][0]:
            time = median(point, "forward_ns_per_hop") / median(point, "ns_per_event")
            memory = median(point, "forward_bytes_per_flow") / median(point, "bytes_per_session")
            lines.append(
                f"- With {point['sessions']:,} flows, ns-3 takes {time / EVENTS_PER_HOP:.0f} times"
                f" as long as slbnsim per packet and link, and {memory:.0f} times the memory."
            )
    return lines


def scheduler_table(points: list[dict[str, Any]]) -> list[str]:
    names = {
        "slbnsim's timer wheel": "hold_wheel",
        **{f"ns-3's `{name}`{remark}": f"hold_{name}" for name, remark in SCHEDULERS.items()},
        "ns-3's `Simulator::Schedule()`, empty events": "hold_Simulator",
        "slbnsim, a complete event": "ns_per_event",
    }
    rows = [[title, *(spread(point, name, 0) for point in points)] for title, name in names.items()]
    return table(["events pending", *(f"{point['sessions']:,}" for point in points)], rows)


def forward_table(points: list[dict[str, Any]]) -> list[str]:
    rows = []
    for point in points:
        if "forward_ns_per_hop" in point["runs"][0]:
            rows += [
                [
                    f"slbnsim, {point['sessions']:,} sessions",
                    spread(point, "ns_per_event", 0, EVENTS_PER_HOP),
                    f"{EVENTS_PER_HOP:.2f}",
                    spread(point, "bytes_per_session", 0),
                ],
                [
                    f"ns-3, {point['sessions']:,} flows",
                    spread(point, "forward_ns_per_hop", 0),
                    spread(point, "forward_events_per_hop", 2),
                    spread(point, "forward_bytes_per_flow", 0),
                ],
            ]
    header = ["", "ns per packet and link", "events per packet and link"]
    return table([*header, "bytes per session or flow"], rows)


def comparison(data: dict[str, Any]) -> list[str]:
    """The section that compares slbnsim with ns-3."""
    points, version = data["points"], data["ns3"]["version"]
    if version is None:
        return [
            "## Comparison with ns-3",
            "",
            f"ns-3 was not available: {data['ns3']['why'].partition(chr(10))[0]}."
            " `scripts/install-deps bench` installs it if the distribution has it.",
        ]
    return [
        "## Comparison with ns-3",
        "",
        *ratios(points),
        "",
        f"The distribution's package of ns-3 {version}. First the schedulers: ns per event in the"
        " hold model, with one pending event per session, and slbnsim's intervals between events.",
        "",
        *scheduler_table(points),
        "",
        "Then forwarding: each session or flow has one packet in the network, which crosses seven"
        " links and comes back over them; after a pause the next one follows.",
        "",
        *forward_table(points),
        "",
        FAIRNESS,
    ]


def text(data: dict[str, Any]) -> list[str]:
    known, points = data["conditions"], data["points"]
    return [
        "# Performance of slbnsim",
        "",
        "SLBN on 1,000 routers, control packets only, with two hosts for each session. `make bench`"
        " repeats the measurement; `tests/bench/measure_slbnsim.py` documents the method.",
        "",
        *against_aims(points),
        "",
        *session_table(points),
        "",
        f"CPU time: the median of {data['turns']} turns, and their range. An event is the arrival"
        " of a packet at the end of a link with the link's task, or the end of a source's pause."
        " The time of `slbnsim maxmin` includes reading the files, routing, computing the rates and"
        " writing them."
        + ("" if data["counters"] else " This machine cannot count instructions and misses."),
        "",
        *comparison(data),
        "",
        host_conditions(known, known["compiler"]),
    ]
