# SPDX-License-Identifier: GPL-2.0
"""Options that several commands share, and what they mean."""

import argparse
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from fairlab.cli import measure
from fairlab.model import background, headers, qdisc, scenario, units
from fairlab.model.errors import UsageError, require_known
from fairlab.run import engine
from fairlab.run.engine import Engine
from fairlab.run.progress import Progress, style_here

EXIT_STATUS = """exit status:
  0  success
  1  an error: the reason is on stderr
  2  usage error
  3  it cannot be done here, or this machine disturbed the measurement
  4  a check of SLBN failed (backbone), a published claim does not hold (figure)
  5  a stored run cannot be compared (verify)
  128 + N  stopped by signal N"""

#: Those that are built for virtual time.
KERNELS = ("6.1", "6.12", "7.2")
#: As many runs as anybody could want, and what all programs take as a seed.
MAX_SEEDS, MAX_SEED = 1000, 2**31 - 1


class Parser(argparse.ArgumentParser):
    """argparse, with one line for an error."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def option(self, name: str, metavar: str, text: str, default: Any = None, **more: Any) -> None:
        """Add an option with a value; its help is TEXT and the default."""
        shown = "" if default is None else f" ({default})"
        self.add_argument(name, metavar=metavar, default=default, help=text + shown, **more)

    def flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text)


#: Adds a command of this name, with a line of help, and what does it.
Command = Callable[[str, str, Callable[[argparse.Namespace], None]], Parser]


def add_where(parser: Parser) -> None:
    """The options that choose the kernel under test."""
    add_engine(parser, engine.VM)
    parser.add_argument(
        "--steady",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the vm's clock counts instructions, so a busy machine does not distort it"
        " (default: if KVM does not work)",
    )


def add_engine(parser: Parser, default: str) -> None:
    where = "a virtual machine, virtual time, or this machine, as root"
    parser.option("--engine", "|".join(engine.ENGINES), where, default)
    kernels = "kernel: 6.1 (default), 6.12, 7.2; with --engine vm also host, or a path"
    parser.option("--kernel", "VERSION", kernels)
    late = "in virtual time: start each process up to 1 ms later, at random by the seed"
    parser.flag("--jitter", late)


def add_output(parser: Parser, out: str = "results") -> None:
    parser.option("--out", "DIR", "directory of results", Path(out), type=Path)
    add_print(parser)


def add_print(parser: Parser) -> None:
    parser.flag("--json", "print the result as JSON instead of text")
    parser.flag("--quiet", "print no progress")


def progress_of(arguments: argparse.Namespace) -> contextlib.closing[Progress]:
    """Progress on stderr, unless the user wants none."""
    return contextlib.closing(Progress(style_here(arguments.quiet)))


def add_runs(parser: Parser, seeds: str) -> None:
    """The options that choose among many runs in virtual time; SEEDS: which by default."""
    parser.option("--kernel", "VERSION", ", ".join(KERNELS), engine.DEFAULT_KERNEL)
    add_seeds(parser, seeds)


def add_jobs(parser: Parser) -> None:
    parser.option("--jobs", "N", "runs at a time (as many as there are CPUs)", type=int)
    parser.flag("--draw", "only draw, from the stored runs")


def jobs_of(arguments: argparse.Namespace) -> int:
    """Runs at a time."""
    if arguments.jobs is None:
        return len(os.sched_getaffinity(0))
    if arguments.jobs < 1:
        raise UsageError(f"jobs {arguments.jobs}: must be at least 1")
    return int(arguments.jobs)


def add_seeds(parser: Parser, default: str) -> None:
    add = parser.add_mutually_exclusive_group().add_argument
    add("--seeds", type=int, metavar="N", help=f"the seeds 1 to N ({default})")
    add("--seed", type=int, action="append", metavar="N", help="this seed only (repeatable)")


def seeds_of(arguments: argparse.Namespace) -> tuple[int, ...]:
    """The seeds that the user has chosen; none: those by default."""
    if arguments.seeds is not None:
        if not 1 <= arguments.seeds <= MAX_SEEDS:
            raise UsageError(f"seeds {arguments.seeds}: must be 1 to {MAX_SEEDS}")
        return tuple(range(1, arguments.seeds + 1))
    for seed in arguments.seed or ():
        check_seed(seed)
    return tuple(dict.fromkeys(arguments.seed or ()))


def check_seed(seed: int) -> None:
    if not 1 <= seed <= MAX_SEED:
        raise UsageError(f"seed {seed}: must be 1 to {MAX_SEED}")


def short(path: Path) -> str:
    """PATH relative to the working directory if it is below, else absolute."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def add_network(parser: Parser, seconds: int) -> None:
    """The options of the dumbbell network, and the duration, by default SECONDS."""
    option = parser.option
    option("--rate", "RATE", "rate of the bottleneck", "50mbit")
    option("--rtt", "TIME", "round-trip time without queues", "60ms")
    option("--buffer", "SIZE", "buffer of the bottleneck: 1bdp (default), 100p (packets), 64kb")
    parser.add_argument(
        "--qdisc",
        action="append",
        default=[],
        metavar="[LINK:]SPEC",
        help="qdisc of the bottleneck (a FIFO) or of another link: drr_fq,limit=100p or"
        " senders:fq; repeatable",
    )
    option("--time", "SECONDS", "duration", str(seconds))
    marks = "hosts negotiate ECN; without --qdisc the bottleneck marks (RED) before it drops"
    parser.flag("--ecn", marks)
    option("--mtu", "BYTES", "MTU of all links", 1500, type=int)
    limit = "queue limit of the netem delays (large enough for all packets)"
    parser.add_argument("--netem-limit", type=int, default=0, metavar="PACKETS", help=limit)


def add_scenario(parser: Parser) -> None:
    topologies = f"one of: {', '.join(scenario.TOPOLOGIES)}"
    parser.add_argument("topology", metavar="TOPOLOGY", help=topologies)
    option = parser.option
    option("--flows", "LIST", "CC, CC:PRESET, N*CC, separated by commas", required=True)
    add_network(parser, seconds=30)
    steady = "time before the steady state, left out of means (a quarter, at most 10 s)"
    option("--warmup", "SECONDS", steady)
    option("--start-gap", "SECONDS", "time between flow starts", "0")
    option("--sender", "PROGRAM", "iperf3 (default), or fairflow (in virtual time)")
    load = "background load of many small flows, as a fraction of the link (none)"
    option("--background", "FRACTION", load)
    option("--background-kind", "KIND", "flows (default), or packets")
    sizes = "flow size distribution: exp (default), pareto:SHAPE"
    option("--background-sizes", "SIZES", sizes)
    option("--background-mean", "SIZE", "mean flow size (100kb)")
    option("--background-peak", "RATE", "peak rate of a flow (1mbit)")
    option("--seed", "N", "seed of all random choices", 1, type=int)


def parse_background(arguments: argparse.Namespace) -> background.Background | None:
    """The background load that the command line describes."""
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
    """The qdiscs that the command line describes, and the buffer of the bottleneck."""
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


def parse_where(arguments: argparse.Namespace) -> Engine:
    """The engine that the command line asks for."""
    require_known("no engine", arguments.engine, engine.ENGINES)
    if arguments.engine == engine.VIRTUAL and arguments.steady is not None:
        raise UsageError("--steady is for the engine vm: virtual time is steady by itself")
    if arguments.jitter and arguments.engine != engine.VIRTUAL:
        raise UsageError("--jitter is for the engine virtual: elsewhere timing varies by itself")
    if arguments.engine != engine.HOST:
        kernel = arguments.kernel or engine.DEFAULT_KERNEL
        return engine.Vm(arguments.engine, kernel, arguments.steady, arguments.jitter)
    for option, value in (("--kernel", arguments.kernel), ("--steady", arguments.steady)):
        if value is not None:
            raise UsageError(f"{option} is for the engine vm: the engine host runs on this kernel")
    return engine.Here(measure.measure)
