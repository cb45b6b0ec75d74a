# SPDX-License-Identifier: GPL-2.0
"""Agents (slbnd) on routers of the emulated network, and connections to them by libslbn.

libslbn is imported when agents start: scripts/fairlab has it on PYTHONPATH, an installed lab needs
none.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, LabError
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import flows


def require_tree() -> Path:
    """The project's tree, which has slbnd and libslbn."""
    top = host.tree()
    if top is None:
        raise CannotRunError("slbnd is part of the project's tree: run its scripts/fairlab")
    return top


class Agents:
    """An agent for each of some routers, with its output and its connections."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.processes: dict[str, Any] = {}

    def socket(self, router: str) -> Path:
        """The agent's control socket."""
        return self.lab.scratch / f"{router}.socket"

    def start(self, router: str, options: Mapping[str, str]) -> None:
        """Start an agent with OPTIONS, without any configuration file."""
        every = {
            "config": "/dev/null",
            "socket": str(self.socket(router)),
            "log-level": "warning",
            **options,
        }
        words = [word for name, value in every.items() for word in (f"--{name}", value)]
        with (self.lab.scratch / f"{router}.txt").open("wb") as output:
            command = [str(require_tree() / "build/slbnd/slbnd"), *words]
            self.processes[router] = self.lab.start(router, command, output)

    def output(self, router: str) -> str:
        """What the agent has printed so far, in one line: it prints problems only."""
        text = (self.lab.scratch / f"{router}.txt").read_text()
        return text.strip().replace("\n", "; ")

    def printed(self) -> dict[str, str]:
        """What the agents have printed: an agent goes on after a problem."""
        return {router: self.output(router) for router in self.processes}

    def connect(self, router: str, stack: ExitStack, deadline: float) -> Any:
        """A connection to a starting agent, by DEADLINE (monotonic); STACK closes it."""
        import libslbn

        while True:
            try:
                return stack.enter_context(libslbn.Connection(str(self.socket(router))))
            except OSError:
                ended = self.processes[router].poll() is not None
                if ended or time.monotonic() > deadline:
                    raise LabError(f"slbnd at {router}: {self.output(router)}") from None
                time.sleep(0.01)

    def connect_all(self, stack: ExitStack) -> dict[str, Any]:
        """A connection to each agent, by router."""
        deadline = time.monotonic() + flows.START_PATIENCE
        return {router: self.connect(router, stack, deadline) for router in self.processes}
