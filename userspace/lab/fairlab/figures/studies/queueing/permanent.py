# SPDX-License-Identifier: GPL-2.0
"""One, two and four permanent flows beside background traffic."""

from fairlab.figures.studies.queueing.common import (
    ASSUMPTIONS,
    BUFFERS,
    FIFO,
    FQ,
    HSTCP,
    LARGE,
    MIDDLE,
    RENO,
    SETTING,
    SMALL,
    SOURCE,
    Mix,
    Shares,
    lost_share,
    mean,
)
from fairlab.figures.studies.spread import percent, spread
from fairlab.figures.study import Claim, Data
from fairlab.model.background import FLOWS, PACKETS


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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        small, fair = data["1reno-20-fifo"], data["1reno-20-fq"]
        # A few lost packets are chance.
        saved = lost_share(fair) <= max(lost_share(small) / 10, 2e-5)
        impact = mean(fair, "share") / mean(small, "share")
        claims = [
            Claim(
                "FQ protects the background from loss",
                "no background loss (slide 23)",
                f"{100 * lost_share(fair):.4f} % lost instead of {100 * lost_share(small):.4f} %",
                "at most a tenth of the FIFO's loss",
                saved,
                "drr_fq drops from the longest queue; with a buffer of 20 packets that may be a"
                " background flow, which starts with a burst of ten",
                basis="words",
            ),
            Claim(
                "FQ has little effect on the permanent flow",
                "little impact (slide 23)",
                f"{impact:.2f} of its throughput with a FIFO",
                "0.7 to 1.3",
                0.7 <= impact <= 1.3,
                basis="words",
            ),
        ]
        if quick:
            return claims
        middle, large = data["1reno-100-fifo"], data["1reno-625-fifo"]
        fast = data["1highspeed-100-fifo"]
        shares = [mean(runs, "share") for runs in (small, middle, large)]
        return [
            Claim(
                "a small buffer severely reduces a Reno flow's throughput",
                "40 % of the available rate with 20 packets (slide 21; that it is 20 and not 100 is"
                " our reading)",
                spread(percent([run["share"] for run in small]), 0, "%"),
                "30 to 50 %",
                0.3 <= shares[0] <= 0.5,
                basis="number",
            ),
            Claim(
                "a larger buffer gives more throughput",
                "20 below 100 below 625 packets (slides 20, 21)",
                ", ".join(f"{100 * share:.0f} %" for share in shares),
                "in this order, 625 at 80 % or more",
                shares[0] < shares[1] < shares[2] and shares[2] >= 0.8,
                basis="words",
            ),
            Claim(
                "HSTCP uses more of the link than Reno, 100 packets",
                "gain in utilisation (slide 22)",
                f"{100 * mean(fast, 'share'):.0f} % instead of {100 * shares[1]:.0f} %",
                "more",
                mean(fast, "share") > shares[1],
                basis="words",
            ),
            Claim(
                "HSTCP causes more loss for the background, 100 packets",
                "higher loss for background flows (slide 22)",
                f"{100 * lost_share(fast):.3f} % instead of {100 * lost_share(middle):.3f} %",
                "more",
                lost_share(fast) > lost_share(middle),
                basis="words",
            ),
            *claims,
        ]


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

    def ratio(self, data: Data, name: str) -> float:
        """HSTCP's throughput divided by Reno's."""
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
                    "with so small a buffer windows hardly exceed a hundred packets, where HSTCP"
                    " increases by two packets instead of Reno's one and decreases by 44 % instead"
                    " of 50 %: RFC 3649 differs little from Reno there",
                    basis="words",
                ),
                Claim(
                    f"FQ is effective, {buffer} packets",
                    "effective, though HSTCP gains more throughput (slides 28, 29)",
                    f"{fair:.2f} times Reno's throughput, {fifo:.2f} with a FIFO",
                    "0.8 to 1.5 times",
                    0.8 <= fair <= 1.5,
                    "a fair queue can only share arriving packets; with a small buffer neither"
                    " window keeps it busy, and HSTCP's recovers sooner",
                    basis="words",
                ),
            ]
        if quick:
            return found
        for buffer in (SMALL, LARGE):
            index = mean(data[f"2reno-{buffer}-fifo"], "jain")
            found.append(
                Claim(
                    f"two Reno flows share roughly equally, {buffer} packets, FIFO",
                    "approximate fairness (slide 25)",
                    f"Jain's index {index:.3f}",
                    "0.9 or more",
                    index >= 0.9,
                    basis="words",
                )
            )
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

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        fast, fair = data["4highspeed-625-fifo"], data["4highspeed-625-fq"]
        found = [
            Claim(
                "FQ restores fairness among four HSTCP flows",
                "restores fairness (slide 34)",
                f"Jain's index {mean(fair, 'jain'):.3f}, {mean(fast, 'jain'):.3f} with a FIFO",
                "0.95 or more, and more than with a FIFO",
                mean(fair, "jain") >= 0.95 and mean(fair, "jain") > mean(fast, "jain"),
                basis="words",
            ),
            Claim(
                "FQ preserves their throughput",
                "preserves throughput (slide 34)",
                f"{100 * mean(fair, 'share'):.0f} % of the available rate,"
                f" {100 * mean(fast, 'share'):.0f} % with a FIFO",
                "95 % of the FIFO's or more",
                mean(fair, "share") >= 0.95 * mean(fast, "share"),
                basis="words",
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
                basis="words",
            ),
            *(
                Claim(
                    f"four Reno flows share roughly equally, {buffer} packets",
                    f"approximate fairness (slide {slide})",
                    f"Jain's index {mean(runs, 'jain'):.3f}",
                    "0.9 or more",
                    mean(runs, "jain") >= 0.9,
                    basis="words",
                )
                for buffer, slide, runs in ((SMALL, 31, four), (LARGE, 32, large))
            ),
            Claim(
                "four HSTCP flows are not fair, 625 packets, FIFO",
                "poor fairness (slide 33)",
                f"Jain's index {mean(fast, 'jain'):.3f}, four Reno flows {mean(large, 'jain'):.3f}",
                "below 0.9",
                mean(fast, "jain") < 0.9,
                "the flows start within a second here, and lose packets in turns; the slides do not"
                " give the start times",
                basis="words",
            ),
            Claim(
                "four HSTCP flows lose throughput, 625 packets, FIFO",
                "loss of throughput (slide 33)",
                f"{100 * mean(fast, 'share'):.0f} % of the available rate; one HSTCP flow"
                f" {100 * mean(alone, 'share'):.0f} %",
                "less than one flow alone",
                mean(fast, "share") < mean(alone, "share"),
                "SACK repairs losses of several flows at once within a round trip; ns-2's sources"
                " of the time lost more throughput to each loss",
                basis="words",
            ),
            *found,
        ]
