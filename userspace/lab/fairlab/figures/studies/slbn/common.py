# SPDX-License-Identifier: GPL-2.0
"""Numbers and plots that the studies of SLBN on the kernel share."""

import statistics
from collections.abc import Sequence
from typing import Any

from fairlab.figures.studies.forms import COMMIT, COMMIT_LABEL, PAPER
from fairlab.figures.study import Numbers, Study
from fairlab.slbn.mesh import Mesh
from fairlab.slbn.sessions import Recording
from fairlab.slbn.sessions_analysis import Comparison, summary

SOURCE = "Mozo, López-Presa, Fernández Anta: SLBN, NCA 2012"
GBIT = 1_000_000_000
STEP = 0.05
#: Packets of the paper's experiment 1b.
PACKET = 2000
MEAN, LOW, HIGH, LEAST, MOST = range(5)

RATES, QUEUES = "rates", "queues"
COMMON = (
    "Sources are routers, destinations hosts behind routers, both drawn at random; shortest paths"
    " by delay; delays are those of light in fibre over 1.5 times the distance.",
    "A random pause of 2.5 to 7.5 ms between two cycles of a session, and the demand as a link of"
    " its own (docs/protocol.md): the paper has neither, but allows for a pause.",
)


class OneForm(Study):
    """A study that runs one form of SLBN, which its claims are about."""

    figure: str  # the name, with the paper's form
    subject: str  # the title, but for the form

    def __init__(self, form: str) -> None:
        self.form = form
        self.label = COMMIT_LABEL if form == COMMIT else form
        self.name = self.figure if form == PAPER else f"{self.figure}-commit"
        self.title = f"{self.label}: {self.subject}"


def longest_ms(mesh: Mesh) -> float:
    """The longest RTT between two nodes [ms]."""
    pairs = [(a, b) for a in mesh.nodes for b in mesh.nodes if a != b]
    return max(mesh.round_trip_us(a, b) for a, b in pairs) / 1000


def numbers_of(run: Recording) -> Numbers:
    """The stored numbers of a run."""
    comparison, end = Comparison(run), run.plan.seconds
    times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
    seen = [comparison.errors(when) for when in times]
    settled = comparison.settled(comparison.last_change, end)
    queues, peaks = comparison.queue_ms(), comparison.control_peaks()
    return {
        "times": times,
        "sources": [summary(errors.sessions) for errors in seen],
        "links": [summary(errors.links) for errors in seen],
        "waiting": [errors.waiting for errors in seen],
        "sessions": len(run.last),
        "last_change": round(comparison.last_change, 4),
        "settled": None if settled is None else round(settled, 4),
        "longest_ms": round(longest_ms(run.plan.mesh), 2),
        "bits_off": round(comparison.bits_off, 2),
        "part_off": comparison.part_off,
        "bits_over": comparison.bits_over,
        "overshoot": round(comparison.overshoot, 6),
        "control": round(comparison.control_share(end - 1, end), 5),
        "peaks": [[round(when, 3), round(part, 5)] for when, part in peaks],
        "link_control": round(max(part for _, part in peaks), 5),
        "queue": [[round(when, 3), round(longest, 3)] for when, longest in queues],
        "rate": round(statistics.fmean(rate for rate, _ in comparison.final_rates.values())),
        "sent": run.sent,
    }


def panels(figure: Any, count: int) -> list[Any]:
    """COUNT panels in a column with a common time axis."""
    figure.set_size_inches(8, 1 + 2.1 * count)
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)
    found = [row[0] for row in axes]
    found[-1].set_xlabel("seconds")
    return found


def draw_errors(axis: Any, runs: Sequence[Numbers], key: str, label: str, colour: str) -> None:
    """The mean with bars from the 10th to the 90th percentile; a line for each run."""
    for n, run in enumerate(runs):
        points = [(t, one) for t, one in zip(run["times"], run[key], strict=True) if one]
        times = [t for t, _ in points]
        means = [one[MEAN] for _, one in points]
        low = [one[MEAN] - one[LOW] for _, one in points]
        high = [one[HIGH] - one[MEAN] for _, one in points]
        # The mean may lie outside of the percentiles.
        bars = [[max(0, v) for v in low], [max(0, v) for v in high]]
        axis.errorbar(
            times, means, yerr=bars if n == 0 else None, color=colour, linewidth=1.2,
            elinewidth=0.7, capsize=2, alpha=1 if n == 0 else 0.5,
            label=label if n == 0 else None,
        )  # fmt: skip
    axis.axhline(0, color="grey", linewidth=0.6)
    axis.grid(alpha=0.25)


def within(run: Numbers, key: str, begin: float, end: float) -> list[list[float]]:
    """The summaries of KEY from BEGIN to END [s]."""
    pairs = zip(run["times"], run[key], strict=True)
    return [one for when, one in pairs if begin <= when <= end and one]


def milliseconds(seconds: float | None) -> str:
    return "not at all" if seconds is None else f"{1000 * seconds:.0f} ms"
