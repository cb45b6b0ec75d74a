# SPDX-License-Identifier: GPL-2.0
"""A run of slbnsim, for studies of networks that are too large to emulate.

It needs no guest: the result of slbnsim depends on its options only, and on what it was built from.
So a run leaves a record of both, by which `fairlab verify` repeats it.
"""

import json
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, LabError
from fairlab.model.plain import Plain
from fairlab.net import host
from fairlab.results import trust
from fairlab.run import exact
from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

ENGINE = "slbnsim"
FLUID = "fluid"
ANSWER = "answer.json"
#: What it is built from; its libraries and compiler are inputs, too.
SOURCES = (
    "userspace/slbnsim/*.[ch]",
    "userspace/common/*.[ch]",
    "include/fairpath/core.h",
    "include/fairpath/sip.h",
    "include/fairpath/slbn/*.h",
    "include/uapi/fairpath/slbn*.h",
)
COMPILER = re.compile(rb"(GCC: \([^)\0]*\) [\d.]+|clang version [\d.]+)")


@dataclass(frozen=True)
class Simulated(Plain):
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

    def sources(self) -> tuple[str, ...]:
        # Not its Python programs, on which no run depends.
        top = host.tree()
        own = sorted((top / "userspace/slbnsim").glob("*.[ch]")) if top else []
        return (
            *(f"userspace/slbnsim/{path.name}" for path in own),
            "userspace/common",
            "include",
            "userspace/lab/fairlab/slbn/simulated.py",
        )

    def run(self, work: Path, engine: Engine | None, progress: Progress) -> dict[str, Any]:
        del engine
        progress.step(f"simulating {self.experiment} with {self.algorithm}")
        words = ["experiment", self.experiment, "--algorithm", self.algorithm]
        words += ["--seed", str(self.seed), "--percent", str(self.percent)]
        words += ["--every", f"{self.every:f}ms", "--json", "--quiet", *self.options]
        words += ["--until", f"{self.until}ms"] if self.until else []
        words += ["--data", self.data] if self.data else []
        words += ["--count", str(self.count)] if self.count else []
        answer = simulate(words)
        (work / ANSWER).write_text(json.dumps(answer))
        check(answer)
        exact.write_simulated(work, ENGINE, words, digest(answer), inputs())
        return answer

    def conditions(self, work: Path) -> dict[str, Any]:
        answer = json.loads((work / ANSWER).read_text())
        found = {"engine": {"name": ENGINE}, "tools": {ENGINE: answer["configuration"]["version"]}}
        return found | trust.condition(check(answer))


def simulate(words: Sequence[str]) -> dict[str, Any]:
    """The answer of slbnsim to the arguments WORDS."""
    # In our process group, so that signals end it with us.
    done = subprocess.run(
        [program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = done.stderr.strip() or signal.strsignal(-done.returncode) or "it broke"
        raise LabError(f"slbnsim: {reason}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def digest(answer: dict[str, Any]) -> str:
    """The SHA-256 of an answer, without the program's version and the CPU time."""
    kept = {name: value for name, value in answer.items() if name != "simulated_in_seconds"}
    kept["configuration"] = {k: v for k, v in answer["configuration"].items() if k != "version"}
    return exact.digest(kept)


def inputs() -> dict[str, str]:
    """By name: the SHA-256 of all that decides an answer besides the arguments; the compiler."""
    top, built = host.tree(), Path(program())
    assert top
    found = {f"source {glob}": exact.sha256_of_all(sorted(top.glob(glob))) for glob in SOURCES}
    linked = exact.libraries([built])
    found |= {f"library {name}": exact.sha256(path) for name, path in sorted(linked.items())}
    compiler = COMPILER.search(built.read_bytes())
    return found | {"compiler": compiler[1].decode() if compiler else "unknown"}


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
