# SPDX-License-Identifier: GPL-2.0
"""The studies of BIC's slides: their formulas, their settings, and claims on made-up data."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairlab.figures import registry
from fairlab.figures.gallery import Gallery
from fairlab.figures.studies import ALL, bic
from fairlab.figures.studies import bic_rules as rules
from fairlab.figures.study import Data, Study
from fairlab.results.experiment import Experiment

from tests.lab.labtools import held

FRAME = 1514


def study(name: str) -> Any:
    return next(one for one in bic.STUDIES if one.name == name)


def experiment(name: str, case: str, quick: bool = False, seed: int = 1) -> Experiment:
    found = {one.name: one.what for one in study(name).cases(quick, seed)}
    what = found[case]
    assert isinstance(what, Experiment)
    return what


# --- formulas -----------------------------------------------------------------------------------


def test_published_response_values() -> None:
    """Computed by hand, or from the slides."""
    assert rules.aimd_response(1e-4) == pytest.approx(122.5, rel=1e-3)
    for p in (1e-3, 1e-5, 1e-8):  # "about 13 times" at any p
        assert rules.RESPONSES["aimd"](p) / rules.aimd_response(p) == pytest.approx(12.65, rel=1e-3)
    assert rules.hstcp_response(1e-7) == pytest.approx(83000, rel=0.02)
    assert rules.stcp_response(1e-5) == pytest.approx(8000)
    # A window of 100,000 packets needs a loss in 6.7e9 (slides 8, 10).
    assert rules.aimd_response(1.5e-10) == pytest.approx(100_000)


@pytest.mark.parametrize(("p", "window"), [(6.5e-6, 4800), (5.9e-7, 18_900), (4.1e-8, 75_200)])
def test_response_of_bic(p: float, window: float) -> None:
    assert rules.bic_response(p) == pytest.approx(window, rel=0.01)


def test_bic_matches_aimd_in_large_windows() -> None:
    assert rules.bic_response(1e-12) == pytest.approx(
        rules.aimd_response(1e-12, 32, 0.125), rel=0.01
    )


@pytest.mark.parametrize("kind", ["reno", "aimd", "hstcp", "stcp"])
def test_simulation_matches_formula_at_low_loss(kind: str) -> None:
    p = 1e-6
    assert rules.simulate(rules.WINDOWS[kind](), p) == pytest.approx(
        rules.RESPONSES[kind](p), rel=0.15
    )


def test_losses_in_one_round_count_as_one() -> None:
    """At p = 0.01, 15 times as many packets as in Reno's window would lose several at once."""
    aimd = rules.simulate(rules.WINDOWS["aimd"](), 0.01)
    assert aimd < 0.98 * rules.RESPONSES["aimd"](0.01)


def test_rfc_3649() -> None:
    """Rows of its table: window, increase, decrease."""
    for packets, increase, decrease in ((38, 1, 0.50), (1058, 8, 0.33), (10661, 30, 0.21)):
        window = rules.WINDOWS["hstcp"](packets)
        assert window.decrease(packets) == pytest.approx(decrease, abs=0.006)
        window.grow()
        assert window.packets - packets == pytest.approx(increase, rel=0.06)


def test_steps_of_a_search() -> None:
    """Computed by hand: a loss at 1000 after a maximum of 1100: cut to 875, Wmax is their mean."""
    search = rules.BicWindow(1000.0, wmax=1100.0)
    search.cut()
    assert (search.packets, search.wmax) == (875, 937.5)
    steps = bic.steps_from(875, 1003, 40)
    assert steps[1:6] == [907, 939, 971, 987, 995]
    assert steps[6:9] == [999, 1001, 1002]
    grown = numpy.diff(steps)
    at = next(n for n, step in enumerate(steps) if step >= 1003)
    assert list(grown[at : at + 8]) == [1, 2, 4, 8, 16, 32, 32, 32]
    # Smin at the end; the last step is the remaining distance.
    assert min(grown[: at - 1]) == pytest.approx(0.01)
    assert steps[at] == 1003


def test_bic_is_reno_below_low_window() -> None:
    search = rules.BicWindow(12.0, wmax=20.0)
    search.grow()
    assert search.packets == 13
    search.cut()
    assert search.packets == 6.5


def test_episodes_from_samples() -> None:
    """Recovery in rows 2 to 3 and 6; the windows at the losses were 1003 and 990."""
    state = numpy.array([0, 0, 3, 3, 0, 0, 3, 0, 0])
    ssthresh = numpy.array([2**31, 2**31, 877, 877, 877, 877, 866, 866, 866])
    found = bic.episodes(state, ssthresh)
    assert [(one.begin, one.end) for one in found] == [(4, 6), (7, 9)]
    assert found[0].wmax == pytest.approx(1003)
    assert found[1].wmax == pytest.approx((990 + 866.25) / 2)


# --- settings -----------------------------------------------------------------------------------


def test_studies_are_registered() -> None:
    names = [one.name for one in ALL]
    assert len(set(names)) == len(names)
    assert {one.name for one in bic.STUDIES} <= set(names)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("one", bic.STUDIES, ids=lambda one: one.name)
def test_cases(one: Study, quick: bool) -> None:
    """Unique names, valid experiments, the seed."""
    assert one.title and one.source and one.setting and one.assumptions
    every = {case.name for case in one.cases(False, 1)}
    for seed in one.seeds(quick):
        cases = one.cases(quick, seed)
        assert len({case.name for case in cases}) == len(cases) > 0
        for case in cases:
            what = case.what
            assert isinstance(what, Experiment)
            assert what.seed == seed
            assert what.mtu == 1500 and what.queue == ""
            # Protocols with presets have theirs set.
            for group in what.groups:
                for stream in group.streams:
                    wanted = {"gaimd": "aimd32", "bic": "paper"}.get(stream.cc)
                    preset = dict(group.settings).get(f"{stream.cc}_preset")
                    assert preset == wanted
        if not quick:
            assert {case.name for case in cases} <= every


def test_utilisation_setting() -> None:
    rates = {155: 129, 622: 514, 2500: 2064, 5000: 4128, 10000: 8256}
    for mega, buffer in rates.items():
        for kind, cc in (("reno", "reno"), ("hstcp", "highspeed"), ("stcp", "scalable")):
            what = experiment("bic-utilisation", f"{kind}-{mega}")
            (group,) = what.groups
            assert what.rate == mega * 10**6
            assert what.buffer == pytest.approx(buffer, abs=1)  # 0.1 BDP in packets
            assert group.rtt == 100_000
            assert [(s.cc, s.count) for s in group.streams] == [(cc, 5)]
    assert experiment("bic-utilisation", "bic-622").seconds == 110


def test_fast_links_have_few_seeds_unless_more_are_chosen(tmp_path: Path) -> None:
    def names(seeds: tuple[int, ...]) -> list[str]:
        return [
            run.name for run in Gallery(tmp_path, False, seeds=seeds).runs(study("bic-utilisation"))
        ]

    own, chosen = names(()), names((1, 4))
    assert {"bic-622@5", "bic-5000@3", "bic-10000@2"} <= set(own)
    assert not {"bic-5000@4", "bic-10000@3"} & set(own)
    assert "bic-10000@4" in chosen and len(chosen) == 2 * len(names((9,)))


@pytest.mark.parametrize("ratio", [1, 3, 6])
def test_rtt_fairness_setting(ratio: int) -> None:
    what = experiment("bic-rtt-fairness", f"bic-{ratio}")
    groups = {group.name: group for group in what.groups}
    assert what.rate == 2_500_000_000
    assert what.buffer == round(2.5e9 * 0.04 / 8 / FRAME)
    assert (groups["near"].rtt, groups["far"].rtt) == (40_000, ratio * 40_000)
    assert groups["back"].reverse and not groups["web"].reverse
    assert groups["web"].background and groups["back"].background


def test_friendliness_setting() -> None:
    what = experiment("bic-friendliness", "aimd-20")
    groups = {group.name: group for group in what.groups}
    assert what.rate == 20_000_000
    assert what.buffer == round(20e6 * 0.1 / 8 / FRAME)
    assert [(s.cc, s.count) for s in groups["tcp"].streams] == [("reno", 2)]
    assert [(s.cc, s.count) for s in groups["fast"].streams] == [("gaimd", 2)]
    assert groups["back"].reverse


def test_response_runs_have_enough_losses() -> None:
    for one in study("bic-response").cases(False, 1):
        what = one.what
        kind = one.name.partition("-")[0]
        assert isinstance(what, Experiment)
        packets = rules.RESPONSES[kind](what.loss) * (what.seconds - what.warmup) / 0.1
        assert packets * what.loss >= 59.9
        # The BDP is three times the window, so the link does not limit the flow.
        assert bic.bdp(what.rate, 100_000) > 3 * rules.RESPONSES[kind](what.loss)


# --- claims -------------------------------------------------------------------------------------


def utilisation(reno: Sequence[float], others: float) -> Data:
    rates = (155, 2500, 10000)
    data: dict[str, list[dict[str, Any]]] = {}
    for mega, share in zip(rates, reno, strict=True):
        for kind in bic.KINDS:
            used = share if kind is bic.RENO else others
            data[f"{kind.key}-{mega}"] = [
                {"utilisation": used - 0.01},
                {"utilisation": used + 0.01},
            ]
    return data


def test_claims_of_utilisation() -> None:
    one = study("bic-utilisation")
    as_published = utilisation((0.99, 0.6, 0.4), 0.95)
    assert all(held(one, as_published).values())
    full = held(one, utilisation((0.9, 0.93, 0.92), 0.95))
    assert not full["reno-2500"] and not full["falls"] and full["least-2500"]
    assert not held(one, utilisation((0.9, 0.6, 0.4), 0.8))["bic-10000"]
    assert not held(one, utilisation((0.9, 0.99, 0.4), 0.95))["least-2500"]


def rtt_fairness(factor: float = 1.0) -> dict[str, list[dict[str, Any]]]:
    """The published ratios, those of different RTTs times FACTOR."""
    claims = registry.of("bic-rtt-fairness")
    return {
        name: [
            {
                "ratio": (claim.value or 0) * spread * (1 if name.endswith("-1") else factor),
                "near": 2e9,
                "far": 1e8,
            }
            for spread in (0.8, 1.25)
        ]
        for name, claim in claims.items()
        if claim.kind == "number" and "-" in name
    }


def test_claims_of_rtt_fairness() -> None:
    one = study("bic-rtt-fairness")
    assert all(held(one, rtt_fairness()).values()) and len(held(one, rtt_fairness())) == 17
    # Within a factor of two, but all in one direction.
    assert [name for name, holds in held(one, rtt_fairness(1.3)).items() if not holds] == ["mean"]
    off = held(one, rtt_fairness(2.5))
    assert [off[f"bic-{ratio}"] for ratio in (1, 3, 6)] == [True, False, False]
    assert not off["squares"] and off["as-aimd"]
    data = rtt_fairness()
    data["bic-3"], data["stcp-3"] = data["stcp-3"], data["bic-3"]
    assert not held(one, data)["order-3"] and not held(one, data)["as-aimd"]
    # A ratio and its reciprocal do not cancel.
    data["bic-1"] = [{"ratio": ratio, "near": 1, "far": 1} for ratio in (2.5, 0.4)]
    assert not held(one, data)["bic-1"]
    rows = {(row["RTTs"], row["protocol"]): row["ours"] for row in one.rows(data)}
    assert rows["1 : 1, larger : smaller", "BIC"] == "2.50 (2.50 to 2.50)"
    assert one.theory(bic.BIC, 3) == pytest.approx(9)
    assert one.theory(bic.HSTCP, 6) == pytest.approx(6**5.556, rel=1e-3)
    assert math.isinf(one.theory(bic.STCP, 6))


def friendliness(**shares: float) -> Data:
    return {
        f"{key}-20": [{"tcp": share, "fast": 0.9 - share, "web": 0.1}]
        for key, share in shares.items()
    }


def test_claims_of_friendliness() -> None:
    one = study("bic-friendliness")
    good = friendliness(reno=0.45, aimd=0.05, hstcp=0.4, stcp=0.3, bic=0.3)
    assert all(held(one, good).values())
    bad = held(one, friendliness(reno=0.45, aimd=0.3, hstcp=0.4, stcp=0.2, bic=0.1))
    assert [name for name, holds in bad.items() if holds] == ["hstcp"]


def buffers(used: Sequence[float], queue: Sequence[float], most: str) -> Data:
    losses = {"reno": 1e-6, "aimd": 1e-4, "hstcp": 1e-5, "stcp": 1e-5, "bic": 1e-5, most: 1e-3}
    return {
        f"{kind.key}-{part:g}": [
            {"throughput": share, "queue": waiting, "filled": 0.5, "loss": losses[kind.key]}
        ]
        for part, share, waiting in zip((0.03, 0.1, 1), used, queue, strict=True)
        for kind in bic.KINDS
    }


def test_claims_of_buffers() -> None:
    one = study("bic-buffer")
    assert all(held(one, buffers((0.7, 0.8, 0.95), (0.01, 0.05, 0.5), "aimd")).values())
    assert not any(held(one, buffers((0.7, 0.6, 0.95), (0.01, 0.5, 0.4), "reno")).values())


def test_claims_of_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "bic-response"
    data = {
        f"{kind.key}-0.0001": [
            {"p": 1e-4, "packets": rules.simulate(rules.WINDOWS[kind.key](), 1e-4)}
        ]
        for kind in bic.KINDS
    }
    before = held(study(name), data)
    assert sum(name.startswith("rules-") for name in before) == len(bic.KINDS)
    assert all(holds for name, holds in before.items() if name.startswith("rules-"))
    data["reno-0.0001"][0]["packets"] *= 1.4
    after = held(study(name), data)
    assert not after["rules-reno-0.0001"] and not after["formula-reno-0.0001"]
    # 1.4 times Reno's window are too many for the published ratio.
    assert after["aimd-formula"] and not after["aimd-measured"]
    monkeypatch.setitem(rules.RESPONSES, "aimd", lambda p: 1.5 / p)
    assert not held(study(name), data)["aimd-formula"]


def search(off: float, highest: float) -> dict[str, Any]:
    rounds = list(range(20))
    return {
        "time": [0.1 * n for n in range(300)],
        "cwnd": [900] * 300,
        "span": [14.0, 16.0],
        "wmax": 1000,
        "rounds": rounds,
        "window": [875] * 19 + [1000 * highest],
        "expected": [875.0] * 20,
        "off": off,
        "episodes": [off] * 10,
    }


def converging(off: float, highest: float, jain: float) -> Data:
    share = {"time": [2, 4], "rates": [[150, 90], [0, 60]], "ends": [8e7, 6e7], "jain": jain}
    return {"search": [search(off, highest)], "share": [share]}


def test_claims_of_convergence() -> None:
    one = study("bic-convergence")
    assert list(held(one, converging(0.01, 1.5, 0.97)).values()) == [True] * 4
    assert not any(held(one, converging(0.1, 1.1, 0.6)).values())


# --- drawing ------------------------------------------------------------------------------------

MADE_UP: dict[str, Data] = {
    "bic-utilisation": utilisation((0.9, 0.6, 0.4), 0.95),
    "bic-rtt-fairness": rtt_fairness(),
    "bic-friendliness": friendliness(reno=0.45, aimd=0.05, hstcp=0.4, stcp=0.3, bic=0.3),
    "bic-buffer": buffers((0.7, 0.8, 0.95), (0.01, 0.05, 0.5), "aimd"),
    "bic-response": {
        f"{kind.key}-{p:g}": [{"p": p, "packets": rules.RESPONSES[kind.key](p)}]
        for kind in bic.KINDS
        for p in (1e-3, 1e-4)
    },
    "bic-convergence": converging(0.01, 1.5, 0.97),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_labels_in_figures(name: str) -> None:
    """Each protocol is labelled, and labels do not overlap."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    canvas = FigureCanvasAgg(figure)
    study(name).draw(figure, MADE_UP[name])
    canvas.draw()
    for axis in figure.axes:
        texts = [text for text in axis.texts if text.get_text() in {k.label for k in bic.KINDS}]
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
        for n, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:n])
        if "-" in next(iter(MADE_UP[name])):
            assert {text.get_text() for text in texts} == {
                kind.label for kind in bic.kinds_of(MADE_UP[name])
            }
    table = study(name).table(MADE_UP[name])
    assert name == "bic-convergence" or all(len(row) == len(table.columns) for row in table.rows)
