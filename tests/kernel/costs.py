# SPDX-License-Identifier: GPL-2.0
"""How long functions of the kernel take, on a machine whose clock counts instructions.

That is scripts/vm --steady: the load of the host changes nothing, and equal work takes an equal
time but for interrupts and caches of the kernel, so medians are compared.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from tests.kernel.net import TRACING


@contextlib.contextmanager
def graph(function: str) -> Iterator[Callable[[], list[float]]]:
    """Record the calls of a function; yields what returns their durations since then [us]."""
    trace = TRACING / "trace"
    line = re.compile(rf"([\d.]+) us +\| +{function}\b")

    def take() -> list[float]:
        found = [float(each) for each in line.findall(trace.read_text())]
        trace.write_text("")
        return found

    (TRACING / "set_ftrace_filter").write_text(function)
    (TRACING / "current_tracer").write_text("function_graph")
    try:
        take()
        yield take
    finally:
        (TRACING / "current_tracer").write_text("nop")
        (TRACING / "set_ftrace_filter").write_text("")
