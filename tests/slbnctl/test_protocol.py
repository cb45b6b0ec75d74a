# SPDX-License-Identifier: GPL-2.0
"""The messages between libslbn and slbnd, of this and of other versions, on the host."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.agent import Agent, agent

SLBNCTL = TOP / "build" / "slbnctl" / "slbnctl"

#: Header of struct slbn_message, and a length that it will not reach.
HEAD = struct.Struct("=HHIII")
LENGTH = 1000
PROTOCOL = 3
JOIN, LEAVE, LIST, WATCH, DONE, REFUSED = 1, 3, 4, 5, 6, 7
ADD_KEY, STATUS = 10, 12


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)


def message(kind: int, payload: bytes = b"", request: int = 9, protocol: int = PROTOCOL) -> bytes:
    return HEAD.pack(protocol, kind, request, 0, 0) + payload


def join(weight: int = 1, family: int = socket.AF_INET) -> bytes:
    """The payload of JOIN, up to the weight: that of the first version."""
    flow = bytes(16) + socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    flow += struct.pack("=HHHBB", family, 0, 0, 0, 0)
    return struct.pack("=6Q", 0, 10**6, 0, 0, 0, 0) + flow + bytes(20) + struct.pack("=I", weight)


@contextlib.contextmanager
def client(of: Agent) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.connect(str(of.socket))
        made.settimeout(60)
        yield made


def slbnctl(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(SLBNCTL), "--socket", str(path), *arguments]
    return launch.run(command, timeout=60)


# --- requests ------------------------------------------------------------------------------------


def test_requests_of_other_lengths(tmp_path: Path) -> None:
    """slbnd takes missing fields for 0, and ignores those behind the fields that it knows."""
    later = b"\xff" * 64
    with agent(tmp_path) as slbnd, client(slbnd) as us:
        for sent in (message(LIST), message(WATCH), message(STATUS), message(JOIN, join())):
            for text in (sent, sent.ljust(LENGTH, b"\0"), sent.ljust(LENGTH, b"\0") + later):
                us.send(text)
                reply = us.recv(2000)
                assert HEAD.unpack_from(reply)[1:3] == (DONE, 9)
        # Without the weight.
        us.send(message(JOIN, join()[:-4]))
        assert HEAD.unpack_from(us.recv(2000))[1:4] == (REFUSED, 9, errno.ERANGE)


def test_malformed_requests_are_refused(tmp_path: Path) -> None:
    """Each with its reason; the connection remains usable."""
    with agent(tmp_path) as slbnd, client(slbnd) as us:
        for sent, error, reason in (
            (b"?", errno.EPROTONOSUPPORT, "supports protocol 3 only"),
            (message(JOIN, protocol=2), errno.EPROTONOSUPPORT, "supports protocol 3 only"),
            (message(JOIN, protocol=4), errno.EPROTONOSUPPORT, "supports protocol 3 only"),
            (message(LIST)[:-1], errno.EPROTO, "malformed request"),
            (message(JOIN, request=0), errno.EPROTO, "malformed request"),
            (message(99), errno.EPROTO, "unknown request"),
            (message(JOIN), errno.EINVAL, "neither IPv4 nor IPv6"),
            (message(JOIN, join(family=1)), errno.EINVAL, "neither IPv4 nor IPv6"),
            (message(JOIN, join(weight=0)), errno.ERANGE, "the weight must be 1 to 1000000"),
            (message(JOIN, join(weight=1000001)), errno.ERANGE, "the weight must be 1 to 1000000"),
            (message(LEAVE), errno.ENOENT, "no such session"),
        ):
            us.send(sent)
            answer = us.recv(2000)
            protocol, kind, _, number, _ = HEAD.unpack_from(answer)
            assert (protocol, kind, number) == (PROTOCOL, REFUSED, error), (sent, answer)
            assert reason in answer[HEAD.size :].split(b"\0")[0].decode()
        us.send(message(WATCH, request=11))
        assert HEAD.unpack_from(us.recv(2000))[:3] == (PROTOCOL, DONE, 11)


def test_random_requests(tmp_path: Path) -> None:
    """slbnd and its other clients do not notice them."""
    chance = random.Random(5)

    def random_message() -> bytes:
        if chance.random() < 0.3:
            return chance.randbytes(chance.randrange(1, 400))
        # Root may add keys.
        kind = chance.choice([each for each in range(20) if each != ADD_KEY])
        body = bytearray(LENGTH - HEAD.size)
        for _ in range(chance.randrange(20)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        return message(kind, bytes(body), chance.randrange(3))

    with agent(tmp_path) as slbnd, client(slbnd) as us:
        us.send(message(JOIN, join()))
        session = f"{struct.unpack_from('=Q', us.recv(2000), HEAD.size)[0]:016x}"
        for _ in range(40):
            with client(slbnd) as other:
                other.setblocking(False)
                for _ in range(50):
                    with contextlib.suppress(BlockingIOError):
                        other.send(random_message())
        assert session in slbnctl(slbnd.socket, "session", "list").stdout


# --- replies -------------------------------------------------------------------------------------


@contextlib.contextmanager
def other_version(directory: Path, *replies: bytes) -> Iterator[Path]:
    """An slbnd of another version, which replies to a request with these messages."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(2000)
            for each in replies:
                connection.send(each)
            connection.recv(2000)

    path = directory / "other"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join()


def status(sessions: int) -> bytes:
    """Its first field."""
    return message(DONE, struct.pack("=Q", sessions), request=1)


def refusal(error: int, reason: bytes = b"no") -> bytes:
    return HEAD.pack(PROTOCOL, REFUSED, 1, error, 0) + reason


@pytest.mark.parametrize("later", [b"", bytes(120), bytes(120) + b"\xff" * 1000])
def test_replies_of_other_lengths(later: bytes, tmp_path: Path) -> None:
    with other_version(tmp_path, status(7) + later) as path:
        done = slbnctl(path, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sessions 7" in done.stdout and "keys none" in done.stdout
    shown = "?" * 15 if b"\xff" in later else "unknown"
    assert f"\n  agent_version {shown} epoch " in done.stdout


def test_events_of_later_versions_are_ignored(tmp_path: Path) -> None:
    with other_version(tmp_path, message(99, b"\xff" * 500, request=0), status(7)) as path:
        assert "sessions 7" in slbnctl(path, "status").stdout


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (status(7)[: HEAD.size - 1], "message of slbnd is truncated"),
        (message(DONE, protocol=4), "slbnd uses another protocol version"),
        (message(99, request=1), "Protocol error"),
        pytest.param(refusal(2**31), "Protocol error", id="error-2^31"),
        pytest.param(refusal(2**32 - 1), "Protocol error", id="error-2^32-1"),
        pytest.param(refusal(errno.EPERM, b"a\n\x1bb"), "slbnctl: a??b\n", id="control"),
        pytest.param(status(0)[:-8] + bytes(40) + b"\xc8", "Protocol error", id="200 keys"),
    ],
)
def test_malformed_replies(reply: bytes, error: str, tmp_path: Path) -> None:
    with other_version(tmp_path, reply) as path:
        done = slbnctl(path, "status")
    assert (done.returncode, done.stdout) == (1, "") and error in done.stderr
