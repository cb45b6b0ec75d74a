# SPDX-License-Identifier: GPL-2.0
"""SLBN on forwarding network namespaces: assigned rates, statistics, and options of tc.

    source r1 ---- r2 ---- r3 ---- d destination

Each router has slbn on its device towards d. slbn_peer.c is the sources; the edge r3 answers for d,
which does not support SLBN.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.kernel.lib.net import namespace, sh, wait_for
from tests.kernel.lib.slbn import MEGA, agents, chain, rates, sources

#: Options of the algorithm's forms; without headroom, so that they have the same rates.
FORMS = {
    "protocol 2": "headroom 0",
    "protocol 1": "commit off headroom 0",
    "paper": "commit off headroom 0 epoch 0 memory 0",
}


@pytest.mark.machines
@pytest.mark.parametrize(
    ("v6", "form"),
    [
        pytest.param(False, "protocol 2", marks=pytest.mark.stock),
        pytest.param(True, "protocol 2", marks=[pytest.mark.stock, pytest.mark.newer]),
        pytest.param(False, "protocol 1", marks=pytest.mark.virtual),
        pytest.param(True, "protocol 1", marks=[pytest.mark.virtual, pytest.mark.tier("all")]),
        pytest.param(False, "paper", marks=[pytest.mark.virtual, pytest.mark.tier("all")]),
        pytest.param(True, "paper", marks=[pytest.mark.virtual, pytest.mark.tier("all")]),
    ],
)
def test_sessions_get_max_min_rates(peer: str, v6: bool, form: str) -> None:
    source, destination = ("fd00:0::1", "fd00:2::2") if v6 else ("10.0.0.1", "10.0.2.2")
    with chain(3) as net:
        # Without memory a retransmitted Join is counted twice: resolve all addresses first.
        net.nodes[0].sh(f"ping -q -c 1 -W 5 {destination}")
        net.attach(0, f"rate 100mbit {FORMS[form]}")
        net.attach(1, f"rate 50mbit {FORMS[form]}")
        net.attach(2, f"rate 80mbit edge {FORMS[form]}")
        commit = form == "protocol 2"
        sessions = [f"{destination} {demand} 0.1 0" for demand in (0, 0, 0, 5 * MEGA)]
        sessions.append(f"{destination} 0 0.2 1.5")

        def settled() -> bool:
            shown = net.shown(1)
            restricted = shown["NR"] + shown["previous_NR"]
            elsewhere = shown["BF"] + shown["previous_BF"]
            gone = shown["leaves"] and shown["sessions"] == 4
            held = (shown["held"], shown["quiet"]) == (50 * MEGA * commit, 0)
            shares = (restricted, elsewhere, shown["share"]) == (3, 5 * MEGA, 15 * MEGA)
            return gone and held and shares

        with sources(peer, net, source, sessions, 6) as process:
            # The last session leaves: no need to start tc before.
            time.sleep(1.5)
            wait_for(settled)
            assert rates(process) == [15 * MEGA] * 3 + [5 * MEGA, 0]
        shown = net.shown(1)
        # Retransmitted Joins are counted, too.
        assert shown["joins"] >= 5 and shown["leaves"] >= 1
        assert shown["clamped"] == shown["wrong_path"] == shown["malformed"] == 0
        assert net.shown(2)["answered"] >= 10
        # The sources ended without a Leave: after two epochs the links do not count them.
        if form == "paper":
            assert (shown["migrated"], shown["memory_entries"], shown["sessions"]) == (0, 0, 4)
        else:
            wait_for(lambda: net.state(1).sessions == 0)


def test_rates_are_proportional_to_weights(peer: str) -> None:
    """Of 100 Mbit/s less 4 % headroom, the session with a demand leaves 80 for weights of 5."""
    with chain(1) as net, agents(peer, net.nodes) as (source, _):
        net.attach(0, "rate 100mbit headroom 4%")
        source.send("join 10.0.0.2 0 3", "join 10.0.0.2 0", "join 10.0.0.2 0 1")
        source.send("join fd00:0::2 16000000 1000000")

        def has(*rates: int) -> bool:
            state = net.state(0)
            assert state.held <= state.capacity
            found = [session.rate for session in source.show() if session.state != "gone"]
            return found == [n * MEGA for n in rates]

        wait_for(lambda: has(48, 16, 16, 16))
        shown = net.shown(0)
        assert (shown["capacity"], shown["plan"]) == (100 * MEGA, 96 * MEGA)
        assert (shown["sessions"], shown["restricted"]) == (10**6 + 5, 5)
        wait_for(lambda: net.state(0).held == 96 * MEGA)
        source.send("leave 3", "leave 1")
        wait_for(lambda: has(72, 24))
        source.send("leave 0", "leave 2")
        wait_for(lambda: net.state(0).sessions == 0)
        shown = net.shown(0)
        names = ("BF", "A", "previous_BF", "previous_A", "held", "clamped")
        assert {shown[name] for name in names} == {0}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("rate 10", "rate"),
        ("epoch 1ms", "epoch"),
        ("memory 70s", "memory"),
        ("control 0.01%", "control"),
        ("headroom 50.1%", "headroom"),
        ("headroom", "headroom"),
        ("commit maybe", "commit"),
        ("commit", "commit"),
        ("key file /dev/null", "key"),
        ("key 00112233445566778899aabbccddeeff", "must be file FILE"),
        ("edge no-edge", "contradicts"),
        ("nonsense", "What is"),
    ],
)
def test_invalid_options_change_nothing(options: str, error: str) -> None:
    with chain(1) as net:
        net.attach(0, "rate 20mbit")
        before = net.shown(0)["options"]
        done = net.tc(0, f"qdisc change dev {net.device(0)} root slbn {options}", check=False)
        assert done.returncode and error in done.stdout
        assert net.shown(0)["options"] == before


def test_device_without_speed_needs_rate() -> None:
    with namespace() as ns:
        sh(f"ip -n {ns.name} link add d0 type dummy")
        done = sh(f"tc -n {ns.name} qdisc add dev d0 root slbn", check=False)
        assert done.returncode and "set a rate" in done.stdout
        sh(f"tc -n {ns.name} qdisc add dev d0 root slbn rate 1gbit")


def test_data_passes_child_qdisc() -> None:
    with chain(1) as net:
        net.attach(0, "rate 100mbit")
        net.tc(0, f"qdisc add dev {net.device(0)} parent 1:1 handle 2: drr_fq limit 100p")
        net.nodes[0].sh("ping -q -c 3 -i 0.2 10.0.0.2")
        shown = json.loads(net.tc(0, f"-j -s qdisc show dev {net.device(0)}").stdout)
        packets = {q["kind"]: q["packets"] for q in shown}
        assert packets["slbn"] >= 3 and packets["drr_fq"] >= 3
