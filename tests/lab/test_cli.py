# SPDX-License-Identifier: GPL-2.0
"""The command line: help, bad input, and the cleanup of stopped runs."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import launch
from tests.lab.labtools import FAIRLAB, TOP, assert_refused, call_fairlab, run_fairlab

COMMANDS = ("run", "check", "backbone", "list", "plot", "compare", "figure", "report", "flent")
RUN = ("run", "dumbbell", "--flows", "reno")


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)])
def test_help(words: tuple[str, ...]) -> None:
    done = call_fairlab(*words, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "exit status:" in done.stdout and "usage: fairlab" in done.stdout


def test_all_options_are_in_the_man_page() -> None:
    page = (TOP / "docs" / "man" / "fairlab.1").read_text().replace("\\-", "-")
    for command in COMMANDS:
        text = call_fairlab(command, "--help").stdout
        options = set(re.findall(r"--[a-z-]+", text)) - {"--help"}
        assert command in ("list", "plot") or len(options) >= 3
        for option in options:
            assert option in page, option


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ((), ("required: COMMAND",)),
        (("fly",), ("invalid choice: 'fly'", "run", "check", "list", "plot")),
        (("backbone", "--time", "34"), ("time '34': must be whole seconds, 35 to 3600",)),
        (
            ("backbone", "--variants", "slbn,red"),
            ("no variant 'red'; there are: slbn, fq_codel, drr_fq",),
        ),
        (
            ("backbone", "--paths", "ecmp,asymmetric"),
            ("no paths 'ecmp,asymmetric'; there are: 'symmetric'", "'asymmetric,ecmp'"),
        ),
        (
            ("backbone", "--rotate-keys", "4"),
            ("--rotate-keys '4': must be whole seconds, 5 to half of --time",),
        ),
        (("backbone", "--rotate-keys", "31"), ("must be whole seconds, 5 to half of --time",)),
        (("backbone", "--rotate-keys", "soon"), ("'soon'",)),
        (("backbone", "--without", "nyc,bos"), ("no node 'bos'; there are: sea, snv, lax",)),
        (("backbone", "--without", "nyc,nyc:pfifo"), ("node 'nyc' is named twice",)),
        (
            ("backbone", "--without", "nyc:red"),
            ("no qdisc 'red' for node 'nyc'; there are: drr_fq, pfifo",),
        ),
        (
            ("backbone", "--variants", "pfifo", "--without", "nyc"),
            ("--rotate-keys and --without change the variant slbn: add it to --variants",),
        ),
        ((*RUN, "--fast"), ("unrecognized arguments: --fast",)),
        ((*RUN, "--rat", "5mbit"), ("unrecognized arguments: --rat",)),
        (("run", "dumbbell"), ("required: --flows",)),
        (
            ("run", "ring", "--flows", "reno"),
            ("no topology 'ring'; there are: dumbbell",),
        ),
        (("run", "dumbbell", "--flows", "b!c"), ("flow 'b!c': must be CC",)),
        ((*RUN, "--rate", "50"), ("rate '50': needs a unit", "50mbit")),
        ((*RUN, "--rtt", "60"), ("time '60': needs a unit", "60ms")),
        ((*RUN, "--buffer", "big"), ("buffer 'big': must be like 1bdp",)),
        ((*RUN, "--buffer", "0.001bdp"), ("buffer 0.001bdp is 375 bytes",)),
        ((*RUN, "--time", "2.5"), ("must be whole seconds",)),
        ((*RUN, "--time", "10", "--warmup", "9.5"), ("warm-up 9.5 s",)),
        ((*RUN, "--seed", "x"), ("invalid int value: 'x'",)),
        ((*RUN, "--qdisc", "left:fq"), ("no link 'left'; there are: bottleneck, reverse",)),
        (
            (*RUN, "--qdisc", "sfq", "--qdisc", "drr_fq"),
            ("more than one qdisc for the link 'bottleneck'",),
        ),
        (
            (*RUN, "--buffer", "50p", "--qdisc", "drr_fq,limit=100p"),
            ("'drr_fq limit 100' has limit 100, which is not the buffer 50p",),
        ),
        ((*RUN, "--qdisc", "bfifo,limit=100"), ("buffer limit 100 is 100 bytes: must hold",)),
        ((*RUN, "--background", "half"), ("background 'half': must be a fraction",)),
        ((*RUN, "--background", "0.96"), ("must be above 0 and at most 0.95",)),
        ((*RUN, "--background-mean", "9kb"), ("--background-mean needs --background",)),
        (
            (*RUN, "--background", "0.5", "--background-sizes", "pareto:1"),
            ("the mean size is infinite",),
        ),
        (
            (*RUN, "--background", "0.5", "--background-kind", "packets", "--background-peak", "1"),
            ("--background-peak is for the background kind flows",),
        ),
        ((*RUN, "--background", "0.5", "--background-mean", "10"), ("size '10': needs a unit",)),
        ((*RUN, "--engine", "cloud"), ("no engine 'cloud'; there are: vm, virtual, host",)),
        (
            (*RUN, "--engine", "host", "--kernel", "6.1"),
            ("--kernel is for the engine vm",),
        ),
        ((*RUN, "--engine", "host", "--steady"), ("--steady is for the engine vm",)),
        ((*RUN, "--jitter"), ("--jitter is for the engine virtual",)),
        (("plot", "/nonexistent"), ("/nonexistent: no result there",)),
    ],
)
def test_bad_input(arguments: tuple[str, ...], fragments: tuple[str, ...], tmp_path: Path) -> None:
    assert_refused(call_fairlab(*arguments, cwd=tmp_path), 2, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_names_that_the_system_refuses() -> None:
    name = "x" * 5000
    for words in (("mininet", name), ("compare", "--publish", name), ("verify", name)):
        assert_refused(call_fairlab(*words), 1, f"{name}: File name too long")


def test_output_that_cannot_be_written() -> None:
    """While it is printed, or at the end."""
    for target, word in (("full", "compare"), ("pipe", "--help")):
        if target == "full":
            output = os.open("/dev/full", os.O_WRONLY)
        else:
            reader, output = os.pipe()
            os.close(reader)
        done = launch.run([FAIRLAB, word], stdout=output)
        os.close(output)
        reason = "No space left on device" if target == "full" else "Broken pipe"
        assert re.fullmatch(f"fairlab: (standard|the) output.*: {reason}\n", done.stderr)
        assert done.returncode == 1


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Files' names are octets; the command prints those of tests."""
    path = tmp_path / os.fsdecode(b"\xff.toml")
    path.write_text('[[flow]]\ncc = "reno"\n')
    done = run_fairlab("test", "--list", str(path))
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == f"{tmp_path}/\\udcff.toml, seed 1\n"


def test_unknown_kernel_is_refused(tmp_path: Path) -> None:
    done = run_fairlab(*RUN, "--kernel", "1.2", "--quiet", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert "1.2" in line and "6.12" in line
    assert list((tmp_path / "results").iterdir()) == []


def test_engine_host_needs_root(tmp_path: Path) -> None:
    # As user nobody, with the capability to read root's directories.
    reader = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    nobody = ("setpriv", "--reuid=65534", "--clear-groups", *reader) if os.geteuid() == 0 else ()
    done = run_fairlab(*RUN, "--engine", "host", "--out", str(tmp_path / "new"), before=nobody)
    assert_refused(done, 3, "the engine 'host' needs root")
    assert list(tmp_path.iterdir()) == []


def test_engine_host_needs_the_network_of_the_machine(tmp_path: Path) -> None:
    """In a namespace or a container there is one line, and no traceback."""
    inside = ("unshare", "--map-root-user", "--user", "--net")
    done = run_fairlab(*RUN, "--engine", "host", "--out", str(tmp_path / "new"), before=inside)
    assert_refused(done, 3, "needs the machine's own network namespace", "--engine virtual")
    assert list(tmp_path.iterdir()) == []


def test_engine_vm_needs_the_tree(tmp_path: Path) -> None:
    shutil.copytree(TOP / "userspace" / "lab" / "fairlab", tmp_path / "fairlab")
    done = launch.run(["/usr/bin/python3", "-m", "fairlab", *RUN, "--quiet"], cwd=tmp_path)
    assert_refused(done, 3, "the engine 'vm' is part of the project's tree")


def children() -> set[str]:
    """All processes: PID and command line."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found.add(f"{entry.name} {(entry / 'cmdline').read_bytes().decode(errors='replace')}")
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_leaves_no_process_or_file(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [str(FAIRLAB), *RUN, "--steady", "--out", str(tmp_path / "results")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Its own process group, which gets the signal, as from a terminal's Ctrl-C.
        start_new_session=True,
    )
    mark = str(tmp_path)
    deadline = time.monotonic() + 120
    while not any("qemu" in line and mark in line for line in children()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output, complaint = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert output == ""
    assert complaint.strip().splitlines()[-1] == f"fairlab: stopped by {number.name}"
    assert [line for line in children() if mark in line] == []
    assert list((tmp_path / "results").iterdir()) == []
