# SPDX-License-Identifier: GPL-2.0
"""A run of slbnsim, for studies of networks that are too large to emulate.

It needs no guest: the result of slbnsim depends on its options only.
"""

import dataclasses
import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, LabError
from fairlab.net import host
from fairlab.results import trust
from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

ENGINE = "slbnsim"
FLUID = "fluid"
ANSWER = "answer.json"


@dataclass(frozen=True)
class Simulated:
    """One of slbnsim's experiments with an algorithm; times in ms."""

    experiment: str
    algorithm: str
    seed: int
    percent: int = 100  # of its sessions
    every: float = 10
    until: int = 0  # 0: the experiment's own end
    data: str = FLUID  # "": control packets only
    count: int = 0  # of sessions that join at first, instead of PERCENT
    options: tuple[str, ...] = ()  # further options of slbnsim

    @property
    def memory(self) -> int:
        """The memory of slbnsim, in MiB: about two kilobytes for a session."""
        return max(1024, self.count // 500)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def sources(self) -> tuple[str, ...]:
        return (
            "userspace/slbnsim",
            "userspace/common",
            "include",
            "userspace/lab/fairlab/slbn/simulated.py",
        )

    def run(self, work: Path, engine: Engine | None, progress: Progress) -> dict[str, Any]:
        del engine
        progress.step(f"simulating {self.experiment} with {self.algorithm}")
        command = [program(), "experiment", self.experiment, "--algorithm", self.algorithm]
        command += ["--seed", str(self.seed), "--percent", str(self.percent)]
        command += ["--every", f"{self.every:f}ms", "--json", "--quiet", *self.options]
        command += ["--until", f"{self.until}ms"] if self.until else []
        command += ["--data", self.data] if self.data else []
        command += ["--count", str(self.count)] if self.count else []
        # In our process group, so that signals end it with us.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = done.stderr.strip() or signal.strsignal(-done.returncode) or "it broke"
            raise LabError(f"slbnsim: {reason}")
        (work / ANSWER).write_text(done.stdout)
        answer: dict[str, Any] = json.loads(done.stdout)
        check(answer)
        return answer

    def conditions(self, work: Path) -> dict[str, Any]:
        answer = json.loads((work / ANSWER).read_text())
        found = {"engine": {"name": ENGINE}, "tools": {ENGINE: answer["configuration"]["version"]}}
        return found | trust.condition(check(answer))


def check(answer: dict[str, Any]) -> list[str]:
    """Raise the reason if a run cannot be trusted; return the checks that were not made.

    The simulator has no TCP, kernel or agents.  Control packets get lost only where its options
    ask for that: with a loss, or on links that are cut.
    """
    if answer["interrupted"]:
        raise CannotRunError("slbnsim was interrupted")
    configuration = answer["configuration"]
    planned = configuration["loss_percent"] or configuration["dead"] or "cut" in configuration
    return trust.check(
        trust.Evidence(
            between=0 if planned else answer["packets"]["lost"],
            delays=0,
            memory={},
            frames={},
            agents={},
            kernel=[],
            changed=[],
        ),
        virtual=True,
    )


def program() -> str:
    """The path of the tree's slbnsim."""
    top = host.tree()
    found = top / "build" / ENGINE / ENGINE if top else None
    if found is None or not found.is_file():
        raise CannotRunError("missing: slbnsim; in the project's tree: make slbnsim")
    return str(found)
