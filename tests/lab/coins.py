# SPDX-License-Identifier: GPL-2.0
"""Studies for test_gallery.py that toss coins, which needs no guest.

A study counts heads; coins.toml has the claims.  Coins may also be refused, fail or take long,
which the gallery must handle.
"""

import dataclasses
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.figures.study import Case, Data, Measured, Numbers, Study, Table
from fairlab.model.errors import CannotRunError
from fairlab.run.engine import Engine
from fairlab.run.progress import Progress

TOSSES = 1000
SCALE = 100
FAIR, TRICKY = 0.5, 0.7
EDGE = "it stood on its edge"


@dataclass(frozen=True)
class Coin:
    """A coin that shows heads with probability CHANCE."""

    chance: float
    seed: int
    trouble: str = ""

    memory = 100

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def sources(self) -> tuple[str, ...]:
        # In this file's directory, where a test may change them.
        names = ("mint.c", "bend.c") if self.chance == TRICKY else ("mint.c",)
        return tuple(str(Path(__file__).with_name(name)) for name in names)

    def run(self, work: Path, engine: Engine, progress: Progress) -> int:
        assert engine.engine == "virtual" and work.is_dir()
        if self.trouble == "refused":
            raise CannotRunError(EDGE)
        if self.trouble == "broken":
            raise ZeroDivisionError("no coin")
        hurry = Path(__file__).with_name("hurry").exists()
        if self.trouble == "slow" and self.seed > 1 and not hurry:
            time.sleep(60)
        (work / "tossed").write_text("yes")
        draw = random.Random(self.seed)
        return sum(draw.random() < self.chance for _ in range(TOSSES))

    def conditions(self, work: Path) -> dict[str, Any]:
        assert (work / "tossed").read_text() == "yes"
        return {"kernel": {"release": "6.1-coin"}, "table": f"number {self.seed}"}


def share(heads: int) -> float:
    """HEADS as a percentage of all tosses."""
    return SCALE * heads / TOSSES


class Coins(Study):
    """The share of heads."""

    title = "Heads & <tails>"
    source = "Bernoulli: Ars conjectandi (1713)"
    setting = "A table, a coin."
    assumptions: tuple[str, ...] = ("The coin is <thin>.",)

    def __init__(self, name: str, trouble: str = "", most_seeds: int = 3) -> None:
        self.name = name
        self.trouble = trouble
        self.most_seeds = most_seeds

    def seeds(self, quick: bool) -> range:
        return range(1, 2 if quick else 4)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        tricky = [] if quick else [Case("tricky", Coin(TRICKY, seed))]
        return [Case("fair", Coin(FAIR, seed, self.trouble)), *tricky]

    def reduce(self, case: Case, outcome: int) -> Numbers:
        return {"share": share(outcome)}

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        if self.trouble:
            return {}  # without claims
        return {"heads": [numbers["share"] for numbers in data["fair"]]}

    def draw(self, figure: Any, data: Data) -> None:
        axis = figure.subplots()
        for name, runs in data.items():
            axis.plot([numbers["share"] for numbers in runs], label=name)
        axis.legend()

    def table(self, data: Data) -> Table | None:
        rows = tuple((name, json.dumps([n["share"] for n in own])) for name, own in data.items())
        return Table(("coin", "heads <%>"), rows)


STUDIES = (
    Coins("fair-coin"),
    Coins("bent-coin"),
    Coins("edge-coin", "refused"),
    Coins("lost-coin", "broken"),
    Coins("slow-coin", "slow"),
)
