# SPDX-License-Identifier: GPL-2.0
"""Checks before a run: is this machine fit to measure?  Each raises the reason if not.

Congestion controls and presets are looked up, offloads and queues are read back from the kernel,
and some values are measured: the forwarding rate without queues, the round-trip time, the
congestion controls of running connections.  validity.py checks after the run that the machine kept
up.
"""

import contextlib
import json
import time

from fairlab.model import topology, units
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.network import ends_with
from fairlab.model.scenario import Scenario
from fairlab.net import congestion
from fairlab.net.namespace import set_sysctl
from fairlab.net.network import Laboratory
from fairlab.run import flows
from fairlab.run.programs import Programs, wait_server

# The idle machine must forward faster than the rate by this factor.
HEADROOM = 1.5
# Seconds of that trial: newer iperf3 checks only once a second for its end.
TRIAL_SECONDS, TRIAL_CC = 1, "reno"
TRIAL_PORTS = (50000, 5200)
TRIALS = 3
PINGS = 5
# The most by which the round-trip time of the empty path may exceed the requested one.
RTT_TOLERANCE, RTT_SLACK_MS = 0.02, 2.0


def look_up(scenario: Scenario) -> None:
    """Raise UsageError if this kernel lacks a congestion control or preset."""
    for flow in dict.fromkeys(scenario.flows):
        congestion.require(flow)


def choose(lab: Laboratory, scenario: Scenario) -> None:
    """Set each sender's congestion control and preset."""
    for flow, path in zip(scenario.flows, lab.network.paths, strict=True):
        # Not every congestion control can be a namespace's default (TCP_CONG_NON_RESTRICTED);
        # iperf3 sets it by name, and running() checks the result.
        with lab.inside(path.sender):
            with contextlib.suppress(OSError):
                set_sysctl("ipv4/tcp_congestion_control", flow.cc)
            if flow.preset:
                try:
                    set_sysctl(f"ipv4/{flow.cc}_preset", flow.preset)
                except OSError:
                    raise UsageError(f"'{flow.cc}' refuses the preset '{flow.preset}'") from None


def qdiscs(lab: Laboratory, scenario: Scenario) -> None:
    """Raise UsageError if tc or this kernel refuses a qdisc."""
    for qdisc in scenario.qdiscs:
        try:
            lab.try_qdisc(ends_with(lab.network, qdisc)[0], qdisc)
        except LabError as error:
            # After the first line tc prints its help.
            reason, _, _ = str(error).partition("; Usage:")
            raise UsageError(f"qdisc '{qdisc}' is refused {reason}") from None


def offloads(lab: Laboratory) -> None:
    """Raise CannotRunError if an offload is on at any interface."""
    for node in (*lab.network.hosts, *lab.network.routers):
        if still_on := lab.offloads_on(node):
            raise CannotRunError(
                f"offload still on at {still_on[0]}: queues would count many packets as one"
            )


def delays(lab: Laboratory, scenario: Scenario) -> None:
    """Raise CannotRunError if the delays cannot hold all packets in flight."""
    needed = topology.netem_limit_needed(scenario)
    for node in lab.network.routers:
        for interface, limit in lab.netem_limits(node).items():
            if limit < needed:
                rate, rtt = units.format_rate(scenario.rate), units.format_time(scenario.rtt)
                raise UsageError(
                    f"netem limit of {limit} packets at {interface} is too small for {rate} and"
                    f" {rtt}: at least {needed}"
                )


def capacity(lab: Laboratory, scenario: Scenario) -> float:
    """Measure how fast the machine forwards [bit/s]; CannotRunError if not fast enough.

    The best of a few trials counts: one can be disturbed, mostly the first, while programs are
    read from disk.
    """
    reached = 0.0
    for number in range(TRIALS):
        reached = max(reached, trial(lab, scenario, number))
        if reached >= HEADROOM * scenario.rate:
            return reached
    raise CannotRunError(
        f"rate {units.format_rate(scenario.rate)} is not reachable here: this machine forwards"
        f" {reached / 1e6:.0f} Mbit/s at best, and {HEADROOM:g} times the rate is needed"
    )


def trial(lab: Laboratory, scenario: Scenario, number: int) -> float:
    """Run one flow without a rate limit over the first path; its rate on the link [bit/s]."""
    path = lab.network.paths[0]
    # Another port for each trial: the last one's is not free again yet.
    ports = (TRIAL_PORTS[0] + number, TRIAL_PORTS[1] + number)
    programs = Programs(lab)
    command = flows.server_command(path.address, ports[1])
    server = programs.start("trial-server", path.receiver, command, "json")
    output = programs.output("trial-server.json")
    wait_server(lab, path.receiver, server, ports[1], output)
    command = flows.client_command(path.address, ports, TRIAL_CC, TRIAL_SECONDS)
    programs.start("trial-client", path.sender, command, "json").wait()
    output = programs.output("trial-client.json")
    # iperf3's exit status can be 0 even when it has failed.
    end = json.loads(output.read_text() or "{}").get("end", {})
    if "sum_received" not in end or server.wait():
        raise LabError(f"iperf3: {flows.said_error(output)}")
    return float(end["sum_received"]["bits_per_second"]) * scenario.frame / scenario.payload


def round_trip(lab: Laboratory, scenario: Scenario) -> float:
    """The shortest round-trip time of the empty path [ms]; CannotRunError if it is wrong."""
    path = lab.network.paths[0]
    text = lab.shell(path.sender, f"ping -n -D -i 0.1 -W 20 -c {PINGS} {path.address}")
    seen = min(took for _, took in flows.parse_ping(text))
    asked = scenario.rtt / 1000
    if not asked <= seen + 0.01 <= asked * (1 + RTT_TOLERANCE) + RTT_SLACK_MS:
        raise CannotRunError(
            f"the empty path's round-trip time is {seen:.2f} ms instead of {asked:g} ms"
        )
    return seen


def running(lab: Laboratory, scenario: Scenario, number: int) -> str:
    """The congestion control of the running flow NUMBER; CannotRunError if it is wrong."""
    flow, path = scenario.flows[number], lab.network.paths[number]
    own_port, port = flows.ports(number)
    deadline = time.monotonic() + flows.START_PATIENCE
    while (seen := lab.congestion_controls(path.sender).get((own_port, port))) is None:
        if time.monotonic() > deadline:
            raise LabError(f"flow {scenario.labels[number]} does not start")
        time.sleep(0.05)
    require_same(scenario.labels[number], flow.cc, seen)
    return seen


def require_same(label: str, asked: str, seen: str) -> None:
    """Raise CannotRunError if a flow has another congestion control than requested."""
    if seen != asked:
        raise CannotRunError(f"flow {label} runs with '{seen}' instead of '{asked}'")
