# SPDX-License-Identifier: GPL-2.0
"""Gathers what every run records: what it ran on, and evidence for results/trust.py."""

import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from fairlab.net import host
from fairlab.net.network import Laboratory
from fairlab.run import engine

#: TCP's counters of packets that it dropped for lack of memory, and of memory pressure.
OUT_OF_MEMORY = (
    "RcvPruned",
    "OfoPruned",
    "TCPBacklogDrop",
    "TCPMemoryPressures",
    "TCPOFODrop",
    "TCPRcvQDrop",
)
#: Priorities of messages that are errors: emergency to error (syslog(2)).
ERROR = 3
#: Warnings are of a lower priority, but their first line says so.
WARNING = re.compile(r"^(WARNING|BUG|INFO: task|unregister_netdevice)")


def tcp_memory(lab: Laboratory) -> dict[str, int]:
    """Counters of TcpExt in /proc/net/netstat, of all hosts together."""
    total = dict.fromkeys(OUT_OF_MEMORY, 0)
    for node in lab.network.hosts:
        lines = [line.split() for line in lab.shell(node, "cat /proc/net/netstat").splitlines()]
        for heads, values in zip(lines[::2], lines[1::2], strict=True):
            for name, value in zip(heads[1:], values[1:], strict=True):
                if name in total:
                    total[name] += int(value)
    return total


def host_counters(lab: Laboratory) -> dict[str, int]:
    """The packets that hosts have sent, with their bytes, and those that have arrived at them."""
    found = {"sent": 0, "sent_bytes": 0, "arrived": 0}
    for node in lab.network.hosts:
        names = {end.interface for end, _ in lab.network.ends_of(node)}
        for line in lab.shell(node, "cat /proc/net/dev").splitlines():
            name, _, counters = line.partition(":")
            if name.strip() in names:
                columns = [int(word) for word in counters.split()]
                found["arrived"] += columns[1]
                found["sent_bytes"] += columns[8]
                found["sent"] += columns[9]
    return found


class KernelLog:
    """The kernel's errors since this was made."""

    def __init__(self) -> None:
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def errors(self) -> list[str]:
        found = []
        with suppress(BlockingIOError):
            while record := os.read(self.file, 8192).decode(errors="replace"):
                head, _, text = record.partition(";")
                line = text.partition("\n")[0]
                if int(head.split(",")[0]) & 7 <= ERROR or WARNING.match(line):
                    found.append(line)
        return found

    def close(self) -> None:
        os.close(self.file)


def gather(
    lab: Laboratory, log: KernelLog, load: host.Load, ccs: Iterable[str] = ()
) -> dict[str, Any]:
    """What every run records at its end; LOAD is that of the run, CCS its congestion controls."""
    seed = os.environ.get("FAIRPATH_VM_SEED")
    return {
        "load": vars(load) | {"idle_share": load.idle_share},
        "virtual": engine.is_virtual(),
        "out_of_memory": tcp_memory(lab),
        "kernel_errors": log.errors(),
        "changed": lab.changed(),
        "kernel": {
            "release": platform.release(),
            "version": platform.version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        # scripts/vm sets these for the command that it runs in a guest.
        "engine": {
            "name": os.environ.get("FAIRPATH_ENGINE", "host"),
            "accelerator": os.environ.get("FAIRPATH_ACCEL", ""),
            "steady": os.environ.get("FAIRPATH_STEADY") == "1",
        }
        | ({} if seed is None else {"seed": int(seed), "jitter": "FAIRPATH_JITTER" in os.environ}),
        "tools": {
            "iperf3": host.run("iperf3", "--version").splitlines()[0],
            "tc": host.run("tc", "-V").strip(),
            "python": platform.python_version(),
        },
        "modules": {cc: host.module_version(cc) for cc in ccs},
    }
