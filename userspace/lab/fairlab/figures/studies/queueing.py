# SPDX-License-Identifier: GPL-2.0
"""Fair queueing: Roberts and Augé, "Fair queueing and congestion control" (slides, 2005).

Half of a link belongs to a background of many flows that would not take more if they could; one,
two or four large flows share what is left.  How large the buffer is, which TCP it is, and whether
packets wait in one queue or in one for each flow, decides how the large ones fare, and what the
background suffers from them.  The slides show windows and use of the link over 100 s by ns-2; here
they are Linux's, and the queues are pfifo and drr_fq.

The last study is of the slides' theory: flows that arrive as a Poisson process and share a link
evenly are like the customers of an M/M/1 queue, whatever their sizes are.  drr_fq is to share
evenly, so through it the number of flows in progress must be E = rho / (1 - rho).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.model.background import FLOWS, PACKETS, Background
from fairlab.results import plots
from fairlab.results.analysis import jain
from fairlab.results.outcome import Outcome
from fairlab.run.experiment import Experiment, Group, Stream

SOURCE = "Roberts, Augé: Fair queueing and congestion control, slides (2005)"
RENO, HSTCP = "reno", "highspeed"
FIFO, FQ = "FIFO", "FQ"
RATE, RTT, MTU = 50_000_000, 100_000, 1000
BUFFERS = SMALL, MIDDLE, LARGE = 20, 100, 625
NAMES = {RENO: "Reno", HSTCP: "HSTCP"}
LOOKS = {RENO: plots.COLOURS[0], HSTCP: plots.COLOURS[1]}

BIG, BESIDE = "big", "back"
SETTING = (
    "ns-2: a bottleneck of 50 Mbit/s, a round-trip of 100 ms, 25 Mbit/s of background, buffers of"
    " 20, 100 and 625 packets (625 is rate times round-trip, so packets have 1000 bytes); FIFO with"
    " drop-tail, or fair queueing with drop from the front of the longest queue; 100 s."
)
ASSUMPTIONS = (
    "Packets of 1000 bytes including IP's header; Linux's TCP, with SACK, where the version of"
    " ns-2's is not said. HSTCP, which counts acknowledgements, gets one for each packet, as from"
    " ns-2's sinks.",
    "FQ is drr_fq with DRR and a quantum of one packet: the slides say that any algorithm will do.",
    "Means are from 10 s to 100 s. A share is of the capacity that the background leaves.",
    "Large flows begin within the first second, at moments that the seed draws.",
)


@dataclass(frozen=True)
class Mix:
    """Large flows over a queue."""

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
        """Beside a background of KIND."""
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
    """Packets of the background that were sent, and those that the network lost."""
    report = outcome.backgrounds[BESIDE]
    first, last = outcome.window
    begin = outcome.document["begin"]
    flows = [
        flow
        for flow in report.flows
        if flow.lost is not None and first <= flow.start - begin < last
    ]
    # Of packets that were under way at the end nobody knows.
    bins = [one for one in report.bins if first <= one.start - begin < last - 1]
    sent = sum(flow.segments for flow in flows) + sum(one.sent for one in bins)
    arrived = sum(one.received for one in bins)
    return sent, sum(flow.lost or 0 for flow in flows) + sum(one.sent for one in bins) - arrived


def curve(times: Any, values: Any, step: float) -> list[float]:
    """VALUES at every STEP seconds, as few digits as show."""
    import numpy

    return [
        round(float(v), 1) for v in numpy.interp(numpy.arange(0, times[-1], step), times, values)
    ]


class Shares(Study):
    """Large flows beside a background, in several mixes."""

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
            "queue_ms": round(float(8000 * outcome.within("backlog_bytes").mean() / what.rate), 2),
            "cwnd": [curve(seen.time, seen.cwnd, self.step) for seen in windows],
            "used": [round(float(value), 3) for value in used],
        }

    # --- what claims are made of ----------------------------------------------------------------

    def mix(self, name: str) -> Mix:
        return next(mix for mix in self.mixes if mix.name == name)

    def rate_of(self, numbers: Numbers, mix: Mix, cc: str) -> float:
        """The mean rate of MIX's flows under CC."""
        return statistics.fmean(
            rate for rate, kind in zip(numbers["rates"], mix.flows, strict=True) if kind == cc
        )

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            mix = self.mix(name)
            rates = [rate for run in runs for rate in run["rates"]]
            sent, lost = (sum(run["background"][n] for run in runs) for n in (0, 1))
            rows.append(
                (
                    mix.label,
                    spread([run["share"] for run in runs], 100, "%"),
                    f"{min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f} Mbit/s",
                    spread([run["jain"] for run in runs]) if len(mix.flows) > 1 else "",
                    spread([run["utilisation"] for run in runs], 100, "%"),
                    f"{lost} of {sent}",
                )
            )
        columns = ("mix", "of what is left", "each flow", "Jain's index", "use", "background lost")
        return Table(columns, tuple(rows))

    def draw(self, figure: Any, data: Data) -> None:
        """A pair of panels for each mix: windows, and below them the use of the link."""
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
            # The first seed's run, and those of the others paler behind it.
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
            share = spread([run["share"] for run in runs], 100, " % of what is left")
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


def spread(values: Sequence[float], scale: float = 1.0, unit: str = "") -> str:
    """The mean of some values, and the smallest and the largest if there are several."""
    digits = 0 if scale > 1 else 2
    mean = f"{scale * statistics.fmean(values):.{digits}f}"
    if len(values) > 1:
        mean += f" ({scale * min(values):.{digits}f} to {scale * max(values):.{digits}f})"
    return f"{mean} {unit.strip()}".strip()


def mean(runs: Sequence[Numbers], key: str) -> float:
    return statistics.fmean(run[key] for run in runs)


def lost_share(runs: Sequence[Numbers]) -> float:
    sent, lost = (sum(run["background"][n] for run in runs) for n in (0, 1))
    return float(lost / sent) if sent else 0.0


class One(Shares):
    """Slides 19 to 23."""

    name = "fq-one-flow"
    title = "One large flow beside half a link of background"
    source = f"{SOURCE}, slides 19 to 23"
    setting = f"{SETTING} One permanent flow; the background is flows of 1 Mbit/s at most."
    assumptions = (*ASSUMPTIONS, "Background flows have 100 KiB on average, exponential.")
    kind = FLOWS
    mixes = (
        *(Mix((RENO,), buffer, FIFO) for buffer in BUFFERS),
        Mix((HSTCP,), MIDDLE, FIFO),
        Mix((RENO,), SMALL, FQ),
        Mix((HSTCP,), MIDDLE, FQ),
    )
    quick_mixes = (0, 4)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        small, fair = data["1reno-20-fifo"], data["1reno-20-fq"]
        # What it loses and gains against a FIFO; of lost packets a few are chance.
        saved = lost_share(fair) <= max(lost_share(small) / 10, 2e-5)
        impact = mean(fair, "share") / mean(small, "share")
        claims = [
            Claim(
                "FQ saves the background from loss",
                "no background loss (slide 23)",
                f"{100 * lost_share(fair):.4f} % lost instead of {100 * lost_share(small):.4f} %",
                "a tenth of the FIFO's loss at most",
                saved,
                "who has most in the queue loses; with 20 packets for all, that may be a"
                " background flow, which begins with ten at once",
            ),
            Claim(
                "and has little effect on the large flow",
                "little impact (slide 23)",
                f"{impact:.2f} of what it has with a FIFO",
                "0.7 to 1.3",
                0.7 <= impact <= 1.3,
            ),
        ]
        if quick:
            return claims
        middle, large = data["1reno-100-fifo"], data["1reno-625-fifo"]
        fast = data["1highspeed-100-fifo"]
        shares = [mean(runs, "share") for runs in (small, middle, large)]
        return [
            Claim(
                "a small buffer costs a Reno flow much of its throughput",
                "40 % of what is available with 20 packets (slide 21; that it is 20 and not 100 is"
                " our reading)",
                spread([run["share"] for run in small], 100, "%"),
                "30 to 50 %",
                0.3 <= shares[0] <= 0.5,
            ),
            Claim(
                "a larger buffer, more throughput",
                "20 below 100 below 625 packets (slides 20, 21)",
                ", ".join(f"{100 * share:.0f} %" for share in shares),
                "in this order, 625 at 80 % or more",
                shares[0] < shares[1] < shares[2] and shares[2] >= 0.8,
            ),
            Claim(
                "HSTCP uses more of the link than Reno, 100 packets",
                "gain in utilisation (slide 22)",
                f"{100 * mean(fast, 'share'):.0f} % instead of {100 * shares[1]:.0f} %",
                "more",
                mean(fast, "share") > shares[1],
            ),
            Claim(
                "and background flows lose more",
                "higher loss for background flows (slide 22)",
                f"{100 * lost_share(fast):.3f} % instead of {100 * lost_share(middle):.3f} %",
                "more",
                lost_share(fast) > lost_share(middle),
            ),
            *claims,
        ]


class Two(Shares):
    """Slides 24 to 29."""

    name = "fq-two-flows"
    title = "Two large flows beside half a link of background"
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

    def ratio(self, data: Data, name: str) -> float:
        """How much more HSTCP has than Reno."""
        mix = self.mix(name)
        return sum(self.rate_of(run, mix, HSTCP) for run in data[name]) / sum(
            self.rate_of(run, mix, RENO) for run in data[name]
        )

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        for buffer in (LARGE,) if quick else (SMALL, LARGE):
            fifo, fair = (
                self.ratio(data, f"1highspeed-1reno-{buffer}-{queue}") for queue in ("fifo", "fq")
            )
            found += [
                Claim(
                    f"HSTCP is unfair to Reno, {buffer} packets, FIFO",
                    "very unfair (slides 27, 35)",
                    f"{fifo:.1f} times Reno's throughput",
                    "twice or more",
                    fifo >= 2,
                    "with so small a buffer no window comes to much more than a hundred packets,"
                    " where HSTCP's increase is two packets instead of Reno's one and it gives up"
                    " 44 % instead of 50 %: RFC 3649 makes it differ little there",
                ),
                Claim(
                    f"FQ is effective, {buffer} packets",
                    "effective, though HSTCP gains more throughput (slides 28, 29)",
                    f"{fair:.2f} times Reno's throughput, {fifo:.2f} with a FIFO",
                    "0.8 to 1.5 times",
                    0.8 <= fair <= 1.5,
                    "a fair queue shares what comes; with room for few packets neither window keeps"
                    " it busy, and HSTCP's is back sooner",
                ),
            ]
        if quick:
            return found
        for buffer in (SMALL, LARGE):
            index = mean(data[f"2reno-{buffer}-fifo"], "jain")
            found.append(
                Claim(
                    f"two Reno flows are about fair, {buffer} packets, FIFO",
                    "approximate fairness (slide 25)",
                    f"Jain's index {index:.3f}",
                    "0.9 or more",
                    index >= 0.9,
                )
            )
        return found


class Four(Shares):
    """Slides 30 to 34."""

    name = "fq-four-flows"
    title = "Four large flows beside half a link of background"
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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        fast, fair = data["4highspeed-625-fifo"], data["4highspeed-625-fq"]
        found = [
            Claim(
                "FQ restores fairness among four HSTCP flows",
                "restores fairness (slide 34)",
                f"Jain's index {mean(fair, 'jain'):.3f}, {mean(fast, 'jain'):.3f} with a FIFO",
                "0.95 or more, and more than with a FIFO",
                mean(fair, "jain") >= 0.95 and mean(fair, "jain") > mean(fast, "jain"),
            ),
            Claim(
                "and preserves throughput",
                "preserves throughput (slide 34)",
                f"{100 * mean(fair, 'share'):.0f} % of what is left,"
                f" {100 * mean(fast, 'share'):.0f} % with a FIFO",
                "95 % of the FIFO's or more",
                mean(fair, "share") >= 0.95 * mean(fast, "share"),
            ),
        ]
        if quick:
            return found
        one, four = data["1reno-20-fifo"], data["4reno-20-fifo"]
        alone = data["1highspeed-625-fifo"]
        large = data["4reno-625-fifo"]
        return [
            Claim(
                "four Reno flows use more of the link than one, 20 packets",
                "improved utilisation (slide 31)",
                f"{100 * mean(four, 'share'):.0f} % instead of {100 * mean(one, 'share'):.0f} %",
                "more",
                mean(four, "share") > mean(one, "share"),
            ),
            *(
                Claim(
                    f"four Reno flows are about fair, {buffer} packets",
                    f"approximate fairness (slide {slide})",
                    f"Jain's index {mean(runs, 'jain'):.3f}",
                    "0.9 or more",
                    mean(runs, "jain") >= 0.9,
                )
                for buffer, slide, runs in ((SMALL, 31, four), (LARGE, 32, large))
            ),
            Claim(
                "four HSTCP flows are not fair, 625 packets, FIFO",
                "poor fairness (slide 33)",
                f"Jain's index {mean(fast, 'jain'):.3f}, four Reno flows {mean(large, 'jain'):.3f}",
                "below 0.9",
                mean(fast, "jain") < 0.9,
                "the flows begin within a second here, and Linux's HSTCP loses in turns; the slides"
                " do not say when theirs began",
            ),
            Claim(
                "and lose throughput",
                "loss of throughput (slide 33)",
                f"{100 * mean(fast, 'share'):.0f} % of what is left; one HSTCP flow"
                f" {100 * mean(alone, 'share'):.0f} %",
                "less than one flow alone",
                mean(fast, "share") < mean(alone, "share"),
                "SACK repairs the losses of several flows at once within a round-trip; ns-2's"
                " sources of the time lost more to each",
            ),
            *found,
        ]


# --- flows in progress --------------------------------------------------------------------------

LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = {"exp": "exponential", "pareto:2.2": "Pareto, shape 2.2"}
SHORT_RTT = 200
DEEPEST = 30


def in_progress(outcome: Outcome) -> tuple[float, list[float]]:
    """Of the background's flows in progress: the mean over time, and how long at least i were."""
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
    """Slides 7 to 13."""

    name = "fq-flows-in-progress"
    title = "Flows in progress on a link that drr_fq shares"
    source = f"{SOURCE}, slides 7 to 13"
    setting = (
        "A fluid simulation: Poisson arrivals of flows without any limit of their own, all sharing"
        " the link evenly; load 0.5 to 0.9. Theory: E = rho / (1 - rho), P(n >= i) = rho^i,"
        " whatever sizes flows have."
    )
    assumptions = (
        "50 Mbit/s and a round-trip of 0.2 ms, so that TCP does not limit a flow; Reno; a buffer of"
        " 1000 packets; flows of 100 KiB on average, exponential or Pareto with shape 2.2 (with a"
        " smaller one it would take days to come to the mean).",
        "No flow is faster than the link (fq with maxrate at the sender).",
        "A flow is in progress from its first packet until its last byte has been acknowledged by"
        " the receiving program.",
        "The load is what was measured on the link, headers included.",
    )

    def cases(self, quick: bool, seed: int) -> list[Case]:
        return [
            Case(f"{sizes.partition(':')[0]}-{load:g}", self.experiment(load, sizes, quick, seed))
            for sizes in SIZES
            for load in ((0.5, 0.8) if quick else LOADS)
        ]

    def experiment(self, load: float, sizes: str, quick: bool, seed: int) -> Experiment:
        seconds = 60.0 if quick else 400.0
        beside = Background(load, FLOWS, sizes, peak=RATE)
        return Experiment(
            rate=RATE,
            buffer=1000,
            groups=(Group(BESIDE, SHORT_RTT, background=beside),),
            seconds=seconds,
            warmup=seconds / 20,
            seed=seed,
            queue="drr_fq limit 1000",
            look=1.0,
        )

    def reduce(self, case: Case, outcome: Outcome) -> Numbers:
        flows, at_least = in_progress(outcome)
        return {
            "load": round(outcome.utilisation, 4),
            "flows": round(flows, 4),
            "at_least": [round(value, 5) for value in at_least],
        }

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        found = []
        # A mean over a time this long is off by chance: the more, the higher the load.
        loads = (0.5, 0.8) if quick else LOADS
        for sizes, words in SIZES.items():
            for load in loads:
                runs = data[f"{sizes.partition(':')[0]}-{load:g}"]
                seen = mean(runs, "load")
                expected = statistics.fmean(run["load"] / (1 - run["load"]) for run in runs)
                flows = mean(runs, "flows")
                tolerance = 0.5 if quick else 0.15 if load < 0.85 else 0.3
                found.append(
                    Claim(
                        f"load {load:g}, sizes {words}",
                        f"E = {load / (1 - load):.2f}; {expected:.2f} at {seen:.3f}, the load here",
                        spread([run["flows"] for run in runs]),
                        f"within {100 * tolerance:.0f} %",
                        abs(flows / expected - 1) <= tolerance,
                    )
                )
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
                left.plot(
                    [run["load"] for run in runs],
                    [run["flows"] for run in runs],
                    marker,
                    color=colour,
                    fillstyle="none",
                    label=None if n else words,
                )
                deep = [
                    statistics.fmean(at) for at in zip(*(r["at_least"] for r in runs), strict=True)
                ]
                right.semilogy(range(len(deep)), deep, marker, color=colour, markersize=3)
                load = mean(runs, "load")
                right.semilogy(range(len(deep)), [load**i for i in range(len(deep))], "k-", lw=0.7)
                if kind == "exp":
                    at = min(DEEPEST, max(3, round(-5 / (load - 1) / 2)))
                    right.annotate(
                        f"{load:.2f}",
                        (at, load**at),
                        (2, 3),
                        textcoords="offset points",
                        fontsize=8,
                    )
        left.set(xlabel="load", ylabel="flows in progress, mean", ylim=(0, None))
        left.legend(loc="upper left")
        right.set(xlabel="i", ylabel="part of the time with i flows or more", ylim=(1e-4, 1.2))
        right.set_title("lines: load^i", fontsize=9, loc="left")


STUDIES: tuple[Study, ...] = (One(), Two(), Four(), Insensitivity())
