# SPDX-License-Identifier: GPL-2.0
"""The gallery: runs the studies, stores their numbers, and draws their figures.

    OUT/data/NAME/CASE@SEED.json     one run of the study NAME: parameters, conditions, numbers,
                                     the hashes of the claims that it was made for
    OUT/data/NAME/CASE@SEED.refused  instead: the reason why the run cannot be trusted
    OUT/NAME.png  .svg  .json        the figure; the json has the claims and the conditions
    OUT/report.html                  all figures and claims on one page (webpage.py)
    OUT/reproduction.md              all claims as text (reproduction.py)

Each run is a separate process, `fairlab figure NAME --run CASE@SEED`: runs are done in parallel, a
cluster's scheduler can start them, and one that fails does not affect the others.  Files are
written atomically, so an interrupted gallery continues where it stopped.

Each file has a fingerprint of all that decides its numbers (fingerprints.py).  A run whose
fingerprint has changed is stale, and is done again.

A figure whose runs are all stored gets further seeds for the cases of inconclusive claims, once: up
to Study.most_seeds in all.

A figure is drawn from the seeds of which all runs are stored, and says how many runs are missing;
a claim that is registered for more seeds is then inconclusive.  Without one such seed, with a run
refused, or with one missing of the seeds that the user chose, the report gives the reason instead.
The same data and the same version of matplotlib give the same files, byte by byte.
"""

import contextlib
import dataclasses
import fnmatch
import hashlib
import importlib.util
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairlab import __version__
from fairlab.figures import fingerprints, registry, verdict
from fairlab.figures.study import Case, Data, Numbers, Study
from fairlab.model.errors import CannotRunError, LabError, ReportedError, UsageError
from fairlab.net import host
from fairlab.results import plots, store
from fairlab.run import engine, exact
from fairlab.run.progress import Progress

FULL, QUICK = Path("results/figures"), Path("results/figures-quick")
PUBLISHED = Path("docs/figures/data.tar.xz")  # what `make publish-figures` stores
NAME = re.compile(r"[a-z0-9][A-Za-z0-9._-]*")
SIZE = (8.0, 4.8)
POLL = 0.1  # seconds
DEFAULT_MEMORY = 2048  # MiB, of a run that does not say


@dataclass(frozen=True)
class Run:
    """One run: a case of a study under a seed."""

    study: Study
    case: Case
    seed: int
    fingerprint: str

    @property
    def name(self) -> str:
        return f"{self.case.name}@{self.seed}"

    @property
    def label(self) -> str:
        return f"{self.study.name} {self.name}"

    @property
    def memory(self) -> int:
        """The memory of its guest [MiB]."""
        return int(getattr(self.case.what, "memory", DEFAULT_MEMORY))


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same directory, so that os.replace() is atomic.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def to_json(value: Any, what: str) -> str:
    """VALUE as standard JSON, without NaN; WHAT names it in an error."""
    try:
        return json.dumps(value, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise LabError(f"{what} cannot be written as JSON: {error}") from None


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if it is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# Studies


def load(file: Path | None) -> tuple[Study, ...]:
    """The lab's studies, or those of the user's FILE."""
    if file is None:
        from fairlab.figures.studies import ALL

        return tuple(ALL)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{file}: not a Python file with studies")
    module = importlib.util.module_from_spec(spec)
    # inspect looks here for the source of its classes.
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        return tuple(module.STUDIES)
    except Exception as error:
        raise UsageError(f"{file}: {type(error).__name__}: {error}") from None


def choose(studies: Sequence[Study], patterns: Sequence[str]) -> list[Study]:
    """The studies whose names match PATTERNS (globs)."""
    chosen: list[Study] = []
    for pattern in patterns:
        matching = [study for study in studies if fnmatch.fnmatchcase(study.name, pattern)]
        if not matching:
            names = ", ".join(study.name for study in studies)
            raise UsageError(f"no figure '{pattern}'; there are: {names}")
        chosen += [study for study in matching if study not in chosen]
    return chosen


def family(study: Study) -> str:
    """The module of fairlab.figures.studies that has STUDY; for a user's, their own."""
    module = type(study).__module__
    return module.removeprefix("fairlab.figures.studies.").partition(".")[0]


@dataclass(frozen=True)
class Gallery:
    """A directory of figures and runs, and the options for making them."""

    out: Path
    quick: bool
    kernel: str = engine.DEFAULT_KERNEL
    studies: Path | None = None  # the user's studies instead of the lab's
    seeds: tuple[int, ...] = ()  # chosen by the user, instead of a study's own

    # Runs

    def runs(self, study: Study) -> list[Run]:
        """The runs of a figure, with further seeds for inconclusive claims."""
        own = self.own_runs(study)
        return own + self.further_runs(study, own)

    def own_runs(self, study: Study) -> list[Run]:
        """The runs under the study's own seeds, or those that the user chose."""
        found = []
        for seed in self.seeds or study.seeds(self.quick):
            for case in study.cases(self.quick, seed):
                if not self.seeds and case.last_seed and seed > case.last_seed:
                    continue
                found.append(self._run(study, case, seed))
        names = [run.name for run in found]
        # They become file names.
        for name in (study.name, *(run.case.name for run in found)):
            if not NAME.fullmatch(name):
                raise LabError(
                    f"study {study.name}: '{name}' is not a valid name of a study or case"
                )
        if not names or len(set(names)) < len(names):
            raise LabError(f"study {study.name}: needs cases with unique names")
        return found

    def further_runs(self, study: Study, own: Sequence[Run]) -> list[Run]:
        """More seeds of the cases whose claims are inconclusive by the runs OWN.

        The results of these further runs do not change which they are.
        """
        last = own[-1].seed
        stored = [self.stored(run) for run in own]
        if self.quick or self.seeds or last >= study.most_seeds or None in stored:
            return []
        data: dict[str, list[Numbers]] = {}
        for run, found in zip(own, stored, strict=True):
            data.setdefault(run.case.name, []).append(found["numbers"] if found else {})
        try:
            with store.readable(study.name, stored[0]["conditions"] if stored[0] else {}):
                judged = self.judged(study, data)
        except CannotRunError:
            return []  # runs of other sources, to be repeated before they are judged
        # Runs that take too long for more seeds leave a claim inconclusive.
        short = {run.case.name for run in own if run.case.last_seed}
        cases: set[str] = set()
        for claim, judgement in judged:
            covered = set(filter(claim.covers, data))
            if judgement.verdict == verdict.INCONCLUSIVE and not covered & short:
                cases |= covered
        return [
            self._run(study, case, seed)
            for seed in range(last + 1, study.most_seeds + 1)
            for case in study.cases(self.quick, seed)
            if case.name in cases
        ]

    def _run(self, study: Study, case: Case, seed: int) -> Run:
        return Run(study, case, seed, fingerprints.fingerprint(study, case, seed, self.kernel))

    def fingerprint(self, runs: Sequence[Run]) -> str:
        """The fingerprint of a figure: of all its runs."""
        marks = " ".join(f"{run.name} {run.fingerprint}" for run in runs)
        return hashlib.sha256(marks.encode()).hexdigest()[: fingerprints.DIGITS]

    def path(self, run: Run) -> Path:
        return self.out / "data" / run.study.name / f"{run.name}.json"

    def stored(self, run: Run) -> dict[str, Any] | None:
        """The stored run, even if stale; None if there is none."""
        found = read_json(self.path(run))
        return found if found and {"numbers", "fingerprint", "conditions"} <= found.keys() else None

    def published(self, run: Run) -> dict[str, Any] | None:
        """The published run of the same case and seed; None if there is none."""
        path = (host.tree() or Path()) / PUBLISHED
        if not path.is_file():
            return None
        try:
            with tarfile.open(path) as archive:
                file = archive.extractfile(str(self.path(run).relative_to(self.out)))
                return dict(json.load(file)) if file else None
        except KeyError:
            return None
        except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from None

    def whole_seeds(self, study: Study) -> list[Run]:
        """The stored runs of those seeds of a figure of which none is missing."""
        runs = self.runs(study)
        partial = {run.seed for run in runs if self.stored(run) is None}
        return [run for run in runs if run.seed not in partial]

    def is_current(self, run: Run) -> bool:
        """Whether a run is stored and its fingerprint is up to date."""
        found = self.stored(run)
        return found is not None and found["fingerprint"] == run.fingerprint

    def refusal(self, run: Run) -> str | None:
        """The reason why a run with today's fingerprint was refused; None if it was not."""
        found = read_json(self.path(run).with_suffix(".refused"))
        return str(found["reason"]) if found and found["fingerprint"] == run.fingerprint else None

    def restamp(self, study: Study) -> tuple[int, int]:
        """Give the stored runs of STUDY the fingerprints of today's sources.

        Valid only after changes that cannot change a number: a renamed file, a comment.
        Return the numbers of changed and of stored runs.
        """
        runs = [(run, old) for run in self.runs(study) if (old := self.stored(run))]
        stale = [(run, old) for run, old in runs if old["fingerprint"] != run.fingerprint]
        for run, old in stale:
            old["fingerprint"] = run.fingerprint
            write_whole(self.path(run), to_json(old, run.label))
        return len(stale), len(runs)

    def execute(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Do a run in this process, and store it."""
        vm = engine.Vm(engine.VIRTUAL, self.kernel, None)
        head = {"study": run.study.name, "case": run.case.name, "seed": run.seed}
        head |= {"quick": self.quick, "fingerprint": run.fingerprint}
        path = self.path(run)
        refused = path.with_suffix(".refused")
        # The fingerprint is of sources: what was built must be of the same ones.
        build([run])
        known = [one for one in (self.published(run), self.stored(run)) if one]
        try:
            # Not below OUT, which is on a network file system in a cluster.
            with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
                outcome = run.case.what.run(Path(scratch), vm, progress)
                numbers = run.study.reduce(run.case, outcome)
                conditions = run.case.what.conditions(Path(scratch))
                record = read_json(Path(scratch) / exact.RECORD)
        except CannotRunError as error:
            path.unlink(missing_ok=True)
            write_whole(refused, to_json(head | {"reason": str(error)}, "a reason"))
            raise
        conditions |= {"fairlab": __version__, "project": host.project_version(host.tree())}
        found = head | {
            "conditions": conditions,
            "what": run.case.what.to_json(),
            "numbers": numbers,
            "claims": self.judged_by(run, numbers, known),
        }
        found |= {"exact": record} if record else {}
        write_whole(path, to_json(found, f"the result of {run.label}"))
        refused.unlink(missing_ok=True)
        return found

    def judged_by(
        self, run: Run, numbers: Numbers, known: Sequence[dict[str, Any]]
    ) -> dict[str, str]:
        """The hashes of the claims that NUMBERS are judged by, when the run is done.

        The claims of numbers that were in a KNOWN run are those of then: to repeat a run, or to
        keep more of it, does not make a claim older than its result.
        """
        new = json.loads(json.dumps(numbers))
        for old in known:
            shared = new.keys() & old["numbers"].keys()
            if shared and all(new[key] == old["numbers"][key] for key in shared):
                return dict(old.get("claims", {}))
        own = registry.of(run.study.name, self.studies).values()
        return {claim.id: claim.sha256 for claim in own if claim.covers(run.case.name)}

    def repeat(self, runs: Sequence[Run], jobs: int, progress: Progress) -> "list[Failure]":
        """Do those of RUNS that are missing or stale; return those that failed."""
        todo = [run for run in runs if not self.is_current(run)]
        if not todo:
            return []
        progress.step(f"{len(todo)} of {len(runs)} runs to do, {jobs} at a time")
        # Built once, before runs start in parallel.
        top = build(todo)
        get = [str(top / "scripts" / "kernel"), "get", "--engine", "native", self.kernel]
        done = subprocess.run(get, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            usage = done.returncode == engine.VM_USAGE
            raise ReportedError(UsageError.status if usage else CannotRunError.status)
        return Pool(self, jobs, progress, len(todo)).work(todo)

    def command(self, run: Run) -> list[str]:
        """The command that does a run in a separate process."""
        words = [sys.executable, "-m", "fairlab", "figure", run.study.name, "--run", run.name]
        words += ["--out", str(self.out), "--kernel", self.kernel, "--quiet"]
        words += ["--quick"] if self.quick else []
        words += ["--studies", str(self.studies)] if self.studies else []
        return words

    # Figures

    def draw(self, study: Study) -> dict[str, Any]:
        """Draw a figure from its stored runs; return its document.

        Raise CannotRunError if runs are missing of each seed, or of those that the user chose.
        """
        plots.require()
        runs = self.runs(study)
        found = [(run, self.stored(run)) for run in runs]
        missing = [run for run, stored in found if stored is None]
        reasons = [f"{run.name}: {why}" for run in missing if (why := self.refusal(run))]
        whole = {run.seed for run in runs} - {run.seed for run in missing}
        if missing and (reasons or self.seeds or not whole):
            count = f"{len(missing)} of {len(runs)} runs"
            if reasons:
                raise CannotRunError(f"{study.name}: {count} were refused: {'; '.join(reasons)}")
            some = ", ".join(run.name for run in missing[:3])
            some += ", ..." if len(missing) > 3 else ""
            raise CannotRunError(
                f"{study.name}: {count} are missing ({some}); without --draw they are run"
            )
        there = [(run, stored) for run, stored in found if stored and run.seed in whole]
        data: dict[str, list[Numbers]] = {}
        for run, stored in there:
            data.setdefault(run.case.name, []).append(stored["numbers"])
        old = [stored for run, stored in there if stored["fingerprint"] != run.fingerprint]
        document = {
            "name": study.name,
            "family": family(study),
            "title": study.title,
            "source": study.source,
            "setting": study.setting,
            "assumptions": list(study.assumptions),
            "quick": self.quick,
            "runs": len(there),
            "missing": len(runs) - len(there),
            "stale": len(old),
            "made": sorted({store.made_at(stored["conditions"]) for stored in old}),
            "fingerprint": self.fingerprint(
                [dataclasses.replace(run, fingerprint=old["fingerprint"]) for run, old in there]
            ),
            "seeds": sorted({run.seed for run, _ in there}),
            "origins": origins([stored for _, stored in there]),
            "conditions": merged([stored["conditions"] for _, stored in there]),
        }
        # Only numbers of other sources may have another format.
        what = store.readable(study.name, old[0]["conditions"]) if old else contextlib.nullcontext()
        with what:
            document["claims"] = self.claims(study, data, [stored for _, stored in there])
            if table := study.table(data):
                document["table"] = dataclasses.asdict(table)
            self._save(study, data)
        # Last: its existence means that the figure is complete.
        write_whole(self.out / f"{study.name}.json", to_json(document, study.name))
        return document

    def claims(
        self, study: Study, data: Data, stored: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The verdicts on the claims of STUDY, by the DATA of the STORED runs."""
        return [
            described(claim, judgement) | {"registered": registered(claim, stored)}
            for claim, judgement in self.judged(study, data)
        ]

    def judged(self, study: Study, data: Data) -> list[tuple[registry.Claim, verdict.Judgement]]:
        """The claims of STUDY, judged by DATA."""
        known = registry.of(study.name, self.studies)
        measured = study.measure(data, self.quick)
        for id in measured.keys() - known.keys():
            raise LabError(f"study {study.name}: measures '{id}', which is no registered claim")
        for id, claim in known.items():
            if id not in measured and not claim.not_testable and not self.quick:
                raise LabError(f"study {study.name}: does not measure the claim '{id}'")
        return [
            (claim, verdict.judge(claim, measured.get(id, {})))
            for id, claim in known.items()
            if id in measured or claim.not_testable
        ]

    def _save(self, study: Study, data: Data) -> None:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        # The ids of an SVG's elements are derived from this; they must differ on a page.
        style = plots.STYLE | {"svg.hashsalt": f"fairlab {study.name}"}
        with rc_context(style):
            figure = Figure(figsize=SIZE, dpi=plots.DPI, layout="constrained")
            study.draw(figure, data)
            for form in plots.FORMATS:
                file = io.BytesIO()
                # Without date and version of matplotlib: the same data, the same file.
                unsaid = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
                figure.savefig(file, format=form, metadata=unsaid[form])
                write_whole(self.out / f"{study.name}.{form}", file.getvalue())


def described(claim: registry.Claim, judgement: verdict.Judgement) -> dict[str, Any]:
    """A claim and its verdict, as JSON."""
    return {
        "id": claim.id,
        "text": claim.text,
        "published": f"{claim.quotation} ({claim.place})"
        + (f"; correction: {claim.correction}" if claim.correction else ""),
        "class": claim.kind,
        "ours": claim.ours,
        "algorithm": claim.algorithm,
        "accepted": verdict.range_in_words(claim),
        "tolerance": claim.reason,
        "basis": claim.basis,
        "reading": claim.unit_is_our_reading,
        "here": verdict.in_words(judgement, claim.unit),
        "verdict": judgement.verdict,
        "holds": judgement.holds,
        # A claim's own fields are hashed; `why` can still correct them.
        "why": claim.why or claim.not_testable,
        "assumes": claim.assumes,
    }


#: When a claim was registered, by the hashes that its runs have, and by earlier.toml.
REGISTERED = {
    "before its runs": "no earlier runs of the same cases and seeds are known",
    "before these runs": "after earlier runs of the same cases, with one of the seeds at least",
    "after its runs": "the runs are older, or repeat such runs with the same numbers",
    "changed after its runs": "listed below, with what it was",
    "computed": "without any run",
}
BEFORE, AGAIN, AFTER, CHANGED, COMPUTED = REGISTERED


def registered(claim: registry.Claim, stored: Sequence[dict[str, Any]]) -> str:
    """Whether CLAIM is the one that each of its STORED runs was made for, and whether it is older
    than all runs of these cases.

    Under its earlier name a renamed claim may have been in view of their results.
    """
    mine = [run for run in stored if claim.covers(str(run["case"]))]
    found = {run.get("claims", {}).get(claim.id) for run in mine}
    if not found:
        return COMPUTED
    if found != {claim.sha256}:
        return CHANGED if found - {claim.sha256, None} else AFTER
    known = any(registry.ran_earlier(claim.study, run["case"], run["seed"]) for run in mine)
    return AFTER if claim.renamed else AGAIN if known else BEFORE


def origins(stored: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many of the STORED runs were made at each commit, and how many seeds cases have."""
    cases = Counter(run["case"] for run in stored)
    made = Counter(str(run["conditions"].get("project", "unknown")) for run in stored)
    return {"least": min(cases.values()), "most": max(cases.values()), "made": dict(made)}


def merged(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The conditions of several runs; a list of values where they differ."""
    together: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one.get(name) for one in found]
        if all(isinstance(value, dict) for value in values):
            together[name] = merged(values)  # type: ignore[arg-type]
            continue
        known = [value for value in values if value is not None]
        different = [value for n, value in enumerate(known) if value not in known[:n]]
        together[name] = different[0] if len(different) == 1 else different
    return together


# Parallel runs


@dataclass
class Child:
    """The process of a run."""

    run: Run
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    since: float


@dataclass(frozen=True)
class Failure:
    """A run that failed: its exit status, and the last line of its output."""

    run: Run
    status: int
    reason: str


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("fairlab: ") if lines else "no output"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def build(runs: Sequence[Run]) -> Path:
    """Build the programs that RUNS need, if need be; the tree."""
    top = host.tree()
    if top is None:
        raise CannotRunError("figures need the project's tree: run its scripts/fairlab")
    slbn = any("userspace/slbnd" in run.case.what.sources() for run in runs)
    engine.make(["traffic", "tc-plugins", "slbnsim", *(["tools"] if slbn else [])], ())
    return top


class Pool:
    """Does runs in parallel, as far as CPUs and memory allow."""

    def __init__(self, gallery: Gallery, jobs: int, progress: Progress, total: int) -> None:
        self.gallery = gallery
        self.jobs = jobs
        self.progress = progress
        self.total = total
        self.going: list[Child] = []
        self.failures: list[Failure] = []
        self.ended = 0
        self.begin = time.monotonic()
        self.memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20

    def _has_room(self, run: Run) -> bool:
        """Whether another run may start; the first one always may."""
        used = sum(child.run.memory for child in self.going) + run.memory
        return not self.going or (len(self.going) < self.jobs and used <= self.memory)

    def _start(self, run: Run) -> None:
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the child has ended)
        process = subprocess.Popen(
            self.gallery.command(run),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=os.environ | {"PYTHONPATH": path},
            preexec_fn=host.die_with_parent,  # noqa: PLW1509 (we have no threads)
        )
        self.going.append(Child(run, process, output, time.monotonic()))

    def _collect(self) -> None:
        for child in [child for child in self.going if child.process.poll() is not None]:
            self.going.remove(child)
            self.ended += 1
            took = _seconds(time.monotonic() - child.since)
            with child.output:
                if status := child.process.returncode:
                    failure = Failure(child.run, status, _last_line(child.output))
                    self.failures.append(failure)
                    self.progress.step(f"{child.run.label}: {failure.reason}")
                elif self.progress.style == "lines":
                    self.progress.step(f"{child.run.label}: {took} ({self.ended} of {self.total})")

    def _status(self) -> str:
        now = time.monotonic()
        text = f"{self.ended} of {self.total} runs"
        if self.ended >= self.jobs:
            left = (self.total - self.ended) * (now - self.begin) / self.ended
            text += f", about {_seconds(left)} left"
        for child in self.going:
            text += f"; {child.run.label} {_seconds(now - child.since)}"
        return text

    def work(self, runs: Sequence[Run]) -> list[Failure]:
        """Do all RUNS; return those that failed, in the order of RUNS."""
        todo = list(runs)
        try:
            while todo or self.going:
                while todo and self._has_room(todo[0]):
                    self._start(todo.pop(0))
                self._collect()
                if self.progress.style == "terminal" and self.progress.due():
                    self.progress.update(self._status())
                time.sleep(POLL)
        finally:
            for child in self.going:
                child.process.terminate()
            for child in self.going:
                child.process.wait()
                child.output.close()
        order = [run.label for run in runs]
        return sorted(self.failures, key=lambda failure: order.index(failure.run.label))
