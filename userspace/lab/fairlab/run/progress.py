# SPDX-License-Identifier: GPL-2.0
"""Saying how far a run is: one line that changes on a terminal, a line now and then elsewhere.

Which of the two is decided where the terminal is, and told to the guest, whose own stderr is a pipe
that ends at that terminal or not.
"""

import sys
import time

STYLES = ("terminal", "lines", "none")
LINES_EVERY = 5.0  # seconds
TERMINAL_EVERY = 1.0


def style_here(quiet: bool) -> str:
    """The style that fits our own stderr."""
    if quiet:
        return "none"
    return "terminal" if sys.stderr.isatty() else "lines"


class Progress:
    """Tells on stderr what happens."""

    def __init__(self, style: str) -> None:
        self.style = style
        self.open_line = False
        self.last = float("-inf")

    def step(self, text: str) -> None:
        """Something new begins."""
        if self.style != "none":
            self._close_line()
            print(f"fairlab: {text}", file=sys.stderr, flush=True)
            self.last = float("-inf")

    def due(self) -> bool:
        """Is it time for another update()?"""
        every = TERMINAL_EVERY if self.style == "terminal" else LINES_EVERY
        return self.style != "none" and time.monotonic() - self.last >= every

    def update(self, text: str) -> None:
        """How it is going."""
        self.last = time.monotonic()
        if self.style == "terminal":
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            self.open_line = True
        elif self.style == "lines":
            print(text, file=sys.stderr, flush=True)

    def _close_line(self) -> None:
        if self.open_line:
            print(file=sys.stderr)
            self.open_line = False

    def done(self) -> None:
        """Nothing more to say; whoever writes next begins a new line."""
        self._close_line()
