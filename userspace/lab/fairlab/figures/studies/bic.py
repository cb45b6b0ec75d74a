# SPDX-License-Identifier: GPL-2.0
"""BIC: Rhee and Xu's slides "Congestion Control on High-Speed Networks", which summarise Xu,
Harfoush, Rhee: Binary Increase Congestion Control for Fast Long-Distance Networks (INFOCOM 2004).

The originals were made with ns-2; neither the scripts nor most of the settings are published, so
each study lists its assumptions.  All of them differ from ns-2 in the following:

- The protocols are Linux's, on a stack with SACK, PRR and RACK, which loses little time after a
  loss.  AIMD(32, 1/8) is our `gaimd`, BIC our `bic` with the paper's parameters, Scalable TCP
  mainline's `scalable`; these count acknowledged packets, so delayed ACKs do not slow them down.
- HighSpeed TCP is mainline's `highspeed`, with a table from RFC 3649.  It counts ACKs, and delayed
  ACKs would halve its growth; its receivers acknowledge each packet, as ns-2's sinks do.
- Packets have 1500 bytes (the slide on utilisation says 1000, its notes 1500), so windows are two
  thirds of those with 1000 bytes.

Where a figure has no values in the text, the claim is what the text says about it; where the text
gives no number for "fill" or "friendly", the tolerance is our threshold.

Response functions are compared with two references.  The published formulas assume periodic losses,
one in 1/p packets.  Here losses are random (netem), so the same rules are also simulated round by
round with random losses (bic_rules.py): a difference from the formula but not from this simulation
comes from the randomness of losses, and from several losses in a round trip, not from the
implementation.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, geometric_mean
from typing import Any, ClassVar

from fairlab.figures import registry
from fairlab.figures.studies.bic_rules import CUT, RESPONSES, BicWindow, simulated
from fairlab.figures.studies.spread import gaps, mean, percent, ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study
from fairlab.model import headers
from fairlab.model.background import Background
from fairlab.model.errors import CannotRunError
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome
from fairlab.results.plots import COLOURS, GREY, note
from fairlab.results.statistics import jain

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
        """The values of KEY in the runs of the case KIND-AT."""
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
    web = Group("web", rtt, background=load)
    return web, replace(web, name="back", reverse=True)


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
    buffer = max(1, round(part * bdp(rate, rtt)))
    return Experiment(rate, buffer, groups, seconds, warmup, seed, mtu=MTU, **more)


def values_of(data: Data, case: str, key: str) -> list[float]:
    """The values of KEY in the runs of a case."""
    return [float(run[key]) for run in data[case]]


def axis_values(data: Data) -> list[float]:
    """The values in the names of cases (KIND-VALUE), sorted."""
    return sorted({float(name.partition("-")[2]) for name in data})


def kinds_of(data: Data) -> list[Kind]:
    """The protocols among cases KIND-VALUE, in the order of KINDS."""
    return [kind for kind in KINDS if any(name.startswith(f"{kind.key}-") for name in data)]


def runs_of(data: Data) -> Iterator[tuple[float, Kind, Sequence[Numbers]]]:
    """The cases KIND-VALUE: their values, protocols and runs."""
    for value in axis_values(data):
        for kind in kinds_of(data):
            yield value, kind, data[f"{kind.key}-{value:g}"]


WIDTH = 6.4  # inches; small, so that text is legible on a phone
LABEL_SPACE = 0.21  # inches between labels


def curves(axis: Any, data: Data, key: str, scale: float = 1.0, floor: float = 0.0) -> None:
    """A line through the means of each protocol, and a band from the minimum to the maximum.

    Values below FLOOR are drawn at FLOOR, for logarithmic axes.
    """
    xs, ends = axis_values(data), []
    for kind in kinds_of(data):
        points = [[max(scale * v, floor) for v in kind.values(data, x, key)] for x in xs]
        means = list(map(fmean, points))
        least, most = ([f(values) for values in points] for f in (min, max))
        axis.fill_between(xs, least, most, color=kind.colour, alpha=0.2, linewidth=0)
        axis.plot(xs, means, color=kind.colour, marker=kind.marker, markersize=5, linewidth=1.6)
        ends.append((means[-1], kind))
    name_ends(axis, ends)


def draw_begin(axis: Any, least: float, most: float) -> None:
    """Limit an axis of percentages, and say that it does not begin at 0."""
    axis.set_ylim(least, most)
    corner = {"transform": axis.transAxes, "color": GREY, "fontsize": 8, "va": "bottom"}
    axis.text(0.01, 0.01, f"the axis begins at {least:.0f} %", **corner)


def name_ends(axis: Any, ends: Sequence[tuple[float, Kind]]) -> None:
    """Label the ends of curves beside the panel, without overlaps."""
    panels = len(axis.figure.axes)
    gap = LABEL_SPACE * panels / axis.figure.get_figheight() / 0.85
    scale = math.log if axis.get_yscale() == "log" else float
    low, high = map(scale, axis.get_ylim())
    heights = [(scale(y) - low) / (high - low) for y, _ in ends]
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


class Compared(Study):
    """The protocols at some values of a parameter: cases KIND-VALUE."""

    kinds: tuple[Kind, ...] = KINDS
    quick_kinds: tuple[Kind, ...] = (RENO, BIC)
    values: ClassVar[Any]  # a tuple, or a dict to what each of them needs
    quick_values: tuple[float, ...]
    last_seeds: ClassVar[Mapping[float, int]] = {}  # by value, if not all seeds are run

    @abstractmethod
    def experiment(self, kind: Kind, value: Any, quick: bool, seed: int) -> Experiment:
        """KIND at VALUE."""

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(
                f"{kind.key}-{value:g}",
                self.experiment(kind, value, quick, seed),
                self.last_seeds.get(value),
            )
            for value in (self.quick_values if quick else self.values)
            for kind in (self.quick_kinds if quick else self.kinds)
        ]


# --- utilisation of fast links by five flows ------------------------------------------------------


class Utilisation(Compared):
    """Link utilisation by the rate of the link (slides 6 and 39)."""

    name = "bic-utilisation"
    title = "Utilisation of fast links by five flows"
    source = f"{SLIDES}, slides 6 and 39"
    setting = (
        "ns-2, 100 s; links of 155, 622 Mbit/s, 2.5, 5, 10 Gbit/s; drop-tail, buffer 0.1 BDP;"
        " 5 connections, RTT 100 ms, packets of 1000 bytes (the speaker notes of the same slides:"
        " 100 sources, 1500 bytes)."
    )
    values: ClassVar = (155, 622, 2500, 5000, 10000)  # Mbit/s
    quick_values = (155,)
    last_seeds: ClassVar = {2500: 3, 5000: 3, 10000: 2}
    residue, seconds = 10, 110  # of slow start; in all [s]
    assumptions = (
        "Five flows with the same RTT, which start within a second; packets of 1500 bytes.",
        "Means are of 100 s after the first 10, in which slow start overshoots.",
        "Links of 2.5 and 5 Gbit/s have three seeds, of 10 Gbit/s two.",
        "No other traffic.",
    )
    FAST_RATE = 2500  # Mbit/s; from here on the slides call links too fast for Reno

    def experiment(self, kind: Kind, value: int, quick: bool, seed: int) -> Experiment:
        seconds = 20 if quick else self.seconds
        return over(value, 0.1, (kind.flows("a", 5),), seconds, self.residue, seed)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        return {
            "utilisation": round(outcome.utilisation, 4),
            "loss": outcome.loss,
            "rates": [round(rate) for rate in outcome.goodputs("a")],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Shares of the link [%]."""

        def used(kind: Kind, mega: float) -> list[float]:
            return percent(kind.values(data, mega, "utilisation"))

        rates = axis_values(data)
        found: dict[str, Measured] = {}
        for mega in rates:
            reno, others = used(RENO, mega), [kind for kind in kinds_of(data) if kind is not RENO]
            found |= {f"{kind.key}-{mega:g}": used(kind, mega) for kind in others}
            if mega >= self.FAST_RATE:
                found[f"reno-{mega:g}"] = reno
                found[f"least-{mega:g}"] = {
                    f"{kind.label} - Reno": gaps(used(kind, mega), reno) for kind in others
                }
        if len(rates) > 1:
            found["falls"] = gaps(used(RENO, rates[0]), used(RENO, rates[-1]))
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.2)
        axis = figure.subplots()
        axis.set_xscale("log")
        rates = axis_values(data)
        axis.set_xticks(rates, [rate_label(mega).replace(" ", "\n") for mega in rates])
        axis.minorticks_off()
        least = min(min(values_of(data, name, "utilisation")) for name in data)
        draw_begin(axis, min(60.0, 100 * least - 5), 101)
        curves(axis, data, "utilisation", 100)
        axis.set(ylabel="utilisation of the link (%)", xlabel="rate of the link")
        axis.set_title("5 flows, RTT 100 ms, buffer 0.1 BDP", fontsize=10, loc="left")

    def rows(self, data: Data) -> Iterator[Row]:
        for mega in axis_values(data):
            yield {"link, % used": rate_label(mega)} | {
                kind.label: spread(percent(kind.values(data, mega, "utilisation")), 1)
                for kind in kinds_of(data)
            }


# --- throughput ratio of two flows with different round-trip times --------------------------------


def published(kind: Kind, ratio: int) -> float:
    """The published ratio of throughputs, of RTTs 1 : RATIO."""
    return registry.of("bic-rtt-fairness")[f"{kind.key}-{ratio}"].value or 0.0


class RttFairness(Compared):
    """RTT fairness (slides 24 and 41)."""

    name = "bic-rtt-fairness"
    title = "Two flows with different round-trip times"
    source = f"{SLIDES}, slides 24 and 41"
    setting = (
        "ns-2: two flows of a protocol on a link of 2.5 Gbit/s, the second with an RTT of 1, 3, 6"
        " times the first's; drop-tail, buffer 1 BDP; reverse traffic, and forward background"
        " traffic: short TCP flows, web."
    )
    kinds, quick_kinds = FAST, (STCP, BIC)
    values: ClassVar = (1, 3, 6)
    quick_values = (3,)
    BASE = 40_000
    assumptions = (
        "RTTs of 40 ms and of 40, 120, 240 ms: not on the slides, but in the paper as far as we"
        " know. The buffer is the BDP at 40 ms.",
        "Background and reverse traffic are alike: TCP flows (Reno, RTT 40 ms) that arrive as a"
        " Poisson process, sizes Pareto with shape 1.5 and a mean of 100 kB, at most 10 Mbit/s"
        " each, 10 % of the link in total. The published load is not known.",
        "Means are from 40 s to 80 s; the published duration is not known. A flow with a long RTT"
        " that leaves slow start early takes 30 s to recover. The flows start within the same"
        " second. Packets of 1500 bytes.",
        "The ratio is the first flow's throughput divided by the second's; between equal RTTs, in"
        " each run the larger's divided by the smaller's. Its mean over seeds is geometric.",
    )
    # d of the response c / (RTT p^d): synchronised losses give ratio^(1 / (1 - d)).
    EXPONENT: ClassVar[dict[str, float]] = {"bic": 0.5, "aimd": 0.5, "hstcp": 0.82, "stcp": 1.0}

    def experiment(self, kind: Kind, value: int, quick: bool, seed: int) -> Experiment:
        mega, seconds, warmup = (155, 20, 10) if quick else (2500, 80, 40)
        groups = (
            kind.flows("near", 1, self.BASE),
            kind.flows("far", 1, self.BASE * value),
            *web_traffic(self.BASE, 0.1, mega),
        )
        return over(mega, 1, groups, seconds, warmup, seed, self.BASE)

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
        """The ratio that synchronised losses give."""
        left = 1 - self.EXPONENT[kind.key]
        return float(ratio ** (1 / left)) if left else (math.inf if ratio > 1 else 1.0)

    def measure_ratios(self, data: Data, kind: Kind, ratio: int) -> list[float]:
        """Ratios of throughputs; between equal RTTs the larger's by the smaller's, as a ratio and
        its reciprocal would cancel in a mean.
        """
        found = kind.values(data, ratio, "ratio")
        return [max(x, 1 / x) for x in found] if ratio == 1 else found

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Ratios of throughputs, also divided by the theory's, and BIC's by AIMD's; the mean of
        all, divided by the published.
        """
        found: dict[str, Measured] = {}
        squares: dict[str, list[float]] = {}
        same: dict[str, list[float]] = {}
        parts: list[list[float]] = []  # of the published ratio, by protocol and RTTs
        for ratio in map(int, axis_values(data)) if not quick else ():
            seen = {kind: self.measure_ratios(data, kind, ratio) for kind in FAST}
            found |= {f"{kind.key}-{ratio}": values for kind, values in seen.items()}
            if ratio > 1:
                for kind, values in seen.items():
                    parts.append([one / published(kind, ratio) for one in values])
                for kind in (AIMD, BIC):
                    theory = self.theory(kind, ratio)
                    squares[f"{kind.label}, 1 : {ratio}"] = [one / theory for one in seen[kind]]
                same[f"1 : {ratio}"] = ratios(seen[BIC], seen[AIMD])
                rows = sorted(FAST, key=lambda kind, at=ratio: published(kind, at))  # type: ignore[misc]
                found[f"order-{ratio}"] = {
                    f"{high.label} / {low.label}": ratios(seen[high], seen[low])
                    for low, high in pairwise(rows)
                }
        if quick:
            return found
        seeds = zip(*parts, strict=False)
        every = [geometric_mean(seed) for seed in seeds]
        return found | {"squares": squares, "as-aimd": same, "mean": every}

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 4.6)
        axis = figure.subplots()
        axis.set_yscale("log")
        ratios = [int(x) for x in axis_values(data)]
        kinds = kinds_of(data)
        width = 0.8 / len(kinds)
        for n, kind in enumerate(kinds):
            for at, ratio in enumerate(ratios):
                values = self.measure_ratios(data, kind, ratio)
                place = at + (n - (len(kinds) - 1) / 2) * width
                mean = geometric_mean(values)
                axis.bar(place, mean, 0.86 * width, color=kind.colour, alpha=0.75)
                axis.plot([place, place], [min(values), max(values)], color="black", linewidth=1.2)
                there = published(kind, ratio)
                axis.plot(place, there, marker="_", color="black", ms=16, mew=2.2)
                top = max(mean, there, *values)
                look = {"ha": "center", "color": kind.colour, "fontweight": "bold"}
                note(axis, f"{mean:.3g}", (place, top), (0, 5), **look)
                if at == len(ratios) - 1:
                    note(axis, kind.label, (place, top), (0, 19), va="bottom", rotation=90, **look)
        axis.plot([], [], marker="_", color="black", ms=14, mew=2.2, ls="", label="published")
        axis.plot([], [], color="black", linewidth=1.2, label="range over seeds")
        axis.legend(loc="upper left", fontsize=9)
        names = [
            f"1 : {ratio}" + ("\n(larger : smaller)" if ratio == 1 else "") for ratio in ratios
        ]
        axis.set_xticks(range(len(ratios)), names)
        bottom = min(0.5, *(min(values_of(data, name, "ratio")) for name in data))
        axis.set_ylim(bottom, 30 * max(max(values_of(data, name, "ratio")) for name in data))
        axis.grid(False, axis="x")
        axis.set_xlabel("RTT of the first flow : of the second")
        axis.set_ylabel("throughput of the first : second")

    def rows(self, data: Data) -> Iterator[Row]:
        for ratio, kind, runs in runs_of(data):
            theory = self.theory(kind, int(ratio))
            seen = self.measure_ratios(data, kind, int(ratio))
            yield {
                "RTTs": f"1 : {ratio:g}" + (", larger : smaller" if ratio == 1 else ""),
                "protocol": kind.label,
                "published": f"{published(kind, int(ratio)):g}",
                "ours": spread(seen, 2 if ratio == 1 else 1, mean=geometric_mean),
                "theory, synchronised losses": "∞" if math.isinf(theory) else f"{theory:.3g}",
                "first, Mbit/s": f"{mean(runs, 'near') / 1e6:.0f}",
                "second, Mbit/s": f"{mean(runs, 'far') / 1e6:.1f}",
            }


# --- TCP friendliness: two flows of each protocol beside two Reno flows ---------------------------


class Friendliness(Compared):
    """TCP friendliness (slide 40)."""

    name = "bic-friendliness"
    title = "TCP friendliness: two high-speed flows beside two Reno flows"
    source = f"{SLIDES}, slides 15, 18, 36, 40"
    setting = (
        "ns-2: 20 Mbit/s, drop-tail, buffer 1 BDP, reverse traffic; 2 TCP flows, 2 high-speed"
        " flows, and some background traffic."
    )
    PUBLISHED_RATE = 20
    quick_kinds = (RENO, AIMD, HSTCP)
    values: ClassVar = {PUBLISHED_RATE: 100, 100: 100, 500: 60}  # Mbit/s -> s
    quick_values = (PUBLISHED_RATE,)
    assumptions = (
        "RTT 100 ms for all. Packets of 1500 bytes; at 20 Mbit/s a fair window is between 41 and"
        " 83 packets.",
        "Background and reverse traffic: TCP flows that arrive as a Poisson process, Pareto sizes"
        " with shape 1.5 and a mean of 100 kB, 10 % of the link in each direction.",
        "100 and 500 Mbit/s are ours: the slide has only 20.",
        "Friendliness is the throughput of two Reno flows beside two flows of the protocol, divided"
        " by half of that of four Reno flows. The slides give no number; our thresholds: 0.5 or"
        " more is friendly, less than 0.25 is not.",
    )

    def experiment(self, kind: Kind, value: int, quick: bool, seed: int) -> Experiment:
        groups = (RENO.flows("tcp", 2), kind.flows("fast", 2), *web_traffic(RTT, 0.1, value))
        return over(value, 1, groups, 40 if quick else self.values[value], 10, seed)

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

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """How much of its share Reno keeps [%]."""
        rate = self.PUBLISHED_RATE
        fair = [(run["tcp"] + run["fast"]) / 200 for run in data[f"{RENO.key}-{rate}"]]
        kept = {
            kind: ratios(kind.values(data, rate, "tcp"), fair)
            for kind in kinds_of(data)
            if kind is not RENO
        }
        found: dict[str, Measured] = {kind.key: values for kind, values in kept.items()}
        found["least"] = {
            f"AIMD / {kind.label}": ratios(kept[AIMD], values)
            for kind, values in kept.items()
            if kind is not AIMD
        }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        rates, kinds = axis_values(data), kinds_of(data)
        figure.set_size_inches(WIDTH, 1.1 + 0.42 * len(kinds) * len(rates))
        panels = figure.subplots(len(rates), 1, sharex=True, squeeze=False)[:, 0]
        for axis, mega in zip(panels, rates, strict=True):
            for at, kind in enumerate(reversed(kinds)):
                tcp = kind.values(data, mega, "tcp")
                left, part = 100 * fmean(tcp), 100 * fmean(kind.values(data, mega, "fast"))
                bar = {"alpha": 0.75, "edgecolor": "white"}
                axis.barh(at, left, 0.72, color=GREY, **bar)
                axis.barh(at, part, 0.72, left=left, color=kind.colour, **bar)
                axis.plot([100 * min(tcp), 100 * max(tcp)], [at, at], color="black", linewidth=1.4)
                look = {"va": "center", "color": "white", "fontweight": "bold"}
                axis.text(left + part - 1, at, kind.label, ha="right", **look)
                x, ha = (left / 2, "center") if left > 12 else (left + 1, "left")
                axis.text(x, at, f"{left:.0f} %", ha=ha, **look)
            axis.set_yticks([])
            axis.set_xlim(0, 100)
            axis.grid(False, axis="y")
            axis.set_title(rate_label(mega), fontsize=10, loc="left", fontweight="bold")
        panels[0].set_title("2 Reno flows in grey", fontsize=10, loc="right", color=GREY)
        panels[-1].set_xlabel("share of the link (%); black: range over seeds")

    def rows(self, data: Data) -> Iterator[Row]:
        for mega, kind, runs in runs_of(data):
            fair = fmean((run["tcp"] + run["fast"]) / 2 for run in data[f"{RENO.key}-{mega:g}"])
            kept = 100 * (mean(runs, "tcp") / fair)
            yield {
                "link": rate_label(mega),
                "beside": kind.label,
                "2 Reno, %": spread([100 * run["tcp"] for run in runs], 1),
                "2 of it, %": spread([100 * run["fast"] for run in runs], 1),
                "background, %": spread([100 * run["web"] for run in runs], 1),
                "Reno keeps, %": f"{kept:.0f}",
            }


# --- throughput, queue length and loss by buffer size ---------------------------------------------


class Buffer(Compared):
    """The effect of the buffer size (slides 42 to 44)."""

    name = "bic-buffer"
    title = "Throughput, queue length and loss by buffer size"
    source = f"{SLIDES}, slides 42 to 44"
    setting = (
        "Three figures without any text: throughput, queue size and packet loss by buffer size."
    )
    values: ClassVar = (0.03, 0.1, 0.3, 1.0)  # of the bandwidth-delay product
    quick_values = (0.03, 1.0)
    assumptions = (
        "The whole setting is ours: 622 Mbit/s, drop-tail, buffers of 0.03 to 1 BDP, 5 flows, RTT"
        " 100 ms, packets of 1500 bytes, 40 s without the first 10.",
    )

    def experiment(self, kind: Kind, value: float, quick: bool, seed: int) -> Experiment:
        mega, seconds = (155, 20) if quick else (622, 40)
        return over(mega, value, (kind.flows("a", 5),), seconds, 10, seed)

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

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Changes of throughput [% of the link] and queue [BDP] from one buffer to the next; how
        much more is lost by the one than by the other.
        """
        parts, kinds = axis_values(data), kinds_of(data)
        found: dict[str, Measured] = {}
        for kind in kinds:
            for key, scale in (("throughput", 100), ("queue", 1)):
                seen = {part: kind.values(data, part, key) for part in parts}
                found[f"{key}-{kind.key}"] = {
                    f"{low:g} to {high:g} BDP": [scale * gap for gap in gaps(seen[high], seen[low])]
                    for low, high in pairwise(parts)
                }
        for part in parts if AIMD in kinds else ():
            others = [kind for kind in kinds if kind not in (RENO, AIMD)]
            pairs = [(AIMD, kind) for kind in others] + [(kind, RENO) for kind in others]
            found[f"loss-{part:g}"] = {
                f"{more.label} - {less.label}": gaps(
                    more.values(data, part, "loss"), less.values(data, part, "loss")
                )
                for more, less in pairs
            }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 7.6)
        panels = figure.subplots(3, 1, sharex=True)
        for axis in panels:
            axis.set_xscale("log")
        panels[1].set_yscale("log")
        panels[2].set_yscale("log")
        least = min(min(values_of(data, name, "throughput")) for name in data)
        draw_begin(panels[0], 100 * least - 5, 100)
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

    def rows(self, data: Data) -> Iterator[Row]:
        for part, kind, runs in runs_of(data):
            yield {
                "buffer, BDP": f"{part:g}",
                "protocol": kind.label,
                "throughput, %": spread([100 * run["throughput"] for run in runs], 1),
                "buffer occupancy, %": spread([100 * run["filled"] for run in runs], 0),
                "loss": f"{mean(runs, 'loss'):.1e}",
            }


# --- response functions: mean window by loss probability ------------------------------------------


class Response(Compared):
    """Response functions (slides 9, 14, 18, 35 to 37)."""

    name = "bic-response"
    title = "Response functions: mean window by loss probability"
    source = f"{SLIDES}, slides 9 to 18 and 35 to 37; formulas of {PAPER}, RFC 3649"
    setting = (
        "Formulas: packets per round trip by the loss probability p, for periodic losses."
        " Reno √(1.5/p); AIMD(32, ⅛) √(240/p), 13 times Reno at any p;"
        " HSTCP 0.12/p^0.835; STCP 0.08/p; BIC by Smax 32, Smin 0.01, β ⅛."
    )
    # Loss probability -> expected number of losses in a run.
    values: ClassVar = {1e-3: 400, 1e-4: 200, 1e-5: 60}
    quick_values = (1e-3,)
    assumptions = (
        "One flow, RTT 100 ms, 5 Gbit/s, so that the link hardly ever limits it; packets of 1500"
        " bytes.",
        "p is the probability with which netem drops each data packet independently. The formulas'"
        " p counts losses that reduce the window: fewer, where several packets of a round trip are"
        " lost (AIMD at p = 0.001: 0.5 per round trip).",
        "The duration gives 400, 200, 60 expected losses at p = 1e-3, 1e-4, 1e-5; a smaller p"
        " would need billions of packets. With 60 losses, the standard deviation of a run is 6 %,"
        " for HSTCP and STCP 10 % (found by simulation).",
        "Simulation: the published rules round by round, with 2000 random losses.",
        "BIC's formula is for windows above 512 packets, 2 Smax/β: p below 1.5e-4.",
    )
    REGIME: ClassVar[dict[str, float]] = {"bic": 1.5e-4}

    def experiment(self, kind: Kind, value: float, quick: bool, seed: int) -> Experiment:
        count = 300 if quick else self.values[value]
        took = count / value / RESPONSES[kind.key](value) * RTT / 1e6
        warmup = 10 + round(0.1 * took)
        seconds = warmup + math.ceil(took)
        flow, look = kind.flows("a", 1), max(0.1, seconds / 500)
        return over(5000, 1, (flow,), seconds, warmup, seed, loss=value, look=look)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        what = outcome.what
        packets = outcome.goodput("a", 0) / 8 / what.payload * RTT / 1e6
        return {
            "p": what.loss,
            "packets": round(packets, 2),
            "dropped": outcome.columns["drops"][-1],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        packet, rtt = 1250, 0.1
        window = 10e9 * rtt / (8 * packet)
        p = 1.5 / window**2
        found: dict[str, Measured] = {
            "reno-loss": [p],
            "reno-bits": [p / (8 * packet)],
            "aimd-formula": [RESPONSES["aimd"](p) / RESPONSES["reno"](p)],
        }
        losses = sorted(axis_values(data), reverse=True)
        seen = {
            (kind, p): kind.values(data, p, "packets") for p in losses for kind in kinds_of(data)
        }
        if AIMD in kinds_of(data):
            found["aimd-measured"] = {
                f"p = {p:g}": ratios(seen[AIMD, p], seen[RENO, p]) for p in losses
            }
        for (kind, p), values in seen.items():
            found[f"rules-{kind.key}-{p:g}"] = [one / simulated(kind.key, p) for one in values]
            if p <= self.REGIME.get(kind.key, 1):
                formula = RESPONSES[kind.key](p)
                found[f"formula-{kind.key}-{p:g}"] = [one / formula for one in values]
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(WIDTH, 5.0)
        axis = figure.subplots()
        axis.set(xscale="log", yscale="log")
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
            rules = [simulated(kind.key, p) for p in some]
            axis.plot(some, rules, color=kind.colour, linewidth=1.4, linestyle=":")
            dots = {"color": kind.colour, "ms": 6, "alpha": 0.8}
            for p in measured:
                values = kind.values(data, p, "packets")
                axis.plot([p] * len(values), values, kind.marker, **dots)
        axis.set_xlim(last, first)
        name_ends(axis, [(RESPONSES[kind.key](first), kind) for kind in kinds_of(data)])
        for look, words in (("-", "formula"), (":", "rules, simulated")):
            axis.plot([], [], color="black", linestyle=look, linewidth=1.2, label=words)
        axis.plot([], [], "o", color="black", ms=6, ls="", label="measured, each seed")
        axis.legend(loc="upper left", fontsize=9)
        axis.set(xlabel="loss probability", ylabel="packets per round trip")

    def rows(self, data: Data) -> Iterator[Row]:
        for p, kind, runs in sorted(runs_of(data), key=lambda one: -one[0]):
            formula = RESPONSES[kind.key](p)
            yield {
                "p": f"{p:g}",
                "protocol": kind.label,
                "formula": f"{formula:.0f}" if p <= self.REGIME.get(kind.key, 1) else "–",
                "simulated rules": f"{simulated(kind.key, p):.0f}",
                "measured": spread([run["packets"] for run in runs], 0),
            }


# --- BIC's binary search after a loss, and convergence of two flows -------------------------------

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
    search = BicWindow(window, wmax=wmax)
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
    JOINS = 20  # s, when the second flow starts
    assumptions = (
        "155 Mbit/s, RTT 100 ms, drop-tail, buffer 0.3 BDP; packets have 1500 bytes.",
        "Search: one BIC flow beside UDP of 60 Mbit/s, which ends at 15 s, so that the window has"
        " to find a new maximum. TCP_INFO is sampled every 20 ms. Rounds are time divided by TCP's"
        " own RTT; the expected steps are Smax 32, Smin 0.01, and above Wmax 1, 2, 4, 8, 16 and"
        " then 32 packets (the paper's max probing).",
        "Share: a BIC flow that has the link to itself, and a second one that starts at 20 s.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        # A flow beside a constant load that ends; two flows, one after the other.
        packet = MTU - headers.DATAGRAM
        other = Stream("udp", rate=self.OTHER * MEGA, packet=packet, stop=self.LEAVES)
        search = (BIC.flows("a", 1), Group("other", RTT, (other,)))
        streams = (Stream(BIC.cc), Stream(BIC.cc, start=self.JOINS))
        share = (Group("a", RTT, streams, settings=BIC.settings),)
        return [
            Case("search", over(self.RATE, 0.3, search, 30, 5, seed, look=0.02)),
            Case("share", over(self.RATE, 0.3, share, 70 if quick else 200, 5, seed)),
        ]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        if case.name == "search":
            return self.reduce_search(outcome)
        last = outcome.what.seconds
        times, first = outcome.rates("a", 0, 2.0)
        _, second = outcome.rates("a", 1, 2.0)
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
            "episodes": [100 * fmean(off <= 0.02 for off in run["episodes"]) for run in runs],
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
        note(step, "binary search", (passed - 1, run["wmax"]), (0, -12), ha="right", va="top")
        note(step, "max probing", (passed + 2, run["wmax"]), (0, -12), ha="left", va="top")
        step.set(xlabel="round trips after a loss (yellow above)", ylabel="window (packets)")
        title = f"thick: measured; dashed: the rules, at most {100 * run['off']:.1f} % off"
        step.set_title(title, fontsize=10, loc="left")

        for behind, runs in reversed(list(enumerate(data["share"]))):
            look = {"alpha": 0.25} if behind else {}
            for flow, colour in zip(runs["rates"], (BIC.colour, COLOURS[1]), strict=True):
                share.plot(runs["time"], flow, color=colour, linewidth=1.3, **look)
        user = self.RATE * (MTU - headers.SEGMENT) / FRAME
        share.axhline(user / 2, color="black", linestyle=":", linewidth=1)
        share.set(xlabel="seconds", xlim=(0, None))
        share.set(ylabel="throughput (Mbit/s)", ylim=(0, 1.05 * self.RATE))
        title = f"two flows; the second starts at {self.JOINS} s; dotted: half of the link"
        share.set_title(title, fontsize=10, loc="left")


STUDIES: tuple[Study, ...] = (
    Utilisation(),
    RttFairness(),
    Friendliness(),
    Buffer(),
    Response(),
    Convergence(),
)
