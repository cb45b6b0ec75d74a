# SPDX-License-Identifier: GPL-2.0
"""The measures of a comparison: as text, and where our stacks are worse, or better, than others."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fairlab.compare import sizes
from fairlab.compare.stacks import OURS, split_case
from fairlab.figures.study import Data, Numbers
from fairlab.results import statistics


class Measure:
    """A number of each run: its key, its name, and whether more of it is better."""

    def __init__(self, key: str, text: str, digits: int, better: int, some: bool = False) -> None:
        """SOME: it is shown if some of the cases have it."""
        self.key, self.text, self.digits, self.better = key, text, digits, better
        self.some = some

    def of(self, run: Numbers) -> float | None:
        """The value of a run; None if it has none."""
        value: Any = run
        for part in self.key.split("."):
            # Runs that were stored before a measure was added lack it.
            value = value.get(part) if value is not None else None
        return None if value is None else float(value)

    def values(self, runs: Sequence[Numbers]) -> list[float]:
        return [value for run in runs if (value := self.of(run)) is not None]

    def pairs(
        self, ours: Sequence[Numbers], others: Sequence[Numbers]
    ) -> tuple[list[float], list[float]]:
        """The values of runs with the same seed, of seeds for which both have one."""
        both = [(self.of(a), self.of(b)) for a, b in zip(ours, others, strict=False)]
        known = [(a, b) for a, b in both if a is not None and b is not None]
        return [a for a, _ in known], [b for _, b in known]


MORE, LESS = 1, -1
MEASURES = (
    Measure("goodput", "goodput, Mbit/s", 1, MORE),
    Measure("goodput_tcp", "goodput of TCP, Mbit/s", 1, MORE),
    Measure("start", "goodput in the warm-up, Mbit/s", 1, MORE),
    Measure("maxmin", "max-min goodput, %", 1, MORE),
    Measure("jain", "Jain index", 3, MORE),
    Measure("least", "flow with the least of its fair goodput, %", 1, MORE),
    Measure("most", "flow with the most of its fair goodput, %", 1, LESS),
    *(
        Measure(f"completion.{name}.{key}", f"FCT {name}, {text}, ms", 0, LESS)
        for name, _ in sizes.CLASSES
        for key, text in (("mean", "mean"), ("p99", "p99"))
    ),
    Measure("slowdown.mean", "slowdown, mean", 2, LESS),
    Measure("slowdown.p99", "slowdown, p99", 2, LESS),
    Measure("unfinished", "flows unfinished", 1, LESS),
    Measure("delay50", "queue delay p50, ms", 1, LESS),
    Measure("delay99", "queue delay p99, ms", 1, LESS),
    *(
        Measure(
            f"waits.{band}.{key}", f"wait of {band} packets at a link, {text}, ms", 2, LESS, True
        )
        for band in ("assigned", "new", "unassigned")
        for key, text in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
    ),
    Measure("udp50", "UDP delay p50, ms", 1, LESS),
    Measure("udp99", "UDP delay p99, ms", 1, LESS),
    Measure("loss", "loss, links and pacers, %", 2, LESS),
    Measure("loss_tcp", "loss of TCP, %", 3, LESS),
    Measure("loss_below", "loss of UDP below its share, %", 3, LESS),
    Measure("retransmits", "retransmitted, %", 2, LESS),
    Measure("wasted", "wasted upstream, %", 2, LESS),
)


def shown(data: Data) -> list[Measure]:
    """The measures that all cases have; those that are 0 everywhere say nothing.

    Waits of bands are shown if links of any case have bands.
    """
    found = []
    for measure in MEASURES:
        every = [measure.values(runs) for runs in data.values()]
        if (any(every) if measure.some else all(every)) and any(
            value for values in every for value in values
        ):
            found.append(measure)
    return found


def text_of(measure: Measure, runs: Sequence[Numbers]) -> str:
    """The mean of a measure and half of its 95 % interval."""
    values = measure.values(runs)
    if not values:
        return "–"
    mean, half = statistics.interval(values)
    text = f"{mean:.{measure.digits}f}"
    return text if half is None else f"{text} ± {half:.{measure.digits}f}"


def label(case: str, data: Data) -> str:
    """A case as a row's name: the stack, and the congestion control if there are several."""
    stack, cc = split_case(case)
    return stack if len({split_case(other)[1] for other in data}) == 1 else f"{stack} {cc}"


def losses(data: Data) -> list[str]:
    """Where our stacks are worse than another stack under the same congestion control.

    Worse: runs with the same seed differ (paired t-test), at 5 % for all tests of the workload
    together (Holm).
    """
    measures = compared(data)
    tests: dict[tuple[str, str, str], float] = {}
    for case in ours(data):
        for measure in measures:
            for other in rivals(case, data):
                mine, theirs = measure.pairs(data[case], data[other])
                if len(mine) > 1:
                    tests[case, measure.key, other] = statistics.p_value(mine, theirs)
    sure = statistics.holm(tests)
    return [line(case, data, measures, sure) for case in ours(data)]


def verdicts(data: Data, own: str, other: str) -> dict[str, list[str]]:
    """Each measure of the case OWN beside that of the case OTHER: better, worse or level.

    Level: no difference is shown by a paired t-test at 5 % for all measures together (Holm).
    """
    measures = compared({case: data[case] for case in (own, other)})
    pairs = {m.key: m.pairs(data[own], data[other]) for m in measures}
    measures = [m for m in measures if pairs[m.key][0]]
    sure = statistics.holm(
        {key: statistics.p_value(*pair) for key, pair in pairs.items() if len(pair[0]) > 1}
    )
    found: dict[str, list[str]] = {"better": [], "worse": [], "level": []}
    for measure in measures:
        mine, theirs = (fmean(values) for values in pairs[measure.key])
        name = "level"
        if measure.key in sure:
            name = "better" if (mine - theirs) * measure.better > 0 else "worse"
        digits = measure.digits
        found[name].append(f"{measure.text} {mine:.{digits}f} ({theirs:.{digits}f})")
    return found


def all_verdicts(data: Data) -> dict[str, dict[str, dict[str, list[str]]]]:
    """verdicts() of each of our cases beside each other stack; none of a single seed."""
    return {
        label(case, data): {
            label(other, data): verdicts(data, case, other)
            for other in rivals(case, data)
            if len(data[other]) == len(data[case]) > 1
        }
        for case in ours(data)
    }


def compared(data: Data) -> list[Measure]:
    """The measures of which cases are compared: those that all have."""
    return [measure for measure in shown(data) if not measure.some]


def ours(data: Data) -> list[str]:
    """The cases of our stacks."""
    return [case for case in data if split_case(case)[0] in OURS]


def rivals(case: str, data: Data) -> list[str]:
    """The cases to compare with: other stacks under the same congestion control."""
    _, cc = split_case(case)
    return [
        other
        for other in data
        if other != case and split_case(other)[1] == cc and not other.startswith("slbn")
    ]


def line(case: str, data: Data, measures: list[Measure], sure: set[tuple[str, str, str]]) -> str:
    """Where CASE is worse; SURE: the tests that found a difference."""
    runs = data[case]
    if len(runs) == 1:
        return f"{label(case, data)}: with one seed, differences may be due to chance"
    found = []
    for measure in measures:
        mean, digits = fmean(measure.values(runs)), measure.digits
        means = {
            split_case(other)[0]: fmean(measure.values(data[other]))
            for other in rivals(case, data)
            if (case, measure.key, other) in sure
        }
        best = max(means, key=lambda name: means[name] * measure.better, default="")
        if best and (mean - means[best]) * measure.better < 0:
            found.append(f"{measure.text} ({mean:.{digits}f}; {best} {means[best]:.{digits}f})")
    text = "; ".join(found) or "nothing that the runs show"
    return f"{label(case, data)} is worse than the best other stack in: {text}"
