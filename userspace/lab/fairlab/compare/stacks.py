# SPDX-License-Identifier: GPL-2.0
"""The stacks that are compared: the qdisc of each link, and whether SLBN assigns rates.

Each has the settings that its users would have: the defaults of the qdisc, except for what it
cannot know (a FIFO's length, the rate of CAKE's link, a round-trip time that is longer than CoDel's
interval of 100 ms, DCTCP).  docs/compare.md has the table.
"""

from dataclasses import dataclass

from fairlab.model.qdisc import BOTTLENECK, Qdisc

#: Memory of a packet in CAKE's memlimit, which counts the kernel's buffers [bytes].
TRUE_SIZE = 2304
#: CoDel's default interval, which must not be shorter than most round-trip times [ms].
INTERVAL = 100
#: fq_codel's default limit, for a qdisc with the same AQM [packets].
DEEP = 10240

#: Congestion controls that need ECN, and a queue that marks at once.
L4S = ("dctcp", "prague")
CCS = ("cubic", "bbr", "dctcp", "bic", "gaimd", "reno")


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

    def qdisc(self, rate: int, buffer: int, small: bool, rtt: float, cc: str) -> Qdisc:
        """The data qdisc of a link of RATE [bit/s] with BUFFER [packets]; RTT: the longest [ms]."""
        words = [self.options, self.small if small else "", self.long if rtt > INTERVAL else ""]
        words.append(self.dctcp if cc == "dctcp" else "")
        values = {"rate": rate, "buffer": buffer, "bytes": buffer * TRUE_SIZE}
        values["deep"] = buffer if small else DEEP
        # CoDel's target is 5 % of its interval.
        values |= {"rtt": round(rtt), "target": round(rtt / 20)}
        return Qdisc(BOTTLENECK, self.kind, tuple(" ".join(words).format(**values).split()))


LIMIT = "limit {buffer}"
#: Without lowered receive windows.
PACED = (("windows", "off"),)
CODEL = "target {target}ms interval {rtt}ms"
#: Links that know assigned traffic by its marks, of which only agents set any; and one queue for
#: each band instead of one for each flow.
BANDS = f"{LIMIT} bands domain all"
FIFOS = "flows 1 flows_new 1 hosts 1"
#: slbnd for such links: what is above rates may use whatever is idle.
MARKING = (("windows", "on"), ("borrow", "on"), ("marks", "on"), ("excess", "unassigned"))
STACKS = {
    stack.name: stack
    for stack in (
        Stack("pfifo", "pfifo", LIMIT),
        Stack("fq_codel", "fq_codel", "", LIMIT, CODEL, "ce_threshold 1ms"),
        Stack("cake", "cake", "bandwidth {rate}bit", "memlimit {bytes}", "rtt {rtt}ms"),
        Stack("fq_pie", "fq_pie", small=LIMIT),
        Stack("drr_fq", "drr_fq", LIMIT),
        Stack("drr_fq-codel", "drr_fq", "limit {deep} codel ecn", "", CODEL, "ce_threshold 1ms"),
        Stack("slbn", "drr_fq", LIMIT, slbn="", agent=PACED),
        Stack("slbn-windows", "drr_fq", LIMIT, slbn="headroom 1", agent=(("windows", "on"),)),
        Stack(
            "slbn-borrow",
            "drr_fq",
            LIMIT,
            slbn="headroom 1",
            agent=(("windows", "on"), ("borrow", "on")),
        ),
        Stack("slbn-bands", "drr_fq", BANDS, slbn="headroom 1", agent=MARKING),
        Stack("slbn-fifo", "drr_fq", f"{BANDS} {FIFOS}", slbn="headroom 1", agent=MARKING),
        Stack("slbn-nocommit", "drr_fq", LIMIT, slbn="commit off", agent=PACED),
        Stack("dualpi2", "dualpi2", small=LIMIT, dctcp="any_ect", only=L4S),
    )
}
#: What `fairlab compare` is about: these are compared with all others.
OURS = ("drr_fq", "drr_fq-codel", "slbn")


def cases(stacks: tuple[str, ...], ccs: tuple[str, ...]) -> list[tuple[str, str]]:
    """The pairs of a stack and a congestion control: dualpi2 has its own ones."""
    return [
        (name, cc) for name in stacks for cc in (STACKS[name].only or [c for c in ccs if c in CCS])
    ]


def case_name(stack: str, cc: str) -> str:
    """A pair in the name of a file."""
    return f"{stack}_in_{cc}"


def split_case(name: str) -> tuple[str, str]:
    """The pair in the name of a file."""
    stack, _, cc = name.partition("_in_")
    return stack, cc
