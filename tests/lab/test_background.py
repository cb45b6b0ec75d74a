# SPDX-License-Identifier: GPL-2.0
"""The background load: the options of its source, the analysis of its reports, and its checks.

The raw data is made up (labtools.py), so all results are known.
"""

import gzip
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fairlab.model import background
from fairlab.model.background import Background, parse_fraction
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.qdisc import Buffer, parse_qdisc
from fairlab.model.scenario import Scenario, parse_flows
from fairlab.net import host
from fairlab.results import analysis, comparison, flentfile, plots, report, store, validity
from fairlab.results.analysis import Measurement
from fairlab.run import flows
from fairlab.run.dumbbell import BESIDE
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import (
    BEGIN,
    FLOW_SEGMENTS,
    call_fairlab,
    made_up,
    made_up_background,
    saw_tooth,
    scenario,
    write_raw,
)

DATE = datetime(2026, 11, 20, 11, 45, 0, tzinfo=UTC)


def with_background(what: Background, **changes: Any) -> Scenario:
    """40 of 100 for one flow, the background's share, and a queue of 20 packets."""
    plain = {"flows": parse_flows("reno"), "seconds": 12, "warmup_seconds": 3.0}
    queue = {"buffer": Buffer("20p", packets=20), "qdiscs": (parse_qdisc("fq_codel,limit=20"),)}
    return scenario(background=what, **(plain | queue | changes))


def written(directory: Path, what: Scenario, share: float = 0.4) -> Measurement:
    write_raw(directory, made_up(what, (share,)), saw_tooth(what))
    return Measurement.read(directory)


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "fraction"), [("0.5", 0.5), (".95", 0.95), ("00.1", 0.1)])
def test_parse_fraction(text: str, fraction: float) -> None:
    assert parse_fraction(text) == fraction


@given(st.text(max_size=8))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        assert 0 <= parse_fraction(text) < 100
    except UsageError as error:
        assert "must be a fraction of the link, such as 0.5" in str(error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fraction": 0.0}, "background 0: must be above 0 and at most 0.95"),
        ({"fraction": 0.96}, "background 0.96: must be above 0 and at most 0.95"),
        ({"kind": "bits"}, "no background kind 'bits'; there are: flows, packets"),
        ({"sizes": "pareto"}, "must be exp or pareto:SHAPE"),
        ({"sizes": "pareto:1"}, "must be 1.01 to 100: at 1 and below the mean size is infinite"),
        ({"sizes": "pareto:0.5"}, "the mean size is infinite"),
        ({"sizes": "pareto:101"}, "must be 1.01 to 100"),
        ({"sizes": "exp "}, "must be exp or pareto:SHAPE"),
        ({"mean": 999}, "must be 1000 bytes to 1 TB"),
        ({"peak": 9999}, "must be 10kbit to the link's 50mbit"),
        ({"peak": 50_000_001}, "must be 10kbit to the link's 50mbit"),
    ],
)
def test_out_of_range_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_background(Background(**({"fraction": 0.5} | changes)))
    assert message in str(caught.value)


@given(st.floats(0.01, 0.95), st.integers(1000, 10**9), st.sampled_from([576, 1000, 1500]))
def test_offered_load_excludes_headers(fraction: float, mean: int, mtu: int) -> None:
    what = Background(fraction, mean=mean)
    rate = 50_000_000
    load = what.offered_load(rate, mtu)
    flows_in_a_second = load / 8 / mean
    assert 8 * flows_in_a_second * what.wire_bytes(mean, mtu) == pytest.approx(fraction * rate)
    # Large flows: headers are a fixed part of each packet.
    if mean > 10**6:
        assert load / (fraction * rate) == pytest.approx((mtu - 52) / (mtu + 14), rel=0.002)
    packets = Background(fraction, background.PACKETS)
    assert packets.offered_load(rate, mtu) == pytest.approx(
        fraction * rate * (mtu - 28) / (mtu + 14)
    )


def source_words(what: Scenario) -> str:
    assert what.background
    return " ".join(
        flows.source_options(what.background, what.rate, what.mtu, what.seed, "10.1.200.2")
    )


def test_source_options() -> None:
    what = with_background(Background(0.5, sizes="pareto:1.5"), mtu=1000, seed=7)
    words = source_words(what)
    assert words.startswith("--to 10.1.200.2 --kind flows --seed 7 --load 23")
    assert words.endswith("--mean 102400 --sizes pareto:1.5 --peak 1000000")
    what = with_background(Background(0.5, background.PACKETS), mtu=1000)
    words = source_words(what)
    assert words.endswith(f"--load {25e6 * 972 / 1014:.3f} --mean 972")


def test_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "tree", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRunError, match="missing: fairtraffic; in the project's tree: make"):
        host.traffic_program()
    program = tmp_path / "build" / "traffic" / "fairtraffic"
    program.parent.mkdir(parents=True)
    program.touch()
    assert host.traffic_program() == str(program)


# --- analysis -----------------------------------------------------------------------------------


def test_results_of_a_background_of_flows(tmp_path: Path) -> None:
    what = with_background(Background(0.5))
    result = analysis.evaluate(written(tmp_path, what))
    found, total = result["background"], result["total"]
    # From 3 to 12 s, one every 0.1 s; those of the last two seconds have not ended.
    assert (found["flows"], found["ended"]) == (90, 70)
    assert found["packets"] == 70 * FLOW_SEGMENTS
    assert (found["lost"], found["retransmits"]) == (7, 70)
    assert found["loss"] == pytest.approx(7 / (70 * FLOW_SEGMENTS), abs=1e-6)
    assert found["completion_ms"] == {"p50": 2000, "p95": 2000, "p99": 2000}
    # Twenty are in progress at any time.
    assert found["in_progress"]["mean"] == pytest.approx(20, abs=1)
    assert 20 <= found["in_progress"]["max"] <= 21
    wire = Background(0.5).wire_bytes(102_400, 1500)
    assert found["offered"] == pytest.approx(8 * 10 * wire / 50e6, rel=0.02)
    assert (found["asked"], found["carried"]) == (0.5, pytest.approx(0.5, rel=1e-3))
    # Half of the link is available, of which the flow gets four fifths.
    assert total["available_bps"] == pytest.approx(25e6 * 1448 / 1514, rel=2e-3)
    assert total["fair_share_bps"] == total["available_bps"]
    assert total["throughput_bps"] == pytest.approx(0.8 * total["available_bps"], rel=2e-3)
    curves = result["series"]
    assert statistics_of(curves["background"]["in_progress"][15:]) == pytest.approx(20, abs=1)
    assert statistics_of(curves["background"]["bps"]) == pytest.approx(25e6, rel=1e-2)
    assert statistics_of(curves["utilisation"]) == pytest.approx(0.9, rel=1e-2)


def statistics_of(values: list[float]) -> float:
    return sum(values) / len(values)


def test_results_of_a_background_of_packets(tmp_path: Path) -> None:
    what = with_background(Background(0.5, background.PACKETS))
    found = analysis.evaluate(written(tmp_path, what))["background"]
    assert (found["packets"], found["lost"]) == (9000, 90)
    assert found["loss"] == 0.01
    assert found["delay_ms"] == {"mean": 52, "max": 60}
    assert found["offered"] == pytest.approx(9000 * 8 * 1514 / 9 / 50e6, rel=1e-3)


def test_bins_are_matched_by_time(tmp_path: Path) -> None:
    """The sink starts before the source, and may not receive its last packets."""
    plan = {"began": 5.0, "ended": 6.0, "late_mean_us": 0, "late_max_us": 0}
    source = plan | {"bin": 0.1, "first_bin": 50, "bins": [[5], [7], [9]]}
    sink = {"bytes": 1, "first_bin": 48, "bins": [[0, 0, 0], [0, 0, 0], [4, 8, 2], [7, 14, 2]]}
    for name, data in (("source", source), ("sink", sink)):
        (tmp_path / name).write_text(json.dumps(data))
    bins = background.read_report(tmp_path / "source", tmp_path / "sink").bins
    assert [(b.sent, b.received) for b in bins] == [(5, 4), (7, 7), (9, 0)]
    assert bins[0].start == pytest.approx(5.0) and bins[0].delay == 8e-6
    (tmp_path / "sink").write_text('{"half')
    with pytest.raises(LabError, match="the background's report cannot be read"):
        background.read_report(tmp_path / "source", tmp_path / "sink")


# --- validity -----------------------------------------------------------------------------------

Change = Callable[[dict[str, Any], dict[str, Any]], None]


def late(source: dict[str, Any], _sink: dict[str, Any]) -> None:
    source["late_mean_us"] = 5100


def once_very_late(source: dict[str, Any], _sink: dict[str, Any]) -> None:
    source["late_max_us"] = 260_000


def no_room(_source: dict[str, Any], sink: dict[str, Any]) -> None:
    sink["no_room"] = 3


def ended_early(source: dict[str, Any], _sink: dict[str, Any]) -> None:
    source["ended"] = BEGIN + 11.9


def miscounted(_source: dict[str, Any], sink: dict[str, Any]) -> None:
    sink["bytes"] = round(0.9 * sink["bytes"])


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (late, 3, "the background's source was 5 ms behind its plan on average and 2 ms at worst"),
        (once_very_late, 3, "and 260 ms at worst: this machine was too slow or too busy"),
        (no_room, 3, "the background's sink had no room for 3 packets"),
        (ended_early, 1, "the background ended before the run"),
        (miscounted, 1, "the background's sink received"),
    ],
)
def test_disturbed_background_is_refused(
    tmp_path: Path, change: Change, status: int, message: str
) -> None:
    what = with_background(Background(0.5, background.PACKETS))
    validity.check(written(tmp_path, what))
    ends = made_up_background(made_up(what, (0.4,)))
    change(*ends)
    for name, end in zip(("source", "sink"), ends, strict=True):
        (tmp_path / f"background-{name}.json").write_text(json.dumps(end))
    with pytest.raises(LabError) as caught:
        validity.check(Measurement.read(tmp_path))
    assert caught.value.status == status
    assert message in str(caught.value)


def test_offload_at_the_background_hosts_is_found(tmp_path: Path) -> None:
    what = with_background(Background(0.5))
    document = made_up(what, (0.4,))
    packets = document["columns"]["arrived_packets"][BESIDE]
    packets[:] = [n // 4 for n in packets]
    write_raw(tmp_path, document, saw_tooth(what))
    with pytest.raises(LabError, match="the background sent packets of 60.. bytes on average"):
        validity.check(Measurement.read(tmp_path))


# --- reports and figures ------------------------------------------------------------------------


def evaluated(work: Path, what: Scenario, share: float = 0.4) -> dict[str, Any]:
    written(work, what, share)
    return store.evaluate(work, DATE, None)


def test_report_and_figures_with_flows(tmp_path: Path) -> None:
    work = tmp_path / "work"
    result = evaluated(work, with_background(Background(0.5)))
    assert result["name"] == "reno-fq_codel"
    lines = report.table(result).splitlines()
    assert lines[1] == (
        "fq_codel limit 20; background 50 % Poisson flows of 100kb (exp), each 1mbit at most"
    )
    text = "\n".join(lines)
    offered = f"{100 * result['background']['offered']:.1f} % offered"
    assert f"background    50.0 % of the link requested, {offered}, 50.0 % carried" in text
    assert "              7 of 3500 packets lost (0.200 %), 70 retransmits" in text
    assert "              90 flows, 70 ended; in progress: mean 20" in text
    assert "              half done within 2000 ms, 95 % 2000 ms, 99 % 2000 ms" in text
    assert "available     23.91 Mbit/s beside it; the flows use 80 %" in text
    assert {path.name for path in (work / "raw").glob("background-*")} == {
        "background-source.json",
        "background-sink.json",
    }
    names = [f"{name}.{f}" for name in plots.drawers(result) for f in plots.FORMATS]
    assert len(names) == 8
    assert [path.name for path in plots.draw(work, result)] == names
    assert ET.parse(work / "background.svg").getroot().tag.endswith("svg")
    upper, lower = plots.draw_background(result).axes
    assert list(lower.lines[0].get_ydata()) == result["series"]["background"]["in_progress"]
    assert list(upper.lines[1].get_ydata()) == [25, 25]
    labels = [line.get_label() for line in plots.draw_throughput(result).axes[0].lines]
    assert labels[1] == "background  (25.0)"


def test_report_and_figures_with_packets(tmp_path: Path) -> None:
    result = evaluated(tmp_path / "work", with_background(Background(0.5, background.PACKETS)))
    text = report.table(result)
    assert "background 50 % Poisson packets\n" in text
    assert "              90 of 9000 packets lost (1.000 %)\n" in text
    assert "              delay mean 52.0 ms, max 60.0 ms" in text
    assert len(plots.draw_background(result).axes) == 1


def test_report_without_a_background(tmp_path: Path) -> None:
    result = evaluated(tmp_path / "work", scenario(flows=parse_flows("reno"), seconds=12), share=1)
    assert "background" not in report.table(result)
    assert list(plots.drawers(result)) == ["throughput", "cwnd", "queue"]
    assert result["queues"][0]["asked"] == "bfifo limit 375000"


def test_flent_file_has_the_qdisc(tmp_path: Path) -> None:
    result = evaluated(tmp_path / "work", with_background(Background(0.5)))
    store.write_flent(tmp_path, result)
    with gzip.open(tmp_path / "dumbbell-reno-fq_codel.flent.gz", "rt") as file:
        metadata = json.load(file)["metadata"]
    assert metadata["NOTE"].startswith(f"fairlab {result['fairlab']}; fq_codel limit 20; backgr")
    assert metadata["EGRESS_INFO"] == {
        "iface": "left-right",
        "qdiscs": [{"name": "fq_codel", "id": "10:", "parent": "1:1", "params": {"limit": "20"}}],
    }
    assert flentfile.document(result)["metadata"]["NOTE"] == f"fairlab {result['fairlab']}"


# --- comparison ---------------------------------------------------------------------------------


def test_plot_draws_two_runs_side_by_side(tmp_path: Path) -> None:
    for name, text in (("one", "pfifo,limit=20"), ("two", "fq_codel,limit=20")):
        what = with_background(Background(0.5), qdiscs=(parse_qdisc(text),))
        evaluated(tmp_path / name, what)
    picture = tmp_path / "both.png"
    done = call_fairlab("plot", f"{tmp_path}/one", f"{tmp_path}/two", "--out", str(picture))
    assert done.returncode == 0 and done.stdout == f"{picture}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")

    drawing = comparison.figure([store.read(tmp_path / name) for name in ("one", "two")])
    left, right = drawing.axes[:2]
    assert left.get_title(loc="left") == "pfifo limit 20"
    assert right.get_title(loc="left") == "fq_codel limit 20"
    assert left.get_ylim() == right.get_ylim()
    below = drawing.axes[2]
    assert below.get_title(loc="left") == (
        "flows use 80 % of the capacity beside the background\n"
        "background loses 7 of 3500 packets (0.2 %)"
    )
    assert [line.get_label() for line in below.lines] == ["all", "background"]
    (title,) = (text.get_text() for text in drawing.texts)
    assert title.startswith(
        "reno, 50mbit, rtt 60ms, mtu 1500, background 50 % Poisson flows of 100kb"
    )


def test_plot_refuses_bad_arguments(tmp_path: Path) -> None:
    evaluated(tmp_path / "one", scenario(flows=parse_flows("reno"), seconds=12), share=1)
    one = f"{tmp_path}/one"
    for words, message in (
        ([one, "--out", f"{tmp_path}/x.png"], "1 results: 2 to 4 can be compared"),
        ([one, one], "--out FILE is missing"),
        ([one, one, "--out", f"{tmp_path}/x.gif"], "must end in .png or .svg"),
        ([one, one, "--out", "/nonexistent/x.png"], "cannot write /nonexistent/x.png"),
        ([one, "/nonexistent", "--out", f"{tmp_path}/x.png"], "no result there"),
    ):
        done = call_fairlab("plot", *words)
        assert done.returncode == 2 and message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.png").exists()
