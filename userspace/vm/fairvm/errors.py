# SPDX-License-Identifier: GPL-2.0
"""Errors and exit statuses."""

EXIT_USAGE, EXIT_SPLAT, EXIT_NOT_REPEATABLE, EXIT_TIMEOUT, EXIT_MACHINE = 2, 70, 71, 124, 125


class VmError(Exception):
    """A request that failed; its text is one line for the user."""


class NotRepeatableError(VmError):
    """A run in virtual time that the host would influence."""


class UsageError(VmError):
    """An invalid request, or one for something that does not exist."""
