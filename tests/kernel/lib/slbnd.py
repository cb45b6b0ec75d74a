# SPDX-License-Identifier: GPL-2.0
"""slbnd in a network namespace, with the capabilities of its systemd unit only."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import libslbn

from tests import launch
from tests.kernel.lib.net import Namespace, wait_for
from tests.slbnctl.schema import validate

TOP = Path(__file__).resolve().parents[3]
SLBND = TOP / "build/slbnd/slbnd"
SLBNCTL = TOP / "build/slbnctl/slbnctl"

UNIT = (TOP / "userspace/slbnd/service/slbnd.service.in").read_text()

__all__ = ["SLBNCTL", "SLBND", "Agent", "agent", "libslbn", "pinned"]


def pinned(name: str) -> str:
    """The file name of a pinned map, which ends with the number of the maps' layout."""
    source = (TOP / "userspace/slbnd/enforcement/edt.c").read_text()
    (layout,) = re.findall(r'"%s/%s-([0-9]+)"', source)
    return f"{name}-{layout}"


def confined(groups: list[str]) -> list[str]:
    """A command prefix that drops all other capabilities, and sets the groups."""
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT, re.MULTILINE)
    kept = ",".join(name.lower().replace("cap_", "+") for name in line.split())
    options = [f"--bounding-set=-all,{kept}", "--inh-caps=-all", "--no-new-privs"]
    return ["setpriv", *options, f"--groups={','.join(groups or ['root'])}"]


class Agent:
    """A running slbnd in a network namespace."""

    def __init__(
        self,
        where: Namespace,
        directory: Path,
        *options: str,
        prefix: Sequence[str | Path] = (),
        **how: Any,
    ) -> None:
        self.where = where
        self.socket = str(directory / f"{where.name}.socket")
        if "--config" not in options:
            options = ("--config", "/dev/null", *options)
        groups = [options[n + 1] for n, word in enumerate(options) if word == "--group"]
        command = [*prefix, *confined(groups), str(SLBND), "--socket", self.socket, *options]
        self.process = where.start(command, **how)
        wait_for(self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None
        with contextlib.suppress(OSError):
            self.connect().close()
            return True
        return False

    def connect(self) -> libslbn.Connection:
        return libslbn.Connection(self.socket)

    def slbnctl(
        self, *words: str, prefix: Sequence[str] = (), given: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run slbnctl with the agent's socket, and GIVEN to read."""
        command = [*prefix, str(SLBNCTL), "--socket", self.socket, *words]
        done = launch.run(command, input=given, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.slbnctl("session", *arguments, check=check)

    def show(self, number: int) -> dict[str, Any]:
        """A session with its path, as slbnctl shows it."""
        shown = launch.answer(self.slbnctl("--json", "session", "show", f"{number:x}"))
        validate("session_path", shown)
        return shown

    def follow(self, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start slbnctl in the agent's namespace, with a command that runs until interrupted."""
        command = [str(SLBNCTL), "--socket", self.socket, *arguments]
        return self.where.start(command, stdout=stdout, stderr=subprocess.PIPE)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def agent(where: Namespace, directory: Path, *options: str, **how: Any) -> Iterator[Agent]:
    """Run slbnd; HOW has the command's prefix, and options of Popen."""
    made = Agent(where, directory, *options, **how)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end(signal.SIGKILL)
