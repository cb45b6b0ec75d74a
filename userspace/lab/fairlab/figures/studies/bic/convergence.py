# SPDX-License-Identifier: GPL-2.0
"""BIC's binary search after a loss, and convergence of two flows."""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fairlab.figures.studies.bic.common import (
    BIC,
    FRAME,
    MEGA,
    MTU,
    RTT,
    SLIDES,
    WIDTH,
    over,
    values_of,
)
from fairlab.figures.studies.bic.rules import CUT, BicWindow
from fairlab.figures.study import Case, Data, Measured, Numbers, Study
from fairlab.model import headers
from fairlab.model.errors import CannotRunError
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome
from fairlab.results.plots import COLOURS, note
from fairlab.results.statistics import jain

# TCP_CA_Recovery; from here on TCP is recovering from a loss.
RECOVERY = 3


@dataclass(frozen=True)
class Episode:
    """The time between two losses, as rows of samples."""

    begin: int  # the first row after recovery
    end: int  # the row of the next loss
    wmax: float  # the target of the binary search


def episodes(state: Any, ssthresh: Any) -> list[Episode]:
    """The loss-free episodes of a BIC flow, from its samples.

    A loss sets the slow start threshold to 7/8 of the window, rounded down; this gives the window
    at the loss.
    """
    found = []
    search = BicWindow()
    ends = [n for n in range(1, len(state)) if state[n] < RECOVERY <= state[n - 1]]
    for at in ends:
        search.packets = math.ceil(ssthresh[at] / (1 - CUT))
        search.cut()
        end = next((n for n in range(at, len(state)) if state[n] >= RECOVERY), len(state))
        found.append(Episode(at, end, search.wmax))
    return found


def steps_from(window: float, wmax: float, rounds: int) -> list[float]:
    """BIC's window at the start of each round after a loss, without further losses."""
    search = BicWindow(window, wmax)
    found = [window]
    for _ in range(rounds):
        search.grow()
        found.append(search.packets)
    return found


class Convergence(Study):
    """Binary search and convergence (slides 31 to 33)."""

    name = "bic-convergence"
    title = "BIC's window after a loss, and convergence of two flows"
    source = f"{SLIDES}, slides 28 to 33"
    setting = (
        "Sketches without numbers: after a loss the window grows by Smax (additive increase), then"
        " by half of the distance to Wmax (binary search), down to Smin."
    )
    RATE = 155
    OTHER = 60  # Mbit/s of UDP at first
    LEAVES = 15  # s, when UDP ends
    SEARCH_SECONDS = 30
    JOINS = 20  # s, when the second flow starts
    SHARE_SECONDS, QUICK_SHARE_SECONDS = 200, 70
    BUFFER = 0.3
    STEP = 2.0  # s
    assumptions = (
        "155 Mbit/s, RTT 100 ms, drop-tail, buffer 0.3 BDP; packets have 1500 bytes.",
        "Search: one BIC flow beside UDP of 60 Mbit/s, which ends at 15 s, so that the window has"
        " to find a new maximum. TCP_INFO is sampled every 20 ms. Rounds are time divided by TCP's"
        " own RTT; the expected steps are Smax 32, Smin 0.01, and above Wmax 1, 2, 4, 8, 16 and"
        " then 32 packets (the paper's max probing).",
        "Share: a BIC flow that has the link to itself, and a second one that starts at 20 s.",
    )
    WINDOW_TOLERANCE = 0.02

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = self.QUICK_SHARE_SECONDS if quick else self.SHARE_SECONDS
        return [Case("search", self.search(seed)), Case("share", self.share(seconds, seed))]

    def search(self, seed: int) -> Experiment:
        """A flow beside a constant load that ends."""
        packet = MTU - headers.DATAGRAM
        other = Stream("udp", rate=self.OTHER * MEGA, packet=packet, stop=self.LEAVES)
        groups = (BIC.flows("a", 1), Group("other", RTT, (other,)))
        return over(self.RATE, self.BUFFER, groups, self.SEARCH_SECONDS, 5, seed, look=0.02)

    def share(self, seconds: int, seed: int) -> Experiment:
        """Two flows, one after the other."""
        streams = (Stream(BIC.cc), Stream(BIC.cc, start=self.JOINS))
        groups = (Group("a", RTT, streams, settings=BIC.settings),)
        return over(self.RATE, self.BUFFER, groups, seconds, 5, seed)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        if case.name == "search":
            return self.reduce_search(outcome)
        last = outcome.what.seconds
        times, first = outcome.rates("a", 0, self.STEP)
        _, second = outcome.rates("a", 1, self.STEP)
        ends = [outcome.goodput("a", n, last - self.JOINS, last) for n in (0, 1)]
        return {
            "time": [round(float(t), 1) for t in times],
            "rates": [[round(float(v) / 1e6, 2) for v in flow] for flow in (first, second)],
            "ends": [round(value) for value in ends],
            "jain": round(jain(ends), 4),
        }

    def reduce_search(self, outcome: Outcome) -> Numbers:
        import numpy

        rows = outcome.rows["a"]
        time, cwnd = rows["time"] / 1e9, rows["cwnd"]
        tries = []
        for one in episodes(rows["state"], rows["ssthresh"]):
            # The last episode ends with the run. Very short ones tell little.
            if one.end - one.begin < 10 or one.wmax <= cwnd[one.begin]:
                continue
            span = slice(one.begin, one.end)
            took = numpy.diff(time[span]) / (rows["rtt"][span][1:] / 1e6)
            rounds = numpy.concatenate([[0.0], numpy.cumsum(took)])
            start = float(rows["ssthresh"][one.begin])
            wanted = steps_from(start, one.wmax, math.ceil(rounds[-1]))
            # Recovery ends within a round: start at the window of that moment.
            begin = float(numpy.interp(cwnd[one.begin], wanted, range(len(wanted))))
            expected = numpy.interp(rounds + begin, range(len(wanted)), wanted)
            off = numpy.abs(cwnd[span] / expected - 1)
            tries.append((one, rounds + begin, expected, float(off.max())))
        # Show the episode around the end of UDP in which the window grows most.
        near = [found for found in tries if time[found[0].begin] < self.LEAVES + 2]
        if not near:
            raise CannotRunError("no loss before the UDP flow ended: there is no search to show")
        shown_one, rounds, expected, off = max(
            near, key=lambda found: cwnd[found[0].begin : found[0].end].max()
        )
        span = slice(shown_one.begin, shown_one.end)
        return {
            "time": [round(float(t), 2) for t in time[::5]],
            "cwnd": [int(value) for value in cwnd[::5]],
            "span": [round(float(time[n]), 2) for n in (shown_one.begin, shown_one.end - 1)],
            "wmax": round(shown_one.wmax, 1),
            "rounds": [round(float(x), 2) for x in rounds],
            "window": [int(value) for value in cwnd[span]],
            "expected": [round(float(value), 1) for value in expected],
            "off": round(off, 4),
            "episodes": [round(found[3], 4) for found in tries],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        runs = data["search"]
        return {
            "steps": [100 * run["off"] for run in runs],
            "episodes": [
                100 * fmean(off <= self.WINDOW_TOLERANCE for off in run["episodes"]) for run in runs
            ],
            "probing": [max(run["window"]) / run["wmax"] for run in runs],
            "shares": values_of(data, "share", "jain"),
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 8.0)
        whole, step, share = figure.subplots(3, 1)
        for behind, run in reversed(list(enumerate(data["search"]))):
            look = {"alpha": 0.25} if behind else {}
            whole.plot(run["time"], run["cwnd"], color=BIC.colour, linewidth=1.1, **look)
        run = data["search"][0]
        whole.axvspan(*run["span"], color="#f0e442", alpha=0.35, linewidth=0)
        whole.set_ylim(0, 1.2 * max(run["window"]))
        whole.axvline(self.LEAVES, color="black", linestyle=":", linewidth=1)
        note(whole, f"{self.OTHER} Mbit/s of UDP end", (self.LEAVES, 0), (4, 4))
        whole.set(xlabel="seconds", ylabel="window (packets)")
        whole.set_title("one flow", fontsize=10, loc="left")

        step.plot(run["rounds"], run["window"], color=BIC.colour, linewidth=2.4, alpha=0.6)
        step.plot(run["rounds"], run["expected"], color="black", linewidth=1, linestyle="--")
        step.axhline(run["wmax"], color="black", linestyle=":", linewidth=1)
        note(step, "Wmax", (run["rounds"][-1], run["wmax"]), (0, -12), ha="right")
        low, high = min(run["window"]), max(run["window"])
        # Leave room for labels below.
        step.set_ylim(low - 0.2 * (high - low), high + 0.05 * (high - low))
        passed = next(
            (x for x, y in zip(run["rounds"], run["expected"], strict=True) if y > run["wmax"]),
            run["rounds"][-1],
        )
        for x, ha, words in (
            (passed - 1, "right", "binary search"),
            (passed + 2, "left", "max probing"),
        ):
            note(step, words, (x, run["wmax"]), (0, -12), ha=ha, va="top")
        step.set(xlabel="round trips after a loss (yellow above)", ylabel="window (packets)")
        step.set_title(
            f"thick: measured; dashed: the rules, at most {100 * run['off']:.1f} % off",
            fontsize=10, loc="left",
        )  # fmt: skip

        for behind, runs in reversed(list(enumerate(data["share"]))):
            look = {"alpha": 0.25} if behind else {}
            for flow, colour in zip(runs["rates"], (BIC.colour, COLOURS[1]), strict=True):
                share.plot(runs["time"], flow, color=colour, linewidth=1.3, **look)
        user = self.RATE * (MTU - headers.SEGMENT) / FRAME
        share.axhline(user / 2, color="black", linestyle=":", linewidth=1)
        share.set_ylim(0, 1.05 * self.RATE)
        share.set_xlim(left=0)
        share.set(xlabel="seconds", ylabel="throughput (Mbit/s)")
        share.set_title(
            f"two flows; the second starts at {self.JOINS} s; dotted: half of the link",
            fontsize=10, loc="left",
        )  # fmt: skip
