# SPDX-License-Identifier: GPL-2.0
"""Work of a test in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeated(step: Callable[[], object], pause: float = 0) -> Iterator[None]:
    """Call STEP again and again, with a pause [s] after each call; raise its error at the end."""
    ended = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        while True:
            try:
                step()
            except Exception as error:
                errors.append(error)
                return
            # Not ended.wait(pause), which is four times as many system calls.
            if pause:
                time.sleep(pause)
            if ended.is_set():
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]
