# SPDX-License-Identifier: GPL-2.0
"""slbnd, the agent of an access router, on real links: Join, Leave, Change, Rate, and what goes
wrong.

Programs speak to it by libslbn (through its binding for Python), people by slbnctl.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import pty
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.net import sh, wait_for
from tests.kernel.slbn import MEGA, Chain, chain
from tests.kernel.slbn_tap import Tap, close
from tests.kernel.slbn_wire import PORT, Datagram, Packet, read_packet, read_udp
from tests.kernel.slbnd import SLBNCTL, SLBND, agent, libslbn

KEY = "000102030405060708090a0b0c0d0e0f"


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(3) as made:
        made.attach(0, "rate 100mbit")
        made.attach(1, "rate 50mbit")
        made.attach(2, "rate 80mbit edge")
        yield made


def rates(connection: libslbn.Connection) -> dict[int, int]:
    return {session.id: session.rate for session in connection.list()}


def come_to(connection: libslbn.Connection, expected: dict[int, int], within: int = 64) -> None:
    """All sessions, and no others, have these rates, but for what divisions leave over."""

    def there() -> bool:
        seen = rates(connection)
        return set(seen) == set(expected) and all(
            abs(seen[number] - rate) <= within for number, rate in expected.items()
        )

    try:
        wait_for(there)
    except AssertionError:
        seen = rates(connection)
        wrong = [(seen.get(n), rate) for n, rate in expected.items() if seen.get(n) != rate]
        raise AssertionError(f"{len(wrong)} of {len(seen)} (is, should be): {wrong[:5]}") from None


@pytest.mark.parametrize("destination", ["10.0.2.2", "fd00:2::2"])
def test_join_change_leave_and_rates(net: Chain, tmp_path: Path, destination: str) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        greedy = [us.join(destination) for _ in range(3)]
        modest = us.join(destination, 5 * MEGA)
        come_to(us, {**dict.fromkeys(greedy, 15 * MEGA), modest: 5 * MEGA})
        us.change(modest, 100 * MEGA)
        come_to(us, dict.fromkeys([*greedy, modest], 50 * MEGA // 4))
        us.change(modest, 8 * MEGA)
        come_to(us, {**dict.fromkeys(greedy, 14 * MEGA), modest: 8 * MEGA})
        us.leave(greedy.pop())
        come_to(us, {**dict.fromkeys(greedy, 21 * MEGA), modest: 8 * MEGA})
        told = {}
        while (event := us.next(0)) is not None:
            told[event.id] = event.rate
        assert {number: rate for number, rate in told.items() if rate} == rates(us)
        session = next(session for session in us.list() if session.id == modest)
        assert (session.hops, session.bottleneck, session.destination) == (3, None, destination)
        assert session.rtt > 0
        assert net.shown(1)["share"] == 21 * MEGA
        assert slbnd.end() == 0
        # Those that leave in order are gone at once, not two epochs later.
        shown = net.shown(1)
        assert (shown["sessions"], shown["leaves"] >= 4) == (0, True)


def test_slbnctl(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd:
        first = slbnd.ctl("join", "10.0.2.2", "protocol", "tcp", "dport", "80").stdout.strip()
        second = slbnd.ctl("join", "10.0.2.2", "demand", "10mbit").stdout.strip()

        def listed() -> dict[str, int]:
            done = subprocess.run(
                [SLBNCTL, "--json", "--socket", slbnd.socket, "session", "list"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            return {session["id"]: session["rate"] for session in json.loads(done.stdout)}

        wait_for(lambda: listed() == {first: 40 * MEGA, second: 10 * MEGA})
        assert f"{first} 10.0.2.2 tcp dport 80 demand unlimited rate 40Mbit" in (
            slbnd.ctl("list").stdout
        )
        slbnd.ctl("change", second, "demand", "20mbit")
        wait_for(lambda: listed() == {first: 30 * MEGA, second: 20 * MEGA})
        slbnd.ctl("leave", first)
        wait_for(lambda: listed() == {second: 20 * MEGA})
        for words, status, says in (
            (("leave", first), 1, "no such session"),
            (("leave", "xyz"), 2, "must be 1 to 16 hexadecimal digits"),
            (("join", "224.0.0.1"), 1, "must be unicast"),
            (("join", "nowhere"), 2, "must be an address"),
            (("join", "10.0.2.2", "source", "fd00::1"), 2, "of the destination's address family"),
            (("join", "10.0.2.2", "demand", "0"), 2, "must be 1bit"),
            (("join", "10.0.2.2", "dport", "80"), 1, "need a protocol"),
        ):
            done = slbnd.ctl(*words, check=False)
            assert (done.returncode, says in done.stderr) == (status, True), done.stderr


def interrupted(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


def come_to_tell(process: subprocess.Popen[str], number: int, rate: int) -> dict[str, Any]:
    """It tells, an object a line, that this session has this rate."""
    assert process.stdout
    told: list[tuple[str, int]] = []
    for line in process.stdout:
        session: dict[str, Any] = json.loads(line)
        told.append((session["id"], session["rate"]))
        if told[-1] == (f"{number:016x}", rate):
            return session
    raise AssertionError(f"{rate} was not told, only {told}")


def test_hold(net: Chain, tmp_path: Path) -> None:
    """It tells the session's rates, and the session ends with it; or it with the session."""
    words = ("session", "join", "10.0.2.2", "demand", "80mbit", "hold")
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        with slbnd.follow(*words) as text, slbnd.follow("-j", *words) as process:
            wait_for(lambda: len(us.list()) == 2)
            first, second = sorted(us.list(), key=lambda session: session.id)
            assert text.stdout
            line = text.stdout.readline()
            ours, other = (first, second) if f"{first.id:016x}" in line else (second, first)
            assert line.startswith(f"{ours.id:016x} 10.0.2.2 demand 80Mbit rate ")
            come_to_tell(process, other.id, 25 * MEGA)
            assert interrupted(text) == 0
            come_to_tell(process, other.id, 50 * MEGA)
            us.leave(other.id)
            assert come_to_tell(process, other.id, 0)["leaving"]
            assert process.wait(timeout=60) == 0
        with slbnd.follow(*words) as process:
            wait_for(lambda: len(us.list()) == 1)
            assert slbnd.end() == 0
            assert process.wait(timeout=60) in (0, 1)


def test_watch(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        first = us.join("10.0.2.2")
        come_to(us, {first: 50 * MEGA})
        with (
            slbnd.follow("-j", "session", "watch") as everything,
            slbnd.follow("-j", "session", "watch", f"{first:x}") as one,
        ):
            for process in (everything, one):
                demands = itertools.cycle((10 * MEGA, 20 * MEGA))
                # What happens before it listens it is not told.
                while not select.select([process.stdout], [], [], 0.2)[0]:
                    demand = next(demands)
                    us.change(first, demand)
                    come_to(us, {first: demand})
            us.change(first, libslbn.UNLIMITED)
            come_to_tell(one, first, 50 * MEGA)
            session = come_to_tell(everything, first, 50 * MEGA)
            assert (session["destination"], session["demand"]) == ("10.0.2.2", 10**15)
            assert (session["bottleneck"], session["hops"], session["device"]) == (1, 3, "e0")
            assert "used" not in session and "link" not in session
            us.leave(first)
            assert come_to_tell(one, first, 0)["leaving"]
            assert one.wait(timeout=60) == 0
            assert interrupted(everything) == 0


def test_top(net: Chain, tmp_path: Path) -> None:
    """An object a line; tables where there is no terminal; and what it says when slbnd goes."""
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        few = us.join("10.0.2.2", 5 * MEGA, protocol=17, destination_port=7000)
        many = us.join("10.0.2.2")
        net.attach(0, "rate 30mbit")
        come_to(us, {few: 5 * MEGA, many: 25 * MEGA})
        with slbnd.follow("-j", "top", "interval", "100ms", "count", "2") as process:
            tables = [json.loads(line) for line in process.communicate()[0].splitlines()]
        assert process.returncode == 0 and len(tables) == 2
        assert tables[0]["time"] < tables[1]["time"]
        for table in tables:
            largest, smallest = table["sessions"]
            assert (largest["id"], smallest["id"]) == (f"{many:016x}", f"{few:016x}")
            assert (largest["bottleneck"], largest["link"], largest["device"]) == (0, "e0", "e0")
            assert "bottleneck" not in smallest
        with slbnd.follow("top", "interval", "100ms") as process:
            assert process.stdout
            for _ in range(2):
                lines = [process.stdout.readline() for _ in range(5)]
                assert lines[0].startswith("2 sessions, rates 30Mbit") and lines[4] == "\n"
                assert lines[1].split() == "SESSION RATE USED BOTTLENECK PATH FLOW".split()
                assert lines[2].split() == [f"{many:016x}", "25Mbit", *"? e0 e0 3 10.0.2.2".split()]
                assert lines[3].split() == [
                    f"{few:016x}", *"5Mbit ? demand e0 3 udp 10.0.2.2:7000".split()
                ]  # fmt: skip
            slbnd.end(signal.SIGKILL)
            said = process.communicate()[1]
        assert (process.returncode, "slbnd closed the connection" in said) == (1, True), said


def test_top_on_a_terminal(net: Chain, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def frame(rows: int) -> list[str]:
        """A table that fills so many rows of the terminal."""
        text = ""
        while True:
            text += os.read(ours, 65536).decode()
            whole = re.findall(r"\x1b\[H([^\x1b]*(?:\x1b\[K[^\x1b]*)*)\x1b\[J", text)
            for table in whole:
                lines: list[str] = table.replace("\x1b[K", "").split("\r\n")
                if len(lines) == rows:
                    return lines

    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        for _ in range(20):
            us.join("10.0.2.2", MEGA)
        termios.tcsetwinsize(theirs, (10, 60))
        with slbnd.follow("top", "interval", "3600s", stdout=theirs) as process:
            lines = frame(10)
            assert max(map(len, lines)) == 60
            assert lines[-2:] == ["... and 14 more", ""]
            assert lines[0].startswith("20 sessions")
            termios.tcsetwinsize(theirs, (50, 132))
            process.send_signal(signal.SIGWINCH)
            lines = frame(23)
            assert lines[-1] == "" and lines[-2].endswith("10.0.2.2")
            assert interrupted(process) == 0
    os.close(ours)
    os.close(theirs)


def test_sessions_end_with_their_connection_or_stay(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        with slbnd.connect() as other:
            other.join("10.0.2.2")
            stays = other.join("10.0.2.2", stays=True)
            wait_for(lambda: len(us.list()) == 2)
        come_to(us, {stays: 50 * MEGA})


def test_an_agent_that_is_killed_leaves_no_ghosts(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        come_to(us, {us.join("10.0.2.2"): 50 * MEGA})
        assert slbnd.end(signal.SIGKILL) == -signal.SIGKILL
    # Its socket is still there; the next one takes the place.
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        come_to(us, {us.join("10.0.2.2"): 50 * MEGA})
        assert net.shown(1)["sessions"] == 1


def test_a_second_agent_is_refused(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd:
        command = f"{SLBND} --config /dev/null --socket {slbnd.socket}"
        done = net.nodes[0].sh(command, check=False)
        assert done.returncode == 1 and "Address already in use" in done.stdout
        assert slbnd.answers()


def test_a_restarted_link_is_right_again(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        sessions = [us.join("10.0.2.2") for _ in range(5)]
        come_to(us, dict.fromkeys(sessions, 10 * MEGA))
        net.tc(1, "qdisc del dev e1 root")
        come_to(us, dict.fromkeys(sessions, 16 * MEGA))
        net.attach(1, "rate 25mbit")
        come_to(us, dict.fromkeys(sessions, 5 * MEGA))


def test_a_network_that_does_not_answer(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        come_to(us, {session: 50 * MEGA})
        sh(f"ip -n {net.nodes[1].name} link set e1 down")
        wait_for(lambda: bool(us.list()[0].flags & libslbn.STALLED), 40)
        sh(f"ip -n {net.nodes[1].name} link set e1 up")
        sh(f"ip -n {net.nodes[1].name} route replace 10.0.2.0/24 via 10.0.1.2")
        wait_for(lambda: not us.list()[0].flags & libslbn.STALLED, 40)
        come_to(us, {session: 50 * MEGA})
        us.leave(session)
        come_to(us, {})


def test_the_key_keeps_others_out(net: Chain, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    for link, words in enumerate(("rate 100mbit", "rate 50mbit", "rate 80mbit edge")):
        net.attach(link, f"{words} key {KEY}")
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        us.join("10.0.2.2")
        wait_for(lambda: bool(us.list()[0].flags & libslbn.STALLED), 40)
        assert net.shown(0)["bad_key"] > 0 and net.shown(0)["sessions"] == 0
    with agent(net.nodes[0], tmp_path, "--key-file", str(key)) as slbnd, slbnd.connect() as us:
        come_to(us, {us.join("10.0.2.2"): 50 * MEGA})


def test_an_agent_answers_as_a_destination(net: Chain, tmp_path: Path) -> None:
    net.attach(2, "rate 80mbit no-edge")
    with (
        agent(net.nodes[0], tmp_path) as near,
        agent(net.nodes[3], tmp_path),
        near.connect() as us,
    ):
        sessions = [us.join("10.0.2.2"), us.join("fd00:2::2")]
        come_to(us, dict.fromkeys(sessions, 25 * MEGA))
        us.leave(sessions.pop())
        come_to(us, {sessions[0]: 50 * MEGA})


def test_a_thousand_join_and_leave_at_once(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        # Fewer bits for each, and control packets would be more than links let through.
        for link, rate in enumerate(("2gbit", "1gbit", "2gbit")):
            net.attach(link, f"rate {rate}" + " edge" * (link == 2))
        modest = [us.join("10.0.2.2", MEGA // 2) for _ in range(300)]
        greedy = [us.join("10.0.2.2") for _ in range(700)]
        # Integers leave over a bit/s at most, at one bottleneck.
        expected = dict.fromkeys(modest, MEGA // 2) | dict.fromkeys(greedy, 850 * MEGA // 700)
        come_to(us, expected, within=1)
        for session in expected:
            us.leave(session)
        come_to(us, {})
        shown = net.shown(1)
        assert (shown["sessions"], shown["NR"], shown["BF"], shown["clamped"]) == (0, 0, 0, 0)
        # Not by an epoch's end.
        assert shown["leaves"] >= 1000


def test_who_reads_slowly_misses_steps_but_not_the_end(net: Chain, tmp_path: Path) -> None:
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us, slbnd.connect() as slow:
        slow.watch()
        for link, rate in enumerate(("2gbit", "1gbit", "2gbit")):
            net.attach(link, f"rate {rate}" + " edge" * (link == 2))
        sessions = [us.join("10.0.2.2") for _ in range(600)]
        come_to(us, dict.fromkeys(sessions, 1000 * MEGA // 600))
        final = rates(us)
        seen: dict[int, int] = {}

        def caught_up() -> bool:
            while (event := slow.next(0)) is not None:
                seen[event.id] = event.rate
            return set(seen) == set(final) and all(
                abs(seen[n] - final[n]) <= max(64, final[n] >> 16) for n in final
            )

        wait_for(caught_up)
        assert slbnd.end() == 0


def test_others_sessions_are_not_for_everybody(net: Chain, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with agent(net.nodes[0], tmp_path, "--group", "nogroup") as slbnd:
        for parent in tmp_path.parents:
            if parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o055)
        ours = slbnd.ctl("join", "10.0.2.2").stdout.strip()

        def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
            drop = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
            command: list[str | Path] = [
                *drop,
                SLBNCTL,
                "--socket",
                slbnd.socket,
                "session",
                *words,
            ]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        assert ours in as_nobody("list").stdout
        refused = as_nobody("leave", ours)
        assert refused.returncode == 1 and "another user" in refused.stderr
        theirs = as_nobody("join", "10.0.2.2").stdout.strip()
        assert as_nobody("leave", theirs).returncode == 0
        slbnd.ctl("leave", ours)


def test_reload_keeps_sessions_and_refuses_nonsense(net: Chain, tmp_path: Path) -> None:
    file = tmp_path / "slbnd.conf"
    file.write_text("# nothing yet\n")
    with agent(net.nodes[0], tmp_path, "--config", str(file)) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        come_to(us, {session: 50 * MEGA})
        for text in ("pause = 50ms\n", "pause = never\n"):
            file.write_text(text)
            slbnd.process.send_signal(signal.SIGHUP)
            enough = us.list()[0].cycles + 3

            def goes_on(enough: int = enough) -> bool:
                return us.list()[0].cycles > enough

            wait_for(goes_on)
        come_to(us, {session: 50 * MEGA})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pause", "0"], "must be 1us to 1s"),
        (["--pause"], "needs a value"),
        (["--nonsense", "1"], "unknown option"),
        (["nonsense"], "unknown argument"),
        (["--hops", "33"], "even number"),
        (["--group", "no-such-group"], "no such group"),
        (["--key-file", "/etc/passwd"], "32 hexadecimal digits"),
        (["--control", "1e1"], "0.1% to 100%"),
        (["--socket", "relative"], "absolute path"),
        (["--config", "/no/such/file"], "No such file"),
    ],
)
def test_options_that_make_no_sense(options: list[str], says: str) -> None:
    command = [str(SLBND), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


#: What struct slbn_message begins with, its length, and that of what it ends with.
HEAD = struct.Struct("=HHIII")
REASON = 96
LENGTH = HEAD.size + 128 + REASON


def test_what_other_versions_say(net: Chain, tmp_path: Path) -> None:
    """What is added at the end does not matter; what is too short, or another protocol, does."""
    ask_list, done, refused = 4, 6, 7
    with (
        agent(net.nodes[0], tmp_path) as slbnd,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client,
    ):
        client.connect(slbnd.socket)
        for protocol, length, expected in (
            (1, LENGTH, (1, done, 9, 0)),
            (1, LENGTH + 24, (1, done, 9, 0)),
            (1, LENGTH - 1, (1, refused, 9, errno.EPROTO)),
            (2, LENGTH, (1, refused, 9, errno.EPROTONOSUPPORT)),
        ):
            head = HEAD.pack(protocol, ask_list, 9, 0, 0)
            client.send(head.ljust(length, b"\xff" if length > LENGTH else b"\0"))
            answer = client.recv(1024)
            assert (len(answer), HEAD.unpack_from(answer)[:4]) == (LENGTH, expected)


def test_a_signal_ends_waiting(net: Chain, tmp_path: Path) -> None:
    def interrupt(number: int, _frame: object) -> None:
        caught.append(number)
        if len(caught) == 2:
            raise KeyboardInterrupt

    caught: list[int] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
            signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
            with pytest.raises(KeyboardInterrupt):
                us.next()
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert us.list() == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_nothing_that_a_client_says_harms(net: Chain, tmp_path: Path) -> None:
    chance = random.Random(5)

    def random_message() -> bytes:
        if chance.random() < 0.3:
            return chance.randbytes(chance.randrange(1, 400))
        head = HEAD.pack(1, chance.randrange(12), chance.randrange(3), 0, 0)
        body = bytearray(LENGTH - len(head))
        for _ in range(chance.randrange(20)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        return bytes(head + body)

    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        for _ in range(40):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(slbnd.socket)
                client.setblocking(False)
                for _ in range(50):
                    with contextlib.suppress(BlockingIOError):
                        client.send(random_message())
        come_to(us, {session: 50 * MEGA})


def test_what_is_no_request_is_refused(net: Chain, tmp_path: Path) -> None:
    """With what is wrong with it, to whoever said it, who may go on."""

    def message(protocol: int, kind: int, request: int) -> bytes:
        return HEAD.pack(protocol, kind, request, 0, 0).ljust(LENGTH, b"\0")

    # Its flow is of no family.
    join = message(1, 1, 9)
    with (
        agent(net.nodes[0], tmp_path) as slbnd,
        slbnd.connect() as us,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client,
    ):
        client.connect(slbnd.socket)
        client.settimeout(60)
        for sent, error, says in (
            (b"?", errno.EPROTONOSUPPORT, "supports protocol 1 only"),
            (message(2, 1, 7), errno.EPROTONOSUPPORT, "supports protocol 1 only"),
            (join[:-1], errno.EPROTO, "malformed request"),
            (message(1, 1, 0), errno.EPROTO, "malformed request"),
            (message(1, 99, 8), errno.EPROTO, "unknown request"),
            (join, errno.EINVAL, "neither IPv4 nor IPv6"),
            (message(1, 3, 10), errno.ENOENT, "no such session"),
        ):
            client.send(sent)
            answer = client.recv(1000)
            protocol, kind, _, number, _ = HEAD.unpack_from(answer)
            assert (len(answer), protocol, kind, number) == (LENGTH, 1, 7, error), (sent, answer)
            assert says in answer[-REASON:].decode()
        client.send(message(1, 5, 11))
        assert HEAD.unpack_from(client.recv(1000))[:3] == (1, 6, 11)
        come_to(us, {us.join("10.0.2.2"): 50 * MEGA})


def test_no_memory_for_another_session(net: Chain, tmp_path: Path) -> None:
    for link, rate in enumerate(("2gbit", "1gbit", "2gbit")):
        net.attach(link, f"rate {rate}" + " edge" * (link == 2))
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        ours = us.join("10.0.2.2", 700 * MEGA)
        process = slbnd.process.pid
        status = Path(f"/proc/{process}/status").read_text()
        (pages,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmSize"))
        before = resource.prlimit(process, resource.RLIMIT_AS)
        resource.prlimit(process, resource.RLIMIT_AS, (int(pages) << 10, before[1]))
        sessions: list[int] = []
        with pytest.raises(OSError, match="no memory for another session") as refusal:
            while len(sessions) < 10000:
                sessions.append(us.join("10.0.2.2", 1000))
        assert refusal.value.errno == errno.ENOMEM
        come_to(us, {ours: 700 * MEGA, **dict.fromkeys(sessions, 1000)})
        resource.prlimit(process, resource.RLIMIT_AS, before)
        sessions += [us.join("10.0.2.2", 1000) for _ in range(200)]
        come_to(us, {ours: 700 * MEGA, **dict.fromkeys(sessions, 1000)})


def test_a_destination_that_nobody_knows(net: Chain, tmp_path: Path) -> None:
    """Who asked for it is told that it does not answer; others do not notice."""
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        lost = [us.join("192.0.2.1"), us.join("2001:db8::1")]
        ours = us.join("10.0.2.2")
        told: dict[int, int] = {}

        def all_told() -> bool:
            while (event := us.next(0)) is not None:
                told[event.id] = event.flags & libslbn.STALLED
            return all(told.get(number) for number in lost)

        wait_for(all_told)
        come_to(us, {ours: 50 * MEGA, **dict.fromkeys(lost, 0)})
        for number in lost:
            us.leave(number)
        come_to(us, {ours: 50 * MEGA})


def test_a_device_that_there_is_not(
    net: Chain, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with agent(net.nodes[0], tmp_path, "--devices", "nothing") as slbnd, slbnd.connect() as us:
        said = capfd.readouterr().err
        assert "devices: nothing: no such device" in said
        assert "rates are reported, but not enforced" in said
        come_to(us, {us.join("10.0.2.2"): 50 * MEGA})


def local(payload: bytes, sport: int) -> bytes:
    """A datagram to the agent, as an IP packet."""
    return Datagram(payload, source="10.0.2.2", destination="10.0.0.1", sport=sport).ip()


def test_an_answer_from_another_port_is_none(net: Chain, tmp_path: Path) -> None:
    """No edge would stop it, so a host could answer in the network's name."""
    sh(f"ip -n {net.nodes[1].name} link set e1 down")
    with (
        agent(net.nodes[0], tmp_path) as slbnd,
        slbnd.connect() as us,
        net.nodes[0].entered(),
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as out,
        net.nodes[1].entered(),
    ):
        tap = Tap("w0")
        us.join("10.0.2.2")
        heard: list[Packet] = []

        def joined() -> bool:
            payloads = [read_udp(frame)[0] for frame in tap.frames()]
            heard.extend(read_packet(each) for each in payloads if each.startswith(b"SLBN"))
            return bool(heard)

        wait_for(joined)
        for sport, rate in ((9, 666), (PORT, 777)):
            answer = replace(heard[0].reply(), bw=rate, bottleneck=0).pack()
            out.sendto(local(answer, sport), ("10.0.0.1", 0))

        def told() -> bool:
            return us.list()[0].rate > 0

        wait_for(told)
        assert us.list()[0].rate == 777
        close([tap])


def test_nothing_that_comes_by_udp_harms(net: Chain, tmp_path: Path) -> None:
    chance = random.Random(6)
    with agent(net.nodes[0], tmp_path) as slbnd, slbnd.connect() as us:
        session = us.join("10.0.2.2")
        come_to(us, {session: 50 * MEGA})
        with net.nodes[0].entered():
            sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with sender:
            for _ in range(2000):
                octets = bytearray(chance.randbytes(chance.randrange(1, 300)))
                if chance.random() < 0.8:
                    octets[:6] = b"SLBN\x01" + bytes([chance.randrange(7)])
                sport = chance.choice([PORT, PORT, PORT, 9])
                sender.sendto(local(bytes(octets), sport), ("10.0.0.1", 0))
        come_to(us, {session: 50 * MEGA})
