# SPDX-License-Identifier: GPL-2.0
"""Loss of control packets and failure of an agent, with and without ledgers."""

import math
from typing import Any, ClassVar

from fairlab.figures.studies.forms import COMMIT, LINKS, PAPER
from fairlab.figures.studies.slbn.common import (
    COMMON,
    GBIT,
    LEAST,
    MEAN,
    MOST,
    SOURCE,
    STEP,
)
from fairlab.figures.studies.spread import percent
from fairlab.figures.study import Case, Data, Measured, Numbers, Study
from fairlab.results import plots
from fairlab.slbn import abilene, sessions_plan
from fairlab.slbn.sessions import Plan, Recording
from fairlab.slbn.sessions_analysis import Comparison, summary
from fairlab.slbn.sessions_plan import Churn, Loss


class Healing(Study):
    """Rates after loss of control packets, and after the failure of an agent."""

    name = "slbn-healing"
    title = "Loss of control packets and failure of an agent, with and without recovery"
    source = f"{SOURCE}: its assumptions; the ledgers and the memory are this project's"
    setting = (
        "The paper assumes that control packets are not lost and that each session sends a Leave."
        " With epoch 0 and no memory, links keep only the paper's three integers."
    )
    assumptions = (
        "Abilene at 1 Gbit/s: 100 sessions join in 500 ms. Loss: each wire loses 2 % of the control"
        " packets from 2 s to 4 s, while 20 sessions leave, 20 join and 20 change their"
        " demand. Failure: one router's agent is killed at 2 s, with all its sessions.",
        "In both forms sources retransmit unanswered packets.",
        "After the failure, the max-min reference is that of the other sessions.",
        COMMON[0],
    )
    #: the router whose agent is killed: Kansas City is on many paths
    victim = "ksc"
    forms: ClassVar = {"paper": LINKS[PAPER], "healing": LINKS[COMMIT]}
    loss = (2.0, 4.0, 0.02)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = abilene.backbone(GBIT)
        count, end = (30, 7.0) if quick else (100, 10.0)
        some = count // 5
        begin, stop, part = self.loss
        churn = Churn(begin, stop, some, some, some)
        found = []
        for form, links in self.forms.items():
            lossy = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [churn], GBIT, seed),
                end,
                hops=12,
                seed=seed,
                losses=(Loss(begin, stop, part),),
                **links,
            )
            deadly = Plan(
                mesh,
                sessions_plan.burst(mesh, count, 0.5, [], GBIT, seed, spared=self.victim),
                end - 2,
                hops=12,
                seed=seed,
                deaths=((begin, self.victim),),
                **links,
            )
            found += [Case(f"loss-{form}", lossy), Case(f"death-{form}", deadly)]
        return found

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        comparison, end = Comparison(outcome), outcome.plan.seconds
        since = outcome.plan.losses[0].end if outcome.plan.losses else outcome.died[0][0]
        # Not before the last change, which may be during the loss.
        since = max(since, comparison.last_change)
        settled = comparison.settled(since, end)
        times = [round(STEP * n, 3) for n in range(1, round(end / STEP) + 1)]
        seen = [comparison.errors(when) for when in times]
        return {
            "times": times,
            "sources": [summary(errors.sessions) for errors in seen],
            "links": [summary(errors.links) for errors in seen],
            "since": round(since, 4),
            "settled": None if settled is None else round(settled, 4),
            "part_off": comparison.part_off,
            "bits_off": round(comparison.bits_off, 2),
            "bits_over": comparison.bits_over,
            "sessions": len(comparison.final_rates),
            "retries": sum(one[2] for one in outcome.last.values()),
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """The worst source at the end [%]; the time until rates are exact [s]."""
        found: dict[str, Measured] = {}
        for event in ("loss", "death"):
            plain, ours = data[f"{event}-paper"], data[f"{event}-healing"]
            found |= {
                f"{event}-paper": percent([run["part_off"] for run in plain]),
                f"{event}-soon": [
                    math.inf if run["settled"] is None else run["settled"] for run in ours
                ],
                f"{event}-rest": [run["bits_off"] / run["sessions"] for run in ours],
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 5.6)
        axes = figure.subplots(2, 2, sharex="col", sharey="row")
        names = {"paper": "three integers (epoch 0)", "healing": "ledgers and memory (epoch 1 s)"}
        for column, event in enumerate(("loss", "death")):
            for colour, form in zip(plots.COLOURS, self.forms, strict=False):
                runs = data[f"{event}-{form}"]
                for n, run in enumerate(runs):
                    pairs = zip(run["times"], run["sources"], strict=True)
                    points = [(t, one) for t, one in pairs if one]
                    far = [max(-one[LEAST], one[MOST], 1e-4) for _, one in points]
                    times = [t for t, _ in points]
                    style = {"color": colour, "linewidth": 1.1, "alpha": 1 if n == 0 else 0.4}
                    label = names[form] if n == 0 else None
                    axes[0][column].plot(times, far, label=label, **style)
                    pairs = zip(run["times"], run["links"], strict=True)
                    links = [(t, one[MEAN]) for t, one in pairs if one]
                    axes[1][column].plot(*zip(*links, strict=True), label=label, **style)
            begin, stop, _ = self.loss
            for axis in (axes[0][column], axes[1][column]):
                axis.grid(alpha=0.25)
                if event == "loss":
                    axis.axvspan(begin, stop, color="grey", alpha=0.15)
                else:
                    axis.axvline(begin, color="grey", linewidth=0.8)
            axes[0][column].set_yscale("log")
            axes[1][column].set_ylim(-25, 25)
            axes[1][column].set_xlabel("seconds")
        axes[0][0].set_title("2 % of control packets lost (grey)", fontsize=9, loc="left")
        axes[0][1].set_title("an agent fails (line)", fontsize=9, loc="left")
        axes[0][0].set_ylabel("error at the worst source, %\n(or 0.0001)")
        axes[1][0].set_ylabel("mean error at bottlenecks, %")
        axes[0][1].legend(loc="upper right", fontsize=8)
