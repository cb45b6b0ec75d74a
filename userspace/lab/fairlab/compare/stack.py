# SPDX-License-Identifier: GPL-2.0
"""What a stack is: the queues of all links, and whether SLBN assigns rates.

stacks.py has the stacks.  A run depends on its own stack and on this file, not on the other stacks.
"""

from dataclasses import dataclass

from fairlab.model.qdisc import BOTTLENECK, Qdisc

#: Memory of a packet in CAKE's memlimit, which counts the kernel's buffers [bytes].
TRUE_SIZE = 2304
#: CoDel's default interval, which must not be shorter than most round-trip times [ms].
INTERVAL = 100
#: fq_codel's default limit, for a qdisc with the same AQM [packets].
DEEP = 10240


@dataclass(frozen=True)
class Stack:
    """The queues of all links.

    OPTIONS, SMALL, LONG and DCTCP are options of the qdisc with {buffer}, {deep}, {bytes}, {rate},
    {rtt} and {target} in them: the usual ones, those for a buffer that hardware limits, those for
    round-trip times above INTERVAL, and those for DCTCP, whose packets are ECT(0).
    """

    name: str
    kind: str
    options: str = ""
    small: str = ""
    long: str = ""
    dctcp: str = ""
    #: options of the qdisc slbn; None: no SLBN
    slbn: str | None = None
    #: options of slbnd beside those of the topology
    agent: tuple[tuple[str, str], ...] = ()
    #: congestion controls that it is for; empty: all
    only: tuple[str, ...] = ()
    #: options of the qdisc of the network's first link instead, as of a router of another owner
    first_link: str | None = None
    #: options of the agent of the first access router instead, as of another version
    first_agent: tuple[tuple[str, str], ...] | None = None

    def qdisc(
        self, rate: int, buffer: int, small: bool, rtt: float, cc: str, first: bool = False
    ) -> Qdisc:
        """The data qdisc of a link of RATE [bit/s] with BUFFER [packets]; RTT: the longest [ms].

        FIRST: of the network's first link.
        """
        usual = self.first_link if first and self.first_link is not None else self.options
        words = [usual, self.small if small else "", self.long if rtt > INTERVAL else ""]
        words.append(self.dctcp if cc == "dctcp" else "")
        values = {"rate": rate, "buffer": buffer, "bytes": buffer * TRUE_SIZE}
        values["deep"] = buffer if small else DEEP
        # CoDel's target is 5 % of its interval.
        values |= {"rtt": round(rtt), "target": round(rtt / 20)}
        return Qdisc(BOTTLENECK, self.kind, tuple(" ".join(words).format(**values).split()))
