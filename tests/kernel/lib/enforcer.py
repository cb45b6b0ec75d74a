# SPDX-License-Identifier: GPL-2.0
"""slbnd's rate enforcement in a network namespace (enforce_try.c), and qdiscs for it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.kernel.lib.net import Namespace
from tests.kernel.lib.slbn import Chain


@dataclass(frozen=True)
class Flow:
    """A flow; fields that are left open match any packet."""

    destination: str
    source: str = "-"
    protocol: int = 0
    sport: int = 0
    dport: int = 0

    def __str__(self) -> str:
        return f"{self.source} {self.destination} {self.protocol} {self.sport} {self.dport}"


def by_specificity(flow: Flow) -> list[Flow]:
    """The flow, and all that leave some of its fields open, in the order in which they match."""
    known = [
        *("source protocol sport dport", "source sport dport", "source protocol dport"),
        *("source protocol sport", "protocol sport dport", "source dport", "source sport"),
        *("source protocol", "sport dport", "protocol dport", "protocol sport"),
        *("source", "dport", "sport", "protocol", ""),
    ]
    found = [
        Flow(flow.destination, **{name: getattr(flow, name) for name in names.split()})
        for names in known
    ]
    assert len(set(found)) == 16
    return found


@dataclass(frozen=True)
class Use:
    """Counters of a flow."""

    bytes: int
    packets: int
    drops: int
    marks: int
    last: int
    reached: int
    limited: int
    departure: int


@dataclass(frozen=True)
class Windows:
    """Counters of windows: see struct windows_sums."""

    lowered: int
    unknown: int
    silent: int


@dataclass(frozen=True)
class Marks:
    """Counters of packets: see struct marks_sums."""

    new: int
    assigned: int
    cleared: int
    refused: int
    restored: int


@dataclass(frozen=True)
class Pacer:
    """Counters of all packets: see struct enforce_sums."""

    drops: int
    signals: int
    marks: int
    excess: int


@dataclass(frozen=True)
class Counters:
    """What a ceiling depends on: see struct ceiling_counters."""

    reached: int
    limited: int
    escaped: int
    acks: int
    dropped: int


class Enforcer:
    """A running enforce_try in a namespace."""

    def __init__(self, where: Namespace, program: str, prefix: str = "") -> None:
        command = [*prefix.split(), program]
        self.program = program
        self.flows: set[Flow] = set()
        self.process = where.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *lines: str) -> list[str]:
        assert self.process.stdin and self.process.stdout
        answers = []
        # So many fit into both pipes.
        for start in range(0, len(lines), 256):
            batch = lines[start : start + 256]
            self.process.stdin.write("".join(line + "\n" for line in batch))
            self.process.stdin.flush()
            answers += [self.process.stdout.readline().strip() for _ in batch]
        return answers

    def open(self, *devices: str) -> None:
        answer = self.ask(f"open {' '.join(devices)}")[0]
        assert answer == "ok", answer

    def check(self) -> str:
        """Adapt to changes of devices and qdiscs; return a problem, or ok."""
        return self.ask("check")[0]

    def close(self) -> None:
        assert self.ask("close") == ["ok"]

    def set(
        self, flow: Flow, rate: int, lease: int | None = None, ceiling: tuple[int, int] = (0, 0)
    ) -> None:
        """Set the rate of a flow, 0: none, until `lease` ms from now, or for ever.

        It has a ceiling for some ms, if there is a lease.
        """
        rest = "" if lease is None else f" {lease} {ceiling[0]} {ceiling[1]}"
        assert self.ask(f"set {flow} {rate}{rest}") == ["0"]
        self.flows.add(flow)

    def set_unassigned(self, rate: int) -> None:
        """Set the rate of the default class."""
        assert self.ask(f"unassigned {rate}") == ["ok"]

    def set_backlog(self, backlog: int = 100_000_000) -> None:
        """Set the longest time that a packet waits [ns]."""
        assert self.ask(f"backlog {backlog}") == ["ok"]

    def set_rtt(self, rtt: int = 0) -> None:
        """Set the round-trip time of flows that are set from now on [ns]; 0: unknown."""
        assert self.ask(f"rtt {rtt}") == ["ok"]

    def set_excess(self, on: bool) -> None:
        """Let packets above a rate share what default classes leave unused."""
        assert self.ask(f"excess {'unassigned' if on else 'drop'}") == ["ok"]

    def read_pacer(self) -> Pacer:
        return Pacer(*map(int, self.ask("pacer")[0].split()))

    def set_hosts(self, prefix: str = "") -> None:
        """Set the prefix of local hosts; empty: all packets that are forwarded are theirs."""
        assert self.ask(f"hosts {prefix}") == ["ok"]

    def set_windows(self, on: bool, excepted: str = "") -> None:
        """Lower windows of TCP, but not those of a prefix."""
        assert self.ask(f"windows {'on' if on else 'off'} {excepted}") == ["ok"]

    def read_windows(self) -> Windows:
        return Windows(*map(int, self.ask("sums")[0].split()))

    def set_marks(self, on: bool, domain: str = "") -> None:
        """Mark packets; believe marks of those that arrive by these devices."""
        assert self.ask(f"marks {'on' if on else 'off'}", f"domain {domain}") == ["ok", "ok"]

    def set_share(self, flow: Flow, rate: int, lease: int = 3_600_000) -> None:
        """The links of its path have stated this share, until `lease` ms from now."""
        assert self.ask(f"share {flow} {rate} {lease}") == ["ok"]

    def read_marks(self) -> Marks:
        return Marks(*map(int, self.ask("marked")[0].split()))

    def remove(self, flow: Flow) -> None:
        assert self.ask(f"remove {flow}") == ["ok"]
        self.flows.discard(flow)

    def read_counters(self, flow: Flow) -> Counters:
        return Counters(*map(int, self.ask(f"counters {flow}")[0].split()))

    def read(self, flow: Flow) -> Use:
        return Use(*map(int, self.ask(f"read {flow}")[0].split()))

    def run(
        self, packet: bytes, length: int = 0, times: int = 1, ingress: int = 0
    ) -> tuple[int, int]:
        """Run the program on a packet, from a device or (0) from this router."""
        answer = self.ask(f"run {times} {length} {packet.hex()} {ingress}")[0]
        verdict, departure, _ = answer.split()
        return int(verdict), int(departure)

    def leave(self, packet: bytes, ingress: int = 0, length: int = 0) -> tuple[int, int, bytes]:
        """Run the programs at egress: their verdict, the departure, and what leaves."""
        verdict, departure, made = self.ask(f"leave {length} {packet.hex()} {ingress}")[0].split()
        return int(verdict), int(departure), bytes.fromhex(made)

    def arrive(self, packet: bytes) -> bytes:
        """Run the program at ingress: what arrives."""
        return bytes.fromhex(self.ask(f"arrive {packet.hex()}")[0].split()[2])

    def change(self, packet: bytes, length: int, times: int) -> bytes:
        """Run the program on a packet several times; return what it has made of it."""
        return bytes.fromhex(self.ask(f"run {times} {length} {packet.hex()}")[0].split()[2])


@contextlib.contextmanager
def enforcer(
    where: Namespace, program: str, *devices: str, windows: bool = False, prefix: str = ""
) -> Iterator[Enforcer]:
    """A process that has opened these devices, if any, and lowers windows."""
    made = Enforcer(where, program, prefix)
    try:
        if devices:
            made.open(*devices)
        if windows:
            made.set_windows(True)
        yield made
    finally:
        made.process.kill()
        made.process.wait()


Setup = Callable[[Chain], None]


def fq_at_root(net: Chain, options: str = "") -> None:
    net.tc(1, f"qdisc replace dev e1 root fq {options}")


def fq_below_slbn(net: Chain, options: str = "") -> None:
    net.attach(1, "rate 100mbit")
    net.tc(1, f"qdisc replace dev e1 parent 1:1 fq {options}")


def htb_at_root(net: Chain) -> None:
    net.tc(1, "qdisc replace dev e1 root handle 7: htb")


def htb_below_slbn(net: Chain) -> None:
    net.attach(1, "rate 100mbit")
    net.tc(1, "qdisc replace dev e1 parent 1:1 handle 7: htb")


def without_counters(shown: str) -> str:
    """Output of tc without what changes by itself: counters, and active flows of fq_codel."""
    shown = re.sub(r"^class fq_codel .*\n", "", shown, flags=re.MULTILINE)
    return re.sub(r"direct_packets_stat \d+", "", shown)
