# SPDX-License-Identifier: GPL-2.0
"""GAIMD(0.31, 0.875) against as many Reno flows."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fairlab.figures.studies.gaimd.common import (
    FAST,
    GAIMD,
    LOOKS,
    PLACE,
    QUEUES,
    RED,
    SLOW,
    SOURCE,
    STACK,
    TCP,
    check_use,
    pair,
    variation,
)
from fairlab.figures.studies.spread import spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.results.outcome import Outcome

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
MOST_SHOWN = 2.5


def normalised(outcome: Outcome) -> dict[str, list[float]]:
    """Each flow's goodput, divided by the mean of all."""
    rates = {kind: outcome.goodputs(kind) for kind in (TCP, GAIMD)}
    mean = statistics.fmean([*rates[TCP], *rates[GAIMD]])
    return {kind: [round(one / mean, 4) for one in found] for kind, found in rates.items()}


def starved(runs: Sequence[Numbers], kind: str) -> float:
    """The percentage of the flows of KIND with less than a fiftieth of their share.

    Retransmissions by timeout meet a full queue; packets clocked by ACKs, which follow a departure,
    do not.
    """
    flows: list[float] = [one for run in runs for one in run[kind]]
    return 100 * sum(one < 0.02 for one in flows) / len(flows)


def mean_variation(runs: Sequence[Numbers], kind: str) -> str:
    return f"{statistics.fmean(variation(run[kind]) for run in runs):.2f}"


class Friendliness(Study):
    """TCP friendliness (slides 25 to 29)."""

    name = "gaimd-friendliness"
    title = "GAIMD(0.31, 0.875) against as many Reno flows"
    source = f"{SOURCE}, slides 25 to 29"
    setting = (
        "n flows of Reno and n of GAIMD(0.31, 0.875), n from 1 to 64, over 1.5 or 15 Mbit/s, with"
        " drop-tail or RED; 120 s. Each flow's throughput, divided by the mean of all."
    )
    assumptions = (
        *PLACE,
        *STACK,
        "Throughput is of acknowledged data from 20 s on. With drop-tail and many flows some"
        " starve: their retransmissions by timeout meet a full queue. The claim is about means.",
    )
    quick_numbers = (1, 8, 32)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(f"{bps // 1000}-{queue}-{n}", pair(n, bps, queue, 40.0 if quick else 120.0, seed))
            for bps in ((SLOW,) if quick else (SLOW, FAST))
            for queue in ((RED,) if quick else QUEUES)
            for n in (self.quick_numbers if quick else NUMBERS)
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        check_use(outcome)
        found: Numbers = {"loss": round(outcome.loss, 5)}
        found["utilisation"] = round(outcome.utilisation, 4)
        return found | normalised(outcome)

    def groups(self, data: Data) -> dict[tuple[int, str], dict[int, Sequence[Numbers]]]:
        """The runs by link and queue, then by n."""
        found: dict[tuple[int, str], dict[int, Sequence[Numbers]]] = {}
        for name, runs in data.items():
            kbit, queue, n = name.split("-")
            found.setdefault((1000 * int(kbit), queue), {})[int(n)] = runs
        return found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """GAIMD's mean throughput, divided by that of all."""
        return {
            f"{bps // 1000}-{queue}": {
                f"n = {n}": [statistics.fmean(run[GAIMD]) for run in runs]
                for n, runs in by_n.items()
            }
            for (bps, queue), by_n in self.groups(data).items()
        }

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for (bps, queue), by_n in self.groups(data).items():
            for n, runs in by_n.items():
                yield {
                    "bottleneck": f"{bps / 1e6:g} Mbit/s, {QUEUES[queue]}",
                    "flows": f"{n} + {n}",
                    "dropped": f"{100 * statistics.fmean(run['loss'] for run in runs):.1f} %",
                    "Reno": spread([statistics.fmean(run[TCP]) for run in runs]),
                    "GAIMD": spread([statistics.fmean(run[GAIMD]) for run in runs]),
                    "CoV, Reno": mean_variation(runs, TCP),
                    "CoV, GAIMD": mean_variation(runs, GAIMD),
                    "starved flows": f"{starved(runs, TCP):.0f} %, {starved(runs, GAIMD):.0f} %",
                }

    def draw(self, figure: Any, data: Data) -> None:
        """Each flow, and the means, over n: a panel for each link and queue."""
        groups = self.groups(data)
        width = 2 if len(groups) > 1 else 1
        height = -(-len(groups) // width)
        figure.set_size_inches(7.5, 0.6 + 3.1 * height)
        panels = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False)
        for n, ((bps, queue), by_n) in enumerate(groups.items()):
            axis = panels[n // width][n % width]
            for kind, shift in ((TCP, 2**-0.16), (GAIMD, 2**0.16)):
                look: dict[str, Any] = {"color": LOOKS[kind]}
                for number, runs in by_n.items():
                    flows = [one for run in runs for one in run[kind]]
                    for mark, some in (
                        ("o", [one for one in flows if one <= MOST_SHOWN]),
                        ("^", [MOST_SHOWN for one in flows if one > MOST_SHOWN]),
                    ):
                        look |= {"ms": 3 if mark == "o" else 6, "alpha": 0.25, "mec": "none"}
                        axis.plot([number * shift] * len(some), some, mark, zorder=1, **look)
                means = [
                    statistics.fmean(one for run in runs for one in run[kind])
                    for runs in by_n.values()
                ]
                xs = [number * shift for number in by_n]
                axis.plot(xs, means, "-", lw=1.8, zorder=3, color=LOOKS[kind])
                axis.plot(xs, means, "o", ms=5, mec="white", zorder=3, color=LOOKS[kind])
            axis.axhline(1, color="black", lw=1, zorder=2)
            axis.axhspan(0.8, 1.2, color="#f1f1f1", zorder=0, lw=0)
            axis.set_xscale("log", base=2)
            axis.set_xticks(list(by_n), [str(number) for number in by_n])
            axis.minorticks_off()
            axis.set_title(f"{bps / 1e6:g} Mbit/s, {QUEUES[queue]}", loc="left", fontsize=10)
            axis.set_ylim(0, MOST_SHOWN + 0.06)
        for axis in panels[-1]:
            axis.set_xlabel("n flows of each")
        for row in panels:
            row[0].set_ylabel("throughput / mean")
        first = panels[0][0]
        for n, (kind, words) in enumerate(((TCP, "Reno"), (GAIMD, "GAIMD(0.31, 0.875)"))):
            first.text(0.03, 0.92 - 0.09 * n, words, color=LOOKS[kind], transform=first.transAxes)
        first.text(
            0.03,
            0.74,
            "lines: means; dots: flows\n(triangles: more than 2.5)",
            transform=first.transAxes,
            fontsize=8,
        )
