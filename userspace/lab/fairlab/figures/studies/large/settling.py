# SPDX-License-Identifier: GPL-2.0
"""Settling time of SLBN, s-PERC and BFYZ on short and long links."""

from collections.abc import Sequence
from typing import Any, ClassVar

from fairlab.figures.studies.large.common import ASSUMPTIONS, COLOURS, NAMES, OURS, UNPUBLISHED
from fairlab.figures.study import Case, Claim, Data, Numbers, Study, Table
from fairlab.slbn.simulated import Simulated


class Near(Study):
    """s-PERC beside SLBN, on short links and on long ones."""

    name = "slbn-sperc"
    title = "SLBN, s-PERC and BFYZ on links of microseconds, and of milliseconds"
    source = OURS
    setting = (
        "16 leaves and 8 spines, 100 Gbit/s between them, 64 hosts with 10 Gbit/s at each leaf;"
        " links of 1 to 2 us, or of 5 to 10 ms. 512 sessions join within 20 us, or 100 ms; when"
        " all is quiet 51 leave and 51 join, as quickly."
    )
    assumptions = (
        *ASSUMPTIONS[1:3],
        "s-PERC needs a round that is longer than the time in which each session is heard of once:"
        " 2 ms where control packets may take 1 % of a rate, 50 us where they may take any, 250 ms"
        " on long links. Pauses between cycles are 10 us, 5 us and 5 ms on average.",
        "Settled is when all sources are within 1 % of their exact rates.",
    )
    algorithms = ("slbn", "sperc", "bfyz")
    #: Network, part of control packets [%], pause, s-PERC's round, steps [ms], and when what
    #: happens has happened, twice [s].
    places: ClassVar[dict[str, tuple[str, str, str, str, float, tuple[float, float]]]] = {
        "lan": ("lan", "1", "10us", "2ms", 0.01, (20e-6, 6.02e-3)),
        "any": ("lan", "0", "5us", "50us", 0.01, (20e-6, 6.02e-3)),
        "wan": ("wan", "1", "5ms", "250ms", 20, (0.1, 5.1)),
    }
    titles: ClassVar[dict[str, str]] = {
        "lan": "microseconds, control at most 1 %",
        "any": "microseconds, control any",
        "wan": "milliseconds",
    }
    quick_count = 128

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
        """At worst, in round-trips."""
        values = [run["phases"][phase]["settled"] for run in runs]
        return float("inf") if None in values else max(values)

    def control(self, runs: Sequence[Numbers]) -> float:
        """The part of control packets of all octets [%]."""
        return 100 * max(float(run["control"]) for run in runs)

    def over(self, runs: Sequence[Numbers], key: str = "over") -> float:
        """By how much bottlenecks are promised away, in the churn [%]."""
        return max(float(run["phases"][1][key]) for run in runs)

    def claims(self, data: Data, quick: bool) -> list[Claim]:
        slow = {
            name: [
                max(self.settled(data[f"{place}-{name}"], phase) for phase in (0, 1))
                for place in self.places
            ]
            for name in self.algorithms
        }
        text = {
            name: ", ".join(f"{value:.0f}" for value in values) for name, values in slow.items()
        }
        limited = max(self.control(data[f"lan-{name}"]) for name in self.algorithms)
        over = max(self.over(data[f"{place}-slbn"]) for place in self.places)
        return [
            Claim(
                "All settle at the exact rates, however short or long links are",
                "converges whatever the round-trips (SLBN); in 6 N rounds at most (s-PERC)",
                "; ".join(f"{NAMES[name]} {text[name]} round-trips" for name in text)
                + " (microseconds with 1 % and with any, milliseconds)",
                "all of them",
                max(max(values) for values in slow.values()) < float("inf"),
                basis="words",
            ),
            Claim(
                "SLBN settles no later than s-PERC",
                UNPUBLISHED,
                f"{text['slbn']} round-trips; s-PERC {text['sperc']}",
                "in each case",
                all(a <= b for a, b in zip(slow["slbn"], slow["sperc"], strict=True)),
                "s-PERC waits for its rounds to end",
                basis="ours",
            ),
            Claim(
                "and not much later than what keeps each session's state",
                UNPUBLISHED,
                f"{text['slbn']} round-trips; BFYZ's stand-in {text['bfyz']}",
                "at most three times as many",
                all(a <= 3 * b for a, b in zip(slow["slbn"], slow["bfyz"], strict=True)),
                basis="ours",
            ),
            Claim(
                "Control packets take what they may, and no more",
                "about 1 % of the rate",
                f"{limited:.2f} % at most, of all octets on short links",
                "1.1 %",
                limited <= 1.1,
                basis="number",
            ),
            Claim(
                "SLBN promises no more than there is, on average",
                "never overshooting links on average",
                f"bottlenecks {over:+.1f} % at most in the churn, on average",
                "at most +3 %",
                over <= 3,
                basis="words",
            ),
        ]

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
            line[0].set_ylabel("sources astray, %")
        axes[0][0].legend(fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("round-trips (mean) since the last one joined or left")

    def table(self, data: Data) -> Table:
        rows = [
            (
                title,
                NAMES[name],
                *(f"{self.settled(data[f'{place}-{name}'], phase):.1f}" for phase in (0, 1)),
                f"{self.over(data[f'{place}-{name}']):+.2f} %",
                f"{self.over(data[f'{place}-{name}'], 'most'):+.0f} %",
                f"{self.control(data[f'{place}-{name}']):.4f} %",
            )
            for place, title in self.titles.items()
            for name in self.algorithms
        ]
        columns = (
            "links", "", "round-trips to settle after joins", "after churn",
            "bottlenecks in the churn, mean at most", "one of them at most", "control",
        )  # fmt: skip
        return Table(columns, tuple(rows))
