# SPDX-License-Identifier: GPL-2.0
"""make bench: what drr_fq, slbn, slbnd and mainline's qdiscs cost, the lab, and the simulator.

Boots User-Mode Linux, whose code runs natively (scripts/vm --engine native), measures in it what
is of the kernel (measure.py and measure_slbn.py, which say how), on this machine's own kernel what
is not (measure_slbnd.py), from outside what a guest costs (measure_virtual.py), and what needs no
kernel at all (measure_slbnsim.py), and leaves in results/ the data with all its conditions, tables
and figures (report.py, report_slbn.py, report_slbnd.py, report_virtual.py, report_slbnsim.py).
With --publish it copies them to docs/, to be committed.

Exit status: 0; 1 when it could not be measured; 2 for a request that makes no sense.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairvm import host, uml
from fairvm.archive import SERIES
from fairvm.cache import Kernel
from fairvm.errors import UsageError, VmError

from tests.bench import report, report_slbn, report_slbnd, report_slbnsim, report_virtual

TOP = Path(__file__).resolve().parent.parent.parent
HERE = TOP / "tests/bench"

# Where it is measured: in a kernel of its own, in a network namespace of this machine, from outside
# of the guests that it boots itself, or simply here.
INSIDE, HERE_ALONE, OUTSIDE, PLAIN = "inside", "here", "outside", "plain"


@dataclass(frozen=True)
class Bench:
    """What can be measured."""

    program: str
    write: Callable[[Path], None]  # the report
    smoke: tuple[str, ...]  # a few seconds for each step
    place: str = INSIDE


BENCHES = {
    "drr_fq": Bench("measure", report.write, ("--flows", "20", "--turns", "2", "--slices", "3")),
    "slbn": Bench(
        "measure_slbn",
        report_slbn.write,
        ("--sessions", "1", "--sessions", "1000", "--turns", "2", "--slices", "3"),
    ),
    "slbnd": Bench(
        "measure_slbnd",
        report_slbnd.write,
        ("--sessions", "100", "--seconds", "1"),
        place=HERE_ALONE,
    ),
    "virtual": Bench(
        "measure_virtual",
        report_virtual.write,
        ("--no-vm", "--turns", "1", "--rate", "100mbit", "--seconds", "1"),
        place=OUTSIDE,
    ),
    "slbnsim": Bench(
        "measure_slbnsim",
        report_slbnsim.write,
        ("--sessions", "1000", "--sessions", "10000", "--turns", "1"),
        place=PLAIN,
    ),
}
PLUGINS = TOP / "build/tc"
MEMORY = "4G"
SECONDS = 1800


def build(kernel: Kernel) -> Path:
    """The measuring module for KERNEL, and tc's plugins."""
    directory = TOP / "build/bench" / kernel.release
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("Kbuild", "qbench.c", "sbench.c", "sbench.h"):
        shutil.copy2(HERE / name, directory)
    make = ["make", "-s", *kernel.make_variables]
    host.run(
        [*make, "-C", str(kernel.headers.resolve()), f"M={directory}", f"FAIRPATH={TOP}", "modules"]
    )
    host.run(["make", "-s", "-C", str(TOP), "tc-plugins"])
    return directory / "fpbench.ko"


def ended(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What was measured."""
    if done.returncode:
        raise VmError(f"not measured: it ended with status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure_here(program: str, arguments: list[str]) -> dict[str, Any]:
    """Measure in a network namespace of this machine."""
    host.run(["make", "-s", "-C", str(TOP), "tools"])
    command = ["unshare", "--map-root-user", "--net", "--"]
    command += ["/usr/bin/python3", "-m", f"tests.bench.{program}", *arguments]
    return ended(subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False))


def measure_outside(series: str, program: str, arguments: list[str]) -> dict[str, Any]:
    """Measure guests from here: of SERIES, and of the newest series if its kernel is there."""
    newest = list(SERIES)[-1]
    there = uml.is_complete(uml.directory_for(newest, debug=False))
    for kernel in dict.fromkeys([series, *([newest] if there else [])]):
        uml.get(kernel)
        arguments = [*arguments, "--kernel", kernel]
    command = ["/usr/bin/python3", "-m", f"tests.bench.{program}", *arguments]
    return ended(subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False))


def measure_plain(program: str, arguments: list[str]) -> dict[str, Any]:
    """Measure a program that asks nothing of its machine."""
    host.run(["make", "-s", "-C", str(TOP), "slbnsim"])
    command = ["/usr/bin/python3", "-m", f"tests.bench.{program}", *arguments]
    return ended(subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False))


def measure(series: str, module: Path, program: str, arguments: list[str]) -> dict[str, Any]:
    """Boot, and measure."""
    command = ["/usr/bin/python3", "-m", f"tests.bench.{program}", *arguments]
    script = f"insmod {shlex.quote(str(module))} && exec {shlex.join(command)}"
    vm = [str(TOP / "scripts/vm"), "--engine", "native", "--kernel", series, "--mem", MEMORY]
    vm += ["--timeout", str(SECONDS), "--env", f"TC_LIB_DIR={PLUGINS}"]
    vm += ["--env", "PYTHONDONTWRITEBYTECODE", "--env", "PYTHONPATH", "--", "sh", "-c", script]
    return ended(subprocess.run(vm, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False))


def said(*command: str) -> str:
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def processor() -> str:
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.processor()


def conditions() -> dict[str, Any]:
    """What the result depends on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "project": said("git", "describe", "--always", "--dirty", "--tags"),
        "compiler": said("gcc", "--version").partition("\n")[0],
        "iproute2": said("tc", "-V"),
        "processor": processor(),
        "processors": os.cpu_count(),
        "host": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def conditions_inside(kernel: Kernel) -> dict[str, Any]:
    return {
        "kernel": kernel.release,
        "source": (kernel.directory / "source").read_text().strip(),
        "config": kernel.directory.name,
    }


def run(what: Bench, series: str, smoke: bool) -> dict[str, Any]:
    """Measure, and say under what conditions."""
    arguments = list(what.smoke) if smoke else []
    known = conditions()
    if what.place == HERE_ALONE:
        return {"conditions": known, **measure_here(what.program, arguments)}
    if what.place == OUTSIDE:
        return {"conditions": known, **measure_outside(series, what.program, arguments)}
    if what.place == PLAIN:
        return {"conditions": known, **measure_plain(what.program, arguments)}
    kernel = uml.get(series)
    known |= conditions_inside(kernel)
    return {"conditions": known, **measure(series, build(kernel), what.program, arguments)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"of {', '.join(BENCHES)}; default: all"
    )
    parser.add_argument("--kernel", default="6.1", metavar="SERIES", help="default 6.1")
    parser.add_argument("--smoke", action="store_true", help="only see whether all of it works")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: a new one in results/")
    parser.add_argument("--publish", action="store_true", help="copy the result to docs/, too")
    arguments = parser.parse_args()
    if unknown := set(arguments.what) - set(BENCHES):
        parser.error(f"{unknown.pop()}: not one of {', '.join(BENCHES)}")
    now = datetime.datetime.now().strftime("%Y-%m-%dT%H%M%S")
    output = arguments.output or TOP / "results" / f"{now}-bench"
    try:
        for name in arguments.what or BENCHES:
            result = run(BENCHES[name], arguments.kernel, arguments.smoke)
            output.mkdir(parents=True, exist_ok=True)
            data = output / f"bench-{name}.json"
            data.write_text(json.dumps(result, indent=1) + "\n")
            BENCHES[name].write(data)
            print(data.with_suffix(".md").read_text())
            if arguments.publish:
                for made in output.glob(f"bench-{name}.*"):
                    if made.suffix != ".svg":
                        shutil.copyfile(made, TOP / "docs" / made.name)
    except (VmError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    print(f"bench: all of it is in {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
