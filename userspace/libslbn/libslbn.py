# SPDX-License-Identifier: LGPL-2.1
"""libslbn for Python: request rates from slbnd, and get notified of the assigned rates.

    with libslbn.Connection() as connection:
        session = connection.join("198.51.100.7", demand=10_000_000, source="192.0.2.1")
        for event in connection.events():
            print(event.rate)

A thin binding: see libslbn.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

UNLIMITED = 10**15
MAX_WEIGHT = 10**6
STAYS, DETECTED, STALLED, LEAVING, MEASURED, OWN_LINK, SHORT_LEASE = 1, 2, 4, 8, 16, 32, 64
WINDOWS, ACKED_ELSEWHERE, NO_MARKS_SEEN = 128, 256, 512

#: What bounds how far a session may send above its rate: enum slbn_guard.
GUARD_OFF, GUARD_SHARE, GUARD_HOST, GUARD_LINKS = 0, 1, 2, 3
GUARD_WINDOW, GUARD_ESCAPED, GUARD_PACER, GUARD_ANSWER = 4, 5, 6, 7
ACCEPT_ONLY = 1
GAP_UNKNOWN = 255
#: Octets of a key.
SECRET = 16


class _Flow(ctypes.Structure):
    _fields_ = (
        ("source", ctypes.c_uint8 * 16),
        ("destination", ctypes.c_uint8 * 16),
        ("family", ctypes.c_uint16),
        ("source_port", ctypes.c_uint16),
        ("destination_port", ctypes.c_uint16),
        ("protocol", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
    )


class _Session(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint64),
        ("demand", ctypes.c_uint64),
        ("rate", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("retries", ctypes.c_uint64),
        ("rtt", ctypes.c_uint64),
        ("flow", _Flow),
        ("flags", ctypes.c_uint32),
        ("hops", ctypes.c_uint8),
        ("bottleneck", ctypes.c_uint8),
        ("link", ctypes.c_uint16),
        ("used", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("weight", ctypes.c_uint32),
        ("router", ctypes.c_uint8 * 16),
        ("ceiling", ctypes.c_uint64),
        ("guard", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class _Hop(ctypes.Structure):
    _fields_ = (
        ("router", ctypes.c_uint8 * 16),
        ("family", ctypes.c_uint16),
        ("link", ctypes.c_uint16),
    )


class _Traced(ctypes.Structure):
    _fields_ = (
        ("router", ctypes.c_uint8 * 16),
        ("family", ctypes.c_uint16),
        ("link", ctypes.c_uint16),
        ("hop", ctypes.c_uint8),
        ("answered", ctypes.c_uint8),
        ("ttl", ctypes.c_uint8),
        ("gap", ctypes.c_uint8),
        ("reserved", ctypes.c_uint32),
        ("backlog", ctypes.c_uint32),
        ("capacity", ctypes.c_uint64),
        ("share", ctypes.c_uint64),
        ("weights", ctypes.c_uint64),
        ("held", ctypes.c_uint64),
    )


class _Status(ctypes.Structure):
    _fields_ = (
        ("sessions", ctypes.c_uint64),
        ("bad_key", ctypes.c_uint64),
        ("unknown_key", ctypes.c_uint64),
        ("bad_time", ctypes.c_uint64),
        ("clock_difference", ctypes.c_int64),
        ("keys", ctypes.c_uint8),
        ("key", ctypes.c_uint8 * 2),
        ("reserved", ctypes.c_uint8),
        ("borrowers", ctypes.c_uint32),
        ("bad_return", ctypes.c_uint64),
        ("sent", ctypes.c_uint64),
        ("unsent", ctypes.c_uint64),
        ("received", ctypes.c_uint64),
        ("malformed", ctypes.c_uint64),
        ("stale", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("retries", ctypes.c_uint64),
        ("events_lost", ctypes.c_uint64),
        ("devices", ctypes.c_uint32),
        ("enforced", ctypes.c_uint32),
        ("detection", ctypes.c_uint32),
        ("clients", ctypes.c_uint32),
        ("paced_drops", ctypes.c_uint64),
        ("paced_marks", ctypes.c_uint64),
        ("short_leases", ctypes.c_uint64),
        ("silent", ctypes.c_uint32),
        ("connections", ctypes.c_uint32),
        ("refused", ctypes.c_uint64),
        ("table_entries", ctypes.c_uint32),
        ("table_most", ctypes.c_uint32),
        ("windows_lowered", ctypes.c_uint64),
        ("windows_unknown", ctypes.c_uint64),
        ("windows_silent", ctypes.c_uint64),
        ("version", ctypes.c_char * 16),
        ("paced_codel", ctypes.c_uint64),
        ("paced_excess", ctypes.c_uint64),
        ("borrowed_octets", ctypes.c_uint64),
        ("marked_new", ctypes.c_uint64),
        ("marked_assigned", ctypes.c_uint64),
        ("marks_cleared", ctypes.c_uint64),
        ("marks_refused", ctypes.c_uint64),
        ("epoch", ctypes.c_uint64),
        ("marks_restored", ctypes.c_uint64),
        ("no_marks_seen", ctypes.c_uint64),
    )


_EACH = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Session), ctypes.c_void_p)
_EACH_HOP = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Traced), ctypes.c_void_p)


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ.get("LIBSLBN", "libslbn.so.0"), use_errno=True)
    handle, number = ctypes.c_void_p, ctypes.c_uint64
    library.slbn_open.restype = handle
    library.slbn_open.argtypes = [ctypes.c_char_p]
    library.slbn_close.restype = None
    library.slbn_close.argtypes = [handle]
    library.slbn_reason.restype = ctypes.c_char_p
    library.slbn_reason.argtypes = [handle]
    to_number = ctypes.POINTER(number)
    library.slbn_join.argtypes = [
        handle, ctypes.POINTER(_Flow), number, ctypes.c_uint32, ctypes.c_uint32, to_number
    ]  # fmt: skip
    library.slbn_change.argtypes = [handle, number, number]
    library.slbn_leave.argtypes = [handle, number]
    library.slbn_watch.argtypes = [handle]
    library.slbn_list.argtypes = [handle, _EACH, ctypes.c_void_p]
    library.slbn_get_hop.argtypes = [handle, number, ctypes.c_uint8, ctypes.POINTER(_Hop)]
    library.slbn_get_share.argtypes = [handle, number, to_number]
    library.slbn_trace.argtypes = [handle, number, ctypes.c_int, _EACH_HOP, ctypes.c_void_p]
    library.slbn_add_key.argtypes = [handle, ctypes.c_uint8, ctypes.c_char_p, ctypes.c_uint32]
    library.slbn_retire_key.argtypes = [handle, ctypes.c_uint8]
    library.slbn_get_status.argtypes = [handle, ctypes.POINTER(_Status)]
    library.slbn_fd.argtypes = [handle]
    library.slbn_next.argtypes = [handle, ctypes.c_int, ctypes.POINTER(_Session)]
    return library


@dataclass(frozen=True)
class Hop:
    """A hop of a session's path: its router's address, and its number in that router."""

    router: str
    link: int


@dataclass(frozen=True)
class Traced:
    """State of a hop of a session's path; rates in bit/s, the backlog in octets.

    `gap` is the number of routers before it that did not process the packet; None: unknown.
    Without an answer of its link, all fields from `ttl` on are 0.
    """

    router: str
    link: int
    answered: bool
    gap: int | None
    ttl: int
    backlog: int
    capacity: int
    share: int
    weights: int
    held: int


@dataclass(frozen=True)
class Session:
    """State of a session at the time of the event; rates in bit/s, the round-trip time in ns.

    `device` is an index in slbnd's network namespace. `limit` is the hop numbered `bottleneck`;
    None: the demand limits the session. `ceiling` is up to which rate it may send above the
    assigned one, 0: not above it; `guard`, GUARD_OFF to GUARD_ANSWER, is what bounds that.
    """

    id: int
    demand: int
    rate: int
    cycles: int
    retries: int
    rtt: int
    source: str
    destination: str
    protocol: int
    source_port: int
    destination_port: int
    flags: int
    hops: int
    bottleneck: int | None
    used: int | None
    device: int
    weight: int
    limit: Hop | None
    ceiling: int
    guard: int

    @property
    def over(self) -> bool:
        """The session has ended."""
        return bool(self.flags & LEAVING) and not self.rate


@dataclass(frozen=True)
class Status:
    """State of the agent: its keys, the last one in use, and numbers of packets.

    `clock_difference` is its clock minus the time of the last packet counted in `bad_time` [s].
    `detection` is 0 if no local hosts are configured, 1 if their flows are detected, 2 if
    connection tracking is not available. `paced_drops` and `paced_marks` are of data packets; CoDel
    dropped `paced_codel` of them, and `paced_excess` were sent above the rates of their sessions.
    `silent` is the number of destinations that do not answer. `connections` are those of local
    hosts that it keeps, `refused` those without a place; `table_entries` and `table_most` are
    conntrack's. `windows_lowered` are acknowledgements, `windows_unknown` connections that are left
    alone, `windows_silent` how often their acknowledgements were found not to pass the router.
    `version` is empty before 0.2.
    `borrowers` are sessions that may send above their rates now, `borrowed_octets` what was sent
    above them. `marked_new` and `marked_assigned` are data packets with a mark, `marks_cleared`
    those that had a mark which was not theirs, `marks_refused` those that were not new as their
    host has sent too much, `marks_restored` those for local hosts whose DSCP was restored.
    `no_marks_seen` are sessions whose marks do not arrive.
    `epoch` is that of the domain's links, as it is configured [ns].
    """

    sessions: int
    keys: tuple[int, ...]
    bad_key: int
    unknown_key: int
    bad_time: int
    clock_difference: int
    bad_return: int
    sent: int
    unsent: int
    received: int
    malformed: int
    stale: int
    cycles: int
    retries: int
    events_lost: int
    devices: int
    enforced: int
    detection: int
    clients: int
    paced_drops: int
    paced_marks: int
    short_leases: int
    silent: int
    connections: int
    refused: int
    table_entries: int
    table_most: int
    windows_lowered: int
    windows_unknown: int
    windows_silent: int
    version: str
    paced_codel: int
    paced_excess: int
    borrowers: int
    borrowed_octets: int
    marked_new: int
    marked_assigned: int
    marks_cleared: int
    marks_refused: int
    epoch: int
    marks_restored: int
    no_marks_seen: int


def _address(octets: bytes, family: int) -> str:
    return str(ipaddress.ip_address(octets[: 4 if family == socket.AF_INET else 16]))


def _session(raw: _Session) -> Session:
    flow = raw.flow
    return Session(
        id=raw.id,
        demand=raw.demand,
        rate=raw.rate,
        cycles=raw.cycles,
        retries=raw.retries,
        rtt=raw.rtt,
        source=_address(bytes(flow.source), flow.family),
        destination=_address(bytes(flow.destination), flow.family),
        protocol=flow.protocol,
        source_port=flow.source_port,
        destination_port=flow.destination_port,
        flags=raw.flags,
        hops=raw.hops,
        bottleneck=None if raw.bottleneck == 255 else raw.bottleneck,
        used=raw.used if raw.flags & MEASURED else None,
        device=raw.device,
        weight=raw.weight,
        limit=Hop(_address(bytes(raw.router), flow.family), raw.link) if raw.link else None,
        ceiling=raw.ceiling,
        guard=raw.guard,
    )


def _traced(raw: _Traced) -> Traced:
    return Traced(
        router=_address(bytes(raw.router), raw.family),
        link=raw.link,
        answered=bool(raw.answered),
        gap=None if raw.gap == GAP_UNKNOWN else raw.gap,
        ttl=raw.ttl,
        backlog=raw.backlog,
        capacity=raw.capacity,
        share=raw.share,
        weights=raw.weights,
        held=raw.held,
    )


class Connection:
    """A connection to slbnd; closing it ends its sessions, except those that stay.

    Failures raise OSError, with the reason that libslbn gives.
    """

    def __init__(self, path: str | None = None) -> None:
        self._library = _load()
        self._handle = self._library.slbn_open(path.encode() if path else None)
        if not self._handle:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), path or "slbnd")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._library.slbn_close(self._handle)
        self._handle = None

    def _check(self, status: int) -> int:
        if status < 0:
            raise OSError(-status, self._library.slbn_reason(self._handle).decode())
        return status

    def join(
        self,
        destination: str,
        demand: int = UNLIMITED,
        *,
        source: str | None = None,
        protocol: int = 0,
        source_port: int = 0,
        destination_port: int = 0,
        weight: int = 1,
        stays: bool = False,
    ) -> int:
        """Start a session; returns its ID.

        Where links limit them, sessions get rates in proportion to their weights, 1 to 10^6.
        """
        if not 0 < weight <= MAX_WEIGHT:
            raise ValueError(f"the weight must be 1 to {MAX_WEIGHT}")
        there = ipaddress.ip_address(destination)
        flow = _Flow(
            family=socket.AF_INET if there.version == 4 else socket.AF_INET6,
            source_port=source_port,
            destination_port=destination_port,
            protocol=protocol,
        )
        ctypes.memmove(flow.destination, there.packed, len(there.packed))
        if source is not None:
            here = ipaddress.ip_address(source)
            if here.version != there.version:
                raise ValueError(f"{source} and {destination} are of different address families")
            ctypes.memmove(flow.source, here.packed, len(here.packed))
        number = ctypes.c_uint64()
        status = self._library.slbn_join(
            self._handle,
            ctypes.byref(flow),
            demand,
            weight,
            STAYS * stays,
            ctypes.byref(number),
        )
        self._check(status)
        return number.value

    def change(self, session: int, demand: int) -> None:
        self._check(self._library.slbn_change(self._handle, session, demand))

    def leave(self, session: int) -> None:
        self._check(self._library.slbn_leave(self._handle, session))

    def watch(self) -> None:
        """Subscribe to events of all sessions, not only of those joined here."""
        self._check(self._library.slbn_watch(self._handle))

    def list(self) -> list[Session]:
        """All sessions of slbnd."""
        sessions: list[Session] = []
        each = _EACH(lambda raw, _context: sessions.append(_session(raw.contents)))
        self._check(self._library.slbn_list(self._handle, each, None))
        return sessions

    def path(self, session: int) -> tuple[Hop, ...]:
        """The path of a session, hop by hop; empty before the first answer."""
        path: tuple[Hop, ...] = ()
        for hop in range(self._find(session).hops):
            raw = _Hop()
            status = self._library.slbn_get_hop(self._handle, session, hop, ctypes.byref(raw))
            self._check(status)
            path += (Hop(_address(bytes(raw.router), raw.family), raw.link),)
        return path

    def share(self, session: int) -> tuple[int, bool]:
        """The smallest fair share that links on a session's path have stated, and whether all have.

        0: none has. If not all have, the share may be too high.
        """
        share = ctypes.c_uint64()
        status = self._library.slbn_get_share(self._handle, session, ctypes.byref(share))
        return share.value, bool(self._check(status))

    def trace(self, session: int, timeout: float = 10) -> tuple[Traced, ...]:
        """The state of each link on a session's path, after at most `timeout` seconds."""
        path: list[Traced] = []
        each = _EACH_HOP(lambda raw, _context: path.append(_traced(raw.contents)))
        wait = round(timeout * 1000)
        self._check(self._library.slbn_trace(self._handle, session, wait, each, None))
        return tuple(path)

    def _find(self, session: int) -> Session:
        for each in self.list():
            if each.id == session:
                return each
        raise OSError(errno.ENOENT, "no such session")

    def add_key(self, number: int, secret: bytes, *, accept_only: bool = False) -> None:
        """Add a key that authenticates control packets, or only accept packets with it."""
        if len(secret) != SECRET or not 0 <= number < 256:
            raise ValueError(f"a key has a number from 0 to 255 and {SECRET} octets")
        flags = ACCEPT_ONLY * accept_only
        self._check(self._library.slbn_add_key(self._handle, number, secret, flags))

    def retire_key(self, number: int) -> None:
        """Remove a key."""
        if not 0 <= number < 256:
            raise ValueError("the number of a key is 0 to 255")
        self._check(self._library.slbn_retire_key(self._handle, number))

    def status(self) -> Status:
        """The agent's state."""
        raw = _Status()
        self._check(self._library.slbn_get_status(self._handle, ctypes.byref(raw)))
        numbers = {name: getattr(raw, name) for name in Status.__dataclass_fields__}
        version = raw.version.decode("ascii", "replace")
        return Status(**numbers | {"keys": tuple(raw.key[: raw.keys]), "version": version})

    def fileno(self) -> int:
        """The file descriptor to poll."""
        return int(self._library.slbn_fd(self._handle))

    def next(self, timeout: float | None = None) -> Session | None:
        """Wait for the next event; None after `timeout` seconds."""
        raw = _Session()
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            wait = -1 if end is None else max(0, round((end - time.monotonic()) * 1000))
            # Python handles the signal when this returns; then the wait goes on.
            with contextlib.suppress(InterruptedError):
                status = self._library.slbn_next(self._handle, wait, ctypes.byref(raw))
                return _session(raw) if self._check(status) else None

    def events(self) -> Iterator[Session]:
        """All events, as they arrive."""
        while (event := self.next()) is not None:
            yield event
