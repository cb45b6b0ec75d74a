# SPDX-License-Identifier: GPL-2.0
"""How long functions of the kernel take, on a machine whose clock counts instructions.

That is scripts/vm --steady: the load of the host changes nothing, and equal work takes an equal
time but for interrupts and caches of the kernel, so medians are compared.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator

from tests.kernel.lib.net import TRACING


@contextlib.contextmanager
def graph(function: str, by_us: bool = False) -> Iterator[Callable[[], list[float]]]:
    """Record the calls of a function; yields what returns their durations since then [us].

    BY_US: only those in system calls of this thread, not in the threads of the kernel itself.
    """
    trace = TRACING / "trace"
    line = re.compile(rf"([\d.]+) us +\| +{function}\b")

    def take() -> list[float]:
        found = [float(each) for each in line.findall(trace.read_text())]
        trace.write_text("")
        return found

    (TRACING / "set_ftrace_filter").write_text(function)
    if by_us:
        (TRACING / "set_ftrace_pid").write_text(str(threading.get_native_id()))
    (TRACING / "current_tracer").write_text("function_graph")
    try:
        take()
        yield take
    finally:
        (TRACING / "current_tracer").write_text("nop")
        (TRACING / "set_ftrace_filter").write_text("")
        (TRACING / "set_ftrace_pid").write_text("")


@contextlib.contextmanager
def first_arguments(function: str) -> Iterator[Callable[[], list[str]]]:
    """Record the calls of a function, on x86-64; yields what returns the first argument of each."""
    name, events = f"test_{os.getpid()}", TRACING / "kprobe_events"
    instance = TRACING / "instances" / name
    trace = instance / "trace"

    def request(text: str) -> None:
        # Appended, as the others would be removed; without looking for the end, which is refused.
        file = os.open(events, os.O_WRONLY | os.O_APPEND)
        os.write(file, text.encode())
        os.close(file)

    request(f"p:{name}/call {function} first=%di:x64\n")
    try:
        instance.mkdir()
        try:
            (instance / "events" / name / "enable").write_text("1")
            yield lambda: re.findall(r"first=(\w+)", trace.read_text())
            (instance / "events" / name / "enable").write_text("0")
        finally:
            instance.rmdir()
    finally:
        request(f"-:{name}/call\n")
