# SPDX-License-Identifier: GPL-2.0
"""Keys of a domain's links and agents, which are replaced periodically while sessions run.

As slbnctl(8) advises: first all links and agents accept the next key, then the agents use it, and a
second later the old key is retired.  Keys are in files that only root can read.
"""

import json
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairlab.model.errors import LabError
from fairlab.net.network import SLBN, Laboratory
from fairlab.slbn.agents import require_tree

SECRET = 16  # octets
#: Seconds for which packets with the old key may be in flight.
IN_FLIGHT = 1.0
#: The shortest time between two keys [s].
SHORTEST = 5
#: Counters of packets that links and agents dropped for their key or time.
DROPS = ("bad_key", "unknown_key", "bad_time")


class Keys(threading.Thread):
    """The keys of the links of ROUTERS, and of the agents with these SOCKETS, by router.

    As a thread: replaces the key each EVERY seconds.
    """

    def __init__(
        self, lab: Laboratory, routers: Iterable[str], sockets: Mapping[str, Path], every: float
    ) -> None:
        super().__init__(daemon=True)
        self.lab, self.every = lab, every
        self.routers, self.sockets = list(routers), dict(sockets)
        self.number = 0
        #: how many further keys were in use everywhere
        self.replaced = 0
        self.ending = threading.Event()
        self.error: Exception | None = None

    def file(self, number: int) -> Path:
        """The file with a key."""
        return self.lab.scratch / f"key-{number}"

    def slbnctl(self, router: str, *words: str) -> str:
        # Without an agent, a path at which there is none: the default may be another's.
        socket = self.sockets.get(router, self.lab.scratch / "no-agent")
        program = require_tree() / "build/slbnctl/slbnctl"
        return self.lab.shell(router, f"{program} --socket {socket} {' '.join(words)}")

    def make(self, number: int) -> str:
        """Write a new key to its file; slbnctl's argument for it."""
        path = self.file(number)
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(f"{secrets.token_hex(SECRET)}\n")
        return f"@{path}"

    def add_first(self) -> Path:
        """Give the links their first key; the file with it, for agents that start."""
        key = self.make(0)
        for router in self.routers:
            self.slbnctl(router, "key", "add", "0", key)
        return self.file(0)

    def replace(self) -> None:
        """Replace the key."""
        old, new = self.number, self.number + 1
        key = self.make(new)
        number = str(new % 256)
        for router in self.routers:
            self.slbnctl(router, "key", "add", number, key, "accept")
        for router in self.sockets:
            self.slbnctl(router, "key", "add", number, key)
        self.number = new
        time.sleep(IN_FLIGHT)
        for router in self.routers:
            self.slbnctl(router, "key", "retire", str(old % 256))
        self.file(old).unlink()
        self.replaced += 1

    def run(self) -> None:
        due = time.monotonic() + self.every
        try:
            while not self.ending.wait(max(0.0, due - time.monotonic())):
                self.replace()
                due += self.every
        except (LabError, OSError) as error:
            self.error = error

    def stop(self) -> dict[str, Any]:
        """Stop replacing keys; how often they were, and what was dropped for its key or time."""
        self.ending.set()
        self.join()
        if self.error:
            raise LabError(f"keys: {self.error}")
        dropped = dict.fromkeys(DROPS, 0)
        for router in self.routers:
            states = json.loads(self.slbnctl(router, "-j", "link", "list"))
            if router in self.sockets:
                states.append(json.loads(self.slbnctl(router, "-j", "status")))
            for state in states:
                for name in DROPS:
                    dropped[name] += state[name]
                keys = state.get("options", state)["keys"]
                if keys != [self.number % 256]:
                    raise LabError(f"{router}: the keys are {keys} after {self.number}")
            self.lab.accept_changes(router, f"slbn {SLBN:x}:")
        return {"replaced": self.replaced, "dropped": dropped}

    def __enter__(self) -> "Keys":
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        with suppress(RuntimeError):  # it was not started
            self.join()
