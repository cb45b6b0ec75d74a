# SPDX-License-Identifier: GPL-2.0
"""scripts/kernel: fetch or build kernels, and build the project's modules for them.

`get` and `modules` print one path on stdout, for scripts; progress is printed on stderr.
Exit status: 0; 1 if it failed; 2 for an invalid request; 128 + N if stopped by signal N, which
removes an unfinished kernel.
"""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from fairvm import __version__, checked, host, kernels, uml
from fairvm.architecture import AMD64, ARCHITECTURES
from fairvm.archive import SERIES
from fairvm.cache import Kernel, cache_dir
from fairvm.errors import UsageError, VmError
from fairvm.machine import STOPPING
from fairvm.modules import build_modules
from fairvm.request import Parser


def list_kernels() -> None:
    """Print the cached kernels, and the series that can be fetched."""
    print(f"cache: {cache_dir()}")
    series_of = {}
    for series in kernels.NAMES:
        kernel = kernels.cached_series(series)
        if kernel:
            series_of[kernel.directory] = series
        else:
            places = SERIES[series.removesuffix("-rt")]
            names = ", ".join("+".join(s.name for s in suites) for suites in places)
            print(f"  {series:8} can be fetched from Debian {names}")
    for kernel in kernels.cached():
        print(f"  {series_of.get(kernel.directory, ''):8} {kernel.release}  {kernel.directory}")
    for kernel in checked.cached():
        print(f"  {'built':8} {kernel.release}  {kernel.directory}")
    for kernel in uml.cached():
        print(f"  {'native':8} {kernel.release}  {kernel.directory}")


def chosen(arguments: argparse.Namespace) -> Kernel:
    """The kernel that the command line names."""
    refresh = getattr(arguments, "refresh", False)
    architecture = ARCHITECTURES[arguments.arch]
    if arguments.engine == "native":
        if architecture != AMD64:
            raise UsageError("--arch is for --engine vm")
        return uml.get(arguments.version, arguments.debug, refresh)
    if arguments.debug:
        raise UsageError("--debug is for --engine native; with checks there is also 6.12-debug")
    return kernels.get(arguments.version, refresh, architecture)


def stop(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    for number in STOPPING:
        signal.signal(number, stop)
    parser = Parser(
        prog=host.KERNEL,
        description="Fetch or build kernels, and build our modules for them.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fairvm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    get = commands.add_parser(
        "get", help="fetch or build a kernel if necessary, print its directory"
    )
    get.add_argument("--refresh", action="store_true", help="look for a newer one of that series")
    get.add_argument("version", metavar="VERSION", help=f"{kernels.available()}")
    modules = commands.add_parser("modules", help="build our modules, print their tree's directory")
    modules.add_argument("version", metavar="VERSION", help="as for get")
    for command in (get, modules):
        command.add_argument("--engine", default="vm", choices=("vm", "native"), help="as for vm")
        command.add_argument("--debug", action="store_true", help="as for vm")
        command.add_argument("--arch", default="amd64", choices=ARCHITECTURES, help="as for vm")
    commands.add_parser("list", help="print the cached kernels and those that can be fetched")
    try:
        arguments = parser.parse_args()
        if arguments.command == "list":
            list_kernels()
        elif arguments.command == "get":
            print(chosen(arguments).directory)
        else:
            print(build_modules(chosen(arguments)))
    except (VmError, OSError) as error:
        print(f"{host.KERNEL}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
