# SPDX-License-Identifier: GPL-2.0
"""The cost of receive windows (slbnd --windows on) for each data packet and each acknowledgment.

Runs in a new network namespace (as its root) on the host's kernel, without any module: BPF programs
are compiled to native code there, which User-Mode Linux does not do.  The kernel runs slbnd's
programs on packets that it does not send (BPF_PROG_TEST_RUN), and measures each run alone: data of
one connection leave, and each acknowledgment of them arrives, whose window is lowered.

    data    slbnd_rates, which paces, and slbnd_sent behind it
    ack     slbnd_windows

The programs are loaded with the capabilities of slbnd's unit: without CAP_PERFMON, the kernel adds
barriers against speculation to them.  With 32 segments in flight, one of 32 acknowledgments is
timed; with one, each is.

The cost is the difference to the same runs with windows off, where slbnd_rates has nothing to hand
over, and the others return at once.  What is missing is tc's call of the program, some ns, which
an empty program would also need.  Both are measured in turn, repeatedly, so that other load of the
machine affects both; the value of a turn is a mean.

Prints JSON.  The run fails unless the windows of 99 % of the acknowledgments were lowered.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.measure import WrongError, spread
from tests.kernel.lib import programs
from tests.kernel.lib.enforcer import Enforcer, Flow, enforcer
from tests.kernel.lib.net import Namespace

TURNS, TIMES = 21, 20000
RATE = 10**10
MSS = 1448
SYN, ACK = 2, 16
#: Options of a SYN, timestamps, and a block of SACK beside them, below what is acknowledged.
SYN_OPTIONS = bytes([2, 4, 5, 180, 4, 2, 3, 3])
STAMPS = bytes([1, 1, 8, 10, *range(8)])
BLOCK = bytes([1, 1, 5, 10, *range(8)])
NAMES = ("rates", "sent", "windows")
UNIT = Path(__file__).resolve().parents[2] / "userspace/slbnd/service/slbnd.service.in"


class Here(Namespace):
    """This process's namespace."""

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        yield


def frame(six: bool, back: bool, flags: int, options: bytes, sizes: int = 0) -> bytes:
    """An Ethernet frame of the connection; sequence numbers begin at 0 at either end."""
    ports = (2000, 1000) if back else (1000, 2000)
    number = 0 if flags & SYN else 1
    words = (20 + len(options)) // 4 << 12 | flags
    ack = 1 if flags & ACK else 0
    tcp = struct.pack(">HHIIHHHH", *ports, number, ack, words, 60000, 0, 0) + options + bytes(sizes)
    ends = [bytes([10, 0, 0, 1]), bytes([10, 0, 1, 2])]
    if six:
        ends = [b"\xfd" + bytes(14) + b"\1", b"\xfd" + bytes(14) + b"\2"]
    addresses = b"".join(reversed(ends) if back else ends)
    if six:
        ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + addresses
        return bytes(12) + b"\x86\xdd" + ip + tcp
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + addresses
    return bytes(12) + b"\x08\x00" + ip + tcp


def flow(six: bool) -> Flow:
    ends = ("fd00::1", "fd00::2") if six else ("10.0.0.1", "10.0.1.2")
    return Flow(ends[1], ends[0], 6, 1000, 2000)


@dataclass(frozen=True)
class Case:
    """What is measured: the version of IP, and whether there are blocks of SACK and a rate."""

    ip: int = 4
    sacked: bool = False
    flight: int = 32
    rated: bool = True


CASES = (Case(), Case(ip=6), Case(sacked=True), Case(flight=1), Case(rated=False))


def capabilities() -> str:
    """A prefix of commands: the capabilities of slbnd's unit only."""
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    kept = ",".join("+" + name.removeprefix("CAP_").lower() for name in line.split())
    return f"setpriv --bounding-set=-all,{kept}"


def turn(made: Enforcer, on: bool, case: Case, times: int) -> dict[str, float]:
    """Mean durations of the programs [ns]."""
    six = case.ip == 6
    made.set_windows(on)
    if case.rated:
        made.set(flow(six), RATE)
    else:
        for each in list(made.flows):
            made.remove(each)
    before = made.read_windows().lowered
    options = STAMPS + BLOCK if case.sacked else STAMPS
    # Without a rate, only the longest windows are always above the bound.
    syn = SYN_OPTIONS + bytes([7 if case.rated else 14, 1, 1, 1])
    packets = [
        frame(six, False, SYN, syn),
        frame(six, True, SYN | ACK, syn),
        frame(six, False, ACK, STAMPS, MSS),
        frame(six, True, ACK, options),
    ]
    offset = 14 + (40 if six else 20)
    joined = ",".join(each.hex() for each in packets)
    answer = made.ask(f"cost {times} {offset} {case.flight} {joined}")[0]
    lowered = made.read_windows().lowered - before
    # One that follows an interruption may be as long as the receiver's.
    if not (0.99 * times <= lowered if on else lowered == 0):
        raise WrongError(f"{lowered} windows of {times} were lowered: {answer}")
    return dict(zip(NAMES, map(float, answer.split()), strict=True))


def measure(made: Enforcer, case: Case, turns: int, times: int) -> dict[str, Any]:
    costs: dict[str, list[float]] = {"data": [], "ack": [], "paced": []}
    for _ in range(turns):
        off, on = (turn(made, each, case, times) for each in (False, True))
        costs["data"].append(on["rates"] - off["rates"] + on["sent"] - off["sent"])
        costs["ack"].append(on["windows"] - off["windows"])
        costs["paced"].append(off["rates"] - off["windows"])
    return asdict(case) | {name: spread(values) for name, values in costs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--times", type=int, default=TIMES, help="packets of a turn")
    arguments = parser.parse_args()
    if os.geteuid() or not Path("/sys/fs/bpf").exists():
        raise WrongError("BPF programs need root")
    subprocess.run("ip link add near type veth peer name far", shell=True, check=True)
    subprocess.run("ip link set near up && ip link set far up", shell=True, check=True)
    points = []
    with enforcer(Here("this"), programs.enforce_try(), prefix=capabilities()) as made:
        # The host need not have fq; without it, the program is attached nevertheless.
        made.ask("open near")
        # Others' packets pass if they have no session.
        made.set_hosts("10.0.0.0/24")
        for case in CASES:
            points.append(measure(made, case, arguments.turns, arguments.times))
    json.dump({"points": points, "times": arguments.times, "turns": arguments.turns}, sys.stdout)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WrongError as error:
        print(f"measure_windows: {error}", file=sys.stderr)
        sys.exit(1)
