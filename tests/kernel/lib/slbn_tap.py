# SPDX-License-Identifier: GPL-2.0
"""A link with packet sockets on both sides.

    a0 with slbn -------------- veth -------------- b0
    sends downstream frames,            sends upstream frames,
    receives upstream frames            receives downstream frames

    s0 -------------- veth -------------- u0
    to the source                       receives answers

Answers are sent to ROUTER, an address of the namespace, which sends them to ORIGIN on s0.

The link's state is read over rtnetlink, as tc takes as long to start in an emulated machine as
sending some hundred packets. A frame has passed when a marker frame sent after it has: frames on a
veth keep their order, so no test waits for a fixed time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.kernel.lib.genetlink import MEGA, options
from tests.kernel.lib.iproute import run_ip, turn_off
from tests.kernel.lib.net import (
    TRACING,
    Namespace,
    sh,
    tracing,
    unnamed_namespace,
    wait_for,
    wait_for_carriers,
)
from tests.kernel.lib.netlink import NLM_F_CREATE, NLM_F_REPLACE, attribute
from tests.kernel.lib.rtnetlink import TC_H_ROOT, TCA_KIND, Rtnetlink, handle
from tests.kernel.lib.slbn_wire import (
    ETH_P_IP,
    ETH_P_IPV6,
    JOIN,
    LEAVE,
    ORIGIN,
    ROUTER,
    Datagram,
    Packet,
    State,
    decode,
    read_packet,
    read_udp,
)

#: VLANs as (protocol, tag), outermost first.
Vlans = tuple[tuple[int, int], ...]

ETH_P_ALL = 0x3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
SO_RCVBUFFORCE = 33
TP_STATUS_VLAN_VALID = 1 << 4
AUXDATA = struct.Struct("=IIIHHHH")


class Tap:
    """A packet socket on a device.

    ETH_P_ALL receives frames before the hook of an edge, another protocol those that it passes.
    """

    def __init__(self, device: str, protocol: int = ETH_P_ALL) -> None:
        # Protocol 0 until it is bound, or it would receive frames of all devices.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.bind((device, protocol))
        self.socket.setblocking(False)

    def frames(self) -> list[bytes]:
        found: list[bytes] = []
        while True:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(1 << 17, 64)
            except BlockingIOError:
                return found
            # The kernel removes the outermost VLAN tag: it is in the auxiliary data.
            status, _, _, _, _, tag, protocol = AUXDATA.unpack(ancillary[0][2])
            if status & TP_STATUS_VLAN_VALID:
                data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
            found.append(data)


#: A link that only packets change: no rotation, no event, no rate limit. Without an epoch it grants
#: rates from the start.
STEADY = {"rate": 100 * MEGA, "headroom": 0, "epoch": 0, "memory": 64, "control": 1000}
STEADY["threshold"] = 1000
#: Code of the largest rate up to STEADY's, which a single session gets, and the rate.
FULL_CODE = 16 << 11 | 1525
FULL_RATE = decode(FULL_CODE)


def attach(netlink: Rtnetlink, index: int, **given: Any) -> None:
    """Make a device a link, or change the given options of its link."""
    content = attribute(TCA_KIND, b"slbn\0") + options(**given)
    flags = NLM_F_CREATE | NLM_F_REPLACE
    netlink.change_qdisc(index, handle("1:"), TC_H_ROOT, content, flags)


def state_of(netlink: Rtnetlink, index: int) -> State:
    """The state of a link, from the qdisc's statistics."""
    (found,) = (each for each in netlink.qdiscs(index) if each.kind == "slbn")
    return State.read(found.application)


def state_in(node: Namespace, device: str) -> State:
    """The state of a link in another namespace."""
    with node.entered(), contextlib.closing(Rtnetlink()) as netlink:
        return state_of(netlink, socket.if_nametoindex(device))


_numbers = itertools.count()


@dataclass(frozen=True)
class Passed:
    """Frames received downstream at b0, upstream at a0, and by the source at u0."""

    downstream: list[bytes]
    upstream: list[bytes]
    answers: list[bytes]


@dataclass
class Wire:
    """The link in the figure above, in the network namespace where it was created."""

    netlink: Rtnetlink
    senders: dict[str, socket.socket]
    taps: dict[str, list[Tap]]
    #: VLANs of frames at b0 that they do not have at a0.
    vlans: Vlans

    def attach(self, device: str = "a0", **given: Any) -> None:
        """Make a device a link with STEADY and the given options."""
        attach(self.netlink, socket.if_nametoindex(device), **{**STEADY, **given})

    def change(self, **given: Any) -> None:
        attach(self.netlink, socket.if_nametoindex("a0"), **given)

    def state(self, device: str = "a0") -> State:
        return state_of(self.netlink, socket.if_nametoindex(device))

    def tags(self, session: bytes, key: bytes | None = None, key_id: int = 0) -> dict[int, int]:
        """The tags that links write for a session now, by hop: it joins, and leaves again."""
        join = Packet(JOIN, id=session, key=key, key_id=key_id)
        downstream, answers = self.both(Datagram(join).frame())
        (came,) = (read_packet(read_udp(frame)[0]) for frame in downstream + answers)
        leave = replace(came, type=LEAVE, hop=0, key=key, key_id=key_id, options=b"")
        self.both(Datagram(leave).frame())
        return came.tags

    def _pass(self, frames: Sequence[bytes], side: str) -> Passed:
        marker = b"marker" + struct.pack("!Q", next(_numbers))
        markers = []
        for v6 in (False, True):
            down = Datagram(marker, v6, sport=9, dport=9, check=0)
            markers.append((down.frame(), replace(down, vlans=self.vlans).back().frame()))
        for frame in frames:
            send(self.senders[side], frame)
        for frame, _ in markers:
            send(self.senders["a0"], frame)
        downstream = until(self.taps["b0"][0], marker)
        for _, frame in markers:
            send(self.senders["b0"], frame)
        upstream = [frame for tap in self.taps["a0"] for frame in until(tap, marker)]
        # Behind the answers that the frames above have caused.
        send(self.senders["s0"], markers[0][0])
        return Passed(downstream, upstream, until(self.taps["u0"][0], marker))

    def both(self, *frames: bytes) -> tuple[list[bytes], list[bytes]]:
        """Send frames downstream; returns those received at b0, and the answers to the source."""
        passed = self._pass(frames, "a0")
        assert passed.upstream == [], passed.upstream
        return passed.downstream, passed.answers

    def down(self, *frames: bytes) -> list[bytes]:
        """Send frames downstream, without answers; returns those received at b0."""
        downstream, answers = self.both(*frames)
        assert answers == [], answers
        return downstream

    def up(self, *frames: bytes) -> list[bytes]:
        """Send answers upstream; returns those that the router sends on."""
        passed = self._pass(frames, "b0")
        assert passed.downstream == [], passed.downstream
        return passed.answers

    def received(self, *frames: bytes) -> list[bytes]:
        """Send frames upstream; returns those that the device received, IPv4 before IPv6."""
        passed = self._pass(frames, "b0")
        assert passed.downstream == passed.answers == [], passed
        return passed.upstream


def until(tap: Tap, marker: bytes) -> list[bytes]:
    """The frames received before a marker."""
    seen: list[bytes] = []

    def passed() -> bool:
        seen.extend(tap.frames())
        # Without the tags that a VLAN device has removed.
        return any(frame.endswith(marker) for frame in seen)

    wait_for(passed)
    return [frame for frame in seen if b"marker" not in frame and not is_noise(frame)]


def is_noise(frame: bytes) -> bool:
    """Whether it is one of the multicasts that devices with IPv6 send by themselves."""
    return frame.startswith(b"\x33\x33")


def send(sender: socket.socket, frame: bytes) -> None:
    # Set the protocol of each frame: not all devices derive it from the frame.
    protocol = int.from_bytes(frame[12:14], "big")
    try:
        sender.sendto(frame, (sender.getsockname()[0], protocol))
    except OSError as error:
        # ENOBUFS: the link has dropped it.
        if error.errno != errno.ENOBUFS:
            raise


def sender(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.bind((device, 0))
    return made


def tops(device: str) -> list[Tap]:
    """Taps of the frames that a link passes upstream, IPv4 and IPv6."""
    return [Tap(device, ETH_P_IP), Tap(device, ETH_P_IPV6)]


def close(sockets: Sequence[Tap]) -> None:
    for each in sockets:
        each.socket.close()


CONF = Path("/proc/sys/net/ipv6/conf")
# No device sends by itself; s0 computes all checksums.
SETTINGS = {"default/addr_gen_mode": "1", "default/disable_ipv6": "0", "lo/disable_ipv6": "0"}
DEVICES = (
    "link add a0 address 02:00:00:00:00:01 type veth peer b0 address 02:00:00:00:00:02",
    "link add s0 address 02:00:00:00:00:03 type veth peer u0 address 02:00:00:00:00:04",
    "link set lo up",
    "link set a0 mtu 9000 up",
    "link set b0 mtu 9000 up",
    "link set s0 mtu 9000 up",
    "link set u0 mtu 9000 up",
    f"addr add {ROUTER[0]}/32 dev lo",
    f"addr add {ROUTER[1]}/128 dev lo nodad",
    "route add 10.0.8.0/24 dev s0",
    "route add fd00:8::/64 dev s0",
    f"neigh add {ORIGIN[0]} lladdr 02:00:00:00:00:04 dev s0",
    f"neigh add {ORIGIN[1]} lladdr 02:00:00:00:00:04 dev s0",
)


@contextlib.contextmanager
def wire(
    more: str = "", on: str = "a0", above: str = "a0", vlans: Vlans = (), **given: Any
) -> Iterator[Wire]:
    """A link on device ON in a new namespace; no link if ON is empty.

    MORE is shell commands that add devices; ABOVE is then the device that replaces a0 for sending
    and receiving, where frames do not have the tags of VLANS.
    """
    with unnamed_namespace():
        for name, value in SETTINGS.items():
            (CONF / name).write_text(value)
        run_ip(DEVICES)
        turn_off("s0", "tx")
        wait_for_carriers("a0", "b0", "s0", "u0")
        if more:
            sh(f"set -e\n{more}")
        senders = {"a0": sender(above), "b0": sender("b0"), "s0": sender("s0")}
        taps = {"a0": tops(above), "b0": [Tap("b0")], "u0": [Tap("u0")]}
        made = Wire(Rtnetlink(), senders, taps, vlans)
        try:
            if on:
                made.attach(on, **given)
            yield made
        finally:
            made.netlink.close()
            close([tap for taps in made.taps.values() for tap in taps])
            for each in senders.values():
                each.close()


@contextlib.contextmanager
def probed(function: str) -> Iterator[Path]:
    """Record the calls of a function of sch_slbn, with the context of each."""
    events = TRACING / "kprobe_events"
    events.write_text(f"p:slbn/called sch_slbn:{function}")
    try:
        with tracing("slbn/called") as trace:
            yield trace
    finally:
        # Opening it to write removes all events.
        events.write_text("")
