# SPDX-License-Identifier: GPL-2.0
"""Builds the fuzzers and lets them run.

A fuzzer is a file fuzz_NAME.c and what it found worth keeping, the files in corpus/NAME: inputs of
which each reaches something that no other does. `make fuzz` runs this as a program: each fuzzer
starts from its corpus (parsers and readers from inputs by hand, too, seeds.py, reader_seeds.py),
works for some minutes, and adds to the corpus what is new. What it finds to be wrong is left in
build/fuzz, and the fuzzer, run with that file as its argument, shows it again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.reader_seeds import READER_SEEDS
from tests.fuzz.seeds import SEEDS

TOP = Path(__file__).resolve().parents[2]
HERE = TOP / "tests" / "fuzz"
BUILD = TOP / "build" / "fuzz"

#: The longest input of each [octets]: what is longer tells nothing new.
LONGEST = {"wire": 400, "link": 768, "source": 400, "json": 500, "csv": 400}
NAMES = sorted(LONGEST)
#: slbnsim's sources that its readers' fuzzers are linked with.
READER = [
    f"userspace/slbnsim/{name}.c"
    for name in ("memory", "names", "net", "route", "text", "read", "write")
]
FLAGS = [
    *("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"),
]


def corpus(name: str) -> Path:
    return HERE / "corpus" / name


def build(name: str, directory: Path, tree: Path = TOP) -> Path:
    """Compile a fuzzer, with the cores and readers of `tree`."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / f"fuzz_{name}"
    source = HERE / f"fuzz_{name}.c"
    includes = [f"-I{tree}", f"-I{tree}/include", f"-I{TOP}/include"]
    command = ["clang", *FLAGS, *includes, "-o", program, source]
    if name in READER_SEEDS:
        command += ["-include", HERE / "reader_hooks.h", *(tree / file for file in READER)]
        command += ["-lyajl", "-lm"]
    subprocess.run(command, check=True)
    return program


def seeds(name: str) -> list[bytes]:
    """The inputs that were made by hand."""
    if name == "wire":
        return [octets for _, _, octets in SEEDS]
    return READER_SEEDS.get(name, [])


def write_seeds(name: str, directory: Path) -> list[Path]:
    """Those as files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for number, octets in enumerate(seeds(name)):
        path = directory / f"seed-{number:03}"
        path.write_bytes(octets)
        written.append(path)
    return written


def fuzz(name: str, seconds: int) -> bool:
    """Let a fuzzer work, then keep what is new; false if something is wrong."""
    program = build(name, BUILD)
    work = BUILD / name
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(corpus(name), work) if corpus(name).exists() else work.mkdir()
    write_seeds(name, work)
    before = len(list(corpus(name).glob("*")))
    print(f"{name}: {seconds} s, from {len(list(work.glob('*')))} inputs", flush=True)
    log = BUILD / f"{name}.log"
    command = [str(program), f"-max_total_time={seconds}", f"-max_len={LONGEST[name]}"]
    command += [f"-artifact_prefix={BUILD}/", "-print_final_stats=1", str(work)]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        while process.poll() is None:
            time.sleep(1)
            last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
            if sys.stdout.isatty():
                print(f"\r{last[:79]:79}", end="", flush=True)
    if sys.stdout.isatty():
        print()
    if process.returncode:
        print(f"{name}: something is wrong, see {log}", file=sys.stderr)
        return False
    corpus(name).mkdir(parents=True, exist_ok=True)
    merge = [str(program), "-set_cover_merge=1", str(corpus(name)), str(work)]
    subprocess.run(merge, check=True, stderr=subprocess.DEVNULL)
    print(f"{name}: corpus {before} -> {len(list(corpus(name).glob('*')))} inputs")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz for a while, and keep what is new.")
    parser.add_argument("--seconds", type=int, default=600, help="for each fuzzer (%(default)s)")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (all)")
    args = parser.parse_args()
    if unknown := set(args.name) - set(NAMES):
        parser.error(f"no such fuzzer: {', '.join(sorted(unknown))}")
    os.environ["LC_ALL"] = "C"
    return 0 if all([fuzz(name, args.seconds) for name in args.name or NAMES]) else 1


if __name__ == "__main__":
    sys.exit(main())
