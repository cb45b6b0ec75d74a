# SPDX-License-Identifier: GPL-2.0
"""Fair queueing: Roberts and Augé, "Fair queueing and congestion control" (slides, 2005).

Half of a link carries background traffic that is not bottlenecked there; one, two or four permanent
flows share the rest.  The buffer size, the congestion control, and FIFO or per-flow queues decide
the throughput of the permanent flows and the loss of the background.  The slides show ns-2's
windows and link utilisation over 100 s; here they are Linux's, with pfifo and drr_fq.

Another study checks the slides' theory: flows that arrive as a Poisson process and share a link
evenly (processor sharing) behave like the customers of an M/M/1 queue, whatever the distribution of
their sizes.  With drr_fq the mean number of flows in progress should be E = rho / (1 - rho).

The last one checks their thesis with a model of a queue: few flows have packets in it, at any rate
of the link and with any scheduler.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairlab.figures.studies.queue_model import BINS, DRR, RR, SCFQ, SCHEDULERS, Link
from fairlab.figures.studies.spread import gaps, mean, percent, ratios, spread
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study
from fairlab.model.background import FLOWS, PACKETS, Background
from fairlab.results import plots
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome
from fairlab.results.statistics import jain

SOURCE = "Roberts, Augé: Fair queueing and congestion control, slides (2005)"
RENO, HSTCP = "reno", "highspeed"
FIFO, FQ = "FIFO", "FQ"
RATE, RTT, MTU = 50_000_000, 100_000, 1000
BUFFERS = SMALL, MIDDLE, LARGE = 20, 100, 625
NAMES = {RENO: "Reno", HSTCP: "HSTCP"}
LOOKS = {RENO: plots.COLOURS[0], HSTCP: plots.COLOURS[1]}

BIG, BESIDE = "big", "back"
SETTING = (
    "ns-2: a bottleneck of 50 Mbit/s, RTT 100 ms, 25 Mbit/s of background, buffers of 20, 100 and"
    " 625 packets (625 is the BDP, so packets have 1000 bytes); FIFO with"
    " drop-tail, or fair queueing with drop from the front of the longest queue; 100 s."
)
ASSUMPTIONS = (
    "Packets of 1000 bytes including the IP header; Linux's TCP, with SACK; the variant of ns-2's"
    " TCP is not published. HSTCP, which counts ACKs, gets one for each packet, as from ns-2's"
    " sinks.",
    "FQ is drr_fq with DRR and a quantum of one packet: the slides say that any algorithm works.",
    "Means are from 10 s to 100 s. Shares are of the capacity that the background leaves.",
    "Permanent flows start within the first second, at random times.",
)


@dataclass(frozen=True)
class Mix:
    """Permanent flows over a queue."""

    flows: tuple[str, ...]
    buffer: int
    queue: str

    @property
    def name(self) -> str:
        kinds = "-".join(f"{self.flows.count(cc)}{cc}" for cc in dict.fromkeys(self.flows))
        return f"{kinds}-{self.buffer}-{self.queue.lower()}"

    @property
    def label(self) -> str:
        kinds = [(self.flows.count(cc), NAMES[cc]) for cc in dict.fromkeys(self.flows)]
        words = " + ".join(f"{n} {kind}" if n > 1 else kind for n, kind in kinds)
        return f"{words}, {self.buffer} packets, {self.queue}"

    def experiment(self, kind: str, seconds: float, seed: int) -> Experiment:
        """The experiment, with background traffic of KIND."""
        words = {FIFO: f"pfifo limit {self.buffer}", FQ: f"drr_fq limit {self.buffer}"}
        streams = tuple(Stream(cc) for cc in self.flows)
        groups = (
            Group(BIG, RTT, streams, ack_each=HSTCP in self.flows),
            Group(BESIDE, RTT, background=Background(0.5, kind)),
        )
        warmup, queue = min(10.0, seconds / 4), words[self.queue]
        return Experiment(RATE, self.buffer, groups, seconds, warmup, seed, queue, MTU)


def begun(outcome: Outcome, records: Sequence[Any], before: float = 0) -> list[Any]:
    """Those of RECORDS of the background that began in the window, BEFORE its end [s]."""
    first, last = outcome.window
    begin = outcome.document["begin"]
    return [one for one in records if first <= one.start - begin < last - before]


def background_loss(outcome: Outcome) -> tuple[int, int]:
    """The background's sent and lost packets."""
    report = outcome.backgrounds[BESIDE]
    flows = [flow for flow in begun(outcome, report.flows) if flow.lost is not None]
    # Packets in flight at the end count neither as lost nor as received.
    bins = begun(outcome, report.bins, 1)
    sent = sum(flow.segments for flow in flows) + sum(one.sent for one in bins)
    arrived = sum(one.received for one in bins)
    return sent, sum(flow.lost for flow in flows) + sum(one.sent for one in bins) - arrived


def background_wait(outcome: Outcome) -> list[float]:
    """The mean and the longest delay that single packets of the background had in the queue [ms];
    empty for flows, whose packets are not stamped.
    """
    records = begun(outcome, outcome.backgrounds[BESIDE].bins, 1)
    bins = [one for one in records if one.received]
    if not bins:
        return []
    # Half of the round-trip time is behind the bottleneck.
    way = RTT / 2 / 1e6
    mean = sum(one.delay for one in bins) / sum(one.received for one in bins)
    return [round(1000 * (delay - way), 3) for delay in (mean, max(one.longest for one in bins))]


class Shares(Study):
    """Permanent flows beside background traffic, in several mixes."""

    source = SOURCE
    assumptions: tuple[str, ...] = ASSUMPTIONS
    kind: str
    mixes: tuple[Mix, ...]
    quick_mixes: tuple[int, ...]
    step = 0.5

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mixes = [self.mixes[n] for n in self.quick_mixes] if quick else self.mixes
        seconds = 30.0 if quick else 100.0
        return [Case(mix.name, mix.experiment(self.kind, seconds, seed)) for mix in mixes]

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        import numpy

        rates = outcome.goodputs(BIG)
        left = RATE - outcome.arrived(BESIDE)
        what = outcome.what
        sent, lost = background_loss(outcome)
        columns = outcome.columns
        times = numpy.asarray(columns["time"])
        edges = numpy.arange(0, what.seconds + 0.5)
        used = numpy.diff(numpy.interp(edges, times, columns["sent_bytes"])) * 8 / what.rate
        windows = []
        for seen in (outcome.series(BIG, n) for n in range(len(rates))):
            at = numpy.arange(0, seen.time[-1], self.step)
            windows.append([round(float(v), 1) for v in numpy.interp(at, seen.time, seen.cwnd)])
        return {
            "rates": [round(rate) for rate in rates],
            "share": round(sum(rates) * what.frame / what.payload / left, 4),
            "jain": round(jain(rates), 4),
            "utilisation": round(outcome.utilisation, 4),
            "background": [sent, lost],
            "wait_ms": background_wait(outcome),
            "queue_ms": round(float(8000 * outcome.within("backlog_bytes").mean() / what.rate), 2),
            "cwnd": windows,
            "used": [round(float(value), 3) for value in used],
        }

    def mix(self, name: str) -> Mix:
        return next(mix for mix in self.mixes if mix.name == name)

    def rows(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            mix = self.mix(name)
            rates = [rate for run in runs for rate in run["rates"]]
            sent, lost = (sum(run["background"][n] for run in runs) for n in (0, 1))
            yield {
                "mix": mix.label,
                "of the available rate": spread(shares(runs), 0, "%"),
                "each flow": f"{min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f} Mbit/s",
                "Jain's index": spread(jains(runs)) if len(mix.flows) > 1 else "",
                "utilisation": spread(percent([run["utilisation"] for run in runs]), 0, "%"),
                "background lost": f"{lost} of {sent}",
            }

    def draw(self, figure: Any, data: Data) -> None:
        """Two panels for each mix: windows and link utilisation."""
        names = list(data)
        width = min(2, len(names))
        height = -(-len(names) // width)
        figure.set_size_inches(8, 0.6 + 2.3 * height)
        outer = figure.add_gridspec(height, width)
        for n, name in enumerate(names):
            mix, runs = self.mix(name), data[name]
            cell = outer[n // width, n % width]
            cells = cell.subgridspec(2, 1, height_ratios=(3, 1), hspace=0.08)
            above = figure.add_subplot(cells[0])
            below = figure.add_subplot(cells[1], sharex=above)
            # The first seed, and paler behind it the others.
            for behind, run in reversed(list(enumerate(runs))):
                look = {"alpha": 0.25, "zorder": 1} if behind else {"zorder": 2}
                for at, cc in enumerate(mix.flows):
                    points = run["cwnd"][at]
                    times = [self.step * i for i in range(len(points))]
                    dashes = plots.DASHES[mix.flows[:at].count(cc) % len(plots.DASHES)]
                    above.plot(times, points, color=LOOKS[cc], ls=dashes, lw=1.1, **look)
                middles = [i + 0.5 for i in range(len(run["used"]))]
                below.plot(middles, run["used"], color="black", lw=0.8, **look)
            windows = (points for run in runs for points in run["cwnd"])
            plots.limit(above, 0, 1000, itertools.chain.from_iterable(windows))
            above.tick_params(labelbottom=False)
            above.set_title(mix.label, fontsize=9, loc="left")
            share = spread(shares(runs), 0, "% of the available rate")
            corner = {"transform": above.transAxes, "ha": "right", "va": "top", "fontsize": 8}
            above.text(0.99, 0.97, share, **corner)
            below.set_ylim(0, 1.05)
            if n % width == 0:
                above.set_ylabel("cwnd")
                below.set_ylabel("use")
            if n // width == height - 1:
                below.set_xlabel("seconds")
        first = figure.axes[0]
        for cc in dict.fromkeys(cc for name in names for cc in self.mix(name).flows):
            first.plot([], [], color=LOOKS[cc], label=NAMES[cc])
        first.legend(loc="upper left", fontsize=8)


class OneFlow(Shares):
    """One permanent flow (slides 19 to 23)."""

    name = "fq-one-flow"
    title = "One permanent flow beside background traffic of half the link"
    source = f"{SOURCE}, slides 19 to 23"
    setting = f"{SETTING} One permanent flow; the background consists of flows of at most 1 Mbit/s."
    assumptions = (
        *ASSUMPTIONS,
        "Sizes of background flows are exponential with a mean of 100 KiB.",
    )
    kind = FLOWS
    mixes = (
        *(Mix((RENO,), buffer, FIFO) for buffer in BUFFERS),
        Mix((HSTCP,), MIDDLE, FIFO),
        Mix((RENO,), SMALL, FQ),
        Mix((HSTCP,), MIDDLE, FQ),
    )
    quick_mixes = (0, 4)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        small, fair = data["1reno-20-fifo"], data["1reno-20-fq"]
        found: dict[str, Measured] = {
            "protects": ratios(lost(fair), lost(small)),
            "little-effect": ratios(shares(fair), shares(small)),
        }
        if quick:
            return found
        middle, large = data["1reno-100-fifo"], data["1reno-625-fifo"]
        fast = data["1highspeed-100-fifo"]
        return found | {
            "small": shares(small),
            "larger": {
                "100 - 20": gaps(shares(middle), shares(small)),
                "625 - 20": gaps(shares(large), shares(small)),
            },
            "large": shares(large),
            "hstcp-more": gaps(shares(fast), shares(middle)),
            "hstcp-loss": gaps(lost(fast), lost(middle)),
        }


class TwoFlows(Shares):
    """Two permanent flows (slides 24 to 29)."""

    name = "fq-two-flows"
    title = "Two permanent flows beside background traffic of half the link"
    source = f"{SOURCE}, slides 24 to 29"
    setting = f"{SETTING} Two permanent flows; the background is single packets, Poisson."
    kind = PACKETS
    mixes = (
        Mix((RENO, RENO), SMALL, FIFO),
        Mix((RENO, RENO), LARGE, FIFO),
        Mix((HSTCP, HSTCP), SMALL, FIFO),
        Mix((HSTCP, HSTCP), LARGE, FIFO),
        Mix((HSTCP, RENO), SMALL, FIFO),
        Mix((HSTCP, RENO), SMALL, FQ),
        Mix((HSTCP, RENO), LARGE, FIFO),
        Mix((HSTCP, RENO), LARGE, FQ),
    )
    quick_mixes = (6, 7)

    def ratio(self, data: Data, name: str) -> list[float]:
        """HSTCP's throughput divided by Reno's: the first flow's by the second's."""
        return [run["rates"][0] / run["rates"][1] for run in data[name]]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for buffer in (LARGE,) if quick else (SMALL, LARGE):
            fifo, fair = (
                self.ratio(data, f"1highspeed-1reno-{buffer}-{queue}") for queue in ("fifo", "fq")
            )
            found |= {
                f"unfair-{buffer}": fifo,
                f"effective-{buffer}": fair,
                f"gains-{buffer}": fair,
                f"fairer-{buffer}": gaps(fifo, fair),
            }
        name = f"1highspeed-1reno-{LARGE}"
        found["delay"] = ratios(waits(data[f"{name}-fq"]), waits(data[f"{name}-fifo"]))
        if quick:
            return found
        for buffer in (SMALL, LARGE):
            for cc in (RENO, HSTCP):
                found[f"2{cc}-{buffer}"] = jains(data[f"2{cc}-{buffer}-fifo"])
        return found


class FourFlows(Shares):
    """Four permanent flows (slides 30 to 34)."""

    name = "fq-four-flows"
    title = "Four permanent flows beside background traffic of half the link"
    source = f"{SOURCE}, slides 30 to 34"
    setting = f"{SETTING} One or four permanent flows; the background is single packets, Poisson."
    kind = PACKETS
    mixes = (
        Mix((RENO,), SMALL, FIFO),
        Mix((RENO,) * 4, SMALL, FIFO),
        Mix((RENO,), LARGE, FIFO),
        Mix((RENO,) * 4, LARGE, FIFO),
        Mix((HSTCP,), LARGE, FIFO),
        Mix((HSTCP,) * 4, LARGE, FIFO),
        Mix((HSTCP,) * 4, LARGE, FQ),
    )
    quick_mixes = (5, 6)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        fast, fair = data["4highspeed-625-fifo"], data["4highspeed-625-fq"]
        found: dict[str, Measured] = {
            "fq-fair": jains(fair),
            "fq-fairer": gaps(jains(fair), jains(fast)),
            "fq-keeps": ratios(shares(fair), shares(fast)),
        }
        if quick:
            return found
        one, four = data["1reno-20-fifo"], data["4reno-20-fifo"]
        return found | {
            "more": gaps(shares(four), shares(one)),
            "equal-20": jains(four),
            "equal-625": jains(data["4reno-625-fifo"]),
            "hstcp-unfair": jains(fast),
            "hstcp-loses": gaps(shares(fast), shares(data["1highspeed-625-fifo"])),
        }


def shares(runs: Sequence[Numbers]) -> list[float]:
    """The share of the available rate that the permanent flows have [%]."""
    return percent([run["share"] for run in runs])


def lost(runs: Sequence[Numbers]) -> list[float]:
    """The background's loss [%]."""
    return percent([lost / sent for sent, lost in (run["background"] for run in runs)])


def waits(runs: Sequence[Numbers]) -> list[float]:
    """The mean wait of the background's packets [ms]; runs that were stored before lack it."""
    return [run["wait_ms"][0] for run in runs if run.get("wait_ms")]


def jains(runs: Sequence[Numbers]) -> list[float]:
    return [run["jain"] for run in runs]


# --- flows in progress on a fair link -------------------------------------------------------------

SIZES = {"exp": "exponential", "pareto:2.2": "Pareto, shape 2.2"}
DEEPEST = 30


def in_progress(outcome: Outcome) -> tuple[float, list[float]]:
    """The mean number of flows in progress, and the fraction of time with i or more."""
    begin = outcome.document["begin"]
    first, last = outcome.window
    events = []
    for flow in outcome.backgrounds[BESIDE].flows:
        start = flow.start - begin
        end = last if flow.took is None else start + flow.took
        if end > first and start < last:
            events += [(max(start, first), 1), (min(end, last), -1)]
    events.sort()
    count, then = 0, first
    at_least = [0.0] * (DEEPEST + 1)
    area = 0.0
    for when, change in events:
        area += count * (when - then)
        for i in range(min(count, DEEPEST) + 1):
            at_least[i] += when - then
        count, then = count + change, when
    at_least[0] = last - first
    return area / (last - first), [value / (last - first) for value in at_least]


class Insensitivity(Study):
    """Flows in progress under processor sharing (slides 7 to 13)."""

    name = "fq-flows-in-progress"
    title = "Flows in progress on a link with drr_fq"
    source = f"{SOURCE}, slides 7 to 13"
    setting = (
        "A fluid simulation: Poisson arrivals of flows without a rate limit, which share the link"
        " equally; load 0.5 to 0.9. Theory: E = rho / (1 - rho), P(n >= i) = rho^i, for any"
        " distribution of sizes."
    )
    assumptions = (
        "50 Mbit/s and an RTT of 0.2 ms, so that TCP does not limit a flow; Reno; a buffer of 1000"
        " packets; flows of 100 KiB on average, exponential or Pareto with shape 2.2 (with a"
        " smaller shape the mean would take days to converge).",
        "No flow is faster than the link (fq with maxrate at the sender).",
        "A flow is in progress from its first packet until its last byte has been acknowledged by"
        " the receiving program.",
        "The load is measured on the link, including headers.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(f"{sizes.partition(':')[0]}-{load:g}", self.experiment(load, sizes, quick, seed))
            for sizes in SIZES
            for load in ((0.5, 0.8) if quick else (0.5, 0.6, 0.7, 0.8, 0.9))
        ]

    def experiment(self, load: float, sizes: str, quick: bool, seed: int) -> Experiment:
        seconds = 60.0 if quick else 400.0
        groups = (Group(BESIDE, 200, background=Background(load, FLOWS, sizes, peak=RATE)),)
        queue = "drr_fq limit 1000"
        return Experiment(RATE, 1000, groups, seconds, seconds / 20, seed, queue, look=1.0)

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        flows, at_least = in_progress(outcome)
        return {
            "load": round(outcome.utilisation, 4),
            "flows": round(flows, 4),
            "at_least": [round(value, 5) for value in at_least],
        }

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Flows in progress, and the time with i or more, divided by the theory's."""
        found: dict[str, Measured] = {}
        for name, runs in data.items():
            found[name] = [run["flows"] * (1 - run["load"]) / run["load"] for run in runs]
            if not quick:
                found[f"tail-{name}"] = {
                    f"i = {i}": [run["at_least"][i] / run["load"] ** i for run in runs]
                    for i in (2, 5, 10)
                }
        return found

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(8, 3.8)
        left, right = figure.subplots(1, 2)
        theory = [n / 200 for n in range(80, 187)]
        left.plot(theory, [x / (1 - x) for x in theory], color="black", linewidth=1)
        left.annotate(r"$\rho/(1-\rho)$", (0.9, 9), (-48, 0), textcoords="offset points")
        for marker, colour, (sizes, words) in zip("os", plots.COLOURS, SIZES.items(), strict=False):
            kind = sizes.partition(":")[0]
            chosen = [runs for name, runs in data.items() if name.startswith(f"{kind}-")]
            for n, runs in enumerate(chosen):
                loads, flows = ([run[key] for run in runs] for key in ("load", "flows"))
                look = {"fillstyle": "none", "label": None if n else words}
                left.plot(loads, flows, marker, color=colour, **look)
                every = zip(*(run["at_least"] for run in runs), strict=True)
                deep = list(map(statistics.fmean, every))
                right.semilogy(range(len(deep)), deep, marker, color=colour, markersize=3)
                load = mean(runs, "load")
                right.semilogy(range(len(deep)), [load**i for i in range(len(deep))], "k-", lw=0.7)
                if kind == "exp":
                    at = min(DEEPEST, max(3, round(-5 / (load - 1) / 2)))
                    plots.note(right, f"{load:.2f}", (at, load**at), (2, 3), fontsize=8)
        left.set(xlabel="load", ylabel="flows in progress, mean", ylim=(0, None))
        left.legend(loc="upper left")
        right.set(xlabel="i", ylabel="part of the time with i flows or more", ylim=(1e-4, 1.2))
        title = "lines: load^i; less than a ten-thousandth is not drawn"
        right.set_title(title, fontsize=9, loc="left")


# --- flows with packets in a queue, by the rate of the link and the scheduler ---------------------


class Active(Study):
    """Flows with packets in the queue (slides 14 to 17)."""

    name = "fq-active-flows"
    title = "Flows with packets in a queue, by the rate of the link and the scheduler"
    source = f"{SOURCE}, slides 14 to 17"
    setting = (
        "Simulations with traces of an Abilene link (OC-48), and analysis: many flows of 10 kbit/s"
        " to 10 Mbit/s that the link does not limit, and a few that it does; loads below 90 %."
    )
    assumptions = (
        "A model of the queue alone, without TCP or guest: the trace is not published.",
        "Half of the link is used by flows of 10 kbit/s to 1 Mbit/s (log-uniform; slide 18 has"
        " 1 Mbit/s at most), each a Poisson process of packets of 300 or 1500 bytes: 116 flows at"
        " 50 Mbit/s, 11,600 at 5 Gbit/s. Four tenths are flows that always have packets: they"
        " arrive as a Poisson process, geometric sizes of 100 KiB on average, with ten packets"
        " of 1500 bytes in the queue.",
        "The load is 0.9, the largest that the slides speak of. DRR has a quantum of a packet.",
        "A flow is active while a packet of it waits or is sent.",
    )
    rates: ClassVar[dict[int, str]] = {
        50_000_000: "50 Mbit/s",
        500_000_000: "500 Mbit/s",
        5_000_000_000: "5 Gbit/s",
    }
    count_of_seeds = 10

    def cases(self, quick: bool, seed: int) -> list[Case]:
        count = 20_000 if quick else 200_000
        return [
            Case(f"{kind.lower()}-{rate // 10**6}", Link(kind, rate, seed, count))
            for rate in self.rates
            for kind in SCHEDULERS
        ]

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        found: dict[str, Any] = {}
        for name, shares in outcome.items():
            total = itertools.accumulate(shares)
            found[name] = {
                "mean": round(sum(n * share for n, share in enumerate(shares)), 4),
                "high": next((n for n, part in enumerate(total) if part >= 0.999), len(shares) - 1),
                "most": max(n for n, share in enumerate(shares) if share),
                "at_least": [round(sum(shares[i:]), 6) for i in range(21)],
            }
        return found

    def value(self, data: Data, kind: str, rate: int, what: str, key: str) -> list[float]:
        return [float(run[what][key]) for run in data[f"{kind.lower()}-{rate // 10**6}"]]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Flows, and packets; divided by those at the least rate, and by DRR's."""
        slow, fast = min(self.rates), max(self.rates)
        fair = SCHEDULERS[:-1]

        def active(kind: str, rate: int) -> list[float]:
            return self.value(data, kind, rate, "active", "mean")

        def every(what: str, key: str) -> dict[str, list[float]]:
            found = {}
            for kind, (rate, label) in itertools.product(fair, self.rates.items()):
                least = ", at least" if self.draw_clipped(data, kind, rate, what) else ""
                found[f"{kind}, {label}{least}"] = self.value(data, kind, rate, what, key)
            return found

        return {
            "limited": every("limited", "most"),
            "packets": every("packets", "high"),
            "most": every("active", "most"),
            "rate": {kind: ratios(active(kind, fast), active(kind, slow)) for kind in fair},
            "any": {
                f"{kind}, {label}": ratios(active(kind, rate), active(DRR, rate))
                for kind in (RR, SCFQ)
                for rate, label in self.rates.items()
            },
            "mix": {
                f"i = {i}": [
                    run["limited"]["at_least"][i] / self.RELATIVE**i
                    for run in data[f"drr-{slow // 10**6}"]
                ]
                for i in (2, 5, 10)
            },
            "erratum": [self.MIX**5],
        }

    #: The load of limited flows, as a part of what the others leave: here, and in slide 17's
    #: example, a load of 0.6.
    RELATIVE = (0.9 - 0.5) / (1 - 0.5)
    MIX = (0.6 - 0.5) / (1 - 0.5)

    #: What a run counted at most; those that were stored before, 2000.
    draw_ends: ClassVar = (2000, BINS)

    def draw_clipped(self, data: Data, kind: str, rate: int, what: str) -> list[int]:
        """How far those runs counted WHAT that had more of it."""
        most = map(int, self.value(data, kind, rate, what, "most"))
        return [one for one in most if one in self.draw_ends]

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(10, 4)
        flows, packets = figure.subplots(1, 2)
        x = list(range(len(self.rates)))
        for n, kind in enumerate(SCHEDULERS):
            colour = plots.COLOURS[n]
            for axis, what in ((flows, "active"), (packets, "packets")):
                for key, look in (("mean", "o-"), ("high", "s--")):
                    values = [self.value(data, kind, rate, what, key) for rate in self.rates]
                    at = [one + 0.06 * (n - 1.5) for one in x]
                    label = f"{kind}, {'mean' if key == 'mean' else '99.9 %'}"
                    means = list(map(statistics.fmean, values))
                    axis.plot(at, means, look, color=colour, ms=4, label=label)
                    for place, rate, found in zip(at, self.rates, means, strict=True):
                        clipped = self.draw_clipped(data, kind, rate, what)
                        if clipped and key == "high":
                            axis.plot([place], [found], "^", color=colour, ms=9)
                            words = f"at least: {len(clipped)} runs\ncount up to {max(clipped):,}"
                            plots.note(axis, words, (place, found), (9, -4), fontsize=7)
        flows.axhline(500, color="black", lw=0.8, ls=":")
        flows.set_title("flows with packets; dotted: slide 16's most", fontsize=9, loc="left")
        packets.set_title("packets of flows that the link does not limit", fontsize=9, loc="left")
        for axis in (flows, packets):
            axis.set_yscale("log")
            axis.set_xticks(x, list(self.rates.values()))
        packets.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)

    def rows(self, data: Data) -> Iterator[Row]:
        whats = {"active": "active flows", "limited": "limited flows", "packets": "other packets"}
        keys = (("mean", "mean", 1), ("high", "99.9 %", 0), ("most", "most", 0))
        for rate, label in self.rates.items():
            for kind in SCHEDULERS:
                least = {what: self.draw_clipped(data, kind, rate, what) for what in whats}
                yield {"link": label, "scheduler": kind} | {
                    f"{words}: {head}": (
                        ("\N{GREATER-THAN OR EQUAL TO} " if least[what] else "")
                        + f"{statistics.fmean(self.value(data, kind, rate, what, key)):.{digits}f}"
                    )
                    for what, words in whats.items()
                    for key, head, digits in keys
                }


STUDIES: tuple[Study, ...] = (OneFlow(), TwoFlows(), FourFlows(), Insensitivity(), Active())
