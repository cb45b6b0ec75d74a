# SPDX-License-Identifier: GPL-2.0
"""Checks after a run: did the network limit the flows, or the machine?

On a machine that is too slow, flows get less throughput and queues are shorter, but the results
look plausible.  So the raw data is checked for each way in which the machine can interfere, and a
run with one is refused with the reason.
"""

from itertools import pairwise

from fairlab.model import headers, units
from fairlab.model.background import PACKETS
from fairlab.model.errors import CannotRunError, LabError
from fairlab.results.analysis import Measurement

# While packets wait, the bottleneck must send at its rate.  Samples may be a little early or late;
# intervals in which the queue was nearly empty do not count.
RATE_TOLERANCE = 0.02
SURELY_WAITING = 0.25  # of the buffer, at both ends of an interval
# A shorter buffer [s] may be empty between two samples.
SHORTEST_BUFFER = 0.02
ENOUGH_INTERVALS = 10

MIN_IDLE = 0.05
MAX_STOLEN = 0.05
LONGEST_PAUSE = 1.0  # seconds without a sample
COUNTER_TOLERANCE = 0.03
# The lateness of the background's source, on average and at most [s].
MAX_LATE_MEAN, MAX_LATE = 0.005, 0.25


def busy_rate(m: Measurement) -> float | None:
    """The bottleneck's rate while packets waited [bit/s]; None if they waited too rarely."""
    s, times = m.samples, m.times
    buffer = m.scenario.buffer.bytes_at_most(m.scenario.frame)
    if 8 * buffer < SHORTEST_BUFFER * m.scenario.rate:
        return None
    enough = SURELY_WAITING * buffer
    took = sent = 0.0
    intervals = 0
    for a, b in pairwise(range(len(times))):
        if min(s.backlog_bytes[a], s.backlog_bytes[b]) >= enough and times[a] >= 0:
            took += times[b] - times[a]
            sent += 8 * (s.sent_bytes[b] - s.sent_bytes[a])
            intervals += 1
    return sent / took if intervals >= ENOUGH_INTERVALS else None


def check_rate(m: Measurement) -> None:
    seen = busy_rate(m)
    if seen is not None and abs(seen / m.scenario.rate - 1) > RATE_TOLERANCE:
        raise CannotRunError(
            f"the bottleneck sent {seen / 1e6:.1f} Mbit/s while packets waited, instead of"
            f" {units.format_rate(m.scenario.rate)}: this machine was too slow or too busy"
        )


def check_load(m: Measurement) -> None:
    load = m.document["load"]
    if load["idle_share"] < MIN_IDLE:
        raise CannotRunError(
            f"this machine's CPU was idle for only {100 * load['idle_share']:.1f} % of the run:"
            " it may have been the limit; use a lower rate"
        )
    if load["stolen"] > MAX_STOLEN * load["total"]:
        share = 100 * load["stolen"] / load["total"]
        raise CannotRunError(
            f"the host took {share:.0f} % of this machine's CPU away: it is too busy; use --steady"
        )
    pause = max(b - a for a, b in pairwise(m.samples.time))
    if pause > LONGEST_PAUSE:
        raise CannotRunError(f"this machine stood still for {pause:.1f} s during the run: too busy")


def check_hidden_losses(m: Measurement) -> None:
    """Packets may be lost at the bottleneck only."""
    backlog = m.document["load"]["backlog_drops"]
    if backlog:
        raise CannotRunError(
            f"{backlog} packets were lost between namespaces, where there is no link"
        )
    delayed = m.samples.delay_drops[-1] - m.samples.delay_drops[0]
    if delayed:
        raise CannotRunError(
            f"{delayed} packets were lost in the delays: netem's limit is too small"
        )


def check_packets(m: Measurement) -> None:
    """No packet may be larger than the MTU."""
    s = m.samples
    labels = [f"flow {label}" for label in m.scenario.labels]
    columns = list(zip(labels, s.flow_bytes, s.flow_packets, strict=True))
    if m.background:
        columns.append(("the background", s.background_bytes, s.background_packets))
    for label, sizes, packets in columns:
        count = packets[-1] - packets[0]
        mean = (sizes[-1] - sizes[0]) / count if count else 0
        if mean > m.scenario.frame:
            raise CannotRunError(
                f"{label} sent packets of {mean:.0f} bytes on average, on links for"
                f" {m.scenario.frame}: an offload was on"
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
    s = m.samples
    header = headers.DATAGRAM if what.kind == PACKETS else headers.SEGMENT
    packets = s.background_packets[-1] - s.background_packets[0]
    carried = s.background_bytes[-1] - s.background_bytes[0]
    ours, theirs = carried - packets * (header + headers.ETHERNET), report.received_bytes
    # Some segments arrive twice, or are in flight when their flow is aborted.
    under_way = 2 * (m.scenario.bdp + m.scenario.buffer.bytes_at_most(m.scenario.frame))
    if abs(ours - theirs) > COUNTER_TOLERANCE * theirs + under_way:
        raise LabError(
            f"the background's sink received {theirs / 1e6:.2f} MB, but {ours / 1e6:.2f} MB came"
            " through the network"
        )


def check(m: Measurement) -> None:
    """Raise the reason if the run cannot be trusted.  Causes are checked before their effects."""
    check_hidden_losses(m)
    check_packets(m)
    check_load(m)
    check_background(m)
    check_rate(m)
    check_accounts(m)
