# SPDX-License-Identifier: GPL-2.0
"""Network namespaces that no process has to hold.

In virtual time starting a program takes tens of milliseconds of this machine's time, more than a
small network needs for a second of traffic.  So a host or router of the network is an open file,
and what can be set by system calls is set from within, without programs.
"""

import array
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

CLONE_NEWNET = 0x40000000
THIS = "/proc/thread-self/ns/net"

SIOCGIFMTU, SIOCETHTOOL = 0x8921, 0x8946
# The offloads of veth, by ethtool's names: the commands to get and to set them (linux/ethtool.h).
# With them queues would count many packets as one.
GSO = "generic-segmentation-offload"
OFFLOADS = {
    GSO: (0x23, 0x24),
    "tcp-segmentation-offload": (0x1E, 0x1F),
    "generic-receive-offload": (0x2B, 0x2C),
}
# struct ifreq: a name, a pointer to struct ethtool_value.
IFREQ = struct.Struct("16sP16x")
# Or a name and an integer.
IFREQ_INTEGER = struct.Struct("16si20x")


def _call(name: str, *arguments: int) -> None:
    """Call a function of libc."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


class Namespace:
    """A network namespace, until it is closed and its processes have ended."""

    def __init__(self) -> None:
        with _returning():
            _call("unshare", CLONE_NEWNET)
            self.file = os.open(THIS, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.file)

    @property
    def path(self) -> str:
        """A path for other processes."""
        return f"/proc/{os.getpid()}/fd/{self.file}"

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Within it, this thread and the programs that it starts are in the namespace.

        A socket stays in the namespace in which it was created.  The files of the namespace are in
        /proc/thread-self/net and /proc/sys/net.
        """
        with _returning():
            _call("setns", self.file, CLONE_NEWNET)
            yield


@contextlib.contextmanager
def _returning() -> Iterator[None]:
    """Return to this thread's namespace."""
    home = os.open(THIS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _call("setns", home, CLONE_NEWNET)
        os.close(home)


def set_sysctl(name: str, value: str) -> None:
    """Set a parameter net.NAME of this thread's namespace; raise OSError if it is refused."""
    Path("/proc/sys/net", name).write_text(f"{value}\n")


def _ethtool(interface: str, command: int, value: int = 0) -> int:
    data = array.array("I", [command, value])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = IFREQ.pack(interface.encode(), data.buffer_info()[0])
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)
    return data[1]


def set_offloads(interface: str, on: Sequence[str]) -> None:
    """Turn all offloads off but those that are to be ON.

    With GSO, TCP gives the interface many segments at once, which it splits before it sends them.
    Without TCP segmentation offload, only full packets pass the link.
    """
    for name, (_, setter) in OFFLOADS.items():
        _ethtool(interface, setter, int(name in on))


def offloads_on(interface: str) -> list[str]:
    """The offloads of an interface that are on."""
    return [name for name, (getter, _) in OFFLOADS.items() if _ethtool(interface, getter)]


def mtu_of(interface: str) -> int:
    """The MTU of an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFMTU, IFREQ_INTEGER.pack(interface.encode(), 0))
    return int(IFREQ_INTEGER.unpack(answer)[1])
