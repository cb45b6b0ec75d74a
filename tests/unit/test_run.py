# SPDX-License-Identifier: GPL-2.0
"""tests/run in made-up trees: repeated tests, their commands, splats, CPU time, seeds.

A tree is a directory with copies of tests/run and tests/conftest.py, its own tests, and a
scripts/vm that runs the command on the host.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression
from fairvm import cli, errors

from tests import launch

TOP = Path(__file__).resolve().parents[2]

#: Runs the tree's tests/run with other stages; it may use all functions of tests/run.
DRIVER = """
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
loader = SourceFileLoader("run", "tests/run")
run = module_from_spec(spec_from_loader("run", loader))
sys.modules["run"] = run
loader.exec_module(run)
run.STAGES = dict.fromkeys(run.TIERS, lambda: iter(()))
run.STAGES["check"] = lambda: iter([STAGES])
sys.exit(run.main())
"""
ON_HOST = 'run.on_host("unit", "check", 60)'
MACHINE = ["--engine", "virtual", "--seed", "0", "--mem", "2G"]
IN_VM = f'run.in_vm("guest", {MACHINE}, ["tests/unit"], 60, ())'

#: As scripts/vm, but the host is its guest, the file `splat` its kernel's splat, and the lines of
#: the file `emulator`, one for each run, are its emulator's failures.
VM = """\
#!/bin/sh
printf '%s ' "$@" >>machines
echo >>machines
while [ "$1" != -- ]; do shift; done
shift
"$@"
status=$?
if [ -e splat ]; then
    echo 'vm: the kernel splatted (full log: x)' >&2
    [ $status != 0 ] || status=70
fi
if [ -s emulator ]; then
    echo "vm: $(head -n 1 emulator)" >&2
    sed -i 1d emulator
    status=125
fi
exit $status
"""

#: The first call fails, later ones do not.
ONCE = """
from pathlib import Path

def once(name):
    seen = Path("seen-" + name)
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
"""


@dataclass
class Ran:
    """A finished tests/run."""

    status: int
    output: str

    @property
    def last(self) -> str:
        """The last line, without the duration."""
        return self.output.splitlines()[-1].rpartition(" (")[0]

    def listed(self, word: str) -> list[tuple[str, str]]:
        """The verdicts that begin with WORD, and their commands."""
        return re.findall(rf"^{word}: (.*)\n    (.*)$", self.output, re.MULTILINE)


class Tree:
    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "tests/unit").mkdir(parents=True)
        for name in ("run", "conftest.py", "pytest.ini"):
            shutil.copy(TOP / "tests" / name, top / "tests")
        (top / "scripts").mkdir()
        (top / "scripts/vm").write_text(VM)
        (top / "scripts/vm").chmod(0o755)

    def test(self, text: str) -> None:
        (self.top / "tests/unit/test_made_up.py").write_text(ONCE + textwrap.dedent(text))

    def run(self, *stages: str, **environment: str) -> Ran:
        driver = DRIVER.replace("STAGES]", ", ".join(stages) + "]")
        done = launch.run(
            ["/usr/bin/python3", "-c", driver, "check"],
            cwd=self.top,
            environment=environment,
            stderr=subprocess.STDOUT,
        )
        return Ran(done.returncode, done.stdout)

    def durations(self) -> dict[str, dict[str, float]]:
        text = (self.top / "build/tests/durations.json").read_text()
        found: dict[str, dict[str, float]] = json.loads(text)
        return found

    def paste(self, command: str) -> subprocess.CompletedProcess[str]:
        return launch.run(command, shell=True, cwd=self.top)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def load() -> Any:
    """tests/run of this tree as a module."""
    loader = importlib.machinery.SourceFileLoader("run", str(TOP / "tests/run"))
    spec = importlib.util.spec_from_loader("run", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # dataclasses look their module up.
        patch.setitem(sys.modules, "run", module)
        loader.exec_module(module)
    return module


def test_test_that_passes_when_repeated_is_unstable(tree: Tree) -> None:
    tree.test("""
        def test_noise(): once("noise")
        def test_quiet(): pass
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (0, "2 passed, 0 failed"), ran.output
    assert ran.listed("failed") == []
    ((what, command),) = ran.listed("unstable")
    assert what == (
        "unit: tests/unit/test_made_up.py::test_noise failed, and passed when repeated alone"
    )
    assert command == "/usr/bin/python3 -m pytest -q tests/unit/test_made_up.py::test_noise"
    # The unstable tests are the last that is listed.
    assert ran.output.splitlines()[-3] == f"    {command}"


def test_test_that_fails_twice_fails(tree: Tree) -> None:
    tree.test("""
        def test_noise(): once("noise")
        def test_wrong(): assert not "wrong"
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (1, "1 passed, 1 failed"), ran.output
    assert len(ran.listed("unstable")) == 1
    ((what, command),) = ran.listed("failed")
    assert what == "unit: tests/unit/test_made_up.py::test_wrong"
    assert tree.paste(command).returncode == 1
    assert ran.output.index("\nfailed: ") < ran.output.index("\nunstable: ")


def test_repetitions_run_alone_after_all_stages(tree: Tree) -> None:
    tree.test('def test_noise(): once("noise")')
    wait = "until [ -e seen-noise ]; do sleep 0.1; done; sleep 1"
    slow = f'run.Stage("slow", ["sh", "-c", {wait!r}], 60, 60)'
    ran = tree.run(ON_HOST, slow)
    assert ran.status == 0, ran.output
    order = ["== unit: 0 passed, 1 failed", "== slow: done", "-- unit-repeat-1", "\nunstable: "]
    places = [ran.output.index(text) for text in order]
    assert places == sorted(places)


def test_skipped_repetition_is_no_success(tree: Tree) -> None:
    tree.test("""
        import pytest
        def test_skips():
            if Path("seen-skips").exists():
                pytest.skip("not again")
            once("skips")
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (1, "0 passed, 1 failed"), ran.output


def test_error_of_a_fixture_is_repeated(tree: Tree) -> None:
    tree.test("""
        import pytest
        @pytest.fixture
        def broken():
            yield
            once("fixture")
        def test_body_and_fixture(broken): once("body")
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (0, "1 passed, 0 failed"), ran.output
    assert len(ran.listed("unstable")) == 1


NASTY = [
    "a b",
    "[x]",
    "a/b",
    "50%",
    "it's",
    'say "hi"',
    "$HOME `id`",
    "a::b",
    "\\",
    "é",
    "-m",
    "a;b",
]


def test_commands_of_nasty_ids_can_be_pasted(tree: Tree) -> None:
    tree.test(f"""
        import pytest
        @pytest.mark.parametrize("number", range({len(NASTY)}), ids={NASTY!r})
        def test_id(number):
            print("number", number)
            assert False
    """)
    commands = [command for _, command in tree.run(ON_HOST).listed("failed")]
    assert len(commands) == len(NASTY)
    assert "number 0\n" in tree.paste(commands[0]).stdout
    # The others together, since pytest takes a while to start.
    pytest_alone = "/usr/bin/python3 -m pytest -q "
    tests = [command.removeprefix(pytest_alone) for command in commands]
    output = tree.paste(pytest_alone + " ".join(tests)).stdout
    assert f"{len(NASTY)} failed in" in output, output
    assert re.findall("^number ([0-9]+)$", output, re.M) == [str(n) for n in range(len(NASTY))]


def test_guest_repeats_on_the_same_machine(tree: Tree) -> None:
    tree.test("""
        import pytest
        @pytest.mark.parametrize("what", ["a b"])
        def test_noise(what): once("noise")
    """)
    ran = tree.run(IN_VM)
    assert ran.status == 0, ran.output
    first, second = (tree.top / "machines").read_text().splitlines()
    machine = f"{' '.join(MACHINE)} --timeout 1800 --env PYTHONDONTWRITEBYTECODE=1"
    assert first.startswith(f"{machine} --rw ")
    pytest_in_guest = "-- /usr/bin/python3 -m pytest -q --basetemp=/run/pytest"
    ((_, command),) = ran.listed("unstable")
    assert (
        command == f"scripts/vm {machine} {pytest_in_guest}"
        " 'tests/unit/test_made_up.py::test_noise[a b]'"
    )
    # It is what ran, and it works.
    assert second.split() == command.replace("'", "").split()[1:]
    assert "1 passed" in tree.paste(command).stdout


@pytest.mark.parametrize("fails", [True, False], ids=["with a failed test", "without"])
def test_splat_is_not_excused(tree: Tree, fails: bool) -> None:
    tree.test(f"def test_noise(): {'once(str())' if fails else 'pass'}")
    (tree.top / "splat").touch()
    ran = tree.run(IN_VM)
    assert ran.status == 1 and " 1 failed" in ran.last, ran.output
    assert "repeat-1" not in ran.output and ran.listed("unstable") == []
    ((what, _),) = ran.listed("failed")
    assert "a kernel splatted" in what


@pytest.mark.parametrize(
    ("says", "passes", "runs"),
    [
        (["the emulator failed: x"], True, 2),
        (["the emulator failed: x", "the emulator failed: x"], False, 2),
        (["the guest did not boot"], False, 1),
    ],
    ids=["once", "twice", "another error"],
)
def test_stage_runs_again_if_the_emulator_failed(
    tree: Tree, says: list[str], passes: bool, runs: int
) -> None:
    tree.test("def test_it(): pass")
    (tree.top / "emulator").write_text("".join(f"{line}\n" for line in says))
    ran = tree.run(IN_VM)
    assert (ran.status == 0) == passes, ran.output
    assert len((tree.top / "machines").read_text().splitlines()) == runs
    again = [("guest, which ran once more", "tests/run --stage guest")]
    assert ran.listed("emulator failed") == (again if runs == 2 else [])


def test_splat_is_what_the_vm_prints() -> None:
    module = load()
    assert errors.EXIT_MACHINE == module.EXIT_MACHINE
    assert f"vm: {cli.EMULATOR_FAILED}" == module.EMULATOR_FAILED
    assert errors.EXIT_SPLAT == module.EXIT_SPLAT
    assert f'complain(f"{module.SPLAT} (' in Path(str(cli.__file__)).read_text()


def test_crash_is_a_failure(tree: Tree) -> None:
    """A stage that dies is not repeated, nor are its tests, though they would pass."""
    tree.test("""
        import os
        def test_noise(): once("noise")
        def test_crash(): os.abort()
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (1, "0 passed, 1 failed"), ran.output
    assert "unit: ended by SIGABRT\n" in ran.output and "repeat-1" not in ran.output
    assert [what for what, _ in ran.listed("failed")] == [
        "unit: ended by SIGABRT",
        "unit: tests/unit/test_made_up.py::test_noise"
        " (not repeated: the stage did not run to its end)",
    ]


def test_timeout_is_a_failure(tree: Tree) -> None:
    tree.test("""
        import time
        def test_slow(): time.sleep(100)
    """)
    ran = tree.run('run.on_host("unit", "check", 60, 1)')
    assert (ran.status, ran.last) == (1, "0 passed, 1 failed"), ran.output
    assert ran.listed("failed") == [("unit: not finished after 1 s", "tests/run --stage unit")]


def test_many_failures_are_not_repeated(tree: Tree) -> None:
    tree.test("""
        import pytest
        @pytest.mark.parametrize("number", range(11))
        def test_noise(number): once(str(number))
    """)
    ran = tree.run(ON_HOST)
    assert (ran.status, ran.last) == (1, "0 passed, 11 failed"), ran.output
    assert "no test will be repeated: 11 failed tests are not noise; the limit is 10" in ran.output
    assert len(ran.listed("failed")) == 11


def test_kernels_that_check_themselves_are_not_asked_twice(tree: Tree) -> None:
    tree.test('def test_noise(): once("noise")')
    ran = tree.run('run.on_host("unit", "check", 60, repeats=False)')
    assert (ran.status, ran.last) == (1, "0 passed, 1 failed"), ran.output
    module = load()
    assert not any(stage.repeats for stage in module.debug_stages() if stage.one)


def test_budgets_count_cpu_time(tree: Tree) -> None:
    """Of processes for which nobody waits, too, as for a killed machine; sleeping is free."""
    tree.test("def test_quiet(): pass")
    burn = "import os; [None for _ in iter(lambda: sum(os.times()[:2]) < 2, False)]"
    unseen = (
        "import signal, subprocess; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        f"subprocess.Popen(['/usr/bin/python3', '-c', {burn!r}]).wait()"
    )
    stages = (
        f'run.Stage("busy", ["/usr/bin/python3", "-c", {unseen!r}], 0, 60)',
        'run.Stage("idle", ["sleep", "1"], 1, 60)',
    )
    ran = tree.run(ON_HOST, *stages)
    assert ran.status == 0, ran.output
    assert re.search(
        r"^== busy: done \([12] s of CPU time, over its budget of 0 s\)$", ran.output, re.M
    )
    assert re.search(r"^== idle: done \(0 s of CPU time\)$", ran.output, re.M)
    assert re.search(r"^busy +[12] +0 +\d+  over$", ran.output, re.M), ran.output
    times = tree.durations()
    assert 1 <= times["busy"]["cpu"] <= 3
    assert times["idle"]["cpu"] < 0.5 and times["idle"]["wall"] >= 0.9
    assert times["check"]["cpu"] >= times["busy"]["cpu"]


def test_stages_in_virtual_time_have_a_seed() -> None:
    module = load()
    stages = [stage for make in module.STAGES.values() for stage in make()]
    virtual = {stage.name: stage for stage in stages if "virtual" in stage.command}
    assert {"kernel-virtual", "kernel-functions", "kernel-debug", "virtual-debug"} <= virtual.keys()
    for stage in virtual.values():
        for command in (stage.command, stage.one):
            assert "--seed 0" in " ".join(command)


def test_seeds_add_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load()
    monkeypatch.delenv("SEEDS", raising=False)
    without = [stage.name for stage in module.stages_of("all")]
    monkeypatch.setenv("SEEDS", "1, 2,18446744073709551615,2")
    stages = {stage.name: stage for stage in module.stages_of("all")}
    added = [name for name in stages if name not in without]
    seeds = ["1", "2", "18446744073709551615"]
    halves = ("kernel-virtual", "kernel-functions")
    assert added == [f"{half}-seed-{seed}" for seed in seeds for half in halves]
    for name in added:
        half, _, seed = name.partition("-seed-")
        command = " ".join(stages[name].command).replace(name, half)
        plain = " ".join(stages[half].command)
        assert command.replace(f"--seed {seed}", "--seed 0") == plain
    assert not any("seed" in stage.name for stage in module.stages_of("test"))


def test_tests_do_not_see_seeds(tree: Tree) -> None:
    tree.test("""
        import os
        def test_environment(): assert "SEEDS" not in os.environ
    """)
    ran = tree.run(ON_HOST, SEEDS="1,2")
    assert ran.status == 0, ran.output


@pytest.mark.parametrize(
    "seeds", ["1,x", "1,,2", "-1", "18446744073709551616", "1 2", "0x1", "1.0"]
)
def test_bad_seeds_are_an_error(seeds: str) -> None:
    done = launch.run([TOP / "tests/run", "all"], environment={"SEEDS": seeds})
    assert done.returncode == 2 and not done.stdout
    assert f"SEEDS={seeds}: '" in done.stderr and "integers from 0 to 2^64 - 1" in done.stderr


@pytest.mark.parametrize("words", [["all"], ["--stage", "packages-trixie"]])
def test_stages_of_root_are_refused_to_others(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is run, not after hours."""
    module = load()
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["run", *words])
    monkeypatch.setattr(module, "schedule", lambda *_: pytest.fail("stages were started"))
    with pytest.raises(SystemExit, match="2"):
        module.main()
    assert re.search(r"only root can run .*packages-trixie", capsys.readouterr().err)


#: Rooms whose tests run on the host, each tier in a stage of its own.
ROOMS = "figures fuzz install lab model second slbnctl slbnsim style tc unit virtual vm".split()


@pytest.mark.parametrize("room", ROOMS)
def test_each_marked_tier_has_a_stage(room: str) -> None:
    """Tests of a tier without a stage never run."""
    texts = [path.read_text() for path in (TOP / "tests" / room).rglob("test_*.py")]
    tiers = {tier for text in texts for tier in re.findall(r'mark\.tier\("(\w+)"\)', text)}
    commands = [s.command for s in load().stages_of("all") if f"tests/{room}" in s.command]
    ran = {
        word.removeprefix("--tier=") for words in commands for word in words if "--tier=" in word
    }
    # A stage without a tier runs all.
    every = any("--tier=" not in " ".join(words) for words in commands)
    assert commands and (every or tiers <= ran)


@pytest.mark.parametrize("tier", ["test", "all"])
@pytest.mark.parametrize("marks", [{"stock"}, {"virtual"}, {"stock", "virtual"}, set()])
def test_each_kernel_test_has_a_stage(marks: set[str], tier: str) -> None:
    """In `make test-all`, whatever its marks are; those marked `stock`, on each kernel."""
    ran = set()
    for stage in load().stages_of("all"):
        words = stage.command
        if "tests/kernel" in words and f"--tier={'all' if tier == 'test' else 'test'}" not in words:
            expression = words[len(words) - 1 - words[::-1].index("-m") + 1]
            if Expression.compile(expression).evaluate(lambda name, **_: name in marks):
                ran.add(stage.name)
    assert ran
    assert "stock" not in marks or ran >= {f"stock-{version}" for version in load().KERNELS}
