# SPDX-License-Identifier: GPL-2.0
"""Network namespaces, links and TCP connections for tests that run inside a VM.

    ns a                    ns b
  +--------+   veth   +--------+
  | a0     |----------| b0     |
  +--------+          +--------+
  10.0.0.1             10.0.0.2     netem on b0 delays packets from b to a;
                                    nftables at b0 drops packets from a to b

A socket belongs to the network namespace of the thread that created it, so one process
holds both ends of a connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import launch
from tests.kernel.lib.iproute import IFA_F_NODAD, enter, enter_new, returning, run_ip, turn_off
from tests.kernel.lib.rtnetlink import Rtnetlink

TCP_CONGESTION = 13
SYSCTL = Path("/proc/sys/net/ipv4")
TRACING = Path("/sys/kernel/tracing")
PROC_NET = Path("/proc/thread-self/net")
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
RTF_LOCAL = 1 << 31

#: Whether this machine's clock only advances while it is idle (scripts/vm --engine virtual).
VIRTUAL_TIME = os.environ.get("FAIRPATH_ENGINE") == "virtual"

#: Characters of commands that need no shell.
PLAIN = re.compile(r"[\w ./:,=@%+-]*")

_numbers = itertools.count()


def is_single(command: str) -> bool:
    """Whether a shell command only starts a program."""
    return bool(PLAIN.fullmatch(command)) and shutil.which(command.split()[0]) is not None


def sh(command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a shell command; if it fails and CHECK is set, raise an error with its output.

    A single program is started without a shell, which takes as long to start as most programs.
    """
    single = is_single(command)
    done = launch.run(
        command.split() if single else command, shell=not single, stderr=subprocess.STDOUT
    )
    if check and done.returncode:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}")
    return done


@dataclass(frozen=True)
class Namespace:
    """A named network namespace created by this process."""

    name: str

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the namespace, for sockets and sysctls."""
        with returning(), open(f"/run/netns/{self.name}") as there:
            enter(there.fileno())
            yield

    def start(self, command: Sequence[str | Path], **how: Any) -> subprocess.Popen[str]:
        """Start a program in the namespace."""
        with self.entered():
            return subprocess.Popen(command, text=True, **how)

    def sh(self, command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the namespace.

        This is faster than ip netns exec and the option -n of ip and tc, which mount /sys for each
        command; so /sys/class/net has the devices of the initial namespace.
        """
        with self.entered():
            return sh(command, check)

    def ip(self, *commands: str) -> None:
        """Run commands of ip in the namespace."""
        with self.entered():
            run_ip(commands)

    def tc(self, *commands: str) -> str:
        """The output of commands of tc, run by one process in the namespace."""
        with self.entered():
            program = ["tc", "-batch", "-"]
            lines = "\n".join(commands)
            done = subprocess.run(
                program, input=lines, text=True, check=True, stdout=subprocess.PIPE
            )
        return done.stdout

    def sysctl(self, name: str, value: object = None) -> str:
        """Set (if VALUE is given) and get net.ipv4.NAME in this namespace."""
        with self.entered():
            if value is not None:
                write_sysctl(name, value)
            return read_sysctl(name)


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Poll until the condition is true; fail after SECONDS and at least 20 attempts.

    The longer it takes, the rarer the polls: each 10 ms at first, each 100 ms after half a second.
    In virtual time they are all that costs, as the clock does not run meanwhile.
    """
    began = time.monotonic()
    end = began + seconds
    # In a steady VM, the clock jumps while the VM waits for its host: time alone is not enough.
    attempts = 20
    while not condition():
        attempts -= 1
        assert attempts > 0 or time.monotonic() < end, f"timed out after {seconds} s"
        time.sleep(min(max(0.01, (time.monotonic() - began) / 5), 0.1))


def pending(end: socket.socket, most: int = 1 << 17) -> Iterator[bytes]:
    """What a socket that does not block has received so far, MOST octets of each packet."""
    with contextlib.suppress(BlockingIOError):
        while True:
            yield end.recv(most)


def received(where: Namespace, device: str) -> tuple[int, int]:
    """Octets and packets that a device has received; no process is started, which takes long."""
    with where.entered():
        lines = (PROC_NET / "dev").read_text().splitlines()
    (found,) = (line for line in lines if line.strip().startswith(f"{device}:"))
    octets, packets, *_ = found.partition(":")[2].split()
    return int(octets), int(packets)


def wait_for_carriers(*devices: str) -> None:
    """Wait until devices send and their IPv6 addresses receive.

    The kernel activates each device up to a second after its peer is up.  Until then its state is
    unknown, which the flag IFF_RUNNING does not distinguish from up.
    """
    with contextlib.closing(Rtnetlink()) as netlink:
        indices = [socket.if_nametoindex(device) for device in devices]
        wait_for(lambda: all(netlink.is_up(index) for index in indices))
    wait_for(has_local_routes)


def has_local_routes() -> bool:
    """Whether each IPv6 address without DAD has its local route, if its device is running.

    The kernel adds these routes in a work (addrconf_dad_work()), which on a busy machine is later
    than the next packet.
    """
    lines = [line.split() for line in (PROC_NET / "if_inet6").read_text().splitlines()]
    wanted = {
        address
        for address, _, _, _, flags, device in lines
        if int(flags, 16) & IFA_F_NODAD and is_running(device)
    }
    routes = [line.split() for line in (PROC_NET / "ipv6_route").read_text().splitlines()]
    return wanted <= {route[0] for route in routes if int(route[8], 16) & RTF_LOCAL}


def is_running(device: str) -> bool:
    """Whether the device has the flag IFF_RUNNING."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH14x", device.encode(), 0))
    return bool(struct.unpack("16xH14x", answer)[0] & IFF_RUNNING)


def wait_for_carrier(where: Namespace, device: str) -> None:
    """Wait until a device of a namespace sends."""
    with where.entered():
        wait_for_carriers(device)


def read_sysctl(name: str) -> str:
    return (SYSCTL / name).read_text().strip()


def write_sysctl(name: str, value: object) -> None:
    # Unbuffered, so that an error is raised by this write and not by a later close.
    with open(SYSCTL / name, "wb", buffering=0) as file:
        file.write(str(value).encode())


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    name = f"t{next(_numbers)}"
    run_ip([f"netns add {name}"])
    made = Namespace(name)
    try:
        made.ip("link set lo up")
        yield made
    finally:
        # A test may have deleted it.
        with contextlib.suppress(FileNotFoundError):
            run_ip([f"netns del {name}"])


@contextlib.contextmanager
def unnamed_namespace() -> Iterator[None]:
    """Enter a new network namespace, deleted when it is left and its sockets are closed.

    Without IPv6, which would send packets by itself.
    """
    with returning():
        enter_new()
        with contextlib.suppress(FileNotFoundError):
            Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        yield


@dataclass(frozen=True)
class Pair:
    """Two namespaces and the link between them."""

    a: Namespace
    b: Namespace

    def netem(self, options: str) -> None:
        """Set netem's options for packets from b to a, the ACKs."""
        self.b.sh(f"tc qdisc replace dev b0 root netem limit 100000 {options}")

    def data(self, rule: str) -> None:
        """Set the nftables rule for data packets from a to b; "" for none."""
        self.b.sh("nft flush ruleset")
        if rule:
            self.b.sh(
                'nft add table ip t; nft add chain ip t c "{ type filter hook prerouting'
                f' priority 0; }}"; nft add rule ip t c tcp dport 5000 ip length \\> 500 {rule}'
            )

    def drop_one_in(self, n: int) -> None:
        """Drop every n-th data packet, including retransmissions."""
        self.data(f"numgen inc mod {n} {n - 1} drop")

    def drop_only(self, *numbers: int) -> None:
        """Drop only these data packets, counted from 0."""
        listed = ", ".join(map(str, numbers))
        self.data(f"numgen inc mod 1000000000 {{ {listed} }} drop")


@contextlib.contextmanager
def pair(netem: str = "delay 40ms") -> Iterator[Pair]:
    with namespace() as a, namespace() as b:
        run_ip([f"link add a0 netns {a.name} type veth peer name b0 netns {b.name}"])
        for ns, device, address in ((a, "a0", "10.0.0.1"), (b, "b0", "10.0.0.2")):
            ns.ip(f"addr add {address}/24 dev {device}", f"link set {device} up")
            with ns.entered():
                turn_off(device, "tso", "gso", "gro")
        wait_for_carrier(a, "a0")
        wait_for_carrier(b, "b0")
        for ns in (a, b):
            ns.sysctl("tcp_rmem", "4096 8000000 16000000")
            ns.sysctl("tcp_wmem", "4096 4000000 16000000")
            ns.sysctl("tcp_no_metrics_save", 1)
            # Pauses of a slow machine are not idle periods.
            ns.sysctl("tcp_slow_start_after_idle", 0)
        net = Pair(a, b)
        net.netem(netem)
        yield net


@dataclass
class Connection:
    """Both ends of a TCP connection from a to b."""

    sender: socket.socket
    receiver: socket.socket

    @property
    def cc(self) -> str:
        name = self.sender.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16)
        return name.split(b"\0")[0].decode()

    @property
    def info(self) -> dict[str, int]:
        """The fields of struct tcp_info that tests use."""
        raw = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        words = struct.unpack_from("24I", raw, 8)
        return {
            "ca_state": raw[1],
            "unacked": words[4],
            "ssthresh": words[17],
            "cwnd": words[18],
            "total_retrans": words[23],
        }

    @property
    def cwnd(self) -> int:
        return self.info["cwnd"]

    def pump(self, size: int, seconds: float = 120) -> float:
        """Send `size` bytes, receive and verify them; return the duration [s].

        The pattern's period is a prime, so lost, duplicate or misplaced data is detected.
        """
        pattern = bytes(range(251)) * 400
        sent = received = 0
        started = time.monotonic()
        while received < size:
            if time.monotonic() - started > seconds:
                raise AssertionError(f"{received} of {size} bytes after {seconds} s")
            writable = [self.sender] if sent < size else []
            readable, writable, _ = select.select([self.receiver], writable, [], 1)
            if writable:
                at = sent % 251
                sent += self.sender.send(pattern[at : at + min(size - sent, 65536)])
            if readable:
                data = self.receiver.recv(1 << 20)
                at = received % 251
                assert data, "closed too early"
                for start in range(0, len(data), len(pattern) - 251):
                    part = data[start : start + len(pattern) - 251]
                    offset = (at + start) % 251
                    assert part == pattern[offset : offset + len(part)]
                received += len(data)
        return time.monotonic() - started

    def settle(self) -> None:
        """Wait until all data is acknowledged and loss recovery has ended.

        If the last ACK has ECE, the sender stays in CWR (2) until it sends more data.
        """
        wait_for(lambda: self.info["unacked"] == 0 and self.info["ca_state"] in (0, 2))

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@contextlib.contextmanager
def connection(net: Pair, cc: str | None = None, sndbuf: int | None = None) -> Iterator[Connection]:
    """Connect a to b, port 5000, optionally with a congestion control."""
    with net.b.entered():
        listener = socket.create_server(("10.0.0.2", 5000))
    with net.a.entered():
        sender = socket.socket()
    if cc:
        sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())
    if sndbuf:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
    try:
        sender.settimeout(20)
        sender.connect(("10.0.0.2", 5000))
        receiver, _ = listener.accept()
    finally:
        listener.close()
    sender.setblocking(False)
    receiver.setblocking(False)
    both = Connection(sender, receiver)
    try:
        yield both
    finally:
        both.close()


@contextlib.contextmanager
def tracing(*events: str) -> Iterator[Path]:
    """Record tracepoints in a separate trace instance; yields its `trace` file."""
    instance = TRACING / "instances" / f"test-{os.getpid()}-{next(_numbers)}"
    instance.mkdir()
    try:
        (instance / "buffer_size_kb").write_text("16384")
        for event in events:
            (instance / "events" / event / "enable").write_text("1")
        yield instance / "trace"
    finally:
        for event in events:
            (instance / "events" / event / "enable").write_text("0")
        instance.rmdir()


def read_trace(trace: Path, event: str) -> list[dict[str, str]]:
    """The fields of an event's records, in order, including `time` [s]."""
    records = []
    for line in trace.read_text().splitlines():
        if line.startswith("#") or f" {event}: " not in line:
            continue
        head, _, fields = line.partition(f" {event}: ")
        record = dict(word.split("=", 1) for word in fields.split() if "=" in word)
        record["time"] = head.split()[-1].rstrip(":")
        records.append(record)
    return records
