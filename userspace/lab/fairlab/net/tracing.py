# SPDX-License-Identifier: GPL-2.0
"""Windows over time, from the kernel's tracepoints.

The project's modules have tracepoints for each change of a window and each loss
(tcp_bic:bic_window, tcp_gaimd:gaimd_window).  For other congestion controls there are the stack's:
tcp:tcp_probe has the window before each arriving segment is processed, and tcp:tcp_cong_state_set
the begin of loss recovery.  All have the ports, which identify a flow.

The trace has a tracefs instance of its own, separate from other users of tracing, and is read after
the run, so that reading does not disturb it.  If its buffer was too small, the oldest events are
lost and counted.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlab.model.errors import CannotRunError

TRACEFS = Path("/sys/kernel/tracing")
OWN_EVENTS = {"bic": "tcp_bic/bic_window", "gaimd": "tcp_gaimd/gaimd_window"}
COMMON_EVENT = "tcp/tcp_probe"
STATE_EVENT = "tcp/tcp_cong_state_set"

# The largest event in the buffer, in bytes; the part of the free memory that a buffer may take.
EVENT_BYTES = 160
MEMORY_SHARE = 4
MIN_BUFFER, MAX_BUFFER = 2**20, 2**30

_LINE = re.compile(
    r"^.{16,}?-\d+\s.*?\s(?P<time>\d+\.\d+): (?P<event>\w+): (?P<rest>.*)$", re.ASCII
)
_FIELD = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class WindowEvent:
    """A connection's window at a moment: in packets; monotonic clock, seconds."""

    time: float
    sport: int
    dport: int
    cwnd: int
    ssthresh: int
    phase: str  # empty if the congestion control does not report it


@dataclass(frozen=True)
class StateEvent:
    """A connection enters a state of loss recovery (enum tcp_ca_state)."""

    time: float
    sport: int
    dport: int
    state: int


def parse_line(line: str) -> WindowEvent | StateEvent | None:
    """The event on a line of the trace, or None if there is none."""
    match = _LINE.match(line)
    if not match:
        return None
    fields = dict(_FIELD.findall(match["rest"]))
    try:
        if match["event"] == "tcp_probe":
            # The ports are at the end of the addresses: src=10.0.1.2:50001 dest=10.1.1.2:5201.
            fields["sport"] = fields["src"].rpartition(":")[2]
            fields["dport"] = fields["dest"].rpartition(":")[2]
            fields["cwnd"] = fields["snd_cwnd"]
        about = float(match["time"]), int(fields["sport"]), int(fields["dport"])
        if match["event"] == "tcp_cong_state_set":
            return StateEvent(*about, int(fields["cong_state"]))
        window = int(fields["cwnd"]), int(fields["ssthresh"])
        return WindowEvent(*about, *window, fields.get("phase", ""))
    except (KeyError, ValueError):
        return None


def parse(text: str) -> Iterator[WindowEvent | StateEvent]:
    """The events of a whole trace; a line that is neither event nor comment is an error."""
    for line in text.splitlines():
        event = parse_line(line)
        if event:
            yield event
        elif line.strip() and not line.startswith(("#", "CPU:")):
            raise CannotRunError(f"cannot read this kernel's trace: {line.strip()}")


def buffer_size(rate: int, frame: int, seconds: float) -> int:
    """The buffer for a run, in bytes: an event for each packet at both ends, and some reserve."""
    packets = rate * seconds / (8 * frame)
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = min(MAX_BUFFER, available // MEMORY_SHARE)
    return max(MIN_BUFFER, min(most, round(2 * packets * EVENT_BYTES)))


class Tracer:
    """Records windows inside a `with` block."""

    def __init__(self, connections: list[tuple[str, int, int]], size: int) -> None:
        """CONNECTIONS: the congestion control, the sender's and the receiver's port of each."""
        if not (TRACEFS / "instances").is_dir():
            raise CannotRunError(f"no tracefs in {TRACEFS}: mount -t tracefs tracefs {TRACEFS}")
        self.instance = TRACEFS / "instances" / f"fairlab-{os.getpid()}"
        self.filters = self._filters(connections)
        self.size = size
        self._cleanup = contextlib.ExitStack()

    def _filters(self, connections: list[tuple[str, int, int]]) -> dict[str, str]:
        """The filters of each event that is needed, by its connections."""
        wanted: dict[str, list[str]] = {}
        for cc, sport, dport in connections:
            own = OWN_EVENTS.get(cc, "")
            events = [own] if own and self._has(own) else [COMMON_EVENT, STATE_EVENT]
            for event in events:
                wanted.setdefault(event, []).append(f"(sport == {sport} && dport == {dport})")
        if COMMON_EVENT in wanted and not self._has(COMMON_EVENT):
            raise CannotRunError(f"this kernel has no tracepoint {COMMON_EVENT}")
        return {event: " || ".join(words) for event, words in wanted.items() if self._has(event)}

    def _has(self, event: str) -> bool:
        return (TRACEFS / "events" / event).is_dir()

    def __enter__(self) -> "Tracer":
        with contextlib.ExitStack() as stack:
            self.instance.mkdir()
            stack.callback(self.instance.rmdir)
            stack.callback(self._write, "events/enable", "0")
            self._write("trace_clock", "mono")
            cpus = os.cpu_count() or 1
            # Flows move between CPUs; at most all of them are on one.
            self._write("buffer_size_kb", str(max(8, self.size // 1024 // max(1, cpus // 2))))
            for event, text in self.filters.items():
                self._write(f"events/{event}/filter", text)
                self._write(f"events/{event}/enable", "1")
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _write(self, name: str, text: str) -> None:
        (self.instance / name).write_text(text)

    def stop(self) -> None:
        """Stop recording."""
        self._write("tracing_on", "0")

    def read(self) -> str:
        """The recorded trace."""
        return (self.instance / "trace").read_text()

    def lost(self) -> int:
        """The number of lost events."""
        total = 0
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            for line in stats.read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("overrun", "dropped events"):
                    total += int(value)
        return total
