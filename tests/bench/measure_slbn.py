# SPDX-License-Identifier: GPL-2.0
"""The cost of SLBN per packet, measured in one boot of one kernel, as root.

A point is one of

    task        a link's task for one control packet alone, by sessions on the link and entries of
                its memory
    control     a control packet through the qdisc: classified, checked, processed by the task,
                rewritten, enqueued and dequeued
    keys        a control packet through the qdisc without a key, with one key, and with the older
                and the newer of two
    data        a data packet through slbn and a child, and through the same child without slbn,
                by child; a hundred flows, as in the benchmark of drr_fq (measure.py)
    route       a data packet's whole path through a router, with allocation and freeing; with slbn
                on the input and the output device; with prio instead, which has two classes, too;
                and with pfifo, which the stack bypasses while it is empty

Candidates are measured in turn, repeatedly, so that other load of the machine affects all of them.
The value of a turn is the median of short slices, minus (except for routed packets) the cost of the
same loop without the measured code.  For the kernel module see sbench.c and qbench.c.

The run fails unless the link has counted the intended number of sessions, corrected and dropped
nothing, and the qdiscs have dequeued all packets.

Prints JSON.  Requirements: as for measure.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.measure import LENGTH, Session, State, WrongError, run, spread
from tests.kernel.genetlink import Genetlink, given

SLICE = 1000  # packets timed together
FLOWS = 100
RATE = "100gbit"
ENTRIES = (0, 65_536, 524_288)
CHILDREN = {
    "pfifo": "pfifo limit 1000000",
    "fq_codel": "fq_codel limit 1000000 flows 16384 memory_limit 2gb target 600s interval 700s",
    "drr_fq": "drr_fq limit 1000000 limit_bytes 1gb flows 16384",
}
#: Counters of a link that must stay 0.
FAULTS = [
    *("corrected", "clamped", "stale", "wrong_path", "too_many_hops", "malformed"),
    *("overuse", "bad_checksum", "fragments", "bad_key", "unknown_key", "bad_time"),
    *("bad_return", "unknown_link", "no_address", "from_hosts", "rate_limited"),
]

Costs = dict[str, list[float]]


def device(name: str) -> str:
    run("ip", "link", "add", name, "type", "dummy")
    run("ip", "link", "set", name, "arp", "off", "addrgenmode", "none")
    # To which answers would return; without one the link drops control packets.
    run("ip", "addr", "add", "192.0.2.1/32", "dev", name)
    run("ip", "link", "set", name, "up")
    return name


def slbn(name: str, options: str = "", child: str = "") -> None:
    words = f"rate {RATE} epoch 0 control 100% {options}".split()
    run("tc", "qdisc", "add", "dev", name, "root", "handle", "1:", "slbn", *words)
    if child:
        run("tc", "qdisc", "add", "dev", name, "parent", "1:2", "handle", "2:", *child.split())


def shown(name: str) -> dict[str, Any]:
    """The root qdisc as tc shows it."""
    found: dict[str, Any] = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", name))[0]
    return found


def check_link(name: str, sessions: int) -> None:
    """Check the link's number of sessions, and that its error counters are 0."""
    state = shown(name)
    wrong = {fault: state[fault] for fault in FAULTS if state[fault]}
    if wrong or (state["N"], state["joins"]) != (sessions, sessions):
        raise WrongError(f"{name}: {state['N']} sessions, not {sessions}; {wrong}")


def timed(session: Session, mode: str, slices: int) -> float:
    """Nanoseconds per packet."""
    answer = session.ask(f"slbn {mode} {slices} {SLICE}")
    return statistics.median(int(word) for word in answer) / SLICE


def in_turn(beds: dict[str, Callable[[], float]], turns: int) -> Costs:
    """The cost of each candidate in each turn."""
    costs: Costs = {name: [] for name in beds}
    for _ in range(turns):
        for name, bed in beds.items():
            costs[name].append(bed())
    return costs


def net_cost(session: Session, slices: int) -> Callable[[], float]:
    return lambda: timed(session, "run", slices) - timed(session, "loop", slices)


def measure_task(sessions: list[int], turns: int, slices: int) -> list[dict[str, Any]]:
    points = []
    for entries in ENTRIES:
        opened = {count: Session() for count in sessions}
        for count, session in opened.items():
            words = session.ask(f"slbn task {count} {entries}")
            state = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            if (state["N"], state["new_sessions"], state["clamped"]) != (count, count, 0):
                raise WrongError(f"task: {count} sessions: {state}")
        beds = {str(count): net_cost(session, slices) for count, session in opened.items()}
        for name, costs in in_turn(beds, turns).items():
            points.append(
                {"kind": "task", "sessions": int(name), "entries": entries, "ns": spread(costs)}
            )
        for session in opened.values():
            session.close()
    return points


def measure_control(sessions: list[int], turns: int, slices: int) -> list[dict[str, Any]]:
    points = []
    for entries in ENTRIES:
        opened: dict[int, Session] = {}
        for count in sessions:
            name = device(f"c{count}")
            slbn(name, f"memory {entries}")
            opened[count] = Session()
            opened[count].ask(f"slbn control {name} {count}")
            check_link(name, count)
        beds = {str(count): net_cost(session, slices) for count, session in opened.items()}
        for name, costs in in_turn(beds, turns).items():
            points.append(
                {"kind": "control", "sessions": int(name), "entries": entries, "ns": spread(costs)}
            )
        for count, session in opened.items():
            check_link(f"c{count}", count)
            session.close()
            run("ip", "link", "del", f"c{count}")
    return points


def add_key(name: str, number: int) -> None:
    """The key of the measured packets if NUMBER is 1, else another one."""
    secret = bytes(16) if number == 1 else b"1" * 16
    with contextlib.closing(Genetlink()) as family:
        family.add_key(given(ifname=name, key_id=number, key=secret))


def measure_keys(turns: int, slices: int) -> list[dict[str, Any]]:
    """By the keys that the link has; packets have key 1."""
    count, entries = 1000, 65_536
    held = {"none": [], "one": [1], "older of two": [1, 2], "newer of two": [2, 1]}
    opened: dict[str, Session] = {}
    for number, (keys, numbers) in enumerate(held.items()):
        name = device(f"k{number}")
        slbn(name, f"memory {entries}")
        for key in numbers:
            add_key(name, key)
        opened[keys] = Session()
        opened[keys].ask(f"slbn control {name} {count}" + (" 1" if numbers else ""))
        check_link(name, count)
    costs = in_turn({keys: net_cost(session, slices) for keys, session in opened.items()}, turns)
    for number, session in enumerate(opened.values()):
        check_link(f"k{number}", count)
        session.close()
        run("ip", "link", "del", f"k{number}")
    return [
        {"kind": "keys", "keys": keys, "sessions": count, "entries": entries, "ns": spread(each)}
        for keys, each in costs.items()
    ]


def data_cost(session: Session, mode: str, slices: int) -> float:
    state = State.of(session.ask(f"{mode} {slices} {SLICE} unhashed"))
    if mode == "steady" and (state.departures, state.drops) != (slices * SLICE, 0):
        raise WrongError(f"{state.departures} packets sent and {state.drops} dropped")
    return statistics.median(state.slices) / SLICE


def measure_data(turns: int, slices: int) -> list[dict[str, Any]]:
    opened: dict[str, Session] = {}
    for child, options in CHILDREN.items():
        for around in ("", "slbn "):
            name = device(f"d{len(opened)}")
            if around:
                slbn(name, child=options)
            else:
                run("tc", "qdisc", "add", "dev", name, "root", "handle", "2:", *options.split())
            opened[around + child] = session = Session()
            session.ask(f"open {name} {FLOWS} 4 {LENGTH}")
            session.ask(f"fill {3 * FLOWS}")

    def cost(session: Session) -> Callable[[], float]:
        return lambda: data_cost(session, "steady", slices) - data_cost(session, "pool", slices)

    costs = in_turn({name: cost(session) for name, session in opened.items()}, turns)
    for i, (name, session) in enumerate(opened.items()):
        if name.startswith("slbn"):
            check_link(f"d{i}", 0)
        session.close()
        run("ip", "link", "del", f"d{i}")
    return [
        {
            "kind": "data",
            "child": child,
            "bare": spread(costs[child]),
            "slbn": spread(costs[f"slbn {child}"]),
            "adds": spread(
                [a - b for a, b in zip(costs[f"slbn {child}"], costs[child], strict=True)]
            ),
        }
        for child in CHILDREN
    ]


def measure_route(turns: int, slices: int) -> list[dict[str, Any]]:
    for name in ("rin", "rout"):
        device(name)
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
    Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    run("ip", "route", "add", "192.0.2.0/24", "dev", "rout")
    session = Session()
    session.ask("slbn route rin")

    def cost(options: str) -> Callable[[], float]:
        def measured() -> float:
            for name in ("rin", "rout"):
                if options == "slbn":
                    slbn(name)
                else:
                    run("tc", "qdisc", "add", "dev", name, "root", *options.split())
            timed(session, "run", 5)
            value = timed(session, "run", slices)
            sent = shown("rout")["packets"]
            if sent < SLICE * (5 + slices):
                raise WrongError(f"{sent} packets were routed")
            for name in ("rin", "rout"):
                run("tc", "qdisc", "del", "dev", name, "root")
            return value

        return measured

    costs = in_turn({options: cost(options) for options in ("pfifo", "prio", "slbn")}, turns)
    session.close()
    for name in ("rin", "rout"):
        run("ip", "link", "del", name)
    return [
        {
            "kind": "route",
            "qdisc": name,
            "ns": spread(values),
            "ratio": spread([a / b for a, b in zip(values, costs["prio"], strict=True)]),
        }
        for name, values in costs.items()
    ]


def say(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, action="append", help="(repeatable)")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--slices", type=int, default=40)
    arguments = parser.parse_args()
    sessions = arguments.sessions or [1, 1000, 1_000_000]
    turns, slices = arguments.turns, arguments.slices
    try:
        say("the link's task")
        points = measure_task(sessions, turns, slices)
        say("control packets")
        points += measure_control(sessions, turns, slices)
        say("authenticated packets")
        points += measure_keys(turns, slices)
        say("data packets")
        points += measure_data(turns, slices)
        say("routed packets")
        points += measure_route(turns, slices)
    except WrongError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    json.dump({"turns": turns, "slices": slices, "slice": SLICE, "points": points}, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
