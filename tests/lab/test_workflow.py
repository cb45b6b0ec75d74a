# SPDX-License-Identifier: GPL-2.0
"""The workflow: Snakemake runs the coin studies of test_gallery.py, locally and on a cluster.

The cluster is emulated: commands with the names of Slurm's start each job at once, and store its
state.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.labtools import TOP, run_fairlab
from tests.lab.test_gallery import COINS, MINT, change

SNAKEFILE = TOP / "userspace" / "lab" / "Snakefile"
PROFILES = TOP / "userspace" / "lab" / "profiles"
LOCAL = ("--cores", "2", "--rerun-triggers", "mtime", "--rerun-incomplete", "--nolock")

# Shared by the emulated commands: a job is a directory with its state.
JOBS = """#!/bin/sh
set -eu
jobs={jobs}
start() {{
	number=$(ls "$jobs" | wc -l) && job=$jobs/$number && mkdir "$job" && echo running >"$job/state"
	( if "$@" >"$job/said" 2>&1; then echo good; else echo bad; fi >"$job/new"
	mv "$job/new" "$job/state" ) </dev/null >/dev/null 2>&1 &
}}
"""
SBATCH = """
for word; do script=$word; done
echo "$*" >>"$jobs.asked"
start sh "$script"
echo "$number"
"""
SCONTROL = """
[ "$1 $2 $3" = '-o show job' ]
case $(cat "$jobs/$4/state") in
good) state=COMPLETED ;; bad) state=TIMEOUT ;; *) state=RUNNING ;;
esac
echo "JobId=$4 JobName=run JobState=$state Reason=None"
"""


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    for name in ("mint.c", "bend.c"):
        (tmp_path / name).write_text(MINT)
    return Path(shutil.copy(COINS, tmp_path))


def snakemake(
    coins: Path, figures: str, *words: str, **config: str
) -> subprocess.CompletedProcess[str]:
    settings = {"out": str(coins.parent / "out"), "studies": str(coins), "figures": figures}
    given = [f"{name}={value}" for name, value in (settings | config).items()]
    return subprocess.run(
        ["snakemake", "--snakefile", str(SNAKEFILE), *words, "--config", *given],
        cwd=coins.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )


def jobs(said: str, figure: str = "fair-coin") -> set[str]:
    """The runs in Snakemake's output."""
    return {
        line.rpartition(" ")[2]
        for line in said.splitlines()
        if line.startswith("Job ") and f": {figure} " in line
    }


@pytest.mark.tier("all")
def test_only_stale_runs_are_repeated(coins: Path) -> None:
    out = coins.parent / "out"
    runs = {f"{name}@{seed}" for name in ("fair", "tricky") for seed in (1, 2, 3)}
    done = snakemake(coins, "fair-coin", *LOCAL, "--dry-run")
    assert done.returncode == 0, done.stdout
    assert jobs(done.stdout) == runs and re.search(r"^total +9 ", done.stdout, re.MULTILINE)
    assert not (out / "data").exists() and not (out / "report.html").exists()

    done = snakemake(coins, "fair-coin", *LOCAL)
    assert done.returncode == 0, done.stdout
    assert jobs(done.stdout) == runs and "9 of 9 steps (100%) done" in done.stdout
    assert {path.stem for path in (out / "data/fair-coin").iterdir()} == runs
    for name in ("fair-coin.png", "fair-coin.svg", "fair-coin.json", "report.html"):
        assert (out / name).stat().st_size > 0
    assert "1 of 5 figures, 1 of 1 claims hold" in done.stdout

    done = snakemake(coins, "fair-coin", *LOCAL)
    assert done.returncode == 0 and "Nothing to be done" in done.stdout, done.stdout

    # Change a source of one case; then another change, run without Snakemake.
    for old, new, by_hand in (("1", "2", False), ("2", "3", True)):
        change(coins.with_name("bend.c"), f"return {old}", f"return {new}")
        planned = snakemake(coins, "fair-coin", *LOCAL, "--dry-run")
        assert jobs(planned.stdout) == {"tricky@1", "tricky@2", "tricky@3"}, planned.stdout
        if by_hand:
            where = ("--studies", str(coins), "--out", str(out))
            assert run_fairlab("figure", "fair-coin", *where).returncode == 0
        done = snakemake(coins, "fair-coin", *LOCAL)
        assert done.returncode == 0, done.stdout
        assert jobs(done.stdout) == (set() if by_hand else jobs(planned.stdout))

    # A change of the drawing only: no run is repeated.
    change(coins, "axis.legend()", "axis.grid()")
    done = snakemake(coins, "fair-coin", *LOCAL)
    assert done.returncode == 0 and "fair-coin: drawing" in done.stdout, done.stdout
    assert not jobs(done.stdout)


@pytest.mark.tier("all")
def test_failures_do_not_stop_other_jobs(coins: Path) -> None:
    out = coins.parent / "out"
    done = snakemake(coins, "edge-coin,bent-coin", *LOCAL, "--keep-going", quick="true")
    assert done.returncode == 1
    assert "fairlab: it stood on its edge" in done.stdout
    # A claim that does not hold is no failure; a refused run is.
    assert (out / "bent-coin.png").exists() and not (out / "edge-coin.png").exists()
    assert not (out / "report.html").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"fast": "yes"},
            "no configuration fast; there are: quick, out, kernel, seeds, seed, figures",
        ),
        ({"figures": "coin"}, "no figure 'coin'; there are: fair-coin"),
    ],
)
def test_bad_configuration(coins: Path, config: dict[str, str], message: str) -> None:
    done = snakemake(coins, config.pop("figures", "*"), *LOCAL, **config)
    assert done.returncode == 1 and message in done.stdout
    assert not (coins.parent / "out").exists()


def cluster(directory: Path, **commands: str) -> Path:
    """Write these commands to DIRECTORY/bin; return the directory of their jobs."""
    place, found = directory / "bin", directory / "jobs"
    place.mkdir()
    found.mkdir()
    for name, text in commands.items():
        (place / name).write_text(JOBS.format(jobs=found) + text)
        (place / name).chmod(0o755)
    return found


@pytest.mark.tier("all")
def test_jobs_on_slurm(coins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = cluster(coins.parent, sbatch=SBATCH, scontrol=SCONTROL, scancel="exit 1\n")
    monkeypatch.setenv("PATH", f"{coins.parent / 'bin'}:{os.environ['PATH']}")
    profile = ("--profile", str(PROFILES / "slurm"), "--latency-wait", "5")
    done = snakemake(coins, "fair-coin", *profile, quick="true")
    assert done.returncode == 0, done.stdout
    assert "Submitted job" in done.stdout and (coins.parent / "out/report.html").exists()
    # Drawing is a local rule, not a job.
    asked = (coins.parent / "jobs.asked").read_text().splitlines()
    assert len(asked) == len(list(place.iterdir())) == 1
    for word in ("--parsable", "--job-name=run", "--cpus-per-task=1", "--mem=612", "--time=240"):
        assert word in asked[0].split()


@pytest.mark.tier("all")
def test_slurm_job_states(coins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake does not wait for ever for a job that Slurm has stopped."""
    place = cluster(coins.parent, scontrol=SCONTROL, sacct="exit 1\n")
    monkeypatch.setenv("PATH", f"{coins.parent / 'bin'}:{os.environ['PATH']}")

    def status(number: str) -> str:
        command = [str(PROFILES / "slurm" / "status"), number]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    for state, expected in (("running", "running"), ("good", "success"), ("bad", "failed")):
        (place / "0").mkdir(exist_ok=True)
        (place / "0" / "state").write_text(state)
        assert status("0") == f"{expected}\n"


@pytest.mark.tier("all")
def test_failed_job_on_slurm(coins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = cluster(coins.parent, sbatch=SBATCH, scontrol=SCONTROL, scancel="exit 1\n")
    monkeypatch.setenv("PATH", f"{coins.parent / 'bin'}:{os.environ['PATH']}")
    profile = ("--profile", str(PROFILES / "slurm"), "--latency-wait", "5")
    done = snakemake(coins, "edge-coin", *profile, quick="true")
    assert done.returncode == 1, done.stdout
    assert (place / "0" / "state").read_text() == "bad\n"
    assert "it stood on its edge" in (place / "0" / "said").read_text()
