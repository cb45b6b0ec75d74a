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
from fairlab.slbn import abilene, backbone_figures, maxmin
from fairlab.slbn.backbone import FLOWS, VARIANTS, Plan
from fairlab.slbn.backbone_analysis import Run, reference_of
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
#: The part of what a flow sends that its share must be to be called enough: rates are rounded.
ENOUGH = 0.999
#: A dip: a second at rest with less than this part of the expected goodput.
DIP = 0.9


def evaluate_variant(run: Run) -> dict[str, Any]:
    plan, measured, slbn = run.plan, run.measured, run.variant.slbn
    found: dict[str, Any] = {
        "longest": run.paths.longest,
        "paths": measured["paths"],
        "flows": [evaluate_flow(run, number) for number in range(len(FLOWS))],
        "goodput": sum(
            rate * (min(end, plan.seconds) - begin)
            for one in measured["goodput"]
            for begin, end, rate in one
        )
        / plan.seconds,
        "wires": wires(run),
        "retransmits": run.retransmits,
        **whole_run(run),
        "paced_drops": measured["paced_drops"],
        "idle_share": measured["load"]["idle_share"],
    }
    if slbn:
        with_rate = [flow for flow in found["flows"] if flow["assigned_off"] is not None]
        at_rest = sum(flow["rest"] for flow in with_rate)
        found |= {
            "sessions": len(run.sessions),
            "assigned_off": sum(flow["assigned_off"] * flow["rest"] for flow in with_rate) / at_rest
            if at_rest
            else None,
            "booked": bookings(run),
            "changes": changes(run),
            "keys": measured["keys"],
            "without": dict(plan.without),
        }
    return found


def mean_of(values: list[float]) -> float | None:
    return mean(values) if values else None


def evaluate_flow(run: Run, number: int) -> dict[str, Any]:
    """A flow at rest: its assigned rate, its max-min rate, its goodput, the expected goodput.

    A flow that crosses links without SLBN is at rest by the reference of every link, as its demand
    follows its goodput; no goodput is expected, but there is a fair one, if links without SLBN
    share fairly.
    """
    plan, flow, reference, slbn = run.plan, FLOWS[number], run.reference, run.variant.slbn
    partial = slbn and plan.is_partial(run.paths.of(number))
    got, allowed, exact, assigned, fair = [], [], [], [], []
    own = reference.rests(number, SETTLE, plan.seconds)
    rests = run.every_link.rests(number, SETTLE, plan.seconds) if partial else own
    for begin, end, rate in run.measured["goodput"][number]:
        if not any(a <= begin and end <= b for a, b in rests):
            continue
        due = reference.mean(number, begin, end)
        may = run.assigned.mean(number, begin, end) if slbn else due
        got.append(rate)
        exact.append(due)
        assigned.append(may)
        allowed.append(flow.payload_part * run.used(number, begin, may))
        if partial:
            due = run.every_link.mean(number, begin, end)
            fair.append(flow.payload_part * run.used(number, begin, due))
    off = [
        (end - begin, abs(rates.get(number, 0.0) / reference.at(begin)[number] - 1))
        for a, b in own
        for begin, end, rates in run.assigned.steps(a, b)
        if slbn
    ]
    rest = sum(took for took, _ in off)
    expected = None if partial else mean_of(allowed)
    return {
        "flow": flow.label,
        "found": number in reference.flows,
        "partial": partial,
        "seconds": len(got),
        "rest": rest,
        "assigned": mean_of(assigned) if slbn else None,
        "assigned_off": sum(took * part for took, part in off) / rest if rest else None,
        "exact": mean_of(exact),
        "allowed": expected,
        "fair": mean_of(fair),
        "goodput": mean_of(got),
        "off": mean(got) / expected - 1 if expected else None,
        "dips": 0 if partial else sum(g < DIP * a for g, a in zip(got, allowed, strict=True)),
    }


def whole_run(run: Run) -> dict[str, float | None]:
    """Max-min goodput, losses and delays of all flows together; None: there is nothing of it.

    As `fairlab compare` has them: max-min goodput is the part of the max-min fair goodput on the
    links' full rates that flows got, without what a flow got above its own.  Loss is of the packets
    that hosts sent, wherever they were dropped; UDP's delay is less that of the empty path [ms].
    """
    hosts, totals = run.measured["hosts"], run.measured["totals"]
    fair, below = fair_shares(run)
    got = [one["got"] for one in totals]
    tcp = [n for n, flow in enumerate(FLOWS) if flow.kind != UDP]
    udp = [n for n, flow in enumerate(FLOWS) if flow.kind == UDP]
    sent, arrived = (
        hosts[end] - sum(totals[n][key] for n in udp) / UDP_PAYLOAD
        for end, key in (("sent", "sent"), ("arrived", "got"))
    )
    segments = sum(totals[n]["segments"] for n in tcp)
    waited = waits.of((totals[n], abilene.WHOLE.delay_of(run.paths.of(n)) / 1000) for n in udp)
    return {
        "loss": 1 - hosts["arrived"] / hosts["sent"],
        "maxmin": sum(map(min, got, fair)) / sum(fair),
        "loss_tcp": max(0.0, 1 - arrived / sent),
        "retransmitted": run.retransmits / segments,
        "udp50": waits.percentile(waited, 50),
        "udp99": waits.percentile(waited, 99),
        "loss_below": 1 - sum(got[n] for n in below) / sum(totals[n]["sent"] for n in below)
        if below
        else None,
    }


def fair_shares(run: Run) -> tuple[list[float], list[int]]:
    """Each flow's max-min fair payload [bytes]; the UDP flows that never send more than theirs."""
    plan, sessions = run.plan, run.planned_sessions
    # Links assign all of their rate, as without SLBN.
    reference = reference_of(run.paths, dict.fromkeys(run.paths.used, plan.rate), sessions)
    shares = [
        reference.mean(number, 0, plan.seconds) * plan.seconds * flow.payload_part / 8
        for number, flow in enumerate(FLOWS)
    ]
    below = [
        number
        for number, flow in enumerate(FLOWS)
        if flow.kind == UDP
        and all(
            rates[number] >= ENOUGH * maxmin.last(sessions[number].demands, when)
            for when in reference.times
            if number in (rates := reference.at(when))
        )
    ]
    return shares, below


def wires(run: Run) -> dict[str, dict[str, float]]:
    """Of each link: utilisation (0 to 1) and queue [s]."""
    plan, slbn, measured = run.plan, run.variant.slbn, run.measured
    times = measured["times"]
    took = times[-1] - times[0]
    found = {}
    for wire, kept in measured["wires"].items():
        held = sorted(size * 8 / plan.rate for size in kept["held"])
        sent = [8 * size / plan.rate for size in kept["sent"]]
        found[wire] = {
            "use": (sent[-1] - sent[0]) / took,
            "use_most": max(run.use(wire)),
            "queue": held[int(0.95 * (len(held) - 1))],
            "queue_most": held[-1],
            "drops": kept["drops"][-1] - kept["drops"][0],
            "control": 8 * (kept["control"][-1] - kept["control"][0]) / plan.rate / took,
            "waits_for_time": slbn and is_uplink(wire),
            "slbn": slbn and plan.takes_part(wire),
        }
    return found


def bookings(run: Run) -> dict[str, dict[str, float]]:
    """Of each link: the sum of assigned rates, as a fraction of its capacity."""
    plan, found = run.plan, {}
    for wire, capacity in sorted(run.capacity().items()):
        own = [s for s in run.sessions if wire in run.paths.of(s.flow, s.back)]
        if not own:
            continue
        times = {when for session in own for when, _ in session.rates}
        times |= {min(session.until, plan.seconds) for session in own} | {plan.seconds}
        took = total = most = 0.0
        for a, b in pairwise(sorted(when for when in times if when <= plan.seconds)):
            sums = sum(maxmin.last(s.rates, a) for s in own if s.since <= a < s.until)
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


def changes(run: Run) -> list[dict[str, Any]]:
    """The longest time, after each change, until all assigned rates had settled.

    Demands of agents change the reference a few more times before the next change; these count,
    too.
    """
    seconds = run.plan.seconds
    planned = planned_changes(run.plan)
    found = []
    for (when, what), (until, _) in zip(planned, [*planned[1:], (seconds, "")], strict=True):
        row: dict[str, Any] = {"when": when, "what": what}
        moves = run.reference.moves(range(len(FLOWS)))
        row["moves"] = [move for move in moves if when <= move < until]
        for key, tolerance in (("close", CLOSE), ("there", THERE)):
            own = [b - a for a, b in run.episodes(tolerance) if when <= a < until]
            row[key] = max(own, default=0.0)
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
    columns = [[f"{text:16}" for text in ("Mbit/s", *(flow.label for flow in FLOWS))]]

    def add(name: str, head: str, width: int, key: str, show: Callable[[float], str]) -> None:
        texts = (known(flow[key], show) for flow in variants[name]["flows"])
        columns.append([f"{text:>{width}}" for text in (head, *texts)])

    def mbits(bps: float) -> str:
        return f"{bps / 1e6:.3f}"

    def signed(part: float) -> str:
        return f"{100 * part:+.1f} %"

    if "slbn" in variants:
        add("slbn", "assigned", 10, "assigned", mbits)
        add("slbn", "max-min", 9, "exact", mbits)
        add("slbn", "off", 9, "assigned_off", percent)
        add("slbn", "expected", 10, "allowed", mbits)
        add("slbn", "goodput", 9, "goodput", mbits)
        add("slbn", "off", 9, "off", signed)
    for name in (name for name in variants if name != "slbn"):
        add(name, name, 10, "goodput", mbits)
        add(name, "off", 9, "off", signed)
    if any(flow["partial"] for found in variants.values() for flow in found["flows"]):
        add("slbn", "all links", 11, "fair", mbits)
    return ["".join(line) for line in zip(*columns, strict=True)]


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


class Backbone(Plan, Job[dict[str, Any]]):
    """A run on the backbone, as a job."""

    kind = "backbone"

    def duration(self) -> float:
        return self.seconds * len(self.variants)

    def build(self) -> None:
        engine.make(["tc-plugins", "tools", "traffic"], ())

    def read(self, work: Path) -> dict[str, Any]:
        runs = {name: Run.read(self, name, work) for name in self.variants}
        around = trust.conditions(next(iter(runs.values())).measured, [])
        return write_results(self, runs, around, work)


def write_results(
    plan: Plan, runs: dict[str, Run], around: dict[str, Any], directory: Path
) -> dict[str, Any]:
    """Evaluate RUNS of all variants, AROUND which was this environment.

    Result and figures are left in DIRECTORY.
    """
    lacking = {name: run.check() for name, run in runs.items()}
    variants = {
        name: evaluate_variant(run) | trust.condition(lacking[name]) for name, run in runs.items()
    }
    found = around | {"plan": plan.to_json(), "variants": variants}
    (directory / store.RESULT).write_text(json.dumps(found) + "\n")
    backbone_figures.draw(plan, runs, directory)
    return found
