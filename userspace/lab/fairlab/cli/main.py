# SPDX-License-Identifier: GPL-2.0
"""The command line: stdout has the answer (a table, or JSON), stderr progress and errors."""

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from fairlab import __version__
from fairlab.cli import (
    backbone,
    compare,
    figures,
    flent,
    measure,
    mininet,
    run,
    show,
    testbed,
    verify,
)
from fairlab.cli.options import EXIT_STATUS, Parser
from fairlab.model.errors import LabError, ReportedError
from fairlab.net.host import STOPPING


class Stopped(Exception):
    """A signal asks us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def stop_on_signals() -> None:
    """Raise Stopped at the first signal; later ones do not interrupt the clean-up."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in STOPPING:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    for number in STOPPING:
        signal.signal(number, stop)


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="fairlab",
        description="TCP flows share a bottleneck between network namespaces, on a real kernel.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("--version", action="version", version=f"fairlab {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, handler: Callable[[argparse.Namespace], None]) -> Parser:
        made = commands.add_parser(name, help=text, description=text, epilog=EXIT_STATUS)
        made.set_defaults(handler=handler)
        return made

    for module in (run, backbone, mininet, compare, show, figures, flent, verify, testbed):
        module.add(command)
    measure.add(commands)
    return parser


def parse_words(words: list[str]) -> argparse.Namespace:
    """The command line; Flent's options follow `--`."""
    end = words.index("--") if words[:1] == ["flent"] and "--" in words else len(words)
    arguments = build_parser().parse_args(words[:end])
    arguments.options = words[end + 1 :]
    return arguments


def flush_output() -> str:
    """Write what is left of the output; why that fails, or nothing.

    What could not be written is given up, else Python would try again at its end.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return ""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return error.strerror or str(error)
    return ""


def main(words: Sequence[str] | None = None) -> int:
    stop_on_signals()
    # Names of files may be no text, and the locale's characters may be few.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    status = answer(sys.argv[1:] if words is None else words)
    lost = flush_output()
    if lost and not status:
        print(f"fairlab: standard output: {lost}", file=sys.stderr)
        return LabError.status
    return status


def answer(words: Sequence[str]) -> int:
    """Do what the command line asks; the exit status."""
    try:
        arguments = parse_words(list(words))
        arguments.handler(arguments)
    except SystemExit as end:
        # After --help and --version, which are output, too.
        return int(end.code or 0)
    except LabError as error:
        if not isinstance(error, ReportedError):
            print(f"fairlab: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        # A disk that is full, or a name or a directory that cannot be used: not our mistake.
        where = error.filename or "the output, or a file"
        print(f"fairlab: {where}: {error.strerror or error}", file=sys.stderr)
        return LabError.status
    except Stopped as stopped:
        print(f"fairlab: stopped by {stopped}", file=sys.stderr)
        return 128 + stopped.number
    return 0
