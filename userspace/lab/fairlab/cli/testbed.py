# SPDX-License-Identifier: GPL-2.0
"""`fairlab test`: run the cases of a TOML file (model/testbed.py), and check their limits."""

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from fairlab import __version__
from fairlab.cli import cases
from fairlab.cli.options import KERNELS, Command, add_output, add_seeds, progress_of, seeds_of
from fairlab.cli.verify import repeat
from fairlab.model import testbed
from fairlab.model.errors import CannotRunError, LabError, ReportedError, UsageError
from fairlab.model.testbed import Case
from fairlab.net import host
from fairlab.results import measures, store, trust
from fairlab.results.experiment import Experiment
from fairlab.run import engine, exact
from fairlab.run.experiment import MEASUREMENT, RUNNING
from fairlab.run.progress import Progress

HOLD, BROKEN, NOT_TRUSTED = 0, 1, CannotRunError.status
CAPTURE = "packets.pcapng"
STATUS = """exit status:
  0  all limits hold
  1  a limit is broken, or a program failed
  2  usage error: the file or the command line is not valid
  3  a run was not possible, or cannot be trusted"""


@dataclass
class Run:
    """A case, and what came of it."""

    file: Path
    case: Case
    status: int = NOT_TRUSTED
    reasons: list[str] = field(default_factory=list)
    directory: str = ""
    packets: int = 0
    sha256: str = ""
    limits: list[dict[str, Any]] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """What the user reads."""
        lines = []
        for limit in self.limits:
            place = f"  ({self.file}:{limit['line']})"
            word, place = ("holds", "") if limit["holds"] else ("BROKEN", place)
            lines.append(f"  {word:6}  {limit['limit']:50}  {limit['shown']}{place}")
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  {line}" for line in trust.lines(self.conditions)]
        if self.sha256:
            lines.append(f"  {self.packets} packets, SHA-256 {self.sha256}")
        lines += [f"  {self.directory}/"] if self.directory else []
        return "\n".join([self.name(), *lines])

    def name(self) -> str:
        return ", ".join(filter(None, (str(self.file), self.case.name, f"seed {self.case.seed}")))

    def to_json(self) -> dict[str, Any]:
        names = ("status", "reasons", "directory", "packets", "sha256", "limits", "conditions")
        return {
            "fairlab": __version__,
            "project": host.project_version(host.tree()),
            "file": str(self.file),
            "case": self.case.name,
            "seed": self.case.seed,
            **{name: getattr(self, name) for name in names},
            "experiment": self.case.layout.to_json(),
        }


def add(command: Command) -> None:
    parser = command(
        "test", "run the cases of a file in virtual time, and check their limits", test
    )
    parser.epilog = STATUS
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.toml", help="test cases")
    parser.option("--kernel", "VERSION", f"{', '.join(KERNELS)} (the file's)")
    add_seeds(parser, "the file's")
    parser.option("--base", "FILE", "compare with these cases, or a result", type=Path)
    parser.option("--cc", "NAME", "congestion control of each first flow")
    inserted = "insert this kernel module (repeatable)"
    parser.option("--module", "FILE.ko", inserted, type=Path, action="append")
    parser.flag("--pcap", f"keep the packets ({CAPTURE})")
    parser.flag("--list", "only list the cases")
    ended = "end a run after this time of this machine's clock (ample)"
    parser.add_argument("--timeout", type=int, default=0, metavar="SECONDS", help=ended)
    add_output(parser)


def test(arguments: argparse.Namespace) -> None:
    if arguments.timeout < 0:
        raise UsageError(f"timeout {arguments.timeout}: must be at least a second")
    runs = read(arguments, arguments.files)
    # What to compare with: runs to be done, or the result of one that has been.
    base: list[Run] = []
    others: list[dict[str, Any]] = []
    if arguments.base and arguments.base.is_dir():
        others = [store.read(arguments.base)]
    elif arguments.base:
        base = read(arguments, [arguments.base])
    if arguments.list:
        for run in runs:
            print(run.name())
        return
    with progress_of(arguments) as progress:
        others += [do(arguments, run, progress).to_json() for run in base]
        for run in runs:
            do(arguments, run, progress)
            if not arguments.json:
                print(run, flush=True)
    found = [run.to_json() for run in runs]
    changes = compare(others, found)
    if arguments.json:
        print(json.dumps({"runs": found, "base": others, "changes": changes}, indent=1))
    elif arguments.base:
        print(f"\nmeans over seeds: {arguments.base}, {', '.join(map(str, arguments.files))}")
        print("\n".join(map(described, changes)) or "  no case and measure is in both")
    status = max(run.status for run in runs)
    if status != HOLD:
        raise ReportedError(status)


def read(arguments: argparse.Namespace, files: Sequence[Path]) -> list[Run]:
    """The runs of FILES, which have not been done yet."""
    modules = arguments.module or ()
    for module in modules:
        if not module.is_file():
            raise UsageError(f"no module '{module}'")
    inserted = [str(module.absolute()) for module in modules]
    choice = (seeds_of(arguments), arguments.kernel, arguments.cc, inserted)
    return [Run(path, case) for path in files for case in cases.read(path, *choice)]


def do(arguments: argparse.Namespace, run: Run, progress: Progress) -> Run:
    """Do a run, and store its result; UsageError if it makes no sense for the kernel."""
    progress.step(f"running {run.name()}")
    what = Experiment.from_json(run.case.layout.to_json())
    what.build()
    guest = engine.Vm(engine.VIRTUAL, run.case.kernel, None, timeout=arguments.timeout)
    parent: Path = arguments.out.absolute()
    now = datetime.now().astimezone()
    # Programs are found from the file's directory, at the same place in each guest.
    with store.working_directory(parent) as work, contextlib.chdir(run.file.absolute().parent):
        try:
            what.measure(work, guest, progress)
            seen = what.read(work)
        except LabError as error:
            if error.status == UsageError.status:
                # The guest does not know the file.
                reason = str(error) or "refused by the guest, which has said why"
                raise UsageError(f"{run.name()}: {reason}") from None
            groups = ", ".join(f"{group} is {name}" for group, name in run.case.names.items())
            unknown = f"not measured: the guest has said why ({groups})"
            run.reasons = [f"not trusted: {error}" if str(error) else unknown]
            if (work / RUNNING).exists():
                run.reasons.append(f"it stopped while these ran: {own_names(run.case, work)}")
            return run
        record = json.loads((work / exact.RECORD).read_text())
        run.packets, run.sha256 = record["packets"], record["sha256"]
        run.conditions = what.conditions(work)
        run.limits = [judge(run.case, seen, limit) for limit in run.case.limits]
        run.reasons = measures.own_failures(run.case, seen)
        holds = all(limit["holds"] for limit in run.limits) and not run.reasons
        run.status = HOLD if holds else BROKEN
        if arguments.pcap:
            repeat(record, work / "again", progress, arguments.timeout, work / CAPTURE)
        measures.write_tables(run.case, seen, work)
        store_raw(run.case, work)
        final = store.name(work, parent, now, f"test-{run.file.stem}-{run.case.seed}")
        run.directory = str(final)
        (final / store.RESULT).write_text(json.dumps(run.to_json(), indent=1) + "\n")
    return run


def store_raw(case: Case, work: Path) -> None:
    """Give what programs have written their names, and move what was measured out of the way."""
    raw = work / store.RAW
    raw.mkdir()
    for path in (*work.glob("g[0-9]*"), work / MEASUREMENT):
        group, dash, rest = path.name.partition("-")
        own = dash and path.suffix != ".json"
        path.rename(work / f"{case.names[group]}-{rest}" if own else raw / path.name)


def judge(case: Case, seen: Any, limit: testbed.Limit) -> dict[str, Any]:
    """Check a limit."""
    value = measures.measure(case, seen, limit)
    return {
        "limit": limit.text,
        "line": limit.line,
        "value": value,
        "shown": measures.show(limit.measure, value),
        "holds": limit.holds(value),
    }


def own_names(case: Case, work: Path) -> str:
    """The programs that ran when a guest was stopped."""
    found = []
    for name in (work / RUNNING).read_text().split():
        group, _, end = name.rpartition("-")
        one = next(g.program for g in case.layout.groups if g.name == group)
        found.append(f"{end} of {case.names[group]} ({getattr(one, end).split()[0]})")
    return ", ".join(found)


def compare(base: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each case and measure of both: the means over the seeds."""
    means = [values(those) for those in (base, runs)]
    changes = []
    for (case, measure), after in means[1].items():
        if (case, measure) in means[0]:
            before = means[0][case, measure]
            percent = 100 * (after / before - 1) if before and after is not None else None
            numbers = {"base": before, "this": after, "percent": percent}
            changes.append({"case": case, "measure": measure} | numbers)
    return changes


def described(change: dict[str, Any]) -> str:
    """A line on a measure of both."""
    words = ": ".join(filter(None, (change["case"], change["measure"])))
    name = change["measure"].split()[0]
    before, after = (measures.show(name, change[which]) for which in ("base", "this"))
    percent = "" if change["percent"] is None else f"{change['percent']:+.2f} %"
    return f"  {words:50}  {before:>12}  {after:>12}  {percent}".rstrip()


def values(runs: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    """By case and measure: the mean over the runs that have a value, None if none has."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for limit in run["limits"]:
            measure = limit["limit"].rpartition("=")[0].rstrip("<> ")
            kept = found.setdefault((run["case"], measure), [])
            if limit["value"] is not None:
                kept.append(limit["value"])
    return {key: fmean(kept) if kept else None for key, kept in found.items()}
