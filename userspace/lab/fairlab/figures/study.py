# SPDX-License-Identifier: GPL-2.0
"""A study: the runs, the data and the measurements behind one published figure.

A study has cases; each is run once per seed.  reduce() keeps a few numbers of each run.  The plot
and what is measured for claims are made from the stored numbers of all runs, so they can be made
again without a run.  This module runs nothing: a case can run itself (Runnable), and gallery.py
decides when.

What the source says, and how a measurement is judged, is data (registry.py); the judgement itself
is in verdict.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

# The stored numbers of one run: small, serialisable as JSON.
Numbers = dict[str, Any]
# Name of a case -> the numbers of its runs, one per seed.
Data = Mapping[str, Sequence[Numbers]]
# The values of a claim's parts, by the parts' names, or of its only part; one for each seed.
Measured = Mapping[str, Sequence[float]] | Sequence[float]


class Runnable(Protocol):
    """One run, with its seed."""

    def to_json(self) -> dict[str, Any]:
        """All parameters that decide the result."""

    def sources(self) -> tuple[str, ...]:
        """The code that decides the result: files and directories of the project's tree."""

    def run(self, work: Path, engine: Engine, progress: Progress) -> Any:
        """Run in a guest or on this host, with the scratch directory WORK; the result for reduce().

        Raise CannotRunError if the result cannot be trusted.
        """

    def conditions(self, work: Path) -> dict[str, Any]:
        """The kernel, modules and tools that the run in WORK used."""


@dataclass(frozen=True)
class Case:
    """A run for each seed, with a name that is unique in the study."""

    name: str
    what: Runnable
    #: the study's own seeds end with this one; those that a user chooses do not
    last_seed: int | None = None


@dataclass(frozen=True)
class Table:
    """A table of numbers below the figure."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


# A row of a table, by the heads of its columns.
Row = dict[str, str]


class Study(ABC):
    """A published figure."""

    name: str
    title: str
    source: str  # where it is published
    setting: str  # the published setting
    assumptions: tuple[str, ...] = ()  # where the source does not give the setting
    #: Seeds of a full set.  Student's factor of the intervals is 2.8 with five, 12.7 with two.
    count_of_seeds = 5
    #: Seeds of those cases whose claims are inconclusive with a full set (Gallery.runs()).
    most_seeds = 10

    @abstractmethod
    def cases(self, quick: bool, seed: int) -> list[Case]:
        """The cases for SEED; QUICK: a short subset that shows that the study works."""

    def seeds(self, quick: bool) -> Sequence[int]:
        """The seeds of the runs, unless a user chooses others."""
        return range(1, 2 if quick else self.count_of_seeds + 1)

    @abstractmethod
    def reduce(self, case: Case, outcome: Any) -> Numbers:
        """The numbers of a run to store."""

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """The values for the study's registered claims, by their names; without those that a QUICK
        set has no runs for.
        """
        del data, quick
        return {}

    @abstractmethod
    def draw(self, figure: Any, data: Data) -> None:
        """Draw the data on a matplotlib Figure."""

    def rows(self, data: Data) -> Iterator[Row]:
        """The rows of a table below the figure, all with the same columns."""
        del data
        yield from ()

    def table(self, data: Data) -> Table | None:
        """The table of rows(); None without any."""
        found = list(self.rows(data))
        rows = tuple(tuple(row.values()) for row in found)
        return Table(tuple(found[0]), rows) if found else None
