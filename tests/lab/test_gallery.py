# SPDX-License-Identifier: GPL-2.0
"""The gallery: stored, stale and refused runs; figures, claims and reports.

The studies toss coins (coins.py), which needs no guest.  The project's own studies are checked here
without running them; tests/figures checks their published data.
"""

import ast
import contextlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fairlab.figures import comparisons, fingerprints, gallery, html, registry, verdict
from fairlab.figures import study as study_module
from fairlab.figures.gallery import Gallery
from fairlab.figures.studies import ALL, forms, slbn
from fairlab.figures.studies.slbn import OneForm
from fairlab.figures.study import Study
from fairlab.model import plain
from fairlab.model.errors import LabError, UsageError
from fairlab.net import host
from fairlab.results import plots
from fairlab.run import engine, exact, progress
from fairlab.run.job import Job
from fairlab.slbn.sessions import Plan
from fairlab.slbn.sessions_tcp import TcpPlan
from fairlab.slbn.simulated import Simulated

from tests.lab.labtools import FAIRLAB, TOP, assert_refused, call_fairlab, run_fairlab

COINS = TOP / "tests" / "lab" / "coins.py"
LAB = TOP / "userspace" / "lab"
MINT = "int mint(void)\n{\n\treturn 1; /* a coin */\n}\n"


def copy_coins(place: Path) -> Path:
    for name in ("mint.c", "bend.c"):
        (place / name).write_text(MINT)
    shutil.copy(COINS.with_suffix(".toml"), place)
    return Path(shutil.copy(COINS, place))


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    """A copy of the coin studies, which tests may change."""
    return copy_coins(tmp_path)


@pytest.fixture(scope="module")
def tossed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the coin studies, and of it once fair-coin has been run: seven processes."""
    place = tmp_path_factory.mktemp("tossed")
    coins, kept = place / "coins", place / "kept"
    coins.mkdir()
    copy_coins(coins)
    assert figure(coins / "coins.py", "fair-coin", "--quiet").returncode == 0
    shutil.copytree(coins, kept)
    return coins, kept


@pytest.fixture
def ran(tossed: tuple[Path, Path]) -> Path:
    """The coin studies, of which fair-coin has been run and drawn, which tests may change.

    They are in the same directory each time, as a moved study is another one.
    """
    coins, kept = tossed
    shutil.rmtree(coins)
    shutil.copytree(kept, coins)
    return coins / "coins.py"


def figure(coins: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    where = ("--studies", str(coins), "--out", str(coins.parent / "out"))
    return run_fairlab("figure", *words, *where, **options)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def fingerprints_of(coins: Path, name: str = "fair-coin", kernel: str = "6.1") -> dict[str, str]:
    """The current fingerprint of each run of a study."""
    fingerprints.forget()
    place = Gallery(coins.parent / "out", quick=False, kernel=kernel, studies=coins)
    (study,) = gallery.choose(gallery.load(coins), [name])
    return {run.name: run.fingerprint for run in place.runs(study)}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


RUNS = {"fair@1", "fair@2", "fair@3", "tricky@1", "tricky@2", "tricky@3"}


# --- stale runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        # Changes of a run, and of its stored numbers.
        ("FAIR, TRICKY = 0.5, 0.7", "FAIR, TRICKY = 0.5, 0.8", RUNS),
        ("SCALE = 100", "SCALE = 1", RUNS),
        ("return SCALE * heads", "return 2 * SCALE * heads", RUNS),
        ('return {"share": share(outcome)}', 'return {"portion": share(outcome)}', RUNS),
        # Changes of measurements, drawing and texts.
        ('for numbers in data["fair"]]}', 'for numbers in data["fair"][:2]]}', set()),
        ("axis.legend()", "axis.grid()", set()),
        ("Bernoulli:", "Jakob Bernoulli:", set()),
        ('("The coin is <thin>.",)', '("The coin is <thin>.", "Nobody cheats.")', set()),
    ],
)
def test_only_changes_of_numbers_make_runs_stale(
    coins: Path, old: str, new: str, stale: set[str]
) -> None:
    before = fingerprints_of(coins)
    assert before.keys() == RUNS and len(set(before.values())) == len(RUNS)
    assert fingerprints_of(coins) == before
    change(coins, old, new)
    assert changed(before, fingerprints_of(coins)) == stale


def test_changed_sources_make_runs_stale(coins: Path) -> None:
    before, mint = fingerprints_of(coins), coins.with_name("mint.c")
    change(mint, "return 1", "return 2")
    assert changed(before, fingerprints_of(coins)) == RUNS
    before = fingerprints_of(coins)
    change(coins.with_name("bend.c"), "return 1", "return 2")
    assert changed(before, fingerprints_of(coins)) == {"tricky@1", "tricky@2", "tricky@3"}
    mint.unlink()
    with pytest.raises(LabError, match="mint.c, which is not there"):
        fingerprints_of(coins)


def test_runs_in_guests_depend_on_the_kernel_and_on_tc() -> None:
    """All that decides which kernel is built (fairvm/uml.py), and how tc reads options."""
    every = fingerprints.files(TOP, (*fingerprints.EVERY_RUN, *engine.SOURCES))
    found = {path.relative_to(TOP).as_posix() for path in every}
    vm = "userspace/vm/fairvm"
    assert {f"{vm}/{name}" for name in ("uml.py", "uml.config", "exact.py")} <= found
    assert {f"{vm}/exact/exact.c", f"{vm}/exact/exact.h", "userspace/tc/q_drr_fq.c"} <= found


def test_declared_directories_include_all_sources(tmp_path: Path) -> None:
    names = ("a.c", "b.h", "Kbuild", "below/c.py")
    for name in (*names, "README.md", "below/a.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = fingerprints.files(tmp_path, ["below", ".", "a.c"])
    assert found == sorted(tmp_path / name for name in names)


def test_only_headers_that_a_run_includes_count(tmp_path: Path) -> None:
    files = {
        "mod/a.c": '#include <fairpath/one.h>\n# include "own.h"\n#include <linux/shadow.h>\n',
        "mod/own.h": "#include <linux/types.h>\n",
        "include/fairpath/one.h": '#include "two.h"\n',
        "include/fairpath/two.h": "#include <fairpath/api.h>\n",
        "include/uapi/fairpath/api.h": "",
        "include/compat/linux/shadow.h": "#include_next <linux/shadow.h>\n",
        "include/fairpath/unused.h": "#include <fairpath/worse.h>\n",
        "include/fairpath/worse.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    every = fingerprints.files(tmp_path, ["mod", "include"])
    found = {str(path.relative_to(tmp_path)) for path in every} - {
        str(path.relative_to(tmp_path))
        for path in fingerprints.without_unused_headers(tmp_path, every)
    }
    assert found == {"include/fairpath/unused.h", "include/fairpath/worse.h"}


def test_headers_of_the_simulator_are_those_that_the_compiler_read() -> None:
    """slbnsim's figures depend on no header of other modules, and on all of its own."""
    subprocess.run(["make", "--silent", "-C", TOP, "slbnsim"], check=True, stdout=subprocess.PIPE)
    made = sorted((TOP / "build/obj/userspace/slbnsim").glob("*.d"))
    read = {name for path in made for name in re.findall(r"\binclude/[\w/.]+\.h", path.read_text())}
    every = fingerprints.files(TOP, Simulated("1a", "slbn", 1).sources())
    used = {str(path.relative_to(TOP)) for path in fingerprints.without_unused_headers(TOP, every)}
    assert len(read) > 5 and read <= used
    assert "include/uapi/fairpath/drr_fq.h" not in used


def test_chosen_seeds(coins: Path) -> None:
    """As many as asked for, or any; fingerprints are those of the study's own."""
    place = Gallery(coins.parent / "out", quick=False, studies=coins, seeds=(1, 2))
    (study,) = gallery.choose(gallery.load(coins), ["fair-coin"])
    runs = {run.name: run.fingerprint for run in place.runs(study)}
    assert runs == {n: mark for n, mark in fingerprints_of(coins).items() if not n.endswith("@3")}
    done = figure(coins, "fair-coin", "--seeds", "1")
    assert done.returncode in (0, 4), done.stderr
    assert json.loads((coins.parent / "out/fair-coin.json").read_text())["seeds"] == [1]
    done = figure(coins, "fair-coin", "--seeds", "0")
    assert done.returncode == 2 and "seeds 0: must be 1 to 1000" in done.stderr
    done = figure(coins, "fair-coin", "--seeds", "5", "--plan")
    planned = [run["run"] for run in json.loads(done.stdout)[0]["runs"]]
    assert planned == [f"{case}@{seed}" for seed in range(1, 6) for case in ("fair", "tricky")]
    done = figure(coins, "fair-coin", "--seed", "77", "--seed", "5")
    assert done.returncode in (0, 4), done.stderr
    assert json.loads((coins.parent / "out/fair-coin.json").read_text())["seeds"] == [5, 77]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seed 0", "seed 0: must be 1 to 2147483647"),
        ("--seed 2147483648", "seed 2147483648: must be 1 to 2147483647"),
        ("--seed 1 --seeds 2", "not allowed with argument"),
        ("--run fair", "run 'fair': must be CASE@SEED, for example fair@1"),
        ("--run fair@x", "run 'fair@x': must be CASE@SEED, for example fair@1"),
        pytest.param(f"--run fair@{'9' * 5000}", "9': must be CASE@SEED, for example", id="long"),
        ("--run fair@0", "seed 0: must be 1 to 2147483647"),
        ("--run foul@1", "no case 'foul' of fair-coin; there are: fair, tricky"),
    ],
)
def test_bad_seeds_are_refused(coins: Path, words: str, message: str) -> None:
    done = figure(coins, "fair-coin", *words.split())
    assert done.returncode == 2 and message in done.stderr
    assert not (coins.parent / "out").exists()


def test_single_run_of_any_seed(coins: Path) -> None:
    done = figure(coins, "fair-coin", "--run", "fair@9")
    assert done.returncode == 0, done.stderr
    assert (coins.parent / "out/data/fair-coin/fair@9.json").exists()


def test_another_kernel_makes_runs_stale(coins: Path) -> None:
    assert changed(fingerprints_of(coins), fingerprints_of(coins, kernel="7.2")) == RUNS


def test_fingerprints_do_not_depend_on_the_process(coins: Path) -> None:
    def plan_of(seed: str) -> str:
        done = figure(coins, "--plan", before=("env", f"PYTHONHASHSEED={seed}"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert plan_of("1") == plan_of("2")
    plan = {one["name"]: one for one in json.loads(plan_of("3"))}
    runs = {run["run"]: run["fingerprint"] for run in plan["fair-coin"]["runs"]}
    assert runs == fingerprints_of(coins)
    assert not any(run["current"] for one in plan.values() for run in one["runs"])


# --- runs and figures ---------------------------------------------------------------------------


def test_runs_are_stored_and_drawn(coins: Path) -> None:
    out = coins.parent / "out"
    done = figure(coins, "fair-coin")
    assert done.returncode == 0, done.stderr
    assert "6 of 6 runs to do" in done.stderr and "(6 of 6)" in done.stderr
    assert "inconclusive  heads come up half of the time" in done.stdout
    assert "published as often as tails (page 1); here" in done.stdout
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    data = {f"data/fair-coin/{name}.json" for name in RUNS}
    assert files == data | {"fair-coin.png", "fair-coin.svg", "fair-coin.json"}

    run = json.loads((out / "data/fair-coin/tricky@2.json").read_text())
    assert run["what"] == {"chance": 0.7, "seed": 2, "trouble": ""}
    assert (run["study"], run["case"], run["seed"], run["quick"]) == (
        "fair-coin", "tricky", 2, False,
    )  # fmt: skip
    assert run["conditions"]["kernel"] == {"release": "6.1-coin"}
    assert run["conditions"]["fairlab"] and run["conditions"]["project"]
    assert 60 < run["numbers"]["share"] < 80
    assert run["fingerprint"] == fingerprints_of(coins)["tricky@2"]

    document = json.loads((out / "fair-coin.json").read_text())
    assert document["seeds"] == [1, 2, 3] and document["runs"] == 6 and document["stale"] == 0
    (claim,) = document["claims"]
    assert (claim["holds"], claim["class"]) == (True, "number")
    assert claim["accepted"] == "45 to 55 %" and claim["registered"] == "before its runs"
    # All values of conditions that differ between runs.
    assert document["conditions"]["table"] == ["number 1", "number 2", "number 3"]
    assert document["conditions"]["kernel"] == {"release": "6.1-coin"}
    assert document["table"]["columns"] == ["coin", "heads <%>"]

    # Again: nothing is run, and all files are identical.
    kept = {name: (out / name).read_bytes() for name in files}
    ages = {name: (out / name).stat().st_mtime_ns for name in data}
    again = figure(coins, "fair-coin")
    assert again.returncode == 0 and again.stderr == "" and again.stdout == done.stdout
    assert {name: (out / name).read_bytes() for name in files} == kept
    assert {name: (out / name).stat().st_mtime_ns for name in data} == ages

    # One run is removed, one damaged: these two are run.
    (out / "data/fair-coin/fair@1.json").unlink()
    (out / "data/fair-coin/fair@2.json").write_text('{"study": "fair-coin", "num')
    again = figure(coins, "fair-coin", "--json")
    assert again.returncode == 0 and "2 of 6 runs to do" in again.stderr
    assert json.loads(again.stdout) == [document]
    assert {name: (out / name).read_bytes() for name in files} == kept

    listed = figure(coins)
    assert re.search(r"^fair-coin +6/6 +[01]/1  Heads & <tails>$", listed.stdout, re.MULTILINE)
    assert re.search(r"^bent-coin +0/6 +-  ", listed.stdout, re.MULTILINE)


def test_stored_runs_of_an_older_format_say_which_version_made_them(ran: Path) -> None:
    """They stay readable while their numbers have all that is drawn."""
    path = ran.parent / "out/data/fair-coin/fair@1.json"
    stored = json.loads(path.read_text())
    stored["fingerprint"] = "0" * 16
    stored["conditions"]["project"] = "0123abc"
    path.write_text(json.dumps(stored))
    done = figure(ran, "fair-coin", "--draw")
    assert done.returncode == 0 and "1 of 6 runs are stale: made at 0123abc, " in done.stdout
    del stored["numbers"]["share"]
    path.write_text(json.dumps(stored))
    done = figure(ran, "fair-coin", "--draw")
    said = ("fair-coin: made at 0123abc, in another format", "'share'", "run it again, or use that")
    assert_refused(done, 3, *said)
    # A run of today's sources that lacks something is an error of the study.
    stored["fingerprint"] = fingerprints_of(ran)["fair@1"]
    path.write_text(json.dumps(stored))
    assert "KeyError" in figure(ran, "fair-coin", "--draw").stderr


def test_seeds_that_are_not_stored_are_named(coins: Path) -> None:
    done = figure(coins, "fair-coin", "--draw", "--seed", "77")
    assert_refused(done, 3, "runs are missing (fair@77", "without --draw they are run")
    where = ("--out", str(coins.parent / "out"))
    done = call_fairlab("compare", "parking-lot", "--draw", "--seed", "77", *where)
    assert_refused(
        done, 3, "no run of parking-lot with the seeds 77 is stored in ", "without --draw"
    )
    for text in ("0", "-1", "99999999999"):
        assert_refused(figure(coins, "fair-coin", "--seed", text), 2, f"seed {text}: must be 1 to ")
    assert_refused(
        figure(coins, "fair-coin", "--seed", "one"), 2, "--seed: invalid int value: 'one'"
    )


def test_a_failed_claim_sets_the_exit_status(coins: Path) -> None:
    done = figure(coins, "bent-*", "--quick", "--quiet")
    assert done.returncode == 4
    assert done.stderr == "fairlab: 1 of 2 claims are inconsistent\n"
    assert "inconsistent  heads come up" in done.stdout and "The coin is <bent>" in done.stdout
    assert "not testable  so do sixes" in done.stdout and "there is no die" in done.stdout
    assert (coins.parent / "out/bent-coin.png").exists()


def test_options_run_and_draw(coins: Path) -> None:
    out = coins.parent / "out"
    done = figure(coins, "fair-coin", "--run", "fair@2")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert [path.name for path in out.rglob("*.*")] == ["fair@2.json"]
    done = figure(coins, "fair-coin", "--draw")
    assert_refused(done, 3, "fair-coin: 5 of 6 runs are missing (fair@1, tricky@1, tricky@2, ...)")
    assert not (out / "fair-coin.png").exists()


def test_whole_seeds_are_drawn(coins: Path) -> None:
    """What an interrupted `make figures` has: the seeds of which all runs are there."""
    out = coins.parent / "out"
    for name in ("fair@1", "tricky@1", "fair@2"):
        assert figure(coins, "fair-coin", "--run", name, "--quiet").returncode == 0
    done = figure(coins, "fair-coin", "--draw")
    assert done.returncode == 0, done.stderr
    assert "4 further runs are missing: drawn from 1 seeds" in done.stdout
    document = json.loads((out / "fair-coin.json").read_text())
    assert (document["seeds"], document["runs"], document["missing"]) == ([1], 2, 4)
    assert document["claims"][0]["verdict"] == "inconclusive"
    assert call_fairlab("report", "--studies", str(coins), "--out", str(out)).returncode == 0
    note = "Drawn from 1 seeds; 4 further runs are not done yet."
    assert note in (out / "reproduction.md").read_text()
    page = (out / "report.html").read_text()
    assert note in page and "drawn from runs of other sources" not in page
    # Those that a user chose have to be there.
    done = figure(coins, "fair-coin", "--draw", "--seed", "1", "--seed", "2")
    assert_refused(done, 3, "1 of 4 runs are missing (tricky@2)")


FURTHER = {"fair@4", "fair@5"}
#: A change that makes the claim inconclusive, and others that prevent further runs all the same.
NARROW = ("coins.toml", "tolerance.absolute = 5\n", "tolerance.absolute = 0.5\n")
NOT_FURTHER = {
    "decided": ("coins.toml", "tolerance.absolute = 5\n", "tolerance.absolute = 40\n"),
    "not testable": (
        "coins.toml",
        'cases = ["fair"]\nseeds = 3',
        'cases = ["fair"]\nseeds = 3\nnot_testable = "no"',
    ),
    "short": ("coins.py", "Coin(FAIR, seed, self.trouble))", "Coin(FAIR, seed), 3)"),
}


@pytest.fixture
def doubted(coins: Path) -> Path:
    """The coin studies, of which fair-coin may have up to five seeds."""
    change(coins, 'Coins("fair-coin")', 'Coins("fair-coin", most_seeds=5)')
    return coins


def shares_of(coins: Path, case: str, seeds: int) -> list[float]:
    data = coins.parent / "out/data/fair-coin"
    stored = [json.loads((data / f"{case}@{n}.json").read_text()) for n in range(1, seeds + 1)]
    return [one["numbers"]["share"] for one in stored]


def test_inconclusive_claims_get_further_seeds(doubted: Path) -> None:
    """For their cases only, and once: they are further runs whatever their results are."""
    out = doubted.parent / "out"
    change(doubted.with_name(NARROW[0]), *NARROW[1:])
    place = Gallery(out, quick=False, studies=doubted)
    (study,) = gallery.choose(gallery.load(doubted), ["fair-coin"])
    runs = place.runs(study)
    assert {run.name for run in runs} == RUNS
    for run in runs[:-1]:
        place.execute(run, progress.Progress("none"))
    done = figure(doubted, "fair-coin")
    assert "1 of 6 runs to do" in done.stderr and "2 of 8 runs to do" in done.stderr, done.stderr
    assert {path.stem for path in (out / "data/fair-coin").iterdir()} == RUNS | FURTHER
    document = json.loads((out / "fair-coin.json").read_text())
    assert document["seeds"] == [1, 2, 3, 4, 5]
    assert (document["runs"], document["missing"]) == (8, 0)
    rows = dict(document["table"]["rows"])
    assert json.loads(rows["fair"]) == shares_of(doubted, "fair", 5)
    assert json.loads(rows["tricky"]) == shares_of(doubted, "tricky", 3)
    last = out / "data/fair-coin/fair@5.json"
    change(last, f'"share": {shares_of(doubted, "fair", 5)[4]}', '"share": 0')
    kept = last.rename(out / "kept.json")
    done = figure(doubted, "fair-coin", "--draw")
    assert "1 further runs are missing: drawn from 4 seeds" in done.stdout
    kept.rename(last)
    assert {run.name for run in place.runs(study)} == RUNS | FURTHER
    assert all(map(place.is_current, place.runs(study)))


@pytest.mark.parametrize("why", ["nothing", *NOT_FURTHER, "chosen", "quick", "format"])
def test_no_further_seeds(doubted: Path, why: str) -> None:
    changes = [NARROW] if why != "decided" else []
    changes += [NOT_FURTHER[why]] if why in NOT_FURTHER else []
    for name, old, new in changes:
        change(doubted.with_name(name), old, new)
    place = Gallery(
        doubted.parent / "out",
        quick=why == "quick",
        studies=doubted,
        seeds=(1, 2, 3) if why == "chosen" else (),
    )
    (study,) = gallery.choose(gallery.load(doubted), ["fair-coin"])
    for run in place.runs(study):
        place.execute(run, progress.Progress("none"))
        if why == "format":
            # As other sources may have stored it: it cannot be judged.
            change(place.path(run), '"share"', '"part"')
    further = {run.name for run in place.runs(study)} - RUNS
    assert further == (FURTHER if why == "nothing" else set())


def test_stale_figures_are_reported(ran: Path) -> None:
    out = ran.parent / "out"
    change(ran.with_name("bend.c"), "return 1", "return 2")
    done = figure(ran, "fair-coin", "--draw")
    assert done.returncode == 0 and "3 of 6 runs are stale: made at " in done.stdout
    assert json.loads((out / "fair-coin.json").read_text())["stale"] == 3
    page = call_fairlab("report", "--studies", str(ran), "--out", str(out))
    assert "stale, drawn from runs of other sources: fair-coin" in page.stdout
    assert "drawn from runs of other sources" in (out / "report.html").read_text()
    done = figure(ran, "fair-coin")
    assert "3 of 6 runs to do" in done.stderr and "runs are stale" not in done.stdout


def test_restamped_runs_are_current(ran: Path) -> None:
    data = ran.parent / "out/data/fair-coin"
    before = {path.name: json.loads(path.read_text()) for path in data.iterdir()}
    change(ran, "return SCALE * heads", "return heads * SCALE")
    done = figure(ran, "*", "--restamp")
    assert (done.returncode, done.stdout) == (0, "6 of 6 stored runs have a new fingerprint\n")
    for path in data.iterdir():
        after = json.loads(path.read_text())
        assert after.pop("fingerprint") != before[path.name].pop("fingerprint")
        assert after == before[path.name]
    done = figure(ran, "fair-coin")
    assert done.returncode == 0 and done.stderr == "" and "runs are stale" not in done.stdout
    assert "0 of 6 stored runs" in figure(ran, "fair-coin", "--restamp").stdout


def test_a_refused_run_is_never_drawn(coins: Path) -> None:
    out = coins.parent / "out"
    done = figure(coins, "edge-coin", "fair-coin")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "fairlab: 3 runs were refused, so edge-coin cannot be drawn:"
        " edge-coin fair@1: it stood on its edge"
    )
    assert "fair-coin:" in done.stdout and "edge-coin:" not in done.stdout
    assert {path.name for path in out.glob("*.png")} == {"fair-coin.png"}
    refused = json.loads((out / "data/edge-coin/fair@1.refused").read_text())
    assert refused["reason"] == "it stood on its edge"
    assert not (out / "data/edge-coin/fair@1.json").exists()
    done = figure(coins, "edge-coin", "--draw")
    assert_refused(done, 3, "3 of 6 runs were refused: fair@1: it stood on its edge")
    # With changed sources the run succeeds.
    change(coins, 'self.trouble == "refused"', 'self.trouble == "never"')
    assert figure(coins, "edge-coin", "--quiet").returncode == 0
    assert list(out.rglob("*.refused")) == []


@pytest.mark.tier("all")
def test_a_refused_run_replaces_the_stored_one(ran: Path) -> None:
    out = ran.parent / "out"
    change(ran, 'self.trouble == "refused"', "self.seed == 3")
    change(ran.with_name("mint.c"), "return 1", "return 2")
    assert figure(ran, "fair-coin", "--quiet").returncode == 3
    left = {path.name for path in (out / "data/fair-coin").iterdir()}
    assert left == {
        "fair@1.json", "fair@2.json", "tricky@1.json", "tricky@2.json",
        "fair@3.refused", "tricky@3.refused",
    }  # fmt: skip
    # The old figure still exists, but is not in the report.
    page = call_fairlab("report", "--studies", str(ran), "--out", str(out))
    assert page.returncode == 2 and "no figures in" in page.stderr


def test_a_failed_run_does_not_stop_others(coins: Path) -> None:
    out = coins.parent / "out"
    done = figure(coins, "lost-coin", "--jobs", "1")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fairlab: 3 runs failed, so lost-coin cannot be drawn")
    assert last.endswith("ZeroDivisionError: no coin")
    names = {path.name for path in out.rglob("*.*")}
    assert names == {"tricky@1.json", "tricky@2.json", "tricky@3.json"}


def wait_until_gone(group: int) -> None:
    """The processes of a group have been killed, but may take a moment to end."""
    # A run that was not killed sleeps for longer.
    deadline = time.monotonic() + 20
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            assert time.monotonic() < deadline, "processes are left"
            time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_completed_runs_survive_a_signal(coins: Path, number: signal.Signals) -> None:
    out = coins.parent / "out"
    words = ("figure", "slow-coin", "--jobs", "2", "--studies", str(coins), "--out", str(out))
    process = subprocess.Popen(
        [str(FAIRLAB), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len(list(out.rglob("*.json"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert complaint.splitlines()[-1] == f"fairlab: stopped by {number.name}"
    wait_until_gone(process.pid)
    # No partial files.
    names = {path.name for path in out.rglob("*") if path.is_file()}
    assert {"fair@1.json", "tricky@1.json"} <= names
    assert not any(name.startswith(".") or name.startswith("fair@2") for name in names)
    for path in out.rglob("*.json"):
        assert json.loads(path.read_text())["numbers"]
    coins.with_name("hurry").touch()
    done = figure(coins, "slow-coin")
    assert done.returncode == 0
    assert f"{6 - len(names)} of 6 runs to do" in done.stderr


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (("coin",), ("no figure 'coin'; there are: fair-coin, bent-coin",)),
        (("--run", "fair@1"), ("--run needs one figure",)),
        (("*", "--run", "fair@1"), ("--run needs one figure",)),
        (("--draw",), ("--draw needs figures",)),
        (("--restamp",), ("--restamp needs figures",)),
        (("fair-coin", "--draw", "--run", "fair@1"), ("--run and --draw exclude each other",)),
        (("fair-coin", "--jobs", "0"), ("jobs 0: must be at least 1",)),
        (("fair-coin", "--fast"), ("unrecognized arguments: --fast",)),
    ],
)
def test_bad_input(coins: Path, words: tuple[str, ...], fragments: tuple[str, ...]) -> None:
    assert_refused(figure(coins, *words), 2, *fragments)
    assert not (coins.parent / "out").exists()


def test_bad_paths(coins: Path, tmp_path: Path) -> None:
    assert_refused(
        call_fairlab("figure", "--studies", "/no/such.py"), 2, "/no/such.py: not a Python"
    )
    (tmp_path / "wrong.py").write_text("STUDIES = (1,\n")
    wrong = call_fairlab("figure", "--studies", str(tmp_path / "wrong.py"))
    assert_refused(wrong, 2, "wrong.py: SyntaxError")
    (tmp_path / "out").write_text("in the way")
    assert_refused(figure(coins, "fair-coin", "--run", "fair@1"), 2, "cannot write")
    assert_refused(
        call_fairlab("report", "--out", str(tmp_path / "new")), 2, "no figures in", "fairlab figure"
    )
    assert not (tmp_path / "new").exists()


def test_unknown_kernel_is_refused_before_any_run(coins: Path) -> None:
    done = figure(coins, "fair-coin", "--kernel", "1.2", "--quiet")
    assert done.returncode == 2 and "1.2" in done.stderr
    assert not (coins.parent / "out").exists()


@pytest.mark.parametrize("name", ["Fair", "a/b", "", ".hidden", "a b"])
def test_invalid_names_are_refused(coins: Path, tmp_path: Path, name: str) -> None:
    (study,) = gallery.choose(gallery.load(coins), ["fair-coin"])
    study.name = name
    with pytest.raises(LabError, match="is not a valid name"):
        Gallery(tmp_path, quick=True).runs(study)


def test_earlier_runs_of_a_claims_cases_are_seen(
    coins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = registry.of("fair-coin", coins)["heads"]
    made = {"case": "fair", "claims": {claim.id: claim.sha256}}
    runs = [made | {"seed": seed} for seed in (1, 2)]
    for earlier, expected in (
        ({"fair-coin": {"f*": [2, 3]}}, "before these runs"),
        ({"fair-coin": {"f*": [3], "tricky": [1]}, "bent-coin": {"*": [1]}}, "before its runs"),
    ):
        monkeypatch.setattr(registry, "earlier", lambda found=earlier: found)
        assert gallery.registered(claim, runs) == expected
    assert gallery.registered(claim, [*runs, {"case": "fair", "seed": 2}]) == "after its runs"


def test_a_claim_that_changed_after_its_runs_is_seen_for_good(ran: Path) -> None:
    """Also if the runs are repeated, which gives the same numbers."""
    out, claims = ran.parent / "out", ran.with_suffix(".toml")

    def state() -> str:
        assert figure(ran, "fair-coin", "--quiet").returncode in (0, 4)
        (claim,) = json.loads((out / "fair-coin.json").read_text())["claims"]
        return str(claim["registered"])

    assert state() == "before its runs"
    change(claims, "tolerance.absolute = 5", "tolerance.absolute = 6")
    assert state() == "changed after its runs"
    change(ran.with_name("mint.c"), "return 1", "return 2")
    done = figure(ran, "fair-coin", "--quiet")
    assert done.returncode in (0, 4) and state() == "changed after its runs"
    # A likely reason is written after the result.
    change(claims, "tolerance.absolute = 6", "tolerance.absolute = 5")
    change(claims, 'cases = ["fair"]\nseeds = 3\n', 'cases = ["fair"]\nseeds = 3\nwhy = "chance"\n')
    assert state() == "before its runs"
    # Numbers that differ are a new result.
    change(claims, "tolerance.absolute = 5", "tolerance.absolute = 7")
    change(ran, "return SCALE * heads", "return 1.5 * SCALE * heads")
    assert state() == "before its runs"
    # A claim that had another name was known under that.
    change(claims, 'commit = "0123abc"', 'commit = "0123abc"\nnow = "fair-coin/heads"')
    assert state() == "after its runs"


def test_known_numbers_keep_their_claims(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are published, in a new directory, too, and if a run keeps more numbers."""
    out, archive = ran.parent / "out", ran.parent / "data.tar.xz"
    path = out / "data/fair-coin/fair@1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"claims": {}}))
    with tarfile.open(archive, "w:xz") as made:
        made.add(out / "data", "data")

    def claims_of_a_run(out: Path, published: Path) -> set[str]:
        monkeypatch.setattr(gallery, "PUBLISHED", published)
        place = Gallery(out, quick=False, studies=ran)
        (study,) = gallery.choose(gallery.load(ran), ["fair-coin"])
        run = place.own_runs(study)[0]
        assert run.name == "fair@1"
        return set(place.execute(run, progress.Progress("none"))["claims"])

    new, none = ran.parent / "new", ran.parent / "none.tar.xz"
    assert claims_of_a_run(new, archive) == set()
    change(ran, '{"share": share(outcome)}', '{"share": share(outcome), "of": TOSSES}')
    assert claims_of_a_run(new, archive) == set()
    assert claims_of_a_run(out, none) == set()
    # Nothing was known; other numbers were.
    assert claims_of_a_run(ran.parent / "first", none) == {"heads"}
    change(ran, "SCALE = 100", "SCALE = 1")
    assert claims_of_a_run(new, archive) == {"heads"}
    none.write_text("no archive")
    with pytest.raises(UsageError, match=re.escape(f"{none}: ")):
        claims_of_a_run(new, none)


def test_runs_from_before_the_registration_say_so(ran: Path) -> None:
    path = ran.parent / "out/data/fair-coin/fair@2.json"
    stored = json.loads(path.read_text())
    del stored["claims"]
    path.write_text(json.dumps(stored))
    done = figure(ran, "fair-coin", "--draw", "--json")
    assert json.loads(done.stdout)[0]["claims"][0]["registered"] == "after its runs"


def test_measured_and_registered_claims_are_the_same(coins: Path) -> None:
    change(coins, 'return {"heads": ', 'return {"tails": ')
    done = figure(coins, "fair-coin", "--quiet")
    assert_refused(done, 1, "study fair-coin: measures 'tails', which is no registered claim")
    change(coins, 'return {"tails": ', 'return {} if not quick else {"heads": ')
    done = figure(coins, "fair-coin", "--quiet")
    assert_refused(done, 1, "study fair-coin: does not measure the claim 'heads'")


@pytest.mark.parametrize("name", ["slbn-abilene", "slbn-research", "slbn-levels", "slbn-tcp"])
def test_studies_of_one_form_run_it(name: str) -> None:
    """The paper's has the figure's name, and its links the paper's form."""
    found = {study.name: study for study in slbn.STUDIES}
    suffixes = {"": forms.PAPER, "-commit": forms.COMMIT}
    suffixes |= {"-windows": forms.WINDOWS} if name == "slbn-tcp" else {}
    for suffix, form in suffixes.items():
        study = found[name + suffix]
        assert isinstance(study, OneForm)
        assert study.form == form and study.title.startswith(f"{form}{', ours' * bool(suffix)}:")
        assert {claim.ours for claim in registry.of(study.name).values()} == {bool(suffix)}
        for case in study.cases(quick=False, seed=1):
            what = case.what
            if isinstance(what, TcpPlan):
                assert what.paper == (case.name == "slbn" and form == forms.PAPER)
                windows = {options["windows"] for options in what.experiment().agents.values()}
                on = {"on" if form == forms.WINDOWS else "off"}
                assert windows == (on if case.name == "slbn" else set())
                continue
            assert isinstance(what, Plan)
            words = (what.commit, what.epoch_ms, what.visits)
            assert words == ((False, 0, 0) if form == forms.PAPER else (True, 1000, 4096))
            assert form == forms.COMMIT or what.headroom == 0


# --- reports ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """A parsed HTML page."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in own:
            assert own["id"] and own["id"] not in self.ids
            self.ids.add(own["id"])
        if tag == "img":
            self.images.append(own)
        if tag == "a":
            self.links.append(own["href"] or "")
        self.addresses += [own[name] or "" for name in ("src", "href", "data") if name in own]
        assert not any(name.startswith("on") for name in own)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The coin studies, of which two are drawn and one is refused; tests only write reports."""
    made = copy_coins(tmp_path_factory.mktemp("drawn"))
    figure(made, "fair-coin", "bent-coin", "edge-coin", "--quiet")
    return made


def test_html_report(drawn: Path) -> None:
    out = drawn.parent / "out"
    where = ("--studies", str(drawn), "--out", str(out))
    done = call_fairlab("report", *where)
    assert done.returncode == 0, done.stderr
    assert (
        "2 of 5 figures, claims: 0 of 2 consistent, 1 inconsistent, 1 inconclusive" in done.stdout
    )
    assert "inconsistent: bent-coin: heads come up nearly always: published nearly" in done.stdout
    assert "not drawn: edge-coin: runs were refused: fair@1: it stood on its edge" in done.stdout
    assert "not drawn: slow-coin: 6 of 6 runs are missing" in done.stdout

    text = (out / "report.html").read_text()
    page = Page(text)
    names = {"fair-coin", "bent-coin", "edge-coin", "lost-coin", "slow-coin"}
    assert page.ids == names
    assert {link.removeprefix("#") for link in page.links} == names
    # Self-contained: no other files, no scripts, no network access.
    assert len(page.images) == 2 and "script" not in page.tags and "link" not in page.tags
    for address in page.addresses:
        assert address.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,", "#"))
    assert "@import" not in text and "url(" not in text
    assert all("heads come up" in (image["alt"] or "") for image in page.images)
    # Texts are escaped.
    for words in (
        "0of 1 consistent (0 of 1 values, 0 of 0 formulas, 0 of 0 orders), 0 inconsistent: values",
        "0of 1 consistent, 1 inconsistent: words",
        "2of 5 figures drawn", "Heads & <tails>", "Bernoulli: Ars conjectandi",
        "The coin is <thin>.", "The coin is <bent>", "Assumes: a <flat> table", "heads <%>",
        "45 to 55 %", "✗ inconsistent", "– inconclusive", "– not testable",
        "kernel release: 6.1-coin", "seeds 1, 2, 3",
        "it stood on its edge", "6 of 6 runs are missing",
    ):  # fmt: skip
        assert words in page.text, words
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text
    assert len(text) < 300_000

    assert call_fairlab("report", *where).returncode == 0
    assert (out / "report.html").read_text() == text
    summary = json.loads(call_fairlab("report", *where, "--json").stdout)
    assert summary["drawn"] == 2
    assert summary["verdicts"] == {
        "consistent": 0, "inconsistent": 1, "inconclusive": 1, "not testable": 1, "not run": 0,
    }  # fmt: skip
    assert [claim["figure"] for claim in summary["inconsistent"]] == ["bent-coin"]


def test_markdown_report(drawn: Path) -> None:
    out = drawn.parent / "out"
    where = ("--studies", str(drawn), "--out", str(out))
    assert call_fairlab("report", *where).returncode == 0
    lines = (out / "reproduction.md").read_text().splitlines()
    heads = [line for line in lines if line.startswith("- **Published ")]
    assert heads == [
        "- **Published values, formulas and orders**: 0 of 1 consistent"
        " (0 of 1 values, 0 of 0 formulas, 0 of 0 orders), 0 inconsistent, 1 inconclusive.",
        "- **Published words and curves without values, with our thresholds**:"
        " 0 of 1 consistent, 1 inconsistent, 0 inconclusive (1 not testable).",
    ]
    assert "### fair-coin: Heads & &lt;tails>" in lines
    assert "| page 3 | dice | missing |  |" in lines
    assert "- page 4: a coin has no third side." in lines
    assert "- fair-coin/tails, at 0123abc: heads are enough." in lines
    assert "- heads come up nearly always: The coin is &lt;bent>." in lines
    assert sum("words: no number; assumes: a &lt;flat> table |" in line for line in lines) == 1
    verdicts = [line.split(" | ")[-2] for line in lines if line.startswith("| heads come")]
    assert verdicts == ["inconclusive", "inconsistent"]
    assert f"| chance: {registry.BASES['chance']} | 0 | 0 | 1 | 0 | 0 |" in lines
    when = gallery.REGISTERED["before its runs"]
    assert f"| before its runs: {when} | 0 | 1 | 1 | 1 | 0 |" in lines
    assert "- bent-coin/heads, at 4567abc: the limit was 80 %." in lines
    assert "- edge-coin/heads, after 0123abc: coins have two sides." in lines
    (made,) = [line for line in lines if line.startswith("| fair-coin | ")]
    assert made.startswith("| fair-coin | 3 | 6 | ")
    # All rows of a table have the same number of cells.
    for above, line in pairwise(lines):
        if above.startswith("|") and line.startswith("|"):
            bars = [row.replace("\\|", "").count("|") for row in (above, line)]
            assert bars[0] == bars[1], line


def test_report_has_the_comparisons_beside_it(coins: Path) -> None:
    """Those in the directory `compare` beside the report's own."""
    figure(coins, "fair-coin", "--quiet")
    out, beside = coins.parent / "out", coins.parent / "compare"
    document = gallery.read_json(out / "fair-coin.json")
    assert document is not None
    document |= {"worse": ["slbn is <worse>"], "missing": {"red_in_cubic": "no such qdisc"}}
    document["table"] = {
        "columns": ["stack", "loss, %"],
        "rows": [["fq_codel", "1"], ["slbn", "2"]],
    }
    gallery.write_whole(beside / "lan.json", json.dumps(document))
    for form in ("svg", "png"):
        (beside / f"lan.{form}").write_bytes((out / f"fair-coin.{form}").read_bytes())
    assert call_fairlab("report", "--studies", str(coins), "--out", str(out)).returncode == 0
    comparisons.write(beside)
    row = "<tr><td>loss, %</td><td>1</td><td>2</td></tr>"
    for page in ((out / "report.html").read_text(), (beside / "report.html").read_text()):
        assert row in page and "slbn is &lt;worse&gt;" in page
        assert "red_in_cubic: not run: no such qdisc" in page
        assert html.image(beside / "lan") in page


def test_the_smaller_format_is_embedded(coins: Path) -> None:
    out = coins.parent / "out"
    figure(coins, "fair-coin", "--quick", "--quiet")
    place = Gallery(out, quick=True, studies=coins)
    (study,) = gallery.choose(gallery.load(coins), ["fair-coin"])
    sizes = {form: (out / f"fair-coin.{form}").stat().st_size for form in ("svg", "png")}
    assert html.image(place.out / study.name).startswith(f"data:image/{min(sizes, key=sizes.get)}")  # type: ignore[arg-type]
    (out / "fair-coin.svg").write_text("<svg>" + " " * 10**6 + "</svg>")
    assert html.image(place.out / study.name).startswith("data:image/png;base64,")


# --- the project's studies ----------------------------------------------------------------------


def test_names_are_unique() -> None:
    names = [study.name for study in ALL]
    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("study", ALL, ids=lambda study: str(study.name))
def test_studies_have_texts_and_runs(study: Study, tmp_path: Path) -> None:
    for text in (study.title, study.source, study.setting, *study.assumptions):
        assert text and text == text.strip()
    quick = Gallery(tmp_path, quick=True).runs(study)
    full = Gallery(tmp_path, quick=False).runs(study)
    assert 0 < len(quick) <= len(full)
    assert len({run.seed for run in full}) > 1, "one seed shows no spread"
    assert len({run.fingerprint for run in full}) == len(full)
    for run in full:
        assert json.loads(json.dumps(run.case.what.to_json()))
        if isinstance(run.case.what, Job):
            assert run.case.what.engine_seed() == run.seed


INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


@pytest.mark.parametrize("study", ALL, ids=lambda study: str(study.name))
def test_runs_declare_all_their_sources(study: Study) -> None:
    """Headers that declared C files include, and modules that a study imports to reduce a run."""
    elsewhere = ("", "include/compat", "include/uapi", "include")
    own = {path.resolve() for path in fingerprints.study_files(study)}
    needed = set().union(*map(imported, own)) - own - imported_for_drawing()
    for case in study.cases(quick=False, seed=1):
        if not case.what.sources():
            # A model, in the study's own module: its fingerprint has that.
            model = Path(inspect.getfile(type(case.what))).resolve()
            assert model in own
            assert imported(model) - own - imported_for_drawing() <= imported_for_records()
            continue
        declared = {path.resolve() for path in fingerprints.files(TOP, case.what.sources())}
        for path in declared:
            if path.suffix in (".c", ".h"):
                places = (path.parent, *(TOP / name for name in elsewhere))
                for name in INCLUDE.findall(path.read_text()):
                    found = [place / name for place in places if (place / name).is_file()][:1]
                    assert {one.resolve() for one in found} <= declared, f"{path}: {name}"
        assert needed <= declared, case.name


def imported(path: Path) -> set[Path]:
    """The files of the modules of the lab that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = (LAB / f"{name.replace('.', '/')}.py" for name in names)
    return {path for path in files if path.is_file()}


def imported_for_records() -> set[Path]:
    """Modules that start a run and store its record: no number of a model depends on them."""
    modules = (host, engine, exact, plain, progress)
    return {Path(inspect.getfile(module)).resolve() for module in modules}


def imported_for_drawing() -> set[Path]:
    """Modules that describe or draw a study: no number of a run depends on them."""
    return {
        Path(inspect.getfile(module)).resolve()
        for module in (plots, study_module, registry, verdict)
    }
