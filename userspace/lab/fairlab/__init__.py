# SPDX-License-Identifier: GPL-2.0
"""fairlab: TCP flows share a bottleneck between hosts in network namespaces, on real kernels.

The packages are layers; each imports only from those before it:

    model      what is run, as plain data that has been checked: scenarios, experiments, topologies
    net        this machine, its kernel, and the network that is built on it
    mininet    links, hosts and routers for Mininet scripts, and what runs such a script
    run        engines and jobs; what measures a job in the kernel under test, and its traffic
    results    from raw data to results: analysis, validity, storage, tables, plots
    slbn       experiments with SLBN: sessions, backbones, the max-min reference, the simulator;
               what measures all of them and the comparisons (slbn/guest.py)
    figures    published figures: studies, and the gallery that runs and draws them
    compare    one workload on many stacks, as studies of the gallery
    cli        the command line: a module for each command

The way of one run, `fairlab run`, through them:

    cli/run.py           makes a Scenario (model/scenario.py) of the command line, and a job of it
    results/dumbbell.py  the job: how it is described to a guest, and read afterwards
    run/engine.py        starts the guest, in which `fairlab measure` finds the job
    cli/measure.py       calls what measures this kind of job
    run/dumbbell.py      builds the network (net/network.py), starts flows, samples queues
    results/store.py     back on the user's machine: reads the raw data that is left
    results/validity.py  refuses a run that the machine disturbed, by the checks of trust.py
    results/analysis.py  computes throughputs, windows, delays
    results/plots.py     draws them; report.py prints the table

A description becomes a result by one interface, run.job.Job.  Measuring and reading are apart
because they may happen in different kernels: a job is measured as root in the kernel under test (in
a virtual machine by default) and read on the user's machine as the user, where it is fast and can
be done again from the raw data (`fairlab plot`).
"""

from pathlib import Path

# A link to the project's VERSION; in an installed package, a copy.
__version__ = (Path(__file__).parent / "VERSION").read_text().strip()
