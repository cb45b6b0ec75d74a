# SPDX-License-Identifier: GPL-2.0
"""`fairlab test`: files that make no sense, measures of made-up data, whole runs, and the scenarios
of the tree.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairlab.cli import testbed as cli
from fairlab.cli.options import KERNELS
from fairlab.model import testbed
from fairlab.model.errors import UsageError
from fairlab.model.testbed import Case, parse_limit
from fairlab.results import measures
from fairlab.results.outcome import Outcome
from fairvm.archive import SERIES

from tests.lab.labtools import TOP, assert_refused, call_fairlab, run_fairlab

SCENARIOS = sorted((TOP / "userspace/lab/scenarios").glob("*.toml"))

PLAIN = """\
time = "4 s"
limits = [
    "goodput >= 1 Mbit/s",
]

[network]
rate = "10 Mbit/s"
rtt = "20 ms"

[[flow]]
cc = "reno"
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "case.toml"
    path.write_text(text)
    return path


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('rtt = "20 ms"', 'delay = "20 ms"', 8, "unknown key 'delay'; there are: ack_queue, "),
        ("[network]", "[netwrk]", 6, "unknown key 'netwrk'"),
        ("goodput >= 1 Mbit/s", "goodput >= 1", 3, "needs a unit (bit, kbit, mbit, gbit)"),
        ("goodput >= 1 Mbit/s", "jain >= 90 %", 3, "must be a number without a unit"),
        ("goodput >= 1 Mbit/s", "loss <= 0.01", 3, "must be a percentage"),
        ("goodput >= 1 Mbit/s", "speed >= 1 Mbit/s", 3, "no measure 'speed'; there are: goodput"),
        ("goodput >= 1 Mbit/s", "goodput > 1 Mbit/s", 3, "must be MEASURE [STATISTIC]"),
        ("goodput >= 1 Mbit/s", "goodput of bic >= 1 Mbit/s", 3, "no flow or program 'bic'"),
        ("goodput >= 1 Mbit/s", "rtt <= 20 ms", 3, "rtt needs one of mean, min"),
        ("1 Mbit/s", "1 Mbit/s from 1 s to 2 s", 3, "must be MEASURE [STATISTIC]"),
        ("goodput >= 1 Mbit/s", "share >= 20 %", 3, "needs 'of NAME'"),
        ("goodput >= ", "goodput from 3 s to 2 s >= ", 3, "its times must be in order"),
        ("goodput >= ", "goodput from 3 s to 5 s >= ", 3, "its times must be in order"),
        ('"10 Mbit/s"', "10", 7, "rate: must be a string, with its unit"),
        ('"10 Mbit/s"', '"10"', 7, "rate '10': needs a unit"),
        ('"10 Mbit/s"', '"10 kbit/s"', 6, "must be 1mbit to 100gbit"),
        ('"10 Mbit/s"', "[]", 7, "rate: an empty list"),
        ('rtt = "20 ms"', 'queue = "fifo many"', 8, "must be like 1bdp"),
        ('rtt = "20 ms"', 'queue = "fq_codel limit 9p"', 8, "must be a number, as for tc"),
        ('rtt = "20 ms"', 'changes = ["2 s, 1 Mbit/s"]', 6, "must be like 5 s: 2 Mbit/s"),
        ('rtt = "20 ms"', 'reorder = "1 %"', 6, "reordering needs a fraction"),
        ('rtt = "20 ms"', "ecn = 1", 8, "ecn: must be true or false"),
        ('cc = "reno"', "count = true", 11, "count: must be a whole number"),
        ('cc = "reno"', 'on = "1 s"', 11, "on and off: both or none"),
        ('[[flow]]\ncc = "reno"', "", 1, "no [[flow]] and no [[program]]"),
        ("[[flow]]", '[[program]]\nserver = "sh"\nclient = "sh"', 13, "unknown key 'cc'"),
        ('[[flow]]\ncc = "reno"', '[[program]]\nserver = "no-such"', 11, "no program 'no-such'"),
        ('[[flow]]\ncc = "reno"', '[[program]]\nserver = "sh"', 10, "client: needs a command"),
        ('cc = "reno"', 'cc = "reno', 11, "Illegal character"),
        ('time = "4 s"', 'modules = ["no.ko"]', 1, "no module 'no.ko'"),
        pytest.param(
            'time = "4 s"', f"x = {'[' * 100_000}", 1, "lists or tables in too many", id="deep"
        ),
        ('time = "4 s"', "seed = -1", 1, "seed -1: must be 0 to 2147483647"),
        ('rtt = "20 ms"', 'queue = "red limit 9"\nmtu = 0', 9, "mtu 0: must be 576 to 9000"),
        ('rtt = "20 ms"', 'queue = "fifo 9kb"\nmtu = -14', 9, "mtu -14: must be 576 to 9000"),
        (
            '[[flow]]\ncc = "reno"',
            '[[program]]\nserver = "sh"\nclient = "sh"\nport = 65536',
            13,
            "port 65536: must be 1 to 65535",
        ),
        (
            '[[flow]]\ncc = "reno"',
            '[[program]]\nserver = "a\\u0000b"\nclient = "sh"',
            11,
            "server: needs a command",
        ),
    ],
)
def test_bad_input_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert PLAIN.count(old) == 1
    path = write(tmp_path, PLAIN.replace(old, new))
    with pytest.raises(UsageError) as raised:
        testbed.read(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('time = "4 s"', 'kernel = "9.9"', 1, "no kernel '9.9'; there are: 6.1, 6.12, 7.2"),
        ('time = "4 s"', 'kernel = ["6.1",\n "5"]', 2, "no kernel '5'; there are: 6.1"),
        ('cc = "reno"', 'cc = "reno"\ncount = 0', 12, "cc 'reno': count 0: must be 1 to 1000"),
        ('cc = "reno"', 'name = "a"\ncount = [1, 1001]', 12, "name 'a': count 1001: must be 1"),
        ('cc = "reno"', 'cc = ["reno", "udp"]', 11, "cc 'udp': udp needs a rate"),
        ('cc = "reno"', 'cc = "udp"\nrate = "0 bit"', 12, "cc 'udp': udp needs a rate"),
        ('cc = "reno"', 'start = "5 s"', 11, "cc 'cubic': starts by 5.1 s: must start before it"),
        ('cc = "reno"', 'stop = "1 s"\nspread = "1 s"', 12, "starts by 1 s: must start before it"),
        (
            'cc = "reno"',
            'stop = "10 ms"',
            11,
            "starts by 0.1 s: must start before it stops, at",
        ),
        ('cc = "reno"', 'rtt = "11 s"', 11, "cc 'cubic': rtt: must be at most 10 s"),
        (
            'cc = "reno"',
            'cc = "gaimd"\nsettings = {gaimd_preset = "fast"}',
            12,
            "cc 'gaimd': no gaimd_preset 'fast'; there are: gaimd, tcp, aimd32, td-friendly, to-fr",
        ),
        (
            'cc = "reno"',
            'cc = "bic"\nsettings = {bic_fast = 1,  bic_preset = "fast"}',
            12,
            "cc 'bic': no bic_preset 'fast'; there are: paper, linux",
        ),
    ],
)
def test_flows_and_names_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    path = write(tmp_path, PLAIN.replace(old, new))
    done = call_fairlab("test", "--list", str(path))
    assert_refused(done, 2, message)
    assert done.stderr.startswith(f"fairlab: {path}:{line}: ")


def test_flows_of_the_command_line_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    done = call_fairlab("test", "--list", str(path), "--cc", "udp")
    assert_refused(done, 2, f"{path}:11: cc 'udp': udp needs a rate")
    done = call_fairlab("test", "--list", str(path), "--kernel", "5")
    assert_refused(done, 2, "no kernel '5'; there are: 6.1, 6.12, 7.2")


def test_kernels_are_those_of_virtual_time() -> None:
    assert tuple(SERIES) == KERNELS


@pytest.mark.parametrize("setting", ['gaimd_preset = "td-friendly 875"', "tcp_window_scaling = 1"])
def test_presets_and_settings_that_kernels_know(tmp_path: Path, setting: str) -> None:
    text = PLAIN.replace('cc = "reno"', f'cc = "gaimd"\nsettings = {{{setting}}}')
    assert call_fairlab("test", "--list", str(write(tmp_path, text))).returncode == 0


def test_own_modules_may_have_own_presets(tmp_path: Path) -> None:
    text = PLAIN.replace('cc = "reno"', 'cc = "gaimd"\nsettings = {gaimd_preset = "fast"}')
    (tmp_path / "mine.ko").touch()
    path = str(write(tmp_path, text))
    command = ("test", "--list", path, "--module", str(tmp_path / "mine.ko"))
    assert call_fairlab(*command).returncode == 0


def test_command_refuses_bad_input(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN.replace("1 Mbit/s", "1"))
    assert_refused(call_fairlab("test", str(path)), 2, f"{path}:3: limit 'goodput >= 1': rate '1'")
    for words, message in (
        (["absent.toml"], "absent.toml: No such file"),
        ([str(path), "--timeout", "-1"], "timeout -1"),
        ([str(path), "--seeds", "0"], "seeds 0"),
        ([str(path), "--module", "absent.ko"], "no module 'absent.ko'"),
    ):
        assert_refused(call_fairlab("test", *words), 2, message)


def test_lists_make_cases(tmp_path: Path) -> None:
    text = PLAIN.replace('"20 ms"', '["20 ms", "30 ms"]').replace('"reno"', '["reno", "bic"]')
    cases = testbed.read(write(tmp_path, text), seeds=(1, 2), kernel="7.2")
    assert len(cases) == 8
    assert len({(case.name, case.seed) for case in cases}) == 8
    last = cases[-1]
    assert (last.name, last.seed, last.kernel) == ("rtt 30 ms, cc bic", 2, "7.2")
    assert (last.layout.groups[0].rtt, last.layout.ccs) == (30_000, ["bic"])


def test_first_flow_gets_the_congestion_control_of_the_command_line(tmp_path: Path) -> None:
    text = PLAIN + '\n[[flow]]\nname = "other"\ncc = "cubic"\n'
    (case,) = testbed.read(write(tmp_path, text), cc="bbr", modules=("/m.ko",))
    assert case.layout.ccs == ["bbr", "cubic"]
    assert case.layout.modules == ("/m.ko",)


@pytest.mark.parametrize(
    ("text", "queue", "packets"),
    [
        ("fifo 100p", "", 100),
        ("fifo 64 kb", "bfifo limit 65536", 44),
        ("fifo 2bdp", "bfifo limit 50000", 34),
        ("fq_codel limit 500 ecn", "fq_codel limit 500 ecn", 500),
        ("bfifo limit 15000", "bfifo limit 15000", 10),
        ("cake unlimited", "cake unlimited", testbed.SOME_PACKETS),
    ],
)
def test_queues(text: str, queue: str, packets: int) -> None:
    assert testbed.parse_queue(text, 10**7, 20_000, 1500) == (queue, packets)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.stem))
def test_scenarios_of_the_tree_have_limits_with_reasons(path: Path) -> None:
    cases = testbed.read(path)
    assert all(case.limits for case in cases)
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    for limit in cases[0].limits:
        assert "#" in lines[limit.line - 1], f"{path}:{limit.line}: why, and what was measured?"


# --- measures -----------------------------------------------------------------------------------


def made_up(**changes: Any) -> tuple[Case, Outcome]:
    """Ten seconds of two flows of 6 and 3 Mbit/s, of a flow of 1 MB, and of a program."""
    text = PLAIN.replace('"4 s"', '"10 s"').replace('cc = "reno"', 'cc = "reno"\ncount = 2')
    text += '[[flow]]\nname = "short"\nsize = "1 mb"\n[[program]]\nserver = "sh"\nclient = "sh"\n'
    path = Path(changes.pop("directory"), "case.toml")
    path.write_text(text.replace("rtt", 'changes = ["5 s: 20 Mbit/s"]\nrtt'))
    (case,) = testbed.read(path)
    times = [n / 10 for n in range(101)]
    names = ["time", "flow", "acked", "segments", "retransmits", "rtt", "cwnd", "ssthresh"]
    rows = numpy.zeros(200, dtype=[(name, "<u8") for name in names])
    rows["time"] = [1e9 * t for t in times[1:] for _ in (0, 1)]
    rows["flow"] = [0, 1] * 100
    rows["acked"] = [1e6 / 8 * t * rate for t in times[1:] for rate in (6, 3)]
    rows["segments"] = [1000 * t for t in times[1:] for _ in (0, 1)]
    rows["retransmits"] = [10 * t for t in times[1:] for _ in (0, 1)]
    rows["rtt"] = [30_000, 50_000] * 100
    long = {"kind": "reno", "began": 0.0, "ended": 10.0}
    totals = (
        {"acked": rate * 10**7 // 8, "segments": 10_000, "retransmits": 100} for rate in (6, 3)
    )
    short = {"kind": "cubic", "began": 1.0, "ended": 3.0, "acked": 2**20, "segments": 700}
    columns = {
        "time": times,
        "sent_bytes": [1.25e6 * t for t in times],
        "sent_packets": [900 * t for t in times],
        "drops": [100 * t for t in times],
        "marks": [45 * t for t in times],
        "backlog_bytes": [25_000 * (n % 4) for n in range(101)],
        "arrived_bytes": {group: [1e5 * t for t in times] for group in case.names},
    }
    own = {"g3-server": {"ended": None, "status": None}, "g3-client": {"ended": 4.0, "status": 3}}
    heads = {
        "g1": {"flows": [long | total for total in totals]},
        "g2": {"flows": [short | {"retransmits": 0, "lost": 0}]},
    }
    document = {"columns": columns, "own": own} | changes
    return case, Outcome(document, case.layout, heads, {"g1": rows, "g2": rows[:0]}, {})


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("goodput of reno", 9e6),
        ("goodput of reno from 1 s to 2 s", 9e6),
        ("goodput max of reno", 6e6),
        ("goodput min", 2**20 * 8 * 0.25 / 7.5),
        ("goodput of short from 0 s to 10 s", 2**20 * 0.8),
        ("share of short from 0 s to 10 s", 0.0852),
        ("jain of reno", 0.9),
        ("retransmitted of reno", 0.01),
        ("rtt max", 0.05),
        ("rtt p50", 0.03),
        ("queue_delay max from 0 s to 4.9 s", 0.06),
        ("queue_delay max from 5 s to 10 s", 0.03),
        ("utilization from 0 s to 5 s", 1.0),
        ("utilization from 0 s to 10 s", 2 / 3),
        ("loss", 0.1),
        ("marked", 0.05),
        ("throughput of sh", 8e5),
        ("completion max of short", 2.0),
        ("completion max of sh", 4.0),
        ("completion mean", 3.0),
    ],
)
def test_measures_of_made_up_data(tmp_path: Path, words: str, value: float) -> None:
    case, seen = made_up(directory=tmp_path)
    unit = {"rate": "1 bit", "time": "1 s", "part": "1 %", "": "1"}
    measure = words.split()[0]
    limit = parse_limit(f"{words} >= {unit[testbed.MEASURES[measure]]}", list(case.names.values()))
    assert measures.measure(case, seen, limit) == pytest.approx(value, rel=1e-3)


def test_limits_on_what_does_not_exist_are_broken(tmp_path: Path) -> None:
    """A flow that did not end has no time of completion, and breaks a limit on it."""
    case, seen = made_up(directory=tmp_path)
    del seen.heads["g2"]["flows"][0]["lost"]
    limit = parse_limit("completion max of short <= 10 s", ["short"])
    assert measures.measure(case, seen, limit) is None
    assert not limit.holds(None)
    assert (limit.holds(10.0), limit.holds(10.1)) == (True, False)


def test_failed_programs_are_named(tmp_path: Path) -> None:
    assert measures.own_failures(*made_up(directory=tmp_path)) == ["client of sh: exit status 3"]


def test_results_are_compared_by_case_and_measure() -> None:
    def run(case: str, text: str, value: float | None) -> dict[str, Any]:
        return {"case": case, "limits": [{"limit": text, "value": value}]}

    def line(base: float | None, this: float | None) -> str:
        text = "completion max of mine <= 10 s"
        (change,) = cli.compare([run("", text, base)], [run("", text, this)])
        return " ".join(cli.described(change).removeprefix("  completion max of mine").split())

    base = [run("loss 0 %", "jain >= 0.9", value) for value in (0.90, 0.94)]
    (change,) = cli.compare(base, [run("loss 0 %", "jain >= 0.8", 0.966)])
    assert " ".join(cli.described(change).split()) == "loss 0 %: jain 0.92 0.966 +5.00 %"
    for other in (run("", "jain >= 0.9", 1), run("loss 0 %", "jain of a >= 0.9", 1)):
        assert cli.compare(base, [other]) == []
    assert line(2, 5.58) == "2000 ms 5580 ms +179.00 %"
    # What did not end is shown, and nothing is in proportion to it, or to 0.
    assert (line(None, 5), line(2, None), line(0, 1)) == (
        "none 5000 ms", "2000 ms none", "0 ms 1000 ms",
    )  # fmt: skip


def test_tables(tmp_path: Path) -> None:
    case, seen = made_up(directory=tmp_path)
    measures.write_tables(case, seen, tmp_path)
    rows = (tmp_path / measures.SAMPLES).read_text().splitlines()
    assert len(rows) == 102
    names = rows[0].split(",")
    assert {"time_s", "queue_delay_ms", "arrived_bytes_reno", "arrived_bytes_sh"} <= set(names)
    assert rows[4].split(",")[names.index("queue_delay_ms")] == "60.0"
    rows = (tmp_path / measures.FLOWS).read_text().splitlines()
    assert rows[0] == "time_s,flow,number,acked,cwnd,ssthresh,rtt,segments,retransmits"
    assert rows[2].startswith("0.1,reno,1,37500,")


# --- whole runs ---------------------------------------------------------------------------------


def run(directory: Path, *words: str, timeout: float = 900) -> tuple[int, list[dict[str, Any]]]:
    """Run `fairlab test`; its exit status and its runs."""
    done = run_fairlab(
        "test", *words, "--json", "--quiet", "--out", str(directory), timeout=timeout
    )
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return done.returncode, found


OWN = """\
time = "2 s"
limits = [
    "throughput of own >= 4 Mbit/s",
    "completion max of own <= 20 ms",
]

[network]
rate = "10 Mbit/s"
rtt = "20 ms"

[[program]]
name = "own"
server = "python3 -m http.server --bind {server} --directory /usr/share/common-licenses {port}"
client = "sh -c 'for n in 1 2 3 4; do wget -q -O {out}/$n http://{server}:{port}/GPL-3; done'"
"""


@pytest.mark.tier("test")
def test_repeated_runs_have_one_hash(tmp_path: Path) -> None:
    """A program of one's own beside a flow, with all impairments: twice the same packets."""
    text = PLAIN.replace('rtt = "20 ms"', 'rtt = "20 ms"\nloss = "0.1 %"\njitter = "1 ms"')
    text = text.replace(
        "jitter", 'reorder = "1 %"\nreorder_by = "2 ms"\nack_rate = "1 Mbit/s"\njitter'
    )
    text = text.replace("ack_rate", 'changes = ["2 s: 5 Mbit/s"]\nack_rate')
    text = text.replace('1 Mbit/s",\n]', '9.9 Mbit/s",\n]') + OWN[OWN.index("\n[[program]]") :]
    path = write(tmp_path, text)
    found = [run(tmp_path / str(n), str(path)) for n in range(2)]
    for status, (one,) in found:
        # The rate changes to 5 Mbit/s: the limit is broken.
        assert status == one["status"] == 1, one
        assert not one["limits"][0]["holds"]
    assert found[0][1][0]["sha256"] == found[1][1][0]["sha256"]
    directory = Path(found[0][1][0]["directory"])
    assert (directory / "own-out" / "4").read_bytes() == Path(
        "/usr/share/common-licenses/GPL-3"
    ).read_bytes()
    assert json.loads((directory / "result.json").read_text())["sha256"] == found[0][1][0]["sha256"]


@pytest.mark.tier("test")
@pytest.mark.parametrize(
    ("old", "new", "status", "message"),
    [
        ('"reno"', '"no-such"', 2, "case.toml, seed 1: refused by the guest, which has said why"),
        (
            '"reno"',
            '"reno"\nsettings = {no_such = 1}',
            3,
            "case.toml, seed 1\n  not measured: the guest has said why (g1 is reno)",
        ),
    ],
)
def test_files_are_named_when_the_guest_refuses_them(
    tmp_path: Path, old: str, new: str, status: int, message: str
) -> None:
    path = write(tmp_path, PLAIN.replace(old, new))
    done = run_fairlab("test", str(path), "--quiet", "--out", str(tmp_path))
    assert (done.returncode, message in done.stdout + done.stderr) == (status, True), done


# --- the scenarios of the tree ------------------------------------------------------------------


@pytest.mark.tier("all")
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.stem))
def test_scenarios_of_the_tree_hold(tmp_path: Path, path: Path) -> None:
    status, found = run(tmp_path, str(path), timeout=1800)
    assert status == 0, [(one["case"], one["reasons"], one["limits"]) for one in found]


@pytest.mark.tier("all")
def test_unchanged_programs_repeat(tmp_path: Path) -> None:
    """ngtcp2's programs, in three runs with one hash; their qlog is kept."""
    quic = str(TOP / "userspace/lab/scenarios/quic.toml")
    found = [run(tmp_path / str(n), quic)[1][0] for n in range(3)]
    assert len({one["sha256"] for one in found}) == 1
    assert list(Path(found[0]["directory"]).glob("quic-out/*.sqlog"))


@pytest.mark.tier("all")
def test_bug_in_a_congestion_control_is_found(tmp_path: Path) -> None:
    """GAIMD that applies beta twice, in a copy of the module, breaks a limit of its scenario."""
    for name in ("tcp_gaimd", "include"):
        shutil.copytree(TOP / name, tmp_path / name)
    core = tmp_path / "tcp_gaimd" / "gaimd_core.h"
    right, wrong = "(u64)cwnd * beta, 1000)", "(u64)cwnd * beta * beta, 1000000)"
    assert core.read_text().count(right) == 1
    core.write_text(core.read_text().replace(right, wrong))
    command = [str(TOP / "scripts/kernel"), "get", "--engine", "native", "6.1"]
    kernel = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[
        -1
    ]
    build = ["make", "-C", f"{kernel}/headers", f"M={tmp_path}/tcp_gaimd", "ARCH=um", "modules"]
    subprocess.run(build, check=True)
    scenario = str(TOP / "userspace/lab/scenarios/gaimd.toml")
    status, (one,) = run(tmp_path, scenario, "--module", f"{tmp_path}/tcp_gaimd/tcp_gaimd.ko")
    assert status == 1
    assert [limit["limit"] for limit in one["limits"] if not limit["holds"]] == [
        "utilization >= 99.5 %"
    ]


@pytest.mark.tier("all")
def test_spinning_programs_are_named(tmp_path: Path) -> None:
    text = OWN[: OWN.index("client =")] + "client = \"python3 -c 'while True: pass'\"\n"
    status, (one,) = run(tmp_path, str(write(tmp_path, text)), "--timeout", "20")
    assert status == 3
    assert "client of own (python3)" in one["reasons"][-1]
