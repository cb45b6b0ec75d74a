# SPDX-License-Identifier: GPL-2.0
"""fairlab: TCP flows share a bottleneck between Mininet hosts, on real kernels.

A run goes through these modules, each of which knows nothing of those below it:

    headers, units     sizes, rates and times
    qdisc, background, scenario    what is asked for, as plain data, checked
    topology           the nodes, links and queues that this takes, as plain data
    host, network      the machine that we are on; the network built on it with Mininet
    congestion         which congestion controls and presets this kernel has
    netlink, queues    reading queues and sockets while the run goes on
    tracing            the windows, from tracepoints
    flows              the traffic: iperf3, and fairtraffic for the background
    preflight          everything that must be true before, during and after
    measure            the run itself: puts raw data into a directory
    analysis           what the raw data says
    results, flentfile, figures, comparison, report    what is left of it for people
    engine, cli        where it runs; the command line

Measuring and evaluating are apart because they may happen in different kernels: `measure` runs as
root in the kernel under test (in a virtual machine by default), the rest runs on the user's machine
as the user, where it is fast, and can be done again at any time from the raw data (`fairlab plot`).
"""

from pathlib import Path

# A link to the project's VERSION; in an installed package, a copy.
__version__ = (Path(__file__).parent / "VERSION").read_text().strip()
