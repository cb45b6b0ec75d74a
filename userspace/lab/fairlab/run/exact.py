# SPDX-License-Identifier: GPL-2.0
"""The record of a run in virtual time: its packets, and all that decides them.

Runs with the same inputs have the same packets to the nanosecond (docs/exact.md), so a stored run
can be repeated and compared.  `fairlab verify` does so.  The record is in RECORD beside the run's
data, the fingerprints of its packets are in PACKETS: two octets for each packet, then their number
and SHA-256, as scripts/vm --packets writes them.
"""

import hashlib
import json
import re
import shlex
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlab.model.errors import CannotRunError, ReportedError
from fairlab.net import host

RECORD, PACKETS = "exact.json", "packets.fp"
FORMAT = 1
TRAILER = struct.Struct("<Q32s")
#: Types of blocks, and a direction, of pcapng.
INTERFACE_DESCRIPTION, ENHANCED_PACKET, OUTBOUND = 1, 6, 2

#: Programs that runs use, besides those of the project's tree.
PROGRAMS = (
    *("python3", "sh", "ip", "tc", "ethtool", "sysctl", "modprobe", "ping", "nft", "iperf3"),
    *("bpftool", "busybox"),
)
#: What is built in the tree, and what is interpreted.
BUILT = ("build/traffic/*", "build/slbnd/slbnd", "build/slbnctl/slbnctl", "build/tc/*.so")
SOURCES = (
    *(f"userspace/lab/fairlab/{name}/*.py" for name in ("model", "net", "run", "mininet")),
    *(f"userspace/lab/fairlab/{name}/*.py" for name in ("slbn", "compare")),
    *("scripts/fairlab", "userspace/vm/fairvm/guest-init"),
)
PYTHON = ("mininet",)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_all(paths: Iterable[Path]) -> str:
    """One hash over the contents of files, in their order."""
    return hashlib.sha256("".join(map(sha256, paths)).encode()).hexdigest()


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that programs are linked with, libc among them, by name."""
    found = {}
    for program in programs:
        done = subprocess.run(
            ["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        for path in re.findall(r"(/\S+) \(0x", done.stdout):
            found[Path(path).name] = Path(path)
    return found


def kernel_directory(tree: Path, kernel: str) -> Path:
    """The directory of a kernel of User-Mode Linux, which is built if need be, with progress."""
    command = [str(tree / "scripts/kernel"), "get", "--engine", "native", kernel]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise ReportedError(CannotRunError.status)
    return Path(done.stdout.splitlines()[-1])


def own_files(job: Mapping[str, Any]) -> set[str]:
    """The programs and kernel modules that a job names."""
    found = set(job["what"].get("modules", ()))
    for group in job["what"].get("groups", ()):
        if program := group.get("program"):
            found |= {shlex.split(program[end])[0] for end in ("server", "client")}
    return found


def inputs(tree: Path, directory: Path, job: Mapping[str, Any]) -> dict[str, str]:
    """By name: the SHA-256 of each file, or group of files, that decides the packets of a JOB.

    DIRECTORY is the kernel's.
    """
    own = own_files(job)
    programs = {name: Path(path) for name in (*PROGRAMS, *own) if (path := shutil.which(name))}
    programs |= {name: Path(name) for name in own if "/" in name and Path(name).is_file()}
    built = {path.name: path for glob in BUILT for path in sorted(tree.glob(glob))}
    if own and (preloaded := host.random_device()):
        built[preloaded.name] = preloaded
    built = {name: path for name, path in built.items() if path.is_file()}
    found = {f"program {name}": sha256(path) for name, path in programs.items()}
    found |= {f"built {name}": sha256(path) for name, path in built.items()}
    linked = libraries([*programs.values(), *built.values()])
    found |= {f"library {name}": sha256(path) for name, path in sorted(linked.items())}
    for glob in SOURCES:
        found[f"source {glob}"] = sha256_of_all(sorted(tree.glob(glob)))
    for name in PYTHON:
        package = Path("/usr/lib/python3/dist-packages", name)
        found[f"python {name}"] = sha256_of_all(sorted(package.rglob("*.py")))
    found["kernel"] = sha256(directory / "kernel")
    release = (directory / "release").read_text().strip()
    for module in sorted((tree / "build/root" / release).rglob("*.ko")):
        found[f"module {module.stem}"] = sha256(module)
    return found


def has_rdrand() -> bool:
    """Can programs get random numbers from the processor?  A seed does not decide these."""
    return re.search(r"^flags\s*:.* rdrand\b", Path("/proc/cpuinfo").read_text(), re.M) is not None


def read_trailer(path: Path) -> tuple[int, str]:
    """The number of packets in a file of fingerprints, and their SHA-256."""
    size = path.stat().st_size - TRAILER.size
    if size >= 0:
        with path.open("rb") as file:
            file.seek(size)
            count, digest = TRAILER.unpack(file.read())
        if size == 2 * count:
            return count, digest.hex()
    raise CannotRunError(f"{path}: truncated, or not a file of fingerprints")


def first_difference(one: Path, other: Path) -> int | None:
    """The index of the first packet that differs between two files of fingerprints."""
    bodies = [path.read_bytes()[: -TRAILER.size] for path in (one, other)]
    shorter = min(map(len, bodies))
    for start in range(0, shorter, 1 << 16):
        here, there = (body[start : start + (1 << 16)] for body in bodies)
        if here != there:
            differing = (n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b)
            return (start + next(differing, min(len(here), len(there)))) // 2
    return None if len(bodies[0]) == len(bodies[1]) else shorter // 2


def describe_sent(capture: Path, number: int) -> str:
    """The packet with this NUMBER, from 0, among those sent in a capture (pcapng)."""
    devices, sent = [], 0
    with capture.open("rb") as file:
        while head := file.read(8):
            kind, length = struct.unpack("=II", head)
            body = file.read(length - 8)
            if kind == INTERFACE_DESCRIPTION:
                # The first option is the name.
                (size,) = struct.unpack_from("=2xH", body, 8)
                devices.append(body[12 : 12 + size].decode())
            elif kind == ENHANCED_PACKET:
                device, high, low, length, _ = struct.unpack_from("=IIIII", body)
                (flags,) = struct.unpack_from("=4xI", body, 20 + -(-length // 4) * 4)
                if flags & 3 != OUTBOUND:
                    continue
                if sent == number:
                    octets = body[20 : 20 + length].hex()
                    return (
                        f"{devices[device]} sent {length} octets at {high << 32 | low} ns: {octets}"
                    )
                sent += 1
    return "it is not sent any more"


def digest(answer: Any) -> str:
    """The SHA-256 of what can be written as JSON."""
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()


def write_simulated(
    directory: Path, simulator: str, arguments: Sequence[str], sha256: str, inputs: dict[str, str]
) -> None:
    """Write the record of a run of a simulator, of whose answer SHA256 is the digest."""
    record = {"format": FORMAT, "simulator": simulator, "arguments": list(arguments)}
    record |= {"sha256": sha256, "inputs": inputs}
    record |= {"project": host.project_version(host.tree())}
    (directory / RECORD).write_text(json.dumps(record))


def write(
    directory: Path, tree: Path, kernel: Path, guest: Mapping[str, Any], job: Mapping[str, Any]
) -> None:
    """Write the record of the run in DIRECTORY.

    KERNEL is the kernel's directory; GUEST are the arguments of the guest; JOB is the run's job.
    """
    packets, hashed = read_trailer(directory / PACKETS)
    record = {
        "format": FORMAT,
        "guest": dict(guest),
        "job": dict(job),
        "packets": packets,
        "sha256": hashed,
        "inputs": inputs(tree, kernel, job),
        "rdrand": has_rdrand(),
        "project": host.project_version(tree),
    }
    (directory / RECORD).write_text(json.dumps(record, indent=1) + "\n")
