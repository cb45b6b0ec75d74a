# SPDX-License-Identifier: GPL-2.0
"""Throughput, queue length and loss by buffer size."""

from itertools import pairwise
from statistics import fmean
from typing import Any

from fairlab.figures.studies.bic.common import (
    AIMD,
    BIC,
    KINDS,
    MEGA,
    MTU,
    RENO,
    RTT,
    SLIDES,
    WIDTH,
    Kind,
    axis_values,
    bdp,
    curves,
    kinds_of,
    long_flows,
    values_of,
)
from fairlab.figures.studies.spread import spread
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome


class Buffer(Study):
    """The effect of the buffer size (slides 42 to 44)."""

    name = "bic-buffer"
    title = "Throughput, queue length and loss by buffer size"
    source = f"{SLIDES}, slides 42 to 44"
    setting = (
        "Three figures without any text: throughput, queue size and packet loss by buffer size."
    )
    RATE, QUICK_RATE = 622, 155
    BUFFERS = (0.03, 0.1, 0.3, 1.0)  # of the bandwidth-delay product
    SECONDS, QUICK_SECONDS, WARMUP = 40, 20, 10
    LEEWAY = 0.02
    SLOWLY = (
        "five Reno flows grow by five packets per round trip, in 40 s by a quarter of the largest"
        " buffer: their queue is still that of slow start"
    )
    assumptions = (
        "The whole setting is ours: 622 Mbit/s, drop-tail, buffers of 0.03 to 1 BDP, 5 flows, RTT"
        " 100 ms, packets of 1500 bytes, 40 s without the first 10.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        kinds = (RENO, BIC) if quick else KINDS
        buffers = (self.BUFFERS[0], self.BUFFERS[-1]) if quick else self.BUFFERS
        mega = self.QUICK_RATE if quick else self.RATE
        seconds = self.QUICK_SECONDS if quick else self.SECONDS
        return [
            Case(f"{kind.key}-{part:g}", self.experiment(kind, part, mega, seconds, seed))
            for part in buffers
            for kind in kinds
        ]

    def experiment(self, kind: Kind, part: float, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        return Experiment(
            rate=rate,
            buffer=max(1, round(part * bdp(rate, RTT))),
            groups=(long_flows(kind, "a", 5),),
            seconds=seconds,
            warmup=self.WARMUP,
            seed=seed,
            mtu=MTU,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        waiting = float(outcome.within("backlog_packets").mean())
        return {
            "throughput": round(sum(outcome.goodputs("a")) / what.rate, 5),
            "utilisation": round(outcome.utilisation, 4),
            "queue": round(waiting / bdp(what.rate, RTT), 5),
            "filled": round(waiting / what.buffer, 4),
            "loss": outcome.loss,
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        parts = axis_values(data)
        drawn = "a figure without values"
        for kind in kinds_of(data):
            used, queue = (
                [fmean(values_of(data, f"{kind.key}-{part:g}", key)) for part in parts]
                for key in ("throughput", "queue")
            )
            pairs = list(pairwise(used))
            found += [
                Claim(
                    f"{kind.label}: a larger buffer does not reduce throughput",
                    f"{drawn} (slide 42)",
                    ", ".join(f"{100 * share:.0f} %" for share in used),
                    f"never lower by more than {100 * self.LEEWAY:.0f} % of the link",
                    all(b >= a - self.LEEWAY for a, b in pairs),
                    basis="words",
                ),
                Claim(
                    f"{kind.label}: a larger buffer has a longer queue",
                    f"{drawn} (slide 43)",
                    ", ".join(f"{value:.3f} BDP" for value in queue),
                    "each longer than the previous one",
                    all(b > a for a, b in pairwise(queue)),
                    self.SLOWLY if kind is RENO else "",
                    basis="words",
                ),
            ]
        for part in parts:
            losses = {
                k.label: fmean(values_of(data, f"{k.key}-{part:g}", "loss")) for k in kinds_of(data)
            }
            most = AIMD.label if AIMD.label in losses else BIC.label
            found.append(
                Claim(
                    f"{most} loses the most and Reno the least, buffer {part:g} BDP",
                    f"{drawn} (slide 44); as the response functions predict",
                    ", ".join(f"{label} {loss:.1e}" for label, loss in losses.items()),
                    "in this order",
                    losses[most] == max(losses.values())
                    and losses[RENO.label] == min(losses.values()),
                    basis="words",
                )
            )
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 7.6)
        panels = figure.subplots(3, 1, sharex=True)
        for axis in panels:
            axis.set_xscale("log")
        panels[1].set_yscale("log")
        panels[2].set_yscale("log")
        least = min(min(values_of(data, name, "throughput")) for name in data)
        panels[0].set_ylim(100 * least - 5, 100)
        for axis, key, scale, floor, words in (
            (panels[0], "throughput", 100, 0.0, "throughput\n(% of the link)"),
            (panels[1], "queue", 1, 1e-4, "mean queue\n(BDP)"),
            (panels[2], "loss", 1, 1e-7, "loss ratio\n(at the edge: none)"),
        ):
            values = [value for name in data for value in values_of(data, name, key)]
            if floor:
                axis.set_ylim(max(floor, min(values) / 2), max(2 * max(values), 10 * floor))
            curves(axis, data, key, scale, floor)
            axis.set_ylabel(words)
        parts = axis_values(data)
        # A queue is never longer than its buffer.
        panels[1].plot(parts, parts, color="black", linestyle=":", linewidth=1)
        panels[1].annotate("full", (parts[0], parts[0]), (2, 6), textcoords="offset points")
        panels[2].set_xticks(parts, [f"{part:g}" for part in parts])
        panels[2].minorticks_off()
        panels[2].set_xlabel("buffer (BDP)")

    def table(self, data: Data) -> Table:
        rows = [
            (
                f"{part:g}",
                kind.label,
                spread([100 * run["throughput"] for run in runs], 1),
                spread([100 * run["filled"] for run in runs], 0),
                f"{fmean(run['loss'] for run in runs):.1e}",
            )
            for part in axis_values(data)
            for kind in kinds_of(data)
            if (runs := data.get(f"{kind.key}-{part:g}", ()))
        ]
        columns = ("buffer, BDP", "protocol", "throughput, %", "buffer occupancy, %", "loss")
        return Table(columns, tuple(rows))
