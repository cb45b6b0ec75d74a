# SPDX-License-Identifier: GPL-2.0
"""fairtraffic: its plan matches theory and the documented random generator; bad arguments.

`plan` prints the arrivals that `source` generates.  Seeds are fixed, so these tests are repeatable;
tolerances are those of a test at the 1 % level, or stated.  The program is built with the
sanitizers here.  guest_checks.py compares a real run with its plan.
"""

import itertools
import math
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import launch
from tests.lab.labtools import TOP

SOURCES = TOP / "userspace" / "traffic"
PARTS = ("fairtraffic", "traffic_source", "traffic_sink", "traffic_io", "common")
PROGRAM = TOP / "build" / "tests" / "fairtraffic"
# Kolmogorov-Smirnov: exceeded, after division by sqrt(n), in 1 % of cases.
KS_1_PERCENT = 1.628

MEAN = 100_000


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    flags = "-std=gnu11 -O2 -g -Wall -Wextra -Werror -fsanitize=address,undefined"
    flags += ' -fno-sanitize-recover -DVERSION="test"'
    sources = [SOURCES / f"{part}.c" for part in PARTS]
    subprocess.run(["gcc", *flags.split(), "-o", PROGRAM, *sources, "-lm"], check=True)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return launch.run([PROGRAM, *arguments], timeout=60)


def plan(options: str) -> list[tuple[int, int]]:
    """The planned arrivals: time [ns] and size [bytes]."""
    done = run("plan", *options.split())
    assert done.returncode == 0 and done.stderr == "", done.stderr
    head, *rows = done.stdout.splitlines()
    assert head == "nanoseconds,bytes"
    return [(int(a), int(b)) for a, b in (row.split(",") for row in rows)]


def gaps(events: Sequence[tuple[int, int]]) -> list[int]:
    return [b - a for a, b in itertools.pairwise([0, *(when for when, _ in events)])]


def deviation(values: Sequence[float], below: Callable[[float], float]) -> float:
    """The Kolmogorov-Smirnov distance of a sample from theory, times sqrt(n)."""
    ordered, count = sorted(values), len(values)
    most = max(
        max((n + 1) / count - below(value), below(value) - n / count)
        for n, value in enumerate(ordered)
    )
    return most * math.sqrt(count)


# --- the generator ------------------------------------------------------------------------------


def splitmix64(state: int) -> Iterator[int]:
    """The published generator."""
    mask = 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def stream(seed: int, number: int) -> Iterator[float]:
    """A stream of a seed, as draw.h documents it: numbers in (0, 1]."""
    start = next(splitmix64((next(splitmix64(seed)) + number) & (2**64 - 1)))
    return (((bits >> 11) + 1) * 2.0**-53 for bits in splitmix64(start))


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("sizes", ["exp", "pareto:1.5"])
def test_plan_matches_the_documentation(seed: int, sizes: str) -> None:
    """All events match another implementation of the generator that draw.h documents."""
    events = plan(f"--load 25000000 --mean {MEAN} --time 20 --seed {seed} --sizes {sizes}")
    times, amounts = stream(seed, 0), stream(seed, 1)
    when = 0.0
    assert len(events) > 500
    for seen_when, seen_size in events:
        when += -(1e9 * MEAN / (25e6 / 8)) * math.log(next(times))
        if sizes == "exp":
            size = -MEAN * math.log(next(amounts))
        else:
            size = MEAN * 0.5 / 1.5 * next(amounts) ** (-1 / 1.5)
        assert seen_when == int(when)
        assert seen_size == max(1, math.floor(size + 0.5))


def test_plan_depends_on_the_seed_only() -> None:
    options = f"--load 1000000 --mean {MEAN} --time 1000 --seed"
    first = plan(f"{options} 7")
    assert plan(f"{options} 7") == first
    assert not set(plan(f"{options} 8")) & set(first)


def test_arrival_times_do_not_depend_on_sizes() -> None:
    options = f"--load 5000000 --mean {MEAN} --time 100 --seed 3"
    one, other = plan(options), plan(f"{options} --sizes pareto:1.2")
    assert [when for when, _ in one] == [when for when, _ in other]
    assert [size for _, size in one] != [size for _, size in other]


# --- distributions ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def events() -> list[tuple[int, int]]:
    """About 20,000 flows of exponential size."""
    return plan(f"--load 8000000 --mean {MEAN} --time 2000 --seed 1")


def test_arrivals_are_a_poisson_process(events: list[tuple[int, int]]) -> None:
    """Ten a second: gaps are exponential, the counts of different seconds independent."""
    assert len(events) == pytest.approx(20_000, rel=0.02)
    assert deviation(gaps(events), lambda x: 1 - math.exp(-x / 1e8)) < KS_1_PERCENT
    counts = [0] * 2000
    for when, _ in events:
        counts[when // 10**9] += 1
    # Index of dispersion: (n - 1) times it is chi-square, whose standard deviation is sqrt(2 n).
    dispersion = statistics.variance(counts) / statistics.fmean(counts)
    assert abs(dispersion - 1) < 2.58 * math.sqrt(2 / 2000)
    after = [a * b for a, b in itertools.pairwise(c - statistics.fmean(counts) for c in counts)]
    assert abs(statistics.fmean(after) / statistics.variance(counts)) < 2.58 / math.sqrt(2000)


def test_exponential_sizes_match_theory(events: list[tuple[int, int]]) -> None:
    sizes = [size for _, size in events]
    assert statistics.fmean(sizes) == pytest.approx(MEAN, rel=2.58 / math.sqrt(len(sizes)))
    assert deviation(sizes, lambda x: 1 - math.exp(-x / MEAN)) < KS_1_PERCENT


@pytest.mark.parametrize("shape", [1.01, 1.2, 1.5, 2.5, 8])
def test_pareto_sizes_match_theory(shape: float) -> None:
    sizes = [
        size
        for _, size in plan(f"--load 8000000 --mean {MEAN} --time 2000 --sizes pareto:{shape:g}")
    ]
    smallest = MEAN * (shape - 1) / shape
    assert min(sizes) >= smallest - 1
    # Sizes are rounded to whole bytes, which matters if the smallest ones are small.
    assert deviation(sizes, lambda x: 1 - (smallest / max(x + 0.5, smallest)) ** shape) < (
        KS_1_PERCENT + (0.5 * shape / smallest) * math.sqrt(len(sizes))
    )
    # Hill's estimate of the tail from the largest 1000: its relative error is 1 / sqrt(1000).
    tail = sorted(sizes)[-1001:]
    hill = statistics.fmean(math.log(size / tail[0]) for size in tail[1:])
    assert 1 / hill == pytest.approx(shape, rel=2.58 / math.sqrt(1000))
    if shape > 2:
        spread = math.sqrt(1 / (shape * (shape - 2)))  # standard deviation over the mean
        assert statistics.fmean(sizes) == pytest.approx(
            MEAN, rel=2.58 * spread / math.sqrt(len(sizes))
        )


@pytest.mark.parametrize("load", [1_000_000, 25_000_000, 400_000_000])
def test_planned_load_matches_the_request(load: int) -> None:
    seconds = 4e9 / load * 8
    offered = plan(f"--load {load} --mean {MEAN} --time {seconds:.3f} --seed 2")
    total = 8 * sum(size for _, size in offered) / seconds
    # 40,000 flows: sqrt(2 / n) is 0.7 %.
    assert total == pytest.approx(load, rel=0.02)


def test_packets_have_one_size() -> None:
    packets = plan("--kind packets --load 10000000 --mean 972 --time 10")
    assert {size for _, size in packets} == {972}
    assert len(packets) == pytest.approx(1e8 / 8 / 972, rel=0.03)
    assert deviation(gaps(packets), lambda x: 1 - math.exp(-x / (972 * 800))) < KS_1_PERCENT


# --- refusals -----------------------------------------------------------------------------------

GOOD = {"source": "--to 127.0.0.1 --port 9 --load 1000 --mean 1000", "sink": "--port 9"}
GOOD["plan"] = "--load 1000 --mean 1000 --time 1"


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        ("", "", "no command: source, sink or plan"),
        ("fly", "", "no command 'fly'"),
        ("plan", "--fast", "unknown option --fast"),
        ("plan", "-x", "unknown option -x"),
        ("plan", "--time", "--time needs a value"),
        ("plan", "here", "unexpected 'here'"),
        ("plan", "--to 127.0.0.1", "plan has no --to"),
        ("sink", "--load 5", "sink has no --load"),
        ("source", "--bind 127.0.0.1", "source has no --bind"),
        ("plan", "--load 0", "--load 0: must be 1 to 1000000000000"),
        ("plan", "--load -5", "--load '-5': not a number"),
        ("plan", "--load 5e6", "not a number"),
        ("plan", "--load 0x10", "not a number"),
        ("plan", "--load nan", "not a number"),
        ("plan", "--load inf", "not a number"),
        ("plan", "--load 1.2.3", "not a number"),
        ("plan", "--load .5", "not a number"),
        ("plan", "--load 25mbit", "not a number"),
        ("plan", "--load 99999999999999999999", "must be 1 to 1000000000000"),
        ("plan", "--mean 7", "--mean 7: must be 8 to"),
        ("plan", "--mean 1.5", "not a whole number"),
        ("plan", "--time 0", "--time 0: must be 0.001 to 86400"),
        ("plan", "--seed -1", "--seed '-1': must be 0 to 18446744073709551615"),
        ("plan", "--seed 18446744073709551616", "must be 0 to 18446744073709551615"),
        ("plan", "--seed 1x", "--seed '1x'"),
        ("plan", "--sizes pareto", "must be exp or pareto:SHAPE"),
        ("plan", "--sizes pareto:", "not a number"),
        ("plan", "--sizes pareto:1", "the shape must be at least 1.01"),
        ("plan", "--sizes pareto:0.9", "the shape must be at least 1.01"),
        ("plan", "--sizes pareto:1000", "must be 0 to 100"),
        ("plan", "--sizes gauss", "must be exp or pareto:SHAPE"),
        ("plan", "--kind both", "must be flows or packets"),
        ("plan", "--kind packets --mean 70000", "a packet has at most 65507 bytes"),
        ("plan", "--kind packets --sizes exp", "packets have neither --sizes nor --peak"),
        ("plan", "--output /nonexistent/file", "/nonexistent/file: No such file"),
        ("source", "--peak 7", "--peak 7: must be 8 to"),
        ("source", "--to localhost", "--to 'localhost': not an IPv4 address"),
        ("source", "--port 65536", "--port 65536: must be 1 to 65535"),
        ("source", "--ports 9", "--ports is for packets"),
        ("source", "--kind packets --ports 0", "--ports 0: must be 1 to 4096"),
        ("sink", "--bind 300.1.1.1", "--bind '300.1.1.1': not an IPv4 address"),
        ("sink", "--delays-from -1", "--delays-from '-1'"),
        ("sink", "--delays-from 1", "--delays-from is for packets only"),
    ],
)
def test_bad_arguments(command: str, more: str, message: str) -> None:
    done = run(*command.split(), *GOOD.get(command, "").split(), *more.split())
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("fairtraffic: ") and message in line


@pytest.mark.parametrize("command", sorted(GOOD))
def test_missing_options_are_reported(command: str) -> None:
    words = GOOD[command].split()
    for n in range(0, len(words), 2):
        done = run(command, *words[:n], *words[n + 2 :])
        assert done.returncode == 2
        assert done.stderr == f"fairtraffic: {command} needs {words[n]}\n"


OPTIONS = ("help", "kind", "output", "load", "mean", "sizes", "seed", "time", "to", "port", "peak")
VALUES = st.one_of(
    st.text(st.characters(min_codepoint=1, max_codepoint=0x2FFF), max_size=10),
    st.sampled_from(["flows", "packets", "exp", "pareto:2", "1", "1000", "0.5", "1e9", "-1", ""]),
    st.integers(-(2**70), 2**70).map(str),
)


@settings(max_examples=150)
@given(
    st.sampled_from(["plan", "source", "sink"]),
    st.lists(st.tuples(st.sampled_from(OPTIONS), VALUES), max_size=6),
)
def test_any_arguments_are_refused_without_a_crash(
    command: str, options: list[tuple[str, str]]
) -> None:
    """A needed option is always missing, so that nothing is sent."""
    options = [
        (name, value)
        for name, value in options
        if name not in ("output", "time" if command == "plan" else "port")
    ]
    words = [word for name, value in options for word in (f"--{name}", value)]
    done = run(command, *words)
    if done.returncode == 0:
        assert done.stdout.startswith("usage: ")
    else:
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("fairtraffic: ") and "Sanitizer" not in done.stderr


def test_help_lists_all_options() -> None:
    text = run("--help").stdout
    assert all(f"--{name} " in text for name in OPTIONS if name != "help")


def test_full_output_device_is_reported() -> None:
    done = run("plan", *GOOD["plan"].split(), "--output", "/dev/full", "--load", "1000000")
    assert done.returncode == 1
    assert done.stderr == "fairtraffic: /dev/full: No space left on device\n"
    command = ["sh", "-c", f"{PROGRAM} --help >/dev/full"]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "fairtraffic: stdout: No space left on device\n")


def test_output_is_replaced_only_by_a_result(tmp_path: Path) -> None:
    """Also one that is longer."""
    file = tmp_path / "result"
    file.write_text("earlier\n" * 100_000)
    done = run(*"sink --port 9 --bind 192.0.2.1 --output".split(), str(file))
    assert (done.returncode, done.stderr) == (
        1,
        "fairtraffic: port 9: Cannot assign requested address\n",
    )
    assert file.read_text() == "earlier\n" * 100_000
    assert run("plan", *GOOD["plan"].split(), "--output", str(file)).returncode == 0
    assert file.read_text() == run("plan", *GOOD["plan"].split()).stdout


def test_make_traffic(tmp_path: Path) -> None:
    """make traffic, which fairlab calls, in a copy of the necessary files."""
    shutil.copytree(SOURCES, tmp_path / "userspace/traffic")
    (tmp_path / "userspace/lab").mkdir()
    for name in (
        *("Makefile", "VERSION", "userspace/build.mk", "userspace/install.mk"),
        "userspace/lab/random_device.c",
    ):
        shutil.copy(TOP / name, tmp_path / name)
    subprocess.run(["make", "--silent", "-C", tmp_path, "traffic"], check=True)
    built = tmp_path / "build" / "traffic" / "fairtraffic"
    done = launch.succeed([built, "--help"])
    assert done.stdout.startswith("usage: fairtraffic")


RANDOM_DEVICE = """
#include <iostream>
#include <random>
int main() { std::random_device device; std::cout << device(); }
"""


@pytest.mark.usefixtures("traffic")
def test_random_device_is_replaced(tmp_path: Path) -> None:
    """All that a C++ program calls of it comes from our library."""
    program, library = tmp_path / "program", TOP / "build/lab/random_device.so"
    subprocess.run(
        ["g++", "-x", "c++", "-", "-o", program], input=RANDOM_DEVICE, text=True, check=True
    )
    shown, numbers = "", set()
    for _ in range(3):
        environment = {"LD_PRELOAD": str(library), "LD_DEBUG": "bindings"}
        done = launch.succeed([program], env=environment)
        numbers.add(done.stdout)
        shown = done.stderr
    assert len(numbers) == 3
    bound = [line for line in shown.splitlines() if "St13random_device" in line]
    assert len(bound) == 3
    assert all(f"to {library} [0]" in line for line in bound)
