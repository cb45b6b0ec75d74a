# SPDX-License-Identifier: GPL-2.0
"""Whether marks arrive: control packets that have one, and answers that say so.

    r1 ======== r2 ======== r3 ======== server
    slbnd   e1          e2          e3
                                    edge

All links and the devices back have bands that believe marks from the interfaces of a group.  An
nftables rule at r2 clears DSCPs, as another network between two routers of the domain may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.net import wait_for
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import Agent, agent, libslbn

pytestmark = pytest.mark.virtual

SERVERS = ("10.0.3.2", "fd00:3::2")
GROUP = 5
RATE = 10 * MEGA
#: More cycles than between two questions, and than answers until one is believed.
CYCLES = 40
OPTIONS = ("--hosts", "10.0.0.0/24,fd00:0::/64", "--devices", "e1", "--marks")


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(4) as net:
        net.attach(1, f"rate {RATE}")
        net.tc(1, "qdisc replace dev e1 parent 1:1 fq flow_limit 10000")
        for n, edge in ((2, ""), (3, "edge")):
            net.tc(n, f"qdisc add dev e{n} root handle 1: tbf rate {RATE} burst 3000 limit 10mb")
            net.tc(n, f"qdisc add dev e{n} parent 1:1 handle 2: slbn rate {RATE} {edge}")
            net.tc(n, f"qdisc add dev e{n} parent 2:2 drr_fq bands domain {GROUP}")
            net.tc(n, f"qdisc add dev w{n - 1} root drr_fq bands domain {GROUP}")
            net.nodes[n].ip(f"link set w{n - 1} group {GROUP}")
        net.nodes[2].ip(f"link set e2 group {GROUP}")
        yield net


def clear(net: Chain, device: str) -> None:
    """Clear the DSCPs of what r2 receives by a device, or ("") of nothing."""
    net.nodes[2].sh("nft flush ruleset")
    if device:
        rules = f'iifname "{device}" ip dscp set 0; add rule inet t c iifname "{device}"'
        net.nodes[2].sh(
            'nft add table inet t; nft add chain inet t c "{ type filter hook prerouting priority '
            f"-300; }}\"; nft 'add rule inet t c {rules} ip6 dscp set 0'"
        )


def join(us: libslbn.Connection) -> list[int]:
    return [us.join(each, MEGA) for each in SERVERS]


def have_asked(us: libslbn.Connection, sessions: list[int]) -> Callable[[], bool]:
    """Whether each session has asked several times since now."""
    before = {each.id: each.cycles for each in us.list()}

    def asked() -> bool:
        now = {each.id: each.cycles for each in us.list()}
        return all(now[each] >= before.get(each, 0) + CYCLES for each in sessions)

    return asked


def shown(slbnd: Agent, sessions: list[int]) -> list[bool]:
    return [slbnd.show(each)["no_marks_seen"] for each in sessions]


def tell(slbnd: Agent, what: str) -> str:
    return slbnd.slbnctl(what, check=False).stdout


def test_marks_that_arrive(net: Chain, tmp_path: Path) -> None:
    """Over links that believe them, also those that another agent passes on."""
    with agent(net.nodes[1], tmp_path, *OPTIONS, "on") as slbnd, slbnd.connect() as us:
        sessions = join(us)
        wait_for(have_asked(us, sessions))
        assert shown(slbnd, sessions) == [False, False]
        assert us.status().no_marks_seen == 0


@pytest.mark.parametrize(
    "device", ["w1", pytest.param("e2", marks=pytest.mark.tier("all"))], ids=["there", "back"]
)
def test_a_network_that_clears_marks(
    net: Chain, tmp_path: Path, device: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Shown, counted and logged, as long as it does."""
    clear(net, device)
    with agent(net.nodes[1], tmp_path, *OPTIONS, "on") as slbnd, slbnd.connect() as us:
        sessions = join(us)
        wait_for(lambda: us.status().no_marks_seen == 2)
        assert shown(slbnd, sessions) == [True, True]
        text = tell(slbnd, "status")
        assert " no_marks_seen 2" in text and "clears DSCPs" in text
        assert capfd.readouterr().err.count("no marks seen on the way to ") == 1
        clear(net, "")
        wait_for(lambda: us.status().no_marks_seen == 0)
        assert shown(slbnd, sessions) == [False, False]


def test_only_who_marks_asks(net: Chain, tmp_path: Path) -> None:
    clear(net, "w1")
    with agent(net.nodes[1], tmp_path, *OPTIONS, "off") as slbnd, slbnd.connect() as us:
        sessions = join(us)
        wait_for(have_asked(us, sessions))
        assert us.status().no_marks_seen == 0
