# SPDX-License-Identifier: GPL-2.0
"""Why a run ends without a result.

Each is one line for the user, and an exit status for scripts: 2 is for what a different command
line would cure, 3 for what another or a quieter machine would, 4 if what was to be shown is not so,
1 for a run that broke.
"""


class LabError(Exception):
    """A run that broke."""

    status = 1


class UsageError(LabError):
    """What was asked for does not exist or makes no sense."""

    status = 2


class CannotRunError(LabError):
    """It cannot be done here, or what was measured here cannot be trusted."""

    status = 3


class BrokenPromiseError(LabError):
    """All went well, and what it was to show is not so."""

    status = 4


class ReportedError(LabError):
    """As said already by somebody else (scripts/vm, or ourselves in the guest)."""

    def __init__(self, status: int) -> None:
        super().__init__("")
        self.status = status
