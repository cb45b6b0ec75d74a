# SPDX-License-Identifier: GPL-2.0
"""SLBN beside what forwards packets past the stack: ifb, tc redirects, flowtables, XDP.

    node 0 -- e0 -- node 1 -- e1 -- node 2

A link that is bypassed shows in the rates: its capacity is the smallest.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.kernel.lib.genetlink import Genetlink
from tests.kernel.lib.net import Namespace, namespace, sh, wait_for, wait_for_carrier
from tests.kernel.lib.rtnetlink import Rtnetlink
from tests.kernel.lib.slbn import agents, chain, has
from tests.kernel.lib.slbn_tap import probed, sender, state_in, state_of
from tests.kernel.lib.slbn_wire import (
    IPPROTO_FRAGMENT,
    IPPROTO_UDP,
    JOIN,
    PORT,
    Datagram,
    Packet,
)


def shaped(device: str, rate: str) -> str:
    """Commands for a link with a shaper."""
    return f"""
        tc qdisc add dev {device} root handle 1: tbf rate {rate} burst 20kb limit 1mb
        tc qdisc add dev {device} parent 1:1 handle 2: slbn rate {rate} headroom 0"""


def test_ifb_is_a_link_for_the_downlink(peer: str) -> None:
    """Received packets are redirected to an ifb with a shaper; answers reach its link."""
    with chain(1) as net, agents(peer, net.nodes) as (source, _):
        net.attach(0, "rate 100mbit headroom 0")
        net.nodes[1].sh(f"""set -e
            ip link add i0 type ifb
            ip link set i0 up {shaped("i0", "30mbit")}
            tc qdisc add dev w0 clsact
            tc filter add dev w0 ingress matchall action mirred egress redirect dev i0""")
        source.send("join 10.0.0.2 0", "join fd00:0::2 0", "join 10.0.0.2 4000000")
        wait_for(lambda: has(source, 13, 13, 4))
        shown = state_in(net.nodes[1], "i0")
        assert shown.joins >= 3 and shown.acks > 0
        assert shown.no_address == shown.wrong_path == shown.bad_return == 0
        source.send("leave 0")
        wait_for(lambda: state_in(net.nodes[1], "i0").N <= 3)


def redirected(net_device: str, to: str) -> str:
    return f"""
        tc qdisc add dev {net_device} clsact
        tc filter add dev {net_device} ingress protocol ip flower ip_proto udp dst_port 49470 \
            dst_ip 10.0.1.2 action mirred egress redirect dev {to}"""


def test_nested_link_sees_packets_that_tc_redirects(peer: str) -> None:
    """tc-mirred(8) skips netfilter's egress hook, but not the qdisc."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, _):
        _, router, last = net.nodes
        # The redirected frame keeps its addresses: node 2 accepts those of w0.
        address = json.loads(router.sh("ip -j link show w0").stdout)[0]["address"]
        last.sh(f"ip link set w1 address {address}")
        net.attach(0, "rate 100mbit headroom 0")
        router.sh(f"set -e {shaped('e1', '20mbit')} {redirected('w0', 'e1')}")
        source.send("join 10.0.1.2 0")
        wait_for(lambda: has(source, 20))
        assert state_in(router, "e1").joins > 0
        assert "Sent 0 bytes" not in router.sh("tc -s filter show dev w0 ingress").stdout


FAMILIES = (socket.AF_INET, socket.AF_INET6)
IPPROTO_DSTOPTS = 60
UDP_SEGMENT = 103


def control_socket(family: socket.AddressFamily) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM)
    opened.setblocking(False)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    opened.bind(("", PORT))
    return opened


#: Received packets of an edge pass an ifb.
IFB = """set -e
    tc qdisc add dev w0 root slbn rate 10mbit edge
    ip link add i0 type ifb
    ip link set i0 up
    tc qdisc add dev w0 clsact
    tc filter add dev w0 ingress matchall action mirred egress redirect dev i0"""


@contextlib.contextmanager
def receivers(*nodes: Namespace) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = []
        for node in nodes:
            with node.entered():
                made += [stack.enter_context(control_socket(family)) for family in FAMILIES]
        yield made


def check_dropped(host: Namespace, router: Namespace, received: list[socket.socket]) -> None:
    """Hosts send to the router and beyond it; only an edge on w0 notices."""
    with host.entered():
        for number, address in enumerate(ADDRESSES, 1):
            with control_socket(FAMILIES[":" in address]) as sender:
                sender.sendto(
                    Packet(JOIN).pack(bytes(32 if ":" in address else 8)), (address, PORT)
                )
            wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
    for each in received:
        with pytest.raises(BlockingIOError):
            each.recv(2000)


ADDRESSES = ("10.0.0.2", "10.0.1.2", "fd00:0::2", "fd00:1::2")


def test_edge_drops_packets_of_hosts_that_return_from_ifb(peer: str) -> None:
    """The kernel skips the ingress hook for them."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


def move_addresses(node: Namespace, old: str, new: str) -> None:
    number = old[1:]
    last = 1 if old[0] == "e" else 2
    node.sh(f"""set -e
        ip addr flush dev {old} scope global
        ip link set {new} up
        ip addr add 10.0.{number}.{last}/24 dev {new}
        ip addr add fd00:{number}::{last}/64 dev {new} nodad""")


#: Devices above an edge.  User-Mode Linux has no ipvlan.
ABOVE = ["vlan id 5", "macvlan", pytest.param("ipvlan mode l2", marks=pytest.mark.stock)]


@pytest.mark.tier("all")
@pytest.mark.parametrize("above", ABOVE)
def test_edge_drops_packets_of_devices_above_it_that_return_from_ifb(peer: str, above: str) -> None:
    with chain(2) as net:
        host, router, last = net.nodes
        # Only the device above answers for its address, not also the one below.
        router.sysctl("conf/w0/arp_ignore", 1)
        ends = [(router, "w0")]
        if "vlan id" in above:
            ends.append((host, "e0"))
        for node, device in ends:
            node.sh(f"ip link add link {device} name v5 type {above}")
            move_addresses(node, device, "v5")
        host.sh(
            "ip route replace 10.0.1.0/24 via 10.0.0.2; ip route replace fd00:1::/64 via fd00:0::2"
        )
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


@pytest.mark.tier("all")
@pytest.mark.stock
@pytest.mark.parametrize("master", ["bridge", "vrf table 10"])
def test_edge_drops_packets_of_its_master_that_return_from_ifb(peer: str, master: str) -> None:
    """User-Mode Linux has no VRF, and no netfilter hooks of bridges."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh(f"ip link add m0 type {master}; ip link set m0 up; ip link set w0 master m0")
        if master == "bridge":
            move_addresses(router, "w0", "m0")
        else:
            router.sh("ip link set e1 master m0; ip addr add fd00:0::2/64 dev w0 nodad")
            router.sh("ip addr add fd00:1::1/64 dev e1 nodad")
        router.sh(IFB)
        with receivers(router, last) as received:
            check_dropped(host, router, received)


@pytest.mark.tier("all")
@pytest.mark.stock
def test_tunnel_over_edge_is_not_the_edge(peer: str) -> None:
    """What a tunnel over other networks carries is the domain's."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        for node, device, here, there in ((host, "e0", 1, 2), (router, "w0", 2, 1)):
            node.sh(f"""set -e
                ip link add x0 type vxlan id 5 dstport 4789 dev {device} remote 10.0.0.{there}
                ip addr add 10.9.0.{here}/24 dev x0
                ip link set x0 up""")
        host.sh("ip route replace 10.0.1.0/24 via 10.9.0.2 src 10.0.0.1")
        with receivers(last) as (received, _), host.entered():
            data = Packet(JOIN).pack(bytes(8))
            with control_socket(socket.AF_INET) as sender:
                sender.sendto(data, ("10.0.1.2", PORT))
            received.settimeout(30)
            assert received.recv(2000) == data
        assert state_in(router, "w0").from_hosts == 0


@pytest.mark.stock
def test_hooks_for_forwarded_packets_exist_beside_an_ifb_only() -> None:
    """Data that is routed pays for them."""

    def is_seen(number: int) -> bool:
        """Whether a hook for forwarded packets sees the next one."""
        with probed("slbn_forward") as trace:
            with host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(bytes([number]), ("10.0.1.2", 9000))
            assert received.recv(10) == bytes([number])
            return "called:" in trace.read_text()

    with chain(2) as net:
        host, router, last = net.nodes
        with last.entered():
            received = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        received.settimeout(30)
        received.bind(("10.0.1.2", 9000))
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        assert not is_seen(1)
        router.sh("ip link add i0 type ifb; ip link add i1 type ifb")
        assert is_seen(2)
        router.sh("ip link del i0")
        assert is_seen(3)
        router.sh(f"ip link set i1 netns {last.name}")
        assert not is_seen(4)
        last.sh(f"ip link set i1 netns {router.name}")
        assert is_seen(5)
        router.sh("tc qdisc change dev w0 root slbn no-edge; ip link add i2 type ifb")
        assert not is_seen(6)
        router.sh("tc qdisc change dev w0 root slbn edge")
        assert is_seen(7)
        router.sh("ip link del i1; ip link del i2")
        assert not is_seen(8)
        received.close()


@pytest.mark.parametrize("listed", [False, True], ids=["GSO", "rx-gro-list"])
@pytest.mark.parametrize("port", [PORT, 5000], ids=["same ports", "other ports"])
def test_edge_drops_control_packets_merged_with_data(port: int, listed: bool) -> None:
    """A host of the same machine sends several packets at once, or GRO merges them; one is data."""
    control = Packet(JOIN).pack(bytes(8))
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        if listed:
            host.sh("ethtool -K e0 tx-udp-segmentation off")
            router.sh("ethtool -K w0 gro on rx-gro-list on")
        with receivers(last) as (received, _), host.entered():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind(("10.0.0.1", port))
                sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(control))
                sender.sendto(b"\1" * len(control) + control, ("10.0.1.2", PORT))
                sender.sendto(bytes(2 * len(control)), ("10.0.1.2", PORT))
            received.settimeout(30)
            assert [received.recv(2000) for _ in range(2)] == [bytes(len(control))] * 2
        assert state_in(router, "w0").from_hosts == 1


#: IPv6 options that do nothing, 8 octets, before another header.
OPTIONS = bytes([0, 1, 4, 0, 0, 0, 0])


def fragment(whole: Datagram, content: bytes, at: int, more: bool, padding: bytes = b"") -> bytes:
    """A frame with CONTENT, octets from AT on of a packet that begins with options."""
    head = struct.pack("!BBHI", IPPROTO_DSTOPTS, 0, at | more, 1)
    length = struct.pack("!H", len(head + content))
    frame = replace(whole, next_header=IPPROTO_FRAGMENT, extra=b"").frame()[:54]
    return frame[:18] + length + frame[20:] + head + content + padding


def hidden(to: str, mac: bytes) -> dict[str, list[bytes]]:
    """Control packets to an IPv6 address that Linux receives, in forms that few programs send."""
    good = Datagram(Packet(JOIN), True, "fd00:0::1", to, to_mac=mac)
    udp = bytes([IPPROTO_UDP])
    jumbo = replace(good, next_header=0, extra=udp + OPTIONS).frame()
    found = {"no length": [jumbo[:18] + bytes(2) + jumbo[20:]]}
    # The first fragment has the first of two headers, and padding that reads as the second.
    first = bytes([IPPROTO_DSTOPTS]) + OPTIONS
    other = fragment(good, udp + OPTIONS + good.udp(), len(first), False)
    for name, padding in (("cut", b""), ("padded", bytes([socket.IPPROTO_TCP]) + bytes(63))):
        found[name] = [fragment(good, first, 0, True, padding), other]
    return found


@pytest.mark.parametrize("address", ADDRESSES[2:])
def test_edge_drops_control_packets_in_rare_forms(address: str) -> None:
    """Linux receives them: also fragments whose first one has not all headers (RFC 7112)."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        shown = json.loads(router.sh("ip -j link show w0").stdout)[0]["address"]
        mac = bytes.fromhex(shown.replace(":", ""))
        with receivers(router, last) as received, host.entered():
            with sender("e0") as raw:
                for number, frames in enumerate(hidden(address, mac).values(), 1):
                    for frame in frames:
                        raw.send(frame)
                    wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
            for each in received:
                with pytest.raises(BlockingIOError):
                    each.recv(2000)


def test_packets_to_other_hosts_do_not_pass_the_edge() -> None:
    """A promiscuous device receives them, and a rule makes them packets to the router."""
    rules = "table netdev t { chain c { type filter hook ingress device w0 priority 0;"
    frames = [
        Datagram(content, source="10.0.0.1", destination="10.0.1.2", to_mac=bytes([2] * 6)).frame()
        for content in (Packet(JOIN), b"data")
    ]
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge; ip link set w0 promisc on")
        with router.entered():
            subprocess.run(
                ["nft", "-f", "-"],
                input=f"{rules} meta pkttype set host; }}\n}}",
                text=True,
                check=True,
            )
        with receivers(last) as (received, _), host.entered():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
                raw.bind(("e0", 0))
                for frame in frames:
                    raw.send(frame)
            received.settimeout(30)
            assert received.recv(2000) == b"data"


def test_shaped_ifb_drops_packets_of_hosts(peer: str) -> None:
    """Without a filter before the ifb, its link does not count their sessions."""
    with chain(1) as net:
        host, router = net.nodes
        router.sh(IFB + shaped("i0", "30mbit"))
        with host.entered(), control_socket(socket.AF_INET) as sender:
            for number in range(1, 4):
                sender.sendto(Packet(JOIN).pack(bytes(8)), ("10.0.0.2", PORT))
                wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
        assert state_in(router, "i0").joins == 0


@pytest.mark.tier("all")
def test_nat_does_not_make_control_packets_for_hosts(peer: str) -> None:
    with chain(2) as net:
        host, router, _ = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        net.attach(1, "rate 10mbit")
        router.sh(f"""set -e
            nft add table ip t
            nft add chain ip t c '{{ type nat hook postrouting priority 100; }}'
            nft add rule ip t c udp dport {PORT} snat to 10.0.1.1:{PORT}""")
        with host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            # Data establishes the translation.
            for number, data in enumerate((b"data", Packet(JOIN).pack(bytes(8)))):
                sender.sendto(data, ("10.0.1.2", PORT))
                wait_for(lambda n=number: state_in(router, "w0").from_hosts == n)  # type: ignore[misc]
        state = state_in(router, "e1")
        assert (state.joins, state.malformed) == (0, 0)


# --- flowtables


def offload(router: Namespace, devices: str) -> None:
    """Forward all UDP flows by a software flowtable."""
    script = f"""
        table inet t {{
            flowtable f {{ hook ingress priority 0; devices = {{ {devices} }}; counter; }}
            chain c {{
                type filter hook forward priority 0;
                meta l4proto udp counter flow add @f
            }}
        }}"""
    router.sh("sysctl -q net.netfilter.nf_conntrack_acct=1")
    with router.entered():
        subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)


def counted(router: Namespace, command: str, pattern: str) -> int:
    found = re.search(pattern, router.sh(command).stdout)
    return int(found[1]) if found else 0


def not_offloaded(router: Namespace) -> int:
    """The number of packets that passed the forward chain."""
    return counted(router, "nft list chain inet t c", r"packets (\d+)")


def offloaded(router: Namespace, sport: int) -> int:
    """The packets that conntrack counts for an offloaded flow."""
    command = "cat /proc/net/nf_conntrack"
    return counted(router, command, rf"sport={sport} .*?packets=(\d+).*OFFLOAD")


@pytest.mark.tier("all")
@pytest.mark.stock
def test_software_flowtable_does_not_bypass_links(peer: str) -> None:
    """Control packets are offloaded as data is, and pass the link's hook; conntrack counts data."""
    with chain(2) as net, agents(peer, net.nodes) as (source, _, last):
        router = net.nodes[1]
        net.attach(0, "rate 100mbit headroom 0")
        net.attach(1, "rate 20mbit headroom 0")
        offload(router, "w0, e1")
        source.send("join 10.0.1.2 0", "join fd00:1::2 5000000")
        wait_for(lambda: has(source, 15, 5))
        before, slow = state_in(router, "e1").probes, not_offloaded(router)
        wait_for(lambda: state_in(router, "e1").probes > before + 50)
        assert not_offloaded(router) - slow < 5
        assert offloaded(router, PORT) > 20
        with net.nodes[0].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("10.0.0.1", 1000))
            for _ in range(100):
                sender.sendto(b"data", ("10.0.1.2", 9))
        wait_for(lambda: offloaded(router, 1000) == 100)
        assert not_offloaded(router) - slow < 10
        assert has(source, 15, 5)
        assert state_in(router, "e1").bypassed == 0


@pytest.mark.tier("all")
@pytest.mark.stock
def test_edge_drops_control_packets_in_offloaded_flows(peer: str) -> None:
    """Hosts let the router offload a flow with the ports of control packets first."""
    with chain(2) as net:
        host, router, last = net.nodes
        router.sh("tc qdisc add dev w0 root slbn rate 10mbit edge")
        offload(router, "w0, e1")
        with (
            receivers(last) as (received, _),
            host.entered(),
            control_socket(socket.AF_INET) as sender,
        ):
            for _ in range(10):
                sender.sendto(b"data", ("10.0.1.2", PORT))
            wait_for(lambda: offloaded(router, PORT) == 10)
            sender.sendto(Packet(JOIN).pack(bytes(8)), ("10.0.1.2", PORT))
            wait_for(lambda: state_in(router, "w0").from_hosts == 1)
            received.settimeout(30)
            assert [received.recv(2000) for _ in range(10)] == [b"data"] * 10
            received.setblocking(False)
            with pytest.raises(BlockingIOError):
                received.recv(2000)


# --- packets that bypass a link are counted

SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20


def send_frames(device: str, count: int, size: int = 500, bypass: bool = False) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, bypass)
        raw.bind((device, 0))
        frame = Datagram(bytes(size), sport=9, dport=9).frame()
        for _ in range(count):
            raw.send(frame)


@pytest.mark.parametrize(
    "place", ["root", pytest.param("below a shaper", marks=pytest.mark.tier("all"))]
)
def test_packets_that_bypass_the_qdiscs_are_counted(place: str) -> None:
    queues, slbn = "", shaped("a0", "1gbit")
    if place == "root":
        queues, slbn = "numtxqueues 2", "tc qdisc replace dev a0 root handle 1: slbn rate 1gbit"
    # Other namespaces do not have it.
    default = os.open("/proc/sys/net/core/default_qdisc", os.O_RDWR)
    before = os.pread(default, 100, 0)
    with namespace() as ns, ns.entered(), contextlib.closing(Rtnetlink()) as netlink:
        sh(f"""set -e
            echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
            ip link add a0 {queues} type veth peer b0
            ip link set a0 up
            ip link set b0 up""")
        wait_for_carrier(ns, "a0")
        index = socket.if_nametoindex("a0")

        def bypassed() -> int:
            return state_of(netlink, index).bypassed

        send_frames("a0", 7)
        send_frames("a0", 5, bypass=True)
        sh(f"tc qdisc del dev a0 root 2> /dev/null; {slbn}")
        send_frames("a0", 50)
        assert bypassed() == 0
        send_frames("a0", 20, bypass=True)
        assert bypassed() == 20
        if place == "root":
            # What replaced qdiscs have sent remains counted.
            sh("tc qdisc replace dev a0 parent 1:1 pfifo; tc qdisc replace dev a0 parent 1:2 fq")
            sh("ip link set a0 down; ip link set a0 up")
            wait_for_carrier(ns, "a0")
            assert bypassed() == 20
            # noqueue does not count.
            os.pwrite(default, b"noqueue", 0)
            try:
                sh("tc qdisc del dev a0 parent 1:2")
            finally:
                os.pwrite(default, before, 0)
            assert bypassed() == 0
            sh("tc qdisc replace dev a0 parent 1:2 pfifo")
        send_frames("a0", 50)
        assert bypassed() == 20
        os.close(default)
        shown = json.loads(sh("tc -j -s qdisc show dev a0").stdout)
        assert next(each for each in shown if each["kind"] == "slbn")["bypassed"] == 20
        with contextlib.closing(Genetlink()) as listener:
            listener.listen("link")
            sh("tc qdisc del dev a0 root")
            assert [event.state.bypassed for event in listener.events()] == [0]


# --- XDP

SYS_BPF, BPF_PROG_LOAD, BPF_LINK_CREATE = 321, 5, 28
BPF_PROG_TYPE_XDP, BPF_XDP, XDP_FLAGS_SKB_MODE = 6, 37, 2


def bpf(command: int, attributes: bytes) -> int:
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(
        SYS_BPF, command, attributes, len(attributes)
    )
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    return int(descriptor)


@contextlib.contextmanager
def xdp_redirect(device: str, to: str) -> Iterator[None]:
    """Generic XDP sends what a device receives by another one."""
    mov, call, leave, redirect = 0xB7, 0x85, 0x95, 23
    program = [
        (mov, 1, 0, socket.if_nametoindex(to)),
        (mov, 2, 0, 0),
        (call, 0, 0, redirect),
        (leave, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=BBhi", *each) for each in program))
    license_text = ctypes.create_string_buffer(b"GPL")
    pointers = (ctypes.addressof(code), ctypes.addressof(license_text))
    head = struct.pack("=IIQQ", BPF_PROG_TYPE_XDP, len(program), *pointers)
    loaded = bpf(BPF_PROG_LOAD, head + bytes(48))
    index = socket.if_nametoindex(device)
    link = bpf(BPF_LINK_CREATE, struct.pack("=IIII", loaded, index, BPF_XDP, XDP_FLAGS_SKB_MODE))
    os.close(loaded)
    try:
        yield
    finally:
        os.close(link)


def test_packets_that_xdp_redirects_are_counted() -> None:
    with chain(2) as net:
        host, router, _ = net.nodes
        net.attach(1, "rate 100mbit")
        with router.entered(), xdp_redirect("w0", "e1"):
            with host.entered():
                send_frames("e0", 50)
            wait_for(lambda: state_in(router, "e1").bypassed >= 50)
        before = state_in(router, "e1").bypassed
        with router.entered():
            send_frames("e1", 50)
        assert state_in(router, "e1").bypassed == before
