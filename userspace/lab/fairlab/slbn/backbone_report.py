# SPDX-License-Identifier: GPL-2.0
"""What came of a run on the backbone, and whether SLBN kept its promise.

The promise is the paper's (NCA 2012, sections I and V), on real flows: sessions are told their
max-min rates within a few round-trips of each change; no link is given more than it has, on
average; queues stay short; and who keeps to a rate gets the goodput that it allows.

Rates are compared with the max-min reference of backbone_analysis.py.  A flow is at rest when its
part of it has not moved for SETTLE seconds; TCP needs some of that, and iperf3 reports goodput by
the second.  A rate is of frames on the wire; what of it is goodput depends on the headers.

Before anything is evaluated, the run has to show that it was the network that was measured, and
not the machine.
"""

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlab.model import headers, units
from fairlab.model.errors import CannotRunError, LabError
from fairlab.results import store
from fairlab.results.validity import LONGEST_PAUSE, MAX_STOLEN, MIN_IDLE
from fairlab.run import engine
from fairlab.run.job import Job
from fairlab.slbn import abilene, backbone, backbone_analysis, backbone_figures
from fairlab.slbn.backbone import FLOWS, MTU, VARIANTS, Plan
from fairlab.slbn.backbone_analysis import Line, Moment, Session

SETTLE = 2.0  # seconds
#: The longest path's round-trip without queues [s].
LONGEST = max(abilene.round_trip_us(flow.source, flow.destination) for flow in FLOWS) / 1e6

# What is promised.
TOLD, GOODPUT = 0.01, 0.05
GIVEN = 1 + TOLD
CLOSE, THERE = 0.05, 0.01
ROUND_TRIPS = 12
QUEUE = LONGEST

# What shows that a wire was held up by the machine: packets wait, and it does not send its rate.
SURELY_WAITING = 4 * (MTU + headers.ETHERNET)
RATE_TOLERANCE = 0.03
ENOUGH_INTERVALS = 20


def check(plan: Plan, name: str, measured: dict[str, Any]) -> None:
    """Raise the reason if the run cannot be trusted."""
    load = measured["load"]
    wires = measured["wires"]
    if load["backlog_drops"]:
        raise CannotRunError(
            f"{name}: {load['backlog_drops']} packets were lost between namespaces, where there is"
            " no link"
        )
    if hidden := sum(kept["hidden"][-1] for kept in wires.values()):
        raise CannotRunError(f"{name}: {hidden} packets were lost in the delays")
    for wire, kept in wires.items():
        count = kept["packets"][-1] - kept["packets"][0]
        if count and (kept["sent"][-1] - kept["sent"][0]) / count > MTU + headers.ETHERNET:
            raise CannotRunError(f"{name}: {wire} sent packets beyond its MTU: an offload was on")
    if load["idle_share"] < MIN_IDLE:
        raise CannotRunError(
            f"{name}: this machine's CPU was idle for only {100 * load['idle_share']:.1f} % of the"
            " run: it may have been the limit; use a lower --rate"
        )
    if load["stolen"] > MAX_STOLEN * load["total"]:
        raise CannotRunError(f"{name}: the host took this machine's CPU away; use --steady")
    pause = max(b - a for a, b in pairwise(measured["times"]))
    if pause > LONGEST_PAUSE:
        raise CannotRunError(f"{name}: this machine stood still for {pause:.1f} s: too busy")
    seen = busy_rate(measured)
    if seen is not None and abs(seen / plan.rate - 1) > RATE_TOLERANCE:
        raise CannotRunError(
            f"{name}: wires sent {seen / 1e6:.2f} Mbit/s while packets waited, instead of"
            f" {units.format_rate(plan.rate)}: this machine was too slow or too busy"
        )


def busy_rate(measured: dict[str, Any]) -> float | None:
    """The rate at which wires sent while packets waited [bit/s]; None if they hardly ever did.

    What waits for its time, in fq, does not count.
    """
    times = measured["times"]
    took = sent = 0.0
    intervals = 0
    for wire, kept in measured["wires"].items():
        if is_uplink(wire):
            continue
        for a, b in pairwise(range(len(times))):
            if min(kept["held"][a], kept["held"][b]) >= SURELY_WAITING:
                took += times[b] - times[a]
                sent += 8 * (kept["sent"][b] - kept["sent"][a])
                intervals += 1
    return sent / took if intervals >= ENOUGH_INTERVALS else None


def is_uplink(wire: str) -> bool:
    """Is it an access router's, where with SLBN packets wait for their times?"""
    return any(wire.startswith(f"{abilene.access(node)}.") for node in abilene.ACCESS)


def evaluate(plan: Plan, data: dict[str, Any]) -> dict[str, Any]:
    """What came of each variant."""
    return {name: evaluate_variant(plan, name, measured) for name, measured in data.items()}


def evaluate_variant(plan: Plan, name: str, measured: dict[str, Any]) -> dict[str, Any]:
    line, sessions = backbone_analysis.build(plan, name, measured)
    moments = (
        list(backbone_analysis.history(line, sessions, plan.seconds)) if VARIANTS[name].slbn else []
    )
    found: dict[str, Any] = {
        "flows": [
            evaluate_flow(plan, number, measured["goodput"][number], line, moments)
            for number in range(len(FLOWS))
        ],
        "wires": wires(plan, name, measured),
        "retransmits": sum(measured["retransmits"]),
        "idle_share": measured["load"]["idle_share"],
    }
    if VARIANTS[name].slbn:
        told = [flow for flow in found["flows"] if flow["told_off"] is not None]
        at_rest = sum(flow["rest"] for flow in told)
        found |= {
            "sessions": len(sessions),
            "told_off": sum(flow["told_off"] * flow["rest"] for flow in told) / at_rest
            if at_rest
            else None,
            "booked": bookings(plan, name, sessions),
            "changes": changes(plan, line, moments),
        }
    return found


def cut(moments: list[Moment], begin: float, end: float) -> list[Moment]:
    """The part of MOMENTS from BEGIN to END."""
    return [
        Moment(max(m.begin, begin), min(m.end, end), m.beside)
        for m in moments
        if m.begin < end and m.end > begin
    ]


def mean_told(moments: list[Moment], number: int, begin: float, end: float) -> float:
    """What a flow was told on average."""
    now = cut(moments, begin, end)
    return sum((m.end - m.begin) * m.beside[number][0] for m in now) / (end - begin)


def evaluate_flow(
    plan: Plan,
    number: int,
    goodput: list[tuple[float, float, float]],
    line: Line,
    moments: list[Moment],
) -> dict[str, Any]:
    """A flow at rest: what it was told, what it should be, what it got, what is fair to get."""
    flow = FLOWS[number]
    rests = backbone_analysis.rests(line, number, SETTLE, plan.seconds)
    got, allowed, exact, told = [], [], [], []
    for begin, end, rate in goodput:
        if not any(a <= begin and end <= b for a, b in rests):
            continue
        due = line.mean(number, begin, end)
        may = mean_told(moments, number, begin, end) if moments else due
        sends = plan.sends(flow, begin)
        got.append(rate)
        exact.append(due)
        told.append(may)
        allowed.append(flow.payload_part * (may if sends is None else min(may, sends)))
    off = [
        (moment.end - moment.begin, abs(moment.beside[number][0] / moment.beside[number][1] - 1))
        for a, b in rests
        for moment in cut(moments, a, b)
    ]
    rest = sum(took for took, _ in off)
    mean = statistics.mean
    return {
        "flow": flow.label,
        "found": number in line.flows,
        "seconds": len(got),
        "rest": rest,
        "told": mean(told) if told and moments else None,
        "told_off": sum(took * part for took, part in off) / rest if rest else None,
        "exact": mean(exact) if exact else None,
        "allowed": mean(allowed) if allowed else None,
        "goodput": mean(got) if got else None,
        "off": mean(got) / mean(allowed) - 1 if allowed and mean(allowed) else None,
    }


def wires(plan: Plan, name: str, measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each wire: use (1: all of it) and queue in seconds, of samples."""
    times = measured["times"]
    took = times[-1] - times[0]
    found = {}
    for wire, kept in measured["wires"].items():
        held = sorted(size * 8 / plan.rate for size in kept["held"])
        sent = [8 * size / plan.rate for size in kept["sent"]]
        found[wire] = {
            "use": (sent[-1] - sent[0]) / took,
            "use_most": max(backbone.use(plan, measured, wire)),
            "queue": held[int(0.95 * (len(held) - 1))],
            "queue_most": held[-1],
            "drops": kept["drops"][-1] - kept["drops"][0],
            "control": 8 * (kept["control"][-1] - kept["control"][0]) / plan.rate / took,
            "waits_for_time": VARIANTS[name].slbn and is_uplink(wire),
        }
    return found


def bookings(plan: Plan, name: str, sessions: list[Session]) -> dict[str, dict[str, float]]:
    """Of each wire: the sum of the rates that sessions were told, as a part of what it has."""
    capacity = VARIANTS[name].capacity(plan.rate)
    found = {}
    for wire in sorted({wire for session in sessions for wire in session.wires}):
        own = [session for session in sessions if wire in session.wires]
        times = {when for session in own for when, _ in session.told}
        times |= {min(session.until, plan.seconds) for session in own} | {plan.seconds}
        took = total = most = 0.0
        for a, b in pairwise(sorted(when for when in times if when <= plan.seconds)):
            sums = sum(backbone_analysis.last(s.told, a) for s in own if s.since <= a < s.until)
            took += b - a
            total += (b - a) * sums / capacity
            most = max(most, sums / capacity)
        found[wire] = {"mean": total / took, "most": most}
    return found


def planned_changes(plan: Plan) -> list[tuple[int, str]]:
    """When flows come, change and go, and which."""
    found: dict[int, list[str]] = {}
    for flow in FLOWS:
        times = [plan.times(part) for part in flow.parts]
        found.setdefault(times[0][0], []).append(f"{flow.label} joins")
        for begin, _ in times[1:]:
            found.setdefault(begin, []).append(f"{flow.label} changes")
        if times[-1][1] < plan.seconds:
            found.setdefault(times[-1][1], []).append(f"{flow.label} leaves")
    return [
        (when, f"{len(what)} flows join" if len(what) > 2 else ", ".join(what))
        for when, what in sorted(found.items())
    ]


def changes(plan: Plan, line: Line, moments: list[Moment]) -> list[dict[str, Any]]:
    """How long at most, after each change, somebody was told a rate that is off.

    What agents ask for moves the line a few times more until the next change; all of these count.
    """
    planned = planned_changes(plan)
    found = []
    for (when, what), (until, _) in zip(planned, [*planned[1:], (plan.seconds, "")], strict=True):
        row: dict[str, Any] = {"when": when, "what": what}
        row["moves"] = [move for move in line.moves(range(len(FLOWS))) if when <= move < until]
        for key, tolerance in (("close", CLOSE), ("there", THERE)):
            own = backbone_analysis.episodes(line, moments, tolerance)
            row[key] = max((b - a for a, b in own if when <= a < until), default=0.0)
        found.append(row)
    return found


def quiet(found: dict[str, Any], key: str) -> float:
    """The largest of KEY of wires where nothing waits for its time."""
    return float(max(w[key] for w in found["wires"].values() if not w["waits_for_time"]))


def verdicts(found: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each promise, and whether it was kept."""
    for flow in found["flows"]:
        if flow["found"] and flow["off"] is None:
            raise LabError(f"{flow['flow']} was never at rest; use a longer --time")
    flows = [flow for flow in found["flows"] if flow["found"]]
    if not flows or found["told_off"] is None:
        raise LabError("no agent has found a flow")
    worst = max(flows, key=lambda flow: abs(flow["off"]))
    booked = max(wire["mean"] for wire in found["booked"].values())
    close = max(change["close"] for change in found["changes"])
    there = max(change["there"] for change in found["changes"])
    queue = quiet(found, "queue_most")
    return [
        (
            len(flows) == len(FLOWS),
            f"flows that were found by their agents: {len(flows)} of {len(FLOWS)}",
        ),
        (
            found["told_off"] <= TOLD,
            f"rates that are told, at rest: {percent(found['told_off'], 2)} off the exact line on"
            f" average (at most {percent(TOLD)})",
        ),
        (
            abs(worst["off"]) <= GOODPUT,
            f"goodput, at rest: at most {percent(abs(worst['off']))} off what the rate allows"
            f" ({worst['flow']}; at most {percent(GOODPUT)})",
        ),
        (
            booked <= GIVEN,
            f"no link gives away more than it has, on average: at most {percent(booked)}"
            f" (at most {percent(GIVEN, 0)})",
        ),
        (
            queue <= QUEUE,
            f"links' queues: {1000 * queue:.0f} ms at most (the longest path's round-trip,"
            f" {1000 * QUEUE:.0f} ms)",
        ),
        (
            max(close, there) <= ROUND_TRIPS * LONGEST,
            f"after each change all are told within {percent(CLOSE, 0)} of the line in"
            f" {rtts(close)} round-trips, within {percent(THERE, 0)} in {rtts(there)}"
            f" (at most {ROUND_TRIPS})",
        ),
    ]


def percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def rtts(seconds: float) -> str:
    return f"{seconds / LONGEST:.1f}"


def flow_table(variants: dict[str, Any]) -> list[str]:
    """Each flow: with SLBN all there is to tell, without it only what came of it."""
    slbn = variants.get("slbn")
    others = [name for name in variants if name != "slbn"]
    head = f"{'Mbit/s, at rest':16}"
    if slbn:
        head += f"{'told':>8}{'exact':>8}{'off':>9}{'allows':>9}{'goodput':>9}{'off':>9}"
    head += "".join(f"{name:>10}{'off':>9}" for name in others)
    lines = [head]

    def rate(value: float | None, width: int) -> str:
        return f"{'-':>{width}}" if value is None else f"{value / 1e6:{width}.3f}"

    def part(value: float | None, sign: str = "+") -> str:
        return f"{'-':>9}" if value is None else f"{100 * value:{sign}7.1f} %"

    for number, flow in enumerate(FLOWS):
        text = f"{flow.label:16}"
        if slbn:
            row = slbn["flows"][number]
            text += rate(row["told"], 8) + rate(row["exact"], 8) + part(row["told_off"], "")
            text += rate(row["allowed"], 9) + rate(row["goodput"], 9) + part(row["off"])
        for name in others:
            row = variants[name]["flows"][number]
            text += rate(row["goodput"], 10) + part(row["off"])
        lines.append(text)
    return lines


def variant_table(variants: dict[str, Any]) -> list[str]:
    """The variants side by side."""
    rows: dict[str, list[str]] = {
        "goodput off what is fair, mean": [],
        "                          most": [],
        "links: use, busiest, mean": [],
        "                     1 s": [],
        "       by control packets": [],
        "       queue, 95 % below": [],
        "              longest": [],
        "       packets lost": [],
        "sent again by TCP": [],
    }
    for found in variants.values():
        off = [abs(flow["off"]) for flow in found["flows"] if flow["off"] is not None]
        every = found["wires"].values()
        values = [
            percent(statistics.mean(off)) if off else "-",
            percent(max(off)) if off else "-",
            percent(max(wire["use"] for wire in every)),
            percent(max(wire["use_most"] for wire in every)),
            percent(max(wire["control"] for wire in every)),
            f"{1000 * quiet(found, 'queue'):.0f} ms",
            f"{1000 * quiet(found, 'queue_most'):.0f} ms",
            str(sum(wire["drops"] for wire in every)),
            str(found["retransmits"]),
        ]
        for column, value in zip(rows.values(), values, strict=True):
            column.append(value)
    lines = [" " * 32 + "".join(f"{name:>10}" for name in variants)]
    return lines + [f"{name:32}" + "".join(f"{v:>10}" for v in row) for name, row in rows.items()]


def change_table(found: dict[str, Any]) -> list[str]:
    """How fast all were told what is new."""
    lines = [f"{'all are told the new line':32}{'within 5 %':>20}{'within 1 %':>20}"]
    for row in found["changes"]:
        text = f"{row['when']:3} s  {row['what']:26}"
        for key in ("close", "there"):
            text += f"{1000 * row[key]:8.0f} ms {rtts(row[key]):>5} RTT"
        lines.append(text)
    return lines


def table(plan: Plan, document: dict[str, Any]) -> str:
    """All that there is to say, for people."""
    variants = document["variants"]
    blocks = [
        [
            f"{len(FLOWS)} flows on Abilene's {len(abilene.NODES)} nodes, links of"
            f" {units.format_rate(plan.rate)}, {plan.seconds} s;"
            f" Linux {document['kernel']['release']}, {store.where(document['engine'])}"
        ],
        flow_table(variants),
        variant_table(variants),
    ]
    slbn = variants.get("slbn")
    if slbn:
        acks = slbn["sessions"] - len(FLOWS)
        blocks += [
            change_table(slbn),
            [
                "told: by slbnd. exact: max-min rates of the sessions that there were; TCP's"
                " acknowledgements",
                f"are some, too ({acks} are what flows back), with the demands that their agents"
                " have for them.",
                f"Links hand out {percent(abilene.SLBN_SHARE, 0)}. RTT: {1000 * LONGEST:.0f} ms,"
                " of the longest path. What waits at access routers for",
                "its time is no link's queue; what is dropped there, as it would wait for too long,"
                " no link's loss.",
            ],
            [f"{'kept  ' if kept else 'BROKEN'}  {text}" for kept, text in verdicts(slbn)],
        ]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def failed(found: dict[str, Any]) -> list[str]:
    """The promises that were not kept."""
    slbn = found["variants"].get("slbn")
    return [text for kept, text in verdicts(slbn) if not kept] if slbn else []


class Backbone(Job[dict[str, Any]]):
    """A run on the backbone, as a job."""

    kind = "backbone"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def to_json(self) -> dict[str, Any]:
        return self.plan.to_json()

    def duration(self) -> float:
        return self.plan.seconds * len(self.plan.variants)

    def build(self) -> None:
        engine.make(["tc-plugins", "tools"], ())

    def read(self, work: Path) -> dict[str, Any]:
        return write_results(work)


def write_results(directory: Path) -> dict[str, Any]:
    """Evaluate the raw data in DIRECTORY; leave result and figures there."""
    document = json.loads((directory / backbone.DATA).read_text())
    plan = Plan.from_json(document["plan"])
    data = document.pop("variants")
    for name, measured in data.items():
        check(plan, name, measured)
    found = document | {"variants": evaluate(plan, data)}
    (directory / store.RESULT).write_text(json.dumps(found) + "\n")
    backbone_figures.draw(plan, data, directory)
    return dict(found)
