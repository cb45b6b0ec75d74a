# SPDX-License-Identifier: GPL-2.0
"""The analysis of made-up raw data whose results are known."""

import math
import statistics
from pathlib import Path

import numpy
import pytest
from fairlab.model.scenario import parse_flows
from fairlab.net.tracing import parse
from fairlab.results import analysis
from fairlab.results.analysis import Cut, Measurement, follow_window
from fairlab.results.statistics import jain
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.lab.labtools import bic_window, made_up, probe, saw_tooth, scenario, state, write_raw

POSITIVE = st.floats(1e-3, 1e9)


@given(st.lists(POSITIVE, min_size=1, max_size=50))
def test_jain_index_is_between_1_over_n_and_1(values: list[float]) -> None:
    index = jain(values)
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9


@given(POSITIVE, st.integers(1, 50), st.integers(0, 50))
def test_jain_index_with_starved_flows(value: float, sharing: int, starving: int) -> None:
    index = jain([value] * sharing + [0.0] * starving)
    assert index == pytest.approx(sharing / (sharing + starving))


@given(st.lists(POSITIVE, min_size=2, max_size=20), POSITIVE)
def test_jain_index_is_scale_invariant(values: list[float], factor: float) -> None:
    scaled = [value * factor for value in values]
    assert jain(scaled) == pytest.approx(jain(values))


def test_jain_index_of_idle_flows_is_1() -> None:
    assert jain([0, 0]) == 1.0


@given(st.lists(st.integers(-1000, 1000), min_size=1), st.floats(0.01, 1))
def test_percentile(values: list[int], share: float) -> None:
    found = analysis.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < share * len(values)


@given(st.lists(st.integers(0, 100), min_size=3, max_size=30))
def test_rates_sum_up_to_the_total(steps: list[int]) -> None:
    times = [float(n) for n in range(len(steps))]
    totals = [float(sum(steps[: n + 1])) for n in range(len(steps))]
    edges = [n * 0.7 for n in range(int(times[-1] / 0.7) + 1)]
    assume(len(edges) > 1)
    found = analysis.rates(times, totals, edges)
    grown = float(numpy.interp(edges[-1], times, totals)) - totals[0]
    assert sum(rate * 0.7 for rate in found) == pytest.approx(grown)


def test_mean_of_a_step_function() -> None:
    times, values = [0.0, 1.0, 3.0], [10, 20, 40]
    assert analysis.step_mean(times, values, 0, 4) == pytest.approx((10 + 40 + 40) / 4)
    assert analysis.step_mean(times, values, 2, 3) == 20
    assert analysis.step_mean(times, values, 3.5, 9) == 40
    # Times before the first sample do not count.
    assert analysis.step_mean(times, values, -4, 1) == 10
    assert analysis.step_mean([], [], 0, 1) is None
    assert analysis.step_mean([5.0], [1], 0, 1) is None


@pytest.mark.parametrize(("seconds", "step"), [(5, 0.2), (12, 0.2), (30, 0.5), (60, 1), (600, 1)])
def test_interval_of_plotted_curves(seconds: int, step: float) -> None:
    assert analysis.plot_interval(seconds) == step


def test_results_of_a_run_with_known_shares(tmp_path: Path) -> None:
    what = scenario(flows=parse_flows("bic,cubic,cubic"), seconds=12, warmup_seconds=3.0)
    shares = (0.5, 0.3, 0.2)
    write_raw(tmp_path, made_up(what, shares), saw_tooth(what))
    measurement = Measurement.read(tmp_path)
    result = analysis.evaluate(measurement)

    goodput = what.rate * what.payload / what.frame
    total = result["total"]
    assert result["window_seconds"] == [3.0, 12.0]
    for flow, share in zip(result["flows"], shares, strict=True):
        assert flow["throughput_bps"] == pytest.approx(share * goodput, rel=1e-3)
        assert flow["share"] == pytest.approx(share, rel=1e-3)
        assert flow["retransmits"] == 7
        # From 3 to 12 s there are nine cuts of the window, from 100 to 50.
        assert (flow["cuts"], flow["cut_keeps"]) == (9, 0.5)
    assert [flow["label"] for flow in result["flows"]] == [
        "bic",
        "cubic #1",
        "cubic #2",
    ]
    # bic: 100 for 0.4 s and 50 for 0.6 s; cubic: 100 for 0.42 s and 51 for 0.58 s of each second.
    assert result["flows"][0]["cwnd_mean"] == pytest.approx(70, abs=0.5)
    assert result["flows"][1]["cwnd_mean"] == pytest.approx(71.6, abs=0.5)
    assert total["throughput_bps"] == pytest.approx(goodput, rel=1e-3)
    assert total["fair_share_bps"] == pytest.approx(goodput / 3, rel=1e-6)
    assert total["jain"] == pytest.approx(1 / (3 * (0.25 + 0.09 + 0.04)), abs=1e-3)
    assert total["utilisation"] == pytest.approx(1, rel=1e-3)
    assert total["loss"] == pytest.approx(1 / 101, rel=0.01)
    assert total["retransmits"] == 21
    delay = total["queue_delay_ms"]
    assert (delay["mean"], delay["p95"], delay["max"], delay["full"]) == (
        30,
        30,
        30,
        60,
    )
    assert total["ping_ms"]["mean"] == pytest.approx(90.45, abs=0.05)

    curves = result["series"]
    assert curves["interval"] == 0.2
    bps = curves["throughput"]["bps"]
    assert [len(column) for column in bps] == [60] * 3
    for column, share in zip(bps, shares, strict=True):
        # Rounded to whole packets in 0.2 s.
        assert statistics.fmean(column) == pytest.approx(share * goodput, rel=2e-3)
        assert max(column) - min(column) <= 2.1 * 8 * what.payload / 0.2
    assert min(curves["queue"]["time"]) >= 0 and max(curves["queue"]["time"]) <= 12
    assert curves["ping"]["time"][0] == pytest.approx(0, abs=1e-3)


def test_warmup_does_not_count(tmp_path: Path) -> None:
    what = scenario(seconds=10, warmup_seconds=5.0)
    document = made_up(what, (0.5, 0.5))
    samples = document["columns"]
    # The second flow sends in the first five seconds only.
    for name in ("arrived_bytes", "arrived_packets"):
        label, column = list(samples[name].items())[1]
        stop = next(n for n, t in enumerate(samples["time"]) if t >= 4.9)
        samples[name][label] = column[:stop] + [column[stop]] * (len(column) - stop)
    write_raw(tmp_path, document, saw_tooth(what))
    result = analysis.evaluate(Measurement.read(tmp_path))
    assert result["flows"][1]["throughput_bps"] == 0
    assert result["flows"][0]["share"] == 1
    assert result["total"]["jain"] == 0.5
    assert result["series"]["throughput"]["bps"][1][10] > 0


def window_of(text: str) -> analysis.Window:
    return follow_window(parse(text), 0.0)


def test_window_from_a_modules_tracepoint() -> None:
    window = window_of(
        bic_window(1.0, 1, 2, 10, 99, "slow_start")
        + bic_window(2.0, 1, 2, 80, 99, "slow_start")
        + bic_window(2.5, 1, 2, 80, 70, "loss")
        + bic_window(3.0, 1, 2, 71, 70, "binary")
    )
    assert window.cuts == [Cut(2.5, 80, 70)]
    assert list(zip(window.time, window.cwnd, strict=True)) == [
        (1.0, 10),
        (2.0, 80),
        (2.5, 80),
        (2.5, 70),
        (3.0, 71),
    ]


def test_window_from_tcp_probe() -> None:
    """Outside recovery, tcp_probe's ssthresh follows the window: not a window cut."""
    growing = "".join(probe(n / 10, 1, 2, 40 + n, max(20, 3 * (40 + n) // 4)) for n in range(30))
    assert window_of(growing).cuts == []
    recovery = state(3.0, 1, 2, 1) + state(3.01, 1, 2, 3) + probe(3.1, 1, 2, 60, 48)
    again = state(3.2, 1, 2, 4) + probe(3.3, 1, 2, 1, 48)  # a timeout in recovery is no other cut
    window = window_of(growing + recovery + again + state(3.5, 1, 2, 0) + probe(3.6, 1, 2, 2, 48))
    assert window.cuts == [Cut(3.01, 69, 48)]
    assert window.cwnd[-1] == 2


def test_undone_recovery_is_no_cut() -> None:
    undone = state(1.0, 1, 2, 3) + state(1.1, 1, 2, 0)
    before, after = probe(0.5, 1, 2, 80, 60), probe(1.2, 1, 2, 80, 60)
    assert window_of(before + undone + after).cuts == []
    kept = window_of(before + undone + probe(1.2, 1, 2, 56, 56))
    assert kept.cuts == [Cut(1.0, 80, 56)]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200))
def test_thinned_curves_are_within_a_tenth(windows: list[int]) -> None:
    events = "".join(probe(n / 1000, 1, 2, cwnd, 10) for n, cwnd in enumerate(windows))
    thin = window_of(events)
    assert thin.time == sorted(thin.time)
    assert len(thin.time) <= len(windows)
    for n, cwnd in enumerate(windows):
        drawn = [w for t, w in zip(thin.time, thin.cwnd, strict=True) if t <= n / 1000 + 1e-9]
        # The drawn window is at most about a tenth off at any time.
        assert math.isclose(drawn[-1], cwnd, rel_tol=1.2 * analysis.CURVE_JUMP)
    # The last value is exact.
    assert thin.cwnd[-1] == windows[-1]
