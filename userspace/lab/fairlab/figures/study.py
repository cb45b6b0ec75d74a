# SPDX-License-Identifier: GPL-2.0
"""A study: a published figure, and what it takes to see whether it comes out here too.

A study has cases, each of which is run once for each seed.  Of each run only a few numbers are
kept (reduce()); from those of all runs, claims are made and the figure is drawn, so both can be
done again at any time without running anything.  Nothing here runs anything either: what a case
is, it knows how to run itself (Runnable), and gallery.py does when.

A claim is what the source says, what came out here, and how far apart the two may be.  Where the
source has a number the tolerance is one; where it only has the shape of a curve, or a word such as
"fair", the tolerance is our reading of it, in words, and still can fail.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

# Of one run: small, and as JSON can hold it.
Numbers = dict[str, Any]
# Of all runs: a case's name -> its numbers, one for each seed.
Data = Mapping[str, Sequence[Numbers]]


class Runnable(Protocol):
    """One run, whole: with its seed."""

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes out, but for the code."""

    def sources(self) -> tuple[str, ...]:
        """What else decides it: files and directories of the project's tree."""

    def run(self, work: Path, engine: Engine, progress: Progress) -> Any:
        """Run it, in a guest or here, with WORK to write to; what came out, for reduce().

        Raise CannotRunError if it is not to be trusted.
        """

    def conditions(self, work: Path) -> dict[str, Any]:
        """What the run in WORK ran on: kernel, modules, tools."""


@dataclass(frozen=True)
class Case:
    """One thing to be run, under a name that is its own within the study."""

    name: str
    what: Runnable


@dataclass(frozen=True)
class Claim:
    """What the source says, and what is the case here."""

    text: str
    published: str
    ours: str
    tolerance: str
    holds: bool
    reason: str = ""  # the likely one, if it does not hold


@dataclass(frozen=True)
class Table:
    """Numbers worth showing beside the figure."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Study(ABC):
    """A published figure."""

    name: str
    title: str
    source: str  # where it is published
    setting: str  # how it was made there
    assumptions: tuple[str, ...] = ()  # where the source is silent

    @abstractmethod
    def cases(self, quick: bool, seed: int) -> list[Case]:
        """What is to be run with a SEED; QUICK: enough of it to see that it works."""

    def seeds(self, quick: bool) -> range:
        """With which seeds."""
        return range(1, 2 if quick else 3)

    @abstractmethod
    def reduce(self, case: Case, outcome: Any) -> Numbers:
        """What is kept of a run."""

    @abstractmethod
    def claims(self, data: Data, quick: bool) -> list[Claim]:
        """What came out, beside what is published."""

    @abstractmethod
    def draw(self, figure: Any, data: Data) -> None:
        """Draw it all on a matplotlib Figure."""

    def table(self, data: Data) -> Table | None:
        """Numbers to be shown beside the figure."""
        del data
        return None
