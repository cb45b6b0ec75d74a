# SPDX-License-Identifier: GPL-2.0
"""The studies of GAIMD: formulas, loss statistics of made-up samples, settings, and claims."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy
import pytest
from fairlab.figures.studies import gaimd
from fairlab.figures.studies import gaimd_model as model
from fairlab.figures.studies.gaimd import (
    AGGRESSIVE,
    GAIMD,
    TCP,
    Curves,
    Fluctuation,
    Formula,
    Friendliness,
    Window,
    crossings,
    starved,
)
from fairlab.figures.study import Study
from fairlab.model.errors import CannotRunError
from fairlab.results.experiment import Experiment
from fairlab.results.outcome import Outcome

from tests import launch
from tests.lab.labtools import held

SECOND = 10**9


def padhye(p: float, rtt: float, t0: float, b: int) -> float:
    """Reno's rate of Padhye et al. (1998, equation 30, without a window limit)."""
    by_acks = rtt * math.sqrt(2 * b * p / 3)
    by_timeouts = t0 * min(1, 3 * math.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2)
    return 1 / (by_acks + by_timeouts)


# --- formulas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1e-5, 0.001, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("b", [1, 2])
def test_reno_is_a_special_case(p: float, b: int) -> None:
    assert model.rate(p, 0.1, 0.4, 1.0, 0.5, b) == pytest.approx(padhye(p, 0.1, 0.4, b))


def test_rate_matches_hand_computed_values() -> None:
    # 0.1 sqrt(0.02 / 3) is 8.165 ms, 0.4 * 3 sqrt(0.00375) * 0.01 * 1.0032 is 0.737 ms.
    assert model.rate(0.01, 0.1, 0.4) == pytest.approx(112.33, rel=1e-3)
    # All are timeouts: 0.1 sqrt(0.2) + 0.4 * 0.3 * 3.88.
    assert model.rate(0.3, 0.1, 0.4) == pytest.approx(1 / (0.0447214 + 0.4656), rel=1e-6)
    # sqrt(1.5 / p) packets in a round-trip where timeouts cost nothing.
    assert model.rate(1e-4, 1, 0) == pytest.approx(math.sqrt(15000))


def test_friendly_curves() -> None:
    assert model.alpha_td(0.875) == pytest.approx(0.2)
    assert model.alpha_to(0.875) == pytest.approx(0.3125)
    assert model.alpha_td(0.5) == model.alpha_to(0.5) == 1
    # Each makes one term of the formula equal to TCP's.
    for beta in (0.25, 0.875):
        td, to = model.alpha_td(beta), model.alpha_to(beta)
        assert model.rate(1e-3, 1, 0, td, beta) == pytest.approx(model.rate(1e-3, 1, 0))
        assert model.rate(0.01, 0, 1, to, beta) == pytest.approx(model.rate(0.01, 0, 1))


def test_alpha_least_minimises_the_error() -> None:
    assert model.error(1, 0.5, 0.2) == 0
    assert model.alpha_least(0.5, 0.2) == 1
    least = model.alpha_least(0.875, 0.2)
    here = model.error(least, 0.875, 0.2)
    assert here < min(model.error(least + d, 0.875, 0.2) for d in (-0.05, -0.002, 0.002, 0.05))
    assert 0.2 < least < 0.3125


def test_poisson_losses() -> None:
    assert model.steadiness(0.5) == pytest.approx(0.577, abs=5e-4)
    assert model.steadiness(0.875) == pytest.approx(0.258, abs=5e-4)


def test_cycle_with_synchronised_losses() -> None:
    *_, before, after = model.synchronous((10, 1), 44.8, 60)
    # 2 : 2.48 and 1 : 2.17, scaled.
    assert list(before) == pytest.approx([20, 24.8]) and list(after) == pytest.approx([10, 21.7])


# --- samples ------------------------------------------------------------------------------------


def samples_of(**columns: list[int]) -> Any:
    """Samples of a flow, every 50 ms, with these COLUMNS; the others have default values."""
    names = "time acked flow cwnd ssthresh rtt state segments retransmits rto timeouts".split()
    count = len(next(iter(columns.values())))
    rows = numpy.zeros(count, dtype=[(name, "<u8") for name in names])
    rows["time"] = numpy.arange(count) * SECOND // 20
    rows["segments"] = numpy.arange(count) * 10
    rows["rtt"], rows["rto"], rows["ssthresh"] = 100_000, 300_000, 20
    for name, values in columns.items():
        rows[name] = values
    return rows


def test_loss_indications() -> None:
    rows = samples_of(
        #      fast         fast, twice            a timeout, doubled twice; another
        state=[0, 3, 3, 0, 3, 3, 3, 0, 4, 4, 4, 4, 0, 4, 0],
        ssthresh=[20, 10, 10, 10, 9, 9, 5, 5, 2, 2, 2, 2, 2, 2, 2],
        timeouts=[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 0, 1, 0],
    )
    found = gaimd.account(rows, 0, 100)
    assert (found.fast, found.timeouts, found.doubled) == (3, 2, 2)
    assert found.indications == 5
    assert found.segments == 140 and found.seconds == pytest.approx(0.7)
    assert found.sent == pytest.approx(200)


def test_t0_excludes_backed_off_timers() -> None:
    rows = samples_of(timeouts=[0, 1, 2, 0], rto=[300_000, 600_000, 1_200_000, 400_000])
    found = gaimd.account(rows, 0, 100)
    assert found.rtt == pytest.approx(0.1) and found.t0 == pytest.approx(0.35)


def test_samples_outside_of_the_window_are_ignored() -> None:
    rows = samples_of(state=[3, 0, 3, 0, 3, 0, 3, 0])
    assert gaimd.account(rows, 0.1, 0.25).fast == 1


def test_a_flow_without_samples_is_refused() -> None:
    with pytest.raises(CannotRunError, match="fewer than two samples after 2 s"):
        gaimd.account(samples_of(state=[0] * 20), 2, 10)


def test_sums_over_flows() -> None:
    one = gaimd.Account(4, 1, 0, 100, 10.0, 0.1, 0.3)
    other = gaimd.Account(6, 1, 3, 300, 10.0, 0.2, 0.0)
    both = gaimd.total([one, other])
    assert (both.fast, both.timeouts, both.doubled, both.segments) == (10, 2, 3, 400)
    # Each sends 20 packets a second; the second has no sample of its timer.
    assert both.sent == pytest.approx(20) and both.rtt == pytest.approx(0.15) and both.t0 == 0.3
    assert both.predicted(1, 0.5) == pytest.approx(model.rate(12 / 400, 0.15, 0.3))
    assert replace(both, fast=0, timeouts=0).predicted(1, 0.5) == 0


# --- settings -----------------------------------------------------------------------------------


def experiments(study: Study, quick: bool, seed: int = 1) -> dict[str, Experiment]:
    found = {}
    for case in study.cases(quick, seed):
        assert isinstance(case.what, Experiment)
        assert case.what.seed == seed
        found[case.name] = case.what
    return found


def kinds(what: Experiment) -> dict[str, tuple[str, int]]:
    return {group.name: (group.streams[0].cc, group.streams[0].count) for group in what.groups}


@pytest.mark.parametrize("study", gaimd.STUDIES, ids=lambda study: study.name)
def test_studies_are_complete(study: Study) -> None:
    assert re.fullmatch(r"gaimd-[a-z]+", study.name)
    assert study.title and study.source and study.setting and study.assumptions
    assert len(list(study.seeds(False))) > 1
    for quick in (True, False):
        names = [case.name for case in study.cases(quick, 1)]
        assert names and len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    some, whole = experiments(study, True), experiments(study, False)
    assert set(some) <= set(whole)
    assert len(some) < len(whole) or all(
        what.seconds < whole[name].seconds for name, what in some.items()
    )


def test_formula_setting() -> None:
    whole = experiments(Formula(), False)
    seen = set()
    for name, what in whole.items():
        load = Formula().load(name)
        tcp, mine, udp = what.groups
        assert what.rate == 15_000_000 and what.mtu == 1000
        assert kinds(what) == {
            "tcp": ("reno", 16),
            "gaimd": ("gaimd", 16),
            "udp": ("udp", load.sources),
        }
        (stream,) = udp.streams
        assert (stream.rate, stream.on, stream.off) == (500_000, "pareto:1.5:1", "pareto:1.5:2")
        assert dict(mine.settings)["gaimd_alpha"] == f"{1000 * load.alpha:.0f}"
        assert dict(mine.settings)["gaimd_beta"] == f"{1000 * load.beta:.0f}"
        assert (dict(tcp.settings).get("tcp_sack") == "0") is not load.modern
        assert what.queue.startswith("red ") is (load.queue == "red")
        # Every recovery lasts a round-trip, so that each is seen.
        assert what.look < min(group.rtt for group in what.groups) / 1e6
        seen.add((load.alpha, load.beta, load.queue, load.sources))
    for beta in (0.5, 0.75, 0.875):
        assert {a for a, b, *_ in seen if b == beta} >= {0.1, 1.0}
    assert {n for *_, n in seen} >= {10, 70}
    assert (0.4, 0.75, "red", 70) in seen and (0.4, 0.75, "tail", 70) in seen


def test_friendliness_setting() -> None:
    whole = experiments(Friendliness(), False)
    assert len(whole) == 4 * 7
    for name, what in whole.items():
        kbit, queue, n = name.split("-")
        assert what.rate == 1000 * int(kbit) and what.seconds == 120
        assert kinds(what) == {"tcp": ("reno", int(n)), "gaimd": ("gaimd", int(n))}
        assert dict(what.groups[1].settings) == {"gaimd_alpha": "310", "gaimd_beta": "875"}
        assert bool(what.queue) is (queue == "red")
        # All connections open before data is in flight, not through a full queue.
        streams = [stream for group in what.groups for stream in group.streams]
        rtt = min(group.rtt for group in what.groups) / 1e6
        assert all(stream.start + stream.spread < rtt for stream in streams)
    assert {int(name.split("-")[2]) for name in whole} == {1, 2, 4, 8, 16, 32, 64}


def test_other_settings() -> None:
    (what,) = experiments(Fluctuation(), False).values()
    assert kinds(what) == {"tcp": ("reno", 4), "gaimd": ("gaimd", 4)}
    assert what.rate == 15_000_000 and what.look == 0.15 and what.queue.startswith("red ")
    for what in experiments(Window(), False).values():
        assert kinds(what) == {"tcp": ("reno", 1), "gaimd": ("gaimd", 1)}
    curves = experiments(Curves(), False)
    assert dict(curves["b875-td-4"].groups[1].settings)["gaimd_alpha"] == "200"
    assert dict(curves["b875-to-32"].groups[1].settings)["gaimd_alpha"] in ("312", "313")
    assert dict(curves["b500-td-4"].groups[1].settings)["gaimd_alpha"] == "1000"


@pytest.mark.parametrize("rate", gaimd.QUEUE_SIZES)
def test_red_weight(rate: int) -> None:
    words = gaimd.red_words(rate).split()
    given = dict(zip(words[1::2], words[2::2], strict=True))
    packet = int(given["avpkt"])
    assert int(given["min"]) < int(given["max"]) < int(given["limit"])
    # How tc finds it (tc_red_eval_ewma): the smallest W with which a burst does not reach min.
    burst = int(given["burst"])
    reach = burst + 1 - int(given["min"]) / packet
    weight = next(n for n in range(1, 32) if reach <= (1 - (1 - 0.5**n) ** burst) / 0.5**n)
    assert 2.0**-weight == pytest.approx(0.002, rel=0.03)


@pytest.mark.parametrize("rate", gaimd.QUEUE_SIZES)
def test_tc_accepts_the_red_options(rate: int) -> None:
    # The error is the missing device: tc accepted the options.
    command = ["tc", "qdisc", "add", "dev", "none-such", "root", *gaimd.red_words(rate).split()]
    done = launch.run(command)
    assert "Cannot find device" in done.stderr, done.stderr


# --- claims -------------------------------------------------------------------------------------


def formula_run(loss: float, tcp: float, mine: float, deviation: float) -> dict[str, Any]:
    def kind(ratio: float) -> dict[str, Any]:
        flows = [ratio * (1 - deviation), ratio * (1 + deviation)]
        plain = {"p": 0.1, "timeouts": 0.3, "lost": 0.1, "rtt": 0.1, "t0": 0.3, "sent": 30.0}
        others = {"ratio_timeouts": ratio, "ratio_lost": ratio}
        return {**plain, **others, "ratio": ratio, "flows": flows}

    return {"loss": loss, TCP: kind(tcp), GAIMD: kind(mine)}


def formula_data(**changes: float) -> dict[str, list[dict[str, Any]]]:
    """The published results, with CHANGES."""
    base = {
        "few": 0.015,
        "many": 0.18,
        "good": 1.05,
        "beyond": 1.5,
        "bold": 1.2,
        "gaimd": 1.0,
        "red": 1.0,
        "low": 0.1,
    }
    how = base | changes
    data = {}
    for load in Formula.loads:
        losses = {10: how["few"], 40: 0.15, 70: how["many"]}
        loss = losses.get(load.sources, 0.3)
        ratio = how["good"] if loss < 0.2 else how["beyond"]
        ratio *= how["red"] if load.queue == "red" else 1
        mine = ratio * how["gaimd"]
        if (load.alpha, load.beta) == AGGRESSIVE:
            mine *= how["bold"]
        data[load.name] = [formula_run(loss, ratio, mine, how["low"] if loss < 0.1 else 0.4)]
    return data


def test_claims_of_the_formula() -> None:
    study = Formula()
    assert all(held(study, formula_data()).values())
    for change, broken in (
        ({"good": 1.3}, "accurate"),
        ({"good": 1.6, "beyond": 1.9}, "accurate-each"),
        ({"gaimd": 1.3}, "same"),
        ({"beyond": 1.06}, "beyond"),
        ({"good": 1.2, "beyond": 1.15}, "beyond-below"),
        ({"bold": 0.9}, "aggressive"),
        ({"red": 0.7}, "queues"),
        ({"low": 0.3}, "flows"),
        ({"low": 0.5}, "flows-beyond"),
        ({"few": 0.025}, "loss-least"),
        ({"many": 0.14}, "loss-most"),
    ):
        assert not held(study, formula_data(**change))[broken]
    quick = {load.name: [formula_run(0.1, 1.1, 1.1, 0.1)] for load in study.quick_loads}
    assert all(held(study, quick, True).values())


def share_data(study: Friendliness, quick: bool, mean: float) -> dict[str, Any]:
    run = {"loss": 0.1, "utilisation": 1.0, TCP: [2 - mean], GAIMD: [mean]}
    return {case.name: [run, run] for case in study.cases(quick, 1)}


@pytest.mark.parametrize("quick", [True, False])
def test_claims_of_friendliness(quick: bool) -> None:
    study = Friendliness()
    for mean, holds in ((1.0, True), (0.85, True), (1.19, True), (0.7, False), (1.3, False)):
        claims = held(study, share_data(study, quick, mean), quick)
        assert len(claims) == (2 if quick else 8) and set(claims.values()) == {holds}
    runs = [{GAIMD: [0.0, 1.0, 2.0]}, {GAIMD: [0.01, 0.03, 2.9]}]
    assert starved(runs, GAIMD) == pytest.approx(100 / 3)
    data = share_data(study, False, 1.0)
    # One n of one of the four is enough.
    data["15000-red-16"] = share_data(study, False, 0.5)["15000-red-16"]
    broken = [name for name, holds in held(study, data).items() if not holds]
    assert broken == ["15000-red", "15000-red-flows"]
    # Single flows differ, their means do not.
    run = {"loss": 0.1, "utilisation": 1.0, TCP: [1.0] * 4, GAIMD: [0.7, 1.3, 1.0, 1.0]}
    data["15000-red-16"] = [run, run]
    assert [name for name, holds in held(study, data).items() if not holds] == ["15000-red-flows"]


def curve_data(quick: bool, ratios: dict[str, float]) -> dict[str, Any]:
    return {
        case.name: [{"ratio": ratios[case.name.split("-")[1]], "loss": 0.05, "p": 0.03}]
        for case in Curves().cases(quick, 1)
    }


def test_claims_of_the_curves() -> None:
    study = Curves()
    fair = {"td": 1.0, "least": 1.1, "to": 1.25}
    for quick in (True, False):
        assert all(held(study, curve_data(quick, fair), quick).values())
    same = held(study, curve_data(False, fair | {"to": 1.0}))
    assert [name for name, holds in same.items() if not holds] == ["to-over-td"]
    unfair = held(study, curve_data(False, fair | {"least": 2.0}))
    assert [name for name, holds in unfair.items() if not holds] == ["equal-4", "equal-32"]


def test_claims_of_the_formula_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another formula: timeouts by p alone, and a TO-friendly α that is half of it."""
    monkeypatch.setattr(model, "timeouts", lambda p, t0, alpha, beta, b=1: -p / (1 + alpha))
    monkeypatch.setattr(model, "alpha_to", lambda beta: 2 * (1 - beta * beta) / 3)
    found = held(Curves(), curve_data(True, {"td": 1.0, "least": 1.1, "to": 1.25}), True)
    assert not any(found[name] for name in ("only", "directions", "exponent-to"))


def test_claims_of_fluctuation() -> None:
    def data(tcp: float, mine: float) -> dict[str, Any]:
        def kind(cov: float) -> dict[str, Any]:
            return {"cov": [cov, cov], "mbit": [1.0, 2.0], "rates": [[1.0], [2.0]]}

        return {"red": [{"begin": 20.0, TCP: kind(tcp), GAIMD: kind(mine)}]}

    for mine, holds in ((0.2, True), (0.3, False), (0.1, False)):
        assert held(Fluctuation(), data(0.4, mine)) == {"cov": holds}


def test_claims_of_windows() -> None:
    study = Window()

    def claims(reno: list[int], mine: list[int]) -> list[bool]:
        run = {"begin": 20.0, TCP: reno, GAIMD: mine, "timeouts": 0}
        return list(held(study, {"tail": [run]}).values())

    # Reno from 5 to 15 and back, each second.
    saw = [5, 8, 11, 13, 15] * 100
    assert claims(saw, [10] * 500) == [True, True, True]
    # Never below Reno; and as unsteady as Reno.
    assert claims(saw, [20] * 500) == [False, False, True]
    assert claims(saw, saw[2:] + saw[:2]) == [True, True, False]
    assert crossings([1, 2, 2, 3], [2, 2, 1, 4]) == 2


# --- drawing and stored numbers -----------------------------------------------------------------


def made_up_outcome(what: Experiment) -> Outcome:
    """Each flow sends 20 packets in 100 ms, 19 of which arrive, and loses some each second."""
    seen = numpy.arange(0, what.seconds, 0.05)
    rows = {}
    for name, found in what.kinds().items():
        flows = []
        for n in range(len(found)):
            one = samples_of(state=[3 if i % 20 == 7 else 0 for i in range(len(seen))])
            one["flow"], one["cwnd"] = n, 20 + numpy.arange(len(seen)) % (3 + n)
            one["segments"] += numpy.arange(len(seen), dtype="u8") % 2
            one["acked"] = one["segments"] * 948
            flows.append(one)
        rows[name] = numpy.concatenate(flows)
    steps = numpy.arange(0, what.seconds + 0.1, 0.1)
    each = {name: len(found) for name, found in what.kinds().items()}
    columns = {
        "time": steps.tolist(),
        "drops": (steps * 100).tolist(),
        "sent_packets": (steps * 900).tolist(),
        "sent_bytes": (steps * what.rate * 0.9 / 8).tolist(),
        "backlog_packets": [20] * len(steps),
        "arrived_packets": {name: (steps * 190 * n).tolist() for name, n in each.items()},
    }
    return Outcome({"columns": columns, "begin": 0.0}, what, {}, rows, {})


@pytest.mark.parametrize("study", gaimd.STUDIES, ids=lambda study: study.name)
@pytest.mark.parametrize("quick", [True, False])
def test_stored_numbers_can_be_serialised_and_drawn(study: Study, quick: bool) -> None:
    from matplotlib.figure import Figure

    data = {}
    for case in study.cases(quick, 1):
        assert isinstance(case.what, Experiment)
        short = replace(case.what, seconds=12.0, warmup=2.0)
        numbers = study.reduce(case, made_up_outcome(short))
        data[case.name] = [json.loads(json.dumps(numbers))] * 2
    assert held(study, data, quick)
    table = study.table(data)
    assert table is None or {len(row) for row in table.rows} == {len(table.columns)}
    figure = Figure(layout="constrained")
    study.draw(figure, data)
    figure.canvas.draw()
    assert figure.axes


def test_idle_red_is_refused() -> None:
    study = Fluctuation()
    (case,) = study.cases(True, 1)
    assert isinstance(case.what, Experiment)
    seen = made_up_outcome(case.what)
    study.reduce(case, seen)
    seen.columns["sent_bytes"] = [0.4 * value for value in seen.columns["sent_bytes"]]
    with pytest.raises(CannotRunError, match="only 36 % of the bottleneck"):
        study.reduce(case, seen)


def test_stored_numbers_of_a_formula_run() -> None:
    study = Formula()
    case = next(c for c in study.cases(False, 1) if c.name == "a400-b750-tail-10")
    assert isinstance(case.what, Experiment)
    found = study.reduce(case, made_up_outcome(replace(case.what, seconds=22.0, warmup=2.0)))
    assert found["loss"] == pytest.approx(0.1)
    for kind, params in ((TCP, (1.0, 0.5)), (GAIMD, (0.4, 0.75))):
        # An indication each second, of 200 packets; one in 20 is lost.
        one = found[kind]
        assert one["p"] == pytest.approx(1 / 200, rel=0.06)
        assert one["lost"] == pytest.approx(0.05, rel=0.06)
        assert one["sent"] == pytest.approx(200, rel=0.001)
        ratio = model.rate(one["p"], 0.1, 0.3, *params) / 200
        assert one["ratio"] == pytest.approx(ratio, rel=0.002)
        assert one["flows"] == pytest.approx([ratio] * 16, rel=0.002)
        assert one["ratio_lost"] < one["ratio"] == one["ratio_timeouts"]
