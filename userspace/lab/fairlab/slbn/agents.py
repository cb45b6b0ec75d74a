# SPDX-License-Identifier: GPL-2.0
"""Agents (slbnd) on routers of the emulated network, connections to them by libslbn, and a record
of what they report.

libslbn is imported when agents start: scripts/fairlab has it on PYTHONPATH, an installed lab needs
none.
"""

import select
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, LabError
from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import flows

#: Seconds between two looks at the demands of sessions.
INTERVAL = 0.25


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
        self.connections: dict[str, Any] = {}

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
        """What the agents have printed, and whether they have ended: they go on after a problem."""
        return {
            router: self.output(router) or ("" if process.poll() is None else "it has ended")
            for router, process in self.processes.items()
        }

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


class Listener(threading.Thread):
    """Records the agents' reports of sessions, with times by the monotonic clock.

    Connections by router: ASKING is for looks at sessions, from WATCHING events are read.
    """

    def __init__(self, asking: Mapping[str, Any], watching: Mapping[str, Any]) -> None:
        super().__init__(daemon=True)
        self.asking, self.watching = asking, watching
        #: time, router, id, source port, destination port, demand, rate, round-trip [ns], over
        self.events: list[tuple[float, str, int, int, int, int, int, int, bool]] = []
        #: time, router, id, demand: when it has changed
        self.demands: list[tuple[float, str, int, int]] = []
        self.ending = threading.Event()
        self.error: Exception | None = None
        self._known: dict[tuple[str, int], int] = {}

    def _hear(self, router: str) -> None:
        while (event := self.watching[router].next(0)) is not None:
            ports = event.source_port, event.destination_port
            rest = event.demand, event.rate, event.rtt, event.over
            self.events.append((time.monotonic(), router, event.id, *ports, *rest))

    def _ask(self) -> None:
        """Poll the demands: a change that changes no rate is not notified."""
        for router, connection in self.asking.items():
            now = time.monotonic()
            for session in connection.list():
                if self._known.get((router, session.id)) != session.demand:
                    self._known[router, session.id] = session.demand
                    self.demands.append((now, router, session.id, session.demand))

    def run(self) -> None:
        poll = select.poll()
        routers = {}
        for router, connection in self.watching.items():
            routers[connection.fileno()] = router
            poll.register(connection.fileno(), select.POLLIN)
        due = time.monotonic()
        try:
            while not self.ending.is_set():
                for fd, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000):
                    self._hear(routers[fd])
                if time.monotonic() >= due:
                    self._ask()
                    due = max(due + INTERVAL, time.monotonic())
        except OSError as error:
            self.error = error

    def stop(self, begin: float) -> dict[str, Any]:
        """The reports, with times since BEGIN, and the packets that the agents' pacers dropped."""
        self.ending.set()
        self.join()
        if self.error:
            raise LabError(f"an agent: {self.error}")
        states = [connection.status() for connection in self.asking.values()]
        return {
            "events": [(round(when - begin, 4), *rest) for when, *rest in self.events],
            "demands": [(round(when - begin, 4), *rest) for when, *rest in self.demands],
            "paced_drops": sum(state.paced_drops for state in states),
        }

    def __enter__(self) -> "Listener":
        for connection in self.watching.values():
            connection.watch()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.join()
