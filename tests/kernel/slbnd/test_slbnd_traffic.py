# SPDX-License-Identifier: GPL-2.0
"""Traffic of unmodified hosts behind access routers gets its assigned rates.

    p --- a --- n --- c --- r       a-n: 10 Mbit/s, n-c: 6 Mbit/s, all others: 20 Mbit/s
                |
                b --- q

a-n and n-c are bottlenecks on one path. Agents on a, b and c detect the flows of their hosts,
acknowledgements included, and pace them by fq below slbn. Other links have drr_fq or pfifo behind a
shaper that is slightly faster than the link's capacity. The max-min reference uses the demands that
the agents report.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.domain import Domain, Plan, domain
from tests.kernel.lib.fair import max_min
from tests.kernel.lib.net import TCP_CONGESTION, write_sysctl
from tests.kernel.lib.senders import Sender, Traffic, close_to
from tests.kernel.lib.slbn import MEGA
from tests.kernel.lib.slbnd import libslbn

pytestmark = pytest.mark.virtual

HOSTS = {"p": "a", "q": "b", "r": "c"}
RATES = {"a-n": 10 * MEGA, "n-c": 6 * MEGA}
#: Rate of shapers, relative to the link's capacity.
SHAPED = 1.05
FRAME = 1514
#: Qdiscs whose backlog counts; shapers and slbn include it in theirs.
QUEUES = ("fq", "drr_fq", "pfifo")
#: Largest backlog [octets]: 100 ms of all flows where they are paced; behind a shaper, the packets
#: that fq sends simultaneously. Unpaced TCP would fill 100 packets.
MAX_BACKLOG = {"a-n": RATES["a-n"] // 8 // 10 + 4 * FRAME, "n-c": 12 * FRAME}


def plan() -> Plan:
    """The topology; the options of agents need the addresses of hosts."""
    routers = ("a-n", "b-n", "n-c")
    links_up = [*routers, *(f"{router}-{host}" for host, router in HOSTS.items())]
    links_up += ["-".join(reversed(link.split("-"))) for link in links_up]
    links = {link: RATES.get(link, 20 * MEGA) for link in links_up}
    made = Plan(links, agents=(), hosts=tuple(HOSTS))
    options = {}
    for host, router in HOSTS.items():
        own = f"{made.address(host, False)}/32,{made.address(host, True)}/128"
        options[router] = ("--hosts", own, "--devices", "n")
    return Plan(links, agents=tuple(options), hosts=tuple(HOSTS), options=options)


@contextlib.contextmanager
def network(directory: Path, queue: str) -> Iterator[Domain]:
    """The domain, with this qdisc behind shapers."""

    def prepare(made: Domain) -> None:
        for node in made.plan.nodes:
            commands = []
            for link in made.capacities:
                here, there = link.split("-")
                if here != node:
                    continue
                if here in HOSTS.values() and there == "n":
                    commands.append(f"qdisc replace dev {there} parent 1:1 fq flow_limit 10000")
                else:
                    rate = round(made.capacities[link] * SHAPED)
                    shaper = f"tbf rate {rate}bit burst {2 * FRAME} limit 1mb"
                    # Control packets are sent first, and are not shaped.
                    bands = "prio bands 2 priomap 1 1 1 1 1 1 1 0 1 1 1 1 1 1 1 1"
                    commands.append(f"qdisc replace dev {there} parent 1:1 handle 4: {bands}")
                    commands.append(f"qdisc replace dev {there} parent 4:2 handle 2: {shaper}")
                    commands.append(f"qdisc replace dev {there} parent 2:1 handle 3: {queue}")
            if commands:
                made.nodes[node].tc(*commands)
        for host in HOSTS:
            with made.nodes[host].entered():
                write_sysctl("tcp_no_metrics_save", 1)
                write_sysctl("tcp_slow_start_after_idle", 0)

    with domain(plan(), directory, prepare) as made:
        yield made


def connect(net: Domain, here: str, there: str, cc: str = "", six: bool = False) -> Sender:
    """A TCP flow with a congestion control, or a UDP flow."""
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


class Detected:
    """A detected session and its path."""

    def __init__(self, net: Domain, source: str, state: libslbn.Session) -> None:
        owners = {net.plan.address(host, six): host for host in HOSTS for six in (False, True)}
        # The path includes the edge link.
        self.path = net.path(source, owners[state.destination])
        self.demand = state.demand
        self.state = state

    @property
    def key(self) -> tuple[str, int, str, int]:
        state = self.state
        return (state.source, state.source_port, state.destination, state.destination_port)


def sessions(net: Domain) -> list[Detected]:
    return [
        Detected(net, source, state)
        for source, client in net.clients.items()
        for state in client.list()
        if not state.flags & libslbn.LEAVING
    ]


def key(flow: Sender) -> tuple[str, int, str, int]:
    return (*flow.near.getsockname()[:2], *flow.far.getsockname()[:2])


class Run:
    """Concurrent flows and their sessions."""

    def __init__(self, net: Domain, flows: dict[str, Sender]) -> None:
        self.net, self.flows = net, flows
        self.traffic = Traffic(*flows.values())
        #: Samples of the backlog [octets], by link.
        self.backlogs: dict[str, list[int]] = {link: [] for link in RATES}

    def run(self, seconds: float) -> dict[str, float]:
        """Received rates [bit/s]; samples backlogs meanwhile."""
        began, before = time.monotonic(), {name: each.received for name, each in self.flows.items()}
        while (elapsed := time.monotonic() - began) < seconds:
            self.traffic.run(0.1)
            for link, samples in self.backlogs.items():
                netlink, index = self.net.places[link]
                queues = netlink.qdiscs(index)
                samples.append(sum(each.backlog for each in queues if each.kind in QUEUES))
        return {
            name: (each.received - before[name]) * 8 / elapsed for name, each in self.flows.items()
        }

    def errors(self) -> dict[tuple[str, int, str, int], tuple[int, float]]:
        """Sessions whose rate is more than 1 % off the reference, with both."""
        found = sessions(self.net)
        reference = max_min(self.net.capacities, found)
        return {
            each.key: (each.state.rate, float(reference[each]))
            for each in found
            if abs(each.state.rate / reference[each] - 1) > 0.01
        }

    def rates(self) -> dict[str, libslbn.Session]:
        reported = {each.key: each.state for each in sessions(self.net)}
        return {
            name: reported[key(flow)] for name, flow in self.flows.items() if key(flow) in reported
        }

    def settle(self, times: int = 4) -> None:
        """Wait until rates equal the reference, TCP is limited by links, and only TCP, for `times`
        periods.  The UDP session first asks for more than it sends, until its use is measured.
        """
        quiet = 0
        for _ in range(80):
            self.run(0.5)
            reported = self.rates()
            limited = all(
                (state := reported.get(name)) and (state.bottleneck is None) == bool(flow.offered)
                for name, flow in self.flows.items()
            )
            quiet = quiet + 1 if limited and not self.errors() else 0
            if quiet == times:
                return
        raise AssertionError((reported, self.errors()))

    def check(self, seconds: float) -> None:
        """Check received rates and backlogs."""
        for seen in self.backlogs.values():
            seen.clear()
        before = self.rates()
        got = self.run(seconds)
        after = self.rates()
        for name, flow in self.flows.items():
            # Rates change slightly, as demands of acknowledgements follow their use.
            rate = (before[name].rate + after[name].rate) / 2
            # Received octets include headers, as rates do.
            expected = flow.offered or rate
            print(f"{name}: {rate / MEGA:.3f} Mbit/s, received {got[name] / expected - 1:+.1%}")
            assert close_to(got[name], expected, 0.05), (name, got[name], expected)
            assert rate > flow.offered
        for link, samples in self.backlogs.items():
            middle = sorted(samples)[len(samples) // 2]
            print(f"{link}: {middle} octets of backlog, at most {max(samples)}")
            assert max(samples) <= MAX_BACKLOG[link], (link, samples)
        self.settle(1)

    def end(self, name: str) -> None:
        flow = self.flows.pop(name)
        flow.near.close()
        flow.far.close()
        self.traffic.senders = tuple(self.flows.values())


@pytest.mark.parametrize(
    "queue",
    ["drr_fq limit 100", pytest.param("pfifo limit 100", marks=pytest.mark.tier("all"))],
)
def test_flows_share_two_bottlenecks(tmp_path: Path, queue: str) -> None:
    with network(tmp_path, queue) as net, contextlib.ExitStack() as stack:
        flows = {
            "both": connect(net, "p", "r", "bic"),
            "first": connect(net, "p", "q", "cubic", six=True),
            "second": connect(net, "q", "r", "gaimd"),
            "modest": connect(net, "p", "r"),
        }
        for flow in flows.values():
            # Closed sockets would keep the congestion control loaded for minutes.
            stack.callback(flow.abort)
        run = Run(net, flows)
        run.settle()
        run.check(5)
        before = run.rates()
        run.end("second")
        run.settle()
        run.check(5)
        after = run.rates()
        assert after["both"].rate > 1.5 * before["both"].rate
        assert after["first"].rate < before["first"].rate
