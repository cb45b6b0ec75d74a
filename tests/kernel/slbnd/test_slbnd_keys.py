# SPDX-License-Identifier: GPL-2.0
"""Keys of agents: replaced while sessions run, after restarts, and packets that are not authentic.

The keys of links and agents are changed by `slbnctl key`, on each router.
"""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import launch
from tests.kernel.lib.domain import Domain, Plan, domain
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.senders import Traffic, sender
from tests.kernel.lib.slbn import MEGA, Chain, chain, key_option
from tests.kernel.lib.slbn_wire import PORT, Packet, now
from tests.kernel.lib.slbnd import SLBNCTL, SLBND, Agent, agent
from tests.kernel.slbnd.test_slbnd import joining, local, rates, wait_for_rates
from tests.kernel.slbnd.test_slbnd_faults import LINKS, PLAN, initial_sessions

pytestmark = pytest.mark.virtual

#: By number.
KEYS = {number: bytes(range(number, number + 16)) for number in range(16)}
#: Counters of packets that are dropped for their authentication.
COUNTERS = ("bad_key", "unknown_key", "bad_time")


def key_file(where: Path, *numbers: int) -> Path:
    """A key file of slbnd."""
    file = where / "keys"
    file.write_text("".join(f"{number} {KEYS[number].hex()}\n" for number in numbers))
    return file


def key(
    node: Namespace, arguments: str, slbnd: Agent | None = None, secret: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `slbnctl key` on a router, with a key as standard input."""
    path = slbnd.socket if slbnd else "/nonexistent"
    command = [str(SLBNCTL), "-j", "-s", path, "key", *arguments.split()]
    given = "" if secret is None else KEYS[secret].hex()
    with node.entered():
        return launch.run(command, input=given, timeout=60)


def numbers(node: Namespace, slbnd: Agent | None = None) -> dict[str, list[int]]:
    """The numbers of the keys, by device; those of the agent by its name."""
    shown = json.loads(key(node, "show", slbnd).stdout)
    return {each.get("dev") or each["agent"]: each["keys"] for each in shown}


def dropped(slbnd: Agent) -> dict[str, int]:
    """Packets that an agent dropped for their authentication."""
    with slbnd.connect() as us:
        status = us.status()
    return {name: getattr(status, name) for name in COUNTERS}


def rotate(
    routers: Mapping[str, Namespace],
    agents: Mapping[str, Agent],
    old: int,
    new: int,
    pause: Callable[[], object],
) -> None:
    """Replace a key by another one on all routers, as the manual says."""

    def run(arguments: str, secret: int | None = None) -> None:
        for name, node in routers.items():
            done = key(node, arguments, agents.get(name), secret)
            assert done.returncode == 0, (name, done.stderr)

    run(f"add {new} - accept", new)
    run(f"add {new} -", new)
    pause()
    run(f"retire {old}")


#: How often the tests replace the key, and with how many sessions at a time.
ROUNDS, SESSIONS = 3, 100


def paced(rounds: int, run: Callable[[int], None]) -> None:
    """Call RUN once per second, or as often as it can be called."""
    began = time.monotonic()
    for number in range(rounds):
        run(number)
        time.sleep(max(0, began + number + 1 - time.monotonic()))


@pytest.fixture
def net() -> Iterator[Chain]:
    """Links with key 0; the last router has an agent, too."""
    with chain(3) as made:
        for link, rate in enumerate((100, 50, 80)):
            made.attach(link, f"rate {rate}mbit headroom 0 {key_option(KEYS[0])}")
        yield made


@pytest.mark.tier("all")
def test_keys_replaced_each_second_under_traffic(net: Chain, tmp_path: Path) -> None:
    """On a chain with data: no packet is dropped for its key, and rates do not change."""
    file = str(key_file(tmp_path, 0))
    routers = {str(n): node for n, node in enumerate(net.nodes)}
    with (
        agent(net.nodes[0], tmp_path, "--key-file", file) as near,
        agent(net.nodes[3], tmp_path, "--key-file", file) as far,
        near.connect() as us,
    ):
        traffic = Traffic(sender(net, 0, 3, udp=20 * MEGA), sender(net, 0, 3, six=True))
        traffic.settle()
        sessions = [us.join(there) for there in ("10.0.2.2", "fd00:2::2", "10.0.2.2")]
        modest = us.join("10.0.2.2", 5 * MEGA)
        expected = {**dict.fromkeys(sessions, 15 * MEGA), modest: 5 * MEGA}
        wait_for_rates(us, expected)

        def retries() -> int:
            return sum(session.retries for session in us.list())

        def run(number: int) -> None:
            rotate(routers, agents, number, number + 1, lambda: traffic.run(0.2))
            assert {session.id: session.rate for session in us.list()} == pytest.approx(
                expected, abs=64
            )

        agents = {"0": near, "3": far}
        first = retries()
        # The same commands, which change nothing.
        paced(ROUNDS, lambda _: rotate(routers, agents, 15, 0, lambda: traffic.run(0.2)))
        before = retries()
        cycles = {session.id: session.cycles for session in us.list()}
        paced(ROUNDS, run)
        assert all(session.cycles > cycles[session.id] + 20 for session in us.list())
        assert numbers(net.nodes[0], near) == {"e0": [ROUNDS], "slbnd": [ROUNDS]}
        assert numbers(net.nodes[2]) == {"e2": [ROUNDS]}
        assert numbers(net.nodes[3], far) == {"slbnd": [ROUNDS]}
        for link in range(3):
            assert {name: net.shown(link)[name] for name in COUNTERS} == dict.fromkeys(COUNTERS, 0)
        for slbnd in near, far:
            assert dropped(slbnd) == dict.fromkeys(COUNTERS, 0)
        print(f"retransmitted: {before - first} without, {retries() - before} with new keys")
        assert retries() - before <= before - first
        for each in traffic.senders:
            each.abort()


@pytest.mark.tier("all")
def test_replaced_key_is_read_from_files(net: Chain, tmp_path: Path) -> None:
    """As docs/operating.md says: then a link and an agent are made anew."""
    routers = {str(n): node for n, node in enumerate(net.nodes)}
    file = key_file(tmp_path, 0)
    new = tmp_path / "key.1"
    new.write_text(f"1 {KEYS[1].hex()}\n")
    new.chmod(0o600)
    with (
        agent(net.nodes[0], tmp_path, "--key-file", str(file)) as near,
        agent(net.nodes[3], tmp_path, "--key-file", str(file)) as far,
        near.connect() as us,
    ):
        expected = {us.join("10.0.2.2"): 25 * MEGA, us.join("fd00:2::2"): 25 * MEGA}
        wait_for_rates(us, expected)
        rotate(routers, {"0": near, "3": far}, 0, 1, lambda: time.sleep(0.2))
        net.tc(1, f"qdisc del dev {net.device(1)} root")
        net.attach(1, f"rate 50mbit headroom 0 key file {new}")
        assert numbers(net.nodes[1]) == {"e1": [1]}
        assert far.end() == 0
        with agent(net.nodes[3], tmp_path, "--key-file", str(new)) as again:
            wait_for(lambda: us.status().cycles > 0 and rates(us) == expected)
            cycles = us.status().cycles
            wait_for(lambda: us.status().cycles > cycles + 20)
            assert rates(us) == expected
            for slbnd in near, again:
                assert dropped(slbnd) == dict.fromkeys(COUNTERS, 0)
        for link in range(3):
            assert {name: net.shown(link)[name] for name in COUNTERS} == dict.fromkeys(COUNTERS, 0)


def test_keys_replaced_under_load(net: Chain, tmp_path: Path) -> None:
    """With many sessions: no rate is lost, and no packet is dropped or lost."""
    for link, rate in enumerate((100, 50, 80)):
        net.attach(link, f"rate {rate}mbit headroom 0 control 50% {key_option(KEYS[0])}")
    file = str(key_file(tmp_path, 0))
    routers = {str(n): node for n, node in enumerate(net.nodes)}
    with (
        agent(net.nodes[0], tmp_path, "--key-file", file) as near,
        agent(net.nodes[3], tmp_path, "--key-file", file) as far,
        near.connect() as us,
    ):
        sessions = [
            us.join(("10.0.2.2", "fd00:2::2")[number % 2], MEGA // 10) for number in range(SESSIONS)
        ]
        expected = dict.fromkeys(sessions, MEGA // 10)
        wait_for_rates(us, expected)
        # Of so many Joins at once, links drop some.
        limited = [net.shown(link)["rate_limited"] for link in range(3)]
        before = us.status()

        def watch() -> None:
            """For two packets of each session."""
            for _ in range(20):
                time.sleep(0.05)
                assert rates(us) == expected

        for number in range(ROUNDS):
            rotate(routers, {"0": near, "3": far}, number, number + 1, watch)
            watch()
        after = us.status()
        print(f"{after.sent - before.sent} packets, {after.retries - before.retries} again")
        assert after.sent - before.sent > SESSIONS * ROUNDS
        assert after.retries == before.retries
        for link in range(3):
            shown = net.shown(link)
            assert {name: shown[name] for name in COUNTERS} == dict.fromkeys(COUNTERS, 0)
            assert shown["rate_limited"] == limited[link]
        assert dropped(near) == dropped(far) == dict.fromkeys(COUNTERS, 0)


@pytest.mark.parametrize("step", [3600, pytest.param(-3600, marks=pytest.mark.tier("all"))])
def test_clock_is_set(net: Chain, tmp_path: Path, step: int) -> None:
    """By an hour, everywhere: only packets on their way are dropped, and rates stay."""
    file = str(key_file(tmp_path, 0))
    with (
        agent(net.nodes[0], tmp_path, "--key-file", file) as slbnd,
        agent(net.nodes[3], tmp_path, "--key-file", file) as far,
        slbnd.connect() as us,
    ):
        expected = {us.join("10.0.2.2"): 25 * MEGA, us.join("fd00:2::2"): 25 * MEGA}
        wait_for_rates(us, expected)
        time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
        try:
            cycles = us.status().cycles
            for _ in range(30):
                time.sleep(0.05)
                assert rates(us) == expected
            assert us.status().cycles > cycles + 50
        finally:
            time.clock_settime(time.CLOCK_REALTIME, time.time() - step)
        wait_for_rates(us, expected)
        lost = sum(net.shown(link)["bad_time"] for link in range(3))
        lost += sum(dropped(each)["bad_time"] for each in (slbnd, far))
        # One of each session, at each change of the clock.
        assert lost <= 4


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """The domain of test_slbnd_faults.py, with a key: agents answer each other, and an edge."""
    directory = tmp_path_factory.mktemp("keys")
    options = ("--key-file", str(key_file(directory, 0)))
    plan = Plan(
        LINKS,
        PLAN.agents,
        PLAN.hosts,
        PLAN.lengths,
        keys=dict.fromkeys(LINKS, KEYS[0]),
        options=dict.fromkeys(PLAN.agents, options),
    )
    with domain(plan, directory) as made:
        made.join(*initial_sessions())
        made.settle()
        yield made


@pytest.mark.tier("all")
def test_keys_replaced_in_domain(backbone: Domain) -> None:
    """Rates stay at the max-min reference while all routers replace the key five times."""
    net = backbone
    routers = {name: net.nodes[name] for name in net.plan.nodes if name not in net.plan.hosts}
    reference = net.reference()

    def run(number: int) -> None:
        rotate(routers, net.agents, number, number + 1, lambda: time.sleep(0.2))
        assert not net.errors(reference)

    def retries() -> int:
        return sum(state.retries for state in net.reported().values())

    first = retries()
    # The same commands, which change nothing.
    paced(5, lambda _: rotate(routers, net.agents, 15, 0, lambda: time.sleep(0.2)))
    before = retries()
    paced(5, run)
    for link, state in net.states().items():
        assert {name: getattr(state, name) for name in COUNTERS} == dict.fromkeys(COUNTERS, 0), link
    for slbnd in net.agents.values():
        assert dropped(slbnd) == dict.fromkeys(COUNTERS, 0)
    print(f"retransmitted: {before - first} without, {retries() - before} with new keys")
    assert retries() - before <= before - first
    net.settle()


def test_packets_that_are_not_authentic_are_counted(net: Chain, tmp_path: Path) -> None:
    """By their reason; the status names clocks that differ."""
    file = str(key_file(tmp_path, 0, 1))
    key(net.nodes[0], "add 1 -", secret=1)
    with joining(net, tmp_path, "--key-file", file) as session:
        reply = session.reply(options=b"", key=KEYS[1], key_id=1)

        def send(packet: Packet) -> None:
            session.answer(local(packet, PORT))

        def counted(**expected: int) -> Callable[[], bool]:
            return lambda: dropped(session.slbnd) == dict.fromkeys(COUNTERS, 0) | expected

        # Copies for other addresses have another hash.
        copied = replace(reply, bw=661).pack(socket.inet_aton("10.0.2.3") * 2)
        session.answer(local(copied, PORT))
        send(replace(reply, bw=662, key=None))
        send(replace(reply, bw=663, key=KEYS[0]))
        wait_for(counted(bad_key=3))
        send(replace(reply, bw=664, key_id=2))
        send(replace(reply, bw=664, key=KEYS[2], key_id=2))
        wait_for(counted(bad_key=3, unknown_key=2))
        with session.slbnd.connect() as us:
            for difference in (11, 3600, -3600):
                send(replace(reply, bw=665, time=now() - difference))

                def is_shown(difference: int = difference) -> bool:
                    return abs(us.status().clock_difference - difference) < 2

                wait_for(is_shown)
            assert counted(bad_key=3, unknown_key=2, bad_time=3)()
            assert us.status().keys == (0, 1) and us.status().sessions == 1
        assert session.rate() == 0
        text = session.slbnd.slbnctl("status").stdout
        assert text.startswith("sessions 1 clients 2 silent 0 keys 0,1 detection off")
        assert " bad_key 3 unknown_key 2 bad_time 3 bad_return 0\n" in text
        assert "slbnd does not have a key that other routers use\n" in text
        assert "s in the future: wrong clocks, or a replay\n" in text
        shown = launch.answer(session.slbnd.slbnctl("--json", "status"))
        assert (shown["keys"], shown["bad_time"]) == ([0, 1], 3)
        assert shown["clock_difference"] == pytest.approx(-3600, abs=2)
        # Both keys are accepted, and times of clocks that differ a little.
        for cycle, difference in enumerate((8, -8)):
            accepted = replace(reply, seq=reply.seq + cycle, key=KEYS[cycle], key_id=cycle)

            def answered(
                cycle: int = cycle, difference: int = difference, accepted: Packet = accepted
            ) -> bool:
                # Packets have slots for the path, of one hop, and two more; the first one all.
                for slots in (3, 32):
                    send(replace(accepted, bw=777, slots=slots, time=now() - difference))
                return session.us.list()[0].cycles == cycle + 1

            wait_for(answered)
        assert counted(bad_key=3, unknown_key=2, bad_time=3)()


def test_status_without_keys(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd:
        text = slbnd.slbnctl("status").stdout
        assert "keys none" in text and "bad_key 0 unknown_key 0 bad_time 0 bad_return 0\n" in text
        shown = launch.answer(slbnd.slbnctl("--json", "status"))
        assert shown["keys"] == [] and not any(shown[name] for name in COUNTERS)
        assert numbers(net.nodes[0], slbnd) == {"e0": [0], "slbnd": []}


def refused(done: subprocess.CompletedProcess[str], *lines: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"slbnctl: {line}" for line in lines]


def test_refused_changes(net: Chain, tmp_path: Path) -> None:
    """The last key, a third one, and another one of the same number."""
    node = net.nodes[0]
    file = str(key_file(tmp_path, 0))
    with agent(node, tmp_path, "--key-file", file) as slbnd, slbnd.connect() as us:
        only = "there is no other key: add the next one first"
        refused(key(node, "retire 0", slbnd), f"e0: {only}", f"slbnd: {only}")
        assert numbers(node, slbnd) == {"e0": [0], "slbnd": [0]}
        # Retired already, or never there.
        assert key(node, "retire 9", slbnd).returncode == 0
        for _ in range(2):
            assert key(node, "add 1 -", slbnd, 1).returncode == 0
        assert numbers(node, slbnd) == {"e0": [0, 1], "slbnd": [0, 1]}
        third = "there are two keys already, 0 and 1: retire one first"
        refused(key(node, "add 2 -", slbnd, 2), f"e0: {third}", f"slbnd: {third}")
        refused(
            key(node, "add 1 -", slbnd, 3),
            "e0: sch_slbn: another key has this number: choose another",
            "key add 1 is not done at e0, slbnd; run it again to complete it",
        )
        # The agent signs with the last one.
        assert key(node, "add 0 - accept", slbnd, 0).returncode == 0
        assert us.status().keys == (0, 1)
        assert key(node, "add 0 -", slbnd, 0).returncode == 0
        assert us.status().keys == (1, 0)
        assert key(node, "retire 1 agent", slbnd).returncode == 0
        assert numbers(node, slbnd) == {"e0": [0, 1], "slbnd": [0]}
        assert key(node, "retire 1 dev e0", slbnd).returncode == 0
        assert numbers(node, slbnd) == {"e0": [0], "slbnd": [0]}
        assert key(node, "add 7 - accept agent", slbnd, 7).returncode == 0
        assert us.status().keys == (7, 0)
        for number, error in ((7, errno.EEXIST), (8, errno.ENOSPC)):
            with pytest.raises(OSError) as raised:
                us.add_key(number, KEYS[8])
            assert raised.value.errno == error
        us.retire_key(7)
        for number, error in ((7, errno.ENOENT), (0, errno.EBUSY)):
            with pytest.raises(OSError) as raised:
                us.retire_key(number)
            assert raised.value.errno == error
    refused(
        key(net.nodes[3], "add 1 -", None, 1),
        "there are no SLBN links in this network namespace, and slbnd is not running",
    )
    refused(key(node, "add 1 - dev lo", None, 1), "lo: the device has no slbn qdisc: add one first")
    # Without an agent, only the links.
    assert key(node, "add 1 -", None, 1).returncode == 0
    assert numbers(node) == {"e0": [0, 1]}


def test_only_root_changes_keys(net: Chain, tmp_path: Path) -> None:
    drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    options = ("--group", "nogroup", "--key-file", str(key_file(tmp_path, 0, 1)))
    with agent(net.nodes[0], tmp_path, *options) as slbnd:
        for parent in (tmp_path, *tmp_path.parents[:-1]):
            parent.chmod(parent.stat().st_mode | 0o055)
        for arguments in ("add 1 - agent", "retire 0 agent"):
            words, secret = ("key", *arguments.split()), KEYS[1].hex()
            done = slbnd.slbnctl(*words, prefix=drop, given=secret, check=False)
            assert done.returncode == 1
            assert done.stderr.startswith("slbnctl: slbnd: only root may change keys\n")
        assert numbers(net.nodes[0], slbnd)["slbnd"] == [0, 1]
        # They may read the numbers.
        shown = slbnd.slbnctl("key", "show", prefix=drop).stdout
        assert "slbnd: keys 0,1\n" in shown


def test_restart_and_reload_keep_both_keys(net: Chain, tmp_path: Path) -> None:
    """The file has them; a reload replaces the keys by those of the file."""
    for link in range(3):
        assert key(net.nodes[link], f"add 1 - dev e{link}", secret=1).returncode == 0
    net.attach(2, "rate 80mbit headroom 0 edge")
    file = key_file(tmp_path, 0, 1)
    with agent(net.nodes[0], tmp_path, "--key-file", str(file)) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        wait_for_rates(us, {session: 50 * MEGA})
        assert us.status().keys == (0, 1)
        for link in range(3):
            assert key(net.nodes[link], f"retire 0 dev e{link}").returncode == 0
        key_file(tmp_path, 1, 2)
        slbnd.process.send_signal(signal.SIGHUP)
        wait_for(lambda: us.status().keys == (1, 2))
        # The links do not have the key that is used now.
        wait_for(lambda: net.state(0).unknown_key > 0)
        file.write_text(f"1 {KEYS[1].hex()}\n1 {KEYS[2].hex()}\n")
        slbnd.process.send_signal(signal.SIGHUP)
        key_file(tmp_path, 1)
        slbnd.process.send_signal(signal.SIGHUP)
        wait_for(lambda: us.status().keys == (1,))
        wait_for_rates(us, {session: 50 * MEGA})


def test_source_address_changes(net: Chain, tmp_path: Path) -> None:
    """The agent authenticates the address that its packets have."""
    node, file = net.nodes[0], str(key_file(tmp_path, 0))
    net.attach(2, "rate 80mbit headroom 0 edge")
    via = "10.0.2.0/24 via 10.0.0.2"
    node.ip("addr add 10.0.0.8/32 dev e0", f"route replace {via} src 10.0.0.8")
    with agent(node, tmp_path, "--key-file", file) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        wait_for_rates(us, {session: 50 * MEGA})
        for old, new in ((8, 9), (9, 8), (8, 9)):
            cycles = us.list()[0].cycles + 20
            node.ip(
                f"addr add 10.0.0.{new}/32 dev e0",
                f"route replace {via} src 10.0.0.{new}",
                f"addr del 10.0.0.{old}/32 dev e0",
            )

            def has_answers(cycles: int = cycles) -> bool:
                return us.list()[0].cycles > cycles

            wait_for(has_answers)
            wait_for_rates(us, {session: 50 * MEGA})
        assert dropped(slbnd) == dict.fromkeys(COUNTERS, 0)
        assert net.shown(0)["bad_key"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        KEYS[0].hex()[1:],
        f"256 {KEYS[0].hex()}",
        f"-1 {KEYS[0].hex()}",
        f"1 {KEYS[0].hex()} 2",
        f"1\n{KEYS[0].hex()}",
        f"1 {KEYS[0].hex()}\n1 {KEYS[1].hex()}",
        "".join(f"{number} {KEYS[number].hex()}\n" for number in range(3)),
        f"1 {' ' * 300}{KEYS[0].hex()}",
    ],
)
def test_invalid_key_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    command = [str(SLBND), "--config", "/dev/null", "--key-file", str(file)]
    done = launch.run(command, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        "slbnd: --key-file: must be a file with one or two lines "
        '"[0 to 255] 32 hexadecimal digits", or none\n'
    )
    assert all(KEYS[n].hex() not in done.stderr for n in KEYS)


def test_missing_key_file(tmp_path: Path) -> None:
    command = [str(SLBND), "--config", "/dev/null", "--key-file", str(tmp_path / "keys")]
    done = launch.run(command, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "slbnd: --key-file: No such file or directory\n"
