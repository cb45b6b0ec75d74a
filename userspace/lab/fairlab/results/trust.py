# SPDX-License-Identifier: GPL-2.0
"""Can a run be trusted?  The one gate that every measured run passes.

On a machine that is too slow, or with a network that is not what it should be, results look
plausible.  So each run records evidence, and is refused with the reason if that is against it:
packets that were lost where there is no link, too little memory for TCP, offloads, links at another
rate than theirs, flows that did not connect or ran another congestion control, interfaces whose
MTU, offloads or qdiscs were changed, problems that an agent or the kernel printed, a busy machine.

A pipeline fills in the evidence that it has.  What it lacks is not skipped in silence: check()
returns the names of these checks, and the conditions of a result say that they were not made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlab.model import units
from fairlab.model.errors import CannotRunError

#: While packets wait, a link must send at its rate, within this part of it.
RATE_TOLERANCE = 0.02
#: Less time with waiting packets shows nothing [s].
ENOUGH_WAITING = 0.5

MIN_IDLE = 0.05
MAX_STOLEN = 0.05
LONGEST_PAUSE = 1.0  # seconds without a sample


@dataclass(frozen=True)
class Frames:
    """What a sender or a link has sent: bytes of frames, their number, and the largest allowed."""

    size: int
    count: int
    most: int


@dataclass(frozen=True)
class LinkRate:
    """Samples of a link: times [s], bytes sent until then, bytes that waited; its rate [bit/s], and
    the bytes that it may send at once.
    """

    times: Sequence[float]
    sent: Sequence[float]
    waiting: Sequence[float]
    rate: int
    burst: int
    #: if so many bytes wait at both ends of a step, the link was busy; None: as many as it sends in
    #: the step
    surely: float | None = None
    #: the rate is constant; else it is the largest one, and the link may be slower
    steady: bool = True
    #: samples are taken at their times, so that they show a rate that is too high for a moment
    exact: bool = True


@dataclass(frozen=True)
class Ran:
    """A flow: its congestion control as asked for and as it was, and whether it sent anything."""

    asked: str
    kind: str
    sent: bool


#: What a run has recorded, by the names of CHECKS; None, or none: nothing about that.
Evidence = dict[str, Any]

#: A busy machine does not change what happens in virtual time.
OF_REAL_TIME = ("load", "samples")


def check(evidence: Evidence, virtual: bool, context: str = "") -> list[str]:
    """Raise CannotRunError if EVIDENCE is against the run, with CONTEXT before the reason.

    Return the names of the checks that lack evidence.  In VIRTUAL time those of the machine's load
    need none.
    """
    assert evidence.keys() <= CHECKS.keys()
    lacking = []
    for kind, (name, reason_of) in CHECKS.items():
        found = evidence.get(kind)
        if found is None:
            if not (virtual and kind in OF_REAL_TIME):
                lacking.append(name)
        elif reason := reason_of(found):
            raise CannotRunError(f"{context}: {reason}" if context else reason)
    return lacking


def gathered(document: Mapping[str, Any], **more: Any) -> Evidence:
    """What every run records (run/evidence.py), and MORE; stored runs may lack some of it.

    Most have no agents.  In virtual time the load of the machine means nothing.
    """
    load = document["load"]
    return {
        "between": load["backlog_drops"],
        "memory": document.get("out_of_memory"),
        "agents": document.get("agents", {}),
        "kernel": document.get("kernel_errors"),
        "changed": document.get("changed"),
        "load": None if document.get("virtual") else load,
    } | more


#: The name of the checks that were not made, among the conditions of a result.
NOT_CHECKED = "not checked"
#: What the conditions of a result have of what its run records.
ENVIRONMENT = ("kernel", "engine", "tools", "modules")


def conditions(document: Mapping[str, Any], lacking: Sequence[str]) -> dict[str, Any]:
    """The conditions of a result: what it ran on, and the checks that were not made."""
    return {name: document[name] for name in ENVIRONMENT} | condition(lacking)


def condition(lacking: Sequence[str]) -> dict[str, str]:
    """For the conditions of a result: the checks that were not made."""
    return {NOT_CHECKED: ", ".join(lacking)} if lacking else {}


def lines(conditions: Mapping[str, Any]) -> list[str]:
    """For a user: a line for the checks that were not made, if there are any."""
    found = conditions.get(NOT_CHECKED)
    # Of several runs, what some of them lack.
    texts = found if isinstance(found, list) else [found] if found else []
    return [f"{NOT_CHECKED}: {text}" for text in texts]


def check_between(count: int) -> str:
    return f"{count} packets were lost between namespaces, where there is no link" if count else ""


def check_delays(count: int) -> str:
    return f"{count} packets were lost in the delays: netem's limit is too small" if count else ""


def check_memory(counters: Mapping[str, int]) -> str:
    short = [f"{name} {count}" for name, count in counters.items() if count]
    return (
        f"TCP had too little memory, and dropped received packets: {', '.join(short)}"
        if short
        else ""
    )


def check_frames(frames: Mapping[str, Frames]) -> str:
    """The mean size must not exceed the largest."""
    for name, one in frames.items():
        if one.count and one.size / one.count > one.most:
            return (
                f"{name} sent packets of {one.size / one.count:.0f} bytes on average, on links for"
                f" {one.most}: an offload was on"
            )
    return ""


def busy_rate(link: LinkRate) -> float | None:
    """The rate while packets waited [bit/s]; None if they waited for too short a time.

    A queue that is longer than a step at both of its ends cannot have been empty in between.
    """
    took = sent = 0.0
    for a, b in pairwise(range(len(link.times))):
        step = link.times[b] - link.times[a]
        enough = link.rate * step / 8 if link.surely is None else link.surely
        if min(link.waiting[a], link.waiting[b]) > enough:
            took, sent = took + step, sent + 8 * (link.sent[b] - link.sent[a])
    return sent / took if took >= ENOUGH_WAITING else None


def check_rates(links: Mapping[str, LinkRate]) -> str:
    for name, link in links.items():
        for a, b in pairwise(range(len(link.times))):
            step = link.times[b] - link.times[a]
            bits = 8 * (link.sent[b] - link.sent[a])
            most = (1 + RATE_TOLERANCE) * link.rate * step + 8 * link.burst
            if link.exact and bits > most:
                return (
                    f"{name} sent {bits / step / 1e6:.1f} Mbit/s for a moment: more than its"
                    f" {units.format_rate(link.rate)}"
                )
        seen = busy_rate(link) if link.steady else None
        if seen is not None and abs(seen / link.rate - 1) > RATE_TOLERANCE:
            return (
                f"{name} sent {seen / 1e6:.1f} Mbit/s while packets waited, instead of"
                f" {units.format_rate(link.rate)}: this machine was too slow or too busy"
            )
    return ""


def check_flows(flows: Mapping[str, Ran]) -> str:
    for name, flow in flows.items():
        if flow.kind != flow.asked:
            return f"{name} ran with {flow.kind} instead of {flow.asked}"
        if not flow.sent:
            return f"{name} did not connect"
    return ""


def check_changed(settings: Sequence[str]) -> str:
    return f"the network was changed during the run: {settings[0]}" if settings else ""


def check_agents(printed: Mapping[str, str]) -> str:
    """Agents, here by their router, print problems only."""
    return next((f"slbnd at {name}: {text}" for name, text in printed.items() if text), "")


def check_kernel(errors: Sequence[str]) -> str:
    return f"the kernel reported: {errors[0]}" if errors else ""


def check_load(load: Mapping[str, float]) -> str:
    """CPU time of the machine: that was idle, all of it, and what a host took away."""
    total, stolen = load["total"], load["stolen"]
    if load["idle"] < MIN_IDLE * total:
        return (
            f"this machine's CPU was idle for only {100 * load['idle'] / total:.1f} % of the run:"
            " it may have been the limit; use a lower rate"
        )
    if stolen > MAX_STOLEN * total:
        share = 100 * stolen / total
        return (
            f"the host took {share:.0f} % of this machine's CPU away: it is too busy; use --steady"
        )
    return ""


def check_samples(times: Sequence[float]) -> str:
    pause = max((b - a for a, b in pairwise(times)), default=0.0)
    if pause > LONGEST_PAUSE:
        return f"this machine stood still for {pause:.1f} s during the run: too busy"
    return ""


#: By kind of evidence: what the check is called when it is not made, and the check.  Causes are
#: before their effects.
CHECKS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "between": ("packets lost between namespaces", check_between),
    "delays": ("packets lost in the delays", check_delays),
    "memory": ("TCP's memory", check_memory),
    "frames": ("sizes of packets", check_frames),
    "load": ("load of the machine", check_load),
    "samples": ("pauses of the machine", check_samples),
    "agents": ("what agents printed", check_agents),
    "kernel": ("what the kernel printed", check_kernel),
    "flows": ("connections and their congestion control", check_flows),
    "rates": ("rates of links", check_rates),
    "changed": ("changes of the network", check_changed),
}
