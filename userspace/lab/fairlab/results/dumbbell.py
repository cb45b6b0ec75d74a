# SPDX-License-Identifier: GPL-2.0
"""Scenarios as jobs: `fairlab run` describes one, an engine measures it, store.py evaluates it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fairlab.model.scenario import FAIRFLOW, Scenario
from fairlab.net import host
from fairlab.results import plots, store
from fairlab.run import engine
from fairlab.run.job import Job


@dataclass(frozen=True)
class Dumbbell(Job[dict[str, Any]]):
    """A scenario, started at DATE."""

    scenario: Scenario
    date: datetime

    kind = "scenario"

    def to_json(self) -> dict[str, Any]:
        return self.scenario.to_json()

    def duration(self) -> float:
        return self.scenario.seconds

    def build(self) -> None:
        build_programs(self.scenario)

    def read(self, work: Path) -> dict[str, Any]:
        result = store.evaluate(work, self.date, host.tree())
        store.write_flent(work, result)
        plots.draw(work, result)
        return result


def build_programs(scenario: Scenario) -> None:
    """Build the programs of the tree that a scenario needs, where there is a tree."""
    targets = ["traffic"] if scenario.background or scenario.sender == FAIRFLOW else []
    engine.make(targets, {qdisc.kind for qdisc in scenario.qdiscs})
