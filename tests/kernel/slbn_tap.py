# SPDX-License-Identifier: GPL-2.0
"""A link, and packet sockets on both of its sides.

    a0 with slbn -------------- veth -------------- b0
    frames are sent here to go down,    frames are sent here to come up,
    what came up is seen behind         what went down is seen
    the link's hook

The link's state is read over rtnetlink, not by tc, which takes as long to start in an emulated
machine as some hundred packets to send. A frame is through when another that was sent behind it is:
on a veth frames do not pass each other, so nothing here waits for a time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.kernel.genetlink import MEGA, SECOND, options
from tests.kernel.net import Namespace, sh, unnamed_namespace, wait_for
from tests.kernel.rtnetlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    TC_H_ROOT,
    TCA_KIND,
    Rtnetlink,
    attribute,
    handle,
)
from tests.kernel.slbn_wire import ETH_P_IP, ETH_P_IPV6, Datagram, State

#: (protocol, tag), the outermost first.
Vlans = tuple[tuple[int, int], ...]

ETH_P_ALL = 0x3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
SO_RCVBUFFORCE = 33
TP_STATUS_VLAN_VALID = 1 << 4
AUXDATA = struct.Struct("=IIIHHHH")


class Tap:
    """What a device takes in.

    With ETH_P_ALL as it comes from the wire, with another protocol what a link lets pass.
    """

    def __init__(self, device: str, protocol: int = ETH_P_ALL) -> None:
        # Of no protocol until it is bound: it would begin with frames of all devices.
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
            # A socket is given the outermost VLAN tag beside the frame.
            status, _, _, _, _, tag, protocol = AUXDATA.unpack(ancillary[0][2])
            if status & TP_STATUS_VLAN_VALID:
                data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
            found.append(data)


#: A link whose books nothing moves but packets: no epoch ends, no event is told, none is too many.
QUIET = {"rate": 100 * MEGA, "epoch": 3600 * SECOND, "memory": 64, "control": 1000}
QUIET["threshold"] = 1000


def attach(netlink: Rtnetlink, index: int, **given: Any) -> None:
    """Make a device a link, or change what is given of how it is."""
    content = attribute(TCA_KIND, b"slbn\0") + options(**given)
    flags = NLM_F_CREATE | NLM_F_REPLACE
    netlink.change_qdisc(index, handle("1:"), TC_H_ROOT, content, flags)


def state_of(netlink: Rtnetlink, index: int) -> State:
    """As the qdisc tells it."""
    (found,) = (each for each in netlink.qdiscs(index) if each.kind == "slbn")
    return State.read(found.application)


def state_in(node: Namespace, device: str) -> State:
    """Of a link in another namespace."""
    with node.entered(), contextlib.closing(Rtnetlink()) as netlink:
        return state_of(netlink, socket.if_nametoindex(device))


_numbers = itertools.count()


@dataclass
class Wire:
    """The link of the drawing above; everything is in the network namespace where it was made."""

    netlink: Rtnetlink
    senders: dict[str, socket.socket]
    taps: dict[str, list[Tap]]
    #: Tags that frames have at b0, but not at a0.
    vlans: Vlans

    def attach(self, device: str = "a0", **given: Any) -> None:
        """Make a device a link, quiet but for what is given."""
        attach(self.netlink, socket.if_nametoindex(device), **{**QUIET, **given})

    def change(self, **given: Any) -> None:
        attach(self.netlink, socket.if_nametoindex("a0"), **given)

    def state(self, device: str = "a0") -> State:
        return state_of(self.netlink, socket.if_nametoindex(device))

    def _pass(self, frames: Sequence[bytes], side: str) -> tuple[list[bytes], list[bytes]]:
        fence = b"fence" + struct.pack("!Q", next(_numbers))
        fences = []
        for v6 in (False, True):
            down = Datagram(fence, v6, sport=9, dport=9, check=0)
            fences.append((down.frame(), replace(down, vlans=self.vlans).back().frame()))
        for frame in frames:
            send(self.senders[side], frame)
        for frame, _ in fences:
            send(self.senders["a0"], frame)
        came_down = until(self.taps["b0"][0], fence)
        for _, frame in fences:
            send(self.senders["b0"], frame)
        came_up = [frame for tap in self.taps["a0"] for frame in until(tap, fence)]
        return came_down, came_up

    def both(self, *frames: bytes) -> tuple[list[bytes], list[bytes]]:
        """Send frames out through the link; what came out, and what came back."""
        return self._pass(frames, "a0")

    def down(self, *frames: bytes) -> list[bytes]:
        """Send frames out through the link, where nothing turns them round; what came out."""
        came_down, came_up = self._pass(frames, "a0")
        assert came_up == [], came_up
        return came_down

    def up(self, *frames: bytes) -> list[bytes]:
        """Send frames in through the link; what it let pass, IPv4 before IPv6."""
        came_down, came_up = self._pass(frames, "b0")
        assert came_down == [], came_down
        return came_up


def until(tap: Tap, fence: bytes) -> list[bytes]:
    """What came in before a fence did."""
    seen: list[bytes] = []

    def passed() -> bool:
        seen.extend(tap.frames())
        # Its tags are gone behind a VLAN's device.
        return any(frame.endswith(fence) for frame in seen)

    wait_for(passed)
    return [frame for frame in seen if b"fence" not in frame]


def send(sender: socket.socket, frame: bytes) -> None:
    # Said with each frame what it is, since not all devices can tell by looking at it.
    protocol = int.from_bytes(frame[12:14], "big")
    try:
        sender.sendto(frame, (sender.getsockname()[0], protocol))
    except OSError as error:
        # So a sender is told that a link has dropped it.
        if error.errno != errno.ENOBUFS:
            raise


def sender(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.bind((device, 0))
    return made


def tops(device: str) -> list[Tap]:
    """What a link lets pass up."""
    return [Tap(device, ETH_P_IP), Tap(device, ETH_P_IPV6)]


def close(sockets: Sequence[Tap]) -> None:
    for each in sockets:
        each.socket.close()


VETH = """
    ip link add a0 address 02:00:00:00:00:01 type veth peer b0 address 02:00:00:00:00:02
    ip link set a0 up
    ip link set b0 up"""


@contextlib.contextmanager
def wire(
    more: str = "", on: str = "a0", above: str = "a0", vlans: Vlans = (), **given: Any
) -> Iterator[Wire]:
    """A link in a namespace of its own; or, ON nothing, no link yet.

    There a shell makes MORE, after which another device may stand for a0: ABOVE it, where frames
    do not have the tags of these VLANs.
    """
    with unnamed_namespace():
        sh("set -e" + VETH + "\n" + more)
        senders = {"a0": sender(above), "b0": sender("b0")}
        made = Wire(Rtnetlink(), senders, {"a0": tops(above), "b0": [Tap("b0")]}, vlans)
        try:
            if on:
                made.attach(on, **given)
            yield made
        finally:
            made.netlink.close()
            close(made.taps["a0"] + made.taps["b0"])
            for each in senders.values():
                each.close()
