# SPDX-License-Identifier: GPL-2.0
"""Experiments as jobs: what a study describes, an engine measures, and outcome.py reads."""

from pathlib import Path
from typing import Any

from fairlab.model.experiment import Group, Layout, Stream
from fairlab.net import host
from fairlab.results import outcome, trust
from fairlab.results.outcome import Outcome
from fairlab.run import engine
from fairlab.run.job import Job

# What a study takes the numbers of an experiment from.
CODE = ("experiment", "outcome", "statistics")

__all__ = ["Experiment", "Group", "Stream"]


class Experiment(Layout, Job[Outcome]):
    """Groups of flows over a bottleneck, which can be run."""

    kind = "experiment"

    def duration(self) -> float:
        return self.seconds

    def guest_memory(self) -> int:
        return self.memory

    def sources(self) -> tuple[str, ...]:
        top = host.tree()
        own = [f"tcp_{cc}" for cc in self.ccs]
        own += [f"sch_{word}" for word in self.queue.split()[:1]]
        return (
            *(name for name in own if top and (top / name).is_dir()),
            *engine.SOURCES,
            "userspace/traffic",
            *(f"userspace/lab/fairlab/results/{name}.py" for name in CODE),
        )

    def build(self) -> None:
        engine.make(["traffic"], self.queue.split()[:1])

    def read(self, work: Path) -> Outcome:
        return outcome.read(self, work)

    def conditions(self, work: Path) -> dict[str, Any]:
        seen = outcome.load(self, work)
        return trust.conditions(seen.document, outcome.check(seen))
