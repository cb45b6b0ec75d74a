# SPDX-License-Identifier: GPL-2.0
"""`fairlab verify`: repeat stored runs in virtual time, and compare them packet by packet.

Runs of slbnsim and of models, which have no packets, are compared by their whole answer.
"""

import argparse
import contextlib
import json
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fairlab.cli.measure import MEASURERS
from fairlab.cli.options import Command, add_print, progress_of
from fairlab.model.errors import CannotRunError, ReportedError, UsageError
from fairlab.results import store
from fairlab.run import engine, exact
from fairlab.run.engine import JOB
from fairlab.run.progress import Progress
from fairlab.slbn import simulated

EXACT, DIFFERS = "exact", "differs"
NOT_COMPARABLE, NOT_RECORDED = "not comparable", "not recorded"
#: Choices between stored runs, unless --seed says one.
MAX_SEED = 10**6
#: What of a record belongs to a part of the tree, by the name of the input.
PARTS = (
    (re.compile(r"module (\w+)"), "{}"),
    (re.compile(r"built q_(\w+)\.so"), "sch_{}"),
    (re.compile(r"built slbn(?:d|ctl)"), "userspace/slbnd"),
    (re.compile(r"built (?!q_)\w+"), "userspace/traffic"),
    (re.compile(r"source (userspace/lab/fairlab/(?:mininet|slbn|compare))/\*\.py"), "{}"),
)


@dataclass
class Verdict:
    """The comparison of a stored run with its repetition."""

    run: str
    verdict: str
    packets: int = 0
    #: The first packet that differs, counted from 0, and what it is here; None: unknown.
    first: int | None = None
    packet: str = ""
    reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.run}: {self.verdict}"
        if self.verdict == EXACT:
            text += f", {self.packets} packets" if self.packets else ", the same answer"
        return text + "".join(f"\n  {reason}" for reason in self.reasons)


def add(command: Command) -> None:
    parser = command(
        "verify",
        "repeat stored runs in virtual time, and compare all packets with their times",
        verify,
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        metavar="RUN",
        help="a result's directory, or a figure's data/NAME/CASE@SEED.json (all below --out)",
    )
    parser.option("--out", "DIR", "stored runs", Path("results"), type=Path)
    part = "only a random part of the runs that have a record, at least one"
    parser.option("--share", "PERCENT", part, type=float)
    parser.option("--seed", "N", "of the choice with --share (a random one)", type=int)
    ended = (
        f"end a run that takes longer ({engine.BOOT_TIMEOUT} and"
        f" {engine.SECONDS_PER_SECOND} for each second of the run)"
    )
    parser.add_argument("--timeout", type=int, default=0, metavar="SECONDS", help=ended)
    add_print(parser)


def check_arguments(words: Sequence[str]) -> None:
    """Raise ValueError unless WORDS are slbnsim's of an experiment."""
    if words[:1] != ["experiment"]:
        raise ValueError("arguments")


#: What decides an answer, how it is made again from arguments, and a check of these.
Simulator = tuple[
    Callable[[], dict[str, str]], Callable[[Sequence[str]], str], Callable[[Sequence[str]], None]
]


def simulators() -> dict[str, Simulator]:
    """Simulators by their name in a record."""
    # Others need not load the figures.
    from fairlab.figures.studies import queue_model

    return {
        simulated.ENGINE: (
            simulated.inputs,
            lambda words: simulated.digest(simulated.simulate(words)),
            check_arguments,
        ),
        queue_model.MODEL: (queue_model.inputs, queue_model.repeat, queue_model.check_arguments),
    }


def stored_runs(top: Path) -> tuple[list[Path], list[Path]]:
    """All runs below TOP that have a record, and those of figures that have none."""
    found = {path.parent for path in top.rglob(exact.RECORD)}
    without: set[Path] = set()
    for path in top.rglob("*@*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            (found if "exact" in json.loads(path.read_text()) else without).add(path)
    return sorted(found), sorted(without)


def part_of(runs: list[Path], percent: float, seed: int) -> list[Path]:
    """PERCENT of RUNS, at least one, chosen by SEED."""
    count = max(1, round(len(runs) * percent / 100))
    return sorted(random.Random(seed).sample(runs, count))


def read_record(run: Path) -> dict[str, Any] | None:
    """The record of a run; None if it has none.  CannotRunError if it is damaged."""
    path = run / exact.RECORD if run.is_dir() else run
    if run.is_dir() and not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
        if not run.is_dir():
            record = record.get("exact")
            if record is None:
                return None
        if isinstance(made := record["format"], int) and made != exact.FORMAT:
            raise CannotRunError(
                f"{path}: its record, {store.made_at(record)}, has format {made}, not"
                f" {exact.FORMAT}: run it again"
            )
        check(record)
    except OSError as error:
        raise UsageError(f"{run}: {error.strerror}") from None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CannotRunError(f"{path}: the record is damaged: {error!r}") from None
    return dict(record)


def check(record: dict[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError if a record is not one of ours."""
    if record["format"] != exact.FORMAT:
        raise TypeError("format")
    if not all(isinstance(text, str) for text in record["inputs"].values()):
        raise TypeError("inputs")
    if not isinstance(record["sha256"], str):
        raise TypeError("sha256")
    if "simulator" in record:
        asked, name = record["arguments"], record["simulator"]
        if name not in simulators() or not all(isinstance(word, str) for word in asked):
            raise TypeError("simulator or arguments")
        simulators()[name][2](asked)
        return
    guest = record["guest"]
    words = {"kernel": str, "seed": int, "jitter": bool, "memory": int, "seconds": (int, float)}
    for name, kind in words.items():
        if not isinstance(guest[name], kind):  # type: ignore[arg-type]
            raise TypeError(f"guest.{name}")
    if not 0 <= guest["seed"] < 2**64 or not 0 <= guest["memory"] < 2**20:
        raise ValueError("guest.seed or guest.memory")
    if record["job"]["kind"] not in MEASURERS or not isinstance(record["job"]["what"], dict):
        raise ValueError("job")
    if not isinstance(record["packets"], int):
        raise TypeError("packets")


def used_by(run: Path) -> tuple[str, ...] | None:
    """What of the tree a figure's RUN uses (Runnable.sources()); None: unknown, so all."""
    from fairlab.figures import gallery

    if run.is_dir():
        return None
    stored = json.loads(run.read_text())
    for study in gallery.load(None):
        if study.name != stored.get("study"):
            continue
        for case in study.cases(bool(stored.get("quick")), stored["seed"]):
            # As JSON: tuples are lists there.
            what = json.loads(json.dumps(case.what.to_json()))
            if case.name == stored["case"] and what == stored.get("what"):
                return case.what.sources()
    return None


def is_used(name: str, used: Sequence[str] | None) -> bool:
    """Whether the input NAME of a run decides its packets, if it uses USED of the tree."""
    for pattern, place in PARTS:
        if used is not None and (match := pattern.fullmatch(name)):
            needed = place.format(*match.groups())
            return any(f"{one}/".startswith(f"{needed}/") for one in used)
    return True


def differences(then: dict[str, str], now: dict[str, str]) -> list[str]:
    """What decides the packets and has changed, by name."""
    found = {name: "missing here" for name in then.keys() - now.keys()}
    found |= {name: "not recorded" for name in now.keys() - then.keys()}
    for name in then.keys() & now.keys():
        if then[name] != now[name]:
            found[name] = f"{now[name][:12]} here, {then[name][:12]} recorded"
    return [f"{name}: {what}" for name, what in sorted(found.items())]


def repeat(
    record: dict[str, Any],
    work: Path,
    progress: Progress,
    timeout: int,
    capture: Path | None = None,
) -> None:
    """Do a run again, in WORK, within TIMEOUT seconds; with CAPTURE, write its packets there."""
    guest = record["guest"]
    work.mkdir(exist_ok=True)
    (work / JOB).write_text(json.dumps(record["job"]))
    vm = engine.Vm(engine.VIRTUAL, guest["kernel"], None, guest["jitter"])
    vm = replace(vm, capture=capture, timeout=timeout)
    vm.measure(work, guest["seconds"], guest["memory"], guest["seed"], progress)


def compare(run: Path, record: dict[str, Any], progress: Progress, timeout: int) -> Verdict:
    """Repeat a run whose inputs are the same, and compare its packets."""
    verdict = Verdict(str(run), EXACT, record["packets"])
    with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
        work, capture = Path(scratch, "run"), Path(scratch, "packets.pcapng")
        repeat(record, work, progress, timeout)
        count, digest = exact.read_trailer(work / exact.PACKETS)
        if (count, digest) == (record["packets"], record["sha256"]):
            return verdict
        verdict.verdict = DIFFERS
        verdict.reasons.append(f"{count} packets here, {record['packets']} recorded")
        stored = run / exact.PACKETS
        if not stored.is_file():
            verdict.reasons.append("the first packet that differs is unknown: none are stored")
            return verdict
        exact.read_trailer(stored)
        verdict.first = exact.first_difference(stored, work / exact.PACKETS)
        if verdict.first is None:
            verdict.reasons.append("two octets of each packet are equal, the whole hash is not")
        else:
            verdict.reasons.append(f"packet {verdict.first} (from 0) is the first that differs")
            progress.step("capturing it")
            repeat(record, Path(scratch, "captured"), progress, timeout, capture)
            verdict.packet = exact.describe_sent(capture, verdict.first)
            verdict.reasons.append(verdict.packet)
    return verdict


def judge(run: Path, progress: Progress, timeout: int) -> Verdict:
    record = read_record(run)
    if record is None:
        return Verdict(str(run), NOT_RECORDED, reasons=["it has no record: not in virtual time?"])
    if "simulator" in record:
        return judge_simulated(run, record)
    tree = engine.require_tree(engine.VIRTUAL)
    kernel = exact.kernel_directory(tree, record["guest"]["kernel"])
    used = used_by(run)
    then, now = (
        {name: text for name, text in found.items() if is_used(name, used)}
        for found in (record["inputs"], exact.inputs(tree, kernel, record["job"]))
    )
    if reasons := differences(then, now):
        return Verdict(str(run), NOT_COMPARABLE, record["packets"], reasons=reasons)
    return compare(run, record, progress, timeout)


def judge_simulated(run: Path, record: dict[str, Any]) -> Verdict:
    """Repeat a run of a simulator, and compare its answer."""
    inputs, repeated, _ = simulators()[record["simulator"]]
    if reasons := differences(record["inputs"], inputs()):
        return Verdict(str(run), NOT_COMPARABLE, reasons=reasons)
    found = repeated(record["arguments"])
    if found == record["sha256"]:
        return Verdict(str(run), EXACT)
    reason = f"the answer has SHA-256 {found[:12]}, {record['sha256'][:12]} recorded"
    return Verdict(str(run), DIFFERS, reasons=[reason])


def chosen(arguments: argparse.Namespace) -> list[Path]:
    """The runs to repeat."""
    if arguments.timeout < 0:
        raise UsageError(f"--timeout {arguments.timeout}: not a number of seconds")
    share, seed = arguments.share, arguments.seed
    if share is not None and not 0 < share <= 100:
        raise UsageError(f"--share {share:g}: must be above 0, at most 100 %")
    if seed is not None and share is None:
        raise UsageError("--seed chooses runs with --share only")
    without: list[Path] = []
    runs: list[Path] = arguments.runs
    if not runs:
        runs, without = stored_runs(arguments.out)
    if not runs:
        none = "no stored runs in virtual time there"
        if without:
            none = f"none of the {len(without)} stored runs has a record: all are older than these"
        raise UsageError(f"{arguments.out}: {none}")
    for run in runs:
        if not run.exists():
            raise UsageError(f"{run}: no such run")
        read_record(run)
    if share is None:
        return runs
    seed = random.SystemRandom().randrange(MAX_SEED) if seed is None else seed
    part = part_of(runs, share, seed)
    if not arguments.json:
        text = f"{len(part)} of {len(runs)} runs ({share:g} %, seed {seed})"
        if without:
            text += f"; {len(without)} other stored runs have no record, as they are older"
        print("\n".join([text, *(f"  {run}" for run in part)]), flush=True)
    return part


def build(runs: list[Path]) -> None:
    """What RUNS need of the tree."""
    used = {record.get("simulator") for run in runs if (record := read_record(run))}
    targets = ["slbnsim"] if simulated.ENGINE in used else []
    if None in used or not used:
        engine.make(["tools", "traffic", *targets], ["drr_fq", "slbn"])
    else:
        engine.make(targets, [])


def verify(arguments: argparse.Namespace) -> None:
    runs = chosen(arguments)
    build(runs)
    verdicts = []
    with progress_of(arguments) as progress:
        for run in runs:
            progress.step(f"repeating {run}")
            verdicts.append(judge(run, progress, arguments.timeout))
            if not arguments.json:
                print(verdicts[-1], flush=True)
    if arguments.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    found = {verdict.verdict for verdict in verdicts}
    # One that differs is the worst.
    if found != {EXACT}:
        raise ReportedError(1 if DIFFERS in found else 5)
