# SPDX-License-Identifier: GPL-2.0
"""Parsing traces: the lines of each tracepoint, comments, and malformed lines."""

import pytest
from fairlab.model.errors import CannotRunError
from fairlab.net.tracing import StateEvent, WindowEvent, parse, parse_line
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.labtools import bic_window, probe, state

PORTS = st.integers(1, 65535)
WINDOWS = st.integers(1, 2**31 - 1)
# Timestamps in a trace have a resolution of 1 us.
TIMES = st.integers(1, 10**12).map(lambda us: us / 10**6)


@given(TIMES, PORTS, PORTS, WINDOWS, WINDOWS)
def test_lines_of_each_tracepoint(
    when: float, sport: int, dport: int, cwnd: int, ssthresh: int
) -> None:
    own = parse_line(bic_window(when, sport, dport, cwnd, ssthresh, "binary"))
    assert own == WindowEvent(when, sport, dport, cwnd, ssthresh, "binary")
    common = parse_line(probe(when, sport, dport, cwnd, ssthresh))
    assert common == WindowEvent(when, sport, dport, cwnd, ssthresh, "")
    assert parse_line(state(when, sport, dport, 3)) == StateEvent(when, sport, dport, 3)


@pytest.mark.parametrize(
    "line",
    [
        # Captured from kernels.  A task's name can contain any character.
        "          iperf3-346     [000] ..s2.    41.552326: gaimd_window: sport=50003 dport=5203"
        " cwnd=11 ssthresh=9 alpha=310 beta=875 phase=loss",
        "   a b: c-1 [x=1-99      [001] d.s31    41.552326: gaimd_window: sport=50003 dport=5203"
        " cwnd=11 ssthresh=9 alpha=310 beta=875 phase=loss",
        "          <idle>-0       [015] b.s..    41.552326: gaimd_window: sport=50003 dport=5203"
        " cwnd=11 ssthresh=9 alpha=310 beta=875 phase=loss",
        "     ksoftirqd/0-15      [000] ..s..    41.552326: gaimd_window: sport=50003 dport=5203"
        " cwnd=11 ssthresh=9 alpha=310 beta=875 phase=loss",
    ],
)
def test_lines_of_real_kernels(line: str) -> None:
    assert parse_line(line) == WindowEvent(41.552326, 50003, 5203, 11, 9, "loss")


def test_comments_are_skipped_and_unknown_lines_refused() -> None:
    text = "# tracer: nop\n#\n\n" + probe(1.0, 1, 2, 3, 4)
    assert len(list(parse(text))) == 1
    assert len(list(parse(text + "CPU:0 [LOST 5 EVENTS]\n"))) == 1
    for broken in (
        "something else\n",
        probe(1.0, 1, 2, 3, 4).replace("snd_cwnd", "cwnd2"),
    ):
        with pytest.raises(CannotRunError, match="cannot read this kernel's trace"):
            list(parse(text + broken))


@given(st.text(max_size=80))
def test_any_line_is_parsed_or_ignored(line: str) -> None:
    assert parse_line(line) is None or "=" in line
