# SPDX-License-Identifier: GPL-2.0
"""The whole in one test, with an operator's commands: links, rates, faults, and a host that obeys.

    host ---- r1 ========== r2 ========== r3 ---- server
              slbnd  50           20        edge
                     Mbit/s       Mbit/s

Read it from top to bottom.  The other tests here look at one thing each, and closely.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.net import Namespace, sh, wait_for, wait_for_carrier
from tests.kernel.lib.slbnd import SLBNCTL, agent

NAMES = ("host", "r1", "r2", "r3", "server")
LINKS = {"r1": "rate 50mbit", "r2": "rate 20mbit", "r3": "rate 100mbit edge"}


@contextlib.contextmanager
def network() -> Iterator[list[Namespace]]:
    """Namespaces in a row; a node has the address 10.0.N.1 towards the next one, which has .2."""
    nodes = [Namespace(name) for name in NAMES]
    with contextlib.ExitStack() as stack:
        for node in nodes:
            sh(f"ip netns add {node.name}")
            stack.callback(sh, f"ip netns del {node.name}")
            node.sh("ip link set lo up && sysctl -qw net.ipv4.ip_forward=1")
        for n, (near, far) in enumerate(itertools.pairwise(nodes)):
            near.sh(f"ip link add right type veth peer name left netns {far.name}")
            near.sh(f"ip addr add 10.0.{n}.1/24 dev right && ip link set right up")
            far.sh(f"ip addr add 10.0.{n}.2/24 dev left && ip link set left up")
        for n, node in enumerate(nodes):
            for net in range(len(nodes) - 1):
                if net not in (n - 1, n):
                    hop = f"10.0.{n}.2" if net > n else f"10.0.{n - 1}.1"
                    node.sh(f"ip route add 10.0.{net}.0/24 via {hop}")
            wait_for_carrier(node, "right" if n < 4 else "left")
        yield nodes


@pytest.mark.virtual
def test_tour(tmp_path: Path) -> None:
    with network() as (host, r1, r2, r3, server):
        routers = (r1, r2, r3)

        # Links: a qdisc on the device towards the server.  r1 also paces, with fq.
        keys = [tmp_path / name for name in ("old", "new")]
        for key in keys:
            sh(f"{SLBNCTL} key generate {key}")
        for router in routers:
            options = f"{LINKS[router.name]} headroom 0 key file {keys[0]}"
            router.sh(f"tc qdisc add dev right root handle 1: slbn {options}")
        r1.sh(
            "tc qdisc add dev right parent 1:1 fq limit 100000 flow_limit 10000 orphan_mask 65535"
        )

        hosts = ("--hosts", "10.0.0.0/24", "--devices", "right", "--key-file", str(keys[0]))
        with agent(r1, tmp_path, *hosts) as slbnd:

            def ctl(router: Namespace, words: str) -> str:
                where = slbnd.socket if router is r1 else "none"
                return router.sh(f"{SLBNCTL} --json --socket {where} {words}").stdout

            def rates() -> list[float]:
                return sorted(
                    round(s["rate"] / 1e6, 1) for s in json.loads(ctl(r1, "session list"))
                )

            def sessions() -> list[int]:
                return [json.loads(ctl(each, "link show"))[0]["sessions"] for each in routers]

            # Sessions of programs: the slowest link is divided equally, and no router keeps a list.
            ctl(r1, "session join 10.0.3.2")
            wait_for(lambda: rates() == [20])
            ctl(r1, "session join 10.0.3.2 demand 5mbit")
            last = ctl(r1, "session join 10.0.3.2")
            wait_for(lambda: rates() == [5, 7.5, 7.5])
            assert sessions() == [3, 3, 3]

            # Faults: a tenth of the packets is lost, and the capacity halves.
            r2.sh("tc qdisc add dev left root netem loss 10%")
            r2.sh("tc qdisc change dev right root handle 1: slbn rate 10mbit")
            wait_for(lambda: rates() == [3.3, 3.3, 3.3])
            r2.sh("tc qdisc change dev right root handle 1: slbn rate 20mbit")
            ctl(r1, f"session leave {json.loads(last)['id']}")
            wait_for(lambda: rates() == [5, 15])
            r2.sh("tc qdisc del dev left root")

            # A new key, first accepted everywhere, then used, then the only one.
            for step in ("add 1 @{} accept", "add 1 @{}", "retire 0"):
                for router in routers:
                    ctl(router, f"key {step.format(keys[1])}")
            time.sleep(3)
            assert rates() == [5, 15]

            # A host that knows nothing of all this: its connection gets a session, and its rate.
            with server.start(["iperf3", "--server", "--one-off"], stdout=subprocess.DEVNULL):
                wait_for(lambda: ":5201" in server.sh("ss -Hltn").stdout)
                text = host.sh("iperf3 --client 10.0.3.2 --time 8 --omit 3 --json").stdout
            received = json.loads(text)["end"]["sum_received"]["bits_per_second"]
            assert 0.97 < received / (7.5e6 * 1448 / 1514) < 1.01
            queues = json.loads(r2.sh("tc -j -s qdisc show dev right").stdout)
            assert sum(queue["drops"] for queue in queues) == 0

            # The agent dies without a word: two epochs later no router counts its sessions.
            slbnd.end(signal.SIGKILL)
            wait_for(lambda: sessions() == [0, 0, 0], seconds=5)
