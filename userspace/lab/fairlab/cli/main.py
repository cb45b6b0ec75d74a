# SPDX-License-Identifier: GPL-2.0
"""The command line.

stdout carries the answer (a table, or JSON), stderr how it is going and why it does not.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from fairlab import __version__
from fairlab.cli import figures
from fairlab.model import background, headers, qdisc, scenario, units
from fairlab.model.errors import BrokenPromiseError, LabError, ReportedError, UsageError
from fairlab.net import congestion, host
from fairlab.results import comparison, plots, report, store
from fairlab.run import engine, experiment_guest, flenttest, measure
from fairlab.run.progress import STYLES, Progress, style_here
from fairlab.slbn import backbone, backbone_report, sessions_guest, sessions_tcp_guest

EXIT_STATUS = """exit status:
  0  it is done
  1  it broke: the reason is on stderr
  2  what was asked for does not exist or makes no sense
  3  it cannot be done here, or this machine disturbed the measurement
  4  SLBN did not keep what it promises (backbone), a published claim does not hold (figure)
  128 + N  stopped by signal N"""

# What can be measured, and by what.
MEASURERS = {
    "scenario": measure.measure,
    "backbone": backbone.measure_all,
    "experiment": experiment_guest.measure,
    "sessions": sessions_guest.measure,
    "sessions-tcp": sessions_tcp_guest.measure,
    "flent": flenttest.measure_request,
}

FIVE = (
    "run dumbbell --flows bic,bic,gaimd,cubic,reno --rate 50mbit --rtt 60ms --buffer 1bdp --time 40"
)


class Parser(argparse.ArgumentParser):
    """argparse, with one line for an error."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def add_where(parser: argparse.ArgumentParser) -> None:
    """The options that say on which kernel."""
    add = parser.add_argument
    add(
        "--engine",
        default=engine.VM,
        metavar="|".join(engine.ENGINES),
        help="in a virtual machine (default), in virtual time, or here",
    )
    add(
        "--kernel",
        metavar="VERSION",
        help="kernel: 6.1 (default), 6.12, 7.2; of the vm also host, a path",
    )
    add(
        "--steady",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the vm's clock does not feel how busy this machine is (default: unless KVM works)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="where results go (results)",
    )
    add("--json", action="store_true", help="the result as JSON instead of a table")
    add("--quiet", action="store_true", help="no progress")


def add_scenario(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("topology", metavar="TOPOLOGY", help=f"one of: {', '.join(scenario.TOPOLOGIES)}")
    add("--flows", required=True, metavar="LIST", help="CC, CC:PRESET, N*CC with commas between")
    add("--rate", default="50mbit", metavar="RATE", help="of the bottleneck (50mbit)")
    add("--rtt", default="60ms", metavar="TIME", help="round-trip without queues (60ms)")
    add("--buffer", metavar="SIZE", help="1bdp (default), 100p (packets), 64kb")
    add(
        "--qdisc",
        action="append",
        default=[],
        metavar="[LINK:]SPEC",
        help="at the bottleneck (a FIFO), or another link: drr_fq,limit=100p or senders:fq;"
        " repeatable",
    )
    add("--time", default="30", metavar="SECONDS", help="how long (30)")
    add("--warmup", metavar="SECONDS", help="left out of means (a quarter, at most 10 s)")
    add("--start-gap", default="0", metavar="SECONDS", help="between the starts of flows (0)")
    add(
        "--ecn",
        action="store_true",
        help="hosts speak ECN; without --qdisc the bottleneck marks (RED) before it drops",
    )
    add("--sender", metavar="PROGRAM", help="iperf3 (default), or fairflow (in virtual time)")
    add("--background", metavar="FRACTION", help="of the link, by many small flows (none)")
    add("--background-kind", metavar="KIND", help="flows (default), or packets")
    add("--background-sizes", metavar="SIZES", help="of the flows: exp (default), pareto:SHAPE")
    add("--background-mean", metavar="SIZE", help="of a flow (100kb)")
    add("--background-peak", metavar="RATE", help="of a flow (1mbit)")
    add("--mtu", type=int, default=1500, metavar="BYTES", help="of all links (1500)")
    add("--netem-limit", type=int, default=0, metavar="PACKETS", help="of the delays (ample)")
    add("--seed", type=int, default=1, metavar="N", help="of all that is random (1)")


def add_flent(parser: argparse.ArgumentParser) -> None:
    """A test of Flent's, and the network; what follows `--` is for Flent."""
    add = parser.add_argument
    add("test", metavar="TEST", help="such as tcp_download, rrul_be: flent --list-tests")
    add("--cc", default="", metavar="NAME", help="congestion control (the test's, or the kernel's)")
    add("--rate", default="50mbit", metavar="RATE", help="of both bottlenecks (50mbit)")
    add("--rtt", default="60ms", metavar="TIME", help="round-trip without queues (60ms)")
    add("--buffer", metavar="SIZE", help="1bdp (default), 100p (packets), 64kb")
    add(
        "--qdisc",
        action="append",
        default=[],
        metavar="[LINK:]SPEC",
        help="at the bottlenecks (a FIFO), or reverse: at the one of the other direction",
    )
    add("--time", default="60", metavar="SECONDS", help="the test's length (60)")
    add("--ecn", action="store_true", help="hosts speak ECN")
    add("--mtu", type=int, default=1500, metavar="BYTES", help="of all links (1500)")
    add("--netem-limit", type=int, default=0, metavar="PACKETS", help="of the delays (ample)")
    # What an experiment has besides: no flows but the test's.
    parser.set_defaults(
        topology="dumbbell",
        start_gap="0",
        warmup=None,
        seed=1,
        sender=None,
        background=None,
        background_kind=None,
        background_sizes=None,
        background_mean=None,
        background_peak=None,
        options=[],
    )


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="fairlab",
        description="TCP flows share a bottleneck between Mininet hosts, on a real kernel.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("--version", action="version", version=f"fairlab {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, epilog=EXIT_STATUS)

    run = command("run", "run an experiment, print and store what came of it")
    add_scenario(run)
    add_where(run)
    add_output(run)
    check = command("check", "see whether an experiment could run, without running it")
    add_scenario(check)
    add_where(check)
    five = command("five", f"see five flows share 50 Mbit/s: {FIVE}, and what came of it in words")
    add_where(five)
    add_output(five)
    network = command(
        "backbone", "flows come and go on a backbone: with SLBN, with fair queueing, with FIFOs"
    )
    network.add_argument("--rate", default="4mbit", metavar="RATE", help="of each wire (4mbit)")
    network.add_argument("--time", default="60", metavar="SECONDS", help="how long (60)")
    network.add_argument(
        "--variants",
        default=",".join(backbone.VARIANTS),
        metavar="LIST",
        help=f"of {', '.join(backbone.VARIANTS)} (all)",
    )
    add_where(network)
    add_output(network)
    listing = command(
        "list", "topologies, their links, and the congestion controls and presets of a kernel"
    )
    add_where(listing)
    plot = command("plot", "draw the figures of a stored result again")
    plot.add_argument("directory", type=Path, metavar="DIR", help="a result's directory")

    compare = command("compare", "draw stored results side by side: windows, and use of the link")
    compare.add_argument("directories", type=Path, nargs="+", metavar="DIR", help="results")
    compare.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the figure: .png or .svg"
    )

    figures.add_figure(command("figure", "make published figures again, in virtual time"))
    figures.add_report(command("report", "put all figures on one page, beside what was published"))
    test = command("flent", "run a test of Flent's on the network of an experiment: [-- OPTION...]")
    add_flent(test)
    add_where(test)
    add_output(test)

    # Not for people: what `run` and `check` start in a guest.
    inner = commands.add_parser("measure")
    inner.add_argument("directory", type=Path)
    inner.add_argument("--check", action="store_true")
    inner.add_argument("--kind", choices=MEASURERS, default="scenario")
    inner.add_argument("--progress", choices=STYLES, default="none")
    return parser


def parse_background(arguments: argparse.Namespace) -> background.Background | None:
    """The background that the command line describes."""
    options = ("kind", "sizes", "mean", "peak")
    given = {name: getattr(arguments, f"background_{name}") for name in options}
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.background is None:
        if given:
            raise UsageError(f"--background-{next(iter(given))} needs --background")
        return None
    kind = given.get("kind", background.FLOWS)
    lost = [name for name in given if name != "kind"]
    if kind == background.PACKETS and lost:
        raise UsageError(f"--background-{lost[0]} is for the background kind flows")
    parsers = {"mean": units.parse_size, "peak": units.parse_rate}
    parsed: dict[str, Any] = {name: parsers.get(name, str)(value) for name, value in given.items()}
    return background.Background(background.parse_fraction(arguments.background), **parsed)


def parse_qdiscs(
    arguments: argparse.Namespace, rate: int, rtt: int
) -> tuple[tuple[qdisc.Qdisc, ...], qdisc.Buffer]:
    """The qdiscs that the command line describes, and the buffer that the bottleneck has."""
    buffer = qdisc.parse_buffer(arguments.buffer or qdisc.DEFAULT_BUFFER, rate, rtt)
    found = [qdisc.parse_qdisc(text) for text in arguments.qdisc]
    frame = arguments.mtu + headers.ETHERNET
    for n, one in enumerate(found):
        if one.link == qdisc.BOTTLENECK:
            found[n], buffer = qdisc.settle_limit(one, buffer, bool(arguments.buffer), frame)
    return tuple(found), buffer


def parse_scenario(arguments: argparse.Namespace) -> scenario.Scenario:
    """The scenario that the command line describes."""
    rate, rtt = units.parse_rate(arguments.rate), units.parse_time(arguments.rtt)
    flows = scenario.parse_flows(arguments.flows)
    time, gap = units.parse_seconds(arguments.time), units.parse_seconds(arguments.start_gap)
    seconds, rest = divmod(time, 10**6)
    if rest:
        raise UsageError(f"time '{arguments.time}': must be whole seconds")
    if arguments.warmup is None:
        warmup = scenario.default_warmup(seconds, len(flows), gap)
    else:
        warmup = units.parse_seconds(arguments.warmup) / 10**6
    qdiscs, buffer = parse_qdiscs(arguments, rate, rtt)
    usual = scenario.FAIRFLOW if arguments.engine == engine.VIRTUAL else scenario.IPERF3
    return scenario.Scenario(
        topology=arguments.topology,
        flows=flows,
        rate=rate,
        rtt=rtt,
        buffer=buffer,
        seconds=seconds,
        warmup_seconds=warmup,
        start_gap=gap,
        seed=arguments.seed,
        mtu=arguments.mtu,
        ecn=arguments.ecn,
        netem_limit=arguments.netem_limit,
        qdiscs=qdiscs,
        background=parse_background(arguments),
        sender=arguments.sender or usual,
    )


def parse_where(arguments: argparse.Namespace) -> engine.Vm | None:
    """The virtual machine to use, or None for this one."""
    if arguments.engine not in engine.ENGINES:
        raise UsageError(f"no engine '{arguments.engine}'; there are: {', '.join(engine.ENGINES)}")
    if arguments.engine == engine.VIRTUAL and arguments.steady is not None:
        raise UsageError("--steady is for the engine vm: virtual time is steady by itself")
    if arguments.engine != engine.HOST:
        kernel = arguments.kernel or engine.DEFAULT_KERNEL
        return engine.Vm(arguments.engine, kernel, arguments.steady)
    for option, value in (("--kernel", arguments.kernel), ("--steady", arguments.steady)):
        if value is not None:
            raise UsageError(f"{option} is for the engine vm: the engine host runs on this kernel")
    return None


@dataclass(frozen=True)
class Job:
    """Something to be measured, here or in a guest."""

    build: Callable[[], None]  # the programs that it takes
    write: Callable[[Path], None]  # says in a directory what it is
    measure: Callable[[Path, Progress], None]  # does what is said there
    seconds: float
    guest: tuple[str, ...] = ()  # more words for fairlab in a guest


@contextlib.contextmanager
def measured(arguments: argparse.Namespace, job: Job) -> Iterator[Path]:
    """Measure; a directory with the data, to be evaluated there and given a name."""
    vm = parse_where(arguments)
    plots.require()
    job.build()
    if vm is None:
        host.require_root()
        host.require_tools()
    style = style_here(arguments.quiet)
    progress = Progress(style)
    parent: Path = arguments.out.absolute()
    with contextlib.closing(_Line(progress)), store.working_directory(parent) as work:
        job.write(work)
        if vm:
            progress.step("booting a virtual machine")
            vm.fairlab(["measure", str(work), *job.guest, "--progress", style], work, job.seconds)
        else:
            job.measure(work, progress)
        progress.step("evaluating")
        yield work


def do_run(arguments: argparse.Namespace, what: scenario.Scenario) -> tuple[Path, dict[str, Any]]:
    """Measure, evaluate, store; where it is, and what."""
    date = datetime.now().astimezone()
    job = Job(
        build=lambda: engine.build_programs(what),
        write=lambda work: store.write_scenario(work, what),
        measure=measure.measure,
        seconds=what.seconds,
    )
    with measured(arguments, job) as work:
        result = store.evaluate(work, date, host.tree())
        store.write_flent(work, result)
        directory = store.publish(work, arguments.out.absolute(), date, result)
        plots.draw(directory, result)
        return directory, result


class _Line:
    """Ends the progress line, whatever comes."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def close(self) -> None:
        self.progress.done()


def _short(path: Path) -> str:
    """PATH from here if it is below, else in full."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def run(arguments: argparse.Namespace) -> None:
    directory, result = do_run(arguments, parse_scenario(arguments))
    show(arguments, directory, result)


def show(arguments: argparse.Namespace, directory: Path, result: dict[str, Any]) -> None:
    """Print a result, as JSON or for people."""
    if arguments.json:
        print(json.dumps(store.without_curves(result) | {"directory": str(directory)}, indent=2))
        return
    print(report.table(result))
    print(f"\nresults and figures: {_short(directory)}/")


def five(arguments: argparse.Namespace) -> None:
    what = parse_scenario(build_parser().parse_args(FIVE.split()))
    directory, result = do_run(arguments, what)
    show(arguments, directory, result)
    if not arguments.json:
        for name in plots.names(result):
            print(f"  {_short(directory / name)}.png")
        print("\nWhat is to be seen:")
        for sentence in report.sentences(result):
            print(f"- {sentence}")


def check(arguments: argparse.Namespace) -> None:
    what = parse_scenario(arguments)
    vm = parse_where(arguments)
    engine.build_programs(what)
    if vm:
        with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
            store.write_scenario(Path(scratch), what)
            vm.fairlab(["measure", scratch, "--check"], Path(scratch))
    else:
        print_fitness(what)


def print_fitness(what: scenario.Scenario) -> None:
    fitness = measure.check(what, Progress("none"))
    kinds = ", ".join(dict.fromkeys(map(str, what.flows)))
    print(f"congestion controls: {kinds}")
    for one in what.qdiscs:
        print(f"qdisc: {one.link}: {one}")
    print("offloads: off on every link")
    if fitness.capacity is None:
        print("forwarding: takes no time here")
    else:
        speed = f"{fitness.capacity / 1e6:.0f} Mbit/s"
        print(f"forwarding: {speed}, for {units.format_rate(what.rate)}")
    print(f"round-trip: {fitness.round_trip_ms:.2f} ms, for {units.format_time(what.rtt)}")
    print("this experiment can run here")


def list_all(arguments: argparse.Namespace) -> None:
    vm = parse_where(arguments)
    if vm:
        vm.fairlab(["list", "--engine", "host"], None)
        return
    host.complete_path()
    # A guest is ours alone, so everything can be loaded there; here, that is for `run` to do.
    if os.environ.get("FAIRPATH_ENGINE"):
        for cc in congestion.loadable():
            congestion.load(cc)
    print(f"topologies: {', '.join(scenario.TOPOLOGIES)}")
    print("links for --qdisc:")
    for link, text in qdisc.LINKS.items():
        print(f"  {link:12} {text}")
    print(f"congestion controls of Linux {os.uname().release}:")
    ready = congestion.registered()
    for cc in sorted({*ready, *congestion.loadable()}):
        presets = congestion.presets(cc)
        notes = [f"presets: {', '.join(presets)}"] if presets else []
        notes += [] if cc in ready else ["not loaded yet"]
        print(f"  {cc:12} {'; '.join(notes)}".rstrip())


def plot(arguments: argparse.Namespace) -> None:
    plots.require()
    for path in plots.draw(arguments.directory, store.read(arguments.directory)):
        print(path)


def compare_runs(arguments: argparse.Namespace) -> None:
    plots.require()
    found = [store.read(directory) for directory in arguments.directories]
    comparison.draw(found, arguments.out)
    print(arguments.out)


def parse_plan(arguments: argparse.Namespace) -> backbone.Plan:
    """What is to be measured on the backbone."""
    seconds, rest = divmod(units.parse_seconds(arguments.time), 10**6)
    if rest or not backbone.SHORTEST <= seconds <= 3600:
        raise UsageError(
            f"time '{arguments.time}': must be whole seconds, {backbone.SHORTEST} to 3600"
        )
    variants = tuple(arguments.variants.split(","))
    for name in variants:
        if name not in backbone.VARIANTS:
            raise UsageError(f"no variant '{name}'; there are: {', '.join(backbone.VARIANTS)}")
    return backbone.Plan(units.parse_rate(arguments.rate), seconds, variants)


def run_backbone(arguments: argparse.Namespace) -> None:
    plan = parse_plan(arguments)
    date = datetime.now().astimezone()
    job = Job(
        build=backbone.build_programs,
        write=lambda work: backbone.write_plan(work, plan),
        measure=backbone.measure_all,
        seconds=plan.seconds * len(plan.variants),
        guest=("--kind", "backbone"),
    )
    with measured(arguments, job) as work:
        found = backbone_report.write_results(work)
        name = f"{date.strftime('%Y-%m-%dT%H%M%S')}-backbone"
        directory = store.name(work, arguments.out.absolute(), name)
    if arguments.json:
        print(json.dumps(found | {"directory": str(directory)}, indent=2))
    else:
        print(backbone_report.table(plan, found))
        print(f"\nresults and figures: {_short(directory)}/")
        for path in sorted(directory.glob("*.png")):
            print(f"  {_short(path)}")
    if broken := backbone_report.broken(found):
        raise BrokenPromiseError(f"SLBN did not keep its promise: {'; '.join(broken)}")


def run_flent(arguments: argparse.Namespace) -> None:
    flenttest.require()
    flenttest.require_test(arguments.test)
    # A flow stands for the two hosts that there are.
    arguments.flows = arguments.cc or "cubic"
    what = parse_scenario(arguments)
    request = flenttest.Request(arguments.test, tuple(arguments.options), arguments.cc, what)
    date = datetime.now().astimezone()
    job = Job(
        build=lambda: engine.build_programs(what),
        write=lambda work: flenttest.write_request(work, request),
        measure=flenttest.measure_request,
        seconds=what.seconds,
        guest=("--kind", "flent"),
    )
    with measured(arguments, job) as work:
        about = {
            "fairlab": __version__,
            "project": store.project_version(host.tree()),
            "date": date.astimezone(UTC).isoformat(timespec="seconds"),
        }
        result = flenttest.store(work, about)
        name = f"{date.strftime('%Y-%m-%dT%H%M%S')}-flent-{request.test}"
        directory = store.name(work, arguments.out.absolute(), name)
    if arguments.json:
        print(json.dumps(result | {"directory": str(directory)}, indent=2))
        return
    print(flenttest.table(result, directory))
    print(f"\nresult and figure: {_short(directory)}/")


def measure_here(arguments: argparse.Namespace) -> None:
    if arguments.check:
        text = (arguments.directory / measure.SCENARIO).read_text()
        print_fitness(scenario.Scenario.from_json(json.loads(text)))
        return
    progress = Progress(arguments.progress)
    with contextlib.closing(_Line(progress)):
        MEASURERS[arguments.kind](arguments.directory, progress)


COMMANDS = {
    "run": run,
    "check": check,
    "five": five,
    "list": list_all,
    "plot": plot,
    "compare": compare_runs,
    "backbone": run_backbone,
    "flent": run_flent,
    "measure": measure_here,
    **figures.COMMANDS,
}


def parse_words(words: Sequence[str]) -> argparse.Namespace:
    """The command line; behind `--` is what is for Flent."""
    if list(words[:1]) != ["flent"] or "--" not in words:
        return build_parser().parse_args(words)
    end = list(words).index("--")
    arguments = build_parser().parse_args(words[:end])
    arguments.options = list(words[end + 1 :])
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    measure.stop_on_signals()
    try:
        arguments = parse_words(sys.argv[1:] if words is None else words)
        COMMANDS[arguments.command](arguments)
    except LabError as error:
        if not isinstance(error, ReportedError):
            print(f"fairlab: {error}", file=sys.stderr)
        return error.status
    except measure.Stopped as stopped:
        print(f"fairlab: stopped by {stopped}", file=sys.stderr)
        return 128 + stopped.number
    return 0
