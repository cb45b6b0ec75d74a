# SPDX-License-Identifier: GPL-2.0
"""Errors: each is one line for the user, and an exit status for scripts."""

from collections.abc import Collection


class LabError(Exception):
    """A run that broke."""

    status = 1


class UsageError(LabError):
    """A usage error: change the command line, or the file."""

    status = 2


class CannotRunError(LabError):
    """The run is not possible here, or was disturbed: use another or a quieter machine."""

    status = 3


class CheckFailedError(LabError):
    """The run succeeded, but a check of its results failed."""

    status = 4


class ReportedError(LabError):
    """An error that scripts/vm or the guest has already printed."""

    def __init__(self, status: int) -> None:
        super().__init__("")
        self.status = status


def require_known(what: str, name: str, known: Collection[str]) -> None:
    """Raise UsageError, which says WHAT there is not, unless NAME is one of those KNOWN."""
    if name not in known:
        raise UsageError(f"{what} '{name}'; there are: {', '.join(known)}")
