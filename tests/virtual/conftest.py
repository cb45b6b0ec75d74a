# SPDX-License-Identifier: GPL-2.0
"""Builds the kernel before the first test, whose time limits do not include that."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import tier_of
from tests.virtual.test_virtual import BUILD_SECONDS, KERNEL, TOP


@pytest.fixture(scope="session", autouse=True)
def _kernel(request: pytest.FixtureRequest) -> None:
    """Not for `make check`, whose tests need none."""
    if all(tier_of(item) == "check" for item in request.session.items):
        return
    command = [str(TOP / "scripts/kernel"), "get", "--engine", "native", KERNEL]
    subprocess.run(command, check=True, timeout=BUILD_SECONDS)
