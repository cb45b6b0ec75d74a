# SPDX-License-Identifier: GPL-2.0
"""A burst of joins, and churn, on Abilene and GÉANT."""

from collections.abc import Sequence
from typing import Any

from fairlab.figures.studies.forms import COMMIT, LINKS, PAPER
from fairlab.figures.studies.slbn.common import (
    COMMON,
    HIGH,
    LOW,
    MEAN,
    PACKET,
    QUEUES,
    RATES,
    SOURCE,
    OneForm,
    draw_errors,
    milliseconds,
    numbers_of,
    panels,
    within,
    worst,
)
from fairlab.figures.study import Case, Claim, Data, Numbers, Table
from fairlab.results import plots
from fairlab.slbn import abilene, geant, sessions_plan
from fairlab.slbn.sessions import Plan, Recording
from fairlab.slbn.sessions_plan import Churn


class Backbone(OneForm):
    """Sessions that join in a burst, and churn later."""

    #: the start of the claims: the first sessions have their second rate [s]
    early: float
    #: the time after the last change that the source's figure shows [s]
    patience: float
    #: the time that is drawn [s]
    window: tuple[float, float]

    def rest_claims(self, runs: Sequence[Numbers]) -> list[Claim]:
        """Claims about rates after the last change."""
        count = max(run["sessions"] for run in runs)
        off, over = worst(runs, "bits_off"), worst(runs, "bits_over")
        settled = [run["settled"] for run in runs]
        longest = max(run["longest_ms"] for run in runs)
        took = None if None in settled else max(settled)
        trips = "" if took is None else f", {1000 * took / longest:.1f} times the longest RTT"
        return [
            self.claim(
                "at rest all rates are max-min fair",
                "converges to the max-min fair rates",
                f"off by {off:.1f} bit/s at most, of {runs[0]['rate'] / 1e6:.2f} Mbit/s on average",
                f"1 bit/s for each session ({count}): divisions round down",
                off <= count,
            ),
            self.claim(
                "and no link is overshot at rest",
                "links are never overshot at rest (follows from max-min fairness)",
                f"{over:+.0f} bit/s at the fullest link",
                f"1 bit/s for each session ({count})",
                over <= count,
            ),
            self.claim(
                "all rates are exact soon after the last change",
                f"within the {self.patience:g} s after it that the figure shows (our reading)",
                f"{milliseconds(took)} at worst{trips}",
                f"at most {self.patience:g} s",
                took is not None and took <= self.patience,
            ),
        ]

    def transient_claims(self, runs: Sequence[Numbers], begin: float, end: float) -> list[Claim]:
        """Claims about rates during joins and leaves."""
        sources = [one for run in runs for one in within(run, "sources", begin, end)]
        links = [one for run in runs for one in within(run, "links", begin, end)]
        mean_of = [one[MEAN] for one in sources]
        return [
            self.claim(
                "during churn assigned rates are accurate on average",
                "accurate assignments, with small deviations from the average",
                f"mean error at sources {min(mean_of):+.1f} to {max(mean_of):+.1f} %,"
                f" 10th percentile {min(one[LOW] for one in sources):.0f} %,"
                f" 90th {max(one[HIGH] for one in sources):+.0f} % at worst",
                "mean within 20 % of the max-min rates, all percentiles within 60 %",
                max(map(abs, mean_of)) <= 20
                and all(one[LOW] >= -60 and one[HIGH] <= 60 for one in sources),
            ),
            self.claim(
                "during churn links are not overshot on average",
                "never overshooting them on average",
                f"mean error at bottlenecks at most {max(one[MEAN] for one in links):+.2f} %",
                "at most +2 % at any time",
                max(one[MEAN] for one in links) <= 2,
            ),
        ]

    def overshoot_claims(self, runs: Sequence[Numbers]) -> list[Claim]:
        """What the paper's form does not have."""
        over = worst(runs, "overshoot")
        if self.form == PAPER:
            return []
        return [
            Claim(
                "assigned rates never exceed a link, not even while they change",
                "never overshooting them on average",
                f"at most {100 * over:.3f} % above a link's rate at any moment",
                "0.1 %: slbnd reports a rate only if it moved by more than rounding",
                over <= 0.001,
                basis="ours",
                algorithm=COMMIT,
            )
        ]

    def control_claims(self, runs: Sequence[Numbers]) -> list[Claim]:
        part, most = worst(runs, "control"), worst(runs, "link_control")
        return [
            self.claim(
                "control packets use about 1 % of the rates",
                "approximately 1 % of a session's rate",
                f"{100 * part:.2f} % of the sessions' rates, both directions together;"
                f" {100 * most:.1f} % of the busiest link in its busiest quarter of a second",
                "2 % (1 % each way), and 5 % of a link, above which the link drops control packets",
                part <= 0.02 and most <= 0.05,
                "the recorded way back makes packets 6 octets longer for each hop, and a burst may"
                " use a link's control share of 100 ms in advance",
                basis="number",
            )
        ]

    def draw_sources_and_links(self, axes: Sequence[Any], runs: Sequence[Numbers]) -> None:
        draw_errors(axes[0], runs, "sources", "mean, 10th and 90th percentile", plots.COLOURS[0])
        axes[0].set_ylabel("error at sources, %")
        draw_errors(axes[1], runs, "links", "mean, 10th and 90th percentile", plots.COLOURS[1])
        axes[1].set_ylabel("error at bottlenecks, %")
        for axis in axes[:2]:
            axis.set_xlim(*self.window)
            axis.set_ylim(-60, 60)
            axis.legend(loc="upper right", fontsize=8)

    def draw_queues(self, axis: Any, runs: Sequence[Numbers], what: str) -> None:
        for n, run in enumerate(runs):
            times, longest = zip(*run["queue"], strict=True)
            axis.plot(
                times, longest, color=plots.COLOURS[2], linewidth=1.1,
                alpha=1 if n == 0 else 0.5, label=what if n == 0 else None,
            )  # fmt: skip
        axis.set_ylabel("longest queue, ms")
        axis.grid(alpha=0.25)
        axis.legend(loc="upper right", fontsize=8)

    def table(self, data: Data) -> Table:
        rows = []
        for name, runs in data.items():
            for seed, run in enumerate(runs, 1):
                rows.append(
                    (
                        name,
                        str(seed),
                        str(run["sessions"]),
                        f"{run['rate'] / 1e6:.2f} Mbit/s",
                        milliseconds(run["settled"]),
                        f"{run['bits_off']:.1f} bit/s",
                        f"{100 * run['control']:.2f} %",
                        f"{max(longest for _, longest in run['queue']):.1f} ms",
                    )
                )
        columns = (
            "case", "run", "sessions", "mean rate", "exact after", "off at rest", "control",
            "longest queue",
        )  # fmt: skip
        return Table(columns, tuple(rows))


class Abilene(Backbone):
    """Experiment 1a, and the queues of 1b."""

    figure = "slbn-abilene"
    subject = "a burst of joins, churn and quiet on Abilene"
    source = f"{SOURCE}, experiment 1a (figures 3 and 4) and its queues (figure 6)"
    setting = (
        "1,100 routers (transit-stub), 50,000 sessions join in 500 ms, then 10,000 leave and 10,000"
        " join in 200 ms; data packets of 2,000 bytes follow the rates; queues without limit."
    )
    assumptions = (
        "Abilene, 11 routers: 300 sessions join in 500 ms, then 60 leave and 60 join in 200 ms; all"
        " links 100 Mbit/s, a hundredth of Abilene's. A host's own link has 100 Mbit/s.",
        *COMMON,
        "Queues are of a second case, with links of 20 Mbit/s, 100 sessions, then 20 and 20, whose"
        " data packets of 2,000 bytes follow their rates less 1 % for control. There links with"
        " commit assign 95 % of their capacity: ProbeAcks have no share of their own. Sampled every"
        " 50 ms.",
        "At first no rate can be right: those of the first sessions are a round trip old when the"
        " others join. Claims cover the time from 250 ms on.",
    )
    early, patience = 0.25, 1.3
    window = (0.0, 2.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        def plan(rate: int, count: int, packet: int, seconds: float) -> Plan:
            mesh = abilene.backbone(rate)
            churn = Churn(0.5, 0.7, count // 5, count // 5)
            found = sessions_plan.burst(mesh, count, 0.5, [churn], rate, seed)
            headroom = abilene.HEADROOM if packet and self.form == COMMIT else 0
            return Plan(
                mesh, found, seconds, headroom=headroom, hops=12, packet=packet, **LINKS[self.form]
            )

        many, fewer = (80, 40) if quick else (300, 100)
        slow = 10_000_000 if quick else 20_000_000
        return [
            Case(RATES, plan(100_000_000, many, 0, 2.0 if quick else 3.0)),
            Case(QUEUES, plan(slow, fewer, PACKET, 1.5 if quick else 3.0)),
        ]

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        return numbers_of(outcome)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        del quick
        rates, queues = data[RATES], data[QUEUES]
        longest = max(one for run in queues for _, one in run["queue"])
        return [
            *self.transient_claims(rates, self.early, self.window[1]),
            *self.rest_claims(rates),
            *self.overshoot_claims(rates),
            *self.control_claims(rates),
            self.claim(
                "queues stay short, though data follows the assigned rates from the first one on",
                "the maximum of queue sizes is bounded by 3 % of the link capacity",
                f"{longest:.1f} ms, {longest / 10:.2f} % of what a link carries in a second",
                "3 % of a second, 30 ms (our reading of the unit)",
                longest <= 30,
                basis="number",
            ),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        self.draw_queues(axes[2], data[QUEUES], "waiting time in the longest data queue")


class Research(Backbone):
    """Experiment 2b, whose first phase has the pattern of 2a."""

    figure = "slbn-research"
    subject = "a burst of joins, and churn later, on GÉANT (40 routers)"
    source = f"{SOURCE}, experiment 2b (figures 9 and 10; its first second is like 2a's)"
    setting = (
        "11,000 routers (transit-stub), 100,000 sessions join in the first second; after 9 s,"
        " 50,000 join and 50,000 leave within a second."
    )
    assumptions = (
        "GÉANT as of March 2012 (The Internet Topology Zoo), 40 routers and 61 links at its own"
        " rates, 155 Mbit/s to 10 Gbit/s; links without a label: 10 Gbit/s.",
        "300 sessions join in the first second; from 4 s to 5 s 150 join and 150 leave (at 9 s in"
        " the paper: convergence had been reached by then, as it is here).",
        *COMMON,
        "Without data, which would take hours at gigabits; slbn-abilene has queues.",
    )
    early, patience = 0.25, 1.0
    window = (0.0, 6.5)
    churn = (4.0, 5.0)

    def cases(self, quick: bool, seed: int) -> list[Case]:
        mesh = geant.mesh()
        count, begin = (60, 1.5) if quick else (300, self.churn[0])
        churn = Churn(begin, begin + 1, count // 2, count // 2)
        found = sessions_plan.burst(mesh, count, 1.0, [churn], None, seed)
        return [Case(RATES, Plan(mesh, found, begin + 2.5, hops=12, **LINKS[self.form]))]

    def reduce(self, case: Case, outcome: Recording) -> Numbers:
        return numbers_of(outcome)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        runs = data[RATES]
        begin = 1.5 if quick else self.churn[0]
        # The second of churn, and half a second after it.
        end = begin + 1.5
        links = [one for run in runs for one in within(run, "links", begin, end)]
        high = max(one[HIGH] for one in links)
        overshoot = self.claim(
            "churn does not overshoot links by much",
            "no significant overshooting; BFYZ's is higher, but always below 5 %",
            f"90th percentile of bottlenecks {high:+.1f} % at most, until 0.5 s after the churn",
            "below +5 %",
            high < 5,
            "sessions that have to reduce their rates are notified up to a round trip after the"
            " newcomers have theirs, and in this second half of all sessions change; the limit is"
            " exceeded in one of sixty samples, 50 ms apart, of two runs",
            basis="number",
        )
        return [
            *self.transient_claims(runs, begin, end),
            # With few sessions a percentile is a single link.
            *([] if quick else [overshoot]),
            *self.rest_claims(runs),
            *self.overshoot_claims(runs),
            *self.control_claims(runs),
        ]

    def draw(self, figure: Any, data: Data) -> None:
        axes = panels(figure, 3)
        self.draw_sources_and_links(axes, data[RATES])
        axes[0].set_xlim(0, max(run["times"][-1] for run in data[RATES]))
        for n, run in enumerate(data[RATES]):
            times, parts = zip(*run["peaks"], strict=True)
            axes[2].plot(
                times, [100 * part for part in parts], color=plots.COLOURS[2], linewidth=1.1,
                alpha=1 if n == 0 else 0.5,
                label="on the link with the largest share" if n == 0 else None,
            )  # fmt: skip
        axes[2].set_ylabel("control packets, % of link")
        axes[2].set_ylim(bottom=0)
        axes[2].grid(alpha=0.25)
        axes[2].legend(loc="lower right", fontsize=8)
