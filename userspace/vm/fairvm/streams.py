# SPDX-License-Identifier: GPL-2.0
"""The guest's output: from its pipes to our own stdout and stderr."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable


def memory_file(name: str, content: bytes = b"") -> int:
    """The descriptor of a new file in memory, which the kernel frees when we exit."""
    descriptor = os.memfd_create(name)
    with os.fdopen(os.dup(descriptor), "wb") as handle:
        handle.write(content)
    return descriptor


def memory_text(descriptor: int) -> str:
    """Read a file in memory and close it."""
    with os.fdopen(descriptor, "rb") as handle:
        handle.seek(0)
        return handle.read().decode(errors="replace")


class Stream(threading.Thread):
    """Copies bytes from a pipe of the machine to one of our own outputs.

    Reads without delay and buffers in memory what the output does not accept yet: a guest whose
    output blocks would spin and report a lockup.  If the output fails, a byte is written to CLOSE.
    """

    def __init__(
        self, source: int, target: int, close: int, complain: Callable[[str], None]
    ) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.target = target
        self.close = close
        self.complain = complain
        self.waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()
        self.start()

    def run(self) -> None:
        while data := os.read(self.source, 65536):
            self.waiting.put(data)
        self.waiting.put(b"")
        os.close(self.source)

    def _write(self) -> None:
        while data := self.waiting.get():
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self.target, view) :]
            except OSError as error:
                if not isinstance(error, BrokenPipeError):
                    self.complain(f"cannot write the output: {error.strerror}")
                os.write(self.close, b"x")
                return

    def finish(self) -> None:
        self.join()
        self.writer.join()
