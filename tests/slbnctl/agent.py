# SPDX-License-Identifier: GPL-2.0
"""slbnd on the host, in a network namespace of its own, which any user may create."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.linux_source import TOP

SLBND = TOP / "build" / "slbnd" / "slbnd"


class Agent:
    """A running slbnd, and the socket of its service manager."""

    def __init__(
        self, directory: Path, *options: str, clocks: str = "", **environment: str
    ) -> None:
        self.socket = directory / "socket"
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.settimeout(60)
        self.manager.bind(str(directory / "notify"))
        self.log, write = os.pipe()
        stream = os.fstat(write)
        journal = f"{stream.st_dev}:{stream.st_ino}"
        isolated = ["unshare", "--user", "--map-root-user", "--net", *clocks.split(), str(SLBND)]
        self.process = subprocess.Popen(
            [*isolated, "--config=/dev/null", f"--socket={self.socket}", *options],
            env={
                "NOTIFY_SOCKET": str(directory / "notify"),
                **{name: value.format(journal=journal) for name, value in environment.items()},
            },
            stderr=write,
        )
        os.close(write)

    def notification(self) -> str:
        """The next one, except descriptions of the state, and sockets to keep."""
        while (text := self.manager.recv(1000).decode()).startswith(("STATUS=", "FDSTORE=1\n")):
            pass
        return text

    def end(self) -> list[str]:
        """End slbnd. Its log."""
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
        with os.fdopen(self.log) as log:
            return log.read().splitlines()


@contextlib.contextmanager
def agent(directory: Path, *options: str, clocks: str = "", **environment: str) -> Iterator[Agent]:
    """CLOCKS are options of unshare(1) for a time namespace."""
    made = Agent(directory, *options, clocks=clocks, **environment)
    try:
        assert made.notification() == "READY=1"
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        made.manager.close()
