# SPDX-License-Identifier: GPL-2.0
"""Builds and runs the fuzzers.

A fuzzer is a program of libFuzzer, fuzz_NAME.c, with a corpus: inputs each of which covers code
that no other input does. The corpus is the archive corpus/NAME.tar.xz, packed reproducibly: sorted,
without times and owners. List it with `tar -tf`.

`make fuzz` runs this file as a program. It unpacks the corpus of each fuzzer into build/fuzz/NAME,
adds the handwritten inputs (seeds.py, reader_seeds.py), runs the fuzzer for --seconds, and packs
the corpus again with the inputs that cover more. An input that fails is left in build/fuzz;
`build/fuzz/fuzz_NAME FILE` repeats the failure.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.fuzz.reader_seeds import READER_SEEDS
from tests.fuzz.seeds import SEEDS

TOP = Path(__file__).resolve().parents[2]
HERE = TOP / "tests" / "fuzz"
BUILD = TOP / "build" / "fuzz"

#: Maximal length of the inputs of each fuzzer [octets]; longer ones cover nothing new.
LONGEST = {"wire": 1600, "link": 768, "source": 400, "json": 500, "csv": 400, "state": 300}
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


def archive(name: str) -> Path:
    return HERE / "corpus" / f"{name}.tar.xz"


def unpack_corpus(name: str, directory: Path) -> list[Path]:
    """Write the inputs of a corpus to files in `directory`; their paths, sorted."""
    directory.mkdir(parents=True, exist_ok=True)
    if not archive(name).exists():
        return []
    written = []
    with tarfile.open(archive(name)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            path = directory / Path(member.name).name
            path.write_bytes(file.read())
            written.append(path)
    return sorted(written)


def pack_corpus(name: str, directory: Path) -> int:
    """Make the files in `directory` the corpus of a fuzzer; returns their number."""
    archive(name).parent.mkdir(exist_ok=True)
    paths = sorted(directory.iterdir())
    with tarfile.open(archive(name), "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tar:
        for path in paths:
            octets = path.read_bytes()
            # All other fields of a new TarInfo are constants: mode 644, owner 0, time 0.
            member = tarfile.TarInfo(path.name)
            member.size = len(octets)
            tar.addfile(member, io.BytesIO(octets))
    return len(paths)


def build(name: str, directory: Path, tree: Path = TOP) -> Path:
    """Compile a fuzzer with the cores and readers of `tree`; returns the program."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / f"fuzz_{name}"
    source = HERE / f"fuzz_{name}.c"
    includes = [f"-I{tree}", f"-I{tree}/include", f"-I{TOP}/include"]
    command: list[str | Path] = ["clang", *FLAGS, *includes, "-o", program, source]
    if name in READER_SEEDS:
        command += ["-include", HERE / "reader_hooks.h", *(tree / file for file in READER)]
        command += ["-ljson-c", "-lm"]
    if name == "state":
        command += ["-D_GNU_SOURCE", f"-I{TOP}/include/uapi", f"-I{TOP}/userspace/slbnd"]
    subprocess.run(command, check=True)
    return program


def built() -> Path:
    """The directory of all fuzzers of the tree, built if a source is newer than one of them."""
    directory = TOP / "build" / "tests" / "fuzz"
    directory.mkdir(parents=True, exist_ok=True)
    places = (TOP / "include", TOP / "userspace", HERE)
    sources = [HERE / "fuzzers.py", *(path for each in places for path in each.rglob("*.[ch]"))]
    newest = max(path.stat().st_mtime_ns for path in sources)
    for name in NAMES:
        program = directory / f"fuzz_{name}"
        if not program.exists() or program.stat().st_mtime_ns <= newest:
            with tempfile.TemporaryDirectory(dir=directory) as made:
                # Another stage may build it at the same time.
                build(name, Path(made)).replace(program)
    return directory


def seeds(name: str) -> list[bytes]:
    """The handwritten inputs of a fuzzer."""
    if name == "wire":
        return [octets for _, _, octets in SEEDS]
    return READER_SEEDS.get(name, [])


def write_seeds(name: str, directory: Path) -> list[Path]:
    """Write the handwritten inputs to files in `directory`; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for number, octets in enumerate(seeds(name)):
        path = directory / f"seed-{number:03}"
        path.write_bytes(octets)
        written.append(path)
    return written


def fuzz(name: str, seconds: int) -> bool:
    """Run a fuzzer, then add new inputs to its corpus; returns False if an input failed."""
    program = build(name, BUILD)
    work, kept = BUILD / name, BUILD / f"{name}-corpus"
    for directory in (work, kept):
        shutil.rmtree(directory, ignore_errors=True)
        before = len(unpack_corpus(name, directory))
    write_seeds(name, work)
    print(f"{name}: {seconds} s, from {len(list(work.iterdir()))} inputs", flush=True)
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
        print(f"{name}: failed, see {log}", file=sys.stderr)
        return False
    merge = [str(program), "-set_cover_merge=1", str(kept), str(work)]
    subprocess.run(merge, check=True, stderr=subprocess.DEVNULL)
    print(f"{name}: corpus {before} -> {pack_corpus(name, kept)} inputs")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the fuzzers and extend their corpora.")
    parser.add_argument(
        "--seconds", type=int, default=600, help="for each fuzzer (default %(default)s)"
    )
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help=f"fuzzer: {', '.join(NAMES)} (default all)"
    )
    args = parser.parse_args()
    if unknown := set(args.name) - set(NAMES):
        parser.error(f"no fuzzer {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}")
    os.environ["LC_ALL"] = "C"
    return 0 if all([fuzz(name, args.seconds) for name in args.name or NAMES]) else 1


if __name__ == "__main__":
    sys.exit(main())
