# SPDX-License-Identifier: GPL-2.0
"""Errors and exit statuses."""

EXIT_USAGE, EXIT_SPLAT, EXIT_TIMEOUT, EXIT_MACHINE = 2, 70, 124, 125


class VmError(Exception):
    """A request that failed; its text is one line for the user."""


class UsageError(VmError):
    """An invalid request, or one for something that does not exist."""
