# SPDX-License-Identifier: GPL-2.0
"""TCP through a device with two TX queues: slbn as the root costs as little as mq.

The machine's clock counts instructions (scripts/vm --steady), so the host's load changes nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess

import pytest

from tests.kernel.lib.drr_fq import batch
from tests.kernel.lib.net import Namespace, namespace, sh, wait_for, wait_for_carrier

pytestmark = [pytest.mark.stock, pytest.mark.tier("all")]

#: Pairs of runs; flows of each, whose ports choose the queue, as many that one of ten million runs
#: has them all in one queue; and duration [s].
PAIRS, FLOWS, SECONDS = 5, 24, 1
SLBN = "slbn rate 10gbit"


def throughput(a: Namespace, b: Namespace, root: str) -> float:
    """Bit/s that a receiver gets, with this root and fq at each queue."""
    a.sh(f"""set -e
        tc qdisc add dev a0 root handle 1: {root}
        tc qdisc replace dev a0 parent 1:1 fq
        tc qdisc replace dev a0 parent 1:2 fq""")
    server = ["ip", "netns", "exec", b.name, "iperf3", "--server", "--one-off"]
    with subprocess.Popen(server, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: ":5201" in b.sh("ss -tlnH").stdout)
        done = a.sh(f"iperf3 --client 10.0.0.2 --parallel {FLOWS} --time {SECONDS} --json")
        assert process.wait(60) == 0
    queues = json.loads(a.sh("tc -j -s qdisc show dev a0").stdout)
    a.sh("tc qdisc del dev a0 root")
    sent = [each["bytes"] for each in queues if each["kind"] == "fq"]
    assert len(sent) == 2 and min(sent) > 0
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])


def test_two_queues_carry_as_much_tcp_as_with_mq() -> None:
    """The median of five runs with each, in turn."""
    with namespace() as a, namespace() as b:
        batch(
            "ip",
            f"""link add a0 netns {a.name} numtxqueues 2 type veth peer name b0 netns {b.name}
            netns exec {a.name} ip addr add 10.0.0.1/24 dev a0
            netns exec {a.name} ip link set a0 up
            netns exec {b.name} ip addr add 10.0.0.2/24 dev b0
            netns exec {b.name} ip link set b0 up
            """,
        )
        wait_for_carrier(a, "a0")
        sh("modprobe sch_fq")
        rates = [(throughput(a, b, SLBN), throughput(a, b, "mq")) for _ in range(PAIRS)]
    ratios = sorted(slbn / mq for slbn, mq in rates)
    assert statistics.median(ratios) >= 0.9, ratios
