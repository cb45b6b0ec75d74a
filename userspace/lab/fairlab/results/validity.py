# SPDX-License-Identifier: GPL-2.0
"""Checks after a run: did the network limit the flows, or the machine?

On a machine that is too slow, flows get less throughput and queues are shorter, but the results
look plausible.  So the raw data is checked for each way in which the machine can interfere, and a
run with one is refused with the reason.
"""

from fairlab.model import headers
from fairlab.model.background import PACKETS
from fairlab.model.errors import CannotRunError, LabError
from fairlab.results import trust
from fairlab.results.analysis import Measurement
from fairlab.run.dumbbell import BESIDE

# Samples may be a little early or late; intervals in which the queue was nearly empty do not count.
SURELY_WAITING = 0.25  # of the buffer, at both ends of an interval
# A shorter buffer [s] may be empty between two samples.
SHORTEST_BUFFER = 0.02

COUNTER_TOLERANCE = 0.03
# The lateness of the background's source, on average and at most [s].
MAX_LATE_MEAN, MAX_LATE = 0.005, 0.25


def link_rate(m: Measurement) -> trust.LinkRate | None:
    """Samples of the bottleneck; None if it may be empty between two of them."""
    buffer = m.scenario.buffer.bytes_at_most(m.scenario.frame)
    if 8 * buffer < SHORTEST_BUFFER * m.scenario.rate:
        return None
    c = m.columns
    first = next(n for n, when in enumerate(c["time"]) if when >= 0)
    return trust.LinkRate(
        c["time"][first:],
        c["sent_bytes"][first:],
        c["backlog_bytes"][first:],
        m.scenario.rate,
        burst=0,
        surely=SURELY_WAITING * buffer,
        exact=False,
    )


def busy_rate(m: Measurement) -> float | None:
    """The bottleneck's rate while packets waited [bit/s]; None if they waited too rarely."""
    link = link_rate(m)
    return trust.busy_rate(link) if link else None


def evidence(m: Measurement) -> trust.Evidence:
    c, labels = m.columns, [f"flow {label}" for label in m.scenario.labels]
    frames = {
        name if name == BESIDE else f"flow {name}": one
        for name, one in m.frames(m.scenario.frame).items()
    }
    link = link_rate(m)
    flows = {
        label: trust.Ran(flow.cc, report.cc, report.received_bytes > 0)
        for label, flow, report in zip(labels, m.scenario.flows, m.reports, strict=True)
    }
    return trust.gathered(
        m.document,
        delays=c["delay_drops"][-1] - c["delay_drops"][0],
        frames=frames,
        rates={"the bottleneck": link} if link else {},
        flows=flows,
        samples=c["time"],
    )


def check_accounts(m: Measurement) -> None:
    """iperf3 must have received the bytes that the last link carried.

    Except for bytes in flight when iperf3 has ended, and those that arrived twice.
    """
    under_way = 2 * 8 * (m.scenario.bdp + m.scenario.buffer.bytes_at_most(m.scenario.frame))
    for n, label in enumerate(m.scenario.labels):
        counted = m.goodput(n)
        ours, theirs = counted[-1] - counted[0], 8 * m.reports[n].received_bytes
        if abs(ours - theirs) > COUNTER_TOLERANCE * theirs + under_way:
            raise LabError(
                f"flow {label}: iperf3 received {theirs / 8e6:.2f} MB,"
                f" but {ours / 8e6:.2f} MB passed the network"
            )


def check_background(m: Measurement) -> None:
    """The background's source must have been on time, and all its packets counted."""
    report, what = m.background, m.scenario.background
    if not report or not what:
        return
    if report.late_mean > MAX_LATE_MEAN or report.late_max > MAX_LATE:
        raise CannotRunError(
            f"the background's source was {1000 * report.late_mean:.0f} ms behind its plan on"
            f" average and {1000 * report.late_max:.0f} ms at worst: this machine was too slow or"
            " too busy"
        )
    if report.no_room:
        raise CannotRunError(
            f"the background's sink had no room for {report.no_room} packets: this machine was too"
            " slow or too busy"
        )
    if report.ended < m.document["end"]:
        raise LabError("the background ended before the run")
    header = headers.DATAGRAM if what.kind == PACKETS else headers.SEGMENT
    arrived = m.frames(m.scenario.frame)[BESIDE]
    ours = arrived.size - arrived.count * (header + headers.ETHERNET)
    theirs = report.received_bytes
    # Some segments arrive twice, or are in flight when their flow is aborted.
    under_way = 2 * (m.scenario.bdp + m.scenario.buffer.bytes_at_most(m.scenario.frame))
    if abs(ours - theirs) > COUNTER_TOLERANCE * theirs + under_way:
        raise LabError(
            f"the background's sink received {theirs / 1e6:.2f} MB, but {ours / 1e6:.2f} MB came"
            " through the network"
        )


def check(m: Measurement) -> list[str]:
    """Raise the reason if the run cannot be trusted; return the checks that were not made."""
    lacking = trust.check(evidence(m), bool(m.document.get("virtual")))
    check_background(m)
    check_accounts(m)
    return lacking
