# SPDX-License-Identifier: GPL-2.0
"""Builds slbnsim, with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess

import pytest

from tests.slbnsim.simtools import PROGRAM, TOP


@pytest.fixture(scope="session", autouse=True)
def _program() -> None:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    sources = [str(source) for source in sorted((TOP / "userspace/slbnsim").glob("*.c"))]
    sources.append(str(TOP / "userspace/common/units.c"))
    flags = "-std=gnu11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined"
    paths = [f"-I{TOP}/include", f"-I{TOP}/include/uapi", f"-I{TOP}", '-DVERSION="test"']
    command = ["gcc", *flags.split(), "-fno-sanitize-recover", *paths, *sources, "-o", str(PROGRAM)]
    subprocess.run([*command, "-ljson-c", "-lm"], check=True)
