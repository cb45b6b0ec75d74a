# SPDX-License-Identifier: GPL-2.0
"""Protocol 2 in slbnsim: no overshoot, leases, weights, headroom."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import launch
from tests.slbnsim.simtools import slbnsim
from tests.slbnsim.test_faults import AROUND
from tests.slbnsim.test_slbnsim import HEAD, LINE, Case, link, random_network

WEIGHTED = f"{HEAD},weight"
#: Experiments, small enough for a build with sanitizers.
SMALL = {
    "1a": ("--percent", "3", "--every", "100ms"),
    "2a": ("--count", "1000", "--every", "500ms"),
    "2b": ("--count", "600", "--every", "1s"),
    "lan": ("--count", "256", "--every", "1ms", "--pause", "10us"),
    "wan": ("--count", "256", "--every", "1s"),
}


def experiment(name: str, *options: str) -> dict[str, Any]:
    words = ("--data", "fluid", "--json", "--quiet")
    return launch.answer(slbnsim("experiment", name, *SMALL[name], *options, *words))


def overshoots(found: dict[str, Any]) -> tuple[float, float]:
    return found["largest_overshoot"], found["largest_overshoot_arriving"]


# --- no overshoot ---------------------------------------------------------------------------------


@pytest.mark.parametrize("headroom", ["0", "5"])
@pytest.mark.parametrize("name", SMALL)
def test_no_overshoot(name: str, headroom: str) -> None:
    """Neither of the rates in use nor of data that arrives; protocol 1 overshoots."""
    found = experiment(name, "--headroom", headroom)
    assert overshoots(found) == (0, 0)
    assert found["series"][-1]["off_by_1_percent"] <= 2
    # Only control packets are queued.
    assert max(one["longest_wait"] for one in found["series"]) < 0.001
    # With so few sessions the large network is hardly loaded.
    if headroom == "0" and name not in ("2a", "2b"):
        before = experiment(name, "--algorithm", "slbn-1")
        assert min(overshoots(before)) > 0.1
        assert before["series"][-1]["off_by_1_percent"] <= 2


@pytest.mark.parametrize("memory", ["100000", "8", "0"])
@pytest.mark.parametrize("loss", ["0.1", "1", "5"])
def test_no_overshoot_under_loss(loss: str, memory: str) -> None:
    """Whatever is lost, crashes or is rerouted with a Leave, and however small the memory."""
    options = ("--loss", loss, "--memory", memory, "--dead", "10@400ms", "--cut", "busiest@800ms")
    found = experiment("1a", *options, "--until", "3s")
    assert overshoots(found) == (0, 0)
    assert found["packets"]["lost"] > 100


@pytest.mark.parametrize("seed", range(20))
def test_no_overshoot_on_random_networks(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    topology, rows = random_network(draw, draw.choice((2, 10, 60)))
    rows = [f"{row},{int(10 ** draw.uniform(0, 3))}" for row in rows]
    case = Case(tmp_path, topology, *rows, head=WEIGHTED)
    loss = draw.choice(("0", "0.5", "5"))
    found = case.answer("run", "--data", "fluid", "--seed", str(seed), "--loss", loss)
    assert overshoots(found) == (0, 0)
    for one in found["links"]:
        assert one["overshoot"] == one["overshoot_arriving"] == 0


def test_silent_reroute_is_bounded(tmp_path: Path) -> None:
    """Data takes another path before the first control packet: no rate rises until that is over.

    "s" has 100 Mbit/s on b > c, "t" the 40 of the detour.  The overshoot is that of s, not more.
    """
    rows = ("s,a,d,0,,,,a>b>c>d", "t,b,c,0,,,,b>e>c", "u,b,c,1.001,,,,b>e>c")
    case = Case(tmp_path, AROUND, *rows, head=f"{HEAD},path")
    arguments = ("run", "--data", "fluid", "--cut", "b>c@1s", "--silent", "--until")
    assert overshoots(case.answer(*arguments, "0.999")) == (0, 0)
    found = case.answer(*arguments, "8")
    assert overshoots(found) == (2.5, 2.5)
    rates = {one["id"]: one["rate"] for one in found["sessions"]}
    assert rates == {"s": 0, "t": 13_333_333, "u": 13_333_333, "s'": 13_333_333}
    # A source that is notified starts anew.
    assert overshoots(case.answer(*arguments[:-2], "--until", "8")) == (0, 0)


# --- leases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "rate"), [("0.65", 1), ("0.87", 1), ("0.88", 0), ("1.3", 0), ("1.9", 1)]
)
def test_rates_end_with_their_leases(tmp_path: Path, until: str, rate: int) -> None:
    """Seven eighths of an epoch after the packet was sent, unless a later one is answered.

    The round-trip is 0.6 s: the first answer's lease ends at 0.875 s, before the second arrives.
    That one assigns nothing, since links may have forgotten the session; the third does, at 1.8 s.
    """
    topology = {"nodes": ["a", "b"], "links": [link("a", "b", 1e9, 0.3)]}
    case = Case(tmp_path, topology, "s,a,b,0,,,")
    assert case.answer("run", "--until", until)["sessions"][0]["rate"] == pytest.approx(
        rate * 10**9, rel=2**-10
    )
    found = case.answer("run", "--until", until, "--algorithm", "slbn-1")
    assert found["sessions"][0]["rate"] == 10**9


@pytest.mark.parametrize("epoch", ["0", "2s"])
def test_leases_are_as_long_as_epochs(tmp_path: Path, epoch: str) -> None:
    """The same path: longer epochs outlast two round-trips, and without epochs no rate ends."""
    topology = {"nodes": ["a", "b"], "links": [link("a", "b", 1e9, 0.3)]}
    case = Case(tmp_path, topology, "s,a,b,0,,,")
    for until in ("0.65", "1.01", "1.3", "2.5"):
        found = case.answer("run", "--until", until, "--epoch", epoch)
        assert found["sessions"][0]["rate"] == pytest.approx(10**9, rel=2**-10)
        assert found["configuration"]["epoch_ns"] == (0 if epoch == "0" else 2 * 10**9)


@pytest.mark.parametrize("algorithm", ["slbn", "slbn-1"])
def test_round_trip_longer_than_epochs(tmp_path: Path, algorithm: str) -> None:
    """Links have forgotten the session when the answer returns, and drop it."""
    topology = {"nodes": ["a", "b"], "links": [link("a", "b", 1e9, 9)]}
    case = Case(tmp_path, topology, "s,a,b,0,,,")
    found = case.answer("run", "--algorithm", algorithm, "--until", "60")
    assert found["packets"]["answered"] == 0 < found["packets"]["retransmitted"]
    assert found["sessions"][0]["rate"] == 0


# --- weights --------------------------------------------------------------------------------------


def weighted(
    capacity: dict[str, Fraction], sessions: dict[str, tuple[list[str], int, int | None]]
) -> dict[str, Fraction]:
    """Max-min fair rates of sessions with links, weight and demand, by water filling."""
    rates: dict[str, Fraction] = {}
    while len(rates) < len(sessions):
        left = {name: one for name, one in sessions.items() if name not in rates}
        levels = {
            where: (
                C - sum((r for name, r in rates.items() if where in sessions[name][0]), Fraction())
            )
            / sum(weight for path, weight, _ in left.values() if where in path)
            for where, C in capacity.items()
            if any(where in path for path, _, _ in left.values())
        }
        share = min(levels.values())
        limits = [Fraction(demand, weight) for _, weight, demand in left.values() if demand]
        if limits and min(limits) <= share:
            share, full = min(limits), set[str]()
        else:
            full = {where for where, level in levels.items() if level == share}
        for name, (path, weight, demand) in left.items():
            if full & set(path) or (demand and Fraction(demand, weight) == share):
                rates[name] = share * weight
    return rates


@pytest.mark.parametrize("algorithm", ["slbn", "slbn-1", "slbn-paper"])
@pytest.mark.parametrize("seed", range(12))
def test_weighted_rates_are_exact(tmp_path: Path, seed: int, algorithm: str) -> None:
    """On a chain, with headroom, against a solver that computes with fractions."""
    draw = random.Random(seed)
    headroom = draw.choice((0, 0.1, 5, 50))
    nodes = [f"n{n}" for n in range(draw.randint(2, 6))]
    links = [link(a, b, draw.randint(10**7, 10**9), 0.002) for a, b in pairwise(nodes)]
    plan = {
        f"{one['from']}>": Fraction(one["rate"] - int(one["rate"] * headroom * 10) // 1000)
        for one in links
    }
    most = draw.choice((1, 10, 10**6))
    rows, sessions = [], {}
    for n in range(draw.randint(1, 12)):
        a, b = sorted(draw.sample(range(len(nodes)), 2))
        weight = draw.randint(1, most)
        demand = draw.choice((None, None, draw.randint(10**6, 10**9)))
        sessions[f"s{n}"] = ([f"{name}>" for name in nodes[a:b]], weight, demand)
        shown = "" if weight == 1 else weight
        rows.append(f"s{n},{nodes[a]},{nodes[b]},{n * 0.01},,{demand or ''},,{shown}")
    case = Case(tmp_path, {"nodes": nodes, "links": links}, *rows, head=WEIGHTED)
    options = ("--headroom", str(headroom))
    exact = weighted(plan, sessions)
    computed = case.answer("maxmin", *options)
    assert computed["configuration"]["headroom_percent"] == headroom
    assert computed["configuration"]["sessions"] == str(case.sessions)
    found = case.answer("run", *options, "--algorithm", algorithm, "--control", "0")
    for one, other in zip(computed["sessions"], found["sessions"], strict=True):
        _, weight, _ = sessions[one["id"]]
        assert one.get("weight", 1) == other.get("weight", 1) == weight
        assert ("weight" in one) == (weight != 1)
        assert one["exact"] == pytest.approx(float(exact[one["id"]]), rel=1e-9, abs=0.001)
        assert other["exact"] == one["exact"]
        assert other["rate"] == pytest.approx(one["exact"], rel=1e-4, abs=20), one
    assert found["largest_overshoot"] == 0 or algorithm != "slbn"


@pytest.mark.parametrize("weight", ["0", "1000001", "-1", "1.5", "x", "nan", "1e7"])
def test_invalid_weights(tmp_path: Path, weight: str) -> None:
    case = Case(tmp_path, LINE, "s,a,b,0,,,,1000000", f"t,a,b,0,,,,{weight}", head=WEIGHTED)
    for command in ("run", "maxmin"):
        error = case.refused(command)
        assert f"sessions.csv:3: weight '{weight}': must be a whole number, 1 to 1000000" in error


def test_weights_need_an_algorithm_with_weights(tmp_path: Path) -> None:
    case = Case(tmp_path, LINE, "s,a,b,0,,,,1", "t,a,b,0,,,,2", head=WEIGHTED)
    for algorithm in ("bfyz", "sperc", "cobb"):
        done = case.run("run", "--algorithm", algorithm)
        assert done.returncode == 2
        assert f"{algorithm} has no weights: only slbn, slbn-1 and slbn-paper do" in done.stderr
    alike = Case(tmp_path, LINE, "s,a,b,0,,,,1", "t,a,b,0,,,,", head=WEIGHTED)
    assert alike.run("run", "--algorithm", "bfyz").returncode == 0


# --- headroom and control packets -----------------------------------------------------------------


def test_headroom_is_free_at_rest_and_used_by_newcomers(tmp_path: Path) -> None:
    """The plan hands out 95 Mbit/s; until the first has slowed down the second has the other 5."""
    case = Case(tmp_path, LINE, "s,c,d,0,,,", "t,c,d,1,,,")
    arguments = ("run", "--headroom", "5", "--until")
    rates = [one["rate"] for one in case.answer(*arguments, "1.003")["sessions"]]
    # What links hold is rounded to 11 bits.
    assert rates == [95e6, pytest.approx(5e6, rel=2**-10)]
    found = case.answer(*arguments, "2")
    assert [one["rate"] for one in found["sessions"]] == [47.5e6, 47.5e6]
    assert [one["exact"] for one in found["sessions"]] == [47.5e6, 47.5e6]
    assert found["configuration"]["headroom_percent"] == 5


def test_automatic_headroom_follows_control_packets(tmp_path: Path) -> None:
    """The plan of a link rests, and its sessions have the max-min rates of these plans."""
    case = Case(tmp_path, LINE, "s,a,d,0,,,", "t,c,d,0.5,,,", "u,b,d,1,,5e6,", "v,c,d,1,3,,")
    found = case.answer("run", "--headroom", "auto", "--until", "120", "--pause", "20ms")
    # No rate moved for a hundred epochs.
    assert 3 < found["last_change"] < 20
    for one in found["sessions"]:
        assert one["rate"] == pytest.approx(one["exact"], abs=8)
    rates = {(each["from"], each["to"]): each["rate"] for each in LINE["links"]}
    loaded = [one for one in found["links"] if "plan" in one]
    assert len(loaded) == 3
    for one in loaded:
        rate = rates[one["from"], one["to"]]
        measured = one["control_bytes"] * 8 / 120
        reserved = 0.995 * rate - one["plan"]
        assert measured <= reserved <= 2.5 * measured + 3 * rate / 1024
    assert found["largest_overshoot"] == 0
    assert found["configuration"]["headroom"] == "auto"


def test_small_control_shares(tmp_path: Path) -> None:
    """They are not rounded to 0, which would mean unlimited."""
    topology = {"nodes": ["a", "b"], "links": [link("a", "b", 1e8, 0.001)]}
    case = Case(tmp_path, topology, "s,a,b,0,,,")
    arguments = ("run", "--algorithm", "slbn-paper", "--until", "20", "--control")
    used = {}
    for percent in ("0.01", "0.05", "0"):
        found = case.answer(*arguments, percent)
        used[percent] = sum(one["control_bytes"] for one in found["links"]) * 8 / 20 / 1e6
        assert found["configuration"]["control_percent"] == float(percent)
    assert used["0.01"] == pytest.approx(0.01, rel=0.1)
    assert used["0.05"] == pytest.approx(0.05, rel=0.1)
    assert used["0"] > 0.1


# --- output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "run --json",
        "maxmin",
        "maxmin --json",
        "experiment lan --percent 2 --quiet --until 1ms",
        "experiment lan --percent 2 --quiet --until 1ms --json",
        "topology line",
        "algorithms",
        "experiments --json",
        "--help",
        "--version",
    ],
)
def test_write_errors_are_reported(tmp_path: Path, command: str) -> None:
    case = Case(tmp_path, LINE, "s,a,b,0,,,")
    files = ["--topology", str(case.topology), "--sessions", str(case.sessions)]
    arguments = command.split() + (files if command[:3] in ("run", "max") else [])
    with open("/dev/full", "w") as full:
        done = slbnsim(*arguments, stdout=full)
    assert (done.returncode, done.stderr) == (2, "slbnsim: cannot write to standard output\n")
