# SPDX-License-Identifier: GPL-2.0
"""BIC's own figures again: Rhee and Xu's slides "Congestion Control on High-Speed Networks", which
tell of Xu, Harfoush, Rhee: Binary Increase Congestion Control for Fast Long-Distance Networks
(INFOCOM 2004).

Everything there was made with ns-2, of which neither the scripts nor most of the settings are
published; each study says what it takes for granted instead.  What differs here in all of them: the
protocols are Linux's, above a stack with SACK, PRR and RACK, which loses little time over a loss.
AIMD(32, 1/8) is our `gaimd`, BIC our `bic` in the paper's form, Scalable TCP mainline's `scalable`:
these count packets that are acknowledged, so that receivers' delayed ACKs change nothing.
HighSpeed TCP is mainline's `highspeed`, with a table of RFC 3649, which counts acknowledgements:
each of its packets gets one, as from ns-2's sinks; Linux's receivers would halve its growth.  And
packets have 1500 bytes (the slide on utilisation says 1000, its notes 1500), so that windows are
two thirds of what they are with 1000.

For figures whose values are not in the text, a claim is what the text says of them, as we read it;
where it gives no number for "fill" or "friendly", the tolerance says which one is ours.

Response functions stand beside two things.  The published formulas are for losses in even
intervals, one in 1/p packets.  Here losses are random (netem), and so the same rules are also
played with dice, a round-trip at a time (play()): what differs from the formula but not from these
dice is due to chance and to several losses within a round-trip, not to the implementation.
"""

import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, geometric_mean
from typing import Any, ClassVar, Protocol

from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.model import headers
from fairlab.model.background import Background
from fairlab.model.errors import CannotRunError
from fairlab.results.analysis import jain
from fairlab.results.outcome import Outcome
from fairlab.results.plots import COLOURS, GREY
from fairlab.run.experiment import Experiment, Group, Stream

SLIDES = "I. Rhee, L. Xu: Congestion Control on High-Speed Networks (slides on BIC-TCP)"
PAPER = "L. Xu, K. Harfoush, I. Rhee: Binary Increase Congestion Control, INFOCOM 2004"

MTU = 1500
FRAME = MTU + headers.ETHERNET
RTT = 100_000  # µs, where nothing else is said
MEGA = 1_000_000


@dataclass(frozen=True)
class Kind:
    """A protocol that is compared."""

    key: str  # in the names of cases
    label: str
    cc: str
    settings: tuple[tuple[str, str], ...]
    colour: str
    marker: str


RENO = Kind("reno", "Reno", "reno", (), GREY, "o")
AIMD = Kind("aimd", "AIMD(32, ⅛)", "gaimd", (("gaimd_preset", "aimd32"),), COLOURS[2], "s")
HSTCP = Kind("hstcp", "HSTCP", "highspeed", (), COLOURS[1], "^")
STCP = Kind("stcp", "STCP", "scalable", (), COLOURS[4], "v")
BIC = Kind("bic", "BIC", "bic", (("bic_preset", "paper"),), COLOURS[0], "D")
KINDS = (RENO, AIMD, HSTCP, STCP, BIC)
FAST = (AIMD, HSTCP, STCP, BIC)


def in_flight(rate: int, rtt: int) -> int:
    """The packets that a path of RATE [bit/s] and RTT [µs] holds."""
    return round(rate * rtt / 8e6 / FRAME)


def many(kind: Kind, name: str, count: int, rtt: int = RTT) -> Group:
    """A group of COUNT endless flows of a kind."""
    return Group(
        name, rtt, (Stream(kind.cc, count),), settings=kind.settings, ack_each=kind is HSTCP
    )


def beside(rtt: int, fraction: float, rate: int) -> tuple[Group, Group]:
    """What else is on the line, in both directions: short TCP flows, as of the web."""
    load = Background(fraction, sizes="pareto:1.5", mean=100_000, peak=min(rate // 4, 10 * MEGA))
    return (
        Group("web", rtt, background=load),
        Group("back", rtt, reverse=True, background=load),
    )


def of(data: Data, case: str, key: str) -> list[float]:
    """What the runs of a case have under KEY; nothing if there are none."""
    return [float(run[key]) for run in data.get(case, ())]


def shown(
    values: Sequence[float], digits: int = 2, mean: Callable[[Sequence[float]], float] = fmean
) -> str:
    """The mean, and how far the runs go from there."""
    text = f"{mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return text


def axis_values(data: Data) -> list[float]:
    """What cases called KIND-VALUE were run with, in order."""
    return sorted({float(name.partition("-")[2]) for name in data})


def kinds_of(data: Data) -> list[Kind]:
    """The protocols among such cases, in our order."""
    return [kind for kind in KINDS if any(name.startswith(f"{kind.key}-") for name in data)]


# --- drawing ------------------------------------------------------------------------------------

WIDTH = 6.4  # inches: small, so that letters are large where it is shown on a phone
LABEL_SPACE = 0.21  # inches from one to the next


def curves(axis: Any, data: Data, key: str, scale: float = 1.0, floor: float = 0.0) -> None:
    """A line for each protocol through the means, and a band from the least to the most.

    What is less than FLOOR is drawn there, as logarithms have no place for 0.
    """
    ends = []
    for kind in kinds_of(data):
        points = [
            (x, [max(scale * v, floor) for v in of(data, f"{kind.key}-{x:g}", key)])
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
    """Write beside the panel which curve ends where; those that end together, one above another."""
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
    # Those too near to each other part, by half of what is missing each, until all have room.
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


# --- utilisation --------------------------------------------------------------------------------


class Utilisation(Study):
    """Slides 6 and 39."""

    name = "bic-utilisation"
    title = "How much of a fast link five flows use"
    source = f"{SLIDES}, slides 6 and 39"
    setting = (
        "ns-2, 100 s; links of 155, 622 Mbit/s, 2.5, 5, 10 Gbit/s; drop-tail, a buffer of 0.1"
        " bandwidth-delay products; 5 connections, round-trip 100 ms, packets of 1000 bytes"
        " (the notes to the same slides: 100 sources, 1500 bytes)."
    )
    # Rate [Mbit/s] -> how long [s], and with how many seeds.
    RATES: ClassVar[dict[int, tuple[int, int]]] = {
        155: (100, 2),
        622: (100, 2),
        2500: (100, 1),
        5000: (20, 1),
        10000: (12, 1),
    }
    WARMUP = 5
    BUFFER = 0.1  # of the bandwidth-delay product
    assumptions = (
        "Five flows with the same round-trip, which begin within a second; packets of 1500 bytes.",
        "Means leave out the first 5 s, in which slow start overshoots.",
        "From 2.5 Gbit/s on with one seed; 5 Gbit/s for 20 s and 10 Gbit/s for 12 s instead of 100:"
        " a Reno flow grows by 10 packets a second, in 100 s by 12 and 6 % of its share of these"
        " links, so what it has soon after slow start is about what it has then.",
        "No other traffic.",
    )
    FAST_RATE = 2500  # Mbit/s, from where links are said to be too fast for Reno
    FULL = 0.9

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {155: (20, 1)} if quick else self.RATES
        return [
            Case(f"{kind.key}-{mega}", self.experiment(kind, mega, seconds, seed))
            for mega, (seconds, seeds) in rates.items()
            if seed <= seeds
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        return Experiment(
            rate=rate,
            buffer=max(1, round(self.BUFFER * in_flight(rate, RTT))),
            groups=(many(kind, "a", 5),),
            seconds=seconds,
            warmup=self.WARMUP,
            seed=seed,
            mtu=MTU,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        return {
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
            "rates": [round(rate) for rate in outcome.goodputs("a")],
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        def used(kind: Kind, mega: float) -> float:
            return fmean(of(data, f"{kind.key}-{mega:g}", "utilisation"))

        rates = axis_values(data)
        found = []
        for mega in rates:
            reno = used(RENO, mega)
            others = {k.label: used(k, mega) for k in kinds_of(data) if k is not RENO}
            fast = mega >= self.FAST_RATE
            if fast:
                found.append(
                    Claim(
                        f"Reno does not fill {rate_label(mega)}",
                        "cannot fully utilize the huge capacity (slide 6)",
                        f"{100 * reno:.0f} %",
                        f"below {100 * self.FULL:.0f} %, and below all others",
                        reno < self.FULL and reno < min(others.values()),
                        "Linux's recovery: SACK and PRR lose no time, nor the window, over the many"
                        " packets that slow start loses at once",
                    )
                )
            for label, share in others.items():
                found.append(
                    Claim(
                        f"{label} fills {rate_label(mega)}",
                        "scalable: the curve stays up (slide 39, no values in the text)",
                        f"{100 * share:.0f} %, Reno {100 * reno:.0f} %",
                        f"{100 * self.FULL:.0f} % or more",
                        share >= self.FULL,
                        "with a buffer of a tenth of what is in flight, whoever cuts by more than"
                        " that cuts below the link's rate, and HSTCP cuts by up to half"
                        if label == HSTCP.label
                        else "",
                    )
                )
        if len(rates) > 1:
            first, last = (used(RENO, mega) for mega in (rates[0], rates[-1]))
            found.append(
                Claim(
                    f"the faster the link, the less of it Reno uses"
                    f" ({rate_label(rates[0])} to {rate_label(rates[-1])})",
                    "the curve falls (slide 6, no values in the text)",
                    f"{100 * first:.0f} % to {100 * last:.0f} %",
                    "less by 10 % of the link or more",
                    first - last >= 0.1,
                )
            )
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.2)
        axis = figure.subplots()
        axis.set_xscale("log")
        rates = axis_values(data)
        axis.set_xticks(rates, [rate_label(mega).replace(" ", "\n") for mega in rates])
        axis.minorticks_off()
        least = min(min(of(data, name, "utilisation")) for name in data)
        axis.set_ylim(min(60.0, 100 * least - 5), 101)
        curves(axis, data, "utilisation", 100)
        axis.set_ylabel("use of the link (%)")
        axis.set_xlabel("rate of the link")
        axis.set_title("5 flows, round-trip 100 ms, buffer 0.1 BDP", fontsize=10, loc="left")

    def table(self, data: Data) -> Table:
        kinds, rates = kinds_of(data), axis_values(data)
        rows = []
        for mega in rates:
            cells = [of(data, f"{kind.key}-{mega:g}", "utilisation") for kind in kinds]
            rows.append(
                (
                    rate_label(mega),
                    *(shown([100 * v for v in cell], 1) if cell else "" for cell in cells),
                )
            )
        return Table(("link, % used", *(kind.label for kind in kinds)), tuple(rows))


# --- fairness of flows with different round-trips ------------------------------------------------


class RttFairness(Study):
    """Slides 24 and 41."""

    name = "bic-rtt-fairness"
    title = "Two flows with different round-trips"
    source = f"{SLIDES}, slides 24 and 41"
    setting = (
        "ns-2: two flows of a protocol on a link of 2.5 Gbit/s, the second with a round-trip 1, 3,"
        " 6 times the first's; drop-tail, a buffer of the bandwidth-delay product; reverse traffic"
        " and, forward, background traffic: short TCP flows, web."
    )
    RATE, QUICK_RATE = 2500, 155
    BASE = 40_000
    RATIOS = (1, 3, 6)
    SECONDS, WARMUP, QUICK_WARMUP = 80, 40, 10
    QUICK_SECONDS = 20
    BESIDE = 0.1
    assumptions = (
        "Round-trips of 40 ms and of 40, 120, 240 ms: not on the slides, the paper's as far as we"
        " know. The buffer is the bandwidth-delay product at 40 ms.",
        "Background and reverse traffic are alike: TCP flows (Reno, round-trip 40 ms) that come as"
        " a Poisson process, sizes Pareto with shape 1.5 and 100 kB on average, each 10 Mbit/s at"
        " most, 10 % of the link in all. Nobody says how much it was.",
        "Means are from 40 s to 80 s; how long runs were is not published. A flow with a long"
        " round-trip that loses its slow start to the other takes 30 s to come back. The flows"
        " begin within the same second. Packets of 1500 bytes.",
        "A ratio is the first flow's throughput by the second's, the geometric mean over seeds.",
    )
    PUBLISHED: ClassVar[dict[str, dict[int, int]]] = {
        "bic": {1: 1, 3: 12, 6: 38},
        "aimd": {1: 1, 3: 6, 6: 22},
        "hstcp": {1: 1, 3: 29, 6: 107},
        "stcp": {1: 1, 3: 127, 6: 389},
    }
    # d of the response c / (RTT p^d), by which synchronised losses lead to ratio^(1 / (1 - d)).
    EXPONENT: ClassVar[dict[str, float]] = {"bic": 0.5, "aimd": 0.5, "hstcp": 0.82, "stcp": 1.0}
    FACTOR = 2.0
    REASONS: ClassVar[dict[str, str]] = {
        "hstcp": "mainline's table of RFC 3649 is coarse: not ns-2's curve of growth; and the ratio"
        " depends on how long the run is, as the second flow keeps falling",
        "stcp": "by the theory there is no limit: the second flow's window keeps falling, so the"
        " ratio depends on how long the run is, which is not published",
        "bic": "the longer the run, the fairer: for 1 : 6 a run gave 38 over 10 s to 40 s and 19"
        " over 40 s to 80 s, as at first the second flow comes back from its slow start. And a"
        " full buffer adds 40 ms to both round-trips: of 1 : 6 it makes 1 : 3.5",
        "aimd": "with 32 packets more in each round-trip the losses at a full buffer are many, and"
        " not always of both flows",
    }

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mega = self.QUICK_RATE if quick else self.RATE
        kinds, ratios = ((STCP, BIC), (3,)) if quick else (FAST, self.RATIOS)
        seconds = self.QUICK_SECONDS if quick else self.SECONDS
        return [
            Case(f"{kind.key}-{ratio}", self.experiment(kind, ratio, mega, seconds, seed))
            for ratio in ratios
            for kind in kinds
        ]

    def experiment(self, kind: Kind, ratio: int, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        warmup = self.WARMUP if seconds == self.SECONDS else self.QUICK_WARMUP
        return Experiment(
            rate=rate,
            buffer=in_flight(rate, self.BASE),
            groups=(
                many(kind, "near", 1, self.BASE),
                many(kind, "far", 1, self.BASE * ratio),
                *beside(self.BASE, self.BESIDE, rate),
            ),
            seconds=seconds,
            warmup=warmup,
            seed=seed,
            mtu=MTU,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        (near,), (far,) = outcome.goodputs("near"), outcome.goodputs("far")
        return {
            "near": round(near),
            "far": round(far),
            "ratio": round(near / max(far, 1.0), 4),
            "utilisation": round(outcome.utilisation, 4),
            "web": round(outcome.arrived("web")),
        }

    def theory(self, kind: Kind, ratio: int) -> float:
        """What synchronised losses lead to."""
        left = 1 - self.EXPONENT[kind.key]
        return float(ratio ** (1 / left)) if left else (math.inf if ratio > 1 else 1.0)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        ours = {name: geometric_mean(of(data, name, "ratio")) for name in data}
        where = f" at {rate_label(self.QUICK_RATE)}" if quick else ""
        for ratio in map(int, axis_values(data)):
            kinds = [kind for kind in FAST if f"{kind.key}-{ratio}" in data]
            for kind in kinds if not quick else ():
                published, here = self.PUBLISHED[kind.key][ratio], ours[f"{kind.key}-{ratio}"]
                found.append(
                    Claim(
                        f"{kind.label}, round-trips 1 : {ratio}",
                        f"{published}",
                        shown(of(data, f"{kind.key}-{ratio}", "ratio"), 1, geometric_mean),
                        f"a factor of {self.FACTOR:g}",
                        1 / self.FACTOR <= here / published <= self.FACTOR,
                        self.REASONS[kind.key]
                        if ratio > 1
                        else "two flows of it hardly converge in so short a time",
                    )
                )
            if ratio == 1:
                continue
            rows = sorted(kinds, key=lambda kind: self.PUBLISHED[kind.key][ratio])
            seen = [ours[f"{kind.key}-{ratio}"] for kind in rows]
            found.append(
                Claim(
                    f"who is how unfair{where}, round-trips 1 : {ratio}",
                    " < ".join(kind.label for kind in rows),
                    ", ".join(f"{kind.label} {x:.1f}" for kind, x in zip(rows, seen, strict=True)),
                    "in this order",
                    seen == sorted(seen),
                    "mainline's HSTCP, see there: its second flow still falls when the run ends",
                )
            )
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.6)
        axis = figure.subplots()
        axis.set_yscale("log")
        ratios = [int(x) for x in axis_values(data)]
        kinds = kinds_of(data)
        width = 0.8 / len(kinds)
        for n, kind in enumerate(kinds):
            for at, ratio in enumerate(ratios):
                values = of(data, f"{kind.key}-{ratio}", "ratio")
                place = at + (n - (len(kinds) - 1) / 2) * width
                mean = geometric_mean(values)
                axis.bar(place, mean, 0.86 * width, color=kind.colour, alpha=0.75)
                axis.plot([place, place], [min(values), max(values)], color="black", linewidth=1.2)
                published = self.PUBLISHED[kind.key][ratio]
                axis.plot(place, published, marker="_", color="black", ms=16, mew=2.2)
                over = max(mean, published, *values)
                axis.annotate(
                    f"{mean:.3g}", (place, over), (0, 5), textcoords="offset points",
                    ha="center", fontsize=9, color=kind.colour, fontweight="bold",
                )  # fmt: skip
                if at == len(ratios) - 1:
                    axis.annotate(
                        kind.label, (place, over), (0, 19), textcoords="offset points",
                        ha="center", va="bottom", rotation=90, fontsize=9, color=kind.colour,
                        fontweight="bold",
                    )  # fmt: skip
        axis.plot([], [], marker="_", color="black", ms=14, mew=2.2, ls="", label="published")
        axis.plot([], [], color="black", linewidth=1.2, label="least to most of the seeds")
        axis.legend(loc="upper left", fontsize=9)
        axis.set_xticks(range(len(ratios)), [f"1 : {ratio}" for ratio in ratios])
        bottom = min(0.5, *(min(of(data, name, "ratio")) for name in data))
        axis.set_ylim(bottom, 30 * max(max(of(data, name, "ratio")) for name in data))
        axis.grid(False, axis="x")
        axis.set_xlabel("round-trip of the first flow : of the second")
        axis.set_ylabel("throughput of the first : second")

    def table(self, data: Data) -> Table:
        rows = []
        for ratio in map(int, axis_values(data)):
            for kind in kinds_of(data):
                runs = data.get(f"{kind.key}-{ratio}", ())
                if not runs:
                    continue
                theory = self.theory(kind, ratio)
                rows.append(
                    (
                        f"1 : {ratio}",
                        kind.label,
                        f"{self.PUBLISHED[kind.key][ratio]}",
                        shown([run["ratio"] for run in runs], 1, geometric_mean),
                        "∞" if math.isinf(theory) else f"{theory:.3g}",
                        f"{fmean(run['near'] for run in runs) / 1e6:.0f}",
                        f"{fmean(run['far'] for run in runs) / 1e6:.1f}",
                    )
                )
        columns = (
            "round-trips", "protocol", "published", "ours", "theory, losses together",
            "first, Mbit/s", "second, Mbit/s",
        )  # fmt: skip
        return Table(columns, tuple(rows))


# --- beside Reno --------------------------------------------------------------------------------


class Friendliness(Study):
    """Slide 40."""

    name = "bic-friendliness"
    title = "Two fast flows beside two Reno flows"
    source = f"{SLIDES}, slides 15, 18, 36, 40"
    setting = (
        "ns-2: 20 Mbit/s, drop-tail, a buffer of the bandwidth-delay product, reverse traffic;"
        " 2 TCP flows, 2 high-speed flows, and some background traffic."
    )
    RATES: ClassVar[dict[int, int]] = {20: 100, 100: 100, 500: 60}  # Mbit/s -> s
    QUICK_SECONDS = 40
    PUBLISHED_RATE = 20
    WARMUP = 10
    BESIDE = 0.1
    FRIENDLY, UNFRIENDLY = 0.5, 0.25
    assumptions = (
        "Round-trip 100 ms for all. Packets of 1500 bytes; so at 20 Mbit/s a fair window is between"
        " 41 and 83 packets.",
        "Background and reverse traffic: TCP flows that arrive as a Poisson process, Pareto sizes"
        " with shape 1.5, 100 kB on average, 10 % of the link in each direction.",
        "100 and 500 Mbit/s are ours: the slide has 20 only.",
        "How friendly a protocol is: what two Reno flows get beside two of its flows, by half of"
        f" what four Reno flows get. The slides give no number; friendly is {FRIENDLY:g} or more"
        f" here, not friendly less than {UNFRIENDLY:g}.",
    )
    REASONS: ClassVar[dict[str, str]] = {
        "bic": "windows are 10 to 80 packets, and losses come at any moment: at the same p, BIC's"
        " rules make 2 to 4 times Reno's window (dice, p = 0.013 to 0.001), as after a loss far"
        " from Wmax it soon probes by up to 32 packets a round-trip. The published formula, for"
        " losses that come when it is at Wmax, is between half of Reno's and twice",
        "stcp": "its windows are below 100 packets, where mainline's scalable grows by a packet"
        " a round-trip as Reno does, the published rule by 0.01 of the window; both cut by an"
        " eighth only",
    }

    def cases(self, quick: bool, seed: int) -> list[Case]:
        rates = {self.PUBLISHED_RATE: self.QUICK_SECONDS} if quick else self.RATES
        return [
            Case(f"{kind.key}-{mega}", self.experiment(kind, mega, seconds, seed))
            for mega, seconds in rates.items()
            for kind in ((RENO, AIMD, HSTCP) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, mega: int, seconds: int, seed: int) -> Experiment:
        rate = mega * MEGA
        return Experiment(
            rate=rate,
            buffer=in_flight(rate, RTT),
            groups=(
                many(RENO, "tcp", 2),
                many(kind, "fast", 2),
                *beside(RTT, self.BESIDE, rate),
            ),
            seconds=seconds,
            warmup=self.WARMUP,
            seed=seed,
            mtu=MTU,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        tcp, fast = sum(outcome.goodputs("tcp")), sum(outcome.goodputs("fast"))
        rate = outcome.what.rate
        return {
            "tcp": round(tcp / rate, 4),
            "fast": round(fast / rate, 4),
            "web": round(outcome.arrived("web") / rate, 4),
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
        }

    def friendliness(self, data: Data, kind: Kind, mega: float) -> float:
        fair = fmean((run["tcp"] + run["fast"]) / 2 for run in data[f"{RENO.key}-{mega:g}"])
        return float(fmean(of(data, f"{kind.key}-{mega:g}", "tcp")) / fair)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        rate = self.PUBLISHED_RATE
        words = {
            "aimd": "not TCP-friendly (slide 15)",
            "hstcp": "TCP-friendly (slide 18)",
            "stcp": "TCP-friendly (slide 18)",
            "bic": "a design goal (slide 26), by its Smin (slide 36); no values in the text",
        }
        found = []
        seen = {k.key: self.friendliness(data, k, rate) for k in kinds_of(data) if k is not RENO}
        for kind in FAST:
            if kind.key not in seen:
                continue
            here = seen[kind.key]
            bad = kind is AIMD
            found.append(
                Claim(
                    f"{kind.label} at {rate_label(rate)}",
                    words[kind.key],
                    f"Reno keeps {100 * here:.0f} % of its share",
                    f"below {100 * self.UNFRIENDLY:.0f} %"
                    if bad
                    else f"{100 * self.FRIENDLY:.0f} % or more",
                    here < self.UNFRIENDLY if bad else here >= self.FRIENDLY,
                    self.REASONS.get(kind.key, ""),
                )
            )
        rest = [value for key, value in seen.items() if key != "aimd"]
        found.append(
            Claim(
                f"AIMD(32, ⅛) is the least friendly at {rate_label(rate)}",
                "13 times TCP's throughput at any loss (slide 14)",
                ", ".join(
                    f"{kind.label} {100 * seen[kind.key]:.0f} %"
                    for kind in FAST
                    if kind.key in seen
                ),
                "less than half of the next",
                seen["aimd"] < min(rest) / 2,
            )
        )
        return found

    def draw(self, figure: Any, data: Data) -> None:
        rates, kinds = axis_values(data), kinds_of(data)
        figure.set_size_inches(WIDTH, 1.1 + 0.42 * len(kinds) * len(rates))
        panels = figure.subplots(len(rates), 1, sharex=True, squeeze=False)[:, 0]
        for axis, mega in zip(panels, rates, strict=True):
            rows = [kind for kind in kinds if f"{kind.key}-{mega:g}" in data]
            for at, kind in enumerate(reversed(rows)):
                tcp = of(data, f"{kind.key}-{mega:g}", "tcp")
                fast = of(data, f"{kind.key}-{mega:g}", "fast")
                left = 100 * fmean(tcp)
                axis.barh(at, left, 0.72, color=GREY, alpha=0.75, edgecolor="white")
                part = 100 * fmean(fast)
                look = {"color": kind.colour, "alpha": 0.75, "edgecolor": "white"}
                axis.barh(at, part, 0.72, left=left, **look)
                axis.plot([100 * min(tcp), 100 * max(tcp)], [at, at], color="black", linewidth=1.4)
                axis.text(
                    left + part - 1, at, kind.label, ha="right", va="center",
                    color="white", fontweight="bold",
                )  # fmt: skip
                inside = left > 12
                axis.text(
                    left / 2 if inside else left + 1, at, f"{left:.0f} %", va="center",
                    ha="center" if inside else "left", color="white", fontweight="bold",
                )  # fmt: skip
            axis.set_yticks([])
            axis.set_xlim(0, 100)
            axis.grid(False, axis="y")
            axis.set_title(rate_label(mega), fontsize=10, loc="left", fontweight="bold")
        panels[0].set_title("2 Reno flows in grey", fontsize=10, loc="right", color=GREY)
        panels[-1].set_xlabel("part of the link (%); black: least to most of the seeds")

    def table(self, data: Data) -> Table:
        rows = []
        for mega in axis_values(data):
            for kind in kinds_of(data):
                runs = data.get(f"{kind.key}-{mega:g}", ())
                if runs:
                    rows.append(
                        (
                            rate_label(mega),
                            kind.label,
                            shown([100 * run["tcp"] for run in runs], 1),
                            shown([100 * run["fast"] for run in runs], 1),
                            shown([100 * run["web"] for run in runs], 1),
                            f"{100 * self.friendliness(data, kind, mega):.0f}",
                        )
                    )
        columns = ("link", "beside", "2 Reno, %", "2 of it, %", "background, %", "Reno keeps, %")
        return Table(columns, tuple(rows))


# --- buffers ------------------------------------------------------------------------------------


class Buffer(Study):
    """Slides 42 to 44."""

    name = "bic-buffer"
    title = "Throughput, queue and loss by the size of the buffer"
    source = f"{SLIDES}, slides 42 to 44"
    setting = (
        "Three figures without a word about them: throughput, queue size and packet loss by the"
        " size of the buffer."
    )
    RATE, QUICK_RATE = 622, 155
    BUFFERS = (0.03, 0.1, 0.3, 1.0)  # of the bandwidth-delay product
    SECONDS, QUICK_SECONDS, WARMUP = 40, 20, 10
    LEEWAY = 0.02
    SLOWLY = (
        "five Reno flows grow by five packets a round-trip, in 40 s by a quarter of the largest"
        " buffer: what they have in it then is what slow start left"
    )
    assumptions = (
        "All of it is ours: 622 Mbit/s, drop-tail, buffers of 0.03 to 1 bandwidth-delay product, 5"
        " flows, round-trip 100 ms, packets of 1500 bytes, 40 s without the first 10.",
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
            buffer=max(1, round(part * in_flight(rate, RTT))),
            groups=(many(kind, "a", 5),),
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
            "queue": round(waiting / in_flight(what.rate, RTT), 5),
            "filled": round(waiting / what.buffer, 4),
            "loss": outcome.loss,
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        parts = axis_values(data)
        drawn = "a figure without values"
        for kind in kinds_of(data):
            used, queue = (
                [fmean(of(data, f"{kind.key}-{part:g}", key)) for part in parts]
                for key in ("throughput", "queue")
            )
            pairs = list(pairwise(used))
            found += [
                Claim(
                    f"{kind.label}: a larger buffer costs no throughput",
                    f"{drawn} (slide 42)",
                    ", ".join(f"{100 * share:.0f} %" for share in used),
                    f"never less by more than {100 * self.LEEWAY:.0f} % of the link",
                    all(b >= a - self.LEEWAY for a, b in pairs),
                ),
                Claim(
                    f"{kind.label}: a larger buffer, a longer queue",
                    f"{drawn} (slide 43)",
                    ", ".join(f"{value:.3f} BDP" for value in queue),
                    "each longer than the one before",
                    all(b > a for a, b in pairwise(queue)),
                    self.SLOWLY if kind is RENO else "",
                ),
            ]
        for part in parts:
            losses = {k.label: fmean(of(data, f"{k.key}-{part:g}", "loss")) for k in kinds_of(data)}
            most = AIMD.label if AIMD.label in losses else BIC.label
            found.append(
                Claim(
                    f"{most} loses the most and Reno the least, buffer {part:g} BDP",
                    f"{drawn} (slide 44); the response functions say so",
                    ", ".join(f"{label} {loss:.1e}" for label, loss in losses.items()),
                    "in this order",
                    losses[most] == max(losses.values())
                    and losses[RENO.label] == min(losses.values()),
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
        least = min(min(of(data, name, "throughput")) for name in data)
        panels[0].set_ylim(100 * least - 5, 100)
        for axis, key, scale, floor, words in (
            (panels[0], "throughput", 100, 0.0, "throughput\n(% of the link)"),
            (panels[1], "queue", 1, 1e-4, "mean queue\n(BDP)"),
            (panels[2], "loss", 1, 1e-7, "part of packets lost\n(at the edge: none)"),
        ):
            values = [value for name in data for value in of(data, name, key)]
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
        panels[2].set_xlabel("buffer (bandwidth-delay products)")

    def table(self, data: Data) -> Table:
        rows = [
            (
                f"{part:g}",
                kind.label,
                shown([100 * run["throughput"] for run in runs], 1),
                shown([100 * run["filled"] for run in runs], 0),
                f"{fmean(run['loss'] for run in runs):.1e}",
            )
            for part in axis_values(data)
            for kind in kinds_of(data)
            if (runs := data.get(f"{kind.key}-{part:g}", ()))
        ]
        columns = ("buffer, BDP", "protocol", "throughput, %", "of the buffer in use, %", "loss")
        return Table(columns, tuple(rows))


# --- response functions -------------------------------------------------------------------------


def aimd_response(p: float, increase: float = 1.0, decrease: float = 0.5) -> float:
    """Packets per round-trip of AIMD(increase, decrease) that loses one of 1/p packets."""
    return math.sqrt(increase * (2 - decrease) / (2 * decrease * p))


def hstcp_response(p: float) -> float:
    """HighSpeed TCP's (RFC 3649); Reno's in small windows."""
    return max(aimd_response(p), 0.12 / math.pow(p, 0.835))


def stcp_response(p: float) -> float:
    """Scalable TCP's; Reno's in small windows."""
    return max(aimd_response(p), 0.08 / p)


SMAX, SMIN, CUT, LOW_WINDOW = 32.0, 0.01, 0.125, 14  # BIC's, as published


def bic_response(p: float) -> float:
    """BIC's, for windows above 2 Smax / CUT = 512, where growth begins with Smax."""
    a = CUT * (2 - CUT) / (2 * SMAX)
    b = math.log2(SMAX / SMIN) + (2 - CUT) / 2
    root = math.sqrt(b * b + 4 * a * (SMAX - SMIN + 1 / p))
    return (2 - CUT) / p / (root + (1 - CUT) * b + CUT * (2 - CUT) / 2)


RESPONSES: dict[str, Callable[[float], float]] = {
    "reno": aimd_response,
    "aimd": lambda p: aimd_response(p, 32, 0.125),
    "hstcp": hstcp_response,
    "stcp": stcp_response,
    "bic": bic_response,
}


class Window(Protocol):
    """A protocol's window [packets], by its published rules."""

    packets: float

    def grow(self) -> None:
        """A round-trip without a loss."""

    def cut(self) -> None:
        """A loss."""


@dataclass
class AimdWindow:
    """AIMD(increase, decrease); Reno by default."""

    packets: float = 2.0
    increase: float = 1.0
    decrease: float = 0.5

    def grow(self) -> None:
        self.packets += self.increase

    def cut(self) -> None:
        self.packets = max(self.packets * (1 - self.decrease), 2.0)


@dataclass
class HstcpWindow:
    """HighSpeed TCP, with the formulas of RFC 3649."""

    packets: float = 2.0
    LOW, HIGH = 38.0, 83000.0
    LOW_P, HIGH_P = 1.5 / 38**2, 1e-7
    HIGH_DECREASE = 0.1

    @property
    def place(self) -> float:
        """Where between the low and the high window: 0 to 1, in logarithms."""
        return max(0.0, math.log(self.packets / self.LOW) / math.log(self.HIGH / self.LOW))

    @property
    def decrease(self) -> float:
        return 0.5 + (self.HIGH_DECREASE - 0.5) * self.place

    def grow(self) -> None:
        p = self.LOW_P * (self.HIGH_P / self.LOW_P) ** self.place
        b = self.decrease
        a = max(1.0, 2 * self.packets**2 * p * b / (2 - b)) if self.place else 1.0
        self.packets += a

    def cut(self) -> None:
        self.packets = max(self.packets * (1 - self.decrease), 2.0)


@dataclass
class StcpWindow:
    """Scalable TCP; below 100 packets a packet per round-trip, as Linux has it."""

    packets: float = 2.0

    def grow(self) -> None:
        self.packets += max(1.0, 0.01 * self.packets)

    def cut(self) -> None:
        self.packets = max(self.packets * (1 - 0.125), 2.0)


@dataclass
class BicWindow:
    """BIC as in the paper, and where that is open as tcp_bic/bic_core.h has it."""

    packets: float = 2.0
    wmax: float = 0.0  # 0: no loss yet
    probe: float = 0.0  # the step of max probing; 0: not probing
    open: bool = False  # so far above Wmax that there is no bound

    def grow(self) -> None:
        if self.packets < LOW_WINDOW:
            self.probe = 0.0
            self.packets += 1
        elif self.wmax and not self.open and self.packets < self.wmax:
            self.probe = 0.0
            distance = self.wmax - self.packets
            self.packets += min(max(min(distance / 2, SMAX), SMIN), distance)
        elif self.wmax and not self.open:
            self.probe = self.probe or 1.0
            self.packets += self.probe
            self.probe *= 2
            if self.probe >= SMAX:
                self.probe, self.open = 0.0, True
        else:
            self.packets += SMAX

    def cut(self) -> None:
        lost, self.probe, self.open = self.packets, 0.0, False
        if lost < LOW_WINDOW:
            self.packets = max(lost / 2, 2.0)
            return
        self.packets = lost * (1 - CUT)
        # Less than the last time: somebody else is growing.
        self.wmax = (lost + self.packets) / 2 if lost < self.wmax else lost


WINDOWS: dict[str, Callable[[], Window]] = {
    "reno": AimdWindow,
    "aimd": lambda: AimdWindow(increase=32, decrease=0.125),
    "hstcp": HstcpWindow,
    "stcp": StcpWindow,
    "bic": BicWindow,
}


def play(window: Window, p: float, losses: int = 2000, seed: int = 1) -> float:
    """Packets per round-trip if each packet is lost with probability P, by LOSSES throws that were.

    Round after round: what is lost in one is noticed in the next, in which the window is repaired
    and does not grow; several packets of a round are one loss.  The first tenth does not count.
    """
    dice = random.Random(seed)
    spared = math.log1p(-p)
    sent = rounds = 0.0
    growing = True
    for n in range(losses):
        if n == losses // 10:
            sent = rounds = 0.0
        lost = False
        while not lost:
            sent += window.packets
            rounds += 1
            lost = dice.random() > math.exp(spared * window.packets)
            if growing:
                window.grow()
            growing = True
        window.cut()
        growing = False
    return sent / rounds


@functools.cache
def thrown(kind: str, p: float) -> float:
    """What the dice make of a protocol."""
    return play(WINDOWS[kind](), p)


class Response(Study):
    """Slides 9, 14, 18, 35 to 37."""

    name = "bic-response"
    title = "Response functions: window by random loss"
    source = f"{SLIDES}, slides 9 to 18 and 35 to 37; formulas of {PAPER}, RFC 3649"
    setting = (
        "Formulas: packets per round-trip by the probability p of a loss, for losses in even"
        " intervals. Reno √(1.5/p); AIMD(32, ⅛) √(240/(2p)), 13 times Reno at any p;"
        " HSTCP 0.12/p^0.835; STCP 0.08/p; BIC by Smax 32, Smin 0.01, β ⅛."
    )
    # Loss -> how many of them a run is to see.
    LOSSES: ClassVar[dict[float, int]] = {1e-3: 400, 1e-4: 200, 1e-5: 60}
    QUICK_LOSSES: ClassVar[dict[float, int]] = {1e-3: 300}
    RATE = 5000
    WARMUP_SECONDS, WARMUP_SHARE = 10, 0.1
    DICE, FORMULA = 0.15, 0.25
    assumptions = (
        "One flow, round-trip 100 ms, 5 Gbit/s, so that the link hardly ever limits it; packets of"
        " 1500 bytes.",
        "p is the probability with which netem drops each data packet by itself. A formula's is of"
        " losses that make a protocol cut: fewer where several packets of a round-trip are lost"
        " (AIMD at p = 0.001: 0.5 in each).",
        "A run is so long that it should see 400, 200, 60 losses at p = 1e-3, 1e-4, 1e-5; below"
        " that it would take billions of packets. By chance a run with 60 losses is off by 6 %, of"
        " HSTCP and STCP by 10 % (the standard deviation, found with dice).",
        "Dice: the published rules in rounds, with random losses, 2000 of them.",
        "BIC's formula is for windows above 512 packets, 2 Smax/β: p below 1.5e-4.",
    )
    REGIME: ClassVar[dict[str, float]] = {"bic": 1.5e-4}
    STEPS = (
        "mainline's table rounds up: from 39 packets on it grows by two a round-trip, which"
        " RFC 3649 does at 118. Dice with that table come to 55 packets at p = 0.001 and 291 at"
        " 0.0001"
    )
    FAR = (
        "losses at random moments: many come when the window is far from Wmax, and then BIC grows"
        " by more than in the even intervals of the formula; with dice its rules do so, too"
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        losses = self.QUICK_LOSSES if quick else self.LOSSES
        return [
            Case(f"{kind.key}-{loss:g}", self.experiment(kind, loss, count, seed))
            for loss, count in losses.items()
            for kind in ((RENO, BIC) if quick else KINDS)
        ]

    def experiment(self, kind: Kind, loss: float, count: int, seed: int) -> Experiment:
        rate = self.RATE * MEGA
        took = count / loss / RESPONSES[kind.key](loss) * RTT / 1e6
        warmup = self.WARMUP_SECONDS + round(self.WARMUP_SHARE * took)
        seconds = warmup + math.ceil(took)
        return Experiment(
            rate=rate,
            buffer=in_flight(rate, RTT),
            groups=(many(kind, "a", 1),),
            seconds=seconds,
            warmup=warmup,
            seed=seed,
            mtu=MTU,
            loss=loss,
            look=max(0.1, seconds / 500),
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        packets = outcome.goodput("a", 0) / 8 / what.payload * RTT / 1e6
        return {
            "p": what.loss,
            "packets": round(packets, 2),
            "dropped": outcome.columns["drops"][-1],
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        for p in sorted(axis_values(data), reverse=True):
            for kind in kinds_of(data):
                values = of(data, f"{kind.key}-{p:g}", "packets")
                if not values:
                    continue
                here = fmean(values)
                formula = RESPONSES[kind.key](p)
                why = "chance: a mean over 60 losses is off by 6 to 10 %" if p <= 1e-5 else ""
                if kind is HSTCP and not why:
                    why = self.STEPS
                found.append(self.rules(kind.label, kind.key, p, values, why))
                if p > self.REGIME.get(kind.key, 1):
                    continue
                if kind is BIC:
                    why = self.FAR
                found.append(
                    Claim(
                        f"{kind.label}, p = {p:g}: the formula",
                        f"{formula:.0f} packets per round-trip",
                        shown(values, 0),
                        f"{100 * self.FORMULA:.0f} %",
                        abs(here / formula - 1) <= self.FORMULA,
                        why,
                    )
                )
        return found

    def rules(
        self, label: str, key: str, p: float, values: Sequence[float], reason: str = ""
    ) -> Claim:
        """Is it what the dice make of a protocol's rules?"""
        dice = thrown(key, p)
        return Claim(
            f"{label}, p = {p:g}: the published rules",
            f"by dice {dice:.0f} packets per round-trip",
            shown(values, 0),
            f"{100 * self.DICE:.0f} %",
            abs(fmean(values) / dice - 1) <= self.DICE,
            reason,
        )

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 5.0)
        axis = figure.subplots()
        axis.set_xscale("log")
        axis.set_yscale("log")
        measured = axis_values(data)
        first, last = min(measured) / 3, max(measured) * 2
        steps = [first * (last / first) ** (n / 60) for n in range(61)]
        tops = [RESPONSES[kind.key](first) for kind in KINDS]
        axis.set_ylim(10, 1.6 * max(tops))
        for kind in kinds_of(data):
            formula = RESPONSES[kind.key]
            valid = [p for p in steps if p <= self.REGIME.get(kind.key, 1)]
            axis.plot(valid, [formula(p) for p in valid], color=kind.colour, linewidth=1.3)
            some = [p for p in steps[::6] if p >= min(measured) / 2]
            dice = [thrown(kind.key, p) for p in some]
            axis.plot(some, dice, color=kind.colour, linewidth=1.4, linestyle=":")
            for p in measured:
                values = of(data, f"{kind.key}-{p:g}", "packets")
                axis.plot(
                    [p] * len(values), values, kind.marker, color=kind.colour, ms=6, alpha=0.8
                )
        axis.set_xlim(last, first)
        name_ends(axis, [(RESPONSES[kind.key](first), kind) for kind in kinds_of(data)])
        for look, words in (("-", "formula"), (":", "rules, with dice")):
            axis.plot([], [], color="black", linestyle=look, linewidth=1.2, label=words)
        axis.plot([], [], "o", color="black", ms=6, ls="", label="measured, each seed")
        axis.legend(loc="upper left", fontsize=9)
        axis.set_xlabel("probability that a packet is lost")
        axis.set_ylabel("packets per round-trip")

    def table(self, data: Data) -> Table:
        rows = [
            (
                f"{p:g}",
                kind.label,
                f"{RESPONSES[kind.key](p):.0f}" if p <= self.REGIME.get(kind.key, 1) else "–",
                f"{thrown(kind.key, p):.0f}",
                shown(values, 0),
            )
            for p in sorted(axis_values(data), reverse=True)
            for kind in kinds_of(data)
            if (values := of(data, f"{kind.key}-{p:g}", "packets"))
        ]
        return Table(("p", "protocol", "formula", "dice", "measured"), tuple(rows))


# --- convergence --------------------------------------------------------------------------------

# TCP's states, as TCP_INFO has them: from here on a loss is being repaired.
RECOVERY = 3


@dataclass(frozen=True)
class Episode:
    """What came between two losses."""

    begin: int  # the first row after the repair
    end: int  # the row after the last before the next loss
    wmax: float  # what the search was about


def episodes(state: Any, ssthresh: Any) -> list[Episode]:
    """The stretches without a loss of a BIC flow, from its rows.

    A cut leaves 7/8 of the window, rounded down, as the slow start threshold: so that tells the
    window in which the loss was.
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
    """BIC's window at the beginning of each round after a loss, if there is no other."""
    search = BicWindow(window, wmax)
    found = [window]
    for _ in range(rounds):
        search.grow()
        found.append(search.packets)
    return found


class Convergence(Study):
    """Slides 31 to 33."""

    name = "bic-convergence"
    title = "BIC searches for its window, and for its share"
    source = f"{SLIDES}, slides 28 to 33"
    setting = (
        "Sketches without numbers: after a loss the window grows by Smax (additive increase), then"
        " by half of the distance to Wmax (binary search), down to Smin."
    )
    RATE = 155
    OTHER = 60  # Mbit/s that somebody else has at first
    LEAVES = 15  # s, when that ends
    SEARCH_SECONDS = 30
    JOINS = 20  # s, when the second flow comes
    SHARE_SECONDS, QUICK_SHARE_SECONDS = 200, 70
    BUFFER = 0.3
    STEP = 2.0  # s
    assumptions = (
        "155 Mbit/s, round-trip 100 ms, drop-tail, a buffer of 0.3 bandwidth-delay products; "
        " packets have 1500 bytes.",
        "The search: one BIC flow beside UDP of 60 Mbit/s, which ends at 15 s, so that the window"
        " has to find a new maximum. TCP_INFO is read every 20 ms. Rounds are time by TCP's own"
        " round-trip; the steps expected are Smax 32, Smin 0.01, and above Wmax 1, 2, 4, 8, 16 and"
        " then 32 packets (the paper's max probing).",
        "The share: a BIC flow that has the link for itself, and a second one that begins at 20 s.",
    )
    WINDOW_TOLERANCE = 0.02
    FAIR = 0.9  # Jain's index

    def cases(self, quick: bool, seed: int) -> list[Case]:
        seconds = self.QUICK_SHARE_SECONDS if quick else self.SHARE_SECONDS
        return [Case("search", self.search(seed)), Case("share", self.share(seconds, seed))]

    def search(self, seed: int) -> Experiment:
        """A flow beside a constant load that leaves."""
        rate = self.RATE * MEGA
        packet = MTU - headers.DATAGRAM
        other = Stream("udp", rate=self.OTHER * MEGA, packet=packet, stop=self.LEAVES)
        return Experiment(
            rate=rate,
            buffer=round(self.BUFFER * in_flight(rate, RTT)),
            groups=(many(BIC, "a", 1), Group("other", RTT, (other,))),
            seconds=self.SEARCH_SECONDS,
            warmup=5,
            seed=seed,
            mtu=MTU,
            look=0.02,
        )

    def share(self, seconds: int, seed: int) -> Experiment:
        """A flow, and then another."""
        rate = self.RATE * MEGA
        streams = (Stream(BIC.cc), Stream(BIC.cc, start=self.JOINS))
        return Experiment(
            rate=rate,
            buffer=round(self.BUFFER * in_flight(rate, RTT)),
            groups=(Group("a", RTT, streams, settings=BIC.settings),),
            seconds=seconds,
            warmup=5,
            seed=seed,
            mtu=MTU,
        )

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
            # What was cut off by the end of the run is a stretch as well; the shortest say little.
            if one.end - one.begin < 10 or one.wmax <= cwnd[one.begin]:
                continue
            span = slice(one.begin, one.end)
            took = numpy.diff(time[span]) / (rows["rtt"][span][1:] / 1e6)
            rounds = numpy.concatenate([[0.0], numpy.cumsum(took)])
            start = float(rows["ssthresh"][one.begin])
            wanted = steps_from(start, one.wmax, math.ceil(rounds[-1]))
            # A repair ends somewhere within a round: where the window was then, it begins.
            begin = float(numpy.interp(cwnd[one.begin], wanted, range(len(wanted))))
            expected = numpy.interp(rounds + begin, range(len(wanted)), wanted)
            off = numpy.abs(cwnd[span] / expected - 1)
            tries.append((one, rounds + begin, expected, float(off.max())))
        # The one to show is of the time when the other flow left, and went furthest.
        near = [found for found in tries if time[found[0].begin] < self.LEAVES + 2]
        if not near:
            raise CannotRunError(
                "the flow lost nothing before the other one left: no search to see"
            )
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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        runs = data["search"]
        off = [run["off"] for run in runs]
        all_off = [value for run in runs for value in run["episodes"]]
        kept = sum(value <= self.WINDOW_TOLERANCE for value in all_off)
        highest = [max(run["window"]) / run["wmax"] for run in runs]
        fair = of(data, "share", "jain")
        smaller = [min(run["ends"]) / max(run["ends"]) for run in data["share"]]
        return [
            Claim(
                "the window after a loss, step by step, until the next",
                "additive increase, binary search, Smax 32, Smin 0.01 (slides 31 to 33)",
                f"at most {100 * max(off):.1f} % off the expected steps",
                f"{100 * self.WINDOW_TOLERANCE:.0f} % of the window, at every moment",
                max(off) <= self.WINDOW_TOLERANCE,
            ),
            Claim(
                "and after all other losses",
                "the same",
                f"{kept} of {len(all_off)} stretches are within",
                f"{100 * self.WINDOW_TOLERANCE:.0f} % of the window, in 9 of 10",
                kept >= 0.9 * len(all_off),
                "in a stretch in which the queue fills or empties, TCP's smoothed round-trip lags"
                " behind the true one, by which rounds are counted",
            ),
            Claim(
                "it finds a new maximum when there is more",
                "max probing (the paper)",
                f"to {min(highest):.2f} times the last maximum",
                "1.3 times or more: 60 of 155 Mbit/s became free",
                min(highest) >= 1.3,
            ),
            Claim(
                "two flows come to share evenly",
                "large windows give way to small ones (fast convergence)",
                f"Jain's index {shown(fair)} in the last {self.JOINS} s, the smaller has"
                f" {shown(smaller)} of the larger",
                f"{self.FAIR:g} or more",
                fmean(fair) >= self.FAIR,
                "between losses of both at once, all that makes them even is that an eighth of the"
                " larger window is more; at drop-tail they do not always lose together",
            ),
        ]

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
        whole.annotate(
            f"{self.OTHER} Mbit/s of UDP end", (self.LEAVES, 0), (4, 4),
            textcoords="offset points", fontsize=9,
        )  # fmt: skip
        whole.set(xlabel="seconds", ylabel="window (packets)")
        whole.set_title("one flow", fontsize=10, loc="left")

        step.plot(run["rounds"], run["window"], color=BIC.colour, linewidth=2.4, alpha=0.6)
        step.plot(run["rounds"], run["expected"], color="black", linewidth=1, linestyle="--")
        step.axhline(run["wmax"], color="black", linestyle=":", linewidth=1)
        step.annotate(
            "Wmax", (run["rounds"][-1], run["wmax"]), (0, -12), textcoords="offset points",
            ha="right", fontsize=9,
        )  # fmt: skip
        low, high = min(run["window"]), max(run["window"])
        # With room for words below.
        step.set_ylim(low - 0.2 * (high - low), high + 0.05 * (high - low))
        passed = next(
            (x for x, y in zip(run["rounds"], run["expected"], strict=True) if y > run["wmax"]),
            run["rounds"][-1],
        )
        for x, ha, words in (
            (passed - 1, "right", "binary search"),
            (passed + 2, "left", "max probing"),
        ):
            step.annotate(
                words, (x, run["wmax"]), (0, -12), textcoords="offset points", ha=ha,
                va="top", fontsize=9,
            )  # fmt: skip
        step.set(xlabel="round-trips after a loss (yellow above)", ylabel="window (packets)")
        step.set_title(
            f"thick: measured; dashed: the rule, at most {100 * run['off']:.1f} % off",
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
            f"two flows; the second begins at {self.JOINS} s; dotted: half of the link",
            fontsize=10, loc="left",
        )  # fmt: skip


STUDIES: tuple[Study, ...] = (
    Utilisation(),
    RttFairness(),
    Friendliness(),
    Buffer(),
    Response(),
    Convergence(),
)
