# SPDX-License-Identifier: GPL-2.0
"""make bench: the performance of drr_fq, slbn, slbnd, mainline's qdiscs, the lab and slbnsim.

Each benchmark runs in one of four places:

    guest       in User-Mode Linux, whose code runs natively (scripts/vm --engine native):
                measure.py (drr_fq), measure_slbn.py
    namespace   in a network namespace of this machine: measure_slbnd.py, measure_windows.py
    boots       on this machine, booting the guests that it measures: measure_virtual.py
    host        on this machine: measure_slbnsim.py

The data with its conditions (JSON), tables and figures (report/) are written to results/;
--publish copies them to docs/, to be committed.

Exit status: 0; 1 if a measurement failed; 2 for an invalid request.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairvm import host, source, uml
from fairvm.archive import SERIES
from fairvm.cache import Kernel
from fairvm.errors import UsageError, VmError

from tests import launch
from tests.bench import report

TOP = Path(__file__).resolve().parent.parent.parent
HERE = TOP / "tests/bench"

GUEST, NAMESPACE, BOOTS, HOST = "guest", "namespace", "boots", "host"


@dataclass(frozen=True)
class Bench:
    """A benchmark."""

    program: str  # a module of tests.bench
    smoke: tuple[str, ...]  # options for a run of seconds
    place: str = GUEST


BENCHES = {
    "drr_fq": Bench("measure", ("--flows", "20", "--turns", "2", "--slices", "3")),
    "slbn": Bench(
        "measure_slbn",
        ("--sessions", "1", "--sessions", "1000", "--turns", "2", "--slices", "3"),
    ),
    "slbnd": Bench(
        "measure_slbnd",
        ("--sessions", "100", "--seconds", "1", "--old", "10000"),
        place=NAMESPACE,
    ),
    "windows": Bench("measure_windows", ("--turns", "3", "--times", "500"), place=NAMESPACE),
    "virtual": Bench(
        "measure_virtual",
        ("--no-vm", "--turns", "1", "--rate", "100mbit", "--seconds", "1"),
        place=BOOTS,
    ),
    "slbnsim": Bench(
        "measure_slbnsim",
        ("--sessions", "1000", "--sessions", "10000", "--turns", "1"),
        place=HOST,
    ),
}
PLUGINS = TOP / "build/tc"
MEMORY = "4G"
SECONDS = 3600


def build(kernel: Kernel) -> Path:
    """Build the measuring module for KERNEL, and tc's plugins; return the module."""
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


def run(command: list[str]) -> dict[str, Any]:
    """Run a measuring COMMAND; return its JSON."""
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError(f"the measurement failed with status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def program(name: str, arguments: list[str]) -> list[str]:
    return ["/usr/bin/python3", "-m", f"tests.bench.{name}", *arguments]


def measure_in_namespace(name: str, arguments: list[str]) -> dict[str, Any]:
    host.run(["make", "-s", "-C", str(TOP), "tools"])
    # Without root slbnd cannot load its BPF program.
    user = ["--map-root-user"] if os.geteuid() else []
    return run(["unshare", *user, "--net", "--", *program(name, arguments)])


def measure_boots(series: str, name: str, arguments: list[str]) -> dict[str, Any]:
    """Measure guests of SERIES, and of the newest series if its kernel is cached."""
    newest = list(SERIES)[-1]
    cached = source.is_complete(uml.directory_for(newest, debug=False))
    for kernel in dict.fromkeys([series, *([newest] if cached else [])]):
        uml.get(kernel)
        arguments = [*arguments, "--kernel", kernel]
    return run(program(name, arguments))


def measure_on_host(name: str, arguments: list[str]) -> dict[str, Any]:
    host.run(["make", "-s", "-C", str(TOP), "slbnsim"])
    return run(program(name, arguments))


def measure_in_guest(
    series: str, kernel: Kernel, name: str, arguments: list[str]
) -> dict[str, Any]:
    """Boot KERNEL, of SERIES; load the measuring module and run the program."""
    module = shlex.quote(str(build(kernel)))
    script = f"insmod {module} && exec {shlex.join(program(name, arguments))}"
    vm = [str(TOP / "scripts/vm"), "--engine", "native", "--kernel", series, "--mem", MEMORY]
    vm += ["--timeout", str(SECONDS), "--env", f"TC_LIB_DIR={PLUGINS}"]
    vm += ["--env", "PYTHONDONTWRITEBYTECODE", "--env", "PYTHONPATH", "--", "sh", "-c", script]
    return run(vm)


def output_of(*command: str) -> str:
    done = launch.run(command, cwd=TOP)
    return done.stdout.strip()


def processor() -> str:
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.processor()


def conditions() -> dict[str, Any]:
    """The conditions that every result depends on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "project": output_of("git", "describe", "--always", "--dirty", "--tags"),
        "compiler": output_of("gcc", "--version").partition("\n")[0],
        "iproute2": output_of("tc", "-V"),
        "processor": processor(),
        "processors": os.cpu_count(),
        "host": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def guest_conditions(kernel: Kernel) -> dict[str, Any]:
    return {
        "kernel": kernel.release,
        "source": (kernel.directory / "source").read_text().strip(),
        "config": kernel.directory.name,
    }


def measure(bench: Bench, series: str, smoke: bool) -> dict[str, Any]:
    """Run a benchmark; its result with the conditions of the measurement."""
    arguments = list(bench.smoke) if smoke else []
    known = {"conditions": conditions()}
    if bench.place == NAMESPACE:
        return known | measure_in_namespace(bench.program, arguments)
    if bench.place == BOOTS:
        return known | measure_boots(series, bench.program, arguments)
    if bench.place == HOST:
        return known | measure_on_host(bench.program, arguments)
    kernel = uml.get(series)
    known["conditions"] |= guest_conditions(kernel)
    return known | measure_in_guest(series, kernel, bench.program, arguments)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHES)}; default: all"
    )
    parser.add_argument("--kernel", default="6.1", metavar="SERIES", help="default 6.1")
    parser.add_argument("--smoke", action="store_true", help="a short run, only to test it")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: a new one in results/")
    parser.add_argument("--publish", action="store_true", help="copy the results to docs/, too")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHES):
        parser.error(f"no benchmark {unknown.pop()}; there are: {', '.join(BENCHES)}")
    now = datetime.datetime.now().strftime("%Y-%m-%dT%H%M%S")
    output = arguments.output or TOP / "results" / f"{now}-bench"
    try:
        for name in arguments.names or BENCHES:
            result = measure(BENCHES[name], arguments.kernel, arguments.smoke)
            output.mkdir(parents=True, exist_ok=True)
            data = output / f"bench-{name}.json"
            data.write_text(json.dumps(result, indent=1) + "\n")
            report.write(data)
            print(data.with_suffix(".md").read_text())
            if arguments.publish:
                for path in output.glob(f"bench-{name}.*"):
                    if path.suffix != ".svg":
                        shutil.copyfile(path, TOP / "docs" / path.name)
    except (VmError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    print(f"bench: results are in {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
