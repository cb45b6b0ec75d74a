# SPDX-License-Identifier: GPL-2.0
"""`fairlab verify`: repeat stored runs in virtual time, and compare them packet by packet."""

import argparse
import contextlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fairlab.cli.measure import MEASURERS
from fairlab.model.errors import CannotRunError, ReportedError, UsageError
from fairlab.results import store
from fairlab.run import engine, exact
from fairlab.run.engine import JOB
from fairlab.run.progress import Progress, style_here

EXACT, DIFFERS = "exact", "differs"
NOT_COMPARABLE, NOT_RECORDED = "not comparable", "not recorded"
STATUS = {EXACT: 0, DIFFERS: 1, NOT_COMPARABLE: 5, NOT_RECORDED: 5}
#: What is built in the tree before a run.
TARGETS = ["tools", "traffic"]


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
            text += f", {self.packets} packets"
        return text + "".join(f"\n  {reason}" for reason in self.reasons)


def add(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    parser = command(
        "verify", "repeat stored runs in virtual time, and compare all packets with their times"
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        metavar="RUN",
        help="a result's directory, or a figure's data/NAME/CASE@SEED.json (all below --out)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results"), metavar="DIR", help="stored runs (results)"
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=0,
        metavar="SECONDS",
        help=f"end a run that takes longer ({engine.BOOT_TIMEOUT} and"
        f" {engine.SECONDS_PER_SECOND} for each second of the run)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    parser.set_defaults(handler=verify)


def stored_runs(top: Path) -> list[Path]:
    """All runs below TOP that have a record."""
    found = {path.parent for path in top.rglob(exact.RECORD)}
    for path in top.rglob("*@*.json"):
        with contextlib.suppress(OSError, ValueError):
            if "exact" in json.loads(path.read_text()):
                found.add(path)
    return sorted(found)


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
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CannotRunError(f"{path}: the record is damaged: {error!r}") from None
    return dict(record)


def check(record: dict[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError if a record is not one of ours."""
    if record["format"] != exact.FORMAT:
        raise TypeError("format")
    guest = record["guest"]
    words = {"kernel": str, "seed": int, "jitter": bool, "memory": int, "seconds": (int, float)}
    for name, kind in words.items():
        if not isinstance(guest[name], kind):  # type: ignore[arg-type]
            raise TypeError(f"guest.{name}")
    if not 0 <= guest["seed"] < 2**64 or not 0 <= guest["memory"] < 2**20:
        raise ValueError("guest.seed or guest.memory")
    if record["job"]["kind"] not in MEASURERS or not isinstance(record["job"]["what"], dict):
        raise ValueError("job")
    if not isinstance(record["packets"], int) or not isinstance(record["sha256"], str):
        raise TypeError("packets or sha256")
    if not all(isinstance(text, str) for text in record["inputs"].values()):
        raise TypeError("inputs")


def differences(then: dict[str, str], now: dict[str, str]) -> list[str]:
    """What decides the packets and has changed, by name."""
    found = []
    for name in sorted(then.keys() | now.keys()):
        if name not in now:
            found.append(f"{name}: missing here")
        elif name not in then:
            found.append(f"{name}: not recorded")
        elif then[name] != now[name]:
            found.append(f"{name}: {now[name][:12]} here, {then[name][:12]} recorded")
    return found


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
    tree = engine.require_tree(engine.VIRTUAL)
    kernel = exact.kernel_directory(tree, record["guest"]["kernel"])
    reasons = differences(record["inputs"], exact.inputs(tree, kernel, record["job"]))
    if reasons:
        return Verdict(str(run), NOT_COMPARABLE, record["packets"], reasons=reasons)
    return compare(run, record, progress, timeout)


def verify(arguments: argparse.Namespace) -> None:
    if arguments.timeout < 0:
        raise UsageError(f"--timeout {arguments.timeout}: not a number of seconds")
    runs: list[Path] = arguments.runs or stored_runs(arguments.out)
    if not runs:
        raise UsageError(f"{arguments.out}: no stored runs in virtual time there")
    for run in runs:
        if not run.exists():
            raise UsageError(f"{run}: no such run")
        read_record(run)
    engine.make(TARGETS, ["drr_fq", "slbn"])
    verdicts = []
    with contextlib.closing(Progress(style_here(arguments.quiet))) as progress:
        for run in runs:
            progress.step(f"repeating {run}")
            verdicts.append(judge(run, progress, arguments.timeout))
            if not arguments.json:
                print(verdicts[-1], flush=True)
    if arguments.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    statuses = {STATUS[verdict.verdict] for verdict in verdicts}
    # One that differs is the worst.
    for status in (1, 5):
        if status in statuses:
            raise ReportedError(status)
