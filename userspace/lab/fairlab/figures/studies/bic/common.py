# SPDX-License-Identifier: GPL-2.0
"""The protocols, settings and plots that the studies of BIC share."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from fairlab.figures.study import Data, Numbers
from fairlab.model import headers
from fairlab.model.background import Background
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.plots import COLOURS, GREY

SLIDES = "I. Rhee, L. Xu: Congestion Control on High-Speed Networks (slides on BIC-TCP)"
PAPER = "L. Xu, K. Harfoush, I. Rhee: Binary Increase Congestion Control, INFOCOM 2004"

MTU = 1500
FRAME = MTU + headers.ETHERNET
RTT = 100_000  # µs, unless a study has its own
MEGA = 1_000_000


@dataclass(frozen=True)
class Kind:
    """One of the compared protocols."""

    key: str  # in the names of cases
    label: str
    cc: str
    settings: tuple[tuple[str, str], ...]
    colour: str
    marker: str

    def flows(self, name: str, count: int, rtt: int = RTT) -> Group:
        """A group of COUNT long-lived flows."""
        each = self is HSTCP
        return Group(name, rtt, (Stream(self.cc, count),), settings=self.settings, ack_each=each)

    def values(self, data: Data, at: float, key: str) -> list[float]:
        """The values of KEY in the runs of the case KIND-AT; empty if there are no runs."""
        return values_of(data, f"{self.key}-{at:g}", key)


RENO = Kind("reno", "Reno", "reno", (), GREY, "o")
AIMD = Kind("aimd", "AIMD(32, ⅛)", "gaimd", (("gaimd_preset", "aimd32"),), COLOURS[2], "s")
HSTCP = Kind("hstcp", "HSTCP", "highspeed", (), COLOURS[1], "^")
STCP = Kind("stcp", "STCP", "scalable", (), COLOURS[4], "v")
BIC = Kind("bic", "BIC", "bic", (("bic_preset", "paper"),), COLOURS[0], "D")
KINDS = (RENO, AIMD, HSTCP, STCP, BIC)
FAST = (AIMD, HSTCP, STCP, BIC)


def bdp(rate: int, rtt: int) -> int:
    """The bandwidth-delay product of RATE [bit/s] and RTT [µs], in packets."""
    return round(rate * rtt / 8e6 / FRAME)


def web_traffic(rtt: int, fraction: float, mega: int) -> tuple[Group, Group]:
    """Background traffic in both directions: short TCP flows, like web traffic."""
    peak = min(mega * MEGA // 4, 10 * MEGA)
    load = Background(fraction, sizes="pareto:1.5", mean=100_000, peak=peak)
    return (
        Group("web", rtt, background=load),
        Group("back", rtt, reverse=True, background=load),
    )


def over(
    mega: int,
    part: float,
    groups: tuple[Group, ...],
    seconds: float,
    warmup: float,
    seed: int,
    rtt: int = RTT,
    **more: Any,
) -> Experiment:
    """GROUPS over a link of MEGA Mbit/s with a buffer of PART of its bandwidth-delay product."""
    rate = mega * MEGA
    return Experiment(
        rate=rate,
        buffer=max(1, round(part * bdp(rate, rtt))),
        groups=groups,
        seconds=seconds,
        warmup=warmup,
        seed=seed,
        mtu=MTU,
        **more,
    )


def values_of(data: Data, case: str, key: str) -> list[float]:
    """The values of KEY in the runs of a case; empty if there are no runs."""
    return [float(run[key]) for run in data.get(case, ())]


def axis_values(data: Data) -> list[float]:
    """The values in the names of cases (KIND-VALUE), sorted."""
    return sorted({float(name.partition("-")[2]) for name in data})


def kinds_of(data: Data) -> list[Kind]:
    """The protocols among cases KIND-VALUE, in the order of KINDS."""
    return [kind for kind in KINDS if any(name.startswith(f"{kind.key}-") for name in data)]


def runs_of(data: Data) -> Iterator[tuple[float, Kind, Sequence[Numbers]]]:
    """The cases KIND-VALUE that have runs: their values, protocols and runs."""
    for value in axis_values(data):
        for kind in kinds_of(data):
            if runs := data.get(f"{kind.key}-{value:g}"):
                yield value, kind, runs


WIDTH = 6.4  # inches; small, so that text is legible on a phone
LABEL_SPACE = 0.21  # inches between labels


def curves(axis: Any, data: Data, key: str, scale: float = 1.0, floor: float = 0.0) -> None:
    """A line through the means of each protocol, and a band from the minimum to the maximum.

    Values below FLOOR are drawn at FLOOR, for logarithmic axes.
    """
    ends = []
    for kind in kinds_of(data):
        points = [
            (x, [max(scale * v, floor) for v in kind.values(data, x, key)])
            for x in axis_values(data)
        ]
        points = [(x, values) for x, values in points if values]
        xs = [x for x, _ in points]
        means = [fmean(values) for _, values in points]
        least, most = ([f(values) for _, values in points] for f in (min, max))
        axis.fill_between(xs, least, most, color=kind.colour, alpha=0.2, linewidth=0)
        axis.plot(xs, means, color=kind.colour, marker=kind.marker, markersize=5, linewidth=1.6)
        ends.append((means[-1], kind))
    name_ends(axis, ends)


def name_ends(axis: Any, ends: Sequence[tuple[float, Kind]]) -> None:
    """Label the ends of curves beside the panel, without overlaps."""
    panels = len(axis.figure.axes)
    gap = LABEL_SPACE * panels / axis.figure.get_figheight() / 0.85
    low, high = axis.get_ylim()
    if axis.get_yscale() == "log":
        low, high = math.log(low), math.log(high)
        heights = [(math.log(y) - low) / (high - low) if y > 0 else 0.0 for y, _ in ends]
    else:
        heights = [(y - low) / (high - low) for y, _ in ends]
    order = sorted(range(len(ends)), key=lambda n: heights[n])
    places = [min(max(heights[n], 0.0), 1.0) for n in order]
    # Labels that are too close move apart, by half of the missing distance each.
    for _ in range(200):
        for n, (low, high) in enumerate(pairwise(places)):
            missing = gap - (high - low)
            if missing > 0:
                places[n] -= missing / 2
                places[n + 1] += missing / 2
    for n, place in zip(order, places, strict=True):
        kind = ends[n][1]
        look = {"color": kind.colour, "fontweight": "bold", "va": "center"}
        axis.text(1.02, place, kind.label, transform=axis.transAxes, **look)


def rate_label(mega: float) -> str:
    return f"{mega:g} Mbit/s" if mega < 1000 else f"{mega / 1000:g} Gbit/s"
