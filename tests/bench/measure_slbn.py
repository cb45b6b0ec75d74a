# SPDX-License-Identifier: GPL-2.0
"""The cost of SLBN per packet, measured in one boot of one kernel, as root.

A point is one of

    task        a link's task for one control packet alone, by sessions on the link and entries of
                its memory
    control     a control packet through the egress hook and the TX queue's qdisc: classified,
                checked, processed by the task, rewritten, enqueued and dequeued
    devices     the same with few and many devices of the router, each with addresses
    keys        the same without a key, with one key, and with the older and the newer of two
    answer      an answer that this router receives, processes and sends on: reception, the hook at
                LOCAL_IN, the task, and the device's egress hook and queue
    send        a packet that is sent (dev_queue_xmit) with slbn as the root, and with mq instead;
                by child of each TX queue, for data (TCP, UDP) alone or with every EVERYth packet a
                control packet
    route       a data packet's whole path through a router, with allocation and freeing; with slbn
                on the input and the output device, also if the input device is an edge, or with mq
                instead; fq is the child of both

Packets are also sent and routed with mq and an egress hook that does nothing, and routed with one
at ingress, too: the cost of netfilter itself, without which slbn cannot see packets.

Candidates are measured in turn, repeatedly, so that other load of the machine affects all of them.
The value of a turn is the median of short slices, minus (except for routed packets) the cost of the
same loop without the measured code.  What slbn adds is the difference to mq in the same turn.  For
the kernel module see sbench.c and qbench.c.

The run fails unless the link has counted the intended number of sessions, corrected and dropped
nothing, and the qdiscs have dequeued all packets.

Prints JSON.  Requirements: as for measure.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench.measure import Session, WrongError, run, spread
from tests.kernel.lib.genetlink import Genetlink, given

SLICE = 1000  # packets timed together
QUEUES = 2  # of a device
#: Differences of routed packets are small: they need more turns.
ROUTE_TURNS = 3
RATE = "100gbit"
#: Devices that are added, and their group.
DEVICES, GROUP = 2000, 7
ENTRIES = (0, 65_536, 524_288)
CHILDREN = ("pfifo_fast", "fq", "fq_codel")
#: Frame of a control packet of a path of 7 links, with 9 slots. Those measured have 32.
CONTROL_OCTETS = 234
#: Control packets per second that are 5 % of 10 Gbit/s.
CONTROL_RATE = 5 * 10**8 // (8 * CONTROL_OCTETS)
#: So many are one for every three data packets with 1514 octets, which are the rest.
EVERY = 4
#: Counters of a link that must stay 0.
FAULTS = [
    *("corrected", "clamped", "stale", "wrong_path", "too_many_hops", "malformed"),
    *("overuse", "bad_checksum", "fragments", "bad_key", "unknown_key", "bad_time"),
    *("bad_return", "unknown_link", "no_address", "from_hosts", "rate_limited"),
]

Costs = dict[str, list[float]]


def device(name: str) -> str:
    run("ip", "link", "add", name, "numtxqueues", str(QUEUES), "type", "dummy")
    run("ip", "link", "set", name, "arp", "off", "addrgenmode", "none")
    # To which answers would return; without one the link drops control packets.
    run("ip", "addr", "add", "198.51.100.1/32", "dev", name)
    run("ip", "link", "set", name, "up")
    return name


def root_commands(name: str, options: str, child: str = "") -> list[str]:
    """Commands of tc: a root qdisc of mq's kind, and the children of its TX queues."""
    commands = [f"qdisc replace dev {name} root handle 1: {options}"]
    if child:
        for queue in range(1, QUEUES + 1):
            commands.append(f"qdisc replace dev {name} parent 1:{queue:x} {child}")
    return commands


def slbn_options(options: str = "") -> str:
    return f"slbn rate {RATE} epoch 0 control 100% {options}"


def root(name: str, options: str, child: str = "") -> None:
    tc(root_commands(name, options, child))


def tc(commands: list[str]) -> None:
    run("tc", "-batch", "-", text="\n".join(commands))


def slbn(name: str, options: str = "", child: str = "") -> None:
    root(name, slbn_options(options), child)


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


def add_devices(count: int) -> None:
    """Each with an IPv4 and an IPv6 address."""
    lines = []
    for number in range(count):
        name = f"x{number}"
        lines.append(f"link add {name} group {GROUP} type dummy")
        lines.append(f"addr add 10.{number // 250}.{number % 250}.1/32 dev {name}")
        lines.append(f"addr add fd00:{number:x}::1/64 dev {name} nodad")
        lines.append(f"link set {name} up")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def measure_devices(turns: int, slices: int) -> list[dict[str, Any]]:
    name, entries, count = device("c"), ENTRIES[1], 1000
    slbn(name, f"memory {entries}")
    session = Session()
    session.ask(f"slbn control {name} {count}")
    cost = net_cost(session, slices)
    points = []
    for added in (0, DEVICES):
        add_devices(added)
        costs = [cost() for _ in range(turns)]
        known = {"kind": "devices", "added": added, "sessions": count, "entries": entries}
        points.append({**known, "ns": spread(costs)})
    check_link(name, count)
    session.close()
    run("ip", "link", "del", "group", str(GROUP))
    run("ip", "link", "del", name)
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


def measure_answers(turns: int, slices: int) -> list[dict[str, Any]]:
    """Without checks of the number of answers: the link counts each that it processes."""
    device("a0")
    no_reverse_path_filter("a0")
    run("ip", "route", "add", "10.0.0.0/24", "dev", "a0")
    slbn("a0", "memory 65536", "fq")
    session = Session()
    session.ask("slbn answer a0")
    costs = in_turn({"answer": net_cost(session, slices)}, turns)
    session.close()
    answered = turns * slices * SLICE
    # Each turn also measures the loop, which answers nothing.
    check_link("a0", 2 * answered)
    if (acks := shown("a0")["acks"]) != answered:
        raise WrongError(f"{acks} of {answered} answers were processed")
    run("ip", "link", "del", "a0")
    return [
        {
            "kind": "answer",
            "entries": 65_536,
            "ns": spread(costs["answer"]),
            "control_octets": CONTROL_OCTETS,
            "control_rate": CONTROL_RATE,
        }
    ]


#: Roots that are compared: mq, mq with a hook that does nothing, slbn.
ROOTS = ("mq", "hook", "slbn")


def hook(name: str, ingress: bool = False) -> Session:
    """Give a device a hook that does nothing, until the session is closed."""
    session = Session()
    session.ask(f"slbn hook {name} {int(ingress)}")
    return session


def check_sent(name: str, sent: int, joins: int) -> None:
    check_link(name, joins)
    state = shown(name)
    if (state["packets"], state["drops"]) != (sent, 0):
        raise WrongError(f"{state['packets']} of {sent} packets were sent")


def added(costs: Costs, kind: str) -> dict[str, float]:
    """What a root adds to the cost of mq, turn by turn."""
    return spread([a - b for a, b in zip(costs[kind], costs["mq"], strict=True)])


PROTOCOLS = {"TCP": 6, "UDP": 17, "ESP": 50}


def measure_sent(child: str, every: int, protocol: str, turns: int, slices: int) -> dict[str, Any]:
    opened: dict[str, list[Session]] = {}
    for kind in ROOTS:
        name = device(f"x{kind}")
        if kind == "slbn":
            slbn(name, child=child)
        else:
            root(name, "mq", child)
        sender = Session()
        sender.ask(f"slbn send {name} {every} {PROTOCOLS[protocol]}")
        opened[kind] = [sender, *([hook(name)] if kind == "hook" else [])]
    beds = {kind: net_cost(sessions[0], slices) for kind, sessions in opened.items()}
    costs = in_turn(beds, turns)
    joins = turns * slices * -(-SLICE // every) if every else 0
    check_sent("xslbn", turns * slices * SLICE, joins)
    for kind, sessions in opened.items():
        for session in sessions:
            session.close()
        run("ip", "link", "del", f"x{kind}")
    return {
        "kind": "send",
        "child": child,
        "every": every,
        "protocol": protocol,
        "bare": spread(costs["mq"]),
        "slbn": spread(costs["slbn"]),
        "hook_adds": added(costs, "hook"),
        "adds": added(costs, "slbn"),
    }


def measure_send(turns: int, slices: int) -> list[dict[str, Any]]:
    return [
        measure_sent(child, every, protocol, turns, slices)
        for every, protocol in ((0, "TCP"), (0, "UDP"), (EVERY, "TCP"))
        for child in (("fq",) if every else CHILDREN)
    ]


def no_reverse_path_filter(*names: str) -> None:
    for name in ("all", *names):
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")


#: Roots of the input and the output device. No hook may exist while mq is measured: the first one
#: of the system lets the kernel look for those of each device.
ROUTES = {
    "mq": ("mq", "mq"),
    "hook": ("mq", "mq"),
    "slbn": (slbn_options(), slbn_options()),
    "hooks": ("mq", "mq"),
    "edge": (slbn_options("edge"), slbn_options()),
}


@contextlib.contextmanager
def routers(kind: str) -> Iterator[None]:
    commands = []
    for name, options in zip(("rin", "rout"), ROUTES[kind], strict=True):
        commands += root_commands(name, options, "fq")
    tc(commands)
    empty = [hook("rin"), hook("rout")] if kind in ("hook", "hooks") else []
    if kind == "hooks":
        empty.append(hook("rin", ingress=True))
    yield
    for session in empty:
        session.close()
    tc([f"qdisc del dev {name} root" for name in ("rin", "rout")])


def measure_route(turns: int, slices: int) -> list[dict[str, Any]]:
    for name in ("rin", "rout"):
        device(name)
    no_reverse_path_filter("rin", "rout")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    run("ip", "route", "add", "192.0.2.0/24", "dev", "rout")
    points = []
    for protocol, number in PROTOCOLS.items():
        session = Session()
        session.ask(f"slbn route rin {number}")

        def cost(kind: str, session: Session = session) -> Callable[[], float]:
            def measured() -> float:
                with routers(kind):
                    timed(session, "run", 5)
                    value = timed(session, "run", slices)
                    sent = shown("rout")["packets"]
                if sent < SLICE * (5 + slices):
                    raise WrongError(f"{sent} packets were routed")
                return value

            return measured

        costs = in_turn({kind: cost(kind) for kind in ROUTES}, turns)
        session.close()
        points += [
            {
                "kind": "route",
                "root": kind,
                "protocol": protocol,
                "ns": spread(values),
                "adds": added(costs, kind),
            }
            for kind, values in costs.items()
        ]
    for name in ("rin", "rout"):
        run("ip", "link", "del", name)
    return points


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
    points: list[dict[str, Any]] = []
    try:
        say("the link's task")
        points += measure_task(sessions, turns, slices)
        say("control packets")
        points += measure_control(sessions, turns, slices)
        say("many devices")
        points += measure_devices(turns, slices)
        say("authenticated packets")
        points += measure_keys(turns, slices)
        say("answers")
        points += measure_answers(turns, slices)
        say("sent packets")
        points += measure_send(turns, slices)
        say("routed packets")
        points += measure_route(ROUTE_TURNS * turns, slices)
    except WrongError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    json.dump({"turns": turns, "slices": slices, "slice": SLICE, "points": points}, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
