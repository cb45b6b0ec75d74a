# SPDX-License-Identifier: GPL-2.0
"""FairLink: a Mininet link whose rate, queue, delay and loss are where a real link has them.

    net.addLink(a, b, cls=FairLink, rate="100mbit", delay="10ms", qdisc="fq_codel")

The sender's interface limits the rate (tbf, a burst of two packets), and packets wait there, in
`qdisc`.  Delay and loss come after it: the receiver's end delays what arrives (netem on an ifb
device).  On the sender's interface, as with Mininet's TCLink, netem would hold packets that TCP
counts as unsent (TCP Small Queues), and its queue would be the bottleneck's.

Until a packet reaches a router or a netem, TCP counts it as unsent, also in a bridge's queue, for
which a real sender would not wait.  So all arrivals are delayed, by a microsecond at least.

Offloads are off: with them a qdisc would count several packets as one.
"""

import subprocess
from typing import Any

from mininet.link import Intf, Link

from fairlab.model import headers, units
from fairlab.model.errors import LabError, UsageError
from fairlab.net.network import NETEM, QUEUE, SHAPER, SLBN

OFFLOADS = ("gso", "tso", "gro", "lro")
MTU = 1500
FRAME = MTU + headers.ETHERNET

# tbf's own limit [bytes], which QUEUE's qdisc reaches first; netem's [packets] at full rate.
TBF_LIMIT = 2**30
NETEM_LIMIT = 10**6

#: The shortest delay [us].
MIN_DELAY = 1

DEFAULT_QDISC = "pfifo limit 100"


class FairIntf(Intf):  # type: ignore[misc]  # Mininet has no types.
    """One end of a FairLink."""

    def config(
        self,
        rate: str | None = None,
        delay: str | None = None,
        loss: float | None = None,
        qdisc: str | None = None,
        **params: Any,
    ) -> Any:
        """Set up the queues of this end.

        RATE and DELAY have units, LOSS is in percent (on arrival), QDISC is tc's specification.
        """
        result = super().config(**params)
        self.rate, self.qdisc = rate, qdisc
        self.run(f"ethtool -K {self.name} " + " ".join(f"{name} off" for name in OFFLOADS), False)
        device = self.ifb
        ip = [f"link add {device} numtxqueues 1 type ifb", f"link set {device} mtu {MTU} up"]
        tc = [f"qdisc replace {command}" for command in egress_commands(self.name, rate, qdisc)]
        tc += [
            f"qdisc replace dev {device} root handle {NETEM:x}: {netem(delay, loss)}",
            # Not "ingress": slbnd adds a filter for sent packets.
            f"qdisc replace dev {self.name} clsact",
            f"filter replace dev {self.name} ingress matchall"
            f" action mirred egress redirect dev {device}",
        ]
        try:
            run_batch(self.node, "ip", ip)
            run_batch(self.node, "tc", tc)
        except LabError as error:
            raise UsageError(f"{self.name}: {error}") from None
        return result

    def add_slbn(self, options: str) -> None:
        """Make this end a link of SLBN with OPTIONS of the qdisc, between rate limit and queue."""
        for command in egress_commands(self.name, self.rate, self.qdisc or "fq", options):
            self.run(f"tc qdisc replace {command}")

    @property
    def ifb(self) -> str:
        """The device that delays arrivals: at most 15 characters.  Mininet's names are unique."""
        return f"i{self.name}"[-15:]

    def delete(self) -> None:
        """Delete the interface, and the ifb, whose node may be the machine's namespace."""
        self.run(f"ip link del {self.ifb}", False)
        super().delete()

    def run(self, command: str, required: bool = True) -> None:
        """Run a command on the interface's node."""
        output, complaint, status = self.node.pexec(*command.split())
        if status and required:
            reason = (complaint or output).strip().replace("\n", "; ")
            raise UsageError(f"{self.name}: {command}: {reason}")


class FairLink(Link):  # type: ignore[misc]
    """A link of two FairIntf."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        params.setdefault("cls1", FairIntf)
        params.setdefault("cls2", FairIntf)
        super().__init__(node1, node2, **params)


def run_batch(node: Any, program: str, commands: list[str]) -> None:
    """Run COMMANDS of ip or tc on NODE, in one process."""
    process = node.popen(
        [program, "-batch", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output, _ = process.communicate("\n".join(commands) + "\n")
    if process.returncode:
        reason = output.strip().replace("\n", "; ")
        raise LabError(f"{program} on {node.name}: {reason}")


def egress_commands(
    name: str, rate: str | None, qdisc: str | None, slbn: str | None = None
) -> list[str]:
    """What `tc qdisc replace` gets for the packets that an interface sends."""
    if rate is None:
        if slbn is not None:
            raise UsageError(f"{name}: a link of SLBN needs a rate")
        return [f"dev {name} root handle {QUEUE:x}: {qdisc}"] if qdisc else []
    bits = units.parse_rate(rate)
    tbf = f"tbf rate {bits}bit burst {2 * FRAME} limit {TBF_LIMIT}"
    commands = [f"dev {name} root handle {SHAPER:x}: {tbf}"]
    parent = f"dev {name} parent {SHAPER:x}:1"
    if slbn is not None:
        link = f"slbn rate {bits}bit {slbn}".rstrip()
        commands.append(f"{parent} handle {SLBN:x}: {link}")
        parent = f"dev {name} parent {SLBN:x}:2"
    return [*commands, f"{parent} handle {QUEUE:x}: {qdisc or DEFAULT_QDISC}"]


def netem(delay: str | None, loss: float | None) -> str:
    """Netem's specification."""
    time = max(MIN_DELAY, units.parse_time(delay or "0s"))
    if not 0 <= float(loss or 0) <= 100:
        raise UsageError(f"loss {loss}: must be 0 to 100 percent")
    lost = f" loss {float(loss):.8f}%" if loss else ""
    return f"netem limit {NETEM_LIMIT} delay {time}us{lost}"
