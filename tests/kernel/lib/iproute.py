# SPDX-License-Identifier: GPL-2.0
"""What ip and ethtool do in most tests, without starting them.

A process of ip takes 30 ms in User-Mode Linux, and more in an emulated machine, its request less
than 1 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import ipaddress
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.kernel.lib.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NetlinkError,
    attribute,
    u32,
)
from tests.kernel.lib.rtnetlink import IFINFOMSG, Rtnetlink

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED, MNT_DETACH = 1 << 12, 1 << 14, 1 << 20, 2

RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH = 16, 20, 24, 28
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 4, 18, 28
#: IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES
QUEUES = {"numtxqueues": 31, "numrxqueues": 32}
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL, IFA_F_NODAD = 1, 2, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC, RTNH_F_ONLINK = 1, 4, 5, 7, 4
RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_LINK, RTN_UNICAST = 254, 3, 253, 1
NDA_DST, NDA_LLADDR, NUD_PERMANENT = 1, 2, 0x80
IFADDRMSG, RTMSG, NDMSG = struct.Struct("=BBBBI"), struct.Struct("=8BI"), struct.Struct("=BxxxiHBB")

SIOCETHTOOL = 0x8946
#: Commands of ethtool by the feature, as `ethtool -K` names it.
FEATURES = {"tx": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, name: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), name)


@contextlib.contextmanager
def returning() -> Iterator[None]:
    """Return to the network namespace of this thread."""
    with open("/proc/thread-self/ns/net") as before:
        try:
            yield
        finally:
            enter(before.fileno())


def enter(namespace: int) -> None:
    """Enter the network namespace of this descriptor."""
    _checked(_libc.setns(namespace, CLONE_NEWNET), "setns")


def enter_new() -> None:
    """Enter a new network namespace."""
    _checked(_libc.unshare(CLONE_NEWNET), "unshare")


def _mount(source: bytes, target: Path, flags: int) -> None:
    _checked(_libc.mount(source, bytes(target), b"none", flags, None), "mount")


@functools.cache
def _share_directory() -> None:
    """Make the directory a shared mount, as ip does: namespaces are unmounted everywhere."""
    NAMESPACES.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        _mount(b"", NAMESPACES, MS_SHARED | MS_REC)
        return
    _mount(bytes(NAMESPACES), NAMESPACES, MS_BIND | MS_REC)
    _mount(b"", NAMESPACES, MS_SHARED | MS_REC)


def add_namespace(name: str) -> None:
    """`ip netns add NAME`"""
    _share_directory()
    path = NAMESPACES / name
    path.touch(0o400, exist_ok=False)
    with returning():
        enter_new()
        _mount(b"/proc/thread-self/ns/net", path, MS_BIND)


def delete_namespace(name: str) -> None:
    """`ip netns del NAME`"""
    path = NAMESPACES / name
    _checked(_libc.umount2(bytes(path), MNT_DETACH), "umount")
    path.unlink()


def turn_off(device: str, *features: str) -> None:
    """`ethtool -K DEVICE FEATURE off ...`"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for feature in features:
            value = ctypes.create_string_buffer(struct.pack("=II", FEATURES[feature], 0))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(control, SIOCETHTOOL, request)


class _Unknown(Exception):
    """A command that only ip can run."""


def _options(words: Sequence[str], values: Sequence[str], flags: Sequence[str]) -> dict[str, str]:
    """Options of a command: those of VALUES are followed by one, FLAGS are not."""
    found, left = {}, iter(words)
    for word in left:
        if word not in (*values, *flags) or word in found:
            raise _Unknown
        found[word] = next(left) if word in values else ""
    return found


def _name(words: list[str], word: str) -> str:
    """Remove a name, which may follow WORD."""
    if words[0] == word:
        words.pop(0)
    return words.pop(0)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _text(kind: int, content: str) -> bytes:
    return attribute(kind, content.encode() + b"\0")


def _packed(kind: int, address: str) -> bytes:
    return attribute(kind, ipaddress.ip_address(address).packed)


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _flags(verb: str) -> int:
    if verb not in ("add", "replace"):
        raise _Unknown
    return NLM_F_CREATE | (NLM_F_REPLACE if verb == "replace" else NLM_F_EXCL)


def _add_veth(netlink: Rtnetlink, words: list[str]) -> None:
    """link add [name] A [OPTIONS] type veth peer [name] B [OPTIONS]

    Options: address MAC, netns NAME, numtxqueues N, numrxqueues N.
    """
    at = words.index("type") if "type" in words else len(words)
    if words[at : at + 3] != ["type", "veth", "peer"]:
        raise _Unknown
    with contextlib.ExitStack() as stack:

        def end(words: list[str]) -> bytes:
            content = _text(IFLA_IFNAME, _name(words, "name"))
            given = _options(words, ("address", "netns", *QUEUES), ())
            if "address" in given:
                content += attribute(IFLA_ADDRESS, _mac(given["address"]))
            for name in QUEUES & given.keys():
                content += u32(QUEUES[name], int(given[name]))
            if "netns" in given:
                there = stack.enter_context((NAMESPACES / given["netns"]).open())
                content += u32(IFLA_NET_NS_FD, there.fileno())
            return content

        near, far = end(words[:at]), end(words[at + 3 :])
        none = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0)
        peer = attribute(IFLA_INFO_DATA, attribute(VETH_INFO_PEER, none + far))
        info = attribute(IFLA_LINKINFO, _text(IFLA_INFO_KIND, "veth") + peer)
        netlink.request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, none + near + info)


def _set_link(netlink: Rtnetlink, words: list[str]) -> None:
    """link set [dev] A [mtu N] up|down"""
    device = _name(words, "dev")
    given = _options(words, ("mtu",), ("up", "down"))
    index = socket.if_nametoindex(device)
    change = IFF_UP if "up" in given or "down" in given else 0
    body = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, index, IFF_UP * ("up" in given), change)
    if "mtu" in given:
        body += u32(IFLA_MTU, int(given["mtu"]))
    netlink.request(RTM_NEWLINK, 0, body)


def _add_address(netlink: Rtnetlink, verb: str, words: list[str]) -> None:
    """addr add|replace ADDRESS/LENGTH dev A [nodad]"""
    address, _, length = words.pop(0).partition("/")
    given = _options(words, ("dev",), ("nodad",))
    family, index = _family(address), socket.if_nametoindex(given["dev"])
    nodad = IFA_F_NODAD * ("nodad" in given)
    whole = 128 if family == socket.AF_INET6 else 32
    body = IFADDRMSG.pack(family, int(length or whole), nodad, 0, index)
    body += _packed(IFA_LOCAL, address) + _packed(IFA_ADDRESS, address)
    netlink.request(RTM_NEWADDR, _flags(verb), body)


def _add_route(netlink: Rtnetlink, verb: str, words: list[str]) -> None:
    """route add|replace PREFIX|default [via ADDRESS] [dev A] [onlink] [src ADDRESS]"""
    prefix = words.pop(0)
    given = _options(words, ("via", "dev", "src"), ("onlink",))
    address, _, length = ("", "", "0") if prefix == "default" else prefix.partition("/")
    family = _family(address or given.get("via", ""))
    whole = "128" if family == socket.AF_INET6 else "32"
    scope = 0 if "via" in given or family == socket.AF_INET6 else RT_SCOPE_LINK
    flags = RTNH_F_ONLINK * ("onlink" in given)
    numbers = (RT_TABLE_MAIN, RTPROT_BOOT, scope, RTN_UNICAST)
    body = RTMSG.pack(family, int(length or whole), 0, 0, *numbers, flags)
    body += _packed(RTA_DST, address) if address else b""
    body += _packed(RTA_GATEWAY, given["via"]) if "via" in given else b""
    body += u32(RTA_OIF, socket.if_nametoindex(given["dev"])) if "dev" in given else b""
    body += _packed(RTA_PREFSRC, given["src"]) if "src" in given else b""
    netlink.request(RTM_NEWROUTE, _flags(verb), body)


def _add_neighbour(netlink: Rtnetlink, verb: str, words: list[str]) -> None:
    """neigh add|replace ADDRESS lladdr MAC dev A"""
    address = words.pop(0)
    given = _options(words, ("lladdr", "dev"), ())
    index = socket.if_nametoindex(given["dev"])
    body = NDMSG.pack(_family(address), index, NUD_PERMANENT, 0, 0)
    body += _packed(NDA_DST, address) + attribute(NDA_LLADDR, _mac(given["lladdr"]))
    netlink.request(RTM_NEWNEIGH, _flags(verb), body)


def _run(netlink: Rtnetlink, command: str) -> None:
    match command.split():
        case ["netns", "add", name]:
            add_namespace(name)
        case ["netns", "del", name]:
            delete_namespace(name)
        case ["link", "add", *words]:
            _add_veth(netlink, words)
        case ["link", "set", *words]:
            _set_link(netlink, words)
        case ["addr", verb, *words]:
            _add_address(netlink, verb, words)
        case ["route", verb, *words]:
            _add_route(netlink, verb, words)
        case ["neigh", verb, *words]:
            _add_neighbour(netlink, verb, words)
        case _:
            raise _Unknown


def run_ip(commands: Sequence[str]) -> None:
    """Run commands of ip in this thread's namespace; from the first unknown one on by ip."""
    with contextlib.closing(Rtnetlink()) as netlink:
        for number, command in enumerate(commands):
            try:
                _run(netlink, command)
            except _Unknown:
                program, rest = ["ip", "-batch", "-"], "\n".join(commands[number:])
                subprocess.run(program, input=rest, text=True, check=True)
                return
            except NetlinkError as error:
                reason = f"{os.strerror(error.errno)} {error.message}"
                raise AssertionError(f"ip {command}: {reason}") from None
