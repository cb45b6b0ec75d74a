# SPDX-License-Identifier: GPL-2.0
"""What tests of the lab need of the tree; hypothesis without a time limit, and with fixed examples.

A busy machine is no defect of the code, and an example that fails should fail for the commit that
broke it.  FAIRPATH_EXAMPLES=random draws other examples in each run.
"""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TOP = Path(__file__).resolve().parents[2]

settings.register_profile(
    "fairpath",
    deadline=None,
    derandomize=os.environ.get("FAIRPATH_EXAMPLES") != "random",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fairpath")


@pytest.fixture(scope="session")
def traffic() -> None:
    """Build fairflow, fairtraffic and the library for random numbers, also in a new clone."""
    subprocess.run(["make", "--silent", "-C", TOP, "traffic"], check=True)


@pytest.fixture(scope="session")
def modules() -> None:
    """Build the modules for the kernel of the engine vm, before a test's time limit begins."""
    subprocess.run([TOP / "scripts/kernel", "modules", "6.1"], check=True)
