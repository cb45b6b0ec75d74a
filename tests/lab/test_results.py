# SPDX-License-Identifier: GPL-2.0
"""Stored results: the directory, the Flent file, the figures, the report's table."""

import gzip
import json
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fairlab.model.errors import UsageError
from fairlab.model.scenario import parse_flows
from fairlab.results import flentfile, plots, report, store
from fairlab.run.dumbbell import TRACE
from matplotlib.figure import Figure

from tests import launch
from tests.lab.labtools import (
    FAIRLAB,
    assert_refused,
    call_fairlab,
    made_up,
    saw_tooth,
    scenario,
    write_raw,
)

DATE = datetime(2026, 11, 20, 11, 45, 0, tzinfo=UTC)
SHARES = (0.3, 0.25, 0.2, 0.15, 0.1)


def evaluated(tmp_path: Path, flows: str = "bic,bic,gaimd:aimd32,cubic,reno") -> tuple[Path, Any]:
    what = scenario(flows=parse_flows(flows), seconds=12, warmup_seconds=3.0)
    shares = SHARES if len(what.flows) == len(SHARES) else [1 / len(what.flows)] * len(what.flows)
    work = tmp_path / "work"
    write_raw(work, made_up(what, shares), saw_tooth(what))
    return work, store.evaluate(work, DATE, FAIRLAB.parents[1])


def test_published_directory_is_complete(tmp_path: Path) -> None:
    work, result = evaluated(tmp_path)
    store.write_flent(work, result)
    final = store.name(work, tmp_path, DATE, f"dumbbell-{result['name']}")
    name = "2026-11-20T114500-dumbbell-2bic-gaimd_aimd32-cubic-reno"
    assert final == tmp_path / name and not work.exists()
    assert {path.name for path in final.iterdir()} == {
        "result.json",
        "raw",
        "dumbbell-2bic-gaimd_aimd32-cubic-reno.flent.gz",
    }
    assert {path.name for path in (final / "raw").iterdir()} == {
        "measurement.json",
        "client-1.json",
        "server-1.json",
        "ping.txt",
        "trace.txt.gz",
    }
    with gzip.open(final / "raw" / f"{TRACE}.gz", "rt") as trace:
        assert trace.readline() == "# tracer: nop\n"
    stored = store.read(final)
    assert stored == json.loads(json.dumps(result))
    for needed in (
        "fairlab",
        "date",
        "scenario",
        "kernel",
        "engine",
        "tools",
        "modules",
        "settings",
    ):
        assert stored[needed]
    assert stored["scenario"]["seed"] == 1
    assert "series" not in store.without_curves(stored)


def test_results_are_never_overwritten(tmp_path: Path) -> None:
    names = []
    for n in range(3):
        work = tmp_path / f"again-{n}"
        work.mkdir()
        (work / "mark").write_text(str(n))
        names.append(store.name(work, tmp_path, DATE, "x"))
    assert [(name / "mark").read_text() for name in names] == ["0", "1", "2"]
    assert names[1].name == f"{names[0].name}-2" and names[2].name == f"{names[0].name}-3"


def test_working_directory_is_removed_unless_renamed(tmp_path: Path) -> None:
    with store.working_directory(tmp_path / "new") as work:
        assert work.parent == tmp_path / "new"
        (work / "file").write_text("")
    assert list((tmp_path / "new").iterdir()) == []
    with (
        pytest.raises(RuntimeError),
        store.working_directory(tmp_path / "new") as work,
    ):
        raise RuntimeError
    assert list((tmp_path / "new").iterdir()) == []
    with store.working_directory(tmp_path / "new") as work:
        work.rename(work.with_name("kept"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["kept"]


def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match="cannot write results to"),
        store.working_directory(tmp_path / "file"),
    ):
        pass


@pytest.mark.parametrize("more", [(), ("--out",)])
def test_results_of_another_format_say_what_to_do(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "result.json").write_text('{"project": "0123abc", "scenario": {"flows": []}}')
    words = [*more, str(tmp_path / "figure.png")] if more else []
    done = call_fairlab("plot", str(tmp_path), *words)
    assert_refused(done, 3, f"{tmp_path}: made at 0123abc, in another format", "run it again")


def test_invalid_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no result there"):
        store.read(tmp_path)
    for content in (b'{"half', b"[]", b"null", b"5", b"[" * 100_000, b"\xff\xfe"):
        (tmp_path / "result.json").write_bytes(content)
        assert_refused(call_fairlab("plot", str(tmp_path)), 3, "result.json is damaged")


# --- Flent --------------------------------------------------------------------------------------


@pytest.fixture
def flent() -> str:
    found = shutil.which("flent")
    assert found, "these tests need flent"
    return found


@pytest.mark.parametrize("plot", ["totals", "upload", "upload_with_ping", "tcp_cwnd", "box_totals"])
def test_flent_draws_the_file(tmp_path: Path, flent: str, plot: str) -> None:
    work, result = evaluated(tmp_path)
    file = tmp_path / "flows.flent.gz"
    flentfile.write(result, file)
    picture = tmp_path / "picture.png"
    done = launch.run([flent, "-i", str(file), "-p", plot, "-o", str(picture)], cwd=work)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_flent_reads_the_same_numbers(tmp_path: Path, flent: str) -> None:
    """Flent's CSV formatter prints the stored numbers."""
    _, result = evaluated(tmp_path)
    file = tmp_path / "flows.flent.gz"
    flentfile.write(result, file)
    text = tmp_path / "out.csv"
    subprocess.run(
        [flent, "-i", str(file), "-f", "csv", "-o", str(text)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    head, *rows = [line.split(",") for line in text.read_text().splitlines()]
    column = {name.strip('"'): n for n, name in enumerate(head)}
    curve = result["series"]["throughput"]
    assert len(rows) == len(curve["time"])
    for n, row in enumerate(rows):
        for flow, bps in enumerate(curve["bps"], 1):
            assert float(row[column[f"TCP upload::{flow}"]]) == pytest.approx(bps[n] / 1e6)
        everything = sum(bps[n] for bps in curve["bps"]) / 1e6
        assert float(row[column["TCP upload sum"]]) == pytest.approx(everything)
    pings = [row[column["Ping (ms) ICMP"]] for row in rows]
    assert all(90 <= float(ping) < 91 for ping in pings)


def test_flent_metadata_and_raw_values(tmp_path: Path) -> None:
    _, result = evaluated(tmp_path)
    document = flentfile.document(result)
    assert document["version"] == 4
    assert document["metadata"]["TEST_PARAMETERS"] == {"upload_streams": "5"}
    assert document["metadata"]["T0"] == "2026-11-20T11:45:00.000000Z"
    points = document["raw_values"]["TCP upload::4"]
    assert points[0]["t"] == pytest.approx(DATE.timestamp() + 0.1)
    # cubic's window, from its trace.
    assert points[1]["tcp_cwnd"] == 100 and points[4]["tcp_cwnd"] == 51
    assert document["metadata"]["SERIES_META"]["TCP upload::3"]["CONG_CONTROL"] == "gaimd"


# --- figures ------------------------------------------------------------------------------------


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("flows", ["bic,bic,gaimd:aimd32,cubic,reno", "reno", "13*cubic"])
def test_figure_formats_and_sizes(tmp_path: Path, flows: str) -> None:
    work, result = evaluated(tmp_path, flows)
    files = plots.draw(work, result)
    assert {path.name for path in files} == {
        f"{name}.{form}" for name in ("throughput", "cwnd", "queue") for form in ("png", "svg")
    }
    for path in files:
        if path.suffix == ".png":
            width, height = png_size(path)
            assert width == 1350 and height >= 300
        else:
            assert ET.parse(path).getroot().tag.endswith("svg")


def test_figures_from_stored_data_are_the_same(tmp_path: Path) -> None:
    work, result = evaluated(tmp_path)
    before = {path: path.read_bytes() for path in plots.draw(work, result)}
    for path in before:
        path.unlink()
    done = call_fairlab("plot", str(work))
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == sorted(map(str, before))
    assert {path: path.read_bytes() for path in before} == before


def test_figures_show_the_stored_values_of_all_flows(tmp_path: Path) -> None:
    _, result = evaluated(tmp_path)
    labels = [flow["label"] for flow in result["flows"]]
    axis = plots.draw_throughput(result).axes[0]
    lines = {line.get_label().split("  ")[0]: line for line in axis.lines}
    assert list(lines) == [*labels, "fair share"]
    for label, bps in zip(labels, result["series"]["throughput"]["bps"], strict=True):
        assert list(lines[label].get_ydata()) == [value / 1e6 for value in bps]
    looks = {f"{line.get_color()} {line._dash_pattern}" for line in axis.lines}
    assert len(looks) == len(axis.lines)
    assert "Mbit/s" in axis.get_ylabel() and axis.get_xlabel() == "time (s)"

    panels = plots.draw_cwnd(result).axes
    assert len(panels) == len(labels)
    for panel, label, window in zip(panels, labels, result["series"]["cwnd"], strict=True):
        assert panel.texts[0].get_text() == label
        assert list(panel.lines[0].get_ydata())[:-1] == window["packets"]

    queue = plots.draw_queue(result).axes[0]
    assert list(queue.lines[0].get_ydata()) == pytest.approx([30] * len(queue.lines[0].get_ydata()))
    assert queue.get_ylabel() == "queue delay (ms)"
    assert list(queue.lines[2].get_ydata()) == [60.0, 60.0]


def test_legend_is_beside_the_plot(tmp_path: Path) -> None:
    _, result = evaluated(tmp_path, "9*cubic")
    for drawer in (plots.draw_throughput, plots.draw_queue):
        figure = drawer(result)
        figure.draw_without_rendering()
        axis = figure.axes[0]
        box = axis.get_legend().get_window_extent()
        assert box.x0 >= axis.get_window_extent().x1
        assert box.x1 <= figure.bbox.x1 and box.y0 >= 0


# --- reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0, 100), ""),
        ((), ""),
        ((50, 1234.6), "\N{UPWARDS ARROW} up to 1,235 %"),
        ((-7, 101), "\N{UPWARDS ARROW} up to 101 %, \N{DOWNWARDS ARROW} down to -7 %"),
    ],
)
def test_values_beyond_an_axis_are_named(values: tuple[float, ...], text: str) -> None:
    axis = Figure().subplots()
    plots.limit(axis, 0, 100, values, " %")
    assert axis.get_ylim() == (0, 100)
    assert [each.get_text() for each in axis.texts] == [text]


def test_report_table(tmp_path: Path) -> None:
    _, result = evaluated(tmp_path)
    text = report.table(result)
    lines = text.splitlines()
    assert lines[0] == (
        "dumbbell, 50mbit, rtt 60ms, buffer 1bdp, 12 s; Linux 6.1.0, vm (tcg, steady)"
    )
    row = next(line for line in lines if line.startswith("gaimd:aimd32")).split()
    assert row[1:] == ["9.56", "20.0", "%", "7", "72", "9", "50", "%"]
    assert "fair share    9.56 Mbit/s; Jain's index 0.889" in text
    assert "queue delay   mean 30.0 ms, p95 30.0 ms, max 30.0 ms; a full queue is 60" in text
    result["checks"]["trace_events_lost"] = 12
    assert "the trace lost 12 window events" in report.table(result)
