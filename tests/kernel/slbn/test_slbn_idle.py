# SPDX-License-Identifier: GPL-2.0
"""sch_slbn skips quiet time only where a device had carrier and has sent nothing for a lease.

    a0 with slbn ---- veth ---- b0

Attaching takes a sample of the device, as the module does by itself from time to time.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.kernel.lib.drr_fq import Link, link
from tests.kernel.lib.genetlink import MEGA, SECOND, Genetlink, control_frame, given, options
from tests.kernel.lib.iproute import run_ip
from tests.kernel.lib.net import namespace, sh, wait_for_carriers
from tests.kernel.lib.netlink import NLM_F_CREATE, NLM_F_EXCL, attribute
from tests.kernel.lib.rtnetlink import RTM_DELQDISC, TC_H_ROOT, TCA_KIND, handle

pytestmark = pytest.mark.virtual

KIND = attribute(TCA_KIND, b"slbn\0")
#: A lease lasts no longer than this, and a bit less than this.
LEASE, LESS = 1.05, 0.9


@dataclass
class Device:
    """A device that is a link now and then."""

    on: Link
    family: Genetlink

    def send(self) -> None:
        assert self.on.inject(control_frame(1))

    def attach(self, quiet: int = 0, edge: bool = False) -> None:
        content = KIND + options(rate=MEGA, quiet=quiet, edge=edge)
        flags = NLM_F_CREATE | NLM_F_EXCL
        self.on.rtnetlink.change_qdisc(self.on.index, handle("1:"), TC_H_ROOT, content, flags)

    def detach(self) -> None:
        where = (self.on.index, handle("1:"), TC_H_ROOT)
        self.on.rtnetlink.change_qdisc(*where, b"", kind=RTM_DELQDISC)

    def quiet(self) -> int:
        return self.family.get(given(ifindex=self.on.index)).state.quiet

    def is_quiet(self, seconds: int = 0) -> bool:
        """Whether a new link is quiet; with leases of so many SECONDS, or the default."""
        self.attach(seconds * SECOND)
        found = self.quiet()
        self.detach()
        longest = seconds or 1
        assert found == 0 or (longest - 0.5) * SECOND < found <= longest * SECOND
        return found > 0


@contextlib.contextmanager
def device() -> Iterator[Device]:
    with link() as on, contextlib.closing(Genetlink()) as family:
        yield Device(on, family)


@pytest.fixture
def idle() -> Iterator[Device]:
    """A device that has been idle for a lease."""
    with device() as made:
        made.send()
        assert made.is_quiet()
        time.sleep(LEASE)
        assert not made.is_quiet()
        yield made


def test_new_device_is_unknown() -> None:
    with device() as made:
        assert made.is_quiet()
        made.send()
        assert made.is_quiet()
        time.sleep(LESS)
        assert made.is_quiet()
        time.sleep(LEASE - LESS)
        assert not made.is_quiet()


def test_device_that_counts_nothing_is_unknown() -> None:
    """Its driver may not count."""
    with device() as made:
        time.sleep(10 * LEASE)
        assert made.is_quiet()


def test_module_samples_by_itself() -> None:
    with device() as made:
        time.sleep(5)
        made.send()
        # The next sample is no later than the device is old.
        time.sleep(2 * (5 + LEASE))
        assert not made.is_quiet()


def test_traffic_before_attaching_makes_quiet(idle: Device) -> None:
    idle.send()
    assert idle.is_quiet()
    # One packet a lease is enough, also between samples.
    for _ in range(5):
        time.sleep(LESS)
        idle.send()
        time.sleep(LEASE - LESS)
        assert idle.is_quiet()
    time.sleep(LEASE)
    assert not idle.is_quiet()


def test_longest_lease_of_the_domain_counts(idle: Device) -> None:
    assert idle.is_quiet(10)
    time.sleep(7)
    assert idle.is_quiet(10)
    time.sleep(4)
    assert not idle.is_quiet(10)
    assert idle.is_quiet(3600)


def test_edge_makes_quiet(idle: Device) -> None:
    """It answers control packets itself: sessions with a lease may have sent nothing over it."""
    idle.attach(edge=True)
    assert idle.quiet() == 0
    time.sleep(LEASE)
    idle.detach()
    assert idle.is_quiet()
    time.sleep(LESS)
    assert idle.is_quiet()
    time.sleep(LEASE - LESS)
    assert not idle.is_quiet()


def flap() -> None:
    sh("ip link set b0 down; ip link set b0 up")
    wait_for_carriers("a0")


def restart() -> None:
    sh("ip link set a0 down; ip link set a0 up")
    wait_for_carriers("a0")


def lose_carrier() -> None:
    sh("ip link set b0 down")
    time.sleep(5)
    sh("ip link set b0 up")
    wait_for_carriers("a0")


@pytest.mark.parametrize("what", [flap, restart, lose_carrier])
def test_flap_makes_quiet(idle: Device, what: Callable[[], None]) -> None:
    """A carrier that was gone, for however long, or a device that was down."""
    time.sleep(3)
    what()
    assert idle.is_quiet()
    time.sleep(LESS)
    assert idle.is_quiet()
    time.sleep(LEASE - LESS)
    assert not idle.is_quiet()


def test_device_without_carrier_is_unknown(idle: Device) -> None:
    sh("ip link set b0 down")
    time.sleep(10)
    assert idle.is_quiet()


def test_device_made_anew_is_unknown(idle: Device) -> None:
    """With the same name and the same index, as PPPoE devices are."""
    index = idle.on.index
    idle.on.rtnetlink.delete_link(index)
    run_ip(
        [
            f"link add a0 index {index} type veth peer b0",
            "link set a0 up",
            "link set b0 up",
        ]
    )
    assert socket.if_nametoindex("a0") == index
    wait_for_carriers("a0", "b0")
    assert idle.is_quiet()
    time.sleep(LEASE)
    assert idle.is_quiet()


def test_device_that_moves_is_unknown(idle: Device) -> None:
    with namespace() as other:
        sh(f"ip link set a0 netns {other.name}")
        sh(f"ip -n {other.name} link set a0 netns {os.getpid()}")
    sh("ip link set a0 up")
    wait_for_carriers("a0")
    idle.on.index = socket.if_nametoindex("a0")
    assert idle.is_quiet()


def test_reset_makes_quiet(idle: Device) -> None:
    """Whoever resets a link may know of sessions."""
    idle.attach()
    assert idle.quiet() == 0
    idle.family.reset(given(ifindex=idle.on.index))
    assert idle.quiet() > 0
