# SPDX-License-Identifier: GPL-2.0
"""Settling time of SLBN, s-PERC and BFYZ on short and long links."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.large.common import ASSUMPTIONS, COLOURS, NAMES, OURS, SEEDS
from fairlab.figures.studies.spread import gaps, ratios
from fairlab.figures.study import Case, Data, Measured, Numbers, Row, Study, tabular
from fairlab.slbn.simulated import Simulated


class Settling(Study):
    """Settling times of SLBN, s-PERC and BFYZ."""

    name = "slbn-sperc"
    title = "SLBN with commit (ours), s-PERC and BFYZ on links of microseconds, and of milliseconds"
    source = OURS
    setting = (
        "16 leaves and 8 spines with 100 Gbit/s between them, 64 hosts with 10 Gbit/s at each leaf;"
        " link delays of 1 to 2 us, or of 5 to 10 ms. 512 sessions join within 20 us, or 100 ms;"
        " once rates have settled 51 leave and 51 join, as quickly."
    )
    assumptions = (
        *ASSUMPTIONS[1:3],
        "s-PERC needs a round in which each session sends at least one control packet: 2 ms where"
        " these may use 1 % of a rate, 50 us without that limit, 250 ms on long links."
        " Pauses between cycles are 10 us, 5 us and 5 ms on average.",
        "Settled: all sources are within 1 % of their max-min rates.",
    )
    algorithms = ("slbn", "sperc", "bfyz")
    #: Network, share of control packets [%], pause, s-PERC's round, sampling interval [ms], and
    #: the ends of joins and of churn [s].
    places: ClassVar[dict[str, tuple[str, str, str, str, float, tuple[float, float]]]] = {
        "lan": ("lan", "1", "10us", "2ms", 0.01, (20e-6, 6.02e-3)),
        "any": ("lan", "0", "5us", "50us", 0.01, (20e-6, 6.02e-3)),
        "wan": ("wan", "1", "5ms", "250ms", 20, (0.1, 5.1)),
    }
    titles: ClassVar[dict[str, str]] = {
        "lan": "microseconds, control at most 1 %",
        "any": "microseconds, control unlimited",
        "wan": "milliseconds",
    }
    quick_count = 128
    count_of_seeds = SEEDS

    def cases(self, quick: bool, seed: int) -> list[Case]:
        found = []
        for place, (network, control, pause, spell, every, _) in self.places.items():
            for name in self.algorithms:
                words = ["--control", control, "--pause", pause]
                words += ["--round", spell] if name == "sperc" else []
                count = self.quick_count if quick else 0
                what = Simulated(network, name, seed, 100, every, count=count, options=tuple(words))
                found.append(Case(f"{place}-{name}", what))
        return found

    def reduce(self, case: Case, outcome: dict[str, Any]) -> Numbers:
        place = case.name.split("-")[0]
        begins = self.places[place][-1]
        trip = outcome["mean_round_trip"]
        series = outcome["series"]
        phases = []
        for begin, end in zip(begins, (begins[1] - begins[0], float("inf")), strict=True):
            # Until the next phase begins.
            rows = [one for one in series if begin < one["time"] < end]
            late = [one["time"] for one in rows if one["off_by_1_percent"]]
            settled = (
                None if rows[-1]["off_by_1_percent"] else (late[-1] - begin if late else 0) / trip
            )
            phases.append(
                {
                    "settled": None if settled is None else round(settled, 2),
                    "over": round(max(one["links"]["mean"] for one in rows), 3),
                    "most": round(max(one["links"]["most"] for one in rows), 3),
                    "series": [
                        [
                            round((one["time"] - begin) / trip, 2),
                            round(100 * one["off_by_1_percent"] / one["sessions"], 2),
                        ]
                        for one in rows[:: 1 + len(rows) // 2000]
                    ],
                }
            )
        control, data = outcome["control_bytes"], outcome["data_bytes"]
        return {"phases": phases, "control": control / (control + data), "trip": trip}

    def settled(self, runs: Sequence[Numbers], phase: int) -> float:
        """The longest settling time, in round trips."""
        values = [run["phases"][phase]["settled"] for run in runs]
        return float("inf") if None in values else max(values)

    def control(self, runs: Sequence[Numbers]) -> float:
        """The share of control packets in all bytes [%]."""
        return 100 * max(float(run["control"]) for run in runs)

    def over(self, runs: Sequence[Numbers], key: str = "over") -> float:
        """The overshoot of bottlenecks during churn [%]."""
        return max(float(run["phases"][1][key]) for run in runs)

    def measure(self, data: Data, quick: bool) -> dict[str, Measured]:
        """Phases in which rates do not settle; settling times [RTT]; control, overshoot [%]."""

        def slow(place: str, name: str) -> list[float]:
            runs = data[f"{place}-{name}"]
            return [max(self.settled([run], phase) for phase in (0, 1)) for run in runs]

        def by_place(other: str, compare: Any) -> dict[str, list[float]]:
            return {
                title: compare(slow(place, "slbn"), slow(place, other))
                for place, title in self.titles.items()
            }

        restless = {
            NAMES[name]: [
                float(sum(phase["settled"] is None for run in seed for phase in run["phases"]))
                for seed in zip(*(data[f"{place}-{name}"] for place in self.places), strict=True)
            ]
            for name in self.algorithms
        }
        return {
            "settle": restless,
            "sperc": by_place("sperc", gaps),
            "bfyz": by_place("bfyz", ratios),
            "control": {
                NAMES[name]: [self.control([run]) for run in data[f"lan-{name}"]]
                for name in self.algorithms
            },
            "overshoot": {
                title: [self.over([run]) for run in data[f"{place}-slbn"]]
                for place, title in self.titles.items()
            },
        }

    def draw(self, figure: Any, data: Data) -> None:
        figure.set_size_inches(9, 8)
        axes = figure.subplots(len(self.places), 2, sharey=True)
        for line, (place, title) in zip(axes, self.titles.items(), strict=True):
            for phase, (axis, what) in enumerate(zip(line, ("joins", "churn"), strict=True)):
                for name in self.algorithms:
                    for n, run in enumerate(data[f"{place}-{name}"]):
                        x, y = zip(*run["phases"][phase]["series"], strict=True)
                        label = NAMES[name] if not n else None
                        axis.plot(x, y, color=COLOURS[name], lw=1.2, label=label)
                axis.set_xscale("log")
                axis.set_title(f"{title}: {what}", fontsize=9, loc="left")
            line[0].set_ylabel("sources off by > 1 % (%)")
        axes[0][0].legend(fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("mean round trips since the last join or leave")

    @tabular
    def table(self, data: Data) -> Iterator[Row]:
        for place, title in self.titles.items():
            for name in self.algorithms:
                runs = data[f"{place}-{name}"]
                yield {
                    "links": title,
                    "": NAMES[name],
                    "round trips to settle after joins": f"{self.settled(runs, 0):.1f}",
                    "after churn": f"{self.settled(runs, 1):.1f}",
                    "overshoot during churn, mean": f"{self.over(runs):+.2f} %",
                    "of one link": f"{self.over(runs, 'most'):+.0f} %",
                    "control": f"{self.control(runs):.4f} %",
                }
