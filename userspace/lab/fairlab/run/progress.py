# SPDX-License-Identifier: GPL-2.0
"""Progress of a run on stderr: one line that changes on a terminal, or a line every few seconds.

The style is chosen on the user's machine and passed to the guest, whose own stderr is a pipe.
"""

import sys
import time

STYLES = ("terminal", "lines", "none")
#: The variable that has the style in the guest.
STYLE = "FAIRLAB_PROGRESS"
LINES_EVERY = 5.0  # seconds
TERMINAL_EVERY = 1.0


def style_here(quiet: bool) -> str:
    """The style for our own stderr."""
    if quiet:
        return "none"
    return "terminal" if sys.stderr.isatty() else "lines"


class Progress:
    """Prints progress on stderr."""

    def __init__(self, style: str) -> None:
        self.style = style
        self.open_line = False
        self.last = float("-inf")

    def step(self, text: str) -> None:
        """Print the beginning of a step."""
        if self.style != "none":
            self.close()
            print(f"fairlab: {text}", file=sys.stderr, flush=True)
            self.last = float("-inf")

    def due(self) -> bool:
        """Is the next update() due?"""
        every = TERMINAL_EVERY if self.style == "terminal" else LINES_EVERY
        return self.style != "none" and time.monotonic() - self.last >= every

    def update(self, text: str) -> None:
        """Print how far the step is."""
        self.last = time.monotonic()
        if self.style == "terminal":
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            self.open_line = True
        elif self.style == "lines":
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End an open line on the terminal."""
        if self.open_line:
            print(file=sys.stderr)
            self.open_line = False
