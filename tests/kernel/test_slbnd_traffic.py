# SPDX-License-Identifier: GPL-2.0
"""Unchanged hosts behind access routers: their traffic gets the rates that SLBN tells, and no more.

    p --- a --- n --- c --- r       a-n: 10 Mbit/s, n-c: 6 Mbit/s, all others: 20 Mbit/s
                |
                b --- q

a-n and n-c are bottlenecks, one behind the other. Agents on a, b and c find what their hosts send,
acknowledgements too, and hold it where it leaves: by fq, below slbn. Further on, data waits in
drr_fq or pfifo if it must, in front of a shaper that is a little faster than what the link tells.
What flows ask for is what the agents say; what they should have follows from that.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.domain import Domain, Plan, domain
from tests.kernel.fair import max_min
from tests.kernel.net import TCP_CONGESTION, write_sysctl
from tests.kernel.senders import Sender, Traffic, close_to
from tests.kernel.slbn import MEGA
from tests.kernel.slbnd import libslbn

HOSTS = {"p": "a", "q": "b", "r": "c"}
RATES = {"a-n": 10 * MEGA, "n-c": 6 * MEGA}
#: Of what leaves a link's data class.
SHAPED = 1.05
FRAME = 1514
#: Where packets wait; shapers and slbn count them, too.
QUEUES = ("fq", "drr_fq", "pfifo")
#: Octets that may wait where flows are held: as long as they may, all together. And behind that, in
#: front of a shaper: what fq sends at the same time. TCP alone would fill 100 packets.
WAITING = {"a-n": RATES["a-n"] // 8 // 10 + 4 * FRAME, "n-c": 12 * FRAME}


def plan() -> Plan:
    """Hosts have addresses of their own when it is known which nodes there are."""
    routers = ("a-n", "b-n", "n-c")
    ways = [*routers, *(f"{router}-{host}" for host, router in HOSTS.items())]
    ways += ["-".join(reversed(way.split("-"))) for way in ways]
    links = {way: RATES.get(way, 20 * MEGA) for way in ways}
    made = Plan(links, agents=(), hosts=tuple(HOSTS))
    options = {}
    for host, router in HOSTS.items():
        own = f"{made.address(host, False)}/32,{made.address(host, True)}/128"
        options[router] = ("--hosts", own, "--devices", "n")
    return Plan(links, agents=tuple(options), hosts=tuple(HOSTS), options=options)


@contextlib.contextmanager
def network(directory: Path, queue: str) -> Iterator[Domain]:
    """With this qdisc where data waits."""

    def prepare(made: Domain) -> None:
        for node in made.plan.nodes:
            commands = []
            for link in made.capacities:
                here, there = link.split("-")
                if here != node:
                    continue
                if here in HOSTS.values() and there == "n":
                    commands.append(f"qdisc replace dev {there} parent 1:2 fq flow_limit 10000")
                else:
                    rate = round(made.capacities[link] * SHAPED)
                    shaper = f"tbf rate {rate}bit burst {2 * FRAME} limit 1mb"
                    commands.append(f"qdisc replace dev {there} parent 1:2 handle 2: {shaper}")
                    commands.append(f"qdisc replace dev {there} parent 2:1 handle 3: {queue}")
            if commands:
                made.tc(made.nodes[node], commands)
        for host in HOSTS:
            with made.nodes[host].entered():
                write_sysctl("tcp_no_metrics_save", 1)
                write_sysctl("tcp_slow_start_after_idle", 0)

    with domain(plan(), directory, prepare) as made:
        yield made


def connect(net: Domain, here: str, there: str, cc: str = "", six: bool = False) -> Sender:
    """A TCP flow under a congestion control, or a UDP flow."""
    family = socket.AF_INET6 if six else socket.AF_INET
    kind = socket.SOCK_STREAM if cc else socket.SOCK_DGRAM
    ends = []
    for node in (there, here):
        with net.nodes[node].entered():
            end = socket.socket(family, kind)
            end.bind((net.plan.address(node, six), 0))
            ends.append(end)
    far, near = ends
    if cc:
        near.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())
        far.listen()
        near.connect(far.getsockname())
        listener, (far, _) = far, far.accept()
        listener.close()
    else:
        far.connect(near.getsockname())
        near.connect(far.getsockname())
    for end in (near, far):
        end.setblocking(False)
    return Sender(near, far, 0 if cc else MEGA)


class Found:
    """A session that an agent has found, and its path."""

    def __init__(self, net: Domain, source: str, said: libslbn.Session) -> None:
        owners = {net.plan.address(host, six): host for host in HOSTS for six in (False, True)}
        # What goes to the host is the last link's.
        self.path = net.path(source, owners[said.destination])
        self.demand = said.demand
        self.said = said

    @property
    def key(self) -> tuple[str, int, str, int]:
        said = self.said
        return (said.source, said.source_port, said.destination, said.destination_port)


def sessions(net: Domain) -> list[Found]:
    return [
        Found(net, source, said)
        for source, client in net.clients.items()
        for said in client.list()
        if not said.flags & libslbn.LEAVING
    ]


def key(flow: Sender) -> tuple[str, int, str, int]:
    return (*flow.near.getsockname()[:2], *flow.far.getsockname()[:2])


class Run:
    """Flows at the same time, and what is told of them."""

    def __init__(self, net: Domain, flows: dict[str, Sender]) -> None:
        self.net, self.flows = net, flows
        self.traffic = Traffic(*flows.values())
        #: Octets that waited at each look, by link.
        self.waiting: dict[str, list[int]] = {link: [] for link in RATES}

    def run(self, seconds: float) -> dict[str, float]:
        """Goodputs; queues are looked at meanwhile."""
        began, before = time.monotonic(), {name: each.received for name, each in self.flows.items()}
        while (past := time.monotonic() - began) < seconds:
            self.traffic.run(0.1)
            for link, seen_there in self.waiting.items():
                netlink, index = self.net.places[link]
                queues = netlink.qdiscs(index)
                seen_there.append(sum(each.backlog for each in queues if each.kind in QUEUES))
        return {
            name: (each.received - before[name]) * 8 / past for name, each in self.flows.items()
        }

    def wrong(self) -> dict[tuple[str, int, str, int], tuple[int, float]]:
        """Sessions that are not told what they should have for what they ask."""
        found = sessions(self.net)
        exact = max_min(self.net.capacities, found)
        return {
            each.key: (each.said.rate, float(exact[each]))
            for each in found
            if abs(each.said.rate / exact[each] - 1) > 0.01
        }

    def rates(self) -> dict[str, libslbn.Session]:
        told = {each.key: each.said for each in sessions(self.net)}
        return {name: told[key(flow)] for name, flow in self.flows.items() if key(flow) in told}

    def settle(self, times: int = 4) -> None:
        """Until all have found their rates, TCP has what the network can give, and it stays so."""
        quiet = 0
        for _ in range(80):
            self.run(0.5)
            told = self.rates()
            greedy = [told.get(name) for name, flow in self.flows.items() if not flow.offered]
            limited = all(said and said.bottleneck is not None for said in greedy)
            quiet = quiet + 1 if limited and not self.wrong() else 0
            if quiet == times:
                return
        raise AssertionError((told, self.wrong()))

    def check(self, seconds: float) -> None:
        """That what flows get, and what waits, is as it should be."""
        for seen in self.waiting.values():
            seen.clear()
        before = self.rates()
        got = self.run(seconds)
        after = self.rates()
        for name, flow in self.flows.items():
            # Demands of others follow what they use, if only that of acknowledgements.
            rate = (before[name].rate + after[name].rate) / 2
            # What has arrived is counted with headers, as rates are.
            wanted = flow.offered or rate
            print(f"{name}: {rate / MEGA:.3f} Mbit/s, received {got[name] / wanted - 1:+.1%}")
            assert close_to(got[name], wanted, 0.05), (name, got[name], wanted)
            assert rate > flow.offered
        for link, seen_there in self.waiting.items():
            middle = sorted(seen_there)[len(seen_there) // 2]
            print(f"{link}: {middle} octets wait, at most {max(seen_there)}")
            assert max(seen_there) <= WAITING[link], (link, seen_there)
        self.settle(1)

    def end(self, name: str) -> None:
        flow = self.flows.pop(name)
        flow.near.close()
        flow.far.close()
        self.traffic.senders = tuple(self.flows.values())


@pytest.mark.parametrize("queue", ["drr_fq limit 100", "pfifo limit 100"])
def test_flows_share_two_bottlenecks(tmp_path: Path, queue: str) -> None:
    with network(tmp_path, queue) as net, contextlib.ExitStack() as stack:
        flows = {
            "both": connect(net, "p", "r", "bic"),
            "first": connect(net, "p", "q", "cubic", six=True),
            "second": connect(net, "q", "r", "gaimd"),
            "modest": connect(net, "p", "r"),
        }
        for flow in flows.values():
            # Or its congestion control could not be unloaded for minutes.
            stack.callback(flow.abort)
        run = Run(net, flows)
        run.settle()
        run.check(3)
        before = run.rates()
        run.end("second")
        run.settle()
        run.check(3)
        after = run.rates()
        assert after["both"].rate > 1.5 * before["both"].rate
        assert after["first"].rate < before["first"].rate
