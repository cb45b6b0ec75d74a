# SPDX-License-Identifier: GPL-2.0
"""Results of a run on the backbone, and checks of SLBN's properties.

The properties are the paper's (NCA 2012, sections I and V), on real flows: sessions are assigned
their max-min rates within a few round-trip times of each change; assigned rates do not exceed a
link's capacity, on average; queues stay short; and a paced flow has the goodput of its rate.

Rates are compared with the max-min reference of backbone_analysis.py.  A flow is at rest when its
reference has not changed for SETTLE seconds; TCP needs some of that, and goodput is by the second.
Rates are of frames on the link, so goodput is lower by the headers.

A run is refused if the machine may have limited it.
"""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from fairlab.model import units
from fairlab.model.errors import LabError
from fairlab.results import store, trust, waits
from fairlab.run import engine
from fairlab.run.job import Job
from fairlab.slbn import abilene, backbone, backbone_analysis, backbone_figures, record
from fairlab.slbn.backbone import FLOWS, VARIANTS, Paths, Plan
from fairlab.slbn.backbone_analysis import Moment, Reference, Session
from fairlab.slbn.experiment import UDP, UDP_PAYLOAD
from fairlab.slbn.network import is_uplink

SETTLE = 2.0  # seconds

# Limits of the checks.
ASSIGNED, GOODPUT = 0.01, 0.05
BOOKED = 1 + ASSIGNED
CLOSE, THERE = 0.05, 0.01
ROUND_TRIPS = 12
#: The demand of a TCP flow that a link without SLBN limits, as a multiple of what it gets.
DEMAND = 1.5
#: How far the goodput across links with drr_fq and without SLBN may be off the fair one.
FAIR = 0.1
#: Links assign all of their rate, as without SLBN.
FULL = VARIANTS["pfifo"]
#: The part of what a flow sends that its share must be to be called enough: rates are rounded.
ENOUGH = 0.999
#: A dip: a second at rest with less than this part of the expected goodput.
DIP = 0.9


def check(plan: Plan, name: str, measured: dict[str, Any]) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    return record.check(backbone.of_variant(plan, name), measured, measured["heads"], name)


def evaluate_variant(plan: Plan, name: str, measured: dict[str, Any]) -> dict[str, Any]:
    slbn = VARIANTS[name].slbn
    paths = Paths(**measured["paths"])
    reference, sessions = backbone_analysis.build(plan, name, measured)
    moments = list(backbone_analysis.history(reference, sessions, plan.seconds)) if slbn else []
    every_link = None
    if slbn and plan.without:
        every_link, _ = backbone_analysis.build(plan, name, measured, every_link=True)
    evaluated = [
        evaluate_flow(
            plan,
            number,
            measured["goodput"][number],
            reference,
            moments,
            every_link if plan.is_partial(paths.of(number)) else None,
        )
        for number in range(len(FLOWS))
    ]
    found: dict[str, Any] = {
        "longest": paths.longest,
        "paths": measured["paths"],
        "flows": evaluated,
        "goodput": sum(
            rate * (min(end, plan.seconds) - begin)
            for one in measured["goodput"]
            for begin, end, rate in one
        )
        / plan.seconds,
        "wires": wires(plan, name, measured),
        "retransmits": sum(measured["retransmits"]),
        **whole_run(plan, measured),
        "paced_drops": measured["paced_drops"],
        "idle_share": measured["load"]["idle_share"],
    }
    if slbn:
        with_rate = [flow for flow in found["flows"] if flow["assigned_off"] is not None]
        at_rest = sum(flow["rest"] for flow in with_rate)
        found |= {
            "sessions": len(sessions),
            "assigned_off": sum(flow["assigned_off"] * flow["rest"] for flow in with_rate) / at_rest
            if at_rest
            else None,
            "booked": bookings(plan, name, sessions),
            "changes": changes(plan, reference, moments),
            "keys": measured["keys"],
            "without": dict(plan.without),
        }
    return found


def cut(moments: list[Moment], begin: float, end: float) -> list[Moment]:
    """The part of MOMENTS from BEGIN to END."""
    return [
        Moment(max(m.begin, begin), min(m.end, end), m.beside)
        for m in moments
        if m.begin < end and m.end > begin
    ]


def mean_assigned(moments: list[Moment], number: int, begin: float, end: float) -> float:
    """The mean rate that a flow was assigned [bit/s]."""
    now = cut(moments, begin, end)
    return sum((m.end - m.begin) * m.beside[number][0] for m in now) / (end - begin)


def evaluate_flow(
    plan: Plan,
    number: int,
    goodput: list[tuple[float, float, float]],
    reference: Reference,
    moments: list[Moment],
    every_link: Reference | None,
) -> dict[str, Any]:
    """A flow at rest: its assigned rate, its max-min rate, its goodput, the expected goodput.

    EVERY_LINK is the reference of all links, for a flow that crosses links without SLBN.  It is at
    rest by that reference, as its demand follows its goodput; no goodput is expected, but there is
    a fair one, if links without SLBN share fairly.
    """
    flow = FLOWS[number]
    partial = every_link is not None
    rests = backbone_analysis.rests(every_link or reference, number, SETTLE, plan.seconds)
    got, allowed, exact, assigned, fair = [], [], [], [], []
    for begin, end, rate in goodput:
        if not any(a <= begin and end <= b for a, b in rests):
            continue
        due = reference.mean(number, begin, end)
        may = mean_assigned(moments, number, begin, end) if moments else due
        got.append(rate)
        exact.append(due)
        assigned.append(may)
        allowed.append(flow.payload_part * plan.used(flow, begin, may))
        if every_link:
            due = every_link.mean(number, begin, end)
            fair.append(flow.payload_part * plan.used(flow, begin, due))
    off = [
        (moment.end - moment.begin, abs(moment.beside[number][0] / moment.beside[number][1] - 1))
        for a, b in backbone_analysis.rests(reference, number, SETTLE, plan.seconds)
        for moment in cut(moments, a, b)
    ]
    rest = sum(took for took, _ in off)
    expected = mean(allowed) if allowed and not partial else None
    return {
        "flow": flow.label,
        "found": number in reference.flows,
        "partial": partial,
        "seconds": len(got),
        "rest": rest,
        "assigned": mean(assigned) if assigned and moments else None,
        "assigned_off": sum(took * part for took, part in off) / rest if rest else None,
        "exact": mean(exact) if exact else None,
        "allowed": expected,
        "fair": mean(fair) if fair else None,
        "goodput": mean(got) if got else None,
        "off": mean(got) / expected - 1 if expected else None,
        "dips": 0 if partial else sum(g < DIP * a for g, a in zip(got, allowed, strict=True)),
    }


def whole_run(plan: Plan, measured: dict[str, Any]) -> dict[str, float | None]:
    """Max-min goodput, losses and delays of all flows together; None: there is nothing of it.

    As `fairlab compare` has them: max-min goodput is the part of the max-min fair goodput on the
    links' full rates that flows got, without what a flow got above its own.  Loss is of the packets
    that hosts sent, wherever they were dropped; UDP's delay is less that of the empty path [ms].
    """
    hosts, totals = measured["hosts"], measured["totals"]
    fair, below = fair_shares(plan, measured)
    got = [one["got"] for one in totals]
    tcp = [n for n, flow in enumerate(FLOWS) if flow.kind != UDP]
    udp = [n for n, flow in enumerate(FLOWS) if flow.kind == UDP]
    sent, arrived = (
        hosts[end] - sum(totals[n][key] for n in udp) / UDP_PAYLOAD
        for end, key in (("sent", "sent"), ("arrived", "got"))
    )
    segments = sum(totals[n]["segments"] for n in tcp)
    paths = Paths(**measured["paths"])
    waited = waits.of((totals[n], abilene.delay_of(paths.of(n)) / 1000) for n in udp)
    return {
        "loss": 1 - hosts["arrived"] / hosts["sent"],
        "maxmin": sum(map(min, got, fair)) / sum(fair),
        "loss_tcp": max(0.0, 1 - arrived / sent),
        "retransmitted": sum(measured["retransmits"]) / segments,
        "udp50": waits.percentile(waited, 50),
        "udp99": waits.percentile(waited, 99),
        "loss_below": 1 - sum(got[n] for n in below) / sum(totals[n]["sent"] for n in below)
        if below
        else None,
    }


def fair_shares(plan: Plan, measured: dict[str, Any]) -> tuple[list[float], list[int]]:
    """Each flow's max-min fair payload [bytes]; the UDP flows that never send more than theirs."""
    oracle = backbone_analysis.Oracle(plan, FULL, Paths(**measured["paths"]), every_link=True)
    sessions = backbone_analysis.planned_sessions(plan, measured)
    reference = oracle.reference(sessions, acks=False)
    shares = [
        reference.mean(number, 0, plan.seconds) * plan.seconds * flow.payload_part / 8
        for number, flow in enumerate(FLOWS)
    ]
    below = [
        number
        for number, flow in enumerate(FLOWS)
        if flow.kind == UDP
        and all(
            rates[number] >= ENOUGH * backbone_analysis.last(sessions[number].demands, when)
            for when in reference.times
            if number in (rates := reference.at(when))
        )
    ]
    return shares, below


def wires(plan: Plan, name: str, measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each link: utilisation (0 to 1) and queue [s]."""
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
            "slbn": VARIANTS[name].slbn and plan.takes_part(wire),
        }
    return found


def bookings(plan: Plan, name: str, sessions: list[Session]) -> dict[str, dict[str, float]]:
    """Of each link: the sum of assigned rates, as a fraction of its capacity."""
    capacity = VARIANTS[name].capacity(plan.rate)
    found = {}
    used = {wire for session in sessions for wire in session.wires}
    for wire in sorted(filter(plan.takes_part, used)):
        own = [session for session in sessions if wire in session.wires]
        times = {when for session in own for when, _ in session.rates}
        times |= {min(session.until, plan.seconds) for session in own} | {plan.seconds}
        took = total = most = 0.0
        for a, b in pairwise(sorted(when for when in times if when <= plan.seconds)):
            sums = sum(backbone_analysis.last(s.rates, a) for s in own if s.since <= a < s.until)
            took += b - a
            total += (b - a) * sums / capacity
            most = max(most, sums / capacity)
        found[wire] = {"mean": total / took, "most": most}
    return found


def planned_changes(plan: Plan) -> list[tuple[int, str]]:
    """The times at which flows join, change and leave, with a text."""
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


def changes(plan: Plan, reference: Reference, moments: list[Moment]) -> list[dict[str, Any]]:
    """The longest time, after each change, until all assigned rates had settled.

    Demands of agents change the reference a few more times before the next change; these count,
    too.
    """
    planned = planned_changes(plan)
    found = []
    for (when, what), (until, _) in zip(planned, [*planned[1:], (plan.seconds, "")], strict=True):
        row: dict[str, Any] = {"when": when, "what": what}
        row["moves"] = [move for move in reference.moves(range(len(FLOWS))) if when <= move < until]
        for key, tolerance in (("close", CLOSE), ("there", THERE)):
            own = backbone_analysis.episodes(reference, moments, tolerance)
            row[key] = max((b - a for a, b in own if when <= a < until), default=0.0)
        found.append(row)
    return found


def quiet(found: dict[str, Any], key: str, slbn: bool = False) -> float:
    """The largest KEY of the links that do not pace packets, or of these with SLBN."""
    return float(
        max(
            w[key]
            for w in found["wires"].values()
            if not w["waits_for_time"] and (w["slbn"] or not slbn)
        )
    )


def checks(found: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each check: did it pass, and its text."""
    for flow in found["flows"]:
        if flow["found"] and flow["goodput"] is None:
            raise LabError(f"{flow['flow']} was never in steady state; use a longer --time")
    flows = [flow for flow in found["flows"] if flow["found"]]
    whole = [flow for flow in flows if not flow["partial"]]
    if not whole or found["assigned_off"] is None:
        raise LabError("no agent has detected a flow")
    worst = max(whole, key=lambda flow: abs(flow["off"]))
    booked = max(wire["mean"] for wire in found["booked"].values())
    close = max(change["close"] for change in found["changes"])
    there = max(change["there"] for change in found["changes"])
    queue, longest = quiet(found, "queue_most", slbn=True), found["longest"]

    def rtts(seconds: float) -> str:
        return f"{seconds / longest:.1f}"

    return [
        (len(flows) == len(FLOWS), f"flows detected by their agents: {len(flows)} of {len(FLOWS)}"),
        (
            found["assigned_off"] <= ASSIGNED,
            f"assigned rates, in steady state: {percent(found['assigned_off'], 2)} off the"
            f" max-min rates on average (at most {percent(ASSIGNED)})",
        ),
        (
            abs(worst["off"]) <= GOODPUT,
            f"goodput, in steady state: at most {percent(abs(worst['off']))} off that of the"
            f" assigned rate ({worst['flow']}; at most {percent(GOODPUT)})",
        ),
        (
            booked <= BOOKED,
            f"sum of a link's assigned rates, on average: at most {percent(booked)} of its capacity"
            f" (at most {percent(BOOKED, 0)})",
        ),
        (
            queue <= longest,
            f"links' queues: {1000 * queue:.0f} ms at most (at most the longest path's round-trip"
            f" time, {1000 * longest:.0f} ms)",
        ),
        (
            max(close, there) <= ROUND_TRIPS * longest,
            f"all assigned rates settle after a change: within {percent(CLOSE, 0)} in {rtts(close)}"
            f" round-trip times, within {percent(THERE, 0)} in {rtts(there)} (at most"
            f" {ROUND_TRIPS})",
        ),
        *partial_checks(found["flows"], found["without"]),
        *key_checks(found["keys"]),
    ]


def partial_checks(
    flows: list[dict[str, Any]], without: dict[str, str]
) -> Iterator[tuple[bool, str]]:
    """The checks of what crosses links without SLBN: TCP's demands, and if these share fairly,
    goodput.
    """
    crossing = {n: flow for n, flow in enumerate(flows) if flow["partial"] and flow["found"]}
    used = {
        flow["flow"]: FLOWS[number].payload_part * flow["assigned"] / flow["goodput"]
        for number, flow in crossing.items()
        if FLOWS[number].kind != UDP
    }
    if used:
        most = max(used, key=lambda label: used[label])
        yield (
            used[most] <= DEMAND,
            "assigned rates of TCP flows across links without SLBN, in steady state: at most"
            f" {percent(used[most], 0)} of what they get ({most}; at most {percent(DEMAND, 0)})",
        )
    if crossing and set(without.values()) == {"drr_fq"}:
        off = {one["flow"]: abs(one["goodput"] / one["fair"] - 1) for one in crossing.values()}
        worst = max(off, key=lambda label: off[label])
        yield (
            off[worst] <= FAIR,
            f"goodput across links without SLBN, in steady state: at most {percent(off[worst])} off"
            f" the max-min goodput of all links ({worst}; at most {percent(FAIR, 0)})",
        )


def key_checks(keys: dict[str, Any] | None) -> Iterator[tuple[bool, str]]:
    """The check of key rotation, if there was one."""
    if keys:
        count = sum(keys["dropped"].values())
        yield (
            bool(keys["replaced"]) and not count,
            f"keys replaced {keys['replaced']} times; control packets dropped for their key or"
            f" time: {count} (0)",
        )


def percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def known(value: float | None, show: Callable[[float], str]) -> str:
    return "-" if value is None else show(value)


def flow_table(variants: dict[str, Any]) -> list[str]:
    """The results of each flow; without SLBN its goodput only."""
    slbn = variants.get("slbn")
    others = [name for name in variants if name != "slbn"]
    head = f"{'Mbit/s':16}"
    if slbn:
        head += f"{'assigned':>10}{'max-min':>9}{'off':>9}{'expected':>10}{'goodput':>9}{'off':>9}"
    head += "".join(f"{name:>10}{'off':>9}" for name in others)
    partial = bool(slbn) and any(row["partial"] for row in slbn["flows"])
    head += f"{'all links':>11}" if partial else ""
    lines = [head]

    def rate(value: float | None, width: int) -> str:
        return f"{'-':>{width}}" if value is None else f"{value / 1e6:{width}.3f}"

    def part(value: float | None, sign: str = "+") -> str:
        return f"{'-':>9}" if value is None else f"{100 * value:{sign}7.1f} %"

    for number, flow in enumerate(FLOWS):
        text = f"{flow.label:16}"
        if slbn:
            row = slbn["flows"][number]
            text += (
                rate(row["assigned"], 10) + rate(row["exact"], 9) + part(row["assigned_off"], "")
            )
            text += rate(row["allowed"], 10) + rate(row["goodput"], 9) + part(row["off"])
        for name in others:
            row = variants[name]["flows"][number]
            text += rate(row["goodput"], 10) + part(row["off"])
        if slbn and partial:
            text += rate(slbn["flows"][number]["fair"], 11)
        lines.append(text)
    return lines


def variant_table(variants: dict[str, Any]) -> list[str]:
    """The variants side by side."""
    columns = list(map(variant_column, variants.values()))
    lines = [" " * 36 + "".join(f"{name:>10}" for name in variants)]
    lines += [f"{row:36}" + "".join(f"{own[row]:>10}" for own in columns) for row in columns[0]]
    return lines + sum_lines(variants)


def variant_column(found: dict[str, Any]) -> dict[str, str]:
    """The results of a variant, by the name of the row."""
    off = [abs(flow["off"]) for flow in found["flows"] if flow["off"] is not None]
    every = found["wires"].values()
    drops = sum(wire["drops"] for wire in every)
    p50, p99 = (known(found[key], lambda ms: f"{ms:.1f} ms") for key in ("udp50", "udp99"))
    return {
        "goodput error, mean": percent(mean(off)) if off else "-",
        "               max": percent(max(off)) if off else "-",
        "               dips": f"{sum(flow['dips'] for flow in found['flows'])} s",
        "total goodput, Mbit/s": f"{found['goodput'] / 1e6:.1f}",
        "max-min goodput": percent(found["maxmin"]),
        "busiest link: utilisation, mean": percent(max(wire["use"] for wire in every)),
        "              busiest second": percent(max(wire["use_most"] for wire in every)),
        "              control packets": percent(max(wire["control"] for wire in every)),
        "longest queue, p95": f"{1000 * quiet(found, 'queue'):.0f} ms",
        "               maximum": f"{1000 * quiet(found, 'queue_most'):.0f} ms",
        "packets lost": str(drops + found["paced_drops"]),
        "             in links' queues": str(drops),
        "             in slbnd's pacers": str(found["paced_drops"]),
        "loss, links and pacers": percent(found["loss"], 2),
        "             of TCP": percent(found["loss_tcp"], 3),
        "             of UDP below its share": known(
            found["loss_below"], lambda part: percent(part, 3)
        ),
        "segments retransmitted": str(found["retransmits"]),
        "             of all": percent(found["retransmitted"], 2),
        "UDP delay, p50": p50,
        "           p99": p99,
    }


def sum_lines(variants: dict[str, Any]) -> list[str]:
    """SLBN's total goodput beside that of fq_codel."""
    if not {"slbn", "fq_codel"} <= variants.keys():
        return []
    ours, other = (variants[name]["goodput"] / 1e6 for name in ("slbn", "fq_codel"))
    return [
        f"total goodput: SLBN over FIFO links {ours:.1f} Mbit/s, fq_codel {other:.1f}"
        f" ({100 * (ours / other - 1):+.1f} %)"
    ]


def change_table(found: dict[str, Any]) -> list[str]:
    """How fast all assigned rates settle."""
    lines = [f"{'all assigned rates settle':32}{'within 5 %':>20}{'within 1 %':>20}"]
    for row in found["changes"]:
        text = f"{row['when']:3} s  {row['what']:26}"
        for key in ("close", "there"):
            text += f"{1000 * row[key]:8.0f} ms {row[key] / found['longest']:>5.1f} RTT"
        lines.append(text)
    return lines


def table(plan: Plan, document: dict[str, Any]) -> str:
    """The result as text."""
    variants = document["variants"]
    blocks = [
        [
            f"{len(FLOWS)} flows on Abilene's {len(abilene.NODES)} nodes, links of"
            f" {units.format_rate(plan.rate)}, {plan.seconds} s;"
            f" Linux {document['kernel']['release']}, {store.where(document['engine'])}",
            *describe(plan),
        ],
        flow_table(variants),
        variant_table(variants),
    ]
    if lacking := [f"{name}: {line}" for name in variants for line in trust.lines(variants[name])]:
        blocks.append(lacking)
    slbn = variants.get("slbn")
    if slbn:
        acks = slbn["sessions"] - len(FLOWS)
        assigned = VARIANTS["slbn"].capacity(plan.rate) / plan.rate
        blocks += [
            change_table(slbn),
            [
                "assigned: by slbnd. max-min: of all active sessions, including"
                f" {acks} reverse ACK sessions with",
                "the demands of their agents. expected: the goodput of the assigned rate. dips:",
                f"flow-seconds with less than {percent(DIP, 0)} of it, in steady state.",
                f"SLBN assigns {percent(assigned, 0)} of each link, a FIFO. RTT:"
                f" {1000 * slbn['longest']:.0f} ms, of the longest path. Packets that wait in",
                "slbnd's pacers, at access routers, are in no link's queue.",
                *(
                    ["all links: goodput across links without SLBN if these share fairly."]
                    if any(row["partial"] for row in slbn["flows"])
                    else []
                ),
            ],
            [f"{'ok    ' if ok else 'FAILED'}  {text}" for ok, text in checks(slbn)],
        ]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def describe(plan: Plan) -> list[str]:
    """What differs from the demo, in a line."""
    text = [] if plan.routing == abilene.SYMMETRIC else [f"{plan.paths} paths"]
    if plan.rotate_keys:
        text.append(f"a new key each {plan.rotate_keys} s")
    text += [f"{node} without SLBN ({kind})" for node, kind in plan.without]
    return ["; ".join(text)] if text else []


def failed(found: dict[str, Any]) -> list[str]:
    """The checks that failed."""
    slbn = found["variants"].get("slbn")
    return [text for ok, text in checks(slbn) if not ok] if slbn else []


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
        engine.make(["tc-plugins", "tools", "traffic"], ())

    def read(self, work: Path) -> dict[str, Any]:
        data = {name: backbone.read(self.plan, name, work) for name in self.plan.variants}
        around = trust.conditions(next(iter(data.values())), [])
        return write_results(self.plan, data, around, work)


def write_results(
    plan: Plan, data: dict[str, Any], around: dict[str, Any], directory: Path
) -> dict[str, Any]:
    """Evaluate the DATA of all variants, of a run AROUND which was this environment.

    Result and figures are left in DIRECTORY.
    """
    lacking = {name: check(plan, name, measured) for name, measured in data.items()}
    variants = {
        name: evaluate_variant(plan, name, measured) | trust.condition(lacking[name])
        for name, measured in data.items()
    }
    found = around | {"plan": plan.to_json(), "variants": variants}
    (directory / store.RESULT).write_text(json.dumps(found) + "\n")
    backbone_figures.draw(plan, data, directory)
    return found
