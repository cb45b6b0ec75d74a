# SPDX-License-Identifier: GPL-2.0
"""One, two and four permanent flows beside background traffic."""

from collections.abc import Sequence

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
)
from fairlab.figures.studies.spread import gaps, percent, ratios
from fairlab.figures.study import Data, Measured, Numbers
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
                "625 - 100": gaps(shares(large), shares(middle)),
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
        """HSTCP's throughput divided by Reno's."""
        mix = self.mix(name)
        return [self.rate_of(run, mix, HSTCP) / self.rate_of(run, mix, RENO) for run in data[name]]

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for buffer in (LARGE,) if quick else (SMALL, LARGE):
            fifo, fair = (
                self.ratio(data, f"1highspeed-1reno-{buffer}-{queue}") for queue in ("fifo", "fq")
            )
            found |= {
                f"unfair-{buffer}": fifo,
                f"effective-{buffer}": fair,
                f"fairer-{buffer}": gaps(fifo, fair),
            }
        name = f"1highspeed-1reno-{LARGE}"
        found["delay"] = ratios(waits(data[f"{name}-fq"]), waits(data[f"{name}-fifo"]))
        if quick:
            return found
        for buffer in (SMALL, LARGE):
            for cc in (RENO, HSTCP):
                found[f"2{cc}-{buffer}"] = jain(data[f"2{cc}-{buffer}-fifo"])
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
            "fq-fair": jain(fair),
            "fq-fairer": gaps(jain(fair), jain(fast)),
            "fq-keeps": ratios(shares(fair), shares(fast)),
        }
        if quick:
            return found
        one, four = data["1reno-20-fifo"], data["4reno-20-fifo"]
        return found | {
            "more": gaps(shares(four), shares(one)),
            "equal-20": jain(four),
            "equal-625": jain(data["4reno-625-fifo"]),
            "hstcp-unfair": jain(fast),
            "hstcp-loses": gaps(shares(fast), shares(data["1highspeed-625-fifo"])),
        }


def shares(runs: Sequence[Numbers]) -> list[float]:
    """The share of the available rate that the permanent flows have [%]."""
    return percent([run["share"] for run in runs])


def lost(runs: Sequence[Numbers]) -> list[float]:
    """The background's loss [%]."""
    return percent([lost_share([run]) for run in runs])


def waits(runs: Sequence[Numbers]) -> list[float]:
    """The mean wait of the background's packets [ms]; runs that were stored before lack it."""
    return [run["wait_ms"][0] for run in runs if run.get("wait_ms")]


def jain(runs: Sequence[Numbers]) -> list[float]:
    return [run["jain"] for run in runs]
