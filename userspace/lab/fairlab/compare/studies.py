# SPDX-License-Identifier: GPL-2.0
"""The comparisons as studies, one for each workload: their runs, table and picture.

So the gallery runs and stores them, several at a time, and Snakemake can run them on a cluster:
`--config studies=userspace/lab/fairlab/compare/studies.py`.
"""

from typing import Any

from fairlab.compare.measures import LESS, label, shown, text_of
from fairlab.compare.plan import Plan, Workload
from fairlab.compare.stacks import CCS, OURS, STACKS, case_name, cases, split_case
from fairlab.compare.workloads import WORKLOADS
from fairlab.figures.study import Case, Data, Numbers, Study, Table
from fairlab.results import statistics
from fairlab.results.plots import COLOURS, GREY


class Comparison(Study):
    """A workload on stacks, under congestion controls."""

    source = "this project"
    count_of_seeds = 10

    def __init__(
        self,
        workload: Workload,
        stacks: tuple[str, ...] = tuple(STACKS),
        ccs: tuple[str, ...] = CCS,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.workload = workload
        self.name = workload.name
        self.title = workload.title
        senders = f"{workload.senders} sending hosts" if workload.senders > 1 else "one host"
        self.setting = (
            f"a FIFO has {workload.buffer} packets; {workload.seconds:g} s; at each node {senders}"
        )
        self.chosen = cases(stacks, ccs)
        #: cases that this kernel cannot run
        self.without = without

    def cases(self, quick: bool, seed: int) -> list[Case]:
        del quick
        return [
            Case(name, Plan.of(self.workload, stack, cc, seed))
            for stack, cc in self.chosen
            if (name := case_name(stack, cc)) not in self.without
        ]

    def reduce(self, case: Case, outcome: Any) -> Numbers:
        del case
        return dict(outcome)

    def table(self, data: Data) -> Table:
        measures = shown(data)
        rows = tuple(
            (label(case, data), *(text_of(measure, runs) for measure in measures))
            for case, runs in data.items()
        )
        return Table(("stack", *(measure.text for measure in measures)), rows)

    def draw(self, figure: Any, data: Data) -> None:
        """A panel for each measure, a row for each case: all runs, their mean and interval."""
        measures = shown(data)
        columns = 4 if len(measures) > 6 else 3
        lines = -(-len(measures) // columns)
        figure.set_size_inches(3.1 * columns, lines * (0.9 + 0.22 * len(data)))
        axes = figure.subplots(lines, columns, sharey=True, squeeze=False).flat
        names = [label(case, data) for case in data]
        for axis, measure in zip(axes, measures, strict=False):
            for row, (case, runs) in enumerate(data.items()):
                values = measure.values(runs)
                if not values:
                    continue
                mean, half = statistics.interval(values)
                colour = COLOURS[1] if split_case(case)[0] in OURS else COLOURS[0]
                axis.plot(values, [row] * len(values), "|", color=GREY, markersize=5)
                axis.errorbar(mean, row, xerr=half, fmt="o", color=colour, markersize=4, capsize=3)
            axis.set_title(measure.text, fontsize=9, loc="left")
            axis.set_yticks(range(len(names)), names)
            axis.set_ylim(len(names) - 0.5, -0.5)
            axis.tick_params(labelsize=8)
            low, high = axis.get_xlim()
            if measure.better == LESS or low < 0:
                axis.set_xlim(left=0)
        for axis in list(figure.axes)[len(measures) :]:
            axis.set_visible(False)
        figure.suptitle(self.title, fontsize=10, x=0.01, ha="left")


STUDIES = tuple(Comparison(workload) for workload in WORKLOADS.values())
