# SPDX-License-Identifier: GPL-2.0
"""Concurrent operations: they may fail, but must not hang or cause a splat.

This file also runs alone on two CPUs; a run of the VM fails on any splat. RACE_SECONDS is the
duration of each test, longer in kernels with checks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.drr_fq import (
    DRR,
    PORT,
    RR,
    SCFQ,
    SOL_UDP,
    UDP_SEGMENT,
    Link,
    link,
    options,
    valved,
)
from tests.kernel.lib.genetlink import MS, SECOND, Genetlink, control_frame, given
from tests.kernel.lib.genetlink import options as slbn_options
from tests.kernel.lib.net import (
    connection,
    namespace,
    pair,
    read_sysctl,
    sh,
    wait_for,
    write_sysctl,
)
from tests.kernel.lib.netlink import NLM_F_CREATE, NLM_F_REPLACE, NetlinkError, attribute
from tests.kernel.lib.rtnetlink import (
    RTM_DELQDISC,
    RTM_DELTFILTER,
    RTM_NEWTFILTER,
    TCA_KIND,
    Rtnetlink,
    handle,
)
from tests.kernel.lib.senders import Traffic, sender
from tests.kernel.lib.slbn import MEGA, chain
from tests.kernel.lib.slbn_wire import JOIN, LEAVE, PROBE, PROBE_ACK, Datagram, Packet, State
from tests.kernel.lib.slbnd import agent

pytestmark = pytest.mark.stock

SECONDS = float(os.environ.get("RACE_SECONDS", "3"))
#: For what a busy machine may need long for [s].
PATIENCE = 120
SIOCSIFFLAGS, SIOCSIFMTU, SIOCSIFNAME, IFF_UP = 0x8914, 0x8922, 0x8923, 0x1


def run_concurrently(
    *jobs: Callable[[], None], enough: Callable[[], object] = lambda: True
) -> None:
    """Repeat each job in a thread of its own for SECONDS, and until ENOUGH has happened.

    Fails if a job raises, or ENOUGH does not happen within PATIENCE.  ENOUGH is for what depends on
    the machine's speed.
    """
    end = time.monotonic() + SECONDS
    done = threading.Event()
    errors: list[BaseException] = []

    def repeat(job: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                job()
        except BaseException as error:
            errors.append(error)
            done.set()

    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        while not done.wait(0.05):
            if time.monotonic() >= end and enough():
                done.set()
            assert time.monotonic() < end + PATIENCE
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def test_parameters_change_while_connections_start() -> None:
    with pair("delay 1ms") as net, net.a.entered():

        def change() -> None:
            with net.a.entered():
                write_sysctl("gaimd_preset", random.choice(["tcp", "aimd32", "to-friendly"]))
                write_sysctl("bic_preset", random.choice(["paper", "linux"]))

        def connect() -> None:
            with connection(net, random.choice(["bic", "gaimd"])) as flow:
                flow.pump(50_000)

        run_concurrently(change, change, connect)
        assert read_sysctl("gaimd_preset") in ("tcp", "aimd32", "to-friendly")


def test_namespaces_are_deleted_with_open_connections() -> None:
    def once() -> None:
        with pair("delay 1ms") as net:
            flows = [connection(net, cc) for cc in ("bic", "gaimd")]
            with contextlib.ExitStack() as stack:
                # One after the other, as both listen on the same port.
                for flow in flows:
                    stack.enter_context(flow).pump(50_000)
                sh(f"ip netns del {net.a.name}; ip netns del {net.b.name}")

    run_concurrently(once)


def test_modules_are_loaded_and_unloaded_while_namespaces_change() -> None:
    sh("modprobe -r tcp_bic tcp_gaimd", check=False)

    def module() -> None:
        sh("modprobe tcp_gaimd && modprobe tcp_bic")
        sh("modprobe -r tcp_gaimd tcp_bic")

    def spaces() -> None:
        with namespace() as ns, contextlib.suppress(FileNotFoundError, OSError):
            ns.sysctl("gaimd_alpha", 500)
            ns.sysctl("bic_preset", "linux")

    run_concurrently(module, spaces, spaces)
    sh("modprobe tcp_bic && modprobe tcp_gaimd")


# --- drr_fq, with packets sent by other threads

UNDER = {
    "root": "qdisc add dev a0 root handle 10: drr_fq limit 50",
    "htb": """qdisc add dev a0 root handle 1: htb default 1
        class add dev a0 parent 1: classid 1:1 htb rate 50mbit
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50""",
    "mq": """qdisc add dev a0 root handle 1: mq
        qdisc add dev a0 parent 1:1 handle 10: drr_fq limit 50
        qdisc add dev a0 parent 1:2 handle 20: drr_fq limit 50""",
}


#: DSCPs of new and assigned packets, by default.
MARKS = (3, 7)


@contextlib.contextmanager
def senders(count: int) -> Iterator[list[Callable[[], None]]]:
    """COUNT jobs that send to 10.0.0.2, each by sockets with and without segmentation offload.

    Packets are for each of the bands.

    Errors are ignored: there may be no device.
    """
    with contextlib.ExitStack() as stack:

        def made() -> Callable[[], None]:
            sockets = [
                stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                for _ in range(4)
            ]
            for each in sockets:
                each.setblocking(False)
                each.connect(("10.0.0.2", PORT))
            for each, mark in zip(sockets, MARKS, strict=False):
                each.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, mark << 2)
            sockets[-1].setsockopt(SOL_UDP, UDP_SEGMENT, 1000)

            def send() -> None:
                for each in sockets:
                    for _ in range(20):
                        size = 16_000 if each is sockets[-1] else random.randrange(1, 1400)
                        with contextlib.suppress(OSError):
                            each.send(bytes(size))

            return send

        yield [made() for _ in range(count)]


def dumper(index: int) -> Callable[[], None]:
    rtnetlink = Rtnetlink()

    def look() -> None:
        rtnetlink.qdiscs(index)
        rtnetlink.classes(index)

    return look


def requester(request: Callable[[Rtnetlink], None]) -> Callable[[], None]:
    """A job that sends a request, which the kernel may reject."""
    rtnetlink = Rtnetlink()

    def run() -> None:
        with contextlib.suppress(NetlinkError):
            request(rtnetlink)

    return run


def random_options() -> bytes:
    choices = {
        "limit": (1, 10, 50, 1000),
        "limit_bytes": (1514, 20_000, 1 << 20),
        "flows": (1, 7, 1024, 65536),
        "quantum": (256, 300, 1514, 1 << 20),
        "scheduler": (DRR, RR, SCFQ),
        "split_gso": (0, 1),
        "codel": (0, 1),
    }
    bands = {
        "unassigned": (1, 50, 250),
        "wait": (1000, 100_000),
        "flows_new": (1, 7, 1024),
        "hosts": (1, 7, 1024),
        "domain": (0, 0xFFFFFFFF),
    }
    names = random.sample(sorted(choices), random.randrange(1, 4))
    chosen = {name: random.choice(choices[name]) for name in names}
    if random.randrange(4):
        chosen["bands"] = random.choice((0, 1, 1))
    if chosen.get("bands"):
        names = random.sample(sorted(bands), random.randrange(4))
        chosen |= {name: random.choice(bands[name]) for name in names}
    return options(**chosen)


@pytest.mark.parametrize("under", UNDER)
def test_drr_fq_options_and_filters_change_under_load(under: str) -> None:
    with link(UNDER[under], queues=2) as on, senders(2) as sending:
        parent = on.shown("10:").parent

        def change(rtnetlink: Rtnetlink) -> None:
            content = attribute(TCA_KIND, b"drr_fq\0") + random_options()
            rtnetlink.change_qdisc(on.index, handle("10:"), parent, content)

        def filters(rtnetlink: Rtnetlink) -> None:
            for kind in (RTM_NEWTFILTER, RTM_DELTFILTER):
                classid = random.choice((handle("10:3"), handle("10:500"), handle("11:1")))
                rtnetlink.change_filter(on.index, handle("10:"), kind, classid)

        run_concurrently(*sending, dumper(on.index), requester(change), requester(filters))
        with contextlib.suppress(NetlinkError):
            on.rtnetlink.change_filter(on.index, handle("10:"), RTM_DELTFILTER, 0)
        wait_for(lambda: not any(each.qlen for each in on.qdiscs().values()))
        on.check_empty()


@pytest.mark.parametrize("under", ["root", "htb"])
def test_drr_fq_is_attached_and_deleted_under_load(under: str) -> None:
    """Attach, replace and delete it; set the device down and up, change its MTU and name."""
    with link(UNDER[under]) as on, senders(2) as sending:
        parent = on.shown("10:").parent

        def attach(rtnetlink: Rtnetlink) -> None:
            flags = NLM_F_CREATE | NLM_F_REPLACE
            where = random.choice((handle("10:"), handle("20:")))
            kind = attribute(TCA_KIND, random.choice((b"drr_fq\0", b"drr_fq\0", b"pfifo\0")))
            rtnetlink.change_qdisc(on.index, where, parent, kind, flags)
            if random.randrange(3) == 0:
                rtnetlink.change_qdisc(on.index, where, parent, b"", kind=RTM_DELQDISC)

        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def interface() -> None:
            flags = random.choice((0, IFF_UP, IFF_UP))
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"a0", flags))
            mtu = random.choice((1000, 1500, 9000))
            fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si12x", b"a0", mtu))
            # Older kernels reject this while the device is up.
            with contextlib.suppress(OSError):
                fcntl.ioctl(control, SIOCSIFNAME, struct.pack("16s16s8x", b"a0", b"c0"))
                fcntl.ioctl(control, SIOCSIFNAME, struct.pack("16s16s8x", b"c0", b"a0"))

        def unload() -> None:
            # Fails, or succeeds while there is no qdisc; the next one loads the module again.
            sh("rmmod sch_drr_fq", check=False)
            time.sleep(0.05)

        with control:
            jobs = [*sending, dumper(on.index), requester(attach), interface, unload]
            run_concurrently(*jobs)
    sh("modprobe sch_drr_fq")


def test_devices_and_namespaces_with_drr_fq_are_deleted_under_load() -> None:
    def once() -> None:
        with link(UNDER[random.choice(("root", "htb"))]) as on, senders(1) as sending:
            stop = threading.Event()

            def send() -> None:
                while not stop.is_set():
                    sending[0]()

            thread = threading.Thread(target=send)
            thread.start()
            try:
                wait_for(lambda: on.shown("10:").sent_packets > 50)
                if random.randrange(2):
                    on.rtnetlink.delete_link(on.index)
            finally:
                stop.set()
                thread.join()

    def queued() -> None:
        """Packets queued behind a closed valve are freed with their namespace."""
        with valved(parent=random.choice(("tbf", "htb", "drr"))) as on:
            for flow in range(20):
                on.send(flow, 500, 5, classes=False)

    run_concurrently(once, queued)


# --- slbn: its state is accessed on transmission, on reception, and by two netlink families

SLBN_UNDER = {
    "root": "qdisc add dev a0 root handle 10: slbn rate 1gbit control 100%",
    "htb": """qdisc add dev a0 root handle 1: htb default 1
        class add dev a0 parent 1: classid 1:1 htb rate 50mbit
        qdisc add dev a0 parent 1:1 handle 10: slbn rate 1gbit control 100%
        qdisc add dev a0 parent 10:2 handle 11: fq_codel""",
}


SIOCETHTOOL, ETHTOOL_SCHANNELS = 0x8946, 0x3D


def set_channels(control: socket.socket, device: str, count: int) -> None:
    """Like `ethtool -L DEVICE rx COUNT tx COUNT`, which takes long to start."""
    numbers = struct.pack("9I", ETHTOOL_SCHANNELS, 0, 0, 0, 0, count, count, 0, 0)
    channels = ctypes.create_string_buffer(numbers)
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(channels))
    # The driver refuses what does not change.
    with contextlib.suppress(OSError):
        fcntl.ioctl(control, SIOCETHTOOL, request)


@contextlib.contextmanager
def slbn_traffic(on: Link) -> Iterator[list[Callable[[], None]]]:
    """Jobs that send control packets through a0: downstream, and answers to it."""

    def sender(device: str) -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.bind((device, 0))
        made.setblocking(False)
        return made

    with sender("a0") as below, sender("b0") as above:
        tags: list[int] = [0]
        numbers: list[int] = [1]

        def down() -> None:
            for _ in range(20):
                session = random.randrange(40)
                kind = random.choice((JOIN, PROBE, PROBE, LEAVE))
                source = f"10.0.1.{session}"
                with contextlib.suppress(OSError):
                    below.send(control_frame(session, kind, random.randrange(4), source))

        def up() -> None:
            for _ in range(20):
                packet = Packet(
                    type=PROBE_ACK,
                    key=random.choice((None, None, bytes(16))),
                    key_id=random.randrange(3),
                    seq=random.randrange(4),
                    hop=1,
                    slots=2,
                    id=random.randrange(40).to_bytes(16, "big"),
                    tags={0: tags[0]},
                    # To a0 itself, by the current number of the link or one that it had or gets.
                    returns={0: (0, "10.0.0.2"), 1: (random.choice(numbers), "10.0.0.1")},
                )
                with contextlib.suppress(OSError):
                    above.send(Datagram(packet, check=0).back().frame())
            with contextlib.suppress(StopIteration):
                shown = next(q for q in rtnetlink.qdiscs(on.index) if q.kind == "slbn")
                tags[0] = State.read(shown.application).tag
            with contextlib.suppress(NetlinkError, ValueError):
                family = Genetlink()
                with contextlib.closing(family):
                    found = [each.number for each in family.dump_links()]
                numbers[:] = [n + more for n in found for more in (0, 0, 1)] or [1]

        rtnetlink = Rtnetlink()
        yield [down, up]


def family_requester(request: Callable[[Genetlink], object]) -> Callable[[], None]:
    """A job that sends requests to the family; they may fail, also as the module was reloaded."""

    def run() -> None:
        with contextlib.suppress(NetlinkError, ValueError):
            family = Genetlink()
            with contextlib.closing(family):
                for _ in range(20):
                    request(family)

    return run


def random_config() -> dict[str, int | bytes]:
    choices: dict[str, list[int | bytes]] = {
        "rate": [10**6, 10**9, 0],
        "epoch": [0, 10 * MS, 100 * MS],
        "memory": [0, 8, 5000],
        "memory_time": [MS, SECOND],
        "control": [1, 1000],
        "headroom": [0, 50, 500],
        "headroom_auto": [0, 1],
        "commit": [0, 1],
        "edge": [0, 0, 1],
        "key": [b"", b"", b"", bytes(16)],
        "threshold": [1, 1000],
    }
    names = random.sample(sorted(choices), random.randrange(1, 4))
    return {name: random.choice(choices[name]) for name in names}


def requests_to_link(index: int) -> list[Callable[[], None]]:
    def change(family: Genetlink) -> None:
        family.set(given(ifindex=index), given(**random_config()))

    def reset(family: Genetlink) -> None:
        family.reset(given(ifindex=index))

    def add_key(family: Genetlink) -> None:
        family.add_key(given(ifindex=index, key_id=random.randrange(3), key=bytes(16)))

    def retire_key(family: Genetlink) -> None:
        family.retire_key(given(ifindex=index, key_id=random.randrange(3)))

    def look(family: Genetlink) -> None:
        family.dump_links()
        family.get(given(ifindex=index))

    requests = (change, reset, add_key, retire_key, look)
    return [family_requester(each) for each in requests]


@pytest.mark.parametrize("under", SLBN_UNDER)
def test_slbn_options_and_children_change_under_load(under: str) -> None:
    with link(SLBN_UNDER[under], queues=2) as on, senders(1) as sending, slbn_traffic(on) as both:
        parent = on.shown("10:").parent

        def change(rtnetlink: Rtnetlink) -> None:
            content = attribute(TCA_KIND, b"slbn\0") + slbn_options(**random_config())
            rtnetlink.change_qdisc(on.index, handle("10:"), parent, content)

        def child(rtnetlink: Rtnetlink) -> None:
            kind = attribute(TCA_KIND, random.choice((b"pfifo\0", b"fq_codel\0", b"drr_fq\0")))
            where = random.choice(("10:1", "10:2"))
            flags = NLM_F_CREATE | NLM_F_REPLACE
            rtnetlink.change_qdisc(on.index, handle("30:"), handle(where), kind, flags)
            rtnetlink.change_qdisc(on.index, handle("30:"), handle(where), b"", kind=RTM_DELQDISC)

        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def channels() -> None:
            """Change the number of TX and RX queues in use."""
            set_channels(control, "a0", random.choice((1, 2)))
            time.sleep(0.01)

        # On a busy machine few packets are sent, and links with a key or an edge refuse most.
        def processed() -> bool:
            state = State.read(on.shown("10:").application)
            return bool(state.joins and state.probes)

        jobs = [*sending, *both, dumper(on.index), requester(change), requester(child), channels]
        run_concurrently(*jobs, *requests_to_link(on.index), enough=processed)
        wait_for(lambda: not any(each.qlen for each in on.qdiscs().values()))
        assert not any(each.backlog for each in on.qdiscs().values())
        # After any sequence of requests, a valid configuration works.
        family = Genetlink()
        where = given(ifindex=on.index)
        valid = {"rate": 10**8, "headroom": 0, "epoch": 0, "memory": 64, "edge": 0}
        valid |= {"commit": 1, "control": 1000}
        family.set(where, given(**valid, key=b""))
        family.reset(where)
        before = family.get(where).state
        for session in range(5):
            assert on.inject(control_frame(1000 + session))
        wait_for(lambda: family.get(where).state.joins == before.joins + 5)
        now = family.get(where).state
        assert (now.N, now.share) == (5, 10**8 // 5)
        family.close()


@pytest.mark.parametrize("under", ["root", "htb"])
def test_slbn_is_attached_and_deleted_under_load(under: str) -> None:
    """Attach, replace and delete it; set the device down and up, unload and load the module."""
    with link(SLBN_UNDER[under]) as on, senders(1) as sending, slbn_traffic(on) as both:
        parent = on.shown("10:").parent

        def attach(rtnetlink: Rtnetlink) -> None:
            flags = NLM_F_CREATE | NLM_F_REPLACE
            where = random.choice((handle("10:"), handle("20:")))
            content = attribute(TCA_KIND, b"slbn\0") + slbn_options(**random_config())
            rtnetlink.change_qdisc(on.index, where, parent, content, flags)
            if random.randrange(2) == 0:
                rtnetlink.change_qdisc(on.index, where, parent, b"", kind=RTM_DELQDISC)

        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def interface() -> None:
            flags = random.choice((0, IFF_UP, IFF_UP))
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"a0", flags))
            time.sleep(0.01)

        def unload() -> None:
            sh("rmmod sch_slbn", check=False)
            time.sleep(0.05)

        with control:
            jobs = [*sending, *both, dumper(on.index), requester(attach), interface, unload]
            run_concurrently(*jobs, *requests_to_link(on.index))
    sh("modprobe sch_slbn")


def test_devices_and_namespaces_with_slbn_are_deleted_under_load() -> None:
    def once() -> None:
        with link(SLBN_UNDER[random.choice(("root", "htb"))]) as on, slbn_traffic(on) as both:
            stop = threading.Event()

            def send(job: Callable[[], None]) -> None:
                while not stop.is_set():
                    job()

            threads = [threading.Thread(target=send, args=(job,)) for job in both]
            for thread in threads:
                thread.start()
            try:
                wait_for(lambda: on.shown("10:").sent_packets > 50)
                if random.randrange(2):
                    on.rtnetlink.delete_link(on.index)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()

    run_concurrently(once)


@pytest.mark.tier("all")
def test_busy_flows_keep_their_sessions(tmp_path: Path) -> None:
    """While slbnd reads what a connection has sent, packets of it are counted on another CPU."""
    with chain(3) as net:
        for number in range(3):
            net.attach(number, f"rate 100mbit headroom 0{' edge' * (number == 2)}")
        net.tc(1, "qdisc replace dev e1 parent 1:1 fq flow_limit 10000")
        traffic = Traffic(*(sender(net, 0, 3, udp=4 * MEGA) for _ in range(4)))
        options = ("--hosts", "10.0.0.0/24", "--devices", "e1")
        with agent(net.nodes[1], tmp_path, *options) as slbnd, slbnd.connect() as us:
            wait_for(lambda: bool(traffic.run(0.1)) and len(us.list()) == 4)
            before = {session.id for session in us.list()}
            # A sweep of all connections takes place every two seconds.
            traffic.run(30)
            assert {session.id for session in us.list()} == before
