# SPDX-License-Identifier: GPL-2.0
"""Run tshark on frames with the dissector scripts/slbn.lua.

The frames are written to a capture file. As newer versions of tshark run no Lua scripts for root,
it runs as nobody if the tests run as root.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import launch

DISSECTOR = Path(__file__).resolve().parents[1] / "scripts" / "slbn.lua"
#: Default of the captured octets of a frame (snaplen).
ALL = 1 << 16


def write_capture(path: str, frames: Sequence[tuple[int, bytes]], captured: int) -> None:
    """Write Ethernet frames with their times [ns] to a pcap file."""
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, ALL, 1))
        for ns, content in frames:
            data = content[:captured]
            head = (ns // 10**9, ns % 10**9, len(data), len(content))
            file.write(struct.pack("=IIII", *head) + data)


def tshark(
    frames: Sequence[tuple[int, bytes]],
    *options: str,
    captured: int = ALL,
    dissector: Path = DISSECTOR,
) -> str:
    """Run tshark on frames with their times [ns]; returns its output."""
    with tempfile.TemporaryDirectory(prefix="tshark-") as place:
        os.chmod(place, 0o755)
        script = shutil.copyfile(dissector, f"{place}/slbn.lua")
        capture = f"{place}/capture"
        write_capture(capture, frames, captured)
        unprivileged: dict[str, Any] = {}
        if os.geteuid() == 0:
            unprivileged = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        done: subprocess.CompletedProcess[str] = launch.run(
            ["tshark", "-n", "-X", f"lua_script:{script}", "-r", capture, *options],
            env={"PATH": os.environ["PATH"], "HOME": place, "LC_ALL": "C.UTF-8"},
            **unprivileged,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def fields(
    frames: Sequence[tuple[int, bytes]],
    *names: str,
    captured: int = ALL,
    dissector: Path = DISSECTOR,
) -> list[dict[str, list[str]]]:
    """The values of the named fields in each frame, as tshark shows them."""
    options = ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"]
    for name in names:
        options += ["-e", name]
    shown = tshark(frames, *options, captured=captured, dissector=dissector)
    return [
        {
            name: [value for value in column.split("|") if value]
            for name, column in zip(names, line.split("\t"), strict=True)
        }
        for line in shown.split("\n")[:-1]
    ]
