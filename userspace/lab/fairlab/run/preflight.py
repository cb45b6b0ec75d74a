# SPDX-License-Identifier: GPL-2.0
"""Is this machine fit to give the answer?  Each check raises the reason if not.

What is asked for is looked up (congestion controls, presets), what was set up is read back from
the kernel (offloads, queues), and what can be measured is measured (how fast the machine forwards
without any queue; how long the round-trip really is; what controls the running connections).
validity.py looks at the other end of it: whether the machine kept up all the time.
"""

import json
import time

from fairlab.model import topology, units
from fairlab.model.errors import CannotRunError, LabError, UsageError
from fairlab.model.scenario import Scenario
from fairlab.net import congestion
from fairlab.net.network import Laboratory
from fairlab.run import flows

# The machine has to forward faster than the rate by this factor, with nothing else to do.
HEADROOM = 1.5
# That is tried for so long: newer iperf3 looks only once a second whether it is done.
TRIAL_SECONDS, TRIAL_CC = 1, "reno"
TRIAL_PORTS = (50000, 5200)
TRIALS = 3
PINGS = 5
# How much longer than asked for the empty path's round-trip may be.
RTT_TOLERANCE, RTT_SLACK_MS = 0.02, 2.0


def look_up(scenario: Scenario) -> None:
    """Does this kernel have what the flows ask for?"""
    for flow in dict.fromkeys(scenario.flows):
        congestion.require(flow)


def choose(lab: Laboratory, scenario: Scenario) -> None:
    """Set each sender's congestion control and preset."""
    for flow, path in zip(scenario.flows, lab.network.paths, strict=True):
        # Not every congestion control can be a namespace's default (TCP_CONG_NON_RESTRICTED);
        # iperf3 asks for it by name, and running() looks what came of it.
        setting = "/proc/sys/net/ipv4/tcp_congestion_control"
        lab.shell(path.sender, f"(echo {flow.cc} >{setting}) 2>/dev/null || :")
        if flow.preset:
            try:
                lab.shell(path.sender, f"echo '{flow.preset}' >/proc/sys/net/ipv4/{flow.cc}_preset")
            except LabError:
                raise UsageError(f"'{flow.cc}' refuses the preset '{flow.preset}'") from None


def qdiscs(lab: Laboratory, scenario: Scenario) -> None:
    """Does tc, and this kernel, take each qdisc that was asked for?"""
    for qdisc in scenario.qdiscs:
        try:
            lab.try_qdisc(topology.ends_with(lab.network, qdisc)[0], qdisc)
        except LabError as error:
            # What follows is tc's help for a kind that it knows.
            reason, _, _ = str(error).partition("; Usage:")
            raise UsageError(f"qdisc '{qdisc}' is refused {reason}") from None


def offloads(lab: Laboratory) -> None:
    """Is every offload off, at every interface?"""
    for node in (*lab.network.hosts, *lab.network.routers):
        still_on = lab.offloads_on(node)
        if still_on:
            raise CannotRunError(
                f"offload still on at {still_on[0]}: queues would see packets in clumps"
            )


def delays(lab: Laboratory, scenario: Scenario) -> None:
    """Can the delays hold what will be in flight?"""
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
    """Is the rate within reach?  Forward as fast as possible for a moment; the rate [bit/s].

    A trial can be disturbed, the first above all, while programs are read from disk: the best
    of a few counts.
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
    """One flow over the first path, as fast as it goes; its rate on the wire [bit/s]."""
    path = lab.network.paths[0]
    # A port of its own for each: that of the one before is not free again so soon.
    ports = (TRIAL_PORTS[0] + number, TRIAL_PORTS[1] + number)
    outputs = [lab.scratch / f"trial-{end}.json" for end in ("server", "client")]
    with outputs[0].open("wb") as output:
        command = flows.server_command(path.address, ports[1])
        server = lab.start(path.receiver, command, output)
    flows.wait_server(lab, path.receiver, server, ports[1], outputs[0])
    with outputs[1].open("wb") as output:
        command = flows.client_command(path.address, ports, TRIAL_CC, TRIAL_SECONDS)
        client = lab.start(path.sender, command, output)
    client.wait()
    # iperf3 ends with 0 even when it has failed, if it could say so.
    end = json.loads(outputs[1].read_text() or "{}").get("end", {})
    if "sum_received" not in end or server.wait():
        raise LabError(f"iperf3: {flows.said_error(outputs[1])}")
    return float(end["sum_received"]["bits_per_second"]) * scenario.frame / scenario.payload


def round_trip(lab: Laboratory, scenario: Scenario) -> float:
    """Is the empty path's round-trip as asked for?  The shortest seen, in ms."""
    path = lab.network.paths[0]
    text = lab.shell(path.sender, f"ping -n -D -i 0.1 -W 20 -c {PINGS} {path.address}")
    seen = min(took for _, took in flows.parse_ping(text))
    asked = scenario.rtt / 1000
    if not asked <= seen + 0.01 <= asked * (1 + RTT_TOLERANCE) + RTT_SLACK_MS:
        raise CannotRunError(
            f"the empty path's round-trip is {seen:.2f} ms instead of {asked:g} ms"
        )
    return seen


def running(lab: Laboratory, scenario: Scenario, number: int) -> str:
    """What does control flow NUMBER, which must be running?  It must be what was asked for."""
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
    """A flow must be controlled by what was asked for."""
    if seen != asked:
        raise CannotRunError(f"flow {label} runs with '{seen}' instead of '{asked}'")
