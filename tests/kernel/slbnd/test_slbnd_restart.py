# SPDX-License-Identifier: GPL-2.0
"""Restarts of slbnd under traffic: the next one continues sessions and rates."""

from __future__ import annotations

import itertools
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.net import namespace, received, sh, wait_for
from tests.kernel.lib.senders import Traffic, close_to, sender
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbnd import SLBND, agent, libslbn
from tests.kernel.slbnd.test_slbnd import rates, wait_for_rates

pytestmark = pytest.mark.virtual

restarts = pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGKILL])


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(3) as made:
        made.attach(0, "rate 100mbit headroom 0")
        made.tc(0, "qdisc replace dev e0 parent 1:1 fq flow_limit 10000")
        made.attach(1, "rate 50mbit headroom 0")
        made.attach(2, "rate 80mbit headroom 0 edge")
        yield made


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The options that keep state and pins."""
    pins = tmp_path / "bpf" / "slbnd"
    pins.parent.mkdir()
    sh(f"mount -t bpf bpf {pins.parent}")
    yield ("--state", str(tmp_path / "state"), "--pins", str(pins))
    sh(f"umount {pins.parent}")


def test_truncated_state_does_not_end_slbnd(net: Chain, tmp_path: Path) -> None:
    """As by logrotate's copytruncate; the next slbnd begins anew."""
    state = tmp_path / "state"
    options = ("--state", str(state))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        stays = us.join("10.0.2.2", 30 * MEGA, stays=True)
        wait_for_rates(us, {stays: 30 * MEGA})
        os.truncate(state, 0)
        new = us.join("10.0.2.2", 10 * MEGA, stays=True)
        time.sleep(2)
        assert rates(us) == {stays: 30 * MEGA, new: 10 * MEGA}
        slbnd.end(signal.SIGKILL)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        assert rates(us) == {}
        wait_for(lambda: net.state(1).sessions == 0)


#: Of struct state_head: magic, version, octets of a record, boot.
HEAD = struct.Struct("=QII48s")


def checksum(record: bytes) -> int:
    """Of all but the record's first word, which has it."""
    total = 1
    for (word,) in struct.iter_unpack("=Q", record[8:]):
        total = (total ^ word) * 0x9E3779B97F4A7C15 & 2**64 - 1
        total ^= total >> 32
    return total or 1


def with_head(version: int = 0, size: int = 0, boot: bytes = b"") -> Callable[[bytes], bytes]:
    """Change the header's version or size of records by so much, or set its boot."""

    def change(contents: bytes) -> bytes:
        magic, its_version, its_size, its_boot = HEAD.unpack_from(contents)
        head = HEAD.pack(magic, its_version + version, its_size + size, boot or its_boot)
        return head + contents[HEAD.size :]

    return change


def truncated(records: float) -> Callable[[bytes], bytes]:
    """Keep so many records, and the header."""

    def change(contents: bytes) -> bytes:
        size = HEAD.unpack_from(contents)[2]
        return contents[: HEAD.size + round(records * size)]

    return change


def from_the_future(contents: bytes) -> bytes:
    """All records were written in an hour, by their times."""
    size = HEAD.unpack_from(contents)[2]
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    changed = contents[: HEAD.size]
    for at in range(HEAD.size, len(contents) - size + 1, size):
        record = contents[at : at + size]
        words = struct.unpack(f"={size // 8}Q", record)
        if words[0]:
            assert words[0] == checksum(record)
            later = [n + 3600 * 10**9 * (0 < now - n < 60 * 10**9) for n in words]
            assert tuple(later) != words
            record = struct.pack(f"={size // 8}Q", *later)
            record = checksum(record).to_bytes(8, sys.byteorder) + record[8:]
        changed += record
    return changed


#: Contents of the state file of another slbnd, made of ours, and what is logged.
OTHERS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "version before": (with_head(version=-1), "of another version or boot"),
    "next version": (with_head(version=1, size=8), "of another version or boot"),
    "records of another size": (with_head(size=8), "of another version or boot"),
    "boot before": (with_head(boot=b"0" * 36), "of another version or boot"),
    "no record": (truncated(0), "the file is damaged"),
    "half of a record": (truncated(0.5), "the file is damaged"),
    "half of a header": (lambda contents: contents[:30], "the file is damaged"),
    "records of the future": (from_the_future, "2 damaged records are ignored"),
}
#: One of each kind in `make test`: the others take the same branches.
BRIEF = {"version before", "half of a record", "records of the future"}


@pytest.mark.parametrize(
    ("change", "logged"),
    [
        pytest.param(*other, id=name, marks=() if name in BRIEF else pytest.mark.tier("all"))
        for name, other in OTHERS.items()
    ],
)
def test_state_of_another_slbnd(
    net: Chain, tmp_path: Path, change: Callable[[bytes], bytes], logged: str
) -> None:
    """Its sessions are those of nobody: links forget them. New ones are saved as ever."""
    state = tmp_path / "state"
    options = ("--state", str(state))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        old = {us.join("10.0.2.2", MEGA, stays=True): MEGA for _ in range(2)}
        wait_for_rates(us, old)
        slbnd.end(signal.SIGKILL)
    state.write_bytes(change(state.read_bytes()))
    with (
        (tmp_path / "log").open("w+") as log,
        agent(net.nodes[0], tmp_path, *options, stderr=log) as slbnd,
        slbnd.connect() as us,
    ):
        assert logged in (tmp_path / "log").read_text()
        new = us.join("10.0.2.2", 3 * MEGA, stays=True)
        wait_for_rates(us, {new: 3 * MEGA})
        wait_for(lambda: net.state(1).sessions == 1)
        slbnd.end(signal.SIGKILL)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, {new: 3 * MEGA})


def test_half_of_the_state(net: Chain, tmp_path: Path) -> None:
    """The records that a truncated file still has continue."""
    state = tmp_path / "state"
    options = ("--state", str(state))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        sessions = [us.join("10.0.2.2", MEGA, stays=True) for _ in range(3)]
        wait_for_rates(us, dict.fromkeys(sessions, MEGA))
        slbnd.end(signal.SIGKILL)
    state.write_bytes(truncated(1.5)(state.read_bytes()))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        kept = rates(us)
        assert len(kept) == 1 and kept.keys() <= set(sessions)
        new = us.join("10.0.2.2", 2 * MEGA, stays=True)
        wait_for_rates(us, dict.fromkeys(kept, MEGA) | {new: 2 * MEGA})
        slbnd.end(signal.SIGKILL)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, dict.fromkeys(kept, MEGA) | {new: 2 * MEGA})


def is_attached(net: Chain) -> bool:
    shown = net.nodes[0].sh("tc filter show dev e0 egress", check=False)
    return "slbnd_rates" in shown.stdout


@restarts
def test_sessions_continue(net: Chain, tmp_path: Path, number: int) -> None:
    """Links do not count them as new; those of disconnected clients leave."""
    options = ("--state", str(tmp_path / "state"))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        stays = us.join("10.0.2.2", 30 * MEGA, stays=True)
        heavy = us.join("10.0.2.2", 10 * MEGA, weight=3, stays=True)
        ended = [us.join("10.0.2.2", MEGA) for _ in range(3)]
        wait_for_rates(us, {stays: 30 * MEGA, heavy: 10 * MEGA, **dict.fromkeys(ended, MEGA)})
        before = net.shown(1)
        (cycles,) = (session.cycles for session in us.list() if session.id == stays)
        slbnd.end(number)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        assert rates(us)[stays] == 30 * MEGA
        wait_for_rates(us, {stays: 30 * MEGA, heavy: 10 * MEGA})
        kept = {session.id: session for session in us.list()}
        assert (kept[heavy].weight, kept[heavy].demand) == (3, 10 * MEGA)
        wait_for(lambda: us.list()[0].cycles > cycles + 8)
        after = net.shown(1)
        assert after["new_sessions"] == before["new_sessions"]
        assert (after["leaves"] - before["leaves"], after["sessions"]) == (3, 4)
        # They are like others: rates follow, users may change them.
        us.change(stays, 50 * MEGA)
        wait_for_rates(us, {stays: 40 * MEGA, heavy: 10 * MEGA})
        new = us.join("10.0.2.2", MEGA)
        wait_for_rates(us, {stays: 39 * MEGA, heavy: 10 * MEGA, new: MEGA})
        us.leave(heavy)
        wait_for_rates(us, {stays: 49 * MEGA, new: MEGA})
        slbnd.end()
    assert not (tmp_path / "state").exists()


def test_forgotten_sessions_join_again(net: Chain, tmp_path: Path) -> None:
    """After two epochs links do not count a session anymore: it gets a new ID."""
    options = ("--state", str(tmp_path / "state"))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        stays = us.join("10.0.2.2", 30 * MEGA, stays=True)
        us.join("10.0.2.2", 10 * MEGA)
        wait_for(lambda: sum(rates(us).values()) == 40 * MEGA)
        slbnd.end(signal.SIGKILL)
    time.sleep(2.5)
    joins, leaves = (net.shown(1)[name] for name in ("joins", "leaves"))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for(lambda: list(rates(us).values()) == [30 * MEGA])
        assert set(rates(us)) != {stays}
        shown = net.shown(1)
        assert (shown["joins"] - joins, shown["leaves"] - leaves) == (1, 0)
        assert shown["sessions"] == 1


@pytest.fixture
def long_epochs(net: Chain) -> Iterator[tuple[str, ...]]:
    """Links remember sessions for 20 s and more; the agent's option for that.

    An emulated machine's clock may jump by seconds while a program starts, and links forget
    sessions after two epochs: then they begin anew with other ids, as they should.
    """
    for link in range(3):
        net.tc(link, f"qdisc change dev {net.device(link)} root slbn epoch 20s")
    yield ("--epoch", "20s")
    for link in range(3):
        net.tc(link, f"qdisc change dev {net.device(link)} root slbn epoch 1s")


@pytest.mark.stock
@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.tier("all"))])
def test_killed_at_random_moments(
    net: Chain, tmp_path: Path, long_epochs: tuple[str, ...], kills: int
) -> None:
    """While demands change: no record is damaged, no session is lost or counted twice.

    In virtual time slbnd is killed while it waits, otherwise at any moment.
    """
    chance = random.Random(kills)
    options = ("--state", str(tmp_path / "state"), *long_epochs)
    demands: dict[int, int] = {}
    for _ in range(kills):
        with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
            if not demands:
                demands = {us.join("10.0.2.2", MEGA, stays=True): MEGA for _ in range(4)}
                wait_for_rates(us, demands)
                before = net.shown(1)
            assert set(rates(us)) == set(demands)
            end = time.monotonic() + chance.uniform(0, 0.3)
            while time.monotonic() < end:
                session = chance.choice(list(demands))
                demands[session] = chance.randrange(1, 12) * MEGA
                us.change(session, demands[session])
                time.sleep(0.004)
            slbnd.process.kill()
            slbnd.process.wait(timeout=60)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, demands)
        after = net.shown(1)
        same = ["joins", "sessions", "overuse", "new_sessions"]
        assert {name: after[name] - before[name] for name in same} == dict.fromkeys(same, 0)


def test_stopped_while_packets_are_in_flight(net: Chain, tmp_path: Path) -> None:
    """As in a suspend: that time is no round trip, which retransmissions would wait for."""
    net.nodes[1].sh("tc qdisc add dev w0 root netem delay 300ms")
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        demands = {us.join("10.0.2.2", MEGA): MEGA for _ in range(8)}
        wait_for_rates(us, demands)
        slbnd.process.send_signal(signal.SIGSTOP)
        time.sleep(60)
        slbnd.process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        assert all(session.rtt < 10**9 for session in us.list())
        net.nodes[1].sh("tc qdisc replace dev w0 root netem loss 100%")
        time.sleep(2)
        net.nodes[1].sh("tc qdisc replace dev w0 root netem delay 300ms")
        began = time.monotonic()
        wait_for_rates(us, demands)
        took = time.monotonic() - began
        print(f"rates again after {took:.1f} s")
        assert took < 8


def test_reload_sets_rates_for_another_qdisc(
    net: Chain, tmp_path: Path, long_epochs: tuple[str, ...]
) -> None:
    """At once, not with the next answers."""
    net.tc(0, "qdisc replace dev e0 parent 1:1 htb")
    traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA))
    options = ("--devices", "e0", *long_epochs)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        joined = us.join("10.0.2.2", 10 * MEGA)
        wait_for_rates(us, {joined: 10 * MEGA})
        # Answers take longer than this test.
        net.nodes[1].sh("tc qdisc replace dev w0 root netem delay 2s")
        traffic.run(0.5)
        net.tc(0, "qdisc replace dev e0 parent 1:1 fq")
        slbnd.process.send_signal(signal.SIGHUP)
        traffic.run(0.1)
        (rate,) = traffic.run(0.5)
        assert close_to(rate, 10 * MEGA, 0.03)


def longest_rtts(state: Path) -> list[int]:
    """Of the records of sessions, ns."""
    contents = state.read_bytes()
    size = HEAD.unpack_from(contents)[2]
    places = range(HEAD.size, len(contents) - size + 1, size)
    records = [struct.unpack_from("=4Q", contents, at) for at in places]
    return [longest for check, _, _, longest in records if check]


def margin_of(state: Path, rate: int) -> int:
    """Of a session that has the rate that it demands, per mille."""
    contents = state.read_bytes()
    # Behind them, in struct slbn_source: the lease, three octets and one that is unused.
    at = contents.index(struct.pack("=2Q", rate, rate)) + 28
    return int(struct.unpack_from("=H", contents, at)[0])


def test_reload_changes_margin_of_sessions(net: Chain, tmp_path: Path) -> None:
    file, state = tmp_path / "slbnd.conf", tmp_path / "state"
    file.write_text("lease-margin = 10%\n")
    options = ("--state", str(state), "--config", str(file))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, {us.join("10.0.2.2", 10 * MEGA): 10 * MEGA})
        assert margin_of(state, 10 * MEGA) == 100
        file.write_text("lease-margin = 30%\n")
        slbnd.process.send_signal(signal.SIGHUP)
        wait_for(lambda: margin_of(state, 10 * MEGA) == 300, 10)


@pytest.mark.parametrize("epoch", ["0", "10s"])
def test_links_do_not_keep_lost_sessions(net: Chain, tmp_path: Path, epoch: str) -> None:
    """A restarted slbnd leaves sessions that links still know.

    Without an epoch they never forget one; with a longer one than slbnd's, later.
    """
    for link in range(3):
        net.tc(link, f"qdisc change dev {net.device(link)} root slbn epoch {epoch}")
    options = ("--state", str(tmp_path / "state"))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, {us.join("10.0.2.2", 10 * MEGA): 10 * MEGA})
        slbnd.end(signal.SIGUSR1)
    time.sleep(3)
    assert net.shown(1)["sessions"] == 1
    with agent(net.nodes[0], tmp_path, *options):
        wait_for(lambda: net.shown(1)["sessions"] == 0, 5)


def test_copies_do_not_shorten_the_round_trip(net: Chain, tmp_path: Path) -> None:
    """Cycles without a measured RTT: the timeout may grow, not fall below the round trip."""
    state = tmp_path / "state"
    net.nodes[1].sh("tc qdisc add dev w0 root netem delay 450ms")
    with agent(net.nodes[0], tmp_path, "--state", str(state)) as slbnd, slbnd.connect() as us:
        demands = {us.join("10.0.2.2", MEGA): MEGA for _ in range(8)}
        wait_for_rates(us, demands)
        net.nodes[1].sh("tc qdisc replace dev w0 root netem delay 450ms loss 60%")
        for _ in range(20):
            time.sleep(1)
            seen = longest_rtts(state)
            assert len(seen) == 8 and min(seen) >= 450_000_000, seen


@pytest.mark.parametrize("epoch", ["1s", pytest.param("0", marks=pytest.mark.tier("all"))])
def test_flows_of_lost_sessions_end_with_their_lease(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], epoch: str
) -> None:
    """Without the state, a pinned rate has no session, and the router's packets pass unlimited.

    With epoch 0, leases do not end.
    """
    for link in range(3):
        net.tc(link, f"qdisc change dev {net.device(link)} root slbn epoch {epoch}")
    traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA))
    traffic.settle()
    options = ("--devices", "e0", "--unassigned", "2mbit", *kept)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        joined = us.join("10.0.2.2", 10 * MEGA)
        wait_for_rates(us, {joined: 10 * MEGA})
        traffic.run(0.5)
        slbnd.end(signal.SIGKILL)
    os.truncate(tmp_path / "state", 0)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        assert us.list() == []
        if epoch != "0":
            # Until its lease ends, links have reserved the rate.
            (rate,) = traffic.run(0.2)
            assert close_to(rate, 10 * MEGA, 0.1)
        traffic.run(2)
        (rate,) = traffic.run(1)
        assert close_to(rate, 20 * MEGA, 0.02)
        # A new session of the flow is limited.
        joined = us.join("10.0.2.2", 5 * MEGA)
        wait_for_rates(us, {joined: 5 * MEGA})
        traffic.run(0.5)
        traffic.check_rates(5 * MEGA)


def test_failed_start_keeps_the_state(net: Chain, tmp_path: Path) -> None:
    """Also without pins: the sessions have not left."""
    state = tmp_path / "state"
    options = ("--state", str(state))
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        stays = us.join("10.0.2.2", 10 * MEGA, stays=True)
        wait_for_rates(us, {stays: 10 * MEGA})
        slbnd.end(signal.SIGUSR1)
    nowhere = tmp_path / "missing" / "socket"
    with net.nodes[0].entered():
        done = sh(f"{SLBND} --socket {nowhere} --state {state} 2>&1", check=False)
    assert done.returncode == 1 and f"{nowhere}: No such file" in done.stdout
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for_rates(us, {stays: 10 * MEGA})


def test_stop_leaves_default_class(net: Chain, tmp_path: Path, kept: tuple[str, ...]) -> None:
    """Sessions leave; the program remains until an slbnd starts without the device."""
    options = ("--devices", "e0", *kept)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        stays = us.join("10.0.2.2", 10 * MEGA, stays=True)
        wait_for_rates(us, {stays: 10 * MEGA})
        slbnd.end(signal.SIGTERM)
    assert net.shown(1)["sessions"] == 0
    assert not (tmp_path / "state").exists() and not (tmp_path / "bpf" / "slbnd").exists()
    assert is_attached(net)
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        assert not us.list() and not is_attached(net)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGUSR1, marks=pytest.mark.tier("all"))]
)
def test_upgrade_keeps_rates(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], number: int
) -> None:
    """No packet is sent above its rate, and no link counts a session twice."""
    flood = sender(net, 0, 3, udp=20 * MEGA)
    traffic = Traffic(flood)
    traffic.settle()
    samples: list[tuple[float, int, float]] = []

    def sample() -> tuple[float, int, float]:
        """Received octets, with the times before and after they were read."""
        before, (octets, _) = time.monotonic(), received(net.nodes[1], "w0")
        return before, octets, time.monotonic()

    def run(periods: int) -> float:
        """Send, and return the rate [bit/s] on the wire."""
        then, first, _ = sample()
        for _ in range(periods):
            traffic.run(0.05)
            samples.append(sample())
        now, last, _ = samples[-1]
        return (last - first) * 8 / (now - then)

    options = ("--devices", "e0", "--unassigned", "2mbit", *kept)
    for restart in range(2):
        with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
            if not restart:
                joined = us.join("10.0.2.2", 10 * MEGA, stays=True)
                wait_for_rates(us, {joined: 10 * MEGA})
                # Packets that were sent before it arrive.
                run(10)
                samples.clear()
                before = net.shown(1)
            assert close_to(run(20), 10 * MEGA, 0.03)
            assert rates(us) == {joined: 10 * MEGA}
            after = net.shown(1)
            # So it was never counted twice.
            assert (after["sessions"], after["new_sessions"]) == (1, before["new_sessions"])
            slbnd.end(number)
        # The program paces the flow until the lease ends.
        assert close_to(run(8), 10 * MEGA, 0.05)
    for (then, first, _), (_, last, now) in itertools.pairwise(samples):
        # A burst of 2 ms, and control packets.
        assert (last - first) * 8 < 10 * MEGA * (1.02 * (now - then) + 0.002) + 2 * 12112
    with agent(net.nodes[0], tmp_path, *options) as slbnd:
        slbnd.end(signal.SIGINT)
    assert not is_attached(net)
    assert not (tmp_path / "state").exists() and not (tmp_path / "bpf" / "slbnd").exists()


def test_other_table_of_connections(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """A pinned table of another size is replaced, with a message; flows and rates remain."""
    for size, replaced in (("1024", False), ("1024", False), ("2048", True), ("2048", False)):
        options = ("--devices", "e0", "--connections", size, *kept)
        with agent(net.nodes[0], tmp_path, *options) as slbnd:
            slbnd.end(signal.SIGUSR1)
        said = capfd.readouterr().err
        assert ("connections are counted anew" in said) == replaced
        assert "flows have no rate" not in said


@pytest.mark.parametrize(
    ("shares", "number"),
    [
        ("flow", signal.SIGKILL),
        pytest.param("host", signal.SIGUSR1, marks=pytest.mark.tier("all")),
    ],
)
def test_detected_flows_continue(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], shares: str, number: int
) -> None:
    """With their sessions, if their connections still exist."""
    sh("modprobe nf_conntrack")
    # Longer than an entry is not refreshed, a second.
    with net.nodes[0].entered():
        Path("/proc/sys/net/netfilter/nf_conntrack_udp_timeout").write_text("2")
    flood = [sender(net, 0, 3, udp=5 * MEGA) for _ in range(3)]
    traffic = Traffic(*flood)
    traffic.settle()
    options = ("--devices", "e0", "--hosts", "10.0.0.1/32", "--sessions", shares, *kept)

    def detected(us: libslbn.Connection) -> dict[int, int]:
        wanted = libslbn.DETECTED | libslbn.LEAVING
        return {
            session.id: session.weight
            for session in us.list()
            if session.flags & wanted == libslbn.DETECTED
        }

    sessions = 3 if shares == "flow" else 1
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        wait_for(lambda: bool(traffic.run(0.2)) and len(detected(us)) == sessions)
        traffic.run(1)
        before, shown = detected(us), net.shown(1)
        # One connection ends: conntrack forgets it while no slbnd runs.
        flood[0].abort()
        traffic.senders = traffic.senders[1:]
        traffic.run(1.9)
        slbnd.end(number)
    traffic.run(0.3)
    with agent(net.nodes[0], tmp_path, *options) as slbnd, slbnd.connect() as us:
        remain = 2 if shares == "flow" else 1
        wait_for(lambda: bool(traffic.run(0.1)) and len(us.list()) == remain)
        # Links count weights.
        total = sum(detected(us).values())
        wait_for(lambda: bool(traffic.run(0.1)) and net.state(1).sessions == total)
        assert detected(us).items() <= before.items()
        assert net.shown(1)["new_sessions"] == shown["new_sessions"]
        slbnd.end()


@pytest.mark.parametrize(
    ("owner", "mode"),
    [(1, 0o700), pytest.param(0, 0o770, marks=pytest.mark.tier("all")), (0, 0o707)],
)
def test_pins_of_others_are_refused(
    net: Chain,
    tmp_path: Path,
    kept: tuple[str, ...],
    capfd: pytest.CaptureFixture[str],
    owner: int,
    mode: int,
) -> None:
    """Other users could replace the maps: slbnd works without pins."""
    pins = Path(kept[3])
    pins.mkdir()
    pins.chmod(mode)
    os.chown(pins, owner, 0)
    with agent(net.nodes[0], tmp_path, "--devices", "e0", *kept) as slbnd:
        error = f"pins: {pins}: it must be a directory of mode 700, owned by slbnd's user"
        assert error in capfd.readouterr().err
        wait_for(lambda: is_attached(net))
        assert not list(pins.iterdir())
        slbnd.end()
    assert pins.is_dir()


def test_slbnd_of_another_namespace_on_the_same_device(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """By a macvlan, with the same options: neither uses the rates or the state of the other."""
    first = net.nodes[0]
    traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA))
    traffic.settle()

    def check_rate() -> None:
        # What waited meanwhile is read first.
        traffic.run(0.5)
        traffic.check_rates(10 * MEGA)

    options = ("--devices", "e0", "--unassigned", "2mbit", *kept)
    with (
        agent(first, tmp_path, *options) as slbnd,
        slbnd.connect() as us,
        namespace() as other,
    ):
        first.ip("link add m0 link e0 type macvlan mode bridge")
        first.ip(f"link set m0 netns {other.name}")
        other.sh("ip link set m0 name e0")
        other.ip(
            "addr add 10.0.0.9/24 dev e0",
            "link set e0 up",
            "route add default via 10.0.0.2",
        )
        other.tc("qdisc add dev e0 root fq")
        joined = us.join("10.0.2.2", 10 * MEGA, stays=True)
        wait_for_rates(us, {joined: 10 * MEGA})
        with agent(other, tmp_path, *options) as second, second.connect() as them:
            messages = capfd.readouterr().err
            for what in (f"state: {kept[1]}", f"pins: {kept[3]}"):
                assert f"{what}: another slbnd uses it" in messages
            mine = them.join("10.0.2.2", 5 * MEGA)
            check_rate()
            assert rates(us) == {joined: 10 * MEGA} and list(rates(them)) == [mine]
            second.end()
        check_rate()
        slbnd.end(signal.SIGKILL)
    # Its own state is still there.
    with agent(first, tmp_path, *options) as slbnd, slbnd.connect() as us:
        assert rates(us) == {joined: 10 * MEGA}
        check_rate()
