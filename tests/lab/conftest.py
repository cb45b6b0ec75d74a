# SPDX-License-Identifier: GPL-2.0
"""The programs of the tree that tests of the lab start; hypothesis without a time limit.

Examples of hypothesis have none because a busy machine is no defect of the code.
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

TOP = Path(__file__).resolve().parents[2]

settings.register_profile("fairpath", deadline=None)
settings.load_profile("fairpath")


@pytest.fixture(scope="session")
def traffic() -> None:
    """Build fairflow, fairtraffic and the library for random numbers, also in a new clone."""
    subprocess.run(["make", "--silent", "-C", TOP, "traffic"], check=True)
