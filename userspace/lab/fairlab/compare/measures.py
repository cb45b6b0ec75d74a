# SPDX-License-Identifier: GPL-2.0
"""The measures of a comparison: as text, and where drr_fq and slbn are worse than others."""

from collections.abc import Sequence
from typing import Any

from fairlab.compare import sizes, statistics
from fairlab.compare.stacks import OURS, split_case
from fairlab.figures.study import Data, Numbers


class Measure:
    """A number of each run: its key, its name, and whether more of it is better."""

    def __init__(self, key: str, text: str, digits: int, better: int) -> None:
        self.key, self.text, self.digits, self.better = key, text, digits, better

    def of(self, run: Numbers) -> float | None:
        """The value of a run; None if it has none."""
        value: Any = run
        for part in self.key.split("."):
            value = value[part] if value is not None else None
        return None if value is None else float(value)

    def values(self, runs: Sequence[Numbers]) -> list[float]:
        return [value for run in runs if (value := self.of(run)) is not None]


MORE, LESS = 1, -1
MEASURES = (
    Measure("goodput", "goodput, Mbit/s", 1, MORE),
    Measure("start", "goodput in the warm-up, Mbit/s", 1, MORE),
    Measure("jain", "Jain index", 3, MORE),
    *(
        Measure(f"completion.{name}.{key}", f"FCT {name}, {text}, ms", 0, LESS)
        for name, _ in sizes.CLASSES
        for key, text in (("mean", "mean"), ("p99", "p99"))
    ),
    Measure("unfinished", "flows unfinished", 1, LESS),
    Measure("delay50", "queue delay p50, ms", 1, LESS),
    Measure("delay99", "queue delay p99, ms", 1, LESS),
    Measure("loss", "loss, %", 2, LESS),
    Measure("retransmits", "retransmitted, %", 2, LESS),
    Measure("wasted", "wasted upstream, %", 2, LESS),
)


def shown(data: Data) -> list[Measure]:
    """The measures that all cases have; those that are 0 everywhere say nothing."""
    found = []
    for measure in MEASURES:
        every = [measure.values(runs) for runs in data.values()]
        if all(every) and any(value for values in every for value in values):
            found.append(measure)
    return found


def text_of(measure: Measure, runs: Sequence[Numbers]) -> str:
    """The mean of a measure and half of its 95 % interval."""
    mean, half = statistics.interval(measure.values(runs))
    text = f"{mean:.{measure.digits}f}"
    return text if half is None else f"{text} ± {half:.{measure.digits}f}"


def label(case: str, data: Data) -> str:
    """A case as a row's name: the stack, and the congestion control if there are several."""
    stack, cc = split_case(case)
    return stack if len({split_case(other)[1] for other in data}) == 1 else f"{stack} {cc}"


def losses(data: Data) -> list[str]:
    """Where drr_fq and slbn are worse than another stack under the same congestion control.

    Worse: the mean of the differences of runs with the same seed is not 0 (95 %).
    """
    lines = []
    for case, runs in data.items():
        ours, cc = split_case(case)
        if ours not in OURS:
            continue
        found = []
        for measure in shown(data):
            worst: tuple[float, str, float] | None = None
            for other, beside in data.items():
                name, same = split_case(other)
                if same != cc or name == ours or name.startswith("slbn"):
                    continue
                mine, theirs = measure.values(runs), measure.values(beside)
                if len(mine) != len(theirs):
                    continue
                gap = statistics.differs(mine, theirs)
                if gap is None or gap * measure.better >= 0:
                    continue
                if worst is None or abs(gap) > worst[0]:
                    worst = abs(gap), name, statistics.interval(theirs)[0]
            if worst:
                mean = statistics.interval(measure.values(runs))[0]
                digits = measure.digits
                found.append(
                    f"{measure.text} ({mean:.{digits}f}; {worst[1]} {worst[2]:.{digits}f})"
                )
        if len(runs) == 1:
            lines.append(f"{label(case, data)}: with one seed, differences may be due to chance")
            continue
        text = "; ".join(found) or "nothing that the runs show"
        lines.append(f"{label(case, data)} is worse than the best other stack in: {text}")
    return lines
