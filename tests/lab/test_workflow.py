# SPDX-License-Identifier: GPL-2.0
"""The workflow: Snakemake runs the coin studies of test_gallery.py, locally and on a cluster.

The cluster has one node, this machine, with Debian's Slurm.
"""

import contextlib
import getpass
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import launch
from tests.lab.labtools import TOP, run_fairlab
from tests.lab.test_gallery import change, copy_coins

SNAKEFILE = TOP / "userspace" / "lab" / "Snakefile"
PROFILES = TOP / "userspace" / "lab" / "profiles"
LOCAL = ("--cores", "2", "--rerun-triggers", "mtime", "--rerun-incomplete", "--nolock")

# A cluster of one node, with Debian's Slurm.
SLURM = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthInfo=socket={place}/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    return copy_coins(tmp_path)


def snakemake(
    coins: Path, figures: str, *words: str, **config: str
) -> subprocess.CompletedProcess[str]:
    settings = {"out": str(coins.parent / "out"), "studies": str(coins), "figures": figures}
    given = [f"{name}={value}" for name, value in (settings | config).items()]
    return launch.run(
        ["snakemake", "--snakefile", str(SNAKEFILE), *words, "--config", *given],
        cwd=coins.parent,
        stderr=subprocess.STDOUT,
        timeout=600,
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
    assert "1 of 5 figures, claims: 0 of 1 consistent, 0 inconsistent, 1 inc" in done.stdout

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


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Path]:
    """A Slurm of one node; the directory of its configuration, which SLURM_CONF names."""
    with contextlib.ExitStack() as stack:
        # Not below pytest's directory: the path of a socket is short.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        for name in ("state", "spool"):
            (place / name).mkdir()
        (place / "key").write_bytes(os.urandom(1024))
        (place / "key").chmod(0o600)
        host, user = socket.gethostname().partition(".")[0], getpass.getuser()
        ports, cpus = free_ports(2), os.cpu_count()
        (place / "slurm.conf").write_text(
            SLURM.format(place=place, host=host, user=user, ports=ports, cpus=cpus)
        )
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(
            "SLURM_CONF", str(place / "slurm.conf")
        )
        files = {"key-file": "key", "socket": "munge", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{name}={place / file}" for name, file in files.items()]
        munge = ["munged", "--foreground", "--force", *options, f"--log-file={place}/munge.log"]
        for command in (munge, ["slurmctld", "-D", "-i"], ["slurmd", "-D"]):
            log = stack.enter_context((place / f"{command[0]}.log").open("w"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if command is munge:
                wait_for(lambda: (place / "munge").exists())
        wait_for(lambda: "idle" in output("sinfo", "--noheader", "--format=%T"))
        yield place


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


PROFILE = ("--profile", str(PROFILES / "slurm"), "--latency-wait", "5")


def submitted(said: str) -> list[str]:
    """The numbers of the jobs in Snakemake's output."""
    return re.findall(r"external jobid '(\d+)'", said)


@pytest.mark.tier("all")
@pytest.mark.usefixtures("slurm")
def test_jobs_on_slurm(coins: Path) -> None:
    done = snakemake(coins, "fair-coin", *PROFILE, quick="true")
    assert done.returncode == 0, done.stdout
    assert (coins.parent / "out/report.html").exists()
    # Drawing is a local rule, not a job.
    (number,) = submitted(done.stdout)
    job = output("scontrol", "-o", "show", "job", number)
    for word in ("JobName=run", "JobState=COMPLETED", "CPUs/Task=1", "TimeLimit=04:00:00"):
        assert word in job.split()
    assert "mem=612M" in job


@pytest.mark.tier("all")
@pytest.mark.usefixtures("slurm")
def test_slurm_job_states() -> None:
    """Snakemake does not wait for ever for a job that Slurm has stopped."""

    def submit(command: str) -> str:
        return output("sbatch", "--parsable", "--output=/dev/null", "--wrap", command).strip()

    def status(number: str) -> str:
        return output(str(PROFILES / "slurm" / "status"), number).strip()

    good, bad, long = submit("true"), submit("exit 3"), submit("sleep 600")
    wait_for(lambda: [status(number) for number in (good, bad)] == ["success", "failed"])
    assert status(long) == "running"
    subprocess.run(["scancel", long], check=True)
    wait_for(lambda: status(long) == "failed")


@pytest.mark.tier("all")
@pytest.mark.usefixtures("slurm")
def test_failed_job_on_slurm(coins: Path) -> None:
    done = snakemake(coins, "edge-coin", *PROFILE, quick="true")
    assert done.returncode == 1, done.stdout
    (number,) = submitted(done.stdout)
    log = coins.parent / f".snakemake/log/slurm-{number}.out"
    assert "it stood on its edge" in log.read_text()
