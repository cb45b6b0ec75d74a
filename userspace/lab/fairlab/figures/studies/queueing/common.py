# SPDX-License-Identifier: GPL-2.0
"""Permanent flows beside background traffic: runs, numbers and plots."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlab.figures.studies.spread import percent, spread
from fairlab.figures.study import Case, Data, Numbers, Row, Study, tabular
from fairlab.model.background import Background
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
        return Experiment(
            rate=RATE,
            buffer=self.buffer,
            groups=(
                Group(
                    BIG,
                    RTT,
                    tuple(Stream(cc) for cc in self.flows),
                    ack_each=HSTCP in self.flows,
                ),
                Group(BESIDE, RTT, background=Background(0.5, kind)),
            ),
            seconds=seconds,
            warmup=min(10.0, seconds / 4),
            seed=seed,
            queue=words[self.queue],
            mtu=MTU,
        )


def background_loss(outcome: Outcome) -> tuple[int, int]:
    """The background's sent and lost packets."""
    report = outcome.backgrounds[BESIDE]
    first, last = outcome.window
    begin = outcome.document["begin"]
    flows = [
        flow
        for flow in report.flows
        if flow.lost is not None and first <= flow.start - begin < last
    ]
    # Packets in flight at the end count neither as lost nor as received.
    bins = [one for one in report.bins if first <= one.start - begin < last - 1]
    sent = sum(flow.segments for flow in flows) + sum(one.sent for one in bins)
    arrived = sum(one.received for one in bins)
    return sent, sum(flow.lost or 0 for flow in flows) + sum(one.sent for one in bins) - arrived


def background_wait(outcome: Outcome) -> list[float]:
    """The mean and the longest delay that single packets of the background had in the queue [ms];
    empty for flows, whose packets are not stamped.
    """
    report = outcome.backgrounds[BESIDE]
    first, last = outcome.window
    begin = outcome.document["begin"]
    bins = [one for one in report.bins if first <= one.start - begin < last - 1 and one.received]
    if not bins:
        return []
    # Half of the round-trip time is behind the bottleneck.
    way = RTT / 2 / 1e6
    mean = sum(one.delay for one in bins) / sum(one.received for one in bins)
    return [round(1000 * (delay - way), 3) for delay in (mean, max(one.longest for one in bins))]


def curve(times: Any, values: Any, step: float) -> list[float]:
    """VALUES every STEP seconds, rounded for plotting."""
    import numpy

    return [
        round(float(v), 1) for v in numpy.interp(numpy.arange(0, times[-1], step), times, values)
    ]


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
        windows = [outcome.series(BIG, n) for n in range(len(rates))]
        return {
            "rates": [round(rate) for rate in rates],
            "share": round(sum(rates) * what.frame / what.payload / left, 4),
            "jain": round(jain(rates), 4),
            "utilisation": round(outcome.utilisation, 4),
            "background": [sent, lost],
            "wait_ms": background_wait(outcome),
            "queue_ms": round(float(8000 * outcome.within("backlog_bytes").mean() / what.rate), 2),
            "cwnd": [curve(seen.time, seen.cwnd, self.step) for seen in windows],
            "used": [round(float(value), 3) for value in used],
        }

    # --- what claims are made of ----------------------------------------------------------------

    def mix(self, name: str) -> Mix:
        return next(mix for mix in self.mixes if mix.name == name)

    def rate_of(self, numbers: Numbers, mix: Mix, cc: str) -> float:
        """The mean rate of the flows of MIX with the congestion control CC."""
        return statistics.fmean(
            rate for rate, kind in zip(numbers["rates"], mix.flows, strict=True) if kind == cc
        )

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for name, runs in data.items():
            mix = self.mix(name)
            rates = [rate for run in runs for rate in run["rates"]]
            sent, lost = (sum(run["background"][n] for run in runs) for n in (0, 1))
            yield {
                "mix": mix.label,
                "of the available rate": spread(percent([run["share"] for run in runs]), 0, "%"),
                "each flow": f"{min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f} Mbit/s",
                "Jain's index": spread([r["jain"] for r in runs]) if len(mix.flows) > 1 else "",
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
            cells = outer[n // width, n % width].subgridspec(
                2, 1, height_ratios=(3, 1), hspace=0.08
            )
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
            above.set_ylim(0, 1000)
            above.tick_params(labelbottom=False)
            above.set_title(mix.label, fontsize=9, loc="left")
            share = spread(percent([run["share"] for run in runs]), 0, "% of the available rate")
            above.text(
                0.99, 0.97, share, transform=above.transAxes, ha="right", va="top", fontsize=8
            )
            below.set_ylim(0, 1.05)
            if n % width == 0:
                above.set_ylabel("cwnd")
                below.set_ylabel("use")
            if n // width == height - 1:
                below.set_xlabel("seconds")
        kinds = dict.fromkeys(cc for name in names for cc in self.mix(name).flows)
        first = figure.axes[0]
        for cc in kinds:
            first.plot([], [], color=LOOKS[cc], label=NAMES[cc])
        first.legend(loc="upper left", fontsize=8)


def mean(runs: Sequence[Numbers], key: str) -> float:
    return statistics.fmean(run[key] for run in runs)


def lost_share(runs: Sequence[Numbers]) -> float:
    sent, lost = (sum(run["background"][n] for run in runs) for n in (0, 1))
    return float(lost / sent) if sent else 0.0
