# SPDX-License-Identifier: GPL-2.0
"""A link with drr_fq behind a valve: common parts of the qdisc's tests.

       a0 ------------------------------ veth ------------------------------ b0
    frames, or UDP sockets of 10.0.0.1  |  10.0.0.2    a packet socket receives all in order

    qdiscs of a0, with a valve:

        prio 1: -> tbf 2: -> (a parent under test, 3:) -> drr_fq 10:

A closed valve sends one byte per second, so that packets stay queued, independently of the speed
and load of the machine; backlogs, drops and counters are then exact.  An open valve sends the
queued packets, in the order that the scheduler chooses.  (A tbf peeks at its next packet before it
dequeues it.  To close the valve, packets of flow PRIMER are sent until one has to wait; that
packet is then always the next.  To open it, a packet is sent, too, since the tbf would otherwise
wait a thousand seconds; prio drops that packet.)

Each frame contains its flow and number.  If a test has to know the queue of a flow, the flow's
frames are sent to the class of the same number (skb->priority, by SO_PRIORITY).
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from tests import launch
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import unnamed_namespace, wait_for, wait_for_carriers
from tests.kernel.lib.netlink import NetlinkError, attribute, attributes, u8, u32
from tests.kernel.lib.rtnetlink import TC_H_ROOT, TCA_KIND, Rtnetlink, Shown, handle, nest

MTU, HEADER = 1500, 14
LIMIT, LIMIT_BYTES, FLOWS, QUANTUM, SCHEDULER, SPLIT_GSO, MEMORY_LIMIT = range(1, 8)
CODEL, TARGET, INTERVAL, ECN, CE_THRESHOLD = range(8, 13)
BANDS, UNASSIGNED, WAIT, FLOWS_NEW, HOSTS = range(13, 18)
MARK_NEW, MARK_ASSIGNED, DOMAIN = range(18, 21)
DOMAIN_ALL = 0xFFFFFFFF
DRR, RR, SCFQ = range(3)
LIMIT_BYTES_MAX, FLOWS_MAX, QUANTUM_MAX = 1 << 30, 1 << 20, 1 << 24

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOL_UDP, UDP_SEGMENT = 17, 103
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETH_P_IP, ETH_P_EXPERIMENTAL = 0x0800, 0x88B5
PORT = 9
#: Ethernet, IPv4 and UDP.
HEADERS = 42
NUMBERED = struct.Struct("!HI")
SMALLEST = 60

#: The flow whose packets keep the valve closed.
PRIMER = 0xFFFF
KICK = bytes.fromhex("020000000002020000000001") + ETH_P_EXPERIMENTAL.to_bytes(2, "big") + bytes(46)
#: Burst of a valve [bytes]; no packet may be larger.
BURST = 1600

TCA_TBF_PARMS, TCA_TBF_BURST = 1, 6


@dataclass(frozen=True)
class Options:
    """The parameters of a drr_fq, as dumped."""

    limit: int
    limit_bytes: int
    flows: int
    quantum: int
    scheduler: int
    split_gso: int
    memory_limit: int = 64 << 20
    codel: int = 0
    #: [us]; None: CoDel is off
    target: int | None = None
    interval: int | None = None
    ecn: int | None = None
    ce_threshold: int | None = None
    #: None: bands are off
    bands: int | None = None
    #: [1/1000]
    unassigned: int | None = None
    #: [us]
    wait: int | None = None
    flows_new: int | None = None
    hosts: int | None = None
    #: [DSCP]
    mark_new: int | None = None
    mark_assigned: int | None = None
    #: 0: off
    domain: int | None = None

    @classmethod
    def read(cls, content: bytes) -> Options:
        found = {kind: int.from_bytes(value, sys.byteorder) for kind, value in attributes(content)}
        assert found.keys() >= set(range(LIMIT, CODEL + 1))
        return cls(*(found.get(kind) for kind in range(LIMIT, DOMAIN + 1)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Statistics:
    """struct tc_drr_fq_qdisc_stats."""

    drops_longest: int
    drops_oversize: int
    collisions: int
    new_flows: int
    gso_split: int
    memory: int
    active_flows: int
    active_flows_max: int
    longest_backlog: int
    longest_flow: int
    max_packet: int
    unused: int
    memory_used: int
    drops_memory: int
    control_packets: int
    control_hashed: int
    drops_codel: int
    ecn_marks: int
    ce_marks: int

    @classmethod
    def read(cls, application: bytes) -> Statistics:
        kind, _, *values = struct.unpack_from("=II6Q6I5Q2I", application)
        assert kind == 0
        return cls(*values)


@dataclass(frozen=True)
class Queue:
    """A class, as dumped, with struct tc_drr_fq_class_stats."""

    sent_packets: int
    qlen: int
    backlog: int
    drops: int
    deficit: int
    head_length: int
    tag: int
    delay: int
    dropping: int

    @classmethod
    def read(cls, shown: Shown) -> Queue:
        kind, _, *values = struct.unpack_from("=IIIIqII", shown.application)
        assert kind == 1
        return cls(shown.sent_packets, shown.qlen, shown.backlog, shown.drops, *values)


@dataclass(frozen=True)
class Band:
    """A class that is a band, as dumped, with struct tc_drr_fq_band_stats."""

    sent_packets: int
    qlen: int
    backlog: int
    drops: int
    drops_late: int
    marks_cleared: int
    memory_used: int
    active_flows: int
    deficit: int
    #: [1024 ns]
    wait_longest: int
    #: by step, sent packets
    waits: tuple[int, ...] = ()

    @classmethod
    def read(cls, shown: Shown) -> Band:
        kind, _, *values = struct.unpack_from("=IIQQQIII", shown.application)
        waits = struct.unpack_from(f"={WAITS}I", shown.application, 48)
        assert kind == 2 and len(shown.application) == 48 + 4 * WAITS
        read = cls(shown.sent_packets, shown.qlen, shown.backlog, shown.drops, *values)
        return replace(read, waits=waits)


#: DRR_FQ_WAITS
WAITS = 144


def wait_of(step: int) -> float:
    """drr_fq_wait_of [s]."""
    return (step if step < 8 else (8 + step % 8) << (step // 8 - 1)) * 1.024e-6


def options(**given: int) -> bytes:
    """TCA_OPTIONS with only the given attributes."""
    numbers = {each.name: number for number, each in enumerate(fields(Options), 1)}
    content = b""
    for name, value in given.items():
        write = u8 if name in ("scheduler", "split_gso", "codel", "ecn", "bands") else u32
        content += write(numbers[name], value)
    return nest(content)


def tbf_options(bytes_per_second: int, burst: int) -> bytes:
    ethernet = 1
    rate = struct.pack("=BBHhHI", 0, ethernet, 0, -1, 0, bytes_per_second)
    parameters = attribute(TCA_TBF_PARMS, rate + bytes(len(rate)) + struct.pack("=III", 0, 0, 0))
    return nest(parameters + u32(TCA_TBF_BURST, burst))


def batch(program: str, commands: str) -> None:
    """Run commands of tc or ip, one per line, in one process."""
    done = launch.run([program, "-batch", "-"], input=commands, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{program}:\n{commands}\n{done.stdout}"


@dataclass(frozen=True)
class Parent:
    """Qdiscs between the valve and drr_fq: tc commands, and the parent of drr_fq."""

    commands: str = ""
    place: str = "3:1"
    #: It delays packets before it enqueues them to drr_fq.
    waits: bool = False


PARENTS = {
    "tbf": Parent(place="2:1"),
    "htb": Parent(
        """qdisc add dev a0 parent 2:1 handle 3: htb default 1
        class add dev a0 parent 3: classid 3:f htb rate 8gbit burst 1mb cburst 1mb quantum 60000
        class add dev a0 parent 3:f classid 3:1 htb rate 8gbit burst 1mb cburst 1mb quantum 60000"""
    ),
    "hfsc": Parent(
        """qdisc add dev a0 parent 2:1 handle 3: hfsc default 1
        class add dev a0 parent 3: classid 3:f hfsc sc rate 8gbit
        class add dev a0 parent 3:f classid 3:1 hfsc sc rate 8gbit"""
    ),
    "prio": Parent(
        "qdisc add dev a0 parent 2:1 handle 3: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    ),
    "drr": Parent(
        """qdisc add dev a0 parent 2:1 handle 3: drr
        class add dev a0 parent 3: classid 3:1 drr quantum 1514
        filter add dev a0 parent 3: matchall classid 3:1"""
    ),
    "ets": Parent("qdisc add dev a0 parent 2:1 handle 3: ets bands 1 quanta 1514"),
    "qfq": Parent(
        """qdisc add dev a0 parent 2:1 handle 3: qfq
        class add dev a0 parent 3: classid 3:1 qfq weight 1
        filter add dev a0 parent 3: matchall classid 3:1"""
    ),
    "red": Parent(
        "qdisc add dev a0 parent 2:1 handle 3: red limit 4mb min 500kb max 1500kb"
        " avpkt 1000 burst 600 bandwidth 1gbit"
    ),
    "prio/htb/drr": Parent(
        """qdisc add dev a0 parent 2:1 handle 3: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
        qdisc add dev a0 parent 3:1 handle 4: htb default 1
        class add dev a0 parent 4: classid 4:1 htb rate 8gbit burst 1mb cburst 1mb quantum 60000
        qdisc add dev a0 parent 4:1 handle 5: drr
        class add dev a0 parent 5: classid 5:1 drr quantum 1514
        filter add dev a0 parent 5: matchall classid 5:1""",
        place="5:1",
    ),
    "netem": Parent("qdisc add dev a0 parent 2:1 handle 3: netem limit 100000", waits=True),
}


@dataclass(frozen=True)
class Arrival:
    """A received packet; for GSO packets, with the number of the first segment."""

    flow: int
    number: int
    #: Length on the wire [bytes].
    length: int
    segments: int = 1


@dataclass
class Link:
    """The link of the drawing above, in the network namespace where it was created."""

    rtnetlink: Rtnetlink
    index: int
    receiver: socket.socket
    burst: int
    senders: dict[int, socket.socket] = field(default_factory=dict)
    next_number: Counter[int] = field(default_factory=Counter)
    arrived: int = 0

    # --- configuration

    def valve(self, bytes_per_second: int) -> None:
        content = attribute(TCA_KIND, b"tbf\0") + tbf_options(bytes_per_second, self.burst)
        self.rtnetlink.change_qdisc(self.index, handle("2:"), handle("1:1"), content)

    def close_valve(self) -> None:
        self.valve(1)
        while not self.shown("2:").qlen:
            self.send(PRIMER, MTU + HEADER, classes=False)

    def open_valve(self, bytes_per_second: int = 1_000_000_000) -> None:
        self.valve(bytes_per_second)
        self.kick_valve()

    def kick_valve(self) -> None:
        """Make the valve check whether it can send its next packet."""
        self.inject(KICK)

    def change(self, **given: int) -> None:
        """Change parameters of drr_fq 10:."""
        where = self.shown("10:")
        content = attribute(TCA_KIND, b"drr_fq\0") + options(**given)
        self.rtnetlink.change_qdisc(self.index, where.handle, where.parent, content)

    # --- state

    def qdiscs(self) -> dict[str, Shown]:
        return {f"{each.handle >> 16:x}:": each for each in self.rtnetlink.qdiscs(self.index)}

    def shown(self, name: str) -> Shown:
        return self.qdiscs()[name]

    @property
    def options(self) -> Options:
        return Options.read(self.shown("10:").options)

    @property
    def statistics(self) -> Statistics:
        return Statistics.read(self.shown("10:").application)

    @property
    def queues(self) -> dict[int, Queue]:
        """The backlogged queues of drr_fq 10:, by the minor numbers of their classes."""
        return {number: Queue.read(shown) for number, shown in self._classes()}

    @property
    def bands(self) -> list[Band]:
        """The bands of drr_fq 10: new, assigned, unassigned."""
        found = dict(self._classes())
        assert list(found) == [1, 2, 3]
        return [Band.read(shown) for shown in found.values()]

    def _classes(self) -> Iterator[tuple[int, Shown]]:
        for shown in self.rtnetlink.classes(self.index):
            if shown.handle >> 16 == 0x10:
                yield shown.handle & 0xFFFF, shown

    # --- packets

    def receive_at(self, device: str) -> None:
        self.receiver.bind((device, ETH_P_IP))

    def _sender(self, priority: int) -> socket.socket:
        if priority not in self.senders:
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.bind(("a0", 0))
            made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 29)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            self.senders[priority] = made
        return self.senders[priority]

    def inject(self, frame: bytes, priority: int = 0) -> bool:
        """Send a frame with any content; return whether it was queued."""
        try:
            self._sender(priority).send(frame)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return False
        return True

    def send(
        self,
        flow: int,
        length: int,
        count: int = 1,
        classes: bool = True,
        priority: int | None = None,
    ) -> int:
        """Send numbered frames of LENGTH bytes; return how many were queued.

        With CLASSES, to the class of the flow's number (from 1), otherwise to the queue of the
        flow's hash; PRIORITY sets the priority explicitly.
        """
        if priority is None:
            priority = handle(f"10:{flow:x}") if classes else 0
        queued = 0
        for _ in range(count):
            number = self.next_number[flow]
            self.next_number[flow] += 1
            queued += self.inject(numbered_frame(flow, number, length), priority)
        return queued

    def arrivals(self) -> list[Arrival]:
        """Packets received since the last call, without those that close the valve."""
        found: list[Arrival] = []
        while True:
            try:
                frame = self.receiver.recv(1 << 17)
            except BlockingIOError:
                return found
            if frame[12:14] != b"\x08\x00" or frame[36:38] != PORT.to_bytes(2, "big"):
                continue
            flow, number = NUMBERED.unpack_from(frame, HEADERS)
            # GSO packets arrive unsegmented; the data of each segment starts with flow and number.
            payload = len(frame) - HEADERS
            segments = 1
            if len(frame) > MTU + HEADER:
                segments = -(-payload // UDP_DATA)
            self.arrived += segments
            if flow != PRIMER:
                found.append(Arrival(flow, number, len(frame) + (segments - 1) * HEADERS, segments))

    def drain(self) -> list[Arrival]:
        """Wait until all queues are empty and all packets have arrived."""
        wait_for(lambda: not any(each.qlen for each in self.qdiscs().values()))
        found: list[Arrival] = []
        (root,) = (each for each in self.qdiscs().values() if each.parent == TC_H_ROOT)

        def complete() -> bool:
            found.extend(self.arrivals())
            return self.arrived >= root.sent_packets

        wait_for(complete)
        assert self.arrived == root.sent_packets
        return found

    def check_backlogs(self, waits: bool = False) -> None:
        """With a closed valve, check that the backlogs of all qdiscs are consistent.

        The packet that keeps the valve closed has been dequeued from the qdiscs below its holder.
        """
        shown = sorted(self.qdiscs().values(), key=lambda each: each.handle)
        if waits:
            shown = shown[:-1]
        queued = [(each.qlen, each.backlog) for each in shown]
        held = [(queued[0][0] - qlen, queued[0][1] - backlog) for qlen, backlog in queued]
        assert all(number == (size > 0) for number, size in held), queued
        assert len({size for _, size in held if size}) <= 1, queued
        assert held == sorted(held), queued

    def check_empty(self) -> None:
        """Check that all backlogs and statistics show empty queues."""
        for name, each in self.qdiscs().items():
            assert (name, each.qlen, each.backlog) == (name, 0, 0)
        if "10:" in self.qdiscs():
            statistics = self.statistics
            assert (statistics.active_flows, statistics.longest_backlog) == (0, 0)
            assert statistics.longest_flow == 0
            if self.options.bands:
                empty = (0, 0, 0)
                assert [(b.qlen, b.backlog, b.memory_used) for b in self.bands] == [empty] * 3
            else:
                assert self.queues == {}


#: Payload of a segment of a GSO packet [bytes].
UDP_DATA = MTU - HEADERS + HEADER


def numbered_frame(flow: int, number: int, length: int) -> bytes:
    udp = struct.pack("!HHHH", 1024 + flow % 60000, PORT, length - 34, 0)
    addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length - HEADER, 0, 0, 64, 17, 0) + addresses
    ethernet = bytes.fromhex("0200000000020200000000010800")
    data = NUMBERED.pack(flow, number)
    return ethernet + ip + udp + data + bytes(length - HEADERS - len(data))


class GsoSocket:
    """A UDP socket that sends GSO packets, by UDP_SEGMENT."""

    def __init__(self, made_on: Link, flow: int) -> None:
        self.link = made_on
        self.flow = flow
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 29)
        self.socket.setsockopt(SOL_UDP, UDP_SEGMENT, UDP_DATA)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, handle(f"10:{flow:x}"))
        self.socket.connect(("10.0.0.2", PORT))

    def __enter__(self) -> GsoSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, segments: int) -> None:
        first = self.link.next_number[self.flow]
        self.link.next_number[self.flow] += segments
        data = b"".join(
            NUMBERED.pack(self.flow, first + i).ljust(UDP_DATA, b"\0") for i in range(segments)
        )
        self.socket.send(data)


@contextlib.contextmanager
def link(tc: str = "", queues: int = 1, burst: int = BURST) -> Iterator[Link]:
    """A link in a new network namespace, after running the tc commands TC."""
    with unnamed_namespace():
        many = f"numtxqueues {queues} numrxqueues {queues}"
        near, far = "a0 address 02:00:00:00:00:01", "b0 address 02:00:00:00:00:02"
        run_ip(
            [
                f"link add {near} {many} type veth peer {far} {many}",
                "link set lo up",
                "addr add 10.0.0.1/24 dev a0",
                "link set a0 up",
                "link set b0 up",
                "neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a0",
            ]
        )
        wait_for_carriers("a0", "b0")
        if tc:
            batch("tc", tc)
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 29)
        receiver.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        receiver.bind(("b0", ETH_P_IP))
        receiver.setblocking(False)
        made = Link(Rtnetlink(), socket.if_nametoindex("a0"), receiver, burst)
        try:
            yield made
        finally:
            # Queued packets hold references to their sockets, and those to the namespace: with a
            # closed valve, indefinitely.
            with contextlib.suppress(NetlinkError):
                made.rtnetlink.delete_link(made.index)
            made.rtnetlink.close()
            receiver.close()
            for sender in made.senders.values():
                sender.close()


@contextlib.contextmanager
def valved(options: str = "", parent: Parent | str = "htb", burst: int = BURST) -> Iterator[Link]:
    """A link with a closed valve and behind it drr_fq 10:, with tc's OPTIONS."""
    if isinstance(parent, str):
        parent = PARENTS[parent]
    tc = f"""qdisc add dev a0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    filter add dev a0 parent 1: protocol {ETH_P_EXPERIMENTAL} matchall action drop
    qdisc add dev a0 parent 1:1 handle 2: tbf rate 8bit burst {burst} limit 100mb
    {parent.commands}
    qdisc add dev a0 parent {parent.place} handle 10: drr_fq {options}"""
    with link(tc, burst=burst) as made:
        made.close_valve()
        yield made
