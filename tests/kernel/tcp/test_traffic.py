# SPDX-License-Identifier: GPL-2.0
"""TCP connections with loss, ECN, timeouts, spurious losses and idle periods.

tests/unit tests the exact results of the algorithms. These tests check that the modules pass the
right numbers at the right time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.kernel.lib.net import (
    VIRTUAL_TIME,
    Connection,
    Pair,
    connection,
    pair,
    read_trace,
    sh,
    tracing,
    wait_for,
)

EVERYWHERE = pytest.mark.tier("all")
VARIANTS = [
    ("bic", "paper"),
    ("bic", "linux"),
    ("gaimd", "gaimd"),
    ("gaimd", "tcp"),
    ("gaimd", "aimd32"),
]


#: In `make test` one preset of GAIMD: the others differ only by the numbers of its parameters.
FORMS = pytest.mark.parametrize(
    "variant",
    [
        pytest.param(each, marks=[] if each in VARIANTS[:2] or each[1] == "tcp" else EVERYWHERE)
        for each in VARIANTS
    ],
    indirect=True,
    ids=":".join,
)


@pytest.fixture(params=VARIANTS, ids=":".join)
def variant(request: pytest.FixtureRequest, net: Pair) -> tuple[str, str]:
    cc, preset = request.param
    net.a.sysctl(f"{cc}_preset", preset)
    return cc, preset


def counter(net: Pair, name: str) -> int:
    """A counter of the sender's namespace, by its nstat(8) name."""
    line = net.a.sh(f"nstat -asz {name}").stdout.splitlines()[-1]
    assert line.startswith(name), line
    return int(line.split()[1])


def undos(net: Pair) -> int:
    return sum(counter(net, f"TcpExtTCP{kind}Undo") for kind in ("Full", "Loss", "DSACK"))


@FORMS
@pytest.mark.stock
@pytest.mark.machines
def test_data_is_intact_with_loss(net: Pair, variant: tuple[str, str]) -> None:
    net.netem("delay 10ms loss 1%")
    net.data("numgen random mod 30 0 drop")
    with connection(net, variant[0]) as flow:
        flow.pump(600_000)
        assert flow.info["total_retrans"] > 0
        assert flow.cc == variant[0]


def ssthresh_after_loss(variant: tuple[str, str], cwnd: int) -> int:
    """The window after a loss, according to the papers and mainline."""
    cc, preset = variant
    if cc == "gaimd":
        kept = cwnd // 2 if preset == "tcp" else cwnd * 7 // 8
    elif preset == "paper":
        kept = cwnd // 2 if cwnd < 14 else cwnd * 7 // 8
    else:
        kept = cwnd // 2 if cwnd <= 14 else cwnd * 819 // 1024
    return max(kept, 2)


@pytest.mark.virtual
def test_tracepoint_reports_losses_and_ssthresh(net: Pair, variant: tuple[str, str]) -> None:
    event = f"{variant[0]}_window"
    net.drop_one_in(150)
    with tracing(f"tcp_{variant[0]}/{event}") as trace:
        with connection(net, variant[0]) as flow:
            flow.pump(900_000)
            port = flow.sender.getsockname()[1]
        records = read_trace(trace, event)
    losses = [record for record in records if record["phase"] == "loss"]
    assert len(losses) >= 2
    for record in losses:
        assert int(record["ssthresh"]) == ssthresh_after_loss(variant, int(record["cwnd"]))
    assert {record["phase"] for record in records} >= {"slow_start", "loss"}
    assert {(record["sport"], record["dport"]) for record in records} == {(str(port), "5000")}
    if variant[0] == "bic":
        assert all(int(record["wmax"]) > 0 for record in losses)


@pytest.mark.virtual
def test_ecn_reduces_the_window_without_loss(net: Pair, variant: tuple[str, str]) -> None:
    net.a.sysctl("tcp_ecn", 1)
    net.data("numgen inc mod 100 99 ip ecn set ce")
    event = f"{variant[0]}_window"
    with tracing(f"tcp_{variant[0]}/{event}") as trace, connection(net, variant[0]) as flow:
        flow.pump(1_000_000)
        flow.settle()
        assert flow.info["total_retrans"] == 0
        losses = [each for each in read_trace(trace, event) if each["phase"] == "loss"]
    assert losses
    for record in losses:
        assert int(record["ssthresh"]) == ssthresh_after_loss(variant, int(record["cwnd"]))


@pytest.mark.parametrize(
    ("cc", "preset", "beta_ecn", "scale"),
    [
        ("bic", "paper", 950, 1024),
        ("bic", "linux", 870, 1024),
        ("gaimd", "tcp", 800, 1000),
    ],
)
def test_abe_reduces_less_for_ecn_marks_than_for_losses(
    net: Pair, cc: str, preset: str, beta_ecn: int, scale: int
) -> None:
    """RFC 8511; slow start and losses are as without it."""
    net.a.sysctl(f"{cc}_preset", preset)
    net.a.sysctl(f"{cc}_beta_ecn", beta_ecn)
    net.a.sysctl("tcp_ecn", 1)
    net.data("numgen inc mod 100 99 ip ecn set ce")
    event = f"{cc}_window"
    with tracing(f"tcp_{cc}/{event}") as trace, connection(net, cc) as flow:
        flow.pump(1_000_000)
        flow.settle()
        net.drop_one_in(150)
        flow.pump(500_000)
        flow.settle()
        records = read_trace(trace, event)
    reductions = [each for each in records if each["phase"] in ("loss", "ecn")]
    assert reductions[0]["phase"] == "loss", "in slow start"
    marks = [each for each in reductions if each["phase"] == "ecn"]
    losses = [each for each in reductions if each["phase"] == "loss"]
    assert marks
    assert len(losses) >= 2
    for record in marks:
        cwnd = int(record["cwnd"])
        low = cc == "bic" and cwnd < 14 + (preset == "linux")
        kept = cwnd * 4 // 5 if low else cwnd * beta_ecn // scale
        assert int(record["ssthresh"]) == kept
    for record in losses:
        assert int(record["ssthresh"]) == ssthresh_after_loss((cc, preset), int(record["cwnd"]))


def leave_slow_start(flow: Connection, size: int = 400_000) -> None:
    """Send until a loss has ended slow start."""
    flow.pump(size)
    assert flow.info["ssthresh"] < 1 << 20


@FORMS
@pytest.mark.virtual
def test_timeout_reduces_the_window_to_one(net: Pair, variant: tuple[str, str]) -> None:
    net.drop_one_in(150)
    with connection(net, variant[0]) as flow:
        leave_slow_start(flow)
        net.data("drop")
        assert flow.sender.send(b"x" * 100_000) > 0
        wait_for(lambda: flow.info["ca_state"] == 4)
        assert flow.cwnd == 1
        net.data("")
        wait_for(lambda: flow.info["ca_state"] == 0)
        left = 100_000
        flow.receiver.setblocking(True)
        flow.receiver.settimeout(20)
        while left:
            left -= len(flow.receiver.recv(left))
        flow.receiver.setblocking(False)
        flow.pump(300_000)


@FORMS
@pytest.mark.virtual
def test_spurious_timeout_is_undone(net: Pair, variant: tuple[str, str]) -> None:
    """A delay longer than the retransmission timeout, then ACKs of the original packets."""
    net.netem("delay 20ms")
    net.drop_one_in(150)
    with connection(net, variant[0]) as flow:
        leave_slow_start(flow)
        net.data("")
        flow.pump(200_000)
        flow.settle()
        before, undone = flow.cwnd, undos(net)
        timeouts = counter(net, "TcpExtTCPTimeouts")
        net.netem("delay 700ms")
        flow.pump(30_000)
        flow.settle()
        assert counter(net, "TcpExtTCPTimeouts") > timeouts
        assert undos(net) > undone
        assert flow.cwnd >= before
        net.netem("delay 20ms")
        flow.pump(100_000)


def test_undo_restores_wmax(net: Pair) -> None:
    """The paper's form resumes its search; the tracepoint shows Wmax."""
    net.netem("delay 20ms")
    net.drop_one_in(150)
    with tracing("tcp_bic/bic_window") as trace, connection(net, "bic") as flow:
        leave_slow_start(flow)
        net.data("")
        flow.pump(200_000)
        flow.settle()
        before, undone = read_trace(trace, "bic_window"), undos(net)
        net.netem("delay 700ms")
        flow.pump(30_000)
        flow.settle()
        assert undos(net) > undone
        net.netem("delay 20ms")
        flow.pump(2_000_000)
        after = read_trace(trace, "bic_window")[len(before) :]
    last = max(i for i, each in enumerate(after) if each["phase"] == "loss")
    assert after[last + 1]["wmax"] in (before[-1]["wmax"], "0")


def test_loss_of_a_syn_leaves_no_wmax(net: Pair) -> None:
    """The stack calls ssthresh() for it, before the connection has parameters."""
    net.b.sh(
        'nft add table ip t; nft add chain ip t c "{ type filter hook prerouting priority 0; }";'
        " nft add rule ip t c tcp flags syn numgen inc mod 1000000000 0 drop"
    )
    with tracing("tcp_bic/bic_window") as trace, connection(net, "bic") as flow:
        flow.pump(100_000)
        records = read_trace(trace, "bic_window")
    assert [each["phase"] for each in records[:2]] == ["loss", "slow_start"]
    assert {each["wmax"] for each in records[1:]} == {"0"}


@FORMS
@pytest.mark.virtual
def test_idle_and_application_limited(net: Pair, variant: tuple[str, str]) -> None:
    net.a.sysctl("tcp_slow_start_after_idle", 1)
    with connection(net, variant[0]) as flow:
        for _ in range(20):
            flow.pump(3000)
        assert flow.cwnd <= 12, "window grew while application-limited"
        flow.pump(1_000_000)
        grown = flow.cwnd
        assert grown > 40
        wait_for(lambda: flow.info["ca_state"] == 0)
        time.sleep(3)
        flow.pump(1448)
        assert flow.cwnd < grown, "window was kept while idle"
        flow.pump(1_000_000)


@pytest.mark.parametrize("cc", ["bic", "gaimd"])
def test_inet_diag_has_no_attribute_of_another_algorithm(net: Pair, cc: str) -> None:
    with connection(net, cc) as flow:
        flow.pump(100_000)
        shown = net.a.sh("ss -tinH state established dport = 5000").stdout
        assert f" {cc} " in shown
        assert not any(other in shown for other in ("dctcp", "vegas", "bbr"))


def space_packets(net: Pair) -> None:
    """Send data at 80 Mbit/s, more than is needed, so that packets do not arrive all at once.

    netem would send all segments of a GSO packet at one instant, and their ACKs would arrive so. In
    virtual time TCP then sends new data and a retransmission in one microsecond, and RACK, which
    orders them by the microsecond and the sequence number, retransmits that packet twice.
    """
    net.a.ip("link set a0 gso_max_segs 1")
    net.a.sh("tc qdisc add dev a0 root netem limit 100000 rate 80mbit")


@pytest.mark.parametrize("alpha", [310, 1000, 5000])
def test_gaimd_grows_by_alpha_per_round_trip(alpha: int) -> None:
    tracepoints = ("tcp_gaimd/gaimd_window", "tcp/tcp_probe")
    with pair() as net, tracing(*tracepoints) as trace:
        space_packets(net)
        net.a.sysctl("gaimd_alpha", alpha)
        net.drop_only(30)  # ends slow start
        with connection(net, "gaimd") as flow:
            flow.pump(40 * 25 * 1448)
            flow.settle()
            assert flow.info["total_retrans"] == 1
        windows = [
            (float(record["time"]), int(record["cwnd"]))
            for record in read_trace(trace, "gaimd_window")
            if record["phase"] == "increase"
        ]
        probes = read_trace(trace, "tcp_probe")
    srtt = [int(each["srtt"]) / 1e6 for each in probes if each["dest"].endswith(":5000")]
    rounds = (windows[-1][0] - windows[0][0]) / (sum(srtt[10:]) / len(srtt[10:]))
    grown = windows[-1][1] - windows[0][1]
    assert rounds > 5
    # The first and the last record may be off by a round-trip.
    assert grown == pytest.approx(rounds * alpha / 1000, rel=0.1, abs=max(1, alpha / 1000))


def window_by_bytes(cc: str, size: int, preset: str = "") -> list[int]:
    """The window after each 20 kB acknowledged, with two packets lost."""
    with pair() as net:
        # Stretch ACKs would differ between runs, and mainline's bic grows faster with them.
        space_packets(net)
        if preset:
            net.a.sysctl(f"{cc}_preset", preset)
        net.drop_only(200, 1200)  # the first ends slow start
        with tracing("tcp/tcp_probe") as trace:
            # bic counts jiffies: in virtual time each run begins at the same part of one.
            time.sleep(-time.monotonic() % 0.1)
            with connection(net, cc) as flow:
                flow.pump(size)
                flow.settle()
                assert flow.info["total_retrans"] == 2
            probes = read_trace(trace, "tcp_probe")
    probes = [each for each in probes if each["dest"].endswith(":5000")]
    start = int(probes[0]["snd_una"], 16)
    windows: list[int] = []
    for each in probes:
        acked = (int(each["snd_una"], 16) - start) & 0xFFFFFFFF
        while len(windows) * 20_000 <= acked:
            windows.append(int(each["snd_cwnd"]))
    return windows


def assert_windows_match(ours: list[int], theirs: list[int], packets: int) -> None:
    """Match within so many packets; in real time, as well as two runs of one module."""
    # The records end one window before the data, and windows may differ.
    apart = [abs(a - b) / b for a, b in zip(ours, theirs, strict=False)]
    assert len(apart) > 200
    if VIRTUAL_TIME:
        assert max(abs(a - b) for a, b in zip(ours, theirs, strict=False)) <= packets
    assert sum(apart) / len(apart) < 0.01
    assert sorted(apart)[int(len(apart) * 0.95)] < 0.03


def test_gaimd_preset_tcp_matches_reno() -> None:
    size = 5_500_000
    theirs = window_by_bytes("reno", size)
    # They round at other times.
    assert_windows_match(window_by_bytes("gaimd", size, "tcp"), theirs, packets=1)


def remove_bic() -> None:
    """Connections of earlier tests hold references until their namespaces are cleaned up."""
    wait_for(lambda: sh("modprobe -r tcp_bic", check=False).returncode == 0)


def test_bic_preset_linux_matches_mainline() -> None:
    size = 5_500_000
    ours = window_by_bytes("bic", size, "linux")
    release = os.uname().release
    theirs = next(Path(f"/lib/modules/{release}/kernel/net/ipv4").glob("tcp_bic.ko*"))
    remove_bic()
    sh(f"insmod {theirs}")
    try:
        assert_windows_match(ours, window_by_bytes("bic", size), packets=0)
    finally:
        remove_bic()
        sh("modprobe tcp_bic")
