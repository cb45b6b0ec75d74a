# SPDX-License-Identifier: GPL-2.0
"""The way from a description to its result: build, measure, read.

A Job describes one run as plain data.  run() builds the programs of the project's tree that it
needs, has an engine measure it in the kernel under test, which leaves raw data in a directory, and
reads that data.  Measuring and reading are apart because they happen in different kernels: a job is
measured as root, in a guest by default, and read on the user's machine as the user.

The directory tells the measuring side what to do: job.json has the kind of the job and its
description.  cli/measure.py has the function that measures each kind.
"""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from fairlab.run.engine import JOB, Engine
from fairlab.run.progress import Progress

Result_co = TypeVar("Result_co", covariant=True)


class Job(ABC, Generic[Result_co]):
    """A description that an engine can measure."""

    kind: ClassVar[str]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The description: everything that decides the result, but for the sources."""

    @abstractmethod
    def duration(self) -> float:
        """How long the run takes by the guest's clock, in seconds, without preparations."""

    def guest_memory(self) -> int:
        """The memory that a guest needs, in MiB; 0: what guests have by default."""
        return 0

    def engine_seed(self) -> int:
        """The seed of the kernel's and the programs' random numbers, in virtual time."""
        return int(self.to_json().get("seed", 0))

    @abstractmethod
    def build(self) -> None:
        """Build the programs of the project's tree that the run needs.

        Raise CannotRunError if the run needs a tree and there is none.
        """

    @abstractmethod
    def read(self, work: Path) -> Result_co:
        """Evaluate the raw data in WORK.

        Raise CannotRunError if something but the network was measured, LabError if it broke.
        """

    def check_engine(self, engine: Engine) -> None:
        """Raise CannotRunError if the job cannot run on ENGINE."""

    def measure(self, work: Path, engine: Engine, progress: Progress) -> None:
        """Measure on ENGINE; the raw data is left in WORK."""
        (work / JOB).write_text(json.dumps({"kind": self.kind, "what": self.to_json()}))
        engine.measure(work, self.duration(), self.guest_memory(), self.engine_seed(), progress)

    def run(self, work: Path, engine: Engine, progress: Progress) -> Result_co:
        """Build, measure on ENGINE with WORK to write to, and read."""
        self.check_engine(engine)
        self.build()
        self.measure(work, engine, progress)
        return self.read(work)


def load(directory: Path) -> tuple[str, dict[str, Any]]:
    """The kind and the description of the job in DIRECTORY."""
    found = json.loads((directory / JOB).read_text())
    return found["kind"], found["what"]
